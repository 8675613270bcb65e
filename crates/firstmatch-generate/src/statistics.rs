//! Figures of a rule set, by which two sets can be compared.

use std::collections::{BTreeMap, HashMap, HashSet};

use firstmatch_core::RuleSet;
use firstmatch_core::rule::{Condition, ConditionRef, Conditions, Rule, Test};
use firstmatch_core::schema::{Family, Source};

use crate::profile::{PortClass, PortPair};

/// Figures of a rule set; each histogram counts rules.
///
/// They are made for sets whose rules have one test per field, like generated sets and those of ClassBench. A rule with
/// a condition of another form is left out of the histograms that need a prefix, a range or a number there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statistics {
    /// Number of rules.
    pub rules: usize,
    /// Number of rules with the same conditions as an earlier one.
    pub copies: usize,
    /// Figures of each field, in the order of the schema.
    pub fields: Vec<FieldStatistics>,
    /// Lengths of the source's and the destination's prefix, in bits; 0 without a condition.
    pub length_pairs: BTreeMap<(u32, u32), usize>,
    /// Classes of the two ports.
    pub port_classes: BTreeMap<PortPair, usize>,
    /// Protocols; `None` without a condition.
    pub protocols: BTreeMap<Option<u8>, usize>,
    /// Number of distinct pairs of source and destination.
    pub address_pairs: usize,
    /// Number of distinct tuples: lengths of both prefixes, classes of both ports, whether the protocol is tested.
    ///
    /// Tuple space search takes about as many hash tables. Those of addresses alone are [`Self::length_pairs`].
    pub tuples: usize,
}

/// Figures of one field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FieldStatistics {
    /// Name of the field.
    pub name: String,
    /// Number of rules without a condition on the field.
    pub wildcards: usize,
    /// Number of distinct conditions on the field; no condition counts as one.
    pub unique: usize,
    /// Lengths of prefixes, 0 without a condition; empty for a field whose tests are no prefixes.
    pub lengths: BTreeMap<u32, usize>,
    /// Length of the longest chain of nested prefixes, without the wildcard.
    pub deepest: usize,
    /// Number of distinct prefixes by depth.
    ///
    /// The depth is the number of prefixes that hold the prefix, including itself. For example, 10.0.0.0/8 and
    /// 10.1.0.0/16 alone have the depths 1 and 2.
    pub depths: BTreeMap<usize, usize>,
}

impl Statistics {
    /// Computes the figures, in time and memory proportional to the number of rules.
    pub fn of(set: &RuleSet) -> Self {
        let schema = &set.schemas()[0];
        let at = |source| schema.index_of_source(source);
        let either = |one, other| at(one).or(at(other));
        let addresses = either(Source::Src, Source::Ipv4Src).zip(either(Source::Dst, Source::Ipv4Dst));
        let ports = either(Source::SrcPort, Source::TpSrc).zip(either(Source::DstPort, Source::TpDst));
        let proto = either(Source::Proto, Source::IpProto);
        let mut statistics = Self { rules: set.len(), ..Self::default() };
        let mut seen: HashSet<&Conditions> = HashSet::new();
        let (mut pairs, mut tuples) = (HashSet::new(), HashSet::new());
        for rule in set.iter() {
            statistics.copies += usize::from(!seen.insert(&rule.conditions));
            let lengths =
                addresses.and_then(|(source, destination)| length(rule, source).zip(length(rule, destination)));
            if let Some(lengths) = lengths {
                *statistics.length_pairs.entry(lengths).or_default() += 1;
            }
            let classes = ports.and_then(|(source, destination)| {
                Some(PortPair::new(port_class(rule, source)?, port_class(rule, destination)?))
            });
            if let Some(classes) = classes {
                *statistics.port_classes.entry(classes).or_default() += 1;
            }
            if let Some((source, destination)) = addresses {
                let on = |field| rule.conditions.on(field).map(ConditionRef::unpack);
                pairs.insert((on(source), on(destination)));
            }
            tuples.insert((lengths, classes, proto.is_some_and(|proto| rule.conditions.on(proto).is_some())));
            if let Some(proto) = proto {
                let number = match test(rule, proto) {
                    None => Some(None),
                    Some(Some((_, Test::Value(number)))) => u8::try_from(number).ok().map(Some),
                    _ => None,
                };
                if let Some(number) = number {
                    *statistics.protocols.entry(number).or_default() += 1;
                }
            }
        }
        (statistics.address_pairs, statistics.tuples) = (pairs.len(), tuples.len());
        let fields = schema.fields().iter().enumerate();
        statistics.fields = fields.map(|(index, field)| FieldStatistics::of(set, index, field.name())).collect();
        statistics
    }

