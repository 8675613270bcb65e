//! Lookups of one engine under Valgrind, in a process of its own.
//!
//! The process is this program again, with a hidden command. It loads a set of a definition, builds one engine, looks
//! every key up once to warm the engine up, and then once more in [`watched_lookups`]. Callgrind watches that second
//! pass by the function's name.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use clap::Args;
use firstmatch_core::{Classifier, KeyBuf, Keys, Match, Scratch};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use sha2::{Digest, Sha256};

use crate::definition::Definition;
use crate::workload::{self, Workload};

/// Pattern of the function whose instructions count, as Callgrind's options take it.
pub(crate) const WATCHED: &str = "*firstmatch_lab::valgrind::watched_lookups*";

/// Lookups of one engine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Job<'a> {
    pub(crate) definition: &'a Definition,
    /// Folder of the sets that are not part of the repository.
    pub(crate) sets: Option<&'a Path>,
    /// Name of the set, and index of the schema in it.
    pub(crate) set: &'a str,
    pub(crate) index: usize,
    /// Name of the engine in the definition.
    pub(crate) engine: &'a str,
    /// Number of keys a call.
    pub(crate) batch: usize,
    /// Number of keys.
    pub(crate) lookups: usize,
}

/// Parameters of a hidden command, `firstmatch-lab watched-lookups`.
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
    /// Name of the engine in the definition
    #[arg(long)]
    engine: String,
    #[arg(long)]
    batch: usize,
    #[arg(long)]
    lookups: usize,
}

/// Checks that Valgrind is installed.
///
/// # Errors
///
/// If it is not, the error names the package.
pub(crate) fn find() -> anyhow::Result<()> {
    let found = Command::new("valgrind").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    let works = found.as_ref().is_ok_and(std::process::ExitStatus::success);
    ensure!(works, "there is no valgrind (Debian: apt-get install valgrind)");
    Ok(())
}

impl Job<'_> {
    /// Returns the command that makes the lookups under Callgrind, with options of that tool.
    pub(crate) fn command(&self, options: &[String]) -> anyhow::Result<Command> {
        let mut command = Command::new("valgrind");
        command.args(["--quiet", "--tool=callgrind"]).args(options).arg(std::env::current_exe()?);
        command.arg("watched-lookups").arg(&self.definition.path).args(["--set", self.set, "--engine", self.engine]);
        let [index, batch, lookups] = [self.index, self.batch, self.lookups].map(|number| number.to_string());
        command.args(["--index", &index, "--batch", &batch, "--lookups", &lookups]);
        if let Some(sets) = self.sets {
            command.arg("--sets").arg(sets);
        }
        command.stdin(Stdio::null());
        Ok(command)
    }

    /// Returns the text that the process prints if all its answers are right.
    pub(crate) fn expected(&self, work: &Workload, right: &[Option<Match>]) -> String {
        digest(order(work, self.lookups).into_iter().map(|row| right[row]))
    }
}

/// Returns the rows of the keys in the order of the lookups: shuffled, unless the order of the trace matters.
///
/// A trace with fewer keys is repeated.
fn order(work: &Workload, lookups: usize) -> Vec<usize> {
    let mut rows: Vec<usize> = (0..work.keys.len()).collect();
    if !work.in_order {
        rows.shuffle(&mut Pcg64::seed_from_u64(1));
    }
    rows.into_iter().cycle().take(lookups).collect()
}

fn digest(answers: impl Iterator<Item = Option<Match>>) -> String {
    let mut hash = Sha256::new();
    for answer in answers {
        hash.update(answer.map_or(u64::MAX, |found| found.rule.slot() as u64).to_le_bytes());
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes the lookups and prints the digest of their answers.
pub(crate) fn child(args: &ChildArgs) -> anyhow::Result<()> {
    let definition = Definition::read(&args.definition)?;
    let engine = definition.engines.iter().find(|engine| engine.name() == args.engine);
    let recipe = engine.context("there is no such engine")?.recipe()?;
    let work = workload::one(&definition, args.sets.as_deref(), &args.set, args.index)?;
    let engine = (recipe.build)(&work.lowered)?;

    let mut keys = KeyBuf::new(work.keys.schema());
    let order = order(&work, args.lookups);
    keys.reserve(order.len().max(1));
    order.iter().for_each(|&row| keys.push().copy_from_slice(work.keys.keys().row(row)));
    let mut answers = vec![None; keys.len()];
    let mut scratch = engine.scratch();
    lookups(&*engine, &mut scratch, keys.keys(), &mut answers, args.batch);
    answers.fill(None);
    watched_lookups(&*engine, &mut scratch, keys.keys(), &mut answers, args.batch);
    writeln!(std::io::stdout(), "{}", digest(answers.into_iter()))?;
    Ok(())
}

/// Makes the lookups that Valgrind watches; nothing else calls it.
#[inline(never)]
fn watched_lookups(
    engine: &dyn Classifier,
    scratch: &mut Scratch,
    keys: Keys<'_>,
    answers: &mut [Option<Match>],
    batch: usize,
) {
    lookups(engine, scratch, keys, answers, batch);
}

#[inline(always)]
fn lookups(
    engine: &dyn Classifier,
    scratch: &mut Scratch,
    keys: Keys<'_>,
    answers: &mut [Option<Match>],
    batch: usize,
) {
    for from in (0..keys.len()).step_by(batch) {
        let to = keys.len().min(from + batch);
        engine.classify_batch(scratch, keys.slice(from, to), &mut answers[from..to]);
    }
}
