//! The handle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use firstmatch_core::live::{self, Count, RuleCounters, Writer};
use firstmatch_core::rule::{Rule, RuleId, RuleSet};
use firstmatch_core::{Diagnostic, Policy, Stats};
use firstmatch_formats::{Options, write};
use firstmatch_net::wire::{Batch, Config as WireConfig, LinkType, parse};

use crate::rebuild::{self, Rebuilder};
use crate::{Builder, Error, Explanation, Rebuilds, Update, Worker};

/// Rules in service: the handle from which workers, updates and answers to questions come. Clones share everything.
///
/// Questions ([`Firewall::explain`], [`Firewall::stats`], [`Firewall::count`]) neither wait for an update in progress
/// nor hold one up. [`Firewall::rule`] and [`Firewall::update`] do wait for it.
#[derive(Clone, Debug)]
pub struct Firewall {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) writer: Arc<Mutex<Writer>>,
    pub(crate) handle: live::Handle,
    pub(crate) policy: Policy,
    pub(crate) options: Options,
    /// An empty batch, from which each worker makes its own.
    pub(crate) batch: Batch,
    pub(crate) counters: Option<RuleCounters>,
    pub(crate) rebuilder: Option<Rebuilder>,
    warnings: Vec<Diagnostic>,
}

impl Firewall {
    /// Returns a firewall for the text of a rule file, with every option at its default.
    ///
    /// # Errors
    /// If the text has a fault; [`Error::faults`] has all of them, with line and column.
    pub fn from_text(rules: &str) -> Result<Self, Error> {
        Self::builder().build(rules)
    }

    /// Returns options to build a firewall with.
    pub fn builder() -> Builder {
        Builder::new()
    }

    #[expect(clippy::too_many_arguments, reason = "the builder's fields, once")]
    pub(crate) fn open(
        rules: RuleSet,
        policy: Policy,
        warnings: Vec<Diagnostic>,
        config: &live::Config,
        options: Options,
        rebuilds: Rebuilds,
        counters: bool,
        values: bool,
    ) -> Result<Self, Error> {
        let batch = match values {
            true => Batch::of_values(rules.schemas()),
            false => Batch::new(&WireConfig::from(&policy), rules.schemas())?,
        };
        let (_, writer) = live::open(rules, config)?;
        let (handle, counters) = (writer.handle(), counters.then(|| writer.counters()));
        let writer = Arc::new(Mutex::new(writer));
        let rebuilder = (rebuilds == Rebuilds::Thread).then(|| Rebuilder::start(&writer));
        Ok(Self { inner: Arc::new(Inner { writer, handle, policy, options, batch, counters, rebuilder, warnings }) })
    }

    /// Returns a worker, for one thread.
    pub fn worker(&self) -> Worker {
        Worker::new(&self.inner)
    }

    /// Begins a transaction. It waits for another one in progress on the same rules.
    pub fn update(&self) -> Update<'_> {
        Update::new(&self.inner)
    }

    /// Says what happens to a frame and why, in the generation of now.
    pub fn explain(&self, link: LinkType, frame: &[u8]) -> Explanation {
        Explanation::new(self, parse(self.inner.batch.config(), link, frame))
    }

    /// Number of live rules.
    pub fn len(&self) -> usize {
        self.inner.lock().rules().len()
    }

    /// Whether there is no live rule.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a live rule as text, in the project's own format; `None` if the id is stale or the format cannot say it.
    pub fn rule(&self, id: RuleId) -> Option<String> {
        self.inner.text_of(&self.inner.lock(), id)
    }

    /// Returns what is allowed in the rules but hardly meant, as rules that can never match.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.inner.warnings
    }

    /// Returns what becomes of packets that no rule matches, and of packets that cannot be classified.
    pub fn policy(&self) -> &Policy {
        &self.inner.policy
    }

    /// Number of commits so far.
    pub fn generation(&self) -> u64 {
        self.inner.handle.generation()
    }

    /// Returns bytes by part and the worst case of a lookup, for the rules of each address family.
    pub fn stats(&self) -> Vec<Stats> {
        self.inner.handle.stats()
    }

    /// Returns which engine serves the rules of each address family, and why it was chosen.
    pub fn engines(&self) -> Vec<live::Explanation> {
        self.inner.handle.explain()
    }

    /// Returns packets and bytes counted for a rule by all workers; `None` without [`Builder::counters`].
    pub fn count(&self, rule: RuleId) -> Option<Count> {
        self.inner.counters.as_ref().map(|counters| counters.count(rule))
    }

    /// Rebuilds the engine for the rules of now, on this thread, beside workers. Returns the number of rebuilds so far.
    ///
    /// # Errors
    /// If no engine keeps the limits any more; the old one stays.
    pub fn rebuild(&self) -> Result<u64, Error> {
        rebuild::run(&self.inner.writer)
    }

    /// Gives all rules new priorities in the same order, so that there is room between any two of them again.
    ///
    /// # Errors
    /// If no engine keeps the limits any more; nothing is changed.
    pub fn renumber(&self) -> Result<(), Error> {
        let retired = self.inner.lock().renumber()?;
        drop(retired);
        Ok(())
    }
}

impl Inner {
    /// Locks the writer. A transaction that panicked has left nothing behind, because the next one undoes it.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a live rule as text.
    pub(crate) fn text_of(&self, writer: &Writer, id: RuleId) -> Option<String> {
        let rule: &Rule = writer.rules().get(id)?;
        write::native_rule(writer.rules(), rule).ok()
    }
}
