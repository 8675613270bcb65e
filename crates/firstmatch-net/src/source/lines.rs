//! Reader of lines of text, one at a time.

use firstmatch_core::Diagnostic;
use memchr::memchr;

use super::raw::Sniffed;
use super::window::Window;
use super::{Cut, Limits, Progress, SourceError};

/// Lines of a stream, without empty lines and lines that start with `#`.
pub(super) struct Lines {
    name: Box<str>,
    window: Window,
    progress: Progress,
    /// First bytes of the text, for a message.
    beginning: Box<str>,
    max_line: usize,
    /// Longest record in bytes, of a text whose rows are no lines.
    max_record: usize,
    /// Whether lines that start with `#` are delivered, too.
    keeps_comments: bool,
    /// Number of line ends consumed, if rows are no lines.
    line_ends: u32,
    /// Number of the line last read, from 1.
    line: u32,
    /// Start and end of that line in the window.
    place: (usize, usize),
    cut: Option<Cut>,
}

impl Lines {
    pub(super) fn new(sniffed: Sniffed, limits: &Limits) -> Self {
        let Sniffed { name, prefix, stream, progress, .. } = sniffed;
        let beginning: String =
            String::from_utf8_lossy(&prefix).lines().next().unwrap_or("").chars().take(40).collect();
        Self {
            name,
            window: Window::new(stream),
            progress,
            beginning: beginning.into(),
            max_line: limits.max_line,
            max_record: limits.max_record,
            keeps_comments: false,
            line_ends: 0,
            line: 0,
            place: (0, 0),
            cut: None,
        }
    }

    /// Delivers lines that start with `#`, too, from now on.
    pub(super) fn keep_comments(&mut self) {
        self.keeps_comments = true;
    }

    /// Lets lines be as long as records, and returns that length in bytes.
    pub(super) fn allow_records(&mut self) -> usize {
        self.max_line = self.max_record;
        self.max_record
    }

    /// Returns the first characters of the text.
    pub(super) fn beginning(&self) -> &str {
        &self.beginning
    }

