//! Panics, refused plans and other faults: nothing is silent.

use std::thread;

use firstmatch_net::plane::{Link, Notice, Outputs, Pinning, PlaneBuilder, PlaneError, Pulled, SendError, Work};

use super::fixture::{Checker, Maker, Packets, chain, link_all, pass_on};

/// A panic in any worker of any stage stops the plane, and says where, why and how much was lost.
#[test]
fn a_panic_in_each_stage_stops_the_plane() {
    for capacity in [1, 16] {
        for stage in 0..3 {
            for (worker, after) in [(0, 0), (1, 0), (0, 50), (1, 333)] {
                panic_in(stage, worker, after, capacity);
            }
        }
    }
}

fn panic_in(stage: usize, worker: usize, after: usize, capacity: usize) {
    let mut builder = PlaneBuilder::new();
    let stages: Vec<_> = (0..3)
        .map(|at| {
            builder.stage(&format!("stage{at}"), 2, move |seat| {
                let is_bad = (at, seat.worker) == (stage, worker);
                let mut count = 0;
                move |message: Packets, out: &mut Outputs<Packets>| {
                    assert!(!is_bad || count < after, "out of luck at {count}");
                    count += 1;
                    pass_on(message, out);
                }
            })
        })
        .collect();
    link_all(&mut builder, &stages, Link::new().capacity(capacity));
    let plane = builder.start().expect("the plane is good");
    let mut checker = Checker::new(3);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut maker = Maker::new(5);
            // It ends by the fault alone.
            while plane.send(maker.message()).is_ok() {}
        });
        while let Some(message) = plane.recv() {
            checker.check(&message);
        }
    });
    let error = plane.join().expect_err("a worker panicked");
    assert_eq!(error.worker(), Some((&*format!("stage{stage}"), worker)));
    assert_eq!(error.panic_text(), Some(&*format!("out of luck at {after}")));
    let counters = error.counters().expect("it ran");
    assert_eq!((counters.accepted, counters.delivered), (checker.packets + counters.lost, checker.packets));
    assert!(counters.lost >= 5, "at least the message in hand");
    let text = error.to_string();
    let says = format!("stage stage{stage}, worker {worker} panicked: out of luck at {after}; packets lost: ");
    assert!(text.starts_with(&says), "{text}");
}

#[test]
fn a_panic_of_a_factory_is_an_error_of_the_start() {
    for bad in [0, 2] {
        let mut builder = PlaneBuilder::new();
        let stage = builder.stage("made", 3, move |seat| {
            assert!(seat.worker != bad, "nothing to make {} of {}", seat.worker, seat.workers);
            pass_on
        });
        link_all(&mut builder, &[stage], Link::new());
        let error = builder.start().expect_err("a factory panicked");
        assert_eq!(error.worker(), Some(("made", bad)));
        assert_eq!(error.panic_text(), Some(&*format!("nothing to make {bad} of 3")));
    }
}

/// Work that sends its last message at the end, or panics there.
struct Last {
    held: Option<Packets>,
    panics: bool,
}

impl Work<Packets> for Last {
    fn work(&mut self, message: Packets, out: &mut Outputs<Packets>) {
        if let Some(before) = self.held.replace(message) {
            pass_on(before, out);
        }
    }

    fn end(&mut self, out: &mut Outputs<Packets>) {
        assert!(!self.panics, "at the end");
        if let Some(last) = self.held.take() {
            pass_on(last, out);
        }
    }
}

#[test]
fn the_end_of_a_stage_sends_or_panics() {
    for panics in [false, true] {
        let mut builder = PlaneBuilder::new();
        let stage = builder.stage("last", 1, move |_| Last { held: None, panics });
        link_all(&mut builder, &[stage], Link::new());
        let plane = builder.start().expect("the plane is good");
        let (mut maker, mut checker) = (Maker::new(4), Checker::new(1));
        (0..10).for_each(|_| plane.send(maker.message()).expect("the plane runs"));
        plane.stop();
        while let Some(message) = plane.recv() {
            checker.check(&message);
        }
        match plane.join() {
            Ok(counters) => assert_eq!((panics, counters.delivered), (false, 40)),
            Err(error) => assert_eq!((panics, error.panic_text()), (true, Some("at the end"))),
        }
        assert_eq!(checker.packets, if panics { 36 } else { 40 });
    }
}

