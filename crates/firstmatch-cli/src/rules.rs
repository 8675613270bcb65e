//! Rule files, as all commands read them.

use std::error::Error as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use anyhow::bail;
use firstmatch_core::rule::{ExpansionLimits, FieldValues, Lowered, Rule, RuleSpec, Test, lower_products};
use firstmatch_core::schema::Source;
use firstmatch_core::{BuildError, Diagnostic, RuleId, Schema};
use firstmatch_formats::{Fields, Format, Import, Options, RuleFile};
use firstmatch_net::source::{self, SourceError};
use firstmatch_net::wire;

use crate::args::{ImportArgs, RuleLimits};
use crate::diagnostics;

/// Rule file, with its text for showing rules.
pub(crate) struct Loaded {
    /// Path as given on the command line.
    pub(crate) name: String,
    path: PathBuf,
    text: String,
    /// Offset at which each line begins, found on first use.
    lines: OnceLock<Vec<usize>>,
    /// Rules with the members that live sets have in the file.
    pub(crate) file: RuleFile,
    /// The same file with its live sets, if it has any.
    live: Option<Box<RuleFile>>,
    options: Options,
    /// Line of the text on which each rule begins, by slot; only for JSON files.
    ///
    /// In JSON a rule may begin on any line, and its own line number may be that of another file.
    places: Option<Vec<u32>>,
    /// Format of another firewall's file, in which several rules may come from one line.
    foreign: Option<Format>,
}

/// Options of a command for reading its rules.
#[derive(Clone, Copy)]
pub(crate) struct Reading<'a> {
    /// Whether to keep the flags column of a ClassBench filter set.
    pub(crate) flags: bool,
    pub(crate) limits: &'a RuleLimits,
    pub(crate) import: &'a ImportArgs,
}

impl Reading<'_> {
    /// Returns the options as the reader has them.
    pub(crate) fn options(self, fields: Fields) -> Options {
        let Self { flags, limits, import } = self;
        let (format, expansion) = (import.format(), limits.expansion());
        Options { flags, expansion, fields, format, import: import.view(), ..Options::default() }
    }
}

/// Reads a rule file and shows its warnings; `None` if it has faults, which are then shown.
pub(crate) fn load(path: &Path, reading: Reading<'_>) -> anyhow::Result<Option<Loaded>> {
    Ok(load_quietly(path, reading)?.inspect(Loaded::show_warnings))
}

/// Reads a rule file like [`load`], but counts the rules that never decide in one warning.
pub(crate) fn load_briefly(path: &Path, reading: Reading<'_>) -> anyhow::Result<Option<Loaded>> {
    Ok(load_quietly(path, reading)?.inspect(Loaded::show_warnings_briefly))
}

/// Reads a rule file like [`load`], but shows no warnings about its rules.
pub(crate) fn load_quietly(path: &Path, reading: Reading<'_>) -> anyhow::Result<Option<Loaded>> {
    Ok(load_with(path, reading, Fields::Used)?.inspect(Loaded::warn_of_view))
}

/// Reads a rule file like [`load_quietly`], with the given fields.
pub(crate) fn load_with(path: &Path, reading: Reading<'_>, fields: Fields) -> anyhow::Result<Option<Loaded>> {
    let Some((name, text)) = text(path)? else { return Ok(None) };
    if reading.flags && !has_flags_column(&text) {
        warn_of_flags(&name);
    }
    Ok(Loaded::parse(path, text, reading.options(fields)))
}

/// Reads a rule file like [`load_quietly`], and calls `note` with each file that it includes, before that is read.
#[cfg(all(feature = "live", target_os = "linux"))]
pub(crate) fn load_noting(
    path: &Path,
    expansion: ExpansionLimits,
    note: &dyn Fn(&Path),
) -> anyhow::Result<Option<Loaded>> {
    let Some((_, text)) = text(path)? else { return Ok(None) };
    // Live commands take no view, so that a file of another firewall has one fault, which names `convert`.
    let is_foreign = !firstmatch_formats::json::is_json(&text) && firstmatch_formats::sniff(&text).is_foreign();
    let format = is_foreign.then_some(Format::Native);
    Ok(Loaded::parse_noting(path, text, Options { expansion, format, ..Options::default() }, note))
}

/// Returns the name and the text of a rule file.
///
/// The result is `None` if the text has a fault, which is then shown.
pub(crate) fn text(path: &Path) -> anyhow::Result<Option<(String, String)>> {
    let name = display(path);
    match source::read_text(path) {
        Ok(text) => Ok(Some((name, text))),
        Err(error) => source_error(&name, error).map(|()| None),
    }
}

/// Returns whether a rule file is a ClassBench filter set, the only one with a column of flags.
pub(crate) fn has_flags_column(text: &str) -> bool {
    !firstmatch_formats::json::is_json(text) && firstmatch_formats::sniff(text) == Format::ClassBench
}

