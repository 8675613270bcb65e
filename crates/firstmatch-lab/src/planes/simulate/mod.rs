//! Discrete-event simulation of planes of threads, for cores that this machine does not have.
//!
//! A [`Model`] has the stages, rings and cores of a `firstmatch_net::plane`, and the time that each part of the work
//! takes. [`simulate`] follows every thread through that work. Whatever is random comes from a seed, so equal models
//! have equal outcomes.
//!
//! | part | model |
//! |---|---|
//! | cores | equal; a ready thread runs on any free one, in order of becoming ready, for a quantum at most |
//! | work | a time for each message and each packet, fixed or exponential; longer while other cores are busy, too |
//! | rings | bounded in messages; a full one makes the sender wait, or drops the message and counts it |
//! | messages | taken from a ring by the chunk, handed on at a cost for each message and each packet |
//! | waiting | looks for a while and then blocks; where threads share cores, each look gives the core away |
//! | waking | costs the waking thread time, and the woken one runs later |
//! | sources | bring in messages as fast as rings take them, or packets at a rate |
//!
//! Caches, memory and the placing of threads are not in the model, except as far as the given times have them. So a
//! projection beyond the cores that times were measured on assumes that more cores slow each other down no further.

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
#[derive(Clone, Copy, Debug, PartialEq)]
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Work {
    /// Nanoseconds a message.
    pub(crate) message: f64,
    /// Nanoseconds a packet.
    pub(crate) packet: f64,
    pub(crate) spread: Spread,
}

/// Distribution of a time around its mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Spread {
    Fixed,
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

/// Costs of handing messages on, in nanoseconds of CPU time unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    /// Cost of a message: half for its sender, half for its receiver.
    pub(crate) message: f64,
    /// Cost of a packet, for the receiver.
    pub(crate) packet: f64,
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
    /// Share by which all work is slower while more than one core is busy.
    pub(crate) crowd: f64,
}

impl Costs {
    /// No costs at all, and a quantum of 1 ms.
    pub(crate) const NONE: Self = Self {
        message: 0.0,
        packet: 0.0,
        switch: 0.0,
        wake: 0.0,
        latency: 0.0,
        spin: 0.0,
        look: 0.0,
        quantum: 1e6,
        crowd: 0.0,
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
}

impl Model {
    /// Returns the number of threads.
    pub(crate) fn threads(&self) -> usize {
        self.stages.iter().map(|stage| stage.workers).sum()
    }
}
