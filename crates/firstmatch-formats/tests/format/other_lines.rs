//! Lines and words of other rule languages: what their errors expect is accepted, and never permits more.

use firstmatch_core::analyze::{Config, diff};
use firstmatch_core::policy::Verdict;
use firstmatch_core::{Diagnostic, Policy};
use firstmatch_formats::{Fields, Options, RuleFile};

use crate::faults::diagnose;

fn parse(text: &str) -> Result<RuleFile, Vec<Diagnostic>> {
    let options = Options { fields: Fields::All, ..Options::default() };
    firstmatch_formats::parse(text, &options).map_err(|error| error.faults().to_vec())
}

/// Lines as people write them; each is corrected to the second, and says in our words what the third says.
///
/// The third is omitted where it is the second.
#[rustfmt::skip]
const CORRECTED: &[(&str, &str, &str)] = &[
    // Words in the place of a condition.
    ("permit any", "permit", ""),
    ("permit all", "permit", ""),
    ("deny any", "deny", ""),
    ("permit tcp any", "permit tcp", ""),
    ("permit ip", "permit family ipv4", ""),
    ("deny ip", "deny", ""),
    ("deny ip src 10.0.0.0/8", "deny src 10.0.0.0/8", ""),
    ("permit inet6 tcp dport 22", "permit family ipv6 tcp dport 22", ""),
    ("deny inet6 tcp", "deny family ipv6 tcp", ""),
    ("deny inet tcp", "deny tcp", ""),
    ("permit inet tcp", "permit family ipv4 tcp", ""),
    ("permit icmp type 8", "permit icmp icmp_type 8", ""),
    ("permit icmp type 3 code 4", "permit icmp icmp_type 3 icmp_code 4", ""),
    ("permit icmp echo-request", "permit icmp icmp_type echo-request", ""),
    ("permit icmp port-unreachable", "permit icmp icmp_code port-unreachable", ""),
    // Several values.
    ("permit tcp or udp dport 53", "permit proto { tcp, udp } dport 53", ""),
    ("deny tcp, udp, sctp dport 53", "deny proto { tcp, udp, sctp } dport 53", ""),
    ("permit tcp/udp dport domain", "permit proto { tcp, udp } dport domain", ""),
    ("permit tcp | udp", "permit proto { tcp, udp }", ""),
    ("permit tcp dport 80 or 443", "permit tcp dport { 80, 443 }", ""),
    ("permit tcp dport 80, 443, 8000-8099 src 10.0.0.0/8", "permit tcp dport { 80, 443, 8000-8099 } src 10.0.0.0/8", ""),
    ("deny src 10.0.0.0/8, 2001:db8::/32", "deny src { 10.0.0.0/8, 2001:db8::/32 }", ""),
    ("permit tcp dport [80, 443]", "permit tcp dport { 80, 443 }", ""),
    ("permit dport not [ 22 ] tcp", "permit dport not { 22 } tcp", ""),
    ("permit src (10.0.0.0/8, 192.0.2.1)", "permit src { 10.0.0.0/8, 192.0.2.1 }", ""),
    // Excluded values.
    ("permit src { 192.168.0.0/16, !192.168.10.0 }", "permit src { 192.168.0.0/16 except 192.168.10.0 }", ""),
    ("permit dport { 1-99, !22, !80-81 }", "permit dport { 1-99 except { 22, 80-81 } }", "permit dport { 1-21, 23-79, 82-99 }"),
    // Operators.
    ("permit tcp dport eq 80", "permit tcp dport 80", ""),
    ("permit tcp dport = 80", "permit tcp dport 80", ""),
    ("permit tcp dport neq 80", "permit tcp dport not 80", ""),
    ("permit tcp dport gt 1023", "permit tcp dport > 1023", ""),
    ("deny tcp dport le 1023", "deny tcp dport <= 1023", ""),
    ("permit src host 192.0.2.1", "permit src 192.0.2.1", ""),
    // Packets that lack a field.
    ("permit vlan_vid none", "permit vlan_vid absent", ""),
    ("permit vlan_vid untagged", "permit vlan_vid absent", ""),
    ("deny vlan_vid { none, 1 }", "deny vlan_vid { absent, 1 }", ""),
    // Access lists of IOS.
    ("permit ip any any", "permit family ipv4", ""),
    ("deny ip any any log", "deny", "deny family ipv4"),
    ("permit tcp any any eq 22", "permit family ipv4 tcp dport 22", ""),
    ("deny tcp any any eq 22", "deny tcp dport 22", ""),
    ("permit tcp any any established", "permit family ipv4 tcp tcp_flags established", ""),
    ("10 permit tcp 10.1.0.0 0.0.255.255 gt 1023 any eq www 8080", "permit tcp src 10.1.0.0/16 sport > 1023 dport { 80, 8080 }", ""),
    ("permit tcp any host 192.0.2.10 range 8000 8099", "permit tcp dst 192.0.2.10 dport 8000-8099", ""),
    ("deny udp 10.1.2.3 0.0.0.255 any neq domain", "deny udp src 10.1.2.0/24 dport not 53", ""),
    ("permit ip 10.0.0.1 0.255.0.255 any", "permit src 10.0.0.0/255.0.255.0", ""),
    ("permit host 192.0.2.1", "permit src 192.0.2.1", ""),
    ("permit 10.0.0.0 0.255.255.255", "permit src 10.0.0.0/8", ""),
    ("permit icmp any any echo", "permit family ipv4 icmp icmp_type echo-request", ""),
    ("permit icmp any any 3 4", "permit family ipv4 icmp icmp_type 3 icmp_code 4", ""),
    ("permit icmp any host 192.0.2.1 ttl-exceeded", "permit icmp dst 192.0.2.1 icmp_code ttl-exceeded", ""),
    ("permit esp any any", "permit family ipv4 esp", ""),
    ("deny 88 any any", "deny proto 88", ""),
    ("permit tcp any 2001:db8::/32 eq 443", "permit tcp dst 2001:db8::/32 dport 443", ""),
    // Rules of nftables.
    ("tcp dport 22 accept", "permit tcp dport 22", ""),
    ("ip saddr 10.0.0.0/8 drop", "deny src 10.0.0.0/8", ""),
    ("ip saddr != 10.0.0.0/8 tcp dport { 80, 443 } counter packets 0 bytes 0 accept", "permit tcp src not 10.0.0.0/8 dport { 80, 443 }", ""),
    ("ip6 daddr 2001:db8::1 udp dport 53 log accept", "permit udp dst 2001:db8::1 dport 53", ""),
    ("meta l4proto { tcp, udp } th dport 53 accept", "permit proto { tcp, udp } dport 53", ""),
    ("meta nfproto ipv6 drop", "deny family ipv6", ""),
    ("ip protocol icmp accept", "permit family ipv4 icmp", ""),
    ("icmp type echo-request accept", "permit icmp icmp_type echo-request", ""),
    ("add rule inet filter input tcp dport != 22 reject with tcp reset", "deny tcp dport not 22", ""),
    // Lines that are no rules.
    ("remark web servers", "# web servers", "deny"),
    ("! web servers", "# web servers", "deny"),
    ("$web = { 80, 443 }", "set web = { 80, 443 }", "deny"),
    ("web = { 80, 443 }", "set web = { 80, 443 }", "deny"),
];

