//! Corrections that messages propose: none holds for more than the written text could mean.
//!
//! Text behind `/` may be a prefix length, a mask or a wildcard mask. [`readings`] lists what each text could mean, and
//! shares no code with the parser.

use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::rule::Test;
use firstmatch_core::schema::{Field, Kind};
use firstmatch_core::{Diagnostic, RuleSet, Schema};
use firstmatch_formats::native::parse_value;
use firstmatch_formats::{Options, RuleFile};
use firstmatch_testkit::rng::Rng;

use crate::faults::{CLASSBENCH, NATIVE, diagnose};
use crate::names::NAMES;

/// Texts with values outside a prefix or a mask, each with its faults or warnings.
#[rustfmt::skip]
const CORRECTED: &[(&str, &[&str])] = &[
    ("permit src 10.1.1.1/0.0.0.0 dst 10.1.0.0/0.0.255.255\n",
     &[
        "1:12+16 `10.1.1.1` has bits outside its mask: `0.0.0.0` compares no bit, as a wildcard mask it would compare every bit; expected `10.1.1.1/32`",
        "1:33+20 `10.1.0.0` has bits outside its mask: `0.0.255.255` compares the last 16 bits, as a wildcard mask it would compare the first 16 bits; expected `10.1.0.0/16`",
     ]),
    ("permit src { 10.1.1.1/0.0.255.255, 2001:db8::/::ffff, 10.1.1.1/0, 2001:db8::/0 }\n",
     &[
        "1:14+20 `10.1.1.1` has bits outside its mask: `0.0.255.255` compares the last 16 bits, as a wildcard mask it would compare the first 16 bits; expected `10.1.0.0/16`",
        "1:36+17 `2001:db8::` has bits outside its mask: `::ffff` compares the last 16 bits, as a wildcard mask it would compare the first 112 bits; expected `2001:db8::/112`",
        "1:55+10 `10.1.1.1` has bits outside its prefix; expected `10.1.1.1/32`, or `0.0.0.0/0` if every value is meant",
        "1:67+12 `2001:db8::` has bits outside its prefix; expected `2001:db8::/128`, or `::/0` if every value is meant",
     ]),
    ("permit src 10.0.1.0/0.255.0.255 dst 10.1.1.1/0.255.0.255\n",
     &[
        "1:12+20 `10.0.1.0` has bits outside its mask; expected `10.0.1.0/255.0.255.0` if the mask is a wildcard mask",
        "1:37+20 `10.1.1.1` has bits outside its mask; expected a mask with every bit of the address",
     ]),
    ("permit src 10/8 dst not 10/7\npermit dst { 10/0x18, 11/7 }\n",
     &[
        "1:12+4 src takes no numbers; expected all four bytes: `10.0.0.0/8`",
        "1:25+4 dst takes no numbers; expected all four bytes: `10.0.0.0/7`",
        "2:14+7 dst takes no numbers; expected all four bytes: `10.0.0.0/24`",
        "2:23+4 dst takes no numbers; expected an address, a prefix or a range of addresses",
     ]),
    ("permit icmp_type 3/4 dport 22/24\npermit icmp_type 0x03/0x04 sport 1024/6\npermit tcp_flags 0x13/0x12 vlan_vid 9/300\n",
     &[
        "1:18+3 `3` has bits outside its mask; expected `3 icmp_code 4` for a type and its code",
        "1:28+5 `22` has bits outside its mask; expected `22-24` for a range, or `0x16/0x1e` for a mask with every bit of the value",
        "2:18+9 `0x03` has bits outside its mask; expected `0x03/0x07` for a mask with every bit of the value",
        "2:34+6 `1024` has bits outside its mask; expected `0x400/0xfc00` for a prefix of 6 bits, or `0x400/0x406` for a mask with every bit of the value",
        "3:18+9 `0x13` has bits outside its mask; expected `0x13/0x13` for a mask with every bit of the value",
        "3:37+5 `9` has bits outside its mask; expected `9-300` for a range, or `0x09/0x12d` for a mask with every bit of the value",
     ]),
    ("set a = { 22/24, 10.1.1.1/0.0.0.0, 10.0.0.1/255.0.0.0 }\npermit dport $a\n",
     &[
        "1:11+5 `22` has bits outside its mask; expected `22-24` for a range, or `0x16/0x1e` for a mask with every bit of the value",
        "1:18+16 `10.1.1.1` has bits outside its mask: `0.0.0.0` compares no bit, as a wildcard mask it would compare every bit; expected `10.1.1.1/32`",
        "1:36+18 `10.0.0.1` has bits outside its mask; expected `10.0.0.0/255.0.0.0`",
     ]),
    ("schema {\n  a 16 prefix\n  b 16 exact\n  m 48 mask\n  d 32 prefix from dst\n}\npermit a 0x1234/8 b 0x1200/8 m 02:00:00:00:00:01/00:00:00:ff:ff:ff d 10/8\npermit a 0x1234/0 b 3/4\n",
     &[
        "7:10+8 `0x1234` has bits outside its prefix; expected `0x1200/8`",
        "7:21+8 `0x1200` has bits outside its mask; expected `0x1200/0xff00` for a prefix of 8 bits, or `0x1200/0x1208` for a mask with every bit of the value",
        "7:32+35 `02:00:00:00:00:01` has bits outside its mask: `00:00:00:ff:ff:ff` compares the last 24 bits, as a wildcard mask it would compare the first 24 bits; expected `02:00:00:00:00:00/24`",
        "7:70+4 d takes no numbers; expected all four bytes: `10.0.0.0/8`",
        "8:10+8 `0x1234` has bits outside its prefix; expected `0x1234/16`, or `0x00/0` if every value is meant",
        "8:21+3 `0x03` has bits outside its mask; expected `0x03/0x07` for a mask with every bit of the value",
     ]),
    ("permit src 0.0.0.0/255.255.255.255 dst { 0.0.0.0/0.0.0.255, 0.0.0.7/0.0.0.255, 0.0.0.0/0.0.0.0, 0.0.0.0/255.0.0.0, 10.0.0.1/255.255.255.255 }\n",
     &[
        "warning 1:12+23 `0.0.0.0/255.255.255.255` compares every bit, with a wildcard mask it would compare no bit; expected `0.0.0.0/32` for one value, or `0.0.0.0/0` for every value",
        "warning 1:42+17 `0.0.0.0/0.0.0.255` compares the last 8 bits, with a wildcard mask it would compare the first 24 bits; expected `0.0.0.0/24` if it is a wildcard mask",
     ]),
];

