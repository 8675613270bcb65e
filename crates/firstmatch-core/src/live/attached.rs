//! Table of the data that rules attach to decisions: action, source line and a value set by the user.
//!
//! Each replica has its own table, so a batch finds the entries of its own generation even if a slot is reused.

use std::num::NonZeroU32;

use crate::engines::shared::Chunked;
use crate::rule::{Action, RuleSpec};

/// Parts of a rule that a decision needs beyond its match.
///
/// ```
/// use firstmatch_core::live::{self, Config};
/// use firstmatch_core::rule::Action;
///
/// let text = "family ipv4\n\ndeny tcp dport 23\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let (_, writer) = live::open(rules, &Config { attachments: true, ..Config::default() })?;
/// let telnet = writer.rules().iter().next().expect("a rule").id;
/// let attached = writer.handle().reader().read(|snapshot| snapshot.attached(telnet));
/// assert_eq!((attached.action, attached.line.map(u32::from)), (Action::Deny, Some(3)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attached {
    /// Action of the rule.
    pub action: Action,
    /// Line of the file that the rule was read from, from 1.
    pub line: Option<NonZeroU32>,
    /// Value that the rule was given.
    pub value: u64,
}

impl Attached {
    const VACANT: Self = Self { action: Action::Match, line: None, value: 0 };

    /// Returns the attached data of a rule.
    pub(super) fn of(rule: &RuleSpec) -> Self {
        Self { action: rule.action, line: rule.line, value: rule.value }
    }
}

/// Entries by slot. The table is empty unless [`Config::attachments`](super::Config::attachments) asks for it.
#[derive(Clone, Debug, Default)]
pub(super) struct Attachments(Chunked<Attached>);

impl Attachments {
    pub(super) fn set(&mut self, slot: usize, attached: Attached) {
        *self.0.hold(slot, Attached::VACANT) = attached;
    }

    /// Returns the entry of a slot; a vacant one if the slot was never set.
    #[inline(always)]
    pub(super) fn get(&self, slot: usize) -> Attached {
        self.0.get(slot).copied().unwrap_or(Attached::VACANT)
    }

    pub(super) fn bytes(&self) -> usize {
        self.0.bytes()
    }
}
