//! Packets that one of two rule sets classifies while they are unknown to the other.

use super::analysis::Analysis;
use super::cover::Cover;
use super::hidden::{Hiding, UPPER, absent};
use super::piece::{Piece, and};
use crate::policy::{Fragments, Verdict};
use crate::rule::FieldValues;

/// Answer of a search for packets that a set classifies and gives another verdict than some verdict.
#[derive(Clone, Debug)]
pub(super) enum Classified {
    /// Rule by its rank, if one decides, and one of the packets. Fields that it hides are absent.
    Found {
        rank: Option<u32>,
        packet: FieldValues,
    },
    None,
    Undecided,
}

impl Analysis<'_> {
    /// Returns the sorts of packets of a list that are classified here but unknown to another set.
    ///
    /// `needed` are the fields that are needed here. `others` are those that the other set needs, which treats fragments
    /// as `fragments` says.
    pub(super) fn classified_alone(
        &self,
        list: usize,
        needed: &[bool],
        (others, fragments): (&[bool], Fragments),
    ) -> Vec<Hiding> {
        let mut all = super::hidden::hidings(&self.lists[list].schema, fragments);
        all.retain_mut(|hiding| {
            let hides = |needed: &[bool]| hiding.fields.iter().any(|&field| needed[field]);
            let is_unknown = hides(others);
            // Where later fragments are classified, they lack what others say that they hide.
            if hiding.is_later && self.fragments == Fragments::Layer3 {
                let schema = &self.lists[list].schema;
                hiding.is_seen = true;
                hiding.confined.extend(UPPER.iter().filter_map(|&source| absent(schema, source)));
                return is_unknown;
            }
            is_unknown && !hides(needed)
        });
        all
    }

    /// Searches for a packet of a sort whose verdict is not `verdict`; rules that are removed do not count.
    ///
    /// Keys are those of packets that show the fields `needed`.
    pub(super) fn other_verdict(
        &mut self,
        list: usize,
        hiding: &Hiding,
        needed: &[bool],
        verdict: Verdict,
    ) -> Classified {
        let words = self.lists[list].schema.words();
        let mut all: Vec<Piece> = words.iter().map(|word| Piece::interval(0, word.max)).collect();
        for &(word, piece) in &hiding.confined {
            let Some(both) = all[word].and(piece) else { return Classified::None };
            all[word] = both;
        }
        let possible = self.possible(list, self.fragments, needed, hiding.has_more_routing);
        let own = std::mem::replace(&mut self.lists[list].possible, possible);
        let answer = self.find_other(list, hiding, &all, verdict);
        self.lists[list].possible = own;
        answer
    }

    /// Searches for a possible packet of a box whose verdict is not `verdict`.
    fn find_other(&mut self, list: usize, hiding: &Hiding, all: &[Piece], verdict: Verdict) -> Classified {
        let count = self.rules.len() as u32;
        let mut is_undecided = false;
        for rank in 0..=count {
            let own = if rank < count { self.verdict(rank) } else { self.default };
            if own == verdict || rank < count && self.removed[rank as usize] {
                continue;
            }
            is_undecided |= self.lists[list].beyond.iter().any(|of| of.rank == rank && of.overlaps(all));
            let boxes = if rank < count { self.boxes(list, rank) } else { vec![all.to_vec()] };
            for of in boxes.iter().filter_map(|of| and(of, all)) {
                match self.cover(list, &of, rank, None) {
                    Cover::Covered => {}
                    Cover::Undecided => is_undecided = true,
                    Cover::Free(mut key) => {
                        self.lists[list].possible.settle(&mut key, &of);
                        let mut packet = self.values(list, &key);
                        if !hiding.is_seen {
                            hiding.fields.iter().for_each(|&field| packet.values[field] = None);
                        }
                        return Classified::Found { rank: (rank < count).then_some(rank), packet };
                    }
                }
            }
        }
        if is_undecided { Classified::Undecided } else { Classified::None }
    }
}
