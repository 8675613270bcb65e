//! Rules: actions, conditions, and whether a rule can be lowered and can match at all.

use std::num::NonZeroU32;

use super::fields::{Fields, Takes};
use super::flags;
use super::item;
use super::lexer::{Kind, described};
use super::names;
use super::other_words;
use super::parser::{ACTIONS, Parser, Stop};
use crate::report::{Message, Span, quote};
use crate::{Contradiction, MAX_LINES, Part, contradiction, extension_as_protocol, no_label};
use firstmatch_core::rule::{
    Action, ConditionRef, Conditions, ExpansionLimits, Priority, RuleSpec, Test, can_match, pack,
};
use firstmatch_core::schema::{ExtensionHeader, Schema, Source};

/// Number of the protocol whose name may be followed by flags.
const TCP: u8 = 6;

impl Parser<'_> {
    pub(super) fn rule(&mut self) -> Result<(), Stop> {
        self.in_body = true;
        self.is_negated = false;
        let first = self.lexer.span;
        let before = self.report.count();
        self.conditions.clear();
        self.packed.clear();
        self.confined = None;
        self.codes = None;
        let word = self.lexer.word();
        let meant = if ACTIONS.contains(&word) { Some(word) } else { names::suggest(word, ACTIONS.into_iter()) };
        self.denies = meant == Some("deny");
        // A fault does not hide later faults on the line.
        let action = self.action().or_else(|Stop| self.seek_condition().map(|()| Action::Permit))?;
        let mut last = first;
        let mut label = None;
        while self.lexer.kind != Kind::Eol {
            if self.lexer.is_word("label") && self.fields.find("label").is_none() {
                label = self.label();
                break;
            }
            let start = self.lexer.span.start;
            match self.condition() {
                Ok(span) => last = span,
                Err(Stop) => {
                    if self.lexer.span.start == start {
                        self.lexer.bump();
                    }
                    self.seek_condition()?;
                }
            }
        }
        if self.report.count() == before {
            self.imply_type();
        }
        if self.report.count() > before {
            return Ok(());
        }
        let whole = first.to(last);
        let Some(line) = NonZeroU32::new(first.line).filter(|line| line.get() <= MAX_LINES) else {
            return self.fault(whole, || format!("a file has at most {MAX_LINES} lines"));
        };
        // The spec has no line while the rule is checked, so that messages do not repeat it.
        let conditions = Conditions::from_packed(&self.packed);
        let priority = Priority::of_line(line.get());
        let mut spec = RuleSpec {
            priority,
            action,
            conditions,
            family: self.confined.map(|(family, _)| family),
            line: None,
            value: 0,
        };
        self.check(&spec, whole)?;
        spec.line = Some(line);
        if let Some(label) = label {
            self.labels_of_lines.insert(line.get(), label);
        }
        self.specs.push(spec);
        Ok(())
    }

    /// Reads `audit` and the rule after it.
    pub(super) fn audit(&mut self) -> Result<(), Stop> {
        self.lexer.bump();
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        if kind != Kind::Word || !ACTIONS.contains(&self.lexer.word()) {
            let what = format!("{} after audit", described(kind, span.text(self.text)));
            return self.fault(span, || Message::new(what).expected("permit, deny, mark or match"));
        }
        let before = self.specs.len();
        let read = self.rule();
        self.audit_lines.extend(self.specs[before..].iter().filter_map(|spec| spec.line).map(NonZeroU32::get));
        read
    }

    /// Reads `label "TEXT"`, which ends a rule; `None` after a fault.
    fn label(&mut self) -> Option<Box<str>> {
        let first = self.lexer.span;
        self.lexer.bump();
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let text = self.lexer.word().trim_matches('"');
        let fault = match kind {
            Kind::Quoted if self.is_single => Some((first, "only rules of files have labels".to_owned())),
            Kind::Quoted => no_label(text).map(|fault| (span, fault)),
            _ => Some((span, format!("{} after label", described(kind, self.lexer.word())))),
        };
        let label: Box<str> = text.into();
        if kind != Kind::Eol {
            self.lexer.bump();
        }
        let behind = (self.lexer.kind != Kind::Eol)
            .then(|| (self.lexer.span, format!("{} behind the label", described(self.lexer.kind, self.lexer.word()))));
        let Some((span, what)) = fault.or(behind) else { return Some(label) };
        self.report.fault(span, || Message::new(what).expected("a text in quotes, and the end of the line"));
        while self.lexer.kind != Kind::Eol {
            self.lexer.bump();
        }
        None
    }

    /// Skips text that cannot be trusted, to the next word that surely begins a condition.
    fn seek_condition(&mut self) -> Result<(), Stop> {
        while self.lexer.kind != Kind::Eol {
            let word = self.lexer.word();
            if self.lexer.kind == Kind::Word && (word == "family" || self.fields.find(word).is_some()) {
                return Ok(());
            }
            self.lexer.bump();
        }
        Err(Stop)
    }

    fn action(&mut self) -> Result<Action, Stop> {
        let word = self.lexer.word();
        self.lexer.bump();
        match word {
            "permit" => return Ok(Action::Permit),
            "deny" => return Ok(Action::Deny),
            "match" => return Ok(Action::Match),
            "mark" => {}
            // The fault is noted already.
            _ => return Ok(Action::Permit),
        }
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let message = if kind == Kind::Word {
            match item::number(self.lexer.word()) {
                Ok(number) => {
                    self.lexer.bump();
                    return Ok(Action::Mark(number));
                }
                Err(message) => message,
            }
        } else {
            Message::new(format!("{} after mark", described(kind, span.text(self.text)))).expected("a number")
        };
        self.report.fault(span, || message);
        Err(Stop)
    }

    /// Reads a condition and returns its span.
    fn condition(&mut self) -> Result<Span, Stop> {
        let first = self.lexer.span;
        let word = self.lexer.word();
        let kind = self.lexer.kind;
        if self.lexer.is_word("family") {
            return self.confinement();
        }
        if kind == Kind::Bad {
            self.skip_bad();
            return Ok(first);
        }
        let field = if kind == Kind::Word { self.fields.find(word) } else { None };
        self.tests.clear();
        self.code_types.clear();
        if let Some(field) = field {
            self.lexer.bump();
            let negated = self.lexer.is_word("not");
            if negated {
                self.lexer.bump();
            }
            self.is_negated = negated;
            if let Some(span) = self.other_list() {
                return Ok(first.to(span));
            }
            if self.skip_bad() && self.lexer.kind == Kind::Eol {
                return Err(Stop);
            }
            let (start, is_list) = (self.lexer.span, self.lexer.kind == Kind::Open);
            let end = self.operand(field)?;
            let span = self.add(field, negated, first.to(end));
            // With `not` before the first value, other languages differ in what is meant.
            if !negated && !is_list {
                self.other_values(start.to(end))?;
            }
            Ok(span)
        } else if let Some(number) = names::protocol(word).filter(|_| kind == Kind::Word && !names::is_family(word))
            && let Some(field) = self.fields.protocol()
        {
            self.lexer.bump();
            if let Some(span) = self.other_protocols(first) {
                return Ok(span);
            }
            self.tests.push((None, Test::Value(number.into())));
            let span = self.add(field, false, first);
            if number == TCP && self.is_at_flags() { self.flags() } else { Ok(span) }
        } else {
            self.no_condition()
        }
    }

    /// Adds a condition of the tests that were read, and returns its span.
    fn add(&mut self, field: usize, negated: bool, span: Span) -> Span {
        if let Some((_, earlier)) = self.conditions.iter().find(|(of, _)| *of == field) {
            let name = self.fields.infos[field].name;
            let text = self.text;
            self.report.fault(span, || {
                let what = format!("there is already a condition on {name}, in column {}", earlier.column(text));
                Message::new(what).expected("one condition a field: a list takes several values")
            });
        } else {
            pack(field, negated, &self.tests, &mut self.packed);
            self.conditions.push((field, span));
            self.note_codes(negated, span);
        }
        span
    }

    /// Whether the current token begins TCP flags, not a condition on a field.
    fn is_at_flags(&self) -> bool {
        let word = self.lexer.word();
        match self.lexer.kind {
            Kind::Not => true,
            Kind::Word => flags::is_name(word) && self.fields.find(word).is_none(),
            _ => false,
        }
    }

    /// Reads the flags after `tcp` as a condition on `tcp_flags`, and returns its span.
    fn flags(&mut self) -> Result<Span, Stop> {
        let first = self.lexer.span;
        let Some(field) = self.fields.of_source(Source::TcpFlags) else {
            let message = self.lacking(Source::TcpFlags.name());
            let message = message.unwrap_or_else(|| Message::new("the schema has no field for TCP flags"));
            self.report.fault(first, || message);
            return Err(Stop);
        };
        self.tests.clear();
        self.item(Some(field), false)?;
        let span = first.to(self.lexer.before());
        Ok(self.add(field, false, span))
    }

    /// Reads `family ipv4` or `family ipv6` as a part of a rule and returns its span.
    fn confinement(&mut self) -> Result<Span, Stop> {
        let first = self.lexer.span;
        let family = self.one_family()?;
        let span = first.to(self.lexer.before());
        if let Some((earlier, _)) = self.confined.replace((family, span)) {
            self.report.fault(span, || format!("the rule is already for the family {earlier}"));
        }
        Ok(span)
    }

    fn no_condition(&mut self) -> Result<Span, Stop> {
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let word = self.lexer.word();
        let message = match (kind, word) {
            (Kind::Comma, _) => Message::new("`,` has no place here")
                .expected("`{` before the first of several values and `}` behind the last"),
            (Kind::Word, "not") => Message::new("`not` has no place here")
                .expected("it after the field: `proto not tcp`, `src not 10.0.0.0/8`"),
            (Kind::Word, _) if word.starts_with(|c: char| c.is_ascii_digit()) || word.contains(['.', ':']) => {
                Message::new(format!("the value {} follows no field", quote(word))).expected("a field before it")
            }
            (Kind::Word, _) if names::is_family(word) => self.bare_family(word),
            (Kind::Word, _) if flags::is_name(word) => {
                Message::new(format!("{} does not stand after tcp", quote(word)))
                    .expected(format!("`tcp {word}`, or `tcp_flags {word}`"))
            }
            (Kind::Word, _) if let Some(message) = self.lacking(word) => message,
            (Kind::Word, _) if let Some(message) = self.other_word(word) => message,
            (Kind::Word, _) => {
                let protocols = if self.fields.protocol().is_some() { &names::PROTOCOLS[..] } else { &[] };
                let fields = self.fields.names().chain(protocols.iter().map(|p| p.0));
                let message = Message::new(format!("unknown field or protocol {}", quote(word)));
                message.suggest(names::suggest(word, fields))
            }
            _ => {
                let what = described(kind, span.text(self.text));
                Message::new(format!("{what} has no place here")).expected("a field, a protocol or the end of the line")
            }
        };
        self.report.fault(span, || message);
        Err(Stop)
    }

    /// Returns the message for `ipv4` or `ipv6` alone.
    ///
    /// These words are refused, because `deny ipv6` would mean protocol 41 and let IPv6 through.
    fn bare_family(&self, word: &str) -> Message {
        let of = |source| self.fields.infos.iter().find(|info| info.source == Some(source)).map(|info| info.name);
        let all = if self.fields.is_of_families() {
            Some(format!("`family {word}`"))
        } else {
            of(Source::EthType).map(|name| format!("`{name} {word}`"))
        };
        let number = names::protocol(word).filter(|_| self.fields.protocol().is_some());
        let tunnel = number
            .zip(self.fields.protocol())
            .map(|(number, field)| format!("`{} {number}` for packets inside others", self.fields.infos[field].name));
        let expected = [all, tunnel].into_iter().flatten().collect::<Vec<_>>().join(", or ");
        let message = Message::new(format!("{} alone is neither a field nor a protocol", quote(word)));
        if expected.is_empty() { message } else { message.expected(expected) }
    }

    /// Reads an operand into `tests` and returns the span of its last token.
    fn operand(&mut self, field: usize) -> Result<Span, Stop> {
        let start = self.lexer.span;
        let info = self.fields.infos[field];
        match self.lexer.kind {
            Kind::Open => self.list(Some(field), false)?,
            Kind::Word if self.lexer.word() == "any" => {
                self.lexer.bump();
                self.tests.push((None, Test::Prefix { value: 0, len: 0 }));
            }
            // If the name of a field is in place of a value, either field may be meant.
            Kind::Word if self.lexer.word() == "not" || self.is_field_after(info.takes) => {
                let what = format!("{} after {}", quote(self.lexer.word()), info.name);
                self.report.fault(start, || Message::new(what).expected(info.wants()));
                return Err(Stop);
            }
            kind if let Some(message) = other_words::operator(kind, self.lexer.word(), info.name) => {
                self.report.fault(start, || message);
                return Err(Stop);
            }
            Kind::Word
            | Kind::Set
            | Kind::Not
            | Kind::Less
            | Kind::LessOrEqual
            | Kind::Greater
            | Kind::GreaterOrEqual => self.item(Some(field), false)?,
            kind => {
                let what = format!("{} after {}", described(kind, start.text(self.text)), info.name);
                self.report.fault(start, || Message::new(what).expected(info.wants()));
                return Err(Stop);
            }
        }
        Ok(self.lexer.before())
    }

    /// Whether the current word is the name of a field, after a field that takes these values.
    ///
    /// `fragment` is a value of `ext_headers`, too.
    fn is_field_after(&self, takes: Takes) -> bool {
        let word = self.lexer.word();
        let is_value = takes == Takes::ExtHeaders && ExtensionHeader::by_name(word).is_some();
        self.fields.find(word).is_some() && !is_value
    }

    /// Checks that the rule keeps the limits, and warns if it cannot match.
    fn check(&mut self, spec: &RuleSpec, whole: Span) -> Result<(), Stop> {
        // A live set may come to hold any address, so conditions with one are left out.
        let fixed = spec.tests_live_sets().then(|| {
            let conditions = spec.conditions.iter().filter(|of| !of.tests_live_sets());
            RuleSpec { conditions: conditions.map(ConditionRef::unpack).collect(), ..spec.clone() }
        });
        let spec = fixed.as_ref().unwrap_or(spec);
        let expansion = self.options.expansion;
        let mut alive = self.fields.views.is_empty();
        for schema in &self.fields.views {
            let can_match = match estimate(spec, schema, &expansion) {
                Estimate::Nothing => Ok(false),
                Estimate::Fits => Ok(true),
                // Finding out takes time, and this fault would not be shown.
                Estimate::Unclear if self.report.is_full() => Ok(true),
                Estimate::Unclear => can_match(schema, spec, &expansion),
            };
            match can_match {
                Ok(can_match) => alive |= can_match,
                Err(error) => return self.fault(whole, || error.to_string()),
            }
        }
        let schemas = &self.fields.views;
        if let Some(found) = contradiction(schemas, spec) {
            self.warn_of_contradiction(&found);
        } else if !alive {
            let why = why_never(spec, &self.fields, &expansion);
            self.report.warn_of_never(whole, || format!("this rule can never match{why}"));
        } else if let Some((field, number)) = extension_as_protocol(schemas, spec) {
            let span = self.span_of(Part::Condition(field)).unwrap_or(whole);
            let what = format!(
                "{number} is an extension header in IPv6, where {} is the protocol behind all of them: \
                there this never holds",
                self.fields.infos[field].name
            );
            self.report.warn(span, || {
                Message::new(what).expected("`ext_headers` for IPv6, or `family ipv4` before it or in the rule")
            });
        }
        Ok(())
    }

    /// Returns the span of a part of the rule.
    fn span_of(&self, part: Part) -> Option<Span> {
        match part {
            Part::Family => self.confined.map(|(_, span)| span),
            Part::Condition(field) => self.conditions.iter().find(|(of, _)| *of == field).map(|(_, span)| *span),
            Part::Set => None,
        }
    }

    fn warn_of_contradiction(&mut self, found: &Contradiction) {
        let spans = found.parts.map(|part| self.span_of(part));
        let (Some(first), Some(last)) = (
            spans.iter().flatten().min_by_key(|span| span.start),
            spans.iter().flatten().max_by_key(|span| span.start),
        ) else {
            return;
        };
        let text = self.text;
        let name = |part| match self.span_of(part) {
            Some(span) => format!("{} (column {})", quote(span.text(text)), span.column(text)),
            None if self.is_single => "the set of rules".to_owned(),
            None => "the file".to_owned(),
        };
        let why = found.describe(name);
        let span = first.to(*last);
        if found.is_certain() {
            self.report.warn_of_never(span, || why);
        } else {
            self.report.warn(span, || why);
        }
    }
}

