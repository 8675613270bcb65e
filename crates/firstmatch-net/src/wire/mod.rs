//! Header parsing: frames become [`Headers`], headers become rows of words.
//!
//! [`parse`] finds the headers of a frame, once, whatever the rules test. An [`Extractor`] is for one schema: it
//! returns the packet's [`Outcome`] *for that schema* and fills its row. A field that the schema lacks never makes a
//! packet unknown. A [`Batch`] does both for the schemas of a rule set and sorts packets by family.
//!
//! A schema needs all its fields, unless the rules are known: [`Batch::for_rules`] needs the fields that rules test.
//! For example, with the one rule `permit src 10.0.0.0/8` a fragment without its ports is then classified.
//! [`Batch::new`] is for rules that change while packets are read. It needs more fields than rules test, so it fails
//! closed.
//!
//! # Headers that are read
//!
//! - Ethernet with VLAN tags (0x8100, 0x88a8, 0x9100), Linux cooked captures, BSD loopback, raw IP; PPP in all its
//!   framings, Cisco HDLC, and the logs of netfilter (NFLOG) and of OpenBSD's packet filter (PFLOG).
//! - Data frames of 802.11, bare or behind a radiotap or PPI header, and 802.3 frames: IP behind 802.2 with SNAP.
//!   Encrypted frames and frames of several packets (A-MSDU) are [`Outcome::NotIp`]; later fragments of a frame are
//!   [`Outcome::Fragment`].
//! - Tags of virtual interfaces (VN-Tag, 0x8926), of port extenders (E-Tag, 0x893f) and of provider backbone bridges
//!   (0x88e7, with the frame that it carries). They count as VLAN tags to [`Config::max_vlan_tags`] alone.
//! - MPLS (0x8847, 0x8848): IP behind the stack. The labels 0 and 2 at its bottom announce IPv4 and IPv6. Behind any
//!   other label, IPv4 has a right header checksum and states no more bytes than there are, or it states all of them
//!   (less the padding of a short frame). IPv6 states a length that leaves only padding, at most 64 bytes. Otherwise
//!   the frame is [`Outcome::NotIp`]. PPPoE sessions (0x8864): IP behind PPP, no longer than PPPoE says.
//! - IPv4 with options. The total length bounds the transport header, because bytes behind it are padding. A total
//!   length of 0 (segmentation offload) means all that was captured.
//! - IPv6 with hop-by-hop, routing, destination, authentication and fragment headers in any order, as Linux walks them.
//!   The other extension headers of IANA's registry (mobility, HIP, shim6, two for experiments) are not read through:
//!   with them the packet is [`Outcome::UnknownExtension`]. Anything else, ESP among it, ends the chain and is the
//!   protocol. A payload length of 0 means all that was captured.
//! - The set of these extension headers, and the type of the routing headers, once the whole chain is known. Routing
//!   headers of several types leave the type unknown ([`Outcome::Malformed`]), because a rule would see only one.
//! - The ports of TCP, UDP, UDP-Lite, SCTP and DCCP; the flags of TCP; type and code of ICMP (in IPv4) and of ICMPv6
//!   (in IPv6).
//!
//! # Common frames
//!
//! A [`Batch`] reads most traffic without [`Headers`]. A frame is common if it is Ethernet with at most one VLAN tag
//! around IPv4 without options or IPv6 without extension headers, and no fragment. The stated length and the captured
//! bytes must hold the ports, TCP flags or ICMP type. The protocol then determines outcome, schema and places of the
//! key words, so a few loads from the frame fill the row. [`Batch::push_frames`] recognises eight frames side by side
//! if the machine has AVX2, and is the fastest. Rows, records and outcomes are equal either way. Rows with the
//! interface or the metadata are always filled from [`Headers`], because a frame holds neither.
//!
//! # OpenFlow's reading
//!
//! The header fields from [`Source::Ipv4Src`] on are those of OpenFlow 1.x, read as version 1.0 reads them:
//!
//! - They belong to the packet that the ether type behind all VLAN tags names. Behind an MPLS label or a PPP header
//!   they are absent, so the rest of such a frame makes no packet unknown. [`Source::MplsLabel`] is the outermost
//!   label.
//! - ARP for IPv4 has its protocol addresses in `ipv4_src` (sender) and `ipv4_dst` (target), and the low byte of its
//!   operation in `ip_proto`. To schemas of IP it is [`Outcome::NotIp`].
//! - IPv6 has `ip_proto`, `ip_dscp` and ports, but no IPv4 addresses. ICMP has no ports.
//! - A frame of any other ether type has none of them, and is classified. An 802.3 frame has the ether type of its SNAP
//!   header, or 0x05ff without one.
//! - For these fields a frame ends at a VN-Tag, an E-Tag or the tag of a provider backbone bridge, and has the ether
//!   type of that tag. A VLAN tag after it counts, if it is the first.
//! - If a link has no Ethernet header, its addresses are absent and the ether type is that of the IP version. Linux
//!   cooked captures keep the ether type, and the sender's address if it has 6 bytes. 802.11 has both addresses.
//! - The interface is the number that the capture gives it, or the index in the header of Linux cooked captures of
//!   version 2. The metadata is [`Config::metadata`], or the number that [`Headers::with_metadata`] sets.
//!
//! # Fragments
//!
//! A first fragment has its ports, if it is long enough for them. The ports of a later fragment are unknown, or absent
//! if the policy says [`Fragments::Layer3`]. Its protocol is known in IPv4, where fragments of different protocols
//! never meet. In IPv6 the receiver believes only the first fragment (RFC 8200, section 4.5). The protocol of a later
//! one is therefore unknown, too, unless the policy says `Layer3`.
//!
//! [`Source::Ipv4Src`]: firstmatch_core::schema::Source::Ipv4Src
//! [`Source::MplsLabel`]: firstmatch_core::schema::Source::MplsLabel

