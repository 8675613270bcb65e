//! Blocks by themselves: the values behind the ranks, and regions that come and go.

use super::*;
use crate::engines::bit_select::block::{BLOCK, NONE, Shape, goes_on, is_rank};
use crate::raw::LINE_WORDS;
use crate::rule::{Region, fixed_bits};

/// Regions of 64 hosts, and the columns of their blocks: those with ranks of 32 bits and those with ranks of 16.
fn shapes() -> [(Lowered, Shape); 2] {
    [usize::MAX, 0].map(|lean| {
        let all = set(&Schema::ipv4(), (0..64u128).map(|at| vec![(0, Test::Value(at * 7919))]));
        let shape = Shape::new(all.schema(), all.regions(), 64, lean);
        assert_eq!(shape.has_short_ranks, lean == 0);
        (all, shape)
    })
}

/// Panics unless a block has these ranks in order, and behind them only values that say where the list continues.
fn check(shape: &Shape, block: &[u32], ranks: &[u32], next: Option<usize>) {
    assert_eq!((shape.len(block), shape.more(block)), (ranks.len(), next));
    let said: Vec<u32> = (0..=BLOCK).map(|at| shape.rank(block, at)).collect();
    assert_eq!(said[..ranks.len()], *ranks);
    // A lookup may read any place behind the last rank, because a key may be inside the bounds left in a free place.
    assert!(said[ranks.len()..].iter().all(|&said| !is_rank(said) && goes_on(said) == next), "{said:?}, {next:?}");
}

/// In a full, partly filled or empty block, every place behind the ranks says where the list was last made to continue.
#[test]
fn behind_the_ranks_stands_where_a_list_goes_on() {
    for (all, shape) in shapes() {
        for count in 0..=BLOCK {
            let regions: Vec<_> = (0..count).map(|at| (10 + 3 * at as u32, all.regions().get(at))).collect();
            let ranks: Vec<u32> = regions.iter().map(|(rank, _)| *rank).collect();
            // The former content of the memory must not show through.
            let mut block = vec![0x5555_5555; shape.lines() * LINE_WORDS];
            for first in [None, Some(0), Some(77)] {
                shape.write(&regions, first, &mut block);
                check(&shape, &block, &ranks, first);
                for next in [Some(5), None, Some((1 << 31) - 1), first] {
                    shape.go_on(&mut block, next);
                    check(&shape, &block, &ranks, next);
                }
            }
        }
        assert!(!is_rank(NONE) && goes_on(NONE).is_none());
    }
}

/// Regions, also several of one rule, are added to a block in any order and removed. The others, and the block that
/// continues the list, stay as they are.
#[test]
fn regions_come_to_a_block_and_go() {
    for (all, shape) in shapes() {
        let words = shape.lines() * LINE_WORDS;
        let mut random = Random(5);
        let mut block = vec![0; words];
        let mut there: Vec<(u32, usize)> = Vec::new();
        for step in 0..2000 {
            let next = [None, Some(9)][step / 100 % 2];
            if step % 100 == 0 {
                shape.write(&[], next, &mut block);
                there.clear();
            }
            let rank = random.below(12) as u32;
            if there.len() < BLOCK && random.below(3) > 0 {
                let at = random.below(64);
                shape.add(&mut block, rank, &all.regions().get(at));
                there.insert(there.partition_point(|&(of, _)| of <= rank), (rank, at));
            } else {
                shape.take(&mut block, rank);
                there.retain(|&(of, _)| of != rank);
            }
            check(&shape, &block, &there.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), next);
            // Each place still has its region: a copy in an empty block equals a block written with this region alone.
            for (at, &(rank, region)) in there.iter().enumerate() {
                let mut copy = vec![0; words];
                shape.write(&[], None, &mut copy);
                shape.add_copy(&block, at, &mut copy);
                let mut alone = vec![0; words];
                let region: Region<'_> = all.regions().get(region);
                shape.write(&[(rank, region)], None, &mut alone);
                assert!(copy == alone, "step {step}, place {at}");
            }
        }
    }
}

/// For each region, a block gives the bits that its bounds and masks fix, with any columns.
#[test]
fn a_block_tells_the_bits_of_its_regions() {
    let of = |at: u128, width: u32| {
        let source = (0, Test::Prefix { value: (at % 32) << (width - 5), len: 5 });
        let ports = [Test::Value(at * 999), Test::Range { lo: 0, hi: 65_535 }, Test::Range { lo: 1024, hi: 2047 }];
        let proto = (4, Test::Value([6, 17][at as usize % 2]));
        match at % 5 {
            0 => vec![source, proto],
            1 => vec![source, (2, ports[at as usize % 3]), (3, ports[at as usize / 5 % 3])],
            2 => vec![(3, ports[1]), (1, Test::Value(at << 20 | 5))],
            3 => vec![],
            _ => vec![source, (1, Test::Mask { value: at & 0x0F, mask: 0xFF00_000F }), proto, (2, ports[1])],
        }
    };
    let [mut fixed_ports, mut shapes] = [0; 2];
    for (schema, masks) in [(Schema::ipv4(), true), (Schema::ipv4(), false), (Schema::ipv6(), false)] {
        let width = schema.fields()[0].width();
        let all = set(&schema, (0..40).filter(|at| masks || at % 5 < 4).map(|at| of(at, width)));
        for lean in [usize::MAX, 0, 16] {
            let shape = Shape::new(&schema, all.regions(), 40, lean);
            shapes += 1;
            let mut block = vec![0; shape.lines() * LINE_WORDS];
            for first in 0..all.regions().len() - BLOCK {
                let regions: Vec<_> = (0..BLOCK).map(|i| (i as u32 + 1, all.regions().get(first + i))).collect();
                if !regions.iter().all(|(_, region)| shape.holds(region)) {
                    continue;
                }
                shape.write(&regions, None, &mut block);
                for (i, (_, region)) in regions.iter().enumerate() {
                    for (at, word) in schema.words().iter().enumerate() {
                        let used = u64::from(word.bits | word.absent.unwrap_or(0));
                        let fixed = fixed_bits(region, at);
                        let (value, open) = shape.bits(&block, i, at);
                        assert_eq!(!open & used, u64::from(fixed) & used, "word {at} of {region:?}");
                        assert_eq!(value & used, u64::from(region.lo[at] & fixed) & used, "word {at} of {region:?}");
                        fixed_ports += usize::from(word.absent.is_some() && fixed >> 16 & 1 == 1);
                    }
                }
            }
        }
    }
    assert!(fixed_ports > 100 && shapes == 9, "{fixed_ports}");
}
