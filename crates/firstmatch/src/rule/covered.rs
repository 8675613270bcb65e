//! Rules behind others that take all their packets.

use std::collections::HashMap;

use super::{ConditionRef, Rule, RuleSet, Test};
use crate::schema::{Family, Schema};

/// Why a rule is never the first to match.
#[derive(Clone, Debug)]
pub struct Covering<'s> {
    /// The earlier rules that match whatever it matches: one, or one for IPv4 and one for IPv6, in this order.
    pub by: Vec<&'s Rule>,
    /// It has the very conditions of the one.
    pub is_equal: bool,
}

impl Covering<'_> {
    /// Returns what a warning says of the rule, where this tells the lines of the others.
    pub fn describe(&self, line: impl Fn(&Rule) -> u32) -> String {
        let lines: Vec<u32> = self.by.iter().map(|rule| line(rule)).collect();
        let why = match lines[..] {
            [four, six] => {
                format!("the rule on line {four} takes all its IPv4 packets, that on line {six} all its IPv6 packets")
            }
            [one] if self.is_equal => format!("the rule on line {one} has the same conditions"),
            _ => format!("the rule on line {} takes all its packets", lines.first().copied().unwrap_or(0)),
        };
        format!("this rule is never the first to match: {why}")
    }
}

/// Earlier rules are looked for by what their conditions have in common, by this many forms of rules at most: those of
/// the fewest bits.
const SHAPES: usize = 64;
/// Of the rules of a shape that fix the same bits, this many are compared with a rule.
const BUCKET: usize = 4;
/// Conditions of more pairs of tests are compared for equality alone.
const PAIRS: usize = 64;

/// Calls `found`, in order of priority, for the rules that are never the first to match because one earlier rule (one for
/// each family) matches whatever they match.
///
/// Found are all rules that have the same conditions as an earlier one. Of those that an earlier rule holds without
/// being equal, most are found: the earlier rule is one of the 64 widest kinds of rules so far (a kind is how many
/// leading bits each field is held to), and among the first four of its kind with these bits. Rules that only several
/// earlier ones hold together are not found. The time is linear in the number of rules.
pub fn covered<'s>(set: &'s RuleSet, mut found: impl FnMut(&'s Rule, Covering<'s>)) {
    let mut views: Vec<_> = set.schemas().iter().map(View::new).collect();
    for rule in set.iter() {
        let mut by: Vec<&Rule> = Vec::new();
        let mut is_open = false;
        for view in &mut views {
            match view.take(rule) {
                Taken::Nowhere => {}
                Taken::Behind(earlier) if by.last().is_some_and(|last| last.id == earlier.id) => {}
                Taken::Behind(earlier) => by.push(earlier),
                Taken::Open => is_open = true,
            }
        }
        if !is_open && !by.is_empty() {
            let is_equal = matches!(by[..], [one] if has_same_conditions(one, rule));
            found(rule, Covering { by, is_equal });
        }
    }
}

fn has_same_conditions(a: &Rule, b: &Rule) -> bool {
    let count = |rule: &Rule| rule.conditions.iter().count();
    a.family == b.family && count(a) == count(b) && a.conditions.iter().all(|c| b.conditions.on(c.field) == Some(c))
}

enum Taken<'s> {
    /// It is not for packets of the family.
    Nowhere,
    Behind(&'s Rule),
    Open,
}

/// The rules so far as packets of one schema meet them.
struct View<'s> {
    schema: &'s Schema,
    /// By a hash of all conditions.
    equal: HashMap<u64, &'s Rule>,
    shapes: Vec<Shape>,
    /// By a hash of the shape and the bits that it fixes.
    by_bits: HashMap<u64, Vec<&'s Rule>>,
    shapes_ever: u64,
    /// Of the rule that is taken: how many leading bits of each field are held, and to what.
    held: Vec<Held>,
}

/// 0 where there is no condition, else one more than the leading bits that all values of the field have in common.
type Bits = u8;

