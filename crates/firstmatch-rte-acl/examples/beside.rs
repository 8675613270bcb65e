//! Times lookups and builds of this library and of DPDK's, in one run, over ClassBench sets.
//!
//!     cargo run --profile dist -p firstmatch-rte-acl --example beside -- NAME.rules NAME.trace [MORE.rules MORE.trace …]
//!
//! - Keys are read in place: pointers to the protocol of IPv4 headers in frames of 64 bytes, as in DPDK's `l3fwd-acl`,
//!   with its five fields. Each set has all packets of its trace.
//! - Each round times every library once over all packets, one after the other, in CPU time of the thread. A figure is
//!   the median of the rounds, in nanoseconds a packet.
//! - The original has two tables, with `max_size` 0 and 2 GiB, and the algorithms `scalar`, `sse` and `avx2`. Its best
//!   time of the six counts. Both libraries may have transparent huge pages.
//! - Builds are medians of three, and the original's time is that of its table that builds faster.
//! - All results are compared.
#![expect(unsafe_code, reason = "functions of C over memory of the program")]
#![expect(clippy::print_stdout, reason = "a program says what it found")]

#[path = "../tests/acl/beside/api.rs"]
#[expect(dead_code, reason = "the test uses all of it")]
mod api;

use std::error::Error;
use std::ffi::{CString, c_int, c_void};
use std::fs;

use api::Api;
use firstmatch_rte_acl::abi::{Config, FieldDef, MAX_FIELDS, Param, TYPE_BITMASK, TYPE_MASK, TYPE_RANGE};
use firstmatch_rte_acl::{Context, HugePages, firstmatch_acl_bytes, firstmatch_acl_version};

#[global_allocator]
static HUGE_PAGES: HugePages = HugePages;

const ROUNDS: usize = 9;
const RULE: usize = 96;
const FRAME: usize = 64;
/// Offset of the protocol in a frame.
const PROTOCOL: usize = 23;
/// Algorithms up to AVX2: scalar, SSE and AVX2.
const ALGORITHMS: [c_int; 3] = [1, 2, 3];

/// Returns a number of the thread's CPU time in nanoseconds.
fn now() -> f64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for the time.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn number(text: &str) -> Result<u64, Box<dyn Error>> {
    let (text, radix) = text.strip_prefix("0x").map_or((text, 10), |hex| (hex, 16));
    Ok(u64::from_str_radix(text, radix)?)
}

/// Returns the rules of a ClassBench file as `rte_acl` takes them, the first with the highest priority.
fn rules(text: &str) -> Result<Vec<u8>, Box<dyn Error>> {
    let mut out = Vec::new();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with('@')).collect();
    for (line, index) in lines.iter().zip(0u32..) {
        let words: Vec<_> = line[1..].split_whitespace().filter(|&word| word != ":").collect();
        let [src, dst, src_lo, src_hi, dst_lo, dst_hi, proto, ..] = words[..] else {
            return Err("too few words".into());
        };
        let prefix = |text: &str| -> Result<[u64; 2], Box<dyn Error>> {
            let (address, length) = text.split_once('/').ok_or("no prefix")?;
            Ok([u64::from(u32::from(address.parse::<std::net::Ipv4Addr>()?)), number(length)?])
        };
        let (proto, mask) = proto.split_once('/').ok_or("no mask")?;
        let pair = |a: &str, b: &str| -> Result<[u64; 2], Box<dyn Error>> { Ok([number(a)?, number(b)?]) };
        let fields = [
            pair(&proto.to_lowercase(), &mask.to_lowercase())?,
            prefix(src)?,
            prefix(dst)?,
            pair(src_lo, src_hi)?,
            pair(dst_lo, dst_hi)?,
        ];
        let head = [1, 0x1000_0000 - index, index + 1, 0];
        out.extend(head.iter().flat_map(|word| word.to_ne_bytes()));
        out.extend(fields.iter().flatten().flat_map(|number| number.to_ne_bytes()));
    }
    Ok(out)
}

/// Returns a frame for each header of a trace.
fn frames(text: &str) -> Result<Vec<[u8; FRAME]>, Box<dyn Error>> {
    let frame = |line: &str| {
        let numbers = line.split_whitespace().take(5).map(number).collect::<Result<Vec<_>, _>>()?;
        let [src, dst, sport, dport, proto] = numbers[..] else { return Err("too few numbers".into()) };
        let mut frame = [0; FRAME];
        frame[PROTOCOL] = proto as u8;
        frame[26..30].copy_from_slice(&(src as u32).to_be_bytes());
        frame[30..34].copy_from_slice(&(dst as u32).to_be_bytes());
        frame[34..36].copy_from_slice(&(sport as u16).to_be_bytes());
        frame[36..38].copy_from_slice(&(dport as u16).to_be_bytes());
        Ok(frame)
    };
    text.lines().map(frame).collect()
}

