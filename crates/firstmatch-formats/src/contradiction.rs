//! Contradictions: conditions of a rule that no packet meets together.
//!
//! The reasons are the protocols, ether types and families of packets that have a field. For example, no packet matches
//! `permit udp tcp_flags 0x02`: `tcp_flags` needs TCP, which `udp` rules out.

use super::native::{ether_type_name, protocol_name};
use firstmatch_core::rule::{ConditionRef, RuleSpec, Test};
use firstmatch_core::schema::{Family, IPV6_EXTENSIONS, Schema, Source, family_of_protocol};

/// Part of a rule that a contradiction names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Family that the rule is confined to.
    Family,
    /// Condition on the field of this index.
    Condition(usize),
    /// Family of the rule set, which no part of the rule states.
    Set,
}

/// Two parts of a rule that no packet meets together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// The two parts, in the order of [`Contradiction::describe`].
    pub parts: [Part; 2],
    claim: &'static str,
    what: [String; 2],
    join: &'static str,
}

const NEVER: &str = "this rule can never match";
/// Claim about a rule for packets that can be made, but that no implementation of the protocol makes.
const IRREGULAR: &str = "this rule matches no regular packet";

impl Contradiction {
    /// Whether no packet at all can match the rule, not only no regular packet.
    pub(crate) fn is_certain(&self) -> bool {
        self.claim == NEVER
    }

    /// Returns the text of a warning about the rule; `name` gives the names of its parts.
    pub fn describe(&self, name: impl Fn(Part) -> String) -> String {
        let [first, second] = self.parts.map(name);
        let [before, behind] = &self.what;
        format!("{}: {first} {before}{}{second} {behind}", self.claim, self.join)
    }
}

/// Returns two parts of a rule over these schemas that no packet meets together.
///
/// `None` if packets can match, or if no two parts alone exclude all packets. It compares the families that parts
/// require, and the protocols and ether types of packets that have the fields ([`Source::protocols`],
/// [`Source::ether_types`]). Values of other fields are not compared.
pub fn contradiction<'s>(
    schemas: impl IntoIterator<Item = &'s Schema, IntoIter: Clone>,
    spec: &RuleSpec,
) -> Option<Contradiction> {
    let schemas = schemas.into_iter();
    let mut found = None;
    // Each part that excludes a family, with that family.
    let mut left_out = Vec::new();
    for schema in schemas.clone() {
        left_out.extend(out_of_family(schema, spec).map(|part| (part, schema.family())));
    }
    for schema in schemas.clone().filter(|schema| out_of_family(schema, spec).is_none()) {
        // In a rule for both families, the needs of a field are named for both.
        let family = schema.family().filter(|_| left_out.len() + 1 == schemas.clone().count());
        found = Some(within(schema, spec, family)?);
    }
    match (found, &left_out[..]) {
        (Some(Found::Between(contradiction)), _) => Some(contradiction),
        (Some(Found::OfFamily { field, claim, what, family }), _) => {
            let by = left_out.first().map_or(Part::Set, |&(part, _)| part);
            let ask = format!("asks for {}", family.pretty());
            Some(Contradiction { parts: [Part::Condition(field), by], claim, what: [what, ask], join: ", " })
        }
        (None, &[(first, Some(not_this)), (second, Some(not_that))]) if first != second => {
            let ask = |family: Family| format!("asks for {}", family.pretty());
            // The part that excludes the second family requires the first.
            let (mut parts, mut what) = ([second, first], [ask(not_this), ask(not_that)]);
            if parts[0] == Part::Family {
                parts.reverse();
                what.reverse();
            }
            Some(Contradiction { parts, claim: NEVER, what, join: ", " })
        }
        (None, &[(part @ Part::Condition(_), Some(family))]) if schemas.count() == 1 => {
            let other = if family == Family::Ipv4 { Family::Ipv6 } else { Family::Ipv4 };
            let what = [other, family].map(|family| format!("asks for {}", family.pretty()));
            Some(Contradiction { parts: [part, Part::Set], claim: NEVER, what, join: ", " })
        }
        _ => None,
    }
}

