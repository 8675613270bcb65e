//! Sources: every format, compressed and not, cut everywhere, damaged, and nonsense.

mod compressed;
mod files;
mod times;

use std::io::{self, Read, Write};
use std::time::Duration;

use firstmatch_net::source::{Capture, Cut, Frames, Input, Limits, Packet, SourceError, Stopped, from_reader};
use firstmatch_net::wire::LinkType;
use firstmatch_testkit::frames::{Slow, handmade, slow};
use firstmatch_testkit::rng::Rng;
use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionBlock;
use pcap_file::{DataLink, Endianness, TsResolution};

#[derive(Clone, Debug, PartialEq, Eq)]
struct Owned {
    link: LinkType,
    interface: u32,
    data: Vec<u8>,
    original_len: u32,
    time: Option<i64>,
}

type Read1 = (Vec<Owned>, Option<Cut>, Option<SourceError>);

fn drain(mut capture: Capture) -> Read1 {
    let mut packets = Vec::new();
    let error = loop {
        match capture.next() {
            Ok(Some(packet)) => packets.push(owned(packet)),
            Ok(None) => break None,
            Err(error) => break Some(error),
        }
    };
    assert_eq!(capture.packets(), packets.len() as u64);
    assert_eq!(capture.unread_links(), unread(&packets));
    assert!(capture.next().expect("nothing more").is_none());
    (packets, capture.cut().cloned(), error)
}

/// Reads a capture packet by packet; by frames, with decompression aside, too, and asserts that it is the same.
fn read(bytes: &[u8], step: usize) -> Result<Read1, SourceError> {
    let packets = slow(bytes, step).and_then(Input::into_capture).map(drain);
    let aside = slow(bytes, step).and_then(Input::decompress_aside).and_then(Input::into_capture);
    let frames = aside.map(|capture| drain_frames(capture, 1 + bytes.len() % 5));
    assert_eq!(frames, packets);
    packets
}

/// Counts the packets by link type, for link types that are not read.
fn unread(packets: &[Owned]) -> Vec<(LinkType, u64)> {
    let mut counts = std::collections::BTreeMap::<u16, u64>::new();
    for packet in packets {
        if let LinkType::Other(number) = packet.link {
            *counts.entry(number).or_default() += 1;
        }
    }
    counts.into_iter().map(|(number, count)| (LinkType::Other(number), count)).collect()
}

fn owned(packet: Packet<'_>) -> Owned {
    let Packet { link, interface, data, original_len, time } = packet;
    Owned { link, interface, data: data.to_vec(), original_len, time }
}

