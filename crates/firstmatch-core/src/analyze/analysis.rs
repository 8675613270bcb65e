//! Questions about the rules of a set.

use std::ops::Range;
use std::sync::Arc;

use super::beyond::{Beyond, expand};
use super::classes::Classes;
use super::cover::{Cover, Work, search};
use super::piece::{Piece, overlap, push_region};
use super::possible::{Needed, Possible};
use super::tree::{Among, Tree};
use crate::error::BuildError;
use crate::key::KeyBuf;
use crate::policy::{Fragments, Policy, Verdict};
use crate::rule::{ExpansionLimits, FieldValues, Lowered, Rule, RuleId, RuleSet, lower_products, tested_fields};
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
/// - Both hold over classes, and beside rules beyond the limits (`tests/harness/classes.rs`).
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
    /// Classes whose numbers the regions are over; `None` if they are over values.
    pub(super) classes: Option<Arc<Classes>>,
    /// Rules beyond the limits, in order of rank; they have no regions.
    pub(super) beyond: Vec<Beyond>,
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
    /// If the regions exceed a limit of [`Config::expansion`], or are a million and far more than the rules, values that
    /// no rule tells apart are taken together. Rules that exceed the limits even so are undecided.
    ///
    /// # Errors
    /// If one condition of a rule exceeds a limit, or the sets of a field all together have too many boxes.
    pub fn new(set: &'s RuleSet, policy: &Policy, config: &Config) -> Result<Self, BuildError> {
        let [one] = Self::together([(set, policy)], config)?;
        Ok(one)
    }

    /// Builds analyses that have the same classes.
    ///
    /// # Errors
    /// As [`Analysis::new`].
    pub(super) fn together<const N: usize>(
        sets: [(&'s RuleSet, &Policy); N],
        config: &Config,
    ) -> Result<[Self; N], BuildError> {
        let lowered = |(set, _): &(&RuleSet, &Policy)| {
            set.schemas().iter().map(|schema| lower_products(set, schema, &config.expansion)).collect()
        };
        let mut all = sets.iter().map(lowered).collect::<Result<Vec<Vec<Lowered>>, BuildError>>()?;
        // Schemas of which some rules have too many regions; all rules of these become products.
        let mut in_classes: Vec<Schema> = Vec::new();
        for of in all.iter().flatten().filter(|of| of.has_far_more_regions()) {
            in_classes.extend((!in_classes.contains(of.schema())).then(|| of.schema().clone()));
        }
        let mut classes: Vec<Arc<Classes>> = Vec::new();
        for schema in &in_classes {
            let own = all.iter_mut().flatten().filter(|of| of.schema() == schema);
            own.for_each(|of| _ = of.become_products(&config.expansion));
            let own = all.iter().flatten().filter(|of| of.schema() == schema).filter_map(Lowered::products);
            classes.push(Arc::new(Classes::of(schema, &own.collect::<Vec<_>>())));
        }
        let of_schema = |schema: &Schema| Some(&classes[in_classes.iter().position(|own| own == schema)?]);
        let mut all = all.into_iter();
        Ok(sets.map(|(set, policy)| Self::over(set, policy, config, &all.next().unwrap_or_default(), &of_schema)))
    }

    /// Builds the analysis of lowered rules; `classes` returns the classes of a schema that has some.
    fn over<'c>(
        set: &'s RuleSet,
        policy: &Policy,
        config: &Config,
        lowered: &[Lowered],
        classes: &dyn Fn(&Schema) -> Option<&'c Arc<Classes>>,
    ) -> Self {
        let rules: Vec<&Rule> = set.iter().collect();
        let mut known: Vec<Verdict> = Vec::new();
        let verdicts: Vec<u64> = rules.iter().map(|rule| bit_of(&mut known, rule.action.into())).collect();
        let mut ranks = vec![0; set.slots()];
        (0..).zip(&rules).for_each(|(rank, rule)| ranks[rule.id.slot()] = rank);
        let list = |lowered: &Lowered| {
            let schema = lowered.schema();
            let classes = classes(schema).cloned();
            let (mut pieces, mut beyond) = (Vec::new(), Vec::new());
            let of_regions: Vec<u32> = match (&classes, lowered.products()) {
                (Some(classes), Some(products)) => {
                    let all = expand(schema, classes, products, &config.expansion, |rule| ranks[rule.rule.slot()]);
                    (pieces, beyond) = (all.pieces, all.beyond);
                    all.ranks
                }
                _ => {
                    pieces.reserve(lowered.regions().len() * schema.words().len());
                    lowered.regions().iter().for_each(|region| push_region(&mut pieces, &region));
                    lowered.rules().iter().map(|rule| ranks[rule.rule.slot()]).collect()
                }
            };
            let mut regions = vec![0..0; rules.len()];
            let mut start = 0;
            for of_rule in of_regions.chunk_by(|one, other| one == other) {
                regions[of_rule[0] as usize] = start..start + of_rule.len();
                start += of_rule.len();
            }
            let tree = Tree::build(schema.words().len(), pieces, of_regions, &verdicts);
            let tested = tested_fields(rules.iter().copied(), schema);
            let possible = possible(schema, policy.fragments, config.keys, &tested);
            List { schema: schema.clone(), tree, regions, possible, classes, beyond }
        };
        let lists = lowered.iter().map(list).collect();
        let limits = config.limits;
        let work = Work { done: 0, most: limits.total_work, most_each: limits.work };
        let removed = vec![false; rules.len()];
        let Policy { default, unknown, fragments } = *policy;
        let (keys, random) = (config.keys, SEED);
        Self { rules, lists, default, unknown, fragments, keys, verdicts, removed, limits, work, random }
    }

    /// Returns the rules beyond the limits: those that no answer is about.
    ///
    /// ```
    /// use firstmatch_core::analyze::{Analysis, Config};
    ///
    /// let odd: Vec<String> = (0..50).map(|number| (2 * number).to_string()).collect();
    /// let text = format!("schema {{\nx 8 mask\ny 8 mask\n}}\npermit x 1/3 y 1/3\ndeny x {{ {0} }} y {{ {0} }}\n", odd.join(", "));
    /// let file = firstmatch_formats::parse(&text, &firstmatch_formats::Options::default())?;
    /// let mut config = Config::default();
    /// config.expansion.regions_per_rule = 1000;
    /// let analysis = Analysis::new(&file.rules, &file.policy, &config)?;
    /// // Fields with masks keep their values, so that the second rule has 2,500 regions.
    /// assert_eq!(analysis.beyond(), [file.rules.iter().nth(1).expect("two rules").id]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn beyond(&self) -> Vec<RuleId> {
        let is_beyond = |rank: &usize| self.is_beyond(*rank as u32);
        (0..self.rules.len()).filter(is_beyond).map(|rank| self.rules[rank].id).collect()
    }

    /// Whether a rule is beyond the limits in some list.
    pub(super) fn is_beyond(&self, rank: u32) -> bool {
        self.lists.iter().any(|list| list.beyond.iter().any(|of| of.rank == rank))
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
                let (classes, beyond) = (None, Vec::new());
                List { schema: schema.clone(), tree, regions, possible, classes, beyond }
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
        let answer = cover(of, points, &self.lists[list].possible, &[(&self.lists[list], among)], &mut work);
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
        let List { schema, classes, .. } = &self.lists[list];
        let values = classes.as_ref().map(|classes| classes.values(key, || 0));
        FieldValues { family: schema.family(), values: schema.values(values.as_deref().unwrap_or(key)) }
    }
}

