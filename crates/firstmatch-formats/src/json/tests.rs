//! Tests of JSON rule files: a round trip changes nothing, and every fault has its place.

mod faults;

use crate::{Options, RuleFile};
use firstmatch_core::policy::{Fragments, Policy, Verdict};
use firstmatch_core::rule::{Action, Condition, Priority, Rule, RuleSpec, Test};
use firstmatch_core::schema::{Family, Field, Kind, Schema, Source};
use firstmatch_core::{RuleId, RuleSet};

use super::{read, write};
use firstmatch_testkit::rng::Rng;

fn file(rules: RuleSet, policy: Policy) -> RuleFile {
    RuleFile::new(rules, policy)
}

fn rules(file: &RuleFile) -> Vec<Rule> {
    file.rules.iter().cloned().collect()
}

fn back(text: &str) -> RuleFile {
    match read(text, &Options::default()) {
        Ok(read) => read.file,
        Err(error) => panic!("{text}\n{:#?}", error.faults),
    }
}

/// Asserts that a round trip keeps ids, priorities and lines, and a second one the text.
fn assert_identity(before: &RuleFile) {
    let text = write(before).expect("it can be written");
    let after = back(&text);
    assert_eq!((after.policy, after.rules.schemas()), (before.policy, before.rules.schemas()), "{text}");
    assert_eq!(rules(&after), rules(before), "{text}");
    assert_eq!(write(&after).expect("it can be written"), text);
    // A document that a script has rewritten is the same document.
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(rules(&back(&value.to_string())), rules(before));
}

/// Members that a document may leave out because they are false may also be stated.
#[test]
fn false_is_what_is_left_out() {
    let text = "schema {\n  a 8 range\n  b 8 range optional\n}\ndeny a 1 b not 2\n";
    let parsed = crate::parse(text, &Options::default()).expect("the rules are good");
    let written = write(&parsed).expect("it can be written");
    let mut value: serde_json::Value = serde_json::from_str(&written).expect("JSON");
    let fields = value["schemas"][0]["fields"].as_array_mut().expect("fields");
    assert!(fields[0].get("optional").is_none() && fields[1]["optional"] == true, "{written}");
    fields[0]["optional"] = false.into();
    let conditions = value["rules"][0]["conditions"].as_array_mut().expect("conditions");
    assert!(conditions[0].get("not").is_none() && conditions[1]["not"] == true, "{written}");
    conditions[0]["not"] = false.into();
    let after = back(&value.to_string());
    assert_eq!((rules(&after), after.rules.schemas()), (rules(&parsed), parsed.rules.schemas()));
}

fn schemas(random: &mut Rng) -> Vec<Schema> {
    let extra: Vec<Source> = [Source::IcmpType, Source::IcmpCode, Source::TcpFlags, Source::VlanVid]
        .into_iter()
        .filter(|_| random.below(2) == 0)
        .collect();
    let of = |family| Schema::five_tuple(family, &extra);
    let odd = || {
        let mut fields = vec![
            Field::new("a \"b\\c\" é/~", 1, Kind::Exact, None),
            Field::new("w33", 33, Kind::Range, None).optional(),
            Field::new("w54", 54, Kind::Mask, None),
            Field::new("w128", 128, Kind::Prefix, None).optional(),
            Field::from_source(Source::EthDst, Family::Ipv4),
            Field::from_source(Source::Ipv4Src, Family::Ipv4),
            Field::new("to", 32, Kind::Prefix, Some(Source::Dst)),
            Field::new("from", 128, Kind::Prefix, Some(Source::Src)),
        ];
        fields.truncate(5 + extra.len().min(3));
        Schema::new(None, fields)
    };
    match random.below(5) {
        0 => vec![of(Family::Ipv4)],
        1 => vec![of(Family::Ipv6)],
        2 => vec![odd()],
        _ => vec![of(Family::Ipv4), of(Family::Ipv6)],
    }
}

