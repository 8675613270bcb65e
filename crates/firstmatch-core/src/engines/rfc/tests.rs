//! The paper's example, corners, budgets and plans.
//!
//! `forms` has forms of tables, `prune` pruning, and `whole` whole engines in all combinations of options.

mod forms;
mod prune;
mod whole;

use super::build::{Making, Start, leaves_of};
use super::join::{Joining, join};
use super::lists::Part;
use super::plan::{Asked, Known, Operands, Planned, fewest};
use super::structure::Rfc;
use super::table::{Form, Spending};
use super::{BatchWalk, BitCount, ClassOrder, Config, LeafKind, PlaceBy, TableForm, TreeChoice};
use crate::engine::budget::{Budget, Visits};
use crate::engine::{Classifier, Engine, Match};
use crate::engines::shared::Room;
use crate::key::{KeyBuf, Keys};
use crate::raw::{Level, truncated};
use crate::rule::{ExpansionLimits, Lowered, Test, lower};
use crate::schema::{Field, Kind, Schema};
use crate::test_rules::{of_text, set};

fn schema(widths: &[u32]) -> Schema {
    let field = |(at, &width): (usize, &u32)| Field::new(&format!("f{at}"), width, Kind::Mask, None);
    Schema::new(None, widths.iter().enumerate().map(field).collect())
}

/// The paper's rules: 001 010 011, 001 100 011, 01* 100 ***, and a rule of all packets.
fn of_example() -> Lowered {
    let exact = |values: [u128; 3]| (0..3).map(|field| (field, Test::Value(values[field]))).collect();
    let third = vec![(0, Test::Prefix { value: 2, len: 2 }), (1, Test::Value(4))];
    set(&schema(&[3, 3, 3]), [exact([1, 2, 3]), exact([1, 4, 3]), third, Vec::new()])
}

/// Returns configurations of all leaves, trees and forms of tables at every level; the other options take turns.
fn configurations() -> Vec<Config> {
    let mut all = Vec::new();
    let shapes = [(32, 8), (64, 4), (96, 28), (128, 6)];
    let walks = [BatchWalk::Batch, BatchWalk::Keys, BatchWalk::Batch, BatchWalk::Reads];
    for simd in Level::available().map(Some) {
        for leaves in [LeafKind::Words, LeafKind::Chunks] {
            for plan in [TreeChoice::Fewest, TreeChoice::Paper] {
                for store in [TableForm::Plain, TableForm::Ranked, TableForm::SubTables] {
                    let (turn, walk) = (all.len() / 3, walks[all.len() % 4]);
                    let (sub_entries, sub_elements) = shapes[turn % 4];
                    all.push(Config {
                        simd,
                        leaves,
                        plan,
                        walk,
                        store,
                        prefetch: if walk == BatchWalk::Batch { 0 } else { usize::MAX },
                        order: [ClassOrder::FewestRuns, ClassOrder::AsFound][turn / 2 % 2],
                        count: [BitCount::Instruction, BitCount::FindFirst][turn % 2],
                        index: [PlaceBy::Multiply, PlaceBy::Shift][turn / 3 % 2],
                        prune: all.len() % 2 == 0,
                        sub_entries,
                        sub_elements,
                        ..Config::default()
                    });
                }
            }
        }
    }
    all
}

/// Compares the answers of every configuration for some keys with those of the regions, in batches of all lengths.
fn check(set: &Lowered, keys: &KeyBuf) {
    let keys = keys.keys();
    let first = |at: usize| (0..set.regions().len()).find(|&region| set.regions().get(region).contains(keys.row(at)));
    let want: Vec<Option<Match>> = (0..keys.len()).map(|at| first(at).map(|region| set.rules()[region])).collect();
    for config in configurations() {
        let engine = Rfc::build(set, &config).expect("no budget");
        let mut scratch = engine.scratch();
        for length in [1, 3, 4, 63, 64, 65, keys.len()] {
            for from in (0..keys.len()).step_by(length) {
                let to = (from + length).min(keys.len());
                let mut found = vec![None; to - from];
                engine.classify_batch(&mut scratch, keys.slice(from, to), &mut found);
                assert_eq!(found, want[from..to], "{config:?}, keys from {from} to {to} of {set:?}");
            }
        }
        check_parts(&engine, keys, &want);
    }
}

