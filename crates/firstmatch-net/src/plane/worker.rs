//! Workers: threads of a stage, with the rings that they read and write.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;

use super::counters::{Flux, WorkerTally};
use super::error::PlaneError;
use super::ring::{Envelope, Receiver, Refused, Sender};
use super::state::{Control, Shared};

/// Batch of packets, or another unit that a plane carries.
pub trait Message: Send + 'static {
    /// Returns the number of packets in the message, 0 if it carries none.
    fn packets(&self) -> usize;

    /// Returns the hash of the flow that all packets of the message belong to, or the number of a group of flows.
    ///
    /// A link with [`Dispatch::Flow`] sends messages with equal numbers to the same worker.
    /// [`FlowHash`](super::FlowHash) makes such numbers.
    fn flow(&self) -> u64;
}

/// Work of one worker of a stage. Closures implement it.
pub trait Work<T> {
    /// Works on one message.
    ///
    /// It sends the message on by `out`, or several messages, or none. In a plane in order of arrival it must send
    /// exactly one message for each that it takes, beside messages on lossy links.
    fn work(&mut self, message: T, out: &mut Outputs<T>);

    /// Uses a moment without messages; called once whenever all rings of the worker have become empty.
    ///
    /// For example, work that gathers packets of several messages sends here the packets it has, because more may come
    /// late or never. In a plane in order of arrival there is nothing to gather.
    fn idle(&mut self, out: &mut Outputs<T>) {
        let _ = out;
    }

    /// Returns the number of packets that the work took and has not sent on yet, so that a fault counts them as lost.
    fn kept(&self) -> usize {
        0
    }

    /// Ends the work; called once, after the last message, unless the plane was ended by a fault.
    fn end(&mut self, out: &mut Outputs<T>) {
        let _ = out;
    }
}

impl<T, F: FnMut(T, &mut Outputs<T>)> Work<T> for F {
    fn work(&mut self, message: T, out: &mut Outputs<T>) {
        self(message, out);
    }
}

/// Result of one call of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulled {
    /// Number of packets that came in with this call, maybe 0.
    Packets(usize),
    /// No more packets will come.
    End,
}

/// Manner of choosing the worker of the next stage for a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// [`Message::flow`], modulo the number of workers. Messages of one flow stay in order.
    #[default]
    Flow,
    /// Index of the sending worker, modulo the number of workers: each pair of workers has one ring in use.
    Lane,
    /// Each worker in turn. Messages may overtake one another.
    RoundRobin,
}

/// Place of a worker, passed to its factory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Seat {
    /// Index of the worker in its stage, from 0.
    pub worker: usize,
    /// Number of workers of the stage.
    pub workers: usize,
    /// Handle to the plane.
    pub control: Control,
}

/// Senders of one link, one for each worker at its end.
pub(super) struct Output<T> {
    pub(super) senders: Vec<Sender<T>>,
    /// Index of the stage at the end, `None` for the caller.
    pub(super) to: Option<usize>,
    pub(super) dispatch: Dispatch,
    turn: usize,
}

impl<T: Message> Output<T> {
    pub(super) fn new(senders: Vec<Sender<T>>, to: Option<usize>, dispatch: Dispatch) -> Self {
        Self { senders, to, dispatch, turn: 0 }
    }

    /// Returns the sender for a message.
    pub(super) fn pick(&mut self, message: &T, lane: usize, shared: &Shared) -> &mut Sender<T> {
        let active = self.to.map_or(1, |stage| shared.active(stage));
        let at = match self.dispatch {
            _ if active == 1 => 0,
            Dispatch::Flow => (message.flow() % active as u64) as usize,
            Dispatch::Lane => lane % active,
            Dispatch::RoundRobin => {
                self.turn = self.turn.wrapping_add(1);
                self.turn % active
            }
        };
        &mut self.senders[at]
    }
}

/// Links that a worker sends messages to, numbered in the order in which they were added to its stage.
pub struct Outputs<T> {
    pub(super) links: Vec<Output<T>>,
    pub(super) shared: Arc<Shared>,
    pub(super) stage: usize,
    pub(super) worker: usize,
    /// Number of the message that is being worked on.
    number: u64,
    /// Messages sent on links without loss since the work on the current message began.
    handed_on: Flux,
    /// Number of messages that may be sent on for the current message in a plane in order of arrival.
    allowed: u64,
}

impl<T> std::fmt::Debug for Outputs<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { links, stage, worker, .. } = self;
        f.debug_struct("Outputs").field("links", &links.len()).field("stage", stage).field("worker", worker).finish()
    }
}

impl<T: Message> Outputs<T> {
    pub(super) fn new(links: Vec<Output<T>>, shared: Arc<Shared>, stage: usize, worker: usize) -> Self {
        Self { links, shared, stage, worker, number: 0, handed_on: Flux::default(), allowed: 0 }
    }

