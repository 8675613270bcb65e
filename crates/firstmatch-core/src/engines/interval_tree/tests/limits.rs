//! Budgets, stated bounds, and scratches of other engines.

use super::*;
use crate::engines::interval_tree::scratch::FoundSets;

/// A budget is kept to the byte, and one byte less is refused with both numbers.
#[test]
fn a_budget_is_kept_to_the_byte() {
    for set in &sets() {
        for config in [Config::default(), Config::paper()] {
            let needed = Engine::stats(&build(set, &config)).total_bytes();
            let with = |run_bytes| Npf::build(set, &Config { budget: Budget { run_bytes }, ..config.clone() });
            assert_eq!(Engine::stats(&with(needed).expect("enough")).total_bytes(), needed);
            for run_bytes in [needed - 1, needed / 2, 100, 0] {
                let error = with(run_bytes).expect_err("too few");
                let (more, allowed) = error.bytes_needed().expect("a number of bytes");
                assert!(error.budget_exceeded() && more > allowed && allowed == run_bytes, "{error}");
            }
        }
    }
}

/// Ranges that all begin and end at different values are refused at the first set beyond the limit.
#[test]
fn explosions_are_refused_early() {
    let rules = (0..3000u128).map(|at| vec![(2, Test::Range { lo: at * 10, hi: at * 10 + 30_003 })]);
    let set = set(&Schema::ipv4(), rules);
    for config in [Config::default(), Config::paper()] {
        let whole = Engine::stats(&build(&set, &config)).total_bytes();
        let error = Npf::build(&set, &Config { budget: Budget { run_bytes: 100_000 }, ..config }).expect_err("a limit");
        let (needed, allowed) = error.bytes_needed().expect("a number of bytes");
        assert!(whole > 1_000_000 && allowed == 100_000 && needed < 120_000, "{error} of {whole}");
    }
}

/// A scratch fits only the engine that made it.
///
/// Another engine replaces it before its lookup, even with equally many intervals.
#[test]
fn scratches_know_their_engine() {
    let of = |port: u128| build(&set(&Schema::ipv4(), [vec![(3, Test::Value(port))]]), &Config::default());
    let (one, other) = (of(80), of(443));
    let mut scratch = one.new_scratch();
    assert!(one.fits(&scratch) && !other.fits(&scratch));
    assert!(one.walk(&mut scratch, &[0, 0, 0, 80, 0]).found.is_some());
    assert!(other.walk(&mut scratch, &[0, 0, 0, 80, 0]).found.is_none());
    assert!(other.fits(&scratch) && other.walk(&mut scratch, &[0, 0, 0, 443, 0]).found.is_some());
}

/// No word takes more steps than are stated, under traffic that reads the shapes of all words.
#[test]
fn steps_of_a_word_are_at_most_the_stated() {
    for set in &sets()[..3] {
        for config in [Config::default(), Config { sample: 1, bypass: false, ..Config::defended() }] {
            let engine = build(set, &config);
            let (mut scratch, mut random) = (engine.new_scratch(), Random(3));
            for _ in 0..30 {
                let deepest = |shape: &Shape| {
                    let mut depths = shape.depths();
                    depths.sort_unstable_by_key(|&(_, depth)| std::cmp::Reverse(depth));
                    depths.truncate(16);
                    depths
                };
                let targets: Vec<_> = (0..5).map(|word| deepest(scratch.shape(word).expect("a tree"))).collect();
                for _ in 0..100 {
                    let mut pick = |all: &Vec<(u32, u32)>| all[random.below(all.len() as u64) as usize].0;
                    let key: Vec<u32> = targets.iter().map(&mut pick).collect();
                    let walk = engine.walk(&mut scratch, &key);
                    for (word, &edges) in walk.edges.iter().enumerate() {
                        assert!((edges as usize) < engine.worst_steps(word));
                        assert!(edges <= scratch.shape(word).expect("a tree").cap());
                    }
                }
            }
        }
    }
    let engine = build(&sets()[0], &Config::default());
    let count = engine.intervals(0);
    assert_eq!(engine.worst_steps(0), (2 * halvings(count + 1) + 8 + 1 + halvings(count)) as usize);
}

/// A scratch takes the bytes that are stated.
#[test]
fn scratch_bytes_are_those_of_its_parts() {
    for config in [Config::default(), Config::paper(), Config { adapts: false, ..Config::default() }] {
        let engine = build(&sets()[1], &config);
        let Shapes { shapes, sums, pairs, found, .. } = engine.new_scratch();
        let FoundSets { sets, places } = found;
        let nodes: usize = shapes.iter().map(|shape| size_of_val(&shape.nodes[..])).sum();
        let of_lookups = pairs.capacity() * 16 + size_of_val(&sets[..]) + size_of_val(&places[..]);
        let own = nodes + size_of_val(&shapes[..]) + 8 * sums.len() + of_lookups;
        assert_eq!(engine.scratch_bytes(), own);
    }
}

/// Numbers beyond their bounds are refused, and the error says what is expected.
#[test]
fn bad_numbers_are_refused() {
    let none = Lowered::empty(&Schema::ipv4());
    for sample in [0, 65] {
        let error = Npf::build(&none, &Config { sample, ..Config::default() }).expect_err("a bad number").to_string();
        assert!(error.contains(&format!("one packet in {sample} is counted; expected 1 to 64")), "{error}");
    }
}
