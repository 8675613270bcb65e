//! Layouts of a caller's own records: where the fields of a key lie in headers that have been parsed already.
//!
//! A word of a key is read by one load of eight bytes, a shift and a mask. For example, a `dport` in network order at
//! offset 10 is read from the bytes 4 to 11: the lowest 16 bits of that integer.

use std::error::Error;
use std::fmt;

use crate::key::KeyBuf;
use crate::schema::{MAX_FIELD_BITS, Schema, Source, Word};

/// Number of bytes that are read at once.
const LOAD: usize = size_of::<u64>();
/// Largest offset of a field: no slice has more than `isize::MAX` bytes.
const FARTHEST: usize = isize::MAX as usize - MAX_FIELD_BITS as usize / 8;

/// Where a field lies in a record, in whole bytes.
///
/// A field takes as many bytes as its width needs; bits above its width are ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Offset of its first byte.
    pub offset: usize,
    /// Whether the most significant byte comes first, as in packets. Otherwise it has the byte order of this machine.
    pub is_network: bool,
}

impl Location {
    /// Returns the location of a field in network order.
    pub const fn network(offset: usize) -> Self {
        Self { offset, is_network: true }
    }

    /// Returns the location of a field in the byte order of this machine.
    pub const fn native(offset: usize) -> Self {
        Self { offset, is_network: false }
    }
}

/// Layout of a caller's own records, for [`KeyBuf::push_records`].
///
/// A field that only packets of some protocols have is absent from all others, whatever the record says: a record of
/// ICMP has no ports. Any other field is always present. If the schema has no protocol field, every field is present. A
/// record cannot say that a field is absent for another reason, such as the ports of a later fragment;
/// [`KeyBuf::push_values`] can.
///
/// ```
/// use firstmatch_core::{KeyBuf, Location, RecordLayout, Schema};
///
/// /// What a router has parsed; addresses as they came, the rest as numbers.
/// #[repr(C)]
/// struct Flow { src: [u8; 4], dst: [u8; 4], sport: u16, dport: u16, proto: u8 }
///
/// # use std::mem::offset_of;
/// let layout = RecordLayout::new(&Schema::ipv4(), &[
///     ("src", Location::network(offset_of!(Flow, src))),
///     ("dst", Location::network(offset_of!(Flow, dst))),
///     ("sport", Location::native(offset_of!(Flow, sport))),
///     ("dport", Location::native(offset_of!(Flow, dport))),
///     ("proto", Location::native(offset_of!(Flow, proto))),
/// ])?;
/// let mut record = [10, 0, 0, 1, 192, 0, 2, 7, 0, 0, 0, 0, 6];
/// record[8..10].copy_from_slice(&50_000u16.to_ne_bytes());
/// record[10..12].copy_from_slice(&443u16.to_ne_bytes());
/// let mut keys = KeyBuf::new(&Schema::ipv4());
/// keys.push_records(&layout, [&record[..]])?;
/// assert_eq!(keys.keys().row(0)[..5], [0x0A00_0001, 0xC000_0207, 50_000, 443, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct RecordLayout {
    schema: Schema,
    /// One for each word of the schema.
    parts: Box<[Part]>,
    /// The protocol's word, if some field depends on it.
    protocol: Option<Load>,
    /// Number of bytes of the shortest record that has all fields.
    least: usize,
}

/// How a word of a key is read.
#[derive(Clone, Copy, Debug)]
struct Part {
    load: Load,
    absent: u32,
    /// One bit for each protocol that has the field, if it depends on the protocol.
    protocols: Option<[u64; 4]>,
}

/// Bits of a record.
#[derive(Clone, Copy, Debug)]
struct Load {
    start: usize,
    is_network: bool,
    shift: u32,
    mask: u32,
}

impl Load {
    /// Returns the load of the bits from `low` on, at most 32, of a field of `bytes` bytes.
    fn new(at: Location, bytes: usize, low: u32, mask: u32) -> Self {
        let is_network = at.is_network || cfg!(target_endian = "big");
        let (byte, bit) = (low as usize / 8, low % 8);
        // In network order, the bytes are counted from the last one.
        let end = if is_network { at.offset + bytes - byte } else { at.offset + bytes.min(byte + 5) };
        let start = end.saturating_sub(LOAD);
        let behind = if is_network { start + LOAD - end } else { at.offset + byte - start };
        Self { start, is_network, shift: 8 * behind as u32 + bit, mask }
    }

