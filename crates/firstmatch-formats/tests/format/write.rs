//! Rules written: the text to the letter, round trips, and what formats cannot hold.
#![expect(clippy::unwrap_used, reason = "tests")]

use firstmatch_core::rule::{Action, Condition, Priority, RuleSpec, Test};
use firstmatch_core::schema::{Family, Field, Kind, Source};
use firstmatch_core::{Policy, RuleSet, Schema, Verdict};
use firstmatch_formats::{Format, Options, RuleFile, write};

fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

fn to(format: Format, file: &RuleFile) -> String {
    let mut text = String::new();
    write::write(file, format, &mut text).unwrap_or_else(|error| panic!("{error}"));
    text
}

fn refusal(format: Format, file: &RuleFile) -> String {
    write::write(file, format, &mut String::new()).unwrap_err().to_string()
}

/// Returns the rules without the numbers of their priorities and their lines.
fn specs(file: &RuleFile) -> Vec<RuleSpec> {
    file.rules.iter().map(|rule| RuleSpec { priority: Priority(0), line: None, ..rule.spec.clone() }).collect()
}

#[test]
fn native_text_reads_as_a_person_would_have_written_it() {
    let file = parse(
        "default permit\nset web = {443,0x50}\nset all = { 10.0.0.0/8, 2001:db8::/32 }\n\
         permit proto 6 dport$web\n\
         mark 7 proto not { 6, 17, 99 } # a comment\n\
         deny src not $all dst 10.0.0.7/255.0.0.255\n\
         permit proto 41 src any\n\
         permit icmp_type { echo-request, 9, packet-too-big, timestamp-reply }\n\
         match family ipv6 dport { 0 - 65535 , family ipv4 7 }\n",
    );
    assert_eq!(
        to(Format::Native, &file),
        "family inet\ndefault permit\nunknown deny\nfragments unknown\n\n\
         permit tcp dport { 443, 80 }\n\
         mark 7 proto not { tcp, udp, 99 }\n\
         deny src not { 10.0.0.0/8, 2001:db8::/32 } dst 10.0.0.7/255.0.0.255\n\
         permit proto ipv6 src any\n\
         permit icmp_type { echo-request, 9, packet-too-big, timestamp-reply }\n\
         match family ipv6 dport { 0-65535, family ipv4 7 }\n"
    );
    let file = parse("family ipv4\nfragments layer3\npermit icmp_type echo-request tcp_flags 0x2/0x12 vlan_vid 1-10\n");
    assert_eq!(
        to(Format::Native, &file),
        "family ipv4\ndefault deny\nunknown deny\nfragments layer3\n\n\
         permit icmp_type echo-request tcp_flags syn,!ack vlan_vid 1-10\n"
    );
    assert_eq!(to(Format::Native, &parse("")), "family inet\ndefault deny\nunknown deny\nfragments unknown\n");
}

/// A prefix of all bits is one value; one of no bits is `any` only if every family is meant.
#[test]
fn prefixes_at_both_ends_keep_their_meaning() {
    let text = "family inet\ndefault deny\nunknown deny\nfragments unknown\n\n\
        permit src 0.0.0.0/0\npermit dst not ::/0\npermit src any\n";
    assert_eq!(to(Format::Native, &parse(text)), text);
    let mut file = parse("family ipv4\n");
    let tests = [(2, Test::Prefix { value: 5, len: 16 }), (3, Test::Prefix { value: 4, len: 15 })];
    let conditions = tests.map(|(field, test)| Condition { field, negated: false, tests: vec![(None, test)] });
    let rule = RuleSpec {
        priority: Priority(1),
        action: Action::Permit,
        conditions: conditions.into(),
        family: None,
        line: None,
        value: 0,
    };
    file.rules.insert(rule).unwrap();
    assert!(to(Format::Native, &file).ends_with("\n\npermit sport 5 dport 4-5\n"));
    // The lengths of a field of the schema's own go up to its width.
    let lengths: String = (0..=16).map(|len| format!("permit f 0x0000/{len}\n")).collect();
    let schema = "schema {\n    f 16 prefix\n}\n";
    assert_eq!(parse(&format!("{schema}{lengths}")).rules.len(), 17);
    assert!(firstmatch_formats::parse(&format!("{schema}permit f 0x0000/17\n"), &Options::default()).is_err());
}

