//! Captures as tables.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{BinaryBuilder, Int32Builder, Int64Builder, StringBuilder, TimestampNanosecondBuilder};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, DataType, Schema, SchemaRef, TimeUnit};
use firstmatch::core::schema::{Family, Source};
use firstmatch::net::source::{self, Capture, SourceError};
use firstmatch::net::wire::{Batch, Config, Headers, parse_on};
use firstmatch::{Firewall, Worker};
use pyo3::exceptions::{PyOSError, PyUserWarning, PyValueError};
use pyo3::prelude::*;

use crate::capsule::Reader;
use crate::classify::{Classified, Form};
use crate::request::Request;
use crate::table::column;
use crate::work::Collect;

/// Maximum number of packets of a batch, and number of bytes of frames at which one ends.
const PACKETS: usize = 8192;
const BYTES: usize = 32 << 20;

/// Header fields of a packet that become columns of numbers.
const NUMBERS: [Source; 11] = [
    Source::Proto,
    Source::SrcPort,
    Source::DstPort,
    Source::IcmpType,
    Source::IcmpCode,
    Source::TcpFlags,
    Source::VlanVid,
    Source::Fragment,
    Source::Dscp,
    Source::Ttl,
    Source::Length,
];

/// Columns of headers under construction.
struct HeaderColumns {
    addresses: [StringBuilder; 2],
    numbers: Vec<Int32Builder>,
}

impl HeaderColumns {
    fn new() -> Self {
        Self { addresses: Default::default(), numbers: NUMBERS.iter().map(|_| Int32Builder::new()).collect() }
    }

    fn push(&mut self, headers: &Headers) {
        for (builder, source) in self.addresses.iter_mut().zip([Source::Src, Source::Dst]) {
            builder.append_option(headers.value(source).map(|value| match headers.family() {
                Some(Family::Ipv6) => Ipv6Addr::from(value).to_string(),
                _ => Ipv4Addr::from(value as u32).to_string(),
            }));
        }
        for (builder, source) in self.numbers.iter_mut().zip(NUMBERS) {
            builder.append_option(headers.value(source).map(|value| value as i32));
        }
    }

    fn finish(&mut self) -> Vec<(&'static str, ArrayRef)> {
        let [src, dst] = self.addresses.each_mut().map(|builder| Arc::new(builder.finish()) as ArrayRef);
        let numbers = NUMBERS.iter().zip(&mut self.numbers);
        let numbers = numbers.map(|(source, builder)| (source.name(), Arc::new(builder.finish()) as ArrayRef));
        [("src", src), ("dst", dst)].into_iter().chain(numbers).collect()
    }
}

/// Packets of a capture, batch by batch.
struct Packets {
    capture: Capture,
    schema: SchemaRef,
    headers: Option<HeaderColumns>,
    rows: Rows,
    is_over: bool,
}

/// Columns behind those of headers.
enum Rows {
    /// Frames as they were captured.
    Frames(BinaryBuilder),
    /// Decisions on them.
    Decided(Box<Decided>),
}

struct Decided {
    firewall: Firewall,
    worker: Worker,
    batch: Batch,
    form: Form,
}

fn not_read(error: &SourceError) -> PyErr {
    match error.diagnostic() {
        Some(fault) => PyValueError::new_err(fault.to_string()),
        None => PyOSError::new_err(error.to_string()),
    }
}

/// Returns the packets of a capture: time, link type, length, headers and frame.
pub(crate) fn read(path: &Path) -> PyResult<Reader> {
    Packets::open(path, Some(HeaderColumns::new()), Rows::Frames(BinaryBuilder::new()))
}

/// Returns the decisions on the packets of a capture, with their headers if asked for.
pub(crate) fn classified(firewall: Firewall, path: &Path, headers: bool) -> PyResult<Reader> {
    let form = Form::new(&firewall, &Request::default());
    let decided = Decided { worker: firewall.worker(), batch: firewall.batch(), form, firewall };
    Packets::open(path, headers.then(HeaderColumns::new), Rows::Decided(Box::new(decided)))
}

