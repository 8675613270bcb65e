//! Stages and links of a plane before it runs.

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use super::affinity::{Pinning, pin};
use super::bell::{Bell, Spin, lock};
use super::counters::RingEnd;
use super::ends::{Entrance, Exit};
use super::error::{Notice, PlaneError};
use super::order::ResultOrder;
use super::ring::{PacketBound, Receiver, RingPlan, Sender, ring};
use super::run::Plane;
use super::state::{Control, Shared, StageState};
use super::worker::{Dispatch, Factory, Input, Job, Message, Output, Outputs, Pulled, Seat, Work};

/// Maximum number of workers of one stage.
pub const MOST_WORKERS: usize = 256;
/// Maximum number of messages that a ring may have room for.
pub const MOST_CAPACITY: usize = 1 << 20;

/// Stage of a builder. Its index counts stages in the order in which they were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StageId(usize);

impl StageId {
    /// Returns the index of the stage, as counters and [`Control`] have it.
    pub fn index(self) -> usize {
        self.0
    }
}

/// Properties of the rings between two stages, one ring for each pair of workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    capacity: usize,
    most_packets: Option<u64>,
    /// Whether the rings of active workers share the packets.
    is_shared: bool,
    dispatch: Dispatch,
    is_lossy: bool,
}

impl Link {
    /// Returns a link with [`Dispatch::Flow`] and 64 messages per ring; a full ring makes the sender wait.
    pub fn new() -> Self {
        Self { capacity: 64, most_packets: None, is_shared: false, dispatch: Dispatch::Flow, is_lossy: false }
    }

    /// Returns a link like [`Link::new`], but a full ring drops messages and counts them.
    ///
    /// Such a link may lead to any stage, even to an earlier one, which does not wait for the end of the later one.
    pub fn lossy() -> Self {
        Self { is_lossy: true, ..Self::new() }
    }

    /// Sets the number of messages that each ring holds.
    #[must_use]
    pub fn capacity(self, messages: usize) -> Self {
        Self { capacity: messages, ..self }
    }

    /// Sets the maximum number of packets queued in each ring, beside the number of messages. An empty ring takes any
    /// message.
    ///
    /// Messages that a worker has taken out but not begun to work on count as queued, so the bound holds for any
    /// [`PlaneBuilder::chunk`]. For example, to bound the packets between 2 workers and a stage of 4 to 1,000, set 125.
    #[must_use]
    pub fn most_packets(self, packets: u64) -> Self {
        Self { most_packets: Some(packets), is_shared: false, ..self }
    }

    /// Sets the maximum number of packets queued in all rings of the link together, beside the number of messages of
    /// each.
    ///
    /// The rings between active workers share the packets equally; [`Control::set_active`] divides them anew. For
    /// example, of 1,000 packets a single ring gets all while each stage has one active worker. With two workers on
    /// either side, each of the four rings gets 250. Rings of workers that are no longer active may still hold packets
    /// then.
    #[must_use]
    pub fn packets_in_all(self, packets: u64) -> Self {
        Self { most_packets: Some(packets), is_shared: true, ..self }
    }

    /// Sets how the worker that gets a message is chosen.
    #[must_use]
    pub fn dispatch(self, dispatch: Dispatch) -> Self {
        Self { dispatch, ..self }
    }
}

impl Default for Link {
    fn default() -> Self {
        Self::new()
    }
}

struct StagePlan<T> {
    name: String,
    workers: usize,
    factory: Factory<T>,
}

/// Link of a builder; the caller is `None`.
#[derive(Clone, Copy)]
struct LinkPlan {
    from: Option<usize>,
    to: Option<usize>,
    link: Link,
}

