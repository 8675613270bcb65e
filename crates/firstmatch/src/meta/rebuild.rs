//! Rebuilds: begun by the writer, run wherever the caller likes, installed by the writer with what changed meanwhile.

use std::sync::{Arc, Weak};

use super::Config;
use super::change::{build, marks_bytes};
use super::state::{Built, Part};
use crate::alive::{Alive, Dead};
use crate::engine::{Match, Updatable};
use crate::error::{BuildError, UpdateError};
use crate::rule::{Lowered, Regions};

/// New bases to be built from the rules of one generation. It holds all it needs, so any thread may run it.
#[derive(Debug)]
#[must_use = "nothing is rebuilt until it is run and installed"]
pub struct RebuildJob {
    pub(super) token: Arc<()>,
    pub(super) config: Config,
    pub(super) sources: Vec<Source>,
    /// Bytes that all but the bases and their marks take.
    pub(super) reserved: usize,
}

/// New bases, to be installed by the writer that began the rebuild.
#[derive(Debug)]
#[must_use = "nothing changes until it is installed"]
pub struct Rebuilt {
    pub(super) token: Arc<()>,
    pub(super) bases: Vec<Option<(Built, Lowered)>>,
}

/// The rules of one schema when the rebuild was begun.
#[derive(Debug)]
pub(super) struct Source {
    old: Arc<Built>,
    dead: Dead,
    store: Arc<Lowered>,
    overlay: Lowered,
}

impl Source {
    pub(super) fn new(part: &Part, store: Arc<Lowered>) -> Self {
        Self { old: Arc::clone(&part.built), dead: part.dead.clone(), store, overlay: part.overlay.lowered() }
    }

    fn is_unchanged(&self) -> bool {
        self.dead.rules() == 0 && self.overlay.rules().is_empty()
    }

    fn rules(&self) -> Lowered {
        let is_alive = |rule| (&self.dead).is_alive(self.old.base.places_of(rule).start);
        self.store.merged(|rule| self.dead.rules() == 0 || is_alive(rule), &self.overlay)
    }
}

impl RebuildJob {
    /// Builds the new bases: all of the work, and nothing of it touches the writer or the readers.
    ///
    /// # Errors
    /// When no base fits the budget any more. The rules stay as they are, and the job is gone.
    pub fn run(self) -> Result<Rebuilt, BuildError> {
        let mut reserved = self.reserved;
        let unchanged = self.sources.iter().filter(|source| source.is_unchanged());
        reserved += unchanged.map(|source| source.old.bytes + 2 * source.dead.bytes()).sum::<usize>();
        let mut bases = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            if source.is_unchanged() {
                bases.push(None);
                continue;
            }
            let rules = source.rules();
            reserved += 2 * marks_bytes(&rules);
            let built = build(&rules, &self.config, reserved, Some(&source.old.choice))?;
            reserved += built.bytes;
            bases.push(Some((built, rules)));
        }
        Ok(Rebuilt { token: self.token, bases })
    }
}

/// A rebuild that has been begun, and what has been removed since.
#[derive(Debug)]
pub(super) struct Running {
    /// Of the job, as long as there is one or what it has made.
    token: Weak<()>,
    parts: Vec<Since>,
}

#[derive(Debug)]
struct Since {
    /// The overlay's rules that the new base has, in order of priority, but for those removed since.
    taken: Vec<Match>,
    /// The rules of the new base that have been removed since.
    removed: Vec<Match>,
}

impl Running {
    pub(super) fn new(token: &Arc<()>, sources: &[Source]) -> Self {
        let since = |source: &Source| {
            let taken = source.overlay.by_rule().map(|(rule, _)| rule).collect();
            Since { taken, removed: Vec::new() }
        };
        Self { token: Arc::downgrade(token), parts: sources.iter().map(since).collect() }
    }

    pub(super) fn is_alive(&self) -> bool {
        self.token.strong_count() > 0
    }

    pub(super) fn is_of(&self, rebuilt: &Rebuilt) -> bool {
        std::ptr::eq(self.token.as_ptr(), Arc::as_ptr(&rebuilt.token))
    }

    /// A rule has gone from a base or its overlay.
    pub(super) fn removed(&mut self, part: usize, rule: Match, from_base: bool) {
        let since = &mut self.parts[part];
        // What went into the overlay later may have the same name: only the first of that name is in the new base.
        let taken = since.taken.binary_search_by_key(&rule.priority, |of| of.priority);
        let taken = taken.ok().filter(|&at| !from_base && since.taken[at] == rule).map(|at| since.taken.remove(at));
        if from_base || taken.is_some() {
            since.removed.push(rule);
        }
    }

    /// A new part, changed as the old one was since.
    pub(super) fn changed_since(
        &self,
        at: usize,
        old: &Part,
        mut new: Part,
        store: &Lowered,
    ) -> Result<Part, UpdateError> {
        let since = &self.parts[at];
        for &rule in &since.removed {
            let places = new.built.base.places_of(rule);
            debug_assert!(!places.is_empty(), "{rule:?} was removed since");
            let _step = new.mark(rule, places, store);
        }
        let overlay = old.overlay.lowered();
        let mut regions = Regions::new(overlay.schema().lanes().len());
        for (rule, range) in overlay.by_rule() {
            if since.taken.binary_search_by_key(&rule.priority, |of| of.priority).is_ok_and(|i| since.taken[i] == rule)
            {
                continue;
            }
            regions.clear();
            range.for_each(|index| regions.push(overlay.regions().get(index)));
            new.overlay.insert(rule, &regions)?;
        }
        Ok(new)
    }
}
