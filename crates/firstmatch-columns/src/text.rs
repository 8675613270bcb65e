//! Addresses and numbers in text.

use firstmatch::formats::native::protocol_number;

/// Value that stands for the protocol `icmp` until the family of its row is known: 1 in IPv4, 58 in IPv6.
pub(crate) const ICMP_BY_NAME: u32 = 0x100;

#[inline]
fn hex(byte: u8) -> Option<u8> {
    let letter = (byte | 0x20).wrapping_sub(b'a');
    match byte.wrapping_sub(b'0') {
        digit if digit < 10 => Some(digit),
        _ if letter < 6 => Some(letter + 10),
        _ => None,
    }
}

/// Whether a text stands for no value: empty, `-` or `(empty)`.
#[inline]
pub(crate) fn is_blank(text: &[u8]) -> bool {
    matches!(text, b"" | b"-" | b"(empty)")
}

/// Reads a number: decimal, or hexadecimal behind `0x`; always hexadecimal if `is_hex`.
pub(crate) fn number(text: &[u8], is_hex: bool) -> Option<u128> {
    let (digits, radix) = match text {
        [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
        _ => (text, if is_hex { 16 } else { 10 }),
    };
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u128, |value, &byte| {
        let digit = hex(byte).filter(|&digit| digit < radix)?;
        value.checked_mul(radix.into())?.checked_add(digit.into())
    })
}

/// Reads a protocol by its number or its name in any case; `None` if there is no such protocol.
///
/// The inner `None` stands for a name by which logs say that they do not know it.
pub(crate) fn protocol(text: &[u8]) -> Option<Option<u32>> {
    const MOST: usize = 20;
    if text.first()?.is_ascii_digit() {
        return number(text, false).and_then(|number| u32::try_from(number).ok()).map(Some);
    }
    let mut lower = [0; MOST];
    let lower = lower.get_mut(..text.len())?;
    lower.copy_from_slice(text);
    lower.make_ascii_lowercase();
    Some(Some(match &*lower {
        b"tcp" => 6,
        b"udp" => 17,
        b"icmp" => ICMP_BY_NAME,
        b"icmp6" | b"icmpv6" | b"ipv6-icmp" => 58,
        b"unknown" | b"unknown_transport" => return Some(None),
        name => protocol_number(std::str::from_utf8(name).ok()?)?.into(),
    }))
}

/// Reads an address of Ethernet: six bytes in hexadecimal with colons or hyphens between them, or a number.
pub(crate) fn ethernet(text: &[u8]) -> Option<u128> {
    if !text.iter().any(|byte| matches!(byte, b':' | b'-')) {
        return number(text, false);
    }
    let mut groups = text.split(|byte| matches!(byte, b':' | b'-'));
    let address = groups.try_fold((0u128, 0), |(address, count), group| match group {
        [high, low] => Some((address << 8 | u128::from(hex(*high)? << 4 | hex(*low)?), count + 1)),
        _ => None,
    });
    address.filter(|&(_, count)| count == 6).map(|(address, _)| address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_have_several_spellings() {
        assert_eq!([number(b"0", false), number(b"0x1F", false), number(b"1f", true)], [Some(0), Some(31), Some(31)]);
        assert_eq!([number(b"", false), number(b"0x", false), number(b"1f", false), number(b"-1", false)], [None; 4]);
        assert_eq!([protocol(b"TCP"), protocol(b"17"), protocol(b"IPv6-ICMP")], [6, 17, 58].map(|p| Some(Some(p))));
        assert_eq!([protocol(b"unknown_transport"), protocol(b"sctp")], [Some(None), Some(Some(132))]);
        assert_eq!([protocol(b"tpc"), protocol(b"a name that is much too long")], [None; 2]);
        assert_eq!(ethernet(b"00:1b:21:ff:00:0A"), Some(0x1B_21FF_000A));
        assert_eq!([ethernet(b"00:1b:21:ff:00"), ethernet(b"0:1b:21:ff:00:0a"), ethernet(b"x")], [None; 3]);
    }
}
