//! Lookups of several threads beside builds: each call sees the old or the new rules.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use firstmatch_rte_acl::abi::{FieldDef, RuleResults, TYPE_RANGE};
use firstmatch_rte_acl::*;
use firstmatch_testkit::rng::Rng;

use crate::random::Owned;
use crate::script::Layout;

/// Handle that threads share.
struct Shared(*mut Context);

// SAFETY: lookups and builds of one context may run side by side, which is what the test is about.
unsafe impl Sync for Shared {}

/// Returns the layout of a single byte, as a range.
fn one_byte() -> Layout {
    let mut layout = Layout::plain(&mut Rng::new(5), 1);
    layout.defs = vec![FieldDef { kind: TYPE_RANGE, size: 1, field_index: 0, input_index: 0, offset: 0 }];
    layout
}

#[test]
fn lookups_run_beside_builds() {
    let layout = one_byte();
    let context = Owned::new("beside", 32, 1000);
    let rule = |generation: u32| {
        let mut rule = vec![0; 32];
        rule[0] = 1;
        rule[4] = 1;
        rule[8..12].copy_from_slice(&generation.to_ne_bytes());
        rule[24] = 255;
        rule
    };
    assert_eq!((context.add(&[rule(1)]), context.build(&layout, 1)), (0, 0));
    let (shared, is_over, calls) = (Shared(context.0), AtomicBool::new(false), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (shared, is_over, calls) = (&shared, &is_over, &calls);
        for _ in 0..3 {
            scope.spawn(move || {
                let (key, mut last) = ([7u8], 0);
                while !is_over.load(Ordering::Relaxed) {
                    let (mut data, mut results) = ([key.as_ptr(); 40], [0; 40]);
                    // SAFETY: keys of one byte, and room for all results.
                    let code = unsafe { rte_acl_classify(shared.0, data.as_mut_ptr(), results.as_mut_ptr(), 40, 1) };
                    assert_eq!(code, 0);
                    assert!(results.iter().all(|&result| result == results[0]), "one generation a call");
                    assert!(results[0] >= last, "no generation comes back");
                    last = results[0];
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for generation in 2..400 {
            assert_eq!(context.add(&[rule(generation)]), 0);
            assert_eq!(context.build(&layout, 1), 0);
            // The builder sees its own table at once.
            assert_eq!(context.classify(&[vec![7]], 1), Ok(vec![generation]));
        }
        while calls.load(Ordering::Relaxed) < 1000 {
            std::thread::yield_now();
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Counts of rules that stay, come and go add up to all results, while a writer removes, adds, commits and builds.
#[test]
fn no_result_is_lost_beside_a_writer() {
    let layout = one_byte();
    let context = Owned::new("totals", 32, 1000);
    let rule = |byte: u8, userdata: u32| {
        let mut rule = vec![0; 32];
        (rule[0], rule[4], rule[16], rule[24]) = (1, 1, byte, byte);
        rule[8..12].copy_from_slice(&userdata.to_ne_bytes());
        rule
    };
    // Keys 0 to 9 have rules that stay, 10 to 19 those that the writer replaces.
    let rules: Vec<_> = (0..20).map(|byte| rule(byte, 1 + u32::from(byte))).collect();
    // SAFETY: a live handle.
    assert_eq!((context.add(&rules), unsafe { firstmatch_acl_set_counting(context.0, 1) }), (0, 0));
    assert_eq!(context.build(&layout, 1), 0);
    let (shared, is_over) = (Shared(context.0), AtomicBool::new(false));
    let (total, of_five) = (AtomicU64::new(0), AtomicU64::new(0));
    let sum = || {
        let (mut out, mut removed) = ([RuleResults::default(); 20], 0);
        // SAFETY: a live handle, and room for all.
        let number = unsafe { firstmatch_acl_count_rules(context.0, out.as_mut_ptr(), 20, &raw mut removed) };
        (number, out[4], out.iter().map(|rule| rule.results).sum::<u64>() + removed)
    };
    std::thread::scope(|scope| {
        let (shared, is_over, total, of_five) = (&shared, &is_over, &total, &of_five);
        for thread in 0..3 {
            scope.spawn(move || {
                let mut rng = Rng::new(thread);
                let keys: Vec<[u8; 1]> = (0..20).map(|byte| [byte]).collect();
                while !is_over.load(Ordering::Relaxed) {
                    let mut data: Vec<_> = (0..1 + rng.below(90)).map(|_| keys[rng.below(20)].as_ptr()).collect();
                    let (mut results, num) = (vec![0; data.len()], data.len() as u32);
                    // SAFETY: keys of one byte, and room for all results.
                    let code = unsafe { rte_acl_classify(shared.0, data.as_mut_ptr(), results.as_mut_ptr(), num, 1) };
                    assert!(code == 0 && !results.contains(&0));
                    total.fetch_add(u64::from(num), Ordering::Relaxed);
                    let five = results.iter().filter(|&&result| result == 5).count();
                    of_five.fetch_add(five as u64, Ordering::Relaxed);
                }
            });
        }
        let mut last = 0;
        for round in 1..400 {
            for byte in 10..20 {
                let old = u32::from(byte) + 1 + 100 * (round - 1);
                // SAFETY: a live handle.
                assert_eq!(unsafe { firstmatch_acl_remove(context.0, 1, old) }, 1);
                assert_eq!(context.add(&[rule(byte, old + 100)]), 0);
            }
            // SAFETY: a live handle.
            let commit = || unsafe { firstmatch_acl_commit(context.0) };
            assert_eq!(if round % 3 == 0 { context.build(&layout, 1) } else { commit() }, 0);
            let (number, _, now) = sum();
            assert!(number == 20 && now >= last, "no count falls: {last}, {now}");
            last = now;
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let (_, five, all) = sum();
    assert!(all > 10_000, "{all}");
    assert_eq!(all, total.into_inner());
    assert_eq!(five, RuleResults { priority: 1, userdata: 5, results: of_five.into_inner() });
    // SAFETY: a live handle; null is allowed.
    assert_eq!(unsafe { firstmatch_acl_count_rules(context.0, null_mut(), 0, null_mut()) }, 20);
}
