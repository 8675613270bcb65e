//! Captures: the pcap reader, with the pcapng reader of `pcapng.rs`.
//!
//! The parsers of file headers and blocks are from pcap-parser. The buffer is our own, because memory must be bounded
//! and lengths must be checked before they are used. The whole packets of a cut file must not be lost either.

use std::collections::BTreeMap;
use std::fmt;

use super::pcapng::Section;
use super::raw::{self, Format, Sniffed};
use super::reader::{Found, Reader};
use super::time::Stamp;
use super::window::Window;
use super::{Cut, Limits, Progress, SourceError};
use crate::wire::LinkType;

/// Packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Link type, which decides how `data` begins.
    pub link: LinkType,
    /// Number of the interface within the pcapng section that captured the packet; 0 in pcap.
    pub interface: u32,
    /// Captured bytes, without the frame check sequence if the capture says that it has one.
    pub data: &'a [u8],
    /// Length on the wire in bytes; the number of captured bytes if the capture states less.
    pub original_len: u32,
    /// Time of capture in nanoseconds since 1970-01-01 00:00 UTC, rounded down.
    ///
    /// It is `None` if the capture states none, as simple packet blocks of pcapng, and for years that these 64 bits do
    /// not reach, before 1677 or after 2262.
    pub time: Option<i64>,
}

/// Returns the frame check sequence's length in bytes, from pcap's link-type field `number`.
///
/// Bit 26 says whether a length is stated, the upper 4 bits state it in units of 2 bytes. For example, `0x2400_0001`
/// states 4 bytes; without bit 26 the result is 0.
fn check_bytes(number: u32) -> usize {
    const STATED: u32 = 1 << 26;
    if number & STATED != 0 { (number >> 28) as usize * 2 } else { 0 }
}

/// Reader of a capture, packet by packet.
pub struct Capture {
    reader: Reader,
    format: Format,
    framing: Framing,
    done: bool,
    /// Error to return after the packets of [`Capture::next_frames`].
    failed: Option<SourceError>,
    progress: Progress,
}

enum Framing {
    /// The file header has not been read yet.
    Unread,
    Pcap(Records),
    Ng(Section),
}

impl Capture {
    pub(super) fn new(sniffed: Sniffed, limits: &Limits) -> Self {
        let Sniffed { name, format, stream, progress, .. } = sniffed;
        let window = Window::new(stream);
        let reader =
            Reader { name, window, max_record: limits.max_record, packets: 0, cut: None, unread: BTreeMap::new() };
        Self { reader, format, framing: Framing::Unread, done: false, failed: None, progress }
    }

    /// Returns the path of the file, or the name that stands for it.
    pub fn name(&self) -> &str {
        &self.reader.name
    }

