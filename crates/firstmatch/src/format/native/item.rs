//! Items: one value, range, prefix or value under a mask, as operands and sets hold them.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::lexer::{Kind, Lexer};
use super::names::{self, FIELDS, FieldInfo};
use super::parser::described;
use crate::format::report::{Message, Span, quote};
use crate::rule::Test;
use crate::schema::Family;

/// What sort of value an item holds; which fields take it follows from that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Address,
    Number,
    Protocol,
    IcmpType,
}

/// One test of an item. The name of an ICMP type makes two: one for each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) class: Class,
    pub(super) family: Option<Family>,
    pub(super) test: Test,
}

/// Why an item is no good. `Syntax`: nothing after it on this line can be trusted.
pub(super) enum Fault {
    Syntax(Span, Message),
    Meaning(Span, Message),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    Address(Family, u128),
    Number(u128),
}

/// Reads an item that is no reference to a set, and hands its entries to `emit`.
pub(super) fn item(lexer: &mut Lexer<'_>, only: Option<Family>, emit: &mut dyn FnMut(Entry)) -> Result<Span, Fault> {
    let first = lexer.span;
    if lexer.kind != Kind::Word {
        let what = format!("{} where a value should be", described(lexer.kind, lexer.word()));
        return Err(Fault::Syntax(first, Message::new(what).expected("a value, a name or `$` and the name of a set")));
    }
    let word = lexer.word();
    lexer.bump();
    if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !word.contains([':', '.']) {
        return name(lexer, word, first, only, emit);
    }
    let from = value(word).map_err(|message| skip(lexer, first, message))?;
    let (test, last) = match lexer.kind {
        Kind::Dash => range(lexer, word, first, from)?,
        Kind::Slash => masked(lexer, word, first, from)?,
        _ => (Test::Value(from.bits()), first),
    };
    let (class, family) = match from {
        Value::Address(family, _) => (Class::Address, Some(family)),
        Value::Number(_) => (Class::Number, None),
    };
    if let (Some(family), Some(only)) = (family, only)
        && family != only
    {
        let what = format!("an {} address in a file of family {only}", pretty(family));
        let expected = format!("an {} address, or the directive `family inet`", pretty(only));
        return Err(Fault::Meaning(first.to(last), Message::new(what).expected(expected)));
    }
    emit(Entry { class, family, test });
    Ok(first.to(last))
}

fn name(
    lexer: &mut Lexer<'_>,
    word: &str,
    span: Span,
    only: Option<Family>,
    emit: &mut dyn FnMut(Entry),
) -> Result<Span, Fault> {
    if matches!(lexer.kind, Kind::Dash | Kind::Slash) {
        let what = format!("a name before {}", lexer.kind.name());
        return Err(skip(lexer, span, Message::new(what).expected("a number: ranges and masks take no names")));
    }
    if let Some(number) = names::protocol(word) {
        emit(Entry { class: Class::Protocol, family: None, test: Test::Value(number.into()) });
    } else if let Some(numbers) = names::icmp_type(word) {
        let mut numbers = numbers.into_iter().filter(|(family, _)| only.is_none_or(|only| only == *family));
        let mut any = false;
        for (family, number) in numbers.by_ref().filter_map(|(family, number)| Some((family, number?))) {
            any = true;
            emit(Entry { class: Class::IcmpType, family: Some(family), test: Test::Value(number.into()) });
        }
        if let (false, Some(only)) = (any, only) {
            let what = format!("{} does not exist in {}", quote(word), pretty(only));
            return Err(Fault::Meaning(span, Message::new(what)));
        }
    } else {
        let known = names::PROTOCOLS.iter().map(|p| p.0).chain(names::ICMP_TYPES.iter().map(|t| t.0));
        let message = Message::new(format!("unknown name {}", quote(word))).suggest(names::suggest(word, known));
        return Err(Fault::Meaning(span, message));
    }
    Ok(span)
}

