//! Transactions that no overlay can hold: they are committed as one generation, over new bases.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, RwLock};

use super::*;
use crate::engine::budget::Budget;
use crate::engines::shared::wide::Random;
use crate::rule::{Action, first_match};
use crate::schema::Family;
use crate::select::{Kind, Limits, Strategy};

const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// Returns a dual-stack set of `count` random rules, for either family or for both.
fn drawn(random: &mut Random, count: usize) -> RuleSet {
    let mut line = || {
        let (net, port) = (random.below(200), random.below(40));
        match random.below(5) {
            0 | 1 => format!("deny src 10.{net}.0.0/16 dport {port}\n"),
            2 | 3 => format!("deny src 2001:db8:{net}::/48 dport {port}\n"),
            _ => format!("permit dport {} sport {net}\n", port + 20),
        }
    };
    rules(&(0..count).map(|_| line()).collect::<String>())
}

fn packets(random: &mut Random) -> [Vec<FieldValues>; 2] {
    FAMILIES.map(|family| {
        let packet = |_| {
            let net = random.below(200) as u128;
            let src = if family == Family::Ipv4 { 10 << 24 | net << 16 } else { 0x2001_0db8 << 96 | net << 80 };
            let values = vec![Some(src), Some(1), Some(net), Some(random.below(60) as u128), Some(6)];
            FieldValues { family: Some(family), values }
        };
        (0..100).map(packet).collect()
    })
}

type Answers = [Vec<Option<RuleId>>; 2];

fn want(rules: &RuleSet, packets: &[Vec<FieldValues>; 2]) -> Answers {
    packets.each_ref().map(|of| of.iter().map(|packet| first_match(rules, packet).map(|rule| rule.id)).collect())
}

fn answers_of(engine: &Engine, packets: &[FieldValues]) -> Vec<Option<RuleId>> {
    let mut keys = KeyBuf::new(&engine.schema);
    packets.iter().for_each(|packet| keys.push_values(packet));
    let mut got = vec![None; packets.len()];
    engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut got);
    got.into_iter().map(|found| found.map(|found| found.rule)).collect()
}

fn check(engines: &[Engine], writer: &Writer, packets: &[Vec<FieldValues>; 2]) {
    let got = [0, 1].map(|part| answers_of(&engines[part], &packets[part]));
    assert_eq!(got, want(writer.rules(), packets));
    for engine in engines {
        assert_eq!(engine.stats().total_bytes(), engine.explain().bytes);
    }
}

/// Appends `count` random rules.
fn append(transaction: &mut Transaction<'_>, random: &mut Random, count: usize) -> Vec<RuleId> {
    let last = transaction.rules().iter().next_back().map_or(0, |rule| rule.priority.0);
    let each = |(at, rule): (u64, &crate::rule::Rule)| {
        let spec = RuleSpec { priority: Priority(last + (at << 20)), value: at, ..rule.spec.clone() };
        transaction.insert(spec).expect("it fits")
    };
    (1..).zip(drawn(random, count).iter()).map(each).collect()
}

/// A commit that no overlay can hold is one generation and one rebuild, whatever it inserts and removes. Readers beside
/// it see the rules before or behind it.
#[test]
fn a_large_transaction_is_one_generation() {
    within(300, || {
        for config in [
            Config::default(),
            Config { strategy: Strategy::FirstFit, in_place: Some(0), overlaps: true, ..Config::default() },
        ] {
            commit_large(&Config { attachments: true, seed: Some(1), ..config });
        }
    });
}

