//! Command `firstmatch explain`.

mod packet;
mod stated;

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use firstmatch::show;
use firstmatch_core::rule::{FieldValues, Rule};
use firstmatch_core::schema::{Field, Schema};
use firstmatch_net::source::{self, Input, SourceError};
use firstmatch_net::wire::{self, Batch, Config, Headers, SourceSet};

use crate::args::ExplainArgs;
use crate::format::{BOLD, DIM, clip, counted, thousands, time};
use crate::rules::{self, Loaded};
use crate::{End, answer_to};

/// Maximum number of rules shown that would have matched next.
const NEXT: usize = 5;
const RULE_WIDTH: usize = 160;
/// Maximum width of a condition, in characters, for which the column of packet values is aligned.
const ALIGNED: usize = 60;

pub(crate) fn run(args: &ExplainArgs) -> anyhow::Result<End> {
    let Some(loaded) = rules::load(&args.rules, args.reading())? else { return Ok(End::BadInput) };
    let mut asked = Vec::new();
    for &line in &args.rule {
        match loaded.rules_on(line)[..] {
            [rule] => asked.push(rule),
            ref rules if loaded.goes_by_line() && !rules.is_empty() => asked.extend(rules),
            [] => bail!("{}", no_rule(&loaded, line)),
            ref rules => bail!(
                "{}:{line}: there are {} rules on this line; `firstmatch convert --to json` gives each its own",
                loaded.name,
                thousands(rules.len() as u64)
            ),
        }
    }
    let config = loaded.wire_config(args.metadata)?;
    let text = args.packet.join(" ");
    let (what, packet) = match find(text, args, &config, &loaded) {
        Ok(found) => found,
        Err(error) => {
            let Some(source) = error.downcast_ref::<SourceError>() else { return Err(error) };
            return rules::source_error(source.name(), source.clone()).map(|()| End::BadInput);
        }
    };
    let mut out = answer_to(false);
    // The fields of a table's row are the fields of the rules that decide.
    let is_row = matches!(packet, Packet::Values(_));
    let same = |audited: &Loaded| audited.file.rules.schemas() == loaded.file.rules.schemas();
    let audited = loaded.audited().filter(|audited| !is_row || same(audited));
    let in_force = audited.as_ref().map(|audited| Explanation::new(audited, &config, packet.clone())).transpose()?;
    Explanation::new(&loaded, &config, packet)?.print(&what, &asked, &mut out)?;
    if let (Some(audited), Some(Some(rule))) = (&audited, in_force.and_then(|explained| explained.decision()))
        && loaded.file.is_audit(rule)
    {
        writeln!(out, "\n{BOLD}audit{BOLD:#}    would decide, were it in force: {}", audited.place(rule))?;
        writeln!(out, "         {}", clip(&audited.text_of(rule), RULE_WIDTH))?;
    }
    out.flush()?;
    Ok(End::Done)
}

/// Packet to explain, as its headers or as its fields' values.
#[derive(Clone)]
pub(crate) enum Packet {
    Headers(Box<Headers>),
    /// Headers that are stated field by field.
    Stated(Box<Headers>),
    Values(FieldValues),
}

/// Returns the packet that the command names, and a name for it.
fn find(text: String, args: &ExplainArgs, config: &Config, loaded: &Loaded) -> anyhow::Result<(String, Packet)> {
    let is_file = |path: &str| path == "-" || Path::new(path).exists();
    let numbered = text.rsplit_once('#').and_then(|(path, number)| Some((path, packet::number(number)?)));
    if let Some(number) = args.number {
        match numbered {
            Some((path, other)) if !is_file(&text) && is_file(path) => {
                bail!("which packet of {path}, {other} or {number}? Say one of `#{other}` and `--packet {number}`")
            }
            _ if !is_file(&text) && packet::parse(&text).is_ok() => {
                bail!("--packet is the number of a packet in a file; `{text}` is a packet by hand")
            }
            _ => return from_file(&text, number, args, config, loaded),
        }
    }
    if let Some((path, number)) = numbered {
        return from_file(path, number, args, config, loaded);
    }
    if Path::new(&text).exists() {
        bail!("which packet of {text}? Say '{text}#0', or --packet 0");
    }
    let packet = by_hand(&text, config, loaded)?;
    Ok((text, packet))
}

/// Returns the packet that a text describes: `tcp 10.1.2.3:4040 > 192.0.2.7:443`, or field by field as findings do.
pub(crate) fn by_hand(text: &str, config: &Config, loaded: &Loaded) -> anyhow::Result<Packet> {
    if stated::is_stated(text, loaded) {
        return stated::parse(text, loaded, config);
    }
    let packet = packet::parse(text)?;
    Ok(Packet::Headers(Box::new(wire::parse(config, wire::LinkType::Ethernet, &packet.frame()))))
}

