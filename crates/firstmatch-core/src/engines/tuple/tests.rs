//! Tests of the paper's worked tables, and of the structure after any history of changes.
//!
//! The crate's `tests/` compare the answers, with those of the other engines.

mod memory;
mod walks;

use super::*;
use crate::engine::budget::Visits;
use crate::engine::tests as engine_tests;
use crate::engine::{Classifier, Updatable};
use crate::rule::{
    Action, Condition, ExpansionLimits, Priority, Region, Regions, RuleSet, RuleSpec, Test, lower, lower_rule,
};
use crate::schema::{Field, Kind, Source};

fn spec(line: u32, tests: Vec<(usize, Test)>) -> RuleSpec {
    let conditions =
        tests.into_iter().map(|(field, test)| Condition { field, negated: false, tests: vec![(None, test)] });
    RuleSpec {
        priority: Priority::of_line(line),
        action: Action::Permit,
        conditions: conditions.collect(),
        family: None,
        line: None,
        value: 0,
    }
}

/// Returns the rules of the paper's Table I: source and destination of 3 bits.
fn table_one() -> RuleSet {
    let field = |name, source| Field::new(name, 3, Kind::Prefix, Some(source));
    let mut set = RuleSet::new(Schema::new(None, vec![field("src", Source::Src), field("dst", Source::Dst)]));
    let rules = [
        ((0b000, 3), (0b111, 3)),
        ((0b010, 3), (0b100, 3)),
        ((0b011, 3), (0b100, 3)),
        ((0b010, 3), (0b110, 2)),
        ((0b100, 2), (0b101, 3)),
        ((0b110, 3), (0b000, 0)),
        ((0b000, 0), (0b011, 3)),
    ];
    for (line, (src, dst)) in (1..).zip(rules) {
        let prefix = |(value, len)| Test::Prefix { value, len };
        set.insert(spec(line, vec![(0, prefix(src)), (1, prefix(dst))])).expect("a rule of the paper");
    }
    set
}

fn engine(set: &RuleSet, limit: usize) -> TupleMerge {
    let lowered = lower(set, &set.schemas()[0], &ExpansionLimits::default()).expect("lowers");
    let config = Config { collision_limit: limit, seed: Some(1), ..Config::default() };
    TupleMerge::build(&lowered, &config).expect("builds")
}

#[test]
fn the_rules_of_the_paper_in_order_make_these_tables() {
    let tables: Vec<_> = engine(&table_one(), 1)
        .tables()
        .map(|(tuple, mut rules)| {
            rules.sort_unstable();
            (tuple.iter().map(|mask| mask.count_ones()).collect(), rules.iter().map(|r| r.slot() + 1).collect())
        })
        .collect();
    let want: [(Vec<u32>, Vec<usize>); 5] = [
        (vec![3, 3], vec![1, 2, 3]),
        (vec![3, 2], vec![4]),
        (vec![2, 3], vec![5]),
        (vec![3, 0], vec![6]),
        (vec![0, 3], vec![7]),
    ];
    assert_eq!(tables, want);
}

/// Returns the offline tables of the paper's rules: lengths of the tuple, rules.
fn offline_tables(limit: usize) -> Vec<(Vec<u32>, Vec<usize>)> {
    let lowered = lower(&table_one(), &table_one().schemas()[0], &ExpansionLimits::default()).expect("lowers");
    let config = Config { collision_limit: limit, seed: Some(1), ..Config::offline() };
    let engine = TupleMerge::build(&lowered, &config).expect("builds");
    check(&engine);
    let tables = engine.tables().map(|(tuple, mut rules)| {
        rules.sort_unstable();
        (tuple.iter().map(|mask| mask.count_ones()).collect(), rules.iter().map(|r| r.slot() + 1).collect())
    });
    tables.collect()
}

