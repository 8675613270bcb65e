//! Tests of JSON rule files: the round trip is the identity, and every fault has its place.

use crate::{Options, RuleFile};
use firstmatch_core::policy::{Fragments, Policy, Verdict};
use firstmatch_core::rule::{Action, Condition, Priority, Rule, RuleSpec, Test};
use firstmatch_core::schema::{Family, Field, Kind, Schema, Source};
use firstmatch_core::{RuleId, RuleSet};

use super::{read, write};
use firstmatch_testkit::rng::Rng;

fn file(rules: RuleSet, policy: Policy) -> RuleFile {
    RuleFile { rules, policy, warnings: Vec::new(), more_warnings: 0 }
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

/// What a document may leave out because it is false may also stand there.
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
            // Now and then a priority is taken.
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
    assert_eq!((ids, read.lines), (vec![1, 5, 2], vec![2, 6, 0, 0, 5]));
}

const HEAD: &str =
    "{\n\"format\": \"firstmatch-rules\", \"version\": 1, \"schemas\": [\"ipv4\", \"ipv6\"],\n\"rules\": [\n";

/// Returns each fault as `line:column+width message`.
fn faults(text: &str) -> Vec<String> {
    let Err(error) = read(text, &Options::default()) else { panic!("{text}\nis good") };
    assert_eq!(error.more, 0);
    let show = |d: firstmatch_core::Diagnostic| {
        let expected = d.expected.map_or(String::new(), |e| format!("; expected {e}"));
        format!("{}:{}+{} {}{expected}", d.line, d.column, d.width, d.message)
    };
    error.faults.into_iter().map(show).collect()
}

/// Returns the faults of a rule's conditions, without the pointer to them.
fn of_tests(field: &str, tests: &str) -> Vec<String> {
    let rule = format!("{{\"action\": \"deny\", \"conditions\": [{{\"field\": \"{field}\", \"tests\": {tests}}}]}}");
    let out = faults(&format!("{HEAD}{rule}\n]}}"));
    let strip = |fault: String| {
        let (place, message) = fault.split_once(" /rules/0/conditions/0").expect("a pointer to the condition");
        assert!(place.starts_with("4:"), "{fault}");
        message.to_owned()
    };
    out.into_iter().map(strip).collect()
}

#[test]
fn faults_of_tests_are_located() {
    for (field, tests, expected) in [
        (
            "dprot",
            "[{\"value\": 1}]",
            "/field: there is no field `\"dprot\"`; expected one of src, dst, sport, dport, proto",
        ),
        ("dport", "[]", "/tests: a condition without tests holds for nothing; expected a test"),
        ("dport", "80", "/tests: `80` is no list of tests; expected a list"),
        ("dport", "[80]", "/tests/0: `80` is no test; expected an object"),
        ("dport", "[{\"value\": 65536}]", "/tests/0/value: the value is too large (dport has 16 bits)"),
        (
            "dport",
            "[{\"value\": -1}]",
            "/tests/0/value: `-1` is no value of dport; expected a number; above 9007199254740991 as text",
        ),
        (
            "dport",
            "[{\"value\": 8.5}]",
            "/tests/0/value: `8.5` is no value of dport; expected a number; above 9007199254740991 as text",
        ),
        (
            "dport",
            "[{\"value\": \"10.0.0.1\"}]",
            "/tests/0/value: `\"10.0.0.1\"` is no value of dport; expected a number; above 9007199254740991 as text",
        ),
        ("dport", "[{\"value\": 1}, {\"lo\": 9, \"hi\": 8}]", "/tests/1/hi: the range is reversed (dport has 16 bits)"),
        (
            "dport",
            "[{\"lo\": 9}]",
            "/tests/0: a test of no known form; expected {\"value\"}, {\"value\", \"length\"}, {\"value\", \"mask\"}, {\"lo\", \"hi\"} or {\"any\": true}",
        ),
        (
            "dport",
            "[{\"value\": 9, \"mask\": 8}]",
            "/tests/0/mask: the value has bits outside its mask (dport has 16 bits)",
        ),
        (
            "dport",
            "[{\"value\": 9, \"length\": 17}]",
            "/tests/0/length: `17` is no prefix length; expected a number up to 16",
        ),
        (
            "dport",
            "[{\"value\": 9, \"length\": 8}]",
            "/tests/0/value: the value has bits outside its prefix (dport has 16 bits)",
        ),
        ("dport", "[{\"any\": 1}]", "/tests/0/any: `1` after \"any\"; expected true"),
        (
            "dport",
            "[{\"value\": 1, \"famly\": \"ipv4\"}]",
            "/tests/0/famly: there is no member `\"famly\"`; expected \"family\", \"any\", \"value\", \"length\", \"mask\", \"lo\" or \"hi\"",
        ),
        (
            "dport",
            "[{\"value\": 1, \"family\": \"inet\"}]",
            "/tests/0/family: `\"inet\"` is no family; expected `\"ipv4\"` or `\"ipv6\"`",
        ),
        ("dport", "[{\"value\": 1, \"value\": 2}]", "/tests/0/value: `\"value\"` is given twice"),
        (
            "src",
            "[{\"value\": \"10.0.0\"}]",
            "/tests/0/value: `\"10.0.0\"` is no value of src; expected an address as text, or a number",
        ),
        (
            "src",
            "[{\"value\": \"10.0.0.1\", \"length\": 8}]",
            "/tests/0/value: the value has bits outside its prefix (src has 32 bits)",
        ),
        (
            "src",
            "[{\"value\": \"10.0.0.0\", \"length\": 33}]",
            "/tests/0/length: `33` is no prefix length; expected a number up to 32",
        ),
        (
            "src",
            "[{\"value\": \"10.0.0.1\", \"family\": \"ipv6\"}]",
            "/tests/0/family: an ipv4 address in a test for ipv6",
        ),
        (
            "src",
            "[{\"lo\": \"10.0.0.1\", \"hi\": \"::1\"}]",
            "/tests/0/hi: `\"10.0.0.1\"` and `\"::1\"` are not of one kind",
        ),
        ("src", "[{\"value\": 4294967296}]", "/tests/0/value: the value is too large (src has 32 bits)"),
        (
            "src",
            "[{\"value\": \"99999999999999999999999999999999999999999\"}]",
            "/tests/0/value: `\"99999999999999999999999999999999999999999\"` is no value of src; expected an address as text, or a number",
        ),
    ] {
        assert_eq!(of_tests(field, tests), [expected], "{field} {tests}");
    }
}

