//! Configuration of the engine.

use crate::engine::budget::Budget;
use crate::engine::options::{Knob, Set};
use crate::error::BuildError;
use crate::raw::Level;

/// Largest number of packets for each counted one.
pub(super) const MOST_SAMPLE: u32 = 64;
/// Numbers that counters of 32 bits take.
const ANY: [usize; 3] = [0, u32::MAX as usize, 1];

/// Configuration of [`Npf`](super::Npf).
///
/// ```
/// use firstmatch_core::engines::interval_tree::{Config, Npf};
/// use firstmatch_core::rule::Lowered;
/// use firstmatch_core::{Engine, Schema};
///
/// let engine = Npf::build(&Lowered::empty(&Schema::ipv4()), &Config::default())?;
/// assert_eq!(Engine::stats(&engine).tables, 5);
/// # Ok::<(), firstmatch_core::BuildError>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Config {
    /// Limit on the memory of the built engine; scratches are not part of it.
    pub budget: Budget,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Form of the sets of rules.
    pub sets: SetForm,
    /// Search of keys that come together.
    pub batches: Batches,
    /// Whether single keys are searched in trees, which they turn.
    ///
    /// Otherwise they are searched by halving, and a scratch has no trees.
    pub adapts: bool,
    /// Counters that decide whether a node is turned up.
    pub turns: Turns,
    /// Number of hits by which a node must lead its parent.
    pub threshold: u32,
    /// Number of packets for each counted one, 1 to 64.
    pub sample: u32,
    /// Whether `sample` grows while walks are long, up to 64.
    pub dynamic: bool,
    /// Edges beyond 2⌈log₂(n + 1)⌉ after which a walk is replaced by halving; `None` has no limit.
    ///
    /// Without a limit, the worst walk over n intervals takes n steps.
    pub depth_cap: Option<u32>,
    /// Lookups for each node between two reconstructions of a tree; `None` never reconstructs.
    pub reconstruct: Option<u32>,
    /// Mean edges beyond ⌈log₂ n⌉ that make a reconstruction due.
    pub mean_path: u32,
    /// Packets for each node until counters are halved; with `None`, they are only halved when one is full.
    pub halve_after: Option<u32>,
    /// Whether single keys skip further trees once no rule is left.
    pub bypass: bool,
}

/// Form of the sets of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetForm {
    /// Words of 64 bits that are not zero, with a bit for each word.
    Vectors,
    /// Sorted numbers of products.
    Lists,
}

/// Search of keys that come together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Batches {
    /// Halving of the sorted starts, 32 keys side by side.
    Halve,
    /// Trees, key by key.
    Turn,
}

/// Counters that decide whether a node is turned up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Turns {
    /// Hits of the node and of its parent (Algorithm 4.4.1).
    Popularity,
    /// Hits of the parts of the tree that would rise and sink.
    Subtrees,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            budget: Budget::default(),
            simd: None,
            sets: SetForm::Vectors,
            batches: Batches::Halve,
            adapts: true,
            turns: Turns::Subtrees,
            threshold: 1,
            sample: 16,
            dynamic: false,
            depth_cap: Some(8),
            reconstruct: Some(64),
            mean_path: 2,
            halve_after: Some(128),
            bypass: true,
        }
    }
}

impl Config {
    /// Returns the thesis's form: sorted lists, every packet counted, and no defences.
    ///
    /// ```
    /// use firstmatch_core::engines::interval_tree::{Config, Turns};
    ///
    /// let config = Config::paper();
    /// assert_eq!((config.turns, config.sample, config.depth_cap), (Turns::Popularity, 1, None));
    /// assert_eq!(Config::defended().depth_cap, Some(8));
    /// ```
    pub fn paper() -> Self {
        Self {
            sets: SetForm::Lists,
            batches: Batches::Turn,
            turns: Turns::Popularity,
            sample: 1,
            depth_cap: None,
            reconstruct: None,
            halve_after: None,
            ..Self::default()
        }
    }

