//! Timed passes of the classifier over packets that are held in memory.

use std::hint::black_box;

use firstmatch_core::KeyBuf;
use firstmatch_net::wire::Batch;

use super::lookups::Lookups;
use super::timing::{STRETCH, Streamed};

/// Number of packets below which the branch predictor learns a trace that comes in a fixed order.
const LEARNT: usize = 100_000;

/// Returns the nanoseconds per packet of each of `count` passes over all keys, sorted.
///
/// The result is empty if there are no keys, and has one pass if `stopped` is true from the beginning. Below [`LEARNT`]
/// keys each pass takes them in a new order. Otherwise the predictor would learn branches that real traffic leaves
/// unpredictable.
pub(super) fn passes(lookups: &mut Lookups, keys: &[KeyBuf], count: u32, stopped: &dyn Fn() -> bool) -> Vec<f64> {
    let rows = |(schema, keys): (usize, &KeyBuf)| (0..keys.len()).map(move |row| (schema, row));
    let once: Vec<(usize, usize)> = keys.iter().enumerate().flat_map(rows).collect();
    if once.is_empty() {
        return Vec::new();
    }
    // Short passes are joined until they are long enough for the clock. For example, 500 keys are taken in 9 rounds.
    let mut order = once.repeat(STRETCH.div_ceil(once.len()));
    let mut batches = vec![Batch::of_values(&lookups.firewall().schemas()); order.len().div_ceil(STRETCH)];
    let mut random = 0x9E37_79B9_7F4A_7C15;
    let mut pass = |number: u32| {
        if number == 0 || once.len() < LEARNT {
            if once.len() < LEARNT {
                order.chunks_mut(once.len()).for_each(|round| shuffle(round, &mut random));
            }
            for (batch, order) in batches.iter_mut().zip(order.chunks(STRETCH)) {
                batch.clear();
                order.iter().for_each(|&(schema, row)| _ = batch.push_row(schema, keys[schema].keys().row(row), 0));
            }
        }
        let mut time = Streamed::default();
        for batch in &batches {
            lookups.decide(batch, &mut time, |_, decision| _ = black_box(decision.verdict));
        }
        time.nanos_per_packet()
    };
    let wanted = (0..count).take_while(|&number| number == 0 || !stopped());
    let mut times: Vec<f64> = wanted.filter_map(&mut pass).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Puts values in a new order.
pub(super) fn shuffle<T>(values: &mut [T], random: &mut u64) {
    for last in (1..values.len()).rev() {
        // xorshift64*: any order is good, as long as it is a new one each time.
        *random ^= *random >> 12;
        *random ^= *random << 25;
        *random ^= *random >> 27;
        let number = random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        values.swap(last, ((number * (last as u64 + 1)) >> 32) as usize);
    }
}
