//! Rule files of other programs, recognised so that each gets one error, not one per line.

use std::net::IpAddr;

use firstmatch_core::Diagnostic;

use crate::error::ParseError;
use crate::hidden::visible;
use crate::{BOM, Format};

/// Kind of file, by the test of its first line that is neither blank nor a comment.
type Known = (&'static str, fn(&str) -> bool);

/// Name of the files of iptables that are read.
const SAVED: &str = "iptables-save output";
/// Name of the configurations of Cisco that are read.
const CISCO: &str = "an access list of Cisco IOS";
/// Beginnings of lines that access lists and groups begin with.
const LISTS: [&str; 5] = ["ip access-list ", "ipv4 access-list ", "ipv6 access-list ", "access-list ", "object-group "];

const KNOWN: [Known; 9] = [
    (SAVED, is_iptables),
    ("commands of iptables", |line| begins_any(line, &["iptables ", "ip6tables "])),
    ("an nftables ruleset", |line| {
        begins_any(line, &["table inet ", "table ip ", "table ip6 ", "table arp ", "table bridge ", "table netdev "])
            || begins_any(line, &["flush ruleset", "add table ", "nft "])
    }),
    (CISCO, is_cisco),
    ("a firewall filter of Junos", |line| {
        begins_any(line, &["firewall {", "set firewall ", "security {", "set security "])
    }),
    ("flows of ovs-ofctl", |line| line.contains("actions=")),
    ("rules of pf", |line| {
        let mut words = line.split_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let is_rule = ["in", "out", "all", "quick", "drop", "return", "log", "on", "inet", "inet6"].contains(&second);
        ["pass", "block", "match"].contains(&first) && is_rule
            || begins_any(line, &["set skip on", "table <", "scrub "])
    }),
    ("a plain list of addresses", is_address),
    ("a ClassBench filter set without the `@` that begins each line", is_classbench),
];

fn begins_any(line: &str, starts: &[&str]) -> bool {
    starts.iter().any(|start| line.starts_with(start))
}

fn is_iptables(line: &str) -> bool {
    const TABLES: [&str; 5] = ["*filter", "*nat", "*mangle", "*raw", "*security"];
    TABLES.contains(&line.trim_end()) || begins_any(line, &["-A ", "-P ", "-N "])
}

/// Whether a line begins an access list of Cisco, or removes one.
fn is_cisco(line: &str) -> bool {
    begins_any(line.strip_prefix("no ").unwrap_or(line), &LISTS)
}

/// Whether a text is a configuration of Cisco with an access list, by its first line and by lines that begin lists.
fn is_configuration(first: &str, text: &str) -> bool {
    const STARTS: [&str; 17] = [
        "!",
        ": Saved",
        ":",
        "Building configuration",
        "Current configuration",
        "ASA Version ",
        "version ",
        "hostname ",
        "service ",
        "no service ",
        "feature ",
        "vdc ",
        "interface ",
        "ip ",
        "ipv6 ",
        "object network ",
        "object service ",
    ];
    is_cisco(first) || begins_any(first, &STARTS) && text.lines().any(is_cisco)
}

/// Returns the format of a configuration of Cisco.
fn cisco(text: &str) -> Format {
    let is_nxos = |line: &str| begins_any(line, &["feature ", "vdc ", "!Command: ", "object-group ip address "]);
    if text.lines().any(is_nxos) { Format::Nxos } else { Format::Ios }
}

/// Returns the format of another firewall's file that is read, by its first line and by words that show the family.
pub(crate) fn sniff(first: &str, text: &str) -> Option<Format> {
    if is_configuration(first, text) {
        return Some(cisco(text));
    }
    if !is_iptables(first) {
        return None;
    }
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        let next = words.peek().copied().unwrap_or_default();
        match word {
            "ip6tables-save" => return Some(Format::Ip6tables),
            "iptables-save" => return Some(Format::Iptables),
            "-s" | "-d" | "--source" | "--destination" | "--src-range" | "--dst-range" => {
                let is_v6 = next.contains(':');
                return Some(if is_v6 { Format::Ip6tables } else { Format::Iptables });
            }
            "--icmpv6-type" | "icmp6" | "hl" => return Some(Format::Ip6tables),
            "--icmp-type" => return Some(Format::Iptables),
            _ => {}
        }
    }
    Some(Format::Iptables)
}

/// Whether a line is an address or a prefix, and no more.
fn is_address(line: &str) -> bool {
    let (address, len) = line.trim().split_once('/').unwrap_or((line.trim(), "0"));
    address.parse::<IpAddr>().is_ok() && len.parse::<u8>().is_ok_and(|len| len <= 128)
}

