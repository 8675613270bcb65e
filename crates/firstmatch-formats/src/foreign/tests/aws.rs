//! Security groups and network ACLs of AWS: worked values, faults, and lists against an evaluation of their rules.

use firstmatch_core::schema::{Family, Source};
use firstmatch_testkit::rng::Rng;

use super::super::options::{Hook, Import, State};
use super::{all_fields, native, packet, verdict};
use crate::{Format, Options, RuleFile, parse, sniff};

fn options(hook: Option<Hook>, list: Option<&str>) -> Options {
    let import = Import { hook, list: list.map(str::to_owned), ..Import::default() };
    Options { import, ..Options::default() }
}

#[track_caller]
fn read(text: &str, options: &Options) -> RuleFile {
    assert_eq!(sniff(text), Format::Aws);
    parse(text, options).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// Returns the message of the only fault, with its line.
#[track_caller]
fn fault(text: &str, options: &Options) -> (u32, String) {
    let error = parse(text, options).expect_err("a fault");
    assert_eq!(error.faults().len(), 1, "{error}");
    let of = &error.faults()[0];
    assert!(of.column > 0 && of.line > 0);
    (of.line, format!("{}; {}", of.message, of.expected.as_deref().unwrap_or_default()))
}

/// Two groups, of which the second has members of another group.
const GROUPS: &str = r#"{
    "SecurityGroups": [
        {
            "GroupName": "web", "GroupId": "sg-web", "OwnerId": "123456789012", "VpcId": "vpc-1", "Description": "",
            "IpPermissions": [
                {
                    "IpProtocol": "tcp", "FromPort": 443, "ToPort": 444,
                    "UserIdGroupPairs": [], "PrefixListIds": [],
                    "IpRanges": [
                        { "CidrIp": "10.0.0.0/8", "Description": "office" },
                        { "CidrIp": "192.0.2.7/32" }
                    ],
                    "Ipv6Ranges": [ { "CidrIpv6": "2001:db8::/32" } ]
                },
                { "IpProtocol": "icmp", "FromPort": 3, "ToPort": 4, "IpRanges": [ { "CidrIp": "0.0.0.0/0" } ] },
                { "IpProtocol": "icmp", "FromPort": 8, "ToPort": -1, "IpRanges": [ { "CidrIp": "0.0.0.0/0" } ] },
                { "IpProtocol": "50", "FromPort": 1, "ToPort": 2, "IpRanges": [ { "CidrIp": "0.0.0.0/0" } ] }
            ],
            "IpPermissionsEgress": [
                { "IpProtocol": "-1", "IpRanges": [ { "CidrIp": "10.0.0.0/8" } ], "Ipv6Ranges": [] }
            ]
        },
        {
            "GroupId": "sg-data",
            "IpPermissions": [
                {
                    "IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432,
                    "UserIdGroupPairs": [ { "GroupId": "sg-web", "UserId": "123456789012" } ]
                }
            ],
            "IpPermissionsEgress": []
        }
    ]
}
"#;

#[test]
fn a_group_is_its_rules_and_denies_the_rest() {
    let file = read(GROUPS, &options(None, Some("sg-web")));
    let rules = [
        "permit family ipv4 tcp src 10.0.0.0/8 dport 443-444",
        "permit family ipv4 tcp src 192.0.2.7 dport 443-444",
        "permit family ipv4 icmp icmp_type 3 icmp_code 4",
        "permit family ipv4 icmp icmp_type 8",
        "permit family ipv4 proto 50",
        "permit family ipv6 tcp src 2001:db8::/32 dport 443-444",
    ];
    let plain = |rules: &[&str]| native(&parse(&rules.join("\n"), &Options::default()).expect("good rules"));
    assert_eq!(plain(&native(&file).iter().map(|of| &**of).collect::<Vec<_>>()), plain(&rules));
    let lines: Vec<_> = file.rules.iter().map(|rule| rule.line.map_or(0, u32::from)).collect();
    assert_eq!(lines, [10, 11, 15, 16, 17, 13]);
    assert_eq!(file.labels.values().map(|label| &**label).collect::<Vec<_>>(), ["office"]);
    assert!(file.notes[0].contains("sg-web") && file.notes[0].contains("come in"), "{:?}", file.notes);
    let out = read(GROUPS, &options(Some(Hook::Output), Some("sg-web")));
    assert_eq!(native(&out).len(), 1);
    assert!(native(&out)[0].contains("dst 10.0.0.0/8"), "{:?}", native(&out));
    assert_eq!(out.policy.default.to_string(), "deny");
}

