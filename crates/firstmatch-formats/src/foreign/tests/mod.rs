//! Files of iptables: worked values, faults, views, and the unfolding against the definition.

#[cfg(feature = "json")]
mod aws;
mod faults;
mod ios;
mod random;
mod words;

use firstmatch_core::rule::{FieldValues, first_match};
use firstmatch_core::schema::{Family, Source};

use super::options::{Hook, Import};
use crate::native::INET;
use crate::write::write;
use crate::{Fields, Format, Options, RuleFile, parse};

/// Returns the options for a hook.
fn view(hook: Hook) -> Options {
    let import = Import { hook: Some(hook), ..Import::default() };
    Options { import, ..Options::default() }
}

/// Returns a file of the chain INPUT with a policy, and rules behind it.
fn input(policy: &str, chains: &str, rules: &str) -> String {
    format!("*filter\n:INPUT {policy} [0:0]\n:FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n{chains}{rules}COMMIT\n")
}

/// Returns the rules of a file in the native format, without its head.
fn native(file: &RuleFile) -> Vec<String> {
    let mut text = String::new();
    write(file, Format::Native, &mut text).expect("rules that the native format holds");
    let rules = text.split_once("\n\n").map_or("", |(_, rules)| rules);
    rules.lines().map(|line| line.split(" label").next().unwrap_or(line).to_owned()).collect()
}

/// Values of a packet over the fields of [`INET`].
fn packet(src: &str, conditions: &[(Source, u128)]) -> Vec<Option<u128>> {
    let mut values = vec![None; INET.len()];
    let address: std::net::IpAddr = src.parse().expect("an address");
    let bits = match address {
        std::net::IpAddr::V4(address) => u128::from(address.to_bits()),
        std::net::IpAddr::V6(address) => address.to_bits(),
    };
    let always = [(Source::Src, bits), (Source::Dst, 1), (Source::Fragment, 0), (Source::Ttl, 64), (Source::Dscp, 0)];
    for (source, value) in always.into_iter().chain([(Source::Length, 60)]).chain(conditions.iter().copied()) {
        let at = INET.iter().position(|of| *of == source).expect("a field of IP networks");
        values[at] = Some(value);
    }
    values
}

/// Returns the verdict of a file that was read with all fields.
fn verdict(file: &RuleFile, family: Family, values: &[Option<u128>]) -> String {
    let of = FieldValues { family: Some(family), values: values.to_vec() };
    first_match(&file.rules, &of).map_or(file.policy.default.to_string(), |rule| rule.action.to_string())
}

fn all_fields(options: Options) -> Options {
    Options { fields: Fields::All, ..options }
}

fn tcp(src: &str, dport: u128, flags: u128) -> Vec<Option<u128>> {
    let ports = [(Source::Proto, 6), (Source::SrcPort, 4040), (Source::DstPort, dport), (Source::TcpFlags, flags)];
    packet(src, &ports)
}

fn icmp(src: &str, of_type: u128, code: u128) -> Vec<Option<u128>> {
    packet(src, &[(Source::Proto, 1), (Source::IcmpType, of_type), (Source::IcmpCode, code)])
}

fn udp(sport: u128, dport: u128) -> Vec<Option<u128>> {
    packet("10.0.0.1", &[(Source::Proto, 17), (Source::SrcPort, sport), (Source::DstPort, dport)])
}

#[track_caller]
fn check(text: &str, expected: &[(Vec<Option<u128>>, &str)]) {
    let file = parse(text, &all_fields(view(Hook::Input))).expect("a file without faults");
    for (values, verdict_of) in expected {
        assert_eq!(verdict(&file, Family::Ipv4, values), *verdict_of, "{values:?}");
    }
}

