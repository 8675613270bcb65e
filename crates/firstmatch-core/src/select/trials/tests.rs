//! What becomes of candidates, at the very numbers that are stated.

use super::*;
use crate::engine::Match;
use crate::rule::{Priority, Region, RuleId};
use crate::schema::Schema;
use crate::select::limits::Limits;

/// `count` rules that differ in what `bounds` gives for each, source, destination and ports.
fn rules(count: u32, bounds: impl Fn(u32) -> ([u32; 4], [u32; 4])) -> Lowered {
    let mut set = Lowered::empty(&Schema::ipv4());
    for at in 0..count {
        let rule = Match { rule: RuleId::new(at, 0), priority: Priority::of_line(at + 1) };
        let ([a, b, c, d], [e, f, g, h]) = bounds(at);
        set.push(rule, Region { lo: &[a, b, c, d, 0], hi: &[e, f, g, h, 255], ternary: None });
    }
    set
}

fn hosts(count: u32) -> Lowered {
    rules(count, |at| ([at << 8, 0, 0, 0], [at << 8, u32::MAX, 1 << 16, 1 << 16]))
}

/// A candidate of a kind with what is said of it.
fn candidate(set: &Lowered, kind: Kind, nanos: &[f64], tests: usize, bytes: usize, badness: f64) -> Built {
    let visits = Visits::default();
    let how = build(kind, &Config::default(), usize::MAX, &visits, None);
    let base = kind.build(set, &how).expect("no budget");
    Built { base, nanos: nanos.to_vec(), tests, bytes, badness }
}

fn kinds(built: &[Built]) -> Vec<Kind> {
    built.iter().map(|built| built.base.kind()).collect()
}

const ALL: [Kind; 4] = [Kind::BitSelect, Kind::BitVector, Kind::TupleMerge, Kind::Linear];

/// Candidates of all four kinds with these times on two sorts of traffic, these tests in the worst case and these bytes.
fn four(set: &Lowered, each: [([f64; 2], usize, usize); 4]) -> Vec<Built> {
    ALL.iter().zip(each).map(|(&kind, (nanos, tests, bytes))| candidate(set, kind, &nanos, tests, bytes, 0.5)).collect()
}

#[test]
fn the_margin_is_as_stated() {
    let set = hosts(20);
    for level in Level::available() {
        let of = |margin| {
            let config = Config { simd: Some(level), strategy: Strategy::Measure { margin }, ..Config::default() };
            Trials::new(&set, &config, usize::MAX, &[]).margin()
        };
        assert_eq!(of(None), if level == Level::Avx2 { 4.0 } else { 6.0 });
        assert_eq!((of(Some(1.5)), of(Some(f64::INFINITY))), (1.5, f64::INFINITY));
    }
}

#[test]
fn the_worst_ratio_is_over_all_traffic() {
    let nanos = [vec![10.0, 30.0], vec![20.0, 10.0], vec![10.5, 12.0]];
    let ratio = |at, slack| worst_ratio(&nanos, at, slack, |_| true);
    assert_eq!([ratio(0, 0.0), ratio(1, 0.0), ratio(2, 0.0)], [3.0, 2.0, 1.2]);
    // Nanoseconds that no ratio counts: as many as stated, and no more.
    assert_eq!([ratio(2, 0.5), ratio(2, 2.0), ratio(2, 1.99)], [1.2, 1.0, 1.2]);
    assert_eq!(worst_ratio(&nanos, 0, 0.0, |other| other == 2), 2.5);
    assert_eq!(worst_ratio(&nanos, 0, 0.0, |_| false), 1.0);
}

