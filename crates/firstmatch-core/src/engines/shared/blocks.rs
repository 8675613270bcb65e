//! Blocks of eight regions, stored column by column.
//!
//! ```text
//! for each key word   8 × lo │ 8 × hi
//! for each ternary    8 × value │ 8 × mask
//! ```

use crate::rule::{Region, Regions};

/// Number of regions in a block.
pub(crate) const BLOCK: usize = 8;

/// Columns of a block: the number of key words, and the words that have values under masks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Columns<'a> {
    pub(crate) key_words: usize,
    pub(crate) ternary: &'a [usize],
}

impl Columns<'_> {
    /// Number of 32-bit words of a block.
    pub(crate) fn words(self) -> usize {
        2 * BLOCK * (self.key_words + self.ternary.len())
    }

    /// Writes the region `index` of `regions` to place `at` of a block.
    pub(crate) fn write(self, block: &mut [u32], at: usize, regions: &Regions, index: usize) {
        let region = regions.get(index);
        for word in 0..self.key_words {
            block[word * 2 * BLOCK + at] = region.lo[word];
            block[word * 2 * BLOCK + BLOCK + at] = region.hi[word];
        }
        for (column, &word) in (self.key_words..).zip(self.ternary) {
            let (value, mask) = region.ternary.map_or((0, 0), |(value, mask)| (value[word], mask[word]));
            block[column * 2 * BLOCK + at] = value;
            block[column * 2 * BLOCK + BLOCK + at] = mask;
        }
    }

    /// Calls `take` with the region at place `at` of a block, whose bounds are gathered in `row`.
    pub(crate) fn read<R>(self, block: &[u32], at: usize, row: &mut Vec<u32>, take: impl FnOnce(Region<'_>) -> R) -> R {
        let words = self.key_words;
        row.clear();
        row.resize(4 * words, 0);
        for word in 0..words {
            row[word] = block[word * 2 * BLOCK + at];
            row[words + word] = block[word * 2 * BLOCK + BLOCK + at];
        }
        for (column, &word) in (words..).zip(self.ternary) {
            row[2 * words + word] = block[column * 2 * BLOCK + at];
            row[3 * words + word] = block[column * 2 * BLOCK + BLOCK + at];
        }
        let (bounds, masks) = row.split_at(2 * words);
        let (lo, hi) = bounds.split_at(words);
        let ternary = masks[words..].iter().any(|&mask| mask != 0).then(|| masks.split_at(words));
        take(Region { lo, hi, ternary })
    }
}
