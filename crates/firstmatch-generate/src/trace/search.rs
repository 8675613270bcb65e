//! Search for headers: at random first, then exactly.
//!
//! A rule that a few random headers do not hit is hunted. The hunt keeps the part of the rule that earlier rules may
//! leave free, as disjoint boxes. It tries a point of a box. If an earlier rule matches the point, that rule's region
//! is cut out of the box, which leaves a few smaller boxes. A hunt thus ends with a header, or with no box: then the
//! rule is proved unreachable.
//!
//! For example, a rule for ports 0 to 99 is a box. If a point is taken by an earlier rule for ports 20 to 29, the boxes
//! 0 to 19 and 30 to 99 remain. The number of points tried is bounded.

use firstmatch_core::rule::Region;
use firstmatch_core::{Classifier, KeyBuf, Match, Scratch};

use super::view::{View, Where};
use super::{Coverage, Header};
use crate::error::Error;
use crate::random::Random;

/// Number of headers looked up at once.
const BATCH: usize = 1024;
/// Number of rules hunted at once, few because each may keep some ten boxes per try.
const PACK: usize = 16;

/// State of knowledge about a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    /// Proved never to be the first match.
    Unreachable,
    /// Not known, because it was not searched for.
    Unknown,
    /// Searched for in vain.
    GivenUp,
    /// Hit by a header.
    Hit,
}

/// Header made from a row of key words.
pub(crate) trait Sample: Clone {
    /// Returns a header of no meaning.
    fn blank() -> Self;

    /// Returns the header of a row, with the place of the first rule that matches.
    fn of_row(view: &View, row: &[u32], rule: Option<u32>) -> Self;

    /// Returns the place of the first rule that matches.
    fn matched(&self) -> Option<u32>;
}

/// Search for headers in a view.
#[derive(Debug)]
pub(crate) struct Hunter<'v> {
    pub(crate) view: &'v View,
    fates: Vec<Fate>,
    /// For each target that is hit, a row that hits it.
    witnesses: Vec<u32>,
    key_words: usize,
}

impl<'v> Hunter<'v> {
    pub(crate) fn new(view: &'v View) -> Self {
        let key_words = view.max.len();
        Self { view, fates: vec![Fate::Unknown; view.targets.len()], witnesses: Vec::new(), key_words }
    }

    /// Searches for a header for every target.
    pub(crate) fn witnesses(&mut self, tries: u32, random: &mut Random) {
        self.witnesses = vec![0; self.key_words * self.view.targets.len()];
        let mut lookup = Lookup::new(self.view);
        for at in [Where::Corner, Where::Interior, Where::Corner].into_iter().take(tries as usize) {
            let open: Vec<usize> =
                (0..self.fates.len()).filter(|&target| self.fates[target] == Fate::Unknown).collect();
            for targets in open.chunks(BATCH) {
                lookup.clear();
                for &target in targets {
                    self.view.point(self.any_region(target, random), at, random, lookup.push());
                }
                lookup.run();
                for (row, &target) in targets.iter().enumerate() {
                    if lookup.found(row).is_some_and(|found| found.rule == self.view.targets[target].rule.rule) {
                        self.hit(target, lookup.row(row));
                    }
                }
            }
        }
        let open: Vec<usize> = (0..self.fates.len()).filter(|&target| self.fates[target] == Fate::Unknown).collect();
        for targets in open.chunks(PACK) {
            self.hunt(targets, tries, &mut lookup, random);
        }
    }

    fn hit(&mut self, target: usize, row: &[u32]) {
        self.fates[target] = Fate::Hit;
        self.witnesses[target * self.key_words..][..self.key_words].copy_from_slice(&row[..self.key_words]);
    }

