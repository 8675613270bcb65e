//! Reference engine with one thing wrong. A test that lets one of these pass proves nothing.

use firstmatch_core::Match;
use firstmatch_core::rule::{Lowered, Region};

use crate::engines::Reference;

/// Mistake of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `lo <= key` has become `lo < key` on one word.
    LowEnd { lane: usize },
    /// `key <= hi` has become `key < hi` on one word.
    HighEnd { lane: usize },
    /// One word's interval (and mask) is not looked at.
    LaneIgnored { lane: usize },
    /// The masks of ternary words are not looked at.
    MasksIgnored,
    /// One region is missing.
    RegionDropped { index: usize },
    /// The comparison of priorities is turned round.
    LastWins,
    /// The wrong one of these two rules wins where both match.
    TieTurned { first: Match, second: Match },
}

impl Fault {
    pub fn contains(self, index: usize, region: &Region<'_>, key: &[u32]) -> bool {
        let lanes = region.lo.len();
        let interval = |lane: usize| match self {
            Self::LowEnd { lane: l } if l == lane => region.lo[lane] < key[lane] && key[lane] <= region.hi[lane],
            Self::HighEnd { lane: l } if l == lane => region.lo[lane] <= key[lane] && key[lane] < region.hi[lane],
            Self::LaneIgnored { lane: l } if l == lane => true,
            _ => region.lo[lane] <= key[lane] && key[lane] <= region.hi[lane],
        };
        let mask = |lane: usize| match (self, region.ternary) {
            (Self::LaneIgnored { lane: l }, _) if l == lane => true,
            (Self::MasksIgnored, _) | (_, None) => true,
            (_, Some((value, mask))) => key[lane] & mask[lane] == value[lane],
        };
        self != Self::RegionDropped { index } && (0..lanes).all(|lane| interval(lane) && mask(lane))
    }

    pub fn choose(self, mut inside: impl Iterator<Item = Match>) -> Option<Match> {
        match self {
            Self::LastWins => inside.last(),
            Self::TieTurned { first, second } => {
                let found = inside.next()?;
                Some(if found == first { inside.find(|&m| m == second).unwrap_or(found) } else { found })
            }
            _ => inside.next(),
        }
    }

    /// Returns the reference engine with this mistake in it.
    pub fn engine(self, lowered: &Lowered) -> Reference {
        Reference { lowered: lowered.clone(), fault: Some(self) }
    }
}

/// Returns one fault of each kind for each word, and `LastWins`.
///
/// Faults that depend on the rules are left out.
pub fn lane_faults(lanes: usize) -> Vec<Fault> {
    let of_lane = |lane| [Fault::LowEnd { lane }, Fault::HighEnd { lane }, Fault::LaneIgnored { lane }];
    (0..lanes).flat_map(of_lane).chain([Fault::LastWins]).collect()
}