    pub(super) fn format_name(&self) -> &'static str {
        if self.format == Format::Pcap { "a pcap capture" } else { "a pcapng capture" }
    }

    /// Returns the number of packets delivered so far.
    pub fn packets(&self) -> u64 {
        self.reader.packets
    }

    /// Returns what is missing, once [`Capture::next`] has come to the end of a cut file.
    pub fn cut(&self) -> Option<&Cut> {
        self.reader.cut.as_ref()
    }

    /// Returns the number of packets delivered so far for each link type that is not supported.
    pub fn unread_links(&self) -> Vec<(LinkType, u64)> {
        match self.framing {
            // All packets have one link type, and most are delivered without a look at it.
            Framing::Pcap(Records { link: link @ LinkType::Other(_), .. }) if self.reader.packets > 0 => {
                vec![(link, self.reader.packets)]
            }
            _ => self.reader.unread.iter().map(|(&number, &packets)| (LinkType::Other(number), packets)).collect(),
        }
    }

    /// Returns a handle that shows how far reading has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Returns the next packet; `None` at the end, also of a cut file, and after an error.
    ///
    /// # Errors
    /// If the file cannot be read or contradicts itself. Packets delivered before the error stay valid.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its buffer")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, SourceError> {
        let Some(found) = self.next_found()? else { return Ok(None) };
        let Found { link, interface, start, len, original_len, time } = found;
        let data = self.reader.window.at(start, start + len);
        Ok(Some(Packet { link, interface, data, original_len, time: time.nanos() }))
    }

    /// Returns the place of the next packet, as [`Capture::next`].
    #[inline]
    pub(super) fn next_found(&mut self) -> Result<Option<Found>, SourceError> {
        if self.done {
            return self.failed.take().map_or(Ok(None), Err);
        }
        // A packet that is at hand stays in registers. Passing it on through memory is slower: store forwarding fails,
        // because the loads of the copy are wider than the stores just before them.
        let at_hand = match self.framing {
            Framing::Pcap(records) => records.at_hand(&mut self.reader),
            _ => None,
        };
        let found = match at_hand {
            Some(found) => found,
            None => match self.advance() {
                Ok(Some(found)) => {
                    if let (LinkType::Other(number), Framing::Ng(_)) = (found.link, &self.framing) {
                        *self.reader.unread.entry(number).or_default() += 1;
                    }
                    found
                }
                end => {
                    self.done = true;
                    return end.map(|_| None);
                }
            },
        };
        self.reader.packets += 1;
        Ok(Some(found))
    }

    pub(super) fn window(&mut self) -> &mut Window {
        &mut self.reader.window
    }

    /// Calls `take` with each packet of a pcap file that is at hand, until it returns false.
    ///
    /// A loop over the bytes is faster than a call for each packet, which goes through the window's state.
    #[inline]
    pub(super) fn take_at_hand(&mut self, mut take: impl FnMut(Found) -> bool) {
        let Framing::Pcap(records) = self.framing else { return };
        let (place, mut at, mut packets) = (self.reader.window.place(), 0, 0);
        let bytes = self.reader.window.bytes();
        while let Some(found) = records.found_at(bytes, at, place, self.reader.max_record) {
            at = found.start + found.len - place;
            packets += 1;
            if !take(found.without_check(records.check_bytes)) {
                break;
            }
        }
        self.reader.packets += packets;
        self.reader.window.consume(at);
    }

    /// Makes the next call return an error.
    pub(super) fn fail_next(&mut self, error: SourceError) {
        self.failed = Some(error);
    }

    fn advance(&mut self) -> Result<Option<Found>, SourceError> {
        if matches!(self.framing, Framing::Unread) {
            match self.read_header()? {
                Some(framing) => self.framing = framing,
                None => return self.reader.end(false, PCAP_HEADER as u64),
            }
        }
        match &mut self.framing {
            Framing::Pcap(records) => records.advance(&mut self.reader),
            Framing::Ng(section) => section.advance(&mut self.reader),
            Framing::Unread => Ok(None),
        }
    }

    /// Reads the file header of pcap; `None` if the file ends inside it. A section of pcapng has its own header.
    fn read_header(&mut self) -> Result<Option<Framing>, SourceError> {
        if self.format == Format::PcapNg {
            return Ok(Some(Framing::Ng(Section::default())));
        }
        let window = &mut self.reader.window;
        if !window.need(PCAP_HEADER)? {
            return Ok(None);
        }
        let Ok((_, header)) = pcap_parser::parse_pcap_header(window.bytes()) else {
            return Err(self.reader.error("expected the header of a pcap file".to_owned()));
        };
        if header.version_major != PCAP_MAJOR {
            let (major, minor) = (header.version_major, header.version_minor);
            let what = format!("this is version {major}.{minor} of the pcap format; expected version {PCAP_MAJOR}");
            return Err(self.reader.error(what));
        }
        window.consume(PCAP_HEADER);
        let number = header.network.0.cast_unsigned();
        Ok(Some(Framing::Pcap(Records {
            big_endian: header.is_bigendian(),
            head: if header.is_modified_format() { 24 } else { 16 },
            link: LinkType::from_number(number),
            check_bytes: check_bytes(number),
            fraction: if header.is_nanosecond_precision() { 1 } else { 1000 },
        })))
    }
}

impl fmt::Debug for Capture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Capture")
            .field("name", &self.reader.name)
            .field("format", &self.format)
            .field("packets", &self.reader.packets)
            .field("cut", &self.reader.cut)
            .finish_non_exhaustive()
    }
}

