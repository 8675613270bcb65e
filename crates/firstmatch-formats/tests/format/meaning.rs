//! Meaning of rule files: round trips of random rules, the oracle on others, and garbage.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write;
use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::policy::{Fragments, Verdict};
use firstmatch_core::rule::{Action, Condition, FieldValues, Priority, Rule, RuleSpec, Test, first_match};
use firstmatch_core::schema::Family;
use firstmatch_core::{Policy, Schema};
use firstmatch_formats::{Format, Options, RuleFile, write};
use firstmatch_testkit::rng::Rng;

fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn the_format_is_told_by_the_first_line_that_says_something() {
    for (text, format) in [
        ("", Format::Native),
        ("# @\n\n  @", Format::ClassBench),
        ("\u{feff}@", Format::ClassBench),
        ("permit\n@", Format::Native),
    ] {
        assert_eq!(firstmatch_formats::sniff(text), format, "{text:?}");
    }
    let forced = Options { format: Some(Format::Native), ..Options::default() };
    let error = firstmatch_formats::parse("@10.0.0.0/8", &forced).unwrap_err();
    assert!(error.to_string().starts_with("1:1: a line cannot start with the character `@`"), "{error}");
}

#[test]
fn the_line_a_packet_matches_is_the_first_that_says_so() {
    let file = parse(
        "default permit # what is left\nunknown permit\nfragments layer3\n\
         set web = { 80, 443, 8000-8099 }\n\
         set inside = { 10.0.0.0/8,  # old\n  2001:db8::/32 } # new\n\
         set both = { $web, 22, }\n\
         deny src not $inside dst $inside dport not $both\n\
         mark 7 udp sport any dport 53\n\
         permit tcp tcp_flags 0x02/0x12\n\
         deny icmp_type echo-request\n\
         permit vlan_vid { 5, 7-9 } proto { esp, ah, 200 }\n\
         permit src 10.0.0.7/255.0.0.255 dst ::/0\n\
         permit src 10.0.0.7/255.0.0.255\n\
         permit dst ::7/::ffff\n\
         permit dst 10.0.0.5-10.0.0.9\n",
    );
    let policy = Policy { default: Verdict::Permit, unknown: Verdict::Permit, fragments: Fragments::Layer3 };
    assert_eq!(file.policy, policy);
    let warnings: Vec<_> = file.warnings.iter().map(|w| w.line).collect();
    assert_eq!(warnings, [12, 13]);
    let names: Vec<_> = file.rules.schemas()[0].fields().iter().map(|f| f.name().to_owned()).collect();
    assert_eq!(names, ["src", "dst", "sport", "dport", "proto", "icmp_type", "tcp_flags", "vlan_vid"]);
    let address = |text: &str| match text.parse::<std::net::IpAddr>().unwrap() {
        std::net::IpAddr::V4(a) => (Family::Ipv4, u128::from(a.to_bits())),
        std::net::IpAddr::V6(a) => (Family::Ipv6, a.to_bits()),
    };
    // src, dst, sport, dport, proto, icmp_type, tcp_flags, vlan_vid; the line that matches.
    for (src, dst, rest, line) in [
        ("9.9.9.9", "10.0.0.1", [Some(1), Some(79), Some(6), None, Some(0), None], Some(8)),
        ("9.9.9.9", "10.0.0.1", [Some(1), Some(8099), Some(6), None, Some(0x10), None], None),
        ("9.9.9.9", "10.0.0.1", [Some(1), Some(22), Some(6), None, Some(0x02), None], Some(10)),
        ("9.9.9.9", "10.0.0.1", [None, None, Some(6), None, None, None], None),
        ("2001:db9::", "2001:db8::", [Some(1), Some(23), Some(6), None, Some(0), None], Some(8)),
        ("::7", "2001:db8::", [Some(1), Some(53), Some(17), None, None, None], Some(8)),
        ("::7", "2001:db9::", [Some(1), Some(53), Some(17), None, None, None], Some(9)),
        ("::7", "2001:db9::", [None, None, Some(17), None, None, None], None),
        ("1.1.1.1", "1.1.1.1", [None, None, Some(1), Some(8), None, None], Some(11)),
        ("1.1.1.1", "1.1.1.1", [None, None, Some(1), Some(128), None, None], None),
        ("::1", "::1", [None, None, Some(58), Some(128), None, None], Some(11)),
        ("::1", "::1", [None, None, Some(58), Some(8), None, None], None),
        ("1.1.1.1", "1.1.1.1", [None, None, Some(50), None, None, Some(8)], Some(12)),
        ("1.1.1.1", "1.1.1.1", [None, None, Some(50), None, None, None], None),
        ("10.9.9.7", "1.1.1.1", [None, None, Some(50), None, None, None], Some(14)),
        ("::", "1::7", [None, None, Some(50), None, None, None], Some(15)),
        ("1.1.1.1", "10.0.0.5", [None, None, Some(50), None, None, None], Some(16)),
        ("1.1.1.1", "10.0.0.4", [None, None, Some(50), None, None, None], None),
    ] {
        let (src, dst) = (address(src), address(dst));
        let values = [Some(src.1), Some(dst.1)].into_iter().chain(rest).collect();
        let packet = FieldValues { family: Some(src.0), values };
        let found = first_match(&file.rules, &packet).map(|rule| rule.line.unwrap().get());
        assert_eq!(found, line, "{src:?} {dst:?} {rest:?}");
    }
}