/// Tuples of the two addresses alone: the ports and the protocol tell no tables apart.
#[test]
fn tuples_may_be_of_the_addresses_alone() {
    let mut set = RuleSet::new(Schema::ipv4());
    let net = |at: u128| (0, Test::Prefix { value: at << 24, len: 8 });
    let port = |port| (3, Test::Value(port));
    for (line, tests) in (1..).zip([
        vec![net(10)],
        vec![net(11), port(80)],
        vec![net(12), (4, Test::Value(6))],
        vec![(1, Test::Prefix { value: 10 << 24, len: 8 }), port(80)],
    ]) {
        set.insert(spec(line, tests)).expect("fits");
    }
    let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("lowers");
    let tables = |config: Config| TupleMerge::build(&lowered, &config).expect("builds").tables().count();
    assert_eq!([tables(Config::tss()), tables(Config::paper_tss())], [4, 2]);
    // A schema without both addresses has the bits of all its fields.
    let ports = Schema::new(None, vec![Field::new("a", 4, Kind::Exact, None), Field::new("b", 4, Kind::Exact, None)]);
    let mut set = RuleSet::new(ports);
    set.insert(spec(1, vec![(0, Test::Value(1))])).expect("fits");
    set.insert(spec(2, vec![(1, Test::Value(1))])).expect("fits");
    let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("lowers");
    assert_eq!(TupleMerge::build(&lowered, &Config::paper_tss()).expect("builds").tables().count(), 2);
}

/// Without candidates a key probes tables in order, up to the first that cannot improve its match.
///
/// Each table has one rule, and the rule of the first table is the best.
#[test]
fn tables_are_probed_in_order_without_candidates() {
    let mut set = RuleSet::new(Schema::ipv4());
    let tables = 20;
    for line in 1..=tables {
        set.insert(spec(line, vec![(0, Test::Prefix { value: 0, len: line })])).expect("fits");
    }
    let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("lowers");
    let config = Config { preclassifier: false, seed: Some(1), ..Config::tss() };
    let mut engine = TupleMerge::build(&lowered, &config).expect("builds");
    let probes = |engine: &TupleMerge, source: u32, count: usize| {
        let mut keys = crate::KeyBuf::new(&engine.schema);
        (0..count).for_each(|_| keys.push()[0] = source);
        let counts = engine_tests::count(engine, keys.keys());
        assert_eq!(counts.get("candidate rows"), Some(0));
        counts.get("buckets").expect("it counts them") as usize
    };
    let (inside, outside, tables) = (0, 1 << 31, tables as usize);
    assert_eq!([1, 2].map(|count| probes(&engine, inside, count)), [1, 2]);
    assert_eq!([1, 2].map(|count| probes(&engine, outside, count)), [tables, 2 * tables]);
    engine.remove(set.iter().next().expect("a rule").id).expect("it is there");
    assert_eq!(probes(&engine, outside, 1), tables - 1);
    // A bucket and an entry of each table.
    assert_eq!(Engine::stats(&engine).worst_lines, 2 * (tables - 1));
}

/// The tables are those of Table III and, for other limits, those of the same text.
#[test]
fn the_rules_of_the_paper_at_once_make_these_tables() {
    let tables = |list: &[([u32; 2], &[usize])]| -> Vec<(Vec<u32>, Vec<usize>)> {
        list.iter().map(|(tuple, rules)| (tuple.to_vec(), rules.to_vec())).collect()
    };
    assert_eq!(offline_tables(1), tables(&[([3, 2], &[1, 2, 3, 4]), ([2, 0], &[5, 6]), ([0, 3], &[7])]));
    assert_eq!(offline_tables(2), tables(&[([2, 2], &[1, 2, 3, 4, 5]), ([0, 0], &[6, 7])]));
    assert_eq!(offline_tables(3), tables(&[([2, 0], &[1, 2, 3, 4, 5, 6]), ([0, 3], &[7])]));
    assert_eq!(offline_tables(8), tables(&[([0, 0], &[1, 2, 3, 4, 5, 6, 7])]));
}

/// Returns the values and the tuple of each rule of the paper, in order.
fn rows_of_table_one() -> Vec<(Vec<u32>, Vec<u32>)> {
    let engine = engine(&table_one(), 1);
    let mut rows = std::collections::BTreeMap::new();
    for entry in engine.in_order().flat_map(|table| table.groups().flat_map(|(_, group)| engine.pool.group(group))) {
        let rule = engine.pool.found(entry).expect("a rule").rule;
        rows.insert(rule.slot(), engine.rows(&engine.pool.region(entry)));
    }
    rows.into_values().collect()
}

