//! Which base `meta` takes, what it refuses, and rules that outgrow the kind that was asked for.

use firstmatch::meta::{self, Candidate, Cap, Config, Engine, Explanation, Kind, Limits, Machine, Outcome, Writer};
use firstmatch::rule::{Caps, Lowered, Priority, RuleSpec, lower};
use firstmatch::simd::Level;
use firstmatch::{Budget, Schema, format};

use crate::case::Case;
use crate::corners;
use crate::generate::{Rules, rule_set, schemas};
use crate::rng::Rng;

fn lowered(rules: usize) -> Lowered {
    let schema = Schema::ipv4();
    lower(&rule_set(&schema, &mut Rng::new(rules as u64), rules), &schema, &Caps::default()).expect("within the caps")
}

fn by_order() -> Config {
    Config { trial: Some(0), ..Config::default() }
}

fn outcomes(explained: &Explanation) -> [Outcome; 4] {
    explained.candidates.map(|candidate| candidate.outcome)
}

/// The cap that refused a candidate; it says what was needed and what is allowed.
fn refused_by(candidate: &Candidate) -> Option<Cap> {
    let Outcome::Refused { cap, needed, allowed } = candidate.outcome else { return None };
    let said = candidate.to_string();
    assert!(needed > allowed && said.contains(&needed.to_string()) && said.contains(&allowed.to_string()), "{said}");
    Some(cap)
}

/// All candidates are timed where the margin says so; the one taken is the fastest, or hardly slower and earlier.
#[test]
fn the_fastest_is_chosen() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        for rules in [9, 40, 400] {
            let set = rule_set(&schema, &mut Rng::new(seed), rules);
            let lowered = lower(&set, &schema, &Caps::default()).expect("within the caps");
            let all = Config { margin: Some(f64::INFINITY), ..Config::default() };
            let explained = Engine::build(&lowered, &all).expect("no budget").explain();
            let timed: Vec<&Candidate> = explained.candidates.iter().filter(|of| of.nanos.is_some()).collect();
            if lowered.regions().len() <= 8 {
                assert!(timed.is_empty() && explained.kind == Kind::Linear, "{name}: {explained}");
                continue;
            }
            let is_out = |outcome| matches!(outcome, Outcome::ManyVectors | Outcome::Refused { .. });
            let out = explained.candidates.iter().filter(|of| is_out(of.outcome)).count();
            assert!(timed.len() >= 2 && timed.len() + out == Kind::ALL.len(), "{name}: {explained}");
            let nanos = |of: &Candidate| of.nanos.expect("it is one of those timed");
            let least = timed.iter().map(|of| nanos(of)).fold(f64::INFINITY, f64::min);
            let is_good = |of: &Candidate| nanos(of) <= (1.05 * least).max(least + 0.25);
            let first = timed.iter().find(|of| is_good(of)).expect("the fastest is");
            assert_eq!((first.kind, first.outcome), (explained.kind, Outcome::Chosen), "{name}: {explained}");
            let others = timed.iter().filter(|of| of.kind != first.kind);
            others.for_each(|of| assert_eq!(of.outcome, Outcome::Slower, "{name}: {explained}"));
            assert!(explained.compared <= 1 << 25, "{explained:?}");
            // Where a trial has no room for timing the prediction decides, and the order where it has none for that.
            for trial in [1, 1 << 12, 1 << 15, 1 << 18] {
                let poor =
                    Engine::build(&lowered, &Config { trial: Some(trial), ..all.clone() }).expect("ok").explain();
                let built = poor.candidates.iter().filter(|of| of.takes.is_some());
                let predicted = |of: &Candidate| of.predicted.map_or(f64::INFINITY, |predicted| predicted.nanos);
                let least = built.min_by(|a, b| predicted(a).total_cmp(&predicted(b))).expect("some are built");
                let is_timed = poor.candidates.iter().any(|of| of.nanos.is_some());
                assert!(poor.compared <= trial && (is_timed || poor.kind == least.kind), "{trial}: {poor}");
                assert!(trial > 1 || (!is_timed && predicted(least).is_infinite()), "{poor}");
            }
        }
    }
}

