//! Command `firstmatch prove`: compares built engines with the rules.

use std::io::Write;

use anyhow::anyhow;
use firstmatch::show;
use firstmatch_core::analyze::{Analysis, Config, Sampled};
use firstmatch_core::engines::registry::{Entry, Settings};
use firstmatch_core::rule::{FieldValues, RuleId, first_match};
use firstmatch_core::{Budget, Classifier, KeyBuf, Match};

use crate::args::ProveArgs;
use crate::format::{BOLD, counted, thousands};
use crate::rules::{self, Loaded};
use crate::{End, answer_to, engines};

/// Number of keys per call of an engine.
const BATCH: usize = 256;
/// Maximum number of bytes of each engine, because all are built and some multiply the rules.
const MOST_BYTES: usize = 1 << 30;
/// One packet in this many is also given to the oracle, which walks the rules one by one.
const EVERY: u64 = 101;

pub(crate) fn run(args: &ProveArgs) -> anyhow::Result<End> {
    let named = match &args.engine {
        Some(name) => vec![engines::named(name).ok_or_else(|| anyhow!("there is no engine {name}"))?],
        None => engines::all().collect(),
    };
    run_with(args, &named)
}

fn run_with(args: &ProveArgs, named: &[&Entry]) -> anyhow::Result<End> {
    let Some(loaded) = rules::load(&args.rules, args.reading())? else { return Ok(End::BadInput) };
    let Some(lowered) = loaded.lower() else { return Ok(End::BadInput) };
    let mut config = Config::default();
    config.expansion = args.limits.expansion();
    let mut analysis = match Analysis::new(&loaded.file.rules, &loaded.file.policy, &config) {
        Ok(analysis) => analysis,
        Err(error) => {
            loaded.build_error(&error, None);
            return Ok(End::BadInput);
        }
    };
    let mut out = answer_to(false);
    let mut differs = false;
    for (index, rules) in lowered.iter().enumerate() {
        if let Some(family) = rules.schema().family() {
            writeln!(out, "{BOLD}{family}{BOLD:#}")?;
        }
        for engine in named {
            let mut settings = Settings::default();
            settings.budget = Budget { run_bytes: MOST_BYTES };
            let line = match (engine.build)(rules, &settings) {
                Err(error) => format!("not built: {error}"),
                Ok(built) => {
                    let mut proof = Proof::new(&loaded, engine.name, &*built);
                    let sampled = analysis.sample(index, args.packets, |key, rule| proof.take(key, rule));
                    proof.flush();
                    differs |= proof.first.is_some();
                    proof.line(&sampled)
                }
            };
            writeln!(out, "{:18} {line}", engine.name)?;
        }
    }
    out.flush()?;
    Ok(if differs { End::BadAnswer } else { End::Done })
}

/// Packets that an engine answers, batch by batch.
struct Proof<'a> {
    loaded: &'a Loaded,
    name: &'static str,
    engine: &'a dyn Classifier,
    scratch: firstmatch_core::Scratch,
    keys: KeyBuf,
    expected: Vec<Option<RuleId>>,
    taken: u64,
    /// First packet to which the engine, or the oracle, gives another answer.
    first: Option<Difference>,
}

struct Difference {
    packet: FieldValues,
    by: &'static str,
    expected: Option<RuleId>,
    found: Option<RuleId>,
}

impl<'a> Proof<'a> {
    fn new(loaded: &'a Loaded, name: &'static str, engine: &'a dyn Classifier) -> Self {
        let (keys, scratch) = (KeyBuf::new(engine.schema()), engine.scratch());
        Self { loaded, name, engine, scratch, keys, expected: Vec::new(), taken: 0, first: None }
    }

    fn take(&mut self, key: &[u32], expected: Option<RuleId>) {
        if self.first.is_some() {
            return;
        }
        self.keys.push()[..key.len()].copy_from_slice(key);
        self.expected.push(expected);
        if self.expected.len() == BATCH {
            self.flush();
        }
    }

    /// Compares the answers for the keys taken.
    fn flush(&mut self) {
        let mut answers: Vec<Option<Match>> = vec![None; self.expected.len()];
        self.engine.classify_batch(&mut self.scratch, self.keys.keys(), &mut answers);
        for (at, (answer, &expected)) in answers.iter().zip(&self.expected).enumerate() {
            self.taken += 1;
            let found = answer.map(|found| found.rule);
            let packet = || {
                let schema = self.engine.schema();
                FieldValues { family: schema.family(), values: schema.values(self.keys.keys().row(at)) }
            };
            if found != expected && self.first.is_none() {
                self.first = Some(Difference { packet: packet(), by: self.name, expected, found });
            }
            if self.taken.is_multiple_of(EVERY) && self.first.is_none() {
                let packet = packet();
                let oracle = first_match(&self.loaded.file.rules, &packet).map(|rule| rule.id);
                if oracle != expected {
                    self.first = Some(Difference { packet, by: "the oracle", expected, found: oracle });
                }
            }
        }
        self.keys.clear();
        self.expected.clear();
    }

    fn line(&self, sampled: &Sampled) -> String {
        let packets = counted(self.taken, "packet");
        let Some(Difference { packet, by, expected, found }) = &self.first else {
            return match sampled.is_all {
                true => format!("agrees at {packets}, one of each cell"),
                false => format!("agrees at {packets}, of {:.1e} cells", sampled.cells),
            };
        };
        let rule = |id: &Option<RuleId>| match id.and_then(|id| self.loaded.rule(id)) {
            Some(rule) => self.loaded.place(rule),
            None => "no rule".to_owned(),
        };
        let shown = show::values(self.engine.schema(), packet, &[]).join("; ");
        format!(
            "DIFFERS at packet {}: {shown}: {by} says {}, expected {}",
            thousands(self.taken),
            rule(found),
            rule(expected)
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use firstmatch_core::engines::linear::{self, Linear};
    use firstmatch_core::rule::Lowered;

    use super::*;
    use crate::args::{Args, Command};

    /// An engine without the rules is caught.
    #[test]
    fn a_wrong_engine_ends_badly() {
        let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/edge.rules");
        let args = Args::try_parse_from(["firstmatch", "prove", rules, "--packets", "2000"]).expect("it is a command");
        let Command::Prove(args) = args.command else { panic!("it is `prove`") };
        let empty = Entry::new("empty", "", |rules, _| {
            Ok(Box::new(Linear::build(&Lowered::empty(rules.schema()), &linear::Config::default())?))
        });
        let linear = engines::named("linear").expect("it is there");
        assert_eq!(run_with(&args, &[linear]).expect("it runs"), End::Done);
        assert_eq!(run_with(&args, &[linear, &empty]).expect("it runs"), End::BadAnswer);
    }
}
