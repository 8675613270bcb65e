//! Extractors, which turn headers into one schema's rows and values.

use std::fmt;

use firstmatch_core::rule::{FieldValues, RuleSet};
use firstmatch_core::schema::{Family, Field, Schema, Source};

use super::headers::{Place, SourceSet, WORDS, ZERO, place};
use super::{Headers, Outcome};

/// Extractor for one schema: returns the outcome that a packet has there, and fills its row of keys.
#[derive(Clone, Debug)]
pub struct Extractor {
    schema: Schema,
    /// Family that packets must have, if the schema has fields that depend on it.
    family: Option<Family>,
    /// Header fields that packets must show or lack: all that are read, or only the fields that rules test.
    needed: SourceSet,
    /// Fields of `needed` whose schema field is not optional.
    required: SourceSet,
    words: Box<[WordOp]>,
    sources: Box<[Source]>,
}

/// Source of a key word: bits of two words of the header field, or a constant if it is absent.
///
/// For example, the port word of an optional `dport` has `bits` 0xffff and `absent` 0x10000: bit 16 says that the port
/// is absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct WordOp {
    pub(super) low: u8,
    pub(super) high: u8,
    pub(super) shift: u8,
    /// Bit of the header field in a [`SourceSet`].
    pub(super) source: u32,
    pub(super) bits: u32,
    pub(super) absent: u32,
}

impl Extractor {
    /// Returns the extractor that needs every field of `schema`.
    ///
    /// A packet that hides one of its fields is unknown, whether a rule tests the field or not. This is the extractor
    /// for rules that change while packets are read.
    ///
    /// # Errors
    /// If a field has no header field to come from, or is too narrow for it; the error names the field.
    pub fn new(schema: &Schema) -> Result<Self, NoSource> {
        let mut family = schema.family();
        for field in schema.fields() {
            if family.is_none() && matches!(field.source(), Some(Source::Src | Source::Dst)) {
                // The schema has no family of its own, but the width of its addresses shows one.
                family = Some(if field.width() < 128 { Family::Ipv4 } else { Family::Ipv6 });
            }
        }
        let (mut needed, mut required, mut sources) = (SourceSet::NONE, SourceSet::NONE, Vec::new());
        for field in schema.fields() {
            let Some(source) = field.source() else { return Err(NoSource::new(field, None)) };
            let width = source.width(family.unwrap_or(Family::Ipv4));
            if field.width() < width {
                return Err(NoSource::new(field, Some(width)));
            }
            let this = SourceSet::of(&[source]);
            needed = needed.union(this);
            if !field.is_optional() {
                required = required.union(this);
            }
            sources.push(source);
        }
        let word_op = |word: &firstmatch_core::schema::Word| {
            let source = sources[word.field];
            let Place { first, count, shift, bits } = place(source);
            let part = |from_the_right: u32| {
                let back = from_the_right as usize;
                if back < count { (first + count - 1 - back) as u8 } else { ZERO as u8 }
            };
            // A field that starts inside a word lies in that word only, so the words from `low` on are right for all.
            let at = word.shift + shift;
            let (low, high) = (part(at / 32), part(at / 32 + 1));
            // Bits further left in a shared word belong to another field.
            let own = (u128::MAX >> (128 - bits)).checked_shr(word.shift).unwrap_or(0) as u32;
            let bits = word.bits & !word.absent.unwrap_or(0) & own;
            let absent = word.absent.unwrap_or(0);
            let shift = (at % 32) as u8;
            WordOp { low, high, shift, source: SourceSet::of(&[source]).bits(), bits, absent }
        };
        let words = schema.words().iter().map(word_op).collect();
        Ok(Self { schema: schema.clone(), family, needed, required, words, sources: sources.into() })
    }

    /// Returns the extractor for `rules`: fields that none of them tests make no packet unknown.
    ///
    /// The addresses are needed in any case, so that a packet with a broken IP header is always unknown. For example,
    /// with the one rule `permit src 10.0.0.0/8` a fragment without ports is classified.
    ///
    /// If a packet hides a field that no rule tests, the field's value in its row is meaningless: absent, or 0 if the
    /// field is not optional. Rules inserted later must therefore not be looked up with these rows. They need a new
    /// extractor, or one of [`Extractor::new`] from the beginning.
    ///
    /// # Errors
    /// As [`Extractor::new`].
    pub fn for_rules(schema: &Schema, rules: &RuleSet) -> Result<Self, NoSource> {
        let all = Self::new(schema)?;
        let fields = rules.tested_fields(schema).into_iter().zip(&all.sources).filter(|(is_tested, _)| *is_tested);
        let tested = fields.fold(SourceSet::ADDRESSES, |all, (_, &source)| all.union(SourceSet::of(&[source])));
        let (needed, required) = (all.needed.intersection(tested), all.required.intersection(tested));
        Ok(Self { needed, required, ..all })
    }