impl Packets {
    fn open(path: &Path, headers: Option<HeaderColumns>, rows: Rows) -> PyResult<Reader> {
        let capture = source::open(path).and_then(source::Input::into_capture).map_err(|error| not_read(&error))?;
        let mut packets = Self { capture, schema: Arc::new(Schema::empty()), headers, rows, is_over: false };
        // An empty batch has the columns of all.
        packets.schema = packets.batch(&mut Columns::new())?.schema();
        Ok(Box::new(packets))
    }

    fn advance(&mut self) -> Result<Option<RecordBatch>, PyErr> {
        let mut columns = Columns::new();
        let (mut packets, mut bytes) = (0, 0);
        if let Rows::Decided(decided) = &mut self.rows {
            decided.batch.clear();
        }
        while packets < PACKETS && bytes < BYTES {
            let Some(packet) = self.capture.next().map_err(|error| not_read(&error))? else {
                self.is_over = true;
                break;
            };
            (packets, bytes) = (packets + 1, bytes + packet.data.len());
            columns.time.append_option(packet.time);
            columns.link.append_value(packet.link.number().into());
            columns.bytes.append_value(packet.original_len.into());
            if let Some(headers) = &mut self.headers {
                let (link, length) = (packet.link, packet.original_len);
                headers.push(&parse_on(&Config::default(), packet.interface, link, packet.data, length));
            }
            match &mut self.rows {
                Rows::Frames(frames) => frames.append_value(packet.data),
                Rows::Decided(decided) => _ = decided.batch.push(&packet),
            }
        }
        if self.is_over
            && let Some(cut) = self.capture.cut()
        {
            let message = std::ffi::CString::new(cut.to_string().replace('\0', " "))?;
            Python::attach(|py| PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1))?;
        }
        if packets == 0 { Ok(None) } else { self.batch(&mut columns).map(Some) }
    }

    /// Returns the columns of the packets so far.
    fn batch(&mut self, columns: &mut Columns) -> Result<RecordBatch, PyErr> {
        let mut all = columns.finish();
        all.extend(self.headers.iter_mut().flat_map(HeaderColumns::finish));
        match &mut self.rows {
            Rows::Frames(frames) => all.push(("frame", Arc::new(frames.finish()))),
            Rows::Decided(decided) => {
                let Decided { firewall, worker, batch, form } = &mut **decided;
                let mut collector = Classified::new(form, firewall);
                collector.begin(batch.len());
                let mut row = 0;
                worker
                    .classify_batch(batch, |_, decision| {
                        collector.decided(row, &decision);
                        row += 1;
                    })
                    .expect("rules are not reloaded from Python");
                collector.end(0);
                let decisions = collector.tasks.pop().map(|(_, columns)| form.batch(columns)).expect("a task");
                let names = ["verdict", "rule", "line", "outcome"];
                all.extend(names.into_iter().zip(decisions.columns().iter().cloned()));
            }
        }
        let fields: Vec<_> = all.iter().map(|(name, array)| column(name, array.data_type().clone())).collect();
        let arrays = all.into_iter().map(|(_, array)| array).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(|error| PyValueError::new_err(error.to_string()))
    }
}

/// Columns that every packet has.
struct Columns {
    time: TimestampNanosecondBuilder,
    link: Int32Builder,
    bytes: Int64Builder,
}

impl Columns {
    fn new() -> Self {
        let utc = DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into()));
        let time = TimestampNanosecondBuilder::new().with_data_type(utc);
        Self { time, link: Int32Builder::new(), bytes: Int64Builder::new() }
    }

    fn finish(&mut self) -> Vec<(&'static str, ArrayRef)> {
        let Self { time, link, bytes } = self;
        vec![("ts", Arc::new(time.finish())), ("link", Arc::new(link.finish())), ("bytes", Arc::new(bytes.finish()))]
    }
}

impl Iterator for Packets {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        match crate::error::guarded(|| self.advance()) {
            Ok(batch) => batch.map(Ok),
            Err(error) => {
                self.is_over = true;
                Some(Err(ArrowError::ExternalError(Box::new(error))))
            }
        }
    }
}

impl RecordBatchReader for Packets {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
