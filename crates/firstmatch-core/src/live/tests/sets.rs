//! Rules of live sets beside readers and rebuilds, against the oracle.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::engine::Classifier;
use crate::key::KeyBuf;
use crate::live::{Config, Engine, SetLimits, Writer, open};
use crate::rule::{
    Action, Condition, FieldValues, Member, Priority, RuleId, RuleSet, RuleSpec, SetId, Test, first_match,
};
use crate::schema::{Family, Schema};

const SETS: u32 = 5;
const BOTH: [Family; 2] = [Family::Ipv4, Family::Ipv6];

struct Random(u64);

impl Random {
    fn below(&mut self, below: u32) -> u32 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as u32 % below
    }

    fn one_in(&mut self, of: u32) -> bool {
        self.below(of) == 0
    }

    /// Returns one of few addresses: at both ends of the space, and around the middle.
    fn address(&mut self, family: Family) -> u128 {
        let low = u128::from(self.below(24));
        let (middle, max) = match family {
            Family::Ipv4 => (0x0A00_0000, u128::from(u32::MAX)),
            Family::Ipv6 => (0x2001_0DB8 << 96 | 0xFFFF_FFF0, u128::MAX),
        };
        [low, middle + low, max - low][self.below(3) as usize]
    }

    fn member(&mut self) -> Member {
        let family = BOTH[self.below(2) as usize];
        let (a, b) = (self.address(family), self.address(family));
        match self.below(4) {
            0 => Member::new(family, a.min(b), a.max(b)).expect("a range"),
            1 => Member::new(family, a & !7, a | 7).expect("a prefix"),
            _ => Member::new(family, a, a).expect("an address"),
        }
    }

    fn set(&mut self) -> SetId {
        SetId::new(self.below(SETS))
    }

    /// Returns a condition on addresses, most often with a live set.
    fn addresses(&mut self, field: usize) -> Condition {
        let mut tests = Vec::new();
        for _ in 0..=self.below(2) {
            match self.below(3) {
                0 => {
                    let member = self.member();
                    tests.push((Some(member.family()), member.test()));
                }
                _ => tests.push((None, Test::Set(self.set()))),
            }
        }
        Condition { field, negated: self.one_in(3), tests }
    }

    fn spec(&mut self, priority: u64) -> RuleSpec {
        let mut conditions = Vec::new();
        if !self.one_in(3) {
            conditions.push(self.addresses(0));
        }
        if self.one_in(2) {
            conditions.push(self.addresses(1));
        }
        if self.one_in(3) {
            let tests = vec![(None, Test::Range { lo: 0, hi: u128::from(self.below(3)) }), (None, Test::Value(7))];
            conditions.push(Condition { field: 3, negated: self.one_in(4), tests });
        }
        if self.one_in(4) {
            let test = Test::Value([6, 17][self.below(2) as usize]);
            conditions.push(Condition { field: 4, negated: false, tests: vec![(None, test)] });
        }
        let family = [None, None, None, Some(Family::Ipv4), Some(Family::Ipv6)][self.below(5) as usize];
        let (priority, conditions) = (Priority(priority), conditions.into());
        RuleSpec { priority, action: Action::Deny, conditions, family, line: None, value: 0 }
    }

    fn spec_anywhere(&mut self) -> RuleSpec {
        let priority = self.below(1 << 20).into();
        self.spec(priority)
    }

    fn packet(&mut self, family: Family) -> FieldValues {
        let [src, dst] = [(); 2].map(|()| Some(self.address(family)));
        let ports = [(); 2].map(|()| Some(u128::from(self.below(9))));
        let proto = Some([6, 17, 1][self.below(3) as usize]);
        FieldValues { family: Some(family), values: vec![src, dst, ports[0], ports[1], proto] }
    }
}

fn empty_sets() -> RuleSet {
    let mut rules = RuleSet::dual(Schema::ipv4(), Schema::ipv6());
    for set in 0..SETS {
        rules.live_sets_mut().add(&format!("set{set}")).expect("another name");
    }
    rules
}

/// Compares the answers of both engines with the oracle's, in batches of several lengths.
fn check(random: &mut Random, engines: &[Engine], writer: &Writer) {
    for (engine, family) in engines.iter().zip(BOTH) {
        let packets: Vec<FieldValues> = (0..1 + random.below(70)).map(|_| random.packet(family)).collect();
        let mut keys = KeyBuf::new(&engine.schema);
        packets.iter().for_each(|packet| keys.push_values(packet));
        let mut found = vec![None; packets.len()];
        engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut found);
        for (packet, found) in packets.iter().zip(found) {
            let wanted = first_match(writer.rules(), packet).map(|rule| rule.id);
            assert_eq!(found.map(|found| found.rule), wanted, "{packet:?} in generation {}", engine.generation());
        }
    }
}

