//! Configuration of the engine.

use crate::engine::budget::Budget;
use crate::engine::options::{Knob, Set};
use crate::raw::Level;

/// Configuration of [`Rfc`](super::Rfc).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Limit on the memory of the built engine.
    pub budget: Budget,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Maximum bytes of the lists of rules that one step of the build keeps.
    pub build_bytes: usize,
    /// Searches that map the words of a key to classes.
    pub leaves: LeafKind,
    /// Choice of the classes that each table joins.
    pub plan: TreeChoice,
    /// Order in which a batch goes through the tables.
    pub walk: BatchWalk,
    /// Minimum bytes of a table whose entries are prefetched.
    pub prefetch: usize,
}

/// Searches that map the words of a key to classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeafKind {
    /// Search tree, pages or table for each word.
    Words,
    /// Table for each chunk of at most 17 bits, as the paper has them.
    Chunks,
}

/// Choice of the classes that each table joins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TreeChoice {
    /// Tree of tables that takes the fewest bytes.
    Fewest,
    /// Tree of the paper.
    ///
    /// One table joins both source chunks and the source port, and another the destination's. The protocol, if the
    /// schema has one, is joined to the second table. Up to three leaves of other schemas are one table; for more the
    /// paper has no tree, so that they are planned.
    Paper,
}

/// Order in which a batch goes through the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchWalk {
    /// Up to 64 keys go through a table together.
    Batch,
    /// Each key goes through all tables before the next one.
    Keys,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            simd: None,
            build_bytes: 1 << 30,
            leaves: LeafKind::Words,
            plan: TreeChoice::Fewest,
            walk: BatchWalk::Batch,
            prefetch: usize::MAX,
        }
    }
}

impl Config {
    /// Returns the values of the paper.
    pub fn paper() -> Self {
        Self {
            build_bytes: usize::MAX,
            leaves: LeafKind::Chunks,
            plan: TreeChoice::Paper,
            walk: BatchWalk::Keys,
            ..Self::default()
        }
    }
}

/// Options by name.
pub(super) const OPTIONS: &[Knob<Config>] = &[
    Knob {
        name: "paper",
        summary: "the values of the paper",
        set: Set::Switch(|config, is_on| {
            if is_on {
                *config = Config { budget: config.budget, simd: config.simd, ..Config::paper() };
            }
        }),
    },
    Knob {
        name: "leaves",
        summary: "searches that map a key to classes, by whole words or by chunks of 16 bits",
        set: Set::OneOf(&["words", "chunks"], |config, at| config.leaves = [LeafKind::Words, LeafKind::Chunks][at]),
    },
    Knob {
        name: "plan",
        summary: "tree of tables: the one of fewest bytes, or the paper's",
        set: Set::OneOf(&["fewest", "paper"], |config, at| config.plan = [TreeChoice::Fewest, TreeChoice::Paper][at]),
    },
    Knob {
        name: "walk",
        summary: "order of a batch: table by table, or key by key",
        set: Set::OneOf(&["batch", "keys"], |config, at| config.walk = [BatchWalk::Batch, BatchWalk::Keys][at]),
    },
    Knob {
        name: "prefetch",
        summary: "minimum bytes of a table whose entries are prefetched",
        set: Set::Count(|config, bytes| config.prefetch = bytes),
    },
    Knob {
        name: "build_bytes",
        summary: "maximum bytes of the lists of rules that one step of the build keeps",
        set: Set::Count(|config, bytes| config.build_bytes = bytes),
    },
];
