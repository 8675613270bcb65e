//! Counters, drops, idle workers and the number of active ones.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use firstmatch_net::plane::{Dispatch, Link, Outputs, Pace, PlaneBuilder, Pulled, ResultOrder, RingEnd, SendError};

use super::fixture::{Checker, Maker, Packets, chain, gated, link_all, pass_on};

/// A lossy entrance drops what does not fit, and each packet is counted: accepted or dropped.
#[test]
fn drops_at_the_entrance_are_counted() {
    let gate = Arc::default();
    let mut builder = gated(&gate, 1, Link::lossy().capacity(4));
    builder.chunk(1);
    let plane = builder.start().expect("the plane is good");
    let (mut accepted, mut dropped) = (0, 0);
    for group in 0..100 {
        match plane.send(Packets { group, packets: vec![1, 2, 3] }) {
            Ok(()) => accepted += 3,
            Err(SendError::Full(message)) => dropped += message.packets.len() as u64,
            Err(SendError::Stopped(_)) => panic!("nobody stopped it"),
        }
    }
    // At most the ring and the message in hand are taken while the gate is shut.
    assert!((12..=15).contains(&accepted), "{accepted}");
    let counters = plane.counters();
    assert_eq!((counters.accepted, counters.dropped), (accepted, dropped));
    let entrance = counters.rings.iter().find(|ring| ring.from == RingEnd::Caller).expect("it has one");
    assert_eq!((entrance.dropped.packets, entrance.is_lossy), (dropped, true));
    assert_eq!((entrance.occupancy.samples(), entrance.occupancy.most()), (100, 4));
    assert!(entrance.occupancy.histogram()[10] >= 90, "most found it full");
    gate.store(true, Ordering::Release);
    plane.stop();
    let delivered: u64 = std::iter::from_fn(|| plane.recv()).map(|message| message.packets.len() as u64).sum();
    let counters = plane.join().expect("no fault");
    assert_eq!((delivered, counters.delivered, counters.lost), (accepted, accepted, 0));
}

/// By default a full ring makes the sender wait, which is counted, and drops nothing.
#[test]
fn a_full_ring_makes_the_sender_wait() {
    let gate: Arc<AtomicBool> = Arc::default();
    let plane = gated(&gate, 1, Link::new().capacity(2)).start().expect("the plane is good");
    thread::scope(|scope| {
        scope.spawn(|| (0..50).for_each(|group| plane.send(Packets { group, packets: vec![0] }).expect("it runs")));
        // The worker has one message in hand, maybe another that it took with the first, and the ring is full.
        let (mut queued, mut counters) = (plane.control().queued(0), plane.counters());
        while queued.messages < 2 || counters.rings[0].waits == 0 {
            thread::yield_now();
            (queued, counters) = (plane.control().queued(0), plane.counters());
        }
        gate.store(true, Ordering::Release);
        (0..50).for_each(|_| assert!(plane.recv().is_some()));
        assert!(queued.messages <= 3 && counters.queued(0).messages <= 3, "{queued:?}, {counters:?}");
    });
    assert_eq!((plane.counters().dropped, plane.control().queued(0).messages), (0, 0));
}

/// Workers without work block, once, and do not wake up again; so does a caller.
#[test]
fn idle_workers_block() {
    let plane = chain(&[2, 3], Link::new()).start().expect("the plane is good");
    let blocks = || plane.counters().stages.iter().map(|stage| stage.sum().blocks).sum::<u64>();
    let carry = |groups: u64| {
        for group in 0..groups {
            plane.send(Packets { group, packets: vec![0] }).expect("it runs");
            assert!(plane.recv().is_some());
        }
    };
    carry(50);
    // Blocks are counted when they end. An idle worker counts none, however long it waits.
    thread::sleep(Duration::from_millis(30));
    let before = blocks();
    thread::sleep(Duration::from_millis(30));
    assert_eq!(blocks(), before);
    carry(6);
    let after = blocks();
    assert!(after > before, "they had blocked: {before} and {after}");
}

/// Messages go to the active workers alone, and the others take part again when they are needed.
#[test]
fn only_active_workers_get_messages() {
    let link = Link::new().dispatch(Dispatch::RoundRobin);
    let plane = chain(&[4], link).start().expect("the plane is good");
    let taken = || plane.counters().stages[0].workers.iter().map(|worker| worker.taken.messages).collect::<Vec<_>>();
    let carry = || {
        for group in 0..40 {
            plane.send(Packets { group, packets: vec![0] }).expect("it runs");
            assert!(plane.recv().is_some());
        }
    };
    carry();
    assert_eq!(taken(), [10; 4]);
    plane.control().set_active(0, 2);
    carry();
    assert_eq!(taken(), [30, 30, 10, 10]);
    plane.control().set_active(0, 0);
    assert_eq!(plane.control().active(0), 1);
    plane.control().set_active(0, 9);
    assert_eq!(plane.control().active(0), 4);
    carry();
    assert_eq!(taken(), [40, 40, 20, 20]);
}

