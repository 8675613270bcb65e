//! Exceptions: what is left of a range or a prefix, value by value.

use firstmatch_core::rule::{ConditionRef, FieldValues, first_match};
use firstmatch_core::schema::Family;
use firstmatch_formats::{Options, RuleFile, write};
use firstmatch_testkit::rng::Rng;

use crate::faults::diagnose;

fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Whether the only rule of a file matches a packet with this value in a field; the packet is of the field's family.
fn holds(file: &RuleFile, field: &str, family: Option<Family>, value: u128) -> bool {
    let schema = file.rules.schemas().iter().find(|schema| family.is_none() || schema.family() == family);
    let index = schema.and_then(|schema| schema.index_of(field)).expect("the field of the rule");
    let mut values = vec![Some(1); schema.map_or(0, |schema| schema.fields().len())];
    values[index] = Some(value);
    first_match(&file.rules, &FieldValues { family, values }).is_some()
}

/// Sort of values: field, family, head of the file, offset of the values, and the text of a value.
type Sort = (&'static str, Option<Family>, &'static str, u128, fn(u128) -> String);

const SORTS: [Sort; 4] = [
    ("dport", Some(Family::Ipv4), "", 0, |value| value.to_string()),
    ("src", Some(Family::Ipv4), "", 0x0a00_0000, |value| std::net::Ipv4Addr::from_bits(value as u32).to_string()),
    ("dst", Some(Family::Ipv6), "", u128::MAX - 255, |value| std::net::Ipv6Addr::from_bits(value).to_string()),
    ("m", None, "schema {\n m 48 exact\n}\n", 0x0200_0000_0000, |value| {
        let bytes = (value as u64).to_be_bytes();
        bytes[2..].iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
    }),
];

#[test]
fn what_is_left_is_right_value_by_value() {
    let mut rng = Rng::new(61);
    let mut read = 0;
    for round in 0..2_000 {
        let (field, family, head, offset, show) = SORTS[round % SORTS.len()];
        let draw = |rng: &mut Rng, low: usize, high: usize| {
            let (a, b) = (low + rng.below(high - low + 1), low + rng.below(high - low + 1));
            (a.min(b), a.max(b))
        };
        let (low, high) = draw(&mut rng, 0, 255);
        if low == high {
            continue;
        }
        let holes: Vec<_> = (0..1 + rng.below(4)).map(|_| draw(&mut rng, low, high)).collect();
        let text = |(low, high): (usize, usize)| {
            let [low, high] = [low, high].map(|value| show(offset + value as u128));
            if low == high { low } else { format!("{low}-{high}") }
        };
        let left =
            |value: usize| (low..=high).contains(&value) && !holes.iter().any(|&(a, b)| a <= value && value <= b);
        let holes_text: Vec<_> = holes.iter().map(|&hole| text(hole)).collect();
        let exceptions = match &holes_text[..] {
            [one] if rng.one_in(2) => one.clone(),
            all => format!("{{ {} }}", all.join(", ")),
        };
        let item = format!("{} except {exceptions}", text((low, high)));
        let other = rng.below(256);
        let other_text = show(offset + other as u128);
        let files = [
            (format!("{head}permit {field} {item}\n"), false, false),
            (format!("{head}permit {field} {{ {other_text}, {item} }}\n"), true, false),
            (format!("{head}permit {field} not {{ {item} }}\n"), false, true),
            (format!("{head}set s = {{\n {item},\n {other_text} }}\npermit {field} $s\n"), true, false),
        ];
        if !(0..256).any(left) {
            for (text, ..) in files {
                let faults = diagnose(&text);
                assert!(faults.len() == 1 && faults[0].contains("nothing is left of"), "{text}: {faults:?}");
            }
            continue;
        }
        read += 1;
        for (text, has_other, is_negated) in files {
            let file = parse(&text);
            let mut written = String::new();
            write::native(&file.rules, &file.policy, &mut written).expect("it was read");
            for file in [&file, &parse(&written)] {
                for value in 0..256 {
                    let expected = (left(value) || has_other && value == other) != is_negated;
                    let is = holds(file, field, family, offset + value as u128);
                    assert_eq!(is, expected, "{value}: {text}{written}");
                }
            }
        }
    }
    assert!(read > 1_000, "{read} of 2000 leave something");
}

