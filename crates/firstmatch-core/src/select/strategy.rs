//! How a base is chosen.

use crate::engines::registry::Kind;

/// How a base is chosen among the candidates that budget and limits have room for.
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
