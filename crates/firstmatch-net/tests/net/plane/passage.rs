//! Passage through chains: everything comes out, once and in order.

use std::sync::{Arc, Mutex};
use std::thread;

use firstmatch_net::plane::{Dispatch, Link, Outputs, Pinning, Plane, PlaneBuilder, Pulled, ResultOrder, SendError};

use super::fixture::{Checker, Maker, Packets, chain, hop, pass_on};

/// Sends packets from one thread and checks them on another; returns what the plane counted.
fn carry(builder: &PlaneBuilder<Packets>, hops: u64, packets: u64, batch: usize) {
    let plane = builder.start().expect("the plane is good");
    let mut checker = Checker::new(hops);
    let messages = packets.div_ceil(batch as u64);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut maker = Maker::new(batch);
            for _ in 0..messages {
                plane.send(maker.message()).expect("the plane runs");
            }
            plane.stop();
        });
        while let Some(message) = plane.recv() {
            checker.check(&message);
        }
    });
    let counters = plane.join().expect("no fault");
    let sent = messages * batch as u64;
    assert_eq!((counters.accepted, counters.delivered, checker.packets), (sent, sent, sent));
    assert_eq!((counters.dropped, counters.lost), (0, 0));
    for stage in &counters.stages {
        let sum = stage.sum();
        assert_eq!((sum.taken.packets, sum.sent.packets, sum.lost.packets), (sent, sent, 0), "{}", stage.name);
        assert_eq!(sum.taken.messages, messages);
    }
    for ring in &counters.rings {
        assert_eq!((ring.sent, ring.queued().messages, ring.dropped.messages), (ring.received, 0, 0), "{ring:?}");
        assert_eq!(ring.occupancy.samples(), ring.sent.messages);
        assert!(ring.occupancy.most() <= ring.capacity && ring.occupancy.series().len() < 256);
    }
}

/// Chains of every shape: rings of one message, more workers before than behind and the reverse, more threads than
/// cores.
#[test]
fn nothing_is_lost_doubled_or_reordered() {
    for workers in [&[1][..], &[1, 1], &[2, 1], &[1, 2], &[2, 3, 2], &[3, 1, 4], &[12, 12]] {
        for (capacity, batch) in [(1, 1), (1, 64), (2, 7), (64, 32)] {
            let builder = chain(workers, Link::new().capacity(capacity));
            carry(&builder, workers.len() as u64, 4000, batch);
        }
    }
}

/// A long run: 2 million packets, or as many as `PLANE_PACKETS` says (`./ci.sh plane`).
#[test]
fn nothing_is_lost_in_a_long_run() {
    let packets = std::env::var("PLANE_PACKETS").map_or(2_000_000, |text| text.parse().expect("it is a number"));
    carry(&chain(&[2, 2, 1], Link::new().capacity(16)), 3, packets, 128);
}

#[test]
fn a_lane_keeps_order_too() {
    let lane = Link::new().dispatch(Dispatch::Lane).capacity(3);
    let mut builder = PlaneBuilder::new();
    let first = builder.stage("first", 4, |_| pass_on);
    let second = builder.stage("second", 2, |_| pass_on);
    builder.enter(first, Link::new()).link(first, second, lane).leave(second, Link::new());
    assert_eq!(builder.order(), ResultOrder::Flow);
    carry(&builder, 2, 20_000, 16);
    // Each worker of the first stage has used one ring to the second.
    let plane = builder.start().expect("the plane is good");
    let mut maker = Maker::new(16);
    for _ in 0..120 {
        plane.send(maker.message()).expect("the plane runs");
        assert!(plane.recv().is_some());
    }
    let counters = plane.counters();
    let used = counters.rings.iter().filter(|ring| ring.capacity == 3 && ring.sent.messages > 0).count();
    assert_eq!(used, 4);
}

/// Workers that hold messages back for different times cannot change the order of arrival.
#[test]
fn results_come_in_order_of_arrival() {
    for (workers, window, capacity) in [(1, 1, 1), (3, 1, 4), (3, 8, 2), (4, 64, 1), (2, 3, 64)] {
        let mut builder = PlaneBuilder::new();
        let stage = builder.stage("uneven", workers, |seat| {
            let worker = seat.worker;
            move |mut message: Packets, out: &mut Outputs<Packets>| {
                (0..worker * 3 + message.packets.len() % 5).for_each(|_| thread::yield_now());
                hop(&mut message);
                out.send(message);
            }
        });
        let link = Link::new().capacity(capacity).dispatch(Dispatch::RoundRobin);
        builder.enter(stage, link).leave(stage, link).in_order_of_arrival(window);
        assert_eq!(builder.order(), ResultOrder::Arrival);
        let plane = builder.start().expect("the plane is good");
        let message = |number: u64| Packets { group: number, packets: vec![number; (number % 7) as usize] };
        thread::scope(|scope| {
            scope.spawn(|| {
                (0..3000).for_each(|number| plane.send(message(number)).expect("the plane runs"));
                plane.stop();
            });
            let groups: Vec<u64> = std::iter::from_fn(|| plane.recv()).map(|message| message.group).collect();
            assert!(groups.iter().copied().eq(0..3000), "{workers} workers, window {window}");
        });
        plane.join().expect("no fault");
    }
}

