//! Files that sets include, with one value per line.

use super::entry::Entry;
use super::item;
use super::lexer::{Kind, Lexer, described};
use super::parser::{Parser, Stop};
use super::values::{Context, Fault};
use crate::BOM;
use crate::report::{Message, Span, quote};

/// Largest number of bytes that the files of all sets may have together.
const MAX_INCLUDED: usize = 256 << 20;

impl Parser<'_> {
    /// Reads `include "FILE"` and the values of the file into the set being defined.
    pub(super) fn include(&mut self) -> Result<(), Stop> {
        let first = self.lexer.span;
        self.lexer.bump();
        let (kind, last) = (self.lexer.kind, self.lexer.span);
        if kind != Kind::Quoted {
            let what = format!("{} after include", described(kind, self.lexer.word()));
            return self.fault(last, || Message::new(what).expected("the name of a file in quotes"));
        }
        let name = self.lexer.word().trim_matches('"');
        self.lexer.bump();
        let span = first.to(last);
        match (self.load)(name) {
            Ok(text) if self.has_room(text.len()) => self.values_of(name, &text, span),
            Ok(_) => {
                let what = format!("with {} the files of all sets have more than {MAX_INCLUDED} bytes", quote(name));
                self.report.fault(span, || what);
            }
            Err(why) => _ = self.report.fault(span, || format!("{} is not included: {why}", quote(name))),
        }
        Ok(())
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        self.included = self.included.saturating_add(bytes);
        self.included <= MAX_INCLUDED
    }

    /// Reads the values of a file, which the set includes at `span`.
    fn values_of(&mut self, name: &str, text: &str, span: Span) {
        let start = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
        let mut lexer = Lexer::new(text, start);
        let (own_schema, is_single) = (self.fields.own_values, self.is_single);
        let context = Context { only: self.only, info: None, own_schema, is_single, in_list: true, may_except: true };
        loop {
            let (mut misfit, start) = (None, lexer.span);
            let mut add = |entry: Entry| match entry.no_member().filter(|_| self.sets.is_live) {
                Some(message) => misfit = Some((start, message)),
                None => self.entries.push(entry),
            };
            let read = if lexer.kind == Kind::Eol { Ok(()) } else { value(&mut lexer, context, &mut add) };
            if let Err((place, message)) = read.and(misfit.map_or(Ok(()), Err)) {
                let (line, column) = (place.line, place.column(text));
                self.report.fault(span, || message.about(&format!("{}, line {line}, column {column}: ", quote(name))));
            }
            // The definition of the set reports that there are too many.
            if self.entries.len() > self.options.max_expanded || !lexer.next_line() {
                return;
            }
        }
    }
}

/// Reads the only value of a line.
fn value(lexer: &mut Lexer<'_>, context: Context<'_>, emit: &mut dyn FnMut(Entry)) -> Result<(), (Span, Message)> {
    if lexer.is_word("include") {
        return Err((lexer.span, Message::new("a file that is included includes no other").expected("a value")));
    }
    match item::item(lexer, context, emit) {
        Ok(_) if lexer.kind == Kind::Eol => Ok(()),
        Ok(_) => {
            let what = format!("{} behind a value", described(lexer.kind, lexer.word()));
            Err((lexer.span, Message::new(what).expected("a value a line")))
        }
        Err(Fault::Syntax(span, message) | Fault::Meaning(span, message)) => Err((span, message)),
    }
}