#[test]
fn extension_headers_are_written_by_name() {
    let text = "family inet\ndefault deny\nunknown deny\nfragments unknown\n\n\
                deny ext_headers { routing, hop-by-hop, ah, fragment, destination } routing_type 0\n\
                deny ext_headers not { ah, 0x03/0x03, 0x00, 0x20/0x20, 0x02/0x06 }\n";
    assert_eq!(to(Format::Native, &parse(text)), text);
    let text = "schema {\n    ext 8 prefix from ext_headers optional\n}\n\
                default deny\nunknown deny\nfragments unknown\n\npermit ext { ah, 0x40/2, 7 }\n";
    assert_eq!(to(Format::Native, &parse(text)), text);
}

#[test]
fn schemas_of_their_own_are_written_as_heads() {
    let text = "schema {\n    in_port 32 exact from in_port\n    vlan 12 exact from vlan_vid optional\n    \
                mac 48 exact\n    zone 16 prefix\n    wide 128 mask\n    type 16 exact from eth_type\n}\n\
                default deny\nunknown deny\nfragments unknown\n\n\
                permit in_port 7 vlan { 100-199, 7 }\n\
                permit mac { 02:00:00:00:00:01, 01:00:00:00:00:00/01:00:00:00:00:00, 02:00:00:00:00:00/24 }\n\
                deny zone 0x1200/8 wide 0xffffffffffffffffffffffff type not { arp, ipv6, 2000 }\n";
    assert_eq!(to(Format::Native, &parse(text)), text);
    let text =
        "schema openflow\ndefault deny\nunknown deny\nfragments unknown\n\npermit eth_type ipv4 tcp tp_dst 443\n";
    assert_eq!(to(Format::Native, &parse(text)), text);
}

#[test]
fn a_family_narrows_a_rule_or_a_value() {
    let file = parse(
        "permit tcp family ipv6 dport 80\ndeny icmp_type family ipv4 echo-request\npermit icmp_type family ipv6 8\n",
    );
    let rules: Vec<_> = file.rules.iter().collect();
    assert_eq!(rules.iter().map(|r| r.family).collect::<Vec<_>>(), [Some(Family::Ipv6), None, None]);
    assert_eq!(rules[1].conditions.to_vec()[0].tests, [(Some(Family::Ipv4), Test::Value(8))]);
    assert_eq!(rules[2].conditions.to_vec()[0].tests, [(Some(Family::Ipv6), Test::Value(8))]);
    assert_eq!(
        to(Format::Native, &file).lines().skip(5).collect::<Vec<_>>(),
        ["permit family ipv6 tcp dport 80", "deny icmp_type family ipv4 8", "permit icmp_type family ipv6 8"]
    );
}

#[test]
fn the_example_survives_being_written() {
    let file = parse(include_str!("../../../../examples/edge.rules"));
    let text = to(Format::Native, &file);
    let back = parse(&text);
    assert_eq!((back.policy, back.rules.schemas()), (file.policy, file.rules.schemas()));
    assert!(back.rules.len() > 300 && back.warnings.is_empty(), "{:#?}", back.warnings);
    assert_eq!(specs(&back), specs(&file));
    assert_eq!(to(Format::Native, &back), text);
}

/// A schema that lacks fields of a 5-tuple, or has other ones, is refused by the name of the field.
#[test]
fn a_schema_that_classbench_lacks_is_named() {
    let five = Schema::ipv4().fields().to_vec();
    let with = |fields: Vec<Field>| {
        let rules = RuleSet::new(Schema::new(Some(Family::Ipv4), fields));
        refusal(Format::ClassBench, &RuleFile::new(rules, Policy::default()))
    };
    let empty = "there are no rules: a ClassBench file without any says nothing";
    for (len, name) in [(1, "dst"), (2, "sport"), (3, "dport"), (4, "proto")] {
        let lacks = format!("{name}: the schema lacks this field, which ClassBench always has");
        assert_eq!(with(five[..len].to_vec()), format!("{empty}\n{lacks}"));
    }
    assert_eq!(with(five.clone()), empty);
    let other = Field::new("proto", 7, Kind::Exact, None);
    assert_eq!(with([&five[..4], &[other]].concat()), format!("{empty}\nproto: ClassBench has no such field"));
}

