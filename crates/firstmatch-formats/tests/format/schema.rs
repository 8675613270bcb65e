//! Rule files with a schema of their own: what they mean, and every fault by its place.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fmt::Write;

use firstmatch_core::Diagnostic;
use firstmatch_core::rule::{FieldValues, Test, first_match};
use firstmatch_core::schema::{Family, Field, Kind, Schema, Source};
use firstmatch_formats::native::parse_value;
use firstmatch_formats::{Options, RuleFile};
use firstmatch_testkit::rng::Rng;

fn parse(text: &str) -> RuleFile {
    firstmatch_formats::parse(text, &Options::default()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Returns the line of the first rule that matches these values, `None` being absent.
fn line(file: &RuleFile, values: &[Option<u128>]) -> Option<u32> {
    let packet = FieldValues { family: None, values: values.to_vec() };
    first_match(&file.rules, &packet).map(|rule| rule.line.unwrap().get())
}

/// Returns the tests of the first condition of the only rule after this head.
fn tests(head: &str, rule: &str) -> Vec<Test> {
    let file = parse(&format!("{head}{rule}\n"));
    let rule = file.rules.iter().next().unwrap();
    let tests = &rule.conditions.to_vec()[0].tests;
    assert!(tests.iter().all(|(family, _)| family.is_none()));
    tests.iter().map(|&(_, test)| test).collect()
}

const OWN: &str = "schema {   # comments and blank lines are welcome\n\n\
    in_port 32 exact from in_port\n\
    vlan 12 exact from vlan_vid optional\n\
    tenant 24 exact\n\
    dst 32 prefix optional from dst   # in either order\n\
    key 128 mask\n\
    mac 48 exact\n\
    zone 16 prefix\n\
    proto 8 exact from proto\n\
    host 32 exact\n\
    }\n";

#[test]
fn a_schema_of_the_file_is_the_schema_of_its_rules() {
    let file = parse(&format!("{OWN}permit\n"));
    let [schema] = file.rules.schemas() else { panic!("one schema") };
    let field = |name, width, kind, source| Field::new(name, width, kind, source);
    let expected = vec![
        field("in_port", 32, Kind::Exact, Some(Source::InPort)),
        field("vlan", 12, Kind::Exact, Some(Source::VlanVid)).optional(),
        field("tenant", 24, Kind::Exact, None),
        field("dst", 32, Kind::Prefix, Some(Source::Dst)).optional(),
        field("key", 128, Kind::Mask, None),
        field("mac", 48, Kind::Exact, None),
        field("zone", 16, Kind::Prefix, None),
        field("proto", 8, Kind::Exact, Some(Source::Proto)),
        field("host", 32, Kind::Exact, None),
    ];
    assert_eq!(*schema, Schema::new(None, expected));
    assert_eq!(parse("schema openflow\npermit\n").rules.schemas(), [Schema::openflow()]);
}

#[test]
fn values_are_written_as_the_field_has_them() {
    let value = |rule| tests(OWN, rule);
    let max = u128::MAX;
    assert_eq!(value("permit in_port 4294967295"), [Test::Value(u32::MAX.into())]);
    assert_eq!(value("permit tenant not 0xffffff"), [Test::Value(0xff_ffff)]);
    assert_eq!(value("permit tenant 5/7"), [Test::Mask { value: 5, mask: 7 }]);
    assert_eq!(value("permit dst 10.0.0.0/8"), [Test::Prefix { value: 10 << 24, len: 8 }]);
    assert_eq!(value("permit dst 10.0.0.7/255.0.0.255"), [Test::Mask { value: 0x0a00_0007, mask: 0xff00_00ff }]);
    assert_eq!(value("permit key 340282366920938463463374607431768211455"), [Test::Value(max)]);
    assert_eq!(value("permit key 0x1-0xffffffffffffffffffffffffffffffff"), [Test::Range { lo: 1, hi: max }]);
    assert_eq!(value("permit key 2001:db8::/32"), [Test::Prefix { value: 0x2001_0db8 << 96, len: 32 }]);
    assert_eq!(value("permit mac 02:00:5e:00:00:Ff"), [Test::Value(0x0200_5e00_00ff)]);
    assert_eq!(value("permit mac 02:00:5e:00:00:00/24"), [Test::Prefix { value: 0x0200_5e00_0000, len: 24 }]);
    let multicast = Test::Mask { value: 1 << 40, mask: 1 << 40 };
    assert_eq!(value("permit mac 01:00:00:00:00:00/01:00:00:00:00:00"), [multicast]);
    assert_eq!(value("permit mac 0x10000000000/0x10000000000"), [multicast]);
    assert_eq!(value("permit mac 02:00:00:00:00:00-02:00:00:00:00:09").len(), 1);
    // A number before `/` is a prefix where the field's kind says so, else a value under a mask.
    assert_eq!(value("permit zone 0x1200/8"), [Test::Prefix { value: 0x1200, len: 8 }]);
    assert_eq!(value("permit zone 0/0"), [Test::Prefix { value: 0, len: 0 }]);
    assert_eq!(value("permit proto { tcp, 17 }"), [Test::Value(6), Test::Value(17)]);
    assert_eq!(value("permit udp"), [Test::Value(17)]);
    assert_eq!(value("permit host 192.0.2.1"), value("permit host 0xc0000201"));
    assert_eq!(value("permit vlan any"), [Test::Prefix { value: 0, len: 0 }]);
    // Sets are read where they are used.
    let head = format!("{OWN}set both = {{ 0x8/8, 3 }}\n");
    assert_eq!(tests(&head, "permit tenant $both"), [Test::Mask { value: 8, mask: 8 }, Test::Value(3)]);
    let head = format!("{OWN}set one = {{ 0x800/8 }}\n");
    assert_eq!(tests(&head, "permit zone $one"), [Test::Prefix { value: 0x800, len: 8 }]);
}

#[test]
fn openflow_rules_match_what_they_say() {
    let file = parse(
        "schema openflow\n\
         default permit\n\
         set lan = { 10.0.0.0/8, 192.168.0.0/16 }\n\
         deny eth_type arp ip_proto 1 ipv4_dst 192.0.2.1\n\
         mark 1 eth_type { ipv6, 0x86de } tcp tp_dst 80\n\
         deny eth_dst 01:00:00:00:00:00/01:00:00:00:00:00 vlan_vid not 1-99\n\
         permit metadata 0xff00000000000000/0xff00000000000000 ip_dscp 46\n\
         permit eth_type mpls mpls_label 16-1048575 mpls_tc not 0\n\
         deny ipv4_src $lan in_port not { 1, 2 }\n\
         permit ip_proto ipv6\n",
    );
    assert!(file.warnings.is_empty(), "{:?}", file.warnings);
    let packet = |set: &[(&str, u128)]| {
        let schema = Schema::openflow();
        let mut values = vec![None; 15];
        (values[0], values[1]) = (Some(0), Some(0));
        for &(name, value) in set {
            values[schema.index_of(name).unwrap()] = Some(value);
        }
        line(&file, &values)
    };
    assert_eq!(packet(&[("eth_type", 0x806), ("ip_proto", 1), ("ipv4_dst", 0xc000_0201)]), Some(4));
    assert_eq!(packet(&[("eth_type", 0x806), ("ip_proto", 2), ("ipv4_dst", 0xc000_0201)]), None);
    assert_eq!(packet(&[("eth_type", 0x86dd), ("ip_proto", 6), ("tp_dst", 80)]), Some(5));
    assert_eq!(packet(&[("eth_dst", 0x0100_5e00_0001), ("vlan_vid", 100)]), Some(6));
    assert_eq!(packet(&[("eth_dst", 0x0100_5e00_0001)]), None, "a condition on an absent field is false");
    assert_eq!(packet(&[("metadata", 0xff00_0000_0000_0001), ("ip_dscp", 46)]), Some(7));
    assert_eq!(packet(&[("eth_type", 0x8847), ("mpls_label", 16), ("mpls_tc", 1)]), Some(8));
    assert_eq!(packet(&[("ipv4_src", 0xc0a8_0001), ("in_port", 3)]), Some(9));
    assert_eq!(packet(&[("ipv4_src", 0xc0a8_0001), ("in_port", 2), ("ip_proto", 41)]), Some(10));
}

fn diagnose(text: &str) -> Vec<String> {
    let show = |kind: &'static str| {
        move |d: &Diagnostic| {
            let expected = d.expected.as_ref().map_or(String::new(), |e| format!("; expected {e}"));
            format!("{kind}{}:{}+{} {}{expected}", d.line, d.column, d.width, d.message)
        }
    };
    match firstmatch_formats::parse(text, &Options::default()) {
        Ok(file) => file.warnings.iter().map(show("warning ")).collect(),
        Err(error) => error.faults().iter().map(show("")).collect(),
    }
}

#[test]
fn each_fault_is_shown_where_it_stands() {
    for &(text, expected) in FAULTS {
        assert_eq!(diagnose(text), expected, "{text}");
        assert_eq!(diagnose(text.trim_end()), expected, "{text}");
        assert_eq!(diagnose(&text.replace('\n', "\r\n")), expected, "{text}");
        assert_eq!(diagnose(&format!("\u{feff}{text}")), expected, "{text}");
    }
}

#[rustfmt::skip]
const FAULTS: &[(&str, &[&str])] = &[
    // Names that mean something in rules, some of which begin a line.
    ("schema {\n  permit 8 exact\n  not 8 exact\n  set 16 range from dport\n  any 8 exact\n  mark 8 exact\n  ipv4 8 exact\n  x 8 exact\n}\npermit x 1\n",
     &["2:3+6 `permit` has a meaning in rules; expected another name for the field",
       "3:3+3 `not` has a meaning in rules; expected another name for the field",
       "4:3+3 `set` has a meaning in rules; expected another name for the field",
       "5:3+3 `any` has a meaning in rules; expected another name for the field",
       "6:3+4 `mark` has a meaning in rules; expected another name for the field",
       "7:3+4 `ipv4` has a meaning in rules; expected another name for the field"]),
    ("schema {\n  x 8 exact\npermit x 999\n",
     &["1:8+1 this `{` is never closed; expected `}` on a line after the last field",
       "3:10+3 999 is too large for x; expected a number up to 255"]),
    ("schema {\n  x ; 8 exact ; from tcp_flag\n}\npermit x 1\n",
     &["2:5+1 the character `;` has no place here",
       "2:15+1 the character `;` has no place here",
       "2:22+8 `tcp_flag` after from; did you mean `tcp_flags`?"]),
    ("schema\n",
     &["1:7+0 nothing after schema; expected `openflow`, or `{` and a field a line"]),
    ("schema openflo\npermit in_port 1\n",
     &["1:8+7 `openflo` after schema; did you mean `openflow`?"]),
    ("schema openflow x\npermit in_port 1\n",
     &["1:17+1 `x` has no place here; expected the end of the line"]),
    ("schema openflow\nschema openflow\npermit in_port 1\n",
     &["2:1+6 schema is already given on line 1"]),
    ("schema openflow\nschema {\nx 8 exact\n}\npermit in_port 1\n",
     &["2:1+6 schema is already given on line 1"]),
    ("family ipv4\nschema openflow\npermit\n",
     &["2:1+6 schema has no place beside the family of line 1"]),
    ("schema openflow\nfamily ipv4\npermit\n",
     &["2:1+6 family has no place beside the schema of line 1"]),
    ("permit\nschema openflow\n",
     &["2:1+6 schema comes after a set or a rule; it must come before the first of them"]),
    ("schema { a 8 exact }\npermit\n",
     &["1:10+1 `a` after `{`; expected the end of the line: each field has its own"]),
    ("schema {}\npermit\n",
     &["1:9+1 `}` after `{`; expected the end of the line: each field has its own"]),
    ("schema {\n}\npermit\n",
     &["2:1+1 a schema without fields; expected a field a line"]),
    ("schema {\na 8 exact\npermit a 3\npermit b 3\n",
     &["1:8+1 this `{` is never closed; expected `}` on a line after the last field",
       "4:8+1 unknown field or protocol `b`"]),
    ("schema {\na 8 exact\n",
     &["1:8+1 this `{` is never closed; expected `}` on a line after the last field"]),
    ("schema {\na 8 exact\n} b\npermit a 3\n",
     &["3:3+1 `b` has no place here; expected the end of the line"]),
    // Rules that test a faulty field are read all the same.
    ("schema {\na\nb 0 exact\nc 129 exact\nd x exact\ne 8\nf 8 exactly\ng 8 exact, \n}\n\
      permit a 10.0.0.1 b tcp c 5-3 d 02:00:00:00:00:00 zz 4\n",
     &["2:2+0 nothing where a field's width should be; expected its width in bits, 1 to 128",
       "3:3+1 a width of 0 bits; expected its width in bits, 1 to 128",
       "4:3+3 a width of 129 bits; expected its width in bits, 1 to 128",
       "5:3+1 `x` where a field's width should be; expected its width in bits, 1 to 128",
       "6:4+0 nothing after a width; expected `exact`, `prefix`, `range` or `mask`",
       "7:5+7 `exactly` after a width; did you mean `exact`?",
       "8:10+1 `,` has no place here; expected `from` and a header field, `optional` or the end of the line",
       "10:27+3 the range is reversed: `5` is above `3`; expected `3-5`",
       "10:51+2 unknown field or protocol `zz`"]),
    ("schema {\na 8 exact from\nb 8 exact from ports\nc 8 exact from tcp_flag\nd 8 exact optional optional\n\
      e 8 exact fron proto\n}\npermit\n",
     &["2:15+0 nothing after from; expected the name of a header field, as `vlan_vid`",
       "3:16+5 `ports` after from; expected the name of a header field, as `vlan_vid`",
       "4:16+8 `tcp_flag` after from; did you mean `tcp_flags`?",
       "5:20+8 `optional` has no place here; expected `from` and a header field or the end of the line",
       "6:11+4 `fron` has no place here; did you mean `from`?"]),
    ("schema {\na 16 exact from vlan_vid\nb 64 prefix from src\nc 128 prefix from src\nd 32 prefix from dst\n\
      e 128 prefix from ipv4_src\n}\npermit\n",
     &["2:3+2 vlan_vid does not have 16 bits; expected 12",
       "3:3+2 src does not have 64 bits; expected 32 for IPv4, 128 for IPv6",
       "5:3+2 32 bits, but 128 for `c`: a packet is of one family; expected 128",
       "6:3+3 ipv4_src does not have 128 bits; expected 32"]),
    ("schema {\ntcp 8 exact\nany 8 exact\n8 8 exact\na.b 8 exact\n$a 8 exact\na 8 exact\na 9 exact\n}\npermit a 1\n",
     &["2:1+3 `tcp` has a meaning in rules; expected another name for the field",
       "3:1+3 `any` has a meaning in rules; expected another name for the field",
       "4:1+1 `8` where a field's name should be; expected a name (a letter, then letters, digits, `_` or `-`) or `}`",
       "5:1+3 `a.b` where a field's name should be; expected a name (a letter, then letters, digits, `_` or `-`) or `}`",
       "6:1+2 `$a` where a field's name should be; expected a name (a letter, then letters, digits, `_` or `-`) or `}`",
       "8:1+1 there is already a field `a` on line 7"]),
    ("schema openflow\npermit vlan_vid 4096\npermit ipv4_src 80\npermit ipv4_src 2001:db8::1\npermit in_port 10.0.0.1\n\
      permit eth_src 02:00:00:00:00\npermit eth_src 10.0.0.1\npermit eth_type tcp\npermit ip_proto arp\n\
      permit eth_type arpp\npermit metadata 18446744073709551616\npermit sport 80\n",
     &["2:17+4 4096 is too large for vlan_vid; expected a number up to 4095",
       "3:17+2 ipv4_src takes no number (80); expected an IPv4 address, a prefix or a range of IPv4 addresses",
       "4:17+11 ipv4_src takes no IPv6 address; expected an IPv4 address, a prefix or a range of IPv4 addresses",
       "5:16+8 in_port takes no IPv4 address; expected a number up to 4294967295",
       "6:16+14 `02:00:00:00:00` is neither an IPv6 nor a MAC address; expected a MAC address such as \
        02:00:00:00:00:01 or a number of at most 48 bits",
       "7:16+8 eth_src takes no IPv4 address; expected a MAC address such as 02:00:00:00:00:01 or a number of at \
        most 48 bits",
       "8:17+3 eth_type takes no protocol; expected the name of an ether type or a number up to 65535",
       "9:17+3 ip_proto takes no ether type; expected a protocol's name or a number up to 255",
       "10:17+4 unknown name `arpp`; did you mean `arp`?",
       "11:17+20 18446744073709551616 is too large for metadata; expected a number of at most 64 bits",
       "12:8+5 unknown field or protocol `sport`"]),
    ("schema {\na 16 prefix\nb 16 mask\nc 48 exact\nd 8 exact from icmp_type\n}\npermit a 0x1234/8\npermit a 1/17\n\
      permit a 0x12345/20\npermit b 3/1\npermit b 0/0x10000\npermit c 02:00:00:00:00:01/24\n\
      permit c 02:00:00:00:00:00/49\npermit c 02:00:00:00:00:01/ff:00:00:00:00:00\npermit d echo-request\npermit tcp\n\
      permit a 0x1/\npermit a 0x1/x\npermit a 340282366920938463463374607431768211456\n",
     &["7:10+8 `0x1234` has bits outside its prefix; expected `0x1200/8`",
       "8:10+4 a prefix length of 17 for a, which has 16 bits; expected 0 to 16",
       "9:10+10 a prefix length of 20 for a, which has 16 bits; expected 0 to 16",
       "10:10+3 `0x03` has bits outside its mask; expected `0x03/0x03` for a mask with every bit of the value",
       "11:10+9 65536 is too large for b; expected a number up to 65535",
       "12:10+20 `02:00:00:00:00:01` has bits outside its prefix; expected `02:00:00:00:00:00/24`",
       "13:28+2 a prefix length of 49 for a MAC address; expected 0 to 48",
       "14:10+35 `02:00:00:00:00:01` has bits outside its mask; expected `02:00:00:00:00:00/ff:00:00:00:00:00`",
       "15:10+12 d takes no names: a type has one number in ICMP, another in ICMPv6; expected a number up to 255",
       "16:8+3 unknown field or protocol `tcp`",
       "17:14+0 nothing after the `/`; expected a prefix length or a mask",
       "18:14+1 `x` is neither a number nor an address; expected a number up to 65535",
       "19:10+39 the number `340282366920938463463374607431768211456` is too large; expected a number up to 65535"]),
    ("schema {\na 8 exact\nmark 5 a 1\n",
     &["1:8+1 this `{` is never closed; expected `}` on a line after the last field"]),
    ("schema openflow\npermit vlan_pcp not 0-7\nset a = { 1 }\n",
     &["warning 2:1+23 this rule can never match: vlan_pcp excludes every value",
       "warning 3:5+1 the set `a` is never used"]),
];

#[test]
fn files_for_ip_networks_know_nothing_of_this() {
    for text in
        ["permit src 02:00:00:00:00:00\n", "permit proto arp\n", "permit proto 4294967296\n", "permit in_port 1\n"]
    {
        assert_eq!(diagnose(text).len(), 1, "{text}");
    }
    assert_eq!(
        diagnose("permit src 02:00:00:00:00:00\n"),
        ["1:12+17 `02:00:00:00:00:00` is no IPv6 address; expected an address, a prefix or a range of addresses"]
    );
}

#[test]
fn single_values_are_read_as_rules_write_them() {
    let openflow = Schema::openflow();
    let read = |schema: &Schema, field: &str, text: &str| {
        parse_value(schema, schema.index_of(field).unwrap(), text).map_err(|error| error.to_string())
    };
    assert_eq!(read(&openflow, "eth_type", "ipv6"), Ok(0x86dd));
    assert_eq!(read(&openflow, "ip_proto", " ipv6 "), Ok(41));
    assert_eq!(read(&openflow, "eth_src", "02:00:00:00:00:ff"), Ok(0x0200_0000_00ff));
    assert_eq!(read(&openflow, "metadata", "0xffffffffffffffff"), Ok(u64::MAX.into()));
    assert_eq!(read(&Schema::ipv4(), "src", "10.0.0.1"), Ok(0x0a00_0001));
    assert_eq!(read(&Schema::ipv6(), "src", "::1"), Ok(1));
    assert_eq!(read(&Schema::ipv4(), "proto", "tcp"), Ok(6));
    let icmp = |family| Schema::five_tuple(family, &[Source::IcmpType]);
    assert_eq!(read(&icmp(Family::Ipv4), "icmp_type", "echo-request"), Ok(8));
    assert_eq!(read(&icmp(Family::Ipv6), "icmp_type", "echo-request"), Ok(128));
    let of_other = |family, name| read(&icmp(family), "icmp_type", name).expect_err("it is of the other family");
    let said = of_other(Family::Ipv4, "packet-too-big");
    assert!(said.starts_with("`packet-too-big` does not exist in IPv4; expected "), "{said}");
    let said = of_other(Family::Ipv6, "timestamp-request");
    assert!(said.starts_with("`timestamp-request` does not exist in IPv6; expected "), "{said}");
    for (schema, field, text) in [
        (&openflow, "in_port", ""),
        (&openflow, "in_port", "-1"),
        (&openflow, "in_port", "1 2"),
        (&openflow, "in_port", "1\n2"),
        (&openflow, "in_port", "1-2"),
        (&openflow, "in_port", "3/3"),
        (&openflow, "in_port", "$a"),
        (&openflow, "in_port", "any"),
        (&openflow, "in_port", "1 # one"),
        (&openflow, "vlan_pcp", "8"),
        (&openflow, "eth_src", "10.0.0.1"),
        (&Schema::ipv4(), "src", "::1"),
        (&Schema::ipv6(), "src", "10.0.0.1"),
        (&Schema::ipv4(), "src", "1"),
    ] {
        let error = read(schema, field, text).expect_err(text);
        assert!(error.contains("; expected "), "{error}");
    }
}

#[test]
fn the_manual_names_every_header_field() {
    let manual = include_str!("../../../../docs/rules.md");
    for source in Source::ALL {
        assert!(manual.contains(&format!("`{}`", source.name())), "{}", source.name());
    }
}

/// Words of the language in any order never panic, and accepted texts can be lowered.
#[test]
fn shuffled_words_never_panic() {
    const WORDS: [&str; 46] = [
        "schema",
        "{",
        "}",
        "\n",
        "\n",
        "\n",
        "openflow",
        "a",
        "b",
        "c",
        "8",
        "32",
        "48",
        "128",
        "0",
        "exact",
        "prefix",
        "range",
        "mask",
        "from",
        "src",
        "dst",
        "eth_src",
        "eth_type",
        "icmp_type",
        "optional",
        "permit",
        "deny",
        "set",
        "=",
        "$a",
        "not",
        "any",
        "tcp",
        "arp",
        "ipv6",
        "02:00:00:00:00:00",
        "/",
        "-",
        "10.0.0.0",
        "::",
        "0xff",
        ",",
        "family",
        "ipv4",
        "vlan_vid",
    ];
    let mut random = Rng::new(7);
    let mut below = |n| random.below(n);
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut text = String::new();
        if round % 2 == 0 {
            let kinds = ["exact", "prefix", "range", "mask"];
            let head = ["a", "b", "c"]
                .map(|name| format!("{name} {} {} {}\n", 1 + below(128), kinds[below(4)], ["", "optional"][below(2)]));
            write!(text, "schema {{\n{}}}\npermit ", head.concat()).unwrap();
        }
        for _ in 0..below(30) {
            write!(text, "{} ", WORDS[below(WORDS.len())]).unwrap();
        }
        accepted += usize::from(firstmatch_formats::parse(&text, &Options::default()).is_ok());
    }
    assert!(accepted > 500, "{accepted}");
}