#[test]
fn extension_headers_are_bits_and_no_condition_on_them_holds_in_ipv4() {
    let file = parse(
        "set odd = { ah, 0x02/0x02 }\n\
         set auth = { ah }\n\
         deny routing_type 0\n\
         permit ext_headers $odd proto 6\n\
         permit ext_headers 0x05/0x05\n\
         permit ext_headers 0 udp\n\
         permit ext_headers not { hop-by-hop, routing, fragment, destination, ah } proto 7\n\
         permit ext_headers destination\n\
         permit proto $auth\n",
    );
    // In IPv6 the last rule never holds.
    assert_eq!(file.warnings.iter().map(|warning| warning.line).collect::<Vec<_>>(), [9], "{:?}", file.warnings);
    let names: Vec<_> = file.rules.schemas()[0].fields().iter().map(|f| f.name().to_owned()).collect();
    assert_eq!(names, ["src", "dst", "sport", "dport", "proto", "ext_headers", "routing_type"]);
    // proto, ext_headers, routing_type; the line that matches.
    for (family, proto, headers, routing_type, line) in [
        (Family::Ipv6, 6, Some(0x02), Some(0), Some(3)),
        (Family::Ipv6, 6, Some(0x02), Some(2), Some(4)),
        (Family::Ipv6, 6, Some(0x12), Some(2), Some(4)),
        (Family::Ipv6, 6, Some(0x10), None, Some(4)),
        (Family::Ipv6, 6, Some(0x05), None, Some(5)),
        (Family::Ipv6, 6, Some(0x04), None, None),
        (Family::Ipv6, 17, Some(0), None, Some(6)),
        (Family::Ipv6, 7, Some(0), None, Some(7)),
        (Family::Ipv6, 7, Some(0x80), None, Some(7)),
        (Family::Ipv6, 7, Some(0x01), None, None),
        (Family::Ipv6, 9, Some(0x0a), Some(4), Some(8)),
        (Family::Ipv4, 17, None, None, None),
        (Family::Ipv4, 7, None, None, None),
        (Family::Ipv4, 51, None, None, Some(9)),
    ] {
        let values = vec![Some(1), Some(2), None, None, Some(proto), headers, routing_type];
        let packet = FieldValues { family: Some(family), values };
        let found = first_match(&file.rules, &packet).map(|rule| rule.line.unwrap().get());
        assert_eq!(found, line, "{packet:?}");
    }
}

