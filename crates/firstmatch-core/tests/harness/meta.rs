//! Tests of `meta` as its users have it: transactions, readers in threads, and rebuilds.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use firstmatch_core::live::{self, Config, Engine, Kind, RebuildJob, Rebuilt, Strategy, Writer};
use firstmatch_core::rule::{FieldValues, Priority, RuleId, RuleSet, RuleSpec};
use firstmatch_core::{Classifier, Match, Schema};

use crate::case::Case;
use crate::corners;
use crate::engines::{small_bases, small_meta};
use crate::generate::{Rules, rule_set, schemas};
use crate::limit::{Stop, within};
use crate::rng::Rng;

/// Every answer there ever was to the same packets, by generation.
type History = RwLock<Vec<Vec<Option<Match>>>>;

/// Writer and what it is compared with.
struct Story<'a> {
    name: String,
    writer: Writer,
    /// Rules of the writer, changed by hand.
    model: RuleSet,
    schema: Schema,
    packets: &'a [FieldValues],
    history: &'a History,
    rules: Rules,
    rng: Rng,
    job: Option<RebuildJob>,
    built: Option<Rebuilt>,
    refused: usize,
    in_place: usize,
}

impl Story<'_> {
    fn answers(&self, set: &RuleSet) -> Vec<Option<Match>> {
        Case::new(set, &self.schema, self.packets.to_vec()).want
    }

    /// Makes a transaction of a few changes; some changes fail, some transactions are dropped.
    fn transact(&mut self) {
        let (mut next, mut is_changed) = (self.model.clone(), false);
        let mut transaction = self.writer.begin();
        for _ in 0..1 + self.rng.below(3) {
            let live: Vec<(RuleId, Priority)> = next.iter().map(|rule| (rule.id, rule.priority)).collect();
            let spec = RuleSpec { priority: Priority(self.rng.next() >> 8), ..self.rules.rule(&mut self.rng) };
            let of = self.rng.below(10);
            match of {
                0..4 => assert_eq!(transaction.insert(spec.clone()), next.insert(spec)),
                4..7 if !live.is_empty() => {
                    // The first rules decide most packets.
                    let (id, _) = live[self.rng.below(live.len().min(6))];
                    assert!(transaction.remove(id).is_ok() && next.remove(id).is_ok());
                    assert!(transaction.remove(id).is_err_and(|error| error.is_stale()));
                }
                7..9 if !live.is_empty() => {
                    let (id, priority) = *self.rng.pick(&live);
                    let spec = RuleSpec { priority, ..spec };
                    next.remove(id).expect("it is live");
                    assert_eq!(transaction.replace(id, spec.clone()), next.insert(spec));
                }
                _ if live.len() > 1 => {
                    let taken = RuleSpec { priority: live[0].1, ..spec };
                    assert!(transaction.insert(taken.clone()).is_err(), "the priority is taken");
                    assert!(transaction.replace(live[1].0, taken).is_err(), "so it is for a replacement");
                }
                _ => {}
            }
            is_changed |= of < 4 || of < 9 && !live.is_empty();
            assert!(transaction.rules().iter().eq(next.iter()));
        }
        if self.rng.percent(15) {
            drop(transaction);
            assert!(self.writer.rules().iter().eq(self.model.iter()), "{}: nothing is left of it", self.name);
            // Only the ids that it gave out are left: they do not come back.
            self.model = self.writer.rules().clone();
            return;
        }
        if !is_changed {
            // Without changes there is no new generation.
            assert_eq!(
                transaction.commit().map(|last| last + 1),
                Ok(self.history.read().expect("no panic").len() as u64)
            );
            return;
        }
        // Readers may see the answers as soon as they are committed.
        let answers = Case::new(&next, &self.schema, self.packets.to_vec()).want;
        let generation = {
            let mut history = self.history.write().expect("no panic");
            history.push(answers);
            history.len() as u64 - 1
        };
        match transaction.commit() {
            Ok(committed) => {
                assert_eq!(committed, generation, "{}", self.name);
                assert!(self.writer.rules().iter().eq(next.iter()), "{}", self.name);
            }
            Err(error) => {
                assert!(error.needs_rebuild(), "{}: {error}", self.name);
                self.refused += 1;
                self.history.write().expect("no panic").pop();
                assert!(self.writer.rules().iter().eq(self.model.iter()), "{}: nothing is left of it", self.name);
                self.rebuild_a_bit();
            }
        }
        self.model = self.writer.rules().clone();
    }

    /// Takes one step of a rebuild, so that changes come in between.
    fn rebuild_a_bit(&mut self) {
        if let Some(rebuilt) = self.built.take() {
            // A new base may have less room than the old one for what has changed meanwhile.
            let installed = self.writer.install(rebuilt);
            assert!(installed.is_ok() || self.in_place > 0, "{}: it is the last", self.name);
        } else if let Some(job) = self.job.take() {
            self.built =
                Some(thread::scope(|scope| scope.spawn(|| job.run()).join()).expect("no panic").expect("no budget"));
        } else {
            self.job = Some(self.writer.begin_rebuild());
        }
    }
}