mod batch;
mod extract;
#[cfg(feature = "captures")]
mod flow;
mod frames;
mod headers;
mod ip;
mod kinds;
mod links;
mod non_ip;
mod outcome;
mod parse;
mod plan;
mod wlan;

use std::fmt;

pub use batch::{Batch, Record};
pub use extract::{Extractor, NoSource};
use firstmatch_core::policy::{Fragments, Policy};
use firstmatch_core::raw::Level;
#[cfg(feature = "captures")]
pub(crate) use flow::FlowFields;
pub use headers::{Headers, SourceSet};
pub use outcome::Outcome;
pub use parse::{parse, parse_into, parse_on};

/// Type of link header, which decides how a frame begins.
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
    /// OpenBSD loopback (108): a protocol family in network byte order.
    OpenBsdLoop,
    /// Linux cooked capture (113), the format of captures on all interfaces.
    LinuxSll,
    /// Linux cooked capture, version 2 (276).
    LinuxSll2,
    /// PPP, with the two bytes of HDLC framing or without (9).
    Ppp,
    /// PPP or Cisco HDLC in HDLC framing (50).
    PppHdlc,
    /// PPPoE session packet without Ethernet header (51).
    PppoeSession,
    /// Cisco HDLC (104).
    CiscoHdlc,
    /// 802.11 (105).
    Ieee80211,
    /// Log of OpenBSD's packet filter (117).
    Pflog,
    /// 802.11 behind a radiotap header (127).
    Radiotap,
    /// PPP with the direction in place of the address byte (166), as pppd writes it.
    PppPppd,
    /// Frame of another link type behind a PPI header (192), mostly 802.11.
    Ppi,
    /// PPP behind a byte for the direction (204).
    PppWithDirection,
    /// Log of Linux's netfilter (239).
    Nflog,
    /// Any other link type: its packets have the outcome [`Outcome::UnknownLink`].
    Other(u16),
}

impl LinkType {
    /// Returns the link type of a `LINKTYPE_` number as captures hold it.
    ///
    /// Only the low 16 bits count, because some files keep the length of the frame check sequence above them.
    pub const fn from_number(number: u32) -> Self {
        match number as u16 {
            0 => Self::Loopback,
            1 => Self::Ethernet,
            9 => Self::Ppp,
            12 | 14 | 101 => Self::Raw,
            50 => Self::PppHdlc,
            51 => Self::PppoeSession,
            104 => Self::CiscoHdlc,
            105 => Self::Ieee80211,
            108 => Self::OpenBsdLoop,
            113 => Self::LinuxSll,
            117 => Self::Pflog,
            127 => Self::Radiotap,
            166 => Self::PppPppd,
            192 => Self::Ppi,
            204 => Self::PppWithDirection,
            228 => Self::Ipv4,
            229 => Self::Ipv6,
            239 => Self::Nflog,
            276 => Self::LinuxSll2,
            other => Self::Other(other),
        }
    }

