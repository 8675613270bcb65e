//! Damaged flow logs: none panics, and the result does not depend on how the bytes arrive.

use firstmatch_net::source::{FlowFormat, FlowOptions, Input, InputFormat};
use firstmatch_testkit::frames::slow;
use firstmatch_testkit::rng::Rng;

use super::all;

const LOGS: [(FlowFormat, &str); 9] = [
    (
        FlowFormat::Aws,
        "2 1 eni-1 10.0.0.1 10.0.0.2 1 22 6 1 40 1 2 ACCEPT OK\n2 1 eni-1 - - - - - - - 1 2 - NODATA\n\
         2 1 eni-1 ::1 2001:db8::2 0 0 58 12345 678901234 1 2 REJECT OK\n",
    ),
    (FlowFormat::Aws, "dstaddr,\"srcaddr\",protocol,tcp_flags\n10.0.0.2,10.0.0.1,6,2\n\"::1\",::2,17,-\n"),
    (
        FlowFormat::Zeek,
        "#separator \\x09\n#path\tconn\n#fields\tid.orig_h\tid.orig_p\tid.resp_h\tid.resp_p\tproto\thistory\tresp_pkts\n\
         10.0.0.1\t1\t10.0.0.2\t22\ttcp\tShA\t1\n::1\t128\t::2\t129\ticmp\t-\t-\n#close\n",
    ),
    (
        FlowFormat::Zeek,
        "{\"id.orig_h\":\"::1\",\"id.resp_h\":\"::2\",\"proto\":\"udp\",\"resp_pkts\":1}\n{\"_path\":\"dns\"}\n",
    ),
    (
        FlowFormat::Nfdump,
        "ts,te,sa,da,sp,dp,pr,flg,ipkt,opkt\n1,2,10.0.0.1,10.0.0.2,1,22,TCP,....S.,1,1\n\
         1,2,10.0.0.1,10.0.0.2,0,8.0,ICMP,......,1,0\nSummary\nflows\n2\nts,te,sa,da\n1,2,::1,::2\n",
    ),
    (
        FlowFormat::Suricata,
        "{\"event_type\":\"flow\",\"src_ip\":\"::1\",\"dest_ip\":\"::2\",\"proto\":\"TCP\",\"flow\":{\"pkts_toclient\":1},\
         \"tcp\":{\"tcp_flags_ts\":\"1b\",\"tcp_flags_tc\":\"12\"}}\n{\"event_type\":\"dns\",\"dns\":{\"id\":[1,{}]}}\n",
    ),
    (
        FlowFormat::Azure,
        "{\"records\":[{\"a\":[{\"flowTuples\":[\"1,10.0.0.1,10.0.0.2,1,2,T,I,D\",\"1,::1,::2,1,2,6,I,E,NX,1,2,3,4\"]}]},\n\
         {\"flowTuples\":[]},{\"flowTuples\":[\"1,10.0.0.1,10.0.0.2,1,2,U,I,A,B,,,,\"]}]}\n",
    ),
    (
        FlowFormat::Gcp,
        "[{\"jsonPayload\":{\"connection\":{\"src_ip\":\"::1\",\"dest_ip\":\"::2\"},\"x\":\"}\\\"{\"}},\n{}]\n",
    ),
    (
        FlowFormat::Gcp,
        "{\"connection\":{\"src_ip\":\"::1\",\"dest_ip\":\"::2\",\"protocol\":17},\"bytes_sent\":\"7\"}\n{}\n",
    ),
];

/// Parts that damage grammars more often than random bytes do.
const PARTS: [&str; 22] = [
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    "\r\n",
    " ",
    "\t",
    "-",
    "#fields\t",
    "null",
    "\\",
    "::1",
    "10.0.0.1",
    "\u{e9}",
    "srcaddr dstaddr\n",
    "flowTuples",
    "99999999999999999999",
    "\u{0}",
];

fn damaged(rng: &mut Rng, log: &str) -> Vec<u8> {
    let mut bytes = log.as_bytes().to_vec();
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len() + 1);
        match rng.below(4) {
            0 => _ = bytes.splice(at..at, rng.any_of(&PARTS).bytes()),
            1 if at < bytes.len() => bytes[at] = rng.next() as u8,
            2 => _ = bytes.drain(at..(at + 1 + rng.below(8)).min(bytes.len()).max(at)),
            _ => bytes.truncate(at),
        }
    }
    bytes
}

#[test]
fn damage_never_panics_and_pieces_change_nothing() {
    let mut rng = Rng::new(43);
    let (mut whole_logs, mut faults) = (0, 0);
    for round in 0..20_000 {
        let (format, log) = rng.any_of(&LOGS);
        let bytes = damaged(&mut rng, log);
        let skips = round % 2 == 0;
        let read = |step: usize| {
            let input = slow(&bytes, step).and_then(|input| input.with_format(InputFormat::Flows(format)));
            let Ok(Input::Flows(log)) = input else { return None };
            let (rows, flows, error) = all(log.into_flows(FlowOptions::default().both_ways(true).skip_bad(skips)));
            let counts = flows.counts().clone();
            let good = counts.flows + counts.continued + counts.without_traffic + counts.without_address;
            assert_eq!(counts.read, good + counts.malformed, "{counts:?}");
            assert_eq!(rows.len() as u64, counts.flows + counts.continued + counts.ways_back, "{counts:?}");
            Some((rows, counts, error))
        };
        let whole = read(usize::MAX);
        assert_eq!(whole, read(1 + rng.below(7)), "{:?}", String::from_utf8_lossy(&bytes));
        match whole {
            Some((_, _, Some(_))) => faults += 1,
            Some(_) => whole_logs += 1,
            None => {}
        }
    }
    assert!(whole_logs > 2_000 && faults > 2_000, "{whole_logs} {faults}");
}