#[test]
fn a_file_of_one_family_has_one_schema() {
    let file = parse("family ipv6\npermit icmpv6 icmp_type echo-request icmp_code 0\n");
    let schema = Schema::five_tuple(
        Family::Ipv6,
        &[firstmatch_core::schema::Source::IcmpType, firstmatch_core::schema::Source::IcmpCode],
    );
    assert_eq!(file.rules.schemas(), [schema]);
    assert_eq!(parse("family ipv4\npermit").rules.schemas(), [Schema::ipv4()]);
    assert_eq!(parse("family inet\npermit").rules.schemas(), [Schema::ipv4(), Schema::ipv6()]);
    assert_eq!(parse("").rules.schemas(), [Schema::ipv4(), Schema::ipv6()]);
}

#[test]
fn classbench_rules_are_read_as_they_are_meant() {
    let text = "@1.2.3.0/24\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x1000/0x1200\t\n\
                @1.2.3.0/24\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0000\n\
                @0.0.0.0/0 9.9.9.9/32 5:7 0 : 65535 0x00/0x00\n";
    for flags in [false, true] {
        let file = firstmatch_formats::parse(text, &Options { flags, ..Options::default() }).unwrap();
        // Without its flags the first rule is the same as the second.
        let warnings = usize::from(!flags);
        assert_eq!((file.rules.len(), file.warnings.len(), file.policy), (3, warnings, Policy::default()));
        let fields = file.rules.schemas()[0].fields();
        assert_eq!(fields.len(), if flags { 6 } else { 5 });
        let rules: Vec<_> = file.rules.iter().collect();
        let tests =
            |rule: usize| rules[rule].conditions.iter().map(|c| (c.field, c.unpack().tests[0].1)).collect::<Vec<_>>();
        let mut first =
            vec![(0, Test::Prefix { value: 0x0102_0300, len: 24 }), (3, Test::Value(80)), (4, Test::Value(6))];
        assert_eq!(tests(1), first);
        if flags {
            first.push((5, Test::Mask { value: 0x1000, mask: 0x1200 }));
            assert!(!fields[5].is_optional() && fields[5].source().is_none());
        }
        assert_eq!(tests(0), first);
        assert_eq!(tests(2), [(1, Test::Prefix { value: 0x0909_0909, len: 32 }), (2, Test::Range { lo: 5, hi: 7 })]);
        assert_eq!((rules[2].action, rules[2].priority), (Action::Match, Priority::of_line(3)));
    }
    let file = parse("@::/0 2001:db8::/32 0:65535 0:65535 0x00/0x00\n");
    assert_eq!(file.rules.schemas(), [Schema::ipv6()]);
}

const FIELDS: [(&str, u32); 15] = [
    ("src", 0),
    ("dst", 0),
    ("sport", 16),
    ("dport", 16),
    ("proto", 8),
    ("icmp_type", 8),
    ("icmp_code", 8),
    ("tcp_flags", 8),
    ("ext_headers", 8),
    ("routing_type", 8),
    ("vlan_vid", 12),
    ("fragment", 2),
    ("dscp", 6),
    ("ttl", 8),
    ("length", 17),
];

fn random_test(random: &mut Rng, width: u32) -> (Option<Family>, Test) {
    let family = (width == 0).then(|| random.any_of(&[Family::Ipv4, Family::Ipv6]));
    let width = family.map_or(width, Family::address_bits);
    let all = u128::MAX >> (128 - width);
    let test = match random.below(4) {
        0 => Test::Value(random.bits(width)),
        1 => {
            let (a, b) = (random.bits(width), random.bits(width));
            Test::Range { lo: a.min(b), hi: a.max(b) }
        }
        2 if family.is_some() => {
            let len = random.below(width as usize + 1) as u32;
            Test::Prefix { value: random.bits(width) & !all.checked_shr(len).unwrap_or(0), len }
        }
        _ => {
            // Few bits, because the values outside a mask are one region a bit.
            let mask = (0..3).fold(0, |mask, _| mask | 1 << random.below(width as usize));
            Test::Mask { value: random.bits(width) & mask, mask }
        }
    };
    (family, test)
}