/// A group without rules denies everything, and several groups permit what one of them does.
#[test]
fn groups_are_chosen_by_name() {
    let empty = GROUPS.replacen("sg-data", "sg-2", 1).replacen(
        "{ \"GroupId\": \"sg-web\", \"UserId\": \"123456789012\" }",
        "",
        1,
    );
    assert_eq!(native(&read(&empty, &options(None, Some("sg-2")))), [""; 0]);
    let both = read(&empty, &options(None, Some("sg-2,sg-web")));
    assert_eq!(native(&both), native(&read(&empty, &options(None, Some("sg-web")))));
    let (line, message) = fault(GROUPS, &options(None, None));
    assert!(line == 2 && message.contains("`--list sg-web` or `--list sg-data`"), "{message}");
    let (_, message) = fault(GROUPS, &options(None, Some("sg-web,sg-3")));
    assert!(message.contains("no security group `sg-3`"), "{message}");
    let (line, message) = fault(GROUPS, &options(None, Some("sg-data")));
    assert!(line == 28 && message.contains("members of another group"), "{line}: {message}");
    let mut of_known = options(None, Some("sg-web"));
    of_known.import.state = State::Established;
    assert!(fault(GROUPS, &of_known).1.contains("--state new"));
    assert!(fault(GROUPS, &options(Some(Hook::Forward), Some("sg-web"))).1.contains("--hook input"));
}

#[test]
fn rules_of_groups_are_read_one_by_one() {
    let text = r#"{ "SecurityGroupRules": [
{ "SecurityGroupRuleId": "sgr-1", "GroupId": "sg-1", "GroupOwnerId": "1", "IsEgress": false, "IpProtocol": "udp",
  "FromPort": 53, "ToPort": 53, "CidrIpv4": "10.0.0.0/8", "Description": "dns", "Tags": [] },
{ "GroupId": "sg-1", "IsEgress": true, "IpProtocol": "-1", "FromPort": -1, "ToPort": -1, "CidrIpv6": "::/0" },
{ "GroupId": "sg-2", "IsEgress": false, "IpProtocol": "tcp", "FromPort": 1, "ToPort": 2, "PrefixListId": "pl-1" }
] }"#;
    let file = read(text, &options(None, Some("sg-1")));
    assert_eq!(native(&file), ["permit udp src 10.0.0.0/8 dport 53"]);
    assert_eq!(native(&read(text, &options(Some(Hook::Output), Some("sg-1")))), ["permit"]);
    assert_eq!(fault(text, &options(None, Some("sg-2"))).0, 5);
}