fn test(random: &mut Rng, schemas: &[Schema], field: usize) -> (Option<Family>, Test) {
    let of = random.below(schemas.len());
    let family = schemas[of].family().filter(|_| random.below(2) == 0);
    let narrowest = |s: &Schema| (family.is_none() || s.family() == family).then(|| s.fields()[field].width());
    let widths: Vec<u32> = schemas.iter().filter_map(narrowest).collect();
    let width = widths.iter().copied().min().expect("a schema of the family");
    let both = widths.iter().any(|&w| w != width);
    let max = u128::MAX >> (128 - width);
    let own = u128::from(random.next());
    let value = random.any_of(&[own, 0, u128::MAX]) & max ^ random.bits(width) & random.bits(width);
    let test = match random.below(4) {
        0 => Test::Value(value),
        1 => {
            let other = random.bits(width);
            Test::Range { lo: value.min(other), hi: value.max(other) }
        }
        2 => {
            let len = random.below(width as usize + 1) as u32;
            let value = if both { 0 } else { value & !max.checked_shr(len).unwrap_or(0) };
            Test::Prefix { value, len }
        }
        _ => {
            let mask = random.bits(width);
            Test::Mask { value: value & mask, mask }
        }
    };
    (family, test)
}

fn rule(random: &mut Rng, schemas: &[Schema]) -> RuleSpec {
    let mut conditions = Vec::new();
    for field in 0..schemas[0].fields().len() {
        if random.below(3) == 0 {
            let tests = (0..1 + random.below(3)).map(|_| test(random, schemas, field)).collect();
            conditions.push(Condition { field, negated: random.below(3) == 0, tests });
        }
    }
    let of = random.below(schemas.len());
    RuleSpec {
        priority: Priority(random.next() >> random.below(64)),
        action: random.any_of(&[Action::Permit, Action::Deny, Action::Match, Action::Mark(0), Action::Mark(u32::MAX)]),
        conditions: conditions.into(),
        family: schemas[of].family().filter(|_| random.below(4) == 0),
        line: std::num::NonZeroU32::new(random.below(3) as u32),
        value: 0,
    }
}

#[test]
fn random_rule_files_come_back_equal() {
    let mut random = Rng::new(41);
    for _ in 0..400 {
        let schemas = schemas(&mut random);
        let mut set = match &schemas[..] {
            [four, six] => RuleSet::dual(four.clone(), six.clone()),
            _ => RuleSet::new(schemas[0].clone()),
        };
        let mut ids: Vec<RuleId> = Vec::new();
        for _ in 0..random.below(30) {
            // Removed rules leave gaps and reused slots.
            if !ids.is_empty() && random.below(3) == 0 {
                let at = random.below(ids.len());
                set.remove(ids.swap_remove(at)).expect("it is live");
            }
            // Sometimes a priority is taken.
            ids.extend(set.insert(rule(&mut random, &schemas)).ok());
        }
        let verdicts = [Verdict::Permit, Verdict::Deny, Verdict::Match, Verdict::Mark(9)];
        let policy = Policy {
            default: random.any_of(&verdicts),
            unknown: random.any_of(&verdicts),
            fragments: random.any_of(&[Fragments::Unknown, Fragments::Layer3]),
        };
        assert_identity(&file(set, policy));
    }
}

#[test]
fn rule_files_of_other_formats_come_back_equal() {
    let options = Options { flags: true, ..Options::default() };
    for text in [
        include_str!("../../../../examples/edge.rules"),
        "",
        "family ipv6\npermit icmp_type echo-request src not ::ffff:1.2.3.4/128\n",
        "@1.2.3.0/24\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x1000/0x1200\n@0.0.0.0/0 9.9.9.9/32 5:7 0:65535 0x00/0x00\n",
        "schema openflow\npermit eth_src 02:00:00:00:00:01 tcp metadata 0x8000000000000000/0x8000000000000000\n",
        "schema {\n  tenant 100 mask\n  eth_type 16 exact from eth_type optional\n}\ndeny tenant 0-0x7ffffffffffffffff eth_type not arp\n",
        "@::/0 2001:db8::/32 0:65535 0:65535 0x00/0x00\n",
    ] {
        assert_identity(&crate::parse(text, &options).expect("the rules are good"));
    }
}