#[test]
fn every_fault_of_a_document_is_found_in_one_run() {
    let rules = "{\"id\": 0, \"action\": \"drop\", \"conditions\": []},\n\
                 {\"action\": {\"mark\": -1}, \"line\": 0, \"conditions\": [], \"extra\": 1},\n\
                 {\"conditions\": {}},\n\
                 17,\n\
                 {\"action\": \"deny\", \"family\": \"ipv5\", \"conditions\": [{\"field\": \"dst\"}, {\"field\": \"dst\", \"not\": 1, \"tests\": [{\"any\": true}]}]},\n\
                 {\"action\": \"deny\", \"conditions\": [{\"field\": \"proto\", \"tests\": [{\"any\": true}]}, {\"field\": \"proto\", \"tests\": [{\"value\": 1}]}]}\n";
    let text =
        format!("{HEAD}{rules}],\n\"policy\": {{\"default\": \"allow\", \"fragments\": \"layer4\"}}, \"note\": \"\"}}");
    assert_eq!(
        faults(&text),
        [
            "4:8+1 /rules/0/id: `0` is no id; expected a number from 1, none twice",
            "4:21+6 /rules/0/action: `\"drop\"` is no action; expected \"permit\", \"deny\", \"match\" or {\"mark\": 7}",
            "5:21+2 /rules/1/action/mark: `-1` is no mark; expected a number up to 4294967295",
            "5:34+1 /rules/1/line: `0` is no line; expected 1 to 4294967295",
            "5:55+7 /rules/1/extra: there is no member `\"extra\"`; expected \"id\", \"line\", \"priority\", \"action\", \"family\" or \"conditions\"",
            "6:1+1 /rules/2: the member \"action\" is missing",
            "6:16+1 /rules/2/conditions: an object is no list of conditions; expected a list",
            "7:1+2 /rules/3: `17` is no rule; expected an object",
            "8:30+6 /rules/4/family: `\"ipv5\"` is no family; expected `\"ipv4\"` or `\"ipv6\"`",
            "8:53+1 /rules/4/conditions/0: the member \"tests\" is missing",
            "8:95+1 /rules/4/conditions/1/not: `1` is no statement; expected true or false",
            "9:91+7 /rules/5/conditions/1/field: there is already a condition on `\"proto\"`; expected one condition a field, with several tests",
            "11:23+7 /policy/default: `\"allow\"` is no action; expected \"permit\", \"deny\", \"match\" or {\"mark\": 7}",
            "11:45+8 /policy/fragments: `\"layer4\"` is no treatment of fragments; expected `\"unknown\"` or `\"layer3\"`",
            "11:56+6 /note: there is no member `\"note\"`; expected \"format\", \"version\", \"schemas\", \"policy\" or \"rules\"",
        ]
    );
}

