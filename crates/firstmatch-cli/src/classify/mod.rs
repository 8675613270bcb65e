//! Command `firstmatch classify`.

mod check;
mod csv;
mod passes;
mod progress;
mod report;
mod stretch;
mod summary;
mod tally;
#[cfg(test)]
mod tests;
mod timing;
mod workers;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use firstmatch_core::KeyBuf;
use firstmatch_core::engines::registry::Entry;
use firstmatch_core::live::Kind;
use firstmatch_net::source::{Cut, SourceError};
use firstmatch_net::wire::{self, LinkType};

use crate::args::ClassifyArgs;
use crate::format::counted;
use crate::rules::Loaded;
use crate::stop::Stop;
use crate::{End, answer_to, diagnostics, engines, is_broken_pipe, output, rules};
use check::Checker;
use progress::Progress;
use report::Report;
use stretch::{Engines, Feed, Reader, Stretch};
use tally::Tally;
use workers::Workers;

pub(crate) fn run(args: &ClassifyArgs) -> anyhow::Result<End> {
    let engine = engines::named(&args.engine).ok_or_else(|| anyhow!("there is no engine {}", args.engine))?;
    run_with(args, engine)
}

fn run_with(args: &ClassifyArgs, engine: &Entry) -> anyhow::Result<End> {
    let dash = Path::new("-");
    if args.rules == dash && args.input == dash {
        bail!("rules and packets cannot both come from standard input");
    }
    if let Some(csv) = &args.csv {
        output::refuse_inputs(csv, &[("rules", &args.rules), ("packets", &args.input)])?;
    }
    let Some(loaded) = rules::load(&args.rules, args.flags, args.limits.expansion())? else { return Ok(End::BadInput) };
    let config = loaded.wire_config(args.metadata)?;
    let Some(lowered) = loaded.lower() else { return Ok(End::BadInput) };
    let bases = bases(args, lowered.len())?;
    let settings = engines::settings(engine, &args.choice, &args.option)?;
    let start = Instant::now();
    let build = |(rules, base): (_, Option<Kind>)| {
        let forced = base.iter().fold(settings.clone(), |settings, base| settings.with_option("base", base.name()));
        engines::build_behind(engine, rules, &forced, args.flow_cache, args.rule_cache)
    };
    let built = lowered.iter().zip(bases).map(build).collect::<Result<Vec<_>, _>>();
    let built = match built {
        Ok(built) => built,
        Err(error) => {
            loaded.build_error(&error, engines::how_to_raise(&args.engine, &error));
            return Ok(End::BadInput);
        }
    };
    let build_time = start.elapsed();
    drop(lowered);
    let csv = args.csv.as_deref().map(csv::Writer::create).transpose()?;
    let mut job = Job {
        loaded: &loaded,
        engines: Engines::new(built.into(), args.batch.into()),
        tally: Tally::new(loaded.file.rules.slots()),
        checker: args.check.map(Checker::new),
        csv_on_stdout: csv.as_ref().is_some_and(csv::Writer::is_stdout),
        csv,
        held: args.repeat.map(|_| Vec::new()),
        nanos: timing::Streamed::default(),
        wall: Duration::ZERO,
        beside: Duration::ZERO,
        workers: args.workers.into(),
        is_no_trace: false,
        stop: Stop::default(),
    };
    let packets = match job.stream(&args.input, &config) {
        Ok(packets) => packets,
        Err(error) => return job.nothing_read(&rules::display(&args.input), error),
    };
    let stopped = || job.stop.signal().is_some();
    let passes = match (args.repeat, &job.held) {
        (Some(count), Some(held)) => passes::passes(&mut job.engines, held, count, &stopped),
        _ => Vec::new(),
    };
    let report = Report::new(&job, args, &packets, &passes, build_time);
    job.answer(&report, packets, args)
}

/// Returns the base of each family, if one is asked for.
fn bases(args: &ClassifyArgs, families: usize) -> anyhow::Result<Vec<Option<Kind>>> {
    if !args.base.is_empty() && args.engine != engines::DEFAULT {
        bail!("--base is of the engine {}, and --engine {} was asked for", engines::DEFAULT, args.engine);
    }
    match args.base[..] {
        [] => Ok(vec![None; families]),
        [base] => Ok(vec![Some(base); families]),
        ref each if each.len() == families => Ok(each.iter().copied().map(Some).collect()),
        ref each => bail!(
            "--base names {} bases; expected one, or as many as the rules have address families, {families}",
            each.len()
        ),
    }
}