/// A return takes packets out of a called chain, and packets without ports are not among them.
#[test]
fn a_return_leaves_the_others() {
    let text = input(
        "DROP",
        ":web - [0:0]\n",
        "-A INPUT -j web\n-A INPUT -p tcp -m tcp --dport 443 -j ACCEPT\n\
         -A web -s 10.0.0.0/8 -p tcp -m tcp --dport 443 -j RETURN\n-A web -p tcp -j DROP\n-A web -j ACCEPT\n",
    );
    let file = parse(&text, &view(Hook::Input)).expect("a file without faults");
    let rules = native(&file);
    assert_eq!(
        rules[..2],
        ["deny tcp src not 10.0.0.0/8", "deny tcp src 10.0.0.0/8 dport { 0-442, 444-65535, absent }"]
    );
    assert_eq!(rules.last().map(String::as_str), Some("permit tcp dport 443"));
    assert!(rules.contains(&"permit proto not tcp".to_owned()), "{rules:?}");
    let lines: Vec<u32> = file.rules.iter().filter_map(|rule| rule.line.map(u32::from)).collect();
    assert_eq!(lines.iter().filter(|line| **line == 10).count(), 3, "{lines:?}");
    assert_eq!(lines.last(), Some(&7));
    let labels: Vec<&str> = file.rules.iter().filter_map(|rule| file.labels.get(&rule.id)).map(|l| &**l).collect();
    assert!(labels.len() == rules.len() - 1 && labels.iter().all(|label| *label == "INPUT:6"), "{labels:?}");
    check(
        &text,
        &[
            (tcp("10.0.0.1", 443, 2), "permit"),
            (tcp("11.0.0.1", 443, 2), "deny"),
            (tcp("10.0.0.1", 22, 2), "deny"),
            (udp(1, 2), "permit"),
            (icmp("10.0.0.1", 8, 0), "permit"),
            (packet("10.0.0.1", &[(Source::Proto, 6), (Source::Fragment, 2)]), "deny"),
        ],
    );
}

/// `--ports` is one of both ports; negated it is neither.
#[test]
fn ports_of_either_side() {
    let text = input(
        "DROP",
        "",
        "-A INPUT -p udp -m multiport ! --ports 53,123 -j ACCEPT\n-A INPUT -p udp -m multiport --ports 53 -j ACCEPT\n",
    );
    let expected = [(1, 2, "permit"), (53, 2, "permit"), (123, 2, "deny"), (123, 53, "permit"), (2, 53, "permit")];
    check(&text, &expected.map(|(sport, dport, verdict)| (udp(sport, dport), verdict)));
    check(&text, &[(icmp("10.0.0.1", 8, 0), "deny")]);
}

/// What falls off the end of a chain that `-g` leads to goes on where the chain before it was called.
#[test]
fn a_goto_does_not_come_back() {
    let text = input(
        "DROP",
        ":a - [0:0]\n:b - [0:0]\n",
        "-A INPUT -p tcp -j a\n-A INPUT -p tcp --dport 80 -j ACCEPT\n-A a -p tcp --dport 80:81 -g b\n\
         -A a -j ACCEPT\n-A b -p tcp --sport 7 -j DROP\n",
    );
    let file = parse(&text, &view(Hook::Input)).expect("a file without faults");
    assert_eq!(
        native(&file),
        ["deny tcp sport 7 dport 80-81", "permit tcp dport { 0-79, 82-65535, absent }", "permit tcp dport 80"]
    );
    let from_7 = {
        let mut values = tcp("10.0.0.1", 80, 2);
        values[2] = Some(7);
        values
    };
    let to = |dport| tcp("10.0.0.1", dport, 2);
    check(&text, &[(to(80), "permit"), (to(81), "deny"), (from_7, "deny"), (to(22), "permit")]);
}

/// A return in a base chain is its policy; types with codes, flags and negated protocols are as in the kernel.
#[test]
fn returns_types_and_flags_of_a_base_chain() {
    let text = input(
        "ACCEPT",
        "",
        "-A INPUT -s 10.0.0.0/8 -j RETURN\n-A INPUT -p icmp -m icmp ! --icmp-type 8/0 -j ACCEPT\n\
         -A INPUT ! -p tcp -j DROP\n-A INPUT -p tcp -m tcp --tcp-flags FIN,SYN FIN,SYN -j DROP\n",
    );
    let other = "11.0.0.1";
    check(
        &text,
        &[
            (tcp(other, 80, 3), "deny"),
            (tcp(other, 80, 0x43), "deny"),
            (tcp(other, 80, 2), "permit"),
            (icmp(other, 8, 0), "deny"),
            (icmp(other, 0, 0), "permit"),
            (icmp(other, 8, 1), "permit"),
            (packet(other, &[(Source::Proto, 17)]), "deny"),
            (tcp("10.0.0.1", 80, 3), "permit"),
            (icmp("10.0.0.1", 8, 0), "permit"),
        ],
    );
}

