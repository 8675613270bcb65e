//! `--workers`: threads that read, parse and classify stretches, which come back in order of arrival.
//!
//! One worker at a time reads, usually whole buffers of a capture without looking into the packets. Parsing and lookup
//! need no lock, and the packets stay in the cache of the core that read them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::anyhow;
use firstmatch_net::plane::{Link, Message, Plane, PlaneBuilder, Seat};
use firstmatch_net::source::SourceError;
use firstmatch_net::systems::Step;
use firstmatch_net::systems::copies::{self, Fetched};

use super::lookups::Lookups;
use super::stretch::{Reader, Stretch};
use super::tally::Tally;
use super::timing::Streamed;

/// Number of stretches in flight for each worker: one that it works on, and one that waits for an earlier one.
const AHEAD: usize = 2;
/// One stretch in this many is passed on for the progress bar, if the answers are not needed.
const EVERY: u64 = 256;

impl Message for Stretch {
    fn packets(&self) -> usize {
        self.batch.len()
    }

    fn flow(&self) -> u64 {
        self.first
    }
}

/// State that all workers share.
struct Shared {
    input: Mutex<Input>,
    empty: Stretch,
    /// Stretches to fill again, the last one first, because it is in a cache.
    free: Mutex<Vec<Stretch>>,
    totals: Mutex<Totals>,
    /// One stretch in this many is passed on.
    every: u64,
}

/// Input with the number of its next stretch, and the error that ended it.
struct Input {
    reader: Reader,
    next: u64,
    fault: Option<SourceError>,
}

/// Counts of all workers together.
struct Totals {
    tally: Tally,
    nanos: Streamed,
}

impl Shared {
    /// Reads the next stretch.
    fn fetch(&self) -> Fetched<Stretch> {
        let mut stretch = lock(&self.free).pop().unwrap_or_else(|| self.empty.clone());
        let mut input = lock(&self.input);
        match input.reader.read(&mut stretch) {
            Ok(true) => {
                stretch.number = input.next;
                input.next += 1;
                return Fetched::Numbered(stretch.number / self.every, stretch);
            }
            Ok(false) => {}
            Err(error) => _ = input.fault.get_or_insert(error),
        }
        // It may be the last one that was classified.
        lock(&self.free).push(stretch);
        Fetched::End
    }
}

/// One worker: its lookups, and its own counts, which it adds to the totals at its end.
struct Classify {
    shared: Arc<Shared>,
    lookups: Lookups,
    tally: Tally,
    nanos: Streamed,
}

impl Classify {
    fn work(&mut self, mut stretch: Stretch) -> Option<Stretch> {
        stretch.parse();
        stretch.decide(&mut self.lookups, &mut self.tally, &mut self.nanos);
        if stretch.number.is_multiple_of(self.shared.every) {
            return Some(stretch);
        }
        lock(&self.shared.free).push(stretch);
        None
    }
}

impl Drop for Classify {
    fn drop(&mut self) {
        self.tally.rule_cache = self.lookups.rule_cache_counts();
        let mut totals = lock(&self.shared.totals);
        totals.tally.add_all(&self.tally);
        totals.nanos.add_all(&self.nanos);
    }
}

/// Running workers.
pub(super) struct Workers {
    plane: Plane<Stretch>,
    shared: Arc<Shared>,
}

impl Workers {
    /// Starts `count` workers for rules in `slots` slots, which fill stretches like `empty`.
    ///
    /// Unless `all_needed` is true, only few of the stretches are passed on. The workers then reuse the others, and the
    /// caller sleeps meanwhile.
    pub(super) fn start(
        count: usize,
        lookups: &Lookups,
        slots: usize,
        reader: Reader,
        empty: &Stretch,
        all_needed: bool,
    ) -> anyhow::Result<Self> {
        let shared = Arc::new(Shared {
            input: Mutex::new(Input { reader, next: 0, fault: None }),
            empty: empty.clone(),
            free: Mutex::default(),
            totals: Mutex::new(Totals { tally: Tally::new(slots), nanos: Streamed::default() }),
            every: if all_needed { 1 } else { EVERY },
        });
        let (lookups, own) = (lookups.maker(), Arc::clone(&shared));
        let classify = Step::new("classify", move |_: &Seat| {
            let (tally, nanos) = (Tally::new(slots), Streamed::default());
            let mut worker = Classify { shared: Arc::clone(&own), lookups: lookups(), tally, nanos };
            move |stretch| worker.work(stretch)
        });
        let own = Arc::clone(&shared);
        let mut builder = PlaneBuilder::new();
        let stage = copies::source(&mut builder, "classify", count, &[classify], move |_| {
            let shared = Arc::clone(&own);
            move || shared.fetch()
        });
        builder.leave(stage, Link::new().capacity(AHEAD)).in_order_of_arrival(AHEAD * count);
        Ok(Self { plane: builder.start()?, shared })
    }

    /// Returns the next stretch that is passed on, in order; `None` after the last.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Stretch>> {
        let next = self.plane.recv();
        match self.plane.fault().filter(|_| next.is_none()) {
            Some(fault) => Err(anyhow!(fault)),
            None => Ok(next),
        }
    }

    /// Takes a stretch back, to be filled again.
    pub(super) fn give_back(&self, stretch: Stretch) {
        lock(&self.shared.free).push(stretch);
    }

    /// Ends the workers and adds their counts; `last` becomes the last stretch, whether or not it was passed on.
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
        let free = into_inner(shared.free).into_iter();
        if let Some(other) = free.max_by_key(|other| other.first).filter(|other| other.first > last.first) {
            *last = other;
        }
        let input = into_inner(shared.input);
        Ok((input.reader, input.fault))
    }
}

/// Locks a mutex, even after a panic of another worker, because that panic ends the plane anyway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn into_inner<T>(mutex: Mutex<T>) -> T {
    mutex.into_inner().unwrap_or_else(PoisonError::into_inner)
}
