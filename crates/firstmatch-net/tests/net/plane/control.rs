//! Controllers, which change the number of active workers while packets go through.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use firstmatch_net::plane::{Control, Controller, Dispatch, Link};

use super::fixture::{Maker, Packets, chain, gated};

/// Adds a worker above 100 queued packets, and takes one away after five ticks without any.
#[derive(Default)]
struct ByQueue {
    empty: u32,
}

impl Controller for ByQueue {
    fn tick(&mut self, control: &Control) {
        let (queued, active) = (control.queued(0).packets, control.active(0));
        self.empty = if queued == 0 { self.empty + 1 } else { 0 };
        if queued > 100 {
            control.set_active(0, active + 1);
        } else if self.empty == 5 {
            self.empty = 0;
            control.set_active(0, active - 1);
        }
    }
}

/// Ticks alone decide, so that a test needs no clock.
#[test]
fn a_controller_follows_the_queue() {
    let gate: Arc<AtomicBool> = Arc::default();
    let enter = Link::new().dispatch(Dispatch::RoundRobin).capacity(64);
    let plane = gated(&gate, 4, enter).start().expect("the plane is good");
    let (control, mut controller) = (plane.control(), ByQueue::default());
    control.set_active(0, 1);
    let mut actives = Vec::new();
    for _ in 0..6 {
        let mut maker = Maker::new(10);
        (0..8).for_each(|_| plane.send(maker.message()).expect("there is room"));
        controller.tick(control);
        actives.push(control.active(0));
    }
    assert_eq!(actives, [1, 2, 3, 4, 4, 4]);
    gate.store(true, Ordering::Release);
    (0..48).for_each(|_| assert!(plane.recv().is_some()));
    let fewer: Vec<usize> = (0..20)
        .map(|_| {
            controller.tick(control);
            control.active(0)
        })
        .collect();
    assert_eq!([3, 4, 9, 14, 19].map(|tick| fewer[tick]), [4, 3, 2, 1, 1]);
    assert_eq!((control.workers(0), plane.join().expect("no fault").lost), (4, 0));
}

/// Nothing is lost, doubled or reordered while a controller adds and removes workers all the time.
#[test]
fn workers_come_and_go_all_the_time() {
    let link = Link::new().dispatch(Dispatch::RoundRobin).capacity(4).most_packets(50);
    for workers in [[4, 3], [1, 4]] {
        let mut builder = chain(&workers, link);
        let mut plane = builder.in_order_of_arrival(64).start().expect("the plane is good");
        let ticks = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&ticks);
        let controller = move |control: &Control| {
            let tick = counted.fetch_add(1, Ordering::Relaxed);
            for (stage, &most) in workers.iter().enumerate() {
                control.set_active(stage, 1 + (tick as usize * 7 + stage) % most);
            }
        };
        plane.control_by(Duration::from_micros(20), controller).expect("a thread");
        let sent = AtomicU64::new(0);
        let mut next = 0;
        thread::scope(|scope| {
            scope.spawn(|| {
                // Until it has seen many changes, and no less than some messages.
                while ticks.load(Ordering::Relaxed) < 500 || sent.load(Ordering::Relaxed) < 20_000 {
                    let group = sent.fetch_add(1, Ordering::Relaxed);
                    plane.send(Packets { group, packets: vec![0; 5] }).expect("it runs");
                }
                plane.stop();
            });
            while let Some(message) = plane.recv() {
                assert_eq!((message.group, message.packets.len()), (next, 5));
                next += 1;
            }
        });
        let counters = plane.join().expect("no fault");
        assert_eq!((next, counters.lost), (sent.into_inner(), 0));
        let shares = counters.stages.iter().flat_map(|stage| &stage.workers);
        assert!(shares.clone().all(|worker| worker.taken.messages > 0), "each worker was active for a while");
    }
}

/// Messages before a worker that is active no more come out, also after a stop.
#[test]
fn parked_workers_drain() {
    let gate: Arc<AtomicBool> = Arc::default();
    let enter = Link::new().dispatch(Dispatch::RoundRobin);
    let plane = gated(&gate, 4, enter).start().expect("the plane is good");
    let mut maker = Maker::new(2);
    (0..40).for_each(|_| plane.send(maker.message()).expect("there is room"));
    plane.control().set_active(0, 1);
    plane.stop();
    gate.store(true, Ordering::Release);
    assert_eq!(std::iter::from_fn(|| plane.recv()).count(), 40);
    let counters = plane.join().expect("no fault");
    assert_eq!((counters.delivered, counters.lost), (80, 0));
    assert!(counters.stages[0].workers.iter().all(|worker| worker.taken.messages == 10));
}

#[test]
fn a_panic_of_a_controller_ends_the_plane() {
    let mut plane = chain(&[2], Link::new()).start().expect("the plane is good");
    let mut ticks = 0;
    let controller = move |_: &Control| {
        ticks += 1;
        assert!(ticks < 3, "at tick {ticks}");
    };
    plane.control_by(Duration::from_millis(1), controller).expect("a thread");
    assert!(plane.recv().is_none(), "the fault ends the wait");
    let error = plane.join().expect_err("the controller panicked");
    assert_eq!((error.worker(), error.panic_text()), (Some(("controller", 0)), Some("at tick 3")));
    // A plane that is dropped ends its controllers, too.
    let mut plane = chain(&[1], Link::new()).start().expect("the plane is good");
    plane.control_by(Duration::from_secs(3600), |_: &Control| ()).expect("a thread");
    drop(plane);
}
