//! Leaf blocks: eight regions column by column, each lane as narrow as its values allow.

use super::Node;
use super::columns::{Kind, Plain4, Plain6};
use super::prefixes::Prefixes;
use crate::alive::Alive;
use crate::engine::containing_prefix;
use crate::rule::{Region, Regions};
use crate::schema::Schema;
use crate::simd::{Isa, LINE_WORDS, gather};

/// Regions in a block.
pub(super) const BLOCK: usize = 8;
/// The rank of no rule.
pub(super) const NONE: u32 = u32::MAX;

/// Words of a block before the columns of bytes: the ranks and behind them that of no rule. Behind these columns stand
/// the `required` bytes and where the rest of a long list goes on (its block and one more, or 0), in so many words, and
/// then the lengths of prefixes.
pub(super) const HEAD: usize = BLOCK + 1;
pub(super) const REQUIRED: usize = 2;
pub(super) const TAIL: usize = REQUIRED + 1;

/// Which columns blocks have.
///
/// An optional lane of 8 or 16 bits has one value more than these bits hold: the one for absent. It is stored without,
/// where every region either lets everything through or requires the field: that is then a bit of the region.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    pub(super) bytes: Box<[usize]>,
    pub(super) halves: Box<[[usize; 2]]>,
    pub(super) wide: Box<[usize]>,
    pub(super) ternary: Box<[usize]>,
    /// Fields of several lanes that are prefixes in every region.
    pub(super) prefixes: Box<[Prefixes]>,
    /// The lanes that have a bit, and where their value for absent has its own.
    pub(super) optional: Box<[(usize, u32)]>,
    /// Where the bytes for required fields, the wide columns and the values of prefixes start, in words.
    pub(super) required: usize,
    pub(super) wide_start: usize,
    values: usize,
    pub(super) lines: usize,
    pub(super) kind: Kind,
}

impl Shape {
    pub(super) fn new(schema: &Schema, regions: &Regions) -> Self {
        let (mut bytes, mut halves, mut wide, mut optional) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let prefixes = Prefixes::of(schema, regions);
        for (index, lane) in schema.lanes().iter().enumerate() {
            if prefixes.iter().any(|of| of.lanes.contains(&index)) {
                continue;
            }
            let bits = [8, 16].into_iter().find(|&bits| lane.max >> bits == 0 || lane.absent == Some(1 << bits));
            let all_or_required =
                || regions.iter().all(|r| r.hi[index] < lane.max || (r.lo[index] == 0 && r.hi[index] == lane.max));
            let bits = bits.filter(|&bits| lane.max >> bits == 0 || (optional.len() < 8 && all_or_required()));
            if let Some(bits) = bits.filter(|bits| lane.max >> bits != 0) {
                optional.push((index, bits));
            }
            match bits {
                Some(8) => bytes.push(index),
                Some(_) => halves.push(index),
                None => wide.push(index),
            }
        }
        let pairs = halves.chunks(2).map(|pair| [pair[0], pair[pair.len() - 1]]).collect::<Box<[_]>>();
        let ternary = regions.ternary_lanes().into_boxed_slice();
        let required = HEAD + 4 * bytes.len();
        let wide_start = (required + TAIL + 2 * prefixes.len()).next_multiple_of(BLOCK);
        let values = wide_start + 2 * BLOCK * (wide.len() + pairs.len() + ternary.len());
        let lines = (values + BLOCK * prefixes.iter().map(|of| of.lanes.len()).sum::<usize>()).div_ceil(LINE_WORDS);
        let (bytes, wide, optional, prefixes) = (bytes.into(), wide.into(), optional.into(), prefixes.into());
        let (halves, kind) = (pairs, Kind::Any);
        let mut shape =
            Self { bytes, halves, wide, ternary, prefixes, optional, required, wide_start, values, lines, kind };
        let four = Plain4::of(&shape, schema.stride()).map(Kind::Plain4);
        shape.kind = four.or(Plain6::of(&shape, schema.stride()).map(Kind::Plain6)).unwrap_or(Kind::Any);
        shape
    }

