//! Flow logs: values by hand for each format, and every fault in its place.

mod garbage;
mod json;

use std::io::{Cursor, Write};

use firstmatch_core::schema::{Family, Source};
use firstmatch_formats::Options;
use firstmatch_net::source::{
    FlowFormat, FlowOptions, FlowWeight, Flows, Input, InputFormat, Limits, SourceError, from_reader,
};
use firstmatch_net::wire::{Batch, Config, Headers, Outcome};

fn open(content: &[u8]) -> Result<Input, SourceError> {
    from_reader("test", Box::new(Cursor::new(content.to_vec())), &Limits::default())
}

/// Returns the flows of a text, which must be recognised as a log of this format.
fn flows(content: &[u8], format: FlowFormat, options: FlowOptions) -> Flows {
    let Ok(Input::Flows(log)) = open(content) else { panic!("{}", String::from_utf8_lossy(content)) };
    assert_eq!(log.format(), format);
    log.into_flows(options)
}

fn forced(content: &[u8], format: FlowFormat, options: FlowOptions) -> Flows {
    let input = open(content).and_then(|input| input.with_format(InputFormat::Flows(format)));
    let Ok(Input::Flows(log)) = input else { panic!("no text") };
    log.into_flows(options)
}

/// Flow as text: fields that are present, then the names of unknown ones behind `?`, packets and bytes.
fn shown(headers: &Headers, weight: FlowWeight) -> String {
    let mut text = String::new();
    let family = headers.family().expect("a flow has one");
    for (source, name) in [
        (Source::Src, "src"),
        (Source::Dst, "dst"),
        (Source::Proto, "proto"),
        (Source::SrcPort, "sport"),
        (Source::DstPort, "dport"),
        (Source::IcmpType, "type"),
        (Source::IcmpCode, "code"),
        (Source::TcpFlags, "flags"),
    ] {
        match headers.value(source) {
            Some(value) if matches!(source, Source::Src | Source::Dst) => match family {
                Family::Ipv4 => text += &format!("{name} {} ", std::net::Ipv4Addr::from(value as u32)),
                Family::Ipv6 => text += &format!("{name} {} ", std::net::Ipv6Addr::from(value)),
            },
            Some(value) => text += &format!("{name} {value} "),
            None if headers.unknown().contains(source) => text += &format!("{name} ? "),
            None => assert!(headers.absent().contains(source)),
        }
    }
    let FlowWeight { flows, packets, bytes } = weight;
    let goes_on = if flows == 0 { " goes on" } else { "" };
    format!("{text}/ {packets} {bytes}{goes_on}")
}

fn all(mut flows: Flows) -> (Vec<String>, Flows, Option<SourceError>) {
    let mut all = Vec::new();
    loop {
        match flows.next() {
            Ok(Some(flow)) => all.push(shown(flow.headers, flow.weight)),
            Ok(None) => return (all, flows, None),
            Err(error) => {
                assert!(matches!(flows.next(), Ok(None)), "nothing comes after an error");
                return (all, flows, Some(error));
            }
        }
    }
}

fn read(content: &str, format: FlowFormat) -> Vec<String> {
    let (all, flows, error) = all(flows(content.as_bytes(), format, FlowOptions::default()));
    assert!(error.is_none(), "{error:?}");
    assert_eq!(flows.counts().flows, all.len() as u64);
    all
}

const VERSION_2: &str = "version account-id interface-id srcaddr dstaddr srcport dstport protocol packets bytes start end \
                         action log-status\n";

