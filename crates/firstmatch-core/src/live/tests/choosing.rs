//! When a choice is kept, and which rules it rests on.

use super::*;
use crate::engine::budget::Visits;
use crate::engines::shared::wide::{MOST, Wide, wide};
use crate::select::choice::{Before, Choice};
use crate::select::choose::choose as choose_base;

fn measured() -> Config {
    Config { seed: Some(1), ..Config::default() }
}

fn ports(from: usize, count: usize) -> String {
    (from..from + count).map(|port| format!("deny dport {port}\n")).collect()
}

/// Whether a rebuild kept what was chosen before.
fn is_kept(engine: &Engine) -> bool {
    engine.explain().candidates.iter().any(|of| of.outcome == Outcome::Kept)
}

/// Replaces the rules by those of `text`, keeping the ones that are live already, and rebuilds.
fn rebuild(writer: &mut Writer, text: &str) {
    let next = rules(&format!("family ipv4\n{text}"));
    let is_in = |set: &RuleSet, spec: &RuleSpec| set.iter().any(|rule| rule.spec.conditions == spec.conditions);
    let gone: Vec<RuleId> =
        writer.rules().iter().filter(|rule| !is_in(&next, &rule.spec)).map(|rule| rule.id).collect();
    let come: Vec<RuleSpec> =
        next.iter().filter(|rule| !is_in(writer.rules(), &rule.spec)).map(|rule| rule.spec.clone()).collect();
    let last = writer.rules().iter().next_back().map_or(0, |rule| rule.priority.0);
    let mut transaction = writer.begin();
    gone.into_iter().for_each(|id| transaction.remove(id).expect("it is live"));
    for (at, spec) in (1..).zip(come) {
        transaction.insert(RuleSpec { priority: Priority(last + at), ..spec }).expect("it fits");
    }
    transaction.commit().expect("the overlay has room");
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("the last");
}

/// A choice is kept until the number of regions has more than doubled or halved since the choice was made. The number
/// when it was last kept does not matter.
#[test]
fn a_choice_holds_between_half_and_twice() {
    for (steps, kept) in [
        (&[40][..], &[true][..]),
        (&[41], &[false]),
        (&[10], &[true]),
        (&[9], &[false]),
        (&[30, 40, 10, 20], &[true; 4]),
        (&[30, 41], &[true, false]),
        (&[14, 9], &[true, false]),
        (&[41, 82, 21, 20], &[false, true, true, false]),
    ] {
        let (engines, mut writer) = open(rules(&format!("family ipv4\n{}", ports(0, 20))), &measured()).expect("ok");
        assert!(!is_kept(&engines[0]));
        for (&count, &kept) in steps.iter().zip(kept) {
            rebuild(&mut writer, &ports(0, count));
            assert_eq!(engines[0].explain().base.rules, count);
            assert_eq!(is_kept(&engines[0]), kept, "{steps:?}, {count}: {}", engines[0].explain());
        }
    }
}

/// Returns rules under `10.0.0.0/8` that hold few keys of each other; with `with_wide`, a rule before them holds them
/// all.
fn around_a_wide_rule(with_wide: bool) -> String {
    let several = "deny src 11.0.0.1 dport { 1, 3, 5 }\n".to_owned();
    let behind: String = (0..30).map(|at| format!("permit src 10.{at}.0.0/16 dport {at}\n")).collect();
    several + if with_wide { "deny src 10.0.0.0/8\n" } else { "" } + &behind
}

/// Of all rules only the wide one makes a rebuild due when it is removed. It is found by its place behind a rule of
/// several regions, both in a base that marks it and in one that removes it in place.
#[test]
fn a_rebuild_is_due_without_a_wide_rule_alone() {
    let set = rules(&format!("family ipv4\n{}", around_a_wide_rule(true)));
    let ids: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
    for (kind, in_place) in Kind::ALL.iter().copied().map(|kind| (kind, Some(0))).chain([(Kind::BitSelect, Some(100))])
    {
        for (at, &id) in ids.iter().enumerate() {
            let config = Config { strategy: Strategy::Force(kind), in_place, ..measured() };
            let (engines, mut writer) = open(set.clone(), &config).expect("no budget");
            assert!(!writer.rebuild_is_due());
            let mut transaction = writer.begin();
            transaction.remove(id).expect("it is live");
            transaction.commit().expect("a removal has room");
            assert_eq!(writer.rebuild_is_due(), at == 1, "{kind}, without rule {at}");
            let explained = engines[0].explain();
            let is_in_place = in_place == Some(100);
            assert_eq!((explained.in_place, explained.dead), if is_in_place { (1, 0) } else { (0, 1) }, "rule {at}");
        }
    }
}

