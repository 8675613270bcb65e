//! One lane: frames of a path, decided and counted on a thread of its own.

use std::io::{self, PipeReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch::{Decision, LinkType, Outcome, Verdict, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Counts;
use crate::capture::Sampler;
use crate::path::{Frame, Path};
use crate::samples::{Decided, Recent, Sample};

/// Maximum time for emptying the ring at the end.
const DRAIN: Duration = Duration::from_secs(1);
/// Time between two looks at a ring that is being emptied.
const LOOK: Duration = Duration::from_millis(5);

/// Time between two looks at a path that is congested.
const CONGESTED: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Effect of a panic on a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnPanic {
    /// The lane ends, and the frames that were being decided are not sent on.
    #[default]
    Close,
    /// These frames and all later ones of the lane are sent on without any rule.
    Open,
}

/// Options of lanes.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LaneOptions {
    /// Receiver of samples of denied packets.
    pub sampler: Option<Sampler>,
    /// Effect of a panic.
    pub on_panic: OnPanic,
    /// Whether frames of ARP, which are no IP, pass whatever the policy says of unknown packets.
    pub passes_arp: bool,
}

impl LaneOptions {
    /// Returns the options of one lane, whose sampler keeps samples of its own.
    pub(crate) fn of_lane(&self) -> Self {
        Self { sampler: self.sampler.as_ref().map(Sampler::of_lane), ..self.clone() }
    }

    /// Gives a denied frame to the sampler, if it is time for one.
    pub(crate) fn sample(&mut self, frame: &Frame, bytes: &[u8], decided: Decided, counts: &mut Counts) {
        if let Some(sampler) = &mut self.sampler
            && sampler.is_due(frame.time)
        {
            let sample = Sample::new(frame.time, bytes, frame.bytes);
            counts.samples_dropped += u64::from(!sampler.take(sample, decided));
        }
    }

    /// Returns the samples that the lane keeps, if it keeps any.
    pub(crate) fn recent(&self) -> Option<Arc<Recent>> {
        self.sampler.as_ref().and_then(Sampler::recent)
    }
}

/// Path of one thread, and what it does with frames.
#[derive(Debug)]
pub(crate) struct Lane<P, W> {
    path: P,
    work: W,
    /// Number of frames that were taken.
    taken: u64,
}

/// Work of a lane.
pub(crate) trait Decide: Send + 'static {
    /// Returns the counts, which the work changes once a batch.
    fn counts(&self) -> Arc<Mutex<Counts>>;

    /// Returns the options of the lane.
    fn options(&self) -> &LaneOptions;

    /// Decides the frames that were taken, counts them, and gives them back.
    ///
    /// # Errors
    /// If the lane cannot go on.
    fn decide(&mut self, path: &mut impl Path) -> io::Result<()>;

    /// Waits until all frames are decided and sent.
    ///
    /// # Errors
    /// If some cannot be.
    fn end(self) -> io::Result<()>;
}

impl<P: Path, W: Decide> Lane<P, W> {
    pub(crate) fn new(path: P, work: W) -> Self {
        Self { path, work, taken: 0 }
    }

    pub(crate) fn counts(&self) -> Arc<Mutex<Counts>> {
        self.work.counts()
    }

    /// Returns the samples that the lane keeps, if it keeps any.
    pub(crate) fn recent(&self) -> Option<Arc<Recent>> {
        self.work.options().recent()
    }

