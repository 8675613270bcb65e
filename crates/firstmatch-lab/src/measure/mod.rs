//! Measures one definition: all its sets and engines in one run.

mod counter;
pub(crate) mod instructions;
pub(crate) mod lookup;
pub(crate) mod replay;
pub(crate) mod round;
pub(crate) mod subject;
pub(crate) mod under_updates;
pub(crate) mod updates;

use std::path::Path;
use std::rc::Rc;

use anyhow::anyhow;
use firstmatch_core::{Match, RuleSet};
use indicatif::ProgressBar;

use crate::definition::{Definition, Missing, Set};
use crate::digest;
use crate::memory::counted;
use crate::statistics::{Summary, noise_floor};
use crate::workload::{self, Loaded, Source, Workload};
use crate::yardstick;
use lookup::Figures;
use subject::{Built, Role, Subject};

/// Durations of a run, and its progress bar.
pub(crate) struct Pace {
    /// Whether to do everything once and briefly.
    pub(crate) brief: bool,
    pub(crate) bar: ProgressBar,
}

impl Pace {
    /// Returns the intended nanoseconds of a pass over keys; [`Pace::fewest`] may make it longer.
    fn pass_nanos(&self) -> f64 {
        if self.brief { 1e6 } else { 25e6 }
    }

    /// Returns the least number of keys of a pass, so that reading the clock does not count.
    fn fewest(&self) -> usize {
        if self.brief { 512 } else { 4096 }
    }

    /// Returns the number of rounds of a sitting, out of `all` rounds.
    fn rounds(&self, all: usize) -> usize {
        if self.brief { 1 } else { all.div_ceil(SITTINGS) }
    }

    /// Returns the number of times that a run visits every set.
    pub(crate) fn sittings(&self) -> usize {
        if self.brief { 1 } else { SITTINGS }
    }

    /// Shows on the progress bar that `what` is being measured.
    pub(crate) fn at(&mut self, what: &str) {
        self.bar.set_prefix(what.to_owned());
        self.progress("");
    }

    fn progress(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }
}

/// Reason why a set has no figures.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The set is missing, or this machine cannot run it.
    NotRun(String),
    /// An answer was wrong.
    Wrong(String),
}

/// Figures of one schema of a set.
pub(crate) struct Report {
    pub(crate) set: String,
    pub(crate) rules: usize,
    pub(crate) regions: usize,
    pub(crate) keys: usize,
    /// Bytes of the stored rules, and of the regions they are lowered to.
    pub(crate) rule_bytes: usize,
    pub(crate) region_bytes: usize,
    pub(crate) lines: Vec<Line>,
    /// For each cell, the noise floor: the distance between two builds of the first engine.
    pub(crate) floors: Vec<f64>,
    /// Noise floors of updates, without and with readers.
    pub(crate) update_floors: [Option<f64>; 2],
    /// Further remarks.
    pub(crate) notes: Vec<String>,
}

/// Figures of one engine, or the reason why it has none.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) built: anyhow::Result<Built>,
    pub(crate) figures: Figures,
    /// Updates per second, without and with readers: of CPU time and of wall time.
    pub(crate) updates: [Option<(Summary, Summary)>; 2],
    /// Instructions a lookup that Callgrind counted, for each batch.
    pub(crate) instructions: Vec<f64>,
    /// For each rate, the figures named in [`under_updates::FIGURES`].
    pub(crate) under_updates: Vec<[Summary; under_updates::FIGURES.len()]>,
}

/// Number of times that a run visits every set: drift over minutes shows between sittings.
pub(crate) const SITTINGS: usize = 3;

/// One schema of a set with everything built, while it is measured.
pub(crate) struct Bench<'a> {
    definition: &'a Definition,
    source: Source<'a>,
    name: String,
    rules: Rc<RuleSet>,
    work: Workload,
    right: Vec<Option<Match>>,
    subjects: Vec<Subject>,
    /// Whether each subject failed to build.
    unbuilt: Vec<bool>,
    notes: Vec<String>,
    lookups: lookup::Rounds,
    rates: updates::Rates,
    beside: under_updates::Sittings,
    /// Instructions of each subject; empty before they are counted.
    instructions: instructions::Counts,
}

