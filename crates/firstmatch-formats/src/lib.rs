//! Rule formats: text in, a [`RuleSet`] and a [`Policy`] out.
//!
//! [`mod@write`] does the reverse. No file is opened here.
//!
//! - [`native`]: this project's own format, one rule per line.
//! - [`classbench`]: the filter sets that the ClassBench generator writes.
//! - `json`: rules for scripts, behind the feature of that name.
//! - Output of `iptables-save` and `ip6tables-save`, read for the view of an [`Import`].
//! - Access lists of Cisco IOS, IOS-XE, IOS-XR, NX-OS and ASA in their configurations.
//!
//! ```
//! use firstmatch_formats::{Options};
//!
//! let file = firstmatch_formats::parse("permit tcp dst 192.0.2.0/24 dport { 80, 443 }\n", &Options::default())?;
//! assert_eq!(file.rules.len(), 1);
//!
//! let error = firstmatch_formats::parse("permit src 10.0.0.1/8\npermit dport 65536\n", &Options::default()).unwrap_err();
//! assert_eq!(error.faults().len(), 2);
//! # Ok::<(), firstmatch_formats::ParseError>(())
//! ```

#![deny(unsafe_code)]

mod address;
pub mod classbench;
mod contradiction;
mod error;
mod foreign;
mod hidden;
#[cfg(feature = "json")]
pub mod json;
pub mod native;
mod report;
mod suggest;
pub mod write;

pub use address::{parse_ipv4, parse_ipv6};
pub use contradiction::{Contradiction, Part, contradiction, extension_as_protocol};
pub use error::ParseError;
pub use foreign::{Hook, Import, RateLimit, State, Table};
pub use hidden::visible;
pub use native::parse_rule;

use std::collections::HashMap;

use firstmatch_core::Diagnostic;
use firstmatch_core::policy::Policy;
use firstmatch_core::rule::{ExpansionLimits, Rule, RuleId, RuleSet, RuleSpec};
use firstmatch_core::schema::Family;

/// Content of a rule file.
#[derive(Clone, Debug)]
pub struct RuleFile {
    /// Rules in their order.
    ///
    /// In a native file and a ClassBench filter set, the rule of line `n` has the priority
    /// [`Priority::of_line`]`(n)`. In a file of another firewall, several rules may have one line, and lines are not in
    /// order. Rule `n` of the list then has this priority.
    ///
    /// [`Priority::of_line`]: firstmatch_core::rule::Priority::of_line
    pub rules: RuleSet,
    /// Verdicts for packets that no rule decides.
    pub policy: Policy,
    /// Labels of rules that have one, by id.
    pub labels: Labels,
    /// Warnings in the order of lines: text that is allowed but probably a mistake.
    pub warnings: Vec<Diagnostic>,
    /// Number of warnings beyond those kept.
    pub more_warnings: usize,
    /// Lines of rules that decide no packet, as far as warnings say so, in order.
    ///
    /// Such a rule can never match, or an earlier one takes all its packets. All lines are here, also those of warnings
    /// beyond the ones kept, unless [`Options::max_warnings`] is 0.
    pub never: Vec<u32>,
    /// Lines of sets that no rule uses, in order.
    pub unused_sets: Vec<u32>,
    /// Sentences about the view that a file of another firewall was read for, such as the number of rules left out.
    pub notes: Vec<String>,
    /// The same file with its audit rules in force; `None` if it has none.
    ///
    /// An audit rule decides nothing, so [`RuleFile::rules`] lacks it, and its schemas lack the fields that only audit
    /// rules test. A lookup in both sets shows what the rule would do. In this set it has its own place among the other
    /// rules.
    ///
    /// ```
    /// use firstmatch_formats::{Options, parse};
    ///
    /// let file = parse("audit deny tcp dport 23\npermit\n", &Options::default())?;
    /// let in_force = file.audited.as_ref().expect("an audit rule");
    /// assert_eq!((file.rules.len(), in_force.rules.len()), (1, 2));
    /// assert!(in_force.rules.iter().map(|rule| file.is_audit(rule)).eq([true, false]));
    /// # Ok::<(), firstmatch_formats::ParseError>(())
    /// ```
    pub audited: Option<Box<RuleFile>>,
}