#[test]
fn corrections_are_those_that_were_meant() {
    for (text, expected) in CORRECTED {
        assert_eq!(diagnose(text), *expected, "{text}");
    }
}

fn parse(text: &str) -> Result<RuleFile, Vec<Diagnostic>> {
    firstmatch_formats::parse(text, &Options::default()).map_err(|error| error.faults().to_vec())
}

/// Returns the texts in backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Sort of a written value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Ipv4,
    Ipv6,
    Mac,
    Number,
}

fn value(text: &str) -> Option<(Sort, u128)> {
    let mac = || {
        let bytes: Option<Vec<u8>> = text.split(':').map(|byte| u8::from_str_radix(byte, 16).ok()).collect();
        let bytes = bytes.filter(|bytes| bytes.len() == 6)?;
        Some((Sort::Mac, bytes.iter().fold(0, |all, &byte| all << 8 | u128::from(byte))))
    };
    let number = || match text.strip_prefix("0x") {
        Some(hex) => u128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    };
    let ipv4 = || text.parse::<Ipv4Addr>().ok().map(|address| (Sort::Ipv4, address.to_bits().into()));
    let ipv6 = || text.parse::<Ipv6Addr>().ok().map(|address| (Sort::Ipv6, address.to_bits()));
    ipv4().or_else(mac).or_else(ipv6).or_else(|| Some((Sort::Number, number()?)))
}

