//! Packets that one of two rule sets classifies while they are unknown to the other.

use super::analysis::{Analysis, cover};
use super::cover::Cover;
use super::hidden::{Hiding, UPPER, absent};
use super::piece::{Piece, and};
use super::possible::Possible;
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
    /// Returns the sorts of packets of a list that are unknown to `unknown` but classified here.
    ///
    /// `needed` and `unknown` are the fields that each side needs, and the fragments that the other side classifies.
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
        let possible = &self.possible(list, self.fragments, needed, hiding.has_more_routing);
        let words = self.lists[list].schema.words();
        let mut all: Vec<Piece> = words.iter().map(|word| Piece::interval(0, word.max)).collect();
        for &(word, piece) in &hiding.confined {
            let Some(both) = all[word].and(piece) else { return Classified::None };
            all[word] = both;
        }
        let count = self.rules.len() as u32;
        let mut is_undecided = false;
        for rank in 0..=count {
            let own = if rank < count { self.verdict(rank) } else { self.default };
            if own == verdict || rank < count && self.removed[rank as usize] {
                continue;
            }
            let boxes = if rank < count { self.boxes(list, rank) } else { vec![all.clone()] };
            for of in boxes.iter().filter_map(|of| and(of, &all)) {
                match self.free_of(list, &of, rank, possible) {
                    Cover::Covered => {}
                    Cover::Undecided => is_undecided = true,
                    Cover::Free(mut key) => {
                        possible.settle(&mut key, &of);
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

    /// Returns whether a rule before rank `below` matches every packet of a box, with the keys of `possible`.
    fn free_of(&mut self, list: usize, of: &[Piece], below: u32, possible: &Possible) -> Cover {
        let mut points = self.points(list, of);
        points.iter_mut().for_each(|point| possible.repair(point, of));
        let mut work = self.work;
        let answer = cover(of, points, possible, &[(&self.lists[list].tree, self.among(0, below))], &mut work);
        self.work = work;
        answer
    }
}