/// Entries are decided in the order of their numbers, whatever their places are.
#[test]
fn entries_of_acls_go_by_number() {
    let text = r#"{ "NetworkAcls": [ { "NetworkAclId": "acl-1", "Associations": [], "IsDefault": false, "Entries": [
{ "CidrBlock": "0.0.0.0/0", "Egress": false, "Protocol": "-1", "RuleAction": "deny", "RuleNumber": 32767 },
{ "CidrBlock": "0.0.0.0/0", "Egress": false, "Protocol": "6", "PortRange": { "From": 22, "To": 22 },
  "RuleAction": "allow", "RuleNumber": 200 },
{ "CidrBlock": "10.1.0.0/16", "Egress": false, "Protocol": "6", "RuleAction": "deny", "RuleNumber": 100 },
{ "CidrBlock": "0.0.0.0/0", "Egress": true, "Protocol": "-1", "RuleAction": "allow", "RuleNumber": 100 },
{ "CidrBlock": "0.0.0.0/0", "Egress": false, "Protocol": "1", "IcmpTypeCode": { "Code": -1, "Type": 8 },
  "RuleAction": "allow", "RuleNumber": 50 }
] } ] }"#;
    let file = read(text, &options(None, None));
    let rules = ["permit icmp icmp_type 8", "deny tcp src 10.1.0.0/16", "permit tcp dport 22", "deny"];
    let rules = native(&parse(&format!("family ipv4\n{}\n", rules.join("\n")), &Options::default()).expect("rules"));
    assert_eq!(native(&file), rules);
    let lines: Vec<_> = file.rules.iter().map(|rule| rule.line.map_or(0, u32::from)).collect();
    assert_eq!(lines, [7, 5, 3, 2]);
    let second = text.replacen("\"RuleNumber\": 200", "\"RuleNumber\": 50", 1);
    assert!(fault(&second, &options(None, None)).1.contains("a second entry with the number 50"));
    // The established state changes nothing, because an ACL knows no connections.
    let mut established = options(None, None);
    established.import.state = State::Established;
    assert_eq!(native(&read(text, &established)), rules);
}

/// Every member that is renamed, and every value that is garbled, is a fault.
#[test]
fn no_word_is_passed_over() {
    let text = r#"{ "SecurityGroups": [ { "GroupId": "sg-1", "IpPermissions": [
{ "IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "UserIdGroupPairs": [], "PrefixListIds": [],
  "IpRanges": [ { "CidrIp": "10.0.0.0/8", "Description": "x" } ], "Ipv6Ranges": [ { "CidrIpv6": "2001:db8::/32" } ] } ] } ] }"#;
    assert_eq!(native(&read(text, &options(None, None))).len(), 2);
    for word in [
        "IpProtocol",
        "FromPort",
        "ToPort",
        "UserIdGroupPairs",
        "PrefixListIds",
        "IpRanges",
        "CidrIp",
        "Description",
        "Ipv6Ranges",
        "CidrIpv6",
        "IpPermissions",
        "GroupId",
    ] {
        let renamed = text.replacen(&format!("\"{word}\""), &format!("\"X{word}\""), 1);
        assert!(renamed != text && parse(&renamed, &options(None, None)).is_err(), "{word}");
    }
    for (value, others) in [
        ("\"tcp\"", &["\"tpc\"", "6", "\"256\"", "\"-2\"", "\"\"", "null"][..]),
        ("443,", &["\"443\",", "-1,", "444,", "65536,", "4.5,", "null,"]),
        ("\"10.0.0.0/8\"", &["\"10.0.0.0\"", "\"10.0.0/8\"", "\"10.0.0.0/33\"", "\"::/8\"", "\"10.0.0.0/+8\"", "8"]),
        ("\"2001:db8::/32\"", &["\"2001:db8::/129\"", "\"10.0.0.0/8\"", "\"2001:db8::\""]),
        ("[]", &["[ { } ]", "{ }", "null"]),
    ] {
        for other in others {
            let garbled = text.replacen(value, other, 1);
            assert!(garbled != text && parse(&garbled, &options(None, None)).is_err(), "{value} as {other}");
        }
    }
    let cut = parse(&text[..text.len() - 3], &options(None, None)).expect_err("no JSON");
    assert!(cut.to_string().contains("no JSON"), "{cut}");
    let extension = text.replacen("\"tcp\"", "\"43\"", 1);
    assert!(fault(&extension, &options(None, None)).1.contains("extension header"));
}

/// Rule of an ACL, as the test writes and evaluates it.
struct Written {
    number: u32,
    allows: bool,
    protocol: i32,
    ports: (u16, u16),
    message: (i32, i32),
    address: (u32, u32),
}