/// One thread that sends and receives: a full window says so, and the memory for early messages is bounded.
#[test]
fn a_full_window_takes_no_more() {
    let mut builder = chain(&[2], Link::new().capacity(64).dispatch(Dispatch::RoundRobin));
    builder.in_order_of_arrival(5);
    let plane = builder.start().expect("the plane is good");
    let (mut maker, mut checker) = (Maker::new(3), Checker::new(1));
    for _ in 0..200 {
        let mut sent = 0;
        loop {
            let message = maker.message();
            match plane.try_send(message) {
                Ok(()) => sent += 1,
                Err(SendError::Full(_)) => break,
                Err(SendError::Stopped(_)) => panic!("nobody stopped it"),
            }
        }
        assert_eq!(sent, 5);
        // The refused message was not taken, so its numbers come again.
        maker = Maker::new(3);
        checker = Checker::new(1);
        for _ in 0..5 {
            checker.check(&plane.recv().expect("five are on their way"));
        }
        assert!(plane.try_recv().is_none());
    }
    assert_eq!(checker.packets, 15);
    assert_eq!(plane.counters().dropped, 0);
}

/// A stop ends the input at any moment, and everything accepted comes out.
#[test]
fn a_stop_at_any_moment_drains() {
    for round in 0..60u64 {
        let workers = [&[2][..], &[1, 2], &[2, 2, 2]][round as usize % 3];
        let plane = chain(workers, Link::new().capacity(1 << (round % 5))).start().expect("the plane is good");
        let mut checker = Checker::new(workers.len() as u64);
        thread::scope(|scope| {
            let sending = scope.spawn(|| {
                let mut maker = Maker::new(8);
                let mut sent = 0u64;
                while plane.send(maker.message()).is_ok() {
                    sent += 1;
                }
                sent
            });
            scope.spawn(|| {
                // The moment is a count, not a time, so that it differs from round to round.
                while plane.counters().delivered < round * 24 {
                    thread::yield_now();
                }
                plane.stop();
            });
            while let Some(message) = plane.recv() {
                checker.check(&message);
            }
            let sent = sending.join().expect("no panic") * 8;
            assert_eq!(checker.packets, sent);
        });
        assert!(matches!(plane.send(Packets::default()), Err(SendError::Stopped(_))));
        let counters = plane.join().expect("no fault");
        assert_eq!((counters.accepted, counters.delivered, counters.lost), (checker.packets, checker.packets, 0));
    }
}

/// What the caller does not receive is lost and counted, and nothing hangs.
#[test]
fn a_caller_who_leaves_is_counted() {
    for received in [0, 1, 20] {
        let plane = chain(&[2, 2], Link::new().capacity(2)).start().expect("the plane is good");
        let mut maker = Maker::new(4);
        let mut accepted = 0;
        thread::scope(|scope| {
            scope.spawn(|| (0..received).for_each(|_| drop(plane.recv())));
            while accepted < 4 * (received + 1) {
                plane.send(maker.message()).expect("the plane runs");
                accepted += 4;
            }
        });
        let counters = plane.join().expect("no fault");
        assert_eq!((counters.accepted, counters.delivered, counters.lost), (accepted, received * 4, 4));
    }
    // A plane that is dropped ends its threads.
    let plane: Plane<Packets> = chain(&[2, 2], Link::new()).start().expect("the plane is good");
    plane.send(Maker::new(4).message()).expect("the plane runs");
    let control = plane.control().clone();
    drop(plane);
    let counters = control.counters();
    assert_eq!((counters.accepted, counters.delivered + counters.lost), (4, 4));
}

#[test]
fn pinned_workers_carry_as_well() {
    let mut builder = chain(&[2, 1], Link::new());
    builder.pin(Pinning::Spread);
    carry(&builder, 2, 5000, 10);
}

/// Workers of a source share packets, and messages come out by their numbers, also after a stop or a caller who leaves.
#[test]
fn messages_of_a_source_come_in_order() {
    for (workers, window, capacity, stops, leaves) in [
        (1, 1, 1, false, false),
        (3, 2, 1, false, false),
        (4, 64, 8, false, false),
        (3, 5, 2, true, false),
        (2, 3, 1, true, true),
    ] {
        let next = Arc::new(Mutex::new(0));
        let shared = Arc::clone(&next);
        let mut builder = PlaneBuilder::new();
        let source = builder.source("memory", workers, move |seat| {
            let (next, pause) = (Arc::clone(&shared), seat.worker * 3);
            move |out: &mut Outputs<Packets>| {
                let number = {
                    let mut next = next.lock().expect("no panic");
                    if *next == 4000 {
                        return Pulled::End;
                    }
                    *next += 1;
                    *next - 1
                };
                (0..pause + number as usize % 5).for_each(|_| thread::yield_now());
                out.number(number);
                out.send(Packets { group: number, packets: vec![number; (number % 7) as usize] });
                Pulled::Packets((number % 7) as usize)
            }
        });
        let hop = builder.stage("hop", 2, |_| pass_on);
        let link = Link::new().capacity(capacity).dispatch(Dispatch::RoundRobin);
        builder.link(source, hop, link).leave(hop, link).in_order_of_arrival(window);
        let plane = builder.start().expect("the plane is good");
        let mut groups = 0;
        while let Some(message) = plane.recv() {
            assert_eq!(message.group, groups, "{workers} workers, window {window}");
            groups += 1;
            if stops && groups == 1000 {
                plane.stop();
                if leaves {
                    break;
                }
            }
        }
        let counters = plane.join().expect("no fault");
        assert_eq!(counters.accepted, counters.delivered + counters.lost);
        assert!(leaves || counters.lost == 0 && groups == *next.lock().expect("no panic"));
    }
}
