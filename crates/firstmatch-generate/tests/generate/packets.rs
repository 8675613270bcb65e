//! Tests that traces over any fields have packets that can be, each with its first match.

use firstmatch_core::rule::{FieldValues, first_match};
use firstmatch_core::{RuleId, RuleSet};
use firstmatch_formats::{Options, RuleFile};
use firstmatch_generate::openflow;
use firstmatch_generate::trace::{self, Config, Coverage, Hostile, Locality, PacketTrace};
use firstmatch_net::source::{Input, Limits, from_reader};
use firstmatch_net::wire::{self, Batch};

const EDGE: &str = include_str!("../../../../examples/edge.rules");

fn parse(text: &str, flags: bool) -> RuleFile {
    firstmatch_formats::parse(text, &Options { flags, ..Options::default() }).expect("good rules")
}

fn packets(set: &RuleSet, config: &Config) -> PacketTrace {
    trace::packets(set, config).unwrap_or_else(|error| panic!("{config:?}: {error}"))
}

/// Checks each packet's rule against the oracle.
fn check(set: &RuleSet, trace: &PacketTrace) {
    let ids: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
    for packet in trace.iter() {
        let expected = first_match(set, &packet.values).map(|rule| rule.id);
        assert_eq!(packet.rule.map(|rule| ids[rule as usize]), expected, "{packet:?}");
    }
}

/// Returns the packets of a table, read back.
fn read_back(set: &RuleSet, trace: &PacketTrace) -> Vec<FieldValues> {
    let mut text = Vec::new();
    trace.write_table(&mut text).expect("memory takes it");
    let input = from_reader("table", Box::new(std::io::Cursor::new(text)), &Limits::default()).expect("a table");
    let Input::Table(table) = input else { panic!("not recognised as a table") };
    let mut rows = table.into_rows(set.schemas()).expect("good columns");
    let mut all = Vec::new();
    while let Some(row) = rows.next().expect("a good row") {
        all.push(row.values.clone());
    }
    all
}

#[test]
fn a_table_has_every_field_of_a_packet_filter() {
    let file = parse(EDGE, false);
    let trace = packets(&file.rules, &Config { headers: 5000, ..Config::default() });
    check(&file.rules, &trace);
    let covered = trace.coverage();
    assert_eq!(covered.hit + covered.unreachable.len() + covered.given_up.len(), covered.rules);
    assert!(covered.given_up.len() * 20 <= covered.rules, "{} of {}", covered.given_up.len(), covered.rules);
    let values: Vec<FieldValues> = trace.iter().map(|packet| packet.values.clone()).collect();
    assert_eq!(read_back(&file.rules, &trace), values);
}

/// The parser of packets finds the very fields in the frames that the trace says.
#[test]
fn a_capture_has_the_packets_of_the_trace() {
    let text = "family inet\npermit icmp icmp_type 3 icmp_code 4\ndeny tcp tcp_flags 0x02/0x12 dport 80\n\
        permit vlan_vid 7 udp\ndeny vlan_vid 9\npermit icmpv6 icmp_type 135\ndeny src 10.0.0.0/8\n\
        permit dst 2001:db8::/32\n";
    for text in [text, EDGE] {
        let file = parse(text, false);
        let trace = packets(&file.rules, &Config { headers: 4000, seed: 3, ..Config::default() });
        check(&file.rules, &trace);
        trace.check_pcap().expect("frames have room");
        let mut bytes = Vec::new();
        trace.write_pcap(&mut bytes).expect("memory takes it");
        let input = from_reader("capture", Box::new(std::io::Cursor::new(bytes)), &Limits::default());
        let Ok(Input::Capture(mut capture)) = input else { panic!("not recognised as a capture") };
        let config = wire::Config::from(&file.policy);
        let batch = Batch::new(&config, file.rules.schemas()).expect("fields of packets");
        for packet in trace.iter() {
            let frame = capture.next().expect("a good capture").expect("a packet");
            let headers = wire::parse(&config, frame.link, frame.data);
            assert_eq!(batch.values(&headers).as_ref(), Some(&packet.values));
        }
        assert!(capture.next().expect("a good capture").is_none());
    }
}

#[test]
fn any_schema_has_a_table() {
    let openflow = openflow::generate(&openflow::Config { rules: 1000, ..Default::default() }).expect("good");
    let extensions = parse("deny ext_headers routing routing_type 0\ndeny ext_headers fragment\npermit\n", false).rules;
    let flags = "@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t80 : 80\t0x06/0xFF\t0x0200/0x1200\t\n\
        @0.0.0.0/0\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x06/0xFF\t0x0000/0x0000\t\n";
    for (set, all) in [(openflow, false), (extensions, true), (parse(flags, true).rules, true)] {
        let config = Config {
            headers: 2000,
            locality: Locality::Entropy { bits: 1.0 },
            hostile: Some(Hostile { share: 0.1, burst: 8 }),
            coverage: if all { Coverage::Complete } else { Coverage::Drawn },
            ..Config::default()
        };
        let trace = packets(&set, &config);
        check(&set, &trace);
        assert!(!all || trace.coverage().hit == set.len(), "{:?}", trace.coverage());
        let values: Vec<FieldValues> = trace.iter().map(|packet| packet.values.clone()).collect();
        assert_eq!(read_back(&set, &trace), values);
        let error = trace.check_pcap().expect_err("a frame has no room");
        assert!(error.to_string().starts_with("a capture has "), "{error}");
    }
}

/// Hostile headers take the share that was asked for, or the trace is refused.
#[test]
fn hostile_headers_leave_room_to_hit_every_rule() {
    let set = parse("family ipv4\npermit tcp dport 80\npermit udp dport 53\npermit icmp\ndeny tcp\n", false).rules;
    let config = |headers, share| Config {
        headers,
        hostile: Some(Hostile { share, burst: 2 }),
        locality: Locality::Zipf { s: 1.0 },
        ..Config::default()
    };
    let error = |headers, share| trace::packets(&set, &config(headers, share)).expect_err("too few");
    assert_eq!(error(12, 0.75).headers_needed(), Some(16));
    assert!(error(1000, 1.0).is_config());
    let (quiet, hostile) = (packets(&set, &config(40, 0.0)), packets(&set, &config(40, 0.75)));
    let hits = |trace: &PacketTrace| -> Vec<usize> {
        (0..4).map(|rule| trace.iter().filter(|packet| packet.rule == Some(rule)).count()).collect()
    };
    assert!(hits(&quiet).iter().chain(&hits(&hostile)).all(|&hits| hits > 0));
    // Bursts are for two rules in turn, so each of them has half of the 30 hostile packets at least.
    assert_eq!(hits(&hostile).iter().filter(|&&hits| hits >= 15).count(), 2, "{:?}", hits(&hostile));
}
