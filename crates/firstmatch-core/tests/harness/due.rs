//! Tests of when a rebuild is due: at each number of [`Config`], not one change before.

use firstmatch_core::live::{self, Config, Engine, Kind, Strategy, Writer};
use firstmatch_core::rule::{Priority, RuleId, RuleSpec};

/// Opens `rules` rules of one destination port each over a base of `kind`.
fn open(rules: usize, kind: Kind, config: Config) -> (Engine, Writer, Vec<RuleId>) {
    let mut text = String::from("family ipv4\n");
    (0..rules).for_each(|port| text.push_str(&format!("deny dport {port}\n")));
    let rules = firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).expect("rules").rules;
    let ids = rules.iter().map(|rule| rule.id).collect();
    let config = Config { strategy: Strategy::Force(kind), seed: Some(1), ..config };
    let (mut engines, writer) = live::open(rules, &config).expect("no budget");
    (engines.remove(0), writer, ids)
}

fn remove(writer: &mut Writer, ids: &[RuleId]) {
    let mut transaction = writer.begin();
    ids.iter().for_each(|&id| transaction.remove(id).expect("the rule is live"));
    transaction.commit().expect("a removal has room");
}

/// Inserts `count` copies of a rule behind all others.
fn insert(writer: &mut Writer, count: usize) {
    let last = writer.rules().iter().next_back().expect("some rules are live").spec.clone();
    let mut transaction = writer.begin();
    for at in 1..=count as u64 {
        let priority = Priority(last.priority.0 + at);
        transaction.insert(RuleSpec { priority, ..last.clone() }).expect("the rule fits");
    }
    transaction.commit().expect("the overlay has room");
}

/// A rebuild is due at the configured number, or at the default share of the base.
///
/// The numbers are of rules in the overlay, of dead rules, and of changes in place. For example, 160 rules in the
/// overlay of a base of 8,000 make one due by default.
#[test]
fn a_rebuild_is_due_at_each_number_and_not_before() {
    let free = Config::default;
    // The base is large enough that each share is above the least number.
    for (rules, config, due) in [
        (20, Config { due: Some(7), ..free() }, 7),
        (20, Config { overlay: Some(9), ..free() }, 5),
        (20, free(), 128),
        (8_000, free(), 160),
        (8_000, Config { overlay: Some(64), ..free() }, 32),
    ] {
        let (engine, mut writer, _) = open(rules, Kind::Linear, config);
        insert(&mut writer, due - 1);
        assert!(!writer.rebuild_is_due(), "{rules} rules, {} in the overlay", due - 1);
        insert(&mut writer, 1);
        assert!(writer.rebuild_is_due() && engine.overlay().0 == due, "{rules} rules, {due} in the overlay");
    }
    for (rules, config, due) in
        [(20, Config { dead: Some(7), ..free() }, 7), (2_200, free(), 1_024), (8_000, free(), 2_000)]
    {
        let (engine, mut writer, ids) = open(rules, Kind::Linear, config);
        remove(&mut writer, &ids[..due - 1]);
        assert!(!writer.rebuild_is_due(), "{rules} rules, {} dead", due - 1);
        remove(&mut writer, &ids[due - 1..due]);
        assert!(writer.rebuild_is_due() && engine.explain().dead == due, "{rules} rules, {due} dead");
    }
    for (rules, config, due) in
        [(20, Config { in_place: Some(7), ..free() }, 7), (2_060, free(), 1_030), (2_600, free(), 1_300)]
    {
        let (engine, mut writer, ids) = open(rules, Kind::BitSelect, config);
        remove(&mut writer, &ids[..due - 1]);
        assert!(!writer.rebuild_is_due(), "{rules} rules, {} changed in place", due - 1);
        remove(&mut writer, &ids[due - 1..due]);
        assert!(writer.rebuild_is_due() && engine.explain().in_place == due, "{rules} rules, {due} changed in place");
    }
}

/// The overlay holds as many rules as configured.
///
/// By default these are half of the base's rules and at least 1,024.
#[test]
fn the_overlay_holds_what_it_says() {
    for (rules, overlay, holds) in [(20, None, 1_024), (8_000, None, 4_000), (20, Some(3), 3), (20, Some(0), 0)] {
        let (engine, mut writer, ids) = open(rules, Kind::Linear, Config { overlay, ..Config::default() });
        assert_eq!(engine.overlay(), (0, holds));
        if holds == 3 {
            insert(&mut writer, 3);
            // A removal makes room for an insertion of the same transaction.
            let spec = writer.rules().get(ids[0]).expect("the rule is live").spec.clone();
            let last = writer.rules().iter().next_back().expect("some rules are live").id;
            let mut transaction = writer.begin();
            transaction.remove(last).expect("the rule is live");
            transaction.insert(RuleSpec { priority: Priority(u64::MAX), ..spec.clone() }).expect("the rule fits");
            transaction.commit().expect("the overlay has room");
            assert_eq!(engine.overlay(), (3, 3));
            let mut transaction = writer.begin();
            transaction.insert(RuleSpec { priority: Priority(u64::MAX - 1), ..spec }).expect("the rule fits");
            assert!(transaction.commit().is_err_and(|error| error.needs_rebuild()));
        }
    }
}

/// No rebuild is due while a job runs; one is due again when the job is dropped.
#[test]
fn no_rebuild_is_due_while_one_runs() {
    let (_engine, mut writer, ids) = open(20, Kind::Linear, Config { dead: Some(1), ..Config::default() });
    remove(&mut writer, &ids[..1]);
    assert!(writer.rebuild_is_due());
    let job = writer.begin_rebuild();
    assert!(!writer.rebuild_is_due());
    let rebuilt = job.run().expect("no budget");
    assert!(!writer.rebuild_is_due());
    drop(rebuilt);
    assert!(writer.rebuild_is_due());
}
