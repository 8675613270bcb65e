//! The same flows in every format of flow logs: the decisions are those of the oracle.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use firstmatch_core::rule::{FieldValues, first_match};
use firstmatch_core::schema::Family;
use firstmatch_formats::Options;
use firstmatch_testkit::rng::Rng;
use serde_json::{Value, json};

use crate::fixture::Fixture;

const RULES: &str = "\
deny tcp dport { 22, 3389 }
permit tcp src 10.0.0.0/9 dport 1-1023
permit udp dst { 192.0.2.0/25, 2001:db8::/33 } sport not 53
deny proto icmp dst 192.0.2.128/25
permit family ipv6 tcp dst 2001:db8:8000::/33
permit proto { gre, icmpv6 }
deny udp
";

#[derive(Clone, Copy, Debug)]
struct Flow {
    src: IpAddr,
    dst: IpAddr,
    sport: u16,
    dport: u16,
    proto: u8,
    there: (u64, u64),
    back: (u64, u64),
}

impl Flow {
    fn random(rng: &mut Rng) -> Self {
        let is_six = rng.one_in(3);
        let address = |rng: &mut Rng, of_server: bool| -> IpAddr {
            let host = rng.next() as u32;
            match (is_six, of_server) {
                (false, false) => Ipv4Addr::from(10 << 24 | host & 0xFF_FFFF).into(),
                (false, true) => Ipv4Addr::from(0xC000_0200 | host & 0xFF).into(),
                (true, false) => Ipv6Addr::from(0xFE80 << 112 | u128::from(host)).into(),
                (true, true) => {
                    Ipv6Addr::from(0x2001_0DB8 << 96 | u128::from(host & 1) << 95 | u128::from(host)).into()
                }
            }
        };
        let proto = rng.any_of(&[6, 6, 17, 47, if is_six { 58 } else { 1 }]);
        let port = |rng: &mut Rng| rng.any_of(&[22, 53, 80, 443, 3389, 1023, 1024, 40_000, 65_535]);
        let has_ports = matches!(proto, 6 | 17);
        let [sport, dport] = [port(rng), port(rng)].map(|port| if has_ports { port } else { 0 });
        let number = |rng: &mut Rng| 1 + rng.below(5000) as u64;
        let (there, back) = ((number(rng), number(rng) << 30), (number(rng), number(rng)));
        Self { src: address(rng, false), dst: address(rng, true), sport, dport, proto, there, back }
    }

    fn values(&self) -> FieldValues {
        let bits = |address: IpAddr| match address {
            IpAddr::V4(address) => u128::from(address.to_bits()),
            IpAddr::V6(address) => address.to_bits(),
        };
        let port = |port: u16| matches!(self.proto, 6 | 17).then(|| port.into());
        let family = if self.src.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 };
        let values = vec![
            Some(bits(self.src)),
            Some(bits(self.dst)),
            port(self.sport),
            port(self.dport),
            Some(self.proto.into()),
        ];
        FieldValues { family: Some(family), values }
    }
}

