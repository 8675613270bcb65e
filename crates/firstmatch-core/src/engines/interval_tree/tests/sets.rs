//! Sets of many products, masks, absent values and other schemas.

use super::*;
use crate::engines::interval_tree::sets::{Current, Lists, Sets, Vectors, bytes as stored_bytes, seek};
use crate::engines::shared::{Classes, Room};

/// Both forms give back the products of each set, over more than one word of bits for blocks.
#[test]
fn sets_of_both_forms_give_back_their_products() {
    let (mut random, count) = (Random(1), 13_000);
    for form in [SetForm::Vectors, SetForm::Lists] {
        let (visits, mut classes, mut want) = (Visits::default(), Classes::default(), Vec::new());
        let room = Room { allowed: usize::MAX, visits: &visits };
        let (mut open, mut current) = (Current::new(count), Current::new(count));
        let opens: Vec<usize> = (0..count).step_by(97).collect();
        opens.iter().for_each(|&product| open.toggle(product));
        let mut members = std::collections::BTreeSet::new();
        for _ in 0..60 {
            for _ in 0..1 + random.below(40) {
                let product = random.below(count as u64) as usize;
                if !product.is_multiple_of(97) {
                    current.toggle(product);
                    if !members.remove(&product) {
                        members.insert(product);
                    }
                }
            }
            let class = classes.of(current.row(form), &room).expect("no limit");
            want.push((class, members.iter().copied().chain(opens.clone()).collect::<std::collections::BTreeSet<_>>()));
        }
        let (sets, places) = match form {
            SetForm::Vectors => {
                let (vectors, places) = Vectors::new(&classes, &open);
                assert_eq!(vectors.rows.last(), Some(&0));
                (Sets::Vectors([vectors].into()), places)
            }
            SetForm::Lists => {
                (Sets::Lists([Lists::new(&classes, &mut open)].into()), (0..classes.len() as u32).collect())
            }
        };
        for (class, want) in &want {
            assert!(
                sets.products(0, places[*class as usize])
                    .iter()
                    .map(|&product| product as usize)
                    .eq(want.iter().copied())
            );
        }
        assert_eq!(sets.bytes(), stored_bytes(form, &classes, opens.len(), count));
        assert_eq!(sets.longest(), want.iter().map(|(_, all)| all.len()).max().expect("some"));
    }
}

/// More than 4,096 rules have a second word of bits for blocks, which is searched as the first.
#[test]
fn rules_beyond_the_first_word_of_blocks_are_found() {
    let rules = (0..9000u32).map(|at| {
        let of = |field, bits: u32| (field, Test::Value(u128::from(at.wrapping_mul(2_654_435_761) >> bits & 63)));
        match at % 3 {
            0 => vec![of(0, 3), of(1, 9), (2, Test::Value(u128::from(at % 50)))],
            1 => vec![of(0, 3), (3, Test::Range { lo: u128::from(at), hi: u128::from(at + 9) })],
            _ => vec![of(1, 9), (3, Test::Range { lo: u128::from(at), hi: u128::from(at + 3) }), of(2, 12)],
        }
    });
    let set = set(&Schema::ipv4(), rules);
    let mut keys = keys_of(&set);
    keys.truncate(4000);
    let mut more = KeyBuf::new(set.schema());
    set.regions().iter().skip(4500).step_by(9).for_each(|region| more.push()[..5].copy_from_slice(region.lo));
    for config in [Config::default(), Config { batches: Batches::Turn, ..Config::default() }, Config::paper()] {
        let engine = build(&set, &config);
        assert!(engine.matches.len() > 2 * 4096);
        agrees(&engine, &set, &keys, "second word");
        agrees(&engine, &set, &more, "second word");
    }
}

/// A search from any place finds the first entry that is large enough, in steps by the logarithm of the distance.
#[test]
fn searches_in_lists_take_few_steps() {
    let mut random = Random(3);
    for length in [0, 1, 2, 7, 1000] {
        let entries: Vec<u32> = (0..length).map(|at| 3 * at + random.below(3) as u32).collect();
        for _ in 0..2000 {
            let (from, product) = (random.below(u64::from(length) + 1) as usize, random.below(3300) as u32);
            let mut looked = 0;
            let found = seek(&entries, from, product, &mut looked);
            let wanted = from + entries[from..].partition_point(|&entry| entry < product);
            assert_eq!(found, wanted, "{product} from {from} of {length}");
            assert!(looked <= 2 * (wanted - from + 2).ilog2() as usize + 2, "{looked} steps to {wanted} from {from}");
        }
    }
}

