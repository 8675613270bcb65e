//! Stretches: some thousand packets, parsed and then classified.
//!
//! Stretches keep reads of the clock rare, because a read costs as much as several packets.

use std::iter;

use firstmatch::Decision;
use firstmatch_core::rule::{FieldValues, RuleSet};
use firstmatch_core::{KeyBuf, Schema};
use firstmatch_net::source::{
    Capture, Cut, FlowOptions, FlowWeight, Flows, Frames, Input, Progress, Rows, SourceError, Trace, TraceRecord,
};
use firstmatch_net::wire::{self, Batch, Headers, LinkType, NoSource, Outcome, Record};

use super::lookups::Lookups;
use super::tally::{Count, Tally};
use super::timing::{STRETCH, Streamed};

/// Source of packets for the schemas of a rule set.
pub(super) enum Feed {
    Capture(Capture),
    Text(Text),
}

/// Source whose packets are lines.
pub(super) enum Text {
    Trace(Trace),
    /// A trace for rules that test ClassBench's flags column. It delivers values, because no header holds these flags.
    Flagged(Trace, Vec<Schema>),
    Rows(Rows),
    Flows(Box<Flows>),
}

impl Feed {
    pub(super) fn new(input: Input, schemas: &[Schema], options: &FlowOptions) -> Result<Self, SourceError> {
        Ok(match input {
            Input::Capture(capture) => Self::Capture(capture),
            Input::Trace(mut trace) => Self::Text(match trace.need_flags_for(schemas) {
                true => Text::Flagged(trace, schemas.to_vec()),
                false => Text::Trace(trace),
            }),
            Input::Table(table) => Self::Text(Text::Rows(table.into_rows(schemas)?)),
            Input::Flows(log) => Self::Text(Text::Flows(Box::new(log.into_flows(options.clone())))),
        })
    }

    pub(super) fn progress(&self) -> Progress {
        match self {
            Self::Capture(capture) => capture.progress(),
            Self::Text(Text::Trace(trace) | Text::Flagged(trace, _)) => trace.progress(),
            Self::Text(Text::Rows(rows)) => rows.progress(),
            Self::Text(Text::Flows(flows)) => flows.progress(),
        }
    }

    pub(super) fn cut(&self) -> Option<&Cut> {
        match self {
            Self::Capture(capture) => capture.cut(),
            Self::Text(Text::Trace(trace) | Text::Flagged(trace, _)) => trace.cut(),
            Self::Text(Text::Rows(rows)) => rows.cut(),
            Self::Text(Text::Flows(flows)) => flows.cut(),
        }
    }

    /// Returns the packets of a capture for each link type that is not supported.
    pub(super) fn unread_links(&self) -> Vec<(LinkType, u64)> {
        match self {
            Self::Capture(capture) => capture.unread_links(),
            Self::Text(_) => Vec::new(),
        }
    }

    /// Whether the source states the lengths of packets.
    pub(super) fn has_lengths(&self) -> bool {
        matches!(self, Self::Capture(_) | Self::Text(Text::Rows(_) | Text::Flows(_)))
    }

    /// Returns the flow log, if the source is one.
    pub(super) fn flows(&self) -> Option<&Flows> {
        match self {
            Self::Text(Text::Flows(flows)) => Some(flows),
            _ => None,
        }
    }

    /// Whether the source is a trace of which no line was read.
    pub(super) fn is_unread_trace(&self) -> bool {
        matches!(self, Self::Text(Text::Trace(trace)) if trace.records() == 0)
    }

    /// Whether the source delivers the values of fields, not headers.
    pub(super) fn has_values(&self) -> bool {
        matches!(self, Self::Text(Text::Rows(_) | Text::Flagged(..)))
    }

    /// Returns an empty batch for the packets that the source delivers.
    pub(super) fn batch(&self, config: &wire::Config, rules: &RuleSet) -> Result<Batch, NoSource> {
        match self {
            Self::Text(Text::Rows(_) | Text::Flagged(..)) => Ok(Batch::of_values(rules.schemas())),
            Self::Capture(_) | Self::Text(Text::Trace(_) | Text::Flows(_)) => Batch::for_rules(config, rules),
        }
    }
}

impl Text {
    /// Returns the next packet.
    fn next(&mut self, config: &wire::Config) -> Result<Option<Line>, SourceError> {
        let line = |packet, bytes| Line { packet, bytes, weight: None };
        Ok(match self {
            Self::Trace(trace) => {
                trace.next()?.map(|record| line(Packet::Headers(record.headers().with_metadata(config.metadata)), 0))
            }
            Self::Flagged(trace, schemas) => trace.next()?.map(|record| line(with_flags(&record, schemas), 0)),
            Self::Rows(rows) => rows.next()?.map(|row| line(Packet::Values(row.values.clone()), row.bytes)),
            Self::Flows(flows) => flows.next()?.map(|flow| Line {
                packet: Packet::Headers(*flow.headers),
                bytes: 0,
                weight: Some(flow.weight),
            }),
        })
    }

