//! Runs of a compact table in the making.

use super::compact::{BLOCK, Block, Ranked, SubTableShape, SubTables, words_of};
use super::entries::Entries;
use crate::engine::budget::{reserve, with_room};
use crate::error::{BuildError, Cap};

/// Runs of a table that is written row by row, so that a compact table never takes the memory of a plain one.
#[derive(Debug, Default)]
pub(super) struct Runs {
    blocks: Vec<Block>,
    values: Vec<u32>,
    count: usize,
    most: u32,
}

impl Runs {
    /// Adds a row of entries, if these runs stay within `allowed` bytes of memory.
    ///
    /// # Errors
    /// If they do not.
    pub(super) fn row(&mut self, row: &[u32], allowed: usize) -> Result<(), BuildError> {
        self.reserve(row.len(), allowed)?;
        for &entry in row {
            let at = self.count % BLOCK;
            if at == 0 {
                self.blocks.push(Block { words: [0; 2], before: (self.values.len() as u32).wrapping_sub(1) });
            }
            if self.values.last() != Some(&entry) {
                self.blocks[self.count / BLOCK].words[at / 32] |= 1 << (at % 32);
                self.values.push(entry);
                self.most = self.most.max(entry);
            }
            self.count += 1;
        }
        Ok(())
    }

    /// Makes room for some entries, and doubles the room if that is allowed.
    fn reserve(&mut self, entries: usize, allowed: usize) -> Result<(), BuildError> {
        let blocks = (self.count + entries).div_ceil(BLOCK);
        let values = self.values.len() + entries;
        if blocks <= self.blocks.capacity() && values <= self.values.capacity() {
            return Ok(());
        }
        let grown =
            |needed: usize, capacity: usize| if needed > capacity { needed.max(2 * capacity) } else { capacity };
        let bytes = |blocks: usize, values: usize| blocks * size_of::<Block>() + values * size_of::<u32>();
        let mut to = [grown(blocks, self.blocks.capacity()), grown(values, self.values.capacity())];
        if bytes(to[0], to[1]) > allowed {
            to = [blocks.max(self.blocks.capacity()), values.max(self.values.capacity())];
        }
        let needed = bytes(to[0], to[1]);
        if needed > allowed || values > u32::MAX as usize {
            return Err(BuildError::limit(Cap::BuildBytes, needed, allowed));
        }
        let more = [to[0] - self.blocks.len(), to[1] - self.values.len()];
        reserve(&mut self.blocks, more[0], true)?;
        reserve(&mut self.values, more[1], true)
    }

    /// Number of bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.blocks.capacity() * size_of::<Block>() + self.values.capacity() * size_of::<u32>()
    }

    /// Number of runs.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Number of entries.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Writes the entries from `from` on to `row`.
    ///
    /// # Panics
    /// If there are fewer entries.
    pub(super) fn read(&self, from: usize, row: &mut [u32]) {
        let Some(last) = row.len().checked_sub(1) else { return };
        let mut at = from;
        let block = &self.blocks[from / BLOCK];
        // The first entry begins a run, or continues the last one that began before it.
        let upto = block.bits() << (BLOCK - 1 - from % BLOCK);
        let mut run = block.before.wrapping_add(upto.count_ones()) as usize;
        while at <= from + last {
            let value = self.values[run];
            // The next run begins at the next bit, in this block or a later one.
            let mut next = at + 1;
            while next <= from + last {
                let later = self.blocks[next / BLOCK].bits() >> (next % BLOCK);
                if later != 0 {
                    next += later.trailing_zeros() as usize;
                    break;
                }
                next = (next / BLOCK + 1) * BLOCK;
            }
            let end = next.min(from + last + 1);
            row[at - from..end - from].fill(value);
            (at, run) = (end, run + 1);
        }
    }

    /// Whether a value needs more than 16 bits.
    pub(super) fn is_long(&self) -> bool {
        self.most > u32::from(u16::MAX)
    }

    /// Returns the runs under ranked bitmaps.
    pub(super) fn ranked(self) -> Ranked {
        let values = match self.is_long() {
            true => Entries::Long(self.values.into()),
            false => Entries::Short(self.values.into_iter().map(|value| value as u16).collect()),
        };
        Ranked { blocks: self.blocks.into(), values }
    }

    /// Returns the bitmap of each sub-table, the place of its first value, and the place behind its last value.
    fn sub_tables(&self, shape: SubTableShape) -> impl Iterator<Item = ([u32; 4], usize, usize)> {
        let words: usize = self.count.div_ceil(32);
        let mut begun = 0;
        (0..self.count.div_ceil(shape.entries)).map(move |table| {
            let mut bitmap = [0; 4];
            for (at, bits) in bitmap[..shape.bitmap()].iter_mut().enumerate() {
                let word = table * shape.bitmap() + at;
                *bits = if word < words { self.blocks[word / 2].words[word % 2] } else { 0 };
            }
            // If a run goes on from the sub-table before, its value is repeated in this one.
            let first = begun - usize::from(bitmap[0] & 1 == 0);
            bitmap[0] |= 1;
            begun = first + bitmap.iter().map(|bits| bits.count_ones() as usize).sum::<usize>();
            (bitmap, first, begun)
        })
    }

    /// Number of words of sub-tables of a shape, and of their accessory table.
    pub(super) fn words(&self, shape: SubTableShape) -> [usize; 2] {
        let outside = |(_, first, end): ([u32; 4], usize, usize)| match end - first {
            runs if runs > shape.elements => runs - shape.inside(self.is_long()),
            _ => 0,
        };
        let outside = self.sub_tables(shape).map(outside).sum();
        [self.count.div_ceil(shape.entries) * shape.words(self.is_long()), words_of(outside, self.is_long())]
    }

    /// Returns the runs as sub-tables with an accessory table.
    ///
    /// # Errors
    /// If there is no memory for them.
    pub(super) fn into_sub_tables(self, shape: SubTableShape) -> Result<SubTables, BuildError> {
        let is_long = self.is_long();
        let packed = |words: usize| Ok::<_, BuildError>(Packed { words: with_room(words)?, is_long, count: 0 });
        let [of_tables, of_accessories] = self.words(shape);
        let mut parts = [packed(of_tables)?, packed(of_accessories)?];
        let [tables, accessories] = &mut parts;
        for (bitmap, first, end) in self.sub_tables(shape) {
            tables.words.extend(&bitmap[..shape.bitmap()]);
            let runs = &self.values[first..end];
            let spills = runs.len() > shape.elements;
            let inside = if spills { shape.inside(is_long) } else { runs.len() };
            tables.count = 0;
            runs[..inside].iter().for_each(|&value| tables.push(value));
            if spills {
                tables.words.push(accessories.count as u32);
            } else {
                (inside..shape.elements).for_each(|_| tables.push(0));
            }
            runs[inside..].iter().for_each(|&value| accessories.push(value));
        }
        let [words, accessories] = parts.map(|part| part.words.into());
        Ok(SubTables { shape, is_long, words, accessories })
    }
}

/// Elements in words, two to a word if they are short.
struct Packed {
    words: Vec<u32>,
    is_long: bool,
    /// Number of elements, the first of which begins a word.
    count: usize,
}

impl Packed {
    fn push(&mut self, element: u32) {
        match self.words.last_mut() {
            Some(last) if !self.is_long && self.count % 2 == 1 => *last |= element << 16,
            _ => self.words.push(element),
        }
        self.count += 1;
    }
}