fn drain_frames(mut capture: Capture, least: usize) -> Read1 {
    let (mut packets, mut frames) = (Vec::new(), Frames::default());
    let error = loop {
        match capture.next_frames(&mut frames, least) {
            Ok(true) => {
                assert!((1..=4 * least).contains(&frames.len()) && !frames.is_empty());
                let new: Vec<Owned> = frames.iter().map(owned).collect();
                let is_plain = |packet: &Owned| {
                    packet.interface == 0
                        && packet.link == new[0].link
                        && packet.data.len() == packet.original_len as usize
                };
                assert_eq!(frames.plain_link(), new.iter().all(is_plain).then_some(new[0].link));
                packets.extend(new);
            }
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
        assert_eq!(frames.iter().len(), frames.len());
    };
    assert!(frames.is_empty());
    assert_eq!(capture.packets(), packets.len() as u64);
    assert_eq!(capture.unread_links(), unread(&packets));
    assert!(!capture.next_frames(&mut frames, least).expect("nothing more"));
    (packets, capture.cut().cloned(), error)
}

fn frames() -> Vec<Vec<u8>> {
    let mut frames: Vec<_> = handmade().into_iter().map(|(_, frame)| frame.bytes).collect();
    frames.push(Vec::new());
    frames.push(vec![7; 700]);
    frames
}

/// Returns a pcap file, and the offsets at which its packets end.
fn pcap(endianness: Endianness, ts_resolution: TsResolution, frames: &[Vec<u8>]) -> (Vec<u8>, Vec<usize>) {
    let header = PcapHeader {
        endianness,
        ts_resolution,
        datalink: DataLink::ETHERNET,
        snaplen: 1 << 20,
        ..PcapHeader::default()
    };
    let mut writer = PcapWriter::with_header(Vec::new(), header).expect("written");
    let mut ends = vec![24];
    for frame in frames {
        let len = frame.len() as u32 + 4;
        writer.write_packet(&PcapPacket::new(Duration::from_secs(9), len, frame)).expect("written");
        ends.push(ends[ends.len() - 1] + 16 + frame.len());
    }
    let bytes = writer.into_writer();
    assert_eq!(Some(&bytes.len()), ends.last());
    (bytes, ends[1..].to_vec())
}

/// Writer of pcapng by hand, in either byte order.
struct Ng {
    big: bool,
    bytes: Vec<u8>,
    /// Offset at which each block ends, and whether it is a packet.
    ends: Vec<(usize, bool)>,
}

impl Ng {
    fn new(big: bool) -> Self {
        Self { big, bytes: Vec::new(), ends: Vec::new() }
    }

    fn n32(&self, n: u32) -> [u8; 4] {
        if self.big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn n16(&self, n: u16) -> [u8; 2] {
        if self.big { n.to_be_bytes() } else { n.to_le_bytes() }
    }

    fn block(&mut self, kind: u32, body: &[&[u8]], packet: bool) {
        let mut body = body.concat();
        body.resize(body.len().next_multiple_of(4), 0xee);
        let len = self.n32(body.len() as u32 + 12);
        let parts = [&self.n32(kind)[..], &len, &body, &len].concat();
        self.bytes.extend(parts);
        self.ends.push((self.bytes.len(), packet));
    }

    fn section(&mut self) {
        let (order, version) = (self.n32(0x1a2b_3c4d), self.n16(1));
        self.block(0x0a0d_0d0a, &[&order, &version, &[0, 0], &[0xff; 8]], false);
    }

    fn interface(&mut self, link: u16, snaplen: u32) {
        let (link, snaplen) = (self.n16(link), self.n32(snaplen));
        self.block(1, &[&link, &[0, 0], &snaplen], false);
    }

    fn enhanced(&mut self, interface: u32, data: &[u8], options: &[u8]) {
        let head = [interface, 0, 0, data.len() as u32, data.len() as u32 + 1].map(|n| self.n32(n)).concat();
        let mut padded = data.to_vec();
        padded.resize(padded.len().next_multiple_of(4), 0xdd);
        self.block(6, &[&head, &padded, options], true);
    }

    fn simple(&mut self, data: &[u8], original_len: u32) {
        let original_len = self.n32(original_len);
        self.block(3, &[&original_len, data], true);
    }

    fn obsolete(&mut self, interface: u16, data: &[u8]) {
        let head = [0, 0, data.len() as u32, data.len() as u32].map(|n| self.n32(n)).concat();
        let interface = self.n16(interface);
        self.block(2, &[&interface, &[0, 0], &head, data], true);
    }
}

/// Returns a file with two sections, and the packets in it.
///
/// It has several interfaces, every kind of packet block, and blocks to pass over.
fn pcapng(big: bool) -> (Ng, Vec<Owned>) {
    let mut ng = Ng::new(big);
    let mut packets = Vec::new();
    let mut expect = |link, interface, data: &[u8], original_len, time| {
        packets.push(Owned { link, interface, data: data.to_vec(), original_len, time });
    };
    for round in 0..2u8 {
        ng.section();
        ng.interface(1, 6);
        ng.block(0x0000_000a, &[b"TLSK", &[9; 200]], false);
        ng.enhanced(0, &[round; 5], &[]);
        expect(LinkType::Ethernet, 0, &[round; 5], 6, Some(0));
        ng.interface(101, 0);
        ng.interface(if round == 0 { 113 } else { 147 }, 0);
        let comment = [&ng.n16(1)[..], &ng.n16(4), b"text", &[0; 4]].concat();
        ng.enhanced(1, &[round; 90], &comment);
        expect(LinkType::Raw, 1, &[round; 90], 91, Some(0));
        ng.simple(&[1, 2, 3, 4, 5, 6], 1000);
        expect(LinkType::Ethernet, 0, &[1, 2, 3, 4, 5, 6], 1000, None);
        ng.simple(&[1, 2, 3], 3);
        expect(LinkType::Ethernet, 0, &[1, 2, 3], 3, None);
        ng.obsolete(2, &[8; 7]);
        expect(if round == 0 { LinkType::LinuxSll } else { LinkType::Other(147) }, 2, &[8; 7], 7, Some(0));
        ng.block(5, &[&[0; 12]], false);
        ng.block(0x8000_1234, &[], false);
        ng.enhanced(2, &[], &[]);
        expect(if round == 0 { LinkType::LinuxSll } else { LinkType::Other(147) }, 2, &[], 1, Some(0));
        ng.big = !ng.big;
    }
    ng.big = big;
    (ng, packets)
}

fn gz(bytes: &[u8]) -> Vec<u8> {
    // There are two members, because readers that stop after the first lose the second.
    let (a, b) = bytes.split_at(bytes.len() / 3);
    let member = |part: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(part).expect("compressed");
        encoder.finish().expect("compressed")
    };
    [member(a), member(b)].concat()
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    let (a, b) = bytes.split_at(bytes.len() / 3);
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let frame = |part: &[u8]| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.include_checksum(true).expect("as the zstd program does");
        encoder.write_all(part).expect("compressed");
        encoder.finish().expect("compressed")
    };
    [&skippable[..], &frame(a), &frame(b)].concat()
}

