//! Messages of frames between the threads of a system.

use std::io::IoSlice;
use std::ops::Range;
use std::time::Instant;

use firstmatch::Outcome;
use firstmatch::core::{KeyBuf, Match, Schema};
use firstmatch::net::plane;
use firstmatch::net::systems::storm::SplitMessage;
use firstmatch::net::systems::{LookupMessage, LookupView};

use crate::path::Frame;

/// Copies of frames that were received together and are all of one schema, with their keys and matches so far.
#[derive(Debug)]
pub struct Message {
    /// Time at which the frames were taken.
    pub(super) start: Instant,
    /// Bytes of all frames, each behind what a sender wants before it.
    data: Vec<u8>,
    /// Frames by packet, with their ranges in `data`.
    pub(super) frames: Vec<Frame>,
    /// Number of bytes before each frame that a sender wants.
    before: usize,
    pub(super) outcomes: Vec<Outcome>,
    keys: KeyBuf,
    pub(super) best: Vec<Option<Match>>,
    words: Vec<u64>,
}

impl Message {
    /// Returns a message without packets, whose frames have `before` bytes in front of them.
    pub(super) fn new(schema: &Schema, before: usize) -> Self {
        Self {
            start: Instant::now(),
            data: Vec::new(),
            frames: Vec::new(),
            before,
            outcomes: Vec::new(),
            keys: KeyBuf::new(schema),
            best: Vec::new(),
            words: Vec::new(),
        }
    }

    /// Adds a packet. `sent` are the bytes that a sender wants; the frame is their end.
    pub(super) fn push(&mut self, frame: &Frame, sent: &[u8], outcome: Outcome, key: &[u32]) {
        let start = self.data.len() + self.before;
        self.data.extend_from_slice(sent);
        self.frames.push(Frame { range: start..self.data.len(), ..frame.clone() });
        self.outcomes.push(outcome);
        self.keys.push().copy_from_slice(key);
        self.best.push(None);
    }

    /// Gives each packet `width` words for the steps.
    pub(super) fn set_width(&mut self, width: usize) {
        self.words.resize(self.frames.len() * width, 0);
    }

    /// Returns the bytes of a frame.
    pub(super) fn bytes(&self, frame: &Frame) -> &[u8] {
        &self.data[frame.range.clone()]
    }

    /// Returns the bytes of a frame as a sender wants them.
    pub(super) fn sent(&self, frame: &Frame) -> IoSlice<'_> {
        let Range { start, end } = frame.range;
        IoSlice::new(&self.data[start - self.before..end])
    }
}

impl plane::Message for Message {
    fn packets(&self) -> usize {
        self.frames.len()
    }

    /// Messages are dealt out in turn: frames of several flows are in one.
    fn flow(&self) -> u64 {
        0
    }
}

impl LookupMessage for Message {
    fn view(&mut self) -> LookupView<'_> {
        LookupView { keys: self.keys.keys(), best: &mut self.best, words: &mut self.words }
    }
}

/// Packets that are divided lose their words.
impl SplitMessage for Message {
    fn empty(&self) -> Self {
        Self { start: self.start, ..Self::new(self.keys.schema(), self.before) }
    }

    fn split_off(&mut self, indices: &[u32], into: &mut Self) {
        let mut rest = self.empty();
        for at in 0..self.frames.len() {
            let to = if indices.binary_search(&(at as u32)).is_ok() { &mut *into } else { &mut rest };
            let frame = &self.frames[at];
            let sent = &self.data[frame.range.start - self.before..frame.range.end];
            to.push(frame, sent, self.outcomes[at], self.keys.keys().row(at));
            *to.best.last_mut().expect("it was pushed") = self.best[at];
        }
        *self = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets that are divided keep their bytes, keys and order, behind those that were there.
    #[test]
    fn messages_divide() {
        let firewall = firstmatch::Firewall::from_text("family ipv4\npermit tcp\n").expect("a rule");
        let schema = firewall.schemas()[0].clone();
        let width = KeyBuf::new(&schema).stride();
        let frame = |number: u8| Frame { range: 5..9, bytes: number.into(), is_unfinished: false, time: (1, 2) };
        let mut whole = Message::new(&schema, 2);
        for number in 0..5 {
            whole.push(&frame(number), &[9, 9, number, number, 7], Outcome::Complete, &vec![number.into(); width]);
        }
        let mut others = whole.empty();
        whole.split_off(&[4], &mut others);
        whole.split_off(&[0, 2], &mut others);
        for (message, numbers) in [(&mut whole, &[1, 3][..]), (&mut others, &[4, 0, 2])] {
            let all = message.frames.iter().map(|frame| (message.bytes(frame).to_vec(), message.sent(frame).to_vec()));
            let expected = numbers.iter().map(|&number: &u8| (vec![number, number, 7], vec![9, 9, number, number, 7]));
            assert!(all.eq(expected));
            assert!(message.frames.iter().map(|frame| frame.bytes).eq(numbers.iter().map(|&number| u32::from(number))));
            message.set_width(3);
            let view = message.view();
            assert_eq!((view.best.len(), view.words.len()), (numbers.len(), 3 * numbers.len()));
            assert!((0..numbers.len()).all(|at| view.keys.row(at)[0] == u32::from(numbers[at])));
        }
    }
}
