//! From headers to one schema's values.

use std::fmt;

use firstmatch::rule::{FieldValues, RuleSet};
use firstmatch::schema::{Family, Field, Schema, Source};

use super::headers::{Place, SourceSet, WORDS, ZERO, place};
use super::{Headers, Outcome};

/// How packets fill the rows of one schema.
#[derive(Clone, Debug)]
pub struct Extractor {
    schema: Schema,
    /// The family its packets must have, if it makes a difference.
    family: Option<Family>,
    /// What packets must show: all that fills a field, or what rules test.
    needed: SourceSet,
    /// Those of `needed` whose field is not optional.
    required: SourceSet,
    lanes: Box<[LaneOp]>,
    sources: Box<[Source]>,
}

/// How a lane is filled: bits of two adjacent words of the header field, or a constant where the field is absent.
#[derive(Clone, Copy, Debug)]
struct LaneOp {
    low: u8,
    high: u8,
    shift: u8,
    /// The bit of the header field in a [`SourceSet`].
    source: u32,
    bits: u32,
    absent: u32,
}

impl Extractor {
    /// The extractor for packets of this schema: a packet that hides one of its fields is unknown, whether a rule tests
    /// the field or not. This is the one for rules that change while packets are read.
    ///
    /// # Errors
    /// When a field has no header field to come from, or is too narrow for it; the error names the field.
    pub fn new(schema: &Schema) -> Result<Self, NoSource> {
        let mut family = schema.family();
        for field in schema.fields() {
            if family.is_none() && matches!(field.source(), Some(Source::Src | Source::Dst)) {
                // Without a family of its own, the width of its addresses tells it.
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
        let lane_op = |lane: &firstmatch::schema::Lane| {
            let source = sources[lane.field];
            let Place { first, count, shift, bits } = place(source);
            let word = |from_the_right: u32| {
                let back = from_the_right as usize;
                if back < count { (first + count - 1 - back) as u8 } else { ZERO as u8 }
            };
            // A field that starts inside a word has no other word, so the words from `low` on are right for all.
            let at = lane.shift + shift;
            let (low, high) = (word(at / 32), word(at / 32 + 1));
            // What stands to the left in a shared word is another field's.
            let own = (u128::MAX >> (128 - bits)).checked_shr(lane.shift).unwrap_or(0) as u32;
            let bits = lane.bits & !lane.absent.unwrap_or(0) & own;
            let absent = lane.absent.unwrap_or(0);
            let shift = (at % 32) as u8;
            LaneOp { low, high, shift, source: SourceSet::of(&[source]).bits(), bits, absent }
        };
        let lanes = schema.lanes().iter().map(lane_op).collect();
        Ok(Self { schema: schema.clone(), family, needed, required, lanes, sources: sources.into() })
    }

    /// The extractor for packets of this schema that are asked of these rules alone: what no rule tests makes no packet
    /// unknown. The addresses are needed in any case, so that a packet with a broken IP header is always unknown.
    ///
    /// A field that a packet hides and no rule tests has a value of no meaning in its row: absent, or 0 if the field is
    /// not optional. So rules that were inserted later must not be asked about these rows: take a new extractor for
    /// them, or one of [`Extractor::new`] from the beginning.
    ///
    /// # Errors
    /// As [`Extractor::new`].
    pub fn for_rules(schema: &Schema, rules: &RuleSet) -> Result<Self, NoSource> {
        let all = Self::new(schema)?;
        let mut tested = SourceSet::ADDRESSES;
        for rule in rules.iter().filter(|rule| rule.family.is_none() || rule.family == schema.family()) {
            // A condition without a test for the family never holds there, and neither does its rule.
            if rule.conditions.iter().all(|condition| condition.tests_for(schema.family()).next().is_some()) {
                for condition in rule.conditions.iter() {
                    tested = tested.union(SourceSet::of(&[all.sources[condition.field]]));
                }
            }
        }
        let (needed, required) = (all.needed.intersection(tested), all.required.intersection(tested));
        Ok(Self { needed, required, ..all })
    }

    /// The extractor for a schema whose rows come from elsewhere: every packet has the outcome
    /// [`Outcome::LacksField`], whatever its headers say, or [`Outcome::OtherFamily`].
    pub fn of_values(schema: &Schema) -> Self {
        let (needed, required) = (SourceSet::NOWHERE, SourceSet::NOWHERE);
        let (schema, family) = (schema.clone(), schema.family());
        Self { schema, family, needed, required, lanes: Box::new([]), sources: Box::new([]) }
    }

    /// The schema whose rows it fills.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The family its packets must have; `None` where the schema asks for nothing that depends on it.
    pub fn family(&self) -> Option<Family> {
        self.family
    }

    /// The header fields that a packet must show or be known to lack: all of the schema, or those that rules test.
    pub fn needed(&self) -> SourceSet {
        self.needed.intersection(SourceSet::ALL)
    }

    /// What becomes of a packet with these headers under this schema.
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
            // Of a frame that is not IP, OpenFlow's fields are known: only an ARP packet that was cut has others.
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

    /// Fills a row: one word a lane; what is behind them stays as it is. The row means something only if the
    /// packet's outcome is one of the classified ones.
    #[inline]
    pub fn fill(&self, headers: &Headers, row: &mut [u32]) {
        for (op, word) in self.lanes.iter().zip(row) {
            const LAST: u8 = WORDS as u8 - 1;
            let (low, high) = (headers.words[usize::from(op.low & LAST)], headers.words[usize::from(op.high & LAST)]);
            let value = ((u64::from(high) << 32 | u64::from(low)) >> (op.shift & 31)) as u32 & op.bits;
            let present = headers.present.mask_of(op.source);
            *word = value & present | op.absent & !present;
        }
    }

    /// The whole values of the fields, for the oracle; lanes play no part. `None` unless the packet is classified.
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

/// A schema cannot be filled from packets: a field has no header field to come from, or is too narrow for it.
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

    /// The name of the field.
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
