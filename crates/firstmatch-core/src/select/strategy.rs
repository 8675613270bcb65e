//! How a base is chosen.

use crate::engines::registry::Kind;

/// Number of packets that callers look up at a time, which decides how candidates are timed.
///
/// An engine may be fast in batches and slow for single packets. For example, `bit_vector` looks up eight packets side
/// by side: a packet takes 5 ns in a batch, and 40 ns alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Calls {
    /// Batches: candidates are timed with 256 packets per call.
    #[default]
    Batches,
    /// One packet per call: candidates are timed in this way, too.
    Packets,
}

impl Calls {
    /// Returns the number of packets per call, at most `batch`.
    pub(super) fn packets(self, batch: usize) -> usize {
        match self {
            Self::Batches => batch,
            Self::Packets => 1,
        }
    }
}

/// Strategy for choosing a base among the candidates that fit the budget and the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strategy {
    /// Times all candidates side by side, and takes the one with the least worst ratio to the fastest.
    ///
    /// The ratio is over all sorts of [`Traffic`](super::Traffic).
    #[default]
    Measure,
    /// Takes the first kind by order that keeps the default limits, and compares nothing.
    ///
    /// So the same rules always have the same base.
    FirstFit,
    /// Takes this kind.
    ///
    /// If the kind does not fit the first rules under budget and limits, that is an error. If it no longer fits rules
    /// that have changed, a rebuild takes the first kind by order that fits. A later rebuild returns to this kind as
    /// soon as it fits.
    Force(Kind),
}

impl Strategy {
    /// Returns the kind that is forced, if one is.
    pub fn forced(self) -> Option<Kind> {
        if let Self::Force(kind) = self { Some(kind) } else { None }
    }
}

/// Forces a kind, or measures if there is none.
impl From<Option<Kind>> for Strategy {
    fn from(kind: Option<Kind>) -> Self {
        kind.map_or_else(Self::default, Self::Force)
    }
}
