//! Predictions of the memory that insertions take, and that no memory is lost.

use super::*;

/// Returns the bytes that an insertion asks for when the budget is 0.
fn needed(engine: &TupleMerge, rule: Match, regions: &Regions) -> usize {
    let mut engine = engine.clone();
    engine.budget = 0;
    let refused = engine.insert(rule, regions).expect_err("nothing is allowed").into_build_error(rule.rule);
    let (needed, allowed) = refused.bytes_needed().expect("it is for bytes");
    assert_eq!(allowed, 0);
    needed
}

fn drawn(random: &mut Random, step: u64) -> (Match, Regions) {
    let schema = Schema::ipv4();
    let mut regions = Regions::new(schema.words().len());
    lower_rule(&schema, &spec(0, random.rule()), &ExpansionLimits::default(), &mut regions).expect("lowers");
    let priority = Priority(random.below(1 << 30) << 16 | step);
    (Match { rule: RuleId::new(step as u32, 0), priority }, regions)
}

/// A budget of one byte less than an insertion takes refuses it and changes nothing.
///
/// The bytes that a refusal names are enough for a rule of one region.
#[test]
fn no_insertion_takes_more_than_is_said() {
    let ours =
        |collision_limit, spill, most_tables| Config { collision_limit, spill, most_tables, ..Config::default() };
    for config in [
        ours(1, false, 512),
        ours(2, true, 512),
        Config::default(),
        ours(3, false, 4),
        Config { collision_limit: 1, ..Config::tss() },
        Config { collision_limit: 1, most_tables: 6, ..Config::tss() },
        Config { collision_limit: 1, ..Config::paper() },
        Config::paper_tss(),
    ] {
        let config = Config { seed: Some(3), ..config };
        let mut engine = TupleMerge::new(&Schema::ipv4(), &config).expect("no budget");
        let (mut random, mut live) = (Random(config.collision_limit as u64 + 20), Vec::new());
        for step in 0..500 {
            if step % 300 < 200 || live.is_empty() {
                let (rule, regions) = drawn(&mut random, step);
                let (before, said) = (engine.bytes(), needed(&engine, rule, &regions));
                let refusing = engine.clone();
                engine.insert(rule, &regions).expect("no budget");
                live.push(rule.rule);
                let after = engine.bytes();
                assert!(regions.len() > 1 || after <= said, "{config:?}, step {step}: {after} bytes, {said} were said");
                if after > before {
                    let mut refusing = refusing;
                    let stats = Engine::stats(&refusing);
                    refusing.budget = after - 1;
                    let refused = refusing.insert(rule, &regions).expect_err("a byte is missing");
                    assert!(refused.budget_exceeded() && refusing.bytes() <= refusing.budget.max(before));
                    let is = Engine::stats(&refusing);
                    assert_eq!((is.rules, is.regions), (stats.rules, stats.regions), "{config:?}, step {step}");
                    check(&refusing);
                }
            } else {
                let rule = live.swap_remove(random.below(live.len() as u64) as usize);
                let before = engine.bytes();
                engine.remove(rule).expect("live");
                assert!(engine.bytes() <= before, "a removal takes nothing");
            }
        }
        check(&engine);
    }
}

/// The predicted growth of the pool is less than three times the real one, for entries of any size.
#[test]
fn a_pool_is_said_to_grow_by_two_chunks() {
    let wide = Schema::new(None, (0..4).map(|at| Field::new(&format!("f{at}"), 128, Kind::Prefix, None)).collect());
    for (schema, lines) in [(Schema::ipv4(), 1), (Schema::ipv6(), 2), (wide, 3)] {
        let mut engine = TupleMerge::new(&schema, &Config { seed: Some(1), ..Config::tss() }).expect("no budget");
        assert_eq!(engine.pool.lines_per_entry(), lines);
        let mut chunks = 0;
        for slot in 0..6000u32 {
            let mut regions = Regions::new(schema.words().len());
            let tests = vec![(0, Test::Value(u128::from(slot) * 77))];
            lower_rule(&schema, &spec(0, tests), &ExpansionLimits::default(), &mut regions).expect("lowers");
            let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(slot.into()) };
            let (before, said) = (engine.pool.bytes(), engine.pool.growth(1, 0));
            engine.insert(rule, &regions).expect("no budget");
            let grown = engine.pool.bytes() - before;
            if grown > 0 {
                chunks += 1;
                assert!(grown <= said && said < 3 * grown, "rule {slot} of {lines} lines: {grown}, {said} were said");
            }
        }
        assert!(chunks > 10, "{chunks} chunks");
    }
}