    /// Returns the `LINKTYPE_` number.
    pub const fn number(self) -> u16 {
        match self {
            Self::Loopback => 0,
            Self::Ethernet => 1,
            Self::Ppp => 9,
            Self::PppHdlc => 50,
            Self::PppoeSession => 51,
            Self::Raw => 101,
            Self::CiscoHdlc => 104,
            Self::Ieee80211 => 105,
            Self::OpenBsdLoop => 108,
            Self::LinuxSll => 113,
            Self::Pflog => 117,
            Self::Radiotap => 127,
            Self::PppPppd => 166,
            Self::Ppi => 192,
            Self::PppWithDirection => 204,
            Self::Ipv4 => 228,
            Self::Ipv6 => 229,
            Self::Nflog => 239,
            Self::LinuxSll2 => 276,
            Self::Other(number) => number,
        }
    }

    /// Returns the name of the link type; `None` if the list of common ones lacks it.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self.number() {
            0 => "BSD loopback",
            1 => "Ethernet",
            6 => "token ring",
            7 => "ARCNET",
            8 => "SLIP",
            9 => "PPP",
            10 => "FDDI",
            50 => "PPP in HDLC framing",
            51 => "PPPoE session",
            101 => "raw IP",
            104 => "Cisco HDLC",
            105 => "802.11",
            107 => "frame relay",
            108 => "OpenBSD loopback",
            113 => "Linux cooked",
            114 => "LocalTalk",
            117 => "PFLOG",
            119 => "802.11 with Prism header",
            127 => "802.11 with radiotap header",
            129 => "ARCNET of Linux",
            138 => "IP over FireWire",
            143 => "DOCSIS",
            163 => "802.11 with AVS header",
            166 => "PPP of pppd",
            187 => "Bluetooth HCI UART",
            189 | 220 => "USB of Linux",
            192 => "PPI",
            195 | 230 => "802.15.4",
            201 => "Bluetooth HCI UART with direction",
            204 => "PPP with direction",
            227 => "SocketCAN",
            228 => "IPv4",
            229 => "IPv6",
            239 => "NFLOG",
            247 => "InfiniBand",
            249 => "USBPcap",
            251 => "Bluetooth LE",
            253 => "netlink",
            276 => "Linux cooked, version 2",
            147..=162 => "private use",
            _ => return None,
        })
    }
}

impl fmt::Display for LinkType {
    /// Writes number and name, for example `link type 9, PPP`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "link type {}", self.number())?;
        self.name().map_or(Ok(()), |name| write!(f, ", {name}"))
    }
}

/// Limits of the parser, and values that it adds to packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Treatment of fragments other than the first.
    pub fragments: Fragments,
    /// Maximum number of extension headers of an IPv6 packet; with more it is unknown ([`Outcome::ExtensionCap`]).
    pub max_extension_headers: usize,
    /// Maximum number of tags of a frame; with more it is unknown ([`Outcome::VlanCap`]).
    pub max_vlan_tags: usize,
    /// Maximum number of MPLS labels that are read through.
    ///
    /// A frame with more is unknown to schemas of IP ([`Outcome::MplsCap`]).
    pub max_mpls_labels: usize,
    /// Value of [`Source::Metadata`](firstmatch_core::schema::Source::Metadata) in every packet.
    pub metadata: u64,
    /// Best instruction set that a [`Batch`] recognises common frames with; `None` allows all that the machine has.
    pub simd: Option<Level>,
}

impl Default for Config {
    /// Returns fragments unknown, 8 extension headers, 4 VLAN tags, 8 MPLS labels and metadata 0.
    fn default() -> Self {
        Self {
            fragments: Fragments::Unknown,
            max_extension_headers: 8,
            max_vlan_tags: 4,
            max_mpls_labels: 8,
            metadata: 0,
            simd: None,
        }
    }
}

impl From<&Policy> for Config {
    fn from(policy: &Policy) -> Self {
        Self { fragments: policy.fragments, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_of_link_types_agree() {
        for number in 0..=u16::MAX {
            let link = LinkType::from_number(number.into());
            assert!(link.number() == number || link == LinkType::Raw, "{link:?}");
            assert!(matches!(link, LinkType::Other(_)) || link.name().is_some(), "{link:?}");
        }
        assert_eq!(
            [9, 300].map(|number| LinkType::from_number(number).to_string()),
            ["link type 9, PPP", "link type 300"]
        );
    }
}
