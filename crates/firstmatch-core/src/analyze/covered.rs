//! Covered rules: rules behind others that take all their packets, found while a file is read.
//!
//! This is the part of the analysis that is linear in the number of rules and needs no regions, so that reading a file
//! stays cheap. [`Analysis::check`](super::Analysis::check) finds the others, too.

use std::collections::HashMap;

use crate::rule::{ConditionRef, Rule, RuleSet, Test};
use crate::schema::{Family, Schema};

/// Reason why a rule is never the first to match.
#[derive(Clone, Debug)]
pub struct Covering<'s> {
    /// Earlier rules that match every packet of the rule.
    ///
    /// One rule, or one for IPv4 and one for IPv6, in this order.
    pub by: Vec<&'s Rule>,
    /// Whether the one rule has exactly the same conditions.
    pub is_equal: bool,
}

impl Covering<'_> {
    /// Returns the text of a warning about the rule; `line` tells the lines of the other rules.
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

/// Number of shapes kept to find earlier rules by: the shapes that fix the fewest bits.
const SHAPES: usize = 64;
/// Number of rules kept to compare with, of one shape and with the same fixed bits.
const BUCKET: usize = 4;
/// Largest number of pairs of tests that are compared.
///
/// Conditions with more are compared for equality alone.
const PAIRS: usize = 64;

/// Calls `found`, in order of priority, for rules that one earlier rule covers.
///
/// A covered rule is never the first to match, because the earlier rule (or one for each family) matches every packet
/// that it matches. For example, `permit src 10.0.0.0/8` covers a later `deny src 10.1.0.0/16 dport 23`.
///
/// Rules with the same conditions as an earlier one are all found, and most others that one earlier rule covers. Rules
/// that only several earlier ones cover together are not.
///
/// The time is linear in the number of rules, because a rule is compared with few earlier ones. A shape is the number
/// of leading bits that a rule fixes in each field. The earlier rule's shape must be one of the 64 widest so far. It
/// must also be among the first four rules of its shape with these bits.
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
    /// The rule is not for packets of the family.
    Nowhere,
    Behind(&'s Rule),
    Open,
}

/// Index of the rules so far, for packets of one schema.
struct View<'s> {
    schema: &'s Schema,
    /// Rules by a hash of all conditions.
    equal: HashMap<u64, &'s Rule>,
    shapes: Vec<Shape>,
    /// Rules by a hash of the shape and the bits that it fixes.
    by_bits: HashMap<u64, Vec<&'s Rule>>,
    shapes_ever: u64,
    /// Leading bits of each field that the current rule fixes, with their value.
    held: Vec<Held>,
}

/// Number of leading bits that all values of a field share, plus 1; 0 if it has no condition.
///
/// For example, a condition on a prefix of length 8 has 9.
type Bits = u8;

#[derive(Clone, Copy, Default)]
struct Held {
    bits: Bits,
    value: u128,
}

struct Shape {
    number: u64,
    bits: Vec<Bits>,
    /// Sum of `bits`.
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

    /// Returns the index of the current rule's shape, if that shape is kept.
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

    /// Returns a hash of a shape and of the bits of the current rule that it fixes.
    fn key(&self, shape: &Shape) -> u64 {
        let fields = self.schema.fields().iter().zip(&shape.bits).zip(&self.held).filter(|((_, bits), _)| **bits > 1);
        fields.fold(mix(0, shape.number), |key, ((field, bits), held)| {
            let value = held.value >> (field.width() + 1 - u32::from(*bits));
            mix(mix(key, value as u64), (value >> 64) as u64)
        })
    }

    /// Whether `earlier` matches every packet of this schema that `rule` matches.
    fn holds(&self, earlier: &Rule, rule: &Rule) -> bool {
        let family = self.schema.family();
        earlier.conditions.iter().all(|outer| {
            let width = self.schema.fields()[outer.field].width();
            rule.conditions.on(outer.field).is_some_and(|inner| implies(inner, outer, family, width))
        })
    }
}

