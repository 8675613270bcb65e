//! Differences of two rule sets: pairs of rules that give some packet different verdicts.
//!
//! A packet whose first matches are both common rules gets the same verdict, because common rules stand in the same
//! order. So only rules that are not common, and the defaults, are compared with the rules of the other set.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::align::align;
use super::analysis::{Analysis, Config, KeySpace, List, cover};
use super::cover::Cover;
use super::hidden::{self, Hiding};
use super::leftover::{leftover, merge};
use super::one_sided::Classified;
use super::piece::{Piece, and, push_box};
use crate::error::BuildError;
use crate::policy::{Fragments, Policy, Verdict};
use crate::rule::{FieldValues, Regions, RuleId, RuleSet};
use crate::schema::Schema;

/// Packets on which two rule sets differ: those whose first matches are these two rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// First match in each set; `None` where no rule matches.
    pub rules: [Option<RuleId>; 2],
    /// Verdict of each set.
    pub verdicts: [Verdict; 2],
    /// One of the packets.
    pub packet: FieldValues,
    /// Regions of these packets by index in [`Differences::schemas`], merged, if [`Config::regions`] asks for them.
    ///
    /// They do not overlap, and each holds some of these packets. Together they hold just these packets, and perhaps keys
    /// that no packet has.
    pub regions: Vec<(usize, Regions)>,
    /// Whether there are more regions than [`Config::regions`], or a question about them was not decided, so that none
    /// are returned.
    pub has_more_regions: bool,
}

/// Packets that only one of two rule sets classifies, with another verdict than the other gives unknown packets.
///
/// For example, a rule with ports makes later fragments unknown to its set.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OneSided {
    /// Set that classifies them: 0 is the first.
    pub side: usize,
    /// Sort of packets, in the plural; for example, `later fragments`, or `IPv6 packets` if the other set has none.
    pub packets: &'static str,
    /// Index in [`Differences::schemas`].
    pub schema: usize,
    /// Fields of the schema that the packets hide and that the other set needs.
    pub hidden: Vec<usize>,
    /// First match in the set that classifies them; `None` where no rule matches.
    pub rule: Option<RuleId>,
    /// Verdict of each set.
    pub verdicts: [Verdict; 2],
    /// One of the packets; fields that it hides are absent.
    pub packet: FieldValues,
}

/// Differences of two rule sets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Differences {
    /// Schemas of both sets, by which other fields name them.
    pub schemas: Vec<Schema>,
    /// Pairs of rules, in the order of the first set, each once.
    pub pairs: Vec<Difference>,
    /// Packets that only one set classifies: each sort once per schema and set.
    pub one_sided: Vec<OneSided>,
    /// Verdicts of both sets on packets that neither classifies, if they differ.
    pub unknown: Option<[Verdict; 2]>,
    /// Schemas in which the sets need different fields, where which packets hide these is not known.
    ///
    /// These are schemas of packets without addresses of IP, such as those of OpenFlow.
    pub needs_differ: Vec<usize>,
    /// Number of questions that a cap ended, so that there may be more pairs.
    pub undecided: usize,
    /// Rules of each set [beyond the limits](Analysis::beyond) that have no equal in the other, so that no question
    /// about them is decided.
    pub beyond: [Vec<RuleId>; 2],
    /// Regions that all questions looked at.
    pub work: u64,
}

impl Differences {
    /// Whether every packet gets the same verdict from both sets, for certain.
    pub fn is_none(&self) -> bool {
        self.pairs.is_empty()
            && self.one_sided.is_empty()
            && self.unknown.is_none()
            && self.needs_differ.is_empty()
            && self.undecided == 0
            && self.beyond.iter().all(Vec::is_empty)
    }
}

