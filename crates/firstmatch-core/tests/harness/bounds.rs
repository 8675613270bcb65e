//! Limits and bounds at their very numbers.
//!
//! Needs that just fit are taken, one less is refused, and messages name both.

use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::engines::tuple::{self, TupleMerge};
use firstmatch_core::live::{Cap, Config, Engine, Kind, Limits, Outcome, Strategy};
use firstmatch_core::rule::{
    Condition, ExpansionLimits, Lowered, NamedCondition, Priority, Region, Regions, RuleId, RuleSet, RuleSpec, Test,
    lower, lower_rule,
};
use firstmatch_core::{Budget, Classifier, Match, Schema};

use crate::engines::{Start, is_restricted, structures, updatable_structures};
use crate::generate::{empty_rule, rule_set, schemas};
use crate::rng::Rng;

fn lowered(schema: &Schema, rules: usize) -> Lowered {
    lower(&rule_set(schema, &mut Rng::new(3), rules), schema, &ExpansionLimits::default()).expect("within the caps")
}

/// Each limit of a forced base takes the number that the base needs and refuses one less.
///
/// Outcome and error name the need and the limit.
#[test]
fn a_limit_takes_what_just_fits_and_refuses_one_less() {
    let set = lowered(&Schema::ipv4(), 200);
    for &kind in Kind::ALL {
        let build = |limits| {
            Engine::build(&set, &Config { strategy: Strategy::Force(kind), limits, seed: Some(1), ..Config::default() })
        };
        let free = build(Limits::default()).expect("no limit").explain();
        let own = free.candidates.iter().find(|of| of.kind == kind).expect("every kind is listed");
        let refused = build(Limits { build_bytes: 0, ..Limits::default() }).expect_err("nothing is built in no memory");
        let numbers = |text: &str| -> Vec<usize> {
            text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
        };
        let build_bytes = numbers(&refused.to_string())[0];
        let visits = own.visits.expect("every build visits regions");
        let caps = [
            (Cap::WorstLines, free.base.worst_lines),
            (Cap::WorstTests, free.base.worst_tests),
            (Cap::BuildBytes, build_bytes),
            (Cap::BuildVisits, visits),
        ];
        for (cap, needed) in caps {
            let limits = |most| match cap {
                Cap::WorstLines => Limits { worst_lines: Some(most), ..Limits::default() },
                Cap::WorstTests => Limits { worst_tests: Some(most), ..Limits::default() },
                Cap::BuildBytes => Limits { build_bytes: most, ..Limits::default() },
                _ => Limits { build_visits: most, ..Limits::default() },
            };
            let fits = build(limits(needed)).map(|engine| engine.explain().kind);
            assert_eq!(fits.ok(), Some(kind), "{kind}: {cap:?} {needed} is enough");
            let error = build(limits(needed - 1)).expect_err("one less is too little").to_string();
            let named = numbers(&error);
            // A build that exceeds its visits ends before it knows how many it needs.
            let is_named = |of: &usize| if cap == Cap::BuildVisits { *of > needed - 1 } else { *of == needed };
            assert!(named.first().is_some_and(is_named) && named.get(1) == Some(&(needed - 1)), "{kind}: {error}");
            // Where there is a choice the outcome says the same.
            let config =
                Config { limits: limits(needed - 1), strategy: Strategy::FirstFit, seed: Some(1), ..Config::default() };
            if let Ok(engine) = Engine::build(&set, &config) {
                let explained = engine.explain();
                let of = explained.candidates.iter().find(|of| of.kind == kind).expect("every kind is listed");
                if let Outcome::Refused { cap: by, needed: stated, allowed } = of.outcome {
                    let is_stated = by == cap && is_named(&stated) && allowed == needed - 1;
                    assert!(is_stated, "{kind}: {explained}");
                    assert_eq!(numbers(&of.outcome.to_string())[..2], [stated, allowed], "{kind}: {explained}");
                }
            }
        }
    }
}

