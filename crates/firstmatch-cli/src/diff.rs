//! Command `firstmatch diff`: packets that two rule files give different verdicts.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::bail;
use firstmatch::show;
use firstmatch_core::Schema;
use firstmatch_core::analyze::{self, Config, Difference, Differences, OneSided};
use firstmatch_core::rule::{FieldValues, Regions, RuleId, RuleSet};
use firstmatch_formats::Fields;
use serde_json::{Value, json};

use crate::args::{ClassifyArgs, DiffArgs};
use crate::check::packet;
use crate::format::{BOLD, DIM, clip, counted};
use crate::rules::{self, Loaded};
use crate::{End, answer_to, classify};

/// Maximum number of characters of a rule's text that are shown.
const RULE_WIDTH: usize = 100;

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<End> {
    if [&args.before, &args.after].iter().all(|path| path.as_path() == Path::new("-")) {
        bail!("only one of the rule files can come from standard input");
    }
    let expansion = args.limits.expansion();
    let (Some(before), Some(after)) = (load(args, &args.before)?, load(args, &args.after)?) else {
        return Ok(End::BadInput);
    };
    let files = [&before, &after];
    let [one, other] = files.map(|file| (&file.file.rules, &file.file.policy));
    if !analyze::comparable(one.0, other.0) {
        let fields = files.map(|file| format!("{} has {}", file.name, about(&file.file.rules)));
        bail!("rules over different fields cannot be compared: {}", fields.join(", "));
    }
    let mut config = Config::default();
    config.expansion = expansion;
    config.limits.work = args.max_work;
    config.regions = args.regions;
    let mut found = match analyze::diff(one, other, &config) {
        Ok(found) => found,
        Err(error) => {
            // The files are lowered one by one, so the error names a rule of the first one that fails.
            let file = if lowers(one.0, &config) { &after } else { &before };
            file.build_error(&error, None);
            return Ok(End::BadInput);
        }
    };
    if files.iter().any(|file| file.goes_by_line()) {
        merge_lines(files, &mut found.pairs);
    }
    let policies = policies(files, &found);
    let traffic = match &args.input[..] {
        [] => None,
        input => match traffic(args, input)? {
            Ok(traffic) => Some(traffic),
            Err(end) => return Ok(end),
        },
    };
    let compared = Compared { files, found, policies, traffic };
    let mut out = answer_to(false);
    if args.json {
        compared.json(args.most, &mut out)?;
    } else {
        compared.print(args.most, &mut out)?;
    }
    Ok(if compared.found.is_none() { End::Done } else { End::BadAnswer })
}

/// Returns the changes of verdicts on packets, as JSON and as text, or the end of the command if packets cannot be
/// read.
fn traffic(args: &DiffArgs, input: &[PathBuf]) -> anyhow::Result<Result<(Value, Vec<u8>), End>> {
    let mut run = ClassifyArgs::dry_run(&args.before, &args.after, input);
    (run.flags, run.limits, run.import) = (args.flags, args.limits.clone(), args.import.clone());
    let mut taken = None;
    let end = classify::dry_run(&run, &mut |value, text| taken = Some((value, text)))?;
    Ok(match taken {
        Some(taken) if matches!(end, End::Done) => Ok(taken),
        _ => Err(end),
    })
}

/// Reads a rule file with all fields, so that two files have the same fields.
fn load(args: &DiffArgs, path: &Path) -> anyhow::Result<Option<Loaded>> {
    rules::load_with(path, args.reading(), Fields::All)
}

fn lowers(rules: &RuleSet, config: &Config) -> bool {
    rules.schemas().iter().all(|schema| firstmatch_core::rule::lower_products(rules, schema, &config.expansion).is_ok())
}

/// Returns the families and the number of fields of a rule set.
fn about(rules: &RuleSet) -> String {
    let families: Vec<&str> = rules.schemas().iter().filter_map(|s| Some(s.family()?.name())).collect();
    let fields = counted(rules.schemas().first().map_or(0, |schema| schema.fields().len()) as u64, "field");
    if families.is_empty() { fields } else { format!("{fields} of {}", families.join(" and ")) }
}

/// Merges pairs of rules that come from the same lines and give the same verdicts; the first packet stays.
fn merge_lines(files: [&Loaded; 2], pairs: &mut Vec<Difference>) {
    let mut merged: Vec<Difference> = Vec::new();
    let mut places = HashMap::new();
    for mut pair in std::mem::take(pairs) {
        let line =
            |side: usize| pair.rules[side].and_then(|id| files[side].rule(id)).map(|rule| files[side].line_of(rule));
        match places.entry(([line(0), line(1)], pair.verdicts)) {
            Entry::Vacant(place) => {
                place.insert(merged.len());
                merged.push(pair);
            }
            Entry::Occupied(place) => {
                let first = &mut merged[*place.get()];
                first.regions.append(&mut pair.regions);
                first.has_more_regions |= pair.has_more_regions;
            }
        }
    }
    *pairs = merged;
}

