//! `linear`: every region in order, eight at a time.
//!
//! Use it for tiny sets, or if no other engine fits the budget.
//!
//! # Idea
//! Regions stand in order of priority in blocks of eight, and a block is tested whole. The first region that holds the
//! key wins. A lookup that has a match stops at the first block whose first region cannot beat it. For example, with a
//! match at priority 40 it skips a block that begins at priority 41 and all blocks behind.
//!
//! # Layout in memory
//! A block is, for each key word, eight `lo` and eight `hi`. Eight `value` and eight `mask` follow for each word on
//! which some rule of the set is ternary. Beside the blocks stands one [`Match`] per region. The last block is filled
//! by repeating the last region, which can never win over itself.
//!
//! Rules with far more regions than products of sets stay products: for each field the boxes of each set in blocks of
//! eight, and for each product the number of its set in each field. A product is tested field by field.
//!
//! # Cost
//! A region takes 8 bytes per key word (16 if the word is ternary) and 16 bytes. A lookup of a key that no rule matches
//! tests every region. A whole batch goes through one tile of blocks before the next, because a tile fits the
//! first-level cache.
//!
//! # Paper
//! None: the search that every classifier is compared with.
//!
//! # Deviations
//! None.

mod products;

use products::ProductList;

use crate::engine::base::{Base, BaseEngine, Build, visits_of};
use crate::engine::budget::{Budget, Visits};
use crate::engine::entry::Entry;
use crate::engine::observer::Step;
use crate::engine::options;
use crate::engine::steps::StepCounter;
use crate::engine::tombstones::{All, LiveRules, Tombstones};
use crate::engine::{Engine, Match, NamedCounts, Overlaps, Probe, Stats};
use crate::engines::shared::{BLOCK, Columns};
use crate::error::BuildError;
use crate::key::Keys;
use crate::raw::{Isa, Kernel, Level, dispatch, dispatch_scalar};
use crate::rule::{Lowered, Region};
use crate::schema::Schema;

/// Bytes of a tile, the blocks that a batch goes through at a time.
///
/// Half of a first-level cache of 32 KiB.
const TILE_BYTES: usize = 16 << 10;

/// Configuration of [`Linear`].
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Memory that the engine may take.
    pub budget: Budget,
    /// Instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
}

/// Linear search over all regions in order.
///
/// ```
/// use firstmatch_core::engines::linear::{Config, Linear};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
/// use firstmatch_core::{Classifier, KeyBuf};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let engine = Linear::build(&rules, &Config::default())?;
/// let mut keys = KeyBuf::new(engine.schema());
/// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, 443, 6]);
/// assert_eq!(engine.classify(&mut engine.scratch(), keys.keys()).map(|found| found.rule.slot()), Some(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Linear {
    schema: Schema,
    level: Level,
    rules: usize,
    /// Indices of the key words on which some region is ternary.
    ternary: Box<[usize]>,
    blocks: Box<[u32]>,
    matches: Box<[Match]>,
}

impl Linear {
    /// Builds the engine.
    ///
    /// # Errors
    /// If it would exceed the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        Self::build_within(set, config, &Visits::default())
    }

    /// Builds the engine within a limit on visits; it visits each region once.
    pub(crate) fn build_within(set: &Lowered, config: &Config, visits: &Visits) -> Result<Self, BuildError> {
        visits.add(set.expanded()?.len());
        visits.check()?;
        let level = Level::choose(config.simd)?;
        let (regions, schema) = (set.regions(), set.schema());
        let ternary = regions.ternary_words().into_boxed_slice();
        let key_words = schema.words().len();
        let columns = Columns { key_words, ternary: &ternary };
        let words = columns.words();
        let needed = regions.len().div_ceil(BLOCK) * words * size_of::<u32>()
            + size_of_val(set.rules())
            + size_of_val(&ternary[..]);
        if needed > config.budget.run_bytes {
            return Err(BuildError::bytes(needed, config.budget.run_bytes));
        }
        let mut blocks = vec![0; regions.len().div_ceil(BLOCK) * words].into_boxed_slice();
        for (index, block) in blocks.chunks_exact_mut(words).enumerate() {
            for at in 0..BLOCK {
                columns.write(block, at, regions, (index * BLOCK + at).min(regions.len() - 1));
            }
        }
        let rules = set.by_rule().count();
        Ok(Self { schema: schema.clone(), level, rules, ternary, blocks, matches: set.rules().into() })
    }

    fn columns(&self) -> Columns<'_> {
        Columns { key_words: self.schema.words().len(), ternary: &self.ternary }
    }

    fn block_words(&self) -> usize {
        self.columns().words()
    }
}