impl RuleFile {
    /// Returns a file of rules and policy, without labels, warnings or audit rules.
    pub fn new(rules: RuleSet, policy: Policy) -> Self {
        let (labels, warnings, never, unused_sets, notes) = Default::default();
        Self { rules, policy, labels, warnings, more_warnings: 0, never, unused_sets, notes, audited: None }
    }

    /// Whether a rule of [`RuleFile::audited`] is an audit rule.
    pub fn is_audit(&self, rule: &Rule) -> bool {
        self.rules.at(rule.priority).is_none()
    }

    /// Returns the rules with the audit rules among them, and the labels of both.
    fn all_rules(&self) -> (&RuleSet, &Labels) {
        let all = self.audited.as_deref().unwrap_or(self);
        (&all.rules, &all.labels)
    }
}

/// Labels of rules, by id.
pub type Labels = HashMap<RuleId, Box<str>>;

/// Largest number of characters of a label.
const MAX_LABEL: usize = 200;

/// Returns the reason why a text cannot be a label; `None` if it can.
fn no_label(text: &str) -> Option<String> {
    match text {
        "" => Some("a label without a character".to_owned()),
        _ if text.chars().count() > MAX_LABEL => Some(format!("a label of more than {MAX_LABEL} characters")),
        _ if text.contains(['"', '\n']) || visible(text) != text => {
            Some("a label with a quote or a character that is not visible".to_owned())
        }
        _ => None,
    }
}

/// Rule that was read for an existing set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedRule {
    /// Rule whose conditions are bound to the fields of the set.
    pub spec: RuleSpec,
    /// Warnings: text that is allowed but probably a mistake.
    pub warnings: Vec<Diagnostic>,
}

/// Fields of the schema of a native rule file for IP networks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fields {
    /// The 5-tuple, and the other fields that a rule of the file tests.
    ///
    /// Packets and keys are then no wider than needed, and no packet is unknown because of a field that no rule tests.
    #[default]
    Used,
    /// All fields, so that later rules may test fields that the rules of the file do not test.
    ///
    /// A packet that hides one of them is unknown, whether or not a rule tests it.
    All,
}

/// Rule format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// Native format, see [`native`].
    Native,
    /// ClassBench filter set, see [`classbench`].
    ClassBench,
    /// Output of `iptables-save`, which is only read.
    Iptables,
    /// Output of `ip6tables-save`, which is only read.
    Ip6tables,
    /// Configuration of Cisco IOS, IOS-XE, IOS-XR or ASA, of which one access list is read; access lists are written.
    Ios,
    /// Configuration of Cisco NX-OS, whose lists of IPv6 permit more of neighbour discovery, which is only read.
    Nxos,
    /// Security groups or network ACLs of AWS, as `aws ec2 describe-security-groups`, `describe-security-group-rules` and
    /// `describe-network-acls` print them; only read, with the feature `json`.
    Aws,
}

impl Format {
    /// Whether this is a format of another firewall, read for the view of an [`Import`].
    pub fn is_foreign(self) -> bool {
        self.has_views() || self.has_lists()
    }

    /// Whether rules of this format depend on the hook, the interfaces and the state of connections.
    pub fn has_views(self) -> bool {
        matches!(self, Self::Iptables | Self::Ip6tables | Self::Aws)
    }

    /// Whether a file of this format may have several lists, of which [`Import::list`] names one.
    pub fn has_lists(self) -> bool {
        matches!(self, Self::Ios | Self::Nxos | Self::Aws)
    }
}

/// Options for reading a rule file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Format; `None` determines it from the text (see [`sniff`]).
    pub format: Option<Format>,
    /// Number of faults that a [`ParseError`] keeps, at least 1.
    pub max_faults: usize,
    /// Number of warnings kept. At 0, covered rules are not searched for.
    pub max_warnings: usize,
    /// Limits on the regions of a rule. A rule that exceeds one is a fault of its line.
    pub expansion: ExpansionLimits,
    /// Largest number of values that the sets of a native file may have together.
    ///
    /// Values count where a set is defined and again where it is used.
    pub max_expanded: usize,
    /// Whether the flags column of ClassBench becomes a field, `flags`.
    pub flags: bool,
    /// Fields of native rules for IP networks.
    ///
    /// Files with a schema of their own, and ClassBench files, always have all their fields.
    pub fields: Fields,
    /// View of a file of another firewall.
    pub import: Import,
}

