//! Items: one value, range, prefix or value under a mask, as operands and sets hold them.

use super::entry::{ABSENT, Class, Entry, bit_of};
use super::except::{self, EXCEPT};
use super::fields::Takes;
use super::lexer::{Kind, Lexer, described};
use super::literal::{Value, value};
use super::values::{Context, Fault, masked, range, skip};
use super::{flags, icmp, names, services};
use crate::report::{Message, Span, quote};
use firstmatch_core::rule::Test;
use firstmatch_core::schema::{ExtensionHeader, Family};

/// Reads an item that is not a reference to a set, and passes its entries to `emit`.
pub(super) fn item(lexer: &mut Lexer<'_>, context: Context<'_>, emit: &mut dyn FnMut(Entry)) -> Result<Span, Fault> {
    let first = lexer.span;
    let takes = context.info.map(|info| info.takes);
    match lexer.kind {
        Kind::Word if flags::is_name(lexer.word()) => return tcp_flags(lexer, context, emit),
        Kind::Not if matches!(takes, None | Some(Takes::TcpFlags | Takes::Anything)) => {
            return tcp_flags(lexer, context, emit);
        }
        Kind::Not => {
            let message = Message::new("`!` before a value").expected("`not` behind the field: `dport not 22`");
            return Err(Fault::Syntax(first, message));
        }
        Kind::Less | Kind::LessOrEqual | Kind::Greater | Kind::GreaterOrEqual => {
            return comparison(lexer, context, emit);
        }
        _ => {}
    }
    if lexer.kind != Kind::Word {
        let what = format!("{} where a value should be", described(lexer.kind, lexer.word()));
        return Err(Fault::Syntax(first, Message::new(what).expected("a value, a name or `$` and the name of a set")));
    }
    let word = lexer.word();
    lexer.bump();
    if word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !word.contains([':', '.']) {
        return name(lexer, word, first, context, emit);
    }
    let from = value(word, context.own_schema).map_err(|message| skip(lexer, first, message))?;
    let (test, last) = match lexer.kind {
        Kind::Dash => range(lexer, word, first, from, context)?,
        Kind::Slash => masked(lexer, word, first, from, context)?,
        _ => (Test::Value(from.bits()), first),
    };
    let (class, family) = match from {
        Value::Address(family, _) => (Class::Address, Some(family)),
        Value::Mac(_) => (Class::Mac, None),
        Value::Number(_) if context.own_schema && matches!(test, Test::Mask { .. }) => (Class::Slash, None),
        Value::Number(_) => (Class::Number, None),
    };
    if let (Some(family), Some(only)) = (family, context.only)
        && family != only
    {
        let what = format!("an {} address {}", family.pretty(), among(context.is_single, only));
        let expected = format!("an {} address{}", only.pretty(), or_both(context.is_single));
        return Err(Fault::Meaning(first.to(last), Message::new(what).expected(expected)));
    }
    let entry = Entry { class, family, test };
    if context.may_except && lexer.is_word(EXCEPT) {
        return except::read(lexer, entry, from, first.to(last), context, emit);
    }
    emit(entry);
    Ok(first.to(last))
}

fn name(
    lexer: &mut Lexer<'_>,
    word: &str,
    span: Span,
    context: Context<'_>,
    emit: &mut dyn FnMut(Entry),
) -> Result<Span, Fault> {
    if matches!(lexer.kind, Kind::Dash | Kind::Slash) {
        let what = format!("a name before {}", lexer.kind.name());
        return Err(skip(lexer, span, Message::new(what).expected("a number: ranges and masks take no names")));
    }
    let ether_type = names::ether_type(word).filter(|_| context.own_schema);
    if word == ABSENT {
        emit(Entry { class: Class::Absent, family: None, test: Test::Absent });
        return Ok(span);
    }
    let mut one = |class, number: u16| emit(Entry { class, family: None, test: Test::Value(number.into()) });
    if let Some(number) = names::protocol(word) {
        let service = services::service_port(word).map(Class::ProtocolOrService);
        one(ether_type.map(Class::ProtocolOrEtherType).or(service).unwrap_or(Class::Protocol), number.into());
    } else if let Some(number) = ether_type {
        one(Class::EtherType, number);
    } else if let Some(port) = services::service_port(word)
        && (takes_services(context) || meant(word, context).is_none())
    {
        one(Class::Service, port);
    } else if let Some(number) = names::fragment(word) {
        one(Class::Fragment, number.into());
    } else if let Some(header) = ExtensionHeader::by_name(word) {
        emit(Entry { class: Class::ExtHeader, family: None, test: bit_of(header) });
    } else {
        let of_type = icmp::type_numbers(word).map(|numbers| (Class::IcmpType, numbers));
        let of_code = || icmp::code(word).map(|(of, numbers)| (Class::IcmpCode(of), numbers));
        let Some((class, numbers)) = of_type.or_else(of_code) else {
            let message = Message::new(format!("unknown name {}", quote(word))).suggest(meant(word, context));
            return Err(Fault::Meaning(span, message));
        };
        let numbers =
            icmp::by_family(numbers).into_iter().filter(|(of, _)| context.only.is_none_or(|only| only == *of));
        let mut any = false;
        for (family, number) in numbers.filter_map(|(family, number)| Some((family, number?))) {
            any = true;
            emit(Entry { class, family: Some(family), test: Test::Value(number.into()) });
        }
        if let (false, Some(only)) = (any, context.only) {
            let what = format!("{} does not exist in {}", quote(word), only.pretty());
            return Err(Fault::Meaning(span, Message::new(what)));
        }
    }
    Ok(span)
}

