//! Small single changes through a writer and an owner: a refused change leaves nothing, a removed rule can come back,
//! and the reported numbers are true.

use super::front::FrontEngine;
use super::*;
use crate::engine::budget::Budget;
use crate::engine::{Overlaps as _, Probe, Updatable as _};
use crate::engines::registry::ENGINES;
use crate::engines::shared::RegionList;
use crate::engines::shared::wide::Random;
use crate::error::UpdateError;
use crate::rule::{Action, Condition, Conditions, Test};

/// Returns a rule with one region for each destination port in `ports`.
pub(super) fn spec(priority: u64, ports: &[u32]) -> RuleSpec {
    let tests = ports.iter().map(|&port| (None, Test::Value(u128::from(port)))).collect();
    let conditions = Conditions::from([Condition { field: 3, negated: false, tests }]);
    RuleSpec { priority: Priority(priority), ..blank(conditions) }
}

fn blank(conditions: Conditions) -> RuleSpec {
    let action = Action::Deny;
    RuleSpec { priority: Priority(0), action, conditions, family: None, line: None, value: 0 }
}

/// Number of ports that the rules of a test match.
const PORTS: u32 = 48;

pub(super) fn keys(schema: &Schema) -> KeyBuf {
    let mut keys = KeyBuf::new(schema);
    for port in 0..PORTS {
        let values = vec![Some(1), Some(2), Some(3), Some(u128::from(2 * port)), Some(6)];
        keys.push_values(&FieldValues { family: schema.family(), values });
    }
    keys
}

/// Returns the expected answer for the key of each port.
fn want(rules: &RuleSet, keys: &KeyBuf) -> Vec<Option<RuleId>> {
    let schema = keys.schema();
    let answer = |port: u32| {
        let values = vec![Some(1), Some(2), Some(3), Some(u128::from(2 * port)), Some(6)];
        let packet = FieldValues { family: schema.family(), values };
        crate::rule::first_match(rules, &packet).map(|rule| rule.id)
    };
    (0..PORTS).map(answer).collect()
}

fn answers(engine: &dyn Classifier, keys: &KeyBuf) -> Vec<Option<RuleId>> {
    let mut got = vec![None; keys.len()];
    engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut got);
    got.into_iter().map(|found| found.map(|found| found.rule)).collect()
}

/// Returns a set in which rule `n` matches port `2n`; every third rule also matches `2n + 6` and `2n + 12`.
pub(super) fn ports(count: u32) -> RuleSet {
    let mut set = RuleSet::new(Schema::ipv4());
    for at in 0..count {
        let more = [2 * at, 2 * at + 6, 2 * at + 12];
        let rule = spec(u64::from(at + 1) << 32, if at % 3 == 0 { &more } else { &more[..1] });
        set.insert(rule).expect("it fits");
    }
    set
}

/// Regions of the live rules.
fn regions(rules: &RuleSet) -> usize {
    lower(rules, &rules.schemas()[0], &ExpansionLimits::default()).expect("within the caps").regions().len()
}

/// Asserts that all numbers from queries are true of the replica that readers use, and that regions count.
pub(super) fn check(engine: &Engine, writer: &Writer, keys: &KeyBuf, what: &str) {
    assert_eq!(answers(engine, keys), want(writer.rules(), keys), "{what}");
    let (stats, explained) = (Classifier::stats(engine), engine.explain());
    assert_eq!((stats.rules, stats.regions), (writer.rules().len(), regions(writer.rules())), "{what}: {explained}");
    let now = engine.shared.replicas.now().1;
    let part = &now.parts[0];
    let (base, overlay) = (part.base_stats(), part.overlay.bound());
    let front = part.front.as_deref().map(FrontEngine::stats);
    let (first, tables) = front.map_or((&*base, 0), |front| (front, front.tables));
    let again = usize::from(part.dead.rules() > 0);
    assert_eq!(stats.worst_tests, first.worst_tests + again * base.worst_tests + overlay.worst_tests, "{what}");
    assert_eq!(stats.worst_lines, first.worst_lines + again * base.worst_lines + overlay.worst_lines, "{what}");
    assert_eq!(stats.tables, tables + base.tables + overlay.tables, "{what}");
    let longest = [first.longest_bucket, base.longest_bucket, overlay.longest_bucket];
    assert_eq!(Some(stats.longest_bucket), longest.into_iter().max(), "{what}");
    assert_eq!(explained.front.as_ref().map(|(_, stats)| stats), front, "{what}");
    assert_eq!(stats.overflow, base.overflow + overlay.overflow, "{what}");
    assert_eq!(explained.base, *base, "{what}");
    let numbers = (explained.rules, explained.overlay, explained.dead, explained.in_place, explained.generation);
    let are = (part.rules(), part.overlay.rules(), part.dead.rules(), part.in_place(), now.generation);
    assert_eq!(numbers, are, "{what}");
    assert_eq!((engine.overlay(), engine.epoch()), ((part.overlay.rules(), part.most), now.epoch), "{what}");
    assert_eq!(explained.bytes, stats.total_bytes(), "{what}");
    if let Some(list) = &part.list {
        check_list(list, writer.rules(), what);
    }
}

