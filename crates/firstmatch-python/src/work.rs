//! Rows of tables through the engine, on several threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_array::RecordBatch;
use firstmatch::core::Schema;
use firstmatch::net::wire::Batch;
use firstmatch::{Decision, Firewall, LinkType, Worker};
use firstmatch_columns::{BLOCK, Cells, Decoder, Input, Prepared, Status};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::arrays;
use crate::capsule::Reader;
use crate::error::bad_row;
use crate::request::{Leaf, Mapping, Origin, Request, range_of};

/// Maximum number of rows of a task, which one thread decides.
pub(crate) const TASK: usize = 65_536;
/// Number of rows of a table from which on all cores decide it.
const MANY: usize = 1_000_000;
/// Reason why batches have the fields of the rules.
const NOT_RELOADED: &str = "rules are not reloaded from Python";
/// Number of packets of a lookup.
const LOOKUP: usize = 256;

/// Takes what is known of rows. There is one for each thread.
pub(crate) trait Collect: Send {
    /// Begins a task of `rows` rows.
    fn begin(&mut self, rows: usize);
    /// Whether it takes packets and bytes.
    const WEIGHS: bool;

    /// Takes packets and bytes of the rows from `first` on, where the table has them.
    fn weigh(&mut self, first: usize, weights: [Option<&[u64]>; 2]);
    /// Takes the decision on a row of the task.
    fn decided(&mut self, row: usize, decision: &Decision);
    /// Takes a row of the task that no rule can decide.
    fn undecided(&mut self, row: usize, status: Status);
    /// Ends the task of this index.
    fn end(&mut self, task: usize);
}

/// Bad value of a row.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    row: usize,
    column: String,
    value: String,
    why: String,
}

impl Fault {
    pub(crate) fn error(&self) -> PyErr {
        bad_row(self.row, &self.column, &self.value, &self.why)
    }

    pub(crate) fn text(&self) -> String {
        format!("row {}, column \"{}\": {} {}", self.row, self.column, self.value, self.why)
    }
}

/// A table that is being decided, batch by batch.
pub(crate) struct Work {
    mapping: Mapping,
    keeps_bad_rows: bool,
    threads: usize,
    has_threads: bool,
    seats: Vec<Seat>,
    /// Number of rows before the next batch.
    rows: usize,
    /// Number of bad rows, and the first of them.
    pub(crate) bad: usize,
    pub(crate) first_bad: Option<Fault>,
}

/// State of one thread.
struct Seat {
    worker: Worker,
    decoder: Decoder,
    batch: Batch,
    weights: [Vec<u64>; 2],
    spare: Cells,
    bad: usize,
    first_bad: Option<Fault>,
}

/// Batch whose columns are ready to be read.
struct Ready<'a> {
    inputs: Vec<Input<'a>>,
    weights: [Vec<Prepared<'a>>; 2],
    frame: Option<(Prepared<'a>, Option<Prepared<'a>>)>,
    first_row: usize,
    mapping: &'a Mapping,
}

/// Some rows of a batch.
#[derive(Clone, Copy)]
struct Task {
    batch: usize,
    start: usize,
    end: usize,
}

impl Work {
    /// Returns the work of a request over a table with these columns.
    pub(crate) fn new(py: Python<'_>, firewall: &Firewall, request: &Request, reader: &Reader) -> PyResult<Self> {
        let threads = request.threads.unwrap_or(std::thread::available_parallelism().map_or(1, usize::from));
        // Workers first: they follow to the fields of a batch that is made later.
        let workers: Vec<Worker> = (0..threads).map(|_| firewall.worker().packets_per_lookup(LOOKUP)).collect();
        let batch = firewall.batch();
        let schemas: Vec<Schema> = (0..batch.schemas()).map(|at| batch.extractor(at).schema().clone()).collect();
        let decoder = Decoder::new(&schemas, None, true);
        let mapping = request.map(py, &reader.schema(), decoder.fields(), &tested(firewall, &decoder))?;
        let seat = |worker| Seat {
            worker,
            decoder: decoder.clone(),
            batch: batch.clone(),
            weights: Default::default(),
            spare: Cells::default(),
            bad: 0,
            first_bad: None,
        };
        Ok(Self {
            mapping,
            keeps_bad_rows: request.keeps_bad_rows,
            threads,
            has_threads: request.threads.is_some(),
            seats: workers.into_iter().map(seat).collect(),
            rows: 0,
            bad: 0,
            first_bad: None,
        })
    }

