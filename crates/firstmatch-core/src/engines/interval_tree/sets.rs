//! Sets of products: sparse bit vectors, or sorted lists.

use super::config::SetForm;
use crate::engines::shared::Classes;

/// Products of a block, one bit each.
pub(super) const BLOCK: usize = 64;

/// Sets of each word that some product constrains.
#[derive(Debug)]
pub(super) enum Sets {
    Vectors(Box<[Vectors]>),
    Lists(Box<[Lists]>),
}

/// Rows of words of 64 bits: a bit for each block of 64 products, then the blocks that are not empty.
///
/// # Invariants
/// - One word stands behind the last row, so that the place behind any row can be read
///   (`sets_of_both_forms_give_back_their_products`).
#[derive(Debug)]
pub(super) struct Vectors {
    pub(super) rows: Box<[u64]>,
    /// Products that leave the word open: a bit for each block, then all blocks.
    pub(super) open: Box<[u64]>,
    /// Number of words of the bits for blocks.
    pub(super) summary: usize,
}

/// Sorted numbers of products.
#[derive(Debug)]
pub(super) struct Lists {
    /// Number of entries before each list, then the number of all entries.
    firsts: Box<[u32]>,
    entries: Box<[u32]>,
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
        SetForm::Vectors => rows + 8 + 8 * (blocks + blocks.div_ceil(BLOCK)) + size_of::<Vectors>(),
        SetForm::Lists => rows + 4 * (classes.len() + 1) + 4 * open + size_of::<Lists>(),
    }
}

impl Sets {
    /// Number of bytes on the heap.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Vectors(all) => {
                let one = |Vectors { rows, open, .. }: &Vectors| size_of_val(&rows[..]) + size_of_val(&open[..]);
                size_of_val(&all[..]) + all.iter().map(one).sum::<usize>()
            }
            Self::Lists(all) => {
                let one = |Lists { firsts, entries, open }: &Lists| {
                    size_of_val(&firsts[..]) + size_of_val(&entries[..]) + size_of_val(&open[..])
                };
                size_of_val(&all[..]) + all.iter().map(one).sum::<usize>()
            }
        }
    }

    /// Number of products of the longest set, including products that leave the word open.
    pub(super) fn longest(&self) -> usize {
        match self {
            Self::Vectors(all) => all.iter().map(Vectors::longest).max().unwrap_or(0),
            Self::Lists(all) => all.iter().map(|lists| lists.longest() + lists.open.len()).max().unwrap_or(0),
        }
    }

    /// Returns the products of a set, ascending. `word` counts the words that some product constrains.
    pub(super) fn products(&self, word: usize, set: u32) -> Vec<u32> {
        let mut all = Vec::new();
        match self {
            Self::Vectors(vectors) => vectors[word].each_block(set, |at, block| {
                ones(block, |bit| all.push((at * BLOCK + bit) as u32));
            }),
            Self::Lists(lists) => all.extend(lists[word].of(set).0.iter().chain(&lists[word].open[..])),
        }
        all.sort_unstable();
        all
    }
}

impl Lists {
    /// Stores the classes of a word and its open products.
    pub(super) fn new(classes: &Classes, open: &mut Current) -> Self {
        let firsts = (0..=classes.len()).scan(0, |next, class| {
            let first = *next;
            *next += if class < classes.len() { classes.row(class).len() as u32 } else { 0 };
            Some(first)
        });
        Self { firsts: firsts.collect(), entries: classes.rows().into(), open: open.list() }
    }

    /// Number of products of the longest list.
    pub(super) fn longest(&self) -> usize {
        self.firsts.windows(2).map(|pair| (pair[1] - pair[0]) as usize).max().unwrap_or(0)
    }

    /// Returns the products of a class that constrain the word, and the products that leave it open.
    #[inline(always)]
    pub(super) fn of(&self, class: u32) -> (&[u32], &[u32]) {
        let at = class as usize;
        (&self.entries[self.firsts[at] as usize..self.firsts[at + 1] as usize], &self.open)
    }

    /// Number of products of a class and of the open ones.
    #[inline(always)]
    pub(super) fn len(&self, class: u32) -> usize {
        let (own, open) = self.of(class);
        own.len() + open.len()
    }

