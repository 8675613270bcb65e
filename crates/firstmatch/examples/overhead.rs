//! Times the way from frames in memory to decisions, beside header parsing and engine called by hand:
//!
//!     cargo run --profile dist -p firstmatch --example overhead -- [RULES [ROUNDS]]
//!
//! The rules are generated, 1,000 by default, and the frames hit them. The times are nanoseconds of wall time per frame
//! in batches of 32, as minimum and median of the rounds, in which the ways take turns:
//!
//! - `by hand`: `Batch::push_frames`, then `live::Snapshot::improve` for each family.
//! - `push_all`: `Worker::push_all`, then `Worker::classify`.
//! - `push`: `Worker::push` for each frame, then `Worker::classify`.
//! - `counting`: as `push_all`, with counters by rule.
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::fmt::Write;
use std::hint::black_box;
use std::time::Instant;

use firstmatch::core::live::{self, BatchReader};
use firstmatch::core::{Match, Policy};
use firstmatch::formats::{self, Options};
use firstmatch::net::wire::Batch;
use firstmatch::{Firewall, LinkType, Worker};

const BATCH: usize = 32;
const FRAMES: usize = 65_536;
const WAYS: [&str; 4] = ["by hand", "push_all", "push", "counting"];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let rules: u32 = args.next().map_or(Ok(1000), |n| n.parse())?;
    let rounds: usize = args.next().map_or(Ok(41), |n| n.parse())?;
    let mut state = 1;
    let nets: Vec<(u32, u32)> = (0..rules).map(|_| (next(&mut state), next(&mut state) % 8)).collect();
    let mut text = String::new();
    for (net, kind) in &nets {
        let [a, b, c, _] = net.to_be_bytes();
        let verdict = if kind & 1 == 0 { "permit" } else { "deny" };
        let proto = if kind & 2 == 0 { "tcp" } else { "udp" };
        writeln!(text, "{verdict} {proto} dst {a}.{b}.{c}.0/24 dport {}", 80 + kind)?;
    }
    let frames: Vec<[u8; 64]> = (0..FRAMES).map(|_| frame(&nets, &mut state)).collect();

    let set = formats::parse(&text, &Options::default())?.rules;
    let mut batch = Batch::for_policy(&Policy::default(), set.schemas())?;
    let (_, writer) = live::open(set, &live::Config::default())?;
    let mut reader = writer.handle().reader();
    let mut found = vec![Vec::new(); batch.schemas()];
    let mut worker = Firewall::from_text(&text)?.worker();
    let mut counting = Firewall::builder().counters(true).build(&text)?.worker();
    let mut times: [Vec<f64>; 4] = Default::default();
    for _ in 0..rounds {
        for (way, times) in WAYS.iter().zip(&mut times) {
            let start = Instant::now();
            for frames in frames.chunks(BATCH) {
                match *way {
                    "by hand" => by_hand(&mut batch, &mut reader, &mut found, frames),
                    "push_all" => together(&mut worker, frames),
                    "counting" => together(&mut counting, frames),
                    _ => {
                        frames.iter().for_each(|frame| _ = worker.push(LinkType::Ethernet, frame));
                        black_box(worker.classify());
                    }
                }
            }
            times.push(start.elapsed().as_secs_f64() * 1e9 / frames.len() as f64);
        }
    }
    println!("way,rules,min_ns,median_ns,rounds");
    for (way, times) in WAYS.iter().zip(&mut times) {
        times.sort_unstable_by(f64::total_cmp);
        println!("{way},{rules},{:.1},{:.1},{rounds}", times[0], times[times.len() / 2]);
    }
    Ok(())
}

fn by_hand(batch: &mut Batch, reader: &mut BatchReader, found: &mut [Vec<Option<Match>>], frames: &[[u8; 64]]) {
    batch.clear();
    batch.push_frames(LinkType::Ethernet, frames);
    reader.read(|mut snapshot| {
        for (schema, found) in found.iter_mut().enumerate() {
            let keys = batch.keys(schema);
            found.clear();
            found.resize(keys.len(), None);
            if !found.is_empty() {
                snapshot.improve(schema, &keys, found);
            }
        }
    });
    black_box((batch.records(), found));
}

fn together(worker: &mut Worker, frames: &[[u8; 64]]) {
    worker.push_all(LinkType::Ethernet, frames);
    black_box(worker.classify());
}

/// Returns a frame that matches one of the rules, or one near it.
fn frame(nets: &[(u32, u32)], state: &mut u64) -> [u8; 64] {
    let (net, kind) = nets[next(state) as usize % nets.len()];
    let mut frame = [0; 64];
    let proto = if kind & 2 == 0 { 6 } else { 17 };
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, proto]);
    frame[26..30].copy_from_slice(&next(state).to_be_bytes());
    frame[30..34].copy_from_slice(&(net & !0xff | next(state) & 0xff).to_be_bytes());
    frame[34..36].copy_from_slice(&(next(state) as u16).to_be_bytes());
    frame[36..38].copy_from_slice(&(80 + kind as u16).to_be_bytes());
    frame
}

/// Returns the upper half of the next state of a linear congruential generator.
fn next(state: &mut u64) -> u32 {
    *state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
    (*state >> 32) as u32
}
