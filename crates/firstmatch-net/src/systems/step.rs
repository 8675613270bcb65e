//! Steps of lookups, and planes that have a stage for each.

use std::fmt;
use std::sync::Arc;

use firstmatch_core::{Classifier, Keys, Match};

use crate::plane::{Link, Message, Outputs, PlaneBuilder, Seat, StageId};

/// Message whose packets are looked up.
pub trait LookupMessage: Message {
    /// Returns the packets' keys, and the places that steps write to.
    fn view(&mut self) -> LookupView<'_>;
}

/// Packets of a message as the steps of a lookup see them.
#[derive(Debug)]
pub struct LookupView<'a> {
    /// Row of each packet.
    pub keys: Keys<'a>,
    /// Best match of each packet so far; `None` before the first step.
    pub best: &'a mut [Option<Match>],
    /// Words that steps pass on, the same number for each packet, packet after packet. The first step sets them.
    pub words: &'a mut [u64],
}

/// Work of one worker on a step. It returns the message for the next step, unless it kept it.
pub type StepWork<T> = Box<dyn FnMut(T) -> Option<T>>;

/// Function that makes the work of a worker, on the worker's thread.
type MakeWork<T> = dyn Fn(&Seat) -> StepWork<T> + Send + Sync;

/// Named step of a lookup. It makes the work of each worker.
pub struct Step<T> {
    name: String,
    make: Arc<MakeWork<T>>,
}

impl<T> Clone for Step<T> {
    fn clone(&self) -> Self {
        Self { name: self.name.clone(), make: Arc::clone(&self.make) }
    }
}

impl<T> fmt::Debug for Step<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Step").field(&self.name).finish()
    }
}

impl<T: 'static> Step<T> {
    /// Returns a step; `make` makes the work of each worker, on its own thread.
    pub fn new<W: FnMut(T) -> Option<T> + 'static>(
        name: impl Into<String>,
        make: impl Fn(&Seat) -> W + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), make: Arc::new(move |seat| Box::new(make(seat))) }
    }

    /// Returns a step that works on the packets of a message and passes the message on.
    ///
    /// `make` makes the work of each worker, on its own thread.
    pub fn on_packets<W: FnMut(LookupView<'_>) + 'static>(
        name: impl Into<String>,
        make: impl Fn() -> W + Send + Sync + 'static,
    ) -> Self
    where
        T: LookupMessage,
    {
        Self::new(name, move |_| {
            let mut work = make();
            move |mut message: T| {
                work(message.view());
                Some(message)
            }
        })
    }

    /// Returns a step that improves on the best matches so far by the matches of `engine`.
    pub fn improving(name: impl Into<String>, engine: Arc<dyn Classifier>) -> Self
    where
        T: LookupMessage,
    {
        Self::on_packets(name, move || {
            let engine = Arc::clone(&engine);
            let mut scratch = engine.scratch();
            move |LookupView { keys, best, .. }: LookupView<'_>| engine.improve_batch(&mut scratch, &keys, best)
        })
    }

    /// Returns the step with the work that `around` makes of its own work, for each worker.
    ///
    /// For example, `around` returns work that does the same and measures the time.
    #[must_use]
    pub fn wrapped<W: FnMut(T) -> Option<T> + 'static>(
        self,
        around: impl Fn(&Seat, StepWork<T>) -> W + Send + Sync + 'static,
    ) -> Self {
        let Self { name, make } = self;
        Self::new(name, move |seat| around(seat, make(seat)))
    }

    /// Returns the name, which is also the name of the stage.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Makes the work of one worker.
    pub fn worker(&self, seat: &Seat) -> StepWork<T> {
        (self.make)(seat)
    }
}

/// Adds a stage for each step, with `workers` by stage, and links each to the next.
///
/// Messages that the last step passes on leave by the first link of its stage, which the caller must add.
///
/// # Panics
/// If `workers` does not have one number for each step.
pub fn chain<T: Message>(
    builder: &mut PlaneBuilder<T>,
    steps: &[Step<T>],
    workers: &[usize],
    link: Link,
) -> Vec<StageId> {
    assert_eq!(steps.len(), workers.len(), "one number of workers for each step");
    let stages: Vec<StageId> =
        steps.iter().zip(workers).map(|(step, &workers)| stage(builder, step, workers)).collect();
    for pair in stages.windows(2) {
        if let [from, to] = *pair {
            builder.link(from, to, link);
        }
    }
    stages
}

/// Adds a stage for a step; the first link of the stage gets the messages that the step passes on.
pub(super) fn stage<T: Message>(builder: &mut PlaneBuilder<T>, step: &Step<T>, workers: usize) -> StageId {
    let step = step.clone();
    builder.stage(&step.name.clone(), workers, move |seat| {
        let mut work = step.worker(seat);
        move |message: T, out: &mut Outputs<T>| {
            if let Some(message) = work(message) {
                out.send(message);
            }
        }
    })
}
