//! Tests of the simulation: values by hand, closed forms of queues, conservation.

use super::run::Simulation;
use super::*;

/// Work of a fixed time a message.
fn fixed(message: f64) -> Work {
    Work { message, packet: 0.0, spread: Spread::Fixed }
}

fn random(message: f64) -> Work {
    Work { spread: Spread::Exponential, ..fixed(message) }
}

fn stage(workers: usize, feed: Feed, work: Work) -> Stage {
    Stage { workers, feed, work }
}

fn link(from: usize, capacity: usize) -> Link {
    Link { from, to: from + 1, capacity, is_lossy: false, share: 1.0 }
}

/// Returns a model of stages in a row, without costs, whose messages are one packet each.
fn row(stages: Vec<Stage>, capacity: usize, cores: usize) -> Model {
    let links = (1..stages.len()).map(|to| link(to - 1, capacity)).collect();
    Model { stages, links, gathered: None, cores, batch: 1.0, chunk: 1, costs: Costs::NONE, seed: 1 }
}

/// Returns a queue of `places` packets, the one in service included, that drops packets when it is full.
fn queue(load: f64, places: usize, work: Work) -> Model {
    let feed = Feed::Paced { packets_a_second: load * 1e9 / work.message, spread: Spread::Exponential };
    let mut model = row(vec![stage(1, feed, fixed(0.0)), stage(1, Feed::Rings, work)], places - 1, 2);
    model.links[0].is_lossy = true;
    model
}

#[track_caller]
fn assert_close(found: f64, expected: f64, share: f64) {
    assert!((found / expected - 1.0).abs() < share, "{found}, expected {expected}");
}

#[test]
fn one_server_takes_its_time() {
    let work = Work { message: 100.0, packet: 10.0, spread: Spread::Fixed };
    let mut model = row(vec![stage(1, Feed::Full, work)], 1, 1);
    model.batch = 4.0;
    let outcome = simulate(&model, 1.4e6);
    assert_close(outcome.mpps, 4.0 / 140.0 * 1e3, 1e-3);
    assert_eq!((outcome.dropped, outcome.blocks), (0.0, 0));
    assert_close(outcome.busy, 1.0, 1e-3);
}

/// A source of 100 ns feeds a server of 300 ns through a ring of one message.
///
/// Message 0 is served from 100 on, message 1 waits in the ring, and message 2 is held up from 300 to 400.
#[test]
fn a_full_ring_holds_its_sender_up() {
    let model = row(vec![stage(1, Feed::Full, fixed(100.0)), stage(1, Feed::Rings, fixed(300.0))], 1, 2);
    let mut simulation = Simulation::new(&model);
    for (time, offered, done) in [
        (99.0, 1.0, 0.0),
        (199.0, 2.0, 0.0),
        (201.0, 3.0, 0.0),
        (399.0, 3.0, 0.0),
        (401.0, 4.0, 1.0),
        (699.0, 4.0, 1.0),
        (701.0, 5.0, 2.0),
        (1001.0, 6.0, 3.0),
    ] {
        simulation.run(time);
        let counts = simulation.counts();
        assert_eq!((counts.offered, counts.done), (offered, done), "{time}");
    }
    let outcome = simulate(&model, 3e6);
    assert_close(outcome.mpps, 1e3 / 300.0, 1e-3);
    assert_close(outcome.at_work[0], 1.0 / 3.0, 1e-3);
    assert_close(outcome.at_work[1], 1.0, 1e-3);
}

/// The same messages through a longer ring: the source is held up later, and no longer.
#[test]
fn a_ring_holds_as_many_messages_as_it_has_room_for() {
    for capacity in [1, 2, 7, 64] {
        let model = row(vec![stage(1, Feed::Full, fixed(1.0)), stage(1, Feed::Rings, fixed(1e6))], capacity, 2);
        let mut simulation = Simulation::new(&model);
        simulation.run(1e5);
        // One is in service, one in the hand of the source.
        assert_eq!(simulation.counts().offered, (capacity + 2) as f64, "{capacity}");
    }
}