/// Returns the tuple of two prefix lengths.
fn lengths(src: u32, dst: u32) -> [u32; 4] {
    let prefix = |len: u32| 0b111 << (3 - len) & 0b111;
    [prefix(src), prefix(dst), 0, 0]
}

/// Tuples of Table I; the rules that (3,2) and (3,3) hold, and those that collide in (2,2) (section III-C5).
#[test]
fn tuples_of_the_paper_collide_as_printed() {
    let rows = rows_of_table_one();
    let printed = [(3, 3), (3, 3), (3, 3), (3, 2), (2, 3), (3, 0), (0, 3)];
    let tuples: Vec<&[u32]> = rows.iter().map(|(_, nominal)| &nominal[..]).collect();
    assert_eq!(tuples, printed.map(|(src, dst)| lengths(src, dst)));
    // Rules that a tuple holds, each with its key.
    let held = |tuple: [u32; 4]| -> Vec<(usize, Vec<u32>)> {
        let fits = rows.iter().zip(1..).filter(|((_, nominal), _)| tuple::is_within(&tuple, nominal));
        fits.map(|((lo, _), rule)| (rule, lo.iter().zip(&tuple).map(|(l, m)| l & m).collect())).collect()
    };
    let colliding = |tuple: [u32; 4]| -> Vec<usize> {
        let held = held(tuple);
        let twice = held.iter().filter(|(_, key)| held.iter().filter(|(_, other)| other == key).count() > 1);
        twice.map(|(rule, _)| *rule).collect()
    };
    assert_eq!([(3, 2), (3, 3)].map(|(s, d)| held(lengths(s, d)).len()), [4, 3]);
    assert!(colliding(lengths(3, 2)).is_empty() && colliding(lengths(3, 3)).is_empty());
    assert_eq!(colliding(lengths(2, 2)), [2, 3]);
}

/// The interval 9 to 10 of four bits is hashed as `10**`: 8 is found in its bucket and refused, 7 and 12 are in others
/// (section III-A).
#[test]
fn an_interval_is_hashed_by_its_containing_prefix() {
    let mut set = RuleSet::new(Schema::new(None, vec![Field::new("x", 4, Kind::Range, None)]));
    set.insert(spec(1, vec![(0, Test::Range { lo: 9, hi: 10 })])).expect("fits");
    let engine = engine(&set, 1);
    let (tuple, _) = engine.tables().next().expect("a table");
    assert_eq!(tuple[0], 0b1100);
    let counted = |value: u32| {
        let mut keys = crate::KeyBuf::new(&engine.schema);
        keys.push()[0] = value;
        let mut answers = [None];
        engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut answers);
        (engine_tests::count(&engine, keys.keys()).get("tests"), answers[0].is_some())
    };
    let found = [7, 8, 10, 12].map(counted);
    assert_eq!(found, [(Some(0), false), (Some(1), false), (Some(1), true), (Some(0), false)]);
}

/// Table IV: two tables hold the rules of the paper without a collision, and one does not.
#[test]
fn two_tables_are_the_fewest_without_collisions() {
    let rows = rows_of_table_one();
    let tuples: Vec<[u32; 4]> = (0..16).map(|i| lengths(i / 4, i % 4)).collect();
    let prefix = |len: u32| lengths(len, 0)[0];
    let legal = |tuple: &[u32], rules: &[usize]| {
        let fits = rules.iter().all(|&r| tuple::is_within(tuple, &rows[r - 1].1));
        let keys = rules.iter().map(|&r| -> Vec<u32> { rows[r - 1].0.iter().zip(tuple).map(|(l, m)| l & m).collect() });
        fits && keys.clone().collect::<std::collections::BTreeSet<_>>().len() == rules.len()
    };
    assert!(legal(&[prefix(3), 0, 0, 0], &[1, 3, 4, 6]) && legal(&[0, prefix(3), 0, 0], &[2, 5, 7]));
    assert!(!tuples.iter().any(|tuple| legal(tuple, &[1, 2, 3, 4, 5, 6, 7])));
}

