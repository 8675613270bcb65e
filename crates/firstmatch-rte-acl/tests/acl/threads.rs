//! Lookups of several threads beside builds: each call sees the old or the new rules.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use firstmatch_rte_acl::abi::{FieldDef, TYPE_RANGE};
use firstmatch_rte_acl::*;
use firstmatch_testkit::rng::Rng;

use crate::random::Owned;
use crate::script::Layout;

/// Handle that threads share.
struct Shared(*mut Context);

// SAFETY: lookups and builds of one context may run side by side, which is what the test is about.
unsafe impl Sync for Shared {}

#[test]
fn lookups_run_beside_builds() {
    let rng = &mut Rng::new(5);
    let mut layout = Layout::plain(rng, 1);
    layout.defs = vec![FieldDef { kind: TYPE_RANGE, size: 1, field_index: 0, input_index: 0, offset: 0 }];
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