    /// Returns the first product of at least `least` of a class or of the open products.
    ///
    /// `places` has the place in each up to which they were read, and moves on. Entries that are looked at are added to
    /// `looked`.
    #[inline(always)]
    pub(super) fn reach(&self, class: u32, places: &mut [usize; 2], least: u32, looked: &mut usize) -> Option<u32> {
        let (own, open) = self.of(class);
        places[0] = seek(own, places[0], least, looked);
        let own = own.get(places[0]).copied();
        if own == Some(least) {
            return own;
        }
        places[1] = seek(open, places[1], least, looked);
        own.into_iter().chain(open.get(places[1]).copied()).min()
    }
}

/// Returns the place of the first entry of at least `product`, from `from` on, by steps that double and then halve.
#[inline(always)]
pub(super) fn seek(entries: &[u32], mut from: usize, product: u32, looked: &mut usize) -> usize {
    let mut step = 1;
    while let Some(&entry) = entries.get(from + step - 1) {
        *looked += 1;
        if entry >= product {
            break;
        }
        from += step;
        step *= 2;
    }
    let mut to = entries.len().min(from + step - 1);
    while from < to {
        let middle = from.midpoint(to);
        *looked += 1;
        if entries[middle] < product {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}

impl Vectors {
    /// Stores the classes of a word and its open products; also returns the place of the row of each class.
    pub(super) fn new(classes: &Classes, open: &Current) -> (Self, Vec<u32>) {
        let mut next = 0;
        let places = (0..classes.len()).map(|class| {
            let place = next;
            next += classes.row(class).len() as u32 / 2;
            place
        });
        let places = places.collect();
        let words = classes.rows().chunks_exact(2).map(|pair| u64::from(pair[0]) | u64::from(pair[1]) << 32);
        (Self { rows: words.chain([0]).collect(), open: open.dense(), summary: open.summary.len() }, places)
    }

    /// Number of products of the largest set.
    fn longest(&self) -> usize {
        let count = |words: &[u64]| words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
        let (mut row, mut longest) = (0, 0);
        // Without products, all rows are empty.
        while self.summary > 0 && row + 1 < self.rows.len() {
            let blocks = row + self.summary;
            let end = blocks + count(&self.rows[row..blocks]);
            (row, longest) = (end, longest.max(count(&self.rows[blocks..end])));
        }
        longest + count(&self.open[self.summary..])
    }

    /// Returns the bits of the blocks `64 · word` to `64 · word + 63` of a row, without the open products.
    #[inline(always)]
    pub(super) fn own_summary(&self, row: u32, word: usize) -> u64 {
        self.rows[row as usize + word]
    }

    /// Returns block number `at`, united with the open products.
    ///
    /// `own` is the word of the row's summary with the bit of the block. `stored` is the place of the first block that
    /// the row stores for this word.
    #[inline(always)]
    pub(super) fn block(&self, at: usize, own: u64, stored: usize) -> u64 {
        let bit = at % BLOCK;
        let place = stored + (own & ((1 << bit) - 1)).count_ones() as usize;
        // Whether a block is stored is unpredictable, so there is no branch: if not, another word is read and masked.
        let is_stored = (own >> bit & 1).wrapping_neg();
        self.open[self.summary + at] | self.rows[place] & is_stored
    }

    /// Returns the place of the first block that a row stores.
    #[inline(always)]
    pub(super) fn stored(&self, row: u32) -> usize {
        row as usize + self.summary
    }

    /// Whether no product is in a row, and none leaves the word open.
    #[inline(always)]
    pub(super) fn is_empty(&self, row: u32) -> bool {
        (0..self.summary).all(|word| self.own_summary(row, word) | self.open[word] == 0)
    }

    /// Calls `each` with the number and the bits of each block that is not empty.
    #[inline(always)]
    pub(super) fn each_block(&self, row: u32, mut each: impl FnMut(usize, u64)) {
        let mut stored = self.stored(row);
        for word in 0..self.summary {
            let own = self.own_summary(row, word);
            ones(own | self.open[word], |bit| each(word * BLOCK + bit, self.block(word * BLOCK + bit, own, stored)));
            stored += own.count_ones() as usize;
        }
    }
}
