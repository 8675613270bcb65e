//! Tables in their forms, and the budget that they are written within.

use super::compact::{Ranked, SubTableShape, SubTables, bitmap_bytes};
use super::config::BitCount;
use super::entries::Entries;
use super::runs::Runs;
use crate::engine::budget::with_room;
use crate::error::{BuildError, Cap};

/// Entries of a table in one of its forms.
#[derive(Debug)]
pub(super) enum Cells {
    Plain(Entries),
    Ranked(Ranked),
    SubTables(SubTables),
}

impl Cells {
    /// Returns an entry, or 0 beyond the last.
    #[inline(always)]
    pub(super) fn get(&self, index: usize, count: BitCount) -> u32 {
        let finds = count == BitCount::FindFirst;
        match self {
            Self::Plain(entries) => entries.get(index),
            Self::Ranked(ranked) if finds => ranked.values.get(ranked.place::<true>(index)),
            Self::Ranked(ranked) => ranked.values.get(ranked.place::<false>(index)),
            Self::SubTables(tables) => match (tables.shape.bitmap(), finds) {
                (1, false) => tables.get::<true, false>(index),
                (1, true) => tables.get::<true, true>(index),
                (_, false) => tables.get::<false, false>(index),
                (_, true) => tables.get::<false, true>(index),
            },
        }
    }

    /// Number of bytes without those of the accessory table.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Plain(entries) => entries.bytes(),
            Self::Ranked(ranked) => size_of_val(&ranked.blocks[..]) + ranked.values.bytes(),
            Self::SubTables(tables) => tables.bytes(),
        }
    }

    pub(super) fn accessory_bytes(&self) -> usize {
        if let Self::SubTables(tables) = self { tables.accessory_bytes() } else { 0 }
    }

    /// Gives each class the number in `to`.
    pub(super) fn relabel(&mut self, to: &[u32]) {
        match self {
            Self::Plain(entries) => entries.relabel(to),
            Self::Ranked(ranked) => ranked.values.relabel(to),
            Self::SubTables(tables) => tables.relabel(to),
        }
    }

    /// Returns the number of bits that are set in each bitmap.
    pub(super) fn bits_set(&self) -> Vec<u32> {
        match self {
            Self::Plain(_) => Vec::new(),
            Self::Ranked(ranked) => ranked.blocks.iter().map(|block| block.bits().count_ones()).collect(),
            Self::SubTables(tables) => {
                let bitmap = tables.shape.bitmap();
                let ones = |table: &[u32]| table[..bitmap].iter().map(|bits| bits.count_ones()).sum();
                tables.tables().map(ones).collect()
            }
        }
    }
}

/// Form that a table is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Plain,
    Ranked,
    SubTables(SubTableShape),
}

impl Form {
    /// Minimum number of bytes of a table of `count` entries.
    pub(super) fn least(self, count: usize) -> usize {
        match self {
            Self::Plain => bytes_of(count, 0),
            Self::Ranked => bitmap_bytes(count),
            Self::SubTables(shape) => {
                count.div_ceil(shape.entries).saturating_mul(shape.words(false) * size_of::<u32>())
            }
        }
    }
}

/// Number of bytes of `count` plain entries whose largest value is `most`.
pub(super) fn bytes_of(count: usize, most: usize) -> usize {
    count.saturating_mul(if most > usize::from(u16::MAX) { size_of::<u32>() } else { size_of::<u16>() })
}

/// Bytes that the engine takes so far, and its limit.
pub(super) struct Spending {
    pub(super) used: usize,
    pub(super) allowed: usize,
}

impl Spending {
    /// Takes bytes of a part of the engine.
    ///
    /// `rest` is the number of other bytes that the engine will still need, as far as known.
    ///
    /// # Errors
    /// If these bytes and the rest exceed the limit.
    pub(super) fn take(&mut self, bytes: usize, rest: usize, part: impl FnOnce() -> String) -> Result<(), BuildError> {
        self.check(bytes, rest, part)?;
        self.used += bytes;
        Ok(())
    }

    /// Checks that there is room for bytes of a part and for the rest, without taking it.
    ///
    /// # Errors
    /// If there is not.
    fn check(&self, bytes: usize, rest: usize, part: impl FnOnce() -> String) -> Result<(), BuildError> {
        let needed = self.used.saturating_add(bytes).saturating_add(rest);
        if needed > self.allowed {
            return Err(BuildError::bytes(needed, self.allowed).in_part(part()));
        }
        Ok(())
    }
}

