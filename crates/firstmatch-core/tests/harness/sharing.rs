//! Scratches from elsewhere, and many threads on one engine.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use firstmatch_core::rule::{ExpansionLimits, Lowered, RuleSet, lower};
use firstmatch_core::{Classifier, Engine, Keys, Match, Schema, Stats};

use crate::case::Case;
use crate::corners;
use crate::engines::{Reference, engines};
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

/// Looks the same packets up in two engines of one type, over two sets of rules, with one scratch.
fn alternate(engines: [&dyn Classifier; 2], cases: [&Case; 2]) -> Result<(), String> {
    let mut scratch = engines[0].scratch();
    for round in 0..4 {
        let at = round % 2;
        cases[at].check_with(engines[at], &mut scratch).map_err(|what| format!("round {round}: {what}"))?;
    }
    Ok(())
}

/// Returns two sets of rules over a schema, and the same packets with the answers of each.
fn two_sets(schema: &Schema) -> [(Lowered, Case); 2] {
    let mut rng = Rng::new(11);
    let sets = [60, 50].map(|rules| rule_set(schema, &mut rng, rules));
    let mut packets = Vec::new();
    sets.iter().for_each(|set| packets.extend(corners::of_set(set, schema, &mut rng, 150)));
    sets.map(|set| {
        let lowered = lower(&set, schema, &ExpansionLimits::default()).expect("within the caps");
        let case = Case::new(&set, schema, packets.clone());
        (lowered, case)
    })
}

/// A scratch of other rules over the same schema does not mislead an engine of the same type.
#[test]
fn scratches_keep_nothing_of_other_rules() {
    let subjects = engines();
    for (name, schema) in schemas() {
        let [(first, one), (second, other)] = two_sets(&schema);
        for subject in &subjects {
            let (a, b) = (subject.build(&first), subject.build(&second));
            alternate([&*a, &*b], [&one, &other]).unwrap_or_else(|what| panic!("{}, {name}: {what}", subject.name));
        }
    }
}

/// Engine whose scratch remembers the answers to keys, and that may not notice when the rules are others.
#[derive(Debug)]
struct Memory {
    inner: Reference,
    /// Number of the rules that a scratch is compared with; `None` if it is not compared.
    rules: Option<u32>,
}

impl Engine for Memory {
    /// Number of the rules, and the answers to their keys.
    type Scratch = (Option<u32>, HashMap<Vec<u32>, Option<Match>>);

    fn schema(&self) -> &Schema {
        Engine::schema(&self.inner)
    }

    fn new_scratch(&self) -> Self::Scratch {
        (self.rules, HashMap::new())
    }

    fn fits(&self, scratch: &Self::Scratch) -> bool {
        scratch.0 == self.rules
    }

    fn stats(&self) -> Stats {
        Engine::stats(&self.inner)
    }

    fn improve(&self, (_, answers): &mut Self::Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        for (at, best) in best.iter_mut().enumerate() {
            let answer = answers.entry(keys.row(at).to_vec()).or_insert_with(|| {
                let mut found = [None];
                self.inner.improve(&mut (), &keys.slice(at, at + 1), &mut found);
                found[0]
            });
            if let Some(answer) = answer.filter(|answer| Match::wins(answer.priority, best)) {
                *best = Some(answer);
            }
        }
    }
}

/// The test before would catch an engine whose scratch keeps something of its rules without being compared.
#[test]
fn a_scratch_that_keeps_something_of_other_rules_is_caught() {
    for (name, schema) in schemas() {
        let [(first, one), (second, other)] = two_sets(&schema);
        let alternate = |numbers: [Option<u32>; 2]| {
            let memory = |lowered, rules| Memory { inner: Reference::new(lowered), rules };
            let (a, b) = (memory(&first, numbers[0]), memory(&second, numbers[1]));
            alternate([&a, &b], [&one, &other])
        };
        assert_eq!(alternate([Some(1), Some(2)]), Ok(()), "{name}");
        assert!(alternate([None, None]).is_err(), "{name}: nothing was noticed");
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
