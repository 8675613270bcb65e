mod live;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::updater::Updater;
use super::*;
use crate::engine::Probe;
use crate::engines::cut_tree::{self, CutTree};
use crate::engines::linear::{self, Linear};
use crate::engines::shared::RegionList;
use crate::engines::shared::wide::Random;
use crate::engines::tuple::{self, TupleMerge};
use crate::key::KeyBuf;
use crate::rule::{Priority, Region, Test};
use crate::schema::{Field, Kind};
use crate::test_rules::set;

/// Schema of some words of this many bits, under masks.
fn schema(words: usize, bits: u32) -> Schema {
    let names = ["a", "b", "c"];
    Schema::new(None, names[..words].iter().map(|name| Field::new(name, bits, Kind::Mask, None)).collect())
}

fn range(lo: u128, hi: u128) -> Test {
    Test::Range { lo, hi }
}

/// Table 3 of the paper: four rules over two fields of four bits.
fn table_3() -> Lowered {
    let rules = [[1, 9, 4, 10], [7, 14, 3, 8], [3, 11, 1, 6], [0, 15, 0, 11]];
    let fields = ["x", "y"].map(|name| Field::new(name, 4, Kind::Range, None));
    let schema = Schema::new(None, fields.to_vec());
    set(&schema, rules.map(|[a, b, c, d]| vec![(0, range(a, b)), (1, range(c, d))]))
}

fn first(rules: &Lowered, key: &[u32]) -> Option<Match> {
    let found = rules.regions().iter().position(|region| region.contains(key));
    found.map(|at| rules.rules()[at])
}

fn level() -> Level {
    Level::choose(None).expect("no level is forced")
}

fn list(rules: &Lowered) -> RegionList {
    RegionList::build(rules, level(), usize::MAX).expect("no limit")
}

/// Returns bounds (all `lo`, then all `hi`) and weight of each box after some samples, in slices of `tests` regions.
fn boxes(
    config: &Config,
    rules: &dyn Overlaps,
    samples: &[(Vec<u32>, Option<Match>)],
    tests: usize,
) -> Vec<(Vec<u32>, u32)> {
    let schema = schema(samples[0].0.len(), 4);
    let mut updater = Updater::new(config, schema.words().len());
    for (key, answer) in samples {
        updater.take(key, *answer);
        // Without a limit, one slice is enough.
        for _ in 0..if tests == usize::MAX { 1 } else { 1000 } {
            updater.go_on(rules, schema.words(), tests);
        }
    }
    updater.boxes().into_iter().map(|of| ([of.lo, of.hi].concat(), of.weight)).collect()
}

fn answered(rules: &Lowered, keys: &[[u32; 2]]) -> Vec<(Vec<u32>, Option<Match>)> {
    keys.iter().map(|key| (key.to_vec(), first(rules, key))).collect()
}

#[test]
fn table_3_as_in_figure_4() {
    let rules = table_3();
    let of = |config: &Config, keys: &[[u32; 2]]| boxes(config, &list(&rules), &answered(&rules, keys), 100);
    let six = [[2, 8], [5, 6], [12, 5], [13, 7], [6, 2], [4, 3]];
    let grown = [(vec![2, 6, 5, 8], 2), (vec![12, 5, 13, 7], 2), (vec![4, 2, 6, 3], 2)];
    let home = Config { home_first: true, ..Config::paper() };
    for config in [Config::paper(), home] {
        assert_eq!(of(&config, &six), grown);
        // The hull of two samples of one rule may reach a better one.
        assert_eq!(of(&config, &[[8, 3], [13, 8]]), [(vec![8, 3, 8, 3], 1), (vec![13, 8, 13, 8], 1)]);
        assert_eq!(of(&config, &[[8, 3], [13, 3]]), [(vec![8, 3, 13, 3], 2)]);
    }
    let carved = [(vec![1, 4, 9, 10], 2), (vec![10, 3, 14, 8], 2), (vec![3, 1, 11, 2], 1), (vec![3, 1, 6, 3], 1)];
    assert_eq!(of(&Config::default(), &six), carved);
    for tests in [1, 2, 3, usize::MAX] {
        let samples = answered(&rules, &six);
        assert_eq!(boxes(&Config::default(), &list(&rules), &samples, tests), carved, "slices of {tests}");
        assert_eq!(boxes(&Config::paper(), &list(&rules), &samples, tests), grown, "slices of {tests}");
    }
}