/// Returns the keys of all packets of an input, for each schema of the rules; the end of the program if it is bad.
pub(crate) fn keys_of(loaded: &Loaded, path: &Path) -> anyhow::Result<Result<Vec<KeyBuf>, End>> {
    let name = rules::display(path);
    let bad = |error: SourceError| rules::source_error(&name, error).map(|()| Err(End::BadInput));
    let rules = &loaded.file.rules;
    let feed = match Feed::new(Stop::default().open(path)?, rules.schemas()) {
        Ok(feed) => feed,
        Err(error) => return bad(error),
    };
    let mut reader = Reader::new(feed, &loaded.wire_config(None)?);
    let stretch = reader.stretch(rules, false);
    let mut stretch = stretch.with_context(|| format!("these rules cannot be applied to {name}"))?;
    let mut held = Vec::new();
    stretch.hold(&mut held);
    loop {
        match reader.read(&mut stretch) {
            Ok(true) => {}
            Ok(false) => return Ok(Ok(held)),
            Err(error) => return bad(error),
        }
        stretch.parse();
        stretch.hold(&mut held);
    }
}

/// State of a run, with everything that it counts.
struct Job<'a> {
    loaded: &'a Loaded,
    engines: Engines,
    tally: Tally,
    checker: Option<Checker>,
    csv: Option<csv::Writer>,
    csv_on_stdout: bool,
    /// Keys for each schema, if they are to be classified again.
    held: Option<Vec<KeyBuf>>,
    nanos: timing::Streamed,
    /// Time from opening the input to its end, with one worker without that of checking and of holding packets.
    wall: Duration,
    /// Time of checking and of holding packets.
    beside: Duration,
    workers: usize,
    /// Whether the input is text whose first line is no packet.
    is_no_trace: bool,
    stop: Stop,
}

/// Facts known once the input is read.
struct Packets {
    name: String,
    /// Whether the input is a trace, which states no lengths.
    is_trace: bool,
    warnings: Vec<String>,
    /// Fault behind the packets, if there is one.
    fault: Option<SourceError>,
}