#[test]
fn ids_and_priorities_are_checked_against_each_other() {
    let rule = |members: &str| format!("{{{members}\"action\": \"deny\", \"conditions\": []}}");
    let all = |rules: &[&str]| {
        faults(&format!("{HEAD}{}\n]}}", rules.iter().map(|r| rule(r)).collect::<Vec<_>>().join(",\n")))
    };
    assert_eq!(
        all(&["\"priority\": 7, \"id\": 2, ", "\"priority\": \"7\", \"id\": 4294967298, ", "\"id\": 70000, "]),
        [
            "5:14+3 /rules/1/priority: the priority `\"7\"` is that of the rule on line 4; expected another for every rule",
            "5:25+10 /rules/1/id: the id `4294967298` has the place of the id 2; expected another for every rule",
            "6:1+1 /rules/2: the member \"priority\" is missing, which other rules have; expected one in every rule, or in none: their order then counts",
            "6:8+5 /rules/2/id: `70000` is too large an id for 3 rules; expected a place up to 65584",
        ]
    );
    assert_eq!(all(&["\"priority\": 18446744073709551616, "]).len(), 1);
}

#[test]
fn faults_of_schemas_are_located() {
    let field = |rest: &str| format!("[{{\"fields\": [{{{rest}}}]}}]");
    for (schemas, expected) in [
        ("[]".to_owned(), "/schemas: 0 schemas; expected one, or that of IPv4 and that of IPv6"),
        ("7".to_owned(), "/schemas: `7` is no list of schemas; expected a list"),
        ("[\"inet\"]".to_owned(), "/schemas/0: `\"inet\"` is no preset; expected `\"ipv4\"`, `\"ipv6\"` or `\"openflow\"`"),
        ("[\"ipv6\", \"ipv4\"]".to_owned(), "/schemas: two schemas that are not of IPv4 and of IPv6; expected that of family \"ipv4\", then that of family \"ipv6\""),
        ("[{\"fields\": []}]".to_owned(), "/schemas/0/fields: 0 fields; expected 1 to 64"),
        (field("\"name\": \"a\", \"width\": 129, \"kind\": \"exact\""), "/schemas/0/fields/0/width: `129` is no width in bits; expected a number up to 128"),
        (field("\"name\": \"a\", \"width\": 0, \"kind\": \"exact\""), "/schemas/0/fields/0/width: a field of no bits; expected 1 to 128"),
        (field("\"name\": \"\", \"width\": 1, \"kind\": \"exact\""), "/schemas/0/fields/0/name: a field without a name"),
        (field("\"name\": \"a\", \"width\": 1, \"kind\": \"fuzzy\""), "/schemas/0/fields/0/kind: `\"fuzzy\"` is no kind; expected `\"exact\"`, `\"prefix\"`, `\"range\"` or `\"mask\"`"),
        (field("\"name\": \"a\", \"width\": 8, \"kind\": \"exact\", \"source\": \"sport\""), "/schemas/0/fields/0/width: `\"sport\"` has 16 bits in packets, the field 8"),
        ("[{\"fields\": [{\"name\": \"a\", \"width\": 1, \"kind\": \"exact\"}, {\"name\": \"\\u0061\", \"width\": 1, \"kind\": \"exact\"}]}]".to_owned(), "/schemas/0/fields/1/name: two fields are named `\"\\u0061\"`"),
        ("[\"ipv4\", {\"family\": \"ipv6\", \"fields\": [{\"name\": \"a\", \"width\": 1, \"kind\": \"exact\"}]}]".to_owned(), "/schemas: the two schemas differ in field 0; expected the same names and sources in the same order"),
    ] {
        let text = format!("{{\"format\": \"firstmatch-rules\", \"version\": 1, \"schemas\": {schemas}, \"rules\": []}}");
        let found = faults(&text);
        assert!(found.len() == 1 && found[0].ends_with(&format!(" {expected}")), "{found:?}\n{expected}");
    }
    let found = faults("{\"format\": \"other\", \"version\": 2}");
    assert_eq!(found.len(), 4, "{found:?}");
}

