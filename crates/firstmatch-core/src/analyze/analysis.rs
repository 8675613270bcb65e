//! Questions about the rules of a set.

use std::ops::Range;

use super::cover::{Cover, Work, search};
use super::piece::{Piece, overlap, push_region};
use super::possible::{Needed, Possible};
use super::tree::{Among, Tree};
use crate::error::BuildError;
use crate::key::KeyBuf;
use crate::policy::{Fragments, Policy, Verdict};
use crate::rule::{ExpansionLimits, FieldValues, Rule, RuleSet, lower, tested_fields};
use crate::schema::Schema;

/// Keys that packets may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeySpace {
    /// Keys of parsed packets: for example, TCP always has ports and ICMP has none.
    ///
    /// A packet is classified if it shows the fields that rules test.
    #[default]
    Parsed,
    /// The same, but a packet is classified only if it shows all fields of its schema.
    ///
    /// Firewalls whose rules change need all fields, because a later rule may test any of them.
    ParsedWhole,
    /// Any row, because the caller fills the rows.
    Any,
}

/// Caps of an analysis, as counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of regions that one question may look at.
    pub work: u64,
    /// Maximum number of regions that all questions together may look at.
    pub total_work: u64,
    /// Maximum number of rules of another verdict that one rule is compared with.
    pub pairs: usize,
    /// Maximum number of attempts to leave rules out of the causes of a finding.
    pub causes: usize,
}

impl Default for Limits {
    /// Returns 2 million, 500 million, 1 million and 64.
    fn default() -> Self {
        Self { work: 2_000_000, total_work: 500_000_000, pairs: 1_000_000, causes: 64 }
    }
}

/// Configuration of an analysis.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Config {
    /// Caps.
    pub limits: Limits,
    /// Keys that packets may have.
    pub keys: KeySpace,
    /// Limits of lowering.
    pub expansion: ExpansionLimits,
    /// Maximum number of regions that [`diff`](super::diff) returns for each pair of rules; 0 for none.
    pub regions: usize,
}

/// Seed of the random points.
pub(super) const SEED: u64 = 1;
/// Bit of all verdicts beyond the first 63.
pub(super) const SHARED: u64 = 1 << 63;

/// Analysis of a rule set.
///
/// # Invariants
/// - Every answer is that of brute force (`brute_force_agrees` in `tests/harness/analyze.rs`).
/// - All rules that are found can be removed together without changing a verdict (same test).
#[derive(Clone, Debug)]
pub struct Analysis<'s> {
    /// Rules in order of priority; their places are their ranks.
    pub(super) rules: Vec<&'s Rule>,
    pub(super) lists: Vec<List>,
    pub(super) default: Verdict,
    /// Verdict on packets that are not classified.
    pub(super) unknown: Verdict,
    pub(super) fragments: Fragments,
    pub(super) keys: KeySpace,
    /// Verdict of each rule as a bit.
    pub(super) verdicts: Vec<u64>,
    /// Whether each rule was found removable, so that later questions ignore it.
    pub(super) removed: Vec<bool>,
    pub(super) limits: Limits,
    pub(super) work: Work,
    /// State of the random generator that points are drawn with.
    pub(super) random: u64,
}

/// Regions of the rules for packets of one schema.
#[derive(Clone, Debug)]
pub(super) struct List {
    pub(super) schema: Schema,
    pub(super) tree: Tree,
    /// Regions of each rule, by rank.
    pub(super) regions: Vec<Range<usize>>,
    pub(super) possible: Possible,
}

/// Answer for a whole rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Yes,
    No,
    Undecided,
}

