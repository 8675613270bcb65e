//! Leaf blocks: eight regions column by column, each column as narrow as its values allow.

use super::constraints::{ANY, Constraints, is_single};
use super::layout::{EntryLayout, Node};
use super::prefixes::Prefixes;
use crate::engine::selector::Selector;
use crate::raw::{Isa, LINE_WORDS, Level, word};
use crate::rule::containing_prefix;
use crate::rule::{Region, Regions};
use crate::schema::Schema;

/// Number of regions in a block.
pub(super) const BLOCK: usize = 8;
/// Value behind the last rank if the list ends.
///
/// If it continues, this value is the number of the next block with the bit [`MORE`].
pub(super) const NONE: u32 = MORE - 1;
const MORE: u32 = 1 << 31;

/// Widths, in words, of the prefix fields that [`Shape::fixed`] counts.
const FIXED: [usize; 3] = [1, 2, 4];

/// Offset of the required-field bits in `u32`s: behind the ranks and one more value.
///
/// All values behind the last rank, up to this offset, say where the list continues, see [`goes_on`].
pub(super) const BITS: usize = BLOCK + 1;
/// Offset of the required-field bits if ranks have 16 bits, in `u32`s.
///
/// Only the value before it says where the list continues; [`SHORT_NONE`] stands behind the last rank.
const SHORT_BITS: usize = BLOCK / 2 + 1;
const SHORT_NONE: u32 = 0xFFFF;

/// Degree to which columns are narrowed or left out.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Width {
    Wide,
    Narrow,
    Lean,
}

/// Columns of blocks.
///
/// A column has a value, or two bounds, for each region. An optional word of 8 or 16 bits has one value more than
/// these bits hold, for absent. The column omits that value, and a bit of the region says whether the region requires
/// the field. This is done if every region either accepts all values or requires the field. For example, a port has
/// the values 0 to 65,535, and 65,536 for absent; its bounds have 16 bits.
///
/// Lean columns omit the words that no region constrains, and have ranks of 16 bits where these are enough. For
/// example, eight IPv4 addresses and their ranks then take one cache line instead of three.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    /// Words of 8 bits in which every region has one value below 255 or all values; each with its largest value.
    pub(super) singles: Box<[(usize, u32)]>,
    /// Fields that are prefixes in every region.
    pub(super) prefixes: Box<[Prefixes]>,
    /// Numbers of prefix fields of one, two and four words; these fields come first.
    ///
    /// There is faster code for these.
    fixed: [usize; 3],
    /// Other words with two bounds per region: of 8 bits, in pairs of 16 bits, and of 32 bits.
    pub(super) bytes: Box<[usize]>,
    pub(super) halves: Box<[[usize; 2]]>,
    pub(super) wide: Box<[usize]>,
    pub(super) ternary: Box<[usize]>,
    /// Words with a required-field bit, and the number of the bit that is set only for absent.
    pub(super) optional: Box<[(usize, u32)]>,
    /// Words without a column, and their largest value.
    left_out: Box<[(usize, u32)]>,
    /// Whether ranks have 16 bits.
    pub(super) has_short_ranks: bool,
    /// Offsets of required-field bits, byte columns, word columns and prefix values, in `u32`s.
    bits_start: usize,
    bytes_start: usize,
    pub(super) words_start: usize,
    values: usize,
    pub(super) lines: usize,
}

impl Shape {
    /// Chooses the columns for the regions of `rules` rules.
    ///
    /// They are narrow if that makes blocks smaller. From `lean` regions on they may also be lean.
    pub(super) fn new(schema: &Schema, regions: &Regions, rules: usize, lean: usize) -> Self {
        let asked = Constraints::of(schema, regions);
        let mut least = Self::of(schema, &asked, Width::Wide, false);
        let widths = if regions.len() < lean { &[Width::Narrow][..] } else { &[Width::Narrow, Width::Lean] };
        for &width in widths {
            let shape = Self::of(schema, &asked, width, width == Width::Lean && EntryLayout::is_short(rules));
            if shape.lines < least.lines {
                least = shape;
            }
        }
        least
    }

