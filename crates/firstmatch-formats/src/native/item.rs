//! Items: one value, range, prefix or value under a mask, as operands and sets hold them.

use super::correction;
use super::fields::{FieldInfo, Takes};
use super::lexer::{Kind, Lexer, described};
use super::literal::{Value, free_bits, value};
use super::{flags, icmp, names, services};
use crate::report::{Message, Span, quote};
use firstmatch_core::rule::Test;
use firstmatch_core::schema::{ExtensionHeader, Family, Kind as FieldKind};

/// Word for packets that lack a field.
pub(crate) const ABSENT: &str = "absent";

/// Kind of value that an item holds; it decides which fields take the item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Class {
    Address,
    Number,
    Mac,
    Protocol,
    EtherType,
    /// Name of a protocol that is also the name of an ether type, with this number.
    ProtocolOrEtherType(u16),
    /// Name of a protocol that is also the name of a service, with this port.
    ProtocolOrService(u16),
    Service,
    IcmpType,
    /// Name of an ICMP code, with the name of its type.
    IcmpCode(&'static str),
    /// Flags under a mask; both have only bits of flags.
    TcpFlags,
    /// Numbers from the lower end of the test; the field determines the upper end.
    AtLeast,
    /// Packets that lack the field.
    Absent,
    /// `first`, `later` or `none`.
    Fragment,
    /// Name of an extension header of IPv6 that is not also a protocol's name.
    ///
    /// The test has the header's bit as value and as mask.
    ExtHeader,
    /// Number, `/` and a number.
    ///
    /// The second number stands in the mask of the test. The field decides whether it is a mask or the length of a
    /// prefix.
    Slash,
}

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
}

/// One test of an item.
///
/// The name of an ICMP type or code makes two tests: one for each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) class: Class,
    pub(super) family: Option<Family>,
    pub(super) test: Test,
}

/// Fault of an item. After `Syntax` nothing on this line can be trusted.
pub(super) enum Fault {
    Syntax(Span, Message),
    Meaning(Span, Message),
}

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
    emit(Entry { class, family, test });
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

/// Returns the test whether a packet carries this header.
fn bit_of(header: ExtensionHeader) -> Test {
    Test::Mask { value: header.bit.into(), mask: header.bit.into() }
}

