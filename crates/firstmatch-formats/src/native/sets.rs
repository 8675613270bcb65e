//! Named sets: their definitions and their uses.

use std::collections::HashSet;

use super::entry::fit;
use super::fields::Takes;
use super::lexer::{Kind, described};
use super::names;
use super::parser::{Parser, Stop};
use super::set_table::{Set, State};
use crate::report::{Message, Span, quote};
use firstmatch_core::rule::{LiveSets, Member, RuleSet, SetId, Test};

impl<'t> Parser<'t> {
    /// Reads `set NAME = { … }`.
    pub(super) fn set(&mut self) -> Result<(), Stop> {
        self.lexer.bump();
        self.named_set(false)
    }

    /// Reads `live set NAME = { … }`.
    pub(super) fn live_set(&mut self) -> Result<(), Stop> {
        self.lexer.bump();
        if !self.lexer.is_word("set") {
            let (kind, span) = (self.lexer.kind, self.lexer.span);
            let what = format!("{} after live", described(kind, span.text(self.text)));
            return self.fault(span, || Message::new(what).expected("`live set NAME = { … }`"));
        }
        self.sets.is_live = true;
        let read = self.set();
        self.sets.is_live = false;
        read
    }

    /// Makes the live sets of `rules` known, so that a rule can name them.
    pub(super) fn know_live_sets(&mut self, sets: &'t LiveSets) {
        for (id, set) in sets.iter() {
            self.sets.by_name.insert(set.name(), self.sets.all.len());
            let (span, entries) = (Span::default(), Vec::new());
            self.sets.all.push(Set { span, entries, state: State::Good, used: true, live: Some(id) });
        }
    }

    /// Adds the live sets of the file to `rules`, with their members.
    pub(super) fn add_live_sets(&mut self, rules: &mut RuleSet) {
        for &index in &self.sets.live {
            let Set { span, entries, .. } = &self.sets.all[index];
            let members = entries.iter().filter_map(|entry| Member::of(entry.family?, entry.test));
            let sets = rules.live_sets_mut();
            let added = sets
                .add(span.text(self.text))
                .and_then(|id| members.into_iter().try_for_each(|member| sets.insert(id, member).map(drop)));
            if let Err(error) = added {
                self.report.fault(*span, || error.to_string());
            }
        }
    }

    /// Whether the line begins with a name and `=`, as other languages name sets.
    pub(super) fn is_assignment(&self) -> bool {
        let mut ahead = self.lexer.clone();
        ahead.bump();
        ahead.kind == Kind::Equals
    }

    /// Reads `NAME = { … }` or `$NAME = { … }`, which lacks the word `set`.
    pub(super) fn set_without_word(&mut self) -> Result<(), Stop> {
        let span = self.lexer.span;
        let word = span.text(self.text);
        let name = word.strip_prefix('$').unwrap_or(word);
        self.report.fault(span, || {
            Message::new(format!("a line cannot start with {}", quote(word))).expected(format!("`set {name}`"))
        });
        self.named_set(true)
    }

    /// Reads the name and the list of a set; `is_noted` says that a fault about the name was noted.
    fn named_set(&mut self, is_noted: bool) -> Result<(), Stop> {
        self.in_body = true;
        self.is_negated = false;
        let before = self.report.count();
        let span = self.lexer.span;
        let name = self.set_name(is_noted);
        if name.is_none() && self.lexer.kind == Kind::Eol {
            return Err(Stop);
        }
        self.sets.current = name;
        self.entries.clear();
        let read = self.set_list();
        self.sets.current = None;
        if let Some(name) = name {
            let faulty = is_noted || self.report.count() > before;
            self.define(name, span, faulty);
        }
        read?;
        self.end_of_line()
    }

