//! Stages that gather packets of several messages, and rings whose capacity is in packets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use firstmatch_net::plane::{Dispatch, Link, Outputs, PlaneBuilder, Work};

use super::fixture::{Checker, Maker, Packets, chain, gated, hop, link_all, pass_on};

/// Work that gathers packets until it has `batch`, or nothing more comes.
struct Gather {
    batch: usize,
    kept: Vec<u64>,
    /// Number of messages after which it panics.
    left: usize,
}

impl Gather {
    fn flush(&mut self, out: &mut Outputs<Packets>) {
        if !self.kept.is_empty() {
            let mut message = Packets { group: 0, packets: std::mem::take(&mut self.kept) };
            hop(&mut message);
            out.send(message);
        }
    }
}

impl Work<Packets> for Gather {
    fn work(&mut self, message: Packets, out: &mut Outputs<Packets>) {
        self.kept.extend(message.packets);
        assert!(self.left > 0, "enough");
        self.left -= 1;
        if self.kept.len() >= self.batch {
            self.flush(out);
        }
    }

    fn idle(&mut self, out: &mut Outputs<Packets>) {
        self.flush(out);
    }

    fn kept(&self) -> usize {
        self.kept.len()
    }

    fn end(&mut self, out: &mut Outputs<Packets>) {
        self.flush(out);
    }
}

/// Returns a builder of two stages, the second of which gathers, from the caller to the caller.
fn gathering(batch: usize, left: usize) -> PlaneBuilder<Packets> {
    let mut builder = PlaneBuilder::new();
    let first = builder.stage("first", 2, |_| pass_on);
    let gather = builder.stage("gather", 2, move |_| Gather { batch, kept: Vec::new(), left });
    link_all(&mut builder, &[first, gather], Link::new().capacity(16));
    builder
}

/// A few packets come out at once, although the stage waits for more.
#[test]
fn an_idle_stage_sends_what_it_has() {
    let plane = gathering(1000, usize::MAX).start().expect("the plane is good");
    let (mut maker, mut checker) = (Maker::new(3), Checker::new(2));
    for round in 1..=200 {
        plane.send(maker.message()).expect("it runs");
        while checker.packets < 3 * round {
            checker.check(&plane.recv().expect("it does not wait for more packets"));
        }
    }
    plane.stop();
    assert!(plane.recv().is_none());
    let counters = plane.join().expect("no fault");
    assert_eq!((counters.accepted, counters.delivered, counters.lost), (600, 600, 0));
}

/// Gathered packets are neither lost nor doubled, and flows stay in order, however the plane ends.
#[test]
fn gathered_packets_are_delivered_or_counted() {
    for (batch, left, stops_at) in [(1, usize::MAX, 0), (64, usize::MAX, 20_000), (64, usize::MAX, 777), (64, 100, 0)] {
        let plane = gathering(batch, left).start().expect("the plane is good");
        let mut checker = Checker::new(2);
        let mut messages = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut maker = Maker::new(5);
                for _ in 0..8000 {
                    if plane.send(maker.message()).is_err() {
                        break;
                    }
                }
                plane.stop();
            });
            while let Some(message) = plane.recv() {
                checker.check(&message);
                messages += 1;
                if stops_at > 0 && checker.packets >= stops_at {
                    plane.stop();
                }
            }
        });
        let counters = match plane.join() {
            Ok(counters) => {
                assert_eq!((left, counters.lost), (usize::MAX, 0));
                counters
            }
            Err(error) => {
                assert_eq!((left, error.panic_text()), (100, Some("enough")));
                error.counters().expect("it ran").clone()
            }
        };
        assert_eq!(counters.delivered, checker.packets);
        assert_eq!(counters.accepted, counters.delivered + counters.lost, "{batch} a batch, {left} messages");
        assert!(batch == 1 || messages < counters.accepted / 5 + 1, "{messages} messages of {}", counters.accepted);
    }
}