/// Panics unless all invariants of the structure hold.
fn check(engine: &TupleMerge) {
    let (bound, exact) = (engine.bound(), Engine::stats(engine));
    let all = |stats: &Stats| [stats.rules, stats.regions, stats.tables, stats.overflow];
    assert_eq!(all(&bound), all(&exact));
    let worst = |stats: &Stats| [stats.worst_tests, stats.worst_lines, stats.longest_bucket];
    assert!(worst(&bound).iter().zip(worst(&exact)).all(|(bound, exact)| *bound >= exact), "{bound:?} of {exact:?}");
    let mut entries = 0;
    let mut previous = Priority(0);
    for table in engine.in_order() {
        assert!(table.len() > 0, "an empty table is dropped");
        assert!(previous <= table.best(), "tables stand in order of their best priority");
        previous = table.best();
        let number = engine.tables.iter().position(|t| t.as_ref().is_some_and(|t| std::ptr::eq(t, table)));
        let number = number.expect("its place");
        assert_eq!(engine.bounds[number].best, table.best().0);
        assert!(engine.bounds[..number].iter().all(|bounds| bounds.after <= table.best().0), "later tables count");
        let before = entries;
        table.check();
        for ((bucket, _), group) in table.groups() {
            assert!(bucket < table.buckets().len());
            let tuples: Vec<Vec<u32>> = engine.pool.group(group).map(|e| nominal(engine, e)).collect();
            for entry in engine.pool.group(group) {
                let corners = [engine.pool.region(entry).lo, engine.pool.region(entry).hi];
                for row in corners.map(|corner| [corner, &[0; 3]].concat()) {
                    let tables = engine.candidates.tables(number / 64, &row[..engine.shape.stride()]);
                    assert!(tables >> (number % 64) & 1 == 1, "a table is a candidate of every key in it");
                }
            }
            let hash = |e| engine.hasher.hash(&engine.pool.lo(e)[..engine.shape.stride()], table.tuple());
            for (entry, own) in engine.pool.group(group).zip(&tuples) {
                assert!(tuple::is_within(table.tuple(), own), "an entry fits the tuple of its table");
                assert!(table.best() <= engine.pool.priority(entry), "no entry beats the bound of its table");
                assert_eq!(hash(entry), hash(group));
                entries += 1;
            }
            let priorities: Vec<_> = engine.pool.group(group).map(|e| engine.pool.priority(e)).collect();
            assert!(priorities.is_sorted(), "a group is in order");
            assert!(tuples.len() <= engine.longest.max(1), "no group is longer than the longest ever");
            // Where tables are capped, a group may be left longer.
            if tuples.len() > engine.limit && engine.most_tables >= 512 && engine.merge == Merge::Online {
                let key = |e| -> Vec<u32> { engine.pool.lo(e).iter().zip(&tuples[0]).map(|(l, m)| l & m).collect() };
                let first = key(group);
                let alike = engine.pool.group(group).zip(&tuples).all(|(e, own)| *own == tuples[0] && key(e) == first);
                assert!(alike, "more than the limit share a key only if no tuple tells them apart");
            }
        }
        assert_eq!(table.len(), entries - before, "a table knows how many entries it has");
    }
    assert_eq!(entries + engine.overflow.len(), engine.regions);
    engine.pool.check(engine.in_order().flat_map(|table| table.groups().map(|(_, group)| group)));
    let bytes: usize = engine.in_order().map(Table::bytes).sum();
    assert_eq!(bytes, engine.table_bytes);
}

fn nominal(engine: &TupleMerge, entry: u32) -> Vec<u32> {
    let mut out = vec![0; engine.shape.stride()];
    engine.shape.nominal(&engine.pool.region(entry), &mut out);
    out
}

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % n
    }

    /// Draws a rule whose prefixes, ranges and masks share few values, so that keys collide.
    fn rule(&mut self) -> Vec<(usize, Test)> {
        let mut tests = Vec::new();
        for field in 0..2 {
            let len = [0, 4, 8, 16, 20, 24, 28, 31, 32][self.below(9) as usize];
            let value = u128::from(self.below(3) * 0x1111_1111) & (u128::from(u32::MAX) << (32 - len)) & 0xFFFF_FFFF;
            match self.below(12) {
                0 => tests.push((field, Test::Mask { value: 5, mask: 0x0F0F })),
                _ if len > 0 => tests.push((field, Test::Prefix { value, len })),
                _ => {}
            }
        }
        for field in 2..4 {
            let lo = u128::from(self.below(4) * 1000);
            match self.below(4) {
                0 => tests.push((field, Test::Range { lo, hi: lo + u128::from(self.below(3000)) })),
                1 => tests.push((field, Test::Value(lo))),
                _ => {}
            }
        }
        if self.below(2) == 0 {
            tests.push((4, Test::Value([6, 17][self.below(2) as usize])));
        }
        tests
    }
}