#[test]
fn a_panic_of_a_source_stops_the_plane() {
    let mut builder = PlaneBuilder::new();
    let source = builder.source("memory", 2, |seat| {
        let (worker, mut maker) = (seat.worker, Maker::new(3));
        let mut left = 20;
        move |out: &mut Outputs<Packets>| {
            left -= 1;
            out.send(maker.message());
            assert!(worker == 0 || left > 0, "the memory is gone");
            if left == 0 { Pulled::End } else { Pulled::Packets(3) }
        }
    });
    builder.leave(source, Link::new());
    let plane = builder.start().expect("the plane is good");
    let delivered = std::iter::from_fn(|| plane.recv()).map(|message| message.packets.len() as u64).sum::<u64>();
    let error = plane.join().expect_err("a source panicked");
    let counters = error.counters().expect("it ran");
    assert_eq!((error.panic_text(), counters.delivered), (Some("the memory is gone"), delivered));
    // The good worker says `End` with a message that it does not count.
    assert!(counters.accepted + 3 >= counters.delivered + counters.lost, "{counters:?}");
}

/// A stage that splits or swallows a message cannot be in a plane in order of arrival.
#[test]
fn order_needs_one_message_for_one() {
    for count in [0, 2] {
        let mut builder = PlaneBuilder::new();
        let stage = builder.stage("copies", 1, move |_| {
            move |message: Packets, out: &mut Outputs<Packets>| {
                for _ in 0..count {
                    out.send(Packets { group: message.group, packets: Vec::new() });
                }
            }
        });
        link_all(&mut builder, &[stage], Link::new());
        builder.in_order_of_arrival(8);
        let plane = builder.start().expect("the plane is good");
        plane.send(Maker::new(6).message()).expect("the plane runs");
        while plane.recv().is_some() {}
        let error = plane.join().expect_err("the order is not kept");
        let says = format!("stage copies, worker 0 handed on {count} messages for one");
        assert!(error.to_string().contains(&says), "{error}");
        assert_eq!(error.counters().map(|counters| (counters.accepted, counters.lost)), Some((6, 6)));
    }
}

fn refused(build: impl FnOnce(&mut PlaneBuilder<Packets>)) -> PlaneError {
    let mut builder = PlaneBuilder::new();
    build(&mut builder);
    let error = builder.start().map(drop).expect_err("the plan is bad");
    assert!(error.worker().is_none() && error.counters().is_none());
    error
}