/// Compares the answers of lookups in two parts with `want`, for every place to cut them.
fn check_parts(engine: &Rfc, keys: Keys<'_>, want: &[Option<Match>]) {
    let (mut first, mut second) = (engine.new_scratch(), engine.new_scratch());
    for cut in 0..=engine.slots() {
        // Parts of a lookup write a class before they read it, so any former content will do.
        let (mut found, mut words) = (vec![None; want.len()], vec![0xA5A5_A5A5_A5A5_A5A5; want.len() * engine.width()]);
        engine.improve_in(&mut first, 0..cut, &keys, &mut words, &mut found);
        engine.improve_in(&mut second, cut..engine.slots(), &keys, &mut words, &mut found);
        assert_eq!(found, want, "cut at {cut} of {engine:?}");
    }
}

#[test]
fn the_paper_s_example_is_built_as_printed() {
    let (set, config) = (of_example(), Config::paper());
    let engine = Rfc::build(&set, &config).expect("no budget");
    // Entries are rules, from 1: class 0 has rule 4, class 1 rule 1, class 2 rule 2 and class 3 rule 3.
    let lines = [
        "leaf 0: word 0 >> 0, 3 classes: 0x1 1x1 2x2 0x4",
        "leaf 1: word 1 >> 0, 3 classes: 0x2 1x1 0x1 2x1 0x3",
        "leaf 2: word 2 >> 0, 2 classes: 0x3 1x1 0x4",
        "table 3: slots 0 1 2, 5 classes: 4 4 4 4 4 4 4 4 4 1 4 2 4 4 4 4 3 3",
    ];
    assert_eq!(Engine::structure(&engine), Some(lines.map(|line| format!("{line}\n")).concat()));
    let mut keys = KeyBuf::new(set.schema());
    for key in 0..512 {
        keys.push()[..3].copy_from_slice(&[key >> 6, key >> 3 & 7, key & 7]);
    }
    check(&set, &keys);
}

/// The classes of the paper's table, and their rules: 4, 1 4, 2 4 and 3 4.
#[test]
fn classes_of_the_example_are_those_of_the_paper() {
    let (set, visits) = (of_example(), Visits::default());
    let room = Room { allowed: usize::MAX, visits: &visits };
    let Start { products, made, .. } = leaves_of(&set, &Config::paper(), &room).expect("no limit");
    let parts: Vec<Part> = made.into_iter().map(|made| made.part).collect();
    let lists = |part: &Part| -> Vec<Vec<u32>> { (0..part.len()).map(|class| part.list(class).to_vec()).collect() };
    // Rule 4 leaves every word open, and rule 3 the last one, so that they are in no list there.
    assert_eq!(lists(&parts[0]), [vec![], vec![0, 1], vec![2]]);
    assert_eq!(lists(&parts[1]), [vec![], vec![0], vec![1, 2]]);
    assert_eq!(lists(&parts[2]), [vec![], vec![0, 1]]);
    let mut pairs = Vec::new();
    let joining = Joining { products: products.len(), cover: None, room: &room };
    let inner = join(&parts[0], &parts[1], 9, joining, &mut |row, _| {
        pairs.extend_from_slice(row);
        Ok(())
    });
    let inner = inner.expect("no limit").expect("nine pairs");
    let mut rows = Vec::new();
    let all = join(&inner, &parts[2], 18, joining, &mut |row, _| {
        rows.push(row.to_vec());
        Ok(())
    });
    let table: Vec<u32> = pairs.iter().flat_map(|&pair| rows[pair as usize].clone()).collect();
    assert_eq!(table, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 0, 0, 0, 0, 3, 3]);
    assert_eq!(lists(&all.expect("no limit").expect("few classes")), [vec![], vec![0], vec![1], vec![2]]);
}

