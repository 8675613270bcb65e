//! Rules as people write them.
//!
//! A rule has conditions on whole field values, an action, an id and a priority. The meaning of a rule is defined here
//! and in [`first_match`], the oracle. [`lower`] turns rules into the regions over key words that engines search.
//! Oracle and lowering share no code, so that each checks the other.

mod conditions;
mod covered;
mod lower;
mod oracle;
mod region;
mod set;

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

pub use conditions::{ConditionRef, Conditions, pack};
pub use covered::{Covering, covered};
pub(crate) use lower::Excess;
pub use lower::{Caps, Lowered, count_regions, lower, lower_rule};
pub use oracle::first_match;
pub use region::{Region, Regions};
pub use set::RuleSet;

use crate::schema::Family;

/// Id of a live rule: a slot (dense, reused) and the number of earlier uses of the slot.
///
/// The id of a removed rule is refused, because the next rule of its slot has another reuse count. For example, the
/// seventh slot's first rule is shown as `7`, its next one as `7.1`. The first rule of a set has the number 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(NonZeroU64);

impl RuleId {
    /// Builds the id of `slot` after `reuse` earlier uses of it.
    ///
    /// # Panics
    /// If `slot` is `u32::MAX`, because a set has at most `u32::MAX` slots.
    pub fn new(slot: u32, reuse: u32) -> Self {
        assert!(slot != u32::MAX, "slot {slot} is out of range");
        Self(NonZeroU64::MIN.saturating_add(u64::from(reuse) << 32 | u64::from(slot)))
    }

    /// Returns the slot: dense from 0, so arrays by slot need no hashing.
    pub fn slot(self) -> usize {
        (self.get() as u32 - 1) as usize
    }

    /// Number of earlier uses of the slot.
    pub fn reuse(self) -> u32 {
        (self.get() >> 32) as u32
    }

    /// Returns the id as a number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the id of this number; `None` if no id has it.
    pub fn from_u64(number: u64) -> Option<Self> {
        (number as u32 != 0).then(|| NonZeroU64::new(number).map(Self)).flatten()
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes `7`, or `7.2` for the second reuse of the slot.
impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.slot() + 1)?;
        if self.reuse() > 0 { write!(f, ".{}", self.reuse()) } else { Ok(()) }
    }
}

/// Position of a rule in the order of a set; the smaller wins.
///
/// Every live rule of a set has a priority of its own, and nothing else breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority(pub u64);

impl Priority {
    /// Returns the priority of the rule on line `line` of a file: `line << 32`.
    ///
    /// Rules can therefore be put between any two lines.
    pub const fn of_line(line: u32) -> Self {
        Self((line as u64) << 32)
    }

    /// Returns the midpoint of two priorities; `None` if none lies strictly between them.
    ///
    /// For example, there is room between lines 3 and 4, but none between the priorities 5 and 6. Where there is none,
    /// [`RuleSet::renumber`] makes room.
    pub const fn between(a: Self, b: Self) -> Option<Self> {
        let (low, high) = if a.0 < b.0 { (a.0, b.0) } else { (b.0, a.0) };
        let middle = low + (high - low) / 2;
        if middle == low { None } else { Some(Self(middle)) }
    }
}

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

/// Test of a whole field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// Passed by this value.
    Value(u128),
    /// Passed by every value whose leading `len` bits are those of `value`.
    ///
    /// The bits are counted from the top of the field's width. The bits of `value` behind them are 0.
    Prefix {
        /// Leading bits, in place.
        value: u128,
        /// Number of leading bits.
        len: u32,
    },
    /// Passed by every value from `lo` to `hi`, both included.
    Range {
        /// Smallest value.
        lo: u128,
        /// Largest value.
        hi: u128,
    },
    /// Passed by every value `v` with `v & mask == value`.
    Mask {
        /// Bits that must be set; no bit outside `mask`.
        value: u128,
        /// Bits that are compared.
        mask: u128,
    },
}

/// Condition on one field: its value passes one of the tests or, if `negated`, none of them.
///
/// A condition on a field that the packet lacks is false, negated or not. So is one whose tests all belong to the other
/// address family: `src not 10.0.0.0/8` never holds for an IPv6 packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Index of the field in the schema (in both schemas of a dual-stack set).
    pub field: usize,
    /// Whether the value must fail all tests.
    pub negated: bool,
    /// Tests with the family whose packets they are for; `None` for both.
    pub tests: Vec<(Option<Family>, Test)>,
}

/// Condition on a field by its name, for [`RuleSet::bind`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedCondition {
    /// Name of the field.
    pub field: String,
    /// Whether the value must fail all tests.
    pub negated: bool,
    /// Tests with the family whose packets they are for; `None` for both.
    pub tests: Vec<(Option<Family>, Test)>,
}

impl NamedCondition {
    /// Builds the condition that a field passes one of `tests`, in packets of every family.
    pub fn new(field: &str, tests: impl IntoIterator<Item = Test>) -> Self {
        let tests = tests.into_iter().map(|test| (None, test)).collect();
        Self { field: field.to_owned(), negated: false, tests }
    }

    /// Returns the condition that holds if the value fails all of these tests.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { negated: true, ..self }
    }
}

/// Rule without its id.
///
/// Its conditions name fields by their index in a schema. Conditions from names come from [`RuleSet::bind`], and a
/// whole rule from text from `parse_rule` of the crate `firstmatch-formats`.
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
    /// Family that the rule is confined to; `None` leaves that to its conditions.
    pub family: Option<Family>,
    /// Line of the file it was read from, from 1.
    pub line: Option<NonZeroU32>,
    /// A number of the user's own, which decisions of the rule carry. No format has a word for it: from text it is 0.
    pub value: u64,
}

/// Live rule of a [`RuleSet`].
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_slot_and_reuse_and_are_never_zero() {
        for (slot, reuse) in [(0, 0), (1, 0), (0, 1), (u32::MAX - 1, u32::MAX)] {
            let id = RuleId::new(slot, reuse);
            assert_eq!((id.slot(), id.reuse()), (slot as usize, reuse));
            assert_eq!(RuleId::from_u64(id.get()), Some(id));
        }
        assert_eq!(RuleId::from_u64(0), None);
        assert_eq!(RuleId::from_u64(1 << 32), None);
        assert_eq!(RuleId::new(6, 0).to_string(), "7");
        assert_eq!(RuleId::new(6, 2).to_string(), "7.2");
    }

    #[test]
    fn between_is_strictly_between_or_nothing() {
        let (a, b) = (Priority::of_line(3), Priority::of_line(4));
        let m = Priority::between(a, b).expect("room");
        assert!(a < m && m < b);
        assert_eq!(Priority::between(b, a), Some(m));
        assert_eq!(Priority::between(Priority(5), Priority(6)), None);
        assert_eq!(Priority::between(Priority(5), Priority(5)), None);
        assert_eq!(Priority::between(Priority(0), Priority(u64::MAX)), Some(Priority(u64::MAX / 2)));
    }
}
