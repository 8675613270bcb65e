//! Rules that hardly mean what they say: conditions that contradict, and rules behind others.

use firstmatch_core::analyze::covered;
use firstmatch_core::rule::{Action, Condition, FieldValues, Priority, RuleSet, RuleSpec, Test};
use firstmatch_core::schema::{Family, Field, Kind, Schema};
use firstmatch_formats::Options;
use firstmatch_testkit::rng::Rng;

/// Returns the warnings of a text as `line:column+width message; expected …`.
fn warnings(text: &str) -> Vec<String> {
    let file = firstmatch_formats::parse(text, &Options::default()).expect(text);
    assert_eq!(file.more_warnings, 0);
    let expected = |expected: &Option<String>| expected.as_ref().map_or(String::new(), |e| format!("; expected {e}"));
    file.warnings
        .iter()
        .map(|w| format!("{}:{}+{} {}{}", w.line, w.column, w.width, w.message, expected(&w.expected)))
        .collect()
}

/// The lines of rules that never decide are all there, however few warnings are kept.
#[test]
fn rules_that_never_decide_have_their_lines() {
    let text = "permit tcp\ndeny tcp dport 22\n\ndeny icmp dport 22\npermit family ipv4 icmpv6\n\
                deny tcp src 0.0.0.0/0.0.0.255\npermit dport not 0-65535\npermit udp\n";
    for max_warnings in [1, 2, 20] {
        let options = Options { max_warnings, ..Options::default() };
        let file = firstmatch_formats::parse(text, &options).expect("warnings alone");
        assert_eq!(file.never, [2, 4, 6, 7], "{:?}", file.warnings);
        assert_eq!(file.warnings.len() + file.more_warnings, 6);
    }
    let classbench = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x00/0x00\n".repeat(3);
    assert_eq!(firstmatch_formats::parse(&classbench, &Options::default()).expect("good").never, [2, 3]);
}

const NEVER: &str = "this rule can never match: ";
/// Packets of IPv4 that carry ICMPv6 are possible, but not regular.
const IRREGULAR: &str = "this rule matches no regular packet: ";

#[test]
fn conditions_that_contradict_each_other_are_named() {
    let ports = "needs tcp, udp, dccp, sctp or udplite";
    for (rule, place, why) in [
        ("deny icmp dport 22", "6+13", format!("`dport 22` (column 11) {ports}, which `icmp` (column 6) rules out")),
        ("deny dport 22 icmp", "6+13", format!("`dport 22` (column 6) {ports}, which `icmp` (column 15) rules out")),
        ("permit tcp icmp_type echo-request", "8+26", "`icmp_type echo-request` (column 12) needs icmp or icmpv6, which `tcp` (column 8) rules out".into()),
        ("permit udp tcp_flags 0x02", "8+18", "`tcp_flags 0x02` (column 12) needs tcp, which `udp` (column 8) rules out".into()),
        ("permit proto not tcp tcp_flags 2", "8+25", "`tcp_flags 2` (column 22) needs tcp, which `proto not tcp` (column 8) rules out".into()),
        ("permit proto { 1, 47, 58-63 } sport any", "8+32", format!("`sport any` (column 31) {ports}, which `proto {{ 1, 47, 58-63 }}` (column 8) rules out")),
        ("permit proto not { 6, 17-132, 136 } sport not 7", "8+40", format!("`sport not 7` (column 37) {ports}, which `proto not {{ 6, 17-132, 136 }}` (column 8) rules out")),
        ("permit dport 22 icmp_code 0", "8+20", format!("`dport 22` (column 8) {ports}, `icmp_code 0` (column 17) needs icmp or icmpv6")),
        ("permit family ipv4 icmpv6", "8+18", "`icmpv6` (column 20) is a protocol of IPv6, `family ipv4` (column 8) asks for IPv4".into()),
        ("permit src ::1 icmp", "8+12", "`icmp` (column 16) is a protocol of IPv4, `src ::1` (column 8) asks for IPv6".into()),
        ("permit family ipv6 ah", "8+14", "`ah` (column 20) is never the protocol of IPv6 packets, where it is an extension header, `family ipv6` (column 8) asks for IPv6".into()),
        ("permit family ipv4 ext_headers routing", "8+31", "`ext_headers routing` (column 20) asks for IPv6, `family ipv4` (column 8) asks for IPv4".into()),
        ("permit src 10.0.0.0/8 dst ::1", "8+22", "`src 10.0.0.0/8` (column 8) asks for IPv4, `dst ::1` (column 23) asks for IPv6".into()),
        ("permit family ipv6 src not 10.0.0.0/8", "8+30", "`src not 10.0.0.0/8` (column 20) asks for IPv4, `family ipv6` (column 8) asks for IPv6".into()),
        ("permit icmpv6 icmp_type 8 family ipv4", "8+18", "`icmp_type 8` (column 15) needs icmp, which `icmpv6` (column 8) rules out".into()),
    ] {
        let never = if why.contains("is a protocol of") { IRREGULAR } else { NEVER };
        assert_eq!(warnings(&format!("{rule}\n")), [format!("1:{place} {never}{why}")], "{rule}");
    }
    let of_file = "`icmpv6` (column 8) is a protocol of IPv6, the file asks for IPv4";
    assert_eq!(warnings("family ipv4\npermit icmpv6\n"), [format!("2:8+6 {IRREGULAR}{of_file}")]);
    for (rule, why) in [
        (
            "permit eth_type arp tp_dst 80",
            "8+22 this rule can never match: `tp_dst 80` (column 21) needs ipv4 or ipv6, which `eth_type arp` (column 8) rules out",
        ),
        (
            "permit ip_proto icmp tp_dst 80",
            "8+23 this rule can never match: `tp_dst 80` (column 22) needs tcp, udp, dccp, sctp or udplite, which `ip_proto icmp` (column 8) rules out",
        ),
        (
            "permit mpls_label 7 ipv4_src 10.0.0.0/8",
            "8+32 this rule can never match: `mpls_label 7` (column 8) needs mpls or mpls-multicast, `ipv4_src 10.0.0.0/8` (column 21) needs ipv4 or arp",
        ),
    ] {
        assert_eq!(warnings(&format!("schema openflow\n{rule}\n")), [format!("2:{why}")], "{rule}");
    }
}

