//! Threads and rings of a simulation.

mod cores;

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;

use super::calendar::Calendar;
use super::{Feed, Gathered, Link, Model, Outcome, Spread};

/// Longest time between two looks of a paced source, in nanoseconds.
const GLANCE: f64 = 5e3;
/// Share of the time that warms up.
const WARM: f64 = 0.2;

#[derive(Clone, Copy, Debug)]
struct Message {
    packets: f64,
    /// Number by which the receiver is chosen.
    number: u64,
    /// Core that it was sent on.
    core: usize,
}

#[derive(Debug)]
struct Ring {
    messages: VecDeque<Message>,
    capacity: usize,
    is_lossy: bool,
    sender: usize,
    receiver: usize,
    /// Core that messages were taken on last.
    taken_on: Option<usize>,
}

/// Rings of a link that one worker sends to, one for each worker at its end.
#[derive(Debug)]
struct Output {
    rings: Vec<usize>,
    share: f64,
    /// Stage at the end.
    to: usize,
    is_gathered: bool,
    /// Packets gathered for the next message, and number of messages that were gathered.
    kept: f64,
    sent: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Ready,
    /// On a core, with work.
    Running(usize),
    /// On a core, looking for a change.
    Spinning(usize),
    Blocked,
    /// Until a time, or until a wake-up has come through.
    Away,
}

/// Condition that a thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Input,
    Room(usize),
}

#[derive(Debug)]
struct Thread {
    stage: usize,
    /// Index of the worker in its stage.
    place: usize,
    inputs: Vec<usize>,
    outputs: Vec<Output>,
    state: State,
    /// Core that it runs on or ran on last, and the time at which it left it.
    core: usize,
    left: f64,
    /// Number of the last event of the thread; earlier ones are void.
    epoch: u64,
    /// Rest of its work, in nanoseconds.
    rest: f64,
    awaited: Option<Awaited>,
    looks: u32,
    /// Whether it was woken, so that it blocks again without looking further.
    was_woken: bool,
    /// Input to take from next, and inputs in a row that were empty.
    next_input: usize,
    empty: usize,
    taken: VecDeque<Message>,
    /// Message that it works on.
    in_hand: Option<Message>,
    /// Messages to be sent, with their rings.
    outbox: VecDeque<(usize, Message)>,
    /// Whether sending the first of these has been paid for.
    is_paid: bool,
    /// Number of its next message, and the time at which it is due, for a source.
    next: u64,
    due: f64,
    /// Cost of wake-ups that it has to pay.
    owed: f64,
    at_work: f64,
}

impl Thread {
    /// Notes that what the thread waited for has come, so that its next wait begins with looking.
    fn has_moved(&mut self) {
        (self.looks, self.was_woken) = (0, false);
    }
}

/// Next thing that a thread does.
enum Next {
    Work(f64),
    Wait(Awaited),
    /// Nothing until a time.
    Until(f64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A thread's time on a core ends: its work is done, its quantum is over, or it has looked long enough.
    Over { thread: usize, epoch: u64 },
    /// A thread becomes ready.
    Ready { thread: usize, epoch: u64 },
    /// Workers may move between stages.
    Assign,
}

#[derive(Debug, Default, Clone)]
struct Core {
    thread: Option<usize>,
    /// Threads that are ready to run on it.
    ready: VecDeque<usize>,
    /// Thread that was here last.
    last: Option<usize>,
    /// Start of the work that is under way.
    since: f64,
    /// End of the quantum.
    until: f64,
    busy: f64,
}

pub(super) struct Simulation<'a> {
    model: &'a Model,
    /// Whether each thread has a core of its own.
    spins: bool,
    now: f64,
    calendar: Calendar<Event>,
    threads: Vec<Thread>,
    rings: Vec<Ring>,
    cores: Vec<Core>,
    random: Pcg64,
    offered: f64,
    dropped: f64,
    done: f64,
    blocks: u64,
    last_drop: f64,
    active: Vec<usize>,
}

