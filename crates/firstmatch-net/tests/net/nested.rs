//! Streams inside streams, and blocks at the very limit.

use std::io::Write;

use firstmatch_net::source::{Input, Limits, from_reader};
use firstmatch_testkit::frames::{Slow, slow};

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).expect("compressed")
}

/// Four streams inside one another are undone, and a fifth is refused.
#[test]
fn four_nested_streams_are_undone() {
    let nested = |count| (0..count).fold(b"1 2 3 4 5 6\n".to_vec(), |inner, _| gz(&inner));
    let mut trace = slow(&nested(4), 99).and_then(Input::into_trace).expect("four are undone");
    assert!(trace.next().expect("good").is_some() && trace.next() == Ok(None));
    assert!(slow(&nested(5), 99).expect_err("five are not").to_string().contains("inside 4 other"));
}

/// The message about a damaged stream names the inner one first.
#[test]
fn the_inner_stream_is_named_first() {
    let lines: String = (0..50_000).map(|at: u32| format!("{} 2 3 4 5 6\n", at.wrapping_mul(0x9E37_79B9))).collect();
    for (file, streams) in [(zst(&gz(lines.as_bytes())), "gzip in zstd"), (gz(&zst(lines.as_bytes())), "zstd in gzip")]
    {
        let cut = &file[..file.len() - 20];
        let mut trace = slow(cut, 4096).and_then(Input::into_trace).expect("its beginning is whole");
        let mut count = 0;
        let fault = loop {
            match trace.next() {
                Ok(Some(_)) => count += 1,
                Ok(None) => break trace.cut().map(ToString::to_string).unwrap_or_default(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(count > 100 && fault.contains(&format!("the {streams} stream ")), "{count} packets, then: {fault}");
    }
}

/// Blocks of a capture: a section, an interface, a custom block of `custom` bytes and a packet of eight bytes.
fn pcapng(custom: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let len = (body.len() as u32 + 12).to_le_bytes();
        out.extend([&kind.to_le_bytes()[..], &len, body, &len].concat());
    };
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    block(0x0A0D_0D0A, &words(&[0x1A2B_3C4D, 1, u32::MAX, u32::MAX]));
    block(1, &words(&[1, 0]));
    // Bytes that compress badly, so that a stream that is cut ends inside of them.
    let noise = (0..custom as u32).map(|at| (at.wrapping_mul(0x9E37_79B9) >> 13) as u8);
    block(0x0BAD, &noise.collect::<Vec<u8>>());
    block(6, &words(&[0, 0, 0, 8, 8, 7, 7]));
    out
}

/// A block as long as a record may be is read, and a longer one is refused.
#[test]
fn a_block_is_too_long_beyond_the_limit() {
    let bytes = pcapng(4);
    for (max_record, packets) in [(40, Some(1)), (39, None)] {
        let limits = Limits { max_record, ..Limits::default() };
        let reader = Slow { bytes: bytes.clone(), at: 0, step: 7 };
        let input = from_reader("x", Box::new(reader), &limits).expect("opened");
        let mut capture = input.into_capture().expect("a capture");
        let mut count = 0;
        let end = loop {
            match capture.next() {
                Ok(Some(_)) => count += 1,
                end => break end.map(|_| count),
            }
        };
        assert_eq!(end.as_ref().ok(), packets.as_ref(), "{max_record}: {end:?}");
        if let Err(error) = end {
            assert!(error.to_string().contains("to take 40 bytes; expected at most 39"), "{error}");
        }
    }
}

/// A block that is passed over in a stream that ends there is cut for the reason that the stream gives.
#[test]
fn a_block_passed_over_says_why_the_stream_ended() {
    let file = gz(&pcapng(400_000));
    let mut capture = slow(&file[..file.len() / 2], 999).and_then(Input::into_capture).expect("opened");
    assert_eq!(capture.next().expect("cut"), None);
    let cut = capture.cut().expect("the block is cut").to_string();
    assert!(cut.contains("the gzip stream ends before its end mark"), "{cut}");
}
