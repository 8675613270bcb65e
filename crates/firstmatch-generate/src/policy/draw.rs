//! Drawing groups and rules of a policy.

use std::collections::HashSet;

use firstmatch_core::rule::Test;
use firstmatch_core::schema::Family;

use super::{Group, Values};
use crate::random::{Random, Weighted};
use crate::rules::Families;

/// Ports of services that policies name often.
const SERVICES: [u16; 24] = [
    21, 22, 25, 53, 80, 88, 110, 123, 135, 143, 161, 389, 443, 445, 465, 514, 587, 636, 993, 1433, 3306, 3389, 5432,
    8080,
];
/// Number of networks of a family.
const NETWORKS: usize = 31;
/// Bits of a host's number in its network: a site, a subnet and a host of it.
const OFFSET_BITS: u32 = 16;

/// Kind of a member of an address group.
#[derive(Clone, Copy, Debug)]
enum Member {
    Host,
    Subnet,
    Site,
    Network,
    Hosts,
}

/// Source of groups, and of rules on them.
pub(super) struct Drawer {
    families: Families,
    networks: Networks,
    pub(super) addresses: Vec<Group>,
    pub(super) ports: Vec<Group>,
    /// Indices of the address groups of each family.
    groups_of: [Vec<usize>; 2],
    protocols: Weighted<Option<u8>>,
    members: Weighted<Member>,
}

/// First 16 bits of IPv4 addresses, and first 32 of IPv6 addresses.
type Networks = [[u32; NETWORKS]; 2];

/// Number that stands for ICMP of either family in the draw of a protocol.
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const TCP: u8 = 6;
const UDP: u8 = 17;

impl Drawer {
    /// Draws the networks and groups of a policy of `rules` rules.
    pub(super) fn new(rules: usize, families: Families, random: &mut Random) -> Self {
        let mut drawer = Self {
            families,
            networks: networks(random),
            addresses: Vec::new(),
            ports: Vec::new(),
            groups_of: [Vec::new(), Vec::new()],
            protocols: Weighted::new([(Some(TCP), 70.0), (Some(UDP), 20.0), (None, 7.0), (Some(ICMP), 3.0)]),
            members: Weighted::new([
                (Member::Host, 55.0),
                (Member::Subnet, 30.0),
                (Member::Site, 8.0),
                (Member::Network, 4.0),
                (Member::Hosts, 3.0),
            ]),
        };
        for index in 0..(rules / 4).max(1) {
            let family = drawer.family(random);
            let size = (1.0 + pareto(0.9, random)).min(60.0) as usize;
            let members = distinct(size, random, |random| drawer.member(family, random));
            drawer.groups_of[family as usize].push(index);
            drawer.addresses.push(Group { of: drawer.stated(family), members });
        }
        for _ in 0..(rules / 20).max(1) {
            let size = pareto(1.1, random).min(25.0) as usize;
            drawer.ports.push(Group { of: None, members: distinct(size, random, port) });
        }
        drawer
    }

    /// Draws a rule: its protocol, source, destination and destination port.
    pub(super) fn rule(&self, random: &mut Random) -> (Option<u8>, [Values; 3]) {
        loop {
            let family = self.family(random);
            let proto = self.protocols.draw(random).flatten();
            let src = if random.chance(0.08) { Values::Any } else { self.address(family, random) };
            let groups = &self.groups_of[family as usize];
            let dst = match random.unit() {
                draw if draw < 0.04 => Values::Any,
                draw if draw < 0.055 && !groups.is_empty() => Values::NotGroup(groups[random.index(groups.len())]),
                _ => self.address(family, random),
            };
            let dport = match random.unit() {
                _ if proto.is_none_or(|proto| proto == ICMP) => Values::Any,
                draw if draw < 0.5 => Values::Group(random.index(self.ports.len())),
                draw if draw < 0.95 => Values::One(None, port(random)),
                _ => Values::Any,
            };
            // ICMP of a rule without addresses is that of the drawn family.
            let proto = proto.map(|proto| if (proto, family) == (ICMP, Family::Ipv6) { ICMPV6 } else { proto });
            if [src, dst, dport] != [Values::Any; 3] {
                return (proto, [src, dst, dport]);
            }
        }
    }

