//! Changes in place: rules of every form are inserted and removed in two replicas by turns.
//!
//! The structure is checked meanwhile.

mod bounds;
mod invariants;
mod whole;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::*;
use crate::engine::Engine;
use crate::engine::base::{Base, BaseEngine, InPlace};
use crate::engine::tests::steps;
use crate::engine::tombstones::Tombstones;
use crate::engines::bit_select::Config;
use crate::key::KeyBuf;
use crate::raw::Level;
use crate::rule::{Lowered, Priority, RuleId, Test};
use crate::schema::{Field, Kind, Schema};
use crate::test_rules::set;
use invariants::{check_rules, left};

/// Rule with its regions, as a range of the regions of all rules.
type Ranged = (Match, Range<usize>);

/// Change of an engine in place.
#[derive(Clone, Debug)]
enum Change {
    Insert(Ranged),
    RemoveBuilt(Ranged),
    RemoveInserted(Match),
}

impl Change {
    /// Applies the change to an engine that was built with `built`; returns whether it could.
    fn apply(&self, engine: &mut BitSelect, all: &Lowered, built: &[Match]) -> bool {
        let place = |rule: &Match| built.partition_point(|of| of.priority < rule.priority);
        match self {
            Self::Insert((rule, range)) => {
                let mut regions = Regions::new(all.schema().words().len());
                range.clone().for_each(|at| regions.push(all.regions().get(at)));
                engine.insert_rule(*rule, place(rule), &regions)
            }
            Self::RemoveBuilt((rule, range)) => {
                engine.remove_built_rule(place(rule), range.clone().map(|at| all.regions().get(at)))
            }
            Self::RemoveInserted(rule) => engine.remove_inserted_rule(*rule, place(rule)),
        }
    }
}

/// Random numbers, the same for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % n
    }

    fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        (1..list.len()).rev().for_each(|at| list.swap(at, self.index(at + 1)));
    }
}

/// Engine with the rules in it and outside, and a replica that lags behind it.
struct Walk<'r> {
    all: &'r Lowered,
    engine: BitSelect,
    other: BitSelect,
    /// Changes that `other` lacks, with their results.
    backlog: Vec<(Change, bool)>,
    built: Vec<Match>,
    there: Vec<Ranged>,
    away: Vec<Ranged>,
    /// Tombstones of built rules that could not be removed.
    dead: Tombstones,
    marked: Vec<Ranged>,
    random: Random,
    /// Numbers of rules inserted, refused, not removable, and back with the regions of another.
    came: usize,
    refused: usize,
    kept: usize,
    swapped: usize,
}

impl<'r> Walk<'r> {
    /// Builds the engine with `there` of the rules, chosen at random.
    fn new(all: &'r Lowered, level: Level, there: usize, seed: u64) -> Self {
        Self::new_with(all, Config { simd: Some(level), ..Config::default() }, there, seed)
    }

    fn new_with(all: &'r Lowered, config: Config, there: usize, seed: u64) -> Self {
        let mut random = Random(seed);
        let mut away: Vec<Ranged> = all.by_rule().collect();
        random.shuffle(&mut away);
        let mut there = away.split_off(away.len() - there);
        there.sort_by_key(|(rule, _)| rule.priority);
        Self::with(all, config, there, away, random)
    }

    fn with(all: &'r Lowered, config: Config, there: Vec<Ranged>, away: Vec<Ranged>, random: Random) -> Self {
        let mut first = Lowered::empty(all.schema());
        there.iter().for_each(|(rule, range)| range.clone().for_each(|at| first.push(*rule, all.regions().get(at))));
        let engine = BitSelect::build(&first, &config).expect("no budget");
        let built: Vec<Match> = there.iter().map(|(rule, _)| *rule).collect();
        let slots = all.rules().iter().map(|rule| rule.rule.slot() + 1).max().unwrap_or(0);
        let (other, backlog, dead) = (engine.clone(), Vec::new(), Tombstones::none(built.len(), slots));
        let (marked, [came, refused, kept, swapped]) = (Vec::new(), [0; 4]);
        Self { all, engine, other, backlog, built, there, away, dead, marked, random, came, refused, kept, swapped }
    }

    /// Returns the number of built rules before a rule.
    fn place(&self, rule: Match) -> usize {
        self.built.partition_point(|of| of.priority < rule.priority)
    }

