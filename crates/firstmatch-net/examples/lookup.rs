//! How fast the engines look up, on ClassBench sets of your own:
//!
//!     cargo run --release -p firstmatch-net --example lookup -- DIR [BATCH] [ROUNDS]
//!
//! For every NAME.rules (plain or .gz, .zst) in DIR that has a NAME.trace beside it: nanoseconds of thread CPU time a
//! packet, keys in memory and results kept, engines in interleaved rounds, each round in a new seeded order of the
//! keys that is the same for every engine. The first engine runs twice under two names; the distance of their medians
//! is the noise floor. The answers of all engines are compared in every round.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstmatch::linear::{self, Linear};
use firstmatch::rule::{Caps, lower};
use firstmatch::tuple::{self, TupleMerge};
use firstmatch::{Classifier, KeyBuf, Match, format};
use firstmatch_net::source;
use firstmatch_net::wire::Batch;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "usage: lookup DIR [BATCH] [ROUNDS]";

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().ok_or(USAGE)?);
    let batch: usize = args.next().map_or(Ok(256), |n| n.parse())?;
    let rounds: usize = args.next().map_or(Ok(11), |n| n.parse())?;
    if batch == 0 || rounds == 0 {
        return Err(USAGE.into());
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "set,rules,engine,bytes_a_rule,tables,min_ns,median_ns,max_ns,batch,rounds")?;
    for (name, rules, trace) in pairs(&dir)? {
        for row in measure(&rules, &trace, batch, rounds)? {
            writeln!(out, "{name},{row},{batch},{rounds}")?;
        }
        out.flush()?;
    }
    Ok(())
}

/// The names, rule files and traces of a folder, by name.
fn pairs(dir: &Path) -> Outcome<Vec<(String, PathBuf, PathBuf)>> {
    let mut files: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        files.push(entry?.file_name().to_string_lossy().into_owned());
    }
    files.sort_unstable();
    let trace_of = |rules: &str| {
        let (name, end) = rules.split_once(".rules")?;
        let trace = format!("{name}.trace{end}");
        files.contains(&trace).then(|| (name.to_owned(), dir.join(rules), dir.join(trace)))
    };
    Ok(files.iter().filter_map(|file| trace_of(file)).collect())
}

fn measure(rules: &Path, trace: &Path, batch: usize, rounds: usize) -> Outcome<Vec<String>> {
    let file = format::parse(&source::read_text(rules)?, &format::Options::default())?;
    let schema = &file.rules.schemas()[0];
    let mut packets = Batch::for_policy(&file.policy, file.rules.schemas())?;
    let source::Input::Trace(mut trace) = source::open(trace)? else { return Err("not a trace".into()) };
    while let Some(record) = trace.next()? {
        packets.push_headers(&record.headers(), 0);
    }

    let lowered = lower(&file.rules, schema, &Caps::default())?;
    let merged = TupleMerge::build(&lowered, &tuple::Config::default())?;
    let linear = Linear::build(&lowered, &linear::Config::default())?;
    let engines: [(&str, &dyn Classifier); 3] =
        [("tuplemerge", &merged), ("tuplemerge again", &merged), ("linear", &linear)];
    let mut scratches = engines.map(|(_, engine)| engine.scratch());
    let mut times = engines.map(|_| Vec::with_capacity(rounds));
    let mut order: Vec<usize> = (0..packets.keys(0).len()).collect();
    let mut random = Pcg64::seed_from_u64(1);
    let mut answers: Vec<Vec<Option<Match>>> = vec![vec![None; order.len()]; engines.len()];
    for round in 0..rounds {
        order.shuffle(&mut random);
        let mut keys = KeyBuf::new(schema);
        order.iter().for_each(|&row| keys.push().copy_from_slice(packets.keys(0).row(row)));
        let keys = keys.keys();
        // Each engine is the first to meet the new keys equally often: that one brings them into the cache.
        for which in (0..engines.len()).map(|turn| (turn + round) % engines.len()) {
            let engine = engines[which].1;
            let start = cpu_time();
            for (index, answers) in answers[which].chunks_mut(batch).enumerate() {
                let keys = keys.slice(index * batch, index * batch + answers.len());
                engine.classify_batch(&mut scratches[which], keys, answers);
            }
            times[which].push((cpu_time() - start).as_secs_f64() * 1e9 / keys.len() as f64);
        }
        if answers.iter().any(|other| *other != answers[0]) {
            return Err(format!("{}: the engines differ", rules.display()).into());
        }
    }
    let rows = engines.iter().zip(&mut times).map(|((name, engine), times)| {
        times.sort_unstable_by(f64::total_cmp);
        let stats = engine.stats();
        let bytes = stats.total_bytes() as f64 / file.rules.len().max(1) as f64;
        let (min, median, max) = (times[0], times[times.len() / 2], times[times.len() - 1]);
        format!("{},{name},{bytes:.0},{},{min:.1},{median:.1},{max:.1}", file.rules.len(), stats.tables)
    });
    Ok(rows.collect())
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}
