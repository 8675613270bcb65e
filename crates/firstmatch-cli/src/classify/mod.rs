//! Command `firstmatch classify`.

mod check;
mod csv;
mod flows;
#[cfg(all(feature = "live", target_os = "linux"))]
mod live;
mod lookups;
mod passes;
mod progress;
mod report;
mod stretch;
mod summary;
mod system;
mod tally;
#[cfg(test)]
mod tests;
mod timing;
mod what_if;
mod workers;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use firstmatch_core::cache::flow::Counts;
use firstmatch_core::engines::registry::Entry;
use firstmatch_core::schema::Field;
use firstmatch_core::{KeyBuf, Schema};
use firstmatch_net::source::{self, Cut, FlowCounts, FlowOptions, Input, SourceError};
use firstmatch_net::wire::{self, LinkType};
use serde_json::Value;

use crate::args::{ClassifyArgs, FlowArgs};
use crate::engines::Caches;
use crate::format::counted;
use crate::rules::Loaded;
use crate::stop::Stop;
use crate::{End, answer_to, diagnostics, engines, is_broken_pipe, output, rules};
use check::Checker;
#[cfg(all(feature = "live", target_os = "linux"))]
pub(crate) use live::{Reloads, Watched};
use lookups::Lookups;
use progress::Progress;
use report::{FileCounts, Report};
use stretch::{Feed, Reader, Stretch};
use tally::Tally;
use what_if::WhatIf;
use workers::Workers;

pub(crate) fn run(args: &ClassifyArgs) -> anyhow::Result<End> {
    let engine = engines::named(&args.engine).ok_or_else(|| anyhow!("there is no engine {}", args.engine))?;
    run_with(args, engine, &mut |report, loaded, out| show(args, report, loaded, out))
}

/// Prints an answer as JSON or for people.
fn show(args: &ClassifyArgs, report: &Report, loaded: &Loaded, out: &mut dyn Write) -> io::Result<()> {
    if args.json { report.json(out) } else { summary::print(report, loaded, args.top, out) }
}

/// Compares the verdicts of two rule files on packets, and passes on the changes as JSON and as text.
pub(crate) fn dry_run(args: &ClassifyArgs, take: &mut dyn FnMut(Value, Vec<u8>)) -> anyhow::Result<End> {
    let engine = engines::named(&args.engine).ok_or_else(|| anyhow!("there is no engine {}", args.engine))?;
    run_with(args, engine, &mut |report, _, _| {
        let Some(what_if) = &report.what_if else { return Ok(()) };
        let mut text = Vec::new();
        summary::changes(report, what_if, args.top, &mut text)?;
        take(serde_json::to_value(what_if)?, text);
        Ok(())
    })
}

/// Function that prints an answer.
type Print<'p> = &'p mut dyn FnMut(&Report, &Loaded, &mut dyn Write) -> io::Result<()>;

