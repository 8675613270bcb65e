//! Collection of faults and warnings.
//!
//! Text is copied and columns are counted only for faults and warnings that are kept.

use super::Options;
use crate::error::ParseError;
use crate::hidden::visible;
use firstmatch_core::Diagnostic;
use firstmatch_core::analyze::covered;
use firstmatch_core::rule::RuleSet;

/// Largest number of characters of a line that a diagnostic shows.
const MAX_TEXT: usize = 4096;
/// Largest number of characters of a word that a message repeats.
const MAX_WORD: usize = 48;

/// Part of one line of the text, in byte offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) line: u32,
    pub(super) line_start: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    /// Returns the span from the start of this one to the end of `last`.
    ///
    /// If `last` is on a later line, it returns this span alone.
    pub(super) fn to(self, last: Self) -> Self {
        if last.line == self.line { Self { end: last.end.max(self.end), ..self } } else { self }
    }

    /// Returns the column it starts in, from 1.
    pub(super) fn column(self, text: &str) -> usize {
        text.get(self.line_start..self.start).map_or(0, |part| part.chars().count()) + 1
    }

    pub(super) fn text(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or("")
    }
}

/// Text of a fault or warning: the fault itself, and the text that was expected.
#[derive(Clone, Debug)]
pub(super) struct Message {
    what: String,
    expected: Option<String>,
    suggested: bool,
}

impl Message {
    pub(super) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), expected: None, suggested: false }
    }

    /// Sets the expected text, unless there is a suggestion already.
    pub(super) fn expected(mut self, expected: impl Into<String>) -> Self {
        if !self.suggested {
            self.expected = Some(expected.into());
        }
        self
    }

    /// Sets the expected text if there is none yet.
    pub(super) fn or_expected(self, expected: impl FnOnce() -> String) -> Self {
        if self.expected.is_some() { self } else { self.expected(expected()) }
    }

    /// Returns the fault itself and the expected text.
    pub(super) fn into_parts(self) -> (String, Option<String>) {
        (self.what, self.expected)
    }

    /// Puts `subject` before the text.
    pub(super) fn about(mut self, subject: &str) -> Self {
        self.what.insert_str(0, subject);
        self
    }

    /// Appends `; did you mean …?` if there is a suggestion.
    pub(super) fn suggest(mut self, suggestion: Option<&str>) -> Self {
        if let Some(suggestion) = suggestion {
            self.suggested = true;
            self.what.push_str(&format!("; did you mean `{suggestion}`?"));
        }
        self
    }
}

impl From<String> for Message {
    fn from(what: String) -> Self {
        Self::new(what)
    }
}

impl From<&str> for Message {
    fn from(what: &str) -> Self {
        Self::new(what)
    }
}

/// Returns a word of the text in backquotes, without hidden characters and cut if it is very long.
pub(super) fn quote(word: &str) -> String {
    match word.char_indices().nth(MAX_WORD) {
        Some((at, _)) => format!("`{}…`", visible(&word[..at])),
        None => format!("`{}`", visible(word)),
    }
}

pub(super) struct Report<'t> {
    text: &'t str,
    faults: Kept,
    warnings: Kept,
    /// Lines of the rules that never decide.
    never: Vec<u32>,
}

/// Warnings of a text without faults.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    pub(super) kept: Vec<Diagnostic>,
    /// Number of warnings beyond those kept.
    pub(super) more: usize,
    /// Lines of rules that never decide, in order.
    pub(super) never: Vec<u32>,
}

#[derive(Default)]
struct Kept {
    kept: Vec<Diagnostic>,
    more: usize,
    cap: usize,
}

/// Index of a kept fault, to amend it later.
#[derive(Clone, Copy, Debug)]
pub(super) struct FaultIndex(usize);

/// Number of faults at one time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    kept: usize,
    more: usize,
}

impl<'t> Report<'t> {
    pub(super) fn new(text: &'t str, options: &Options) -> Self {
        let kept = |cap| Kept { cap, ..Kept::default() };
        Self { text, faults: kept(options.max_faults.max(1)), warnings: kept(options.max_warnings), never: Vec::new() }
    }

    /// Number of faults so far, kept or not.
    pub(super) fn count(&self) -> usize {
        self.faults.kept.len() + self.faults.more
    }

    /// Whether no more faults are kept.
    pub(super) fn is_full(&self) -> bool {
        self.faults.kept.len() >= self.faults.cap
    }

    /// Returns the current end of the faults, to replace those behind it later.
    pub(super) fn mark(&self) -> Mark {
        Mark { kept: self.faults.kept.len(), more: self.faults.more }
    }

