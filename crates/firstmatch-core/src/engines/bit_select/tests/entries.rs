//! Table entries: bounds of ranks, which are rounded if they do not fit.

use crate::engines::bit_select::block::NONE;
use crate::engines::bit_select::layout::{EMPTY, EntryLayout};

/// Layouts that drop no, few and many bits of a rank, and one whose last bound nearly fills its bits.
fn layouts() -> impl Iterator<Item = (EntryLayout, u32)> {
    let of = [(5, 3, true), (1000, 100, false), (1700, 4400, false), (1 << 20, 4000, false), (1 << 23, 254, false)];
    of.into_iter().map(|(indices, rules, is_short)| (EntryLayout::new(indices, rules, is_short), indices as u32))
}

/// Ranks at both ends, and around multiples of each power of two.
fn ranks(end: u32) -> Vec<u32> {
    let around = (0..32).map(|bit| 1u32 << bit).flat_map(|step| [1, 2, 3].map(|times| step.saturating_mul(times)));
    let mut all: Vec<u32> =
        around.chain([end]).flat_map(|rank| [rank.saturating_sub(1), rank, rank.saturating_add(1)]).collect();
    all.retain(|rank| (1..end).contains(rank));
    all.sort_unstable();
    all.dedup();
    all
}

/// An entry is below the limit of a rank exactly if its bound stands for some better rank.
#[test]
fn a_limit_leaves_out_what_is_no_better() {
    let mut dropped = Vec::new();
    for (layout, most) in layouts() {
        let (limits, ranks) = (layout.limits(), ranks(layout.end));
        dropped.push(layout.dropped);
        for &bound in &ranks {
            let least = bound >> layout.dropped << layout.dropped;
            for (index, is_leaf) in [(0, false), (most, false), (0, true), (most, true)] {
                let entry = layout.entry(bound, index, is_leaf);
                assert_eq!(limits.index(entry), index as usize, "{layout:?}");
                assert!(entry < limits.of(NONE), "{layout:?}: any entry may improve a key without a match");
                for &rank in &ranks {
                    assert_eq!(entry < limits.of(rank), least < rank, "{layout:?}: {bound} for {rank}");
                }
            }
        }
        assert!(limits.of(NONE) < EMPTY, "{layout:?}");
    }
    assert!(dropped[0] == 0 && dropped.iter().any(|&bits| bits > 8), "{dropped:?}");
}

/// No entry has the bits of the entry that leads nowhere, even if all bits of its index are ones.
#[test]
fn no_entry_is_the_empty_one() {
    for (layout, _) in layouts() {
        let all_ones = (1 << layout.index) - 1;
        assert_ne!(layout.entry(layout.end - 1, all_ones, true), EMPTY, "{layout:?}");
    }
}