#[test]
fn what_the_native_format_cannot_hold_is_named() {
    let file = RuleFile::new;
    let with = |fields: Vec<Field>, family| {
        let set = RuleSet::new(Schema::new(family, fields));
        refusal(Format::Native, &file(set, Policy::default()))
    };
    let five = Schema::ipv4().fields().to_vec();
    let v4 = Some(Family::Ipv4);
    let bad = |name: &str| Field::new(name, 8, Kind::Exact, None);
    let wrong = vec![
        bad("tcp"),
        bad("match"),
        bad("a b"),
        bad("9"),
        bad("é"),
        bad("fine-1"),
        Field::new("port", 8, Kind::Exact, Some(Source::SrcPort)),
        Field::new("s", 32, Kind::Prefix, Some(Source::Src)),
        Field::new("d", 128, Kind::Prefix, Some(Source::Dst)),
    ];
    assert_eq!(
        with(wrong, None),
        "tcp: this is no name for a field in the native format\nmatch: this is no name for a field in the native format\n\
         a b: this is no name for a field in the native format\n9: this is no name for a field in the native format\n\
         é: this is no name for a field in the native format\nport: a field from sport of 8 bits\n\
         d: source and destination addresses of different families"
    );
    assert_eq!(with(five[..3].to_vec(), v4), "dport: the schema lacks this field, which the native format always has");
    let mut turned = five.clone();
    turned.swap(0, 1);
    assert_eq!(with(turned, v4), "dst: field 1 of the schema is `src` of 32 bits in the native format");
    let more = |field: Field| five.iter().cloned().chain([field]).collect::<Vec<_>>();
    assert_eq!(
        with(more(Field::new("flags", 16, Kind::Mask, None)), v4),
        "flags: the native format has no such field in rules for IP networks"
    );
    assert_eq!(
        with(more(Field::from_source(Source::VlanVid, Family::Ipv4)), v4),
        "vlan_vid: the schema has this field but no rule a condition on it: the native format has only fields that \
         rules use"
    );
    let narrow = RuleSet::new(Schema::with_word_bits(v4, five.clone(), 8));
    assert!(refusal(Format::Native, &file(narrow, Policy::default())).contains("words are narrower"));
    let policy = Policy { default: Verdict::Mark(3), unknown: Verdict::Match, ..Policy::default() };
    assert_eq!(
        refusal(Format::Native, &file(RuleSet::new(Schema::ipv4()), policy)),
        "`default mark 3` cannot be written: only permit and deny can\n\
         `unknown match` cannot be written: only permit and deny can"
    );
    // One rule of a set that cannot be written as a whole.
    let mut set = RuleSet::new(Schema::new(v4, vec![Field::new("x", 8, Kind::Exact, None)]));
    let conditions = [Condition { field: 0, negated: false, tests: vec![(None, Test::Value(1))] }].into();
    let spec =
        RuleSpec { priority: Priority(1), action: Action::Permit, conditions, family: None, line: None, value: 0 };
    set.insert(spec).unwrap();
    let rule = set.iter().next().unwrap();
    assert_eq!(
        write::native_rule(&set, rule).unwrap_err().to_string(),
        "rule 1: x: the native format has no such field in rules for IP networks"
    );
    let file = parse("permit tcp dst 192.0.2.0/24\n");
    let rule = file.rules.iter().next().unwrap();
    assert_eq!(write::native_rule(&file.rules, rule).unwrap(), "permit tcp dst 192.0.2.0/24");
}