fn commit_large(config: &Config) {
    let mut random = Random(5);
    let packets = packets(&mut random);
    let (engines, mut writer) = open(drawn(&mut random, 1_000), config).expect("no budget");
    let history = RwLock::new(vec![want(writer.rules(), &packets)]);
    let (done, batches) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _stop = Stop(&done);
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for (part, engine) in engines.iter().enumerate() {
                    let before = engine.generation();
                    let got = answers_of(engine, &packets[part]);
                    let after = engine.generation();
                    let history = history.read().expect("no panic");
                    let mut seen = before..=after;
                    assert!(seen.any(|of| history[of as usize][part] == got), "generations {before} to {after}");
                }
                batches.fetch_add(1, Ordering::Relaxed);
                thread::yield_now();
            }
        });
        let commit = |writer: &mut Writer, epoch: u64, change: &mut dyn FnMut(&mut Transaction<'_>)| {
            let mut transaction = writer.begin();
            change(&mut transaction);
            let next = want(transaction.rules(), &packets);
            let generation = {
                let mut history = history.write().expect("no panic");
                history.push(next);
                history.len() as u64 - 1
            };
            assert_eq!(transaction.commit(), Ok(generation));
            assert_eq!((engines[0].generation(), engines[1].epoch()), (generation, epoch));
            assert!(!writer.rebuild_is_due() || epoch < 2);
            check(&engines, writer, &packets);
        };
        let mut inserted = Vec::new();
        commit(&mut writer, 1, &mut |transaction| inserted = append(transaction, &mut random, 6_000));
        let attached = writer.handle().reader().read(|snapshot| snapshot.attached(inserted[4_321]));
        assert_eq!((attached.value, writer.rules().len()), (4_322, 7_000));
        let gap = writer.rules().iter().nth(500).expect("a rule").priority.0;
        commit(&mut writer, 2, &mut |transaction| {
            let ids: Vec<RuleId> = transaction.rules().iter().map(|rule| rule.id).step_by(3).collect();
            ids.iter().for_each(|&id| transaction.remove(id).expect("it is live"));
            for (at, rule) in (1..).zip(drawn(&mut random, 9_000).iter()) {
                let spec = RuleSpec { priority: Priority(gap + at), ..rule.spec.clone() };
                let id = transaction.insert(spec).expect("it fits");
                if at % 4 == 0 {
                    transaction.remove(id).expect("it is live");
                }
            }
        });
        // Small changes and a rebuild go on from there.
        commit(&mut writer, 2, &mut |transaction| {
            let ids: Vec<RuleId> = transaction.rules().iter().map(|rule| rule.id).take(20).collect();
            ids.iter().for_each(|&id| transaction.remove(id).expect("it is live"));
            _ = append(transaction, &mut random, 20);
        });
        let rebuilt = writer.begin_rebuild().run().expect("no budget");
        assert_eq!(writer.install(rebuilt).map(|old| old.epoch()), Ok(3));
        check(&engines, &writer, &packets);
        while batches.load(Ordering::Relaxed) < 3 {
            thread::yield_now();
        }
    });
}

/// A rebuild that is under way is overtaken by such a commit, and the next one starts from its rules.
#[test]
fn a_large_transaction_overtakes_a_rebuild() {
    let mut random = Random(6);
    let packets = packets(&mut random);
    let (engines, mut writer) = open(drawn(&mut random, 100), &Config::default()).expect("no budget");
    let [early, late] = [(); 2].map(|()| {
        let job = writer.begin_rebuild();
        let mut transaction = writer.begin();
        _ = append(&mut transaction, &mut random, 5_000);
        transaction.commit().expect("no budget");
        job
    });
    for job in [early, late] {
        let rebuilt = job.run().expect("no budget");
        assert!(writer.install(rebuilt).is_err_and(|error| error.is_overtaken()));
        check(&engines, &writer, &packets);
    }
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    assert_eq!(writer.install(rebuilt).map(|old| old.epoch()), Ok(3));
    check(&engines, &writer, &packets);
}

/// The base of a family whose rules stay is kept, unless it had changed before.
#[test]
fn a_large_transaction_keeps_the_other_base() {
    let mut random = Random(7);
    let packets = packets(&mut random);
    let (engines, mut writer) = open(drawn(&mut random, 100), &Config::default()).expect("no budget");
    let base = || Arc::clone(&engines[0].shared.replicas.now().1.parts[1].base);
    let rule = |text: &str| rules(text).iter().next().expect("a rule").spec.clone();
    let (four, six) = (rule("deny src 10.1.0.0/16 dport 3\n"), rule("deny src 2001:db8:1::/48 dport 3\n"));
    for (is_kept, other) in [(true, None), (false, Some(six))] {
        let before = base();
        let mut transaction = writer.begin();
        other.into_iter().for_each(|spec| _ = transaction.insert(spec_at(&spec, 1)).expect("it fits"));
        let from = transaction.rules().iter().next_back().expect("a rule").priority.0;
        (1..5_000).for_each(|at| _ = transaction.insert(spec_at(&four, from + at)).expect("it fits"));
        transaction.commit().expect("no budget");
        assert_eq!(Arc::ptr_eq(&before, &base()), is_kept);
        check(&engines, &writer, &packets);
    }
}

fn spec_at(spec: &RuleSpec, priority: u64) -> RuleSpec {
    RuleSpec { priority: Priority(priority), ..spec.clone() }
}