/// Warns that `--flags` was given although the file is not a ClassBench filter set.
pub(crate) fn warn_of_flags(name: &str) {
    diagnostics::warning(&format!("{name}: --flags changes nothing, because this is not a ClassBench filter set"));
}

/// Shows the faults of a rule file.
fn show_faults(name: &str, faults: &[Diagnostic], more: usize) {
    for fault in faults {
        diagnostics::fault(name, fault);
    }
    let count = faults.len() + more;
    let there = if count == 1 { "there is a fault".to_owned() } else { format!("there are {count} faults") };
    let shown = if more > 0 { format!("; the first {} are shown", faults.len()) } else { String::new() };
    diagnostics::error(&format!("{name}: {there} in the rules{shown}"));
}

/// Shows an error of a source with its line, or returns it if it has no line.
pub(crate) fn source_error(name: &str, error: SourceError) -> anyhow::Result<()> {
    match error.diagnostic() {
        Some(diagnostic) => diagnostics::fault(name, diagnostic),
        None => return Err(error.into()),
    }
    Ok(())
}

/// Returns the text of a file that the rules of `path` include, after a call of `note` with its path.
///
/// Its name is relative to their folder, or to the current one if they come from standard input.
fn included(path: &Path, file: &str, note: &dyn Fn(&Path)) -> Result<String, String> {
    let file = path.parent().unwrap_or(Path::new("")).join(file);
    if file == Path::new("-") {
        return Err("standard input is no file".into());
    }
    note(&file);
    source::read_text(&file).map_err(|error| match error.diagnostic() {
        Some(fault) => fault.to_string(),
        None => error.to_string(),
    })
}

/// Gives the rules the members that live sets have, and returns the file as it was if it has live sets.
fn resolve(file: &mut RuleFile) -> Option<Box<RuleFile>> {
    if file.rules.live_sets().is_empty() {
        return None;
    }
    let live = file.clone();
    file.rules = file.rules.resolved();
    if let Some(audited) = &mut file.audited {
        audited.rules = audited.rules.resolved();
    }
    Some(Box::new(live))
}

