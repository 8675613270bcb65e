mod memory;
mod structure;

use super::node::{is_entry, line_of, lines_of};
use super::order;
use super::*;
use crate::engine::Updatable;
use crate::engine::tests::{change_half, keys_of, sets};
use crate::engines::shared::PIECE;
use crate::rule::{Priority, Region, Regions, RuleId};
use crate::schema::{Field, Kind};

fn pairs() -> Schema {
    Schema::new(None, ["x", "y"].map(|name| Field::new(name, 8, Kind::Range, None)).into())
}

/// Returns an engine with these rules of two intervals, inserted in order.
fn of(rules: &[[u32; 4]], config: &Config) -> PartitionSort {
    let mut engine = PartitionSort::new(&pairs(), config).expect("no budget");
    for (slot, &[x, to_x, y, to_y]) in (0..).zip(rules) {
        let mut regions = Regions::new(2);
        regions.push(Region { lo: &[x, y], hi: &[to_x, to_y], ternary: None });
        let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
        engine.insert(rule, &regions).expect("no budget");
    }
    engine
}

#[test]
fn a_partition_takes_what_is_equal_or_apart_field_by_field() {
    let never = Config { reorder: 0, ..Config::default() };
    // Equal on x, apart on y; apart on x, whatever y; equal on both.
    let sorted = [[1, 1, 0, 9], [1, 1, 20, 29], [5, 5, 0, 255], [1, 1, 0, 9]];
    assert_eq!(of(&sorted, &never).stats().tables, 1);
    // Apart on y, but overlapping on x, which comes first.
    let nested = [[1, 1, 0, 9], [0, 3, 20, 29]];
    assert_eq!(of(&nested, &never).stats().tables, 2);
    // Sorted by y first they fit in one partition.
    assert_eq!(of(&nested, &Config::default()).stats().tables, 1);
    // No order sorts four regions in a ring, because on each word two overlap and are not equal.
    let turning = [[0, 4, 0, 0], [4, 4, 1, 5], [1, 3, 5, 5], [0, 0, 2, 5]];
    assert!(of(&turning, &Config::default()).stats().tables > 1);
}

#[test]
fn an_order_is_found_if_there_is_one() {
    let mut state = 1u64;
    let mut below = |n: u64| {
        state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (state >> 33) % n
    };
    let apart = |a: &[u32], b: &[u32], word: usize| a[word + 3] < b[word] || b[word + 3] < a[word];
    let equal = |a: &[u32], b: &[u32], word: usize| (a[word], a[word + 3]) == (b[word], b[word + 3]);
    // By definition, two sorted regions are disjoint on the first word on which they differ.
    let is_sorted = |regions: &[&[u32]], order: &[usize]| {
        regions
            .iter()
            .all(|a| regions.iter().all(|b| order.iter().find(|&&l| !equal(a, b, l)).is_none_or(|&l| apart(a, b, l))))
    };
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    let (mut some, mut none) = (0, 0);
    for _ in 0..5000 {
        let regions: Vec<Vec<u32>> = (0..2 + below(4))
            .map(|_| {
                let lo: [u32; 3] = std::array::from_fn(|_| below(4) as u32);
                [lo, lo.map(|lo| lo + (below(5) / 3) as u32)].concat()
            })
            .collect();
        let regions: Vec<&[u32]> = regions.iter().map(|region| &region[..]).collect();
        match order::choose(&regions) {
            Some(order) => {
                let order: Vec<usize> = order.iter().map(|&word| usize::from(word)).collect();
                assert!(is_sorted(&regions, &order), "{regions:?}, {order:?}");
                some += 1;
            }
            None => {
                assert!(!orders.iter().any(|order| is_sorted(&regions, order)), "{regions:?}");
                none += 1;
            }
        }
    }
    assert!(some > 500 && none > 500, "{some} with an order, {none} without");
}

