//! Sender and receiver of numbered frames, for measuring what lies between two interfaces.
//!
//! ```sh
//! traffic rules 100 > x.rules               # frame k is for rule k modulo 100, and every second rule denies
//! traffic receive vd --idle 500 &           # ends once no frame has come for 500 ms, and prints what came
//! traffic send va --frames 100000 --rules 100 --rate 0
//! ```
//!
//! Frames have 60 bytes: a number, from `--first` on, and the time at which they were sent. The receiver leaves out those
//! before its own `--first`, and counts apart those for rule `--steady` of `--rules` or a later one. Without a rate, frames are sent as fast as they go out.
#![cfg_attr(not(target_os = "linux"), allow(unused))]
#![expect(clippy::print_stdout, reason = "a program")]

use std::ops::Range;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, thread};

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = env::args().skip(1).collect();
    let option = |name: &str, default: u64| match words.iter().position(|word| word == name) {
        None => Ok(default),
        Some(at) => words
            .get(at + 1)
            .ok_or_else(|| format!("{name} needs a number"))?
            .parse()
            .map_err(|_| format!("{name} takes a number")),
    };
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["rules", count] => {
            let count: u32 = count.parse()?;
            (0..count).for_each(|rule| println!("{}", text_of(rule)));
            Ok(())
        }
        ["send", interface, ..] => {
            let (first, rate) = (option("--first", 0)?, option("--rate", 0)?);
            send(interface, first..first + option("--frames", 100_000)?, option("--rules", 100)?.try_into()?, rate)
        }
        ["receive", interface, ..] => {
            let (first, idle) = (option("--first", 0)?.try_into()?, Duration::from_millis(option("--idle", 500)?));
            let (rules, steady) = (option("--rules", 1)?, option("--steady", 0)?);
            receive(interface, first, &|number| u64::from(number) % rules >= steady, idle)
        }
        _ => Err("expected: rules COUNT, send INTERFACE or receive INTERFACE".into()),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}

/// Returns the values of rule `rule` that differ from rule to rule: a part of the destination, and its port.
fn values(rule: u32) -> ([u8; 3], u16) {
    ([192, (rule >> 8) as u8, rule as u8], 1024 + rule as u16)
}

fn text_of(rule: u32) -> String {
    let ([a, b, c], port) = values(rule);
    format!(
        "{} udp src 10.0.0.0/8 dst {a}.{b}.{c}.0/24 dport {port}",
        if rule.is_multiple_of(2) { "permit" } else { "deny" }
    )
}

/// Addresses of Ethernet, and the first part of the header of IPv4, which all frames have.
const HEAD: [u8; 24] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17];
/// Place of the time of sending in a frame.
const TIME: usize = 46;

