//! A change is done whole or not at all, in both replicas, over trees of every shape.

use super::*;
use crate::engines::bit_select::Shape as Trees;

/// A region is in the leaves of the tree in which changes look for it, as built and after changes.
///
/// That holds for trees of every shape, also for small ones.
#[test]
fn regions_are_where_they_are_looked_for() {
    for (count, seed) in [(9, 1), (24, 2), (60, 3), (200, 4)] {
        for all in [nets(&Schema::ipv4(), (0, 0), 2 * count, seed), wild(2 * count, seed)] {
            for (trees, open) in [(1, 0), (2, 0), (3, 1), (4, 2), (7, 3), (9, 0)] {
                let shape = Some(Trees { trees, levels: 3, fan_out: 2, open, growth: 4.0 });
                let config = Config { shape, ..scalar() };
                let mut at = Walk::new_with(&all, config, count, seed);
                at.check(30);
                walk(&mut at, &[(count, 5), (count, 2)], count / 2);
            }
        }
    }
}

/// Adds a rule of these regions behind all others.
fn push(all: &mut Lowered, slot: u32, regions: &[Region<'_>]) {
    let last = all.rules().last().map_or(0, |rule| rule.priority.0);
    let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(last + (1 << 20)) };
    regions.iter().for_each(|region| all.push(rule, *region));
}

/// If a region of a rule is refused, no other region of the rule is left behind, wherever the refused one stands.
///
/// A rule of the same regions without the refused one is inserted.
#[test]
fn a_rule_that_is_refused_leaves_nothing() {
    let hosts = |at: u128| vec![(0, Test::Value(at << 12)), (1, Test::Value(at << 9)), (4, Test::Value(6))];
    let mut all = set(&Schema::ipv4(), (0..100).map(hosts));
    // Ranges of protocols have no columns.
    let bounds = |at: u32, protocols: [u32; 2]| {
        (vec![at << 12, at << 9, 0, 0, protocols[0]], vec![at << 12, at << 9, 9 + at, 65_535, protocols[1]])
    };
    let good: Vec<_> = (0..5).map(|at| bounds(20 * at, [17, 17])).collect();
    let bad = bounds(50, [6, 17]);
    let as_region = |(lo, hi): &'_ (Vec<u32>, Vec<u32>)| (lo.clone(), hi.clone());
    for place in 0..=good.len() {
        let mut bounds: Vec<_> = good.iter().map(as_region).collect();
        bounds.insert(place, as_region(&bad));
        let regions: Vec<Region<'_>> = bounds.iter().map(|(lo, hi)| Region { lo, hi, ternary: None }).collect();
        push(&mut all, 1000 + place as u32, &regions);
    }
    let regions: Vec<Region<'_>> = good.iter().map(|(lo, hi)| Region { lo, hi, ternary: None }).collect();
    push(&mut all, 2000, &regions);
    let rules: Vec<Ranged> = all.by_rule().collect();
    let mut at = Walk::with(&all, scalar(), rules[..100].to_vec(), Vec::new(), Random(1));
    for (number, rule) in rules[100..].iter().enumerate() {
        at.swap();
        let before = Engine::stats(&at.engine);
        let is_in = at.insert(rule.clone());
        assert_eq!(is_in, number > good.len(), "rule {number}");
        let after = Engine::stats(&at.engine);
        let more = if is_in { (1, good.len()) } else { (0, 0) };
        assert_eq!((after.rules, after.regions), (before.rules + more.0, before.regions + more.1), "rule {number}");
        at.check(60);
    }
}

