//! Engines whose tables multiply the classes of words, over few rules: answers, bytes, budgets, steps and scratches.

use firstmatch_core::Budget;
use firstmatch_core::engines::registry::{ENGINES, Settings};

use crate::case::Case;
use crate::corners;
use crate::counter::counted;
use crate::engines::multiplying;
use crate::generate::schemas;
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
                let error = with(needed - 1).expect_err("a byte is missing");
                let numbers = format!("the engine needs {needed} bytes; the budget allows {}", needed - 1);
                assert!(error.budget_exceeded() && error.to_string().ends_with(&numbers), "{said}: {error}");
                assert!([0, needed / 2].iter().all(|&less| with(less).is_err()), "{said}");
            }
        }
    }
}