/// Prefixes that are left stay prefixes.
#[test]
fn rules_have_plain_ranges_and_prefixes() {
    let same = |text: &str, plain: &str| {
        let [one, other] = [text, plain].map(|text| parse(text).rules);
        let tests = |rules: &firstmatch_core::RuleSet| {
            rules.iter().flat_map(|rule| rule.conditions.iter().map(ConditionRef::unpack)).collect::<Vec<_>>()
        };
        assert_eq!(tests(&one), tests(&other), "{text}");
    };
    for (item, plain) in [
        ("src 10.0.0.0/8 except 10.128.0.0/9", "src 10.0.0.0/9"),
        ("src 10.0.0.0/30 except 10.0.0.2", "src { 10.0.0.0/31, 10.0.0.3 }"),
        ("src 10.0.0.0/8 except 10.1.0.0/16", "src { 10.0.0.0/16, 10.2.0.0-10.255.255.255 }"),
        ("src ::/0 except 8000::/1", "src ::/1"),
        ("src 0.0.0.0/0 except { 255.255.255.255, 0.0.0.0 }", "src 0.0.0.1-255.255.255.254"),
        ("dport 0-65535 except { 22, 22-23, 21 }", "dport { 0-20, 24-65535 }"),
        ("dport 1-2 except 1", "dport 2"),
        ("dport { family ipv6 1-9 except { 2, 4, }, 7 }", "dport { family ipv6 1, family ipv6 3, family ipv6 5-9, 7 }"),
        ("dport family ipv4 1-9 except 9", "dport family ipv4 1-8"),
    ] {
        same(&format!("permit {item}\n"), &format!("permit {plain}\n"));
    }
}

#[test]
fn included_files_have_exceptions() {
    let load = |_: &str| Ok("10.0.0.0/8 except { 10.0.0.1, 10.0.0.2 }  # but these\n".to_owned());
    let text = "set bad = { include \"bad\" }\ndeny src $bad\n";
    let file = firstmatch_formats::parse_with(text, &Options::default(), &load).expect("good");
    let is_in = |last: u128| holds(&file, "src", Some(Family::Ipv4), 0x0a00_0000 + last);
    assert_eq!([0, 1, 2, 3].map(is_in), [true, false, false, true]);
}

