//! Fields, schemas and the key words they lower to.
//!
//! A [`Schema`] is an ordered list of [`Field`]s. Engines never see fields: they see key *words* (type [`Word`]),
//! unsigned integers of at most 32 bits. A field wider than 32 bits is several words, most significant first. A field
//! that may be absent has one more value, `2^width`, in its top word, so that intervals express absence too.
//!
//! For example, a port has 17 bits: 0 to 65,535 are ports, and 65,536 says that the packet has none. "No condition" is
//! then the interval 0 to 65,536, and "any port" the interval 0 to 65,535.

mod presence;
mod source;

use std::fmt;
use std::sync::Arc;

pub use presence::{IPV6_EXTENSIONS, family_of_protocol};
pub use source::{ExtensionHeader, Family, Kind, Source};

/// Largest width of a field, in bits.
pub const MAX_FIELD_BITS: u32 = 128;
/// Largest number of fields of a schema.
pub const MAX_FIELDS: usize = 64;

/// Field of a schema.
///
/// ```
/// use firstmatch_core::schema::{Field, Kind};
///
/// let vlan = Field::new("vlan", 12, Kind::Exact, None).optional();
/// assert_eq!((vlan.name(), vlan.max(), vlan.is_optional()), ("vlan", 4095, true));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    name: Box<str>,
    width: u32,
    kind: Kind,
    source: Option<Source>,
    optional: bool,
}

impl Field {
    /// Builds a field that every packet has.
    ///
    /// # Panics
    /// If `width` is 0 or above [`MAX_FIELD_BITS`]. Programs write schemas; they are not read from outside.
    pub fn new(name: &str, width: u32, kind: Kind, source: Option<Source>) -> Self {
        assert!((1..=MAX_FIELD_BITS).contains(&width), "field {name}: width {width} is not in 1..={MAX_FIELD_BITS}");
        Self { name: name.into(), width, kind, source, optional: false }
    }

    /// Returns the same field, but packets may lack it.
    #[must_use]
    pub fn optional(mut self) -> Self {
        self.optional = true;
        self
    }

    /// Returns the name that rules use.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Width in bits, without the extra value for absent.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Returns the form of test that rules usually apply to it.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the header field it comes from, if any.
    pub fn source(&self) -> Option<Source> {
        self.source
    }

    /// Whether a packet may lack it.
    pub fn is_optional(&self) -> bool {
        self.optional
    }

    /// Largest value, `2^width - 1`.
    pub fn max(&self) -> u128 {
        u128::MAX >> (128 - self.width)
    }

    /// Computes [`Schema::identity_of`] with FNV-1a, the same on every machine.
    fn identity(&self, index: usize, family: Option<Family>) -> u32 {
        let source = self.source.map_or("", Source::name);
        let numbers = [index as u8, self.width as u8, family.map_or(0, |family| 1 + family as u8)];
        let bytes = self.name.bytes().chain([0]).chain(source.bytes()).chain([0]).chain(numbers);
        let hash =
            bytes.fold(0xCBF2_9CE4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01B3));
        (hash ^ hash >> 32) as u32
    }
}

/// Key word: at most 32 bits of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Index of its field in the schema.
    pub field: usize,
    /// Number of bits of the field to the right of this word.
    pub shift: u32,
    /// Largest value that a key may hold here.
    ///
    /// In the top word of an optional field this is the value for absent.
    pub max: u32,
    /// Mask of the bits that a value of this word may set; a mask, not their number.
    ///
    /// For example, it is 0x1_FFFF for a port, whose word has 16 bits and one more for the value of absent ports.
    pub bits: u32,
    /// Value of the word when the field is absent, in the top word of an optional field.
    ///
    /// `None` in all other words.
    pub absent: Option<u32>,
}

impl Word {
    /// Returns the part of a field's value that this word holds.
    pub(crate) fn part(&self, value: u128) -> u32 {
        value.checked_shr(self.shift).unwrap_or(0) as u32 & self.bits
    }
}

/// Ordered list of fields, and the key words they lower to. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Schema(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    fields: Vec<Field>,
    family: Option<Family>,
    words: Vec<Word>,
    /// Indices of words by field: field `f` has the words `first[f]..first[f + 1]`.
    first: Vec<usize>,
    /// Value of [`Schema::identity_of`] for each field.
    identities: Vec<u32>,
}

impl Schema {
    /// Builds a schema of these fields.
    ///
    /// # Panics
    /// If there is no field, there are more than [`MAX_FIELDS`], or two have the same name.
    pub fn new(family: Option<Family>, fields: Vec<Field>) -> Self {
        Self::with_word_bits(family, fields, 32)
    }