/// B-trees of several levels hold thousands of disjoint rules, and are merged again.
#[test]
fn trees_stay_low_and_shrink_again() {
    let schema = Schema::new(None, vec![Field::new("x", 32, Kind::Range, None)]);
    let mut engine = PartitionSort::new(&schema, &Config::default()).expect("no budget");
    let count = 5_000u32;
    // Slots in an order that neither rises nor falls.
    let slots = || (0..count).map(|i| i * 2_741 % count);
    for slot in slots() {
        let mut regions = Regions::new(1);
        regions.push(Region { lo: &[slot * 3], hi: &[slot * 3 + 1], ternary: None });
        let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
        engine.insert(rule, &regions).expect("no budget");
    }
    let full = engine.stats();
    assert_eq!((full.tables, full.worst_tests), (1, 1));
    // At least four children per node but the root, and at most sixteen: 16^3 < 5000 < 2 * 4^6.
    assert!((4..=6).contains(&(full.worst_lines / 2 - 1)), "{full:?}");
    for slot in slots().take(count as usize - 3) {
        engine.remove(RuleId::new(slot, 0)).expect("it is there");
    }
    let few = engine.stats();
    assert_eq!((few.regions, few.worst_lines), (3, 4), "one node and an entry: {few:?}");
}

/// Counts the cache lines and regions that a lookup meets if it searches every partition.
///
/// It walks as [`lookup`](super::lookup) does, one key and one node at a time.
fn met(engine: &PartitionSort, row: &[u32]) -> (usize, usize) {
    let (arena, key_words) = (&engine.arena, engine.arena.key_words());
    let (mut lines, mut tests) = (engine.overflow.lines(), engine.overflow.len());
    for partition in &engine.partitions {
        let mut handle = partition.root;
        while !is_entry(handle) {
            lines += lines_of(handle);
            let (line, last) = (line_of(handle) as usize, lines_of(handle) - 1);
            let node = &arena.lines.piece(line).expect("it is there")[line % PIECE..];
            let keys = if last == 1 { &node[0].0[1..] } else { &node[0].0[1..8] };
            let word = row[(node[0].0[0] & 0xFFFF) as usize];
            let at = keys.iter().filter(|&&key| key <= word).count();
            handle = node[last].0[8 - 8 * last + at];
        }
        for entry in arena.group(line_of(handle)) {
            (lines, tests) = (lines + arena.lines_per_entry(), tests + 1);
            let (lo, hi) = arena.bounds(entry);
            let is_inside = (0..key_words).all(|word| (lo[word]..=hi[word]).contains(&row[word]));
            // All entries of a group have the same bounds.
            if !is_inside || arena.passes_ternary(arena.run(entry), key_words, row) {
                break;
            }
        }
    }
    (lines, tests)
}

/// No key meets more than `stats` states, and some key meets at least a quarter of it.
///
/// That holds for rules as inserted, and after half of them were replaced.
#[test]
fn no_key_meets_more_than_is_stated() {
    for (number, all) in sets().iter().enumerate() {
        for (reorder, most_partitions) in [(10, 128), (0, 128), (40, 3), (10, 0)] {
            let config = Config { reorder, most_partitions, ..Config::default() };
            let mut engine = PartitionSort::build(all, &config).expect("no budget");
            let keys = keys_of(all);
            for when in ["built", "changed"] {
                let stats = engine.stats();
                let said = format!("set {number}, {config:?}, {when}: {stats:?}");
                let each = (0..keys.len()).map(|at| met(&engine, keys.keys().row(at)));
                let most = each.fold((0, 0), |most, of| (most.0.max(of.0), most.1.max(of.1)));
                assert!(most.0 <= stats.worst_lines && most.1 <= stats.worst_tests, "{most:?}, {said}");
                // The first of equal regions decides, unless their masks differ.
                let is_met = most.0 * 4 >= stats.worst_lines && most.1 * 4 >= stats.worst_tests;
                assert!(is_met || number == 3, "{most:?}, {said}");
                if when == "built" {
                    change_half(all, &mut engine);
                }
            }
        }
    }
}
