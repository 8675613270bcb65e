use std::sync::mpsc;
use std::thread;

use super::*;
use crate::engine::Classifier;
use crate::format;
use crate::key::KeyBuf;
use crate::rule::{Caps, FieldValues, Priority, Region, RuleId, RuleSet, lower};

fn rules(text: &str) -> RuleSet {
    format::parse(text, &format::Options::default()).expect("it parses").rules
}

/// A reader stands still inside a batch: `try_commit` says so and changes nothing, then the same transaction succeeds.
#[test]
fn try_commit_says_busy_and_changes_nothing() {
    let (engines, mut writer) =
        open(rules("family ipv4\ndeny dport 1\ndeny dport 2\ndeny dport 3\n"), &Config::default()).expect("no budget");
    let engine = &engines[0];
    let ids: Vec<_> = writer.rules().iter().map(|rule| rule.id).collect();
    let (go, stopped) = mpsc::channel::<()>();
    let (inside, is_inside) = mpsc::channel::<()>();
    let answer = || {
        let mut keys = KeyBuf::new(&engine.schema);
        keys.push_values(&FieldValues {
            family: engine.schema.family(),
            values: vec![Some(1), Some(2), Some(3), Some(2), Some(6)],
        });
        engine.classify(&mut engine.scratch(), keys.keys()).map(|found| found.rule)
    };
    thread::scope(|scope| {
        scope.spawn(move || {
            let seat = engine.twin.seat();
            engine.twin.read(&seat, |_| {
                inside.send(()).expect("the test waits");
                stopped.recv().expect("the test goes on");
            });
        });
        is_inside.recv().expect("the reader comes there");
        let mut first = writer.begin();
        first.remove(ids[0]).expect("it is live");
        assert_eq!(first.try_commit(), Ok(1), "the other copy is free");
        drop(first);
        let mut second = writer.begin();
        second.remove(ids[1]).expect("it is live");
        for _ in 0..3 {
            assert!(second.try_commit().is_err_and(|error| error.is_busy()));
            assert_eq!((engine.generation(), answer()), (1, Some(ids[1])));
        }
        go.send(()).expect("the reader waits");
        assert_eq!(second.commit(), Ok(2));
        assert_eq!(answer(), None);
    });
    let mut third = writer.begin();
    third.remove(ids[2]).expect("it is live");
    assert_eq!(third.commit(), Ok(3), "what one copy was owed it has");
    assert_eq!(engine.stats().rules, 0);
}

/// Counts stay with their rule through rebuilds, and do not pass to the next rule of its slot.
#[test]
fn counts_survive_rebuilds() {
    let (_engines, mut writer) =
        open(rules("family ipv4\ndeny dport 1\ndeny dport 2\n"), &Config::default()).expect("no budget");
    let ids: Vec<_> = writer.rules().iter().map(|rule| rule.id).collect();
    let mut ledger = writer.ledger();
    ids.iter().for_each(|&id| ledger.add(id, 3, 180));
    let spec = writer.rules().get(ids[0]).expect("it is live").spec.clone();
    let mut transaction = writer.begin();
    let next = transaction.replace(ids[0], spec).expect("it fits");
    assert_eq!(next.slot(), ids[0].slot());
    assert_eq!(transaction.commit(), Ok(1));
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    assert_eq!(writer.install(rebuilt).map(|old| old.epoch()), Ok(1));
    ledger.add(next, 1, 60);
    assert_eq!(writer.count(ids[0]), None);
    assert_eq!(writer.count(next), Some(Count { packets: 1, bytes: 60 }));
    assert_eq!(writer.count(ids[1]), Some(Count { packets: 3, bytes: 180 }));
}

/// What is said of the bounds of builds is so.
#[test]
fn bounds_are_as_they_say() {
    let of = |kind: Kind, regions: u32| {
        let mut set = Lowered::empty(&Schema::ipv4());
        for at in 0..regions {
            let rule = Match { rule: RuleId::new(at, 0), priority: Priority::of_line(at + 1) };
            set.push(rule, Region { lo: &[0; 5], hi: &[0; 5], ternary: None });
        }
        limits::build_bytes(kind, &set)
    };
    let each = |kind: Kind, regions: u32| (of(kind, 2 * regions) - of(kind, regions)) as f64 / f64::from(regions);
    assert_eq!(each(Kind::BitSelect, 1024), 2360.0);
    assert_eq!(each(Kind::TupleMerge, 1024), 448.0);
    assert_eq!(each(Kind::Linear, 1024), 64.0);
    let vectors = [1000, 2000].map(|regions| (of(Kind::BitVector, regions) - (512 << 10)) / regions as usize);
    assert_eq!(vectors, [8324, 16004]);
}

/// Keys that candidates are timed on lie in rules, each as often, however many regions it has; half of them at corners.
#[test]
fn keys_of_a_trial_lie_in_every_rule_alike() {
    let many: Vec<String> = (0..20).map(|port| (5 * port).to_string()).collect();
    let set = rules(&format!("family ipv4\ndeny dport {{ {} }}\npermit dst 192.0.2.0/24\n", many.join(", ")));
    let lowered = lower(&set, &set.schemas()[0], &Caps::default()).expect("within the caps");
    let (regions, count) = (lowered.regions(), 4_000);
    assert_eq!(regions.len(), 21);
    let keys = trial::drawn(&lowered, count);
    let is_in = |row: usize, places: std::ops::Range<usize>| {
        places.into_iter().any(|at| regions.get(at).contains(keys.keys().row(row)))
    };
    let of = |is: &dyn Fn(usize) -> bool| (0..count).filter(|&row| is(row)).count() as f64 / count as f64;
    assert_eq!(of(&|row| is_in(row, 0..21)), 1.0);
    // Half of the keys are of the other rule, and one in four of those has from this one what its own leaves open.
    let (first, second) = (of(&|row| is_in(row, 0..20)), of(&|row| is_in(row, 20..21)));
    assert!((0.6..0.65).contains(&first) && (0.6..0.65).contains(&second), "{first} {second}");
    let dst = lowered.schema().lanes_of(1).start;
    let inside = of(&|row| is_in(row, 20..21) && !matches!(keys.keys().row(row)[dst] & 0xFF, 0 | 0xFF));
    assert!((0.47..0.53).contains(&(inside / second)), "{inside} of {second}");
}
