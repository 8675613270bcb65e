//! Index of rules by priority and user data, so that a removal goes to its rules directly.
//!
//! A hash table leads from a name to the rule that was added last under it, and each rule to the one before it of the
//! same name. Names are not stored, because the rules have them. For example, 100,000 rules take 1.4 MB: a table of
//! 262,144 places and a list of 100,000 numbers, each of four bytes.
//!
//! # Invariants
//! - A list has all rules of a name that are left, or rules that are gone, because rules of a name are removed together
//!   (test `rules_are_found_by_name`).

use std::collections::TryReserveError;

use crate::abi::RuleName;

/// Number that stands for no rule.
const NONE: u32 = u32::MAX;

/// Index of the rules of a context.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Last rule of each name; at least half of the places are free. Its length is a power of two.
    table: Vec<u32>,
    /// Rule of the same name before each rule.
    earlier: Vec<u32>,
}

impl Names {
    /// Makes room for `count` rules in all; `name_of` returns the name of a rule.
    ///
    /// # Errors
    /// If there is no memory; the index is then as before.
    pub(crate) fn reserve(&mut self, count: usize, name_of: impl Fn(usize) -> RuleName) -> Result<(), TryReserveError> {
        self.earlier.try_reserve(count.saturating_sub(self.earlier.len()))?;
        if 2 * count <= self.table.len() {
            return Ok(());
        }
        let (places, mut table) = ((2 * count).next_power_of_two(), Vec::new());
        table.try_reserve_exact(places)?;
        table.resize(places, NONE);
        let old = std::mem::replace(&mut self.table, table);
        for rule in old.into_iter().filter(|&rule| rule != NONE) {
            let place = self.place(name_of(rule as usize), &name_of);
            self.table[place] = rule;
        }
        Ok(())
    }

    /// Adds the next rule, for which there is room; `is_gone` says whether an earlier one is gone.
    pub(crate) fn add(&mut self, name_of: impl Fn(usize) -> RuleName, is_gone: impl Fn(usize) -> bool) {
        let index = self.earlier.len();
        if is_gone(index) {
            return self.earlier.push(NONE);
        }
        let place = self.place(name_of(index), &name_of);
        let last = self.table[place];
        self.earlier.push(if last == NONE || is_gone(last as usize) { NONE } else { last });
        self.table[place] = index as u32;
    }

    /// Returns the rules of a name, the last first. They may be gone.
    pub(crate) fn rules_of(&self, name: RuleName, name_of: impl Fn(usize) -> RuleName) -> impl Iterator<Item = usize> {
        let last = self.table[self.place(name, &name_of)];
        let rule = |rule: u32| (rule != NONE).then_some(rule as usize);
        std::iter::successors(rule(last), move |&index| rule(self.earlier[index]))
    }

    /// Returns the place of a name, or the free one where it would be.
    fn place(&self, name: RuleName, name_of: &impl Fn(usize) -> RuleName) -> usize {
        let key = u64::from(name.priority.cast_unsigned()) << 32 | u64::from(name.userdata);
        let (hash, mask) = ((key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize, self.table.len() - 1);
        let mut place = hash & mask;
        while self.table[place] != NONE && name_of(self.table[place] as usize) != name {
            place = (place + 1) & mask;
        }
        place
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        (self.table.capacity() + self.earlier.capacity()) * size_of::<u32>()
    }
}
