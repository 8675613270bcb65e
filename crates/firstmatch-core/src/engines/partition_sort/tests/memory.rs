//! Lines of the arena, and predictions of the bytes that insertions take.

use super::*;
use crate::engines::partition_sort::arena::Arena;

/// If a run of two lines is used for one, the other line stays free. So do lines that are left over in a piece.
#[test]
fn no_line_is_lost() {
    let mut arena = Arena::new(2);
    let pairs: Vec<u32> = (0..3).map(|_| arena.allocate(2)).collect();
    pairs.iter().for_each(|&at| arena.release(at, 2));
    let mut used = Vec::new();
    for count in 1..=6 {
        used.push((arena.allocate(1), 1));
        arena.check(used.iter().copied());
        assert!(used.iter().all(|&(at, _)| pairs.iter().any(|&pair| (pair..pair + 2).contains(&at))), "{count}");
    }
    // An odd number of lines is left, so a run of two lines does not fit into the last one.
    used.push((arena.allocate(1), 1));
    while arena.lines.len() == PIECE {
        used.push((arena.allocate(2), 2));
        arena.check(used.iter().copied());
    }
    let last = arena.allocate(1);
    assert_eq!(last as usize, PIECE - 1, "the line that was left over is free");
    arena.check(used.into_iter().chain([(last, 1)]));
}

/// The prediction for a further region of a rule has one place more than that for the first.
#[test]
fn further_regions_are_said_to_take_places() {
    let mut engine = of(&[[1, 1, 0, 9]], &Config::default());
    engine.budget = 0;
    let said = |before: usize| {
        let refused = engine.check_budget(1, before).expect_err("nothing is allowed");
        refused.into_build_error(RuleId::new(1, 0)).bytes_needed().expect("it is for bytes").0
    };
    let grows = |regions: usize| engine.places.growth(1, regions);
    assert!(grows(2) > grows(1));
    assert_eq!([1, 2].map(said), [said(0) + grows(2) - grows(1); 2]);
}

/// Once the best rule of a partition is removed, the bound is recomputed after half as many removals as rules remain.
#[test]
fn a_bound_is_found_anew() {
    let slots: Vec<[u32; 4]> = (0..100).map(|at| [at, at, 0, 9]).collect();
    let mut engine = of(&slots, &Config::default());
    engine.remove(RuleId::new(0, 0)).expect("it is there");
    assert_eq!(engine.partitions[0].best, 0, "the bound is still that of the rule that has gone");
    // After other removals, the bound is that of the second rule, the best one left.
    (60..99).rev().for_each(|slot| engine.remove(RuleId::new(slot, 0)).expect("it is there"));
    assert_eq!(engine.partitions[0].best, 1);
}
