//! Groups of addresses, ports and services.

use super::super::native;
use super::{bare, of_entries, read};

/// Returns the native rules of a list with groups behind it.
#[track_caller]
fn with_groups(entry: &str, groups: &str) -> Vec<String> {
    bare(&of_entries(&format!(" {entry}\n!\n{groups}")), "ipv4")
}

#[track_caller]
fn expect(entry: &str, groups: &str, expected: &[&str]) {
    let expected: Vec<String> = expected.iter().map(|rule| (*rule).to_owned()).collect();
    assert_eq!(with_groups(entry, groups), bare(&expected, "ipv4"), "{entry}\n{groups}");
}

/// Groups may stand behind their use, hold each other, and go on further below.
#[test]
fn groups_are_sets_of_their_members() {
    let ios = "object-group network INNER\n description the pool\n range 10.0.0.4 10.0.0.9\nobject-group network OUTER\n \
               host 192.0.2.7\n 10.1.0.0 255.255.0.0\n 10.2.0.0 /16\n group-object INNER\n!\nobject-group network INNER\n host 10.0.0.20\n";
    expect(
        "deny ip object-group OUTER any",
        ios,
        &["deny src { 10.0.0.4-10.0.0.9, 10.0.0.20, 10.1.0.0-10.2.255.255, 192.0.2.7 }"],
    );
    expect("deny ip any object-group INNER", ios, &["deny dst { 10.0.0.4-10.0.0.9, 10.0.0.20 }"]);
    expect("deny ip object-group ALL any", "object-group network ALL\n any\n", &["deny"]);
    let nxos = "object-group ip address NETS\n  10 host 10.0.0.1\n  20 10.1.0.0/16\n  30 192.0.2.0 0.0.0.255\n\
                object-group ip port WEB\n  10 eq 80\n  20 range 8000 8099\n  30 gt 65000\n";
    expect(
        "deny tcp addrgroup NETS portgroup WEB any",
        nxos,
        &["deny tcp src { 10.0.0.1, 10.1.0.0/16, 192.0.2.0/24 } sport { 80, 8000-8099, 65001-65535 }"],
    );
    let xr = "object-group network ipv4 NETS\n 10.0.0.0/8\n object-group MORE\n!\nobject-group network ipv4 MORE\n range 192.0.2.1 192.0.2.3\n!\n\
              object-group port P\n eq 80 443\n object-group Q\n!\nobject-group port Q\n lt 5\n";
    expect(
        "deny udp any net-group NETS port-group P",
        xr,
        &["deny udp dst { 10.0.0.0/8, 192.0.2.1-192.0.2.3 } dport { 0-4, 80, 443 }"],
    );
    // Members in the first column, as people paste them.
    let flat = "object-group network FLAT\nhost 10.0.0.1\n10.1.0.0 255.255.0.0\nhostname r1\n";
    expect("deny ip object-group FLAT any", flat, &["deny src { 10.0.0.1, 10.1.0.0/16 }"]);
    let v6 = "ipv6 access-list A\n deny tcp addrgroup V6 any\n deny ipv6 any any\nobject-group ipv6 address V6\n 10 2001:db8::/32\n 20 host 2001:db9::1\n";
    assert_eq!(native(&read(v6, None))[0], "deny tcp src { 2001:db8::/32, 2001:db9::1 }");
}

#[test]
fn services_have_protocols_with_ports() {
    let groups = "object-group service S\n tcp eq www\n tcp 443\n udp source eq 53\n tcp source gt 1023 range 5 9\n icmp echo\n esp\n \
                  tcp-udp eq 7\n group-object T\nobject-group service T\n tcp lt 3\n";
    expect(
        "deny object-group S any host 10.0.0.1",
        groups,
        &[
            "deny tcp dst 10.0.0.1 dport { 0-2, 80, 443 }",
            "deny udp dst 10.0.0.1 sport 53",
            "deny tcp dst 10.0.0.1 sport 1024-65535 dport 5-9",
            "deny icmp dst 10.0.0.1 icmp_type 8",
            "deny proto 50 dst 10.0.0.1",
            "deny proto { tcp, udp } dst 10.0.0.1 dport 7",
        ],
    );
    // Later fragments have one rule for each kind of protocol, and none where the service is the protocol alone.
    expect(
        "permit object-group S any any",
        "object-group service S\n tcp eq www\n tcp source eq 5\n udp eq 53\n esp\n",
        &[
            "permit tcp dport 80",
            "permit tcp sport 5",
            "permit udp dport 53",
            "permit proto 50",
            "permit tcp fragment later",
            "permit udp fragment later",
        ],
    );
}

#[test]
fn objects_of_asa() {
    let text = "names\nname 192.0.2.7 www-server description the first\nname 192.0.2.128 half\nobject network web\n host www-server\nobject network net\n subnet 10.1.0.0 255.255.0.0\nobject network pool\n range 10.0.0.4 10.0.0.9\n\
        object service dns\n service udp source gt 1023 destination eq domain\n\
        object-group network servers\n network-object object web\n network-object host 192.0.2.9\n network-object half 255.255.255.128\n group-object more\n\
        object-group network more\n network-object object pool\n network-object 2001:db8::/32\n\
        object-group service ports tcp\n port-object eq www\n port-object range 8000 8099\n\
        object-group service any-service\n service-object tcp destination eq 443\n service-object udp\n service-object object dns\n\
        object-group protocol both\n protocol-object tcp\n protocol-object udp\n\
        object-group icmp-type ping\n icmp-object echo\n icmp-object echo-reply\n\
        access-list a extended permit tcp object net object-group servers object-group ports\n\
        access-list a extended permit object-group any-service any4 object pool\n\
        access-list a extended permit object dns any4 any4\n\
        access-list a extended permit object-group both object pool any4 eq 5\n\
        access-list a extended permit icmp any4 object web object-group ping\n\
        access-list a extended deny icmp any4 any4 unreachable 3\n\
        object network web\n nat (inside,outside) static 198.51.100.7\n";
    let expected = [
        "permit tcp src 10.1.0.0/16 dst { 10.0.0.4-10.0.0.9, 192.0.2.7, 192.0.2.9, 192.0.2.128/25 } dport { 80, 8000-8099 }",
        "permit tcp dst 10.0.0.4-10.0.0.9 dport 443",
        "permit udp dst 10.0.0.4-10.0.0.9",
        "permit udp dst 10.0.0.4-10.0.0.9 sport 1024-65535 dport 53",
        "permit udp sport 1024-65535 dport 53",
        "permit tcp src 10.0.0.4-10.0.0.9 dport 5",
        "permit udp src 10.0.0.4-10.0.0.9 dport 5",
        "permit icmp dst 192.0.2.7 icmp_type 0x00/0xf7",
        "deny icmp icmp_type 3 icmp_code 3",
    ];
    assert_eq!(bare(&native(&read(text, None)), "ipv4"), bare(&expected.map(str::to_owned), "ipv4"));
}
