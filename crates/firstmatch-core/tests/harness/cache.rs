//! Tests of what caches keep, for how long, and when they step aside.
//!
//! Every other test checks that their answers are right, because `engines` lists them.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use firstmatch_core::cache::flow::{Config, Counts, FlowCache};
use firstmatch_core::engines::tuple::{self, TupleMerge};
use firstmatch_core::live;
use firstmatch_core::rule::{ExpansionLimits, Lowered, Priority, Region, Regions, RuleId, RuleSpec, lower};
use firstmatch_core::{Classifier, Engine, KeyBuf, Keys, Match, Schema, Stats, Updatable};

use crate::case::Case;
use crate::corners;
use crate::engines::small_meta;
use crate::generate::{Rules, rule_set, schemas};
use crate::rng::Rng;

fn config() -> Config {
    Config { entries: 4096, steps_aside: false, seed: Some(1), ..Config::default() }
}

fn over(lowered: &Lowered, config: &Config) -> FlowCache<TupleMerge> {
    let inner = TupleMerge::build(lowered, &tuple::Config::default()).expect("no budget");
    FlowCache::new(inner, config).expect("no level is forced")
}

/// Returns rules, and packets of which no two are the same.
fn sample(schema: &Schema, rules: usize, seed: u64) -> (Lowered, Case) {
    let mut rng = Rng::new(seed);
    let set = rule_set(schema, &mut rng, rules);
    let lowered = lower(&set, schema, &ExpansionLimits::default()).expect("within the caps");
    let mut packets = corners::of_set(&set, schema, &mut rng, 200);
    let mut seen = HashSet::new();
    packets.retain(|packet| seen.insert(packet.values.clone()));
    assert!(packets.len() > 60);
    (lowered, Case::new(&set, schema, packets))
}

fn counts(scratch: &firstmatch_core::Scratch) -> Counts {
    FlowCache::<TupleMerge>::counts(scratch)
}

/// The second time every key is there, whether it matched a rule or not.
///
/// Answers without the classifier are the same.
#[test]
fn what_was_answered_is_kept() {
    let mut unmatched = 0;
    for (name, schema) in schemas() {
        let (lowered, case) = sample(&schema, 4, 1);
        unmatched += case.want.iter().filter(|want| want.is_none()).count();
        let engine = over(&lowered, &config());
        let mut scratch = engine.scratch();
        let misses = case.want.len() as u64;
        for hits in [0, misses, 2 * misses] {
            case.check_with(&engine, &mut scratch).expect("the right answers");
            assert_eq!(counts(&scratch), Counts { hits, misses, passed_by: 0 }, "{name}");
        }
    }
    assert!(unmatched > 50, "{unmatched}");
}

/// An answer that a match to beat hides is not kept as if there were none.
#[test]
fn an_answer_that_beat_nothing_is_not_kept() {
    let (lowered, case) = sample(&Schema::ipv4(), 60, 2);
    let engine = over(&lowered, &config());
    let mut scratch = engine.scratch();
    let first = Match { rule: RuleId::new(9999, 0), priority: Priority(0) };
    let mut best = vec![Some(first); case.want.len()];
    engine.improve_batch(&mut scratch, &case.keys.keys(), &mut best);
    assert!(best.iter().all(|best| *best == Some(first)), "no rule has a better priority");
    assert_eq!(counts(&scratch).hits, 0);
    case.check_with(&engine, &mut scratch).expect("the right answers");
    // A kept answer does not beat a better match either.
    engine.improve_batch(&mut scratch, &case.keys.keys(), &mut best);
    assert!(best.iter().all(|best| *best == Some(first)));
    assert_eq!(counts(&scratch).hits, case.want.len() as u64);
}

fn everything(schema: &Schema) -> Regions {
    let words = schema.words();
    let mut regions = Regions::new(words.len());
    let hi: Vec<u32> = words.iter().map(|word| word.max).collect();
    regions.push(Region { lo: &vec![0; words.len()], hi: &hi, ternary: None });
    regions
}

