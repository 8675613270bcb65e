//! Times the way from frames in memory to rows of keys:
//!
//!     cargo run --profile dist -p firstmatch-net --example frames -- [ROUNDS [SET WAY]]
//!
//! It makes three sets of frames: IPv4, IPv6, and both with 5 % of everything else. For each set it prints the
//! nanoseconds of thread CPU time per frame of three ways, as minimum and median of the rounds. The ways take turns in
//! every round:
//!
//! - `headers`: `parse_into`, then `Batch::push_headers`.
//! - `frame`: `Batch::push_frame` for each frame.
//! - `frames`: `Batch::push_frames` for 32 frames.
//!
//! With a set and a way it runs these alone, for a profiler, and times nothing.

use std::io::Write;
use std::time::Duration;

use firstmatch_core::Schema;
use firstmatch_net::wire::{Batch, Config, LinkType, parse, parse_into};
use firstmatch_testkit::frames::{arp, chain, ethernet, ipv4, ipv6, mpls, tcp, udp};
use firstmatch_testkit::rng::Rng;
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const FRAMES: usize = 100_000;
const BATCH: usize = 32;
const WAYS: [&str; 3] = ["headers", "frame", "frames"];
const SETS: [&str; 3] = ["ipv4", "ipv6", "mixed"];

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(31), |n| n.parse())?;
    let (only_set, only_way) = (args.next(), args.next());
    let is_in = |only: &Option<String>, name: &str| only.as_ref().is_none_or(|only| only == name);
    let mut out = std::io::stdout().lock();
    writeln!(out, "set,way,frames,min_ns,median_ns,rounds")?;
    for set in SETS.into_iter().filter(|set| is_in(&only_set, set)) {
        let bytes = bytes(set);
        let frames: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let frames = contiguous(&frames);
        let frames: Vec<&[u8]> = frames.1.iter().map(|&(at, len)| &frames.0[at..at + len]).collect();
        let mut batch = Batch::new(&Config::default(), &[Schema::ipv4(), Schema::ipv6()])?;
        let mut times: [Vec<f64>; 3] = Default::default();
        for _ in 0..rounds {
            for (way, times) in WAYS.into_iter().zip(&mut times).filter(|(way, _)| is_in(&only_way, way)) {
                if only_way.is_some() {
                    pass(way, &mut batch, &frames);
                    continue;
                }
                let start = cpu_time();
                pass(way, &mut batch, &frames);
                times.push((cpu_time() - start).as_secs_f64() * 1e9 / frames.len() as f64);
            }
        }
        for (way, times) in WAYS.into_iter().zip(&mut times).filter(|(way, _)| is_in(&only_way, way)) {
            times.sort_unstable_by(f64::total_cmp);
            if times.is_empty() {
                continue;
            }
            writeln!(out, "{set},{way},{},{:.1},{:.1},{rounds}", frames.len(), times[0], times[times.len() / 2])?;
        }
    }
    Ok(())
}

fn pass(way: &str, batch: &mut Batch, frames: &[&[u8]]) {
    let config = *batch.config();
    let mut headers = parse(&config, LinkType::Raw, &[]);
    for frames in frames.chunks(BATCH) {
        batch.clear();
        match way {
            "headers" => {
                for frame in frames {
                    parse_into(&config, 0, LinkType::Ethernet, frame, frame.len() as u32, &mut headers);
                    batch.push_headers(&headers, frame.len() as u32);
                }
            }
            "frame" => {
                for frame in frames {
                    batch.push_frame(LinkType::Ethernet, frame, frame.len() as u32);
                }
            }
            _ => batch.push_frames(LinkType::Ethernet, frames.iter().copied()),
        }
        std::hint::black_box((batch.keys(0).words(), batch.keys(1).words(), batch.records()));
    }
}

/// Copies frames into one allocation, each at a multiple of 64 bytes, and returns their places.
fn contiguous(frames: &[&[u8]]) -> (Vec<u8>, Vec<(usize, usize)>) {
    let (mut all, mut places) = (Vec::new(), Vec::new());
    for frame in frames {
        places.push((all.len(), frame.len()));
        all.extend_from_slice(frame);
        all.resize(all.len().next_multiple_of(64), 0);
    }
    (all, places)
}

fn bytes(set: &str) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(1);
    let frame = |rng: &mut Rng| {
        let is_ipv6 = set == "ipv6" || (set == "mixed" && rng.one_in(2));
        if set == "mixed" && rng.one_in(20) {
            return other(rng);
        }
        let icmp = if is_ipv6 { 58 } else { 1 };
        let proto = rng.any_of(&[6, 6, 6, 6, 6, 6, 6, 17, 17, 17, 17, icmp]);
        let mut payload = if proto == 6 { tcp(0x10) } else { [udp(), vec![0; 8]].concat() };
        let ports = rng.bytes(4);
        payload[..4].copy_from_slice(&ports);
        let (mut packet, ether_type, addresses) = match is_ipv6 {
            true => (ipv6(proto, &payload), 0x86dd, 8..40),
            false => (ipv4(proto, 0, &[], &payload), 0x0800, 12..20),
        };
        packet[addresses].iter_mut().for_each(|byte| *byte = rng.next() as u8);
        let tags = if rng.one_in(10) { &[(0x8100, 7)][..] } else { &[] };
        ethernet(tags, ether_type, &packet).bytes
    };
    (0..FRAMES)
        .map(|_| frame(&mut rng))
        .map(|frame| [&frame[..], &vec![0; 64usize.saturating_sub(frame.len())]].concat())
        .collect()
}

/// Returns a frame that is not common.
fn other(rng: &mut Rng) -> Vec<u8> {
    let plain = ipv4(17, 0, &[], &udp());
    let frame = match rng.below(6) {
        0 => ethernet(&[(0x88a8, 7), (0x8100, 9)], 0x0800, &plain),
        1 => ethernet(&[], 0x0800, &ipv4(6, 0, &[1; 8], &tcp(2))),
        2 => ethernet(&[], 0x0800, &ipv4(17, 0x2003, &[], &udp())),
        3 => {
            let (next, body) = chain(&[0, 60], 1, 0, 17, &udp());
            ethernet(&[], 0x86dd, &ipv6(next, &body))
        }
        4 => ethernet(&[], 0x0806, &arp(1)),
        _ => ethernet(&[], 0x8847, &mpls(&[0x1234_5000], &plain)),
    };
    frame.bytes
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}
