//! RFC on threads: cuts of a lookup and their replicas, while workers are added and retired.

use std::sync::Arc;

use firstmatch_core::engines::rfc::{Config, Rfc};
use firstmatch_net::plane::{Control, Deal, Dispatch, Link, Plane, PlaneBuilder, ResultOrder, Seat, StageId};
use firstmatch_net::systems::copies::{self, Fetched};
use firstmatch_net::systems::rfc::{self, Cut};
use firstmatch_net::systems::{Step, chain};
use firstmatch_testkit::rng::Rng;

use super::fixture::{Fixture, Rows, packets};
use super::ordered::{assert_whole, carry, receive};

const WINDOW: usize = 200;
const CUTS: [(Cut, &[usize]); 5] = [
    (Cut::Phases, &[1, 1]),
    (Cut::Reads, &[1, 1, 1]),
    (Cut::Phases, &[2, 2]),
    (Cut::Phases, &[3, 3]),
    (Cut::Reads, &[2, 2, 2]),
];

fn fixture() -> Fixture {
    Fixture::with(11, 200, 2500, 2)
}

fn engine(fixture: &Fixture, config: &Config) -> Arc<Rfc> {
    Arc::new(Rfc::build(&fixture.lowered, config).expect("no budget"))
}

/// Returns messages of `batch` packets with rows, numbered from 0.
fn messages(fixture: &Fixture, width: usize, packets: usize, batch: usize) -> impl Iterator<Item = Rows> + Send {
    let (all, keys) = (fixture.keys.len(), fixture.keys.clone());
    (0..packets as u32).step_by(batch).map(move |first| {
        let numbers: Vec<u32> = (first..packets.min(first as usize + batch) as u32).collect();
        let mut rows = firstmatch_core::KeyBuf::new(keys.schema());
        numbers.iter().for_each(|&number| rows.push().copy_from_slice(keys.keys().row(number as usize % all)));
        let (best, words) = (vec![None; numbers.len()], vec![0xA5A5_A5A5_A5A5_A5A5; width * numbers.len()]);
        Rows { flow: u64::from(first), keys: rows, numbers, best, words }
    })
}

fn start(steps: &[Step<Rows>], workers: &[usize]) -> (Plane<Rows>, Vec<StageId>) {
    let link = Link::new().capacity(16).dispatch(Dispatch::RoundRobin);
    let mut builder = PlaneBuilder::new();
    let stages = chain(&mut builder, steps, workers, link);
    builder.enter(stages[0], link).leave(stages[stages.len() - 1], link).in_order_of_arrival(WINDOW);
    let plane = builder.start().expect("the plane is good");
    assert_eq!(*plane.order(), ResultOrder::Arrival);
    (plane, stages)
}

/// Both cuts with one worker a stage and with more, of which some are added and retired at every message.
#[test]
fn nothing_is_lost_doubled_or_reordered() {
    let (fixture, all) = (fixture(), packets());
    let configs = [Config::paper(), Config::default(), Config::paper_bitmap(), Config::bitmap(), Config::paper()];
    for ((cut, workers), (config, batch)) in CUTS.into_iter().zip(configs.into_iter().zip([32, 20, 7, 70, 32])) {
        let engine = engine(&fixture, &config);
        let (plane, stages) = start(&rfc::steps(&engine, cut), workers);
        let mut rng = Rng::new(9);
        let steer = |control: &Control| {
            for stage in &stages {
                control.set_active(stage.index(), 1 + rng.below(control.workers(stage.index())));
            }
        };
        let sent = carry(&fixture, &plane, messages(&fixture, engine.width(), all, batch), steer, |_| ());
        let counters = plane.join().expect("no fault");
        assert_whole(&counters, all as u64);
        assert_eq!(sent, all as u64);
        for (at, stage) in counters.stages.iter().enumerate() {
            assert!(stage.workers.iter().all(|worker| worker.taken.messages > 0), "{}", stage.name);
            assert!((0.0..=1.0).contains(&counters.fullness(at)), "{}", stage.name);
        }
    }
}

/// Multiprocessing: each worker does whole lookups, or all stages of a cut, for itself.
#[test]
fn copies_answer_in_order_of_arrival() {
    let (fixture, all) = (fixture(), packets());
    let engine = engine(&fixture, &Config::paper_bitmap());
    let forms = [vec![copies::whole(engine.clone())], rfc::steps(&engine, Cut::Reads)];
    for steps in forms {
        let messages: Arc<Vec<Rows>> = Arc::new(messages(&fixture, engine.width(), all, 32).collect());
        let deal = Arc::new(Deal::new(messages.len(), 1, 1));
        let mut builder = PlaneBuilder::new();
        let stage = copies::source(&mut builder, "copies", 3, &steps, move |_: &Seat| {
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

/// After a stop everything accepted comes out.
#[test]
fn a_stop_drains_the_stages() {
    let fixture = fixture();
    let engine = engine(&fixture, &Config::paper());
    for (at, stop_at) in [0, 1, 300, 2000, 10_000, 20_000, 30_000].into_iter().enumerate() {
        let (cut, workers) = CUTS[at % CUTS.len()];
        let (plane, _) = start(&rfc::steps(&engine, cut), workers);
        let mut is_stopped = false;
        let each = |packets| {
            if packets >= stop_at && !is_stopped {
                is_stopped = true;
                plane.stop();
            }
        };
        let sent = carry(&fixture, &plane, messages(&fixture, engine.width(), packets(), 20), |_| (), each);
        assert!(is_stopped, "some packets came out");
        assert_whole(&plane.join().expect("no fault"), sent);
        assert!(sent < packets() as u64, "it stopped before the end");
    }
}

/// A panic of a worker ends the plane, and counts what was on its way.
#[test]
fn a_panic_in_each_stage_ends_the_plane() {
    let fixture = fixture();
    let engine = engine(&fixture, &Config::default());
    for (stage, after) in [(0, 0), (0, 40), (1, 3), (1, 200), (2, 0), (2, 300)] {
        let mut steps = rfc::steps(&engine, Cut::Reads);
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
        let (plane, _) = start(&steps, &[1, 1, 1]);
        let messages = messages(&fixture, engine.width(), packets(), 20);
        let delivered = carry(&fixture, &plane, messages, |_| (), |_| ());
        let error = plane.join().expect_err("a worker panicked");
        assert_eq!(error.worker().map(|(stage, _)| stage), Some(&*name), "{error}");
        let counters = error.counters().expect("it ran");
        assert_eq!((counters.delivered, counters.accepted), (delivered, delivered + counters.lost), "{error}");
        assert!(counters.lost > 0, "{error}");
    }
}
