//! Counted costs of lookups, from which times are predicted.

/// Costs that lookups have met in an engine, per key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Number of operations of each kind, in the engine's own order.
    ///
    /// The first is the constant 1; kinds that the engine does not have are 0.
    pub(crate) done: [f64; KINDS],
    /// Number of cache lines read.
    pub(crate) lines: f64,
    /// Number of bytes of the structures that the lines belong to.
    pub(crate) bytes: f64,
    /// Number of regions that all keys together were tested against.
    pub(crate) visits: usize,
}

/// Largest number of kinds of operations of an engine, the constant included.
pub(crate) const KINDS: usize = 9;

/// Number of terms of a predicted time: one for each kind of operation, and the far lines.
pub(crate) const TERMS: usize = KINDS + 1;

/// Weights of the terms of a predicted time.
pub(crate) type Weights = [f64; TERMS];

impl Cost {
    /// Builds the costs per key from `counts` and `lines` over `keys` keys.
    ///
    /// `bytes` is a size, not a count, and taken as it is. For example, 30 probes of 10 keys are 3 probes per key.
    pub(crate) fn each<const N: usize>(keys: usize, counts: [usize; N], lines: usize, bytes: usize) -> Self {
        let each = 1.0 / keys.max(1) as f64;
        let mut done = [0.0; KINDS];
        done[0] = 1.0;
        done[1..].iter_mut().zip(counts).for_each(|(to, count)| *to = count as f64 * each);
        Self { done, lines: lines as f64 * each, bytes: bytes as f64, visits: 0 }
    }

    /// Returns the same costs with `visits` tests of regions.
    pub(crate) fn visiting(self, visits: usize) -> Self {
        Self { visits, ..self }
    }
}

#[cfg(test)]
pub(crate) mod tests;