impl Job<'_> {
    /// Takes the input through the classifier, stretch by stretch.
    fn stream(&mut self, path: &Path, config: &wire::Config) -> anyhow::Result<Packets> {
        let name = rules::display(path);
        let start = Instant::now();
        let rules = &self.loaded.file.rules;
        let input = self.stop.open(path)?.decompress_aside()?;
        let reader = Reader::new(Feed::new(input, rules.schemas())?, config);
        let stretch = reader.stretch(rules, self.checker.is_some());
        let mut stretch = stretch.with_context(|| format!("these rules cannot be applied to {name}"))?;
        let mut progress = Progress::new(&reader.feed.progress());
        let (reader, fault) = match self.workers {
            1 => self.stream_alone(reader, &mut stretch, &mut progress)?,
            count => self.stream_with(count, reader, &mut stretch, &mut progress)?,
        };
        let feed = &reader.feed;
        self.is_no_trace = fault.is_some() && feed.is_unread_trace();
        let fault = match fault {
            Some(error) if reader.next_number() == 0 => return Err(error.into()),
            fault => fault,
        };
        self.write_csv(|csv, _| csv.finish())?;
        self.wall = start.elapsed().saturating_sub(self.beside);
        if let Some(checker) = &mut self.checker {
            checker.compare_sample(rules, &stretch.batch);
        }
        if !self.nanos.any() && self.held.is_none() {
            self.engines.replay(&stretch, &mut self.nanos);
        }
        progress.clear();
        let warning = |cut: &Cut| match self.stop.signal() {
            Some(signal) => format!("{name}: {} ended the input; what follows was not read", signal.name()),
            None => cut.to_string(),
        };
        let unread = |(link, packets): (LinkType, u64)| {
            let verdict = self.loaded.file.policy.unknown;
            format!("{name}: {} of {link} could not be read: {verdict}", counted(packets, "packet"))
        };
        let warnings = feed.cut().map(warning).into_iter();
        let warnings: Vec<_> = warnings.chain(feed.unread_links().into_iter().map(unread)).collect();
        Ok(Packets { name, is_trace: !feed.has_lengths(), warnings, fault })
    }

    /// Reads and classifies on this thread; returns the input with the error that ended it, if one did.
    fn stream_alone(
        &mut self,
        mut reader: Reader,
        stretch: &mut Stretch,
        progress: &mut Progress,
    ) -> anyhow::Result<(Reader, Option<SourceError>)> {
        loop {
            match reader.read(stretch) {
                Ok(true) => {}
                Ok(false) => return Ok((reader, None)),
                Err(error) => return Ok((reader, Some(error))),
            }
            stretch.parse();
            self.engines.classify(stretch, &mut self.nanos);
            self.tally.add(stretch.batch.records(), &stretch.answers);
            self.tally.rule_cache = self.engines.rule_cache_counts();
            self.take(stretch)?;
            progress.show(reader.next_number());
        }
    }

    /// Takes the answers of `count` workers, which read and classify; returns as [`Job::stream_alone`].
    fn stream_with(
        &mut self,
        count: usize,
        reader: Reader,
        stretch: &mut Stretch,
        progress: &mut Progress,
    ) -> anyhow::Result<(Reader, Option<SourceError>)> {
        let slots = self.loaded.file.rules.slots();
        let all_needed = self.csv.is_some() || self.checker.is_some() || self.held.is_some();
        let mut workers = Workers::start(count, &self.engines, slots, reader, stretch, all_needed)?;
        while let Some(done) = workers.next()? {
            workers.give_back(std::mem::replace(stretch, done));
            if let Err(error) = self.take(stretch) {
                // The worker that reads may wait for packets for ever, and the program ends now.
                std::mem::forget(workers);
                return Err(error);
            }
            progress.show(stretch.first + stretch.batch.len() as u64);
        }
        // The workers went on while this thread checked.
        self.beside = Duration::ZERO;
        workers.join(&mut self.tally, &mut self.nanos, stretch)
    }

    /// Says why there is no packet to answer for.
    fn nothing_read(&self, name: &str, error: anyhow::Error) -> anyhow::Result<End> {
        let Some(source) = error.downcast_ref::<SourceError>() else { return Err(error) };
        if let Some(signal) = self.stop.signal() {
            diagnostics::error(&format!("{name}: {} ended the input before the first packet", signal.name()));
            return Ok(End::Stopped(signal));
        }
        rules::source_error(name, source.clone())?;
        if self.is_no_trace {
            diagnostics::error(&format!("{name}: this is neither a capture (pcap, pcapng) nor a ClassBench trace"));
        }
        Ok(End::BadInput)
    }

    /// Prints the answer, then the fault that ended the input, if there is one.
    fn answer(&self, report: &Report, packets: Packets, args: &ClassifyArgs) -> anyhow::Result<End> {
        let good = report.check.as_ref().is_none_or(|check| check.differences == 0);
        if let Some(checker) = &self.checker {
            checker.show(self.loaded);
        }
        if args.json {
            // The summary shows the warnings itself.
            report.warnings.iter().for_each(|warning| diagnostics::warning(warning));
        }
        let mut out = answer_to(self.csv_on_stdout);
        let printed =
            if args.json { report.json(&mut out) } else { summary::print(report, self.loaded, args, &mut out) };
        // The exit code does not depend on whether the answer is read.
        match (packets.fault, good, self.stop.signal()) {
            (Some(fault), ..) => rules::source_error(&packets.name, fault).map(|()| End::BadInput),
            (None, false, _) => Ok(End::BadAnswer),
            (None, true, Some(signal)) => Ok(End::Stopped(signal)),
            (None, true, None) => Ok(printed.map(|()| End::Done)?),
        }
    }

    /// Takes the answers of a stretch; stretches come in order of arrival.
    fn take(&mut self, stretch: &Stretch) -> anyhow::Result<()> {
        self.write_csv(|csv, loaded| csv.write(loaded, stretch))?;
        let before = Instant::now();
        if let Some(held) = &mut self.held {
            stretch.hold(held);
        }
        if let Some(checker) = &mut self.checker {
            checker.offer(stretch);
            checker.compare_all(&self.loaded.file.rules, &stretch.batch);
        }
        self.beside += before.elapsed();
        Ok(())
    }

    /// Writes to the `--csv` output, if there is one.
    ///
    /// Its reader may stop reading, for example `head`: the rest of the run then goes on without the lines.
    fn write_csv(&mut self, write: impl FnOnce(&mut csv::Writer, &Loaded) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let Some(csv) = &mut self.csv else { return Ok(()) };
        match write(csv, self.loaded) {
            Err(error) if is_broken_pipe(&error) => self.csv = None,
            other => return other,
        }
        Ok(())
    }
}