/// What is predicted says what is timed: the nearest to the best, and nothing where the prediction is to decide. One
/// description of a machine is one choice.
#[test]
fn predictions_say_what_is_timed() {
    let machine = Machine { step: 1.2, lines: [0.8, 0.8, 0.8, 1.0, 1.6, 3.5] };
    let fixed = Config { machine, seed: Some(1), simd: Some(Level::Scalar), ..Config::default() };
    let of_text = |text: String| {
        let set = format::parse(&format!("family ipv4\n{text}"), &format::Options::default()).expect("rules").rules;
        lower(&set, &set.schemas()[0], &Caps::default()).expect("within the caps")
    };
    let hosts = (0..2000u32).map(|at| format!("deny dst 10.0.{}.{}\n", at >> 8, at & 0xFF)).collect();
    let ranges =
        (0..300).map(|at| format!("deny sport {at}-{} dport {}-{}\n", 2 * at + 90, 300 - at, 999 - at)).collect();
    let sets = [
        (of_text(hosts), Some(Kind::BitSelect)),
        (of_text(ranges), Some(Kind::BitVector)),
        (lowered(20), None),
        (lowered(5_000), None),
    ];
    for (set, expected) in sets {
        let decided = || Engine::build(&set, &Config { margin: Some(1.0), ..fixed.clone() }).expect("ok").explain();
        let explained = decided();
        assert!(expected.is_none_or(|expected| explained.kind == expected), "{explained}");
        assert_eq!((explained.kind, explained.candidates), (decided().kind, decided().candidates), "{explained}");
        assert!(explained.candidates.iter().all(|of| of.nanos.is_none()), "{explained}");
        let explained = Engine::build(&set, &Config { margin: Some(2.0), ..fixed.clone() }).expect("ok").explain();
        let predicted = |of: &Candidate| of.predicted.map(|predicted| predicted.nanos);
        let least = explained.candidates.iter().filter_map(predicted).fold(f64::INFINITY, f64::min);
        let near = explained.candidates.iter().filter(|of| predicted(of).is_some_and(|nanos| nanos <= 2.0 * least));
        let near: Vec<Kind> = near.map(|of| of.kind).collect();
        for of in &explained.candidates {
            let is_timed = of.nanos.is_some() || (near.len() == 1 && of.outcome == Outcome::Chosen);
            assert_eq!(is_timed, near.contains(&of.kind), "{explained}");
            assert!(is_timed || matches!(of.outcome, Outcome::Predicted | Outcome::ManyVectors), "{explained}");
            assert!(predicted(of).is_none() || of.to_string().contains(" predicted "), "{of}");
        }
        assert!(explained.candidates.iter().any(|of| of.outcome == Outcome::Predicted), "{explained}");
        assert!(near.contains(&explained.kind), "{explained}");
    }
}

/// A rebuild keeps the kind while the rules are about as many, and chooses anew when they are not.
#[test]
fn a_rebuild_keeps_the_kind_until_the_rules_are_others() {
    let schema = Schema::ipv4();
    let (engines, mut writer) = meta::open(rule_set(&schema, &mut Rng::new(5), 300), &Config::default()).expect("ok");
    let first = engines[0].explain();
    assert!(first.candidates.iter().filter(|of| of.predicted.is_some()).count() >= 2, "{first}");
    let mut rules = Rules::new(&schema, &mut Rng::new(6), 900);
    let (mut kept, mut anew) = (0, 0);
    for round in 0..12u64 {
        let mut transaction = writer.begin();
        let mut rng = Rng::new(100 + round);
        for at in 0..60 {
            let priority = Priority((1 << 60) + round * 1000 + at);
            transaction.insert(RuleSpec { priority, ..rules.rule(&mut rng) }).expect("it fits");
        }
        transaction.commit().expect("the overlay has room");
        let before = engines[0].explain().kind;
        let rebuilt = writer.begin_rebuild().run().expect("no budget");
        writer.install(rebuilt).expect("the last");
        let explained = engines[0].explain();
        if outcomes(&explained).contains(&Outcome::Kept) {
            assert!([before, Kind::BitSelect].contains(&explained.kind), "{explained}");
            kept += 1;
        } else {
            assert!(explained.candidates.iter().filter(|of| of.predicted.is_some()).count() >= 2, "{explained}");
            anew += 1;
        }
    }
    assert!(kept >= 4 && anew >= 1, "{kept} kept, {anew} chosen anew");
}