/// Loss of the queue M/M/1/K: (1 - r) r^K / (1 - r^(K + 1)).
#[test]
fn a_queue_with_random_times_loses_what_the_closed_form_says() {
    for (load, places) in [(0.5, 2), (0.8, 5), (0.95, 10), (1.5, 3)] {
        let outcome = simulate(&queue(load, places, random(1000.0)), 4e8);
        let full = f64::powi(load, places as i32);
        let expected = (1.0 - load) * full / (1.0 - full * load);
        assert_close(outcome.dropped / outcome.offered, expected, 0.05);
        assert_close(outcome.mpps, load * (1.0 - expected), 0.02);
        assert_close(outcome.at_work[1], load * (1.0 - expected), 0.02);
    }
}

/// Loss of the queue M/D/1/2: 1 - 1 / (r + e^-r).
#[test]
fn a_queue_with_fixed_service_loses_what_the_closed_form_says() {
    for load in [0.3, 0.7, 1.2] {
        let outcome = simulate(&queue(load, 2, fixed(1000.0)), 4e8);
        assert_close(outcome.dropped / outcome.offered, 1.0 - 1.0 / (load + f64::exp(-load)), 0.05);
    }
}

/// Storm's equation 1 as a bottleneck: four caches of 200 ns and two classifiers of 2,000 ns, 5 % misses.
#[test]
fn a_share_of_the_packets_takes_a_link() {
    let work = |packet| Work { message: 0.0, packet, spread: Spread::Fixed };
    let stages = vec![stage(4, Feed::Full, work(200.0)), stage(2, Feed::Rings, work(2000.0))];
    let mut model = row(stages, 64, 6);
    model.links[0].share = 0.05;
    let outcome = simulate(&model, 1e6);
    assert_close(outcome.mpps, 20.0, 1e-2);
    assert!(outcome.at_work.iter().all(|share| *share > 0.98), "{outcome:?}");
    (model.stages[0].workers, model.stages[1].workers) = (3, 3);
    assert_close(simulate(&model, 1e6).mpps, 15.0, 1e-2);
}

/// Misses that fall from all packets to 3 % within a millisecond: messages to the second stage are whole, and workers
/// go there and come back.
#[test]
fn workers_move_with_the_share_that_is_gathered() {
    let work = |packet| Work { message: 0.0, packet, spread: Spread::Fixed };
    let paced = Feed::Paced { packets_a_second: 15e6 / 4.0, spread: Spread::Fixed };
    let stages = vec![stage(4, paced, work(200.0)), stage(4, Feed::Rings, work(2000.0))];
    let mut model = row(stages, 3, 8);
    (model.batch, model.links[0].is_lossy) = (32.0, true);
    let course: Arc<[(f64, f64)]> = (0..=100).map(|at| (f64::from(at) * 1e4, 1.0 - 0.0097 * f64::from(at))).collect();
    let dynamic = |all| Some((Dynamic::paper(), all, 2e4));
    model.gathered = Some(Gathered { link: 0, course, dynamic: dynamic(700) });
    let outcome = simulate(&model, 2e7);
    assert_eq!((&outcome.active[..], outcome.dropped), (&[4, 2][..], 0.0));
    assert!(outcome.last_drop > 2e5 && outcome.last_drop < 2e6, "{outcome:?}");
    assert_close(outcome.mpps, 15.0, 1e-2);
    // Without moving back, the caches hold all up.
    model.gathered.as_mut().expect("a link").dynamic =
        Some((Dynamic { least: 0.0, most: 0.0, ..Dynamic::paper() }, 700, 2e4));
    let outcome = simulate(&model, 2e7);
    assert_eq!(outcome.active, [2, 4]);
    assert_close(outcome.mpps, 10.0, 2e-2);
    let cost = Costs { receive: 500.0, ..Costs::NONE };
    // A message of 32 packets is received for each 32 that are gathered, not for a few of each message.
    let gathered = Some(Gathered { link: 0, course: Arc::new([(0.0, 0.05)]), dynamic: None });
    let outcome = simulate(&Model { costs: cost, gathered, ..model }, 2e7);
    assert_close(outcome.at_work[1], 15e-3 * 0.05 * (2000.0 + 500.0 / 32.0) / 4.0, 2e-2);
}