    fn any_region(&self, target: usize, random: &mut Random) -> Region<'v> {
        let regions = &self.view.targets[target].regions;
        self.view.lowered.regions().get(regions.start + random.index(regions.len()))
    }

    fn hunt(&mut self, targets: &[usize], tries: u32, lookup: &mut Lookup<'v>, random: &mut Random) {
        let mut hunts: Vec<(usize, Hunt)> =
            targets.iter().map(|&target| (target, Hunt::of(self.view, target))).collect();
        for round in 0..tries {
            hunts.retain(|(target, hunt)| {
                if hunt.boxes.is_empty() {
                    self.fates[*target] = Fate::Unreachable;
                }
                self.fates[*target] == Fate::Unknown
            });
            if hunts.is_empty() {
                return;
            }
            lookup.clear();
            for (_, hunt) in &hunts {
                hunt.point(self.view, round, random, lookup.push());
            }
            lookup.run();
            for (row, (target, hunt)) in hunts.iter_mut().enumerate() {
                match lookup.found(row) {
                    Some(found) if found.rule == self.view.targets[*target].rule.rule => {
                        self.hit(*target, lookup.row(row));
                    }
                    Some(found) => hunt.cut(self.view, found, lookup.row(row)),
                    None => {}
                }
            }
        }
        for (target, hunt) in hunts {
            if self.fates[target] == Fate::Unknown {
                self.fates[target] = if hunt.boxes.is_empty() { Fate::Unreachable } else { Fate::GivenUp };
            }
        }
    }

    /// Iterates over the targets that headers are drawn from.
    pub(crate) fn drawn_from(&self, coverage: Coverage) -> impl Iterator<Item = u32> {
        let all = coverage == Coverage::Drawn;
        (0..).zip(&self.fates).filter(move |(_, fate)| all || **fate == Fate::Hit).map(|(target, _)| target)
    }

    /// Fills `out` with a header for each pair of an index into it and a target.
    ///
    /// A header is drawn anew if one hits its target; otherwise it is the target's witness. Without a witness it is the
    /// last draw, whatever rule matches it.
    pub(crate) fn headers<T: Sample>(&self, wanted: &[(u32, u32)], random: &mut Random, out: &mut [T]) {
        let mut lookup = Lookup::new(self.view);
        let mut again: Vec<(u32, u32)> = Vec::new();
        for wanted in wanted.chunks(BATCH) {
            again.clear();
            again.extend_from_slice(wanted);
            for last in [false, true] {
                lookup.clear();
                for &(_, target) in &again {
                    let at = if random.coin() { Where::Corner } else { Where::Interior };
                    self.view.point(self.any_region(target as usize, random), at, random, lookup.push());
                }
                lookup.run();
                let mut row = 0;
                again.retain(|&(index, target)| {
                    let (keys, found) = (lookup.row(row), lookup.found(row));
                    row += 1;
                    let goal = self.view.targets[target as usize].rule.rule;
                    let ours = found.is_some_and(|found| found.rule == goal);
                    let place = self.view.place(found);
                    if ours || last && self.witnesses.is_empty() {
                        out[index as usize] = T::of_row(self.view, keys, place);
                    }
                    !ours
                });
            }
            if !self.witnesses.is_empty() {
                for &(index, target) in &again {
                    let row = &self.witnesses[target as usize * self.key_words..][..self.key_words];
                    let place = self.view.place(Some(self.view.targets[target as usize].rule));
                    out[index as usize] = T::of_row(self.view, row, place);
                }
            }
        }
    }

    /// Raises `out`, indexed by a rule's place, to the best fate over all views.
    pub(crate) fn fates(&self, out: &mut [Fate]) {
        for (target, &fate) in self.view.targets.iter().zip(&self.fates) {
            if let Some(place) = self.view.place(Some(target.rule)) {
                let best = &mut out[place as usize];
                *best = fate.max(*best);
            }
        }
    }
}

/// Sets the rule of each header of the view's family.
pub(crate) fn answer(view: &View, headers: &mut [Header]) {
    let mut lookup = Lookup::new(view);
    for headers in headers.chunks_mut(BATCH) {
        lookup.clear();
        for header in headers.iter() {
            // The answer for a row of another family is not read.
            view.row(header, lookup.push());
        }
        lookup.run();
        for (row, header) in headers.iter_mut().enumerate() {
            if Some(header.family) == view.family {
                header.rule = view.place(lookup.found(row));
            }
        }
    }
}

