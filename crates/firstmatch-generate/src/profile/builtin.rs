//! The profiles that come with the crate.
//!
//! The numbers are this crate's own, rounded by hand between what is published of real filter sets and what the
//! twelve ClassBench parameter sets have in common; they follow none of them.
//!
//! - Protocols: TCP in half of the rules or more, then UDP, the wildcard and ICMP, with tunnels and routing protocols
//!   in a percent or two (Taylor, *Survey and taxonomy of packet classification techniques*, ACM Computing Surveys
//!   37(3), 2005; Taylor and Turner 2007).
//! - Port classes: access lists and IP chains have wildcard sources nearly throughout; firewalls test both sides,
//!   clients' high ports against services among them. A few dozen ports are all there is, few of them ranges.
//! - Prefix lengths: hosts against hosts and against /24 and /16 in access lists; firewalls have the wildcard on one
//!   side of most rules; IP chains are between the two. Rules without ports have shorter prefixes.
//! - Nesting: two to five prefixes of a set lie one in another, as the published parameters have it.
//! - Growth: ten times the rules have eight to nine times the addresses.

use super::{LengthPair, PortClass, PortPair, Ports, Profile, Protocol, Tree};
use PortClass::{Exact as Em, High as Hi, Low as Lo, Range as Ar, Wildcard as Wc};

impl Profile {
    /// An access-control list: services of hosts and of small networks, sources mostly hosts and networks.
    pub fn acl() -> Self {
        let tcp = [(Wc, Em, 62.0), (Wc, Wc, 19.0), (Wc, Ar, 11.0), (Wc, Hi, 7.0), (Em, Hi, 1.0)];
        let udp = [(Wc, Em, 71.0), (Wc, Hi, 13.0), (Wc, Ar, 8.0), (Wc, Wc, 6.0), (Em, Hi, 2.0)];
        Self {
            name: "acl".into(),
            protocols: vec![
                protocol(Some(6), 56.0, &tcp),
                protocol(Some(17), 22.0, &udp),
                protocol(None, 14.0, &[(Wc, Wc, 1.0)]),
                protocol(Some(1), 6.5, &[(Wc, Wc, 1.0)]),
                protocol(Some(47), 1.0, &[(Wc, Wc, 1.0)]),
                protocol(Some(89), 0.5, &[(Wc, Wc, 1.0)]),
            ],
            ports_everywhere: false,
            source_ports: Ports { exact: weigh(&[53, 20]), ..Ports::default() },
            destination_ports: Ports { exact: weigh(&SERVICES), ranges: weigh(&RANGES), other: 0.2, pool: 60 },
            lengths: pairs(&ACL_LENGTHS),
            lengths_of: vec![(PortPair::NONE, pairs(&ACL_PLAIN_LENGTHS))],
            source: Tree::of_levels(&[(0, 0.25, 0.5), (8, 0.3, 0.6), (16, 0.35, 0.45), (24, 0.7, 0.4)])
                .with_leaves(2.5, 0.92)
                .with_nesting(5),
            destination: Tree::of_levels(&[(0, 0.3, 0.6), (8, 0.25, 0.6), (16, 0.4, 0.5), (24, 0.6, 0.4)])
                .with_leaves(4.0, 0.92)
                .with_nesting(4),
            correlation: 0.3,
        }
    }

