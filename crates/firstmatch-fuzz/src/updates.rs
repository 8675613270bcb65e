//! Fuzz target that inserts and removes rules, and compares with the oracle after each step.

use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::live::{self, Kind, RebuildJob, Rebuilt, Strategy, Transaction};
use firstmatch_core::rule::{
    ExpansionLimits, FieldValues, Priority, Region, Regions, RuleId, RuleSet, RuleSpec, lower,
};
use firstmatch_core::{Budget, Classifier, Match, Schema, Scratch, Stats, Updatable, UpdateError};

use crate::case::Case;
use crate::corners;
use crate::draw::Draw;
use crate::engines::{Start, Subject, small_bases, small_meta, updatable_engines};
use crate::generate::schemas;
use crate::ids::Ids;
use crate::rng::Rng;

const MOST_STEPS: usize = 16;
const MOST_REGIONS: usize = 32;
/// Number of packets drawn after each step, besides those of the last changes.
const PACKETS: usize = 8;
const ASKED: usize = 4;
/// Number of removed rules remembered, for their stale ids and their corners.
const DEAD: usize = 8;

/// Families by prefixes of subject names: the first byte chooses a family, the next one of its subjects.
///
/// The number behind the last prefix stands for [`commit`], a writer whose readers cache flows.
const FAMILIES: [&[&str]; 4] = [&["tuplemerge", "tss"], &["partitionsort"], &["meta"], &["flow cache"]];

/// An engine and a rule set that receive the same changes.
struct Mirror {
    subject: Subject,
    budget: Budget,
    schema: Schema,
    engine: Box<dyn Updatable>,
    /// Scratch that all steps share.
    scratch: Scratch,
    set: RuleSet,
    regions: usize,
    dead: Vec<(RuleId, RuleSpec)>,
}

impl Mirror {
    fn new(schema: &Schema, subject: Subject, budget: Budget) -> Option<Self> {
        let engine = match subject.try_start(Start::Empty(schema), budget) {
            Ok(engine) => engine,
            Err(error) => {
                assert!(error.budget_exceeded(), "{}: {error}", subject.name);
                return None;
            }
        };
        let (schema, set) = (schema.clone(), RuleSet::new(schema.clone()));
        Some(Self { subject, budget, scratch: engine.scratch(), schema, engine, set, regions: 0, dead: Vec::new() })
    }

    fn name(&self) -> String {
        format!("{}, {:?}", self.subject.name, self.budget)
    }

    fn insert(&mut self, spec: &RuleSpec, regions: &Regions) {
        // Nothing is inserted where the priority is taken.
        let Ok(id) = self.set.insert(spec.clone()) else { return };
        let rule = Match { rule: id, priority: spec.priority };
        let before = self.engine.stats();
        match self.engine.insert(rule, regions) {
            Ok(()) => self.regions += regions.len(),
            Err(error) => {
                self.set.remove(id).expect("just inserted");
                assert!(error.budget_exceeded() && self.budget != Budget::default(), "{}: {error}", self.name());
                // Regions that were already inserted are taken out again; the memory they took may be kept for later
                // ones. `meta` has replayed its backlog on the second replica.
                let (after, name) = (self.engine.stats(), self.name());
                assert_eq!((after.rules, after.regions), (before.rules, before.regions), "{name}");
                assert!(
                    regions.len() > 1 || self.subject.is_meta() || after == before,
                    "{name}: {before:?}, {after:?}"
                );
            }
        }
    }

    fn remove(&mut self, id: RuleId) {
        let rule = self.set.remove(id).expect("the rule is live");
        let mut regions = Regions::new(self.schema.words().len());
        self.regions -=
            firstmatch_core::rule::lower_rule(&self.schema, &rule, &ExpansionLimits::default(), &mut regions)
                .expect("it was lowered before");
        let removed = self.engine.remove(id);
        assert!(removed.is_ok(), "{}: {removed:?}", self.name());
        remember(&mut self.dead, id, rule.spec);
    }

    /// Applies a change that must fail and checks that the statistics stay as they were.
    fn fails(&mut self, what: &str, change: impl FnOnce(&mut dyn Updatable) -> Result<(), UpdateError>) -> UpdateError {
        let before = self.engine.stats();
        let Err(error) = change(&mut *self.engine) else { panic!("{}: {what} was accepted", self.name()) };
        assert_eq!(self.engine.stats(), before, "{}: {what} left something behind", self.name());
        error
    }

