//! Sets of products: sparse bit vectors, or sorted lists.

use super::config::SetForm;
use crate::engines::shared::Classes;

/// Products of a block, one bit each.
pub(super) const BLOCK: usize = 64;

/// Sets of a word by class, and the products that leave the word open, which are in each of them.
#[derive(Debug)]
pub(super) enum Sets {
    Vectors(Vectors),
    Lists(Lists),
}

/// Rows of words of 64 bits: a bit for each block of 64 products, then the blocks that are not empty.
#[derive(Debug)]
pub(super) struct Vectors {
    /// Place of each row.
    pub(super) firsts: Box<[u32]>,
    pub(super) rows: Box<[u64]>,
    /// Products that leave the word open: a bit for each block, then all blocks.
    pub(super) open: Box<[u64]>,
    /// Number of words of the bits for blocks.
    pub(super) summary: usize,
}

/// Sorted numbers of products.
#[derive(Debug)]
pub(super) struct Lists {
    /// Number of entries before each list, and of all.
    pub(super) firsts: Box<[u32]>,
    pub(super) entries: Box<[u32]>,
    pub(super) open: Box<[u32]>,
}

/// Set that changes, with a bit for each block that is not empty.
pub(super) struct Current {
    blocks: Vec<u64>,
    summary: Vec<u64>,
    row: Vec<u32>,
}

impl Current {
    pub(super) fn new(products: usize) -> Self {
        let blocks = products.div_ceil(BLOCK);
        Self { blocks: vec![0; blocks], summary: vec![0; blocks.div_ceil(BLOCK)], row: Vec::new() }
    }

    pub(super) fn toggle(&mut self, product: usize) {
        let at = product / BLOCK;
        self.blocks[at] ^= 1 << (product % BLOCK);
        let bit = 1 << (at % BLOCK);
        let summary = &mut self.summary[at / BLOCK];
        *summary = if self.blocks[at] == 0 { *summary & !bit } else { *summary | bit };
    }

    /// Calls `each` with the number of each block that is not empty.
    fn each_block(summary: &[u64], mut each: impl FnMut(usize)) {
        for (word, &bits) in summary.iter().enumerate() {
            ones(bits, |bit| each(word * BLOCK + bit));
        }
    }

    /// Returns the set as a row of [`Classes`], in the form in which it is stored.
    pub(super) fn row(&mut self, form: SetForm) -> &[u32] {
        let Self { blocks, summary, row } = self;
        row.clear();
        match form {
            SetForm::Vectors => {
                let mut push = |word: u64| row.extend([word as u32, (word >> 32) as u32]);
                summary.iter().for_each(|&word| push(word));
                Self::each_block(summary, |at| push(blocks[at]));
            }
            SetForm::Lists => {
                Self::each_block(summary, |at| ones(blocks[at], |bit| row.push((at * BLOCK + bit) as u32)));
            }
        }
        row
    }

    /// Returns the bits for blocks, then all blocks.
    fn dense(&self) -> Box<[u64]> {
        self.summary.iter().chain(&self.blocks).copied().collect()
    }

    /// Returns the numbers of the products, ascending.
    fn list(&mut self) -> Box<[u32]> {
        self.row(SetForm::Lists).into()
    }
}