    /// A firewall: the wildcard on one side of most rules, both ports in many.
    pub fn fw() -> Self {
        let tcp = [
            (Wc, Em, 64.0),
            (Wc, Wc, 12.0),
            (Hi, Em, 7.0),
            (Hi, Hi, 6.0),
            (Em, Wc, 6.0),
            (Em, Hi, 2.0),
            (Wc, Hi, 1.5),
            (Hi, Lo, 0.5),
            (Wc, Ar, 1.0),
        ];
        let udp = [
            (Wc, Em, 48.0),
            (Em, Wc, 28.0),
            (Hi, Em, 6.0),
            (Em, Em, 6.0),
            (Hi, Hi, 5.0),
            (Em, Hi, 4.0),
            (Hi, Ar, 1.0),
            (Ar, Hi, 1.0),
            (Lo, Wc, 0.5),
            (Wc, Lo, 0.5),
        ];
        let answers = pairs(&FW_ANSWER_LENGTHS);
        Self {
            name: "fw".into(),
            protocols: vec![
                protocol(Some(6), 50.0, &tcp),
                protocol(Some(17), 34.0, &udp),
                protocol(Some(1), 6.0, &[(Wc, Wc, 1.0)]),
                protocol(None, 4.0, &[(Wc, Wc, 1.0)]),
                protocol(Some(47), 4.0, &[(Wc, Wc, 1.0)]),
                protocol(Some(50), 1.2, &[(Wc, Wc, 1.0)]),
                protocol(Some(51), 0.8, &[(Wc, Wc, 1.0)]),
            ],
            ports_everywhere: false,
            source_ports: Ports {
                exact: weigh(&[53, 123, 161, 67, 88, 500, 69, 80, 20, 514]),
                ranges: weigh(&[(33434, 33600)]),
                ..Ports::default()
            },
            destination_ports: Ports {
                exact: weigh(&SERVICES[..32]),
                ranges: weigh(&[(33434, 33600), (6000, 6063)]),
                ..Ports::default()
            },
            lengths: pairs(&FW_LENGTHS),
            lengths_of: vec![
                (PortPair::new(Em, Wc), answers.clone()),
                (PortPair::new(Em, Hi), answers),
                (PortPair::NONE, pairs(&FW_PLAIN_LENGTHS)),
            ],
            source: Tree::of_levels(&[(0, 0.2, 0.6), (8, 0.15, 0.5), (16, 0.3, 0.5), (24, 0.5, 0.45)])
                .with_leaves(40.0, 0.96)
                .with_nesting(3),
            destination: Tree::of_levels(&[(0, 0.15, 0.6), (8, 0.2, 0.5), (16, 0.3, 0.5), (24, 0.5, 0.5)])
                .with_leaves(40.0, 0.96)
                .with_nesting(3),
            correlation: 0.6,
        }
    }

    /// An IP chain: networks and hosts on both sides, many rules for any protocol.
    pub fn ipc() -> Self {
        let tcp = [
            (Wc, Em, 48.0),
            (Em, Wc, 26.0),
            (Wc, Wc, 11.0),
            (Wc, Ar, 6.0),
            (Ar, Wc, 5.0),
            (Wc, Hi, 3.0),
            (Hi, Wc, 1.0),
        ];
        let udp = [
            (Wc, Em, 46.0),
            (Em, Wc, 22.0),
            (Em, Em, 12.0),
            (Wc, Hi, 11.0),
            (Wc, Wc, 4.0),
            (Wc, Ar, 2.0),
            (Hi, Wc, 2.0),
            (Ar, Wc, 1.0),
        ];
        Self {
            name: "ipc".into(),
            protocols: vec![
                protocol(Some(17), 34.0, &udp),
                protocol(Some(6), 30.0, &tcp),
                protocol(None, 28.0, &[(Wc, Wc, 1.0)]),
                protocol(Some(1), 6.5, &[(Wc, Wc, 1.0)]),
                protocol(Some(47), 0.5, &[(Wc, Wc, 1.0)]),
                protocol(Some(50), 0.6, &[(Wc, Wc, 1.0)]),
                protocol(Some(51), 0.4, &[(Wc, Wc, 1.0)]),
            ],
            ports_everywhere: false,
            source_ports: Ports {
                exact: weigh(&[161, 53, 123, 80, 25, 22, 443, 389, 514, 1433, 110, 143, 69, 1812]),
                ranges: weigh(&[(20, 21), (109, 110), (1645, 1646), (5000, 5001)]),
                ..Ports::default()
            },
            destination_ports: Ports {
                exact: weigh(&SERVICES[..36]),
                ranges: weigh(&[(20, 21), (109, 110), (1645, 1646), (1812, 1813), (137, 139), (20, 23)]),
                ..Ports::default()
            },
            lengths: pairs(&IPC_LENGTHS),
            lengths_of: vec![(PortPair::NONE, pairs(&IPC_PLAIN_LENGTHS))],
            source: Tree::of_levels(&[(0, 0.35, 0.5), (8, 0.25, 0.6), (16, 0.35, 0.5), (24, 0.5, 0.4)])
                .with_leaves(5.0, 0.92)
                .with_nesting(4),
            destination: Tree::of_levels(&[(0, 0.35, 0.55), (8, 0.3, 0.55), (16, 0.3, 0.45), (24, 0.5, 0.4)])
                .with_leaves(9.0, 0.92)
                .with_nesting(5),
            correlation: 0.5,
        }
    }

