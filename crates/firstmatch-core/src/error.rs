//! Errors, one type per phase: building an engine, changing rules. [`Diagnostic`] is a fault or warning about a text.

use std::fmt;
use std::num::NonZeroU32;

use crate::rule::id::{Priority, RuleId, SetId};

/// Fault or warning in a text, with its position.
///
/// ```
/// let text = "deny tcp\npermit dport 70000\n";
/// let error = firstmatch_formats::parse(text, &firstmatch_formats::Options::default()).expect_err("a fault");
/// let fault = &error.faults()[0];
/// assert_eq!((fault.line, fault.column, fault.text.as_str()), (2, 14, "permit dport 70000"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Line, from 1.
    pub line: u32,
    /// First column, from 1, counted in characters.
    pub column: u32,
    /// Number of characters meant; 0 points between two characters.
    pub width: u32,
    /// Description of the fault.
    pub message: String,
    /// Text that was expected there, as an ending for "expected …".
    pub expected: Option<String>,
    /// Whole line, without its end.
    ///
    /// A reader of a format may put a visible character in the place of one that is not.
    pub text: String,
}

/// Writes `3:14: message; expected …`.
impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)?;
        if let Some(expected) = &self.expected {
            write!(f, "; expected {expected}")?;
        }
        Ok(())
    }
}

/// Cap that a candidate did not keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// Cap [`Budget::run_bytes`](crate::Budget::run_bytes), or the part of it that other memory leaves.
    RunBytes,
    /// Cap [`Limits::build_bytes`](crate::live::Limits::build_bytes).
    BuildBytes,
    /// Cap [`Limits::worst_lines`](crate::live::Limits::worst_lines).
    WorstLines,
    /// Cap [`Limits::worst_tests`](crate::live::Limits::worst_tests).
    WorstTests,
    /// Cap [`Limits::build_visits`](crate::live::Limits::build_visits).
    BuildVisits,
}

impl Cap {
    /// Says that something needs more than is allowed.
    pub(crate) fn says(self, needed: usize, allowed: usize) -> String {
        match self {
            Self::RunBytes => format!("it needs {needed} bytes or more, the budget leaves {allowed}"),
            Self::BuildBytes => format!("building it may take {needed} bytes, the limit is {allowed}"),
            Self::WorstLines => format!("a packet can touch {needed} cache lines, the limit is {allowed}"),
            Self::WorstTests => format!("a packet can be tested against {needed} regions, the limit is {allowed}"),
            Self::BuildVisits => format!("building it takes {needed} region visits or more, the limit is {allowed}"),
        }
    }
}

