//! Helpers shared by the tests.

use std::collections::{BTreeSet, HashMap};

use firstmatch_core::rule::{ExpansionLimits, Region, Regions, Rule, Test, lower};
use firstmatch_core::{Policy, RuleId, RuleSet};
use firstmatch_generate::profile::{PortClass, Profile};
use firstmatch_generate::rules::{self, Config};

pub(crate) const SRC: usize = 0;
pub(crate) const DST: usize = 1;
pub(crate) const SPORT: usize = 2;
pub(crate) const DPORT: usize = 3;
pub(crate) const PROTO: usize = 4;

pub(crate) fn profiles() -> [Profile; 4] {
    [Profile::acl(), Profile::fw(), Profile::ipc(), Profile::uniform()]
}

pub(crate) fn generate(config: &Config) -> RuleSet {
    rules::generate(config).unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

pub(crate) fn text(set: &RuleSet) -> String {
    let mut text = String::new();
    firstmatch_formats::write::classbench(set, &Policy::default(), &mut text).expect("it fits");
    text
}

/// Returns the 64-bit FNV-1a hash.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3))
}

/// Returns the single test of a generated rule's field.
pub(crate) fn test_of(rule: &Rule, field: usize) -> Option<Test> {
    let condition = rule.conditions.on(field)?.unpack();
    assert!(!condition.negated && condition.tests.len() == 1);
    Some(condition.tests[0].1)
}

pub(crate) fn length(rule: &Rule, field: usize) -> u32 {
    match test_of(rule, field) {
        None => 0,
        Some(Test::Prefix { len, .. }) => len,
        other => panic!("{other:?} is no prefix"),
    }
}

pub(crate) fn port_class(rule: &Rule, field: usize) -> PortClass {
    match test_of(rule, field) {
        None => PortClass::Wildcard,
        Some(Test::Value(port)) => PortClass::of(port as u16, port as u16),
        Some(Test::Range { lo, hi }) => PortClass::of(lo as u16, hi as u16),
        other => panic!("{other:?} is no range"),
    }
}

pub(crate) fn protocol(rule: &Rule) -> Option<u8> {
    test_of(rule, PROTO).map(|test| match test {
        Test::Value(number) => number as u8,
        other => panic!("{other:?} is no protocol"),
    })
}

/// Lowers a set in each family; returns the regions and, for each, the place of its rule.
pub(crate) fn lowered(set: &RuleSet) -> Vec<(Regions, Vec<usize>)> {
    let places: HashMap<RuleId, usize> = set.iter().zip(0..).map(|(rule, place)| (rule.id, place)).collect();
    let lower = |schema| lower(set, schema, &ExpansionLimits::default()).expect("it fits");
    let of = |schema| {
        let lowered = lower(schema);
        (lowered.regions().clone(), lowered.rules().iter().map(|rule| places[&rule.rule]).collect())
    };
    set.schemas().iter().map(of).collect()
}

/// Returns whether `outer` holds `inner`; neither may have masks.
pub(crate) fn holds(outer: &Region<'_>, inner: &Region<'_>) -> bool {
    assert!(outer.ternary.is_none() && inner.ternary.is_none());
    let mut words = outer.lo.iter().zip(outer.hi).zip(inner.lo.iter().zip(inner.hi));
    words.all(|((lo, hi), (ilo, ihi))| lo <= ilo && ihi <= hi)
}

/// Returns the places of rules that lie wholly in one earlier rule, by comparing all pairs.
pub(crate) fn shadowed(set: &RuleSet) -> Vec<usize> {
    // A rule is shadowed if it is in every family where it has regions; generated rules have one region in each.
    let views = lowered(set);
    let mut holders: Vec<Option<BTreeSet<usize>>> = vec![None; set.len()];
    for (regions, places) in &views {
        for (at, inner) in regions.iter().enumerate() {
            let earlier = (0..at).filter(|&other| holds(&regions.get(other), &inner)).map(|other| places[other]);
            let here: BTreeSet<usize> = earlier.collect();
            let all = &mut holders[places[at]];
            *all = Some(all.take().map_or(here.clone(), |all| &all & &here));
        }
    }
    let some = |holders: &Option<BTreeSet<usize>>| holders.as_ref().is_some_and(|holders| !holders.is_empty());
    (0..set.len()).filter(|&place| some(&holders[place])).collect()
}
