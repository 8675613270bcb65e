//! Packets written by hand, for example `tcp 10.1.2.3:4040 > 192.0.2.7:443`.
//!
//! The packet is built as a frame and parsed, so that it is treated like any other packet.

use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, anyhow, bail};
use firstmatch_core::Schema;
use firstmatch_core::schema::{ExtensionHeader, Family, Field, Source};
use firstmatch_formats::native::{icmp_type_number, parse_value, protocol_number, tcp_flag};

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DCCP: u8 = 33;
const ICMPV6: u8 = 58;
const SCTP: u8 = 132;
const UDPLITE: u8 = 136;

const FORM: &str = "PROTOCOL SRC[:PORT] > DST[:PORT] [KEY VALUE]...";

/// Bits of the routing and the fragment header.
const ROUTING: u8 = 0x02;
const FRAGMENT: u8 = 0x04;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Packet {
    proto: u8,
    src: IpAddr,
    dst: IpAddr,
    ports: Option<(u16, u16)>,
    icmp_type: u8,
    icmp_code: u8,
    tcp_flags: u8,
    vlan: Option<u16>,
    ttl: u8,
    dscp: u8,
    /// Length of the IP packet that it states, unless it is that of the frame.
    length: Option<u32>,
    /// 0 for no fragment, 1 for the first, 2 for a later one.
    fragment: u8,
    /// Bits of extension headers.
    extensions: u8,
    routing_type: u8,
}

pub(super) fn parse(text: &str) -> anyhow::Result<Packet> {
    parse_words(&text.replace("->", " > ").replace('>', " > ")).with_context(|| format!("`{text}` is no packet"))
}

