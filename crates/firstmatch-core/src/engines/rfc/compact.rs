//! Compact forms of a table, which store runs of equal entries once.

use std::hint::black_box;

use super::entries::Entries;

/// Number of entries of a block.
pub(super) const BLOCK: usize = 64;

/// Bitmap of 64 entries, which marks where runs begin; 12 bytes.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) words: [u32; 2],
    /// Number of runs that began before this block, minus 1; it wraps.
    pub(super) before: u32,
}

impl Block {
    #[inline(always)]
    pub(super) fn bits(&self) -> u64 {
        u64::from(self.words[0]) | u64::from(self.words[1]) << 32
    }
}

/// Number of bytes of the bitmaps of `count` entries.
pub(super) fn bitmap_bytes(count: usize) -> usize {
    count.div_ceil(BLOCK).saturating_mul(size_of::<Block>())
}

/// Runs under ranked bitmaps: each bitmap marks where runs begin among 64 entries, and values stand in one array.
///
/// | bytes of a block | content |
/// |---|---|
/// | 0 to 7 | bitmap; bit i is set if entry i begins a run |
/// | 8 to 11 | number of runs that began before this block, minus 1; it wraps |
///
/// For example, the entries 4 4 4 9 9 4 have the bits 0, 3 and 5, and the values 4, 9 and 4. Of bits 0 to 4 two are
/// set, so entry 4 has the second value.
#[derive(Debug)]
pub(super) struct Ranked {
    pub(super) blocks: Box<[Block]>,
    pub(super) values: Entries,
}

impl Ranked {
    /// Returns the place of an entry's value; `usize::MAX` for an entry beyond the last block.
    #[inline(always)]
    pub(super) fn place<const FIND: bool>(&self, index: usize) -> usize {
        let Some(block) = self.blocks.get(index / BLOCK) else { return usize::MAX };
        // The shift drops the bits above the entry's own.
        let ones = ones::<FIND>(block.bits() << (BLOCK - 1 - index % BLOCK));
        block.before.wrapping_add(ones) as usize
    }
}

/// Returns the number of bits that are set; with `FIND`, in a loop that finds and clears the lowest one.
#[inline(always)]
fn ones<const FIND: bool>(mut bits: u64) -> u32 {
    if !FIND {
        return bits.count_ones();
    }
    let mut ones = 0;
    while bits != 0 {
        // Without the barrier, the compiler makes one instruction that counts all bits of this loop.
        let lowest = black_box(bits.trailing_zeros());
        (bits, ones) = (bits & !(1 << lowest), ones + 1);
    }
    ones
}

/// Number of entries of a sub-table, and of the elements that it holds itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SubTableShape {
    /// 32, 64, 96 or 128.
    pub(super) entries: usize,
    /// Even number from 4 to 28.
    pub(super) elements: usize,
}

impl SubTableShape {
    /// Number of words of the bitmap.
    pub(super) fn bitmap(self) -> usize {
        self.entries / 32
    }

    /// Number of words of a sub-table.
    pub(super) fn words(self, is_long: bool) -> usize {
        self.bitmap() + words_of(self.elements, is_long)
    }

    /// Number of runs that stay in a sub-table if the others are in the accessory table.
    pub(super) fn inside(self, is_long: bool) -> usize {
        self.elements - if is_long { 1 } else { 2 }
    }
}

/// Number of words that `elements` elements take, two to a word if they are short.
pub(super) fn words_of(elements: usize, is_long: bool) -> usize {
    if is_long { elements } else { elements.div_ceil(2) }
}

/// Sub-tables of the paper, and the accessory table.
///
/// A sub-table of 32 entries and 8 elements of 16 bits has 20 bytes:
///
/// | bytes | content |
/// |---|---|
/// | 0 to 3 | bitmap; bit i is set if entry i begins a run; bit 0 is always set |
/// | 4 to 19 | values of at most eight runs |
/// | 4 to 15, 16 to 19 | with more runs: values of the first six, and the place of the others in the accessory table |
///
/// For example, of nine runs six are in the sub-table and three in the accessory table. With elements of 32 bits, seven
/// stay, because the place takes only one element.
#[derive(Debug)]
pub(super) struct SubTables {
    pub(super) shape: SubTableShape,
    /// Whether elements have 32 bits.
    pub(super) is_long: bool,
    pub(super) words: Box<[u32]>,
    pub(super) accessories: Box<[u32]>,
}

/// Place of an entry's value, in its sub-table or in the accessory table.
struct Element<'a> {
    words: &'a [u32],
    place: usize,
    is_outside: bool,
}

