//! Keys: packets as rows of words, in host order.
//!
//! A row has one word for each [`Word`](crate::schema::Word) of the schema, in schema order, then padding. For example,
//! the row of an IPv4 5-tuple has eight words: `src`, `dst`, `sport`, `dport`, `proto` and three zeros. A packet
//! without ports has 65,536, the value for absent, in both words of ports.

use crate::rule::FieldValues;
use crate::schema::Schema;

/// Growing batch of keys, one row per packet.
///
/// A row has [`Schema::stride`] words, of which the padding is zero. The first row is 64-byte aligned and every other
/// one 16-byte aligned, so that rows of 8 words never straddle a cache line.
///
/// ```
/// use firstmatch_core::{KeyBuf, Schema};
///
/// let mut keys = KeyBuf::new(&Schema::ipv4());
/// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, 443, 6]);
/// assert_eq!((keys.len(), keys.keys().row(0)[3]), (1, 443));
/// ```
#[derive(Debug)]
pub struct KeyBuf {
    schema: Schema,
    stride: usize,
    /// Words skipped for alignment, then the rows, then room for more rows, whose padding is already zero.
    words: Vec<u32>,
    start: usize,
    /// Index of the first word behind the rows.
    end: usize,
}

const ALIGN: usize = 64;
/// Number of words kept free for the alignment.
const SLACK: usize = ALIGN / size_of::<u32>();

impl KeyBuf {
    /// Builds a buffer without rows.
    pub fn new(schema: &Schema) -> Self {
        Self { schema: schema.clone(), stride: schema.stride(), words: Vec::new(), start: 0, end: 0 }
    }

    /// Returns the schema whose words the rows have.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Number of words from one row to the next.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        (self.end - self.start) / self.stride
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.end == self.start
    }

    /// Removes every row and keeps the memory.
    pub fn clear(&mut self) {
        self.end = self.start;
    }

    /// Removes all rows but the first `rows`, which must be there.
    #[inline]
    pub fn truncate(&mut self, rows: usize) {
        self.end = self.start + rows * self.stride;
    }

    /// Makes room for `rows` more rows.
    pub fn reserve(&mut self, rows: usize) {
        let needed = rows * self.stride;
        if self.words.len() - self.end >= needed && !self.words.is_empty() {
            return;
        }
        let old = self.end - self.start;
        let mut words = vec![0; SLACK + old + needed.max(old)];
        let start = words.as_ptr().align_offset(ALIGN).min(SLACK);
        words[start..start + old].copy_from_slice(&self.words[self.start..self.end]);
        (self.words, self.start, self.end) = (words, start, start + old);
    }

    /// Adds a row of zeros and returns it, to be filled by the caller.
    ///
    /// The words of the schema come first, then padding, which must stay zero.
    #[inline]
    pub fn push(&mut self) -> &mut [u32] {
        if self.words.len() - self.end < self.stride {
            self.reserve(64);
        }
        let row = &mut self.words[self.end..][..self.stride];
        row.fill(0);
        self.end += self.stride;
        row
    }

    /// Adds `rows` rows and returns their words, row after row, to be filled by the caller.
    ///
    /// The padding of each row is zero and must stay so. The words of the schema hold old values, because clearing them
    /// would be wasted. The caller must write all of them.
    ///
    /// ```
    /// use firstmatch_core::{KeyBuf, Schema};
    ///
    /// let mut buf = KeyBuf::new(&Schema::ipv4());
    /// let stride = Schema::ipv4().stride();
    /// for (port, row) in (80..).zip(buf.push_rows(2).chunks_exact_mut(stride)) {
    ///     row[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, port, 6]);
    /// }
    /// assert_eq!(buf.keys().row(1)[3], 81);
    /// ```
    #[inline]
    pub fn push_rows(&mut self, rows: usize) -> &mut [u32] {
        let count = rows * self.stride;
        if self.words.len() - self.end < count {
            self.reserve(rows.max(64));
        }
        let words = &mut self.words[self.end..][..count];
        self.end += count;
        words
    }

    /// Returns the words of one row, to be changed.
    ///
    /// The padding must stay zero.
    ///
    /// # Panics
    /// If there is no row of this index.
    #[inline]
    pub fn row_mut(&mut self, index: usize) -> &mut [u32] {
        let stride = self.stride;
        &mut self.words_mut()[index * stride..][..stride]
    }

    /// Returns the words of all rows, row after row, to be changed.
    ///
    /// The padding must stay zero.
    #[inline]
    pub fn words_mut(&mut self) -> &mut [u32] {
        &mut self.words[self.start..self.end]
    }

    /// Adds the row of a packet; absent fields get the value for absent.
    ///
    /// # Panics
    /// If there are not as many values as fields, a field that is not optional lacks its value, or a value is wider
    /// than its field.
    pub fn push_values(&mut self, packet: &FieldValues) {
        let schema = self.schema.clone();
        assert_eq!(packet.values.len(), schema.fields().len(), "one value a field");
        let row = self.push();
        for (word, place) in schema.words().iter().zip(row) {
            let field = &schema.fields()[word.field];
            *place = match packet.values[word.field] {
                Some(value) => {
                    assert!(value <= field.max(), "{value} does not fit {}", field.name());
                    word.part(value)
                }
                None => {
                    assert!(field.is_optional(), "{} is never absent", field.name());
                    word.absent.unwrap_or(0)
                }
            };
        }
    }

    /// Returns all rows.
    pub fn keys(&self) -> Keys<'_> {
        let key_words = self.schema.words().len();
        Keys { words: &self.words[self.start..self.end], key_words, stride: self.stride }
    }
}

