//! Limits on the expansion of rules into regions, and the errors if one is exceeded.

use std::num::NonZeroU32;

use super::spec::RuleSpec;
use crate::error::BuildError;

/// Limits on the expansion of rules into regions.
///
/// Each is checked before the memory is taken. Errors name a limit by the program's option: `max-regions-per-rule` for
/// [`regions_per_rule`].
///
/// [`regions_per_rule`]: ExpansionLimits::regions_per_rule
///
/// ```
/// use firstmatch_core::rule::{ExpansionLimits, lower};
///
/// let text = "family ipv4\npermit tcp dport { 1, 3, 5, 7 }\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let few = ExpansionLimits { regions_per_rule: 3, ..ExpansionLimits::default() };
/// let refused = lower(&rules, &rules.schemas()[0], &few).expect_err("the rule has four regions");
/// assert_eq!(refused.line(), Some(2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpansionLimits {
    /// Largest number of regions of one rule (`max-regions-per-rule`).
    pub regions_per_rule: usize,
    /// Largest number of regions of one set, at most 2²⁴ (`max-regions`).
    pub regions_per_set: usize,
    /// Largest number of bytes that the regions of one set take (`max-region-bytes`).
    ///
    /// A region takes 16 bytes and 8 per key word; if it has values under masks, 8 more per key word.
    pub region_bytes: usize,
    /// Largest number of comparisons of values under masks for one condition.
    ///
    /// The option is `max-mask-comparisons`.
    pub mask_comparisons: usize,
}

/// Largest number of regions that engines can number.
///
/// An entry of `bit_select` has the number of a block and a rank in 32 bits.
pub(super) const MOST_REGIONS: usize = 1 << 24;

impl Default for ExpansionLimits {
    /// Returns 2²⁰ regions per rule, 2²⁴ regions and 1 GiB per set, 2²⁰ comparisons per condition.
    fn default() -> Self {
        Self {
            regions_per_rule: 1 << 20,
            regions_per_set: MOST_REGIONS,
            region_bytes: 1 << 30,
            mask_comparisons: 1 << 20,
        }
    }
}

/// Limit that kept a condition from being lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Excess {
    /// Number of pieces, at least this many.
    Pieces(usize),
    /// Comparisons of values under masks.
    Comparisons,
}

/// Advice for a rule with too many regions.
const SPLIT: &str = "split the rule or raise the limit";

impl ExpansionLimits {
    /// Largest number of regions of one rule, at most as many as engines can number.
    pub(crate) fn most_per_rule(&self) -> usize {
        self.regions_per_rule.min(MOST_REGIONS)
    }

    /// Largest number of regions of one set, at most as many as engines can number.
    pub(crate) fn most_per_set(&self) -> usize {
        self.regions_per_set.min(MOST_REGIONS)
    }

    /// Returns the error of a condition on `field` that needs too much.
    pub(super) fn condition_too_large(&self, rule: &RuleSpec, field: &str, excess: Excess) -> BuildError {
        let what = match excess {
            Excess::Pieces(over) => format!(
                "the condition on {field} needs more than {} regions, and max-regions-per-rule is {}: {SPLIT}",
                over - 1,
                self.regions_per_rule
            ),
            Excess::Comparisons => format!(
                "the values under masks of {field} take more than {} comparisons, which is max-mask-comparisons: \
                 write fewer of them or raise the limit",
                self.mask_comparisons
            ),
        };
        BuildError::regions(what, rule.line)
    }

    /// Returns the error of a rule whose fields need `counts` boxes each, so that their product is too large.
    pub(super) fn product_too_large<'a>(
        &self,
        rule: &RuleSpec,
        counts: impl Iterator<Item = (&'a str, usize)>,
    ) -> BuildError {
        let counts: Vec<_> = counts.filter(|&(_, count)| count != 1).collect();
        let product = counts.iter().fold(1u128, |all, &(_, count)| all.saturating_mul(count as u128));
        let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        let (counts, most) = (counts.join(" × "), self.most_per_rule());
        let what = format!("the rule needs {product} regions ({counts}), and max-regions-per-rule is {most}: {SPLIT}");
        BuildError::regions(what, rule.line)
    }

    /// Returns the error of the rule that makes the regions of a set too many, with its line.
    pub(super) fn set_too_large(&self, line: Option<NonZeroU32>) -> BuildError {
        let most = self.most_per_set();
        let what = format!("with this rule the set needs more than {most} regions, which is max-regions");
        BuildError::regions(what, line)
    }

    /// Returns the error of the rule that makes the regions of a set take too many bytes.
    pub(super) fn set_takes_too_much(&self, line: Option<NonZeroU32>) -> BuildError {
        let what = format!(
            "with this rule the regions of the set take more than {} bytes, which is max-region-bytes: \
             raise the limit where there is memory",
            self.region_bytes
        );
        BuildError::regions(what, line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Action, Condition, Priority, RuleSet, Test, lower};
    use crate::schema::Schema;

    /// Returns a set of rules, each for some tests of the destination port.
    fn of_ports(rules: impl IntoIterator<Item = Vec<Test>>) -> RuleSet {
        let mut set = RuleSet::new(Schema::ipv4());
        for (line, tests) in (1..).zip(rules) {
            let tests = tests.into_iter().map(|test| (None, test)).collect();
            let conditions = [Condition { field: 3, negated: false, tests }].into();
            let priority = Priority::of_line(line);
            let spec = RuleSpec { priority, action: Action::Deny, conditions, family: None, line: None, value: 0 };
            set.insert(spec).expect("it fits");
        }
        set
    }

    fn lowers(set: &RuleSet, limits: &ExpansionLimits) -> bool {
        lower(set, &set.schemas()[0], limits).is_ok()
    }

    /// A set may have exactly as many regions as its limit allows, whether its last rule has one or several.
    #[test]
    fn a_set_is_full_at_its_number() {
        let one = |port: u128| vec![Test::Value(port)];
        let three = || [1, 5, 9].map(Test::Value).to_vec();
        for set in [of_ports([three(), one(3), one(4)]), of_ports([one(3), one(4), three()])] {
            let limits = |regions_per_set| ExpansionLimits { regions_per_set, ..ExpansionLimits::default() };
            assert!(lowers(&set, &limits(5)) && !lowers(&set, &limits(4)));
        }
    }

    /// Each value under a mask is compared with each gap between the intervals of its condition; these comparisons
    /// count.
    #[test]
    fn masks_are_compared_with_gaps() {
        let values = (1..=100).map(|at| Test::Value(10 * at));
        let set = of_ports([values.chain([Test::Mask { value: 1, mask: 1 }]).collect::<Vec<_>>()]);
        let limits = |mask_comparisons| ExpansionLimits { mask_comparisons, ..ExpansionLimits::default() };
        assert!(lowers(&set, &limits(101)) && !lowers(&set, &limits(100)));
    }
}
