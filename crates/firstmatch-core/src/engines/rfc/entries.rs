//! Plain entries of a table.

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

    /// Gives each class the number in `to`.
    pub(super) fn relabel(&mut self, to: &[u32]) {
        match self {
            Self::Short(entries) => entries.iter_mut().for_each(|entry| *entry = to[usize::from(*entry)] as u16),
            Self::Long(entries) => entries.iter_mut().for_each(|entry| *entry = to[*entry as usize]),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Self::Short(entries) => size_of_val(&entries[..]),
            Self::Long(entries) => size_of_val(&entries[..]),
        }
    }
}
