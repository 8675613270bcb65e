//! Engines that answer before the base: which are refused, and caches among them.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::cache::{flow, rule};
use crate::engine::budget::Budget;
use crate::engine::entry::Entry;
use crate::engines::registry::ENGINES;
use crate::error::BuildError;
use crate::key::Keys;

const RULES: &str = "family ipv4\ndeny dport 1\ndeny dport { 1, 2, 3 }\npermit dport { 2, 4, 5 }\n";

fn entry(name: &str) -> &'static Entry {
    ENGINES.iter().find(|entry| entry.name == name).expect("it is there")
}

fn opened(front: Front, config: Config) -> Result<(Vec<Engine>, Writer), BuildError> {
    open(rules(RULES), &Config { front: Some(front), ..config })
}

/// Returns the slots of the rules that answer for ports 0 to 5.
fn slots(engine: &Engine, scratch: &mut engine::Scratch) -> [Option<usize>; 6] {
    std::array::from_fn(|port| {
        let mut key = KeyBuf::new(&engine.schema);
        let values = [1, 2, 3, port as u128, 6].map(Some).to_vec();
        key.push_values(&FieldValues { family: engine.schema.family(), values });
        engine.classify(scratch, key.keys()).map(|found| found.rule.slot())
    })
}

/// An answer that a cache has learnt is not given once its rule is gone, before and after a rebuild.
#[test]
fn a_cache_as_a_front_forgets_removed_rules() {
    let flow = Front::new("flow cache", |rules, settings| {
        let config = flow::Config { entries: 64, ..flow::Config::default() };
        Ok(Box::new(flow::FlowCache::new((entry("linear").build)(rules, settings)?, &config)?))
    });
    let rule = Front::new("rule cache", |rules, settings| {
        let inner = (entry("linear").build)(rules, settings)?;
        Ok(Box::new(rule::RuleCache::over(inner, rules, &rule::Config::default())?))
    });
    for front in [flow, rule] {
        let (engines, mut writer) = opened(front, Config::default()).expect("no budget");
        let mut scratch = engines[0].scratch();
        let first = writer.rules().iter().next().expect("three rules").id;
        for _ in 0..100 {
            assert_eq!(slots(&engines[0], &mut scratch), [None, Some(0), Some(1), Some(1), Some(2), Some(2)]);
        }
        let mut transaction = writer.begin();
        transaction.remove(first).expect("it is live");
        transaction.commit().expect("no budget");
        for rebuild in [false, true] {
            if rebuild {
                let rebuilt = writer.begin_rebuild().run().expect("no budget");
                writer.install(rebuilt).expect("the last");
            }
            for _ in 0..100 {
                assert_eq!(slots(&engines[0], &mut scratch), [None, Some(1), Some(1), Some(1), Some(2), Some(2)]);
            }
        }
    }
}

#[test]
fn a_front_keeps_budget_limits_and_schema() {
    let linear = || Front::of(entry("linear"), &[]);
    let bytes = open(rules(RULES), &Config::default()).expect("no budget").0[0].explain().bytes;
    let with = opened(linear(), Config::default()).expect("no budget").0[0].explain();
    let (name, stats) = with.front.expect("it was asked for");
    assert_eq!((name, stats.rules), ("linear", 3));
    assert!(with.bytes > bytes + stats.total_bytes(), "{} with, {bytes} without", with.bytes);
    for (run_bytes, fits) in [(with.bytes + 1024, true), (with.bytes - 1, false), (bytes, false)] {
        let built = opened(linear(), Config { budget: Budget { run_bytes }, ..Config::default() });
        assert_eq!(built.as_ref().err().map(BuildError::budget_exceeded), (!fits).then_some(true), "{run_bytes}");
    }
    let limits = Limits { worst_tests: Some(2), ..Limits::default() };
    let error = opened(linear(), Config { limits, ..Config::default() }).expect_err("linear tests three regions");
    assert_eq!(error.cap(), Some(Cap::WorstTests));
    let other = Front::new("other", |_, settings| (entry("linear").build)(&Lowered::empty(&Schema::ipv6()), settings));
    let error = opened(other, Config::default()).expect_err("keys have other words").to_string();
    assert_eq!(error, "the engine other is for other fields than the rules");
    let option = Front::of(entry("linear"), &[("size".to_owned(), "7".to_owned())]);
    assert!(opened(option, Config::default()).expect_err("there is none").to_string().contains("no option `size`"));
}

/// Engine that counts how often its statistics are asked for.
#[derive(Debug)]
struct Asked(crate::engines::linear::Linear, Arc<AtomicUsize>);

impl engine::Engine for Asked {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        engine::Engine::schema(&self.0)
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> engine::Stats {
        self.1.fetch_add(1, Ordering::Relaxed);
        engine::Engine::stats(&self.0)
    }

