//! Frames with numbers, sent at one end and received at the other, and the threads of a bridge between.

use std::io::{PipeReader, PipeWriter, pipe};
use std::thread::{self, JoinHandle};

use firstmatch_live::packet::{Ring, RingConfig, Socket};
use firstmatch_live::path::Path;
use firstmatch_live::xdp::Forwarder;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};

use crate::namespace::interface;

/// Number of the frame that ends a run. It is kept.
pub(crate) const LAST: u32 = u32::MAX - 1;
/// Time in seconds after which a run has failed.
const PATIENCE: i64 = 20;

/// Returns a frame of `bytes` bytes with a number, of a type that hosts ignore.
pub(crate) fn frame(number: u32, bytes: usize) -> Vec<u8> {
    let mut frame = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xB5][..], &number.to_be_bytes()].concat();
    let rest = (frame.len()..bytes).map(|place| (number as usize + place) as u8);
    frame.extend(rest);
    frame
}

/// Returns a frame of 64 bytes with a VLAN tag.
pub(crate) fn tagged(number: u32) -> Vec<u8> {
    let mut frame = frame(number, 60);
    frame.splice(12..12, [0x81, 0x00, 0x60, 0x2A]);
    frame
}

/// Returns the number of a frame, with or without a tag.
pub(crate) fn number(frame: &[u8]) -> u32 {
    let at = if frame[12..14] == [0x81, 0] { 18 } else { 14 };
    u32::from_be_bytes(frame[at..at + 4].try_into().unwrap())
}

/// Socket that sends at one interface.
pub(crate) struct Sender(Socket);

impl Sender {
    pub(crate) fn open(name: &str) -> Self {
        let socket = Socket::open().unwrap();
        socket.bind(interface(name).index(), false).unwrap();
        Self(socket)
    }

    /// Sends frames. One that finds the queue full is sent again.
    pub(crate) fn send(&self, frames: impl IntoIterator<Item = Vec<u8>>) {
        for frame in frames {
            while let Err(error) = send(&self.0, &frame, SendFlags::empty()) {
                assert_eq!(error, Errno::NOBUFS);
                thread::yield_now();
            }
        }
    }
}

/// Sends frames at the interface of a name.
pub(crate) fn send_all(name: &str, frames: impl IntoIterator<Item = Vec<u8>>) {
    Sender::open(name).send(frames);
}

/// Frames that arrive at the interface of a name, up to [`LAST`].
pub(crate) struct Sink(Ring);

impl Sink {
    pub(crate) fn open(name: &str) -> Self {
        let ring = Ring::open(&interface(name), &RingConfig::default()).unwrap().remove(0);
        ring.start().unwrap();
        Self(ring)
    }

    /// Returns all frames until the last one, without it.
    pub(crate) fn frames(mut self) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        loop {
            while self.0.take() {
                all.extend(self.0.frames().iter().map(|frame| self.0.bytes(frame).to_vec()));
                self.0.finish(|_, _| false);
            }
            if all.last().is_some_and(|frame| number(frame) == LAST) {
                assert_eq!(self.0.meter().statistics().unwrap().lost, 0, "frames that the sink lost");
                all.pop();
                return all;
            }
            assert!(wait(self.0.ready(), None), "{} frames came, but not the last", all.len());
        }
    }
}

/// Waits until one of two file descriptors is ready; false if none is for too long.
pub(crate) fn wait(first: impl std::os::fd::AsFd, second: Option<&PipeReader>) -> bool {
    let patience = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
    let mut ready = vec![PollFd::new(&first, PollFlags::IN)];
    ready.extend(second.map(|second| PollFd::new(second, PollFlags::IN)));
    poll(&mut ready, Some(&patience)).unwrap() > 0
}

/// Counts of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) sent: u64,
    pub(crate) denied: u64,
    pub(crate) lost: u64,
}

/// Thread of a direction, which keeps frames of even numbers.
pub(crate) struct Running {
    thread: JoinHandle<(Forwarder, Totals)>,
    stop: PipeWriter,
}

impl Running {
    pub(crate) fn start(mut forwarder: Forwarder) -> Self {
        let (end, stop) = pipe().unwrap();
        forwarder.start().unwrap();
        let thread = thread::spawn(move || {
            let mut totals = Totals::default();
            loop {
                while step(&mut forwarder, &mut totals) {}
                let tick = Timespec { tv_sec: PATIENCE, tv_nsec: 0 };
                let tick = if forwarder.is_congested() { Timespec { tv_sec: 0, tv_nsec: 1_000_000 } } else { tick };
                let mut ready =
                    [PollFd::from_borrowed_fd(forwarder.ready(), PollFlags::IN), PollFd::new(&end, PollFlags::IN)];
                poll(&mut ready, Some(&tick)).unwrap();
                if !ready[1].revents().is_empty() {
                    forwarder.stop().unwrap();
                    while step(&mut forwarder, &mut totals) {}
                    return (forwarder, totals);
                }
            }
        });
        Self { thread, stop }
    }

    /// Stops the direction, and returns what it did.
    pub(crate) fn finish(self) -> (Forwarder, Totals) {
        drop(self.stop);
        self.thread.join().unwrap()
    }
}

/// Forwards the frames that are there. Returns whether there were any.
pub(crate) fn step(forwarder: &mut Forwarder, totals: &mut Totals) -> bool {
    let taken = forwarder.take();
    let kept: Vec<bool> =
        forwarder.frames().iter().map(|frame| number(forwarder.bytes(frame)).is_multiple_of(2)).collect();
    let sent = forwarder.finish(|place, _| kept[place]);
    totals.denied += kept.iter().filter(|kept| !**kept).count() as u64;
    totals.sent += sent.sent;
    totals.lost += sent.lost;
    taken
}
