//! Tests that a trace hits every rule that can be hit, and names each header's first match.

use std::collections::{BTreeMap, BTreeSet};

use super::common::{digest, generate, profiles};
use firstmatch_core::rule::{FieldValues, first_match};
use firstmatch_core::schema::{Family, Field, Schema, Source};
use firstmatch_core::{RuleId, RuleSet};
use firstmatch_formats::Options;
use firstmatch_generate::profile::Profile;
use firstmatch_generate::rules::{self, Families};
use firstmatch_generate::trace::{self, Config, Coverage, Form, Header, Locality, MIN_FRAME, Trace};
use firstmatch_net::source::{Input, Limits, from_reader};
use firstmatch_net::wire::{self, Batch, Outcome};
use firstmatch_testkit::rng::Rng;

fn set(profile: Profile, rules: usize, families: Families) -> RuleSet {
    generate(&rules::Config { rules, seed: 5, profile, families, ..Default::default() })
}

fn trace(set: &RuleSet, config: &Config) -> Trace {
    trace::generate(set, config).unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

fn values(header: &Header) -> FieldValues {
    let Header { src, dst, sport, dport, proto, .. } = *header;
    let values = [src, dst, sport.into(), dport.into(), proto.into()];
    FieldValues { family: Some(header.family), values: values.into_iter().map(Some).collect() }
}

/// Checks the rule of every `step`-th header against the oracle.
fn check(set: &RuleSet, trace: &Trace, step: usize) {
    let ids: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
    for header in trace.iter().step_by(step) {
        let expected = first_match(set, &values(header)).map(|rule| rule.id);
        assert_eq!(header.rule.map(|rule| ids[rule as usize]), expected, "{header:?}");
    }
}

fn hit(trace: &Trace) -> BTreeSet<u32> {
    trace.iter().filter_map(|header| header.rule).collect()
}

#[test]
fn every_rule_that_can_be_hit_is_hit() {
    for profile in profiles() {
        for families in [Families::Ipv4, Families::Ipv6, Families::Both { ipv6: 0.4 }] {
            for (rules, step) in [(1, 1), (100, 1), (5000, 25)] {
                let set = set(profile.clone(), rules, families);
                let trace = trace(&set, &Config { headers: 2 * rules + 10, ..Config::default() });
                assert_eq!(trace.len(), 2 * rules + 10);
                check(&set, &trace, step);
                let covered = trace.coverage();
                let name = &profile.name;
                assert_eq!((covered.rules, covered.hit), (rules, hit(&trace).len()), "{name}");
                assert_eq!(covered.hit + covered.unreachable.len() + covered.given_up.len(), rules);
                assert!(covered.given_up.is_empty(), "{name}: {} given up", covered.given_up.len());
                assert!(covered.unreachable.len() * 100 <= rules, "{name}: {}", covered.unreachable.len());
            }
        }
    }
}

/// Tries every header of small domains to confirm the rules proved unreachable.
#[test]
fn what_is_proved_unreachable_is_unreachable() {
    let mut proved = 0;
    for seed in 0..40u64 {
        let mut text = "family ipv4\n".to_owned();
        let mut random = Rng::new(seed);
        let mut below = |n: usize| random.below(n);
        for _ in 0..24 {
            let (a, b) = (below(8), below(8));
            let (lo, hi) = (a.min(b), a.max(b));
            let (len, top) = (30 + below(3), below(4));
            let src = top >> (32 - len) << (32 - len);
            let list = format!("{{ {}, {} }}", below(8), below(8));
            text += &match below(5) {
                0 => format!("permit src 10.0.0.{src}/{len} sport {lo}-{hi} proto 6\n"),
                1 => format!("permit src 10.0.0.{src}/{len} dport {lo}-{hi}\n"),
                2 => format!("permit src 10.0.0.0/30 dport {list}\n"),
                3 => format!("permit src 10.0.0.{src}/{len} dport not 0-{hi} sport not {lo}\n"),
                _ => format!("permit src 10.0.0.0/255.0.0.{} dport 0x0/0x{lo:x} proto {{ 6, 17 }}\n", 252 + (top & 1)),
            };
        }
        let set = firstmatch_formats::parse(&text, &Options::default()).expect("it parses").rules;
        let tries = Config { headers: 500, tries: 20_000, seed, ..Config::default() };
        let trace = trace(&set, &tries);
        check(&set, &trace, 1);
        let mut reachable = BTreeSet::new();
        for (src, port) in (0..8u128).flat_map(|src| (0..10 * 10u128).map(move |port| (src, port))) {
            for proto in [0, 6, 17] {
                let edge = |port| if port == 9 { 65535 } else { port };
                let values = [0x0A00_0000 + src, 0, edge(port / 10), edge(port % 10), proto];
                let packet = FieldValues { family: Some(Family::Ipv4), values: values.map(Some).into() };
                reachable.extend(first_match(&set, &packet).map(|rule| rule.id));
            }
        }
        let covered = trace.coverage();
        proved += covered.unreachable.len();
        assert!(covered.unreachable.iter().all(|rule| !reachable.contains(rule)), "{text}");
        let ids: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
        let hit: BTreeSet<RuleId> = hit(&trace).into_iter().map(|place| ids[place as usize]).collect();
        let missed = reachable.difference(&hit).filter(|rule| !covered.given_up.contains(rule)).count();
        assert_eq!(missed, 0, "{text}");
    }
    assert!(proved > 100, "{proved}");
}

#[test]
fn shadowed_rules_and_copies_are_proved_unreachable() {
    let config = rules::Config { rules: 2000, duplicates: 0.1, shadowed: 0.2, ..Default::default() };
    let set = generate(&config);
    let trace = trace(&set, &Config { headers: 5000, ..Config::default() });
    let covered = trace.coverage();
    assert_eq!((covered.hit, covered.unreachable.len(), covered.given_up.len()), (1400, 600, 0));
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let set = set(Profile::fw(), 500, Families::Both { ipv6: 0.5 });
    let bytes = |seed| {
        let config = Config { headers: 4000, seed, unmatched: 0.1, ..Config::default() };
        let mut bytes = Vec::new();
        trace(&set, &config).write(&mut bytes).expect("written");
        digest(&bytes)
    };
    assert_eq!(bytes(3), DIGEST, "what seeds give has changed: that is a change of version");
    assert_ne!(bytes(4), DIGEST);
}

const DIGEST: u64 = 16810139664957138297;

#[test]
fn headers_that_match_nothing_are_as_many_as_asked() {
    for families in [Families::Ipv4, Families::Ipv6, Families::Both { ipv6: 0.5 }] {
        let set = set(Profile::acl(), 300, families);
        for (unmatched, headers) in [(0.25, 1000), (0.0, 400), (0.999, 400_000), (1.0, 10)] {
            let coverage = if unmatched == 1.0 { Coverage::Drawn } else { Coverage::Complete };
            let trace = trace(&set, &Config { headers, unmatched, coverage, ..Config::default() });
            let none = trace.iter().filter(|header| header.rule.is_none()).count();
            assert_eq!((trace.len(), none), (headers, (headers as f64 * unmatched).round() as usize));
            check(&set, &trace, headers.div_ceil(300));
        }
    }
}

#[test]
fn a_needle_of_unmatched_headers_is_found_and_its_absence_proved() {
    let parse = |text: &str| firstmatch_formats::parse(text, &Options::default()).expect("it parses").rules;
    let config = Config { headers: 10, unmatched: 0.5, ..Config::default() };
    let all_but_one = "permit dst not 1.2.3.4\npermit sport not 7\npermit dport not 8\npermit proto not 9\n";
    let set = parse(&format!("family ipv4\n{all_but_one}permit src not 5.6.7.8\n"));
    let found = trace(&set, &config);
    let none: Vec<&Header> = found.iter().filter(|header| header.rule.is_none()).collect();
    assert_eq!(none.len(), 5);
    let needle =
        Header { src: 0x0506_0708, dst: 0x0102_0304, family: Family::Ipv4, sport: 7, dport: 8, proto: 9, rule: None };
    assert!(none.iter().all(|header| **header == needle), "{none:?}");
    let set = parse(&format!("family ipv4\n{all_but_one}permit\n"));
    let error = trace::generate(&set, &config).expect_err("everything matches");
    assert_eq!(error.to_string(), "the rules match every header: none can be drawn that matches nothing");
}

#[test]
fn locality_is_a_knob() {
    let set = set(Profile::ipc(), 200, Families::Ipv4);
    let with = |locality| trace(&set, &Config { headers: 40_000, locality, ..Config::default() });
    let counts = |trace: &Trace| {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        trace.iter().filter_map(|header| header.rule).for_each(|rule| *counts.entry(rule).or_default() += 1);
        let mut counts: Vec<usize> = counts.into_values().collect();
        counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
        counts
    };
    let repeats = |trace: &Trace| {
        let headers: Vec<&Header> = trace.iter().collect();
        headers.windows(2).filter(|two| two[0] == two[1]).count()
    };
    let uniform = with(Locality::Uniform);
    let counted = counts(&uniform);
    assert!(counted[0] < 300 && counted[199] > 120, "{counted:?}");
    // The most popular rule has 1 / (1 + 1/2 + … + 1/200) of the headers.
    let zipf = counts(&with(Locality::Zipf { s: 1.0 }));
    assert!((6300..7300).contains(&zipf[0]) && zipf.len() == 200, "{zipf:?}");
    // P(a burst is longer than k) = (b/k)^a: with a = 2, b = 4 the mean is about 8.
    let pareto = with(Locality::Pareto { a: 2.0, b: 4.0 });
    assert!(repeats(&pareto) > 10 * repeats(&uniform).max(300), "{} {}", repeats(&pareto), repeats(&uniform));
    assert_eq!(hit(&pareto).len(), 200);
    check(&set, &pareto, 40);
}

#[test]
fn phases_have_their_own_popular_rules_and_flows_have_times() {
    let set = set(Profile::acl(), 500, Families::Ipv4);
    let config = Config { headers: 20_000, phases: 4, unmatched: 0.1, ..Config::default() };
    let zipf = trace(&set, &Config { locality: Locality::Zipf { s: 1.5 }, ..config });
    let headers: Vec<&Header> = zipf.iter().collect();
    let favourites = headers.chunks(5000).map(|part| {
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        part.iter().filter_map(|header| header.rule).for_each(|rule| *counts.entry(rule).or_default() += 1);
        counts.into_iter().max_by_key(|&(_, count)| count).map(|(rule, _)| rule)
    });
    assert_eq!(favourites.collect::<BTreeSet<_>>().len(), 4);
    assert!(zipf.times().is_none() && hit(&zipf).len() == zipf.coverage().hit);
    check(&set, &zipf, 20);

    let flows = trace(&set, &Config { locality: Locality::Flows { s: 0.5, rate: 100.0 }, ..config });
    let times = flows.times().expect("flows have times");
    assert!(flows.len() == 20_000 && times.len() == 20_000 && times.is_sorted());
    assert_eq!(flows.coverage().hit, zipf.coverage().hit);
    check(&set, &flows, 20);
}

#[test]
fn headers_from_elsewhere_keep_their_order_and_get_their_rules() {
    let both = set(Profile::fw(), 300, Families::Both { ipv6: 0.5 });
    let made = trace(&both, &Config { headers: 2000, unmatched: 0.2, ..Config::default() });
    let stripped = made.iter().map(|header| Header { rule: None, ..*header });
    let again = trace::of_headers(&both, stripped).expect("there are headers");
    assert!(made.iter().eq(again.iter()));
    assert_eq!(made.coverage().hit, again.coverage().hit);
    let four = set(Profile::fw(), 300, Families::Ipv4);
    let again = trace::of_headers(&four, made.iter().copied()).expect("there are headers");
    assert!(again.iter().all(|header| header.family == Family::Ipv4 || header.rule.is_none()));
    check(&four, &again, 1);
    assert!(trace::of_headers(&four, []).expect_err("no header").is_config());
}

#[test]
fn a_short_trace_is_an_error_or_drawn() {
    let set = set(Profile::acl(), 1000, Families::Ipv4);
    let short = Config { headers: 500, unmatched: 0.2, ..Config::default() };
    let error = trace::generate(&set, &short).expect_err("too short");
    let needed = error.headers_needed().expect("that is why");
    assert!((1240..=1250).contains(&needed), "{error}");
    assert_eq!(trace(&set, &Config { headers: needed, ..short }).coverage().hit, 1000);
    let drawn = trace(&set, &Config { coverage: Coverage::Drawn, ..short });
    assert_eq!(drawn.len(), 500);
    check(&set, &drawn, 1);
    let covered = drawn.coverage();
    assert_eq!((covered.hit, covered.unreachable.len(), covered.given_up.len()), (hit(&drawn).len(), 0, 0));
    assert!(covered.hit > 200);
}

#[test]
fn what_is_written_reads_back() {
    for families in [Families::Ipv4, Families::Ipv6, Families::Both { ipv6: 0.5 }] {
        let set = set(Profile::ipc(), 300, families);
        let trace = trace(&set, &Config { headers: 1000, unmatched: 0.1, ..Config::default() });
        let mut bytes = Vec::new();
        trace.write(&mut bytes).expect("written");
        let input = from_reader("trace", Box::new(std::io::Cursor::new(bytes)), &Limits::default()).expect("opened");
        let Input::Trace(mut read) = input else { panic!("it is a trace") };
        for header in trace.iter() {
            let record = read.next().expect("a line").expect("as many lines");
            let rule = record.rule.map(|rule| rule as u32);
            let Header { src, dst, family, sport, dport, proto, .. } = *header;
            assert_eq!((record.family, record.src, record.dst, rule), (family, src, dst, header.rule));
            assert_eq!((record.sport, record.dport, record.proto), (sport, dport, proto));
        }
        assert!(read.next().expect("the end").is_none());
    }
}

/// A capture must have the headers of its trace, no field more, and the same first matches.
fn check_capture(set: &RuleSet, trace: &Trace) {
    let mut bytes = Vec::new();
    trace.write_pcap(&mut bytes).expect("written");
    let input = from_reader("capture", Box::new(std::io::Cursor::new(bytes)), &Limits::default()).expect("opened");
    let mut capture = input.into_capture().expect("it is one");
    let mut batch = Batch::new(&wire::Config::default(), set.schemas()).expect("packets fill it");
    let ids: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
    for header in trace.iter() {
        let packet = capture.next().expect("a packet").expect("as many packets");
        let Header { src, dst, family, sport, dport, proto, rule } = *header;
        let upper = match proto {
            6 => 20,
            33 | 132 | 136 => 12,
            _ => 0,
        };
        let headers = if family == Family::Ipv4 { 34 } else { 54 } + upper;
        assert_eq!((packet.data.len(), packet.original_len as usize), (MIN_FRAME.max(headers), packet.data.len()));
        let headers = wire::parse(&wire::Config::default(), packet.link, packet.data);
        batch.clear();
        let has_ports = [6, 17, 33, 132, 136].contains(&proto);
        let outcome = if has_ports { Outcome::Complete } else { Outcome::NoPorts };
        assert_eq!(batch.push_headers(&headers, 0), outcome, "{header:?}");
        let values = batch.values(&headers).expect("it is classified");
        let port = |port: u16| has_ports.then_some(u128::from(port));
        assert_eq!(values.family, Some(family));
        assert_eq!(values.values, [Some(src), Some(dst), port(sport), port(dport), Some(proto.into())]);
        let first = first_match(set, &values).map(|rule| rule.id);
        assert_eq!(rule.map(|rule| ids[rule as usize]), first, "{header:?}");
    }
    assert!(capture.next().expect("the end").is_none() && capture.cut().is_none());
}

#[test]
fn a_capture_has_the_packets_that_the_trace_says() {
    let config = Config { headers: 3000, unmatched: 0.1, form: Form::Packets, ..Config::default() };
    for profile in profiles() {
        for families in [Families::Ipv4, Families::Ipv6, Families::Both { ipv6: 0.5 }] {
            let set = set(profile.clone(), 300, families);
            let trace = trace(&set, &config);
            check_capture(&set, &trace);
            let covered = trace.coverage();
            assert!(covered.hit > 280 && covered.given_up.len() < 10, "{covered:?}");
        }
    }
    let parse = |text: &str| firstmatch_formats::parse(text, &Options::default()).expect("it parses").rules;
    // Every protocol. The last three rules are for packets without ports, for packets with ports, and for none.
    let protocols: String = (0..256).map(|proto| format!("permit proto {proto} dst 10.0.0.1\n")).collect();
    let set =
        parse(&format!("{protocols}permit proto icmp\ndeny sport 0-65535 proto tcp\ndeny sport 1-9 proto ospf\n"));
    let trace = trace(&set, &Config { tries: 50, ..config });
    check_capture(&set, &trace);
    let covered = trace.coverage();
    assert_eq!((covered.hit, covered.unreachable.len(), covered.given_up.len()), (258, 0, 1));
    // In IPv6 ten protocols are extension headers.
    let protocols: String = (0..256).map(|proto| format!("permit proto {proto} dst 2001:db8::1\n")).collect();
    let set = parse(&protocols);
    let of_ipv6 = trace::generate(&set, &Config { tries: 50, ..config }).expect("a trace");
    check_capture(&set, &of_ipv6);
    assert_eq!((of_ipv6.coverage().hit, of_ipv6.coverage().given_up.len()), (246, 10));
    let always = |field: &Field| Field::new(field.name(), field.width(), field.kind(), field.source());
    let fields = Schema::ipv4().fields().iter().map(always).collect();
    let set = RuleSet::new(Schema::new(Some(Family::Ipv4), fields));
    let error = trace::generate(&set, &config).expect_err("no packets");
    assert_eq!(error.to_string(), "packets may lack the field sport, which is not optional");
}

#[test]
fn what_no_trace_can_be_made_for_is_an_error_that_says_so() {
    let set = set(Profile::acl(), 10, Families::Ipv4);
    let base = Config { headers: 100, ..Config::default() };
    let bad = [
        Config { headers: 0, ..base },
        Config { headers: trace::MAX_HEADERS + 1, ..base },
        Config { tries: 0, ..base },
        Config { phases: 0, ..base },
        Config { phases: 101, ..base },
        Config { locality: Locality::Flows { s: 1.0, rate: 0.0 }, ..base },
        Config { locality: Locality::Flows { s: f64::NAN, rate: 1.0 }, ..base },
        Config { unmatched: 1.1, ..base },
        Config { unmatched: f64::NAN, ..base },
        Config { unmatched: 1.0, ..base },
        Config { locality: Locality::Zipf { s: -1.0 }, ..base },
        Config { locality: Locality::Zipf { s: f64::INFINITY }, ..base },
        Config { locality: Locality::Pareto { a: 0.0, b: 1.0 }, ..base },
        Config { locality: Locality::Pareto { a: 1.0, b: f64::NAN }, ..base },
    ];
    for config in bad {
        assert!(trace::generate(&set, &config).expect_err("out of bounds").is_config(), "{config:?}");
    }
    let error = |set: &RuleSet| trace::generate(set, &base).expect_err("no trace").to_string();
    let empty = RuleSet::new(Schema::ipv4());
    assert_eq!(error(&empty), "no rule can be hit: there is nothing to draw headers from");
    let icmp = RuleSet::new(Schema::five_tuple(Family::Ipv4, &[Source::IcmpType]));
    assert_eq!(error(&icmp), "a trace has no column for the field icmp_type");
    let nothing = trace(&empty, &Config { unmatched: 1.0, coverage: Coverage::Drawn, ..base });
    assert!(nothing.len() == 100 && nothing.iter().all(|header| header.rule.is_none()));
}
