//! Candidates: the tables that a key can match at all, found before any of them is probed.
//!
//! This is the one-dimensional preclassifier of tuple pruning (Srinivasan, Suri and Varghese, "Packet Classification
//! using Tuple Space Search", SIGCOMM 1999, and section II-B2 of the TupleMerge paper). It has hashed rows in place of
//! exact prefix trees, one for each of several prefix lengths of every field.
//!
//! For each length the leading bits of a field choose a row, by a keyed hash. Of more than 32 bits, those in the last
//! key word choose alone: 48 leading bits of an IPv6 address choose by the 33rd to 48th. Bit *t* of the row says that
//! table *t* may hold a region whose field has leading bits of this row. A key's candidates are the tables whose bit is
//! set in all rows of the key. A region that spans many values of the leading bits has its table's bit set in every row
//! of the length. Rows are words of 64 tables; the rows for the next 64 tables are a plane of their own.
//!
//! For example, an IPv4 source has rows for 20 and for 28 leading bits. A source prefix of 24 bits sets its table's bit
//! in one row of the former and in at most 16 of the latter.

use crate::engines::shared::with_room;
use crate::raw::{Isa, Probes};
use crate::rule::Region;
use crate::schema::{Kind, Schema};

/// Number of tables in a plane.
pub(super) const PLANE: usize = u64::BITS as usize;
/// Maximum number of values of a region at a level for which only their own rows get the table's bit.
///
/// With more values, every row of the level gets it.
const SPAN: u32 = 16;
/// Maximum number of rows of a narrow field's level, as a base-2 logarithm.
///
/// Such a level has half as many rows as the level of a wide field, up to this number.
const SMALL: u32 = 8;
/// Minimum number of rows of a level of a wide field, as a base-2 logarithm.
const LEAST: u32 = 3;
/// Maximum number of rows of a level of a wide field, as a base-2 logarithm.
const MOST: u32 = 13;

#[derive(Debug)]
pub(super) struct Candidates {
    /// Levels with rows. Empty if lookups use no candidates, so that changes have no rows to update.
    levels: Box<[Level]>,
    /// Levels in groups of eight. Copies of the last level fill the last group; they change no result.
    probes: Box<[Probes]>,
    /// Number of rows of the levels that are not small, as a base-2 logarithm.
    bits: u32,
    /// Number of words in a plane.
    rows: usize,
    /// Words, plane after plane.
    words: Vec<u64>,
    /// Tables whose bit is set in every row, for each plane and each level.
    everywhere: Vec<u64>,
    factor: u32,
}

/// Bits of a field that choose a row: those of key word `word` without its lowest `shift` bits.
#[derive(Clone, Copy, Debug)]
struct Level {
    word: u32,
    shift: u32,
    small: bool,
}

/// Returns the first and the last value of a region at a level.
fn values(region: &Region<'_>, level: Level) -> [u32; 2] {
    [region.lo, region.hi].map(|bound| bound[level.word as usize] >> level.shift)
}

/// Whether a region has more than `SPAN` values, so that every row of the level gets its table's bit.
fn is_wide([lo, hi]: [u32; 2]) -> bool {
    hi - lo >= SPAN
}

/// Returns the prefix lengths of a field that have rows; 0 stands for all its bits.
fn lengths(width: u32, kind: Kind) -> &'static [u32] {
    match width {
        0..=24 => &[0],
        25..=32 if kind == Kind::Exact => &[0],
        // These two are between the usual lengths of prefixes, whose hosts they still tell apart. So they leave few
        // candidates with fewer loads than 16, 24 and 32 would take.
        25..=32 => &[20, 28],
        33..=64 => &[32, 0],
        _ => &[32, 48, 64, 0],
    }
}

impl Clone for Candidates {
    fn clone(&self) -> Self {
        let (levels, probes) = (self.levels.clone(), self.probes.clone());
        Self { levels, probes, words: with_room(&self.words), everywhere: with_room(&self.everywhere), ..*self }
    }
}