/// Schemas of narrow words are refused, because a document cannot say how wide they are.
#[test]
fn narrow_words_are_refused() {
    let fields = || vec![Field::new("a", 8, Kind::Range, None)];
    for (schema, is_usual) in [
        (Schema::new(None, fields()), true),
        (Schema::with_word_bits(None, fields(), 8), true),
        (Schema::with_word_bits(None, fields(), 4), false),
    ] {
        let written = write(&file(RuleSet::new(schema), Policy::default()));
        assert_eq!(written.as_ref().err().is_none(), is_usual);
        assert!(is_usual || written.is_err_and(|error| error.to_string().contains("narrower than 32 bits")));
    }
}

#[test]
fn text_that_is_no_json_has_one_fault_where_it_breaks() {
    for (text, place) in [
        ("{", "1:1+0 no JSON: EOF while parsing an object"),
        ("{\n  \"a\": [1, 2,]}", "2:14+0 no JSON: expected value"),
        ("{}\nx", "2:1+0 no JSON: trailing characters"),
        ("{\"é\": 01}", "1:8+0 no JSON: invalid number"),
        ("[\"\\é\"]", "1:4+0 no JSON: invalid escape"),
        ("[\"é\\é\"]", "1:5+0 no JSON: invalid escape"),
        ("[é", "1:2+0 no JSON: expected value"),
        ("[tré]", "1:4+0 no JSON: expected ident"),
        ("[1é]", "1:3+0 no JSON: expected `,` or `]`"),
        ("[\"\\u00é\"]", "1:7+0 no JSON: invalid escape"),
        ("{\"a\": \"\u{1}\"}", "1:7+0 no JSON: control character (\\u0000-\\u001F) found while parsing a string"),
    ] {
        assert_eq!(faults(text), [place], "{text}");
    }
    // Deep nesting takes no stack.
    let deep = format!("{{\"rules\": {}", "[".repeat(1 << 20));
    assert_eq!(faults(&deep).len(), 1);
    let deep = format!("{HEAD}{}{}]}}", "[".repeat(1 << 20), "]".repeat(1 << 20));
    assert_eq!(faults(&deep), ["4:1+1 /rules/0: a list is no rule; expected an object"]);
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
        // One value becomes another one, or bytes change places.
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
/// Schema, policy, order, actions and conditions are equal, and a set of one takes the rules of another.
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

/// Numbers above those that every reader keeps are written as text.
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

/// A MAC address has six parts, no more and no fewer.
#[test]
fn a_mac_address_has_six_parts() {
    let file = crate::parse("schema openflow\npermit eth_src 02:00:00:00:00:ff\n", &Options::default());
    let text = write(&file.expect("the rules are good")).expect("JSON holds every rule");
    for address in ["02:00:00:00:ff", "02:00:00:00:00:00:ff", "02:00:00:00:00:f", "2:0:0:0:0:ff", "+2:00:00:00:00:ff"] {
        let wrong = text.replace("02:00:00:00:00:ff", address);
        assert!(wrong != text && faults(&wrong)[0].contains("is no value of eth_src"), "{address}");
    }
}

/// Each object refuses a member that it does not know, and names those that it does.
#[test]
fn unknown_members_are_faults_of_every_object() {
    let condition = "{\"field\": \"dport\", \"tests\": [{\"value\": 1}], \"negated\": true}";
    let rules = format!(
        "{{\"action\": {{\"mark\": 1, \"of\": 2}}, \"conditions\": [{condition}]}}],\n\
         \"policy\": {{\"defaults\": \"deny\"}}}}"
    );
    assert_eq!(
        faults(&format!("{HEAD}{rules}")),
        [
            "4:24+4 /rules/0/action/of: there is no member `\"of\"`; expected \"mark\"",
            "4:93+9 /rules/0/conditions/0/negated: there is no member `\"negated\"`; expected \"field\", \"not\" or \"tests\"",
            "5:12+10 /policy/defaults: there is no member `\"defaults\"`; expected \"default\", \"unknown\" or \"fragments\"",
        ]
    );
    let fields = "{\"name\": \"a\", \"width\": 8, \"kind\": \"range\", \"from\": \"proto\"}";
    let schema = format!("{{\"fields\": [{fields}], \"name\": \"mine\"}}");
    let head = HEAD.replace("\"ipv4\", \"ipv6\"", &schema);
    assert_eq!(
        faults(&format!("{head}]}}")),
        [
            "2:112+6 /schemas/0/fields/0/from: there is no member `\"from\"`; expected \"name\", \"width\", \"kind\", \"source\" or \"optional\"",
            "2:131+6 /schemas/0/name: there is no member `\"name\"`; expected \"family\" or \"fields\"",
        ]
    );
}