/// Returns the pairs of rules by which two sets give some packet different verdicts.
///
/// Which packets are classified depends on the fields that rules test in each family, and on [`Policy::fragments`].
/// Packets that one set classifies are compared with the other set's verdict on unknown packets. These are all packets
/// of an address family if the other set has no schema of it.
///
/// # Errors
/// As [`Analysis::new`].
///
/// # Panics
/// If [`comparable`] says that the sets cannot be compared. Sets over [`KeySpace::Any`] must have the same schemas.
///
/// ```
/// use firstmatch_core::analyze::{Config, diff};
/// use firstmatch_core::Policy;
///
/// let parse = |text| firstmatch_formats::parse(text, &firstmatch_formats::Options::default());
/// let before = parse("family ipv4\ndeny tcp dport 23\npermit\n")?.rules;
/// let after = parse("family ipv4\ndeny tcp dport { 22, 23 }\npermit\n")?.rules;
/// let policy = Policy::default();
/// let found = diff((&before, &policy), (&after, &policy), &Config::default())?;
/// assert_eq!(found.pairs.len(), 1); // packets to port 22
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn diff(
    before: (&RuleSet, &Policy),
    after: (&RuleSet, &Policy),
    config: &Config,
) -> Result<Differences, BuildError> {
    let is_same = before.0.schemas() == after.0.schemas();
    assert!(is_same || config.keys != KeySpace::Any && comparable(before.0, after.0), "the sets can be compared");
    let mut schemas = before.0.schemas().to_vec();
    schemas.extend(after.0.schemas().iter().filter(|schema| !before.0.schemas().contains(schema)).cloned());
    let mut sides = Analysis::together([before, after], config)?;
    let has = [before.0, after.0].map(|set| schemas.iter().map(|own| set.schemas().contains(own)).collect::<Vec<_>>());
    sides.iter_mut().for_each(|side| side.arrange(&schemas));
    let shared = |list: usize| has.iter().all(|has| has[list]);
    let lists: Vec<usize> = (0..schemas.len()).filter(|&list| shared(list)).collect();
    let [one, other] = sides.each_ref().map(|side| keys(side, &lists));
    let common = align(&one, &other);
    let (most, most_regions) = (config.limits.pairs, config.regions);
    let (pairs, one_sided, needs_differ) = (BTreeMap::new(), Vec::new(), Vec::new());
    let (undecided, unknown_in_part) = (0, BTreeSet::new());
    let mut differ =
        Differ { sides, common, pairs, one_sided, needs_differ, undecided, unknown_in_part, most, most_regions };
    for (list, _) in schemas.iter().enumerate() {
        match has.iter().position(|has| !has[list]) {
            Some(lacking) => differ.ask_family(list, 1 - lacking),
            None => {
                differ.compare_unknown(list);
                differ.compare(list);
            }
        }
    }
    let work = differ.sides.iter().map(|side| side.work.done).sum();
    let unknown = [before.1.unknown, after.1.unknown];
    let unknown = (config.keys != KeySpace::Any && unknown[0] != unknown[1]).then_some(unknown);
    let beyond = [0, 1].map(|side| differ.beyond(side));
    let Differ { pairs, one_sided, needs_differ, undecided, unknown_in_part, .. } = differ;
    let pairs = pairs.into_iter().map(|(ranks, (mut pair, boxes))| {
        pair.has_more_regions = boxes.len() > most_regions || most_regions > 0 && unknown_in_part.contains(&ranks);
        if !pair.has_more_regions {
            pair.regions = regions(boxes, most_regions);
        }
        pair
    });
    Ok(Differences { schemas, pairs: pairs.collect(), one_sided, unknown, needs_differ, undecided, beyond, work })
}

/// Whether [`diff`] can compare two sets: both are of packets of IP, with the same fields for each shared address family,
/// or they have the same schemas.
pub fn comparable(before: &RuleSet, after: &RuleSet) -> bool {
    let is_ip = |set: &RuleSet| set.schemas().iter().all(hidden::is_known);
    let agrees = |own: &Schema| after.schemas().iter().all(|other| other.family() != own.family() || other == own);
    before.schemas() == after.schemas() || is_ip(before) && is_ip(after) && before.schemas().iter().all(agrees)
}