    /// Puts the next packet into `batch`, and the weight of a flow into `weights`, without copying it; returns false if
    /// there is none.
    fn push_next(&mut self, batch: &mut Batch, weights: &mut Vec<FlowWeight>) -> Result<bool, SourceError> {
        Ok(match self {
            Self::Trace(trace) => {
                let metadata = batch.config().metadata;
                let push = |record: TraceRecord| batch.push_headers(&record.headers().with_metadata(metadata), 0);
                trace.next()?.map(push).is_some()
            }
            Self::Flagged(trace, schemas) => {
                trace.next()?.map(|record| with_flags(&record, schemas).push(batch, 0)).is_some()
            }
            Self::Rows(rows) => rows.next()?.map(|row| batch.push_values(row.values, row.bytes)).is_some(),
            Self::Flows(flows) => match flows.next()? {
                Some(flow) => {
                    batch.push_headers(flow.headers, 0);
                    weights.push(flow.weight);
                    true
                }
                None => false,
            },
        })
    }
}

/// Packet of a line.
struct Line {
    packet: Packet,
    /// Length on the wire in bytes.
    bytes: u32,
    /// Packets and bytes of a flow.
    weight: Option<FlowWeight>,
}

/// Returns the values of a line with flags, or only its headers if no schema has its family.
fn with_flags(record: &TraceRecord, schemas: &[Schema]) -> Packet {
    let values = schemas.iter().find_map(|schema| record.values(schema));
    values.map_or_else(|| Packet::Headers(record.headers()), Packet::Values)
}

/// Packet in the form that the oracle takes.
#[derive(Clone, Debug)]
pub(super) enum Packet {
    Headers(Headers),
    Values(FieldValues),
}

impl Packet {
    pub(super) fn push(&self, batch: &mut Batch, bytes: u32) {
        match self {
            Self::Headers(headers) => batch.push_headers(headers, bytes),
            Self::Values(values) => batch.push_values(values, bytes),
        };
    }

    /// Returns the values of the packet's fields; `None` unless it is classified.
    pub(super) fn values(&self, batch: &Batch) -> Option<FieldValues> {
        match self {
            Self::Headers(headers) => batch.values(headers),
            Self::Values(values) => Some(values.clone()),
        }
    }
}

/// Stretch of packets, with the decisions on them.
#[derive(Clone)]
pub(super) struct Stretch {
    /// Packets of a capture that [`Reader::read`] left for [`Stretch::parse`].
    frames: Frames,
    pub(super) batch: Batch,
    /// Packets of the stretch, if they are to be kept.
    pub(super) packets: Vec<Packet>,
    keep_packets: bool,
    /// Packets and bytes of each flow; empty if the packets are no flows.
    weights: Vec<FlowWeight>,
    /// Decision on each packet, if they are to be kept.
    pub(super) decisions: Vec<Decision>,
    keep_decisions: bool,
    /// Number of the first packet, from 0.
    pub(super) first: u64,
    /// Number of the stretch, from 0, if several workers share the input.
    pub(super) number: u64,
}

/// State of reading stretches, one after another.
pub(super) struct Reader {
    pub(super) feed: Feed,
    config: wire::Config,
    /// Number of the first packet of the next stretch.
    next: u64,
    /// Error after the packets of the last stretch, for the next call of [`Reader::read`].
    failed: Option<SourceError>,
}

impl Reader {
    /// Returns a reader whose first packet has the number `first`.
    pub(super) fn new(feed: Feed, config: &wire::Config, first: u64) -> Self {
        Self { feed, config: *config, next: first, failed: None }
    }

    /// Returns an empty stretch for the packets that the source delivers.
    pub(super) fn stretch(
        &mut self,
        rules: &RuleSet,
        keep_packets: bool,
        keep_decisions: bool,
    ) -> Result<Stretch, NoSource> {
        let batch = self.feed.batch(&self.config, rules)?;
        if let Feed::Text(Text::Flows(flows)) = &mut self.feed {
            flows.count_unknown_in(&batch);
        }
        Ok(Stretch {
            frames: Frames::default(),
            batch,
            packets: Vec::new(),
            keep_packets,
            weights: Vec::new(),
            decisions: Vec::new(),
            keep_decisions,
            first: 0,
            number: 0,
        })
    }

    /// Returns the number of the first packet of the next stretch.
    pub(super) fn next_number(&self) -> u64 {
        self.next
    }

