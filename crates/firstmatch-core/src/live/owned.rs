//! Changes of rules by an owner that both looks up and changes them.

use std::sync::Arc;

use super::attached::Attachments;
use super::commit::Changer;
use super::config::Config;
use super::reader::{Engine, Reader};
use super::sets::SetChanges;
use crate::engine::tombstones::slots;
use crate::engine::{self, Match, NamedCounts, Stats, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::key::Keys;
use crate::rule::{LiveSets, Lowered, Regions, RuleId};
use crate::schema::Schema;

/// Owned engine: rules of one schema for an owner that both looks up and changes them.
///
/// Rules change one by one, and the change that makes a rebuild due runs it.
#[derive(Debug)]
pub struct Owned {
    engine: Engine,
    changer: Changer,
    /// Live rules, indexed by slot.
    live: Vec<Option<Match>>,
    /// Whether the last rebuild found no room.
    is_cramped: bool,
}

impl Owned {
    /// Builds an engine without rules.
    ///
    /// # Errors
    /// If this machine lacks the forced instruction set, or the budget has no room for an engine without rules.
    pub fn new(schema: &Schema, config: &Config) -> Result<Self, BuildError> {
        Self::build(&Lowered::empty(schema), config)
    }

    /// Builds an engine with the rules of a lowered set.
    ///
    /// # Errors
    /// If no base fits the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let changer = {
            let none = (&SetChanges::default(), &LiveSets::default());
            Changer::new(vec![set.clone()], none, Attachments::default(), config, [0; 2])?
        };
        let engine = Engine { shared: Arc::clone(&changer.shared), part: 0, schema: set.schema().clone() };
        let mut live = vec![None; slots(set)];
        let rules = set.kept_by_rule().map(|(rule, _)| rule).chain(set.unmatchable().iter().copied());
        rules.for_each(|rule| live[rule.rule.slot()] = Some(rule));
        Ok(Self { engine, changer, live, is_cramped: false })
    }

    /// Returns the engine, for lookups by others.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Commits the next changes, with the rebuilds that they need.
    fn commit(&mut self) -> Result<(), UpdateError> {
        let none = &mut LiveSets::default();
        let done = match self.changer.commit(true, none) {
            Err(error) if error.needs_rebuild() => self.rebuild().and_then(|()| {
                self.is_cramped = false;
                self.changer.commit(true, none)
            }),
            done => done,
        };
        self.changer.next.clear();
        done?;
        if self.changer.rebuild_is_due() && !self.is_cramped {
            // Without room for a new base, the old one stays until the overlay is full.
            let rebuilt = self.rebuild();
            self.is_cramped = rebuilt.is_err();
        }
        Ok(())
    }

    fn rebuild(&mut self) -> Result<(), UpdateError> {
        let rebuilt = self.changer.begin_rebuild().run().map_err(UpdateError::lowering);
        let installed = rebuilt.and_then(|rebuilt| self.changer.install(rebuilt, true));
        self.changer.forget_rebuild();
        installed.map(drop)
    }
}

impl engine::Engine for Owned {
    type Scratch = Reader;

    fn schema(&self) -> &Schema {
        engine::Engine::schema(&self.engine)
    }

    fn new_scratch(&self) -> Reader {
        self.engine.new_scratch()
    }

    fn fits(&self, reader: &Reader) -> bool {
        self.engine.fits(reader)
    }

    fn stats(&self) -> Stats {
        let mut stats = engine::Engine::stats(&self.engine);
        let live = self.live.capacity() * size_of::<Option<Match>>();
        stats.bytes.push(("rules for rebuilds", self.changer.bytes() + live));
        stats
    }

    fn version(&self) -> u64 {
        self.engine.version()
    }

    fn improve(&self, reader: &mut Reader, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.engine.improve(reader, keys, best);
    }

    fn count(&self, reader: &mut Reader, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        self.engine.count(reader, keys, best)
    }
}

