//! Work of one lane of a system.

use std::io;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use firstmatch::core::live::CounterShard;
use firstmatch::net::plane::Plane;
use firstmatch::net::wire::Batch;
use firstmatch::{Basis, Firewall, LinkType, Verdict};

use super::{Generation, Generations, Message};
use crate::Counts;
use crate::lane::{Decide, LaneOptions, is_arp, lock};
use crate::path::{FrameSender, Path};
use crate::samples::Decided;

/// Lookups of one lane by planes.
#[derive(Debug)]
pub(crate) struct SystemWork {
    generations: Arc<Generations>,
    /// Number of the generation that the planes are of; 0 before the first.
    stamp: u64,
    planes: Planes,
    generation: Option<(Arc<Generation>, Batch)>,
    firewall: Firewall,
    counts: Arc<Mutex<Counts>>,
    options: LaneOptions,
}

/// Planes of one generation, and the threads behind them.
#[derive(Debug, Default)]
struct Planes {
    planes: Vec<Arc<Plane<Message>>>,
    senders: Vec<JoinHandle<()>>,
}

/// Work behind a plane: verdicts, counts, and the sending.
struct Behind {
    generation: Arc<Generation>,
    sender: Option<Arc<dyn FrameSender>>,
    shard: Option<CounterShard>,
    counts: Arc<Mutex<Counts>>,
    options: LaneOptions,
}

impl SystemWork {
    pub(crate) fn new(generations: Arc<Generations>, firewall: &Firewall, options: LaneOptions) -> Self {
        let (planes, counts, firewall) = (Planes::default(), Arc::default(), firewall.clone());
        Self { generations, stamp: 0, planes, generation: None, firewall, counts, options }
    }

    /// Takes the newest generation, once all frames of the one before are sent.
    fn follow(&mut self, path: &impl Path) -> io::Result<()> {
        let stamp = self.generations.stamp();
        if stamp == self.stamp {
            return Ok(());
        }
        std::mem::take(&mut self.planes).end()?;
        let generation = self.generations.current();
        for schema in 0..generation.batch.schemas() {
            let plane = Arc::new((generation.start)(schema).map_err(io::Error::other)?);
            let behind = Behind {
                generation: Arc::clone(&generation),
                sender: path.sender(),
                shard: self.firewall.counter_shard(),
                counts: Arc::clone(&self.counts),
                options: self.options.clone(),
            };
            let own = Arc::clone(&plane);
            self.planes.planes.push(plane);
            self.planes.senders.push(thread::Builder::new().name("send".to_owned()).spawn(move || behind.run(&own))?);
        }
        let batch = generation.batch.clone();
        self.generation = Some((generation, batch));
        self.stamp = stamp;
        Ok(())
    }
}

impl Decide for SystemWork {
    fn counts(&self) -> Arc<Mutex<Counts>> {
        Arc::clone(&self.counts)
    }

    fn options(&self) -> &LaneOptions {
        &self.options
    }

    fn decide(&mut self, path: &mut impl Path) -> io::Result<()> {
        self.follow(path)?;
        let Some((generation, batch)) = &mut self.generation else { return Ok(()) };
        let frames = path.frames();
        batch.clear();
        if frames.iter().any(crate::path::Frame::is_cut) {
            for frame in frames {
                batch.push_frame(LinkType::Ethernet, path.bytes(frame), frame.bytes);
            }
        } else {
            batch.push_frames(LinkType::Ethernet, frames.iter().map(|frame| path.bytes(frame)));
        }
        for schema in (0..batch.schemas()).filter(|&schema| !batch.packets(schema).is_empty()) {
            let mut message = Message::new(batch.extractor(schema).schema(), path.before());
            for (row, &at) in batch.packets(schema).iter().enumerate() {
                let frame = &frames[at as usize];
                message.push(
                    frame,
                    path.whole(frame),
                    batch.records()[at as usize].outcome,
                    batch.keys(schema).row(row),
                );
            }
            message.set_width(generation.widths[schema]);
            self.planes.planes[schema].send(message).map_err(|_| self.planes.fault(schema))?;
        }
        // The others are decided here, and their frames are sent from where they are.
        let (mut counts, unknown) = (lock(&self.counts), generation.policy.unknown);
        let mut passing = vec![false; frames.len()];
        for (at, (frame, record)) in frames.iter().zip(batch.records()).enumerate() {
            if !record.outcome.is_classified() {
                let is_passing_arp = self.options.passes_arp && is_arp(path.bytes(frame));
                let verdict = if is_passing_arp { Verdict::Permit } else { unknown };
                counts.add(verdict, Basis::Policy, record.outcome, frame);
                passing[at] = verdict != Verdict::Deny && !frame.is_cut();
                if verdict == Verdict::Deny {
                    let (outcome, generation) = (record.outcome, generation.number);
                    let decided = Decided { rule: None, line: None, outcome, generation };
                    self.options.sample(frame, path.bytes(frame), decided, &mut counts);
                }
            }
        }
        drop(counts);
        let sent = path.finish(|at, _| passing[at]);
        lock(&self.counts).add_sent(sent);
        Ok(())
    }

    fn end(self) -> io::Result<()> {
        self.planes.end()
    }
}

impl Planes {
    /// Returns the reason for which a plane takes no messages.
    fn fault(&self, schema: usize) -> io::Error {
        self.planes[schema].fault().map_or_else(|| io::Error::other("a plane has ended"), io::Error::other)
    }

    /// Waits until all frames in the planes are sent.
    fn end(self) -> io::Result<()> {
        self.planes.iter().for_each(|plane| plane.stop());
        for sender in self.senders {
            sender.join().map_err(|_| io::Error::other("the thread that sends has panicked"))?;
        }
        for plane in self.planes.into_iter().filter_map(Arc::into_inner) {
            plane.join().map_err(io::Error::other)?;
        }
        Ok(())
    }
}

impl Behind {
    /// Decides what comes out of the plane, until it has ended.
    fn run(mut self, plane: &Plane<Message>) {
        while let Some(message) = plane.recv() {
            self.decide(&message);
        }
    }

    fn decide(&mut self, message: &Message) {
        let mut counts = lock(&self.counts);
        let mut passing = Vec::with_capacity(message.frames.len());
        for ((frame, &outcome), found) in message.frames.iter().zip(&message.outcomes).zip(&message.best) {
            let rule = found.and_then(|found| self.generation.rules.get(found.rule.slot()).copied().flatten());
            let (verdict, basis) = match rule {
                Some((verdict, rule)) => {
                    if let Some(shard) = &mut self.shard {
                        shard.add(rule, 1, frame.bytes.into());
                    }
                    (verdict, Basis::Rule)
                }
                None => (self.generation.policy.default, Basis::Policy),
            };
            counts.add(verdict, basis, outcome, frame);
            if verdict == Verdict::Deny {
                let (rule, generation) = (rule.map(|(_, rule)| rule), self.generation.number);
                let decided = Decided { rule, line: None, outcome, generation };
                self.options.sample(frame, message.bytes(frame), decided, &mut counts);
            } else if !frame.is_cut() {
                passing.push(message.sent(frame));
            }
        }
        drop(counts);
        let sent = self.sender.as_ref().map(|sender| sender.send(&passing)).unwrap_or_default();
        let mut counts = lock(&self.counts);
        counts.add_sent(sent);
        counts.batches.add(Instant::now().duration_since(message.start));
    }
}