/// On top of a constant, the growth of a table is predicted exactly, and that of the places within a factor of two.
#[test]
fn growth_is_said_where_there_is_some() {
    let schema = Schema::ipv4();
    let host = |field: usize, slot: u32| {
        let mut regions = Regions::new(schema.words().len());
        let tests = vec![(field, Test::Value(u128::from(slot) * 77 + 1))];
        lower_rule(&schema, &spec(0, tests), &ExpansionLimits::default(), &mut regions).expect("lowers");
        (Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) }, regions)
    };
    let mut engine = TupleMerge::new(&schema, &Config { seed: Some(1), ..Config::tss() }).expect("no budget");
    // A second table, that never grows.
    let (rule, regions) = host(1, 0);
    engine.insert(rule, &regions).expect("no budget");
    let (mut last, mut compared, mut grown) = (None, 0, 0);
    for slot in 1..100 {
        let (rule, regions) = host(0, slot);
        let said = needed(&engine, rule, &regions) - engine.bytes();
        let (tables, others) = (engine.table_bytes, engine.bytes() - engine.table_bytes);
        engine.insert(rule, &regions).expect("no budget");
        let growth = engine.table_bytes - tables;
        let is_alone = engine.bytes() - engine.table_bytes == others;
        if let Some((before, others_before)) = last
            && others == others_before
            && is_alone
        {
            assert_eq!(said - growth, before, "slot {slot}: a table grows by {growth}");
            compared += 1;
            grown += usize::from(growth > 0);
        }
        last = is_alone.then_some((said - growth, others));
    }
    assert!(compared > 60 && grown >= 3, "{compared} compared, {grown} grew");
    // Slot 1000 needs another piece of the list of places.
    let [near, far] = [100, 1000].map(|slot| {
        let (rule, regions) = host(0, slot);
        needed(&engine, rule, &regions)
    });
    let before = engine.places.bytes();
    let (rule, regions) = host(0, 1000);
    engine.insert(rule, &regions).expect("no budget");
    let grown = engine.places.bytes() - before;
    assert!(grown > 1000 && far - near >= grown && far - near <= 2 * grown, "{near}, {far}, grown by {grown}");
}

/// The prediction for an insertion that splits a table includes all entries that may move, in the pool and in buckets.
#[test]
fn a_split_is_said_to_move_a_table() {
    let schema = Schema::ipv4();
    let config = Config { collision_limit: 2, spill: false, seed: Some(1), ..Config::default() };
    let mut engine = TupleMerge::new(&schema, &config).expect("no budget");
    let rule = |slot: u32, net: u32, port: u128| {
        let mut regions = Regions::new(schema.words().len());
        let tests = vec![(0, Test::Prefix { value: u128::from(net) << 16, len: 20 }), (3, Test::Value(port))];
        lower_rule(&schema, &spec(0, tests), &ExpansionLimits::default(), &mut regions).expect("lowers");
        (Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) }, regions)
    };
    // One table of the sources, two regions in one of its groups.
    let mut first = Regions::new(schema.words().len());
    let tests = vec![(0, Test::Prefix { value: 0, len: 20 })];
    lower_rule(&schema, &spec(0, tests), &ExpansionLimits::default(), &mut first).expect("lowers");
    engine.insert(Match { rule: RuleId::new(0, 0), priority: Priority(0) }, &first).expect("no budget");
    for slot in 1..60 {
        let (rule, regions) = rule(slot, slot, 5);
        engine.insert(rule, &regions).expect("no budget");
    }
    let (second, regions) = rule(60, 59, 6);
    engine.insert(second, &regions).expect("no budget");
    assert_eq!(engine.order.len(), 1);
    let table = engine.in_order().next().expect("one");
    let [roomy, crowded] = [(61, 58, 7), (61, 59, 7)].map(|(slot, net, port)| {
        let (rule, regions) = rule(slot, net, port);
        needed(&engine, rule, &regions)
    });
    let (longest, moved) = (engine.longest, table.len());
    assert_eq!(moved, 61);
    let pool = engine.pool.growth(longest, moved) - engine.pool.growth(longest, 0);
    assert!(pool > 61 * 64);
    assert_eq!(crowded - roomy, pool + Table::buckets_bytes(moved));
}