#[cfg(target_os = "linux")]
fn send(interface: &str, numbers: Range<u64>, rules: u32, rate: u64) -> Result<(), Box<dyn std::error::Error>> {
    use std::io::IoSlice;

    use firstmatch_live::Interface;
    use firstmatch_live::packet::Slots;
    use firstmatch_live::path::Path;

    let interface = Interface::of_name(interface)?;
    // A path from the interface to itself, of which the sender alone is used.
    let path = Slots::open(&interface, &interface, 1, 1)?.remove(0);
    let sender = path.sender().ok_or("there is no sender")?;
    let (start, mut sent, at_once) = (Instant::now(), 0, if rate == 0 { 64 } else { 1 });
    let mut batch: Vec<Vec<u8>> = vec![vec![0; 60]; at_once];
    let frames = numbers.end - numbers.start;
    while sent < frames {
        if let Some(nanos) = (sent * 1_000_000_000).checked_div(rate) {
            thread::sleep((start + Duration::from_nanos(nanos)).saturating_duration_since(Instant::now()));
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64;
        batch.iter_mut().zip(numbers.start + sent..).for_each(|(frame, number)| fill(frame, number, rules, now));
        let mut rest: Vec<IoSlice<'_>> = batch.iter().map(|frame| IoSlice::new(frame)).collect();
        rest.truncate((frames - sent) as usize);
        sent += rest.len() as u64;
        if sender.send(&rest).lost > 0 {
            return Err("the kernel has refused frames".into());
        }
    }
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    println!("sent {sent} cpu_ns {}", cpu.tv_sec * 1_000_000_000 + cpu.tv_nsec);
    Ok(())
}

/// Writes a frame of Ethernet, IPv4 and UDP.
fn fill(frame: &mut [u8], number: u64, rules: u32, now: u64) {
    let (destination, port) = values((number % u64::from(rules)) as u32);
    frame[..24].copy_from_slice(&HEAD);
    frame[24..26].fill(0);
    frame[26] = 10;
    frame[27..30].copy_from_slice(&(number as u32).to_be_bytes()[1..]);
    frame[30..33].copy_from_slice(&destination);
    frame[33] = 7;
    let sum = frame[14..34].chunks(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum::<u32>();
    let sum = (sum & 0xFFFF) + (sum >> 16);
    frame[24..26].copy_from_slice(&(!((sum & 0xFFFF) + (sum >> 16)) as u16).to_be_bytes());
    frame[34..36].copy_from_slice(&5000u16.to_be_bytes());
    frame[36..38].copy_from_slice(&port.to_be_bytes());
    frame[38..42].copy_from_slice(&[0, 26, 0, 0]);
    frame[42..46].copy_from_slice(&(number as u32).to_be_bytes());
    frame[TIME..TIME + 8].copy_from_slice(&now.to_be_bytes());
}

#[cfg(target_os = "linux")]
fn receive(
    interface: &str,
    first: u32,
    is_steady: &dyn Fn(u32) -> bool,
    idle: Duration,
) -> Result<(), Box<dyn std::error::Error>> {
    use firstmatch_live::Interface;
    use firstmatch_live::packet::{Ring, RingConfig};
    use firstmatch_live::path::Path;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    let mut config = RingConfig::default();
    config.mib = 64;
    let mut ring = Ring::open(&Interface::of_name(interface)?, &config)?.remove(0);
    ring.start()?;
    println!("ready");
    let (mut delays, mut numbers, mut last) = (Vec::new(), Vec::new(), Instant::now());
    while numbers.is_empty() || last.elapsed() < idle {
        while ring.take() {
            for frame in ring.frames() {
                let (bytes, time) = (ring.bytes(frame), frame.time);
                let Some(sent) = bytes.get(TIME..TIME + 8).filter(|_| bytes[..24] == HEAD) else { continue };
                last = Instant::now();
                let number = u32::from_be_bytes(bytes[42..46].try_into()?);
                if number < first {
                    continue;
                }
                let came = u64::from(time.0) * 1_000_000_000 + u64::from(time.1);
                delays.push(came.saturating_sub(u64::from_be_bytes(sent.try_into()?)));
                numbers.push(number);
            }
            ring.finish(|_, _| false);
        }
        let mut ready = [PollFd::from_borrowed_fd(ring.ready(), PollFlags::IN)];
        poll(&mut ready, Some(&Timespec::try_from(Duration::from_millis(100))?))?;
    }
    let lost = ring.meter().statistics()?.lost;
    let in_order = numbers.is_sorted_by(|one, other| one < other);
    let steady = numbers.iter().filter(|number| is_steady(**number)).count();
    let wrong = numbers.iter().filter(|number| *number % 2 == 1).count();
    delays.sort_unstable();
    let at = |share: f64| delays[((delays.len() - 1) as f64 * share) as usize];
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    println!(
        "received {} steady {steady} wrong {wrong} lost {lost} in_order {in_order} p50_ns {} p99_ns {} cpu_ns {}",
        numbers.len(),
        at(0.5),
        at(0.99),
        cpu.tv_sec * 1_000_000_000 + cpu.tv_nsec
    );
    Ok(())
}
