//! The four forms with real lookups: replicated, context-pipelined, field-pipelined and Storm's.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::thread;

use firstmatch_core::engines::registry::{ENGINES, Settings};
use firstmatch_core::rule::{ExpansionLimits, FieldValues, Lowered, RuleSet, first_match, lower};
use firstmatch_core::{Classifier, KeyBuf, Match, Schema};
use firstmatch_net::plane::{Deal, Dispatch, FlowHash, Link, Message, Outputs, PlaneBuilder, Pulled, ResultOrder};
use firstmatch_testkit::rng::Rng;

/// Rows of one worker's flows.
#[derive(Clone)]
struct Rows {
    flow: u64,
    keys: KeyBuf,
    /// Number of the packet of each row.
    numbers: Vec<u32>,
    /// Best match of each row so far.
    best: Vec<Option<Match>>,
    /// For each row a bit for each region that matches so far, if lookups go field by field.
    vectors: Vec<Vec<u64>>,
}

/// Message of any form.
enum Carried {
    Rows(Rows),
    /// The latest packet of a cache, with its answer, for Storm's updater.
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
            Self::Rows(rows) => rows.numbers.len(),
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

/// Rules, packets and the oracle's answers.
struct Fixture {
    set: RuleSet,
    schema: Schema,
    lowered: Lowered,
    keys: KeyBuf,
    expected: Vec<Option<Match>>,
}

impl Fixture {
    fn new(rules: usize, packets: usize) -> Self {
        let mut rng = Rng::new(7);
        let mut text = "family ipv4\n".to_owned();
        for _ in 0..rules {
            let proto = rng.any_of(&["tcp", "udp"]);
            let (source, target, port) = (rng.below(8), rng.below(8), rng.below(1000));
            let source = if rng.one_in(3) { String::new() } else { format!("src 10.{source}.0.0/16 ") };
            text += &format!("permit {proto} {source}dst 192.0.{target}.0/24 dport {port}-{}\n", port + 200);
        }
        let set: RuleSet = firstmatch_formats::parse(&text, &Default::default()).expect("the rules are good").rules;
        let schema = set.schemas()[0].clone();
        let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("few regions");
        let (mut keys, mut expected) = (KeyBuf::new(&schema), Vec::new());
        for _ in 0..packets {
            let (source, target) = (0x0A00_0001 | rng.below(9) << 16, 0xC000_0001 | rng.below(8) << 8);
            let values = [source, target, rng.below(9), rng.below(1200), rng.any_of(&[6, 17])];
            let values = values.map(|value| Some(value as u128)).to_vec();
            let packet = FieldValues { family: schema.family(), values };
            keys.push_values(&packet);
            let rule = first_match(&set, &packet);
            expected.push(rule.map(|rule| Match { rule: rule.id, priority: rule.priority }));
        }
        let matched = expected.iter().flatten().count();
        assert!(matched > packets / 4 && matched < packets, "{matched} of {packets} packets match");
        Self { set, schema, lowered, keys, expected }
    }

    /// Returns messages of at most `batch` packets, each of the flows of one of `groups` groups.
    fn messages(&self, groups: u64, batch: usize) -> Vec<Carried> {
        let hash = FlowHash::new().of_rows(&self.schema);
        let empty = |flow| {
            let keys = KeyBuf::new(&self.schema);
            Rows { flow, keys, numbers: Vec::new(), best: Vec::new(), vectors: Vec::new() }
        };
        let mut open: Vec<Rows> = (0..groups).map(empty).collect();
        let mut messages = Vec::new();
        for number in 0..self.keys.len() {
            let row = self.keys.keys().row(number);
            let flow = hash.of(row) % groups;
            let rows = &mut open[flow as usize];
            rows.keys.push().copy_from_slice(row);
            rows.numbers.push(number as u32);
            rows.best.push(None);
            if rows.numbers.len() == batch {
                messages.push(Carried::Rows(std::mem::replace(rows, empty(flow))));
            }
        }
        messages.extend(open.into_iter().filter(|rows| !rows.numbers.is_empty()).map(Carried::Rows));
        messages
    }