    #[inline(always)]
    fn of(self, record: &[u8]) -> u32 {
        let bytes = record.get(self.start..).and_then(<[u8]>::first_chunk).copied().unwrap_or_default();
        let word = if self.is_network { u64::from_be_bytes(bytes) } else { u64::from_le_bytes(bytes) };
        (word >> self.shift) as u32 & self.mask
    }
}

impl RecordLayout {
    /// Returns the layout of records with each field of a schema, by name.
    ///
    /// # Errors
    /// If a named field is not in the schema, if a field of the schema is not named or is named twice, or if an offset
    /// is larger than any record.
    pub fn new(schema: &Schema, fields: &[(&str, Location)]) -> Result<Self, LayoutError> {
        let mut places = vec![None; schema.fields().len()];
        for &(name, at) in fields {
            let error = |fault| LayoutError { field: name.to_owned(), fault };
            let index = schema.index_of(name).ok_or_else(|| error(Fault::Unknown))?;
            if at.offset > FARTHEST {
                return Err(error(Fault::Far));
            }
            if places[index].replace(at).is_some() {
                return Err(error(Fault::Twice));
            }
        }
        let missing =
            |index: usize| LayoutError { field: schema.fields()[index].name().to_owned(), fault: Fault::Missing };
        let places: Vec<Location> = places
            .into_iter()
            .enumerate()
            .map(|(index, at)| at.ok_or_else(|| missing(index)))
            .collect::<Result<_, _>>()?;
        let bytes = |index: usize| schema.fields()[index].width().div_ceil(8) as usize;
        let load = |word: &Word| {
            let width = schema.fields()[word.field].width();
            // A top word may have nothing but the value for absent.
            let mask = word.bits & u32::MAX.checked_shr(u32::BITS.saturating_sub(width - word.shift)).unwrap_or(0);
            Load::new(places[word.field], bytes(word.field), word.shift.min(width - 1), mask)
        };
        let is_protocol = |word: &&Word| schema.fields()[word.field].source().is_some_and(Source::is_protocol);
        let protocol = schema.words().iter().find(is_protocol).map(load);
        let part = |word: &Word| {
            let source = schema.fields()[word.field].source().filter(|_| schema.fields()[word.field].is_optional());
            let protocols = source.and_then(|source| source.protocols(schema.family())).filter(|_| protocol.is_some());
            let bits = |protocols: &[u8]| {
                let mut bits = [0; 4];
                protocols.iter().for_each(|&of| bits[usize::from(of / 64)] |= 1 << (of % 64));
                bits
            };
            Part { load: load(word), absent: word.absent.unwrap_or(0), protocols: protocols.map(bits) }
        };
        Ok(Self {
            parts: schema.words().iter().map(part).collect(),
            protocol,
            least: places.iter().enumerate().map(|(index, at)| at.offset + bytes(index)).max().unwrap_or(0),
            schema: schema.clone(),
        })
    }

    /// Returns the schema whose keys the records become.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Number of bytes of the shortest record that has all fields.
    pub fn least_bytes(&self) -> usize {
        self.least
    }
}

impl KeyBuf {
    /// Adds a row for each record, in order.
    ///
    /// # Errors
    /// If a record is shorter than [`RecordLayout::least_bytes`]. No row is added then.
    ///
    /// # Panics
    /// If the layout is of another schema.
    pub fn push_records<'r, R>(
        &mut self,
        layout: &RecordLayout,
        records: impl IntoIterator<Item = &'r R>,
    ) -> Result<(), ShortRecordError>
    where
        R: AsRef<[u8]> + ?Sized + 'r,
    {
        assert_eq!(*self.schema(), layout.schema, "the layout is of another schema");
        let before = self.len();
        for (index, record) in records.into_iter().enumerate() {
            let record = record.as_ref();
            if record.len() < layout.least {
                self.truncate(before);
                return Err(ShortRecordError { index, bytes: record.len(), least: layout.least });
            }
            let mut padded = [0; LOAD];
            let record = if record.len() < LOAD {
                padded[..record.len()].copy_from_slice(record);
                &padded
            } else {
                record
            };
            let protocol = layout.protocol.map_or(0, |load| load.of(record)) as u8;
            for (word, part) in self.push().iter_mut().zip(&layout.parts) {
                let has = part.protocols.is_none_or(|of| of[usize::from(protocol / 64)] >> (protocol % 64) & 1 == 1);
                *word = if has { part.load.of(record) } else { part.absent };
            }
        }
        Ok(())
    }
}

