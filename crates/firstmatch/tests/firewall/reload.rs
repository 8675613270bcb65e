//! A rule file that is read again: what stays, what changes, and what workers see of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use firstmatch::core::rule::RuleId;
use firstmatch::{Firewall, LinkType, Verdict};

use super::frame;

/// Random numbers, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % end
    }
}

/// Ports of the packets that are compared.
const PORTS: u16 = 60;

/// Returns verdict and line of the decision on each packet.
fn answers(firewall: &Firewall) -> Vec<(Verdict, Option<u32>)> {
    let mut worker = firewall.worker();
    worker.push_all(LinkType::Ethernet, &(0..PORTS).map(frame).collect::<Vec<_>>());
    // An IPv6 header without more: unknown, or of the other family.
    worker.push(LinkType::Ethernet, &[&[0; 12][..], &[0x86, 0xDD, 0x60], &[0; 39]].concat());
    worker.classify().iter().map(|decision| (decision.verdict, decision.line.map(u32::from))).collect()
}

/// Returns id, line, label and text of each live rule.
fn rules(firewall: &Firewall) -> Vec<(RuleId, Option<u32>, Option<String>, String)> {
    let listed = firewall.rules().into_iter();
    listed.map(|rule| (rule.id, rule.line.map(u32::from), rule.label, rule.text.expect("a text"))).collect()
}

/// Asserts that `firewall` is as if it had been built from `text`.
fn assert_is(firewall: &Firewall, text: &str) {
    let fresh = Firewall::from_text(text).expect("good rules");
    assert_eq!(answers(firewall), answers(&fresh), "{text}");
    let plain =
        |of: &Firewall| rules(of).into_iter().map(|(_, line, label, text)| (line, label, text)).collect::<Vec<_>>();
    assert_eq!(plain(firewall), plain(&fresh), "{text}");
    assert_eq!(firewall.schemas(), fresh.schemas());
    assert_eq!((firewall.policy(), firewall.warnings()), (fresh.policy(), fresh.warnings()));
}

fn ids(firewall: &Firewall) -> Vec<RuleId> {
    rules(firewall).into_iter().map(|(id, ..)| id).collect()
}

#[test]
fn what_is_in_both_files_stays() {
    let before = "deny tcp dport 1\ndeny tcp dport 2\npermit tcp dport 3\npermit\n";
    let firewall = Firewall::builder().counters(true).build(before).expect("good rules");
    answers(&firewall);
    let old = ids(&firewall);
    // Nothing differs.
    let done = firewall.reload(before).expect("good rules");
    assert_eq!((done.generation, done.kept, done.inserted, done.removed, done.is_rebuilt), (0, 4, 0, 0, false));
    // Comments alone: lines change.
    let commented = "# first\n\ndeny tcp dport 1\n# then\ndeny tcp dport 2\npermit tcp dport 3\npermit\n";
    let done = firewall.reload(commented).expect("good rules");
    assert_eq!((done.generation, done.kept, ids(&firewall) == old), (1, 4, true));
    assert_is(&firewall, commented);
    // Labels alone: no packet can tell, so there is no generation.
    let labelled = commented.replace("dport 2", "dport 2 label \"two\"");
    let done = firewall.reload(&labelled).expect("good rules");
    assert_eq!((done.generation, done.kept, ids(&firewall) == old), (1, 4, true));
    assert_is(&firewall, &labelled);
    // One rule replaced, one moved.
    let moved = "permit tcp dport 3\ndeny tcp dport 2 label \"two\"\ndeny tcp dport 9\npermit\n";
    let done = firewall.reload(moved).expect("good rules");
    assert_eq!((done.generation, done.kept, done.inserted, done.removed), (2, 2, 2, 2));
    let new = ids(&firewall);
    // One of the two rules that changed places stays.
    assert_eq!((new[0], new[3]), (old[2], old[3]));
    let counted = |firewall: &Firewall| firewall.count(old[2]).map(|count| count.packets);
    let before = counted(&firewall);
    assert_is(&firewall, moved);
    assert_eq!(counted(&firewall), before.map(|before| before + 1));
}

