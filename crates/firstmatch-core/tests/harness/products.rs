//! Rules kept as products of sets: the same regions, and right answers where a limit refuses the regions.

use std::collections::BTreeSet;

use firstmatch_core::engines::registry::{ENGINES, Settings};
use firstmatch_core::live::{self, Config, Kind, Outcome};
use firstmatch_core::raw::Level;
use firstmatch_core::rule::{
    Action, Condition, ExpansionLimits, Lowered, Priority, Regions, RuleSet, RuleSpec, Test, lower, lower_products,
    lower_rule,
};
use firstmatch_core::schema::Family;
use firstmatch_core::{Budget, Classifier, Schema};

use crate::case::Case;
use crate::corners;
use crate::counter::counted;
use crate::engines::{engines, multiplying};
use crate::generate::{Rules, empty_rule, rule_set, schemas};
use crate::rng::Rng;

/// Limits that no rule of several regions keeps, although each of its conditions does.
fn refusing() -> ExpansionLimits {
    ExpansionLimits { region_bytes: 1, ..ExpansionLimits::default() }
}

/// Returns random rules, the first of which has several regions.
fn compound(schema: &Schema, rng: &mut Rng, count: usize) -> RuleSet {
    let drawn = rule_set(schema, rng, count);
    let mut set = RuleSet::new(schema.clone());
    let field = schema.fields().len() - 1;
    let tests = [1, 3, 4].map(|value| (None, Test::Value(value & schema.fields()[field].max())));
    let conditions = [Condition { field, negated: false, tests: tests.to_vec() }].into();
    set.insert(RuleSpec { conditions, action: Action::Permit, ..empty_rule(Priority(0)) }).expect("it fits");
    for rule in drawn.iter() {
        let priority = Priority(rule.priority.0.saturating_add(1));
        set.insert(RuleSpec { priority, ..rule.spec.clone() }).expect("it fits");
    }
    set
}

fn lowered_within(set: &RuleSet, schema: &Schema, limits: &ExpansionLimits) -> Lowered {
    lower_products(set, schema, limits).expect("each condition keeps the limits")
}

/// The regions of products are those of each rule by itself, in the same order.
#[test]
fn products_have_the_regions_of_their_rules() {
    let mut several = 0;
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        for count in [1, 2, 7, 40, 200] {
            let set = compound(&schema, &mut Rng::new(seed), count);
            let mut regions = Regions::new(schema.words().len());
            let (mut rules, mut ranges, mut never) = (Vec::new(), Vec::new(), Vec::new());
            for rule in set.iter() {
                let found = firstmatch_core::Match { rule: rule.id, priority: rule.priority };
                let own = lower_rule(&schema, rule, &ExpansionLimits::default(), &mut regions).expect("few regions");
                rules.extend(std::iter::repeat_n(found, own));
                if own > 0 {
                    ranges.push((found, regions.len() - own..regions.len()));
                } else {
                    never.push(found);
                }
                several += usize::from(own > 1);
            }
            let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("few regions");
            assert!(lowered.by_rule().eq(ranges.iter().cloned()), "{name}, before regions are made");
            assert_eq!((lowered.region_count(), lowered.unmatchable()), (regions.len(), &never[..]), "{name}");
            assert_eq!((lowered.regions(), lowered.rules()), (&regions, &rules[..]), "{name}");
            assert!(lowered.by_rule().eq(ranges), "{name}, once regions are made");
            let refused = lowered_within(&set, &schema, &refusing());
            assert_eq!(refused.region_count(), regions.len());
            let error = refused.expanded().expect_err("more than a byte");
            assert!(error.rule().is_some() && error.to_string().contains("max-region-bytes"), "{error}");
        }
    }
    assert!(several > 300, "only {several} rules have several regions");
}

