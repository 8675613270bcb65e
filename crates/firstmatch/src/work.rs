//! What lookups do, counted: what times are predicted from.

/// What lookups of keys have met in an engine, a key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Work {
    /// What is done, each engine's own list, the rest 0; the first is 1.
    pub(crate) done: [f64; KINDS],
    /// Cache lines that are read.
    pub(crate) lines: f64,
    /// Bytes that these are among.
    pub(crate) bytes: f64,
    /// Regions that all keys together were tested against.
    pub(crate) visits: usize,
}

/// The most kinds of things that an engine does.
pub(crate) const KINDS: usize = 9;

impl Work {
    /// Of counts over so many keys, the constant part before them.
    pub(crate) fn each<const N: usize>(keys: usize, counts: [usize; N], lines: usize, bytes: usize) -> Self {
        let each = 1.0 / keys.max(1) as f64;
        let mut done = [0.0; KINDS];
        done[0] = 1.0;
        done[1..].iter_mut().zip(counts).for_each(|(to, count)| *to = count as f64 * each);
        Self { done, lines: lines as f64 * each, bytes: bytes as f64, visits: 0 }
    }

    /// The same, after so many visits.
    pub(crate) fn visiting(self, visits: usize) -> Self {
        Self { visits, ..self }
    }
}

#[cfg(test)]
pub(crate) mod tests;