    fn insert(&mut self, (rule, range): Ranged) -> bool {
        let is_in = self.change(Change::Insert((rule, range.clone())));
        (self.came, self.refused) = (self.came + usize::from(is_in), self.refused + usize::from(!is_in));
        if is_in { &mut self.there } else { &mut self.away }.push((rule, range));
        is_in
    }

    fn remove(&mut self, (rule, range): Ranged) {
        let place = self.place(rule);
        let is_first = self.built.get(place) == Some(&rule) && self.engine.has_built_rule(place);
        let removed = match is_first {
            true => self.change(Change::RemoveBuilt((rule, range.clone()))),
            false => self.change(Change::RemoveInserted(rule)),
        };
        assert!(removed || is_first, "a rule that came can go");
        if removed {
            self.away.push((rule, range));
        } else {
            self.kept += 1;
            self.dead.mark(rule.rule, place..place + 1);
            self.marked.push((rule, range));
        }
    }

    /// Applies a change, which the other replica gets later, and returns whether it could.
    fn change(&mut self, change: Change) -> bool {
        let is_done = change.apply(&mut self.engine, self.all, &self.built);
        self.backlog.push((change, is_done));
        is_done
    }

    /// Applies the backlog to the other replica, which takes and refuses the same changes.
    fn catch_up(&mut self) {
        for (change, is_done) in self.backlog.drain(..) {
            assert_eq!(change.apply(&mut self.other, self.all, &self.built), is_done, "{change:?}");
        }
    }

    /// Catches up, then swaps the replicas.
    fn swap(&mut self) {
        self.catch_up();
        std::mem::swap(&mut self.other, &mut self.engine);
    }

    /// Swaps the replicas, then inserts a rule (`weight` times in eight) or removes one.
    fn step(&mut self, weight: u64) {
        self.swap();
        if self.random.below(8) < weight && !self.away.is_empty() {
            let (at, other) = (self.random.index(self.away.len()), self.random.index(self.away.len()));
            // The same rule comes back with the regions of another.
            if self.random.below(5) == 0 && at != other {
                let (a, b) = (self.away[at].1.clone(), self.away[other].1.clone());
                (self.away[at].1, self.away[other].1) = (b, a);
                self.swapped += 1;
            }
            let rule = self.away.swap_remove(at);
            self.insert(rule);
        } else if !self.there.is_empty() {
            let rule = self.there.swap_remove(self.random.index(self.there.len()));
            self.remove(rule);
        }
        let regions = |list: &[Ranged]| list.iter().map(|(_, range)| range.len()).sum::<usize>();
        let held = (self.there.len() + self.marked.len(), regions(&self.there) + regions(&self.marked));
        assert_eq!((self.engine.rules(), Engine::stats(&self.engine).regions), held);
    }

