//! Prefix fields, for which a block stores only one bound.

use std::ops::Range;

use crate::rule::Region;
use crate::rule::containing_prefix;
use crate::schema::Schema;

/// Field that is a prefix in every region.
///
/// A block stores 32 bits for each word, and a byte for the number of open bits. A wholly open word counts 32. For
/// example, an IPv6 prefix of 40 bits leaves 24 + 32 + 32 = 88 bits open.
#[derive(Clone, Debug)]
pub(super) struct Prefixes {
    pub(super) words: Range<usize>,
    /// Largest value of each word.
    pub(super) most: Box<[u32]>,
}

impl Prefixes {
    /// Largest number of words whose open bits a byte can count.
    const KEY_WORDS: usize = u8::MAX as usize / 32;

    /// Returns the fields that have a suitable number and width of words.
    pub(super) fn possible(schema: &Schema) -> impl Iterator<Item = Self> {
        let fields = (0..schema.fields().len()).map(|field| Self {
            words: schema.words_of(field),
            most: schema.words()[schema.words_of(field)].iter().map(|word| word.max).collect(),
        });
        // A field of 16 bits is as narrow with two bounds, even with a value for absent.
        fields.filter(|of| {
            (1..=Self::KEY_WORDS).contains(&of.words.len()) && (of.words.len() > 1 || of.most[0] >> 17 != 0)
        })
    }

    /// Returns the number of bits that a region leaves open; `None` if it is no prefix.
    pub(super) fn open(&self, region: &Region<'_>) -> Option<u32> {
        let (mut open, mut is_open) = (0, false);
        for (word, &most) in self.words.clone().zip(&self.most) {
            let (lo, hi) = (region.lo[word], region.hi[word]);
            let fixed = containing_prefix(lo, hi);
            if lo == 0 && hi >= most {
                open += u32::BITS;
                is_open = true;
            } else if is_open || (lo & !fixed, hi & !fixed) != (0, !fixed) {
                return None;
            } else {
                open += fixed.count_zeros();
                is_open = fixed != u32::MAX;
            }
        }
        Some(open)
    }

    /// Returns the bounds of one word of a prefix with `open` open bits and this `value`.
    pub(super) fn bounds(&self, word: usize, value: u32, open: u32) -> (u32, u32) {
        let at = word - self.words.start;
        let behind = u32::BITS * (self.words.len() - 1 - at) as u32;
        match open.saturating_sub(behind).min(u32::BITS) {
            u32::BITS => (0, self.most[at]),
            open => (value, value | ((1 << open) - 1)),
        }
    }
}