/// Reads a set and builds its engines.
pub(crate) fn prepare<'a>(
    definition: &'a Definition,
    set: &'a Set,
    sets: Option<&'a Path>,
    pace: &Pace,
) -> Result<Vec<Bench<'a>>, Fault> {
    let not_run = |error: anyhow::Error| Fault::NotRun(format!("{error:#}"));
    let origin = definition.origin(set, sets).map_err(|missing| {
        Fault::NotRun(match missing {
            Missing::Sets => "its files lie in a folder of sets, and none is given (--sets)".to_owned(),
            Missing::Origin(what) => what.to_owned(),
        })
    })?;
    pace.progress("reading");
    let loaded = workload::load(set, &origin, definition.frames()).map_err(not_run)?;
    pace.progress("the right answers");
    let right = right_answers(set, &loaded)?;
    let Loaded { rules, workloads } = loaded;
    let rules = Rc::new(rules);
    let bench = |(index, (work, right)): (usize, (Workload, Vec<Option<Match>>))| {
        pace.progress("building");
        let source = Source { definition, set, sets, brief: pace.brief, index };
        let mut subjects = Subject::all(definition, &work, &right);
        let (yardsticks, notes) = Subject::rte_acl(&source, &work);
        subjects.extend(yardsticks);
        Bench {
            definition,
            source,
            name: work.part.map_or(set.name.clone(), |part| format!("{} {part}", set.name)),
            rules: Rc::clone(&rules),
            unbuilt: subjects.iter().map(|subject| subject.built.is_err()).collect(),
            lookups: lookup::Rounds::new(subjects.len()),
            rates: updates::Rates::new(subjects.len()),
            beside: under_updates::Sittings::new(subjects.len()),
            instructions: Vec::new(),
            work,
            right,
            subjects,
            notes,
        }
    };
    Ok(workloads.into_iter().zip(right).enumerate().map(bench).collect())
}

/// Returns the right answers of every workload, if the digest is the definition's.
pub(crate) fn right_answers(set: &Set, loaded: &Loaded) -> Result<Vec<Vec<Option<Match>>>, Fault> {
    let wrong = |error: anyhow::Error| Fault::Wrong(format!("{error:#}"));
    let right = loaded.workloads.iter().map(|work| work.answers(&loaded.rules)).collect::<anyhow::Result<Vec<_>>>();
    let right = right.map_err(wrong)?;
    let is = digest::digest(loaded, &right);
    match &set.digest {
        Some(stated) if *stated == is => Ok(right),
        Some(stated) => Err(wrong(anyhow!("the rules, keys and answers have the digest {is}, not {stated}"))),
        None => Err(Fault::NotRun(format!("it states no digest; that of its rules, keys and answers is {is}"))),
    }
}

impl Bench<'_> {
    /// Runs one sitting; a subject that answers wrongly is not measured further.
    pub(crate) fn sit(&mut self, pace: &Pace) -> Result<(), Fault> {
        if let Some(lookup) = &self.definition.lookup {
            self.lookups.sit(lookup, &mut self.subjects, &self.work, &self.right, pace);
        }
        if let Some(updates) = &self.definition.updates {
            self.rates.sit(updates, &mut self.subjects, &self.work, &self.rules, pace);
        }
        if let Some(updates) = &self.definition.under_updates {
            self.beside.sit(updates, &mut self.subjects, &self.work, &self.rules, pace);
        }
        // A count does not vary between sittings.
        if let Some(of) = self.definition.instructions.as_ref().filter(|_| self.instructions.is_empty()) {
            self.instructions = instructions::count(of, &self.source, &self.subjects, &self.work, &self.right, pace)?;
        }
        // A subject that was built and now has an error answered wrongly.
        let wrong = self.subjects.iter().zip(&self.unbuilt).find_map(|(subject, unbuilt)| match &subject.built {
            Err(error) if !unbuilt => Some(format!("{}: {error:#}", subject.name)),
            _ => None,
        });
        wrong.map_or(Ok(()), |wrong| Err(Fault::Wrong(wrong)))
    }

    pub(crate) fn report(self) -> Report {
        let Self { definition, rules, work, .. } = self;
        let figures = self.lookups.figures.into_iter().zip(self.rates.summaries()).zip(self.beside.summaries());
        let figures = figures.zip(self.instructions.into_iter().chain(std::iter::repeat(Vec::new())));
        let line = |(subject, (((figures, updates), under_updates), instructions)): (Subject, _)| {
            let Subject { name, role, built, .. } = subject;
            Line { name, role, built, figures, updates, instructions, under_updates }
        };
        let lines: Vec<Line> = self.subjects.into_iter().zip(figures).map(line).collect();
        let cells = definition.lookup.as_ref().map(lookup::cells).unwrap_or_default();
        let floors: Vec<f64> =
            (0..cells.len()).map(|cell| between_twins(&lines, |line| line.figures.cpu(cell))).collect();
        let update_floors = [0, 1].map(|which| {
            let floor = between_twins(&lines, |line| updates_a_second(line, which));
            (!floor.is_nan()).then_some(floor)
        });
        Report {
            set: self.name,
            rules: rules.len(),
            regions: work.lowered.regions().len(),
            keys: work.keys.len(),
            rule_bytes: counted(|| rules.as_ref().clone()).1.kept,
            region_bytes: counted(|| work.lowered.as_ref().clone()).1.kept,
            floors,
            update_floors,
            lines,
            notes: self.notes,
        }
    }
}