    /// Returns the thesis's form with a cap on walks, reconstruction and halving.
    pub fn defended() -> Self {
        let Self { depth_cap, reconstruct, halve_after, .. } = Self::default();
        Self { depth_cap, reconstruct, halve_after, ..Self::paper() }
    }

    /// Checks that each number is within its bounds.
    ///
    /// # Errors
    /// If one is not.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        if (1..=MOST_SAMPLE).contains(&self.sample) {
            return Ok(());
        }
        let what = format!("one packet in {} is counted; expected 1 to {MOST_SAMPLE}", self.sample);
        Err(BuildError::refused(what))
    }
}

/// Options by name.
pub(super) const OPTIONS: &[Knob<Config>] = &[
    Knob {
        name: "paper",
        summary: "whether to start from the paper's form, without defences",
        set: Set::Switch(|config, is_on| of_paper(config, is_on, Config::paper)),
    },
    Knob {
        name: "defended",
        summary: "whether to start from the paper's form with defences",
        set: Set::Switch(|config, is_on| of_paper(config, is_on, Config::defended)),
    },
    Knob {
        name: "sets",
        summary: "form of the sets of rules",
        set: Set::OneOf(&["vectors", "lists"], |config, at| {
            config.sets = [SetForm::Vectors, SetForm::Lists][at];
        }),
    },
    Knob {
        name: "batches",
        summary: "search of keys that come together: by halving, or in trees that turn",
        set: Set::OneOf(&["halve", "turn"], |config, at| {
            config.batches = [Batches::Halve, Batches::Turn][at];
        }),
    },
    Knob {
        name: "adapts",
        summary: "whether single keys turn trees",
        set: Set::Switch(|config, is_on| config.adapts = is_on),
    },
    Knob {
        name: "turns",
        summary: "hits that turn a node up: those of nodes, or of subtrees",
        set: Set::OneOf(&["popularity", "subtrees"], |config, at| {
            config.turns = [Turns::Popularity, Turns::Subtrees][at];
        }),
    },
    Knob {
        name: "threshold",
        summary: "number of hits by which a node must lead",
        set: Set::Within(ANY, |config, hits| config.threshold = hits as u32),
    },
    Knob {
        name: "sample",
        summary: "packets for each counted one, 1 to 64",
        set: Set::Within([1, MOST_SAMPLE as usize, 1], |config, packets| config.sample = packets as u32),
    },
    Knob {
        name: "dynamic",
        summary: "whether fewer packets are counted while walks are long",
        set: Set::Switch(|config, is_on| config.dynamic = is_on),
    },
    Knob {
        name: "depth_cap",
        summary: "edges of a walk beyond twice the height of a balanced tree",
        set: Set::Within(ANY, |config, edges| config.depth_cap = Some(edges as u32)),
    },
    Knob {
        name: "reconstruct",
        summary: "lookups for each node between two reconstructions",
        set: Set::Within(ANY, |config, lookups| config.reconstruct = Some(lookups as u32)),
    },
    Knob {
        name: "mean_path",
        summary: "mean edges beyond the height of a balanced tree that make a reconstruction due",
        set: Set::Within(ANY, |config, edges| config.mean_path = edges as u32),
    },
    Knob {
        name: "halve_after",
        summary: "packets for each node until counters are halved",
        set: Set::Within(ANY, |config, packets| config.halve_after = Some(packets as u32)),
    },
    Knob {
        name: "bypass",
        summary: "whether single keys skip further trees once no rule is left",
        set: Set::Switch(|config, is_on| config.bypass = is_on),
    },
];

fn of_paper(config: &mut Config, is_on: bool, paper: fn() -> Config) {
    if is_on {
        let Config { budget, simd, .. } = *config;
        *config = Config { budget, simd, ..paper() };
    }
}
