//! Invariants of the structure after any history of changes.

use super::*;
use crate::KeyBuf;
use crate::engines::partition_sort::node::{ENTRY, WIDE, room};
use crate::engines::shared::wide::Random;

/// Panics unless all of this holds:
/// - partitions stand in order of their bounds, none is empty, no two have one number, and no rule beats its
///   partition's bound, which is exact until the best rule has gone;
/// - a node has as many children as it may, at least four below the first of its word; the key of each but the first is
///   the least value of the word below it, keys rise, and what is not in use leads to the last child;
/// - the nodes of a word are equally deep below the first one, and entries stand in the order of words;
/// - a group has equal bounds, is in order of priority and no longer than it may be;
/// - every line is a node's, an entry's, free or unused.
fn check(engine: &PartitionSort) {
    let (arena, key_words) = (&engine.arena, engine.arena.key_words());
    let mut used: Vec<(u32, usize)> = Vec::new();
    let (mut best, mut regions, mut numbers) = (0, engine.overflow.len(), Vec::new());
    for partition in &engine.partitions {
        assert!(best <= partition.best && partition.len > 0, "partitions stand in order");
        best = partition.best;
        numbers.push(partition.number());
        let mut first: Vec<(u32, usize)> = Vec::new();
        nodes(engine, partition.root, None, &mut used);
        arena.visit(partition.root, |group, depth| first.push((group, depth)));
        let mut entries = 0;
        for &(group, _) in &first {
            let all: Vec<u32> = arena.group(group).collect();
            assert!(all.len() <= update::LONGEST, "{} of a group", all.len());
            assert!(all.windows(2).all(|pair| arena.priority(pair[0]) <= arena.priority(pair[1])));
            for &entry in &all {
                assert_eq!(arena.bounds(entry), arena.bounds(group), "a group has equal bounds");
                assert!(arena.priority(entry).0 >= partition.best, "no rule beats the bound");
                used.push((entry, arena.lines_per_entry()));
                let ternary = arena.run(entry)[2 * key_words + 5];
                used.extend((ternary != u32::MAX).then_some((ternary, arena.lines_per_entry())));
            }
            entries += all.len();
        }
        assert_eq!(entries, partition.len, "a partition knows how many regions it has");
        assert!(2 * partition.loose <= partition.len, "a bound that the best have left is found anew");
        let of_first = first.iter().map(|&(group, _)| arena.priority(group).0).min();
        assert!(partition.loose > 0 || of_first == Some(partition.best), "a bound is that of the best");
        regions += entries;
        // Neighbours are disjoint and in order on the first word of the order on which they differ.
        for pair in first.windows(2) {
            let [(a_lo, a_hi), (b_lo, b_hi)] = [pair[0].0, pair[1].0].map(|group| arena.bounds(group));
            let differ = |word: usize| (a_lo[word], a_hi[word]) != (b_lo[word], b_hi[word]);
            let word = partition.order().iter().map(|&word| usize::from(word)).find(|&word| differ(word));
            assert!(word.is_some_and(|word| a_hi[word] < b_lo[word]), "{pair:?}");
        }
    }
    numbers.sort_unstable();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    assert_eq!(regions, engine.regions);
    arena.check(used.into_iter());
}

/// Checks the nodes below a handle; returns the least bounds there, and the number of levels of the handle's word.
///
/// `above` is the word of the node above.
fn nodes(engine: &PartitionSort, handle: u32, above: Option<u32>, used: &mut Vec<(u32, usize)>) -> (Vec<u32>, usize) {
    let arena = &engine.arena;
    if is_entry(handle) {
        return (arena.bounds(line_of(handle)).0.to_vec(), 0);
    }
    let (word, len, keys, children) = arena.parts(handle);
    used.push((line_of(handle), lines_of(handle)));
    let is_below = above == Some(word);
    assert!((if is_below { 4 } else { 2 }..=room(handle)).contains(&len), "{len} children");
    let words = arena.run(line_of(handle));
    assert!(words[len..room(handle)].iter().all(|&key| key == u32::MAX), "keys that are not in use");
    let unused = &words[room(handle) + len..2 * room(handle)];
    assert!(unused.iter().all(|&child| child == children[len - 1]), "children that are not in use");
    let mut least = Vec::new();
    let mut levels = Vec::new();
    for (at, &child) in children.iter().enumerate() {
        let (lo, deep) = nodes(engine, child, Some(word), used);
        let is_of_word = !is_entry(child) && arena.parts(child).0 == word;
        levels.push(if is_of_word { deep } else { 0 });
        assert!(at == 0 || keys[at - 1] == lo[word as usize], "the key of child {at} is its least value");
        least.push(lo);
    }
    assert!(least.windows(2).all(|pair| pair[0][word as usize] < pair[1][word as usize]), "children are in order");
    assert!(levels.iter().all(|level| *level == levels[0]), "a word is equally deep: {levels:?}");
    (least.swap_remove(0), 1 + levels[0])
}