fn packets_of(frames: &[Vec<u8>]) -> Vec<Owned> {
    let owned = |data: &Vec<u8>| Owned {
        link: LinkType::Ethernet,
        interface: 0,
        data: data.clone(),
        original_len: data.len() as u32 + 4,
        time: Some(9_000_000_000),
    };
    frames.iter().map(owned).collect()
}

#[test]
fn pcap_of_either_byte_order_and_resolution_is_read() {
    let frames = frames();
    for endianness in [Endianness::Big, Endianness::Little] {
        for resolution in [TsResolution::MicroSecond, TsResolution::NanoSecond] {
            let (bytes, _) = pcap(endianness, resolution, &frames);
            for step in [1, 7, usize::MAX] {
                for file in [bytes.clone(), gz(&bytes), zst(&bytes), gz(&zst(&bytes)), zst(&gz(&bytes))] {
                    assert_eq!(read(&file, step), Ok((packets_of(&frames), None, None)));
                }
            }
        }
    }
}

#[test]
fn only_sixteen_bits_of_the_link_type_count() {
    let (mut bytes, _) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames());
    bytes[23] = 0x24;
    assert_eq!(read(&bytes, 999), Ok((packets_of(&frames()), None, None)));
    bytes[20] = 220;
    let (packets, ..) = read(&bytes, 999).expect("a capture");
    assert!(packets.iter().all(|packet| packet.link == LinkType::Other(220)), "{packets:?}");
}

/// A capture of another major version is refused, because its records may differ; the error names the version.
#[test]
fn other_major_versions_are_refused() {
    let refused = |bytes: &[u8]| {
        let (packets, cut, error) = read(bytes, 50).expect("opened");
        assert_eq!((packets.len(), cut), (0, None));
        error.expect("another version").to_string()
    };
    for (endianness, major, minor) in [(Endianness::Little, 4, 6), (Endianness::Big, 5, 7)] {
        let (mut bytes, _) = pcap(endianness, TsResolution::MicroSecond, &frames());
        bytes[minor] = 3;
        assert_eq!(read(&bytes, 999), Ok((packets_of(&frames()), None, None)), "another minor version");
        bytes[major] = 3;
        assert_eq!(
            refused(&bytes),
            "test: packet 1 at byte 0: this is version 3.3 of the pcap format; expected version 2"
        );
    }
    for big in [false, true] {
        let (Ng { mut bytes, .. }, packets) = pcapng(big);
        let [major, minor] = if big { [13, 15] } else { [12, 14] };
        bytes[minor] = 2;
        assert_eq!(read(&bytes, 999), Ok((packets, None, None)), "another minor version");
        bytes[major] = 2;
        let expected =
            "test: packet 1 at byte 0: this section has version 2.2 of the pcapng format; expected version 1";
        assert_eq!(refused(&bytes), expected);
    }
}

/// Captures joined by `cat` have no packet more, and an error behind the first.
#[test]
fn a_second_file_header_is_named() {
    let orders = [Endianness::Little, Endianness::Big];
    for (first, second) in orders.into_iter().flat_map(|first| orders.map(|second| (first, second))) {
        for resolution in [TsResolution::MicroSecond, TsResolution::NanoSecond] {
            let joined = [pcap(first, resolution, &frames()).0, pcap(second, resolution, &frames()).0].concat();
            for step in [1, 13, usize::MAX] {
                let (packets, cut, error) = read(&joined, step).expect("opened");
                assert_eq!((packets, cut), (packets_of(&frames()), None));
                let error = error.expect("a second header").to_string();
                assert!(error.contains("another pcap file begins here"), "{error}");
            }
        }
    }
}

