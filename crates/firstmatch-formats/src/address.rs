//! Addresses in text, one at a time.

/// Reads an IPv4 address: four decimal numbers up to 255, without leading zeros.
///
/// ```
/// use firstmatch_formats::parse_ipv4;
///
/// assert_eq!(parse_ipv4(b"10.0.0.1"), Some(0x0A00_0001));
/// assert_eq!(parse_ipv4(b"10.0.0.01"), None);
/// ```
#[inline]
pub fn parse_ipv4(text: &[u8]) -> Option<u32> {
    let (mut address, mut octet, mut digits, mut dots) = (0u32, 0u32, 0u32, 0u32);
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit < 10 {
            if digits > 0 && octet == 0 {
                return None;
            }
            octet = octet * 10 + u32::from(digit);
            digits += 1;
            if octet > 255 {
                return None;
            }
        } else if byte == b'.' && digits > 0 && dots < 3 {
            address = address << 8 | octet;
            (octet, digits, dots) = (0, 0, dots + 1);
        } else {
            return None;
        }
    }
    (dots == 3 && digits > 0).then_some(address << 8 | octet)
}

/// Reads an IPv6 address: eight groups of up to four hexadecimal digits, of which `::` stands for one or more that are
/// 0, and an IPv4 address for the last two.
///
/// Zones (`fe80::1%eth0`) are refused, because rules have none.
///
/// ```
/// use firstmatch_formats::parse_ipv6;
///
/// assert_eq!(parse_ipv6(b"::ffff:10.0.0.1"), Some(0xFFFF_0A00_0001));
/// assert_eq!(parse_ipv6(b"1:2:3:4:5:6:7:8::"), None);
/// ```
pub fn parse_ipv6(text: &[u8]) -> Option<u128> {
    let (mut address, mut groups, mut gap) = (0u128, 0u32, None);
    let mut at = 0;
    if let [b':', rest @ ..] = text {
        // Only `::` may come first.
        if rest.first() != Some(&b':') {
            return None;
        }
        (gap, at) = (Some(0), 2);
    }
    while at < text.len() {
        let (mut group, start) = (0u32, at);
        while let Some(digit) = text.get(at).and_then(|&byte| hex(byte)) {
            group = group << 4 | u32::from(digit);
            at += 1;
            if at - start > 4 {
                return None;
            }
        }
        match text.get(at) {
            Some(b'.') => {
                let tail = parse_ipv4(text.get(start..)?)?;
                address = address << 32 | u128::from(tail);
                groups += 2;
                break;
            }
            _ if at == start || groups == 8 => return None,
            byte => {
                address = address << 16 | u128::from(group);
                groups += 1;
                match byte {
                    None => break,
                    Some(b':') => at += 1,
                    Some(_) => return None,
                }
            }
        }
        if text.get(at) == Some(&b':') {
            if gap.replace(groups).is_some() {
                return None;
            }
            at += 1;
        } else if at == text.len() {
            // A single colon at the end.
            return None;
        }
    }
    match gap {
        None => (groups == 8).then_some(address),
        Some(_) if groups > 7 => None,
        Some(before) => {
            let low = 16 * (groups - before);
            let tail = address & ((1 << low) - 1);
            let head = address.checked_shr(low).unwrap_or(0);
            Some(head.checked_shl(16 * (8 - before)).unwrap_or(0) | tail)
        }
    }
}

#[inline]
fn hex(byte: u8) -> Option<u8> {
    let letter = (byte | 0x20).wrapping_sub(b'a');
    match byte.wrapping_sub(b'0') {
        digit if digit < 10 => Some(digit),
        _ if letter < 6 => Some(letter + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    fn std_ipv4(text: &[u8]) -> Option<u32> {
        std::str::from_utf8(text).ok()?.parse::<Ipv4Addr>().ok().map(u32::from)
    }

    fn std_ipv6(text: &[u8]) -> Option<u128> {
        std::str::from_utf8(text).ok()?.parse::<Ipv6Addr>().ok().map(u128::from)
    }

    #[test]
    fn addresses_are_read_as_the_standard_library_does() {
        let texts = [
            "1.2.3.4",
            "255.255.255.255",
            "0.0.0.0",
            "256.1.1.1",
            "1.2.3",
            "1.2.3.4.5",
            "01.2.3.4",
            "00.0.0.0",
            "1..2.3",
            ".1.2.3",
            "1.2.3.",
            "",
            "-",
            "1.2.3.4 ",
            "::",
            "::1",
            "1::",
            "1::8",
            "1:2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7::",
            "::2:3:4:5:6:7:8",
            "1:2:3:4:5:6:7:8::",
            "::1:2:3:4:5:6:7:8",
            "1::2::3",
            "1:::2",
            ":1::2",
            "1:2",
            "1:2:",
            ":",
            "::1:",
            "12345::",
            "g::",
            "::1.2.3.4",
            "1:2:3:4:5:6:1.2.3.4",
            "1:2:3:4:5:6:7:1.2.3.4",
            "::1.2.3",
            "::1.2.3.4:5",
            "1.2.3.4::",
            "fe80::1%1",
            "FE80::AbCd",
            "::ffff:0:0",
            "0:0:0:0:0:0:0:0",
            "1:2:3::4:5:6:7",
            "1:2:3::4:5:6:7:8",
            "::01.2.3.4",
        ];
        for text in texts.map(str::as_bytes) {
            assert_eq!(parse_ipv4(text), std_ipv4(text), "{}", String::from_utf8_lossy(text));
            assert_eq!(parse_ipv6(text), std_ipv6(text), "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn mutated_addresses_are_read_as_the_standard_library_does() {
        let mut state = 7u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
            (state >> 33) % below
        };
        let bytes = b"0123456789abcdefA:::...%g /";
        let (mut read, mut refused) = (0, 0);
        for _ in 0..200_000 {
            let wide = (0..8).fold(0u128, |all, _| all << 16 | u128::from(random(1 << 16) * random(2)));
            let mut text = match random(3) {
                0 => Ipv4Addr::from(random(1 << 31) as u32 | (random(2) as u32) << 31).to_string(),
                1 => Ipv6Addr::from(wide).to_string(),
                _ => format!("{:x}:{:x}::{}", random(1 << 16), random(20), Ipv4Addr::from(random(1 << 31) as u32)),
            }
            .into_bytes();
            for _ in 0..random(4) {
                let (at, byte) = (random(text.len() as u64) as usize, bytes[random(bytes.len() as u64) as usize]);
                match random(3) {
                    0 => text[at] = byte,
                    1 => text.insert(at, byte),
                    _ if text.len() > 1 => _ = text.remove(at),
                    _ => {}
                }
            }
            let found = (parse_ipv4(&text), parse_ipv6(&text));
            assert_eq!(found, (std_ipv4(&text), std_ipv6(&text)), "{}", String::from_utf8_lossy(&text));
            *if found == (None, None) { &mut refused } else { &mut read } += 1;
        }
        assert!(read > 50_000 && refused > 20_000, "{read} {refused}");
    }
}
