//! Numbers and bytes as text.

use std::time::{SystemTime, UNIX_EPOCH};

/// Returns a time as seconds since 1970.
pub(super) fn unix(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
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
        assert_eq!(hex(&[0, 0xAB]), "00ab");
    }
}