impl Default for Options {
    fn default() -> Self {
        let expansion = ExpansionLimits::default();
        Self {
            format: None,
            max_faults: 20,
            max_warnings: 20,
            expansion,
            max_expanded: 1 << 24,
            flags: false,
            fields: Fields::Used,
            import: Import::default(),
        }
    }
}

/// Reads a rule file.
///
/// # Errors
/// If the file has a fault. The error holds all faults, in order, up to [`Options::max_faults`]. A file of another
/// program that is not read, such as pf, has one fault that names the program. A set that includes a file is a fault; see
/// [`parse_with`].
pub fn parse(text: &str, options: &Options) -> Result<RuleFile, ParseError> {
    parse_with(text, options, &native::no_files)
}

/// Function that returns the text of a file that a set includes, by its name as it is written.
///
/// The error describes why there is no text.
pub type Load<'l> = dyn Fn(&str) -> Result<String, String> + 'l;

/// Reads a rule file whose sets may include files, which `load` reads.
///
/// ```
/// use firstmatch_formats::{Options, parse_with};
///
/// let load = |name: &str| match name {
///     "bad.txt" => Ok("192.0.2.1\n198.51.100.0/24 # a network\n".to_owned()),
///     _ => Err("no such file".to_owned()),
/// };
/// let text = "set bad = { include \"bad.txt\" }\ndeny src $bad\n";
/// let file = parse_with(text, &Options::default(), &load)?;
/// let same = firstmatch_formats::parse("\ndeny src { 192.0.2.1, 198.51.100.0/24 }\n", &Options::default())?;
/// assert!(file.rules.iter().eq(same.rules.iter()));
/// # Ok::<(), firstmatch_formats::ParseError>(())
/// ```
///
/// # Errors
/// As [`parse`], or if a file that is included has a fault. The message then begins with its name, line and column.
pub fn parse_with(text: &str, options: &Options, load: &Load<'_>) -> Result<RuleFile, ParseError> {
    match options.format.unwrap_or_else(|| sniff(text)) {
        Format::Native => native::parse_with(text, options, load).map_err(|error| foreign::instead(text, error)),
        Format::ClassBench => classbench::parse(text, options),
        Format::Iptables => foreign::iptables(text, Family::Ipv4, options),
        Format::Ip6tables => foreign::iptables(text, Family::Ipv6, options),
        Format::Ios => foreign::ios(text, false, options),
        Format::Nxos => foreign::ios(text, true, options),
        Format::Aws => foreign::aws(text, options),
    }
}

/// Returns the format of a text.
///
/// It is ClassBench if the first line that is neither blank nor a comment starts with `@`. It is iptables if that line
/// names a table, such as `*filter`, or begins with `-A`, `-N` or `-P`. Addresses and comments show the family. It is
/// IOS if that line begins an access list, or is of a configuration that has one below. It is AWS if the text is a JSON
/// object with security groups or network ACLs.
pub fn sniff(text: &str) -> Format {
    if foreign::is_aws(text) {
        return Format::Aws;
    }
    let lines = text.strip_prefix(BOM).unwrap_or(text).lines().map(str::trim_start);
    let first = lines.into_iter().find(|line| !line.is_empty() && !line.starts_with('#'));
    match first {
        Some(line) if line.starts_with('@') => Format::ClassBench,
        Some(line) => foreign::sniff(line, text).unwrap_or(Format::Native),
        None => Format::Native,
    }
}

/// Byte order mark, which some editors put before the text. It is not part of any line.
const BOM: char = '\u{feff}';

/// Largest number of lines of a file, because the rule of each line has its own priority.
const MAX_LINES: u32 = u32::MAX - 1;
