//! Faults: each with its line, column and way out.

use crate::{Format, Options, ParseError, parse};

fn fails(text: &str) -> ParseError {
    let options = Options { format: Some(Format::Ios), ..Options::default() };
    parse(text, &options).expect_err(text)
}

/// Returns the one fault of an entry of a list, which stands on line 2.
#[track_caller]
fn fault_of(heading: &str, entry: &str, behind: &str) -> String {
    let error = fails(&format!("{heading}\n {entry}\n!\n{behind}"));
    assert_eq!((error.faults().len(), error.more()), (1, 0), "{entry}: {error}");
    error.to_string()
}

#[test]
fn what_cannot_be_held_is_a_fault() {
    for (entry, column, expected) in [
        (
            "permit tcp any any eq 80 time-range day",
            27,
            "`time-range` depends on the clock; expected an entry without it",
        ),
        ("permit tcp any any reflect back", 21, "`reflect` depends on other packets"),
        ("evaluate back", 2, "`evaluate` depends on other packets"),
        ("dynamic door permit tcp any any", 2, "`dynamic` depends on users"),
        ("permit ip any any option lsr", 20, "`option` tests options of IP"),
        (
            "permit ip any any tos min-delay",
            20,
            "`tos` tests bits of ECN, which are no field here; expected `dscp` or `precedence`",
        ),
        ("permit igmp any any host-report", 22, "`host-report` is a type of IGMP"),
        ("fragments permit-all", 2, "`fragments` for the whole list cannot be held"),
        ("no permit tcp any any", 2, "a line that removes an entry"),
        ("no 10", 2, "a line that removes an entry"),
        ("10 no permit tcp any any", 5, "a line that removes an entry"),
        ("permit ipv4 any any nexthop1 ipv4 10.0.0.1", 22, "`nexthop1` is more than a verdict"),
        ("permit ip 10.0.0.0 255.255.255.0 any", 21, "`0.0.0.255`, if a prefix is meant"),
        ("permit ip 10.0.0.0 127.255.255.0 any", 12, "more than 65536 ranges"),
    ] {
        let shown = fault_of("ip access-list extended A", entry, "");
        assert!(shown.contains(expected) && shown.starts_with(&format!("2:{column}: ")), "{entry}: {shown}");
    }
    let shown = fault_of("ipv6 access-list A", "permit ipv6 any any flow-label 5", "");
    assert!(shown.contains("`flow-label` tests what is no field here"), "{shown}");
}