impl Candidates {
    /// Returns candidates without tables; unless `are_asked`, they have no levels.
    pub(super) fn new(schema: &Schema, secret: u32, are_asked: bool) -> Self {
        let levels = schema.fields().iter().enumerate().flat_map(|(index, field)| {
            let words = schema.words_of(index);
            let level = move |&length: &u32| {
                let behind = if length == 0 { 0 } else { field.width().saturating_sub(length) };
                let word = words.end - 1 - behind as usize / 32;
                Level { word: word as u32, shift: behind % 32, small: field.width() <= 24 }
            };
            lengths(field.width(), field.kind()).iter().map(level).collect::<Vec<_>>()
        });
        let levels: Box<[Level]> = levels.filter(|_| are_asked).collect();
        let mut new = Self {
            probes: vec![Probes::default(); levels.len().div_ceil(8)].into(),
            levels,
            bits: 0,
            rows: 0,
            words: Vec::new(),
            everywhere: Vec::new(),
            factor: secret | 1,
        };
        new.lay_out(LEAST);
        new
    }

    /// Whether lookups use candidates.
    #[inline(always)]
    pub(super) fn are_asked(&self) -> bool {
        !self.levels.is_empty()
    }

    /// Number of cache lines that a lookup reads in a plane.
    ///
    /// It reads one word per level, and each level has its own rows.
    pub(super) fn lines_per_plane(&self) -> usize {
        self.levels.len()
    }

    /// Number of rows of a level for `entries` entries, as a base-2 logarithm.
    ///
    /// They are about eight times the square root of the entries, for example 256 rows for 1,000 entries. With fewer
    /// rows there would be more candidates; with more, the rows would leave the first-level cache.
    fn bits_for(entries: usize) -> u32 {
        ((entries.max(1).next_power_of_two().ilog2() + 6) / 2).clamp(LEAST, MOST)
    }

    fn level_bits(level: Level, bits: u32) -> u32 {
        if level.small { (bits - 1).min(SMALL) } else { bits }
    }

    fn lay_out(&mut self, bits: u32) {
        self.bits = bits;
        let mut start = 0;
        for i in 0..self.probes.len() * 8 {
            let own = i.min(self.levels.len() - 1);
            let (level, probes) = (self.levels[own], &mut self.probes[i / 8]);
            let at = i % 8;
            probes.word[at] = level.word;
            probes.shift[at] = level.shift;
            probes.factor[at] = self.factor;
            probes.right[at] = 32 - Self::level_bits(level, bits);
            if own < i {
                let last = &self.probes[own / 8];
                let repeated = last.start[own % 8];
                self.probes[i / 8].start[at] = repeated;
            } else {
                probes.start[at] = start;
                start += 1 << Self::level_bits(level, bits);
            }
        }
        self.rows = start as usize;
    }

