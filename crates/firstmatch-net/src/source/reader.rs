//! State that the readers of pcap and of pcapng share.

use std::collections::BTreeMap;

use super::time::Stamp;
use super::window::Window;
use super::{Cut, SourceError};
use crate::wire::LinkType;

/// Place of a packet in the window, with its link type, interface, length on the wire and time.
pub(super) struct Found {
    pub(super) link: LinkType,
    pub(super) interface: u32,
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) original_len: u32,
    pub(super) time: Stamp,
}

impl Found {
    /// Returns the packet without the captured part of a frame check sequence of `check_bytes`.
    ///
    /// A length on the wire below the number of captured bytes cannot be, so it becomes that number.
    ///
    /// For example, a frame of 68 bytes on the wire with a check sequence of 4 bytes has 64 bytes of data. If at most
    /// 64 bytes were captured, none of them belongs to the check sequence.
    #[inline]
    pub(super) fn without_check(mut self, check_bytes: usize) -> Self {
        // The captured length is at most `u32::MAX`, because four bytes state it.
        self.original_len = self.original_len.max(self.len as u32);
        if check_bytes > 0 {
            self.len = self.len.min((self.original_len as usize).saturating_sub(check_bytes));
        }
        self
    }
}

/// Window, limits and counters that the readers of both formats share.
pub(super) struct Reader {
    pub(super) name: Box<str>,
    pub(super) window: Window,
    pub(super) max_record: usize,
    pub(super) packets: u64,
    pub(super) cut: Option<Cut>,
    /// Number of pcapng packets for each link type that is not supported.
    pub(super) unread: BTreeMap<u16, u64>,
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

    /// Ends the stream and notes a [`Cut`], unless the stream may end here.
    ///
    /// It may if no byte is left, if `whole` says that a record would begin here, and if no compressed stream is cut.
    /// `wanted` is the least number of bytes of the record or header that begins here.
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