    /// Sends all messages through a plane and compares the answers with the oracle's.
    fn carry(&self, builder: &PlaneBuilder<Carried>, messages: Vec<Carried>) {
        let plane = builder.start().expect("the plane is good");
        let mut answers = vec![0; self.expected.len()];
        thread::scope(|scope| {
            scope.spawn(|| {
                messages.into_iter().for_each(|message| assert!(plane.send(message).is_ok()));
                plane.stop();
            });
            while let Some(message) = plane.recv() {
                self.check(&message, &mut answers);
            }
        });
        plane.join().expect("no fault");
        assert!(answers.iter().all(|&count| count == 1));
    }

    /// Compares the answers of a message and counts them by packet.
    fn check(&self, message: &Carried, answers: &mut [u32]) {
        let Carried::Rows(rows) = message else { panic!("only rows come out") };
        for (&number, best) in rows.numbers.iter().zip(&rows.best) {
            assert_eq!(*best, self.expected[number as usize], "packet {number}");
            answers[number as usize] += 1;
        }
    }

    fn engine(&self, name: &str, lowered: &Lowered) -> Arc<dyn Classifier> {
        let entry = ENGINES.iter().find(|entry| entry.name == name).expect("it is listed");
        (entry.build)(lowered, &Settings::default()).expect("it fits").into()
    }

