//! Categories: which engines are built, and which of them answer for which category.
//!
//! An engine stops at the first rule that matches, so categories with different rules need different engines. Two ways
//! to split the rules are compared, and the one with fewer engines is taken:
//!
//! - One engine for each distinct *column*, the rules of a category. Categories with the same rules share one. For
//!   example, if every rule has all categories, one engine answers for all of them.
//! - One engine for each distinct *mask* of a rule. The answer for a category is the best of the engines whose masks
//!   have it. For example, the masks `0b01`, `0b11` and `0b10` are three engines, but the columns are only two.

use std::collections::BTreeSet;

use crate::abi::MAX_CATEGORIES;

/// Rules of one engine, by their masks of categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Members {
    /// Rules of this category.
    Category(u32),
    /// Rules with exactly this mask.
    Mask(u32),
}

impl Members {
    /// Whether a rule with this mask, of built categories alone, belongs to the engine.
    pub(crate) fn has(self, mask: u32) -> bool {
        match self {
            Self::Category(category) => mask >> category & 1 == 1,
            Self::Mask(of) => mask == of,
        }
    }
}

/// Engines and the categories that they answer for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Split {
    pub(crate) engines: Vec<Members>,
    /// Engines of each category, as bits.
    pub(crate) of_category: [u16; MAX_CATEGORIES as usize],
}

impl Split {
    /// Splits rules with these masks, in which only the first `categories` bits are set.
    ///
    /// A category without rules has no engine, so its answer is always 0.
    pub(crate) fn new(masks: &BTreeSet<u32>, categories: u32) -> Self {
        let column = |category: u32| masks.iter().copied().filter(move |mask| mask >> category & 1 == 1);
        let (mut engines, mut of_category) = (Vec::new(), [0; MAX_CATEGORIES as usize]);
        for category in 0..categories.min(MAX_CATEGORIES) {
            if column(category).next().is_none() {
                continue;
            }
            let same = (0..category).find(|&other| column(other).eq(column(category)));
            of_category[category as usize] = match same {
                Some(other) => of_category[other as usize],
                None => 1 << engines.len(),
            };
            if same.is_none() {
                engines.push(Members::Category(category));
            }
        }
        if masks.len() < engines.len() {
            engines = masks.iter().map(|&mask| Members::Mask(mask)).collect();
            for (category, of_category) in (0..categories).zip(&mut of_category) {
                let bits = masks.iter().enumerate().map(|(at, mask)| ((mask >> category & 1) as u16) << at);
                *of_category = bits.sum();
            }
        }
        Self { engines, of_category }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(masks: &[u32], categories: u32) -> Split {
        Split::new(&masks.iter().copied().collect(), categories)
    }

    #[test]
    fn categories_with_the_same_rules_share_an_engine() {
        let all = split(&[0xFFFF], 16);
        assert_eq!((all.engines, all.of_category), (vec![Members::Category(0)], [1; 16]));
        let one = split(&[2], 3);
        assert_eq!((one.engines, &one.of_category[..4]), (vec![Members::Category(1)], &[0, 1, 0, 0][..]));
        let two = split(&[0b011, 0b100], 3);
        assert_eq!(two.engines, [Members::Category(0), Members::Category(2)]);
        assert_eq!(two.of_category[..4], [1, 1, 2, 0]);
    }

    #[test]
    fn few_masks_are_split_by_mask() {
        let few = split(&[0b0110, 0b1100], 4);
        assert_eq!(few.engines, [Members::Mask(0b0110), Members::Mask(0b1100)]);
        assert_eq!(few.of_category[..5], [0, 0b01, 0b11, 0b10, 0]);
    }

    /// Checks every set of masks of four categories: each rule is in an engine of each of its categories, and in none
    /// of another.
    #[test]
    fn every_category_has_the_engines_of_its_rules() {
        for set in 1..1u32 << 15 {
            let masks: BTreeSet<u32> = (1..16).filter(|mask| set >> (mask - 1) & 1 == 1).collect();
            let split = Split::new(&masks, 4);
            assert!(split.engines.len() <= masks.len().min(4));
            for (category, &bits) in (0..4).zip(&split.of_category) {
                for &mask in &masks {
                    let is_in = (0..split.engines.len()).any(|at| bits >> at & 1 == 1 && split.engines[at].has(mask));
                    assert_eq!(is_in, mask >> category & 1 == 1, "{masks:?}, {category}");
                }
            }
        }
    }
}
