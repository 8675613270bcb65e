//! Lookups allocate nothing: the first with a scratch, later ones, and those after changes.

use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::live::Owned;
use firstmatch_core::rule::{Priority, Regions, RuleId, RuleSet};
use firstmatch_core::{Classifier, Match, Schema, Scratch, Updatable, live};

use crate::case::{Case, LONGEST};
use crate::corners;
use crate::corpus::regions_of;
use crate::counter::counted;
use crate::engines::{Start, engines, small_bases, small_meta, updatable_engines};
use crate::generate::{Rules, schemas};
use crate::memory::lowered;
use crate::rng::Rng;

#[test]
fn lookups_allocate_nothing() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        let (set, lowered) = lowered(&schema, 150, seed);
        let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut Rng::new(seed), 300));
        let keys = case.keys.keys();
        let mut out = vec![None; keys.len()];
        let engines: Vec<_> = engines().into_iter().map(|subject| (subject.build(&lowered), subject)).collect();
        // Each takes the scratch of the one before: the first batch renews it where it must, and for good.
        // A restricted list may be empty.
        let Some((first, _)) = engines.first() else { continue };
        let mut scratch = first.scratch();
        for (engine, subject) in engines {
            engine.classify_batch(&mut scratch, keys.slice(0, 1), &mut out[..1]);
            let ((), count) = counted(|| {
                for length in (0..=LONGEST).chain([keys.len()]) {
                    engine.classify_batch(&mut scratch, keys.slice(0, length), &mut out[..length]);
                    engine.improve_batch(&mut scratch, &keys.slice(0, length), &mut out[..length]);
                }
                out[0] = engine.classify(&mut scratch, keys);
            });
            assert_eq!(count.calls, 0, "{}, {name}: {count:?}", subject.name);
            assert!(out == case.want, "{}, {name}", subject.name);
        }
    }
}

/// The first batch with a new scratch allocates nothing either.
///
/// Everything that a lookup needs was made with the scratch.
#[test]
fn first_lookups_allocate_nothing() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        let (set, lowered) = lowered(&schema, 150, seed);
        let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut Rng::new(seed), 300));
        for subject in engines() {
            let engine = subject.build(&lowered);
            // One packet, a few, and more than any engine takes at a time.
            for length in [1, 7, 300] {
                let said = format!("{}, {name}, first batch of {length}", subject.name);
                check_batch(&*engine, &mut engine.scratch(), &case, length, &said);
            }
        }
    }
}

/// Looks up the first packets of a case; panics if that allocates or an answer is wrong.
fn check_batch(engine: &dyn Classifier, scratch: &mut Scratch, case: &Case, length: usize, said: &str) {
    let mut out = vec![None; length];
    let ((), count) = counted(|| engine.classify_batch(scratch, case.keys.keys().slice(0, length), &mut out));
    assert_eq!(count.calls, 0, "{said}: {count:?}");
    assert!(out == case.want[..length], "{said}");
}

/// The next batch after changes takes nothing, with an old scratch and with a new one.
///
/// Rules come and go, in place, in an overlay and through rebuilds. A front may need a new scratch after a rebuild.
#[test]
fn lookups_after_changes_allocate_nothing() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        for subject in updatable_engines().into_iter().filter(|subject| !subject.name.contains(" behind ")) {
            let mut rng = Rng::new(seed);
            let (mut set, lowered) = lowered(&schema, 60, seed);
            let mut drawn = Rules::new(&schema, &mut rng, 60);
            let mut engine = subject.start(Start::Rules(&lowered));
            // The idle one never looks up before rules change, the old one does after every few changes.
            let (mut idle, mut old) = (engine.scratch(), engine.scratch());
            for round in 0..12 {
                for _ in 0..4 {
                    change(&mut *engine, &mut set, &mut drawn, &mut rng);
                }
                let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut rng, 40));
                let said = format!("{}, {name}, round {round}", subject.name);
                check_batch(&*engine, &mut old, &case, 40, &said);
                check_batch(&*engine, &mut engine.scratch(), &case, 40, &said);
                if round == 11 {
                    check_batch(&*engine, &mut idle, &case, 40, &said);
                }
            }
        }
    }
}