/// Every batch of every reader is right for one generation, and none goes back in time.
///
/// Transactions are drawn at random, with rebuilds begun, run and installed between them.
#[test]
fn readers_see_one_generation_after_the_other() {
    within(600, see_one_generation_after_the_other);
}

fn see_one_generation_after_the_other() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        for (kind, in_place) in small_bases() {
            let mut rng = Rng::new(seed);
            let rules = rule_set(&schema, &mut rng, 30);
            let packets = corners::of_set(&rules, &schema, &mut rng, 80);
            let history = History::default();
            let (engines, writer) = live::open(
                rules.clone(),
                &Config { strategy: Strategy::Force(kind), in_place: Some(in_place), ..small_meta() },
            )
            .expect("no budget");
            let mut story = Story {
                name: format!("{name} over {}, in place<={in_place}", kind.name()),
                writer,
                model: rules,
                schema: schema.clone(),
                packets: &packets,
                history: &history,
                rules: Rules::new(&schema, &mut rng, 30),
                rng,
                job: None,
                built: None,
                refused: 0,
                in_place,
            };
            let first = story.answers(&story.model);
            history.write().expect("no panic").push(first);
            let (done, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
            thread::scope(|scope| {
                let _stop = Stop(&done);
                let reader = || read(&engines[0], &schema, &packets, &history, &done, &batches);
                let readers = [scope.spawn(reader), scope.spawn(reader)];
                while engines[0].epoch() < 25 || batches.load(Ordering::Relaxed) < 50 {
                    assert!(readers.iter().all(|reader| !reader.is_finished()), "{}: a reader gave up", story.name);
                    story.transact();
                    if story.rng.percent(40) {
                        story.rebuild_a_bit();
                    }
                }
            });
            assert!(engines[0].generation() > 40, "{}", story.name);
            assert!(story.refused > 0 || in_place > 0, "{}: the overlay was never full", story.name);
        }
    }
}

fn read(
    engine: &Engine,
    schema: &Schema,
    packets: &[FieldValues],
    history: &History,
    done: &AtomicBool,
    batches: &AtomicUsize,
) {
    let case = Case::new(&RuleSet::new(schema.clone()), schema, packets.to_vec());
    let (mut scratch, mut last) = (engine.scratch(), 0);
    let mut answers = vec![None; packets.len()];
    while !done.load(Ordering::Relaxed) {
        let before = engine.generation().max(last);
        engine.classify_batch(&mut scratch, case.keys.keys(), &mut answers);
        let after = engine.generation();
        let history = history.read().expect("no panic");
        let seen = (before..=after).find(|&generation| history[generation as usize] == answers);
        last = seen.unwrap_or_else(|| panic!("no generation in {before}..={after} has these answers"));
        batches.fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
    }
}