pub(crate) fn display(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

impl Loaded {
    /// Reads the text of a rule file; `None` if it has faults, which are then shown.
    pub(crate) fn parse(path: &Path, text: String, options: Options) -> Option<Self> {
        Self::parse_noting(path, text, options, &|_| {})
    }

    /// Does the same, and calls `note` with each file that it includes, before that is read.
    fn parse_noting(path: &Path, text: String, options: Options, note: &dyn Fn(&Path)) -> Option<Self> {
        let name = display(path);
        let is_json = options.format.is_none() && firstmatch_formats::json::is_json(&text);
        let (mut file, places) = if is_json {
            match firstmatch_formats::json::read(&text, &options) {
                Ok(read) => (read.file, Some(read.lines)),
                Err(error) => {
                    show_faults(&name, &error.faults, error.more);
                    return None;
                }
            }
        } else {
            match firstmatch_formats::parse_with(&text, &options, &|file| included(path, file, note)) {
                Ok(file) => (file, None),
                Err(error) => {
                    show_faults(&name, error.faults(), error.more());
                    return None;
                }
            }
        };
        let format = options.format.unwrap_or_else(|| firstmatch_formats::sniff(&text));
        let foreign = Some(format).filter(|format| format.is_foreign() && !is_json);
        let live = resolve(&mut file);
        Some(Self { name, path: path.to_owned(), text, lines: OnceLock::new(), file, live, options, places, foreign })
    }

    /// Reads the same text again, with or without the flags column of ClassBench.
    pub(crate) fn parse_again(self, flags: bool) -> Option<Self> {
        let Self { path, text, options, .. } = self;
        Self::parse(&path, text, Options { flags, ..options })
    }

    /// Warns of options for a view that this file has not.
    pub(crate) fn warn_of_view(&self) {
        let mut without_list = self.options.import.clone();
        let list = without_list.list.take();
        let has_views = self.has_views();
        let what = match self.foreign {
            None if self.options.import != Import::default() => {
                "the hook, the interfaces, the state and the list change"
            }
            Some(_) if !has_views && without_list != Import::default() => {
                "the hook, the interfaces and the state change"
            }
            Some(format) if !format.has_lists() && list.is_some() => "the list changes",
            _ => return,
        };
        let why = match self.foreign {
            None => "this is no file of another firewall",
            Some(_) if has_views => "files of this format are one list",
            Some(_) => "access lists do not depend on them",
        };
        diagnostics::warning(&format!("{}: {what} nothing, because {why}", self.name));
    }

    /// Returns the limits on the regions of rules.
    pub(crate) fn expansion(&self) -> ExpansionLimits {
        self.options.expansion
    }

    pub(crate) fn show_warnings(&self) {
        self.show_warnings_but(|_| false);
    }

    /// Shows the warnings about the rules, except those for which `except` is true.
    pub(crate) fn show_warnings_but(&self, except: impl Fn(&Diagnostic) -> bool) {
        self.show_notes();
        for warning in self.file.warnings.iter().filter(|warning| !except(warning)) {
            diagnostics::hint(&self.name, warning);
        }
        if self.file.more_warnings > 0 {
            diagnostics::warning(&format!("{}: {} more warnings like these", self.name, self.file.more_warnings));
        }
    }

    /// Shows the warnings about the rules; those about rules that never decide are one line together.
    pub(crate) fn show_warnings_briefly(&self) {
        self.show_notes();
        let never = &self.file.never;
        let is_never = |warning: &&Diagnostic| never.binary_search(&warning.line).is_ok();
        self.file.warnings.iter().filter(|warning| !is_never(warning)).for_each(|it| diagnostics::hint(&self.name, it));
        let hidden = never.len().saturating_sub(self.file.warnings.iter().filter(is_never).count());
        let more = self.file.more_warnings.saturating_sub(hidden);
        if more > 0 {
            diagnostics::warning(&format!("{}: {more} more warnings like these", self.name));
        }
        if never.is_empty() {
            return;
        }
        let rules =
            if never.len() == 1 { "1 rule decides".to_owned() } else { format!("{} rules decide", never.len()) };
        let file = if self.path == Path::new("-") { "RULES" } else { &self.name };
        diagnostics::warning(&format!("{}: {rules} no packet; `firstmatch check {file}` shows why", self.name));
    }

    /// Shows what the view of a file of another firewall left out.
    fn show_notes(&self) {
        self.file.notes.iter().for_each(|note| diagnostics::note(&format!("{}: {note}", self.name)));
    }

    /// Returns the file with its live sets, whose members may change in service.
    pub(crate) fn with_live_sets(&self) -> &RuleFile {
        self.live.as_deref().unwrap_or(&self.file)
    }

    /// Returns a condition that tests live sets as rules write it; `None` for any other condition.
    pub(crate) fn live_condition(&self, rule: &Rule, field: usize) -> Option<String> {
        let rules = &self.live.as_deref()?.rules;
        let rule = rules.get(rule.id)?;
        let condition = rule.conditions.on(field).filter(|condition| condition.tests_live_sets())?;
        let conditions = [condition.unpack()].into();
        let alone = Rule { id: rule.id, spec: RuleSpec { conditions, family: None, ..rule.spec.clone() } };
        let text = firstmatch_formats::write::native_rule(rules, &alone).ok()?;
        text.strip_prefix(&format!("{} ", rule.action)).map(str::to_owned)
    }

    /// Returns the members of live sets that are why a rule matches: text such as `192.0.2.0/24 is in $bad`.
    pub(crate) fn members_of(&self, rule: &Rule, values: &FieldValues) -> Vec<String> {
        let rules = self.live.as_deref().map(|live| &live.rules);
        let Some((rules, rule)) = rules.and_then(|rules| Some((rules, rules.get(rule.id)?))) else { return Vec::new() };
        let mut found = Vec::new();
        for condition in rule.conditions.iter().filter(|condition| !condition.negated) {
            let (Some(family), Some(value)) = (values.family, values.values[condition.field]) else { continue };
            for (_, test) in condition.tests() {
                if let Test::Set(id) = test
                    && let Some(set) = rules.live_sets().get(id)
                {
                    let member = set.member_with(family, value);
                    found.extend(member.map(|member| format!("{member} is in ${}", set.name())));
                }
            }
        }
        found
    }

    /// Returns the same file with its audit rules in force, if it has any.
    pub(crate) fn audited(&self) -> Option<Self> {
        let file = self.file.audited.as_deref()?.clone();
        let Self { name, path, text, options, places, foreign, .. } = self;
        let (name, path, text, options) = (name.clone(), path.clone(), text.clone(), options.clone());
        let (places, foreign) = (places.clone(), *foreign);
        let live = self.live.as_deref().and_then(|live| live.audited.clone());
        Some(Self { name, path, text, lines: OnceLock::new(), file, live, options, places, foreign })
    }

    /// Returns the rules lowered for each schema; `None` if a condition has too many regions, and then an error is shown.
    ///
    /// Engines of regions refuse rules that have too many of them together.
    pub(crate) fn lower(&self) -> Option<Vec<Lowered>> {
        let rules = &self.file.rules;
        let lowered = rules.schemas().iter().map(|schema| lower_products(rules, schema, &self.options.expansion));
        lowered.collect::<Result<_, _>>().map_err(|error| self.build_error(&error, None)).ok()
    }

    /// Shows why an engine could not be built, with the rule's line if known, and the remedy `help`.
    pub(crate) fn build_error(&self, error: &BuildError, help: Option<String>) {
        let mut message = error.to_string();
        if let Some(help) = help {
            message.push_str("; ");
            message.push_str(&help);
        }
        let rule = error.rule().and_then(|id| self.rule(id));
        let Some(line) = rule.map(|rule| self.line_of(rule)).or(error.line()) else {
            return diagnostics::error(&format!("{}: {message}", self.name));
        };
        // The error names the rule itself.
        let own = match (error.line(), error.rule()) {
            (Some(line), _) => format!("line {line}: "),
            (None, Some(rule)) => format!("rule {rule}: "),
            (None, None) => String::new(),
        };
        self.fault_on(line, message.strip_prefix(&own).unwrap_or(&message).to_owned(), None);
    }

    /// Shows why rules could not be served, with the remedy that `help` finds, or returns the error if no rule or limit
    /// is the reason.
    pub(crate) fn not_built(
        &self,
        error: firstmatch::Error,
        help: impl Fn(&BuildError) -> Option<String>,
    ) -> anyhow::Result<()> {
        match error.source().and_then(|error| error.downcast_ref()) {
            Some(error) => self.build_error(error, help(error)),
            None => return Err(error.into()),
        }
        Ok(())
    }

    /// Shows a fault of the rule that begins on a line.
    pub(crate) fn fault_on(&self, line: u32, message: String, expected: Option<String>) {
        let text = self.raw_line(line).to_owned();
        let start = text.len() - text.trim_start().len();
        let column = text[..start].chars().count() as u32 + 1;
        let width = text.trim().chars().count() as u32;
        diagnostics::fault(&self.name, &Diagnostic { line, column, width, message, expected, text });
    }

    pub(crate) fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.file.rules.get(id)
    }

    /// Returns the label of a rule, if it has one.
    pub(crate) fn label_of(&self, rule: &Rule) -> Option<&str> {
        self.file.labels.get(&rule.id).map(|label| &**label)
    }

    /// Whether several rules may come from one line, so that answers are about lines.
    pub(crate) fn goes_by_line(&self) -> bool {
        self.foreign.is_some()
    }

    /// Whether the rules depend on the view that they are read for.
    pub(crate) fn has_views(&self) -> bool {
        self.foreign.is_some_and(Format::has_views)
    }

    /// Returns the rules on a line: at most one, except in JSON and in files of other firewalls.
    pub(crate) fn rules_on(&self, line: u32) -> Vec<&Rule> {
        match &self.places {
            None if self.foreign.is_none() => {
                self.file.rules.at(firstmatch_core::rule::Priority::of_line(line)).into_iter().collect()
            }
            _ => self.file.rules.iter().filter(|rule| self.line_of(rule) == line).collect(),
        }
    }

    /// Returns the line that a rule stands on. All rules here come from a file.
    pub(crate) fn line_of(&self, rule: &Rule) -> u32 {
        match &self.places {
            None => rule.line.map_or(0, u32::from),
            Some(places) => places.get(rule.id.slot()).copied().unwrap_or(0),
        }
    }

    /// Returns the place of a rule as `path:line`.
    pub(crate) fn place(&self, rule: &Rule) -> String {
        format!("{}:{}", self.name, self.line_of(rule))
    }

    /// Returns the text of a rule with its blanks folded, safe to print.
    ///
    /// A rule of a JSON file is shown as in a native file, if that format holds it.
    pub(crate) fn text_of(&self, rule: &Rule) -> String {
        if self.places.is_some()
            && let Ok(text) = firstmatch_formats::write::native_rule(&self.file.rules, rule)
        {
            return text;
        }
        let text = self.raw_line(self.line_of(rule)).split_whitespace().collect::<Vec<_>>().join(" ");
        firstmatch_formats::visible(&text).into_owned()
    }

    fn raw_line(&self, line: u32) -> &str {
        let lines = self.lines.get_or_init(|| {
            let newlines = self.text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
            std::iter::once(0).chain(newlines).collect()
        });
        let start = lines.get((line as usize).saturating_sub(1)).copied().unwrap_or(self.text.len());
        let end = lines.get(line as usize).copied().unwrap_or(self.text.len());
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }

    /// Returns the parser's configuration; an error if no rule can test the `metadata` given.
    pub(crate) fn wire_config(&self, metadata: Option<u64>) -> anyhow::Result<wire::Config> {
        let has_field = |schema: &Schema| schema.index_of_source(Source::Metadata).is_some();
        if metadata.is_some() && !self.file.rules.schemas().iter().any(has_field) {
            bail!("{}: these rules have no field for the metadata of packets", self.name);
        }
        let config = wire::Config::from(&self.file.policy);
        Ok(wire::Config { metadata: metadata.unwrap_or(config.metadata), ..config })
    }
}