#[test]
fn a_frame_check_sequence_is_no_part_of_the_packet() {
    let whole: Vec<u8> = (0..64).collect();
    let (mut bytes, _) = pcap(Endianness::Little, TsResolution::MicroSecond, std::slice::from_ref(&whole));
    // The frame has 68 bytes on the wire. The last four are the check sequence and were not captured.
    let data = |bytes: &[u8]| read(bytes, 1 << 20).expect("a capture").0[0].data.clone();
    for (high, len) in [(0, 64), (0x40, 64), (0x24, 64), (0x44, 60), (0x64, 56), (0xf4, 38)] {
        bytes[23] = high;
        assert_eq!(data(&bytes), &whole[..len], "{high:#x}");
    }
    // Original lengths that are too small are not believed.
    bytes[36..40].copy_from_slice(&2u32.to_le_bytes());
    bytes[23] = 0x24;
    assert_eq!(data(&bytes), &whole[..60]);
    let wire = |bytes: &[u8]| read(bytes, 1 << 20).expect("a capture").0[0].original_len;
    assert_eq!(wire(&bytes), 64, "at least the captured bytes were on the wire");
    bytes[23] = 0;
    assert_eq!((data(&bytes), wire(&bytes)), (whole.clone(), 64));
    // From 16 on the option counts bits.
    for (stated, len) in [(0, 64), (4, 61), (15, 50), (16, 63), (32, 61), (255, 34)] {
        let mut ng = Ng::new(true);
        ng.section();
        let (link, snaplen, option) = (ng.n16(1), ng.n32(0), [ng.n16(13), ng.n16(1)].concat());
        ng.block(1, &[&link, &[0, 0], &snaplen, &option, &[stated, 0, 0, 0], &[0; 4]], false);
        // The helper says that one byte more was on the wire.
        ng.enhanced(0, &whole, &[]);
        assert_eq!(data(&ng.bytes), &whole[..len], "{stated}");
    }
}

#[test]
fn pcapng_with_sections_interfaces_and_every_packet_block_is_read() {
    for big in [false, true] {
        let (ng, packets) = pcapng(big);
        for step in [1, 13, usize::MAX] {
            assert_eq!(read(&ng.bytes, step), Ok((packets.clone(), None, None)));
            assert_eq!(read(&gz(&ng.bytes), step), Ok((packets.clone(), None, None)));
        }
    }
    // Another writer's file reads the same.
    for endianness in [Endianness::Big, Endianness::Little] {
        let mut writer = PcapNgWriter::with_endianness(Vec::new(), endianness).expect("written");
        let interface = InterfaceDescriptionBlock { linktype: DataLink::ETHERNET, snaplen: 0, options: vec![] };
        writer.write_pcapng_block(interface).expect("written");
        for data in frames() {
            // This writer counts nanoseconds, whatever the interface says: these are 9 million microseconds.
            let (original_len, timestamp) = (data.len() as u32 + 4, Duration::from_nanos(9_000_000));
            let data = data.into();
            let block = EnhancedPacketBlock { interface_id: 0, timestamp, original_len, data, options: vec![] };
            writer.write_pcapng_block(block).expect("written");
        }
        assert_eq!(read(&writer.into_inner(), 50), Ok((packets_of(&frames()), None, None)));
    }
}

