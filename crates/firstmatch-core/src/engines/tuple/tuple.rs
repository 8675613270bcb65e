//! Tuples: which bits of a key a table hashes.
//!
//! A tuple has one mask per key word, padded with zeros to the stride of keys. The mask of a prefix or a range covers
//! its longest containing prefix, like the lengths in the paper. A ternary word brings its own mask bits.

use super::config::TupleFields;
use crate::rule::Region;
use crate::rule::fixed_bits;
use crate::schema::{Kind, Schema, Source};

/// Properties of a schema that decide tuples.
#[derive(Clone, Debug)]
pub(super) struct Shape {
    fields: Box<[FieldShape]>,
    /// Source and destination address, each with its port, where the schema has both addresses.
    ends: Option<[End; 2]>,
    stride: usize,
    /// Bits of each word that a tuple may have: the word's value bits, or 0 if tuples leave its field out.
    bits: Box<[u32]>,
}

#[derive(Clone, Debug)]
struct FieldShape {
    first: usize,
    last: usize,
    width: u32,
    kind: Kind,
    /// Bit of the field's first word that says "absent"; 0 where the field is never absent.
    absent: u32,
}

#[derive(Clone, Copy, Debug)]
struct End {
    address: usize,
    port: Option<usize>,
}

impl Shape {
    pub(super) fn new(schema: &Schema, of: TupleFields) -> Self {
        let fields = schema.fields().iter().enumerate().map(|(index, field)| {
            let words = schema.words_of(index);
            let absent = schema.words()[words.start].absent.unwrap_or(0);
            FieldShape { first: words.start, last: words.end, width: field.width(), kind: field.kind(), absent }
        });
        let end = |address, port| {
            let address = schema.index_of_source(address)?;
            Some(End { address, port: schema.index_of_source(port) })
        };
        let ends = end(Source::Src, Source::SrcPort).zip(end(Source::Dst, Source::DstPort));
        let ends = ends.or_else(|| end(Source::Ipv4Src, Source::TpSrc).zip(end(Source::Ipv4Dst, Source::TpDst)));
        let mut bits: Box<[u32]> = schema.words().iter().map(|word| word.bits).collect();
        if let (TupleFields::Addresses, Some((src, dst))) = (of, ends) {
            let others = (0..schema.fields().len()).filter(|&field| field != src.address && field != dst.address);
            others.for_each(|field| bits[schema.words_of(field)].fill(0));
        }
        Self { fields: fields.collect(), ends: ends.map(|(src, dst)| [src, dst]), stride: schema.stride(), bits }
    }

    pub(super) fn stride(&self) -> usize {
        self.stride
    }

    pub(super) fn key_words(&self) -> usize {
        self.bits.len()
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.fields[..]) + size_of_val(&self.bits[..])
    }

    /// Writes the tuple of a region before any relaxation: every bit that the region fixes.
    pub(super) fn nominal(&self, region: &Region<'_>, out: &mut [u32]) {
        out.fill(0);
        // Bits above a word's own are zero in every key. No tuple has them, otherwise lengths would count them.
        for (word, (bits, own)) in out.iter_mut().zip(&self.bits).enumerate() {
            *bits = fixed_bits(region, word) & own;
        }
        for field in &self.fields {
            field.settle_absent(out);
        }
    }

    /// Writes the tuple of a table made for a region of tuple `nominal` (section III-C2).
    ///
    /// The shorter address is dropped together with its port, unless the two lengths are close. Prefix fields lose a
    /// few bits, long ones more. For example, IPv4 addresses of 32 and 28 bits are close and keep 28 and 25. Addresses
    /// of 32 and 27 bits keep 28 and 0.
    pub(super) fn relaxed(&self, nominal: &[u32], out: &mut [u32]) {
        out.copy_from_slice(nominal);
        if let Some([src, dst]) = &self.ends {
            let (s, d) = (self.length(src.address, nominal), self.length(dst.address, nominal));
            let close = CLOSE * self.fields[src.address].scale();
            let dropped = if s + close < d { Some(src) } else { (d + close < s).then_some(dst) };
            for field in dropped.into_iter().flat_map(|end| [Some(end.address), end.port]).flatten() {
                self.fields[field].words_mut(out).fill(0);
            }
        }
        for (index, field) in self.fields.iter().enumerate().filter(|(_, f)| f.kind == Kind::Prefix) {
            let scale = field.scale();
            let surplus = bits_dropped(self.length(index, out).div_ceil(scale)) * scale;
            for _ in 0..surplus {
                let words = field.words_mut(out);
                if let Some(word) = words.iter_mut().rev().find(|mask| **mask != 0) {
                    *word &= *word - 1;
                }
            }
            field.settle_absent(out);
        }
    }

    pub(super) fn fields(&self) -> std::ops::Range<usize> {
        0..self.fields.len()
    }

    /// Number of bits that `tuple` has in a field, without the absent bit.
    pub(super) fn length(&self, field: usize, tuple: &[u32]) -> u32 {
        let field = &self.fields[field];
        let all: u32 = tuple[field.first..field.last].iter().map(|mask| mask.count_ones()).sum();
        all - (tuple[field.first] & field.absent).count_ones()
    }

    /// Adds leading bits of `towards` to a field of `tuple`, until the field has `length` bits.
    ///
    /// `towards` must have all bits of `tuple`.
    pub(super) fn raise(&self, field: usize, length: u32, towards: &[u32], tuple: &mut [u32]) {
        for word in self.fields[field].first..self.fields[field].last {
            loop {
                let missing = towards[word] & !tuple[word];
                if missing == 0 || self.length(field, tuple) >= length {
                    break;
                }
                tuple[word] |= 1 << (31 - missing.leading_zeros());
            }
        }
    }
}

