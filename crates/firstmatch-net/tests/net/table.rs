//! Tables of header fields: columns in any order, and every fault in its place.

use std::io::{Cursor, Write};

use firstmatch_core::rule::{FieldValues, first_match};
use firstmatch_core::schema::{Family, Field, Kind, Source};
use firstmatch_core::{KeyBuf, Schema};
use firstmatch_formats::Options;
use firstmatch_net::source::{
    BYTES_COLUMNS, Input, Limits, NEXT_HEADER_COLUMN, Rows, SourceError, from_reader, header_columns,
};
use firstmatch_net::wire::{Batch, Config, Extractor, LinkType, Outcome, parse};
use firstmatch_testkit::rng::Rng;

fn open(content: &[u8]) -> Result<Input, SourceError> {
    from_reader("test", Box::new(Cursor::new(content.to_vec())), &Limits::default())
}

fn rows(content: &[u8], schemas: &[Schema]) -> Result<Rows, SourceError> {
    open(content)?.into_table()?.into_rows(schemas)
}

type All = Vec<(usize, Vec<Option<u128>>, u32)>;

fn read(content: &[u8], schemas: &[Schema]) -> Result<All, SourceError> {
    let mut rows = rows(content, schemas)?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        assert_eq!(row.values.family, schemas[row.schema].family());
        all.push((row.schema, row.values.values.clone(), row.bytes));
    }
    assert_eq!(rows.rows(), all.len() as u64);
    Ok(all)
}

fn dual() -> [Schema; 2] {
    [Family::Ipv4, Family::Ipv6].map(|family| Schema::five_tuple(family, &[Source::IcmpType]))
}

#[test]
fn columns_are_found_by_name_and_addresses_tell_the_family() {
    let text = "# a comment, then blanks\n\n\
        bytes, proto ,dst,src,\"sport\",dport,icmp_type\r\n\
        1500,tcp,192.0.2.80,10.0.0.1,40000,443,\r\n\
        # another\n\
        ,icmp,\" 10.0.0.2 \",10.0.0.1,,,echo-request\n\
        84,58,2001:db8::1,fe80::1,,,echo-request\n\
        0,0x11,::ffff:1.2.3.4,::,0x35,53,\n\
        9,17,0.0.0.0,255.255.255.255,1,2,";
    let v4 = |src: u32, dst: u32, rest: [Option<u128>; 4]| {
        [[Some(src.into()), Some(dst.into())].to_vec(), rest.to_vec()].concat()
    };
    let v6 = |src: u128, dst: u128, rest: [Option<u128>; 4]| [[Some(src), Some(dst)].to_vec(), rest.to_vec()].concat();
    let expected = vec![
        (0, v4(0x0a00_0001, 0xc000_0250, [Some(40000), Some(443), Some(6), None]), 1500),
        (0, v4(0x0a00_0001, 0x0a00_0002, [None, None, Some(1), Some(8)]), 0),
        (1, v6(0xfe80 << 112 | 1, 0x2001_0db8 << 96 | 1, [None, None, Some(58), Some(128)]), 84),
        (1, v6(0, 0xffff_0102_0304, [Some(53), Some(53), Some(17), None]), 0),
        (0, v4(u32::MAX, 0, [Some(1), Some(2), Some(17), None]), 9),
    ];
    let mut zipped = zstd::Encoder::new(Vec::new(), 1).expect("zstd");
    zipped.write_all(text.as_bytes()).expect("compressed");
    let marked = format!("\u{feff}{}", &text[text.find("bytes").expect("a header")..]);
    for content in [text.as_bytes(), &zipped.finish().expect("compressed"), marked.as_bytes()] {
        assert_eq!(read(content, &dual()).expect("a table"), expected);
    }
}

#[test]
fn a_row_is_what_the_oracle_and_a_batch_take() {
    let file = "schema {\ntenant 24 exact\nport 16 range from dport optional\nmac 48 exact\n}\n\
                deny tenant 7 port 22\npermit mac 02:00:00:00:00:00/24\n";
    let file = firstmatch_formats::parse(file, &Options::default()).expect("rules");
    let schemas = file.rules.schemas();
    assert!(Batch::new(&Config::default(), schemas).is_err(), "nothing fills the tenant");
    let text = "mac,tenant,port\n02:00:00:00:00:09,7,22\n02:00:00:00:00:09,7,\n03:00:00:00:00:00,0xffffff,65535\n";
    let mut rows = rows(text.as_bytes(), schemas).expect("a table");
    let mut batch = Batch::of_values(schemas);
    let mut keys = KeyBuf::new(&schemas[0]);
    let (mut lines, mut outcomes) = (Vec::new(), Vec::new());
    while let Some(row) = rows.next().expect("good") {
        outcomes.push(batch.push_values(row.values, row.bytes));
        keys.push_values(row.values);
        lines.push(first_match(&file.rules, row.values).and_then(|rule| rule.line).map(u32::from));
    }
    assert_eq!(lines, [Some(6), Some(7), None]);
    assert_eq!(outcomes, [Outcome::Complete, Outcome::NoPorts, Outcome::Complete]);
    assert_eq!(batch.keys(0).words(), keys.keys().words());
    assert_eq!(batch.packets(0), [0, 1, 2]);
    // A packet has no place in such a batch.
    let headers = parse(
        &Config::default(),
        LinkType::Raw,
        &firstmatch_testkit::frames::ipv4(17, 0, &[], &firstmatch_testkit::frames::udp()),
    );
    assert_eq!(batch.push_headers(&headers, 9), Outcome::LacksField);
    assert_eq!((batch.len(), batch.keys(0).len(), batch.values(&headers)), (4, 3, None));
    assert!(Extractor::of_values(&schemas[0]).needed().is_empty());
}