impl List {
    /// Whether a key lies in a rule of `among` that is beyond the limits.
    fn is_beyond(&self, key: &[u32], among: Among<'_>) -> bool {
        self.beyond.iter().any(|of| among.takes(of.rank) && of.contains(key))
    }

    /// Returns the ranks in `among` of rules beyond the limits that may share a key with a box.
    pub(super) fn beyond_at(&self, of: &[Piece], among: Among<'_>) -> impl Iterator<Item = u32> {
        self.beyond.iter().filter(move |own| among.takes(own.rank) && own.overlaps(of)).map(|own| own.rank)
    }

    /// Returns the least rank in `among` with the key, of rules beyond the limits, too.
    pub(super) fn first(&self, key: &[u32], among: Among<'_>) -> Option<u32> {
        let own = self.beyond.iter().find(|of| among.takes(of.rank) && of.contains(key)).map(|of| of.rank);
        self.tree.first(key, among).into_iter().chain(own).min()
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
///
/// A packet that the search finds may match a rule beyond the limits. Then the question is undecided.
pub(super) fn cover(
    of: &[Piece],
    points: [Vec<u32>; 4],
    possible: &Possible,
    lists: &[(&List, Among<'_>)],
    work: &mut Work,
) -> Cover {
    for (index, point) in points.into_iter().enumerate() {
        if possible.is_possible(&point) && lists.iter().all(|(list, among)| list.first(&point, *among).is_none()) {
            return Cover::Free(point);
        }
        // Most covered boxes lie in one region.
        let is_held = || lists.iter().any(|(list, among)| list.tree.holder(of, *among).is_some());
        if index == 0 && (is_held() || possible.is_impossible(of)) {
            return Cover::Covered;
        }
    }
    let mut entries = Vec::new();
    for (List { tree, .. }, among) in lists {
        tree.overlaps(of, *among, |region| {
            entries.extend_from_slice(tree.region(region));
            false
        });
    }
    let impossible = possible.boxes.chunks_exact(of.len()).filter(|impossible| overlap(impossible, of));
    impossible.for_each(|impossible| entries.extend_from_slice(impossible));
    work.done += (entries.len() / of.len().max(1)) as u64;
    match search(of, &entries, work) {
        Cover::Free(key) if lists.iter().any(|(list, among)| list.is_beyond(&key, *among)) => Cover::Undecided,
        answer => answer,
    }
}