#[test]
fn aws_version_2_with_and_without_a_header() {
    let rows = "2 123456789010 eni-1235b8ca123456789 172.31.16.139 172.31.16.21 20641 22 6 20 4249 1418530010 1418530070 \
                ACCEPT OK\n\
                2 123456789010 eni-1 172.31.9.69 172.31.9.12 0 0 1 4 336 1432917027 1432917142 REJECT OK\n\
                2 123456789010 eni-1 2001:db8::1 fe80::8a3d 34892 22 17 54 8855 1 2 ACCEPT OK\n";
    let expected = [
        "src 172.31.16.139 dst 172.31.16.21 proto 6 sport 20641 dport 22 flags ? / 20 4249",
        // The ports of ICMP are 0 in the log, and no packet has them.
        "src 172.31.9.69 dst 172.31.9.12 proto 1 type ? code ? / 4 336",
        "src 2001:db8::1 dst fe80::8a3d proto 17 sport 34892 dport 22 / 54 8855",
    ];
    let with_header = format!("{VERSION_2}{rows}");
    assert_eq!(read(rows, FlowFormat::Aws), expected);
    assert_eq!(read(&with_header, FlowFormat::Aws), expected);
    assert_eq!(read(&with_header.replace('\n', "\r\n"), FlowFormat::Aws), expected);
    assert_eq!(read(&with_header.replace(' ', ","), FlowFormat::Aws), expected);
    assert_eq!(read(&with_header.replace(' ', "\t").replace('-', "_"), FlowFormat::Aws), expected);
    // Files one after another, each with its header, and a last line without its end.
    let twice = format!("\u{feff}{with_header}\n{}", with_header.trim_end());
    assert_eq!(read(&twice, FlowFormat::Aws), [expected, expected].concat());
}

#[test]
fn aws_has_any_columns_in_any_order() {
    let text = "tcp-flags dstaddr srcaddr pkt-srcaddr pkt-dstaddr dstport protocol version sublocation-id srcport\n\
                2 10.0.0.2 10.0.0.1 192.0.2.1 192.0.2.2 443 6 5 - 40000\n\
                18 10.0.0.1 10.0.0.2 192.0.2.2 192.0.2.1 40000 6 5 - 443\n\
                3 10.0.0.2 10.0.0.1 - - 443 6 5 - 1\n\
                19 10.0.0.2 10.0.0.1 - - 443 6 5 - 2\n\
                0 10.0.0.2 10.0.0.1 - - 443 6 5 - 3\n\
                5 10.0.0.2 10.0.0.1 - - 443 6 5 - 4\n\
                - 10.0.0.2 10.0.0.1 - - 443 6 5 - 5\n\
                0 10.0.0.2 10.0.0.1 - - 443 17 5 - 6\n";
    let flags: Vec<String> =
        read(text, FlowFormat::Aws).iter().map(|of| of.split("dport ").nth(1).expect("a port").to_owned()).collect();
    assert_eq!(
        flags,
        [
            "443 flags 2 / 0 0",
            "40000 flags 18 / 0 0",
            "443 flags 2 / 0 0",
            "443 flags 18 / 0 0",
            "443 flags ? / 0 0",
            "443 flags ? / 0 0",
            "443 flags ? / 0 0",
            "443 / 0 0",
        ]
    );
    // The ends behind NAT.
    let behind = FlowOptions::default().columns(["src=pkt-srcaddr", "dst=pkt_dstaddr"]).expect("parts");
    let (rows, flows, error) = all(flows(text.as_bytes(), FlowFormat::Aws, behind));
    assert_eq!(rows[0], "src 192.0.2.1 dst 192.0.2.2 proto 6 sport 40000 dport 443 flags 2 / 0 0");
    assert_eq!((rows.len(), flows.counts().read, flows.counts().without_address, error), (2, 8, 6, None));
    // A column that is missing leaves its field open.
    assert_eq!(
        read("srcaddr dstaddr action\n10.0.0.1 10.0.0.2 ACCEPT\n", FlowFormat::Aws),
        ["src 10.0.0.1 dst 10.0.0.2 proto ? sport ? dport ? type ? code ? flags ? / 0 0"]
    );
    assert_eq!(
        read("srcaddr dstaddr protocol dstport\n::1 ::2 6 80\n::1 ::2 44 80\n", FlowFormat::Aws),
        [
            "src ::1 dst ::2 proto 6 sport ? dport 80 flags ? / 0 0",
            // An extension header of IPv6 is no protocol.
            "src ::1 dst ::2 proto ? sport ? dport ? type ? code ? flags ? / 0 0",
        ]
    );
}

