//! Columns, trees, hash tables and vectors by themselves.

use std::collections::HashSet;

use super::*;
use crate::raw::{word, words};

/// A field with exact values is hashed, a prefix or a range is searched, and the paper's groups need every member.
#[test]
fn columns_are_of_fields_or_groups() {
    let schema = Schema::openflow();
    let of = |rules: Vec<Vec<(usize, Test)>>, config: &Config| columns_of(&set(&schema, rules), config);
    let field = |name: &str| schema.index_of(name).expect("a field");
    let words = |name: &str| schema.words_of(field(name)).collect::<Vec<_>>();
    let vlan =
        |vid| vec![(field("vlan_vid"), Test::Value(vid)), (field("ipv4_src"), Test::Prefix { value: 1 << 24, len: 8 })];
    let found = of(vec![vlan(3), vlan(7)], &Config::plain());
    assert!(found.contains(&Column::Exact(words("vlan_vid"))), "{found:?}");
    assert!(found.contains(&Column::Intervals(words("ipv4_src"))), "{found:?}");
    assert_eq!(found.len(), 2, "{found:?}");
    let group: Vec<usize> = ["eth_type", "mpls_label", "ip_dscp"].iter().flat_map(|name| words(name)).collect();
    let all =
        |value: u128| ["eth_type", "mpls_label", "ip_dscp"].map(|name| (field(name), Test::Value(value))).to_vec();
    let found = of(vec![all(3), all(4)], &Config::paper());
    assert!(found.contains(&Column::Intervals(group.clone())), "{found:?}");
    let found = of(vec![all(3), all(4)], &Config { hash_groups: true, ..Config::paper() });
    assert!(found.contains(&Column::Exact(group)), "{found:?}");
    // The second rule leaves the leading field open and not the others, so it is no interval.
    let open = all(4)[1..].to_vec();
    assert_eq!(of(vec![all(3), open], &Config::paper()).len(), 3);
}

/// Finds ranks in a tree as a binary search does, at every number of starts and beside each of them.
#[test]
fn trees_find_the_interval_of_every_key() {
    struct Find<'a>(&'a Tree, &'a [u64], &'a mut Vec<u32>);
    impl Kernel for Find<'_> {
        fn run<I: Isa>(self, isa: I) {
            self.2.resize(self.1.len(), 0);
            self.0.find(isa, self.1, self.2);
        }
    }
    for is_wide in [false, true] {
        for count in [0usize, 1, 7, 8, 9, 15, 16, 17, 72, 73, 80, 271, 272, 273, 1000, 5000] {
            let (step, most) = if is_wide { (1u64 << 50, u64::MAX) } else { (800_000, u64::from(u32::MAX)) };
            let mut starts: Vec<u64> = (1..=count as u64).map(|at| at * step).collect();
            // The last start may be as large as unused places are.
            if count % 2 == 1 {
                starts[count - 1] = most;
            }
            let tree = Tree::new(is_wide, &starts, (0..=count as u32).collect());
            let beside = |&start: &u64| [start.wrapping_sub(1), start, start.wrapping_add(1).min(most)];
            let keys: Vec<u64> = starts.iter().flat_map(beside).chain([0, most]).collect();
            for level in Level::available() {
                let mut found = Vec::new();
                dispatch(level, Find(&tree, &keys, &mut found));
                let want = keys.iter().map(|key| starts.partition_point(|start| start <= key) as u32);
                assert!(want.eq(found.iter().copied()), "{is_wide}, {count} starts, {level:?}");
            }
        }
    }
}

/// Every value is found by every number of functions, and no other value is.
#[test]
fn hashed_values_are_found() {
    for (words, functions, slots) in [(1, 1, 1.0), (1, 2, 2.0), (3, 2, 2.2), (5, 8, 1.0), (15, 3, 1.5)] {
        for count in [0u32, 1, 2, 300] {
            let keys: Vec<u32> =
                (0..count).flat_map(|at| (0..words as u32).map(move |word| at / 2 + word % 3 * (at % 2))).collect();
            let mut distinct: Vec<&[u32]> = keys.chunks(words).collect();
            distinct.sort_unstable();
            distinct.dedup();
            let values: Vec<u32> = (10..).take(distinct.len()).collect();
            let table = Cuckoo::new(words, &distinct.concat(), &values, 7, functions, slots, Some(3)).expect("a place");
            let mut key = [0; LINE_WORDS];
            for (own, value) in distinct.iter().zip(&values) {
                key[..words].copy_from_slice(own);
                assert_eq!(table.find(&key), *value);
            }
            key[..words].fill(u32::MAX);
            assert_eq!(table.find(&key), 7);
        }
    }
    // Two functions that give the same slots end in an error, not in a loop.
    let all: Vec<u32> = (0..40).collect();
    let error = crate::raw::truncated(|| Cuckoo::new(1, &all, &all, 0, 2, 2.0, Some(1)));
    assert!(error.expect_err("one slot for all").to_string().contains("40 values have no place"));
}