impl SubTables {
    /// Finds an entry; with `ONE`, of sub-tables whose bitmap is one word.
    #[inline(always)]
    fn element<const ONE: bool, const FIND: bool>(&self, index: usize) -> Option<Element<'_>> {
        let bitmap = if ONE { 1 } else { self.shape.bitmap() };
        let shift = self.shift();
        let length = bitmap + (self.shape.elements >> shift);
        let (first, at) = (index / (bitmap * 32) * length, index % (bitmap * 32));
        let table = self.words.get(first..first + length)?;
        let (mut upto, mut all) = (0, 0);
        for (word, &bits) in table[..bitmap].iter().enumerate() {
            let bits = u64::from(bits);
            let below = (at + 1).saturating_sub(word * 32).min(32);
            upto += ones::<FIND>(bits & ((1 << below) - 1));
            // Whether a sub-table spills is no position, so it is counted alike in both forms.
            all += bits.count_ones();
        }
        // Bit 0 is set, so that every entry is in a run.
        let (run, inside) = (upto as usize - 1, self.shape.inside(self.is_long));
        let address = table[length - 1] as usize;
        // Both places are computed, because a branch would be mispredicted if tables are dense.
        let is_outside = (all as usize > self.shape.elements) & (run >= inside);
        let (words, place) = match is_outside {
            true => (&self.accessories[..], address.wrapping_add(run.wrapping_sub(inside))),
            false => (table, (bitmap << shift) + run),
        };
        Some(Element { words, place, is_outside })
    }

    /// Binary logarithm of the number of elements in a word.
    #[inline(always)]
    fn shift(&self) -> u32 {
        u32::from(!self.is_long)
    }

    /// Returns the first word of the sub-table of an entry.
    #[inline(always)]
    pub(super) fn first(&self, index: usize) -> Option<&u32> {
        self.words.get(index / self.shape.entries * self.shape.words(self.is_long))
    }

    /// Returns an entry, or 0 beyond the last.
    #[inline(always)]
    pub(super) fn get<const ONE: bool, const FIND: bool>(&self, index: usize) -> u32 {
        let Some(Element { words, place, .. }) = self.element::<ONE, FIND>(index) else { return 0 };
        let (shift, most) = if self.is_long { (0, u32::MAX) } else { (place % 2 * 16, 0xFFFF) };
        words.get(place >> self.shift()).map_or(0, |&word| word >> shift & most)
    }

    /// Gives each class the number in `to`.
    pub(super) fn relabel(&mut self, to: &[u32]) {
        let (is_long, shape, shift) = (self.is_long, self.shape, self.shift());
        let relabel = |words: &mut [u32], element: usize| {
            let (at, most) = if is_long { (0, u32::MAX) } else { (element % 2 * 16, 0xFFFF) };
            let word = &mut words[element >> shift];
            *word = *word & !(most << at) | to[(*word >> at & most) as usize] << at;
        };
        for table in self.words.chunks_mut(shape.words(is_long)) {
            let (bitmap, elements) = table.split_at_mut(shape.bitmap());
            let runs = bitmap.iter().map(|bits| bits.count_ones() as usize).sum();
            let inside = if runs > shape.elements { shape.inside(is_long) } else { runs };
            (0..inside).for_each(|element| relabel(elements, element));
        }
        (0..self.accessories.len() << shift).for_each(|element| relabel(&mut self.accessories, element));
    }

    /// Whether a lookup of an entry reads the accessory table.
    pub(super) fn is_outside(&self, index: usize) -> bool {
        self.element::<false, false>(index).is_some_and(|element| element.is_outside)
    }

    /// Returns the elements in some words.
    pub(super) fn unpacked(&self, words: &[u32]) -> Vec<u32> {
        let each = |&word: &u32| if self.is_long { vec![word] } else { vec![word & 0xFFFF, word >> 16] };
        words.iter().flat_map(each).collect()
    }

    /// Returns the elements of a sub-table of `runs` runs from its words behind the bitmap; a place comes last.
    pub(super) fn elements(&self, runs: usize, words: &[u32]) -> Vec<u32> {
        let mut elements = self.unpacked(words);
        if runs > self.shape.elements {
            elements.truncate(self.shape.inside(self.is_long));
            elements.extend(words.last());
        } else {
            elements.truncate(runs);
        }
        elements
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.words[..])
    }

    /// Number of bytes of the accessory table.
    pub(super) fn accessory_bytes(&self) -> usize {
        size_of_val(&self.accessories[..])
    }

    /// Returns the sub-tables, word by word.
    pub(super) fn tables(&self) -> impl Iterator<Item = &[u32]> {
        self.words.chunks(self.shape.words(self.is_long))
    }
}