impl<'s> Analysis<'s> {
    /// Lowers the rules of a set and builds the trees that answer questions.
    ///
    /// # Errors
    /// If a rule or the set exceeds a limit of [`Config::expansion`].
    pub fn new(set: &'s RuleSet, policy: &Policy, config: &Config) -> Result<Self, BuildError> {
        let rules: Vec<&Rule> = set.iter().collect();
        let mut known: Vec<Verdict> = Vec::new();
        let verdicts: Vec<u64> = rules.iter().map(|rule| bit_of(&mut known, rule.action.into())).collect();
        let mut ranks = vec![0; set.slots()];
        (0..).zip(&rules).for_each(|(rank, rule)| ranks[rule.id.slot()] = rank);
        let lists = set.schemas().iter().map(|schema| {
            let lowered = lower(set, schema, &config.expansion)?;
            let mut regions = vec![0..0; rules.len()];
            for (rule, range) in lowered.by_rule() {
                regions[ranks[rule.rule.slot()] as usize] = range;
            }
            let mut pieces = Vec::with_capacity(lowered.regions().len() * schema.words().len());
            lowered.regions().iter().for_each(|region| push_region(&mut pieces, &region));
            let of_regions = lowered.rules().iter().map(|rule| ranks[rule.rule.slot()]).collect();
            let tree = Tree::build(schema.words().len(), pieces, of_regions, &verdicts);
            let tested = tested_fields(rules.iter().copied(), schema);
            let possible = possible(schema, policy.fragments, config.keys, &tested);
            Ok(List { schema: schema.clone(), tree, regions, possible })
        });
        let lists = lists.collect::<Result<_, BuildError>>()?;
        let limits = config.limits;
        let work = Work { done: 0, most: limits.total_work, most_each: limits.work };
        let removed = vec![false; rules.len()];
        let Policy { default, unknown, fragments } = *policy;
        let (keys, random) = (config.keys, SEED);
        Ok(Self { rules, lists, default, unknown, fragments, keys, verdicts, removed, limits, work, random })
    }

    /// Whether a packet may have these values, as far as the fields' sources tell.
    ///
    /// # Panics
    /// If no schema is of the packet's family, or the values do not fit it, as [`KeyBuf::push_values`].
    pub fn is_possible(&self, packet: &FieldValues) -> bool {
        let list = self.lists.iter().find(|list| list.schema.family() == packet.family);
        let list = list.unwrap_or_else(|| panic!("no schema is of the family {:?}", packet.family));
        let mut key = KeyBuf::new(&list.schema);
        key.push_values(packet);
        list.possible.is_possible(&key.keys().row(0)[..list.schema.words().len()])
    }

    /// Returns the fields that a packet of a list must show to be classified, if rules that are removed do not count.
    pub(super) fn needed(&self, list: usize) -> Vec<bool> {
        let schema = &self.lists[list].schema;
        match self.keys {
            KeySpace::Parsed => {
                let kept = self.rules.iter().zip(&self.removed).filter(|(_, is_removed)| !**is_removed);
                tested_fields(kept.map(|(rule, _)| *rule), schema)
            }
            KeySpace::ParsedWhole => vec![true; schema.fields().len()],
            KeySpace::Any => vec![false; schema.fields().len()],
        }
    }

    /// Returns the keys that no classified packet of a list has, if these fields are needed.
    pub(super) fn possible(
        &self,
        list: usize,
        fragments: Fragments,
        needed: &[bool],
        has_more_routing: bool,
    ) -> Possible {
        let schema = &self.lists[list].schema;
        let of = Needed { fragments, fields: needed, tested: needed, has_more_routing };
        Possible::new(schema, (self.keys != KeySpace::Any).then_some(of))
    }

    /// Orders the lists as `schemas` are; of a schema that the set lacks, the list has no regions.
    pub(super) fn arrange(&mut self, schemas: &[Schema]) {
        let mut own = std::mem::take(&mut self.lists);
        let of = |schema: &Schema| match own.iter().position(|list| list.schema == *schema) {
            Some(at) => own.swap_remove(at),
            None => {
                let tree = Tree::build(schema.words().len(), Vec::new(), Vec::new(), &self.verdicts);
                let (regions, possible) = (vec![0..0; self.rules.len()], Possible::new(schema, None));
                List { schema: schema.clone(), tree, regions, possible }
            }
        };
        self.lists = schemas.iter().map(of).collect();
    }

    pub(super) fn verdict(&self, rank: u32) -> Verdict {
        self.rules[rank as usize].action.into()
    }