/// Builder of a plane.
///
/// ```
/// use firstmatch_net::plane::{Link, Message, Outputs, PlaneBuilder};
///
/// struct Numbers(Vec<u64>);
///
/// impl Message for Numbers {
///     fn packets(&self) -> usize {
///         self.0.len()
///     }
///     fn flow(&self) -> u64 {
///         self.0[0] // all numbers of a message are of one flow
///     }
/// }
///
/// let mut builder = PlaneBuilder::new();
/// let double = builder.stage("double", 2, |_seat| {
///     |mut numbers: Numbers, out: &mut Outputs<Numbers>| {
///         numbers.0.iter_mut().for_each(|number| *number *= 2);
///         out.send(numbers);
///     }
/// });
/// builder.enter(double, Link::new().capacity(8)).leave(double, Link::new());
/// let plane = builder.in_order_of_arrival(16).start()?;
/// for number in 0..10 {
///     plane.send(Numbers(vec![number])).expect("the plane runs");
/// }
/// plane.stop();
/// let doubled: Vec<u64> = std::iter::from_fn(|| plane.recv()).flat_map(|numbers| numbers.0).collect();
/// assert_eq!(doubled, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18]);
/// let counters = plane.join()?;
/// assert_eq!((counters.accepted, counters.delivered, counters.lost), (10, 10, 0));
/// # Ok::<(), firstmatch_net::plane::PlaneError>(())
/// ```
#[must_use]
pub struct PlaneBuilder<T> {
    stages: Vec<StagePlan<T>>,
    links: Vec<LinkPlan>,
    window: Option<u64>,
    pinning: Pinning,
    chunk: usize,
}

impl<T> fmt::Debug for PlaneBuilder<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stages: Vec<_> = self.stages.iter().map(|stage| (&stage.name, stage.workers)).collect();
        f.debug_struct("PlaneBuilder").field("stages", &stages).field("links", &self.links.len()).finish()
    }
}

impl<T: Message> Default for PlaneBuilder<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Message> PlaneBuilder<T> {
    /// Returns a builder without stages.
    pub fn new() -> Self {
        Self { stages: Vec::new(), links: Vec::new(), window: None, pinning: Pinning::Free, chunk: 32 }
    }