    /// Removes an id that no live rule has: of a removed rule, an unused slot or another reuse.
    fn remove_stale(&mut self, place: usize) {
        let mut stale: Vec<RuleId> = self.dead.iter().map(|(id, _)| *id).collect();
        stale.extend([RuleId::new(self.set.slots() as u32, 0), RuleId::new(u32::MAX - 1, u32::MAX)]);
        if let Some(live) = live(&self.set, place) {
            let slot = live.slot() as u32;
            stale.extend([live.reuse().wrapping_add(1), live.reuse().wrapping_sub(1)].map(|r| RuleId::new(slot, r)));
        }
        let id = stale[place % stale.len()];
        let error = self.fails("a stale id", |engine| engine.remove(id));
        assert!(error.is_stale(), "{error}");
    }

    fn insert_twice(&mut self, place: usize, regions: &Regions) {
        let Some(live) = live(&self.set, place) else { return };
        let reuse = live.reuse().wrapping_add(place as u32 & 1);
        let rule = Match { rule: RuleId::new(live.slot() as u32, reuse), priority: Priority(u64::MAX) };
        let error = self.fails("a slot that is taken", |engine| engine.insert(rule, regions));
        assert!(!error.is_stale() && !error.budget_exceeded(), "{error}");
    }

    fn insert_other_words(&mut self, place: usize) {
        let key_words = if place & 1 == 0 { self.schema.words().len() + 1 } else { self.schema.words().len() - 1 };
        let mut regions = Regions::new(key_words);
        let zeros = vec![0; key_words];
        regions.push(Region { lo: &zeros, hi: &zeros, ternary: None });
        let rule = Match { rule: RuleId::new(self.set.slots() as u32, 0), priority: Priority(u64::MAX) };
        let error = self.fails("another number of words", |engine| engine.insert(rule, &regions));
        assert!(!error.is_stale() && !error.budget_exceeded(), "{error}");
    }

    /// Checks the engine's numbers of rules and regions, and that it keeps the budget.
    fn check_stats(&self) -> Stats {
        let stats = self.engine.stats();
        let budgeted = stats.bytes.iter().filter(|(part, _)| *part != "rules for rebuilds");
        let bytes: usize = budgeted.map(|(_, bytes)| bytes).sum();
        assert!(bytes <= self.budget.run_bytes, "{}: {bytes} bytes", self.name());
        assert_eq!((stats.rules, stats.regions), (self.rules_with_regions(), self.regions), "{}", self.name());
        stats
    }

    /// Returns the number of rules with a region, because no engine holds the others.
    fn rules_with_regions(&self) -> usize {
        let mut regions = Regions::new(self.schema.words().len());
        let mut has_some = |rule: &RuleSpec| {
            regions.clear();
            firstmatch_core::rule::lower_rule(&self.schema, rule, &ExpansionLimits::default(), &mut regions)
                .is_ok_and(|of| of > 0)
        };
        self.set.iter().filter(|rule| has_some(&rule.spec)).count()
    }

    fn check(&mut self, packets: &[FieldValues]) {
        let case = Case::new(&self.set, &self.schema, packets.to_vec());
        if let Err(what) = case.check_with(&*self.engine, &mut self.scratch) {
            panic!("{}: {what}\n{:#?}", self.name(), self.set);
        }
    }

    /// Checks that the changed engine, a fresh build and `linear` agree with the oracle.
    fn finish(&self, rng: &mut Rng) {
        let lowered = lower(&self.set, &self.schema, &ExpansionLimits::default()).expect("within the caps");
        let fresh = self.subject.start(Start::Rules(&lowered));
        let linear = Linear::build(&lowered, &linear::Config::default()).expect("no budget");
        let (changed, built) = (self.check_stats(), fresh.stats());
        assert_eq!((changed.rules, changed.regions), (built.rules, built.regions), "{}", self.name());
        let case = Case::new(&self.set, &self.schema, corners::of_set(&self.set, &self.schema, rng, 3 * PACKETS));
        for engine in [&*self.engine as &dyn Classifier, &*fresh, &linear] {
            if let Err(what) = case.check_lengths(engine, [3 * PACKETS, 1, 2, 9]) {
                panic!("{}: {what}\n{:#?}", self.name(), self.set);
            }
        }
    }
}

/// Returns the id of the live rule at `place`, modulo the number of rules.
fn live(set: &RuleSet, place: usize) -> Option<RuleId> {
    set.iter().nth(place % set.len().max(1)).map(|rule| rule.id)
}

fn remember(dead: &mut Vec<(RuleId, RuleSpec)>, id: RuleId, spec: RuleSpec) {
    if dead.len() == DEAD {
        dead.remove(0);
    }
    dead.push((id, spec));
}

