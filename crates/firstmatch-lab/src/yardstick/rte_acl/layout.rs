//! Layout of a key for `rte_acl`: one byte, then groups of four bytes, in network order.
//!
//! A prepared key has the byte last. In a frame the fields are at their places in IPv4, from the byte of the protocol
//! on:
//!
//! ```text
//! byte    0         1 2        3 4 5 6   7 8 9 10   11 12   13 14
//!         protocol  checksum   source    dest.      sport   dport
//! ```
//!
//! In packets of protocols without ports, the bytes at the place of the ports may be anything. Therefore a rule that
//! tests a port is added once for each protocol that has ports, and no packet of another protocol matches it. For
//! example, a table for frames has a rule for port 53 and any protocol five times.

use anyhow::{bail, ensure};
use firstmatch_core::rule::Lowered;
use firstmatch_core::schema::Source;

use super::sys::{self, FieldDef};

/// Word as a field of `rte_acl`, which takes 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Word of the key.
    word: usize,
    size: u8,
    offset: usize,
    kind: u8,
}

/// Form of the keys that are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// Prepared keys.
    Keys,
    /// Frames, or keys whose fields are as far apart as in a frame.
    Frames,
}

/// Value for absent in the word of a port.
const ABSENT: u32 = 0x1_0000;

/// Protocols with ports at TCP's place: TCP, UDP, DCCP, SCTP and UDP-Lite.
///
/// They are those of `firstmatch-net`.
const WITH_PORTS: [u32; 5] = [6, 17, 33, 132, 136];

/// Position of each word in a key.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    pub(super) form: Form,
    /// Byte first, then the words, then the halves.
    places: Vec<Place>,
    /// Words of 32 bits, in order from the start of a key.
    words: Vec<usize>,
    /// Words of halves, in pairs, behind the words.
    ///
    /// They may have one more value, for absent, which 16 bits do not hold.
    halves: Vec<[usize; 2]>,
    byte: usize,
    /// Number of 32-bit words of a key.
    pub(super) stride: usize,
    /// Number of bytes of a key before the address that `rte_acl` gets.
    pub(super) start: usize,
}

impl Layout {
    /// Makes the layout for the words of a rule set.
    ///
    /// There may be any number of words of 32 bits, an even number of 16 (or 17, with one value for absent), and one of
    /// 8.
    pub(super) fn new(rules: &Lowered, form: Form) -> anyhow::Result<Self> {
        let (mut words, mut halves, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, word) in rules.schema().words().iter().enumerate() {
            match (word.bits.count_ones(), word.absent) {
                (32, None) => words.push(index),
                (16, None) | (17, Some(ABSENT)) => halves.push(index),
                (8, None) => bytes.push(index),
                _ => bail!("a field of {} bits that may be absent is beyond it", word.bits.count_ones()),
            }
        }
        ensure!(bytes.len() == 1 && halves.len().is_multiple_of(2), "fields of these widths are beyond its keys");
        ensure!(rules.regions().ternary_words().is_empty(), "values under masks are not handed to it");
        let halves: Vec<[usize; 2]> = halves.as_chunks::<2>().0.to_vec();
        let byte = bytes[0];
        if form == Form::Frames {
            let source = |&word: &usize| rules.schema().fields()[rules.schema().words()[word].field].source();
            let sources: Vec<_> = words.iter().chain(halves.iter().flatten()).chain([&byte]).map(source).collect();
            let in_frame = [Source::Src, Source::Dst, Source::SrcPort, Source::DstPort, Source::Proto].map(Some);
            ensure!(sources == in_frame, "it reads the 5-tuple of IPv4 in frames, and no other fields");
        }
        // As in a frame, the protocol of a key for frames is the second byte of the first word.
        let (byte_offset, first_word, start) = match form {
            Form::Keys => (4 * (words.len() + halves.len()), 0, 0),
            Form::Frames => (0, 3, 1),
        };

        let mut places = vec![Place { word: byte, size: 1, offset: byte_offset, kind: sys::BITMASK }];
        places.extend(words.iter().enumerate().map(|(at, &word)| Place {
            word,
            size: 4,
            offset: first_word + 4 * at,
            kind: sys::MASK,
        }));
        for (pair, pair_words) in halves.iter().enumerate() {
            let offset = first_word + 4 * (words.len() + pair);
            let half = |at: usize| Place { word: pair_words[at], size: 2, offset: offset + 2 * at, kind: sys::RANGE };
            places.extend([half(0), half(1)]);
        }
        // If an address is no prefix in some rule, it is a range in all; likewise a protocol that is neither one value
        // nor any.
        for place in places.iter_mut().filter(|place| place.kind != sys::RANGE) {
            let fits = |(lo, hi)| match place.kind {
                sys::MASK => prefix_len(lo, hi).is_some(),
                _ => lo == hi || (lo, hi) == (0, 255),
            };
            if !rules.regions().iter().all(|region| fits((region.lo[place.word], region.hi[place.word]))) {
                place.kind = sys::RANGE;
            }
        }
        let stride = (words.len() + halves.len() + 1).next_multiple_of(4);
        Ok(Self { form, places, words, halves, byte, stride, start })
    }