#[test]
fn rows_without_traffic_or_address_are_counted() {
    let text = "2 1 eni-1 - - - - - - - 1 2 - NODATA\n\
                2 1 eni-1 - - - - - - - 1 2 - SKIPDATA\n\
                2 1 eni-1 10.0.0.1 - 1 2 6 1 40 1 2 ACCEPT OK\n\
                \n# a comment\n\
                2 1 eni-1 10.0.0.1 10.0.0.2 1 2 6 1 40 1 2 ACCEPT OK\n";
    let (rows, flows, error) = all(flows(text.as_bytes(), FlowFormat::Aws, FlowOptions::default()));
    let counts = flows.counts();
    assert_eq!((counts.read, counts.without_traffic, counts.without_address, counts.malformed), (4, 2, 1, 0));
    assert_eq!((rows.len(), counts.flows, flows.line(), error), (1, 1, 6, None));
    let none = all(forced(VERSION_2.as_bytes(), FlowFormat::Aws, FlowOptions::default()));
    assert!(none.0.is_empty() && none.2.is_none() && none.1.counts().read == 0);
}

#[test]
fn columns_without_a_header_have_the_order_given() {
    let names = "version,account-id,action,dstaddr,srcaddr,packets,bytes,protocol".split(',');
    let options = || FlowOptions::default().columns(names.clone()).expect("names");
    let text = "5 1 ACCEPT 10.0.0.2 10.0.0.1 7 900 47\n";
    let expected = "src 10.0.0.1 dst 10.0.0.2 proto 47 / 7 900";
    let header = names.clone().collect::<Vec<_>>().join(" ");
    for text in [text.to_owned(), format!("{header}\n{text}")] {
        let (rows, _, error) = all(forced(text.as_bytes(), FlowFormat::Aws, options()));
        assert_eq!((rows, error), (vec![expected.to_owned()], None));
    }
    let text = "client;server;how;seen\n10.0.0.1;10.0.0.2;udp;5\n10.0.0.1;10.0.0.2;ICMP;\n::1;::2;icmp;-\n";
    let own = ["src=client", "dst=server", "proto=how", "packets=seen"];
    let (rows, _, error) =
        all(forced(text.as_bytes(), FlowFormat::Aws, FlowOptions::default().columns(own).expect("parts")));
    let expected = [
        "src 10.0.0.1 dst 10.0.0.2 proto 17 sport ? dport ? / 5 0",
        "src 10.0.0.1 dst 10.0.0.2 proto 1 type ? code ? / 0 0",
        "src ::1 dst ::2 proto 58 type ? code ? / 0 0",
    ];
    assert_eq!((&*rows, error), (&expected.map(str::to_owned)[..], None));
    for (bad, message) in [
        ("source=x", "flows have no source; expected one of src, dst, sport"),
        ("src=", "src needs one column"),
        (" ", "a column without a name"),
    ] {
        let error = FlowOptions::default().columns([bad]).expect_err("no columns").to_string();
        assert!(error.starts_with(message), "{error}");
    }
    assert!(FlowOptions::default().columns(["src=a", "src=b"]).is_err());
}