/// Corners: no rule, one rule, rules of all packets, one word, duplicates, and values under masks.
#[test]
fn corners_have_the_answers_of_the_regions() {
    let narrow = schema(&[3, 17, 20]);
    let masks = (0..9u128).map(|at| {
        let mask = Test::Mask { value: at << 15 & 0x50005, mask: 0x50005 };
        vec![(0, Test::Mask { value: at & 5, mask: 5 }), (1, Test::Mask { value: at & 9, mask: 9 }), (2, mask)]
    });
    let one = schema(&[32]);
    let prefixes = (0..40u128).map(|at| {
        let len = 8 + at as u32 / 2;
        vec![(0, Test::Prefix { value: (at << 24 | at << 14) >> (32 - len) << (32 - len), len })]
    });
    let value = |at: u128| vec![(1, Test::Range { lo: at, hi: 2 * at })];
    for set in [
        set(&narrow, Vec::new()),
        set(&one, Vec::new()),
        set(&narrow, [vec![(2, Test::Value(5))]]),
        set(&narrow, [Vec::new(), Vec::new()]),
        set(&narrow, masks),
        set(&narrow, [value(4), value(4), value(40_000), value(3)]),
        set(&one, prefixes),
    ] {
        let mut keys = KeyBuf::new(set.schema());
        for at in 0..150u32 {
            for (word, of) in set.schema().words().iter().enumerate() {
                let value = match at % 3 {
                    0 => (at / 3).min(of.max),
                    1 => of.max - (at / 3).min(of.max),
                    _ => at.wrapping_mul(0x9E37_79B1).rotate_left(word as u32) % of.max,
                };
                keys.push_rows(usize::from(word == 0));
                let last = keys.len() - 1;
                keys.row_mut(last)[word] = value;
            }
        }
        check(&set, &keys);
    }
}

/// An interval of a wide word is three products over halves. Answers are right on both sides of each border.
#[test]
fn seams_of_chunks_are_exact() {
    let (lo, hi) = (0x0A00_FFFE, 0x0A03_0001);
    let one = schema(&[32, 8]);
    let all = set(
        &one,
        [vec![(0, Test::Range { lo: lo.into(), hi: hi.into() }), (1, Test::Value(3))], vec![(1, Test::Value(3))]],
    );
    let mut keys = KeyBuf::new(&one);
    for seam in [lo, 0x0A01_0000, 0x0A02_0000, 0x0A02_FFFF, 0x0A03_0000, hi, 0x0A01_FFFF] {
        for value in [seam - 1, seam, seam + 1] {
            keys.push()[..2].copy_from_slice(&[value, 3]);
        }
    }
    check(&all, &keys);
}

/// An absent port is in no range; rules without a condition on the port still match.
#[test]
fn absent_ports_have_classes_of_their_own() {
    let text = "family ipv4\ndeny dport 65535\npermit sport { 0, 7 } proto 6\npermit proto 1\ndeny src 10.0.0.0/9";
    let rules = of_text(text);
    let set = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default()).expect("within the limits");
    let mut keys = KeyBuf::new(set.schema());
    for sport in [0, 7, 65_535, 65_536] {
        for dport in [0, 65_535, 65_536] {
            for (src, proto) in [(0x0A00_0000, 6), (0x0A80_0000, 1), (0x0A7F_FFFF, 6), (1, 17)] {
                keys.push()[..5].copy_from_slice(&[src, 9, sport, dport, proto]);
            }
        }
    }
    check(&set, &keys);
}

/// A word with more intervals than a tree can hold is split into two chunks.
#[test]
fn a_word_of_too_many_intervals_is_two_chunks() {
    let one = schema(&[32]);
    let all = set(&one, (0..45_000u128).map(|at| vec![(0, Test::Value((at / 150 * 40) << 16 | (at % 150 * 300)))]));
    let engine = Rfc::build(&all, &Config::default()).expect("no budget");
    assert_eq!((engine.leaves.len(), engine.tables[0].length), (2, 301 * 151));
    for at in (0..45_000u32).step_by(997) {
        for more in 0..2 {
            let mut key = KeyBuf::new(&one);
            key.push()[0] = (at / 150 * 40) << 16 | (at % 150 * 300) | more;
            let found = engine.classify(&mut engine.scratch(), key.keys());
            assert_eq!(found, (more == 0).then(|| all.rules()[at as usize]), "{at}");
        }
    }
}

fn of_ports(rules: u128) -> Lowered {
    let word = |at: u128, field: usize| {
        let lo = at * 37 * (field as u128 + 3) % 4093;
        (field, Test::Range { lo, hi: lo + at * 11 % 900 })
    };
    let fields = |at: u128| (0..5).filter(move |&field| (at + 2 * field as u128) % 5 > 1);
    set(&schema(&[13; 5]), (0..rules).map(|at| fields(at).map(|field| word(at, field)).collect()))
}

