//! Values as literals: ranges, prefixes and values under masks, after their first word.

use super::correction;
use super::fields::{FieldInfo, Takes};
use super::lexer::{Kind, Lexer};
use super::literal::{Value, free_bits, value};
use crate::report::{Message, Span, quote};
use firstmatch_core::rule::Test;
use firstmatch_core::schema::Family;

/// Facts of the file that matter to all items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context<'t> {
    /// Family that the file is confined to.
    pub(super) only: Option<Family>,
    /// Field that the item is for; `None` in a set.
    pub(super) info: Option<FieldInfo<'t>>,
    /// Whether the file has its own schema.
    ///
    /// If so, MAC addresses, ether types and numbers above 32 bits are values.
    pub(super) own_schema: bool,
    /// Whether the item is part of one rule for an existing set, and there is no file.
    pub(super) is_single: bool,
    /// Whether a comma separates alternatives, any of which may match; otherwise it joins TCP flags that must all hold.
    pub(super) in_list: bool,
    /// Whether exceptions may follow the value; not where `not` stands before it, because that has two meanings.
    pub(super) may_except: bool,
}

/// Fault of an item. After `Syntax` nothing on this line can be trusted.
pub(super) enum Fault {
    Syntax(Span, Message),
    Meaning(Span, Message),
}

/// Reads the rest of a range, after `value`, and returns its test.
pub(super) fn range(
    lexer: &mut Lexer<'_>,
    word: &str,
    first: Span,
    from: Value,
    context: Context<'_>,
) -> Result<(Test, Span), Fault> {
    lexer.bump();
    let last = lexer.span;
    if lexer.kind != Kind::Word {
        return Err(Fault::Syntax(last, Message::new("a range without its end").expected("the largest value")));
    }
    let end = lexer.word();
    lexer.bump();
    let to = value(end, context.own_schema).map_err(|message| Fault::Meaning(last, message))?;
    if from.kind() != to.kind() {
        let what = format!("a range from {} to {}", from.kind(), to.kind());
        return Err(Fault::Meaning(first.to(last), Message::new(what).expected("two values of one kind")));
    }
    let (lo, hi) = (from.bits(), to.bits());
    if lo > hi {
        let what = format!("the range is reversed: {} is above {}", quote(word), quote(end));
        return Err(Fault::Meaning(first.to(last), Message::new(what).expected(format!("`{end}-{word}`"))));
    }
    Ok((Test::Range { lo, hi }, last))
}

/// Reads the rest after `value`: `/` and the length of a prefix, or a mask.
pub(super) fn masked(
    lexer: &mut Lexer<'_>,
    word: &str,
    first: Span,
    from: Value,
    context: Context<'_>,
) -> Result<(Test, Span), Fault> {
    lexer.bump();
    let last = lexer.span;
    if lexer.kind != Kind::Word {
        let number = matches!(from, Value::Number(_)) && !context.own_schema;
        let expected = if number { "a mask" } else { "a prefix length or a mask" };
        return Err(Fault::Syntax(last, Message::new("nothing after the `/`").expected(expected)));
    }
    let end = lexer.word();
    lexer.bump();
    let mask = value(end, context.own_schema).map_err(|message| Fault::Meaning(last, message))?;
    let whole = first.to(last);
    let is_decimal = !word.starts_with("0x") && !word.starts_with("0X");
    match (from, mask) {
        (Value::Address(_, bits) | Value::Mac(bits), Value::Number(len)) => {
            let width = from.width();
            let Some(len) = u32::try_from(len).ok().filter(|&len| len <= width) else {
                let what = format!("a prefix length of {end} for {}", from.kind());
                return Err(Fault::Meaning(last, Message::new(what).expected(format!("0 to {width}"))));
            };
            if bits & free_bits(width, len) != 0 {
                return Err(Fault::Meaning(whole, correction::outside_prefix(word, from, len, width)));
            }
            Ok((Test::Prefix { value: bits, len }, last))
        }
        // The field decides their meaning, or takes no numbers.
        (Value::Number(value), Value::Number(mask)) if context.own_schema || context.takes_addresses() => {
            Ok((Test::Mask { value, mask }, last))
        }
        (Value::Number(value), Value::Number(mask)) => {
            if value & !mask != 0 {
                let message = correction::outside_number(word, value, mask, is_decimal, context.info.as_ref());
                return Err(Fault::Meaning(whole, message));
            }
            Ok((Test::Mask { value, mask }, last))
        }
        _ if from.kind() == mask.kind() => {
            let (value, mask_bits) = (from.bits(), mask.bits());
            if value & !mask_bits != 0 {
                return Err(Fault::Meaning(whole, correction::outside_mask([word, end], from, mask)));
            }
            Ok((Test::Mask { value, mask: mask_bits }, last))
        }
        _ => {
            let what = format!("{} under the mask of {}", from.kind(), mask.kind());
            Err(Fault::Meaning(whole, Message::new(what)))
        }
    }
}

/// Skips to the end of an item whose first value has a fault, and returns the fault.
pub(super) fn skip(lexer: &mut Lexer<'_>, span: Span, message: Message) -> Fault {
    if matches!(lexer.kind, Kind::Dash | Kind::Slash) {
        lexer.bump();
        if lexer.kind == Kind::Word {
            lexer.bump();
        }
    }
    Fault::Meaning(span, message)
}

impl Context<'_> {
    /// Whether the item is for a field that takes addresses and no numbers.
    fn takes_addresses(&self) -> bool {
        self.info.is_some_and(|info| matches!(info.takes, Takes::Address(_)))
    }
}
