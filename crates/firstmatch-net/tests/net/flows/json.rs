//! Flow logs in JSON.

use std::io::Cursor;

use firstmatch_net::source::{FlowFormat, FlowOptions, Input, InputFormat, Limits, from_reader};

use super::{all, flows, forced, read};

const EVE: &str = r#"{"timestamp":"2026-01-01T00:00:00.000000+0000","flow_id":1,"event_type":"flow","src_ip":"10.0.0.1","src_port":40000,"dest_ip":"192.0.2.7","dest_port":443,"proto":"TCP","app_proto":"tls","flow":{"pkts_toserver":10,"pkts_toclient":8,"bytes_toserver":1400,"bytes_toclient":9000,"start":"2026-01-01T00:00:00.000000+0000","state":"closed"},"tcp":{"tcp_flags":"1b","tcp_flags_ts":"1b","tcp_flags_tc":"1b","syn":true,"state":"closed"}}
{"event_type":"dns","src_ip":"10.0.0.1","dns":{"id":5}}
{"event_type":"flow","src_ip":"10.0.0.1","dest_ip":"192.0.2.7","proto":"ICMP","icmp_type":8,"icmp_code":0,"flow":{"pkts_toserver":1,"pkts_toclient":1,"bytes_toserver":98,"bytes_toclient":98}}
{"proto":"IPv6-ICMP","event_type":"flow","src_ip":"fe80::1","dest_ip":"ff02::2","icmp_type":133,"icmp_code":0,"flow":{"pkts_toserver":2,"pkts_toclient":0,"bytes_toserver":140,"bytes_toclient":0}}
{"event_type":"flow","src_ip":"10.0.0.1","src_port":1,"dest_ip":"192.0.2.7","dest_port":2,"proto":"TCP","flow":{"pkts_toserver":1,"pkts_toclient":1},"tcp":{"tcp_flags":"12","tcp_flags_ts":"10","tcp_flags_tc":"12"}}
{"event_type":"stats"}
{"event_type":"flow","src_ip":null,"dest_ip":"192.0.2.7","proto":"047","flow":{}}
{"event_type":"flow","src_ip":"10.0.0.1","dest_ip":"192.0.2.7","proto":"047","flow":{}}
"#;

#[test]
fn suricata_has_flows_among_other_events() {
    let there = [
        "src 10.0.0.1 dst 192.0.2.7 proto 6 sport 40000 dport 443 flags 2 / 10 1400",
        "src 10.0.0.1 dst 192.0.2.7 proto 1 type 8 code 0 / 1 98",
        "src fe80::1 dst ff02::2 proto 58 type 133 code 0 / 2 140",
        "src 10.0.0.1 dst 192.0.2.7 proto 6 sport 1 dport 2 flags ? / 1 0",
        "src 10.0.0.1 dst 192.0.2.7 proto 47 / 0 0",
    ];
    let (rows, read, error) = all(flows(EVE.as_bytes(), FlowFormat::Suricata, FlowOptions::default()));
    assert_eq!((&*rows, error), (&there.map(str::to_owned)[..], None));
    assert_eq!((read.counts().read, read.counts().without_address), (6, 1));
    let (both, ..) = all(flows(EVE.as_bytes(), FlowFormat::Suricata, FlowOptions::default().both_ways(true)));
    let back: Vec<&String> = both.iter().filter(|row| !there.contains(&&***row)).collect();
    assert_eq!(
        back,
        [
            "src 192.0.2.7 dst 10.0.0.1 proto 6 sport 443 dport 40000 flags 18 / 8 9000",
            "src 192.0.2.7 dst 10.0.0.1 proto 1 type 0 code 0 / 1 98",
            "src 192.0.2.7 dst 10.0.0.1 proto 6 sport 2 dport 1 flags 18 / 1 0",
        ]
    );
    let named = FlowOptions::default().columns(["dst=tls.server", "dport=tls.port"]).expect("parts");
    let text = "{\"event_type\":\"flow\",\"src_ip\":\"::1\",\"dest_ip\":\"x\",\"proto\":\"UDP\",\"tls\":{\"server\":\"::2\",\"port\":7}}\n";
    let (rows, _, error) = all(flows(text.as_bytes(), FlowFormat::Suricata, named));
    assert_eq!((rows, error), (vec!["src ::1 dst ::2 proto 17 sport ? dport 7 / 0 0".to_owned()], None));
}