    fn family(&self, random: &mut Random) -> Family {
        match self.families {
            Families::Ipv4 => Family::Ipv4,
            Families::Ipv6 => Family::Ipv6,
            Families::Both { ipv6 } => {
                if random.chance(ipv6) {
                    Family::Ipv6
                } else {
                    Family::Ipv4
                }
            }
        }
    }

    /// Returns the family that a test states: none in a set of one family.
    fn stated(&self, family: Family) -> Option<Family> {
        matches!(self.families, Families::Both { .. }).then_some(family)
    }

    fn address(&self, family: Family, random: &mut Random) -> Values {
        let groups = &self.groups_of[family as usize];
        if random.chance(0.75) && !groups.is_empty() {
            return Values::Group(groups[random.index(groups.len())]);
        }
        Values::One(self.stated(family), self.member(family, random))
    }

    /// Draws a member of an address group.
    fn member(&self, family: Family, random: &mut Random) -> Test {
        let network = self.networks[family as usize][random.index(NETWORKS)];
        let offset = random.below(1 << OFFSET_BITS) as u32;
        let (bits, lens) = match family {
            Family::Ipv4 => (32, [16, 20, 24]),
            Family::Ipv6 => (128, [32, 48, 64]),
        };
        let prefix = |len: u32| {
            let value = address(family, network, offset) & u128::MAX << (bits - len);
            Test::Prefix { value, len }
        };
        match self.members.draw(random) {
            Some(Member::Network) => prefix(lens[0]),
            Some(Member::Site) => prefix(lens[1]),
            Some(Member::Subnet) => prefix(lens[2]),
            Some(Member::Hosts) => {
                let count = random.between(3, 50);
                let first = offset & !0xFF | random.between(0, 256 - count);
                let [lo, hi] = [first, first + count - 1].map(|offset| address(family, network, offset));
                Test::Range { lo, hi }
            }
            _ => Test::Value(address(family, network, offset)),
        }
    }
}

/// Returns the address of a host by its number in a network.
///
/// In IPv6 the site's 4 bits end at bit 48, the subnet's at bit 64, and the host's 8 bits at bit 128.
fn address(family: Family, network: u32, offset: u32) -> u128 {
    let [site, subnet, host] = [offset >> 12, offset >> 8 & 0xF, offset & 0xFF].map(u128::from);
    match family {
        Family::Ipv4 => u128::from(network << OFFSET_BITS | offset),
        Family::Ipv6 => u128::from(network) << 96 | site << 80 | subnet << 64 | host,
    }
}

/// Draws the networks of both families.
fn networks(random: &mut Random) -> Networks {
    let mut pick = |from: u32, to: u32, count: usize| -> Vec<u32> {
        let mut all: Vec<u32> = (from..=to).collect();
        random.shuffle(&mut all);
        all.truncate(count);
        all
    };
    let ipv4 = [pick(0x0A00, 0x0AFF, 24), pick(0xAC10, 0xAC1F, 6), vec![0xC0A8]].concat();
    let ipv6 = [pick(0x3FFF_0000, 0x3FFF_0FFF, 24), pick(0xFD00_0000, 0xFD00_FFFF, 6), vec![0x2001_0DB8]].concat();
    [ipv4, ipv6].map(|all| std::array::from_fn(|index| all[index]))
}

/// Draws a port, or a range of ports.
fn port(random: &mut Random) -> Test {
    match random.unit() {
        draw if draw < 0.5 => Test::Value(SERVICES[random.index(SERVICES.len())].into()),
        draw if draw < 0.8 => Test::Value(random.between(1024, 0xFFFF).into()),
        _ => {
            let count = random.between(2, 1000);
            let lo = random.between(1024, 0x1_0000 - count);
            Test::Range { lo: lo.into(), hi: (lo + count - 1).into() }
        }
    }
}

/// Draws `count` distinct values in the order of the draws.
fn distinct(count: usize, random: &mut Random, mut draw: impl FnMut(&mut Random) -> Test) -> Vec<Test> {
    let mut seen = HashSet::with_capacity(count);
    let mut all = Vec::with_capacity(count);
    while all.len() < count {
        let value = draw(random);
        if seen.insert(value) {
            all.push(value);
        }
    }
    all
}

/// Draws a number by Pareto's law with the least value 1.
fn pareto(exponent: f64, random: &mut Random) -> f64 {
    1.0 / libm::pow(1.0 - random.unit(), 1.0 / exponent)
}
