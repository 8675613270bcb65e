//! Rings: bounded queues of messages with one sender and one receiver.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use rtrb::{Consumer, Producer, PushError, RingBuffer};

use super::bell::{Bell, lock};
use super::counters::{FluxTally, Occupancy, Padded, RingCounters, RingEnd, Tally};

/// Maximum number of readings to find one during which the receiver counts nothing.
const READINGS: usize = 16;

/// Message in flight.
#[derive(Debug)]
pub(super) struct Envelope<T> {
    /// Number of the message that the caller sent, from 0; messages made from it have the same number.
    pub(super) number: u64,
    pub(super) packets: u64,
    pub(super) message: T,
}

/// Bound on the packets of a ring that were sent and not yet received, unless a single message has more.
#[derive(Clone, Debug)]
pub(super) struct PacketBound {
    pub(super) packets: u64,
    /// Numbers of active workers whose rings share the packets equally; none if each ring may hold all packets.
    pub(super) sharers: Vec<Arc<AtomicUsize>>,
}

impl PacketBound {
    /// Returns the packets that the ring may hold now.
    fn get(&self) -> u64 {
        let share = |packets: u64, sharers: &Arc<AtomicUsize>| packets / sharers.load(Ordering::Relaxed) as u64;
        self.sharers.iter().fold(self.packets, share)
    }
}

/// Facts and counters of a ring that both ends and the readers of counters share.
#[derive(Debug)]
pub(super) struct RingState {
    pub(super) from: RingEnd,
    pub(super) to: RingEnd,
    pub(super) is_lossy: bool,
    capacity: usize,
    most_packets: Option<PacketBound>,
    /// Whether the sender has left. All its messages are in the ring then.
    closed: AtomicBool,
    /// Whether the receiver has left.
    abandoned: AtomicBool,
    sender: Padded<SenderTally>,
    received: Padded<FluxTally>,
    sender_bell: Arc<Bell>,
    receiver_bell: Arc<Bell>,
}

#[derive(Debug, Default)]
struct SenderTally {
    sent: FluxTally,
    dropped: FluxTally,
    waits: Tally,
    occupancy: Mutex<Occupancy>,
}

impl RingState {
    /// Whether packets that never come out of the ring count as lost: true unless the ring is lossy and from a stage.
    pub(super) fn is_main(&self) -> bool {
        !self.is_lossy || self.from == RingEnd::Caller
    }

    pub(super) fn counters(&self) -> RingCounters {
        let SenderTally { sent, dropped, waits, occupancy } = &self.sender.0;
        // In this order, so that no more messages seem received than sent.
        let received = self.received.0.get();
        RingCounters {
            from: self.from,
            to: self.to,
            is_lossy: self.is_lossy,
            capacity: self.capacity,
            most_packets: self.most_packets.as_ref().map(PacketBound::get),
            sent: sent.get(),
            received,
            dropped: dropped.get(),
            waits: waits.get(),
            occupancy: lock(occupancy).clone(),
        }
    }

    /// Returns the messages that were sent and not yet received, without the cost of all counters.
    ///
    /// They are the messages queued when `sent` was read. If the receiver never pauses, there may be more.
    pub(super) fn queued(&self) -> super::Flux {
        let mut received = self.received.0.get();
        for _ in 0..READINGS {
            let queued = self.sender.0.sent.get() - received;
            let again = self.received.0.get();
            if again == received {
                return queued;
            }
            received = again;
        }
        self.sender.0.sent.get() - received
    }
}

/// Ends and properties of a ring to be built.
pub(super) struct RingPlan {
    pub(super) from: RingEnd,
    pub(super) to: RingEnd,
    pub(super) is_lossy: bool,
    pub(super) capacity: usize,
    pub(super) most_packets: Option<PacketBound>,
    pub(super) sender_bell: Arc<Bell>,
    pub(super) receiver_bell: Arc<Bell>,
}

