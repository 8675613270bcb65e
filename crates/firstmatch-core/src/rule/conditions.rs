//! Conditions of a rule in packed form, because a set holds millions of them.
//!
//! A rule of a 5-tuple takes about 30 bytes. There is one way to pack a condition, so that equal conditions are equal
//! bytes. The layout:
//!
//! | part | bytes | content |
//! |---|---|---|
//! | binding | 4 | the [binding](RuleSet::bind), least significant byte first; 0 if there is none |
//! | head | 1 or more | `field << 2 \| negated << 1 \| several`, the start of each condition |
//! | number of tests | 1 or more | only if `several` is set: the condition has several tests, or none |
//! | tag | 1 | `size << 4 \| family << 2 \| form`, the start of each test; the size 15 stands for [`Test::Absent`], 14 for [`Test::Set`] |
//! | operands | 0, 1, 2, 4, 8 or 16 each | one or two; both are as short as the longer one allows |
//! | length | 1 or more | only after a prefix |
//! | number | 1 or more | only of a live set, in place of operands |
//!
//! Without conditions and binding there are no bytes at all. Heads, numbers and lengths take 7 bits per byte, the
//! lowest first. For example, `dport 443`, where `dport` is field 3, takes four bytes: head `0x0C`, tag `0x20` and
//! operand `0xBB 0x01`.

use std::fmt;

use std::hash::{Hash, Hasher};

use super::condition::{Condition, Test};
use super::id::SetId;
use crate::schema::Family;

/// Conditions of a rule, in the order they were written.
///
/// A condition names its field by the index in a schema, so conditions mean something only together with a schema. A
/// [`RuleSet`](super::RuleSet) therefore *binds* the conditions it takes to its fields. It refuses conditions that are
/// bound to fields of another name, width, source or family. Conditions made here are unbound, and any set takes them.
/// Equality and hashes ignore the binding.
///
/// ```
/// use firstmatch_core::rule::{NamedCondition, Test};
/// use firstmatch_core::{RuleSet, Schema};
///
/// let set = RuleSet::new(Schema::ipv4());
/// let conditions = set.bind([NamedCondition::new("dport", [Test::Value(23)])])?;
/// let dport = conditions.on(3).expect("the fourth field of the schema");
/// assert_eq!(dport.count(), 1);
/// # Ok::<(), firstmatch_core::UpdateError>(())
/// ```
#[derive(Clone, Default)]
pub struct Conditions(Box<[u8]>);

/// Number of bytes of the binding before the packed conditions.
const BINDING: usize = size_of::<u32>();

impl PartialEq for Conditions {
    fn eq(&self, other: &Self) -> bool {
        self.packed() == other.packed()
    }
}

impl Eq for Conditions {}

impl Hash for Conditions {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.packed().hash(state);
    }
}

/// Borrowed [`Condition`] of packed [`Conditions`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ConditionRef<'a> {
    /// Index of the field in the schema (in both schemas of a dual-stack set).
    pub field: usize,
    /// Whether the value must fail all tests.
    pub negated: bool,
    count: usize,
    tests: &'a [u8],
}

impl Conditions {
    /// Returns the conditions, the first written first.
    pub fn iter(&self) -> impl Iterator<Item = ConditionRef<'_>> + Clone {
        let mut rest = Reader(self.packed());
        std::iter::from_fn(move || rest.condition())
    }

    /// Returns the condition on a field.
    pub fn on(&self, field: usize) -> Option<ConditionRef<'_>> {
        self.iter().find(|condition| condition.field == field)
    }

    /// Adds a condition behind the others.
    ///
    /// If a set has bound the conditions, it refuses them after this: [`RuleSet::bind`](super::RuleSet::bind) adds
    /// conditions by name instead.
    pub fn push(&mut self, condition: Condition) {
        let mut bytes = std::mem::take(&mut self.0).into_vec();
        bytes.resize(bytes.len().max(BINDING), 0);
        pack(condition.field, condition.negated, &condition.tests, &mut bytes);
        self.0 = bytes.into();
    }

    /// Whether there is no condition, so that every packet matches.
    pub fn is_empty(&self) -> bool {
        self.packed().is_empty()
    }

    /// Returns the conditions, unpacked.
    pub fn to_vec(&self) -> Vec<Condition> {
        self.iter().map(ConditionRef::unpack).collect()
    }

    /// Number of bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.0.len()
    }

    /// Builds conditions from the bytes that [`pack`] wrote.
    pub fn from_packed(bytes: &[u8]) -> Self {
        if bytes.is_empty() { Self::default() } else { Self([&[0; BINDING], bytes].concat().into()) }
    }

    /// Returns the number that identifies the fields they are bound to; 0 if unbound.
    ///
    /// [`RuleSet`](super::RuleSet) computes it.
    pub(super) fn binding(&self) -> u32 {
        self.0.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    pub(super) fn bind(&mut self, binding: u32) {
        if self.0.is_empty() {
            self.0 = Box::new([0; BINDING]);
        }
        self.0[..BINDING].copy_from_slice(&binding.to_le_bytes());
    }

    fn packed(&self) -> &[u8] {
        self.0.get(BINDING..).unwrap_or_default()
    }

    /// Returns the same conditions on other fields, unbound.
    pub fn renumbered(&self, number: impl Fn(usize) -> usize) -> Self {
        let mut bytes = Vec::with_capacity(self.packed().len());
        for condition in self.iter() {
            put_head(number(condition.field), condition.negated, condition.count, &mut bytes);
            bytes.extend_from_slice(condition.tests);
        }
        Self::from_packed(&bytes)
    }
}

