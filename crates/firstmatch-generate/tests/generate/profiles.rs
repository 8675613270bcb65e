//! Tests of the built-in profiles against published sets, and of ClassBench parameter files.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::common::generate;
use firstmatch_core::schema::Family;
use firstmatch_generate::profile::{PROFILES, PortPair, Profile, classbench};
use firstmatch_generate::rules::{Config, Families};
use firstmatch_generate::{Statistics, stretch};

/// Least and most distinct values per field of the twelve published ClassBench sets.
///
/// The fields are sources, destinations, source ports, destination ports and protocols. Each kind of set has a line,
/// for 1,000 and for 10,000 rules.
type Spans = [RangeInclusive<usize>; 5];
const PUBLISHED: [(&str, Spans, Spans); 3] = [
    ("acl", [83..=370, 323..=488, 1..=2, 26..=151, 4..=6], [523..=5569, 907..=6293, 1..=3, 27..=230, 4..=7]),
    ("fw", [101..=791, 66..=403, 9..=27, 1..=49, 4..=9], [2999..=8510, 4015..=6998, 9..=28, 1..=49, 4..=9]),
    ("ipc", [183..=240, 162..=420, 3..=25, 3..=46, 4..=6], [1434..=4695, 2522..=8899, 3..=34, 3..=53, 4..=7]),
];

/// The median over five seeds is within the span.
#[test]
fn unique_values_are_as_many_as_in_published_sets() {
    let mut outside = Vec::new();
    for (kind, small, large) in PUBLISHED {
        for name in PROFILES.iter().filter(|name| name.starts_with(kind)) {
            let profile: Profile = name.parse().expect("it is there");
            for (rules, spans) in [(1000, &small), (10_000, &large)] {
                let counts = [1, 2, 3, 4, 5].map(|seed| {
                    let set = generate(&Config { rules, seed, profile: profile.clone(), ..Config::default() });
                    Statistics::of(&set).fields.iter().map(|field| field.unique).collect::<Vec<_>>()
                });
                for (field, span) in spans.iter().enumerate() {
                    let mut counts = counts.each_ref().map(|counts| counts[field]);
                    counts.sort_unstable();
                    if !span.contains(&counts[2]) {
                        outside.push(format!("{name}, {rules} rules, field {field}: {counts:?} for {span:?}"));
                    }
                }
            }
        }
    }
    assert!(outside.is_empty(), "{outside:#?}");
}

#[test]
fn profiles_are_told_apart() {
    let sets = PROFILES.map(|name| {
        let profile = name.parse().expect("it is there");
        (name, Statistics::of(&generate(&Config { rules: 3000, profile, ..Config::default() })))
    });
    for (at, (name, one)) in sets.iter().enumerate() {
        for (other_name, other) in &sets[at + 1..] {
            let same = ["acl", "fw", "ipc"].iter().any(|kind| name == kind && *other_name == format!("{kind}1"));
            let apart = Statistics::apart(&one.length_pairs, &other.length_pairs);
            assert_eq!(apart < 0.05, same, "{name} and {other_name}: {apart}");
        }
    }
}

#[test]
fn a_million_rules_are_there() {
    for name in ["acl5", "fw2", "ipc2"] {
        let profile = name.parse().expect("it is there");
        let set = generate(&Config { rules: 1_000_000, profile, ..Config::default() });
        assert_eq!(set.len(), 1_000_000);
    }
}

/// IPv6 sets have the same tree: as many prefixes, nested as deep, with stretched lengths.
#[test]
fn ipv6_nests_as_ipv4_does() {
    let of = |families| {
        let set = generate(&Config { rules: 3000, seed: 7, profile: Profile::acl(), families, ..Config::default() });
        Statistics::of(&set)
    };
    let (four, six) = (of(Families::Ipv4), of(Families::Ipv6));
    for field in [0, 1] {
        let stretched: BTreeSet<u32> =
            four.fields[field].lengths.keys().map(|&len| stretch(len as u8).into()).collect();
        assert_eq!(stretched, six.fields[field].lengths.keys().copied().collect());
        assert!(four.fields[field].deepest.abs_diff(six.fields[field].deepest) <= 1);
        assert!(four.fields[field].deepest >= 3);
    }
    let stretched = four.length_pairs.iter();
    let stretched: BTreeMap<_, _> =
        stretched.map(|(&(s, d), &count)| ((stretch(s as u8).into(), stretch(d as u8).into()), count)).collect();
    assert!(Statistics::apart(&stretched, &six.length_pairs) < 0.05);
    assert_eq!(Family::Ipv6.address_bits(), 128);
}

const PLAIN: &str = "-scale\n100\n#\n-prots\n0\t0.25\tWILD\n6\t0.75\tTCP\n#\n-flags\n6\t0x0200/0x1200,1.0\t\n#\n-extra\n0\n#\n\
    -spar\n#\n-spem\n#\n-dpar\n1.0 20:21\n#\n-dpem\n0.5\t80:80\n0.5\t443:443\n#\n";

