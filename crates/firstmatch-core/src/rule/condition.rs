//! Conditions on whole field values, as people write them.

use super::id::SetId;
use crate::schema::Family;

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
    /// Passed by packets that lack the field, which is optional; by no value.
    ///
    /// It has no effect in a negated condition, because that never holds for such packets anyway.
    Absent,
    /// Passed by every address that a member of a live set holds, at any time.
    ///
    /// The set belongs to the rule set ([`RuleSet::live_sets`](super::RuleSet::live_sets)). It is for both families:
    /// negated, it holds for all addresses of a family of which the set has no member.
    Set(SetId),
}

/// Condition on one field: its value passes one of the tests or, if `negated`, none of them.
///
/// A condition on a field that the packet lacks is false, negated or not, unless it is not negated and has the test
/// [`Test::Absent`]. A condition whose tests all belong to the other address family is false, too: `src not
/// 10.0.0.0/8` never holds for an IPv6 packet.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Condition {
    /// Index of the field in the schema (in both schemas of a dual-stack set).
    pub field: usize,
    /// Whether the value must fail all tests.
    pub negated: bool,
    /// Tests with the family of the packets that each is for; `None` for both.
    pub tests: Vec<(Option<Family>, Test)>,
}

/// Condition on a field by its name, for [`RuleSet::bind`](super::RuleSet::bind).
///
/// ```
/// use firstmatch_core::rule::{NamedCondition, Test};
///
/// let not_telnet = NamedCondition::new("dport", [Test::Value(23)]).negated();
/// assert!(not_telnet.negated && not_telnet.tests.len() == 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NamedCondition {
    /// Name of the field.
    pub field: String,
    /// Whether the value must fail all tests.
    pub negated: bool,
    /// Tests with the family of the packets that each is for; `None` for both.
    pub tests: Vec<(Option<Family>, Test)>,
}

impl NamedCondition {
    /// Builds the condition that a field passes one of `tests`, in packets of every family.
    pub fn new(field: &str, tests: impl IntoIterator<Item = Test>) -> Self {
        let tests = tests.into_iter().map(|test| (None, test)).collect();
        Self { field: field.to_owned(), negated: false, tests }
    }

    /// Returns the condition that holds if the value fails all of the tests.
    #[must_use]
    pub fn negated(self) -> Self {
        Self { negated: true, ..self }
    }
}