/// A scan may test a packet against every region; a rule may have many.
#[test]
fn a_scan_is_bounded_by_its_regions() {
    for (name, schema) in schemas() {
        let set = lowered(&schema, 60);
        let stats = Linear::build(&set, &linear::Config::default()).expect("no budget").stats();
        assert_eq!((stats.worst_tests, stats.longest_bucket), (set.regions().len(), set.regions().len()), "{name}");
    }
}

/// A cache adds one test, the line of a set, and the lines of two entries.
///
/// One entry is compared and one replaced.
#[test]
fn a_cache_adds_its_own_to_the_bounds() {
    for (name, schema) in schemas() {
        let inner = TupleMerge::build(&lowered(&schema, 60), &tuple::Config::default()).expect("no budget");
        let before = inner.stats();
        let after = FlowCache::new(inner, &flow::Config::default()).expect("no level is forced").stats();
        // An entry has the key and five words more.
        let entry = (schema.words().len() + 5).div_ceil(16);
        let bounds = (before.worst_tests + 1, before.worst_lines + 1 + 2 * entry);
        assert_eq!((after.worst_tests, after.worst_lines), bounds, "{name}");
    }
}

fn on(field: usize, tests: &[Test]) -> Condition {
    Condition { field, negated: false, tests: tests.iter().map(|&test| (None, test)).collect() }
}

/// Values that touch become one region, in whatever order and form they are listed.
#[test]
fn neighbours_are_one_region() {
    let schema = Schema::ipv4();
    let tests = [Test::Range { lo: 3, hi: 9 }, Test::Value(1), Test::Prefix { value: 10, len: 15 }, Test::Value(2)];
    for (tests, regions) in [(&tests[..], 1), (&tests[..2], 2), (&[Test::Value(7), Test::Value(8)], 1)] {
        let rule = RuleSpec { conditions: [on(3, tests)].into(), ..empty_rule(Priority(1)) };
        let mut out = Regions::new(schema.words().len());
        lower_rule(&schema, &rule, &ExpansionLimits::default(), &mut out).expect("within the caps");
        assert_eq!(out.len(), regions, "{tests:?}");
    }
}

/// A region under a mask takes two bounds, value and mask a word.
///
/// One without a mask takes the bounds alone.
#[test]
fn regions_under_masks_count_whole() {
    let schema = Schema::ipv4();
    let each = |parts: usize| parts * schema.words().len() * size_of::<u32>() + size_of::<Match>();
    for (test, each) in [(Test::Mask { value: 1, mask: 5 }, each(4)), (Test::Value(1), each(2))] {
        let mut set = RuleSet::new(schema.clone());
        for at in 0..10 {
            let conditions = [on(3, &[test])].into();
            set.insert(RuleSpec { conditions, ..empty_rule(Priority(at)) }).expect("the rule fits");
        }
        let within =
            |region_bytes| lower(&set, &schema, &ExpansionLimits { region_bytes, ..ExpansionLimits::default() });
        assert!(within(10 * each).is_ok() && within(10 * each - 1).is_err(), "{test:?}");
    }
}

/// A rule set refuses conditions bound to other fields, and two conditions on one field.
#[test]
fn a_set_refuses_what_is_bound_elsewhere_and_what_is_said_twice() {
    let (mut ipv4, mut ipv6) = (RuleSet::new(Schema::ipv4()), RuleSet::new(Schema::ipv6()));
    let bound = ipv4.bind([NamedCondition::new("dport", [Test::Value(7)])]).expect("the field exists");
    let rule = RuleSpec { conditions: bound, ..empty_rule(Priority(1)) };
    assert!(ipv6.insert(rule.clone()).is_err() && ipv6.is_empty());
    ipv4.insert(rule).expect("the rule fits");
    let twice = [on(3, &[Test::Value(7)]), on(3, &[Test::Value(8)])].into();
    let error = ipv4.insert(RuleSpec { conditions: twice, ..empty_rule(Priority(2)) }).expect_err("two conditions");
    assert!(error.to_string().contains("there are two conditions on dport"), "{error}");
    assert_eq!(ipv4.len(), 1);
}

