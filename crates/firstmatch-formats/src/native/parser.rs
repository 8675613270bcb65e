//! Basic parts of the parser: lines, directives, lists.
//!
//! A fault is noted at its position. The text after it that cannot be trusted, to the end of the line or of the set's
//! braces, is skipped.

use std::collections::HashMap;

use super::entry::{Class, Entry, fit};
use super::fields::{ALWAYS, Fields};
use super::icmp::Codes;
use super::item;
use super::lexer::{Kind, Lexer, described};
use super::names;
use super::set_table::Sets;
use super::values::{Context, Fault};
use crate::error::ParseError;
use crate::report::{Message, Report, Span, Warnings, quote};
use crate::{BOM, Fields as FieldChoice, Labels, Load, Options, RuleFile};
use firstmatch_core::policy::{Fragments, Policy, Verdict};
use firstmatch_core::rule::{RuleSet, RuleSpec, Test};
use firstmatch_core::schema::Family;

/// Words that a line may start with.
pub(super) const KEYWORDS: [&str; 12] =
    ["permit", "deny", "mark", "match", "audit", "live", "set", "family", "schema", "default", "unknown", "fragments"];

pub(super) const ACTIONS: [&str; 4] = ["permit", "deny", "mark", "match"];

/// Indices of two directives in [`Parser::given`].
pub(super) const FAMILY: usize = 0;
pub(super) const SCHEMA: usize = 4;

/// Signal that a fault is noted and the rest of the line is meaningless.
pub(super) struct Stop;

pub(super) struct Parser<'t> {
    pub(super) text: &'t str,
    pub(super) options: &'t Options,
    /// Reader of files that sets include.
    pub(super) load: &'t Load<'t>,
    /// Number of bytes of these files so far.
    pub(super) included: usize,
    pub(super) lexer: Lexer<'t>,
    pub(super) report: Report<'t>,
    /// Family of `family ipv4` or `family ipv6`.
    pub(super) only: Option<Family>,
    /// Fields that conditions may test.
    pub(super) fields: Fields<'t>,
    policy: Policy,
    /// Lines of the directives family, default, unknown, fragments and schema.
    pub(super) given: [Option<u32>; 5],
    /// Whether a set or a rule was seen.
    pub(super) in_body: bool,
    pub(super) sets: Sets<'t>,
    pub(super) specs: Vec<RuleSpec>,
    /// Labels of rules by line.
    pub(super) labels_of_lines: HashMap<u32, Box<str>>,
    /// Lines of audit rules, in order.
    pub(super) audit_lines: Vec<u32>,
    /// Whether the current token starts a line that must still be read.
    pub(super) resume: bool,
    /// Tests of the condition that is being read.
    pub(super) tests: Vec<(Option<Family>, Test)>,
    /// Packed conditions of the rule that is being read.
    pub(super) packed: Vec<u8>,
    /// Fields of these conditions, with the spans of the conditions.
    pub(super) conditions: Vec<(usize, Span)>,
    /// Family that the rule is confined to, and its span.
    pub(super) confined: Option<(Family, Span)>,
    pub(super) entries: Vec<Entry>,
    /// Types of the ICMP codes that the condition names.
    pub(super) code_types: Vec<&'static str>,
    /// Condition that names ICMP codes.
    pub(super) codes: Option<Codes>,
    /// Whether `not` stands before the values that are being read.
    pub(super) is_negated: bool,
    /// Whether the rule that is being read denies packets, or its action most likely means that.
    pub(super) denies: bool,
    /// Whether the text is one rule for an existing set, not a file.
    pub(super) is_single: bool,
}

impl<'t> Parser<'t> {
    pub(super) fn new(text: &'t str, options: &'t Options, load: &'t Load<'t>) -> Self {
        let start = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        Self {
            text,
            options,
            load,
            included: 0,
            lexer: Lexer::new(text, start),
            report: Report::new(text, options),
            only: None,
            fields: Fields::inet(),
            policy: Policy::default(),
            given: [None; 5],
            in_body: false,
            sets: Sets::default(),
            labels_of_lines: HashMap::new(),
            audit_lines: Vec::new(),
            specs: Vec::new(),
            resume: false,
            tests: Vec::new(),
            packed: Vec::new(),
            conditions: Vec::new(),
            confined: None,
            entries: Vec::new(),
            code_types: Vec::new(),
            codes: None,
            is_negated: false,
            denies: false,
            is_single: false,
        }
    }