    fn regions_of(&self, list: &[Ranged]) -> Vec<Region<'r>> {
        list.iter().flat_map(|(_, range)| range.clone()).map(|at| self.all.regions().get(at)).collect()
    }

    /// Checks the structure, the replicas and the answers.
    ///
    /// The replicas must be equal once both have all changes. Keys come from the corners of rules that are there
    /// and that are not, in batches of several lengths.
    ///
    /// # Panics
    /// If anything is wrong.
    fn check(&mut self, keys: usize) {
        let held: Vec<Ranged> = self.there.iter().chain(&self.marked).cloned().collect();
        check_rules(&self.engine, self.all, &held);
        assert_eq!(left(&self.engine, &self.regions_of(&held), &self.regions_of(&self.away)), 0);
        self.catch_up();
        assert!(format!("{:?}", self.other) == format!("{:?}", self.engine), "the replicas differ");
        let mut rows = KeyBuf::new(self.all.schema());
        for list in [&self.there, &self.away, &self.marked] {
            for _ in 0..if list.is_empty() { 0 } else { keys } {
                let region = self.all.regions().get(list[self.random.index(list.len())].1.start);
                let key = rows.push();
                for (word, of) in self.all.schema().words().iter().enumerate() {
                    key[word] = match self.random.below(9) {
                        0 => of.max,
                        at => [region.lo[word], region.hi[word]][at as usize % 2],
                    };
                }
            }
        }
        let stats = Engine::stats(&self.engine);
        for at in 0..rows.len() {
            let key = rows.keys().slice(at, at + 1);
            let [lines, tests] = ["lines", "tests"].map(|name| steps(&self.engine, key, name));
            assert!(lines <= stats.worst_lines && tests <= stats.worst_tests, "{lines}, {tests}, {stats:?}");
        }
        let mut winners = self.there.iter().chain(&self.marked).collect::<Vec<_>>();
        winners.sort_by_key(|(rule, _)| rule.priority);
        let marked: HashSet<RuleId> = self.marked.iter().map(|(rule, _)| rule.rule).collect();
        let answer = |at: usize, with_marked: bool| {
            let holds =
                |range: &Range<usize>| range.clone().any(|of| self.all.regions().get(of).contains(rows.keys().row(at)));
            let is_counted = |rule: &Match| with_marked || !marked.contains(&rule.rule);
            winners.iter().find(|(rule, range)| is_counted(rule) && holds(range)).map(|(rule, _)| *rule)
        };
        for with_marked in [true, false] {
            let want: Vec<_> = (0..rows.len()).map(|at| answer(at, with_marked)).collect();
            for length in [rows.len(), 1, 3, 4, 33] {
                for from in (0..rows.len()).step_by(length.max(rows.len() / 64 + 1)) {
                    let to = (from + length).min(rows.len());
                    let (keys, mut got) = (rows.keys().slice(from, to), vec![None; to - from]);
                    match with_marked {
                        true => Engine::improve(&self.engine, &mut (), &keys, &mut got),
                        false => self.engine.improve_live(&mut (), &keys, &self.dead, &mut got),
                    }
                    let wrong = got.iter().zip(&want[from..to]).position(|(got, want)| got != want);
                    assert_eq!(wrong, None, "batch {from}..{to}, with marked rules: {with_marked}");
                }
            }
        }
    }
}

fn scalar() -> Config {
    Config { simd: Some(Level::Scalar), ..Config::default() }
}

/// Returns rules over two prefixes of up to 32 bits, with ports and protocols.
///
/// The prefixes are shifted to the left by `shift` bits and made `more` bits longer. A port may be unconstrained,
/// required or in a range.
fn nets(schema: &Schema, (shift, more): (u32, u32), count: usize, seed: u64) -> Lowered {
    let mut random = Random(seed);
    let mut tests = || -> Vec<(usize, Test)> {
        let mut prefix = |field: usize, from: u64| {
            let len = (from + random.below(33 - from)) as u32;
            let value = u128::from(random.below(1 << 12) << 20 | random.below(4));
            (field, Test::Prefix { value: value >> (32 - len) << (32 - len + shift), len: len + more })
        };
        let mut tests = vec![prefix(0, 0), prefix(1, 8)];
        for field in [2, 3] {
            let lo = u128::from(random.below(9) * 7);
            match random.below(4) {
                0 => {}
                1 => tests.push((field, Test::Range { lo: 0, hi: 65_535 })),
                _ => tests.push((field, Test::Range { lo, hi: lo + u128::from(random.below(3) * 5000) })),
            }
        }
        tests.extend((random.below(8) > 0).then_some((4, Test::Value(6 + 11 * u128::from(random.below(2))))));
        tests
    };
    set(schema, (0..count).map(|_| tests()).collect::<Vec<_>>())
}

/// Returns rules over ternary fields, optional fields and fields of several words.
///
/// The ranges of fields of several words are several regions.
fn wild(count: usize, seed: u64) -> Lowered {
    let field = |name: &str, width, kind| Field::new(name, width, kind, None);
    let schema = Schema::new(
        None,
        vec![
            field("net", 32, Kind::Prefix),
            field("masked", 32, Kind::Mask),
            field("wide", 48, Kind::Range),
            field("byte", 8, Kind::Range).optional(),
            field("half", 16, Kind::Range).optional(),
        ],
    );
    let mut random = Random(seed);
    let mut tests = || -> Vec<(usize, Test)> {
        let len = 8 + random.below(25) as u32;
        let value = u128::from(random.below(1 << 11) << 21 | random.below(8));
        let mut tests = vec![(0, Test::Prefix { value: value >> (32 - len) << (32 - len), len })];
        let mask = 0xFFu128 << (8 * random.below(4)) | 0xF0;
        tests.extend(
            (random.below(3) > 0)
                .then(|| (1, Test::Mask { value: (u128::from(random.below(9)) * 0x1111_1111) & mask, mask })),
        );
        let lo = u128::from(random.below(5)) << 30 | 7;
        tests.extend(
            (random.below(3) == 0).then(|| (2, Test::Range { lo, hi: lo + (u128::from(random.below(4)) << 32) })),
        );
        for (field, max) in [(3, 255), (4, 65_535)] {
            let lo = u128::from(random.below(9) * 7);
            match random.below(4) {
                0 => {}
                1 => tests.push((field, Test::Range { lo: 0, hi: max })),
                2 => tests.push((field, Test::Value(lo))),
                _ => tests.push((field, Test::Range { lo, hi: lo + u128::from(random.below(90)) })),
            }
        }
        tests
    };
    set(&schema, (0..count).map(|_| tests()).collect::<Vec<_>>())
}

