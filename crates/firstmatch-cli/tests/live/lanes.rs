//! Lanes whose path has a fault planted: a panic, and a delay.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{io, thread};

use firstmatch::Firewall;
use firstmatch_live::packet::Slots;
use firstmatch_live::path::{Frame, Meter, Path, Sent};
use firstmatch_live::web::{About, Server, ServerConfig, State};
use firstmatch_live::{Failure, Interface, LaneOptions, LaneState, Lanes, OnPanic};

use crate::http::{get, request};
use crate::namespace::inside;
use crate::ports::{Receiver, number_of, ports};
use crate::traffic::{Sender, frame, rules};

/// Path that does something of its own before the bytes of a frame are seen.
struct Planted<F> {
    path: Slots,
    before: F,
}

impl<F: Fn(&[u8]) + Send + 'static> Path for Planted<F> {
    fn interface(&self) -> &str {
        self.path.interface()
    }
    fn start(&self) -> io::Result<()> {
        self.path.start()
    }
    fn stop(&self) -> io::Result<()> {
        self.path.stop()
    }
    fn ready(&self) -> BorrowedFd<'_> {
        self.path.ready()
    }
    fn take(&mut self) -> bool {
        self.path.take()
    }
    fn frames(&self) -> &[Frame] {
        self.path.frames()
    }
    fn bytes(&self, frame: &Frame) -> &[u8] {
        let bytes = self.path.bytes(frame);
        (self.before)(bytes);
        bytes
    }
    fn finish(&mut self, passes: impl FnMut(usize, &Frame) -> bool) -> Sent {
        self.path.finish(passes)
    }
    fn meter(&self) -> Arc<dyn Meter> {
        self.path.meter()
    }
}

/// Starts a lane from `vb` to `vc` with the rules of the tests.
fn start(mib: usize, on_panic: OnPanic, before: impl Fn(&[u8]) + Send + 'static) -> Lanes {
    let [from, to] = ["vb", "vc"].map(|name| Interface::of_name(name).unwrap());
    let path = Slots::open(&from, &to, mib, 1).unwrap().remove(0);
    let mut options = LaneOptions::default();
    options.on_panic = on_panic;
    Lanes::start(vec![Planted { path, before }], &Firewall::from_text(&rules()).unwrap(), &options).unwrap()
}

/// A panic ends a closed lane before any frame of its batch is sent; an open one passes that batch and all later ones.
#[test]
fn a_panic_closes_a_lane_or_opens_it() {
    inside("lanes::a_panic_closes_a_lane_or_opens_it", || {
        ports(false);
        const PLANTED: u32 = 5_000;
        for on_panic in [OnPanic::Close, OnPanic::Open] {
            let mut out = Receiver::new("vd");
            let lanes = start(64, on_panic, |bytes| assert!(number_of(bytes) != PLANTED, "planted"));
            let sender = Sender::new("va");
            (0..20_000).for_each(|number| sender.send(&frame(number)));
            if on_panic == OnPanic::Close {
                let mut ended = [rustix::event::PollFd::from_borrowed_fd(lanes.ended(), rustix::event::PollFlags::IN)];
                rustix::event::poll(&mut ended, None).unwrap();
            }
            let states = lanes.states().to_vec();
            let finished = lanes.finish().unwrap();
            let out: Vec<_> = out.frames(finished.counts.sent).iter().map(|frame| number_of(frame)).collect();
            let even = |number: &u32| number.is_multiple_of(2);
            if on_panic == OnPanic::Close {
                assert!(matches!(&finished.failure, Some(Failure::Panic(text)) if text.contains("planted")));
                let decided = finished.counts.all().packets as u32;
                assert!(decided <= PLANTED && finished.counts.undecided == 0);
                assert_eq!(out, (0..decided).filter(even).collect::<Vec<_>>());
            } else {
                assert!(finished.failure.is_none());
                let counts = &finished.counts;
                assert_eq!(
                    (counts.taken(), finished.statistics.received, finished.statistics.lost),
                    (20_000, 20_000, 0)
                );
                // Decided until the batch with the fault, and whole from there on.
                let decided = counts.all().packets as u32;
                assert!(decided <= PLANTED && counts.undecided == u64::from(20_000 - decided));
                assert_eq!(out, (0..decided).filter(even).chain(decided..20_000).collect::<Vec<_>>());
                check_open(&states);
            }
        }
    });
}

/// Asserts that a page of these lanes says that frames pass without rules.
fn check_open(lanes: &[LaneState]) {
    let about = About {
        command: "bridge",
        rules_file: String::new(),
        engine: String::new(),
        system: String::new(),
        version: "",
        metric_rules: 0,
        allow_reload: false,
    };
    let firewall = Firewall::from_text("deny\n").unwrap();
    let state = State::new(about, firewall, lanes, &["vb", "vc"], Box::new(|_| Err(String::new()))).unwrap();
    let server = Server::bind(ServerConfig::new("127.0.0.1:0".parse().unwrap())).unwrap();
    let address = server.address().unwrap();
    let serving = server.start(Arc::new(state)).unwrap();
    let health = request(address, "GET", "/healthz", &[]);
    assert_eq!((health.code, health.text.contains("vb: frames pass without rules")), (503, true), "{health:?}");
    assert!(get(address, "/metrics").text.contains("\nfirstmatch_failed_open 1\n"));
    drop(serving);
    assert!(std::net::TcpStream::connect(address).is_err(), "it has ended");
}

/// A lane that stands still loses the frames beyond its ring, and each is counted.
#[test]
fn a_full_ring_counts_what_it_loses() {
    inside("lanes::a_full_ring_counts_what_it_loses", || {
        ports(false);
        let is_sent = Arc::new(AtomicBool::new(false));
        let gate = Arc::clone(&is_sent);
        let lanes = start(1, OnPanic::Close, move |_| {
            while !gate.load(Ordering::Acquire) {
                thread::yield_now();
            }
        });
        let (sender, mut out) = (Sender::new("va"), Receiver::new("vd"));
        (0..30_000).for_each(|number| sender.send(&frame(number)));
        is_sent.store(true, Ordering::Release);
        let finished = lanes.finish().unwrap();
        let (counts, statistics) = (finished.counts, finished.statistics);
        assert_eq!((statistics.received, counts.all().packets + statistics.lost), (30_000, 30_000));
        // A MiB has 512 slots.
        assert!((1..=512).contains(&counts.all().packets), "{statistics:?}");
        assert_eq!(out.frames(counts.sent).len() as u64, counts.sent);
    });
}
