use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::rule::{ExpansionLimits, FieldValues, first_match, lower};
use firstmatch_core::{Classifier, KeyBuf, RuleSet};
use firstmatch_formats::Options;
use firstmatch_generate::keys::{self, Points};
use firstmatch_generate::{Profile, rules, trace::Locality};

use super::*;
use crate::transform::single_ports;

/// Returns the packet of a row.
fn values(schema: &Schema, row: &[u32]) -> FieldValues {
    let value = |field: usize| {
        let mut words = schema.words_of(field).map(|at| (row[at], &schema.words()[at])).peekable();
        let absent = words.peek().is_some_and(|(value, word)| word.absent == Some(*value));
        let value = words.fold(0, |whole, (value, word)| whole | u128::from(value) << word.shift);
        (!absent).then_some(value)
    };
    FieldValues { family: schema.family(), values: (0..schema.fields().len()).map(value).collect() }
}

/// Compares every key with the oracle and returns the number of keys that match.
///
/// The engine is checked alone and behind exact-match caches, with few megaflows, which soon are full, and with many.
fn check(set: &RuleSet, locality: Locality) -> usize {
    let schema = &set.schemas()[0];
    let lowered = lower(set, schema, &ExpansionLimits::default()).expect("within the caps");
    let mut rows = KeyBuf::new(schema);
    for points in [Points::Interior, Points::Edges, Points::Uniform] {
        let config = keys::Config { keys: 1500, seed: 3, points, locality };
        let keys = keys::generate(&lowered, &config).expect("keys");
        (0..keys.len()).for_each(|row| rows.push().copy_from_slice(keys.keys().row(row)));
    }
    let keys = rows.keys();
    let right = |row: usize| {
        first_match(set, &values(schema, keys.row(row))).map(|rule| Match { rule: rule.id, priority: rule.priority })
    };
    let right: Vec<Option<Match>> = (0..keys.len()).map(right).collect();
    let better =
        |found: Option<Match>| found.map(|found| Match { priority: firstmatch_core::rule::Priority(0), ..found });
    for megaflows in [1, 7, 100, 200_000] {
        let alone = OvsLike::build(&lowered, megaflows);
        let cached = FlowCache::new(
            OvsLike::build(&lowered, megaflows),
            &flow::Config { entries: 50, ways: 2, steps_aside: false, ..flow::Config::default() },
        )
        .expect("no level is forced");
        let engines: [&dyn Classifier; 2] = [&alone, &cached];
        // The scratch of one engine comes to the other with answers of its own.
        let mut scratch = alone.scratch();
        for engine in engines.iter().cycle().take(4) {
            for batch in [1, 5, 64, 300] {
                let mut out = vec![None; right.len()];
                for from in (0..right.len()).step_by(batch) {
                    let to = right.len().min(from + batch);
                    engine.classify_batch(&mut scratch, keys.slice(from, to), &mut out[from..to]);
                }
                let wrong = (0..right.len()).find(|&row| out[row] != right[row]);
                assert!(wrong.is_none(), "{megaflows} megaflows, batch {batch}: {:?}", wrong.map(|row| keys.row(row)));
                let mut best: Vec<Option<Match>> = right.iter().map(|found| better(*found)).collect();
                engine.improve_batch(&mut scratch, &keys, &mut best);
                assert!(best.iter().zip(&right).all(|(best, right)| *best == better(*right)));
            }
        }
    }
    right.iter().flatten().count()
}

#[test]
fn answers_are_the_oracles() {
    for (profile, families) in
        [("acl1", rules::Families::Ipv4), ("fw3", rules::Families::Ipv6), ("ipc1", rules::Families::Ipv4)]
    {
        let profile: Profile = profile.parse().expect("a profile");
        let set =
            rules::generate(&rules::Config { rules: 120, seed: 2, profile, families, ..rules::Config::default() });
        let set = set.expect("rules");
        assert!(check(&set, Locality::Uniform) > 1000);
        let single = single_ports(&set).expect("rules");
        assert!(check(&single, Locality::Zipf { s: 1.0 }) > 1000);
    }
}

#[test]
fn answers_are_the_oracles_where_fields_are_absent_negated_and_under_masks() {
    let text = "schema {\n    port 16 range optional\n    flags 8 mask\n    addr 48 prefix optional\n}\n";
    let rules = "match port 7-19 flags 0x02/0x12\nmatch port 0-65535 flags 2/6\nmatch flags 1/1\n\
        match port not 5 addr 0x10/44\nmatch addr 0x100000000/16\nmatch port 65535\n";
    let file = firstmatch_formats::parse(&(text.to_owned() + rules), &Options::default());
    let file = file.unwrap_or_else(|error| panic!("{error}"));
    assert!(check(&file.rules, Locality::Uniform) > 1000);
    // Without rules one megaflow holds everything.
    let none = RuleSet::new(Schema::ipv4());
    let lowered = lower(&none, &Schema::ipv4(), &ExpansionLimits::default()).expect("no rules");
    let engine = OvsLike::build(&lowered, 10);
    let mut keys = KeyBuf::new(&Schema::ipv4());
    (0..5).for_each(|number| keys.push()[0] = number);
    let mut scratch = engine.new_scratch();
    engine.improve(&mut scratch, &keys.keys(), &mut [None; 5]);
    assert_eq!(scratch.table.len(), 1);
}

/// A megaflow is as wide as the subtables that were searched, here one or two.
#[test]
fn megaflows_are_as_wide_as_the_subtables_looked_at() {
    let text = "family ipv4\npermit src 10.0.0.0/8\npermit dst 192.0.2.0/24\npermit dst 198.51.100.0/24\n";
    let rules = firstmatch_formats::parse(text, &Options::default()).expect("good rules").rules;
    let schema = &rules.schemas()[0];
    let engine = OvsLike::build(&lower(&rules, schema, &ExpansionLimits::default()).expect("few"), 1000);
    assert_eq!(engine.subtables.len(), 2);
    let mut scratch = engine.new_scratch();
    let mut ask = |src: u32, dst: u32| {
        let mut keys = KeyBuf::new(schema);
        keys.push()[..2].copy_from_slice(&[src, dst]);
        let mut best = [None];
        engine.improve(&mut scratch, &keys.keys(), &mut best);
        (best[0].map(|found| found.rule.slot()), scratch.table.len())
    };
    // All packets from 10/8 share one megaflow.
    assert_eq!((ask(0x0A00_0001, 1), ask(0x0AFF_0001, 0xC000_0207)), ((Some(0), 1), (Some(0), 1)));
    // The others compare 8 bits of the source and 24 of the destination.
    assert_eq!((ask(0x0B00_0001, 0xC000_0207), ask(0x0B77_0001, 0xC000_0299)), ((Some(1), 2), (Some(1), 2)));
    assert_eq!((ask(0x0C00_0001, 0xC000_0207), ask(0x0C00_0001, 0)), ((Some(1), 3), (None, 4)));
}
