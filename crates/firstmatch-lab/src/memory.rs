//! Heap usage, counted by the allocator.

use std::alloc::System;

use cap::Cap;
use peakmem_alloc::{INSTRUMENTED_SYSTEM, PeakMemAlloc, PeakMemAllocTrait};

#[global_allocator]
static HEAP: Cap<&PeakMemAlloc<System>> = Cap::new(&INSTRUMENTED_SYSTEM, usize::MAX);

/// Bytes of the heap, of all threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Increase from before to after; memory freed meanwhile reduces it.
    pub(crate) kept: usize,
    /// Largest increase meanwhile.
    pub(crate) peak: usize,
}

/// Runs `run` and counts its allocations, together with those of other threads meanwhile.
pub(crate) fn counted<T>(run: impl FnOnce() -> T) -> (T, Counted) {
    INSTRUMENTED_SYSTEM.reset_peak_memory();
    let before = HEAP.allocated();
    let out = run();
    let kept = HEAP.allocated().saturating_sub(before);
    (out, Counted { kept, peak: INSTRUMENTED_SYSTEM.get_peak_memory() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_what_is_kept_and_the_peak() {
        // Other tests run beside this one, so the block is larger than all they allocate, and the slack than all they
        // free.
        const BLOCK: usize = 256 << 20;
        const SLACK: usize = 16 << 20;
        let (kept, all) = counted(|| {
            drop(std::hint::black_box(Vec::<u8>::with_capacity(2 * BLOCK)));
            Vec::<u8>::with_capacity(BLOCK)
        });
        assert!((BLOCK - SLACK..2 * BLOCK).contains(&all.kept), "{all:?}");
        assert!((2 * BLOCK - SLACK..3 * BLOCK).contains(&all.peak), "{all:?}");
        drop(kept);
    }
}
