//! Compressed streams: damaged, with a wrong checksum, with bytes behind them.

use std::io::Write;

use firstmatch_net::source::Input;
use firstmatch_testkit::frames::slow;
use firstmatch_testkit::rng::Rng;
use pcap_file::{Endianness, TsResolution};

use super::{drain_frames, frames, gz, packets_of, pcap, read, zst};

#[test]
fn a_damaged_compressed_stream_keeps_what_came_before() {
    let mut rng = Rng::new(5);
    let frames: Vec<_> = (0..3000).map(|_| (0..300).map(|_| rng.any_of(b"etaoin shrdlu")).collect()).collect();
    let (bytes, _) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames);
    let packets = packets_of(&frames);
    for (how, mut file) in [("gzip", gz(&bytes)), ("zstd", zst(&bytes))] {
        let at = file.len() * 2 / 3;
        file[at..at + 40].fill(0xff);
        let (got, cut, error) = read(&file, usize::MAX).expect("opened");
        let right = got.iter().zip(&packets).take_while(|(a, b)| a == b).count();
        assert!(right > 1000 && right < 3000, "{how}: {right} packets");
        // Deflate may invent a few bytes before it notices, and those may make an impossible packet.
        match (cut, error) {
            (None, Some(error)) if error.packet().is_none() => {
                assert!(error.to_string().contains(&format!("the {how} stream is damaged")), "{error}");
            }
            (None, Some(error)) => assert!(how == "gzip", "{how}: {error}"),
            both => panic!("{how}: {both:?}"),
        }
    }
}

/// Zeros behind a gzip stream are no packets; other bytes are a cut after whole packets.
#[test]
fn bytes_behind_a_gzip_stream_are_told_apart() {
    let (bytes, _) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames());
    let (whole, packets) = (gz(&bytes), packets_of(&frames()));
    for step in [1, 7, usize::MAX] {
        for zeros in [1, 511, 70_000] {
            let padded = [&whole[..], &vec![0; zeros]].concat();
            assert_eq!(read(&padded, step), Ok((packets.clone(), None, None)), "{zeros} zeros");
            // A member may follow them.
            assert_eq!(read(&[&padded[..], &gz(b"")].concat(), step), Ok((packets.clone(), None, None)));
        }
        for garbage in [&b"x"[..], b"\0\0garbage", b"\x1f\x8bgarbage and more of it", b"\x1fgarbage and more of it"] {
            let (got, cut, error) = read(&[&whole[..], garbage].concat(), step).expect("opened");
            assert_eq!((got, error), (packets.clone(), None), "{garbage:?}");
            let cut = cut.expect("bytes follow").to_string();
            assert!(cut.ends_with("bytes that are no gzip follow the gzip stream"), "{garbage:?}: {cut}");
        }
        let (_, cut, _) = read(&[&whole[..], b"\x1f\x8b"].concat(), step).expect("opened");
        let cut = cut.expect("half a header").to_string();
        assert!(cut.ends_with("the gzip stream ends before its end mark"), "{cut}");
    }
}

/// Returns one gzip member or zstd frame with a checksum.
fn with_checksum(how: &str, bytes: &[u8]) -> Vec<u8> {
    if how == "gzip" {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("compressed");
        return encoder.finish().expect("compressed");
    }
    let mut encoder = zstd::Encoder::new(Vec::new(), 3).expect("an encoder");
    encoder.include_checksum(true).expect("a checksum");
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

#[test]
fn a_wrong_checksum_is_an_error_after_every_packet() {
    // The first file is smaller than the prefix that the format is recognised by.
    for count in [2, 60, 5000] {
        let frames: Vec<_> = (0..count).map(|round| vec![round as u8; 300]).collect();
        let (bytes, _) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames);
        for (how, from_the_end) in [("gzip", 8), ("zstd", 4)] {
            let mut file = with_checksum(how, &bytes);
            assert_eq!(read(&file, 999), Ok((packets_of(&frames), None, None)), "{how}");
            let at = file.len() - from_the_end;
            file[at] ^= 1;
            for step in [1, 7, usize::MAX] {
                let (got, cut, error) = read(&file, step).expect("opened");
                let error = error.expect("the checksum is wrong").to_string();
                assert_eq!((got.len(), cut), (count, None), "{how}: {error}");
                assert!(error.starts_with(&format!("test: the {how} stream is damaged")), "{error}");
            }
            // With one stream inside the other, the fault of the inner one comes through.
            let (got, _, error) = read(&with_checksum("gzip", &file), usize::MAX).expect("opened");
            assert!(got.len() == count && error.is_some(), "{how}: {error:?}");
        }
    }
}

/// Frames of every length, more than a buffer holds, are the packets of the capture, however many are asked for.
#[test]
fn frames_span_buffers_of_any_size() {
    let mut rng = Rng::new(11);
    let lengths = (0..3000).map(|at| if at % 500 == 77 { 300_000 } else { rng.below(3000) });
    let frames: Vec<Vec<u8>> = lengths.map(|len| vec![len as u8; len]).collect();
    let (bytes, _) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames);
    let expected = packets_of(&frames);
    for bytes in [&bytes, &zst(&bytes)] {
        for (least, step) in [(1, 70_000), (64, 4096), (1000, 1 << 20), (100_000, 1 << 20)] {
            let input = slow(bytes, step).and_then(Input::decompress_aside).and_then(Input::into_capture);
            let (packets, cut, error) = drain_frames(input.expect("a capture"), least);
            assert!(packets == expected && cut.is_none() && error.is_none(), "{least} packets, {step} bytes a read");
        }
    }
}