fn config(max_size: usize) -> Config {
    let mut config = Config { num_categories: 1, num_fields: 5, defs: [FieldDef::default(); MAX_FIELDS], max_size };
    let fields = [
        (TYPE_BITMASK, 1, 0, 0),
        (TYPE_MASK, 4, 1, 3),
        (TYPE_MASK, 4, 2, 7),
        (TYPE_RANGE, 2, 3, 11),
        (TYPE_RANGE, 2, 3, 13),
    ];
    for ((def, (kind, size, input_index, offset)), field_index) in config.defs.iter_mut().zip(fields).zip(0..) {
        *def = FieldDef { kind, size, field_index, input_index, offset };
    }
    config
}

/// Table of one library under one algorithm, with its times.
struct Line {
    api: Api,
    context: *mut Context,
    algorithm: c_int,
    batches: [Vec<f64>; 2],
    results: Vec<u32>,
}

/// Built context, with seconds of builds and bytes.
struct Built {
    context: *mut Context,
    seconds: f64,
    bytes: usize,
}

fn build(api: &Api, rules: &[u8], max_size: usize) -> Result<Built, Box<dyn Error>> {
    let name = CString::new(format!("timed{max_size}"))?;
    let param =
        Param { name: name.as_ptr(), socket_id: 0, rule_size: RULE as u32, max_rule_num: (rules.len() / RULE) as u32 };
    let (mut seconds, before) = (Vec::new(), dpdk_bytes());
    // SAFETY: whole structs and rules.
    unsafe {
        let context = (api.create)(&raw const param);
        if context.is_null() || (api.add)(context, rules.as_ptr().cast(), param.max_rule_num) != 0 {
            return Err("no context".into());
        }
        for _ in 0..3 {
            let start = now();
            let code = (api.build)(context, &config(max_size));
            if code != 0 {
                return Err(format!("no table: {code}").into());
            }
            seconds.push((now() - start) / 1e9);
        }
        let bytes = firstmatch_acl_bytes(context).max(dpdk_bytes() - before);
        Ok(Built { context, seconds: median(seconds), bytes })
    }
}

/// Returns the bytes that DPDK has allocated.
fn dpdk_bytes() -> usize {
    #[repr(C)]
    #[derive(Default)]
    struct Stats([usize; 3], [u32; 2], usize);
    let mut stats = Stats::default();
    // SAFETY: the function has this type and writes a whole struct.
    unsafe {
        let function = Api::symbol(c"rte_malloc_get_socket_stats");
        let function = std::mem::transmute::<*mut c_void, unsafe extern "C" fn(c_int, *mut Stats) -> c_int>(function);
        function(0, &raw mut stats);
    }
    stats.2
}

/// Asks for huge pages for everything large that the process has mapped, so for DPDK's memory.
fn ask_for_huge_pages() -> Result<(), Box<dyn Error>> {
    for line in fs::read_to_string("/proc/self/maps")?.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let Some((start, end)) = words[0].split_once('-') else { continue };
        let (start, end) = (usize::from_str_radix(start, 16)?, usize::from_str_radix(end, 16)?);
        if end - start >= 64 << 20 && words[1].starts_with("rw") {
            // SAFETY: only advice.
            unsafe { libc::madvise(start as *mut c_void, end - start, libc::MADV_HUGEPAGE) };
        }
    }
    Ok(())
}

impl Line {
    /// Looks every packet up in batches of `batch`; returns nanoseconds a packet.
    fn time(&mut self, data: &mut [*const u8], batch: usize, classify_alg: ClassifyAlg) -> f64 {
        let start = now();
        for (data, results) in data.chunks_mut(batch).zip(self.results.chunks_mut(batch)) {
            let (num, data, results) = (data.len() as u32, data.as_mut_ptr(), results.as_mut_ptr());
            // SAFETY: whole keys, and room for all results.
            let code = unsafe {
                if self.algorithm == 0 {
                    (self.api.classify)(self.context, data, results, num, 1)
                } else {
                    classify_alg(self.context, data, results, num, 1, self.algorithm)
                }
            };
            assert_eq!(code, 0);
        }
        (now() - start) / data.len() as f64
    }
}