#[test]
fn faults_are_shown_by_line_and_column() {
    let schema = Schema::new(
        None,
        vec![
            Field::new("in_port", 32, Kind::Exact, Some(Source::InPort)),
            Field::new("eth_type", 16, Kind::Exact, Some(Source::EthType)).optional(),
        ],
    );
    let schemas = [schema];
    let good = "in_port,eth_type,bytes\n1,arp,60\n";
    for (text, line, column, width, message) in [
        ("in_port,ether\n", 1, 9, 5, "there is no field ether"),
        ("in_port,,eth_type\n", 1, 9, 0, "a column without a name"),
        ("in_port,eth_type,in_port\n", 1, 18, 7, "there are two columns in_port"),
        ("in_port,bytes \n", 1, 14, 0, "the column eth_type is missing"),
        ("in_port,\"eth_type\n", 1, 9, 9, "a quote without its end"),
        ("1,arp,60,4 \n", 3, 9, 2, "this line has 4 columns"),
        ("1,arp\n", 3, 6, 0, "this line has 2 columns"),
        ("x\n", 3, 2, 0, "this line has 1 columns"),
        (",arp,60\n", 3, 1, 0, "in_port is never absent"),
        ("1, arpp ,60\n", 3, 4, 4, "unknown name `arpp`; did you mean `arp`?"),
        ("1,65536,60\n", 3, 3, 5, "65536 is too large for eth_type"),
        ("1,tcp,60\n", 3, 3, 3, "eth_type takes no protocol"),
        ("1-2,,60\n", 3, 1, 3, "more than one value"),
        ("1 2,,60\n", 3, 1, 3, "`2` after a value"),
        ("$a,,60\n", 3, 1, 2, "`$a` where a value should be"),
        ("é,,60\n", 3, 1, 1, "the character `é` where a value should be"),
        ("1,,6O\n", 3, 4, 2, "6O is no number of bytes"),
        ("1,,4294967296\n", 3, 4, 10, "4294967296 is no number of bytes"),
        ("1,\"arp,60\n", 3, 3, 7, "a quote without its end"),
    ] {
        let content = if line == 1 { text.to_owned() } else { format!("{good}{text}{good}") };
        let error = read(content.as_bytes(), &schemas).expect_err(text);
        let shown = error.diagnostic().unwrap_or_else(|| panic!("{error}"));
        assert_eq!((shown.line, shown.column, shown.width), (line, column, width), "{shown}");
        assert_eq!(shown.message, message);
        assert!(shown.expected.as_ref().is_some_and(|expected| !expected.is_empty()), "{shown}");
        assert_eq!(shown.text, text.trim_end_matches('\n'));
    }
    let error = read(b"in_port,eth_type\n1,\xff\n", &schemas).expect_err("not UTF-8");
    assert!(error.to_string().contains("UTF-8"), "{error}");
    // After an error nothing more comes.
    let mut rows = rows(b"in_port,eth_type\nx,\n1,\n", &schemas).expect("a header");
    assert!(rows.next().is_err() && rows.next() == Ok(None));
    // The two addresses are of different families.
    let error = read(b"src,dst,sport,dport,proto,icmp_type\n10.0.0.1,::1,1,2,6,\n", &dual()).expect_err("two families");
    let shown = error.diagnostic().expect("a place");
    assert_eq!((shown.column, shown.message.as_str()), (10, "dst takes no IPv6 address"));
    assert_eq!(shown.expected.as_deref(), Some("an IPv4 address"));
    let error = read(b"src,dst,sport,dport,proto,icmp_type\n10.0.0.1,10.0.0.1,,,1,packet-too-big\n", &dual());
    assert!(error.expect_err("no such type").to_string().contains("does not exist in IPv4"));
}

