//! Packets in order of arrival: sent on one thread, received and checked on another.

use std::thread;

use firstmatch_net::plane::{Control, Message, Plane, PlaneCounters};

use super::fixture::{Fixture, Rows, packets};

/// Receives until the end, and asserts that packets come in order, with the oracle's answers; returns their number.
///
/// `each` gets the number of packets so far after each message.
pub(crate) fn receive(fixture: &Fixture, plane: &Plane<Rows>, mut each: impl FnMut(u64)) -> u64 {
    let (mut next, mut answers) = (0, vec![0; packets()]);
    while let Some(rows) = plane.recv() {
        let first = next as u32;
        next += rows.packets() as u64;
        assert!(rows.numbers.iter().copied().eq(first..next as u32), "{:?} after {first}", rows.numbers);
        fixture.check(&rows, &mut answers);
        each(next);
    }
    next
}

/// Guard that stops a plane, so that a failed assertion leaves no sender waiting for ever.
struct Stops<'a>(&'a Plane<Rows>);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Sends messages on a thread of its own, and receives them; `steer` is called before each.
pub(crate) fn carry(
    fixture: &Fixture,
    plane: &Plane<Rows>,
    messages: impl Iterator<Item = Rows> + Send,
    mut steer: impl FnMut(&Control) + Send,
    each: impl FnMut(u64),
) -> u64 {
    thread::scope(|scope| {
        scope.spawn(move || {
            for message in messages {
                steer(plane.control());
                if plane.send(message).is_err() {
                    break;
                }
            }
            plane.stop();
        });
        let _stops = Stops(plane);
        receive(fixture, plane, each)
    })
}

/// Asserts that all packets came in and out.
pub(crate) fn assert_whole(counters: &PlaneCounters, packets: u64) {
    assert_eq!((counters.accepted, counters.delivered, counters.lost, counters.dropped), (packets, packets, 0, 0));
    for stage in &counters.stages {
        assert_eq!((stage.sum().taken.packets, stage.sum().sent.packets), (packets, packets), "{}", stage.name);
    }
}