/// Candidates are timed that are predicted to take up to four times the least on every sort of traffic, within two
/// nanoseconds, and those whose rivals have worst cases of more than twice their tests.
#[test]
fn those_near_the_best_are_timed() {
    let set = hosts(20);
    let config = Config { strategy: Strategy::Measure { margin: Some(4.0) }, ..Config::default() };
    let same = |nanos: [f64; 2]| (nanos, 100, 1000);
    let left = |each: [([f64; 2], usize, usize); 4]| {
        let mut trials = Trials::new(&set, &config, usize::MAX, &[]);
        let mut built = four(&set, each);
        trials.leave_slow(&mut built);
        let outcomes = trials.candidates.iter().map(|of| of.outcome).collect::<Vec<_>>();
        (kinds(&built), outcomes)
    };
    let [select, vector, tuple, linear] = ALL;
    let (kept, outcomes) = left([same([10.0, 10.0]), same([40.0, 40.0]), same([40.1, 10.0]), same([10.0, 40.1])]);
    assert_eq!(kept, [select, vector]);
    let dropped = [Outcome::NotNeeded, Outcome::NotNeeded, Outcome::Predicted, Outcome::Predicted];
    assert_eq!(outcomes, dropped);
    // Two nanoseconds more than the least are no more; a candidate that was not predicted is said to be so.
    let (kept, outcomes) = left([same([0.25, 9.0]), same([2.25, 11.0]), same([2.5, 9.0]), same([f64::INFINITY, 9.0])]);
    assert_eq!((kept, outcomes[3]), (vec![select, vector], Outcome::Unpredicted));
    // A rival with twice the tests counts, one with more does not.
    let (kept, _) = left([([1.0, 1.0], 200, 1), ([9.0, 9.0], 100, 1), ([9.0, 9.0], 99, 1), ([9.0, 9.0], 199, 1)]);
    assert_eq!(kept, [select, tuple]);
    // Where the prediction is to decide, all are kept until it does.
    let config = Config { strategy: Strategy::Predict, ..Config::default() };
    let mut built = four(&set, [same([1.0, 1.0]), same([90.0, 90.0]), same([900.0, 9.0]), same([9.0, 900.0])]);
    Trials::new(&set, &config, usize::MAX, &[]).leave_slow(&mut built);
    assert_eq!(kinds(&built), [select, vector, tuple, linear]);
}

/// Of worst cases over the default limits none is kept beside one that is not, else those less than twice as bad as the
/// least bad.
#[test]
fn bad_worst_cases_are_left() {
    let set = hosts(20);
    let config = Config::default();
    let left = |badness: [f64; 4]| {
        let mut trials = Trials::new(&set, &config, usize::MAX, &[]);
        let each = ALL.iter().zip(badness);
        let mut built: Vec<Built> = each.map(|(&kind, badness)| candidate(&set, kind, &[], 1, 1, badness)).collect();
        trials.leave_deep(&mut built);
        let deep = trials.candidates.iter().filter(|of| matches!(of.outcome, Outcome::Deep { .. })).count();
        assert_eq!(deep + built.len(), 4);
        kinds(&built)
    };
    let [select, vector, tuple, linear] = ALL;
    assert_eq!(left([0.2, 1.0, 1.01, 3.0]), [select, vector]);
    assert_eq!(left([2.0, 1.5, 3.0, 2.75]), [select, vector, linear]);
    assert_eq!(left([9.0, 1.0, 1.5, 1.9]), [vector]);
    assert_eq!(left([9.0, 8.2, 4.1, 8.1]), [tuple, linear]);
}

/// A worst case a hundred times another's is kept only where it is twice as fast everywhere; four times another's memory,
/// of more than a mebibyte, only where the other takes more than twice as long somewhere.
#[test]
fn what_is_hardly_faster_is_left() {
    let set = hosts(20);
    let config = Config::default();
    let left = |each: [([f64; 2], usize, usize); 4]| {
        let mut trials = Trials::new(&set, &config, usize::MAX, &[]);
        let mut built = four(&set, each);
        let mut nanos: Vec<Vec<f64>> = built.iter().map(|built| built.nanos.clone()).collect();
        trials.leave_hardly_faster(&mut built, &mut nanos);
        assert!(built.iter().zip(&nanos).all(|(built, nanos)| built.nanos == *nanos), "times stay with candidates");
        let outcomes = trials.candidates.iter().map(|of| of.outcome).collect::<Vec<_>>();
        (kinds(&built), outcomes)
    };
    let [select, vector, tuple, linear] = ALL;
    let (kept, outcomes) =
        left([([10.0, 10.0], 10, 1), ([5.0, 5.0], 1000, 1), ([5.0, 5.1], 1000, 1), ([9.0, 9.0], 999, 1)]);
    assert_eq!((kept, outcomes[2]), (vec![select, vector, linear], Outcome::HardlyFaster { tests: 1000 }));
    let mebi = 1 << 20;
    let (kept, outcomes) = left([
        ([10.0, 10.0], 10, (mebi + 4) / 4),
        ([5.0, 5.0], 10, mebi + 4),
        ([5.0, 4.9], 10, mebi + 4),
        ([9.0, 9.0], 10, mebi),
    ]);
    assert_eq!((kept, outcomes[1]), (vec![select, tuple, linear], Outcome::Heavy { bytes: mebi + 4 }));
    // Less than four times; and a rival that was not compared says nothing.
    let (kept, _) = left([
        ([10.0, 10.0], 10, (mebi + 8) / 4),
        ([5.0, 5.0], 10, mebi + 7),
        ([f64::INFINITY, 5.0], 10, 9),
        ([9.0, 9.0], 10, mebi),
    ]);
    assert_eq!(kept, [select, vector, tuple, linear]);
    let (kept, _) = left([
        ([10.0, 10.0], 10, 9 * mebi),
        ([f64::INFINITY, f64::INFINITY], 10, 9),
        ([10.0, 10.0], 10, 9 * mebi),
        ([20.1, 10.0], 10, 9),
    ]);
    assert_eq!(kept, [select, vector, tuple, linear]);
}