#[test]
fn text_that_routers_would_not_take_is_a_fault() {
    for (entry, expected) in [
        ("permit", "the line ends before a protocol"),
        ("permit tcp", "the line ends before an address"),
        ("permit tcp any", "the line ends before an address"),
        ("permit tpc any any", "unknown protocol `tpc`; expected `ip` for all protocols"),
        ("permit ipv6 any any", "unknown protocol `ipv6`"),
        ("permit 0 any any", "unknown protocol `0`"),
        ("permit 256 any any", "unknown protocol `256`"),
        ("allow tcp any any", "unexpected `allow`; expected `permit`, `deny` or `remark`"),
        ("permit tcp 10.0.0.1 any", "`any` is no mask; expected a wildcard mask, or `host` before the address"),
        ("permit tcp any 10.0.0.1", "`10.0.0.1` without its mask"),
        ("permit tcp host web.example any", "`web.example` is no address"),
        ("permit tcp any host", "the line ends before an address"),
        ("permit tcp 10.0.0.0/33 any", "`33` is no length of a prefix; expected 0 to 32"),
        ("permit tcp 2001:db8::/32 any", "`2001:db8::` is no address of IPv4"),
        ("permit tcp any any eq", "the line ends before a port"),
        ("permit tcp any any eq htp", "`htp` is no port"),
        ("permit tcp any any eq 65536", "`65536` is no port"),
        ("permit tcp any any range 9 5", "no value meets this comparison"),
        ("permit tcp any any gt 65535", "no value meets this comparison"),
        ("permit tcp any any lt 0", "no value meets this comparison"),
        ("permit ip any any eq 80", "ports of an entry whose protocol has none"),
        ("permit tcp any any 80", "unexpected `80`"),
        ("permit icmp any any eq 8", "ports of an entry whose protocol has none"),
        ("permit icmp any any 256", "unexpected `256`"),
        ("permit icmp any any nothing", "unexpected `nothing`"),
        ("permit udp any any established", "TCP flags of an entry that is not for TCP"),
        ("permit tcp any any syn ack", "a second condition on TCP flags"),
        ("permit tcp any any match-all", "no flag behind it"),
        ("permit tcp any any match-all +syn +syn", "unknown or repeated flag `+syn`"),
        ("permit tcp any any match-all +sny", "unknown or repeated flag `+sny`"),
        ("permit tcp any any eq 80 fragments", "`fragments` beside ports"),
        ("permit ip any any fragments fragments", "`fragments` stands twice"),
        ("permit ip any any dscp af44", "unknown DSCP `af44`"),
        ("permit ip any any dscp 64", "unknown DSCP `64`"),
        ("permit ip any any precedence 8", "unknown precedence `8`"),
        ("permit ip any any dscp 8 precedence 1", "`dscp` beside `precedence`"),
        ("permit ip any any ttl 5", "`ttl` without a comparison"),
        ("permit ip any any ttl eq 256", "`256` is no number"),
        ("permit ip any any log tag", "unexpected `tag`"),
        ("permit ip any any any", "unexpected `any`"),
        ("permit ip any any inactive", "unexpected `inactive`"),
        ("0 permit ip any any", "`0` is no number of an entry"),
        ("sequence permit ip any any", "`sequence` without its number"),
        ("statistics", "unexpected `statistics`"),
    ] {
        let shown = fault_of("ip access-list extended A", entry, "");
        assert!(shown.contains(expected) && shown.starts_with("2:"), "{entry}: {shown}");
    }
    for (entry, expected) in [
        ("permit ip any any", "`ip` is no address"),
        ("permit 10.0.0.1 eq 80", "unexpected `eq`"),
        ("permit 10.0.0.0 0.0.0.255 any", "unexpected `any`"),
    ] {
        let shown = fault_of("ip access-list standard A", entry, "");
        assert!(shown.contains(expected), "{entry}: {shown}");
    }
    for (entry, expected) in [
        ("permit ip any any", "unknown protocol `ip`; expected `ipv6`"),
        ("permit tcp 2001:db8:: any", "without the length of its prefix"),
        ("permit tcp 10.0.0.0/8 any", "is no address of IPv6"),
        ("permit 44 any any", "protocol 44 is an extension header in IPv6"),
        ("permit icmp any any host-unknown", "unexpected `host-unknown`"),
    ] {
        let shown = fault_of("ipv6 access-list A", entry, "");
        assert!(shown.contains(expected), "{entry}: {shown}");
    }
    for (entry, expected) in [
        ("permit ip 10.0.0.0 0.255.255.255 any", "0.255.255.255 is no mask of a network; expected `255.0.0.0`"),
        ("permit ip interface outside any", "`interface` stands for an address"),
        ("permit tcp any any eq 80 established", "unexpected `established`"),
        ("permit tcp any any time-range day", "`time-range` depends on the clock"),
        ("permit tcp any any log 8", "unexpected `8`"),
    ] {
        let error = fails(&format!("access-list a extended {entry}\n"));
        assert!(error.to_string().contains(expected), "{entry}: {error}");
    }
}