#[test]
fn an_extension_header_is_no_protocol_of_ipv6() {
    let what = |number| {
        format!(
            "{number} is an extension header in IPv6, where proto is the protocol behind all of them: there this never holds; expected `ext_headers` for IPv6, or `family ipv4` before it or in the rule"
        )
    };
    assert_eq!(warnings("deny ah\n"), [format!("1:6+2 {}", what(51))]);
    assert_eq!(warnings("deny tcp\ndeny proto { 6, 43 }\n"), [format!("2:6+15 {}", what(43))]);
    // If one of several protocols is none, the rule matches packets of the others.
    assert_eq!(warnings("deny family ipv6 proto { 6, 43 }\n"), [format!("1:18+15 {}", what(43))]);
    for quiet in [
        "deny family ipv4 ah\n",
        "family ipv4\ndeny ah\n",
        "deny src 10.0.0.1 proto 0\n",
        "deny proto { family ipv4 ah, esp }\n",
        "deny esp\n",
        "deny proto not 51\n",
        "deny proto 0-255\n",
    ] {
        assert_eq!(warnings(quiet), [""; 0], "{quiet}");
    }
}

#[test]
fn what_a_packet_may_be_is_no_contradiction() {
    for rule in [
        "permit tcp dport 22 tcp_flags 2",
        "permit proto { tcp, icmp } dport 22",
        "permit proto not tcp dport 22",
        "permit proto 2-7 tcp_flags 2",
        "permit icmp icmp_type 8",
        "permit icmpv6 icmp_type 8 icmp_code 0",
        "permit proto { icmp, icmpv6 } icmp_type echo-request",
        "permit icmp_type echo-request",
        "permit icmp",
        "permit icmpv6",
        "permit src { 10.0.0.0/8, ::1 } icmpv6",
        "permit vlan_vid 7 icmp",
    ] {
        assert_eq!(warnings(&format!("{rule}\n")), [""; 0], "{rule}");
    }
    for rule in [
        "eth_type arp ip_proto 1 ipv4_dst 10.0.0.1",
        "eth_type lldp in_port 7",
        "eth_type not ipv4 ip_dscp 7",
        "eth_type mpls mpls_label 7",
        "tcp tp_dst 80",
    ] {
        assert_eq!(warnings(&format!("schema openflow\npermit {rule}\n")), [""; 0], "{rule}");
    }
    let deep = "schema {\n kind 16 exact from eth_type\n dst 32 prefix from dst\n}\npermit kind mpls dst 10.0.0.0/8\n";
    assert_eq!(warnings(deep), [""; 0]);
}

