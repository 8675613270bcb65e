//! Values of fields: numbers, and the text of addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use firstmatch_core::schema::{Family, Field, Schema, Source};
use serde_json::Value;

use super::MAX_NUMBER;
use super::node::{Doc, Node, shown, string};

/// Returns a number, as a string if readers of JSON would round it.
///
/// For example, 2^53 - 1 is a number and 2^53 is `"9007199254740992"`.
pub(super) fn number(value: u128) -> Value {
    match u64::try_from(value) {
        Ok(small) if value <= MAX_NUMBER => small.into(),
        _ => value.to_string().into(),
    }
}

/// Returns a value of a field, as text if the field's values are written so.
pub(super) fn of_field(value: u128, look: Look) -> Value {
    match look {
        Look::Number => number(value),
        Look::Mac => mac(value).into(),
        // The value fits the field, and so the address.
        Look::Address(Family::Ipv4) => Ipv4Addr::from(value as u32).to_string().into(),
        Look::Address(Family::Ipv6) => Ipv6Addr::from(value).to_string().into(),
    }
}

/// Form in which the values of a test are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    Number,
    Address(Family),
    Mac,
}

fn mac(value: u128) -> String {
    let bytes = (0..6).rev().map(|byte| format!("{:02x}", value >> (8 * byte) & 0xFF));
    bytes.collect::<Vec<_>>().join(":")
}

/// Reads six bytes of two hexadecimal digits each.
fn read_mac(text: &str) -> Option<u128> {
    let mut bits = 0;
    let mut count = 0;
    for part in text.split(':') {
        let right = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit());
        bits = bits << 8 | u128::from(u8::from_str_radix(part, 16).ok().filter(|_| right && count < 6)?);
        count += 1;
    }
    (count == 6).then_some(bits)
}

impl Look {
    /// Returns the form of a test for packets of `family`, or for all packets if it is `None`.
    pub(super) fn new(schemas: &[Schema], field: usize, family: Option<Family>) -> Self {
        let here = &schemas[0].fields()[field];
        if is_mac(here) {
            return Self::Mac;
        }
        if !is_address(here) {
            return Self::Number;
        }
        match (family, schemas) {
            (Some(family), _) => Self::Address(family),
            // The schema has no family of its own, but the width of the field shows one.
            (None, [one]) => match one.fields()[field].width() {
                32 => Self::Address(Family::Ipv4),
                128 => Self::Address(Family::Ipv6),
                _ => Self::Number,
            },
            // A test for both families has no address.
            (None, _) => Self::Number,
        }
    }
}

pub(super) fn is_address(field: &Field) -> bool {
    matches!(field.source(), Some(Source::Src | Source::Dst | Source::Ipv4Src | Source::Ipv4Dst))
}

fn is_mac(field: &Field) -> bool {
    matches!(field.source(), Some(Source::EthSrc | Source::EthDst)) && field.width() == 48
}

/// Value that was read: a number, or an address.
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

/// Reads a number: `80`, `"80"` or `"0x50"`.
pub(super) fn read_number(node: Node<'_>) -> Option<u128> {
    let decimal = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let Some(text) = string(node) else { return decimal(node) };
    match text.strip_prefix("0x") {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u128::from_str_radix(digits, 16).ok(),
        _ => decimal(&text),
    }
}

/// Reads a number of at most `max`.
pub(super) fn read_up_to<'t>(doc: &mut Doc<'t>, node: Node<'t>, what: &str, max: u128) -> Option<u128> {
    match read_number(node) {
        Some(number) if number <= max => Some(number),
        _ => doc.fault(node, format_args!("{} is no {what}", shown(node)), format!("a number up to {max}")),
    }
}

/// Reads a value of a field; an address only if the field holds addresses.
pub(super) fn read<'t>(doc: &mut Doc<'t>, node: Node<'t>, field: &Field) -> Option<Given> {
    let address = string(node).and_then(|text| text.parse::<IpAddr>().ok()).filter(|_| is_address(field));
    let mac = || string(node).and_then(|text| read_mac(&text)).filter(|_| is_mac(field));
    match (read_number(node).or_else(mac), address) {
        (Some(number), _) => Some(Given::Number(number)),
        (None, Some(IpAddr::V4(address))) => Some(Given::Address(Family::Ipv4, address.to_bits().into())),
        (None, Some(IpAddr::V6(address))) => Some(Given::Address(Family::Ipv6, address.to_bits())),
        (None, None) => {
            let expected = if is_address(field) || is_mac(field) {
                "an address as text, or a number"
            } else {
                "a number; above 9007199254740991 as text"
            };
            doc.fault(node, format_args!("{} is no value of {}", shown(node), field.name()), expected)
        }
    }
}