fn run_with(args: &ClassifyArgs, engine: &Entry, print: Print<'_>) -> anyhow::Result<End> {
    let dash = Path::new("-");
    if [&args.rules].into_iter().chain(&args.input).filter(|path| *path == dash).count() > 1 {
        bail!("rules and packets cannot both come from standard input, nor can packets twice");
    }
    if let Some(csv) = args.csv.as_ref().or(args.changed.as_ref()) {
        let packets = args.input.iter().map(|input| ("packets", &**input));
        let rules = [&args.rules].into_iter().chain(&args.what_if).map(|rules| ("rules", &**rules));
        let inputs: Vec<(&str, &Path)> = rules.chain(packets).collect();
        output::refuse_inputs(csv, &inputs)?;
    }
    let Some(loaded) = rules::load_briefly(&args.rules, args.reading())? else {
        return Ok(End::BadInput);
    };
    let config = loaded.wire_config(args.metadata)?;
    let what_if = match &args.what_if {
        None => None,
        Some(path) => match WhatIf::load(path, args)? {
            Some(what_if) => Some(what_if),
            None => return Ok(End::BadInput),
        },
    };
    let audit = match loaded.audited() {
        None => None,
        Some(audited) => match WhatIf::new(audited, args)? {
            Some(audit) => Some(audit),
            None => return Ok(End::BadInput),
        },
    };
    check_bases(args, loaded.file.rules.schemas().len())?;
    let settings = engines::settings(engine, &args.choice, &args.option)?;
    let caches = Caches { flows: args.flow_cache, boxes: args.rule_cache };
    let start = Instant::now();
    let firewall = match engines::serve(&loaded, engine, &settings, &args.base, caches) {
        Ok(firewall) => firewall,
        Err(error) => {
            loaded.not_built(error, |error| engines::how_to_raise(&args.engine, error))?;
            return Ok(End::BadInput);
        }
    };
    let build_time = start.elapsed();
    let csv = args.csv.as_deref().map(|path| csv::Writer::create(path, &csv::PACKETS)).transpose()?;
    let written = csv.iter().chain(what_if.iter().filter_map(|what_if| what_if.csv.as_ref()));
    let csv_on_stdout = written.into_iter().any(csv::Writer::is_stdout);
    let mut job = Job {
        loaded: &loaded,
        lookups: Lookups::new(firewall, args.batch.into()),
        tally: Tally::new(loaded.file.rules.slots()),
        checker: args.check.map(Checker::new),
        what_if,
        audit,
        csv_on_stdout,
        csv,
        held: (args.repeat.is_some() || args.systems.system.is_some()).then(Vec::new),
        nanos: timing::Streamed::default(),
        wall: Duration::ZERO,
        beside: Duration::ZERO,
        workers: args.workers.into(),
        is_no_trace: false,
        stop: Stop::default(),
        next_number: 0,
        format: &args.flows,
        flow_options: args.flows.options(args.metadata)?,
    };
    let mut packets = Packets::default();
    if let Some(fault) = job.look_into(&args.input, &mut packets)? {
        return job.nothing_read(fault);
    }
    job.stream(&args.input, &config, &mut packets)?;
    if let Some(fault) = packets.fault.take_if(|_| job.tally.all().packets == 0) {
        return job.nothing_read(fault);
    }
    job.write_csv(|csv, _| csv.finish())?;
    if let Some(csv) = job.what_if.as_mut().and_then(|what_if| what_if.csv.as_mut()) {
        csv.finish()?;
    }
    let stopped = || job.stop.signal().is_some();
    let passes = match (args.repeat, &job.held) {
        (Some(count), Some(held)) => {
            let before = job.lookups.rule_cache_counts().lookups;
            let passes = passes::passes(&mut job.lookups, held, count, &stopped);
            // The hits stand beside the time of the same passes.
            job.tally.rule_cache = job.lookups.rule_cache_counts();
            let of = &mut job.tally.rule_cache.lookups;
            let (hits, misses) = (of.hits - before.hits, of.misses - before.misses);
            *of = Counts { hits, misses, passed_by: of.passed_by - before.passed_by };
            passes
        }
        _ => Vec::new(),
    };
    let held = job.held.as_deref().unwrap_or_default();
    let systems = system::run(&loaded, args, (engine, &settings), held, &stopped)?;
    let mut report = Report::new(&job, args, &packets, &passes, build_time);
    report.systems = systems;
    job.answer(&report, packets, args, print)
}

/// Checks that bases are given for the right engine, and one for each family or one for all.
fn check_bases(args: &ClassifyArgs, families: usize) -> anyhow::Result<()> {
    if !args.base.is_empty() && args.engine != engines::DEFAULT {
        bail!("--base is of the engine {}, and --engine {} was asked for", engines::DEFAULT, args.engine);
    }
    match args.base[..] {
        [] | [_] => Ok(()),
        ref each if each.len() == families => Ok(()),
        ref each => bail!(
            "--base names {} bases; expected one, or as many as the rules have address families, {families}",
            each.len()
        ),
    }
}

/// Returns the keys of all packets of an input, for each schema of the rules, or the end of the command if it is bad.
pub(crate) fn keys_of(loaded: &Loaded, path: &Path) -> anyhow::Result<Result<Vec<KeyBuf>, End>> {
    let name = rules::display(path);
    let bad = |error: SourceError| rules::source_error(&name, error).map(|()| Err(End::BadInput));
    let rules = &loaded.file.rules;
    let feed = match Feed::new(Stop::default().open(path)?, rules.schemas(), &FlowOptions::default()) {
        Ok(feed) => feed,
        Err(error) => return bad(error),
    };
    let mut reader = Reader::new(feed, &loaded.wire_config(None)?, 0);
    let stretch = reader.stretch(rules, false, false);
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
    lookups: Lookups,
    tally: Tally,
    checker: Option<Checker>,
    what_if: Option<WhatIf>,
    /// Engines and counts for the rules of `loaded` with its audit rules in force, if it has any.
    audit: Option<WhatIf>,
    csv: Option<csv::Writer>,
    csv_on_stdout: bool,
    /// Keys for each schema, if they are to be classified again.
    held: Option<Vec<KeyBuf>>,
    nanos: timing::Streamed,
    /// Time from opening the input to its end; with one worker, without the time in `beside`.
    wall: Duration,
    /// Time spent on checking packets and on holding them.
    beside: Duration,
    workers: usize,
    /// Whether the input is text whose first line is not a packet.
    is_no_trace: bool,
    stop: Stop,
    /// Number of the first packet of the next input.
    next_number: u64,
    /// Format of the packets, if it was asked for.
    format: &'a FlowArgs,
    flow_options: FlowOptions,
}

