//! Conversion of rule sets for systems without ranges (Daly et al., V-E and Table VI).

use std::num::NonZeroU32;

use anyhow::{Context, ensure};
use firstmatch_core::RuleSet;
use firstmatch_core::rule::{Condition, Priority, RuleSpec, Test};
use serde::Deserialize;

/// Conversion of ranges.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Transform {
    /// A range becomes the fewest prefixes that cover it exactly.
    ///
    /// A rule with several ranges becomes the rules of all combinations. For example, port 1–17 becomes five prefixes:
    /// 1, 2–3, 4–7, 8–15 and 16–17.
    Prefixes,
    /// A range becomes its first value, except the range of all values, which stays.
    SinglePorts,
}

/// Most rules of a converted set.
const MOST_RULES: usize = 1 << 24;

impl Transform {
    /// Returns the converted rule set.
    ///
    /// Its rules are in the order of their originals, and numbered as if each had a line of its own.
    pub(crate) fn apply(self, set: &RuleSet) -> anyhow::Result<RuleSet> {
        let mut out = match set.schemas() {
            [ipv4, ipv6] => RuleSet::dual(ipv4.clone(), ipv6.clone()),
            schemas => RuleSet::new(schemas[0].clone()),
        };
        for rule in set.iter() {
            let named =
                || rule.line.map_or_else(|| format!("rule {}", rule.id), |line| format!("the rule on line {line}"));
            for conditions in self.combinations(set, &rule.conditions.to_vec()).with_context(named)? {
                let line = u32::try_from(out.len() + 1)?;
                ensure!(out.len() < MOST_RULES, "{}: more than {MOST_RULES} rules come of the set", named());
                out.insert(RuleSpec {
                    priority: Priority::of_line(line),
                    line: NonZeroU32::new(line),
                    conditions: conditions.into(),
                    ..rule.spec.clone()
                })?;
            }
        }
        Ok(out)
    }

    /// Returns the conditions of each rule that results from one rule.
    fn combinations(self, set: &RuleSet, conditions: &[Condition]) -> anyhow::Result<Vec<Vec<Condition>>> {
        let mut all = vec![Vec::new()];
        for condition in conditions {
            let field = &set.schemas()[0].fields()[condition.field];
            let ranges = condition.tests.iter().any(|(_, test)| matches!(test, Test::Range { .. }));
            ensure!(
                !(ranges && condition.negated),
                "it negates a range of {}; expected ranges as they are",
                field.name()
            );
            let each = condition.tests.iter().flat_map(|(family, test)| {
                self.values(*test, field.width()).into_iter().map(move |test| (*family, test))
            });
            let alone = |test| Condition { tests: vec![test], ..condition.clone() };
            let choices: Vec<Condition> = if ranges { each.map(alone).collect() } else { vec![condition.clone()] };
            let with = |chosen: &Vec<Condition>| {
                let chosen = chosen.clone();
                choices
                    .iter()
                    .map(move |choice| [&chosen[..], std::slice::from_ref(choice)].concat())
                    .collect::<Vec<_>>()
            };
            all = all.iter().flat_map(with).collect();
        }
        Ok(all)
    }

    fn values(self, test: Test, width: u32) -> Vec<Test> {
        match (self, test) {
            (Self::Prefixes, Test::Range { lo, hi }) => {
                prefixes(lo, hi, width).into_iter().map(|(value, len)| Test::Prefix { value, len }).collect()
            }
            (Self::SinglePorts, Test::Range { lo, hi }) if (lo, hi) != (0, u128::MAX >> (128 - width)) => {
                vec![Test::Value(lo)]
            }
            _ => vec![test],
        }
    }
}

/// Returns the fewest prefixes that cover an interval of `width`-bit values, in order.
///
/// Each is a value and a length.
pub(crate) fn prefixes(lo: u128, hi: u128, width: u32) -> Vec<(u128, u32)> {
    let mut out = Vec::new();
    let mut next = Some(lo);
    while let Some(value) = next.filter(|&value| value <= hi) {
        // The open bits are limited by the trailing zeros of the value and by the end of the interval.
        let most = value.trailing_zeros().min(width);
        let open = (0..=most).rev().find(|&open| hi - value >= last(open)).unwrap_or(0);
        out.push((value, width - open));
        next = value.checked_add(last(open)).and_then(|end| end.checked_add(1));
    }
    out
}

