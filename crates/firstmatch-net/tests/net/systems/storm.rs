//! Storm's form: no packet is lost, doubled or answered twice, but where a lossy ring counts it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch_core::cache::rule::{BoxUpdater, Config, RuleCache};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_net::plane::{Dispatch, Link, Message, Plane, PlaneBuilder, Seat};
use firstmatch_net::systems::shared::{self, SharedBoxes};
use firstmatch_net::systems::storm::{Assignment, Dynamic, Partition, StormPlan, StormStages, stages};
use firstmatch_net::systems::{Step, chain, copies};

use super::fixture::{Fixture, Rows, packets};

fn boxes(fixture: &Fixture, workers: usize) -> Arc<SharedBoxes> {
    let engine = fixture.engine("bit_select", &fixture.lowered);
    SharedBoxes::new(BoxUpdater::over(engine, &fixture.lowered, &Config::default()).expect("no budget"), workers)
}

/// Starts Storm's form before the step `full`.
fn start(fixture: &Fixture, full: &Step<Rows>, plan: &StormPlan) -> (Plane<Rows>, StormStages, Arc<SharedBoxes>) {
    let (mut builder, boxes) = (PlaneBuilder::new(), boxes(fixture, plan.assignment.workers().cache));
    let stages = stages(&mut builder, &boxes, full, plan);
    builder.enter(stages.cache, Link::new().capacity(4).dispatch(Dispatch::RoundRobin));
    (builder.start().expect("the plane is good"), stages, boxes)
}

fn whole(fixture: &Fixture) -> Step<Rows> {
    copies::whole(fixture.engine("bit_select", &fixture.lowered))
}

/// Sends messages on a thread of its own, and counts the answers of each packet; `each` sees the sum of them.
fn carry(
    fixture: &Fixture,
    plane: &Plane<Rows>,
    messages: impl Iterator<Item = Rows> + Send,
    mut each: impl FnMut(u64),
) -> Vec<u32> {
    let mut answers = vec![0; packets().max(100_000)];
    let mut sum = 0;
    thread::scope(|scope| {
        scope.spawn(move || {
            for message in messages {
                if plane.send(message).is_err() {
                    break;
                }
            }
            plane.stop();
        });
        while let Some(rows) = plane.recv() {
            fixture.check(&rows, &mut answers);
            sum += rows.packets() as u64;
            each(sum);
        }
    });
    answers
}

fn fixed(cache: usize, full: usize) -> Assignment {
    Assignment::Static(Partition::new(cache, full))
}

/// Packets through each form of the threads, with rings that wait and rings that drop.
#[test]
fn each_packet_is_answered_once() {
    let (fixture, all) = (Fixture::with(3, 200, 2500, 3), packets());
    let dynamic = Assignment::Dynamic(Dynamic::paper());
    for (assignment, batch, is_lossy) in [
        (fixed(4, 2), 32, false),
        (fixed(2, 4), 50, true),
        (fixed(3, 3), 16, true),
        (fixed(1, 1), 32, false),
        (dynamic, 32, false),
        (dynamic, 7, true),
    ] {
        let mut plan = StormPlan::new(assignment);
        (plan.batch, plan.is_lossy) = (batch, is_lossy);
        let (plane, stages, boxes) = start(&fixture, &whole(&fixture), &plan);
        // Boxes come once the updater has had time for a few samples.
        let start = Instant::now();
        let wait = |(at, rows): (usize, Rows)| {
            while at == 20 && boxes.counts().published == 0 && start.elapsed() < Duration::from_secs(20) {
                thread::sleep(Duration::from_millis(1));
            }
            rows
        };
        let answers = carry(&fixture, &plane, fixture.numbered(all, batch).enumerate().map(wait), |_| ());
        let (counters, counts) = (plane.join().expect("no fault"), boxes.counts());
        let case = format!("{assignment:?}, batch {batch}: {counts:?}");
        let rings = counters.rings.iter().filter(|ring| ring.is_lossy);
        let dropped: u64 = rings.map(|ring| ring.dropped.packets).sum();
        assert!(answers.iter().all(|&count| count <= 1), "{case}");
        assert_eq!(answers.iter().sum::<u32>() as usize, all - dropped as usize, "{case}");
        assert_eq!((counters.accepted, counters.lost, counts.lookups), (all as u64, 0, all as u64), "{case}");
        assert!(is_lossy || dropped == 0, "{case}");
        assert!(counts.hits > 0 && boxes.is_ended(), "{case}");
        // The stage `full` looks up packets that no box holds, in messages of a batch unless there was nothing else to
        // do.
        let full = counters.stages[stages.full.index()].sum().taken;
        assert_eq!(full.packets + dropped, counts.lookups - counts.hits, "{case}");
    }
}