#[test]
fn the_first_line_tells_tables_from_traces() {
    let is_table = |text: &str| matches!(open(text.as_bytes()), Ok(Input::Table(_)));
    for text in ["src,dst\n", "src", "# x\n\nsrc , dst\n", "\"src\",dst\n", "\u{feff}a_b-c,1\n"] {
        assert!(is_table(text), "{text}");
    }
    for text in
        ["1 2 3 4 5 6\n", "10.0.0.1,1\n", "::1 ::2 3\n", "permit tcp dport { 80, 443 }\n", "@1.2.3.4/5\n", "#\n"]
    {
        assert!(!is_table(text), "{text}");
    }
    let error = open(b"src,dst\n").and_then(Input::into_capture).expect_err("a table").to_string();
    assert_eq!(error, "test: this is a table of header fields; expected a capture (pcap or pcapng)");
    assert!(open(b"src,dst\n").and_then(Input::into_trace).is_err());
    let error = open(b"1 2 3\n").and_then(Input::into_table).expect_err("a trace").to_string();
    assert!(error.contains("starts with \"1 2 3\""), "{error}");
}

/// A listed column stands for the field that it fills, and is passed over where the schema has none.
#[test]
fn tables_know_the_columns_that_are_listed() {
    let mut filled = 0;
    for schema in [Schema::ipv4(), Schema::openflow()] {
        for (at, (column, sources)) in header_columns().iter().enumerate() {
            assert!(header_columns()[..at].iter().all(|(other, _)| other != column), "{column} twice");
            let of = |source: &Source| schema.fields().iter().find(|field| field.source() == Some(*source));
            let field = sources.iter().find_map(of).map(Field::name);
            let others = schema.fields().iter().map(Field::name).filter(|&name| Some(name) != field);
            let others = others.collect::<Vec<_>>().join(",");
            let with = |last: &str| read(format!("{others},{last}\n").as_bytes(), std::slice::from_ref(&schema));
            assert_eq!(with(column), Ok(Vec::new()), "{column}");
            if let Some(field) = field {
                filled += 1;
                let missing = format!("the column {field} is missing");
                assert!(with("frame.number").is_err_and(|error| error.to_string().contains(&missing)), "{column}");
            }
        }
    }
    assert!(filled > header_columns().len() && header_columns().iter().any(|(name, _)| *name == NEXT_HEADER_COLUMN));
    for name in BYTES_COLUMNS {
        let table = format!("src,dst,sport,dport,proto,{name}\n10.0.0.1,10.0.0.2,1,2,6,99\n");
        assert_eq!(read(table.as_bytes(), &[Schema::ipv4()]).expect(name)[0].2, 99);
    }
}

/// tshark names a field after the protocol, so that several columns may be one of ours.
#[test]
fn tables_of_tshark_are_read() {
    let head = "frame.number\tip.src\tipv6.src\tip.dst\tipv6.dst\tip.proto\tipv6.nxt\ttcp.srcport\tudp.srcport\t\
                tcp.dstport\tudp.dstport\ticmp.type\tframe.len\ttcp.flags\tframe.time\n";
    let text = format!(
        "{head}1\t10.0.0.1\t\t10.0.0.2\t\t6\t\t40000\t\t443\t\t\t74\t0x0002\tNov 28, 2026\n\
         2\t\t2001:db8::1\t\t::1\t\t17\t\t53\t\t54\t\t90\t\t\n\
         3\t10.0.0.1\t\t10.0.0.3\t\t1\t\t\t\t\t\t8\t98\t\t\n"
    );
    let all = read(text.as_bytes(), &dual()).expect("a table");
    let [tcp, udp, icmp] = &all[..] else { panic!("{all:?}") };
    assert_eq!((tcp.0, &tcp.1[2..], tcp.2), (0, &[Some(40000), Some(443), Some(6), None][..], 74));
    assert_eq!((udp.0, &udp.1[1..], udp.2), (1, &[Some(1), Some(53), Some(54), Some(17), None][..], 90));
    assert_eq!((icmp.0, &icmp.1[2..], icmp.2), (0, &[None, None, Some(1), Some(8)][..], 98));
    let fault = |row: &str| {
        let error = read(format!("{head}{row}\n").as_bytes(), &dual()).expect_err(row);
        let shown = error.diagnostic().unwrap_or_else(|| panic!("{error}")).clone();
        (shown.column, shown.message)
    };
    let both = "4\t1.1.1.1\t\t1.1.1.2\t\t17\t\t5\t4789\t6\t4789\t\t9\t\t";
    assert_eq!(fault(both), (27, "a second value of sport".to_owned()));
    let extended = "5\t\t::1\t\t::2\t\t0\t\t\t\t\t\t9\t\t";
    assert_eq!(fault(extended), (14, "0 is an extension header, behind which the protocol is".to_owned()));
    let twice = "6\t1.1.1.1,2.2.2.2\t\t1.1.1.2\t\t4\t\t\t\t\t\t\t9\t\t";
    assert_eq!(fault(twice).0, 3);
    let nobody = "7\t\t\t\t\t\t\t\t\t\t\t\t60\t\t";
    assert_eq!(fault(nobody), (3, "src is never absent".to_owned()));
}