/// Writer of a table, row by row.
pub(super) struct Writer<'a> {
    spending: &'a mut Spending,
    /// Bytes of the parts that follow, as far as known.
    rest: usize,
    part: String,
    form: Form,
    count: usize,
    short: Vec<u16>,
    long: Vec<u32>,
    /// Runs of a compact table.
    pub(super) runs: Runs,
    /// Bytes that may be held while the table is written: runs, and short entries that are being widened to long ones.
    allowed: usize,
    /// Bytes that are taken.
    taken: usize,
    /// Whether the order of classes may still change, so that runs become fewer.
    is_unordered: bool,
}

impl<'a> Writer<'a> {
    /// Begins a table of at least `count` entries, and takes the bytes that it needs at least.
    ///
    /// `allowed` is the number of bytes that the writer may take besides the table. `is_unordered` says whether the
    /// order of classes may still change.
    ///
    /// # Errors
    /// If the table exceeds the budget.
    pub(super) fn new(
        count: usize,
        form: Form,
        spending: &'a mut Spending,
        rest: usize,
        part: String,
        allowed: usize,
        is_unordered: bool,
    ) -> Result<Self, BuildError> {
        let taken = form.least(count);
        spending.take(taken, rest, || part.clone())?;
        let short = with_room(if form == Form::Plain { count } else { 0 })?;
        Ok(Self {
            spending,
            rest,
            part,
            form,
            count,
            short,
            long: Vec::new(),
            runs: Runs::default(),
            allowed,
            taken,
            is_unordered,
        })
    }

    /// Adds a row; `held` is the number of bytes that its maker holds.
    ///
    /// # Errors
    /// If entries must be widened and then exceed the budget, or the bytes of the build are exceeded.
    pub(super) fn row(&mut self, row: &[u32], held: usize) -> Result<(), BuildError> {
        let Some(left) = self.allowed.checked_sub(held) else {
            return Err(BuildError::limit(Cap::BuildBytes, held, self.allowed));
        };
        if self.form != Form::Plain {
            self.runs.row(row, left)?;
            if self.is_unordered {
                return Ok(());
            }
            // Each run takes at least a short value, in the table or beside the bitmaps.
            let values = bytes_of(self.runs.len(), 0);
            let needed = if self.form == Form::Ranked { self.taken + values } else { self.taken.max(values) };
            let more = needed - self.taken;
            return self.spending.check(more, self.rest, || self.part.clone());
        }
        let is_long = !self.long.is_empty();
        if !is_long && row.iter().all(|&entry| entry <= u32::from(u16::MAX)) {
            self.short.extend(row.iter().map(|&entry| entry as u16));
            return Ok(());
        }
        if !is_long {
            let (more, beside) = (bytes_of(self.count, 0), size_of_val(&self.short[..]));
            self.spending.take(more, self.rest.saturating_sub(more), || self.part.clone())?;
            if beside > left {
                return Err(BuildError::limit(Cap::BuildBytes, beside, left));
            }
            self.long = with_room(self.count)?;
            self.long.extend(std::mem::take(&mut self.short).into_iter().map(u32::from));
        }
        self.long.extend_from_slice(row);
        Ok(())
    }

    /// Returns the table, and the number of its entries.
    ///
    /// # Errors
    /// If a compact table exceeds the budget.
    pub(super) fn finish(self) -> Result<(Cells, usize), BuildError> {
        let Form::Plain = self.form else { return self.compacted() };
        debug_assert_eq!(self.count, self.short.len() + self.long.len());
        let is_short = self.long.is_empty();
        let entries = if is_short { Entries::Short(self.short.into()) } else { Entries::Long(self.long.into()) };
        Ok((Cells::Plain(entries), self.count))
    }

    fn compacted(self) -> Result<(Cells, usize), BuildError> {
        let runs = self.runs;
        let count = runs.count();
        let bytes = match self.form {
            Form::SubTables(shape) => runs.words(shape).iter().sum::<usize>() * size_of::<u32>(),
            _ => bitmap_bytes(count) + bytes_of(runs.len(), if runs.is_long() { usize::MAX } else { 0 }),
        };
        self.spending.used -= self.taken;
        self.spending.take(bytes, self.rest, || self.part.clone())?;
        let cells = match self.form {
            Form::SubTables(shape) => Cells::SubTables(runs.into_sub_tables(shape)?),
            _ => Cells::Ranked(runs.ranked()),
        };
        debug_assert_eq!(bytes, cells.bytes() + cells.accessory_bytes());
        Ok((cells, count))
    }
}
