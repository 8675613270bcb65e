//! Rules, as people write them: conditions on whole field values, an action, an id and a priority.
//!
//! What a rule means is decided here and in [`first_match`], the oracle; [`lower`] turns rules into the regions over
//! lanes that engines search. The two share no code, so each checks the other.

mod conditions;
mod covered;
mod lower;
mod oracle;
mod region;
mod set;

use std::fmt;
use std::num::{NonZeroU32, NonZeroU64};

pub(crate) use conditions::pack;
pub use conditions::{ConditionRef, Conditions};
pub use covered::{Covering, covered};
pub use lower::{Caps, Lowered, lower, lower_rule};
pub(crate) use lower::{Excess, count_regions};
pub use oracle::first_match;
pub use region::{Region, Regions};
pub use set::RuleSet;

use crate::schema::Family;

/// Names a live rule: a slot (dense, reused) and how often the slot was used before, so that the id of a removed rule
/// is refused. The first rule of a set has the number 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(NonZeroU64);

impl RuleId {
    /// The id of a slot after `reuse` earlier uses of it.
    ///
    /// # Panics
    /// When `slot` is `u32::MAX`: a set has at most `u32::MAX` slots.
    pub fn new(slot: u32, reuse: u32) -> Self {
        assert!(slot != u32::MAX, "slot {slot} is out of range");
        Self(NonZeroU64::MIN.saturating_add(u64::from(reuse) << 32 | u64::from(slot)))
    }

    /// The slot: dense from 0, so arrays by slot need no hashing.
    pub fn slot(self) -> usize {
        (self.get() as u32 - 1) as usize
    }

    /// How often the slot was used before.
    pub fn reuse(self) -> u32 {
        (self.get() >> 32) as u32
    }

    /// The id as a number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// The id of this number; `None` where no id has it.
    pub fn from_u64(number: u64) -> Option<Self> {
        (number as u32 != 0).then(|| NonZeroU64::new(number).map(Self)).flatten()
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `7`, or `7.2` for the second reuse of the slot.
impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.slot() + 1)?;
        if self.reuse() > 0 { write!(f, ".{}", self.reuse()) } else { Ok(()) }
    }
}

/// A rule's place in the order: distinct for every live rule of a set, the smaller wins, nothing else breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority(pub u64);

impl Priority {
    /// The priority of the rule on line `line` of a file: `line << 32`, so that rules can be put between any two.
    pub const fn of_line(line: u32) -> Self {
        Self((line as u64) << 32)
    }

    /// The midpoint of two priorities, strictly between them; `None` where there is no room (then renumber).
    pub const fn between(a: Self, b: Self) -> Option<Self> {
        let (low, high) = if a.0 < b.0 { (a.0, b.0) } else { (b.0, a.0) };
        let middle = low + (high - low) / 2;
        if middle == low { None } else { Some(Self(middle)) }
    }
}

/// What a rule asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Let the packet pass.
    Permit,
    /// Drop it.
    Deny,
    /// Let it pass with a number on it, for whatever comes next.
    Mark(u32),
    /// Nothing: the rule comes from a format that states no action (ClassBench).
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

/// One test of a whole field value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Test {
    /// This value.
    Value(u128),
    /// Every value whose leading `len` bits (of the field's width) are those of `value`; the others are 0 in `value`.
    Prefix {
        /// The leading bits, in place.
        value: u128,
        /// How many there are.
        len: u32,
    },
    /// Every value from `lo` to `hi`, both included.
    Range {
        /// The smallest.
        lo: u128,
        /// The largest.
        hi: u128,
    },
    /// Every value `v` with `v & mask == value`.
    Mask {
        /// The bits that must be set; no bit outside `mask`.
        value: u128,
        /// The bits that are compared.
        mask: u128,
    },
}

/// A condition on one field: its value passes one of the tests, or, where `negated`, none of them.
///
/// A condition on a field that the packet lacks is false, negated or not. So is one whose tests all belong to the
/// other address family: `src not 10.0.0.0/8` never holds for an IPv6 packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// The field's index in the schema (in both schemas of a dual-stack set).
    pub field: usize,
    /// Whether the tests are to fail.
    pub negated: bool,
    /// The tests with the family whose packets they are for; `None` for both.
    pub tests: Vec<(Option<Family>, Test)>,
}

/// A condition on a field by its name, for [`RuleSet::bind`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedCondition {
    /// The field's name.
    pub field: String,
    /// Whether the tests are to fail.
    pub negated: bool,
    /// The tests with the family whose packets they are for; `None` for both.
    pub tests: Vec<(Option<Family>, Test)>,
}

impl NamedCondition {
    /// Returns the condition that a field passes one of these tests, in packets of every family.
    pub fn new(field: &str, tests: impl IntoIterator<Item = Test>) -> Self {
        let tests = tests.into_iter().map(|test| (None, test)).collect();
        Self { field: field.to_owned(), negated: false, tests }
    }

    /// Returns the same condition, which all tests are to fail.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { negated: true, ..self }
    }
}

/// Everything of a rule but its id.
///
/// Its conditions name fields by their index in a schema. Conditions from names come from [`RuleSet::bind`], a whole
/// rule from text comes from [`format::parse_rule`](crate::format::parse_rule).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSpec {
    /// Its place in the order.
    pub priority: Priority,
    /// What it asks for.
    pub action: Action,
    /// All must hold. At most one for each field; none at all matches every packet.
    pub conditions: Conditions,
    /// The family it is confined to; `None` leaves that to its conditions.
    pub family: Option<Family>,
    /// The line of the file it was read from, from 1.
    pub line: Option<NonZeroU32>,
}

/// A live rule of a [`RuleSet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Its name.
    pub id: RuleId,
    /// What it says.
    pub spec: RuleSpec,
}

impl std::ops::Deref for Rule {
    type Target = RuleSpec;
    fn deref(&self) -> &RuleSpec {
        &self.spec
    }
}

/// The field values of one packet, whole, in schema order: what the oracle looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldValues {
    /// The family of the packet; `None` for a schema without one.
    pub family: Option<Family>,
    /// One value a field; `None` where the packet lacks it.
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
