//! Random rule sets, keys from their corners, the oracle beside every engine.
//!
//! Broken engines prove that the run can fail.

use std::collections::BTreeSet;

use firstmatch_core::raw::Level;
use firstmatch_core::rule::{
    Condition, ExpansionLimits, FieldValues, Lowered, Priority, RuleSet, RuleSpec, Test, lower,
};
use firstmatch_core::schema::{Field, Kind};
use firstmatch_core::{Classifier, Match, Schema};

use crate::broken::{Fault, word_faults};
use crate::case::Case;
use crate::corners;
use crate::corpus::regions_of;
use crate::engines::{Reference, Start, engines};
use crate::generate::{empty_rule, rule_set, schemas};
use crate::rng::Rng;

/// Number of rules of each set, and of packets it is asked about.
const SIZES: [(usize, usize); 8] =
    [(1, 200), (2, 200), (5, 300), (12, 400), (30, 600), (80, 1000), (200, 1500), (500, 2500)];

/// Random set with everything about it.
struct Round {
    name: String,
    lowered: Lowered,
    case: Case,
}

/// Returns the rounds over one schema, which have to be strong.
fn rounds(name: &str, schema: &Schema, seed: u64) -> Vec<Round> {
    let mut rng = Rng::new(seed);
    let (mut keys, mut once, mut twice) = (0, 0, 0);
    let (mut live, mut winners) = (0, 0);
    let mut out = Vec::new();
    for (rules, packets) in SIZES {
        let set: RuleSet = rule_set(schema, &mut rng, rules);
        let lowered = lower(&set, schema, &ExpansionLimits::default()).expect("within the caps");
        let case = Case::new(&set, schema, corners::of_set(&set, schema, &mut rng, packets));
        let (a, b) = case.strength(&set, schema);
        (keys, once, twice) = (keys + packets, once + a, twice + b);
        let won: BTreeSet<_> = case.want.iter().flatten().map(|m| m.rule).collect();
        (live, winners) = (live + lowered.by_rule().count(), winners + won.len());
        out.push(Round { name: format!("{name}, {rules} rules, seed {seed}"), lowered, case });
    }
    assert!(once * 2 >= keys, "{name}: only {once} of {keys} keys match");
    assert!(twice * 4 >= keys, "{name}: only {twice} of {keys} keys match two rules");
    assert!(winners * 3 >= live, "{name}: only {winners} of {live} rules ever win");
    out
}

