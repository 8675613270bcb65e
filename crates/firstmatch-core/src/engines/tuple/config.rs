//! Configuration of the engine.

use crate::engine::budget::Budget;
use crate::raw::Level;

/// Largest number of tables, because their numbers have 32 bits.
pub(super) const MOST_TABLES: usize = u32::MAX as usize / 2;

/// Configuration of [`TupleMerge`](super::TupleMerge).
///
/// ```
/// use firstmatch_core::engines::tuple::Config;
/// use firstmatch_core::Budget;
///
/// // The algorithm of the paper, in at most 64 MiB.
/// let config = Config { budget: Budget { run_bytes: 64 << 20 }, ..Config::paper() };
/// assert_eq!(config.collision_limit, Config::paper().collision_limit);
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    /// Limit on the memory of the engine.
    pub budget: Budget,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Whether and when rules of different tuples share tables.
    pub merge: Merge,
    /// Fields whose bits are in tuples.
    pub fields: TupleFields,
    /// Whether a lookup first finds the tables that can match its key, and probes no others.
    ///
    /// Otherwise it probes one table after the other in order of their best priority (section III-C1).
    pub preclassifier: bool,
    /// Maximum number of regions that share a key before their table is split (`c`); at least 1.
    ///
    /// It has no effect without merging.
    pub collision_limit: usize,
    /// Whether a rule goes to a later table with room before a crowded table is split.
    ///
    /// The crowded one is its first compatible table. The first tuples also get tables of their own.
    pub spill: bool,
    /// Maximum number of tables.
    ///
    /// Regions that would need more go to an overflow list, which is tested eight regions at a time.
    pub most_tables: usize,
    /// Seed of the hash; `None` takes a random one of this process.
    pub seed: Option<u64>,
}

/// Whether and when rules of different tuples share tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Merge {
    /// Never: Tuple Space Search.
    None,
    /// At each insertion (sections III-C2 to III-C4).
    Online,
    /// When the tables of a build are chosen, with all its rules at hand (section III-C5).
    ///
    /// Rules that come later are inserted as online.
    Offline,
}

/// Fields whose bits are in tuples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TupleFields {
    /// All fields.
    All,
    /// The source and the destination address alone; all fields where the schema does not have both.
    ///
    /// The authors' Tuple Space Search hashes these two.
    Addresses,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            simd: None,
            merge: Merge::Online,
            fields: TupleFields::All,
            preclassifier: true,
            collision_limit: 8,
            spill: true,
            most_tables: 512,
            seed: None,
        }
    }
}

impl Config {
    /// Returns the paper's values for the online algorithm.
    ///
    /// `c` is 40 (section IV-B), a crowded table is split at once, there is no preclassifier, and tables are not
    /// limited.
    pub fn paper() -> Self {
        Self { collision_limit: 40, spill: false, preclassifier: false, most_tables: usize::MAX, ..Self::default() }
    }

    /// Returns the paper's values for the offline algorithm: as [`Self::offline`], without a preclassifier
    /// and without a limit on tables.
    pub fn paper_offline() -> Self {
        Self { merge: Merge::Offline, collision_limit: 8, ..Self::paper() }
    }

    /// Returns the Tuple Space Search that the paper compares with.
    ///
    /// Its tuples are of the two addresses alone, as in the authors' simulator, and it has no preclassifier.
    pub fn paper_tss() -> Self {
        Self { merge: Merge::None, fields: TupleFields::Addresses, ..Self::paper() }
    }

    /// Returns the paper's values for the offline algorithm: `c` = 8 (section IV-B).
    pub fn offline() -> Self {
        Self { merge: Merge::Offline, spill: false, ..Self::default() }
    }

    /// Returns the configuration of Tuple Space Search: a table for each tuple.
    pub fn tss() -> Self {
        Self { merge: Merge::None, ..Self::default() }
    }
}
