//! Workloads: the lowered rules of a set, the keys to look up, and the right answers.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::rule::{ExpansionLimits, FieldValues, Lowered, first_match, lower};
use firstmatch_core::schema::Family;
use firstmatch_core::{Classifier, KeyBuf, Match, Policy, RuleSet, Schema};
use firstmatch_generate::trace::{Header, Locality, MIN_FRAME};
use firstmatch_generate::{attack, keys, openflow, policy, rules, trace};
use firstmatch_net::source::{self, Input};
use firstmatch_net::wire::{self, Batch, Headers, LinkType};

use crate::definition::{self, Definition, Generate, Origin, Set, Shape};

/// Most rules, approximately, that the oracle visits for a workload.
///
/// It checks all keys, or an even sample of them. For example, with 10,000 rules it checks 2,000 keys.
const ORACLE_STEPS: usize = 20_000_000;

/// Source of a workload.
pub(crate) struct Source<'a> {
    pub(crate) definition: &'a Definition,
    pub(crate) set: &'a Set,
    pub(crate) sets: Option<&'a Path>,
    #[cfg_attr(not(feature = "rte-acl"), expect(dead_code, reason = "for the process that a feature starts"))]
    pub(crate) brief: bool,
    /// Index among the workloads of the set.
    pub(crate) index: usize,
}

/// Rule set with its packets.
pub(crate) struct Loaded {
    pub(crate) rules: RuleSet,
    /// One workload for each schema with packets.
    pub(crate) workloads: Vec<Workload>,
}

/// One schema of a rule set with its packets.
pub(crate) struct Workload {
    /// Family, if the rules are for two.
    pub(crate) part: Option<&'static str>,
    pub(crate) lowered: Arc<Lowered>,
    pub(crate) keys: KeyBuf,
    /// Sample for the oracle: rows with their values.
    samples: Vec<(usize, FieldValues)>,
    /// Whether the order of the keys matters.
    pub(crate) in_order: bool,
    /// Packets as frames, one for each key, if lookups from frames are timed.
    pub(crate) frames: Option<Frames>,
}

/// Size of a frame in bytes.
pub(crate) const FRAME: usize = MIN_FRAME;

/// Ethernet frames of [`FRAME`] bytes.
pub(crate) struct Frames {
    pub(crate) all: Vec<[u8; FRAME]>,
    /// Configuration of the parser.
    pub(crate) config: wire::Config,
}

/// Reads or generates a set; its packets become frames if `frames` is set.
pub(crate) fn load(set: &Set, origin: &Origin<'_>, frames: bool) -> anyhow::Result<Loaded> {
    let (rules, mut packets) = match origin {
        Origin::Files { rules, trace } => files(rules, trace, frames)?,
        Origin::Generated(config) => generated(config, frames)?,
    };
    let both = rules.schemas().len() > 1;
    let mut workloads = Vec::new();
    for (index, schema) in rules.schemas().iter().enumerate() {
        let keys = packets.keys(index, schema);
        if !keys.is_empty() {
            let part = schema.family().filter(|_| both).map(Family::name);
            let lowered = Arc::new(lower(&rules, schema, &ExpansionLimits::default())?);
            let samples = packets.samples(index, keys.len(), rules.len());
            let frames = packets.frames.take();
            workloads.push(Workload { part, lowered, keys, samples, in_order: set.in_order, frames });
        }
    }
    ensure!(!workloads.is_empty(), "there is no packet to classify");
    Ok(Loaded { rules, workloads })
}

/// Loads one schema of a set of a definition.
pub(crate) fn one(definition: &Definition, sets: Option<&Path>, set: &str, index: usize) -> anyhow::Result<Workload> {
    let set = definition.sets.iter().find(|other| other.name == set).context("there is no such set")?;
    let Ok(origin) = definition.origin(set, sets) else { bail!("the set has no origin") };
    let mut loaded = load(set, &origin, definition.frames())?;
    ensure!(index < loaded.workloads.len(), "there is no such schema");
    Ok(loaded.workloads.swap_remove(index))
}

