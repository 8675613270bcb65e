//! How a key lies in memory for `rte_acl`: a field of one byte, then groups of four bytes, in network order.

use anyhow::{bail, ensure};
use firstmatch::rule::Lowered;

use super::sys::{self, FieldDef};

/// A lane as a field of `rte_acl`, where its condition may lie in 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// The lane; a lane beyond the schema's is always 0.
    lane: usize,
    size: u8,
    offset: usize,
    kind: u8,
}

/// Where each lane of a key is.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    /// The byte first, then the words, then the halves.
    places: Vec<Place>,
    /// The lanes of whole words, in order from the start of a key.
    words: Vec<usize>,
    /// The lanes of halves, in pairs, behind the words. They may have one more value, absent, that 16 bits do not hold.
    halves: Vec<[usize; 2]>,
    byte: usize,
    /// Words of 32 bits a key.
    pub(super) stride: usize,
}

impl Layout {
    /// For the lanes of a rule set: some of 32 bits, an even number of 16 (or 17, one value for absent), and one of 8.
    pub(super) fn new(rules: &Lowered) -> anyhow::Result<Self> {
        let (mut words, mut halves, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
        for (index, lane) in rules.schema().lanes().iter().enumerate() {
            match (lane.bits.count_ones(), lane.absent) {
                (32, None) => words.push(index),
                (16, None) | (17, Some(0x1_0000)) => halves.push(index),
                (8, None) => bytes.push(index),
                _ => bail!("a field of {} bits that may be absent is beyond it", lane.bits.count_ones()),
            }
        }
        ensure!(bytes.len() == 1 && halves.len().is_multiple_of(2), "fields of these widths are beyond its keys");
        ensure!(rules.regions().ternary_lanes().is_empty(), "values under masks are not handed to it");
        let halves: Vec<[usize; 2]> = halves.as_chunks::<2>().0.to_vec();
        let byte = bytes[0];

        let mut places =
            vec![Place { lane: byte, size: 1, offset: 4 * (words.len() + halves.len()), kind: sys::BITMASK }];
        places.extend(words.iter().enumerate().map(|(at, &lane)| Place {
            lane,
            size: 4,
            offset: 4 * at,
            kind: sys::MASK,
        }));
        for (pair, lanes) in halves.iter().enumerate() {
            let offset = 4 * (words.len() + pair);
            let half = |at: usize| Place { lane: lanes[at], size: 2, offset: offset + 2 * at, kind: sys::RANGE };
            places.extend([half(0), half(1)]);
        }
        // An address that is no prefix in some rule is a range in all; so is a protocol that is not one value or any.
        for place in places.iter_mut().filter(|place| place.kind != sys::RANGE) {
            let fits = |(lo, hi)| match place.kind {
                sys::MASK => prefix_len(lo, hi).is_some(),
                _ => lo == hi || (lo, hi) == (0, 255),
            };
            if !rules.regions().iter().all(|region| fits((region.lo[place.lane], region.hi[place.lane]))) {
                place.kind = sys::RANGE;
            }
        }
        let stride = (words.len() + halves.len() + 1).next_multiple_of(4);
        Ok(Self { places, words, halves, byte, stride })
    }

    /// The fields, in order.
    pub(super) fn defs(&self) -> impl ExactSizeIterator<Item = FieldDef> {
        let words = self.words.len();
        self.places.iter().enumerate().map(move |(index, place)| FieldDef {
            kind: place.kind,
            size: place.size,
            field_index: index as u8,
            // The byte is a group of its own, a word too, two halves are one.
            input_index: if index <= words { index } else { words + 1 + (index - words - 1) / 2 } as u8,
            offset: place.offset as u32,
        })
    }

    /// What a rule says, field by field: value and mask, or the ends of a range. `None` where only absent values match.
    pub(super) fn fields(&self, lo: &[u32], hi: &[u32]) -> Option<Vec<sys::Field>> {
        let field = |place: &Place| {
            let (lo, hi) = (u64::from(lo[place.lane]), u64::from(hi[place.lane]));
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

    /// Writes a key; false where a value is absent, which no key of `rte_acl` says.
    #[inline(always)]
    pub(super) fn write(&self, row: &[u32], key: &mut [u32]) -> bool {
        let mut over = 0;
        for (to, &lane) in key.iter_mut().zip(&self.words) {
            *to = row[lane].to_be();
        }
        for (to, &[first, second]) in key[self.words.len()..].iter_mut().zip(&self.halves) {
            over |= row[first] | row[second];
            *to = (row[first] << 16 | row[second]).to_be();
        }
        key[self.words.len() + self.halves.len()] = row[self.byte].to_le();
        over >> 16 == 0
    }
}

/// The length of the prefix that an interval is.
fn prefix_len(lo: u32, hi: u32) -> Option<u32> {
    let free = lo ^ hi;
    (lo & free == 0 && free & free.wrapping_add(1) == 0).then(|| free.leading_zeros())
}
