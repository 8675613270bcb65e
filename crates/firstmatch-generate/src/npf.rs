//! Rule sets of npf (Shaikot, PhD dissertation, Washington State University 2012).
//!
//! Rules pick the value of each field independently from a pool of values. In Section 4.6 ports and protocols come from
//! the pool of real rule sets and the prefixes are random, for 25 to 1,000 rules. In Section 5.8.2 each field has 2^8
//! values of a packet trace, for 500 to 5,000 rules.

use std::collections::HashSet;
use std::hash::Hash;

use firstmatch_core::rule::Test;
use firstmatch_core::schema::{Family, Source};
use firstmatch_core::{RuleSet, Schema};

use crate::error::Error;
use crate::openflow::spec;
use crate::random::{Purpose, Random};
use crate::rules::MAX_RULES;
use crate::trace::Header;

/// Fields by their index in the 5-tuple.
const FIELDS: [Source; 5] = [Source::Src, Source::Dst, Source::SrcPort, Source::DstPort, Source::Proto];

/// Pools of values, one for each field of the 5-tuple.
///
/// The order is source, destination, source port, destination port, protocol. `None` is no condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pools {
    family: Family,
    /// Distinct values of each field, in the order of their first use.
    fields: [Vec<Option<Test>>; 5],
}

/// Number of values of a packet trace that Section 5.8.2 takes for each field.
pub const VALUES: usize = 1 << 8;

impl Pools {
    /// Collects the distinct values of rules, field by field.
    ///
    /// Conditions of more than one test are skipped.
    pub fn of_rules<'s>(family: Family, sets: impl IntoIterator<Item = &'s RuleSet>) -> Self {
        let mut fields: [Vec<Option<Test>>; 5] = Default::default();
        for set in sets {
            let Some(schema) = set.schema(Some(family)) else { continue };
            for (source, values) in FIELDS.iter().zip(&mut fields) {
                let Some(field) = schema.index_of_source(*source) else { continue };
                values.extend(set.iter().filter_map(|rule| {
                    let Some(condition) = rule.conditions.on(field) else { return Some(None) };
                    let (of, test) = condition.tests().next()?;
                    let one = condition.count() == 1 && !condition.negated && of.is_none_or(|of| of == family);
                    one.then_some(Some(test))
                }));
            }
        }
        fields.iter_mut().for_each(|values| distinct(values, usize::MAX));
        Self { family, fields }
    }

    /// Collects the first `values` distinct values of packets, field by field.
    ///
    /// Section 5.8.2 takes [`VALUES`].
    pub fn of_headers(family: Family, headers: impl IntoIterator<Item = Header>, values: usize) -> Self {
        let mut fields: [Vec<Option<Test>>; 5] = Default::default();
        for header in headers.into_iter().filter(|header| header.family == family) {
            let of = [header.src, header.dst, header.sport.into(), header.dport.into(), header.proto.into()];
            for (pool, value) in fields.iter_mut().zip(of) {
                pool.push(Some(Test::Value(value)));
                // Duplicates are removed now and then, so that the pool stays small whatever the length of the trace.
                if pool.len() >= 4 * values.max(64) {
                    distinct(pool, values);
                }
            }
        }
        fields.iter_mut().for_each(|pool| distinct(pool, values));
        Self { family, fields }
    }

    /// Returns the number of values of each field.
    pub fn sizes(&self) -> [usize; 5] {
        self.fields.each_ref().map(Vec::len)
    }
}

/// Keeps the first of each value, and at most `most` values.
fn distinct<T: Copy + Eq + Hash>(values: &mut Vec<T>, most: usize) {
    let mut seen = HashSet::new();
    values.retain(|value| seen.len() < most && seen.insert(*value));
}

/// Source of the addresses of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Random prefixes, each length from 1 to that of an address equally likely (Section 4.6).
    Random,
    /// Addresses of the pools (Section 5.8.2).
    Pooled,
}

/// Generates a set of distinct rules over the 5-tuple of the pools' family.
///
/// # Errors
/// If `rules` is not 1 to [`MAX_RULES`], a pool that is needed is empty, or 1,000 draws in a row give no new rule.
pub fn generate(pools: &Pools, addresses: Addresses, rules: usize, seed: u64) -> Result<RuleSet, Error> {
    if !(1..=MAX_RULES).contains(&rules) {
        return Err(Error::config(format!("rules is {rules}, not a number from 1 to {MAX_RULES}")));
    }
    let pooled = |field: usize| field > 1 || addresses == Addresses::Pooled;
    if let Some(field) = (0..5).find(|&field| pooled(field) && pools.fields[field].is_empty()) {
        return Err(Error::config(format!("the pool of {} is empty", FIELDS[field].name())));
    }
    let mut random = Random::new(seed, Purpose::Fields);
    let mut set = RuleSet::new(Schema::five_tuple(pools.family, &[]));
    let mut seen: HashSet<[Option<Test>; 5]> = HashSet::with_capacity(rules);
    let bits = pools.family.address_bits();
    for line in 1..=rules as u32 {
        let drawn = (0..1000).find_map(|_| {
            let tests: [Option<Test>; 5] = std::array::from_fn(|field| {
                if pooled(field) {
                    return pools.fields[field][random.index(pools.fields[field].len())];
                }
                let len = random.between(1, bits);
                let value = u128::from(random.bits()) << 64 | u128::from(random.bits());
                let value = value >> (128 - bits) & (u128::MAX << (bits - len));
                Some(Test::Prefix { value, len })
            });
            seen.insert(tests).then_some(tests)
        });
        let Some(tests) = drawn else { return Err(Error::exhausted("npf", set.len(), rules, 1000)) };
        set.insert(spec(line, tests.into())).map_err(|error| Error::unsupported(format!("rule {line}: {error}")))?;
    }
    Ok(set)
}
