//! State that all threads of a plane share.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::bell::{Bell, Spin, lock};
use super::counters::{Flux, Padded, PlaneCounters, RingEnd, StageCounters, Tally, WorkerTally};
use super::error::PlaneError;
use super::ring::RingState;

#[derive(Debug)]
pub(super) struct StageState {
    pub(super) name: String,
    pub(super) is_source: bool,
    pub(super) workers: Vec<Padded<WorkerTally>>,
    pub(super) bells: Vec<Arc<Bell>>,
    /// Number of workers, counted from the first, that messages are sent to.
    pub(super) active: Arc<AtomicUsize>,
}

impl StageState {
    pub(super) fn new(name: String, is_source: bool, workers: usize) -> Self {
        Self {
            name,
            is_source,
            workers: (0..workers).map(|_| Padded::default()).collect(),
            bells: (0..workers).map(|_| Arc::default()).collect(),
            active: Arc::new(AtomicUsize::new(workers)),
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) stages: Vec<StageState>,
    pub(super) rings: Vec<Arc<RingState>>,
    pub(super) spin: Spin,
    /// Bell of the caller's sending side, and of the receiving one.
    pub(super) entrance_bell: Arc<Bell>,
    pub(super) exit_bell: Arc<Bell>,
    /// Maximum number of messages sent and not yet delivered; `None` unless results are in order of arrival.
    pub(super) window: Option<u64>,
    /// Number of messages delivered in order.
    pub(super) released: Padded<AtomicU64>,
    pub(super) accepted: Padded<Tally>,
    pub(super) dropped: Tally,
    pub(super) delivered: Padded<Tally>,
    /// Packets that reached the receiving side and were not delivered when it ended.
    pub(super) left: Tally,
    stopped: AtomicBool,
    aborted: AtomicBool,
    /// Whether no thread receives any more.
    deserted: AtomicBool,
    ended: AtomicBool,
    fault: Mutex<Option<PlaneError>>,
}

impl Shared {
    pub(super) fn new(
        stages: Vec<StageState>,
        rings: Vec<Arc<RingState>>,
        spin: Spin,
        bells: [Arc<Bell>; 2],
        window: Option<u64>,
    ) -> Self {
        let [entrance_bell, exit_bell] = bells;
        Self {
            stages,
            rings,
            spin,
            entrance_bell,
            exit_bell,
            window,
            released: Padded::default(),
            accepted: Padded::default(),
            dropped: Tally::default(),
            delivered: Padded::default(),
            left: Tally::default(),
            stopped: AtomicBool::new(false),
            aborted: AtomicBool::new(false),
            deserted: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            fault: Mutex::default(),
        }
    }

    /// Ends sources and refuses messages of the caller; everything accepted goes on.
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.ring_all();
    }

    /// Ends every thread as soon as it looks at the state.
    pub(super) fn abort(&self) {
        self.aborted.store(true, Ordering::Release);
        self.stop();
    }

    /// Notes a fault, unless there was one before, and ends every thread.
    pub(super) fn fail(&self, fault: PlaneError) {
        lock(&self.fault).get_or_insert(fault);
        self.abort();
    }

    fn ring_all(&self) {
        self.stages.iter().flat_map(|stage| &stage.bells).for_each(|bell| bell.ring());
        self.entrance_bell.ring();
        self.exit_bell.ring();
    }

    /// Whether a message of this number may be in flight now.
    pub(super) fn is_in_window(&self, number: u64) -> bool {
        self.window.is_none_or(|window| number < self.released.0.load(Ordering::Acquire) + window)
            || self.deserted.load(Ordering::Acquire)
    }

    /// Notes that no thread receives any more, so that nothing waits for room in the window.
    pub(super) fn desert(&self) {
        self.deserted.store(true, Ordering::Release);
        self.ring_all();
    }

    /// Notes that the messages below `next` came out in order, which makes room in the window.
    pub(super) fn release(&self, next: u64) {
        self.released.0.store(next, Ordering::Release);
        self.entrance_bell.ring();
        self.stages.iter().filter(|stage| stage.is_source).flat_map(|stage| &stage.bells).for_each(|bell| bell.ring());
    }

