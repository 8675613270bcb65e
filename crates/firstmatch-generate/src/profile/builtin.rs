//! Built-in profiles.
//!
//! Twelve profiles are named after the twelve published ClassBench parameter sets and resemble them. Each sums up the
//! hundreds of figures of such a set in some forty, rounded:
//!
//! - Shares are percentages, and rare kinds are folded into their neighbours.
//! - Four levels of a tree share one branching and one skew (in twentieths and tenths).
//! - Ports are those of the lists in [`short`].
//!
//! For 1,000 and 10,000 rules, the numbers of distinct values per field are within those of published sets of the same
//! kind.
//!
//! Profiles of the same names with `-full` keep the rare kinds of rules too, and are the harder ones: a few wide rules
//! decide how many rules match a packet, and rare pairs of prefix lengths how many tables a tuple space has. The test
//! `classbench.rs` compares them with sets of ClassBench's own generator.
//!
//! [`core`](super::core) has classifiers of core routers over four fields. `uniform` has no structure.

use super::{LengthPair, PortPair, Ports, Profile, Protocol, Repeats, Tree, short};

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

macro_rules! files {
    ($($name:literal)*) => { [$(($name, include_str!(concat!("../../profiles/", $name, ".txt")))),*] };
}

/// Names and texts of the profiles in [the short form](super::short).
const FILES: [(&str, &str); 25] = files![
    "acl1" "acl2" "acl3" "acl4" "acl5" "fw1" "fw2" "fw3" "fw4" "fw5" "ipc1" "ipc2" "core"
    "acl1-full" "acl2-full" "acl3-full" "acl4-full" "acl5-full"
    "fw1-full" "fw2-full" "fw3-full" "fw4-full" "fw5-full" "ipc1-full" "ipc2-full"
];

impl Profile {
    /// Returns one of [`PROFILES`] or [`FULL_PROFILES`] by its name.
    pub(super) fn named(name: &str) -> Option<Self> {
        let file = match name {
            "acl" | "fw" | "ipc" => &format!("{name}1"),
            "uniform" => return Some(Self::uniform()),
            _ => name,
        };
        let (_, text) = FILES.into_iter().find(|(of, _)| *of == file)?;
        let profile = short::parse(name, text).expect("a test reads every built-in profile");
        let repeats = if name.ends_with("-full") { Repeats::ByFlags } else { Repeats::Never };
        Some(Self { repeats, ..profile })
    }

    /// Returns one of [`PROFILES`].
    pub(super) fn built_in(name: &str) -> Self {
        Self::named(name).expect("a name of the list")
    }

    /// Returns an access-control list: services of hosts and small networks.
    ///
    /// Sources are mostly hosts and networks.
    pub fn acl() -> Self {
        Self::built_in("acl")
    }

    /// Returns a firewall: one wildcard address in most rules, and both ports in many.
    pub fn fw() -> Self {
        Self::built_in("fw")
    }

    /// Returns an IP chain: networks and hosts on both sides, and many rules for any protocol.
    pub fn ipc() -> Self {
        Self::built_in("ipc")
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