    /// Builds a schema whose words have at most `word_bits` bits.
    ///
    /// For tests that walk every key of a small domain. For example, with words of 2 bits, fields of 2 to 8 bits
    /// already exercise everything that wide fields do.
    ///
    /// # Panics
    /// As [`Schema::new`], or if `word_bits` is not in `1..=32`.
    pub fn with_word_bits(family: Option<Family>, fields: Vec<Field>, word_bits: u32) -> Self {
        assert!((1..=MAX_FIELDS).contains(&fields.len()), "a schema has 1 to {MAX_FIELDS} fields");
        assert!((1..=32).contains(&word_bits), "a word has 1 to 32 bits");
        let mut words = Vec::new();
        let mut first = vec![0];
        for (index, field) in fields.iter().enumerate() {
            assert!(fields[..index].iter().all(|f| f.name != field.name), "two fields are named {}", field.name);
            let total = field.width + u32::from(field.optional);
            // The top word takes the bits that do not fill a whole word.
            let mut left = total;
            while left > 0 {
                let width = if left.is_multiple_of(word_bits) { word_bits } else { left % word_bits };
                let top = left == total;
                left -= width;
                let bits = u32::MAX >> (32 - width);
                let absent = (top && field.optional).then(|| 1 << (width - 1));
                words.push(Word { field: index, shift: left, max: absent.unwrap_or(bits), bits, absent });
            }
            first.push(words.len());
        }
        let identities = fields.iter().enumerate().map(|(index, field)| field.identity(index, family)).collect();
        Self(Arc::new(Inner { fields, family, words, first, identities }))
    }

    /// Builds the schema of the IPv4 5-tuple, which has five words.
    ///
    /// The fields are `src`, `dst` (32 bits), `sport`, `dport` (16, optional) and `proto` (8).
    pub fn ipv4() -> Self {
        Self::five_tuple(Family::Ipv4, &[])
    }

    /// Builds the schema of the IPv6 5-tuple, which has eleven words.
    ///
    /// The fields are those of [`Schema::ipv4`], with addresses of 128 bits.
    pub fn ipv6() -> Self {
        Self::five_tuple(Family::Ipv6, &[])
    }

    /// Builds the schema of the 5-tuple of a family followed by `extra` header fields.
    ///
    /// Each field has its usual name (see [`Field::from_source`]).
    pub fn five_tuple(family: Family, extra: &[Source]) -> Self {
        let five = [Source::Src, Source::Dst, Source::SrcPort, Source::DstPort, Source::Proto];
        let fields = five.iter().chain(extra).map(|&source| Field::from_source(source, family)).collect();
        Self::new(Some(family), fields)
    }

    /// Builds the schema of the 15 fields that OpenFlow 1.x switches match on, of no family.
    ///
    /// The widths in bits are `in_port` 32, `metadata` 64, `eth_src` and `eth_dst` 48, `eth_type` 16, `vlan_vid` 12,
    /// `vlan_pcp` 3, `mpls_label` 20 and `mpls_tc` 3. The fields of IP are `ipv4_src` and `ipv4_dst` 32, `ip_proto` 8,
    /// `ip_dscp` 6, `tp_src` and `tp_dst` 16. All but the first two are optional. The schema has twenty words.
    /// [`Source`] tells where the parser reads them.
    pub fn openflow() -> Self {
        let sources = [
            Source::InPort,
            Source::Metadata,
            Source::EthSrc,
            Source::EthDst,
            Source::EthType,
            Source::VlanVid,
            Source::VlanPcp,
            Source::MplsLabel,
            Source::MplsTc,
            Source::Ipv4Src,
            Source::Ipv4Dst,
            Source::IpProto,
            Source::IpDscp,
            Source::TpSrc,
            Source::TpDst,
        ];
        // The width of these sources does not depend on the family.
        Self::new(None, sources.map(|source| Field::from_source(source, Family::Ipv4)).into())
    }

    /// Returns the family its addresses belong to, if it has one.
    pub fn family(&self) -> Option<Family> {
        self.0.family
    }

    /// Returns the fields in order.
    pub fn fields(&self) -> &[Field] {
        &self.0.fields
    }

    /// Whether a field has an address of the schema's family in every packet, as live sets need.
    pub fn has_addresses(&self, field: usize) -> bool {
        let of = &self.fields()[field];
        let bits = self.family().map(|family| if family == Family::Ipv4 { 32 } else { 128 });
        matches!(of.source(), Some(Source::Src | Source::Dst)) && bits == Some(of.width()) && !of.is_optional()
    }

