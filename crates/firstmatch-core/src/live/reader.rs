//! Lookups in the rules of one schema.

use std::sync::Arc;

use super::attached::Attachments;
use super::build;
use super::config::Config;
use super::facts::Shared;
use super::gather::Gather;
use super::left_right::OwnSlot;
use super::snapshot::State;
use crate::engine::{self, Match, NamedCounts, Stats};
use crate::engines::registry::Scratch;
use crate::error::BuildError;
use crate::key::Keys;
use crate::rule::Lowered;
use crate::schema::Schema;

/// Engine for lookups in the rules of one schema; clones share everything.
#[derive(Clone, Debug)]
pub struct Engine {
    pub(super) shared: Arc<Shared>,
    pub(super) part: usize,
    pub(super) schema: Schema,
}

impl Engine {
    /// Builds an engine for rules that do not change.
    ///
    /// # Errors
    /// If no base fits the budget, or this machine lacks the forced instruction set.
    pub fn build(set: &Lowered, config: &Config) -> Result<Self, BuildError> {
        let shared = Arc::new(Shared::new(build::build(&[Some(set)], Attachments::default(), config, &[])?));
        Ok(Self { shared, part: 0, schema: set.schema().clone() })
    }

    /// Returns the number of commits; batches that start now are of this generation or later.
    pub fn generation(&self) -> u64 {
        self.shared.facts(self.part).generation
    }

    /// Returns the number of rules in the overlay, and its maximum.
    pub fn overlay(&self) -> (usize, usize) {
        let facts = self.shared.facts(self.part).part;
        (facts.overlay_rules, facts.most)
    }

    /// Replaces another engine's reader by one of this engine.
    #[cold]
    #[inline(never)]
    pub(super) fn renew(&self, reader: &mut Reader) {
        *reader = engine::Engine::new_scratch(self);
    }

    /// Returns the number of rebuilds installed.
    pub fn epoch(&self) -> u64 {
        self.shared.facts(self.part).epoch
    }
}

/// Scratch of one thread: its reader slot, and memory for bases and overlays.
#[derive(Debug)]
pub struct Reader {
    pub(super) reader_slot: OwnSlot<State>,
    /// Index of the schema that it is for.
    pub(super) part: usize,
    pub(super) scratch: Scratch,
    pub(super) gather: Gather,
}

impl engine::Engine for Engine {
    type Scratch = Reader;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> Reader {
        let scratch = Scratch::new(&self.schema);
        Reader {
            reader_slot: self.shared.replicas.reader_slot(),
            part: self.part,
            scratch,
            gather: Gather::new(&self.schema, self.shared.front_scratch(self.part)),
        }
    }

    fn fits(&self, reader: &Reader) -> bool {
        self.shared.replicas.has(&reader.reader_slot) && reader.part == self.part
    }

    /// Returns statistics of everything that readers share, in both replicas.
    ///
    /// Memory that only the writer keeps is not counted.
    fn stats(&self) -> Stats {
        self.shared_stats()
    }

    /// Returns a number that changes with every commit, every rebuild and some refused commits.
    ///
    /// It costs one load of a number that only the writer writes.
    fn version(&self) -> u64 {
        self.shared.replicas.publish_count()
    }

    #[inline(always)]
    fn improve(&self, reader: &mut Reader, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        if !engine::Engine::fits(self, reader) {
            self.renew(reader);
        }
        let Reader { reader_slot, scratch, gather, .. } = reader;
        self.shared.replicas.read(reader_slot, |state| state.improve(self.part, scratch, gather, keys, best));
    }

    /// Counts the steps of the base if nothing has changed since it was built, and no rule tests live sets.
    ///
    /// Otherwise it counts nothing.
    fn count(&self, reader: &mut Reader, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        let Reader { reader_slot, scratch, gather, .. } = reader;
        self.shared.replicas.read(reader_slot, |state| {
            let counts = state.parts[self.part].count(scratch, gather, keys, best);
            state.sets.improve(self.part, keys, best);
            if state.sets.rules(self.part) > 0 { NamedCounts::default() } else { counts }
        })
    }
}
