//! Leaf blocks: eight regions column by column, each lane as narrow as its values allow.

use super::lookup::CHUNK;
use super::{Entry, Node, Tree};
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
/// the `required` bytes and where the rest of a long list goes on (its block and one more, or 0), in so many words.
const HEAD: usize = BLOCK + 1;
const REQUIRED: usize = 2;
const TAIL: usize = REQUIRED + 1;

/// Which columns blocks have.
///
/// An optional lane of 8 or 16 bits has one value more than these bits hold: the one for absent. It is stored without,
/// where every region either lets everything through or requires the field: that is then a bit of the region.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    bytes: Box<[usize]>,
    halves: Box<[[usize; 2]]>,
    wide: Box<[usize]>,
    ternary: Box<[usize]>,
    /// The lanes that have a bit, and where their value for absent has its own.
    optional: Box<[(usize, u32)]>,
    /// Where the bytes for required fields and the wide columns start, in words.
    required: usize,
    wide_start: usize,
    lines: usize,
    /// Whether these are the columns of [`Plain`].
    is_plain: bool,
}

impl Shape {
    pub(super) fn new(schema: &Schema, regions: &Regions) -> Self {
        let (mut bytes, mut halves, mut wide, mut optional) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (index, lane) in schema.lanes().iter().enumerate() {
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
        let wide_start = (required + TAIL).next_multiple_of(LINE_WORDS);
        let lines = wide_start / LINE_WORDS + wide.len() + pairs.len() + ternary.len();
        let (bytes, wide, optional) = (bytes.into(), wide.into(), optional.into());
        let mut shape =
            Self { bytes, halves: pairs, wide, ternary, optional, required, wide_start, lines, is_plain: false };
        shape.is_plain = Plain::is(&shape, schema.stride());
        shape
    }

    /// Cache lines of a block.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// Whether there is a faster test for blocks like these.
    #[inline(always)]
    pub(super) fn plain(&self) -> Option<Plain> {
        self.is_plain.then_some(Plain(()))
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.bytes[..])
            + size_of_val(&self.halves[..])
            + size_of_val(&self.wide[..])
            + size_of_val(&self.ternary[..])
            + size_of_val(&self.optional[..])
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
    }

    /// Whether blocks have columns for all that a region asks for.
    pub(super) fn holds(&self, region: &Region<'_>) -> bool {
        let is_held = |&(lane, bits): &(usize, u32)| region.hi[lane] >> bits == 0 || region.lo[lane] == 0;
        let is_masked = |(lane, &mask): (usize, &u32)| mask == 0 || self.ternary.contains(&lane);
        self.optional.iter().all(is_held)
            && region.ternary.is_none_or(|(_, mask)| mask.iter().enumerate().all(is_masked))
    }

    /// The first words of the columns of eight words, and of those of eight bytes.
    fn columns(&self) -> (impl Iterator<Item = usize>, impl Iterator<Item = usize>) {
        let words = std::iter::once(0).chain((self.wide_start..self.lines * LINE_WORDS).step_by(BLOCK));
        let bytes = (0..2 * self.bytes.len()).map(|column| HEAD + 2 * column);
        (words, bytes.chain([self.required]))
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
        let [a, b] = node.lanes.map(|lane| self.bits(block, i, usize::from(lane)));
        (gather(a.0 << 32 | b.0, node.mask), gather(a.1 << 32 | b.1, node.mask))
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
            (0, u32::MAX)
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

/// Keys and blocks as they lie in memory. What is constant for the commonest schema is asked here, so that little is
/// checked for it.
pub(super) trait Columns: Copy {
    /// What a root selects by, and what it selects from.
    type Selector: Copy;
    type Words<'k>: Copy;
    /// Keys that are taken through trees together.
    type Chunk<'k>: Copy;

    /// Words of a key.
    fn stride(self, words: usize) -> usize;

    /// Keys of so many words each.
    fn rows(self, keys: &[u32], words: usize) -> impl Iterator<Item = &[u32]>;

    /// At most [`CHUNK`] keys of so many words each.
    fn chunk<'k>(self, keys: &'k [u32], words: usize) -> Self::Chunk<'k>;

    /// One of them.
    fn key<'k>(self, chunk: Self::Chunk<'k>, index: usize) -> &'k [u32];

    /// What a root has for each of them.
    fn entries<I: Isa>(
        self,
        isa: I,
        chunk: Self::Chunk<'_>,
        tree: &Tree,
        table: &[Entry],
        entries: &mut [Entry; CHUNK],
    );

    /// A lane as an index into a key.
    fn lane(self, lane: u16) -> usize;

