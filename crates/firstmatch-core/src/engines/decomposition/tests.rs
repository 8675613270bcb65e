//! Table I of the paper, corners of each part, and answers of every form beside `linear`.

use super::build::{Sets, bits_of, common, row_of};
use super::columns::{Cells, Column, columns};
use super::cuckoo::Cuckoo;
use super::rows::{Form, Shape};
use super::tree::Tree;
use super::*;
use crate::engine::Classifier;
use crate::engine::budget::Budget;
use crate::engine::tests::{agrees, keys_of, sets};
use crate::engines::shared::Products;
use crate::key::KeyBuf;
use crate::raw::{Isa, Kernel, LINE_WORDS, Line, dispatch};
use crate::rule::Test;
use crate::schema::{Field, Kind, Schema};
use crate::test_rules::set;

fn build(set: &Lowered, config: &Config) -> Decomposition {
    Decomposition::build(set, config).expect("no budget")
}

/// Compares answers with those of `linear`, those of counted lookups, too, and counts with the stated worst case.
fn check(engine: &Decomposition, set: &Lowered, keys: &KeyBuf, said: &str) {
    agrees(engine, set, keys, said);
    let (mut want, mut counted) = (vec![None; keys.len()], vec![None; keys.len()]);
    engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut want);
    let counts = engine.count(&mut engine.new_scratch(), &keys.keys(), &mut counted);
    let most = keys.len() as u64 * Engine::stats(engine).worst_lines as u64;
    assert!(counted == want && counts.get("lines").is_none_or(|lines| lines <= most), "{said}: {counts:?}");
}

/// Returns configurations of every form, end of a merge, grouping and level.
fn configs() -> Vec<Config> {
    let mut all = vec![Config::default(), Config::paper(), Config::plain()];
    for rows in [RowForm::Flat, RowForm::Summed, RowForm::Sparse] {
        for stop in [Stop::Never, Stop::Hit, Stop::Zero] {
            let turn = all.len();
            all.push(Config {
                rows,
                stop,
                superfields: [Superfields::Chosen, Superfields::Fields, Superfields::Paper][turn % 3],
                functions: 2 + turn % 3,
                slots: 4.0,
                hash_groups: turn % 2 == 0,
                sub_vector: [512, 1024, 8192][turn / 2 % 3],
                interleave: [1, 7, 128][turn / 3 % 3],
                sparsest_first: turn % 4 < 2,
                ..Config::default()
            });
        }
    }
    let of_level = |config: Config| Level::available().map(move |simd| Config { simd: Some(simd), ..config.clone() });
    all.into_iter().flat_map(of_level).map(|config| Config { seed: Some(5), ..config }).collect()
}

#[test]
fn every_form_answers_as_linear_search() {
    for (number, set) in sets().iter().enumerate() {
        let keys = keys_of(set);
        for config in configs() {
            check(&build(set, &config), set, &keys, &format!("set {number}, {config:?}"));
        }
    }
}

/// Table I: four rules over the fifteen fields of OpenFlow.
fn table_1() -> Lowered {
    let value = |value: u128| Some(Test::Value(value));
    let prefix = |value: u128, len| Some(Test::Prefix { value, len });
    let range = |lo, hi| Some(Test::Range { lo, hi });
    let rows: [[Option<Test>; 15]; 4] = [
        [
            value(5),
            None,
            value(1),
            None,
            None,
            None,
            None,
            None,
            value(0),
            prefix(0x4000_0000, 2),
            None,
            None,
            None,
            range(2, 124),
            value(5),
        ],
        [
            value(1),
            value(9),
            value(0xFF),
            value(0),
            value(0x8100),
            value(100),
            value(5),
            value(3),
            value(0),
            prefix(0x2000_0000, 3),
            prefix(0xB000_0000, 4),
            value(17),
            value(0),
            None,
            None,
        ],
        [
            None,
            None,
            None,
            value(0),
            value(0x8100),
            value(4095),
            value(7),
            None,
            None,
            prefix(0x8000_0000, 1),
            prefix(0xB000_0000, 4),
            value(17),
            None,
            range(2, 124),
            None,
        ],
        [
            value(1),
            None,
            None,
            None,
            None,
            value(4095),
            value(7),
            value(3),
            None,
            prefix(0x8000_0000, 1),
            None,
            None,
            None,
            None,
            None,
        ],
    ];
    let rule =
        |row: [Option<Test>; 15]| row.into_iter().enumerate().filter_map(|(at, test)| Some((at, test?))).collect();
    set(&Schema::openflow(), rows.map(rule))
}

/// Packets at the values of the rules' fields, some of them absent.
fn packets(set: &Lowered) -> KeyBuf {
    let (schema, mut keys) = (set.schema(), KeyBuf::new(set.schema()));
    let words = schema.words().len();
    let count = set.regions().len();
    for (a, b) in (0..count).map(|at| (set.regions().get(at), set.regions().get((at + 1) % count))) {
        for turn in 0..4 * words {
            let key = &mut keys.push()[..words];
            key.copy_from_slice(a.lo);
            let word = turn % words;
            match turn / words {
                0 => key[word] = a.hi[word],
                1 => key[word] = b.lo[word],
                2 => key[word] = schema.words()[word].absent.unwrap_or(schema.words()[word].max),
                _ => key.copy_from_slice(b.hi),
            }
        }
    }
    keys
}

