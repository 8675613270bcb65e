//! Captures: pcap here, pcapng next door. The parsers of file headers and blocks are pcap-parser's; the buffer is ours,
//! so that memory is bounded, lengths are checked before they are believed, and what a cut file still holds is not
//! lost.

use std::fmt;

use super::pcapng::Section;
use super::raw::{Format, Sniffed};
use super::window::Window;
use super::{Cut, Limits, Progress, SourceError};
use crate::wire::LinkType;

/// One packet of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What its bytes start with.
    pub link: LinkType,
    /// The interface it was captured on: its number within the pcapng section, 0 in pcap.
    pub interface: u32,
    /// What was captured of it, without the frame check sequence where the capture says that it has one.
    pub data: &'a [u8],
    /// Its length on the wire in bytes.
    pub original_len: u32,
}

/// Where a packet lies in the window, and what else is known of it.
pub(super) struct Found {
    pub(super) link: LinkType,
    pub(super) interface: u32,
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) original_len: u32,
}

impl Found {
    /// The same without the frame check sequence that its link appends, as far as it was captured.
    #[inline]
    pub(super) fn without_check(mut self, check_bytes: usize) -> Self {
        if check_bytes > 0 {
            let on_the_wire = self.len.max(self.original_len as usize);
            self.len = self.len.min(on_the_wire.saturating_sub(check_bytes));
        }
        self
    }
}

/// The length of the frame check sequence as the link-type field of pcap states it, in units of 16 bits, where a bit
/// says that it does.
fn check_bytes(number: u32) -> usize {
    const STATED: u32 = 1 << 26;
    if number & STATED != 0 { (number >> 28) as usize * 2 } else { 0 }
}

/// A capture, read packet by packet.
pub struct Capture {
    reader: Reader,
    format: Format,
    framing: Framing,
    done: bool,
    progress: Progress,
}

enum Framing {
    /// The file header has not been read yet.
    Unread,
    Pcap(Records),
    Ng(Section),
}

/// What every format needs to read on and to complain.
pub(super) struct Reader {
    pub(super) name: Box<str>,
    pub(super) window: Window,
    pub(super) max_record: usize,
    pub(super) packets: u64,
    cut: Option<Cut>,
}

impl Reader {
    pub(super) fn error(&self, what: String) -> SourceError {
        SourceError::record(&self.name, self.packets + 1, self.window.offset(), what)
    }

    #[cold]
    pub(super) fn too_long(&self, len: u64) -> SourceError {
        let max = self.max_record;
        self.error(format!("it claims to take {len} bytes; expected at most {max}, the limit of this reader"))
    }

    /// The stream ends here. It is cut if it ends inside something, or before the end of its compressed stream.
    #[cold]
    pub(super) fn end(&mut self, whole: bool, wanted: u64) -> Result<Option<Found>, SourceError> {
        let here = self.window.bytes().len();
        let what = match self.window.fault() {
            Some(fault) => fault.to_owned(),
            None if whole && here == 0 => return Ok(None),
            None => format!("what begins there takes {wanted} bytes or more, {here} are left"),
        };
        self.cut(self.window.offset(), what);
        Ok(None)
    }

    pub(super) fn cut(&mut self, offset: u64, what: String) {
        let (name, whole) = (self.name.clone(), self.packets);
        self.cut = Some(Cut { name, whole, offset, what: what.into() });
    }
}

impl Capture {
    pub(super) fn new(sniffed: Sniffed, limits: &Limits) -> Self {
        let Sniffed { name, format, stream, progress, .. } = sniffed;
        let window = Window::new(stream);
        let reader = Reader { name, window, max_record: limits.max_record, packets: 0, cut: None };
        Self { reader, format, framing: Framing::Unread, done: false, progress }
    }

    /// The file, or what stands for it.
    pub fn name(&self) -> &str {
        &self.reader.name
    }

