//! Outcomes of candidates, at the exact limits.

use super::*;
use crate::engine::Match;
use crate::rule::{Priority, Region, RuleId};
use crate::schema::Schema;
use crate::select::limits::Limits;
use crate::select::strategy::Calls;

/// Returns `count` rules; `bounds` gives the bounds of source, destination and ports of each.
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

/// Returns a candidate of a kind with the given tests and badness.
fn candidate(set: &Lowered, kind: Kind, tests: usize, badness: f64) -> Built {
    let visits = Visits::default();
    let how = build(kind, &Config::default(), usize::MAX, &visits, None);
    let base = kind.build(set, &how).expect("no budget");
    Built { bytes: base.stats().total_bytes(), base, tests, lines: tests, badness }
}

fn kinds(built: &[Built]) -> Vec<Kind> {
    built.iter().map(|built| built.base.kind()).collect()
}

const ALL: [Kind; 4] = [Kind::BitSelect, Kind::BitVector, Kind::TupleMerge, Kind::Linear];

/// Timing and the search for unmatched keys make no more region visits than they may.
#[test]
fn visits_stay_within_their_share() {
    let set = hosts(300);
    // Neither of two equal candidates is far slower, so both have every turn.
    let built = [Kind::Linear, Kind::Linear].map(|kind| candidate(&set, kind, 1, 1.0));
    let bases: Vec<&AnyBase> = built.iter().map(|built| &built.base).collect();
    for visits in (8..24).step_by(3).map(|bits| 1 << bits) {
        for base in &bases {
            let (_, made) = traffic::unmatched(&set, &[], base, 256, visits);
            assert!(made <= visits, "{made} visits of {visits}");
        }
        for count in [1, 3] {
            let samples: Vec<_> = traffic::of_rules(&set, &[], 4096).into_iter().take(count).collect();
            let made =
                [Calls::Batches, Calls::Packets].map(|calls| trial::time(&bases, &samples, calls, visits).visits);
            assert!(made.iter().all(|&made| made <= visits), "{made:?} visits of {visits} for {count} samples");
        }
    }
}

/// Candidates are timed on every sample. A candidate whose share of the visits is too small is dropped, with this
/// outcome.
///
/// If that is every candidate, no outcome changes, so that the first by order can be taken.
#[test]
fn a_candidate_without_a_share_is_not_timed() {
    let (set, deep) = (hosts(20), hosts(4000));
    let config = Config::default();
    let samples = traffic::of_rules(&set, &[], 1024);
    for (visits, kept, outcome) in [
        (1 << 26, &[Kind::BitSelect, Kind::Linear][..], Outcome::NotNeeded),
        (1 << 19, &[Kind::BitSelect, Kind::Linear], Outcome::NotNeeded),
        (1 << 16, &[Kind::BitSelect], Outcome::Untimed),
        (1 << 4, &[], Outcome::NotNeeded),
    ] {
        let mut trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        let mut built = vec![candidate(&set, Kind::BitSelect, 1, 0.5), candidate(&deep, Kind::Linear, 1, 0.5)];
        let nanos = trials.time(&mut built, &samples, visits);
        assert_eq!((kinds(&built), nanos.len()), (kept.to_vec(), kept.len()), "{visits} visits");
        assert!(trials.compared <= visits, "{} of {visits}", trials.compared);
        assert_eq!(trials.of(Kind::Linear).outcome, outcome, "{visits} visits");
        for kind in [Kind::BitSelect, Kind::Linear] {
            let known = trials.of(kind).nanos.iter().flatten().copied().collect::<Vec<f64>>();
            let at = built.iter().position(|built| built.base.kind() == kind);
            assert_eq!(known, at.map_or(Vec::new(), |at| nanos[at].clone()), "{kind}, {visits} visits");
        }
    }
}

