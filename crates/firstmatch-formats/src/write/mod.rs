//! Writers of rule files: a [`RuleSet`] and a [`Policy`](crate::Policy) in, text out.
//!
//! No file is opened here. **Anything that a format cannot hold is an error** that names it with its rule and field.
//! Nothing is left out and nothing is made up. The text reads back as the same rules in the same order:
//!
//! - [`native`] holds every rule over its own fields and over schemas of no family, and live sets. It keeps the order of rules, but
//!   not the numbers of their priorities, their ids or their lines, because these follow from the new lines. Sets are
//!   written out where they were used.
//! - [`classbench`] holds rules over one 5-tuple, with one prefix, range or mask per field.
//! - [`Format::Ios`] is access lists of Cisco IOS, one for each family. They decide the same, but are not the same rules.
//!
//! ```
//! use firstmatch_formats::{Format, Options};
//!
//! let file = firstmatch_formats::parse("family ipv4\nset web = { 80, 443 }\nmatch tcp dport $web\n", &Options::default())?;
//! let mut text = String::new();
//! firstmatch_formats::write::write(&file, Format::Native, &mut text)?;
//! assert!(text.ends_with("\nmatch tcp dport { 80, 443 }\n"));
//!
//! let error = firstmatch_formats::write::write(&file, Format::ClassBench, &mut String::new()).unwrap_err();
//! assert!(error.to_string().contains("line 3: dport: a list of 2 values"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod classbench;
mod ios;
mod items;
mod native;

use std::fmt::{self, Write};

pub use classbench::classbench;
pub use native::{native, native_rule};

use super::{Format, RuleFile};
use firstmatch_core::policy::Fragments;
use firstmatch_core::rule::{Rule, RuleId, RuleSet, Test};

/// Number of faults that a [`WriteError`] keeps.
const MAX_FAULTS: usize = 20;

/// Writes a rule file.
///
/// # Errors
/// If the format cannot hold the content of the file, or `out` fails. The text written until then is not the whole
/// file.
pub fn write(file: &RuleFile, format: Format, out: &mut dyn Write) -> Result<(), WriteError> {
    match format {
        Format::Native => native::file(file, out),
        Format::ClassBench => classbench::file(file, out),
        Format::Iptables | Format::Ip6tables => {
            let fault = Unwritable::new("rules of iptables are only read");
            Err(WriteError { faults: vec![fault], more: 0 })
        }
        Format::Ios => ios::file(file, out),
        Format::Aws => {
            let fault = Unwritable::new("security groups and network ACLs of AWS are only read");
            Err(WriteError { faults: vec![fault], more: 0 })
        }
        Format::Nxos => {
            let fault = Unwritable::new("access lists of NX-OS are only read");
            Err(WriteError { faults: vec![fault], more: 0 })
        }
    }
}

/// Part of a rule file that a format cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unwritable {
    rule: Option<RuleId>,
    line: Option<u32>,
    field: Option<Box<str>>,
    what: String,
}

impl Unwritable {
    /// Returns the rule concerned; `None` if it is the set as a whole, or its policy.
    pub fn rule(&self) -> Option<RuleId> {
        self.rule
    }

    /// Returns the line of that rule, if it came from a file.
    pub fn line(&self) -> Option<u32> {
        self.line
    }

    /// Returns the name of the field concerned, if there is one.
    pub fn field(&self) -> Option<&str> {
        self.field.as_deref()
    }

    /// Describes the fault and its reason, without rule and field.
    pub fn what(&self) -> &str {
        &self.what
    }

    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { rule: None, line: None, field: None, what: what.into() }
    }

    fn of(mut self, field: &str) -> Self {
        self.field = Some(field.into());
        self
    }

    fn by(mut self, rule: &Rule) -> Self {
        self.rule = Some(rule.id);
        self.line = rule.line.map(u32::from);
        self
    }
}

/// Writes `line 5: dport: a list of 2 values …`.
impl std::error::Error for Unwritable {}

impl fmt::Display for Unwritable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.rule) {
            (Some(line), _) => write!(f, "line {line}: ")?,
            (None, Some(rule)) => write!(f, "rule {rule}: ")?,
            (None, None) => {}
        }
        if let Some(field) = &self.field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Error of writing rules.
///
/// It lists everything that the format cannot hold, in the order of rules, up to a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteError {
    faults: Vec<Unwritable>,
    more: usize,
}

impl WriteError {
    /// Returns the parts that the format cannot hold; empty if the output failed.
    pub fn faults(&self) -> &[Unwritable] {
        &self.faults
    }

    /// Number of faults beyond those kept.
    pub fn more(&self) -> usize {
        self.more
    }
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.faults.is_empty() {
            return f.write_str("the output cannot be written");
        }
        for (index, fault) in self.faults.iter().enumerate() {
            let newline = if index > 0 { "\n" } else { "" };
            write!(f, "{newline}{fault}")?;
        }
        if self.more > 0 { write!(f, "\nand {} more", self.more) } else { Ok(()) }
    }
}

