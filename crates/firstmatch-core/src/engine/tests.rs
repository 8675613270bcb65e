//! The stated worst case of every engine that counts its costs.
//!
//! No key costs more, and some key costs as much.

use crate::engine::{Classifier, Engine, Match, NamedCounts, Updatable};
use crate::engines::bit_select::{self, BitSelect};
use crate::engines::bit_vector::{self, BitVector};
use crate::engines::linear::{self, Linear};
use crate::engines::tuple::{self, Merge, TupleMerge};
use crate::key::{KeyBuf, Keys};
use crate::rule::{Lowered, Priority, Regions, RuleId, Test};
use crate::schema::Schema;
use crate::test_rules::set;

/// Builds four rule sets of different shapes.
///
/// Hosts, prefixes that overlap, ranges that overlap, and the same rule many times.
pub(crate) fn sets() -> Vec<Lowered> {
    let mut state = 5u64;
    let mut random = |below: u128| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        u128::from(state >> 33) % below
    };
    let prefix = |value: u128, len: u32| Test::Prefix { value: value >> (32 - len) << (32 - len), len };
    let hosts =
        (0..900).map(|_| vec![(0, Test::Value(random(1 << 20) << 5)), (1, Test::Value(random(1 << 9)))]).collect();
    let nets = (0..900)
        .map(|_| {
            let (a, b) = (random(25) as u32 + 8, random(25) as u32 + 8);
            vec![
                (0, prefix(random(9) << 28 | random(1 << 28), a)),
                (1, prefix(random(1 << 32), b)),
                (3, Test::Value(random(9))),
            ]
        })
        .collect();
    let ranges = (0..300)
        .map(|_| [2, 3].map(|field| (field, Test::Range { lo: random(900), hi: 900 + random(900) })).to_vec())
        .collect();
    let same = vec![vec![(3, Test::Range { lo: 5, hi: 9 })]; 30];
    [hosts, nets, ranges, same].into_iter().map(|rules: Vec<Vec<(usize, Test)>>| set(&Schema::ipv4(), rules)).collect()
}

/// Compares the answers of an engine with those of `linear` for some keys, in batches and one by one.
pub(crate) fn agrees(engine: &dyn Classifier, set: &Lowered, keys: &KeyBuf, said: &str) {
    let linear = Linear::build(set, &linear::Config::default()).expect("no budget");
    let (mut want, mut got) = (vec![None; keys.len()], vec![None; keys.len()]);
    linear.classify_batch(&mut linear.scratch(), keys.keys(), &mut want);
    engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut got);
    assert!(got == want, "{said}: {:?}", got.iter().zip(&want).position(|(got, want)| got != want));
    for (at, want) in want.iter().enumerate().step_by(7) {
        let got = engine.classify(&mut engine.scratch(), keys.keys().slice(at, at + 1));
        assert_eq!(got, *want, "{said}, key {at}");
    }
}

/// Returns keys at and beside the corners of regions, and one that no rule holds.
///
/// A key beside a corner differs from it in one word.
pub(crate) fn keys_of(all: &Lowered) -> KeyBuf {
    let mut keys = KeyBuf::new(all.schema());
    keys.push()[..5].copy_from_slice(&[u32::MAX, u32::MAX, 65_535, 65_534, 255]);
    for (at, region) in all.regions().iter().enumerate() {
        for bound in [region.lo, region.hi] {
            for beside in [false, true] {
                let key = keys.push();
                key[..bound.len()].copy_from_slice(bound);
                let word = at % bound.len();
                key[word] =
                    if beside { key[word].wrapping_add(1).min(all.schema().words()[word].max) } else { key[word] };
            }
        }
    }
    keys
}

/// Returns the steps of lookups of `keys`.
pub(crate) fn count<E: Engine>(engine: &E, keys: Keys<'_>) -> NamedCounts {
    engine.count(&mut engine.new_scratch(), &keys, &mut vec![None; keys.len()])
}

/// Returns the number of a step of lookups of `keys`.
pub(crate) fn steps<E: Engine>(engine: &E, keys: Keys<'_>, name: &str) -> usize {
    count(engine, keys).get(name).expect("the engine counts it") as usize
}