impl Engine for Linear {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        let blocks = size_of_val(&self.blocks[..]);
        let matches = size_of_val(&self.matches[..]);
        Stats {
            rules: self.rules,
            regions: self.matches.len(),
            bytes: vec![("blocks", blocks), ("matches", matches), ("ternary words", size_of_val(&self.ternary[..]))],
            tables: 1,
            worst_tests: self.matches.len(),
            worst_lines: (blocks + matches).div_ceil(64),
            longest_bucket: self.matches.len(),
            overflow: 0,
            keeps_shadowed: true,
            ..Stats::default()
        }
    }

    fn improve(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        dispatch(self.level, Lookup { engine: self, live_rules: All, keys: *keys, best });
    }

    /// Counts blocks, the regions in them, and their cache lines.
    fn count(&self, _scratch: &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let counter = StepCounter::default();
        dispatch_scalar(Lookup { engine: self, live_rules: &counter, keys: *keys, best });
        let blocks = counter.of(Step::Block);
        let bytes = blocks * size_of_val(&self.blocks[..self.block_words().min(self.blocks.len())]) as u64;
        NamedCounts::from([("blocks", blocks), ("tests", blocks * BLOCK as u64), ("lines", bytes.div_ceil(64))])
    }
}

/// Goes through the regions in order of priority; a cursor is the index of a region.
impl Overlaps for Linear {
    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        let from = usize::try_from(cursor).unwrap_or(usize::MAX).min(self.matches.len());
        let to = from.saturating_add(most.max(1)).min(self.matches.len());
        let mut row = std::mem::take(&mut probe.row);
        let mut is_over = to == self.matches.len();
        for index in from..to {
            let found = self.matches[index];
            // Later regions have larger priorities.
            if !probe.takes(found.priority.0) {
                is_over = true;
                break;
            }
            let block = &self.blocks[index / BLOCK * self.block_words()..];
            self.columns().read(block, index % BLOCK, &mut row, |region| {
                if probe.overlaps(&region) {
                    visit(probe, found, region);
                }
            });
        }
        probe.row = row;
        (!is_over).then_some(to as u64)
    }

    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool {
        let mut row = std::mem::take(&mut probe.row);
        let first = self.matches.partition_point(|of| of.priority < rule.priority);
        let own = self.matches[first..].iter().take_while(|of| **of == rule).count();
        let is_there = (first..first + own).any(|index| {
            let block = &self.blocks[index / BLOCK * self.block_words()..];
            self.columns().read(block, index % BLOCK, &mut row, |region| {
                let holds = region.contains(key);
                if holds {
                    probe.become_home(&region, key);
                }
                holds
            })
        });
        probe.row = row;
        is_there
    }
}

/// A place is the index of a region.
impl Base for Linear {
    fn visits(&self) -> usize {
        visits_of(self.matches.len())
    }

    fn places(&self) -> usize {
        self.matches.len()
    }
}

impl BaseEngine for Linear {
    const NAME: &'static str = "linear";
    const IS_LIST: bool = true;

    fn build_base(set: &Lowered, how: &Build<'_>) -> Result<Self, BuildError> {
        let config = Config { budget: Budget { run_bytes: how.run_bytes }, simd: how.simd };
        Self::build_within(set, &config, how.visits)
    }

    /// Returns the bytes of blocks and matches, and a small allowance.
    fn build_bytes(set: &Lowered, _is_forced: bool) -> usize {
        let regions = set.regions();
        let key_words = set.schema().words().len() + regions.ternary_words().len();
        regions.len().next_multiple_of(BLOCK) * (8 * key_words + 24) + 2048
    }

    fn tests_of(set: &Lowered) -> Option<usize> {
        Some(set.regions().len())
    }

    fn largest_scratch(_schema: &Schema) {}

    fn improve_live(&self, _scratch: &mut (), keys: &Keys<'_>, tombstones: &Tombstones, best: &mut [Option<Match>]) {
        dispatch(self.level, Lookup { engine: self, live_rules: tombstones, keys: *keys, best });
    }
}

/// Entry of the registry.
pub(crate) const ENTRY: Entry = Entry {
    name: "linear",
    summary: "every rule in order, eight at a time: for small sets, and to compare with",
    options: Vec::new,
    build: |rules, settings| {
        let (budget, simd) = (settings.budget(), settings.simd);
        options::configure(&[], &settings.options, &mut ())?;
        match rules.products().filter(|_| rules.has_far_more_regions()) {
            Some(products) => {
                let level = Level::choose(simd)?;
                Ok(Box::new(ProductList::build(rules, products, budget, level, &settings.visits())?))
            }
            None => Ok(Box::new(Linear::build_within(rules, &Config { budget, simd }, &settings.visits())?)),
        }
    },
    updatable: None,
};

