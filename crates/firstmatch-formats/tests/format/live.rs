//! Rules for existing sets: from text, from names, and from other sets.

use firstmatch_core::rule::{Action, Condition, FieldValues, NamedCondition, Priority, RuleSpec, Test, first_match};
use firstmatch_core::schema::{Family, Field, Kind, Source};
use firstmatch_core::{RuleSet, Schema};
use firstmatch_formats::ParseError;
use firstmatch_formats::{Fields, Options, ParsedRule, RuleFile, parse_rule};

fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).expect("the text is good")
}

fn with_all_fields(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options { fields: Fields::All, ..Options::default() }).expect("the text is good")
}

fn one(rules: &RuleSet, text: &str) -> Result<ParsedRule, ParseError> {
    parse_rule(rules, Priority(7), text, &Options::default())
}

/// Returns the faults of a rule for a set, as `line:column message; expected …`.
fn refusal(rules: &RuleSet, text: &str) -> String {
    one(rules, text).expect_err(text).to_string()
}

/// Returns the first rule of a text, without what depends on where it stands.
fn spec(text: &str) -> RuleSpec {
    let rule = parse(text).rules.iter().next().expect("a rule").spec.clone();
    RuleSpec { priority: Priority(7), line: None, ..rule }
}

#[test]
fn a_rule_of_another_text_is_never_a_rule_about_other_fields() {
    let text = "permit icmp icmp_type echo-request\npermit tcp dport 80\n";
    let mut set = parse(text).rules;
    let vlan = spec("deny vlan_vid 20\n");
    let error = set.insert(vlan.clone()).expect_err("field 5 is another field here");
    assert!(error.is_for_other_fields() && error.to_string().contains("`RuleSet::bind`"), "{error}");
    // A rule of other widths, of fewer families or of more is none of the set's either, conditions or not.
    for text in ["family ipv4\npermit tcp\n", "family ipv6\npermit\n", "schema openflow\npermit\n"] {
        assert!(set.insert(spec(text)).expect_err(text).is_for_other_fields(), "{text}");
    }
    assert!(parse("family ipv4\npermit tcp\n").rules.insert(spec("permit tcp dport 22\n")).is_err());
    let ports = "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x00/0x00\n";
    assert!(set.insert(spec(ports)).expect_err("IPv4 alone").is_for_other_fields());
    // A field of the same name from another header is another field.
    let named = |source| Schema::new(None, vec![Field::new("a", 16, Kind::Exact, source)]);
    let on_a = RuleSpec { conditions: [condition(0, 7)].into(), ..spec("permit\n") };
    let on_a = RuleSpec { conditions: conditions_of(named(Some(Source::DstPort)), &on_a), ..on_a };
    assert!(RuleSet::new(named(Some(Source::SrcPort))).insert(on_a.clone()).is_err());
    assert!(RuleSet::new(named(Some(Source::DstPort))).insert(on_a).is_ok());
    assert_eq!(set.len(), 2);
}

fn condition(field: usize, value: u128) -> Condition {
    Condition { field, negated: false, tests: vec![(None, Test::Value(value))] }
}

/// Returns the conditions as a set over this schema has them.
fn conditions_of(schema: Schema, spec: &RuleSpec) -> firstmatch_core::rule::Conditions {
    let mut set = RuleSet::new(schema);
    let id = set.insert(spec.clone()).expect("it fits");
    set.get(id).expect("it is live").conditions.clone()
}