/// Copies with caches of their own, Storm's data-parallel form, and copies that share boxes.
#[test]
fn copies_answer_each_packet_once() {
    let (fixture, all) = (Fixture::with(3, 200, 2500, 3), packets());
    let inner = Linear::build(&fixture.lowered, &linear::Config::default()).expect("no budget");
    let own = Arc::new(RuleCache::over(inner, &fixture.lowered, &Config::paper()).expect("no budget"));
    let shared = boxes(&fixture, 3);
    for (step, is_shared) in [(copies::whole(own), false), (shared::step(&shared), true)] {
        let mut builder = PlaneBuilder::new();
        let stages = chain(&mut builder, &[step], &[3], Link::new());
        builder.enter(stages[0], Link::new().capacity(4)).leave(stages[0], Link::new());
        if is_shared {
            shared::updater(&mut builder, &shared, Duration::from_micros(10));
        }
        let plane = builder.start().expect("the plane is good");
        let answers = carry(&fixture, &plane, fixture.numbered(all, 32), |_| ());
        let counters = plane.join().expect("no fault");
        assert!(answers[..all].iter().all(|&count| count == 1));
        assert_eq!((counters.delivered, counters.lost), (all as u64, 0));
    }
    assert_eq!(shared.counts().lookups, all as u64);
}

/// Packets in no box go on when nothing else comes, although they are fewer than a message should have.
#[test]
fn few_misses_do_not_wait_for_more() {
    let fixture = Fixture::with(3, 200, 2500, 3);
    let mut plan = StormPlan::new(fixed(2, 1));
    plan.batch = 1000;
    let (plane, ..) = start(&fixture, &whole(&fixture), &plan);
    let mut answers = vec![0; 2500];
    for rows in fixture.messages(3, 5, 0) {
        let mut left = rows.packets();
        plane.send(rows).expect("it runs");
        while left > 0 {
            let rows = plane.recv().expect("all packets come out");
            fixture.check(&rows, &mut answers);
            left -= rows.packets();
        }
    }
    assert!(answers.iter().all(|&count| count == 1));
    plane.join().expect("no fault");
}

/// A stop at any moment lets everything accepted come out.
#[test]
fn a_stop_lets_everything_out() {
    let fixture = Fixture::with(3, 200, 2500, 3);
    for at in [1, 100, 3333, 20_000] {
        let plan = StormPlan::new(if at == 100 { fixed(2, 2) } else { Assignment::Dynamic(Dynamic::paper()) });
        let (plane, _, boxes) = start(&fixture, &whole(&fixture), &plan);
        let answers = carry(&fixture, &plane, fixture.numbered(100_000, 32), |sum| {
            if sum >= at {
                plane.stop();
            }
        });
        let counters = plane.join().expect("no fault");
        assert!(answers.iter().all(|&count| count <= 1) && boxes.is_ended());
        assert_eq!((counters.accepted, counters.lost), (answers.iter().sum::<u32>().into(), 0));
        assert!(counters.accepted < 100_000, "it stopped before the end");
    }
}