type ClassifyAlg = unsafe extern "C" fn(*const Context, *mut *const u8, *mut u32, u32, u32, c_int) -> c_int;

/// Times one set; returns the ratios of lookups in batches of 32 and 1, of builds and of bytes.
fn measure(
    own: &Api,
    original: &Api,
    classify_alg: ClassifyAlg,
    name: &str,
    texts: [&str; 2],
) -> Result<[f64; 4], Box<dyn Error>> {
    let (rules, frames) = (rules(texts[0])?, frames(texts[1])?);
    let count = rules.len() / RULE;
    let mut data: Vec<_> = frames.iter().map(|frame| frame[PROTOCOL..].as_ptr()).collect();
    let ours = build(own, &rules, 0)?;
    let theirs = [0, 2 << 30].map(|max_size| build(original, &rules, max_size));
    let line = |api: &Api, context, algorithm| Line {
        api: *api,
        context,
        algorithm,
        batches: [vec![], vec![]],
        results: vec![0; frames.len()],
    };
    let mut lines = vec![line(own, ours.context, 0)];
    for theirs in theirs.iter().flatten() {
        lines.extend(ALGORITHMS.map(|algorithm| line(original, theirs.context, algorithm)));
    }
    for round in 0..ROUNDS {
        for (at, batch) in [32, 1].into_iter().enumerate() {
            let number = lines.len();
            for turn in 0..number {
                let line = &mut lines[(turn + round) % number];
                let nanos = line.time(&mut data, batch, classify_alg);
                line.batches[at].push(nanos);
            }
        }
    }
    assert!(lines.iter().all(|line| line.results == lines[0].results), "{name}: all results are the same");
    let best = |at: usize| lines[1..].iter().map(|line| median(line.batches[at].clone())).fold(f64::MAX, f64::min);
    let times = [0, 1].map(|at| [median(lines[0].batches[at].clone()), best(at)]);
    let least = |of: &dyn Fn(&Built) -> f64| theirs.iter().flatten().map(of).fold(f64::MAX, f64::min);
    let seconds = [ours.seconds, least(&|built| built.seconds)];
    let bytes = [ours.bytes as f64, least(&|built| built.bytes as f64)];
    println!(
        "{name}: {count} rules; ns a packet {:.1} and {:.1}, one a call {:.1} and {:.1}; build ms {:.1} and {:.1}; bytes a rule {:.1} and {:.0}",
        times[0][0],
        times[0][1],
        times[1][0],
        times[1][1],
        seconds[0] * 1e3,
        seconds[1] * 1e3,
        bytes[0] / count as f64,
        bytes[1] / count as f64,
    );
    // SAFETY: no lookup uses them any more.
    unsafe {
        (own.free)(ours.context);
        theirs.into_iter().flatten().for_each(|built| (original.free)(built.context));
    }
    Ok([times[0][1] / times[0][0], times[1][1] / times[1][0], seconds[1] / seconds[0], bytes[1] / bytes[0]])
}

fn main() -> Result<(), Box<dyn Error>> {
    let files: Vec<_> = std::env::args().skip(1).collect();
    let own = Api::own();
    let original = Api::original().ok_or("there is no DPDK (apt-get install dpdk-dev)")?;
    ask_for_huge_pages()?;
    // SAFETY: the name ends with NUL, and the function has this type.
    let classify_alg = unsafe {
        assert!(!firstmatch_acl_version().is_null());
        std::mem::transmute::<*mut c_void, ClassifyAlg>(Api::symbol(c"rte_acl_classify_alg"))
    };
    let mut ratios = Vec::new();
    for files in files.as_chunks::<2>().0 {
        let texts = [fs::read_to_string(&files[0])?, fs::read_to_string(&files[1])?];
        let name = files[0].rsplit('/').next().unwrap_or_default().trim_end_matches(".rules");
        ratios.push(measure(&own, &original, classify_alg, name, [&texts[0], &texts[1]])?);
    }
    for (at, what) in ["lookups in batches of 32", "lookups one a call", "builds", "bytes"].into_iter().enumerate() {
        let logs: f64 = ratios.iter().map(|ratios| ratios[at].ln()).sum();
        let least = ratios.iter().map(|ratios| ratios[at]).fold(f64::MAX, f64::min);
        println!("{what}: {:.2} times, least {least:.2}", (logs / ratios.len() as f64).exp());
    }
    Ok(())
}
