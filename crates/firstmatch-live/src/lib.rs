//! Live traffic: a copy of an interface's frames, and the decisions of rules on them. Linux alone.
//!
//! - [`Interface`]: an interface by its name, and whether it is up or gone.
//! - [`path`]: where frames come from, and where they go.
//! - [`packet`]: sockets and receive rings of AF_PACKET, which are paths.
//! - [`xdp`]: paths over AF_XDP.
//! - [`Lanes`]: threads that each take frames from a path and decide them; [`Counts`] sums up what they did.
//! - [`systems`]: lookups of lanes by planes, arrangements of threads.
//! - [`Watcher`]: which files have changed.
//! - [`capture`]: samples of denied packets, written as a capture; [`samples`]: the last ones of each lane.
//! - `web`, with the feature of that name: a page, a JSON interface and metrics about all that.
//! - [`become_user`]: giving up the user root.
//!
//! ```no_run
//! use firstmatch::Firewall;
//! use firstmatch_live::packet::{Ring, RingConfig};
//! use firstmatch_live::{Interface, LaneOptions, Lanes};
//!
//! # fn main() -> std::io::Result<()> {
//! let firewall = Firewall::builder().counters(true).build("deny tcp dport 23\npermit\n").expect("two rules");
//! let interface = Interface::of_name("eth0")?;
//! let rings = Ring::open(&interface, &RingConfig::default())?;
//! let lanes = Lanes::start(rings, &firewall, &LaneOptions::default())?;
//! std::thread::sleep(std::time::Duration::from_secs(1));
//! let finished = lanes.finish()?;
//! assert_eq!(finished.statistics.received, finished.counts.all().packets + finished.statistics.lost);
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
mod netlink;
pub mod packet;
pub mod path;
pub mod samples;
pub mod systems;
mod user;
mod watcher;
#[cfg(feature = "web")]
pub mod web;
pub mod xdp;

pub use counts::{BATCH_BOUNDS, Batches, Counts};
pub use lane::{LaneOptions, OnPanic};
pub use lanes::{Failure, Finished, LaneState, Lanes};
pub use link::Interface;
pub use user::become_user;
pub use watcher::{WatchedFile, Watcher};
