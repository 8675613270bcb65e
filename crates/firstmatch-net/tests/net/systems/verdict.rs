//! Caches of verdicts against the policy over the oracle, for rules that stay and rules that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use firstmatch_core::cache::rule::Config;
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::live;
use firstmatch_core::policy::Basis;
use firstmatch_core::rule::{ExpansionLimits, FieldValues, RuleSet, first_match, lower};
use firstmatch_core::{KeyBuf, Policy, Verdict};
use firstmatch_net::systems::verdict::{Answer, Decider, VerdictCache, VerdictScratch};
use firstmatch_testkit::rng::Rng;

const ACTIONS: [&str; 5] = ["permit", "deny", "match", "mark 65535", "mark 4294967295"];

fn rules(rng: &mut Rng, count: usize) -> RuleSet {
    let mut text = "family ipv4\n".to_owned();
    for _ in 0..count {
        let (low, source) = (rng.below(40), rng.below(6));
        text += &format!("{} src 10.{source}.0.0/16 dport {low}-{}\n", rng.any_of(&ACTIONS), low + rng.below(20));
    }
    firstmatch_formats::parse(&text, &Default::default()).expect("the rules are good").rules
}

fn policy() -> Policy {
    Policy { default: Verdict::Mark(7), ..Policy::default() }
}

fn config() -> Config {
    let mut config = Config::paper();
    (config.sample, config.window) = ([1; 2], 64);
    config
}

/// Decides some packets, and compares each verdict with that of the first rule; returns how many boxes gave.
fn check(cache: &VerdictCache, scratch: &mut VerdictScratch, set: &RuleSet, rng: &mut Rng) -> usize {
    let schema = &set.schemas()[0];
    let (mut keys, mut want) = (KeyBuf::new(schema), Vec::new());
    for _ in 0..rng.below(70) {
        let values = [0x0A00_0001 | rng.below(2) << 16, 1, 2, rng.below(12) * rng.below(6), 6];
        let values = values.map(|value| Some(value as u128)).to_vec();
        let packet = FieldValues { family: schema.family(), values };
        keys.push_values(&packet);
        let verdict = first_match(set, &packet).map(|rule| Verdict::from(rule.action));
        let basis = if verdict.is_some() { Basis::Rule } else { Basis::Policy };
        want.push(Answer { verdict: verdict.unwrap_or(Verdict::Mark(7)), basis });
    }
    let mut got = vec![Answer { verdict: Verdict::Match, basis: Basis::Cached }; want.len()];
    cache.decide_batch(scratch, keys.keys(), &mut got);
    for (at, (got, want)) in got.iter().zip(&want).enumerate() {
        assert_eq!(got.verdict, want.verdict, "{:?}", keys.keys().row(at));
        // No box has packets of no rule.
        assert!(got.basis == want.basis || (got.basis, want.basis) == (Basis::Cached, Basis::Rule));
    }
    got.iter().filter(|got| got.basis == Basis::Cached).count()
}

#[test]
fn verdicts_of_rules_that_stay_are_those_of_the_oracle() {
    let mut cached = 0;
    for seed in 0..8 {
        let mut rng = Rng::new(seed);
        let set = rules(&mut rng, 1 + 6 * seed as usize);
        let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("few regions");
        let engine = Arc::new(Linear::build(&lowered, &linear::Config::default()).expect("no budget"));
        let cache = VerdictCache::new(engine.clone(), engine, &set, policy(), &config());
        let mut scratch = cache.scratch().expect("no level is forced");
        cached += (0..60).map(|_| check(&cache, &mut scratch, &set, &mut rng)).sum::<usize>();
    }
    assert!(cached > 500, "{cached}");
}

/// Rules come and go between batches, slots are used again by rules of other actions, and bases are rebuilt.
#[test]
fn verdicts_of_rules_that_change_are_those_of_the_oracle() {
    let mut cached = 0;
    for seed in 0..4 {
        let mut rng = Rng::new(seed);
        let set = rules(&mut rng, 40);
        let specs: Vec<_> = set.iter().map(|rule| rule.spec.clone()).collect();
        let options = live::Config { overlaps: true, attachments: true, overlay: Some(8), ..Default::default() };
        let (_engines, mut writer) = live::open(set, &options).expect("no budget");
        let cache = VerdictCache::live(&writer.handle(), 0, policy(), &config()).expect("regions are asked for");
        let mut scratch = cache.scratch().expect("no level is forced");
        let mut away = Vec::new();
        for _ in 0..60 {
            let mut transaction = writer.begin();
            if away.len() > 10 || (!away.is_empty() && rng.one_in(2)) {
                transaction.insert(away.swap_remove(rng.below(away.len()))).expect("its priority is free");
            } else {
                let spec = &specs[rng.below(specs.len())];
                let rule = transaction.rules().iter().find(|rule| rule.priority == spec.priority).map(|rule| rule.id);
                if let Some(id) = rule {
                    transaction.remove(id).expect("it is live");
                    away.push(spec.clone());
                }
            }
            transaction.commit().expect("there is room");
            if writer.rebuild_is_due() {
                let rebuilt = writer.begin_rebuild().run().expect("no budget");
                writer.install(rebuilt).expect("it is the last");
            }
            cached += (0..10).map(|_| check(&cache, &mut scratch, writer.rules(), &mut rng)).sum::<usize>();
        }
    }
    assert!(cached > 500, "{cached}");
    let (_engines, writer) = live::open(rules(&mut Rng::new(1), 3), &live::Config::default()).expect("no budget");
    assert!(VerdictCache::live(&writer.handle(), 0, policy(), &config()).is_none(), "no regions were asked for");
}

