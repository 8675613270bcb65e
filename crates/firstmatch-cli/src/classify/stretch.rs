//! Stretches: some thousand packets, parsed, then classified, so that the clock is read seldom.

use std::hint::black_box;

use firstmatch::{Classifier, KeyBuf, Keys, Match, Schema, Scratch};
use firstmatch_net::source::{Input, SourceError};
use firstmatch_net::wire::{self, Batch, Headers, NoSource, Outcome};

use super::timing::{Streamed, cpu_time};

/// How many packets that can be classified make a stretch.
pub(super) const STRETCH: usize = 4096;
/// How many packets make one even if they cannot be classified.
const MOST: usize = 4 * STRETCH;

/// A stretch of packets and the answers for them.
pub(super) struct Stretch {
    pub(super) batch: Batch,
    /// Of each packet, if somebody asked for them.
    pub(super) headers: Vec<Headers>,
    keep_headers: bool,
    /// For each packet; `None` for those that are not classified too.
    pub(super) answers: Vec<Option<Match>>,
    /// For each schema, row by row.
    rows: Vec<Vec<Option<Match>>>,
    /// The number of the first packet, from 0.
    pub(super) first: u64,
    config: wire::Config,
}

impl Stretch {
    pub(super) fn new(config: &wire::Config, schemas: &[Schema], keep_headers: bool) -> Result<Self, NoSource> {
        let batch = Batch::new(config, schemas)?;
        let rows = vec![Vec::new(); schemas.len()];
        Ok(Self { batch, headers: Vec::new(), keep_headers, answers: Vec::new(), rows, first: 0, config: *config })
    }

    /// The number of the first packet of the next stretch.
    pub(super) fn next_number(&self) -> u64 {
        self.first + self.batch.len() as u64
    }

    /// Reads the next stretch; false, and the last one kept, where there is none.
    pub(super) fn fill(&mut self, input: &mut Input) -> Result<bool, SourceError> {
        let mut next = self.read(input)?;
        if next.is_none() {
            return Ok(false);
        }
        self.first = self.next_number();
        self.batch.clear();
        self.headers.clear();
        let mut classified = 0;
        while let Some((headers, bytes)) = next {
            classified += usize::from(self.batch.push_headers(&headers, bytes).is_classified());
            if self.keep_headers {
                self.headers.push(headers);
            }
            let full = classified >= STRETCH || self.batch.len() >= MOST;
            next = if full { None } else { self.read(input)? };
        }
        Ok(true)
    }

    fn read(&self, input: &mut Input) -> Result<Option<(Headers, u32)>, SourceError> {
        Ok(match input {
            Input::Capture(capture) => {
                let packet = capture.next()?;
                packet.map(|p| (wire::parse(&self.config, p.link, p.data), p.original_len))
            }
            Input::Trace(trace) => trace.next()?.map(|record| (record.headers(), 0)),
            Input::Table(table) => return Err(table.refused("a capture or a trace")),
        })
    }

    /// Each packet that is classified, by its place in the stretch.
    pub(super) fn classified(&self) -> impl Iterator<Item = usize> {
        let records = self.batch.records().iter();
        records.enumerate().filter(|(_, record)| Outcome::is_classified(record.outcome)).map(|(at, _)| at)
    }

    /// Copies the keys behind those held, for each schema.
    pub(super) fn hold(&self, held: &mut Vec<KeyBuf>) {
        held.resize_with(self.rows.len(), || KeyBuf::new(self.batch.extractor(0).schema()));
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

/// A classifier for each schema.
pub(super) struct Engines {
    classifiers: Vec<Box<dyn Classifier>>,
    scratches: Vec<Scratch>,
    batch: usize,
}

impl Engines {
    pub(super) fn new(classifiers: Vec<Box<dyn Classifier>>, batch: usize) -> Self {
        let scratches = classifiers.iter().map(|classifier| classifier.scratch()).collect();
        Self { classifiers, scratches, batch }
    }

    pub(super) fn classifiers(&self) -> &[Box<dyn Classifier>] {
        &self.classifiers
    }

    /// Classifies the keys of one schema, batch by batch.
    pub(super) fn classify_keys(&mut self, schema: usize, keys: Keys<'_>, answers: &mut [Option<Match>]) {
        let (classifier, scratch) = (&self.classifiers[schema], &mut self.scratches[schema]);
        for (index, answers) in answers.chunks_mut(self.batch).enumerate() {
            let from = index * self.batch;
            classifier.classify_batch(scratch, keys.slice(from, from + answers.len()), answers);
        }
    }

    /// Answers for every packet of a stretch.
    pub(super) fn classify(&mut self, stretch: &mut Stretch, timing: &mut Streamed) {
        let Stretch { batch, rows, answers, .. } = stretch;
        let mut count = 0;
        for (schema, rows) in rows.iter_mut().enumerate() {
            rows.clear();
            rows.resize(batch.keys(schema).len(), None);
            count += rows.len();
        }
        let start = cpu_time();
        for (schema, rows) in rows.iter_mut().enumerate() {
            self.classify_keys(schema, batch.keys(schema), rows);
        }
        timing.add(count, start);
        answers.clear();
        answers.resize(batch.len(), None);
        for (schema, rows) in rows.iter().enumerate() {
            batch.scatter(schema, rows, answers);
        }
    }

    /// Classifies a short stretch again and again, until that is long enough to be timed.
    pub(super) fn replay(&mut self, stretch: &Stretch, timing: &mut Streamed) {
        let mut rows = stretch.rows.clone();
        let once: usize = rows.iter().map(Vec::len).sum();
        if once == 0 {
            return;
        }
        let times = STRETCH.div_ceil(once);
        let start = cpu_time();
        for _ in 0..times {
            for (schema, rows) in rows.iter_mut().enumerate() {
                self.classify_keys(schema, stretch.batch.keys(schema), rows);
            }
            black_box(&rows);
        }
        timing.add(once * times, start);
    }
}
