//! Tests of the base that `meta` takes, of what it refuses, and of rules that outgrow a kind.

use firstmatch_core::live::{
    self, Calls, Candidate, Cap, Config, Engine, Explanation, Kind, Limits, Outcome, Strategy, Writer,
};
use firstmatch_core::rule::{ExpansionLimits, Lowered, Priority, RuleSet, RuleSpec, lower};
use firstmatch_core::{Budget, Classifier, KeyBuf, Schema};

use crate::case::Case;
use crate::corners;
use crate::generate::{Rules, rule_set, schemas};
use crate::rng::Rng;

fn lowered(rules: usize) -> Lowered {
    let schema = Schema::ipv4();
    lower(&rule_set(&schema, &mut Rng::new(rules as u64), rules), &schema, &ExpansionLimits::default())
        .expect("within the caps")
}

fn by_order() -> Config {
    Config { strategy: Strategy::FirstFit, ..Config::default() }
}

fn outcomes(explained: &Explanation) -> Vec<Outcome> {
    explained.candidates.iter().map(|of| of.outcome).collect()
}

/// Returns the cap that refused a candidate, which states the need and the limit.
fn refused_by(candidate: &Candidate) -> Option<Cap> {
    let Outcome::Refused { cap, needed, allowed } = candidate.outcome else { return None };
    let said = candidate.to_string();
    assert!(needed > allowed && said.contains(&needed.to_string()) && said.contains(&allowed.to_string()), "{said}");
    Some(cap)
}

/// Returns the nanoseconds of a candidate on each sort of traffic, if it was timed.
fn nanos(of: &Candidate) -> Option<Vec<f64>> {
    let each: Vec<f64> = of.nanos.iter().flatten().copied().collect();
    (!each.is_empty()).then_some(each)
}

/// Returns the worst ratio of a candidate's times to the least of all.
///
/// `slack` nanoseconds more than the least count for nothing.
fn worst_ratio(all: &[Vec<f64>], own: &[f64], slack: f64) -> f64 {
    let ratio = |(at, own): (usize, &f64)| {
        let least = all.iter().map(|of| of[at]).fold(*own, f64::min);
        if *own <= least + slack { 1.0 } else { own / least }
    };
    own.iter().enumerate().map(ratio).fold(1.0, f64::max)
}

/// The candidate taken has the least worst ratio, or hardly more and is earlier; all that fit are timed.
#[test]
fn the_least_worst_ratio_is_chosen() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        for rules in [9, 40, 400] {
            let set = rule_set(&schema, &mut Rng::new(seed), rules);
            let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
            let explained = Engine::build(&lowered, &Config::default()).expect("no budget").explain();
            let timed: Vec<&Candidate> = explained.candidates.iter().filter(|of| of.nanos[0].is_some()).collect();
            if lowered.regions().len() <= 8 {
                assert!(timed.is_empty() && explained.kind == Kind::Linear, "{name}: {explained}");
                continue;
            }
            let is_out = |outcome| {
                matches!(outcome, Outcome::Outgrown { .. } | Outcome::Refused { .. })
                    || matches!(outcome, Outcome::GoodWithout { .. } | Outcome::SmallWithout { .. })
            };
            let out = explained.candidates.iter().filter(|of| is_out(of.outcome)).count();
            assert!(timed.len() >= 2 && timed.len() + out == Kind::ALL.len(), "{name}: {explained}");
            let compared: Vec<&Candidate> = explained.candidates.iter().filter(|of| of.ratio.is_some()).collect();
            let times: Vec<Vec<f64>> = compared.iter().filter_map(|of| nanos(of)).collect();
            assert_eq!(times.len(), compared.len(), "{name}: {explained}");
            let ratios: Vec<f64> = times.iter().map(|own| worst_ratio(&times, own, 0.25)).collect();
            let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
            let first = ratios.iter().position(|&ratio| ratio <= 1.05 * least).expect("the least is");
            assert_eq!(compared[first].kind, explained.kind, "{name}: {explained}");
            for (of, ratio) in compared.iter().zip(&ratios) {
                assert_eq!(of.ratio, Some(*ratio), "{name}: {explained}");
                let outcome = if of.kind == explained.kind { Outcome::Chosen } else { Outcome::Slower };
                assert_eq!(of.outcome, outcome, "{name}: {explained}");
            }
            assert!(explained.compared <= 1 << 26, "{explained:?}");
            // Where a trial has no room for timing the order decides.
            for trial in [1, 1 << 12, 1 << 15, 1 << 18] {
                let poor =
                    Engine::build(&lowered, &Config { trial: Some(trial), ..Config::default() }).expect("ok").explain();
                assert!(poor.compared <= trial, "{trial}: {} visits, {poor}", poor.compared);
                let is_timed = poor.candidates.iter().any(|of| of.nanos[0].is_some());
                assert!(is_timed || poor.kind == Kind::BitSelect, "{poor}");
                assert!(trial > 1 || !is_timed, "{poor}");
            }
        }
    }
}

