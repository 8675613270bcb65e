//! Headers of a flow, as far as a flow log states them.

use firstmatch_core::schema::{Family, IPV6_EXTENSIONS, Source};

use super::headers::{DST, ETH_TYPE, ICMP, NET, PORTS, PROTO, SRC, TCP_FLAGS};
use super::{Headers, Outcome, SourceSet};

/// Fields of a flow's first packet; `None` is a field that the log leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowFields {
    pub(crate) family: Family,
    pub(crate) src: u128,
    pub(crate) dst: u128,
    pub(crate) proto: Option<u8>,
    /// Source port and destination port.
    pub(crate) ports: [Option<u16>; 2],
    /// Type and code.
    pub(crate) icmp: [Option<u8>; 2],
    pub(crate) tcp_flags: Option<u8>,
}

/// Protocols of packets with ports.
const fn has_ports(proto: u8) -> bool {
    matches!(proto, 6 | 17 | 33 | 132 | 136)
}

impl Headers {
    /// Returns the headers of a flow.
    ///
    /// The protocol decides which of ports, ICMP type and TCP flags a packet has, whatever the log states: others are
    /// absent. For example, logs state port 0 for ICMP. Without a protocol all of them are unknown. An extension header
    /// of IPv6 is no protocol. A log states nothing of fragments, VLANs, DSCP and interfaces, so these are unknown.
    #[inline]
    pub(crate) fn of_flow(flow: &FlowFields, metadata: u64) -> Self {
        const METADATA_ONLY: SourceSet = SourceSet::of(&[Source::Metadata]);
        const IP: SourceSet = SourceSet::ADDRESSES.union(SourceSet::of(&[Source::EthType]));
        const IPV4: SourceSet = SourceSet::of(&[Source::Ipv4Src, Source::Ipv4Dst]);
        const MPLS: SourceSet = SourceSet::of(&[Source::MplsLabel, Source::MplsTc]);
        let mut headers = Self::new(0, metadata);
        headers.present = METADATA_ONLY.union(IP);
        headers.reason = Outcome::LacksField;
        headers.family = Some(flow.family);
        headers.put_address(SRC, flow.src);
        headers.put_address(DST, flow.dst);
        if flow.family == Family::Ipv4 {
            headers.words[ETH_TYPE] = 0x0800;
            headers.present = headers.present.union(IPV4);
            headers.absent = SourceSet::EXTENSIONS.union(MPLS);
        } else {
            headers.words[ETH_TYPE] = 0x86dd;
            headers.absent = IPV4.union(MPLS);
        }
        let is_extension = |proto: u8| flow.family == Family::Ipv6 && IPV6_EXTENSIONS.contains(&proto);
        if let Some(proto) = flow.proto.filter(|&proto| !is_extension(proto)) {
            headers.words[NET] = proto.into();
            headers.present = headers.present.union(PROTO);
            headers.put_upper(flow, proto);
        }
        headers
    }

    /// Sets the fields behind the IP header of a packet of this protocol.
    #[inline]
    fn put_upper(&mut self, flow: &FlowFields, proto: u8) {
        const SOURCE: SourceSet = SourceSet::of(&[Source::SrcPort, Source::TpSrc]);
        const DESTINATION: SourceSet = SourceSet::of(&[Source::DstPort, Source::TpDst]);
        const TYPE: SourceSet = SourceSet::of(&[Source::IcmpType]);
        const CODE: SourceSet = SourceSet::of(&[Source::IcmpCode]);
        const FLAGS: SourceSet = SourceSet::of(&[Source::TcpFlags]);
        let mut lacks = SourceSet::UPPER;
        if has_ports(proto) {
            lacks = lacks.minus(SourceSet::PORTS);
            self.put_if(flow.ports[0], SOURCE);
            self.put_if(flow.ports[1], DESTINATION);
            let [source, destination] = flow.ports.map(|port| u32::from(port.unwrap_or(0)));
            self.words[PORTS] = source << 16 | destination;
        }
        if proto == 6 {
            lacks = lacks.minus(FLAGS);
            self.put_if(flow.tcp_flags, FLAGS);
            self.words[TCP_FLAGS] = flow.tcp_flags.unwrap_or(0).into();
        }
        if proto == if flow.family == Family::Ipv4 { 1 } else { 58 } {
            lacks = lacks.minus(SourceSet::ICMP);
            self.put_if(flow.icmp[0], TYPE);
            self.put_if(flow.icmp[1], CODE);
            let [of_type, code] = flow.icmp.map(|value| u32::from(value.unwrap_or(0)));
            self.words[ICMP] = of_type << 8 | code;
        }
        self.absent = self.absent.union(lacks);
    }

    /// Marks fields as present if there is a value.
    #[inline]
    fn put_if<T>(&mut self, value: Option<T>, fields: SourceSet) {
        if value.is_some() {
            self.present = self.present.union(fields);
        }
    }
}