struct Lookup<'a, A> {
    engine: &'a Linear,
    live_rules: A,
    keys: Keys<'a>,
    best: &'a mut [Option<Match>],
}

impl<A: LiveRules> Kernel for Lookup<'_, A> {
    #[inline(always)]
    fn run<I: Isa>(self, isa: I) {
        let Self { engine, live_rules, keys, best } = self;
        let key_words = engine.schema.words().len();
        let words = engine.block_words();
        let tile = (TILE_BYTES / size_of::<u32>() / words).max(1);
        for (index, blocks) in engine.blocks.chunks(tile * words).enumerate() {
            let matches = &engine.matches[index * tile * BLOCK..];
            let mut open = false;
            for (i, best) in best.iter_mut().enumerate() {
                if !Match::wins(matches[0].priority, best) {
                    continue;
                }
                open = true;
                let key = keys.row(i);
                for (at, (block, matches)) in blocks.chunks_exact(words).zip(matches.chunks(BLOCK)).enumerate() {
                    if !Match::wins(matches[0].priority, best) {
                        break;
                    }
                    live_rules.saw(Step::Block);
                    let (bounds, masks) = block.split_at(2 * BLOCK * key_words);
                    let mut hits = isa.inside8(bounds, key, key_words);
                    for (word, masks) in engine.ternary.iter().zip(masks.as_chunks::<16>().0) {
                        hits &= isa.masked8(masks, key[*word]);
                    }
                    if !A::ALL && hits != 0 {
                        hits &= live_rules.of_eight(index * tile + at);
                    }
                    if hits != 0 {
                        let found = matches[hits.trailing_zeros() as usize];
                        if Match::wins(found.priority, best) {
                            *best = Some(found);
                        }
                        break;
                    }
                }
            }
            if !open {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::KeyBuf;
    use crate::rule::Test;
    use crate::schema::{Field, Kind};
    use crate::test_rules::set;

    /// Marks count in every tile of blocks, up to the last region, whose block is filled with copies of it.
    #[test]
    fn marks_count_in_every_tile() {
        // A tile is of 51 blocks of 5-tuples: three of them, the last block not full.
        let all = set(&Schema::ipv4(), (0..1003u128).map(|at| vec![(3, Test::Range { lo: at / 2, hi: at / 2 + 40 })]));
        let mut keys = KeyBuf::new(all.schema());
        (0..560).for_each(|at| keys.push()[3] = at);
        for level in Level::available() {
            let engine = Linear::build(&all, &Config { simd: Some(level), ..Config::default() }).expect("no budget");
            assert!(engine.blocks.len() * size_of::<u32>() > 2 * TILE_BYTES);
            for step in [1, 2, 3, 70] {
                let mut dead = Tombstones::none(engine.places(), 1003);
                let marked = (0..1003).filter(|at| at % step != 0 || [0, 407, 408, 816, 1002].contains(at));
                marked.for_each(|at| dead.mark(all.rules()[at].rule, at..at + 1));
                let mut got = vec![None; keys.len()];
                engine.improve_live(&mut (), &keys.keys(), &dead, &mut got);
                for (at, got) in got.into_iter().enumerate() {
                    let holds = |of: &usize| all.regions().get(*of).contains(keys.keys().row(at)) && dead.is_live(*of);
                    let want = (0..1003).find(holds).map(|of| all.rules()[of]);
                    assert_eq!(got, want, "{level:?}, port {at}, one of {step} rules left");
                }
            }
        }
    }

    /// A budget is taken to the byte, with the list of words under masks; one byte less is refused, with both numbers.
    #[test]
    fn a_budget_is_taken_to_the_byte() {
        let fields = ["a", "b"].map(|name| Field::new(name, 16, Kind::Mask, None));
        let schema = Schema::new(None, fields.into());
        let masks = (0..13u128).map(|at| vec![(1, Test::Mask { value: at & 5, mask: 5 }), (0, Test::Value(at))]);
        for all in [set(&schema, masks), set(&schema, (0..13u128).map(|at| vec![(0, Test::Value(at))]))] {
            let with = |run_bytes| Linear::build(&all, &Config { budget: Budget { run_bytes }, simd: None });
            let needed = Engine::stats(&with(usize::MAX).expect("no budget")).total_bytes();
            let ternary = all.regions().ternary_words().len();
            assert_eq!(needed, 2 * 8 * 8 * (2 + ternary) + 13 * 16 + ternary * size_of::<usize>());
            assert!(with(needed).is_ok());
            assert_eq!(with(needed - 1).expect_err("a byte is missing").bytes_needed(), Some((needed, needed - 1)));
        }
    }
}