#[test]
fn the_order_is_described() {
    let flow = |workers: &[usize]| chain(workers, Link::new()).order();
    assert_eq!(
        [flow(&[1]), flow(&[1, 1]), flow(&[2]), flow(&[1, 3])].map(|order| order == ResultOrder::Arrival),
        [true, true, false, false]
    );
    assert_eq!(flow(&[2, 3]), ResultOrder::Flow);
    let turns = chain(&[2], Link::new().dispatch(Dispatch::RoundRobin)).order();
    assert_eq!(turns.to_string(), "results are in no order, because workers get messages in turn");
    let mut builder = PlaneBuilder::new();
    let first = builder.stage("first", 1, |_| pass_on);
    let second = builder.stage("second", 1, |_| pass_on);
    builder.enter(first, Link::new()).link(first, second, Link::new());
    builder.leave(first, Link::new()).leave(second, Link::new());
    assert_eq!(builder.order(), ResultOrder::NotKept { reason: "messages take several ways" });
    let mut builder = PlaneBuilder::<Packets>::new();
    let source = builder.source("memory", 2, |_| |_: &mut Outputs<Packets>| Pulled::End);
    builder.leave(source, Link::new());
    assert_eq!(builder.order(), ResultOrder::Share);
    let plane = builder.start().expect("the plane is good");
    assert_eq!((plane.recv().is_none(), *plane.order()), (true, ResultOrder::Share));
}

/// A paced source sends through the plane; a stop ends it, and whatever it had sent comes out.
#[test]
fn a_paced_source_is_stopped_and_drained() {
    let mut builder = PlaneBuilder::new();
    let source = builder.source("paced", 1, |_| {
        let (mut pace, mut maker) = (Pace::new(2_000_000), Maker::new(16));
        let mut owed = 0;
        move |out: &mut Outputs<Packets>| {
            owed += pace.take(64);
            let messages = owed / 16;
            owed %= 16;
            (0..messages).for_each(|_| assert!(out.send(maker.message())));
            Pulled::Packets(messages * 16)
        }
    });
    let hop = builder.stage("hop", 2, |_| pass_on);
    builder.link(source, hop, Link::new().capacity(4)).leave(hop, Link::new());
    let plane = builder.start().expect("the plane is good");
    let mut checker = Checker::new(1);
    while let Some(message) = plane.recv() {
        checker.check(&message);
        if checker.packets == 4000 {
            plane.stop();
        }
    }
    let counters = plane.join().expect("no fault");
    assert!(counters.accepted >= 4000);
    assert_eq!((counters.accepted, counters.lost), (counters.delivered, 0));
    assert_eq!(counters.delivered, checker.packets);
}

/// Side links drop rather than hold up the main way, and their messages are counted apart.
#[test]
fn a_lossy_link_holds_nobody_up() {
    let gate: Arc<AtomicBool> = Arc::default();
    let mut builder = PlaneBuilder::new();
    let main = builder.stage("main", 1, |_| {
        |message: Packets, out: &mut Outputs<Packets>| {
            let sample = Packets { group: message.group, packets: message.packets[..1].to_vec() };
            out.send_to(1, sample);
            pass_on(message, out);
        }
    });
    let held = Arc::clone(&gate);
    let aside = builder.stage("aside", 1, move |_| {
        let gate = Arc::clone(&held);
        move |_: Packets, _: &mut Outputs<Packets>| {
            while !gate.load(Ordering::Acquire) {
                thread::yield_now();
            }
        }
    });
    link_all(&mut builder, &[main], Link::new());
    builder.link(main, aside, Link::lossy().capacity(3));
    let plane = builder.start().expect("the plane is good");
    let (mut maker, mut checker) = (Maker::new(10), Checker::new(1));
    for _ in 0..100 {
        plane.send(maker.message()).expect("it runs");
        checker.check(&plane.recv().expect("the other stage holds nobody up"));
    }
    gate.store(true, Ordering::Release);
    let counters = plane.join().expect("no fault");
    let ring = counters.rings.iter().find(|ring| ring.is_lossy).expect("it has one");
    assert!(ring.dropped.messages >= 64, "{ring:?}");
    assert_eq!(ring.sent.messages + ring.dropped.messages, 100);
    assert_eq!((ring.queued().messages, counters.lost, counters.delivered), (0, 0, 1000));
}
