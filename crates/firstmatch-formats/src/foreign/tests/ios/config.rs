//! Whole configurations, of which one list is read.

use super::super::super::options::Import;
use super::super::native;
use super::read;
use crate::{Format, Options, parse, sniff};

const RUNNING: &str = "Building configuration...

Current configuration : 5123 bytes
!
version 15.2
service timestamps log datetime msec
hostname r1
!
banner motd ^C
Nobody may permit
 permit anybody
^C
aaa new-model
!
crypto pki certificate chain TP-1
 certificate self-signed 01
  30820229 30820192 A0030201 02020101
  \tquit
object-group network SERVERS
 host 192.0.2.7
!
interface GigabitEthernet0/0
 description permit nobody
 ip address 192.0.2.1 255.255.255.0
 ip access-group EDGE in
 ipv6 traffic-filter SIX in
!
router bgp 65000
 neighbor 192.0.2.2 route-map OUT out
!
ip forward-protocol nd
ip prefix-list P seq 5 permit 10.0.0.0/8
ip as-path access-list 1 permit ^$
ip community-list standard C permit 65000:1
ip access-list standard VTY
 permit 10.0.0.0 0.255.255.255
ip access-list extended EDGE
 permit tcp any object-group SERVERS eq www
 deny   ip any any time-range NIGHT
ip access-list log-update threshold 5
mac access-list extended M
 permit any any
route-map OUT permit 10
 match ip address prefix-list P
access-list 150 deny udp any any eq snmp
hardware access-list tcam region racl 512
dialer-list 1 protocol ip permit
access-session mac-move deny
ip dhcp pool PHONE
 host 192.0.2.10 255.255.255.0
secure boot-image
login block-for 60 attempts 3 within 30
access-list 700 permit 0000.0000.0001 ffff.ffff.ffff
snmp-server community x RO 10
ipv6 access-list SIX
 permit tcp any any eq 22
 deny ipv6 any any
control-plane
line vty 0 4
 access-class VTY in
end
";

/// A whole configuration is read for one list, and faults of other lists do not count.
#[test]
fn a_list_is_chosen_by_name() {
    assert_eq!(sniff(RUNNING), Format::Ios);
    let rules = |list: &str| native(&read(RUNNING, Some(list)));
    assert_eq!(rules("VTY"), ["permit src 10.0.0.0/8"]);
    assert_eq!(rules("150"), ["deny udp dport 161"]);
    assert_eq!(rules("SIX").last().map(String::as_str), Some("deny"));
    let fails = |list: Option<&str>| {
        let import = Import { list: list.map(str::to_owned), ..Import::default() };
        parse(RUNNING, &Options { import, ..Options::default() }).expect_err("a fault")
    };
    let error = fails(Some("EDGE"));
    assert_eq!((error.faults().len(), error.line(), error.faults()[0].column), (1, 39, 20), "{error}");
    let error = fails(None).to_string();
    assert!(error.contains("several access lists"), "{error}");
    let names =
        "`--list VTY` (1 entries) or `--list EDGE` (2 entries) or `--list 150` (1 entries) or `--list SIX` (2 entries)";
    assert!(error.contains(names), "{error}");
    let error = fails(Some("edge")).to_string();
    assert!(error.contains("there is no access list `edge`") && error.contains(names), "{error}");
}

/// Lists of one name and both families are told apart by their family.
#[test]
fn names_of_both_families() {
    let text = "ipv4 access-list A\n 10 permit ipv4 any any\n!\nipv6 access-list A\n 10 deny ipv6 any any\n!\n";
    let import = |list: &str| Import { list: Some(list.to_owned()), ..Import::default() };
    let error = parse(text, &Options { import: import("A"), ..Options::default() }).expect_err("two lists").to_string();
    assert!(error.contains("`--list 'ipv4 A'` (1 entries) or `--list 'ipv6 A'` (1 entries)"), "{error}");
    assert_eq!(native(&read(text, Some("ipv6 A"))), ["deny"]);
    assert_eq!(native(&read(text, Some("ipv4 A"))), ["permit"]);
}

/// `no` before a list or a group removes what stands before it.
#[test]
fn lists_and_groups_are_reset() {
    for (reset, list) in [
        ("no ip access-list extended A", "ip access-list extended A\n"),
        ("no ip access-list A", "ip access-list A\n"),
        ("no ipv4 access-list A", "ipv4 access-list A\n"),
        ("no access-list A", "ip access-list extended A\n"),
    ] {
        let text = format!("{list} permit 7 any any\n{reset}\n{list} permit 8 any any\n");
        assert_eq!(native(&read(&text, None)), ["permit proto 8"], "{reset}");
        let other = text.replace(reset, &reset.replace('A', "B"));
        assert_eq!(native(&read(&other, None)).len(), 2, "{reset}");
    }
    let groups =
        "object-group network G\n host 10.0.0.1\nno object-group network G\nobject-group network G\n host 10.0.0.2\n";
    let text = format!("{groups}access-list 101 deny ip object-group G any\n");
    assert_eq!(native(&read(&text, None)), ["deny src 10.0.0.2"]);
    let error =
        parse("access-list 101 permit ip any any\nno access-list 101\n", &Options::default()).expect_err("no list");
    assert!(error.to_string().contains("there is no access list with entries"), "{error}");
}

/// Entries in the first column belong to the list above, up to a word that begins other lines.
#[test]
fn entries_may_stand_in_the_first_column() {
    let text =
        "ip access-list extended A\npermit 7 any any\n!\n20 deny 8 any any\ninterface Gi0\nip access-group A in\n";
    assert_eq!(native(&read(text, None)), ["permit proto 7", "deny proto 8"]);
    let error = parse(&text.replace("20 deny", "dney"), &Options::default()).expect_err("a fault");
    assert!(error.to_string().contains("unexpected `dney`"), "{error}");
}

/// A configuration that is indented as a whole, as documents show it.
#[test]
fn lines_are_deeper_than_their_heading() {
    let text = "    hostname r1\n    ip access-list extended A\n     permit 7 any any\n    permit 8 any any\n    !\n    line vty 0 4\n     login\n";
    let rules = ["permit proto 7", "permit proto 8"];
    assert_eq!(native(&read(text, None)), rules);
    let text = "ipv4 access-list A\n  permit 7 any any\n permit 8 any any\n!\nrouter bgp 1\n";
    assert_eq!(native(&read(text, None)), rules);
}

#[test]
fn lines_of_windows_and_banners_without_an_end() {
    let text = "\u{feff}banner motd #no end\r\nip access-list extended A\r\n permit tcp any any\r\n exit\r\nbanner login % a % b\r\n";
    assert_eq!(native(&read(text, None)), ["permit tcp"]);
}

/// Entries that an earlier one covers never decide; a line is warned of once.
#[test]
fn covered_entries_have_a_warning() {
    let text = "access-list 101 permit tcp any any\naccess-list 101 permit tcp any any eq 80\naccess-list 101 permit tcp any any established\n";
    let file = read(text, None);
    assert_eq!(file.never, [2, 3]);
    assert_eq!(file.warnings[0].message, "the rule never decides: the rule on line 1 takes all its packets");
}