impl Workload {
    pub(crate) fn schema(&self) -> &Schema {
        self.lowered.schema()
    }

    /// Returns the answers of `linear`, after comparing those of the sample with the oracle's.
    pub(crate) fn answers(&self, rules: &RuleSet) -> anyhow::Result<Vec<Option<Match>>> {
        let linear = Linear::build(&self.lowered, &linear::Config::default())?;
        let mut answers = vec![None; self.keys.len()];
        linear.classify_batch(&mut linear.scratch(), self.keys.keys(), &mut answers);
        for (row, values) in &self.samples {
            let right = first_match(rules, values).map(|rule| Match { rule: rule.id, priority: rule.priority });
            ensure!(answers[*row] == right, "linear answers {:?} for key {row}, the oracle {right:?}", answers[*row]);
        }
        Ok(answers)
    }
}

/// Function from a batch and the index of a packet to the packet's values.
type Values = Box<dyn Fn(&Batch, usize) -> Option<FieldValues>>;

/// Packets, with their values for the oracle.
struct Packets {
    batch: Batch,
    /// Returns each packet's values as the oracle sees them.
    values: Values,
    frames: Option<Frames>,
}

impl Packets {
    fn keys(&mut self, index: usize, schema: &Schema) -> KeyBuf {
        let mut keys = KeyBuf::new(schema);
        let rows = self.batch.keys(index);
        keys.reserve(rows.len().max(1));
        (0..rows.len()).for_each(|row| keys.push().copy_from_slice(rows.row(row)));
        keys
    }

    /// Returns rows of one schema, evenly spread, as many as the oracle has time for.
    fn samples(&self, index: usize, keys: usize, rules: usize) -> Vec<(usize, FieldValues)> {
        let count = (ORACLE_STEPS / rules.max(1)).clamp(1, keys);
        let packets = self.batch.packets(index);
        let values = |row: usize| Some((row, (self.values)(&self.batch, packets[row] as usize)?));
        (0..count).filter_map(|i| values(i * keys / count)).collect()
    }
}

fn of_rows(batch: Batch, all: Vec<FieldValues>) -> Packets {
    Packets { batch, values: Box::new(move |_, packet| all.get(packet).cloned()), frames: None }
}

fn of_headers(batch: Batch, headers: Vec<Headers>) -> Packets {
    Packets { batch, values: Box::new(move |batch, packet| batch.values(&headers[packet])), frames: None }
}

/// Makes frames of headers and parses them.
///
/// The keys are those of the frames, so ports that a protocol does not have are absent.
fn framed(headers: impl Iterator<Item = Header>, config: wire::Config, schemas: &[Schema]) -> anyhow::Result<Packets> {
    ensure!(schemas.len() == 1, "frames are made for rules of one family");
    let mut frames = Frames { all: Vec::new(), config };
    let mut bytes = Vec::new();
    for header in headers {
        ensure!(header.family == Family::Ipv4, "frames are made of IPv4 packets alone");
        bytes.clear();
        header.append_frame(&mut bytes)?;
        frames.all.push(<[u8; FRAME]>::try_from(bytes.as_slice()).context("a frame of another length")?);
    }
    let headers = frames.all.iter().map(|frame| wire::parse(&frames.config, LinkType::Ethernet, frame));
    let headers: Vec<Headers> = headers.collect();
    let batch = pushed(Batch::new(&frames.config, schemas)?, &headers);
    ensure!(batch.keys(0).len() == headers.len(), "the rules are over fields that the frames of a trace lack");
    Ok(Packets { frames: Some(frames), ..of_headers(batch, headers) })
}