/// Error of building an engine.
///
/// ```
/// use firstmatch_core::Budget;
/// use firstmatch_core::engines::linear::{Config, Linear};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let config = Config { budget: Budget { run_bytes: 16 }, ..Config::default() };
/// let refused = Linear::build(&rules, &config).expect_err("16 bytes are too few");
/// assert!(refused.budget_exceeded());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildError {
    kind: BuildErrorKind,
    rule: Option<RuleId>,
    line: Option<u32>,
    /// Part of the engine that was the reason, if one was.
    part: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum BuildErrorKind {
    Regions(String),
    Bytes { needed: usize, allowed: usize },
    Own { needed: usize, allowed: usize },
    Memory { needed: usize },
    Visits { made: usize, allowed: usize },
    Limit { cap: Cap, needed: usize, allowed: usize },
    Simd(&'static str),
    Refused(String),
}

impl BuildError {
    /// Builds the error of a rule, from `line`, that needs too many regions.
    pub(crate) fn regions(what: String, line: Option<NonZeroU32>) -> Self {
        Self { kind: BuildErrorKind::Regions(what), rule: None, line: line.map(u32::from), part: None }
    }

    pub(crate) fn bytes(needed: usize, allowed: usize) -> Self {
        Self { kind: BuildErrorKind::Bytes { needed, allowed }, rule: None, line: None, part: None }
    }

    /// Builds the error of an engine that is larger than it can be, whatever the budget is.
    pub(crate) fn own_limit(needed: usize, allowed: usize) -> Self {
        Self { kind: BuildErrorKind::Own { needed, allowed }, rule: None, line: None, part: None }
    }

    /// Builds the error of a build for which the allocator has no memory.
    pub(crate) fn memory(needed: usize) -> Self {
        Self { kind: BuildErrorKind::Memory { needed }, rule: None, line: None, part: None }
    }

    /// Builds the error of a build that stopped after `made` visits of regions.
    pub(crate) fn visits(made: usize, allowed: usize) -> Self {
        Self { kind: BuildErrorKind::Visits { made, allowed }, rule: None, line: None, part: None }
    }

    /// Builds the error of a limit other than the budget's bytes.
    pub(crate) fn limit(cap: Cap, needed: usize, allowed: usize) -> Self {
        Self { kind: BuildErrorKind::Limit { cap, needed, allowed }, rule: None, line: None, part: None }
    }

    pub(crate) fn simd(level: &'static str) -> Self {
        Self { kind: BuildErrorKind::Simd(level), rule: None, line: None, part: None }
    }

    /// Builds the error of an engine that refuses its options or a rule.
    pub(crate) fn refused(what: String) -> Self {
        Self { kind: BuildErrorKind::Refused(what), rule: None, line: None, part: None }
    }

    pub(crate) fn with_rule(mut self, rule: RuleId) -> Self {
        self.rule = Some(rule);
        self
    }

    /// Names the part of the engine that was the reason; for example, `table 3`.
    pub(crate) fn in_part(self, part: String) -> Self {
        Self { part: Some(part), ..self }
    }

    /// Whether a limit was exceeded.
    ///
    /// The limit belongs to the [`Budget`](crate::Budget) or to [`live::Limits`](crate::live::Limits).
    pub fn budget_exceeded(&self) -> bool {
        self.cap().is_some()
    }

    /// Returns the limit that was exceeded, if one was.
    pub fn cap(&self) -> Option<Cap> {
        match self.kind {
            BuildErrorKind::Bytes { .. } | BuildErrorKind::Own { .. } | BuildErrorKind::Memory { .. } => {
                Some(Cap::RunBytes)
            }
            BuildErrorKind::Visits { .. } => Some(Cap::BuildVisits),
            BuildErrorKind::Limit { cap, .. } => Some(cap),
            _ => None,
        }
    }

    /// Returns the bytes needed, as far as known, and those allowed, if a budget was exceeded.
    pub(crate) fn bytes_needed(&self) -> Option<(usize, usize)> {
        match self.kind {
            BuildErrorKind::Bytes { needed, allowed } | BuildErrorKind::Own { needed, allowed } => {
                Some((needed, allowed))
            }
            _ => None,
        }
    }

    /// Returns the visits made and the visits allowed, if these were exceeded.
    pub(crate) fn visits_made(&self) -> Option<(usize, usize)> {
        match self.kind {
            BuildErrorKind::Visits { made, allowed } => Some((made, allowed)),
            _ => None,
        }
    }

    /// Returns the rule that was the reason, if one was.
    pub fn rule(&self) -> Option<RuleId> {
        self.rule
    }

    /// Returns the line of that rule, if it came from a file.
    pub fn line(&self) -> Option<u32> {
        self.line
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.rule) {
            (Some(line), _) => write!(f, "line {line}: ")?,
            (None, Some(rule)) => write!(f, "rule {rule}: ")?,
            (None, None) => {}
        }
        if let Some(part) = &self.part {
            write!(f, "{part}: ")?;
        }
        match &self.kind {
            BuildErrorKind::Regions(what) | BuildErrorKind::Refused(what) => f.write_str(what),
            BuildErrorKind::Limit { cap, needed, allowed } => f.write_str(&cap.says(*needed, *allowed)),
            BuildErrorKind::Visits { made, allowed } => {
                write!(f, "building the engine takes {made} region visits or more; the limit is {allowed}")
            }
            BuildErrorKind::Bytes { needed, allowed } => {
                write!(f, "the engine needs {needed} bytes; the budget allows {allowed}")
            }
            BuildErrorKind::Own { needed, allowed } => {
                write!(f, "the engine needs {needed} bytes or more; the limit is its own, {allowed}")
            }
            BuildErrorKind::Memory { needed } => write!(f, "there is no memory for {needed} bytes of the engine"),
            BuildErrorKind::Simd(level) => write!(f, "this machine has no {level}"),
        }
    }
}