    pub(super) fn file(mut self) -> Result<RuleFile, ParseError> {
        let start = self.lexer.span.line_start;
        loop {
            // The fault is noted already.
            let _: Result<(), Stop> = self.line();
            if !std::mem::take(&mut self.resume) && !self.lexer.next_line() {
                break;
            }
        }
        let unused_sets = self.warn_of_unused_sets();
        if self.specs.is_empty() {
            let default = self.policy.default;
            let span = Span { line: 1, line_start: start, start, end: start };
            self.report
                .warn(span, || format!("the file has no rules: every packet gets the default verdict, {default}"));
        }
        let mut specs = std::mem::take(&mut self.specs);
        let audited = match &self.audit_lines[..] {
            [] => None,
            lines => {
                let all = specs.clone();
                specs.retain(|spec| spec.line.is_none_or(|line| lines.binary_search(&line.get()).is_err()));
                let (rules, labels) = self.rule_set(all);
                Some(Box::new(RuleFile { labels, ..RuleFile::new(rules, self.policy) }))
            }
        };
        let (rules, labels) = self.rule_set(specs);
        self.report.warn_of_covered(&rules);
        let Warnings { kept: warnings, more: more_warnings, never } = self.report.finish()?;
        let file = RuleFile::new(rules, self.policy);
        Ok(RuleFile { labels, warnings, more_warnings, never, unused_sets, audited, ..file })
    }

    /// Builds the set of some rules, over the schema that they need, and returns their labels.
    fn rule_set(&mut self, specs: Vec<RuleSpec>) -> (RuleSet, Labels) {
        let tested = |used, spec: &RuleSpec| spec.conditions.iter().fold(used, |used, of| used | 1 << of.field);
        let used = if self.options.fields == FieldChoice::All { u64::MAX } else { specs.iter().fold(0, tested) };
        let mut labels = Labels::new();
        let (schemas, extra) = self.fields.schemas(self.only, used);
        let mut rules = match <[_; 2]>::try_from(schemas) {
            Ok([ipv4, ipv6]) => RuleSet::dual(ipv4, ipv6),
            Err(mut one) => RuleSet::new(one.swap_remove(0)),
        };
        if self.report.has_faults() {
            return (rules, labels);
        }
        self.add_live_sets(&mut rules);
        let place = |field: usize| extra.iter().position(|&f| f == field).map_or(field, |place| ALWAYS + place);
        for mut spec in specs {
            if spec.conditions.iter().any(|condition| place(condition.field) != condition.field) {
                spec.conditions = spec.conditions.renumbered(place);
            }
            let line = spec.line.map_or(0, u32::from);
            match rules.insert(spec) {
                Ok(id) => {
                    labels.extend(self.labels_of_lines.get(&line).map(|label| (id, label.clone())));
                }
                Err(error) => _ = self.report.fault(Span { line, ..Span::default() }, || error.to_string()),
            }
        }
        rules.shrink_to_fit();
        (rules, labels)
    }

    fn line(&mut self) -> Result<(), Stop> {
        let (first, mark) = (self.lexer.span, self.report.mark());
        let read = self.statement();
        self.translate(first, mark);
        read
    }

    /// Reads the statement that begins at the current token.
    fn statement(&mut self) -> Result<(), Stop> {
        let span = self.lexer.span;
        match (self.lexer.kind, self.lexer.word()) {
            (Kind::Eol, _) => Ok(()),
            (Kind::Word, word) if ACTIONS.contains(&word) => self.rule(),
            (Kind::Word, "audit") => self.audit(),
            (Kind::Word, "set") => self.set(),
            (Kind::Word, "live") if !self.is_assignment() => self.live_set(),
            (Kind::Word, "schema") => self.schema(),
            (Kind::Word, "family" | "default" | "unknown" | "fragments") => self.directive(),
            (Kind::Word, "remark") => {
                self.fault(span, || Message::new("`remark` is a comment of Cisco IOS").expected("`#` before a comment"))
            }
            (Kind::Not, _) if span.start == span.line_start => {
                self.fault(span, || Message::new("a line cannot start with `!`").expected("`#` before a comment"))
            }
            (Kind::Set | Kind::Word, _) if self.is_assignment() => self.set_without_word(),
            (Kind::Word, word) => {
                let meant = names::suggest(word, KEYWORDS.into_iter());
                let message = || Message::new(format!("a line cannot start with {}", quote(word))).suggest(meant);
                let stop = self.fault(span, || {
                    message().expected("a rule (permit, deny, mark, match or audit), set or a directive")
                });
                if meant.is_some_and(|meant| ACTIONS.contains(&meant)) {
                    // The rest is read as a rule, so that its faults are found, too.
                    return self.rule();
                }
                stop
            }
            (kind, _) => {
                let stop = self.fault(span, || {
                    let what = format!("a line cannot start with {}", described(kind, span.text(self.text)));
                    Message::new(what).expected("a rule (permit, deny, mark, match or audit), set or a directive")
                });
                match kind {
                    Kind::Open => self.skip_list(true),
                    Kind::Bad => {
                        self.lexer.bump();
                        self.skip_bad();
                        // The rest of a comment, or of a word, is not a line.
                        if self.lexer.kind == Kind::Word && KEYWORDS.contains(&self.lexer.word()) {
                            return self.statement();
                        }
                    }
                    _ => {}
                }
                stop
            }
        }
    }