/// A budget is taken to the byte. With a byte less, the error has both numbers and the tables.
#[test]
fn a_budget_is_taken_to_the_byte() {
    let set = of_ports(60);
    let with = |run_bytes| Rfc::build(&set, &Config { budget: Budget { run_bytes }, ..Config::default() });
    let needed = Engine::stats(&with(usize::MAX).expect("no budget")).total_bytes();
    assert!(with(needed).is_ok());
    let error = with(needed - 1).expect_err("a byte is missing");
    assert_eq!(error.bytes_needed(), Some((needed, needed - 1)));
    let said = format!("4 tables as planned: the engine needs {needed} bytes; the budget allows {}", needed - 1);
    assert_eq!(error.to_string(), said);
    let paper = Config { plan: TreeChoice::Paper, leaves: LeafKind::Chunks, ..Config::default() };
    let with = |run_bytes| Rfc::build(&of_example(), &Config { budget: Budget { run_bytes }, ..paper.clone() });
    let needed = Engine::stats(&with(usize::MAX).expect("no budget")).total_bytes();
    let said =
        format!("table 1 of 3 x 3 x 2 classes: the engine needs {needed} bytes; the budget allows {}", needed - 1);
    assert_eq!(with(needed - 1).expect_err("a byte is missing").to_string(), said);
    let error = Rfc::build(&set, &Config { build_bytes: 100, ..Config::default() }).expect_err("no room for lists");
    assert!(error.to_string().contains("the limit is"), "{error}");
}

/// Returns every tree over some leaves, as the tables and the slot of the root.
fn trees(leaves: &[usize], count: usize) -> Vec<Vec<Operands>> {
    fn grow(set: &[usize]) -> Vec<Vec<[u32; 2]>> {
        // A tree is its joins, each as two sets of leaves.
        let bits = |set: &[usize]| set.iter().fold(0, |bits, leaf| bits | 1 << leaf);
        if set.len() == 1 {
            return vec![Vec::new()];
        }
        let mut all = Vec::new();
        for half in (1..1usize << set.len()).filter(|half| half & 1 == 1 && half + 1 < 1 << set.len()) {
            let [a, b] = [1, 0].map(|is_in| -> Vec<usize> {
                (0..set.len()).filter(|at| half >> at & 1 == is_in).map(|at| set[at]).collect()
            });
            for first in grow(&a) {
                for second in grow(&b) {
                    all.push([&first[..], &second[..], &[[bits(&a), bits(&b)]]].concat());
                }
            }
        }
        all
    }
    let tables = |joins: Vec<[u32; 2]>| {
        let mut sets: Vec<u32> = (0..count as u32).map(|leaf| 1 << leaf).collect();
        let slot = |sets: &[u32], set: u32| sets.iter().position(|&of| of == set).expect("joined before");
        let operands = joins.into_iter().map(|[a, b]| {
            let slots = [slot(&sets, a), slot(&sets, b)];
            sets.push(a | b);
            Operands { slots, third: None }
        });
        operands.collect()
    };
    grow(leaves).into_iter().map(tables).collect()
}