#[test]
fn classbench_text_is_canonical() {
    let text = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0000/0x0200\n\
                @10.0.0.1/32\t9.0.0.0/8\t7 : 9\t1024 : 65535\t0x00/0x00\t0x0000/0x0000\n";
    let flags = |flags| firstmatch_formats::parse(text, &Options { flags, ..Options::default() }).unwrap();
    assert_eq!(to(Format::ClassBench, &flags(true)), text);
    let five = text.lines().map(|line| line[..line.rfind('\t').unwrap()].to_owned() + "\n").collect::<String>();
    assert_eq!(to(Format::ClassBench, &flags(false)), five);
    // Other forms of the same tests.
    let file = parse(
        "family ipv6\nmatch src 2001:db8::-2001:db8::ff dst ::1 dport 0x10/0xfff0 proto 6-7\nmatch src any proto any\n",
    );
    assert_eq!(
        to(Format::ClassBench, &file),
        "@2001:db8::/120\t::1/128\t0 : 65535\t16 : 31\t0x06/0xFE\n@::/0\t::/0\t0 : 65535\t0 : 65535\t0x00/0x00\n"
    );
}

#[test]
fn what_classbench_cannot_hold_is_named() {
    let refused = |text: &str| refusal(Format::ClassBench, &parse(text));
    assert_eq!(
        refused(
            "family ipv4\npermit tcp\nmatch dport { 80, 443 }\nmatch src not 10.0.0.0/8\nmatch dport any\n\
             match dport 0-65535\nmatch dport 0x1/0x1\nmatch src 10.0.0.1/255.0.0.255\nmatch dst 10.0.0.1-10.0.0.2\n\
             match proto 6-8\n"
        ),
        "line 2: the action `permit`: ClassBench rules have none, which is `match`\n\
         line 3: dport: a list of 2 values: ClassBench holds one prefix, range or mask\n\
         line 4: src: `not`: ClassBench has no negation\n\
         line 5: dport: every port, but a packet must have one: in ClassBench `0 : 65535` holds for packets without \
         ports too\n\
         line 6: dport: every port, but a packet must have one: in ClassBench `0 : 65535` holds for packets without \
         ports too\n\
         line 7: dport: a mask that is no range\n\
         line 8: src: a mask that is none of a prefix\n\
         line 9: dst: a range of addresses that is no prefix\n\
         line 10: proto: a range that is no value under a mask"
    );
    assert_eq!(
        refused("default permit\nunknown permit\nfragments layer3\nmatch\n"),
        "ClassBench has no policy: `default permit`, `unknown permit`, `fragments layer3` cannot be written\n\
         the rules are for IPv4 and IPv6; a ClassBench file is for one family, which `family ipv4` or `family ipv6` \
         would say"
    );
    assert_eq!(
        refused("family ipv4\nmatch\nmatch vlan_vid 7 icmp_type 8\n"),
        "line 3: icmp_type: ClassBench has no such field\nline 3: vlan_vid: ClassBench has no such field"
    );
    assert_eq!(refused("family ipv4\n"), "there are no rules: a ClassBench file without any says nothing");
    let many = refused(&("family ipv4\n".to_owned() + &"permit tcp\n".repeat(30)));
    assert!(many.ends_with("line 21: the action `permit`: ClassBench rules have none, which is `match`\nand 10 more"));
}

/// Output that takes this many bytes and then fails.
struct Full(usize);

impl std::fmt::Write for Full {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(std::fmt::Error)?;
        Ok(())
    }
}

#[test]
fn an_output_that_fails_is_an_error() {
    let file = parse(&"permit tcp\n".repeat(100));
    for room in [0, 5, 60, 500] {
        let error = write::write(&file, Format::Native, &mut Full(room)).unwrap_err();
        assert_eq!((error.faults().len(), error.to_string().as_str()), (0, "the output cannot be written"));
    }
}

