//! Fuzz target that reads bytes as a file of packets.
//!
//! The result must not depend on how the bytes arrive, and every error must point into them.

use std::fmt::Debug;
use std::io::{self, Cursor, Read};

use firstmatch_core::{Diagnostic, KeyBuf, Schema};
use firstmatch_net::source::{
    Capture, Cut, FlowLog, FlowOptions, Input, Limits, Rows, SourceError, Table, Trace, from_reader,
};
use firstmatch_net::wire::{Batch, Config};

const NAME: &str = "fuzz";
/// Limits small enough for the fuzzer's inputs to reach them.
const LIMITS: Limits = Limits { max_record: 512, max_line: 128, max_text: 1 << 20 };
/// Most packets read from one input, because a small compressed stream may hold billions.
const MOST: usize = 1 << 12;

/// Reads `data` in the format it looks like, at once and in small pieces.
///
/// Both ways must give the same packets and end the same way. A file that is cut short must give the first packets of
/// the whole one.
pub fn readers(data: &[u8]) {
    let whole = drain(Box::new(Cursor::new(data.to_vec())));
    check_end(data, &whole);
    for piece in [1, 7] {
        let same = drain(Box::new(Pieces { data: Cursor::new(data.to_vec()), piece }));
        // A damaged compressed stream yields more or less data, depending on how much had arrived when the damage was
        // noticed.
        let is_damaged = |drained: &Drained| drained.error.is_some() || drained.cut.is_some();
        if is_plain(data) || !(is_damaged(&whole) || is_damaged(&same)) {
            assert_eq!(whole, same, "in pieces of {piece}");
        }
    }
    if whole.kind == Kind::Capture && is_plain(data) {
        for cut in [data.len() / 2, data.len() - data.len() / 5, data.len().saturating_sub(1)] {
            check_shorter(&whole, &drain(Box::new(Cursor::new(data[..cut].to_vec()))));
        }
    }
}

/// Reader that returns at most `piece` bytes at a time.
struct Pieces {
    data: Cursor<Vec<u8>>,
    piece: usize,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let len = into.len().min(self.piece);
        self.data.read(&mut into[..len])
    }
}

/// Result of reading a whole input: its packets, and how it ended.
#[derive(Debug, PartialEq)]
struct Drained {
    kind: Kind,
    /// Each packet in `Debug` format.
    packets: Vec<String>,
    cut: Option<Cut>,
    error: Option<SourceError>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Nothing,
    Capture,
    Trace,
    Table,
    Flows,
}

impl Drained {
    fn refused(kind: Kind, error: SourceError) -> Self {
        Self { kind, packets: Vec::new(), cut: None, error: Some(error) }
    }
}

fn drain(reader: Box<dyn Read + Send>) -> Drained {
    match from_reader(NAME, reader, &LIMITS) {
        Err(error) => Drained::refused(Kind::Nothing, error),
        Ok(Input::Capture(capture)) => drain_capture(capture),
        Ok(Input::Trace(trace)) => drain_trace(trace),
        Ok(Input::Table(table)) => drain_table(table),
        Ok(Input::Flows(log)) => drain_flows(log),
    }
}

/// Collects at most [`MOST`] results of `next` in `Debug` format; its end must be final.
fn take<T: Debug>(kind: Kind, mut next: impl FnMut() -> Result<Option<T>, SourceError>) -> Drained {
    let (mut packets, mut error) = (Vec::new(), None);
    while packets.len() < MOST {
        match next() {
            Ok(Some(packet)) => packets.push(format!("{packet:?}")),
            Ok(None) => break,
            Err(why) => {
                error = Some(why);
                break;
            }
        }
    }
    if packets.len() < MOST {
        assert!(matches!(next(), Ok(None)), "nothing comes after the end, or after an error");
    }
    Drained { kind, packets, cut: None, error }
}

fn drain_capture(mut capture: Capture) -> Drained {
    let mut batch = Batch::new(&Config::default(), &[Schema::openflow()]).expect("every field has a source");
    let drained = take(Kind::Capture, || {
        let packet = capture.next()?;
        Ok(packet.map(|packet| {
            assert!(packet.data.len() <= LIMITS.max_record);
            batch.clear();
            let outcome = batch.push(&packet);
            format!("{packet:?} {outcome}")
        }))
    });
    assert_eq!(drained.packets.len() as u64, capture.packets());
    Drained { cut: capture.cut().cloned(), ..drained }
}

fn drain_trace(mut trace: Trace) -> Drained {
    let drained = take(Kind::Trace, || {
        let record = trace.next()?;
        Ok(record.map(|record| (trace.line(), record, record.headers())))
    });
    assert_eq!(drained.packets.len() as u64, trace.records());
    Drained { cut: trace.cut().cloned(), ..drained }
}

fn drain_table(table: Table) -> Drained {
    let schemas = [Schema::ipv4(), Schema::ipv6()];
    let mut rows: Rows = match table.into_rows(&schemas) {
        Ok(rows) => rows,
        Err(error) => return Drained::refused(Kind::Table, error),
    };
    let mut keys = schemas.each_ref().map(KeyBuf::new);
    let drained = take(Kind::Table, || {
        let row = rows.next()?;
        Ok(row.map(|row| {
            // `push_values` panics if a value does not fit its field.
            keys[row.schema].clear();
            keys[row.schema].push_values(row.values);
            format!("{row:?}")
        }))
    });
    assert_eq!(drained.packets.len() as u64, rows.rows());
    Drained { cut: rows.cut().cloned(), ..drained }
}

