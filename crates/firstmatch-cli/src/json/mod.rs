//! Rule files as JSON, for scripts. `docs/json.md` is the manual.
//!
//! Reading is strict: an unknown or repeated member is a fault, and every fault is shown where it stands, with its
//! JSON pointer. [`node`] finds places in the text, [`schema`] and [`rule`] know what stands there.

mod node;
mod read;
mod rule;
mod schema;
#[cfg(test)]
mod tests;
mod value;
mod write;

use firstmatch::Diagnostic;
use firstmatch::format::RuleFile;

pub(crate) use read::read;
pub(crate) use write::write;

/// What the member `format` says.
const FORMAT: &str = "firstmatch-rules";
const VERSION: u64 = 1;
/// The largest number that every reader of JSON keeps exact, 2^53 - 1. Larger ones are strings.
const MAX_NUMBER: u128 = (1 << 53) - 1;

/// A rule file that was read.
#[derive(Debug)]
pub(crate) struct Read {
    pub(crate) file: RuleFile,
    /// The line of the text on which each rule begins, by slot; 0 where there is none.
    pub(crate) lines: Vec<u32>,
}

/// Why a rule file was refused: its faults in order, up to a cap, and how many more there are.
#[derive(Debug)]
pub(crate) struct Faults {
    pub(crate) faults: Vec<Diagnostic>,
    pub(crate) more: usize,
}

/// Whether a text is JSON: a native file cannot begin with a brace, nor can a ClassBench one.
pub(crate) fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}