#[test]
fn every_kind_of_change_gives_what_a_new_firewall_is() {
    let list = |ports: std::ops::Range<u32>| ports.map(|port| format!("deny tcp dport {port}\n")).collect::<String>();
    let forty = |of: u32| format!("permit tcp dport 1\n{}permit tcp dport 2\n", list(10..10 + of));
    let long: String =
        (0..1200).map(|number| format!("deny tcp dport {} src 10.{}.0.0/16\n", number % 50, number % 256)).collect();
    let reversed: String = long.lines().rev().map(|line| format!("{line}\n")).collect();
    let texts = [
        "permit\n".to_owned(),
        forty(0),
        forty(40),
        forty(50),
        long.clone(),
        reversed,
        long,
        String::new(),
        "default permit\ndeny tcp dport 5\n".to_owned(),
        "default permit\nunknown permit\ndeny tcp dport 5\n".to_owned(),
        "default permit\nunknown permit\nfragments layer3\ndeny tcp dport 5\n".to_owned(),
        "deny tcp dport 5\ndeny vlan_vid 7\npermit\n".to_owned(),
        "family ipv4\ndeny tcp dport 5\ndeny ttl 64\npermit\n".to_owned(),
        "family ipv6\ndeny tcp dport 5\npermit\n".to_owned(),
        "deny tcp dport 5\nmark 7 tcp dport 6\npermit\n".to_owned(),
        "deny tcp dport 5\ndeny tcp\npermit\n".to_owned(),
    ];
    for engine in ["meta", "hypercuts", "tuplemerge"] {
        let firewall = Firewall::builder().engine(engine).expect("an engine").build(&texts[0]).expect("good rules");
        let mut worker = firewall.worker();
        let mut generation = 0;
        for text in texts.iter().chain(texts.iter().rev()).chain(texts.iter().step_by(3)) {
            let done = firewall.reload(text).expect("good rules");
            assert_is(&firewall, text);
            assert!(done.generation >= generation && done.generation == firewall.generation());
            generation = done.generation;
            assert_eq!(done.warnings, *firewall.warnings());
            // A worker from before follows.
            worker.push(LinkType::Ethernet, &frame(5));
            let followed = worker.classify()[0];
            assert_eq!((followed.verdict, followed.line.map(u32::from)), answers(&firewall)[5]);
            assert_eq!(worker.generation(), generation);
        }
    }
}

#[test]
fn what_cannot_be_taken_changes_nothing() {
    let text = "deny tcp dport 5 label \"five\"\npermit\n";
    let firewall = Firewall::builder().memory_limit(1 << 20).build(text).expect("good rules");
    let (before, old) = (answers(&firewall), rules(&firewall));
    let faulty = firewall.reload("deny tcp dport 5\npermit tpc\n").expect_err("a fault");
    assert_eq!((faulty.faults()[0].line, faulty.faults()[0].column), (2, 8));
    let huge: String =
        (0..40_000).map(|n| format!("deny tcp dport {n} src 10.{}.{}.0/24\n", n % 256, n / 256)).collect();
    for text in [huge.clone(), format!("default permit\n{huge}")] {
        assert!(firewall.reload(&text).expect_err("no room").budget_exceeded());
        assert_eq!((answers(&firewall), rules(&firewall)), (before.clone(), old.clone()));
    }
    assert_is(&firewall, text);
    assert_eq!((firewall.generation(), firewall.shape()), (0, 0));
}

#[test]
fn changes_by_updates_are_undone() {
    let text = "deny tcp dport 5\npermit\n";
    let firewall = Firewall::from_text(text).expect("good rules");
    let old = ids(&firewall);
    let mut update = firewall.update();
    update.prepend("permit tcp dport 5").expect("a good rule");
    update.remove(old[0]).expect("it is live");
    update.commit().expect("there is room");
    let done = firewall.reload(text).expect("good rules");
    assert_eq!((done.kept, done.inserted, done.removed), (1, 1, 1));
    assert_eq!(ids(&firewall)[1], old[1]);
    assert_is(&firewall, text);
}

