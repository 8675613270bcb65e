//! What lookups ask of keys and blocks; quicker for the 5-tuples of IPv4 and IPv6.

use super::block::{HEAD, REQUIRED, Shape, present};
use super::lookup::CHUNK;
use super::selector::word;
use super::{Entry, Selector, Tree};
use crate::simd::{Isa, LINE_WORDS};

/// Columns that are known beforehand are tested faster.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Plain4(Plain4),
    Plain6(Plain6),
    Any,
}

/// Keys and blocks as they lie in memory. What is constant for the commonest schema is asked here, so that little is
/// checked for it.
pub(super) trait Columns: Copy {
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

    /// A pair of lanes of a key, as [`pair`] says.
    fn pair(self, key: &[u32], at: usize) -> u64;

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
        let mut words = [[0; 2]; CHUNK];
        let (pairs, keys) = (tree.root.bits.pairs.map(usize::from), chunk.0.chunks_exact(chunk.1));
        let count = keys.len().min(CHUNK);
        for (words, key) in words.iter_mut().zip(keys.clone()) {
            *words = pairs.map(|at| self.pair(key, at));
        }
        // What stands behind the last key leads nowhere.
        let (eights, rest) = words[..count].as_chunks();
        isa.choose8(table, tree.root.bits.masks, eights, |&words| words, entries.as_chunks_mut().0);
        for (entry, key) in entries.iter_mut().zip(keys).skip(8 * eights.len()).take(rest.len()) {
            *entry = table[tree.root.index(isa, self, key)];
        }
    }

    #[inline(always)]
    fn pair(self, key: &[u32], at: usize) -> u64 {
        word(key.as_chunks().0[at])
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

/// The columns of a 5-tuple whose addresses have so many lanes: addresses of one lane in words, others as prefixes,
/// optional ports in halves, the protocol in bytes, no masks. Keys and blocks have so many words.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain<const ADDRESS: usize, const KEY: usize, const BLOCK: usize>(());

/// Of IPv4.
pub(super) type Plain4 = Plain<1, 8, { 4 * LINE_WORDS }>;
/// Of IPv6.
pub(super) type Plain6 = Plain<4, 12, { 7 * LINE_WORDS }>;

impl<const ADDRESS: usize, const KEY: usize, const BLOCK: usize> Plain<ADDRESS, KEY, BLOCK> {
    /// Cache lines of a block.
    pub(super) const LINES: usize = BLOCK / LINE_WORDS;
    const PORTS: [usize; 2] = [2 * ADDRESS, 2 * ADDRESS + 1];
    const PROTOCOL: usize = 2 * ADDRESS + 2;
    /// Where the columns of words start: behind the lengths of prefixes, if there are some.
    const COLUMNS: usize = if ADDRESS == 1 { LINE_WORDS } else { 3 * LINE_WORDS / 2 };

    pub(super) fn of(shape: &Shape, key_words: usize) -> Option<Self> {
        let addresses = [0, ADDRESS].map(|first| first..first + ADDRESS);
        let is_wide = *shape.wide == [0, 1] && shape.prefixes.is_empty();
        let is_prefixes = shape.wide.is_empty() && shape.prefixes.iter().map(|of| &of.lanes).eq(&addresses);
        let is_plain = key_words == KEY
            && if ADDRESS == 1 { is_wide } else { is_prefixes }
            && *shape.bytes == [Self::PROTOCOL]
            && *shape.halves == [Self::PORTS]
            && shape.ternary.is_empty()
            && *shape.optional == Self::PORTS.map(|lane| (lane, 16))
            && (shape.wide_start, shape.lines) == (Self::COLUMNS, Self::LINES);
        is_plain.then_some(Self(()))
    }

    /// A pair of lanes, if it is there; else one that is.
    #[inline(always)]
    fn pair_of(key: &[u32; KEY], at: usize) -> u64 {
        // Halves of powers of two need no comparison.
        let at = if KEY.is_power_of_two() { at & (KEY / 2 - 1) } else { at.min(KEY / 2 - 1) };
        word(key.as_chunks().0[at])
    }

    /// Which of the regions hold the addresses of a key.
    #[inline(always)]
    fn addresses<I: Isa>(isa: I, head: &[u32], words: &[[u32; 8]], key: &[u32; KEY]) -> u32 {
        if ADDRESS == 1 {
            let ([src, dst], _) = words.as_flattened().as_chunks::<16>() else { return 0 };
            return isa.within8(src, key[0]) & isa.within8(dst, key[1]);
        }
        let ([src_lens, dst_lens, ..], _) = head[LINE_WORDS..].as_chunks() else { return 0 };
        let (src, dst) = words.split_at(ADDRESS);
        let [of_src, of_dst] = [0, ADDRESS].map(|first| &key[first..][..ADDRESS]);
        isa.prefixes8(src, src_lens, of_src) & isa.prefixes8(&dst[..ADDRESS], dst_lens, of_dst)
    }
}

impl<const ADDRESS: usize, const KEY: usize, const BLOCK: usize> Columns for Plain<ADDRESS, KEY, BLOCK> {
    type Chunk<'k> = &'k [[u32; KEY]];

    #[inline(always)]
    fn stride(self, _words: usize) -> usize {
        KEY
    }

    #[inline(always)]
    fn rows(self, keys: &[u32], _words: usize) -> impl Iterator<Item = &[u32]> {
        keys.as_chunks::<KEY>().0.iter().map(|key| &key[..])
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
    fn next(self, block: &[u32]) -> u32 {
        block[HEAD + 4 + REQUIRED]
    }

    #[inline(always)]
    fn hits<I: Isa>(self, isa: I, block: &[u32], key: &[u32]) -> u32 {
        let (Some(block), Some(key)) = (block.first_chunk::<BLOCK>(), key.first_chunk::<KEY>()) else { return 0 };
        let (head, columns) = block.split_at(Self::COLUMNS);
        let columns = columns.as_chunks::<8>().0;
        // Halves stand behind what is wide and before what is a prefix.
        let (addresses, halves) = if ADDRESS == 1 {
            columns.split_at(4)
        } else {
            let (halves, addresses) = columns.split_at(2);
            (addresses, halves)
        };
        let (Some(halves), Some(bytes)) = (halves.as_flattened().first_chunk(), head[HEAD..].first_chunk()) else {
            return 0;
        };
        let Some(ports) = key[2 * ADDRESS..].first_chunk::<2>() else { return 0 };
        let hits = Self::addresses(isa, head, addresses, key)
            & isa.within8_halves(halves, ports)
            & isa.within8_bytes(bytes, key[Self::PROTOCOL] as u8);
        if (ports[0] | ports[1]) >> 16 == 0 {
            return hits;
        }
        let [low, high] = [0, 1].map(|word| head[HEAD + 4 + word]);
        hits & present(low, high, ports[0] >> 16 & 1 | (ports[1] >> 16 & 1) << 1)
    }
}