/// The planned tree is the smallest of all 105 over five leaves, and takes the predicted bytes.
#[test]
fn the_planned_tree_is_the_smallest_of_all() {
    for rules in [1, 9, 30] {
        let (set, visits) = (of_ports(rules), Visits::default());
        let config = Config { prune: rules != 9, ..Config::default() };
        let room = Room { allowed: usize::MAX, visits: &visits };
        let start = || leaves_of(&set, &config, &room).expect("no limit");
        let Start { products, made, cover } = start();
        let (count, cover, known) = (made.len(), cover.as_ref(), Known::default());
        let (parts, fields) = (made.iter().map(|made| &made.part).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        let asked =
            Asked { products: products.len(), rules: 60, allowed: usize::MAX, cover, known: &known, room: &room };
        let planned = fewest(&parts, &fields[..count], &asked).expect("no limit");
        let making = Making { products: &products, cover, config: &config, form: Form::Plain, visits: &visits };
        let bytes = |planned: &Planned| -> usize {
            let mut spending = Spending { used: 0, allowed: usize::MAX };
            let built = making.tables(planned, start().made, &mut spending, &mut Known::default()).expect("no budget");
            built.1.iter().map(|table| table.cells.bytes()).sum()
        };
        let leaves: Vec<usize> = (0..count).collect();
        let all = trees(&leaves, count);
        assert_eq!(all.len(), [1, 1, 3, 15, 105][count - 1], "{rules} rules");
        let of_tree = |tables: Vec<Operands>| bytes(&Planned { tables, bytes: 0, is_exact: false });
        let least = all.into_iter().map(of_tree).min().expect("a tree");
        assert_eq!((planned.bytes, planned.is_exact, bytes(&planned)), (least as u64, true, least), "{rules} rules");
    }
}

/// Hashes do not affect tables, and equal rules build equal tables.
#[test]
fn equal_rules_build_equal_tables() {
    for config in configurations() {
        let text = || Engine::structure(&Rfc::build(&of_ports(40), &config).expect("no budget"));
        let want = text();
        assert_eq!(text(), want);
        truncated(|| assert_eq!(text(), want));
    }
}

/// All classes are below the number of classes from which places are computed.
#[test]
fn every_place_is_inside_its_table() {
    for config in configurations() {
        let engine = Rfc::build(&of_ports(40), &config).expect("no budget");
        let leaves = engine.leaves.iter().map(|leaf| leaf.classes);
        let classes: Vec<u32> = leaves.chain(engine.tables.iter().map(|table| table.classes)).collect();
        for table in &engine.tables {
            let own = [classes[table.slots[1]], table.third.map_or(1, |slot| classes[slot])];
            let shifts = config.index == PlaceBy::Shift;
            let counts = if shifts { own.map(u32::next_power_of_two) } else { own };
            assert_eq!((table.counts, table.shifts), (counts, shifts.then(|| counts.map(u32::ilog2))));
            assert_eq!(table.length, (classes[table.slots[0]] * counts[0] * counts[1]) as usize);
            assert!((0..table.length).all(|at| table.cells.get(at, config.count) < table.classes), "{config:?}");
        }
    }
}

/// A table that exceeded the budget is in no later plan, and known numbers of classes replace estimates.
#[test]
fn a_refused_table_is_planned_around() {
    let (set, visits) = (of_ports(30), Visits::default());
    let room = Room { allowed: usize::MAX, visits: &visits };
    let Start { products, made, cover } = leaves_of(&set, &Config::default(), &room).expect("no limit");
    let parts: Vec<&Part> = made.iter().map(|made| &made.part).collect();
    let (mut known, mut bytes, count) = (Known::default(), Vec::new(), products.len());
    let mut plans: Vec<Vec<Operands>> = Vec::new();
    for at in [2, 0, 1, 3, 3, 0] {
        let cover = cover.as_ref();
        let asked = Asked { products: count, rules: 30, allowed: usize::MAX, cover, known: &known, room: &room };
        let planned = fewest(&parts, &[0, 1, 2, 3, 4], &asked).expect("no limit");
        assert!(plans.iter().all(|before| before != &planned.tables), "{:?} again", planned.tables);
        known.add(&planned.tables, parts.len(), [].into_iter(), at);
        assert!(known.take_new() && !known.is_new());
        bytes.push(planned.bytes);
        plans.push(planned.tables);
    }
    assert!(bytes.is_sorted(), "{bytes:?}");
    // If every table is refused, there is no plan.
    let two = set_of_two();
    let Start { products, made, cover } = leaves_of(&two, &Config::default(), &room).expect("no limit");
    let parts: Vec<&Part> = made.iter().map(|made| &made.part).collect();
    let mut known = Known::default();
    known.add(&[Operands { slots: [0, 1], third: None }], 2, [].into_iter(), 0);
    let (count, cover) = (products.len(), cover.as_ref());
    let asked = Asked { products: count, rules: 2, allowed: usize::MAX, cover, known: &known, room: &room };
    assert!(fewest(&parts, &[0, 1], &asked).is_err());
}

fn set_of_two() -> Lowered {
    set(&schema(&[8, 8]), [vec![(0, Test::Value(1))], vec![(1, Test::Value(2))]])
}