/// Returns the largest value of `bits` bits.
fn last(bits: u32) -> u128 {
    u128::MAX.checked_shr(128 - bits).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use firstmatch_core::rule::{FieldValues, first_match};
    use firstmatch_formats::Options;

    use super::*;

    #[test]
    fn prefixes_make_up_every_interval_and_are_the_fewest() {
        // For intervals of 6 bits, a search over all possible last prefixes finds the fewest.
        for lo in 0..64u128 {
            let mut fewest = vec![usize::MAX; 65];
            fewest[lo as usize] = 0;
            for end in lo + 1..=64 {
                let fits = (0..=6).map(|open| 1u128 << open).filter(|size| end % size == 0 && end - lo >= *size);
                let best = fits.map(|size| fewest[(end - size) as usize].saturating_add(1)).min();
                fewest[end as usize] = best.unwrap_or(usize::MAX);
            }
            for hi in lo..64 {
                let parts = prefixes(lo, hi, 6);
                let values: Vec<u128> =
                    parts.iter().flat_map(|&(value, len)| value..value + (1 << (6 - len))).collect();
                assert_eq!(values, (lo..=hi).collect::<Vec<_>>());
                assert_eq!(parts.len(), fewest[hi as usize + 1], "{lo} to {hi}");
            }
        }
        assert_eq!(prefixes(0, u128::MAX, 128), [(0, 0)]);
        assert_eq!(prefixes(1, u128::MAX, 128).len(), 128);
    }

    const RULES: &str = "family ipv4\n\
        deny tcp src 10.0.0.0/8 sport 1-17 dport 6-7\n\
        permit tcp sport 80 dport { 3-4, 9 }\n\
        permit udp dport 0-65535\n\
        deny src 10.0.0.0/9\n";

    fn transformed(transform: Transform) -> (RuleSet, RuleSet) {
        let rules = firstmatch_formats::parse(RULES, &Options::default()).expect("good rules").rules;
        let out = transform.apply(&rules).expect("no range is negated");
        (rules, out)
    }

    #[test]
    fn rules_of_prefixes_mean_what_the_rules_meant() {
        let (before, after) = transformed(Transform::Prefixes);
        // 5 prefixes by 1, 2 prefixes and a value, 1, 1.
        assert_eq!(after.len(), 5 + 3 + 1 + 1);
        assert!(after.iter().all(|rule| rule.conditions.iter().all(|c| c.count() == 1)));
        let lines: Vec<u32> = after.iter().filter_map(|rule| rule.line.map(u32::from)).collect();
        assert_eq!(lines, (1..=10).collect::<Vec<_>>());
        let mut matched = 0;
        for src in [0x0A00_0001, 0x0AFF_0000, 1] {
            for (sport, dport) in (0..20).flat_map(|s| (0..12).map(move |d| (s, d))).chain([(80, 3), (80, 9), (80, 5)])
            {
                for proto in [6, 17, 1] {
                    let values = [src, 7, sport, dport, proto].map(|value| Some(value as u128)).to_vec();
                    let packet = FieldValues { family: before.schemas()[0].family(), values };
                    let of = |set: &RuleSet| {
                        first_match(set, &packet).map(|rule| {
                            (rule.action, rule.conditions.on(0).map(firstmatch_core::rule::ConditionRef::unpack))
                        })
                    };
                    matched += usize::from(of(&before).is_some());
                    assert_eq!(of(&before), of(&after), "{packet:?}");
                }
            }
        }
        assert!(matched > 200, "{matched}");
    }

    #[test]
    fn single_ports_leave_no_range_but_that_of_all() {
        let (before, after) = transformed(Transform::SinglePorts);
        assert_eq!(after.len(), before.len() + 1);
        let port = |rule: usize, field: usize| {
            let rule = after.iter().nth(rule)?;
            rule.conditions.on(field)?.tests().map(|(_, test)| test).next()
        };
        assert_eq!((port(0, 2), port(0, 3)), (Some(Test::Value(1)), Some(Test::Value(6))));
        assert_eq!((port(1, 3), port(2, 3)), (Some(Test::Value(3)), Some(Test::Value(9))));
        assert_eq!(
            port(3, 3),
            before.iter().nth(2).and_then(|rule| rule.conditions.on(3)?.tests().next()).map(|t| t.1)
        );
    }

    #[test]
    fn negated_ranges_are_refused_by_line() {
        let text = "family ipv4\npermit\npermit tcp dport not 3-9\n";
        let rules = firstmatch_formats::parse(text, &Options::default()).expect("good rules").rules;
        let error = Transform::Prefixes.apply(&rules).expect_err("a negated range");
        assert!(format!("{error:#}").contains("line 3: it negates a range of dport"), "{error:#}");
    }
}
