//! Rule files as JSON, for scripts. `docs/json.md` is the manual.
//!
//! Reading is strict: an unknown or repeated member is a fault. Every fault is shown at its place, with its JSON
//! pointer. `node` finds places in the text, `schema` and `rule` read the values there.

pub(crate) mod node;
mod read;
mod rule;
mod schema;
#[cfg(test)]
mod tests;
mod value;
mod write;

use crate::RuleFile;
use firstmatch_core::Diagnostic;

pub use read::read;
pub use write::write;

/// Value of the member `format`.
const FORMAT: &str = "firstmatch-rules";
const VERSION: u64 = 1;
/// Largest number that every reader of JSON keeps exact, 2^53 - 1. Larger numbers are strings.
const MAX_NUMBER: u128 = (1 << 53) - 1;

/// Rule file that was read.
#[derive(Debug)]
pub struct Read {
    /// The rules, as from any format.
    pub file: RuleFile,
    /// Line of the text on which each rule begins, by slot; 0 if there is no rule.
    pub lines: Vec<u32>,
}

/// Faults of a refused rule file, in order, up to a cap, and the number of further ones.
#[derive(Debug)]
pub struct Faults {
    /// Faults in order.
    pub faults: Vec<Diagnostic>,
    /// Number of faults beyond those kept.
    pub more: usize,
}

/// Whether a text is a rule file as JSON: neither a native nor a ClassBench file can begin with a brace, and files of AWS
/// are another format.
pub fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{') && !crate::foreign::is_aws(text)
}
