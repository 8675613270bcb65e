//! Limits at their exact numbers: of an overlay, of a budget, and of the removals before a rebuild is due.

use super::*;
use crate::engine::budget::Budget;
use crate::error::UpdateError;
use crate::select::{Kind, Strategy};

/// A configuration in which no count makes a rebuild due.
fn never() -> Config {
    let never = Some(usize::MAX);
    Config { due: never, dead: never, in_place: never, seed: Some(1), ..Config::default() }
}

/// A rule for each of `count` destination ports.
fn ports(count: usize) -> RuleSet {
    let text: String = (0..count).map(|port| format!("deny dport {port}\n")).collect();
    rules(&format!("family ipv4\n{text}"))
}

fn ids(writer: &Writer) -> Vec<RuleId> {
    writer.rules().iter().map(|rule| rule.id).collect()
}

fn remove(writer: &mut Writer, ids: &[RuleId]) {
    let mut transaction = writer.begin();
    ids.iter().for_each(|&id| transaction.remove(id).expect("it is live"));
    transaction.commit().expect("a removal has room");
}

/// Removes rules and inserts copies of the last one behind it, as one commit.
fn replace(writer: &mut Writer, gone: &[RuleId], count: u64) -> Result<u64, UpdateError> {
    let last = writer.rules().iter().next_back().expect("some are live").spec.clone();
    let mut transaction = writer.begin();
    gone.iter().for_each(|&id| transaction.remove(id).expect("it is live"));
    for at in 1..=count {
        let priority = Priority(last.priority.0 + at);
        transaction.insert(RuleSpec { priority, ..last.clone() }).expect("it fits");
    }
    transaction.commit()
}

/// A rebuild is due when fewer than half of a base's rules are left, unless it was built from eight or fewer.
#[test]
fn a_rebuild_is_due_below_half_of_the_rules() {
    for &kind in Kind::ALL {
        for (count, left) in [(20, Some(9)), (21, Some(10)), (9, Some(4)), (8, None)] {
            let config = Config { strategy: Strategy::Force(kind), ..never() };
            let (_engines, mut writer) = open(ports(count), &config).expect("no budget");
            let ids = ids(&writer);
            for (gone, &id) in (1..).zip(&ids) {
                remove(&mut writer, &[id]);
                let is_due = left.is_some_and(|left| count - gone <= left);
                assert_eq!(writer.rebuild_is_due(), is_due, "{kind}: {gone} of {count} gone");
            }
        }
    }
}

/// An overlay takes rules up to its maximum, counted after the removals of the same commit. The error names both
/// numbers.
#[test]
fn an_overlay_is_full_at_its_number() {
    let config = Config { strategy: Strategy::Force(Kind::Linear), overlay: Some(4), ..never() };
    let (engines, mut writer) = open(ports(20), &config).expect("no budget");
    let all = ids(&writer);
    let held = || engines[0].overlay().0;
    let said = |done: Result<u64, UpdateError>| done.expect_err("it is full").to_string();
    replace(&mut writer, &[], 4).expect("there is room");
    assert_eq!(held(), 4);
    // Removals from the overlay make room for other rules.
    let beside: Vec<RuleId> = ids(&writer).into_iter().filter(|id| !all.contains(id)).collect();
    replace(&mut writer, &beside[..2], 2).expect("two have gone");
    assert_eq!(held(), 4);
    // Removals from the base make none.
    assert_eq!(said(replace(&mut writer, &all[..2], 2)), "6 rules would wait for a rebuild; at most 4 may");
    assert_eq!(said(replace(&mut writer, &all[..1], 1)), "5 rules would wait for a rebuild; at most 4 may");
    assert_eq!((held(), writer.rules().len(), engines[0].epoch()), (4, 24, 0));
    // More than an overlay can ever hold is not refused.
    replace(&mut writer, &[], 5).expect("a new base takes them");
    assert_eq!((held(), writer.rules().len(), engines[0].epoch()), (0, 29, 1));
}

