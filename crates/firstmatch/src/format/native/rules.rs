//! Rules: actions, conditions, and whether a rule can be lowered and can match at all.

use std::num::NonZeroU32;

use super::fields::Fields;
use super::item;
use super::lexer::Kind;
use super::names;
use super::parser::{Parser, Stop, described};
use crate::format::MAX_LINES;
use crate::format::report::{Message, Span, quote};
use crate::rule::{Action, Caps, ConditionRef, Conditions, Priority, Regions, RuleSpec, Test, lower_rule, pack};
use crate::schema::{Family, Schema};

impl Parser<'_> {
    pub(super) fn rule(&mut self) -> Result<(), Stop> {
        self.in_body = true;
        let first = self.lexer.span;
        let before = self.report.count();
        let action = self.action()?;
        self.conditions.clear();
        self.packed.clear();
        self.confined = None;
        let mut last = first;
        while self.lexer.kind != Kind::Eol {
            last = self.condition()?;
        }
        if self.report.count() > before {
            return Ok(());
        }
        let whole = first.to(last);
        let Some(line) = NonZeroU32::new(first.line).filter(|line| line.get() <= MAX_LINES) else {
            return self.fault(whole, || format!("a file has at most {MAX_LINES} lines"));
        };
        // The line is left out while the rule is checked: messages then speak of the rule alone.
        let conditions = Conditions::from_packed(&self.packed);
        let priority = Priority::of_line(line.get());
        let mut spec = RuleSpec { priority, action, conditions, family: self.confined, line: None };
        self.check(&spec, whole)?;
        spec.line = Some(line);
        for (field, _) in &self.conditions {
            self.fields_used |= 1 << field;
        }
        self.specs.push(spec);
        Ok(())
    }

    fn action(&mut self) -> Result<Action, Stop> {
        let word = self.lexer.word();
        self.lexer.bump();
        match word {
            "permit" => return Ok(Action::Permit),
            "deny" => return Ok(Action::Deny),
            "match" => return Ok(Action::Match),
            _ => {}
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

    /// Reads a condition; where it stood.
    fn condition(&mut self) -> Result<Span, Stop> {
        let first = self.lexer.span;
        let word = self.lexer.word();
        let kind = self.lexer.kind;
        if self.lexer.is_word("family") {
            return self.confinement();
        }
        let field = if kind == Kind::Word { self.fields.find(word) } else { None };
        self.tests.clear();
        let (field, negated, span) = if let Some(field) = field {
            self.lexer.bump();
            let negated = self.lexer.is_word("not");
            if negated {
                self.lexer.bump();
            }
            let end = self.operand(field)?;
            (field, negated, first.to(end))
        } else if let Some(number) = names::protocol(word).filter(|_| kind == Kind::Word)
            && let Some(field) = self.fields.protocol()
        {
            self.lexer.bump();
            self.tests.push((None, Test::Value(number.into())));
            (field, false, first)
        } else {
            return self.no_condition();
        };
        if let Some((_, earlier)) = self.conditions.iter().find(|(of, _)| *of == field) {
            let column = earlier.start;
            let name = self.fields.infos[field].name;
            let text = self.text;
            self.report.fault(span, || {
                let column = text.get(first.line_start..column).map_or(0, |part| part.chars().count()) + 1;
                let what = format!("there is already a condition on {name}, in column {column}");
                Message::new(what).expected("one condition a field: a list takes several values")
            });
        } else {
            pack(field, negated, &self.tests, &mut self.packed);
            self.conditions.push((field, span));
        }
        Ok(span)
    }

    /// Reads `family ipv4` or `family ipv6` as a part of a rule; where it stood.
    fn confinement(&mut self) -> Result<Span, Stop> {
        let first = self.lexer.span;
        let family = self.one_family()?;
        let span = first.to(self.lexer.before());
        if let Some(earlier) = self.confined.replace(family) {
            self.report.fault(span, || format!("the rule is already for the family {earlier}"));
        }
        Ok(span)
    }

    fn no_condition(&mut self) -> Result<Span, Stop> {
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let word = self.lexer.word();
        let message = match (kind, word) {
            (Kind::Comma, _) => {
                Message::new("`,` has no place here").expected("braces around several values: `{ 80, 443 }`")
            }
            (Kind::Word, "not") => Message::new("`not` has no place here")
                .expected("it after the field: `proto not tcp`, `src not 10.0.0.0/8`"),
            (Kind::Word, _) if word.starts_with(|c: char| c.is_ascii_digit()) || word.contains(['.', ':']) => {
                Message::new(format!("the value {} follows no field", quote(word))).expected("a field before it")
            }
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

    /// Reads an operand into `tests`; where its last token stood.
    fn operand(&mut self, field: usize) -> Result<Span, Stop> {
        let start = self.lexer.span;
        let info = self.fields.infos[field];
        match self.lexer.kind {
            Kind::Open => self.list(Some(field), false)?,
            Kind::Word if self.lexer.word() == "any" => {
                self.lexer.bump();
                self.tests.push((None, Test::Prefix { value: 0, len: 0 }));
            }
            // A field where its predecessor's value should be: nothing tells which of the two is meant.
            Kind::Word if self.lexer.word() == "not" || self.fields.find(self.lexer.word()).is_some() => {
                let what = format!("{} after {}", quote(self.lexer.word()), info.name);
                self.report.fault(start, || Message::new(what).expected(info.wants()));
                return Err(Stop);
            }
            Kind::Word | Kind::Set => self.item(Some(field))?,
            kind => {
                let what = format!("{} after {}", described(kind, start.text(self.text)), info.name);
                self.report.fault(start, || Message::new(what).expected(info.wants()));
                return Err(Stop);
            }
        }
        Ok(self.lexer.before())
    }

    /// Whether the rule keeps the caps, and can match.
    fn check(&mut self, spec: &RuleSpec, whole: Span) -> Result<(), Stop> {
        let caps = self.options.caps;
        let mut alive = self.fields.views.is_empty();
        let mut over = None;
        for (schema, scratch) in &mut self.fields.views {
            let regions = match estimate(spec, schema, &caps) {
                Estimate::Nothing => 0,
                Estimate::Fits => 1,
                Estimate::TooManyMasks(field) => {
                    let field = self.fields.infos[field].name;
                    let cap = caps.regions_per_rule;
                    over = Some(format!("the condition on {field} has more than {cap} values under masks"));
                    break;
                }
                Estimate::Unclear => {
                    scratch.clear();
                    match lower_rule(schema, spec, &caps, scratch) {
                        Ok(count) => count,
                        Err(error) => {
                            over = Some(error.to_string());
                            break;
                        }
                    }
                }
            };
            alive |= regions > 0;
        }
        if let Some(what) = over {
            return self.fault(whole, || what);
        }
        if !alive {
            let why = why_never(spec, &mut self.fields, &caps);
            self.report.warn(whole, || format!("this rule can never match{why}"));
        }
        Ok(())
    }
}

enum Estimate {
    /// No packet of this family can match.
    Nothing,
    /// There is a region, and not more than the caps allow.
    Fits,
    /// Only lowering will tell.
    Unclear,
    /// Lowering takes time that grows with the square of the masks of a field: more than the regions of a rule are
    /// refused unseen.
    TooManyMasks(usize),
}

/// What most rules are without lowering them: conditions of a few plain tests.
fn estimate(spec: &RuleSpec, schema: &Schema, caps: &Caps) -> Estimate {
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
        if masks > caps.regions_per_rule {
            return Estimate::TooManyMasks(condition.field);
        }
        unclear |= condition.negated || (masks > 0 && tests > 1);
        // Values that touch become ranges, and a range over k lanes is at most 2k - 1 boxes.
        let lanes = schema.lanes_of(condition.field).len();
        let boxes = if tests > 1 || ranges > 0 { 2 * lanes - 1 } else { 1 };
        bound = bound.saturating_mul(tests.saturating_mul(boxes));
    }
    if unclear || bound > caps.regions_per_rule { Estimate::Unclear } else { Estimate::Fits }
}

/// Whether a mask is none of a prefix.
fn scattered(mask: u128, max: u128) -> bool {
    let free = !mask & max;
    free & free.wrapping_add(1) != 0
}

/// Why a rule has no region, as the end of a sentence.
fn why_never(spec: &RuleSpec, fields: &mut Fields<'_>, caps: &Caps) -> String {
    let confined = |c: ConditionRef<'_>, family| c.tests().all(|(of, _)| of == Some(family));
    let of = |family| spec.conditions.iter().find(|&c| confined(c, family)).map(|c| fields.infos[c.field].name);
    if let (Some(four), Some(six)) = (of(Family::Ipv4), of(Family::Ipv6)) {
        return format!(": {four} asks for IPv4, {six} for IPv6");
    }
    for other in [Family::Ipv4, Family::Ipv6] {
        if let (Some(only), Some(field)) = (spec.family.filter(|&only| only != other), of(other)) {
            return format!(": it is for {}, {field} asks for {}", item::pretty(only), item::pretty(other));
        }
    }
    for condition in spec.conditions.iter().filter(|c| c.negated) {
        let alone = RuleSpec { conditions: [condition.unpack()].into(), family: None, ..spec.clone() };
        let mut views = fields.views.iter_mut();
        let never = views.all(|(schema, scratch): &mut (Schema, Regions)| {
            scratch.clear();
            lower_rule(schema, &alone, caps, scratch) == Ok(0)
        });
        if never {
            return format!(": {} excludes every value", fields.infos[condition.field].name);
        }
    }
    String::new()
}