/// Returns a small parameter file: TCP to two ports or to a range, and rules without ports.
fn parameters() -> String {
    let shares = |of: &[(usize, &str)]| -> String {
        let share = |at| of.iter().find(|(own, _)| *own == at).map_or("0.0", |(_, share)| share);
        (0..25).map(share).collect::<Vec<_>>().join("\t")
    };
    let mut text = PLAIN.replace("WILD", &shares(&[(0, "1.0")])).replace("TCP", &shares(&[(13, "0.75"), (9, "0.25")]));
    let names = ["wc", "lo", "hi", "em", "ar"];
    for name in names.iter().flat_map(|s| names.map(|d| format!("{s}_{d}"))) {
        text += &match name.as_str() {
            "wc_wc" => "-wc_wc\n40,1.0\t16,0.5\t24,0.5\n#\n".to_owned(),
            "wc_em" => "-wc_em\n64,0.5\t32,1.0\n32,0.5\t0,1.0\n#\n".to_owned(),
            "wc_ar" => "-wc_ar\n48,1.0\t24,1.0\n#\n".to_owned(),
            _ => format!("-{name}\n#\n"),
        };
    }
    for side in ["s", "d"] {
        text += &format!("-{side}nest\n3\n#\n-{side}skew\n0\t0.0\t1.0\t0.5\n1\t0.5\t0.5\t0.25\n#\n");
    }
    text + "-pcorr\n1\t0.5\n2 1.0\n#\n"
}

#[test]
fn parameter_files_are_read() {
    let profile = classbench::parse("dir/my1_seed", &parameters()).expect("it parses");
    assert_eq!((profile.name.as_str(), profile.scale), ("my1", Some(100)));
    let numbers: Vec<_> = profile.protocols.iter().map(|p| (p.number, p.share)).collect();
    assert_eq!(numbers, [(None, 0.25), (Some(6), 0.75)]);
    assert_eq!(profile.protocols[1].ports, [(PortPair::ALL[9], 0.25), (PortPair::ALL[13], 0.75)]);
    assert_eq!((profile.protocols[1].flags[0].0.value, profile.protocols[1].flags[0].0.mask), (0x200, 0x1200));
    assert_eq!((profile.source.levels[0].skew, profile.destination.levels[1].branching), (0.5, 0.5));
    assert_eq!((profile.source.nesting, &profile.correlation[..3]), (Some(3), &[0.5, 1.0, 0.0][..]));
    let set = generate(&Config { rules: 2000, profile, flags: true, ..Config::default() });
    let statistics = Statistics::of(&set);
    let lengths: Vec<(u32, u32)> = statistics.length_pairs.keys().copied().collect();
    assert_eq!(lengths, [(0, 32), (16, 24), (24, 16), (24, 24), (32, 32)]);
    assert_eq!(statistics.fields[3].unique, 4);
    let tcp = statistics.protocols[&Some(6)] as f64 / 2000.0;
    assert!((tcp - 0.75).abs() < 0.05, "{tcp}");
}

#[test]
fn a_fault_of_a_parameter_file_is_named_with_its_place() {
    let good = parameters();
    for (old, new, line, column, says) in [
        ("-scale", "-skale", 1, 1, "`-skale` is not the name of a section"),
        ("\n100\n", "\nmany\n", 2, 1, "`many` is not a number of rules"),
        ("\n100\n", "\n0\n", 0, 0, "`-scale` has no number above 0"),
        ("0.5\t80:80", "0.5\t80:81", 22, 5, "`80:81` is not one port"),
        ("0.5\t80:80", "0.5\t80:99999", 22, 8, "`99999` is not a port, a number from 0 to 65535"),
        ("0.5\t80:80", "1.5\t80:80", 22, 1, "`1.5` is not a share"),
        ("0.5\t80:80", "0.5", 22, 1, "the line ends too early"),
        ("0.5\t80:80", "0.5 80:80 7", 22, 11, "`7` is not the end of the line"),
        ("20:21", "0:1023", 19, 5, "`0:1023` is not a range"),
        ("0x0200/", "200/", 9, 3, "`200` is not 16 bits in hexadecimal"),
        ("-extra\n0", "-extra\n1", 12, 1, "`1` is not a file without further fields"),
        ("40,1.0\t16,0.5", "40,1.0\t4,0.5", 0, 8, "the source's part of 40"),
        ("-dnest\n3\n#\n", "", 0, 0, "the file ends without the section `-dnest`"),
        ("-dnest", "-snest", 0, 1, "`-snest` is not a section that was not there before"),
        ("-wc_ar\n48,1.0\t24,1.0", "-wc_ar", 0, 0, "`-wc_ar` has no prefix lengths"),
        ("0.0\t0.0\n#\n-flags", "0.0\n#\n-flags", 6, 1, "the line has 26"),
        ("#\n-prots", "#\n-prots 7", 4, 8, "`7` is not the name of a section alone on its line"),
        ("#\n-prots", "#\n7\n-prots", 4, 1, "`7` is not a line that opens a section"),
    ] {
        let bad = good.replacen(old, new, 1);
        assert_ne!(bad, good, "{old}");
        let error = classbench::parse("x_seed", &bad).expect_err(new);
        let shown = error.to_string();
        assert!(shown.contains(says), "{shown}");
        assert!(shown.starts_with(&format!("x_seed:{}:{}: ", error.line(), error.column())), "{shown}");
        assert!(line == 0 || error.line() == line, "{shown}");
        assert!(column == 0 || error.column() == column, "{shown}");
    }
    for cut in 0..good.len() - 1 {
        // No part of a file panics, and only a part that reaches the last section parses.
        let whole = classbench::parse("cut", &good[..cut]).is_ok();
        assert!(!whole || good[..cut].contains("-pcorr"), "{}", &good[..cut]);
    }
}
