//! `set_pairs`: an engine for policies whose rules name large groups of addresses, which overlap.
//!
//! # Idea
//! Rules are products of sets, one for each field. Two fields with many sets, usually both addresses, are the *axes*.
//! The sets of an axis cut its values into elementary intervals. Intervals that lie in the same sets are one *class*,
//! so that all hosts that lie in `$web` alone have one class, however many they are.
//!
//! A class is divided into at most three *parts*: the sets that hold it by a wide, a middle and a narrow interval. A set
//! is in one part of each of its classes. A hash table has the rules of each pair of parts, one of each axis. So a key
//! needs at most nine probes, whatever the number of rules. Most of them are saved: a class has, for each of its parts,
//! a filter of the parts that it has a pair with.
//!
//! Rules with one open axis are a list of each class of the other axis. Rules with two open axes are a list by the value
//! of a third field, usually the destination port.
//!
//! For example, let rule 0 be `src $g dst $h` and rule 1 `src $h`, with g = {1, 4-7, 9} and h = {4-5, 12-15}, of values
//! below 16. The source has the classes {}, {g}, {g, h} and {h}, and the destination {} and {h}. Source 4 lies in g by
//! four values and in h by two, so that class {g, h} has the parts {g} and {h}. The pair of {g} and {h} has rule 0, and
//! the source classes {g, h} and {h} have rule 1 in their lists. A packet from 5 to 13 finds rule 0 by its pair and rule
//! 1 in its list, and one from 13 to 5 finds rule 1 alone.
//!
//! A set that holds more than half of its field, such as `not $g`, would be in nearly every class. Its rules count as
//! open there, and are tested against the set when everything else holds. So are values under masks on an axis.
//!
//! # Layout in memory
//! - *Leaves*: for each axis and the third field a search tree of all starts, 16 (of wide fields eight) in a line.
//! - *Classes*: a line each, with the numbers, the filters and the hashes of its parts, and its list of open rules.
//! - *Open rules*: lines of twelve, each with an interval of the third field and bits of a fourth, usually the protocol.
//! - *Pairs*: buckets of a line with eight pairs of parts, each with the place and the length of its candidates.
//! - *Candidates*: 16 bytes each, with the rank of a rule and what is left to be tested. Equal lists are stored once.
//!
//! # Cost
//! Chunks of 32 keys go through the leaves, the filters, the lists, the buckets and the candidates together. What one
//! stage finds is a queue for the next, so that no branch depends on a single key, except for lists of more than eight
//! candidates. In a policy of 10,000 rules (`firstmatch generate rules --profile policy`, seed 1) a key of its trace makes
//! 2.3 probes, reads 2.8 lines of open rules and tests 4.1 candidates (`firstmatch engines RULES --count TRACE`).
//!
//! Pairs grow with the product of the classes that hold the sets of a rule. They are counted before they are made, for
//! each of seven ways to cut classes into parts, and the fewest are taken. Rules with many prefixes and few groups, such
//! as ClassBench's, are faster with trees.
//!
//! # Source
//! The engine is ours. Pairs of classes are cross-products as in V. Srinivasan, G. Varghese, S. Suri and M. Waldvogel,
//! *Fast and Scalable Layer Four Switching* (SIGCOMM 1998), but of parts and two fields.

mod build;
mod cut;
mod fields;
mod lists;
mod lookup;
mod pairs;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::engine::base::{Base, BaseEngine, Build, visits_of};
use crate::engine::budget::{Budget, Visits};
use crate::engine::entry::Entry;
use crate::engine::observer::Step;
use crate::engine::options;
use crate::engine::steps::StepCounter;
use crate::engine::tombstones::{All, Tombstones};
use crate::engine::{Engine, Match, NamedCounts, Stats};
use crate::engines::shared::{FieldSet, FieldWords, Leaves};
use crate::error::{BuildError, Cap};
use crate::key::Keys;
use crate::raw::{Level, Line, dispatch, dispatch_scalar};
use crate::rule::{Lowered, RuleId, RuleProducts};
use crate::schema::Schema;

/// Configuration of [`SetPairs`].
#[derive(Clone, Debug)]
pub struct Config {
    /// Limit on the memory of the built engine.
    pub budget: Budget,
    /// Forced instruction set; `None` takes the best of this machine.
    pub simd: Option<Level>,
    /// Maximum heap bytes of the build: of the classes, lists and pairs that it keeps.
    pub build_bytes: usize,
}

