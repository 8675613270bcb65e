//! Parser of single values, as rules write them.

use std::fmt;

use super::entry::fit;
use super::fields::FieldInfo;
use super::item;
use super::lexer::Lexer;
use super::values::{Context, Fault};
use crate::report::{Message, quote};
use firstmatch_core::rule::Test;
use firstmatch_core::schema::{Family, Schema};

/// Reads one value of a field as rules write it.
///
/// An address, a number or a name is a value; a range, prefix, mask or list is not. For example, `tcp` and `6` are the
/// same value of `proto`. If the schema has a family, addresses are of that family, otherwise of the family that fits
/// the field's width.
///
/// # Errors
/// If the field takes no such value; the error describes the values that it takes.
///
/// # Panics
/// If the schema has no field of this index.
pub fn parse_value(schema: &Schema, field: usize, text: &str) -> Result<u128, ValueError> {
    let info = FieldInfo::of(&schema.fields()[field], schema.family());
    let failed = |message: Message| {
        let (what, expected) = message.into_parts();
        // A corrected range, prefix or mask is no value either.
        let expected = expected.filter(|expected| *expected != info.wants() && !text.contains(['/', '-']));
        ValueError { what, expected: expected.unwrap_or_else(|| info.wants_one()) }
    };
    let mut lexer = Lexer::new(text, 0);
    let mut found = None;
    let context = Context {
        only: None,
        info: Some(info),
        own_schema: schema.family().is_none(),
        is_single: true,
        in_list: true,
        may_except: false,
    };
    // The name of an ICMP type has two entries; the one of this family is meant.
    let read = item::item(&mut lexer, context, &mut |entry| {
        if found.is_none_or(|_| entry.family == schema.family()) {
            found = Some(entry);
        }
    });
    if let Err(Fault::Syntax(_, message) | Fault::Meaning(_, message)) = read {
        return Err(failed(message));
    }
    let rest = text.get(lexer.span.start..).unwrap_or_default().trim();
    if !rest.is_empty() {
        return Err(failed(Message::new(format!("{} after a value", quote(rest))).expected("one value")));
    }
    let Some(entry) = found else { return Err(failed(Message::new("no value"))) };
    match fit(&entry, &info).map_err(failed)? {
        (Some(family), _) if Some(family) != schema.family() => {
            let other = if family == Family::Ipv4 { Family::Ipv6 } else { Family::Ipv4 };
            Err(failed(Message::new(format!("{} does not exist in {}", quote(text.trim()), other.pretty()))))
        }
        (_, Test::Value(value)) => Ok(value),
        (_, Test::Absent) => Err(failed(Message::new(format!("{} is no value", quote(text.trim()))))),
        _ => Err(failed(Message::new("more than one value"))),
    }
}

/// Error: a text is not a value of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValueError {
    what: String,
    expected: String,
}

impl ValueError {
    /// Describes the fault.
    pub fn what(&self) -> &str {
        &self.what
    }

    /// Describes the values that the field takes.
    pub fn expected(&self) -> &str {
        &self.expected
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; expected {}", self.what, self.expected)
    }
}

impl std::error::Error for ValueError {}
