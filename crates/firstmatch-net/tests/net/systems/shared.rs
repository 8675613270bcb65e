//! Copies that share boxes: answers are the oracle's while one updater makes boxes for all workers.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use firstmatch_core::cache::rule::{BoxUpdater, Config};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::rule::Region;
use firstmatch_core::{Classifier, Engine, Keys, Match, Overlaps, Probe, Schema, Scratch, Stats};
use firstmatch_net::plane::{Link, PlaneBuilder, Seat, StageId};
use firstmatch_net::systems::copies::Fetched;
use firstmatch_net::systems::shared::{self, SharedBoxes, SharedLookup};
use firstmatch_net::systems::{LookupMessage, LookupView, Step, copies};

use super::fixture::{Fixture, Rows};

/// Adds copies that share boxes, with their updater; they take messages by turns while `goes_on` says so of the number
/// of the next.
fn plane(
    builder: &mut PlaneBuilder<Rows>,
    shared: &Arc<SharedBoxes>,
    steps: &[Step<Rows>],
    messages: Vec<Rows>,
    goes_on: impl Fn(usize) -> bool + Clone + Send + Sync + 'static,
) -> StageId {
    let (messages, next) = (Arc::new(messages), Arc::new(AtomicUsize::new(0)));
    let workers = 3;
    let stage = copies::source(builder, "everything", workers, steps, move |_| {
        let (messages, next, goes_on) = (Arc::clone(&messages), Arc::clone(&next), goes_on.clone());
        move || {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if goes_on(number) { Fetched::Message(messages[number % messages.len()].clone()) } else { Fetched::End }
        }
    });
    shared::updater(builder, shared, Duration::ZERO);
    stage
}

/// Whether messages are to come: some rounds, and until boxes have hit, but not for ever.
fn until_hits(shared: &Arc<SharedBoxes>, least: usize, hits: u64) -> impl Fn(usize) -> bool + Clone + Send + 'static {
    let (shared, start) = (Arc::clone(shared), Instant::now());
    move |number| number < least || (shared.counts().hits < hits && start.elapsed() < Duration::from_secs(60))
}

#[test]
fn workers_share_the_boxes_of_one_updater() {
    let fixture = Arc::new(Fixture::with(3, 200, 3000, 3));
    for (engine, batch) in [("bit_select", 64), ("linear", 300), ("tuplemerge", 1)] {
        let messages = fixture.messages(1, batch, 0);
        let engine = fixture.engine(engine, &fixture.lowered);
        let updater = BoxUpdater::over(engine, &fixture.lowered, &Config::default()).expect("no budget");
        let shared = SharedBoxes::new(updater, 3);
        let (mut builder, least) = (PlaneBuilder::new(), 4 * messages.len());
        let goes_on = until_hits(&shared, least, 6000);
        let stage = plane(&mut builder, &shared, &[shared::step(&shared)], messages, goes_on);
        builder.leave(stage, Link::new().capacity(2));
        let plane = builder.start().expect("the plane is good");
        let mut answers = vec![0; 3000];
        std::iter::from_fn(|| plane.recv()).for_each(|rows| fixture.check(&rows, &mut answers));
        let (counters, counts) = (plane.join().expect("no fault"), shared.counts());
        assert_eq!(counters.lost, 0);
        assert_eq!(counters.accepted, u64::from(answers.iter().sum::<u32>()));
        assert!(answers.iter().all(|&count| count >= 4));
        assert_eq!(counts.lookups, counters.accepted);
        assert!(counts.hits >= 6000 && counts.samples >= 2 && counts.published >= 2, "{counts:?}");
        assert!(shared.is_ended());
    }
}

/// Two rule sets, of which the version chooses one: the first where it is even.
#[derive(Debug)]
struct Switch {
    sets: [Linear; 2],
    version: AtomicU64,
}

impl Switch {
    fn now(&self) -> &Linear {
        &self.sets[self.version.load(Ordering::Acquire) as usize % 2]
    }
}

