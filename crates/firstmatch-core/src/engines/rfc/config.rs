//! Configuration of the engine.

use crate::engine::budget::Budget;
use crate::engine::options::{Knob, Set};
use crate::raw::Level;

/// Default of the region visits of a build.
const MOST_VISITS: usize = 1 << 29;

/// Configuration of [`Rfc`](super::Rfc).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Limit on the memory of the built engine; without one, [`Budget::UNSET_BYTES`] is the limit.
    pub budget: Budget,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Maximum bytes of the rules and of their lists that one step of the build keeps.
    pub build_bytes: usize,
    /// Maximum number of region visits of a build.
    ///
    /// The default of 2<sup>29</sup> takes some seconds. Rules that separate hardly at all would take minutes.
    pub visits: usize,
    /// Searches that map the words of a key to classes.
    pub leaves: LeafKind,
    /// Choice of the classes that each table joins.
    pub plan: TreeChoice,
    /// Whether rules that can never be the first match are dropped from lists.
    pub prune: bool,
    /// Order in which a batch goes through the tables.
    pub walk: BatchWalk,
    /// Minimum bytes of a table whose entries are prefetched.
    pub prefetch: usize,
    /// Form of the tables.
    pub store: TableForm,
    /// Number of entries of a sub-table: 32, 64, 96 or 128.
    pub sub_entries: usize,
    /// Number of elements of a sub-table: even, from 4 to 28.
    pub sub_elements: usize,
    /// Order of the classes of a compact table.
    pub order: ClassOrder,
    /// Count of the bits that are set in a bitmap.
    pub count: BitCount,
    /// Computation of the place of an entry.
    pub index: PlaceBy,
}

/// Form of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TableForm {
    /// One entry for each combination of classes.
    Plain,
    /// Each run of equal entries once, with the number of runs before each bitmap.
    Ranked,
    /// Each run of equal entries once, in the sub-tables of the paper with an accessory table (section 4).
    SubTables,
}

/// Order of the classes of a compact table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClassOrder {
    /// Order of their first values or pairs, as in the paper.
    AsFound,
    /// The order with the fewest runs of four: either slot as the minor one, its classes as found or sorted by rule
    /// lists.
    ///
    /// Tables of three slots keep the order as found.
    FewestRuns,
}

/// Count of the bits that are set in a bitmap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BitCount {
    /// Instruction that counts them, if the instruction set has it.
    Instruction,
    /// Loop that finds and clears the lowest bit, which the paper compares with (section 6.5).
    FindFirst,
}

/// Computation of the place of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlaceBy {
    /// Multiplication by the number of classes.
    Multiply,
    /// Shift, with rows filled up to a power of two (section 5.3 of the paper).
    Shift,
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
    /// One table joins both source chunks and the source port, and another the same of the destination. The protocol,
    /// if the schema has one, is joined to the second table. In other schemas, up to three leaves are one table; for
    /// more leaves the paper has no tree, so the tree is planned.
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
    /// As [`BatchWalk::Keys`], but each read of a key waits for its last read, so that no two reads overlap.
    Reads,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            simd: None,
            build_bytes: 1 << 30,
            visits: MOST_VISITS,
            leaves: LeafKind::Words,
            plan: TreeChoice::Fewest,
            prune: true,
            walk: BatchWalk::Batch,
            prefetch: usize::MAX,
            store: TableForm::Plain,
            sub_entries: 32,
            sub_elements: 8,
            order: ClassOrder::FewestRuns,
            count: BitCount::Instruction,
            index: PlaceBy::Multiply,
        }
    }
}

impl Config {
    /// Returns the defaults of the engine `bitmap_rfc`, which has compact tables.
    pub fn bitmap() -> Self {
        Self { store: TableForm::Ranked, ..Self::default() }
    }

    /// Returns the values of the paper, with its compact tables.
    ///
    /// ```
    /// use firstmatch_core::engines::rfc::{Config, TableForm};
    ///
    /// let config = Config::paper_bitmap();
    /// assert_eq!((config.store, config.sub_entries, config.sub_elements), (TableForm::SubTables, 32, 8));
    /// ```
    pub fn paper_bitmap() -> Self {
        Self { store: TableForm::SubTables, ..Self::paper() }
    }

    /// Returns the values of the paper, with the plain tables that it compares with.
    pub fn paper() -> Self {
        Self {
            leaves: LeafKind::Chunks,
            plan: TreeChoice::Paper,
            prune: false,
            walk: BatchWalk::Keys,
            order: ClassOrder::AsFound,
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
                let is_plain = config.store == TableForm::Plain;
                let paper = if is_plain { Config::paper() } else { Config::paper_bitmap() };
                *config = Config { budget: config.budget, simd: config.simd, ..paper };
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
        name: "prune",
        summary: "whether lists of rules lose those that can never be the first match",
        set: Set::Switch(|config, prunes| config.prune = prunes),
    },
    Knob {
        name: "walk",
        summary: "order of a batch: table by table, key by key, or read by read without overlap",
        set: Set::OneOf(&["batch", "keys", "reads"], |config, at| {
            config.walk = [BatchWalk::Batch, BatchWalk::Keys, BatchWalk::Reads][at];
        }),
    },
    Knob {
        name: "prefetch",
        summary: "minimum bytes of a table whose entries are prefetched",
        set: Set::Count(|config, bytes| config.prefetch = bytes),
    },
    Knob {
        name: "store",
        summary: "form of the tables: plain, or runs of equal entries in ranked bitmaps or the paper's sub-tables",
        set: Set::OneOf(&["plain", "ranked", "sub_tables"], |config, at| {
            config.store = [TableForm::Plain, TableForm::Ranked, TableForm::SubTables][at];
        }),
    },
    Knob {
        name: "sub_entries",
        summary: "number of entries of a sub-table: 32, 64, 96 or 128",
        set: Set::Within([32, 128, 32], |config, count| config.sub_entries = count),
    },
    Knob {
        name: "sub_elements",
        summary: "number of elements of a sub-table: even, from 4 to 28",
        set: Set::Within([4, 28, 2], |config, count| config.sub_elements = count),
    },
    Knob {
        name: "order",
        summary: "order of the classes of a compact table: the one of fewest runs, or as they are found",
        set: Set::OneOf(&["fewest_runs", "as_found"], |config, at| {
            config.order = [ClassOrder::FewestRuns, ClassOrder::AsFound][at];
        }),
    },
    Knob {
        name: "count",
        summary: "count of set bits, by an instruction or by a loop that finds the lowest one",
        set: Set::OneOf(&["instruction", "find_first"], |config, at| {
            config.count = [BitCount::Instruction, BitCount::FindFirst][at];
        }),
    },
    Knob {
        name: "index",
        summary: "computation of the place of an entry, by multiplication or by shifts",
        set: Set::OneOf(&["multiply", "shift"], |config, at| config.index = [PlaceBy::Multiply, PlaceBy::Shift][at]),
    },
    Knob {
        name: "build_bytes",
        summary: "maximum bytes of the rules and of their lists that one step of the build keeps",
        set: Set::Count(|config, bytes| config.build_bytes = bytes),
    },
    Knob {
        name: "visits",
        summary: "maximum region visits of the build",
        set: Set::Count(|config, visits| config.visits = visits),
    },
];
