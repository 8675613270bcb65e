//! Rule sets over tiny domains: every pair of rules, many triples, every key, every engine.

use firstmatch_core::raw::Level;
use firstmatch_core::rule::{Condition, ExpansionLimits, Priority, RuleSet, RuleSpec, Test, lower};
use firstmatch_core::schema::{Field, Kind, Schema};

use crate::broken::Fault;
use crate::case::Case;
use crate::corners::every_packet;
use crate::engines::{Reference, Subject, engines, multiplying};
use crate::generate::empty_rule;
use crate::rng::Rng;

/// Two fields of few bits, and the conditions worth combining on them.
struct Domain {
    schema: Schema,
    rules: Vec<RuleSpec>,
}

impl Domain {
    fn new(word_bits: u32, fields: Vec<Field>) -> Self {
        let schema = Schema::with_word_bits(None, fields, word_bits);
        let conditions: Vec<_> = (0..2).map(|field| conditions(&schema, field)).collect();
        let mut rules = Vec::new();
        for a in &conditions[0] {
            for b in &conditions[1] {
                let conditions = a.iter().chain(b).cloned().collect();
                rules.push(RuleSpec { conditions, ..empty_rule(Priority(0)) });
            }
        }
        Self { schema, rules }
    }

    fn case(&self, chosen: &[usize]) -> (RuleSet, Case) {
        let mut set = RuleSet::new(self.schema.clone());
        // The slots are not in the order of priority.
        for (place, &rule) in chosen.iter().enumerate().rev() {
            set.insert(RuleSpec { priority: Priority(place as u64), ..self.rules[rule].clone() }).expect("it fits");
        }
        let packets = every_packet(&self.schema, 1 << 10).expect("a tiny domain");
        let case = Case::new(&set, &self.schema, packets);
        (set, case)
    }

    fn try_set(&self, engines: &[Subject], chosen: &[usize]) {
        let (set, case) = self.case(chosen);
        let lowered = lower(&set, &self.schema, &ExpansionLimits::default()).expect("within the caps");
        let turn = chosen.iter().sum::<usize>();
        for subject in engines.iter().filter(|subject| is_turn(subject, turn)) {
            if let Err(what) = case.check(&*subject.build(&lowered)) {
                panic!("{}: {set:?}: {what}", subject.name);
            }
        }
    }
}

/// Returns no condition, any value, prefixes, half of the ranges, a mask, and complements.
///
/// The mask is no prefix.
fn conditions(schema: &Schema, index: usize) -> Vec<Option<Condition>> {
    let field = &schema.fields()[index];
    let max = field.max();
    let one = |negated, test| Some(Condition { field: index, negated, tests: vec![(None, test)] });
    let mut out = vec![None, one(false, Test::Range { lo: 0, hi: max }), one(true, Test::Value(max / 2))];
    out.extend((0..=max).map(|v| one(false, Test::Value(v))));
    out.extend((0..max).map(|lo| one(false, Test::Range { lo, hi: lo + 1 })));
    if field.is_optional() {
        let either = vec![(None, Test::Absent), (None, Test::Value(0))];
        out.push(Some(Condition { field: index, negated: false, tests: either }));
    }
    if field.width() > 1 {
        out.push(one(false, Test::Prefix { value: 0, len: 1 }));
        out.push(one(false, Test::Mask { value: 1, mask: 1 }));
        out.push(one(true, Test::Mask { value: 2, mask: 3 }));
        let two = vec![(None, Test::Value(0)), (None, Test::Value(max))];
        out.push(Some(Condition { field: index, negated: false, tests: two }));
    }
    out
}

fn domains() -> Vec<Domain> {
    let field = |name: &str, width, kind| Field::new(name, width, kind, None);
    vec![
        Domain::new(32, vec![field("a", 2, Kind::Prefix), field("b", 2, Kind::Range).optional()]),
        Domain::new(2, vec![field("a", 3, Kind::Range), field("b", 2, Kind::Mask)]),
        Domain::new(2, vec![field("a", 1, Kind::Exact).optional(), field("b", 4, Kind::Prefix)]),
    ]
}

/// Returns the engines that differ where rules stay.
///
/// `meta` answers as the base that it has chosen, which is there by itself. The engine behind a cache makes no
/// difference to the cache.
fn differing() -> Vec<Subject> {
    let is_same = |subject: &Subject| {
        let is_behind_cache = subject.name.starts_with("flow cache") && !subject.name.ends_with("linear");
        is_behind_cache || subject.is_meta() && subject.name != "meta"
    };
    engines().into_iter().chain(multiplying()).filter(|subject| !is_same(subject)).collect()
}

/// Whether a subject is put to this rule set.
///
/// Engines of many configurations take turns: each configuration sees every set at one SIMD level, and equally many at
/// every level. For example, with two levels, the first takes the sets whose rule numbers have an even sum. Engines
/// whose builds count classes see every fourth set.
fn is_turn(subject: &Subject, turn: usize) -> bool {
    let has_many = ["tuple", "tss", "partitionsort", "hicuts", "hypercuts", "decomposition", "npf", "flow cache"]
        .iter()
        .any(|family| subject.name.starts_with(family));
    let levels = Level::available().count();
    if subject.name.contains("rfc") {
        return (turn / levels).is_multiple_of(4) && subject.level == Level::available().nth(turn % levels);
    }
    !has_many || subject.level == Level::available().nth(turn % levels)
}

#[test]
fn every_pair_of_rules() {
    let engines = differing();
    for domain in domains() {
        for first in 0..domain.rules.len() {
            for second in 0..domain.rules.len() {
                domain.try_set(&engines, &[first, second]);
            }
        }
    }
}

#[test]
fn many_larger_sets() {
    let engines = differing();
    let mut rng = Rng::new(5);
    for domain in domains() {
        for round in 0..10_000 {
            let chosen: Vec<usize> = (0..3 + round % 6).map(|_| rng.below(domain.rules.len())).collect();
            domain.try_set(&engines, &chosen);
        }
    }
}

/// Each end of each word matters somewhere among the triples drawn.
#[test]
fn broken_engines_are_caught() {
    let mut rng = Rng::new(5);
    for domain in domains() {
        let mut faults = crate::broken::word_faults(domain.schema.words().len());
        faults.extend([Fault::MasksIgnored, Fault::RegionDropped { index: 0 }, Fault::RegionDropped { index: 2 }]);
        for _ in 0..2_000 {
            let chosen: Vec<usize> = (0..3).map(|_| rng.below(domain.rules.len())).collect();
            let (set, case) = domain.case(&chosen);
            let lowered = lower(&set, &domain.schema, &ExpansionLimits::default()).expect("within the caps");
            assert_eq!(case.check(&Reference::new(&lowered)), Ok(()));
            faults.retain(|fault| case.check(&fault.engine(&lowered)).is_ok());
        }
        assert!(faults.is_empty(), "unnoticed: {faults:?}");
    }
}
