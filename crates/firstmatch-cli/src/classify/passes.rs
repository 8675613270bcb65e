//! Timed passes of the classifier over packets that are held in memory.

use std::hint::black_box;
use std::time::Duration;

use firstmatch_core::{KeyBuf, Match};

use super::stretch::Engines;
use super::timing::{STRETCH, cpu_time};

/// Number of packets below which the branch predictor learns a trace that comes in a fixed order.
const LEARNT: usize = 100_000;

/// Returns the nanoseconds per packet of each of `count` passes over all keys, sorted.
///
/// The result is empty if there are no keys, and has one pass if `stopped` is true from the beginning. Below [`LEARNT`]
/// keys each pass takes them in a new order. Otherwise the predictor would learn branches that real traffic leaves
/// unpredictable.
pub(super) fn passes(engines: &mut Engines, keys: &[KeyBuf], count: u32, stopped: &dyn Fn() -> bool) -> Vec<f64> {
    let total: usize = keys.iter().map(KeyBuf::len).sum();
    if total == 0 {
        return Vec::new();
    }
    let mut answers: Vec<Vec<Option<Match>>> = keys.iter().map(|keys| vec![None; keys.len()]).collect();
    let mut random = 0x9E37_79B9_7F4A_7C15;
    let mut shuffled = Vec::new();
    // Short passes are joined until they are long enough for the clock. For example, 500 keys are taken in 9 rounds.
    let rounds = STRETCH.div_ceil(total);
    let mut pass = || {
        let mut time = Duration::ZERO;
        if total < LEARNT {
            shuffled.resize_with(rounds, || keys.to_vec());
            for order in &mut shuffled {
                for (keys, to) in keys.iter().zip(order) {
                    shuffle(keys, to, &mut random);
                }
            }
        }
        let start = cpu_time();
        for round in 0..rounds {
            let order = shuffled.get(round).map_or(keys, |order: &Vec<KeyBuf>| order);
            for (schema, (keys, answers)) in order.iter().zip(&mut answers).enumerate() {
                engines.classify_keys(schema, keys.keys(), answers);
            }
            black_box(&answers);
        }
        time += cpu_time().saturating_sub(start);
        time.as_nanos() as f64 / (total * rounds) as f64
    };
    let wanted = (0..count).take_while(|&number| number == 0 || !stopped());
    let mut times: Vec<f64> = wanted.map(|_| pass()).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// Copies the rows of `from` into `to`, in a new order.
pub(super) fn shuffle(from: &KeyBuf, to: &mut KeyBuf, random: &mut u64) {
    let rows = from.keys();
    let mut order: Vec<u32> = (0..rows.len() as u32).collect();
    for last in (1..order.len()).rev() {
        // xorshift64*: any order is good, as long as it is a new one each time.
        *random ^= *random >> 12;
        *random ^= *random << 25;
        *random ^= *random >> 27;
        let number = random.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32;
        order.swap(last, ((number * (last as u64 + 1)) >> 32) as usize);
    }
    to.clear();
    for row in order {
        to.push().copy_from_slice(rows.row(row as usize));
    }
}