fn parse_words(text: &str) -> anyhow::Result<Packet> {
    let mut words = text.split_whitespace();
    let mut next = |what: &str| words.next().ok_or_else(|| anyhow!("it ends before {what}; expected {FORM}"));
    let mut word = next("the protocol")?;
    if word == "proto" {
        word = next("the protocol")?;
    }
    let proto = protocol_number(word).or_else(|| u8::try_from(number(word)?).ok());
    let proto = proto.ok_or_else(|| anyhow!("`{word}` is no protocol; expected a name such as tcp, or a number"))?;
    let (src, sport) = endpoint(next("the source")?)?;
    let arrow = next("`>`")?;
    if arrow != ">" {
        bail!("`{arrow}` stands where `>` should be; expected {FORM}");
    }
    let (dst, dport) = endpoint(next("the destination")?)?;
    if src.is_ipv4() != dst.is_ipv4() {
        bail!("{src} and {dst} are of different families");
    }
    let family = if src.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
    let echo = icmp_type_number(family, "echo-request").unwrap_or(0);
    // The defaults are those of a packet that opens a conversation: an echo request, or a TCP SYN.
    let mut packet = Packet {
        proto,
        src,
        dst,
        ports: sport.zip(dport),
        icmp_type: echo,
        icmp_code: 0,
        tcp_flags: 0x02,
        vlan: None,
        ttl: 64,
        dscp: 0,
        length: None,
        fragment: 0,
        extensions: 0,
        routing_type: 0,
    };
    let mut given = Vec::new();
    while let Some(key) = words.next() {
        if given.contains(&key) {
            bail!("`{key}` is given twice");
        }
        given.push(key);
        let value = words.next().ok_or_else(|| anyhow!("`{key}` stands without its value"))?;
        let number = || number(value).ok_or_else(|| anyhow!("`{key} {value}`: expected a number"));
        let byte = || u8::try_from(number()?).map_err(|_| anyhow!("`{key} {value}`: at most 255"));
        let is_icmp = matches!(proto, ICMP | ICMPV6);
        match key {
            "type" if is_icmp => {
                packet.icmp_type = icmp_type_number(family, value).map_or_else(byte, Ok)?;
            }
            "code" if is_icmp => packet.icmp_code = byte()?,
            "flags" if proto == TCP => {
                let flags = flags(value).or_else(|| byte().ok());
                packet.tcp_flags = flags
                    .ok_or_else(|| anyhow!("`{key} {value}`: expected flags such as syn,ack, or a number up to 255"))?;
            }
            "vlan" => {
                let id = u16::try_from(number()?).ok().filter(|&id| id < 4096);
                packet.vlan = Some(id.ok_or_else(|| anyhow!("`{key} {value}`: at most 4095"))?);
            }
            "ttl" => packet.ttl = field(Source::Ttl, family, value)? as u8,
            "dscp" => packet.dscp = field(Source::Dscp, family, value)? as u8,
            "length" => {
                let length = field(Source::Length, family, value)? as u32;
                let (least, most) = if family == Family::Ipv4 { (20, 65_535) } else { (41, 65_575) };
                if !(least..=most).contains(&length) {
                    bail!("`length {value}`: expected {least} to {most}, the bytes of an {} packet", family.pretty());
                }
                packet.length = Some(length);
            }
            "fragment" => packet.fragment = field(Source::Fragment, family, value)? as u8,
            "ext_headers" | "routing_type" if family == Family::Ipv4 => bail!("IPv4 has no `{key}`"),
            "ext_headers" => packet.extensions |= extensions(value)?,
            "routing_type" => {
                packet.routing_type = field(Source::RoutingType, family, value)? as u8;
                packet.extensions |= ROUTING;
            }
            "type" | "code" | "flags" => bail!("{word} has no `{key}`"),
            _ => bail!(
                "`{key}` is not known; expected type, code, flags, vlan, ttl, dscp, length, fragment, ext_headers or \
                 routing_type"
            ),
        }
    }
    let has_ports = matches!(proto, TCP | UDP | DCCP | SCTP | UDPLITE);
    match (has_ports, packet.is_later(), sport, dport) {
        (true, false, Some(_), Some(_)) | (_, true, None, None) | (false, _, None, None) => Ok(packet),
        (true, true, ..) => bail!("a later fragment has no ports; expected `10.1.2.3 > 192.0.2.7`"),
        (true, ..) => bail!("{word} has two ports; expected `10.1.2.3:4040 > 192.0.2.7:443` or `[2001:db8::1]:53 > …`"),
        (false, ..) => bail!("{word} has no ports"),
    }
}

/// Reads a value of a field, as rules write it.
fn field(source: Source, family: Family, text: &str) -> anyhow::Result<u128> {
    let schema = Schema::new(Some(family), vec![Field::from_source(source, family)]);
    parse_value(&schema, 0, text).map_err(|error| anyhow!("`{} {text}`: {error}", source.name()))
}

/// Reads the names of extension headers, as `hop-by-hop,routing`; returns their bits.
fn extensions(text: &str) -> anyhow::Result<u8> {
    text.split(',').try_fold(0, |all, name| match ExtensionHeader::by_name(name) {
        Some(header) => Ok(all | header.bit),
        None => {
            let names = ExtensionHeader::ALL.map(|header| header.name).join(", ");
            Err(anyhow!("`{name}` is no extension header; expected {names}, with commas between"))
        }
    })
}

/// Reads the flags that are set, by name, as `syn,ack`.
fn flags(text: &str) -> Option<u8> {
    text.split(',').try_fold(0, |all, name| Some(all | tcp_flag(name)?))
}

/// Reads a number, decimal or hexadecimal after `0x`, without a sign.
pub(super) fn number(word: &str) -> Option<u64> {
    let (digits, radix) = word.strip_prefix("0x").map_or((word, 10), |digits| (digits, 16));
    if digits.starts_with('+') { None } else { u64::from_str_radix(digits, radix).ok() }
}