/// Whether a file header of pcap, version 2.4, stands where a record should be.
///
/// As a record it would be an empty packet of the year 2055 or later.
fn begins_file(bytes: &[u8]) -> bool {
    let has_version = matches!(
        *bytes,
        [_, _, _, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, ..]
            | [0xa1, _, _, _, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, ..]
    );
    has_version && raw::format_of(bytes) == Format::Pcap
}

const PCAP_HEADER: usize = 24;
/// Major version of the pcap format that is read.
const PCAP_MAJOR: u16 = 2;
/// Bytes of a pcap record up to the end of its two lengths.
const LENGTHS: usize = 16;

/// Format of pcap's packet records, all in the byte order of the file.
///
/// | bytes | content |
/// |---|---|
/// | 0 to 3 | seconds |
/// | 4 to 7 | fraction of the second |
/// | 8 to 11 | number of bytes captured |
/// | 12 to 15 | length on the wire |
/// | 16 to 23 | further fields, in the modified format alone |
#[derive(Clone, Copy)]
struct Records {
    big_endian: bool,
    /// Bytes before the packet: 16, or 24 in the modified format.
    head: usize,
    link: LinkType,
    check_bytes: usize,
    /// Unit of the fraction of a second, in nanoseconds.
    fraction: u16,
}

impl Records {
    /// Returns the lengths of the record at the start of `bytes` and of its packet, in bytes.
    ///
    /// The packet's length is its length on the wire. The result is `None` if `bytes` ends before both are stated.
    #[inline]
    fn lengths(self, bytes: &[u8]) -> Option<(u64, u32)> {
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = *bytes.first_chunk::<LENGTHS>()?;
        Some((self.head as u64 + u64::from(self.number([a, b, c, d])), self.number([e, f, g, h])))
    }

    /// Returns the time of the record at the start of `bytes`.
    #[inline]
    fn time(self, bytes: &[u8]) -> Stamp {
        let Some(&[a, b, c, d, e, f, g, h]) = bytes.first_chunk() else { return Stamp::NONE };
        Stamp::of_parts(self.number([a, b, c, d]), self.number([e, f, g, h]), self.fraction)
    }

    #[inline]
    fn number(self, bytes: [u8; 4]) -> u32 {
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    #[inline]
    fn is_too_long(self, size: u64, max_record: usize) -> bool {
        size > max_record.saturating_add(self.head) as u64
    }

    /// Takes the next packet, if all of it was read and its record is not too long.
    #[inline]
    fn at_hand(self, reader: &mut Reader) -> Option<Found> {
        let found = self.found_at(reader.window.bytes(), 0, reader.window.place(), reader.max_record)?;
        reader.window.consume(self.head + found.len);
        Some(found.without_check(self.check_bytes))
    }

    /// Returns the packet whose record is `bytes[at..]`, if all of it is there and it is not too long.
    ///
    /// `bytes` begin at `place` of the window. The packet's check sequence is still with it.
    #[inline]
    fn found_at(self, bytes: &[u8], at: usize, place: usize, max_record: usize) -> Option<Found> {
        let bytes = bytes.get(at..)?;
        let (size, original_len) = self.lengths(bytes)?;
        if size > bytes.len() as u64 || self.is_too_long(size, max_record) {
            return None;
        }
        let (start, len) = (place + at + self.head, size as usize - self.head);
        if len == 0 && begins_file(bytes) {
            return None;
        }
        Some(Found { link: self.link, interface: 0, start, len, original_len, time: self.time(bytes) })
    }

    /// Returns the next packet, after reading until all of it is there.
    fn advance(self, reader: &mut Reader) -> Result<Option<Found>, SourceError> {
        loop {
            if let Some(found) = self.at_hand(reader) {
                return Ok(Some(found));
            }
            // The lengths come first, also in the modified format, so that the answer does not depend on the number of
            // bytes that are there.
            let Some((size, _)) = self.lengths(reader.window.bytes()) else {
                if reader.window.need(LENGTHS)? {
                    continue;
                }
                return reader.end(true, self.head as u64);
            };
            if begins_file(reader.window.bytes()) {
                let what = "another pcap file begins here; expected one capture, as mergecap joins several".to_owned();
                return Err(reader.error(what));
            }
            if self.is_too_long(size, reader.max_record) {
                return Err(reader.too_long(size));
            }
            if !reader.window.need(size as usize)? {
                return reader.end(true, size);
            }
        }
    }
}
