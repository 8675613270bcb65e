//! Products of sets: regions of a rule that differ in one word only become one product.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::engine::budget::Visits;
use crate::rule::{Lowered, Match, Region, containing_prefix};

/// Closed interval of values of a word.
pub(crate) type Interval = (u32, u32);
/// Value and mask of each word; empty if no word has a mask.
pub(crate) type Masks = Vec<(u32, u32)>;

/// Rules as products, each of one set of values for each word, in order of rank.
///
/// A key lies in a product if each of its words is in the word's set. Every key lies in a product of a rule if it lies
/// in a region of that rule, and the other way round. For example, `sport { 22, 80 } dport not 443` is four regions and
/// one product: the intervals 22 and 80 of one word, 0 to 442 and 444 to 65,535 of the other.
pub(crate) struct Products {
    /// Rule of each product.
    pub(crate) matches: Vec<Match>,
    /// Number of products before each rule's own, and the number of all.
    pub(crate) firsts: Vec<u32>,
    /// Intervals of each word with their products. In one product they do not overlap.
    pub(crate) intervals: Vec<Vec<(usize, Interval)>>,
    /// Values under masks of each product.
    pub(crate) masks: Vec<Masks>,
}

impl Products {
    /// Builds the products of a rule set, and counts a visit for each word of a region that may be united.
    pub(crate) fn of(set: &Lowered, visits: &Visits) -> Self {
        let mut all = Self {
            matches: Vec::new(),
            firsts: vec![0],
            intervals: vec![Vec::new(); set.schema().words().len()],
            masks: Vec::new(),
        };
        for (rule, regions) in set.by_rule() {
            if regions.len() > 1 {
                visits.add(regions.len() * all.intervals.len());
            }
            for (masks, sets) in merged(set, regions) {
                let intervals = sets.into_iter().zip(&mut all.intervals);
                intervals.for_each(|(set, all_of)| all_of.extend(set.into_iter().map(|one| (all.matches.len(), one))));
                all.masks.push(masks);
                all.matches.push(rule);
            }
            all.firsts.push(all.matches.len() as u32);
        }
        all
    }

    pub(crate) fn len(&self) -> usize {
        self.matches.len()
    }

    /// Returns the bits of a word that some product tests under a mask.
    pub(crate) fn tested(&self, word: usize) -> u32 {
        self.masks.iter().filter_map(|masks| masks.get(word)).fold(0, |bits, (_, mask)| bits | mask)
    }
}

/// Returns the products of one rule: its masks, and a set of intervals for each word.
///
/// Word by word, products that are equal in all other words are united.
fn merged(set: &Lowered, regions: Range<usize>) -> Vec<(Masks, Vec<Vec<Interval>>)> {
    let sets = |Region { lo, hi, .. }: Region<'_>| lo.iter().zip(hi).map(|(&lo, &hi)| vec![(lo, hi)]).collect();
    let regions = regions.map(|at| set.regions().get(at));
    let mut products: Vec<(Masks, Vec<_>)> = regions.map(|region| (masks(region), sets(region))).collect();
    for word in 0..set.schema().words().len() {
        if products.len() == 1 {
            break;
        }
        let mut united: BTreeMap<_, Vec<Interval>> = BTreeMap::new();
        for (masks, mut sets) in products {
            let of_word = std::mem::take(&mut sets[word]);
            united.entry((masks, sets)).or_default().extend(of_word);
        }
        let whole = |((masks, mut sets), of_word): ((_, Vec<_>), _)| {
            sets[word] = unite(of_word);
            (masks, sets)
        };
        products = united.into_iter().map(whole).collect();
    }
    products
}

/// Returns the masks of a region, without the bits that its intervals fix.
///
/// For example, 192.0.2.0 under 255.255.255.5 lies between 192.0.2.0 and 192.0.2.250, so bits 0 and 2 are left.
fn masks(Region { lo, hi, ternary }: Region<'_>) -> Masks {
    let Some((value, mask)) = ternary else { return Vec::new() };
    let left = |word: usize| mask[word] & !containing_prefix(lo[word], hi[word]);
    let masks: Masks = (0..lo.len()).map(|word| (value[word] & left(word), left(word))).collect();
    if masks.iter().all(|&(_, mask)| mask == 0) { Vec::new() } else { masks }
}