#[derive(Clone, Copy, Default)]
struct Held {
    bits: Bits,
    value: u128,
}

struct Shape {
    number: u64,
    bits: Vec<Bits>,
    /// Their sum.
    width: u32,
}

impl<'s> View<'s> {
    fn new(schema: &'s Schema) -> Self {
        Self {
            schema,
            equal: HashMap::new(),
            shapes: Vec::new(),
            by_bits: HashMap::new(),
            shapes_ever: 0,
            held: vec![Held::default(); schema.fields().len()],
        }
    }

    fn take(&mut self, rule: &'s Rule) -> Taken<'s> {
        let family = self.schema.family();
        if rule.family.is_some() && rule.family != family {
            return Taken::Nowhere;
        }
        self.held.fill(Held::default());
        let mut hash = 0u64;
        for condition in rule.conditions.iter() {
            let Some(held) = hull(condition, family, self.schema.fields()[condition.field].width()) else {
                return Taken::Nowhere;
            };
            self.held[condition.field] = held;
            hash = hash.wrapping_add(hash_of(condition, family));
        }
        if let Some(earlier) = self.equal.get(&hash).filter(|earlier| self.holds(earlier, rule)) {
            return Taken::Behind(earlier);
        }
        let buckets = self.shapes.iter().filter(|shape| shape.bits.iter().zip(&self.held).all(|(s, h)| *s <= h.bits));
        let mut candidates = buckets.filter_map(|shape| self.by_bits.get(&self.key(shape))).flatten();
        if let Some(earlier) = candidates.find(|earlier| self.holds(earlier, rule)) {
            return Taken::Behind(earlier);
        }
        self.equal.entry(hash).or_insert(rule);
        if let Some(shape) = self.shape() {
            let key = self.key(&self.shapes[shape]);
            let bucket = self.by_bits.entry(key).or_default();
            if bucket.len() < BUCKET {
                bucket.push(rule);
            }
        }
        Taken::Open
    }

    /// The shape of the rule that is taken, if it is one of those that are kept.
    fn shape(&mut self) -> Option<usize> {
        let is_it = |shape: &Shape| shape.bits.iter().zip(&self.held).all(|(s, h)| *s == h.bits);
        if let Some(at) = self.shapes.iter().position(is_it) {
            return Some(at);
        }
        let width = self.held.iter().map(|held| u32::from(held.bits)).sum();
        let at = if self.shapes.len() < SHAPES {
            self.shapes.len()
        } else {
            let narrowest = (0..SHAPES).max_by_key(|&at| self.shapes[at].width)?;
            if self.shapes[narrowest].width <= width {
                return None;
            }
            narrowest
        };
        self.shapes_ever += 1;
        let shape = Shape { number: self.shapes_ever, bits: self.held.iter().map(|held| held.bits).collect(), width };
        if at == self.shapes.len() {
            self.shapes.push(shape);
        } else {
            self.shapes[at] = shape;
        }
        Some(at)
    }

    /// The bits of the rule that is taken which a shape fixes.
    fn key(&self, shape: &Shape) -> u64 {
        let fields = self.schema.fields().iter().zip(&shape.bits).zip(&self.held).filter(|((_, bits), _)| **bits > 1);
        fields.fold(mix(0, shape.number), |key, ((field, bits), held)| {
            let value = held.value >> (field.width() + 1 - u32::from(*bits));
            mix(mix(key, value as u64), (value >> 64) as u64)
        })
    }

    /// Whether an earlier rule matches every packet of this schema that another matches.
    fn holds(&self, earlier: &Rule, rule: &Rule) -> bool {
        let family = self.schema.family();
        earlier.conditions.iter().all(|outer| {
            let width = self.schema.fields()[outer.field].width();
            rule.conditions.on(outer.field).is_some_and(|inner| implies(inner, outer, family, width))
        })
    }
}

/// What all values that meet a condition have in common; `None` where there are none in this family.
fn hull(condition: ConditionRef<'_>, family: Option<Family>, width: u32) -> Option<Held> {
    let mut tests = condition.tests_for(family).map(|test| range(test, width));
    let first = tests.next()?;
    if condition.negated {
        let is_all = condition.tests_for(family).any(|test| is_any(test, width));
        return (!is_all).then_some(Held { bits: 1, value: 0 });
    }
    let (lo, hi) = tests.fold(first, |(lo, hi), (a, b)| (lo.min(a), hi.max(b)));
    let common = (lo ^ hi).leading_zeros().min(128) - (128 - width);
    Some(Held { bits: 1 + common as u8, value: lo })
}

/// The least and the largest value that pass a test of a field.
fn range(test: Test, width: u32) -> (u128, u128) {
    let max = u128::MAX >> (128 - width);
    match test {
        Test::Value(value) => (value, value),
        Test::Prefix { value, len } => (value, value | max.checked_shr(len).unwrap_or(0)),
        Test::Range { lo, hi } => (lo, hi),
        Test::Mask { value, mask } => (value, value | (max & !mask)),
    }
}

/// Whether every value that meets `inner` meets `outer`. It may say no where it is so.
fn implies(inner: ConditionRef<'_>, outer: ConditionRef<'_>, family: Option<Family>, width: u32) -> bool {
    let (in_tests, out_tests) = (inner.tests_for(family), outer.tests_for(family));
    if inner.negated == outer.negated && in_tests.clone().eq(out_tests.clone()) {
        return true;
    }
    if inner.count().saturating_mul(outer.count()) > PAIRS {
        return false;
    }
    let within = |one: Test, of: Test| is_within(one, of, width);
    match (inner.negated, outer.negated) {
        (false, false) => in_tests.clone().all(|one| out_tests.clone().any(|of| within(one, of))),
        // The inner excludes all that the outer excludes.
        (true, true) => out_tests.clone().all(|one| in_tests.clone().any(|of| within(one, of))),
        (false, true) => in_tests.clone().all(|one| {
            let (lo, hi) = range(one, width);
            out_tests.clone().map(|of| range(of, width)).all(|(from, to)| hi < from || to < lo)
        }),
        (true, false) => out_tests.clone().any(|of| is_any(of, width)),
    }
}

/// Whether every value of a field passes a test.
fn is_any(test: Test, width: u32) -> bool {
    match test {
        Test::Mask { mask, .. } => mask == 0,
        _ => range(test, width) == (0, u128::MAX >> (128 - width)),
    }
}

/// Whether every value that passes one test passes another. It may say no where it is so.
fn is_within(one: Test, of: Test, width: u32) -> bool {
    let (lo, hi) = range(one, width);
    match (one, of) {
        (Test::Mask { value, mask }, Test::Mask { value: outer, mask: of }) => mask & of == of && value & of == outer,
        (_, Test::Mask { .. }) => lo == hi && of.passes(lo, width),
        _ => {
            let (from, to) = range(of, width);
            from <= lo && hi <= to
        }
    }
}

/// The same for equal conditions; the sum over those of a rule does not depend on their order.
fn hash_of(condition: ConditionRef<'_>, family: Option<Family>) -> u64 {
    let head = mix(1 + condition.field as u64, u64::from(condition.negated));
    condition.tests_for(family).fold(head, |hash, test| {
        let (form, a, b) = match test {
            Test::Value(value) => (0, value, 0),
            Test::Prefix { value, len } => (1, value, len.into()),
            Test::Range { lo, hi } => (2, lo, hi),
            Test::Mask { value, mask } => (3, value, mask),
        };
        [form, a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64].into_iter().fold(hash, mix)
    })
}

/// Equal hashes are only a reason to compare; the maps behind them are keyed.
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93_u128;
    (product as u64) ^ (product >> 64) as u64 ^ hash.rotate_left(23)
}