/// Returns the part that excludes packets of a schema's family, if there is one.
fn out_of_family(schema: &Schema, spec: &RuleSpec) -> Option<Part> {
    if spec.family.is_some() && spec.family != schema.family() {
        return Some(Part::Family);
    }
    let none = |condition: &ConditionRef<'_>| {
        if takes_absent(schema, *condition) {
            return false;
        }
        let family = schema.fields()[condition.field].source().and_then(Source::family);
        let is_of_other = family.is_some() && schema.family().is_some() && family != schema.family();
        is_of_other || condition.tests_for(schema.family()).next().is_none()
    };
    spec.conditions.iter().find(none).map(|condition| Part::Condition(condition.field))
}

/// Contradiction found for packets of one schema.
enum Found {
    Between(Contradiction),
    /// The condition on this field allows no protocol of the family.
    OfFamily {
        field: usize,
        claim: &'static str,
        what: String,
        family: Family,
    },
}

/// Set of protocols, or of the ether types of [`ETHER_TYPES`], by bit.
type Bits = [u64; 4];

const ALL: Bits = [u64::MAX; 4];
const NOTHING: Bits = [0; 4];

/// Ether types of packets that have some of the fields.
///
/// A condition on the ether type is tested only for these.
const ETHER_TYPES: [u16; 6] = [0x0800, 0x0806, 0x86dd, 0x8847, 0x8848, 0x8864];

/// Bit of all other ether types.
const OTHER: u8 = 6;

#[derive(Clone, Copy)]
enum Of {
    Protocol,
    EtherType,
}

fn within(schema: &Schema, spec: &RuleSpec, named: Option<Family>) -> Option<Found> {
    for of in [Of::Protocol, Of::EtherType] {
        let left = |condition: ConditionRef<'_>| left_by(schema, of, condition);
        let all = spec.conditions.iter().map(left).fold(ALL, and);
        if all == NOTHING
            && let Some(between) = pair(schema, of, spec, named)
        {
            return Some(Found::Between(between));
        }
    }
    let family = schema.family()?;
    let protocol = |condition: &ConditionRef<'_>| is_protocol(schema, condition.field);
    spec.conditions.iter().filter(protocol).find_map(|condition| {
        let mut protocols = protocols_in(left_by(schema, Of::Protocol, condition)).peekable();
        protocols.peek()?;
        let field = condition.field;
        if family == Family::Ipv6 && protocols.clone().all(|p| IPV6_EXTENSIONS.contains(&p)) {
            let what = "is never the protocol of IPv6 packets, where it is an extension header".to_owned();
            return Some(Found::OfFamily { field, claim: NEVER, what, family });
        }
        let other = family_of_protocol(protocols.next()?).filter(|&of| of != family && protocols.next().is_none())?;
        let what = format!("is a protocol of {}", other.pretty());
        Some(Found::OfFamily { field, claim: IRREGULAR, what, family })
    })
}

/// Returns the contradiction of two conditions that allow no common value.
fn pair(schema: &Schema, of: Of, spec: &RuleSpec, named: Option<Family>) -> Option<Contradiction> {
    let each: Vec<_> = spec.conditions.iter().map(|c| (c.field, left_by(schema, of, c))).collect();
    let (at, first) = each.iter().enumerate().find_map(|(at, &(_, bits))| {
        let first = each[..at].iter().position(|&(_, earlier)| and(earlier, bits) == NOTHING)?;
        Some((at, first))
    })?;
    let (mut one, mut two) = (each[first].0, each[at].0);
    let needs = |field: usize| needed(schema, of, field, named).map(|names| format!("needs {names}"));
    let excluding = |field: usize| needs(field).is_none();
    // The field that needs a protocol is named before the condition that rules it out.
    if excluding(one) {
        (one, two) = (two, one);
    }
    let parts = [one, two].map(Part::Condition);
    let (Some(need), other) = (needs(one), needs(two)) else {
        let what = ["and".into(), "leave no value that both hold for".into()];
        return Some(Contradiction { parts, claim: NEVER, what, join: " " });
    };
    Some(match other {
        Some(other) => Contradiction { parts, claim: NEVER, what: [need, other], join: ", " },
        None => Contradiction { parts, claim: NEVER, what: [need, "rules out".into()], join: ", which " },
    })
}

