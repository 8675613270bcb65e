//! Rules over the 15 OpenFlow fields, with given ratios of distinct values.
//!
//! The ratios are those of Qu, Zhou, Prasanna, HPSR 2014, Table III.
//!
//! A field of ratio ρ has `min(ρ · rules, 2^width)` distinct values. For example, a field of 16 bits and ratio 0.25 has
//! 250 values in 1,000 rules.
//!
//! Most rules come in stacks. The rules of a stack have the same values of the exact fields, and nested prefixes and
//! ranges, the narrowest first. Therefore a key drawn from a rule matches several rules, while with independently drawn
//! values it would match only one. With the ratios of Table III a key matches more than three in the mean, as the test
//! `table_iii_s_values_and_overlaps` checks. There are as many stacks as the exact field with the most values needs;
//! half of them have one rule.

use std::collections::HashSet;
use std::num::NonZeroU32;

use firstmatch_core::rule::{Action, Condition, Priority, RuleSpec, Test};
use firstmatch_core::schema::Kind;
use firstmatch_core::{RuleSet, Schema};

use crate::error::Error;
use crate::profile::check;
use crate::random::{Purpose, Random};
use crate::rules::MAX_RULES;

/// Ratios of Table III in the order of [`Schema::openflow`].
pub const TABLE_III: [f64; 15] = [0.02, 0.02, 0.25, 0.25, 0.01, 0.2, 1.0, 0.02, 1.0, 0.25, 0.25, 0.02, 1.0, 0.1, 0.1];

/// Most rules of a stack.
const DEPTH: usize = 7;

/// Parameters of [`generate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Number of rules, 1 to [`MAX_RULES`].
    pub rules: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// For each field, the ratio of distinct values to rules, 0 to 1, with one value at least.
    pub ratios: [f64; 15],
    /// Share of rules that leave a given exact field without a condition, 0 to 1.
    ///
    /// Wildcards take values away, so the ratios hold only for 0.
    pub wildcards: f64,
}

impl Default for Config {
    /// Makes 1,000 rules with seed 1 and the ratios of Table III, without wildcards.
    fn default() -> Self {
        Self { rules: 1000, seed: 1, ratios: TABLE_III, wildcards: 0.0 }
    }
}

/// Nesting values of a field: stacks, in which each value lies in the next, and single ones.
struct Nested {
    /// Stacks, each from the narrowest value to the widest.
    stacks: Vec<Vec<Test>>,
    singles: Vec<Test>,
}