fn of_text(text: &str) -> Lowered {
    let set = rules_of(text);
    lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the caps")
}

fn rules_of(text: &str) -> RuleSet {
    firstmatch_formats::parse(&format!("family ipv4\n{text}"), &firstmatch_formats::Options::default())
        .expect("rules")
        .rules
}

/// Wide first rules, each of which decides about most keys of the rules below.
const FIRST: [&str; 4] = ["deny src not 10.0.0.0/8", "permit src not 198.51.100.0/24", "permit tcp", "permit"];

/// Returns firewall-like rules below a first one: hosts, networks, ports, both ways.
fn below(first: &str, rules: u32) -> String {
    let mut text = format!("{first}\n");
    let mut rng = Rng::new(1);
    for at in 0..rules {
        let [a, b] = [(); 2].map(|()| rng.below(1 << 16) as u32);
        let (src, length) = ([10, 172, 192, 198][at as usize % 4], [16, 24, 24, 32][a as usize % 4]);
        let mask = u32::MAX << (32 - length);
        let network = u32::from_be_bytes([src, (a >> 8) as u8, a as u8, b as u8]) & mask;
        let [w, x, y, z] = network.to_be_bytes();
        let proto = ["tcp", "udp", "tcp"][b as usize % 3];
        let way = if at % 5 == 0 {
            format!("dst {w}.{x}.{y}.{z}/{length}")
        } else {
            format!("src {w}.{x}.{y}.{z}/{length} dst 10.{}.0.0/16", b >> 8)
        };
        text.push_str(&format!("permit {proto} {way} dport {}\n", 1 + b % 4000));
    }
    text
}

fn measured() -> Config {
    Config { seed: Some(1), ..Config::default() }
}

/// Panics unless the base was timed, has the least worst ratio or hardly more, and keeps the default limits.
fn check_is_good(what: &str, explained: &Explanation) {
    let ratios = explained.candidates.iter().filter_map(|of| of.ratio);
    let least = ratios.fold(f64::INFINITY, f64::min);
    let chosen = explained.candidates.iter().find(|of| of.outcome == Outcome::Chosen).expect("one is");
    assert!(chosen.ratio.expect("it was timed") <= 1.05 * least, "{what}: {explained}");
    assert!(!explained.is_over_defaults && explained.base.worst_tests <= Limits::WORST_TESTS, "{what}: {explained}");
    assert!(explained.base.worst_lines <= Limits::WORST_LINES, "{what}: {explained}");
}

/// A wide first rule does not make its own keys decide.
///
/// Once it is removed, a rebuild is due and chooses anew.
#[test]
fn a_wide_first_rule_does_not_choose_alone() {
    for first in FIRST {
        let rules = rules_of(&below(first, 6_000));
        let wide = rules.iter().next().expect("it is the first").id;
        let (engines, mut writer) = live::open(rules, &measured()).expect("no budget");
        let explained = engines[0].explain();
        assert!([Kind::BitSelect, Kind::TupleMerge].contains(&explained.kind), "{first}: {explained}");
        check_is_good(first, &explained);
        assert!(!writer.rebuild_is_due(), "{first}");
        let mut transaction = writer.begin();
        transaction.remove(wide).expect("it is live");
        transaction.commit().expect("a removal has room");
        assert!(writer.rebuild_is_due(), "{first}: what the choice rested on is gone");
        let rebuilt = writer.begin_rebuild().run().expect("no budget");
        writer.install(rebuilt).expect("the last");
        let explained = engines[0].explain();
        assert!(!outcomes(&explained).contains(&Outcome::Kept), "{first}: {explained}");
        assert!([Kind::BitSelect, Kind::TupleMerge].contains(&explained.kind), "{first}: {explained}");
        check_is_good(first, &explained);
        assert!(!writer.rebuild_is_due(), "{first}");
    }
}

