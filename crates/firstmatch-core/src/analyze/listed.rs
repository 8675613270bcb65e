//! Values of a list that others of the list hold.

use std::collections::{HashMap, HashSet};

use super::covered::{is_within, range};
use crate::rule::{ConditionRef, RuleId, RuleSet, Test};
use crate::schema::Schema;

/// Maximum number of values of a list with masks, which are compared one with one.
const WITH_MASKS: usize = 256;

/// Value of a rule's list that others of the list hold, so that the list means the same without it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeldValue {
    /// First rule with the list.
    pub rule: RuleId,
    /// Index of the field.
    pub field: usize,
    /// Index of the value in the condition's tests.
    pub test: usize,
    /// Index of a test that holds all of the value; `None` if only several do together.
    pub by: Option<usize>,
}

/// Finds the values of lists that others of their list hold, in the order of the rules.
///
/// All values that are found can be left out together. A list that several rules share is named once. Where a list has
/// masks, only one value that holds another is found, and nothing in lists of more than 256 values.
///
/// ```
/// use firstmatch_core::analyze::held_values;
///
/// let text = "deny src { 10.0.0.0/8, 10.1.0.0/16 } dport { 80, 20-443 }\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let found: Vec<_> = held_values(&rules).iter().map(|held| (held.field, held.test, held.by)).collect();
/// assert_eq!(found, [(0, 1, Some(0)), (3, 0, Some(1))]);
/// # Ok::<(), firstmatch_formats::ParseError>(())
/// ```
pub fn held_values(set: &RuleSet) -> Vec<HeldValue> {
    let (mut found, mut seen) = (Vec::new(), HashSet::new());
    for rule in set.iter() {
        for condition in rule.conditions.iter().filter(|condition| condition.count() > 1) {
            let schemas =
                set.schemas().iter().filter(|schema| rule.family.is_none_or(|of| schema.family() == Some(of)));
            let of_list = held_in_all(condition, schemas);
            if !of_list.is_empty() && seen.insert((condition.field, condition.tests().collect::<Vec<_>>())) {
                let held = |(test, by)| HeldValue { rule: rule.id, field: condition.field, test, by };
                found.extend(of_list.into_iter().map(held));
            }
        }
    }
    found
}

/// Returns the tests that others hold in each schema that they are for, with one that holds them in all.
fn held_in_all<'s>(
    condition: ConditionRef<'_>,
    schemas: impl Iterator<Item = &'s Schema>,
) -> Vec<(usize, Option<usize>)> {
    // For each test, whether some schema needs it, and the tests that hold it.
    let mut of_test: Vec<Option<Option<usize>>> = vec![None; condition.count()];
    let mut needed = vec![false; condition.count()];
    for schema in schemas {
        let own = |(_, (family, _)): &(usize, (Option<_>, Test))| family.is_none() || *family == schema.family();
        let tests: Vec<(usize, Test)> =
            condition.tests().enumerate().filter(own).map(|(index, (_, test))| (index, test)).collect();
        let held: HashMap<usize, Option<usize>> =
            held(&tests, schema.fields()[condition.field].width()).into_iter().collect();
        for &(index, _) in &tests {
            match (held.get(&index), of_test[index]) {
                (None, _) => needed[index] = true,
                (Some(&by), None) => of_test[index] = Some(by),
                (Some(&by), Some(other)) if other != by => of_test[index] = Some(None),
                _ => {}
            }
        }
    }
    let all = of_test.into_iter().enumerate().filter(|(index, _)| !needed[*index]);
    all.filter_map(|(index, by)| Some((index, by?))).collect()
}