/// Engines of products answer as the oracle does although no region may be made; all others name the limit.
#[test]
fn engines_of_products_need_no_regions() {
    let mut built = BTreeSet::new();
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        for (count, packets) in [(1, 100), (6, 200), (30, 300), (150, 600)] {
            let mut rng = Rng::new(seed + 70);
            let set = compound(&schema, &mut rng, count);
            let lowered = lowered_within(&set, &schema, &refusing());
            let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut rng, packets));
            let few = if count < 10 { multiplying() } else { Vec::new() };
            for subject in engines().into_iter().chain(few) {
                match subject.try_build(&lowered, Budget::default()) {
                    Ok(engine) => {
                        case.check_thoroughly(&*engine)
                            .unwrap_or_else(|what| panic!("{}, {name}: {what}", subject.name));
                        built.insert(subject.name.split([':', ' ', ',']).next().unwrap_or_default().to_owned());
                    }
                    Err(error) => {
                        assert!(error.to_string().contains("max-region-bytes"), "{}, {name}: {error}", subject.name);
                    }
                }
            }
        }
    }
    for engine in ["bit_vector", "decomposition", "rfc", "bitmap_rfc", "npf", "linear", "meta"] {
        assert!(built.contains(engine), "no {engine} among {built:?}");
    }
    for engine in ["bit_select", "tuplemerge", "partition_sort", "hicuts"] {
        assert!(!built.contains(engine), "{engine} is among {built:?}");
    }
}

/// Returns rules on groups of addresses and ports, with 400,000 regions each.
fn groups(rules: usize, family: Family) -> RuleSet {
    let mut rng = Rng::new(3);
    let mut list = |count: usize| {
        let host = |_| {
            let [a, b, c] = [(); 3].map(|()| rng.below(256));
            match family {
                Family::Ipv4 => format!("10.{a}.{b}.{c}"),
                Family::Ipv6 => format!("2001:db8:{a:x}::{b:x}:0:{c:x}"),
            }
        };
        let hosts: Vec<String> = (0..count).map(host).collect();
        hosts.join(", ")
    };
    let mut text = format!("family {}\n", family.name());
    for rule in 0..rules {
        let ports: Vec<String> = (0..20).map(|port| (rule + 1000 + 50 * port).to_string()).collect();
        text +=
            &format!("permit tcp src {{ {} }} dst {{ {} }} dport {{ {} }}\n", list(200), list(100), ports.join(", "));
    }
    text += "deny tcp dport 22\npermit udp\n";
    firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).expect("good rules").rules
}

/// Lists of wide addresses are one product in each engine of products; every byte of their numbers counts.
#[test]
fn lists_of_wide_addresses_do_not_multiply() {
    let set = groups(5, Family::Ipv6);
    let schema = &set.schemas()[0];
    let lowered = lowered_within(&set, schema, &ExpansionLimits::default());
    assert!(lowered.region_count() > 1_500_000, "{}", lowered.region_count());
    let case = Case::new(&set, schema, corners::of_set(&set, schema, &mut Rng::new(9), 1000));
    assert!(case.want.iter().flatten().count() > 300);
    for name in ["bit_vector", "decomposition", "rfc", "bitmap_rfc", "npf", "linear", "set_pairs"] {
        let entry = ENGINES.iter().find(|entry| entry.name == name).expect("it is there");
        let mut settings = Settings::default();
        settings.seed = Some(5);
        for level in Level::available() {
            settings.simd = Some(level);
            let (engine, count) = counted(|| (entry.build)(&lowered, &settings).expect("few products"));
            case.check_thoroughly(&*engine).unwrap_or_else(|what| panic!("{name}: {what}"));
            let stats = engine.stats();
            assert_eq!(stats.total_bytes() as isize, count.live - size_of_val(&*engine) as isize, "{name}: {stats:?}");
            assert_eq!((stats.rules, stats.regions), (set.len(), lowered.region_count()), "{name}");
            let (mut scratch, mut best) = (engine.scratch(), vec![None; case.packets.len()]);
            engine.classify_batch(&mut scratch, case.keys.keys(), &mut best);
            let ((), lookup) = counted(|| engine.classify_batch(&mut scratch, case.keys.keys(), &mut best));
            assert_eq!(lookup.calls, 0, "{name} allocates in a lookup");
            let counts = engine.count_batch(&mut scratch, &case.keys.keys(), &mut best);
            assert!(counts.get("lines").is_some_and(|lines| lines > 0), "{name}: {counts}");
            let needed = stats.total_bytes();
            for run_bytes in [needed, needed - 1, 100] {
                settings.budget = Budget { run_bytes };
                match (entry.build)(&lowered, &settings) {
                    // An engine may find a smaller plan.
                    Ok(engine) => assert!(engine.stats().total_bytes() <= run_bytes, "{name}, {run_bytes}"),
                    Err(error) => {
                        assert!(error.budget_exceeded() && run_bytes < needed, "{name}, {run_bytes}: {error}");
                    }
                }
            }
            settings.budget = Budget::default();
        }
        settings.build_bytes = 10_000;
        assert!((entry.build)(&lowered, &settings).is_err_and(|error| error.budget_exceeded()), "{name}");
    }
}