    pub(super) fn planes(&self) -> usize {
        self.everywhere.len().checked_div(self.levels.len()).unwrap_or(0)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.levels[..])
            + size_of_val(&self.probes[..])
            + (self.words.capacity() + self.everywhere.capacity()) * size_of::<u64>()
    }

    /// Maximum bytes by which the rows grow for `entries` entries in `tables` tables.
    pub(super) fn growth(&self, entries: usize, tables: usize) -> usize {
        let (planes, bits) = (tables.div_ceil(PLANE), Self::bits_for(entries).max(self.bits));
        if planes <= self.planes() && bits == self.bits {
            return 0;
        }
        let rows: usize = self.levels.iter().map(|&level| 1 << Self::level_bits(level, bits)).sum();
        (planes.max(self.planes()) * (rows + self.levels.len()) * size_of::<u64>()).saturating_sub(self.words.len() * 8)
    }

    /// Number of words to write when a table's bits are taken out.
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    /// Whether `entries` entries need more rows than there are.
    ///
    /// If so, call [`Self::restart`] and add every region again.
    pub(super) fn is_crowded(&self, entries: usize) -> bool {
        self.are_asked() && Self::bits_for(entries) > self.bits
    }

    /// Clears all bits, and makes at least as many rows as `entries` entries need.
    pub(super) fn restart(&mut self, entries: usize) {
        let planes = self.planes();
        self.lay_out(Self::bits_for(entries).max(self.bits));
        self.words = vec![0; planes * self.rows];
        self.everywhere.fill(0);
    }

    /// Adds a region of a table.
    pub(super) fn add(&mut self, table: usize, region: &Region<'_>) {
        let plane = table / PLANE;
        if plane >= self.planes() {
            let grow = |list: &mut Vec<u64>, len: usize| {
                list.reserve_exact(len - list.len());
                list.resize(len, 0);
            };
            grow(&mut self.words, (plane + 1) * self.rows);
            grow(&mut self.everywhere, (plane + 1) * self.levels.len());
        }
        let bit = 1 << (table % PLANE);
        self.write(table, region, |word| *word |= bit, |_| true);
    }

    /// Clears the bits of a region that was removed from a table whose other regions are `others`.
    ///
    /// It must be the first region removed since the table's bits were set. Bits that it shares with `others` are
    /// cleared, too, so the caller must add `others` again.
    pub(super) fn remove<'a>(
        &mut self,
        table: usize,
        region: &Region<'_>,
        others: impl Iterator<Item = Region<'a>> + Clone,
    ) {
        let bit = 1 << (table % PLANE);
        let stays = |level| others.clone().any(|other| is_wide(values(&other, level)));
        self.write(table, region, |word| *word &= !bit, stays);
    }

    /// Applies `set` to the words of a region.
    ///
    /// Skips a level where every row has the table's bit, unless the region is wide there and `stays(level)` is false.
    fn write(&mut self, table: usize, region: &Region<'_>, set: impl Fn(&mut u64), stays: impl Fn(Level) -> bool) {
        let (plane, bit) = (table / PLANE, 1 << (table % PLANE));
        let words = &mut self.words[plane * self.rows..][..self.rows];
        let everywhere = &mut self.everywhere[plane * self.levels.len()..];
        for (i, (&level, everywhere)) in self.levels.iter().zip(everywhere).enumerate() {
            let probes = &self.probes[i / 8];
            let [lo, hi] = values(region, level);
            if *everywhere & bit != 0 && (!is_wide([lo, hi]) || stays(level)) {
                continue;
            }
            if is_wide([lo, hi]) {
                let start = probes.start[i % 8] as usize;
                words[start..start + (1 << Self::level_bits(level, self.bits))].iter_mut().for_each(&set);
                set(everywhere);
            } else {
                (lo..=hi).for_each(|value| set(&mut words[probes.place(i % 8, value) as usize]));
            }
        }
    }

    /// Takes all bits of a table out.
    pub(super) fn clear(&mut self, table: usize) {
        let (plane, bit) = (table / PLANE, 1 << (table % PLANE));
        self.words.iter_mut().skip(plane * self.rows).take(self.rows).for_each(|word| *word &= !bit);
        let levels = self.levels.len();
        self.everywhere.iter_mut().skip(plane * levels).take(levels).for_each(|word| *word &= !bit);
    }

    /// Returns a plane, in which lookups find the tables that may match a key.
    #[inline(always)]
    pub(super) fn plane(&self, plane: usize) -> Plane<'_> {
        Plane { probes: &self.probes, words: &self.words[plane * self.rows..][..self.rows] }
    }

    /// Returns the tables of a plane that may match a key, one level after the other.
    #[cfg(test)]
    pub(super) fn tables(&self, plane: usize, row: &[u32]) -> u64 {
        self.levels.iter().enumerate().fold(u64::MAX, |tables, (i, level)| {
            let place = self.probes[i / 8].place(i % 8, row[level.word as usize] >> level.shift);
            tables & self.words[plane * self.rows + place as usize]
        })
    }
}

/// Rows of 64 tables, as lookups read them.
#[derive(Clone, Copy)]
pub(super) struct Plane<'a> {
    probes: &'a [Probes],
    words: &'a [u64],
}

impl Plane<'_> {
    /// Returns the tables that may match a key, one bit each.
    #[inline(always)]
    pub(super) fn of<I: Isa>(self, isa: I, row: &[u32]) -> u64 {
        // No closures here, because a closure that is not inlined is compiled without the vector instructions.
        let mut tables = u64::MAX;
        for probes in self.probes {
            tables &= isa.common8(probes, row, self.words);
        }
        tables
    }
}
