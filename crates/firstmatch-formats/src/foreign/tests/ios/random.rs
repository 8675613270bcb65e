//! Random lists: the rules against an evaluation of the conditions that the text was written from.

use firstmatch_core::schema::Family;
use firstmatch_testkit::rng::Rng;

use super::super::{all_fields, verdict};
use crate::native::INET;
use crate::{Format, Options, parse};

/// Packet, as a router looks at it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    src: u32,
    dst: u32,
    proto: u8,
    pub(super) is_later: bool,
    ports: Option<(u16, u16)>,
    icmp: Option<(u8, u8)>,
    flags: u8,
    ttl: u8,
    dscp: u8,
}

impl Seen {
    pub(super) fn values(&self, family: Family) -> Vec<Option<u128>> {
        let mut values = vec![None; INET.len()];
        let (address, proto) = match family {
            Family::Ipv4 => (0, self.proto),
            Family::Ipv6 => (0x2001_0db8 << 96, if self.proto == 1 { 58 } else { self.proto }),
        };
        let of = |bits: u32| Some(if address == 0 { bits.into() } else { address | u128::from(bits & 0xFF) });
        (values[0], values[1], values[4]) = (of(self.src), of(self.dst), Some(proto.into()));
        values[8] = (family == Family::Ipv6).then_some(if self.is_later { 4 } else { 0 });
        values[11] = Some(if self.is_later { 2 } else { 0 });
        (values[12], values[13], values[14]) = (Some(self.dscp.into()), Some(self.ttl.into()), Some(60));
        (values[2], values[3]) = self.ports.map_or((None, None), |(s, d)| (Some(s.into()), Some(d.into())));
        (values[5], values[6]) = self.icmp.map_or((None, None), |(t, c)| (Some(t.into()), Some(c.into())));
        values[7] = self.ports.filter(|_| self.proto == 6).map(|_| self.flags.into());
        values
    }
}

/// Condition on what follows the IP header.
#[derive(Clone, Debug)]
enum Behind {
    Source(Comparison),
    Destination(Comparison),
    Icmp(u8, Option<u8>),
    /// Any of the flags is set.
    AnyFlag(u8),
    /// Flags under a mask have a value.
    Flags(u8, u8),
}

#[derive(Clone, Debug)]
enum Comparison {
    Equal(Vec<u16>),
    NotEqual(Vec<u16>),
    Above(u16),
    Below(u16),
    Between(u16, u16),
}

impl Comparison {
    fn draw(rng: &mut Rng) -> Self {
        let port = |rng: &mut Rng| 1 + rng.below(4) as u16;
        match rng.below(6) {
            0 => Self::NotEqual(vec![port(rng)]),
            1 => Self::Above(port(rng)),
            2 => Self::Below(port(rng)),
            3 => Self::Between(port(rng), 4),
            4 => Self::Equal(vec![port(rng), port(rng), 9]),
            _ => Self::Equal(vec![port(rng)]),
        }
    }

    fn holds(&self, port: u16) -> bool {
        match self {
            Self::Equal(ports) => ports.contains(&port),
            Self::NotEqual(ports) => !ports.contains(&port),
            Self::Above(than) => port > *than,
            Self::Below(than) => port < *than,
            Self::Between(lo, hi) => (*lo..=*hi).contains(&port),
        }
    }

    fn text(&self) -> String {
        let list = |ports: &[u16]| ports.iter().map(|port| format!(" {port}")).collect::<String>();
        match self {
            Self::Equal(ports) => format!(" eq{}", list(ports)),
            Self::NotEqual(ports) => format!(" neq{}", list(ports)),
            Self::Above(than) => format!(" gt {than}"),
            Self::Below(than) => format!(" lt {than}"),
            Self::Between(lo, hi) => format!(" range {lo} {hi}"),
        }
    }
}

/// Addresses with the bits of `value`, apart from those of `wildcard`.
#[derive(Clone, Copy, Debug)]
struct Masked {
    value: u32,
    wildcard: u32,
}

