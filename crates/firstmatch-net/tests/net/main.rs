//! Tests of the crate: headers, sources of packets, and, with those features, planes and systems.
//!
//! - Headers: `wire` and `layers` of frames, `nested` ones, `presence` of fields, `fast` for common frames, `openflow`,
//!   `damage` of every byte, `agreement` and `captures` beside other parsers. `compared` has differences of rule files.
//! - Sources: `source` reads captures, `trace`, `table` and `flows` text. `answers` goes from a file to decisions, `allocation`
//!   counts memory.
//! - Threads: `plane` and `systems`.

use firstmatch_testkit::counter::Counting;

mod agreement;
mod allocation;
mod answers;
mod captures;
mod compared;
mod damage;
mod fast;
mod flows;
mod layers;
mod nested;
mod openflow;
#[cfg(feature = "plane")]
mod plane;
mod presence;
mod source;
#[cfg(feature = "systems")]
mod systems;
mod table;
mod trace;
mod wire;

#[global_allocator]
static COUNTING: Counting = Counting;