/// After `value -`.
fn range(lexer: &mut Lexer<'_>, word: &str, first: Span, from: Value) -> Result<(Test, Span), Fault> {
    lexer.bump();
    let last = lexer.span;
    if lexer.kind != Kind::Word {
        return Err(Fault::Syntax(last, Message::new("a range without its end").expected("the largest value")));
    }
    let end = lexer.word();
    lexer.bump();
    let to = value(end).map_err(|message| Fault::Meaning(last, message))?;
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

/// After `value /`: the length of a prefix, or a mask.
fn masked(lexer: &mut Lexer<'_>, word: &str, first: Span, from: Value) -> Result<(Test, Span), Fault> {
    lexer.bump();
    let last = lexer.span;
    if lexer.kind != Kind::Word {
        let expected = if matches!(from, Value::Number(_)) { "a mask" } else { "a prefix length or a mask" };
        return Err(Fault::Syntax(last, Message::new("nothing after the `/`").expected(expected)));
    }
    let end = lexer.word();
    lexer.bump();
    let mask = value(end).map_err(|message| Fault::Meaning(last, message))?;
    let whole = first.to(last);
    let excess = |kept: Value, what: &str| {
        let what = format!("{} has bits outside its {what}", quote(word));
        Fault::Meaning(whole, Message::new(what).expected(format!("`{kept}/{end}`")))
    };
    match (from, mask) {
        (Value::Address(family, bits), Value::Number(len)) => {
            let width = family.address_bits();
            let Some(len) = u32::try_from(len).ok().filter(|&len| len <= width) else {
                let what = format!("a prefix length of {end} for an {} address", pretty(family));
                return Err(Fault::Meaning(last, Message::new(what).expected(format!("0 to {width}"))));
            };
            let free = u128::MAX.checked_shr(128 - (width - len)).unwrap_or(0);
            if bits & free != 0 {
                return Err(excess(Value::Address(family, bits & !free), "prefix"));
            }
            Ok((Test::Prefix { value: bits, len }, last))
        }
        (Value::Address(family, bits), Value::Address(other, mask)) if family == other => {
            if bits & !mask != 0 {
                return Err(excess(Value::Address(family, bits & mask), "mask"));
            }
            Ok((Test::Mask { value: bits, mask }, last))
        }
        (Value::Number(bits), Value::Number(mask)) => {
            if bits & !mask != 0 {
                return Err(excess(Value::Number(bits & mask), "mask"));
            }
            Ok((Test::Mask { value: bits, mask }, last))
        }
        _ => {
            let what = format!("{} under the mask of {}", from.kind(), mask.kind());
            Err(Fault::Meaning(whole, Message::new(what)))
        }
    }
}

/// A fault in the first value of an item: what follows it, to the item's end, is passed over.
fn skip(lexer: &mut Lexer<'_>, span: Span, message: Message) -> Fault {
    if matches!(lexer.kind, Kind::Dash | Kind::Slash) {
        lexer.bump();
        if lexer.kind == Kind::Word {
            lexer.bump();
        }
    }
    Fault::Meaning(span, message)
}

impl Value {
    fn bits(self) -> u128 {
        match self {
            Self::Address(_, bits) | Self::Number(bits) => bits,
        }
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Address(Family::Ipv4, _) => "an IPv4 address",
            Self::Address(Family::Ipv6, _) => "an IPv6 address",
            Self::Number(_) => "a number",
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Address(Family::Ipv4, bits) => Ipv4Addr::from(bits as u32).fmt(f),
            Self::Address(Family::Ipv6, bits) => Ipv6Addr::from(bits).fmt(f),
            Self::Number(bits) => write!(f, "{bits:#04x}"),
        }
    }
}

/// A word that is no name.
fn value(word: &str) -> Result<Value, Message> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if word.contains(':') {
        let parsed = word.parse::<Ipv6Addr>().map(|a| Value::Address(Family::Ipv6, a.to_bits()));
        return parsed.map_err(|_| {
            let message = Message::new(format!("{} is no IPv6 address", quote(word)));
            match word.split_once(':') {
                Some((lo, hi)) if digits(lo) && digits(hi) => message.expected(format!("a range such as `{lo}-{hi}`")),
                _ => message,
            }
        });
    }
    if word.contains('.') {
        let parsed = word.parse::<Ipv4Addr>().map(|a| Value::Address(Family::Ipv4, a.to_bits().into()));
        return parsed.map_err(|_| {
            let what = format!("{} is no IPv4 address", quote(word));
            Message::new(what).expected("four numbers from 0 to 255 with dots between, without leading zeros")
        });
    }
    let parsed = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(hex) if !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        None if digits(word) && word.len() > 1 && word.starts_with('0') => {
            let what = format!("the number {} starts with 0", quote(word));
            return Err(Message::new(what).expected("a decimal number, or a hexadecimal one after 0x"));
        }
        None if digits(word) => word.parse().ok(),
        _ => {
            let what = format!("{} is neither a number nor an address", quote(word));
            return Err(Message::new(what));
        }
    };
    let number = parsed.filter(|&number| u32::try_from(number).is_ok());
    number
        .map(|n| Value::Number(n.into()))
        .ok_or_else(|| Message::new(format!("the number {} is too large", quote(word))))
}

/// The number a word is, for `mark`.
pub(super) fn number(word: &str) -> Result<u32, Message> {
    let expected = "a number up to 4294967295";
    match value(word).map_err(|message| message.expected(expected))? {
        Value::Number(number) => Ok(number as u32),
        other => Err(Message::new(format!("{} where a number should be", other.kind())).expected(expected)),
    }
}

/// What `field` makes of an entry: the test it adds, or why it does not take it.
pub(super) fn fit(entry: &Entry, field: usize) -> Result<(Option<Family>, Test), Message> {
    let info = &FIELDS[field];
    let takes = match entry.class {
        Class::Address => info.is_address(),
        Class::Number => !info.is_address(),
        Class::Protocol => field == names::PROTO,
        Class::IcmpType => field == names::ICMP_TYPE,
    };
    if !takes {
        return Err(Message::new(format!("{} takes no {}", info.name, entry.describe())).expected(info.wants()));
    }
    if entry.class == Class::Number {
        let largest = match entry.test {
            Test::Value(value) | Test::Prefix { value, .. } => value,
            Test::Range { hi, .. } => hi,
            Test::Mask { mask, .. } => mask,
        };
        if largest > info.max {
            return Err(too_large(info, largest));
        }
    }
    Ok((entry.family, entry.test))
}

fn too_large(info: &FieldInfo, value: u128) -> Message {
    Message::new(format!("{value} is too large for {}", info.name)).expected(info.wants())
}

impl Entry {
    fn describe(&self) -> String {
        match (self.class, self.family, self.test) {
            (Class::Number, _, Test::Value(number)) => format!("number ({number})"),
            (Class::Number, ..) => "numbers".into(),
            (Class::Address, Some(family), _) => format!("{} address", pretty(family)),
            (Class::Address, None, _) => "address".into(),
            (Class::Protocol, ..) => "protocol".into(),
            (Class::IcmpType, ..) => "ICMP type".into(),
        }
    }
}

pub(super) fn pretty(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}