/// A lossy ring of 10 packets takes three messages of 3, beside those in hand, however many a worker takes out.
#[test]
fn a_ring_takes_as_many_packets_as_it_says() {
    let gate: Arc<AtomicBool> = Arc::default();
    let plane = gated(&gate, 1, Link::lossy().capacity(64).most_packets(10)).start().expect("the plane is good");
    let mut accepted = 0;
    for group in 0..100 {
        accepted += u64::from(plane.send(Packets { group, packets: vec![0; 3] }).is_ok());
        assert!(plane.control().queued(0).packets <= 10);
    }
    assert!((3..=4).contains(&accepted), "{accepted} messages");
    assert_eq!(plane.counters().rings[0].most_packets, Some(10));
    gate.store(true, Ordering::Release);
    (0..accepted).for_each(|_| assert!(plane.recv().is_some()));
    // A message of more packets than the ring takes comes through alone.
    plane.send(Packets { group: 1, packets: vec![0; 50] }).expect("the ring is empty");
    assert_eq!(plane.recv().map(|message| message.packets.len()), Some(50));
    let counters = plane.join().expect("no fault");
    assert_eq!((counters.accepted, counters.lost), (3 * accepted + 50, 0));
    assert_eq!(counters.dropped, 3 * (100 - accepted));
}

/// Rings share the packets of their link, by the workers that are active, and no ring holds more than its share.
#[test]
fn rings_of_active_workers_share_packets() {
    let gate: Arc<AtomicBool> = Arc::default();
    let plane = gated(&gate, 3, Link::lossy().capacity(64).dispatch(Dispatch::RoundRobin).packets_in_all(60));
    let plane = plane.start().expect("the plane is good");
    let (control, mut accepted) = (plane.control(), 3);
    for (active, most) in [(1, 60), (3, 20), (2, 30)] {
        control.set_active(0, active);
        assert!(plane.counters().rings[..3].iter().all(|ring| ring.most_packets == Some(most)), "{active} active");
    }
    let message = |group| Packets { group, packets: vec![0; 3] };
    // Each worker has a message in hand.
    control.set_active(0, 3);
    (0..3).for_each(|group| plane.send(message(group)).expect("the rings are empty"));
    while control.queued(0).messages > 0 {
        thread::yield_now();
    }
    // Shares of 20 packets take 6 messages each. The one active worker then has all 60, beside what others still hold.
    for (active, queued) in [(3, [18, 18, 18]), (1, [60, 18, 18])] {
        control.set_active(0, active);
        accepted += (0..100).filter(|&group| plane.send(message(group)).is_ok()).count();
        let rings = &plane.counters().rings[..3];
        assert!(rings.iter().map(|ring| ring.queued().packets).eq(queued), "{rings:?}");
    }
    gate.store(true, Ordering::Release);
    (0..accepted).for_each(|_| assert!(plane.recv().is_some()));
    assert_eq!(plane.join().expect("no fault").lost, 0);
}

/// Senders that wait for packets to be worked on are woken, and nothing is lost.
#[test]
fn a_sender_waits_for_room_for_packets() {
    for (most, batch, workers) in [(1, 3, [2, 1]), (7, 3, [2, 3]), (100, 7, [1, 2])] {
        let plane = chain(&workers, Link::new().most_packets(most)).start().expect("the plane is good");
        let mut checker = Checker::new(2);
        let rings = [workers[0], workers[0] * workers[1]];
        let mut too_many = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut maker = Maker::new(batch);
                (0..5000).for_each(|_| plane.send(maker.message()).expect("it runs"));
                plane.stop();
            });
            while let Some(message) = plane.recv() {
                checker.check(&message);
                for (stage, rings) in rings.into_iter().enumerate() {
                    // A panic here would leave the other thread waiting for ever.
                    let queued = plane.control().queued(stage).packets;
                    too_many.extend((queued > rings as u64 * most.max(batch as u64)).then_some((stage, queued)));
                }
            }
        });
        let counters = plane.join().expect("no fault");
        assert_eq!((checker.packets, counters.lost), (5000 * batch as u64, 0));
        assert!(too_many.is_empty(), "packets by stage: {too_many:?}");
    }
}