/// Where no new base keeps the budget or a limit, the commit says so, and everything is as before: also the
/// transaction, which can be made smaller.
#[test]
fn a_large_transaction_that_finds_no_room_changes_nothing() {
    let mut random = Random(8);
    let packets = packets(&mut random);
    let set = drawn(&mut random, 1_000);
    let config = Config { strategy: Strategy::Force(Kind::Linear), seed: Some(1), ..Config::default() };
    let free = open(set.clone(), &config).expect("no budget").1.handle().explain().iter().map(|of| of.bytes).sum();
    let run_bytes = 3 * usize::max(free, 1);
    let tight = Config { budget: Budget { run_bytes }, ..config.clone() };
    // The former keeps `linear` from many rules, the latter all others.
    let limits = Limits { worst_tests: Some(1_500), build_visits: 4_000, ..Limits::default() };
    let capped = Config { limits, ..config };
    for (config, says) in [(tight, "the budget allows"), (capped, "the limit is")] {
        let (engines, mut writer) = open(set.clone(), &config).expect("it fits");
        let before = writer.rules().clone();
        let mut transaction = writer.begin();
        let ids = append(&mut transaction, &mut random, 20_000);
        for _ in 0..2 {
            let error = transaction.commit_open().expect_err("there is no room");
            assert!(error.budget_exceeded() && !error.needs_rebuild(), "{error}");
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!((engines[0].generation(), engines[0].epoch()), (0, 0));
            assert_eq!(answers_of(&engines[0], &packets[0]), want(&before, &packets)[0]);
        }
        ids[30..].iter().for_each(|&id| transaction.remove(id).expect("it is live"));
        assert_eq!(transaction.commit_open(), Ok(1));
        drop(transaction);
        assert_eq!(writer.rules().len(), 1_030);
        check(&engines, &writer, &packets);
        let bytes: usize = engines.iter().map(|engine| engine.stats().total_bytes()).sum();
        assert!(bytes <= config.budget.run_bytes, "{bytes}");
    }
}

/// A commit that does not wait for batches is busy before it builds anything. A batch over the current replica is in no
/// such commit's way.
#[test]
fn a_large_transaction_is_tried_without_waiting() {
    let mut random = Random(9);
    let packets = packets(&mut random);
    let (engines, mut writer) = open(drawn(&mut random, 100), &Config::default()).expect("no budget");
    let replicas = &engines[0].shared.replicas;
    let slots = [(); 2].map(|()| replicas.reader_slot());
    replicas.read(&slots[0], |_| {
        let mut transaction = writer.begin();
        _ = append(&mut transaction, &mut random, 3_000);
        assert_eq!(transaction.try_commit(), Ok(1));
        drop(transaction);
        check(&engines, &writer, &packets);
        let mut transaction = writer.begin();
        _ = append(&mut transaction, &mut random, 6_000);
        assert!(transaction.try_commit().is_err_and(|error| error.is_busy()));
        assert_eq!((engines[0].generation(), engines[0].epoch()), (1, 1));
        transaction.keep();
    });
    assert_eq!(writer.resume().try_commit(), Ok(2));
    check(&engines, &writer, &packets);
}

/// A transaction is too large if it leaves more insertions than an overlay holds. A smaller one waits for a rebuild.
#[test]
fn the_size_that_is_too_large_is_that_of_the_overlay() {
    let config = Config { overlay: Some(4), strategy: Strategy::Force(Kind::Linear), ..Config::default() };
    let (engines, mut writer) = open(rules("family ipv4\ndeny dport 1\n"), &config).expect("no budget");
    let spec = writer.rules().iter().next().expect("a rule").spec.clone();
    let mut next = 1;
    let mut commit = |writer: &mut Writer, inserts: usize, removes: usize| {
        let mut transaction = writer.begin();
        for at in 0..inserts {
            next += 1;
            let id = transaction.insert(spec_at(&spec, next)).expect("it fits");
            if at < removes {
                transaction.remove(id).expect("it is live");
            }
        }
        transaction.commit().map(|generation| (generation, engines[0].epoch(), engines[0].overlay().0))
    };
    assert_eq!(commit(&mut writer, 6, 2), Ok((1, 0, 4)));
    assert!(commit(&mut writer, 1, 0).is_err_and(|error| error.needs_rebuild()), "a rebuild makes room");
    assert!(commit(&mut writer, 4, 0).is_err_and(|error| error.needs_rebuild()), "a rebuild makes room");
    assert_eq!(commit(&mut writer, 7, 2), Ok((2, 1, 0)), "no rebuild makes room for five");
    assert_eq!(commit(&mut writer, 3, 0), Ok((3, 1, 3)));
    assert_eq!((engines[0].stats().rules, writer.rules().len()), (13, 13));
    assert_eq!(writer.rules().iter().filter(|rule| rule.action == Action::Deny).count(), 13);
}
