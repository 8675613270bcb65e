//! Access of lookups to keys and blocks, with faster forms for the 5-tuples of IPv4 and IPv6.

use super::block::{BITS, BLOCK as REGIONS, Shape, is_rank};
use super::layout::{EMPTY, Entry, Node, Tree};
use crate::engine::selector::{Selector, pair};
use crate::engine::tombstones::LiveRules;
use crate::raw::{Isa, LINE_WORDS, Level, word};

/// Number of keys in flight.
pub(super) const CHUNK: usize = 32;
/// Number of trees whose roots are passed together.
pub(super) const TOGETHER: usize = 4;
/// Table entry of each key of a chunk.
pub(super) type Entries = [Entry; CHUNK];

/// Form of the columns; forms that are known at compile time are tested faster.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Plain4(Plain4),
    Wide4(Wide4),
    Plain6(Plain6),
    Any,
}

impl Kind {
    /// Returns the form of the columns, for keys of `key_words` words and lookups at `level`.
    ///
    /// Where a processor may have vectors, lookups without them take the general form. They are for tests and for old
    /// machines, so that compiling them once is enough.
    pub(super) fn of(shape: &Shape, key_words: usize, level: Level) -> Self {
        if cfg!(target_arch = "x86_64") && level == Level::Scalar {
            return Self::Any;
        }
        let plain4 = || Plain4::of(shape, key_words).map(Self::Plain4);
        let wide4 = || Wide4::of(shape, key_words).map(Self::Wide4);
        let plain6 = || Plain6::of(shape, key_words).map(Self::Plain6);
        plain4().or_else(wide4).or_else(plain6).unwrap_or(Self::Any)
    }
}

/// Keys and blocks as they lie in memory.
///
/// Its methods return values that are constant for the commonest schemas, so that little is checked for these.
pub(super) trait Columns: Copy {
    /// Whether lookups are compiled for each number of trees; otherwise they loop over the trees.
    ///
    /// In the general form that takes longer to compile than all else, and loops are no slower there.
    const EACH_COUNT: bool;

    /// Keys that a lookup takes through the trees together.
    type Chunk<'k>: Copy;

    /// Returns the number of words of a key, which is `words` if it is not constant.
    fn stride(self, words: usize) -> usize;

    /// Returns a chunk of keys of `words` words each.
    fn chunk<'k>(self, keys: &'k [u32], words: usize) -> Self::Chunk<'k>;

    /// Returns one key of a chunk.
    fn key<'k>(self, chunk: Self::Chunk<'k>, index: usize) -> &'k [u32];

    /// Returns all keys of a chunk.
    fn keys<'k>(self, chunk: Self::Chunk<'k>) -> impl ExactSizeIterator<Item = &'k [u32]>;

    /// Looks up the entry of each key in the table of a tree's root.
    fn entries<I: Isa>(self, isa: I, chunk: Self::Chunk<'_>, tree: &Tree, table: &[Entry], entries: &mut Entries);

    /// Returns a pair of words of a key, as [`pair`] does.
    fn pair(self, key: &[u32], at: usize) -> u64;

    /// Returns the number of cache lines of a block.
    fn lines(self) -> usize;

    /// Returns the words of a block.
    fn block(self, blocks: &[u32], index: usize) -> Option<&[u32]>;

    /// Returns which regions of a block hold a key, as bits from the lowest.
    fn hits<I: Isa>(self, isa: I, block: &[u32], key: &[u32]) -> u32;

    /// Returns the rank of a region or the value behind the last rank, see [`Shape::rank`].
    fn rank(self, block: &[u32], at: usize) -> u32;
}

impl Columns for &Shape {
    const EACH_COUNT: bool = false;