impl FromIterator<Condition> for Conditions {
    fn from_iter<I: IntoIterator<Item = Condition>>(conditions: I) -> Self {
        let mut bytes = Vec::new();
        for Condition { field, negated, tests } in conditions {
            pack(field, negated, &tests, &mut bytes);
        }
        Self::from_packed(&bytes)
    }
}

impl From<Vec<Condition>> for Conditions {
    fn from(conditions: Vec<Condition>) -> Self {
        conditions.into_iter().collect()
    }
}

impl<const N: usize> From<[Condition; N]> for Conditions {
    fn from(conditions: [Condition; N]) -> Self {
        conditions.into_iter().collect()
    }
}

impl fmt::Debug for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> ConditionRef<'a> {
    /// Returns the tests with the family of the packets that each is for; `None` for both.
    pub fn tests(self) -> impl Iterator<Item = (Option<Family>, Test)> + Clone + use<'a> {
        let mut rest = Reader(self.tests);
        std::iter::from_fn(move || rest.test())
    }

    /// Returns the tests for packets of `family`, or for packets of no family.
    pub fn tests_for(self, family: Option<Family>) -> impl Iterator<Item = Test> + Clone + use<'a> {
        self.tests().filter(move |(of, _)| of.is_none() || *of == family).map(|(_, test)| test)
    }

    /// Number of tests, for any family.
    pub fn count(self) -> usize {
        self.count
    }

    /// Returns the condition, unpacked.
    pub fn unpack(self) -> Condition {
        Condition { field: self.field, negated: self.negated, tests: self.tests().collect() }
    }
}

impl fmt::Debug for ConditionRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.unpack().fmt(f)
    }
}

/// Appends a condition in packed form to `out`.
pub fn pack(field: usize, negated: bool, tests: &[(Option<Family>, Test)], out: &mut Vec<u8>) {
    put_head(field, negated, tests.len(), out);
    for &(family, test) in tests {
        let family = match family {
            None => 0,
            Some(Family::Ipv4) => 1,
            Some(Family::Ipv6) => 2,
        };
        let (form, a, b) = match test {
            Test::Absent => {
                out.push(ABSENT << 4 | family << 2);
                continue;
            }
            Test::Set(id) => {
                out.push(LIVE_SET << 4 | family << 2);
                put_number(id.index(), out);
                continue;
            }
            Test::Value(value) => (VALUE, value, None),
            Test::Prefix { value, .. } => (PREFIX, value, None),
            Test::Range { lo, hi } => (RANGE, lo, Some(hi)),
            Test::Mask { value, mask } => (MASK, value, Some(mask)),
        };
        // The size fits both operands, because `a | b` has every bit that one of them has.
        let size = match 128 - (a | b.unwrap_or(0)).leading_zeros() {
            0 => 0,
            bits => bits.div_ceil(8).next_power_of_two().ilog2() as usize + 1,
        };
        out.push((size as u8) << 4 | family << 2 | form);
        for operand in std::iter::once(a).chain(b) {
            out.extend_from_slice(&operand.to_le_bytes()[..SIZES[size]]);
        }
        if let Test::Prefix { len, .. } = test {
            put_number(len as usize, out);
        }
    }
}

fn put_head(field: usize, negated: bool, count: usize, out: &mut Vec<u8>) {
    // No schema has a field of so high a number. The set refuses the clamped number as it would the original.
    let field = field.min(usize::MAX >> 2);
    put_number(field << 2 | usize::from(negated) << 1 | usize::from(count != 1), out);
    if count != 1 {
        put_number(count, out);
    }
}

const SIZES: [usize; 6] = [0, 1, 2, 4, 8, 16];

/// Size in the tag of a test without operands.
const ABSENT: u8 = 15;
/// Size in the tag of a live set.
const LIVE_SET: u8 = 14;

const VALUE: u8 = 0;
const PREFIX: u8 = 1;
const RANGE: u8 = 2;
const MASK: u8 = 3;

