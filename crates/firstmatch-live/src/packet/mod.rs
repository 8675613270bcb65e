//! AF_PACKET: sockets, and rings of received frames that kernel and program share.

mod block;
pub(crate) mod ethtool;
mod memory;
mod ring;
mod send;
mod slots;
mod socket;

pub use ring::{Direction, Ring, RingConfig};
pub use slots::Slots;
pub use socket::Socket;