/// Generates a rule set over [`Schema::openflow`] without duplicates.
///
/// # Errors
/// If the configuration is out of its bounds, or its ratios do not give that many distinct rules.
pub fn generate(config: &Config) -> Result<RuleSet, Error> {
    if !(1..=MAX_RULES).contains(&config.rules) {
        return Err(Error::config(format!("rules is {}, not a number from 1 to {MAX_RULES}", config.rules)));
    }
    let schema = Schema::openflow();
    check::share("wildcards", config.wildcards).map_err(Error::config)?;
    for (field, &ratio) in schema.fields().iter().zip(&config.ratios) {
        check::share(&format!("the ratio of {}", field.name()), ratio).map_err(Error::config)?;
    }
    let random = &mut Random::new(config.seed, Purpose::Fields);
    let rules = config.rules;
    let counts: Vec<usize> = schema
        .fields()
        .iter()
        .zip(&config.ratios)
        .map(|(field, ratio)| {
            let most = 1usize.checked_shl(field.width()).unwrap_or(usize::MAX);
            ((rules as f64 * ratio + 0.5) as usize).clamp(1, most)
        })
        .collect();
    let nests = |field: usize| matches!(schema.fields()[field].kind(), Kind::Prefix | Kind::Range);
    let exact = (0..counts.len()).filter(|&field| !nests(field));
    let stacks = exact.map(|field| counts[field]).max().unwrap_or(1).max(rules.div_ceil(4)).min(rules);

    let sizes = sizes(rules, stacks);
    let mut nested: Vec<Option<Nested>> = Vec::new();
    let mut values: Vec<Vec<u128>> = Vec::new();
    for (field, &count) in counts.iter().enumerate() {
        let of = &schema.fields()[field];
        values.push(if nests(field) { Vec::new() } else { distinct(count, of.width(), random) });
        nested.push(match of.kind() {
            Kind::Prefix => Some(prefixes(count, random)),
            Kind::Range => Some(ranges(count, random)),
            _ => None,
        });
    }
    let mut drafts: Vec<(u64, Vec<Option<Test>>)> = Vec::with_capacity(rules);
    let mut seen: HashSet<Vec<Option<Test>>> = HashSet::with_capacity(rules);
    for (stack, &size) in sizes.iter().enumerate() {
        // Sorted places put the narrowest rule of the stack first.
        let mut places: Vec<u64> = (0..size).map(|_| random.bits()).collect();
        places.sort_unstable();
        // The first stacks take each value once, so that all values are used.
        let picks: Vec<usize> = (0..counts.len())
            .map(|field| match &nested[field] {
                None if stack < values[field].len() => stack,
                None => random.index(values[field].len()),
                Some(own) => pick(own, stack, size, random),
            })
            .collect();
        for (depth, place) in places.into_iter().enumerate() {
            let mut tries = 0..64;
            let tests = loop {
                let tests: Vec<Option<Test>> = (0..counts.len())
                    .map(|field| match &nested[field] {
                        None if random.chance(config.wildcards) => None,
                        None => values[field].get(picks[field]).map(|&value| Test::Value(value)),
                        // A duplicate is drawn anew only in a stack of one rule, because it would leave its stack
                        // otherwise.
                        Some(own) if size == 1 && tries.start > 1 => Some(own.test(random.index(own.len()), 0)),
                        Some(own) => Some(own.test(picks[field], depth)),
                    })
                    .collect();
                if seen.insert(tests.clone()) {
                    break tests;
                }
                if tries.next().is_none() {
                    return Err(Error::exhausted("openflow", drafts.len(), rules, 64));
                }
            };
            drafts.push((place, tests));
        }
    }
    drafts.sort_by_key(|(place, _)| *place);
    let mut set = RuleSet::new(schema);
    for (line, (_, tests)) in (1..).zip(drafts) {
        let spec = spec(line, tests);
        set.insert(spec).map_err(|error| Error::unsupported(format!("rule {line}: {error}")))?;
    }
    Ok(set)
}

/// Returns a rule with one test per field, and with the priority and number of `line`.
pub(crate) fn spec(line: u32, tests: Vec<Option<Test>>) -> RuleSpec {
    let conditions = tests
        .into_iter()
        .enumerate()
        .filter_map(|(field, test)| test.map(|test| Condition { field, negated: false, tests: vec![(None, test)] }));
    RuleSpec {
        priority: Priority::of_line(line),
        action: Action::Match,
        conditions: conditions.collect(),
        family: None,
        line: NonZeroU32::new(line),
        value: 0,
    }
}

/// Returns the sizes of `stacks` stacks: about half are 1, the others equal within one rule.
///
/// None exceeds [`DEPTH`], unless there are too few stacks.
fn sizes(rules: usize, stacks: usize) -> Vec<usize> {
    let more = rules - stacks;
    let deep = (stacks / 2).max(more.div_ceil(DEPTH - 1)).min(more).min(stacks);
    (0..stacks).map(|stack| if stack < deep { 1 + more / deep + usize::from(stack < more % deep) } else { 1 }).collect()
}

/// Chooses the value of a field for a stack: an index for [`Nested::test`].
fn pick(own: &Nested, stack: usize, size: usize, random: &mut Random) -> usize {
    match (own.stacks.len(), own.singles.len()) {
        (0, _) => random.index(own.singles.len()),
        (stacks, _) if size > 1 => {
            if stack < stacks {
                stack
            } else {
                random.index(stacks)
            }
        }
        // Stacks of one rule take the single values in order, as far as these go.
        (stacks, singles) => {
            let at = stack % (2 * singles.max(1));
            if at < singles { stacks + at } else { random.index(own.len()) }
        }
    }
}