/// An old job, or its result, is refused once another was begun or installed.
///
/// A dropped one is forgotten.
#[test]
fn only_the_last_rebuild_is_installed() {
    let schema = Schema::ipv4();
    let rules = rule_set(&schema, &mut Rng::new(3), 40);
    let ids: Vec<RuleId> = rules.iter().map(|rule| rule.id).collect();
    let (engines, mut writer) = live::open(rules, &small_meta()).expect("no budget");
    let remove = |writer: &mut Writer, at: usize| {
        let mut transaction = writer.begin();
        transaction.remove(ids[at]).expect("it is live");
        transaction.commit().expect("a removal has room");
    };
    (0..8).for_each(|at| remove(&mut writer, at));
    assert!(writer.rebuild_is_due());
    let first = writer.begin_rebuild();
    assert!(!writer.rebuild_is_due(), "one is begun");
    drop(first);
    assert!(writer.rebuild_is_due(), "it is gone");
    let old = writer.begin_rebuild().run().expect("no budget");
    let new = writer.begin_rebuild();
    remove(&mut writer, 8);
    assert!(writer.install(old).is_err());
    assert_eq!(writer.install(new.run().expect("no budget")).map(|old| old.epoch()), Ok(1));
    let explained = engines[0].explain();
    assert_eq!((explained.in_place + explained.dead, explained.epoch, explained.generation), (1, 1, 9));
    let case = Case::new(writer.rules(), &schema, corners::of_set(writer.rules(), &schema, &mut Rng::new(4), 200));
    case.check_thoroughly(&engines[0]).expect("right");
}

/// A rebuild has all changes made before it runs, while it does, and before it is installed.
///
/// Many rules are in the overlay, so that most keys need not ask it. Readers look up all the while.
#[test]
fn a_rebuild_has_what_changed_meanwhile() {
    within(600, || {
        for (seed, (name, schema)) in (0..).zip(schemas()) {
            change_while_rebuilding(name, &schema, seed, if seed % 2 == 0 { 0 } else { 5_000 });
        }
    });
}

/// Changes rules around two rebuilds; `in_place` changes in place would make one due.
fn change_while_rebuilding(name: &str, schema: &Schema, seed: u64, in_place: usize) {
    let mut rng = Rng::new(seed);
    let rules = rule_set(schema, &mut rng, 300);
    let packets = corners::of_set(&rules, schema, &mut rng, 200);
    let many = Some(5_000);
    let kind = Some(Kind::BitSelect);
    let config = Config {
        strategy: kind.into(),
        overlay: many,
        due: many,
        dead: many,
        in_place: Some(in_place),
        ..small_meta()
    };
    let (engines, mut writer) = live::open(rules, &config).expect("no budget");
    let mut drawn = Rules::new(schema, &mut rng, 300);
    let mut change = |writer: &mut Writer, count: usize| {
        for _ in 0..count {
            let id = writer.rules().iter().nth(rng.below(writer.rules().len())).expect("some are live").id;
            let spec = RuleSpec { priority: Priority(rng.next() >> 8), ..drawn.rule(&mut rng) };
            let mut transaction = writer.begin();
            if rng.percent(50) || transaction.rules().len() < 100 {
                transaction.insert(spec).expect("it fits");
            } else {
                transaction.remove(id).expect("it is live");
            }
            transaction.commit().expect("there is room");
        }
    };
    let (done, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _stop = Stop(&done);
        scope.spawn(|| {
            let case = Case::new(&RuleSet::new(schema.clone()), schema, packets.clone());
            let (mut scratch, mut answers) = (engines[0].scratch(), vec![None; packets.len()]);
            // Few keys at a time, because the writer waits for a batch.
            while !done.load(Ordering::Relaxed) {
                engines[0].classify_batch(&mut scratch, case.keys.keys().slice(0, 16), &mut answers[..16]);
                batches.fetch_add(1, Ordering::Relaxed);
                // Where cores are short, a thread that is stopped here has no batch for the writer to wait for.
                thread::yield_now();
            }
        });
        let check = |writer: &Writer, when: &str| {
            let answers = Case::new(writer.rules(), schema, packets.clone()).check(&engines[0]);
            answers.unwrap_or_else(|error| panic!("{name}, {when}: {error}"));
        };
        for round in 1..=2 {
            change(&mut writer, 100);
            check(&writer, "before");
            let job = writer.begin_rebuild();
            change(&mut writer, 400);
            let rebuilt = thread::scope(|scope| {
                let running = scope.spawn(|| job.run());
                change(&mut writer, 200);
                running.join().expect("no panic").expect("no budget")
            });
            change(&mut writer, 100);
            check(&writer, "before it is installed");
            let before = engines[0].explain();
            assert_eq!(before.in_place > 0, in_place > 0, "{name}: {before}");
            assert_eq!(writer.install(rebuilt).map(|old| old.epoch()), Ok(round));
            check(&writer, "installed");
            // Changes that came while the job ran went to the new base, or beside it.
            let after = engines[0].explain();
            assert_eq!(after.in_place > 0, in_place > 0, "{name}: {after}");
            assert!(engines[0].overlay().0 <= 700, "what the base has has left the overlay");
        }
    });
    assert!(batches.load(Ordering::Relaxed) > 0);
}