/// Returns `count` addresses.
fn addresses(count: usize, rng: &mut Rng) -> String {
    let address = |_| std::net::Ipv4Addr::from(rng.next() as u32).to_string();
    (0..count).map(address).collect::<Vec<_>>().join(", ")
}

/// Returns rules over groups of addresses and ports: each has 12 sources, 5 destinations and 4 ports, or 240 regions.
fn over_groups(rules: usize) -> String {
    let mut rng = Rng::new(3);
    let groups: Vec<[String; 2]> = (0..12).map(|_| [12, 5].map(|count| addresses(count, &mut rng))).collect();
    let rule = |_| {
        let [[src, _], [_, dst]] = [(); 2].map(|()| &groups[rng.below(groups.len())]);
        let port = 2 * rng.below(4000);
        let ports = [1, 3, 5, 7].map(|more| (port + more).to_string()).join(", ");
        format!("permit tcp src {{ {src} }} dst {{ {dst} }} dport {{ {ports} }}\n")
    };
    (0..rules).map(rule).collect()
}

/// A set of many regions and few products can have vectors, because these need a bit a product.
///
/// Other kinds need an entry a region, or test identical rules one by one. In two sets vectors are so much faster that
/// they are taken at any optimisation of the tests.
#[test]
fn many_regions_of_few_products_can_have_vectors() {
    let not = |count| format!("src not {{ {} }}", addresses(count, &mut Rng::new(2)));
    for (name, text, products, is_certain) in [
        ("identical rules", "permit tcp\n".repeat(3_000) + "deny udp\n", 3_001, true),
        ("groups", over_groups(40), 40, false),
        ("a negated list", format!("permit {} dport {{ 80, 443 }}\n", not(1_200)), 1, true),
        ("a negated list above rules", below(&format!("deny {}", not(2_200)), 300), 301, false),
    ] {
        let set = of_text(&text);
        assert!(set.regions().len() > 2048, "{name}");
        let explained = Engine::build(&set, &Config { trial: Some(1 << 23), ..measured() }).expect("ok").explain();
        let vectors = explained.candidates.iter().find(|of| of.kind == Kind::BitVector).expect("it is listed");
        assert!(vectors.ratio.is_some() && vectors.takes.map(|of| of[2]) == Some(products), "{name}: {explained}");
        assert!(explained.kind == Kind::BitVector || !is_certain, "{name}: {explained}");
        check_is_good(name, &explained);
    }
}

/// Where callers look up one packet at a time, candidates are timed so, and the one taken is not far slower than
/// another.
#[test]
fn single_packets_choose_by_their_own_times() {
    let set = of_text(&below("permit src not 198.51.100.0/24", 300));
    let config = Config { calls: Calls::Packets, trial: Some(1 << 23), ..measured() };
    let explained = Engine::build(&set, &config).expect("no budget").explain();
    let is_left_out = |of: &Candidate| matches!(of.outcome, Outcome::GoodWithout { .. } | Outcome::SmallWithout { .. });
    assert!(explained.candidates.iter().all(|of| nanos(of).is_some() != is_left_out(of)), "{explained}");
    check_is_good("single packets", &explained);
}

