//! Traces: every form of line, faults in their place, streams that are cut, and the headers of a 5-tuple.

use std::io::Write;

use firstmatch_core::Schema;
use firstmatch_core::rule::first_match;
use firstmatch_core::schema::{Family, Field, Kind, Source};
use firstmatch_formats::Options;
use firstmatch_net::source::{Input, TraceFlags};
use firstmatch_net::wire::{Batch, Config, Headers, Outcome};
use firstmatch_testkit::frames::slow;

fn gz(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("compressed")
}

fn zst(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 3).expect("compressed")
}

#[test]
fn traces_are_read_line_by_line() {
    let text = "167772161\t3232235777\t1024\t80\t6\t17\r\n# note\n\n 1 2  3 4 0xff -1 \n4294967295 0 65535 0 0 0";
    for content in [text.as_bytes().to_vec(), zst(text.as_bytes())] {
        let mut trace = slow(&content, 3).and_then(Input::into_trace).expect("a trace");
        let first = trace.next().expect("good").expect("a record");
        assert_eq!((first.src, first.dst, first.sport, first.dport), (0x0a00_0001, 0xc0a8_0101, 1024, 80));
        assert_eq!((first.proto, first.flags, first.rule, first.family), (6, None, Some(17), Family::Ipv4));
        let second = trace.next().expect("good").expect("a record");
        assert_eq!((second.proto, second.rule, trace.line()), (255, None, 4));
        // The largest number of 32 bits is an address of IPv4.
        assert_eq!(trace.next().expect("good").map(|r| (r.src, r.family)), Some((0xffff_ffff, Family::Ipv4)));
        assert_eq!((trace.next(), trace.records(), trace.cut()), (Ok(None), 3, None));
    }
    let seven = "2001:db8::1 ::2 1 2 17 0x0012 9\n4294967296 5 1 2 17 0x2 9\n";
    let mut trace = slow(seven.as_bytes(), 100).and_then(Input::into_trace).expect("a trace");
    let first = trace.next().expect("good").expect("a record");
    assert_eq!(
        (first.family, first.src >> 96, first.flags),
        (Family::Ipv6, 0x2001_0db8, Some(TraceFlags::Plain(0x12)))
    );
    let second = trace.next().expect("good").expect("a record");
    assert_eq!((second.family, second.dst), (Family::Ipv6, 5));
    assert_eq!(second.headers().value(Source::TcpFlags), Some(2));
}

/// Lines as ClassBench's `trace_generator` prints them, all in decimal.
///
/// They are the corners of rules without a mask, of `0x0000/0x0200` and of `0x1000/0x1000`.
const TRACE_GENERATOR: &str = "\
167772161\t3221225991\t1024\t80\t6\t512\t0
167772161\t3221225991\t1024\t80\t6\t268439552\t1
167772161\t3221225991\t1024\t80\t6\t0\t2
167772161\t3221225991\t1024\t80\t6\t4294967295\t2
";

