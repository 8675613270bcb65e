//! One field of the rules of live sets, in one replica: its tree and the rows of its classes.

use super::rows::{Bits, Rows, WORDS};
use super::tree::Tree;
use crate::rule::Address;

/// Step of a change: it does the same in both replicas.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step<T> {
    /// Sets the class from a start to the next one.
    Put(T, u32),
    Delete(T),
    /// Clears the row of a class.
    Clear(u32),
    /// Sets the bit of a rule in the row of a class.
    Bit(u32, u16, bool),
    /// Sets whether a rule leaves the field open.
    Open(u16, bool),
    /// Changes the number of rules that test the field by one.
    Tested(bool),
}

/// Tree and rows of a field.
#[derive(Clone, Debug)]
pub(super) struct Leaf<T> {
    pub(super) tree: Tree<T>,
    pub(super) rows: Rows,
    /// Rules that leave the field open.
    pub(super) open: Bits,
    /// Number of rules that test the field.
    pub(super) tested: usize,
}

impl<T: Address> Leaf<T> {
    /// Builds the leaf of a field that no rule tests.
    pub(super) fn new() -> Self {
        let mut rows = Rows::default();
        rows.clear(0);
        Self { tree: Tree::new(), rows, open: Bits::default(), tested: 0 }
    }

    pub(super) fn apply(&mut self, step: Step<T>) {
        match step {
            Step::Put(start, class) => _ = self.tree.put(start, class),
            Step::Delete(start) => _ = self.tree.delete(start),
            Step::Clear(class) => self.rows.clear(class),
            Step::Bit(class, rule, on) => self.rows.set(class, rule, on),
            Step::Open(rule, on) => self.open.set(rule, on),
            Step::Tested(true) => self.tested += 1,
            Step::Tested(false) => self.tested -= 1,
        }
    }

    /// Returns the bits in a word of the rules that addresses of a class may match.
    #[inline(always)]
    pub(super) fn word(&self, class: u32, word: usize) -> u64 {
        self.rows.word(class, word) | self.open.words[word]
    }

    /// Returns a bit for each word of [`Self::word`] that is not 0.
    #[inline(always)]
    pub(super) fn summary(&self, class: u32) -> u64 {
        self.rows.summary(class) | self.open.summary
    }

    /// Number of cache lines that a lookup touches: two or more of a node on each level, and those of a row.
    pub(super) fn lines(&self) -> usize {
        self.tree.levels() * size_of::<T>().div_ceil(4).div_ceil(2) * 2 + WORDS
    }

    /// Returns the heap bytes.
    pub(super) fn bytes(&self) -> usize {
        self.tree.bytes() + self.rows.bytes()
    }
}
