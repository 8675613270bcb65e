//! Configuration of the engine.

use crate::engine::budget::Budget;
use crate::engine::options::{Knob, Set};
use crate::error::BuildError;
use crate::raw::Level;

/// Largest number of keys in flight.
pub(super) const MOST_IN_FLIGHT: usize = 128;
/// Largest number of bits of a sub-vector.
pub(super) const MOST_SUB_VECTOR: usize = 8192;
/// Largest number of hash functions.
pub(super) const MOST_FUNCTIONS: usize = 8;
/// Largest number of slots of a hash table per value.
pub(super) const MOST_SLOTS: usize = 64;
/// Bits of a cache line, the unit of sub-vectors.
pub(super) const LINE_BITS: usize = 512;

/// Configuration of [`Decomposition`](super::Decomposition).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Limit on the memory of the built engine.
    pub budget: Budget,
    /// Maximum bytes of the sets of rules that the build keeps.
    pub build_bytes: usize,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Seed of the hash functions; `None` takes a random one of this process.
    pub seed: Option<u64>,
    /// Fields that are searched together.
    pub superfields: Superfields,
    /// Number of hash functions, 1 to 8.
    pub functions: usize,
    /// Slots of a hash table per value, 1 to 64.
    pub slots: f64,
    /// Whether groups of fields with exact values are hashed instead of searched.
    pub hash_groups: bool,
    /// Form of the vectors.
    pub rows: RowForm,
    /// End of the merge of vectors.
    pub stop: Stop,
    /// Bits of a sub-vector, a multiple of 512 up to 8,192.
    pub sub_vector: usize,
    /// Number of keys in flight, 1 to 128.
    pub interleave: usize,
    /// Whether the vectors with fewest rules are merged first.
    pub sparsest_first: bool,
}

/// Fields that are searched together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Superfields {
    /// Each field by itself.
    Fields,
    /// The two groups of the paper in the OpenFlow schema; other fields, and other schemas, field by field.
    Paper,
    /// Fields with exact values together, and small tables in place of pairs of vectors.
    Chosen,
}

/// Form of the vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowForm {
    /// All bits.
    Flat,
    /// All bits, with a bit for each 512 that says whether any is set.
    Summed,
    /// Words of 64 bits that are not zero, with a bit for each word.
    Sparse,
    /// Flat up to 1,024 rules, otherwise sparse.
    Auto,
}

/// End of the merge of vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Stop {
    /// The end of the vectors.
    Never,
    /// The first sub-vector with a rule that all vectors have (section IV-B).
    Hit,
    /// The same and, within a sub-vector, the first vector after which no common bit is left.
    Zero,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            build_bytes: 1 << 30,
            simd: None,
            seed: None,
            superfields: Superfields::Chosen,
            functions: 2,
            slots: 2.2,
            hash_groups: true,
            rows: RowForm::Auto,
            stop: Stop::Zero,
            sub_vector: LINE_BITS,
            interleave: 32,
            sparsest_first: true,
        }
    }
}

impl Config {
    /// Returns the optimised form of the paper: grouped fields and merges that end at the first hit.
    ///
    /// ```
    /// use firstmatch_core::engines::decomposition::{Config, Stop, Superfields};
    ///
    /// let config = Config::paper();
    /// assert_eq!((config.superfields, config.stop), (Superfields::Paper, Stop::Hit));
    /// assert_eq!(Config::plain().stop, Stop::Never);
    /// ```
    pub fn paper() -> Self {
        Self {
            superfields: Superfields::Paper,
            slots: 2.0,
            hash_groups: false,
            rows: RowForm::Flat,
            stop: Stop::Hit,
            interleave: 1,
            sparsest_first: false,
            ..Self::default()
        }
    }

    /// Returns the paper's form without its two optimisations.
    pub fn plain() -> Self {
        Self { superfields: Superfields::Fields, stop: Stop::Never, ..Self::paper() }
    }