/// Returns the answer about a packet that a text describes, without colours.
#[cfg(all(feature = "live", target_os = "linux"))]
pub(crate) fn in_words(text: &str, loaded: &Loaded) -> anyhow::Result<String> {
    let config = loaded.wire_config(None)?;
    let mut out = anstream::StripStream::new(Vec::new());
    Explanation::new(loaded, &config, by_hand(text, &config, loaded)?)?.print(text, &[], &mut out)?;
    Ok(String::from_utf8(out.into_inner())?)
}

fn no_rule(loaded: &Loaded, line: u32) -> String {
    let lines = loaded.file.rules.iter().map(|rule| loaded.line_of(rule));
    let nearest = lines.min_by_key(|l| l.abs_diff(line));
    let hint = nearest.map_or(String::new(), |line| format!("; the nearest is on line {line}"));
    format!("{}:{line}: there is no rule on this line{hint}", loaded.name)
}

/// Returns the packet of this number in a capture, a trace or a table, and a name for it.
fn from_file(
    path: &str,
    number: u64,
    args: &ExplainArgs,
    config: &Config,
    loaded: &Loaded,
) -> anyhow::Result<(String, Packet)> {
    let name = rules::display(Path::new(path));
    let mut count = 0;
    let found = match args.flows.apply(source::open(Path::new(path))?)? {
        Input::Capture(mut capture) => loop {
            let Some(packet) = capture.next()? else { break None };
            if count == number {
                let mut size = counted(packet.original_len.into(), "byte");
                if let wire::LinkType::Other(_) = packet.link {
                    size += &format!(" of {}, which is not read", packet.link);
                }
                if let Some(nanos) = packet.time {
                    size += &format!(", captured {}", time(nanos));
                }
                let headers = wire::parse_on(config, packet.interface, packet.link, packet.data, packet.original_len);
                break Some((size, Packet::Headers(Box::new(headers))));
            }
            count += 1;
        },
        Input::Trace(mut trace) => loop {
            let Some(record) = trace.next()? else { break None };
            if count == number {
                let headers = record.headers().with_metadata(config.metadata);
                break Some((format!("line {}", trace.line()), Packet::Headers(Box::new(headers))));
            }
            count += 1;
        },
        Input::Table(_) if args.metadata.is_some() => {
            bail!("{name} is a table, which has the metadata of each packet itself: leave out --metadata")
        }
        Input::Table(table) => {
            let mut rows = table.into_rows(loaded.file.rules.schemas())?;
            loop {
                let Some(row) = rows.next()? else { break None };
                if count == number {
                    let packet = Packet::Values(row.values.clone());
                    break Some((format!("line {}", rows.line()), packet));
                }
                count += 1;
            }
        }
        Input::Flows(log) => {
            let mut flows = log.into_flows(args.flows.options(args.metadata)?);
            loop {
                let Some(flow) = flows.next()? else { break None };
                if count == number {
                    let packet = Packet::Headers(Box::new(*flow.headers));
                    break Some((format!("line {}", flows.line()), packet));
                }
                count += 1;
            }
        }
    };
    let (detail, packet) = found.ok_or_else(|| {
        let range = if count == 0 { String::new() } else { format!(", 0 to {}", thousands(count - 1)) };
        anyhow!("{name} has no packet {number}: there are {}{range}", thousands(count))
    })?;
    Ok((format!("number {number} of {name}, {detail}"), packet))
}

/// Decision on a packet with its reasons.
pub(crate) struct Explanation<'a> {
    loaded: &'a Loaded,
    /// Fields of the packet, as text.
    lines: Vec<String>,
    /// Values of the fields, or the reason why the packet is unknown.
    values: Result<FieldValues, String>,
}

impl<'a> Explanation<'a> {
    pub(crate) fn new(loaded: &'a Loaded, config: &Config, packet: Packet) -> anyhow::Result<Self> {
        let schemas = loaded.file.rules.schemas();
        let is_stated = matches!(packet, Packet::Stated(_));
        let (lines, values) = match packet {
            Packet::Values(values) => {
                let schema = schemas.iter().find(|schema| schema.family() == values.family);
                (schema.map_or(Vec::new(), |schema| show::values(schema, &values, &[])), Ok(values))
            }
            Packet::Headers(headers) | Packet::Stated(headers) => {
                let mut batch =
                    Batch::for_rules(config, &loaded.file.rules).context("these rules cannot be applied to packets")?;
                // All fields that rules might test are shown, whether or not the rules do.
                let fields = schemas.iter().flat_map(Schema::fields);
                let asked = SourceSet::of(&fields.filter_map(Field::source).collect::<Vec<_>>());
                let outcome = batch.push_headers(&headers, 0);
                let why = || match is_stated && outcome != wire::Outcome::OtherFamily {
                    true => "what the rules test is unknown in it".to_owned(),
                    false => show::why_unknown(outcome),
                };
                (show::headers(&headers, asked), batch.values(&headers).ok_or_else(why))
            }
        };
        Ok(Self { loaded, lines, values })
    }

