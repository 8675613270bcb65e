//! Drawing rules from the bytes of a fuzzer.
//!
//! Values are few, so that rules overlap, shadow and repeat one another. A changed byte changes one test rather than
//! all that follows.

use arbitrary::Unstructured;
use firstmatch_core::Schema;
use firstmatch_core::rule::{Condition, ExpansionLimits, Priority, Regions, RuleSpec, Test, lower_rule};
use firstmatch_core::schema::Field;

use crate::generate::empty_rule;

/// Source of values that reads the bytes of one run, then returns zeros.
pub(crate) struct Draw<'a> {
    bytes: Unstructured<'a>,
    /// For each field, the values that its tests have used so far.
    pool: Vec<Vec<u128>>,
}

impl<'a> Draw<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: Unstructured::new(bytes), pool: Vec::new() }
    }

    /// Returns whether the bytes have run out.
    pub(crate) fn is_done(&self) -> bool {
        self.bytes.is_empty()
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.bytes.arbitrary().unwrap_or(0)
    }

    pub(crate) fn word(&mut self) -> u16 {
        self.bytes.arbitrary().unwrap_or(0)
    }

    /// Returns a number below `n`, which is at most 256.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }

    /// Returns a value of `field`: mostly an old one, else its neighbour or a new one.
    fn value(&mut self, index: usize, field: &Field) -> u128 {
        let (how, max) = (self.byte(), field.max());
        let pool = &self.pool[index];
        let old = pool[usize::from(how >> 3) % pool.len()];
        let value = match how % 8 {
            0 => (0..field.width().div_ceil(8)).fold(0, |value, _| value << 8 | u128::from(self.byte())) & max,
            1 => old.saturating_add(1).min(max),
            2 => old.saturating_sub(1),
            3 => old ^ 1 << (u32::from(self.byte()) % field.width()),
            _ => return old,
        };
        if !self.pool[index].contains(&value) {
            self.pool[index].push(value);
        }
        value
    }

    fn test(&mut self, index: usize, field: &Field) -> Test {
        let (form, max) = (self.below(5), field.max());
        let value = self.value(index, field);
        match form {
            0 => Test::Value(value),
            1 => {
                let len = u32::from(self.byte()) % (field.width() + 1);
                Test::Prefix { value: value & !max.checked_shr(len).unwrap_or(0), len }
            }
            2 => {
                let other = self.value(index, field);
                Test::Range { lo: value.min(other), hi: value.max(other) }
            }
            form => {
                // Form 3 compares one or two bits, the last form all but these.
                let bits = (0..2).fold(0, |mask, _| mask | 1u128 << (u32::from(self.byte()) % field.width()));
                let mask = if form == 3 { bits } else { max & !bits };
                Test::Mask { value: value & mask, mask }
            }
        }
    }

    fn condition(&mut self, field: usize, schema: &Schema) -> Condition {
        let how = self.byte();
        let tests = if how & 6 == 6 { 2 + usize::from(how >> 3) % 3 } else { 1 };
        let tests = (0..tests).map(|_| (None, self.test(field, &schema.fields()[field]))).collect();
        Condition { field, negated: how % 8 == 1, tests }
    }

    /// Draws a rule with its regions; `None` if it would have more than `most` regions.
    pub(crate) fn rule(&mut self, schema: &Schema, most: usize) -> Option<(RuleSpec, Regions)> {
        if self.pool.is_empty() {
            self.pool = schema.fields().iter().map(|field| vec![0, field.max()]).collect();
        }
        let mut spec = empty_rule(Priority(u64::from(self.word())));
        for field in 0..schema.fields().len() {
            if self.byte() & 1 == 1 {
                let condition = self.condition(field, schema);
                spec.conditions.push(condition);
            }
        }
        let mut regions = Regions::new(schema.words().len());
        let expansion = ExpansionLimits { regions_per_rule: most, ..ExpansionLimits::default() };
        match lower_rule(schema, &spec, &expansion, &mut regions) {
            Ok(count) => {
                assert_eq!(count, regions.len());
                Some((spec, regions))
            }
            Err(_) => {
                assert!(regions.is_empty(), "a refused rule left regions behind: {spec:?}");
                None
            }
        }
    }
}