#[test]
fn the_flags_of_classbench_are_read() {
    let rules = "@0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x06/0xFF\t0x0000/0x0200\n";
    let options = Options { flags: true, ..Options::default() };
    let rules = firstmatch_formats::parse(rules, &options).expect("rules").rules;
    let mut trace = slow(TRACE_GENERATOR.as_bytes(), 9).and_then(Input::into_trace).expect("a trace");
    assert!(trace.need_flags_for(rules.schemas()));
    let mut flags = Vec::new();
    while let Some(record) = trace.next().expect("good lines") {
        let Some(TraceFlags::ClassBench(of)) = record.flags else { panic!("{record:?}") };
        flags.push((of, record.rule));
        assert!(!record.headers().present().contains(Source::TcpFlags));
        let values = record.values(&rules.schemas()[0]).expect("all fields");
        assert_eq!((values.values.len(), values.values[5]), (6, Some(of.into())));
        assert_eq!(first_match(&rules, &values).is_some(), of & 0x0200 == 0);
        assert_eq!(record.values(&Schema::ipv6()), None);
    }
    assert_eq!(flags, [(0, Some(0)), (0x1000, Some(1)), (0, Some(2)), (0xffff, Some(2))]);
    let mut trace = slow(b"1 2 3 4 6 0x1234 1\n", 9).and_then(Input::into_trace).expect("a trace");
    assert!(trace.need_flags_for(rules.schemas()));
    let record = trace.next().expect("good").expect("a record");
    assert_eq!(record.values(&rules.schemas()[0]).expect("all fields").values[5], Some(0x1234));
    assert_eq!(record.headers().value(Source::TcpFlags), Some(0x34));
    // Rules without that field need no flags.
    let mut trace = slow(b"1 2 3 4 6 1\n", 9).and_then(Input::into_trace).expect("a trace");
    assert!(!trace.need_flags_for(&[Schema::ipv4(), Schema::openflow()]));
    for (line, needed, message) in [
        ("1 2 3 4 6 1", true, "this line has 6 columns"),
        ("1 2 3 4 6 65536 1", true, "65536 states flags under an empty mask"),
        ("1 2 3 4 6 65536 1", false, "65536 states flags under an empty mask"),
        ("1 2 3 4 6 0x10000 1", false, "0x10000 is no flags"),
        ("1 2 3 4 6 4294967296 1", false, "4294967296 is no flags"),
        ("1 2 3 4 6 x 1", false, "x is no flags"),
    ] {
        let mut trace = slow(line.as_bytes(), 5).and_then(Input::into_trace).expect("a trace");
        if needed {
            trace.need_flags_for(rules.schemas());
        }
        let error = trace.next().expect_err(line);
        let shown = error.diagnostic().expect("a place");
        assert_eq!((shown.line, shown.message.as_str()), (1, message));
        assert!(shown.expected.as_ref().is_some_and(|expected| expected.contains("flags")), "{shown}");
    }
}

/// A record has no values for a schema with a field that packets cannot lack and a trace does not state.
#[test]
fn a_record_that_lacks_a_needed_field_has_no_values() {
    let mut trace = slow(b"1 2 3 4 6 1\n", 9).and_then(Input::into_trace).expect("a trace");
    let record = trace.next().expect("good").expect("a record");
    let stated = Field::new("port", 16, Kind::Range, Some(Source::DstPort));
    for (source, width) in [(Some(Source::TcpFlags), 8), (Some(Source::EthSrc), 48), (None, 16)] {
        let field = Field::new("more", width, Kind::Exact, source);
        let values = |field: Field| {
            record.values(&Schema::new(Some(Family::Ipv4), vec![stated.clone(), field])).map(|values| values.values)
        };
        assert_eq!(values(field.clone()), None, "{source:?}");
        assert_eq!(values(field.optional()), Some(vec![Some(4), None]), "{source:?}");
    }
}

#[test]
fn a_trace_has_one_number_of_columns() {
    let (six, seven) = ("1 2 3 4 6 5", "1 2 3 4 6 0 5");
    for (first, then, expected) in
        [(six, seven, "6 columns, as the lines before"), (seven, six, "7 columns, as the lines before")]
    {
        let text = format!("{first}\n{then}\n");
        let mut trace = slow(text.as_bytes(), 5).and_then(Input::into_trace).expect("a trace");
        assert!(trace.next().expect("good").is_some());
        let error = trace.next().expect_err(then);
        assert_eq!(error.diagnostic().and_then(|shown| shown.expected.as_deref()), Some(expected));
    }
}

