//! The engines that can be a base, and what became of each.

use std::fmt;
use std::str::FromStr;

use super::limits::Cap;
use super::model::Prediction;
use super::traffic::Traffic;

/// So few regions need no structure: they are one block. Measured, a batch takes as long either way and one key a fifth
/// less.
pub(super) const FEW: usize = 8;
/// Up to so many regions `bit_vector` is: with more, trees are faster and far smaller.
pub(super) const VECTORS: usize = 2048;
/// An engine that can be a base. As text, its name: `bit_select`, `bit_vector`, `tuplemerge`, `linear`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`linear`](mod@crate::linear)
    Linear,
    /// [`bit_select`](mod@crate::bit_select)
    BitSelect,
    /// [`bit_vector`](mod@crate::bit_vector)
    BitVector,
    /// TupleMerge of [`tuple`](mod@crate::tuple), online: measured, the offline algorithm is on no set the fastest.
    TupleMerge,
}

impl Kind {
    /// Every kind, in the order in which they are tried.
    pub const ALL: [Self; 4] = [Self::BitSelect, Self::BitVector, Self::TupleMerge, Self::Linear];

    /// The name: `linear`, `bit_select`, `bit_vector`, `tuplemerge`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Linear => "linear",
            Self::BitSelect => "bit_select",
            Self::BitVector => "bit_vector",
            Self::TupleMerge => "tuplemerge",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text is no kind's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownKind(String);

impl fmt::Display for UnknownKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no base `{}`; expected one of {}", self.0, Kind::ALL.map(Kind::name).join(", "))
    }
}

impl std::error::Error for UnknownKind {}

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(text: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == text).ok_or_else(|| UnknownKind(text.to_owned()))
    }
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the base.
    Chosen,
    /// It was timed, and its worst ratio to the fastest is above another's, or hardly below and it comes later.
    Slower,
    /// It was not timed: its worst ratio is predicted to be [far above](super::Config::margin) another's.
    Predicted,
    /// It was not compared: a lookup can be made to visit so many regions that [`Config::trial`](super::Config::trial) has
    /// room for fewer than eight.
    Unpredicted,
    /// A cap refused it.
    Refused {
        /// Which.
        cap: Cap,
        /// What it needs, or more.
        needed: usize,
        /// What it may take.
        allowed: usize,
    },
    /// Its worst case is over a default limit that another keeps, or at least twice as bad as another's.
    Deep {
        /// Which.
        cap: Cap,
        /// Number of lines that a lookup can be made to touch, or of tests.
        needed: usize,
        /// The default.
        allowed: usize,
    },
    /// Its worst case has a hundred times the tests of another's, and it is not twice as fast on all traffic.
    HardlyFaster {
        /// Tests of a lookup in the worst case.
        tests: usize,
    },
    /// It takes more than a mebibyte and four times the memory of another, which takes at most twice as long on any traffic.
    Heavy {
        /// Its bytes.
        bytes: usize,
    },
    /// It was not built: one of 1,024 of the regions would be slower than another candidate is with all.
    Sampled {
        /// Picoseconds a packet that the one of 1,024 regions is predicted to take.
        picoseconds: u64,
    },
    /// It was left unfinished: another fits, and building it takes far longer than for most rules.
    LongBuild {
        /// [Visits of regions](super::Limits::build_visits) made so far.
        visits: usize,
    },
    /// Another kind was forced.
    NotAsked,
    /// One before it was taken.
    NotNeeded,
    /// So few regions need no structure.
    FewRegions,
    /// Its vectors are not for so many regions.
    ManyVectors,
    /// Of 1,024 of the regions it would keep so many in one bucket: it takes long to build.
    LongBuckets {
        /// Regions.
        longest: usize,
    },
    /// The choice before this decided: its kind was kept, or, since rules change, [`Kind::BitSelect`] was taken, which takes
    /// changes in place, where that takes at most twice as long on every sort of traffic.
    Kept,
}

impl Outcome {
    /// Outcome of a candidate that was not timed and is predicted to take these nanoseconds.
    pub(super) fn left(nanos: &[f64]) -> Self {
        if nanos.iter().all(|nanos| nanos.is_finite()) { Self::Predicted } else { Self::Unpredicted }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen => f.write_str("chosen"),
            Self::Slower => f.write_str("not taken: slower, or hardly faster than one before it"),
            Self::Predicted => f.write_str("not timed: predicted to be slower"),
            Self::Unpredicted => f.write_str("not compared: a lookup may visit too many regions for a trial"),
            Self::Refused { cap, needed, allowed } => write!(f, "refused: {}", cap.says(*needed, *allowed)),
            Self::Deep { cap, needed, allowed } => write!(f, "not taken by default: {}", cap.says(*needed, *allowed)),
            Self::HardlyFaster { tests } => {
                write!(f, "not taken: up to {tests} tests a packet, a hundred times another's, and not twice as fast")
            }
            Self::Heavy { bytes } => {
                write!(f, "not taken: {bytes} bytes, four times another's, and not twice as fast")
            }
            Self::Sampled { picoseconds } => {
                write!(
                    f,
                    "not built: of 1024 of the regions alone it is predicted to take {:.1} ns",
                    *picoseconds as f64 / 1e3
                )
            }
            Self::LongBuild { visits } => write!(f, "not taken: unfinished after {visits} region visits"),
            Self::NotAsked => f.write_str("not tried: another was asked for"),
            Self::NotNeeded => f.write_str("not tried: an earlier one fits"),
            Self::FewRegions => write!(f, "not tried: {FEW} regions and fewer need no structure"),
            Self::ManyVectors => write!(f, "not tried: it is for {VECTORS} regions and fewer"),
            Self::LongBuckets { longest } => {
                write!(f, "not tried: of 1024 of the regions {longest} would share a bucket")
            }
            Self::Kept => f.write_str("not tried: the choice before decided"),
        }
    }
}

/// Time of a lookup on one sort of traffic.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Lookups {
    /// The prediction, where candidates were compared.
    pub predicted: Option<Prediction>,
    /// Nanoseconds a packet, where it was timed: in batches of 256, the least of nine turns.
    pub nanos: Option<f64>,
}

/// A candidate, and what became of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// What it is.
    pub kind: Kind,
    /// What became of it.
    pub outcome: Outcome,
    /// Times of lookups on each sort of traffic, in the order of [`Traffic::ALL`].
    pub on: [Lookups; Traffic::ALL.len()],
    /// The worst ratio of what it takes to what the fastest candidate takes on the same sort of traffic, measured or
    /// else predicted, where it was in the last comparison. The candidate of the least is taken.
    pub ratio: Option<f64>,
    /// Bytes that it takes, and the most cache lines and regions of a lookup, where it was built and kept the limits.
    pub takes: Option<[usize; 3]>,
    /// [Visits of regions](super::Limits::build_visits) that its build has made, where there was one.
    pub visits: Option<usize>,
}

/// Shows what is behind the name.
impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.outcome.fmt(f)?;
        if let Some(ratio) = self.ratio {
            write!(f, "; at most {ratio:.2} times the fastest")?;
        }
        if let Some([bytes, lines, tests]) = self.takes {
            write!(f, "; {bytes} bytes, at worst {lines} lines and {tests} tests")?;
        }
        Ok(())
    }
}