/// A rule that is refused half way leaves nothing behind: no slot, no regions, and no memory of their masks.
#[test]
fn a_rule_that_is_refused_half_way_goes_whole() {
    let schema = Schema::new(None, vec![Field::new("a", 32, Kind::Mask, None), Field::new("b", 16, Kind::Range, None)]);
    let config = Config { seed: Some(1), ..Config::default() };
    let mut engine = TupleMerge::new(&schema, &config).expect("no budget");
    let many = |count: u32, number: u32| {
        let mut regions = Regions::new(2);
        for at in 0..count {
            let (value, mask) = ([0, number & 1], [0xF0F0, 1]);
            regions.push(Region {
                lo: &[at << 16, number & 1],
                hi: &[at << 16 | 0x0F0F, number & 1],
                ternary: Some((&value, &mask)),
            });
        }
        regions
    };
    let rule = |slot: u32| Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
    (0..30).for_each(|slot| engine.insert(rule(slot), &many(2, slot)).expect("no budget"));
    let mut refused = 0;
    for more in (0..60_000).step_by(1500) {
        engine.budget = engine.bytes() + more;
        let before = Engine::stats(&engine);
        match engine.insert(rule(40), &many(300, 0)) {
            Ok(()) => {
                engine.remove(RuleId::new(40, 0)).expect("it is there");
            }
            Err(error) => {
                refused += 1;
                assert!(error.budget_exceeded() && engine.bytes() <= engine.budget, "{error}");
            }
        }
        check(&engine);
        let after = Engine::stats(&engine);
        assert_eq!((after.rules, after.regions), (before.rules, before.regions), "{more} bytes more");
        assert!(engine.remove(RuleId::new(40, 0)).is_err_and(|error| error.is_stale()), "its slot is free");
    }
    assert!(refused > 5, "{refused} were refused");
}

/// The prediction for a further region of a rule has one place more than that for the first.
#[test]
fn further_regions_are_said_to_take_places() {
    let schema = Schema::ipv4();
    let mut engine = TupleMerge::new(&schema, &Config { seed: Some(1), ..Config::default() }).expect("no budget");
    let (rule, regions) = drawn(&mut Random(1), 0);
    engine.insert(rule, &regions).expect("no budget");
    engine.budget = 0;
    let said = |before: usize| {
        let refused = engine.check_budget(1, before, &regions.get(0)).expect_err("nothing is allowed");
        refused.into_build_error(rule.rule).bytes_needed().expect("it is for bytes").0
    };
    let grows = |regions: usize| engine.places.growth(1, regions);
    assert!(grows(2) > grows(1));
    assert_eq!([1, 2].map(said), [said(0) + grows(2) - grows(1); 2]);
}

/// Once the best rule of a table is removed, the bound is recomputed after half as many removals as rules remain.
#[test]
fn a_bound_is_found_anew() {
    let schema = Schema::ipv4();
    let mut engine = TupleMerge::new(&schema, &Config { seed: Some(1), ..Config::tss() }).expect("no budget");
    for slot in 0..100u32 {
        let mut regions = Regions::new(schema.words().len());
        lower_rule(&schema, &spec(0, vec![(0, Test::Value(slot.into()))]), &ExpansionLimits::default(), &mut regions)
            .expect("lowers");
        let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(slot.into()) };
        engine.insert(rule, &regions).expect("no budget");
    }
    let best = |engine: &TupleMerge| engine.in_order().next().expect("one").best();
    engine.remove(RuleId::new(0, 0)).expect("live");
    assert_eq!(best(&engine), Priority(0), "the bound is still that of the rule that has gone");
    (60..99).rev().for_each(|slot| engine.remove(RuleId::new(slot, 0)).expect("live"));
    assert_eq!(best(&engine), Priority(1));
}
