//! A router's loop: two workers classify while a writer changes the rules. `cargo run --example router`
#![expect(clippy::print_stdout, reason = "it is a program")]

use std::sync::atomic::{AtomicBool, Ordering};

use firstmatch::{Error, Firewall, LinkType, Verdict};

fn main() -> Result<(), Error> {
    let firewall = Firewall::from_text("deny src 198.51.100.0/24\npermit tcp dport { 22, 80, 443 }\n")?;
    let frames = [23, 80, 443].map(firstmatch::doc_frame);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut worker, mut passed) = (firewall.worker(), 0);
                while !done.load(Ordering::Relaxed) {
                    for frame in frames.iter().cycle().take(64) {
                        worker.push(LinkType::Ethernet, frame);
                    }
                    passed += worker.classify().iter().filter(|decision| decision.verdict == Verdict::Permit).count();
                }
                println!("passed {passed} packets");
            });
        }
        let changed = (0..10_000).try_for_each(|_| block_and_unblock(&firewall));
        done.store(true, Ordering::Relaxed);
        changed
    })
}

/// Blocks port 80 for a moment: two transactions, each seen by all workers at once.
fn block_and_unblock(firewall: &Firewall) -> Result<(), Error> {
    let mut update = firewall.update();
    let blocked = update.prepend("deny tcp dport 80")?;
    update.commit()?;
    let mut update = firewall.update();
    update.remove(blocked)?;
    update.commit().map(drop)
}
