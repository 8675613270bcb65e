//! Frames of a capture, taken out so that another thread can parse them.

use super::SourceError;
use super::capture::{Capture, Packet};
use super::reader::Found;
use super::time::Stamp;
use crate::wire::LinkType;

/// Minimum number of bytes left in a buffer for which a chunk goes on, because they would have to be copied.
const REST: usize = 16 << 10;
/// Number of bytes of frames at which a chunk ends, unless one frame alone has more.
const MOST_BYTES: usize = 8 << 20;

/// Packets of a capture as they are in the file, not yet parsed.
///
/// [`Capture::next_frames`] hands over the buffers that it read into, so that packets are not copied.
///
/// ```
/// use firstmatch_net::source::{Frames, Input, from_reader};
///
/// // The header of a little-endian pcap file of Ethernet, then a packet of 60 bytes.
/// let header = [0xA1B2_C3D4u32, 2 | 4 << 16, 0, 0, 65_535, 1].map(u32::to_le_bytes).concat();
/// let file = [header, [0u32, 0, 60, 60].map(u32::to_le_bytes).concat(), vec![0; 60]].concat();
/// let mut capture = from_reader("x", Box::new(std::io::Cursor::new(file)), &Default::default())
///     .and_then(Input::into_capture)?;
/// let mut frames = Frames::default();
/// while capture.next_frames(&mut frames, 4096)? {
///     assert!(frames.iter().all(|packet| packet.data.len() == 60)); // on any thread
/// }
/// assert_eq!(capture.packets(), 1);
/// # Ok::<(), firstmatch_net::source::SourceError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Frames {
    blocks: Vec<Vec<u8>>,
    places: Vec<Place>,
}

/// Place of one packet.
#[derive(Clone, Copy, Debug)]
struct Place {
    start: usize,
    len: u32,
    original_len: u32,
    block: u32,
    interface: u32,
    link: LinkType,
    time: Stamp,
}

impl Frames {
    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no packets.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the link type if all packets have it, and all were captured whole by interface 0.
    ///
    /// Then [`Batch::push_frames`](crate::wire::Batch::push_frames) adds the same as
    /// [`Batch::push`](crate::wire::Batch::push) for each packet, and is faster.
    pub fn plain_link(&self) -> Option<LinkType> {
        let link = self.places.first()?.link;
        let is_plain = |place: &Place| place.link == link && place.interface == 0 && place.len == place.original_len;
        self.places.iter().all(is_plain).then_some(link)
    }

    /// Returns the packets in order of arrival.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Packet<'_>> {
        self.places.iter().map(|&Place { start, len, original_len, block, interface, link, time }| {
            let block = self.blocks.get(block as usize).map_or(&[][..], Vec::as_slice);
            let data = block.get(start..start + len as usize).unwrap_or_default();
            Packet { link, interface, data, original_len, time: time.nanos() }
        })
    }
}

impl Capture {
    /// Replaces the packets in `frames` by the next ones, and returns whether there are any.
    ///
    /// There are at least `packets`, if that many follow, and at most four times as many. There may be fewer if
    /// together they have 8 MiB or more.
    ///
    /// # Errors
    /// As [`Capture::next`]. Packets before the error are delivered first, and the next call returns it.
    pub fn next_frames(&mut self, frames: &mut Frames, packets: usize) -> Result<bool, SourceError> {
        frames.places.clear();
        // The buffers of the last call are free only now.
        let spare = std::mem::take(&mut frames.blocks);
        self.window().reuse(spare);
        let most = packets.saturating_mul(4);
        let (mut bytes, mut failed) = (0, None);
        // A packet that is not at hand makes the reader read more.
        while !(frames.len() >= packets && self.window().bytes().len() < REST
            || frames.len() >= most
            || bytes >= MOST_BYTES)
        {
            let found = match self.next_found() {
                Ok(Some(found)) => found,
                Ok(None) => break,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            };
            let block = self.window().hold() as u32;
            let places = &mut frames.places;
            let mut take = |found: Found| {
                let Found { link, interface, start, len, original_len, time } = found;
                places.push(Place { start, len: len as u32, original_len, block, interface, link, time });
                bytes += len;
                places.len() < most && bytes < MOST_BYTES
            };
            if take(found) {
                self.take_at_hand(take);
            }
        }
        frames.blocks = self.window().release();
        match failed {
            Some(error) if frames.is_empty() => Err(error),
            Some(error) => {
                self.fail_next(error);
                Ok(true)
            }
            None => Ok(!frames.is_empty()),
        }
    }
}