impl std::error::Error for WriteError {}

/// Output that takes nothing more after the first fault.
///
/// From then on, rules are only checked for further faults.
struct Sink<'o> {
    out: &'o mut dyn Write,
    faults: Vec<Unwritable>,
    more: usize,
    failed: bool,
}

impl<'o> Sink<'o> {
    fn new(out: &'o mut dyn Write) -> Self {
        Self { out, faults: Vec::new(), more: 0, failed: false }
    }

    fn fault(&mut self, fault: Unwritable) {
        if self.faults.len() < MAX_FAULTS { self.faults.push(fault) } else { self.more += 1 }
    }

    fn text(&mut self, text: &str) {
        if self.faults.is_empty() && !self.failed {
            self.failed = self.out.write_str(text).is_err();
        }
    }

    /// Writes each rule on a line of its own.
    fn rules(&mut self, rules: &RuleSet, mut line: impl FnMut(&Rule, &mut String) -> Result<(), Unwritable>) {
        let mut text = String::new();
        for rule in rules.iter() {
            text.clear();
            match line(rule, &mut text) {
                Ok(()) => {
                    text.push('\n');
                    self.text(&text);
                }
                Err(fault) => self.fault(fault.by(rule)),
            }
            if self.failed {
                return;
            }
        }
    }

    fn finish(self) -> Result<(), WriteError> {
        if self.faults.is_empty() && !self.failed {
            return Ok(());
        }
        Err(WriteError { faults: self.faults, more: self.more })
    }
}

/// Returns the word for `fragments` in rule files.
pub(crate) fn fragments_name(fragments: Fragments) -> &'static str {
    match fragments {
        Fragments::Unknown => "unknown",
        Fragments::Layer3 => "layer3",
    }
}

/// Returns the prefix, as value and length, that passes exactly the values of `test`.
///
/// `None` if a field of `width` bits has no such prefix, or no value passes. For example, the range 8 to 15 of a field
/// of 4 bits is the prefix of value 8 and length 1.
fn as_prefix(test: Test, width: u32) -> Option<(u128, u32)> {
    let max = u128::MAX >> (128 - width);
    // The free bits must be the lowest ones.
    let of = |value: u128, free: u128| {
        (free & free.wrapping_add(1) == 0 && value & free == 0).then(|| (value, width - free.count_ones()))
    };
    match test {
        Test::Value(value) => Some((value, width)),
        Test::Prefix { value, len } => Some((value, len)),
        Test::Range { lo, hi } => of(lo, lo ^ hi),
        Test::Mask { value, mask } => of(value, !mask & max),
        Test::Absent | Test::Set(_) => None,
    }
}

/// Returns the range that passes exactly the values of `test`.
///
/// `None` if a field of `width` bits has no such range.
fn as_range(test: Test, width: u32) -> Option<(u128, u128)> {
    if let Test::Range { lo, hi } = test {
        return Some((lo, hi));
    }
    let (value, len) = as_prefix(test, width)?;
    let free = u128::MAX.checked_shr(128 - (width - len)).unwrap_or(0);
    Some((value, value | free))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_is_another_form_only_if_both_pass_the_same_values() {
        let width = 4;
        let mut tests = Vec::new();
        for a in 0..16u128 {
            tests.push(Test::Value(a));
            tests.extend((0..=4).filter(|&len| a & (15u128 >> len) == 0).map(|len| Test::Prefix { value: a, len }));
            tests.extend((a..16).map(|hi| Test::Range { lo: a, hi }));
            tests.extend((0..16).filter(|mask| a & !mask == 0).map(|mask| Test::Mask { value: a, mask }));
        }
        let values = |test: Test| (0..16).filter(|&v| test.passes(v, width)).collect::<Vec<u128>>();
        let prefixes: Vec<_> = tests.iter().filter(|t| matches!(t, Test::Prefix { .. })).map(|&t| values(t)).collect();
        for test in tests {
            let all = values(test);
            let prefix = as_prefix(test, width).map(|(value, len)| values(Test::Prefix { value, len }));
            assert_eq!(prefix, prefixes.contains(&all).then(|| all.clone()), "{test:?}");
            let range = as_range(test, width).map(|(lo, hi)| values(Test::Range { lo, hi }));
            let is_range = all.windows(2).all(|pair| pair[1] == pair[0] + 1);
            assert_eq!(range, is_range.then_some(all), "{test:?}");
        }
        assert_eq!(as_range(Test::Prefix { value: 0, len: 0 }, 128), Some((0, u128::MAX)));
        assert_eq!(as_prefix(Test::Range { lo: 0, hi: u128::MAX }, 128), Some((0, 0)));
    }
}
