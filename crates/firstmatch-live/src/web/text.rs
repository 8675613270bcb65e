//! Numbers and bytes as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a time as seconds since 1970.
pub(super) fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Returns bytes in base 64, as a policy for content states hashes.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for three in bytes.chunks(3) {
        let byte = |at: usize| u32::from(three.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let digit =
            |at: usize| if at > three.len() { '=' } else { DIGITS[(bits >> (18 - 6 * at)) as usize & 63].into() };
        out.extend((0..4).map(digit));
    }
    out
}

/// Returns bytes as two hexadecimal digits each.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_digits() {
        assert_eq!(
            ["", "f", "fo", "foo", "foob"].map(|text| base64(text.as_bytes())),
            ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg=="]
        );
        assert_eq!((base64(&[0xFB, 0xFF]), hex(&[0, 0xAB])), ("+/8=".to_owned(), "00ab".to_owned()));
    }
}
