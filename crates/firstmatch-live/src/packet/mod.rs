//! AF_PACKET: sockets, and rings of received frames that kernel and program share.

mod block;
mod memory;
mod ring;
mod socket;

pub use ring::{Direction, Ring, RingConfig};
pub use socket::Socket;
pub(crate) use socket::flags_of;
