//! Marks that a program leaves in the trace of its memory accesses, so that a reader sees where a part begins and ends.

use std::hint::black_box;
use std::sync::atomic::{AtomicU16, Ordering};

/// Place in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Begin,
    End,
}

/// Number of loads of a mark.
const LOADS: usize = 16;
/// Bytes of a load. Two are rare in programs, so that little else looks like a load of a mark.
pub(super) const LOAD_BYTES: u64 = 2;
/// Numbers that the loads lie in.
const PLACES: usize = 4096;
static NUMBERS: [AtomicU16; PLACES] = [const { AtomicU16::new(0) }; PLACES];

/// Returns the number that the n-th load of a mark reads.
///
/// It is a formula, because a table would be loaded from memory between the loads of the mark.
const fn place(mark: Mark, load: usize) -> usize {
    let (step, turn) = match mark {
        Mark::Begin => (37, 1201),
        Mark::End => (53, 1409),
    };
    (load * load * step + load * turn) % PLACES
}

/// Leaves a mark: loads of two bytes each at distances that nothing else has.
#[inline(never)]
pub(crate) fn leave(mark: Mark) {
    // Nothing writes the numbers, so the compiler would leave the loads out if it knew which numbers they are of.
    let numbers = black_box(&NUMBERS);
    let load = |load| u64::from(numbers[place(mark, load)].load(Ordering::Relaxed));
    black_box((0..LOADS).map(load).sum::<u64>());
}

/// Watcher that finds marks among the loads of [`LOAD_BYTES`].
///
/// Loads and stores of other sizes may stand between those of a mark. The address of the numbers is not known, so only
/// the distances between the loads count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watcher {
    /// Last loads of that size, each with the number of its access in the trace.
    last: Vec<(u64, u64)>,
}

impl Watcher {
    /// Takes the address of a load and its number in the trace; returns a mark with the number of its first load.
    pub(crate) fn load(&mut self, address: u64, number: u64) -> Option<(Mark, u64)> {
        if self.last.len() == LOADS {
            self.last.remove(0);
        }
        self.last.push((address, number));
        let &(base, first) = self.last.first().filter(|_| self.last.len() == LOADS)?;
        let is = |mark: &Mark| {
            let at = |load: usize| LOAD_BYTES * place(*mark, load) as u64;
            (0..LOADS).all(|load| self.last[load].0.wrapping_sub(base) == at(load).wrapping_sub(at(0)))
        };
        let mark = [Mark::Begin, Mark::End].into_iter().find(is)?;
        self.last.clear();
        Some((mark, first))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::cachesim) fn loads(mark: Mark, base: u64) -> impl Iterator<Item = u64> {
        (0..LOADS).map(move |load| base + LOAD_BYTES * place(mark, load) as u64)
    }

    #[test]
    fn marks_are_found_wherever_their_bytes_lie() {
        for mark in [Mark::Begin, Mark::End] {
            for base in [0, 4096, 0x1_0000_0123] {
                let mut watcher = Watcher::default();
                let before = (0..40).map(|at| at * 3);
                let found: Vec<_> = before
                    .chain(loads(mark, base))
                    .zip(0..)
                    .filter_map(|(at, number)| watcher.load(at, number))
                    .collect();
                assert_eq!(found, [(mark, 40)]);
            }
        }
    }

    #[test]
    fn whatever_is_not_a_whole_mark_is_none() {
        let whole: Vec<u64> = loads(Mark::Begin, 64).collect();
        for gone in 0..LOADS {
            let mut watcher = Watcher::default();
            let (mut missing, mut other) = (whole.clone(), whole.clone());
            missing.remove(gone);
            other[gone] += 1;
            for (at, number) in missing.into_iter().chain(other).zip(0..) {
                assert_eq!(watcher.load(at, number), None, "{gone}");
            }
        }
        let mut places: Vec<usize> = (0..LOADS).map(|load| place(Mark::Begin, load)).collect();
        places.sort_unstable();
        places.dedup();
        assert_eq!(places.len(), LOADS);
    }
}