    /// Returns the rules from rank `from` on, before rank `below`, that are not removed.
    pub(super) fn among(&self, from: u32, below: u32) -> Among<'_> {
        Among { from, below, without: None, removed: &self.removed, verdicts: &self.verdicts, of: u64::MAX }
    }

    /// Returns whether every packet of a box matches a rule before rank `below`, other than `without`.
    pub(super) fn cover(&mut self, list: usize, of: &[Piece], below: u32, without: Option<u32>) -> Cover {
        let points = self.points(list, of);
        let mut work = self.work;
        let among = Among { without, ..self.among(0, below) };
        let List { tree, possible, .. } = &self.lists[list];
        let answer = cover(of, points, possible, &[(tree, among)], &mut work);
        self.work = work;
        answer
    }

    /// Returns points of a box: both ends, a corner and one inside, all made possible as far as the box allows.
    pub(super) fn points(&mut self, list: usize, of: &[Piece]) -> [Vec<u32>; 4] {
        let corner: Vec<u32> = of.iter().map(|piece| if self.draw() & 1 == 0 { piece.lo } else { piece.hi }).collect();
        let mut inside = Vec::with_capacity(of.len());
        for piece in of {
            let value = piece.lo + (self.draw() % (u64::from(piece.hi - piece.lo) + 1)) as u32;
            inside.push(Piece::new(value, piece.hi, piece.value, piece.mask).map_or(piece.lo, |rest| rest.lo));
        }
        let [lo, hi] = [of.iter().map(|piece| piece.lo).collect(), of.iter().map(|piece| piece.hi).collect()];
        let mut points: [Vec<u32>; 4] = [lo, hi, corner, inside];
        points.iter_mut().for_each(|point| self.lists[list].possible.repair(point, of));
        points
    }

    pub(super) fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Returns the boxes of a rule in one list.
    pub(super) fn boxes(&self, list: usize, rank: u32) -> Vec<Vec<Piece>> {
        let List { tree, regions, .. } = &self.lists[list];
        regions[rank as usize].clone().map(|region| tree.region(region).to_vec()).collect()
    }

    /// Returns the packet of a key.
    pub(super) fn values(&self, list: usize, key: &[u32]) -> FieldValues {
        let schema = &self.lists[list].schema;
        FieldValues { family: schema.family(), values: schema.values(key) }
    }
}

/// Returns the keys that no classified packet has, if rules test these fields.
fn possible(schema: &Schema, fragments: Fragments, keys: KeySpace, tested: &[bool]) -> Possible {
    let all = vec![true; tested.len()];
    let fields = match keys {
        KeySpace::Parsed => tested,
        KeySpace::ParsedWhole => &all,
        KeySpace::Any => return Possible::new(schema, None),
    };
    Possible::new(schema, Some(Needed { fragments, fields, tested, has_more_routing: false }))
}

/// Returns the bit of a verdict.
fn bit_of(known: &mut Vec<Verdict>, verdict: Verdict) -> u64 {
    let at = known.iter().position(|other| *other == verdict).unwrap_or_else(|| {
        if known.len() < 63 {
            known.push(verdict);
            known.len() - 1
        } else {
            63
        }
    });
    1 << at
}

/// Searches for a possible packet of a box that no rule of `lists` matches, and tries `points` first.
pub(super) fn cover(
    of: &[Piece],
    points: [Vec<u32>; 4],
    possible: &Possible,
    lists: &[(&Tree, Among<'_>)],
    work: &mut Work,
) -> Cover {
    for (index, point) in points.into_iter().enumerate() {
        if possible.is_possible(&point) && lists.iter().all(|(tree, among)| tree.first(&point, *among).is_none()) {
            return Cover::Free(point);
        }
        // Most covered boxes lie in one region.
        let is_held = || lists.iter().any(|(tree, among)| tree.holder(of, *among).is_some());
        if index == 0 && (is_held() || possible.is_impossible(of)) {
            return Cover::Covered;
        }
    }
    let mut entries = Vec::new();
    for (tree, among) in lists {
        tree.overlaps(of, *among, |region| {
            entries.extend_from_slice(tree.region(region));
            false
        });
    }
    let impossible = possible.boxes.chunks_exact(of.len()).filter(|impossible| overlap(impossible, of));
    impossible.for_each(|impossible| entries.extend_from_slice(impossible));
    work.done += (entries.len() / of.len().max(1)) as u64;
    search(of, &entries, work)
}