/// Planes of every sort: rings that drop and that wait, shares, more threads than cores, costs.
fn mixed(seed: u64) -> Model {
    let pick =
        |most: u64, salt: u64| (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(salt as u32) % most) as usize;
    let feed = match pick(2, 3) {
        0 => Feed::Full,
        _ => Feed::Paced { packets_a_second: 2e6, spread: Spread::Exponential },
    };
    let mut model = row(
        vec![
            stage(1 + pick(3, 7), feed, random(700.0)),
            stage(1 + pick(4, 11), Feed::Rings, random(900.0)),
            stage(1 + pick(2, 13), Feed::Rings, fixed(500.0)),
        ],
        1 + pick(9, 17),
        1 + pick(8, 19),
    );
    (model.batch, model.chunk, model.seed) = (4.0, 1 + pick(4, 23), seed);
    model.links[0].is_lossy = pick(2, 29) == 1;
    model.links[1].share = if pick(2, 31) == 1 { 0.25 } else { 1.0 };
    if pick(3, 37) == 1 {
        model.gathered = Some(Gathered { link: 1, course: Arc::new([(0.0, 0.8), (3e4, 0.1)]), dynamic: None });
    }
    model.costs = Costs {
        send: 30.0,
        receive: 40.0,
        send_far: 20.0,
        take_far: 50.0,
        switch: 1500.0,
        wake: 1000.0,
        latency: 5000.0,
        spin: 600.0,
        look: 300.0,
        quantum: 1e5,
    };
    model
}

#[test]
fn packets_that_came_in_left_or_were_dropped_or_are_on_their_way() {
    let (mut dropped, mut blocks, mut shared) = (0, 0, 0);
    for seed in 1..=200 {
        let model = mixed(seed);
        let mut simulation = Simulation::new(&model);
        for time in [1e4, 1e5, 1e6] {
            simulation.run(time);
            let counts = simulation.counts();
            let on_way = simulation.on_way();
            let sum = counts.done + counts.dropped + on_way;
            assert!((counts.offered - sum).abs() < 1e-6, "seed {seed}: {counts:?}, on their way {on_way}");
            assert!(counts.busy <= time * model.cores as f64 * (1.0 + 1e-9), "seed {seed}: {counts:?}");
        }
        let counts = simulation.counts();
        assert!(counts.done > 100.0, "seed {seed}: {counts:?}");
        dropped += usize::from(counts.dropped > 0.0);
        blocks += usize::from(counts.blocks > 0);
        shared += usize::from(model.threads() > model.cores);
    }
    assert!(dropped > 20 && blocks > 50 && (50..180).contains(&shared), "{dropped}, {blocks}, {shared}");
}

#[test]
fn a_seed_gives_one_outcome() {
    let outcome = |seed| {
        let model = Model { seed, ..mixed(5) };
        simulate(&model, 2e6)
    };
    assert_eq!(outcome(5), outcome(5));
    assert_ne!(outcome(5), outcome(6));
}

#[test]
fn as_many_cores_as_threads_give_linear_speed() {
    let of = |workers: usize, cores: usize, nanos: f64| {
        let all = |feed, time| stage(workers, feed, fixed(time));
        let stages = vec![all(Feed::Full, 500.0), all(Feed::Rings, 500.0), all(Feed::Rings, 500.0)];
        simulate(&row(stages, 64, cores), nanos)
    };
    let one = of(1, 3, 2e6).mpps;
    assert_close(one, 2.0, 0.01);
    for workers in [2, 4, 16] {
        assert_close(of(workers, 3 * workers, 2e6).mpps, workers as f64 * one, 0.01);
    }
    // Three threads on one core take turns, one full ring after another, and no time is lost.
    let shared = of(1, 1, 5e7);
    assert_close(shared.mpps, one / 3.0, 0.01);
    assert_close(shared.busy, 1.0, 0.01);
}