/// A choice is made anew if a wide rule that it rested on is gone, or if a new rule holds most keys.
#[test]
fn a_choice_is_made_anew_when_wide_rules_change() {
    let [without, with] = [false, true].map(around_a_wide_rule);
    let other = "deny src 192.0.2.1\n".to_owned();
    // A rule behind all others is not wide, because it holds no key of a rule behind it.
    for (first, next, kept) in
        [(&with, &without, false), (&with, &(with.clone() + &other), true), (&without, &(other + &without), true)]
    {
        let (engines, mut writer) = open(rules(&format!("family ipv4\n{first}")), &measured()).expect("no budget");
        rebuild(&mut writer, next);
        assert_eq!(is_kept(&engines[0]), kept, "{first}{}", engines[0].explain());
    }
    let (engines, mut writer) = open(rules(&format!("family ipv4\n{without}")), &measured()).expect("no budget");
    let wide = rules("family ipv4\ndeny src 10.0.0.0/8\n").iter().next().expect("one").spec.clone();
    let mut transaction = writer.begin();
    transaction.insert(RuleSpec { priority: Priority(1), ..wide }).expect("it fits");
    transaction.commit().expect("there is room");
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("the last");
    assert!(!is_kept(&engines[0]), "{}", engines[0].explain());
}

/// Returns a choice of `chosen` in which the two first candidates take these nanoseconds on two sorts of traffic.
fn choice_of(set: &Lowered, chosen: Kind, nanos: [[Option<f64>; 2]; 2]) -> Choice {
    let (_, mut choice) =
        choose_base(set, &measured().selection(&Schema::ipv4()), usize::MAX, None).expect("no budget");
    for (at, of) in choice.candidates.iter_mut().enumerate() {
        of.outcome = if of.kind == chosen { Outcome::Chosen } else { Outcome::Slower };
        of.nanos = Default::default();
        of.nanos.iter_mut().zip(nanos.get(at).into_iter().flatten()).for_each(|(to, nanos)| *to = *nanos);
    }
    choice
}

/// A rebuild takes the base that changes in place if it takes at most twice as long as the chosen one on every sort of
/// traffic, and if changes in place are allowed.
#[test]
fn what_changes_in_place_takes_over() {
    let set = rules(&format!("family ipv4\n{}", ports(0, 20)));
    let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
    let kept = |nanos, in_place| {
        let choice = choice_of(&lowered, Kind::BitVector, nanos);
        choice.kept(&lowered, &[], in_place)
    };
    let (select, vector) = (Some((Kind::BitSelect, 20)), Some((Kind::BitVector, 20)));
    let both = |a: f64, b: f64| [Some(a), Some(b)];
    assert_eq!(kept([both(20.0, 10.0), both(10.0, 10.0)], true), select);
    assert_eq!(kept([both(20.0, 10.0), both(10.0, 10.0)], false), vector);
    assert_eq!(kept([both(20.1, 10.0), both(10.0, 10.0)], true), vector);
    assert_eq!(kept([both(1.0, 20.1), both(10.0, 10.0)], true), vector);
    // A sort of traffic counts if both were timed on it.
    assert_eq!(kept([[Some(20.0), Some(99.0)], [Some(10.0), None]], true), select);
    assert_eq!(kept([[Some(20.1), None], [Some(10.0), None]], true), vector);
    // Without times, no base takes over.
    let mut choice = choice_of(&lowered, Kind::BitVector, [[None; 2]; 2]);
    assert_eq!(choice.kept(&lowered, &[], true), vector);
    choice.timed_with = None;
    assert_eq!(choice.kept(&lowered, &[], true), None);
}

/// Every wide rule that a choice rested on has to be there. A new rule must not hold most keys, but may hold some.
#[test]
fn a_choice_rests_on_its_wide_rules() {
    let set = rules(&format!("family ipv4\n{}", ports(0, 20)));
    let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
    let ids: Vec<RuleId> = lowered.rules().iter().map(|rule| rule.rule).collect();
    let mut choice = choice_of(&lowered, Kind::Linear, [[Some(9.0); 2]; 2]);
    let mut noted = [None; MOST];
    (noted[0], noted[1]) = (Some((ids[3], 3)), Some((ids[8], 8)));
    choice.wide = noted;
    let of = |region, is_most| Wide { region, is_most };
    let holds = |choice: &Choice, wide: &[Wide]| choice.kept(&lowered, wide, false).is_some();
    assert!(holds(&choice, &[]) && holds(&choice, &[of(3, true), of(8, true)]) && holds(&choice, &[of(5, false)]));
    assert!(!holds(&choice, &[of(5, true)]) && !holds(&choice, &[of(3, true), of(5, true)]));
    // The slot of one wide rule now belongs to another rule.
    choice.wide[1] = Some((RuleId::new(ids[8].slot() as u32, 1), 8));
    assert!(!holds(&choice, &[]));
    choice.wide = [None; MOST];
    assert!(holds(&choice, &[]));
    // A choice can be kept by means of the base before.
    let (base, choice) =
        choose_base(&lowered, &measured().selection(&Schema::ipv4()), usize::MAX, None).expect("no budget");
    let before = Before::of(&base, &choice);
    let (_, after) =
        choose_base(&lowered, &measured().selection(&Schema::ipv4()), usize::MAX, Some(&before)).expect("no budget");
    assert_eq!(after.timed_with, Some(20));
    assert!(wide(lowered.regions(), &Visits::default()).is_empty());
}
