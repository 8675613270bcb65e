//! Definition of the right answer: walks rules as C wrote them over keys in network order.

use firstmatch_rte_acl::abi::{FieldDef, TYPE_BITMASK, TYPE_MASK, TYPE_RANGE};

/// Returns a number of `size` bytes in network order.
fn big(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// Returns the first `size` bytes of a union of a rule as a number of this machine.
fn native(rule: &[u8], at: usize, size: usize) -> u64 {
    rule[at..at + size].iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

fn word(rule: &[u8], at: usize) -> u32 {
    native(rule, at, 4) as u32
}

/// Whether a key matches a rule.
fn matches(defs: &[FieldDef], rule: &[u8], key: &[u8]) -> bool {
    let (mut group, mut at) = (None, 0);
    defs.iter().all(|def| {
        let size = usize::from(def.size);
        if group != Some(def.input_index) {
            (group, at) = (Some(def.input_index), def.offset as usize);
        }
        let key = big(key, at, size);
        at += size;
        let start = 16 + 16 * usize::from(def.field_index);
        let (value, other) = (native(rule, start, size), native(rule, start + 8, size));
        match def.kind {
            TYPE_MASK => {
                let length = word(rule, start + 8);
                length == 0 || (key ^ value) >> (8 * size as u32 - length) == 0
            }
            TYPE_RANGE => value <= key && key <= other,
            TYPE_BITMASK => key & other == value & other,
            _ => unreachable!("there is no such type"),
        }
    })
}

/// Returns the user data of the best rule of a category that matches; the last added of the best priority wins.
pub(crate) fn answer(defs: &[FieldDef], rules: &[Vec<u8>], category: u32, key: &[u8]) -> u32 {
    let mut best: Option<(u32, u32)> = None;
    for rule in rules.iter().filter(|rule| word(rule, 0) >> category & 1 == 1) {
        let (priority, userdata) = (word(rule, 4), word(rule, 8));
        if best.is_none_or(|(other, _)| priority >= other) && matches(defs, rule, key) {
            best = Some((priority, userdata));
        }
    }
    best.map_or(0, |(_, userdata)| userdata)
}