    /// Whether faults were noted since `mark`, and the first of them is kept.
    pub(super) fn is_kept(&self, mark: Mark) -> bool {
        self.faults.kept.len() > mark.kept
    }

    /// Replaces the faults since `mark` by one.
    pub(super) fn replace<M: Into<Message>>(&mut self, mark: Mark, span: Span, message: impl FnOnce() -> M) {
        self.faults.kept.truncate(mark.kept);
        self.faults.more = mark.more;
        self.fault(span, message);
    }

    pub(super) fn has_faults(&self) -> bool {
        !self.faults.kept.is_empty()
    }

    /// Notes a fault. The message is built only if it is kept.
    pub(super) fn fault<M: Into<Message>>(&mut self, span: Span, message: impl FnOnce() -> M) -> Option<FaultIndex> {
        self.faults.add(self.text, span, message)
    }

    pub(super) fn warn<M: Into<Message>>(&mut self, span: Span, message: impl FnOnce() -> M) {
        self.warnings.add(self.text, span, message);
    }

    /// Warns that the rule at `span` never decides.
    pub(super) fn warn_of_never<M: Into<Message>>(&mut self, span: Span, message: impl FnOnce() -> M) {
        self.never.push(span.line);
        self.warn(span, message);
    }

    /// Warns of rules that earlier rules cover; all rules are from lines of this text.
    pub(super) fn warn_of_covered(&mut self, rules: &RuleSet) {
        if self.has_faults() || self.warnings.cap == 0 {
            return;
        }
        let text = self.text;
        // Rules come in the order of their lines.
        let mut lines = (1u32..).zip(text.split_inclusive('\n').scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((start, line))
        }));
        covered(rules, |rule, covering| {
            let mut span = Span { line: rule.line.map_or(0, u32::from), ..Span::default() };
            if self.warnings.kept.len() < self.warnings.cap
                && let Some((_, (start, line))) = lines.find(|(number, _)| *number == span.line)
            {
                let bare = line.strip_prefix(super::BOM).filter(|_| start == 0).unwrap_or(line);
                let line_start = start + line.len() - bare.len();
                let rule = bare.split('#').next().unwrap_or(bare).trim_end();
                let first = line_start + (rule.len() - rule.trim_start().len());
                span = Span { line_start, start: first, end: line_start + rule.len(), ..span };
            }
            self.warn_of_never(span, || covering.describe(|rule| rule.line.map_or(0, u32::from)));
        });
    }

    /// Gives a fault another message.
    pub(super) fn amend(&mut self, index: FaultIndex, message: impl Into<Message>) {
        let message = message.into();
        let fault = &mut self.faults.kept[index.0];
        (fault.message, fault.expected) = (message.what, message.expected);
    }

    /// Returns the warnings, or the faults.
    pub(super) fn finish(self) -> Result<Warnings, ParseError> {
        let faults = self.faults.sorted();
        if !faults.0.is_empty() {
            return Err(ParseError::new(faults.0, faults.1));
        }
        let (kept, more) = self.warnings.sorted();
        let mut never = self.never;
        never.sort_unstable();
        never.dedup();
        Ok(Warnings { kept, more, never })
    }
}

impl Kept {
    fn add<M: Into<Message>>(&mut self, text: &str, span: Span, message: impl FnOnce() -> M) -> Option<FaultIndex> {
        if self.kept.len() >= self.cap {
            self.more += 1;
            return None;
        }
        let count = |from: usize, to: usize| text.get(from..to).map_or(0, |part| part.chars().count());
        let line = text.get(span.line_start..).unwrap_or("");
        // A fault of the file as a whole stands before its byte order mark, which is part of no line.
        let line = line.strip_prefix(super::BOM).filter(|_| span.line_start == 0).unwrap_or(line);
        let line = line.split_once('\n').map_or(line, |(line, _)| line);
        let line = line.strip_suffix('\r').unwrap_or(line);
        let shown = match line.char_indices().nth(MAX_TEXT) {
            Some((at, _)) => format!("{}…", visible(&line[..at])),
            None => visible(line).into_owned(),
        };
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let message: Message = message().into();
        self.kept.push(Diagnostic {
            line: span.line,
            column: number(count(span.line_start, span.start)).saturating_add(1),
            width: number(count(span.start, span.end)),
            message: message.what,
            expected: message.expected,
            text: shown,
        });
        Some(FaultIndex(self.kept.len() - 1))
    }

    fn sorted(mut self) -> (Vec<Diagnostic>, usize) {
        self.kept.sort_by_key(|d| (d.line, d.column));
        (self.kept, self.more)
    }
}
