//! The forms with real lookups: copies, in parts and by fields.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;

use firstmatch_core::rule::{RuleSet, lower};
use firstmatch_core::{KeyBuf, Match};
use firstmatch_net::plane::{Deal, Dispatch, Link, Message, Outputs, PlaneBuilder, ResultOrder, Seat};
use firstmatch_net::systems::copies::Fetched;
use firstmatch_net::systems::{Step, copies, fields, parts};

use super::fixture::{Fixture, Rows};

/// Message of a plane whose rules come back.
enum Carried {
    Rows(Rows),
    /// The latest packet of a cache, with its answer, for the updater.
    Sample(Entry),
    /// Evolved rules for a cache.
    Evolved {
        cache: u64,
        entries: Vec<Entry>,
    },
}

/// Evolved rule of one packet, the smallest that there is.
type Entry = (Vec<u32>, Option<Match>);

impl Message for Carried {
    fn packets(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.packets(),
            Self::Sample(_) => 1,
            Self::Evolved { .. } => 0,
        }
    }

    fn flow(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.flow,
            Self::Evolved { cache, .. } => *cache,
            Self::Sample(_) => 0,
        }
    }
}

/// Each worker takes the next packets from memory and does everything; no thread deals them out.
#[test]
fn copies_share_the_packets() {
    let fixture = Arc::new(Fixture::new(200, 3000));
    let messages: Arc<Vec<Rows>> = Arc::new(fixture.messages(1, 64, 0));
    let engine = fixture.engine("bit_select", &fixture.lowered);
    for (workers, is_taken) in [(1, true), (2, false), (3, true), (3, false)] {
        let deal = Arc::new(Deal::new(messages.len(), 1, 4));
        let answers = Arc::new(Mutex::new(vec![0; 3000]));
        let (shared, counts) = (Arc::clone(&fixture), Arc::clone(&answers));
        let check = Step::new("check", move |_: &Seat| {
            let (fixture, counts) = (Arc::clone(&shared), Arc::clone(&counts));
            move |rows: Rows| {
                fixture.check(&rows, &mut counts.lock().expect("no panic"));
                (!is_taken).then_some(rows)
            }
        });
        let messages = Arc::clone(&messages);
        let mut builder = PlaneBuilder::new();
        let steps = [copies::whole(Arc::clone(&engine)), check];
        let stage = copies::source(&mut builder, "everything", workers, &steps, move |_| {
            let (deal, messages) = (Arc::clone(&deal), Arc::clone(&messages));
            move || deal.next().map_or(Fetched::End, |range| Fetched::Message(messages[range.start].clone()))
        });
        if !is_taken {
            builder.leave(stage, Link::new().capacity(2));
        }
        let plane = builder.start().expect("the plane is good");
        let delivered: usize = std::iter::from_fn(|| plane.recv()).map(|rows| rows.packets()).sum();
        let counters = plane.join().expect("no fault");
        assert_eq!((counters.accepted, counters.lost), (12_000, 0));
        assert_eq!(counters.stages[0].sum().taken.messages, 4 * 47);
        assert_eq!(delivered, if is_taken { 0 } else { 12_000 });
        assert!(answers.lock().expect("no panic").iter().all(|&count| count == 4));
    }
}

/// A lookup in parts, each of them on any number of workers.
#[test]
fn parts_improve_on_one_another() {
    let fixture = Fixture::new(200, 3000);
    for (workers, capacity) in [(&[2][..], 2), (&[1, 2], 8), (&[2, 2], 1), (&[3, 1, 2], 4)] {
        let steps = parts::steps(fixture.parts(workers.len()));
        assert_eq!(steps[0].name(), "part 1");
        fixture.carry(&steps, workers, Link::new().capacity(capacity), fixture.messages(6, 32, 0));
    }
}

#[test]
fn rules_are_divided_without_loss() {
    let fixture = Fixture::new(200, 400);
    for count in [1, 2, 3, 200, 240] {
        let parts = parts::divide(&fixture.set, count);
        let ids: Vec<_> = parts.iter().flat_map(|part| part.iter().map(|rule| (rule.id, rule.priority))).collect();
        assert_eq!(ids, fixture.set.iter().map(|rule| (rule.id, rule.priority)).collect::<Vec<_>>());
        let sizes: Vec<usize> = parts.iter().map(RuleSet::len).collect();
        assert!(sizes.len() == count && sizes.iter().max() <= sizes.iter().min().map(|least| least + 1).as_ref());
    }
}

/// Each step searches one key word; the last takes the first region that all have found.
#[test]
fn fields_are_merged() {
    let fixture = Fixture::new(100, 1500);
    let steps = fields::steps(&fixture.lowered).expect("few regions");
    let workers: Vec<usize> = (0..steps.len()).map(|at| 1 + at % 2).collect();
    let width = fields::width(&fixture.lowered).expect("few regions");
    fixture.carry(&steps, &workers, Link::new().capacity(4), fixture.messages(4, 16, width));
}

