//! The handle.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError, RwLock};

use firstmatch_core::live::{self, Count, RuleCounters, Writer};
use firstmatch_core::rule::{Rule, RuleId, RuleSet};
use firstmatch_core::{Diagnostic, Policy, Schema, Stats};
use firstmatch_formats::{Labels, Options, RuleFile, write};
use firstmatch_net::wire::{Batch, Config as WireConfig, LinkType, parse};

use crate::rebuild::{Rebuilder, Rebuilt};
use crate::{Builder, Error, Explanation, Rebuilds, Update, Worker};

/// Rules in service: the handle that gives workers, updates and answers to questions. Clones share everything.
///
/// Questions ([`Firewall::explain`], [`Firewall::stats`], [`Firewall::count`]) neither wait for an update in progress
/// nor delay it. [`Firewall::rule`] and [`Firewall::update`] do wait for it.
#[derive(Clone, Debug)]
pub struct Firewall {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) writer: Arc<Rebuilt>,
    /// View that a reload replaces, with the writer locked.
    view: RwLock<Arc<View>>,
    /// Number of times that fields or policy have changed; written after the view.
    shape: AtomicU64,
    pub(crate) config: live::Config,
    pub(crate) options: Options,
    /// Whether rows come by their fields' values alone.
    pub(crate) values: bool,
    pub(crate) counters: Option<RuleCounters>,
    pub(crate) rebuilder: Option<Rebuilder>,
}

/// Parts of the rules in service that a lookup does not have.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub(crate) handle: live::Handle,
    pub(crate) policy: Policy,
    /// An empty batch, from which each worker makes its own.
    pub(crate) batch: Batch,
    pub(crate) labels: Labels,
    pub(crate) warnings: Arc<[Diagnostic]>,
}

impl View {
    /// Returns the view of rules that `writer` has; `values` says that rows come by their fields' values alone.
    pub(crate) fn new(writer: &Writer, file: RuleFile, values: bool) -> Result<Self, Error> {
        let (handle, policy) = (writer.handle(), file.policy);
        let batch = match values {
            true => Batch::of_values(handle.schemas()),
            false => Batch::new(&WireConfig::from(&policy), handle.schemas())?,
        };
        Ok(Self { handle, policy, batch, labels: file.labels, warnings: file.warnings.into() })
    }
}

impl Firewall {
    /// Returns a firewall for the text of a rule file, with every option at its default.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// assert_eq!(firewall.len(), 2);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text has a fault; [`Error::faults`] has all of them, with line and column.
    pub fn from_text(rules: &str) -> Result<Self, Error> {
        Self::builder().build(rules)
    }