#[test]
fn zeek_in_json() {
    let text = r#"{"_path":"conn","ts":1.5,"uid":"C1","id.orig_h":"10.0.0.1","id.orig_p":40000,"id.resp_h":"192.0.2.7","id.resp_p":443,"proto":"tcp","history":"ShADadFf","orig_pkts":10,"orig_ip_bytes":1400,"resp_pkts":8,"resp_ip_bytes":9000}
{"_path":"dns","id.orig_h":"10.0.0.1","id.resp_h":"192.0.2.53"}
{"ts":1.6,"id.orig_h":"fe80::1","id.orig_p":128,"id.resp_h":"fe80::2","id.resp_p":129,"proto":"icmp","orig_pkts":1,"orig_ip_bytes":104}
"#;
    let expected = [
        "src 10.0.0.1 dst 192.0.2.7 proto 6 sport 40000 dport 443 flags 2 / 10 1400",
        "src fe80::1 dst fe80::2 proto 58 type 128 code 0 / 1 104",
    ];
    assert_eq!(read(text, FlowFormat::Zeek), expected);
}

#[test]
fn azure_has_tuples_in_records() {
    // Network security groups, version 2: the example of their documentation, and version 1.
    let group = r#"{"records":[{"time":"2018-11-13T12:00:35.3899262Z","category":"NetworkSecurityGroupFlowEvent","properties":{"Version":2,"flows":[{"rule":"DefaultRule_DenyAllInBound","flows":[{"mac":"000D3AF87856","flowTuples":["1542110402,94.102.49.190,10.5.16.4,28746,443,U,I,D,B,,,,","1542110424,10.5.16.4,13.67.143.118,59831,443,T,O,A,B,,,,"]}]},{"rule":"x","flows":[{"mac":"1","flowTuples":["1542110437,10.5.16.4,13.67.143.118,59831,443,T,O,A,E,25,4591,25,5591"]}]}]}},
{"properties":{"flows":[]}},
{"properties":{"Version":1,"flows":[{"flows":[{"flowTuples":["1487282492,185.170.185.105,10.2.0.4,35370,23,T,I,D"]}]}]}}]}"#;
    let expected = [
        "src 94.102.49.190 dst 10.5.16.4 proto 17 sport 28746 dport 443 / 0 0",
        "src 10.5.16.4 dst 13.67.143.118 proto 6 sport 59831 dport 443 flags 2 / 0 0",
        "src 10.5.16.4 dst 13.67.143.118 proto 6 sport 59831 dport 443 flags 2 / 25 4591 goes on",
        "src 185.170.185.105 dst 10.2.0.4 proto 6 sport 35370 dport 23 flags 2 / 0 0",
    ];
    let back = "src 13.67.143.118 dst 10.5.16.4 proto 6 sport 443 dport 59831 flags ? / 25 5591 goes on";
    let spread = group.replace('{', "{\n").replace(',', ", ").replace("\", \"", "\",\n\"");
    // The tuples themselves have no blanks.
    let spread =
        spread
            .lines()
            .map(|line| {
                if line.contains("15421") || line.contains("14872") { line.replace(", ", ",") } else { line.to_owned() }
            })
            .collect::<Vec<_>>()
            .join("\r\n");
    for text in [group, &spread, &format!("{group}\n{group}")] {
        let count = text.matches("\"records\"").count();
        let (rows, read, error) = all(flows(text.as_bytes(), FlowFormat::Azure, FlowOptions::default()));
        assert_eq!((rows, error), (vec![expected; count].concat().into_iter().map(str::to_owned).collect(), None));
        assert_eq!((read.counts().flows, read.counts().continued), (3 * count as u64, count as u64));
        let (rows, ..) = all(flows(text.as_bytes(), FlowFormat::Azure, FlowOptions::default().both_ways(true)));
        assert_eq!((rows.len(), &*rows[3]), (5 * count, back));
    }
    // Virtual networks.
    let network = r#"{"records":[{"time":"2022-09-14T09:00:52.5625085Z","flowLogVersion":4,"flowRecords":{"flows":[{"aclID":"0","flowGroups":[{"rule":"x","flowTuples":["1663146003599,10.0.0.6,192.0.2.180,23956,443,6,O,B,NX,0,0,0,0","1663146003606,10.0.0.6,192.0.2.180,23956,443,6,O,E,NX,3,767,2,1580","1663146003637,203.0.113.17,10.0.0.6,22730,443,6,I,D,NX,0,0,0,0","1663146004251,::1,::2,0,0,58,I,B,NX,5,6,7,8"]}]}]}}]}"#;
    assert_eq!(
        all(flows(network.as_bytes(), FlowFormat::Azure, FlowOptions::default())).0,
        [
            "src 10.0.0.6 dst 192.0.2.180 proto 6 sport 23956 dport 443 flags 2 / 0 0",
            "src 10.0.0.6 dst 192.0.2.180 proto 6 sport 23956 dport 443 flags 2 / 3 767 goes on",
            "src 203.0.113.17 dst 10.0.0.6 proto 6 sport 22730 dport 443 flags 2 / 0 0",
            "src ::1 dst ::2 proto 58 type ? code ? / 5 6",
        ]
    );
    for (tuple, message) in [
        ("1,10.0.0.1,10.0.0.2,1,2,T,I,D,B,,,", "this flow has 12 parts"),
        ("1,10.0.0.1,10.0.0.2,1,2,T,I,D,X,,,,", "X is no state of a flow"),
        ("1,10.0.0.1,10.0.0.2,1,2,X,I,D,B,,,,", "X is no known protocol"),
        ("1,10.0.0.1,::2,1,2,T,I,D,B,,,,", "the two addresses belong to different families"),
        ("1,10.0.0.1,10.0.0.2,1,2,6,O,A,NX,0,0,0,0", "A is no state of a flow"),
    ] {
        let text = network.replace("1663146003599,10.0.0.6,192.0.2.180,23956,443,6,O,B,NX,0,0,0,0", tuple);
        let (rows, _, error) = all(flows(text.as_bytes(), FlowFormat::Azure, FlowOptions::default()));
        assert!(rows.is_empty() && error.is_some_and(|error| error.to_string().contains(message)), "{message}");
        let (rows, read, error) = all(flows(text.as_bytes(), FlowFormat::Azure, FlowOptions::default().skip_bad(true)));
        assert_eq!((rows.len(), read.counts().malformed, error), (3, 1, None), "{message}");
    }
}