#[test]
fn what_is_left_out_follows_from_the_rest() {
    let text = r#"{ "format": "firstmatch-rules", "version": 1, "schemas": ["ipv4", "ipv6"], "rules": [
        { "action": "permit", "conditions": [
            { "field": "src", "tests": [ { "value": "10.0.0.0", "length": 8 }, { "value": "::1" } ] },
            { "field": "dport", "not": true, "tests": [ { "value": "0x50" }, { "lo": "1024", "hi": 65535 } ] } ] },
        { "id": 5, "action": { "mark": 7 }, "conditions": [ { "field": "sport", "tests": [ { "any": true } ] } ] },
        { "action": "deny", "family": "ipv6", "conditions": [] } ] }"#;
    let read = read(text, &Options::default()).expect("good");
    let native = crate::parse(
        "permit src { 10.0.0.0/8, ::1 } dport not { 80, 1024-65535 }\nmark 7 sport any\ndeny family ipv6\n",
        &Options::default(),
    );
    let specs =
        |file: &RuleFile| rules(file).into_iter().map(|r| RuleSpec { line: None, ..r.spec }).collect::<Vec<_>>();
    let native = native.expect("good");
    // A native prefix of full length and a single address differ, but here both are written alike.
    assert_eq!(specs(&read.file), specs(&native));
    assert_eq!((read.file.policy, read.file.rules.schemas()), (native.policy, native.rules.schemas()));
    let ids: Vec<_> = read.file.rules.iter().map(|rule| rule.id.get()).collect();
    assert_eq!((ids, read.lines), (vec![6, 5, 7], vec![0, 0, 0, 0, 5, 2, 6]));
}

#[test]
fn garbage_never_panics_and_faults_stand_inside_the_text() {
    let good = write(
        &crate::parse(
            "permit tcp src { 10.0.0.0/8, ::/0 } dport not { 80, 1-2 }\nmark 3 icmp_type echo-request tcp_flags 1/1\n",
            &Options::default(),
        )
        .expect("good"),
    )
    .expect("it can be written");
    const WORDS: [&str; 20] = [
        "null",
        "true",
        "{}",
        "[]",
        "-1",
        "1e999",
        "\"\"",
        "\"ipv4\"",
        "\"10.0.0.1\"",
        "\"\\ud800\"",
        "4294967296",
        "340282366920938463463374607431768211456",
        "\"any\"",
        "\"src\"",
        "0",
        "128",
        "[1]",
        "{\"a\":{}}",
        "é",
        "\u{1}",
    ];
    let mut random = Rng::new(5);
    let mut faulty = 0;
    for _ in 0..30_000 {
        // One value becomes another one, or bytes are swapped.
        let mut text = good.clone();
        for _ in 0..1 + random.below(2) {
            let starts: Vec<usize> = text.match_indices([':', '[', ',']).map(|(at, _)| at + 1).collect();
            let at = starts[random.below(starts.len())];
            let end = text[at..].find([',', '}', ']', '\n']).map_or(text.len(), |end| at + end);
            text.replace_range(at..end, WORDS[random.below(WORDS.len())]);
        }
        let Err(error) = read(&text, &Options::default()) else { continue };
        faulty += 1;
        assert!(!error.faults.is_empty() && error.faults.is_sorted_by_key(|d| d.line), "{text}");
        for d in error.faults {
            let line = text.lines().nth(d.line as usize - 1).unwrap_or("");
            assert!(d.column as usize + d.width as usize <= line.chars().count() + 2, "{d:?}\n{text}");
        }
    }
    assert!(faulty > 10_000, "{faulty}");
}

