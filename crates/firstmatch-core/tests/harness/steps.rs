//! What engines say of themselves beside answers: counted steps, options, and the visits of a build.

use firstmatch_core::engines::registry::{ENGINES, OptionValues, Settings};
use firstmatch_core::live::META;
use firstmatch_core::{Classifier, Schema};

use crate::case::Case;
use crate::corners;
use crate::engines::{engines, options_of};
use crate::generate::schemas;
use crate::memory::lowered;
use crate::rng::Rng;

/// Engines of the registry that count nothing.
const UNCOUNTED: [&str; 1] = ["partitionsort"];
/// Engines of the registry whose builds count no visits.
const UNVISITED: [&str; 1] = ["tuplemerge_offline"];

/// A counted lookup gives the same answers; its steps are at most those stated of the worst case, and many are met.
#[test]
fn counted_lookups_answer_as_others_within_the_stated_bounds() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        let (set, lowered) = lowered(&schema, 120, seed);
        let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut Rng::new(seed), 130));
        let keys = case.keys.keys();
        let foreign = (ENGINES[0].build)(&lowered, &Settings::default()).expect("no limit");
        for subject in engines() {
            let engine = subject.build(&lowered);
            // A scratch of another engine is renewed here, too.
            let mut scratch = foreign.scratch();
            for length in [0, 1, 5, keys.len()] {
                let mut out = vec![None; length];
                let counts = engine.count_batch(&mut scratch, &keys.slice(0, length), &mut out);
                assert!(out == case.want[..length], "{}, {name}", subject.name);
                let entry = ENGINES.iter().find(|entry| subject.name.split(' ').next() == Some(entry.name));
                let is_counted = entry.is_some_and(|entry| !UNCOUNTED.contains(&entry.name));
                assert!(!counts.is_empty() || !is_counted, "{}: `Engine::count` counts nothing", subject.name);
                let stats = engine.stats();
                for (step, worst) in [("tests", stats.worst_tests.next_multiple_of(8)), ("lines", stats.worst_lines)] {
                    let met = counts.get(step).unwrap_or(0);
                    let said = format!("{}, {name}, {length} keys: {counts} for {stats:?}", subject.name);
                    assert!(met <= (length * worst) as u64, "more `{step}` than the stats state: {said}");
                    assert!(met > 0 || !is_counted || length == 0, "`Engine::count` names no `{step}`: {said}");
                }
            }
        }
    }
}

/// Some configuration that the tests go through sets each option of the engines of the registry.
///
/// Engines that share their options share the configurations, too.
#[test]
fn every_option_is_tested() {
    let all: Vec<&str> = ENGINES.iter().flat_map(options_of).flat_map(str::split_whitespace).collect();
    for entry in ENGINES {
        for option in (entry.options)() {
            let is_set = all.iter().any(|one| one.split('=').next() == Some(option.name));
            assert!(is_set, "{}: no configuration sets `{}`", entry.name, option.name);
            assert!(!option.summary.is_empty(), "{}: `{}` says nothing", entry.name, option.name);
        }
    }
}

/// Returns numbers that are just outside the range of an option, or between its steps.
fn outside(values: OptionValues) -> Vec<String> {
    match values {
        OptionValues::CountWithin { least, most, step } => {
            let beside = [least.checked_sub(1), most.checked_add(1), (step > 1).then_some(least + 1)];
            beside.into_iter().flatten().map(|value| value.to_string()).collect()
        }
        OptionValues::Number(least, most) => {
            [f64::from(least) - 0.5, f64::from(most) + 0.5, f64::NAN].map(|value| value.to_string()).into()
        }
        _ => Vec::new(),
    }
}

/// Options that an engine lacks, numbers out of range, and values that an option does not take, are refused with those that it has.
#[test]
fn bad_options_are_refused() {
    for entry in ENGINES.iter().chain([&META]) {
        let error = entry.check(&Settings::default().with_option("speed", "11")).expect_err("no such option");
        assert!(error.to_string().contains("no option `speed`") && !error.budget_exceeded(), "{}: {error}", entry.name);
        for option in (entry.options)() {
            let error = entry.check(&Settings::default().with_option(option.name, "?")).expect_err("no such value");
            let said = format!("option {}: `?` is not {}", option.name, option.values);
            assert_eq!(error.to_string(), said, "{}", entry.name);
            for value in outside(option.values) {
                let error =
                    entry.check(&Settings::default().with_option(option.name, &value)).expect_err("out of range");
                let said = format!("option {}: `{value}` is not {}", option.name, option.values);
                assert_eq!(error.to_string(), said, "{}", entry.name);
            }
        }
        assert!(entry.check(&Settings::default()).is_ok(), "{}", entry.name);
    }
}

/// A build by name keeps its visits: one more than it makes is enough, and none are too few for any engine.
#[test]
fn visits_of_a_build_by_name_are_bounded() {
    let (_, lowered) = lowered(&Schema::ipv4(), 200, 3);
    for entry in ENGINES.iter().chain([&META]).filter(|entry| !UNVISITED.contains(&entry.name)) {
        let mut settings = Settings::default();
        settings.visits = 10;
        let built = (entry.build)(&lowered, &settings);
        let error = built.err().unwrap_or_else(|| panic!("{}: the build ignores `Settings::visits`", entry.name));
        assert!(error.budget_exceeded() && error.to_string().contains("10"), "{}: {error}", entry.name);
        settings.visits = 100_000_000;
        // Rules that are drawn at random have too many classes for `rfc` and `bitmap_rfc`.
        assert!(entry.name.ends_with("rfc") || (entry.build)(&lowered, &settings).is_ok(), "{}", entry.name);
    }
}
