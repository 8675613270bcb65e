//! What the tests and fuzz targets of several crates share.
//!
//! - [`engines`] lists what is tested: every engine of the registry, in every configuration, at every SIMD level.
//!   [`broken`] has engines with one thing wrong, which tests must catch.
//! - [`case`] holds packets with the oracle's answers, [`corners`] draws packets where mistakes show, [`generate`]
//!   draws rule sets, and [`rng`] is the one generator of random bits. [`ids`] sees that no id is given twice.
//! - [`counter`] counts allocations, [`limit`] ends tests of threads in time, and [`layers`] finds files that import
//!   each other in a circle. [`skip`] names what is not checked.
//! - With the feature `net`: [`frames`] has frames of all sorts, [`mod@reference`] another parser to compare with, and
//!   [`invariants`] what holds for the headers of any frame, and [`ways`] the ways from a frame to a row.
#![deny(unsafe_code)]
#![expect(missing_docs, missing_debug_implementations, reason = "tests alone use it")]
#![expect(clippy::expect_used, reason = "tests fail where they cannot go on")]

pub mod broken;
pub mod case;
pub mod corners;
pub mod counter;
pub mod engines;
#[cfg(feature = "net")]
pub mod frames;
pub mod generate;
pub mod ids;
#[cfg(feature = "net")]
pub mod invariants;
pub mod layers;
pub mod limit;
#[cfg(feature = "net")]
pub mod reference;
pub mod rng;
mod skip;
#[cfg(feature = "net")]
pub mod ways;

pub use skip::skip;
