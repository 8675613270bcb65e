//! Reference engine with one thing wrong. A test that lets one of these pass proves nothing.

use firstmatch_core::Match;
use firstmatch_core::rule::{Lowered, Region};

use crate::engines::Reference;

/// Mistake of an engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// `lo <= key` has become `lo < key` on one word.
    LowEnd { word: usize },
    /// `key <= hi` has become `key < hi` on one word.
    HighEnd { word: usize },
    /// One word's interval (and mask) is not looked at.
    WordIgnored { word: usize },
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
        let key_words = region.lo.len();
        let interval = |word: usize| match self {
            Self::LowEnd { word: l } if l == word => region.lo[word] < key[word] && key[word] <= region.hi[word],
            Self::HighEnd { word: l } if l == word => region.lo[word] <= key[word] && key[word] < region.hi[word],
            Self::WordIgnored { word: l } if l == word => true,
            _ => region.lo[word] <= key[word] && key[word] <= region.hi[word],
        };
        let mask = |word: usize| match (self, region.ternary) {
            (Self::WordIgnored { word: l }, _) if l == word => true,
            (Self::MasksIgnored, _) | (_, None) => true,
            (_, Some((value, mask))) => key[word] & mask[word] == value[word],
        };
        self != Self::RegionDropped { index } && (0..key_words).all(|word| interval(word) && mask(word))
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
pub fn word_faults(key_words: usize) -> Vec<Fault> {
    let of_word = |word| [Fault::LowEnd { word }, Fault::HighEnd { word }, Fault::WordIgnored { word }];
    (0..key_words).flat_map(of_word).chain([Fault::LastWins]).collect()
}
