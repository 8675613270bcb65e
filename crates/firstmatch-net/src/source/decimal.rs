//! Numbers in decimal, up to eight digits at once.

/// Reads a number in decimal; `None` for other text, and beyond 64 bits.
///
/// Up to eight digits are in one word, the first in its lowest byte, and neighbours are combined three times: digits to
/// pairs, pairs to fours, fours to the number. For example, `1418` fills the word with `00001418`, whose pairs are
/// 0, 0, 14 and 18, and whose fours are 0 and 1418.
#[inline]
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    const ZEROS: u64 = 0x3030_3030_3030_3030;
    let len = digits.len();
    let text = match *digits {
        [a] => u64::from(a),
        [a, b] => u64::from(u16::from_le_bytes([a, b])),
        [a, b, c] => u64::from(u32::from_le_bytes([a, b, c, 0])),
        [a, b, c, d, ..] if len <= 8 => {
            let last = digits.last_chunk::<4>().copied().unwrap_or_default();
            // The middle digits are in both halves, at the same places.
            u64::from(u32::from_le_bytes([a, b, c, d])) | u64::from(u32::from_le_bytes(last)) << (8 * (len - 4))
        }
        _ => return long(digits),
    };
    // Zeros in front of the digits.
    let shift = 64 - 8 * len as u32;
    let digits = ((text << shift) | ZEROS.checked_shr(64 - shift).unwrap_or(0)) ^ ZEROS;
    let is_other = (digits & 0x7F7F_7F7F_7F7F_7F7F).wrapping_add(0x7676_7676_7676_7676) | digits;
    if is_other & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = digits.wrapping_mul(10 << 8 | 1) >> 8 & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100 << 16 | 1) >> 16 & 0x0000_FFFF_0000_FFFF;
    Some(fours.wrapping_mul(10_000 << 32 | 1) >> 32)
}

/// Reads a number of any length.
#[cold]
fn long(digits: &[u8]) -> Option<u64> {
    let digit = |value: u64, &byte: &u8| match byte.wrapping_sub(b'0') {
        digit @ 0..=9 => value.checked_mul(10)?.checked_add(digit.into()),
        _ => None,
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, digit) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_the_standard_library_does() {
        let texts = [
            "",
            "0",
            "00",
            "7",
            "42",
            "065",
            "999",
            "1418",
            "65535",
            "123456",
            "1234567",
            "12345678",
            "123456789",
            "18446744073709551615",
            "18446744073709551616",
            "+1",
            "-1",
            "1.",
            "1 2",
            "a",
            "12a4",
            "1234567a",
            "a2345678",
        ];
        let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        for text in texts {
            let expected = text.parse().ok().filter(|_| is_digits(text));
            assert_eq!(decimal(text.as_bytes()), expected, "{text}");
        }
        let mut random = 0x9E37_79B9_7F4A_7C15u64;
        for _ in 0..100_000 {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let number = random >> (random % 64);
            let mut text = number.to_string().into_bytes();
            assert_eq!(decimal(&text), Some(number));
            let at = random as usize % text.len();
            text[at] = (random >> 8) as u8;
            let expected =
                std::str::from_utf8(&text).ok().filter(|text| is_digits(text)).and_then(|text| text.parse().ok());
            assert_eq!(decimal(&text), expected, "{text:?}");
        }
    }
}