    /// Reads batches until there are enough rows for all threads; none at the end.
    pub(crate) fn pull(&self, reader: &mut Reader) -> PyResult<Vec<RecordBatch>> {
        let (mut batches, mut rows) = (Vec::new(), 0);
        let enough = if self.threads == 1 { 1 } else { self.threads * TASK };
        while rows < enough
            && let Some(batch) = reader.next()
        {
            let batch =
                batch.map_err(|error| PyRuntimeError::new_err(format!("the table cannot be read on: {error}")))?;
            rows += batch.num_rows();
            batches.push(batch);
        }
        Ok(batches)
    }

    /// Decides the rows of some batches with one collector for each thread.
    ///
    /// # Errors
    /// The first bad row, unless bad rows are kept.
    pub(crate) fn run<C: Collect>(&mut self, batches: &[RecordBatch], collectors: &mut [C]) -> Result<(), Fault> {
        let mut ready = Vec::with_capacity(batches.len());
        let mut tasks = Vec::new();
        for (index, batch) in batches.iter().enumerate() {
            ready.push(Ready::new(batch, &self.mapping, self.rows));
            let starts = (0..batch.num_rows()).step_by(TASK);
            tasks.extend(starts.map(|start| Task { batch: index, start, end: batch.num_rows().min(start + TASK) }));
            self.rows += batch.num_rows();
        }
        let queue =
            Queue { ready, tasks, next: AtomicUsize::new(0), fault: Mutex::new(None), keeps: self.keeps_bad_rows };
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let is_worth = self.has_threads || rows >= MANY;
        let threads = if is_worth { self.threads.min(queue.tasks.len()) } else { 1 };
        let pairs = self.seats.iter_mut().zip(collectors);
        if threads <= 1 {
            pairs.take(1).for_each(|(seat, collector)| queue.work(seat, collector));
        } else {
            std::thread::scope(|scope| {
                for (seat, collector) in pairs.take(threads) {
                    let queue = &queue;
                    scope.spawn(move || queue.work(seat, collector));
                }
            });
        }
        let fault = queue.fault.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        for seat in &mut self.seats {
            self.bad += std::mem::take(&mut seat.bad);
            let first = seat.first_bad.take();
            let is_earlier = |fault: &Fault| self.first_bad.as_ref().is_none_or(|known| fault.row < known.row);
            if first.as_ref().is_some_and(is_earlier) {
                self.first_bad = first;
            }
        }
        fault.map_or(Ok(()), Err)
    }

    /// Number of threads that may work, and so of collectors.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Whether the table has packets, and whether it has bytes.
    pub(crate) fn has_weights(&self) -> [bool; 2] {
        self.mapping.weights.each_ref().map(|leaves| !leaves.is_empty())
    }
}

/// Returns which fields rules test now.
pub(crate) fn tested(firewall: &Firewall, decoder: &Decoder) -> Vec<bool> {
    let (update, schemas) = (firewall.update(), firewall.schemas());
    let mut tested = vec![false; decoder.fields().len()];
    for rule in update.rules() {
        for condition in rule.conditions.iter() {
            // Both schemas of two families have the same fields at the same places.
            let name = schemas[0].fields()[condition.field].name();
            if let Some(at) = decoder.fields().iter().position(|field| field.name() == name) {
                tested[at] = true;
            }
        }
    }
    tested
}