/// Calls `each` with the place of each bit that is set.
#[inline(always)]
fn ones(mut bits: u64, mut each: impl FnMut(usize)) {
    while bits != 0 {
        each(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// Number of bytes that the sets of a word take.
pub(super) fn bytes(form: SetForm, classes: &Classes, open: usize, products: usize) -> usize {
    let (rows, blocks) = (size_of_val(classes.rows()), products.div_ceil(BLOCK));
    match form {
        SetForm::Vectors => rows + 4 * classes.len() + 8 * (blocks + blocks.div_ceil(BLOCK)),
        SetForm::Lists => rows + 4 * (classes.len() + 1) + 4 * open,
    }
}

impl Sets {
    /// Stores the classes of a word, whose rows are of the form `form`, and its open products.
    pub(super) fn new(form: SetForm, classes: &Classes, open: &mut Current) -> Self {
        let mut next = 0;
        let firsts = (0..classes.len()).map(|class| {
            let first = next;
            next += classes.row(class).len() as u32;
            first
        });
        match form {
            SetForm::Vectors => {
                let firsts = firsts.map(|first| first / 2).collect();
                let words = classes.rows().chunks_exact(2);
                let rows = words.map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32).collect();
                Self::Vectors(Vectors { firsts, rows, open: open.dense(), summary: open.summary.len() })
            }
            SetForm::Lists => {
                let entries: Box<[u32]> = classes.rows().into();
                let firsts = firsts.chain([entries.len() as u32]).collect();
                Self::Lists(Lists { firsts, entries, open: open.list() })
            }
        }
    }

    /// Number of bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Vectors(Vectors { firsts, rows, open, .. }) => {
                size_of_val(&firsts[..]) + size_of_val(&rows[..]) + size_of_val(&open[..])
            }
            Self::Lists(Lists { firsts, entries, open }) => {
                size_of_val(&firsts[..]) + size_of_val(&entries[..]) + size_of_val(&open[..])
            }
        }
    }

    /// Number of products of the longest set, those that leave the word open included.
    pub(super) fn longest(&self) -> usize {
        let count = |words: &[u64]| words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        match self {
            Self::Vectors(Vectors { firsts, rows, open, summary }) => {
                let ends = firsts.iter().skip(1).map(|&first| first as usize).chain([rows.len()]);
                let sizes = firsts.iter().zip(ends).map(|(&first, end)| count(&rows[first as usize + summary..end]));
                sizes.max().unwrap_or(0) + count(&open[*summary..])
            }
            Self::Lists(Lists { firsts, open, .. }) => {
                firsts.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0) + open.len()
            }
        }
    }

    /// Returns the numbers of the products of a class, ascending.
    pub(super) fn products(&self, class: u32) -> Vec<u32> {
        let mut all = Vec::new();
        match self {
            Self::Vectors(vectors) => vectors.each_block(class, |at, block| {
                ones(block, |bit| all.push((at * BLOCK + bit) as u32));
            }),
            Self::Lists(lists) => all.extend(lists.of(class).0.iter().chain(&lists.open[..])),
        }
        all.sort_unstable();
        all
    }
}

impl Lists {
    /// Returns the products of a class that constrain the word, and those that leave it open.
    #[inline(always)]
    pub(super) fn of(&self, class: u32) -> (&[u32], &[u32]) {
        let at = class as usize;
        (&self.entries[self.firsts[at] as usize..self.firsts[at + 1] as usize], &self.open)
    }
}

impl Vectors {
    /// Returns the bits of the blocks `64 · word` to `64 · word + 63` of a row, without the open products.
    #[inline(always)]
    pub(super) fn own_summary(&self, class: u32, word: usize) -> u64 {
        self.rows[self.firsts[class as usize] as usize + word]
    }

    /// Returns block number `at`, united with the open products.
    ///
    /// `own` is the word of the row's bits that has the block's, and `stored` the place of the first block stored for it.
    #[inline(always)]
    pub(super) fn block(&self, at: usize, own: u64, stored: usize) -> u64 {
        let bit = at % BLOCK;
        let open = self.open[self.summary + at];
        if own >> bit & 1 == 0 {
            return open;
        }
        open | self.rows[stored + (own & ((1 << bit) - 1)).count_ones() as usize]
    }

    /// Returns the place of the first block that a row stores.
    #[inline(always)]
    pub(super) fn stored(&self, class: u32) -> usize {
        self.firsts[class as usize] as usize + self.summary
    }

    /// Whether no product is in a row, and none leaves the word open.
    #[inline(always)]
    pub(super) fn is_empty(&self, class: u32) -> bool {
        (0..self.summary).all(|word| self.own_summary(class, word) | self.open[word] == 0)
    }

    /// Calls `each` with the number and the bits of each block that is not empty.
    #[inline(always)]
    pub(super) fn each_block(&self, class: u32, mut each: impl FnMut(usize, u64)) {
        let mut stored = self.stored(class);
        for word in 0..self.summary {
            let own = self.own_summary(class, word);
            ones(own | self.open[word], |bit| each(word * BLOCK + bit, self.block(word * BLOCK + bit, own, stored)));
            stored += own.count_ones() as usize;
        }
    }
}
