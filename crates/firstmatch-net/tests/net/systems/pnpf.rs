//! Pnpf: no packet is lost, doubled, reordered or answered wrongly, while workers are added and retired.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch_core::KeyBuf;
use firstmatch_core::engines::interval_tree::{self, Npf};
use firstmatch_net::plane::{Control, Controller, Deal, Link, Plane, PlaneBuilder, ResultOrder, Seat, StageId};
use firstmatch_net::systems::Step;
use firstmatch_net::systems::copies::{self, Fetched};
use firstmatch_net::systems::pnpf::{self, Config, QueueController};
use firstmatch_testkit::rng::Rng;

use super::fixture::{Fixture, Rows, packets};
use super::ordered::{assert_whole, carry, receive};

fn fixture() -> Arc<Fixture> {
    Arc::new(Fixture::with(5, 200, 2500, 2))
}

fn npf(fixture: &Fixture, config: &interval_tree::Config) -> Arc<Npf> {
    Arc::new(Npf::build(&fixture.lowered, config).expect("no budget"))
}

/// Returns the step that fills the rows of messages, which come with the numbers of packets alone.
fn rows(fixture: &Arc<Fixture>, width: usize) -> Step<Rows> {
    let fixture = Arc::clone(fixture);
    Step::new("rows", move |_: &Seat| {
        let fixture = Arc::clone(&fixture);
        move |mut rows: Rows| {
            for &number in &rows.numbers {
                let row = fixture.keys.keys().row(number as usize % fixture.keys.len()).to_vec();
                rows.keys.push().copy_from_slice(&row);
            }
            rows.best = vec![None; rows.numbers.len()];
            // The steps set their handles, whatever stands there.
            rows.words = vec![0xA5A5_A5A5_A5A5_A5A5; width * rows.numbers.len()];
            Some(rows)
        }
    })
}

/// Returns messages of `batch` packets, numbered from 0; the last one has the rest.
fn messages(fixture: &Fixture, packets: usize, batch: usize) -> impl Iterator<Item = Rows> + Send {
    let schema = fixture.schema.clone();
    (0..packets as u32).step_by(batch).map(move |first| {
        let numbers = (first..packets.min(first as usize + batch) as u32).collect();
        let keys = KeyBuf::new(&schema);
        Rows { flow: u64::from(first), keys, numbers, best: Vec::new(), words: Vec::new() }
    })
}

/// Returns the steps of Pnpf over rules in the form `config`.
fn steps(fixture: &Arc<Fixture>, config: &interval_tree::Config) -> Vec<Step<Rows>> {
    let engine = npf(fixture, config);
    pnpf::steps(&engine, rows(fixture, pnpf::width(&engine)))
}

fn start(steps: &[Step<Rows>], config: &Config) -> (Plane<Rows>, Vec<StageId>) {
    let mut builder = PlaneBuilder::new();
    let stages = pnpf::stages(&mut builder, steps, config);
    builder.enter(stages[0], config.link());
    let plane = builder.start().expect("the plane is good");
    assert_eq!(*plane.order(), ResultOrder::Arrival);
    (plane, stages)
}

/// Packets through pools of workers, of which some are added and retired at every message.
#[test]
fn nothing_is_lost_doubled_or_reordered() {
    let (fixture, all) = (fixture(), packets());
    for (pools, batch, engine) in [
        ([1, 3, 1], 20, interval_tree::Config::paper()),
        ([2, 2, 2], 32, interval_tree::Config::default()),
        ([3, 1, 2], 7, interval_tree::Config::defended()),
    ] {
        let mut config = Config::paper();
        [config.rows, config.word, config.decide] = pools;
        let (plane, stages) = start(&steps(&fixture, &engine), &config);
        assert_eq!(stages.len(), 7);
        let mut rng = Rng::new(9);
        let steer = |control: &Control| {
            for stage in &stages {
                control.set_active(stage.index(), 1 + rng.below(control.workers(stage.index())));
            }
        };
        assert_eq!(carry(&fixture, &plane, messages(&fixture, all, batch), steer, |_| ()), all as u64);
        let counters = plane.join().expect("no fault");
        assert_whole(&counters, all as u64);
        for stage in &counters.stages {
            assert!(stage.workers.iter().all(|worker| worker.taken.messages > 0), "{}", stage.name);
        }
    }
}

/// The replicated form beside it: each worker does the whole lookup, or all steps of the pipeline, for itself.
#[test]
fn copies_answer_in_order_of_arrival() {
    let (fixture, all) = (fixture(), packets());
    let config = interval_tree::Config::paper();
    let whole = copies::whole(npf(&fixture, &config));
    let shared = pnpf::shared(&npf(&fixture, &config));
    for steps in [vec![rows(&fixture, 0), whole], vec![rows(&fixture, 0), shared], steps(&fixture, &config)] {
        let messages: Arc<Vec<Rows>> = Arc::new(messages(&fixture, all, 20).collect());
        let deal = Arc::new(Deal::new(messages.len(), 1, 1));
        let mut builder = PlaneBuilder::new();
        let stage = copies::source(&mut builder, "copies", 3, &steps, move |_| {
            let (deal, messages) = (Arc::clone(&deal), Arc::clone(&messages));
            move || {
                let at = deal.next().map(|range| range.start);
                at.map_or(Fetched::End, |at| Fetched::Numbered(at as u64, messages[at].clone()))
            }
        });
        let plane = builder.leave(stage, Link::new()).in_order_of_arrival(64).start().expect("the plane is good");
        assert_eq!(receive(&fixture, &plane, |_| ()), all as u64);
        assert_whole(&plane.join().expect("no fault"), all as u64);
    }
}