#[test]
fn gcp_has_entries_in_lines_or_in_an_array() {
    let entry = |src: &str, rest: &str| {
        format!(
            "{{\"insertId\": \"a[}}{{\\\"\", \"jsonPayload\": {{\"bytes_sent\": \"756\", \"connection\": {{\"dest_ip\": \"10.0.0.9\", \
             \"dest_port\": 443, \"protocol\": 6, \"src_ip\": \"{src}\", \"src_port\": 36000}}, \"packets_sent\": \"5\", \
             \"reporter\": \"SRC\"}}{rest}}}"
        )
    };
    let entries = ["10.0.0.1", "10.0.0.2", "10.0.0.3"].map(|src| entry(src, ""));
    let expected = ["10.0.0.1", "10.0.0.2", "10.0.0.3"]
        .map(|src| format!("src {src} dst 10.0.0.9 proto 6 sport 36000 dport 443 flags ? / 5 756"));
    let plain = entries.join("\n").replace("\"jsonPayload\": {", "").replace("\"SRC\"}", "\"SRC\"");
    for text in [
        entries.join("\n"),
        format!("[{}]", entries.join(",")),
        format!("[\n{}\n]\n", entries.join(",\n").replace(", ", ",\n  ").replace("{\"", "{\n\"")),
        format!("\u{feff} {}\n[{}]", entries[0], entries[1..].join(" , ")),
        plain,
        "[]".to_owned(),
    ] {
        let count = text.matches("connection").count();
        let (rows, _, error) = all(forced(text.as_bytes(), FlowFormat::Gcp, FlowOptions::default()));
        assert_eq!((rows, error), (expected[..count].to_vec(), None), "{text}");
    }
    for (text, line, message) in [
        (format!("[{}", entries[0]), 1, "the text ends too early"),
        (format!("[{}\n{}]", entries[0], entries[1]), 2, "this is no JSON object"),
        (format!("[\n{},\n7]", entries[0]), 3, "this is no JSON object"),
        (format!("[\n{},\n{{\"a\": {{\"b\": \"}}\"}}", entries[0]), 3, "this object has no end"),
        (format!("[{}]", entries[0].replace("36000", "3600x")), 1, "this is no JSON of a flow"),
        (format!("{}\n[1]", entries[0].replace(", ", ",\n")), 10, "this is no JSON"),
        (format!("[\n{}]", entry("10.0.0.256", "").replace(", ", ",\n")), 7, "10.0.0.256 is no address"),
        (format!("{}\n{}\n", entries[0], entry("x", "")), 2, "x is no address"),
        (format!("{}\n{}\n", entries[0], entry("::1", "")), 2, "different families"),
        (format!("{}\n{} x\n", entries[0], entries[1]), 2, "this is no JSON of a flow: trailing characters"),
        (format!("{}\n{}\n", entries[0], &entries[1][1..]), 2, "this is no JSON"),
        (
            format!("{}\n{}\n", entries[0], entries[1].replace("\"dest_port\"", "\"src_port\"")),
            2,
            "src_port stands twice",
        ),
        (
            format!(
                "{}\n{}\n",
                entries[0],
                entries[1].replace("{\"dest_ip\": \"10.0.0.9\"", "[{\"dest_ip\": \"10.0.0.9\"")
            ),
            2,
            "this is no JSON",
        ),
    ] {
        let (_, _, error) = all(forced(text.as_bytes(), FlowFormat::Gcp, FlowOptions::default()));
        let error = error.unwrap_or_else(|| panic!("{text}"));
        let fault = error.diagnostic().expect("a line");
        assert!(fault.line == line && fault.message.contains(message), "{fault:?}");
        let shown: String = fault.text.chars().skip(fault.column as usize - 1).take(fault.width as usize).collect();
        assert!(
            !message.starts_with(|c: char| c == 'x' || c.is_ascii_digit()) || message.starts_with(&shown),
            "{fault:?}"
        );
    }
    let text = format!("{}\n{{\"x\n{}\n", entries[0], entries[1]);
    let (rows, read, error) = all(flows(text.as_bytes(), FlowFormat::Gcp, FlowOptions::default().skip_bad(true)));
    assert_eq!((rows.len(), read.counts().malformed, error), (2, 1, None));
    let order = FlowOptions::default().columns(["src_ip", "dest_ip"]).expect("names").skip_bad(true);
    let (_, _, error) = all(flows(text.as_bytes(), FlowFormat::Gcp, order));
    assert!(error.is_some_and(|error| error.to_string().contains("the columns of JSON have no order")));
}