/// What is built beside others counts them; what is only worth so many visits is left unfinished at just that number, and
/// a limit refuses with both numbers.
#[test]
fn builds_are_held_to_their_numbers() {
    let set = hosts(200);
    let config = Config::default();
    for kind in ALL {
        let mut trials = Trials::new(&set, &config, usize::MAX, &[]);
        let built = trials.build(kind, 0).expect("no error").expect("no cap");
        let visits = trials.of(kind).visits.expect("every build visits regions");
        let stats = built.stats();
        assert_eq!(trials.of(kind).takes, Some([stats.total_bytes(), stats.worst_lines, stats.worst_tests]), "{kind}");
        assert!(trials.build_within(kind, 0, visits).expect("no error").is_some(), "{kind}: {visits} are enough");
        assert!(trials.build_within(kind, 0, visits - 1).expect("no error").is_none(), "{kind}: one less is not");
        let made = trials.of(kind).visits.expect("some were made");
        assert_eq!(trials.of(kind).outcome, Outcome::LongBuild { visits: made }, "{kind}");
        assert!(made > visits - 1 && made <= visits && trials.refusal.is_none(), "{kind}: {made} of {visits}");
        let needed = kind.build_bytes(&set) + 1234;
        for (build_bytes, fits) in [(needed, true), (needed - 1, false)] {
            let config = Config { limits: Limits { build_bytes, ..Limits::default() }, ..Config::default() };
            let mut trials = Trials::new(&set, &config, usize::MAX, &[]);
            assert_eq!(trials.build(kind, 1234).expect("no error").is_some(), fits, "{kind}");
            if !fits {
                let (cap, allowed) = (Cap::BuildBytes, needed - 1);
                assert_eq!(trials.of(kind).outcome, Outcome::Refused { cap, needed, allowed }, "{kind}");
                assert_eq!(trials.refusal, Some(BuildError::limit(cap, needed, allowed)), "{kind}");
                // By itself it may fit; what was refused for another reason stays so.
                trials.try_alone();
                assert_eq!(trials.of(kind).outcome, Outcome::NotNeeded, "{kind}");
                let refused = Outcome::Refused { cap: Cap::WorstTests, needed: 2, allowed: 1 };
                trials.of(kind).outcome = refused;
                trials.try_alone();
                assert_eq!(trials.of(kind).outcome, refused, "{kind}");
            }
        }
    }
    assert_eq!(bytes(&[]), 0);
    let two = [Kind::Linear, Kind::BitSelect].map(|kind| candidate(&set, kind, &[], 1, 1, 0.5));
    assert_eq!(bytes(&two), two.iter().map(|of| of.base.stats().total_bytes()).sum::<usize>());
}

/// TupleMerge is not built where 1,024 of the regions would share buckets of more than 128, or would take longer by
/// themselves than the candidate before it takes with all, the margin aside.
#[test]
fn tuplemerge_is_left_where_a_sample_says_so() {
    let config = Config { strategy: Strategy::Measure { margin: Some(4.0) }, seed: Some(1), ..Config::default() };
    let left_out = |set: &Lowered, nanos: [f64; 2]| {
        let trials = Trials::new(set, &config, usize::MAX, &[]);
        trials.left_out(Kind::TupleMerge, &[candidate(&hosts(20), Kind::Linear, &nanos, 1, 1, 0.5)]).expect("no error")
    };
    let ranges = |count| rules(count, |at| ([0, 0, at, 3], [u32::MAX, u32::MAX, 40_000 + at, 9 * at + 20_000]));
    let Some(Outcome::LongBuckets { longest }) = left_out(&ranges(1024), [1e9, 1e9]) else {
        panic!("buckets are long")
    };
    assert!(longest > 128 && longest <= 1024, "{longest}");
    assert_eq!(
        Outcome::LongBuckets { longest: 7 }.to_string(),
        "not tried: of 1024 of the regions 7 would share a bucket"
    );
    assert_eq!(left_out(&ranges(1023), [1e9, 1e9]), None, "so few are built");
    // 128 alike in a bucket, and one more.
    let alike = |each: u32| {
        rules(1024, move |at| ([(at / each) << 8, 0, at, 0], [(at / each) << 8, u32::MAX, 1 << 16, 1 << 16]))
    };
    assert_eq!(left_out(&alike(128), [1e9, 1e9]), None);
    assert_eq!(left_out(&alike(129), [1e9, 1e9]), Some(Outcome::LongBuckets { longest: 129 }));
    let Some(Outcome::Sampled { picoseconds }) = left_out(&hosts(1024), [0.0, 0.0]) else { panic!("it is slow") };
    let nanos = picoseconds as f64 / 1e3;
    assert!(nanos > 1.0, "{nanos}");
    // Slow against the first candidate on every sort of traffic, not on one alone.
    let (near, far) = (nanos / 4.0 + 0.01, nanos / 4.0 - 0.01);
    assert_eq!(left_out(&hosts(1024), [far, far]), Some(Outcome::Sampled { picoseconds }));
    assert_eq!((left_out(&hosts(1024), [near, far]), left_out(&hosts(1024), [far, near])), (None, None));
    // With nothing beside it, it is built whatever a sample says.
    let set = ranges(1024);
    assert_eq!(Trials::new(&set, &config, usize::MAX, &[]).left_out(Kind::TupleMerge, &[]).expect("no error"), None);
}