/// Returns everything that a written value could mean in a field of `width` bits.
fn readings(written: &str, field: &Field) -> Vec<Test> {
    let range = |a: u128, b: u128| Test::Range { lo: a.min(b), hi: a.max(b) };
    if let Some((lo, hi)) = written.split_once('-').or(written.split_once(':'))
        && let (Some((of, lo)), Some((other, hi))) = (value(lo), value(hi))
        && of == other
    {
        return vec![range(lo, hi)];
    }
    if written.contains(',') {
        let one = |part: &str| match value(part.trim()) {
            Some((_, value)) => vec![Test::Value(value)],
            None => readings(part.trim(), field),
        };
        return written.split(',').flat_map(one).collect();
    }
    let Some((word, end)) = written.split_once('/') else { return Vec::new() };
    let (Some((of, a)), Some((other, b))) = (value(word), value(end)) else { return Vec::new() };
    let width = match of {
        Sort::Ipv4 => 32,
        Sort::Ipv6 => 128,
        Sort::Mac => 48,
        Sort::Number => field.width(),
    };
    let all = u128::MAX >> (128 - width);
    let under = |mask: u128| Test::Mask { value: a & mask, mask };
    let net = |len: u128, width: u32| all & !(all.checked_shr(len as u32).unwrap_or(0)) & (u128::MAX >> (128 - width));
    let is_low_ones = |mask: u128| mask & mask.wrapping_add(1) == 0;
    let mut all_readings = Vec::new();
    if of == other && of != Sort::Number {
        // A mask has no bits of the address outside, unless it is a netmask.
        if a & !b == 0 || b != 0 && is_low_ones(all & !b) {
            all_readings.push(under(b));
        }
        if a & b == 0 || is_low_ones(b) {
            all_readings.push(under(all & !b));
        }
    } else if of != Sort::Number || field.kind() == Kind::Prefix && field.width() < 32 {
        all_readings.push(under(net(b, width)));
    } else if field.width() >= 32 {
        // The first byte of an address of IPv4, and a length.
        all_readings.push(Test::Mask { value: a << 24 & net(b, 32), mask: net(b, 32) });
    } else {
        all_readings.extend([under(a | b), Test::Value(a), range(a, b)]);
        all_readings.extend((b <= u128::from(width) && a & !net(b, width) == 0).then(|| under(net(b, width))));
    }
    all_readings
}

fn holds(test: Test, value: u128, width: u32) -> bool {
    match test {
        Test::Value(only) => value == only,
        Test::Prefix { value: of, len } => {
            (value ^ of) >> (width - len).min(127) == 0 || len == 0 || width - len == 128
        }
        Test::Range { lo, hi } => (lo..=hi).contains(&value),
        Test::Mask { value: of, mask } => value & mask == of,
        Test::Absent | Test::Set(_) => false,
    }
}

/// Returns a value that a test holds for.
fn sample(test: Test, width: u32, rng: &mut Rng) -> u128 {
    let any = u128::from(rng.next()) << 64 | u128::from(rng.next());
    let all = u128::MAX >> (128 - width);
    match test {
        Test::Value(value) => value,
        Test::Prefix { value, len } => value | any & all.checked_shr(len).unwrap_or(0),
        Test::Range { lo, hi } => lo + any % (hi - lo + 1),
        Test::Mask { value, mask } => value | any & all & !mask,
        Test::Absent | Test::Set(_) => unreachable!("no correction is `absent` or a live set"),
    }
}

/// Returns the field and the tests of a proposed text in the place of a fault.
fn proposed<'f>(
    text: &str,
    fault: &Diagnostic,
    hint: &str,
    file: &'f mut Option<RuleSet>,
) -> Option<(&'f Field, Vec<Test>)> {
    let line = text.lines().nth(fault.line as usize - 1)?;
    let before: String = line.chars().take(fault.column as usize - 1).collect();
    let head =
        if let Some(end) = text.find("}\n").filter(|_| text.starts_with("schema {")) { &text[..end + 2] } else { "" };
    let words = before.split_whitespace().rev().filter(|word| word.chars().all(|c| c.is_alphanumeric() || c == '_'));
    // In a set the values say where they can be used.
    for word in words.chain(["src", "dport"]) {
        let Ok(read) = parse(&format!("{head}permit {word} {hint}\n")) else { continue };
        let rules = &*file.insert(read.rules);
        let rule = rules.iter().next()?;
        let fields = rules.schemas().iter().flat_map(Schema::fields);
        let field = fields.filter(|field| field.name() == word).max_by_key(|field| field.width())?;
        let index = rules.schemas()[0].index_of(word)?;
        let tests = rule.conditions.iter().find(|condition| condition.field == index)?.tests();
        return Some((field, tests.map(|(_, test)| test).collect()));
    }
    None
}

