//! Rules that change: every updatable engine beside a rule set and the oracle.
//!
//! The tests make thousands of insertions and removals.

use firstmatch_core::rule::{
    Condition, ExpansionLimits, Priority, Region, Regions, Rule, RuleId, RuleSet, RuleSpec, Test, lower,
};
use firstmatch_core::{Match, Schema, Scratch, Updatable};

use crate::case::Case;
use crate::corners;
use crate::corpus::regions_of;
use crate::engines::{Start, Subject, updatable_engines, updatable_structures};
use crate::generate::{Rules, empty_rule, rule_set, schemas};
use crate::rng::Rng;

/// Rule set and every updatable engine, changed together.
struct Mirror {
    name: String,
    schema: Schema,
    set: RuleSet,
    engines: Vec<(Subject, Box<dyn Updatable>)>,
    /// Scratch of each engine, kept through all changes.
    scratches: Vec<Scratch>,
    rules: Rules,
    rng: Rng,
    live: Vec<RuleId>,
    /// Last rules removed: their corners are worth asking about, and their ids are stale.
    dead: Vec<(RuleId, RuleSpec)>,
}

impl Mirror {
    /// Builds the engines from the rules of `set`, which may be empty.
    fn new(name: &str, subjects: Vec<Subject>, set: RuleSet, most: usize, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let schema = set.schemas()[0].clone();
        let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
        let start = if set.is_empty() { Start::Empty(&schema) } else { Start::Rules(&lowered) };
        let begin = |subject: Subject| {
            let engine = subject.start(start);
            (subject, engine)
        };
        let engines: Vec<_> = subjects.into_iter().map(begin).collect();
        let scratches = engines.iter().map(|(_, engine)| engine.scratch()).collect();
        let rules = Rules::new(&schema, &mut rng, most);
        let live = set.iter().map(|rule| rule.id).collect();
        let name = format!("{name}, seed {seed}");
        Self { name, schema, set, engines, scratches, rules, rng, live, dead: Vec::new() }
    }

    /// Returns a priority no live rule has: before all, behind all, or between two neighbours.
    fn free_priority(&mut self) -> Option<Priority> {
        if self.live.is_empty() {
            return Some(Priority(self.rng.next()));
        }
        let at = self.set.get(*self.rng.pick(&self.live)).map(|rule| rule.priority)?;
        let next = self.rng.percent(50);
        let other = if next {
            self.set.iter().map(|rule| rule.priority).find(|&p| p > at).unwrap_or(Priority(u64::MAX))
        } else {
            self.set.iter().map(|rule| rule.priority).rfind(|&p| p < at).unwrap_or(Priority(0))
        };
        Priority::between(at, other)
    }

    fn insert_random(&mut self) {
        let Some(priority) = self.free_priority() else { return };
        let again = self.rng.percent(10);
        let old = (again && !self.dead.is_empty()).then(|| self.rng.pick(&self.dead).1.clone());
        let copy = (again && !self.live.is_empty()).then(|| *self.rng.pick(&self.live));
        let copy = copy.and_then(|id| self.set.get(id)).map(|rule| rule.spec.clone());
        let spec = old.or(copy).unwrap_or_else(|| self.rules.rule(&mut self.rng));
        self.insert(RuleSpec { priority, ..spec });
    }

    fn insert(&mut self, spec: RuleSpec) {
        let regions = regions_of(&self.schema, &spec);
        let rule = Match { priority: spec.priority, rule: self.set.insert(spec).expect("the rule fits") };
        self.live.push(rule.rule);
        for (Subject { name, .. }, engine) in &mut self.engines {
            let inserted = engine.insert(rule, &regions);
            assert!(inserted.is_ok(), "{name}, {}: {inserted:?}", self.name);
        }
    }

    fn remove_random(&mut self) {
        if !self.live.is_empty() {
            let at = self.rng.below(self.live.len());
            self.remove(self.live[at]);
        }
    }