/// A candidate for rules that nothing separates is built only if lookups of all others touch many lines.
///
/// Without visits to count lines, the worst case of a lookup decides.
#[test]
fn a_candidate_for_bad_rules_is_left_where_another_is_good() {
    let config = Config::default();
    let nested = rules(2000, |at| ([0, 0, 0, 3000 - at], [u32::MAX, u32::MAX, 1 << 16, 3000 + at]));
    for (set, kind, visits, is_left) in [
        (hosts(300), Kind::BitSelect, 1 << 26, true),
        (hosts(300), Kind::BitSelect, 1, true),
        (nested, Kind::Linear, 1 << 26, false),
        (hosts(300), Kind::Linear, 1, false),
    ] {
        let samples = traffic::of_rules(&set, &[], 1024);
        let mut trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        let built = [candidate(&set, kind, 1, 0.5)];
        let left = trials.good_without(Kind::Decomposition, &built, &samples, visits);
        let worth = Kind::Decomposition.worth_lines();
        let is_good =
            left.is_some_and(|of| matches!(of, Outcome::GoodWithout { lines, worth: w } if w == worth && lines < w));
        assert_eq!((is_good, left.is_some()), (is_left, is_left), "{kind}, {visits} visits: {left:?}");
        assert!(trials.compared <= visits / SHARE, "{} of {visits}", trials.compared);
        assert_eq!(trials.good_without(Kind::TupleMerge, &built, &samples, visits), None, "others are always built");
    }
}

