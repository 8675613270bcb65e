//! Reader of pcapng's blocks.

use pcap_parser::{Block, EPB_MAGIC, IDB_MAGIC, SPB_MAGIC, parse_block_be, parse_block_le};

use super::SourceError;
use super::reader::{Found, Reader};
use crate::wire::LinkType;

/// Type of the packet block that pcapng had before the enhanced one.
const OBSOLETE_PACKET: u32 = 2;
/// Major version of the pcapng format that is read.
const MAJOR: u16 = 1;
const SECTION_HEADER: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// Option of an interface that states the length of the frame check sequence.
const IF_FCSLEN: u16 = 13;
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
}

/// Content of a block that was read.
enum Step {
    Packet {
        interface: u32,
        len: usize,
        original_len: u32,
    },
    /// Simple packet: it belongs to the first interface, whose snapshot length bounds it.
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
            let place = reader.window.place();
            if let Some(found) = self.take(step, place, reader)? {
                reader.window.consume(len);
                return Ok(Some(found));
            }
            reader.window.consume(len);
        }
    }

    fn number(&self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// Reads one whole block that [`Section::read_packet`] does not; `None` if it contradicts itself.
    fn read(&self, block: &[u8]) -> Option<Step> {
        let parse = if self.big_endian { parse_block_be } else { parse_block_le };
        Some(match parse(block).ok()?.1 {
            Block::SimplePacket(packet) => Step::Simple { original_len: packet.origlen, room: packet.data.len() },
            Block::InterfaceDescription(interface) => {
                let link = LinkType::from_number(interface.linktype.0.cast_unsigned());
                let options = interface.options.iter().filter(|option| option.code.0 == IF_FCSLEN);
                let stated =
                    options.filter_map(|option| option.value.first()).next().map_or(0, |&len| usize::from(len));
                // The specification counts bits, most programs write bytes. A value of 16 or more is bits, because no
                // check sequence has 16 bytes.
                let check_bytes = if stated >= 16 { stated / 8 } else { stated };
                Step::Interface(Interface { link, snaplen: interface.snaplen, check_bytes })
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
    /// | 12 to 19 | time |
    /// | 20 to 23 | number of bytes captured |
    /// | 24 to 27 | length on the wire |
    /// | from 28 | packet, options, and the length of the block again in the last 4 bytes |
    #[inline]
    fn read_packet(&self, kind: u32, block: &[u8]) -> Option<Step> {
        let (head, rest) = block.split_first_chunk::<28>()?;
        let &[_, _, interface, _, _, len, original_len] = head.as_chunks().0 else { return None };
        let (len, original_len) = (self.number(len) as usize, self.number(original_len));
        let (interface, padded) = if kind == OBSOLETE_PACKET {
            let [i, j, ..] = interface;
            let number = if self.big_endian { u16::from_be_bytes([i, j]) } else { u16::from_le_bytes([i, j]) };
            (number.into(), len)
        } else {
            (self.number(interface), len.checked_next_multiple_of(4)?)
        };
        let fits = padded <= rest.len().checked_sub(4)?;
        fits.then_some(Step::Packet { interface, len, original_len })
    }

    /// Applies a block that begins at `place` of the window, and returns its packet if it is one.
    fn take(&mut self, step: Step, place: usize, reader: &Reader) -> Result<Option<Found>, SourceError> {
        let (interface, at, len, original_len) = match step {
            Step::Packet { interface, len, original_len } => (interface, 28, len, original_len),
            Step::Simple { original_len, room } => {
                let snaplen = self.interfaces.first().map_or(0, |interface| interface.snaplen);
                let limit = if snaplen == 0 { original_len } else { original_len.min(snaplen) };
                (0, 12, room.min(limit as usize), original_len)
            }
            Step::Interface(interface) => {
                if self.interfaces.len() == MAX_INTERFACES {
                    return Err(reader.error(format!("the section has more than {MAX_INTERFACES} interfaces")));
                }
                self.interfaces.push(interface);
                return Ok(None);
            }
            Step::Section { major, minor } => {
                if major != MAJOR {
                    let what = format!(
                        "this section has version {major}.{minor} of the pcapng format; expected version {MAJOR}"
                    );
                    return Err(reader.error(what));
                }
                self.interfaces.clear();
                return Ok(None);
            }
            Step::Skip => return Ok(None),
        };
        let Some(&Interface { link, check_bytes, .. }) = self.interfaces.get(interface as usize) else {
            let count = self.interfaces.len();
            return Err(reader.error(format!(
                "it names interface {interface}; expected one of the {count} that the section describes before it"
            )));
        };
        let found = Found { link, interface, start: place + at, len, original_len };
        Ok(Some(found.without_check(check_bytes)))
    }
}