/// A family alone is refused, and what to write instead depends on the fields there are.
#[test]
fn a_family_alone_is_refused_with_the_fields_there_are() {
    let alone = "alone is neither a field nor a protocol";
    for (fields, of_ipv4, of_ipv6) in [
        ("a 8 range", "", ""),
        ("a 16 exact from eth_type", "; expected `a ipv4`", "; expected `a ipv6`"),
        ("a 8 exact from proto", "", "; expected `a 41` for packets inside others"),
        (
            "e 16 exact from eth_type\n  a 8 exact from proto",
            "; expected `e ipv4`",
            "; expected `e ipv6`, or `a 41` for packets inside others",
        ),
    ] {
        for (family, expected) in [("ipv4", of_ipv4), ("ipv6", of_ipv6)] {
            let line = fields.lines().count() + 3;
            let text = format!("schema {{\n  {fields}\n}}\npermit {family}\n");
            assert_eq!(diagnose(&text), [format!("{line}:8+4 `{family}` {alone}{expected}")], "{text}");
        }
    }
}

/// In a block without an end, a keyword begins the next statement unless a width and a kind follow it.
#[test]
fn a_keyword_ends_a_block_unless_its_line_is_a_field() {
    let unclosed = "1:8+1 this `{` is never closed; expected `}` on a line after the last field";
    let faults = |line: &str| diagnose(&format!("schema {{\n  a 8 range\n{line}\n"));
    assert_eq!(
        faults("set 8 range\n}"),
        ["3:1+3 `set` has a meaning in rules; expected another name for the field"],
        "a width and a kind"
    );
    assert_eq!(
        faults("deny 8 range"),
        [unclosed, "3:1+4 `deny` has a meaning in rules; expected another name for the field"]
    );
    for (line, fault) in [
        ("deny a range", "3:8+5 unknown name `range`; expected a number up to 255"),
        ("deny 8 ranges", "3:6+1 the value `8` follows no field; expected a field before it"),
        ("deny 8", "3:6+1 the value `8` follows no field; expected a field before it"),
    ] {
        assert_eq!(faults(line), [unclosed, fault], "{line}");
    }
}