/// Maximum difference in length of two close addresses, in bits of 32 (section III-C2).
const CLOSE: u32 = 4;

/// Number of bits that a prefix of `length` bits, of 32, loses in a new table.
///
/// Section III-C2, read as "4 bits for 32, 3 for more than 24, 2 for more than 16, and so on".
fn bits_dropped(length: u32) -> u32 {
    match length {
        0..=8 => 0,
        9..=16 => 1,
        17..=24 => 2,
        25..=31 => 3,
        _ => 4,
    }
}

impl FieldShape {
    /// Returns the factor by which `CLOSE` and `bits_dropped` grow for this field.
    ///
    /// They are stated for 32 bits; for example, the factor of an IPv6 address is 4.
    fn scale(&self) -> u32 {
        (self.width / 32).max(1)
    }

    fn words_mut<'t>(&self, tuple: &'t mut [u32]) -> &'t mut [u32] {
        &mut tuple[self.first..self.last]
    }

    /// Sets the bit for absent exactly when a bit of the value is hashed.
    ///
    /// If a tuple had the absent bit alone, rules that only require the field to be present could not share a table
    /// with rules that leave it open.
    fn settle_absent(&self, tuple: &mut [u32]) {
        let words = self.words_mut(tuple);
        words[0] &= !self.absent;
        if words.iter().any(|&mask| mask != 0) {
            words[0] |= self.absent;
        }
    }
}

/// Whether every bit of `inner` is in `outer`.
#[inline]
pub(super) fn is_within(inner: &[u32], outer: &[u32]) -> bool {
    inner.iter().zip(outer).all(|(i, o)| i & !o == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::Family;

    fn tuple(shape: &Shape, lens: [u32; 4]) -> Vec<u32> {
        let prefix = |len: u32| u32::MAX.checked_shl(32 - len).unwrap_or(0);
        let port = |len: u32| if len == 0 { 0 } else { 0x1_FFFF & (u32::MAX << (16 - len)) };
        let mut out = vec![prefix(lens[0]), prefix(lens[1]), port(lens[2]), port(lens[3]), 0xFF];
        out.resize(shape.stride(), 0);
        out
    }

    fn relaxed(shape: &Shape, lens: [u32; 4]) -> Vec<u32> {
        let mut out = vec![0; shape.stride()];
        shape.relaxed(&tuple(shape, lens), &mut out);
        (0..4).map(|field| shape.length(field, &out)).collect()
    }

    #[test]
    fn new_tables_drop_the_smaller_address_with_its_port_and_a_few_bits() {
        let shape = Shape::new(&Schema::ipv4(), TupleFields::All);
        for (lens, want) in [
            ([32, 32, 16, 16], [28, 28, 16, 16]),
            ([32, 28, 16, 0], [28, 25, 16, 0]), // 4 apart: close
            ([32, 27, 0, 16], [28, 0, 0, 0]),
            ([8, 16, 16, 16], [0, 15, 0, 16]),
            ([24, 25, 0, 7], [22, 22, 0, 7]),
            ([17, 16, 0, 0], [15, 15, 0, 0]),
            ([9, 8, 0, 0], [8, 8, 0, 0]),
            ([0, 0, 3, 3], [0, 0, 3, 3]),
        ] {
            assert_eq!(relaxed(&shape, lens), want, "{lens:?}");
        }
    }

    #[test]
    fn wide_addresses_scale_the_same_numbers() {
        let shape = Shape::new(&Schema::five_tuple(Family::Ipv6, &[]), TupleFields::All);
        let mut nominal = vec![0; shape.stride()];
        nominal[..4].fill(u32::MAX); // src /128
        nominal[4..7].fill(u32::MAX); // dst /96: 32 apart, more than 16
        let mut out = vec![0; shape.stride()];
        shape.relaxed(&nominal, &mut out);
        assert_eq!([0, 1].map(|f| shape.length(f, &out)), [112, 0]);
        nominal[7] = 0xFFFF_0000; // dst /112: 16 apart, close
        shape.relaxed(&nominal, &mut out);
        assert_eq!([0, 1].map(|f| shape.length(f, &out)), [112, 100]);
        assert_eq!(out[7], 0xF000_0000);
    }

    /// The bit for absent is hashed with the value or not at all; an open port does not fix it.
    #[test]
    fn a_region_fixes_no_bits_beyond_its_words() {
        let shape = Shape::new(&Schema::ipv4(), TupleFields::All);
        let nominal = |hi: [u32; 5]| {
            let mut out = vec![u32::MAX; shape.stride()];
            shape.nominal(&Region { lo: &[0; 5], hi: &hi, ternary: None }, &mut out);
            out
        };
        assert_eq!(nominal([u32::MAX, u32::MAX, 1 << 16, 1 << 16, 0xFF]), [0; 8]);
        assert_eq!(nominal([u32::MAX, u32::MAX, 0xFFFF, 1 << 16, 0xFF]), [0; 8]);
        assert_eq!(nominal([u32::MAX, u32::MAX, 0x7FFF, 0, 0x7F]), [0, 0, 0x1_8000, 0x1_FFFF, 0x80, 0, 0, 0]);
    }

    #[test]
    fn a_raised_field_takes_the_leading_bits() {
        let shape = Shape::new(&Schema::ipv4(), TupleFields::All);
        let (mut low, high) = (tuple(&shape, [8, 0, 0, 0]), tuple(&shape, [24, 0, 0, 16]));
        shape.raise(0, 16, &high, &mut low);
        shape.raise(3, 8, &high, &mut low);
        assert_eq!(low, tuple(&shape, [16, 0, 0, 8]));
        assert!(is_within(&low, &high) && !is_within(&high, &low));
    }
}