#[test]
fn faults_are_shown_by_line_and_column() {
    let good = "2 1 eni-1 10.0.0.1 10.0.0.2 1 2 6 1 40 1 2 ACCEPT OK";
    let case = |from: &str, to: &str| format!("{good}\n{}\n{good}\n", good.replacen(from, to, 1));
    let cases = [
        (case("10.0.0.1", "10.0.0.256"), 2, 11, 10, "10.0.0.256 is no address", "an address, as 10.0.0.1"),
        (case("10.0.0.2 1", "10.0.0.2/32 1"), 2, 20, 11, "10.0.0.2/32 is no address", "an address"),
        (case("10.0.0.2 1", "::2 1"), 2, 20, 3, "the two addresses belong to different families", "two of IPv4"),
        (case(" 1 2 6 ", " 65536 2 6 "), 2, 29, 5, "65536 is no port", "a number up to 65535"),
        (case(" 1 2 6 ", " 1 -2 6 "), 2, 31, 2, "-2 is no port", "a number up to 65535"),
        (case(" 6 ", " 256 "), 2, 33, 3, "256 is no protocol", "a number up to 255"),
        (case(" 6 ", " tpc "), 2, 33, 3, "tpc is no known protocol", "its number, or a name"),
        (case(" 40 ", " 4e1 "), 2, 37, 3, "4e1 is no number", "a number, or -"),
        (case(" 40 ", " 18446744073709551616 "), 2, 37, 20, "18446744073709551616 is no number", "a number"),
        (case("OK", "ok"), 2, 51, 2, "ok is no log status", "OK, NODATA or SKIPDATA"),
        (case(" OK", ""), 2, 50, 0, "this line has 13 columns", "14, as the first line has"),
        (case("OK", "OK x"), 2, 53, 2, "this line has 15 columns", "14, as the first line has"),
        (case("eni-1 ", "eni-1  "), 2, 51, 3, "this line has 15 columns", "14"),
        ("srcaddr dstaddr srcaddr\n".to_owned(), 1, 17, 7, "there are two columns srcaddr", "each column once"),
    ];
    for (text, line, column, width, message, expected) in cases {
        let (_, flows, error) = all(flows(text.as_bytes(), FlowFormat::Aws, FlowOptions::default()));
        let error = error.unwrap_or_else(|| panic!("{text}"));
        let fault = error.diagnostic().expect("a line");
        assert_eq!((fault.line, fault.column, fault.width, &*fault.message), (line, column, width, message), "{text}");
        assert!(fault.expected.as_deref().is_some_and(|of| of.starts_with(expected)), "{fault:?}");
        assert_eq!(flows.counts().read, u64::from(line) - 1);
    }
    for (text, message) in [
        ("a b c\n1 2 3\n", "no column has the address src of flows"),
        ("srcaddr protocol\n", "no column has the address dst of flows"),
        ("10.0.0.1 10.0.0.2\n", "this line does not name the columns"),
    ] {
        // A fault of the columns is one of the whole file, also where bad rows are skipped.
        let (_, _, error) = all(forced(text.as_bytes(), FlowFormat::Aws, FlowOptions::default().skip_bad(true)));
        assert!(error.as_ref().is_some_and(|error| error.to_string().contains(message)), "{error:?}");
    }
    let columns = FlowOptions::default().columns(["src=nowhere"]).expect("a part");
    let (_, _, error) = all(forced(VERSION_2.as_bytes(), FlowFormat::Aws, columns));
    assert!(error.is_some_and(|error| error.to_string().contains("there is no column nowhere")));
}

#[test]
fn bad_rows_are_skipped_on_request() {
    let good = "2 1 eni-1 10.0.0.1 10.0.0.2 1 2 6 1 40 1 2 ACCEPT OK\n";
    let long = format!("{}\n", "x".repeat(300_000));
    let text = [good, "2 1 eni-1 10.0.0\n", good, &long, "\u{1}\u{ff}\n", good].concat();
    let (rows, flows, error) = all(flows(text.as_bytes(), FlowFormat::Aws, FlowOptions::default().skip_bad(true)));
    let counts = flows.counts();
    assert_eq!((rows.len(), counts.read, counts.malformed, flows.line(), error), (3, 6, 3, 6, None));
    let first = counts.first_malformed.as_ref().expect("the first fault");
    assert_eq!((first.line, &*first.message), (2, "this line has 4 columns"));
}

