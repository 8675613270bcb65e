//! `--workers`: threads that classify stretches, which come back in order of arrival.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use firstmatch_net::plane::{Dispatch, Link, Message, Outputs, Plane, PlaneBuilder, Work};

use super::stretch::{Engines, Stretch};
use super::tally::Tally;
use super::timing::Streamed;

/// Number of stretches on their way for each worker: one in hand, and one that waits.
const AHEAD: usize = 2;

impl Message for Stretch {
    fn packets(&self) -> usize {
        self.batch.len()
    }

    fn flow(&self) -> u64 {
        self.first
    }
}

/// Counts of all workers together.
struct Totals {
    tally: Tally,
    nanos: Streamed,
}

/// One worker: an engine's scratches, and the counts of what it classified.
struct Classify {
    engines: Engines,
    tally: Tally,
    nanos: Streamed,
    totals: Arc<Mutex<Totals>>,
}

impl Work<Stretch> for Classify {
    fn work(&mut self, mut stretch: Stretch, out: &mut Outputs<Stretch>) {
        self.engines.classify(&mut stretch, &mut self.nanos);
        self.tally.add(stretch.batch.records(), &stretch.answers);
        out.send(stretch);
    }

    fn end(&mut self, _: &mut Outputs<Stretch>) {
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.tally.add_all(&self.tally);
        totals.nanos.add_all(&self.nanos);
    }
}

/// Running workers.
pub(super) struct Workers {
    plane: Plane<Stretch>,
    totals: Arc<Mutex<Totals>>,
    /// Number of stretches on their way, and the most of them.
    under_way: usize,
    most: usize,
}

impl Workers {
    /// Starts `count` workers for rules in `slots` slots.
    pub(super) fn start(count: usize, engines: &Engines, slots: usize) -> anyhow::Result<Self> {
        let totals = Arc::new(Mutex::new(Totals { tally: Tally::new(slots), nanos: Streamed::default() }));
        let (classifiers, batch) = (Arc::clone(engines.classifiers()), engines.batch());
        let shared = Arc::clone(&totals);
        let most = AHEAD * count;
        let mut builder = PlaneBuilder::new();
        let stage = builder.stage("classify", count, move |_| Classify {
            engines: Engines::new(Arc::clone(&classifiers), batch),
            tally: Tally::new(slots),
            nanos: Streamed::default(),
            totals: Arc::clone(&shared),
        });
        let link = Link::new().capacity(AHEAD).dispatch(Dispatch::RoundRobin);
        builder.enter(stage, link).leave(stage, link).in_order_of_arrival(most);
        Ok(Self { plane: builder.start()?, totals, under_way: 0, most })
    }

    /// Gives a stretch to a worker. There is room, because [`Workers::next_ready`] makes it.
    pub(super) fn send(&mut self, stretch: Stretch) -> anyhow::Result<()> {
        self.under_way += 1;
        self.plane.send(stretch).map_err(|_| self.failed())
    }

    /// Returns the next stretch in order if it is there. It waits for it if as many as may be are under way.
    pub(super) fn next_ready(&mut self) -> anyhow::Result<Option<Stretch>> {
        if self.under_way == self.most {
            return self.next();
        }
        let done = self.plane.try_recv();
        self.under_way -= usize::from(done.is_some());
        Ok(done)
    }

    /// Returns the next stretch in order, or `None` if none is under way.
    pub(super) fn next(&mut self) -> anyhow::Result<Option<Stretch>> {
        if self.under_way == 0 {
            return Ok(None);
        }
        self.under_way -= 1;
        self.plane.recv().map(Some).ok_or_else(|| self.failed())
    }

    /// Returns the reason why a stretch did not come through.
    fn failed(&self) -> anyhow::Error {
        self.plane.fault().map_or_else(|| anyhow!("packets were lost between threads"), Into::into)
    }

    /// Ends the workers and returns their counts.
    pub(super) fn join(self) -> anyhow::Result<(Tally, Streamed)> {
        self.plane.join()?;
        let totals = Arc::into_inner(self.totals).ok_or_else(|| anyhow!("a worker is still there"))?;
        let Totals { tally, nanos } = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok((tally, nanos))
    }
}
