//! Built-in profiles.
//!
//! Twelve profiles are named after the twelve published ClassBench parameter sets and resemble them. Each sums up the
//! hundreds of figures of such a set in some forty, rounded:
//!
//! - Shares are percentages, and rare kinds are folded into their neighbours.
//! - Four levels of a tree share one branching and one skew (in twentieths and tenths).
//! - Ports are those of the lists below.
//!
//! For 1,000 and 10,000 rules, the numbers of distinct values per field are within those of published sets of the same
//! kind.
//!
//! Profiles of the same names with `-full` keep the rare kinds of rules too, and are the harder ones: a few wide rules
//! decide how many rules match a packet, and rare pairs of prefix lengths how many tables a tuple space has. The test
//! `classbench.rs` compares them with sets of ClassBench's own generator.
//!
//! [`core`](super::core) has classifiers of core routers over four fields. `uniform` has no structure.

use super::figures::{self, Figures, Values};
use super::full;
use super::{Flags, LengthPair, PortPair, Ports, Profile, Protocol, Repeats, Tree};

/// Names of the built-in profiles.
///
/// They are five access-control lists, five firewalls, two IP chains, classifiers of core routers
/// ([`core`](super::core)) and one without structure; `acl`, `fw` and `ipc` are the first of each kind.
pub const PROFILES: [&str; 17] = [
    "acl", "acl1", "acl2", "acl3", "acl4", "acl5", "fw", "fw1", "fw2", "fw3", "fw4", "fw5", "ipc", "ipc1", "ipc2",
    "core", "uniform",
];

/// Names of the built-in profiles that resemble ClassBench's parameter sets in their rare kinds of rules too.
///
/// Each is named after one of [`PROFILES`], with `-full` behind it. Sets of them have copies and rules that match
/// everything ([`Repeats::ByFlags`]).
pub const FULL_PROFILES: [&str; 12] = [
    "acl1-full",
    "acl2-full",
    "acl3-full",
    "acl4-full",
    "acl5-full",
    "fw1-full",
    "fw2-full",
    "fw3-full",
    "fw4-full",
    "fw5-full",
    "ipc1-full",
    "ipc2-full",
];

impl Profile {
    /// Returns one of [`PROFILES`] or [`FULL_PROFILES`] by its name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let summed = Self::summed(name);
        summed.or_else(|| {
            let (_, figures) = FULL_PROFILES.into_iter().zip(full::ALL).find(|(full, _)| *full == name)?;
            Some(Self { repeats: Repeats::ByFlags, ..figures.profile(name) })
        })
    }

    fn summed(name: &str) -> Option<Self> {
        let figures = match name {
            "acl" | "acl1" => &figures::ACL1,
            "acl2" => &figures::ACL2,
            "acl3" => &figures::ACL3,
            "acl4" => &figures::ACL4,
            "acl5" => &figures::ACL5,
            "fw" | "fw1" => &figures::FW1,
            "fw2" => &figures::FW2,
            "fw3" => &figures::FW3,
            "fw4" => &figures::FW4,
            "fw5" => &figures::FW5,
            "ipc" | "ipc1" => &figures::IPC1,
            "ipc2" => &figures::IPC2,
            "core" => return Some(Self::core()),
            "uniform" => return Some(Self::uniform()),
            _ => return None,
        };
        Some(figures.profile(name))
    }

    /// Returns an access-control list: services of hosts and small networks.
    ///
    /// Sources are mostly hosts and networks.
    pub fn acl() -> Self {
        figures::ACL1.profile("acl")
    }

    /// Returns a firewall: one wildcard address in most rules, and both ports in many.
    pub fn fw() -> Self {
        figures::FW1.profile("fw")
    }

    /// Returns an IP chain: networks and hosts on both sides, and many rules for any protocol.
    pub fn ipc() -> Self {
        figures::IPC1.profile("ipc")
    }

    /// Returns a profile without structure: no classifier should be measured on it alone.
    ///
    /// Every pair of prefix lengths and of port classes is equally likely, with any address and any port. Any protocol,
    /// TCP, UDP and ICMP have a quarter each.
    pub fn uniform() -> Self {
        let every = PortPair::ALL.map(|pair| (pair, 1.0)).to_vec();
        let any = Ports { other: 1.0, ..Ports::default() };
        let tree = Tree::of_levels(&[(0, 1.0, 0.0)]);
        let protocol = |number, ports| Protocol { number, share: 1.0, ports, flags: Vec::new() };
        let none = vec![(PortPair::NONE, 1.0)];
        Self {
            name: "uniform".into(),
            protocols: vec![
                protocol(None, none.clone()),
                protocol(Some(6), every.clone()),
                protocol(Some(17), every),
                protocol(Some(1), none),
            ],
            has_protocol: true,
            ports_everywhere: false,
            source_ports: any.clone(),
            destination_ports: any,
            lengths: (0..=32).flat_map(|s| (0..=32).map(move |d| LengthPair::new(s, d, 1.0))).collect(),
            lengths_of: Vec::new(),
            source: tree.clone(),
            destination: tree,
            correlation: [0.0; 32],
            scale: None,
            repeats: Repeats::Never,
        }
    }
}