#[test]
fn rules_that_no_field_search_takes_are_refused() {
    let width = |text: &str| {
        let set = firstmatch_formats::parse(text, &Default::default()).expect("good rules").rules;
        let lowered = lower(&set, &set.schemas()[0], &Default::default()).expect("few regions");
        fields::width(&lowered).map_err(|error| error.to_string())
    };
    let many = (0..8193).map(|port| format!("permit dport {port}\n"));
    assert_eq!(width("family ipv4\npermit tcp\n"), Ok(1));
    let masked = width("family ipv4\npermit src 10.0.0.1/255.0.0.255\n").expect_err("a mask");
    assert_eq!(masked, "the rules have values under masks; expected intervals");
    let many = width(&["family ipv4\n".to_owned()].into_iter().chain(many).collect::<String>()).expect_err("many");
    assert_eq!(many, "8193 regions; expected at most 8192");
}

/// Hits leave from the caches, misses from the classifiers; samples go to an updater, whose rules come back by a lossy
/// link to an earlier stage.
#[test]
fn rules_come_back_by_a_lossy_link() {
    let fixture = Fixture::new(200, 400);
    let engine = fixture.engine("bit_select", &fixture.lowered);
    let mut builder = PlaneBuilder::new();
    let cache = builder.stage("cache", 2, |_| {
        let mut entries: Vec<Entry> = Vec::new();
        move |message: Carried, out: &mut Outputs<Carried>| {
            let rows = match message {
                Carried::Rows(rows) => rows,
                Carried::Evolved { entries: new, .. } => return entries = new,
                Carried::Sample(_) => panic!("samples go to the updater"),
            };
            let find = |row: &[u32]| entries.iter().find(|(key, _)| key == row).map(|(_, answer)| *answer);
            let found: Vec<_> = (0..rows.numbers.len()).map(|at| find(rows.keys.keys().row(at))).collect();
            for is_hit in [false, true] {
                let at: Vec<usize> = (0..found.len()).filter(|&at| found[at].is_some() == is_hit).collect();
                if at.is_empty() {
                    continue;
                }
                let mut keys = KeyBuf::new(rows.keys.schema());
                at.iter().for_each(|&at| keys.push().copy_from_slice(rows.keys.keys().row(at)));
                let numbers = at.iter().map(|&at| rows.numbers[at]).collect();
                let best = at.iter().map(|&at| found[at].flatten()).collect();
                let part = Rows { flow: rows.flow, keys, numbers, best, words: Vec::new() };
                out.send_to(usize::from(is_hit), Carried::Rows(part));
            }
        }
    });
    let full = builder.stage("full", 2, move |_| {
        let engine = Arc::clone(&engine);
        let mut scratch = engine.scratch();
        move |mut message: Carried, out: &mut Outputs<Carried>| {
            if let Carried::Rows(rows) = &mut message {
                engine.classify_batch(&mut scratch, rows.keys.keys(), &mut rows.best);
                let last = rows.numbers.len() - 1;
                out.send_to(1, Carried::Sample((rows.keys.keys().row(last).to_vec(), rows.best[last])));
            }
            out.send(message);
        }
    });
    let updater = builder.stage("updater", 1, move |seat| {
        let control = seat.control.clone();
        let mut window: VecDeque<Entry> = VecDeque::new();
        move |message: Carried, out: &mut Outputs<Carried>| {
            let Carried::Sample(sample) = message else { panic!("only samples come here") };
            if !window.contains(&sample) {
                window.push_back(sample);
            }
            if window.len() > 20 {
                window.pop_front();
            }
            for cache in 0..2 {
                out.send(Carried::Evolved { cache, entries: window.iter().cloned().collect() });
            }
            // Dynamic assignment: more classifiers where more misses wait.
            let queued = control.queued(full.index());
            control.set_active(full.index(), if queued.messages > 2 { 2 } else { 1 });
        }
    });
    let link = Link::new().capacity(4);
    builder.enter(cache, link).link(cache, full, link.dispatch(Dispatch::Lane)).leave(cache, link);
    builder.leave(full, link).link(full, updater, Link::lossy().capacity(1));
    builder.link(updater, cache, Link::lossy().capacity(1));
    assert_eq!(builder.order(), ResultOrder::NotKept { reason: "messages take several ways" });

    let plane = builder.start().expect("the plane is good");
    let hits = || {
        let rings = plane.counters().rings;
        let from_cache = |ring: &&firstmatch_net::plane::RingCounters| {
            matches!(ring.from, firstmatch_net::plane::RingEnd::Worker { stage: 0, .. })
                && ring.to == firstmatch_net::plane::RingEnd::Caller
        };
        rings.iter().filter(from_cache).map(|ring| ring.sent.packets).sum::<u64>()
    };
    let mut rounds = 0;
    // Rules come back sooner or later; each round has the same packets.
    while hits() < 100 {
        rounds += 1;
        let mut answers = vec![0; fixture.expected.len()];
        thread::scope(|scope| {
            scope.spawn(|| {
                for rows in fixture.messages(2, 8, 0) {
                    assert!(plane.send(Carried::Rows(rows)).is_ok());
                }
            });
            while answers.iter().sum::<u32>() < 400 {
                let Some(Carried::Rows(rows)) = plane.recv() else { panic!("only rows come out") };
                fixture.check(&rows, &mut answers);
            }
        });
        assert!(answers.iter().all(|&count| count == 1));
    }
    plane.stop();
    assert!(plane.recv().is_none());
    let counters = plane.join().expect("no fault");
    assert_eq!((counters.delivered, counters.lost), (400 * rounds, 0));
}