/// Returns the differences that are in no rule: the verdict of unknown packets, and fields that only one file needs.
fn policies(files: [&Loaded; 2], found: &Differences) -> Vec<String> {
    let mut all = Vec::new();
    if let Some([before, after]) = found.unknown {
        all.push(format!("verdict on unknown packets: {before} before, {after} after"));
    }
    for &schema in &found.needs_differ {
        let [one, other] = files.map(|file| {
            let schema = &found.schemas[schema];
            let tested = file.file.rules.tested_fields(schema).into_iter().zip(schema.fields());
            let names = tested.filter(|(is_tested, _)| *is_tested).map(|(_, field)| field.name());
            names.collect::<Vec<_>>().join(" ")
        });
        all.push(format!("fields whose lack of a readable value makes a packet unknown: {one} before, {other} after"));
    }
    all
}

struct Compared<'a> {
    files: [&'a Loaded; 2],
    found: Differences,
    policies: Vec<String>,
    /// Changes of the verdicts on packets, as JSON and as text.
    traffic: Option<(Value, Vec<u8>)>,
}

impl Compared<'_> {
    fn print(&self, most: usize, out: &mut dyn Write) -> io::Result<()> {
        let pairs = &self.found.pairs;
        for pair in pairs.iter().take(most) {
            let place = |side: usize| match pair.rules[side].and_then(|id| self.files[side].rule(id)) {
                Some(rule) => format!("{} {}", self.files[side].place(rule), pair.verdicts[side]),
                None => format!("{} without a rule {}", self.files[side].name, pair.verdicts[side]),
            };
            writeln!(out, "{BOLD}{}, then {}{BOLD:#}", place(0), place(1))?;
            for (side, mark) in ["-", "+"].into_iter().enumerate() {
                if let Some(rule) = pair.rules[side].and_then(|id| self.files[side].rule(id)) {
                    writeln!(out, "  {mark} {}", clip(&self.files[side].text_of(rule), RULE_WIDTH))?;
                }
            }
            if let Some(schema) = self.schema(&pair.packet) {
                writeln!(out, "    {DIM}for example {}{DIM:#}", show::values(schema, &pair.packet, &[]).join("; "))?;
            }
            for region in self.regions(pair) {
                writeln!(out, "    region {region}")?;
            }
            if pair.has_more_regions {
                writeln!(out, "    {DIM}more regions than --regions{DIM:#}")?;
            }
        }
        if pairs.len() > most {
            writeln!(out, "{DIM}and {} more (--most){DIM:#}", counted((pairs.len() - most) as u64, "pair"))?;
        }
        for of in &self.found.one_sided {
            self.print_one_sided(of, out)?;
        }
        for policy in &self.policies {
            writeln!(out, "{BOLD}{policy}{BOLD:#}")?;
        }
        let beyond = self.beyond();
        for rule in &beyond {
            writeln!(out, "{BOLD}{rule}{BOLD:#} is undecided: it exceeds the limits on regions")?;
        }
        let sum = match (pairs.len(), self.found.undecided + beyond.len()) {
            (0, 0) if self.found.is_none() => "nothing differs, for any packet".to_owned(),
            (0, 0) => "every packet that both classify gets the same verdict; complete".to_owned(),
            (count, 0) => format!("{} of rules differ; complete", counted(count as u64, "pair")),
            (count, undecided) => {
                let pairs = counted(count as u64, "pair");
                let cap = if beyond.is_empty() { " (--max-work)" } else { "" };
                format!("{pairs} of rules differ; {} undecided{cap}", counted(undecided as u64, "question"))
            }
        };
        writeln!(out, "{BOLD}{} and {}{BOLD:#}: {sum}", self.files[0].name, self.files[1].name)?;
        if let Some((_, text)) = &self.traffic {
            out.write_all(text)?;
        }
        out.flush()
    }

    /// Returns the places of the rules that exceed the limits on regions, each once.
    fn beyond(&self) -> Vec<String> {
        let rules = self.files.into_iter().zip(&self.found.beyond);
        let rules = rules.flat_map(|(file, ids)| ids.iter().filter_map(move |&id| Some(file.place(file.rule(id)?))));
        let mut places: Vec<String> = rules.collect();
        places.dedup();
        places
    }

    /// Prints packets that one file classifies and that are unknown to the other.
    fn print_one_sided(&self, of: &OneSided, out: &mut dyn Write) -> io::Result<()> {
        let file = self.files[of.side];
        let rule = of.rule.and_then(|id| file.rule(id));
        let sides = [0, 1].map(|side| match rule {
            _ if side != of.side => format!("unknown to {} {}", self.files[side].name, of.verdicts[side]),
            Some(rule) => format!("{} {}", file.place(rule), of.verdicts[side]),
            None => format!("{} without a rule {}", file.name, of.verdicts[side]),
        });
        let (packets, hidden) = (of.packets, self.hidden(of).join(", "));
        let which = if hidden.is_empty() { String::new() } else { format!(", which hide {hidden}") };
        writeln!(out, "{BOLD}{packets}{which}: {}, then {}{BOLD:#}", sides[0], sides[1])?;
        if let Some(rule) = rule {
            writeln!(out, "  {} {}", ["-", "+"][of.side], clip(&file.text_of(rule), RULE_WIDTH))?;
        }
        let schema = &self.found.schemas[of.schema];
        writeln!(out, "    {DIM}for example {}{DIM:#}", show::values(schema, &of.packet, &of.hidden).join("; "))
    }

    /// Returns the schema of a packet.
    fn schema(&self, packet: &FieldValues) -> Option<&Schema> {
        self.found.schemas.iter().find(|schema| schema.family() == packet.family)
    }

    /// Returns the names of the fields that packets hide and that one file needs.
    fn hidden(&self, of: &OneSided) -> Vec<&str> {
        let fields = self.found.schemas[of.schema].fields();
        of.hidden.iter().map(|&field| fields[field].name()).collect()
    }

    fn json(&self, most: usize, out: &mut dyn Write) -> io::Result<()> {
        let pairs = self.found.pairs.iter().take(most).map(|pair| self.pair(pair));
        let value = json!({
            "format": "firstmatch diff",
            "version": 1,
            "files": self.files.map(|file| &file.name),
            "pairs": pairs.collect::<Vec<_>>(),
            "all_pairs": self.found.pairs.len(),
            "one_sided": self.found.one_sided.iter().map(|of| self.one_sided(of)).collect::<Vec<_>>(),
            "policy": self.policies,
            "undecided": self.found.undecided,
            "beyond_limits": self.beyond(),
            "equal": self.found.is_none(),
            "work": self.found.work,
            "traffic": self.traffic.as_ref().map(|(value, _)| value),
        });
        serde_json::to_writer_pretty(&mut *out, &value)?;
        writeln!(out)
    }

    /// Returns the regions of a pair as conditions.
    fn regions(&self, pair: &Difference) -> Vec<String> {
        let schemas = &self.found.schemas;
        let of = |(schema, regions): &(usize, Regions)| {
            regions.iter().map(|region| show::region(&schemas[*schema], &region)).collect::<Vec<_>>()
        };
        pair.regions.iter().flat_map(of).collect()
    }

    fn rule(&self, side: usize, id: RuleId) -> Option<Value> {
        let file = self.files[side];
        let rule = file.rule(id)?;
        Some(json!({ "line": file.line_of(rule), "rule": id.to_string(), "text": file.text_of(rule) }))
    }

    fn one_sided(&self, of: &OneSided) -> Value {
        let side = |side: usize| {
            let is_unknown = side != of.side;
            let rule = of.rule.filter(|_| !is_unknown).and_then(|id| self.rule(side, id));
            json!({ "rule": rule, "verdict": of.verdicts[side].to_string(), "unknown": is_unknown })
        };
        let schema = &self.found.schemas[of.schema];
        json!({
            "packets": of.packets,
            "hidden": self.hidden(of),
            "before": side(0),
            "after": side(1),
            "family": schema.family().map(firstmatch_core::schema::Family::name),
            "packet": packet(schema.fields(), &of.packet),
        })
    }

    fn pair(&self, pair: &Difference) -> Value {
        let side = |side: usize| {
            let rule = pair.rules[side].and_then(|id| self.rule(side, id));
            json!({ "rule": rule, "verdict": pair.verdicts[side].to_string() })
        };
        let schema = self.schema(&pair.packet);
        let fields = schema.map_or(&[][..], |schema| schema.fields());
        json!({
            "before": side(0),
            "after": side(1),
            "family": pair.packet.family.map(firstmatch_core::schema::Family::name),
            "packet": packet(fields, &pair.packet),
            "regions": self.regions(pair),
            "more_regions": pair.has_more_regions,
        })
    }
}
