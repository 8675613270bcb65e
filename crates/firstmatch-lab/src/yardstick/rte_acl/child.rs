//! Builds in a process of their own, under limits of memory and time.
//!
//! A build that exceeds the limits is refused, and its peak is measured alone.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{Figures, Table};
use crate::clock::timed;
use crate::definition::Definition;
use crate::workload::{self, Source};

/// Most address space of a build, in bytes.
const BYTES: u64 = 16 << 30;
/// Most CPU seconds of a build; [`BRIEF_SECONDS`] if the run is brief.
const SECONDS: u64 = 120;
const BRIEF_SECONDS: u64 = 2;
/// Most memory of DPDK's own in that process, in MB; only pages in use are taken.
const MEGABYTES: usize = 4096;

/// `firstmatch-lab build-rte-acl`
#[derive(Debug, Args)]
pub(crate) struct ChildArgs {
    definition: PathBuf,
    #[arg(long)]
    sets: Option<PathBuf>,
    /// Name of the set
    #[arg(long)]
    set: String,
    /// Index of the schema in the set
    #[arg(long)]
    index: usize,
    #[arg(long)]
    max_size: usize,
    /// Most CPU seconds
    #[arg(long)]
    seconds: u64,
}

/// Builds a table and prints the CPU seconds, the bytes allocated by DPDK, and the peak.
pub(crate) fn child(args: &ChildArgs) -> anyhow::Result<()> {
    let definition = Definition::read(&args.definition)?;
    let lowered = workload::one(&definition, args.sets.as_deref(), &args.set, args.index)?.lowered;
    super::heap::start(MEGABYTES)?;

    limit(Resource::As, BYTES)?;
    // The limit includes the time of loading, rounded up to whole seconds.
    limit(Resource::Cpu, args.seconds + 1 + process_seconds())?;
    // The peak counts from here.
    fs::write("/proc/self/clear_refs", "5")?;
    let before = status("VmRSS:")?;
    let heap = Arc::new(super::heap::Heap::of_dpdk());
    let (table, taken) = timed(|| Table::build(&lowered, super::form(&definition), args.max_size, heap));
    let table = table?;
    let peak = status("VmHWM:")?.saturating_sub(before);
    let bytes = table.table_bytes + table.rule_bytes;
    use std::io::Write;
    writeln!(std::io::stdout(), "{} {bytes} {peak}", taken.cpu.as_secs_f64())?;
    Ok(())
}

fn limit(resource: Resource, current: u64) -> anyhow::Result<()> {
    let maximum = getrlimit(resource).maximum;
    setrlimit(resource, Rlimit { current: Some(maximum.map_or(current, |most| most.min(current))), maximum })?;
    Ok(())
}

fn process_seconds() -> u64 {
    rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime).tv_sec.unsigned_abs()
}

/// Returns a line of the kernel's statistics of this process, in bytes.
fn status(name: &str) -> anyhow::Result<usize> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).context("the kernel does not say")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<usize>()? * 1024)
}

/// Builds a table in a process of its own; returns its costs and the bytes it needs.
pub(super) fn build_apart(source: &Source<'_>, max_size: usize) -> anyhow::Result<(Figures, usize)> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("build-rte-acl").arg(&source.definition.path).arg("--set").arg(&source.set.name);
    command.arg("--index").arg(source.index.to_string()).arg("--max-size").arg(max_size.to_string());
    let seconds = if source.brief { BRIEF_SECONDS } else { SECONDS };
    command.arg("--seconds").arg(seconds.to_string());
    if let Some(sets) = source.sets {
        command.arg("--sets").arg(sets);
    }
    let Output { status, stdout, stderr } = command.output()?;
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        let why = said.trim().trim_start_matches("error: ");
        ensure!(!why.is_empty(), "it needs more than {seconds} s or 16 GiB to build ({status})");
        bail!("{why} (at most {seconds} s and 16 GiB are allowed)");
    }
    let words = String::from_utf8_lossy(&stdout);
    let [seconds, bytes, peak] = words.split_whitespace().collect::<Vec<_>>()[..] else { bail!("it said {words:?}") };
    let run_bytes = bytes.parse()?;
    Ok((Figures { seconds: seconds.parse()?, run_bytes, peak_bytes: peak.parse()? }, run_bytes))
}