/// Vectors that outgrow 1 MiB are refused with both numbers, unless they are asked for.
#[test]
fn large_vectors_are_refused() {
    let set = of_text(&below("permit", 6_000));
    let explained = Engine::build(&set, &measured()).expect("no budget").explain();
    let outcome = outcomes(&explained)[1];
    assert!(matches!(outcome, Outcome::Outgrown { needed, allowed: 1_048_576 } if needed > 1 << 20), "{explained}");
    let forced = Config { strategy: Strategy::Force(Kind::BitVector), ..measured() };
    let asked = Engine::build(&set, &forced).expect("no budget").explain();
    assert!(asked.base.total_bytes() > 1 << 20, "{asked}");
}

/// Identical rules are all kept: each is found once those before it are removed.
#[test]
fn identical_rules_come_to_light_one_by_one() {
    let rules = rules_of(&("permit tcp\n".repeat(600) + "deny udp\n"));
    let ids: Vec<_> = rules.iter().map(|rule| rule.id).collect();
    for strategy in [Strategy::Measure, Strategy::Force(Kind::BitVector)] {
        let config = Config { strategy, dead: Some(1_000), ..measured() };
        let (engines, mut writer) = live::open(rules.clone(), &config).expect("no budget");
        let mut keys = KeyBuf::new(engines[0].schema());
        [6, 17, 1].into_iter().for_each(|protocol| keys.push()[4] = protocol);
        for (at, &id) in ids.iter().enumerate().take(600) {
            let mut found = [None; 3];
            engines[0].classify_batch(&mut engines[0].scratch(), keys.keys(), &mut found);
            let found = found.map(|found| found.map(|found| found.rule));
            assert_eq!(found, [Some(id), Some(ids[600]), None], "{strategy:?}: {at} removed");
            let mut transaction = writer.begin();
            transaction.remove(id).expect("it is live");
            transaction.commit().expect("a removal has room");
        }
    }
}

/// Where every candidate may walk far, the least bad is taken, and the explanation says so.
#[test]
fn where_no_candidate_is_good_the_least_bad_is_taken() {
    let alike = "permit tcp dport 80\n".repeat(5_000);
    let nested: String = (0..5_000).map(|at| format!("deny tcp dport {}-{}\n", 30_000 - at, 30_000 + at)).collect();
    let masks: String =
        (0..600).map(|at| format!("deny dst 0.{0}.0.{1}/0.{0}.0.255\n", 1 + at % 255, at % 256)).collect();
    // Vectors test many regions at once, so that alike and nested rules are good. Nested ones need room for them.
    for (text, run_bytes, is_bad, is_refused) in [
        (alike, usize::MAX, false, true),
        (nested.clone(), usize::MAX, false, true),
        (nested, 1 << 20, true, true),
        (masks, usize::MAX, false, false),
    ] {
        let set = of_text(&text);
        let config = Config { budget: Budget { run_bytes }, ..measured() };
        let explained = Engine::build(&set, &config).expect("some candidate fits").explain();
        assert_eq!(explained.is_over_defaults, is_bad, "{explained}");
        assert_eq!(explained.to_string().contains("no candidate that fits keeps the default limits"), is_bad);
        // A limit that was set is kept, or refuses.
        let limits = Limits { worst_tests: Some(Limits::WORST_TESTS), ..Limits::default() };
        let limited = Engine::build(&set, &Config { limits, ..config });
        assert_eq!(limited.is_err(), is_refused, "{explained}");
        assert_eq!(limited.err().and_then(|error| error.cap()), is_refused.then_some(Cap::WorstTests));
    }
}

/// A far worse worst case is taken only if the kind is far faster on every sort of traffic.
///
/// Here it is a hundred times another's.
#[test]
fn a_far_worse_worst_case_is_not_taken() {
    let explained = Engine::build(&of_text(&below("permit", 3_000)), &measured()).expect("ok").explain();
    let tests = |of: &Candidate| of.takes.map_or(usize::MAX, |[_, _, tests]| tests);
    let least = explained.candidates.iter().map(tests).min().expect("some");
    let linear = explained.candidates.iter().find(|of| of.kind == Kind::Linear).expect("always");
    assert!(tests(linear) >= 100 * least, "{explained}");
    assert!(matches!(linear.outcome, Outcome::HardlyFaster { .. }), "{explained}");
    // Over the default limits it is not even timed.
    let explained = Engine::build(&of_text(&below("permit", 5_000)), &measured()).expect("ok").explain();
    let linear = explained.candidates.iter().find(|of| of.kind == Kind::Linear).expect("always");
    let is_deep =
        matches!(linear.outcome, Outcome::Deep { needed, allowed: Limits::WORST_TESTS, .. } if needed > 5_000);
    assert!(is_deep && linear.nanos == [None; 5], "{explained}");
}