#[test]
fn the_structure_holds_after_any_history() {
    let schema = Schema::ipv4();
    let ours =
        |merge, collision_limit, most_tables| Config { merge, collision_limit, most_tables, ..Config::default() };
    for (config, size) in [
        (ours(Merge::Online, 1, 512), 60),
        (ours(Merge::Online, 2, 512), 300),
        (ours(Merge::Online, 8, 512), 800),
        (ours(Merge::Online, 40, 512), 1500),
        (ours(Merge::None, 1, 512), 1000),
        (ours(Merge::None, 1, 20), 600),
        (ours(Merge::Online, 2, 9), 300),
        (Config { collision_limit: 2, ..Config::paper() }, 300),
        (Config { preclassifier: false, ..ours(Merge::Online, 2, 9) }, 300),
        (Config::paper_tss(), 600),
        (Config { fields: TupleFields::Addresses, ..ours(Merge::Online, 8, 512) }, 800),
    ] {
        let Config { merge, collision_limit: limit, .. } = config;
        let mut random = Random(limit as u64);
        let config = Config { seed: Some(7), ..config };
        let mut engine = TupleMerge::new(&schema, &config).expect("builds");
        let mut set = RuleSet::new(schema.clone());
        let mut live: Vec<RuleId> = Vec::new();
        let mut regions = Regions::new(schema.words().len());
        let (mut tables_seen, mut most_untabled) = (0, 0);
        for step in 0..size * 4 {
            let grow = (step / size) % 2 == 0;
            if live.is_empty() || random.below(10) < if grow { 8 } else { 2 } {
                let tests = random.rule();
                let mut rule = spec(0, tests);
                rule.priority = Priority(random.below(1 << 30) << 16 | step as u64);
                regions.clear();
                lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut regions).expect("lowers");
                let priority = rule.priority;
                let id = set.insert(rule).expect("a valid rule");
                engine.insert(Match { rule: id, priority }, &regions).expect("room");
                live.push(id);
            } else {
                let id = live.swap_remove(random.below(live.len() as u64) as usize);
                set.remove(id).expect("live");
                engine.remove(id).expect("live");
                assert!(engine.remove(id).is_err_and(|error| error.is_stale()));
            }
            assert!(engine.order.len() <= config.most_tables);
            most_untabled = most_untabled.max(engine.overflow.len());
            tables_seen = tables_seen.max(engine.order.len());
            if step % 16 == 0 {
                check(&engine);
            }
        }
        check(&engine);
        assert!(tables_seen > 8, "limit {limit}: never more than {tables_seen} tables");
        let full = tables_seen == config.most_tables;
        assert!(most_untabled == 0 || full, "{merge:?}: {most_untabled} of {tables_seen} tables");
        assert!(most_untabled > 0 || config.most_tables > 20 || merge != Merge::None, "{merge:?}: none untabled");
        for id in live {
            engine.remove(id).expect("live");
        }
        check(&engine);
        assert_eq!((engine.rules, engine.regions, engine.order.len(), engine.overflow.len()), (0, 0, 0, 0));
    }
}

#[test]
fn duplicates_stay_together_and_others_leave_them() {
    let mut set = RuleSet::new(Schema::ipv4());
    let prefix = |value, len| Test::Prefix { value, len };
    for line in 1..=5 {
        set.insert(spec(line, vec![(0, prefix(0x0A00_0000, 24)), (1, prefix(0x0B00_0000, 24))])).expect("fits");
    }
    // It has the same tuple and, in the 22 bits that a new table keeps, the same key. The two dropped bits tell it
    // apart.
    set.insert(spec(6, vec![(0, prefix(0x0A00_0100, 24)), (1, prefix(0x0B00_0000, 24))])).expect("fits");
    let engine = engine(&set, 2);
    check(&engine);
    let stats = Classifier::stats(&engine);
    assert_eq!((stats.longest_bucket, stats.regions), (5, 6));
}