fn write_test(out: &mut String, (family, test): (Option<Family>, Test), random: &mut Rng) {
    let hex = random.below(2) == 0;
    let show = |v: u128| match family {
        Some(Family::Ipv4) => Ipv4Addr::from(v as u32).to_string(),
        Some(Family::Ipv6) => Ipv6Addr::from(v).to_string(),
        None if hex => format!("{v:#x}"),
        None => v.to_string(),
    };
    let blank = random.any_of(&["", " ", "\t"]);
    match test {
        Test::Value(v) => out.push_str(&show(v)),
        Test::Range { lo, hi } => write!(out, "{}{blank}-{blank}{}", show(lo), show(hi)).unwrap(),
        Test::Prefix { value, len } => write!(out, "{}{blank}/{blank}{len}", show(value)).unwrap(),
        Test::Mask { value, mask } => write!(out, "{}{blank}/{blank}{}", show(value), show(mask)).unwrap(),
        Test::Absent => out.push_str("absent"),
        Test::Set(_) => unreachable!("no live set is drawn"),
    }
}

#[test]
fn random_rules_survive_being_written_and_read() {
    let mut random = Rng::new(0x5EED);
    let options = Options {
        expansion: firstmatch_core::rule::ExpansionLimits { regions_per_rule: 1 << 16, ..Default::default() },
        ..Options::default()
    };
    for _ in 0..300 {
        // All fields stand in the schema, because the first rule names them all.
        let all: String = FIELDS.iter().map(|(name, _)| format!(" {name} any")).collect();
        let mut text = format!("permit{all}\n");
        let mut specs = Vec::new();
        for line in 2..12 {
            let action = random.any_of(&[Action::Permit, Action::Deny, Action::Mark(0), Action::Mark(u32::MAX)]);
            write!(text, "{action}").unwrap();
            let mut conditions = Vec::new();
            for (field, &(name, width)) in FIELDS.iter().enumerate() {
                if random.below(5) > 0 {
                    continue;
                }
                let negated = random.below(3) == 0;
                let mut tests: Vec<_> = (0..1 + random.below(3)).map(|_| random_test(&mut random, width)).collect();
                if width > 0 && name != "proto" && random.below(4) == 0 {
                    tests[0] = (None, Test::Absent);
                }
                write!(text, " {name}{}", if negated { " not" } else { "" }).unwrap();
                if tests.len() == 1 && random.below(3) == 0 {
                    text.push_str(" any");
                    tests = vec![(None, Test::Prefix { value: 0, len: 0 })];
                } else if tests.len() == 1 && random.below(2) == 0 {
                    text.push(' ');
                    write_test(&mut text, tests[0], &mut random);
                } else {
                    text.push('{');
                    for &test in &tests {
                        write_test(&mut text, test, &mut random);
                        text.push_str(random.any_of(&[",", " , "]));
                    }
                    text.push('}');
                }
                conditions.push(Condition { field, negated, tests });
            }
            text.push_str(random.any_of(&["\n", "\r\n", " # permit }\n"]));
            let line_number = std::num::NonZeroU32::new(line);
            specs.push(RuleSpec {
                priority: Priority::of_line(line),
                action,
                conditions: conditions.into(),
                family: None,
                line: line_number,
                value: 0,
            });
        }
        let file = firstmatch_formats::parse(&text, &options).unwrap_or_else(|error| panic!("{text}\n{error}"));
        let read: Vec<_> = file.rules.iter().skip(1).map(|rule| rule.spec.clone()).collect();
        assert_eq!(read, specs, "{text}");
    }
}