/// Every form of a condition, as the native format writes it.
#[test]
fn conditions_are_read_as_they_mean() {
    for (condition, expected) in [
        ("-s 10.0.0.7/255.0.0.255", "src 10.0.0.7/255.0.0.255"),
        ("! -d 10.1.0.0/16", "dst not 10.1.0.0/16"),
        ("-s 10.0.0.0/8,192.0.2.1", "src { 10.0.0.0/8, 192.0.2.1 }"),
        ("-p 0", ""),
        ("-p all -s 0.0.0.0/0", ""),
        ("! -p udp", "proto not udp"),
        ("-p 99", "proto 99"),
        ("-p ipip", "proto 94"),
        ("-p ipencap", "ipip"),
        ("-f", "fragment later"),
        ("! -f", "fragment 0-1"),
        ("-p tcp -m tcp --sport :1023 --dport 1024:", "tcp sport 0-1023 dport 1024-65535"),
        ("-p tcp -m tcp ! --dport 22", "tcp dport not 22"),
        ("-p tcp -m tcp", "tcp dport any"),
        ("-p udp --dport domain", "udp dport 53"),
        ("-p tcp --syn", "tcp tcp_flags 0x02/0x17"),
        ("-p tcp ! --syn", "tcp tcp_flags not 0x02/0x17"),
        ("-p tcp --tcp-flags ALL NONE", "tcp tcp_flags 0x00/0x3f"),
        ("-p tcp --tcp-flags ALL ACK,SYN", "tcp tcp_flags 0x12/0x3f"),
        ("-p icmp --icmp-type echo-request", "icmp icmp_type 8"),
        ("-p icmp --icmp-type 3/4", "icmp icmp_type 3 icmp_code 4"),
        ("-p icmp --icmp-type fragmentation-needed", "icmp icmp_type 3 icmp_code 4"),
        ("-p icmp --icmp-type any", "icmp icmp_type any"),
        ("-p icmp --icmp-type 255", "icmp icmp_type any"),
        ("-p icmp -m icmp", "icmp icmp_type any"),
        ("-p tcp -m multiport --dports 80,443,8000:8099", "tcp dport { 80, 443, 8000-8099 }"),
        ("-p sctp -m multiport ! --sports 80", "sctp sport not 80"),
        ("-m iprange --src-range 10.0.0.1-10.0.0.9", "src 10.0.0.1-10.0.0.9"),
        ("-m iprange ! --dst-range 10.0.0.0-10.0.0.255", "dst not 10.0.0.0/24"),
        ("-m ttl --ttl-eq 255", "ttl 255"),
        ("-m ttl --ttl-lt 5", "ttl 0-4"),
        ("-m ttl --ttl-gt 5", "ttl 6-255"),
        ("-m dscp --dscp 0x2e", "dscp 46"),
        ("-m dscp ! --dscp-class AF41", "dscp not 34"),
        ("-m length --length 100:200", "length 100-200"),
        ("-m length --length 1500", "length 1500"),
        ("-m mark --mark 0x0", ""),
        ("-m mark ! --mark 0x1/0xff", ""),
        ("-m conntrack --ctstate NEW,INVALID", ""),
        ("-m state ! --state ESTABLISHED", ""),
        ("-m addrtype --dst-type MULTICAST", "dst 224.0.0.0/4"),
        ("-m addrtype ! --src-type MULTICAST", "src not 224.0.0.0/4"),
        ("-m comment --comment \"what it is for\" -c 5 60", ""),
        ("-4", ""),
    ] {
        let text = input("DROP", "", &format!("-A INPUT {condition} -j ACCEPT\n"));
        let file = parse(&text, &Options { format: Some(Format::Iptables), ..view(Hook::Input) });
        let file = file.unwrap_or_else(|error| panic!("{condition}: {error}"));
        let rules: Vec<String> =
            native(&file).iter().map(|rule| rule.replace("permit", "").trim().to_owned()).collect();
        let shown: Vec<String> = rules.iter().map(|rule| plain(rule)).collect();
        assert_eq!(shown, [plain(expected)], "{condition}");
    }
    for condition in
        ["-m mark --mark 0x1", "-m conntrack --ctstate RELATED,ESTABLISHED", "! -s 0.0.0.0/0", "-m ttl --ttl-lt 0"]
    {
        let text = input("DROP", "", &format!("-A INPUT {condition} -j ACCEPT\n-A INPUT -p 7 -j ACCEPT\n"));
        let file = parse(&text, &view(Hook::Input)).expect("a file without faults");
        assert_eq!(native(&file), ["permit proto 7"], "{condition}");
    }
}

