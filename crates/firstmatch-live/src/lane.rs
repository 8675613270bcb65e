//! One lane: frames from a ring, decided and counted on a thread of its own.

use std::io::{self, PipeReader};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch::{LinkType, Verdict, Worker};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::Counts;
use crate::capture::{Sample, Sampler};
use crate::packet::{Block, Frame, Ring};

/// Maximum number of packets that are decided at once.
const BATCH: usize = 256;
/// Maximum time for emptying the ring at the end.
const DRAIN: Duration = Duration::from_secs(1);
/// Time between two looks at a ring that is being emptied.
const LOOK: Duration = Duration::from_millis(5);

/// Ring and worker of one thread.
#[derive(Debug)]
pub(crate) struct Lane {
    ring: Ring,
    work: Work,
}

/// Parts of a lane that a block of frames is given to.
#[derive(Debug)]
struct Work {
    worker: Worker,
    counts: Arc<Mutex<Counts>>,
    sampler: Option<Sampler>,
}

impl Lane {
    pub(crate) fn new(ring: Ring, worker: Worker, sampler: Option<Sampler>) -> Self {
        Self { ring, work: Work { worker, counts: Arc::default(), sampler } }
    }

    /// Returns the counts, which the lane changes once a batch.
    pub(crate) fn counts(&self) -> Arc<Mutex<Counts>> {
        Arc::clone(&self.work.counts)
    }

    /// Decides frames until the other end of `stop` is closed, then those that are left in the ring.
    ///
    /// # Errors
    /// If a system call fails.
    pub(crate) fn run(mut self, stop: &PipeReader) -> io::Result<()> {
        loop {
            while let Some(block) = self.ring.take() {
                self.work.decide(&block);
            }
            let mut ready = [PollFd::new(self.ring.socket(), PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            match poll(&mut ready, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            if !ready[1].revents().is_empty() {
                return self.drain();
            }
            if ready[0].revents().contains(PollFlags::ERR) {
                // The interface went down or is gone. Asking for the error takes it, and the socket stays valid.
                let _news = rustix::net::sockopt::socket_error(self.ring.socket())?;
            }
        }
    }

    /// Keeps new frames out, and decides those in the ring.
    ///
    /// The kernel hands over a block that is not full after some milliseconds, so that all of them come.
    fn drain(mut self) -> io::Result<()> {
        self.ring.stop()?;
        // A frame that had passed the filter already, on another processor, is counted a moment later.
        thread::sleep(LOOK);
        let until = Instant::now() + DRAIN;
        loop {
            while let Some(block) = self.ring.take() {
                self.work.decide(&block);
            }
            let statistics = self.ring.meter().statistics()?;
            let decided = lock(&self.work.counts).all().packets;
            if decided + statistics.lost >= statistics.received || Instant::now() >= until {
                return Ok(());
            }
            let wait = Timespec::try_from(LOOK).map_err(io::Error::other)?;
            match poll(&mut [PollFd::new(self.ring.socket(), PollFlags::IN)], Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Work {
    /// Decides the frames of a block, and counts them.
    fn decide(&mut self, block: &Block<'_>) {
        for frames in block.frames.chunks(BATCH) {
            let cut = frames.iter().filter(|frame| frame.is_cut()).count();
            if cut == 0 {
                self.worker.push_all(LinkType::Ethernet, frames.iter().map(|frame| block.bytes(frame)));
            } else {
                for frame in frames {
                    self.worker.push_cut(LinkType::Ethernet, block.bytes(frame), frame.bytes);
                }
            }
            let decisions = self.worker.classify();
            let mut counts = lock(&self.counts);
            counts.cut += cut as u64;
            for (frame, decision) in frames.iter().zip(decisions) {
                counts.add(decision, frame.bytes);
                counts.unfinished += u64::from(frame.is_unfinished);
                if decision.verdict == Verdict::Deny
                    && let Some(sampler) = &mut self.sampler
                    && sampler.is_due(frame.time)
                {
                    counts.samples_dropped += u64::from(!sampler.offer(sample(block, frame)));
                }
            }
        }
    }
}

fn sample(block: &Block<'_>, frame: &Frame) -> Sample {
    Sample::new(frame.time, block.bytes(frame), frame.bytes)
}

/// Locks counts, even after a panic of their lane, which ends the lane anyway.
pub(crate) fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}