/// Takes a walk through `steps`: numbers of steps with the `weight` of their insertions.
///
/// The walk is checked every `every` steps.
fn walk(walk: &mut Walk<'_>, steps: &[(usize, u64)], every: usize) {
    for (step, weight) in steps.iter().flat_map(|&(steps, weight)| std::iter::repeat_n(weight, steps)).enumerate() {
        walk.step(weight);
        if step % every == every - 1 {
            walk.check(120);
        }
    }
    walk.check(300);
}

/// Many more rules are inserted and removed than were built, at every level.
#[test]
fn rules_come_and_go_in_place() {
    for level in Level::available() {
        // The prefixes of IPv6 extend from the first word into the second.
        for (schema, shift) in [(Schema::ipv4(), (0, 0)), (Schema::ipv6(), (80, 16))] {
            let all = nets(&schema, shift, 4500, 3);
            let mut at = Walk::new(&all, level, 1500, 4);
            walk(&mut at, &[(3000, 7), (3000, 4)], 500);
            let Walk { came, refused, kept, swapped, .. } = at;
            assert!(
                came > 1500 && refused > 300 && kept < 300 && swapped > 100,
                "{came} came, {refused} were refused, {kept} could not go, {swapped} came back as others"
            );
        }
        let all = wild(1500, 5);
        assert!(all.regions().len() > 2000, "rules have several regions");
        let mut at = Walk::new(&all, level, 500, 6);
        walk(&mut at, &[(1000, 6), (2000, 4)], 250);
        let Walk { came, engine, .. } = at;
        assert!(came > 600 && !engine.shape.ternary.is_empty(), "{came} came");
        assert!(engine.shape.optional.len() == 2, "fields that may be absent have bits");
    }
}

/// The same holds in lean blocks with ranks of 16 bits: rules constrain addresses alone.
#[test]
fn rules_come_and_go_in_lean_blocks() {
    for (schema, (shift, more), lines) in [(Schema::ipv4(), (0, 0), 2), (Schema::ipv6(), (80, 16), 5)] {
        let mut random = Random(11);
        let mut prefix = |field: usize, from: u64| {
            let len = (from + random.below(33 - from)) as u32;
            let value = u128::from(random.below(1 << 12) << 20 | random.below(4));
            (field, Test::Prefix { value: value >> (32 - len) << (32 - len + shift), len: len + more })
        };
        let all = set(&schema, (0..4500).map(|_| vec![prefix(0, 0), prefix(1, 8)]).collect::<Vec<_>>());
        for level in Level::available() {
            let mut at = Walk::new_with(&all, Config { simd: Some(level), lean: 0, ..Config::default() }, 1500, 12);
            walk(&mut at, &[(2000, 5)], 500);
            assert!(at.came > 400, "{} came", at.came);
            assert_eq!((at.engine.shape.lines(), at.engine.shape.has_short_ranks), (lines, true));
        }
    }
}

/// Free blocks are reused, so that few insertions are refused while removals keep up.
///
/// If rules are only inserted, the engine says that room ends.
#[test]
fn blocks_are_used_again() {
    let schema = Schema::ipv4();
    let all = nets(&schema, (0, 0), 6000, 7);
    let mut at = Walk::new(&all, Level::Scalar, 2000, 8);
    walk(&mut at, &[(12_000, 4)], 3000);
    let blocks = at.engine.blocks.len() / at.engine.shape.lines();
    assert!(at.came > 5000 && at.refused * 50 < at.came && blocks <= at.engine.room, "{} refused", at.refused);
    assert!(at.engine.free_blocks.bytes() > 0 && !at.engine.is_short_of_room());
    let mut at = Walk::new(&all, Level::Scalar, 2000, 8);
    walk(&mut at, &[(4000, 8)], 4000);
    assert!(at.refused > 0 && at.engine.is_short_of_room(), "{} were refused", at.refused);
    // The last search found too few free blocks. Once none is left, every rule that needs one is refused.
    assert!(at.engine.room_left() < at.engine.room / 4);
}

