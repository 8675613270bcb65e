//! Lines of a configuration that are no part of access lists or groups.

use super::words::Line;

/// Meaning of the first line of a section that is passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// No line of the section is an entry.
    Plain,
    /// The section has entries of its own, which are not for IP packets, or filter none.
    Entries,
    /// An access list of an unknown kind.
    UnknownList,
    /// The line looks like an entry, but belongs to no list.
    Lost,
}

/// Kinds of access lists for other packets, by the word before `access-list`.
const OTHER_LISTS: [&str; 10] =
    ["mac", "arp", "ipx", "ethernet-services", "ethernet", "l2", "es", "appletalk", "decnet", "as-path"];

/// First words of lines that have `permit` and `deny`, but filter no packets.
const PERMITTING: [&str; 18] = [
    "access-session",
    "dialer-list",
    "priority-list",
    "queue-list",
    "route-map",
    "icmp",
    "same-security-traffic",
    "snmp-server",
    "role",
    "rule",
    "route-policy",
    "policy-map",
    "class-map",
    "tacacs-server",
    "crypto",
    "sysopt",
    "logging",
    "aaa",
];

/// Second words, behind `ip`, `ipv4` or `ipv6`, of such lines.
const PERMITTING_IP: [&str; 8] = [
    "prefix-list",
    "as-path",
    "community-list",
    "extcommunity-list",
    "large-community-list",
    "policy-list",
    "icmp",
    "arp",
];

/// Returns the place of a line that begins a section.
pub(super) fn place(line: &Line<'_>) -> Place {
    let [first, second, third] = line.texts();
    let (first, second) = if first == "no" { (second, third) } else { (first, second) };
    let is_ip = matches!(first, "ip" | "ipv4" | "ipv6");
    if PERMITTING.contains(&first) || is_ip && PERMITTING_IP.contains(&second) {
        return Place::Entries;
    }
    match second {
        "access-list" if OTHER_LISTS.contains(&first) => Place::Entries,
        // For example, the memory that `hardware access-list tcam region` sets aside.
        "access-list" if is_known(first) && !is_ip => Place::Plain,
        "access-list" => Place::UnknownList,
        _ if line.words.iter().any(|word| matches!(word.text, "permit" | "deny")) || is_member(first) => Place::Lost,
        _ => Place::Plain,
    }
}

/// Whether a word begins members of groups and no other lines.
pub(super) fn is_member(word: &str) -> bool {
    matches!(
        word,
        "group-object" | "network-object" | "service-object" | "port-object" | "protocol-object" | "icmp-object"
    )
}

/// Whether a word has a meaning in access lists, so that no list has it as its name.
pub(super) fn is_word_of_lists(word: &str) -> bool {
    matches!(word, "" | "permit" | "deny" | "remark" | "extended" | "standard" | "resequence" | "line" | "sequence")
}

/// First words of lines in configurations, which end a list whose entries begin in the first column.
const KNOWN: &str = "
    aaa access-group access-list alias aqm-register-fnf archive arp as-path-set asdm bfd boot bridge cdp call-home
    card cef class class-map cli clock community-set config-register configure console control-plane copp core crypto
    default dhcp dhcpd dialer diagnostic dns dns-guard do domain dot1x dynamic-access-policy-record enable end errdisable
    ethernet ethernet-services event exception exit extcommunity-set fabric feature feature-set file flow flow-export
    ftp group-policy hardware hostname hsrp http hw-module icmp igmp install interface ip ipsec ipv4 ipv6 ipx key l2 l2vpn
    lacp ldap-server license line lldp logging mac macro memory mgmt mls monitor monitor-interface mpls mtu multicast
    multilink name nameif names nat netconf-yang no ntp nv object object-group ospf pager parameter-map parser passwd
    password platform policy-map port-channel power prefix-set privilege process prompt queue qos radius radius-server
    redundancy rmon role route route-map route-policy router rsvp same-security-traffic scheduler security service
    service-policy session set shutdown snmp snmp-server spanning-tree ssh ssl standby stp subscriber switch sysopt
    system tacacs tacacs-server telemetry telnet template terminal tftp-server threat-detection time-range timeout
    track transceiver tunnel-group udld username user-group validate vdc version virtual vlan voice vpc vpdn vpn vrf vtp
    vty-pool webvpn wireless xlate xml zone zone-pair";

/// Whether a word begins lines of configurations.
pub(super) fn is_known(word: &str) -> bool {
    KNOWN.split_ascii_whitespace().any(|known| known == word)
}
