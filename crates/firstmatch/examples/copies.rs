//! A classifier on several cores: `cargo run -p firstmatch -F captures,plane --example copies -- RULES CAPTURE [WORKERS]`
#![expect(clippy::print_stderr, reason = "it is a program")]

use std::sync::{Arc, Mutex, PoisonError};
use std::{error::Error, io::Write};

use firstmatch::net::plane::{Link, Message, Outputs, PlaneBuilder, Pulled};
use firstmatch::net::source::{self, Frames};
use firstmatch::{Decision, Firewall};

struct Decisions(Vec<Decision>);

impl Message for Decisions {
    fn packets(&self) -> usize {
        self.0.len()
    }
    fn flow(&self) -> u64 {
        0 // not asked: each worker has one ring, to the caller
    }
}

fn main() {
    let done = run(std::env::args().skip(1), std::io::BufWriter::new(std::io::stdout()));
    std::process::exit(done.inspect_err(|error| eprintln!("copies: {error}")).is_err().into());
}

/// Writes number from 0, verdict, line of the rule (0 without one) and outcome of each packet, in order of arrival.
pub(crate) fn run(mut args: impl Iterator<Item = String>, mut out: impl Write) -> Result<(), Box<dyn Error>> {
    let (rules, capture) = args.next().zip(args.next()).ok_or("usage: copies RULES CAPTURE [WORKERS]")?;
    let workers = args.next().map_or(Ok(2), |n| n.parse::<u8>()).map_err(|_| "WORKERS: expected 1 to 255")?;
    let firewall = Firewall::from_text(&source::read_text(rules.as_ref())?)?;
    let input = Arc::new(Mutex::new((source::open(capture.as_ref())?.into_capture()?, 0, None)));
    let (mut builder, shared) = (PlaneBuilder::new(), Arc::clone(&input));
    let copies = builder.source("copies", workers.into(), move |_| {
        let (mut worker, mut frames, input) = (firewall.worker(), Frames::default(), Arc::clone(&shared));
        move |out: &mut Outputs<Decisions>| {
            let mut locked = input.lock().unwrap_or_else(PoisonError::into_inner);
            let (capture, next, fault) = &mut *locked;
            if capture.next_frames(&mut frames, 256).map_err(|error| *fault = Some(error)) != Ok(true) {
                return Pulled::End;
            }
            out.number(*next);
            *next += 1;
            drop(locked);
            frames.iter().for_each(|packet| _ = worker.push_cut(packet.link, packet.data, packet.original_len));
            out.send(Decisions(worker.classify().to_vec()));
            Pulled::Packets(frames.len())
        }
    });
    let plane = builder.leave(copies, Link::new().capacity(2)).in_order_of_arrival(64).start()?;
    let decisions = std::iter::from_fn(|| plane.recv()).flat_map(|Decisions(decisions)| decisions);
    for (number, Decision { verdict, line, outcome, .. }) in (0u64..).zip(decisions) {
        writeln!(out, "{number} {verdict} {} {outcome}", line.map_or(0, u32::from))?;
    }
    plane.join()?; // an error if a worker panicked
    out.flush()?;
    let (capture, _, fault) = &*input.lock().unwrap_or_else(PoisonError::into_inner);
    let cut = capture.cut().map(|cut| cut.to_string().into());
    fault.clone().map(Into::into).or(cut).map_or(Ok(()), Err)
}