    fn remove(&mut self, id: RuleId) {
        self.live.retain(|&other| other != id);
        let rule = self.set.remove(id).expect("the rule is live");
        for (Subject { name, .. }, engine) in &mut self.engines {
            let removed = engine.remove(id);
            assert!(removed.is_ok(), "{name}, {}: {removed:?}", self.name);
        }
        if self.dead.len() == 20 {
            let at = self.rng.below(20);
            self.dead.swap_remove(at);
        }
        self.dead.push((id, rule.spec));
    }

    /// Draws packets from the corners of live and removed rules.
    fn case(&mut self, count: usize) -> Case {
        let mut rules: Vec<RuleSpec> = self.set.iter().map(|rule| rule.spec.clone()).collect();
        rules.extend(self.dead.iter().map(|(_, spec)| spec.clone()));
        let packets = corners::packets(&self.schema, &rules, &mut self.rng, count);
        Case::new(&self.set, &self.schema, packets)
    }

    fn check(&mut self, count: usize) {
        let case = self.case(count);
        for ((Subject { name, .. }, engine), scratch) in self.engines.iter().zip(&mut self.scratches) {
            if let Err(what) = case.check_with(&**engine, scratch) {
                panic!("{name}, {}, {} rules: {what}", self.name, self.set.len());
            }
        }
    }

    /// Panics unless a fresh build gives the same answers.
    fn check_against_fresh_builds(&mut self, count: usize) {
        let case = self.case(count);
        let lowered = lower(&self.set, &self.schema, &ExpansionLimits::default()).expect("within the caps");
        for (subject, engine) in &self.engines {
            let (name, fresh) = (&subject.name, subject.start(Start::Rules(&lowered)));
            for (what, engine) in [("fresh", &fresh), ("changed", engine)] {
                if let Err(wrong) = case.check_thoroughly(&**engine) {
                    panic!("{name}, {}, {what}: {wrong}", self.name);
                }
            }
            let (fresh, changed) = (fresh.stats(), engine.stats());
            assert_eq!((fresh.rules, fresh.regions), (changed.rules, changed.regions), "{name}, {}", self.name);
        }
    }

    /// Makes changes that must fail, and change nothing.
    fn fail(&mut self) {
        let key_words = self.schema.words().len();
        let some = regions_of(&self.schema, &self.rules.rule(&mut self.rng));
        let mut wide = Regions::new(key_words + 1);
        wide.push(Region { lo: &vec![0; key_words + 1], hi: &vec![0; key_words + 1], ternary: None });
        let mut narrow = Regions::new(key_words - 1);
        narrow.push(Region { lo: &vec![0; key_words - 1], hi: &vec![0; key_words - 1], ternary: None });
        let unused = RuleId::new(self.set.slots() as u32 + 5, 0);
        let mut stale: Vec<RuleId> = vec![unused, RuleId::new(u32::MAX - 1, u32::MAX)];
        stale.extend(self.dead.iter().map(|(id, _)| *id).filter(|id| self.set.get(*id).is_none()));
        let live: Vec<RuleId> = (0..2).filter_map(|i| self.live.get(i * 7).copied()).collect();
        for id in &live {
            // The same slot at another time.
            stale.push(RuleId::new(id.slot() as u32, id.reuse() + 1));
            stale.extend(id.reuse().checked_sub(1).map(|reuse| RuleId::new(id.slot() as u32, reuse)));
        }
        let priority = Priority(self.rng.next());
        for (Subject { name, .. }, engine) in &mut self.engines {
            let before = engine.stats();
            for rule in &live {
                for reuse in [rule.reuse(), rule.reuse() + 1] {
                    let rule = Match { rule: RuleId::new(rule.slot() as u32, reuse), priority };
                    assert!(engine.insert(rule, &some).is_err(), "{name}: the slot is taken");
                }
            }
            for regions in [&wide, &narrow] {
                let refused = engine.insert(Match { rule: unused, priority }, regions).expect_err("other words");
                let said = format!("the regions have {} words, the engine {key_words}", regions.key_words());
                assert_eq!(refused.to_string(), said, "{name}");
            }
            for &id in &stale {
                let refused = engine.remove(id).expect_err("a stale id");
                assert!(refused.is_stale() && !refused.budget_exceeded(), "{name}: {refused}");
            }
            assert_eq!(engine.stats(), before, "{name}, {}: a failed change left something behind", self.name);
        }
    }
}

