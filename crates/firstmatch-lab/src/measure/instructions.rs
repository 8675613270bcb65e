//! Instructions of lookups, counted by Callgrind in a process of its own.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use firstmatch_core::Match;

use super::subject::{Role, Subject};
use super::{Fault, Pace, Source};
use crate::definition::Instructions;
use crate::valgrind::{Job, WATCHED};
use crate::workload::Workload;

/// For each subject, the instructions a lookup in each batch; empty for yardsticks that the definition does not name.
pub(crate) type Counts = Vec<Vec<f64>>;

/// Counts the instructions of every engine of the definition. The first is counted twice, like everything else.
pub(super) fn count(
    instructions: &Instructions,
    source: &Source<'_>,
    subjects: &[Subject],
    work: &Workload,
    right: &[Option<Match>],
    pace: &Pace,
) -> Result<Counts, Fault> {
    let named = &source.definition.engines;
    let mut counts = Vec::new();
    for subject in subjects {
        let engine = match subject.role {
            Role::Again => named.first(),
            _ => named.iter().find(|engine| engine.name() == subject.name),
        };
        let Some(engine) = engine.filter(|_| subject.built.is_ok()) else {
            counts.push(Vec::new());
            continue;
        };
        pace.progress(&format!("{}, instructions", subject.name));
        let of_batch = |&batch: &usize| {
            let job = Job {
                definition: source.definition,
                sets: source.sets,
                set: &source.set.name,
                index: source.index,
                engine: engine.name(),
                batch,
                lookups: instructions.lookups,
            };
            one(&job, &job.expected(work, right))
        };
        counts.push(instructions.batches.iter().map(of_batch).collect::<Result<_, _>>()?);
    }
    Ok(counts)
}

/// Returns the instructions a lookup of one engine in one batch.
pub(crate) fn one(job: &Job<'_>, expected: &str) -> Result<f64, Fault> {
    let named = |error: anyhow::Error| Fault::NotRun(format!("{}: {error:#}", job.engine));
    let (total, answers) = run(job).map_err(named)?;
    if answers.trim() != expected {
        return Err(Fault::Wrong(format!("{}: the answers under callgrind differ from the right ones", job.engine)));
    }
    Ok(total as f64 / job.lookups as f64)
}

/// Returns the instructions of all lookups and the output of the process.
fn run(job: &Job<'_>) -> anyhow::Result<(u64, String)> {
    // One run at a time in a process, so that its number is enough of a name.
    let out = Counted(std::env::temp_dir().join(format!("firstmatch-lab-{}.callgrind", std::process::id())));
    let options = [
        "--collect-atstart=no".to_owned(),
        format!("--toggle-collect={WATCHED}"),
        format!("--callgrind-out-file={}", out.0.display()),
    ];
    let process = job.command(&options)?.output().context("valgrind")?;
    let said = String::from_utf8_lossy(&process.stderr);
    ensure!(process.status.success(), "callgrind ended with {}: {}", process.status, said.trim());
    let total = total(&out.0).with_context(|| out.0.display().to_string())?;
    ensure!(total > 0, "callgrind has seen no lookup, because it has not found the function {WATCHED}");
    Ok((total, String::from_utf8_lossy(&process.stdout).into_owned()))
}

/// Output of Callgrind, which is removed in the end.
struct Counted(PathBuf);

impl Drop for Counted {
    fn drop(&mut self) {
        // It is missing if Callgrind failed.
        let _gone = fs::remove_file(&self.0);
    }
}

/// Returns the number of instructions in an output of Callgrind.
fn total(path: &Path) -> anyhow::Result<u64> {
    let text = fs::read_to_string(path)?;
    let line = |head: &str| text.lines().find_map(|line| line.strip_prefix(head));
    ensure!(line("events:").is_some_and(|events| events.trim() == "Ir"), "expected the line `events: Ir`");
    let total = line("totals:").or_else(|| line("summary:")).context("expected a line `totals:`")?;
    total.trim().parse().with_context(|| format!("expected a number behind `totals:`, not `{}`", total.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_total_is_read() {
        let path = std::env::temp_dir().join(format!("firstmatch-lab-{}.total", std::process::id()));
        let of = |text: &str| {
            fs::write(&path, text).expect("a file");
            total(&path).map_err(|error| format!("{error:#}"))
        };
        assert_eq!(of("version: 1\nevents: Ir\nfn=(1) x\n1 40\n\ntotals: 4711\n"), Ok(4711));
        assert_eq!(of("events: Ir\nsummary: 12\n"), Ok(12));
        for (text, expected) in [
            ("events: Ir Dr\ntotals: 1 2\n", "expected the line `events: Ir`"),
            ("events: Ir\n", "expected a line `totals:`"),
            ("events: Ir\ntotals: many\n", "expected a number behind `totals:`, not `many`"),
        ] {
            let error = of(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        fs::remove_file(&path).expect("it is there");
    }
}
