//! Kernel of vectors: a few overlapping loads cover the span, and byte shuffles make words of them.
//!
//! A shuffle puts bytes into the order of the machine and to their places at once; bytes of other loads and padding
//! come out zero. For example, the key of `l3fwd` has a span of 15 bytes. Two loads of 8 bytes, at its start and 7
//! bytes on, make one vector, and two shuffles of it make the row of 8 words.

use std::arch::x86_64::{
    __m128i, _mm_loadu_si128, _mm_or_si128, _mm_set_epi64x, _mm_setzero_si128, _mm_shuffle_epi8, _mm_storeu_si128,
};

use crate::plan::Plan;

/// Bytes of a vector.
const VECTOR: usize = 16;
/// Index of a shuffle that gives zero.
const ZERO: u8 = 0x80;

/// Loads and shuffles of a plan with a span of 8 to 64 bytes.
#[derive(Debug)]
pub(crate) struct Shuffle {
    /// Offset of the span from the caller's pointer.
    start: usize,
    /// Offset of each vector in the span; the second half of a short one is behind `half`.
    loads: [usize; 4],
    count: usize,
    /// Offset of the second 8 bytes of the only vector, for a span below 16 bytes.
    half: Option<usize>,
    /// For each group of four words, the shuffle of each load.
    groups: Box<[[[u8; VECTOR]; 4]]>,
}

impl Shuffle {
    /// Builds the kernel, if the span suits and the machine has the instructions.
    pub(crate) fn new(plan: &Plan) -> Option<Self> {
        if !(8..=64).contains(&plan.span) || !is_x86_feature_detected!("ssse3") {
            return None;
        }
        let count = plan.span.div_ceil(VECTOR);
        let half = (plan.span < VECTOR).then_some(plan.span - 8);
        // The last load ends with the span.
        let load = |at: usize| if half.is_some() { 0 } else { (at * VECTOR).min(plan.span - VECTOR) };
        let loads = std::array::from_fn(|at| if at < count { load(at) } else { 0 });
        // Returns load and position of a byte of the span.
        let find = |byte: usize| match half {
            Some(half) => (0, if byte < 8 { byte } else { 8 + byte - half }),
            None => {
                let at = (byte / VECTOR).min(count - 1);
                (at, byte - loads[at])
            }
        };
        let mut groups = vec![[[ZERO; VECTOR]; 4]; plan.stride / 4].into_boxed_slice();
        for (word, part) in plan.parts.iter().enumerate() {
            for at in 0..part.size {
                // The last byte in network order is the lowest of the word.
                let (load, position) = find(part.offset + part.size - 1 - at);
                groups[word / 4][load][word % 4 * 4 + at] = position as u8;
            }
        }
        Some(Self { start: plan.start, loads, count, half, groups })
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.groups[..])
    }

    /// Gathers keys to rows, padding included.
    ///
    /// # Safety
    /// Behind each pointer the bytes of the plan's span must be readable.
    ///
    /// # Panics
    /// If there are fewer rows than keys.
    #[inline]
    pub(crate) unsafe fn gather(&self, keys: &[*const u8], rows: &mut [u32]) {
        assert!(rows.len() >= keys.len() * self.groups.len() * 4, "a row for each key");
        // SAFETY: the caller's promise, there is a row for each key, and `new` has found the instructions.
        unsafe {
            match (self.half, self.count, self.groups.len()) {
                (Some(_), _, 2) => self.run::<0, 2>(keys, rows),
                (Some(_), ..) => self.run::<0, 0>(keys, rows),
                (None, 1, _) => self.run::<1, 0>(keys, rows),
                (None, 2, _) => self.run::<2, 0>(keys, rows),
                (None, 3, 3) => self.run::<3, 3>(keys, rows),
                (None, 3, _) => self.run::<3, 0>(keys, rows),
                _ => self.run::<4, 0>(keys, rows),
            }
        }
    }

    /// Gathers keys by `LOADS` vectors, where 0 stands for one of two halves, to rows of `GROUPS` times four words,
    /// where 0 stands for any number.
    ///
    /// # Safety
    /// As [`Shuffle::gather`]; there must be a row for each key, and the machine must have SSSE3.
    #[target_feature(enable = "ssse3")]
    unsafe fn run<const LOADS: usize, const GROUPS: usize>(&self, keys: &[*const u8], rows: &mut [u32]) {
        let groups = if GROUPS == 0 { &self.groups[..] } else { &self.groups[..GROUPS] };
        let mut out = rows.as_mut_ptr().cast::<__m128i>();
        for &key in keys {
            // SAFETY: the loads lie in the span. There is room for `groups.len()` vectors a key.
            unsafe {
                let key = key.add(self.start);
                let mut vectors = [_mm_setzero_si128(); 4];
                if LOADS == 0 {
                    let word = |at: usize| key.add(at).cast::<i64>().read_unaligned();
                    vectors[0] = _mm_set_epi64x(word(self.half.unwrap_or(0)), word(0));
                }
                for (vector, &at) in vectors.iter_mut().zip(&self.loads).take(LOADS) {
                    *vector = _mm_loadu_si128(key.add(at).cast());
                }
                for group in groups {
                    let shuffled =
                        |at: usize| _mm_shuffle_epi8(vectors[at], _mm_loadu_si128(group[at].as_ptr().cast()));
                    let mut words = shuffled(0);
                    for at in 1..LOADS {
                        words = _mm_or_si128(words, shuffled(at));
                    }
                    _mm_storeu_si128(out, words);
                    out = out.add(1);
                }
            }
        }
    }
}