/// No answer from before a change comes again.
///
/// Changes are insertions and removals, through the cache and behind its back.
#[test]
fn changes_begin_a_generation() {
    for (name, schema) in schemas() {
        let (lowered, case) = sample(&schema, 60, 3);
        let mut engine = over(&lowered, &config());
        let mut scratch = engine.scratch();
        let rule = Match { rule: RuleId::new(5000, 0), priority: Priority(0) };
        let mut out = vec![None; case.want.len()];
        let mut generations = vec![engine.generation()];
        for step in 0..6 {
            case.check_with(&engine, &mut scratch).expect("the right answers");
            case.check_with(&engine, &mut scratch).expect("the right answers, most of them from the cache");
            if step % 2 == 0 {
                engine.insert(rule, &everything(&schema)).expect("a slot that is free");
                engine.insert(rule, &everything(&schema)).expect_err("it is taken now");
            } else {
                engine.inner_mut().insert(rule, &everything(&schema)).expect("a slot that is free");
            }
            generations.push(engine.generation());
            engine.classify_batch(&mut scratch, case.keys.keys(), &mut out);
            assert!(out.iter().all(|out| *out == Some(rule)), "{name}, step {step}: answers from before the insertion");
            if step % 2 == 0 {
                engine.remove(rule.rule).expect("it is there");
            } else {
                engine.inner_mut().remove(rule.rule).expect("it is there");
            }
            generations.push(engine.generation());
        }
        generations.dedup();
        assert_eq!(generations.len(), 13, "{name}: {generations:?}");
        // A failed change leaves everything as it was; a generation can be begun without one.
        let before = counts(&scratch);
        case.check_with(&engine, &mut scratch).expect("the right answers");
        engine.remove(rule.rule).expect_err("it is gone");
        case.check_with(&engine, &mut scratch).expect("the right answers");
        let between = counts(&scratch);
        assert_eq!(between.hits - before.hits, case.want.len() as u64, "{name}");
        engine.begin_generation();
        case.check_with(&engine, &mut scratch).expect("the right answers");
        assert_eq!(counts(&scratch).hits, between.hits, "{name}");
    }
}

/// Caches, one behind the other, notice commits and rebuilds that are not reported to them.
///
/// The next batch is right, and keys that come again until the next commit are cached.
#[test]
fn commits_are_noticed() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        let mut rng = Rng::new(seed);
        let set = rule_set(&schema, &mut rng, 60);
        let mut rules = Rules::new(&schema, &mut rng, 60);
        let mut seen = HashSet::new();
        let mut packets = corners::of_set(&set, &schema, &mut rng, 200);
        packets.retain(|packet| seen.insert(packet.values.clone()));
        let (engines, mut writer) = live::open(set, &small_meta()).expect("no budget");
        let engine: Box<dyn Classifier> = Box::new(engines[0].clone());
        let inner = FlowCache::new(engine, &config()).expect("no level is forced");
        let cache = FlowCache::new(inner, &config()).expect("no level is forced");
        let mut scratch = cache.scratch();
        let (mut changed, mut last) = (0, Vec::new());
        for step in 0..60 {
            let spec = RuleSpec { priority: Priority(rng.next() >> 8), ..rules.rule(&mut rng) };
            let first = writer.rules().iter().next().expect("some are live").id;
            let mut transaction = writer.begin();
            match step % 3 {
                0 => transaction.insert(spec).map(drop).expect("it fits"),
                _ => transaction.remove(first).expect("it is live"),
            }
            let committed = transaction.commit().map_err(|error| assert!(error.needs_rebuild(), "{error}"));
            if step % 7 == 0 || committed.is_err() {
                let rebuilt = writer.begin_rebuild().run().expect("no budget");
                writer.install(rebuilt).expect("the last");
            }
            if step % 20 == 19 {
                writer.renumber().expect("no budget");
            }
            let case = Case::new(writer.rules(), &schema, packets.clone());
            let check = |scratch: &mut _| {
                let answers = case.check_with(&cache, scratch);
                answers.unwrap_or_else(|error| panic!("{name}, step {step}: {error}"));
            };
            let before = counts(&scratch).hits;
            check(&mut scratch);
            assert_eq!(counts(&scratch).hits, before, "{name}, step {step}");
            check(&mut scratch);
            assert_eq!(counts(&scratch).hits - before, packets.len() as u64, "{name}, step {step}");
            changed += usize::from(std::mem::replace(&mut last, case.want.clone()) != case.want);
            if writer.rules().len() < 20 {
                break;
            }
        }
        assert!(changed > 20, "{name}: {changed} commits changed answers");
    }
}