    /// Returns the extractor for a schema whose rows do not come from packets.
    ///
    /// No packet with headers is classified. Its outcome is [`Outcome::LacksField`], [`Outcome::OtherFamily`] or the
    /// reason why it has no family.
    pub fn of_values(schema: &Schema) -> Self {
        let (needed, required) = (SourceSet::NOWHERE, SourceSet::NOWHERE);
        let (schema, family) = (schema.clone(), schema.family());
        Self { schema, family, needed, required, words: Box::new([]), sources: Box::new([]) }
    }

    /// Returns the schema whose rows the extractor fills.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the family that packets must have; `None` if no field depends on it.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// Returns the sources of the key words, in order.
    pub(super) fn words(&self) -> &[WordOp] {
        &self.words
    }

    /// Returns the header fields that a packet must show or be known to lack.
    ///
    /// They are all header fields that fill the schema's fields, or only the addresses and the fields that rules test.
    pub fn needed(&self) -> SourceSet {
        self.needed.intersection(SourceSet::ALL)
    }

    /// Returns the outcome of a packet with these headers under this schema.
    #[inline]
    pub fn outcome(&self, headers: &Headers) -> Outcome {
        if self.family.is_some() && self.family != headers.family {
            return if headers.family.is_some() { Outcome::OtherFamily } else { headers.reason };
        }
        if self.needed.minus(headers.present).is_empty() {
            return Outcome::Complete;
        }
        self.outcome_of_partial(headers)
    }

    fn outcome_of_partial(&self, headers: &Headers) -> Outcome {
        if self.needed == SourceSet::NOWHERE {
            return Outcome::LacksField;
        }
        let absent = self.needed.intersection(headers.absent);
        let unknown = self.needed.minus(headers.present).minus(absent);
        if !unknown.is_empty() {
            // In a frame that is not IP, OpenFlow's fields are known unless an ARP packet was cut.
            let cut = headers.reason == Outcome::NotIp && unknown.minus(SourceSet::OPENFLOW).is_empty();
            if cut { Outcome::Truncated } else { headers.reason }
        } else if !self.required.intersection(absent).is_empty() {
            Outcome::LacksField
        } else if headers.layer3 && !absent.intersection(SourceSet::UPPER).is_empty() {
            Outcome::FragmentLayer3
        } else if !absent.intersection(SourceSet::PORTS).is_empty() {
            Outcome::NoPorts
        } else {
            Outcome::Complete
        }
    }

    /// Fills the key words of `row`, and leaves the words behind them as they are.
    ///
    /// The row is meaningful only if the packet's outcome is a classified one.
    #[inline]
    pub fn fill(&self, headers: &Headers, row: &mut [u32]) {
        for (op, word) in self.words.iter().zip(row) {
            const LAST: u8 = WORDS as u8 - 1;
            let (low, high) = (headers.words[usize::from(op.low & LAST)], headers.words[usize::from(op.high & LAST)]);
            let value = ((u64::from(high) << 32 | u64::from(low)) >> (op.shift & 31)) as u32 & op.bits;
            let present = headers.present.mask_of(op.source);
            *word = value & present | op.absent & !present;
        }
    }

    /// Returns the whole values of the fields, for the oracle.
    ///
    /// The result is `None` unless the packet is classified.
    pub fn values(&self, headers: &Headers) -> Option<FieldValues> {
        let value = |(field, &source): (&Field, &Source)| {
            let hidden = if field.is_optional() { None } else { Some(0) };
            headers.value(source).or(hidden)
        };
        let values = || self.schema.fields().iter().zip(&self.sources).map(value).collect();
        let classified = self.outcome(headers).is_classified();
        classified.then(|| FieldValues { family: self.schema.family(), values: values() })
    }
}

/// Error: packets cannot fill a schema.
///
/// A field has no header field to come from, or is too narrow for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoSource {
    field: Box<str>,
    width: u32,
    wanted: Option<u32>,
}

impl NoSource {
    fn new(field: &Field, wanted: Option<u32>) -> Self {
        Self { field: field.name().into(), width: field.width(), wanted }
    }

    /// Returns the name of the field.
    pub fn field(&self) -> &str {
        &self.field
    }
}

impl fmt::Display for NoSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { field, width, wanted } = self;
        match wanted {
            None => write!(f, "the field {field} comes from no packet header, so packets cannot fill it"),
            Some(wanted) => write!(f, "the field {field} has {width} bits, what packets hold there has {wanted}"),
        }
    }
}

impl std::error::Error for NoSource {}
