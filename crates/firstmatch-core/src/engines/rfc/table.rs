//! Cross-product tables, and the budget that they are written within.

use crate::error::BuildError;

/// Entries of a table, in as few bytes as hold the largest.
#[derive(Debug)]
pub(super) enum Entries {
    Short(Box<[u16]>),
    Long(Box<[u32]>),
}

impl Entries {
    /// Returns an entry, or 0 beyond the last.
    #[inline(always)]
    pub(super) fn get(&self, index: usize) -> u32 {
        match self {
            Self::Short(entries) => entries.get(index).map_or(0, |&entry| u32::from(entry)),
            Self::Long(entries) => entries.get(index).map_or(0, |&entry| entry),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Short(entries) => entries.len(),
            Self::Long(entries) => entries.len(),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Short(entries) => size_of_val(&entries[..]),
            Self::Long(entries) => size_of_val(&entries[..]),
        }
    }
}

/// Bytes that the engine takes so far, and its limit.
pub(super) struct Spending {
    pub(super) used: usize,
    pub(super) allowed: usize,
}

impl Spending {
    /// Takes bytes of a part of the engine.
    ///
    /// `rest` is the number of bytes that the engine needs besides, as far as known.
    ///
    /// # Errors
    /// If these bytes and the rest exceed the limit.
    pub(super) fn take(&mut self, bytes: usize, rest: usize, part: impl FnOnce() -> String) -> Result<(), BuildError> {
        let needed = self.used.saturating_add(bytes).saturating_add(rest);
        if needed > self.allowed {
            return Err(BuildError::bytes(needed, self.allowed).in_part(part()));
        }
        self.used += bytes;
        Ok(())
    }
}

/// Writer of a table, row by row.
pub(super) struct Writer<'a> {
    spending: &'a mut Spending,
    /// Bytes of the parts that follow, as far as known.
    rest: usize,
    part: String,
    count: usize,
    short: Vec<u16>,
    long: Vec<u32>,
}

/// Number of bytes of `count` entries up to `most`.
pub(super) fn bytes_of(count: usize, most: usize) -> usize {
    count.saturating_mul(if most > usize::from(u16::MAX) { size_of::<u32>() } else { size_of::<u16>() })
}

impl<'a> Writer<'a> {
    /// Begins a table of `count` entries, and takes the bytes of short ones.
    ///
    /// # Errors
    /// If the table exceeds the budget.
    pub(super) fn new(count: usize, spending: &'a mut Spending, rest: usize, part: String) -> Result<Self, BuildError> {
        spending.take(bytes_of(count, 0), rest, || part.clone())?;
        let short = Vec::with_capacity(count);
        Ok(Self { spending, rest, part, count, short, long: Vec::new() })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the entries become long ones, which exceed the budget.
    pub(super) fn row(&mut self, row: &[u32]) -> Result<(), BuildError> {
        let is_long = !self.long.is_empty();
        if !is_long && row.iter().all(|&entry| entry <= u32::from(u16::MAX)) {
            self.short.extend(row.iter().map(|&entry| entry as u16));
            return Ok(());
        }
        if !is_long {
            let more = bytes_of(self.count, 0);
            self.spending.take(more, self.rest.saturating_sub(more), || self.part.clone())?;
            self.long = Vec::with_capacity(self.count);
            self.long.extend(std::mem::take(&mut self.short).into_iter().map(u32::from));
        }
        self.long.extend_from_slice(row);
        Ok(())
    }

    /// Returns the table.
    pub(super) fn finish(self) -> Entries {
        debug_assert_eq!(self.count, self.short.len() + self.long.len());
        if self.long.is_empty() { Entries::Short(self.short.into()) } else { Entries::Long(self.long.into()) }
    }
}