impl Masked {
    fn draw(rng: &mut Rng, family: Family) -> Self {
        let holes = if family == Family::Ipv4 { [2, 5] } else { [3, 7] };
        let wildcard = [0, 1, holes[0], holes[1], 0xFF, u32::MAX, u32::MAX][rng.below(7)];
        Self { value: (0x0A00_0000 + rng.below(8) as u32) & !wildcard, wildcard }
    }

    fn holds(&self, address: u32) -> bool {
        (address ^ self.value) & !self.wildcard == 0
    }

    /// Returns one of the ways to write it, for which it may need a group.
    fn text(&self, rng: &mut Rng, groups: &mut Vec<String>, family: Family) -> String {
        if family == Family::Ipv6 {
            let len = 128 - self.wildcard.count_ones();
            return match (self.wildcard, rng.below(3)) {
                (u32::MAX, _) => " any".to_owned(),
                (0, 0) => format!(" host 2001:db8::{:x}", self.value & 0xFF),
                (_, 1) => {
                    let name = format!("G{}", groups.len());
                    groups.push(format!("object-group v6-network {name}\n 2001:db8::{:x}/{len}\n", self.value & 0xFF));
                    format!(" object-group {name}")
                }
                _ => format!(" 2001:db8::{:x}/{len}", self.value & 0xFF),
            };
        }
        let address = |bits: u32| std::net::Ipv4Addr::from(bits).to_string();
        let (value, wildcard) = (address(self.value), address(self.wildcard));
        let len = self.wildcard.leading_zeros();
        let is_prefix = self.wildcard & self.wildcard.wrapping_add(1) == 0;
        match rng.below(4) {
            0 if self.wildcard == 0 => format!(" host {value}"),
            1 if self.wildcard == u32::MAX => " any".to_owned(),
            2 if is_prefix => format!(" {value}/{len}"),
            3 if is_prefix => {
                let name = format!("G{}", groups.len());
                groups.push(format!("object-group network {name}\n {value} {}\n", address(!self.wildcard)));
                format!(" object-group {name}")
            }
            _ => format!(" {value} {wildcard}"),
        }
    }
}

/// Entry of a list.
#[derive(Clone, Debug)]
pub(super) struct Written {
    number: Option<u64>,
    permits: bool,
    proto: Option<u8>,
    /// Members of a group of services in place of the protocol.
    services: Vec<(u8, Vec<Behind>)>,
    src: Masked,
    dst: Masked,
    behind: Vec<Behind>,
    fragments: bool,
    ttl: Option<u8>,
    precedence: Option<u8>,
}

impl Written {
    fn draw(rng: &mut Rng, family: Family) -> Self {
        let services: Vec<(u8, Vec<Behind>)> = (0..if rng.below(6) == 0 { 1 + rng.below(4) } else { 0 })
            .map(|_| {
                let mut behind = Vec::new();
                behind.extend((rng.below(3) == 0).then(|| Behind::Source(Comparison::draw(rng))));
                behind.extend((rng.below(3) > 0).then(|| Behind::Destination(Comparison::draw(rng))));
                ([6, 17][rng.below(2)], behind)
            })
            .collect();
        let proto = [None, Some(6), Some(6), Some(17), Some(1), Some(50)][rng.below(6)];
        let proto = proto.filter(|_| services.is_empty());
        let mut behind = Vec::new();
        if matches!(proto, Some(6 | 17)) {
            behind.extend((rng.below(3) == 0).then(|| Behind::Source(Comparison::draw(rng))));
            behind.extend((rng.below(2) == 0).then(|| Behind::Destination(Comparison::draw(rng))));
        }
        match (proto, rng.below(6)) {
            (Some(6), 0) => behind.push(Behind::AnyFlag(0x14)),
            (Some(6), 1) => behind.push(Behind::Flags(0x12, 0x02)),
            (Some(1), 0..=2) => behind.push(Behind::Icmp([0, 3, 8][rng.below(3)], None)),
            (Some(1), 3) => behind.push(Behind::Icmp(3, Some(rng.below(2) as u8))),
            _ => {}
        }
        let fragments = behind.is_empty() && rng.below(6) == 0;
        Self {
            number: None,
            permits: rng.below(2) == 0,
            proto,
            src: Masked::draw(rng, family),
            dst: Masked::draw(rng, family),
            behind,
            fragments: fragments && services.is_empty(),
            services,
            ttl: (rng.below(8) == 0 && family == Family::Ipv4).then_some(5),
            precedence: (rng.below(8) == 0).then(|| rng.below(2) as u8),
        }
    }

