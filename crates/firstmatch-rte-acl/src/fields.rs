//! Definitions of fields: which key words they become, and how a rule becomes regions over these.
//!
//! Words are ordered by width: 32 bits, then 16, then 8, because engines have the fastest code for addresses, ports and
//! a protocol in this order. A field of 64 bits is two words. For example, the definitions of `l3fwd` (protocol,
//! source, destination, two ports) become the words source, destination, source port, destination port, protocol.
//!
//! A field of 16 bits is declared as optional, although no key lacks it, for the same reason: engines expect ports to
//! be so. A rule that accepts all its values then accepts the value for absent, too.

use firstmatch_core::Schema;
use firstmatch_core::rule::{Region, Regions};
use firstmatch_core::schema::{Field, Kind};

use crate::abi::{self, Code, FIELD_SIZE, FieldDef, RULE_HEAD};
use crate::plan::{Plan, positions};

/// Largest number of regions of one rule.
///
/// Only ranges over fields of 64 bits have more than one, up to three each.
const MOST_REGIONS: usize = 4096;
/// Largest number of words up to which fields that no rule constrains are kept.
///
/// Engines have the fastest code for whole 5-tuples, of at most 11 words.
const FEW_WORDS: usize = 11;

/// Field of a configuration.
#[derive(Clone, Copy, Debug)]
struct Defined {
    kind: u8,
    size: usize,
    /// Offset of its value in a rule; its mask, length or upper bound is 8 bytes behind.
    in_rule: usize,
    /// Offset in a key.
    in_key: usize,
    /// Index of its definition.
    number: usize,
}

/// Values of a field that a rule accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Accepted {
    Any,
    Range(u64, u64),
    /// Value and mask, of which no bits lie beyond the field.
    Masked(u64, u64),
}

impl Defined {
    fn max(&self) -> u64 {
        u64::MAX >> (64 - 8 * self.size)
    }

    /// Reads the first bytes of a union of C, as many as the field has.
    fn union(&self, rule: &[u8], at: usize) -> u64 {
        let bytes = &rule[at..][..8];
        match self.size {
            1 => u64::from(bytes[0]),
            2 => u64::from(u16::from_ne_bytes([bytes[0], bytes[1]])),
            4 => bytes.first_chunk().map_or(0, |bytes| u64::from(u32::from_ne_bytes(*bytes))),
            _ => bytes.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes)),
        }
    }

    /// Returns the values that a rule accepts.
    ///
    /// # Errors
    /// If the length of a prefix is larger than the field, or the bounds of a range are in the wrong order.
    fn accepted(&self, rule: &[u8]) -> Result<Accepted, Code> {
        let value = self.union(rule, self.in_rule);
        let other = self.in_rule + FIELD_SIZE / 2;
        let accepted = match self.kind {
            abi::TYPE_MASK => {
                // 32 bits of the length count for every size, because programs leave garbage behind them.
                let length = rule[other..].first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
                let open = (8 * self.size as u32).checked_sub(length).ok_or(Code::Invalid)?;
                let low = 1u64.checked_shl(open).unwrap_or(0).wrapping_sub(1);
                Accepted::Range(value & !low, value | low & self.max())
            }
            abi::TYPE_RANGE => Accepted::Range(value, self.union(rule, other)),
            _ => {
                let mask = self.union(rule, other);
                let open = !mask & self.max();
                // A mask of leading bits is a prefix, which engines store in less memory.
                match open & (open.wrapping_add(1)) {
                    0 => Accepted::Range(value & mask, value & mask | open),
                    _ => Accepted::Masked(value & mask, mask),
                }
            }
        };
        match accepted {
            Accepted::Range(lo, hi) if lo > hi => Err(Code::Invalid),
            Accepted::Range(0, hi) if hi == self.max() => Ok(Accepted::Any),
            accepted => Ok(accepted),
        }
    }
}

/// Fields of a configuration, in the order of their words.
#[derive(Clone, Debug)]
pub(crate) struct Fields(Vec<Defined>);

