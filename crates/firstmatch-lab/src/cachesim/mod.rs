//! Misses of caches and TLBs, simulated on the memory accesses of a program.
//!
//! `firstmatch-lab misses` runs the lookups of an engine under Valgrind's tool Lackey, reads the trace of their accesses
//! from a pipe, and takes each access through caches and TLBs that replace the least recently used block. A trace is
//! never stored.

mod cache;
mod lackey;
pub(crate) mod marks;
mod memory;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, bail, ensure};
use clap::Args;

use crate::definition::Definition;
use crate::measure::{self, Fault};
use crate::table::{number, table};
use crate::valgrind::{self, Job};
use crate::workload;
use cache::CacheShape;
use lackey::Part;
use memory::{Memory, MemoryShape};

#[derive(Debug, Args)]
pub(crate) struct MissesArgs {
    /// Definition whose lookups are traced: the name of a file in benchmarks/definitions, or a path
    #[arg(required_unless_present = "trace", conflicts_with = "trace")]
    definition: Option<String>,
    /// Engines, by their names in the definition. All of them if none is named
    engines: Vec<String>,
    /// Name of the set. All sets if none is named
    #[arg(long, value_name = "NAME")]
    set: Option<String>,
    /// Folder of the rule sets and traces that are not part of the repository
    #[arg(long, env = "FIRSTMATCH_SETS", value_name = "DIR")]
    sets: Option<PathBuf>,
    /// Number of keys a call
    #[arg(long, value_name = "KEYS", default_value_t = 32, value_parser = counts())]
    batch: u64,
    /// Number of lookups that count, after as many that warm the engine up
    #[arg(long, value_name = "KEYS", default_value_t = 4096, value_parser = counts())]
    lookups: u64,
    /// Trace to read instead, as `valgrind --tool=lackey --trace-mem=yes` prints it: a file, or - for standard input
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    shapes: Shapes,
}

/// Shapes of caches and TLBs; the defaults are those of AMD's Zen 3.
#[derive(Debug, Args)]
struct Shapes {
    /// Caches of data, the nearest first: BYTES,WAYS,LINE each, where the ways may be `full`
    #[arg(long, value_name = "SHAPE", num_args = 1.., value_parser = shape,
        default_values = ["32768,8,64", "524288,8,64", "33554432,16,64"])]
    data: Vec<CacheShape>,
    /// First cache of instructions, which share the further caches with data
    #[arg(long, value_name = "SHAPE", value_parser = shape, default_value = "32768,8,64")]
    code: CacheShape,
    /// TLBs of data: BYTES,WAYS,PAGE each; those of one page size are levels, the nearest first
    #[arg(long, value_name = "SHAPE", num_args = 1.., value_parser = shape,
        default_values = ["262144,full,4096", "8388608,8,4096", "134217728,full,2097152", "4294967296,8,2097152"])]
    tlb: Vec<CacheShape>,
}

fn counts() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=1 << 30)
}

fn shape(text: &str) -> Result<CacheShape, String> {
    text.parse().map_err(|error: anyhow::Error| format!("{error:#}"))
}

impl Shapes {
    fn memory(&self) -> Memory {
        Memory::new(&MemoryShape { data: self.data.clone(), code: Some(self.code), tlbs: self.tlb.clone() })
    }
}

/// Prints the misses of a trace, or those of each engine a lookup.
///
/// # Errors
///
/// If there is no Valgrind, if a file cannot be read, or if an answer under Valgrind is wrong.
pub(crate) fn misses(args: &MissesArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    match (&args.trace, &args.definition) {
        (Some(path), _) if path.as_os_str() == "-" => of_trace(&args.shapes, stdin().lock(), out),
        (Some(path), _) => {
            let file = File::open(path).with_context(|| path.display().to_string())?;
            of_trace(&args.shapes, BufReader::new(file), out).with_context(|| path.display().to_string())
        }
        (None, Some(name)) => of_definition(args, &Definition::read(&crate::path_of(name))?, out),
        (None, None) => bail!("expected a definition, or --trace"),
    }?;
    Ok(ExitCode::SUCCESS)
}

fn of_trace(shapes: &Shapes, input: impl BufRead, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut memory = shapes.memory();
    lackey::read(input, Part::Whole, |_, access| memory.access(access))?;
    let mut all = table(["", "bytes,ways,block", "accesses", "misses"].map(str::to_owned).to_vec());
    for (name, level) in memory.levels() {
        let shape = level.shape().to_string();
        all.add_row(vec![name, shape, level.accesses.to_string(), level.misses.to_string()]);
    }
    writeln!(out, "{all}")?;
    Ok(())
}