impl<'a> Ready<'a> {
    fn new(batch: &'a RecordBatch, mapping: &'a Mapping, first_row: usize) -> Self {
        let prepared = |leaf: &Leaf| Prepared::new(arrays::at(batch, &leaf.path), leaf.content);
        let all = |leaves: &Vec<Leaf>| leaves.iter().map(prepared).collect::<Vec<_>>();
        let input = |origin: &Origin| match origin {
            Origin::Absent => Input::Absent,
            Origin::Constant(one) => Input::Constant(one.clone()),
            Origin::Columns(leaves) => Input::Columns(all(leaves)),
        };
        Self {
            inputs: mapping.fields.iter().map(input).collect(),
            weights: mapping.weights.each_ref().map(all),
            frame: mapping.frame.as_ref().map(|(frame, link)| (prepared(frame), link.as_ref().map(prepared))),
            first_row,
            mapping,
        }
    }

    /// Returns what is wrong in a row, where the field of index `field` has a value that it cannot have, or the
    /// addresses are of two families.
    fn fault(&self, row: usize, field: Option<usize>, decoder: &Decoder) -> Fault {
        let leaves = |index: usize| match (&self.mapping.fields[index], &self.inputs[index]) {
            (Origin::Columns(leaves), Input::Columns(columns)) => {
                let is_there = |(_, column): &(&Leaf, &Prepared<'_>)| column.column().show(row) != "null";
                leaves.iter().zip(columns).find(is_there).map(|(leaf, column)| (leaf, column.column().show(row)))
            }
            _ => None,
        };
        let of = |index: usize| {
            leaves(index).map_or_else(
                || (decoder.fields()[index].name().to_owned(), "the constant".to_owned()),
                |(leaf, value)| (leaf.name.clone(), value),
            )
        };
        let (column, value, why) = match field {
            Some(index) => {
                let (column, value) = of(index);
                let content = leaves(index).map(|(leaf, _)| leaf.content);
                let name = decoder.fields()[index].name();
                let noun = if matches!(name, "src" | "dst") { "address" } else { name };
                (column, value, format!("is no {noun}{}", content.map_or(String::new(), range_of)))
            }
            None => {
                let source = |name| decoder.fields().iter().position(|field| field.name() == name);
                let ends = [source("src"), source("dst")].map(|index| index.map_or_else(Default::default, of));
                let [(one, src), (other, dst)] = ends;
                (format!("{one}, {other}"), format!("{src} and {dst}"), "are of two families".to_owned())
            }
        };
        Fault { row: self.first_row + row, column, value, why }
    }

    /// Reads packets and bytes of some rows.
    fn weigh(
        &self,
        rows: std::ops::Range<usize>,
        spare: &mut Cells,
        weights: &mut [Vec<u64>; 2],
    ) -> Result<(), (usize, usize)> {
        for (index, (columns, sizes)) in self.weights.iter().zip(weights).enumerate() {
            let Some(column) = columns.first() else { continue };
            if let Some(row) = column.sizes(rows.clone(), spare, sizes) {
                return Err((index, rows.start + row));
            }
        }
        Ok(())
    }
}

/// Tasks that threads take from.
struct Queue<'a> {
    ready: Vec<Ready<'a>>,
    tasks: Vec<Task>,
    next: AtomicUsize,
    /// Bad row that ends the work: the first one that is known.
    fault: Mutex<Option<Fault>>,
    keeps: bool,
}

