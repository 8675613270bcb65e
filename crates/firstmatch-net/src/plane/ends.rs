//! The caller's two ends of a plane.

use std::collections::VecDeque;

use super::ring::{Envelope, Receiver, Refused};
use super::state::Shared;
use super::worker::{Message, Output};

/// Reason why a message was not taken; it gives the message back.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// The plane is full. [`Plane::send`](super::Plane::send) has counted the message as dropped;
    /// [`Plane::try_send`](super::Plane::try_send) has not, so it may be sent again.
    Full(T),
    /// The plane was stopped, was ended by a fault, or has no entrance.
    Stopped(T),
}

impl<T> SendError<T> {
    /// Returns the message.
    pub fn into_message(self) -> T {
        match self {
            Self::Full(message) | Self::Stopped(message) => message,
        }
    }
}

impl<T> std::fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Full(_)) { "Full(..)" } else { "Stopped(..)" })
    }
}

impl<T> std::fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Full(_)) {
            "the plane is full"
        } else {
            "the plane takes no more messages"
        })
    }
}

impl<T> std::error::Error for SendError<T> {}

/// Sending end.
pub(super) struct Entrance<T> {
    output: Output<T>,
    /// Number of the next message.
    next: u64,
}

impl<T: Message> Entrance<T> {
    pub(super) fn new(output: Output<T>) -> Self {
        Self { output, next: 0 }
    }

    /// Sends a message; `waits` says whether the caller waits while the plane is full, unless its link is lossy.
    pub(super) fn send(&mut self, message: T, waits: bool, shared: &Shared) -> Result<(), SendError<T>> {
        let packets = message.packets() as u64;
        let number = self.next;
        let sender = self.output.pick(&message, 0, shared);
        let is_lossy = sender.state.is_lossy;
        let in_window = || shared.is_in_window(number);
        let mut envelope = Envelope { number, packets, message };
        let mut waited = false;
        loop {
            if shared.is_stopped() {
                return Err(SendError::Stopped(envelope.message));
            }
            if in_window() {
                match sender.push(envelope, waited) {
                    Ok(()) => {
                        shared.accepted.0.add(packets);
                        self.next += 1;
                        return Ok(());
                    }
                    // Workers leave before the caller only after a fault, which is noted by now or soon.
                    Err(Refused::Abandoned(back)) => return Err(SendError::Stopped(back.message)),
                    Err(Refused::Full(back)) => envelope = back,
                }
            }
            if !waits {
                return Err(SendError::Full(envelope.message));
            }
            if is_lossy {
                sender.count_dropped(packets);
                shared.dropped.add(packets);
                return Err(SendError::Full(envelope.message));
            }
            if !waited {
                sender.count_wait();
                waited = true;
            }
            let is_due = || shared.is_stopped() || (in_window() && sender.is_ready(packets));
            shared.entrance_bell.wait(shared.spin, is_due);
        }
    }
}

/// Receiving end.
pub(super) struct Exit<T> {
    receivers: Vec<Receiver<T>>,
    taken: VecDeque<Envelope<T>>,
    /// Messages that overtook others, by number from [`Exit::next`] on.
    early: VecDeque<Option<Envelope<T>>>,
    /// Number of the next message in order of arrival.
    next: u64,
    chunk: usize,
}

impl<T: Message> Exit<T> {
    pub(super) fn new(receivers: Vec<Receiver<T>>, chunk: usize) -> Self {
        Self { receivers, taken: VecDeque::new(), early: VecDeque::new(), next: 0, chunk }
    }

    /// Returns the next message; `None` if no more will come, or if none is there and `waits` is false.
    pub(super) fn receive(&mut self, waits: bool, shared: &Shared) -> Option<T> {
        loop {
            if let Some(Envelope { packets, message, .. }) = self.next_taken(shared) {
                shared.delivered.0.add(packets);
                return Some(message);
            }
            if self.pull() {
                continue;
            }
            let receivers = &self.receivers;
            let is_finished = || receivers.iter().all(Receiver::is_finished);
            if !waits || is_finished() {
                return None;
            }
            let is_due = || receivers.iter().any(|receiver| !receiver.is_empty()) || is_finished();
            shared.exit_bell.wait(shared.spin, is_due);
        }
    }

    /// Takes messages from every ring; returns whether there were any.
    fn pull(&mut self) -> bool {
        let Self { receivers, taken, chunk, .. } = self;
        for receiver in receivers {
            let before = taken.len();
            receiver.pull(*chunk, taken);
            taken.range(before..).for_each(|envelope| receiver.count_received(envelope.packets));
        }
        !taken.is_empty()
    }

    /// Returns the next message that was taken from a ring, in order if the plane keeps it.
    fn next_taken(&mut self, shared: &Shared) -> Option<Envelope<T>> {
        if shared.window.is_none() {
            return self.taken.pop_front();
        }
        // No number is as far ahead as the window, so the memory of early messages is bounded.
        for envelope in self.taken.drain(..) {
            let ahead = (envelope.number - self.next) as usize;
            if self.early.len() <= ahead {
                self.early.resize_with(ahead + 1, || None);
            }
            self.early[ahead] = Some(envelope);
        }
        let envelope = self.early.front_mut()?.take()?;
        self.early.pop_front();
        self.next += 1;
        shared.release(self.next);
        Some(envelope)
    }

    /// Returns the packets that were taken from rings and never delivered.
    pub(super) fn left(&self) -> u64 {
        let early = self.early.iter().flatten();
        self.taken.iter().chain(early).map(|envelope| envelope.packets).sum()
    }
}
