//! AF_PACKET: sockets, and rings of received frames that kernel and program share.

mod block;
mod ring;
mod socket;

pub use block::Frame;
pub use ring::{Block, Direction, Meter, Ring, RingConfig};
pub(crate) use socket::flags_of;
pub use socket::{Socket, Statistics};