/// Few rules of one word and many of another: the long list is not read as a whole, whichever word has it.
#[test]
fn few_rules_are_searched_for_among_many() {
    let value = |field, value: u32| (field, Test::Value(value.into()));
    for swapped in [false, true] {
        let (few, many) = if swapped { (1, 0) } else { (0, 1) };
        let set = set(&Schema::ipv4(), (0..4000).map(|rule| vec![value(few, rule / 4), value(many, rule % 2)]));
        let mut keys = KeyBuf::new(&Schema::ipv4());
        for rule in 0..4000 {
            let row = keys.push();
            (row[few], row[many]) = (rule / 4, rule % 2);
        }
        for batches in [Batches::Turn, Batches::Halve] {
            let engine = build(&set, &Config { batches, ..Config::paper() });
            agrees(&engine, &set, &keys, "few among many");
            let mut best = vec![None; keys.len()];
            let counts = engine.count(&mut engine.new_scratch(), &keys.keys(), &mut best);
            let parts = counts.get("parts").expect("entries") / keys.len() as u64;
            assert!((1..=4 * 24).contains(&parts), "{parts} entries a packet of 2,004, {batches:?}");
        }
    }
}

/// Masks are tested after the intersection if the interval of a region is wider than its mask.
#[test]
fn masks_are_tested_beside_intervals() {
    let fields = [0, 1].map(|at| Field::new(&format!("f{at}"), 8, Kind::Mask, None)).into();
    let schema = Schema::new(None, fields);
    let mut random = Random(2);
    let mut masked = |field| {
        let mask = u128::from(random.below(256));
        (field, Test::Mask { value: u128::from(random.below(256)) & mask, mask })
    };
    let rules: Vec<_> =
        (0..70).map(|at| if at % 3 == 0 { vec![masked(0)] } else { vec![masked(0), masked(1)] }).collect();
    let set = set(&schema, rules);
    let mut keys = KeyBuf::new(&schema);
    for key in 0..=0xFFFFu32 {
        keys.push()[..2].copy_from_slice(&[key & 0xFF, key >> 8]);
    }
    for config in [Config::default(), Config { batches: Batches::Turn, ..Config::default() }, Config::paper()] {
        let engine = build(&set, &config);
        assert!(!engine.masks.is_empty());
        agrees(&engine, &set, &keys, "masks");
    }
}

/// Absent ports, duplicates, one rule, rules that leave all open, and no rules.
#[test]
fn corners_answer_as_linear_search() {
    let value = |field, value| (field, Test::Value(value));
    let all = [
        vec![],
        vec![vec![]],
        vec![vec![], vec![]],
        vec![vec![value(3, 65_535)]],
        vec![vec![value(0, 7)], vec![value(0, 7)], vec![]],
        vec![vec![(2, Test::Range { lo: 0, hi: 65_535 })], vec![value(4, 255)], vec![value(0, u32::MAX.into())]],
    ];
    let mut keys = KeyBuf::new(&Schema::ipv4());
    for [src, sport, dport, proto] in
        [[7, 1, 65_535, 6], [7, 65_536, 65_536, 255], [0, 0, 0, 0], [u32::MAX, 65_536, 65_534, 256], [u32::MAX; 4]]
    {
        keys.push()[..5].copy_from_slice(&[src, 9, sport.min(65_536), dport.min(65_536), proto.min(255)]);
    }
    for rules in all {
        let set = set(&Schema::ipv4(), rules.clone());
        for config in configs() {
            let engine = build(&set, &config);
            agrees(&engine, &set, &keys, &format!("{rules:?}, {config:?}"));
            assert_eq!(engine.matches.len(), rules.len());
        }
    }
    let ports = set(&Schema::ipv4(), [vec![(3, Test::Range { lo: 0, hi: 65_535 })]]);
    let engine = build(&ports, &Config::default());
    assert_eq!(engine.words[3].starts[..], [0, 65_536]);
}

/// A better match from before the lookup is kept.
#[test]
fn better_matches_stay() {
    let set = set(&Schema::ipv4(), [vec![(3, Test::Value(80))], vec![], vec![(3, Test::Value(80))]]);
    let engine = build(&set, &Config::default());
    let mut keys = KeyBuf::new(&Schema::ipv4());
    (0..40).for_each(|at| keys.push()[3] = 80 + at % 2);
    for length in [1, 40] {
        let mut best = vec![Some(engine.matches[0]); length];
        engine.improve(&mut engine.new_scratch(), &keys.keys().slice(40 - length, 40), &mut best);
        assert!(best.iter().all(|&best| best == Some(engine.matches[0])));
        let mut best = vec![Some(engine.matches[2]); length];
        engine.improve(&mut engine.new_scratch(), &keys.keys().slice(40 - length, 40), &mut best);
        assert_eq!(best[length - 1], Some(engine.matches[1]));
    }
}
