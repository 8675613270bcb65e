//! What exists twice: for each schema the base, its marks and the overlay; and how it changes.

use std::ops::Range;
use std::sync::Arc;

use super::choose::{Choice, Chosen, Scratch};
use super::twin::ARC;
use crate::alive::{Alive, Dead};
use crate::engine::{Engine, Match, Updatable};
use crate::error::UpdateError;
use crate::key::Keys;
use crate::rule::{Lowered, Regions};
use crate::tuple::TupleMerge;

/// A base, built, and what is known of it.
#[derive(Debug)]
pub(super) struct Built {
    pub(super) base: Chosen,
    pub(super) choice: Choice,
    pub(super) rules: usize,
    /// On the heap, this struct included.
    pub(super) bytes: usize,
}

impl Built {
    pub(super) fn new(base: Chosen, choice: Choice) -> Self {
        let stats = base.stats();
        let bytes = ARC + size_of::<Self>() + stats.total_bytes();
        Self { base, choice, rules: stats.rules, bytes }
    }
}

/// The rules of one schema.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) built: Arc<Built>,
    /// The rules of the base that have been removed, and how many regions they have.
    pub(super) dead: Dead,
    pub(super) dead_regions: usize,
    /// The rules that have been inserted since the base was built.
    pub(super) overlay: TupleMerge,
}

impl Part {
    pub(super) fn new(built: Arc<Built>, overlay: TupleMerge) -> Self {
        let dead = Dead::none(built.base.places());
        Self { built, dead, dead_regions: 0, overlay }
    }

    #[inline]
    pub(super) fn improve(&self, scratch: &mut Scratch, keys: Keys<'_>, best: &mut [Option<Match>]) {
        self.built.base.improve(scratch, keys, &self.dead, best);
        if self.overlay.rules() > 0 {
            self.overlay.improve(scratch, keys, best);
        }
    }

    /// Where the base has a rule that is alive; empty where it has not.
    fn alive_places(&self, rule: Match) -> Range<usize> {
        let places = self.built.base.places_of(rule);
        if !places.is_empty() && (&self.dead).is_alive(places.start) { places } else { 0..0 }
    }

    pub(super) fn rules(&self) -> usize {
        self.built.rules - self.dead.rules() + self.overlay.rules()
    }

    /// Marks a rule that the base has, as it was lowered in `store`.
    pub(super) fn mark(&mut self, rule: Match, places: Range<usize>, store: &Lowered) -> Step {
        let step = Step { rule, change: Change::Mark { places, regions: store.of_rule(rule).len() } };
        self.apply(&step);
        step
    }

    /// Does again what was done to the other copy.
    fn apply(&mut self, step: &Step) {
        let done = match &step.change {
            Change::Put(regions) => self.overlay.insert(step.rule, regions),
            Change::Take => self.overlay.remove(step.rule.rule),
            Change::Mark { places, regions } => {
                self.dead.mark(places.clone());
                self.dead_regions += regions;
                Ok(())
            }
        };
        debug_assert!(done.is_ok(), "{step:?}: {done:?}");
    }

    /// Bytes on the heap that each copy has of its own.
    pub(super) fn bytes(&self) -> usize {
        self.dead.bytes() + self.overlay.bytes()
    }
}

/// What was done to a part.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) rule: Match,
    pub(super) change: Change,
}

#[derive(Debug)]
pub(super) enum Change {
    /// Into the overlay.
    Put(Arc<Regions>),
    /// Out of the overlay.
    Take,
    /// In the base.
    Mark { places: Range<usize>, regions: usize },
}

impl Step {
    pub(super) fn bytes(&self) -> usize {
        match &self.change {
            Change::Put(regions) => ARC + size_of::<Regions>() + regions.bytes(),
            _ => 0,
        }
    }
}

/// One generation.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// Commits so far.
    pub(super) generation: u64,
    /// Rebuilds so far.
    pub(super) epoch: u64,
    pub(super) parts: Box<[Part]>,
}

/// What is asked for: the insertion of a rule with its regions in each part, or its removal.
#[derive(Clone, Debug)]
pub(super) enum Request {
    Insert(Match, Box<[Arc<Regions>]>),
    Remove(Match),
}

impl State {
    /// Does what is asked for and notes for each step its part; on an error some of it may be done.
    pub(super) fn change(
        &mut self,
        request: &Request,
        stores: &[Arc<Lowered>],
        steps: &mut Vec<(usize, Step)>,
    ) -> Result<(), UpdateError> {
        for (at, part) in self.parts.iter_mut().enumerate() {
            match request {
                Request::Insert(_, regions) if regions[at].is_empty() => {}
                Request::Insert(rule, regions) => {
                    part.overlay.insert(*rule, &regions[at])?;
                    steps.push((at, Step { rule: *rule, change: Change::Put(Arc::clone(&regions[at])) }));
                }
                Request::Remove(rule) => {
                    let places = part.alive_places(*rule);
                    if !places.is_empty() {
                        steps.push((at, part.mark(*rule, places, &stores[at])));
                    } else if part.overlay.remove(rule.rule).is_ok() {
                        steps.push((at, Step { rule: *rule, change: Change::Take }));
                    }
                    // Else it has no region for this schema.
                }
            }
        }
        Ok(())
    }

    pub(super) fn apply(&mut self, steps: &[(usize, Step)]) {
        steps.iter().for_each(|(part, step)| self.parts[*part].apply(step));
    }

    /// Bytes on the heap that each copy has of its own.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.parts[..]) + self.parts.iter().map(Part::bytes).sum::<usize>()
    }
}