    /// Decides frames until the other end of `stop` is closed, then those that are left in the ring.
    ///
    /// # Errors
    /// If a system call fails, or the work.
    pub(crate) fn run(mut self, stop: &PipeReader) -> io::Result<()> {
        loop {
            while self.decide()? {
                // Waking a thread for a few frames costs more than they do: whoever sends them has the core for a while.
                // Where nobody waits for it, this takes no time.
                thread::yield_now();
            }
            let mut ready =
                [PollFd::from_borrowed_fd(self.path.ready(), PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut ready, self.path.is_congested().then_some(&CONGESTED)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !ready[1].revents().is_empty() {
                self.drain()?;
                return self.work.end();
            }
            if ready[0].revents().contains(PollFlags::ERR) {
                // The interface went down or is gone. Asking for the error takes it, and the socket stays valid.
                let _news = rustix::net::sockopt::socket_error(self.path.ready())?;
            }
        }
    }

    /// Decides the frames that are there; returns whether there were any.
    fn decide(&mut self) -> io::Result<bool> {
        let before = self.taken;
        while self.path.take() {
            self.taken += self.path.frames().len() as u64;
            self.work.decide(&mut self.path)?;
        }
        if self.path.is_congested() {
            let sent = self.path.finish(|_, _| false);
            lock(&self.work.counts()).add_sent(sent);
        }
        Ok(self.taken > before)
    }

    /// Keeps new frames out, and decides those in the ring.
    ///
    /// The kernel hands over a block that is not full after some milliseconds, so that all of them come.
    fn drain(&mut self) -> io::Result<()> {
        self.path.stop()?;
        // A frame that had passed the filter already, on another processor, is counted a moment later.
        thread::sleep(LOOK);
        let (meter, until) = (self.path.meter(), Instant::now() + DRAIN);
        loop {
            self.decide()?;
            let statistics = meter.statistics()?;
            let is_empty = self.taken + statistics.lost >= statistics.received && self.path.waiting() == 0;
            if is_empty || Instant::now() >= until {
                lock(&self.work.counts()).unsent += self.path.waiting();
                return Ok(());
            }
            let wait = Timespec::try_from(LOOK).map_err(io::Error::other)?;
            match poll(&mut [PollFd::from_borrowed_fd(self.path.ready(), PollFlags::IN)], Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Whole lookups on the lane's own thread.
#[derive(Debug)]
pub(crate) struct WorkerWork {
    worker: Worker,
    counts: Arc<Mutex<Counts>>,
    options: LaneOptions,
    /// Places of frames of ARP that pass, in the batch that is being decided, in order.
    arp: Vec<usize>,
    /// Whether frames pass without rules, after a panic.
    has_failed: bool,
}

impl WorkerWork {
    pub(crate) fn new(worker: Worker, options: LaneOptions) -> Self {
        Self { worker, counts: Arc::default(), options, arp: Vec::new(), has_failed: false }
    }
}

impl Decide for WorkerWork {
    fn counts(&self) -> Arc<Mutex<Counts>> {
        Arc::clone(&self.counts)
    }

    fn options(&self) -> &LaneOptions {
        &self.options
    }

    fn decide(&mut self, path: &mut impl Path) -> io::Result<()> {
        let start = Instant::now();
        let (worker, taken) = (&mut self.worker, &*path);
        let decided = match self.options.on_panic {
            OnPanic::Close => Some(classify(worker, taken)),
            OnPanic::Open if self.has_failed => None,
            // After a panic the worker is left alone.
            OnPanic::Open => unless_panic(|| classify(worker, taken)),
        };
        let sent = match decided {
            None => {
                self.has_failed = true;
                lock(&self.counts).undecided += path.frames().len() as u64;
                path.finish(|_, _| true)
            }
            Some((decisions, generation)) => {
                let mut counts = lock(&self.counts);
                self.arp.clear();
                for (at, (frame, decision)) in path.frames().iter().zip(decisions).enumerate() {
                    let &Decision { mut verdict, basis, rule, line, outcome, .. } = decision;
                    if self.options.passes_arp && outcome == Outcome::NotIp && is_arp(path.bytes(frame)) {
                        self.arp.push(at);
                        verdict = Verdict::Permit;
                    }
                    counts.add(verdict, basis, outcome, frame);
                    if verdict == Verdict::Deny {
                        let decided = Decided { rule, line, outcome, generation };
                        self.options.sample(frame, path.bytes(frame), decided, &mut counts);
                    }
                }
                drop(counts);
                let passes = |at: usize| decisions[at].verdict != Verdict::Deny || self.arp.binary_search(&at).is_ok();
                // A frame of which a part is missing is never sent on.
                path.finish(|at, frame| passes(at) && !frame.is_cut())
            }
        };
        let mut counts = lock(&self.counts);
        counts.add_sent(sent);
        counts.batches.add(start.elapsed());
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        Ok(())
    }
}

/// Decides the frames that were taken; returns the generation of the rules, too.
fn classify<'w>(worker: &'w mut Worker, path: &impl Path) -> (&'w [Decision], u64) {
    let frames = path.frames();
    if frames.iter().any(Frame::is_cut) {
        for frame in frames {
            worker.push_cut(LinkType::Ethernet, path.bytes(frame), frame.bytes);
        }
    } else {
        worker.push_all(LinkType::Ethernet, frames.iter().map(|frame| path.bytes(frame)));
    }
    worker.classify();
    (worker.decisions(), worker.generation())
}

/// Whether a frame is one of ARP, with any number of VLAN tags.
pub(crate) fn is_arp(frame: &[u8]) -> bool {
    const ARP: [u8; 2] = [0x08, 0x06];
    const TAGS: [[u8; 2]; 2] = [[0x81, 0x00], [0x88, 0xA8]];
    let mut types = frame.get(12..).unwrap_or_default().chunks_exact(2).map(|bytes| [bytes[0], bytes[1]]).step_by(2);
    types.find(|kind| !TAGS.contains(kind)) == Some(ARP)
}

/// Returns the result, unless `work` panics. It must leave alone what it may have left half done.
fn unless_panic<R>(work: impl FnOnce() -> R) -> Option<R> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Locks counts, even after a panic of their lane.
pub(crate) fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