/// The rule of each region that is there, in order of priority.
type There = Vec<(Match, Vec<Region2>)>;

/// `lo`, `hi`, and value and mask, of two words.
type Region2 = ([u32; 2], [u32; 2], Option<([u32; 2], [u32; 2])>);

fn regions_of(list: &[Region2]) -> Regions {
    let mut regions = Regions::new(2);
    for (lo, hi, ternary) in list {
        let ternary = ternary.as_ref().map(|(value, mask)| (&value[..], &mask[..]));
        regions.push(Region { lo, hi, ternary });
    }
    regions
}

/// Panics unless keys get the best rule that holds them, with and without a match to beat.
fn check_answers(engine: &PartitionSort, there: &There, random: &mut Random, what: &str) {
    let mut keys = KeyBuf::new(Engine::schema(engine));
    for _ in 0..70 {
        let corner = |random: &mut Random, word: usize| {
            let (_, regions) = &there[random.below(there.len())];
            let (lo, hi, _) = regions[random.below(regions.len())];
            random.between(lo[word], hi[word])
        };
        let (_, regions) = &there[random.below(there.len())];
        let (lo, hi, ternary) = regions[random.below(regions.len())];
        let key = keys.push();
        for word in 0..2 {
            key[word] = random.between(lo[word], hi[word]);
            key[word] = ternary.map_or(key[word], |(value, mask)| key[word] & !mask[word] | value[word]);
            if random.below(4) == 0 {
                key[word] = corner(random, word);
            }
        }
    }
    let rows = keys.keys();
    let holds = &|at: usize, list: &[Region2]| regions_of(list).iter().any(|region| region.contains(rows.row(at)));
    let first = |at: usize| there.iter().filter(move |(_, list)| holds(at, list)).map(|(rule, _)| *rule);
    let other = |priority| Some(Match { rule: RuleId::new(1 << 20, 0), priority: Priority(priority) });
    let (mut best, mut want) = (Vec::new(), Vec::new());
    for at in 0..keys.len() {
        let first = first(at).min_by_key(|rule| rule.priority);
        let priority = first.map_or(1 << 40, |rule| rule.priority.0);
        let (start, end) = match at % 3 {
            0 => (None, first),
            1 => (other(priority - 1), other(priority - 1)),
            _ => (other(priority + 1), first.or(other(priority + 1))),
        };
        best.push(start);
        want.push(end);
    }
    engine.improve(&mut engine.new_scratch(), &rows, &mut best);
    assert_eq!(best, want, "{what}");
}

/// The structure is sound while rules of every shape come and go: many apart on one word, so that nodes split and are
/// merged; equal ones; nested ones, that need more partitions; and some with equal hulls under other masks.
#[test]
fn the_structure_holds_after_any_history() {
    let fields = ["x", "y"].map(|name| Field::new(name, 32, Kind::Mask, None));
    let schema = Schema::new(None, fields.into());
    for (reorder, most_partitions, wide) in [(10, 128, 4000), (0, 128, 40), (40, 2, 400), (3, 6, 4000)] {
        let config = Config { reorder, most_partitions, ..Config::default() };
        let mut engine = PartitionSort::new(&schema, &config).expect("no budget");
        let (mut random, mut there) = (Random(wide as u64), There::new());
        let mut most = [0; 3];
        for step in 0..2400u32 {
            let grows = step / 600 % 2 == 0;
            if there.is_empty() || random.below(10) < if grows { 9 } else { 1 } {
                let x = 8 * random.below(wide) as u32;
                let y = 8 * random.below(5) as u32;
                // An interval of its own, one that holds others, or a few hulls with masks.
                let region = |random: &mut Random| match random.below(12) {
                    0 => ([x, 0], [x + 8 * random.below(30) as u32 + 7, 200], None),
                    at @ 1..=3 => ([x, 0], [x, 59], Some(([x, 0], [u32::MAX, [4, 64, 68][at - 1]]))),
                    _ => ([x, y], [x + 3, y + 5], None),
                };
                let list: Vec<Region2> = (0..1 + random.below(2)).map(|_| region(&mut random)).collect();
                let rule = Match {
                    rule: RuleId::new(step, 0),
                    priority: Priority(random.next() >> 20 << 12 | u64::from(step)),
                };
                engine.insert(rule, &regions_of(&list)).expect("no budget");
                there.push((rule, list));
            } else {
                let (rule, _) = there.swap_remove(random.below(there.len()));
                let bytes = engine.bytes();
                engine.remove(rule.rule).expect("it is there");
                assert!(engine.bytes() <= bytes, "a removal takes nothing");
            }
            if step % 10 == 9 {
                check(&engine);
            }
            if step % 100 == 99 && !there.is_empty() {
                check_answers(&engine, &there, &mut random, &format!("{config:?}, step {step}"));
            }
            let wides = engine.partitions.iter().filter(|partition| partition.root & (WIDE | ENTRY) == WIDE).count();
            most = [most[0].max(engine.partitions.len()), most[1].max(engine.overflow.len()), most[2].max(wides)];
        }
        assert!(most[0] >= 2.min(most_partitions) && (most[1] > 0 || most_partitions > 2) && most[2] > 0, "{most:?}");
        for (rule, _) in there {
            engine.remove(rule.rule).expect("it is there");
        }
        check(&engine);
        assert_eq!((engine.partitions.len(), engine.overflow.len(), engine.regions, engine.rules), (0, 0, 0, 0));
    }
}