#[test]
fn compressed_logs_are_read_and_cut_ones_end_early() {
    let rows: String = (0..5000).map(|n| format!("2 1 eni-1 10.0.0.1 10.0.0.2 {n} 2 6 1 40 1 2 ACCEPT OK\n")).collect();
    let text = format!("{VERSION_2}{rows}");
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
    encoder.write_all(text.as_bytes()).expect("compressed");
    let compressed = encoder.finish().expect("compressed");
    let (whole, _, error) = all(flows(&compressed, FlowFormat::Aws, FlowOptions::default()));
    assert_eq!((whole.len(), error), (5000, None));
    let cut = &compressed[..compressed.len() - 9];
    let (part, flows, error) = all(flows(cut, FlowFormat::Aws, FlowOptions::default()));
    let missing = flows.cut().expect("it is cut");
    assert!(error.is_none() && missing.whole() == part.len() as u64 && part.len() < 5000);
    assert_eq!(part, whole[..part.len()]);
}

#[test]
fn zeek_has_both_directions_and_icmp_in_its_ports() {
    let fields = "ts uid id.orig_h id.orig_p id.resp_h id.resp_p proto service conn_state history orig_pkts orig_ip_bytes \
                  resp_pkts resp_ip_bytes";
    let head = format!(
        "#separator \\x09\n#set_separator\t,\n#empty_field\t(empty)\n#unset_field\t-\n#path\tconn\n#open\t2026-01-01\n\
         #fields\t{}\n#types\ttime\tstring\n",
        fields.replace(' ', "\t")
    );
    let rows = "1.5 C1 10.0.0.1 40000 192.0.2.7 443 tcp ssl SF ShADadFf 10 1400 8 9000\n\
                1.6 C2 10.0.0.1 8 192.0.2.7 0 icmp - OTH - 1 84 1 84\n\
                1.7 C3 10.0.0.1 3 192.0.2.7 4 icmp - OTH - 1 84 - -\n\
                1.8 C4 fe80::1 128 fe80::2 129 icmp - OTH - 2 208 2 208\n\
                1.9 C5 10.0.0.1 1 192.0.2.7 2 unknown_transport - OTH - 1 84 0 0\n\
                2.0 C6 10.0.0.1 50000 192.0.2.7 80 tcp - OTH ^dA 1 84 2 100\n";
    let text = format!("{head}{}#close\t2026-01-02\n", rows.replace(' ', "\t"));
    let there = [
        "src 10.0.0.1 dst 192.0.2.7 proto 6 sport 40000 dport 443 flags 2 / 10 1400",
        "src 10.0.0.1 dst 192.0.2.7 proto 1 type 8 code 0 / 1 84",
        "src 10.0.0.1 dst 192.0.2.7 proto 1 type 3 code 4 / 1 84",
        "src fe80::1 dst fe80::2 proto 58 type 128 code 0 / 2 208",
        "src 10.0.0.1 dst 192.0.2.7 proto ? sport ? dport ? type ? code ? flags ? / 1 84",
        "src 10.0.0.1 dst 192.0.2.7 proto 6 sport 50000 dport 80 flags ? / 1 84",
    ];
    assert_eq!(read(&text, FlowFormat::Zeek), there);
    assert_eq!(read(&format!("{text}{text}"), FlowFormat::Zeek), [there, there].concat());
    let (both, flows, error) = all(flows(text.as_bytes(), FlowFormat::Zeek, FlowOptions::default().both_ways(true)));
    assert_eq!((flows.counts().read, flows.counts().flows, flows.counts().ways_back, error), (6, 6, 4, None));
    let back: Vec<&String> = both.iter().filter(|row| !there.contains(&&***row)).collect();
    assert_eq!(
        back,
        [
            "src 192.0.2.7 dst 10.0.0.1 proto 6 sport 443 dport 40000 flags 18 / 8 9000",
            "src 192.0.2.7 dst 10.0.0.1 proto 1 type 0 code 0 / 1 84",
            "src fe80::2 dst fe80::1 proto 58 type 129 code 0 / 2 208",
            "src 192.0.2.7 dst 10.0.0.1 proto 6 sport 80 dport 50000 flags ? / 2 100",
        ]
    );
    let other = text.replace("#path\tconn", "#path\tdns");
    let (_, _, error) = all(self::flows(other.as_bytes(), FlowFormat::Zeek, FlowOptions::default().skip_bad(true)));
    assert!(error.is_some_and(|error| error.to_string().contains("this is the log dns of Zeek")));
}