    type Chunk<'k> = (&'k [u32], usize);

    #[inline(always)]
    fn stride(self, words: usize) -> usize {
        words
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
    fn keys<'k>(self, (keys, words): Self::Chunk<'k>) -> impl ExactSizeIterator<Item = &'k [u32]> {
        keys.chunks_exact(words)
    }

    #[inline(always)]
    fn entries<I: Isa>(self, isa: I, chunk: Self::Chunk<'_>, tree: &Tree, table: &[Entry], entries: &mut Entries) {
        let mut words = [[0; 2]; CHUNK];
        let (pairs, keys) = (tree.root.bits.pairs.map(usize::from), || self.keys(chunk));
        let count = keys().len().min(CHUNK);
        for (words, key) in words.iter_mut().zip(keys()) {
            *words = pairs.map(|at| self.pair(key, at));
        }
        // The entries behind the last key stay empty.
        let (eights, rest) = words[..count].as_chunks();
        isa.choose8(table, tree.root.bits.masks, eights, |&words| words, entries.as_chunks_mut().0);
        for (entry, key) in entries.iter_mut().zip(keys()).skip(8 * eights.len()).take(rest.len()) {
            *entry = table[tree.root.index(isa, self, key)];
        }
    }

    #[inline(always)]
    fn pair(self, key: &[u32], at: usize) -> u64 {
        pair(key, at)
    }

    #[inline(always)]
    fn lines(self) -> usize {
        self.lines
    }

    #[inline(always)]
    fn block(self, blocks: &[u32], index: usize) -> Option<&[u32]> {
        let words = self.lines * LINE_WORDS;
        blocks.get(index * words..)?.get(..words)
    }

    #[inline(always)]
    fn hits<I: Isa>(self, isa: I, block: &[u32], key: &[u32]) -> u32 {
        isa.call(
            #[inline(always)]
            || Shape::hits(self, isa, block, key),
        )
    }

    #[inline(always)]
    fn rank(self, block: &[u32], at: usize) -> u32 {
        Shape::rank(self, block, at)
    }
}

/// Columns of a 5-tuple with addresses of `ADDRESS` words and ports that may be absent.
///
/// If `NARROW`, addresses are prefixes and protocols single values or any. Otherwise both have two bounds, and
/// addresses have one word. Keys have `KEY` words, and blocks `BLOCK` values of 32 bits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<const ADDRESS: usize, const KEY: usize, const BLOCK: usize, const NARROW: bool>(());

/// Narrow and wide columns of IPv4 5-tuples.
pub(super) type Plain4 = Plain<1, 8, { 3 * LINE_WORDS }, true>;
pub(super) type Wide4 = Plain<1, 8, { 4 * LINE_WORDS }, false>;
/// Narrow columns of IPv6 5-tuples.
pub(super) type Plain6 = Plain<4, 12, { 6 * LINE_WORDS }, true>;

impl<const ADDRESS: usize, const KEY: usize, const BLOCK: usize, const NARROW: bool>
    Plain<ADDRESS, KEY, BLOCK, NARROW>
{
    /// Number of cache lines of a block.
    pub(super) const LINES: usize = BLOCK / LINE_WORDS;
    const PORTS: [usize; 2] = [2 * ADDRESS, 2 * ADDRESS + 1];
    const PROTOCOL: usize = 2 * ADDRESS + 2;

    fn of(shape: &Shape, key_words: usize) -> Option<Self> {
        let addresses = [0, ADDRESS].map(|first| first..first + ADDRESS);
        let is_narrow = *shape.singles == [(Self::PROTOCOL, 0xFF)]
            && shape.bytes.is_empty()
            && shape.prefixes.iter().map(|of| &of.words).eq(&addresses)
            && shape.wide.is_empty();
        let is_wide = shape.singles.is_empty()
            && *shape.bytes == [Self::PROTOCOL]
            && shape.prefixes.is_empty()
            && *shape.wide == [0, 1];
        let is_plain = key_words == KEY
            && if NARROW { is_narrow } else { is_wide }
            && *shape.halves == [Self::PORTS]
            && shape.ternary.is_empty()
            && !shape.has_short_ranks
            && *shape.optional == Self::PORTS.map(|word| (word, 16))
            && (shape.words_start, shape.lines) == (LINE_WORDS, Self::LINES);
        is_plain.then_some(Self(()))
    }

    /// Returns a pair of words of a key; a pair beyond the key is replaced by its last one.
    #[inline(always)]
    fn pair_of(key: &[u32; KEY], at: usize) -> u64 {
        key[at.min(KEY - 2)..].first_chunk().map_or(0, |pair| word(*pair))
    }

    /// Returns which regions of a block hold a key, as bits from the lowest.
    #[inline(always)]
    fn hits_of(isa: impl Isa, block: &[u32], key: &[u32]) -> u32 {
        let (Some(block), Some(key)) = (block.first_chunk::<BLOCK>(), key.first_chunk::<KEY>()) else { return 0 };
        let ([head, first, rest @ ..], _) = block.as_chunks::<LINE_WORDS>() else { return 0 };
        let (addresses, Some(ports)) = (key.split_at(2 * ADDRESS).0, key[2 * ADDRESS..].first_chunk::<2>()) else {
            return 0;
        };
        let protocol = key[Self::PROTOCOL] as u8;
        let hits = if NARROW {
            let ([values, src_open, dst_open], _) = head[BITS + 1..].as_chunks() else { return 0 };
            let (src, dst) = rest.as_flattened().as_chunks().0.split_at(ADDRESS);
            isa.prefixes8(src, src_open, &addresses[..ADDRESS])
                & isa.prefixes8(dst, dst_open, &addresses[ADDRESS..])
                & isa.within8_halves(first, ports)
                & isa.either8_bytes(values, [protocol, u8::MAX])
        } else {
            let ([dst, halves], Some(bounds)) = (rest, head[BITS + 1..].first_chunk()) else { return 0 };
            isa.within8(first, addresses[0])
                & isa.within8(dst, addresses[1])
                & isa.within8_halves(halves, ports)
                & isa.within8_bytes(bounds, protocol)
        };
        // Both ports are compared at once, because they are read together.
        let absent = word(*ports) & 0xFFFF_0000_FFFF_0000;
        if absent == 0 {
            return hits;
        }
        let [src, dst] = [head[BITS], head[BITS] >> 8];
        hits & !(src * (absent >> 16 & 1) as u32) & !(dst * (absent >> 48) as u32)
    }
}

