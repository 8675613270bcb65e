//! `--workers`: threads that read, parse and classify stretches, which come back in order of arrival.
//!
//! One worker at a time reads, as a rule whole buffers of a capture without a look into the packets. Parsing and lookup
//! need no lock, and the packets stay in the cache of the core that read them.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::anyhow;
use firstmatch_net::plane::{Link, Message, Outputs, Plane, PlaneBuilder, Pulled};
use firstmatch_net::source::{Frames, SourceError};

use super::stretch::{Engines, Reader, Stretch};
use super::tally::Tally;
use super::timing::Streamed;

/// Number of stretches for each worker: one in hand, and one that waits for an earlier one.
const AHEAD: usize = 2;
/// Longest wait for a free stretch, so that a worker notices a fault of another.
const PATIENCE: Duration = Duration::from_millis(20);

/// Number of stretches of which one is handed on for the progress bar, if nobody needs the answers.
const EVERY: u64 = 256;

/// Stretch with its number, from 0.
struct Numbered {
    number: u64,
    stretch: Stretch,
}

impl Message for Numbered {
    fn packets(&self) -> usize {
        self.stretch.batch.len()
    }

    fn flow(&self) -> u64 {
        self.number
    }
}

/// State that all workers share.
struct Shared {
    /// Whether every stretch is handed on. If not, workers use theirs again, and the caller sleeps meanwhile.
    all_needed: bool,
    input: Mutex<Numbering>,
    free: Mutex<Vec<Stretch>>,
    /// Told of each stretch that becomes free.
    freed: Condvar,
    totals: Mutex<Totals>,
}

/// Input, with the number of the next stretch and the error that ended it.
struct Numbering {
    reader: Reader,
    next: u64,
    fault: Option<SourceError>,
}

/// Counts of all workers together.
struct Totals {
    tally: Tally,
    nanos: Streamed,
    /// Last stretch that was not handed on.
    last: Option<Numbered>,
}

/// One worker: an engine's scratches, frames not yet parsed, and the counts of what it classified.
struct Worker {
    shared: Arc<Shared>,
    engines: Engines,
    frames: Frames,
    /// Stretch that was classified and not handed on.
    last: Option<Numbered>,
    tally: Tally,
    nanos: Streamed,
}

impl Worker {
    fn pull(&mut self, out: &mut Outputs<Numbered>) -> Pulled {
        let (last, mut stretch) = match self.last.take() {
            Some(Numbered { number, stretch }) => (Some(number), stretch),
            None => match self.shared.take_free() {
                Some(stretch) => (None, stretch),
                None => return Pulled::Packets(0),
            },
        };
        let Some(number) = self.shared.read(&mut stretch, &mut self.frames) else {
            self.shared.add(&self.tally, &self.nanos, last.map(|number| Numbered { number, stretch }));
            return Pulled::End;
        };
        stretch.parse(&self.frames);
        self.engines.classify(&mut stretch, &mut self.nanos);
        self.tally.add(stretch.batch.records(), &stretch.answers);
        let packets = stretch.batch.len();
        let done = Numbered { number, stretch };
        if self.shared.all_needed || number % EVERY == 0 {
            out.send(done);
        } else {
            self.last = Some(done);
        }
        Pulled::Packets(packets)
    }
}

impl Shared {
    /// Returns a stretch to fill, or `None` if none becomes free for a while.
    fn take_free(&self) -> Option<Stretch> {
        let wait = self.freed.wait_timeout_while(lock(&self.free), PATIENCE, |free| free.is_empty());
        wait.unwrap_or_else(PoisonError::into_inner).0.pop()
    }

    /// Adds what a worker counted, and the last stretch that it did not hand on.
    fn add(&self, tally: &Tally, nanos: &Streamed, last: Option<Numbered>) {
        let mut totals = lock(&self.totals);
        totals.tally.add_all(tally);
        totals.nanos.add_all(nanos);
        let number = |numbered: &Option<Numbered>| numbered.as_ref().map(|numbered| numbered.number);
        if number(&last) > number(&totals.last) {
            totals.last = last;
        }
    }