    fn of(schema: &Schema, asked: &Constraints, width: Width, has_short_ranks: bool) -> Self {
        let is_narrow = width != Width::Wide;
        let has_column = |word: usize| width != Width::Lean || asked.any[word];
        let (mut bytes, mut halves, mut wide, mut optional) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut singles, mut left_out) = (Vec::new(), Vec::new());
        let prefixes = asked.prefixes.iter().filter(|of| is_narrow || of.words.len() > 1);
        let prefixes = prefixes.filter(|of| of.words.clone().any(has_column)).cloned();
        let mut prefixes: Box<[Prefixes]> = prefixes.collect();
        prefixes
            .sort_by_key(|of| FIXED.iter().position(|&key_words| key_words == of.words.len()).unwrap_or(FIXED.len()));
        let fixed = FIXED.map(|key_words| prefixes.iter().filter(|of| of.words.len() == key_words).count());
        for (index, word) in schema.words().iter().enumerate() {
            if prefixes.iter().any(|of| of.words.contains(&index)) {
                continue;
            }
            if !has_column(index) {
                left_out.push((index, word.max));
                continue;
            }
            let bits = [8, 16].into_iter().find(|&bits| word.max >> bits == 0 || word.absent == Some(1 << bits));
            let bits = bits.filter(|&bits| word.max >> bits == 0 || asked.all_or_required[index]);
            if let Some(bits) = bits.filter(|bits| word.max >> bits != 0) {
                optional.push((index, bits));
            }
            match bits {
                Some(8) if is_narrow && asked.single[index] => singles.push((index, word.max.min(ANY))),
                Some(8) => bytes.push(index),
                Some(_) => halves.push(index),
                None => wide.push(index),
            }
        }
        let pairs = halves.chunks(2).map(|pair| [pair[0], pair[pair.len() - 1]]).collect::<Box<[_]>>();
        let ternary = asked.ternary.clone().into_boxed_slice();
        let bits_start = if has_short_ranks { SHORT_BITS } else { BITS };
        let bytes_start = bits_start + optional.len().div_ceil(4);
        let bytes_end = bytes_start + 2 * (singles.len() + prefixes.len()) + 4 * bytes.len();
        let words_start = bytes_end.next_multiple_of(BLOCK);
        let values = words_start + 2 * BLOCK * (wide.len() + pairs.len() + ternary.len());
        let lines = (values + BLOCK * prefixes.iter().map(|of| of.words.len()).sum::<usize>()).div_ceil(LINE_WORDS);
        Self {
            singles: singles.into(),
            prefixes,
            fixed,
            bytes: bytes.into(),
            halves: pairs,
            wide: wide.into(),
            ternary,
            optional: optional.into(),
            left_out: left_out.into(),
            has_short_ranks,
            bits_start,
            bytes_start,
            words_start,
            values,
            lines,
        }
    }

    /// Returns the number of cache lines of a block.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.singles[..])
            + size_of_val(&self.bytes[..])
            + size_of_val(&self.halves[..])
            + size_of_val(&self.wide[..])
            + size_of_val(&self.ternary[..])
            + size_of_val(&self.optional[..])
            + size_of_val(&self.left_out[..])
            + self.prefixes.iter().map(|of| size_of_val(of) + size_of_val(&of.most[..])).sum::<usize>()
    }

    /// Returns the offsets of single values, of open bits of prefixes and of byte bounds.
    fn byte_columns(&self) -> [usize; 3] {
        let opens = self.bytes_start + 2 * self.singles.len();
        [self.bytes_start, opens, opens + 2 * self.prefixes.len()]
    }

    /// Writes `regions`, in order of rank, as one block; `more` is the block that continues them.
    pub(super) fn write(&self, regions: &[(u32, Region<'_>)], more: Option<usize>, words: &mut [u32]) {
        words.fill(0);
        words[..self.bits_start].fill(if self.has_short_ranks { u32::MAX } else { NONE });
        regions.iter().enumerate().for_each(|(at, (rank, region))| self.set(words, at, *rank, region));
        self.go_on(words, more);
    }

    /// Writes a region to position `at` of a block.
    fn set(&self, words: &mut [u32], at: usize, rank: u32, region: &Region<'_>) {
        self.put_rank(words, at, rank);
        for (number, &(word, bits)) in self.optional.iter().enumerate() {
            let is_required = region.lo[word] != 0 || region.hi[word] >> bits == 0;
            self.put_bit(words, number, at, is_required);
        }
        let [values, opens, bounds] = self.byte_columns();
        for (column, &(word, _)) in self.singles.iter().enumerate() {
            let value = if region.lo[word] == region.hi[word] { region.lo[word] } else { ANY };
            put_byte(words, values + 2 * column, at, value);
        }
        let mut start = self.values + at;
        for (column, of) in self.prefixes.iter().enumerate() {
            put_byte(words, opens + 2 * column, at, of.open(region).unwrap_or(0));
            for &value in &region.lo[of.words.clone()] {
                words[start] = value;
                start += BLOCK;
            }
        }
        // A region that accepts all values, including absent, accepts all values that fit in the bits.
        let within = |word: usize, max: u32| (region.lo[word], region.hi[word].min(max));
        for (column, &word) in self.bytes.iter().enumerate() {
            let (lo, hi) = within(word, 0xFF);
            put_byte(words, bounds + 4 * column, at, lo);
            put_byte(words, bounds + 4 * column + 2, at, hi);
        }
        let mut start = self.words_start + at;
        let mut put = |a: u32, b: u32| {
            (words[start], words[start + BLOCK]) = (a, b);
            start += 2 * BLOCK;
        };
        self.wide.iter().for_each(|&word| put(region.lo[word], region.hi[word]));
        for &[a, b] in &self.halves {
            let (a, b) = (within(a, 0xFFFF), within(b, 0xFFFF));
            put(a.0 | b.0 << 16, a.1 | b.1 << 16);
        }
        for &word in &self.ternary {
            let (value, mask) = region.ternary.map_or((0, 0), |(value, mask)| (value[word], mask[word]));
            put(value, mask);
        }
    }

    /// Whether the columns can hold everything that a region constrains.
    pub(super) fn holds(&self, region: &Region<'_>) -> bool {
        let is_held = |&(word, bits): &(usize, u32)| region.hi[word] >> bits == 0 || region.lo[word] == 0;
        let is_masked = |(word, &mask): (usize, &u32)| mask == 0 || self.ternary.contains(&word);
        let is_all = |&(word, most): &(usize, u32)| (region.lo[word], region.hi[word]) == (0, most);
        self.optional.iter().all(is_held)
            && self.left_out.iter().all(is_all)
            && self.singles.iter().all(|&single| is_single(region, single))
            && self.prefixes.iter().all(|of| of.open(region).is_some())
            && region.ternary.is_none_or(|(_, mask)| mask.iter().enumerate().all(is_masked))
    }

    /// Copies region `i` of one block to position `at` of another.
    fn copy(&self, from: &[u32], i: usize, to: &mut [u32], at: usize) {
        for number in 0..self.optional.len() {
            let bit = byte_at(from, self.bits_start, number) >> i & 1 == 1;
            self.put_bit(to, number, at, bit);
        }
        let [start, _, bounds] = self.byte_columns();
        let bytes = start..bounds + 4 * self.bytes.len();
        for (from, to) in from[bytes.clone()].as_chunks().0.iter().zip(to[bytes].as_chunks_mut().0) {
            let (value, lane) = (word(*from) >> (8 * i) & 0xFF, 0xFF << (8 * at));
            *to = halves(word(*to) & !lane | value << (8 * at));
        }
        let columns = from[self.words_start..].as_chunks::<BLOCK>().0.iter();
        columns.zip(to[self.words_start..].as_chunks_mut::<BLOCK>().0).for_each(|(from, to)| to[at] = from[i]);
        self.put_rank(to, at, self.rank(from, i));
    }

    /// Returns the rank of a region, or where the list continues.
    ///
    /// The place where the list continues stands behind the last rank, and always at [`BLOCK`].
    #[inline(always)]
    pub(super) fn rank(&self, block: &[u32], at: usize) -> u32 {
        if !self.has_short_ranks {
            return block[at];
        }
        match block[at / 2] >> (at % 2 * 16) & SHORT_NONE {
            rank if rank != SHORT_NONE && at < BLOCK => rank,
            _ => block[SHORT_BITS - 1],
        }
    }

    fn put_rank(&self, block: &mut [u32], at: usize, rank: u32) {
        if self.has_short_ranks {
            let (word, shift) = (&mut block[at / 2], at % 2 * 16);
            *word = *word & !(SHORT_NONE << shift) | rank << shift;
        } else {
            block[at] = rank;
        }
    }

    /// Sets bit `at` of one byte of the required-field bits.
    fn put_bit(&self, words: &mut [u32], number: usize, at: usize, bit: bool) {
        let byte = byte_at(words, self.bits_start, number);
        put_byte(words, self.bits_start, number, byte & !(1 << at) | u32::from(bit) << at);
    }

    /// Returns the number of regions in a block.
    #[inline]
    pub(super) fn len(&self, block: &[u32]) -> usize {
        (0..BLOCK).position(|at| self.is_free(block, at)).unwrap_or(BLOCK)
    }

    /// Whether position `at` and all behind it have no region.
    fn is_free(&self, block: &[u32], at: usize) -> bool {
        match self.has_short_ranks {
            true => block[at / 2] >> (at % 2 * 16) & SHORT_NONE == SHORT_NONE,
            false => !is_rank(block[at]),
        }
    }

    /// Moves the regions behind `rank` up by one and returns the free position.
    ///
    /// The block must not be full.
    fn make_room(&self, block: &mut [u32], rank: u32) -> usize {
        // The value behind the last rank is larger than any rank.
        let at = (0..BLOCK).find(|&at| rank < self.rank(block, at)).unwrap_or(BLOCK - 1);
        if !self.is_free(block, at) {
            self.shift(block, at, true);
        }
        at
    }

    /// Moves the regions from position `at` on up by one, or those behind it down by one.
    ///
    /// Moving up leaves an arbitrary value at `at`; the block must not be full.
    fn shift(&self, block: &mut [u32], at: usize, is_up: bool) {
        // Positions of a column are lanes of an integer.
        let lanes = |value: u128, bits: usize| {
            let below = (1 << (at * bits)) - 1;
            let moved = if is_up { value << bits } else { value >> bits };
            value & below | moved & !below
        };
        match (block.first_chunk_mut::<4>(), is_up) {
            (Some(ranks), _) if self.has_short_ranks => {
                let all = (0..4).fold(0, |all, at| all | u128::from(ranks[at]) << (32 * at));
                // A mark stands behind the last rank.
                let moved = lanes(all, 16) | if is_up { 0 } else { u128::from(SHORT_NONE) << 112 };
                *ranks = [0, 32, 64, 96].map(|bit| (moved >> bit) as u32);
            }
            (_, true) => block.copy_within(at..BLOCK - 1, at + 1),
            (_, false) => block.copy_within(at + 1..=BLOCK, at),
        }
        for number in 0..self.optional.len() {
            let byte = lanes(byte_at(block, self.bits_start, number).into(), 1);
            put_byte(block, self.bits_start, number, byte as u32 & 0xFF);
        }
        let [start, _, bounds] = self.byte_columns();
        for bytes in block[start..bounds + 4 * self.bytes.len()].as_chunks_mut().0 {
            *bytes = halves(lanes(word(*bytes).into(), 8) as u64);
        }
        for column in block[self.words_start..].as_chunks_mut::<BLOCK>().0 {
            if is_up {
                column.copy_within(at..BLOCK - 1, at + 1);
            } else {
                column.copy_within(at + 1.., at);
            }
        }
    }

    /// Adds a region to a block that is not full, in order of rank; returns its position.
    pub(super) fn add(&self, block: &mut [u32], rank: u32, region: &Region<'_>) -> usize {
        let at = self.make_room(block, rank);
        self.set(block, at, rank, region);
        at
    }

    /// Adds region `i` of a block to another one that is not full; returns its position.
    pub(super) fn add_copy(&self, from: &[u32], i: usize, to: &mut [u32]) -> usize {
        let at = self.make_room(to, self.rank(from, i));
        self.copy(from, i, to, at);
        at
    }

    /// Removes the regions of a rank from a block.
    pub(super) fn take(&self, block: &mut [u32], rank: u32) {
        while let Some(at) = (0..BLOCK).find(|&at| self.rank(block, at) == rank) {
            self.shift(block, at, false);
        }
    }

    /// Returns the block that continues a block.
    pub(super) fn more(&self, block: &[u32]) -> Option<usize> {
        goes_on(block[self.bits_start - 1])
    }

    /// Sets the block that continues a block.
    pub(super) fn go_on(&self, block: &mut [u32], next: Option<usize>) {
        let first = if self.has_short_ranks { SHORT_BITS - 1 } else { self.len(block) };
        // Block numbers have 31 bits.
        block[first..self.bits_start].fill(next.map_or(NONE, |next| MORE | next as u32));
    }

    /// Returns the bits that a node selects of region `i`: their value, and a mask of open ones.
    pub(super) fn selected(&self, level: Level, block: &[u32], i: usize, node: &Node) -> (u64, u64) {
        let Selector { masks, pairs } = node.bits;
        // Few nodes select from more than two of the four words.
        let word = |which: usize, half: usize| match masks[which] >> (32 * half) & u64::from(u32::MAX) {
            0 => (0, 0),
            _ => self.bits(block, i, usize::from(pairs[which]) + half),
        };
        let pairs = [0, 1].map(|which| {
            let [low, high] = [word(which, 0), word(which, 1)];
            (low.0 | high.0 << 32, low.1 | high.1 << 32)
        });
        node.bits.of_pairs(level, pairs)
    }

    /// Returns the fixed bits of a word of region `i`, and a mask of the open ones.
    pub(super) fn bits(&self, block: &[u32], i: usize, word: usize) -> (u64, u64) {
        let [values, opens, bounds] = self.byte_columns();
        let byte = |start: usize| byte_at(block, start, i);
        let bit = |number: usize| byte_at(block, self.bits_start, number) >> i & 1 == 1;
        let column = |at: usize| self.words_start + 16 * at + i;
        let pairs = self.halves.iter().enumerate().flat_map(|(at, pair)| [(at, 0, pair[0]), (at, 16, pair[1])]);
        let (mut lo, mut hi) = if let Some(at) = self.singles.iter().position(|&(of, _)| of == word) {
            let value = byte(values + 2 * at);
            if value == ANY { (0, self.singles[at].1) } else { (value, value) }
        } else if let Some(at) = self.bytes.iter().position(|&of| of == word) {
            (byte(bounds + 4 * at), byte(bounds + 4 * at + 2))
        } else if let Some(at) = self.wide.iter().position(|&of| of == word) {
            (block[column(at)], block[column(at) + BLOCK])
        } else if let Some((at, shift, _)) = pairs.into_iter().find(|&(.., of)| of == word) {
            let at = column(self.wide.len() + at);
            (block[at] >> shift & 0xFFFF, block[at + BLOCK] >> shift & 0xFFFF)
        } else {
            let mut start = self.values + i;
            let mut prefixes = self.prefixes.iter().enumerate();
            let found = prefixes.find(|(_, of)| {
                let is_in = of.words.contains(&word);
                start += BLOCK * if is_in { word - of.words.start } else { of.words.len() };
                is_in
            });
            found.map_or((0, u32::MAX), |(at, of)| of.bounds(word, block[start], byte(opens + 2 * at)))
        };
        if let Some((number, &(_, bits))) = self.optional.iter().enumerate().find(|(_, (of, _))| *of == word)
            && !bit(number)
        {
            (lo, hi) = (0, 1 << bits);
        }
        let ternary = self.ternary.iter().position(|&of| of == word);
        let mask = ternary.map_or(0, |at| block[column(self.wide.len() + self.halves.len() + at) + BLOCK]);
        let fixed = containing_prefix(lo, hi) | mask;
        (u64::from(lo & fixed), u64::from(!fixed))
    }

    /// Returns which regions of a block hold a key, as bits from the lowest.
    #[inline(always)]
    pub(super) fn hits<I: Isa>(&self, isa: I, block: &[u32], key: &[u32]) -> u32 {
        let (mut hits, mut short, mut long) = (0xFF, 0, 0);
        // Each column is taken from the rest behind the one before, which needs fewer offsets than one for each kind.
        let (mut bytes, mut words) = (&block[self.bytes_start..], &block[self.words_start..]);
        for &(word, _) in &self.singles {
            short |= key[word];
            hits &= isa.either8_bytes(next(&mut bytes), [key[word] as u8, ANY as u8]);
        }
        let mut opens = bytes;
        bytes = &bytes[2 * self.prefixes.len()..];
        for &word in &self.bytes {
            short |= key[word];
            hits &= isa.within8_bytes(next(&mut bytes), key[word] as u8);
        }
        for &word in &self.wide {
            hits &= isa.within8(next(&mut words), key[word]);
        }
        for pair in &self.halves {
            let pair = pair.map(|word| key[word]);
            long |= pair[0] | pair[1];
            hits &= isa.within8_halves(next(&mut words), &pair);
        }
        for &word in &self.ternary {
            hits &= isa.masked8(next(&mut words), key[word]);
        }
        let [ones, twos, fours] = self.fixed;
        let (prefixes, rest) = self.prefixes.split_at(ones);
        hits &= fixed::<1, { BLOCK }>(isa, prefixes, &mut opens, &mut words, key);
        let (prefixes, rest) = rest.split_at(twos);
        hits &= fixed::<2, { 2 * BLOCK }>(isa, prefixes, &mut opens, &mut words, key);
        let (prefixes, rest) = rest.split_at(fours);
        hits &= fixed::<4, { 4 * BLOCK }>(isa, prefixes, &mut opens, &mut words, key);
        for of in rest {
            let (values, behind) = words.split_at(BLOCK * of.words.len());
            hits &= isa.prefixes8(values.as_chunks().0, next(&mut opens), &key[of.words.clone()]);
            words = behind;
        }
        // Only a value for absent has more bits than its column.
        if short >> 8 | long >> 16 == 0 { hits } else { hits & !self.required(block, key) }
    }

    /// Returns which regions of a block require a field that a key does not have.
    #[inline(always)]
    fn required(&self, block: &[u32], key: &[u32]) -> u32 {
        let mut required = 0;
        for (optional, &bits) in self.optional.chunks(8).zip(block[self.bits_start..].as_chunks().0) {
            let mut bits = word(bits);
            for &(word, absent) in optional {
                required |= bits as u32 * (key[word] >> absent & 1);
                bits >>= 8;
            }
        }
        required
    }
}

/// Returns which regions have prefixes that hold a key, for fields of `KEY_WORDS` words.
///
/// Their columns are taken from the front of `opens` and `words`.
#[inline(always)]
fn fixed<const KEY_WORDS: usize, const WORDS: usize>(
    isa: impl Isa,
    prefixes: &[Prefixes],
    opens: &mut &[u32],
    words: &mut &[u32],
    key: &[u32],
) -> u32 {
    let mut hits = 0xFF;
    let (open, values);
    (open, *opens) = opens.split_at(2 * prefixes.len());
    (values, *words) = words.split_at(WORDS * prefixes.len());
    for ((of, open), values) in prefixes.iter().zip(open.as_chunks().0).zip(values.as_chunks::<WORDS>().0) {
        let row = key[of.words.start..].first_chunk::<KEY_WORDS>().expect("a key has all words");
        hits &= isa.prefixes8(values.as_chunks().0, open, row);
    }
    hits
}

/// Splits a column off the front of `words`.
#[inline(always)]
fn next<'b, const WORDS: usize>(words: &mut &'b [u32]) -> &'b [u32; WORDS] {
    let (column, rest) = words.split_first_chunk().expect("a block has all columns");
    *words = rest;
    column
}

/// Returns byte `at` of a column that starts at offset `start`.
#[inline(always)]
fn byte_at(words: &[u32], start: usize, at: usize) -> u32 {
    words[start + at / 4] >> (at % 4 * 8) & 0xFF
}

fn put_byte(words: &mut [u32], start: usize, at: usize, byte: u32) {
    let (word, shift) = (&mut words[start + at / 4], at % 4 * 8);
    *word = *word & !(0xFF << shift) | byte << shift;
}

/// Returns a value as two words, the lower half first.
fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Whether a value among the ranks is the rank of a rule.
#[inline(always)]
pub(super) fn is_rank(rank: u32) -> bool {
    rank < NONE
}

/// Returns the block that continues the list, if this value among the ranks names one.
#[inline(always)]
pub(super) fn goes_on(rank: u32) -> Option<usize> {
    (rank & MORE != 0).then_some((rank & !MORE) as usize)
}