/// Returns boxes of several schemas as regions, merged; none if there are more than `most`.
fn regions(boxes: Vec<Located>, most: usize) -> Vec<(usize, Regions)> {
    let mut by_list: BTreeMap<usize, Vec<Vec<Piece>>> = BTreeMap::new();
    if boxes.len() <= most {
        boxes.into_iter().for_each(|(list, of)| by_list.entry(list).or_default().push(of));
    }
    let of_list = |(list, mut boxes): (usize, Vec<Vec<Piece>>)| {
        merge(&mut boxes);
        let mut regions = Regions::new(boxes.first().map_or(0, Vec::len));
        boxes.iter().for_each(|of| push_box(&mut regions, of));
        (list, regions)
    };
    by_list.into_iter().map(of_list).collect()
}

/// Returns a hash of each rule's verdict and regions in some lists.
fn keys(side: &Analysis<'_>, lists: &[usize]) -> Vec<u64> {
    let key = |rank: usize| {
        let mut hasher = DefaultHasher::new();
        side.verdict(rank as u32).hash(&mut hasher);
        for &list in lists {
            side.boxes(list, rank as u32).hash(&mut hasher);
            let beyond = side.lists[list].beyond.iter().filter(|of| of.rank == rank as u32);
            beyond.for_each(|of| of.parts().for_each(|part| part.hash(&mut hasher)));
        }
        hasher.finish()
    };
    (0..side.rules.len()).map(key).collect()
}

/// Box of the packets of one schema, the schema by its index.
type Located = (usize, Vec<Piece>);

struct Differ<'s> {
    sides: [Analysis<'s>; 2],
    /// Whether each rule of each set is common.
    common: [Vec<bool>; 2],
    /// Differences by the ranks of both rules; without a rule, the rank is the one behind all rules.
    pairs: BTreeMap<[u32; 2], (Difference, Vec<Located>)>,
    one_sided: Vec<OneSided>,
    needs_differ: Vec<usize>,
    undecided: usize,
    /// Pairs of which some packets were not decided, so that their regions are not all known.
    unknown_in_part: BTreeSet<[u32; 2]>,
    /// Maximum number of rules of the other set that one rule is compared with.
    most: usize,
    most_regions: usize,
}

