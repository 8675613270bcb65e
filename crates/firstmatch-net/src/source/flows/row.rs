//! Row of a flow log: its values as they stand there, and the headers of a packet of the flow.

use firstmatch_core::schema::Family;
use firstmatch_formats::{parse_ipv4, parse_ipv6};

use super::super::cells::Cell;
use super::super::decimal::decimal;
use super::super::lines::Fault;
use super::FlowFormat;
use super::protocols::{self, Protocol};
use crate::wire::FlowFields;

/// Address of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Address {
    V4(u32),
    V6(u128),
}

impl Address {
    pub(super) fn family(self) -> Family {
        match self {
            Self::V4(_) => Family::Ipv4,
            Self::V6(_) => Family::Ipv6,
        }
    }

    fn value(self) -> u128 {
        match self {
            Self::V4(address) => address.into(),
            Self::V6(address) => address,
        }
    }
}

/// Number of flows, packets and bytes that a decision stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowWeight {
    /// 1, or 0 for a row of a flow that an earlier row has counted.
    pub flows: u64,
    /// Packets of the flow in this direction; 0 if the log does not state them.
    pub packets: u64,
    /// Bytes of the flow in this direction; 0 if the log does not state them.
    pub bytes: u64,
}

/// Values of a row; `None` is a value that the row lacks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RowValues {
    pub(super) src: Option<Address>,
    pub(super) dst: Option<Address>,
    pub(super) proto: Option<Protocol>,
    pub(super) ports: [Option<u16>; 2],
    pub(super) icmp: [Option<u8>; 2],
    /// TCP flags of the first packet, and of the first one back.
    pub(super) tcp_flags: [Option<u8>; 2],
    /// Whether the flow was counted by an earlier row.
    pub(super) continues: bool,
    pub(super) there: FlowWeight,
    /// Packets of the other direction, if the log has both in a row.
    pub(super) back: Option<FlowWeight>,
}

impl IcmpInPorts {
    /// Returns the form of a format.
    pub(super) fn of(format: FlowFormat) -> Self {
        match format {
            FlowFormat::Zeek => Self::Zeek,
            FlowFormat::Nfdump => Self::Nfdump,
            _ => Self::No,
        }
    }
}

/// Form in which ICMP's type and code stand in the columns of ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IcmpInPorts {
    No,
    /// Type, then code or the type of the answer.
    Zeek,
    /// Both in the destination port, as type · 256 + code.
    Nfdump,
}

impl RowValues {
    /// Sets the packets and bytes of the other direction, if a column states one of them.
    #[inline]
    pub(super) fn set_back(&mut self, [packets, bytes]: [Option<u64>; 2]) {
        if packets.is_some() || bytes.is_some() {
            self.back = Some(FlowWeight { flows: 0, packets: packets.unwrap_or(0), bytes: bytes.unwrap_or(0) });
        }
    }

    /// Whether packets came back.
    pub(super) fn has_back(&self) -> bool {
        self.back.is_some_and(|back| back.packets > 0 || back.bytes > 0)
    }

    /// Returns the fields of the first packet, or of the first one back; `None` without an address.
    #[inline]
    pub(super) fn fields(&self, form: IcmpInPorts, is_back: bool) -> Option<FlowFields> {
        let (src, dst) = (self.src?, self.dst?);
        let family = src.family();
        let icmp_number = if family == Family::Ipv4 { 1 } else { 58 };
        let proto = self.proto.map(|proto| match proto {
            Protocol::Number(number) => number,
            Protocol::Icmp => icmp_number,
        });
        let icmp = if proto == Some(icmp_number) { self.icmp_of(form, family) } else { [None; 2] };
        let (src, dst) = (src.value(), dst.value());
        if is_back {
            let ports = [self.ports[1], self.ports[0]];
            let icmp =
                icmp[0].and_then(|of_type| answer_to(of_type, family)).map_or([None; 2], |of| [Some(of), Some(0)]);
            return Some(FlowFields { family, src: dst, dst: src, proto, ports, icmp, tcp_flags: self.tcp_flags[1] });
        }
        Some(FlowFields { family, src, dst, proto, ports: self.ports, icmp, tcp_flags: self.tcp_flags[0] })
    }

    /// Returns ICMP's type and code.
    ///
    /// In Zeek the second port of a message that has an answer is the type of that answer. Such messages have the code
    /// 0. For example, `128 129` is an echo request of ICMPv6 with the code 0, and `3 4` is type 3 with code 4.
    fn icmp_of(&self, form: IcmpInPorts, family: Family) -> [Option<u8>; 2] {
        let byte = |port: u16| u8::try_from(port).ok();
        match (form, self.ports) {
            (IcmpInPorts::No, _) => self.icmp,
            (IcmpInPorts::Nfdump, [_, Some(both)]) => [Some((both >> 8) as u8), Some(both as u8)],
            (IcmpInPorts::Nfdump, [_, None]) => self.icmp,
            (IcmpInPorts::Zeek, [first, second]) => {
                let (of_type, second) = (first.and_then(byte), second.and_then(byte));
                let answer = of_type.and_then(|of_type| answer_to(of_type, family));
                [of_type, if answer.is_some() && answer == second { Some(0) } else { second }]
            }
        }
    }
}

