use super::*;
use crate::engines::linear::{self, Linear};
use crate::key::KeyBuf;
use crate::rule::Lowered;
use crate::schema::{Field, Kind};

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

/// A set has as many ways as are asked for, 1 to 8, and there are as many sets as the entries need.
#[test]
fn shapes_are_as_asked_for() {
    for (entries, ways, want) in [
        (64, 8, (8, 8)),
        (64, 1, (1, 64)),
        (65, 2, (2, 33)),
        (10, 0, (1, 10)),
        (10, 9, (8, 2)),
        (0, 1, (1, 1)),
        (1, 1, (1, 1)),
    ] {
        let config = Config { entries, ways, ..Config::default() };
        assert_eq!((config.ways(), config.sets()), want, "{entries} entries, {ways} ways");
    }
    assert_eq!(Config { entries: 0, ..Config::default() }.sets(), 1);
    for (window, want) in [(0, (1, 1)), (1, (1, 1)), (2, (2, 1)), (9, (9, 3)), (usize::MAX, (1 << 31, 1 << 29))] {
        let config = Config { window, longest_pause: 3, ..Config::default() };
        assert_eq!((config.window(), config.pace().noted), want, "a window of {window}");
        assert_eq!(config.pace().longest_pause, 3 * want.0);
    }
}

/// A scratch fits every cache of its shape, whatever the rules, and no cache that differs in sets, ways, key words or
/// `steps_aside`. With any of them the answers are right.
#[test]
fn a_scratch_fits_caches_of_its_shape() {
    let wide = Schema::new(None, vec![Field::new("a", 32, Kind::Exact, None), Field::new("b", 64, Kind::Exact, None)]);
    let narrow =
        Schema::new(None, vec![Field::new("a", 32, Kind::Exact, None), Field::new("b", 32, Kind::Exact, None)]);
    let shapes =
        [(64, 8, false), (64, 8, true), (64, 4, false), (32, 8, false), (72, 8, false), (64, 1, false), (32, 4, false)];
    let each = [&wide, &narrow].into_iter().flat_map(|schema| shapes.map(|shape| (schema, shape)));
    let cache = |schema: &Schema, (entries, ways, steps_aside), from: u128| {
        let rules = (0..20u128).map(|at| vec![(0, crate::rule::Test::Value(from + 2 * at))]);
        let all = crate::test_rules::set(schema, rules.collect::<Vec<_>>());
        let inner = Linear::build(&all, &linear::Config::default()).expect("no budget");
        let config = Config { entries, ways, steps_aside, seed: Some(3), ..Config::default() };
        (FlowCache::new(inner, &config).expect("no level is forced"), all)
    };
    let caches: Vec<_> = each.map(|(schema, shape)| [cache(schema, shape, 0), cache(schema, shape, 5)]).collect();
    for (at, own) in caches.iter().enumerate() {
        for (other, others) in caches.iter().enumerate() {
            for (cache, rules) in others {
                let mut scratch = Classifier::scratch(&own[0].0);
                let flows = scratch.of::<FlowCache<Linear>>().expect("it is one of these");
                assert_eq!(Engine::fits(cache, flows), at == other, "one of {at} to {other}");
                // Its own cache first, so that it holds answers of other rules.
                for (cache, all) in [(&own[0].0, &own[0].1), (cache, rules)] {
                    let mut keys = KeyBuf::new(Engine::schema(cache));
                    (0..50).for_each(|value| keys.push()[0] = value % 45);
                    for _ in 0..2 {
                        let mut got = vec![None; 50];
                        Classifier::classify_batch(cache, &mut scratch, keys.keys(), &mut got);
                        let holds = |row: usize, of: &usize| all.regions().get(*of).contains(keys.keys().row(row));
                        let want = (0..50).map(|row| (0..20).find(|of| holds(row, of)).map(|of| all.rules()[of]));
                        assert!(got.into_iter().eq(want), "one of {at} to {other}");
                    }
                }
            }
        }
    }
}