/// Insertions move values: with free slots alone, the same functions would leave some value without a place.
#[test]
fn hashed_values_displace_others() {
    let keys: Vec<u32> = (0..100).map(|at| at * 7919).collect();
    let values: Vec<u32> = (10..110).collect();
    let (mut moved, mut without_place) = (0, 0);
    for seed in 0..10 {
        let table = Cuckoo::new(1, &keys, &values, 7, 2, 2.0, Some(seed)).expect("a place");
        let places = |key: u32| {
            let mut padded = [0; LINE_WORDS];
            padded[0] = key;
            [0, 1].map(|function| table.place(function, &padded))
        };
        let value_at = |place: usize| words(&table.table)[place * table.stride + 1];
        for (&key, &value) in keys.iter().zip(&values) {
            let held = places(key).map(value_at);
            assert!(held.contains(&value), "{key} is in neither place");
            // Values are inserted in order, so that a later one in the first place came after a displacement.
            moved += usize::from(held[0] != value && held[0] != u32::MAX && held[0] > value);
        }
        let mut taken = HashSet::new();
        let fits = |&key: &u32| places(key).into_iter().any(|place| taken.insert(place));
        without_place += usize::from(!keys.iter().all(fits));
    }
    assert!(moved > 10 && without_place > 5, "{moved} values moved; {without_place} of 10 tables need it");
}

/// A table grows where insertions are given up: with one function until no two values share a slot.
#[test]
fn hash_tables_grow() {
    for (functions, count, least) in [(1, 20u32, 40), (1, 2, 2), (2, 300, 400), (2, 1, 2)] {
        let keys: Vec<u32> = (0..count).map(|at| at * at + 1).collect();
        let values: Vec<u32> = (0..count).collect();
        let table = Cuckoo::new(1, &keys, &values, 999, functions, 1.0, Some(6)).expect("a place");
        assert!((least..=64 * count.max(8) as usize).contains(&table.slots), "{} slots of {count} values", table.slots);
        let find = |word: u32| {
            let mut key = [0; LINE_WORDS];
            key[0] = word;
            table.find(&key)
        };
        assert!(keys.iter().zip(&values).all(|(&key, &value)| find(key) == value));
        assert_eq!([0, 3, u32::MAX].map(find), [999; 3]);
    }
    // One function with 16 places for 20 values: growth ends, and says so.
    let keys: Vec<u32> = (0..20).collect();
    let error = crate::raw::truncated(|| Cuckoo::new(1, &keys, &keys, 0, 1, 2.0, Some(1)));
    let error = error.expect_err("16 places").to_string();
    assert!(error.contains("20 values have no place") && error.contains("by 1 hashes"), "{error}");
}

/// Rules 3, 70 and 20,000 of 32,768 take 104 bytes, in lines 128, as documented.
#[test]
fn a_sparse_vector_as_documented() {
    let (shape, mut row) = (Shape::new(Form::Sparse, 32_768), vec![0u64; 512]);
    for rule in [3, 70, 20_000] {
        row[rule / 64] |= 1 << (rule % 64);
    }
    assert_eq!(shape.lines(&row), 2);
    let mut lines = [Line::default(); 2];
    shape.write(&row, &mut lines, &mut Vec::new());
    let words: Vec<u64> = words(&lines).as_chunks::<2>().0.iter().map(|&two| word(two)).collect();
    assert_eq!((words[0], words[4]), (0b11, 1 << 56));
    assert_eq!((words[8], words[9]), (0x2_0002_0002_0000, 0x3_0003_0003_0002));
    assert_eq!(words[10..13], [1 << 3, 1 << 6, 1 << 32]);
}

/// Equal sets of products have equal rows, however they were made, and also as intersections.
#[test]
fn rows_of_equal_sets_are_equal() {
    let products = 200;
    let of = |step: usize, from: usize| {
        let mut sets = Sets::new(products);
        (from..products).step_by(step).for_each(|product| sets.here.toggle(product));
        sets
    };
    for (a, from) in [(1, 0), (2, 1), (40, 3), (200, 150)] {
        for (b, other) in [(1, 0), (3, 0), (50, 3), (190, 0)] {
            let (mut first, mut second) = (of(a, from), of(b, other));
            let (mut both, mut want) = (Vec::new(), Vec::new());
            let bits: Vec<u32> = first.here.0.iter().zip(&second.here.0).map(|(a, b)| a & b).collect();
            common(first.row(), second.row(), &mut both);
            row_of(&bits, &mut want);
            assert_eq!(both, want, "every {a}th and every {b}th");
            let mut wide = vec![0; products.div_ceil(64)];
            bits_of(&both, &mut wide);
            let halves = bits.chunks(2).map(|two| u64::from(two[0]) | u64::from(*two.get(1).unwrap_or(&0)) << 32);
            assert!(halves.eq(wide));
        }
    }
}