fn files(rules: &Path, packets: &Path, frames: bool) -> anyhow::Result<(RuleSet, Packets)> {
    let named = |path: &Path| path.display().to_string();
    let text = source::read_text(rules)?;
    let file =
        firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).with_context(|| named(rules))?;
    let packets = read(packets, frames, &file.policy, file.rules.schemas()).with_context(|| named(packets))?;
    Ok((file.rules, packets))
}

fn read(path: &Path, frames: bool, policy: &Policy, schemas: &[Schema]) -> anyhow::Result<Packets> {
    let config = wire::Config::from(policy);
    let (mut headers, mut records) = (Vec::new(), Vec::new());
    let input = source::open(path)?;
    ensure!(!frames || matches!(input, Input::Trace(_)), "frames are made of traces alone");
    let cut = match input {
        Input::Flows(_) => return Err(anyhow!("this is a flow log; expected a capture, a trace or a table")),
        Input::Capture(mut capture) => {
            while let Some(packet) = capture.next()? {
                headers.push(wire::parse_on(&config, packet.interface, packet.link, packet.data, packet.original_len));
            }
            capture.cut().map(ToString::to_string)
        }
        Input::Trace(mut trace) => {
            while let Some(record) = trace.next()? {
                headers.push(record.headers());
                if frames {
                    let source::TraceRecord { family, src, dst, sport, dport, proto, .. } = record;
                    records.push(Header { src, dst, family, sport, dport, proto, rule: None });
                }
            }
            trace.cut().map(ToString::to_string)
        }
        Input::Table(table) => {
            let mut rows = table.into_rows(schemas)?;
            let mut batch = Batch::of_values(schemas);
            let mut all = Vec::new();
            while let Some(row) = rows.next()? {
                batch.push_values(row.values, row.bytes);
                all.push(row.values.clone());
            }
            let cut = rows.cut().map(ToString::to_string);
            return match cut {
                Some(cut) => Err(anyhow!(cut)),
                None => Ok(of_rows(batch, all)),
            };
        }
    };
    match cut {
        Some(cut) => Err(anyhow!(cut)),
        None if frames => framed(records.into_iter(), config, schemas),
        None => Ok(of_headers(pushed(Batch::new(&config, schemas)?, &headers), headers)),
    }
}

fn pushed(mut batch: Batch, headers: &[Headers]) -> Batch {
    batch.reserve(headers.len());
    headers.iter().for_each(|headers| _ = batch.push_headers(headers, 0));
    batch
}

fn generated(config: &Generate, frames: bool) -> anyhow::Result<(RuleSet, Packets)> {
    let locality = match (config.flows, config.zipf) {
        (Some(rate), s) => Locality::Flows { s: s.unwrap_or(0.0), rate },
        (None, Some(s)) => Locality::Zipf { s },
        (None, None) => Locality::Uniform,
    };
    let (count, seed) = (config.rules, config.seed);
    let families = match config.family {
        Family::Ipv4 => rules::Families::Ipv4,
        Family::Ipv6 => rules::Families::Ipv6,
    };
    let set = match &config.profile {
        Shape::Profile(profile) => rules::generate(&rules::Config {
            rules: count,
            seed,
            profile: (**profile).clone(),
            families,
            ..rules::Config::default()
        })?,
        Shape::Attack(attack) => attack::generate(*attack, config.family, count, seed)?,
        Shape::Openflow => openflow::generate(&openflow::Config { rules: count, seed, ..Default::default() })?,
        Shape::Policy => {
            policy::generate(&policy::Config { rules: count, seed, families, ..Default::default() })?.into_rules()
        }
    };
    if matches!(config.profile, Shape::Openflow) {
        ensure!(!frames, "the fields of `{}` are not those of frames", definition::OPENFLOW);
        let packets = rows(&set, &keys::Config { keys: config.headers, seed, locality, ..Default::default() })?;
        return Ok((set, packets));
    }
    // Not every rule is hit if that takes too long or the trace has too few headers.
    let is_complete = config.headers >= set.len() && matches!(config.profile, Shape::Profile(_) | Shape::Policy);
    let trace = trace::Config {
        headers: config.headers,
        seed: config.seed,
        locality,
        unmatched: config.unmatched,
        coverage: if is_complete { trace::Coverage::Complete } else { trace::Coverage::Drawn },
        ..trace::Config::default()
    };
    let packets = walked(&set, &trace, frames)?;
    Ok((set, packets))
}