    fn text(&self, rng: &mut Rng, groups: &mut Vec<String>, family: Family) -> String {
        let sequence = if family == Family::Ipv6 { "sequence " } else { "" };
        let number = self.number.map_or(String::new(), |number| format!("{sequence}{number} "));
        let action = if self.permits { "permit" } else { "deny" };
        let mut proto = match self.proto {
            None if family == Family::Ipv6 => "ipv6",
            None => "ip",
            Some(1) => "icmp",
            Some(6) => "tcp",
            Some(17) => "udp",
            Some(_) => "esp",
        }
        .to_owned();
        if !self.services.is_empty() {
            let name = format!("G{}", groups.len());
            let mut members = String::new();
            for (number, behind) in &self.services {
                members.push_str(if *number == 6 { " tcp" } else { " udp" });
                for behind in behind {
                    match behind {
                        Behind::Source(ports) => members.push_str(&format!(" source{}", ports.text())),
                        Behind::Destination(ports) => members.push_str(&ports.text()),
                        _ => unreachable!("services have ports alone"),
                    }
                }
                members.push('\n');
            }
            groups.push(format!("object-group service {name}\n{members}"));
            proto = format!("object-group {name}");
        }
        let (src, dst) = (self.src.text(rng, groups, family), self.dst.text(rng, groups, family));
        let (mut source, mut rest) = (String::new(), String::new());
        for behind in &self.behind {
            match behind {
                Behind::Source(ports) => source.push_str(&ports.text()),
                Behind::Destination(ports) => rest.push_str(&ports.text()),
                Behind::Icmp(of_type, None) => rest.push_str(&format!(" {of_type}")),
                Behind::Icmp(of_type, Some(code)) => rest.push_str(&format!(" {of_type} {code}")),
                Behind::AnyFlag(_) => rest.push_str(" established"),
                Behind::Flags(..) => rest.push_str(" match-all -ack +syn"),
            }
        }
        rest.push_str(if self.fragments { " fragments" } else { "" });
        rest.push_str(if self.ttl.is_some() { " ttl gt 5" } else { "" });
        rest.push_str(&self.precedence.map_or(String::new(), |number| format!(" precedence {number}")));
        rest.push_str(["", " log"][rng.below(2)]);
        format!(" {number}{action} {proto}{src}{source}{dst}{rest}\n")
    }

    /// Whether a router applies the entry to a packet.
    fn holds(&self, seen: &Seen) -> bool {
        let of_header = self.proto.is_none_or(|proto| proto == seen.proto)
            && self.src.holds(seen.src)
            && self.dst.holds(seen.dst)
            && self.ttl.is_none_or(|than| seen.ttl > than)
            && self.precedence.is_none_or(|number| seen.dscp >> 3 == number);
        if !of_header || self.fragments && !seen.is_later {
            return false;
        }
        let of_service =
            |(number, behind): &(u8, Vec<Behind>)| *number == seen.proto && self.holds_behind(behind, seen);
        match self.services.is_empty() {
            true => self.holds_behind(&self.behind, seen),
            false => self.services.iter().any(of_service),
        }
    }