/// After a stop at any moment everything accepted comes out.
#[test]
fn a_stop_drains_the_stages() {
    let fixture = fixture();
    for stop_at in [0, 1, 300, 2000, 5000, 10_000, 20_000, 30_000] {
        let (plane, _) = start(&steps(&fixture, &interval_tree::Config::default()), &Config::paper());
        let mut is_stopped = false;
        let each = |packets| {
            if packets >= stop_at && !is_stopped {
                is_stopped = true;
                plane.stop();
            }
        };
        let sent = carry(&fixture, &plane, messages(&fixture, packets(), 20), |_| (), each);
        assert!(is_stopped, "some packets came out");
        assert_whole(&plane.join().expect("no fault"), sent);
        assert!(sent < packets() as u64, "it stopped before the end");
    }
}

/// A panic of a worker ends the plane, and counts what was on its way.
#[test]
fn a_panic_in_each_stage_ends_the_plane() {
    let fixture = fixture();
    for (stage, after) in [(0, 0), (0, 40), (1, 3), (3, 0), (3, 200), (5, 40), (6, 0), (6, 300)] {
        let mut steps = steps(&fixture, &interval_tree::Config::paper());
        let broken = steps[stage].clone().wrapped(move |_: &Seat, mut work| {
            let mut left = after;
            move |rows: Rows| {
                assert!(left > 0, "out of luck");
                left -= 1;
                work(rows)
            }
        });
        let name = broken.name().to_owned();
        steps[stage] = broken;
        let (plane, _) = start(&steps, &Config::paper());
        let delivered = carry(&fixture, &plane, messages(&fixture, packets(), 20), |_| (), |_| ());
        let error = plane.join().expect_err("a worker panicked");
        assert_eq!(error.worker().map(|(stage, _)| stage), Some(&*name), "{error}");
        assert_eq!(error.panic_text(), Some("out of luck"));
        let counters = error.counters().expect("it ran");
        assert_eq!((counters.delivered, counters.accepted), (delivered, delivered + counters.lost), "{error}");
        assert!(counters.lost > 0, "{error}");
    }
}

/// Returns the number of active workers of each stage.
fn active(plane: &Plane<Rows>, stages: &[StageId]) -> Vec<usize> {
    stages.iter().map(|stage| plane.control().active(stage.index())).collect()
}

/// A stage whose queue is long gets a worker a tick, and loses one after five ticks without packets.
#[test]
fn workers_follow_the_queues_of_a_plane() {
    let (fixture, gate) = (fixture(), Arc::new(AtomicBool::new(false)));
    let mut steps = steps(&fixture, &interval_tree::Config::paper());
    let open = Arc::clone(&gate);
    // The workers of `word 2` wait for the gate, not for ever where an assertion fails.
    steps[2] = steps[2].clone().wrapped(move |_: &Seat, mut work| {
        let gate = Arc::clone(&open);
        move |rows: Rows| {
            let start = Instant::now();
            while !gate.load(Ordering::Acquire) && start.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_micros(100));
            }
            work(rows)
        }
    });
    let config = Config::paper();
    let (plane, stages) = start(&steps, &config);
    let control = plane.control().clone();
    assert_eq!(active(&plane, &stages), [1, 3, 3, 3, 3, 3, 1]);
    let mut controller = QueueController::start(&stages, config.scaling, &control);
    assert_eq!(active(&plane, &stages), [1; 7]);
    messages(&fixture, 1100, 20).for_each(|message| plane.send(message).expect("the window has room"));
    // One worker has a message in hand, and the queue of 1,000 packets is full.
    while control.queued(2).packets < 1000 || control.queued(1).packets > 60 {
        thread::yield_now();
    }
    assert_eq!(control.queued(2).packets, 1000);
    for workers in [2, 3, 3] {
        controller.tick(&control);
        assert_eq!(active(&plane, &stages), [1, 1, workers, 1, 1, 1, 1]);
    }
    gate.store(true, Ordering::Release);
    (0..55).for_each(|_| assert!(plane.recv().is_some()));
    for ticks in 1..=17 {
        controller.tick(&control);
        let workers = [3, 2, 1][(ticks / 5).min(2)];
        assert_eq!(active(&plane, &stages), [1, 1, workers, 1, 1, 1, 1], "tick {ticks}");
    }
    assert_whole(&plane.join().expect("no fault"), 1100);
}

/// The controller ticks by the clock beside packets: the slow stage gets workers, and all are retired at the end.
#[test]
fn a_controller_adds_and_retires_workers_beside_packets() {
    let fixture = fixture();
    let mut steps = steps(&fixture, &interval_tree::Config::paper());
    steps[4] = steps[4].clone().wrapped(|_: &Seat, mut work| {
        move |rows: Rows| {
            thread::sleep(Duration::from_micros(200));
            work(rows)
        }
    });
    let config = Config::paper();
    let (mut plane, stages) = start(&steps, &config);
    let controller = QueueController::start(&stages, config.scaling, plane.control());
    plane.control_by(Duration::from_millis(1), controller).expect("a thread is given");
    let (mut most, start) = (0, Instant::now());
    let sent = carry(
        &fixture,
        &plane,
        messages(&fixture, 20_000, 20),
        |_| (),
        |_| most = most.max(active(&plane, &stages)[4]),
    );
    assert_eq!((sent, most), (20_000, 3));
    while active(&plane, &stages) != [1; 7] {
        assert!(start.elapsed() < Duration::from_secs(60), "workers stay active without packets");
        thread::sleep(Duration::from_millis(1));
    }
    assert_whole(&plane.join().expect("no fault"), sent);
}