    /// Returns options for building a firewall.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::builder().memory_limit(64 << 20).build("permit\n")?;
    /// # assert_eq!(firewall.len(), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn builder() -> Builder {
        Builder::new()
    }

    pub(crate) fn open(
        mut file: RuleFile,
        config: live::Config,
        options: Options,
        rebuilds: Rebuilds,
        counters: bool,
        values: bool,
    ) -> Result<Self, Error> {
        let rules = std::mem::replace(&mut file.rules, RuleSet::new(Schema::ipv4()));
        // A field that packets cannot fill is found before engines are built.
        if !values {
            Batch::new(&WireConfig::from(&file.policy), rules.schemas())?;
        }
        let (_, writer) = live::open(rules, &config)?;
        let view = RwLock::new(Arc::new(View::new(&writer, file, values)?));
        let counters = counters.then(|| writer.counters());
        let writer = Arc::new(Rebuilt::new(writer));
        let rebuilder = (rebuilds == Rebuilds::Thread).then(|| Rebuilder::start(&writer));
        let shape = AtomicU64::new(0);
        Ok(Self { inner: Arc::new(Inner { writer, view, shape, config, options, values, counters, rebuilder }) })
    }

    /// Returns a worker, for one thread.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// std::thread::scope(|scope| {
    ///     for _ in 0..2 {
    ///         scope.spawn(|| firewall.worker().classify().len());
    ///     }
    /// });
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn worker(&self) -> Worker {
        Worker::new(&self.inner)
    }

    /// Returns an empty batch for packets, for [`Worker::classify_batch`].
    ///
    /// After a [reload](Firewall::reload) that changed the fields, a worker refuses older batches: take another one.
    ///
    /// ```
    /// let batch = firstmatch::Firewall::from_text("permit\n")?.batch();
    /// assert!(batch.is_empty());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn batch(&self) -> Batch {
        self.inner.view().batch.clone()
    }

    /// Number of reloads so far that changed the fields of rules or the policy.
    ///
    /// Workers and batches have the fields of their time. Workers of frames follow by themselves. A program that fills
    /// batches elsewhere compares this number to see that older ones will be refused.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("permit\n")?;
    /// firewall.reload("deny tcp dport 23\npermit\n")?; // no other fields
    /// assert_eq!(firewall.shape(), 0);
    /// firewall.reload("deny vlan_vid 7\npermit\n")?;
    /// assert_eq!(firewall.shape(), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn shape(&self) -> u64 {
        self.inner.shape()
    }

    /// Returns a shard of the counters of rules, for a thread that looks packets up by engines of its own; `None`
    /// without [`Builder::counters`].
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::builder().counters(true).build("permit\n")?;
    /// let id = firewall.rules()[0].id;
    /// firewall.counter_shard().expect("it counts").add(id, 2, 120);
    /// assert_eq!(firewall.count(id).expect("a rule").packets, 2);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn counter_shard(&self) -> Option<live::CounterShard> {
        self.inner.counters.as_ref().map(|_| self.inner.lock().counter_shard())
    }

    /// Begins a transaction. It waits for another one in progress on the same rules.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// update.append("deny")?;
    /// assert_eq!(update.commit()?, 1); // the generation
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn update(&self) -> Update<'_> {
        Update::new(&self.inner)
    }

    /// Returns the verdict on a frame and its reason, in the current generation.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let why = firewall.explain(firstmatch::LinkType::Ethernet, &firstmatch::doc_frame(23));
    /// assert!(why.to_string().contains("deny tcp dport 23"));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn explain(&self, link: LinkType, frame: &[u8]) -> Explanation {
        Explanation::new(self, parse(self.inner.view().batch.config(), link, frame))
    }

    /// Returns the schemas of the rules: one, or one per family.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("family ipv4\npermit\n")?;
    /// assert_eq!(*firewall.schemas(), [firstmatch::core::Schema::ipv4()]);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn schemas(&self) -> Arc<[Schema]> {
        self.inner.view().handle.schemas().into()
    }

    /// Number of live rules.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// assert_eq!(firewall.len(), 2);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.inner.lock().rules().len()
    }

    /// Whether there is no live rule.
    ///
    /// ```
    /// assert!(firstmatch::Firewall::from_text("default deny\n")?.is_empty());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a live rule as text, in the project's own format; `None` if the id is stale or the format cannot express
    /// it.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let id = firewall.update().rules().next().expect("two rules").id;
    /// assert_eq!(firewall.rule(id).as_deref(), Some("deny tcp dport 23"));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn rule(&self, id: RuleId) -> Option<String> {
        self.inner.text_of(&self.inner.lock(), id)
    }

    /// Returns the label that the rule file gave to a rule; decisions have the id of the rule.
    ///
    /// Rules that an [`Update`] inserted have none.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23 label \"no telnet\"\n")?;
    /// let id = firewall.update().rules().next().expect("a rule").id;
    /// assert_eq!(firewall.label(id).as_deref(), Some("no telnet"));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn label(&self, id: RuleId) -> Option<String> {
        self.inner.view().labels.get(&id).map(ToString::to_string)
    }

    /// Returns warnings: rules that are valid but look like mistakes; for example, one that can never match.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("permit\ndeny tcp\n")?; // the second never decides
    /// assert_eq!(firewall.warnings()[0].line, 2);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn warnings(&self) -> Arc<[Diagnostic]> {
        Arc::clone(&self.inner.view().warnings)
    }

    /// Returns the verdicts for packets that no rule matches, and for packets that cannot be classified.
    ///
    /// ```
    /// use firstmatch::{Firewall, Verdict};
    ///
    /// assert_eq!(Firewall::from_text("default permit\n")?.policy().default, Verdict::Permit);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn policy(&self) -> Policy {
        self.inner.view().policy
    }

    /// Number of commits of changes so far.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// assert_eq!(firewall.update().commit()?, 0); // without changes
    /// let mut update = firewall.update();
    /// update.append("deny")?;
    /// update.commit()?;
    /// assert_eq!(firewall.generation(), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn generation(&self) -> u64 {
        self.inner.view().handle.generation()
    }

    /// Returns bytes by part and the worst case of a lookup, for the rules of each address family.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let bytes: usize = firewall.stats().iter().map(|stats| stats.total_bytes()).sum();
    /// assert!(bytes > 0);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn stats(&self) -> Vec<Stats> {
        self.inner.view().handle.stats()
    }

    /// Returns which engine serves the rules of each address family, and why it was chosen.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// for engine in firewall.engines() {
    ///     println!("{engine}"); // every candidate, and why it was not taken
    /// }
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn engines(&self) -> Vec<live::Explanation> {
        self.inner.view().handle.explain()
    }

    /// Returns packets and bytes counted for a rule by all workers; `None` without [`Builder::counters`].
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let id = firewall.update().rules().next().expect("two rules").id;
    /// assert_eq!(firewall.count(id), None); // counters are off
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn count(&self, rule: RuleId) -> Option<Count> {
        self.inner.counters.as_ref().map(|counters| counters.count(rule))
    }

    /// Rebuilds the engine for the current rules, on this thread, beside workers. Returns the number of rebuilds so
    /// far.
    ///
    /// It waits while another thread rebuilds, the handle's own included.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// firewall.rebuild()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If no engine keeps the limits any more; the old one stays.
    pub fn rebuild(&self) -> Result<u64, Error> {
        self.inner.writer.rebuild()
    }

    /// Gives all rules new priorities in the same order, so that there is room between any two of them again.
    ///
    /// [`Update::insert_before`] and its like find room themselves; [`Update::insert_at`] needs free priorities.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// firewall.renumber()?; // room between any two rules again
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
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
    /// Locks the writer.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Writer> {
        self.writer.lock()
    }

    /// Returns what a reload replaces, as it is now.
    pub(crate) fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the view; `is_other` says that fields or policy differ. The writer is locked meanwhile.
    pub(crate) fn show(&self, view: View, is_other: bool) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
        // A thread that sees the number also sees the view, because the view is written first.
        self.shape.fetch_add(u64::from(is_other), Ordering::Release);
    }

    /// Wakes the thread that rebuilds, if there is one and a rebuild is due.
    pub(crate) fn wake_if_due(&self, writer: &Writer) {
        if let Some(rebuilder) = &self.rebuilder
            && writer.rebuild_is_due()
        {
            rebuilder.wake();
        }
    }

    /// Number of views so far with other fields or another policy.
    #[inline]
    pub(crate) fn shape(&self) -> u64 {
        self.shape.load(Ordering::Acquire)
    }

    /// Returns a live rule as text.
    pub(crate) fn text_of(&self, writer: &Writer, id: RuleId) -> Option<String> {
        let rule: &Rule = writer.rules().get(id)?;
        write::native_rule(writer.rules(), rule).ok()
    }
}
