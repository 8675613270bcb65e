//! Fuzz target that compares every engine with the oracle on a drawn rule set.
//!
//! The packets come from the corners of the rules, because engines fail there first. For example, a rule for ports 10
//! to 20 gives packets with the ports 9, 10, 15, 20 and 21.

use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::engines::tuple::{self, TupleMerge};
use firstmatch_core::raw::Level;
use firstmatch_core::rule::{ExpansionLimits, Lowered, RuleSet, lower};
use firstmatch_core::{Budget, BuildError, Classifier};

use crate::case::{Case, LONGEST};
use crate::corners;
use crate::draw::Draw;
use crate::engines::engines;
use crate::generate::schemas;
use crate::rng::Rng;

const MOST_RULES: usize = 40;
const MOST_REGIONS: usize = 64;
const PACKETS: usize = LONGEST + 15;

/// Rule set and packets drawn from the bytes of one run.
pub(crate) struct Round {
    pub(crate) set: RuleSet,
    pub(crate) lowered: Lowered,
    pub(crate) case: Case,
    /// Collision limit of one more TupleMerge.
    collision_limit: usize,
    spill: bool,
    rng: Rng,
}

impl Round {
    pub(crate) fn new(data: &[u8]) -> Self {
        let mut draw = Draw::new(data);
        let mut all = schemas();
        let schema = all.swap_remove(draw.below(all.len())).1;
        let (collision_limit, spill) = (1 + draw.below(12), draw.byte() & 1 == 1);
        let mut rng = Rng::new(u64::from(draw.word()));
        let mut set = RuleSet::new(schema.clone());
        while !draw.is_done() && set.len() < MOST_RULES {
            // A rule at a priority that is taken is refused and changes nothing.
            if let Some((spec, _)) = draw.rule(&schema, MOST_REGIONS) {
                let (taken, len) = (set.at(spec.priority).is_some(), set.len());
                let inserted = set.insert(spec);
                assert_eq!((inserted.is_err(), set.len()), (taken, len + usize::from(!taken)), "{inserted:?}");
            }
        }
        let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
        let case = Case::new(&set, &schema, corners::of_set(&set, &schema, &mut rng, PACKETS));
        Self { set, lowered, case, collision_limit, spill, rng }
    }

    /// Checks `engine` at a few batch lengths, some of them random so that many runs try all.
    fn check(&mut self, name: &str, engine: &dyn Classifier) {
        let lengths = [PACKETS, 0, 1, self.rng.below(LONGEST), self.rng.below(LONGEST), self.rng.below(9)];
        if let Err(what) = self.case.check_lengths(engine, lengths) {
            panic!("{name}: {what}\n{:#?}", self.set);
        }
    }
}

/// Draws a schema, rules and packets, and compares every engine with the oracle.
///
/// Every engine of the harness is built, and TupleMerge at every SIMD level. Each classifies in batches of several
/// lengths.
pub fn differential(data: &[u8]) {
    let mut round = Round::new(data);
    // Subjects with a random seed are left out, because a failure of theirs could not be replayed.
    for subject in engines().iter().filter(|subject| !subject.name.contains("random")) {
        let engine = subject.build(&round.lowered);
        let stats = engine.stats();
        assert_eq!(stats.regions, round.lowered.regions().len(), "{}", subject.name);
        assert_eq!(stats.rules, round.lowered.by_rule().count(), "{}", subject.name);
        round.check(&subject.name, &*engine);
        // An engine fits a budget of exactly the bytes that it reports.
        let exact = Budget { run_bytes: stats.total_bytes() };
        // Not `meta`, because its candidates may take more while they are built.
        let is_meta = subject.is_meta();
        if !subject.is_updatable() && !is_meta {
            let again = subject.try_build(&round.lowered, exact);
            // A tree without covered regions may be smaller than the list of all regions that its build begins with.
            let is_list = |error: &BuildError| subject.fills_its_budget() && error.budget_exceeded();
            assert!(again.as_ref().err().is_none_or(is_list), "{}: {:?}", subject.name, again.err());
        }
        if let Some(run_bytes) = exact.run_bytes.checked_sub(1) {
            let error = subject.try_build(&round.lowered, Budget { run_bytes }).map(|engine| engine.stats());
            let kept = match &error {
                Err(error) => error.budget_exceeded(),
                // A slower engine may be built instead. The writer's rules for rebuilds do not count.
                Ok(stats) => {
                    let budgeted = stats.bytes.iter().filter(|(part, _)| *part != "rules for rebuilds");
                    let bytes: usize = budgeted.map(|(_, bytes)| bytes).sum();
                    (is_meta || subject.can_shrink()) && bytes <= run_bytes
                }
            };
            assert!(kept, "{}: {error:?}", subject.name);
        }
    }
    for level in Level::available() {
        let config = tuple::Config {
            simd: Some(level),
            collision_limit: round.collision_limit,
            spill: round.spill,
            preclassifier: round.collision_limit.is_multiple_of(2),
            seed: Some(round.collision_limit as u64),
            ..tuple::Config::default()
        };
        let engine = TupleMerge::build(&round.lowered, &config).expect("no budget");
        round.check(&format!("{config:?}"), &engine);
    }
    let engine = Linear::build(&round.lowered, &linear::Config::default()).expect("no budget");
    round.check("linear", &engine);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use firstmatch_testkit::broken::{Fault, word_faults};

    /// Most packets of the seeds match, and the seeds catch engines broken on purpose.
    #[test]
    fn broken_engines_are_caught() {
        let rounds: Vec<Round> = crate::files("seeds/differential").iter().map(|(_, data)| Round::new(data)).collect();
        let (mut keys, mut once, mut twice) = (0, 0, 0);
        for round in &rounds {
            let (a, b) = round.case.strength(&round.set, round.lowered.schema());
            (keys, once, twice) = (keys + PACKETS, once + a, twice + b);
        }
        assert!(once * 2 >= keys && twice * 4 >= keys, "of {keys} keys {once} match a rule, {twice} two");
        let caught = |fault: Fault| rounds.iter().any(|r| r.case.check(&fault.engine(&r.lowered)).is_err());
        for fault in word_faults(5).into_iter().chain([Fault::MasksIgnored]) {
            assert!(caught(fault), "{fault:?} goes unnoticed");
        }
        let names: BTreeSet<String> =
            rounds.iter().map(|round| format!("{:?}", round.lowered.schema().words())).collect();
        assert_eq!(names.len(), schemas().len(), "every schema has a seed");
    }
}