#[test]
fn nfdump_of_both_generations() {
    let old = "ts,te,td,sa,da,sp,dp,pr,flg,fwd,stos,ipkt,ibyt,opkt,obyt,in,out\n\
               2026-01-01 00:00:00,2026-01-01 00:00:01,1.000,10.0.0.1,192.0.2.7,40000,443,TCP,....S.,0,0,3,180,0,0,1,2\n\
               2026-01-01 00:00:00,2026-01-01 00:00:01,1.000,10.0.0.1,192.0.2.7,40001,443,TCP,.AP.SF,0,0,9,900,8,7000,1,2\n\
               2026-01-01 00:00:00,2026-01-01 00:00:01,1.000,10.0.0.1,192.0.2.7,0,2048,ICMP,......,0,0,1,84,0,0,1,2\n\
               2026-01-01 00:00:00,2026-01-01 00:00:01,1.000,10.0.0.1,192.0.2.7,0,3.4,ICMP,......,0,0,1,84,0,0,1,2\n\
               2026-01-01 00:00:00,2026-01-01 00:00:01,1.000,fe80::1,ff02::1,0,0,89,......,0,0,1,84,0,0,1,2\n\
               Summary\nflows,bytes,packets,avg_bps,avg_pps,avg_bpp\n5,1,2,3,4,5\n";
    let there = [
        "src 10.0.0.1 dst 192.0.2.7 proto 6 sport 40000 dport 443 flags 2 / 3 180",
        "src 10.0.0.1 dst 192.0.2.7 proto 6 sport 40001 dport 443 flags ? / 9 900",
        "src 10.0.0.1 dst 192.0.2.7 proto 1 type 8 code 0 / 1 84",
        "src 10.0.0.1 dst 192.0.2.7 proto 1 type 3 code 4 / 1 84",
        "src fe80::1 dst ff02::1 proto 89 / 1 84",
    ];
    assert_eq!(read(old, FlowFormat::Nfdump), there);
    assert_eq!(read(&format!("{old}{old}"), FlowFormat::Nfdump), [there, there].concat());
    let (both, ..) = all(flows(old.as_bytes(), FlowFormat::Nfdump, FlowOptions::default().both_ways(true)));
    assert_eq!(
        (both.len(), &*both[2]),
        (6, "src 192.0.2.7 dst 10.0.0.1 proto 6 sport 443 dport 40001 flags ? / 8 7000")
    );
    let new = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,bps,bpp,flows\n\
               2026-01-01 00:00:00.000,1.000,UDP,10.0.0.1,5353,224.0.0.251,5353,2,180,9,9,1\n";
    assert_eq!(read(new, FlowFormat::Nfdump), ["src 10.0.0.1 dst 224.0.0.251 proto 17 sport 5353 dport 5353 / 2 180"]);
    // The columns that a format of the user's has, without the destination port.
    let own = "srcAddr,dstAddr,proto,icmpTYpe,icmpCode,inPackets,inBytes,outPackets,outBytes\n\
               10.0.0.1,10.0.0.2,ICMP,3,1,2,200,0,0\n10.0.0.1,10.0.0.2,EIGRP,0,0,2,200,0,0\n\
               ::1,::2,IPIP,0,0,2,200,0,0\n";
    let rows = [
        "src 10.0.0.1 dst 10.0.0.2 proto 1 type 3 code 1 / 2 200",
        "src 10.0.0.1 dst 10.0.0.2 proto 88 / 2 200",
        "src ::1 dst ::2 proto ? sport ? dport ? type ? code ? flags ? / 2 200",
    ];
    assert_eq!(read(own, FlowFormat::Nfdump), rows);
    for flags in ["...AX.", "AP.SF?", "256", "0x1ff", "x"] {
        let (_, _, error) =
            all(flows(old.replace("....S.", flags).as_bytes(), FlowFormat::Nfdump, FlowOptions::default()));
        assert!(error.is_some_and(|error| error.to_string().contains(&format!("{flags} is no TCP flags"))), "{flags}");
    }
}

