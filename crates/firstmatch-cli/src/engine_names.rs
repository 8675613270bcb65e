//! Engines that the program offers, by name.

use firstmatch_core::engines::registry::{ENGINES, Entry};
use firstmatch_core::live::META;

/// Name of the engine that is taken if none is given.
pub(crate) const DEFAULT: &str = META.name;

/// Returns the engine `meta`, then those of the registry.
pub(crate) fn all() -> impl Iterator<Item = &'static Entry> {
    std::iter::once(&META).chain(ENGINES)
}

/// Returns the names of all engines.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    all().map(|engine| engine.name)
}

/// Returns the engine of a name, if there is one.
pub(crate) fn named(name: &str) -> Option<&'static Entry> {
    all().find(|engine| engine.name == name)
}