/// Grows to about `most` rules, shrinks to a few, and again; compares every `every` steps.
fn walk(name: &str, schema: &Schema, subjects: Vec<Subject>, [most, steps, every]: [usize; 3], seed: u64) {
    let mut mirror = Mirror::new(name, subjects, RuleSet::new(schema.clone()), most, seed);
    let mut growing = true;
    for step in 0..steps {
        growing = if growing { mirror.set.len() < most } else { mirror.set.len() <= most / 8 };
        if mirror.rng.percent(if growing { 75 } else { 25 }) {
            mirror.insert_random();
        } else {
            mirror.remove_random();
        }
        if step % every == 0 {
            mirror.check(24);
        }
        if step % (every * 10) == 0 {
            mirror.fail();
            mirror.check(50);
        }
    }
    mirror.check_against_fresh_builds(200);
}

#[test]
fn small_sets_change() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        walk(name, &schema, updatable_engines(), [4, 400, 1], seed);
        walk(name, &schema, updatable_engines(), [40, 1_000, 4], seed + 100);
    }
}

/// Large sets change at one level, because the structure is the same at each.
///
/// `memory::builds_repeat` tests that. Smaller sets put lookups after changes to every level.
#[test]
fn large_sets_change() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        // `bit_select` alone is left to the smaller sets: `meta` has it as a base here.
        let subjects = updatable_structures().into_iter().filter(|subject| !subject.name.contains("bit_select alone"));
        walk(name, &schema, subjects.collect(), [400, 1_500, 50], seed);
    }
}

/// Winners are removed one by one, the best first, until none is left.
///
/// Each time the rules that they hid must come to light.
#[test]
fn winners_are_removed_one_by_one() {
    for (seed, (name, schema)) in (0..).zip(schemas()) {
        let mut rng = Rng::new(seed);
        let set = rule_set(&schema, &mut rng, 50);
        let packets = corners::of_set(&set, &schema, &mut rng, 150);
        let mut mirror = Mirror::new(name, updatable_engines(), set, 50, seed);
        let in_order: Vec<RuleId> = mirror.set.iter().map(|rule| rule.id).collect();
        for first in in_order {
            mirror.remove(first);
            let case = Case::new(&mirror.set, &schema, packets.clone());
            for (Subject { name: engine_name, .. }, engine) in &mirror.engines {
                if let Err(what) = case.check(&**engine) {
                    panic!("{engine_name}, {}, {} rules left: {what}", mirror.name, mirror.set.len());
                }
            }
        }
        for (Subject { name: engine_name, .. }, engine) in &mirror.engines {
            let stats = engine.stats();
            assert_eq!((stats.rules, stats.regions), (0, 0), "{engine_name}, {name}");
        }
    }
}

/// A rule that no packet matches takes its slot all the same and can be removed, once.
#[test]
fn rules_without_regions_come_and_go() {
    let schema = Schema::ipv4();
    for subject in updatable_engines() {
        let mut engine = subject.start(Start::Empty(&schema));
        let rule = Match { rule: RuleId::new(3, 0), priority: Priority(1) };
        let none = Regions::new(schema.words().len());
        for _ in 0..2 {
            engine.insert(rule, &none).expect("nothing is in the way");
            assert!(engine.insert(rule, &none).is_err(), "{}: its slot is taken", subject.name);
            assert!(engine.remove(RuleId::new(3, 1)).is_err(), "{}: another use of the slot", subject.name);
            engine.remove(rule.rule).expect("it is there");
            assert!(engine.remove(rule.rule).is_err_and(|e| e.is_stale()), "{}: it is gone", subject.name);
        }
    }
}