/// Between two regions of one rule lies a key of none, so that no region holds the hull.
#[test]
fn a_gap_is_no_box() {
    let rule = |slot: u32| Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
    let with = |second: Option<[u32; 2]>, gap: u32| {
        let mut list = RegionList::new(1, level());
        for [lo, hi] in [[0, gap], [6, 9]] {
            list.add(rule(0), &Region { lo: &[lo], hi: &[hi], ternary: None });
        }
        if let Some([lo, hi]) = second {
            list.add(rule(2), &Region { lo: &[lo], hi: &[hi], ternary: None });
        }
        list
    };
    let samples = |a, b| vec![(vec![a], Some(rule(0))), (vec![b], Some(rule(0)))];
    let two = |a, b| vec![(vec![a, a], 1), (vec![b, b], 1)];
    assert_eq!(boxes(&Config::paper(), &with(None, 3), &samples(1, 7), 100), two(1, 7));
    assert_eq!(boxes(&Config::paper(), &with(Some([0, 15]), 4), &samples(2, 7), 100), two(2, 7));
    assert_eq!(boxes(&Config::paper(), &with(Some([0, 15]), 4), &samples(2, 4), 100), [(vec![2, 4], 2)]);
}

/// Rule 0 is value 4 under mask 4, rule 1 is everything.
#[test]
fn masks_are_cut_at_their_bits() {
    let rules = set(&schema(1, 4), [vec![(0, Test::Mask { value: 4, mask: 4 })], vec![]]);
    for (key, bounds) in [(9, [8, 11]), (2, [0, 3]), (13, [12, 15])] {
        let sample = [(vec![key], first(&rules, &[key]))];
        for overlaps in searches(&rules) {
            assert_eq!(boxes(&Config::default(), &*overlaps, &sample, 100), [(bounds.to_vec(), 1)], "{key}");
        }
    }
}

/// Returns every search for overlapping regions.
fn searches(rules: &Lowered) -> [Arc<dyn Overlaps>; 3] {
    let linear = Linear::build(rules, &linear::Config::default()).expect("no budget");
    let tree = CutTree::build(rules, &cut_tree::Config::default()).expect("no budget");
    [Arc::new(list(rules)), Arc::new(linear), Arc::new(tree)]
}

/// Boxes are the same by any search, and a cache over a shared one answers as the rules do.
#[test]
fn any_search_proves_the_same_boxes() {
    let rules = table_3();
    let six = [[2, 8], [5, 6], [12, 5], [13, 7], [6, 2], [4, 3]];
    for config in [Config::default(), Config::paper()] {
        let want = boxes(&config, &list(&rules), &answered(&rules, &six), usize::MAX);
        for overlaps in searches(&rules) {
            assert_eq!(boxes(&config, &*overlaps, &answered(&rules, &six), usize::MAX), want);
            let inner = Linear::build(&rules, &linear::Config::default()).expect("no budget");
            let cache = RuleCache::new(inner, overlaps, &Config { growth: config.growth, ..eager() });
            let (cache, keys) =
                (cache.expect("no level is forced"), rows(rules.schema(), (0..256).map(|at| [at / 16, at % 16])));
            let mut scratch = cache.scratch();
            for _ in 0..8 {
                for at in (0..256).step_by(16) {
                    let mut got = [None; 16];
                    cache.classify_batch(&mut scratch, keys.keys().slice(at, at + 16), &mut got);
                    let want = (at..at + 16).map(|row| first(&rules, keys.keys().row(row)));
                    assert!(want.eq(got));
                }
            }
            assert!(RuleCache::<Linear>::counts(&scratch).lookups.hits > 0);
        }
    }
}