    /// Returns the first rule that matches, if one does; `None` for a packet that cannot be classified.
    pub(crate) fn decision(&self) -> Option<Option<&'a Rule>> {
        let values = self.values.as_ref().ok()?;
        Some(self.loaded.file.rules.iter().find(|rule| self.matches(rule, values)))
    }

    pub(crate) fn print(&self, what: &str, asked: &[&Rule], out: &mut dyn Write) -> anyhow::Result<()> {
        writeln!(out, "{BOLD}packet{BOLD:#}   {what}")?;
        for line in &self.lines {
            writeln!(out, "         {line}")?;
        }
        let policy = &self.loaded.file.policy;
        let values = match &self.values {
            Ok(values) => values,
            Err(why) => return self.print_unknown(why, out),
        };
        let mut matching: Vec<&Rule> =
            self.loaded.file.rules.iter().filter(|rule| self.matches(rule, values)).collect();
        if self.loaded.goes_by_line() {
            let mut lines = HashSet::new();
            matching.retain(|rule| lines.insert(self.loaded.line_of(rule)));
        }
        match matching.first() {
            Some(rule) => {
                writeln!(
                    out,
                    "\n{BOLD}verdict{BOLD:#}  {BOLD}{}{BOLD:#}, by {}",
                    rule.action,
                    self.loaded.place(rule)
                )?;
                writeln!(out, "         {}", clip(&self.loaded.text_of(rule), RULE_WIDTH))?;
                for member in self.loaded.members_of(rule, values) {
                    writeln!(out, "         {member}")?;
                }
            }
            None => {
                let default = policy.default;
                writeln!(
                    out,
                    "\n{BOLD}verdict{BOLD:#}  {BOLD}{default}{BOLD:#}: no rule matches, this is the default"
                )?;
            }
        }
        if matching.len() > 1 {
            writeln!(out, "\n{BOLD}next{BOLD:#}     would have matched without it:")?;
            for rule in matching.iter().skip(1).take(NEXT) {
                let text = clip(&self.loaded.text_of(rule), RULE_WIDTH);
                writeln!(out, "         {}  {text}", self.loaded.place(rule))?;
            }
            if matching.len() > NEXT + 1 {
                let more = thousands((matching.len() - NEXT - 1) as u64);
                writeln!(out, "         {DIM}and {more} more{DIM:#}")?;
            }
        }
        for rule in asked {
            self.print_rule(rule, values, matching.first().copied(), out)?;
        }
        Ok(())
    }

    fn print_rule(
        &self,
        rule: &Rule,
        values: &FieldValues,
        winner: Option<&Rule>,
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        writeln!(out, "\n{BOLD}rule{BOLD:#}     {}", self.loaded.place(rule))?;
        writeln!(out, "         {}", clip(&self.loaded.text_of(rule), RULE_WIDTH))?;
        let Some(schema) = self.loaded.file.rules.schema(values.family) else { return Ok(()) };
        let mut failed = Vec::new();
        let mut lines = Vec::new();
        if let (Some(wanted), Some(actual)) = (rule.family, values.family) {
            if wanted != actual {
                failed.push("family");
            }
            let mark = if wanted == actual { "holds" } else { "FAILS" };
            lines.push((mark, format!("family {wanted}"), actual.to_string()));
        }
        for condition in rule.conditions.iter() {
            let field = &schema.fields()[condition.field];
            let holds = condition.holds(schema, values);
            if !holds {
                failed.push(field.name());
            }
            let mark = if holds { "holds" } else { "FAILS" };
            let live = self.loaded.live_condition(rule, condition.field);
            let wanted = live.unwrap_or_else(|| show::condition(condition, field));
            lines.push((mark, wanted, show::actual(condition, field, values)));
        }
        let width = lines.iter().map(|line| line.1.chars().count()).filter(|&w| w <= ALIGNED).max().unwrap_or(0);
        for (mark, wanted, actual) in lines {
            writeln!(out, "         {mark}  {wanted:width$}  {DIM}packet: {actual}{DIM:#}")?;
        }
        let why = match (failed.is_empty(), winner) {
            (false, _) => format!("does not match: {}", failed.join(", ")),
            (true, Some(winner)) if winner.id == rule.id => "matches, and decides".to_owned(),
            (true, Some(winner)) => format!("matches, but {} comes first", self.loaded.place(winner)),
            (true, None) => "matches".to_owned(),
        };
        writeln!(out, "         {why}")?;
        Ok(())
    }

    fn matches(&self, rule: &Rule, values: &FieldValues) -> bool {
        self.loaded.file.rules.schema(values.family).is_some_and(|schema| rule.matches(schema, values))
    }

    fn print_unknown(&self, why: &str, out: &mut dyn Write) -> anyhow::Result<()> {
        let unknown = self.loaded.file.policy.unknown;
        writeln!(out, "\n{BOLD}verdict{BOLD:#}  {BOLD}{unknown}{BOLD:#}: what becomes of unknown packets")?;
        writeln!(out, "         no rule was asked: {why}")?;
        Ok(())
    }
}
