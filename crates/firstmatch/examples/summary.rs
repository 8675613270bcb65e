//! Sums up the verdicts of a rule file on a capture:
//! `cargo run --example summary -- examples/edge.rules examples/edge.pcapng`
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::collections::BTreeMap;
use std::error::Error;

use firstmatch::Firewall;
use firstmatch::net::source;

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths = std::env::args().skip(1);
    let (rules, capture) = paths.next().zip(paths.next()).ok_or("usage: summary RULES CAPTURE")?;
    let firewall = Firewall::from_text(&std::fs::read_to_string(rules)?)?;
    let mut capture = source::open(capture.as_ref())?.into_capture()?;
    let (mut worker, mut packets) = (firewall.worker(), BTreeMap::<_, u64>::new());
    loop {
        let packet = capture.next()?;
        if let Some(packet) = &packet {
            worker.push_cut(packet.link, packet.data, packet.original_len);
        }
        if worker.len() == 256 || packet.is_none() {
            for decision in worker.classify() {
                *packets.entry((decision.verdict.to_string(), decision.rule)).or_default() += 1;
            }
        }
        if packet.is_none() {
            break;
        }
    }
    for ((verdict, rule), count) in packets {
        println!("{count:8} {verdict:8} {}", rule.and_then(|id| firewall.rule(id)).unwrap_or_default());
    }
    Ok(())
}