    /// Sends a message on the first link of the stage, as [`Outputs::send_to`].
    ///
    /// # Panics
    /// If the stage has no link.
    pub fn send(&mut self, message: T) -> bool {
        self.send_to(0, message)
    }

    /// Sends a message on a link of the stage, and returns whether the ring took it.
    ///
    /// A full ring makes the worker wait, or drops the message if the link is lossy. A message is lost if a fault ended
    /// the plane, or if the caller no longer receives. Both are counted.
    ///
    /// # Panics
    /// If the stage has no link of this number.
    pub fn send_to(&mut self, link: usize, message: T) -> bool {
        let Self { links, shared, stage, worker, number, handed_on, allowed } = self;
        let count = links.len();
        let Some(output) = links.get_mut(link) else { panic!("there is no link {link}, the stage has {count}") };
        let state = &shared.stages[*stage];
        let tally = &state.workers[*worker].0;
        let packets = message.packets() as u64;
        let sender = output.pick(&message, *worker, shared);
        let is_lossy = sender.state.is_lossy;
        if !is_lossy && shared.window.is_some() && handed_on.messages >= *allowed {
            // Two messages of one number would not fit into the order.
            *handed_on = *handed_on + Flux { messages: 1, packets };
            tally.lost.add(packets);
            return false;
        }
        if state.is_source && !is_lossy {
            // A message outside the window would not fit into the order either, so it waits, unless the plane was
            // aborted.
            state.bells[*worker].wait(shared.spin, || shared.is_in_window(*number) || shared.is_aborted());
        }
        let mut envelope = Envelope { number: *number, packets, message };
        let mut waited = false;
        loop {
            let refused = match sender.push(envelope, waited) {
                Ok(()) => {
                    tally.sent.add(packets);
                    if !is_lossy {
                        *handed_on = *handed_on + Flux { messages: 1, packets };
                    }
                    return true;
                }
                Err(refused) => refused,
            };
            match refused {
                Refused::Full(back) if !is_lossy && !shared.is_aborted() => envelope = back,
                _ if is_lossy => {
                    sender.count_dropped(packets);
                    return false;
                }
                Refused::Full(_) | Refused::Abandoned(_) => {
                    // The worker has done its part, so the message counts as handed on.
                    *handed_on = *handed_on + Flux { messages: 1, packets };
                    tally.lost.add(packets);
                    return false;
                }
            }
            if !waited {
                sender.count_wait();
                waited = true;
            }
            if state.bells[*worker].wait(shared.spin, || sender.is_ready(packets) || shared.is_aborted()) {
                tally.blocks.add(1);
            }
        }
    }

    /// Numbers the message that a source sends next in a plane in order of arrival; in others it does nothing.
    ///
    /// The numbers of all workers together must be 0, 1, 2 and so on, and the numbers of each worker must rise. The
    /// send waits until the number is in the window.
    pub fn number(&mut self, number: u64) {
        if self.check_order() {
            self.begin(number, 1);
        }
    }

    /// Returns the number of links.
    pub fn links(&self) -> usize {
        self.links.len()
    }

    fn tally(&self) -> &WorkerTally {
        &self.shared.stages[self.stage].workers[self.worker].0
    }

    /// Counts as lost the packets of a message in hand that were not handed on.
    fn lose_rest(&self, packets: u64) {
        let rest = packets.saturating_sub(self.handed_on.packets);
        if rest > 0 {
            self.tally().lost.add(rest);
        }
    }

    /// Prepares for the work on a message, after which `allowed` messages should be handed on.
    fn begin(&mut self, number: u64, allowed: u64) {
        (self.number, self.allowed, self.handed_on) = (number, allowed, Flux::default());
    }

    /// Reports a worker of a plane in order of arrival that handed on another number of messages than it should.
    fn check_order(&self) -> bool {
        let handed_on = self.handed_on.messages;
        if self.shared.window.is_none() || handed_on == self.allowed {
            return true;
        }
        self.shared.fail(PlaneError::order(&self.shared.stages[self.stage].name, self.worker, handed_on));
        false
    }
}

/// Ring that a worker reads.
pub(super) struct Input<T> {
    pub(super) receiver: Receiver<T>,
    /// Whether the worker ends only after the sender of this ring; rings from later stages are not awaited.
    pub(super) is_awaited: bool,
}

/// Function that makes the state of a worker, on the worker's thread.
pub(super) enum Factory<T> {
    Stage(Arc<StageFactory<T>>),
    Source(Arc<SourceFactory<T>>),
}

pub(super) type StageFactory<T> = dyn Fn(&Seat) -> Box<dyn Work<T>> + Send + Sync;
pub(super) type SourceFactory<T> = dyn Fn(&Seat) -> Box<dyn FnMut(&mut Outputs<T>) -> Pulled> + Send + Sync;

impl<T> Clone for Factory<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Stage(factory) => Self::Stage(Arc::clone(factory)),
            Self::Source(factory) => Self::Source(Arc::clone(factory)),
        }
    }
}