/// Returns the tests that the others hold, by their indices, each with one that holds it alone.
fn held(tests: &[(usize, Test)], width: u32) -> Vec<(usize, Option<usize>)> {
    let is_plain = |test: Test| !matches!(test, Test::Mask { .. } | Test::Absent | Test::Set(_));
    if !tests.iter().all(|&(_, test)| is_plain(test)) {
        return held_by_one(tests, width);
    }
    let mut intervals: Vec<(u128, u128, usize)> =
        tests.iter().filter_map(|&(index, test)| range(test, width).map(|(lo, hi)| (lo, hi, index))).collect();
    // At one begin the longest comes first; of equal ones, the first of the list.
    intervals.sort_by_key(|&(lo, hi, index)| (lo, std::cmp::Reverse(hi), index));
    let (mut found, mut kept): (_, Vec<(u128, u128, usize)>) = (Vec::new(), Vec::new());
    for (lo, hi, index) in intervals {
        match kept.last() {
            Some(&(_, end, by)) if hi <= end => found.push((index, Some(by))),
            _ => kept.push((lo, hi, index)),
        }
    }
    // Of what is left none holds another, so that begins and ends are in the same order.
    let mut before: Option<u128> = None;
    for (at, &(_, hi, index)) in kept.iter().enumerate() {
        match (before, kept.get(at + 1)) {
            (Some(end), Some(&(next, ..))) if end.checked_add(1).is_none_or(|from| from >= next) => {
                found.push((index, None));
            }
            _ => before = Some(hi),
        }
    }
    found
}

/// The same where values are under masks: only those that one other holds.
fn held_by_one(tests: &[(usize, Test)], width: u32) -> Vec<(usize, Option<usize>)> {
    let mut found: Vec<(usize, Option<usize>)> = Vec::new();
    if tests.len() > WITH_MASKS {
        return found;
    }
    for &(index, test) in tests {
        let holds = |&&(other, of): &&(usize, Test)| {
            let is_kept = found.iter().all(|(gone, _)| *gone != other);
            // Of equal values, the first is kept.
            let is_later = other > index && is_within(of, test, width);
            other != index && is_kept && !is_later && is_within(test, of, width)
        };
        if let Some(&(by, _)) = tests.iter().find(holds) {
            found.push((index, Some(by)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found can be left out together, nothing else can, and one that holds a value holds it.
    #[test]
    fn lists_mean_the_same_without_what_others_hold() {
        let mut random = 1u64;
        let mut below = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u128::from((random >> 33) % most)
        };
        let (mut count, mut together) = (0, 0);
        for round in 0..5_000 {
            let has_masks = round % 3 == 0;
            let tests: Vec<(usize, Test)> = (0..1 + below(6) as usize)
                .map(|index| {
                    let (a, b) = (below(16), below(16));
                    let test = match below(4) {
                        0 => Test::Value(a),
                        1 => Test::Prefix { value: a & 0b1100, len: 2 },
                        2 if has_masks => Test::Mask { value: a & b, mask: b },
                        _ => Test::Range { lo: a.min(b), hi: a.max(b) },
                    };
                    (index, test)
                })
                .collect();
            let union = |tests: &[(usize, Test)]| {
                (0..16).filter(|&value| tests.iter().any(|(_, test)| test.passes(value, 4))).collect::<Vec<u128>>()
            };
            let found = held(&tests, 4);
            let gone = |index: usize| found.iter().any(|(of, _)| *of == index);
            let kept: Vec<(usize, Test)> = tests.iter().copied().filter(|(index, _)| !gone(*index)).collect();
            assert_eq!(union(&kept), union(&tests), "{tests:?} {found:?}");
            for &(index, by) in &found {
                let of = |index: usize| union(&tests[index..=index]);
                let is_held = |by: usize| of(index).iter().all(|value| of(by).contains(value));
                assert!(by.is_none_or(is_held), "{tests:?} {found:?}");
                together += usize::from(by.is_none());
            }
            if !tests.iter().any(|(_, test)| matches!(test, Test::Mask { .. })) {
                for at in 0..kept.len() {
                    let fewer = [&kept[..at], &kept[at + 1..]].concat();
                    assert_ne!(union(&fewer), union(&tests), "{tests:?} {found:?}");
                }
            }
            count += found.len();
        }
        assert!(count > 3_000 && together > 100, "{count} {together}");
    }
}