#[test]
fn cells_are_between_commas_semicolons_or_tabs_and_in_quotes() {
    let names = ["src", "dst", "sport", "dport", "proto"];
    let cells = ["10.0.0.1", " \"10.0.0.2\" ", "\"1\"", " 2", "tcp"];
    let expected = read(b"src,dst,sport,dport,proto\n10.0.0.1,10.0.0.2,1,2,6\n", &[Schema::ipv4()]).expect("a table");
    for separator in [",", ";", "\t"] {
        for end in ["\n", "\r\n", ""] {
            let text = format!("{}\n{}{end}", names.join(separator), cells.join(separator));
            assert_eq!(read(text.as_bytes(), &[Schema::ipv4()]).expect(&text), expected);
        }
    }
    // A column that no rule tests may hold anything between quotes.
    let text = "src;dst;sport;dport;proto;a.b\n10.0.0.1;10.0.0.2;1;2;6;\"a;\"\"b\"\"\"\n";
    assert_eq!(read(text.as_bytes(), &[Schema::ipv4()]).expect("a table"), expected);
    let error = read(b"src,dst,sport,dport,proto,vlan_vid,name\n", &[Schema::ipv4()]).expect_err("no field");
    assert!(error.to_string().contains("there is no field name") && error.to_string().contains("tshark"), "{error}");
    // Nothing behind a carriage return is lost.
    let error = read(b"src,dst,sport,dport,proto\n1.1.1.1,2.2.2.2,1,2,6\r,7\n", &[Schema::ipv4()]).expect_err("six");
    assert!(error.to_string().contains("6 columns"), "{error}");
}

#[test]
fn a_cut_stream_gives_every_whole_row() {
    let text = format!("src,dst,sport,dport,proto\n{}", "1.2.3.4,5.6.7.8,1,2,6\n".repeat(5000));
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(text.as_bytes()).expect("compressed");
    let mut file = encoder.finish().expect("compressed");
    file.truncate(file.len() - 20);
    let mut rows = rows(&file, &[Schema::ipv4()]).expect("a table");
    let mut count = 0;
    while let Some(row) = rows.next().expect("whole rows") {
        assert_eq!(row.values.values[4], Some(6));
        count += 1;
    }
    let cut = rows.cut().expect("it is cut");
    assert!(count > 0 && cut.whole() == count, "{count} {cut}");
}

#[test]
fn garbage_never_panics_and_what_is_read_fits() {
    const PARTS: [&str; 26] = [
        ";",
        "\t",
        "ipv6.src",
        "udp.srcport",
        "src",
        "dst",
        "sport",
        "dport",
        "proto",
        "icmp_type",
        "bytes",
        ",",
        ",",
        ",",
        "\n",
        "\n",
        "\"",
        " ",
        "10.0.0.1",
        "::1",
        "6",
        "tcp",
        "echo-reply",
        "-1",
        "é",
        "65536",
    ];
    let mut rng = Rng::new(41);
    let schemas = dual();
    let mut good = 0;
    for round in 0..20_000 {
        let mut text = String::new();
        if round % 2 == 0 {
            text.push_str("src,dst,sport,dport,proto,icmp_type,bytes\n");
            for _ in 0..rng.below(3) {
                let address = |rng: &mut Rng| rng.any_of(&["10.0.0.1", "10.0.0.1", "::1"]);
                let (src, dst) = (address(&mut rng), address(&mut rng));
                let rest = [0; 5].map(|_: i32| rng.any_of(&["", "1", "6", "0xff"]));
                text.push_str(&format!("{src},{dst},{}\n", rest.join(",")));
            }
        }
        for _ in 0..rng.below(20) {
            text.push_str(rng.any_of(&PARTS));
        }
        let mut bytes = text.into_bytes();
        if rng.one_in(3) && !bytes.is_empty() {
            let at = rng.below(bytes.len());
            bytes[at] = rng.next() as u8;
        }
        let Ok(Input::Table(table)) = open(&bytes) else { continue };
        let Ok(mut rows) = table.into_rows(&schemas) else { continue };
        let mut batch = Batch::of_values(&schemas);
        while let Ok(Some(row)) = rows.next() {
            let values: FieldValues = row.values.clone();
            batch.push_values(&values, row.bytes);
            good += 1;
        }
    }
    assert!(good > 1_000, "{good}");
}
