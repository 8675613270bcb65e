//! Reader of pcapng's blocks.

use pcap_parser::{Block, EPB_MAGIC, IDB_MAGIC, SPB_MAGIC, parse_block_be, parse_block_le};

use super::SourceError;
use super::reader::{Found, Reader};
use super::time::{Clock, Stamp};
use crate::wire::LinkType;

/// Type of the packet block that pcapng had before the enhanced one.
const OBSOLETE_PACKET: u32 = 2;
/// Major version of the pcapng format that is read.
const MAJOR: u16 = 1;
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Option of an interface that states the length of the frame check sequence.
const IF_FCSLEN: u16 = 13;
/// Option of an interface that states the resolution of its timestamps.
const IF_TSRESOL: u16 = 9;
/// Resolution of an interface that states none.
const MICROSECONDS: u8 = 6;
/// Option of an interface that states the seconds to add to its timestamps.
const IF_TSOFFSET: u16 = 14;
/// Maximum number of interfaces of a section, bounded because no other memory grows with a file.
const MAX_INTERFACES: usize = 1 << 16;

/// State of one section: its byte order and its interfaces.
#[derive(Debug, Default)]
pub(super) struct Section {
    big_endian: bool,
    interfaces: Vec<Interface>,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: LinkType,
    /// Maximum number of bytes captured of a packet; 0 if there is no limit.
    snaplen: u32,
    /// Length in bytes of the frame check sequence that each packet ends with.
    check_bytes: usize,
    clock: Clock,
}

/// Content of a block that was read.
enum Step {
    Packet(Captured),
    /// Simple packet: it has no time and belongs to the first interface, whose snapshot length bounds it.
    Simple {
        original_len: u32,
        room: usize,
    },
    Interface(Interface),
    Section {
        major: u16,
        minor: u16,
    },
    Skip,
}

/// Packet of a block.
struct Captured {
    interface: u32,
    /// Offset of the packet in its block, in bytes.
    at: usize,
    len: usize,
    original_len: u32,
    /// Time in units of the interface's clock.
    timestamp: Option<u64>,
}

impl Section {
    /// Returns the next packet, skipping the blocks before it.
    pub(super) fn advance(&mut self, reader: &mut Reader) -> Result<Option<Found>, SourceError> {
        loop {
            if !reader.window.need(12)? {
                return reader.end(true, 12);
            }
            let Some(head) = reader.window.bytes().first_chunk::<12>() else { return reader.end(true, 12) };
            let [a, b, c, d, e, f, g, h, order @ ..] = *head;
            if [a, b, c, d] == SECTION_HEADER {
                self.big_endian = match order {
                    [0x1a, 0x2b, 0x3c, 0x4d] => true,
                    [0x4d, 0x3c, 0x2b, 0x1a] => false,
                    _ => return Err(reader.error("expected a section header with a byte-order magic".to_owned())),
                };
            }
            let (kind, len) = (self.number([a, b, c, d]), self.number([e, f, g, h]));
            if len < 12 {
                return Err(reader.error(format!("this block claims to take {len} bytes; expected at least 12")));
            }
            let held =
                [a, b, c, d] == SECTION_HEADER || matches!(kind, IDB_MAGIC | EPB_MAGIC | SPB_MAGIC | OBSOLETE_PACKET);
            if !held {
                let begin = reader.window.offset();
                if !reader.window.skip(len.into())? {
                    let passed = reader.window.offset() - begin;
                    let what = format!("what begins there takes {len} bytes or more, {passed} are left");
                    let what = reader.window.fault().map_or(what, str::to_owned);
                    reader.cut(begin, what);
                    return Ok(None);
                }
                continue;
            }
            let len = len as usize;
            if len > reader.max_record {
                return Err(reader.too_long(len as u64));
            }
            if !reader.window.need(len)? {
                return reader.end(false, len as u64);
            }
            let block = reader.window.bytes().get(..len).unwrap_or_default();
            let last = block.last_chunk().map(|last| self.number(*last) as usize);
            if last != Some(len) {
                return Err(reader.error(format!("this block begins with the length {len} and ends with another")));
            }
            let step = match kind {
                EPB_MAGIC | OBSOLETE_PACKET => self.read_packet(kind, block),
                _ => self.read(block),
            };
            let Some(step) = step else {
                return Err(reader.error(format!("the fields of this block (kind {kind:#x}) contradict its length")));
            };
            let Some(Captured { interface, at, len: captured, original_len, timestamp }) = self.take(step, reader)?
            else {
                reader.window.consume(len);
                continue;
            };
            let Some(&Interface { link, check_bytes, ref clock, .. }) = self.interfaces.get(interface as usize) else {
                let count = self.interfaces.len();
                return Err(reader.error(format!(
                    "it names interface {interface}; expected one of the {count} that the section describes before it"
                )));
            };
            let time = timestamp.map_or(Stamp::NONE, |timestamp| clock.at(timestamp));
            let start = reader.window.place() + at;
            reader.window.consume(len);
            let found = Found { link, interface, start, len: captured, original_len, time };
            return Ok(Some(found.without_check(check_bytes)));
        }
    }

