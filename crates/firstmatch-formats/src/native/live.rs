//! Parser of one rule for an existing set.

use super::fields::Fields;
use super::lexer::{Kind, described};
use super::no_files;
use super::parser::{Parser, Stop};
use crate::error::ParseError;
use crate::report::{Message, quote};
use crate::{Options, ParsedRule};
use firstmatch_core::rule::{Priority, RuleSet, RuleSpec};
use firstmatch_core::schema::Source;

/// Reads one rule of the native format for an existing set; the rule names fields of that set.
///
/// ```
/// use firstmatch_formats::{Fields, Options, parse_rule};
/// use firstmatch_core::rule::Priority;
///
/// let options = Options { fields: Fields::All, ..Options::default() };
/// let mut file = firstmatch_formats::parse("permit tcp dport 443\n", &options)?;
/// let first = Priority::of_line(1);
/// let before = Priority::between(Priority(0), first).expect("room before the first line");
/// let rule = parse_rule(&file.rules, before, "deny vlan_vid 20", &options)?;
/// file.rules.insert(rule.spec)?;
///
/// let used = firstmatch_formats::parse("permit tcp dport 443\n", &Options::default())?;
/// let error = parse_rule(&used.rules, before, "deny vlan_vid 20", &options).unwrap_err();
/// assert_eq!(error.faults()[0].message, "the rules have no field `vlan_vid`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If the text is not one rule, or the rule names a field that the set lacks. The error holds all faults, in order, up
/// to [`Options::max_faults`].
pub fn parse_rule(
    rules: &RuleSet,
    priority: Priority,
    text: &str,
    options: &Options,
) -> Result<ParsedRule, ParseError> {
    let mut parser = Parser::new(text, options, &no_files);
    parser.is_single = true;
    parser.fields = Fields::of_set(rules);
    parser.know_live_sets(rules.live_sets());
    parser.only = if let [one] = rules.schemas() { one.family() } else { None };
    // The fault is noted already.
    let _: Result<(), Stop> = parser.single();
    let spec = parser.specs.pop();
    let warnings = parser.report.finish()?.kept;
    // Without a fault there is a rule.
    let Some(mut spec) = spec else { unreachable!("{text:?} has neither a rule nor a fault") };
    rules.bind_indices(&mut spec.conditions);
    Ok(ParsedRule { spec: RuleSpec { priority, line: None, ..spec }, warnings })
}

impl Parser<'_> {
    /// Reads a rule with the blank lines and comments around it.
    fn single(&mut self) -> Result<(), Stop> {
        while self.lexer.kind == Kind::Eol {
            if !self.lexer.next_line() {
                return self.fault(self.lexer.span, || Message::new("there is no rule").expected(RULE));
            }
        }
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        if kind != Kind::Word || !matches!(self.lexer.word(), "permit" | "deny" | "mark" | "match") {
            let what = described(kind, span.text(self.text));
            return self.fault(span, || Message::new(format!("a rule cannot start with {what}")).expected(RULE));
        }
        let read = self.rule();
        while self.lexer.next_line() {
            if self.lexer.kind != Kind::Eol {
                return self
                    .fault(self.lexer.span, || Message::new("there is more than one line").expected("one rule"));
            }
        }
        read
    }

    /// Returns the message for a field that other sets have and these rules lack.
    ///
    /// `None` if the word names no such field.
    pub(super) fn lacking(&self, word: &str) -> Option<Message> {
        Source::by_name(word).filter(|_| self.is_single)?;
        let known = self.fields.names().collect::<Vec<_>>().join(", ");
        let how =
            if self.fields.is_of_families() { "; rules that are read with `Fields::All` have every field" } else { "" };
        let message = Message::new(format!("the rules have no field {}", quote(word)));
        Some(message.expected(format!("one of theirs: {known}{how}")))
    }
}

const RULE: &str = "a rule (permit, deny, mark or match)";