#[test]
fn openflow_rules_with_absent_fields() {
    let set = table_1();
    for config in configs() {
        check(&build(&set, &config), &set, &packets(&set), &format!("{config:?}"));
    }
}

/// A field with exact values is hashed, a prefix or a range is searched, and the paper's groups need every member.
#[test]
fn columns_are_of_fields_or_groups() {
    let schema = Schema::openflow();
    let of = |rules: Vec<Vec<(usize, Test)>>, config: &Config| {
        let lowered = set(&schema, rules);
        let products = Products::of(&lowered, &Visits::default()).expect("no limit");
        columns(&schema, &Cells::new(&schema, &products), config)
    };
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
    let words: Vec<u64> =
        crate::raw::words(&lines).as_chunks::<2>().0.iter().map(|&two| crate::raw::word(two)).collect();
    assert_eq!((words[0], words[4]), (0b11, 1 << 56));
    assert_eq!((words[8], words[9]), (0x2_0002_0002_0000, 0x3_0003_0003_0002));
    assert_eq!(words[10..13], [1 << 3, 1 << 6, 1 << 32]);
}

/// Sets of products are equal rows whichever way they came about, and their intersection is one, too.
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

/// Numbers of rules at the borders of lines and of words of summaries, with a wildcard behind them.
#[test]
fn borders_of_lines_and_groups() {
    let schema =
        Schema::new(None, vec![Field::new("a", 16, Kind::Range, None), Field::new("b", 32, Kind::Range, None)]);
    for count in [0u32, 1, 2, 63, 64, 65, 511, 512, 513, 4095, 4096, 4097] {
        let rule = |at: u32| vec![(0, Test::Value(u128::from(at % 700))), (1, Test::Value(u128::from(u32::MAX - at)))];
        let rules = (0..count).map(rule).chain((count % 2 == 0).then(|| vec![(0, Test::Range { lo: 5, hi: 90 })]));
        let set = set(&schema, rules);
        let mut keys = KeyBuf::new(&schema);
        for at in (0..count + 2).step_by(1 + count as usize / 100).chain([count.saturating_sub(1)]) {
            keys.push()[..2].copy_from_slice(&[at % 700, u32::MAX - at]);
            keys.push()[..2].copy_from_slice(&[6, 5]);
        }
        for rows in [RowForm::Flat, RowForm::Summed, RowForm::Sparse] {
            for superfields in [Superfields::Fields, Superfields::Chosen] {
                let config = Config { rows, superfields, seed: Some(1), ..Config::default() };
                check(&build(&set, &config), &set, &keys, &format!("{count} rules, {rows:?}, {superfields:?}"));
            }
        }
    }
}

/// Flat vectors that are read whole take exactly the lines that are stated.
#[test]
fn counted_lines_of_whole_vectors_are_the_stated_ones() {
    for set in &sets()[..3] {
        let engine = build(set, &Config { seed: Some(2), ..Config::plain() });
        let mut keys = KeyBuf::new(set.schema());
        set.regions().iter().for_each(|region| keys.push()[..5].copy_from_slice(region.lo));
        let mut best = vec![None; keys.len()];
        let counts = engine.count(&mut engine.new_scratch(), &keys.keys(), &mut best);
        let stated = Engine::stats(&engine).worst_lines * keys.len();
        assert!(best.iter().all(Option::is_some) && counts.get("lines") == Some(stated as u64), "{counts:?}");
    }
}

/// A budget is kept to the byte, and one byte less is refused with both numbers; so is a limit on the build.
#[test]
fn a_budget_is_kept_to_the_byte() {
    for set in &sets() {
        for config in [Config::default(), Config::paper()] {
            let config = Config { seed: Some(4), ..config };
            let needed = Engine::stats(&build(set, &config)).total_bytes();
            let with =
                |run_bytes| Decomposition::build(set, &Config { budget: Budget { run_bytes }, ..config.clone() });
            assert_eq!(Engine::stats(&with(needed).expect("enough")).total_bytes(), needed);
            let error = with(needed - 1).expect_err("a byte less");
            assert!(error.budget_exceeded() && error.bytes_needed().is_some_and(|(_, allowed)| allowed == needed - 1));
            let small = Decomposition::build(set, &Config { build_bytes: 10, ..config });
            assert!(small.is_err_and(|error| error.budget_exceeded()));
        }
    }
}

/// Numbers beyond their bounds are refused with what is expected.
#[test]
fn bad_numbers_are_refused() {
    let none = Lowered::empty(&Schema::ipv4());
    for (config, expected) in [
        (Config { functions: 9, ..Config::default() }, "9 hash functions; expected 1 to 8"),
        (Config { slots: f64::NAN, ..Config::default() }, "NaN slots a value; expected 1 to 64"),
        (Config { sub_vector: 700, ..Config::default() }, "sub-vectors of 700 bits; expected a multiple of 512"),
        (Config { interleave: 0, ..Config::default() }, "0 keys in flight; expected 1 to 128"),
    ] {
        let error = Decomposition::build(&none, &config).expect_err("a bad number").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