#[test]
fn threads_that_share_a_core_pay_for_each_change() {
    let mut model = row(vec![stage(2, Feed::Full, fixed(1000.0))], 1, 1);
    (model.costs.quantum, model.costs.switch) = (1e5, 5e3);
    assert_close(simulate(&model, 1e8).mpps, 0.95, 1e-3);
    model.cores = 2;
    assert_close(simulate(&model, 1e8).mpps, 2.0, 1e-3);
}

/// With a short spin each message finds the stage asleep, with a spin as long as the gap none does.
#[test]
fn a_sleeping_thread_is_woken_at_a_price() {
    let feed = Feed::Paced { packets_a_second: 1e5, spread: Spread::Fixed };
    let mut model = row(vec![stage(1, feed, fixed(100.0)), stage(1, Feed::Rings, fixed(1000.0))], 4, 2);
    let awake = simulate(&Model { costs: Costs { spin: 1e4, ..Costs::NONE }, ..model.clone() }, 1e8);
    assert_eq!(awake.blocks, 0);
    model.costs = Costs { spin: 100.0, wake: 700.0, latency: 3000.0, ..Costs::NONE };
    let asleep = simulate(&model, 1e8);
    assert_close(asleep.blocks as f64, 8000.0, 1e-3);
    assert_close(asleep.mpps, 0.1, 1e-3);
    assert_close(asleep.at_work[1], 0.1, 1e-3);
    // A stage that sleeps before each message keeps up as long as latency and work fit between two.
    let mut slow = Model { costs: Costs { latency: 3000.0, ..Costs::NONE }, ..model.clone() };
    slow.stages[1].work = fixed(6000.0);
    assert_close(simulate(&slow, 1e8).mpps, 0.1, 1e-3);
    slow.links[0].is_lossy = true;
    slow.stages[1].work = fixed(20_000.0);
    let outcome = simulate(&slow, 1e8);
    assert_close(outcome.dropped / outcome.offered, 0.5, 1e-2);
}

/// What costs of handing on take is what the stages can no longer do.
#[test]
fn handing_on_costs_both_ends() {
    let mut model = row(vec![stage(1, Feed::Full, fixed(0.0)), stage(1, Feed::Rings, fixed(100.0))], 64, 2);
    model.batch = 10.0;
    model.costs = Costs { send: 20.0, receive: 30.0, spin: 1e6, ..Costs::NONE };
    let outcome = simulate(&model, 1e6);
    assert_close(outcome.mpps, 10.0 / 130.0 * 1e3, 1e-2);
    // The source sends for 20 ns of each 130 ns.
    assert_close(outcome.at_work[0], 20.0 / 130.0, 2e-2);
}

/// Messages between two cores cost more at either end, those within one core do not.
#[test]
fn handing_on_between_cores_costs_more() {
    let mut model = row(vec![stage(1, Feed::Full, fixed(50.0)), stage(1, Feed::Rings, fixed(100.0))], 64, 2);
    model.costs = Costs { send: 10.0, receive: 20.0, send_far: 15.0, take_far: 80.0, spin: 1e6, ..Costs::NONE };
    let apart = simulate(&model, 1e6);
    assert_close(apart.mpps, 1e3 / 200.0, 1e-2);
    assert_close(apart.at_work[0], 75.0 / 200.0, 2e-2);
    // Four messages at once pay once.
    assert_close(simulate(&Model { chunk: 4, ..model.clone() }, 1e6).mpps, 1e3 / 140.0, 1e-2);
    model.cores = 1;
    assert_close(simulate(&model, 1e7).mpps, 1e3 / 180.0, 1e-2);
}

/// Three threads on two cores: the third shares the first core, as it would until something balances the load.
#[test]
fn threads_stay_where_they_ran() {
    let model = row(vec![stage(3, Feed::Full, fixed(1000.0))], 1, 2);
    let mut simulation = Simulation::new(&model);
    simulation.run(1e8);
    let at_work: Vec<f64> = simulation.threads_at_work().collect();
    assert_close(at_work[0], 5e7, 0.05);
    assert_close(at_work[1], 1e8, 0.05);
    assert_close(at_work[2], 5e7, 0.05);
}