impl Nested {
    fn len(&self) -> usize {
        self.stacks.len() + self.singles.len()
    }

    fn test(&self, at: usize, depth: usize) -> Test {
        match self.stacks.get(at) {
            Some(stack) => stack[depth.min(stack.len() - 1)],
            None => self.singles[at - self.stacks.len()],
        }
    }
}

/// Returns `count` distinct values of `bits` bits.
fn distinct(count: usize, bits: u32, random: &mut Random) -> Vec<u128> {
    let most = u128::MAX >> (128 - bits);
    if count as u128 > most / 2 {
        // For more than half of all values, shuffles all of them and keeps the first `count`.
        let mut all: Vec<u128> = (0..=most).collect();
        random.shuffle(&mut all);
        all.truncate(count);
        return all;
    }
    let mut seen = HashSet::with_capacity(count);
    let mut values = Vec::with_capacity(count);
    while values.len() < count {
        let value = u128::from(random.bits()) & most;
        if seen.insert(value) {
            values.push(value);
        }
    }
    values
}

/// Returns stacks of prefixes of 32 to 20 bits, each in its own /20, and single prefixes.
fn prefixes(count: usize, random: &mut Random) -> Nested {
    let (stacks, singles) = (count / DEPTH, count % DEPTH);
    // There are 2^20 networks, so values that would need more are left out.
    let networks = distinct((stacks + singles).min(1 << 20), 20, random);
    let prefix = |network: u128, host: u128, len: u32| {
        let value = (network << 12 | host & 0xFFF) & (u128::MAX << (32 - len));
        Test::Prefix { value, len }
    };
    let mut nested = Nested { stacks: Vec::new(), singles: Vec::new() };
    for (at, &network) in networks.iter().enumerate() {
        let host = u128::from(random.bits());
        if at < stacks {
            nested.stacks.push((0..DEPTH as u32).map(|depth| prefix(network, host, 32 - 2 * depth)).collect());
        } else {
            nested.singles.push(prefix(network, host, random.between(20, 32)));
        }
    }
    nested
}

/// Returns distinct port ranges: stacks from one port to some thousands, and single ranges.
fn ranges(count: usize, random: &mut Random) -> Nested {
    let mut seen = HashSet::with_capacity(count);
    let mut nested = Nested { stacks: Vec::new(), singles: Vec::new() };
    let (stacks, singles) = (count / DEPTH, count % DEPTH);
    let range = |lo: u16, hi: u16| Test::Range { lo: lo.into(), hi: hi.into() };
    let mut ports = distinct((stacks + singles).min(1 << 16), 16, random).into_iter().map(|port| port as u16).cycle();
    for stack in 0..stacks + singles {
        let Some(port) = ports.next() else { break };
        let depth = if stack < stacks { DEPTH } else { 1 };
        let (mut lo, mut hi) = (port, port);
        let mut own = Vec::with_capacity(depth);
        while own.len() < depth {
            if seen.insert((lo, hi)) {
                own.push(if lo == hi { Test::Value(lo.into()) } else { range(lo, hi) });
            }
            // A range that cannot grow on the drawn side is a duplicate, and the next turn draws again.
            let wider = 1 << (2 * own.len().min(6));
            let (below, above) = (random.between(0, wider), random.between(0, wider));
            lo = lo.saturating_sub(below as u16);
            hi = hi.saturating_add(above.max(u32::from(below == 0)) as u16);
            if (lo, hi) == (0, u16::MAX) {
                (lo, hi) = (port, port.saturating_add(random.between(0, 4096) as u16));
            }
        }
        if stack < stacks { nested.stacks.push(own) } else { nested.singles.extend(own) }
    }
    nested
}