/// Asserts that parse → write → parse gives the same rules.
fn check_written(text: &str, file: &RuleFile, options: &Options) {
    let format = firstmatch_formats::sniff(text);
    if format == Format::ClassBench && file.rules.is_empty() {
        return;
    }
    let mut out = String::new();
    write::write(file, format, &mut out).unwrap_or_else(|error| panic!("{text:?}\n{error}"));
    let back = firstmatch_formats::parse(&out, options).unwrap_or_else(|error| panic!("{out}\n{error}"));
    let spec = |rule: &Rule| RuleSpec { priority: Priority(0), line: None, ..rule.spec.clone() };
    assert!(back.rules.iter().map(spec).eq(file.rules.iter().map(spec)), "{text:?}\n{out}");
    assert_eq!((back.policy, back.rules.schemas()), (file.policy, file.rules.schemas()), "{text:?}\n{out}");
}

#[test]
fn garbage_never_panics_and_faults_stand_inside_the_text() {
    const WORDS: &[&str] = &[
        "permit",
        "deny",
        "mark",
        "set",
        "family",
        "default",
        "unknown",
        "fragments",
        "inet",
        "ipv4",
        "layer3",
        "match",
        "schema openflow\n",
        "family ipv6",
        "src",
        "dst",
        "proto",
        "sport",
        "icmp_type",
        "tcp_flags",
        "not",
        "any",
        "tcp",
        "echo-reply",
        "{",
        "}",
        ",",
        "-",
        "/",
        "=",
        "$",
        "$a",
        "a",
        "b",
        "$b",
        "\n",
        "\n",
        "\n",
        "\r\n",
        "\r",
        "\t",
        " ",
        "#",
        "0",
        "80",
        "0x",
        "0xFF",
        "99999",
        "10.0.0.0",
        "10.0.0.0/8",
        "::",
        "::/0",
        "2001:db8::1",
        "255.0.0.255",
        "\0",
        "é",
        "\u{feff}",
        "@",
        ":",
        "@1.2.3.4/32",
        "0 : 65535",
        "0x06/0xFF",
        "18446744073709551616",
        "340282366920938463463374607431768211456",
    ];
    let mut random = Rng::new(7);
    let mut good = 0;
    for round in 0..60_000 {
        let mut text = String::new();
        if round % 4 == 0 {
            text.push_str("@1.2.3.4/32\t");
        }
        for _ in 0..random.below(24) {
            text.push_str(random.any_of(WORDS));
            text.push_str(random.any_of(&[" ", "", " "]));
        }
        if round % 7 == 0 {
            let bytes: Vec<u8> =
                text.bytes().map(|b| if random.below(9) == 0 { random.below(256) as u8 } else { b }).collect();
            text = String::from_utf8_lossy(&bytes).into_owned();
        }
        let options = Options { flags: random.below(2) == 0, ..Options::default() };
        let lines = text.split('\n').count().max(1) as u32;
        let check = |found: &[firstmatch_core::Diagnostic]| {
            assert!(found.is_sorted_by_key(|d| (d.line, d.column)), "{text:?}");
            for d in found {
                let length = d.text.chars().count() as u32;
                assert!(
                    (1..=lines).contains(&d.line) && d.column >= 1 && d.column + d.width <= length + 2,
                    "{text:?} {d:?}"
                );
                assert!(!d.message.is_empty(), "{text:?}");
            }
        };
        match firstmatch_formats::parse(&text, &options) {
            Ok(file) => {
                good += 1;
                check(&file.warnings);
                check_written(&text, &file, &options);
            }
            Err(error) => check(error.faults()),
        }
    }
    assert!(good > 1000, "only {good} texts were good");
}

#[test]
fn the_rules_of_the_manual_are_rules() {
    let manual = include_str!("../../../../docs/rules.md");
    let blocks: Vec<_> = manual.split("```text\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    let rules: Vec<_> = blocks.iter().filter(|block| !block.starts_with("file ")).map(|block| parse(block)).collect();
    assert_eq!(rules.iter().map(|file| file.rules.len()).collect::<Vec<_>>(), [6, 4, 4, 2, 2, 4, 1, 2, 1]);
    assert!(rules.iter().all(|file| file.warnings.is_empty()));
}