    fn number(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    fn signed(&self, bytes: [u8; 8]) -> i64 {
        if self.big_endian { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) }
    }

    /// Reads one whole block that [`Section::read_packet`] does not; `None` if it contradicts itself.
    fn read(&self, block: &[u8]) -> Option<Step> {
        let parse = if self.big_endian { parse_block_be } else { parse_block_le };
        Some(match parse(block).ok()?.1 {
            Block::SimplePacket(packet) => Step::Simple { original_len: packet.origlen, room: packet.data.len() },
            Block::InterfaceDescription(interface) => {
                let link = LinkType::from_number(interface.linktype.0.cast_unsigned());
                let values = |code| interface.options.iter().filter(move |option| option.code.0 == code);
                let byte = |code| values(code).find_map(|option| option.value.first().copied());
                let stated = byte(IF_FCSLEN).map_or(0, usize::from);
                // The specification counts bits, most programs write bytes. A value of 16 or more is bits, because no
                // check sequence has 16 bytes.
                let check_bytes = if stated >= 16 { stated / 8 } else { stated };
                // The parser's own field for it has the wrong byte order in big-endian sections.
                let offset = values(IF_TSOFFSET).find_map(|option| option.value.first_chunk().copied());
                let offset = offset.map_or(0, |bytes| self.signed(bytes));
                let clock = Clock { resolution: byte(IF_TSRESOL).unwrap_or(MICROSECONDS), offset };
                Step::Interface(Interface { link, snaplen: interface.snaplen, check_bytes, clock })
            }
            Block::SectionHeader(section) => {
                Step::Section { major: section.major_version, minor: section.minor_version }
            }
            _ => Step::Skip,
        })
    }

    /// Reads a packet block, enhanced or obsolete; `None` if it contradicts itself.
    ///
    /// This is faster than the parser, which looks at every option of each packet.
    ///
    /// | bytes | content |
    /// |---|---|
    /// | 0 to 7 | kind and length of the block |
    /// | 8 to 11 | interface; in an obsolete block 2 bytes, then the number of packets dropped |
    /// | 12 to 19 | time, the upper half first |
    /// | 20 to 23 | number of bytes captured |
    /// | 24 to 27 | length on the wire |
    /// | from 28 | packet, options, and the length of the block again in the last 4 bytes |
    #[inline]
    fn read_packet(&self, kind: u32, block: &[u8]) -> Option<Step> {
        let (head, rest) = block.split_first_chunk::<28>()?;
        let &[_, _, interface, high, low, len, original_len] = head.as_chunks().0 else { return None };
        let (len, original_len) = (self.number(len) as usize, self.number(original_len));
        let (interface, padded) = if kind == OBSOLETE_PACKET {
            let [i, j, ..] = interface;
            let number = if self.big_endian { u16::from_be_bytes([i, j]) } else { u16::from_le_bytes([i, j]) };
            (number.into(), len)
        } else {
            (self.number(interface), len.checked_next_multiple_of(4)?)
        };
        let timestamp = u64::from(self.number(high)) << 32 | u64::from(self.number(low));
        let fits = padded <= rest.len().checked_sub(4)?;
        fits.then_some(Step::Packet(Captured { interface, at: 28, len, original_len, timestamp: Some(timestamp) }))
    }

    /// Applies a block, and returns its packet if it is one.
    #[inline]
    fn take(&mut self, step: Step, reader: &Reader) -> Result<Option<Captured>, SourceError> {
        match step {
            Step::Packet(packet) => return Ok(Some(packet)),
            Step::Simple { original_len, room } => {
                let snaplen = self.interfaces.first().map_or(0, |interface| interface.snaplen);
                let limit = if snaplen == 0 { original_len } else { original_len.min(snaplen) };
                let len = room.min(limit as usize);
                return Ok(Some(Captured { interface: 0, at: 12, len, original_len, timestamp: None }));
            }
            Step::Interface(_) if self.interfaces.len() == MAX_INTERFACES => {
                return Err(reader.error(format!("the section has more than {MAX_INTERFACES} interfaces")));
            }
            Step::Interface(interface) => self.interfaces.push(interface),
            Step::Section { major, minor } if major != MAJOR => {
                let what =
                    format!("this section has version {major}.{minor} of the pcapng format; expected version {MAJOR}");
                return Err(reader.error(what));
            }
            Step::Section { .. } => self.interfaces.clear(),
            Step::Skip => {}
        }
        Ok(None)
    }
}