/// Returns packets from the corners of the last changes and of a few other rules.
fn packets(
    set: &RuleSet,
    schema: &Schema,
    last: Option<&RuleSpec>,
    dead: &[(RuleId, RuleSpec)],
    rng: &mut Rng,
) -> Vec<FieldValues> {
    let gone = dead.last().map(|(_, spec)| spec);
    let mut asked: Vec<RuleSpec> = last.into_iter().chain(gone).cloned().collect();
    let alone = |spec: &RuleSpec, rng: &mut Rng| corners::packets(schema, std::slice::from_ref(spec), rng, 3);
    let mut packets: Vec<FieldValues> = asked.iter().flat_map(|spec| alone(spec, rng)).collect();
    for _ in 0..if set.is_empty() { 0 } else { ASKED } {
        asked.extend(set.iter().nth(rng.below(set.len())).map(|rule| rule.spec.clone()));
    }
    asked.extend((!dead.is_empty()).then(|| rng.pick(dead).1.clone()));
    packets.extend(corners::packets(schema, &asked, rng, PACKETS));
    packets
}

/// Plays a sequence of changes, some of which must be refused.
///
/// The first byte chooses the engine: TupleMerge, PartitionSort, `meta` in place or with an overlay, or a writer whose
/// readers have a flow cache. After each change the answers must be the oracle's, a refused change must have changed
/// nothing, and the budget must be kept. In the end `linear` and a fresh build must agree.
pub fn updates(data: &[u8]) {
    let mut draw = Draw::new(data);
    let (family, which) = (draw.below(FAMILIES.len() + 1), usize::from(draw.byte()));
    let mut all = schemas();
    let schema = all.swap_remove(draw.below(all.len())).1;
    let mut rng = Rng::new(u64::from(draw.word()));
    let run_bytes = 500 + usize::from(draw.word()) * 2;
    match FAMILIES.get(family) {
        None => commit(&mut draw, which, &schema, &mut rng),
        Some(prefixes) => {
            // Subjects with a random seed are left out, because a failure of theirs could not be replayed.
            let is_of = |s: &Subject| prefixes.iter().any(|of| s.name.starts_with(of)) && !s.name.contains("random");
            let mut subjects: Vec<Subject> = updatable_engines().into_iter().filter(is_of).collect();
            let subject = subjects.swap_remove(which / 2 % subjects.len());
            let budget = if which % 2 == 1 { Budget { run_bytes } } else { Budget::default() };
            if let Some(mirror) = Mirror::new(&schema, subject, budget) {
                change(&mut draw, mirror, &mut rng);
            }
        }
    }
}

fn change(draw: &mut Draw<'_>, mut mirror: Mirror, rng: &mut Rng) {
    for _ in 0..MOST_STEPS {
        if draw.is_done() {
            break;
        }
        let (step, place) = (draw.below(16), usize::from(draw.byte()));
        let rule = if step < 10 { draw.rule(&mirror.schema, MOST_REGIONS) } else { None };
        match (step, &rule) {
            (0..9, Some((spec, regions))) => mirror.insert(spec, regions),
            (9, Some((_, regions))) => mirror.insert_twice(place, regions),
            (10..14, _) => live(&mirror.set, place).into_iter().for_each(|id| mirror.remove(id)),
            (14, _) => mirror.remove_stale(place),
            (15, _) => mirror.insert_other_words(place),
            _ => {}
        }
        let last = rule.as_ref().map(|(spec, _)| spec);
        let packets = packets(&mirror.set, &mirror.schema, last, &mirror.dead, rng);
        mirror.check(&packets);
    }
    mirror.finish(rng);
}

/// Applies a drawn step to `transaction` and the expected rules `next`; returns its rule.
fn step(
    draw: &mut Draw<'_>,
    schema: &Schema,
    transaction: &mut Transaction<'_>,
    next: &mut RuleSet,
    dead: &mut Vec<(RuleId, RuleSpec)>,
    ids: &Ids,
) -> Option<RuleSpec> {
    let (what, place) = (draw.below(8), usize::from(draw.byte()));
    match (what, live(next, place)) {
        (0..4, _) => {
            let (spec, _) = draw.rule(schema, MOST_REGIONS)?;
            let inserted = transaction.insert(spec.clone()).ok();
            inserted.into_iter().for_each(|id| ids.give(id));
            assert_eq!(inserted, next.insert(spec.clone()).ok());
            Some(spec)
        }
        (4..7, Some(old)) => {
            transaction.remove(old).expect("it is live");
            assert!(transaction.remove(old).is_err_and(|error| error.is_stale()));
            let rule = next.remove(old).expect("it is live");
            remember(dead, old, rule.spec);
            None
        }
        (_, Some(old)) => {
            let (spec, _) = draw.rule(schema, MOST_REGIONS)?;
            let rule = next.remove(old).expect("it is live");
            let spec = RuleSpec { priority: rule.priority, ..spec };
            let inserted = transaction.replace(old, spec.clone()).ok();
            inserted.into_iter().for_each(|id| ids.give(id));
            assert_eq!(inserted, next.insert(spec.clone()).ok());
            remember(dead, old, rule.spec);
            Some(spec)
        }
        _ => None,
    }
}

