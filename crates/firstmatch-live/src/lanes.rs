//! All lanes of a command: their start and their end.

use std::any::Any;
use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use firstmatch::Firewall;

use crate::Counts;
use crate::lane::{Decide, Lane, LaneOptions, WorkerWork, lock};
use crate::path::{Meter, Path, Statistics};
use crate::samples::{Denied, Recent};
use crate::systems::{Generations, SystemWork};

/// Threads that decide frames, each with a path and a worker of its own.
#[derive(Debug)]
pub struct Lanes {
    threads: Vec<JoinHandle<io::Result<()>>>,
    states: Vec<LaneState>,
    /// Closed to end the lanes.
    stop: PipeWriter,
    ended: PipeReader,
}

/// Counts of a running lane, for other threads.
#[derive(Clone)]
pub struct LaneState {
    /// Name of the interface that frames come from.
    pub interface: String,
    /// Number of the lane among those of its interface, from 0.
    pub worker: usize,
    counts: Arc<Mutex<Counts>>,
    meter: Arc<dyn Meter>,
    recent: Option<Arc<Recent>>,
}

/// Reason for the end of a lane that nobody has stopped.
#[derive(Debug)]
pub enum Failure {
    /// A system call failed.
    System(io::Error),
    /// The lane panicked, with this text.
    Panic(String),
}

/// Sums of all lanes at their end.
#[derive(Debug, Default)]
pub struct Finished {
    /// Frames decided.
    pub counts: Counts,
    /// Frames received and lost.
    pub statistics: Statistics,
    /// The same by the interface that frames came from, in the order of the paths.
    pub interfaces: Vec<(String, Counts, Statistics)>,
    /// Failure of the first lane that has failed.
    pub failure: Option<Failure>,
}

impl Lanes {
    /// Starts a lane for each path, and lets frames in. Each lane does whole lookups on its thread.
    ///
    /// # Errors
    /// If a thread cannot be started, or a system call fails.
    pub fn start<P: Path>(paths: Vec<P>, firewall: &Firewall, options: &LaneOptions) -> io::Result<Self> {
        Self::start_all(paths, || WorkerWork::new(firewall.worker(), options.of_lane()))
    }

    /// Starts a lane for each path, whose lookups are done by planes, and lets frames in. Counts by rule are those of
    /// `firewall`.
    ///
    /// A lane whose plane has failed ends, whatever the options say of panics.
    ///
    /// # Errors
    /// As for [`Lanes::start`].
    pub fn start_system<P: Path>(
        paths: Vec<P>,
        firewall: &Firewall,
        generations: &Arc<Generations>,
        options: &LaneOptions,
    ) -> io::Result<Self> {
        Self::start_all(paths, || SystemWork::new(Arc::clone(generations), firewall, options.of_lane()))
    }

    fn start_all<P: Path, W: Decide>(paths: Vec<P>, work: impl Fn() -> W) -> io::Result<Self> {
        let ((stopped, stop), (ended, end)) = (io::pipe()?, io::pipe()?);
        let mut lanes = Self { threads: Vec::new(), states: Vec::new(), stop, ended };
        paths.iter().try_for_each(Path::start)?;
        for path in paths {
            let (interface, meter) = (path.interface().to_owned(), path.meter());
            let worker = lanes.states.iter().filter(|state| state.interface == interface).count();
            let name = format!("{interface} {worker}");
            let lane = Lane::new(path, work());
            let (counts, recent) = (lane.counts(), lane.recent());
            lanes.states.push(LaneState { interface, worker, counts, meter, recent });
            let (stopped, end) = (stopped.try_clone()?, End(end.try_clone()?));
            let run = move || {
                let _end = end;
                lane.run(&stopped)
            };
            lanes.threads.push(thread::Builder::new().name(name).spawn(run)?);
        }
        Ok(lanes)
    }

    /// Returns a reader of the counts of each lane.
    pub fn states(&self) -> &[LaneState] {
        &self.states
    }

    /// Returns the packets decided so far, by all lanes.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        self.states.iter().for_each(|state| all.add_all(&lock(&state.counts)));
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
        for state in &self.states {
            all.add(state.statistics()?);
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
    /// If the system call for the last counts fails.
    pub fn finish(self) -> io::Result<Finished> {
        let Self { threads, states, stop, ended: _ } = self;
        drop(stop);
        let mut finished = Finished::default();
        for thread in threads {
            let failure = match thread.join() {
                Ok(result) => result.err().map(Failure::System),
                Err(panic) => Some(Failure::Panic(text(&*panic))),
            };
            finished.failure = finished.failure.or(failure);
        }
        for state in &states {
            let (counts, received) = (state.counts(), state.statistics()?);
            finished.statistics.add(received);
            finished.counts.add_all(&counts);
            match finished.interfaces.iter_mut().find(|(name, ..)| *name == state.interface) {
                Some((_, all_counts, all_received)) => {
                    all_counts.add_all(&counts);
                    all_received.add(received);
                }
                None => finished.interfaces.push((state.interface.clone(), counts, received)),
            }
        }
        Ok(finished)
    }
}

impl LaneState {
    /// Returns the packets decided so far.
    pub fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    /// Returns the frames received and lost so far.
    ///
    /// # Errors
    /// If the system call fails.
    pub fn statistics(&self) -> io::Result<Statistics> {
        self.meter.statistics()
    }

    /// Returns the last denied packets, the oldest first, if the lane's sampler
    /// [keeps](crate::capture::Sampler::keeping) them.
    pub fn denied(&self) -> Vec<Denied> {
        self.recent.as_ref().map_or(Vec::new(), |recent| recent.list())
    }
}

impl fmt::Debug for LaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LaneState")
            .field("interface", &self.interface)
            .field("worker", &self.worker)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => write!(f, "{error}"),
            Self::Panic(text) => write!(f, "a thread has panicked: {text}"),
        }
    }
}

/// Returns the text of a panic.
fn text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a text".to_owned())
}

/// Says that a thread has ended, even by a panic.
struct End(PipeWriter);

impl Drop for End {
    fn drop(&mut self) {
        // Nobody listens at the end of the program.
        let _ignored = self.0.write_all(&[0]);
    }
}
