//! Measuring one definition: every set of it, every engine, in one run.

mod counter;
pub(crate) mod lane;
pub(crate) mod lookup;
pub(crate) mod subject;
pub(crate) mod under_updates;
pub(crate) mod updates;

use std::path::Path;
use std::rc::Rc;

use anyhow::anyhow;
use firstmatch::{Match, RuleSet};
use indicatif::ProgressBar;

use crate::definition::{Definition, Missing, Set};
use crate::digest;
use crate::memory::counted;
use crate::statistics::{Summary, noise_floor};
use crate::workload::{self, Loaded, Workload};
use crate::yardstick;
use lookup::Figures;
use subject::{Built, Role, Subject};

/// How long things may take, and who is told how far they are.
pub(crate) struct Pace {
    /// Whether to do everything once, and soon.
    pub(crate) brief: bool,
    pub(crate) bar: ProgressBar,
}

impl Pace {
    /// How long a pass over keys takes at the most, unless it would have too few.
    fn pass_nanos(&self) -> f64 {
        if self.brief { 1e6 } else { 25e6 }
    }

    /// A pass has no fewer keys than this, so that reading the clock does not count.
    fn fewest(&self) -> usize {
        if self.brief { 512 } else { 4096 }
    }

    /// The rounds of a sitting, of so many in all.
    fn rounds(&self, all: usize) -> usize {
        if self.brief { 1 } else { all.div_ceil(SITTINGS) }
    }

    /// How often a run comes back to every set.
    pub(crate) fn sittings(&self) -> usize {
        if self.brief { 1 } else { SITTINGS }
    }

    /// What is being measured.
    pub(crate) fn at(&mut self, what: &str) {
        self.bar.set_prefix(what.to_owned());
        self.progress("");
    }

    fn progress(&self, what: &str) {
        self.bar.set_message(what.to_owned());
        self.bar.tick();
    }
}

/// Why a set has no figures.
#[derive(Debug)]
pub(crate) enum Fault {
    /// It is not there, or not here.
    NotRun(String),
    /// An answer was wrong.
    Wrong(String),
}

/// The figures of one schema of a set.
pub(crate) struct Report {
    pub(crate) set: String,
    pub(crate) rules: usize,
    pub(crate) regions: usize,
    pub(crate) keys: usize,
    /// Bytes of the rules as they are kept, and of the regions they are lowered to.
    pub(crate) rule_bytes: usize,
    pub(crate) region_bytes: usize,
    pub(crate) lines: Vec<Line>,
    /// For each cell how far the first engine is from itself.
    pub(crate) floors: Vec<f64>,
    /// For each cell how far the line of `rte_acl` that is the fastest there is from itself; none without `rte_acl`.
    pub(crate) peer_floors: Vec<Option<f64>>,
    /// The same for updates, without and with readers.
    pub(crate) update_floors: [Option<f64>; 2],
    /// What else is to be said.
    pub(crate) notes: Vec<String>,
}

/// The figures of one engine, or why there are none.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) built: anyhow::Result<Built>,
    pub(crate) figures: Figures,
    /// Updates a second, without and with readers: of CPU time and of wall time.
    pub(crate) updates: [Option<(Summary, Summary)>; 2],
    /// For each rate what [`under_updates::FIGURES`] says.
    pub(crate) under_updates: Vec<[Summary; under_updates::FIGURES.len()]>,
}

/// How often a run comes back to every set: what drifts in minutes shows between sittings.
pub(crate) const SITTINGS: usize = 3;

/// One schema of a set with everything built, while it is measured.
pub(crate) struct Bench<'a> {
    definition: &'a Definition,
    name: String,
    rules: Rc<RuleSet>,
    work: Workload,
    right: Vec<Option<Match>>,
    subjects: Vec<Subject>,
    /// Which of them could not be built.
    unbuilt: Vec<bool>,
    notes: Vec<String>,
    lookups: lookup::Rounds,
    rates: updates::Rates,
    beside: under_updates::Sittings,
}

/// Reads a set and builds its engines.
pub(crate) fn prepare<'a>(
    definition: &'a Definition,
    set: &'a Set,
    sets: Option<&Path>,
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
        let (yardsticks, notes) = yardstick::rte_acl(&source, &work);
        subjects.extend(yardsticks);
        Bench {
            definition,
            name: work.part.map_or(set.name.clone(), |part| format!("{} {part}", set.name)),
            rules: Rc::clone(&rules),
            unbuilt: subjects.iter().map(|subject| subject.built.is_err()).collect(),
            lookups: lookup::Rounds::new(subjects.len()),
            rates: updates::Rates::new(subjects.len()),
            beside: under_updates::Sittings::new(subjects.len()),
            work,
            right,
            subjects,
            notes,
        }
    };
    Ok(workloads.into_iter().zip(right).enumerate().map(bench).collect())
}

