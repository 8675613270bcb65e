//! Rules over fields of one's own, which no packet header fills: `cargo run --example by_hand`
#![expect(clippy::print_stdout, reason = "it is a program")]

use firstmatch::core::rule::FieldValues;
use firstmatch::{Error, Firewall};

const RULES: &str = "\
schema {
    tenant 24 exact
    amount 32 range
    risk    8 mask
}
mark 1 tenant 7 amount 0-999
deny risk 0x80/0x80
permit
";

fn main() -> Result<(), Error> {
    let orders = Firewall::builder().values_only(true).build(RULES)?;
    let mut worker = orders.worker();
    for (tenant, amount, risk) in [(7, 500, 0x80), (8, 500, 0x80), (8, 5000, 0)] {
        worker.push_values(&FieldValues { family: None, values: vec![Some(tenant), Some(amount), Some(risk)] }, 0);
    }
    for decision in worker.classify() {
        println!("{} by line {}", decision.verdict, decision.line.map_or(0, u32::from));
    }
    Ok(())
}
