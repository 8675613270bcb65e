//! Rules with packets and the oracle's answers, and messages that carry the packets through a plane.

use std::sync::Arc;
use std::thread;

use firstmatch_core::engines::registry::{ENGINES, Settings};
use firstmatch_core::rule::{ExpansionLimits, FieldValues, Lowered, RuleSet, first_match, lower};
use firstmatch_core::{Classifier, KeyBuf, Match, Schema};
use firstmatch_net::plane::{FlowHash, Link, Message, PlaneBuilder, ResultOrder};
pub(crate) use firstmatch_net::systems::Rows;
use firstmatch_net::systems::{Step, chain, parts};
use firstmatch_testkit::rng::Rng;

/// Number of packets through each form, or what `SYSTEM_PACKETS` says (`./ci.sh plane`).
pub(crate) fn packets() -> usize {
    std::env::var("SYSTEM_PACKETS").map_or(100_000, |text| text.parse().expect("it is a number"))
}

/// Rules, packets and the oracle's answers.
pub(crate) struct Fixture {
    pub(crate) set: RuleSet,
    pub(crate) schema: Schema,
    pub(crate) lowered: Lowered,
    pub(crate) keys: KeyBuf,
    pub(crate) expected: Vec<Option<Match>>,
}

impl Fixture {
    pub(crate) fn new(rules: usize, packets: usize) -> Self {
        Self::with(7, rules, packets, 0)
    }

    /// Returns rules drawn by `seed`, and packets of which `popular` in four have one of a few headers, but for the
    /// source port.
    pub(crate) fn with(seed: u64, rules: usize, packets: usize, popular: usize) -> Self {
        let mut rng = Rng::new(seed);
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
            let mut values = [source, target, rng.below(9), rng.below(1200), rng.any_of(&[6, 17])];
            if rng.below(4) < popular {
                let at = rng.below(5);
                let header = [0x0A00_0001 | at << 16, 0xC000_0001 | at << 8, values[2], 100 * at + 300, 6];
                values = header;
            }
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
    ///
    /// Each packet has `width` words, with bits that no step has set.
    pub(crate) fn messages(&self, groups: u64, batch: usize, width: usize) -> Vec<Rows> {
        let hash = FlowHash::new().of_rows(&self.schema);
        let empty = |flow| {
            let keys = KeyBuf::new(&self.schema);
            Rows { flow, keys, numbers: Vec::new(), best: Vec::new(), words: Vec::new() }
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
            rows.words.resize(rows.numbers.len() * width, 0xA5A5);
            if rows.numbers.len() == batch {
                messages.push(std::mem::replace(rows, empty(flow)));
            }
        }
        messages.extend(open.into_iter().filter(|rows| !rows.numbers.is_empty()));
        messages
    }

    /// Sends all messages through a chain of steps and compares the answers with the oracle's.
    pub(crate) fn carry(&self, steps: &[Step<Rows>], workers: &[usize], link: Link, messages: Vec<Rows>) {
        let mut builder = PlaneBuilder::new();
        let stages = chain(&mut builder, steps, workers, link);
        builder.enter(stages[0], link).leave(stages[stages.len() - 1], link);
        assert_eq!(builder.order(), ResultOrder::Flow);
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

    /// Returns messages of `packets` packets, a multiple of those there are: the same ones over and over, numbered from
    /// 0.
    pub(crate) fn numbered(&self, packets: usize, batch: usize) -> impl Iterator<Item = Rows> {
        let messages = self.messages(3, batch, 0);
        let rounds = packets / self.keys.len();
        (0..rounds).flat_map(move |round| {
            let more = (round * messages.iter().map(Message::packets).sum::<usize>()) as u32;
            let again = |rows: &Rows| {
                let numbers = rows.numbers.iter().map(|number| number + more).collect();
                Rows { numbers, ..rows.clone() }
            };
            messages.iter().map(again).collect::<Vec<_>>()
        })
    }

    /// Compares the answers of a message and counts them by packet.
    pub(crate) fn check(&self, rows: &Rows, answers: &mut [u32]) {
        assert_eq!((rows.keys.len(), rows.best.len()), (rows.numbers.len(), rows.numbers.len()));
        for (&number, best) in rows.numbers.iter().zip(&rows.best) {
            assert_eq!(*best, self.expected[number as usize % self.expected.len()], "packet {number}");
            answers[number as usize] += 1;
        }
    }

    pub(crate) fn engine(&self, name: &str, lowered: &Lowered) -> Arc<dyn Classifier> {
        let entry = ENGINES.iter().find(|entry| entry.name == name).expect("it is listed");
        (entry.build)(lowered, &Settings::default()).expect("it fits").into()
    }

    /// Returns an engine for each part of the rules.
    pub(crate) fn parts(&self, parts: usize) -> Vec<Arc<dyn Classifier>> {
        let lowered = |set: &RuleSet| lower(set, &self.schema, &ExpansionLimits::default()).expect("few regions");
        parts::divide(&self.set, parts).iter().map(|part| self.engine("bit_select", &lowered(part))).collect()
    }
}