#[test]
fn a_fixed_seed_builds_the_same_bytes() {
    let set = table_one();
    let tables = |limit| engine(&set, limit).tables().collect::<Vec<_>>();
    assert_eq!(tables(2), tables(2));
}

/// A split may move every resident; the new entry still goes to the empty table.
#[test]
fn a_split_that_empties_a_table_loses_nothing() {
    let schema = Schema::new(None, vec![Field::new("a", 4, Kind::Range, None), Field::new("b", 4, Kind::Range, None)]);
    let config = Config { collision_limit: 1, seed: Some(1), ..Config::default() };
    let mut engine = TupleMerge::new(&schema, &config).expect("build");
    let regions =
        [[0, 15, 0, 15], [5, 5, 6, 6], [0, 4, 6, 6], [5, 5, 5, 15], [4, 7, 0, 15], [4, 5, 6, 7], [4, 7, 6, 6]];
    for (slot, [a, b, c, d]) in (0..).zip(regions) {
        let mut one = Regions::new(2);
        one.push(Region { lo: &[a, c], hi: &[b, d], ternary: None });
        let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(9 - u64::from(slot)) };
        engine.insert(rule, &one).expect("insert");
        let entries: usize = engine.tables().map(|(_, rules)| rules.len()).sum();
        assert_eq!((entries, engine.regions), (slot as usize + 1, slot as usize + 1));
    }
}

/// Regions beyond the longest group, which no tuple tells apart, go to the overflow list.
#[test]
fn a_group_that_is_too_long_leaves_the_rest_to_the_rest() {
    let schema = Schema::ipv4();
    let paper = [Config::paper(), Config::paper_offline(), Config::paper_tss()];
    for config in [Config::default(), Config::tss(), Config::offline()].into_iter().chain(paper) {
        let mut set = RuleSet::new(schema.clone());
        let many = pool::LONGEST as u32 + 300;
        for line in 1..=many {
            set.insert(spec(line, vec![(3, Test::Range { lo: 0x7FFF - u128::from(line), hi: 0x8000 })])).expect("fits");
        }
        let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("lowers");
        let mut engine = TupleMerge::build(&lowered, &config).expect("builds");
        check(&engine);
        let stats = Classifier::stats(&engine);
        assert_eq!(stats.regions, many as usize);
        assert!(stats.overflow == 300 || config.merge == Merge::Offline, "{stats:?}");
        // Rules are removed in order, so that regions behind in the group and in the overflow list have to answer for
        // them.
        let mut keys = crate::KeyBuf::new(&schema);
        keys.push()[3] = 0x8000;
        for (index, rule) in set.iter().enumerate() {
            let found = engine.classify(&mut engine.scratch(), keys.keys());
            assert_eq!(found.map(|found| found.rule), Some(rule.id), "{config:?}, after {index} removals");
            engine.remove(rule.id).expect("it is there");
        }
        assert_eq!(engine.classify(&mut engine.scratch(), keys.keys()), None);
    }
}