#[test]
fn a_capture_cut_anywhere_gives_every_whole_packet_and_says_so() {
    let frames: Vec<_> = frames().into_iter().take(12).collect();
    let (bytes, ends) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames);
    let (ng, ng_packets) = pcapng(true);
    let ng_ends: Vec<_> = ng.ends.iter().filter(|(_, packet)| *packet).map(|&(end, _)| end).collect();
    let mut ng_clean: Vec<_> = ng.ends.iter().map(|&(end, _)| end).collect();
    ng_clean.push(0);
    let mut clean = ends.clone();
    clean.push(24);
    for (bytes, packets, ends, clean) in
        [(&bytes, packets_of(&frames), ends, clean), (&ng.bytes, ng_packets, ng_ends, ng_clean)]
    {
        for at in 0..=bytes.len() {
            let result = read(&bytes[..at], 33);
            if at < 4 {
                assert!(result.is_err(), "{at} bytes are no capture");
                assert_eq!(result.expect_err("no capture").is_empty(), at == 0);
                continue;
            }
            let (got, cut, error) = result.expect("opened");
            let whole = ends.iter().filter(|&&end| end <= at).count();
            assert_eq!((got.as_slice(), error), (&packets[..whole], None), "cut at {at}");
            assert_eq!(cut.is_none(), clean.contains(&at), "cut at {at}: {cut:?}");
            if let Some(cut) = cut {
                assert_eq!(cut.whole(), whole as u64);
                assert_eq!(cut.offset(), clean.iter().copied().filter(|&end| end <= at).max().unwrap_or(0) as u64);
                assert!(cut.to_string().starts_with("test: cut at byte "));
            }
        }
        for (how, file) in [("gzip", gz(bytes)), ("zstd", zst(bytes))] {
            let mut opened = 0;
            for at in 4..file.len() {
                // Too few bytes are left to show the format.
                let Ok((got, cut, error)) = read(&file[..at], usize::MAX) else { continue };
                opened += 1;
                assert_eq!((got.as_slice(), error), (&packets[..got.len()], None));
                let said = cut.as_ref().is_some_and(|cut| cut.to_string().contains(how));
                // Between two members or frames the compressed stream is whole.
                assert!(said || got.len() < packets.len(), "{how} cut at {at}: {cut:?}");
            }
            assert!(opened * 2 > file.len(), "{opened} of {}", file.len());
        }
    }
}

/// Reader that gives some bytes, then stops.
struct Stopping(Slow);

impl Read for Stopping {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self.0.read(into)? {
            0 => Err(Stopped.into()),
            count => Ok(count),
        }
    }
}

#[test]
fn a_reader_that_stops_leaves_what_was_whole() {
    let frames = frames();
    let (bytes, ends) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames);
    let packets = packets_of(&frames);
    for (how, file) in [("plain", bytes.clone()), ("gzip", gz(&bytes)), ("zstd", zst(&bytes))] {
        for at in [40, file.len() / 2, file.len() - 1, file.len()] {
            let reader = Stopping(Slow { bytes: file[..at].to_vec(), at: 0, step: 13 });
            let input = match from_reader("test", Box::new(reader), &Limits::default()) {
                Ok(input) => input,
                // Too few bytes were read to decompress any.
                Err(error) => {
                    assert!(how != "plain" && error.to_string() == "test: reading was stopped", "{how} {at}: {error}");
                    continue;
                }
            };
            let (got, cut, error) = drain(input.into_capture().expect("a capture"));
            assert_eq!((got.as_slice(), error), (&packets[..got.len()], None), "{how} {at}");
            assert!(cut.is_some_and(|cut| cut.to_string().ends_with("reading was stopped")), "{how} {at}");
            if how == "plain" {
                assert_eq!(got.len(), ends.iter().filter(|&&end| end <= at).count());
            }
        }
    }
    // Half a line is no line, and no bytes at all are an error.
    let line = "1 2 3 4 5 6\n1 2 3 4 5 6";
    let reader = Stopping(Slow { bytes: line.as_bytes().to_vec(), at: 0, step: 5 });
    let input = from_reader("test", Box::new(reader), &Limits::default()).expect("opened");
    let mut trace = input.into_trace().expect("a trace");
    assert!(trace.next().expect("good").is_some() && trace.next() == Ok(None) && trace.cut().is_some());
    let reader = Stopping(Slow { bytes: Vec::new(), at: 0, step: 5 });
    let error = from_reader("test", Box::new(reader), &Limits::default()).expect_err("nothing");
    assert_eq!(error.to_string(), "test: reading was stopped");
}

#[test]
fn lengths_that_cannot_be_are_errors_not_memory() {
    let (mut bytes, ends) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames());
    bytes[ends[1] + 8..ends[1] + 12].fill(0xff);
    let (got, cut, error) = read(&bytes, 1000).expect("opened");
    let error = error.expect("a hostile length");
    assert_eq!((got.len(), cut, error.packet(), error.offset()), (2, None, Some(3), Some(ends[1] as u64)));
    assert!(error.to_string().contains("expected at most 16777216"), "{error}");

    for len in [0u32, 4, 11, 13, 40, u32::MAX, u32::MAX - 3] {
        for kind in [1u32, 2, 3, 6, 10] {
            let mut ng = Ng::new(false);
            ng.section();
            ng.interface(1, 0);
            ng.enhanced(0, &[1; 20], &[]);
            let at = ng.bytes.len();
            ng.bytes.extend(kind.to_le_bytes());
            ng.bytes.extend(len.to_le_bytes());
            ng.bytes.extend([0xff; 60]);
            let (got, cut, error) = read(&ng.bytes, 9).expect("opened");
            assert_eq!(got.len(), 1, "{kind} {len}");
            let skipped = kind == 10 && (13..100).contains(&len);
            assert!(cut.is_some() != error.is_some() || skipped, "{kind} {len}: {cut:?} {error:?}");
            if let Some(error) = error {
                assert!(skipped || error.offset() == Some(at as u64), "{kind} {len}: {error}");
            }
        }
    }
    // The packet's interface was not described in its section.
    let mut ng = Ng::new(true);
    ng.section();
    ng.enhanced(3, &[1; 20], &[]);
    let (_, _, error) = read(&ng.bytes, 999).expect("opened");
    assert!(error.expect("no interface").to_string().contains("interface 3"));
}