    fn set_name(&mut self, is_noted: bool) -> Option<&'t str> {
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let word = self.lexer.word();
        let expected = "a name: a letter, then letters, digits, `_` or `-`";
        let bare = word.strip_prefix('$').unwrap_or(word);
        let valid = bare.starts_with(|c: char| c.is_ascii_alphabetic()) && !bare.contains(['.', ':']);
        match kind {
            Kind::Word if valid => {}
            Kind::Set if valid && is_noted => {}
            Kind::Set if valid => {
                let what = "`$` stands only where a set is used";
                self.report.fault(span, || Message::new(what).expected(format!("`set {bare} = …`")));
            }
            _ => {
                let what = described(kind, span.text(self.text));
                self.report
                    .fault(span, || Message::new(format!("{what} where a set's name should be")).expected(expected));
                if kind == Kind::Word || kind == Kind::Set {
                    self.lexer.bump();
                }
                return None;
            }
        }
        self.lexer.bump();
        Some(bare)
    }

    /// Reads `= { … }`.
    ///
    /// Missing tokens are noted, and the list is looked for on the rest of the line.
    fn set_list(&mut self) -> Result<(), Stop> {
        let mut faulty = false;
        if self.lexer.kind == Kind::Equals {
            self.lexer.bump();
        } else {
            faulty = true;
            self.missing("`=`");
        }
        if self.lexer.kind == Kind::Eol && !faulty {
            let span = self.lexer.span;
            if self.lexer.next_line() {
                self.resume = self.lexer.kind != Kind::Open;
            }
            faulty = true;
            let message = || Message::new("no list after `=`").expected("`{` on this line");
            self.report.fault(span, message);
            if self.resume {
                return Err(Stop);
            }
        }
        if self.lexer.kind != Kind::Open && !faulty {
            self.missing("`{`");
        }
        while !matches!(self.lexer.kind, Kind::Open | Kind::Eol) {
            self.lexer.bump();
        }
        if self.lexer.kind == Kind::Open { self.list(None, true) } else { Err(Stop) }
    }

    fn missing(&mut self, wanted: &str) {
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let what = described(kind, span.text(self.text));
        self.report
            .fault(span, || Message::new(format!("{what} where {wanted} should be")).expected("`set NAME = { … }`"));
    }

    fn define(&mut self, name: &'t str, span: Span, faulty: bool) {
        let span = if span.text(self.text).starts_with('$') { Span { start: span.start + 1, ..span } } else { span };
        if std::mem::take(&mut self.sets.is_union) {
            // A value that is in several of the sets is kept once, because unions of unions could explode otherwise.
            let mut seen = HashSet::with_capacity(self.entries.len());
            self.entries.retain(|entry| seen.insert(*entry));
        }
        let mut entries = self.entries.as_slice().to_vec();
        let faulty = faulty || self.over_budget(entries.len(), span);
        if faulty {
            entries = Vec::new();
        }
        let state = if faulty { State::Faulty } else { State::Good };
        let live = self.sets.is_live.then(|| SetId::new(self.sets.live.len() as u32));
        let set = Set { span, entries, state, used: false, live };
        let Some(&index) = self.sets.by_name.get(name) else {
            let index = self.sets.all.len();
            self.sets.by_name.insert(name, index);
            self.sets.live.extend(live.map(|_| index));
            return self.sets.all.push(set);
        };
        let known = &mut self.sets.all[index];
        if let State::Undefined(fault) = known.state {
            let message = format!("`${name}` is used before its definition on line {}", span.line);
            if let Some(fault) = fault {
                self.report.amend(fault, Message::new(message).expected("the definition of a set before its use"));
            }
            *known = Set { used: true, ..set };
        } else {
            let earlier = known.span.line;
            self.report.fault(span, || format!("the set {} is already defined on line {earlier}", quote(name)));
        }
    }

    /// Reads `$NAME` as an item of a condition on `field`, or of the set being defined.
    pub(super) fn reference(&mut self, span: Span, field: Option<usize>) {
        let name = &span.text(self.text)[1..];
        if name.is_empty() {
            self.report.fault(span, || Message::new("a `$` without a name").expected("the name of a set after it"));
            return;
        }
        if self.sets.current == Some(name) {
            self.report.fault(span, || format!("the set {} contains itself", quote(name)));
            return;
        }
        let Some(&index) = self.sets.by_name.get(name) else { return self.undefined(name, span) };
        let set = &mut self.sets.all[index];
        set.used = true;
        // The entries are taken out while they are read; no other code looks at them.
        let entries = std::mem::take(&mut set.entries);
        let known = matches!(set.state, State::Good);
        let (line, live) = (set.span.line, set.live);
        if let Some(id) = live {
            self.live_reference(name, line, id, span, field);
        } else if known && !self.over_budget(entries.len(), span) {
            match field {
                None => {
                    self.entries.extend_from_slice(&entries);
                    self.sets.is_union = true;
                }
                Some(field) => {
                    for entry in &entries {
                        match fit(entry, &self.fields.infos[field]) {
                            Ok(test) => {
                                self.tests.push(test);
                                self.code_types.extend(entry.code_type());
                            }
                            Err(message) => {
                                self.report.fault(span, || message.about(&format!("`${name}` (line {line}): ")));
                                break;
                            }
                        }
                    }
                }
            }
        }
        self.sets.all[index].entries = entries;
    }

    /// Reads `$NAME` of a live set.
    fn live_reference(&mut self, name: &str, line: u32, id: SetId, span: Span, field: Option<usize>) {
        let Some(field) = field else {
            let what = format!("`${name}` (line {line}) is a live set, which no other set can hold");
            self.report.fault(span, || Message::new(what).expected("both sets in the rule: `src { $a, $b }`"));
            return;
        };
        let info = self.fields.infos[field];
        if !matches!(info.takes, Takes::Address(_) | Takes::Anything) || !self.fields.is_of_families() {
            let what = format!("{} takes no live set, which holds IP addresses", info.name);
            self.report.fault(span, || Message::new(what).expected(info.wants()));
            return;
        }
        self.tests.push((None, Test::Set(id)));
    }

    /// Notes a fault at the first use of an undefined name, but not at later ones.
    fn undefined(&mut self, name: &'t str, span: Span) {
        let known = self.sets.by_name.keys().copied();
        let fault = if self.report.is_full() {
            self.report.fault(span, || "")
        } else {
            let mut known: Vec<&str> = known.collect();
            known.sort_unstable();
            let message = Message::new(format!("there is no set {}", quote(name)));
            let message = message.suggest(names::suggest(name, known.into_iter()));
            let message =
                if self.is_single { message.expected("its values: sets belong to rule files") } else { message };
            self.report.fault(span, || message)
        };
        self.sets.by_name.insert(name, self.sets.all.len());
        let state = State::Undefined(fault);
        self.sets.all.push(Set { span, entries: Vec::new(), state, used: true, live: None });
    }

    fn over_budget(&mut self, more: usize, span: Span) -> bool {
        let cap = self.options.max_expanded;
        self.sets.expanded = self.sets.expanded.saturating_add(more);
        let over = self.sets.expanded > cap;
        if over {
            self.report.fault(span, || format!("with this the sets of the file come to more than {cap} values"));
        }
        over
    }

    /// Warns of sets that no rule uses, and returns their lines.
    pub(super) fn warn_of_unused_sets(&mut self) -> Vec<u32> {
        for set in self.sets.all.iter().filter(|set| !set.used && set.live.is_none()) {
            let name = set.span.text(self.text);
            self.report.warn(set.span, || format!("the set {} is never used", quote(name)));
        }
        let mut lines: Vec<u32> =
            self.sets.all.iter().filter(|set| !set.used && set.live.is_none()).map(|set| set.span.line).collect();
        lines.sort_unstable();
        lines
    }
}