impl<const ADDRESS: usize, const KEY: usize, const BLOCK: usize, const NARROW: bool> Columns
    for Plain<ADDRESS, KEY, BLOCK, NARROW>
{
    const EACH_COUNT: bool = true;

    type Chunk<'k> = &'k [[u32; KEY]];

    #[inline(always)]
    fn stride(self, _words: usize) -> usize {
        KEY
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
    fn keys<'k>(self, chunk: Self::Chunk<'k>) -> impl ExactSizeIterator<Item = &'k [u32]> {
        chunk.iter().map(|key| &key[..])
    }

    #[inline(always)]
    fn entries<I: Isa>(self, isa: I, chunk: Self::Chunk<'_>, tree: &Tree, table: &[Entry], entries: &mut Entries) {
        let (eights, rest) = chunk.as_chunks::<8>();
        let Selector { masks, pairs } = tree.root.bits;
        let pairs = pairs.map(usize::from);
        isa.choose8(
            table,
            masks,
            eights,
            #[inline(always)]
            |key| pairs.map(|at| Self::pair_of(key, at)),
            entries.as_chunks_mut().0,
        );
        for (entry, key) in entries.iter_mut().skip(8 * eights.len()).zip(rest) {
            *entry = table[tree.root.index(isa, self, key)];
        }
    }

    #[inline(always)]
    fn pair(self, key: &[u32], at: usize) -> u64 {
        key.first_chunk().map_or(0, |key| Self::pair_of(key, at))
    }

    #[inline(always)]
    fn lines(self) -> usize {
        Self::LINES
    }

    #[inline(always)]
    fn block(self, blocks: &[u32], index: usize) -> Option<&[u32]> {
        blocks.as_chunks::<BLOCK>().0.get(index).map(|block| &block[..])
    }

    #[inline(always)]
    fn hits<I: Isa>(self, isa: I, block: &[u32], key: &[u32]) -> u32 {
        isa.call(
            #[inline(always)]
            || Self::hits_of(isa, block, key),
        )
    }

    #[inline(always)]
    fn rank(self, block: &[u32], at: usize) -> u32 {
        block[at]
    }
}

/// Returns the rank of the first hit whose rule is live, or else the value behind the ranks.
#[inline(always)]
pub(super) fn rank_of<A: LiveRules>(columns: impl Columns, block: &[u32], mut hits: u32, live_rules: A) -> u32 {
    loop {
        let rank = columns.rank(block, (hits | 1 << REGIONS).trailing_zeros() as usize & (2 * REGIONS - 1));
        // Positions behind the last rank may be hit as well; their value is no rank.
        if A::ALL || !is_rank(rank) || live_rules.is_live(rank as usize) {
            return rank;
        }
        hits &= hits - 1;
    }
}

impl Node {
    /// Returns the bits that the node selects of a key.
    #[inline(always)]
    pub(super) fn index<I: Isa>(&self, isa: I, columns: impl Columns, key: &[u32]) -> usize {
        self.bits.select_with(
            isa,
            #[inline(always)]
            |at| columns.pair(key, at),
        ) as usize
    }
}

#[inline(always)]
pub(super) fn step<I: Isa>(isa: I, columns: impl Columns, node: &Node, table: &[Entry], key: &[u32]) -> Entry {
    table.get(node.base as usize + node.index(isa, columns, key)).copied().unwrap_or(EMPTY)
}
