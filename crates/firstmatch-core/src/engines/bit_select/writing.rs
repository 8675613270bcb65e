//! What the writer alone keeps: dirty places and free blocks.

/// Dirty place, by number.
///
/// It is a block, a table entry, a word of the bitmap `removed`, an append block, or a bucket, place or row of
/// [`Inserted`](super::added::Added).
#[derive(Clone, Copy, Debug)]
pub(super) enum Dirty {
    Block(u32),
    Entry(u32),
    Removed(u32),
    Bucket(u32),
    Rule(u32),
    Row(u32),
    AppendBlock(u32),
}

/// Number for a node without an append block.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// Free blocks: blocks that nothing leads to any more.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeBlocks {
    pub(super) blocks: Box<[u32]>,
    /// Number of searches for free blocks.
    pub(super) times: u64,
    /// Number of these blocks that are still free.
    pub(super) left: usize,
    /// Number of blocks taken, free or new, since the last search.
    pub(super) taken: usize,
    /// Whether there were few blocks after the search, free ones and room for new ones together.
    pub(super) was_little: bool,
}

impl FreeBlocks {
    pub(super) fn of(blocks: impl Iterator<Item = u32>, times: u64) -> Self {
        let blocks: Box<[u32]> = blocks.collect();
        Self { left: blocks.len(), blocks, times, taken: 0, was_little: false }
    }

    pub(super) fn take(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        Some(self.blocks[self.left] as usize)
    }

    pub(super) fn follow(&mut self, other: &Self) {
        if self.times != other.times {
            self.blocks.clone_from(&other.blocks);
        }
        (self.left, self.times, self.taken, self.was_little) = (other.left, other.times, other.taken, other.was_little);
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..])
    }
}