    /// How the root of a tree selects.
    fn selector(self, tree: &Tree) -> Self::Selector;

    /// A key as roots select from it.
    fn words(self, key: &[u32]) -> Self::Words<'_>;

    /// The bits that are selected.
    fn select<I: Isa>(self, isa: I, selector: Self::Selector, key: Self::Words<'_>) -> usize;

    /// Cache lines of a block.
    fn lines(self) -> usize;

    /// A block.
    fn block(self, blocks: &[u32], index: usize) -> Option<&[u32]>;

    /// Where the block that continues this one is found, and one more; or 0.
    fn next(self, block: &[u32]) -> u32;

    /// Which of the regions of a block hold a key, as bits from the lowest.
    fn hits<I: Isa>(self, isa: I, block: &[u32], key: &[u32]) -> u32;

    /// The block that continues this one, if it has given no rank.
    #[inline(always)]
    fn goes_on(self, block: &[u32], rank: u32) -> Option<usize> {
        // No rank, and only that, is so high that the sum overflows.
        let (sum, goes_on) = self.next(block).overflowing_add(rank);
        goes_on.then_some(sum as usize)
    }
}

impl Columns for &Shape {
    type Selector = (u64, [u16; 2]);
    type Words<'k> = &'k [u32];
    type Chunk<'k> = (&'k [u32], usize);

    #[inline(always)]
    fn stride(self, words: usize) -> usize {
        words
    }

    #[inline(always)]
    fn rows(self, keys: &[u32], words: usize) -> impl Iterator<Item = &[u32]> {
        keys.chunks_exact(words)
    }

    #[inline(always)]
    fn chunk<'k>(self, keys: &'k [u32], words: usize) -> Self::Chunk<'k> {
        (keys, words)
    }

    #[inline(always)]
    fn key<'k>(self, (keys, words): Self::Chunk<'k>, index: usize) -> &'k [u32] {
        &keys[index * words..][..words]
    }

    #[inline(always)]
    fn entries<I: Isa>(
        self,
        isa: I,
        chunk: Self::Chunk<'_>,
        tree: &Tree,
        table: &[Entry],
        entries: &mut [Entry; CHUNK],
    ) {
        for (entry, key) in entries.iter_mut().zip(chunk.0.chunks_exact(chunk.1)) {
            *entry = table[self.select(isa, self.selector(tree), key)];
        }
    }

    #[inline(always)]
    fn lane(self, lane: u16) -> usize {
        usize::from(lane)
    }

    #[inline(always)]
    fn selector(self, tree: &Tree) -> Self::Selector {
        (tree.root.mask, tree.root.lanes)
    }

    #[inline(always)]
    fn words(self, key: &[u32]) -> &[u32] {
        key
    }

    #[inline(always)]
    fn select<I: Isa>(self, isa: I, (mask, lanes): Self::Selector, key: &[u32]) -> usize {
        let [high, low] = lanes.map(|lane| u64::from(key[usize::from(lane)]));
        isa.gather(high << 32 | low, mask) as usize
    }

    #[inline(always)]
    fn lines(self) -> usize {
        self.lines
    }

    #[inline(always)]
    fn block(self, blocks: &[u32], index: usize) -> Option<&[u32]> {
        let words = self.lines * LINE_WORDS;
        blocks.get(index * words..(index + 1) * words)
    }

    #[inline(always)]
    fn next(self, block: &[u32]) -> u32 {
        block[self.required + REQUIRED]
    }

    #[inline(always)]
    fn hits<I: Isa>(self, isa: I, block: &[u32], key: &[u32]) -> u32 {
        Shape::hits(self, isa, block, key)
    }
}

/// The columns of a 5-tuple of IPv4: addresses in words, optional ports in halves, the protocol in bytes, no masks.
#[derive(Clone, Copy)]
pub(super) struct Plain(());

impl Plain {
    const KEY: usize = 8;
    const ADDRESSES: [usize; 2] = [0, 1];
    const PORTS: [usize; 2] = [2, 3];
    const PROTOCOL: usize = 4;
    const BLOCK: usize = 4 * LINE_WORDS;
    /// Which of two words of 64 bits a lane stands in, and where.
    const PLACES: [(usize, u32); 5] = [(0, 0), (0, 32), (1, 0), (1, 32), (1, 49)];

    /// A node's mask over these words.
    pub(super) fn masks(node: &Node) -> [u64; 2] {
        let mut masks = [0; 2];
        for (bits, lane) in [node.mask >> 32, node.mask & u64::from(u32::MAX)].into_iter().zip(node.lanes) {
            if let Some(&(word, shift)) = Self::PLACES.get(usize::from(lane)) {
                masks[word] |= bits << shift;
            }
        }
        masks
    }