impl Engine for Switch {
    type Scratch = [Scratch; 2];

    fn schema(&self) -> &Schema {
        Engine::schema(&self.sets[0])
    }

    fn new_scratch(&self) -> Self::Scratch {
        [self.sets[0].scratch(), self.sets[1].scratch()]
    }

    fn stats(&self) -> Stats {
        Engine::stats(&self.sets[0])
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    fn improve(&self, scratch: &mut Self::Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let at = self.version.load(Ordering::Acquire) as usize % 2;
        self.sets[at].improve_batch(&mut scratch[at], keys, best);
    }
}

impl Overlaps for Switch {
    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        self.now().visit(probe, cursor, most, visit)
    }

    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool {
        self.now().home(rule, key, probe)
    }
}

/// Rules change beside workers and updater: a batch that saw one version has its answers alone.
#[test]
fn boxes_of_an_old_version_answer_nothing() {
    let mut fixtures = [3, 4].map(|seed| Fixture::with(seed, 100, 600, 3));
    // The packets of the first, with answers by both.
    let engine = fixtures[1].engine("linear", &fixtures[1].lowered);
    let mut other = vec![None; 600];
    engine.classify_batch(&mut engine.scratch(), fixtures[0].keys.keys(), &mut other);
    let differ = fixtures[0].expected.iter().zip(&other).filter(|(one, other)| one != other).count();
    assert!(differ > 300, "{differ} packets tell the sets apart");
    fixtures[1].expected = other;

    let set = |fixture: &Fixture| Linear::build(&fixture.lowered, &linear::Config::default()).expect("no budget");
    let engine = Arc::new(Switch { sets: [set(&fixtures[0]), set(&fixtures[1])], version: AtomicU64::new(0) });
    let (classifier, overlaps): (Arc<dyn Classifier>, Arc<dyn Overlaps>) = (engine.clone(), engine.clone());
    let updater = BoxUpdater::new(classifier, overlaps, &Config::default()).expect("no level is forced");
    let shared = SharedBoxes::new(updater, 3);

    let seen = Arc::clone(&engine);
    let note = Step::on_packets("note", move || {
        let engine = Arc::clone(&seen);
        move |view: LookupView<'_>| {
            view.best.fill(None);
            view.words[0] = Engine::version(&*engine);
        }
    });
    let (seen, strict) = (Arc::clone(&engine), Arc::new(Mutex::new((0, 0))));
    let (messages, count, sets) = (fixtures[0].messages(1, 50, 1), Arc::clone(&strict), Arc::new(fixtures));
    let check = Step::new("check", move |_: &Seat| {
        let (engine, sets, count) = (Arc::clone(&seen), Arc::clone(&sets), Arc::clone(&count));
        move |mut rows: Rows| {
            let (before, after) = (rows.view().words[0], Engine::version(&*engine));
            let is_one = before == after;
            for (&number, best) in rows.numbers.iter().zip(&rows.best) {
                let want = [0, 1].map(|set| sets[(before as usize + set) % 2].expected[number as usize]);
                assert!(*best == want[0] || (!is_one && *best == want[1]), "packet {number} at {before} to {after}");
            }
            let mut count = count.lock().expect("no panic");
            (count.0, count.1) = (count.0 + usize::from(is_one), count.1 + 1);
            None
        }
    });
    let (changing, mut builder) = (Arc::clone(&engine), PlaneBuilder::new());
    let goes_on = move |_| changing.version.load(Ordering::Relaxed) < 200;
    let steps = [note, shared::step(&shared), check];
    plane(&mut builder, &shared, &steps, messages, goes_on);
    let plane = builder.start().expect("the plane is good");
    let mut hits = 0;
    while plane.fault().is_none() && Engine::version(&*engine) < 200 {
        // Each version has boxes before the next one comes, unless the machine is busy.
        let start = Instant::now();
        while plane.fault().is_none() && shared.counts().hits < hits + 100 && start.elapsed() < Duration::from_secs(1) {
            thread::yield_now();
        }
        hits = shared.counts().hits;
        engine.version.fetch_add(1, Ordering::AcqRel);
    }
    plane.join().expect("no wrong answer");
    let (is_one, all) = *strict.lock().expect("no panic");
    assert!(is_one * 2 > all && hits > 10_000, "{is_one} of {all} messages of one version, {hits} hits");
}