/// A scan of more regions than the default limit is left where another keeps the limits, and only there.
#[test]
fn a_long_scan_is_left_where_another_is_short() {
    let few = hosts(20);
    for (count, badness, is_left) in [(4096, 0.5, false), (4097, 0.5, true), (4097, 1.0, true), (4097, 1.1, false)] {
        let (set, config) = (hosts(count), Config::default());
        let trials = Trials::new(&set, &config, usize::MAX, &[]);
        let beside = [candidate(&few, Kind::BitSelect, &[1.0], 1, 1, badness)];
        let left = trials.left_out(Kind::Linear, &beside).expect("no error");
        let deep = Outcome::Deep { cap: Cap::WorstTests, needed: count as usize, allowed: 4096 };
        assert_eq!(left, is_left.then_some(deep), "{count} regions beside {badness}");
        // A limit that was set takes the default's place.
        let limits = Limits { worst_tests: Some(9999), ..Limits::default() };
        let config = Config { limits, ..Config::default() };
        let trials = Trials::new(&set, &config, usize::MAX, &[]);
        assert_eq!(trials.left_out(Kind::Linear, &beside).expect("no error"), None);
    }
}

/// A base is over the defaults where its worst case is, not where it just keeps them; and the wide rules are noted by what
/// comes before them, rules and not regions.
#[test]
fn what_is_chosen_says_what_it_rests_on() {
    let config = Config::default();
    for (count, is_over) in [(4096, false), (4097, true)] {
        let set = hosts(count);
        let wide: Vec<Wide> = [3, 7].map(|region| Wide { region, is_most: false }).into();
        let mut trials = Trials::new(&set, &config, usize::MAX, &wide);
        let base = trials.build(Kind::Linear, 0).expect("no error").expect("no cap");
        let (_, choice) = trials.end(base, Outcome::Slower, Some(7));
        assert_eq!((choice.is_over_defaults, choice.timed_with), (is_over, Some(7)));
        let noted: Vec<_> = choice.wide.iter().flatten().collect();
        assert_eq!(noted, [&(RuleId::new(3, 0), 3), &(RuleId::new(7, 0), 7)]);
        let outcomes = choice.candidates.iter().map(|of| of.outcome).collect::<Vec<_>>();
        let vectors = Outcome::ManyRegions { most: 2048 };
        assert_eq!(outcomes, [Outcome::Slower, vectors, Outcome::Slower, Outcome::Chosen]);
    }
    let mut set = Lowered::empty(&Schema::ipv4());
    for region in 0..40u32 {
        let slot = region / 4;
        let rule = Match { rule: RuleId::new(90 - slot, 2), priority: Priority::of_line(slot + 1) };
        set.push(rule, Region { lo: &[0, 0, region, 0, 0], hi: &[9, 9, region, 9, 9], ternary: None });
    }
    // Two regions of one rule are one wide rule.
    let wide: Vec<Wide> = [9, 10, 39].map(|region| Wide { region, is_most: true }).into();
    let mut trials = Trials::new(&set, &config, usize::MAX, &wide);
    let base = trials.build(Kind::Linear, 0).expect("no error").expect("no cap");
    let (_, choice) = trials.end(base, Outcome::NotNeeded, None);
    let noted: Vec<_> = choice.wide.iter().flatten().collect();
    assert_eq!(noted, [&(RuleId::new(88, 2), 2), &(RuleId::new(81, 2), 9)]);
}