/// `deny ipv6` would mean protocol 41 and let IPv6 through, so it is an error.
#[test]
fn a_family_alone_is_no_protocol() {
    let fault = |text: &str| firstmatch_formats::parse(text, &Options::default()).expect_err(text).to_string();
    let tunnel = "for packets inside others";
    assert_eq!(
        fault("deny ipv6\n"),
        format!("1:6: `ipv6` alone is neither a field nor a protocol; expected `family ipv6`, or `proto 41` {tunnel}")
    );
    assert_eq!(fault("deny ipv4\n"), "1:6: `ipv4` alone is neither a field nor a protocol; expected `family ipv4`");
    assert_eq!(
        fault("schema openflow\ndeny ipv6\n"),
        format!(
            "2:6: `ipv6` alone is neither a field nor a protocol; expected `eth_type ipv6`, or `ip_proto 41` {tunnel}"
        )
    );
    assert_eq!(warnings("deny proto ipv6\ndeny proto 47\n"), [""; 0]);
}

#[test]
fn rules_behind_others_are_told_with_the_line_of_the_other() {
    let behind =
        |line: u32| format!("this rule is never the first to match: the rule on line {line} takes all its packets");
    let equal =
        |line: u32| format!("this rule is never the first to match: the rule on line {line} has the same conditions");
    for (text, expected) in [
        ("permit tcp dport 22\n\ndeny dport 22 tcp   # again\n", vec![format!("3:1+17 {}", equal(1))]),
        ("permit tcp\ndeny tcp dport 22\n", vec![format!("2:1+17 {}", behind(1))]),
        ("deny tcp\ndeny family ipv4 tcp\n", vec![format!("2:1+20 {}", behind(1))]),
        ("deny dport 1000-2000 src 10.0.0.0/8\npermit tcp src 10.1.2.0/24 dport { 1000, 1500-1600 }\n", vec![format!("2:1+52 {}", behind(1))]),
        ("deny dport not 22\npermit dport 80\npermit dport 22\n", vec![format!("2:1+15 {}", behind(1))]),
        ("deny dport any\npermit dport not 80\npermit\n  deny icmp\n", vec![format!("2:1+19 {}", behind(1)), format!("4:3+9 {}", behind(3))]),
        ("deny src 10.0.0.0/8\ndeny src ::/0 tcp\npermit src { 10.1.0.0/16, 2001:db8::/32 } tcp\n",
         vec!["3:1+45 this rule is never the first to match: the rule on line 1 takes all its IPv4 packets, that on line 2 all its IPv6 packets".into()]),
        ("deny family ipv4\ndeny family ipv6 tcp\npermit src 10.0.0.0/8 tcp\npermit tcp\n", vec![format!("3:1+25 {}", behind(1)),
         "4:1+10 this rule is never the first to match: the rule on line 1 takes all its IPv4 packets, that on line 2 all its IPv6 packets".into()]),
        ("\u{feff}permit tcp\npermit tcp\n", vec![format!("2:1+10 {}", equal(1))]),
        ("@1.0.0.0/8 0.0.0.0/0 0:65535 0:65535 0x00/0x00\n@1.2.0.0/16 0.0.0.0/0 0:65535 7:7 0x06/0xFF\n", vec![format!("2:1+43 {}", behind(1))]),
        // Both of the first two rules are needed to cover the third.
        ("deny dport 0-100\ndeny dport 101-65535\ndeny dport 7-200\n", vec![]),
        // A rule of one family, an absent field, other values.
        ("deny family ipv4 tcp\ndeny tcp\n", vec![]),
        ("deny dport any\ndeny\n", vec![]),
        ("deny tcp_flags 0x02/0x12\ndeny tcp_flags 0x02/0x02\n", vec![]),
    ] {
        assert_eq!(warnings(text), expected, "{text}");
    }
    let quiet = Options { max_warnings: 0, ..Options::default() };
    assert_eq!(firstmatch_formats::parse("deny\ndeny\n", &quiet).expect("it is good").more_warnings, 0);
}