/// Returns a rule with names of the native format as numbers, so that expectations need not know them.
fn plain(rule: &str) -> String {
    let file = parse(&format!("family ipv4\npermit {rule}\n"), &Options::default());
    let file = file.unwrap_or_else(|error| panic!("{rule}: {error}"));
    native(&file).concat()
}

#[test]
fn ipv6_has_its_own_names() {
    let rules = "-A INPUT -s 2001:db8::/32 -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j ACCEPT\n\
                 -A INPUT -p ipv6-icmp -m icmp6 --icmpv6-type neighbour-solicitation -m hl --hl-eq 255 -j ACCEPT\n\
                 -A INPUT -m rt --rt-type 0 -j DROP\n-A INPUT -p tcp -m tcp --dport 22 -j REJECT --reject-with tcp-reset\n";
    let file = parse(&input("DROP", "", rules), &view(Hook::Input)).expect("a file without faults");
    assert_eq!(
        native(&file),
        [
            "permit icmpv6 src 2001:db8::/32 icmp_type 128",
            "permit icmpv6 icmp_type 135 ttl 255",
            "deny routing_type 0",
            "deny tcp dport 22"
        ]
    );
    assert_eq!(file.rules.schemas()[0].family(), Some(Family::Ipv6));
}

/// Interfaces and states are those of the view, and rules for others are counted.
#[test]
fn views_fix_interfaces_and_states() {
    use super::options::{RateLimit, State};
    let text = input(
        "DROP",
        "",
        "-A INPUT -i lo -j ACCEPT\n-A INPUT -i eth0 -p 7 -j ACCEPT\n-A INPUT -i eth+ -p 8 -j ACCEPT\n\
         -A INPUT ! -i eth0 -p 9 -j ACCEPT\n-A INPUT -m state --state RELATED,ESTABLISHED -j ACCEPT\n\
         -A INPUT -m limit --limit 3/min -p 11 -j ACCEPT\n-A INPUT -j LOG --log-prefix \"no: \"\n",
    );
    let read = |change: &dyn Fn(&mut Import)| {
        let mut import = Import { hook: Some(Hook::Input), limit: Some(RateLimit::Beyond), ..Import::default() };
        change(&mut import);
        parse(&text, &Options { import, ..Options::default() })
    };
    let numbers = |file: &RuleFile| native(file).join("; ").replace("permit proto ", "");
    let eth0 = read(&|import| import.input = Some("eth0".into())).expect("a view");
    assert_eq!(numbers(&eth0), "7; egp".replace("egp", "8"));
    assert_eq!(eth0.notes, ["of 7 rules for the hook input, 2 for other interfaces, 1 for packets of other states"]);
    let eth1 = read(&|import| import.input = Some("eth1".into())).expect("a view");
    assert_eq!(numbers(&eth1), "8; 9");
    let lo = read(&|import| import.input = Some("lo".into())).expect("a view");
    assert_eq!(numbers(&lo), "permit; 9");
    let within = read(&|import| (import.input, import.limit) = (Some("eth0".into()), Some(RateLimit::Within)));
    assert_eq!(numbers(&within.expect("a view")), "7; 8; 11");
    let established = read(&|import| (import.input, import.state) = (Some("eth0".into()), State::Established));
    assert_eq!(numbers(&established.expect("a view")), "7; 8; permit");
    let flags = read(&|import| (import.input, import.state) = (Some("eth0".into()), State::Flags));
    assert_eq!(native(&flags.expect("a view"))[2], "permit tcp tcp_flags not !rst,!ack");
    let open = read(&|_| {}).expect_err("no interface").to_string();
    assert!(open.contains("`--in NAME`; interfaces of the rules: eth+ (1), eth0 (2), lo (1)"), "{open}");
}