/// Maximum heap bytes of the tables of a build, unless it is set.
const MOST_BUILD: usize = 1 << 30;
/// Maximum heap bytes of the tables of a base's build, unless the engine is forced.
const MOST_BASE: usize = 192 << 20;

impl Default for Config {
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, build_bytes: MOST_BUILD }
    }
}

/// Classifier that looks up pairs of parts of classes.
///
/// ```
/// use firstmatch_core::engines::set_pairs::{Config, SetPairs};
/// use firstmatch_core::rule::{ExpansionLimits, lower_products};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "family ipv4\nset web = { 192.0.2.0/24, 198.51.100.7 }\ndeny tcp dst $web dport 23\npermit dst $web\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower_products(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine = SetPairs::build(&rules, &Config::default())?;
/// let mut keys = KeyBuf::new(engine.schema());
/// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 0xC633_6407, 50_000, 443, 6]);
/// assert_eq!(engine.classify(&mut engine.scratch(), keys.keys()).map(|found| found.rule.slot()), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SetPairs {
    schema: Schema,
    level: Level,
    /// Two fields, or one if the schema has no other.
    axes: Box<[Axis]>,
    third: Option<Third>,
    fourth: Option<Fourth>,
    /// Rules with open axes by class of the third field; one if there is none.
    anywhere: Box<[OpenList]>,
    open: Box<[Line]>,
    buckets: Box<[Bucket]>,
    candidates: Box<[Candidate]>,
    residue: Residue,
    matches: Box<[Match]>,
    regions: usize,
    bounds: Bounds,
}

/// Field whose classes have parts.
#[derive(Debug)]
struct Axis {
    leaves: Leaves,
    classes: Box<[Class]>,
}

/// Class of an axis: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Class {
    /// For each part, bits of the hashes of the parts that it has a pair with.
    partners: [u64; 3],
    /// Number of each part; 0 for none.
    parts: [u32; 3],
    open: OpenList,
    /// Hash of each part, below 64.
    own: [u8; 3],
}

/// Lines of open rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OpenList {
    first: u32,
    lines: u32,
}

/// Field of up to 2<sup>16</sup> values, in which candidates have an interval and a bit of a row.
#[derive(Debug)]
struct Third {
    /// Index of its word.
    word: usize,
    leaves: Leaves,
    /// Words of a row.
    width: usize,
    /// A row of bits for each class, one for each set that is no interval. See [`ALWAYS`] and [`PRESENT`].
    rows: Box<[u32]>,
}

/// Bit of every row, and bit of the rows of values that are not absent.
const ALWAYS: u16 = 0;
const PRESENT: u16 = 1;
/// Largest value of the third field that is not absent.
const MOST_VALUE: u32 = u16::MAX as u32;

/// Field of few values, in which candidates have bits.
#[derive(Debug)]
struct Fourth {
    word: usize,
    /// One bit for each value of the word.
    bits: Box<[u8]>,
}

/// Eight pairs of parts: one cache line.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
struct Bucket {
    /// Part of the first axis, shifted by 16 bits, and part of the second; 0 is free.
    pairs: [u32; 8],
    /// First candidate, shifted by [`LENGTH`] bits, and number of candidates. See [`LONG`].
    lists: [u32; 8],
}

/// Number of bits of a length, and the length that says that a list goes on up to a candidate of the rank [`NONE`].
const LENGTH: u32 = 6;
const LONG: u32 = (1 << LENGTH) - 1;
/// Rank of no rule.
const NONE: u32 = u32::MAX;
/// Number of candidates that a place in a list can name, and of parts that a pair can.
const MOST_CANDIDATES: usize = 1 << (u32::BITS - LENGTH);
const MOST_PARTS: usize = 1 << 16;

/// Product of a rule, with what its pair or its list does not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(16))]
struct Candidate {
    rank: u32,
    /// Number of the residual tests, 0 for none.
    residue: u32,
    /// Smallest value and span of the third field.
    first: u16,
    span: u16,
    /// Bit of the row of the third field.
    row_bit: u16,
    /// Bits of the fourth field.
    bits: u8,
}