    /// Returns the index of the field of this name.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.0.fields.iter().position(|f| &*f.name == name)
    }

    /// Returns the index of the field filled from this header field.
    pub fn index_of_source(&self, source: Source) -> Option<usize> {
        self.0.fields.iter().position(|f| f.source == Some(source))
    }

    /// Returns all words in order.
    pub fn words(&self) -> &[Word] {
        &self.0.words
    }

    /// Returns the words of one field, as indices into [`Schema::words`].
    pub fn words_of(&self, field: usize) -> std::ops::Range<usize> {
        self.0.first[field]..self.0.first[field + 1]
    }

    /// Returns the value of each field in a row of key words; `None` for a field that is absent.
    ///
    /// ```
    /// use firstmatch_core::Schema;
    ///
    /// let values = Schema::ipv4().values(&[0x0A00_0001, 0xC000_0207, 1 << 16, 1 << 16, 1]);
    /// assert_eq!(values, [Some(0x0A00_0001), Some(0xC000_0207), None, None, Some(1)]);
    /// ```
    ///
    /// # Panics
    /// If the row has fewer words than the schema.
    pub fn values(&self, row: &[u32]) -> Vec<Option<u128>> {
        let value = |field: usize| {
            let words = self.words_of(field);
            let of = self.words()[words.clone()].iter().zip(&row[words]);
            if of.clone().any(|(word, &key)| word.absent == Some(key)) {
                return None;
            }
            Some(of.fold(0, |value, (word, &key)| value | u128::from(key).checked_shl(word.shift).unwrap_or(0)))
        };
        (0..self.fields().len()).map(value).collect()
    }

    /// Returns a hash of the index, name, width, source and family of a field.
    ///
    /// Two fields have the same hash if a condition on them means the same.
    pub(crate) fn identity_of(&self, field: usize) -> u32 {
        self.0.identities[field]
    }

    /// Number of words from one row of keys to the next, a multiple of 4.
    pub fn stride(&self) -> usize {
        self.0.words.len().next_multiple_of(4)
    }

    /// Number of bytes on the heap, which all clones share.
    pub(crate) fn bytes(&self) -> usize {
        let Inner { fields, words, first, identities, .. } = &*self.0;
        let names: usize = fields.iter().map(|field| field.name.len()).sum();
        // Both counts of references come before the fields.
        let own = 2 * size_of::<usize>() + size_of::<Inner>() + fields.capacity() * size_of::<Field>() + names;
        let of_words = words.capacity() * size_of::<Word>() + first.capacity() * size_of::<usize>();
        own + of_words + identities.capacity() * size_of::<u32>()
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.fields().iter().map(|field| format!("{}:{}", field.name, field.width));
        f.debug_struct("Schema").field("family", &self.0.family).field("fields", &fields.collect::<Vec<_>>()).finish()
    }
}

impl Field {
    /// Builds the field that is filled from a header field, with its usual name, width and kind.
    pub fn from_source(source: Source, family: Family) -> Self {
        let field = Self::new(source.name(), source.width(family), source.kind(), Some(source));
        if source.is_optional() { field.optional() } else { field }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_have_the_words_the_documentation_states() {
        assert_eq!(Schema::ipv4().words().len(), 5);
        assert_eq!(Schema::ipv4().stride(), 8);
        assert_eq!(Schema::ipv6().words().len(), 11);
        assert_eq!(Schema::ipv6().stride(), 12);
        assert_eq!(Schema::openflow().words().len(), 20);
        assert_eq!(Schema::openflow().stride(), 20);
        let fields: Vec<_> = Schema::openflow().fields().iter().map(|f| (f.name().to_owned(), f.width())).collect();
        let expected = "in_port 32, metadata 64, eth_src 48, eth_dst 48, eth_type 16, vlan_vid 12, vlan_pcp 3, \
                        mpls_label 20, mpls_tc 3, ipv4_src 32, ipv4_dst 32, ip_proto 8, ip_dscp 6, tp_src 16, tp_dst 16";
        let written: Vec<_> = fields.iter().map(|(name, width)| format!("{name} {width}")).collect();
        assert_eq!(written.join(", "), expected);
        let port = Schema::ipv4().words()[2];
        assert_eq!((port.max, port.bits, port.absent), (1 << 16, 0x1_FFFF, Some(1 << 16)));
    }

    #[test]
    fn sources_are_listed_in_order_under_distinct_names() {
        for (index, source) in Source::ALL.into_iter().enumerate() {
            assert_eq!(source as usize, index);
            assert_eq!(Source::by_name(source.name()), Some(source));
            let field = Field::from_source(source, Family::Ipv6);
            assert_eq!((field.name(), field.width()), (source.name(), source.width(Family::Ipv6)));
        }
        assert_eq!(Source::by_name("IN_PORT"), None);
    }

    #[test]
    fn a_wide_optional_field_keeps_its_absent_bit_in_a_word_of_its_own() {
        let schema = Schema::new(None, vec![Field::new("f", 64, Kind::Exact, None).optional()]);
        let widths: Vec<_> = schema.words().iter().map(|l| (l.bits.count_ones(), l.shift, l.max)).collect();
        assert_eq!(widths, [(1, 64, 1), (32, 32, u32::MAX), (32, 0, u32::MAX)]);
    }
}