impl Clone for KeyBuf {
    fn clone(&self) -> Self {
        let mut copy = Self::new(&self.schema);
        copy.reserve(self.len().max(1));
        copy.push_rows(self.len()).copy_from_slice(self.keys().words);
        copy
    }
}

/// Borrowed batch of keys.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    words: &'a [u32],
    key_words: usize,
    stride: usize,
}

impl<'a> Keys<'a> {
    /// Borrows rows that the caller keeps, of which the first `key_words` words are used.
    ///
    /// The stride is `key_words` rounded up to a multiple of 4, and the padding must be zero. Returns `None` if
    /// `key_words` is 0, `words` is not whole rows, or the first row is not 16-byte aligned.
    pub fn new(words: &'a [u32], key_words: usize) -> Option<Self> {
        let stride = key_words.next_multiple_of(4);
        let is_aligned = words.is_empty() || words.as_ptr().align_offset(16) == 0;
        let fits = key_words > 0 && words.len().is_multiple_of(stride) && is_aligned;
        fits.then_some(Self { words, key_words, stride })
    }

    /// Number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.words.len() / self.stride
    }

    /// Whether there are exactly `rows` rows; takes no division, unlike [`Keys::len`].
    #[inline]
    pub(crate) fn has(&self, rows: usize) -> bool {
        rows.checked_mul(self.stride) == Some(self.words.len())
    }

    /// Whether there is no row.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Number of words of a row, without the padding.
    #[inline]
    pub fn key_words(&self) -> usize {
        self.key_words
    }

    /// Number of words from one row to the next.
    #[inline]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Returns one row with its padding.
    ///
    /// # Panics
    /// If there is no row of this index.
    #[inline]
    pub fn row(&self, index: usize) -> &'a [u32] {
        &self.words[index * self.stride..][..self.stride]
    }

    /// Returns all words, row after row.
    #[inline]
    pub fn words(&self) -> &'a [u32] {
        self.words
    }

    /// Returns the rows `from..to`.
    ///
    /// # Panics
    /// If one of them is not there.
    #[inline]
    pub fn slice(&self, from: usize, to: usize) -> Self {
        Self { words: &self.words[from * self.stride..to * self.stride], ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::{Field, Kind};

    #[test]
    fn rows_are_aligned_and_padded_with_zeros_however_they_grow() {
        for fields in 1..=9 {
            let schema =
                Schema::new(None, (0..fields).map(|i| Field::new(&format!("f{i}"), 32, Kind::Exact, None)).collect());
            let mut buf = KeyBuf::new(&schema);
            for round in 0..3u32 {
                for i in 0..300u32 {
                    let row = buf.push();
                    row[..fields].fill(i + round);
                }
                let keys = buf.keys();
                assert_eq!((keys.len(), keys.row(0).as_ptr().align_offset(64)), (300, 0));
                for i in 0..300 {
                    let (used, padding) = keys.row(i).split_at(fields);
                    assert!(used.iter().all(|&w| w == i as u32 + round) && padding.iter().all(|&w| w == 0));
                }
                assert_eq!(buf.clone().keys().words(), keys.words());
                buf.clear();
                assert!(buf.is_empty());
            }
        }
    }

    #[test]
    fn rows_added_together_have_zeros_behind_their_words() {
        let mut buf = KeyBuf::new(&Schema::ipv4());
        for round in 1..=3u32 {
            for rows in [0, 1, 63, 70] {
                let before = buf.len();
                let words = buf.push_rows(rows);
                assert_eq!(words.len(), rows * 8);
                words.chunks_exact_mut(8).for_each(|row| row[..5].fill(round));
                assert_eq!(buf.len(), before + rows);
            }
            assert_eq!(buf.push(), [0; 8]);
            let keys = buf.keys();
            let row = [round, round, round, round, round, 0, 0, 0];
            assert_eq!((keys.len(), keys.row(0).as_ptr().align_offset(64)), (135, 0));
            assert!((0..134).all(|i| keys.row(i) == row));
            buf.clear();
        }
    }

    #[test]
    fn a_cleared_buffer_keeps_its_memory_wherever_that_lies() {
        let mut buffers: Vec<_> = (0..100).map(|_| KeyBuf::new(&Schema::ipv4())).collect();
        for buf in &mut buffers {
            let first = buf.push().as_ptr();
            buf.clear();
            assert_eq!(buf.push().as_ptr(), first);
        }
    }

    #[test]
    fn rows_of_the_caller_are_whole_and_aligned() {
        let mut buf = KeyBuf::new(&Schema::ipv4());
        (0..2).for_each(|_| _ = buf.push());
        let words = buf.keys().words();
        let rows = |words, key_words| Keys::new(words, key_words).map(|keys| (keys.len(), keys.key_words()));
        assert_eq!((rows(words, 5), rows(words, 4), rows(&[], 5)), (Some((2, 5)), Some((4, 4)), Some((0, 5))));
        assert_eq!((rows(words, 0), rows(&words[..15], 5), rows(&words[..12], 5)), (None, None, None));
        assert_eq!((rows(&words[1..9], 5), rows(&words[4..12], 5)), (None, Some((1, 5))));
    }

    #[test]
    fn absent_values_take_the_extra_value() {
        let mut buf = KeyBuf::new(&Schema::ipv4());
        buf.push_values(&FieldValues { family: None, values: vec![Some(1), Some(2), None, Some(443), Some(1)] });
        assert_eq!(&buf.keys().row(0)[..5], [1, 2, 1 << 16, 443, 1]);
    }
}