    /// Iterates over the field definitions, in order.
    pub(super) fn defs(&self) -> impl ExactSizeIterator<Item = FieldDef> {
        let words = self.words.len();
        self.places.iter().enumerate().map(move |(index, place)| FieldDef {
            kind: place.kind,
            size: place.size,
            field_index: index as u8,
            // The byte is a group of its own, and so is each word; two halves are one group.
            input_index: if index <= words { index } else { words + 1 + (index - words - 1) / 2 } as u8,
            offset: place.offset as u32,
        })
    }

    /// Returns the rules of `rte_acl` for a region: none if only absent values match.
    pub(super) fn rules(&self, lo: &[u32], hi: &[u32]) -> Vec<Vec<sys::Field>> {
        let tests_ports = self.halves.iter().flatten().any(|&word| hi[word] < ABSENT);
        if self.form == Form::Keys || !tests_ports {
            return self.fields(lo, hi).into_iter().collect();
        }
        let of_protocol = |protocol: u32| {
            let (mut lo, mut hi) = (lo.to_vec(), hi.to_vec());
            (lo[self.byte], hi[self.byte]) = (protocol, protocol);
            self.fields(&lo, &hi)
        };
        let protocols = WITH_PORTS.into_iter().filter(|protocol| (lo[self.byte]..=hi[self.byte]).contains(protocol));
        protocols.filter_map(of_protocol).collect()
    }

    /// Returns a rule field by field: value and mask, or a range.
    ///
    /// It is `None` if only absent values match, or if the values of a masked field are no prefix.
    fn fields(&self, lo: &[u32], hi: &[u32]) -> Option<Vec<sys::Field>> {
        let field = |place: &Place| {
            let (lo, hi) = (u64::from(lo[place.word]), u64::from(hi[place.word]));
            let (value, mask_range) = match (place.kind, place.size) {
                (sys::MASK, _) => (lo, u64::from(prefix_len(lo as u32, hi as u32)?)),
                (sys::BITMASK, _) => (lo, if lo == hi { 0xFF } else { 0 }),
                (_, 2) if lo > 0xFFFF => return None,
                (_, 2) => (lo, hi.min(0xFFFF)),
                _ => (lo, hi),
            };
            Some(sys::Field { value, mask_range })
        };
        self.places.iter().map(field).collect()
    }

    /// Writes a key; returns false if a value is absent, which a key of `rte_acl` cannot express.
    ///
    /// In the form of frames an absent port becomes some port, as in a frame.
    #[inline(always)]
    pub(super) fn write(&self, row: &[u32], key: &mut [u32]) -> bool {
        let groups = match self.form {
            Form::Keys => {
                let (groups, byte) = key.split_at_mut(self.words.len() + self.halves.len());
                byte[0] = row[self.byte].to_le();
                groups
            }
            Form::Frames => {
                let (byte, groups) = key.split_at_mut(1);
                byte[0] = (row[self.byte] << 8).to_le();
                groups
            }
        };
        let mut over = 0;
        for (to, &word) in groups.iter_mut().zip(&self.words) {
            *to = row[word].to_be();
        }
        for (to, &[first, second]) in groups[self.words.len()..].iter_mut().zip(&self.halves) {
            over |= row[first] | row[second];
            *to = (row[first] << 16 | row[second]).to_be();
        }
        self.form == Form::Frames || over >> 16 == 0
    }
}

/// Returns the length of the prefix that equals an interval; `None` if it is no prefix.
fn prefix_len(lo: u32, hi: u32) -> Option<u32> {
    let free = lo ^ hi;
    (lo & free == 0 && free & free.wrapping_add(1) == 0).then(|| free.leading_zeros())
}