/// One random change; returns whether it went through.
fn change(random: &mut Random, transaction: &mut crate::live::Transaction<'_>) -> bool {
    let ids: Vec<RuleId> = transaction.rules().iter().map(|rule| rule.id).collect();
    match random.below(8) {
        0 if ids.len() < 60 => {
            let spec = random.spec_anywhere();
            transaction.insert(spec).is_ok()
        }
        1 if !ids.is_empty() => {
            let beside = ids[random.below(ids.len() as u32) as usize];
            let spec = random.spec(0);
            transaction.insert_before(beside, spec).is_ok()
        }
        2 if !ids.is_empty() => transaction.remove(ids[random.below(ids.len() as u32) as usize]).is_ok(),
        3 if ids.len() > 1 => {
            let old = ids[random.below(ids.len() as u32) as usize];
            let priority = transaction.rules().get(old).expect("it is live").priority;
            transaction.replace(old, random.spec(priority.0)).is_ok()
        }
        4 if random.one_in(4) => {
            let members: Vec<Member> = (0..random.below(20)).map(|_| random.member()).collect();
            transaction.replace_members(random.set(), members).is_ok()
        }
        5 | 6 => transaction.remove_member(random.set(), random.member()).expect("a known set"),
        _ => transaction.insert_member(random.set(), random.member()).expect("few members"),
    }
}

/// Rules and members change at random, beside rebuilds, new priorities and dropped transactions: all answers are the
/// oracle's.
#[test]
fn answers_are_the_oracles_whatever_changes() {
    for seed in 0..6 {
        let mut random = Random(seed);
        let mut rules = empty_sets();
        for at in 0..random.below(40) {
            let set = random.set();
            rules.live_sets_mut().insert(set, random.member()).expect("a known set");
            rules.insert(random.spec(u64::from(at) << 20)).expect("it fits");
        }
        // Few rules may wait for a rebuild, so that some commits build bases anew.
        let config = Config { overlay: Some(4), ..Config::default() };
        let (engines, mut writer) = open(rules, &config).expect("no budget");
        for round in 0..250 {
            let mut transaction = writer.begin();
            for _ in 0..random.below(12) {
                change(&mut random, &mut transaction);
            }
            let done = match random.below(6) {
                0 => Ok(()),
                // Nobody reads, so only a full overlay is in the way.
                1 => transaction.try_commit().map(drop),
                _ => transaction.commit_open().map(|generation| assert_eq!(generation, engines[0].generation())),
            };
            drop(transaction);
            if let Err(error) = done {
                assert!(error.needs_rebuild(), "{error}");
                let rebuilt = writer.begin_rebuild().run().expect("no budget");
                match random.below(2) {
                    0 => _ = writer.try_install(rebuilt).expect("nobody reads"),
                    _ => _ = writer.install(rebuilt).expect("it fits"),
                }
            }
            if round % 40 == 39 {
                writer.renumber().expect("no budget");
            }
            check(&mut random, &engines, &writer);
        }
    }
}