/// A panic of any stage ends the plane, and counts what was on its way.
#[test]
fn a_panic_in_each_stage_ends_the_plane() {
    let fixture = Fixture::with(3, 200, 2500, 3);
    for stage in ["cache", "whole"] {
        for after in [0, 3, 40] {
            let mut full = whole(&fixture);
            if stage == "whole" {
                full = full.wrapped(move |_: &Seat, mut work| {
                    let mut left = after;
                    move |rows: Rows| {
                        assert!(left > 0, "out of luck");
                        left -= 1;
                        work(rows)
                    }
                });
            }
            let (plane, ..) = start(&fixture, &full, &StormPlan::new(fixed(2, 2)));
            // A message whose packets do not have as many matches cannot be looked up.
            let broken = move |(at, rows): (usize, Rows)| {
                let is_bad = stage == "cache" && at == after;
                Rows { best: if is_bad { Vec::new() } else { rows.best.clone() }, ..rows }
            };
            let messages = fixture.numbered(100_000, 32).enumerate().map(broken);
            let answers = carry(&fixture, &plane, messages, |_| ());
            let error = plane.join().expect_err("a worker panicked");
            assert_eq!(error.worker().map(|(stage, _)| stage), Some(stage), "{error}");
            let counters = error.counters().expect("it ran");
            let delivered = u64::from(answers.iter().sum::<u32>());
            assert!(answers.iter().all(|&count| count <= 1));
            assert_eq!((counters.delivered, counters.accepted), (delivered, delivered + counters.lost), "{error}");
            assert!(counters.lost > 0, "{error}");
        }
    }
}

/// Workers go to `full` while its rings are full, and back to `cache` when they are empty.
#[test]
fn workers_follow_the_occupancy() {
    let fixture = Fixture::with(3, 200, 2500, 3);
    let (gate, waiting) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let (open, waits) = (Arc::clone(&gate), Arc::clone(&waiting));
    let gated = whole(&fixture).wrapped(move |_: &Seat, mut work| {
        let (gate, waiting) = (Arc::clone(&open), Arc::clone(&waits));
        move |rows: Rows| {
            waiting.fetch_add(1, Ordering::Relaxed);
            while !gate.load(Ordering::Acquire) {
                thread::sleep(Duration::from_micros(100));
            }
            work(rows)
        }
    });
    let mut plan = StormPlan::new(Assignment::Dynamic(Dynamic::paper()));
    plan.is_lossy = true;
    let (plane, stages, _) = start(&fixture, &gated, &plan);
    let (control, start) = (plane.control().clone(), Instant::now());
    let active = || [stages.cache, stages.full].map(|stage| control.active(stage.index()));
    assert_eq!(active(), [4, 2], "the rings are empty at the start");
    let mut seen = vec![active()];
    thread::scope(|scope| {
        scope.spawn(|| {
            // Until the workers have gone and come back, with all packets again and again.
            let messages = fixture.messages(3, 32, 0);
            for rows in messages.iter().cycle() {
                if seen.last() != Some(&active()) {
                    seen.push(active());
                }
                gate.fetch_or(seen.contains(&[2, 4]), Ordering::Release);
                if seen.ends_with(&[[2, 4], [4, 2]]) || start.elapsed() > Duration::from_secs(60) {
                    break;
                }
                plane.send(rows.clone()).expect("it runs");
                if gate.load(Ordering::Relaxed) {
                    // A machine with few cores empties the rings only if messages come more slowly.
                    thread::sleep(Duration::from_micros(200));
                }
            }
            gate.store(true, Ordering::Release);
            plane.stop();
        });
        let mut answers = vec![0; 2500];
        while let Some(rows) = plane.recv() {
            fixture.check(&rows, &mut answers);
        }
    });
    assert_eq!(seen, [[4, 2], [2, 4], [4, 2]]);
    assert!(waiting.load(Ordering::Relaxed) > 0);
    plane.join().expect("no fault");
}

/// Boxes for fewer workers than the stage has are a fault of the start.
#[test]
fn boxes_are_for_as_many_workers_as_the_stage() {
    let fixture = Fixture::with(3, 200, 2500, 3);
    let mut builder = PlaneBuilder::new();
    let stages = stages(&mut builder, &boxes(&fixture, 2), &whole(&fixture), &StormPlan::new(fixed(3, 1)));
    builder.enter(stages.cache, Link::new());
    let error = builder.start().map(drop).expect_err("a worker has no slot");
    assert_eq!(error.worker(), Some(("cache", 2)));
    assert_eq!(error.panic_text(), Some("there is no worker 2, the boxes are for 2"));
}
