//! JSON objects of a text, one at a time: one after another, in an array, or in the array `records` of an object.

use memchr::{memchr, memchr3_iter};

use super::SourceError;
use super::lines::Lines;

/// Number of bytes after which a first line is taken as one of an array or of one object around all.
const MOST_OF_LINE: usize = 1 << 20;

/// Place in a text of JSON objects.
#[derive(Debug)]
pub(super) struct Objects {
    /// Length of the longest object in bytes, because all of an object must be at hand.
    max_bytes: usize,
    is_at_start: bool,
    /// Brackets that are still open, each by the byte that closes it.
    closers: Vec<u8>,
    /// Whether an object was read since the last bracket or comma.
    is_behind_object: bool,
}

impl Objects {
    /// Returns the beginning of a text whose objects have at most `max_bytes` bytes.
    pub(super) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, is_at_start: true, closers: Vec::new(), is_behind_object: false }
    }

    /// Whether nothing was read yet.
    pub(super) fn is_at_start(&self) -> bool {
        self.is_at_start
    }

    /// Reads the next object, which [`Lines::current`] then returns; returns false if there is none.
    ///
    /// If the stream is cut, `whole` is the number of valid rows so far.
    pub(super) fn next(&mut self, lines: &mut Lines, whole: u64) -> Result<bool, SourceError> {
        self.is_at_start = false;
        loop {
            let Some(byte) = lines.next_byte(whole)? else {
                return match self.closers.last() {
                    Some(&closer) if lines.cut().is_none() => {
                        Err(lines
                            .error_here("the text ends too early".to_owned(), Some(&char::from(closer).to_string())))
                    }
                    _ => Ok(false),
                };
            };
            match byte {
                b'{' if self.closers.is_empty() && self.is_wrapper(lines)? => {}
                b'{' if self.closers.is_empty() || !self.is_behind_object => {
                    let Some(len) = length(lines, self.max_bytes, whole)? else { return Ok(false) };
                    lines.take(len);
                    self.is_behind_object = !self.closers.is_empty();
                    return Ok(true);
                }
                b'[' if self.closers.is_empty() => self.open(lines, 1, b"]"),
                b',' if self.is_behind_object => self.open(lines, 1, b""),
                closer if self.closers.last() == Some(&closer) => {
                    self.closers.pop();
                    lines.take(1);
                    self.is_behind_object = false;
                }
                _ => return Err(lines.error_here("this is no JSON object".to_owned(), Some("an object in braces"))),
            }
        }
    }

    fn open(&mut self, lines: &mut Lines, len: usize, closers: &[u8]) {
        lines.take(len);
        self.closers.extend(closers);
        self.is_behind_object = false;
    }

    /// Enters the object around all records, whose first key is `records`; returns whether this is one.
    fn is_wrapper(&mut self, lines: &mut Lines) -> Result<bool, SourceError> {
        let mut at = 0;
        for part in [&b"{"[..], b"\"records\"", b":", b"["] {
            loop {
                let rest = lines.at_hand(at + part.len())?.get(at..).unwrap_or_default();
                match rest {
                    _ if rest.starts_with(part) => break,
                    [blank, ..] if blank.is_ascii_whitespace() => at += 1,
                    _ => return Ok(false),
                }
            }
            at += part.len();
        }
        self.open(lines, at, b"}]");
        Ok(true)
    }
}

/// Whether the text that begins here has an object a line: its first line is an object that is no wrapper of others.
pub(super) fn is_line(lines: &mut Lines) -> Result<bool, SourceError> {
    let mut need = 1 << 12;
    loop {
        let bytes = lines.at_hand(need)?;
        let end = memchr(b'\n', bytes);
        if end.is_none() && bytes.len() >= need && need < MOST_OF_LINE {
            need *= 2;
            continue;
        }
        let line = bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default().trim_ascii();
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let is_wrapper = line.strip_prefix(b"{").is_some_and(|rest| rest.trim_ascii().starts_with(b"\"records\""));
        return Ok(line.starts_with(b"{") && !is_wrapper && end_of(line) == Some(line.len()));
    }
}

/// Returns the length of the object that begins here, in bytes.
///
/// `None` if the stream is cut in it.
fn length(lines: &mut Lines, max_bytes: usize, whole: u64) -> Result<Option<usize>, SourceError> {
    let mut need = 1 << 12;
    loop {
        let bytes = lines.at_hand(need)?;
        let (len, is_all) = (end_of(bytes), bytes.len() < need);
        match len {
            Some(len) if len <= max_bytes => return Ok(Some(len)),
            None if is_all && lines.note_cut(whole) => return Ok(None),
            None if is_all => return Err(lines.error_here("this object has no end".to_owned(), Some("}"))),
            None if need <= max_bytes => need *= 2,
            _ => return Err(lines.error_here(format!("this object is longer than {max_bytes} bytes"), None)),
        }
    }
}

/// Returns the number of bytes up to the end of the object that `bytes` begin with, if it ends there.
fn end_of(bytes: &[u8]) -> Option<usize> {
    let (mut depth, mut is_in_text, mut from) = (0usize, false, 0);
    for at in memchr3_iter(b'"', b'{', b'}', bytes) {
        match bytes[at] {
            // A quote behind an odd number of backslashes is part of the text.
            b'"' => {
                let escapes = bytes[from..at].iter().rev().take_while(|&&byte| byte == b'\\').count();
                if !is_in_text || escapes % 2 == 0 {
                    is_in_text = !is_in_text;
                    from = at + 1;
                }
            }
            b'{' if !is_in_text => depth += 1,
            b'}' if !is_in_text => {
                depth -= 1;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            _ => {}
        }
    }
    None
}