#[test]
fn a_record_is_too_long_whether_or_not_it_is_there() {
    let (bytes, ends) = pcap(Endianness::Little, TsResolution::MicroSecond, &[vec![1; 600], vec![2; 601]]);
    let limits = Limits { max_record: 600, ..Limits::default() };
    for step in [1, 700, bytes.len()] {
        let slow = Slow { bytes: bytes.clone(), at: 0, step };
        let input = from_reader("x", Box::new(slow), &limits).expect("opened");
        let (packets, cut, error) = drain(input.into_capture().expect("a capture"));
        assert_eq!((packets.len(), cut), (1, None));
        let error = error.expect("one is too long");
        assert_eq!((error.packet(), error.offset()), (Some(2), Some(ends[0] as u64)));
    }
}

/// A packet ends before the length that closes its block, and so does the padding of an enhanced block.
#[test]
fn a_packet_ends_before_its_block() {
    for (big, kind) in [(false, 2), (true, 2), (false, 6), (true, 6)] {
        for (stated, room) in (0..16).flat_map(|stated| [(stated, 8), (stated, 12)]) {
            let mut ng = Ng::new(big);
            ng.section();
            ng.interface(1, 0);
            let head = [0, 0, stated, 8].map(|n| ng.n32(n)).concat();
            ng.block(kind, &[&[0; 4], &head, &[7; 8], &[0; 4][..room - 8]], true);
            match read(&ng.bytes, 1 << 20) {
                Ok((packets, None, None)) if stated as usize <= room => {
                    let whole = [[7; 8], [0; 8]].concat();
                    assert_eq!(packets[0].data, whole[..stated as usize]);
                }
                Ok((packets, _, Some(error))) if stated as usize > room => {
                    let says = format!("the fields of this block (kind {kind:#x}) contradict its length");
                    assert!(packets.is_empty() && error.to_string().contains(&says), "{stated}: {error}");
                }
                other => panic!("{stated}: {other:?}"),
            }
        }
    }
    // The packet's bytes are there, but not its padding.
    let mut ng = Ng::new(false);
    ng.section();
    ng.interface(1, 0);
    let block = [6u32, 37, 0, 0, 0, 5, 5].map(u32::to_le_bytes).concat();
    ng.bytes.extend([block, vec![7; 5], 37u32.to_le_bytes().to_vec()].concat());
    let (packets, _, error) = read(&ng.bytes, 99).expect("opened");
    assert!(packets.is_empty() && error.expect("no padding").to_string().contains("contradict its length"));
}

#[test]
fn garbage_never_panics() {
    let mut rng = Rng::new(6);
    let (pcap, _) = pcap(Endianness::Little, TsResolution::MicroSecond, &frames());
    let files = [pcap.clone(), pcapng(false).0.bytes, pcapng(true).0.bytes, gz(&pcap), zst(&pcap)];
    let limits = Limits { max_record: 1 << 16, ..Limits::default() };
    for round in 0..20_000 {
        let mut file = if round % 4 == 0 {
            let len = rng.below(200);
            [&files[rng.below(5)][..4], &rng.bytes(len)].concat()
        } else {
            files[rng.below(5)].clone()
        };
        for _ in 0..rng.below(6) {
            let at = rng.below(file.len());
            file[at] = if rng.one_in(3) { 0xff } else { rng.next() as u8 };
        }
        let step = 1 + rng.below(5000);
        if let Ok(Input::Capture(mut capture)) = from_reader("x", Box::new(Slow { bytes: file, at: 0, step }), &limits)
        {
            let mut count = 0;
            while let Ok(Some(packet)) = capture.next() {
                count += 1;
                assert!(packet.data.len() <= limits.max_record && count < 100_000);
            }
        }
    }
}
