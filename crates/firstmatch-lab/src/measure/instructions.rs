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
    events(job, expected, &[])?.of("Ir").map_err(named)
}

/// Events a lookup, by the names that Callgrind has for them: `Ir` are instructions, `Dr` loads of data.
pub(crate) struct Events(Vec<(String, f64)>);

impl Events {
    /// Returns the number of events of a name.
    pub(crate) fn of(&self, name: &str) -> anyhow::Result<f64> {
        let found = self.0.iter().find(|(event, _)| event == name);
        found.map(|(_, count)| *count).with_context(|| format!("callgrind has counted no `{name}`"))
    }
}

/// Counts events of one engine in one batch, with further options of Callgrind.
pub(crate) fn events(job: &Job<'_>, expected: &str, options: &[String]) -> Result<Events, Fault> {
    let named = |error: anyhow::Error| Fault::NotRun(format!("{}: {error:#}", job.engine));
    let (mut counted, answers) = run(job, options).map_err(named)?;
    if answers.trim() != expected {
        return Err(Fault::Wrong(format!("{}: the answers under callgrind differ from the right ones", job.engine)));
    }
    counted.0.iter_mut().for_each(|(_, count)| *count /= job.lookups as f64);
    Ok(counted)
}

/// Returns the events of all lookups and the output of the process.
fn run(job: &Job<'_>, more: &[String]) -> anyhow::Result<(Events, String)> {
    // One run at a time in a process, so that its number is enough of a name.
    let out = Counted(std::env::temp_dir().join(format!("firstmatch-lab-{}.callgrind", std::process::id())));
    let watched = [
        "--collect-atstart=no".to_owned(),
        format!("--toggle-collect={WATCHED}"),
        format!("--callgrind-out-file={}", out.0.display()),
    ];
    let options = [&watched, more].concat();
    let process = job.command(&options)?.output().context("valgrind")?;
    let said = String::from_utf8_lossy(&process.stderr);
    ensure!(process.status.success(), "callgrind ended with {}: {}", process.status, said.trim());
    let total = total(&out.0).with_context(|| out.0.display().to_string())?;
    ensure!(total.of("Ir")? > 0.0, "callgrind has seen no lookup, because it has not found the function {WATCHED}");
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

/// Returns the sums of all events in an output of Callgrind, which leaves zeros at the end of the line out.
fn total(path: &Path) -> anyhow::Result<Events> {
    let text = fs::read_to_string(path)?;
    let line = |head: &str| text.lines().find_map(|line| line.strip_prefix(head));
    let events = line("events:").context("expected a line `events:`")?.split_whitespace();
    let total = line("totals:").or_else(|| line("summary:")).context("expected a line `totals:`")?;
    let number = |text: &str| text.parse().with_context(|| format!("expected numbers behind `totals:`, not `{text}`"));
    let counts = total.split_whitespace().map(number).collect::<anyhow::Result<Vec<f64>>>()?;
    let counts = counts.into_iter().chain(std::iter::repeat(0.0));
    Ok(Events(events.map(str::to_owned).zip(counts).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_totals_are_read() {
        let path = std::env::temp_dir().join(format!("firstmatch-lab-{}.total", std::process::id()));
        let of = |text: &str| {
            fs::write(&path, text).expect("a file");
            let events = total(&path).map_err(|error| format!("{error:#}"))?;
            Ok::<_, String>(["Ir", "Dr", "D1mr"].map(|name| events.of(name).unwrap_or(f64::NAN)))
        };
        let [instructions, ..] = of("version: 1\nevents: Ir\nfn=(1) x\n1 40\n\ntotals: 4711\n").expect("a total");
        assert_eq!(instructions, 4711.0);
        assert_eq!(of("events: Ir Dr D1mr\nsummary: 12 3\n"), Ok([12.0, 3.0, 0.0]));
        for (text, expected) in [
            ("totals: 1 2\n", "expected a line `events:`"),
            ("events: Ir\n", "expected a line `totals:`"),
            ("events: Ir\ntotals: many\n", "expected numbers behind `totals:`, not `many`"),
        ] {
            let error = of(text).expect_err(text);
            assert!(error.contains(expected), "{error}");
        }
        fs::remove_file(&path).expect("it is there");
    }
}
