//! Header parsing: frames become [`Headers`], headers become rows of lanes.
//!
//! [`parse`] finds what is there, once, whatever the rules ask for. An [`Extractor`] knows one schema: it says what
//! the packet's [`Outcome`] is *for that schema* (a field that the schema does not ask for never makes a packet
//! unknown) and fills its row. A [`Batch`] does both for the schemas of a rule set and sorts packets by family.
//!
//! A schema asks for all its fields, unless the rules are known: [`Batch::for_rules`] asks for the fields that rules
//! test. With the one rule `permit src 10.0.0.0/8` a fragment without its ports is then classified. For rules that
//! change while packets are read it is [`Batch::new`], which asks for more than rules test and so fails closed.
//!
//! # What is read
//!
//! - Ethernet with VLAN tags (0x8100, 0x88a8, 0x9100), Linux cooked captures, BSD loopback, raw IP.
//! - MPLS (0x8847, 0x8848): behind the stack IP by its first nibble. PPPoE sessions (0x8864): IP behind PPP, no longer
//!   than PPPoE says.
//! - IPv4 with options. The total length bounds the transport header: bytes behind it are padding. A total length of
//!   0 (segmentation offload) means all that was captured.
//! - IPv6 with hop-by-hop, routing, destination, authentication and fragment headers in any order, as Linux walks
//!   them. The other extension headers of IANA's registry (mobility, HIP, shim6, two for experiments) are not read
//!   through: with them the packet is [`Outcome::UnknownExtension`]. Anything else, ESP among it, ends the chain and is
//!   the protocol. A payload length of 0 means all that was captured.
//! - Which of these headers there are, and the type of the routing headers, once the whole chain is known. Routing
//!   headers of several types leave the type unknown ([`Outcome::Malformed`]), because a rule would see only one.
//! - The ports of TCP, UDP, UDP-Lite, SCTP and DCCP; the flags of TCP; type and code of ICMP (in IPv4) and of ICMPv6
//!   (in IPv6).
//!
//! # As OpenFlow reads it
//!
//! The header fields from [`Source::Ipv4Src`] on are those of OpenFlow 1.x, with the reading of version 1.0:
//!
//! - They are of the packet that the ether type behind all VLAN tags names. Behind an MPLS label or a PPP header they
//!   are absent, so the rest of such a frame makes no packet unknown; [`Source::MplsLabel`] is the outermost.
//! - ARP for IPv4 has its protocol addresses in `ipv4_src` (sender) and `ipv4_dst` (target), and the low byte of its
//!   operation in `ip_proto`. To schemas of IP it is [`Outcome::NotIp`].
//! - IPv6 has `ip_proto`, `ip_dscp` and ports, but no IPv4 addresses. ICMP has no ports.
//! - A frame of any other ether type has none of them, and is classified. An 802.3 frame has no ether type either:
//!   LLC and SNAP are not read.
//! - Where a link has no Ethernet header, its addresses are absent and the ether type is that of the IP version. Linux
//!   cooked captures keep the ether type, and the sender's address where it has 6 bytes.
//! - The interface is the number that the capture gives it, or the index in the header of Linux cooked captures of
//!   version 2. The metadata are [`Config::metadata`], or what [`Headers::with_metadata`] puts there.
//!
//! # Fragments
//!
//! A first fragment has its ports, if it is long enough for them. A later one has not: they are unknown, or absent
//! where the policy says [`Fragments::Layer3`]. Its protocol is known in IPv4, where fragments of different protocols
//! never meet. In IPv6 the receiver believes the first fragment alone (RFC 8200, section 4.5), so the protocol of a
//! later one is unknown too, unless the policy says `Layer3`.
//!
//! [`Source::Ipv4Src`]: firstmatch::schema::Source::Ipv4Src
//! [`Source::MplsLabel`]: firstmatch::schema::Source::MplsLabel

mod batch;
mod extract;
mod headers;
mod non_ip;
mod outcome;
mod parse;

pub use batch::{Batch, Record};
pub use extract::{Extractor, NoSource};
use firstmatch::policy::{Fragments, Policy};
pub use headers::{Headers, SourceSet};
pub use outcome::Outcome;
pub use parse::{parse, parse_into, parse_on};

/// What a frame starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// Ethernet (1).
    Ethernet,
    /// IPv4 or IPv6, by the version nibble (101, and the 12 and 14 that some systems write).
    Raw,
    /// IPv4 (228).
    Ipv4,
    /// IPv6 (229).
    Ipv6,
    /// BSD loopback (0): a protocol family in the byte order of the machine that wrote it.
    Loopback,
    /// OpenBSD loopback (108): the same in network order.
    OpenBsdLoop,
    /// Linux cooked capture (113), what capturing on all interfaces gives.
    LinuxSll,
    /// Linux cooked capture, version 2 (276).
    LinuxSll2,
    /// Any other: its packets have the outcome [`Outcome::UnknownLink`].
    Other(u16),
}

impl LinkType {
    /// The link type of a `LINKTYPE_` number as captures hold it. Only the low 16 bits count: above them some files
    /// keep the length of the frame check sequence.
    pub const fn from_number(number: u32) -> Self {
        match number as u16 {
            0 => Self::Loopback,
            1 => Self::Ethernet,
            12 | 14 | 101 => Self::Raw,
            108 => Self::OpenBsdLoop,
            113 => Self::LinuxSll,
            228 => Self::Ipv4,
            229 => Self::Ipv6,
            276 => Self::LinuxSll2,
            other => Self::Other(other),
        }
    }

    /// The `LINKTYPE_` number.
    pub const fn number(self) -> u16 {
        match self {
            Self::Loopback => 0,
            Self::Ethernet => 1,
            Self::Raw => 101,
            Self::OpenBsdLoop => 108,
            Self::LinuxSll => 113,
            Self::Ipv4 => 228,
            Self::Ipv6 => 229,
            Self::LinuxSll2 => 276,
            Self::Other(number) => number,
        }
    }
}

/// How far the parser goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// What becomes of fragments other than the first.
    pub fragments: Fragments,
    /// The most extension headers of an IPv6 packet; one with more is unknown ([`Outcome::ExtensionCap`]).
    pub max_extension_headers: usize,
    /// The most VLAN tags of a frame; one with more is unknown ([`Outcome::VlanCap`]).
    pub max_vlan_tags: usize,
    /// The most MPLS labels of a frame that are read through; one with more is unknown to schemas of IP
    /// ([`Outcome::MplsCap`]).
    pub max_mpls_labels: usize,
    /// What every packet has in [`Source::Metadata`](firstmatch::schema::Source::Metadata).
    pub metadata: u64,
}

impl Default for Config {
    /// Fragments unknown, 8 extension headers, 4 VLAN tags, 8 MPLS labels, metadata 0.
    fn default() -> Self {
        Self {
            fragments: Fragments::Unknown,
            max_extension_headers: 8,
            max_vlan_tags: 4,
            max_mpls_labels: 8,
            metadata: 0,
        }
    }
}

impl From<&Policy> for Config {
    fn from(policy: &Policy) -> Self {
        Self { fragments: policy.fragments, ..Self::default() }
    }
}
