//! Words and signs of other rule languages inside a rule, and what stands there in the native format.
//!
//! # Invariants
//! - A rule with the expected text in place of the fault permits no packet that the text as written does not permit
//!   (`other_lines` in the tests of formats). For example, `permit ip` becomes `permit family ipv4`, but `deny ip` loses
//!   the word, because its author may have meant both families.

use firstmatch_core::schema::{Family, Source};

use super::except::EXCEPT;
use super::lexer::{Kind, Lexer};
use super::parser::{Parser, Stop};
use super::{icmp, names, services};
use crate::Options;
use crate::report::{Message, Span, quote};

/// Operators of other languages between a field and its value, with the native sign.
const OPERATORS: [(&str, &str); 7] =
    [("neq", "not"), ("ne", "not"), ("gt", ">"), ("lt", "<"), ("ge", ">="), ("gte", ">="), ("le", "<=")];

/// Returns the message for an operator of another language in place of the value of the field `name`.
pub(super) fn operator(kind: Kind, word: &str, name: &str) -> Option<Message> {
    let nothing = kind == Kind::Equals || matches!(word, "eq" | "is" | "host");
    let message = Message::new(format!("{} after {name}", quote(word)));
    if nothing {
        return Some(message.expected("nothing in its place, because the value follows the field"));
    }
    let (_, native) = OPERATORS.into_iter().find(|(other, _)| kind == Kind::Word && *other == word)?;
    Some(message.expected(format!("`{native}`")))
}

/// Whether the current token joins values or conditions in other languages: `or`, `,` or `|`.
fn is_or(lexer: &Lexer<'_>) -> bool {
    lexer.is_word("or") || lexer.kind == Kind::Comma || lexer.kind == Kind::Bad && lexer.word() == "|"
}

impl<'t> Parser<'t> {
    /// Returns the message for a word of another language in place of a condition; `None` if it is not known.
    pub(super) fn other_word(&self, word: &str) -> Option<Message> {
        let follows = || Message::new(format!("{} follows no field", quote(word)));
        let field_of = |source| Some(self.fields.infos[self.fields.of_source(source)?].name);
        match word {
            "any" | "all" | "anywhere" => {
                return Some(follows().expected("nothing in its place: a rule without conditions is for every packet"));
            }
            EXCEPT => {
                let expected = "a range or a prefix before it, in a list if `not` stands before that";
                return Some(Message::new("`except` has no place here").expected(expected));
            }
            "or" => {
                let expected = "`{` before the first of several values and `}` behind the last";
                return Some(Message::new("`or` has no place here").expected(expected));
            }
            "ip" | "inet" | "inet4" | "ip4" | "v4" => return self.other_family(word, Family::Ipv4),
            "inet6" | "ip6" | "v6" => return self.other_family(word, Family::Ipv6),
            _ => {}
        }
        if icmp::type_numbers(word).is_some()
            && let Some(field) = field_of(Source::IcmpType)
        {
            return Some(follows().expected(format!("`{field} {word}`")));
        }
        if icmp::code(word).is_some()
            && let Some(field) = field_of(Source::IcmpCode)
        {
            return Some(follows().expected(format!("`{field} {word}`")));
        }
        let is_service = services::service_port(word).is_some() && field_of(Source::DstPort).is_some();
        is_service
            .then(|| Message::new(format!("the value {} follows no field", quote(word))).expected("a field before it"))
    }

    /// Returns the message for the name of a family in another language.
    fn other_family(&self, word: &str, family: Family) -> Option<Message> {
        let message = Message::new(format!("{} is {} in other rule languages", quote(word), family.pretty()));
        if !self.fields.is_of_families() {
            let field = self.fields.infos.iter().find(|info| info.source == Some(Source::EthType))?;
            return Some(message.expected(format!("`{} {family}`", field.name)));
        }
        if self.only.is_some_and(|only| only != family) {
            return None;
        }
        // `ip` and `inet` are often meant for both families.
        let is_for_both = self.denies && matches!(word, "ip" | "inet");
        let nothing = "nothing in its place: a rule without addresses is for both families";
        Some(message.expected(if is_for_both { nothing.to_owned() } else { format!("`family {family}`") }))
    }

    /// Reads further protocols that `or`, a comma or `/` joins to the one at `first`, and notes the fault.
    ///
    /// The result is the span of all; `None` if there are none.
    pub(super) fn other_protocols(&mut self, first: Span) -> Option<Span> {
        let field = self.fields.infos[self.fields.protocol()?].name;
        let mut all = vec![first.text(self.text)];
        let mut last = first;
        loop {
            let mut ahead = self.lexer.clone();
            if !is_or(&ahead) && ahead.kind != Kind::Slash {
                break;
            }
            ahead.bump();
            let word = ahead.word();
            if ahead.kind != Kind::Word || names::protocol(word).is_none() || names::is_family(word) {
                break;
            }
            all.push(word);
            last = ahead.span;
            ahead.bump();
            self.lexer = ahead;
        }
        let span = (all.len() > 1).then(|| first.to(last))?;
        self.report
            .fault(span, || Message::new("several protocols").expected(format!("`{field} {{ {} }}`", all.join(", "))));
        Some(span)
    }

