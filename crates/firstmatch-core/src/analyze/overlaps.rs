//! Pairs of rules whose order matters: the earlier one takes packets that the later one would decide otherwise.

use std::collections::BTreeMap;

use super::analysis::Analysis;
use super::cover::Cover;
use super::findings::{Finding, Kind};
use super::piece::{Piece, and};
use crate::rule::{FieldValues, RuleId};

/// Rule that takes packets from a later one of another verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverlapPair {
    /// Rule that decides the packets.
    pub earlier: RuleId,
    /// Rule that would decide them without it.
    pub later: RuleId,
    /// One of the packets.
    pub packet: FieldValues,
}

/// Pairs of rules that overlap with different verdicts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overlapping {
    /// Pairs, in the order of the later rules, then of the earlier ones.
    pub pairs: Vec<OverlapPair>,
    /// Whether there are more pairs than were asked for.
    pub has_more: bool,
    /// Number of questions that a cap ended, or about rules [beyond the limits](Analysis::beyond).
    pub undecided: usize,
}

impl Overlapping {
    /// Returns one finding per later rule, with all its earlier rules.
    pub fn findings(&self) -> Vec<Finding> {
        let one = |pairs: &[OverlapPair]| Finding {
            kind: Kind::Overlap,
            rule: pairs[0].later,
            by: pairs.iter().map(|pair| pair.earlier).collect(),
            packet: Some(pairs[0].packet.clone()),
            must_stay: false,
        };
        self.pairs.chunk_by(|one, other| one.later == other.later).map(one).collect()
    }
}

impl Analysis<'_> {
    /// Finds pairs of rules with different verdicts in which the earlier rule takes packets from the later one.
    ///
    /// Without the earlier rule, some packet would get the verdict of the later one. Firewalls have millions of such
    /// pairs, because exceptions stand before the rules that they restrict; at most `most` are returned.
    ///
    /// ```
    /// use firstmatch_core::analyze::{Analysis, Config};
    ///
    /// let text = "deny tcp dport 23\npermit src 10.0.0.0/8\n";
    /// let file = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?;
    /// let found = Analysis::new(&file.rules, &file.policy, &Config::default())?.overlaps(1000);
    /// assert_eq!((found.pairs.len(), found.pairs[0].packet.values[3]), (1, Some(23)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overlaps(mut self, most: usize) -> Overlapping {
        let mut found = Overlapping::default();
        for later in 0..self.rules.len() as u32 {
            // Packets by the rank of the earlier rule.
            let mut pairs: BTreeMap<u32, FieldValues> = BTreeMap::new();
            found.undecided += usize::from(self.is_beyond(later));
            for list in 0..self.lists.len() {
                for of in self.boxes(list, later) {
                    let earlier = self.lists[list].beyond_at(&of, self.among(0, later));
                    found.undecided += earlier.filter(|&other| self.verdict(other) != self.verdict(later)).count();
                    let Some(ranks) = self.before(list, &of, later) else {
                        found.undecided += 1;
                        continue;
                    };
                    for earlier in ranks {
                        if pairs.contains_key(&earlier) {
                            continue;
                        }
                        match self.taken(list, &of, [earlier, later]) {
                            Cover::Covered => {}
                            Cover::Undecided => found.undecided += 1,
                            Cover::Free(mut key) => {
                                self.lists[list].possible.settle(&mut key, &of);
                                pairs.insert(earlier, self.values(list, &key));
                            }
                        }
                    }
                }
            }
            for (rank, packet) in pairs {
                if found.pairs.len() == most {
                    return Overlapping { has_more: true, ..found };
                }
                let [earlier, later] = [rank, later].map(|rank| self.rules[rank as usize].id);
                found.pairs.push(OverlapPair { earlier, later, packet });
            }
        }
        found
    }

    /// Returns the rules of another verdict before a rule that overlap a box of it; `None` if there are too many.
    fn before(&self, list: usize, of: &[Piece], rank: u32) -> Option<Vec<u32>> {
        let (tree, most) = (&self.lists[list].tree, self.limits.pairs);
        let mut ranks = Vec::new();
        tree.overlaps(of, self.among(0, rank), |region| {
            ranks.push(tree.rank(region));
            ranks.len() > most
        });
        if ranks.len() > most {
            return None;
        }
        ranks.sort_unstable();
        ranks.dedup();
        ranks.retain(|&other| self.verdict(other) != self.verdict(rank));
        Some(ranks)
    }

    /// Returns a packet of a box of the later rule that this rule would decide without the earlier one.
    fn taken(&mut self, list: usize, of: &[Piece], [earlier, later]: [u32; 2]) -> Cover {
        let mut answer = Cover::Covered;
        for shared in self.boxes(list, earlier).iter().filter_map(|region| and(of, region)) {
            match self.cover(list, &shared, later, Some(earlier)) {
                Cover::Covered => {}
                Cover::Undecided => answer = Cover::Undecided,
                free => return free,
            }
        }
        answer
    }
}