/// Tests of sets that no other structure decides.
#[derive(Debug)]
struct Residue {
    /// Sets that are tested.
    sets: Box<[TestedSet]>,
    /// Number of tests before the first of each residual number, which begin at 1.
    firsts: Box<[u32]>,
    /// Indices of sets.
    tests: Box<[u32]>,
}

/// Set of values of a field.
#[derive(Debug)]
struct TestedSet {
    words: FieldWords,
    values: TestedValues,
}

#[derive(Debug)]
enum TestedValues {
    Set(FieldSet),
    /// Boxes: for each word of the field its smallest and largest value, and a value under a mask.
    Boxes(Box<[[u32; 4]]>),
}

/// Worst cases of a lookup.
#[derive(Clone, Copy, Debug, Default)]
struct Bounds {
    /// Largest numbers of lines of open rules that a key can read, of buckets of a probe, and of candidates.
    open_lines: usize,
    chain: usize,
    tests: usize,
    /// Largest number of lines of one candidate's residual tests.
    residue_lines: usize,
    parts: [usize; 2],
    pairs: usize,
}

impl SetPairs {
    /// Builds the engine from the products of `set`.
    ///
    /// # Errors
    /// If it would exceed the budget or [`Config::build_bytes`], has more parts or candidates than their numbers allow,
    /// or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default())
    }

    /// Builds the engine within the visits that `visits` allows.
    fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        let level = Level::choose(config.simd)?;
        build::build(set, config, level, visits)
    }

    /// Returns the bytes on the heap by part.
    fn bytes(&self) -> Vec<(&'static str, usize)> {
        let leaves: usize = self.axes.iter().map(|axis| axis.leaves.bytes()).sum();
        let classes: usize = self.axes.iter().map(|axis| size_of_val(&axis.classes[..])).sum();
        let third = self.third.as_ref().map_or(0, |third| third.leaves.bytes() + size_of_val(&third.rows[..]));
        let fourth = self.fourth.as_ref().map_or(0, |fourth| size_of_val(&fourth.bits[..]));
        vec![
            ("leaves", size_of_val(&self.axes[..]) + leaves),
            ("classes", classes),
            ("other fields", third + fourth),
            ("open rules", size_of_val(&self.anywhere[..]) + size_of_val(&self.open[..])),
            ("pairs", size_of_val(&self.buckets[..])),
            ("candidates", size_of_val(&self.candidates[..]) + self.residue.bytes()),
            ("matches", size_of_val(&self.matches[..])),
        ]
    }

    /// Number of cache lines of all leaves, of both classes and of a row.
    fn leaf_lines(&self) -> usize {
        let axes: usize = self.axes.iter().map(|axis| axis.leaves.lines() + 1).sum();
        axes + self.third.as_ref().map_or(0, |third| third.leaves.lines() + 2) + usize::from(self.fourth.is_some())
    }

    /// Number of cache lines that a lookup can touch.
    fn worst_lines(&self) -> usize {
        let Bounds { open_lines, chain, tests, residue_lines, .. } = self.bounds;
        let probes = if self.buckets.is_empty() { 0 } else { 9 * chain };
        self.leaf_lines() + 1 + open_lines + probes + tests.saturating_mul(1 + residue_lines) + 1
    }
}

impl Residue {
    fn bytes(&self) -> usize {
        let values = |set: &TestedSet| match &set.values {
            TestedValues::Set(set) => size_of_val(&set.intervals[..]),
            TestedValues::Boxes(boxes) => size_of_val(&boxes[..]),
        };
        let sets: usize = self.sets.iter().map(|set| values(set) + set.words.bytes()).sum();
        size_of_val(&self.sets[..]) + sets + size_of_val(&self.firsts[..]) + size_of_val(&self.tests[..])
    }
}

impl Engine for SetPairs {
    type Scratch = lookup::Queues;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> lookup::Queues {
        lookup::Queues::default()
    }