    /// Returns the total variation distance of two histograms, 0 to 1.
    ///
    /// That is the share of rules that they put elsewhere. It is 1 if one of the two is empty.
    pub fn apart<K: Ord>(one: &BTreeMap<K, usize>, other: &BTreeMap<K, usize>) -> f64 {
        let sums = [one, other].map(|map| map.values().sum::<usize>() as f64);
        if sums.contains(&0.0) {
            return 1.0;
        }
        let common: f64 = one
            .iter()
            .map(|(key, &count)| (count as f64 / sums[0]).min(other.get(key).copied().unwrap_or(0) as f64 / sums[1]))
            .sum();
        (1.0 - common).max(0.0)
    }
}

impl FieldStatistics {
    fn of(set: &RuleSet, index: usize, name: &str) -> Self {
        let mut field = Self { name: name.to_owned(), ..Self::default() };
        let mut unique: HashSet<Option<Condition>> = HashSet::new();
        let mut prefixes: HashMap<(Option<Family>, u128, u32), ()> = HashMap::new();
        let mut others = false;
        for rule in set.iter() {
            let condition = rule.conditions.on(index);
            unique.insert(condition.map(ConditionRef::unpack));
            field.wildcards += usize::from(condition.is_none());
            match test(rule, index) {
                None => *field.lengths.entry(0).or_default() += 1,
                Some(Some((family, Test::Prefix { value, len }))) => {
                    *field.lengths.entry(len).or_default() += 1;
                    prefixes.insert((family, value, len), ());
                }
                Some(_) => others = true,
            }
        }
        field.unique = unique.len();
        if prefixes.is_empty() || others {
            field.lengths.clear();
            return field;
        }
        for &(family, value, len) in prefixes.keys() {
            let width = width(set, index, family);
            let cut = |len: u32| u128::MAX.checked_shl(width - len).unwrap_or(0) & value;
            let around = (1..=len).filter(|&len| prefixes.contains_key(&(family, cut(len), len))).count();
            *field.depths.entry(around).or_default() += 1;
            field.deepest = field.deepest.max(around);
        }
        field
    }
}

/// Returns the width of a field in the schema of a family.
fn width(set: &RuleSet, index: usize, family: Option<Family>) -> u32 {
    let schema = set.schema(family).unwrap_or(&set.schemas()[0]);
    schema.fields().get(index).map_or(128, firstmatch_core::schema::Field::width)
}

/// Returns the test of a field: `None` for no condition, `Some(None)` for several tests.
fn test(rule: &Rule, field: usize) -> Option<Option<(Option<Family>, Test)>> {
    let condition = rule.conditions.on(field)?;
    Some(condition.tests().next().filter(|_| condition.count() == 1 && !condition.negated))
}

fn length(rule: &Rule, field: usize) -> Option<u32> {
    match test(rule, field) {
        None => Some(0),
        Some(Some((_, Test::Prefix { len, .. }))) => Some(len),
        Some(_) => None,
    }
}

fn port_class(rule: &Rule, field: usize) -> Option<PortClass> {
    let (lo, hi) = match test(rule, field) {
        None => return Some(PortClass::Wildcard),
        Some(Some((_, Test::Value(port)))) => (port, port),
        Some(Some((_, Test::Range { lo, hi }))) => (lo, hi),
        Some(_) => return None,
    };
    Some(PortClass::of(u16::try_from(lo).ok()?, u16::try_from(hi).ok()?))
}