#[test]
fn rules_over_the_same_fields_go_from_set_to_set() {
    // The rule is over the same fields, though the schema has others too.
    let mut set = parse("permit icmp icmp_type 8\n").rules;
    assert!(set.insert(spec("deny tcp dport 23\n")).is_ok());
    assert!(set.insert(RuleSpec { priority: Priority(8), ..spec("deny icmp_type 0\n") }).is_ok());
    // And by name between sets where fields stand elsewhere.
    let (from, mut to) = (parse("deny vlan_vid 20 tcp_flags 2\n").rules, with_all_fields("permit tcp\n").rules);
    let rule = from.iter().next().expect("a rule");
    assert!(to.insert(RuleSpec { priority: Priority(9), ..rule.spec.clone() }).is_err());
    let conditions = to.bind(from.unbind(&rule.conditions).expect("its own")).expect("every field is there");
    to.insert(RuleSpec { priority: Priority(9), conditions, ..rule.spec.clone() }).expect("it fits");
    assert!(to.unbind(&rule.conditions).is_err());
    let first = to.iter().next().expect("a rule");
    let names: Vec<_> = to.unbind(&first.conditions).expect("its own").into_iter().map(|c| c.field).collect();
    assert_eq!(names, ["vlan_vid", "tcp_flags"]);
}

#[test]
fn conditions_are_bound_by_name() {
    let set = parse("permit tcp\n").rules;
    let inside = NamedCondition::new("src", [Test::Prefix { value: 0, len: 0 }]).negated();
    let bound = set.bind([inside.clone(), NamedCondition::new("dport", [Test::Value(22)])]).expect("they are there");
    assert_eq!(bound.iter().map(|c| (c.field, c.negated)).collect::<Vec<_>>(), [(0, true), (3, false)]);
    assert_eq!(set.unbind(&bound).expect("its own")[0], inside);
    let error = set.bind([NamedCondition::new("vlan_vid", [Test::Value(1)])]).expect_err("there is none");
    let expected = "the rule does not fit the schema: there is no field vlan_vid in this set, which has src, dst, \
                    sport, dport, proto";
    assert_eq!(error.to_string(), expected);
    // A condition made by index is for whatever set takes it, and for no other from then on.
    let mut by_index = RuleSpec { conditions: [condition(5, 8)].into(), ..spec("permit\n") };
    by_index.action = Action::Deny;
    let (mut icmp, mut vlan) = (parse("permit icmp_type 0\n").rules, parse("permit vlan_vid 1\n").rules);
    vlan.insert(by_index.clone()).expect("it fits");
    let id = icmp.insert(by_index).expect("it fits");
    let taken = icmp.remove(id).expect("it is live");
    assert!(vlan.insert(RuleSpec { priority: Priority(99), ..taken.spec.clone() }).is_err());
    assert_eq!(icmp.insert(taken.spec).map(|_| icmp.len()), Ok(2));
}

/// A rule read for a set says what it says in the file.
#[test]
fn a_rule_for_a_set_is_what_it_is_in_its_file() {
    let rules = [
        "deny family ipv6 tcp dport { 22, 23 }",
        "permit src not { 10.0.0.0/8, 2001:db8::/32 } proto not tcp",
        "mark 7 icmp icmp_type echo-request icmp_code 0",
        "match dport { family ipv4 8080, family ipv6 80 } tcp_flags 0x02/0x12 vlan_vid 1-5",
        "deny",
    ];
    let text = rules.join("\n");
    let file = with_all_fields(&text);
    assert_eq!(file.rules.schemas()[0].fields().len(), with_all_fields("permit\n").rules.schemas()[0].fields().len());
    for (rule, text) in file.rules.iter().zip(rules) {
        let read = one(&file.rules, &format!("\n# before\n  {text}  # behind\n\n")).expect(text);
        assert_eq!(read.spec, RuleSpec { priority: Priority(7), line: None, ..rule.spec.clone() }, "{text}");
        assert_eq!(read.warnings, []);
    }
    let schemas = "schema {\n zone 32 prefix\n mac 48 exact\n kind 16 exact from eth_type\n big 128 mask\n}\n";
    let rule = "permit zone 10.0.0.0/8 mac 02:00:00:00:00:01 kind ipv6 big 0x1000000000/0xf000000000";
    for (head, rule) in [("schema openflow\n", "deny tcp eth_type arp metadata 1"), (schemas, rule)] {
        let file = parse(&format!("{head}{rule}\n"));
        let read = one(&file.rules, rule).expect(rule);
        assert_eq!(read.spec.conditions, file.rules.iter().next().expect("a rule").conditions);
    }
    // The flags of ClassBench are a field that the native format does not have; here it is one.
    let options = Options { flags: true, ..Options::default() };
    let flagged = "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0200/0x0200\n";
    let mut file = firstmatch_formats::parse(flagged, &options).expect("the text is good");
    let read = one(&file.rules, "match dport 80 tcp flags 0x0200/0x0200").expect("it has the field");
    assert_eq!(read.spec.conditions, file.rules.iter().next().expect("a rule").conditions);
    file.rules.insert(read.spec).expect("it fits");
    let values = [1, 2, 3, 80, 6, 0x0200].map(Some).to_vec();
    let packet = FieldValues { family: Some(Family::Ipv4), values };
    assert_eq!(first_match(&file.rules, &packet).map(|rule| rule.priority), Some(Priority(7)));
}

