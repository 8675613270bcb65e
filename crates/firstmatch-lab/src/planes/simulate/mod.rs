//! Discrete-event simulation of planes of threads, for cores that this machine does not have.
//!
//! A [`Model`] has the stages, rings and cores of a `firstmatch_net::plane`, and the time that each part of the work
//! takes. [`simulate`] follows every thread through that work. Whatever is random comes from a seed, so equal models
//! have equal outcomes.
//!
//! | part | model |
//! |---|---|
//! | cores | equal; each runs its ready threads in order, for a quantum at most |
//! | threads | ready on the core where they last ran, unless that is busy and another is free; moved if they wait for long |
//! | work | a time for each message and each packet, fixed, or drawn from measured times or an exponential distribution |
//! | rings | bounded in messages; a full one makes the sender wait, or drops the message and counts it |
//! | messages | taken from a ring by the chunk; sending and receiving have a cost, more between two cores |
//! | waiting | looks for a while and then blocks; where threads share cores, each look gives the core away |
//! | waking | costs the waking thread time, and the woken one runs later |
//! | gathering | a share of the packets fills messages of a batch, where it may change over time and move workers |
//! | sources | bring in messages as fast as rings take them, or packets at a rate |
//!
//! Caches, memory and the placing of threads are not in the model, except as far as the given times have them. So a
//! projection beyond the cores that times were measured on assumes that more cores slow each other down no further.

use std::sync::Arc;

use firstmatch_net::systems::storm::Dynamic;

mod calendar;
mod run;
#[cfg(test)]
mod tests;

pub(crate) use run::simulate;

/// Plane, load and machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Model {
    pub(crate) stages: Vec<Stage>,
    pub(crate) links: Vec<Link>,
    pub(crate) gathered: Option<Gathered>,
    pub(crate) cores: usize,
    /// Packets of a message that a source brings in.
    pub(crate) batch: f64,
    /// Most messages that a worker takes from a ring at once.
    pub(crate) chunk: usize,
    pub(crate) costs: Costs,
    pub(crate) seed: u64,
}

/// Stage of equal workers, each a thread.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stage {
    pub(crate) workers: usize,
    pub(crate) feed: Feed,
    pub(crate) work: Work,
}

/// Origin of the messages of a stage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Feed {
    /// Rings that lead to the stage.
    Rings,
    /// The stage itself, as fast as it can.
    Full,
    /// The stage itself, at a rate of each worker.
    Paced {
        packets_a_second: f64,
        /// Distribution of the times between two messages.
        spread: Spread,
    },
}

/// CPU time of the work on a message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Work {
    /// Nanoseconds a message.
    pub(crate) message: f64,
    /// Nanoseconds a packet.
    pub(crate) packet: f64,
    pub(crate) spread: Spread,
}

/// Distribution of a time around its mean.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Spread {
    Fixed,
    /// Times that were measured, each as a multiple of their mean; all are equally likely.
    Measured(Arc<[f64]>),
    #[cfg_attr(not(test), expect(dead_code, reason = "closed forms of queues need it"))]
    Exponential,
}

/// Rings between two stages, one for each pair of workers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Link {
    pub(crate) from: usize,
    pub(crate) to: usize,
    /// Messages that each ring holds.
    pub(crate) capacity: usize,
    /// Whether a full ring drops messages.
    pub(crate) is_lossy: bool,
    /// Share of the packets of each message that takes this link. The packets that take none leave the plane.
    pub(crate) share: f64,
}

/// Link whose share of the packets is gathered into messages of a batch, as the misses of Storm's boxes are.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Gathered {
    pub(crate) link: usize,
    /// Share of the packets that takes the link, with the time from which on it does; the first is from the start.
    pub(crate) course: Arc<[(f64, f64)]>,
    /// Assignment of workers to the stages at the two ends, packets that all rings of the link hold, and nanoseconds
    /// from one change to the next. Active workers of a paced stage take the packets of all.
    pub(crate) dynamic: Option<(Dynamic, u64, f64)>,
}

/// Costs of handing messages on and of sharing cores, in nanoseconds of CPU time unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// Cost of sending a message.
    pub(crate) send: f64,
    /// Cost of receiving a message.
    pub(crate) receive: f64,
    /// Cost for the sender beyond that, if the last message of the ring was taken on another core.
    pub(crate) send_far: f64,
    /// Cost of taking messages out of a ring, however many, if they were sent on another core.
    pub(crate) take_far: f64,
    /// Cost of another thread on a core.
    pub(crate) switch: f64,
    /// Cost of waking a blocked thread.
    pub(crate) wake: f64,
    /// Time until a woken thread is ready. The core does other work meanwhile.
    pub(crate) latency: f64,
    /// Time that a thread with a core of its own looks before it blocks.
    pub(crate) spin: f64,
    /// Cost of a look where threads share cores.
    pub(crate) look: f64,
    /// Longest time on a core while other threads are ready.
    pub(crate) quantum: f64,
}

impl Costs {
    /// No costs at all, and a quantum of 1 ms.
    pub(crate) const NONE: Self = Self {
        send: 0.0,
        receive: 0.0,
        send_far: 0.0,
        take_far: 0.0,
        switch: 0.0,
        wake: 0.0,
        latency: 0.0,
        spin: 0.0,
        look: 0.0,
        quantum: 1e6,
    };
}

/// Result of a simulation, over the time after the warm-up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Packets that left the plane, in millions a second.
    pub(crate) mpps: f64,
    /// Packets that sources brought in.
    pub(crate) offered: f64,
    /// Packets that full rings dropped.
    pub(crate) dropped: f64,
    /// Share of the cores' time in which a thread ran.
    pub(crate) busy: f64,
    /// Mean share of time in which a worker of each stage was at work.
    pub(crate) at_work: Vec<f64>,
    /// Number of times that a thread blocked.
    pub(crate) blocks: u64,
    /// Time of the last drop, the warm-up included; 0 without one.
    pub(crate) last_drop: f64,
    /// Workers of each stage that were sent messages at the end.
    pub(crate) active: Vec<usize>,
}

impl Model {
    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.stages.iter().map(|stage| stage.workers).sum()
    }
}