/// In a storm of changes without rebuild, the overlay fills to its cap and no further.
///
/// The cap bounds the cost of a lookup. A refused change changes nothing, and removals are never refused.
#[test]
fn a_storm_is_held_back() {
    [0, 100].into_iter().for_each(hold_back);
}

fn hold_back(in_place: usize) {
    const CAP: usize = 64;
    let schema = Schema::ipv4();
    let mut rng = Rng::new(5);
    let rules = rule_set(&schema, &mut rng, 400);
    let packets = corners::of_set(&rules, &schema, &mut rng, 300);
    let mut drawn = Rules::new(&schema, &mut rng, 400);
    let config = Config {
        strategy: Strategy::Force(Kind::BitSelect),
        overlay: Some(CAP),
        in_place: Some(in_place),
        ..small_meta()
    };
    let (engines, mut writer) = live::open(rules, &config).expect("no budget");
    let check = |writer: &Writer| {
        Case::new(writer.rules(), &schema, packets.clone()).check(&engines[0]).expect("right");
    };
    let base = engines[0].stats();
    let (mut refused, mut removed) = (0, 0);
    for step in 0..1500 {
        let before = (writer.rules().len(), engines[0].generation());
        let spec = RuleSpec { priority: Priority(rng.next() >> 8), ..drawn.rule(&mut rng) };
        let first = writer.rules().iter().next().map(|rule| rule.id);
        let mut transaction = writer.begin();
        if step % 8 == 0 {
            transaction.remove(first.expect("some are live")).expect("it is live");
            transaction.commit().expect("a removal has room");
            removed += 1;
        } else {
            transaction.insert(spec).expect("it fits");
            if let Err(error) = transaction.commit() {
                assert!(error.needs_rebuild() && engines[0].overlay() == (CAP, CAP));
                assert_eq!((writer.rules().len(), engines[0].generation()), before);
                refused += 1;
            }
        }
        let stats = engines[0].stats();
        // Each tree's lists may have become four blocks long.
        let regions = engines[0].overlay().0 * 4096 + base.tables * 4 * 8;
        assert!(engines[0].overlay().0 <= CAP && stats.worst_tests <= 2 * base.worst_tests + regions);
    }
    assert!(refused > 500 && removed > 100, "{refused} refused");
    check(&writer);
    assert!(writer.rebuild_is_due());
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("the last");
    assert_eq!(engines[0].overlay().0, 0);
    check(&writer);
}

