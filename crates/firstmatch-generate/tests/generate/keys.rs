//! Tests of keys over any schema, and of the rule sets of the papers.

use std::collections::BTreeSet;

use super::common::{digest, generate};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::rule::{ExpansionLimits, Lowered, lower};
use firstmatch_core::schema::Family;
use firstmatch_core::{Classifier, KeyBuf, Policy, RuleSet};
use firstmatch_generate::keys::{self, Config, Hardest, Points};
use firstmatch_generate::npf::{self, Addresses, Pools};
use firstmatch_generate::rules::Families;
use firstmatch_generate::trace::{Header, Locality};
use firstmatch_generate::{Profile, Statistics, openflow, rules};

fn lowered(set: &RuleSet) -> Lowered {
    lower(set, &set.schemas()[0], &ExpansionLimits::default()).expect("it fits")
}

fn drawn(of: &Lowered, config: &Config) -> KeyBuf {
    keys::generate(of, config).expect("there are keys")
}

/// Returns the number of regions that each key lies in.
fn matches(of: &Lowered, keys: &KeyBuf) -> Vec<usize> {
    let row = |at: usize| of.regions().iter().filter(|region| region.contains(keys.keys().row(at))).count();
    (0..keys.len()).map(row).collect()
}

#[test]
fn table_iii_s_values_and_overlaps() {
    for (rules, values) in [
        (1000, [20, 20, 250, 250, 10, 200, 8, 20, 8, 250, 250, 20, 64, 100, 100]),
        (32_768, [655, 655, 8192, 8192, 328, 4096, 8, 655, 8, 8192, 8192, 256, 64, 3277, 3277]),
    ] {
        let set = openflow::generate(&openflow::Config { rules, ..Default::default() }).expect("rules");
        let statistics = Statistics::of(&set);
        assert_eq!((statistics.rules, statistics.copies), (rules, 0));
        let unique: Vec<usize> = statistics.fields.iter().map(|field| field.unique).collect();
        assert_eq!(unique, values, "of min(ratio times rules, 2^width)");
        let of = lowered(&set);
        let keys = drawn(&of, &Config { keys: 1000, ..Config::default() });
        let matches = matches(&of, &keys);
        let none = matches.iter().filter(|&&count| count == 0).count();
        let mean = matches.iter().sum::<usize>() as f64 / 1000.0;
        assert!(none == 0 && mean > 3.0, "{none} match nothing, {mean} in the mean");
        let uniform = drawn(&of, &Config { keys: 1000, points: Points::Uniform, ..Config::default() });
        assert_eq!(self::matches(&of, &uniform).iter().sum::<usize>(), 0);
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let native = |set: &RuleSet| {
        let mut text = String::new();
        firstmatch_formats::write::native(set, &Policy::default(), &mut text).expect("it fits");
        digest(text.as_bytes())
    };
    let fields = openflow::generate(&openflow::Config { rules: 2000, ..Default::default() }).expect("rules");
    let pools =
        Pools::of_rules(Family::Ipv6, [&generate(&rules::Config { families: Families::Ipv6, ..Default::default() })]);
    let pooled = npf::generate(&pools, Addresses::Random, 500, 3).expect("rules");
    let of = lowered(&fields);
    let flows = Locality::Flows { s: 1.0, rate: 100.0 };
    let keys = drawn(&of, &Config { keys: 3000, points: Points::Edges, locality: flows, ..Config::default() });
    let bytes: Vec<u8> = keys.keys().words().iter().flat_map(|word| word.to_le_bytes()).collect();
    let digests = [native(&fields), native(&pooled), digest(&bytes)];
    assert_eq!(digests, DIGESTS, "what seeds give has changed: that is a change of version");
}

const DIGESTS: [u64; 3] = [7604563003068580201, 6622491241083049250, 12902925329543103334];

#[test]
fn openflow_s_knobs_and_bounds() {
    let config = openflow::Config::default();
    let set = openflow::generate(&openflow::Config { wildcards: 0.5, ..config }).expect("rules");
    let wild: usize = Statistics::of(&set).fields.iter().map(|field| field.wildcards).sum();
    assert!((5000..6000).contains(&wild), "{wild} of 11,000");
    for rules in [1, 2, 3, 10, 29, 100, 300, 500, 777] {
        let set = openflow::generate(&openflow::Config { rules, ..config }).expect("rules");
        assert_eq!((set.len(), Statistics::of(&set).copies), (rules, 0));
    }
    let text = |seed| format!("{:?}", openflow::generate(&openflow::Config { seed, ..config }));
    assert_eq!(text(1), text(1));
    assert_ne!(text(1), text(2));
    let error = openflow::generate(&openflow::Config { ratios: [0.0; 15], ..config }).expect_err("one value a field");
    assert!(error.exhausted_at().is_some(), "{error}");
    for bad in [
        openflow::Config { rules: 0, ..config },
        openflow::Config { wildcards: 2.0, ..config },
        openflow::Config { ratios: [f64::NAN; 15], ..config },
    ] {
        assert!(openflow::generate(&bad).expect_err("out of bounds").is_config());
    }
    let all = openflow::generate(&openflow::Config { rules: 300, ratios: [1.0; 15], ..config }).expect("rules");
    assert_eq!(Statistics::of(&all).fields[0].unique, 300);
}

#[test]
fn npf_s_rules_are_of_the_pools() {
    let real = [Profile::acl(), Profile::fw()]
        .map(|profile| generate(&rules::Config { rules: 200, profile, ..Default::default() }));
    let pools = Pools::of_rules(Family::Ipv4, &real);
    let set = npf::generate(&pools, Addresses::Random, 1000, 3).expect("rules");
    let statistics = Statistics::of(&set);
    assert_eq!((statistics.rules, statistics.copies), (1000, 0));
    assert!((2..5).all(|field| statistics.fields[field].unique <= pools.sizes()[field]));
    assert_eq!(statistics.fields[0].lengths.len(), 32);

    let header = |at: u32| Header {
        src: (at % 300).into(),
        dst: (at * 7 % 1000).into(),
        family: Family::Ipv4,
        sport: at as u16,
        dport: (at % 10) as u16,
        proto: if at.is_multiple_of(2) { 6 } else { 17 },
        rule: None,
    };
    let pools = Pools::of_headers(Family::Ipv4, (0..50_000).map(header), npf::VALUES);
    assert_eq!(pools.sizes(), [256, 256, 256, 10, 2]);
    let set = npf::generate(&pools, Addresses::Pooled, 5000, 3).expect("rules");
    let unique: Vec<usize> = Statistics::of(&set).fields.iter().map(|field| field.unique).collect();
    assert_eq!((set.len(), unique), (5000, vec![256, 256, 256, 10, 2]));

    let few = Pools::of_headers(Family::Ipv4, (0..3).map(header), npf::VALUES);
    assert!(npf::generate(&few, Addresses::Pooled, 1000, 1).expect_err("too few").exhausted_at().is_some());
    let none = Pools::of_headers(Family::Ipv6, (0..3).map(header), npf::VALUES);
    assert!(npf::generate(&none, Addresses::Random, 10, 1).expect_err("no ports").is_config());
    assert!(npf::generate(&few, Addresses::Random, 0, 1).expect_err("no rules").is_config());
}

#[test]
fn points_lie_where_they_are_asked_for() {
    let set = generate(&rules::Config { rules: 500, profile: Profile::fw(), ..Default::default() });
    let of = lowered(&set);
    let with = |points| drawn(&of, &Config { keys: 4000, points, ..Config::default() });
    for points in [Points::Interior, Points::Corners] {
        assert!(matches(&of, &with(points)).iter().all(|&count| count > 0), "{points:?}");
    }
    // The ends of every word; edges may be one step outside them.
    let key_words = set.schemas()[0].words().len();
    let ends: Vec<BTreeSet<u32>> = (0..key_words)
        .map(|word| of.regions().iter().flat_map(|region| [region.lo[word], region.hi[word]]).collect())
        .collect();
    let (corners, edges) = (with(Points::Corners), with(Points::Edges));
    let top: Vec<u32> = set.schemas()[0].words().iter().map(|word| word.absent.map_or(word.max, |a| a - 1)).collect();
    let is_end = |word: usize, value: u32| ends[word].contains(&value) || value == top[word];
    let mut outside = 0;
    for at in 0..4000 {
        assert!((0..key_words).all(|word| is_end(word, corners.keys().row(at)[word])));
        let off = (0..key_words).filter(|&word| !is_end(word, edges.keys().row(at)[word])).count();
        assert!(off <= 1);
        outside += off;
    }
    assert!(outside > 500, "{outside}");
    let same = |seed| with_seed(&of, seed).keys().words().to_vec();
    assert!(same(1) == same(1) && same(1) != same(2));
    let bursts = drawn(&of, &Config { keys: 4000, locality: Locality::Pareto { a: 1.0, b: 4.0 }, ..Config::default() });
    let repeats = (1..4000).filter(|&at| bursts.keys().row(at) == bursts.keys().row(at - 1)).count();
    assert!(bursts.len() == 4000 && repeats > 2500, "{repeats}");
    let empty = lowered(&RuleSet::new(firstmatch_core::Schema::ipv4()));
    assert!(keys::generate(&empty, &Config::default()).is_err());
    assert_eq!(drawn(&empty, &Config { points: Points::Uniform, keys: 7, ..Config::default() }).len(), 7);
    assert!(keys::generate(&of, &Config { keys: 0, ..Config::default() }).expect_err("none").is_config());
}

/// A rule of many regions has its keys in all of them, and in no other rule's.
#[test]
fn keys_are_of_every_region_of_their_rule() {
    let text = "family ipv4\npermit tcp dport 1\npermit udp dport { 2, 4, 6, 8, 10, 12, 14 }\npermit sctp dport 1\n";
    let of = lowered(&firstmatch_formats::parse(text, &Default::default()).expect("good rules").rules);
    let keys = drawn(&of, &Config { keys: 3000, ..Config::default() });
    let mut drawn_of = vec![0; of.regions().len()];
    for at in 0..keys.len() {
        let region = of.regions().iter().position(|region| region.contains(keys.keys().row(at)));
        drawn_of[region.expect("keys are inside")] += 1;
    }
    let by_rule: Vec<usize> = of.by_rule().map(|(_, regions)| drawn_of[regions].iter().sum()).collect();
    assert!(by_rule.iter().all(|count| (800..1200).contains(count)), "{by_rule:?}");
    assert!(drawn_of[1..8].iter().all(|count| (90..200).contains(count)), "{drawn_of:?}");
}

fn with_seed(of: &Lowered, seed: u64) -> KeyBuf {
    drawn(of, &Config { keys: 100, seed, ..Config::default() })
}

#[test]
fn the_hardest_keys_cost_more_than_others() {
    let set = generate(&rules::Config { rules: 2000, profile: Profile::acl(), ..Default::default() });
    let of = lowered(&set);
    // The cost is the number of rules that a key lies in: only intersections have many.
    let mut count = |keys: firstmatch_core::Keys<'_>, costs: &mut [u64]| {
        for (at, cost) in costs.iter_mut().enumerate() {
            *cost = of.regions().iter().filter(|region| region.contains(keys.row(at))).count() as u64;
        }
    };
    let config = Hardest { keys: 50, drawn: 400, rounds: 0, seed: 1 };
    let (_, plain) = keys::hardest(&of, &config, &mut count).expect("keys");
    let (kept, costs) = keys::hardest(&of, &Hardest { rounds: 20, ..config }, &mut count).expect("keys");
    assert!(costs.is_sorted_by(|one, other| one >= other) && kept.len() == 50);
    assert_eq!(matches(&of, &kept).iter().map(|&count| count as u64).collect::<Vec<_>>(), costs);
    let sum = |costs: &[u64]| costs.iter().sum::<u64>();
    assert!(sum(&costs) > sum(&plain), "{costs:?} {plain:?}");

    let engine = Linear::build(&of, &linear::Config::default()).expect("it builds");
    let engine: &dyn Classifier = &engine;
    let all = generate(&rules::Config { rules: 300, catch_all: true, ..Default::default() });
    let (all, last) = (lowered(&all), 299);
    let linear = Linear::build(&all, &linear::Config::default()).expect("it builds");
    let (_, costs) = keys::hardest(&all, &config, keys::late_matches(&all, &linear)).expect("keys");
    assert!(costs.iter().all(|&cost| cost == last), "each hits the last rule: {costs:?}");
    let (_, costs) = keys::hardest(&of, &config, keys::late_matches(&of, engine)).expect("keys");
    assert!(costs.iter().all(|&cost| cost == 2000), "each hits nothing: {costs:?}");
    assert!(keys::hardest(&of, &Hardest { keys: 0, ..config }, &mut count).expect_err("none").is_config());
    assert!(keys::hardest(&of, &Hardest { drawn: 3, ..config }, &mut count).expect_err("too few").is_config());
}