#[test]
fn what_a_set_lacks_is_named_with_what_it_has() {
    let all = "expected one of theirs: src, dst, sport, dport, proto";
    let inet = parse("permit tcp\n").rules;
    for (text, expected) in [
        (
            "deny tcp vlan_vid 20",
            &*format!(
                "1:10: the rules have no field `vlan_vid`; {all}; rules that are read with `Fields::All` have every field"
            ),
        ),
        ("deny vlan 20", "1:6: unknown field or protocol `vlan`"),
        (
            "deny eth_type arp",
            &format!(
                "1:6: the rules have no field `eth_type`; {all}; rules that are read with `Fields::All` have every field"
            ),
        ),
        (
            "deny dport 70000\npermit\n",
            "1:12: 70000 is too large for dport; expected a number up to 65535\n2:1: there is more than one line; expected one rule",
        ),
        (
            "\n  default deny\n",
            "2:3: a rule cannot start with `default`; expected a rule (permit, deny, mark or match)",
        ),
        ("# nothing\n", "2:1: there is no rule; expected a rule (permit, deny, mark or match)"),
        ("", "1:1: there is no rule; expected a rule (permit, deny, mark or match)"),
        ("permit dport $web", "1:14: there is no set `web`; expected its values: sets belong to rule files"),
    ] {
        assert_eq!(refusal(&inet, text), expected, "{text}");
    }
    let ipv4 = parse("family ipv4\npermit tcp\n").rules;
    assert_eq!(
        refusal(&ipv4, "deny src ::1"),
        "1:10: an IPv6 address among rules of family ipv4; expected an IPv4 address"
    );
    assert_eq!(refusal(&ipv4, "deny family ipv6"), "1:13: the family ipv6 among rules of family ipv4; expected ipv4");
    assert_eq!(
        refusal(&ipv4, "deny src 1"),
        "1:10: src takes no number (1); expected an IPv4 address, a prefix or a range of IPv4 addresses"
    );
    let icmp = parse("family ipv4\npermit icmp_type echo-request\n").rules;
    assert_eq!(
        refusal(&icmp, "deny icmp_type packet-too-big"),
        "1:16: `packet-too-big` does not exist in IPv4; expected the name of an ICMP type or a number up to 255"
    );
    let own = parse("schema {\n a 8 exact\n}\npermit a 1\n").rules;
    assert_eq!(
        refusal(&own, "deny family ipv6"),
        "1:6: family has no place here: the rules are for packets of no family"
    );
    assert_eq!(refusal(&own, "deny dport 1"), "1:6: the rules have no field `dport`; expected one of theirs: a");
    let warned = one(&inet, "deny src 10.0.0.0/8 dst ::1").expect("it is allowed");
    assert!(warned.warnings[0].message.starts_with("this rule can never match"), "{:?}", warned.warnings);
    let warned = one(&ipv4, "deny icmpv6").expect("it is allowed");
    let why = "this rule matches no regular packet: `icmpv6` (column 6) is a protocol of IPv6, the set of rules asks for IPv4";
    assert_eq!(warned.warnings[0].message, why);
}
