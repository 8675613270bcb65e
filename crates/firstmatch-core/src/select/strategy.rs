//! How a base is chosen.

use crate::engines::registry::Kind;

/// How a base is chosen among the candidates that budget and limits have room for.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Strategy {
    /// Predicts lookups of all candidates, times those near the best, and takes the fastest.
    Measure {
        /// Factor of the least predicted worst ratio up to which candidates are timed.
        ///
        /// The ratio is to the fastest, over all sorts of [`Traffic`](super::Traffic). `None` is 4, or 6 where lookups
        /// are not compiled for AVX2, because predictions were fitted with that instruction set. With infinity all
        /// candidates are timed that may be.
        margin: Option<f64>,
    },
    /// Takes the candidate with the least prediction, so that the same rules have the same base by the same machine
    /// description.
    Predict,
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

/// Measures, with the margin that predictions were fitted for.
impl Default for Strategy {
    fn default() -> Self {
        Self::Measure { margin: None }
    }
}

/// Forces a kind, or measures if there is none.
impl From<Option<Kind>> for Strategy {
    fn from(kind: Option<Kind>) -> Self {
        kind.map_or_else(Self::default, Self::Force)
    }
}
