//! Rule files, as all commands read them.

use std::path::Path;

use firstmatch::format::{self, Options, RuleFile};
use firstmatch::policy::Verdict;
use firstmatch::rule::{Lowered, Rule, lower};
use firstmatch::{BuildError, Diagnostic, Match, RuleId};
use firstmatch_net::source::{self, SourceError};

use crate::diagnostics;

/// A rule file, and its text to show rules with.
pub(crate) struct Loaded {
    /// Its path, as given.
    pub(crate) name: String,
    text: String,
    /// Where each line begins.
    lines: Vec<usize>,
    pub(crate) file: RuleFile,
    options: Options,
}

/// Reads a rule file and shows its warnings; `None` where it has faults, which are then shown.
pub(crate) fn load(path: &Path, flags: bool) -> anyhow::Result<Option<Loaded>> {
    let name = display(path);
    let text = match source::read_text(path) {
        Ok(text) => text,
        Err(error) => return source_error(&name, error).map(|()| None),
    };
    let options = Options { flags, ..Options::default() };
    let file = match format::parse(&text, &options) {
        Ok(file) => file,
        Err(error) => {
            for fault in error.faults() {
                diagnostics::fault(&name, fault);
            }
            let count = error.faults().len() + error.more();
            let faults = if count == 1 { "there is a fault".to_owned() } else { format!("there are {count} faults") };
            let shown = if error.more() > 0 {
                format!("; the first {} are shown", error.faults().len())
            } else {
                String::new()
            };
            diagnostics::error(&format!("{name}: {faults} in the rules{shown}"));
            return Ok(None);
        }
    };
    for warning in &file.warnings {
        diagnostics::hint(&name, warning);
    }
    if file.more_warnings > 0 {
        diagnostics::warning(&format!("{name}: {} more warnings like these", file.more_warnings));
    }
    let newlines = text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1);
    let lines = std::iter::once(0).chain(newlines).collect();
    Ok(Some(Loaded { name, text, lines, file, options }))
}

/// Shows an error of a source with its line, or hands it on.
pub(crate) fn source_error(name: &str, error: SourceError) -> anyhow::Result<()> {
    match error.diagnostic() {
        Some(diagnostic) => diagnostics::fault(name, diagnostic),
        None => return Err(error.into()),
    }
    Ok(())
}

pub(crate) fn display(path: &Path) -> String {
    if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() }
}

impl Loaded {
    /// The regions of the rules, for each schema; `None` where there are too many, which is then shown.
    pub(crate) fn lower(&self) -> Option<Vec<Lowered>> {
        let rules = &self.file.rules;
        let lowered = rules.schemas().iter().map(|schema| lower(rules, schema, &self.options.caps));
        lowered.collect::<Result<_, _>>().map_err(|error| self.build_error(&error)).ok()
    }

    /// Shows why an engine could not be built, with the rule's line where there is one.
    pub(crate) fn build_error(&self, error: &BuildError) {
        let Some(line) = error.line() else { return diagnostics::error(&format!("{}: {error}", self.name)) };
        let text = self.raw_line(line).to_owned();
        let start = text.len() - text.trim_start().len();
        let message = error.to_string();
        let prefix = format!("line {line}: ");
        diagnostics::fault(
            &self.name,
            &Diagnostic {
                line,
                column: text[..start].chars().count() as u32 + 1,
                width: text.trim().chars().count() as u32,
                message: message.strip_prefix(&prefix).unwrap_or(&message).to_owned(),
                expected: None,
                text,
            },
        );
    }

    pub(crate) fn rule(&self, id: RuleId) -> Option<&Rule> {
        self.file.rules.get(id)
    }

    /// The rule on a line.
    pub(crate) fn rule_on(&self, line: u32) -> Option<&Rule> {
        self.file.rules.at(firstmatch::rule::Priority::of_line(line))
    }

    /// `path:line` of a rule.
    pub(crate) fn place(&self, rule: &Rule) -> String {
        format!("{}:{}", self.name, line_of(rule))
    }

    /// The text of a rule, blanks folded.
    pub(crate) fn text_of(&self, rule: &Rule) -> String {
        self.raw_line(line_of(rule)).split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn raw_line(&self, line: u32) -> &str {
        let start = self.lines.get(line as usize - 1).copied().unwrap_or(self.text.len());
        let end = self.lines.get(line as usize).copied().unwrap_or(self.text.len());
        self.text[start..end].trim_end_matches(['\n', '\r'])
    }

    /// What becomes of a classified packet.
    pub(crate) fn verdict(&self, answer: Option<Match>) -> Verdict {
        let rule = answer.and_then(|found| self.rule(found.rule));
        rule.map_or(self.file.policy.default, |rule| rule.action.into())
    }
}

/// The line of a rule. All rules here come from a file.
pub(crate) fn line_of(rule: &Rule) -> u32 {
    rule.line.map_or(0, u32::from)
}