/// A rebuild is due once fewer than half of the rules are left, however few that are.
#[test]
fn a_rebuild_is_due_when_most_rules_are_gone() {
    let rules = rules_of(&below("deny src 10.9.9.9", 300));
    let ids: Vec<_> = rules.iter().map(|rule| rule.id).collect();
    let (_engines, mut writer) = live::open(rules, &measured()).expect("no budget");
    for (at, &id) in ids.iter().enumerate().take(151) {
        assert!(!writer.rebuild_is_due(), "after {at}");
        let mut transaction = writer.begin();
        transaction.remove(id).expect("it is live");
        transaction.commit().expect("a removal has room");
    }
    assert!(writer.rebuild_is_due());
}

/// A rebuild keeps the kind while the rules are about as many; otherwise it chooses anew.
#[test]
fn a_rebuild_keeps_the_kind_until_the_rules_are_others() {
    let schema = Schema::ipv4();
    let (engines, mut writer) = live::open(rule_set(&schema, &mut Rng::new(5), 300), &Config::default()).expect("ok");
    let first = engines[0].explain();
    assert!(first.candidates.iter().filter(|of| of.nanos[0].is_some()).count() >= 2, "{first}");
    let mut rules = Rules::new(&schema, &mut Rng::new(6), 900);
    let (mut kept, mut anew) = (0, 0);
    for round in 0..12u64 {
        let mut transaction = writer.begin();
        let mut rng = Rng::new(100 + round);
        for at in 0..60 {
            let priority = Priority((1 << 60) + round * 1000 + at);
            transaction.insert(RuleSpec { priority, ..rules.rule(&mut rng) }).expect("it fits");
        }
        transaction.commit().expect("the overlay has room");
        let before = engines[0].explain().kind;
        let rebuilt = writer.begin_rebuild().run().expect("no budget");
        writer.install(rebuilt).expect("the last");
        let explained = engines[0].explain();
        if outcomes(&explained).contains(&Outcome::Kept) {
            assert!([before, Kind::BitSelect].contains(&explained.kind), "{explained}");
            kept += 1;
        } else {
            assert!(explained.candidates.iter().filter(|of| of.nanos[0].is_some()).count() >= 2, "{explained}");
            anew += 1;
        }
    }
    assert!(kept >= 4 && anew >= 1, "{kept} kept, {anew} chosen anew");
}

/// A base that takes changes in place is preferred where rules change.
///
/// It takes the place of one that does not and is less than twice as fast. Where none is to be changed in place, the
/// fastest stays.
#[test]
fn rules_that_change_get_a_base_that_changes() {
    let schema = Schema::ipv4();
    for in_place in [None, Some(0)] {
        let config = Config { in_place, ..Config::default() };
        let mut was_vectors = 0;
        for rules in [200, 400, 800, 1600] {
            let (engines, mut writer) = live::open(rule_set(&schema, &mut Rng::new(5), rules), &config).expect("ok");
            let first = engines[0].explain();
            let of = |kind: Kind| {
                let of = first.candidates.iter().find(|of| of.kind == kind);
                of.and_then(nanos).unwrap_or_default()
            };
            let slower = of(Kind::BitSelect).into_iter().zip(of(first.kind)).map(|(own, chosen)| own / chosen);
            let slower = slower.fold(0.0, f64::max);
            let rule = Rules::new(&schema, &mut Rng::new(6), rules).rule(&mut Rng::new(7));
            let mut transaction = writer.begin();
            transaction.insert(RuleSpec { priority: Priority(1 << 60), ..rule }).expect("it fits");
            transaction.commit().expect("the overlay has room");
            let rebuilt = writer.begin_rebuild().run().expect("no budget");
            writer.install(rebuilt).expect("the last");
            let takes_over = in_place.is_none() && slower <= 2.0;
            let expected = if takes_over { Kind::BitSelect } else { first.kind };
            assert_eq!(engines[0].explain().kind, expected, "{first}");
            was_vectors += usize::from(first.kind == Kind::BitVector);
        }
        assert!(was_vectors > 0, "no set is for vectors");
    }
}

