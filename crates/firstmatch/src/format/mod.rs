//! Rule formats: text in, a [`RuleSet`] and a [`Policy`] out; and, in [`mod@write`], the way back. No file is opened
//! here.
//!
//! - [`native`]: this project's own format, one rule a line.
//! - [`classbench`]: the filter sets that the ClassBench generator writes.
//!
//! ```
//! use firstmatch::format::{self, Options};
//!
//! let file = format::parse("permit tcp dst 192.0.2.0/24 dport { 80, 443 }\n", &Options::default())?;
//! assert_eq!(file.rules.len(), 1);
//!
//! let error = format::parse("permit src 10.0.0.1/8\npermit dport 65536\n", &Options::default()).unwrap_err();
//! assert_eq!(error.faults().len(), 2);
//! # Ok::<(), firstmatch::ParseError>(())
//! ```

pub mod classbench;
mod contradiction;
pub mod native;
mod report;
mod suggest;
pub mod write;

pub use contradiction::{Contradiction, Part, contradiction, extension_as_protocol};
pub use native::parse_rule;

use crate::error::{Diagnostic, ParseError};
use crate::policy::Policy;
use crate::rule::{Caps, RuleSet, RuleSpec};

/// What a rule file says.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// The rules in the order of their lines: the rule of line `n` has the priority [`Priority::of_line`]`(n)`.
    ///
    /// [`Priority::of_line`]: crate::rule::Priority::of_line
    pub rules: RuleSet,
    /// What becomes of packets beyond the rules.
    pub policy: Policy,
    /// What is allowed but hardly meant, in the order of lines.
    pub warnings: Vec<Diagnostic>,
    /// How many warnings there are beyond those kept.
    pub more_warnings: usize,
}

/// One rule, read for a set that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRule {
    /// The rule, its conditions bound to the fields of the set.
    pub spec: RuleSpec,
    /// What is allowed but hardly meant.
    pub warnings: Vec<Diagnostic>,
}

/// Fields of the schema of a native rule file for IP networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fields {
    /// The 5-tuple, and of the others those that a rule of the file tests. Packets and keys are then no wider, and no
    /// packet is unknown for a field that no rule asks for.
    #[default]
    Used,
    /// All there are, so that rules that come later may test what those of the file do not. A packet that hides one
    /// of them is unknown, whether or not a rule tests it.
    All,
}

/// The formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// See [`native`].
    Native,
    /// See [`classbench`].
    ClassBench,
}

/// How to read a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The format; `None` looks at the text (see [`sniff`]).
    pub format: Option<Format>,
    /// How many faults a [`ParseError`] keeps, at least 1.
    pub max_faults: usize,
    /// How many warnings are kept. Where none are, rules behind others that hold them are not looked for.
    pub max_warnings: usize,
    /// Limits on the regions of a rule. A rule beyond is a fault of its line.
    pub caps: Caps,
    /// How many values the sets of a native file may come to, where they are defined and where they are used.
    pub max_expanded: usize,
    /// Whether the flags column of ClassBench becomes a field, `flags`.
    pub flags: bool,
    /// Fields of native rules for IP networks. The fields of a schema of the file's own, and of ClassBench, are
    /// always all.
    pub fields: Fields,
}

impl Default for Options {
    fn default() -> Self {
        let caps = Caps::default();
        Self {
            format: None,
            max_faults: 20,
            max_warnings: 20,
            caps,
            max_expanded: 1 << 24,
            flags: false,
            fields: Fields::Used,
        }
    }
}

/// Reads a rule file.
///
/// # Errors
/// When the file has a fault; the error holds all of them, in order, up to [`Options::max_faults`].
pub fn parse(text: &str, options: &Options) -> Result<RuleFile, ParseError> {
    match options.format.unwrap_or_else(|| sniff(text)) {
        Format::Native => native::parse(text, options),
        Format::ClassBench => classbench::parse(text, options),
    }
}

/// The format of a text: ClassBench if the first line that is neither blank nor a comment starts with `@`.
pub fn sniff(text: &str) -> Format {
    let lines = text.strip_prefix(BOM).unwrap_or(text).lines().map(str::trim_start);
    let first = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#'));
    if first.is_some_and(|line| line.starts_with('@')) { Format::ClassBench } else { Format::Native }
}

/// Some editors put a byte order mark before the text. It belongs to no line.
const BOM: char = '\u{feff}';

/// The cap on the rules of a file: the rule of line `n` has a priority of its own.
const MAX_LINES: u32 = u32::MAX - 1;
