//! AF_XDP: a bridge whose frames the program reads and sends where the kernel has put them.
//!
//! A small program at each interface, which the kernel runs before its own stack, redirects all frames to a socket. So the
//! host sees none of them, and the bridge is the only path between the interfaces. The program goes with the process, even
//! if that is killed; from then on the host receives the frames again, and nothing forwards them.
//!
//! - Kernel and program share one memory for both interfaces, in chunks of 2 KiB. The kernel copies each frame into a
//!   chunk, and out of it again (copy mode); this program never copies one.
//! - Each direction owns half of the chunks, the fill and receive ring of one interface, and the send and completion ring of
//!   the other. So two threads need no lock.
//! - VLAN tags stay in the frames, unless the interface takes them out before: such interfaces are refused, because a
//!   frame would be forwarded without its tag.
//! - Frames longer than 1,792 bytes do not fit in a chunk, because the kernel keeps 256 bytes of it free; it drops and
//!   counts them. So offloads that merge frames (GRO, LRO) must be off.
//! - Checksums that a sender on this host has left to its interface are forwarded unfinished, and cannot be told from
//!   wrong ones.
//! - An interface must have one queue. Frames of other queues would be dropped, without a count.
//!
//! ```no_run
//! use firstmatch_live::Interface;
//! use firstmatch_live::path::Path;
//! use firstmatch_live::xdp::{Forwarder, XdpConfig};
//!
//! # fn main() -> std::io::Result<()> {
//! let (a, b) = (Interface::of_name("eth0")?, Interface::of_name("eth1")?);
//! let [mut there, back] = Forwarder::open_pair(&a, &b, &XdpConfig::default())?;
//! there.start()?;
//! back.start()?;
//! there.take();
//! let sent = there.finish(|_, frame| frame.bytes < 100);
//! println!("{} sent, {} lost", sent.sent, sent.lost);
//! # Ok(())
//! # }
//! ```

mod forwarder;
mod memory;
mod port;
mod program;

pub use forwarder::{Forwarder, XdpConfig};
pub use program::Mode;