impl Updatable for Owned {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        let (key_words, slot) = (self.engine.schema.words().len(), rule.rule.slot());
        if regions.key_words() != key_words {
            return Err(UpdateError::key_words(regions.key_words(), key_words));
        }
        if self.live.get(slot).copied().flatten().is_some() {
            return Err(UpdateError::present(rule.rule));
        }
        // Clears the remains of an insertion that panicked.
        self.changer.next.clear();
        self.changer.next.insert(rule, |_, to| {
            regions.iter().for_each(|region| to.push(region));
            Ok::<_, UpdateError>(())
        })?;
        self.commit()?;
        if self.live.len() <= slot {
            self.live.resize(slot + 1, None);
        }
        self.live[slot] = Some(rule);
        Ok(())
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        let live = self.live.get(rule.slot()).copied().flatten().filter(|live| live.rule == rule);
        let live = live.ok_or_else(|| UpdateError::stale(rule))?;
        self.changer.next.clear();
        self.changer.next.remove(live);
        self.commit()?;
        self.live[rule.slot()] = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::engine::Engine;
    use crate::rule::{Priority, Region};

    /// A full overlay is rebuilt into the base at the next insertion, although no rebuild was due before.
    #[test]
    fn an_owner_rebuilds_when_the_overlay_is_full() {
        let config = Config { overlay: Some(4), due: Some(1000), in_place: Some(0), ..Config::default() };
        let mut owner = Owned::new(&Schema::ipv4(), &config).expect("no budget");
        for slot in 0..23u32 {
            let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
            let mut regions = Regions::new(5);
            regions.push(Region { lo: &[slot, 0, 0, 0, 0], hi: &[slot, 0, 7, 0, 0], ternary: None });
            owner.insert(rule, &regions).expect("a rebuild makes room");
            let state = owner.changer.shared.replicas.now().1;
            let [part] = &state.parts[..] else { panic!("one schema") };
            assert_eq!((part.rules(), part.overlay.rules()), (slot as usize + 1, slot as usize % 4 + 1));
        }
    }

    /// An insertion that the budget has no room for is refused, and the rule is not there.
    #[test]
    fn an_owner_refuses_what_the_budget_has_no_room_for() {
        let schema = Schema::ipv4();
        let bytes = |owner: &Owned| owner.engine.explain().bytes;
        let free = bytes(&Owned::new(&schema, &Config::default()).expect("no budget"));
        let budget = crate::Budget { run_bytes: free + 20_000 };
        let mut owner = Owned::new(&schema, &Config { budget, ..Config::default() }).expect("it fits");
        let (mut rules, mut refused) = (0, 0);
        for slot in 0..1000u32 {
            let rule = Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
            let mut regions = Regions::new(5);
            regions.push(Region { lo: &[slot, 0, 0, 0, 0], hi: &[slot, slot, 7, 0, 0], ternary: None });
            let inserted = owner.insert(rule, &regions);
            rules += usize::from(inserted.is_ok());
            refused += usize::from(inserted.is_err());
            assert_eq!(Engine::stats(&owner).rules, rules, "rule {slot}: {inserted:?}");
            assert!(inserted.is_ok() || owner.remove(rule.rule).is_err_and(|error| error.is_stale()));
        }
        assert!(rules > 20 && refused > 500, "{rules} came, {refused} were refused");
    }

    /// A change that panicked is not done later.
    #[test]
    fn an_owner_goes_on_after_a_panic() {
        let rule = |slot: u32| Match { rule: RuleId::new(slot, 0), priority: Priority(u64::from(slot)) };
        let lowered = {
            let mut set = Lowered::empty(&Schema::ipv4());
            set.push(rule(1), Region { lo: &[0; 5], hi: &[0, 0, 7, 0, 0], ternary: None });
            set
        };
        let mut owner = Owned::build(&lowered, &Config::default()).expect("no budget");
        let mut regions = Regions::new(5);
        regions.push(lowered.regions().get(0));
        for (round, slot) in (0..).zip([5, 6]) {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                let same = |_, to: &mut Regions| {
                    to.push(regions.get(0));
                    Ok::<_, ()>(())
                };
                owner.changer.next.insert(rule(slot), same).expect("it is noted");
                let replicas = &owner.changer.shared.replicas;
                replicas.publish(true, |_, _| panic!("inside a commit"))
            }));
            assert!(panicked.is_err());
            // The same rule, then another one.
            let inserted = rule([5, 7][round]);
            owner.insert(inserted, &regions).expect("nothing is in the way");
            assert_eq!(Engine::stats(&owner).rules, 2 + round);
            assert!(owner.remove(rule(6).rule).is_err_and(|error| error.is_stale()));
        }
        assert!(owner.remove(rule(5).rule).is_ok() && owner.remove(rule(7).rule).is_ok());
        assert_eq!(Engine::stats(&owner).rules, 1);
    }
}
