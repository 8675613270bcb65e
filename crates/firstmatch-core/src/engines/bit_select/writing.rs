//! State that only changes need: free blocks.

/// Stands for the append block of a node that has none.
pub(super) const NO_BLOCK: u32 = u32::MAX;

/// Free blocks: blocks to which no slot leads any more.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeBlocks {
    pub(super) blocks: Box<[u32]>,
    /// Number of these blocks that are still free.
    pub(super) left: usize,
    /// Number of blocks taken, free or new, since the last search.
    pub(super) taken: usize,
    /// Whether free blocks and room for new blocks, taken together, were few after the last search.
    pub(super) was_little: bool,
}

impl FreeBlocks {
    pub(super) fn of(blocks: impl Iterator<Item = u32>) -> Self {
        let blocks: Box<[u32]> = blocks.collect();
        Self { left: blocks.len(), blocks, taken: 0, was_little: false }
    }

    pub(super) fn take(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        Some(self.blocks[self.left] as usize)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..])
    }
}
