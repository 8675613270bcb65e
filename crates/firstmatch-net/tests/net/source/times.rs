//! Times of packets: every form of timestamp, to the nanosecond.

use std::path::Path;

use super::*;
use firstmatch_net::source::open;

/// Returns the times that a capture gives, which are the same by packets and by frames.
fn times(bytes: &[u8]) -> Vec<Option<i64>> {
    let (packets, cut, error) = read(bytes, 100).expect("a capture");
    assert_eq!((cut, error), (None, None));
    packets.into_iter().map(|packet| packet.time).collect()
}

#[test]
fn pcap_counts_unsigned_seconds_and_a_fraction() {
    let parts = [(0u32, 0u32), (1_700_000_000, 999_999), (0x8000_0000, 1), (u32::MAX, 999_999_999), (1, u32::MAX)];
    // The unit of the fraction in nanoseconds, and the bytes that a record has more.
    for (magic, unit, more) in [(0xa1b2_c3d4u32, 1000, 0), (0xa1b2_3c4d, 1, 0), (0xa1b2_cd34, 1000, 8)] {
        for big in [false, true] {
            if big && more > 0 {
                continue; // The modified format has one byte order.
            }
            let n32 = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
            let version = if big { 2 << 16 | 4 } else { 4 << 16 | 2 };
            let mut bytes = [magic, version, 0, 0, 99, 1].map(n32).concat();
            for (seconds, fraction) in parts {
                bytes.extend([seconds, fraction, 3, 60].map(n32).concat());
                bytes.resize(bytes.len() + more + 3, 7);
            }
            let expected = |(seconds, fraction)| i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * unit;
            assert_eq!(times(&bytes), parts.map(|parts| Some(expected(parts))), "{magic:#x} {big}");
        }
    }
}

impl Ng {
    /// Adds an interface with these options.
    fn interface_with(&mut self, options: &[(u16, &[u8])]) {
        let mut body = [&self.n16(1)[..], &[0, 0], &self.n32(0)].concat();
        for (code, value) in options {
            body.extend([&self.n16(*code)[..], &self.n16(value.len() as u16), value].concat());
            body.resize(body.len().next_multiple_of(4), 0);
        }
        self.block(1, &[&body, &[0; 4]], false);
    }

    fn at(&mut self, is_obsolete: bool, interface: u16, timestamp: u64) {
        let (high, low) = ((timestamp >> 32) as u32, timestamp as u32);
        let head = [high, low, 4, 60].map(|n| self.n32(n)).concat();
        let (kind, interface) = match is_obsolete {
            true => (2, [self.n16(interface), [0xff; 2]].concat()),
            false => (6, self.n32(interface.into()).to_vec()),
        };
        self.block(kind, &[&interface, &head, &[7; 4]], true);
    }

    fn offset(&self, seconds: i64) -> [u8; 8] {
        if self.big { seconds.to_be_bytes() } else { seconds.to_le_bytes() }
    }
}

/// Resolution and offset of an interface, a timestamp, and the time that they state.
type Stated = (Option<u8>, Option<i64>, u64, Option<i64>);