/// If rounds of the same insertions and removals repeat, memory stops growing by half time.
#[test]
fn memory_is_constant() {
    let schema = Schema::ipv4();
    let all = nets(&schema, (0, 0), 1200, 9);
    let mut at = Walk::new(&all, Level::Scalar, 1000, 10);
    let some = std::mem::take(&mut at.away);
    let mut bytes = Vec::new();
    for _ in 0..40 {
        for rule in &some {
            at.swap();
            at.insert(rule.clone());
        }
        for _ in 0..at.there.len() - 1000 {
            at.swap();
            let rule = at.there.remove(1000);
            at.remove(rule);
        }
        at.away.clear();
        // The list of free blocks is as long as the last search found it.
        let of = |of: &BitSelect| Engine::stats(of).total_bytes() - of.free_blocks.bytes();
        bytes.push(of(&at.engine) + of(&at.other));
        assert!(at.engine.free_blocks.bytes() <= at.engine.room * size_of::<u32>());
    }
    assert!(at.came > 40 * 150, "{} came", at.came);
    let least = bytes[20..].iter().min().expect("rounds");
    assert!(bytes[20..].iter().all(|of| of == least), "{bytes:?}");
}

/// Many rules are inserted between two built neighbours in several orders, and each is found.
///
/// No two have the same rank, and there is room for at least eight.
#[test]
fn many_rules_come_between_two() {
    let schema = Schema::ipv4();
    let hosts = (0..2200u128).map(|at| vec![(0, Test::Value(at << 12)), (1, Test::Value(at << 9))]);
    // Each next one holds those before it, so that one key lies in all of them.
    let between =
        (0..40u128).map(|at| vec![(0, Test::Prefix { value: 100 << 12, len: 32 }), (3, Test::Range { lo: 0, hi: at })]);
    let others = (2200..4400u128).map(|at| vec![(0, Test::Value(at << 12)), (1, Test::Value(at << 9))]);
    let all = set(&schema, hosts.chain(between).chain(others));
    let rules: Vec<Ranged> = all.by_rule().collect();
    let (before, rest) = rules.split_at(2200);
    let (between, behind) = rest.split_at(40);
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut order = between.to_vec();
        match seed {
            0 => {}
            1 => order.reverse(),
            _ => random.shuffle(&mut order),
        }
        let there: Vec<Ranged> = before.iter().chain(behind).cloned().collect();
        // Lean blocks would have no columns for ranges of ports.
        let config = Config { lean: usize::MAX, ..scalar() };
        let mut at = Walk::with(&all, config, there, Vec::new(), random);
        assert!(at.engine.layout.dropped > 0, "an entry has only some bits of a rank");
        for rule in order {
            at.insert(rule);
            check_rules(&at.engine, &all, &at.there[before.len() + behind.len()..]);
        }
        assert!((8..=32).contains(&at.came), "{} came, seed {seed}", at.came);
        at.check(60);
        // Each is the answer once those before it are gone, and others find room again.
        let mut came = at.there.split_off(before.len() + behind.len());
        came.sort_by_key(|(rule, _)| rule.priority);
        for (rule, range) in came {
            let mut key = KeyBuf::new(&schema);
            let region = all.regions().get(range.start);
            key.push()[..5].copy_from_slice(region.lo);
            let mut got = [None];
            Engine::improve(&at.engine, &mut (), &key.keys(), &mut got);
            assert_eq!(got, [Some(rule)], "seed {seed}");
            at.remove((rule, range));
        }
        let again = between[seed as usize].clone();
        assert!(at.insert(again), "there is room again");
        at.check(60);
    }
}