/// Every cap refuses by name and number, and a kind that keeps it is taken.
///
/// The error says so where none does.
#[test]
fn limits_are_kept() {
    let free = Engine::build(&lowered(300), &by_order()).expect("no limit").explain();
    let visits = free.candidates[0].visits.expect("it was built");
    for trial in [Some(0), None] {
        let with = |limits| Engine::build(&lowered(300), &Config { limits, trial, ..Config::default() });
        for (cap, limits) in [
            (Cap::WorstLines, Limits { worst_lines: Some(free.base.worst_lines - 1), ..Limits::default() }),
            (Cap::WorstTests, Limits { worst_tests: Some(free.base.worst_tests - 1), ..Limits::default() }),
            (Cap::BuildBytes, Limits { build_bytes: free.base.total_bytes(), ..Limits::default() }),
            (Cap::BuildVisits, Limits { build_visits: visits - 1, ..Limits::default() }),
        ] {
            match with(limits) {
                Ok(engine) => {
                    let explained = engine.explain();
                    assert!(refused_by(&explained.candidates[0]) == Some(cap), "{explained}");
                    assert!(limits.worst_lines.is_none_or(|most| explained.base.worst_lines <= most), "{explained}");
                    assert!(limits.worst_tests.is_none_or(|most| explained.base.worst_tests <= most), "{explained}");
                }
                Err(error) => assert!(error.budget_exceeded() && error.to_string().contains("the limit is"), "{error}"),
            }
        }
        let enough = with(Limits { build_visits: visits, ..Limits::default() }).expect("it fits").explain();
        assert_eq!((enough.candidates[0].visits, refused_by(&enough.candidates[0])), (Some(visits), None), "{enough}");
        let nothing = with(Limits { worst_tests: Some(0), ..Limits::default() }).expect_err("every packet is tested");
        let said = nothing.to_string();
        assert!(
            said.starts_with("a packet can be tested against ") && said.ends_with(" regions, the limit is 0"),
            "{said}"
        );
    }
}

/// The explanation names the chosen kind, and why the others were not taken.
#[test]
fn the_choice_is_explained() {
    let chosen = |rules: usize, config: &Config| Engine::build(&lowered(rules), config).expect("it fits").explain();
    let two = firstmatch_formats::parse(
        "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n",
        &firstmatch_formats::Options::default(),
    )
    .expect("rules");
    let two = lower(&two.rules, &two.rules.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
    let few = Engine::build(&two, &Config::default()).expect("it fits").explain();
    assert_eq!(
        (few.kind, outcomes(&few)),
        (Kind::Linear, [vec![Outcome::FewRegions; Kind::ALL.len() - 1], vec![Outcome::Chosen]].concat())
    );
    let many = chosen(300, &by_order());
    assert_eq!(many.kind, Kind::BitSelect);
    assert_eq!(outcomes(&many), [vec![Outcome::Chosen], vec![Outcome::NotNeeded; Kind::ALL.len() - 1]].concat());
    // With less than it takes, the next kind is tried. The last always fits where the budget is not absurd.
    for trial in [Some(0), None] {
        let budget = Budget { run_bytes: many.bytes - many.base.total_bytes() / 2 };
        let tight = chosen(300, &Config { budget, trial, ..Config::default() });
        assert_eq!(tight.kind, Kind::Linear, "{tight}");
        for candidate in &tight.candidates[..Kind::ALL.len() - 1] {
            assert!(refused_by(candidate) == Some(Cap::RunBytes), "{candidate}");
        }
        assert!(tight.bytes <= budget.run_bytes);
    }
    for &kind in Kind::ALL {
        let forced = chosen(300, &Config { strategy: Strategy::Force(kind), ..Config::default() });
        assert_eq!((forced.kind, kind.name().parse(), kind.to_string()), (kind, Ok(kind), kind.name().to_owned()));
        assert!(forced.candidates.iter().all(|of| (of.kind == kind) == (of.outcome == Outcome::Chosen)));
    }
    assert!("quick".parse::<Kind>().expect_err("no kind").to_string().contains("expected one of bit_select,"));
    let nothing = Engine::build(&lowered(300), &Config { budget: Budget { run_bytes: 10_000 }, ..Config::default() });
    assert!(nothing.expect_err("too little").budget_exceeded());
}

/// The fallback fits in 24 bytes a region, 8 a word (16 a ternary one), and a mebibyte.
#[test]
fn the_fallback_fits() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        let set = rule_set(&schema, &mut Rng::new(seed), 5_000);
        let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
        let key_words = schema.words().len() + lowered.regions().ternary_words().len();
        let run_bytes = lowered.regions().len() * (8 * key_words + 24) + (1 << 20);
        let engine = Engine::build(&lowered, &Config { budget: Budget { run_bytes }, ..Config::default() });
        let engine = engine.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(engine.explain().bytes <= run_bytes, "{name}");
        let forced =
            Config { budget: Budget { run_bytes }, strategy: Strategy::Force(Kind::Linear), ..Config::default() };
        assert!(Engine::build(&lowered, &forced).is_ok(), "{name}");
    }
}