/// Simulates a model for `nanos` nanoseconds, of which the first fifth warms up.
///
/// # Panics
/// If a link names a stage that the model does not have, or the model has no core.
pub(crate) fn simulate(model: &Model, nanos: f64) -> Outcome {
    let mut simulation = Simulation::new(model);
    simulation.run(nanos * WARM);
    let before = simulation.counts();
    simulation.run(nanos);
    let after = simulation.counts();
    let time = nanos * (1.0 - WARM);
    let at_work = model.stages.iter().enumerate().map(|(stage, plan)| {
        let time = time * plan.workers as f64;
        (after.at_work[stage] - before.at_work[stage]) / time
    });
    Outcome {
        mpps: (after.done - before.done) / time * 1e3,
        offered: after.offered - before.offered,
        dropped: after.dropped - before.dropped,
        busy: (after.busy - before.busy) / time / model.cores as f64,
        at_work: at_work.collect(),
        blocks: after.blocks - before.blocks,
        last_drop: simulation.last_drop,
        active: simulation.active,
    }
}

/// Counts since the start: packets, nanoseconds and blocked threads.
#[derive(Debug)]
pub(super) struct Counts {
    pub(super) offered: f64,
    pub(super) dropped: f64,
    pub(super) done: f64,
    pub(super) busy: f64,
    pub(super) at_work: Vec<f64>,
    pub(super) blocks: u64,
}

impl<'a> Simulation<'a> {
    pub(super) fn new(model: &'a Model) -> Self {
        let thread = |stage: usize, place: usize| Thread {
            stage,
            place,
            inputs: Vec::new(),
            outputs: Vec::new(),
            state: State::Away,
            core: 0,
            left: f64::NEG_INFINITY,
            epoch: 0,
            rest: 0.0,
            awaited: None,
            looks: 0,
            was_woken: false,
            next_input: 0,
            empty: 0,
            taken: VecDeque::new(),
            in_hand: None,
            outbox: VecDeque::new(),
            is_paid: false,
            next: 0,
            due: 0.0,
            owed: 0.0,
            at_work: 0.0,
        };
        let stages = model.stages.iter().enumerate();
        let mut threads: Vec<Thread> =
            stages.flat_map(|(stage, plan)| (0..plan.workers).map(move |place| thread(stage, place))).collect();
        let of = |stage: usize| {
            let first: usize = model.stages[..stage].iter().map(|plan| plan.workers).sum();
            first..first + model.stages[stage].workers
        };
        let mut rings = Vec::new();
        for (at, link) in model.links.iter().enumerate() {
            let is_gathered = model.gathered.as_ref().is_some_and(|gathered| gathered.link == at);
            for sender in of(link.from) {
                let mut own = Vec::new();
                for receiver in of(link.to) {
                    let (capacity, is_lossy) = (link.capacity, link.is_lossy);
                    threads[receiver].inputs.push(rings.len());
                    own.push(rings.len());
                    let messages = VecDeque::new();
                    rings.push(Ring { messages, capacity, is_lossy, sender, receiver, taken_on: None });
                }
                let (rings, share, to) = (own, link.share, link.to);
                threads[sender].outputs.push(Output { rings, share, to, is_gathered, kept: 0.0, sent: 0 });
            }
        }
        // Each core gets as many threads as any other, as far as possible.
        threads.iter_mut().enumerate().for_each(|(at, thread)| thread.core = at % model.cores);
        let mut calendar = Calendar::new();
        (0..threads.len()).for_each(|thread| calendar.add(0.0, Event::Ready { thread, epoch: 0 }));
        calendar.add(0.0, Event::Assign);
        Self {
            model,
            active: model.stages.iter().map(|stage| stage.workers).collect(),
            last_drop: 0.0,
            spins: threads.len() <= model.cores,
            now: 0.0,
            calendar,
            threads,
            rings,
            cores: vec![Core::default(); model.cores],
            random: Pcg64::seed_from_u64(model.seed),
            offered: 0.0,
            dropped: 0.0,
            done: 0.0,
            blocks: 0,
        }
    }

    pub(super) fn counts(&self) -> Counts {
        let mut at_work = vec![0.0; self.model.stages.len()];
        self.threads.iter().for_each(|thread| at_work[thread.stage] += thread.at_work);
        let busy = self.cores.iter().map(|core| core.busy).sum();
        let Self { offered, dropped, done, blocks, .. } = *self;
        Counts { offered, dropped, done, busy, at_work, blocks }
    }