/// Where rules change, a base that takes changes in place takes the place of one that does not and is less than three times as fast;
/// where none is to be changed in place, the fastest stays.
#[test]
fn rules_that_change_get_a_base_that_changes() {
    let schema = Schema::ipv4();
    for in_place in [None, Some(0)] {
        // By prediction alone, so that it is the same everywhere.
        let config = Config { in_place, margin: Some(1.0), ..Config::default() };
        let mut was_vectors = 0;
        for rules in [200, 400, 800, 1600] {
            let (engines, mut writer) = meta::open(rule_set(&schema, &mut Rng::new(5), rules), &config).expect("ok");
            let first = engines[0].explain();
            let nanos = |kind: Kind| {
                let of = first.candidates.iter().find(|of| of.kind == kind);
                of.and_then(|of| of.predicted).map_or(f64::INFINITY, |of| of.nanos)
            };
            let rule = Rules::new(&schema, &mut Rng::new(6), rules).rule(&mut Rng::new(7));
            let mut transaction = writer.begin();
            transaction.insert(RuleSpec { priority: Priority(1 << 60), ..rule }).expect("it fits");
            transaction.commit().expect("the overlay has room");
            let rebuilt = writer.begin_rebuild().run().expect("no budget");
            writer.install(rebuilt).expect("the last");
            let takes_over = in_place.is_none() && nanos(Kind::BitSelect) <= 3.0 * nanos(first.kind);
            let expected = if takes_over { Kind::BitSelect } else { first.kind };
            assert_eq!(engines[0].explain().kind, expected, "{first}");
            was_vectors += usize::from(first.kind == Kind::BitVector);
        }
        assert!(was_vectors > 0, "no set is for vectors");
    }
}

/// Every cap refuses by name and number, whoever keeps it is taken, and the error says so where nobody does.
#[test]
fn limits_are_kept() {
    let free = Engine::build(&lowered(300), &by_order()).expect("no limit").explain();
    let visits = free.candidates[0].visits.expect("it was built");
    for trial in [Some(0), None] {
        let with = |limits| Engine::build(&lowered(300), &Config { limits, trial, ..Config::default() });
        for (cap, limits) in [
            (Cap::WorstLines, Limits { worst_lines: free.base.worst_lines - 1, ..Limits::default() }),
            (Cap::WorstTests, Limits { worst_tests: free.base.worst_tests - 1, ..Limits::default() }),
            (Cap::BuildBytes, Limits { build_bytes: free.base.total_bytes(), ..Limits::default() }),
            (Cap::BuildVisits, Limits { build_visits: visits - 1, ..Limits::default() }),
        ] {
            match with(limits) {
                Ok(engine) => {
                    let explained = engine.explain();
                    assert!(refused_by(&explained.candidates[0]) == Some(cap), "{explained}");
                    assert!(explained.base.worst_lines <= limits.worst_lines, "{explained}");
                    assert!(explained.base.worst_tests <= limits.worst_tests, "{explained}");
                }
                Err(error) => assert!(error.budget_exceeded() && error.to_string().contains("the limit is"), "{error}"),
            }
        }
        let enough = with(Limits { build_visits: visits, ..Limits::default() }).expect("it fits").explain();
        assert_eq!((enough.candidates[0].visits, refused_by(&enough.candidates[0])), (Some(visits), None), "{enough}");
        let nothing = with(Limits { worst_tests: 0, ..Limits::default() }).expect_err("every packet is tested");
        let said = nothing.to_string();
        assert!(
            said.starts_with("a packet can be tested against ") && said.ends_with(" regions, the limit is 0"),
            "{said}"
        );
    }
}

/// What is chosen, by name, and why not the others.
#[test]
fn the_choice_is_explained() {
    let chosen = |rules: usize, config: &Config| Engine::build(&lowered(rules), config).expect("it fits").explain();
    let two = format::parse("family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n", &format::Options::default())
        .expect("rules");
    let two = lower(&two.rules, &two.rules.schemas()[0], &Caps::default()).expect("within the caps");
    let few = Engine::build(&two, &Config::default()).expect("it fits").explain();
    assert_eq!(
        (few.kind, outcomes(&few)),
        (Kind::Linear, [Outcome::FewRegions, Outcome::FewRegions, Outcome::FewRegions, Outcome::Chosen])
    );
    let many = chosen(300, &by_order());
    assert_eq!(many.kind, Kind::BitSelect);
    assert_eq!(outcomes(&many), [Outcome::Chosen, Outcome::NotNeeded, Outcome::NotNeeded, Outcome::NotNeeded]);
    // Less than it takes: what comes next is tried, and the last always fits where the budget is not absurd.
    for trial in [Some(0), None] {
        let budget = Budget { run_bytes: many.bytes - many.base.total_bytes() / 2 };
        let tight = chosen(300, &Config { budget, trial, ..Config::default() });
        assert_eq!(tight.kind, Kind::Linear, "{tight}");
        for candidate in &tight.candidates[..3] {
            assert!(refused_by(candidate) == Some(Cap::RunBytes), "{candidate}");
        }
        assert!(tight.bytes <= budget.run_bytes);
    }
    for kind in Kind::ALL {
        let forced = chosen(300, &Config { kind: Some(kind), ..Config::default() });
        assert_eq!((forced.kind, kind.name().parse(), kind.to_string()), (kind, Ok(kind), kind.name().to_owned()));
        assert!(forced.candidates.iter().all(|of| (of.kind == kind) == (of.outcome == Outcome::Chosen)));
    }
    assert!("quick".parse::<Kind>().expect_err("no kind").to_string().contains("expected one of bit_select,"));
    let nothing = Engine::build(&lowered(300), &Config { budget: Budget { run_bytes: 10_000 }, ..Config::default() });
    assert!(nothing.expect_err("too little").budget_exceeded());
}

