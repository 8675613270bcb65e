//! Kernels that gather keys: bytes in network order, in place, become rows of key words.
//!
//! No kernel touches a byte outside the span of the fields, because only a pointer is known of the caller's buffer. The
//! bytes between the fields lie in the same object, so wide loads inside the span are allowed.

use crate::plan::Plan;

/// Number of keys that are gathered at a time.
pub(crate) const CHUNK: usize = 64;

/// Plan with the kernel that carries it out.
#[derive(Debug)]
pub(crate) struct Gather {
    pub(crate) plan: Plan,
}

impl Gather {
    /// Chooses the fastest kernel that this machine has for a plan.
    pub(crate) fn new(plan: Plan) -> Self {
        Self { plan }
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.plan.bytes()
    }

    /// Gathers keys to rows of `stride` words, whose padding stays as it is.
    ///
    /// # Safety
    /// Behind each pointer the bytes of the plan's span must be readable.
    ///
    /// # Panics
    /// If there are fewer rows than keys.
    #[inline]
    pub(crate) unsafe fn gather(&self, keys: &[*const u8], rows: &mut [u32]) {
        // SAFETY: the caller's promise.
        unsafe { words(&self.plan, keys, rows) }
    }
}

/// Gathers keys word by word, so that the size of a word is looked at once for all keys.
///
/// # Safety
/// As [`Gather::gather`].
unsafe fn words(plan: &Plan, keys: &[*const u8], rows: &mut [u32]) {
    assert!(rows.len() >= keys.len() * plan.stride, "a row for each key");
    for (word, part) in plan.parts.iter().enumerate() {
        let places = rows.chunks_exact_mut(plan.stride).map(|row| &mut row[word]);
        let at = plan.start + part.offset;
        for (&key, place) in keys.iter().zip(places) {
            // SAFETY: a part lies in the span, whose bytes are readable. Arrays of bytes have no alignment.
            *place = unsafe {
                match part.size {
                    1 => u32::from(key.add(at).read()),
                    2 => u32::from(u16::from_be_bytes(key.add(at).cast::<[u8; 2]>().read())),
                    _ => u32::from_be_bytes(key.add(at).cast::<[u8; 4]>().read()),
                }
            };
        }
    }
}