/// A rule for one family that excludes every value there never matches, although conditions alone leave the other
/// family.
#[test]
fn a_rule_that_matches_in_neither_family_is_told() {
    for (rule, why) in [
        ("permit family ipv4 dport not any", "dport excludes every value"),
        ("permit family ipv6 dport not any", "dport excludes every value"),
        ("permit src 10.0.0.0/8 dport not any", "dport excludes every value"),
        ("permit src ::1 dport not any", "dport excludes every value"),
        ("permit src not 0.0.0.0/0", "src excludes every value"),
        ("permit dport not any", "dport excludes every value"),
    ] {
        assert_eq!(warnings(&format!("{rule}\n")), [format!("1:1+{} {NEVER}{why}", rule.len())], "{rule}");
    }
    assert_eq!(warnings("permit src not { 0.0.0.0/0, ::1 }\n"), Vec::<String>::new());
}

/// A condition with all values among its values holds whatever excludes some.
#[test]
fn all_values_among_others_take_what_excludes_some() {
    for values in ["{ 0-65535, 80 }", "{ 80, 0-65535 }", "{ 0-65535 }"] {
        let found = warnings(&format!("deny dport {values}\npermit dport not 22\n"));
        assert!(found.len() == 1 && found[0].contains("the rule on line 1 takes all its packets"), "{found:?}");
    }
    assert_eq!(warnings("deny dport { 1-65535, 80 }\npermit dport not 22\n"), Vec::<String>::new());
}

/// Every reported rule is behind the one that is named, for every packet there is.
///
/// Fields are tiny and of one family or two. Nearly all rules that one other covers are reported.
#[test]
fn every_rule_that_is_told_is_behind_the_other() {
    let field = |name: &str, width, kind| Field::new(name, width, kind, None);
    let fields = |wide: u32| {
        vec![field("a", wide, Kind::Prefix), field("b", 2, Kind::Range).optional(), field("c", 2, Kind::Mask)]
    };
    let (four, six) = (Schema::new(Some(Family::Ipv4), fields(2)), Schema::new(Some(Family::Ipv6), fields(3)));
    let (mut told, mut behind, mut equal) = (0, 0, 0);
    for seed in 0..600 {
        let random = &mut Rng::new(seed);
        let mut set = if seed % 2 == 0 { RuleSet::new(six.clone()) } else { RuleSet::dual(four.clone(), six.clone()) };
        for line in 0..2 + random.below(6) {
            let conditions = (0..3).filter_map(|field| condition(random, &set, field)).collect();
            let family = [None, None, None, Some(Family::Ipv6)][random.below(4)];
            let spec = RuleSpec {
                priority: Priority(line as u64),
                action: Action::Permit,
                conditions,
                family,
                line: None,
                value: 0,
            };
            set.insert(spec).expect("it fits");
        }
        let packets: Vec<_> = set.schemas().iter().flat_map(packets).collect();
        let matched = |rule: &firstmatch_core::rule::Rule| {
            let meets =
                |packet: &&FieldValues| rule.matches(set.schema(packet.family).expect("one of its own"), packet);
            packets.iter().filter(meets).collect::<Vec<_>>()
        };
        let mut found = Vec::new();
        covered(&set, |rule, covering| {
            let mut taken: Vec<_> = covering.by.iter().flat_map(|by| matched(by)).collect();
            let left = matched(rule).into_iter().filter(|packet| !taken.contains(packet)).count();
            assert_eq!(left, 0, "{rule:?} is not behind {covering:?}");
            assert!(covering.by.iter().all(|by| by.priority < rule.priority));
            taken.dedup();
            equal += usize::from(covering.is_equal);
            found.push(rule.id);
        });
        for (at, rule) in set.iter().enumerate() {
            let own = matched(rule);
            let mut earlier = set.iter().take(at).map(matched);
            let is_behind = !own.is_empty() && earlier.any(|all| own.iter().all(|packet| all.contains(packet)));
            behind += usize::from(is_behind);
            told += usize::from(is_behind && found.contains(&rule.id));
        }
    }
    assert!(equal > 40 && behind > 400, "{equal} equal ones of {behind}");
    // It does not see through lists that are a range together, nor what ranges leave of a small field.
    assert!(told * 100 > behind * 80, "{told} of {behind}");
}