enum Estimate {
    /// No packet of this family can match.
    Nothing,
    /// There is a region, and no more than the limits allow.
    Fits,
    /// Only lowering can tell.
    Unclear,
}

/// Estimates the regions of a rule without lowering it.
///
/// Most rules have conditions of a few plain tests, for which an estimate is enough.
fn estimate(spec: &RuleSpec, schema: &Schema, expansion: &ExpansionLimits) -> Estimate {
    if spec.family.is_some() && spec.family != schema.family() {
        return Estimate::Nothing;
    }
    let mut bound = 1usize;
    let mut unclear = false;
    for condition in spec.conditions.iter() {
        let (mut tests, mut masks, mut ranges) = (0usize, 0usize, 0usize);
        let max = schema.fields()[condition.field].max();
        for test in condition.tests_for(schema.family()) {
            tests += 1;
            masks += usize::from(matches!(test, Test::Mask { mask, .. } if scattered(mask, max)));
            ranges += usize::from(matches!(test, Test::Range { .. }));
        }
        if tests == 0 {
            return Estimate::Nothing;
        }
        unclear |= condition.negated || (masks > 0 && tests > 1);
        // Values that touch become ranges, and a range over k words is at most 2k - 1 boxes.
        let key_words = schema.words_of(condition.field).len();
        let boxes = if tests > 1 || ranges > 0 { 2 * key_words - 1 } else { 1 };
        bound = bound.saturating_mul(tests.saturating_mul(boxes));
    }
    if unclear || bound > expansion.regions_per_rule { Estimate::Unclear } else { Estimate::Fits }
}

/// Whether a mask is not that of a prefix.
fn scattered(mask: u128, max: u128) -> bool {
    let free = !mask & max;
    free & free.wrapping_add(1) != 0
}

/// Returns the reason why a rule has no region, as the end of a sentence.
fn why_never(spec: &RuleSpec, fields: &Fields<'_>, expansion: &ExpansionLimits) -> String {
    for condition in spec.conditions.iter().filter(|c| c.negated) {
        let alone = RuleSpec { conditions: [condition.unpack()].into(), family: None, ..spec.clone() };
        if fields.views.iter().all(|schema| can_match(schema, &alone, expansion) == Ok(false)) {
            return format!(": {} excludes every value", fields.infos[condition.field].name);
        }
    }
    String::new()
}