    fn directive(&mut self) -> Result<(), Stop> {
        let span = self.lexer.span;
        let word = self.lexer.word();
        self.lexer.bump();
        let (index, choices): (usize, &[&str]) = match word {
            "family" => (FAMILY, &["inet", "ipv4", "ipv6"]),
            "default" => (1, &["permit", "deny"]),
            "unknown" => (2, &["permit", "deny"]),
            _ => (3, &["unknown", "layer3"]),
        };
        let line = span.line;
        if let Some(earlier) = self.given[index].replace(line) {
            self.given[index] = Some(earlier);
            return self.fault(span, || format!("{word} is already given on line {earlier}"));
        }
        if let (FAMILY, Some(schema)) = (index, self.given[SCHEMA]) {
            return self.fault(span, || format!("family has no place beside the schema of line {schema}"));
        }
        if word == "family" && self.in_body {
            return self.fault(span, || "family comes after a set or a rule; it must come before the first of them");
        }
        let choice = self.lexer.word();
        let Some(chosen) = choices.iter().position(|&c| c == choice && self.lexer.kind == Kind::Word) else {
            let (span, kind) = (self.lexer.span, self.lexer.kind);
            let list = choices.join(" or ");
            let meant = names::suggest(choice, choices.iter().copied());
            let what = described(kind, span.text(self.text));
            return self.fault(span, || Message::new(format!("{what} after {word}")).suggest(meant).expected(list));
        };
        self.lexer.bump();
        let verdict = if chosen == 0 { Verdict::Permit } else { Verdict::Deny };
        match index {
            FAMILY => {
                self.only = [None, Some(Family::Ipv4), Some(Family::Ipv6)][chosen];
                self.fields.confine(self.only);
            }
            1 => self.policy.default = verdict,
            2 => self.policy.unknown = verdict,
            _ => self.policy.fragments = [Fragments::Unknown, Fragments::Layer3][chosen],
        }
        self.end_of_line()
    }

    /// Reads a list; the current token is its `{`.
    ///
    /// The items go to `tests` for a field, otherwise to `entries`. With `several` the list may take several lines.
    pub(super) fn list(&mut self, field: Option<usize>, several: bool) -> Result<(), Stop> {
        let open = self.lexer.span;
        self.lexer.bump();
        let mut empty = true;
        let mut faulty = false;
        let (mut count, mut earlier) = (0, None);
        loop {
            if several && !self.seek_content() {
                return self.unclosed(open, faulty);
            }
            match self.lexer.kind {
                Kind::Close if empty && self.sets.is_live => break,
                Kind::Close if empty => {
                    let span = open.to(self.lexer.span);
                    self.lexer.bump();
                    self.report.fault(span, || Message::new("an empty list holds no value").expected("a value"));
                    return Ok(());
                }
                Kind::Close => break,
                Kind::Eol => return self.unclosed(open, faulty),
                _ => {}
            }
            if field.is_some() && self.is_behind_list(true) {
                return self.unclosed(open, faulty);
            }
            empty = false;
            let is_missing = self.skip_bad() && matches!(self.lexer.kind, Kind::Comma | Kind::Close | Kind::Eol);
            let start = self.lexer.span;
            let only = earlier.filter(|_| count == 1 && !self.is_negated);
            let mut good = !is_missing && (self.excluded(only) || self.item(field, true).is_ok());
            (count, earlier) = (count + 1, Some(start.to(self.lexer.before())));
            if several && good && !self.seek_content() {
                return self.unclosed(open, faulty);
            }
            self.skip_bad();
            if field.is_some() && self.is_behind_list(false) {
                return self.unclosed(open, faulty);
            }
            if good && !matches!(self.lexer.kind, Kind::Comma | Kind::Close | Kind::Eol) {
                good = false;
                let (kind, span) = (self.lexer.kind, self.lexer.span);
                let what = format!("{} after an item", described(kind, span.text(self.text)));
                self.report.fault(span, || Message::new(what).expected("`,` or `}`"));
            }
            if !good {
                faulty = true;
                self.seek_separator(several);
            }
            if self.lexer.kind == Kind::Comma {
                self.lexer.bump();
            }
        }
        self.lexer.bump();
        Ok(())
    }