/// Returns the leading bits common to all values that meet a condition.
///
/// `None` if no value meets it in this family.
fn hull(condition: ConditionRef<'_>, family: Option<Family>, width: u32) -> Option<Held> {
    let mut tests = condition.tests_for(family);
    let first = tests.next()?;
    if condition.negated {
        let is_all = condition.tests_for(family).any(|test| is_any(test, width));
        return (!is_all).then_some(Held { bits: 1, value: 0 });
    }
    // A packet that lacks the field has no bits in common with others.
    let Some((lo, hi)) = tests.fold(range(first, width), |hull, test| {
        let ((lo, hi), (a, b)) = (hull?, range(test, width)?);
        Some((lo.min(a), hi.max(b)))
    }) else {
        return Some(Held { bits: 1, value: 0 });
    };
    let common = (lo ^ hi).leading_zeros().min(128) - (128 - width);
    Some(Held { bits: 1 + common as u8, value: lo })
}

/// Returns the smallest and the largest value that pass a test of a field; `None` if no value does.
pub(super) fn range(test: Test, width: u32) -> Option<(u128, u128)> {
    let max = u128::MAX >> (128 - width);
    match test {
        Test::Value(value) => Some((value, value)),
        Test::Prefix { value, len } => Some((value, value | max.checked_shr(len).unwrap_or(0))),
        Test::Range { lo, hi } => Some((lo, hi)),
        Test::Mask { value, mask } => Some((value, value | (max & !mask))),
        Test::Absent | Test::Set(_) => None,
    }
}

/// Whether every value that meets `inner` meets `outer`; it may miss this, but is never wrongly true.
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
        // The inner condition excludes every value that the outer one excludes.
        (true, true) => {
            let mut values = out_tests.clone().filter(|one| *one != Test::Absent);
            values.all(|one| in_tests.clone().any(|of| within(one, of)))
        }
        (false, true) if outer.tests_live_sets() => false,
        (false, true) => in_tests.clone().all(|one| {
            let Some((lo, hi)) = range(one, width) else { return false };
            out_tests.clone().filter_map(|of| range(of, width)).all(|(from, to)| hi < from || to < lo)
        }),
        (true, false) => out_tests.clone().any(|of| is_any(of, width)),
    }
}

/// Whether every value of a field passes a test.
fn is_any(test: Test, width: u32) -> bool {
    match test {
        Test::Mask { mask, .. } => mask == 0,
        _ => range(test, width) == Some((0, u128::MAX >> (128 - width))),
    }
}

/// Whether every value that passes `one` passes `of`; it may miss this, but is never wrongly true.
pub(super) fn is_within(one: Test, of: Test, width: u32) -> bool {
    let Some((lo, hi)) = range(one, width) else { return one == of };
    match (one, of) {
        (Test::Mask { value, mask }, Test::Mask { value: outer, mask: of }) => mask & of == of && value & of == outer,
        (_, Test::Mask { .. }) => lo == hi && of.passes(lo, width),
        _ => range(of, width).is_some_and(|(from, to)| from <= lo && hi <= to),
    }
}

/// Returns a hash that is equal for equal conditions.
///
/// A rule's hash is the sum over its conditions, so that it does not depend on their order.
fn hash_of(condition: ConditionRef<'_>, family: Option<Family>) -> u64 {
    let head = mix(1 + condition.field as u64, u64::from(condition.negated));
    condition.tests_for(family).fold(head, |hash, test| {
        let (form, a, b) = match test {
            Test::Value(value) => (0, value, 0),
            Test::Prefix { value, len } => (1, value, len.into()),
            Test::Range { lo, hi } => (2, lo, hi),
            Test::Mask { value, mask } => (3, value, mask),
            Test::Absent => (4, 0, 0),
            Test::Set(id) => (5, id.index() as u128, 0),
        };
        [form, a as u64, (a >> 64) as u64, b as u64, (b >> 64) as u64].into_iter().fold(hash, mix)
    })
}

/// Mixes a word into a hash.
///
/// It need not resist attacks, because equal hashes are only a reason to compare and the maps behind them are keyed.
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93_u128;
    (product as u64) ^ (product >> 64) as u64 ^ hash.rotate_left(23)
}