fn drain_flows(log: FlowLog) -> Drained {
    let mut flows = log.into_flows(FlowOptions::default().both_ways(true));
    let drained = take(Kind::Flows, || {
        let flow = flows.next()?;
        Ok(flow.map(|flow| format!("{flow:?}")))
    });
    let counts = flows.counts();
    assert_eq!(drained.packets.len() as u64, counts.flows + counts.continued + counts.ways_back);
    assert_eq!(
        counts.read,
        counts.flows + counts.continued + counts.without_traffic + counts.without_address,
        "{counts:?}"
    );
    Drained { cut: flows.cut().cloned(), ..drained }
}

/// Returns whether `data` starts with the magic number of neither gzip nor zstd.
fn is_plain(data: &[u8]) -> bool {
    !data.starts_with(&[0x1f, 0x8b]) && !matches!(data, [_, 0xb5, 0x2f, 0xfd, ..] | [_, 0x2a, 0x4d, 0x18, ..])
}

fn check_end(data: &[u8], drained: &Drained) {
    let Drained { kind, packets, cut, error } = drained;
    assert!(cut.is_none() || error.is_none(), "{cut:?} {error:?}");
    let len = data.len() as u64;
    if let Some(cut) = cut {
        // Rows of a flow log are more than its flows, or fewer where ways back are flows, too.
        assert!(*kind == Kind::Flows || cut.whole() == packets.len() as u64, "{cut:?}");
        assert_eq!(cut.name(), NAME);
        assert!(!is_plain(data) || *kind == Kind::Capture && cut.offset() <= len, "{cut:?}");
    }
    if let Some(error) = error {
        let text = error.to_string();
        assert!(text.starts_with(&format!("{NAME}: ")) && !text.contains('\n'), "{text:?}");
        // A damaged stream is a fault of no packet and of no line.
        let is_damaged = text.contains(" stream is damaged (");
        assert!(!is_damaged || !is_plain(data), "{error:?}");
        assert_eq!(error.packet().is_some(), *kind == Kind::Capture && !is_damaged, "{error:?}");
        assert!(error.packet().is_none_or(|packet| packet == packets.len() as u64 + 1), "{error:?}");
        assert!(!is_plain(data) || error.offset().is_none_or(|offset| offset <= len), "{error:?}");
        let has_lines = matches!(kind, Kind::Trace | Kind::Table | Kind::Flows);
        assert_eq!(error.diagnostic().is_some(), has_lines && !is_damaged, "{error:?}");
        if let Some(diagnostic) = error.diagnostic().filter(|_| is_plain(data)) {
            check_place(data, diagnostic, *kind);
        }
    }
}

/// Checks that the diagnostic lies inside the text and shows the line it is on, or the part of it that is an object.
fn check_place(data: &[u8], diagnostic: &Diagnostic, kind: Kind) {
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    let number = diagnostic.line as usize;
    let line = data.split(|&byte| byte == b'\n').nth(number.checked_sub(1).expect("lines count from 1"));
    let line = String::from_utf8_lossy(line.expect("there is such a line"));
    let (column, width) = (diagnostic.column as usize, diagnostic.width as usize);
    assert!(column >= 1 && column - 1 + width <= line.chars().count(), "{diagnostic:?}: {line:?}");
    let is_long = line.len() > LIMITS.max_line;
    let is_whole = diagnostic.text == line.strip_suffix('\r').unwrap_or(&line);
    let is_part = kind == Kind::Flows && line.contains(&*diagnostic.text);
    assert!(is_long || is_whole || is_part, "{diagnostic:?}: {line:?}");
    assert!(!diagnostic.message.is_empty(), "{diagnostic:?}");
}

fn check_shorter(whole: &Drained, shorter: &Drained) {
    let count = shorter.packets.len();
    assert!(count <= whole.packets.len() && shorter.packets == whole.packets[..count]);
    // A capture that contradicts itself when it is cut must do so when it is whole.
    if shorter.kind == Kind::Capture && shorter.error.is_some() {
        assert_eq!(shorter.error, whole.error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fuzzer that starts from unreadable files never reaches the code behind the readers.
    #[test]
    fn seeds_are_read_unless_their_name_says_otherwise() {
        let mut kinds = Vec::new();
        for (path, data) in crate::files("seeds/readers") {
            let drained = drain(Box::new(Cursor::new(data)));
            let name = path.to_string_lossy();
            let well = drained.cut.is_none() && drained.error.is_none() && drained.packets.len() > 1;
            assert_eq!(well, !name.contains("fault") && !name.contains("cut"), "{name}: {drained:?}");
            kinds.push(drained.kind);
        }
        for kind in [Kind::Capture, Kind::Trace, Kind::Table, Kind::Flows] {
            assert!(kinds.contains(&kind), "{kind:?}");
        }
    }
}