/// Whether a line begins with two prefixes and two ranges of ports.
fn is_classbench(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().take(8).collect();
    let [src, dst, _, colon, _, _, colon_again, _] = words[..] else { return false };
    is_address(src) && is_address(dst) && [colon, colon_again] == [":", ":"]
}

/// Whether a text is JSON with security groups or network ACLs of AWS.
pub(crate) fn is_aws(text: &str) -> bool {
    const MEMBERS: [&str; 3] = ["\"SecurityGroups\"", "\"SecurityGroupRules\"", "\"NetworkAcls\""];
    let start = text.strip_prefix(BOM).unwrap_or(text).trim_start();
    let begins = |member: &&str| start[1..].trim_start().starts_with(member);
    start.starts_with('{') && MEMBERS.iter().any(begins)
}

/// Returns the name of a JSON file of another program, if it is one.
///
/// The text has the member that such files have, and lacks the format's name that our files have.
fn json(text: &str) -> Option<&'static str> {
    let start = text.strip_prefix(BOM).unwrap_or(text).trim_start();
    let is_groups = ["\"IpPermissions\"", "\"SecurityGroups\""].iter().any(|member| text.contains(member));
    let is_json = start.starts_with(['{', '[']) && !text.contains("\"firstmatch-rules\"");
    (is_json && is_groups).then_some("an AWS security group")
}

/// Returns the one error of a file of another program; `error` if it is none.
///
/// Comments of other formats may begin with `!` or `//`.
pub(crate) fn instead(text: &str, error: ParseError) -> ParseError {
    let mut lines = (1..).zip(text.strip_prefix(BOM).unwrap_or(text).lines());
    let is_said = |line: &str| !line.is_empty() && !begins_any(line, &["#", "!", "//"]);
    let Some((number, line)) = lines.find(|(_, line)| is_said(line.trim())) else { return error };
    let start = line.trim_start();
    let known = KNOWN.iter().find(|(_, is_it)| is_it(start)).map(|(name, _)| *name);
    let known = known.or_else(|| is_configuration(start, text).then_some(CISCO));
    let Some(name) = known.or_else(|| json(text)) else { return error };
    ParseError::new(vec![fault(name, number, line)], 0)
}

/// Returns the fault of a file of another program, which its line `number` shows.
fn fault(name: &str, number: u32, line: &str) -> Diagnostic {
    let start = line.trim_start();
    let expected = if [SAVED, CISCO].contains(&name) {
        "rules of this project, which `firstmatch convert` makes of it"
    } else {
        "rules of this project, such as `deny tcp src 192.0.2.0/24`, iptables-save output or a ClassBench filter set"
    };
    Diagnostic {
        line: number,
        column: 1 + (line.chars().count() - start.chars().count()) as u32,
        width: start.trim_end().chars().count() as u32,
        message: format!("this looks like {name}"),
        expected: Some(expected.into()),
        text: visible(line).into_owned(),
    }
}

/// Returns the fault of a JSON file of another program, at its first line; `None` if it is none.
#[cfg(feature = "json")]
pub(crate) fn in_json(text: &str) -> Option<Diagnostic> {
    let name = json(text)?;
    let (number, line) = (1..).zip(text.lines()).find(|(_, line)| !line.trim().is_empty())?;
    Some(fault(name, number, line.strip_prefix(BOM).unwrap_or(line)))
}

#[cfg(test)]
mod tests {
    use crate::{Format, Options, parse};

    #[test]
    fn files_of_other_programs_have_one_error() {
        for (name, line, text) in [
            ("commands of iptables", 2, "#!/bin/sh\niptables -A INPUT -p tcp --dport 22 -j ACCEPT\n"),
            (
                "an nftables ruleset",
                2,
                "#!/usr/sbin/nft -f\ntable inet filter {\n chain input { tcp dport 22 accept\n } }\n",
            ),
            ("a firewall filter of Junos", 1, "firewall {\n family inet {\n } }\n"),
            ("flows of ovs-ofctl", 1, " cookie=0x0, table=0, priority=5,tcp,tp_dst=80 actions=drop\n"),
            ("rules of pf", 2, "\nblock in all\npass out quick on em0\n"),
            ("a plain list of addresses", 1, "192.0.2.0/24\n198.51.100.7\n"),
            ("a plain list of addresses", 1, "2001:db8::/32\n"),
            ("an AWS security group", 2, "\n[\n  { \"IpPermissions\": [ { \"FromPort\": 22 } ] }\n]\n"),
            ("a ClassBench filter set without", 1, "10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0/0x0\n"),
        ] {
            let error = parse(text, &Options::default()).expect_err("another program's");
            assert_eq!((error.faults().len(), error.more(), error.line()), (1, 0, line), "{text}: {error}");
            assert!(error.to_string().contains(&format!("this looks like {name}")), "{text}: {error}");
        }
    }