/// Two addresses of which exactly one is a member, in each commit the other: no batch sees both or neither.
#[test]
fn no_batch_sees_half_of_a_commit() {
    let mut rules = RuleSet::new(Schema::ipv4());
    let set = rules.live_sets_mut().add("one").expect("a new name");
    let members = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse::<Member>().expect("an address"));
    rules.live_sets_mut().insert(set, members[0]).expect("a known set");
    let condition = Condition { field: 0, negated: false, tests: vec![(None, Test::Set(set))] };
    let (priority, conditions) = (Priority(1), [condition].into());
    let spec = RuleSpec { priority, action: Action::Deny, conditions, family: None, line: None, value: 0 };
    let id = rules.insert(spec).expect("it fits");
    let (engines, mut writer) = open(rules, &Config::default()).expect("no budget");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut keys = KeyBuf::new(&engines[0].schema);
                for member in members {
                    let values = [member.ends()[0], 1, 2, 3, 6].map(Some).to_vec();
                    keys.push_values(&FieldValues { family: Some(Family::Ipv4), values });
                }
                let (mut scratch, mut found) = (engines[0].scratch(), [None; 2]);
                while !is_over.load(Ordering::Relaxed) {
                    engines[0].classify_batch(&mut scratch, keys.keys(), &mut found);
                    assert_eq!(found.iter().flatten().filter(|found| found.rule == id).count(), 1);
                }
            });
        }
        for round in 0..3000 {
            let mut transaction = writer.begin();
            let [old, new] = [round % 2, (round + 1) % 2].map(|at| members[at]);
            assert!(transaction.remove_member(set, old).expect("a known set"));
            assert!(transaction.insert_member(set, new).expect("a known set"));
            transaction.commit().expect("no limit");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// Returns a set rule on the source, behind the others.
fn on_source(set: SetId, line: u32) -> RuleSpec {
    let condition = Condition { field: 0, negated: false, tests: vec![(None, Test::Set(set))] };
    let (priority, conditions) = (Priority::of_line(line), [condition].into());
    RuleSpec { priority, action: Action::Deny, conditions, family: None, line: None, value: 0 }
}

/// Changes beyond a limit are refused by name, and nothing has changed: smaller changes then go on.
#[test]
fn limits_refuse_changes_and_keep_what_was_there() {
    let mut random = Random(9);
    let mut rules = empty_sets();
    (0..SETS).for_each(|set| _ = rules.insert(on_source(SetId::new(set), set + 1)).expect("it fits"));
    let sets = SetLimits { members: 40, classes: 7, rules: 6 };
    let (engines, mut writer) = open(rules, &Config { sets, ..Config::default() }).expect("within the limits");
    let (mut refused, mut done) = ([0; 3], 0);
    for _ in 0..600 {
        let mut transaction = writer.begin();
        for _ in 0..1 + random.below(6) {
            let changed = match random.below(9) {
                0 => transaction.insert(random.spec_anywhere()).map(drop),
                1 => {
                    let id = transaction.rules().iter().next_back().map(|rule| rule.id);
                    id.map_or(Ok(()), |id| transaction.remove(id))
                }
                2..6 => transaction.insert_member(random.set(), random.member()).map(drop),
                _ => transaction.remove_member(random.set(), random.member()).map(drop),
            };
            refused[0] += usize::from(changed.is_err_and(|error| error.to_string().ends_with("40 members")));
        }
        match transaction.commit_open() {
            Ok(_) => done += 1,
            Err(error) => {
                let names = ["more than 7 classes of addresses", "more than 6 rules"];
                let limit = names.iter().position(|name| error.to_string().contains(name));
                refused[1 + limit.unwrap_or_else(|| panic!("{error}"))] += 1;
                assert!(error.budget_exceeded() && transaction.commit_open().is_err(), "{error}");
            }
        }
        drop(transaction);
        check(&mut random, &engines, &writer);
    }
    assert!(done > 50 && refused.iter().all(|&times| times > 0), "{done} done, {refused:?} refused");
}

/// A budget refuses members, and what was there stays; members can be removed.
#[test]
fn a_budget_refuses_members() {
    let mut rules = empty_sets();
    rules.insert(on_source(SetId::new(0), 1)).expect("it fits");
    let free = open(rules.clone(), &Config::default()).expect("no budget").0[0].explain().bytes;
    let budget = crate::Budget { run_bytes: free + 100_000 };
    let (engines, mut writer) = open(rules, &Config { budget, ..Config::default() }).expect("it fits");
    let (mut random, mut refused) = (Random(4), 0);
    for at in 0..40u32 {
        let mut transaction = writer.begin();
        for host in 0..100 {
            let address = u128::from((at * 100 + host) * 7919);
            let member = Member::new(Family::Ipv4, address, address).expect("an address");
            transaction.insert_member(SetId::new(0), member).expect("few members");
        }
        match transaction.commit() {
            Ok(_) => assert_eq!(refused, 0, "after a refusal"),
            Err(error) => {
                assert!(error.budget_exceeded(), "{error}");
                refused += 1;
            }
        }
        assert_eq!(writer.rules().live_sets().members() % 100, 0);
        check(&mut random, &engines, &writer);
    }
    assert!((1..40).contains(&refused), "{refused} refused");
    let all: Vec<Member> = writer.rules().live_sets().get(SetId::new(0)).expect("a set").members().collect();
    let mut transaction = writer.begin();
    all.iter().for_each(|&member| assert!(transaction.remove_member(SetId::new(0), member).expect("a known set")));
    transaction.commit().expect("removals are never refused");
    check(&mut random, &engines, &writer);
}

/// Unknown sets, fields that are no addresses and masks beside a set are refused.
#[test]
fn rules_name_known_sets_of_addresses() {
    let (_, mut writer) = open(empty_sets(), &Config::default()).expect("no budget");
    let mut transaction = writer.begin();
    let unknown = SetId::new(SETS);
    let member: Member = "192.0.2.1".parse().expect("an address");
    assert!(transaction.insert_member(unknown, member).is_err() && transaction.remove_member(unknown, member).is_err());
    assert!(transaction.add_set("set0").is_err());
    let spec = |field, tests: Vec<Test>| {
        let tests = tests.into_iter().map(|test| (None, test)).collect();
        RuleSpec { conditions: [Condition { field, negated: false, tests }].into(), ..on_source(unknown, 1) }
    };
    let set = Test::Set(SetId::new(0));
    for (spec, says) in [
        (spec(0, vec![Test::Set(unknown)]), "no live set of number 5"),
        (spec(3, vec![set]), "is no address"),
        (spec(0, vec![set, Test::Mask { value: 1, mask: 5 }]), "under a mask"),
    ] {
        let error = transaction.insert(spec).expect_err("it does not fit").to_string();
        assert!(error.contains(says), "{error}");
    }
    let added = transaction.add_set("new").expect("another name");
    assert_eq!(added, unknown);
    transaction.insert(spec(1, vec![set, Test::Set(added), Test::Value(9)])).expect("it fits");
    transaction.commit().expect("no limit");
    let mut transaction = writer.begin();
    transaction.add_set("other").expect("another name");
    drop(transaction);
    assert_eq!(writer.rules().live_sets().find("other"), None);
}