    /// Whether the current token most likely follows a list whose `}` is missing.
    ///
    /// No `}` may follow on the line. The token must be the name of a field in place of an item, or any word after an
    /// item. For example, `src` is such a token in `dport { 80, 443 src 10.0.0.0/8`.
    fn is_behind_list(&self, is_item: bool) -> bool {
        let word = self.lexer.kind == Kind::Word && (!is_item || self.fields.find(self.lexer.word()).is_some());
        word && !self.lexer.has_ahead(Kind::Close)
    }

    /// Skips characters that are not allowed anywhere; returns whether there were any.
    ///
    /// Each is noted as a fault. A word directly after such a character is skipped, too, if another token ends directly
    /// before the character, because the three are one broken word.
    pub(super) fn skip_bad(&mut self) -> bool {
        let is_bad = self.lexer.kind == Kind::Bad;
        while self.lexer.kind == Kind::Bad {
            let span = self.lexer.span;
            let is_return = span.text(self.text) == "\r";
            let in_word = !is_return && self.lexer.before().start == span.start && span.start > span.line_start;
            let what = described(Kind::Bad, span.text(self.text));
            let comma = if what.contains(", ") { "," } else { "" };
            self.report.fault(span, || format!("{what}{comma} has no place here"));
            self.lexer.bump();
            if in_word && self.lexer.kind == Kind::Word && self.lexer.span.start == span.end {
                self.lexer.bump();
            }
        }
        is_bad
    }

    fn unclosed(&mut self, open: Span, faulty: bool) -> Result<(), Stop> {
        if !faulty {
            self.report.fault(open, || Message::new("this `{` is never closed").expected("`}` after the last item"));
        }
        Err(Stop)
    }

    /// Goes to the next token of a list over several lines.
    ///
    /// Returns false if the list ends without `}`: at the end of the text, or at a line that starts like a statement.
    fn seek_content(&mut self) -> bool {
        if self.resume {
            return false;
        }
        while self.lexer.kind == Kind::Eol {
            if !self.lexer.next_line() {
                return false;
            }
            if self.lexer.kind == Kind::Word && KEYWORDS.contains(&self.lexer.word()) {
                self.resume = true;
                return false;
            }
        }
        true
    }

    /// Skips the rest of a faulty item.
    ///
    /// It stops at a `,` or `}` of this list, or where the list ends without `}`.
    fn seek_separator(&mut self, several: bool) {
        let mut depth = 0usize;
        loop {
            let kind = self.lexer.kind;
            match kind {
                Kind::Comma | Kind::Close if depth == 0 => return,
                Kind::Open => depth += 1,
                Kind::Close => depth -= 1,
                Kind::Eol if !several => return,
                // The text on the next line is most likely correct again.
                Kind::Eol if depth == 0 => return,
                Kind::Eol if !self.seek_content() => return,
                Kind::Eol => continue,
                _ => {}
            }
            self.lexer.bump();
        }
    }

    /// Skips a whole list; the current token is its `{`.
    pub(super) fn skip_list(&mut self, several: bool) {
        self.lexer.bump();
        loop {
            self.seek_separator(several);
            let kind = self.lexer.kind;
            match kind {
                _ if self.resume => return,
                Kind::Comma => self.lexer.bump(),
                Kind::Eol if several && self.seek_content() => {}
                Kind::Eol => return,
                _ => return self.lexer.bump(),
            }
        }
    }