/// Names the protocols or ether types under which packets of a family have a field.
///
/// `None` for the protocol or the ether type itself.
fn needed(schema: &Schema, of: Of, field: usize, family: Option<Family>) -> Option<String> {
    let source = schema.fields()[field].source()?;
    let names: Vec<String> = match of {
        Of::Protocol => {
            let name = |&protocol: &u8| protocol_name(protocol).map_or(protocol.to_string(), str::to_owned);
            source.protocols(family)?.iter().map(name).collect()
        }
        Of::EtherType => {
            let name = |&kind: &u16| ether_type_name(kind).map_or(format!("{kind:#06x}"), str::to_owned);
            source.ether_types()?.iter().map(name).collect()
        }
    };
    Some(match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    })
}

/// Returns the protocols, or ether types, of packets that may meet a condition.
fn left_by(schema: &Schema, of: Of, condition: ConditionRef<'_>) -> Bits {
    let field = &schema.fields()[condition.field];
    let Some(source) = field.source().filter(|_| !takes_absent(schema, condition)) else { return ALL };
    let passes = |value: u128| {
        condition.tests_for(schema.family()).any(|test| test.passes(value, field.width())) != condition.negated
    };
    match of {
        Of::Protocol if source.is_protocol() => {
            // The usual condition, one protocol, needs no search.
            let mut tests = condition.tests_for(schema.family());
            if let (Some(Test::Value(value)), None, false) = (tests.next(), tests.next(), condition.negated) {
                return bits([value as u8]);
            }
            bits((0..=u8::MAX).filter(|&protocol| passes(protocol.into())))
        }
        Of::Protocol => source.protocols(schema.family()).map_or(ALL, |all| bits(all.iter().copied())),
        Of::EtherType => {
            let numbered = (0u8..).zip(ETHER_TYPES);
            match source.ether_types() {
                Some(all) => bits(numbered.filter(|(_, kind)| all.contains(kind)).map(|(at, _)| at)),
                // The condition may hold for other ether types, too.
                None if source == Source::EthType => {
                    bits(numbered.filter(|&(_, kind)| passes(kind.into())).map(|(at, _)| at).chain([OTHER]))
                }
                None => ALL,
            }
        }
    }
}

/// Whether packets that lack the field of a condition may meet it.
fn takes_absent(schema: &Schema, condition: ConditionRef<'_>) -> bool {
    !condition.negated && condition.tests_for(schema.family()).any(|test| test == Test::Absent)
}

/// Returns the field and value of a condition that names an extension header as a protocol.
///
/// Only for rules that IPv6 packets may match. For IPv6 packets the condition never holds for that value, because
/// [`Source::Proto`] is never an extension header.
pub fn extension_as_protocol<'s>(
    schemas: impl IntoIterator<Item = &'s Schema>,
    spec: &RuleSpec,
) -> Option<(usize, u8)> {
    let schema = schemas.into_iter().find(|schema| schema.family() == Some(Family::Ipv6))?;
    if out_of_family(schema, spec).is_some() {
        return None;
    }
    let conditions = spec.conditions.iter().filter(|c| !c.negated && is_protocol(schema, c.field));
    let mut named = conditions.flat_map(|c| c.tests_for(schema.family()).map(move |test| (c.field, test)));
    named.find_map(|(field, test)| match test {
        Test::Value(value) => IPV6_EXTENSIONS.into_iter().find(|&p| u128::from(p) == value).map(|p| (field, p)),
        _ => None,
    })
}

fn is_protocol(schema: &Schema, field: usize) -> bool {
    schema.fields()[field].source().is_some_and(Source::is_protocol)
}

fn and(a: Bits, b: Bits) -> Bits {
    std::array::from_fn(|word| a[word] & b[word])
}

fn bits(numbers: impl IntoIterator<Item = u8>) -> Bits {
    let mut out = NOTHING;
    numbers.into_iter().for_each(|number| out[usize::from(number) / 64] |= 1 << (number % 64));
    out
}

fn protocols_in(bits: Bits) -> impl Iterator<Item = u8> + Clone {
    (0..=u8::MAX).filter(move |&protocol| bits[usize::from(protocol) / 64] >> (protocol % 64) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_a_bit_each() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        for &number in &all {
            assert_eq!(protocols_in(bits([number])).collect::<Vec<_>>(), [number]);
        }
        assert_eq!(protocols_in(bits(all.clone())).collect::<Vec<_>>(), all);
        assert_eq!(protocols_in(and(bits([6, 64, 200]), bits([64, 200, 255]))).collect::<Vec<_>>(), [64, 200]);
    }
}