/// Ten thousand rules, as firewalls have them, go into ten thousand.
#[test]
fn many_insertions_equal_a_build() {
    let mut rng = Rng::new(9);
    let mut set = RuleSet::new(Schema::ipv4());
    while set.len() < 20_000 {
        let priority = Priority(rng.next());
        set.insert(RuleSpec { priority, ..plain_rule(&mut rng) }).expect("it fits");
    }
    // With an overlay of a few rules, every second of them would build a base.
    insert_half(&set, &mut rng, |subject| !subject.name.contains("overlay<="));
}

/// Fewer rules go in, but of every shape.
#[test]
fn wild_insertions_equal_a_build() {
    for (name, schema) in schemas() {
        let mut rng = Rng::new(name.len() as u64);
        // Engines that build a base at every other change are put to smaller sets above.
        insert_half(&rule_set(&schema, &mut rng, 800), &mut rng, |subject| !subject.name.contains("alone"));
    }
}

/// Inserts half of the rules into a build of the others, and compares with a build of all.
///
/// The inserted rules come in random order.
fn insert_half(set: &RuleSet, rng: &mut Rng, wanted: impl Fn(&Subject) -> bool) {
    let schema = &set.schemas()[0];
    let mut rules: Vec<&Rule> = set.iter().collect();
    rng.shuffle(&mut rules);
    let late = rules.split_off(rules.len() / 2);
    let mut half = set.clone();
    for rule in &late {
        half.remove(rule.id).expect("it is live");
    }
    let half = lower(&half, schema, &ExpansionLimits::default()).expect("within the caps");
    let all = lower(set, schema, &ExpansionLimits::default()).expect("within the caps");
    let late: Vec<(Match, Regions)> = late
        .iter()
        .map(|rule| (Match { rule: rule.id, priority: rule.priority }, regions_of(schema, &rule.spec)))
        .collect();
    let case = Case::new(set, schema, corners::of_set(set, schema, rng, 300));
    for subject in updatable_structures().into_iter().filter(wanted) {
        let mut engine = subject.start(Start::Rules(&half));
        for (rule, regions) in &late {
            engine.insert(*rule, regions).expect("it fits");
        }
        let fresh = subject.start(Start::Rules(&all));
        for (how, engine) in [("inserted", &engine), ("built", &fresh)] {
            if let Err(what) = case.check(&**engine) {
                panic!("{}, {how}: {what}", subject.name);
            }
        }
        assert_eq!((engine.stats().rules, engine.stats().regions), (fresh.stats().rules, fresh.stats().regions));
    }
}

/// Draws a rule of two prefixes, ports as they are usually given, and a protocol.
fn plain_rule(rng: &mut Rng) -> RuleSpec {
    let mut prefix = |field| {
        let len = *rng.pick(&[0, 8, 16, 16, 24, 24, 24, 28, 32, 32, 32]);
        // Few networks, many hosts.
        let value = (10 << 24 | rng.below(6) << 16 | rng.below(40) << 8 | rng.below(256)) as u128;
        Condition {
            field,
            negated: false,
            tests: vec![(None, Test::Prefix { value: value >> (32 - len) << (32 - len), len })],
        }
    };
    let mut conditions = vec![prefix(0), prefix(1)];
    for field in [2, 3] {
        let port = 1 << rng.below(16);
        match rng.below(field * 2) {
            0 | 1 => {}
            2 => conditions.push(one(field, Test::Range { lo: 1024, hi: 65535 })),
            3 => conditions.push(one(field, Test::Range { lo: port, hi: (port + rng.below(90) as u128).min(65535) })),
            _ => conditions.push(one(field, Test::Value((port + rng.below(9) as u128).min(65535)))),
        }
    }
    if rng.percent(80) {
        conditions.push(one(4, Test::Value(*rng.pick(&[6, 6, 17]))));
    }
    RuleSpec { conditions: conditions.into(), ..empty_rule(Priority(0)) }
}

fn one(field: usize, test: Test) -> Condition {
    Condition { field, negated: false, tests: vec![(None, test)] }
}
