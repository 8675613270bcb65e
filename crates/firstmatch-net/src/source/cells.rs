//! Cells of a line of a table, between commas, semicolons or tabs.

use csv_core::{ReadFieldResult, Reader, ReaderBuilder, Terminator};

use super::lines::Fault;

/// Returns the byte between the cells of a table, found from its first line: a tab, a semicolon or a comma.
pub(super) fn separator(line: &[u8]) -> u8 {
    [b'\t', b';'].into_iter().find(|byte| line.contains(byte)).unwrap_or(b',')
}

/// Reader of the cells of one line after another.
pub(super) struct Cells {
    reader: Box<Reader>,
    separator: u8,
    /// Text of the cells of the line, without quotes.
    text: Vec<u8>,
    places: Vec<Place>,
    /// Whether the line has quotes. Otherwise places are raw, with blanks around.
    is_quoted: bool,
}

/// Place of a cell.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Offset in the line and number of bytes there, without surrounding blanks and quotes.
    start: usize,
    len: usize,
    /// Start and end in the text of all cells.
    text: (usize, usize),
}

/// Cell of a line.
#[derive(Clone, Copy)]
pub(super) struct Cell<'a> {
    start: usize,
    len: usize,
    /// Text without surrounding blanks and quotes.
    pub(super) bytes: &'a [u8],
}

impl Cells {
    pub(super) fn new(separator: u8) -> Self {
        // A carriage return is a blank like others, so that nothing after one is lost.
        let reader = ReaderBuilder::new().delimiter(separator).terminator(Terminator::Any(b'\n')).build();
        Self { reader: Box::new(reader), separator, text: Vec::new(), places: Vec::new(), is_quoted: false }
    }

    /// Returns the number of cells of the line read last.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Returns the cells of the line read last.
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = Cell<'_>> {
        self.places.iter().map(|&place| self.cell(place))
    }

    /// Returns the offset after the last cell that counts: of the separator before cell `count`, or of the line's end.
    pub(super) fn end_of(&self, line: &[u8], count: usize) -> usize {
        let start = self.places.get(count).map(|place| place.start);
        let before = start.and_then(|start| line.get(..start)?.iter().rposition(|&byte| byte == self.separator));
        before.unwrap_or(line.trim_ascii_end().len())
    }

    /// Returns the cell of this index of the line read last.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<Cell<'_>> {
        self.places.get(index).map(|&place| self.cell(place))
    }

    #[inline]
    fn cell(&self, Place { start, len, text: (from, to) }: Place) -> Cell<'_> {
        let raw = self.text.get(from..to).unwrap_or_default();
        let bytes = raw.trim_ascii();
        if self.is_quoted {
            return Cell { start, len, bytes };
        }
        Cell { start: start + raw.len() - raw.trim_ascii_start().len(), len: bytes.len(), bytes }
    }

    /// Reads the cells of a line.
    #[inline]
    pub(super) fn read(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.places.clear();
        self.is_quoted = !self.split(line);
        if self.is_quoted {
            self.places.clear();
            return self.read_quoted(line);
        }
        self.text.clear();
        self.text.extend_from_slice(line);
        Ok(())
    }

    /// Finds the cells of a line, eight bytes at a time; returns false if there is a quote.
    ///
    /// Blanks around a cell are left to [`Cells::cell`], because few cells are read.
    #[inline]
    fn split(&mut self, line: &[u8]) -> bool {
        let (words, rest) = line.as_chunks::<8>();
        let (separators, quotes) = (u64::from_le_bytes([self.separator; 8]), u64::from_le_bytes([b'"'; 8]));
        let (mut start, mut quoted) = (0, 0);
        let mut base = 0;
        let mut push = |end: usize| {
            self.places.push(Place { start, len: end - start, text: (start, end) });
            start = end + 1;
        };
        for word in words {
            let word = u64::from_le_bytes(*word);
            quoted |= zeros(word ^ quotes);
            let mut found = zeros(word ^ separators);
            while found != 0 {
                push(base + found.trailing_zeros() as usize / 8);
                found &= found - 1;
            }
            base += 8;
        }
        for (at, &byte) in (base..).zip(rest) {
            quoted |= u64::from(byte == b'"');
            if byte == self.separator {
                push(at);
            }
        }
        push(line.len());
        quoted == 0
    }

    /// Reads the cells of a line, some of which may stand between quotes.
    fn read_quoted(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.reader.reset();
        self.text.resize(line.len().max(self.text.len()), 0);
        let (mut at, mut from) = (0, 0);
        loop {
            let start = at + self.blanks(line.get(at..).unwrap_or_default());
            let (mut to, mut is_last) = (from, None);
            at = start;
            while is_last.is_none() {
                let (input, output) = (line.get(at..).unwrap_or_default(), self.text.get_mut(to..).unwrap_or_default());
                let (result, read, written) = self.reader.read_field(input, output);
                (at, to) = (at + read, to + written);
                is_last = match result {
                    ReadFieldResult::Field { record_end } => Some(record_end),
                    ReadFieldResult::End => Some(true),
                    // The text is as long as the line, so that it is never full. An empty input ends the cell.
                    ReadFieldResult::InputEmpty | ReadFieldResult::OutputFull => None,
                };
            }
            let is_last = is_last == Some(true);
            let end = if is_last { line.len() } else { at - 1 };
            self.places.push(place(line.get(start..end).unwrap_or_default(), start, (from, to))?);
            if is_last {
                return Ok(());
            }
            from = to;
        }
    }

    /// Returns the number of blanks at the beginning, none of which separates cells.
    fn blanks(&self, line: &[u8]) -> usize {
        line.iter().take_while(|&&byte| byte != self.separator && matches!(byte, b' ' | b'\t')).count()
    }
}

/// Returns the top bit of each byte that is zero.
#[inline]
fn zeros(word: u64) -> u64 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    !(((word & LOW) + LOW) | word | LOW)
}

/// Returns the place of a cell that is written as `raw` at `start`.
fn place(raw: &[u8], start: usize, text: (usize, usize)) -> Result<Place, Fault> {
    let raw = raw.trim_ascii_end();
    let is_quoted = raw.first() == Some(&b'"');
    if is_quoted && raw.iter().filter(|&&byte| byte == b'"').count() % 2 != 0 {
        let message = "a quote without its end".to_owned();
        return Err(Fault::new(start, raw.len(), message, Some("a value, or one between quotes")));
    }
    let quotes = usize::from(is_quoted);
    Ok(Place { start: start + quotes, len: raw.len() - 2 * quotes, text })
}

impl<'a> Cell<'a> {
    /// Returns a cell of `bytes`, which stand at `start` in the line.
    pub(super) fn new(start: usize, bytes: &'a [u8]) -> Self {
        Self { start, len: bytes.len(), bytes }
    }

    pub(super) fn fault(&self, message: String, expected: &str) -> Fault {
        Fault::new(self.start, self.len, message, Some(expected))
    }

    /// Returns the cell as a length in bytes; 0 for an empty cell.
    pub(super) fn number(&self) -> Result<u32, Fault> {
        let digits = self
            .bytes
            .iter()
            .try_fold(0u32, |value, digit| value.checked_mul(10)?.checked_add(char::from(*digit).to_digit(10)?));
        digits.ok_or_else(|| {
            let text = String::from_utf8_lossy(self.bytes);
            self.fault(format!("{text} is no number of bytes"), "a number up to 4294967295")
        })
    }
}