/// Every proposed value of the corpus of faults holds for no packet that no reading of the written text holds for.
#[test]
fn no_correction_is_wider_than_what_was_written() {
    let mut rng = Rng::new(46);
    let mut checked = Vec::new();
    for (text, _) in NATIVE.iter().chain(NAMES).chain(CORRECTED) {
        let found = match parse(text) {
            Ok(file) => file.warnings,
            Err(faults) => faults,
        };
        for fault in found {
            let line = text.lines().nth(fault.line as usize - 1).expect("the line of the fault");
            let written: String = line.chars().skip(fault.column as usize - 1).take(fault.width as usize).collect();
            for hint in fault.expected.iter().flat_map(|expected| quoted(expected)) {
                let mut file = None;
                let Some((field, tests)) = proposed(text, &fault, hint, &mut file) else { continue };
                let width = if written.contains('.') { 32 } else { field.width() };
                let readings = readings(&written, field);
                for _ in 0..200 {
                    let test = *rng.pick(&tests);
                    let value = sample(test, width, &mut rng);
                    let is_meant = readings.iter().any(|&reading| holds(reading, value, width));
                    assert!(is_meant, "`{written}` cannot mean {value:#x} of `{hint}`; {readings:?}");
                }
                checked.push(hint.to_owned());
            }
        }
    }
    assert!(checked.len() > 40, "{} corrections: {checked:?}", checked.len());
}

/// ClassBench proposes no values but ports in order.
#[test]
fn classbench_proposes_ports_in_order() {
    let expected = CLASSBENCH.iter().flat_map(|(_, all)| *all).filter_map(|all| Some(all.split_once("; expected ")?.1));
    for hint in expected.flat_map(quoted).filter(|hint| hint.len() > 1) {
        let ports: Option<Vec<u16>> = hint.split(" : ").map(|port| port.parse().ok()).collect();
        let is_form = matches!(hint, "lo : hi" | "0x06/0xFF");
        assert!(is_form || ports.is_some_and(|ports| ports.len() == 2 && ports[0] < ports[1]), "{hint}");
    }
}

/// Words of other languages are never taken for a wider verdict or family.
#[test]
fn suggested_words_open_nothing() {
    let suggested = |text: String| {
        let faults = parse(&text).expect_err("it has a fault");
        quoted(faults[0].message.split_once("did you mean").map_or("", |(_, meant)| meant)).map(str::to_owned).next()
    };
    for word in ["drop", "block", "reject", "discard", "deni"] {
        assert_eq!(suggested(format!("{word} tcp\n")).as_deref(), Some("deny"), "{word}");
        assert_eq!(suggested(format!("default {word}\npermit\n")).as_deref(), Some("deny"), "{word}");
    }
    for (word, family) in
        [("inet4", "ipv4"), ("ip4", "ipv4"), ("v4", "ipv4"), ("inet6", "ipv6"), ("ip6", "ipv6"), ("v6", "ipv6")]
    {
        assert_eq!(suggested(format!("family {word}\npermit\n")).as_deref(), Some(family), "{word}");
        assert_eq!(suggested(format!("permit family {word}\n")).as_deref(), Some(family), "{word}");
    }
}

/// Where one value stands, no range, prefix or mask is proposed.
#[test]
fn a_single_value_is_corrected_by_none_that_is_several() {
    let schema = Schema::ipv4();
    for (field, text) in [(0, "10.0.0.1/8"), (0, "10.1.1.1/0.0.0.0"), (2, "90-80"), (2, "22/24"), (0, "10/8")] {
        let error = parse_value(&schema, field, text).expect_err("it is more than one value");
        assert!(!error.expected().contains('`'), "{text}: {error}");
    }
}
