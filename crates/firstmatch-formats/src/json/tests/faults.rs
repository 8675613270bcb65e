//! Faults of JSON rule files: the refused texts, and the place of each fault.

use super::*;

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
            "/tests/0: a test of no known form; expected {\"value\"}, {\"value\", \"length\"}, {\"value\", \"mask\"}, {\"lo\", \"hi\"}, {\"any\": true} or {\"absent\": true}",
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
            "/tests/0/famly: there is no member `\"famly\"`; expected \"family\", \"any\", \"absent\", \"value\", \"length\", \"mask\", \"lo\" or \"hi\"",
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
            "5:55+7 /rules/1/extra: there is no member `\"extra\"`; expected \"id\", \"line\", \"priority\", \"action\", \"family\", \"conditions\", \"label\" or \"audit\"",
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

/// Schemas of narrow words are refused, because a document cannot state how wide they are.
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

/// Each object refuses a member that it does not know, and names the members that it knows.
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