    /// Adds a stage of 1 to [`MOST_WORKERS`] workers that take messages from rings.
    ///
    /// `factory` makes the work of each worker on the worker's own thread, so that the work need not be `Send`.
    pub fn stage<W: Work<T> + 'static>(
        &mut self,
        name: &str,
        workers: usize,
        factory: impl Fn(&Seat) -> W + Send + Sync + 'static,
    ) -> StageId {
        self.add(name, workers, Factory::Stage(Arc::new(move |seat| Box::new(factory(seat)))))
    }

    /// Adds a stage of 1 to [`MOST_WORKERS`] workers that bring packets in by themselves.
    ///
    /// A worker is called until it returns [`Pulled::End`] or the plane is stopped. A source that waits for packets
    /// must return within 50 ms, with 0 packets if need be, so that a stop does not take longer.
    pub fn source<P: FnMut(&mut Outputs<T>) -> Pulled + 'static>(
        &mut self,
        name: &str,
        workers: usize,
        factory: impl Fn(&Seat) -> P + Send + Sync + 'static,
    ) -> StageId {
        self.add(name, workers, Factory::Source(Arc::new(move |seat| Box::new(factory(seat)))))
    }

    fn add(&mut self, name: &str, workers: usize, factory: Factory<T>) -> StageId {
        self.stages.push(StagePlan { name: name.to_owned(), workers, factory });
        StageId(self.stages.len() - 1)
    }

    /// Links two stages. The workers of `from` send to it by the next number of [`Outputs::send_to`].
    ///
    /// A link that is not lossy must lead to a later stage, so that full rings never wait for each other in a circle.
    pub fn link(&mut self, from: StageId, to: StageId, link: Link) -> &mut Self {
        self.links.push(LinkPlan { from: Some(from.0), to: Some(to.0), link });
        self
    }

    /// Lets the caller send messages to a stage.
    pub fn enter(&mut self, to: StageId, link: Link) -> &mut Self {
        self.links.push(LinkPlan { from: None, to: Some(to.0), link });
        self
    }

    /// Lets a stage send messages to the caller; several stages may do so. It counts as a link of the stage.
    pub fn leave(&mut self, from: StageId, link: Link) -> &mut Self {
        self.links.push(LinkPlan { from: Some(from.0), to: None, link });
        self
    }

    /// Delivers messages in order of arrival, with at most `window` messages between sending and receiving.
    ///
    /// Every stage must then send on exactly one message for each that it takes; anything else is a fault. The window
    /// bounds the memory for messages that overtook others. Once it is full, the plane is full. Messages of the caller
    /// are numbered as they are sent; a source numbers its own by [`Outputs::number`].
    pub fn in_order_of_arrival(&mut self, window: usize) -> &mut Self {
        self.window = Some(window as u64);
        self
    }

    /// Sets the cores that workers run on.
    pub fn pin(&mut self, pinning: Pinning) -> &mut Self {
        self.pinning = pinning;
        self
    }

    /// Sets the maximum number of messages that a worker takes from a ring at once; by default 32.
    pub fn chunk(&mut self, messages: usize) -> &mut Self {
        self.chunk = messages;
        self
    }

    /// Returns the order in which messages will come out.
    pub fn order(&self) -> ResultOrder {
        if self.window.is_some() {
            return ResultOrder::Arrival;
        }
        let main = || self.links.iter().filter(|plan| !plan.link.is_lossy || plan.from.is_none() || plan.to.is_none());
        let (mut is_single, mut is_share) = (true, false);
        for (stage, plan) in self.stages.iter().enumerate() {
            let (ins, outs) = (
                main().filter(|link| link.to == Some(stage)).count(),
                main().filter(|link| link.from == Some(stage)).count(),
            );
            if ins > 1 || outs > 1 {
                return ResultOrder::NotKept { reason: "messages take several ways" };
            }
            is_single &= plan.workers == 1;
            is_share |= matches!(plan.factory, Factory::Source(_)) && plan.workers > 1;
        }
        let workers = |stage: Option<usize>| stage.and_then(|at| self.stages.get(at)).map_or(1, |stage| stage.workers);
        if main().any(|plan| plan.link.dispatch == Dispatch::RoundRobin && workers(plan.to) > 1) {
            return ResultOrder::NotKept { reason: "workers get messages in turn" };
        }
        match (is_single, is_share) {
            (true, _) => ResultOrder::Arrival,
            (false, true) => ResultOrder::Share,
            (false, false) => ResultOrder::Flow,
        }
    }

    /// Starts all threads and waits until each worker has made its state.
    ///
    /// # Errors
    /// If stages and links cannot work, the system refuses a thread, or a factory panics.
    pub fn start(&self) -> Result<Plane<T>, PlaneError> {
        self.check()?;
        let order = self.order();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let workers: usize = self.stages.iter().map(|stage| stage.workers).sum();
        let is_called = self.links.iter().any(|plan| plan.from.is_none() || plan.to.is_none());
        let threads = workers + usize::from(is_called);
        let mut notices = Vec::new();
        if threads > cores {
            notices.push(Notice::FewCores { threads, cores });
        }
        let pins = self.pinning.cores().unwrap_or_else(|reason| {
            notices.push(Notice::UnknownCores { reason });
            Vec::new()
        });
        if (1..workers).contains(&pins.len()) {
            notices.push(Notice::SharedCores { workers, cores: pins.len() });
        }
        let Wired { shared, mut inputs, mut outputs, entrance, exit } = self.wire(Spin::of(threads, cores));
        let mut plane = Plane {
            control: Control(Arc::clone(&shared)),
            entrance: Mutex::new(entrance.map(Entrance::new)),
            exit: Mutex::new((!exit.is_empty()).then(|| Exit::new(exit, self.chunk))),
            threads: Vec::new(),
            controllers: Vec::new(),
            notices,
            order,
        };
        let (ready, all_ready) = mpsc::channel();
        let places =
            (0..self.stages.len()).flat_map(|stage| (0..self.stages[stage].workers).map(move |at| (stage, at)));
        let mut jobs = Vec::new();
        for (place, (stage, worker)) in places.enumerate() {
            let StagePlan { name, factory, .. } = &self.stages[stage];
            let links = std::mem::take(&mut outputs[stage][worker]);
            let job = Job {
                factory: factory.clone(),
                inputs: std::mem::take(&mut inputs[stage][worker]),
                outputs: Outputs::new(links, Arc::clone(&shared), stage, worker),
                chunk: self.chunk,
            };
            let core = (!pins.is_empty()).then(|| pins[place % pins.len()]);
            jobs.push((name, worker, core, job));
        }
        for (name, worker, core, job) in jobs {
            let ready = ready.clone();
            let (builder, stage) = (thread::Builder::new().name(format!("{name}.{worker}")), name.clone());
            let spawned = builder.spawn(move || {
                let pinned = core.map_or(Ok(()), |core| pin(core).map_err(|reason| (core, reason)));
                let notice = pinned.err().map(|(core, reason)| Notice::NotPinned { stage, worker, core, reason });
                // The receiver is gone only if another worker has failed.
                job.run(move || drop(ready.send(notice)));
            });
            match spawned {
                Ok(thread) => plane.threads.push(thread),
                Err(error) => shared.fail(PlaneError::thread(name, worker, error)),
            }
        }
        drop(ready);
        let all: Vec<Option<Notice>> = all_ready.iter().collect();
        if all.len() < workers {
            // A worker that failed before it was ready has told the others.
            *lock(&plane.entrance) = None;
            plane.end()?;
        }
        plane.notices.extend(all.into_iter().flatten());
        Ok(plane)
    }

    /// Builds rings and shared state.
    fn wire(&self, spin: Spin) -> Wired<T> {
        let is_source = |factory: &Factory<T>| matches!(factory, Factory::Source(_));
        let state =
            |stage: &StagePlan<T>| StageState::new(stage.name.clone(), is_source(&stage.factory), stage.workers);
        let stages: Vec<StageState> = self.stages.iter().map(state).collect();
        let bells: [Arc<Bell>; 2] = Default::default();
        let mut inputs: Vec<Vec<Vec<Input<T>>>> = stages.iter().map(|stage| per_worker(stage.bells.len())).collect();
        let mut outputs: Vec<Vec<Vec<Output<T>>>> = stages.iter().map(|stage| per_worker(stage.bells.len())).collect();
        let (mut entrance, mut exit, mut rings) = (None, Vec::new(), Vec::new());
        for &LinkPlan { from, to, link } in &self.links {
            let ends = |stage: Option<usize>| 0..stage.map_or(1, |stage| stages[stage].bells.len());
            // All workers of a source send, whatever number of workers is set active.
            let sharers = |stage: usize| match &stages[stage] {
                StageState { is_source: true, bells, .. } => Arc::new(AtomicUsize::new(bells.len())),
                StageState { active, .. } => Arc::clone(active),
            };
            let sharers = [from, to].into_iter().flatten().map(sharers);
            let sharers = if link.is_shared { sharers.collect() } else { Vec::new() };
            let bound = link.most_packets.map(|packets| PacketBound { packets, sharers });
            for sender in ends(from) {
                let mut senders: Vec<Sender<T>> = Vec::new();
                for receiver in ends(to) {
                    let end = |stage: Option<usize>, worker, bell: &Arc<Bell>| match stage {
                        Some(stage) => (RingEnd::Worker { stage, worker }, Arc::clone(&stages[stage].bells[worker])),
                        None => (RingEnd::Caller, Arc::clone(bell)),
                    };
                    let (from_end, sender_bell) = end(from, sender, &bells[0]);
                    let (to_end, receiver_bell) = end(to, receiver, &bells[1]);
                    let Link { capacity, is_lossy, .. } = link;
                    let plan = RingPlan {
                        from: from_end,
                        to: to_end,
                        is_lossy,
                        capacity,
                        most_packets: bound.clone(),
                        sender_bell,
                        receiver_bell,
                    };
                    let (sending, receiving) = ring(plan);
                    rings.push(Arc::clone(&sending.state));
                    senders.push(sending);
                    match to {
                        Some(to) => {
                            let is_awaited = from.is_none_or(|from| from < to);
                            inputs[to][receiver].push(Input { receiver: receiving, is_awaited });
                        }
                        None => exit.push(receiving),
                    }
                }
                let output = Output::new(senders, to, link.dispatch);
                match from {
                    Some(from) => outputs[from][sender].push(output),
                    None => entrance = Some(output),
                }
            }
        }
        let shared = Arc::new(Shared::new(stages, rings, spin, bells, self.window));
        Wired { shared, inputs, outputs, entrance, exit }
    }

    /// Refuses stages and links that cannot work.
    fn check(&self) -> Result<(), PlaneError> {
        let fault = |text: String| Err(PlaneError::plan(text));
        if self.stages.is_empty() {
            return fault("a plane needs a stage".to_owned());
        }
        if self.chunk == 0 {
            return fault("a worker takes at least one message at once".to_owned());
        }
        for stage in &self.stages {
            if !(1..=MOST_WORKERS).contains(&stage.workers) {
                let StagePlan { name, workers, .. } = stage;
                return fault(format!("stage {name} has {workers} workers; expected 1 to {MOST_WORKERS}"));
            }
        }
        let count = self.stages.len();
        for &LinkPlan { from, to, link } in &self.links {
            let name = |at: Option<usize>| match at {
                Some(at) => self.stages.get(at).map_or("(unknown)", |stage| stage.name.as_str()),
                None => "the caller",
            };
            let named = format!("the link from {} to {}", name(from), name(to));
            if from.max(to).is_some_and(|last| last >= count) {
                return fault(format!("{named} is of a stage of another builder"));
            }
            if !(1..=MOST_CAPACITY).contains(&link.capacity) {
                return fault(format!("{named} holds {} messages; expected 1 to {MOST_CAPACITY}", link.capacity));
            }
            if link.most_packets == Some(0) {
                return fault(format!("{named} holds 0 packets; expected at least 1"));
            }
            if to.is_some_and(|to| matches!(self.stages[to].factory, Factory::Source(_))) {
                return fault(format!("{named} leads to a source, which takes no messages"));
            }
            if !link.is_lossy && from.zip(to).is_some_and(|(from, to)| to <= from) {
                return fault(format!("{named} leads back, so it has to be lossy"));
            }
            if link.is_lossy && to.is_none() {
                return fault(format!("{named} is lossy, but whatever leaves has to come out"));
            }
        }
        for (at, stage) in self.stages.iter().enumerate() {
            let is_fed = |plan: &LinkPlan| plan.to == Some(at) && plan.from.is_none_or(|from| from < at);
            if matches!(stage.factory, Factory::Stage(_)) && !self.links.iter().any(is_fed) {
                return fault(format!("nothing leads to stage {}", stage.name));
            }
        }
        let entrances = self.links.iter().filter(|plan| plan.from.is_none()).count();
        if entrances > 1 {
            return fault(format!("a plane has one entrance, not {entrances}; let the caller's stage send on"));
        }
        if let Some(window) = self.window {
            let has_source = self.stages.iter().any(|stage| matches!(stage.factory, Factory::Source(_)));
            let has_entrance = entrances > 0;
            if window == 0 || has_entrance == has_source || self.links.iter().all(|plan| plan.to.is_some()) {
                return fault(
                    "order of arrival needs an entrance or sources, not both, an exit and a window of at least one message"
                        .to_owned(),
                );
            }
        }
        Ok(())
    }
}

/// Rings of a plane, by stage and worker.
struct Wired<T> {
    shared: Arc<Shared>,
    inputs: Vec<Vec<Vec<Input<T>>>>,
    outputs: Vec<Vec<Vec<Output<T>>>>,
    entrance: Option<Output<T>>,
    exit: Vec<Receiver<T>>,
}

fn per_worker<X>(workers: usize) -> Vec<Vec<X>> {
    (0..workers).map(|_| Vec::new()).collect()
}
