//! Reader of whole texts, such as rule files.

use std::path::Path;

use firstmatch_core::Diagnostic;

use super::raw::{self, Format, ReadFault, Sniffed};
use super::{Limits, SourceError};

/// Reads a whole text from a file, or from standard input for `-`.
///
/// The text may be plain or compressed by gzip or zstd. A byte-order mark is dropped.
///
/// # Errors
/// If the text cannot be read to its end, is not UTF-8 (the error shows where), or is too large.
pub fn read_text(path: &Path) -> Result<String, SourceError> {
    read_text_with(path, &Limits::default())
}

/// Reads a whole text as [`read_text`] does, with other limits.
///
/// # Errors
/// As [`read_text`].
pub fn read_text_with(path: &Path, limits: &Limits) -> Result<String, SourceError> {
    let Sniffed { name, format, mut stream, .. } = raw::open(path)?;
    let wanted = "text in UTF-8";
    match format {
        Format::Text => {}
        Format::Pcap => return Err(SourceError::not(&name, "a pcap capture", wanted)),
        Format::PcapNg => return Err(SourceError::not(&name, "a pcapng capture", wanted)),
        Format::Binary(what) => return Err(SourceError::not(&name, &what, wanted)),
    }
    let mut bytes = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        match stream.read(&mut chunk) {
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(chunk.get(..count).unwrap_or_default()),
            Err(ReadFault::Failed(error)) => return Err(error),
            Err(ReadFault::Cut(what)) => {
                return Err(SourceError::stream(&name, format!("{what}, after {} bytes of text", bytes.len())));
            }
        }
        if bytes.len() > limits.max_text {
            return Err(SourceError::too_large(&name, limits.max_text));
        }
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        SourceError::line(&name, encoding_fault(error.as_bytes(), at))
    })
}

/// Returns the diagnostic for the first byte that is not UTF-8, at offset `at`.
fn encoding_fault(bytes: &[u8], at: usize) -> Diagnostic {
    let (before, rest) = bytes.split_at_checked(at).unwrap_or((bytes, &[]));
    let line_start = before.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let line_end = rest.iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |newline| at + newline);
    let line = bytes.get(line_start..line_end).unwrap_or_default();
    let column = String::from_utf8_lossy(before.get(line_start..).unwrap_or_default()).chars().count();
    Diagnostic {
        line: 1 + before.iter().filter(|&&byte| byte == b'\n').count() as u32,
        column: 1 + column as u32,
        width: 1,
        message: match rest.first() {
            Some(byte) => format!("the byte {byte:#04x} (byte {at} of the text) is not UTF-8"),
            None => format!("the text ends inside a character (byte {at})"),
        },
        expected: Some("text in UTF-8".to_owned()),
        text: String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned(),
    }
}