fn condition(random: &mut Rng, set: &RuleSet, field: usize) -> Option<Condition> {
    let width = set.schemas()[0].fields()[field].width();
    let max = (1u128 << width) - 1;
    let test = |random: &mut Rng| {
        let (a, b) = (random.bits(2) & max, random.bits(2) & max);
        match random.below(4) {
            0 => Test::Value(a),
            1 => Test::Range { lo: a.min(b), hi: a.max(b) },
            2 => Test::Mask { value: a & b, mask: b },
            _ => Test::Prefix { value: 0, len: random.below(2) as u32 },
        }
    };
    let of = |random: &mut Rng| (set.schemas().len() > 1 && random.below(4) == 0).then_some(Family::Ipv6);
    let tests = (0..1 + random.below(2)).map(|_| (of(random), test(random))).collect();
    (random.below(2) == 0).then(|| Condition { field, negated: random.below(4) == 0, tests })
}

fn packets(schema: &Schema) -> Vec<FieldValues> {
    let mut all = vec![Vec::new()];
    for field in schema.fields() {
        let values = (0..=field.max()).map(Some).chain(field.is_optional().then_some(None));
        let values: Vec<_> = values.collect();
        all = all.iter().flat_map(|row: &Vec<_>| values.iter().map(|v| [&row[..], &[*v]].concat())).collect();
    }
    all.into_iter().map(|values| FieldValues { family: schema.family(), values }).collect()
}

/// The search is linear in the number of rules, whatever they look like.
///
/// For example, 40,000 rules take about as long a rule as 2,000.
#[test]
fn many_rules_are_looked_through_in_one_pass() {
    let set = |count: u32| {
        let mut set = RuleSet::new(Schema::ipv4());
        let random = &mut Rng::new(7);
        for line in 0..count {
            let len = 8 + random.below(25) as u32;
            let value = random.bits(32) & !(u128::from(u32::MAX) >> len) & u128::from(u32::MAX);
            let port = random.below(60_000) as u128;
            let one = |field, test| Condition { field, negated: false, tests: vec![(None, test)] };
            let conditions = [
                one(random.below(2), Test::Prefix { value, len }),
                one(2, Test::Range { lo: port, hi: port + random.below(5000) as u128 }),
                one(3, Test::Range { lo: 0, hi: random.below(60_000) as u128 }),
            ];
            let spec = RuleSpec {
                priority: Priority::of_line(line + 1),
                action: Action::Match,
                conditions: conditions.into(),
                family: None,
                line: None,
                value: 0,
            };
            set.insert(spec).expect("it fits");
        }
        set
    };
    let time = |count| {
        let set = set(count);
        let once = || {
            let start = on_core();
            covered(&set, |_, _| {});
            on_core() - start
        };
        (0..3).map(|_| once()).fold(f64::MAX, f64::min) / f64::from(count)
    };
    let (few, many) = (time(2_000), time(40_000));
    assert!(many < 8.0 * few, "{few:e} s a rule, then {many:e}");
}

/// Returns the seconds that this thread had a core.
///
/// Other programs of a busy machine take time, but not time with a core.
fn on_core() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Of more shapes than are kept the narrowest one goes, whatever the others are.
#[test]
fn the_narrowest_shape_goes_first() {
    let behind =
        |line: usize| format!("this rule is never the first to match: the rule on line {line} takes all its packets");
    // The widest shape, then 64 that fix many bits.
    let mut text = "family ipv4\ndeny dport any\n".to_owned();
    for at in 0..64 {
        text.push_str(&format!("deny src 1.{at}.0.0/{} dst 2.{at}.0.0/{}\n", 17 + at / 8, 17 + at % 8));
    }
    assert_eq!(warnings(&text), Vec::<String>::new());
    text.push_str("deny src 10.0.0.0/8\ndeny src 10.1.0.0/16 tcp\ndeny dport 80\n");
    let found = warnings(&text);
    assert_eq!(found, [format!("68:1+24 {}", behind(67)), format!("69:1+13 {}", behind(2))]);
}

/// Conditions of 64 pairs of tests are compared.
#[test]
fn as_many_pairs_of_tests_are_compared_as_is_said() {
    let list = |show: &dyn Fn(usize) -> String| (0..8).map(show).collect::<Vec<_>>().join(", ");
    let (wide, narrow) = (list(&|at| format!("{}-{}", 20 * at, 20 * at + 9)), list(&|at| (20 * at + 1).to_string()));
    let found = warnings(&format!("deny dport {{ {wide} }}\ndeny dport {{ {narrow} }}\n"));
    assert!(found.len() == 1 && found[0].contains("the rule on line 1 takes all its packets"), "{found:?}");
}
