//! Live traffic: a copy of an interface's frames, and the decisions of rules on them. Linux alone.
//!
//! - [`Interface`]: an interface by its name, and whether it is up or gone.
//! - [`packet`]: sockets and receive rings of AF_PACKET.
//! - [`Lanes`]: threads that each take frames from a ring and decide them; [`Counts`] sums up what they did.
//! - [`Watcher`]: which files have changed.
//! - [`capture`]: samples of denied packets, written as a capture.
//! - [`become_user`]: giving up the user root.
//!
//! ```no_run
//! use firstmatch::Firewall;
//! use firstmatch_live::packet::{Ring, RingConfig};
//! use firstmatch_live::{Interface, Lanes};
//!
//! # fn main() -> std::io::Result<()> {
//! let firewall = Firewall::builder().counters(true).build("deny tcp dport 23\npermit\n").expect("two rules");
//! let interface = Interface::of_name("eth0")?;
//! let rings = Ring::open(&interface, &RingConfig::default())?;
//! let lanes = Lanes::start(rings, &firewall, None)?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! let (counts, losses) = lanes.finish()?;
//! assert_eq!(losses.received, counts.all().packets + losses.lost);
//! # Ok(())
//! # }
//! ```
#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

pub mod capture;
mod counts;
mod lane;
mod lanes;
mod link;
pub mod packet;
mod user;
mod watcher;

pub use counts::Counts;
pub use lanes::Lanes;
pub use link::Interface;
pub use user::become_user;
pub use watcher::{WatchedFile, Watcher};
