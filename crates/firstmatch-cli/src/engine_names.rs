//! Names of engines.

use firstmatch_core::engines::registry::ENGINES;

/// Name of the engine that is taken where none is asked for.
pub(crate) const DEFAULT: &str = "meta";

/// Returns the names of all engines that the program offers, the default first.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    std::iter::once(DEFAULT).chain(ENGINES.iter().map(|entry| entry.name))
}