    fn stats(&self) -> Stats {
        let classes = |axis: usize| self.axes.get(axis).map_or(0, |axis| axis.classes.len() as u64);
        Stats {
            rules: self.matches.len(),
            regions: self.regions,
            bytes: self.bytes(),
            tables: 1,
            worst_tests: self.bounds.tests,
            worst_lines: self.worst_lines(),
            longest_bucket: 0,
            overflow: 0,
            keeps_shadowed: true,
            counts: NamedCounts::from([
                ("classes of the first axis", classes(0)),
                ("classes of the second", classes(1)),
                ("parts of the first", self.bounds.parts[0] as u64),
                ("parts of the second", self.bounds.parts[1] as u64),
                ("pairs", self.bounds.pairs as u64),
                ("candidates", self.candidates.len() as u64),
            ]),
        }
    }

    fn improve(&self, scratch: &mut lookup::Queues, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, lookup::Lookup { engine: self, queues: scratch, live_rules: All, keys, best });
    }

    /// Counts buckets probed, lines of open rules, candidates tested, and cache lines.
    fn count(&self, scratch: &mut lookup::Queues, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let counter = StepCounter::default();
        dispatch_scalar(lookup::Lookup { engine: self, queues: scratch, live_rules: &counter, keys, best });
        let [probes, open, tests] = [Step::Bucket, Step::Group, Step::Entry].map(|step| counter.of(step));
        let leaves = best.len() as u64 * (self.leaf_lines() + 1) as u64;
        NamedCounts::from([
            ("probes", probes),
            ("open lines", open),
            ("tests", tests),
            ("lines", leaves + probes + open + tests),
        ])
    }

    fn structure(&self) -> Option<String> {
        Some(self.describe())
    }
}

/// The place of a rule is its rank.
impl Base for SetPairs {
    /// Returns the number of candidates and of lines of open rules that a lookup reads at worst.
    fn visits(&self) -> usize {
        visits_of(self.bounds.tests + self.bounds.open_lines)
    }

    fn places(&self) -> usize {
        self.matches.len()
    }

    fn places_of(&self, _rule: RuleId, rank: usize, _regions: Range<usize>) -> Range<usize> {
        rank..rank + 1
    }
}

impl BaseEngine for SetPairs {
    const NAME: &'static str = "set_pairs";
    const TAKES_PRODUCTS: bool = true;
    /// Trees that separate the rules are faster, as long as the caches hold them.
    const WORTH_LINES: usize = 20;
    const WORTH_BYTES: usize = 16 << 20;

    fn build_base(set: &Lowered, how: &Build<'_>) -> Result<Self, BuildError> {
        let most = if how.is_forced { MOST_BUILD } else { MOST_BASE };
        let budget = Budget { run_bytes: how.run_bytes.min(most) };
        let config = Config { budget, simd: how.simd, build_bytes: most };
        Self::build_within(set, &config, how.visits).map_err(|error| match error.cap() {
            // An engine that outgrows the tables of its build would be too large to be of use.
            Some(Cap::BuildBytes) => BuildError::bytes(usize::MAX, budget.run_bytes),
            _ => error,
        })
    }

    /// Returns a bound from the numbers of boxes and products, and from the bytes that tables may take.
    fn build_bytes(set: &Lowered, is_forced: bool) -> usize {
        let most = if is_forced { MOST_BUILD } else { MOST_BASE };
        build::fixed_bytes(set).saturating_add(build::table_bytes(set, most))
    }

    /// Returns ten times the visits of policies that it serves well, and as many more as small sets take.
    fn build_visits(set: &Lowered) -> usize {
        set.products().map_or(set.region_count(), RuleProducts::len).saturating_mul(2048).saturating_add(1 << 24)
    }

    fn largest_scratch(_schema: &Schema) -> lookup::Queues {
        lookup::Queues::default()
    }

    fn improve_live(
        &self,
        scratch: &mut lookup::Queues,
        keys: &Keys<'_>,
        tombstones: &Tombstones,
        best: &mut [Option<Match>],
    ) {
        dispatch(self.level, lookup::Lookup { engine: self, queues: scratch, live_rules: tombstones, keys, best });
    }
}

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "set_pairs",
    summary: "the rules of each pair of address classes: for policies of large groups that overlap",
    options: || options::options::<Config>(&[]),
    build: |rules, settings| {
        let build_bytes = settings.build_bytes.min(MOST_BUILD);
        let config = Config { budget: settings.budget(), simd: settings.simd, build_bytes };
        options::configure(&[], &settings.options, &mut config.clone())?;
        Ok(Box::new(SetPairs::build_within(rules, &config, &settings.visits())?))
    },
    updatable: None,
};
