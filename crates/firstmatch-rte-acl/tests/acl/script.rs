//! Random layouts, rules and keys.

use firstmatch_rte_acl::abi::{Config, FieldDef, MAX_FIELDS, TYPE_BITMASK, TYPE_MASK, TYPE_RANGE};
use firstmatch_testkit::rng::Rng;

/// Fields of keys and rules, with values from small pools, so that rules overlap and keys hit.
pub(crate) struct Layout {
    pub(crate) defs: Vec<FieldDef>,
    /// Offset of each field in a key.
    pub(crate) positions: Vec<usize>,
    pub(crate) rule_size: usize,
    /// First byte of a key that a field takes, and the first behind all fields.
    pub(crate) span: (usize, usize),
    pools: Vec<Vec<u64>>,
}

/// Sizes of fields that share a group of four bytes, or are one of eight.
const GROUPS: [&[u8]; 7] = [&[4], &[2, 2], &[1, 1, 1, 1], &[2, 1, 1], &[1, 1, 2], &[8], &[4]];

impl Layout {
    /// Draws a layout of one byte and up to `groups` groups behind it, with gaps between them.
    ///
    /// The original reads such layouts well: a field of one byte, then groups of four bytes.
    pub(crate) fn plain(rng: &mut Rng, groups: usize) -> Self {
        let mut sizes: Vec<&[u8]> = vec![&[1]];
        sizes.extend((0..1 + rng.below(groups)).map(|_| rng.any_of(&GROUPS)));
        Self::of(rng, &sizes)
    }

    /// Draws a layout of up to `groups` groups of any fields.
    pub(crate) fn odd(rng: &mut Rng, groups: usize) -> Self {
        let groups: Vec<Vec<u8>> = (0..1 + rng.below(groups))
            .map(|_| (0..1 + rng.below(3)).map(|_| rng.any_of(&[1, 2, 4, 8])).collect())
            .collect();
        let sizes: Vec<&[u8]> = groups.iter().map(|sizes| &sizes[..]).collect();
        Self::of(rng, &sizes)
    }

    fn of(rng: &mut Rng, groups: &[&[u8]]) -> Self {
        let (mut defs, mut positions): (Vec<FieldDef>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut at = rng.below(20);
        let start = at;
        for (group, sizes) in (0..).zip(groups) {
            for &size in *sizes {
                let kind = rng.any_of(&[TYPE_MASK, TYPE_RANGE, TYPE_BITMASK]);
                let field_index = defs.len() as u8;
                defs.push(FieldDef { kind, size, field_index, input_index: group, offset: at as u32 });
                positions.push(at);
                at += usize::from(size);
            }
            if group as usize + 1 < groups.len() && rng.percent(30) {
                at += rng.below(6);
            }
        }
        defs.truncate(MAX_FIELDS);
        positions.truncate(MAX_FIELDS);
        let end = positions.iter().zip(&defs).map(|(at, def)| at + usize::from(def.size)).max().unwrap_or(0);
        let pool = |def: &FieldDef, rng: &mut Rng| {
            let count = 2 + rng.below(6);
            (0..count).map(|_| rng.next() >> (64 - 8 * u32::from(def.size))).collect()
        };
        let pools = defs.iter().map(|def| pool(def, rng)).collect();
        let rule_size = 16 + 16 * defs.len() + rng.any_of(&[0, 0, 0, 16, 5]);
        Self { positions, rule_size, span: (start, end), pools, defs }
    }

    pub(crate) fn config(&self, num_categories: u32) -> Config {
        let defs = [FieldDef::default(); MAX_FIELDS];
        let mut config = Config { num_categories, num_fields: self.defs.len() as u32, defs, max_size: 0 };
        config.defs[..self.defs.len()].copy_from_slice(&self.defs);
        config
    }

    /// Draws a value near those of the pool of a field.
    fn value(&self, field: usize, rng: &mut Rng) -> u64 {
        let max = u64::MAX >> (64 - 8 * u32::from(self.defs[field].size));
        let value = rng.any_of(&self.pools[field]);
        match rng.below(6) {
            0 => value.wrapping_add(1) & max,
            1 => value.wrapping_sub(1) & max,
            2 => (value ^ 1 << rng.below(64)) & max,
            _ => value,
        }
    }

    /// Draws a rule. Bytes that have no meaning are random.
    pub(crate) fn rule(&self, rng: &mut Rng, category_mask: u32, priority: i32, userdata: u32) -> Vec<u8> {
        let mut rule = rng.bytes(self.rule_size);
        rule[..4].copy_from_slice(&category_mask.to_ne_bytes());
        rule[4..8].copy_from_slice(&priority.to_ne_bytes());
        rule[8..12].copy_from_slice(&userdata.to_ne_bytes());
        for (index, def) in self.defs.iter().enumerate() {
            let (size, bits) = (usize::from(def.size), 8 * u32::from(def.size));
            let max = u64::MAX >> (64 - bits);
            let (value, other) = match def.kind {
                TYPE_MASK => {
                    let length = rng.any_of(&[0, 0, 1, bits / 2, bits - 1, bits, bits]);
                    // The length has 32 bits, or 64 for a field of 8 bytes.
                    let bytes = u64::from(length).to_le_bytes();
                    rule[16 + 16 * index + 8..][..size.max(4)].copy_from_slice(&bytes[..size.max(4)]);
                    rule[16 + 16 * index..][..size].copy_from_slice(&self.value(index, rng).to_le_bytes()[..size]);
                    continue;
                }
                TYPE_RANGE if rng.percent(30) => (0, max),
                TYPE_RANGE => {
                    let (a, b) = (self.value(index, rng), self.value(index, rng));
                    (a.min(b), a.max(b))
                }
                _ => (
                    self.value(index, rng),
                    rng.any_of(&[0, 0, max, max, max << (bits / 2) & max, rng.clone().next() & max]),
                ),
            };
            rule[16 + 16 * index..][..size].copy_from_slice(&value.to_le_bytes()[..size]);
            rule[16 + 16 * index + 8..][..size].copy_from_slice(&other.to_le_bytes()[..size]);
        }
        rule
    }

    /// Draws a key whose fields have values near those of rules; other bytes are random.
    pub(crate) fn key(&self, rng: &mut Rng) -> Vec<u8> {
        let mut key = rng.bytes(self.span.1);
        for (index, (&at, def)) in self.positions.iter().zip(&self.defs).enumerate() {
            let size = usize::from(def.size);
            key[at..at + size].copy_from_slice(&self.value(index, rng).to_be_bytes()[8 - size..]);
        }
        key
    }
}