#[test]
#[rustfmt::skip]
fn faults_are_shown_where_they_stand() {
    const FAULTS: &[(&str, &[&str])] = &[
        ("permit src 10.0.0.0/8 except 11.0.0.0/16 dport 22\npermit dport 1-9 except { 2, 10, 30 }\n",
         &["1:30+11 `11.0.0.0/16` is not inside `10.0.0.0/8`; expected an exception inside it",
           "2:30+2 `10` is not inside `1-9`; expected an exception inside it"]),
        ("permit src 10.0.0.0/8 except 0.0.0.0/0\npermit src 10.0.0.0/8 except 10.0.0.0/8\npermit src 10.0.0.0/31 except { 10.0.0.0, 10.0.0.1 }\n",
         &["1:30+9 `0.0.0.0/0` is not inside `10.0.0.0/8`; expected an exception inside it",
           "2:12+28 nothing is left of `10.0.0.0/8`; expected fewer exceptions",
           "3:12+41 nothing is left of `10.0.0.0/31`; expected fewer exceptions"]),
        ("permit src 10.0.0.1 except 10.0.0.1\npermit src 10.0.0.1/255.0.0.255 except 10.0.0.1\npermit dport 2/3 except 2\n",
         &["1:12+8 exceptions from a value or a mask; expected a range or a prefix before `except`",
           "2:12+20 exceptions from a value or a mask; expected a range or a prefix before `except`",
           "3:14+3 exceptions from a value or a mask; expected a range or a prefix before `except`"]),
        ("permit src 10.0.0.0/8 except ::1\npermit src 10.0.0.0/8 except 10.0.0.1/255.0.0.255\npermit src 10.0.0.0/8 except 10.0.0.1/8\n",
         &["1:30+3 an IPv6 address as an exception from an IPv4 address; expected an IPv4 address",
           "2:30+20 a mask as an exception; expected a value, a range or a prefix",
           "3:30+10 `10.0.0.1` has bits outside its prefix; expected `10.0.0.0/8`"]),
        ("permit dport 1-99 except ssh\npermit dport 1-99 except\npermit dport 1-99 except { }\npermit dport 1-99 except { 2 3 }\npermit dport 1-99 except { 2, 3\n",
         &["1:26+3 `ssh` where an exception should be; expected a number, an address, a range or a prefix",
           "2:25+0 nothing where an exception should be; expected a number, an address, a range or a prefix",
           "3:28+1 `}` where an exception should be; expected a number, an address, a range or a prefix",
           "4:30+1 `3` after an exception; expected `,` or `}`",
           "5:26+1 this `{` is never closed; expected `}` after the last exception"]),
        ("permit src not 10.0.0.0/8 except 10.1.0.0/16\npermit dport any except 22\nset s = { 1-9 }\npermit dport $s except 2\npermit dport { $s except 2 }\npermit dport < 9 except 2\npermit except 5\n",
         &["1:27+6 `except` has no place here; expected a range or a prefix before it, in a list if `not` stands before that",
           "2:18+6 `except` has no place here; expected a range or a prefix before it, in a list if `not` stands before that",
           "4:17+6 `except` has no place here; expected a range or a prefix before it, in a list if `not` stands before that",
           "5:19+6 `except` after an item; expected `,` or `}`",
           "6:18+6 `except` has no place here; expected a range or a prefix before it, in a list if `not` stands before that",
           "7:8+6 `except` has no place here; expected a range or a prefix before it, in a list if `not` stands before that"]),
        ("permit dport 1-70000 except 60000-70000\npermit src 1-9 except 2\npermit dport { 1-99 except { x, 5 }, 80 } proto 300\n",
         &["1:14+7 70000 is too large for dport; expected a number up to 65535",
           "2:12+3 src takes no numbers; expected an address, a prefix or a range of addresses",
           "3:30+1 `x` where an exception should be; expected a number, an address, a range or a prefix",
           "3:49+3 300 is too large for proto; expected a number up to 255"]),
        ("permit src { 192.168.0.0/16, !192.168.10.0 }\ndeny dport { 1-99, !22, !80-81 }\nset s = { 10.0.0.0/8, !10.1.0.0/16 }\n",
         &["1:14+29 `!` before a value in a list; expected `192.168.0.0/16 except 192.168.10.0`",
           "2:14+17 `!` before a value in a list; expected `1-99 except { 22, 80-81 }`",
           "3:11+24 `!` before a value in a list; expected `10.0.0.0/8 except 10.1.0.0/16`"]),
        ("permit src { 10.0.0.0/8, 10.0.0.0/9, !10.1.0.0 }\npermit src { 10.0.0.0/8, !11.0.0.0 }\npermit src not { 10.0.0.0/8, !10.0.0.1 }\npermit src { 10.0.0.0/8, !10.0.0.1, 10.0.0.0/9 }\npermit src { !10.0.0.1 }\n",
         &["1:38+9 `!` before a value in a list; expected `except` behind the value that contains it",
           "2:26+9 `!` before a value in a list; expected `except` behind the value that contains it",
           "3:30+9 `!` before a value in a list; expected `except` behind the value that contains it",
           "4:26+9 `!` before a value in a list; expected `except` behind the value that contains it",
           "5:14+9 `!` before a value in a list; expected `except` behind the value that contains it"]),
        ("schema {\n except 8 exact\n}\npermit\n",
         &["2:2+6 `except` has a meaning in rules; expected another name for the field",
           "3:1+1 a schema without fields; expected a field a line"]),
    ];
    for (text, expected) in FAULTS {
        assert_eq!(diagnose(text), *expected, "{text}");
    }
}