/// The promise of the fallback: 24 bytes a region and 8 a lane (16 a ternary one), and a mebibyte.
#[test]
fn the_fallback_fits() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        let set = rule_set(&schema, &mut Rng::new(seed), 5_000);
        let lowered = lower(&set, &schema, &Caps::default()).expect("within the caps");
        let lanes = schema.lanes().len() + lowered.regions().ternary_lanes().len();
        let run_bytes = lowered.regions().len() * (8 * lanes + 24) + (1 << 20);
        let engine = Engine::build(&lowered, &Config { budget: Budget { run_bytes }, ..Config::default() });
        let engine = engine.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(engine.explain().bytes <= run_bytes, "{name}");
        let forced = Config { budget: Budget { run_bytes }, kind: Some(Kind::Linear), ..Config::default() };
        assert!(Engine::build(&lowered, &forced).is_ok(), "{name}");
    }
}

/// Rules that outgrow a kind that was asked for: the first ones are refused, later ones have another base for as long as they
/// are too many.
#[test]
fn a_kind_that_no_longer_fits_is_replaced() {
    let schema = Schema::ipv4();
    let rules = rule_set(&schema, &mut Rng::new(8), 100);
    let base = |engine: &Engine| engine.explain().base;
    let kind = Some(Kind::BitVector);
    let (engines, _writer) = meta::open(rules.clone(), &Config { kind, ..Config::default() }).expect("no budget");
    let most = base(&engines[0]).worst_tests;
    let with = |worst_tests| Config { kind, limits: Limits { worst_tests, ..Limits::default() }, ..Config::default() };
    let error = meta::open(rules.clone(), &with(most - 1)).expect_err("it was asked for and does not fit");
    assert!(error.budget_exceeded() && error.to_string().contains("the limit is"), "{error}");

    let (engines, mut writer) = meta::open(rules, &with(most)).expect("it fits");
    let rebuild = |writer: &mut Writer| {
        let rebuilt = writer.begin_rebuild().run().expect("something fits");
        writer.install(rebuilt).expect("the last");
        let explained = engines[0].explain();
        let case = corners::of_set(writer.rules(), &schema, &mut Rng::new(4), 200);
        Case::new(writer.rules(), &schema, case).check(&engines[0]).expect("right");
        assert_eq!(explained.asked, kind);
        explained
    };
    let id = writer.rules().iter().next().expect("some are live").id;
    for round in 0..2 {
        let spec = writer.rules().get(id).expect("it is live").spec.clone();
        let mut transaction = writer.begin();
        let more = transaction.insert(RuleSpec { priority: Priority(7), ..spec }).expect("it fits");
        transaction.commit().expect("the overlay has room");
        let other = if round == 0 {
            rebuild(&mut writer)
        } else {
            writer.renumber().expect("something fits");
            engines[0].explain()
        };
        assert_eq!(other.kind, Kind::BitSelect, "{other}");
        assert_eq!(refused_by(&other.candidates[1]), Some(Cap::WorstTests), "{other}");
        assert!(other.to_string().contains("bit_vector  asked for; refused: "), "{other}");
        let mut transaction = writer.begin();
        transaction.remove(more).expect("it is live");
        transaction.commit().expect("a removal has room");
        let again = rebuild(&mut writer);
        assert_eq!((again.kind, again.candidates[0].outcome), (Kind::BitVector, Outcome::NotAsked), "{again}");
    }
}