    /// Reads further values that `or` or a comma joins to the ones at `first`, and notes the fault.
    ///
    /// Only values that begin with a digit, or addresses, are surely values.
    pub(super) fn other_values(&mut self, first: Span) -> Result<(), Stop> {
        let mut all = vec![first.text(self.text)];
        let mut last = first;
        loop {
            let mut ahead = self.lexer.clone();
            if !is_or(&ahead) {
                break;
            }
            ahead.bump();
            let from = ahead.span;
            if !ahead.is_at_value() {
                break;
            }
            last = ahead.span;
            ahead.bump();
            if matches!(ahead.kind, Kind::Dash | Kind::Slash) {
                ahead.bump();
                if !ahead.is_at_value() {
                    break;
                }
                last = ahead.span;
                ahead.bump();
            }
            all.push(from.to(last).text(self.text));
            self.lexer = ahead;
        }
        if all.len() == 1 {
            return Ok(());
        }
        let message = || Message::new("several values").expected(format!("`{{ {} }}`", all.join(", ")));
        self.report.fault(first.to(last), message);
        Ok(())
    }

    /// Reads a list in brackets or parentheses, as other languages have it, and notes the fault.
    ///
    /// The result is its span; `None`, with nothing read, if it is not surely a list of values.
    pub(super) fn other_list(&mut self) -> Option<Span> {
        let open = self.lexer.span;
        let end = match (self.lexer.kind, self.lexer.word()) {
            (Kind::Bad, "[") => "]",
            (Kind::Bad, "(") => ")",
            _ => return None,
        };
        let mut ahead = self.lexer.clone();
        loop {
            ahead.bump();
            match ahead.kind {
                Kind::Word | Kind::Set | Kind::Comma | Kind::Dash | Kind::Slash => {}
                Kind::Bad if ahead.word() == end => break,
                _ => return None,
            }
        }
        let inner = self.text.get(open.end..ahead.span.start).unwrap_or("").trim();
        let span = open.to(ahead.span);
        ahead.bump();
        self.lexer = ahead;
        let what = format!("a list in `{}{end}`", open.text(self.text));
        self.report.fault(span, || Message::new(what).expected(format!("`{{ {inner} }}`")));
        Some(span)
    }

    /// Reads values behind `!` in a list, as other languages exclude them, and notes the fault.
    ///
    /// `earlier` is the span of the item before, if it is the only one, and the list is not negated. The result is
    /// false, with nothing read, where no such value stands.
    pub(super) fn excluded(&mut self, earlier: Option<Span>) -> bool {
        let first = self.lexer.span;
        let (mut all, mut last) = (Vec::new(), first);
        let mut ahead = self.lexer.clone();
        while ahead.kind == Kind::Not {
            ahead.bump();
            let from = ahead.span;
            if !ahead.is_at_value() {
                break;
            }
            last = ahead.span;
            ahead.bump();
            if matches!(ahead.kind, Kind::Dash | Kind::Slash) {
                ahead.bump();
                last = ahead.span;
                ahead.bump();
            }
            all.push(from.to(last).text(self.text));
            self.lexer = ahead.clone();
            if ahead.kind == Kind::Comma {
                ahead.bump();
            }
        }
        if all.is_empty() {
            return false;
        }
        let is_last = self.lexer.kind == Kind::Close;
        let whole = earlier.filter(|earlier| is_last && earlier.line == first.line).map(|earlier| earlier.to(last));
        let values = if all.len() == 1 { all.remove(0).to_owned() } else { format!("{{ {} }}", all.join(", ")) };
        let hint = earlier.map(|earlier| format!("{} {EXCEPT} {values}", earlier.text(self.text)));
        let options = Options { max_warnings: 0, ..Options::default() };
        let is_good = |hint: &String| super::parse(&format!("set x = {{ {hint} }}\n"), &options).is_ok();
        match whole.zip(hint.filter(is_good)) {
            Some((span, hint)) => {
                self.report.fault(span, || Message::new("`!` before a value in a list").expected(format!("`{hint}`")))
            }
            None => self.report.fault(first.to(last), || {
                Message::new("`!` before a value in a list").expected("`except` behind the value that contains it")
            }),
        };
        true
    }
}