impl Queue<'_> {
    fn work<C: Collect>(&self, seat: &mut Seat, collector: &mut C) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(task) = self.tasks.get(index) else { return };
            let ready = &self.ready[task.batch];
            if self.is_over(ready.first_row + task.start) {
                return;
            }
            collector.begin(task.end - task.start);
            for start in (task.start..task.end).step_by(BLOCK) {
                let rows = start..task.end.min(start + BLOCK);
                if !self.block(ready, rows, start - task.start, seat, collector) {
                    return;
                }
            }
            collector.end(index);
        }
    }

    /// Whether a bad row before this one is known. Tasks before it go on, because they may have an earlier one.
    fn is_over(&self, row: usize) -> bool {
        self.fault.lock().is_ok_and(|fault| fault.as_ref().is_some_and(|fault| fault.row < row))
    }

    /// Ends the work at a bad row, unless an earlier one is known.
    fn stop(&self, fault: Fault) {
        let mut known = self.fault.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if known.as_ref().is_none_or(|known| fault.row < known.row) {
            *known = Some(fault);
        }
    }

    /// Decides a block; false if a bad row ends the work.
    fn block<C: Collect>(
        &self,
        ready: &Ready<'_>,
        rows: std::ops::Range<usize>,
        first: usize,
        seat: &mut Seat,
        collector: &mut C,
    ) -> bool {
        let Seat { worker, decoder, batch, weights, spare, bad, first_bad } = seat;
        // Frames take their length on the wire from there.
        let has_weights = C::WEIGHS || ready.frame.is_some();
        let weighed = if has_weights { ready.weigh(rows.clone(), spare, weights) } else { Ok(()) };
        if let Err((index, row)) = weighed
            && !self.keeps
        {
            let leaf = &ready.mapping.weights[index][0];
            let value = ready.weights[index][0].column().show(row);
            let fault =
                Fault { row: ready.first_row + row, column: leaf.name.clone(), value, why: "is no count".to_owned() };
            self.stop(fault);
            return false;
        }
        let [packets, bytes] = ready.weights.each_ref().map(|columns| has_weights && !columns.is_empty());
        collector.weigh(first, [packets.then_some(&weights[0]), bytes.then_some(&weights[1])]);
        if let Some((frame, link)) = &ready.frame {
            let lengths = bytes.then_some(&weights[1][..]);
            decide_frames(frame, link.as_ref(), lengths, rows, first, (worker, batch), collector);
            return true;
        }
        decoder.read(&ready.inputs, rows.clone(), batch);
        for (row, &status) in decoder.statuses().iter().enumerate() {
            if status == Status::Keys {
                continue;
            }
            if matches!(status, Status::BadAddress | Status::BadNumber | Status::MixedFamilies) {
                let fault = || ready.fault(rows.start + row, decoder.fault_of(row), decoder);
                if !self.keeps {
                    self.stop(fault());
                    return false;
                }
                if *bad == 0 {
                    *first_bad = Some(fault());
                }
                *bad += 1;
            }
            collector.undecided(first + row, status);
        }
        let mut order = decoder.order().iter();
        worker
            .classify_batch(batch, |_, decision| {
                if let Some(&row) = order.next() {
                    collector.decided(first + row as usize, &decision);
                }
            })
            .expect(NOT_RELOADED);
        true
    }
}

/// Decides frames, whose headers are parsed; `lengths` are those on the wire, without which frames are whole.
fn decide_frames<C: Collect>(
    frames: &Prepared<'_>,
    links: Option<&Prepared<'_>>,
    lengths: Option<&[u64]>,
    rows: std::ops::Range<usize>,
    first: usize,
    (worker, batch): (&mut Worker, &mut Batch),
    collector: &mut C,
) {
    let mut cells = Cells::default();
    if let Some(links) = links {
        links.decode(rows.clone(), &mut cells);
    }
    batch.clear();
    let mut order = Vec::with_capacity(rows.len());
    for (index, row) in rows.enumerate() {
        let Some(frame) = frames.column().bytes(row) else {
            collector.undecided(first + index, Status::LacksField);
            continue;
        };
        let link = links.and_then(|_| cells.get(index).ok().flatten());
        let link = link.map_or(LinkType::Ethernet, |number| LinkType::from_number(number as u32));
        let length = lengths.map_or(0, |lengths| lengths[index]);
        batch.push_frame(link, frame, u32::try_from(length).unwrap_or(0).max(frame.len() as u32));
        order.push(first + index);
    }
    let mut order = order.into_iter();
    worker
        .classify_batch(batch, |_, decision| {
            if let Some(row) = order.next() {
                collector.decided(row, &decision);
            }
        })
        .expect(NOT_RELOADED);
}