impl Written {
    fn draw(rng: &mut Rng, number: u32) -> Self {
        let len = [0, 8, 30, 31, 32][rng.below(5)];
        let low = [0, 1, 2, 4, 80][rng.below(5)];
        let of_type = [-1, 3, 8][rng.below(3)];
        Self {
            number,
            allows: rng.below(2) == 0,
            protocol: [-1, 1, 6, 17, 50][rng.below(5)],
            ports: (low, low + rng.below(3) as u16),
            message: (of_type, if of_type < 0 { -1 } else { [-1, 0, 1][rng.below(3)] }),
            address: (0x0A00_0000 + rng.below(8) as u32, len),
        }
    }

    fn text(&self) -> String {
        let Self { number, protocol, address: (address, len), ports: (from, to), message: (of_type, code), .. } = self;
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        let cidr = std::net::Ipv4Addr::from(address & mask);
        let action = if self.allows { "allow" } else { "deny" };
        format!(
            r#"{{ "RuleNumber": {number}, "RuleAction": "{action}", "Egress": false, "Protocol": "{protocol}",
  "CidrBlock": "{cidr}/{len}", "PortRange": {{ "From": {from}, "To": {to} }},
  "IcmpTypeCode": {{ "Type": {of_type}, "Code": {code} }} }}"#
        )
    }

    fn holds(&self, src: u32, proto: i32, port: u16, message: (i32, i32)) -> bool {
        let (address, len) = self.address;
        let mask = u32::MAX.checked_shl(32 - len).unwrap_or(0);
        let of_type = |own: i32, seen: i32| own < 0 || own == seen;
        (src ^ address) & mask == 0
            && (self.protocol < 0 || self.protocol == proto)
            && match self.protocol {
                6 | 17 => (self.ports.0..=self.ports.1).contains(&port),
                1 => of_type(self.message.0, message.0) && of_type(self.message.1, message.1),
                _ => true,
            }
    }
}

#[test]
fn random_acls_decide_as_their_entries_do() {
    let mut rng = Rng::new(4);
    let mut permitted = 0;
    for round in 0..200 {
        let mut entries: Vec<Written> = Vec::new();
        for _ in 0..1 + rng.below(6) {
            let number = 1 + rng.below(30000) as u32;
            if entries.iter().all(|entry| entry.number != number) {
                entries.push(Written::draw(&mut rng, number));
            }
        }
        let text: Vec<String> = entries.iter().map(Written::text).collect();
        let text = format!(
            "{{ \"NetworkAcls\": [ {{ \"NetworkAclId\": \"a\", \"Entries\": [\n{}\n] }} ] }}",
            text.join(",\n")
        );
        let file = read(&text, &all_fields(options(None, None)));
        entries.sort_by_key(|entry| entry.number);
        for _ in 0..150 {
            let (src, proto) = (0x0A00_0000 + rng.below(9) as u32, [1, 6, 17, 50][rng.below(4)]);
            let (port, message) =
                ([0, 1, 2, 3, 4, 5, 80, 81][rng.below(8)], ([3, 8][rng.below(2)], rng.below(2) as i32));
            let found = entries.iter().find(|entry| entry.holds(src, proto, port, message));
            let expected = if found.is_some_and(|entry| entry.allows) { "permit" } else { "deny" };
            permitted += usize::from(expected == "permit");
            let mut conditions = vec![(Source::Proto, proto as u128)];
            match proto {
                6 | 17 => conditions.extend([(Source::SrcPort, 9), (Source::DstPort, u128::from(port))]),
                1 => conditions.extend([(Source::IcmpType, message.0 as u128), (Source::IcmpCode, message.1 as u128)]),
                _ => {}
            }
            let values = packet(&std::net::Ipv4Addr::from(src).to_string(), &conditions);
            assert_eq!(verdict(&file, Family::Ipv4, &values), expected, "{round}: {values:?}\n{text}");
        }
    }
    assert!(permitted > 5000, "{permitted}");
}
