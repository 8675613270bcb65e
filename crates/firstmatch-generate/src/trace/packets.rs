//! Traces of packets with every field that rules test.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::rule::{FieldValues, Region};
use firstmatch_core::schema::{ExtensionHeader, Family, Field, IPV6_EXTENSIONS, Source};
use firstmatch_core::{RuleSet, Schema};

use super::search::Sample;
use super::view::{Content, View};
use super::{Config, Covered, walk};
use crate::error::Error;
use crate::random::Random;

const TCP: u128 = 6;
const UDP: u128 = 17;

/// Packet with a value for each field of the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Values in the order of the schema; `None` where the packet lacks the field.
    pub values: FieldValues,
    /// 0-based place in the set of the first rule that matches.
    pub rule: Option<u32>,
}

/// Trace of packets with every field that the rules test: packets in order, some of them several times.
#[derive(Clone, Debug, PartialEq)]
pub struct PacketTrace {
    pub(super) schemas: Vec<Schema>,
    packets: Vec<Packet>,
    /// Indices into `packets`.
    order: Vec<u32>,
    times: Option<Vec<f64>>,
    covered: Covered,
}

/// Generates a trace for a set over any fields.
///
/// [`generate`](super::generate) makes headers of the 5-tuple; these packets have a value for each field, for example
/// ICMP types, TCP flags and VLAN identifiers. [`Config::form`] is not read. A packet has exactly the fields that its
/// protocol and its ether type give it: a UDP packet has ports but no TCP flags. Rules that match no such packet count
/// as given up.
///
/// # Errors
/// As [`generate`](super::generate), but any field is taken.
///
/// ```
/// use firstmatch_generate::trace;
///
/// let text = "permit icmp icmp_type 8\ndeny tcp tcp_flags 0x02/0x12\npermit vlan_vid 7\n";
/// let set = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let packets = trace::packets(&set, &trace::Config { headers: 100, ..Default::default() })?;
/// assert_eq!((packets.len(), packets.coverage().hit), (100, 3));
/// let mut table = Vec::new();
/// packets.write_table(&mut table)?;
/// assert!(table.starts_with(b"src,dst,sport,dport,proto,"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn packets(set: &RuleSet, config: &Config) -> Result<PacketTrace, Error> {
    config.check()?;
    let views = View::all(set, Content::Every)?;
    let (packets, order, times, covered) = walk(set, config, &views)?;
    Ok(PacketTrace { schemas: set.schemas().to_vec(), packets, order, times, covered })
}

impl PacketTrace {
    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there is no packet; a trace always has one.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Iterates over the packets in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Packet> {
        self.order.iter().map(|&at| &self.packets[at as usize])
    }

    /// Returns the time of each packet, in seconds; only for [`Locality::Flows`](super::Locality::Flows).
    pub fn times(&self) -> Option<&[f64]> {
        self.times.as_deref()
    }

    /// Returns the coverage of the rules.
    pub fn coverage(&self) -> &Covered {
        &self.covered
    }

    /// Writes the trace as a table of header fields, as `firstmatch classify` reads it.
    ///
    /// The first line names the fields of the schema, each other line is a packet. Numbers are decimal, addresses have
    /// dots or colons, and an absent field is empty. The rules are not written.
    ///
    /// # Errors
    /// If the writer fails.
    pub fn write_table<W: Write>(&self, mut out: W) -> io::Result<()> {
        let fields = self.schemas.first().map_or(&[][..], Schema::fields);
        let names: Vec<&str> = fields.iter().map(Field::name).collect();
        writeln!(out, "{}", names.join(","))?;
        for packet in self.iter() {
            let of_family = self.schemas.iter().find(|schema| schema.family() == packet.values.family);
            let fields = of_family.map_or(fields, Schema::fields);
            for (at, (field, value)) in fields.iter().zip(&packet.values.values).enumerate() {
                let comma = if at > 0 { "," } else { "" };
                match (value, is_address(field), field.width()) {
                    (None, ..) => write!(out, "{comma}")?,
                    (Some(value), true, 32) => write!(out, "{comma}{}", Ipv4Addr::from(*value as u32))?,
                    (Some(value), true, 128) => write!(out, "{comma}{}", Ipv6Addr::from(*value))?,
                    (Some(value), ..) => write!(out, "{comma}{value}")?,
                }
            }
            writeln!(out)?;
        }
        out.flush()
    }
}

fn is_address(field: &Field) -> bool {
    matches!(field.source(), Some(Source::Src | Source::Dst | Source::Ipv4Src | Source::Ipv4Dst))
}

impl Sample for Packet {
    fn blank() -> Self {
        Self { values: FieldValues { family: None, values: Vec::new() }, rule: None }
    }

    fn of_row(view: &View, row: &[u32], rule: Option<u32>) -> Self {
        let values = (0..view.columns.len()).map(|field| view.field(field, row)).collect();
        Self { values: FieldValues { family: view.family, values }, rule }
    }

    fn matched(&self) -> Option<u32> {
        self.rule
    }
}

impl View {
    /// Returns the value of a field; `None` for absent.
    fn field(&self, field: usize, row: &[u32]) -> Option<u128> {
        let words = self.lowered.schema().words();
        self.columns[field].clone().try_fold(0, |value, word| {
            let here = words[word];
            (here.absent != Some(row[word])).then_some(value | u128::from(row[word]) << here.shift)
        })
    }