impl Fields {
    /// Checks the definitions of a configuration for rules of `rule_size` bytes.
    ///
    /// # Errors
    /// If there is none, a type or size is unknown, or a field would lie behind the end of a rule.
    pub(crate) fn new(defs: &[FieldDef], rule_size: usize) -> Result<Self, Code> {
        let is_known = |def: &FieldDef| def.kind <= abi::TYPE_BITMASK && matches!(def.size, 1 | 2 | 4 | 8);
        if defs.is_empty() || !defs.iter().all(is_known) {
            return Err(Code::Invalid);
        }
        let defined = |(number, (def, in_key)): (usize, (&FieldDef, usize))| Defined {
            kind: def.kind,
            size: usize::from(def.size),
            in_rule: RULE_HEAD + FIELD_SIZE * usize::from(def.field_index),
            in_key,
            number,
        };
        let mut fields: Vec<_> = defs.iter().zip(positions(defs)).enumerate().map(defined).collect();
        if fields.iter().any(|field| field.in_rule + FIELD_SIZE > rule_size) {
            return Err(Code::Invalid);
        }
        // The sort is stable, so definitions of one width keep their order.
        fields.sort_by_key(|field| [4, 2, 1].iter().position(|&size| field.size >= size));
        Ok(Self(fields))
    }

    /// Number of key words.
    pub(crate) fn words(&self) -> usize {
        self.0.iter().map(|field| field.size.div_ceil(4)).sum()
    }

    /// Checks a rule, and marks in `constrained` the fields of which it does not accept all values.
    ///
    /// # Errors
    /// As for [`Defined::accepted`].
    pub(crate) fn check(&self, rule: &[u8], constrained: &mut [bool]) -> Result<(), Code> {
        for (field, constrained) in self.0.iter().zip(constrained) {
            *constrained |= field.accepted(rule)? != Accepted::Any;
        }
        Ok(())
    }

    /// Number of fields.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Leaves out the fields that no rule constrains, if there are many words.
    ///
    /// One field stays, because a schema has at least one.
    pub(crate) fn without_open(mut self, constrained: &[bool]) -> Self {
        if self.words() > FEW_WORDS {
            let none = !constrained.contains(&true);
            let mut at = 0..;
            self.0.retain(|_| at.next().is_some_and(|at| constrained[at] || none && at == 0));
        }
        self
    }

    /// Returns the schema of the fields.
    pub(crate) fn schema(&self) -> Schema {
        let field = |field: &Defined| {
            let kind = match field.kind {
                abi::TYPE_MASK => Kind::Prefix,
                abi::TYPE_RANGE => Kind::Range,
                _ => Kind::Mask,
            };
            let declared = Field::new(&format!("field{}", field.number), 8 * field.size as u32, kind, None);
            if field.size == 2 { declared.optional() } else { declared }
        };
        Schema::new(None, self.0.iter().map(field).collect())
    }

    /// Returns the plan of reading keys of a schema of these fields.
    pub(crate) fn plan(&self, schema: &Schema) -> Plan {
        let words = self.0.iter().flat_map(|field| {
            let size = field.size.min(4);
            (0..field.size / size).map(move |part| (field.in_key + part * size, size))
        });
        Plan::new(&words.collect::<Vec<_>>(), schema.stride())
    }
}

