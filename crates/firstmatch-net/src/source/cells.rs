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
        self.places.iter().map(|&Place { start, len, text: (from, to) }| {
            let bytes = self.text.get(from..to).unwrap_or_default().trim_ascii();
            Cell { start, len, bytes }
        })
    }

    /// Returns the offset after the last cell that counts: of the separator before cell `count`, or of the line's end.
    pub(super) fn end_of(&self, line: &[u8], count: usize) -> usize {
        let start = self.places.get(count).map(|place| place.start);
        let before = start.and_then(|start| line.get(..start)?.iter().rposition(|&byte| byte == self.separator));
        before.unwrap_or(line.trim_ascii_end().len())
    }

    /// Reads the cells of a line.
    pub(super) fn read(&mut self, line: &[u8]) -> Result<(), Fault> {
        self.reader.reset();
        self.places.clear();
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

impl Cell<'_> {
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