/// Without `--in`, a file that knows `lo` alone is one for all other interfaces.
#[test]
fn the_loopback_is_left_out_with_a_warning() {
    let text =
        input("DROP", "", "-A INPUT -i lo -j ACCEPT\n-A INPUT ! -i lo -p 7 -j ACCEPT\n-A INPUT -o eth1 -j ACCEPT\n");
    let file = parse(&text, &Options::default()).expect("a view");
    assert_eq!(native(&file), ["permit proto 7"]);
    assert_eq!(file.warnings.len(), 1);
    assert!(file.warnings[0].message.contains("packets are not of `lo`"), "{:?}", file.warnings);
    assert_eq!(file.notes[0], "this is read for the hook input, the only one with rules");
}

/// A line is warned of only if none of its rules decides.
#[test]
fn dead_lines_are_those_without_a_rule_that_decides() {
    let text = input(
        "DROP",
        ":web - [0:0]\n",
        "-A INPUT -p tcp -j ACCEPT\n-A INPUT -p tcp --dport 80 -j DROP\n-A INPUT -j web\n-A INPUT -p 7 -j web\n\
         -A web -j ACCEPT\n-A web -p 9 -j DROP\n",
    );
    let file = parse(&text, &view(Hook::Input)).expect("a file without faults");
    assert_eq!(file.never, [7, 11]);
    assert_eq!(
        file.warnings[0].message,
        "in this view the rule never decides: the rule on line 6 takes all its packets"
    );
}

/// Removing a line with a verdict removes its rules from the list, and no others.
#[test]
fn removing_a_verdict_removes_its_rules_alone() {
    let lines = [
        "-A INPUT -p tcp -j web\n",
        "-A INPUT -j DROP\n",
        "-A INPUT -p udp -j ACCEPT\n",
        "-A web -s 10.0.0.0/8 -j RETURN\n",
        "-A web -p tcp --dport 80 -j ACCEPT\n",
        "-A web -j DROP\n",
        "-A web -p tcp --dport 81 -j ACCEPT\n",
    ];
    let read =
        |lines: &[&str]| parse(&input("ACCEPT", ":web - [0:0]\n", &lines.concat()), &view(Hook::Input)).expect("rules");
    let whole = read(&lines);
    for at in [1, 2, 4, 5, 6] {
        let kept: Vec<&str> =
            lines.iter().enumerate().filter(|(index, _)| *index != at).map(|(_, line)| *line).collect();
        let of_others = whole.rules.iter().filter(|rule| rule.line.map(u32::from) != Some(6 + at as u32));
        let of_others: Vec<_> = of_others.map(|rule| (rule.action, rule.conditions.clone())).collect();
        let shorter = read(&kept);
        let of_shorter: Vec<_> = shorter.rules.iter().map(|rule| (rule.action, rule.conditions.clone())).collect();
        assert_eq!(of_others, of_shorter, "{}", lines[at]);
    }
}

#[test]
fn scripts_are_read_as_the_output_is() {
    let script =
        "-P INPUT DROP\n-N web\n# a comment\n-A INPUT -p tcp -j web\n[5:60] -A web -p tcp --dport 80 -j ACCEPT\n";
    let file = parse(script, &Options::default()).expect("a script");
    assert_eq!(native(&file), ["permit tcp dport 80"]);
    assert_eq!(file.policy.default.to_string(), "deny");
}

/// A long path of jumps and odd characters in comments still make labels.
#[test]
fn labels_hold_any_comment() {
    let long = "x".repeat(250);
    let rules = format!(
        "-A INPUT -p 7 -m comment --comment \"a \\\"b\\\"\u{200b}\" -j ACCEPT\n-A INPUT -p 8 -m comment --comment {long} -j ACCEPT\n"
    );
    let file = parse(&input("DROP", "", &rules), &view(Hook::Input)).expect("a file without faults");
    let labels: Vec<&str> = file.rules.iter().map(|rule| &*file.labels[&rule.id]).collect();
    assert_eq!(labels[0], "a 'b'\u{fffd}");
    assert_eq!((labels[1].chars().count(), labels[1].starts_with("…xxx")), (200, true));
    assert_eq!(file.warnings.len(), 2);
    let mut text = String::new();
    write(&file, Format::Native, &mut text).expect("labels that can be written");
    assert_eq!(parse(&text, &Options::default()).expect("the same rules").rules.len(), 2);
}