    /// Checks that each number is within its bounds.
    ///
    /// # Errors
    /// If one is not.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        let &Self { functions, slots, sub_vector, interleave, .. } = self;
        let is_line = sub_vector.is_multiple_of(LINE_BITS) && (LINE_BITS..=MOST_SUB_VECTOR).contains(&sub_vector);
        let wrong = if !(1..=MOST_FUNCTIONS).contains(&functions) {
            format!("{functions} hash functions; expected 1 to {MOST_FUNCTIONS}")
        } else if !(1.0..=MOST_SLOTS as f64).contains(&slots) {
            format!("{slots} slots a value; expected 1 to {MOST_SLOTS}")
        } else if !is_line {
            format!("sub-vectors of {sub_vector} bits; expected a multiple of {LINE_BITS} up to {MOST_SUB_VECTOR}")
        } else if !(1..=MOST_IN_FLIGHT).contains(&interleave) {
            format!("{interleave} keys in flight; expected 1 to {MOST_IN_FLIGHT}")
        } else {
            return Ok(());
        };
        Err(BuildError::refused(wrong))
    }
}

/// Options by name.
pub(super) const OPTIONS: &[Knob<Config>] = &[
    Knob {
        name: "paper",
        summary: "whether to start from the paper's optimised form",
        set: Set::Switch(|config, is_on| of_paper(config, is_on, Config::paper)),
    },
    Knob {
        name: "plain",
        summary: "whether to start from the paper's form without optimisations",
        set: Set::Switch(|config, is_on| of_paper(config, is_on, Config::plain)),
    },
    Knob {
        name: "superfields",
        summary: "fields that are searched together: none, the paper's groups in OpenFlow rules, or by the rules",
        set: Set::OneOf(&["fields", "paper", "chosen"], |config, at| {
            config.superfields = [Superfields::Fields, Superfields::Paper, Superfields::Chosen][at];
        }),
    },
    Knob {
        name: "functions",
        summary: "hash functions, 1 to 8",
        set: Set::Within([1, MOST_FUNCTIONS, 1], |config, count| config.functions = count),
    },
    Knob {
        name: "slots",
        summary: "slots of a hash table per value",
        set: Set::Number([1, MOST_SLOTS as u32], |config, slots| config.slots = slots),
    },
    Knob {
        name: "hash_groups",
        summary: "whether groups of fields with exact values are hashed instead of searched",
        set: Set::Switch(|config, is_on| config.hash_groups = is_on),
    },
    Knob {
        name: "rows",
        summary: "form of the vectors",
        set: Set::OneOf(&["flat", "summed", "sparse", "auto"], |config, at| {
            config.rows = [RowForm::Flat, RowForm::Summed, RowForm::Sparse, RowForm::Auto][at];
        }),
    },
    Knob {
        name: "stop",
        summary: "what ends a merge: nothing, the first hit, or that and vectors without a common bit",
        set: Set::OneOf(&["never", "hit", "zero"], |config, at| {
            config.stop = [Stop::Never, Stop::Hit, Stop::Zero][at];
        }),
    },
    Knob {
        name: "sub_vector",
        summary: "bits of a sub-vector, a multiple of 512 up to 8,192",
        set: Set::Within([LINE_BITS, MOST_SUB_VECTOR, LINE_BITS], |config, bits| config.sub_vector = bits),
    },
    Knob {
        name: "interleave",
        summary: "keys in flight, 1 to 128",
        set: Set::Within([1, MOST_IN_FLIGHT, 1], |config, keys| config.interleave = keys),
    },
    Knob {
        name: "sparsest_first",
        summary: "whether the vectors with fewest rules are merged first",
        set: Set::Switch(|config, is_on| config.sparsest_first = is_on),
    },
    Knob {
        name: "build_bytes",
        summary: "maximum bytes of the sets of rules that the build keeps",
        set: Set::Count(|config, bytes| config.build_bytes = bytes),
    },
];

fn of_paper(config: &mut Config, is_on: bool, paper: fn() -> Config) {
    if is_on {
        let Config { budget, simd, seed, .. } = *config;
        *config = Config { budget, simd, seed, ..paper() };
    }
}
