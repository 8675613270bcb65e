//! Lookups in all schemas of a rule set in one generation, with the data that rules attach to decisions.

use std::sync::Arc;

use super::attached::Attached;
use super::explain::Explanation;
use super::facts::Shared;
use super::gather::Gather;
use super::left_right::OwnSlot;
use super::reader::Engine;
use super::snapshot::State;
use crate::engine::{self, Match, Stats};
use crate::engines::registry::Scratch;
use crate::key::Keys;
use crate::rule::RuleId;
use crate::schema::Schema;

/// Read access to the rules of all schemas. Clones share everything.
///
/// An [`Engine`] is for one schema, and lookups in two engines may see two generations. A [`BatchReader`] looks up all
/// schemas of a batch in the same generation.
///
/// ```
/// use firstmatch_core::live::{self, Config};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let (_, writer) = live::open(rules, &Config::default())?;
/// let handle = writer.handle();
/// let mut reader = handle.reader(); // one per thread
/// assert_eq!(reader.read(|snapshot| snapshot.generation()), handle.generation());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
    pub(super) schemas: Arc<[Schema]>,
}

/// Batch lookups of one thread: its reader slot, and scratch for each schema.
#[derive(Debug)]
pub struct BatchReader {
    shared: Arc<Shared>,
    reader_slot: OwnSlot<State>,
    parts: Box<[(Scratch, Gather)]>,
}

/// One generation of the rules, for the duration of a batch.
#[derive(Debug)]
pub struct Snapshot<'s> {
    state: &'s State,
    parts: &'s mut [(Scratch, Gather)],
}

impl Handle {
    /// Schemas of the rules, in the order of the rule set.
    pub fn schemas(&self) -> &[Schema] {
        &self.schemas
    }

    /// Returns a reader, for one thread.
    pub fn reader(&self) -> BatchReader {
        let gather = |part, schema| Gather::new(schema, self.shared.front_scratch(part));
        let parts =
            (0..).zip(&*self.schemas).map(|(part, schema)| (Scratch::new(schema), gather(part, schema))).collect();
        BatchReader { shared: Arc::clone(&self.shared), reader_slot: self.shared.replicas.reader_slot(), parts }
    }

    /// Returns the engine of one schema.
    ///
    /// # Panics
    /// If there is no schema of this index.
    pub fn engine(&self, schema: usize) -> Engine {
        Engine { shared: Arc::clone(&self.shared), part: schema, schema: self.schemas[schema].clone() }
    }

    /// Number of commits: every batch that starts now is of this generation or a later one.
    pub fn generation(&self) -> u64 {
        self.engine(0).generation()
    }

    /// Returns the statistics of the engine of each schema. It waits for no commit.
    pub fn stats(&self) -> Vec<Stats> {
        (0..self.schemas.len()).map(|schema| engine::Engine::stats(&self.engine(schema))).collect()
    }

    /// Returns which base serves each schema and why. It waits for no commit.
    pub fn explain(&self) -> Vec<Explanation> {
        (0..self.schemas.len()).map(|schema| self.engine(schema).explain()).collect()
    }
}

impl BatchReader {
    /// Returns the scratch of the [front](super::Front) for each schema; `None` without a front.
    pub fn front_scratches(&self) -> impl Iterator<Item = Option<&engine::Scratch>> {
        self.parts.iter().map(|(_, gather)| gather.front.as_ref())
    }

    /// Calls `read` with a snapshot of the current generation, which stays the same until `read` returns. It never
    /// waits.
    ///
    /// It costs one atomic exchange, however many packets `read` looks up. So packets that are looked up one by one,
    /// such as the packets of a burst, should share a call.
    #[inline]
    pub fn read<R>(&mut self, read: impl FnOnce(Snapshot<'_>) -> R) -> R {
        let Self { shared, reader_slot, parts } = self;
        shared.replicas.read(reader_slot, |state| read(Snapshot { state, parts }))
    }
}

impl Snapshot<'_> {
    /// Number of commits up to this generation.
    pub fn generation(&self) -> u64 {
        self.state.generation
    }

    /// Finds for each key of a schema the first rule that matches; `best[i]` is the match to beat, if there is one.
    ///
    /// # Panics
    /// If there is no schema of this index, `best` does not have one element for each key, or the keys do not have the
    /// number of words of the schema.
    #[inline]
    pub fn improve(&mut self, schema: usize, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        let (part, (scratch, gather)) = (&self.state.parts[schema], &mut self.parts[schema]);
        assert!(keys.has(best.len()), "one place for a match a key");
        assert!(keys.key_words() == part.key_words(), "keys have the words of the schema");
        self.state.improve(schema, scratch, gather, keys, best);
    }

    /// Returns the data that `rule`, a match of this generation, attaches to its decisions.
    ///
    /// Without [`Config::attachments`](super::Config::attachments) it is blank.
    #[inline(always)]
    pub fn attached(&self, rule: RuleId) -> Attached {
        self.state.attached.get(rule.slot())
    }
}
