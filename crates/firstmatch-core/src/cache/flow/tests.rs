use super::*;
use crate::engines::linear::{self, Linear};
use crate::key::KeyBuf;
use crate::rule::Lowered;

/// Era numbers come again after 2^32 generations, without their old entries.
#[test]
fn eras_wrap() {
    let schema = Schema::ipv4();
    let inner = Linear::build(&Lowered::empty(&schema), &linear::Config::default()).expect("no budget");
    let cache = FlowCache::new(inner, &Config { steps_aside: false, ..Config::default() }).expect("no level is forced");
    let some = |from: u32| {
        let mut keys = KeyBuf::new(&schema);
        (from..from + 100).for_each(|number| keys.push()[0] = number);
        keys
    };
    let (old, new) = (some(0), some(1000));
    let mut flows = Engine::new_scratch(&cache);
    let hits = |flows: &mut Flows, keys: &KeyBuf| {
        let before = flows.trial.counts().hits;
        Engine::improve(&cache, flows, &keys.keys(), &mut [None; 100]);
        flows.trial.counts().hits - before
    };
    assert_eq!([hits(&mut flows, &old), hits(&mut flows, &old)], [0, 100]);
    assert_eq!(flows.era, 1);
    flows.era = u32::MAX - 1;
    for era in [u32::MAX, 1, 2] {
        cache.begin_generation();
        assert_eq!([hits(&mut flows, &new), hits(&mut flows, &new)], [0, 100]);
        assert_eq!(flows.era, era);
    }
    flows.era = 1;
    assert_eq!(hits(&mut flows, &old), 0, "those of the first era 1 are gone");
}

/// Engine without rules, of any version.
#[derive(Debug)]
struct Versioned(Schema, u64);

impl Engine for Versioned {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        &self.0
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        Stats::default()
    }

    fn version(&self) -> u64 {
        self.1
    }

    fn improve(&self, _scratch: &mut (), _keys: &Keys<'_>, _best: &mut [Option<Match>]) {}
}

/// A new generation differs from all before, whatever classifier or thread begins it.
#[test]
fn generations_rise() {
    let versioned = |version| Versioned(Schema::ipv4(), version);
    let mut cache = FlowCache::new(versioned(1 << 30), &Config::default()).expect("no level is forced");
    for version in [0, 5, 1 << 31, 4] {
        let before = (cache.generation(), Engine::version(&cache));
        *cache.inner_mut() = versioned(version);
        assert!(cache.generation() > before.0 && Engine::version(&cache) > before.1, "version {version}");
    }
    std::thread::scope(|scope| {
        let rises = || {
            for _ in 0..20_000 {
                let before = cache.generation();
                cache.begin_generation();
                assert!(cache.generation() > before);
            }
        };
        (0..4).for_each(|_| drop(scope.spawn(rises)));
    });
}

/// A cache compares whole keys, not tags: no key gets another's answer.
///
/// All hashes have four bits here.
#[test]
fn hashes_that_collide_are_told_apart() {
    let schema = Schema::ipv4();
    let rules = (0..90u128).map(|at| vec![(0, crate::rule::Test::Range { lo: 10 * at, hi: 10 * at + 6 })]);
    let all = crate::test_rules::set(&schema, rules.collect::<Vec<_>>());
    for simd in Level::available() {
        for (entries, ways) in [(64, 8), (300, 7), (6, 2), (1, 1)] {
            let config =
                Config { entries, ways, steps_aside: false, simd: Some(simd), seed: Some(2), ..Config::default() };
            let inner = Linear::build(&all, &linear::Config::default()).expect("no budget");
            let (cache, mut flows) = crate::raw::truncated(|| {
                let cache = FlowCache::new(inner, &config).expect("a level of this machine");
                let flows = Engine::new_scratch(&cache);
                (cache, flows)
            });
            let mut keys = KeyBuf::new(&schema);
            (0..900u32).for_each(|at| keys.push()[0] = at * 7 % 900);
            for _ in 0..3 {
                let mut got = vec![None; keys.len()];
                Engine::improve(&cache, &mut flows, &keys.keys(), &mut got);
                for (at, got) in got.into_iter().enumerate() {
                    let value = keys.keys().row(at)[0];
                    let want = (value % 10 <= 6).then(|| all.rules()[value as usize / 10]);
                    assert_eq!(got, want, "{value} of {entries} entries, {ways} ways");
                }
            }
        }
    }
}