    /// Cache lines of a block.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Which are the columns.
    #[inline(always)]
    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.bytes[..])
            + size_of_val(&self.halves[..])
            + size_of_val(&self.wide[..])
            + size_of_val(&self.ternary[..])
            + size_of_val(&self.optional[..])
            + self.prefixes.iter().map(|of| size_of_val(of) + size_of_val(&of.most[..])).sum::<usize>()
    }

    /// Writes regions, in order of rank, as one block; `more` is the block that continues them.
    pub(super) fn write(&self, regions: &[(u32, Region<'_>)], more: Option<usize>, words: &mut [u32]) {
        words.fill(0);
        words[..=BLOCK].fill(NONE);
        self.go_on(words, more);
        regions.iter().enumerate().for_each(|(at, (rank, region))| self.set(words, at, *rank, region));
    }

    /// Writes a region. What stands behind the last one is never asked for: its rank is that of none.
    fn set(&self, words: &mut [u32], at: usize, rank: u32, region: &Region<'_>) {
        words[at] = rank;
        let (quarter, shift) = (at / 4, at % 4 * 8);
        let mut put_byte = |word: usize, byte: u32| {
            let word = &mut words[word + quarter];
            *word = *word & !(0xFF << shift) | byte << shift;
        };
        let all = |lane: usize, bits: u32| region.lo[lane] == 0 && region.hi[lane] >> bits != 0;
        let required = self.optional.iter().enumerate();
        put_byte(
            self.required,
            required.fold(0, |byte, (bit, &(lane, bits))| byte | u32::from(!all(lane, bits)) << bit),
        );
        // What lets everything through, the value for absent among it, lets through all that the bits hold.
        let bounds = |lane: usize, max: u32| (region.lo[lane], region.hi[lane].min(max));
        for (column, &lane) in self.bytes.iter().enumerate() {
            let (lo, hi) = bounds(lane, 0xFF);
            put_byte(HEAD + 4 * column, lo);
            put_byte(HEAD + 4 * column + 2, hi);
        }
        let mut start = self.wide_start + at;
        let mut put = |a: u32, b: u32| {
            (words[start], words[start + BLOCK]) = (a, b);
            start += 2 * BLOCK;
        };
        self.wide.iter().for_each(|&lane| put(region.lo[lane], region.hi[lane]));
        for &[a, b] in &self.halves {
            let (a, b) = (bounds(a, 0xFFFF), bounds(b, 0xFFFF));
            put(a.0 | b.0 << 16, a.1 | b.1 << 16);
        }
        for &lane in &self.ternary {
            let (value, mask) = region.ternary.map_or((0, 0), |(value, mask)| (value[lane], mask[lane]));
            put(value, mask);
        }
        let mut start = self.values + at;
        for (of, lens) in self.prefixes.iter().zip(self.lens()) {
            let len = of.len(region).unwrap_or(0);
            let word = &mut words[lens + quarter];
            *word = *word & !(0xFF << shift) | len << shift;
            for &value in &region.lo[of.lanes.clone()] {
                words[start] = value;
                start += BLOCK;
            }
        }
    }

    /// Where the lengths of each field of prefixes start.
    fn lens(&self) -> impl Iterator<Item = usize> {
        (self.required + TAIL..).step_by(2)
    }

    /// Whether blocks have columns for all that a region asks for.
    pub(super) fn holds(&self, region: &Region<'_>) -> bool {
        let is_held = |&(lane, bits): &(usize, u32)| region.hi[lane] >> bits == 0 || region.lo[lane] == 0;
        let is_masked = |(lane, &mask): (usize, &u32)| mask == 0 || self.ternary.contains(&lane);
        self.optional.iter().all(is_held)
            && self.prefixes.iter().all(|of| of.len(region).is_some())
            && region.ternary.is_none_or(|(_, mask)| mask.iter().enumerate().all(is_masked))
    }

    /// The first words of the columns of eight words, and of those of eight bytes.
    fn columns(&self) -> (impl Iterator<Item = usize>, impl Iterator<Item = usize>) {
        let words = std::iter::once(0).chain((self.wide_start..self.lines * LINE_WORDS).step_by(BLOCK));
        let bytes = (0..2 * self.bytes.len()).map(|column| HEAD + 2 * column);
        (words, bytes.chain([self.required]).chain(self.lens().take(self.prefixes.len())))
    }

    /// Copies a region to another place of the same or of another block, by where these start.
    fn copy(&self, words: &mut [u32], (from, i): (usize, usize), (to, at): (usize, usize)) {
        let (columns, bytes) = self.columns();
        columns.for_each(|start| words[to + start + at] = words[from + start + i]);
        for start in bytes {
            let byte = words[from + start + i / 4] >> (i % 4 * 8) & 0xFF;
            let (word, shift) = (&mut words[to + start + at / 4], at % 4 * 8);
            *word = *word & !(0xFF << shift) | byte << shift;
        }
    }

    /// How many regions a block has.
    #[inline]
    pub(super) fn len(&self, block: &[u32]) -> usize {
        block[..BLOCK].iter().position(|&rank| rank == NONE).unwrap_or(BLOCK)
    }

    /// Makes room for a rank in a block that is not full, by where it starts: the place.
    fn make_room(&self, words: &mut [u32], block: usize, rank: u32) -> usize {
        let len = self.len(&words[block..]);
        let at = (0..len).find(|&at| rank < words[block + at]).unwrap_or(len);
        (at..len).rev().for_each(|moved| self.copy(words, (block, moved), (block, moved + 1)));
        at
    }

    /// Adds a region to a block that is not full, in order of rank.
    pub(super) fn add(&self, block: &mut [u32], rank: u32, region: &Region<'_>) {
        let at = self.make_room(block, 0, rank);
        self.set(block, at, rank, region);
    }

    /// Adds a region of one block to another that is not full, by where they start.
    pub(super) fn add_copy(&self, words: &mut [u32], (from, i): (usize, usize), to: usize) {
        let at = self.make_room(words, to, words[from + i]);
        self.copy(words, (from, i), (to, at));
    }

    /// Takes the regions of a rank out of a block.
    pub(super) fn take(&self, block: &mut [u32], rank: u32) {
        let len = self.len(block);
        let mut left = 0;
        for at in 0..len {
            if block[at] != rank {
                if left < at {
                    self.copy(block, (0, at), (0, left));
                }
                left += 1;
            }
        }
        block[left..BLOCK].fill(NONE);
    }

    /// The block that continues one.
    pub(super) fn more(&self, block: &[u32]) -> Option<usize> {
        (block[self.required + REQUIRED] as usize).checked_sub(1)
    }

    /// Continues a block with another.
    pub(super) fn go_on(&self, block: &mut [u32], next: Option<usize>) {
        // Blocks are counted with 31 bits.
        block[self.required + REQUIRED] = next.map_or(0, |next| next as u32 + 1);
    }

    /// What a node selects of a region of a block: the value, and the bits that are open.
    pub(super) fn selected(&self, block: &[u32], i: usize, node: &Node) -> (u64, u64) {
        let both = |at: usize| [2 * at, 2 * at + 1].map(|lane| self.bits(block, i, lane));
        let value =
            node.bits.select(gather, |at| both(at).map(|(value, _)| value).into_iter().rfold(0, |a, b| a << 32 | b));
        let open =
            node.bits.select(gather, |at| both(at).map(|(_, open)| open).into_iter().rfold(0, |a, b| a << 32 | b));
        (value, open)
    }

    /// The fixed bits of a lane of a region of a block, and those that are open.
    fn bits(&self, block: &[u32], i: usize, lane: usize) -> (u64, u64) {
        let byte = |start: usize| block[start + i / 4] >> (i % 4 * 8) & 0xFF;
        let column = |at: usize| self.wide_start + 16 * at + i;
        let pairs = self.halves.iter().enumerate().flat_map(|(at, pair)| [(at, 0, pair[0]), (at, 16, pair[1])]);
        let (mut lo, mut hi) = if let Some(at) = self.bytes.iter().position(|&of| of == lane) {
            (byte(HEAD + 4 * at), byte(HEAD + 4 * at + 2))
        } else if let Some(at) = self.wide.iter().position(|&of| of == lane) {
            (block[column(at)], block[column(at) + BLOCK])
        } else if let Some((at, shift, _)) = pairs.into_iter().find(|&(.., of)| of == lane) {
            let at = column(self.wide.len() + at);
            (block[at] >> shift & 0xFFFF, block[at + BLOCK] >> shift & 0xFFFF)
        } else {
            let mut start = self.values + i;
            let mut prefixes = self.prefixes.iter().zip(self.lens());
            let found = prefixes.find(|(of, _)| {
                let is_in = of.lanes.contains(&lane);
                start += BLOCK * if is_in { lane - of.lanes.start } else { of.lanes.len() };
                is_in
            });
            found.map_or((0, u32::MAX), |(of, lens)| of.bounds(lane, block[start], byte(lens)))
        };
        if let Some((bit, &(_, bits))) = self.optional.iter().enumerate().find(|(_, (of, _))| *of == lane)
            && byte(self.required) >> bit & 1 == 0
        {
            (lo, hi) = (0, 1 << bits);
        }
        let ternary = self.ternary.iter().position(|&of| of == lane);
        let mask = ternary.map_or(0, |at| block[column(self.wide.len() + self.halves.len() + at) + BLOCK]);
        let fixed = containing_prefix(lo, hi) | mask;
        (u64::from(lo & fixed), u64::from(!fixed))
    }

    /// Which of the regions of a block hold a key, as bits from the lowest.
    #[inline(always)]
    pub(super) fn hits<I: Isa>(&self, isa: I, block: &[u32], key: &[u32]) -> u32 {
        let mut hits = 0xFF;
        let (head, columns) = block.split_at(self.wide_start);
        for (column, &lane) in self.bytes.iter().enumerate() {
            if let Some(bounds) = head[HEAD + 4 * column..].first_chunk() {
                hits &= isa.within8_bytes(bounds, key[lane] as u8);
            }
        }
        let mut values = columns[self.values - self.wide_start..].as_chunks().0;
        for (of, lens) in self.prefixes.iter().zip(head[self.required + TAIL..].as_chunks().0) {
            let (here, rest) = values.split_at(of.lanes.len());
            hits &= isa.prefixes8(here, lens, &key[of.lanes.clone()]);
            values = rest;
        }
        let columns = columns.as_chunks::<16>().0;
        let (wide, columns) = columns.split_at(self.wide.len());
        for (bounds, &lane) in wide.iter().zip(&self.wide) {
            hits &= isa.within8(bounds, key[lane]);
        }
        let (halves, ternary) = columns.split_at(self.halves.len());
        for (bounds, pair) in halves.iter().zip(&self.halves) {
            hits &= isa.within8_halves(bounds, &pair.map(|lane| key[lane]));
        }
        for (masks, &lane) in ternary.iter().zip(&self.ternary) {
            hits &= isa.masked8(masks, key[lane]);
        }
        let mut absent = 0;
        for (bit, &(lane, bits)) in self.optional.iter().enumerate() {
            absent |= (key[lane] >> bits & 1) << bit;
        }
        if absent != 0 {
            hits &= present(head[self.required], head[self.required + 1], absent);
        }
        hits
    }
}

/// Which of eight regions require none of the fields that are absent.
#[inline(always)]
pub(super) fn present(low: u32, high: u32, absent: u32) -> u32 {
    let missing = (u64::from(low) | u64::from(high) << 32) & (u64::from(absent) * 0x0101_0101_0101_0101);
    (0..BLOCK).fold(0, |hits, i| hits | u32::from(missing >> (8 * i) & 0xFF == 0) << i)
}

/// The best rank of a block.
#[inline(always)]
pub(super) fn first_rank(block: &[u32]) -> u32 {
    block[0]
}

/// The rank of the first hit whose rule is alive; [`NONE`] where there is none.
#[inline(always)]
pub(super) fn rank_of<A: Alive>(block: &[u32], mut hits: u32, alive: A) -> u32 {
    loop {
        // Behind the ranks of eight regions stands that of none.
        let rank = block[(hits | 1 << BLOCK).trailing_zeros() as usize & (2 * BLOCK - 1)];
        if A::ALL || hits == 0 || alive.is_alive(rank as usize) {
            return rank;
        }
        hits &= hits - 1;
    }
}