    /// Reads the next stretch and returns its number; `None` at the end.
    fn read(&self, stretch: &mut Stretch, frames: &mut Frames) -> Option<u64> {
        let mut input = lock(&self.input);
        match input.reader.read(stretch, frames) {
            Ok(true) => {
                input.next += 1;
                Some(input.next - 1)
            }
            Ok(false) => None,
            Err(error) => {
                input.fault.get_or_insert(error);
                None
            }
        }
    }
}

/// Running workers.
pub(super) struct Workers {
    plane: Plane<Numbered>,
    shared: Arc<Shared>,
    /// Stretches that came before those in front of them, by number.
    early: BTreeMap<u64, Stretch>,
    /// Number of the next stretch in order of arrival.
    next: u64,
}

impl Workers {
    /// Starts `count` workers for rules in `slots` slots, which fill stretches like `empty`.
    ///
    /// Unless `all_needed`, only few of the stretches are handed on, but the last is.
    pub(super) fn start(
        count: usize,
        engines: &Engines,
        slots: usize,
        reader: Reader,
        empty: &Stretch,
        all_needed: bool,
    ) -> anyhow::Result<Self> {
        let free = (0..AHEAD * count).map(|_| empty.clone()).collect();
        let shared = Arc::new(Shared {
            all_needed,
            input: Mutex::new(Numbering { reader, next: 0, fault: None }),
            free: Mutex::new(free),
            freed: Condvar::new(),
            totals: Mutex::new(Totals { tally: Tally::new(slots), nanos: Streamed::default(), last: None }),
        });
        let (classifiers, batch) = (Arc::clone(engines.classifiers()), engines.batch());
        let own = Arc::clone(&shared);
        let mut builder = PlaneBuilder::new();
        let stage = builder.source("classify", count, move |_| {
            let mut worker = Worker {
                shared: Arc::clone(&own),
                engines: Engines::new(Arc::clone(&classifiers), batch),
                frames: Frames::default(),
                last: None,
                tally: Tally::new(slots),
                nanos: Streamed::default(),
            };
            move |out: &mut Outputs<Numbered>| worker.pull(out)
        });
        builder.leave(stage, Link::new().capacity(AHEAD));
        Ok(Self { plane: builder.start()?, shared, early: BTreeMap::new(), next: 0 })
    }

    /// Returns the next stretch that is handed on, in order; `None` after the last.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Stretch>> {
        let step = if self.shared.all_needed { 1 } else { EVERY };
        loop {
            if let Some(stretch) = self.early.remove(&self.next) {
                self.next += step;
                return Ok(Some(stretch));
            }
            match self.plane.recv() {
                Some(Numbered { number, stretch }) => _ = self.early.insert(number, stretch),
                None => return self.plane.fault().map_or(Ok(None), |fault| Err(anyhow!(fault))),
            }
        }
    }

    /// Takes a stretch back, for packets to come.
    pub(super) fn give_back(&self, stretch: Stretch) {
        lock(&self.shared.free).push(stretch);
        self.shared.freed.notify_one();
    }

    /// Ends the workers and adds what they counted. If `last` was not the last stretch, it becomes that.
    ///
    /// Returns the input and the error that ended it, if one did.
    pub(super) fn join(
        self,
        tally: &mut Tally,
        nanos: &mut Streamed,
        last: &mut Stretch,
    ) -> anyhow::Result<(Reader, Option<SourceError>)> {
        self.plane.join()?;
        let shared = Arc::into_inner(self.shared).ok_or_else(|| anyhow!("a worker has not ended"))?;
        let totals = into_inner(shared.totals);
        tally.add_all(&totals.tally);
        nanos.add_all(&totals.nanos);
        if let Some(Numbered { stretch, .. }) = totals.last.filter(|other| other.stretch.first > last.first) {
            *last = stretch;
        }
        let input = into_inner(shared.input);
        Ok((input.reader, input.fault))
    }
}

/// Locks a mutex, also after a panic of another worker, which ends the plane by itself.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