#[test]
fn plans_that_cannot_work_are_refused() {
    let link = Link::new();
    let end = |_: &firstmatch_net::plane::Seat| |_: &mut Outputs<Packets>| Pulled::End;
    let says = [
        (refused(|_| {}), "a plane needs a stage"),
        (
            refused(|b| {
                b.stage("a", 1, |_| pass_on);
            }),
            "nothing leads to stage a",
        ),
        (
            refused(|b| {
                let a = b.stage("a", 0, |_| pass_on);
                b.enter(a, link);
            }),
            "stage a has 0 workers; expected 1 to 256",
        ),
        (
            refused(|b| {
                let a = b.stage("a", 257, |_| pass_on);
                b.enter(a, link);
            }),
            "stage a has 257 workers; expected 1 to 256",
        ),
        (
            refused(|b| {
                let a = b.stage("a", 1, |_| pass_on);
                b.enter(a, link.capacity(0));
            }),
            "the link from the caller to a holds 0 messages; expected 1 to 1048576",
        ),
        (
            refused(|b| {
                let a = b.stage("a", 1, |_| pass_on);
                b.enter(a, link.most_packets(0));
            }),
            "the link from the caller to a holds 0 packets; expected at least 1",
        ),
        (
            refused(|b| {
                let [a, c] = ["a", "c"].map(|name| b.stage(name, 1, |_| pass_on));
                b.enter(a, link).link(a, c, link).link(c, a, link);
            }),
            "the link from c to a leads back, so it has to be lossy",
        ),
        (
            refused(|b| {
                let a = b.stage("a", 1, |_| pass_on);
                b.enter(a, link).leave(a, Link::lossy());
            }),
            "the link from a to the caller is lossy, but whatever leaves has to come out",
        ),
        (
            refused(|b| {
                let a = b.stage("a", 1, |_| pass_on);
                b.enter(a, link).enter(a, link);
            }),
            "a plane has one entrance, not 2",
        ),
        (
            refused(|b| {
                let a = b.source("a", 1, end);
                b.enter(a, link);
            }),
            "the link from the caller to a leads to a source, which takes no messages",
        ),
        (
            refused(|b| {
                let (a, other) = (b.stage("a", 1, |_| pass_on), b.source("other", 1, end));
                b.enter(a, link).leave(a, link).leave(other, link).in_order_of_arrival(4);
            }),
            "order of arrival needs an entrance or sources, not both",
        ),
        (
            refused(|b| {
                let a = b.stage("a", 1, |_| pass_on);
                b.enter(a, link).chunk(0);
            }),
            "at least one message at once",
        ),
    ];
    for (error, says) in says {
        assert!(error.to_string().starts_with(says) || error.to_string().contains(says), "{error}; expected {says}");
    }
}

/// A core that is not there, or too few cores, are said aloud, and the packets come through all the same.
#[test]
fn a_plane_says_what_slows_it_down() {
    let mut builder = chain(&[2], Link::new());
    builder.pin(Pinning::Cores(vec![100_000]));
    let plane = builder.start().expect("pinning is no need");
    let notices = plane.notices();
    assert!(notices.contains(&Notice::SharedCores { workers: 2, cores: 1 }), "{notices:?}");
    for at in 0..2 {
        let is_said = |notice: &Notice| matches!(notice, Notice::NotPinned { stage, worker, core: 100_000, .. } if stage == "hop0" && *worker == at);
        assert!(notices.iter().any(is_said), "{notices:?}");
    }
    let mut maker = Maker::new(4);
    plane.send(maker.message()).expect("the plane runs");
    assert!(plane.recv().is_some());
    assert!(matches!(plane.send(Packets::default()), Ok(()) | Err(SendError::Full(_))));

    let cores = thread::available_parallelism().expect("it is known").get();
    let plane = chain(&[cores.min(256)], Link::new()).start().expect("the plane is good");
    assert_eq!(plane.notices(), [Notice::FewCores { threads: cores + 1, cores }]);
    let text = plane.notices()[0].to_string();
    assert!(text.contains(&format!("{} threads share {cores} cores", cores + 1)), "{text}");
}

/// A source of a plane in order of arrival numbers each message; another number of messages is a fault.
#[test]
fn order_needs_numbers_of_a_source() {
    for (numbered, sent, is_good) in
        [(0, 1, false), (1, 0, false), (1, 2, false), (2, 1, false), (0, 0, true), (1, 1, true)]
    {
        let mut builder = PlaneBuilder::new();
        let source = builder.source("memory", 1, move |_| {
            move |out: &mut Outputs<Packets>| {
                (0..numbered).for_each(|number| out.number(number));
                (0..sent).for_each(|group| _ = out.send(Packets { group, packets: vec![0; 3] }));
                if numbered > 0 && sent > 0 { Pulled::End } else { Pulled::Packets(0) }
            }
        });
        let plane = builder.leave(source, Link::new()).in_order_of_arrival(4).start().expect("the plane is good");
        let came = if is_good && sent == 1 { plane.recv() } else { None };
        if is_good {
            plane.stop();
        }
        assert_eq!(came.is_some(), is_good && sent == 1);
        let joined = plane.join();
        assert_eq!(joined.is_ok(), is_good, "{numbered} numbers, {sent} messages: {joined:?}");
    }
}