/// Commits while rebuilds are under way, and checks readers with and without a flow cache.
fn commit(draw: &mut Draw<'_>, which: usize, schema: &Schema, rng: &mut Rng) {
    let bases: Vec<(Kind, usize)> = small_bases().collect();
    let (kind, in_place) = bases[which % bases.len()];
    let config = live::Config { strategy: Strategy::Force(kind), in_place: Some(in_place), ..small_meta() };
    let (engines, mut writer) = live::open(RuleSet::new(schema.clone()), &config).expect("no budget");
    let entries = 1 + which / bases.len();
    let cache =
        flow::Config { entries, ways: 1 + entries % 8, steps_aside: false, seed: Some(1), ..Default::default() };
    let cached = FlowCache::new(engines[0].clone(), &cache).expect("no level is forced");
    let (mut behind, mut bare) = (cached.scratch(), Classifier::scratch(&engines[0]));
    let (mut dead, mut job, mut built): (_, Option<RebuildJob>, Option<Rebuilt>) = (Vec::new(), None, None);
    let mut ids = Ids::default();
    for _ in 0..MOST_STEPS {
        if draw.is_done() {
            break;
        }
        let how = draw.byte();
        let mut next = writer.rules().clone();
        let mut transaction = writer.begin();
        let mut last = None;
        for _ in 0..1 + how % 3 {
            last = step(draw, schema, &mut transaction, &mut next, &mut dead, &ids).or(last);
        }
        let mut is_refused = false;
        if how >= 192 {
            drop(transaction);
        } else if let Err(error) = transaction.commit() {
            assert!(error.needs_rebuild(), "{error}");
            is_refused = true;
        } else {
            assert!(writer.rules().iter().eq(next.iter()), "the rules are those of the transaction");
        }
        ids.see(writer.rules());
        assert!(ids.removed().all(|id| writer.begin().remove(id).is_err_and(|error| error.is_stale())));
        // One step of a rebuild at a time (begin, run, install), so that commits happen in between.
        if is_refused || how & 4 != 0 {
            match (built.take(), job.take()) {
                // Installing may fail, because a new base may have less room for the backlog than the old one.
                (Some(built), _) => drop(writer.install(built)),
                (None, Some(running)) => built = Some(RebuildJob::run(running).expect("no budget")),
                (None, None) => job = Some(writer.begin_rebuild()),
            }
        }
        let case = Case::new(writer.rules(), schema, packets(writer.rules(), schema, last.as_ref(), &dead, rng));
        // Two passes, because the flow cache answers the second.
        for _ in 0..2 {
            let (of, scratch): (&dyn Classifier, _) = (&cached, &mut behind);
            if let Err(what) = case.check_with(of, scratch) {
                panic!("{cache:?} over {config:?}: {what}\n{:#?}", writer.rules());
            }
        }
        if let Err(what) = case.check_with(&engines[0], &mut bare) {
            panic!("{config:?}: {what}\n{:#?}", writer.rules());
        }
    }
    let rules = writer.rules();
    let lowered = lower(rules, schema, &ExpansionLimits::default()).expect("within the caps");
    let linear = Linear::build(&lowered, &linear::Config::default()).expect("no budget");
    let case = Case::new(rules, schema, corners::of_set(rules, schema, rng, 3 * PACKETS));
    for engine in [&engines[0] as &dyn Classifier, &cached, &linear] {
        if let Err(what) = case.check_lengths(engine, [3 * PACKETS, 1, 2, 9]) {
            panic!("{config:?}: {what}\n{rules:#?}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Instant;

    use super::*;

    /// Every family must have a seed over every schema.
    ///
    /// The printed times show how many runs a fuzzer can make in a minute.
    #[test]
    fn seeds_drive_every_family() {
        let mut seen = BTreeSet::new();
        for (path, data) in crate::files("seeds/updates") {
            let mut draw = Draw::new(&data);
            let (family, _, schema) = (draw.below(FAMILIES.len() + 1), draw.byte(), draw.below(schemas().len()));
            seen.insert((family, schema));
            let start = Instant::now();
            updates(&data);
            println!("{:?} {}", start.elapsed(), path.display());
        }
        assert_eq!(seen.len(), (FAMILIES.len() + 1) * schemas().len(), "{seen:?}");
    }
}