/// Rules for most keys are put on the overflow list, up to its capacity, and removed again.
///
/// They are found in order of priority. The roots for another build exclude the root of the overflow tree.
#[test]
fn rules_for_most_keys_come_in_place() {
    let schema = Schema::ipv4();
    let hosts: Vec<_> =
        (0..1000u128).map(|i| vec![(0, Test::Value(i * 0x0001_0101)), (1, Test::Value(i << 22))]).collect();
    let all =
        set(&schema, hosts.iter().cloned().chain((0..40).map(|i| vec![(3, Test::Range { lo: i + 10, hi: 40_000 })])));
    let rules: Vec<Ranged> = all.by_rule().collect();
    let mut engine = Walk::with(&all, scalar(), rules[..1000].to_vec(), Vec::new(), Random(1)).engine;
    let (trees, roots) = (engine.trees.len(), engine.selectors().len());
    let ask = |engine: &BitSelect, port: u32| {
        let mut keys = KeyBuf::new(all.schema());
        (0..40).for_each(|i| keys.push()[..5].copy_from_slice(&[i * 0x0001_0101, (i << 22) + i % 2, 0, port, 6]));
        let mut answers = vec![None; keys.len()];
        Engine::improve(engine, &mut (), &keys.keys(), &mut answers);
        answers.iter().map(|of| of.map(|found| found.rule.slot())).collect::<Vec<_>>()
    };
    let want = |wide: Option<usize>| (0..40).map(|i| if i % 2 == 0 { Some(i) } else { wide }).collect::<Vec<_>>();
    let mut came: Vec<usize> = (0..40).map(|i| 1000 + i * 7 % 40).collect();
    came.retain(|&at| {
        let mut regions = Regions::new(schema.words().len());
        regions.push(all.regions().get(rules[at].1.start));
        engine.insert_rule(rules[at].0, 1000, &regions)
    });
    assert_eq!(came.len(), 32, "{came:?}");
    came.sort_unstable();
    assert_eq!((engine.trees.len(), engine.selectors().len()), (trees + 1, roots));
    assert_eq!(ask(&engine, 20_000), want(Some(1000)));
    assert_eq!(ask(&engine, 10), want(Some(1000)));
    assert_eq!(ask(&engine, 7), want(None));
    for at in came {
        assert_eq!(ask(&engine, 20_000), want(Some(at)));
        assert!(engine.remove_inserted_rule(rules[at].0, 1000));
    }
    assert_eq!(ask(&engine, 20_000), want(None));
    assert_eq!(engine.rules(), 1000);
}

/// The number of changed places depends on the slots of a rule, not on the number of rules.
#[test]
fn a_change_touches_few_places() {
    let mut each = Vec::new();
    for rules in [500u128, 4000] {
        let all =
            set(&Schema::ipv4(), (0..2 * rules).map(|at| vec![(0, Test::Value(at << 14)), (1, Test::Value(at << 9))]));
        let ranged: Vec<Ranged> = all.by_rule().collect();
        let (there, away): (Vec<Ranged>, Vec<Ranged>) =
            ranged.into_iter().partition(|(rule, _)| rule.rule.slot() % 2 == 0);
        let mut at = Walk::with(&all, scalar(), there, Vec::new(), Random(1));
        let mut most = [0; 2];
        for rule in away.into_iter().take(400) {
            for (change, most) in most.iter_mut().enumerate() {
                at.swap();
                match change {
                    0 => assert!(at.insert(rule.clone()), "it has room"),
                    _ => {
                        let rule = at.there.pop().expect("it has come");
                        at.remove(rule);
                    }
                }
                *most = changed_places(&at.other, &at.engine).max(*most);
            }
        }
        each.push(most);
    }
    // A few blocks, the slots that lead to them, a bucket of at most 64 places and a row.
    assert!(each.iter().flatten().all(|&places| (1..=24).contains(&places)), "{each:?}");
    assert!(each[1][0] <= each[0][0] + 4, "{each:?}");
}

/// Returns the number of slots, blocks and append blocks in which two replicas differ.
fn changed_places(a: &BitSelect, b: &BitSelect) -> usize {
    fn differing<T: PartialEq>(a: impl Iterator<Item = T>, b: impl Iterator<Item = T>) -> usize {
        a.zip(b).filter(|(a, b)| a != b).count()
    }
    let block = a.shape.lines() * LINE_WORDS;
    let [of_a, of_b] = [a, b].map(|of| words(&of.blocks).chunks(block));
    differing(a.table.iter(), b.table.iter())
        + of_a.len().abs_diff(of_b.len())
        + differing(of_a, of_b)
        + differing(a.append_block.iter(), b.append_block.iter())
}