impl Differ<'_> {
    fn count(&self, side: usize) -> u32 {
        self.sides[side].rules.len() as u32
    }

    /// Returns the verdict of a rule, or the default behind all rules.
    fn verdict(&self, side: usize, rank: u32) -> Verdict {
        let of = &self.sides[side];
        if rank < self.count(side) { of.verdict(rank) } else { of.default }
    }

    /// Compares the packets that one set alone classifies, then leaves the keys of packets that both classify.
    fn compare_unknown(&mut self, list: usize) {
        if self.sides[0].keys == KeySpace::Any {
            return;
        }
        let needed = [0, 1].map(|side| self.sides[side].needed(list));
        let fragments = [0, 1].map(|side| self.sides[side].fragments);
        let schema = &self.sides[0].lists[list].schema;
        if !hidden::is_known(schema) {
            let is_read = schema.fields().iter().any(|field| field.source().is_some());
            if is_read && (needed[0] != needed[1] || fragments[0] != fragments[1]) {
                self.needs_differ.push(list);
            }
            return;
        }
        let mut both_classify_later = true;
        for side in 0..2 {
            let (own, others) = (&needed[side], &needed[1 - side]);
            let found = self.sides[side].classified_alone(list, own, (others, fragments[1 - side]));
            both_classify_later &= !found.iter().any(|hiding| hiding.is_later);
            for hiding in found {
                self.ask_one_sided(list, side, &hiding, [own, others]);
            }
        }
        let all: Vec<bool> = needed[0].iter().zip(&needed[1]).map(|(one, other)| one | other).collect();
        let is_layer3 = fragments.contains(&Fragments::Layer3) && both_classify_later;
        let fragments = if is_layer3 { Fragments::Layer3 } else { Fragments::Unknown };
        self.sides[0].lists[list].possible = self.sides[0].possible(list, fragments, &all, false);
    }

    /// Compares all packets of a family with the verdict of the other set, which has no schema of it.
    fn ask_family(&mut self, list: usize, side: usize) {
        let needed = self.sides[side].needed(list);
        let hiding = Hiding::none(&self.sides[side].lists[list].schema);
        let others = vec![false; needed.len()];
        self.ask_one_sided(list, side, &hiding, [&needed, &others]);
    }

    /// Adds packets that hide fields, if the set that classifies them gives them another verdict than the other set.
    fn ask_one_sided(&mut self, list: usize, side: usize, hiding: &Hiding, [needed, others]: [&[bool]; 2]) {
        let is_same = |of: &OneSided| (of.schema, of.side, of.packets) == (list, side, hiding.name);
        if self.one_sided.iter().any(is_same) {
            return;
        }
        let unknown = self.sides[1 - side].unknown;
        match self.sides[side].other_verdict(list, hiding, needed, unknown) {
            Classified::None => {}
            Classified::Undecided => self.undecided += 1,
            Classified::Found { rank, packet } => {
                let own = rank.map_or(self.sides[side].default, |rank| self.sides[side].verdict(rank));
                let rule = rank.map(|rank| self.sides[side].rules[rank as usize].id);
                let verdicts = if side == 0 { [own, unknown] } else { [unknown, own] };
                let hidden = hiding.fields.iter().copied().filter(|&field| others[field]).collect();
                let packets = hiding.name;
                self.one_sided.push(OneSided { side, packets, schema: list, hidden, rule, verdicts, packet });
            }
        }
    }

    /// Returns the rules of a set that are beyond the limits and not common.
    fn beyond(&self, side: usize) -> Vec<RuleId> {
        let of = &self.sides[side];
        let is_asked = |rank: &usize| !self.common[side][*rank] && of.is_beyond(*rank as u32);
        (0..of.rules.len()).filter(is_asked).map(|rank| of.rules[rank].id).collect()
    }

    fn compare(&mut self, list: usize) {
        for side in 0..2 {
            for rank in 0..self.count(side) {
                if !self.common[side][rank as usize] {
                    for of in self.sides[side].boxes(list, rank) {
                        self.compare_box(list, side, rank, &of);
                    }
                }
            }
        }
        // Packets without a rule in either set.
        let words = self.sides[0].lists[list].schema.words();
        let all: Vec<Piece> = words.iter().map(|word| Piece::interval(0, word.max)).collect();
        self.ask(list, &all, [self.count(0), self.count(1)]);
    }

    /// Compares a box of a rule with the rules of the other set that overlap it, up to the first that holds it.
    fn compare_box(&mut self, list: usize, side: usize, rank: u32, of: &[Piece]) {
        let other = 1 - side;
        let count = self.count(other);
        let (holder, mut ranks) = {
            let theirs = &self.sides[other];
            let tree = &theirs.lists[list].tree;
            let holder = tree.holder(of, theirs.among(0, count));
            let mut ranks = Vec::new();
            tree.overlaps(of, theirs.among(0, holder.map_or(count, |holder| holder + 1)), |region| {
                ranks.push(tree.rank(region));
                ranks.len() > self.most
            });
            (holder, ranks)
        };
        if ranks.len() > self.most {
            self.undecided += 1;
            return;
        }
        ranks.sort_unstable();
        ranks.dedup();
        let own = self.verdict(side, rank);
        let below = holder.map_or(count, |holder| holder + 1);
        let mut theirs = self.sides[other].lists[list].beyond_at(of, self.sides[other].among(0, below));
        let is_undecided = theirs.any(|theirs| self.verdict(other, theirs) != own);
        drop(theirs);
        self.undecided += usize::from(is_undecided);
        let pair = |theirs: u32| if side == 0 { [rank, theirs] } else { [theirs, rank] };
        for theirs in ranks {
            // Two rules that are not common are compared once.
            let is_known = side == 1 && !self.common[0][theirs as usize];
            if is_known || self.verdict(other, theirs) == own || self.is_done(&pair(theirs)) {
                continue;
            }
            for shared in self.sides[other].boxes(list, theirs).iter().filter_map(|region| and(of, region)) {
                self.ask(list, &shared, pair(theirs));
            }
        }
        if holder.is_none() {
            self.ask(list, of, pair(count));
        }
    }

    /// Whether a pair is known, and no regions are asked for.
    fn is_done(&self, ranks: &[u32; 2]) -> bool {
        self.most_regions == 0 && self.pairs.contains_key(ranks)
    }

    /// Adds the pair of two rules, if some packet of a box has them as its first matches and gets different verdicts.
    fn ask(&mut self, list: usize, of: &[Piece], ranks: [u32; 2]) {
        let verdicts = [self.verdict(0, ranks[0]), self.verdict(1, ranks[1])];
        if verdicts[0] == verdicts[1] || self.is_done(&ranks) {
            return;
        }
        let points = self.sides[0].points(list, of);
        let mut work = self.sides[0].work;
        let prefix = |side: usize| (&self.sides[side].lists[list], self.sides[side].among(0, ranks[side]));
        let answer = cover(of, points, &self.sides[0].lists[list].possible, &[prefix(0), prefix(1)], &mut work);
        self.sides[0].work = work;
        match answer {
            Cover::Covered => {}
            Cover::Undecided => {
                self.undecided += 1;
                self.unknown_in_part.insert(ranks);
            }
            Cover::Free(mut key) => {
                self.sides[0].lists[list].possible.settle(&mut key, of);
                let rule = |side: usize| self.sides[side].rules.get(ranks[side] as usize).map(|rule| rule.id);
                let packet = self.sides[0].values(list, &key);
                let (rules, regions) = ([rule(0), rule(1)], Vec::new());
                let pair = Difference { rules, verdicts, packet, regions, has_more_regions: false };
                self.pairs.entry(ranks).or_insert((pair, Vec::new()));
                if self.most_regions > 0 {
                    self.add_regions(list, of, ranks);
                }
            }
        }
    }

    /// Adds the part of a box that earlier rules leave to the regions of a pair, up to one more than the maximum.
    fn add_regions(&mut self, list: usize, of: &[Piece], ranks: [u32; 2]) {
        let mut entries = Vec::new();
        let mut meets_beyond = false;
        for (side, &rank) in self.sides.iter().zip(&ranks) {
            let List { tree, .. } = &side.lists[list];
            meets_beyond |= side.lists[list].beyond_at(of, side.among(0, rank)).next().is_some();
            tree.overlaps(of, side.among(0, rank), |region| {
                entries.extend_from_slice(tree.region(region));
                false
            });
        }
        let possible = &self.sides[0].lists[list].possible;
        let Some((_, boxes)) = self.pairs.get_mut(&ranks) else { return };
        let most = self.most_regions + 1;
        let mut work = self.sides[0].work;
        let left = leftover(of, &entries, most).filter(|_| !meets_beyond).and_then(|mut left| {
            left.retain(|of| !possible.is_empty(of, &mut work));
            let Some(classes) = &self.sides[0].lists[list].classes else { return Some(left) };
            let values = left.iter().map(|of| classes.value_boxes(of, most)).collect::<Option<Vec<_>>>()?;
            Some(values.concat())
        });
        self.sides[0].work = work;
        match left {
            Some(left) => boxes.extend(left.into_iter().map(|of| (list, of))),
            None => boxes.resize(most, (list, of.to_vec())),
        }
        boxes.truncate(most);
    }
}