    /// Handles all events up to a time.
    pub(super) fn run(&mut self, end: f64) {
        while let Some((time, event)) = self.calendar.next() {
            if time > end {
                self.calendar.add(time, event);
                break;
            }
            self.now = time;
            match event {
                Event::Over { thread, epoch } if epoch == self.threads[thread].epoch => self.over(thread),
                Event::Ready { thread, epoch } if epoch == self.threads[thread].epoch => {
                    let own = self.threads[thread].core;
                    let is_free = |core: usize| self.cores[core].thread.is_none() && self.cores[core].ready.is_empty();
                    let free = (0..self.cores.len()).find(|&core| is_free(core)).filter(|_| !is_free(own));
                    self.queue(thread, free.unwrap_or(own));
                }
                Event::Assign => self.assign(),
                Event::Over { .. } | Event::Ready { .. } => {}
            }
            self.fill_cores();
        }
    }

    /// Returns the packets that came in and have neither left nor been dropped.
    #[cfg(test)]
    pub(super) fn on_way(&self) -> f64 {
        let in_rings = self.rings.iter().flat_map(|ring| &ring.messages);
        let held = |thread: &Thread| -> f64 {
            let all =
                thread.taken.iter().chain(&thread.in_hand).chain(thread.outbox.iter().map(|(_, message)| message));
            let kept = thread.outputs.iter().map(|output| output.kept);
            all.map(|message| message.packets).chain(kept).sum()
        };
        in_rings.map(|message| message.packets).sum::<f64>() + self.threads.iter().map(held).sum::<f64>()
    }

    /// Moves workers between the stages of the gathered link, by the packets in its rings.
    fn assign(&mut self) {
        let Some(Gathered { link, dynamic: Some((by, all, period)), .. }) = &self.model.gathered else { return };
        let Link { from, to, .. } = self.model.links[*link];
        let threads = self.threads.iter().filter(|thread| thread.stage == to);
        let messages = threads
            .flat_map(|thread| thread.inputs.iter().flat_map(|&ring| &self.rings[ring].messages).chain(&thread.taken));
        let queued: f64 = messages.map(|message| message.packets).sum();
        if let Some(partition) = by.choose(queued as u64, *all) {
            (self.active[from], self.active[to]) = (partition.cache, partition.full);
        }
        self.calendar.add(self.now + period, Event::Assign);
    }

    /// Returns the nanoseconds that each thread was at work.
    #[cfg(test)]
    pub(super) fn threads_at_work(&self) -> impl Iterator<Item = f64> {
        self.threads.iter().map(|thread| thread.at_work)
    }

    fn holds(&self, thread: usize, awaited: Awaited) -> bool {
        match awaited {
            Awaited::Input => self.threads[thread].inputs.iter().any(|&ring| !self.rings[ring].messages.is_empty()),
            Awaited::Room(ring) => self.rings[ring].messages.len() < self.rings[ring].capacity,
        }
    }

