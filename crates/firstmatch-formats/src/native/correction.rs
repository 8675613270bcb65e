//! Corrections that messages propose for values with bits outside a prefix or a mask.
//!
//! # Invariants
//! - A correction matches no value that no reading of the written text matches (`hints` in the tests of formats). Text
//!   after `/` may be a prefix length, a mask or a wildcard mask, which has ones where bits do not matter.

use super::fields::{FieldInfo, Takes};
use super::literal::{Value, free_bits};
use crate::report::{Message, quote};
use firstmatch_core::schema::Family;

/// Returns the prefix length of a mask that is read as a wildcard mask.
///
/// `None` unless its ones are its last bits. For example, `0.0.255.255` gives 16, and `0.0.0.0` gives 32.
fn wildcard_len(mask: u128, width: u32) -> Option<u32> {
    let len = width - mask.trailing_ones().min(width);
    (mask == free_bits(width, len)).then_some(len)
}

/// Describes `count` bits at one end of a value of `width` bits.
fn bits(end: &str, count: u32, width: u32) -> String {
    match count {
        0 => "no bit".into(),
        1 => format!("the {end} bit"),
        _ if count == width => "every bit".into(),
        _ => format!("the {end} {count} bits"),
    }
}

/// Returns the message for `word` with bits outside its prefix.
pub(super) fn outside_prefix(word: &str, value: Value, len: u32, width: u32) -> Message {
    let prefix = value.with(value.bits() & !free_bits(width, len));
    let expected = match len {
        // An address before `/0` may be meant as a single address.
        0 => format!("`{value}/{width}`, or `{prefix}/0` if every value is meant"),
        _ => format!("`{prefix}/{len}`"),
    };
    Message::new(format!("{} has bits outside its prefix", quote(word))).expected(expected)
}

/// Returns the message for an address with bits outside its mask; `words` are both as they are written.
pub(super) fn outside_mask([word, end]: [&str; 2], value: Value, mask: Value) -> Message {
    let (width, kept) = (value.width(), value.bits() & mask.bits());
    let all = free_bits(width, 0);
    let what = format!("{} has bits outside its mask", quote(word));
    let is_netmask = wildcard_len(all & !mask.bits(), width).is_some();
    if let Some(len) = wildcard_len(mask.bits(), width) {
        let (last, first) = (bits("last", width - len, width), bits("first", len, width));
        let what = format!("{what}: {} compares {last}, as a wildcard mask it would compare {first}", quote(end));
        Message::new(what).expected(format!("`{}/{len}`", value.with(value.bits() & !mask.bits())))
    } else if is_netmask {
        Message::new(what).expected(format!("`{}/{end}`", value.with(kept)))
    } else if kept == 0 {
        let inverted = mask.with(all & !mask.bits());
        Message::new(what).expected(format!("`{value}/{inverted}` if the mask is a wildcard mask"))
    } else {
        Message::new(what).expected("a mask with every bit of the address")
    }
}

/// Returns the message for a number with bits outside its mask; `shown` is its text in the file.
pub(super) fn outside_number(
    shown: &str,
    value: u128,
    mask: u128,
    is_decimal: bool,
    info: Option<&FieldInfo<'_>>,
) -> Message {
    let message = Message::new(format!("{} has bits outside its mask", quote(shown)));
    let hex = Value::Number;
    let fits = |info: &&FieldInfo<'_>| value.max(mask) <= info.max();
    if is_decimal && info.filter(fits).is_some_and(|info| matches!(info.takes, Takes::IcmpType { .. })) {
        return message.expected(format!("`{value} icmp_code {mask}` for a type and its code"));
    }
    let mut expected = Vec::new();
    // The reading as a prefix, with its length after `/`.
    let prefix = info.filter(fits).and_then(|info| {
        let len = u32::try_from(mask).ok().filter(|len| (1..info.width).contains(len))?;
        let free = free_bits(info.width, len);
        (value & free == 0).then(|| format!("`{}/{}` for a prefix of {len} bits", hex(value), hex(info.max() & !free)))
    });
    expected.extend(prefix);
    if is_decimal && value < mask {
        expected.push(format!("`{value}-{mask}` for a range"));
    }
    expected.push(format!("`{}/{}` for a mask with every bit of the value", hex(value), hex(value | mask)));
    message.expected(expected.join(", or "))
}

/// Returns the prefix that two numbers are short for in a field of addresses, for example `10.0.0.0/8` for `10/8`.
pub(super) fn short_address(value: u128, len: u128, info: &FieldInfo<'_>) -> Option<String> {
    let len = u32::try_from(len).ok().filter(|len| (1..=32).contains(len))?;
    let value = value.checked_shl(24).filter(|&value| value <= 0xff00_0000 && value & free_bits(32, len) == 0)?;
    let is_taken = matches!(info.takes, Takes::Address(None | Some(Family::Ipv4)));
    is_taken.then(|| format!("all four bytes: `{}/{len}`", Value::Address(Family::Ipv4, value)))
}

/// Returns the warning for zeros under a mask that would match other addresses if it were a wildcard mask.
///
/// For example, `0.0.0.0/255.255.255.255` matches one address, and every address if it is a wildcard mask.
pub(super) fn zeros_under_wildcard(zero: Value, mask: u128, shown: &str) -> Option<Message> {
    let width = zero.width();
    let len = wildcard_len(mask, width).filter(|_| mask != 0)?;
    let (last, first) = (bits("last", width - len, width), bits("first", len, width));
    let what = format!("{} compares {last}, with a wildcard mask it would compare {first}", quote(shown));
    Some(Message::new(what).expected(match len {
        0 => format!("`{zero}/{width}` for one value, or `{zero}/0` for every value"),
        _ => format!("`{zero}/{len}` if it is a wildcard mask"),
    }))
}
