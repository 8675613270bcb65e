//! Packet input for `firstmatch`: reads captures and turns packets into keys.
//!
//! - [`wire`] parses headers. No other code knows byte order. It never panics, allocates nothing for a packet and gives
//!   every packet exactly one [`wire::Outcome`].
//! - [`source`] reads captures (pcap, pcapng), ClassBench traces, tables of header fields and flow logs, plain or
//!   compressed by gzip or zstd. It reads them as streams, so that memory does not depend on the size of the file. It
//!   needs the feature `captures`, which is on by default.
//! - `plane` carries packets through stages of threads with rings between them. It needs the feature `plane`.
//! - `systems` builds planes over engines: lookups as steps, in copies, in parts, by fields or behind shared boxes. It
//!   needs the feature `systems`.
//!
//! ```no_run
//! use firstmatch_core::{Policy, Schema};
//! use firstmatch_net::source::{self, Input};
//! use firstmatch_net::wire::{Batch, Config};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut batch = Batch::new(&Config::from(&Policy::default()), &[Schema::ipv4(), Schema::ipv6()])?;
//! let mut capture = source::open("trace.pcap.gz".as_ref())?.into_capture()?;
//! while let Some(packet) = capture.next()? {
//!     batch.push(&packet);
//!     if batch.len() == 256 {
//!         let _ipv4 = batch.keys(0); // batch.look_up calls classify_batch
//!         batch.clear();
//!     }
//! }
//! if let Some(cut) = capture.cut() {
//!     // Every whole packet was delivered; say that the rest is missing.
//!     let _warning = cut.to_string();
//! }
//! # Ok(())
//! # }
//! ```
#![deny(unsafe_code)]

#[cfg(feature = "plane")]
pub mod plane;
#[cfg(feature = "captures")]
pub mod source;
#[cfg(feature = "systems")]
pub mod systems;
pub mod wire;