/// The right answers of every workload of a set, whose digest is the one that the definition states.
fn right_answers(set: &Set, loaded: &Loaded) -> Result<Vec<Vec<Option<Match>>>, Fault> {
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

/// Where a workload comes from.
#[cfg_attr(not(feature = "rte-acl"), expect(dead_code, reason = "for the process that a feature starts"))]
pub(crate) struct Source<'a> {
    pub(crate) definition: &'a Definition,
    pub(crate) set: &'a Set,
    pub(crate) sets: Option<&'a Path>,
    pub(crate) brief: bool,
    /// Its place among the workloads of the set.
    pub(crate) index: usize,
}

impl Bench<'_> {
    /// Its share of the rounds. What answers wrongly is not measured further.
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
        // What was built and then has an error answered wrongly.
        let wrong = self.subjects.iter().zip(&self.unbuilt).find_map(|(subject, unbuilt)| match &subject.built {
            Err(error) if !unbuilt => Some(format!("{}: {error:#}", subject.name)),
            _ => None,
        });
        wrong.map_or(Ok(()), |wrong| Err(Fault::Wrong(wrong)))
    }

    pub(crate) fn report(self) -> Report {
        let Self { definition, rules, work, .. } = self;
        let figures = self.lookups.figures.into_iter().zip(self.rates.summaries()).zip(self.beside.summaries());
        let line = |(subject, ((figures, updates), under_updates)): (Subject, _)| {
            let Subject { name, role, built, .. } = subject;
            Line { name, role, built, figures, updates, under_updates }
        };
        let lines: Vec<Line> = self.subjects.into_iter().zip(figures).map(line).collect();
        let cells = definition.lookup.as_ref().map(lookup::cells).unwrap_or_default();
        let floors: Vec<f64> =
            (0..cells.len()).map(|cell| between_twins(&lines, |line| line.figures.cpu(cell))).collect();
        let peer_floors = (0..cells.len()).map(|cell| peer_floor(&lines, |line| line.figures.cpu(cell))).collect();
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
            peer_floors,
            update_floors,
            lines,
            notes: self.notes,
        }
    }
}

/// Of CPU time, or, with readers, of wall time: whoever waits for a lock takes no CPU time.
pub(crate) fn updates_a_second(line: &Line, with_readers: usize) -> Option<Summary> {
    line.updates[with_readers].map(|(cpu, wall)| if with_readers == 0 { cpu } else { wall })
}

/// The median of the line of a role.
pub(crate) fn median(lines: &[Line], role: Role, of: impl Fn(&Line) -> Option<Summary>) -> Option<f64> {
    // Of several the best: `rte_acl` has a line an algorithm.
    let medians = lines.iter().filter(|line| line.role == role).filter_map(|line| Some(of(line)?.median));
    medians.reduce(f64::min)
}

/// How far the first engine is from itself; not a number where it has no figures.
fn between_twins(lines: &[Line], of: impl Fn(&Line) -> Option<Summary>) -> f64 {
    match (median(lines, Role::First, &of), median(lines, Role::Again, &of)) {
        (Some(one), Some(other)) => noise_floor(one, other),
        _ => f64::NAN,
    }
}

/// Returns how far a line of `rte_acl` is from the same line over its second table; not a number without the two.
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

/// Returns the noise floor of the line of `rte_acl` that is the fastest; none where no line has figures.
fn peer_floor(lines: &[Line], of: impl Fn(&Line) -> Option<Summary>) -> Option<f64> {
    let nanos = |line: &Line| of(line).map_or(f64::INFINITY, |figures| figures.median);
    let peers = lines.iter().filter(|line| line.role == Role::RteAcl && nanos(line).is_finite());
    let fastest = peers.min_by(|one, other| nanos(one).total_cmp(&nanos(other)))?;
    Some(from_itself(lines, fastest, &of))
}

/// What this machine or this build lacks, a line each.
pub(crate) fn missing() -> Vec<String> {
    let counter = counter::Instructions::open().err().map(|error| format!("instructions: {error:#}"));
    counter.into_iter().chain(yardstick::missing()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of several lines of `rte_acl` the noise of the fastest counts, which is that between it and its own second table.
    #[test]
    fn the_peer_has_a_noise_floor_of_its_own() {
        let line = |name: &str, role| Line {
            name: name.to_owned(),
            role,
            built: Err(anyhow!("not built")),
            figures: Figures::default(),
            updates: [None; 2],
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
        assert!((peer_floor(&lines, of).expect("it is there") - 0.1).abs() < 1e-9);
        assert!((from_itself(&lines, &lines[4], of) - 0.5).abs() < 1e-9);
        assert_eq!(peer_floor(&lines[..2], of), None);
        assert!(peer_floor(&lines[..4], of).is_some_and(f64::is_nan), "without a second table nothing is known");
    }
}