/// A worker that panics, or a stop, ends the updater, too.
#[test]
fn the_updater_ends_with_its_workers() {
    let fixture = Fixture::with(3, 200, 300, 3);
    for panics in [false, true] {
        let engine = fixture.engine("linear", &fixture.lowered);
        let updater = BoxUpdater::over(engine, &fixture.lowered, &Config::default()).expect("no budget");
        let shared = SharedBoxes::new(updater, 3);
        let break_down = Step::on_packets("break", move || {
            let mut left = 100;
            move |_: LookupView<'_>| {
                left -= 1;
                assert!(!panics || left > 0, "enough");
            }
        });
        let mut builder = PlaneBuilder::new();
        let steps = [shared::step(&shared), break_down];
        let stage = plane(&mut builder, &shared, &steps, fixture.messages(1, 16, 0), |_| true);
        builder.leave(stage, Link::new().capacity(2));
        let plane = builder.start().expect("the plane is good");
        let mut answers = vec![0; 300];
        while let Some(rows) = plane.recv() {
            fixture.check(&rows, &mut answers);
            if !panics && answers.iter().sum::<u32>() > 5000 {
                plane.stop();
            }
        }
        match plane.join() {
            Ok(counters) => assert_eq!((panics, counters.lost), (false, 0)),
            Err(error) => assert_eq!((panics, error.panic_text()), (true, Some("enough"))),
        }
    }
}

/// Rules whose search panics from the third sample on.
#[derive(Debug)]
struct Broken(Linear, AtomicUsize);

impl Overlaps for Broken {
    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        assert!(self.1.fetch_add(1, Ordering::Relaxed) < 2, "no third box");
        self.0.visit(probe, cursor, most, visit)
    }

    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool {
        self.0.home(rule, key, probe)
    }
}

/// A panic of the updater ends the plane, and no packet that came out is wrong.
#[test]
fn a_panic_of_the_updater_ends_the_plane() {
    let fixture = Fixture::with(3, 200, 300, 0);
    let rules = Linear::build(&fixture.lowered, &linear::Config::default()).expect("no budget");
    let broken = Arc::new(Broken(rules, AtomicUsize::new(0)));
    let engine = fixture.engine("linear", &fixture.lowered);
    let updater = BoxUpdater::new(engine, broken, &Config::default()).expect("no level is forced");
    let (shared, mut builder) = (SharedBoxes::new(updater, 3), PlaneBuilder::new());
    let stage = plane(&mut builder, &shared, &[shared::step(&shared)], fixture.messages(1, 16, 0), |_| true);
    builder.leave(stage, Link::new().capacity(2));
    let plane = builder.start().expect("the plane is good");
    let mut answers = vec![0; 300];
    std::iter::from_fn(|| plane.recv()).for_each(|rows| fixture.check(&rows, &mut answers));
    let error = plane.join().expect_err("the updater panicked");
    assert_eq!((error.worker(), error.panic_text()), (Some(("updater", 0)), Some("no third box")));
    let counters = error.counters().expect("it ran");
    assert_eq!(counters.delivered, u64::from(answers.iter().sum::<u32>()));
    assert!(counters.accepted >= counters.delivered + counters.lost, "{counters:?}");
}

#[test]
#[should_panic(expected = "there is no worker 2, the boxes are for 2")]
fn boxes_are_for_their_workers() {
    let fixture = Fixture::new(200, 300);
    let engine = fixture.engine("linear", &fixture.lowered);
    let updater = BoxUpdater::over(engine, &fixture.lowered, &Config::default()).expect("no budget");
    SharedLookup::new(&SharedBoxes::new(updater, 2), 2);
}
