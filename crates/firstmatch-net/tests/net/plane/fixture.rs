//! Numbered packets of many flows, and a checker of what comes out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use firstmatch_net::plane::{Link, Message, Outputs, PlaneBuilder, StageId};

/// Number of flows.
pub(crate) const FLOWS: u64 = 97;
/// Number of groups of flows; a message has packets of one group.
pub(crate) const GROUPS: u64 = 12;
/// Number that a stage adds to a packet: the hops are counted in bits 40 to 47, below is the number in its flow.
const HOP: u64 = 1 << 40;

/// Packets of one group of flows: flow, hops and number in the flow, packed into 64 bits.
#[derive(Debug, Default)]
pub(crate) struct Packets {
    pub(crate) group: u64,
    pub(crate) packets: Vec<u64>,
}

impl Message for Packets {
    fn packets(&self) -> usize {
        self.packets.len()
    }

    fn flow(&self) -> u64 {
        self.group
    }
}

/// Maker of packets of all flows, in turn.
#[derive(Debug)]
pub(crate) struct Maker {
    next: [u64; FLOWS as usize],
    turn: u64,
    batch: usize,
}

impl Maker {
    pub(crate) fn new(batch: usize) -> Self {
        Self { next: [0; FLOWS as usize], turn: 0, batch }
    }

    /// Returns the next message; its packets are of the flows of one group, in turn.
    pub(crate) fn message(&mut self) -> Packets {
        let group = self.turn % GROUPS;
        self.turn += 1;
        let flows = (group..FLOWS).step_by(GROUPS as usize).cycle();
        let packets = flows.take(self.batch).map(|flow| {
            let number = &mut self.next[flow as usize];
            *number += 1;
            flow << 48 | (*number - 1)
        });
        Packets { group, packets: packets.collect() }
    }
}

/// Checker that each packet came through `hops` stages and in the order of its flow, without a gap.
#[derive(Debug)]
pub(crate) struct Checker {
    next: [u64; FLOWS as usize],
    hops: u64,
    pub(crate) packets: u64,
}

impl Checker {
    pub(crate) fn new(hops: u64) -> Self {
        Self { next: [0; FLOWS as usize], hops, packets: 0 }
    }

    pub(crate) fn check(&mut self, message: &Packets) {
        for &packet in &message.packets {
            let (flow, hops, number) = (packet >> 48, packet / HOP % 256, packet % HOP);
            let next = &mut self.next[flow as usize];
            assert_eq!((number, hops), (*next, self.hops), "flow {flow}");
            *next += 1;
            self.packets += 1;
        }
    }
}

/// Counts a hop on each packet.
pub(crate) fn hop(message: &mut Packets) {
    message.packets.iter_mut().for_each(|packet| *packet += HOP);
}

/// Returns a builder of a chain of stages that count hops, from the caller to the caller.
pub(crate) fn chain(workers: &[usize], link: Link) -> PlaneBuilder<Packets> {
    let mut builder = PlaneBuilder::new();
    let stages: Vec<StageId> = (workers.iter().enumerate())
        .map(|(at, &workers)| builder.stage(&format!("hop{at}"), workers, |_| pass_on))
        .collect();
    link_all(&mut builder, &stages, link);
    builder
}

/// Links stages to a chain from the caller to the caller.
pub(crate) fn link_all(builder: &mut PlaneBuilder<Packets>, stages: &[StageId], link: Link) {
    builder.enter(stages[0], link);
    for pair in stages.windows(2) {
        builder.link(pair[0], pair[1], link);
    }
    builder.leave(stages[stages.len() - 1], link);
}

pub(crate) fn pass_on(mut message: Packets, out: &mut Outputs<Packets>) {
    hop(&mut message);
    out.send(message);
}

/// Returns a builder of one stage that works only once the gate is open.
pub(crate) fn gated(gate: &Arc<AtomicBool>, workers: usize, enter: Link) -> PlaneBuilder<Packets> {
    let mut builder = PlaneBuilder::new();
    let gate = Arc::clone(gate);
    let stage = builder.stage("gated", workers, move |_| {
        let gate = Arc::clone(&gate);
        move |message: Packets, out: &mut Outputs<Packets>| {
            while !gate.load(Ordering::Acquire) {
                thread::yield_now();
            }
            pass_on(message, out);
        }
    });
    builder.enter(stage, enter).leave(stage, Link::new().capacity(1024));
    builder
}