#[test]
fn the_documents_of_the_manual_are_read() {
    let manual = include_str!("../../../../docs/json.md");
    let blocks: Vec<_> = manual.split("```json\n").skip(1).filter_map(|part| part.split("```").next()).collect();
    let [document, schema] = blocks[..] else { panic!("{blocks:?}") };
    let read_from_manual = back(document);
    assert_eq!(read_from_manual.rules.len(), 2);
    assert_identity(&read_from_manual);
    let text = format!("{{\"format\": \"firstmatch-rules\", \"version\": 1, \"schemas\": [{schema}], \"rules\": []}}");
    assert_eq!(back(&text).rules.schemas()[0].fields().len(), 2);
}

/// Returns a line of a ClassBench filter set, with any form of prefix, port and protocol.
fn classbench_line(random: &mut Rng, six: bool) -> String {
    let mut prefix = || {
        let width = if six { 128 } else { 32 };
        let len = random.any_of(&[0, 1, 8, 24, 31, 32, 64, 127, 128]).min(width);
        let value = random.bits(width) & !(u128::MAX.checked_shr(128 - width + len).unwrap_or(0));
        if six {
            format!("{}/{len}", std::net::Ipv6Addr::from(value))
        } else {
            format!("{}/{len}", std::net::Ipv4Addr::from(value as u32))
        }
    };
    let addresses = [prefix(), prefix()].join("\t");
    let mut ports = || {
        let (a, b) = (random.bits(16), random.bits(16));
        let (lo, hi) = random.any_of(&[(0, 65535), (a, a), (a.min(b), a.max(b)), (1024, 65535), (0, 0)]);
        format!("{lo} : {hi}")
    };
    let ports = [ports(), ports()].join("\t");
    let mask = random.any_of(&[0, 0xFF, 0xFF, 0x0F]);
    let flags = random.any_of(&["", "\t0x0000/0x0000", "\t0x1000/0x1200"]);
    format!("@{addresses}\t{ports}\t0x{:02X}/0x{mask:02X}{flags}\n", random.bits(8) & mask)
}

/// Returns the parts of rules that do not depend on their places.
fn meaning(file: &RuleFile) -> Vec<(Action, firstmatch_core::rule::Conditions, Option<Family>)> {
    file.rules.iter().map(|rule| (rule.action, rule.conditions.clone(), rule.family)).collect()
}

/// Rules are the same rules whichever format they come from.
///
/// Schema, policy, order, actions and conditions are equal, and a set of one format takes rules of another.
#[test]
fn rules_of_every_format_are_the_same_rules() {
    let mut random = Rng::new(5);
    for round in 0..200 {
        let six = round % 2 == 1;
        let text: String = (0..1 + random.below(12)).map(|_| classbench_line(&mut random, six)).collect();
        let classbench = crate::parse(&text, &Options::default()).expect(&text);
        let mut native = String::new();
        crate::write::native(&classbench.rules, &classbench.policy, &mut native).expect("it can be written");
        let native = crate::parse(&native, &Options::default()).expect(&native);
        let json = back(&write(&classbench).expect("it can be written"));
        let both = back(&write(&native).expect("it can be written"));
        let mut again = String::new();
        crate::write::classbench(&both.rules, &both.policy, &mut again).expect("it can be written");
        let again = crate::parse(&again, &Options::default()).expect(&again);
        for other in [&native, &json, &both, &again] {
            assert_eq!(meaning(other), meaning(&classbench), "{text}");
            assert_eq!((other.rules.schemas(), other.policy), (classbench.rules.schemas(), classbench.policy));
            let mut set = other.rules.clone();
            for (rule, priority) in classbench.rules.iter().zip(1..) {
                set.insert(RuleSpec { priority: Priority(priority), ..rule.spec.clone() }).expect("the same fields");
            }
        }
    }
}

/// Numbers larger than every reader keeps are written as text.
#[test]
fn large_numbers_are_text() {
    let file = crate::parse(
        "schema openflow\npermit metadata 9007199254740991\npermit metadata 9007199254740992\n",
        &Options::default(),
    );
    let text = write(&file.expect("the rules are good")).expect("JSON holds every rule");
    assert!(text.contains(":9007199254740991") || text.contains(": 9007199254740991"), "{text}");
    assert!(text.contains("\"9007199254740992\""), "{text}");
}