/// With far more regions than products, the choice takes an engine of products, and names the regions of all others.
#[test]
fn the_choice_leaves_engines_of_regions_out() {
    for (rules, limits) in [(12, ExpansionLimits::default()), (2, refusing())] {
        let set = groups(rules, Family::Ipv4);
        let lowered = lowered_within(&set, &set.schemas()[0], &limits);
        assert!(lowered.region_count() > 300_000 * rules);
        let engine = live::Engine::build(&lowered, &Config::default()).expect("an engine of products fits");
        let explained = engine.explain();
        assert_eq!(explained.kind, Kind::BitVector);
        for kind in [Kind::BitSelect, Kind::TupleMerge, Kind::Linear] {
            let of = explained.candidates.iter().find(|candidate| candidate.kind == kind).expect("every kind");
            let needed = lowered.region_count();
            assert!(matches!(of.outcome, Outcome::TooManyRegions { needed: is, .. } if is == needed), "{explained}");
        }
        let packets = corners::of_set(&set, &set.schemas()[0], &mut Rng::new(9), 2000);
        let case = Case::new(&set, &set.schemas()[0], packets);
        assert!(case.want.iter().flatten().count() > 500);
        case.check_thoroughly(&engine).unwrap_or_else(|what| panic!("{what}"));
        assert!(Classifier::stats(&engine).total_bytes() < 8 << 20, "{:?}", Classifier::stats(&engine));
    }
}

/// Rules beyond the limits change as others do: commits, rebuilds, and rules that come back.
#[test]
fn rules_without_regions_change() {
    for (name, schema) in schemas().into_iter().filter(|(name, _)| ["ipv4", "ipv6", "ternary"].contains(name)) {
        let mut rng = Rng::new(21);
        let set = compound(&schema, &mut rng, 60);
        let mut fresh = Rules::new(&schema, &mut rng, 60);
        let config = Config { expansion: refusing(), ..Config::default() };
        let (engines, mut writer) = live::open(set, &config).expect("an engine of products fits");
        for round in 0..6u64 {
            let ids: Vec<_> = writer.rules().iter().map(|rule| rule.id).collect();
            let mut transaction = writer.begin();
            for id in ids.iter().skip(1).step_by(7) {
                transaction.remove(*id).expect("it is there");
            }
            for at in 0..5 {
                let priority = Priority(rng.next() >> 8 << 8 | round << 4 | at);
                transaction.insert(RuleSpec { priority, ..fresh.rule(&mut rng) }).expect("it fits");
            }
            transaction.commit().expect("there is room");
            for is_rebuilt in [false, true] {
                if is_rebuilt {
                    let rebuilt = writer.begin_rebuild().run().expect("an engine of products fits");
                    writer.install(rebuilt).expect("it is of this writer");
                }
                let packets = corners::of_set(writer.rules(), &schema, &mut rng, 300);
                let case = Case::new(writer.rules(), &schema, packets);
                case.check(&engines[0]).unwrap_or_else(|what| panic!("{name}, round {round}, {is_rebuilt}: {what}"));
            }
        }
    }
}