/// Error: fields of a layout do not fit its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutError {
    field: String,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Unknown,
    Missing,
    Twice,
    Far,
}

impl fmt::Display for LayoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let field = &self.field;
        match self.fault {
            Fault::Unknown => write!(f, "the schema has no field {field}"),
            Fault::Missing => write!(f, "the layout lacks the field {field}"),
            Fault::Twice => write!(f, "the layout has the field {field} twice"),
            Fault::Far => write!(f, "no record is so long that it has the field {field} at its offset"),
        }
    }
}

impl Error for LayoutError {}

/// Error: a record ends before its last field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShortRecordError {
    /// Index of the record among those that were to be added.
    pub index: usize,
    /// Number of its bytes.
    pub bytes: usize,
    /// Number of bytes that the layout needs.
    pub least: usize,
}

impl fmt::Display for ShortRecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "record {} has {} bytes, its layout needs {}", self.index, self.bytes, self.least)
    }
}

impl Error for ShortRecordError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::shared::wide::Random;
    use crate::rule::FieldValues;
    use crate::schema::{Family, Field, Kind};

    /// Writes a value of `bytes` bytes at a location.
    fn write(record: &mut [u8], at: Location, bytes: usize, value: u128) {
        let to = &mut record[at.offset..][..bytes];
        if at.is_network || cfg!(target_endian = "big") {
            to.copy_from_slice(&value.to_be_bytes()[16 - bytes..]);
        } else {
            to.copy_from_slice(&value.to_le_bytes()[..bytes]);
        }
    }

    fn schemas() -> Vec<Schema> {
        let widths = |widths: &[u32]| {
            let field = |(index, &width): (usize, &u32)| Field::new(&format!("f{index}"), width, Kind::Exact, None);
            widths.iter().enumerate().map(field).collect::<Vec<_>>()
        };
        let mut all: Vec<Schema> = [1, 2, 7, 8, 9, 16, 31, 32].map(|width| Schema::new(None, widths(&[width]))).into();
        let odd = [1, 13, 128, 40, 33, 65, 20, 127, 8, 3];
        all.extend([4, 7, 16, 32].map(|bits| Schema::with_word_bits(None, widths(&odd), bits)));
        all.extend([Schema::ipv4(), Schema::ipv6(), Schema::openflow()]);
        // Ports without a protocol.
        let ports = [Source::SrcPort, Source::DstPort].map(|port| Field::from_source(port, Family::Ipv4));
        all.push(Schema::new(Some(Family::Ipv4), ports.into()));
        all.push(Schema::five_tuple(Family::Ipv6, &[Source::IcmpType, Source::IcmpCode, Source::TcpFlags]));
        all
    }

    /// Rows of records are those of the fields' values, wherever these lie and in either order of bytes.
    #[test]
    fn records_become_the_rows_of_their_values() {
        let mut random = Random(3);
        for schema in schemas() {
            for round in 0..60 {
                // Fields in any order, some with gaps before them; the record ends with the last one.
                let mut order: Vec<usize> = (0..schema.fields().len()).collect();
                (1..order.len()).rev().for_each(|at| order.swap(at, random.below(at + 1)));
                let bytes = |field: usize| schema.fields()[field].width().div_ceil(8) as usize;
                let mut end = 0;
                let mut places = vec![Location::network(0); order.len()];
                for &field in &order {
                    let offset = end + random.below(3) * (round % 3);
                    places[field] = Location { offset, is_network: random.below(2) == 0 };
                    end = offset + bytes(field);
                }
                let named: Vec<_> = schema.fields().iter().map(Field::name).zip(places.iter().copied()).collect();
                let layout = RecordLayout::new(&schema, &named).expect("all fields are there");
                assert_eq!(layout.least_bytes(), end);
                let (mut values, mut records) = (KeyBuf::new(&schema), Vec::new());
                for _ in 0..5 {
                    // Bits that no field has are random.
                    let noise = random.next() as u8;
                    let mut record = vec![noise; end];
                    let value =
                        |field: &Field| (u128::from(random.next()) << 64 | u128::from(random.next())) & field.max();
                    let mut packet: Vec<u128> = schema.fields().iter().map(value).collect();
                    let is_protocol = |field: &Field| field.source().is_some_and(Source::is_protocol);
                    let protocol = schema.fields().iter().position(is_protocol);
                    if let Some(at) = protocol {
                        packet[at] = [0, 1, 6, 17, 58, 63, 64, 132, 136, 255][random.below(10)];
                    }
                    for ((field, &value), &at) in schema.fields().iter().zip(&packet).zip(&places) {
                        let above = if field.width() % 8 == 0 { 0 } else { u128::from(noise) << field.width() };
                        let bytes = field.width().div_ceil(8);
                        write(&mut record, at, bytes as usize, value | above & (u128::MAX >> (128 - 8 * bytes)));
                    }
                    let has = |field: &Field| {
                        let of = field.source().filter(|_| field.is_optional());
                        let protocols = of.and_then(|source| source.protocols(schema.family()));
                        protocols.zip(protocol).is_none_or(|(all, at)| all.contains(&(packet[at] as u8)))
                    };
                    let fields = schema.fields().iter().zip(&packet);
                    let there = fields.map(|(field, &value)| has(field).then_some(value)).collect();
                    values.push_values(&FieldValues { family: schema.family(), values: there });
                    records.push(record);
                }
                let mut rows = KeyBuf::new(&schema);
                rows.push_records(&layout, &records).expect("the records are whole");
                assert_eq!(rows.keys().words(), values.keys().words(), "{schema:?}, {places:?}");
            }
        }
    }

    /// A record that is too short adds no row, nor do the records before it.
    #[test]
    fn short_records_add_nothing() {
        let schema = Schema::ipv4();
        let at: Vec<_> = ["src", "dst", "sport", "dport", "proto"].into_iter().zip([0, 4, 8, 10, 12]).collect();
        let named: Vec<_> = at.into_iter().map(|(name, offset)| (name, Location::network(offset))).collect();
        let layout = RecordLayout::new(&schema, &named).expect("all fields are there");
        let mut keys = KeyBuf::new(&schema);
        keys.push_records(&layout, [&[1; 13][..], &[2; 40]]).expect("both are whole");
        let error = keys.push_records(&layout, [&[3; 13][..], &[4; 12], &[5; 13]]).expect_err("the second is short");
        assert_eq!((error, keys.len()), (ShortRecordError { index: 1, bytes: 12, least: 13 }, 2));
        assert_eq!(error.to_string(), "record 1 has 12 bytes, its layout needs 13");
        keys.push_records(&layout, [&[6; 13]]).expect("it is whole");
        assert_eq!((keys.len(), keys.keys().row(2)[0]), (3, 0x0606_0606));
    }

    /// A field that the schema lacks, a missing one and one named twice are refused by name.
    #[test]
    fn layouts_have_each_field_once() {
        let new = |names: &[&str]| {
            let fields: Vec<_> = names.iter().map(|&name| (name, Location::native(0))).collect();
            RecordLayout::new(&Schema::ipv4(), &fields).expect_err("it does not fit").to_string()
        };
        assert_eq!(new(&["src", "vlan"]), "the schema has no field vlan");
        assert_eq!(new(&["src", "dst", "src"]), "the layout has the field src twice");
        let far = RecordLayout::new(&Schema::ipv4(), &[("src", Location::network(usize::MAX))]);
        let message = far.expect_err("it is too far").to_string();
        assert_eq!(message, "no record is so long that it has the field src at its offset");
        assert_eq!(new(&["proto", "src", "sport", "dst"]), "the layout lacks the field dport");
    }
}
