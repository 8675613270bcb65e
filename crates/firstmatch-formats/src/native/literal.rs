//! Literals: addresses, MAC addresses and numbers as they are written.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::report::{Message, quote};
use firstmatch_core::schema::Family;

/// Value as it is written: an address, a MAC address or a number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Value {
    Address(Family, u128),
    Mac(u128),
    Number(u128),
}

/// Returns the bits of a value of `width` bits outside a prefix of `len` bits.
pub(super) fn free_bits(width: u32, len: u32) -> u128 {
    u128::MAX.checked_shr(128 - (width - len)).unwrap_or(0)
}

impl Value {
    pub(super) fn bits(self) -> u128 {
        match self {
            Self::Address(_, bits) | Self::Mac(bits) | Self::Number(bits) => bits,
        }
    }

    pub(super) fn with(self, bits: u128) -> Self {
        match self {
            Self::Address(family, _) => Self::Address(family, bits),
            Self::Mac(_) => Self::Mac(bits),
            Self::Number(_) => Self::Number(bits),
        }
    }

    pub(super) fn width(self) -> u32 {
        match self {
            Self::Address(family, _) => family.address_bits(),
            Self::Mac(_) => 48,
            Self::Number(_) => 128,
        }
    }

    pub(super) fn kind(self) -> &'static str {
        match self {
            Self::Address(Family::Ipv4, _) => "an IPv4 address",
            Self::Address(Family::Ipv6, _) => "an IPv6 address",
            Self::Mac(_) => "a MAC address",
            Self::Number(_) => "a number",
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Address(Family::Ipv4, bits) => Ipv4Addr::from(bits as u32).fmt(f),
            Self::Address(Family::Ipv6, bits) => Ipv6Addr::from(bits).fmt(f),
            Self::Mac(bits) => {
                let [_, _, a, b, c, d, e, g] = (bits as u64).to_be_bytes();
                write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
            }
            Self::Number(bits) => write!(f, "{bits:#04x}"),
        }
    }
}

/// Parses a MAC address: six bytes of two digits each.
fn mac(word: &str) -> Option<Value> {
    let mut bits = 0;
    let mut parts = 0;
    for part in word.split(':') {
        let right = part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()) && parts < 6;
        bits = bits << 8 | u128::from(u8::from_str_radix(part, 16).ok().filter(|_| right)?);
        parts += 1;
    }
    (parts == 6).then_some(Value::Mac(bits))
}

/// Parses a word that is not a name.
///
/// MAC addresses and numbers above 32 bits are values only if the file has its own schema.
pub(super) fn value(word: &str, own_schema: bool) -> Result<Value, Message> {
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if let Some(mac) = mac(word).filter(|_| own_schema) {
        return Ok(mac);
    }
    if word.contains(':') {
        let parsed = word.parse::<Ipv6Addr>().map(|a| Value::Address(Family::Ipv6, a.to_bits()));
        return parsed.map_err(|_| {
            let what = if own_schema { "neither an IPv6 nor a MAC" } else { "no IPv6" };
            let message = Message::new(format!("{} is {what} address", quote(word)));
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
        Some(hex) if !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()) => {
            u128::from_str_radix(hex, 16).ok()
        }
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
    let number = parsed.filter(|&number| own_schema || u32::try_from(number).is_ok());
    number.map(Value::Number).ok_or_else(|| Message::new(format!("the number {} is too large", quote(word))))
}