#[test]
fn faults_of_groups_are_those_of_their_use() {
    for (entry, groups, expected) in [
        ("permit ip object-group G any", "", "there is no group of addresses `G`"),
        ("permit object-group G any any", "", "there is no group of services `G`"),
        ("permit tcp any portgroup G any", "", "there is no group of ports `G`"),
        ("permit ip addrgroup G any", "object-group network G\n", "the group of addresses `G` has no members"),
        ("permit ip addrgroup G any", "object-group network G\n description x\n", "`G` has no members"),
        ("permit ip addrgroup G any", "object-group network G\n group-object G\n", "hold each other: `G` leads back"),
        (
            "permit ip addrgroup G any",
            "object-group network G\n group-object H\nobject-group network H\n group-object G\n",
            "hold each other: `G` leads back",
        ),
        ("permit ip addrgroup G any", "object-group network G\n hots 10.0.0.1\n", "`hots` is no member"),
        ("permit ip addrgroup G any", "object-group network G\n no host 10.0.0.1\n", "`no` is no member"),
        ("permit ip addrgroup G any", "object-group network G\n 10.0.0.0 0.255.255.255\n", "expected `255.0.0.0`"),
        ("permit ip addrgroup G any", "object-group network G\n range 10.0.0.2 10.0.0.1\n", "end is before its start"),
        ("permit ip addrgroup G any", "object-group network G\n host 10.0.0.1 more\n", "unexpected `more`"),
        ("permit ip addrgroup G any", "object-group network G\n host 2001:db8::1\n", "is no address of IPv4"),
        (
            "permit object-group G any any eq 80",
            "object-group service G\n tcp eq 5\n",
            "ports of an entry whose protocol",
        ),
        ("permit object-group G any any", "object-group service G\n tpc eq 5\n", "`tpc` is no member"),
        ("permit tcp any port-group G any", "object-group port G\n 80\n", "`80` is no member"),
    ] {
        let shown = fault_of("ip access-list extended A", entry, groups);
        assert!(shown.contains(expected), "{entry}: {shown}");
    }
    // A group with a fault has it once, and one that nothing uses has none.
    let bad = "object-group network G\n hots 10.0.0.1\n";
    let error = fails(&format!(
        "{bad}access-list 101 permit ip object-group G any\naccess-list 101 deny ip object-group G any\n"
    ));
    assert_eq!(error.faults().len(), 1, "{error}");
    assert!(parse(&format!("{bad}access-list 101 permit ip any any\n"), &Options::default()).is_ok());
}

#[test]
fn lists_that_are_not_clear_have_faults() {
    for (text, expected) in [
        ("hostname r1\n", "there is no access list with entries"),
        ("ip access-list extended A\n!\n", "there is no access list with entries"),
        ("ip access-list extended A\n remark none\n", "there is no access list with entries"),
        ("access-list a standard permit 10.0.0.0 255.0.0.0\n", "a standard list of ASA"),
        ("access-list a extended permit ip any any inactive\n", "has no entries in force"),
        (
            "ip access-list extended A\n 10 permit ip any any\n 10 deny ip any any\n",
            "a second entry with the number 10, as that on line 2",
        ),
        (
            "ip access-list standard A\n permit any\nip access-list extended A\n permit ip any any\n",
            "`A` is of another kind on line 1",
        ),
        ("ip access-list extended\n permit ip any any\n", "the heading of an access list"),
        ("ip access-list extended A B\n permit ip any any\n", "the heading of an access list"),
        ("ip access-list resequence A 10 10\n", "the heading of an access list"),
        ("ip acces-list extended A\n permit ip any any\n", "unknown word `acces-list`; did you mean `access-list`?"),
        ("acces-list 101 permit ip any any\n", "belongs to none"),
        ("access-list permit ip any any\n", "unexpected `ip`"),
        ("access-list 101 allow ip any any\n", "unexpected `allow`"),
        ("access-list 2700 permit ip any any\n", "unexpected `permit`"),
        ("access-list a line 3 extended permit ip any any\n", "unexpected `line`"),
        ("iq access-list extended A\n", "unknown kind of access list `iq`"),
        ("x A\n permit ip any any\n", "belongs to none"),
        ("permit ip any any\n", "belongs to none"),
        ("object-group netwrk A\n host 10.0.0.1\n", "the heading of a group"),
        ("object-grop network A\n host 10.0.0.1\n", "did you mean `object-group`?"),
        ("x A\n group-object B\n", "belongs to none"),
        (
            "banner motd ^C\nip access-list extended A\n permit ip any any\n^C\n",
            "the text of this banner, up to `^C`, has an access list",
        ),
    ] {
        let error = fails(text);
        assert!(error.to_string().contains(expected), "{text}: {error}");
    }
    let error =
        fails("access-list 101 no permit\naccess-list 101 permit ip any any\nno access-list 101 permit ip any any\n");
    assert_eq!(error.faults().iter().map(|fault| fault.line).collect::<Vec<_>>(), [1, 3]);
}