    /// Returns the rules in two halves, each with the ids and priorities that they have in the whole.
    fn halves(&self) -> [Lowered; 2] {
        let ids: Vec<_> = self.set.iter().map(|rule| rule.id).collect();
        let (first, second) = ids.split_at(ids.len() / 2);
        [second, first].map(|others| {
            let mut half = self.set.clone();
            others.iter().for_each(|&id| drop(half.remove(id).expect("it is in the set")));
            lower(&half, &self.schema, &ExpansionLimits::default()).expect("few regions")
        })
    }
}

/// Each worker takes the next packets from memory and does everything; no thread deals them out.
#[test]
fn replicated() {
    let fixture = Arc::new(Fixture::new(200, 3000));
    let engine = fixture.engine("bit_select", &fixture.lowered);
    for workers in 1..=3 {
        let deal = Arc::new(Deal::new(3000, 64, 4));
        let answers = Arc::new(Mutex::new(vec![0; 3000]));
        let (shared, counts) = (Arc::clone(&fixture), Arc::clone(&answers));
        let engine = Arc::clone(&engine);
        let mut builder = PlaneBuilder::<Carried>::new();
        builder.source("everything", workers, move |_| {
            let (engine, fixture, deal, counts) =
                (Arc::clone(&engine), Arc::clone(&shared), Arc::clone(&deal), Arc::clone(&counts));
            let (mut scratch, mut best) = (engine.scratch(), vec![None; 64]);
            move |_: &mut Outputs<Carried>| {
                let Some(range) = deal.next() else { return Pulled::End };
                let (from, best) = (range.start, &mut best[..range.len()]);
                engine.classify_batch(&mut scratch, fixture.keys.keys().slice(from, range.end), best);
                let mut counts = counts.lock().expect("no panic");
                for (number, best) in range.clone().zip(best) {
                    assert_eq!(*best, fixture.expected[number]);
                    counts[number] += 1;
                }
                Pulled::Packets(range.len())
            }
        });
        let plane = builder.start().expect("the plane is good");
        assert!(plane.recv().is_none());
        let counters = plane.join().expect("no fault");
        assert_eq!((counters.accepted, counters.stages[0].sum().taken.messages), (12_000, 4 * 47));
        assert!(answers.lock().expect("no panic").iter().all(|&count| count == 4));
    }
}

/// Returns work that improves the best match by one engine.
fn improve(engine: Arc<dyn Classifier>) -> impl FnMut(Carried, &mut Outputs<Carried>) {
    let mut scratch = engine.scratch();
    move |mut message, out| {
        if let Carried::Rows(rows) = &mut message {
            engine.improve_batch(&mut scratch, &rows.keys.keys(), &mut rows.best);
        }
        out.send(message);
    }
}

/// A lookup is cut in two parts, each of them replicated.
#[test]
fn context_pipelined() {
    let fixture = Fixture::new(200, 3000);
    let [first, second] = fixture.halves().map(|half| fixture.engine("bit_select", &half));
    for (workers, capacity) in [([1, 1], 8), ([2, 2], 1), ([3, 2], 4)] {
        let link = Link::new().capacity(capacity);
        let [first, second] = [&first, &second].map(Arc::clone);
        let mut builder = PlaneBuilder::new();
        let first = builder.stage("first", workers[0], move |_| improve(Arc::clone(&first)));
        let second = builder.stage("second", workers[1], move |_| improve(Arc::clone(&second)));
        builder.enter(first, link).link(first, second, link).leave(second, link);
        fixture.carry(&builder, fixture.messages(6, 32));
    }
}

/// One stage searches one key word and leaves the regions that match; the last stage takes the first of them.
#[test]
fn field_pipelined() {
    let fixture = Arc::new(Fixture::new(100, 1500));
    let words = fixture.schema.words().len();
    let link = Link::new().capacity(4);
    let mut builder = PlaneBuilder::new();
    let input = builder.stage("input", 1, {
        let regions = fixture.lowered.regions().len();
        move |_| {
            move |mut message: Carried, out: &mut Outputs<Carried>| {
                if let Carried::Rows(rows) = &mut message {
                    rows.vectors = vec![vec![u64::MAX; regions.div_ceil(64)]; rows.numbers.len()];
                }
                out.send(message);
            }
        }
    });
    builder.enter(input, link);
    let mut last = input;
    for word in 0..words {
        let shared = Arc::clone(&fixture);
        let stage = builder.stage(&format!("word{word}"), 1 + word % 2, move |_| {
            let fixture = Arc::clone(&shared);
            move |mut message: Carried, out: &mut Outputs<Carried>| {
                if let Carried::Rows(rows) = &mut message {
                    let regions = fixture.lowered.regions();
                    for (row, vector) in rows.vectors.iter_mut().enumerate() {
                        let value = rows.keys.keys().row(row)[word];
                        let holds = |at: &usize| {
                            let region = regions.get(*at);
                            (region.lo[word]..=region.hi[word]).contains(&value)
                        };
                        (0..regions.len()).filter(|at| !holds(at)).for_each(|at| vector[at / 64] &= !(1 << (at % 64)));
                    }
                }
                out.send(message);
            }
        });
        builder.link(last, stage, link);
        last = stage;
    }
    let shared = Arc::clone(&fixture);
    let output = builder.stage("output", 1, move |_| {
        let fixture = Arc::clone(&shared);
        move |mut message: Carried, out: &mut Outputs<Carried>| {
            if let Carried::Rows(rows) = &mut message {
                let is_set = |vector: &[u64], at: usize| vector[at / 64] >> (at % 64) & 1 != 0;
                for (best, vector) in rows.best.iter_mut().zip(&rows.vectors) {
                    let rules = fixture.lowered.rules();
                    *best = (0..rules.len())
                        .filter(|&at| is_set(vector, at))
                        .map(|at| rules[at])
                        .min_by_key(|m| m.priority);
                }
            }
            out.send(message);
        }
    });
    builder.link(last, output, link).leave(output, link);
    assert_eq!(builder.order(), ResultOrder::Flow);
    fixture.carry(&builder, fixture.messages(4, 16));
}

/// Storm: hits leave from the caches, misses from the classifiers; samples go to the updater, whose rules come back.
#[test]
fn storm() {
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
                let part = Rows { flow: rows.flow, keys, numbers, best, vectors: Vec::new() };
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
                for message in fixture.messages(2, 8) {
                    assert!(plane.send(message).is_ok());
                }
            });
            while answers.iter().sum::<u32>() < 400 {
                fixture.check(&plane.recv().expect("it runs"), &mut answers);
            }
        });
        assert!(answers.iter().all(|&count| count == 1));
    }
    plane.stop();
    assert!(plane.recv().is_none());
    let counters = plane.join().expect("no fault");
    assert_eq!((counters.delivered, counters.lost), (400 * rounds, 0));
}