/// Asserts that the list of a replica has the regions of the live rules, each once.
fn check_list(list: &RegionList, rules: &RuleSet, what: &str) {
    let all = lower(rules, &rules.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
    let words = all.schema().words();
    let mut probe = Probe::new(&vec![0; words.len()], &words.iter().map(|word| word.max).collect::<Vec<_>>());
    let (mut found, mut want) = (Vec::new(), Vec::new());
    let end = list.visit(&mut probe, 0, usize::MAX, &mut |_, rule, region| {
        found.push((rule.priority, rule.rule.get(), region.lo.to_vec()));
    });
    for (rule, range) in all.by_rule() {
        want.extend(range.map(|at| (rule.priority, rule.rule.get(), all.regions().get(at).lo.to_vec())));
    }
    found.sort_unstable();
    want.sort_unstable();
    assert_eq!((end, found), (None, want), "{what}");
}

/// Returns each kind of base without changes in place, `bit_select` with them, and every engine as a front.
pub(super) fn forms() -> impl Iterator<Item = Config> {
    let base = |kind, in_place| Config {
        strategy: Strategy::Force(kind),
        in_place,
        seed: Some(1),
        overlaps: true,
        ..Config::default()
    };
    let bases = Kind::ALL.iter().map(move |&kind| base(kind, Some(0))).chain([base(Kind::BitSelect, None)]);
    let fronts = ENGINES.iter().zip(Kind::ALL.iter().cycle());
    bases.chain(fronts.map(move |(entry, &kind)| Config { front: Some(Front::of(entry, &[])), ..base(kind, None) }))
}

/// More equal rules than a group of the overlay takes are counted with the overflow list.
#[test]
fn an_overlay_that_overflows_is_counted() {
    let keys = keys(&Schema::ipv4());
    let config =
        Config { strategy: Strategy::Force(Kind::Linear), overlay: Some(10_000), seed: Some(1), ..Config::default() };
    let (engines, mut writer) = open(ports(20), &config).expect("no budget");
    let mut most = 0;
    for step in 0..3 {
        commit(&mut writer, |transaction| {
            for at in 0..600 {
                transaction.insert(spec(2 * (600 * step + at) + 1, &[4])).expect("it fits");
            }
        })
        .expect("the overlay has room");
        check(&engines[0], &writer, &keys, "equal rules");
        most = most.max(Classifier::stats(&engines[0]).overflow);
    }
    assert!(most > 500, "{most}");
}

pub(super) fn commit(writer: &mut Writer, change: impl FnOnce(&mut Transaction<'_>)) -> Result<u64, UpdateError> {
    let mut transaction = writer.begin();
    change(&mut transaction);
    transaction.commit()
}

/// Changes and steps of rebuilds come in any order, with overlays so small that many commits are refused. After each,
/// the answers are right, and neither a later commit nor a rebuild brings back a refused or dropped change.
#[test]
fn what_is_refused_never_comes_back() {
    let keys = keys(&Schema::ipv4());
    for form in forms() {
        let config = Config { overlay: Some(3), ..form };
        let what = format!("{:?}, front {:?}, in place {:?}", config.strategy, config.front, config.in_place);
        let (engines, mut writer) = open(ports(20), &config).expect("no budget");
        let mut random = Random(what.len() as u64);
        let (mut refused, mut installed, mut dropped) = (0, 0, 0);
        let (mut job, mut built) = (None, None);
        for step in 0..400u64 {
            let ids: Vec<RuleId> = writer.rules().iter().map(|rule| rule.id).collect();
            let before = (writer.rules().clone(), Classifier::stats(&engines[0]), engines[0].generation());
            match random.below(10) {
                0 => job = Some(writer.begin_rebuild()),
                1 => built = job.take().map(|job: RebuildJob| job.run().expect("no budget")).or(built),
                2 => {
                    let done = built.take().map(|built| writer.install(built));
                    // A rebuild that was begun before another one is refused.
                    installed += usize::from(done.is_some_and(|done| done.is_ok()));
                }
                3 => {
                    let mut transaction = writer.begin();
                    transaction.remove(ids[random.below(ids.len())]).expect("it is live");
                    transaction.insert(spec(1 + step, &[4, 8])).expect("it fits");
                    dropped += 1;
                }
                _ => {
                    let done = commit(&mut writer, |transaction| {
                        for change in 0..1 + random.below(3) as u64 {
                            let port = 2 * random.below(PORTS as usize) as u32;
                            let remove = transaction.rules().len() > 15 && random.below(2) == 0;
                            let id = transaction.rules().iter().nth(random.below(10)).expect("there are more").id;
                            match remove {
                                true => transaction.remove(id).expect("it is live"),
                                false => {
                                    let priority = random.next() >> 8 << 2 | change;
                                    let ports = [port, port + 2, port + 4];
                                    transaction
                                        .insert(spec(priority, &ports[..1 + random.below(3)]))
                                        .map(drop)
                                        .expect("it fits");
                                }
                            }
                        }
                    });
                    if let Err(error) = done {
                        assert!(error.needs_rebuild(), "{error}");
                        refused += 1;
                        let after = (Classifier::stats(&engines[0]), engines[0].generation());
                        assert!(writer.rules().iter().eq(before.0.iter()) && after.1 == before.2, "step {step}");
                        assert_eq!((after.0.rules, after.0.regions), (before.1.rules, before.1.regions), "step {step}");
                    }
                }
            }
            check(&engines[0], &writer, &keys, &format!("{what}, step {step}"));
        }
        let is_refused = refused > 5 || config.changes_in_place();
        assert!(installed > 5 && dropped > 10 && is_refused, "{what}: {refused} {installed}");
    }
}

/// A commit may find an overlay or the budget full when a part of it is done. It is then undone as a whole: rules that
/// it removed answer again, in both replicas.
#[test]
fn a_commit_that_fails_late_is_undone() {
    let keys = keys(&Schema::ipv4());
    for form in forms() {
        let config = Config { overlay: Some(4), ..form };
        let form = format!("{:?}, front {:?}, in place {:?}", config.strategy, config.front, config.in_place);
        let free = open(ports(30), &config).expect("no budget").0[0].explain().bytes;
        let mut late = 0;
        for more in (0..24).map(|at| at * at * 200).chain([usize::MAX / 2]) {
            let budget = Budget { run_bytes: free + more };
            let Ok((engines, mut writer)) = open(ports(30), &Config { budget, ..config.clone() }) else { continue };
            if Some(engines[0].explain().kind) != config.strategy.forced() {
                continue;
            }
            let what = format!("{form}, {more} bytes more");
            let mut next = 1;
            // As many removals as insertions: by their numbers alone they might find room.
            for round in 0..6 {
                let before = Classifier::stats(&engines[0]);
                let ids: Vec<RuleId> = writer.rules().iter().map(|rule| rule.id).collect();
                let done = commit(&mut writer, |transaction| {
                    for at in 0..3 {
                        transaction.remove(ids[5 + at]).expect("it is live");
                        next += 1;
                        transaction.insert(spec(next, &[2 * (9 * round + at as u32), 90])).expect("it fits");
                    }
                });
                if let Err(error) = &done {
                    late += 1;
                    assert!(error.needs_rebuild() || error.budget_exceeded(), "{error}");
                    let after = Classifier::stats(&engines[0]);
                    assert_eq!((after.rules, after.regions), (before.rules, before.regions), "{what}");
                }
                check(&engines[0], &writer, &keys, &what);
                // Removals are never refused, and publish the other replica.
                for at in [0, 9] {
                    let id = writer.rules().iter().nth(at).expect("there are more").id;
                    commit(&mut writer, |transaction| transaction.remove(id).expect("it is live"))
                        .expect("it has room");
                    check(&engines[0], &writer, &keys, &what);
                }
            }
        }
        assert!(late > 3, "{form}: {late} failed");
    }
}

/// A removed rule that comes back unchanged loses its tombstone. The same id with other, fewer or more regions, or with
/// another priority, is another rule.
#[test]
fn an_id_that_comes_back_has_its_new_regions() {
    let schema = Schema::ipv4();
    let keys = keys(&schema);
    let lowered = lower(&ports(20), &schema, &ExpansionLimits::default()).expect("within the caps");
    let regions_of = |spec: &RuleSpec| {
        let mut regions = crate::rule::Regions::new(schema.words().len());
        crate::rule::lower_rule(&schema, spec, &ExpansionLimits::default(), &mut regions).expect("within the caps");
        regions
    };
    for &kind in Kind::ALL {
        let config = Config { strategy: Strategy::Force(kind), in_place: Some(0), seed: Some(1), ..Config::default() };
        let mut owner = Owned::build(&lowered, &config).expect("no budget");
        let rule = lowered.rules().iter().find(|rule| rule.rule.slot() == 6).copied().expect("it is there");
        let same = [12, 18, 24];
        let others: [(&[u32], u64); 5] = [
            (&[12, 18, 26], rule.priority.0),
            (&[60, 66, 72], rule.priority.0),
            (&[12, 18], rule.priority.0),
            (&[12, 18, 24, 30], rule.priority.0),
            (&same, rule.priority.0 - (3 << 32) + 1),
        ];
        for (ports, priority) in others.into_iter().chain([(&same[..], rule.priority.0)]).chain(others) {
            owner.remove(rule.rule).expect("it is there");
            assert!(owner.remove(rule.rule).is_err_and(|error| error.is_stale()));
            let new = Match { rule: rule.rule, priority: Priority(priority) };
            let spec = spec(priority, ports);
            owner.insert(new, &regions_of(&spec)).expect("there is room");
            assert!(owner.insert(new, &regions_of(&spec)).is_err(), "it is there");
            // The rules as they are now, by a scan.
            let holds = |port: u32| {
                let row = keys.keys().row(port as usize);
                let others = lowered.rules().iter().zip(lowered.regions().iter());
                let others =
                    others.filter(|(of, region)| of.rule != rule.rule && region.contains(row)).map(|(of, _)| *of);
                let own = ports.contains(&(2 * port)).then_some(new);
                others.chain(own).min_by_key(|of| of.priority).map(|of| of.rule)
            };
            let want: Vec<_> = (0..PORTS).map(holds).collect();
            assert_eq!(answers(&owner, &keys), want, "{kind}: {ports:?}");
            let explained = owner.engine().explain();
            let is_same = ports == same && priority == rule.priority.0;
            let beside = if is_same { (0, 0) } else { (1, 1) };
            assert_eq!((explained.dead, explained.overlay), beside, "{kind}, {ports:?}: {explained}");
            let stats = engine::Engine::stats(&owner);
            assert_eq!(stats.regions, lowered.regions().len() - 3 + ports.len(), "{kind}, {ports:?}");
        }
    }
}

/// A rebuild is due once the base has little room for changes in place, long before another count makes it due. None is
/// due once a new base is installed.
#[test]
fn a_rebuild_is_due_when_room_ends() {
    let many = Some(1 << 20);
    let config = Config {
        strategy: Strategy::Force(Kind::BitSelect),
        in_place: many,
        dead: many,
        due: many,
        overlay: many,
        ..Config::default()
    };
    let mut set = RuleSet::new(Schema::ipv4());
    // Few rules are inserted between the same two rules.
    let host = |at: u64| {
        let tests = vec![(None, Test::Value(u128::from(at.wrapping_mul(0x9E37_79B9) & 0xFFFF_FFFF)))];
        let conditions = Conditions::from([Condition { field: 0, negated: false, tests }]);
        let priority = Priority(((at * 37 % 400) + 1) << 20 | at);
        RuleSpec { priority, ..blank(conditions) }
    };
    (0..400).for_each(|at| assert!(set.insert(host(at)).is_ok()));
    let (engines, mut writer) = open(set, &config).expect("no budget");
    let mut came = 0;
    while !writer.rebuild_is_due() {
        came += 1;
        assert!(came < 9000, "room has no end: {}", engines[0].explain());
        commit(&mut writer, |transaction| drop(transaction.insert(host(399 + came)))).expect("the overlay has room");
    }
    let explained = engines[0].explain();
    assert!(explained.in_place > 60 && explained.overlay < explained.in_place, "{explained}");
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("the last");
    assert!(!writer.rebuild_is_due());
    assert_eq!(engines[0].explain().in_place + engines[0].explain().overlay, 0);
}

/// A rule with too many regions is refused, and the error names its id. The transaction keeps nothing of it, its
/// priority stays free, and the rule that it was to replace is still there.
#[test]
fn a_rule_of_too_many_regions_leaves_the_transaction() {
    let keys = keys(&Schema::ipv4());
    let expansion = ExpansionLimits { regions_per_rule: 3, ..ExpansionLimits::default() };
    let (engines, mut writer) = open(ports(10), &Config { expansion, ..Config::default() }).expect("no budget");
    let ids: Vec<RuleId> = writer.rules().iter().map(|rule| rule.id).collect();
    let wide = |priority| spec(priority, &[1, 11, 21, 31]);
    let mut transaction = writer.begin();
    let error = transaction.insert(wide(7)).expect_err("it has four regions").to_string();
    let refused = RuleId::new(10, 0);
    assert!(error.starts_with(&format!("rule {refused}: ")) && error.contains("regions"), "{error}");
    assert!(transaction.rules().len() == 10 && transaction.rules().get(refused).is_none());
    transaction.insert(spec(7, &[40])).expect("the priority is free");
    let error = transaction.replace(ids[2], wide(9)).expect_err("it has four regions").to_string();
    assert!(error.contains("regions"), "{error}");
    assert!(transaction.rules().get(ids[2]).is_some() && transaction.rules().len() == 11);
    transaction.replace(ids[3], spec(11, &[2, 4])).expect("it has room");
    let expected: Vec<RuleId> = transaction.rules().iter().map(|rule| rule.id).collect();
    transaction.commit().expect("there is room");
    assert!(writer.rules().iter().map(|rule| rule.id).eq(expected) && writer.rules().len() == 11);
    check(&engines[0], &writer, &keys, "committed");
    let rebuilt = writer.begin_rebuild().run().expect("no budget");
    writer.install(rebuilt).expect("the last");
    check(&engines[0], &writer, &keys, "rebuilt");
}

/// Bases that a rebuild built within the budget can be installed if nothing has changed meanwhile, whether it built one
/// family or both. If nothing fits, the rebuild itself fails.
#[test]
fn what_a_rebuild_built_has_room() {
    let text: String = (0..60)
        .map(|at| format!("deny src 10.{at}.0.0/16 dport {at}\npermit src 2001:db8:{at:x}::/48 dport {at}\n"))
        .collect();
    let set = rules(&text);
    let of_four: Vec<RuleId> = set.iter().step_by(2).map(|rule| rule.id).collect();
    let config = Config { strategy: Strategy::FirstFit, overlay: Some(64), seed: Some(1), ..Config::default() };
    let free: usize = {
        let (engines, _writer) = open(set.clone(), &config).expect("no budget");
        engines.iter().map(|engine| engine.explain().bytes).sum()
    };
    let (mut installed, mut refused, mut smaller) = (0, 0, 0);
    for step in 0..60 {
        let budget = Budget { run_bytes: free * (70 + step) / 100 };
        let Ok((engines, mut writer)) = open(set.clone(), &Config { budget, ..config.clone() }) else { continue };
        let kinds = || engines.iter().map(|engine| engine.explain().kind).collect::<Vec<_>>();
        let before = kinds();
        for (round, &id) in of_four.iter().take(3).enumerate() {
            commit(&mut writer, |transaction| transaction.remove(id).expect("it is live")).expect("it has room");
            match writer.begin_rebuild().run() {
                Ok(rebuilt) => {
                    let done = writer.install(rebuilt).map(|old| old.epoch());
                    assert!(done.is_ok(), "{budget:?}, round {round}: {done:?}");
                    installed += 1;
                    smaller += usize::from(kinds() != before);
                }
                Err(error) => {
                    assert!(error.budget_exceeded(), "{error}");
                    refused += 1;
                }
            }
            let bytes: usize = engines.iter().map(|engine| engine.explain().bytes).sum();
            assert!(bytes <= budget.run_bytes, "{bytes} of {budget:?}");
        }
    }
    assert!(installed > 20, "{installed} installed, {refused} refused, {smaller} of another kind");
}

/// Rules with tombstones are not found, in bases with one position per region and in bases with one per rule.
#[test]
fn marked_rules_stay_out() {
    let schema = Schema::ipv4();
    let keys = keys(&schema);
    for &kind in Kind::ALL {
        let set = ports(30);
        let ids: Vec<RuleId> = set.iter().map(|rule| rule.id).collect();
        let many = Some(1 << 20);
        let config = Config {
            strategy: Strategy::Force(kind),
            in_place: Some(0),
            dead: many,
            seed: Some(1),
            ..Config::default()
        };
        let (engines, mut writer) = open(set, &config).expect("no budget");
        for (at, &id) in ids.iter().enumerate() {
            commit(&mut writer, |transaction| transaction.remove(id).expect("it is live")).expect("it has room");
            check(&engines[0], &writer, &keys, &format!("{kind}, {at} gone"));
            assert_eq!(engines[0].explain().dead, at + 1);
        }
    }
}

/// Hundreds of changes come before a rebuild runs, after it has run, and after another rebuild was refused. Each is in
/// the new base or its overlay once, except changes that later ones undid.
#[test]
fn a_rebuild_catches_up_with_all_that_changed() {
    let keys = keys(&Schema::ipv4());
    for form in forms() {
        let many = Some(5000);
        let in_place = form.in_place.or(many);
        let config = Config { in_place, overlay: many, due: many, dead: many, ..form };
        let form = format!("{:?}, front {:?}, in place {in_place:?}", config.strategy, config.front);
        let (engines, mut writer) = open(ports(40), &config).expect("no budget");
        let mut random = Random(5);
        let mut step = 0;
        let mut change = |writer: &mut Writer, count: usize| {
            for _ in 0..count {
                step += 1;
                let id = writer.rules().iter().nth(random.below(writer.rules().len())).expect("there are more").id;
                let is_removal = writer.rules().len() > 45 || writer.rules().len() > 35 && random.below(2) == 0;
                let port = 2 * random.below(PORTS as usize) as u32;
                let rule =
                    spec(((random.next() >> 12) << 10) | (step % 1024), &[port, port + 2][..1 + random.below(2)]);
                commit(writer, |transaction| match is_removal {
                    true => transaction.remove(id).expect("it is live"),
                    false => transaction.insert(rule).map(drop).expect("it fits"),
                })
                .expect("there is room");
            }
        };
        for (before, during, behind) in [(0, 300, 0), (600, 520, 300), (3, 0, 256), (256, 256, 513), (0, 700, 1)] {
            let what = format!("{form}: {before}, {during} and {behind} changes");
            change(&mut writer, before);
            check(&engines[0], &writer, &keys, &what);
            let old = writer.begin_rebuild();
            change(&mut writer, 5);
            let job = writer.begin_rebuild();
            change(&mut writer, during);
            let rebuilt = job.run().expect("no budget");
            change(&mut writer, behind);
            // A rebuild that was begun earlier is refused, and leaves nothing behind.
            assert!(writer.install(old.run().expect("no budget")).is_err());
            check(&engines[0], &writer, &keys, &what);
            let epoch = engines[0].epoch();
            assert_eq!(writer.install(rebuilt).map(|old| old.epoch()), Ok(epoch + 1), "{what}");
            check(&engines[0], &writer, &keys, &what);
            // Rules that the new base was built with are not in the overlay, and have no tombstone.
            let explained = engines[0].explain();
            assert!(explained.overlay + explained.dead + explained.in_place <= 2 * (during + behind), "{explained}");
            // The other replica is the same.
            change(&mut writer, 1);
            check(&engines[0], &writer, &keys, &what);
        }
    }
}
