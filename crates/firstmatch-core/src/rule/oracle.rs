//! The oracle: the shortest definition of what a rule set means.
//!
//! It is never optimised, because every engine is tested against it.

use super::condition::Test;
use super::conditions::ConditionRef;
use super::set::RuleSet;
use super::spec::{FieldValues, Rule};
use crate::schema::{Family, Schema};

/// Returns the first rule, in order of priority, that matches `packet`.
///
/// By definition this is the right answer. The oracle walks the rules and compares whole field values, without regions
/// and key words.
///
/// ```
/// use firstmatch_core::rule::{FieldValues, first_match};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit tcp\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let values = [0x0A00_0001, 0xC000_0207, 50_000, 443, 6].map(Some).to_vec();
/// let https = FieldValues { family: rules.schemas()[0].family(), values };
/// assert_eq!(first_match(&rules, &https).and_then(|rule| rule.line).map(u32::from), Some(3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn first_match<'s>(set: &'s RuleSet, packet: &FieldValues) -> Option<&'s Rule> {
    set.iter().find(|rule| set.schema(packet.family).is_some_and(|schema| matches(set, rule, schema, packet)))
}

/// Whether a rule matches, with the members that live sets have now.
fn matches(set: &RuleSet, rule: &Rule, schema: &Schema, packet: &FieldValues) -> bool {
    let holds = |condition: ConditionRef<'_>| {
        let is_member =
            condition.tests().any(|(_, test)| match (test, packet.family, packet.values[condition.field]) {
                (Test::Set(id), Some(family), Some(value)) => {
                    set.live_sets().get(id).is_some_and(|set| set.contains(family, value))
                }
                _ => false,
            });
        if is_member { !condition.negated } else { condition.holds(schema, packet) }
    };
    rule.family.is_none_or(|family| Some(family) == packet.family) && rule.conditions.iter().all(holds)
}

impl Rule {
    /// Whether this rule matches the values of `packet`, if all live sets are empty.
    pub fn matches(&self, schema: &Schema, packet: &FieldValues) -> bool {
        self.family.is_none_or(|family| Some(family) == packet.family)
            && self.conditions.iter().all(|condition| condition.holds(schema, packet))
    }
}

impl ConditionRef<'_> {
    /// Whether this condition holds for the values of `packet`.
    pub fn holds(&self, schema: &Schema, packet: &FieldValues) -> bool {
        let width = schema.fields()[self.field].width();
        let mut tests = self.tests().filter(|(family, _)| for_packet(*family, packet.family)).peekable();
        let Some(value) = packet.values[self.field] else {
            return !self.negated && tests.any(|(_, test)| test == Test::Absent);
        };
        tests.peek().is_some() && tests.any(|(_, test)| test.passes(value, width)) != self.negated
    }
}

fn for_packet(test: Option<Family>, packet: Option<Family>) -> bool {
    test.is_none() || test == packet
}

impl Test {
    /// Whether the value `v` of a field of `width` bits passes. A live set, whose members the rule set has, passes none.
    pub fn passes(&self, v: u128, width: u32) -> bool {
        match *self {
            Self::Value(value) => v == value,
            Self::Prefix { len: 0, .. } => true,
            Self::Prefix { value, len } => v >> (width - len) == value >> (width - len),
            Self::Range { lo, hi } => lo <= v && v <= hi,
            Self::Mask { value, mask } => v & mask == value,
            Self::Absent | Self::Set(_) => false,
        }
    }
}