/// Returns `count` headers that no rule matches: half from anywhere, half beside rules.
///
/// If few are found they repeat; if none is found at random, one is hunted.
pub(crate) fn unmatched<T: Sample>(
    hunters: &[Hunter<'_>],
    count: usize,
    tries: u32,
    random: &mut Random,
) -> Result<Vec<T>, Error> {
    let mut out: Vec<T> = Vec::with_capacity(count);
    let patience = 4096 + count.saturating_mul(16);
    let mut tried = 0;
    while out.len() < count && tried < patience && !hunters.is_empty() {
        let view = hunters[random.index(hunters.len())].view;
        let everything = vec![0; view.max.len()];
        let whole = Region { lo: &everything, hi: &view.max, ternary: None };
        let mut lookup = Lookup::new(view);
        for _ in 0..BATCH {
            if view.targets.is_empty() || random.coin() {
                view.point(whole, Where::Interior, random, lookup.push());
            } else {
                let target = &view.targets[random.index(view.targets.len())];
                let region = view.lowered.regions().get(target.regions.start + random.index(target.regions.len()));
                let row = lookup.push();
                view.point(region, Where::Corner, random, row);
                view.beside(region, random, row);
            }
        }
        lookup.run();
        tried += BATCH;
        let free = (0..BATCH).filter(|&row| lookup.found(row).is_none()).take(count - out.len());
        out.extend(free.map(|row| T::of_row(view, lookup.row(row), None)));
    }
    if out.is_empty() && count > 0 {
        out.push(hunt_unmatched(hunters, tries, tried, random)?);
    }
    let found = out.len();
    (found..count).for_each(|at| out.push(out[at % found].clone()));
    Ok(out)
}

fn hunt_unmatched<T: Sample>(
    hunters: &[Hunter<'_>],
    tries: u32,
    tried: usize,
    random: &mut Random,
) -> Result<T, Error> {
    let mut proved = true;
    for hunter in hunters {
        let view = hunter.view;
        let mut hunt = Hunt { boxes: vec![Box { lo: vec![0; view.max.len()], hi: view.max.clone(), masks: None }] };
        let mut lookup = Lookup::new(view);
        for round in 0..tries.saturating_mul(16) {
            if hunt.boxes.is_empty() {
                break;
            }
            lookup.clear();
            hunt.point(view, round, random, lookup.push());
            lookup.run();
            match lookup.found(0) {
                None => return Ok(T::of_row(view, lookup.row(0), None)),
                Some(found) => hunt.cut(view, found, lookup.row(0)),
            }
        }
        proved &= hunt.boxes.is_empty();
    }
    Err(Error::nothing_unmatched(tried + hunters.len() * tries as usize * 16, proved))
}

/// Search for one header.
#[derive(Debug)]
struct Hunt {
    /// Disjoint boxes that may be free; the last is tried next.
    boxes: Vec<Box>,
}

#[derive(Clone, Debug)]
struct Box {
    lo: Vec<u32>,
    hi: Vec<u32>,
    /// Region whose masks a point must pass too, if it has masks.
    ///
    /// The masks may move a point out of the box, but not out of the region.
    masks: Option<usize>,
}

impl Hunt {
    fn of(view: &View, target: usize) -> Self {
        let regions = &view.targets[target].regions;
        let boxes = regions.clone().filter_map(|index| {
            let region = view.lowered.regions().get(index);
            let hi: Vec<u32> = region.hi.iter().zip(&view.max).map(|(hi, max)| *hi.min(max)).collect();
            let some = region.lo.iter().zip(&hi).all(|(lo, hi)| lo <= hi);
            some.then(|| Box { lo: region.lo.to_vec(), hi, masks: region.ternary.map(|_| index) })
        });
        Self { boxes: boxes.collect() }
    }

    /// Draws a point of the box that is tried next.
    fn point(&self, view: &View, round: u32, random: &mut Random, row: &mut [u32]) {
        let Some(last) = self.boxes.last() else { return };
        let ternary = last.masks.and_then(|index| view.lowered.regions().get(index).ternary);
        let at = if round.is_multiple_of(2) { Where::Interior } else { Where::Corner };
        view.point(Region { lo: &last.lo, hi: &last.hi, ternary }, at, random, row);
    }

    /// Cuts the region of the rule `by`, which matches the point `row`, out of the last box.
    ///
    /// A region with masks is no box: it is not cut, and another point is tried.
    fn cut(&mut self, view: &View, by: Match, row: &[u32]) {
        let Some(region) = view.regions_of(by).find(|region| region.contains(row)) else { return };
        if region.ternary.is_some() {
            return;
        }
        let Some(mut rest) = self.boxes.pop() else { return };
        let overlaps =
            (0..rest.lo.len()).all(|word| region.lo[word] <= rest.hi[word] && rest.lo[word] <= region.hi[word]);
        if !overlaps {
            // The masks moved the point out of its box.
            return self.boxes.push(rest);
        }
        let start = self.boxes.len();
        for word in 0..rest.lo.len() {
            if rest.lo[word] < region.lo[word] {
                let mut piece = rest.clone();
                piece.hi[word] = region.lo[word] - 1;
                self.boxes.push(piece);
                rest.lo[word] = region.lo[word];
            }
            if region.hi[word] < rest.hi[word] {
                let mut piece = rest.clone();
                piece.lo[word] = region.hi[word] + 1;
                self.boxes.push(piece);
                rest.hi[word] = region.hi[word];
            }
        }
        // The first pieces are the largest, so they are tried first.
        self.boxes[start..].reverse();
    }
}

/// Batch of rows with their matches.
#[derive(Debug)]
struct Lookup<'v> {
    view: &'v View,
    keys: KeyBuf,
    found: Vec<Option<Match>>,
    scratch: Scratch,
}

impl<'v> Lookup<'v> {
    fn new(view: &'v View) -> Self {
        let keys = KeyBuf::new(view.lowered.schema());
        Self { view, keys, found: Vec::new(), scratch: view.engine.scratch() }
    }

    fn clear(&mut self) {
        self.keys.clear();
    }

    fn push(&mut self) -> &mut [u32] {
        let key_words = self.view.max.len();
        &mut self.keys.push()[..key_words]
    }

    fn run(&mut self) {
        self.found.resize(self.keys.len(), None);
        self.view.engine.classify_batch(&mut self.scratch, self.keys.keys(), &mut self.found);
    }

    fn row(&self, index: usize) -> &[u32] {
        &self.keys.keys().row(index)[..self.view.max.len()]
    }

    fn found(&self, index: usize) -> Option<Match> {
        self.found[index]
    }
}
