//! Rules whose regions exceed the limits even over classes: no answer is given about them.
//!
//! Answers about other rules stay exact, because a packet or a box can be compared with such a rule field by field. A
//! box that earlier rules cover without it is covered. A packet that no other rule matches counts only if it matches
//! none of these either.

use std::ops::Range;

use super::classes::{Classes, SetBoxes};
use super::piece::{Piece, contains, overlap};
use crate::rule::{ExpansionLimits, Match, RuleProducts};
use crate::schema::Schema;

/// Rule beyond the limits, as products of boxes of each field.
#[derive(Clone, Debug)]
pub(super) struct Beyond {
    pub(super) rank: u32,
    /// For each product and each field, its words and the boxes of the set.
    products: Vec<Vec<(Range<usize>, SetBoxes)>>,
}

impl Beyond {
    /// Whether a key lies in the rule.
    pub(super) fn contains(&self, key: &[u32]) -> bool {
        self.any(|words, part| contains(part, &key[words]))
    }

    /// Whether a box shares a key with the rule, for certain unless both have masks.
    pub(super) fn overlaps(&self, of: &[Piece]) -> bool {
        self.any(|words, part| overlap(part, &of[words]))
    }

    fn any(&self, is_it: impl Fn(Range<usize>, &[Piece]) -> bool) -> bool {
        let field = |(words, boxes): &(Range<usize>, SetBoxes)| boxes.iter().any(|part| is_it(words.clone(), part));
        self.products.iter().any(|product| product.iter().all(field))
    }

    /// Returns the boxes of every field of every product.
    pub(super) fn parts(&self) -> impl Iterator<Item = (Range<usize>, &[Piece])> {
        let fields = self.products.iter().flatten();
        fields.flat_map(|(words, boxes)| boxes.iter().map(|part| (words.clone(), &part[..])))
    }
}

/// Regions of rules over classes, and the rules that have too many.
pub(super) struct Expanded {
    /// Flat pieces of the regions, in order of rank.
    pub(super) pieces: Vec<Piece>,
    /// Rank of each region's rule.
    pub(super) ranks: Vec<u32>,
    pub(super) beyond: Vec<Beyond>,
}

/// Expands products over classes within the limits; `rank` returns the rank of a rule.
pub(super) fn expand(
    schema: &Schema,
    classes: &Classes,
    products: &RuleProducts,
    limits: &ExpansionLimits,
    rank: impl Fn(Match) -> u32,
) -> Expanded {
    let words = schema.words().len();
    let boxes = classes.boxes(products);
    let most = limits.most_per_set().min(limits.region_bytes / (words * size_of::<Piece>()));
    let mut all = Expanded { pieces: Vec::new(), ranks: Vec::new(), beyond: Vec::new() };
    let mut start = 0;
    for rules in products.rules().chunk_by(|one, other| one == other) {
        let range = start..start + rules.len();
        start = range.end;
        let of = |product: usize| products.of(product).zip(&boxes).map(|((_, set), boxes)| &boxes[set as usize]);
        let count = |product: usize| of(product).fold(1usize, |count, boxes| count.saturating_mul(boxes.len()));
        let regions = range.clone().fold(0usize, |regions, product| regions.saturating_add(count(product)));
        let rank = rank(rules[0]);
        if regions > limits.most_per_rule() || regions > most - all.ranks.len() {
            let fields = |product| (0..).map(|field| schema.words_of(field)).zip(of(product).cloned()).collect();
            all.beyond.push(Beyond { rank, products: range.map(fields).collect() });
            continue;
        }
        for product in range {
            cross(&of(product).map(Vec::as_slice).collect::<Vec<_>>(), &mut Vec::with_capacity(words), &mut all.pieces);
        }
        all.ranks.resize(all.ranks.len() + regions, rank);
    }
    all
}

/// Appends each choice of one box from every list, as one region behind `before`.
fn cross(lists: &[&[Vec<Piece>]], before: &mut Vec<Piece>, out: &mut Vec<Piece>) {
    let Some((first, rest)) = lists.split_first() else { return out.extend_from_slice(before) };
    for part in *first {
        let start = before.len();
        before.extend_from_slice(part);
        cross(rest, before, out);
        before.truncate(start);
    }
}
