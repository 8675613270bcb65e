//! Entries: the tests that an item makes, and whether a field takes them.

use super::correction;
use super::fields::{FieldInfo, Takes};
use super::literal::{Value, free_bits};
use crate::report::Message;
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

/// One test of an item.
///
/// The name of an ICMP type or code makes two tests: one for each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) class: Class,
    pub(super) family: Option<Family>,
    pub(super) test: Test,
}

/// Returns the test whether a packet carries this header.
pub(super) fn bit_of(header: ExtensionHeader) -> Test {
    Test::Mask { value: header.bit.into(), mask: header.bit.into() }
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
            Test::Absent | Test::Set(_) => 0,
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
    /// Returns the reason why the entry is no member of a live set, if it is none.
    pub(super) fn no_member(&self) -> Option<Message> {
        let what = match (self.class, self.test) {
            (Class::Address, Test::Mask { .. }) => "address under a mask".to_owned(),
            (Class::Address, _) => return None,
            _ => self.describe(),
        };
        let wanted = "an address, a prefix or a range of addresses";
        Some(Message::new(format!("a live set takes no {what}")).expected(wanted))
    }

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
