//! The harness: every engine, in every configuration, at every SIMD level, against the oracle.
//!
//! `engines` lists what is tested, in one place. `case` holds packets with their right answers and puts them to an
//! engine in batches of every length. `corpus` reads `testdata/`, `differential` draws rule sets at random, `lowering`
//! and `tiny` walk whole small domains, `lists` has conditions on thousands of addresses, `updates` changes rules and
//! compares after every few changes, `writing` writes rules and reads them back, `cache` is about what a cache keeps
//! and when it steps aside, `meta` about writers, readers and rebuilds, `choice` about the bases it takes, `caps` about
//! those it refuses, `due` about when a rebuild is due, `bounds` about limits at their very numbers, `memory` counts
//! every byte, `allocation` finds lookups that take any, `sharing` is about scratches and threads, `beside` about what
//! counts and asks beside a writer, `limit` has tests of threads end. `broken` holds engines with one thing wrong: the
//! tests assert that they would be caught.

mod allocation;
mod beside;
mod bounds;
mod broken;
mod cache;
mod caps;
mod case;
mod choice;
mod corners;
mod corpus;
mod counter;
mod differential;
mod due;
mod engines;
mod generate;
mod limit;
mod lists;
mod lowering;
mod memory;
mod meta;
mod rng;
mod script;
mod sharing;
mod tiny;
mod updates;
mod writing;