fn of_definition(args: &MissesArgs, definition: &Definition, out: &mut dyn Write) -> anyhow::Result<()> {
    valgrind::find()?;
    let names: Vec<&str> = definition.engines.iter().map(crate::definition::Engine::name).collect();
    for engine in &args.engines {
        let expected = || format!("there is no engine `{engine}`; expected one of {}", names.join(", "));
        ensure!(names.contains(&engine.as_str()), expected());
    }
    let engines = names.iter().filter(|name| args.engines.is_empty() || args.engines.iter().any(|one| one == *name));
    let engines: Vec<&str> = engines.copied().collect();
    let sets = definition.sets.iter().filter(|set| args.set.as_ref().is_none_or(|name| *name == set.name));
    let sets: Vec<_> = sets.collect();
    ensure!(!sets.is_empty(), "there is no set `{}` in {}", args.set.as_deref().unwrap_or(""), definition.name);
    let shapes: Vec<String> =
        args.shapes.memory().levels().iter().map(|(name, level)| format!("{name}: {}", level.shape())).collect();
    writeln!(out, "bytes, ways, bytes of a block: {}", shapes.join("; "))?;
    for set in sets {
        let Ok(origin) = definition.origin(set, args.sets.as_deref()) else {
            bail!("{}: its files lie in a folder of sets, and none is given (--sets)", set.name);
        };
        let loaded = workload::load(set, &origin, definition.frames())?;
        let right = measure::right_answers(set, &loaded).map_err(|fault| match fault {
            Fault::NotRun(why) | Fault::Wrong(why) => anyhow::anyhow!("{}: {why}", set.name),
        })?;
        for (index, (work, right)) in loaded.workloads.iter().zip(&right).enumerate() {
            let mut rows = Vec::new();
            for engine in &engines {
                let job = Job {
                    definition,
                    sets: args.sets.as_deref(),
                    set: &set.name,
                    index,
                    engine,
                    batch: args.batch as usize,
                    lookups: args.lookups as usize,
                };
                let memory =
                    of_job(&args.shapes, &job, &job.expected(work, right)).with_context(|| engine.to_string())?;
                rows.push((*engine, memory));
            }
            let part = work.part.map_or(String::new(), |part| format!(" {part}"));
            writeln!(out, "\n{}{part}: {} rules, batches of {}", set.name, loaded.rules.len(), args.batch)?;
            writeln!(out, "{}", a_lookup(&rows, args.lookups as f64))?;
        }
    }
    Ok(())
}

/// Returns the table of misses a lookup, an engine a line; the first two columns are accesses.
fn a_lookup(engines: &[(&str, Memory)], lookups: f64) -> comfy_table::Table {
    let levels = engines.first().map(|(_, memory)| memory.levels()).unwrap_or_default();
    let mut head = vec!["misses a lookup".to_owned(), "instructions".to_owned(), "loads and stores".to_owned()];
    head.extend(levels.into_iter().map(|(name, _)| name));
    let mut all = table(head);
    for (name, memory) in engines {
        let (fetches, data) = memory.accesses();
        let mut row = vec![(*name).to_owned(), number(fetches as f64 / lookups), number(data as f64 / lookups)];
        row.extend(memory.levels().into_iter().map(|(_, level)| format!("{:.3}", level.misses as f64 / lookups)));
        all.add_row(row);
    }
    all
}

/// Traces the lookups of one engine: the first part fills the caches, the second counts.
fn of_job(shapes: &Shapes, job: &Job<'_>, expected: &str) -> anyhow::Result<Memory> {
    let mut command = job.command("lackey", &["--trace-mem=yes"])?;
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().context("valgrind")?;
    let trace = child.stderr.take().context("valgrind has no standard error")?;
    let mut memory = shapes.memory();
    let mut warm = false;
    let read = lackey::read(BufReader::with_capacity(1 << 20, trace), Part::Marked, |part, access| {
        if part > 1 && !std::mem::replace(&mut warm, true) {
            memory.count_anew();
        }
        memory.access(access);
    });
    if read.is_err() {
        // A process that nobody reads from would wait for ever; it may have ended already.
        let _ended = child.kill();
    }
    let mut answers = String::new();
    child.stdout.take().context("the process has no standard output")?.read_to_string(&mut answers)?;
    let status = child.wait()?;
    read.context("the trace of valgrind")?;
    ensure!(status.success(), "the lookups under valgrind ended with {status}");
    ensure!(answers.trim() == expected, "the answers under valgrind differ from the right ones");
    Ok(memory)
}
