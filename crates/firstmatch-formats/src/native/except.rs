//! Exceptions: values that are taken out of a range or a prefix, as in `10.0.0.0/8 except 10.1.0.0/16`.
//!
//! The reader computes what is left, so that rules have plain ranges and prefixes. *n* exceptions leave at most *n* + 1
//! of them.
//!
//! # Invariants
//! - The entries hold the values of the whole without those of the exceptions, and no others (`except` in the tests of
//!   formats compares them value by value).

use super::entry::{Entry, fit};
use super::lexer::{Kind, Lexer, described};
use super::literal::{Value, free_bits, value};
use super::values::{Context, Fault, masked, range};
use crate::report::{Message, Span, quote};
use firstmatch_core::rule::Test;

/// Word between a value and its exceptions.
pub(super) const EXCEPT: &str = "except";

/// Reads `except` and the exceptions from `base`, whose first value is `from`, and passes what is left to `emit`.
///
/// `whole` is the span of `base`; the result is the span of all.
pub(super) fn read(
    lexer: &mut Lexer<'_>,
    base: Entry,
    from: Value,
    whole: Span,
    context: Context<'_>,
    emit: &mut dyn FnMut(Entry),
) -> Result<Span, Fault> {
    lexer.bump();
    let (mut holes, mut fault) = (Vec::new(), None);
    let mut take = |read: Result<Hole, Fault>| match read {
        Ok(hole) => {
            holes.push(hole);
            Ok(())
        }
        Err(Fault::Meaning(span, message)) => {
            fault = fault.take().or(Some(Fault::Meaning(span, message)));
            Ok(())
        }
        Err(syntax) => Err(syntax),
    };
    if lexer.kind == Kind::Open {
        several(lexer, from, context, &mut take)?;
    } else {
        take(one(lexer, from, context))?;
    }
    let end = whole.to(lexer.before());
    if let Some(fault) = fault {
        return Err(fault);
    }
    let meaning = |span, what: String, expected: &str| Err(Fault::Meaning(span, Message::new(what).expected(expected)));
    let Some((lo, hi)) = bounds(base.test, from).filter(|(lo, hi)| lo < hi) else {
        return meaning(whole, "exceptions from a value or a mask".to_owned(), "a range or a prefix before `except`");
    };
    let text = lexer.text_of(whole);
    if let Some(hole) = holes.iter().find(|hole| hole.lo < lo || hole.hi > hi) {
        let what = format!("{} is not inside {}", quote(lexer.text_of(hole.span)), quote(text));
        return meaning(hole.span, what, "an exception inside it");
    }
    if let Some(Err(message)) = context.info.map(|info| fit(&base, &info)) {
        return Err(Fault::Meaning(whole, message));
    }
    holes.sort_unstable_by_key(|hole| hole.lo);
    let (mut next, mut is_left) = (Some(lo), false);
    let ends = holes.iter().map(|hole| (hole.lo, hole.hi.checked_add(1))).chain([(hi, None)]);
    for (at, (start, after)) in ends.enumerate() {
        let Some(first) = next else { break };
        // The last piece reaches to the end of the whole, the others end before an exception.
        let last = if at == holes.len() { Some(start) } else { start.checked_sub(1) };
        if let Some(last) = last.filter(|&last| last >= first && first <= hi) {
            is_left = true;
            emit(Entry { test: piece(first, last, from), ..base });
        }
        next = if at == holes.len() { None } else { after.map(|after| after.max(first)) };
    }
    if is_left { Ok(end) } else { meaning(end, format!("nothing is left of {}", quote(text)), "fewer exceptions") }
}

/// Values of an exception, both ends included.
struct Hole {
    lo: u128,
    hi: u128,
    span: Span,
}

/// Reads exceptions between braces; the current token is `{`.
fn several(
    lexer: &mut Lexer<'_>,
    from: Value,
    context: Context<'_>,
    take: &mut dyn FnMut(Result<Hole, Fault>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let open = lexer.span;
    lexer.bump();
    let read = loop {
        if let Err(fault) = take(one(lexer, from, context)) {
            break Err(fault);
        }
        match lexer.kind {
            Kind::Comma => {
                lexer.bump();
                if lexer.kind == Kind::Close {
                    break Ok(());
                }
            }
            Kind::Close => break Ok(()),
            Kind::Eol => {
                let message = Message::new("this `{` is never closed").expected("`}` after the last exception");
                break Err(Fault::Syntax(open, message));
            }
            kind => {
                let what = format!("{} after an exception", described(kind, lexer.word()));
                break Err(Fault::Syntax(lexer.span, Message::new(what).expected("`,` or `}`")));
            }
        }
    };
    // A list around it goes on behind these braces.
    while !matches!(lexer.kind, Kind::Close | Kind::Eol) {
        lexer.bump();
    }
    if lexer.kind == Kind::Close {
        lexer.bump();
    }
    read
}

/// Reads one exception: a value, a range or a prefix of the kind of `from`.
fn one(lexer: &mut Lexer<'_>, from: Value, context: Context<'_>) -> Result<Hole, Fault> {
    let first = lexer.span;
    if !lexer.is_at_value() {
        let what = format!("{} where an exception should be", described(lexer.kind, lexer.word()));
        let message = Message::new(what).expected("a number, an address, a range or a prefix");
        return Err(Fault::Syntax(first, message));
    }
    let word = lexer.word();
    lexer.bump();
    let start = value(word, context.own_schema).map_err(|message| Fault::Syntax(first, message))?;
    let (test, last) = match lexer.kind {
        Kind::Dash => range(lexer, word, first, start, context)?,
        Kind::Slash => masked(lexer, word, first, start, context)?,
        _ => (Test::Value(start.bits()), first),
    };
    let span = first.to(last);
    if start.kind() != from.kind() {
        let what = format!("{} as an exception from {}", start.kind(), from.kind());
        return Err(Fault::Meaning(span, Message::new(what).expected(from.kind())));
    }
    let Some((lo, hi)) = bounds(test, start) else {
        let message = Message::new("a mask as an exception").expected("a value, a range or a prefix");
        return Err(Fault::Meaning(span, message));
    };
    Ok(Hole { lo, hi, span })
}

/// Returns the first and the last value of a test; `None` for a test of other values than those between them.
fn bounds(test: Test, of: Value) -> Option<(u128, u128)> {
    match test {
        Test::Value(value) => Some((value, value)),
        Test::Range { lo, hi } => Some((lo, hi)),
        Test::Prefix { value, len } => Some((value, value | free_bits(of.width(), len))),
        Test::Mask { .. } | Test::Absent | Test::Set(_) => None,
    }
}

/// Returns the test of the values from `lo` to `hi`: a value, a prefix of addresses, or a range.
fn piece(lo: u128, hi: u128, of: Value) -> Test {
    if lo == hi {
        return Test::Value(lo);
    }
    let free = hi - lo;
    if matches!(of, Value::Number(_)) || free & free.wrapping_add(1) != 0 || lo & free != 0 {
        return Test::Range { lo, hi };
    }
    Test::Prefix { value: lo, len: of.width() - free.count_ones() }
}
