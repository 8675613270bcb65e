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
    // The text in one number, its first byte lowest: two halves, which hold the bytes in the middle both.
    let (first, last) = match (text.first_chunk::<8>(), text.last_chunk::<8>(), text.first_chunk::<4>()) {
        (Some(first), Some(last), _) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
        // Seven bytes are the fewest, as in 1.2.3.4.
        (None, _, Some(&[a, b, c, d])) => match *text {
            [_, _, _, _, e, f, g] => (u64::from_le_bytes([a, b, c, d, e, f, g, 0]), 0),
            _ => return None,
        },
        _ => return None,
    };
    let len = text.len();
    if len > 15 {
        return None;
    }
    let text = u128::from(first) | u128::from(last).checked_shl(8 * (len as u32).saturating_sub(8)).unwrap_or(0);
    let within = (1u32 << len) - 1;
    let digits = text ^ u128::from_le_bytes([b'0'; 16]);
    let (mut dots, is_digit) = (bytes_below(text ^ DOTS, 1), bytes_below(digits, 10));
    if (dots | is_digit) & within != within {
        return None;
    }
    let (mut address, mut start) = (0, 0);
    for _ in 0..4 {
        // The text ends as if a dot followed.
        let end = (dots & within | 1 << len).trailing_zeros();
        dots &= dots.wrapping_sub(1);
        let octet_len = end.wrapping_sub(start);
        if !(1..=3).contains(&octet_len) {
            return None;
        }
        let octet = (digits >> (8 * start)) as u32;
        if octet_len > 1 && octet & 0xFF == 0 {
            return None;
        }
        // Zeros in front, so that there are three digits.
        let octet = octet << (8 * (3 - octet_len)) & 0xFF_FFFF;
        let octet = (octet & 0xFF) * 100 + (octet >> 8 & 0xFF) * 10 + (octet >> 16);
        if octet > 255 {
            return None;
        }
        (address, start) = (address << 8 | octet, end + 1);
    }
    (start == len as u32 + 1).then_some(address)
}

const DOTS: u128 = u128::from_le_bytes([b'.'; 16]);

/// Returns a bit for each byte of `bytes`, the lowest first: whether it is below `bound`, which is at most 128.
#[inline]
fn bytes_below(bytes: u128, bound: u8) -> u32 {
    const LOW: u128 = u128::from_le_bytes([0x7F; 16]);
    let beyond = ((bytes & LOW) + u128::from_le_bytes([0x80 - bound; 16])) | bytes;
    let tops = !beyond & !LOW;
    let half = |tops: u64| ((tops >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32;
    half(tops as u64) | half((tops >> 64) as u64) << 8
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