/// Turns rules into regions; keeps its memory from rule to rule.
#[derive(Debug)]
pub(crate) struct Lowering<'a> {
    fields: &'a Fields,
    lo: Vec<u32>,
    hi: Vec<u32>,
    value: Vec<u32>,
    mask: Vec<u32>,
    /// Ranges of 64 bits that are several boxes: their first word and the boxes, as `[[lo, hi]; 2]`.
    wide: Vec<(usize, Vec<[[u32; 2]; 2]>)>,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(fields: &'a Fields) -> Self {
        let [lo, hi, value, mask] = [(); 4].map(|()| vec![0; fields.words()]);
        Self { fields, lo, hi, value, mask, wide: Vec::new() }
    }

    /// Replaces `regions` by those of a rule.
    ///
    /// # Errors
    /// If the rule is malformed, or has more than [`MOST_REGIONS`] regions.
    pub(crate) fn lower(&mut self, rule: &[u8], regions: &mut Regions) -> Result<(), Code> {
        regions.clear();
        self.wide.clear();
        self.value.fill(0);
        self.mask.fill(0);
        let mut word = 0;
        for field in &self.fields.0 {
            let accepted = field.accepted(rule)?;
            if field.size == 8 {
                self.set_wide(word, accepted);
                word += 2;
                continue;
            }
            (self.lo[word], self.hi[word]) = match accepted {
                // The value for absent, one beyond 16 bits, is accepted, too.
                Accepted::Any => (0, field.max() as u32 + u32::from(field.size == 2)),
                Accepted::Range(lo, hi) => (lo as u32, hi as u32),
                Accepted::Masked(value, mask) => {
                    (self.value[word], self.mask[word]) = (value as u32, mask as u32);
                    (value as u32, (value | !mask & field.max()) as u32)
                }
            };
            word += 1;
        }
        let count = self.wide.iter().try_fold(1, |count: usize, (_, boxes)| count.checked_mul(boxes.len()));
        if count.is_none_or(|count| count > MOST_REGIONS) {
            return Err(Code::NoMemory);
        }
        self.cross(0, regions)
    }

    /// Sets the two words of a field of 64 bits.
    fn set_wide(&mut self, word: usize, accepted: Accepted) {
        let halves = |value: u64| [(value >> 32) as u32, value as u32];
        match accepted {
            Accepted::Any => self.set_box(word, [[0, u32::MAX]; 2]),
            Accepted::Masked(value, mask) => {
                for (at, (value, mask)) in halves(value).into_iter().zip(halves(mask)).enumerate() {
                    (self.value[word + at], self.mask[word + at]) = (value, mask);
                    (self.lo[word + at], self.hi[word + at]) = (value, value | !mask);
                }
            }
            Accepted::Range(lo, hi) => {
                let boxes = boxes(halves(lo), halves(hi));
                match boxes[..] {
                    [only] => self.set_box(word, only),
                    _ => self.wide.push((word, boxes)),
                }
            }
        }
    }

    fn set_box(&mut self, word: usize, bounds: [[u32; 2]; 2]) {
        for (at, [lo, hi]) in bounds.into_iter().enumerate() {
            (self.lo[word + at], self.hi[word + at]) = (lo, hi);
        }
    }

    /// Adds a region for each way to choose one box of each wide range from `from` on.
    fn cross(&mut self, from: usize, regions: &mut Regions) -> Result<(), Code> {
        let Some(&(word, ref boxes)) = self.wide.get(from) else {
            let ternary = self.mask.iter().any(|&mask| mask != 0).then_some((&self.value[..], &self.mask[..]));
            let region = Region { lo: &self.lo, hi: &self.hi, ternary };
            return regions.try_push(region).map_err(|_| Code::Invalid);
        };
        for bounds in boxes.clone() {
            self.set_box(word, bounds);
            self.cross(from + 1, regions)?;
        }
        Ok(())
    }
}

/// Splits a range of 64 bits into at most three boxes of two words.
fn boxes([lo_high, lo_low]: [u32; 2], [hi_high, hi_low]: [u32; 2]) -> Vec<[[u32; 2]; 2]> {
    if lo_high == hi_high {
        return vec![[[lo_high, hi_high], [lo_low, hi_low]]];
    }
    let mut out = Vec::with_capacity(3);
    // The first and last value of the high word belong to the middle if their low words are whole.
    let (mut first, mut last) = (Some(lo_high), Some(hi_high));
    if lo_low > 0 {
        out.push([[lo_high; 2], [lo_low, u32::MAX]]);
        first = lo_high.checked_add(1);
    }
    if hi_low < u32::MAX {
        out.push([[hi_high; 2], [0, hi_low]]);
        last = hi_high.checked_sub(1);
    }
    if let (Some(first), Some(last)) = (first, last)
        && first <= last
    {
        out.push([[first, last], [0, u32::MAX]]);
    }
    out
}

#[cfg(test)]
mod tests {
    use firstmatch_testkit::rng::Rng;

    use super::*;

    /// Returns a field at the start of a rule.
    fn field(kind: u8, size: usize) -> Defined {
        Defined { kind, size, in_rule: 0, in_key: 0, number: 0 }
    }

    fn rule(value: u64, other: u64) -> Vec<u8> {
        [value.to_ne_bytes(), other.to_ne_bytes()].concat()
    }

    #[test]
    fn a_prefix_ignores_its_low_bits_and_garbage_behind_its_length() {
        let accepted = |value, length| field(abi::TYPE_MASK, 4).accepted(&rule(value, length));
        assert_eq!(accepted(0x0A01_0203, 8), Ok(Accepted::Range(0x0A00_0000, 0x0AFF_FFFF)));
        assert_eq!(accepted(0xFFFF_0A01_0203, 0xDEAD_0000_0020), Ok(Accepted::Range(0x0A01_0203, 0x0A01_0203)));
        assert_eq!(accepted(7, 0), Ok(Accepted::Any));
        assert_eq!(accepted(7, 33), Err(Code::Invalid));
        let wide = |length| field(abi::TYPE_MASK, 8).accepted(&rule(u64::MAX, length));
        assert_eq!((wide(0), wide(64)), (Ok(Accepted::Any), Ok(Accepted::Range(u64::MAX, u64::MAX))));
        assert_eq!(wide(1), Ok(Accepted::Range(1 << 63, u64::MAX)));
        assert_eq!(wide(65), Err(Code::Invalid));
    }