    /// Whether no more packets come in; true after an abort, too.
    pub(super) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(super) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::Acquire)
    }

    /// Notes that every thread has ended.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// Returns the first fault, if there was one.
    pub(super) fn fault(&self) -> Option<PlaneError> {
        lock(&self.fault).clone()
    }

    pub(super) fn active(&self, stage: usize) -> usize {
        self.stages[stage].active.load(Ordering::Relaxed)
    }

    pub(super) fn counters(&self) -> PlaneCounters {
        let stage = |stage: &StageState| StageCounters {
            name: stage.name.clone(),
            workers: stage.workers.iter().map(|worker| worker.0.get()).collect(),
        };
        let stages: Vec<StageCounters> = self.stages.iter().map(stage).collect();
        let rings: Vec<_> = self.rings.iter().map(|ring| ring.counters()).collect();
        let pulled = stages.iter().zip(&self.stages).filter(|(_, state)| state.is_source);
        let pulled: u64 = pulled.map(|(stage, _)| stage.sum().taken.packets).sum();
        let mut lost: u64 = stages.iter().map(|stage| stage.sum().lost.packets).sum();
        if self.ended.load(Ordering::Acquire) {
            let main = rings.iter().zip(&self.rings).filter(|(_, state)| state.is_main());
            let left = main.map(|(ring, _)| ring.queued().packets);
            lost += left.sum::<u64>() + self.left.get();
        }
        PlaneCounters {
            accepted: self.accepted.0.get() + pulled,
            dropped: self.dropped.get(),
            delivered: self.delivered.0.get(),
            lost,
            stages,
            rings,
        }
    }
}

/// Handle to a running plane, to watch or steer it, also from its own workers. Clones are cheap.
#[derive(Clone, Debug)]
pub struct Control(pub(super) Arc<Shared>);

impl Control {
    /// Returns all counters.
    pub fn counters(&self) -> PlaneCounters {
        self.0.counters()
    }

    /// Returns the messages queued before a stage, over all its rings.
    ///
    /// It costs a few loads per ring, far less than [`Control::counters`].
    pub fn queued(&self, stage: usize) -> Flux {
        let is_here = |ring: &&Arc<RingState>| matches!(ring.to, RingEnd::Worker { stage: to, .. } if to == stage);
        self.0.rings.iter().filter(is_here).map(|ring| ring.queued()).sum()
    }

    /// Returns the number of workers of a stage, active or not.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn workers(&self, stage: usize) -> usize {
        self.0.stages[stage].workers.len()
    }

    /// Returns the number of workers of a stage that messages are sent to.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn active(&self, stage: usize) -> usize {
        self.0.active(stage)
    }

    /// Sends messages only to the first `workers` workers of a stage; the others block once their rings are empty.
    ///
    /// The number is clamped to at least 1 and at most the stage's workers. Messages of one flow may overtake one
    /// another at the change. A source has no rings, so nothing changes for it.
    ///
    /// # Panics
    /// If there is no such stage.
    pub fn set_active(&self, stage: usize, workers: usize) {
        let stage = &self.0.stages[stage];
        stage.active.store(workers.clamp(1, stage.workers.len()), Ordering::Relaxed);
    }
}

/// Controller of a running plane, called once per period. Closures implement it.
///
/// All workers are started with the plane. Workers that are not active are blocked and cost only the memory of their
/// state, so a controller changes only the number of active ones. [`Plane::control_by`](super::Plane::control_by) calls
/// it by the clock; tests call [`Controller::tick`] themselves.
///
/// For example, this one adds a worker above 100 queued packets, and takes one away after five ticks without any:
///
/// ```
/// use firstmatch_net::plane::{Control, Controller};
///
/// struct ByQueue {
///     stage: usize,
///     empty: u32,
/// }
///
/// impl Controller for ByQueue {
///     fn tick(&mut self, control: &Control) {
///         let (queued, active) = (control.queued(self.stage).packets, control.active(self.stage));
///         self.empty = if queued == 0 { self.empty + 1 } else { 0 };
///         if queued > 100 {
///             control.set_active(self.stage, active + 1);
///         } else if self.empty == 5 {
///             self.empty = 0;
///             control.set_active(self.stage, active - 1);
///         }
///     }
/// }
/// ```
pub trait Controller: Send {
    /// Looks at the plane, and changes the number of active workers if need be.
    fn tick(&mut self, control: &Control);
}

impl<F: FnMut(&Control) + Send> Controller for F {
    fn tick(&mut self, control: &Control) {
        self(control);
    }
}
