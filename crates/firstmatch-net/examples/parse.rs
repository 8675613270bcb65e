//! Times finding the headers of a packet and filling its row of keys:
//!
//!     cargo run --profile dist -p firstmatch-net --example parse -- CAPTURE [ROUNDS]
//!
//! The times are nanoseconds of thread CPU time per classified packet of the capture, over packets in memory. For each
//! schema it prints `parse` alone, and `parse`, `outcome` and `fill` together, as minimum and median of the rounds.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use firstmatch_core::{KeyBuf, Schema};
use firstmatch_net::source;
use firstmatch_net::wire::{Config, Extractor, LinkType, parse, parse_into};
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "usage: parse CAPTURE [ROUNDS]";
/// Least packets of a timed round, so that the cost of reading the clock does not show.
const PACKETS: usize = 200_000;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or(USAGE)?);
    let rounds: usize = args.next().map_or(Ok(31), |n| n.parse())?;
    if rounds == 0 {
        return Err(USAGE.into());
    }
    let mut capture = source::open(&path)?.into_capture()?;
    let (mut bytes, mut frames) = (Vec::new(), Vec::new());
    while let Some(packet) = capture.next()? {
        frames.push((packet.link, bytes.len(), packet.data.len()));
        bytes.extend_from_slice(packet.data);
    }
    let config = Config::default();
    let mut out = std::io::stdout().lock();
    writeln!(out, "schema,packets,parse_min_ns,parse_median_ns,whole_min_ns,whole_median_ns,rounds")?;
    for (name, schema) in schemas() {
        let extractor = Extractor::new(&schema)?;
        let packets: Vec<(LinkType, &[u8])> = frames
            .iter()
            .map(|&(link, start, len)| (link, &bytes[start..start + len]))
            .filter(|(link, frame)| extractor.outcome(&parse(&config, *link, frame)).is_classified())
            .collect();
        if packets.is_empty() {
            continue;
        }
        let passes = PACKETS.div_ceil(packets.len());
        let (mut parsing, mut whole) = (Vec::new(), Vec::new());
        let mut headers = parse(&config, LinkType::Raw, &[]);
        let mut keys = KeyBuf::new(&schema);
        keys.reserve(packets.len());
        for _ in 0..rounds {
            let per_packet = |time: Duration| time.as_secs_f64() * 1e9 / (passes * packets.len()) as f64;
            let start = cpu_time();
            for _ in 0..passes {
                for (link, frame) in &packets {
                    parse_into(&config, 0, *link, frame, frame.len() as u32, &mut headers);
                    std::hint::black_box(&headers);
                }
            }
            parsing.push(per_packet(cpu_time() - start));
            let start = cpu_time();
            for _ in 0..passes {
                keys.clear();
                for (link, frame) in &packets {
                    parse_into(&config, 0, *link, frame, frame.len() as u32, &mut headers);
                    if extractor.outcome(&headers).is_classified() {
                        extractor.fill(&headers, keys.push());
                    }
                }
                std::hint::black_box(keys.keys());
            }
            whole.push(per_packet(cpu_time() - start));
        }
        for times in [&mut parsing, &mut whole] {
            times.sort_unstable_by(f64::total_cmp);
        }
        let (first, middle) = (parsing[0], parsing[rounds / 2]);
        let (all, all_middle) = (whole[0], whole[rounds / 2]);
        writeln!(out, "{name},{},{first:.1},{middle:.1},{all:.1},{all_middle:.1},{rounds}", packets.len())?;
    }
    Ok(())
}

fn schemas() -> Vec<(&'static str, Schema)> {
    vec![("ipv4", Schema::ipv4()), ("ipv6", Schema::ipv6()), ("openflow", Schema::openflow())]
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}
