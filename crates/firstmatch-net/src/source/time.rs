//! Times at which packets were captured.

/// Number of nanoseconds in a second.
const SECOND: u32 = 1_000_000_000;

/// Time of a packet in nanoseconds since 1970-01-01 00:00 UTC, or none, in 8 bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamp(i64);

impl Stamp {
    /// No time. The number that stands for it is no time, so that nothing else takes room.
    pub(super) const NONE: Self = Self(i64::MIN);

    /// Returns the time of a pcap record, whose fraction counts units of `nanos` nanoseconds.
    ///
    /// For example, 9 seconds and 500,000 units of 1,000 nanoseconds are 9,500,000,000 nanoseconds.
    #[inline]
    pub(super) fn of_parts(seconds: u32, fraction: u32, nanos: u16) -> Self {
        // It is below 2⁶³, because 2³² seconds are 2⁶² nanoseconds and 2³² fractions take 2⁴⁸ at most.
        let nanos = u64::from(seconds) * u64::from(SECOND) + u64::from(fraction) * u64::from(nanos);
        Self(nanos.cast_signed())
    }

    #[inline]
    pub(super) fn nanos(self) -> Option<i64> {
        (self.0 != Self::NONE.0).then_some(self.0)
    }
}

/// Resolution and origin of the timestamps of a pcapng interface.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Number of units in a second: a power of 10, or of 2 if the top bit is set, by its exponent.
    pub(super) resolution: u8,
    /// Seconds from 1970-01-01 00:00 UTC to the timestamp 0.
    pub(super) offset: i64,
}

/// Powers of 10 that 64 bits hold.
const POWERS: [u64; 20] = {
    let mut powers = [1; 20];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

impl Clock {
    /// Returns the time of a timestamp, rounded down to nanoseconds.
    ///
    /// For example, the timestamp 3 of the resolution `0x81`, half seconds, is 1,500,000,000 nanoseconds.
    #[inline]
    pub(super) fn at(&self, timestamp: u64) -> Stamp {
        let exponent = self.resolution & 0x7f;
        let power = |exponent: u8| POWERS.get(usize::from(exponent)).copied();
        let nanos = if self.resolution != exponent {
            (u128::from(timestamp) * u128::from(SECOND)) >> exponent
        } else if exponent <= 9 {
            u128::from(timestamp) * u128::from(power(9 - exponent).unwrap_or(1))
        } else {
            // A power that needs more than 64 bits exceeds any timestamp.
            power(exponent - 9).map_or(0, |units| u128::from(timestamp / units))
        };
        // Both are far below 2¹²⁷: a timestamp is at most 2⁶⁴ seconds, which are 2⁹⁴ nanoseconds.
        let nanos = i128::from(self.offset) * i128::from(SECOND) + nanos.cast_signed();
        i64::try_from(nanos).map_or(Stamp::NONE, Stamp)
    }
}