/// Nodes stay sound while values are removed from the front, from the back and from the middle, and come back.
#[test]
fn nodes_are_merged_from_every_side() {
    for side in 0..4 {
        let slots: Vec<[u32; 4]> = (0..400).map(|at| [at % 200, at % 200, at / 200 * 9, at / 200 * 9 + 3]).collect();
        let mut engine = of(&slots, &Config::default());
        check(&engine);
        assert_eq!(engine.partitions.len(), 1);
        let mut left: Vec<u32> = (0..400).collect();
        while !left.is_empty() {
            let at = match side {
                0 => 0,
                1 => left.len() - 1,
                2 => left.len() / 2,
                _ => left.len() * 7919 % left.len().next_power_of_two() % left.len(),
            };
            engine.remove(RuleId::new(left.remove(at), 0)).expect("it is there");
            check(&engine);
            if left.len() % 50 == 7 {
                // Some removed values are inserted again between their neighbours, and removed once more.
                let gone: Vec<u32> = (0..400).filter(|slot| !left.contains(slot)).step_by(9).collect();
                for &slot in &gone {
                    let [x, to_x, y, to_y] = slots[slot as usize];
                    let mut regions = Regions::new(2);
                    regions.push(Region { lo: &[x, y], hi: &[to_x, to_y], ternary: None });
                    let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
                    engine.insert(rule, &regions).expect("no budget");
                    check(&engine);
                }
                gone.iter().for_each(|&slot| engine.remove(RuleId::new(slot, 0)).expect("it is there"));
                check(&engine);
            }
        }
    }
}

/// A node of few children beside a full one twice as wide takes as many as it has room for.
#[test]
fn a_small_node_takes_no_more_than_it_holds() {
    // Seventeen values in two nodes: 0 to 8 on the left, the others on the right.
    let first: Vec<u32> = (0..17).map(|at| 10 * at).collect();
    let fill = |from: u32, count: u32| (1..=count).map(move |more| from + more);
    let cases = [(fill(0, 7), [160, 150, 140, 130, 120, 110].to_vec()), (fill(160, 8), (0..80).step_by(10).collect())];
    for (more, gone) in cases {
        let values: Vec<u32> = first.iter().copied().chain(more).collect();
        let slots: Vec<[u32; 4]> = values.iter().map(|&value| [value, value, 0, 9]).collect();
        let mut engine = of(&slots, &Config::default());
        check(&engine);
        for value in gone {
            let slot = values.iter().position(|&of| of == value).expect("it is there");
            engine.remove(RuleId::new(slot as u32, 0)).expect("it is there");
            check(&engine);
        }
    }
}

/// A group has at most 256 equal regions; further ones go to other partitions or, without any, to the overflow list.
#[test]
fn a_group_is_as_long_as_it_may_be() {
    for (count, most_partitions, tables, longest, overflow) in
        [(255, 1, 1, 255, 0), (256, 1, 1, 256, 0), (257, 1, 1, 256, 1), (257, 9, 2, 256, 0), (600, 2, 2, 256, 88)]
    {
        let config = Config { most_partitions, ..Config::default() };
        let mut engine = of(&vec![[1, 5, 2, 9]; count], &config);
        check(&engine);
        let stats = engine.stats();
        let is = (stats.tables, stats.longest_bucket, stats.overflow);
        assert_eq!(is, (tables, longest, overflow), "{count} in {most_partitions} partitions");
        // The first rule is the answer and, once it is removed, the next one.
        let mut keys = KeyBuf::new(&pairs());
        keys.push()[..2].copy_from_slice(&[3, 3]);
        for slot in 0..count as u32 {
            let mut best = [None];
            engine.improve(&mut engine.new_scratch(), &keys.keys(), &mut best);
            assert_eq!(best[0].map(|found| found.rule), Some(RuleId::new(slot, 0)));
            engine.remove(RuleId::new(slot, 0)).expect("it is there");
        }
        check(&engine);
    }
}