    #[test]
    fn files_that_are_read_are_recognised() {
        for (text, format) in [
            (
                "# Generated by iptables-save v1.8.9\n*nat\nCOMMIT\n*filter\n-A INPUT -j DROP\nCOMMIT\n",
                Format::Iptables,
            ),
            ("# Generated by ip6tables-save v1.8.9\n*filter\nCOMMIT\n", Format::Ip6tables),
            ("-A INPUT -p tcp --dport 22 -j ACCEPT\n", Format::Iptables),
            ("*filter\n-A INPUT ! -s 2001:db8::/32 -j DROP\nCOMMIT\n", Format::Ip6tables),
            ("*filter\n-A INPUT -s 192.0.2.1 -m comment --comment a::b -j DROP\nCOMMIT\n", Format::Iptables),
            ("!\nip access-list extended IN\n permit tcp any any eq 22\n", Format::Ios),
            ("access-list 101 permit ip any any\n", Format::Ios),
            ("no ip access-list extended IN\nip access-list extended IN\n permit ip any any\n", Format::Ios),
            ("hostname r1\n!\ninterface Gi0\n!\nipv6 access-list IN\n permit ipv6 any any\n", Format::Ios),
            (": Saved\n:\nASA Version 9.1\naccess-list a extended permit ip any any\n", Format::Ios),
            ("!Command: show running-config\nip access-list IN\n 10 permit ip any any\n", Format::Nxos),
            ("feature lacp\nip access-list IN\n 10 permit ip any any\n", Format::Nxos),
            ("permit tcp\nip access-list extended IN\n", Format::Native),
            ("! no rules\n", Format::Native),
            ("@10.0.0.0/8\n-A INPUT -j DROP\n", Format::ClassBench),
            ("permit tcp\n-A INPUT -j DROP\n", Format::Native),
        ] {
            assert_eq!(crate::sniff(text), format, "{text}");
        }
        // A file that is to be native has one fault.
        let options = Options { format: Some(Format::Native), ..Options::default() };
        let error = parse("*filter\n-A INPUT -j DROP\nCOMMIT\n", &options).expect_err("iptables");
        assert!(error.to_string().contains("this looks like iptables-save output"), "{error}");
        for text in
            ["ip access-list extended IN\n permit ip any any\n", "hostname r1\n!\naccess-list 101 permit ip any any\n"]
        {
            let error = parse(text, &options).expect_err("a configuration");
            assert_eq!(error.faults().len(), 1);
            assert!(error.to_string().contains("an access list of Cisco IOS"), "{error}");
        }
    }

    #[test]
    #[cfg(feature = "json")]
    fn security_groups_have_one_error_as_json_too() {
        let read = |text: &str| crate::json::read(text, &Options::default()).expect_err("another program's").faults;
        for (line, text) in [
            (1, "{ \"SecurityGroups\": [ { \"IpPermissions\": [], \"GroupName\": \"web\" } ] }\n"),
            (2, "\n{\n \"IpPermissions\": [\n { \"FromPort\": 22 } ]\n}\n"),
        ] {
            let faults = read(text);
            assert_eq!((faults.len(), faults[0].line), (1, line), "{text}: {faults:?}");
            assert_eq!(faults[0].message, "this looks like an AWS security group");
        }
        let ours = r#"{ "format": "firstmatch-rules", "IpPermissions": 1, "version": 2 }"#;
        assert!(read(ours).iter().all(|fault| !fault.message.contains("looks like")));
    }

    /// Faults in our own rules stay, even if later lines are another program's.
    #[test]
    fn other_faults_stay() {
        for (text, faults) in [
            ("permit tcp\n-A INPUT -j DROP\n*filter\n", 2),
            ("pass tcp\nblock tcp\n", 2),
            ("permit src 10.0.0.1/8\npermit dport 65536\n", 2),
            ("permit src nowhere\n", 1),
        ] {
            let error = parse(text, &Options::default()).expect_err("faults");
            assert_eq!(error.faults().len(), faults, "{text}: {error}");
            assert!(!error.to_string().contains("looks like"), "{error}");
        }
    }
}