    /// No structure: every pair of prefix lengths and of port classes as likely as any other, any address, any port;
    /// a quarter each of any protocol, TCP, UDP and ICMP. What a classifier should not be measured on alone.
    pub fn uniform() -> Self {
        let every: Vec<_> =
            PortClass::ALL.iter().flat_map(|&s| PortClass::ALL.iter().map(move |&d| (s, d, 1.0))).collect();
        let any = Ports { other: 1.0, ..Ports::default() };
        let tree = Tree::of_levels(&[(0, 1.0, 0.0)]);
        Self {
            name: "uniform".into(),
            protocols: vec![
                protocol(None, 1.0, &[(Wc, Wc, 1.0)]),
                protocol(Some(6), 1.0, &every),
                protocol(Some(17), 1.0, &every),
                protocol(Some(1), 1.0, &[(Wc, Wc, 1.0)]),
            ],
            ports_everywhere: false,
            source_ports: any.clone(),
            destination_ports: any,
            lengths: (0..=32).flat_map(|s| (0..=32).map(move |d| LengthPair::new(s, d, 1.0))).collect(),
            lengths_of: Vec::new(),
            source: tree.clone(),
            destination: tree,
            correlation: 0.0,
        }
    }
}

/// Prefix lengths of an access list's rules with ports.
const ACL_LENGTHS: [(u8, u8, f64); 19] = [
    (32, 32, 30.0),
    (24, 32, 14.0),
    (16, 32, 9.0),
    (0, 32, 7.0),
    (27, 32, 5.0),
    (26, 32, 4.0),
    (23, 32, 3.0),
    (28, 32, 3.0),
    (8, 32, 2.0),
    (20, 32, 1.0),
    (30, 32, 1.0),
    (32, 24, 5.0),
    (24, 24, 6.0),
    (24, 27, 2.0),
    (16, 24, 2.0),
    (32, 27, 2.0),
    (32, 28, 1.5),
    (32, 16, 1.0),
    (24, 0, 1.5),
];

/// And of those without.
const ACL_PLAIN_LENGTHS: [(u8, u8, f64); 13] = [
    (32, 32, 18.0),
    (24, 24, 14.0),
    (32, 24, 10.0),
    (24, 32, 10.0),
    (16, 16, 8.0),
    (16, 24, 7.0),
    (24, 16, 6.0),
    (32, 16, 6.0),
    (16, 32, 5.0),
    (0, 32, 5.0),
    (32, 0, 5.0),
    (24, 0, 3.0),
    (0, 24, 3.0),
];

/// Prefix lengths of a firewall's rules for what servers answer.
const FW_ANSWER_LENGTHS: [(u8, u8, f64); 5] =
    [(32, 0, 62.0), (24, 0, 14.0), (16, 0, 8.0), (28, 0, 5.0), (32, 32, 11.0)];