/// Returns `count` keys from the number `from` on, no two the same.
fn keys(schema: &Schema, from: u32, count: u32) -> KeyBuf {
    let mut keys = KeyBuf::new(schema);
    (from..from + count).for_each(|number| keys.push()[0] = number);
    keys
}

/// Engine that takes `each` for every key, or no time at all.
#[derive(Debug)]
struct Paced {
    schema: Schema,
    each: Duration,
}

impl Engine for Paced {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn improve(&self, (): &mut (), keys: &Keys<'_>, _: &mut [Option<Match>]) {
        let start = Instant::now();
        while start.elapsed() < self.each * keys.len() as u32 {}
    }
}

/// Looks up batches of 50 keys; returns how many lookups went through the cache.
///
/// No two keys are the same from the number `new` on; without it, they are always the same ones.
fn cached(scratch: &mut firstmatch_core::Scratch, engine: &FlowCache<Paced>, batches: u32, new: Option<u32>) -> u64 {
    let mut out = vec![None; 50];
    let through = |counts: Counts| counts.hits + counts.misses;
    let before = through(FlowCache::<Paced>::counts(scratch));
    for batch in 0..batches {
        let from = new.map_or(7, |new| new + batch * 50);
        engine.classify_batch(scratch, keys(Engine::schema(engine), from, 50).keys(), &mut out);
    }
    through(FlowCache::<Paced>::counts(scratch)) - before
}

/// The cache steps aside for keys that do not come again, and for an engine that is faster.
///
/// It stays for keys that come again and an engine that is slow, as long as they do.
#[test]
fn it_steps_aside_unless_it_pays() {
    let schema = Schema::ipv4();
    let over = |micros| {
        let inner = Paced { schema: schema.clone(), each: Duration::from_micros(micros) };
        let config = Config { steps_aside: true, window: 400, longest_pause: 16, ..config() };
        FlowCache::new(inner, &config).expect("no level is forced")
    };
    // Slower than any cache, even where the machine is busy.
    let (slow, fast) = (over(20), over(0));
    let mut scratch = slow.scratch();
    assert_eq!(cached(&mut scratch, &slow, 200, Some(1_000_000)), 0);
    // At the longest hold, a cycle has 170 batches: 2 are noted and 32 the engine's alone.
    let stays = cached(&mut scratch, &slow, 3000, None);
    assert!(stays > 1500 * 50, "{stays}");
    // It goes on to the end of a window.
    let goes = cached(&mut scratch, &slow, 400, Some(2_000_000));
    assert!(goes <= 16 * 50, "{goes}");
    // A trial takes up to 88 batches through the cache, where that is slower, and a pause takes up to 128 past it.
    let few = cached(&mut fast.scratch(), &fast, 3000, None);
    assert!(few > 0 && few < 1500 * 50, "{few}");
}

/// A full cache keeps the keys that come again, while others come and go.
#[test]
fn flows_survive_a_scan() {
    let schema = Schema::ipv4();
    let (lowered, _) = sample(&schema, 60, 5);
    let engine = over(&lowered, &Config { entries: 256, ..config() });
    let mut scratch = engine.scratch();
    let mut out = vec![None; 64];
    let rounds = 100;
    let before = counts(&scratch);
    for round in 0..rounds {
        engine.classify_batch(&mut scratch, keys(&schema, 1, 64).keys(), &mut out);
        engine.classify_batch(&mut scratch, keys(&schema, 10_000 + round * 64, 64).keys(), &mut out);
    }
    let hits = counts(&scratch).hits - before.hits;
    let most = u64::from(rounds - 1) * 64;
    assert!(hits * 10 > most * 8, "{hits} of {most}");
}