/// Among regions with the same hull, a key gets the first one whose mask holds it.
///
/// That holds for any number of regions before that one, and for any match to beat.
#[test]
fn masks_decide_where_hulls_are_equal() {
    let schema = Schema::new(None, ["x", "y"].map(|name| Field::new(name, 8, Kind::Mask, None)).into());
    let mut random = Random(8);
    for round in 0..20 {
        let mut engine = PartitionSort::new(&schema, &Config::default()).expect("no budget");
        let mut there = There::new();
        for slot in 0..40u32 {
            // Both ends of the hull have bits 0 and 1 or 7 alone: any of the others may be asked to be 0.
            let mask = random.next() as u32 & 0x7C | slot & 1;
            let list = vec![([1, 7], [0x83, 7], Some(([mask & 1, 0], [mask, 0])))];
            let priority =
                |random: &mut Random, slot: u32| Priority(1000 + (random.next() >> 40 << 8 | u64::from(slot)));
            let rule = Match { rule: RuleId::new(slot, 0), priority: priority(&mut random, slot) };
            engine.insert(rule, &regions_of(&list)).expect("no budget");
            // One in four has another hull and no mask.
            let plain = Match { rule: RuleId::new(100 + slot, 0), priority: priority(&mut random, 100 + slot) };
            let same = vec![([1, 7], [if slot % 4 == 0 { 0x83 } else { 0x84 + slot }, 7], None)];
            engine.insert(plain, &regions_of(&same)).expect("no budget");
            there.extend([(rule, list), (plain, same)]);
        }
        check(&engine);
        assert!(engine.stats().longest_bucket >= 40);
        while there.len() > 10 {
            check_answers(&engine, &there, &mut random, &format!("round {round}, {} left", there.len()));
            for _ in 0..10 {
                let (rule, _) = there.swap_remove(random.below(there.len()));
                engine.remove(rule.rule).expect("it is there");
            }
            check(&engine);
        }
    }
}

/// A budget of one byte less than an insertion takes refuses the insertion and changes nothing.
#[test]
fn no_insertion_takes_more_than_is_said() {
    for (reorder, most_partitions) in [(10, 128), (0, 3), (40, 128)] {
        let config = Config { reorder, most_partitions, ..Config::default() };
        let mut random = Random(reorder as u64);
        let rules: Vec<[u32; 4]> = (0..700)
            .map(|_| {
                let [x, y] = [(); 2].map(|()| random.below(200) as u32);
                [x, x + random.below(3) as u32, y, y + random.below(40) as u32]
            })
            .collect();
        let mut engine = PartitionSort::new(&pairs(), &config).expect("no budget");
        for (slot, &[x, to_x, y, to_y]) in (0..).zip(&rules) {
            let mut regions = Regions::new(2);
            regions.push(Region { lo: &[x, y], hi: &[to_x, to_y], ternary: None });
            let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
            engine.budget = 0;
            let refused = engine.insert(rule, &regions).expect_err("nothing is allowed").into_build_error(rule.rule);
            let (said, allowed) = refused.bytes_needed().expect("it is for bytes");
            assert_eq!((allowed, engine.regions), (0, slot as usize));
            engine.budget = usize::MAX;
            engine.insert(rule, &regions).expect("no budget");
            assert!(engine.bytes() <= said, "rule {slot}: {} bytes, {said} were said", engine.bytes());
        }
        check(&engine);
    }
}

/// A rule that is refused half way leaves no region behind.
#[test]
fn a_rule_that_is_refused_half_way_goes_whole() {
    let mut engine = of(&[[1, 1, 0, 9], [0, 3, 20, 29], [9, 9, 9, 9]], &Config::default());
    let mut many = Regions::new(2);
    (0..250).for_each(|at| many.push(Region { lo: &[at, 50], hi: &[at, 60 + at % 3], ternary: None }));
    let rule = Match { rule: RuleId::new(7, 0), priority: Priority(70) };
    let mut refused = 0;
    for more in (0..40_000).step_by(1000) {
        engine.budget = engine.bytes() + more;
        match engine.insert(rule, &many) {
            Ok(()) => engine.remove(rule.rule).expect("it is there"),
            Err(error) => {
                refused += 1;
                assert!(error.budget_exceeded() && engine.bytes() <= engine.budget, "{error}");
            }
        }
        check(&engine);
        assert_eq!((engine.rules, engine.regions), (3, 3), "{more} bytes more");
        assert!(engine.remove(rule.rule).is_err_and(|error| error.is_stale()), "its slot is free");
    }
    assert!(refused > 3, "{refused} were refused");
}