/// A forced kind that the first rules outgrow is refused.
///
/// Later rules that outgrow it have another base for as long as they are too many.
#[test]
fn a_kind_that_no_longer_fits_is_replaced() {
    let schema = Schema::ipv4();
    let rules = rule_set(&schema, &mut Rng::new(8), 100);
    let base = |engine: &Engine| engine.explain().base;
    let kind = Some(Kind::BitVector);
    let (engines, _writer) =
        live::open(rules.clone(), &Config { strategy: kind.into(), ..Config::default() }).expect("no budget");
    let most = Some(base(&engines[0]).worst_tests);
    let with = |worst_tests| Config {
        strategy: kind.into(),
        limits: Limits { worst_tests, ..Limits::default() },
        ..Config::default()
    };
    let error =
        live::open(rules.clone(), &with(most.map(|most| most - 1))).expect_err("it was asked for and does not fit");
    assert!(error.budget_exceeded() && error.to_string().contains("the limit is"), "{error}");

    let (engines, mut writer) = live::open(rules, &with(most)).expect("it fits");
    let rebuild = |writer: &mut Writer| {
        let rebuilt = writer.begin_rebuild().run().expect("something fits");
        writer.install(rebuilt).expect("the last");
        let explained = engines[0].explain();
        let case = corners::of_set(writer.rules(), &schema, &mut Rng::new(4), 200);
        Case::new(writer.rules(), &schema, case).check(&engines[0]).expect("right");
        assert_eq!(explained.asked, kind);
        explained
    };
    let id = writer.rules().iter().next().expect("some are live").id;
    for round in 0..2 {
        let spec = writer.rules().get(id).expect("it is live").spec.clone();
        let mut transaction = writer.begin();
        let more = transaction.insert(RuleSpec { priority: Priority(7), ..spec }).expect("it fits");
        transaction.commit().expect("the overlay has room");
        let other = if round == 0 {
            rebuild(&mut writer)
        } else {
            writer.renumber().expect("something fits");
            engines[0].explain()
        };
        assert_eq!(other.kind, Kind::BitSelect, "{other}");
        assert_eq!(refused_by(&other.candidates[1]), Some(Cap::WorstTests), "{other}");
        assert!(other.to_string().contains("bit_vector  asked for; refused: "), "{other}");
        let mut transaction = writer.begin();
        transaction.remove(more).expect("it is live");
        transaction.commit().expect("a removal has room");
        let again = rebuild(&mut writer);
        assert_eq!((again.kind, again.candidates[0].outcome), (Kind::BitVector, Outcome::NotAsked), "{again}");
    }
}