/// Returns the type of the message that answers one of this type of ICMP or ICMPv6, or that it answers.
fn answer_to(of_type: u8, family: Family) -> Option<u8> {
    const IPV4: [(u8, u8); 5] = [(8, 0), (10, 9), (13, 14), (15, 16), (17, 18)];
    const IPV6: [(u8, u8); 6] = [(128, 129), (130, 131), (133, 134), (135, 136), (139, 140), (144, 145)];
    let pairs: &[(u8, u8)] = if family == Family::Ipv4 { &IPV4 } else { &IPV6 };
    pairs.iter().find_map(|&(ask, answer)| match of_type {
        _ if of_type == ask => Some(answer),
        _ if of_type == answer => Some(ask),
        _ => None,
    })
}

/// Whether a cell states no value.
#[inline]
pub(super) fn is_blank(cell: &Cell<'_>) -> bool {
    matches!(cell.bytes, b"" | b"-" | b"(empty)")
}

fn bad(cell: &Cell<'_>, what: &str, expected: &str) -> Fault {
    let text = String::from_utf8_lossy(cell.bytes);
    cell.fault(format!("{text} is no {what}"), expected)
}

/// Reads an address.
#[inline]
pub(super) fn address(cell: &Cell<'_>) -> Result<Option<Address>, Fault> {
    if let Some(address) = parse_ipv4(cell.bytes) {
        return Ok(Some(Address::V4(address)));
    }
    if is_blank(cell) {
        return Ok(None);
    }
    match parse_ipv6(cell.bytes) {
        Some(address) => Ok(Some(Address::V6(address))),
        None => Err(bad(cell, "address", "an address, as 10.0.0.1 or 2001:db8::1, or -")),
    }
}

/// Reads a port.
#[inline]
pub(super) fn port(cell: &Cell<'_>) -> Result<Option<u16>, Fault> {
    match decimal(cell.bytes).and_then(|port| u16::try_from(port).ok()) {
        Some(port) => Ok(Some(port)),
        None if is_blank(cell) => Ok(None),
        None => Err(bad(cell, "port", "a number up to 65535, or -")),
    }
}

/// Reads the destination port of nfdump, where type and code of ICMP may stand as `8.0`.
pub(super) fn nfdump_port(cell: &Cell<'_>) -> Result<Option<u16>, Fault> {
    let byte = |digits: &[u8]| decimal(digits).and_then(|value| u8::try_from(value).ok());
    let Some(dot) = cell.bytes.iter().position(|&byte| byte == b'.') else { return port(cell) };
    match (byte(&cell.bytes[..dot]), byte(&cell.bytes[dot + 1..])) {
        (Some(of_type), Some(code)) => Ok(Some(u16::from(of_type) << 8 | u16::from(code))),
        _ => Err(bad(cell, "port", "a number up to 65535, or type and code of ICMP with a dot between")),
    }
}

/// Reads a number of packets or bytes; a blank cell is `None`.
#[inline]
pub(super) fn count(cell: &Cell<'_>) -> Result<Option<u64>, Fault> {
    match decimal(cell.bytes) {
        Some(count) => Ok(Some(count)),
        None if is_blank(cell) => Ok(None),
        None => Err(bad(cell, "number", "a number, or -")),
    }
}

/// Reads a number of one byte: type or code of ICMP.
pub(super) fn byte(cell: &Cell<'_>) -> Result<Option<u8>, Fault> {
    match decimal(cell.bytes).and_then(|number| u8::try_from(number).ok()) {
        Some(number) => Ok(Some(number)),
        None if is_blank(cell) => Ok(None),
        None => Err(bad(cell, "type or code of ICMP", "a number up to 255, or -")),
    }
}

/// Reads a protocol by its number or its name in any case.
#[inline]
pub(super) fn protocol(cell: &Cell<'_>) -> Result<Option<Protocol>, Fault> {
    match decimal(cell.bytes) {
        Some(number @ 0..=255) => Ok(Some(Protocol::Number(number as u8))),
        Some(_) => Err(bad(cell, "protocol", "a number up to 255")),
        None if is_blank(cell) => Ok(None),
        None => protocol_by_name(cell),
    }
}

