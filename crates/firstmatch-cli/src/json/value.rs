//! Values of fields: numbers, and the text of addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use firstmatch::schema::{Family, Field, Schema, Source};
use serde_json::Value;

use super::MAX_NUMBER;
use super::node::{Doc, Node, shown, string};

/// A number: as a string where readers of JSON would round it.
pub(super) fn number(value: u128) -> Value {
    match u64::try_from(value) {
        Ok(small) if value <= MAX_NUMBER => small.into(),
        _ => value.to_string().into(),
    }
}

/// A value as text, where that is how its field is written.
pub(super) fn of_field(value: u128, look: Look) -> Value {
    match look {
        Look::Number => number(value),
        // The value fits the field, and so the address.
        Look::Address(Family::Ipv4) => Ipv4Addr::from(value as u32).to_string().into(),
        Look::Address(Family::Ipv6) => Ipv6Addr::from(value).to_string().into(),
    }
}

/// How the values of a test are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Number,
    Address(Family),
}

impl Look {
    /// That of a test for packets of `family`, or of all where it is none.
    pub(super) fn new(schemas: &[Schema], field: usize, family: Option<Family>) -> Self {
        if !is_address(&schemas[0].fields()[field]) {
            return Self::Number;
        }
        match (family, schemas) {
            (Some(family), _) => Self::Address(family),
            // Without a family its own, the width of the field tells it.
            (None, [one]) => match (one.family(), one.fields()[field].width()) {
                (Some(family), _) => Self::Address(family),
                (None, 32) => Self::Address(Family::Ipv4),
                (None, 128) => Self::Address(Family::Ipv6),
                (None, _) => Self::Number,
            },
            // A test for both families is of no address.
            (None, _) => Self::Number,
        }
    }
}

pub(super) fn is_address(field: &Field) -> bool {
    matches!(field.source(), Some(Source::Src | Source::Dst))
}

/// What a value says: a number, or an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Given {
    Number(u128),
    Address(Family, u128),
}

impl Given {
    pub(super) fn bits(self) -> u128 {
        match self {
            Self::Number(bits) | Self::Address(_, bits) => bits,
        }
    }

    pub(super) fn family(self) -> Option<Family> {
        match self {
            Self::Number(_) => None,
            Self::Address(family, _) => Some(family),
        }
    }
}

/// A number: `80`, `"80"` or `"0x50"`.
pub(super) fn read_number(node: Node<'_>) -> Option<u128> {
    let decimal = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let Some(text) = string(node) else { return decimal(node) };
    match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u128::from_str_radix(digits, 16).ok(),
        _ => decimal(&text),
    }
}

/// A number of at most `max`.
pub(super) fn read_up_to<'t>(doc: &mut Doc<'t>, node: Node<'t>, what: &str, max: u128) -> Option<u128> {
    match read_number(node) {
        Some(number) if number <= max => Some(number),
        _ => doc.fault(node, format_args!("{} is no {what}", shown(node)), format!("a number up to {max}")),
    }
}

/// A value of a field; addresses only where the field holds some.
pub(super) fn read<'t>(doc: &mut Doc<'t>, node: Node<'t>, field: &Field) -> Option<Given> {
    let address = string(node).and_then(|text| text.parse::<IpAddr>().ok()).filter(|_| is_address(field));
    match (read_number(node), address) {
        (Some(number), _) => Some(Given::Number(number)),
        (None, Some(IpAddr::V4(address))) => Some(Given::Address(Family::Ipv4, address.to_bits().into())),
        (None, Some(IpAddr::V6(address))) => Some(Given::Address(Family::Ipv6, address.to_bits())),
        (None, None) => {
            let expected = if is_address(field) {
                "an address as text, or a number"
            } else {
                "a number; above 9007199254740991 as text"
            };
            doc.fault(node, format_args!("{} is no value of {}", shown(node), field.name()), expected)
        }
    }
}
