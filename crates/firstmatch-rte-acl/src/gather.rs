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
    #[cfg(target_arch = "x86_64")]
    shuffle: Option<crate::shuffle::Shuffle>,
}

impl Gather {
    /// Chooses the fastest kernel that this machine has for a plan.
    pub(crate) fn new(plan: Plan) -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            shuffle: crate::shuffle::Shuffle::new(&plan),
            plan,
        }
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        #[cfg(target_arch = "x86_64")]
        let shuffle = self.shuffle.as_ref().map_or(0, crate::shuffle::Shuffle::bytes);
        #[cfg(not(target_arch = "x86_64"))]
        let shuffle = 0;
        self.plan.bytes() + shuffle
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
        #[cfg(target_arch = "x86_64")]
        if let Some(shuffle) = &self.shuffle {
            // SAFETY: the caller's promise.
            return unsafe { shuffle.gather(keys, rows) };
        }
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

#[cfg(test)]
mod tests {
    use firstmatch_testkit::rng::Rng;

    use super::*;

    /// Compares the kernel that was chosen with the word-by-word one, for random plans of every span.
    #[test]
    #[expect(unsafe_code, reason = "keys of the test")]
    fn every_kernel_reads_what_the_plain_one_does() {
        let mut rng = Rng::new(3);
        let mut shuffled = 0;
        for round in 0..4000 {
            let (count, start, reach) = (1 + rng.below(20), rng.below(9), 1 + round % 90);
            let part = |rng: &mut Rng| (start + rng.below(reach), rng.any_of(&[1, 2, 4]));
            let parts: Vec<_> = (0..count).map(|_| part(&mut rng)).collect();
            let stride = count.next_multiple_of(4);
            let gather = Gather::new(Plan::new(&parts, stride));
            let keys: Vec<_> = (0..rng.below(9)).map(|_| rng.bytes(start + reach + 4)).collect();
            let pointers: Vec<_> = keys.iter().map(Vec::as_ptr).collect();
            let [mut own, mut plain] = [(); 2].map(|()| vec![0; pointers.len() * stride]);
            // SAFETY: every part lies in each key.
            unsafe {
                gather.gather(&pointers, &mut own);
                words(&gather.plan, &pointers, &mut plain);
            }
            assert_eq!(own, plain, "{parts:?}");
            #[cfg(target_arch = "x86_64")]
            (shuffled += usize::from(gather.shuffle.is_some()));
        }
        assert!(shuffled > 2000 || !cfg!(target_arch = "x86_64"), "{shuffled}");
    }
}
