//! Costs that lookups have met, counted for tests of the stated worst case.

/// Costs of the lookups of some keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cost {
    /// Number of cache lines read, per key.
    pub(crate) lines: f64,
    /// Number of regions that all keys together were tested against.
    pub(crate) visits: usize,
}

impl Cost {
    /// Builds the cost of `keys` keys that read `lines` cache lines and made `visits` tests of regions.
    pub(crate) fn of(keys: usize, lines: usize, visits: usize) -> Self {
        Self { lines: lines as f64 / keys.max(1) as f64, visits }
    }
}

pub(crate) mod tests;
