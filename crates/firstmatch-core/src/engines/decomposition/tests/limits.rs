//! Counted lines, budgets, and rules that take more than they allow.

use super::*;
use crate::error::Cap;

/// Flat vectors that are read whole take exactly the lines that are stated.
#[test]
fn counted_lines_of_whole_vectors_are_the_stated_ones() {
    for set in &sets()[..3] {
        let engine = build(set, &Config { seed: Some(2), ..Config::plain() });
        let mut keys = KeyBuf::new(set.schema());
        set.regions().iter().for_each(|region| keys.push()[..5].copy_from_slice(region.lo));
        let mut best = vec![None; keys.len()];
        let counts = engine.count(&mut engine.new_scratch(), &keys.keys(), &mut best);
        let stated = Engine::stats(&engine).worst_lines * keys.len();
        assert!(best.iter().all(Option::is_some) && counts.get("lines") == Some(stated as u64), "{counts:?}");
    }
}

/// A budget is kept to the byte, and one byte less is refused with both numbers; so is a limit on the build.
#[test]
fn a_budget_is_kept_to_the_byte() {
    for set in &sets() {
        for config in [Config::default(), Config::paper()] {
            let config = Config { seed: Some(4), ..config };
            let needed = Engine::stats(&build(set, &config)).total_bytes();
            let with =
                |run_bytes| Decomposition::build(set, &Config { budget: Budget { run_bytes }, ..config.clone() });
            assert_eq!(Engine::stats(&with(needed).expect("enough")).total_bytes(), needed);
            let error = with(needed - 1).expect_err("a byte less");
            assert!(error.budget_exceeded() && error.bytes_needed().is_some_and(|(_, allowed)| allowed == needed - 1));
            let small = Decomposition::build(set, &Config { build_bytes: 10, ..config });
            assert!(small.is_err_and(|error| error.budget_exceeded()));
        }
    }
}

/// Returns ranges that all begin and end at different values, so that each has two vectors of its own.
fn overlapping(rules: u32) -> Lowered {
    let schema = Schema::new(None, [0, 1].map(|at| Field::new(&format!("f{at}"), 16, Kind::Range, None)).into());
    let lo = |at: u32| u128::from(at * 20);
    let one = |at, field| (field, Test::Range { lo: lo(at) + field as u128, hi: lo(at) + 30_003 });
    set(&schema, (0..rules).map(|at| vec![one(at, 0), one(at, 1)]))
}

/// Sets and vectors that would exceed a limit are refused at the first one too many, with the number of bytes.
#[test]
fn explosions_are_refused_with_the_number() {
    let set = overlapping(1500);
    // A set of 1,500 bits takes at most 47 words and the one that says that it has bits; its vector takes four lines.
    let longest = 4 * size_of::<Line>();
    for allowed in [10_000usize, 100_000] {
        let within =
            |config: Config| Decomposition::build(&set, &config).expect_err("some 300,000 bytes for each field");
        for config in [Config::default(), Config::paper()] {
            let error = within(Config { build_bytes: allowed, ..config });
            let said = format!("the limit is {allowed}");
            assert!(error.cap() == Some(Cap::BuildBytes) && error.to_string().contains(&said), "{error}");
        }
        let budget = Budget { run_bytes: allowed };
        for (superfields, is_early) in [(Superfields::Fields, true), (Superfields::Chosen, false)] {
            let error = within(Config { budget, superfields, ..Config::default() });
            let (needed, of) = error.bytes_needed().expect("a number of bytes");
            // Where a join may replace vectors, they are counted when all are known.
            assert!(of == allowed && needed > allowed, "{error}");
            assert_eq!(needed <= allowed + longest, is_early, "{error}");
        }
    }
    // What the sets take together is limited, too.
    let config = Config { build_bytes: 700_000, ..Config::default() };
    let error = Decomposition::build(&set, &config).expect_err("each field fits, and both do not");
    assert_eq!(error.cap(), Some(Cap::BuildBytes), "{error}");
    assert!(Decomposition::build(&set, &Config { build_bytes: 2_000_000, ..config }).is_ok());
}

/// Vectors that take less than the sets of a build fit a budget to the byte.
#[test]
fn a_budget_counts_vectors_and_not_sets() {
    // A set of some 300 neighbours has 380 bytes, and its sparse vector 64 or 128.
    let schema = Schema::new(None, vec![Field::new("f", 16, Kind::Range, None)]);
    let rule = |at: u128| vec![(0, Test::Range { lo: 15 * at, hi: 15 * at + 4503 })];
    let set = set(&schema, (0..3000).map(rule));
    for superfields in [Superfields::Fields, Superfields::Chosen] {
        let config = Config { superfields, ..Config::default() };
        let needed = Engine::stats(&build(&set, &config)).total_bytes();
        let with = |run_bytes| Decomposition::build(&set, &Config { budget: Budget { run_bytes }, ..config.clone() });
        assert!(with(needed).is_ok() && with(needed - 1).is_err(), "{needed} bytes, {superfields:?}");
        assert!(Decomposition::build(&set, &Config { build_bytes: needed, ..config.clone() }).is_err());
    }
}

/// Fields whose joined vectors exceed the bytes for joins stay as they are, and their answers do not change.
#[test]
fn joins_that_exceed_their_bytes_are_not_made() {
    // Two fields of 80 vectors each, which take less than 4,000 bytes. The vectors of pairs take some 10,000.
    let small = overlapping(40);
    let keys = bounds_of(&small, 3);
    for (build_bytes, joins) in [(1 << 20, 1), (5_000, 0)] {
        let engine = build(&small, &Config { build_bytes, ..Config::default() });
        assert_eq!((engine.searches.len(), engine.joins.len(), engine.read.len()), (2, joins, 2 - joins));
        check(&engine, &small, &keys, &format!("{build_bytes} bytes"));
    }
    // With more than 12,288 pairs, no join is tried.
    let engine = build(&overlapping(60), &Config::default());
    assert_eq!((engine.searches.len(), engine.joins.len()), (2, 0));
}

/// A group whose leading field some rule leaves open is not concatenated: tables join the vectors of its fields.
#[test]
fn open_members_of_a_group_are_joined_by_tables() {
    let schema = Schema::openflow();
    let fields = ["eth_type", "mpls_label", "ip_dscp", "in_port", "vlan_vid", "vlan_pcp", "ip_proto", "mpls_tc"];
    let fields = fields.map(|name| schema.index_of(name).expect("a field"));
    // Each rule leaves some fields open, and every field is open in some rule.
    let rule = |at: usize| {
        let kept = fields.iter().enumerate().filter(|&(index, _)| !(at + 3 * index).is_multiple_of(4));
        kept.map(|(index, &field)| (field, Test::Value((at * (index + 2) % 7) as u128))).collect()
    };
    let set = set(&schema, (0..40).map(rule));
    let keys = bounds_of(&set, 5);
    // By default, fields that the same rules leave open are hashed together.
    for (superfields, fields, are_joined) in
        [(Superfields::Paper, 8, false), (Superfields::Fields, 8, false), (Superfields::Chosen, 4, true)]
    {
        let engine = build(&set, &Config { superfields, seed: Some(3), ..Config::default() });
        let Decomposition { searches, joins, read, .. } = &engine;
        let all = (searches.len(), read.len(), !joins.is_empty());
        assert_eq!(all, (fields, fields - joins.len(), are_joined), "{superfields:?}");
        check(&engine, &set, &keys, &format!("{superfields:?}"));
    }
}