/// Builds a ring and returns both ends.
pub(super) fn ring<T>(plan: RingPlan) -> (Sender<T>, Receiver<T>) {
    let RingPlan { from, to, is_lossy, capacity, most_packets, sender_bell, receiver_bell } = plan;
    let (producer, consumer) = RingBuffer::new(capacity);
    let state = Arc::new(RingState {
        from,
        to,
        is_lossy,
        capacity,
        most_packets,
        closed: AtomicBool::new(false),
        abandoned: AtomicBool::new(false),
        sender: Padded::default(),
        received: Padded::default(),
        sender_bell,
        receiver_bell,
    });
    (Sender { producer, state: Arc::clone(&state) }, Receiver { consumer, state })
}

/// Reason why a ring did not take a message.
#[derive(Debug)]
pub(super) enum Refused<T> {
    Full(Envelope<T>),
    /// The receiver has left.
    Abandoned(Envelope<T>),
}

/// Sending end of a ring; dropping it closes the ring.
#[derive(Debug)]
pub(super) struct Sender<T> {
    producer: Producer<Envelope<T>>,
    pub(super) state: Arc<RingState>,
}

impl<T> Sender<T> {
    /// Puts a message into the ring and wakes the receiver. `noted` says whether the occupancy was sampled before.
    pub(super) fn push(&mut self, envelope: Envelope<T>, noted: bool) -> Result<(), Refused<T>> {
        if self.state.abandoned.load(Ordering::Acquire) {
            return Err(Refused::Abandoned(envelope));
        }
        let tally = &self.state.sender.0;
        if !noted {
            let occupancy = self.state.capacity - self.producer.slots();
            lock(&tally.occupancy).note(occupancy, self.state.capacity);
        }
        let packets = envelope.packets;
        if !self.has_room(packets) {
            return Err(Refused::Full(envelope));
        }
        // The message is counted before it is in the ring, so that it is never received before it was sent.
        tally.sent.add(packets);
        if let Err(PushError::Full(_)) = self.producer.push(envelope) {
            unreachable!("nobody else fills the ring");
        }
        self.state.receiver_bell.ring();
        Ok(())
    }

    pub(super) fn count_dropped(&self, packets: u64) {
        self.state.sender.0.dropped.add(packets);
    }

    pub(super) fn count_wait(&self) {
        self.state.sender.0.waits.add(1);
    }

    /// Whether a push of a message of `packets` does not have to wait: there is room, or the receiver has left.
    pub(super) fn is_ready(&self, packets: u64) -> bool {
        self.has_room(packets) || self.state.abandoned.load(Ordering::Acquire)
    }

    fn has_room(&self, packets: u64) -> bool {
        let fits = |most: &PacketBound| {
            let queued = self.state.queued();
            queued.messages == 0 || queued.packets + packets <= most.get()
        };
        !self.producer.is_full() && self.state.most_packets.as_ref().is_none_or(fits)
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Release);
        self.state.receiver_bell.ring();
    }
}

/// Receiving end of a ring; dropping it makes sends fail, so that the sender gets its messages back.
#[derive(Debug)]
pub(super) struct Receiver<T> {
    consumer: Consumer<Envelope<T>>,
    pub(super) state: Arc<RingState>,
}

impl<T> Receiver<T> {
    /// Moves at most `most` messages to the end of `into` and wakes the sender.
    ///
    /// A message counts as received only after [`Receiver::count_received`].
    pub(super) fn pull(&mut self, most: usize, into: &mut VecDeque<Envelope<T>>) {
        let count = self.consumer.slots().min(most);
        if count == 0 {
            return;
        }
        if let Ok(chunk) = self.consumer.read_chunk(count) {
            into.extend(chunk);
        }
        self.state.sender_bell.ring();
    }

    /// Counts a message as received, which makes room for the sender if packets are counted.
    pub(super) fn count_received(&self, packets: u64) {
        self.state.received.0.add(packets);
        if self.state.most_packets.is_some() {
            self.state.sender_bell.ring();
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.consumer.is_empty()
    }

    /// Whether no message is left and none will come.
    pub(super) fn is_finished(&self) -> bool {
        // The order matters: a message sent before the ring was closed must be seen.
        self.state.closed.load(Ordering::Acquire) && self.consumer.is_empty()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        self.state.abandoned.store(true, Ordering::Release);
        self.state.sender_bell.ring();
    }
}