/// Of its other rules with ports.
const FW_LENGTHS: [(u8, u8, f64); 15] = [
    (0, 32, 58.0),
    (32, 32, 10.0),
    (32, 0, 6.0),
    (0, 24, 5.0),
    (24, 32, 5.0),
    (0, 28, 3.0),
    (0, 30, 2.0),
    (24, 0, 2.0),
    (16, 32, 2.0),
    (24, 24, 2.0),
    (32, 24, 2.0),
    (0, 21, 1.0),
    (0, 27, 1.0),
    (28, 32, 0.8),
    (0, 0, 0.2),
];

/// And of those without.
const FW_PLAIN_LENGTHS: [(u8, u8, f64); 10] = [
    (32, 0, 30.0),
    (0, 32, 16.0),
    (32, 32, 16.0),
    (24, 0, 11.0),
    (16, 0, 8.0),
    (24, 32, 7.0),
    (32, 24, 5.0),
    (0, 24, 4.0),
    (0, 16, 2.0),
    (12, 0, 1.0),
];

/// Prefix lengths of an IP chain's rules with ports.
const IPC_LENGTHS: [(u8, u8, f64); 15] = [
    (32, 32, 25.0),
    (24, 24, 12.0),
    (24, 32, 12.0),
    (0, 32, 12.0),
    (32, 24, 9.0),
    (16, 24, 7.0),
    (16, 32, 5.0),
    (24, 16, 4.0),
    (32, 0, 3.0),
    (23, 32, 3.0),
    (26, 26, 2.0),
    (26, 32, 2.0),
    (32, 26, 2.0),
    (28, 28, 1.0),
    (22, 24, 1.0),
];

/// And of those without.
const IPC_PLAIN_LENGTHS: [(u8, u8, f64); 12] = [
    (32, 32, 22.0),
    (24, 24, 20.0),
    (24, 32, 11.0),
    (32, 24, 10.0),
    (16, 24, 9.0),
    (24, 16, 8.0),
    (0, 32, 6.0),
    (32, 0, 5.0),
    (16, 16, 4.0),
    (0, 24, 2.0),
    (24, 0, 2.0),
    (22, 22, 1.0),
];

/// Services by the registry of IANA, and a few that vendors made common; the more often met in published lists the
/// further to the front.
const SERVICES: [u16; 48] = [
    80, 443, 53, 22, 25, 123, 161, 514, 21, 23, 110, 143, 389, 445, 139, 3389, 69, 1433, 1521, 8080, 137, 138, 135,
    162, 636, 993, 995, 179, 111, 2049, 20, 88, 3306, 5060, 500, 4500, 1812, 1813, 587, 5432, 8443, 6000, 3128, 1723,
    5190, 49, 873, 119,
];

/// Ranges in use: active and passive FTP, NetBIOS, SNMP, RADIUS, X11, SIP, RTP, traceroute, dynamic ports.
const RANGES: [(u16, u16); 16] = [
    (20, 21),
    (137, 139),
    (1025, 65535),
    (161, 162),
    (6000, 6063),
    (8000, 8099),
    (1812, 1813),
    (5060, 5061),
    (33434, 33600),
    (3000, 3010),
    (16384, 32767),
    (49152, 65535),
    (5000, 5100),
    (135, 139),
    (2010, 2019),
    (10000, 20000),
];

/// The k-th of a list, counted from 1, has the weight 1/k.
fn weigh<T: Copy>(values: &[T]) -> Vec<(T, f64)> {
    (1..).zip(values).map(|(rank, &value)| (value, 1.0 / f64::from(rank))).collect()
}

fn protocol(number: Option<u8>, share: f64, ports: &[(PortClass, PortClass, f64)]) -> Protocol {
    let ports = ports.iter().map(|&(source, destination, share)| (PortPair::new(source, destination), share));
    Protocol { number, share, ports: ports.collect() }
}

fn pairs(pairs: &[(u8, u8, f64)]) -> Vec<LengthPair> {
    pairs.iter().map(|&(source, destination, share)| LengthPair::new(source, destination, share)).collect()
}