/// Reads `10.0.0.1`, `10.0.0.1:80`, `2001:db8::1`, `[2001:db8::1]` or `[2001:db8::1]:80`.
fn endpoint(word: &str) -> anyhow::Result<(IpAddr, Option<u16>)> {
    if let Ok(address) = word.strip_prefix('[').and_then(|w| w.strip_suffix(']')).unwrap_or(word).parse() {
        return Ok((address, None));
    }
    let both: SocketAddr = word.parse().map_err(|_| {
        anyhow!(
            "`{word}` is neither an address nor an address and a port; expected `192.0.2.7:443` or `[2001:db8::1]:443`"
        )
    })?;
    Ok((both.ip(), Some(both.port())))
}

impl Packet {
    /// Returns the packet in an Ethernet frame.
    pub(super) fn frame(&self) -> Vec<u8> {
        let mut frame = vec![0; 12];
        if let Some(vlan) = self.vlan {
            frame.extend([0x81, 0x00]);
            frame.extend(vlan.to_be_bytes());
        }
        let (first, mut rest) = if self.src.is_ipv4() { (self.proto, Vec::new()) } else { self.chain() };
        rest.extend(self.payload());
        let length = |header: u32| self.length.unwrap_or(header + rest.len() as u32);
        match (self.src, self.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => {
                frame.extend([0x08, 0x00, 0x45, self.dscp << 2]);
                frame.extend((length(20) as u16).to_be_bytes());
                frame.extend([0, 0]);
                frame.extend([0u16, 0x2000, 1][usize::from(self.fragment)].to_be_bytes());
                frame.extend([self.ttl, first, 0, 0]);
                frame.extend(src.octets());
                frame.extend(dst.octets());
            }
            (src, dst) => {
                frame.extend([0x86, 0xdd]);
                frame.extend((0x6000 | u16::from(self.dscp) << 6).to_be_bytes());
                frame.extend([0, 0]);
                frame.extend(((length(40) - 40) as u16).to_be_bytes());
                frame.extend([first, self.ttl]);
                for address in [src, dst] {
                    let IpAddr::V6(address) = address else { continue };
                    frame.extend(address.octets());
                }
            }
        }
        frame.extend(rest);
        frame
    }

    fn is_later(&self) -> bool {
        self.fragment == 2
    }

    /// Returns the first next header and the extension headers before the transport header, the fragment header last.
    fn chain(&self) -> (u8, Vec<u8>) {
        let bits = self.extensions | if self.fragment > 0 { FRAGMENT } else { 0 };
        let has = |header: &ExtensionHeader| bits & header.bit != 0;
        let (before, last): (Vec<_>, Vec<_>) =
            ExtensionHeader::ALL.into_iter().filter(has).partition(|header| header.bit != FRAGMENT);
        let headers = [before, last].concat();
        let next: Vec<u8> = headers.iter().map(|header| header.next_header).chain([self.proto]).collect();
        let body = |(header, next): (&ExtensionHeader, &u8)| match header.bit {
            ROUTING => [*next, 0, self.routing_type, 0, 0, 0, 0, 0],
            FRAGMENT => [*next, 0, 0, [0, 1, 8][usize::from(self.fragment)], 0, 0, 0, 0],
            _ => [*next, 0, 0, 0, 0, 0, 0, 0],
        };
        (next[0], headers.iter().zip(&next[1..]).flat_map(body).collect())
    }

    /// Returns the 64 bytes after the IP header, more than is read of any transport header.
    fn payload(&self) -> Vec<u8> {
        let mut payload = vec![0; 64];
        if let Some((sport, dport)) = self.ports {
            payload[..2].copy_from_slice(&sport.to_be_bytes());
            payload[2..4].copy_from_slice(&dport.to_be_bytes());
        }
        match self.proto {
            TCP => (payload[12], payload[13]) = (5 << 4, self.tcp_flags),
            UDP | UDPLITE => payload[4..6].copy_from_slice(&64u16.to_be_bytes()),
            ICMP | ICMPV6 => (payload[0], payload[1]) = (self.icmp_type, self.icmp_code),
            _ => {}
        }
        payload
    }
}