/// Facts about the inputs that were read.
#[derive(Default)]
struct Packets {
    /// Format of all inputs, once it is known.
    kind: Option<&'static str>,
    /// Whether the inputs are traces, which state no lengths.
    is_trace: bool,
    /// Rows of flow logs by their fate.
    flows: Option<FlowCounts>,
    files: Vec<FileCounts>,
    warnings: Vec<String>,
    /// Fault after the packets, if there is one.
    fault: Option<Fault>,
}

/// Input that could not be read to its end, and the reason.
struct Fault {
    name: String,
    error: SourceError,
}

impl Packets {
    /// Checks that an input has the format of the inputs before it.
    fn add_kind(&mut self, name: &str, input: &Input) -> anyhow::Result<()> {
        let kind = match input {
            Input::Capture(_) => "a capture",
            Input::Trace(_) => "a trace",
            Input::Table(_) => "a table",
            Input::Flows(log) => log.format().name(),
        };
        match *self.kind.get_or_insert(kind) {
            first if first != kind => bail!("{name} is {kind}, but the inputs before it are not; expected {first}"),
            _ => Ok(()),
        }
    }
}

impl Job<'_> {
    /// Opens the inputs that are regular files, if there are several; returns the fault of the first bad one.
    ///
    /// Otherwise a wrong name would be found only after minutes.
    fn look_into(&mut self, paths: &[PathBuf], packets: &mut Packets) -> anyhow::Result<Option<Fault>> {
        if let [_] = paths {
            return Ok(None);
        }
        for path in paths {
            // Opening a pipe would take its first bytes.
            let is_stream = path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir());
            if is_stream || path == Path::new("-") {
                continue;
            }
            let name = rules::display(path);
            match source::open(path) {
                Ok(input) => match self.format.apply(input) {
                    Ok(input) => packets.add_kind(&name, &input)?,
                    Err(error) => return Ok(Some(Fault { name, error })),
                },
                Err(error) => return Ok(Some(Fault { name, error })),
            }
        }
        Ok(None)
    }

    /// Reads and classifies the inputs, one after another, until one has a fault.
    fn stream(&mut self, paths: &[PathBuf], config: &wire::Config, packets: &mut Packets) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut last = None;
        for (at, path) in paths.iter().enumerate() {
            match self.stream_one(path, config, packets) {
                Ok(stretch) => last = Some(stretch),
                Err(error) => {
                    let error = error.downcast::<SourceError>()?;
                    packets.fault = Some(Fault { name: rules::display(path), error });
                }
            }
            let has_ended = packets.fault.is_some() || self.stop.signal().is_some();
            if let Some(next) = paths.get(at + 1).filter(|_| has_ended) {
                let more = match paths.len() - at - 2 {
                    0 => "was".to_owned(),
                    more => format!("and {more} more were"),
                };
                packets.warnings.push(format!("{} {more} not read", rules::display(next)));
                break;
            }
        }
        self.wall = start.elapsed().saturating_sub(self.beside);
        if let (Some(checker), Some(stretch)) = (&mut self.checker, &last) {
            checker.compare_sample(&self.loaded.file.rules, &stretch.batch);
        }
        Ok(())
    }

    /// Reads and classifies one input, stretch by stretch; returns the last stretch.
    fn stream_one(&mut self, path: &Path, config: &wire::Config, packets: &mut Packets) -> anyhow::Result<Stretch> {
        let name = rules::display(path);
        let rules = &self.loaded.file.rules;
        let before = FileCounts::of_all(self.loaded, &self.tally);
        let input = self.format.apply(self.stop.open(path)?.decompress_aside()?)?;
        packets.add_kind(&name, &input)?;
        if let Some(option) = self.format.of_flows().filter(|_| !matches!(input, Input::Flows(_))) {
            bail!("{option} is for flow logs, and {name} is none");
        }
        let feed = Feed::new(input, rules.schemas(), &self.flow_options)?;
        let mut reader = Reader::new(feed, config, self.next_number);
        let audited = self.audit.as_ref().map(|audit| audit.loaded.file.rules.schemas());
        if reader.feed.has_values() && audited.is_some_and(|audited| audited != rules.schemas()) {
            bail!(
                "the columns of a table are the fields of the rules that decide, and audit rules of {} test others",
                self.loaded.name
            );
        }
        for other in self.what_if.iter_mut().chain(&mut self.audit) {
            other.begin(&reader.feed, self.loaded)?;
        }
        let stretch = reader.stretch(rules, self.compares(), self.compares() || self.csv.is_some());
        let mut stretch = stretch.with_context(|| format!("these rules cannot be applied to {name}"))?;
        let mut progress = Progress::new(&reader.feed.progress());
        let (reader, fault) = match self.workers {
            1 => self.stream_alone(reader, &mut stretch, &mut progress)?,
            count => self.stream_with(count, reader, &mut stretch, &mut progress)?,
        };
        progress.clear();
        let first = std::mem::replace(&mut self.next_number, reader.next_number());
        let feed = &reader.feed;
        self.is_no_trace = fault.is_some() && feed.is_unread_trace();
        packets.is_trace = !feed.has_lengths();
        if !self.nanos.any() && self.held.is_none() {
            self.lookups.replay(&stretch.batch, &mut self.nanos);
        }
        let warning = |cut: &Cut| match self.stop.signal() {
            Some(signal) => format!("{name}: {} ended the input; what follows was not read", signal.name()),
            None => cut.to_string(),
        };
        let unread = |(link, packets): (LinkType, u64)| {
            let verdict = self.loaded.file.policy.unknown;
            format!("{name}: {} of {link} could not be read: {verdict}", counted(packets, "packet"))
        };
        packets.warnings.extend(feed.cut().map(warning));
        if let Some(flows) = feed.flows() {
            packets.warnings.extend(flows::warnings(&name, flows, &stretch.batch, self.format.both_ways));
            packets.flows.get_or_insert_default().add(flows.counts());
        }
        packets.warnings.extend(feed.unread_links().into_iter().map(unread));
        packets.files.push(FileCounts::of_all(self.loaded, &self.tally).since(&before, &name, first));
        packets.fault = fault.map(|error| Fault { name, error });
        Ok(stretch)
    }

    /// Whether packets are also decided by the oracle or by other rules.
    fn compares(&self) -> bool {
        self.checker.is_some() || self.what_if.is_some() || self.audit.is_some()
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
            stretch.decide(&mut self.lookups, &mut self.tally, &mut self.nanos);
            self.tally.rule_cache = self.lookups.rule_cache_counts();
            self.take(stretch)?;
            progress.show(reader.next_number());
        }
    }

    /// Takes the answers of `count` workers, which read and classify; returns the same as [`Job::stream_alone`].
    fn stream_with(
        &mut self,
        count: usize,
        reader: Reader,
        stretch: &mut Stretch,
        progress: &mut Progress,
    ) -> anyhow::Result<(Reader, Option<SourceError>)> {
        let slots = self.loaded.file.rules.slots();
        let all_needed = self.compares() || self.csv.is_some() || self.held.is_some();
        let mut workers = Workers::start(count, &self.lookups, slots, reader, stretch, all_needed)?;
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

    /// Explains why there is no packet to answer for.
    fn nothing_read(&self, fault: Fault) -> anyhow::Result<End> {
        let Fault { name, error } = fault;
        if let Some(signal) = self.stop.signal() {
            diagnostics::error(&format!("{name}: {} ended the input before the first packet", signal.name()));
            return Ok(End::Stopped(signal));
        }
        rules::source_error(&name, error)?;
        if self.is_no_trace {
            let fields = self.loaded.file.rules.schemas().iter().take(1).flat_map(Schema::fields);
            let names = fields.map(Field::name).collect::<Vec<_>>().join(",");
            diagnostics::error(&format!(
                "{name}: this is neither a capture (pcap, pcapng) nor a ClassBench trace; a table begins with the names \
                 of its columns: {names}"
            ));
        }
        Ok(End::BadInput)
    }

    /// Prints the answer, then the fault that ended the input, if there is one.
    fn answer(&self, report: &Report, packets: Packets, args: &ClassifyArgs, print: Print<'_>) -> anyhow::Result<End> {
        let good = report.check.as_ref().is_none_or(|check| check.differences == 0)
            && report.systems.iter().all(|system| system.different == 0);
        if let Some(checker) = &self.checker {
            checker.show(self.loaded);
        }
        if args.json {
            // The summary shows the warnings itself.
            report.warnings.iter().for_each(|warning| diagnostics::warning(warning));
        }
        let mut out = answer_to(self.csv_on_stdout);
        let printed = print(report, self.loaded, &mut out);
        // The exit code does not depend on whether the reader takes the whole answer.
        match (packets.fault, good, self.stop.signal()) {
            (Some(Fault { name, error }), ..) => rules::source_error(&name, error).map(|()| End::BadInput),
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
        for other in self.what_if.iter_mut().chain(&mut self.audit) {
            other.take(self.loaded, stretch)?;
        }
        self.beside += before.elapsed();
        Ok(())
    }

    /// Writes to the `--csv` output, if there is one.
    ///
    /// If its reader stops reading, as `head` does, the rest of the run goes on without the lines.
    fn write_csv(&mut self, write: impl FnOnce(&mut csv::Writer, &Loaded) -> anyhow::Result<()>) -> anyhow::Result<()> {
        let Some(csv) = &mut self.csv else { return Ok(()) };
        match write(csv, self.loaded) {
            Err(error) if is_broken_pipe(&error) => self.csv = None,
            other => return other,
        }
        Ok(())
    }
}