fn tcp_flags(lexer: &mut Lexer<'_>, context: Context<'_>, emit: &mut dyn FnMut(Entry)) -> Result<Span, Fault> {
    let (span, tests) = flags::read(lexer, context.in_list).map_err(|(span, message)| Fault::Syntax(span, message))?;
    tests.into_iter().for_each(|test| emit(Entry { class: Class::TcpFlags, family: None, test }));
    Ok(span)
}

/// Whether the item is for ports, or for a field that is not known yet.
fn takes_services(context: Context<'_>) -> bool {
    context.info.is_none_or(|info| matches!(info.takes, Takes::Port | Takes::Anything))
}

/// Returns the name that was probably meant by an unknown word, among the names that the field takes.
fn meant(word: &str, context: Context<'_>) -> Option<&'static str> {
    // Only this word is surely about packets without the field.
    if word == "untagged" && context.info.is_some_and(|info| info.optional) {
        return Some(ABSENT);
    }
    let takes = context.info.map_or(Takes::Anything, |info| info.takes);
    let any = takes == Takes::Anything;
    let protocols = names::PROTOCOLS.iter().map(|p| p.0).filter(|_| any || takes == Takes::Protocol);
    let types = icmp::TYPES.iter().map(|t| t.0).filter(|_| any || matches!(takes, Takes::IcmpType { .. }));
    let codes = icmp::CODES.iter().map(|c| c.0).filter(|_| any || matches!(takes, Takes::IcmpCode { .. }));
    let is_ether_type = context.own_schema && (any || takes == Takes::EtherType);
    let ether_types = names::ETHER_TYPES.iter().map(|t| t.0).filter(|_| is_ether_type);
    let headers = ExtensionHeader::ALL.into_iter().map(|h| h.name).filter(|_| any || takes == Takes::ExtHeaders);
    let services = services::SERVICES.iter().map(|s| s.0).filter(|_| any || takes == Takes::Port);
    let fragments = names::FRAGMENTS.iter().map(|f| f.0).filter(|_| any || takes == Takes::Fragment);
    let flags = flags::names().filter(|_| any || takes == Takes::TcpFlags);
    let known = protocols.chain(types).chain(ether_types).chain(headers).chain(flags).chain(fragments);
    let known = known.chain(codes).chain(services);
    names::suggest(word, known)
}

/// Reads `<`, `<=`, `>` or `>=` and a number.
fn comparison(lexer: &mut Lexer<'_>, context: Context<'_>, emit: &mut dyn FnMut(Entry)) -> Result<Span, Fault> {
    let (first, sign) = (lexer.span, lexer.kind);
    lexer.bump();
    let last = lexer.span;
    let word = lexer.word();
    if lexer.kind != Kind::Word {
        let what = format!("{} after {}", described(lexer.kind, word), sign.name());
        return Err(Fault::Syntax(last, Message::new(what).expected("a number")));
    }
    lexer.bump();
    let whole = first.to(last);
    let number = match value(word, context.own_schema) {
        Ok(Value::Number(number)) => number,
        Ok(other) => {
            let what = format!("{} after {}", other.kind(), sign.name());
            return Err(Fault::Meaning(whole, Message::new(what).expected("a number, or a range of addresses")));
        }
        Err(message) => return Err(Fault::Meaning(last, message.or_expected(|| "a number".to_owned()))),
    };
    let lo = match sign {
        Kind::Greater => number.checked_add(1),
        _ => Some(number),
    };
    let (class, lo, hi) = match (sign, lo) {
        (Kind::Less, _) if number == 0 => {
            return Err(Fault::Meaning(whole, Message::new("no number is below 0")));
        }
        (Kind::Less, _) => (Class::Number, 0, number - 1),
        (Kind::LessOrEqual, _) => (Class::Number, 0, number),
        (_, Some(lo)) => (Class::AtLeast, lo, u128::MAX),
        (_, None) => return Err(Fault::Meaning(whole, Message::new(format!("no value is above {}", quote(word))))),
    };
    emit(Entry { class, family: None, test: Test::Range { lo, hi } });
    Ok(whole)
}

/// Parses the number of an action `mark`.
pub(super) fn number(word: &str) -> Result<u32, Message> {
    let expected = "a number up to 4294967295";
    match value(word, false).map_err(|message| message.expected(expected))? {
        Value::Number(number) => Ok(number as u32),
        other => Err(Message::new(format!("{} where a number should be", other.kind())).expected(expected)),
    }
}

/// Describes the place of an item: rules or a file of the family `only`.
pub(super) fn among(is_single: bool, only: Family) -> String {
    format!("{} of family {only}", if is_single { "among rules" } else { "in a file" })
}

/// Describes the remedy, if there is one: a set keeps the families that it has.
pub(super) fn or_both(is_single: bool) -> &'static str {
    if is_single { "" } else { ", or the directive `family inet`" }
}
