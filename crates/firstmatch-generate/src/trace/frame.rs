//! Writing packets with any fields as frames.

use std::io::{self, Write};

use etherparse::err::packet::BuildWriteError;
use etherparse::{
    IpDscp, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6FlowLabel, Ipv6Header, PacketBuilder,
    SingleVlanHeader, TcpHeader, VlanHeader, VlanId, VlanPcp,
};
use firstmatch_core::Schema;
use firstmatch_core::schema::{Family, Source};

use super::capture::{HOPS, MIN_FRAME, RECEIVER, SENDER, from_build, write_head, write_record};
use super::packets::{Packet, PacketTrace};
use crate::error::Error;
use crate::profile::with_ports;

/// Fields that a frame has room for.
const IN_FRAMES: [Source; 13] = [
    Source::Src,
    Source::Dst,
    Source::Proto,
    Source::SrcPort,
    Source::DstPort,
    Source::IcmpType,
    Source::IcmpCode,
    Source::TcpFlags,
    Source::VlanVid,
    Source::VlanPcp,
    Source::IpDscp,
    Source::EthSrc,
    Source::EthDst,
];

impl PacketTrace {
    /// Checks that a capture can hold the packets.
    ///
    /// A capture holds IP packets with their protocol, ports, ICMP type and code, TCP flags, one VLAN tag,
    /// differentiated services code point and Ethernet addresses. [`PacketTrace::write_table`] holds any field.
    ///
    /// # Errors
    /// If the rules test a field that a capture has no room for; the error names it.
    pub fn check_pcap(&self) -> Result<(), Error> {
        for schema in &self.schemas {
            if schema.family().is_none() {
                return Err(Error::unsupported("a capture has IP packets; the rules are of no address family"));
            }
            let held = |source: Option<Source>| source.is_some_and(|source| IN_FRAMES.contains(&source));
            if let Some(field) = schema.fields().iter().find(|field| !held(field.source())) {
                let name = field.name();
                return Err(Error::unsupported(format!("a capture has no room for the field {name}")));
            }
        }
        Ok(())
    }

    /// Writes the trace as a pcap capture of Ethernet frames, a microsecond apart.
    ///
    /// Each frame has [`MIN_FRAME`] bytes, or as many as its headers take, with correct lengths and checksums. The
    /// rules are not written.
    ///
    /// # Errors
    /// If the writer fails, or a frame cannot hold a packet ([`PacketTrace::check_pcap`]).
    pub fn write_pcap<W: Write>(&self, mut out: W) -> io::Result<()> {
        self.check_pcap().map_err(io::Error::other)?;
        write_head(&mut out)?;
        let mut bytes = Vec::new();
        for (micros, packet) in (0u64..).zip(self.iter()) {
            bytes.clear();
            let of_family = self.schemas.iter().find(|schema| schema.family() == packet.values.family);
            let schema = of_family.ok_or_else(|| io::Error::other("a packet of a family without rules"))?;
            frame(packet, schema, &mut bytes).map_err(from_build)?;
            bytes.resize(bytes.len().max(MIN_FRAME), 0);
            write_record(micros, &bytes, &mut out)?;
        }
        out.flush()
    }
}

/// Builds the frame of a packet.
fn frame(packet: &Packet, schema: &Schema, out: &mut Vec<u8>) -> Result<(), BuildWriteError> {
    let value = |source| schema.index_of_source(source).and_then(|field| packet.values.values[field]);
    let number = |source| value(source).unwrap_or(0);
    let proto = number(Source::Proto) as u8;
    let dscp = IpDscp::try_new(number(Source::IpDscp) as u8 & 0x3F).unwrap_or_default();
    let (src, dst) = (number(Source::Src), number(Source::Dst));
    let ip = match schema.family() {
        Some(Family::Ipv6) => IpHeaders::Ipv6(
            Ipv6Header {
                traffic_class: dscp.value() << 2,
                flow_label: Ipv6FlowLabel::ZERO,
                payload_length: 0,
                next_header: IpNumber(proto),
                hop_limit: HOPS,
                source: src.to_be_bytes(),
                destination: dst.to_be_bytes(),
            },
            Ipv6Extensions::default(),
        ),
        _ => IpHeaders::Ipv4(
            Ipv4Header {
                dscp,
                time_to_live: HOPS,
                protocol: IpNumber(proto),
                source: (src as u32).to_be_bytes(),
                destination: (dst as u32).to_be_bytes(),
                ..Ipv4Header::default()
            },
            Ipv4Extensions::default(),
        ),
    };
    let address = |source, default| {
        value(source).map_or(default, |address| {
            let [_, _, bytes @ ..] = (address as u64).to_be_bytes();
            bytes
        })
    };
    let ethernet = PacketBuilder::ethernet2(address(Source::EthSrc, SENDER), address(Source::EthDst, RECEIVER));
    let tagged = value(Source::VlanVid).or(value(Source::VlanPcp).map(|_| 0));
    let ip = match tagged {
        Some(vid) => ethernet
            .vlan(VlanHeader::Single(SingleVlanHeader {
                pcp: VlanPcp::try_new(number(Source::VlanPcp) as u8 & 7).unwrap_or_default(),
                vlan_id: VlanId::try_new(vid as u16 & 0xFFF).unwrap_or_default(),
                ..SingleVlanHeader::default()
            }))
            .ip(ip),
        None => ethernet.ip(ip),
    };
    let (sport, dport) = (number(Source::SrcPort) as u16, number(Source::DstPort) as u16);
    let (icmp_type, icmp_code) = (number(Source::IcmpType) as u8, number(Source::IcmpCode) as u8);
    let echo = value(Source::IcmpType).is_none();
    match (IpNumber(proto), schema.family()) {
        (IpNumber::TCP, _) => ip.tcp_header(tcp(sport, dport, value(Source::TcpFlags))).write(out, &[]),
        (IpNumber::UDP, _) => ip.udp(sport, dport).write(out, &[]),
        (IpNumber::ICMP, Some(Family::Ipv4)) => {
            ip.icmpv4_raw(if echo { 8 } else { icmp_type }, icmp_code, [0; 4]).write(out, &[])
        }
        (IpNumber::IPV6_ICMP, Some(Family::Ipv6)) => {
            ip.icmpv6_raw(if echo { 128 } else { icmp_type }, icmp_code, [0; 4]).write(out, &[])
        }
        (other, _) if with_ports(proto) => {
            let ([a, b], [c, d]) = (sport.to_be_bytes(), dport.to_be_bytes());
            ip.write(out, other, &[a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0])
        }
        (other, _) => ip.write(out, other, &[]),
    }
}

/// Returns a TCP header with the given flags; SYN without any.
fn tcp(sport: u16, dport: u16, flags: Option<u128>) -> TcpHeader {
    let set = |bit: u32| flags.unwrap_or(0x02) >> bit & 1 == 1;
    TcpHeader {
        fin: set(0),
        syn: set(1),
        rst: set(2),
        psh: set(3),
        ack: set(4),
        urg: set(5),
        ece: set(6),
        cwr: set(7),
        ..TcpHeader::new(sport, dport, 0, u16::MAX)
    }
}
