//! All lanes of an interface: their start and their end.

use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use firstmatch::Firewall;

use crate::Counts;
use crate::capture::Sampler;
use crate::lane::{Lane, lock};
use crate::packet::{Meter, Ring, Statistics};

/// Threads that decide the frames of an interface, each with a ring and a worker of its own.
#[derive(Debug)]
pub struct Lanes {
    threads: Vec<JoinHandle<io::Result<()>>>,
    shared: Vec<(Arc<Meter>, Arc<Mutex<Counts>>)>,
    /// Closed to end the lanes.
    stop: PipeWriter,
    ended: PipeReader,
}

impl Lanes {
    /// Starts a lane for each ring, and lets frames in. Denied packets are sampled for `sampler`, if there is one.
    ///
    /// # Errors
    /// If a thread cannot be started, or a system call fails.
    pub fn start(rings: Vec<Ring>, firewall: &Firewall, sampler: Option<&Sampler>) -> io::Result<Self> {
        let ((stopped, stop), (ended, end)) = (io::pipe()?, io::pipe()?);
        let mut lanes = Self { threads: Vec::new(), shared: Vec::new(), stop, ended };
        rings.iter().try_for_each(Ring::start)?;
        for (number, ring) in rings.into_iter().enumerate() {
            let meter = ring.meter();
            let lane = Lane::new(ring, firewall.worker(), sampler.cloned());
            lanes.shared.push((meter, lane.counts()));
            let (stopped, end) = (stopped.try_clone()?, End(end.try_clone()?));
            let run = move || {
                let _end = end;
                lane.run(&stopped)
            };
            lanes.threads.push(thread::Builder::new().name(format!("lane {number}")).spawn(run)?);
        }
        Ok(lanes)
    }

    /// Returns the packets decided so far, by all lanes.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.shared.iter().for_each(|(_, counts)| all.add_all(&lock(counts)));
        all
    }

    /// Returns the frames received and lost so far.
    ///
    /// The kernel counts in 32 bits, so this must be called every now and then.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn statistics(&self) -> io::Result<Statistics> {
        let mut all = Statistics::default();
        for (meter, _) in &self.shared {
            all.add(meter.statistics()?);
        }
        Ok(all)
    }

    /// Returns a file that becomes readable once a lane ends by itself, which is a failure.
    pub fn ended(&self) -> BorrowedFd<'_> {
        self.ended.as_fd()
    }

    /// Keeps new frames out, waits until those in the rings are decided, for a second at most, and returns all counts.
    ///
    /// # Errors
    /// If a lane has failed.
    ///
    /// # Panics
    /// If a lane has panicked.
    pub fn finish(self) -> io::Result<(Counts, Statistics)> {
        let Self { threads, shared, stop, ended: _ } = self;
        drop(stop);
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        }
        let (mut counts, mut statistics) = (Counts::default(), Statistics::default());
        for (meter, of_lane) in &shared {
            statistics.add(meter.statistics()?);
            counts.add_all(&lock(of_lane));
        }
        Ok((counts, statistics))
    }
}

/// Says that a thread has ended, even by a panic.
struct End(PipeWriter);

impl Drop for End {
    fn drop(&mut self) {
        // Nobody listens at the end of the program.
        let _ignored = self.0.write_all(&[0]);
    }
}
