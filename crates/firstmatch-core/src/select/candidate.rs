//! Kinds of engines that can be a base, and the outcome of each candidate.

use std::fmt;

use super::traffic::Traffic;
use crate::engines::registry::Kind;
use crate::error::Cap;

/// Number of regions up to which no structure is needed, because one block holds them all.
///
/// A batch takes as long with a structure as without, and a single key longer.
pub(crate) const FEW: usize = 8;
/// Outcome of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is the base.
    Chosen,
    /// It was timed, and another is faster, or about as fast and earlier in the order.
    ///
    /// Its worst ratio to the fastest is above the other's, or hardly below.
    Slower,
    /// It was not timed, because a lookup may visit too many regions in the worst case.
    ///
    /// Its share of [`Config::trial`](crate::live::Config::trial) has no room for four lookups at a time.
    Untimed,
    /// A cap refused it.
    Refused {
        /// Cap that refused it.
        cap: Cap,
        /// Lower bound on the amount that it needs.
        needed: usize,
        /// Amount that the cap allows.
        allowed: usize,
    },
    /// Its worst case exceeds a default limit that another candidate keeps, or is twice as bad as another's.
    Deep {
        /// Default limit that it exceeds.
        cap: Cap,
        /// Number of lines that a lookup may touch, or of tests that it may make.
        needed: usize,
        /// Default of that limit.
        allowed: usize,
    },
    /// It has a hundred times another's worst-case tests, and is not twice as fast everywhere.
    HardlyFaster {
        /// Tests of a lookup in the worst case.
        tests: usize,
    },
    /// It takes too much memory for its speed.
    ///
    /// It has more than 1 MiB and four times the bytes of another, which takes at most twice as long on any traffic.
    Heavy {
        /// Bytes of the candidate.
        bytes: usize,
    },
    /// Its build was abandoned, because another fits and this one takes far longer than for most rules.
    LongBuild {
        /// [Region visits](super::Limits::build_visits) made so far.
        visits: usize,
    },
    /// It was not built, because it is for rules that make lookups of every other candidate long.
    ///
    /// For example, `decomposition` is not worth its build if lookups of `bit_select` touch a dozen lines.
    GoodWithout {
        /// Mean number of cache lines that a lookup of another candidate touches, on its least favourable traffic.
        lines: usize,
        /// Number of lines from which this candidate is built.
        worth: usize,
    },
    /// It was not built, because it is for rules that every other candidate takes much memory for.
    ///
    /// For example, `set_pairs` is not worth its build if a tree of 6 MB serves the rules.
    SmallWithout {
        /// Bytes of another candidate.
        bytes: usize,
        /// Number of bytes from which this candidate is built.
        worth: usize,
    },
    /// Another kind was forced.
    NotAsked,
    /// An earlier kind was chosen.
    NotNeeded,
    /// It was not tried, because a few regions need no structure.
    FewRegions,
    /// It was not built, because an engine of this kind would be too large to be of use.
    ///
    /// For example, `bit_vector` is for rules whose vectors take up to 1 MiB.
    Outgrown {
        /// Lower bound on the bytes that the limit counts.
        needed: usize,
        /// Bytes that the kind allows itself.
        allowed: usize,
    },
    /// It was not built, because it is built from regions, and the rules have far more of them than products.
    ///
    /// For example, a rule of 200 sources, 100 destinations and 20 ports is 400,000 regions.
    TooManyRegions {
        /// Number of regions of the rules.
        needed: usize,
        /// Number up to which regions are made if an engine of products fits.
        allowed: usize,
    },
    /// The choice before this one decided.
    ///
    /// Its kind was kept. Or the kind that changes in place was chosen, because rules change and it takes at most twice
    /// as long on every sort of traffic.
    Kept,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chosen => f.write_str("chosen"),
            Self::Slower => f.write_str("not taken: slower, or hardly faster than one before it"),
            Self::Untimed => f.write_str("not timed: a lookup may visit too many regions for a trial"),
            Self::Refused { cap, needed, allowed } => write!(f, "refused: {}", cap.says(*needed, *allowed)),
            Self::Deep { cap, needed, allowed } => write!(f, "not taken by default: {}", cap.says(*needed, *allowed)),
            Self::HardlyFaster { tests } => {
                write!(f, "not taken: up to {tests} tests a packet, a hundred times another's, and not twice as fast")
            }
            Self::Heavy { bytes } => {
                write!(f, "not taken: {bytes} bytes, four times another's, and not twice as fast")
            }
            Self::LongBuild { visits } => write!(f, "not taken: unfinished after {visits} region visits"),
            Self::GoodWithout { lines, worth } => {
                write!(f, "not built: another touches {lines} lines a packet, and it is of use from {worth}")
            }
            Self::SmallWithout { bytes, worth } => {
                write!(f, "not built: another takes {bytes} bytes, and it is of use from {worth}")
            }
            Self::NotAsked => f.write_str("not tried: another was asked for"),
            Self::NotNeeded => f.write_str("not tried: an earlier one fits"),
            Self::FewRegions => write!(f, "not tried: {FEW} regions and fewer need no structure"),
            Self::Outgrown { needed, allowed } => {
                write!(f, "not built: it would hold {needed} bytes or more, and is of use up to {allowed}")
            }
            Self::TooManyRegions { needed, allowed } => {
                write!(f, "not built: the rules have {needed} regions, and it is of use up to {allowed}")
            }
            Self::Kept => f.write_str("not tried: the choice before decided"),
        }
    }
}

/// Candidate for the base, with its outcome.
///
/// ```
/// use firstmatch_core::live::{Config, Engine};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// for candidate in Engine::build(&rules, &Config::default())?.explain().candidates {
///     println!("{}: {candidate}", candidate.kind.name());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Kind of engine.
    pub kind: Kind,
    /// Outcome of the candidate.
    pub outcome: Outcome,
    /// Nanoseconds per packet on each sort of traffic, in the order of [`Traffic::ALL`], if it was timed.
    ///
    /// Packets come in batches of 256, or one by one with [`Calls::Packets`](super::Calls::Packets). The least of nine
    /// turns counts.
    pub nanos: [Option<f64>; Traffic::ALL.len()],
    /// Worst ratio of its time to that of the fastest candidate, over all sorts of traffic, if it was timed.
    pub ratio: Option<f64>,
    /// Bytes, and the maximum cache lines and regions of a lookup, if it was built and kept the limits.
    pub takes: Option<[usize; 3]>,
    /// [Region visits](super::Limits::build_visits) of its build, if there was one.
    pub visits: Option<usize>,
}

/// Shows everything but the name.
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
