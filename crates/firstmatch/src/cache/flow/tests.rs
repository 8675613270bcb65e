use super::*;
use crate::key::KeyBuf;
use crate::linear::{self, Linear};
use crate::rule::Lowered;

/// After the last of 2^32 generations their numbers come again: what bears one of them from then is not taken for new.
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