/// One worker, ready to run on a thread of its own.
pub(super) struct Job<T> {
    pub(super) factory: Factory<T>,
    pub(super) inputs: Vec<Input<T>>,
    pub(super) outputs: Outputs<T>,
    /// Maximum number of messages taken from a ring at once.
    pub(super) chunk: usize,
}

impl<T: Message> Job<T> {
    /// Runs the worker to its end. `ready` is called once the worker's state is made. A panic ends the whole plane.
    pub(super) fn run(mut self, ready: impl FnOnce()) {
        let mut in_hand = None;
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_inner(ready, &mut in_hand)));
        if let Err(payload) = ran {
            match (in_hand, &self.factory) {
                (Some(packets), _) => self.outputs.lose_rest(packets),
                // The call has not returned the number of packets that it pulled.
                (None, Factory::Source(_)) => {
                    self.outputs.tally().taken.add_packets(self.outputs.handed_on.packets);
                }
                (None, Factory::Stage(_)) => {}
            }
            let stage = &self.outputs.shared.stages[self.outputs.stage].name;
            self.outputs.shared.fail(PlaneError::panic(stage, self.outputs.worker, &*payload));
        }
        // The rings are closed only now, so that no other thread takes a fault for a regular end.
    }

    fn run_inner(&mut self, ready: impl FnOnce(), in_hand: &mut Option<u64>) {
        let shared = Arc::clone(&self.outputs.shared);
        let seat = Seat {
            worker: self.outputs.worker,
            workers: shared.stages[self.outputs.stage].workers.len(),
            control: Control(Arc::clone(&shared)),
        };
        match self.factory.clone() {
            Factory::Stage(factory) => {
                let mut work = factory(&seat);
                ready();
                if self.take_all(&mut *work, &shared, in_hand) {
                    self.outputs.begin(0, 0);
                    *in_hand = Some(work.kept() as u64);
                    work.end(&mut self.outputs);
                    *in_hand = None;
                    self.outputs.check_order();
                } else {
                    self.outputs.begin(0, 0);
                    self.outputs.lose_rest(work.kept() as u64);
                }
            }
            Factory::Source(factory) => {
                let mut pull = factory(&seat);
                ready();
                while !shared.is_stopped() {
                    self.outputs.begin(0, 0);
                    let pulled = pull(&mut self.outputs);
                    if let Pulled::Packets(packets @ 1..) = pulled {
                        self.outputs.tally().taken.add(packets as u64);
                    }
                    match pulled {
                        _ if !self.outputs.check_order() => break,
                        Pulled::End => break,
                        Pulled::Packets(0) => thread::yield_now(),
                        Pulled::Packets(_) => {}
                    }
                }
            }
        }
    }

    /// Works on messages until none will come; returns false after a fault.
    fn take_all(&mut self, work: &mut dyn Work<T>, shared: &Shared, in_hand: &mut Option<u64>) -> bool {
        let Self { inputs, outputs, chunk, .. } = self;
        let mut taken = VecDeque::with_capacity(*chunk);
        let mut was_idle = true;
        loop {
            let mut is_idle = true;
            for input in &mut *inputs {
                input.receiver.pull(*chunk, &mut taken);
                let is_main = input.receiver.state.is_main();
                for envelope in taken.drain(..) {
                    if shared.is_aborted() {
                        return false;
                    }
                    is_idle = false;
                    let Envelope { number, packets, message } = envelope;
                    input.receiver.count_received(packets);
                    outputs.tally().taken.add(packets);
                    outputs.begin(number, is_main.into());
                    // Messages on lossy links count by their ring.
                    *in_hand = Some(work.kept() as u64 + if is_main { packets } else { 0 });
                    work.work(message, outputs);
                    *in_hand = None;
                    if !outputs.check_order() {
                        outputs.lose_rest(if is_main { packets } else { 0 });
                        return false;
                    }
                }
            }
            if is_idle && !was_idle && !shared.is_aborted() {
                outputs.begin(0, 0);
                *in_hand = Some(work.kept() as u64);
                work.idle(outputs);
                *in_hand = None;
                if !outputs.check_order() {
                    return false;
                }
                // Messages may have come meanwhile.
                was_idle = true;
                continue;
            }
            was_idle = is_idle;
            let ended =
                |inputs: &[Input<T>]| inputs.iter().all(|input| !input.is_awaited || input.receiver.is_finished());
            if is_idle && ended(inputs) {
                return !shared.is_aborted();
            }
            if is_idle {
                let bell = &shared.stages[outputs.stage].bells[outputs.worker];
                let is_due =
                    || inputs.iter().any(|input| !input.receiver.is_empty()) || ended(inputs) || shared.is_aborted();
                if bell.wait(shared.spin, is_due) {
                    outputs.tally().blocks.add(1);
                }
                if shared.is_aborted() {
                    return false;
                }
            }
        }
    }
}