/// Keys and tuples with equal hashes are still told apart, while rules come and go.
///
/// All hashes have four bits here.
#[test]
fn hashes_that_collide_are_told_apart() {
    let schema = Schema::ipv4();
    for config in [
        Config { collision_limit: 2, spill: false, ..Config::default() },
        Config::default(),
        Config::tss(),
        Config { collision_limit: 2, ..Config::paper() },
        Config { preclassifier: false, ..Config::tss() },
    ] {
        let mut random = Random(11);
        let config = Config { seed: Some(3), ..config };
        let mut engine = crate::raw::truncated(|| TupleMerge::new(&schema, &config)).expect("builds");
        let mut live: Vec<(Match, Regions)> = Vec::new();
        for step in 0..600u64 {
            if live.len() < 20 || random.below(10) < 7 {
                // Few tuples with many keys each.
                let value = u128::from(random.below(64)) << 16;
                let mut tests = vec![(0, Test::Prefix { value, len: 16 + 16 * random.below(2) as u32 })];
                tests.extend((random.below(2) == 0).then(|| (3, Test::Value(u128::from(random.below(9))))));
                let rule = spec(0, tests);
                let mut regions = Regions::new(schema.words().len());
                lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut regions).expect("lowers");
                let priority = Priority(random.below(1 << 30) << 16 | step);
                let rule = Match { rule: RuleId::new(step as u32, 0), priority };
                engine.insert(rule, &regions).expect("room");
                live.push((rule, regions));
            } else {
                let (rule, _) = live.swap_remove(random.below(live.len() as u64) as usize);
                engine.remove(rule.rule).expect("live");
            }
            if step % 20 != 19 {
                continue;
            }
            let mut keys = crate::KeyBuf::new(&schema);
            for _ in 0..80 {
                let regions = &live[random.below(live.len() as u64) as usize].1;
                if regions.is_empty() {
                    continue;
                }
                let region = regions.get(random.below(regions.len() as u64) as usize);
                let key = keys.push();
                (0..5).for_each(|word| key[word] = [region.lo[word], region.hi[word]][random.below(2) as usize]);
            }
            let mut got = vec![None; keys.len()];
            engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut got);
            for (at, got) in got.into_iter().enumerate() {
                let holds = |(_, regions): &&(Match, Regions)| regions.iter().any(|r| r.contains(keys.keys().row(at)));
                let want = live.iter().filter(holds).map(|(rule, _)| *rule).min_by_key(|rule| rule.priority);
                assert_eq!(got, want, "{config:?}, step {step}");
            }
        }
        let collide = |table: &Table| {
            let mut tags: Vec<u32> = table.groups().map(|((b, s), _)| table.buckets()[b].tags[s]).collect();
            tags.sort_unstable();
            tags.windows(2).any(|pair| pair[0] == pair[1])
        };
        assert!(engine.in_order().any(collide), "some keys of a table have equal hashes");
    }
}

/// The visits of an insertion depend on the tables and its group, not on the number of rules.
///
/// Eight times as many rules cost about eight times as much in all.
#[test]
fn an_insertion_costs_as_much_among_many_rules() {
    let schema = Schema::ipv4();
    let visits = |count: u64| {
        let config = Config { seed: Some(1), ..Config::default() };
        let mut engine = TupleMerge::new(&schema, &config).expect("builds");
        let mut random = Random(5);
        let mut order: Vec<u64> = (0..count).collect();
        (1..order.len()).rev().for_each(|at| order.swap(at, random.below(at as u64 + 1) as usize));
        let mut total = 0;
        for at in order {
            let len = [16, 20, 24, 28, 32][at as usize % 5];
            let value = u128::from(at * 7919 % (1 << 20)) << 12;
            let rule = spec(
                0,
                vec![
                    (0, Test::Prefix { value: value >> (32 - len) << (32 - len), len }),
                    (3, Test::Value(u128::from(at % 60_000))),
                ],
            );
            let mut regions = Regions::new(schema.words().len());
            lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut regions).expect("lowers");
            engine.insert(Match { rule: RuleId::new(at as u32, 0), priority: Priority(at) }, &regions).expect("room");
            total += std::mem::take(&mut engine.visits);
        }
        let mut removals = 0;
        for at in 0..count / 2 {
            engine.remove(RuleId::new(at as u32, 0)).expect("live");
            removals += std::mem::take(&mut engine.visits);
        }
        [total as f64 / count as f64, removals as f64 / (count / 2) as f64]
    };
    let (few, many) = (visits(1_000), visits(8_000));
    for (few, many) in few.into_iter().zip(many) {
        assert!(many <= 1.5 * few + 4.0 && many <= 40.0, "{few} visits a change among few, {many} among many");
    }
}

/// Equal rules, which no split separates, are not each compared with their whole group.
#[test]
fn equal_rules_are_not_split_again_and_again() {
    let mut set = RuleSet::new(Schema::ipv4());
    let line = |line| spec(line, vec![(4, Test::Prefix { value: 6, len: 8 })]);
    (1..=4_000).for_each(|at| assert!(set.insert(line(at)).is_ok()));
    let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("lowers");
    let visits = Visits::default();
    let config = Config { seed: Some(1), ..Config::default() };
    let built = TupleMerge::build_within(&lowered, &config, &visits).expect("no budget");
    assert_eq!(Engine::stats(&built).regions, 4_000);
    // An insertion finds the end of its group without a walk. A split is tried at few lengths of the group.
    assert!(visits.made() <= 4_000 * 60, "{} visits", visits.made());
}
