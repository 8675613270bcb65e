//! Gzip streams of several members, followed by zeros or other bytes.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use flate2::bufread::GzDecoder;

/// Decoder of all members of a gzip stream.
///
/// Zeros after a member are skipped, as gzip does, because some media fill files up to whole blocks. Other bytes that
/// begin no member are an error, returned after everything decoded.
pub(super) struct Members<R> {
    /// Decoder of the current member; `None` after the last one.
    decoder: Option<GzDecoder<R>>,
    is_first: bool,
    /// Whether other bytes follow.
    has_trailer: Arc<AtomicBool>,
}

impl<R: BufRead> Members<R> {
    pub(super) fn new(reader: R, has_trailer: Arc<AtomicBool>) -> Self {
        Self { decoder: Some(GzDecoder::new(reader)), is_first: true, has_trailer }
    }

    fn trailer(&self) -> io::Error {
        self.has_trailer.store(true, Ordering::Relaxed);
        io::Error::new(io::ErrorKind::InvalidData, "no gzip member")
    }
}

impl<R: BufRead> Read for Members<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(mut decoder) = self.decoder.take() {
            let result = decoder.read(into);
            match result {
                Ok(0) if !into.is_empty() => {}
                Err(error)
                    if !self.is_first && decoder.header().is_none() && error.kind() != io::ErrorKind::Interrupted =>
                {
                    let is_cut = error.kind() == io::ErrorKind::UnexpectedEof;
                    return Err(if is_cut { error } else { self.trailer() });
                }
                _ => {
                    self.decoder = Some(decoder);
                    return result;
                }
            }
            let mut rest = decoder.into_inner();
            match first_behind_zeros(&mut rest)? {
                None => {}
                Some(0x1f) => (self.decoder, self.is_first) = (Some(GzDecoder::new(rest)), false),
                Some(_) => return Err(self.trailer()),
            }
        }
        Ok(0)
    }
}

/// Skips zeros, and returns the byte after them without consuming it; `None` at the end.
fn first_behind_zeros(reader: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let bytes = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            bytes => bytes?,
        };
        if bytes.is_empty() {
            return Ok(None);
        }
        let zeros = bytes.iter().position(|&byte| byte != 0).unwrap_or(bytes.len());
        let next = bytes.get(zeros).copied();
        reader.consume(zeros);
        if next.is_some() {
            return Ok(next);
        }
    }
}