    /// Whether a router takes conditions behind the IP header as met.
    fn holds_behind(&self, conditions: &[Behind], seen: &Seen) -> bool {
        if seen.is_later {
            // Such a packet has nothing to compare: entries that permit take it, those that deny do not.
            return conditions.is_empty() || self.permits;
        }
        conditions.iter().all(|behind| match behind {
            Behind::Source(ports) => seen.ports.is_some_and(|(sport, _)| ports.holds(sport)),
            Behind::Destination(ports) => seen.ports.is_some_and(|(_, dport)| ports.holds(dport)),
            Behind::Icmp(of_type, code) => {
                seen.icmp.is_some_and(|(t, c)| t == *of_type && code.is_none_or(|code| code == c))
            }
            Behind::AnyFlag(flags) => seen.flags & flags != 0,
            Behind::Flags(mask, value) => seen.flags & mask == *value,
        })
    }
}

/// Returns a list of a family with its text.
pub(super) fn list(rng: &mut Rng, family: Family) -> (Vec<Written>, String) {
    let mut entries: Vec<Written> = (0..1 + rng.below(8)).map(|_| Written::draw(rng, family)).collect();
    let mut numbers: Vec<u64> = (1..=entries.len() as u64).map(|number| 7 * number).collect();
    let is_numbered = rng.below(2) == 0;
    if is_numbered {
        for entry in &mut entries {
            entry.number = Some(numbers.swap_remove(rng.below(numbers.len())));
        }
    }
    let mut groups = Vec::new();
    let text: String = entries.iter().map(|entry| entry.text(rng, &mut groups, family)).collect();
    entries.sort_by_key(|entry| entry.number);
    let groups = groups.concat();
    let (before, behind) = if rng.below(2) == 0 { (&*groups, "") } else { ("", &*groups) };
    let heading = if family == Family::Ipv4 { "ip access-list extended A" } else { "ipv6 access-list A" };
    (entries, format!("{before}{heading}\n{text}!\n{behind}"))
}

/// Returns packets of every kind that the conditions tell apart.
pub(super) fn packets(rng: &mut Rng) -> Vec<Seen> {
    let mut all = Vec::new();
    for proto in [1, 6, 17, 50] {
        for _ in 0..60 {
            let is_later = rng.below(5) == 0;
            let port = |rng: &mut Rng| [0, 1, 2, 3, 4, 5, 9, 65535][rng.below(8)];
            let ports = (port(rng), port(rng));
            let icmp = ([0, 3, 8, 135][rng.below(4)], rng.below(3) as u8);
            all.push(Seen {
                src: 0x0A00_0000 + rng.below(9) as u32,
                dst: 0x0A00_0000 + rng.below(9) as u32,
                proto,
                is_later,
                ports: Some(ports).filter(|_| !is_later && matches!(proto, 6 | 17)),
                icmp: Some(icmp).filter(|_| !is_later && proto == 1),
                flags: [0, 2, 0x10, 0x12, 4, 3][rng.below(6)],
                ttl: [5, 6, 64][rng.below(3)],
                dscp: [0, 7, 8, 15, 46][rng.below(5)],
            });
        }
    }
    all
}

#[test]
fn lists_decide_as_routers_do() {
    let mut rng = Rng::new(1);
    let options = Options { format: Some(Format::Ios), max_warnings: 0, ..all_fields(Options::default()) };
    let (mut permitted, mut packets_of_entries) = (0, 0);
    for round in 0..400 {
        let family = if round % 3 == 0 { Family::Ipv6 } else { Family::Ipv4 };
        let (entries, text) = list(&mut rng, family);
        let file = parse(&text, &options).unwrap_or_else(|error| panic!("{text}\n{error}"));
        for seen in packets(&mut rng) {
            let found = entries.iter().find(|entry| entry.holds(&seen));
            // Neighbour discovery passes behind the entries of IPv6.
            let is_implicit = family == Family::Ipv6 && matches!(seen.icmp, Some((135 | 136, _)));
            let expected = if found.map_or(is_implicit, |entry| entry.permits) { "permit" } else { "deny" };
            permitted += usize::from(expected == "permit");
            packets_of_entries += usize::from(found.is_some());
            assert_eq!(verdict(&file, family, &seen.values(family)), expected, "{round}: {seen:?}\n{text}");
        }
    }
    assert!(permitted > 10_000 && packets_of_entries > 20_000, "{permitted} of {packets_of_entries}");
}