    /// Returns what a thread does next; whatever takes no time is done at once.
    fn next(&mut self, thread: usize) -> Next {
        let model = self.model;
        let (stage, costs) = (&model.stages[self.threads[thread].stage], &model.costs);
        loop {
            if let Some(message) = self.threads[thread].in_hand.take() {
                self.hand_on(thread, message);
            }
            if let Some(&(at, message)) = self.threads[thread].outbox.front() {
                let ring = &mut self.rings[at];
                let own = &mut self.threads[thread];
                if ring.messages.len() < ring.capacity {
                    let is_far = ring.taken_on.is_some_and(|core| core != own.core);
                    let cost = costs.send + if is_far { costs.send_far } else { 0.0 };
                    if cost > 0.0 && !std::mem::replace(&mut own.is_paid, true) {
                        return Next::Work(cost);
                    }
                    own.is_paid = false;
                    ring.messages.push_back(Message { core: own.core, ..message });
                    own.has_moved();
                    self.ring_bell(self.rings[at].receiver, thread);
                } else if ring.is_lossy {
                    self.dropped += message.packets;
                    self.last_drop = self.now;
                } else {
                    return Next::Wait(Awaited::Room(at));
                }
                self.threads[thread].outbox.pop_front();
                continue;
            }
            let own = &mut self.threads[thread];
            if own.owed > 0.0 {
                return Next::Work(std::mem::take(&mut own.owed));
            }
            let message = match stage.feed {
                Feed::Rings => match own.taken.pop_front() {
                    Some(message) => {
                        let work = stage.work.message + stage.work.packet * message.packets;
                        own.in_hand = Some(message);
                        return Next::Work(costs.receive + drawn(&mut self.random, &stage.work.spread, work));
                    }
                    None if own.empty == own.inputs.len() => {
                        own.empty = 0;
                        return Next::Wait(Awaited::Input);
                    }
                    None => {
                        if self.take(thread) && costs.take_far > 0.0 {
                            return Next::Work(costs.take_far);
                        }
                        continue;
                    }
                },
                Feed::Full => Message { packets: model.batch, number: own.next, core: own.core },
                Feed::Paced { packets_a_second, ref spread } => {
                    let active = self.active[own.stage];
                    if own.place >= active {
                        own.due = self.now + GLANCE;
                    }
                    if own.due > self.now {
                        return Next::Until(own.due);
                    }
                    // Active workers take the packets of the inactive ones, too.
                    let share = active as f64 / stage.workers as f64;
                    let between = model.batch / packets_a_second * 1e9 * share;
                    own.due += drawn(&mut self.random, spread, between);
                    Message { packets: model.batch, number: own.next, core: own.core }
                }
            };
            own.next += 1;
            own.in_hand = Some(message);
            self.offered += message.packets;
            let work = stage.work.message + stage.work.packet * message.packets;
            return Next::Work(drawn(&mut self.random, &stage.work.spread, work));
        }
    }

    /// Takes messages from a thread's next ring, as many as fit a chunk; returns whether they come from another core.
    fn take(&mut self, thread: usize) -> bool {
        let own = &mut self.threads[thread];
        let at = own.inputs[own.next_input];
        own.next_input = (own.next_input + 1) % own.inputs.len();
        let ring = &mut self.rings[at];
        let count = ring.messages.len().min(self.model.chunk);
        own.empty = if count == 0 { own.empty + 1 } else { 0 };
        own.taken.extend(ring.messages.drain(..count));
        let is_far = count > 0 && own.taken.back().is_some_and(|message| message.core != own.core);
        if count > 0 {
            ring.taken_on = Some(own.core);
            own.has_moved();
            self.ring_bell(self.rings[at].sender, thread);
        }
        is_far
    }

    /// Deals the packets of a message that was worked on to the links; the others have left the plane.
    fn hand_on(&mut self, thread: usize, message: Message) {
        let course = self.model.gathered.as_ref().map_or(&[][..], |gathered| &gathered.course);
        let since = course.partition_point(|(from, _)| *from <= self.now);
        let gathered = since.checked_sub(1).map_or(1.0, |at| course[at].1);
        let own = &mut self.threads[thread];
        let mut left = 1.0;
        for output in &mut own.outputs {
            let share = if output.is_gathered { gathered } else { output.share };
            left -= share;
            let (mut number, mut packets) = (message.number, message.packets * share);
            if output.is_gathered {
                output.kept += packets;
                if output.kept < self.model.batch {
                    continue;
                }
                output.sent += 1;
                (number, packets) = (output.sent, std::mem::take(&mut output.kept));
            }
            let ring = output.rings[(number % self.active[output.to] as u64) as usize];
            own.outbox.push_back((ring, Message { packets, ..message }));
        }
        self.done += message.packets * left;
    }
}

/// Draws a time of a mean.
fn drawn(random: &mut Pcg64, spread: &Spread, mean: f64) -> f64 {
    match spread {
        Spread::Fixed => mean,
        Spread::Measured(times) if times.is_empty() => mean,
        Spread::Measured(times) => mean * times[random.random_range(0..times.len())],
        Spread::Exponential => -mean * (1.0 - random.random::<f64>()).ln(),
    }
}