/// A record that crosses the ends of buffers is read like any other, and one beyond the limit is an error.
#[test]
fn objects_of_any_length_up_to_the_limit() {
    let entry = |len: usize| {
        format!(
            "{{\"jsonPayload\":{{\"note\":\"{}\",\"connection\":{{\"src_ip\":\"::1\",\"dest_ip\":\"::2\",\"protocol\":17}}}}}}",
            "\\\\\\\"}".repeat(len)
        )
    };
    let lens = [0, 1, 1000, 10_000, 40_000, 7, 20_000];
    for (open, between, close) in [("[", ",", "]"), ("", "\n", "\n")] {
        let text = format!("{open}{}{close}", lens.map(entry).join(between));
        let (rows, _, error) = all(forced(text.as_bytes(), FlowFormat::Gcp, FlowOptions::default()));
        assert_eq!((rows.len(), error), (lens.len(), None));
        let limits = Limits { max_record: 100_000, ..Limits::default() };
        let input = from_reader("test", Box::new(Cursor::new(text.into_bytes())), &limits).expect("text");
        let Ok(Input::Flows(log)) = input.with_format(InputFormat::Flows(FlowFormat::Gcp)) else { panic!("a log") };
        let (rows, _, error) = all(log.into_flows(FlowOptions::default()));
        assert!(
            rows.len() == 4
                && error.as_ref().is_some_and(|error| error.to_string().contains("is longer than 100000 bytes")),
            "{error:?}"
        );
    }
}
