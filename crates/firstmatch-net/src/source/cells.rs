//! Cells of a line of a table, between commas, semicolons or tabs.

use csv_core::{ReadFieldResult, Reader, ReaderBuilder, Terminator};
use memchr::{memchr, memchr_iter};

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
        Self { reader: Box::new(reader), separator, text: Vec::new(), places: Vec::new() }
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
        Cell { start, len, bytes: self.text.get(from..to).unwrap_or_default().trim_ascii() }
    }

    /// Reads the cells of a line.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.places.clear();
        if memchr(b'"', line).is_none() {
            self.split(line);
            return Ok(());
        }
        self.read_quoted(line)
    }

    /// Reads the cells of a line without quotes.
    fn split(&mut self, line: &[u8]) {
        self.text.clear();
        self.text.extend_from_slice(line);
        let mut at = 0;
        for end in memchr_iter(self.separator, line).chain([line.len()]) {
            let raw = line.get(at..end).unwrap_or_default();
            let start = at + self.blanks(raw);
            let len = raw.get(start - at..).unwrap_or_default().trim_ascii_end().len();
            self.places.push(Place { start, len, text: (start, start + len) });
            at = end + 1;
        }
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
