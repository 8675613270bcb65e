//! Scratches from elsewhere, and many threads on one engine.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use firstmatch_core::rule::{ExpansionLimits, Lowered, RuleSet, lower};
use firstmatch_core::{Classifier, Schema};

use crate::case::Case;
use crate::corners;
use crate::engines::engines;
use crate::generate::{rule_set, schemas};
use crate::rng::Rng;

fn sample(schema: &Schema, rules: usize, packets: usize, seed: u64) -> (Lowered, Case) {
    let mut rng = Rng::new(seed);
    let set: RuleSet = rule_set(schema, &mut rng, rules);
    let lowered = lower(&set, schema, &ExpansionLimits::default()).expect("within the caps");
    let case = Case::new(&set, schema, corners::of_set(&set, schema, &mut rng, packets));
    (lowered, case)
}

/// Every engine renews a foreign scratch at the first batch.
///
/// It is that of every other engine, of another schema, or of a larger set.
#[test]
fn foreign_scratches_are_renewed() {
    let samples: Vec<_> = schemas().iter().map(|(_, schema)| sample(schema, 40, 100, 1)).collect();
    let larger = sample(&schemas()[0].1, 300, 100, 2);
    let samples: Vec<_> = samples.iter().take(3).chain([&larger]).collect();
    let subjects = engines();
    let all: Vec<(String, Box<dyn Classifier>, &Case)> = samples
        .iter()
        .flat_map(|(lowered, case)| subjects.iter().map(move |s| (s.name.clone(), s.build(lowered), case)))
        .collect();
    for (from, engine, case) in &all {
        let mut scratch = engine.scratch();
        for (name, other, other_case) in &all {
            // Warm from its own engine (or from the last other one), then from this one, twice.
            for round in 0..2 {
                if let Err(what) = other_case.check_with(&**other, &mut scratch) {
                    panic!("{name} with the scratch of {from}, round {round}: {what}");
                }
            }
        }
        case.check_with(&**engine, &mut scratch).unwrap_or_else(|what| panic!("{from}, back again: {what}"));
    }
}

#[test]
fn threads_share_an_engine() {
    for (_, schema) in schemas() {
        let (lowered, case) = sample(&schema, 100, 300, 3);
        let case = Arc::new(case);
        for subject in engines() {
            let engine: Arc<dyn Classifier> = Arc::from(subject.build(&lowered));
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let (engine, case) = (Arc::clone(&engine), Arc::clone(&case));
                    // A scratch may be made in one thread and used in another.
                    let mut scratch = engine.scratch();
                    std::thread::spawn(move || {
                        (0..20).try_for_each(|_| case.check_with(&*engine, &mut scratch))?;
                        case.check_thoroughly(&*engine)
                    })
                })
                .collect();
            for thread in threads {
                let answers = thread.join().expect("no panic");
                assert_eq!(answers, Ok(()), "{}", subject.name);
            }
        }
    }
}

/// A batch that does not fit is a mistake of the caller, found before anything is read.
#[test]
fn batches_that_do_not_fit_panic() {
    let (lowered, case) = sample(&Schema::ipv4(), 10, 20, 4);
    let other = sample(&Schema::ipv6(), 10, 20, 4).1;
    for subject in engines() {
        let engine = subject.build(&lowered);
        let run = |case: &Case, places: usize| {
            let mut scratch = engine.scratch();
            catch_unwind(AssertUnwindSafe(|| {
                engine.classify_batch(&mut scratch, case.keys.keys(), &mut vec![None; places]);
            }))
        };
        assert!(run(&case, 20).is_ok(), "{}", subject.name);
        assert!(run(&case, 19).is_err() && run(&case, 21).is_err(), "{}: places", subject.name);
        assert!(run(&other, 20).is_err(), "{}: words", subject.name);
    }
}