/// A base that stays takes its budget to the byte, and is the same then; with one byte less it is smaller, or refused
/// with both numbers.
#[test]
fn a_budget_is_taken_to_the_byte() {
    let mut smaller = 0;
    for (name, schema) in schemas() {
        let set = lowered(&schema, 200);
        for subject in structures().into_iter().filter(|subject| !subject.is_updatable() && !subject.is_meta()) {
            let with = |run_bytes| subject.try_build(&set, Budget { run_bytes });
            let free = with(usize::MAX).expect("no budget").stats();
            let needed = free.total_bytes();
            let same = with(needed).expect("what it took before").stats();
            let is_same = if subject.fills_its_budget() { same.total_bytes() <= needed } else { same == free };
            assert!(is_same, "{}, {name}: {same:?}, {free:?}", subject.name);
            // Trees that are slower may be smaller.
            for less in [needed - 1, needed * 3 / 4, needed / 2] {
                let Ok(engine) = with(less) else { continue };
                let is_smaller = engine.stats().total_bytes() <= less && subject.can_shrink();
                assert!(is_smaller, "{}, {name}", subject.name);
                smaller += 1;
            }
            if let Err(error) = with(needed - 1) {
                let said = format!("the engine needs {needed} bytes; the budget allows {}", needed - 1);
                // The list of a rule cache has a budget of its own.
                let is_own = subject.name.starts_with("rule cache");
                let is_said = error.to_string() == said || subject.can_shrink() || is_own;
                assert!(is_said && error.budget_exceeded(), "{}, {name}: {error}", subject.name);
            }
        }
    }
    assert!(smaller > 2 || is_restricted(), "{smaller} builds of other trees");
}

/// A change that is refused says what is wrong with it: the number of words given and the engine's, in this order; the
/// id that is there; the id that is not, whichever use of its slot is.
#[test]
fn a_refused_change_names_what_is_wrong() {
    for (name, schema) in schemas() {
        let key_words = schema.words().len();
        let set = lowered(&schema, 12);
        for subject in updatable_structures() {
            let mut engine = subject.start(Start::Rules(&set));
            let there = set.rules()[set.rules().len() / 2].rule;
            let (slot, reuse) = (there.slot() as u32, there.reuse());
            let mut wide = Regions::new(key_words + 2);
            wide.push(Region { lo: &vec![0; key_words + 2], hi: &vec![0; key_words + 2], ternary: None });
            let free = Match { rule: RuleId::new(500, 3), priority: Priority(u64::MAX) };
            let error = engine.insert(free, &wide).expect_err("it has other words").to_string();
            let said = format!("the regions have {} words, the engine {key_words}", key_words + 2);
            assert_eq!(error, said, "{}, {name}", subject.name);
            let mut regions = Regions::new(key_words);
            regions.push(set.regions().get(0));
            for rule in [there, RuleId::new(slot, reuse + 1)] {
                let taken = Match { rule, ..free };
                let error = engine.insert(taken, &regions).expect_err("its slot is taken").to_string();
                assert_eq!(error, format!("rule {rule}, or another of its slot, is already there"), "{}", subject.name);
            }
            for rule in [free.rule, RuleId::new(slot, reuse + 1)] {
                let error = engine.remove(rule).expect_err("it is not there");
                assert_eq!(error.to_string(), format!("rule {rule} is not live"), "{}, {name}", subject.name);
                assert!(error.is_stale());
            }
            assert_eq!(engine.stats().regions, set.regions().len(), "{}, {name}", subject.name);
            // None of it is in the way of what fits.
            engine.insert(free, &regions).expect("the slot is free");
            engine.remove(there).expect("it is there");
            engine
                .insert(Match { rule: RuleId::new(slot, reuse + 1), priority: Priority(u64::MAX - 1) }, &regions)
                .expect("its slot is free");
            engine.remove(free.rule).expect("it is there");
        }
    }
}