/// Returns the maximum lines and tests of a lookup of one of the keys, alone or in a batch.
///
/// In a batch all keys are the same, so that each of them costs the mean.
fn most<E: Engine>(engine: &E, keys: &KeyBuf) -> (usize, usize) {
    let mut most = (0, 0);
    for at in 0..keys.len() {
        for count in [1, 9] {
            let mut batch = KeyBuf::new(engine.schema());
            (0..count).for_each(|_| batch.push().copy_from_slice(keys.keys().row(at)));
            let [lines, tests] = ["lines", "tests"].map(|name| steps(engine, batch.keys(), name));
            assert_eq!(tests % count, 0, "equal keys cost the same");
            most = (most.0.max(lines / count), most.1.max(tests / count));
        }
    }
    most
}

/// Removes every second rule, and inserts a copy of each of the others.
pub(crate) fn change_half(all: &Lowered, engine: &mut impl Updatable) {
    for (at, (rule, range)) in all.by_rule().enumerate() {
        if at % 2 == 0 {
            engine.remove(rule.rule).expect("it is there");
        } else {
            let mut regions = Regions::new(5);
            range.for_each(|at| regions.push(all.regions().get(at)));
            let copy = Match { rule: RuleId::new(5000 + at as u32, 0), priority: Priority(rule.priority.0 + 1) };
            engine.insert(copy, &regions).expect("it fits");
        }
    }
}

fn check_tuple(engine: &TupleMerge, keys: &KeyBuf, name: &str) {
    let stats = Engine::stats(engine);
    let (lines, tests) = most(engine, keys);
    assert!(lines <= stats.worst_lines, "{name}: {lines} lines, {stats:?}");
    assert!(tests <= stats.worst_tests, "{name}: {tests} tests, {stats:?}");
}

#[test]
fn no_key_meets_more_than_is_stated() {
    for (number, all) in sets().iter().enumerate() {
        let keys = keys_of(all);
        let built = Linear::build(all, &linear::Config::default()).expect("no budget");
        let stats = Engine::stats(&built);
        let (_, tests) = most(&built, &keys);
        assert_eq!(tests, stats.worst_tests.next_multiple_of(8), "set {number}: some key is tested against all");
        assert_eq!(stats.worst_lines, (stats.bytes[0].1 + stats.bytes[1].1).div_ceil(64));

        let built = BitSelect::build(all, &bit_select::Config::default()).expect("no budget");
        let stats = Engine::stats(&built);
        let (lines, tests) = most(&built, &keys);
        assert!(lines <= stats.worst_lines && tests <= stats.worst_tests, "set {number}: {lines}, {tests}, {stats:?}");
        // One tree with one list: the stated worst case is met.
        if number == 3 {
            assert_eq!((lines, tests), (stats.worst_lines, stats.worst_tests));
        } else {
            assert!(tests * 4 >= stats.worst_tests, "set {number}: {tests} tests, {stats:?}");
        }

        let config = bit_vector::Config { vectors: 64 << 20, ..Default::default() };
        let built = BitVector::build(all, &config).expect("no budget");
        let stats = Engine::stats(&built);
        // Every key meets the same costs, and then its match.
        assert_eq!(most(&built, &keys).0 + 1, stats.worst_lines, "set {number}");
        assert_eq!(stats.worst_tests, all.regions().len());

        for (merge, collision_limit, most_tables) in
            [(Merge::Online, 1, 512), (Merge::Online, 40, 512), (Merge::Offline, 8, 512), (Merge::None, 1, 5)]
        {
            let config = tuple::Config { merge, collision_limit, most_tables, seed: Some(1), ..Default::default() };
            let mut built = TupleMerge::build(all, &config).expect("no budget");
            check_tuple(&built, &keys, &format!("set {number}, {merge:?}"));
            let stats = Engine::stats(&built);
            if number == 3 {
                assert_eq!(stats.worst_tests, 30, "all in one group: {stats:?}");
            }
            change_half(all, &mut built);
            check_tuple(&built, &keys, &format!("set {number}, {merge:?}, changed"));
        }
    }
}