/// A built rule is removed only if each of its regions can be found; otherwise it stays whole.
#[test]
fn a_first_rule_goes_whole_or_stays_whole() {
    let schema = Schema::ipv4();
    let most: Vec<u32> = schema.words().iter().map(|word| word.max).collect();
    let mut all = set(&schema, (0..1000u128).map(|at| vec![(0, Test::Value(at << 12)), (1, Test::Value(at << 9))]));
    let narrow = |at: u32| (vec![at << 12, at << 9, 0, 5, 0], vec![at << 12, at << 9, most[2], 9, most[4]]);
    let wide = (vec![0, 0, 0, 700, 0], vec![most[0], most[1], most[2], 800, most[4]]);
    let cases = [vec![narrow(1), wide.clone()], vec![wide, narrow(2)], vec![narrow(3), narrow(4)]];
    for (slot, bounds) in (2000..).zip(&cases) {
        let regions: Vec<Region<'_>> = bounds.iter().map(|(lo, hi)| Region { lo, hi, ternary: None }).collect();
        push(&mut all, slot, &regions);
    }
    let rules: Vec<Ranged> = all.by_rule().collect();
    // One tree, so that a region without addresses reaches more entries than may be changed.
    let shape = Some(Trees { trees: 1, levels: 2, fan_out: 4, open: 0, growth: 8.0 });
    let mut at = Walk::with(&all, Config { shape, ..scalar() }, rules.clone(), Vec::new(), Random(1));
    for (number, rule) in rules[1000..].iter().enumerate() {
        let before = Engine::stats(&at.engine);
        at.there.retain(|of| of != rule);
        at.remove(rule.clone());
        let is_gone = number == 2;
        assert_eq!((at.kept, at.engine.has_built_rule(1000 + number)), (2.min(number + 1), !is_gone), "rule {number}");
        let after = Engine::stats(&at.engine);
        let less = if is_gone { (1, 2) } else { (0, 0) };
        assert_eq!((after.rules, after.regions), (before.rules - less.0, before.regions - less.1), "rule {number}");
        at.check(60);
    }
}

/// Each built rule has its own mark as removed, in both replicas.
#[test]
fn first_rules_are_marked_one_by_one() {
    let all = set(&Schema::ipv4(), (0..200u128).map(|at| vec![(0, Test::Value(at << 12))]));
    let mut at = Walk::with(&all, scalar(), all.by_rule().collect(), Vec::new(), Random(1));
    let mut removed = HashSet::new();
    for place in [64, 0, 199, 63, 128, 127, 65, 191, 192] {
        at.swap();
        let rule = at.built[place];
        let position = at.there.iter().position(|(of, _)| *of == rule).expect("it is there");
        let rule = at.there.remove(position);
        at.remove(rule);
        removed.insert(place);
        at.catch_up();
        for engine in [&at.engine, &at.other] {
            assert!((0..200).all(|of| engine.has_built_rule(of) != removed.contains(&of)), "after {place}");
            assert_eq!((engine.rules(), engine.changes()), (200 - removed.len(), removed.len()));
        }
    }
    at.check(60);
}

/// If rules are only inserted, room ends, and the engine says so, for any number of built rules and of blocks freed.
#[test]
fn the_end_of_room_is_said() {
    let mut ended = 0;
    for there in (60..500).step_by(20) {
        let mut random = Random(there as u64);
        let hosts: Vec<u128> = (0..2500).map(|_| u128::from(random.below(1 << 32))).collect();
        let all = set(&Schema::ipv4(), hosts.into_iter().map(|host| vec![(0, Test::Value(host))]));
        let mut rules: Vec<Ranged> = all.by_rule().collect();
        random.shuffle(&mut rules);
        let come = rules.split_off(there);
        rules.sort_by_key(|(rule, _)| rule.priority);
        let mut at = Walk::with(&all, scalar(), rules, Vec::new(), random);
        come.into_iter().for_each(|rule| _ = at.insert(rule));
        // A list has no more than four blocks, and one more is kept free.
        let is_out = at.engine.room_left() < 5;
        ended += usize::from(is_out);
        at.catch_up();
        for engine in [&at.engine, &at.other] {
            assert!(!is_out || engine.is_short_of_room(), "{there} rules, {} refused", at.refused);
        }
    }
    assert!(ended > 10, "{ended} ran out of room");
}

/// A search says that there is little room if less than a quarter of it is left, but not if exactly a quarter is.
#[test]
fn little_room_is_less_than_a_quarter() {
    let schema = Schema::ipv4();
    let mut engine = BitSelect::build(&nets(&schema, (0, 0), 6000, 7), &Config::default()).expect("no budget");
    let used = engine.blocks.len() / engine.shape.lines();
    let mut met = [0; 2];
    for room in used..2 * used {
        engine.room = room;
        engine.look_for_free_blocks();
        assert_eq!(engine.is_short_of_room(), engine.room_left() < room / 4, "{used} blocks of {room}");
        met[0] += usize::from(engine.room_left() == room / 4);
        met[1] += usize::from(engine.is_short_of_room());
    }
    assert!(met[0] > 0 && met[1] > 0 && met[1] < used, "{met:?} of {used}");
}