/// Returns the updates per second of CPU time, or of wall time with readers.
///
/// A thread that waits for a lock takes no CPU time, so CPU time would hide the waiting.
pub(crate) fn updates_a_second(line: &Line, with_readers: usize) -> Option<Summary> {
    line.updates[with_readers].map(|(cpu, wall)| if with_readers == 0 { cpu } else { wall })
}

/// Returns the least median among the lines of a role.
pub(crate) fn median(lines: &[Line], role: Role, of: impl Fn(&Line) -> Option<Summary>) -> Option<f64> {
    // The least counts, because `rte_acl` has a line for each algorithm.
    let medians = lines.iter().filter(|line| line.role == role).filter_map(|line| Some(of(line)?.median));
    medians.reduce(f64::min)
}

/// Returns the noise floor of the first engine; NaN if it has no figures.
pub(crate) fn between_twins(lines: &[Line], of: impl Fn(&Line) -> Option<Summary>) -> f64 {
    match (median(lines, Role::First, &of), median(lines, Role::Again, &of)) {
        (Some(one), Some(other)) => noise_floor(one, other),
        _ => f64::NAN,
    }
}

/// Returns the noise floor between a line of `rte_acl` and its twin; NaN without a twin.
///
/// The twin is the same line over the second table.
pub(crate) fn from_itself(lines: &[Line], line: &Line, of: impl Fn(&Line) -> Option<Summary>) -> f64 {
    let name = line.name.strip_suffix(" again").unwrap_or(&line.name);
    let twin = lines
        .iter()
        .find(|twin| twin.name != line.name && twin.name.strip_suffix(" again").unwrap_or(&twin.name) == name);
    match (of(line), twin.and_then(of)) {
        (Some(one), Some(other)) => noise_floor(one.median, other.median),
        _ => f64::NAN,
    }
}

/// Returns the features that this machine or this build lacks, a line each.
pub(crate) fn missing() -> Vec<String> {
    let counter = counter::Instructions::open().err().map(|error| format!("instructions: {error:#}"));
    counter.into_iter().chain(yardstick::missing()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The noise floor of a line of `rte_acl` is the distance of its own two tables.
    #[test]
    fn the_peer_has_a_noise_floor_of_its_own() {
        let line = |name: &str, role| Line {
            name: name.to_owned(),
            role,
            built: Err(anyhow!("not built")),
            figures: Figures::default(),
            updates: [None; 2],
            instructions: Vec::new(),
            under_updates: Vec::new(),
        };
        let lines = [
            line("bit_select", Role::First),
            line("bit_select again", Role::Again),
            line("rte_acl avx2", Role::RteAcl),
            line("rte_acl max avx2", Role::RteAcl),
            line("rte_acl avx2 again", Role::RteAclAgain),
            line("rte_acl max avx2 again", Role::RteAclAgain),
        ];
        let nanos = [10.0, 10.5, 40.0, 20.0, 60.0, 22.0];
        let of = |line: &Line| {
            let at = lines.iter().position(|other| other.name == line.name)?;
            Some(Summary::exactly(nanos[at]))
        };
        assert!((between_twins(&lines, of) - 0.05).abs() < 1e-9);
        assert!((from_itself(&lines, &lines[3], of) - 0.1).abs() < 1e-9);
        assert!((from_itself(&lines, &lines[4], of) - 0.5).abs() < 1e-9);
        assert!(from_itself(&lines[..4], &lines[3], of).is_nan(), "without a second table nothing is known");
    }
}