    /// Returns a handle that shows how far reading has come.
    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// Returns a description of the text by its first bytes.
    pub(super) fn looks_like(&self) -> String {
        format!("text (it starts with {:?})", self.beginning)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    /// Returns the number of the line last read, from 1.
    pub(super) fn line(&self) -> u32 {
        self.line
    }

    pub(super) fn cut(&self) -> Option<&Cut> {
        self.cut.as_ref()
    }

    /// Returns the next line without its line end; `None` at the end.
    ///
    /// If the stream is cut, the [`Cut`] states `whole`, the number of valid lines so far.
    #[inline]
    pub(super) fn next(&mut self, whole: u64) -> Result<Option<&[u8]>, SourceError> {
        loop {
            let Some(len) = self.find(whole)? else { return Ok(None) };
            self.line = self.line.saturating_add(1);
            let mut line = self.window.bytes().get(..len).unwrap_or_default();
            if self.line == 1 {
                line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
            }
            let mark = len - line.len();
            let blank = line.trim_ascii_start().is_empty() || !self.keeps_comments && line.starts_with(b"#");
            let start = self.window.place();
            self.place = (start + mark, start + len);
            self.window.consume(len + 1);
            if !blank {
                return Ok(Some(self.current()));
            }
        }
    }

    /// Returns the line last read; valid until the next one is read.
    pub(super) fn current(&self) -> &[u8] {
        self.window.at(self.place.0, self.place.1)
    }

    /// Returns the error of `fault` in the line last read.
    pub(super) fn error(&self, fault: Fault) -> SourceError {
        SourceError::line(&self.name, fault.at(self.line, self.current()))
    }

    /// Returns the length of the next line without its line end; `None` at the end.
    ///
    /// It reads until the whole line is at hand.
    fn find(&mut self, whole: u64) -> Result<Option<usize>, SourceError> {
        let mut searched = 0;
        loop {
            let bytes = self.window.bytes();
            let here = bytes.len();
            let found = memchr(b'\n', bytes.get(searched..).unwrap_or_default()).map(|at| searched + at);
            if let Some(len) = found.filter(|&len| len <= self.max_line) {
                return Ok(Some(len));
            }
            if found.is_some() || here > self.max_line {
                let fault = Fault::new(1, 0, format!("this line is longer than {} bytes", self.max_line), None);
                let start = bytes.get(..bytes.len().min(80)).unwrap_or_default();
                return Err(SourceError::line(&self.name, fault.at(self.line.saturating_add(1), start)));
            }
            searched = here;
            if !self.window.need(here + 1)? {
                return Ok(self.last(here, whole));
            }
        }
    }

    /// Skips white space and returns the byte behind it, which is not consumed; `None` at the end.
    ///
    /// If the stream is cut, the [`Cut`] states `whole`, the number of valid rows so far.
    pub(super) fn next_byte(&mut self, whole: u64) -> Result<Option<u8>, SourceError> {
        if self.window.offset() == 0 && self.window.need(3)? && self.window.bytes().starts_with(b"\xef\xbb\xbf") {
            self.window.consume(3);
        }
        loop {
            let bytes = self.window.bytes();
            let blanks = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
            let ends = bytes.iter().take(blanks).filter(|&&byte| byte == b'\n').count();
            let next = bytes.get(blanks).copied();
            self.line_ends = self.line_ends.saturating_add(ends as u32);
            self.window.consume(blanks);
            if next.is_some() {
                return Ok(next);
            }
            if !self.window.need(1)? {
                self.last(0, whole);
                return Ok(None);
            }
        }
    }

    /// Returns at least `count` bytes from here on, or all up to the end.
    pub(super) fn at_hand(&mut self, count: usize) -> Result<&[u8], SourceError> {
        self.window.need(count)?;
        Ok(self.window.bytes())
    }

    /// Consumes `len` bytes that are at hand as the row that [`Lines::current`] returns.
    pub(super) fn take(&mut self, len: usize) {
        let start = self.window.place();
        self.place = (start, start + len);
        self.line = self.line_ends.saturating_add(1);
        let ends = self.current().iter().filter(|&&byte| byte == b'\n').count();
        self.line_ends = self.line_ends.saturating_add(ends as u32);
        self.window.consume(len);
    }

    /// Returns the error of a fault at the byte that comes next, with the rest of its line.
    pub(super) fn error_here(&mut self, message: String, expected: Option<&str>) -> SourceError {
        let rest = self.window.bytes();
        let mut len = memchr(b'\n', rest).unwrap_or(rest.len()).min(80);
        while rest.get(len).is_some_and(|byte| byte & 0xC0 == 0x80) && len > 0 {
            len -= 1;
        }
        let text = rest.get(..len).unwrap_or_default();
        let line = self.line_ends.saturating_add(1);
        SourceError::line(&self.name, Fault::new(0, text.len().min(1), message, expected).at(line, text))
    }

    /// Passes over the rest of a line that was too long, and counts it as read.
    pub(super) fn pass_over(&mut self) -> Result<(), SourceError> {
        self.line = self.line.saturating_add(1);
        loop {
            let bytes = self.window.bytes();
            let end = memchr(b'\n', bytes);
            let len = end.map_or(bytes.len(), |end| end + 1);
            self.window.consume(len);
            if end.is_some() || !self.window.need(1)? {
                return Ok(());
            }
        }
    }

    /// Notes that the stream was cut in a row, if it was, and returns whether.
    pub(super) fn note_cut(&mut self, whole: u64) -> bool {
        self.last(0, whole);
        self.cut.is_some()
    }

    /// Returns the length of the last line, which has no line end, or `None` for the end.
    ///
    /// The last line of a cut stream is not delivered, because half a line may read like a whole one. For example, `…
    /// 443 6 17` may be the beginning of `… 443 6 1784`.
    fn last(&mut self, len: usize, whole: u64) -> Option<usize> {
        if let Some(fault) = self.window.fault() {
            let (name, offset) = (self.name.clone(), self.window.offset());
            self.cut = Some(Cut { name, whole, offset, what: fault.into() });
            return None;
        }
        (len > 0).then_some(len)
    }
}

/// Fault in a line, with its columns counted in bytes until the line is at hand as text.
///
/// It is one pointer, so that results with values of a cell stay in registers.
pub(super) struct Fault(Box<FaultParts>);

struct FaultParts {
    start: usize,
    len: usize,
    message: String,
    expected: Option<String>,
}

impl Fault {
    pub(super) fn new(start: usize, len: usize, message: String, expected: Option<&str>) -> Self {
        Self(Box::new(FaultParts { start, len, message, expected: expected.map(str::to_owned) }))
    }

    /// Returns the fault in a row that begins on a line; a row of several lines is shown by the one with the fault.
    fn at(self, mut line: u32, mut bytes: &[u8]) -> Diagnostic {
        let FaultParts { mut start, mut len, message, expected } = *self.0;
        while let Some(end) = memchr(b'\n', bytes) {
            if start <= end {
                bytes = bytes.get(..end).unwrap_or_default();
                break;
            }
            bytes = bytes.get(end + 1..).unwrap_or_default();
            (start, line) = (start - end - 1, line.saturating_add(1));
        }
        len = len.min(bytes.len().saturating_sub(start));
        let text = String::from_utf8_lossy(bytes.strip_suffix(b"\r").unwrap_or(bytes)).into_owned();
        let chars = |bytes: &[u8]| String::from_utf8_lossy(bytes).chars().count() as u32;
        let column = 1 + chars(bytes.get(..start).unwrap_or_default());
        let width = chars(bytes.get(start..start + len).unwrap_or_default());
        Diagnostic { line, column, width, message, expected, text }
    }
}