fn put_number(mut number: usize, out: &mut Vec<u8>) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Reader of the bytes that [`pack`] wrote; `None` is the end.
#[derive(Clone, Copy)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn condition(&mut self) -> Option<ConditionRef<'a>> {
        let head = self.number()?;
        let count = if head & 1 == 0 { 1 } else { self.number()? };
        let tests = self.0;
        for _ in 0..count {
            self.skip_test()?;
        }
        let tests = &tests[..tests.len() - self.0.len()];
        Some(ConditionRef { field: head >> 2, negated: head & 2 != 0, count, tests })
    }

    fn test(&mut self) -> Option<(Option<Family>, Test)> {
        let tag = self.byte()?;
        let family = match tag >> 2 & 3 {
            0 => None,
            1 => Some(Family::Ipv4),
            _ => Some(Family::Ipv6),
        };
        if tag >> 4 == ABSENT {
            return Some((family, Test::Absent));
        }
        if tag >> 4 == LIVE_SET {
            return Some((family, Test::Set(SetId::new(self.number()? as u32))));
        }
        let a = self.operand(tag >> 4)?;
        let test = match tag & 3 {
            VALUE => Test::Value(a),
            PREFIX => Test::Prefix { value: a, len: self.number()? as u32 },
            RANGE => Test::Range { lo: a, hi: self.operand(tag >> 4)? },
            _ => Test::Mask { value: a, mask: self.operand(tag >> 4)? },
        };
        Some((family, test))
    }

    fn skip_test(&mut self) -> Option<()> {
        let tag = self.byte()?;
        if tag >> 4 == ABSENT {
            return Some(());
        }
        if tag >> 4 == LIVE_SET {
            return self.number().map(drop);
        }
        let operands = if matches!(tag & 3, RANGE | MASK) { 2 } else { 1 };
        self.take(operands * SIZES[usize::from(tag >> 4)])?;
        if tag & 3 == PREFIX {
            self.number()?;
        }
        Some(())
    }

    fn operand(&mut self, size: u8) -> Option<u128> {
        let bytes = self.take(SIZES[usize::from(size)])?;
        Some(match *bytes {
            [] => 0,
            [byte] => byte.into(),
            [a, b] => u16::from_le_bytes([a, b]).into(),
            [a, b, c, d] => u32::from_le_bytes([a, b, c, d]).into(),
            _ => bytes.iter().rev().fold(0, |number, &byte| number << 8 | u128::from(byte)),
        })
    }

    fn number(&mut self) -> Option<usize> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            number |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
            shift += 7;
        }
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(byte)
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let numbers = [0, 1, 0xFF, 0x100, 0xFFFF, 0x1_0000, u128::from(u32::MAX), 1 << 32, 1 << 64, u128::MAX];
        let mut tests = vec![Test::Absent, Test::Set(SetId::new(0)), Test::Set(SetId::new(u32::MAX))];
        for a in numbers {
            tests.push(Test::Value(a));
            tests.extend([0, 1, 32, 127, 128, 129, u32::MAX].map(|len| Test::Prefix { value: a, len }));
            tests.extend(numbers.map(|b| Test::Range { lo: a, hi: b }));
            tests.extend(numbers.map(|b| Test::Mask { value: a, mask: b }));
        }
        let families = [None, Some(Family::Ipv4), Some(Family::Ipv6)];
        let each = families.iter().flat_map(|&family| tests.iter().map(move |&test| (family, test)));
        let fields = [0, 4, 31, 32, 63, 64, 5000, usize::MAX >> 2];
        let one = |(field, test)| Condition { field, negated: field % 2 == 1, tests: vec![test] };
        let mut conditions: Vec<_> = fields.into_iter().cycle().zip(each.clone()).map(one).collect();
        conditions.push(Condition { field: 2, negated: true, tests: Vec::new() });
        conditions.push(Condition { field: 3, negated: false, tests: each.collect() });
        let packed: Conditions = conditions.clone().into();
        assert_eq!(packed.to_vec(), conditions);
        assert_eq!(packed.iter().map(ConditionRef::count).max(), Some(3 * tests.len()));
        assert_eq!(packed.on(5000), packed.iter().find(|condition| condition.field == 5000));
        assert!(packed.on(7).is_none() && !packed.is_empty() && Conditions::default().is_empty());
    }

    #[test]
    fn a_rule_of_a_5_tuple_takes_33_bytes() {
        let prefix = |field| (field, Test::Prefix { value: 0x0A01_0200, len: 24 });
        let range = |field| (field, Test::Range { lo: 1024, hi: 65535 });
        let all = [prefix(0), prefix(1), range(2), range(3), (4, Test::Value(6))];
        let one = |(field, test)| Condition { field, negated: false, tests: vec![(None, test)] };
        assert_eq!(Conditions::from(all.map(one)).bytes(), 33);
    }
}
