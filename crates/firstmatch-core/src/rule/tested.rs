//! Fields that the rules of a set test.

use super::set::RuleSet;
use super::spec::Rule;
use crate::schema::{Family, Schema};

impl RuleSet {
    /// Returns, for each field of `schema`, whether a rule that may match its packets tests the field.
    ///
    /// The program needs only these fields of a packet. For example, under `permit src 10.0.0.0/8` a packet without
    /// readable ports is classified.
    ///
    /// ```
    /// let text = "permit family ipv6 tcp\npermit dst 192.0.2.0/24\n";
    /// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let [ipv4, ipv6] = rules.schemas() else { panic!("two families") };
    /// // Source, destination, ports, protocol. No IPv6 packet has a destination of IPv4.
    /// assert_eq!(rules.tested_fields(ipv4), [false, true, false, false, false]);
    /// assert_eq!(rules.tested_fields(ipv6), [false, false, false, false, true]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tested_fields(&self, schema: &Schema) -> Vec<bool> {
        tested_fields(self.iter(), schema)
    }
}

/// Returns, for each field of `schema`, whether one of `rules` that may match its packets tests the field.
pub(crate) fn tested_fields<'r>(rules: impl Iterator<Item = &'r Rule>, schema: &Schema) -> Vec<bool> {
    let mut tested = vec![false; schema.fields().len()];
    for rule in rules.filter(|rule| may_match(rule, schema.family())) {
        rule.conditions.iter().for_each(|condition| tested[condition.field] = true);
    }
    tested
}

/// Whether a rule may match packets of a family.
///
/// A condition without a test for the family never holds in it.
fn may_match(rule: &Rule, family: Option<Family>) -> bool {
    let is_tested = || rule.conditions.iter().all(|condition| condition.tests_for(family).next().is_some());
    (rule.family.is_none() || rule.family == family) && is_tested()
}