    /// Reads the next stretch; returns false, and leaves `stretch` as it is, if there is none.
    ///
    /// Packets of a capture are left unparsed, so that [`Stretch::parse`] can do the rest without the reader.
    ///
    /// An error is returned only after every packet before it was delivered.
    pub(super) fn read(&mut self, stretch: &mut Stretch) -> Result<bool, SourceError> {
        let Self { feed, config, next, failed } = self;
        let count = match feed {
            Feed::Capture(capture) => {
                // If there are none, the parsed packets stay.
                if !capture.next_frames(&mut stretch.frames, STRETCH)? {
                    return Ok(false);
                }
                stretch.clear(*next);
                stretch.frames.len()
            }
            Feed::Text(text) => {
                if let Some(error) = failed.take() {
                    return Err(error);
                }
                let Some(line) = text.next(config)? else { return Ok(false) };
                stretch.clear(*next);
                stretch.keep_line(line);
                while stretch.batch.len() < STRETCH {
                    match stretch.add_next(text, config) {
                        Ok(true) => {}
                        Ok(false) => break,
                        Err(error) => {
                            *failed = Some(error);
                            break;
                        }
                    }
                }
                stretch.batch.len()
            }
        };
        *next += count as u64;
        Ok(true)
    }
}

impl Stretch {
    fn clear(&mut self, first: u64) {
        self.first = first;
        self.batch.clear();
        self.packets.clear();
        self.weights.clear();
    }

    /// Returns the number of packets and bytes that the packet of this place stands for.
    pub(super) fn count(&self, at: usize, record: &Record) -> Count {
        count_of(&self.weights, at, record)
    }

    /// Adds the packets of a capture that [`Reader::read`] left unparsed.
    pub(super) fn parse(&mut self) {
        let frames = std::mem::take(&mut self.frames);
        if self.keep_packets {
            for packet in frames.iter() {
                let config = self.batch.config();
                let headers = wire::parse_on(config, packet.interface, packet.link, packet.data, packet.original_len);
                self.keep(Packet::Headers(headers), packet.original_len);
            }
        } else if let Some(link) = frames.plain_link() {
            self.batch.push_frames(link, frames.iter().map(|packet| packet.data));
        } else {
            frames.iter().for_each(|packet| _ = self.batch.push(&packet));
        }
        self.frames = frames;
    }

    /// Returns the time of each packet in nanoseconds since 1970-01-01 00:00 UTC; `None` if the source states none.
    pub(super) fn times(&self) -> impl Iterator<Item = Option<i64>> {
        self.frames.iter().map(|packet| packet.time).chain(iter::repeat(None))
    }

    /// Adds one packet of a text; returns false if there is none.
    fn add_next(&mut self, text: &mut Text, config: &wire::Config) -> Result<bool, SourceError> {
        if !self.keep_packets {
            return text.push_next(&mut self.batch, &mut self.weights);
        }
        let next = text.next(config)?;
        Ok(next.map(|line| self.keep_line(line)).is_some())
    }

    fn keep_line(&mut self, Line { packet, bytes, weight }: Line) {
        self.weights.extend(weight);
        self.keep(packet, bytes);
    }

    fn keep(&mut self, packet: Packet, bytes: u32) {
        packet.push(&mut self.batch, bytes);
        if self.keep_packets {
            self.packets.push(packet);
        }
    }

    /// Decides the packets and counts them.
    pub(super) fn decide(&mut self, lookups: &mut Lookups, tally: &mut Tally, nanos: &mut Streamed) {
        let Self { batch, weights, decisions, keep_decisions, .. } = self;
        decisions.clear();
        let mut places = 0..;
        let mut add = |record: &Record, decision: &Decision| {
            tally.add(record, decision, count_of(weights, places.next().unwrap_or(usize::MAX), record));
        };
        if *keep_decisions {
            lookups.decide(batch, nanos, |record, decision| {
                add(record, &decision);
                decisions.push(decision);
            });
        } else {
            lookups.decide(batch, nanos, |record, decision| add(record, &decision));
        }
    }

    /// Returns the places in the stretch of the packets that are classified.
    pub(super) fn classified(&self) -> impl Iterator<Item = usize> {
        let records = self.batch.records().iter();
        records.enumerate().filter(|(_, record)| Outcome::is_classified(record.outcome)).map(|(at, _)| at)
    }

    /// Appends the keys of each schema to those in `held`.
    pub(super) fn hold(&self, held: &mut Vec<KeyBuf>) {
        held.resize_with(self.batch.schemas(), || KeyBuf::new(self.batch.extractor(0).schema()));
        for (schema, held) in held.iter_mut().enumerate() {
            let keys = self.batch.keys(schema);
            if held.is_empty() {
                *held = KeyBuf::new(self.batch.extractor(schema).schema());
            }
            held.reserve(keys.len());
            for row in 0..keys.len() {
                held.push().copy_from_slice(keys.row(row));
            }
        }
    }
}

/// Returns the number of packets and bytes that the packet of this place stands for; `weights` has those of flows.
#[inline]
fn count_of(weights: &[FlowWeight], at: usize, record: &Record) -> Count {
    match weights.get(at) {
        Some(&FlowWeight { flows, packets, bytes }) => Count { packets: flows, bytes, in_flows: packets },
        None => Count { packets: 1, bytes: record.bytes.into(), in_flows: 0 },
    }
}
