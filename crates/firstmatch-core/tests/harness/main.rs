//! Harness: every engine, in every configuration, at every SIMD level, against the oracle.
//!
//! - Lists and drawing: `engines` lists what is tested, in one place. `case` holds packets with their right answers and
//!   puts them to an engine in batches of every length. `broken` holds engines with one thing wrong, and the tests
//!   assert that they would be caught.
//! - Answers: `corpus` reads `testdata/`, `differential` draws rule sets at random, `absent` those that ask
//!   for packets without a field, `lowering` and `tiny` walk whole
//!   small domains, `lists` has conditions on thousands of addresses, `products` rules without regions. `updates` changes rules and compares after every
//!   few changes; `writing` writes rules and reads them back.
//! - Live rules: `meta` is about writers, readers and rebuilds, `choice` about the bases that `meta` takes, `caps`
//!   about those it refuses, `hostile` about rules that nothing separates. `due` is about when a rebuild is due, and `beside` counts and asks beside a writer. `ids`
//!   drops and refuses transactions, and sees no id come back.
//! - Resources: `bounds` tests limits at their very numbers, `figures` compares sizes and bounds
//!   with files, `memory` counts every byte, `allocation` finds lookups
//!   that take any. `cache` is about what a cache keeps and when it steps aside, `sharing` about scratches and threads.
//!   `steps` is about counted steps, options and visits by name.
//!   `few` is all of this for engines whose tables multiply classes, over few rules.
//!   `limit` ends tests of threads in time. `model` explores the orders in which readers and the writer act.
//! - Questions: `analyze` is about rule sets, and `guide` compares a page with the engines.

mod absent;
mod allocation;
mod analyze;
mod beside;
mod bounds;
mod cache;
mod caps;
mod choice;
mod classes;
mod corpus;
mod differential;
mod due;
mod few;
mod figures;
mod guide;
mod hostile;
mod ids;
mod layers;
mod lists;
mod lowering;
mod memory;
mod meta;
mod model;
mod products;
mod script;
mod sharing;
mod steps;
mod tiny;
mod updates;
mod writing;

use firstmatch_testkit::{broken, case, corners, counter, engines, generate, limit, rng};

#[global_allocator]
static COUNTING: counter::Counting = counter::Counting;