/// A candidate that exceeds the default limits is dropped if another keeps them. If none does, the ones less than twice
/// as bad as the least bad are kept.
#[test]
fn bad_worst_cases_are_left() {
    let set = hosts(20);
    let config = Config::default();
    let left = |badness: [f64; 4]| {
        let mut trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        let each = ALL.iter().zip(badness);
        let mut built: Vec<Built> = each.map(|(&kind, badness)| candidate(&set, kind, 1, badness)).collect();
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

/// A candidate with a hundred times another's worst case is kept only if it is twice as fast everywhere.
#[test]
fn what_is_hardly_faster_is_left() {
    let set = hosts(20);
    let config = Config::default();
    let left = |each: [([f64; 2], usize); 4]| {
        let mut trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        let of = |(&kind, (_, tests))| candidate(&set, kind, tests, 0.5);
        let mut built: Vec<Built> = ALL.iter().zip(each).map(of).collect();
        let mut nanos: Vec<Vec<f64>> = each.iter().map(|(nanos, _)| nanos.to_vec()).collect();
        trials.leave_hardly_faster(&mut built, &mut nanos);
        let own = |built: &Built| ALL.iter().position(|&kind| kind == built.base.kind()).map(|at| each[at].0.to_vec());
        assert!(built.iter().map(own).eq(nanos.into_iter().map(Some)), "times stay with candidates");
        let outcomes = trials.candidates.iter().map(|of| of.outcome).collect::<Vec<_>>();
        (kinds(&built), outcomes)
    };
    let [select, vector, _, linear] = ALL;
    let (kept, outcomes) = left([([10.0, 10.0], 10), ([5.0, 5.0], 1000), ([5.0, 5.1], 1000), ([9.0, 9.0], 999)]);
    assert_eq!((kept, outcomes[2]), (vec![select, vector, linear], Outcome::HardlyFaster { tests: 1000 }));
}

/// A candidate above 1 MiB with four times another's memory is kept only if the other takes over twice as long
/// somewhere.
#[test]
fn what_is_heavy_is_left() {
    let set = hosts(20);
    let config = Config::default();
    let [select, vector, tuple, linear] = ALL;
    let mebi = 1 << 20;
    let left = |each: [([f64; 2], usize); 4]| {
        let mut trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        let of = |(&kind, (_, bytes))| Built { bytes, ..candidate(&set, kind, 1, 0.5) };
        let mut built: Vec<Built> = ALL.iter().zip(each).map(of).collect();
        let mut nanos: Vec<Vec<f64>> = each.iter().map(|(nanos, _)| nanos.to_vec()).collect();
        trials.leave_hardly_faster(&mut built, &mut nanos);
        (kinds(&built), trials.of(vector).outcome)
    };
    let (kept, outcome) =
        left([([10.0, 10.0], (mebi + 4) / 4), ([5.0, 5.0], mebi + 4), ([5.0, 4.9], mebi + 4), ([9.0, 9.0], mebi)]);
    assert_eq!((kept, outcome), (vec![select, tuple, linear], Outcome::Heavy { bytes: mebi + 4 }));
    // Less than four times, and a rival that takes more than twice as long somewhere.
    let (kept, _) =
        left([([10.0, 10.0], (mebi + 8) / 4), ([5.0, 5.0], mebi + 7), ([10.1, 5.0], 9), ([9.0, 9.0], mebi)]);
    assert_eq!(kept, [select, vector, tuple, linear]);
}

/// If a lookup has fewer lines than tests, the lines count instead: a lookup of few lines is not deep.
#[test]
fn few_lines_are_few_tests() {
    let set = hosts(20);
    let config = Config::default();
    for (lines, is_left) in [(99, false), (100, true)] {
        let mut trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        let mut built = vec![
            Built { lines: 9, ..candidate(&set, Kind::BitSelect, 1, 0.5) },
            Built { lines, ..candidate(&set, Kind::BitVector, 1000, 0.5) },
        ];
        let mut nanos = vec![vec![10.0], vec![9.0]];
        trials.leave_hardly_faster(&mut built, &mut nanos);
        assert_eq!((built.len(), nanos.len()), if is_left { (1, 1) } else { (2, 2) }, "{lines} lines");
    }
}

/// A kind that exceeds its own limit is outgrown; one that exceeds the budget is refused.
#[test]
fn vectors_have_a_limit_of_their_own() {
    let (set, config) = (hosts(4000), Config::default());
    let outcome = |run_bytes: usize, config: &Config| {
        let mut trials = Trials::new(&set, &set, config, run_bytes, &[]);
        let base = trials.build(Kind::BitVector, 0).expect("no error");
        assert_eq!(base.is_some(), trials.of(Kind::BitVector).takes.is_some());
        assert_eq!(base.is_none(), trials.refusal.is_some(), "an error can say why");
        trials.of(Kind::BitVector).outcome
    };
    assert!(matches!(outcome(usize::MAX, &config), Outcome::Outgrown { allowed: 1_048_576, .. }));
    let refused = outcome(100_000, &config);
    assert!(matches!(refused, Outcome::Refused { cap: Cap::RunBytes, allowed: 100_000, .. }), "{refused}");
    let forced = Config { strategy: Strategy::Force(Kind::BitVector), ..Config::default() };
    assert_eq!(outcome(usize::MAX, &forced), Outcome::NotNeeded, "whoever asks for it gets it");
}

/// A build beside others counts their bytes. A build that is worth only some visits stops at just that number. A limit
/// refuses with both numbers.
#[test]
fn builds_are_held_to_their_numbers() {
    let set = hosts(200);
    let config = Config::default();
    for kind in ALL {
        let mut trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        let built = trials.build(kind, 0).expect("no error").expect("no cap");
        let visits = trials.of(kind).visits.expect("every build visits regions");
        let stats = built.stats();
        assert_eq!(trials.of(kind).takes, Some([stats.total_bytes(), stats.worst_lines, stats.worst_tests]), "{kind}");
        assert!(trials.build_within(kind, 0, visits).expect("no error").is_some(), "{kind}: {visits} are enough");
        assert!(trials.build_within(kind, 0, visits - 1).expect("no error").is_none(), "{kind}: one less is not");
        let made = trials.of(kind).visits.expect("some were made");
        assert_eq!(trials.of(kind).outcome, Outcome::LongBuild { visits: made }, "{kind}");
        assert!(made > visits - 1 && made <= visits && trials.refusal.is_none(), "{kind}: {made} of {visits}");
        let needed = kind.build_bytes(&set, false) + 1234;
        for (build_bytes, fits) in [(needed, true), (needed - 1, false)] {
            let config = Config { limits: Limits { build_bytes, ..Limits::default() }, ..Config::default() };
            let mut trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
            assert_eq!(trials.build(kind, 1234).expect("no error").is_some(), fits, "{kind}");
            if !fits {
                let (cap, allowed) = (Cap::BuildBytes, needed - 1);
                assert_eq!(trials.of(kind).outcome, Outcome::Refused { cap, needed, allowed }, "{kind}");
                assert_eq!(trials.refusal, Some(BuildError::limit(cap, needed, allowed)), "{kind}");
                // Alone it may fit; a candidate that was refused for another reason stays refused.
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
    let two = [Kind::Linear, Kind::BitSelect].map(|kind| candidate(&set, kind, 1, 0.5));
    assert_eq!(bytes(&two), two.iter().map(|of| of.base.stats().total_bytes()).sum::<usize>());
}

/// A scan of more regions than the default limit is left out if another candidate keeps the limits, and only then.
#[test]
fn a_long_scan_is_left_where_another_is_short() {
    let few = hosts(20);
    for (count, badness, is_left) in [(4096, 0.5, false), (4097, 0.5, true), (4097, 1.0, true), (4097, 1.1, false)] {
        let (set, config) = (hosts(count), Config::default());
        let trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        let beside = [candidate(&few, Kind::BitSelect, 1, badness)];
        let left = trials.left_out(Kind::Linear, &beside);
        let deep = Outcome::Deep { cap: Cap::WorstTests, needed: count as usize, allowed: 4096 };
        assert_eq!(left, is_left.then_some(deep), "{count} regions beside {badness}");
        // A limit that was set takes the default's place.
        let limits = Limits { worst_tests: Some(9999), ..Limits::default() };
        let config = Config { limits, ..Config::default() };
        let trials = Trials::new(&set, &set, &config, usize::MAX, &[]);
        assert_eq!(trials.left_out(Kind::Linear, &beside), None);
    }
}

/// A base is over the defaults if its worst case exceeds them, not if it just keeps them. The rank of a wide rule is
/// the number of rules before it, not of regions.
#[test]
fn what_is_chosen_says_what_it_rests_on() {
    let config = Config::default();
    for (count, is_over) in [(4096, false), (4097, true)] {
        let set = hosts(count);
        let wide: Vec<Wide> = [3, 7].map(|region| Wide { region, is_most: false }).into();
        let mut trials = Trials::new(&set, &set, &config, usize::MAX, &wide);
        let base = trials.build(Kind::Linear, 0).expect("no error").expect("no cap");
        let (_, choice) = trials.end(base, Outcome::Slower, Some(7));
        assert_eq!((choice.is_over_defaults, choice.timed_with), (is_over, Some(7)));
        let noted: Vec<_> = choice.wide.iter().flatten().collect();
        assert_eq!(noted, [&(RuleId::new(3, 0), 3), &(RuleId::new(7, 0), 7)]);
        let outcomes = choice.candidates.iter().map(|of| of.outcome).collect::<Vec<_>>();
        assert!(outcomes.iter().zip(Kind::ALL).all(|(outcome, kind)| match kind {
            Kind::Linear => *outcome == Outcome::Chosen,
            _ => *outcome == Outcome::Slower,
        }));
    }
    let mut set = Lowered::empty(&Schema::ipv4());
    for region in 0..40u32 {
        let slot = region / 4;
        let rule = Match { rule: RuleId::new(90 - slot, 2), priority: Priority::of_line(slot + 1) };
        set.push(rule, Region { lo: &[0, 0, region, 0, 0], hi: &[9, 9, region, 9, 9], ternary: None });
    }
    // Two regions of one rule are one wide rule.
    let wide: Vec<Wide> = [9, 10, 39].map(|region| Wide { region, is_most: true }).into();
    let mut trials = Trials::new(&set, &set, &config, usize::MAX, &wide);
    let base = trials.build(Kind::Linear, 0).expect("no error").expect("no cap");
    let (_, choice) = trials.end(base, Outcome::NotNeeded, None);
    let noted: Vec<_> = choice.wide.iter().flatten().collect();
    assert_eq!(noted, [&(RuleId::new(88, 2), 2), &(RuleId::new(81, 2), 9)]);
}
