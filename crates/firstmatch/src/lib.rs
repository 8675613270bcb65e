//! Packet classification: for every packet the first rule that matches.
#![deny(unsafe_code)]

mod budget;
mod engine;
mod error;
pub mod format;
mod key;
pub mod linear;
pub mod policy;
pub mod rule;
pub mod schema;
pub mod simd;
pub mod tuple;

pub use budget::Budget;
pub use engine::{Classifier, Engine, Match, Scratch, Stats, Updatable};
pub use error::{BuildError, Diagnostic, ParseError, UpdateError};
pub use key::{KeyBuf, Keys};
pub use policy::{Policy, Verdict};
pub use rule::{RuleId, RuleSet};
pub use schema::Schema;