/// Draws keys from the rules, whatever the fields.
fn rows(set: &RuleSet, config: &keys::Config) -> anyhow::Result<Packets> {
    let schema = &set.schemas()[0];
    let drawn = keys::generate(&lower(set, schema, &ExpansionLimits::default())?, config)?;
    let all: Vec<FieldValues> = (0..drawn.len()).map(|row| field_values(schema, drawn.keys().row(row))).collect();
    let mut batch = Batch::of_values(set.schemas());
    all.iter().for_each(|values| _ = batch.push_values(values, 0));
    Ok(of_rows(batch, all))
}

/// Returns the value of each field in a row.
pub(crate) fn field_values(schema: &Schema, row: &[u32]) -> FieldValues {
    let value = |field: usize| {
        let words = schema.words_of(field).map(|at| (&schema.words()[at], row[at]));
        words
            .clone()
            .all(|(word, value)| word.absent != Some(value))
            .then(|| words.fold(0, |whole, (word, value)| whole | u128::from(value) << word.shift))
    };
    FieldValues { family: schema.family(), values: (0..schema.fields().len()).map(value).collect() }
}

fn walked(set: &RuleSet, config: &trace::Config, frames: bool) -> anyhow::Result<Packets> {
    let trace = trace::generate(set, config)?;
    if frames {
        return framed(trace.iter().copied(), wire::Config::from(&Policy::default()), set.schemas());
    }
    let headers = trace.iter().map(|h| Headers::of_five_tuple(h.family, h.src, h.dst, h.sport, h.dport, h.proto));
    let headers: Vec<Headers> = headers.collect();
    let batch = Batch::for_policy(&Policy::default(), set.schemas())?;
    Ok(of_headers(pushed(batch, &headers), headers))
}

/// Returns the first schema of a set with keys drawn from its rules, and no sample.
///
/// Keys without addresses are drawn evenly from all rules, because traces are of packets.
pub(crate) fn drawn(set: &RuleSet, config: &trace::Config) -> anyhow::Result<Workload> {
    let schema = &set.schemas()[0];
    let lowered = Arc::new(lower(set, schema, &ExpansionLimits::default())?);
    let keys = if schema.family().is_some() {
        walked(set, config, false)?.keys(0, schema)
    } else {
        keys::generate(&lowered, &keys::Config { keys: config.headers, seed: config.seed, ..Default::default() })?
    };
    Ok(Workload { part: None, lowered, keys, samples: Vec::new(), in_order: true, frames: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_without_a_protocol_have_keys_of_four_words() {
        for (family, words) in [("ipv4", 4), ("ipv6", 10)] {
            let text = format!(
                "profile = 'core'\nrules = 1000\nseed = 1\nheaders = 3000\nfamily = '{family}'\nunmatched = 0.1\n"
            );
            let generate: Generate = toml::from_str(&text).expect("good parameters");
            let origin = Origin::Generated(&generate);
            let set: Set = toml::from_str("name = 'core'\n").expect("a good set");
            let loaded = load(&set, &origin, false).expect("rules and packets");
            let [workload] = &loaded.workloads[..] else { panic!("there is one schema") };
            assert_eq!((workload.schema().words().len(), workload.keys.len()), (words, 3000));
            let answers = workload.answers(&loaded.rules).expect("linear agrees with the oracle");
            assert_eq!(answers.iter().flatten().count(), 2700);
            let framed = load(&set, &origin, true).map(drop);
            assert!(framed.is_ok() == (family == "ipv4"), "{:?}", framed.err());
        }
    }
}