/// Reads the rest of a range, after `value`, and returns its test.
fn range(
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
fn masked(
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
fn skip(lexer: &mut Lexer<'_>, span: Span, message: Message) -> Fault {
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

/// Parses the number of an action `mark`.
pub(super) fn number(word: &str) -> Result<u32, Message> {
    let expected = "a number up to 4294967295";
    match value(word, false).map_err(|message| message.expected(expected))? {
        Value::Number(number) => Ok(number as u32),
        other => Err(Message::new(format!("{} where a number should be", other.kind())).expected(expected)),
    }
}

/// Returns the test that an entry adds to a condition on the field, or the reason why it does not fit.
pub(super) fn fit(entry: &Entry, info: &FieldInfo<'_>) -> Result<(Option<Family>, Test), Message> {
    let takes = match (entry.class, info.takes) {
        (_, Takes::Anything) => return Ok((None, Test::Value(0))),
        (Class::Absent, _) if !info.optional => {
            let what = format!("{} is never absent: every packet has it", info.name);
            return Err(Message::new(what).expected(info.wants()));
        }
        (Class::Absent, _) => return Ok((entry.family, Test::Absent)),
        (Class::Address, Takes::Address(family)) => family.is_none() || family == entry.family,
        (Class::Address, Takes::NumberOrAddress(family)) => Some(family) == entry.family,
        (Class::Mac, Takes::Mac) => true,
        (Class::Number | Class::Slash | Class::AtLeast, Takes::Address(_)) => false,
        (Class::Number | Class::Slash | Class::AtLeast, _) => true,
        (Class::Protocol | Class::ProtocolOrEtherType(_) | Class::ProtocolOrService(_), Takes::Protocol) => true,
        (Class::ProtocolOrService(port), Takes::Port) => return Ok((None, Test::Value(port.into()))),
        (Class::Service, Takes::Port) => true,
        (Class::TcpFlags, Takes::TcpFlags) => true,
        (Class::Fragment, Takes::Fragment) => true,
        (Class::ProtocolOrEtherType(number), Takes::EtherType) => return Ok((None, Test::Value(number.into()))),
        (Class::EtherType, Takes::EtherType) => true,
        (Class::ExtHeader, Takes::ExtHeaders) => true,
        (Class::Protocol, Takes::ExtHeaders) => match ExtensionHeader::ALL.into_iter().find(|h| is_value(entry, *h)) {
            Some(header) => return Ok((None, bit_of(header))),
            None => false,
        },
        (Class::IcmpType, Takes::IcmpType { names }) | (Class::IcmpCode(_), Takes::IcmpCode { names }) => {
            if !names {
                let sort = if entry.class == Class::IcmpType { "type" } else { "code" };
                let what = format!("{} takes no names: a {sort} has one number in ICMP, another in ICMPv6", info.name);
                return Err(Message::new(what).expected(info.wants()));
            }
            true
        }
        _ => false,
    };
    if !takes {
        let short = match (entry.class, entry.test) {
            (Class::Number | Class::Slash, Test::Mask { value, mask }) => correction::short_address(value, mask, info),
            _ => None,
        };
        // Other languages write `none` for packets without the field.
        let absent = (entry.class == Class::Fragment && entry.test == Test::Value(0) && info.optional)
            .then(|| format!("`{ABSENT}` for packets without it, or {}", info.wants()));
        let expected = short.or(absent).unwrap_or_else(|| info.wants());
        return Err(Message::new(format!("{} takes no {}", info.name, entry.describe())).expected(expected));
    }
    let test = match (entry.class, entry.test) {
        (Class::Slash, test) => slash(test, info)?,
        (Class::AtLeast, Test::Range { lo, .. }) if lo > info.max() => {
            let what = format!("no value of {} is above {}", info.name, info.max());
            return Err(Message::new(what).expected(info.wants_number()));
        }
        (Class::AtLeast, Test::Range { lo, .. }) => Test::Range { lo, hi: info.max() },
        (_, test) => test,
    };
    if matches!(entry.class, Class::Number | Class::Slash) {
        let largest = match test {
            Test::Value(value) | Test::Prefix { value, .. } => value,
            Test::Range { hi, .. } => hi,
            Test::Mask { mask, .. } => mask,
            Test::Absent => 0,
        };
        if largest > info.max() {
            return Err(too_large(info, largest));
        }
    }
    // In a field of one family, tests need no family, because every packet is of that family.
    let family =
        if matches!(info.takes, Takes::Address(Some(_)) | Takes::NumberOrAddress(_)) { None } else { entry.family };
    Ok((family, test))
}

/// Whether the value of an entry is the number of this header.
fn is_value(entry: &Entry, header: ExtensionHeader) -> bool {
    entry.test == Test::Value(header.next_header.into())
}

/// Returns the meaning of a number, `/` and a number in this field.
///
/// It is a prefix and its length if the field is of kind prefix, otherwise a value under a mask. For example, `0x10/4`
/// in a prefix field of 8 bits is the prefix of the values 16 to 31.
fn slash(test: Test, info: &FieldInfo<'_>) -> Result<Test, Message> {
    let Test::Mask { value, mask } = test else { return Ok(test) };
    let width = info.width;
    let shown = Value::Number(value).to_string();
    if info.kind != FieldKind::Prefix {
        let message = || correction::outside_number(&shown, value, mask, false, Some(info));
        return if value & !mask == 0 { Ok(test) } else { Err(message()) };
    }
    let Some(len) = u32::try_from(mask).ok().filter(|&len| len <= width) else {
        let what = format!("a prefix length of {mask} for {}, which has {width} bits", info.name);
        return Err(Message::new(what).expected(format!("0 to {width}")));
    };
    if value > info.max() {
        return Err(too_large(info, value));
    }
    if value & free_bits(width, len) != 0 {
        return Err(correction::outside_prefix(&shown, Value::Number(value), len, width));
    }
    Ok(Test::Prefix { value, len })
}

fn too_large(info: &FieldInfo<'_>, value: u128) -> Message {
    Message::new(format!("{value} is too large for {}", info.name)).expected(info.wants_number())
}

impl Entry {
    /// Returns the name of the type of an ICMP code.
    pub(super) fn code_type(&self) -> Option<&'static str> {
        if let Class::IcmpCode(of_type) = self.class { Some(of_type) } else { None }
    }

    /// Returns the warning for zeros under a mask that may be a wildcard mask.
    pub(super) fn wildcard_warning(&self, shown: &str) -> Option<Message> {
        let Test::Mask { value: 0, mask } = self.test else { return None };
        let zero = match (self.class, self.family) {
            (Class::Address, Some(family)) => Value::Address(family, 0),
            (Class::Mac, _) => Value::Mac(0),
            _ => return None,
        };
        correction::zeros_under_wildcard(zero, mask, shown)
    }

    fn describe(&self) -> String {
        match (self.class, self.family, self.test) {
            (Class::Number, _, Test::Value(number)) => format!("number ({number})"),
            (Class::Number | Class::Slash | Class::AtLeast, ..) => "numbers".into(),
            (Class::Mac, ..) => "MAC address".into(),
            (Class::EtherType, ..) => "ether type".into(),
            (Class::Address, Some(family), _) => format!("{} address", family.pretty()),
            (Class::Address, None, _) => "address".into(),
            (Class::Protocol | Class::ProtocolOrEtherType(_) | Class::ProtocolOrService(_), ..) => "protocol".into(),
            (Class::Service, ..) => "name of a service".into(),
            (Class::IcmpType, ..) => "ICMP type".into(),
            (Class::IcmpCode(_), ..) => "ICMP code".into(),
            (Class::TcpFlags, ..) => "TCP flags".into(),
            (Class::Absent, ..) => ABSENT.into(),
            (Class::Fragment, ..) => "state of fragments".into(),
            (Class::ExtHeader, ..) => "extension header".into(),
        }
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