/// The error of a full budget names the bytes needed and the bytes allowed.
#[test]
fn a_full_budget_says_what_is_missing() {
    for &kind in Kind::ALL {
        let config = Config { strategy: Strategy::Force(kind), in_place: Some(0), ..never() };
        let free = open(ports(20), &config).expect("no budget").0[0].explain().bytes;
        let mut refused = 0;
        for more in [200, 2_000, 8_000] {
            let budget = Budget { run_bytes: free + more };
            let Ok((engines, mut writer)) = open(ports(20), &Config { budget, ..config.clone() }) else { continue };
            for _ in 0..200 {
                let bytes = engines[0].explain().bytes;
                let Err(error) = replace(&mut writer, &[], 1) else { continue };
                let said = error.to_string();
                let needed = said.strip_prefix("the engine would need ").and_then(|rest| rest.split_once(" bytes"));
                let (needed, rest) = needed.unwrap_or_else(|| panic!("{said}"));
                assert_eq!(rest, format!("; the budget allows {}", budget.run_bytes));
                assert!(needed.parse::<usize>().is_ok_and(|needed| needed > budget.run_bytes), "{said}");
                assert!(error.budget_exceeded() && engines[0].explain().bytes == bytes, "{said}");
                refused += 1;
                break;
            }
        }
        assert!(refused > 0, "{kind}");
    }
}

/// Numbers of 0 make no rebuild due before something has changed.
#[test]
fn nothing_is_due_before_a_change() {
    let zero = Some(0);
    let config =
        Config { strategy: Strategy::Force(Kind::Linear), due: zero, dead: zero, in_place: zero, ..Config::default() };
    let (_engines, mut writer) = open(ports(20), &config).expect("no budget");
    assert!(!writer.rebuild_is_due());
    let first = ids(&writer)[0];
    remove(&mut writer, &[first]);
    assert!(writer.rebuild_is_due());
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("the last");
    assert!(!writer.rebuild_is_due());
    replace(&mut writer, &[], 1).expect("there is room");
    assert!(writer.rebuild_is_due());
}

/// Attachments and lists of regions count as all other parts do: no commit exceeds the budget by them.
#[test]
fn attachments_and_regions_are_within_the_budget() {
    for (attachments, overlaps) in [(true, false), (false, true), (true, true)] {
        let config = Config { strategy: Strategy::Force(Kind::Linear), in_place: Some(0), ..never() };
        commits_keep_the_budget(&Config { attachments, overlaps, ..config });
    }
}

fn commits_keep_the_budget(config: &Config) {
    let free = open(ports(20), config).expect("no budget").0[0].explain().bytes;
    let mut refused = 0;
    for more in (0..40_000).step_by(500) {
        let budget = Budget { run_bytes: free + more };
        let Ok((engines, mut writer)) = open(ports(20), &Config { budget, ..config.clone() }) else { continue };
        // The first 128 slots share a piece of the table, and more need another.
        for _ in 0..12 {
            let done = replace(&mut writer, &[], 20);
            let bytes = engines[0].explain().bytes;
            assert!(bytes <= budget.run_bytes, "{bytes} of {budget:?}");
            if let Err(error) = done {
                assert!(error.budget_exceeded(), "{error}");
                refused += 1;
                break;
            }
        }
    }
    assert!(refused > 5, "{refused}");
}

/// Once a base has changed in place, the statistics of its family count the other replica's base, and shared bytes
/// once.
#[test]
fn a_second_base_counts_what_it_does_not_share() {
    let text: String = (0..40).map(|at| format!("deny dst 10.0.0.{at}\ndeny dst 2001:db8::{at}\n")).collect();
    let config = Config { strategy: Strategy::Force(Kind::BitSelect), ..never() };
    let (engines, mut writer) = open(rules(&text), &config).expect("no budget");
    let second = |family: usize| {
        let stats = engine::Engine::stats(&engines[family]);
        stats.bytes.iter().find(|(part, _)| *part == "second base").map(|(_, bytes)| *bytes)
    };
    assert_eq!([second(0), second(1)], [None, None]);
    for (family, at) in [(1, 1), (0, 0)] {
        let id = ids(&writer)[at];
        remove(&mut writer, &[id]);
        let state = engines[family].shared.replicas.now().1;
        let part = &state.parts[family];
        let shared = part.shared_bytes();
        assert!(shared > 0 && engines[family].explain().in_place == 1, "family {family}");
        // The other replica's base is the one before the removal, and differs by some bytes.
        let own = part.base.stats().total_bytes() - shared;
        assert!(second(family).is_some_and(|second| second.abs_diff(own) < shared / 2), "family {family}");
        assert_eq!(second(0).is_some(), family == 0, "the first family changes last");
    }
}
