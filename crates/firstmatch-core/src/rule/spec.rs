//! Rules and the packets that they are tried on.

use std::fmt;
use std::num::NonZeroU32;

use super::conditions::Conditions;
use super::id::{Priority, RuleId};
use crate::schema::Family;

/// Action that a rule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// The packet passes.
    Permit,
    /// The packet is dropped.
    Deny,
    /// The packet passes with a number on it, for later processing.
    Mark(u32),
    /// None: the rule comes from a format that states no action (ClassBench).
    Match,
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permit => f.write_str("permit"),
            Self::Deny => f.write_str("deny"),
            Self::Mark(number) => write!(f, "mark {number}"),
            Self::Match => f.write_str("match"),
        }
    }
}

/// Rule without its id.
///
/// Its conditions name fields by their index in a schema. To make conditions from names, use
/// [`RuleSet::bind`](super::RuleSet::bind); to read a whole rule from text, use `parse_rule` of the crate
/// `firstmatch-formats`.
///
/// ```
/// use firstmatch_core::rule::{Action, NamedCondition, Priority, RuleSpec, Test};
/// use firstmatch_core::{RuleSet, Schema};
///
/// let mut rules = RuleSet::new(Schema::ipv4());
/// let telnet = RuleSpec {
///     priority: Priority::of_line(1),
///     action: Action::Deny,
///     conditions: rules.bind([NamedCondition::new("dport", [Test::Value(23)])])?,
///     family: None,
///     line: None,
///     value: 7,
/// };
/// let id = rules.insert(telnet)?;
/// assert_eq!(rules.get(id).map(|rule| rule.value), Some(7));
/// # Ok::<(), firstmatch_core::UpdateError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSpec {
    /// Position in the order.
    pub priority: Priority,
    /// Action on a packet that matches.
    pub action: Action,
    /// Conditions, all of which must hold; a rule without any matches every packet.
    ///
    /// A field has at most one condition.
    pub conditions: Conditions,
    /// Family that the rule is confined to; `None` if only its conditions confine it.
    pub family: Option<Family>,
    /// Line of the file it was read from, from 1.
    pub line: Option<NonZeroU32>,
    /// A number of the user's own, which decisions of the rule carry. No format can state it: a rule from text has 0.
    pub value: u64,
}

/// Live rule of a [`RuleSet`](super::RuleSet).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Id in the set.
    pub id: RuleId,
    /// Priority, action and conditions.
    pub spec: RuleSpec,
}

impl std::ops::Deref for Rule {
    type Target = RuleSpec;
    fn deref(&self) -> &RuleSpec {
        &self.spec
    }
}

/// Field values of one packet, whole, in schema order: the oracle's view of the packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValues {
    /// Family of the packet; `None` for a schema without one.
    pub family: Option<Family>,
    /// Values by field; `None` where the packet lacks the field.
    pub values: Vec<Option<u128>>,
}