/// Audit rules are apart from the rules that decide, and come back at their places from native text and JSON.
#[test]
fn audit_rules_are_kept() {
    let text = "family ipv4\ndefault deny\nunknown deny\nfragments unknown\n\n\
                audit permit tcp dport 443 label \"web\"\ndeny tcp label \"all\"\naudit mark 7 vlan_vid 9\n";
    let file = parse(text);
    let lines = |file: &RuleFile| file.rules.iter().map(|rule| rule.line.map_or(0, u32::from)).collect::<Vec<_>>();
    let audited = file.audited.as_deref().expect("two audit rules");
    assert_eq!((lines(&file), lines(audited)), (vec![7], vec![6, 7, 8]));
    assert_eq!((file.labels.len(), audited.labels.len()), (1, 2));
    // A field that audit rules alone test is no field of the others.
    assert!(file.rules.schemas()[0].index_of("vlan_vid").is_none());
    assert!(audited.rules.schemas()[0].index_of("vlan_vid").is_some());
    let mut written = String::new();
    write::write(&file, Format::Native, &mut written).expect("the format has audit rules");
    assert_eq!(written, text);
    let plain = parse("family ipv4\nmatch\naudit match proto 6\n");
    let error = write::write(&plain, Format::ClassBench, &mut String::new()).expect_err("no audit").to_string();
    assert!(error.contains("an audit rule, for which ClassBench has no place"), "{error}");
    #[cfg(feature = "json")]
    {
        let json = firstmatch_formats::json::write(&file).expect("JSON has audit rules");
        let back = firstmatch_formats::json::read(&json, &Options::default()).expect("it was written").file;
        assert_eq!(firstmatch_formats::json::write(&back).expect("JSON has audit rules"), json);
        assert_eq!((lines(&back), lines(back.audited.as_deref().expect("audit rules"))), (vec![7], vec![6, 7, 8]));
        assert_eq!(back.labels.values().collect::<Vec<_>>(), file.labels.values().collect::<Vec<_>>());
        let bad = json.replace("\"audit\":true", "\"audit\":1");
        assert!(bad != json && firstmatch_formats::json::read(&bad, &Options::default()).is_err());
    }
    for (text, message) in [
        ("audit\n", "after audit"),
        ("audit tcp\n", "`tcp` after audit"),
        ("audit audit deny\n", "`audit` after audit"),
    ] {
        let error = firstmatch_formats::parse(text, &Options::default()).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    let one = firstmatch_formats::parse_rule(&file.rules, Priority(1), "audit deny", &Options::default());
    assert!(one.is_err());
    assert!(parse("permit\n").audited.is_none());
}

/// Labels come back from native text and JSON; ClassBench has no place for them.
#[test]
fn labels_are_kept() {
    let text = "family ipv4\ndefault deny\nunknown deny\nfragments unknown\n\n\
                permit tcp dport 443 label \"web, the servers' #1\"\ndeny tcp\nmark 7 label \"rest\"\n";
    let file = parse(text);
    let labels: Vec<Option<&str>> =
        file.rules.iter().map(|rule| file.labels.get(&rule.id).map(|label| &**label)).collect();
    assert_eq!(labels, [Some("web, the servers' #1"), None, Some("rest")]);
    let mut written = String::new();
    write::write(&file, Format::Native, &mut written).expect("the format has labels");
    assert_eq!(written, text);
    let error = write::write(&file, Format::ClassBench, &mut String::new()).expect_err("no label").to_string();
    assert!(error.contains("the label \"rest\""), "{error}");
    #[cfg(feature = "json")]
    {
        let json = firstmatch_formats::json::write(&file).expect("JSON has labels");
        let back = firstmatch_formats::json::read(&json, &Options::default()).expect("it was written").file;
        assert_eq!(back.labels, file.labels);
        let bad = json.replace("\"rest\"", "\"\"");
        assert!(firstmatch_formats::json::read(&bad, &Options::default()).is_err());
    }
    for (text, message) in [
        ("permit label\n", "after label"),
        ("permit label web\n", "after label"),
        ("permit label \"\"\n", "a label without a character"),
        ("permit label \"a\" tcp\n", "behind the label"),
        ("permit label \"a\" label \"b\"\n", "behind the label"),
        ("permit label \"a\u{200b}b\"\n", "not visible"),
    ] {
        let error = firstmatch_formats::parse(text, &Options::default()).expect_err(text).to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
    let long = format!("permit label \"{}\"\n", "x".repeat(201));
    assert!(firstmatch_formats::parse(&long, &Options::default()).is_err());
    let priority = Priority(1);
    let error = firstmatch_formats::parse_rule(&file.rules, priority, "permit label \"a\"", &Options::default());
    assert!(error.expect_err("no file").to_string().contains("only rules of files have labels"));
}
