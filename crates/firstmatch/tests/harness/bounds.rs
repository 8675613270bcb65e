//! Limits and bounds at their very numbers: what just fits is taken, one less is refused, and messages name both.

use firstmatch::cache::flow::{self, FlowCache};
use firstmatch::linear::{self, Linear};
use firstmatch::meta::{Cap, Config, Engine, Kind, Limits, Outcome};
use firstmatch::rule::{Caps, Lowered, lower};
use firstmatch::tuple::{self, TupleMerge};
use firstmatch::{Classifier, Schema};

use crate::generate::{rule_set, schemas};
use crate::rng::Rng;

fn lowered(schema: &Schema, rules: usize) -> Lowered {
    lower(&rule_set(schema, &mut Rng::new(3), rules), schema, &Caps::default()).expect("within the caps")
}

/// Each cap of a forced base takes the number that the base needs and refuses one less; outcome and error name the need
/// and the limit.
#[test]
fn a_limit_takes_what_just_fits_and_refuses_one_less() {
    let set = lowered(&Schema::ipv4(), 200);
    for kind in Kind::ALL {
        let build =
            |limits| Engine::build(&set, &Config { kind: Some(kind), limits, seed: Some(1), ..Config::default() });
        let free = build(Limits::default()).expect("no limit").explain();
        let own = free.candidates.iter().find(|of| of.kind == kind).expect("every kind is listed");
        let refused = build(Limits { build_bytes: 0, ..Limits::default() }).expect_err("nothing is built in no memory");
        let numbers = |text: &str| -> Vec<usize> {
            text.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok()).collect()
        };
        let build_bytes = numbers(&refused.to_string())[0];
        let visits = own.visits.expect("every build visits regions");
        let caps: [(Cap, usize, fn(usize) -> Limits); 4] = [
            (Cap::WorstLines, free.base.worst_lines, |n| Limits { worst_lines: Some(n), ..Limits::default() }),
            (Cap::WorstTests, free.base.worst_tests, |n| Limits { worst_tests: Some(n), ..Limits::default() }),
            (Cap::BuildBytes, build_bytes, |n| Limits { build_bytes: n, ..Limits::default() }),
            (Cap::BuildVisits, visits, |n| Limits { build_visits: n, ..Limits::default() }),
        ];
        for (cap, needed, limits) in caps {
            let fits = build(limits(needed)).map(|engine| engine.explain().kind);
            assert_eq!(fits.ok(), Some(kind), "{kind}: {cap:?} {needed} is enough");
            let error = build(limits(needed - 1)).expect_err("one less is too little").to_string();
            let named = numbers(&error);
            // A build that exceeds its visits ends before it knows how many it needs.
            let is_named = |of: &usize| if cap == Cap::BuildVisits { *of > needed - 1 } else { *of == needed };
            assert!(named.first().is_some_and(is_named) && named.get(1) == Some(&(needed - 1)), "{kind}: {error}");
            // Where there is a choice the outcome says the same.
            let config = Config { limits: limits(needed - 1), trial: Some(0), seed: Some(1), ..Config::default() };
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

/// A scan may test a packet against every region, of which a rule may have many.
#[test]
fn a_scan_is_bounded_by_its_regions() {
    for (name, schema) in schemas() {
        let set = lowered(&schema, 60);
        let stats = Linear::build(&set, &linear::Config::default()).expect("no budget").stats();
        assert_eq!((stats.worst_tests, stats.longest_bucket), (set.regions().len(), set.regions().len()), "{name}");
    }
}

/// A cache adds one test, and the lines of a set, of the entry that is compared and of the one that is replaced.
#[test]
fn a_cache_adds_its_own_to_the_bounds() {
    for (name, schema) in schemas() {
        let inner = TupleMerge::build(&lowered(&schema, 60), &tuple::Config::default()).expect("no budget");
        let before = inner.stats();
        let after = FlowCache::new(inner, &flow::Config::default()).expect("no level is forced").stats();
        // An entry has the key and five words more.
        let entry = (schema.lanes().len() + 5).div_ceil(16);
        let bounds = (before.worst_tests + 1, before.worst_lines + 1 + 2 * entry);
        assert_eq!((after.worst_tests, after.worst_lines), bounds, "{name}");
    }
}
