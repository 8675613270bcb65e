//! Ids through transactions that are committed, dropped and refused.
//!
//! Every pair of short transactions is played, because a reuse count that one of them forgets is given again by the
//! next.

use firstmatch_core::live::{self, Kind, Limits, Strategy, Transaction, Writer};
use firstmatch_core::rule::{Priority, RuleId, RuleSet, RuleSpec};
use firstmatch_core::{Schema, UpdateError};
use firstmatch_testkit::ids::Ids;

use crate::generate::empty_rule;

/// Change that a transaction makes.
#[derive(Clone, Copy, Debug)]
enum Change {
    Insert,
    /// Removes the live rule of the largest priority, which is the one inserted last.
    RemoveLast,
    /// Removes the live rule of the smallest priority.
    RemoveFirst,
}

/// What becomes of a transaction.
#[derive(Clone, Copy, Debug)]
enum End {
    Commit,
    Drop,
    /// Inserts more rules than an overlay or a base may have, so that the commit is refused.
    Refuse,
}

/// Largest number of changes in a transaction.
const MOST_CHANGES: usize = 3;
/// Largest number of rules in the overlay; all committed transactions of a run together insert fewer.
const OVERLAY: usize = 12;

/// Largest number of rules in a base, each of which a build visits once.
const BASE: usize = 16;

/// Returns every sequence of one to `MOST_CHANGES` changes.
fn shapes() -> Vec<Vec<Change>> {
    let mut all: Vec<Vec<Change>> = vec![Vec::new()];
    let mut from = 0;
    for _ in 0..MOST_CHANGES {
        let longer = all[from..].iter().flat_map(|shape| {
            [Change::Insert, Change::RemoveLast, Change::RemoveFirst].map(|change| [&shape[..], &[change]].concat())
        });
        let longer: Vec<_> = longer.collect();
        from = all.len();
        all.extend(longer);
    }
    all.split_off(1)
}

/// Makes a change; a removal changes nothing where no rule is live.
fn make(transaction: &mut Transaction<'_>, ids: &Ids, change: Change, line: &mut u32) {
    let rules = transaction.rules();
    let id = match change {
        Change::Insert => {
            *line += 1;
            ids.give(transaction.insert(rule(*line)).expect("its priority is free"));
            return;
        }
        Change::RemoveLast => rules.iter().next_back().map(|rule| rule.id),
        Change::RemoveFirst => rules.iter().next().map(|rule| rule.id),
    };
    id.into_iter().for_each(|id| transaction.remove(id).expect("it is live"));
}

fn rule(line: u32) -> RuleSpec {
    empty_rule(Priority::of_line(line))
}

/// Plays a transaction, and checks the rules and the counts that it leaves.
fn play(writer: &mut Writer, ids: &mut Ids, shape: &[Change], end: End, line: &mut u32) {
    let before: Vec<RuleId> = writer.rules().iter().map(|rule| rule.id).collect();
    let mut transaction = writer.begin();
    shape.iter().for_each(|&change| make(&mut transaction, ids, change, line));
    match end {
        End::Commit => drop(transaction.commit().expect("the overlay has room")),
        End::Drop => drop(transaction),
        End::Refuse => {
            (0..OVERLAY + BASE).for_each(|_| make(&mut transaction, ids, Change::Insert, line));
            assert!(transaction.commit().is_err_and(|error: UpdateError| error.budget_exceeded()));
        }
    }
    let new = ids.see(writer.rules());
    assert!(matches!(end, End::Commit) || writer.rules().iter().map(|rule| rule.id).eq(before));
    let mut shard = writer.counter_shard();
    for id in new {
        assert_eq!(writer.count(id).map(|count| count.packets), Some(0), "{id} begins with the count of another rule");
        shard.add(id, 1, 60);
    }
    let mut transaction = writer.begin();
    assert!(ids.removed().all(|id| transaction.remove(id).is_err_and(|error| error.is_stale())));
}

/// An id of a removed rule stays stale, whatever short transactions are dropped and refused before and after.
#[test]
fn ids_of_removed_rules_stay_stale() {
    let config = live::Config {
        strategy: Strategy::Force(Kind::Linear),
        in_place: Some(0),
        overlay: Some(OVERLAY),
        limits: Limits { build_visits: BASE, ..Limits::default() },
        seed: Some(1),
        ..live::Config::default()
    };
    let ends = [End::Commit, End::Drop, End::Refuse];
    let steps: Vec<_> = shapes().into_iter().flat_map(|shape| ends.map(|end| (shape.clone(), end))).collect();
    for rules in [0, 2] {
        let mut set = RuleSet::new(Schema::ipv4());
        for line in 1..=rules {
            set.insert(rule(line)).expect("its priority is free");
        }
        for first in &steps {
            for second in &steps {
                let (_engines, mut writer) = live::open(set.clone(), &config).expect("no budget");
                let (mut ids, mut line) = (Ids::default(), rules);
                ids.see(writer.rules());
                let last =
                    [Change::Insert, Change::RemoveLast, Change::Insert].map(|change| (vec![change], End::Commit));
                for (shape, end) in [first, second].into_iter().chain(&last) {
                    play(&mut writer, &mut ids, shape, *end, &mut line);
                }
            }
        }
    }
}