#[test]
fn bad_trace_lines_are_shown() {
    for (line, column, width, message) in [
        ("1 2 3 65536 6 1", 7, 5, "65536 is too large"),
        ("1 2 3 4 6", 10, 0, "this line has 5 columns"),
        ("1 2 3 4 6 7 8 9 10", 15, 1, "this line has 9 columns"),
        ("1 2é 3 4 6 7", 3, 2, "2é is no address"),
        ("1 2 x 4 6 7", 5, 1, "x is no such number"),
        ("1 2 3 4 256 7", 9, 3, "256 is too large"),
        ("1", 1, 0, "the line ends here"),
        ("1.2.3.4 ::1 3 4 6 7", 1, 7, "the two addresses belong to different families"),
        ("1.2.3 1 3 4 6 7", 1, 5, "1.2.3 is no address"),
        ("@1.2.3.4/32 x", 1, 1, "this is a ClassBench rule, not a packet"),
        ("1 2 3 4 6 5 7", 14, 0, "this line has 7 columns"),
    ] {
        let text = format!("1 2 3 4 5 6\n{line}\n1 2 3 4 5 6\n");
        let mut trace = slow(text.as_bytes(), 5).and_then(Input::into_trace).expect("a trace");
        assert!(trace.next().expect("good").is_some());
        let error = trace.next().expect_err(line);
        let shown = error.diagnostic().expect("a place");
        assert_eq!((shown.line, shown.text.as_str(), shown.message.as_str()), (2, line, message));
        assert!(shown.expected.is_some());
        if line != "1" {
            assert_eq!((shown.column, shown.width), (column, width), "{line}");
        }
        assert_eq!(trace.next(), Ok(None));
    }
    let mut trace = slow(&[b'1'; 10_000], 5000).and_then(Input::into_trace).expect("text");
    assert!(trace.next().expect_err("long").to_string().contains("longer than 4096 bytes"));
    // A line may be as long as the limit, whether or not it is the last.
    for end in ["", "\n", "\n1 2 3 4 5 6\n"] {
        for (len, is_read) in [(4096, true), (4097, false)] {
            let text = format!("1 2 3 4 5 {}6{end}", " ".repeat(len - 11));
            let mut trace = slow(text.as_bytes(), 5000).and_then(Input::into_trace).expect("text");
            assert_eq!(trace.next().is_ok(), is_read, "{len} bytes, then {end:?}");
        }
    }
    // The last line of a cut stream may be half a number.
    let text = "1 2 3 4 5 6\n".repeat(2000);
    let mut file = gz(text.as_bytes());
    file.truncate(file.len() - 12);
    let mut trace = slow(&file, 5000).and_then(Input::into_trace).expect("text");
    while let Some(record) = trace.next().expect("good lines") {
        assert_eq!(record.rule, Some(6));
    }
    assert!(trace.cut().is_some_and(|cut| cut.whole() == trace.records()));
}

#[test]
fn a_packet_known_by_its_five_tuple_has_ports_whatever_its_protocol() {
    let headers = Headers::of_five_tuple(Family::Ipv4, 1, u128::MAX, 3, 4, 50);
    let mut batch = Batch::new(&Config::default(), &[Schema::ipv4(), Schema::ipv6()]).expect("sources");
    assert_eq!(batch.push_headers(&headers, 0), Outcome::Complete);
    assert_eq!(&batch.keys(0).row(0)[..5], [1, u32::MAX, 3, 4, 50]);
    assert_eq!(headers.value(Source::Dst), Some(u128::from(u32::MAX)));
    assert_eq!(headers.with_tcp_flags(2).value(Source::TcpFlags), Some(2));
    let headers = Headers::of_five_tuple(Family::Ipv6, 1 << 96, 2, 3, 4, 6);
    assert_eq!(batch.push_headers(&headers, 0), Outcome::Complete);
    assert_eq!(&batch.keys(1).row(0)[..11], [1, 0, 0, 0, 0, 0, 0, 2, 3, 4, 6]);
}

/// The header fields of a packet known by its 5-tuple are there or known not to be; OpenFlow's follow from the others.
#[test]
fn a_five_tuple_tells_of_every_header_field() {
    for (family, eth_type) in [(Family::Ipv4, 0x0800), (Family::Ipv6, 0x86dd)] {
        let headers = Headers::of_five_tuple(family, 1, 2, 3, 4, 50);
        for source in Source::ALL {
            let expected = match source {
                Source::Src => Some(1),
                Source::Dst => Some(2),
                Source::SrcPort | Source::TpSrc => Some(3),
                Source::DstPort | Source::TpDst => Some(4),
                Source::Proto | Source::IpProto => Some(50),
                Source::EthType => Some(eth_type),
                Source::InPort | Source::Metadata => Some(0),
                Source::Ipv4Src if family == Family::Ipv4 => Some(1),
                Source::Ipv4Dst if family == Family::Ipv4 => Some(2),
                _ => None,
            };
            assert_eq!(headers.value(source), expected, "{family} {source:?}");
            assert_eq!(headers.absent().contains(source), expected.is_none(), "{family} {source:?}");
        }
        assert_eq!((headers.reason(), headers.unknown().is_empty()), (Outcome::Complete, true));
    }
}