impl std::error::Error for BuildError {}

/// Error of a change of rules, which was refused and changed nothing.
///
/// ```
/// use firstmatch_core::{RuleId, RuleSet, Schema};
///
/// let mut rules = RuleSet::new(Schema::ipv4());
/// let error = rules.remove(RuleId::new(7, 0)).expect_err("there is no such rule");
/// assert!(error.is_stale());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateError {
    kind: UpdateErrorKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum UpdateErrorKind {
    Stale(RuleId),
    Present(RuleId),
    PriorityTaken(Priority),
    BadRule(String),
    OtherFields,
    NoSet(SetId),
    BadMember(String),
    SetLimit { what: &'static str, most: usize },
    Full,
    Words { given: usize, wanted: usize },
    BadRegion(String),
    Bytes { needed: usize, allowed: usize },
    Overlay { needed: usize, most: usize },
    Busy,
    OldRebuild,
    Lowering(BuildError),
}

impl UpdateError {
    /// Returns the error for a rule id that belongs to no live rule.
    pub fn stale(id: RuleId) -> Self {
        Self { kind: UpdateErrorKind::Stale(id) }
    }

    pub(crate) fn present(id: RuleId) -> Self {
        Self { kind: UpdateErrorKind::Present(id) }
    }

    pub(crate) fn priority_taken(priority: Priority) -> Self {
        Self { kind: UpdateErrorKind::PriorityTaken(priority) }
    }

    pub(crate) fn bad_rule(what: String) -> Self {
        Self { kind: UpdateErrorKind::BadRule(what) }
    }

    pub(crate) fn other_fields() -> Self {
        Self { kind: UpdateErrorKind::OtherFields }
    }

    pub(crate) fn no_set(id: SetId) -> Self {
        Self { kind: UpdateErrorKind::NoSet(id) }
    }

    pub(crate) fn bad_member(what: String) -> Self {
        Self { kind: UpdateErrorKind::BadMember(what) }
    }

    pub(crate) fn set_limit(what: &'static str, most: usize) -> Self {
        Self { kind: UpdateErrorKind::SetLimit { what, most } }
    }

    pub(crate) fn full() -> Self {
        Self { kind: UpdateErrorKind::Full }
    }

    pub(crate) fn key_words(given: usize, wanted: usize) -> Self {
        Self { kind: UpdateErrorKind::Words { given, wanted } }
    }

    pub(crate) fn bad_region(what: String) -> Self {
        Self { kind: UpdateErrorKind::BadRegion(what) }
    }

    pub(crate) fn bytes(needed: usize, allowed: usize) -> Self {
        Self { kind: UpdateErrorKind::Bytes { needed, allowed } }
    }

    pub(crate) fn overlay(needed: usize, most: usize) -> Self {
        Self { kind: UpdateErrorKind::Overlay { needed, most } }
    }

    pub(crate) fn busy() -> Self {
        Self { kind: UpdateErrorKind::Busy }
    }

    pub(crate) fn old_rebuild() -> Self {
        Self { kind: UpdateErrorKind::OldRebuild }
    }

    pub(crate) fn lowering(error: BuildError) -> Self {
        Self { kind: UpdateErrorKind::Lowering(error) }
    }

    /// Returns the error of a build that inserts `rule` and fails with this error.
    pub(crate) fn into_build_error(self, rule: RuleId) -> BuildError {
        match self.kind {
            UpdateErrorKind::Bytes { needed, allowed } => BuildError::bytes(needed, allowed),
            _ => BuildError::refused(self.to_string()).with_rule(rule),
        }
    }

    /// Whether the id belongs to no live rule.
    pub fn is_stale(&self) -> bool {
        matches!(self.kind, UpdateErrorKind::Stale(_))
    }

    /// Whether the conditions were bound to other fields than those of the set.
    pub fn is_for_other_fields(&self) -> bool {
        matches!(self.kind, UpdateErrorKind::OtherFields)
    }

    /// Whether there is room again once a rebuild is installed.
    ///
    /// It is, because a transaction that no overlay can hold is not refused
    /// ([`Transaction::commit`](crate::live::Transaction::commit)).
    pub fn needs_rebuild(&self) -> bool {
        matches!(self.kind, UpdateErrorKind::Overlay { .. })
    }

    /// Whether a rebuild could not be installed, because a later one has been begun or installed.
    ///
    /// New priorities, and a commit of more rules than an overlay can hold, come with a rebuild of their own.
    pub fn is_overtaken(&self) -> bool {
        matches!(self.kind, UpdateErrorKind::OldRebuild)
    }

    /// Whether a batch in progress was the reason.
    ///
    /// The same change may succeed as soon as the batch has ended.
    pub fn is_busy(&self) -> bool {
        matches!(self.kind, UpdateErrorKind::Busy)
    }

    /// Whether a limit was exceeded.
    ///
    /// The limit belongs to the [`Budget`](crate::Budget) or, if the change builds an engine anew, to
    /// [`live::Limits`](crate::live::Limits).
    pub fn budget_exceeded(&self) -> bool {
        match &self.kind {
            UpdateErrorKind::Bytes { .. } | UpdateErrorKind::SetLimit { .. } => true,
            UpdateErrorKind::Lowering(error) => error.budget_exceeded(),
            _ => false,
        }
    }
}

impl fmt::Display for UpdateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            UpdateErrorKind::Stale(id) => write!(f, "rule {id} is not live"),
            UpdateErrorKind::Present(id) => write!(f, "rule {id}, or another of its slot, is already there"),
            UpdateErrorKind::PriorityTaken(p) => write!(f, "priority {} is taken", p.0),
            UpdateErrorKind::BadRule(what) => write!(f, "the rule does not fit the schema: {what}"),
            UpdateErrorKind::OtherFields => f.write_str(
                "the conditions of the rule are bound to other fields than those of this set: bind them by name \
                 (`RuleSet::bind`), or read the text of the rule for this set (`parse_rule` of firstmatch-formats)",
            ),
            UpdateErrorKind::NoSet(id) => write!(f, "there is no live set of number {}", id.index()),
            UpdateErrorKind::BadMember(what) => f.write_str(what),
            UpdateErrorKind::SetLimit { what, most } => write!(f, "live sets would have more than {most} {what}"),
            UpdateErrorKind::Full => f.write_str("there is no slot left"),
            UpdateErrorKind::Words { given, wanted } => {
                write!(f, "the regions have {given} words, the engine {wanted}")
            }
            UpdateErrorKind::BadRegion(what) => write!(f, "the region is malformed: {what}"),
            UpdateErrorKind::Bytes { needed, allowed } => {
                write!(f, "the engine would need {needed} bytes; the budget allows {allowed}")
            }
            UpdateErrorKind::Overlay { needed, most } => {
                write!(f, "{needed} rules would wait for a rebuild; at most {most} may")
            }
            UpdateErrorKind::Busy => f.write_str("a batch in progress has what would be changed"),
            UpdateErrorKind::OldRebuild => f.write_str("a later rebuild has been begun or installed"),
            UpdateErrorKind::Lowering(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for UpdateError {}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error names the limit that was exceeded, if one was.
    #[test]
    fn errors_name_their_limit() {
        for (error, cap) in [
            (BuildError::bytes(2, 1), Some(Cap::RunBytes)),
            (BuildError::own_limit(2, 1), Some(Cap::RunBytes)),
            (BuildError::memory(2), Some(Cap::RunBytes)),
            (BuildError::visits(2, 1), Some(Cap::BuildVisits)),
            (BuildError::limit(Cap::BuildBytes, 2, 1), Some(Cap::BuildBytes)),
            (BuildError::simd("avx2"), None),
            (BuildError::regions("too many".to_owned(), None), None),
        ] {
            assert_eq!((error.cap(), error.budget_exceeded()), (cap, cap.is_some()), "{error}");
        }
    }
}