/// Rules come and go at random, with fields and policies: ids never come back, kept rules keep theirs, and the counts of
/// all rules are the packets that matched.
#[test]
fn ids_never_come_back_and_counts_stay() {
    let mut random = Random(3);
    let firewall = Firewall::builder().counters(true).build("").expect("no rules");
    let mut worker = firewall.worker();
    let (mut gone, mut live): (BTreeSet<RuleId>, BTreeMap<RuleId, String>) = Default::default();
    let mut matched: BTreeMap<RuleId, u64> = BTreeMap::new();
    let mut lines: Vec<u16> = Vec::new();
    for step in 0..400 {
        for _ in 0..random.below(4) {
            let at = random.below(lines.len() as u64 + 1) as usize;
            match random.below(3) {
                0 if at < lines.len() => _ = lines.remove(at),
                _ => lines.insert(at, random.below(30) as u16),
            }
        }
        let mut text: String = match random.below(8) {
            0 => "default permit\n".to_owned(),
            1 => "# a comment\n".to_owned(),
            _ => String::new(),
        };
        text.extend(lines.iter().map(|port| format!("deny tcp dport {port}\n")));
        if random.below(6) == 0 {
            text.push_str("deny vlan_vid 9\n");
        }
        firewall.reload(&text).expect("good rules");
        let fresh = Firewall::from_text(&text).expect("good rules");
        let now: BTreeMap<RuleId, String> = rules(&firewall).into_iter().map(|(id, _, _, text)| (id, text)).collect();
        for (id, text) in &now {
            assert!(!gone.contains(id), "step {step}: {id} came back");
            assert!(live.get(id).is_none_or(|old| old == text), "step {step}: {id} is another rule");
        }
        gone.extend(live.keys().filter(|id| !now.contains_key(id)));
        live = now;
        worker.push_all(LinkType::Ethernet, &(0..30).map(frame).collect::<Vec<_>>());
        for (decision, expected) in worker.classify().iter().zip(answers(&fresh)) {
            assert_eq!((decision.verdict, decision.line.map(u32::from)), expected, "step {step}");
            decision.rule.into_iter().for_each(|rule| *matched.entry(rule).or_default() += 1);
        }
        for id in live.keys() {
            let count = firewall.count(*id).map(|count| count.packets);
            assert_eq!(count, Some(matched.get(id).copied().unwrap_or(0)), "step {step}: {id}");
        }
    }
    assert!(gone.len() > 200 && firewall.shape() > 20);
}

/// Workers that push, workers that take batches of others, and a thread that reloads: each batch is of one rule set.
#[test]
fn batches_beside_reloads_are_of_one_rule_set() {
    let texts =
        ["default permit\ndeny tcp dport 0-29\n", "deny vlan_vid 3\nmark 1 tcp\n", "deny vlan_vid 3\nmark 2 tcp\n"];
    let firewall = Firewall::from_text(texts[0]).expect("good rules");
    let expected: Vec<Vec<Verdict>> = texts
        .iter()
        .map(|text| {
            let fresh = Firewall::from_text(text).expect("good rules");
            answers(&fresh).into_iter().take(PORTS.into()).map(|(verdict, _)| verdict).collect()
        })
        .collect();
    let frames: Vec<Vec<u8>> = (0..PORTS).map(frame).collect();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let pushed = || {
            let (mut worker, mut seen) = (firewall.worker(), BTreeSet::new());
            while !stop.load(Ordering::Relaxed) {
                worker.push_all(LinkType::Ethernet, &frames);
                let verdicts: Vec<_> = worker.classify().iter().map(|decision| decision.verdict).collect();
                seen.insert(expected.iter().position(|of| *of == verdicts).expect("one rule set"));
            }
            seen.len()
        };
        let taken = || {
            let (mut worker, mut batch, mut seen) = (firewall.worker(), firewall.batch(), BTreeSet::new());
            while !stop.load(Ordering::Relaxed) {
                batch.clear();
                frames.iter().for_each(|frame| _ = batch.push_frame(LinkType::Ethernet, frame, 54));
                let mut verdicts = Vec::new();
                if worker.classify_batch(&batch, |_, decision| verdicts.push(decision.verdict)).is_err() {
                    assert!(verdicts.is_empty());
                    batch = firewall.batch();
                    continue;
                }
                seen.insert(expected.iter().position(|of| *of == verdicts).expect("one rule set"));
            }
            seen.len()
        };
        let workers = [scope.spawn(pushed), scope.spawn(taken), scope.spawn(pushed)];
        for round in 0..300 {
            firewall.reload(texts[round % texts.len()]).expect("good rules");
            thread::yield_now();
        }
        stop.store(true, Ordering::Relaxed);
        for worker in workers {
            assert!(worker.join().expect("no panic") >= 1);
        }
    });
}