    /// These words of a key.
    #[inline(always)]
    fn pair(key: &[u32; Self::KEY]) -> [u64; 2] {
        let mut words = [0; 2];
        for (&(word, shift), &lane) in Self::PLACES.iter().zip(key) {
            words[word] |= u64::from(lane) << shift;
        }
        words
    }

    fn is(shape: &Shape, key_words: usize) -> bool {
        key_words == Self::KEY
            && *shape.bytes == [Self::PROTOCOL]
            && *shape.halves == [Self::PORTS]
            && *shape.wide == Self::ADDRESSES
            && shape.ternary.is_empty()
            && *shape.optional == Self::PORTS.map(|lane| (lane, 16))
    }
}

impl Columns for Plain {
    type Selector = ([u64; 2], u32);
    type Words<'k> = [u64; 2];
    type Chunk<'k> = &'k [[u32; Self::KEY]];

    #[inline(always)]
    fn stride(self, _words: usize) -> usize {
        Self::KEY
    }

    #[inline(always)]
    fn rows(self, keys: &[u32], _words: usize) -> impl Iterator<Item = &[u32]> {
        keys.as_chunks::<{ Self::KEY }>().0.iter().map(|key| &key[..])
    }

    #[inline(always)]
    fn chunk<'k>(self, keys: &'k [u32], _words: usize) -> Self::Chunk<'k> {
        keys.as_chunks().0
    }

    #[inline(always)]
    fn key<'k>(self, chunk: Self::Chunk<'k>, index: usize) -> &'k [u32] {
        &chunk[index]
    }

    #[inline(always)]
    fn entries<I: Isa>(
        self,
        isa: I,
        chunk: Self::Chunk<'_>,
        tree: &Tree,
        table: &[Entry],
        entries: &mut [Entry; CHUNK],
    ) {
        let (eights, rest) = chunk.as_chunks::<8>();
        isa.choose8(table, tree.masks, eights, Self::pair, entries.as_chunks_mut().0);
        for (entry, key) in entries.iter_mut().skip(8 * eights.len()).zip(rest) {
            *entry = table[self.select(isa, self.selector(tree), self.words(key))];
        }
    }

    #[inline(always)]
    fn lane(self, lane: u16) -> usize {
        usize::from(lane) & (Self::KEY - 1)
    }

    #[inline(always)]
    fn selector(self, tree: &Tree) -> Self::Selector {
        (tree.masks, tree.masks[0].count_ones())
    }

    #[inline(always)]
    fn words(self, key: &[u32]) -> [u64; 2] {
        key.first_chunk().map_or([0; 2], Self::pair)
    }

    #[inline(always)]
    fn select<I: Isa>(self, isa: I, (masks, shift): Self::Selector, words: [u64; 2]) -> usize {
        (isa.gather(words[0], masks[0]) | isa.gather(words[1], masks[1]) << shift) as usize
    }

    #[inline(always)]
    fn lines(self) -> usize {
        Self::BLOCK / LINE_WORDS
    }

    #[inline(always)]
    fn block(self, blocks: &[u32], index: usize) -> Option<&[u32]> {
        blocks.as_chunks::<{ Self::BLOCK }>().0.get(index).map(|block| &block[..])
    }

    #[inline(always)]
    fn next(self, block: &[u32]) -> u32 {
        block[HEAD + 4 + REQUIRED]
    }

    #[inline(always)]
    fn hits<I: Isa>(self, isa: I, block: &[u32], key: &[u32]) -> u32 {
        let [head, a, b, halves] = block.as_chunks::<16>().0 else { return 0 };
        let (Some(key), Some(bytes)) = (key.first_chunk::<{ Self::KEY }>(), head[HEAD..].first_chunk()) else {
            return 0;
        };
        let [_, _, ports @ .., _, _, _, _] = key;
        let addresses = Self::ADDRESSES.map(|lane| key[lane]);
        let hits = isa.within8(a, addresses[0])
            & isa.within8(b, addresses[1])
            & isa.within8_halves(halves, ports)
            & isa.within8_bytes(bytes, key[Self::PROTOCOL] as u8);
        if (ports[0] | ports[1]) >> 16 == 0 {
            return hits;
        }
        let [low, high] = [0, 1].map(|word| head[HEAD + 4 + word]);
        hits & present(low, high, ports[0] >> 16 & 1 | (ports[1] >> 16 & 1) << 1)
    }
}

/// Which of eight regions require none of the fields that are absent.
#[inline(always)]
fn present(low: u32, high: u32, absent: u32) -> u32 {
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