/// Rules get new priorities where there is no room between two.
///
/// Ids, answers and later changes are as before.
#[test]
fn rules_are_renumbered() {
    let schema = Schema::ipv4();
    let mut rng = Rng::new(6);
    let rules = rule_set(&schema, &mut rng, 60);
    let packets = corners::of_set(&rules, &schema, &mut rng, 300);
    let (engines, mut writer) = live::open(rules, &small_meta()).expect("no budget");
    let ids: Vec<RuleId> = writer.rules().iter().map(|rule| rule.id).collect();
    let insert = |writer: &mut Writer, priority: Priority| {
        let spec = writer.rules().get(ids[9]).expect("it is live").spec.clone();
        let mut transaction = writer.begin();
        transaction.insert(RuleSpec { priority, ..spec }).expect("it fits");
        transaction.commit().expect("there is room")
    };
    let priority = |writer: &Writer, at: usize| writer.rules().iter().nth(at).expect("it is there").priority;
    let (first, second) = (priority(&writer, 0), priority(&writer, 1));
    insert(&mut writer, Priority(first.0 + 1));
    assert_eq!(Priority::between(first, priority(&writer, 1)), None, "of {first:?} and {second:?}");
    let (job, run) = (writer.begin_rebuild(), writer.begin_rebuild().run().expect("no budget"));
    assert_eq!(writer.renumber().map(|old| old.epoch()), Ok(1));
    // Jobs begun before have the priorities of before, whether they were run then or are now.
    for rebuilt in [run, job.run().expect("no budget")] {
        assert!(writer.install(rebuilt).is_err());
    }
    assert_eq!((engines[0].epoch(), engines[0].generation()), (1, 2));
    assert!(ids.iter().all(|&id| writer.rules().get(id).is_some()));
    let between = Priority::between(priority(&writer, 0), priority(&writer, 1)).expect("there is room");
    let check = |writer: &Writer| {
        Case::new(writer.rules(), &schema, packets.clone()).check(&engines[0]).expect("right");
    };
    check(&writer);
    assert_eq!(engines[0].overlay().0, 0);
    assert_eq!(insert(&mut writer, between), 3, "it was a transaction of its own");
    let mut transaction = writer.begin();
    transaction.remove(ids[3]).expect("it is live");
    transaction.commit().expect("a removal has room");
    check(&writer);
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("the last");
    check(&writer);
}

/// One transaction changes both families, and both engines are right after each.
#[test]
fn both_families_change_together() {
    let text = "deny tcp dport 23\npermit src 10.0.0.0/8 dport 80\npermit src 2001:db8::/32 dst 2001:db8:1::/48\n\
                deny dst { 192.0.2.1, 2001:db8::1 }\nfamily ipv6 permit udp\npermit dport 1000-2000\ndeny any\n";
    let text =
        text.replace("family ipv6 permit udp\n", "permit dst 2001:db8::/64 udp\n").replace("deny any\n", "deny tcp\n");
    let rules = firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).expect("it parses").rules;
    let specs: Vec<RuleSpec> = rules.iter().map(|rule| rule.spec.clone()).collect();
    let mut rng = Rng::new(1);
    let packets: Vec<Vec<FieldValues>> =
        rules.schemas().iter().map(|schema| corners::of_set(&rules, schema, &mut rng, 200)).collect();
    let (engines, mut writer) =
        live::open(rules, &Config { strategy: Strategy::Force(Kind::BitSelect), in_place: Some(4), ..small_meta() })
            .expect("ok");
    assert_eq!(engines.len(), 2);
    let check = |writer: &Writer| {
        for (engine, packets) in engines.iter().zip(&packets) {
            let case = Case::new(writer.rules(), Classifier::schema(engine), packets.clone());
            case.check(engine).expect("right");
        }
    };
    for round in 0..30 {
        let mut transaction = writer.begin();
        let live: Vec<RuleId> = transaction.rules().iter().map(|rule| rule.id).collect();
        if let Some(&id) = live.get(round % 3) {
            transaction.remove(id).expect("it is live");
        }
        let priority = Priority(rng.next());
        let spec = RuleSpec { priority, ..specs[rng.below(specs.len())].clone() };
        transaction.insert(spec).expect("it fits");
        if let Err(error) = transaction.commit() {
            assert!(error.needs_rebuild());
        }
        check(&writer);
        if writer.rebuild_is_due() {
            let rebuilt = writer.begin_rebuild().run().expect("no budget");
            writer.install(rebuilt).expect("the last");
            check(&writer);
        }
    }
    let counts: Vec<_> = engines.iter().map(|engine| (engine.epoch(), engine.generation(), engine.overlay())).collect();
    assert!(counts.iter().all(|&(epoch, generation, _)| epoch > 5 && generation > 20), "{counts:?}");
}
