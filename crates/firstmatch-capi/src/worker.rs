//! Workers: batches of packets in, decisions out.

use std::marker::PhantomData;

use firstmatch::core::Schema;
use firstmatch::net::wire::Batch;
use firstmatch::{Firewall, LinkType, Worker};

use crate::firewall::FirewallHandle;
use crate::guard::{self, Handle, Out};
use crate::numbers;
use crate::status::{Failure, Status};

/// Most packets of one call.
pub const FIRSTMATCH_MAX_BATCH: usize = 1 << 20;

/// Buffers and state of one thread that classifies.
///
/// It may move between threads, but one call at a time uses it. It keeps its rules alive.
#[derive(Debug)]
pub struct WorkerHandle(());

/// Worker as it stands behind its handle.
#[derive(Debug)]
pub(crate) struct WorkerValue {
    pub(crate) worker: Worker,
    /// Rows of columns.
    pub(crate) batch: Batch,
    pub(crate) schemas: Vec<Schema>,
    /// Shape of the firewall that the batch for columns is of.
    shape: u64,
    /// Firewall of the worker; it keeps the thread that rebuilds alive.
    pub(crate) firewall: Firewall,
    /// Rows of columns that no rule could decide.
    pub(crate) undecided: Undecided,
}

/// Numbers of rows of columns that were not given to the rules, by outcome.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undecided {
    other_family: u64,
    lacks_field: u64,
    out_of_range: u64,
}

impl Undecided {
    fn of(&mut self, outcome: u32) -> Option<&mut u64> {
        match outcome {
            numbers::FIRSTMATCH_OTHER_FAMILY => Some(&mut self.other_family),
            numbers::FIRSTMATCH_LACKS_FIELD => Some(&mut self.lacks_field),
            numbers::FIRSTMATCH_OUT_OF_RANGE => Some(&mut self.out_of_range),
            _ => None,
        }
    }

    /// Counts a row with one of these outcomes.
    pub(crate) fn count(&mut self, outcome: u32) {
        self.of(outcome).into_iter().for_each(|count| *count += 1);
    }
}

impl WorkerValue {
    /// Takes the fields of the last reload, for rows and columns.
    pub(crate) fn refresh(&mut self) {
        if self.worker.refresh() {
            self.schemas = self.worker.schemas().cloned().collect();
        }
        if self.firewall.shape() != self.shape {
            self.shape = self.firewall.shape();
            self.batch = self.firewall.batch();
        }
    }

    /// Returns the schemas of the batch for columns.
    pub(crate) fn column_schemas(&self) -> Vec<Schema> {
        (0..self.batch.schemas()).map(|schema| self.batch.extractor(schema).schema().clone()).collect()
    }
}

impl Handle for WorkerHandle {
    const MAGIC: u64 = 0x6669_7273_7457_4F52;
    const NAME: &'static str = "the worker";
    type Value = WorkerValue;
}

/// Bytes of the caller's.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Slice {
    /// First byte; null only if there is none.
    pub bytes: *const u8,
    /// Number of bytes.
    pub length: usize,
}

/// Verdict on one packet, and its reason: 32 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Decision {
    /// Verdict: `FIRSTMATCH_PERMIT` to `FIRSTMATCH_MATCH`.
    pub verdict: u32,
    /// Number of the verdict `FIRSTMATCH_MARK`, otherwise 0.
    pub mark: u32,
    /// Id of the rule that matched; 0 if the policy gave the verdict.
    pub rule: u64,
    /// Line of the rule in its file, from 1; 0 if it has none.
    pub line: u32,
    /// Outcome: how much of the headers could be read, `FIRSTMATCH_COMPLETE` to `FIRSTMATCH_UNKNOWN_LINK`.
    pub outcome: u32,
    /// Value that was given to the rule; 0 without one.
    pub value: u64,
}

impl From<&firstmatch::Decision> for Decision {
    #[inline(always)]
    fn from(decision: &firstmatch::Decision) -> Self {
        let (verdict, mark) = numbers::verdict(decision.verdict);
        Self {
            verdict,
            mark,
            rule: decision.rule.map_or(0, firstmatch::RuleId::get),
            line: decision.line.map_or(0, u32::from),
            outcome: numbers::outcome(decision.outcome),
            value: decision.value,
        }
    }
}

/// Frame of the caller's that was checked.
#[repr(transparent)]
pub(crate) struct Frame<'a>(Slice, PhantomData<&'a [u8]>);

impl AsRef<[u8]> for Frame<'_> {
    #[inline(always)]
    fn as_ref(&self) -> &[u8] {
        if self.0.length == 0 {
            return &[];
        }
        // SAFETY: `frames` has checked pointer and length, and the bytes are readable by its caller's promise.
        unsafe { std::slice::from_raw_parts(self.0.bytes, self.0.length) }
    }
}

/// Returns the frames of an array.
///
/// # Safety
/// Every frame must have the bytes that it says, which do not change as long as the result is used.
unsafe fn frames<'a>(first: *const Slice, count: usize) -> Result<&'a [Frame<'a>], Failure> {
    // SAFETY: the caller's promise.
    let slices = unsafe { guard::array(first, count, "frames") }?;
    let is_bad = |slice: &Slice| (slice.bytes.is_null() && slice.length > 0) || isize::try_from(slice.length).is_err();
    if let Some(index) = slices.iter().position(is_bad) {
        return Err(Failure::invalid(format!("frame {index} is null or longer than memory")));
    }
    // SAFETY: a frame is laid out as a slice, and each was checked.
    Ok(unsafe { std::slice::from_raw_parts(slices.as_ptr().cast(), slices.len()) })
}

