//! Allocator that counts for each thread the live bytes, their peak, and the calls.

#![expect(unsafe_code, reason = "an allocator is unsafe to implement; it only counts and passes on")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Allocator that counts. A test declares it:
///
/// ```
/// #[global_allocator]
/// static COUNTING: firstmatch_testkit::counter::Counting = firstmatch_testkit::counter::Counting;
/// ```
#[derive(Debug)]
pub struct Counting;

#[cfg(test)]
#[global_allocator]
static COUNTING: Counting = Counting;

// Threads do not disturb one another's counts, so that tests may run beside each other. Cells without a destructor and
// with a constant start need no memory themselves.
thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
    static CALLS: Cell<usize> = const { Cell::new(0) };
}

fn count(bytes: isize) {
    CALLS.set(CALLS.get() + 1);
    LIVE.set(LIVE.get() + bytes);
    PEAK.set(PEAK.get().max(LIVE.get()));
}

// SAFETY: every call goes on to the system's allocator unchanged; counting touches no allocated memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the same promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the same promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller keeps the same promises.
        unsafe { System.realloc(at, layout, size) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the same promises.
        unsafe { System.dealloc(at, layout) }
    }
}

/// Allocations of this thread while something ran.
#[derive(Debug)]
pub struct Counted {
    /// Bytes allocated and not freed.
    pub live: isize,
    /// Peak of these bytes.
    pub peak: isize,
    /// Calls of the allocator, frees included.
    pub calls: usize,
}

/// Runs `run` and counts its allocations.
pub fn counted<T>(run: impl FnOnce() -> T) -> (T, Counted) {
    let (live, calls) = (LIVE.get(), CALLS.get());
    PEAK.set(live);
    let out = run();
    (out, Counted { live: LIVE.get() - live, peak: PEAK.get() - live, calls: CALLS.get() - calls })
}

#[test]
fn it_counts() {
    let (kept, all) = counted(|| {
        drop(vec![0u8; 1000]);
        let mut kept: Vec<u64> = Vec::with_capacity(10);
        kept.resize(20, 1);
        kept
    });
    assert_eq!((all.live, all.calls), (160, 4));
    assert!(all.peak >= 1000);
    let (kept, freed) = counted(|| drop(kept));
    assert_eq!((kept, freed.live, freed.calls), ((), -160, 1));
}