/// Inserts a rule, or removes one.
fn change(engine: &mut dyn Updatable, set: &mut RuleSet, drawn: &mut Rules, rng: &mut Rng) {
    let live: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
    if rng.percent(50) && !live.is_empty() {
        let id = *rng.pick(&live);
        set.remove(id).expect("it is live");
        engine.remove(id).expect("it is there");
    } else {
        let mut spec = drawn.rule(rng);
        spec.priority = Priority(rng.next() >> 8);
        let regions: Regions = regions_of(engine.schema(), &spec);
        let rule = Match { priority: spec.priority, rule: set.insert(spec).expect("it fits") };
        engine.insert(rule, &regions).expect("it fits");
    }
}

/// Lookups in `meta`, beside each kind of change, allocate nothing.
///
/// Nor do those of a cache in front of it. Changes stay in place, in the overlay or among the tombstones.
#[test]
fn lookups_beside_changes_of_every_kind_allocate_nothing() {
    let schema = Schema::ipv4();
    for (kind, in_place) in small_bases() {
        let many = Some(1 << 20);
        let config = live::Config {
            strategy: live::Strategy::Force(kind),
            in_place: Some(if in_place > 0 { 1 << 20 } else { 0 }),
            overlay: many,
            due: many,
            dead: many,
            ..small_meta()
        };
        let (mut set, lowered) = lowered(&schema, 200, 3);
        let mut rng = Rng::new(4);
        let mut drawn = Rules::new(&schema, &mut rng, 200);
        let cache = flow::Config { entries: 64, steps_aside: false, seed: Some(1), ..flow::Config::default() };
        let inner = Owned::build(&lowered, &config).expect("no budget");
        let mut engine = FlowCache::new(inner, &cache).expect("no level is forced");
        let (mut cached, mut bare) = (engine.scratch(), Classifier::scratch(engine.inner()));
        for round in 0..40 {
            change(&mut engine, &mut set, &mut drawn, &mut rng);
            let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut rng, 80));
            let said = format!("{kind}, in place: {in_place}, round {round}");
            check_batch(&engine, &mut cached, &case, 80, &said);
            check_batch(engine.inner(), &mut bare, &case, 80, &said);
            check_batch(&engine, &mut engine.scratch(), &case, 80, &said);
        }
        let explained = engine.inner().engine().explain();
        assert!(explained.epoch == 0 && explained.overlay > 0, "{explained}");
        assert_eq!((explained.in_place > 0, explained.dead > 0), (in_place > 0, in_place == 0), "{explained}");
    }
}

/// The first batch after a rebuild to `bit_vector` allocates nothing.
///
/// That is because a reader's scratch has room for whatever base a rebuild takes.
#[test]
fn the_first_batch_after_a_rebuild_allocates_nothing() {
    let text = |rules: u32| -> String {
        let rule = |at| format!("deny sport {at}-{} dport {}-{}\n", 2 * at + 90, 300 - at, 999 - at);
        std::iter::once("family ipv4\n".to_owned()).chain((0..rules).map(rule)).collect()
    };
    let parsed =
        |rules| firstmatch_formats::parse(&text(rules), &firstmatch_formats::Options::default()).expect("rules").rules;
    let config = live::Config { seed: Some(1), ..live::Config::default() };
    let (engines, mut writer) = live::open(parsed(3), &config).expect("no budget");
    let (engine, all) = (&engines[0], parsed(300));
    let case = Case::new(&all, engine.schema(), corners::of_set(&all, engine.schema(), &mut Rng::new(1), 300));
    let (keys, mut out) = (case.keys.keys(), vec![None; case.keys.keys().len()]);
    let mut scratch = Classifier::scratch(engine);
    engine.classify_batch(&mut scratch, keys, &mut out);
    let mut transaction = writer.begin();
    for rule in all.iter().skip(3) {
        transaction.insert(rule.spec.clone()).expect("it fits");
    }
    transaction.commit().expect("there is room");
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    let _old = writer.install(rebuilt).expect("the last");
    assert_eq!(engine.explain().kind, live::Kind::BitVector, "{}", engine.explain());
    let ((), count) = counted(|| engine.classify_batch(&mut scratch, keys, &mut out));
    assert_eq!(count.calls, 0, "{count:?}");
    let right = out.iter().zip(&case.want).all(|(is, want)| is.map(|of| of.priority) == want.map(|of| of.priority));
    assert!(right, "the answers are those of the oracle");
}