/// Rules of other actions come and go while a thread decides: each verdict is that of some moment of its batch.
#[test]
fn verdicts_beside_a_writer_are_those_of_some_moment() {
    const CHANGES: usize = 2000;
    let mut rng = Rng::new(11);
    let all = rules(&mut rng, 24);
    let schema = all.schemas()[0].clone();
    let specs: Vec<_> = all.iter().map(|rule| rule.spec.clone()).collect();
    let order: Vec<usize> = (0..CHANGES).map(|_| rng.below(specs.len())).collect();
    let packets: Vec<FieldValues> = (0..48)
        .map(|_| {
            let values = [0x0A00_0001 | rng.below(2) << 16, 1, 2, rng.below(40), 6];
            FieldValues { family: schema.family(), values: values.map(|value| Some(value as u128)).to_vec() }
        })
        .collect();
    // Verdicts on all packets after each change.
    let mut set = RuleSet::new(schema.clone());
    let verdicts = |set: &RuleSet| -> Vec<Verdict> {
        let of = |packet| first_match(set, packet).map_or(Verdict::Mark(7), |rule| rule.action.into());
        packets.iter().map(of).collect()
    };
    let mut want = vec![verdicts(&set)];
    for &at in &order {
        let there = set.iter().find(|rule| rule.priority == specs[at].priority).map(|rule| rule.id);
        match there {
            Some(id) => drop(set.remove(id)),
            None => drop(set.insert(specs[at].clone())),
        }
        want.push(verdicts(&set));
    }
    let options = live::Config { overlaps: true, attachments: true, ..Default::default() };
    let (engines, mut writer) = live::open(RuleSet::new(schema.clone()), &options).expect("no budget");
    let cache = VerdictCache::live(&writer.handle(), 0, policy(), &config()).expect("regions are asked for");
    let decided = AtomicUsize::new(0);
    let cached = std::thread::scope(|scope| {
        let (engine, cache, decided) = (&engines[0], &cache, &decided);
        let (want, packets, schema) = (&want, &packets, &schema);
        let reader = scope.spawn(move || {
            let (mut scratch, mut rng, mut cached) = (cache.scratch().expect("no level is forced"), Rng::new(3), 0);
            loop {
                let chosen: Vec<usize> = (0..1 + rng.below(20)).map(|_| rng.below(48)).collect();
                let mut keys = KeyBuf::new(schema);
                chosen.iter().for_each(|&at| keys.push_values(&packets[at]));
                let mut got = vec![Answer { verdict: Verdict::Match, basis: Basis::Policy }; chosen.len()];
                let before = engine.generation() as usize;
                cache.decide_batch(&mut scratch, keys.keys(), &mut got);
                let after = engine.generation() as usize;
                for (got, &at) in got.iter().zip(&chosen) {
                    let is_right = (before..=after).any(|generation| want[generation][at] == got.verdict);
                    assert!(is_right, "{got:?} for {:?}, changes {before} to {after}", packets[at]);
                }
                cached += got.iter().filter(|got| got.basis == Basis::Cached).count();
                decided.fetch_add(1, Ordering::Relaxed);
                if before == CHANGES {
                    return cached;
                }
            }
        });
        for (done, &at) in order.iter().enumerate() {
            let mut transaction = writer.begin();
            let there = transaction.rules().iter().find(|rule| rule.priority == specs[at].priority).map(|rule| rule.id);
            match there {
                Some(id) => transaction.remove(id).expect("it is live"),
                None => drop(transaction.insert(specs[at].clone()).expect("its priority is free")),
            }
            transaction.commit().expect("there is room");
            // Boxes form in a rest of the writer.
            let rested = decided.load(Ordering::Relaxed) + 20;
            while done % 10 == 0 && decided.load(Ordering::Relaxed) < rested && !reader.is_finished() {
                std::thread::yield_now();
            }
        }
        reader.join().expect("right verdicts")
    });
    assert!(cached > CHANGES, "{cached}");
}
