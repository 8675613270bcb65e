//! Constraints that regions put on key words, as far as the form of columns depends on them.

use super::prefixes::Prefixes;
use crate::rule::{Region, Regions};
use crate::schema::Schema;

/// Properties of key words that hold for every region.
pub(super) struct Constraints {
    /// For each word, whether every region accepts all its values or rejects the absent value.
    pub(super) all_or_required: Vec<bool>,
    /// For each word, whether some region constrains it.
    pub(super) any: Vec<bool>,
    /// For each word, whether [`is_single`] holds for every region.
    pub(super) single: Vec<bool>,
    /// Fields that are prefixes in every region.
    pub(super) prefixes: Vec<Prefixes>,
    /// Words for which some region has a value under a mask.
    pub(super) ternary: Vec<usize>,
}

impl Constraints {
    /// Collects the constraints in one pass over the regions.
    pub(super) fn of(schema: &Schema, regions: &Regions) -> Self {
        let ternary = regions.ternary_words();
        let is_ternary = |of: &Prefixes| ternary.iter().any(|word| of.words.contains(word));
        let mut prefixes: Vec<Prefixes> = Prefixes::possible(schema).filter(|of| !is_ternary(of)).collect();
        let [mut all_or_required, mut single] = [(); 2].map(|()| vec![true; schema.words().len()]);
        let mut any = vec![false; schema.words().len()];
        ternary.iter().for_each(|&word| any[word] = true);
        for region in regions.iter() {
            for (index, word) in schema.words().iter().enumerate() {
                let (lo, hi) = (region.lo[index], region.hi[index]);
                any[index] |= (lo, hi) != (0, word.max);
                all_or_required[index] &= hi < word.max || (lo == 0 && hi == word.max);
                single[index] &= is_single(&region, (index, word.max.min(ANY)));
            }
            if !prefixes.iter().all(|of| of.open(&region).is_some()) {
                prefixes.retain(|of| of.open(&region).is_some());
            }
        }
        Self { all_or_required, any, single, prefixes, ternary }
    }
}

/// Byte of a column that stands for all values.
pub(super) const ANY: u32 = 0xFF;

/// Whether a region accepts one value of a word, below [`ANY`], or all values up to `most`.
pub(super) fn is_single(region: &Region<'_>, (word, most): (usize, u32)) -> bool {
    let (lo, hi) = (region.lo[word], region.hi[word]);
    (lo == hi && lo < ANY) || (lo == 0 && hi >= most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Region;
    use crate::schema::{Field, Kind};

    /// A column without the absent value can hold a field if each region takes all packets, or only packets with it.
    #[test]
    fn regions_of_packets_without_a_field_take_all_packets() {
        let schema = Schema::new(None, vec![Field::new("port", 16, Kind::Range, None).optional()]);
        let absent = schema.words()[0].max;
        for (lo, hi, expected) in [
            (0, absent, true),
            (0, absent - 1, true),
            (7, absent - 1, true),
            (7, 7, true),
            (7, absent, false),
            (absent, absent, false),
        ] {
            let mut regions = Regions::new(1);
            regions.push(Region { lo: &[0], hi: &[absent], ternary: None });
            regions.push(Region { lo: &[lo], hi: &[hi], ternary: None });
            assert_eq!(Constraints::of(&schema, &regions).all_or_required, [expected], "{lo} to {hi}");
        }
    }
}
