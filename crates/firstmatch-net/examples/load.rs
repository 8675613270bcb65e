//! Times reading a rule file and lowering its rules, and measures the memory that takes:
//!
//!     cargo run --profile dist -p firstmatch-net --example load -- RULES [ROUNDS]
//!
//! The times are seconds of thread CPU time, each from the text in memory: `parse`, and `lower` for every schema of the
//! set. The median of the rounds is printed.
//!
//! The memory is the process's peak resident size after one round, less the peak before the text was read. It is
//! printed in bytes and as a multiple of the text's size. Linux alone states it. JSON files are not read.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use firstmatch_core::rule::lower;
use firstmatch_formats::Options;
use firstmatch_net::source;
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "usage: load RULES [ROUNDS]";

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let path = PathBuf::from(args.next().ok_or(USAGE)?);
    let rounds: usize = args.next().map_or(Ok(5), |n| n.parse())?;
    let before = peak();
    let text = source::read_text(&path)?;
    let options = Options::default();
    let (mut parsing, mut lowering, mut memory) = (Vec::new(), Vec::new(), None);
    let (mut rules, mut regions) = (0, 0);
    for round in 0..rounds {
        let start = cpu_time();
        let file = firstmatch_formats::parse(&text, &options)?;
        parsing.push((cpu_time() - start).as_secs_f64());
        let start = cpu_time();
        let lowered = file.rules.schemas().iter().map(|schema| lower(&file.rules, schema, &options.expansion));
        let lowered = lowered.collect::<Result<Vec<_>, _>>()?;
        lowering.push((cpu_time() - start).as_secs_f64());
        (rules, regions) = (file.rules.len(), lowered.iter().map(|lowered| lowered.regions().len()).sum());
        if round == 0 {
            memory = peak().zip(before).map(|(after, before)| after - before);
        }
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let mut out = std::io::stdout().lock();
    writeln!(out, "rules,regions,text_bytes,parse_median_s,lower_median_s,rounds,peak_bytes,peak_per_text_byte")?;
    let (parse, lower) = (median(parsing), median(lowering));
    write!(out, "{rules},{regions},{},{parse:.3},{lower:.3},{rounds},", text.len())?;
    match memory {
        Some(bytes) => writeln!(out, "{bytes},{:.2}", bytes as f64 / text.len() as f64)?,
        None => writeln!(out, ",")?,
    }
    Ok(())
}

/// Returns the largest resident size that this process ever had, in bytes.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes << 10)
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