/// Returns the union of intervals, in order, none of which touch.
pub(crate) fn unite(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_unstable();
    intervals.dedup_by(|next, last| {
        let touches = next.0 <= last.1.saturating_add(1);
        last.1 = if touches { last.1.max(next.1) } else { last.1 };
        touches
    });
    intervals
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{ExpansionLimits, Priority, RuleId, lower};
    use crate::schema::{Field, Kind, Schema};
    use crate::test_rules::of_text;

    fn holds(products: &Products, product: usize, key: &[u32]) -> bool {
        let of_word = |word: usize| products.intervals[word].iter().filter(move |(of, _)| *of == product);
        let is_inside = |word: usize| of_word(word).any(|&(_, (lo, hi))| (lo..=hi).contains(&key[word]));
        let mut masks = products.masks[product].iter().zip(key);
        (0..key.len()).all(is_inside) && masks.all(|(&(value, mask), key)| key & mask == value)
    }

    /// Over three words of three bits, keys lie in a product of a rule just if they lie in one of its regions.
    #[test]
    fn products_hold_what_regions_hold() {
        let schema = Schema::new(None, (0..3).map(|at| Field::new(&format!("f{at}"), 3, Kind::Mask, None)).collect());
        let mut state = 5u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            ((state >> 33) % below) as u32
        };
        let (mut regions, mut products) = (0, 0);
        for _ in 0..400 {
            let mut set = Lowered::empty(&schema);
            for line in 1..4 {
                let rule = Match { rule: RuleId::new(line, 1), priority: Priority::of_line(line) };
                for _ in 0..1 + random(9) {
                    // A quarter of the regions have a mask on some words.
                    let masked = random(4) / 3;
                    let [mut lo, mut hi, mut value, mut mask] = [[0; 3]; 4];
                    for word in 0..3 {
                        mask[word] = masked * random(2) * random(8);
                        value[word] = random(8) & mask[word];
                        let passes = |key: &u32| key & mask[word] == value[word];
                        let first = (random(2) * 4..8).chain(0..8).find(passes).expect("some value passes");
                        let last = first + random(2) * 3;
                        (lo[word], hi[word]) = (first, (first..=last.min(7)).rev().find(passes).unwrap_or(first));
                    }
                    let ternary = mask.iter().any(|&mask| mask != 0).then_some((&value[..], &mask[..]));
                    set.push(rule, Region { lo: &lo, hi: &hi, ternary });
                }
            }
            let all = Products::of(&set, &Visits::default());
            assert_eq!(all.firsts.len(), 1 + set.by_rule().count());
            for (rank, (rule, of)) in set.by_rule().enumerate() {
                let own = all.firsts[rank] as usize..all.firsts[rank + 1] as usize;
                assert!(!own.is_empty() && own.len() <= of.len() && own.clone().all(|at| all.matches[at] == rule));
                for key in (0..512).map(|key| [key & 7, key >> 3 & 7, key >> 6]) {
                    let want = of.clone().any(|at| set.regions().get(at).contains(&key));
                    assert_eq!(own.clone().any(|at| holds(&all, at, &key)), want, "{key:?} in {set:?}");
                }
            }
            (regions, products) = (regions + set.regions().len(), products + all.len());
        }
        assert!(products * 10 < regions * 9, "{products} products of {regions} regions");
    }

    #[test]
    fn a_rule_of_sets_is_one_product() {
        let hosts = "src { 192.0.2.1, 192.0.2.9, 2001:db8:1::5, 2001:db8:2::5 } ";
        let set = of_text(&format!("deny {hosts} sport {{ 22, 80 }} dport {{ 1, 2, 443 }}\npermit {hosts}\npermit"));
        for schema in set.schemas() {
            let lowered = lower(&set, schema, &ExpansionLimits::default()).expect("within the limits");
            let all = Products::of(&lowered, &Visits::default());
            // Ports 1 and 2 are one interval.
            assert_eq!((lowered.regions().len(), &all.firsts[..]), (8 + 2 + 1, &[0, 1, 2, 3][..]));
        }
    }

    /// Bits that an interval fixes are left out of a mask, so that no vector is read for them.
    #[test]
    fn masks_are_of_bits_that_the_interval_leaves_open() {
        let region = |lo: u32, hi: u32, mask: u32| {
            masks(Region { lo: &[lo], hi: &[hi], ternary: Some((&[lo & mask], &[mask])) })
        };
        assert_eq!(region(0xC000_0200, 0xC000_02FA, 0xFFFF_FF05), [(0, 5)]);
        assert_eq!(region(0x41, 0x47, 0xF1), [(1, 1)]);
        assert!(region(0x40, 0x4F, 0xFFFF_FFF0).is_empty());
    }
}