    #[test]
    fn masks_of_leading_bits_are_prefixes() {
        let accepted = |value, mask| field(abi::TYPE_BITMASK, 1).accepted(&rule(value, mask));
        assert_eq!(accepted(6, 0xFF), Ok(Accepted::Range(6, 6)));
        assert_eq!(accepted(6, 0), Ok(Accepted::Any));
        assert_eq!(accepted(0xF6, 0xF0), Ok(Accepted::Range(0xF0, 0xFF)));
        assert_eq!(accepted(0xF6, 0x12), Ok(Accepted::Masked(0x12, 0x12)));
        let wide = field(abi::TYPE_BITMASK, 8).accepted(&rule(u64::MAX, u64::MAX << 63));
        assert_eq!(wide, Ok(Accepted::Range(1 << 63, u64::MAX)));
        assert_eq!(field(abi::TYPE_BITMASK, 8).accepted(&rule(1, 0)), Ok(Accepted::Any));
    }

    #[test]
    fn ranges_have_their_bounds_in_order() {
        let accepted = |lo, hi| field(abi::TYPE_RANGE, 2).accepted(&rule(lo, hi));
        assert_eq!(accepted(5, 4), Err(Code::Invalid));
        assert_eq!(accepted(5, 5), Ok(Accepted::Range(5, 5)));
        assert_eq!(accepted(0, 0xFFFF), Ok(Accepted::Any));
        assert_eq!(accepted(0x1_0007, 0xFFFF_FFFF), Ok(Accepted::Range(7, 0xFFFF)));
    }

    /// Compares the boxes of small and of random ranges with the definition, at all ends of boxes and beside them.
    #[test]
    fn boxes_hold_the_values_of_the_range_once() {
        let mut rng = Rng::new(2);
        for _ in 0..2000 {
            let mut end = || {
                let low = rng.any_of(&[0, 1, u32::MAX, u32::MAX - 1, 77]);
                u64::from(rng.any_of(&[0, 1, 2, 5, u32::MAX])) << 32 | u64::from(low)
            };
            let (a, b) = (end(), end());
            let (lo, hi) = (a.min(b), a.max(b));
            let halves = |value: u64| [(value >> 32) as u32, value as u32];
            let boxes = boxes(halves(lo), halves(hi));
            assert!(boxes.len() <= 3);
            let ends = [lo, hi, 0, u64::MAX, hi | 0xFFFF_FFFF, lo & !0xFFFF_FFFF, 3 << 32, ((lo >> 32) + 1) << 32];
            for value in ends.into_iter().flat_map(|end| [end, end.wrapping_sub(1), end.wrapping_add(1)]) {
                let holds = |bounds: &[[u32; 2]; 2]| {
                    bounds.iter().zip(halves(value)).all(|(&[lo, hi], word)| (lo..=hi).contains(&word))
                };
                let count = boxes.iter().filter(|bounds| holds(bounds)).count();
                assert_eq!(count, usize::from((lo..=hi).contains(&value)), "{value:x} in {lo:x}..={hi:x}");
            }
        }
    }

    #[test]
    fn words_are_ordered_as_those_of_a_tuple() {
        let def = |kind, size, input_index, offset| FieldDef { kind, size, field_index: 0, input_index, offset };
        let defs = [def(2, 1, 0, 0), def(0, 4, 1, 3), def(0, 4, 2, 7), def(1, 2, 3, 11), def(1, 2, 3, 13)];
        let fields = Fields::new(&defs, 96).expect("good definitions");
        let schema = fields.schema();
        let names: Vec<_> = schema.fields().iter().map(Field::name).collect();
        assert_eq!(names, ["field1", "field2", "field3", "field4", "field0"]);
        let plan = fields.plan(&schema);
        assert_eq!((plan.start, plan.span, plan.stride), (0, 15, 8));
        assert_eq!(Fields::new(&defs, 31).err(), Some(Code::Invalid));
        assert!(Fields::new(&defs, 32).is_ok());
    }
}