/// Lines with words that are not known have other errors, and are not translated.
const LEFT: &[&str] = &[
    "permit tcp any any eq 22 time-range work",
    "permit ip 10.0.0.0 255.255.255.0 any",
    "permit ip 0.0.0.0 255.255.255.255 any",
    "permit tcp any host 192.0.2.1 0.0.0.0",
    "permit tcp any any syn",
    "permit icmp any any packet-too-big",
    "permit esp any any eq 5",
    "permit ip any",
    "ct state established,related accept",
    "iifname eth0 tcp dport 22 accept",
    "ip saddr @bad drop",
    "ip saddr $bad drop",
    "tcp dport 22 tcp dport 23 accept",
    "tcp dport 22 udp dport 22 accept",
    "tcp dport 22 accept tcp",
    "tcp flags syn accept",
    "tcp dport 22",
    "counter accept",
    "permit tcp dport not 80 or 443",
];

/// Returns the line with the expected text in the place of its first fault.
fn corrected(text: &str, fault: &Diagnostic) -> Option<String> {
    let suggested = fault.message.split_once("did you mean `").map(|(_, meant)| meant);
    let expected = fault.expected.as_deref().unwrap_or("");
    let text: Vec<char> = text.lines().nth(fault.line as usize - 1)?.chars().collect();
    let (first, end) = (fault.column as usize - 1, (fault.column + fault.width) as usize - 1);
    let quoted = suggested.or(expected.strip_prefix('`')).and_then(|text| Some(text.split_once('`')?.0));
    let between = match quoted {
        Some(quoted) => quoted,
        None if expected.starts_with("nothing in its place") => "",
        None => return None,
    };
    let line = [text[..first].iter().collect(), between.to_owned(), text[end..].iter().collect::<String>()].concat();
    Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn what_is_expected_is_accepted_and_permits_no_more() {
    for &(written, expected, says) in CORRECTED {
        let mut line = written.to_owned();
        for _ in 0..4 {
            let Err(faults) = parse(&line) else { break };
            assert!(!faults[0].message.is_empty() && faults[0].line == 1, "{faults:?}");
            line = corrected(&line, &faults[0]).unwrap_or_else(|| panic!("no correction of `{line}`: {faults:?}"));
        }
        assert_eq!(line, expected, "{written}");
        let denies = expected.starts_with("deny");
        let policy = Policy { default: if denies { Verdict::Permit } else { Verdict::Deny }, ..Policy::default() };
        let read = |line: &str| parse(line).unwrap_or_else(|faults| panic!("{line}: {faults:?}")).rules;
        let (meant, corrected) = (read(if says.is_empty() { expected } else { says }), read(&line));
        let found = diff((&meant, &policy), (&corrected, &policy), &Config::default()).expect("few regions");
        assert_eq!(found.undecided, 0);
        for pair in found.pairs {
            let [of_text, of_correction] = pair.verdicts;
            assert!(of_text == Verdict::Permit && of_correction == Verdict::Deny, "{written}: {:?}", pair.packet);
        }
    }
}

#[test]
fn lines_with_unknown_words_are_not_translated() {
    for line in LEFT {
        let faults = parse(line).expect_err(line);
        assert!(faults.iter().all(|fault| !fault.message.contains("this line is a rule of")), "{line}: {faults:?}");
    }
    // A file of one family takes no translation of the other, and one of its own schema none at all.
    for head in ["family ipv6\n", "schema openflow\n"] {
        let faults = parse(&format!("{head}permit ip any host 192.0.2.1\n")).expect_err("faults");
        assert!(faults.iter().all(|fault| !fault.message.contains("this line is")), "{head}: {faults:?}");
    }
    assert_eq!(
        diagnose("family ipv6\ntcp dport 22 accept\n"),
        ["2:1+19 this line is a rule of nftables; expected `permit tcp dport 22`"]
    );
}

#[test]
fn a_line_of_another_language_has_one_error() {
    #[rustfmt::skip]
    let expected: &[(&str, &[&str])] = &[
        ("permit tcp dport 443\n  deny ip any any log  # the rest\n",
         &["2:3+19 this line is a rule of Cisco IOS; expected `deny`"]),
        ("permit any dport 22\npermit tcp or udp src 10.0.0.1/8\n",
         &["1:8+3 `any` follows no field; expected nothing in its place: a rule without conditions is for every packet",
           "2:8+10 several protocols; expected `proto { tcp, udp }`",
           "2:23+10 `10.0.0.1` has bits outside its prefix; expected `10.0.0.0/8`"]),
        ("permit ip\ndeny ip\npermit inet6\n",
         &["1:8+2 `ip` is IPv4 in other rule languages; expected `family ipv4`",
           "2:6+2 `ip` is IPv4 in other rule languages; expected nothing in its place: a rule without addresses is for both families",
           "3:8+5 `inet6` is IPv6 in other rule languages; expected `family ipv6`"]),
        ("remark the web = { 1\n! old\n$x = { 80, 443 }\ny = { 1 }\npermit dport $x sport $y\n",
         &["1:1+6 `remark` is a comment of Cisco IOS; expected `#` before a comment",
           "2:1+1 a line cannot start with `!`; expected `#` before a comment",
           "3:1+2 a line cannot start with `$x`; expected `set x`",
           "4:1+1 a line cannot start with `y`; expected `set y`"]),
        ("permit icmp type 8\npermit tcp ssh\npermit dport [80, {\n",
         &["1:13+4 unknown field or protocol `type`; did you mean `icmp_type`?",
           "2:12+3 the value `ssh` follows no field; expected a field before it",
           "3:14+1 the character `[` has no place here",
           "3:17+1 `,` has no place here; expected `{` before the first of several values and `}` behind the last"]),
        ("schema openflow\npermit ip\ndeny all\npermit vlan_vid none\n",
         &["2:8+2 `ip` is IPv4 in other rule languages; expected `eth_type ipv4`",
           "3:6+3 `all` follows no field; expected nothing in its place: a rule without conditions is for every packet",
           "4:17+4 vlan_vid takes no state of fragments; expected `absent` for packets without it, or a number up to 4095"]),
    ];
    for (text, expected) in expected {
        assert_eq!(diagnose(text), *expected, "{text}");
    }
}
