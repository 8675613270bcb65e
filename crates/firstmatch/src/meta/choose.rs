//! Which engine serves a rule set: ordered attempts, the last of which fits wherever one does.

use std::fmt;
use std::ops::Range;

use super::Config;
use crate::alive::{Base, Dead};
use crate::bit_select::{self, BitSelect};
use crate::budget::Budget;
use crate::engine::{Engine, Match, Stats};
use crate::error::BuildError;
use crate::key::Keys;
use crate::linear::{self, Linear};
use crate::rule::Lowered;
use crate::tuple::{self, TupleMerge};

/// What a lookup of any base may write to.
pub(super) type Scratch = <TupleMerge as Engine>::Scratch;

/// So few regions need no structure: they are one block. Measured, a batch takes as long either way and one key a fifth
/// less; with two blocks a batch takes a third longer than with `bit_select`.
const FEW: usize = 8;

/// An engine that can be a base.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`linear`](mod@crate::linear)
    Linear,
    /// [`bit_select`](mod@crate::bit_select)
    BitSelect,
    /// TupleMerge of [`tuple`](mod@crate::tuple)
    TupleMerge,
}

impl Kind {
    /// Every kind, in the order in which they are tried.
    pub const ALL: [Self; 3] = [Self::BitSelect, Self::TupleMerge, Self::Linear];

    /// The name: `linear`, `bit_select`, `tuplemerge`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::BitSelect => "bit_select",
            Self::TupleMerge => "tuplemerge",
        }
    }
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the base.
    Chosen,
    /// It needs so many bytes, or more, and had fewer.
    TooLarge {
        /// Bytes, as far as the build came.
        needed: usize,
        /// What the budget leaves to a base.
        allowed: usize,
    },
    /// Another kind was forced.
    NotAsked,
    /// One before it was taken.
    NotNeeded,
    /// So few regions need no structure.
    FewRegions,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen => f.write_str("chosen"),
            Self::TooLarge { needed, allowed } => {
                write!(f, "refused: it needs {needed} bytes or more, the budget leaves {allowed}")
            }
            Self::NotAsked => f.write_str("not tried: another was asked for"),
            Self::NotNeeded => f.write_str("not tried: an earlier one fits"),
            Self::FewRegions => write!(f, "not tried: {FEW} regions and fewer need no structure"),
        }
    }
}

/// What each kind of [`Kind::ALL`] came to.
pub(super) type Outcomes = [Outcome; 3];

/// The base of an engine.
#[derive(Debug)]
pub(super) enum Chosen {
    Linear(Linear),
    BitSelect(BitSelect),
    TupleMerge(Box<TupleMerge>),
}

macro_rules! each {
    ($chosen:expr, $base:ident, $scratch:ident => $do:expr) => {
        match $chosen {
            Chosen::Linear($base) => {
                let $scratch = &mut ();
                $do
            }
            Chosen::BitSelect($base) => {
                let $scratch = &mut ();
                $do
            }
            Chosen::TupleMerge($base) => $do,
        }
    };
}

impl Chosen {
    pub(super) fn kind(&self) -> Kind {
        match self {
            Self::Linear(_) => Kind::Linear,
            Self::BitSelect(_) => Kind::BitSelect,
            Self::TupleMerge(_) => Kind::TupleMerge,
        }
    }

    /// Improves every key over all rules.
    #[inline]
    pub(super) fn improve(&self, scratch: &mut Scratch, keys: Keys<'_>, best: &mut [Option<Match>]) {
        each!(self, base, scratch => base.improve(scratch, keys, best));
    }

    /// Improves every key over the rules that are not marked.
    pub(super) fn improve_alive(&self, scratch: &mut Scratch, keys: Keys<'_>, dead: &Dead, best: &mut [Option<Match>]) {
        each!(self, base, scratch => base.improve_alive(scratch, keys, dead, best));
    }

    pub(super) fn stats(&self) -> Stats {
        let mut stats = match self {
            Self::Linear(base) => Engine::stats(base),
            Self::BitSelect(base) => Engine::stats(base),
            Self::TupleMerge(base) => Engine::stats(&**base),
        };
        if let Self::TupleMerge(base) = self {
            stats.bytes.push(("base", size_of_val(&**base)));
        }
        stats
    }

    pub(super) fn places(&self) -> usize {
        match self {
            Self::Linear(base) => base.places(),
            Self::BitSelect(base) => base.places(),
            Self::TupleMerge(base) => base.places(),
        }
    }

    pub(super) fn places_of(&self, rule: Match) -> Range<usize> {
        match self {
            Self::Linear(base) => base.places_of(rule),
            Self::BitSelect(base) => base.places_of(rule),
            Self::TupleMerge(base) => base.places_of(rule),
        }
    }
}

/// Builds the base of a rule set within so many bytes.
///
/// # Errors
/// When none fits, or the one that is forced does not: what the last one said.
pub(super) fn choose(set: &Lowered, config: &Config, run_bytes: usize) -> Result<(Chosen, Outcomes), BuildError> {
    let few = set.regions().len() <= FEW;
    let mut outcomes = [Outcome::NotNeeded; 3];
    let mut refusal = None;
    for (kind, outcome) in Kind::ALL.into_iter().zip(&mut outcomes) {
        match config.kind {
            Some(forced) if forced != kind => *outcome = Outcome::NotAsked,
            None if few && kind != Kind::Linear => *outcome = Outcome::FewRegions,
            _ => {}
        }
    }
    for (at, kind) in Kind::ALL.into_iter().enumerate() {
        if outcomes[at] != Outcome::NotNeeded {
            continue;
        }
        match build(kind, set, config, run_bytes) {
            Ok(base) => {
                outcomes[at] = Outcome::Chosen;
                return Ok((base, outcomes));
            }
            Err(error) => {
                let Some((needed, allowed)) = error.bytes_needed() else { return Err(error) };
                outcomes[at] = Outcome::TooLarge { needed, allowed };
                refusal = Some(error);
            }
        }
    }
    // Every list of kinds to try has at least one.
    Err(refusal.unwrap_or_else(|| BuildError::bytes(0, run_bytes)))
}

fn build(kind: Kind, set: &Lowered, config: &Config, run_bytes: usize) -> Result<Chosen, BuildError> {
    let (budget, simd) = (Budget { run_bytes }, config.simd);
    Ok(match kind {
        Kind::Linear => Chosen::Linear(Linear::build(set, &linear::Config { budget, simd })?),
        Kind::BitSelect => {
            let config = bit_select::Config { budget, simd, ..Default::default() };
            Chosen::BitSelect(BitSelect::build(set, &config)?)
        }
        Kind::TupleMerge => {
            let budget = Budget { run_bytes: run_bytes.saturating_sub(size_of::<TupleMerge>()) };
            let config = tuple::Config { budget, simd, seed: config.seed, ..Default::default() };
            Chosen::TupleMerge(Box::new(TupleMerge::build(set, &config)?))
        }
    })
}