    fn improve(&self, (): &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        engine::Engine::improve(&self.0, &mut (), keys, best);
    }
}

/// Statistics may take as long as a walk of the engine, so neither commits nor queries ask for them.
#[test]
fn the_statistics_of_a_front_are_asked_for_once() {
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let front = Front::new("asked", move |rules, _| {
        let linear = crate::engines::linear::Linear::build(rules, &Default::default())?;
        Ok(Box::new(Asked(linear, Arc::clone(&counter))))
    });
    let budget = Budget { run_bytes: 1 << 20 };
    let (engines, mut writer) = opened(front, Config { budget, ..Config::default() }).expect("there is room");
    for _ in 0..3 {
        let first = writer.rules().iter().next().expect("more rules").id;
        let mut transaction = writer.begin();
        transaction.remove(first).expect("it is live");
        transaction.commit().expect("there is room");
        assert_eq!(engines[0].explain().front.map(|(_, stats)| stats.rules), Some(3));
    }
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

/// A base that has no room beside a front for rules that have changed serves them alone.
#[test]
fn a_rebuild_gives_the_room_of_a_front_to_the_base() {
    let set = || rules(&(0..20).fold("family ipv4\n".to_owned(), |text, port| format!("{text}deny dport {port}\n")));
    // Returns what serves 399 rules after a rebuild, an error if it fails, `None` if they cannot be inserted before it.
    let rebuilt = |front, run_bytes| {
        let (budget, overlay, strategy) = (Budget { run_bytes }, Some(500), Strategy::FirstFit);
        let config = Config { budget, front, overlay, strategy, in_place: Some(0), seed: Some(1), ..Config::default() };
        let (engines, mut writer) = open(set(), &config).ok()?;
        let spec = writer.rules().iter().next().expect("twenty rules").spec.clone();
        let mut transaction = writer.begin();
        for priority in 1..380 {
            transaction.insert(RuleSpec { priority: Priority(priority), ..spec.clone() }).expect("it fits");
        }
        transaction.commit().ok()?;
        let rebuilt = writer.begin_rebuild().run();
        Some(rebuilt.map(|rebuilt| {
            writer.install(rebuilt).expect("the last");
            engines[0].explain()
        }))
    };
    let mut was_left_out = false;
    for run_bytes in (20_000..400_000).step_by(4_000) {
        let front = Some(Front::of(entry("linear"), &[]));
        if let (Some(Ok(alone)), Some(with)) = (rebuilt(None, run_bytes), rebuilt(front, run_bytes)) {
            let with = with.unwrap_or_else(|error| panic!("{run_bytes}: {error}, but {alone}"));
            assert!(with.bytes <= run_bytes && with.rules == 399, "{run_bytes}: {with}");
            was_left_out |= with.front.is_none();
        }
    }
    assert!(was_left_out, "each budget has room for both");
}

/// Rules that outgrow a front are served without it, and with it again once they fit.
#[test]
fn rules_that_outgrow_a_front_stay_in_service() {
    let front = Front::new("small", |rules, settings| match rules.by_rule().count() {
        0..=3 => (entry("linear").build)(rules, settings),
        more => Err(BuildError::bytes(more, 3)),
    });
    let (engines, mut writer) = opened(front.clone(), Config::default()).expect("three rules");
    let mut scratch = engines[0].scratch();
    let rebuild = |writer: &mut Writer| {
        let rebuilt = writer.begin_rebuild().run().expect("the base fits");
        writer.install(rebuilt).expect("the last");
        engines[0].explain().front.is_some()
    };
    let mut transaction = writer.begin();
    let spec = transaction.rules().iter().next().expect("three rules").spec.clone();
    let added = transaction.insert(RuleSpec { priority: Priority(1), ..spec }).expect("it fits");
    transaction.commit().expect("no budget");
    for has_front in [true, false] {
        assert_eq!(engines[0].explain().front.is_some(), has_front);
        assert_eq!(slots(&engines[0], &mut scratch), [None, Some(3), Some(1), Some(1), Some(2), Some(2)]);
        assert!(!rebuild(&mut writer));
    }
    let mut transaction = writer.begin();
    transaction.remove(added).expect("it is live");
    transaction.commit().expect("no budget");
    assert!(rebuild(&mut writer));
    assert_eq!(slots(&engines[0], &mut scratch), [None, Some(0), Some(1), Some(1), Some(2), Some(2)]);
    let many = rules("family ipv4\ndeny dport 1\ndeny dport 2\ndeny dport 3\ndeny dport 4\n");
    let error = open(many, &Config { front: Some(front), ..Config::default() }).expect_err("there is no engine before");
    assert!(error.budget_exceeded());
}