const STATED: [Stated; 32] = [
    (None, None, 0, Some(0)),
    (None, None, 1_700_000_000_123_456, Some(1_700_000_000_123_456_000)),
    (Some(6), None, 1_700_000_000_123_456, Some(1_700_000_000_123_456_000)),
    (Some(9), None, 1_700_000_000_123_456_789, Some(1_700_000_000_123_456_789)),
    (Some(0), None, 1_700_000_000, Some(1_700_000_000_000_000_000)),
    (Some(3), None, 1_700_000_000_123, Some(1_700_000_000_123_000_000)),
    (Some(8), None, 12_345, Some(123_450)),
    // Finer than nanoseconds: rounded down.
    (Some(10), None, 19, Some(1)),
    (Some(12), None, 1_700_000_000_999, Some(1_700_000_000)),
    (Some(12), Some(1_700_000_000), 1_999, Some(1_700_000_000_000_000_001)),
    (Some(12), Some(-1), 1_999, Some(-999_999_999)),
    (Some(28), None, u64::MAX, Some(1)),
    (Some(29), None, u64::MAX, Some(0)),
    (Some(40), Some(3), u64::MAX, Some(3_000_000_000)),
    (Some(0x7f), None, u64::MAX, Some(0)),
    // Powers of two.
    (Some(0x80), None, 1_700_000_000, Some(1_700_000_000_000_000_000)),
    (Some(0x81), None, 3, Some(1_500_000_000)),
    (Some(0x8a), Some(7), 1025, Some(8_000_976_562)),
    (Some(0x80 | 32), None, 1_700_000_000 << 32 | 1 << 31, Some(1_700_000_000_500_000_000)),
    (Some(0x80 | 32), None, 0xffff_ffff, Some(999_999_999)),
    (Some(0x80 | 63), None, u64::MAX, Some(1_999_999_999)),
    (Some(0xff), None, u64::MAX, Some(0)),
    // Offsets, and the limits of 64 bits.
    (None, Some(-5), 1_000_000, Some(-4_000_000_000)),
    (None, Some(1_000_000_000), 1, Some(1_000_000_000_000_001_000)),
    (None, Some(i64::MAX), 0, None),
    (None, Some(i64::MIN), u64::MAX, None),
    (Some(0), Some(i64::MAX), u64::MAX, None),
    (Some(9), None, i64::MAX as u64, Some(i64::MAX)),
    (Some(9), None, 1 << 63, None),
    (Some(9), Some(-9_223_372_037), 145_224_193, Some(-i64::MAX)),
    (Some(9), Some(-9_223_372_037), 145_224_191, None),
    (Some(6), None, 9_223_372_036_854_776, None),
];

#[test]
fn pcapng_counts_by_the_clock_of_the_interface() {
    for (big, is_obsolete) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut ng = Ng::new(big);
        ng.section();
        for (resolution, offset, ..) in STATED {
            let (resolution, offset) = (resolution.map(|byte| [byte]), offset.map(|seconds| ng.offset(seconds)));
            let options =
                [offset.as_ref().map(|bytes| (14, &bytes[..])), resolution.as_ref().map(|byte| (9, &byte[..]))];
            ng.interface_with(&options.into_iter().flatten().collect::<Vec<_>>());
        }
        for (interface, (_, _, timestamp, _)) in (0..).zip(STATED) {
            ng.at(is_obsolete, interface, timestamp);
        }
        let times = times(&ng.bytes);
        assert_eq!(times.len(), STATED.len());
        for (time, stated) in times.into_iter().zip(STATED) {
            assert_eq!(time, stated.3, "{stated:?}");
        }
    }
}

/// A new section has other interfaces, whose clocks are their own, and a simple packet has no time.
#[test]
fn a_section_has_clocks_of_its_own() {
    let mut ng = Ng::new(false);
    for (resolution, big) in [(9, false), (3, true), (6, false)] {
        ng.big = big;
        ng.section();
        ng.interface_with(&[(9, &[resolution])]);
        ng.at(false, 0, 5);
        ng.simple(&[1, 2, 3], 3);
        ng.at(true, 0, 6);
    }
    let expected = [Some(5), None, Some(6), Some(5_000_000), None, Some(6_000_000), Some(5_000), None, Some(6_000)];
    assert_eq!(times(&ng.bytes), expected);
}

/// Options that are too short state nothing.
#[test]
fn options_of_another_length_state_nothing() {
    let mut ng = Ng::new(true);
    ng.section();
    ng.interface_with(&[(9, &[]), (14, &[1, 2, 3, 4])]);
    ng.at(false, 0, 5);
    assert_eq!(times(&ng.bytes), [Some(5_000)]);
}

/// The program dumpcap wrote this capture, in nanoseconds.
#[test]
fn the_example_has_the_time_of_its_recording() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/edge.pcapng");
    let (packets, ..) = drain(open(&path).and_then(Input::into_capture).expect("a capture"));
    let times: Vec<i64> = packets.iter().filter_map(|packet| packet.time).collect();
    // 2026-11-21 21:34:53.202994052 UTC, and 17.508136928 seconds later.
    let ends = (Some(&1_795_296_893_202_994_052), Some(&1_795_296_910_711_130_980));
    assert_eq!((times.len(), (times.first(), times.last())), (9_071, ends));
}