    /// Sets a field; `None` is absent, and does nothing to a field that is never absent.
    fn set_field(&self, field: usize, value: Option<u128>, row: &mut [u32]) {
        let (words, columns) = (self.lowered.schema().words(), self.columns[field].clone());
        if value.is_none() && words[columns.start].absent.is_none() {
            return;
        }
        for word in columns {
            let here = words[word];
            let part = |value: u128| value.checked_shr(here.shift).unwrap_or(0) as u32 & here.bits;
            row[word] = value.map_or(here.absent.unwrap_or(0), part);
        }
    }

    fn source(&self, field: usize) -> Option<Source> {
        self.lowered.schema().fields()[field].source()
    }

    fn with_source(&self, is: impl Fn(Source) -> bool) -> Option<usize> {
        (0..self.columns.len()).find(|&field| self.source(field).is_some_and(&is))
    }

    /// Gives fields that the region leaves open the values that packets often have.
    pub(super) fn choose_common(&self, region: Region<'_>, random: &mut Random, row: &mut [u32]) {
        let is_open = |field: usize| {
            let max = |word: usize| self.lowered.schema().words()[word].max;
            self.columns[field].clone().all(|word| region.lo[word] == 0 && region.hi[word] >= max(word))
        };
        // A region needs the field if it does not hold absence.
        let needs = |field: &usize| {
            let top = self.columns[*field].start;
            let absent = self.lowered.schema().words()[top].absent;
            absent.is_some_and(|absent| region.hi[top] < absent)
        };
        let fields = || 0..self.columns.len();
        for field in fields().filter(|&field| is_open(field)) {
            let Some(source) = self.source(field) else { continue };
            let value: Option<u128> = match source {
                Source::Proto | Source::IpProto => {
                    let wanted = fields().filter(needs).find_map(|other| self.source(other)?.protocols(self.family));
                    Some(match wanted {
                        // The first two are the common ones, as TCP and UDP.
                        Some(wanted) => wanted[random.index(wanted.len().min(2))].into(),
                        None => {
                            let icmp = if self.family == Some(Family::Ipv6) { 58 } else { 1 };
                            let other = random.below(256).into();
                            [TCP, TCP, TCP, UDP, UDP, UDP, icmp, other][random.index(8)]
                        }
                    })
                }
                Source::EthType => {
                    let wanted = fields().filter(needs).find_map(|other| self.source(other)?.ether_types());
                    Some(match wanted {
                        Some(wanted) => wanted[random.index(wanted.len())].into(),
                        None => [0x0800, 0x0800, 0x0800, 0x86DD, 0x0806][random.index(5)],
                    })
                }
                Source::TcpFlags => Some([0x02, 0x12, 0x10, 0x10, 0x18, 0x11][random.index(6)]),
                Source::IcmpType if self.family == Some(Family::Ipv6) => Some([128, 129, 1, 135][random.index(4)]),
                Source::IcmpType => Some([8, 0, 3, 11][random.index(4)]),
                Source::IcmpCode | Source::ExtHeaders => Some(0),
                Source::VlanVid | Source::VlanPcp | Source::MplsLabel | Source::MplsTc if random.coin() => None,
                _ => continue,
            };
            self.set_field(field, value, row);
        }
    }

    /// Changes a row to one that a packet can have: each field present or absent as the others say.
    pub(super) fn settle_fields(&self, row: &mut [u32]) {
        let ether = self.with_source(|source| source == Source::EthType);
        let protocol = self.with_source(Source::is_protocol);
        // The protocol comes before the fields that depend on it.
        let order = protocol.into_iter().chain((0..self.columns.len()).filter(|&field| Some(field) != protocol));
        for field in order {
            let Some(source) = self.source(field) else { continue };
            let mut has = None;
            if let (Some(types), Some(ether)) = (source.ether_types(), ether) {
                has = Some(self.field(ether, row).is_some_and(|found| types.iter().any(|&of| found == of.into())));
            }
            if let (Some(numbers), Some(protocol)) = (source.protocols(self.family), protocol) {
                let of = self.field(protocol, row);
                has =
                    Some(has != Some(false) && of.is_some_and(|of| numbers.iter().any(|&number| of == number.into())));
            }
            if let (Some(only), Some(family)) = (source.family(), self.family) {
                has = Some(only == family);
            }
            let before = match source {
                Source::VlanPcp => self.with_source(|source| source == Source::VlanVid),
                Source::MplsTc => self.with_source(|source| source == Source::MplsLabel),
                _ => None,
            };
            if let Some(before) = before {
                has = Some(self.field(before, row).is_some());
            }
            let extensions = self.with_source(|source| source == Source::ExtHeaders);
            if let (Source::RoutingType, Some(extensions)) = (source, extensions) {
                let found = self.field(extensions, row).unwrap_or(0);
                has =
                    Some(ExtensionHeader::by_name("routing").is_some_and(|header| found & u128::from(header.bit) != 0));
            }
            match (has, self.field(field, row)) {
                (Some(false), Some(_)) => self.set_field(field, None, row),
                (Some(true), None) => {
                    let top = self.columns[field].start;
                    row[top] = self.lowered.schema().words()[top].absent.map_or(row[top], |absent| absent - 1);
                }
                _ => {}
            }
            if source == Source::Proto && self.family == Some(Family::Ipv6) {
                let found = self.field(field, row).and_then(|found| u8::try_from(found).ok());
                if found.is_some_and(|found| IPV6_EXTENSIONS.contains(&found)) {
                    self.set_field(field, Some(TCP), row);
                }
            }
        }
    }
}
