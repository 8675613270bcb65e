//! Rules for systems without ranges (Daly et al., V-E and Table VI).

use firstmatch_core::RuleSet;
use firstmatch_core::rule::Test;

/// Returns the rules with the first value in place of each range; the range of all values stays.
pub(crate) fn single_ports(set: &RuleSet) -> anyhow::Result<RuleSet> {
    let mut out = RuleSet::new(set.schemas()[0].clone());
    for rule in set.iter() {
        let mut conditions = rule.conditions.to_vec();
        for condition in &mut conditions {
            let all = u128::MAX >> (128 - set.schemas()[0].fields()[condition.field].width());
            for (_, test) in &mut condition.tests {
                *test = match *test {
                    Test::Range { lo, hi } if (lo, hi) != (0, all) => Test::Value(lo),
                    other => other,
                };
            }
        }
        out.insert(firstmatch_core::rule::RuleSpec { conditions: conditions.into(), ..rule.spec.clone() })?;
    }
    Ok(out)
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
        // Table VI of the TupleMerge paper.
        assert_eq!(prefixes(1, 17, 8), [(1, 8), (2, 7), (4, 6), (8, 5), (16, 7)]);
        assert_eq!(prefixes(0, u128::MAX, 128), [(0, 0)]);
        assert_eq!(prefixes(1, u128::MAX, 128).len(), 128);
    }

    #[test]
    fn single_ports_leave_no_range_but_that_of_all() {
        let text = "family ipv4\ndeny tcp sport 1-17 dport 6\npermit udp dport 0-65535\n";
        let before = firstmatch_formats::parse(text, &Options::default()).expect("good rules").rules;
        let after = single_ports(&before).expect("rules");
        let tests = |set: &RuleSet, rule: usize, field: usize| -> Vec<Test> {
            let rule = set.iter().nth(rule).expect("a rule");
            rule.conditions
                .on(field)
                .into_iter()
                .flat_map(|condition| condition.tests().map(|(_, test)| test))
                .collect()
        };
        assert_eq!([2, 3].map(|field| tests(&after, 0, field)), [[Test::Value(1)], [Test::Value(6)]]);
        assert_eq!(tests(&after, 1, 3), tests(&before, 1, 3));
        assert_eq!(after.len(), before.len());
    }
}