/// Random rule sets with masks, ranges and keys of no rule, for carved boxes and for boxes that grow.
#[test]
fn boxes_hold_keys_of_one_answer() {
    let mut random = Random(11);
    let schema = schema(3, 4);
    let mut checked = 0;
    for round in 0..60 {
        let rules: Vec<Vec<(usize, Test)>> = (0..1 + random.below(9))
            .map(|_| {
                let test = |field: usize, random: &mut Random| {
                    let (value, more) = (random.below(16) as u128, random.below(6) as u128);
                    let mask = random.below(16) as u128;
                    let tests = [Test::Mask { value: value & mask, mask }, range(value, (value + more).min(15))];
                    (field, tests[random.below(2)])
                };
                let mut tests = Vec::new();
                for field in 0..3 {
                    if random.below(4) > 0 {
                        tests.push(test(field, &mut random));
                    }
                }
                tests
            })
            .collect();
        let lowered = set(&schema, rules);
        let paper = Config { unmatched: true, ..Config::paper() };
        for config in [Config::default(), paper.clone(), Config { home_first: true, ..paper }] {
            let keys: Vec<Vec<u32>> = (0..40).map(|_| (0..3).map(|_| random.below(16) as u32).collect()).collect();
            let samples: Vec<_> = keys.iter().map(|key| (key.clone(), first(&lowered, key))).collect();
            let mut updater = Updater::new(&config, 3);
            for (key, answer) in &samples {
                updater.take(key, *answer);
                for _ in 0..300 {
                    updater.go_on(&list(&lowered), schema.words(), 2);
                }
            }
            let boxes: Vec<_> =
                updater.boxes().into_iter().map(|of| ([of.lo, of.hi].concat(), of.answer, of.weight)).collect();
            for (key, answer) in &samples {
                let holds = |bounds: &[u32]| (0..3).all(|w| bounds[w] <= key[w] && key[w] <= bounds[w + 3]);
                let own = boxes.iter().find(|(bounds, ..)| holds(bounds)).expect("each sample has a box");
                assert_eq!(own.1, *answer, "round {round}");
            }
            for (bounds, answer, weight) in boxes {
                assert!(weight > 0);
                for a in bounds[0]..=bounds[3] {
                    for b in bounds[1]..=bounds[4] {
                        for c in bounds[2]..=bounds[5] {
                            assert_eq!(first(&lowered, &[a, b, c]), answer, "round {round}: {bounds:?}");
                            checked += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(checked > 100_000, "{checked} cells");
}

/// Configuration that samples every packet and never steps aside.
fn eager() -> Config {
    Config { sample: [1, 1], steps_aside: false, window: 16, tests: usize::MAX, ..Config::default() }
}

fn rows(schema: &Schema, rows: impl IntoIterator<Item = [u32; 2]>) -> KeyBuf {
    let mut keys = KeyBuf::new(schema);
    rows.into_iter().for_each(|row| keys.push()[..2].copy_from_slice(&row));
    keys
}

/// The key of zeros is in no box but those that hold it, although most places of a block are filled with copies.
#[test]
fn places_behind_the_last_box_hold_nothing() {
    let rules = table_3();
    for level in Level::available() {
        let config = Config { simd: Some(level), ..eager() };
        let inner = Linear::build(&rules, &linear::Config::default()).expect("no budget");
        let cache = RuleCache::over(inner, &rules, &config).expect("no budget");
        let mut scratch = cache.scratch();
        for key in [[2, 8], [2, 8], [0, 0], [12, 5], [0, 0], [15, 15], [0, 15]] {
            let keys = rows(rules.schema(), [key]);
            assert_eq!(cache.classify(&mut scratch, keys.keys()), first(&rules, &key), "{key:?}");
        }
        assert!(RuleCache::<Linear>::counts(&scratch).lookups.hits >= 2);
    }
}

/// Rules come and go between batches; no answer is of earlier rules.
#[test]
fn boxes_of_other_rules_are_forgotten() {
    come_and_go(&Config { growth: Growth::Grow, ..eager() });
    come_and_go(&eager());
}

fn come_and_go(config: &Config) {
    let (all, mut random) = (table_3(), Random(5));
    let mut inner = TupleMerge::new(all.schema(), &tuple::Config::default()).expect("no budget");
    for (at, rule) in all.rules().iter().enumerate() {
        let mut regions = Regions::new(2);
        regions.push(all.regions().get(at));
        inner.insert(*rule, &regions).expect("no budget");
    }
    let mut cache = RuleCache::over(inner, &all, config).expect("no budget");
    let (mut scratch, mut live) = (cache.scratch(), [true; 4]);
    let mut hits = 0;
    for step in 0..400 {
        let at = random.below(4);
        let rule = all.rules()[at];
        if live[at] {
            cache.remove(rule.rule).expect("it is there");
        } else {
            let mut regions = Regions::new(2);
            regions.push(all.regions().get(at));
            cache.insert(rule, &regions).expect("no budget");
        }
        live[at] ^= true;
        let before = RuleCache::<TupleMerge>::counts(&scratch).lookups.hits;
        for _ in 0..6 {
            let keys = rows(
                all.schema(),
                (0..1 + random.below(70)).map(|_| [random.below(16), random.below(12)].map(|v| v as u32)),
            );
            let mut got = vec![None; keys.len()];
            cache.classify_batch(&mut scratch, keys.keys(), &mut got);
            for (row, got) in got.into_iter().enumerate() {
                let key = keys.keys().row(row);
                let want = (0..4).find(|&at| live[at] && all.regions().get(at).contains(key)).map(|at| all.rules()[at]);
                assert_eq!(got, want, "step {step}, {key:?}");
            }
        }
        hits += RuleCache::<TupleMerge>::counts(&scratch).lookups.hits - before;
    }
    assert!(hits > 1000, "{hits} hits");
}

/// A match to beat stays where nothing is better, and such a packet is no sample, because its own answer is unknown.
#[test]
fn better_matches_stay() {
    let rules = table_3();
    let inner = Linear::build(&rules, &linear::Config::default()).expect("no budget");
    let cache = RuleCache::over(inner, &rules, &eager()).expect("no budget");
    let mut scratch = cache.scratch();
    let keys = rows(rules.schema(), [[2, 8]; 8]);
    let better = Match { rule: RuleId::new(9, 0), priority: Priority(0) };
    let mut best = [Some(better); 8];
    for _ in 0..3 {
        cache.improve_batch(&mut scratch, &keys.keys(), &mut best);
        assert_eq!(best, [Some(better); 8]);
    }
    assert_eq!(RuleCache::<Linear>::counts(&scratch).samples, 0);
    for _ in 0..3 {
        cache.classify_batch(&mut scratch, keys.keys(), &mut best);
        assert_eq!(best, [first(&rules, &[2, 8]); 8]);
    }
    assert!(RuleCache::<Linear>::counts(&scratch).lookups.hits > 0);
}

/// Budgets count the list of regions, to the byte.
#[test]
fn the_list_keeps_its_budget() {
    let rules = table_3();
    let build = |run_bytes| {
        let inner = Linear::build(&rules, &linear::Config::default()).expect("no budget");
        let budget = crate::Budget { run_bytes };
        RuleCache::over(inner, &rules, &Config { budget, ..Config::default() })
    };
    let (needed, allowed) = build(0).expect_err("no room").bytes_needed().expect("bytes");
    let built = build(needed).expect("what it needs");
    let Rules::Own(list) = &built.rules else { panic!("its own list") };
    assert_eq!((list.bytes(), allowed), (needed, 0));
    let error = build(needed - 1).expect_err("a byte less");
    assert_eq!(error.bytes_needed(), Some((needed, needed - 1)));
}

/// Few boxes with most of the weight are published, and a block that few packets would reach is not.
#[test]
fn blocks_that_answer_few_are_left_out() {
    let config = Config { window: 256, boxes: 16, ..Config::default() };
    let rules = set(&schema(1, 4), (0..16).map(|value| vec![(0, Test::Value(value))]));
    let published = |times: &[usize]| {
        let (mut updater, mut boxes) = (Updater::new(&config, 1), Boxes::new(1, 16));
        for (key, &times) in times.iter().enumerate() {
            for _ in 0..times {
                updater.take(&[key as u32], first(&rules, &[key as u32]));
                updater.go_on(&list(&rules), rules.schema().words(), 1000);
            }
        }
        updater.publish(&mut boxes);
        let keys = {
            let mut keys = KeyBuf::new(rules.schema());
            (0..16).for_each(|key| keys.push()[0] = key);
            keys
        };
        let mut held = 0;
        for level in Level::available() {
            let mut hits = 0;
            let found = &mut Found::new();
            dispatch(level, Note { boxes: &boxes, found, keys: keys.keys(), hits: &mut hits });
            held = hits;
        }
        held
    };
    assert_eq!(published(&[16; 16]), 16);
    assert_eq!(published(&[20, 20, 20, 20, 20, 20, 20, 20, 1, 1, 1, 1, 1, 1, 1, 1]), 16, "of all that reach it, all");
    assert_eq!(published(&[2; 2]), 2);
    let few = Config { window: 32, ..config.clone() };
    let mut updater = Updater::new(&few, 1);
    for key in 0..16 {
        updater.take(&[key], first(&rules, &[key]));
        updater.go_on(&list(&rules), rules.schema().words(), 1000);
    }
    // The window forgets the first boxes with their last sample.
    for _ in 0..32 {
        updater.take(&[3], first(&rules, &[3]));
    }
    assert_eq!(updater.boxes().len(), 1);
}

/// Counted lookups go box by box: the heavier of two boxes first, and a key in no box sees the whole block.
#[test]
fn comparisons_are_counted_box_by_box() {
    let rules = set(&schema(1, 4), [vec![(0, range(0, 3))], vec![(0, range(4, 7))]]);
    let inner = Linear::build(&rules, &linear::Config::default()).expect("no budget");
    let cache =
        RuleCache::over(inner, &rules, &Config { least_share: 0.0, unmatched: false, ..eager() }).expect("no budget");
    let mut scratch = cache.scratch();
    let one = |scratch: &mut Scratch, key: u32| {
        let mut keys = KeyBuf::new(rules.schema());
        keys.push()[0] = key;
        let counts = cache.count_batch(scratch, &keys.keys(), &mut [None]);
        ["hits", "misses", "boxes compared"].map(|name| counts.get(name).expect("a count"))
    };
    assert_eq!(one(&mut scratch, 5), [0, 1, 0]);
    assert_eq!(one(&mut scratch, 1), [0, 1, 8]);
    assert_eq!([one(&mut scratch, 2), one(&mut scratch, 3)], [[1, 0, 2], [1, 0, 1]]);
    assert_eq!([one(&mut scratch, 4), one(&mut scratch, 9)], [[1, 0, 2], [0, 1, 8]]);
}

/// Rules whose version rises while a box is carved, if asked to.
#[derive(Debug)]
struct Restless {
    inner: Linear,
    version: AtomicU64,
    rises: AtomicBool,
}

impl Engine for Restless {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        Engine::schema(&self.inner)
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        Engine::stats(&self.inner)
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    fn improve(&self, (): &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.inner.improve_batch(&mut self.inner.scratch(), keys, best);
    }
}

impl Overlaps for Restless {
    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        self.version.fetch_add(self.rises.load(Ordering::Relaxed).into(), Ordering::Relaxed);
        self.inner.visit(probe, cursor, most, visit)
    }

    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool {
        self.inner.home(rule, key, probe)
    }
}

/// Published boxes have the right answers at each level, and answer only for the version of their rules.
#[test]
fn published_boxes_are_of_one_version() {
    let rules = table_3();
    let inner = Linear::build(&rules, &linear::Config::default()).expect("no budget");
    let engine = Arc::new(Restless { inner, version: AtomicU64::new(7), rises: AtomicBool::new(false) });
    let all = rows(rules.schema(), (0..256).map(|at| [at / 16, at % 16]));
    for level in Level::available() {
        let config = Config { simd: Some(level), ..eager() };
        let (shared, overlaps): (Arc<dyn Classifier>, Arc<dyn Overlaps>) = (engine.clone(), engine.clone());
        let mut updater = BoxUpdater::new(shared, overlaps, &config).expect("no level is forced");
        let (mut boxes, mut search) = (updater.boxes(), BoxSearch::new(0));
        assert_eq!(boxes.improve(boxes.version(), &mut search, &all.keys(), &mut [None; 256]).len(), 256);
        let mut sample = |key: [u32; 2]| {
            let is_new = updater.sample(rows(rules.schema(), [key]).keys());
            if is_new {
                updater.publish(&mut boxes);
            }
            let (mut best, mut hits) = ([None; 256], 256);
            let version = boxes.version();
            assert_eq!(boxes.improve(version + 1, &mut search, &all.keys(), &mut best).len(), 256);
            assert_eq!(best, [None; 256], "boxes of another version");
            let open = boxes.improve(version, &mut search, &all.keys(), &mut best);
            hits -= open.len();
            for (row, best) in best.iter().enumerate() {
                let is_hit = open.binary_search(&(row as u32)).is_err();
                let want = first(&rules, all.keys().row(row)).filter(|_| is_hit);
                assert_eq!(*best, want, "row {row}");
            }
            (is_new, hits, version)
        };
        let version = Classifier::version(&*engine);
        assert_eq!(sample([2, 8]), (true, 63, version), "the box 1 to 9, 4 to 10");
        assert_eq!(sample([12, 5]), (true, 63 + 30, version), "and 10 to 14, 3 to 8");
        // The rules change within a step: its box is not published, and no box from before the change is left.
        engine.rises.store(true, Ordering::Relaxed);
        assert_eq!(sample([6, 2]), (false, 63 + 30, version));
        engine.rises.store(false, Ordering::Relaxed);
        let newer = Classifier::version(&*engine);
        assert!(newer > version);
        assert_eq!(sample([6, 2]), (true, 18, newer), "3 to 11, 1 to 2");
        assert_eq!(updater.samples(), 4);
    }
}

/// Table 1 of the paper, as ranges (Table 2).
fn table_1() -> Lowered {
    let fields = [4, 4, 2, 2, 1].into_iter().zip(["f1", "f2", "f3", "f4", "f5"]);
    let fields = fields.map(|(bits, name)| Field::new(name, bits, Kind::Range, None));
    let rules: [[(u128, u128); 5]; 8] = [
        [(0, 1), (14, 15), (2, 2), (0, 3), (0, 0)],
        [(0, 1), (8, 11), (1, 1), (2, 2), (1, 1)],
        [(0, 1), (4, 7), (0, 3), (3, 3), (1, 1)],
        [(0, 7), (8, 15), (0, 3), (1, 1), (0, 0)],
        [(0, 7), (0, 7), (2, 2), (0, 3), (0, 0)],
        [(0, 1), (0, 7), (0, 3), (1, 1), (0, 0)],
        [(0, 15), (0, 15), (0, 3), (0, 3), (0, 0)],
        [(0, 15), (0, 15), (0, 3), (0, 3), (1, 1)],
    ];
    let tests = |rule: [(u128, u128); 5]| rule.into_iter().map(|(lo, hi)| range(lo, hi)).enumerate().collect();
    set(&Schema::new(None, fields.collect()), rules.map(tests))
}

/// Figure 5: the box (01*, 01*, 10, *, UDP) of action 1 may be made, and without UDP it may not.
///
/// The paper says that it may be made with any protocol, but rule 4 is for UDP alone and rule 6 is in the way.
#[test]
fn the_check_of_figure_5() {
    let rules = table_1();
    let config = cut_tree::Config { binth: 4, cuts: vec![vec![(1, 2), (3, 1)]], ..cut_tree::Config::default() };
    let tree = CutTree::build(&rules, &config).expect("no budget");
    let children =
        "{r5 r6 r7 r8} {r5 r7 r8} {r5 r6 r7 r8} {r3 r5 r7 r8} {r4 r7 r8} {r2 r7 r8} {r1 r4 r7 r8} {r1 r7 r8}";
    assert_eq!(Engine::structure(&tree), Some(format!("[f2/4 f4/2: {children}]\n")));
    let priority = |rule: usize| rules.rules()[rule].priority;
    let is_own = |rule: RuleId| [1, 4, 5].contains(&rule.slot());
    // In the tree, regions that do not beat the best so far are not tested, and none is tested twice.
    for (protocol, matched, conflict, tested) in [(0, Some(4), None, 2), (1, None, Some(6), 4)] {
        let probe = Probe::new(&[4, 4, 2, 0, 0], &[7, 7, 2, 3, protocol]);
        for search in searches(&rules).iter().map(|search| &**search).chain([&tree as &dyn Overlaps]) {
            let check = BoxCheck::of(search, &mut probe.clone(), is_own);
            assert_eq!((check.matched, check.conflict), (matched.map(priority), conflict.map(priority)));
            assert_eq!(check.accepts(), protocol == 0);
        }
        let mut probe = probe.clone();
        BoxCheck::of(&tree, &mut probe, is_own);
        assert_eq!(probe.tested, tested);
    }
}

/// Boxes of narrow rules meet few cells of the tree, where the list tests every region for each box.
#[test]
fn the_tree_tests_few_regions() {
    let schema = Schema::new(None, ["a", "b"].map(|name| Field::new(name, 16, Kind::Range, None)).to_vec());
    let mut random = Random(3);
    let rules: Vec<_> = (0..1000)
        .map(|_| {
            let [a, b] = [(); 2].map(|()| random.below(65_000) as u128);
            vec![(0, range(a, a + 300)), (1, range(b, b + 300))]
        })
        .collect();
    let rules = set(&schema, rules);
    let engine: Arc<dyn Classifier> = Arc::new(Linear::build(&rules, &linear::Config::default()).expect("no budget"));
    let mut keys = KeyBuf::new(&schema);
    for _ in 0..2000 {
        let region = rules.regions().get(random.below(20));
        let key: Vec<u32> = region.lo.iter().map(|lo| lo + random.below(300) as u32).collect();
        keys.push()[..2].copy_from_slice(&key);
    }
    let ran = |search: Arc<dyn Overlaps>| {
        let mut updater = BoxUpdater::new(Arc::clone(&engine), search, &Config::paper()).expect("no level is forced");
        let published = (0..2000).filter(|&at| updater.sample(keys.keys().slice(at, at + 1))).count();
        assert!(published > 64);
        (updater.evolving(), updater.proved_by())
    };
    let list = Arc::new(RegionList::build(&rules, level(), usize::MAX).expect("no budget"));
    let tree = CutTree::build(&rules, &cut_tree::Config::paper(cut_tree::Method::HyperCuts)).expect("no budget");
    let ((boxes, [no_node, by_list]), (same, [nodes, by_tree])) = (ran(list), ran(Arc::new(tree)));
    assert!(boxes == same && no_node == 0 && nodes > 0, "{boxes} and {same} boxes, {nodes} nodes");
    assert!(3 * (nodes + by_tree) < by_list, "{nodes} nodes and {by_tree} regions, {by_list} in a list");
}