#[test]
fn traces_and_tables_are_no_flow_logs() {
    for text in ["1 2 3 4 6 1\n", "2 123456789012 1 2 6 1\n", "2 10.0.0.1 3 4 6 1\n", "src,dst,sport,dport,proto\n"] {
        assert!(!matches!(open(text.as_bytes()), Ok(Input::Flows(_))), "{text}");
    }
    let error = open(VERSION_2.as_bytes()).and_then(Input::into_table).expect_err("a flow log").to_string();
    assert!(error.contains("this is a flow log of AWS; expected a table"), "{error}");
    let table = open(VERSION_2.as_bytes()).and_then(|input| input.with_format(InputFormat::Table));
    assert!(matches!(table, Ok(Input::Table(_))));
    assert!(open(VERSION_2.as_bytes()).and_then(|input| input.with_format(InputFormat::Capture)).is_err());
}

/// A field that rules test and a row lacks makes it unknown, whatever other rules say.
#[test]
fn fields_that_a_log_lacks_are_unknown_and_counted() {
    let text = "2 1 eni-1 10.0.0.1 10.0.0.2 1 22 6 1 40 1 2 ACCEPT OK\n\
                2 1 eni-1 10.0.0.1 10.0.0.2 0 0 1 1 40 1 2 ACCEPT OK\n\
                2 1 eni-1 ::1 ::2 1 22 17 1 40 1 2 ACCEPT OK\n";
    for (rules, outcomes, unknown) in [
        ("deny tcp dport 22\npermit\n", [Outcome::Complete, Outcome::NoPorts, Outcome::Complete], vec![]),
        (
            "permit icmp icmp_type echo-request\npermit tcp\n",
            [Outcome::Complete, Outcome::LacksField, Outcome::Complete],
            vec![("icmp_type", 1)],
        ),
        (
            "permit tcp tcp_flags syn\npermit family ipv4 vlan_vid 7\n",
            [Outcome::LacksField, Outcome::LacksField, Outcome::Complete],
            vec![("tcp_flags", 1), ("vlan_vid", 2)],
        ),
        ("permit fragment none\n", [Outcome::LacksField; 3], vec![("fragment", 3)]),
        ("family ipv6\npermit\n", [Outcome::OtherFamily, Outcome::OtherFamily, Outcome::Complete], vec![]),
    ] {
        let file = firstmatch_formats::parse(rules, &Options::default()).expect("rules");
        let mut batch = Batch::for_rules(&Config::default(), &file.rules).expect("headers fill the fields");
        let mut flows = flows(text.as_bytes(), FlowFormat::Aws, FlowOptions::default());
        flows.count_unknown_in(&batch);
        while let Some(flow) = flows.next().expect("good rows") {
            batch.push_headers(flow.headers, 0);
        }
        let found: Vec<Outcome> = batch.records().iter().map(|record| record.outcome).collect();
        assert_eq!(found, outcomes, "{rules}");
        let fields: Vec<_> = flows.counts().unknown_fields().map(|(source, count)| (source.name(), count)).collect();
        assert_eq!(fields, unknown, "{rules}");
    }
}