    pub(super) fn format_name(&self) -> &'static str {
        if self.format == Format::Pcap { "a pcap capture" } else { "a pcapng capture" }
    }

    /// How many packets were delivered.
    pub fn packets(&self) -> u64 {
        self.reader.packets
    }

    /// What is missing, once [`Capture::next`] has come to the end of a file that is cut.
    pub fn cut(&self) -> Option<&Cut> {
        self.reader.cut.as_ref()
    }

    /// How far reading has come.
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The next packet; `None` at the end, also of a file that is cut, and after an error.
    ///
    /// # Errors
    /// When the file cannot be read or what it says contradicts itself. Packets delivered before stay valid.
    #[expect(clippy::should_implement_trait, reason = "an iterator cannot lend its buffer")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, SourceError> {
        if self.done {
            return Ok(None);
        }
        // A packet that is at hand stays in registers: handed on through memory it takes three times as long, because
        // the loads of the copy are wider than the stores just before them.
        let at_hand = match self.framing {
            Framing::Pcap(records) => records.at_hand(&mut self.reader),
            _ => None,
        };
        let Found { link, interface, start, len, original_len } = match at_hand {
            Some(found) => found,
            None => match self.advance() {
                Ok(Some(found)) => found,
                end => {
                    self.done = true;
                    return end.map(|_| None);
                }
            },
        };
        self.reader.packets += 1;
        let data = self.reader.window.at(start, start + len);
        Ok(Some(Packet { link, interface, data, original_len }))
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

    /// The file header of pcap; a section of pcapng brings its own. `None` where the file ends inside it.
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
        window.consume(PCAP_HEADER);
        let number = header.network.0.cast_unsigned();
        Ok(Some(Framing::Pcap(Records {
            big_endian: header.is_bigendian(),
            head: if header.is_modified_format() { 24 } else { 16 },
            link: LinkType::from_number(number),
            check_bytes: check_bytes(number),
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

const PCAP_HEADER: usize = 24;
/// What a record begins with, up to the end of its lengths.
const LENGTHS: usize = 16;

/// The packet records of pcap. Each begins with its seconds, their fraction, the bytes captured and the bytes on the
/// wire, in the byte order of the file, and in the modified format 8 bytes more.
#[derive(Clone, Copy)]
struct Records {
    big_endian: bool,
    /// How long that beginning is.
    head: usize,
    link: LinkType,
    check_bytes: usize,
}

impl Records {
    /// The length of the record that begins here and that of its packet on the wire; `None` where the bytes end before
    /// they tell.
    #[inline]
    fn lengths(self, bytes: &[u8]) -> Option<(u64, u32)> {
        let [_, _, _, _, _, _, _, _, a, b, c, d, e, f, g, h] = *bytes.first_chunk::<LENGTHS>()?;
        let number = |bytes| if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
        Some((self.head as u64 + u64::from(number([a, b, c, d])), number([e, f, g, h])))
    }

    #[inline]
    fn is_too_long(self, size: u64, reader: &Reader) -> bool {
        size > reader.max_record.saturating_add(self.head) as u64
    }

    /// The next packet, if all of it was read and it is not too long.
    #[inline]
    fn at_hand(self, reader: &mut Reader) -> Option<Found> {
        let bytes = reader.window.bytes();
        let (size, original_len) = self.lengths(bytes)?;
        if size > bytes.len() as u64 || self.is_too_long(size, reader) {
            return None;
        }
        let (start, len) = (reader.window.place() + self.head, size as usize - self.head);
        reader.window.consume(size as usize);
        Some(Found { link: self.link, interface: 0, start, len, original_len }.without_check(self.check_bytes))
    }

    /// The next packet; reads until all of it is there.
    fn advance(self, reader: &mut Reader) -> Result<Option<Found>, SourceError> {
        loop {
            if let Some(found) = self.at_hand(reader) {
                return Ok(Some(found));
            }
            // The lengths first, where the record begins with more: what they say does not depend on how much is there.
            let Some((size, _)) = self.lengths(reader.window.bytes()) else {
                if reader.window.need(LENGTHS)? {
                    continue;
                }
                return reader.end(true, self.head as u64);
            };
            if self.is_too_long(size, reader) {
                return Err(reader.too_long(size));
            }
            if !reader.window.need(size as usize)? {
                return reader.end(true, size);
            }
        }
    }
}