impl Figures {
    pub(super) fn profile(&self, name: &str) -> Profile {
        let protocols = self.protocols.iter().map(|&(number, share, ports)| Protocol {
            number: (number != 0).then_some(number),
            share,
            ports: ports
                .iter()
                .map(|&(source, destination, share)| (PortPair::new(source, destination), share))
                .collect(),
            flags: self
                .flags
                .iter()
                .filter(|of| of.0 == number)
                .map(|&(_, value, mask, share)| (Flags { value, mask }, share))
                .collect(),
        });
        let lengths_of =
            self.lengths.iter().map(|&(source, destination, own)| (PortPair::new(source, destination), pairs(own)));
        let lengths_of: Vec<_> = lengths_of.collect();
        let rest = if self.other_lengths.is_empty() { lengths_of[0].1.clone() } else { pairs(self.other_lengths) };
        let tree = |levels, nesting| Tree::of_levels(levels).with_nesting(nesting);
        Profile {
            name: name.to_owned(),
            protocols: protocols.collect(),
            has_protocol: true,
            ports_everywhere: false,
            source_ports: self.source_ports.ports(),
            destination_ports: self.destination_ports.ports(),
            lengths: rest,
            lengths_of,
            source: tree(self.source, self.nesting.0),
            destination: tree(self.destination, self.nesting.1),
            correlation: std::array::from_fn(|at| {
                self.correlation.iter().rev().find(|(first, _)| *first <= at).map_or(0.0, |(_, share)| *share)
            }),
            scale: Some(self.scale),
            repeats: Repeats::Never,
        }
    }
}

impl Values {
    fn ports(&self) -> Ports {
        let all = self.services + self.ranges + 2 * self.others;
        Ports {
            exact: weigh(&SERVICES[..self.services]),
            ranges: weigh(&RANGES[..self.ranges]),
            // Unlisted values are as frequent as the rarer half of the listed ones.
            other: if self.others == 0 { 0.0 } else { self.others as f64 / all as f64 },
            pool: self.others,
        }
    }
}

/// Services in the registry of IANA and a few common vendor ports.
///
/// The more frequent a service is in published lists, the further it is to the front.
const SERVICES: [u16; 48] = [
    80, 443, 53, 22, 25, 123, 161, 514, 21, 23, 110, 143, 389, 445, 139, 3389, 69, 1433, 1521, 8080, 137, 138, 135,
    162, 636, 993, 995, 179, 111, 2049, 20, 88, 3306, 5060, 500, 4500, 1812, 1813, 587, 5432, 8443, 6000, 3128, 1723,
    5190, 49, 873, 119,
];

/// Ranges of ports in use.
///
/// They are those of active and passive FTP, NetBIOS, SNMP, RADIUS, X11, SIP, RTP, traceroute and dynamic ports.
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

/// Weighs the k-th value, counted from 1, with 1/k.
fn weigh<T: Copy>(values: &[T]) -> Vec<(T, f64)> {
    (1..).zip(values).map(|(rank, &value)| (value, 1.0 / f64::from(rank))).collect()
}

fn pairs(pairs: &[(u8, u8, f64)]) -> Vec<LengthPair> {
    pairs.iter().map(|&(source, destination, share)| LengthPair::new(source, destination, share)).collect()
}