/// Place of the caller's for the decisions of one call.
#[derive(Debug)]
pub(crate) struct Decisions {
    first: *mut Decision,
    count: usize,
}

impl Decisions {
    /// Returns the place for `count` decisions.
    ///
    /// # Safety
    /// If `count` is not 0, `first` must be null or lead to memory for `count` decisions, for as long as the result is
    /// used.
    pub(crate) unsafe fn new(first: *mut Decision, count: usize) -> Result<Self, Failure> {
        if count > FIRSTMATCH_MAX_BATCH {
            return Err(Failure::invalid(format!("{count} packets are more than {FIRSTMATCH_MAX_BATCH}")));
        }
        guard::check_array(first, count, "decisions")?;
        Ok(Self { first, count })
    }

    /// Decides the packets of a worker, as many as there are places.
    pub(crate) fn fill(&self, worker: &mut Worker) -> Result<(), Failure> {
        let decided = worker.classify();
        if decided.len() != self.count {
            return Err(Failure::new(Status::Internal, "not one decision a packet"));
        }
        for (index, decision) in decided.iter().enumerate() {
            // SAFETY: there are `count` places, by the promise of `new`.
            unsafe { self.first.add(index).write(decision.into()) }
        }
        Ok(())
    }
}

/// Decides the `count` packets that `push` adds to the batch of a worker.
///
/// `push` adds all of them or none, so that a call that fails leaves nothing behind.
///
/// # Safety
/// `worker` must be null or a handle, and `decisions` as for [`Decisions::new`].
pub(crate) unsafe fn decide(
    worker: *mut WorkerHandle,
    decisions: *mut Decision,
    count: usize,
    push: impl FnOnce(&mut WorkerValue) -> Result<(), Failure>,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (mut worker, out) = unsafe { (guard::lease(worker)?, Decisions::new(decisions, count)?) };
        push(&mut worker)?;
        out.fill(&mut worker.worker)
    })
}

/// Returns the link type of a number.
pub(crate) fn link_of(number: u32) -> Result<LinkType, Failure> {
    match u16::try_from(number) {
        Ok(number) => Ok(LinkType::from_number(number.into())),
        Err(_) => Err(Failure::invalid(format!("{number} is no link type"))),
    }
}

/// Makes a worker, for one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_worker_new(firewall: *const FirewallHandle, worker: *mut *mut WorkerHandle) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (out, firewall) = unsafe { (Out::handle(worker)?, guard::share(firewall)?) };
        let firewall = firewall.firewall.clone();
        // The number first: if the batch is of a later shape, it is taken once more.
        let (shape, worker, batch) = (firewall.shape(), firewall.worker(), firewall.batch());
        let schemas = worker.schemas().cloned().collect();
        out.give(WorkerValue { worker, batch, schemas, shape, firewall, undecided: Undecided::default() });
        Ok(())
    })
}

/// Frees a worker; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_worker_free(worker: *mut WorkerHandle) -> i32 {
    // SAFETY: the caller's promise.
    guard::call(|| unsafe { guard::close(worker) })
}

/// Decides `count` frames of one link type into `decisions`, all in the generation of one commit.
///
/// `wire_lengths` has the length of each packet on the wire, where a capture cut it short; null means whole frames.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_classify_frames(
    worker: *mut WorkerHandle,
    link: u32,
    frames: *const Slice,
    wire_lengths: *const u32,
    count: usize,
    decisions: *mut Decision,
) -> i32 {
    let push = |worker: &mut WorkerValue| {
        // SAFETY: the caller's promise.
        let frames = unsafe { self::frames(frames, count) }?;
        let link = link_of(link)?;
        if wire_lengths.is_null() {
            worker.worker.push_all(link, frames);
        } else {
            // SAFETY: the caller's promise.
            let lengths = unsafe { guard::array(wire_lengths, count, "wire_lengths") }?;
            for (frame, &length) in frames.iter().zip(lengths) {
                worker.worker.push_cut(link, frame.as_ref(), length);
            }
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { decide(worker, decisions, count, push) }
}

/// Writes the generation of the last batch: the number of commits that it saw.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_worker_generation(worker: *mut WorkerHandle, generation: *mut u64) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (worker, out) = unsafe { (guard::lease(worker)?, Out::new(generation, "generation")?) };
        out.set(worker.worker.generation());
        Ok(())
    })
}

/// Writes the number of packets that the worker has classified with an outcome, and of rows of columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_worker_outcome_count(
    worker: *mut WorkerHandle,
    outcome: u32,
    packets: *mut u64,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (mut worker, out) = unsafe { (guard::lease(worker)?, Out::new(packets, "packets")?) };
        let of_packets = numbers::outcome_of(outcome).map(|outcome| worker.worker.count_of(outcome));
        let of_rows = worker.undecided.of(outcome).map(|count| *count);
        if of_packets.is_none() && of_rows.is_none() {
            return Err(Failure::invalid("there is no outcome of this number"));
        }
        out.set(of_packets.unwrap_or(0) + of_rows.unwrap_or(0));
        Ok(())
    })
}
