//! Allocator that asks for huge pages for large blocks.

use std::alloc::{GlobalAlloc, Layout, System};

/// Size of a huge page, and of the smallest block that gets some.
const HUGE: usize = 2 << 20;

/// The system's allocator, with transparent huge pages for blocks of 2 MiB and more.
///
/// DPDK keeps its tables on huge pages, too; with small ones, lookups in large tables wait for address translation. The
/// shared libraries use it for their own memory alone.
#[derive(Clone, Copy, Debug)]
pub struct HugePages;

impl HugePages {
    /// Returns the layout of a block, aligned to huge pages if it is large.
    fn aligned(layout: Layout) -> Layout {
        if layout.size() < HUGE { layout } else { layout.align_to(HUGE).unwrap_or(layout) }
    }

    /// Asks for huge pages for a block.
    fn advise(block: *mut u8, size: usize) {
        if !block.is_null() && size >= HUGE {
            // SAFETY: the block is mapped and aligned to pages. It is only advice: without it, pages are small.
            unsafe { libc::madvise(block.cast(), size & !(HUGE - 1), libc::MADV_HUGEPAGE) };
        }
    }
}

// SAFETY: every call goes to the system's allocator with a layout that depends on the caller's alone, so that a block
// is freed with the layout that it was allocated with. `realloc` is the trait's own: allocate, copy, free.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about the layout.
        let block = unsafe { System.alloc(Self::aligned(layout)) };
        Self::advise(block, layout.size());
        block
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let block = unsafe { System.alloc_zeroed(Self::aligned(layout)) };
        Self::advise(block, layout.size());
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block was allocated here, with the same layout.
        unsafe { System.dealloc(block, Self::aligned(layout)) }
    }
}