/// Returns a log of the flows for each format, with its name.
fn logs(flows: &[Flow]) -> Vec<(&'static str, String)> {
    let name = |proto: u8| match proto {
        1 => "ICMP",
        6 => "TCP",
        17 => "UDP",
        58 => "IPv6-ICMP",
        _ => "GRE",
    };
    let mut aws = String::new();
    let mut some = "dstport,srcport,protocol,pkt-dstaddr,dstaddr,srcaddr,bytes,packets\n".to_owned();
    let mut zeek =
        "#separator \\x09\n#path\tconn\n#fields\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\torig_pkts\t\
                    orig_ip_bytes\tresp_pkts\tresp_ip_bytes\tip_proto\n"
            .to_owned();
    let mut old = "ts,te,td,sa,da,sp,dp,pr,flg,ipkt,ibyt,opkt,obyt\n".to_owned();
    let mut new = "firstSeen,duration,proto,srcAddr,srcPort,dstAddr,dstPort,packets,bytes,flows\n".to_owned();
    let (mut zeek_json, mut eve) = (String::new(), String::new());
    let (mut gcp, mut tuples) = (Vec::new(), Vec::new());
    for Flow { src, dst, sport, dport, proto, there: (packets, bytes), back: (packets_back, bytes_back) } in flows {
        let by_name = name(*proto);
        writeln!(aws, "2 1 eni-1 {src} {dst} {sport} {dport} {proto} {packets} {bytes} 1 2 ACCEPT OK").unwrap();
        writeln!(some, "{dport},{sport},{proto},-,{dst},{src},{bytes},{packets}").unwrap();
        let transport = if *proto == 47 { "unknown_transport" } else { &by_name.to_lowercase().replace("ipv6-", "") };
        writeln!(
            zeek,
            "{src}\t{sport}\t{dst}\t{dport}\t{transport}\t{packets}\t{bytes}\t{packets_back}\t{bytes_back}\t{proto}"
        )
        .unwrap();
        let object = json!({
            "id.orig_h": src, "id.orig_p": sport, "id.resp_h": dst, "id.resp_p": dport, "ip_proto": proto,
            "orig_pkts": packets, "orig_ip_bytes": bytes, "resp_pkts": packets_back, "resp_ip_bytes": bytes_back,
        });
        writeln!(zeek_json, "{object}").unwrap();
        let object = json!({
            "src_ip": src, "src_port": sport, "dest_ip": dst, "dest_port": dport, "proto": by_name, "event_type": "flow",
            "flow": {
                "pkts_toserver": packets, "bytes_toserver": bytes,
                "pkts_toclient": packets_back, "bytes_toclient": bytes_back,
            },
        });
        writeln!(eve, "{object}\n{}", json!({ "event_type": "http", "src_ip": src })).unwrap();
        writeln!(
            old,
            "1,2,1,{src},{dst},{sport},{dport},{by_name},......,{packets},{bytes},{packets_back},{bytes_back}"
        )
        .unwrap();
        writeln!(new, "1,2,{proto},{src},{sport},{dst},{dport},{packets},{bytes},1").unwrap();
        let connection = json!({
            "src_ip": src, "src_port": sport, "dest_ip": dst, "dest_port": dport, "protocol": proto,
        });
        gcp.push(json!({ "jsonPayload": {
            "connection": connection, "packets_sent": packets.to_string(), "bytes_sent": bytes.to_string(),
        } }));
        tuples.push(format!("1,{src},{dst},{sport},{dport},{proto},I,B,NX,0,0,0,0"));
        tuples.push(format!(
            "2,{src},{dst},{sport},{dport},{proto},I,E,NX,{packets},{bytes},{packets_back},{bytes_back}"
        ));
    }
    let records: Vec<Value> = tuples
        .chunks(7)
        .map(|part| json!({ "flowRecords": { "flows": [{ "flowGroups": [{ "flowTuples": part }] }] } }))
        .collect();
    let lines: Vec<String> = gcp.iter().map(Value::to_string).collect();
    vec![
        ("aws.log", aws.clone()),
        ("aws-lines.log", aws.replace('\n', "\r\n")),
        ("some.log", some),
        ("conn.log", zeek),
        ("conn.json", zeek_json),
        ("eve.json", eve),
        ("old.csv", old + "Summary\nflows,bytes\n1,2\n"),
        ("new.csv", new),
        ("gcp-lines.json", lines.join("\n")),
        ("gcp.json", serde_json::to_string_pretty(&gcp).unwrap()),
        ("azure.json", json!({ "records": records }).to_string()),
    ]
}

#[test]
fn all_formats_have_the_answers_of_the_oracle() {
    let fixture = Fixture::new("flow-formats");
    fixture.write("f.rules", RULES);
    let file = firstmatch_formats::parse(RULES, &Options::default()).unwrap();
    let mut rng = Rng::new(77);
    let flows: Vec<Flow> = (0..3000).map(|_| Flow::random(&mut rng)).collect();
    let mut expected: BTreeMap<u64, [u64; 3]> = BTreeMap::new();
    for flow in &flows {
        let Some(rule) = first_match(&file.rules, &flow.values()) else { continue };
        let [count, packets, bytes] = expected.entry(rule.line.unwrap().get().into()).or_default();
        (*count, *packets, *bytes) = (*count + 1, *packets + flow.there.0, *bytes + flow.there.1);
    }
    assert_eq!(expected.len(), 7, "every rule decides some flow: {expected:?}");
    for (name, log) in logs(&flows) {
        fixture.write(name, log);
        for engine in ["meta", "linear"] {
            let line = ["classify", "f.rules", name, "--json", "--check", "all", "--engine", engine];
            let (code, out, err) = fixture.run(&line);
            assert_eq!((code, &*err), (0, ""), "{name}");
            let answer: Value = serde_json::from_str(&out).unwrap();
            let hits = answer["rule_hits"].as_array().unwrap().iter().map(|hits| {
                let of = |name: &str| hits[name].as_u64().unwrap();
                (of("line"), [of("packets"), of("flow_packets"), of("bytes")])
            });
            assert_eq!(hits.collect::<BTreeMap<_, _>>(), expected, "{name}");
            assert_eq!((answer["packets"].as_u64(), answer["unknown"].as_u64()), (Some(3000), Some(0)), "{name}");
        }
    }
}
