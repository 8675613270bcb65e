//! `firstmatch classify`

mod check;
mod csv;
mod progress;
mod report;
mod stretch;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
mod timing;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use firstmatch::KeyBuf;
use firstmatch_net::source::{self, Input, SourceError};
use firstmatch_net::wire;

use crate::args::ClassifyArgs;
use crate::rules::Loaded;
use crate::{End, answer_to, diagnostics, engines, rules};
use check::Checker;
use progress::Progress;
use report::Report;
use stretch::{Engines, Stretch};
use tally::Tally;

pub(crate) fn run(args: &ClassifyArgs) -> anyhow::Result<End> {
    let dash = Path::new("-");
    if args.rules == dash && args.input == dash {
        bail!("rules and packets cannot both come from standard input");
    }
    let Some(loaded) = rules::load(&args.rules, args.flags)? else { return Ok(End::BadInput) };
    let Some(lowered) = loaded.lower() else { return Ok(End::BadInput) };
    let engine = engines::named(&args.engine).ok_or_else(|| anyhow!("there is no engine {}", args.engine))?;
    let start = Instant::now();
    let built = lowered.iter().map(engine.build).collect::<Result<Vec<_>, _>>();
    let built = match built {
        Ok(built) => built,
        Err(error) => {
            loaded.build_error(&error);
            return Ok(End::BadInput);
        }
    };
    let build_time = start.elapsed();
    drop(lowered);
    let mut job = Job {
        loaded: &loaded,
        engines: Engines::new(built, args.batch.into()),
        tally: Tally::new(loaded.file.rules.slots()),
        checker: args.check.map(Checker::new),
        csv: args.csv.as_deref().map(csv::Writer::create).transpose()?,
        held: args.repeat.map(|_| Vec::new()),
        nanos: timing::Streamed::default(),
        wall: Duration::ZERO,
    };
    let packets = match job.stream(&args.input) {
        Ok(warnings) => warnings,
        Err(error) => {
            let Some(source) = error.downcast_ref::<SourceError>() else { return Err(error) };
            return rules::source_error(&rules::display(&args.input), source.clone()).map(|()| End::BadInput);
        }
    };
    let passes = match (args.repeat, &job.held) {
        (Some(count), Some(held)) => timing::passes(&mut job.engines, held, count),
        _ => Vec::new(),
    };
    let report = Report::new(&job, args, &packets, &passes, build_time);
    let good = report.check.as_ref().is_none_or(|check| check.differences == 0);
    if let Some(checker) = &job.checker {
        checker.show(&loaded);
    }
    // Whether the answer is bad does not depend on whether anybody reads the rest.
    let end = if good { End::Done } else { End::BadAnswer };
    let mut out = answer_to(args.csv.as_deref() == Some(dash));
    let printed = if args.json { report.json(&mut out) } else { summary::print(&report, &loaded, args, &mut out) };
    match printed {
        Err(error) if good => Err(error.into()),
        _ => Ok(end),
    }
}

/// All that a run adds up.
struct Job<'a> {
    loaded: &'a Loaded,
    engines: Engines,
    tally: Tally,
    checker: Option<Checker>,
    csv: Option<csv::Writer>,
    /// The keys for each schema, where they are to be classified again.
    held: Option<Vec<KeyBuf>>,
    nanos: timing::Streamed,
    /// From the first packet to the last, without what the checker took.
    wall: Duration,
}

/// What the input turned out to be.
struct Packets {
    name: String,
    /// A trace states no lengths.
    is_trace: bool,
    warnings: Vec<String>,
}

impl Job<'_> {
    /// Takes the input through the classifier, stretch by stretch.
    fn stream(&mut self, path: &Path) -> anyhow::Result<Packets> {
        let name = rules::display(path);
        let start = Instant::now();
        let mut checking = Duration::ZERO;
        let mut input = source::open(path)?;
        let progress = input.progress();
        let mut progress = Progress::new(&progress);
        let file = &self.loaded.file;
        let config = wire::Config::from(&file.policy);
        let keep_headers = self.checker.is_some();
        let mut stretch = Stretch::new(&config, file.rules.schemas(), keep_headers)
            .with_context(|| format!("these rules cannot be applied to {name}"))?;
        while stretch.fill(&mut input)? {
            self.engines.classify(&mut stretch, &mut self.nanos);
            self.tally.add(stretch.batch.records(), &stretch.answers);
            if let Some(csv) = &mut self.csv {
                csv.write(self.loaded, &stretch)?;
            }
            if let Some(held) = &mut self.held {
                stretch.hold(held);
            }
            if let Some(checker) = &mut self.checker {
                let before = Instant::now();
                checker.offer(&stretch);
                checker.compare_all(&file.rules, &stretch.batch);
                checking += before.elapsed();
            }
            progress.show(stretch.next_number());
        }
        if let Some(csv) = &mut self.csv {
            csv.finish()?;
        }
        self.wall = start.elapsed().saturating_sub(checking);
        if let Some(checker) = &mut self.checker {
            checker.compare_sample(&file.rules, &stretch.batch);
        }
        if !self.nanos.any() && self.held.is_none() {
            self.engines.replay(&stretch, &mut self.nanos);
        }
        progress.clear();
        let (is_trace, cut) = match &input {
            Input::Capture(capture) => (false, capture.cut()),
            Input::Trace(trace) => (true, trace.cut()),
        };
        let warnings: Vec<_> = cut.iter().map(ToString::to_string).collect();
        for warning in &warnings {
            diagnostics::warning(warning);
        }
        Ok(Packets { name, is_trace, warnings })
    }
}