    /// Reads an item into `tests` for a field, otherwise into `entries`.
    ///
    /// With `in_list` the item ends at a comma.
    pub(super) fn item(&mut self, field: Option<usize>, in_list: bool) -> Result<(), Stop> {
        if self.lexer.kind == Kind::Set {
            let span = self.lexer.span;
            self.lexer.bump();
            self.reference(span, field);
            return Ok(());
        }
        let first = self.lexer.span;
        if self.lexer.is_word("include") && field.is_none() {
            return self.include();
        }
        let confined = match field {
            _ if !self.lexer.is_word("family") => None,
            Some(_) => Some(self.one_family()?),
            // A line that starts with `family` is the next statement.
            None => return self.fault(first, || "`family` has no place in a set"),
        };
        let tests = &mut self.tests;
        let entries = &mut self.entries;
        let code_types = &mut self.code_types;
        let (mut misfit, mut any, mut masked) = (None, false, None);
        let info = field.map(|field| self.fields.infos[field]);
        let (own_schema, is_single, is_live) = (self.fields.own_values, self.is_single, self.sets.is_live);
        let context =
            Context { only: self.only, info, own_schema, is_single, in_list, may_except: in_list || !self.is_negated };
        let read = item::item(&mut self.lexer, context, &mut |mut entry| {
            match (confined, entry.family) {
                (Some(wanted), Some(of)) if wanted != of => {
                    // A name may have numbers of the other family, too, which are skipped.
                    if entry.class == Class::Address {
                        let what = format!("an {} address for the family {wanted}", of.pretty());
                        misfit = Some(Message::new(what).expected(format!("an {} address", wanted.pretty())));
                    }
                    return;
                }
                (Some(wanted), _) => entry.family = Some(wanted),
                (None, _) => {}
            }
            any = true;
            masked = matches!(entry.test, Test::Mask { .. }).then_some(entry);
            match &info {
                None => match entry.no_member().filter(|_| is_live) {
                    Some(message) => misfit = Some(message),
                    None => entries.push(entry),
                },
                Some(info) => match fit(&entry, info) {
                    Ok(test) => {
                        tests.push(test);
                        code_types.extend(entry.code_type());
                    }
                    Err(message) => misfit = Some(message),
                },
            }
        });
        if let (Ok(span), Some(wanted), false, None) = (&read, confined, any, &misfit) {
            let what = format!("{} does not exist in {}", quote(span.text(self.text)), wanted.pretty());
            misfit = Some(Message::new(what));
        }
        let (span, message) = match (read, misfit) {
            (Ok(span), None) => {
                let shown = span.text(self.text);
                if let Some(message) = masked.and_then(|entry| entry.wildcard_warning(shown)) {
                    self.report.warn(span, || message);
                }
                return Ok(());
            }
            (Ok(span), Some(message)) => (if confined.is_some() { first.to(span) } else { span }, message),
            (Err(Fault::Meaning(span, message)), _) => (span, message),
            (Err(Fault::Syntax(span, message)), _) => return self.fault(span, || message),
        };
        let message = match info {
            Some(info) => message.or_expected(|| info.wants()),
            None => message,
        };
        self.report.fault(span, || message);
        Ok(())
    }

    /// Reads `family ipv4` or `family ipv6` inside a rule or before an item.
    ///
    /// The current token is `family`.
    pub(super) fn one_family(&mut self) -> Result<Family, Stop> {
        let span = self.lexer.span;
        self.lexer.bump();
        if let Some(line) = self.given[SCHEMA] {
            self.report.fault(span, || format!("family has no place beside the schema of line {line}"));
            return Err(Stop);
        }
        if self.is_single && !self.fields.is_of_families() {
            self.report.fault(span, || "family has no place here: the rules are for packets of no family");
            return Err(Stop);
        }
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let word = self.lexer.word();
        let chosen = [Family::Ipv4, Family::Ipv6].into_iter().find(|f| f.name() == word && kind == Kind::Word);
        let Some(family) = chosen else {
            let meant = names::suggest(word, ["ipv4", "ipv6"].into_iter());
            let what = format!("{} after family", described(kind, span.text(self.text)));
            self.report.fault(span, || Message::new(what).suggest(meant).expected("ipv4 or ipv6"));
            return Err(Stop);
        };
        self.lexer.bump();
        if let Some(only) = self.only.filter(|&only| only != family) {
            let what = format!("the family {family} {}", item::among(self.is_single, only));
            let or = item::or_both(self.is_single);
            self.report.fault(span, || Message::new(what).expected(format!("{only}{or}")));
            return Err(Stop);
        }
        Ok(family)
    }

    pub(super) fn end_of_line(&mut self) -> Result<(), Stop> {
        if self.lexer.kind == Kind::Eol {
            return Ok(());
        }
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let what = described(kind, span.text(self.text));
        self.fault(span, || Message::new(format!("{what} has no place here")).expected("the end of the line"))
    }

    pub(super) fn fault<M: Into<Message>>(&mut self, span: Span, message: impl FnOnce() -> M) -> Result<(), Stop> {
        self.report.fault(span, message);
        Err(Stop)
    }
}
