//! Engines whose tables multiply the classes of words: answers, bytes, budgets, steps and scratches over few rules.
//!
//! Over the corpus and over more rules, a build is right, too, if it refuses the set within its limits.

use firstmatch_core::Budget;
use firstmatch_core::Schema;
use firstmatch_core::engines::registry::{ENGINES, Settings};
use firstmatch_core::rule::{ExpansionLimits, RuleSet, lower};

use crate::case::Case;
use crate::corners;
use crate::corpus;
use crate::counter::counted;
use crate::engines::{MULTIPLYING, multiplying, options_of};
use crate::generate::{rule_set, schemas};
use crate::memory::lowered;
use crate::rng::Rng;

/// Number of packets of each set.
const PACKETS: usize = 150;

#[test]
fn answers_are_those_of_the_oracle_and_allocate_nothing() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        for rules in [0, 1, 2, 5, 9] {
            let (set, lowered) = lowered(&schema, rules, seed + rules as u64);
            let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut Rng::new(seed), PACKETS));
            let foreign = (ENGINES[0].build)(&lowered, &Settings::default()).expect("no limit");
            let mut scratch = foreign.scratch();
            for subject in multiplying() {
                let said = format!("{}, {name}, {rules} rules", subject.name);
                let engine = subject.build(&lowered);
                case.check_thoroughly(&*engine).unwrap_or_else(|what| panic!("{said}: {what}"));
                case.check_with(&*engine, &mut scratch).unwrap_or_else(|what| panic!("{said}, old scratch: {what}"));
                for length in [1, 7, PACKETS] {
                    let (mut own, mut out) = (engine.scratch(), vec![None; length]);
                    let keys = case.keys.keys().slice(0, length);
                    let ((), count) = counted(|| engine.classify_batch(&mut own, keys, &mut out));
                    assert_eq!(count.calls, 0, "{said}: {count:?}");
                    let counts = engine.count_batch(&mut own, &keys, &mut vec![None; length]);
                    let [lines, reads] = ["lines", "table reads"].map(|step| counts.get(step).unwrap_or(0));
                    let stats = engine.stats();
                    assert!(0 < lines && lines <= (length * stats.worst_lines) as u64, "{said}: {counts}");
                    assert_eq!(reads, (length * stats.tables) as u64, "{said}: {counts}");
                }
            }
        }
    }
}

#[test]
fn statistics_are_true_and_a_budget_is_taken_to_the_byte() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        for rules in [0, 1, 3, 6] {
            let (_, lowered) = lowered(&schema, rules, seed + 20);
            for subject in multiplying() {
                let (engine, count) = counted(|| subject.build(&lowered));
                let (stats, said) = (engine.stats(), format!("{}, {name}, {rules} rules", subject.name));
                let heap = count.live - size_of_val(&*engine) as isize;
                assert_eq!(stats.total_bytes() as isize, heap, "{said}: {stats:?}");
                let sizes = (stats.regions, stats.rules, stats.keeps_shadowed);
                assert_eq!(sizes, (lowered.regions().len(), lowered.by_rule().count(), false), "{said}");
                let with = |run_bytes| subject.try_build(&lowered, Budget { run_bytes });
                let needed = stats.total_bytes();
                assert_eq!(with(needed).map(|engine| engine.stats()).ok(), Some(stats), "{said}");
                // Where a plan does not know all bytes, another one may need fewer.
                let is_known = subject.name.starts_with("rfc") && !subject.name.contains("shift");
                for less in [needed - 1, needed / 2, 0] {
                    match with(less) {
                        Ok(engine) => assert!(!is_known && engine.stats().total_bytes() <= less, "{said}"),
                        Err(error) => {
                            let numbers = format!("; the budget allows {less}");
                            assert!(
                                error.budget_exceeded() && error.to_string().ends_with(&numbers),
                                "{said}: {error}"
                            );
                            let all = format!("the engine needs {needed} bytes{numbers}");
                            let is_all = less + 1 < needed || !is_known || error.to_string().ends_with(&all);
                            assert!(is_all, "{said}: {error}");
                        }
                    }
                }
            }
        }
    }
}

/// Bytes of the built engine and of its build, and visits, that larger sets are built within.
const LIMITS: (usize, usize, usize) = (1 << 20, 4 << 20, 300_000);
/// Minimum number of builds of a hundred that succeed.
const BUILT: usize = 50;

/// Larger sets are built and right, or refused for a limit; no build takes more memory than both limits together.
#[test]
fn larger_sets_are_right_or_refused_within_the_limits() {
    let drawn = schemas().into_iter().zip(0..).flat_map(|((name, schema), seed)| {
        let set = move |rules| (format!("{name}, {rules} rules"), rule_set(&schema, &mut Rng::new(seed), rules));
        [15, 40].map(set)
    });
    let (mut tried, mut built) = (0, 0);
    for (name, set) in corpus::sets().chain(drawn) {
        for schema in set.schemas() {
            let [more, ok] = built_within_limits(&name, &set, schema);
            (tried, built) = (tried + more, built + ok);
        }
    }
    assert!(100 * built >= BUILT * tried, "{built} of {tried} are built");
}

/// Builds a set by every engine and configuration; returns how many there are, and how many were not refused.
fn built_within_limits(name: &str, set: &RuleSet, schema: &Schema) -> [usize; 2] {
    let lowered = lower(set, schema, &ExpansionLimits::default()).expect("within the caps");
    let case = Case::new(set, schema, corners::of_set(set, schema, &mut Rng::new(1), PACKETS));
    let (run_bytes, build_bytes, visits) = LIMITS;
    let mut counts = [0, 0];
    for entry in ENGINES.iter().filter(|entry| MULTIPLYING.contains(&entry.name)) {
        for options in options_of(entry) {
            let mut settings = Settings::default().with_option("build_bytes", &build_bytes.to_string());
            (settings.budget, settings.visits) = (Budget { run_bytes }, visits);
            for (name, value) in options.split_whitespace().filter_map(|option| option.split_once('=')) {
                settings = if name == "build_bytes" { settings } else { settings.with_option(name, value) };
            }
            let said = format!("{} {options}, {name}", entry.name);
            let (engine, count) = counted(|| (entry.build)(&lowered, &settings));
            assert!(count.peak <= (run_bytes + build_bytes) as isize, "{said}: a peak of {} bytes", count.peak);
            counts[0] += 1;
            match engine {
                Ok(engine) => {
                    counts[1] += 1;
                    assert_eq!(
                        engine.stats().total_bytes() as isize,
                        count.live - size_of_val(&*engine) as isize,
                        "{said}"
                    );
                    case.check(&*engine).unwrap_or_else(|what| panic!("{said}: {what}"));
                }
                Err(error) => assert!(error.budget_exceeded(), "{said}: {error}"),
            }
        }
    }
    counts
}