fn all_rounds() -> impl Iterator<Item = Round> {
    let each = |(index, (name, schema)): (usize, (&'static str, Schema))| {
        (0..2).flat_map(move |seed| rounds(name, &schema, seed * 100 + index as u64))
    };
    schemas().into_iter().enumerate().flat_map(each)
}

#[test]
fn every_engine_answers_as_the_oracle() {
    let engines = engines();
    for round in all_rounds() {
        for subject in &engines {
            let engine = subject.build(&round.lowered);
            if let Err(what) = round.case.check_thoroughly(&*engine) {
                panic!("{}: {}: {what}", subject.name, round.name);
            }
        }
    }
}

#[test]
fn broken_engines_are_caught() {
    for (index, (name, schema)) in schemas().into_iter().enumerate() {
        let rounds = rounds(name, &schema, index as u64);
        // The unbroken engine must be right, otherwise it would prove nothing that a broken one is caught.
        for round in &rounds {
            assert_eq!(round.case.check_thoroughly(&Reference::new(&round.lowered)), Ok(()), "{}", round.name);
        }
        let caught = |fault: Fault| rounds.iter().any(|round| round.catches(fault));
        // Faults at both ends of every word must be caught by the run as a whole.
        for fault in word_faults(schema.words().len()) {
            let constant = matches!(fault, Fault::WordIgnored { .. }) && word_is_idle(fault, &rounds);
            assert!(constant || caught(fault), "{name}: {fault:?} goes unnoticed");
        }
        assert!(caught(Fault::MasksIgnored), "{name}: masks can be ignored");
        let mut rng = Rng::new(7);
        let last = rounds.last().expect("rounds");
        // Most single faults in the largest set are caught, as far as they can be noticed at all. A shadowed region
        // cannot, nor a tie between rules that never meet.
        let regions = last.lowered.regions().len();
        let dropped = |_| last.catches(Fault::RegionDropped { index: rng.below(regions) });
        let noticed = (0..60).map(dropped).filter(|&c| c).count();
        assert!(noticed >= 6, "{name}: of 60 dropped regions {noticed} are noticed");
        for round in &rounds[2..] {
            let (first, second) = round.tie().expect("rules meet");
            assert!(round.catches(Fault::TieTurned { first, second }), "{}: a tie can be turned", round.name);
        }
    }
}

/// Whether every region spans a whole word, so that the word cannot be missed.
///
/// The top word of a wide optional field may be such a word.
fn word_is_idle(fault: Fault, rounds: &[Round]) -> bool {
    let Fault::WordIgnored { word } = fault else { return false };
    let spans = |round: &Round| {
        let max = round.lowered.schema().words()[word].max;
        round.lowered.regions().iter().all(|r| r.lo[word] == 0 && r.hi[word] == max)
    };
    rounds.iter().all(spans)
}

impl Round {
    fn catches(&self, fault: Fault) -> bool {
        self.case.check(&fault.engine(&self.lowered)).is_err()
    }

    /// Returns the winner of some packet and the next rule that also matches it.
    fn tie(&self) -> Option<(Match, Match)> {
        (0..self.case.want.len()).find_map(|index| {
            let key = self.case.keys.keys().row(index);
            let hits = self.lowered.regions().iter().zip(self.lowered.rules()).filter(|(r, _)| r.contains(key));
            let mut hits = hits.map(|(_, m)| *m);
            Some((hits.next()?, hits.next()?))
        })
    }
}

/// Every bit of a mask is compared, in whichever byte of whichever word: for each bit of each field a rule whose mask
/// has it and leaves a higher bit open, so that bounds alone do not tell; and keys that differ in that bit, or in an
/// open one.
#[test]
fn every_bit_of_a_mask_is_compared() {
    let field = |name: &str, width| Field::new(name, width, Kind::Mask, None);
    let schema = Schema::new(None, vec![field("a", 32), field("b", 40), field("c", 16).optional()]);
    let mut rng = Rng::new(3);
    let mut set = RuleSet::new(schema.clone());
    let mut packets = Vec::new();
    for (index, field) in schema.fields().iter().enumerate() {
        let width = field.width();
        for bit in 0..width {
            let high = if bit + 1 == width { width - 2 } else { width - 1 };
            let open = 1u128 << high | 1 << ((bit + 5) % width);
            let mask = field.max() & !(open & !(1 << bit));
            let value = rng.bits(width) & mask;
            let test = Condition { field: index, negated: false, tests: vec![(None, Test::Mask { value, mask })] };
            let priority = Priority(set.len() as u64);
            set.insert(RuleSpec { conditions: [test].into(), ..empty_rule(priority) }).expect("it fits");
            for flip in [1u128 << bit, open & !mask, 0] {
                let mut values = vec![Some(5), Some(9), None];
                values[index] = Some(value ^ flip);
                packets.push(FieldValues { family: None, values });
            }
        }
    }
    let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
    let case = Case::new(&set, &schema, packets);
    assert!(case.check(&Fault::MasksIgnored.engine(&lowered)).is_err());
    let matched = case.want.iter().flatten().count();
    assert!((2 * set.len()..2 * set.len() + set.len() / 2).contains(&matched), "{matched} match");
    for subject in engines() {
        let engine = subject.build(&lowered);
        case.check(&*engine).unwrap_or_else(|what| panic!("{}: {what}", subject.name));
    }
}

/// Continuous integration has a machine that runs every level.
///
/// Half of the listed engines run at vector levels. On a machine without these, the rest is tested.
#[test]
fn continuous_integration_tests_every_level() {
    let missing: Vec<Level> = Level::ALL.into_iter().filter(|level| !level.is_available()).collect();
    let is_ci = std::env::var_os("CI").is_some_and(|ci| !ci.is_empty());
    assert!(missing.is_empty() || !is_ci, "half of the harness would not run: this machine lacks {missing:?}");
}

/// The rounds are worth their time only if the engines they exercise differ from one another.
#[test]
fn engines_have_names_of_their_own() {
    let mut names: Vec<String> = engines().into_iter().map(|subject| subject.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), engines().len());
    let empty = RuleSet::new(Schema::ipv4());
    let lowered = lower(&empty, &Schema::ipv4(), &ExpansionLimits::default()).expect("an empty set");
    for subject in engines() {
        let engine: Box<dyn Classifier> = subject.build(&lowered);
        assert!(engine.schema() == &Schema::ipv4(), "{}", subject.name);
    }
}

/// The first and the last priority there are belong to rules as any other does, built and inserted.
#[test]
fn the_last_priority_is_found() {
    let (schema, mut met) = (Schema::ipv4(), [0; 2]);
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let drawn = rule_set(&schema, &mut rng, 8);
        let mut set = RuleSet::new(schema.clone());
        let ends = [rng.below(8), rng.below(8)];
        for (at, rule) in drawn.iter().enumerate() {
            let priority = match at {
                _ if at == ends[0] => Priority(u64::MAX),
                _ if at == ends[1] => Priority(0),
                _ => rule.priority,
            };
            set.insert(RuleSpec { priority, ..rule.spec.clone() }).expect("a priority that is free");
        }
        let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
        let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut rng, 400));
        for (met, end) in met.iter_mut().zip([0, u64::MAX]) {
            *met += case.want.iter().flatten().filter(|found| found.priority == Priority(end)).count();
        }
        for subject in engines() {
            if let Err(what) = case.check(&*subject.build(&lowered)) {
                panic!("{}, seed {seed}: {what}", subject.name);
            }
            if subject.is_updatable() {
                let mut engine = subject.start(Start::Empty(&schema));
                for rule in set.iter() {
                    let this = Match { rule: rule.id, priority: rule.priority };
                    engine.insert(this, &regions_of(&schema, &rule.spec)).expect("it fits");
                }
                if let Err(what) = case.check(&*engine) {
                    panic!("{}, seed {seed}, inserted: {what}", subject.name);
                }
            }
        }
    }
    assert!(met.iter().all(|&met| met > 100), "so many packets have the first and the last rule: {met:?}");
}