#[cold]
fn protocol_by_name(cell: &Cell<'_>) -> Result<Option<Protocol>, Fault> {
    let expected = "its number, or a name such as tcp, udp or icmp";
    protocols::by_name(cell.bytes).ok_or_else(|| bad(cell, "known protocol", expected))
}

/// Reads the TCP flags that AWS reports: all of them together, in decimal or in hexadecimal after `0x`.
///
/// ACK is there only with SYN, so that 18 is the side that answers. A flow without SYN began earlier: the flags of
/// its packets are unknown.
pub(super) fn aws_flags(cell: &Cell<'_>) -> Result<Option<u8>, Fault> {
    let number = match cell.bytes {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits),
        digits => decimal(digits),
    };
    match number.and_then(|flags| u8::try_from(flags).ok()) {
        Some(flags) if flags & SYN == 0 => Ok(None),
        Some(flags) => Ok(Some(flags & (SYN | ACK))),
        None if is_blank(cell) => Ok(None),
        None => Err(bad(cell, "TCP flags", "a number up to 255, or -")),
    }
}

pub(super) const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    let digit = |value: u64, &byte: &u8| Some(value.checked_mul(16)? | u64::from(char::from(byte).to_digit(16)?));
    if digits.is_empty() { None } else { digits.iter().try_fold(0, digit) }
}

/// Reads the TCP flags of nfdump: letters for those of all packets, such as `...AP.SF`, or a number.
///
/// SYN alone opens. With ACK the flow may be of either side, so that the flags of its first packet are unknown.
pub(super) fn nfdump_flags(cell: &Cell<'_>) -> Result<Option<u8>, Fault> {
    let letter = |flags: u8, &byte: &u8| {
        let flag = match byte {
            b'.' => 0,
            b'C' => 0x80,
            b'E' => 0x40,
            b'U' => 0x20,
            b'A' => ACK,
            b'P' => 0x08,
            b'R' => 0x04,
            b'S' => SYN,
            b'F' => 0x01,
            _ => return None,
        };
        Some(flags | flag)
    };
    let flags = match cell.bytes {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits).and_then(|flags| u8::try_from(flags).ok()),
        bytes if bytes.first().is_some_and(u8::is_ascii_digit) => decimal(bytes).and_then(|of| u8::try_from(of).ok()),
        _ if is_blank(cell) => return Ok(None),
        letters => letters.iter().try_fold(0, letter),
    };
    match flags {
        Some(flags) if flags & (SYN | ACK) == SYN => Ok(Some(SYN)),
        Some(_) => Ok(None),
        None => Err(bad(cell, "TCP flags", "letters of CEUAPRSF with dots between, as ...AP.SF")),
    }
}

/// Reads the TCP flags of Suricata, in hexadecimal: those of all packets to the server.
pub(super) fn opening_flags(cell: &Cell<'_>) -> Result<Option<u8>, Fault> {
    Ok(hexadecimal_flags(cell)?.filter(|flags| flags & SYN != 0).map(|_| SYN))
}

/// Reads the same of the packets to the client, of which the first is SYN with ACK if one is.
pub(super) fn answering_flags(cell: &Cell<'_>) -> Result<Option<u8>, Fault> {
    Ok(hexadecimal_flags(cell)?.map(|flags| flags & (SYN | ACK)).filter(|&flags| flags == SYN | ACK))
}

fn hexadecimal_flags(cell: &Cell<'_>) -> Result<Option<u8>, Fault> {
    match hexadecimal(cell.bytes).and_then(|flags| u8::try_from(flags).ok()) {
        Some(flags) => Ok(Some(flags)),
        None if is_blank(cell) => Ok(None),
        None => Err(bad(cell, "TCP flags", "two hexadecimal digits, as 1b")),
    }
}

/// Reads the protocol of Azure: `T` for TCP, `U` for UDP, or a number.
pub(super) fn azure_protocol(cell: &Cell<'_>) -> Result<Option<Protocol>, Fault> {
    match cell.bytes {
        b"T" => Ok(Some(Protocol::Number(6))),
        b"U" => Ok(Some(Protocol::Number(17))),
        _ => protocol(cell),
    }
}

/// Reads the history of a connection in Zeek: `S` is the SYN that opened it, `h` the SYN with ACK that answered.
pub(super) fn zeek_history(cell: &Cell<'_>) -> Result<[Option<u8>; 2], Fault> {
    if is_blank(cell) {
        return Ok([None; 2]);
    }
    if !cell.bytes.iter().all(|byte| byte.is_ascii_alphabetic() || *byte == b'^') {
        return Err(bad(cell, "history of a connection", "letters such as ShADadFf, or -"));
    }
    let has = |letter: u8| cell.bytes.contains(&letter);
    Ok([has(b'S').then_some(SYN), has(b'h').then_some(SYN | ACK)])
}
