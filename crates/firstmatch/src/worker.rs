//! Buffers and reader of one thread that classifies.

use std::num::NonZeroU32;
use std::sync::Arc;

use firstmatch_core::live::{BatchReader, CounterShard, Snapshot};
use firstmatch_core::policy::Basis;
use firstmatch_core::rule::{Action, FieldValues, RuleId};
use firstmatch_core::{Match, Policy, RecordLayout, Schema, Scratch, ShortRecordError, Verdict};
use firstmatch_net::wire::{Batch, Headers, LinkType, Outcome, Record};

use crate::error::OtherFieldsError;
use crate::firewall::Inner;

/// Verdict on a packet, and its reason. All decisions of a batch are of one generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Decision {
    /// Verdict on the packet: the rule's action, or the policy's verdict if no rule matches or the packet cannot be
    /// classified.
    pub verdict: Verdict,
    /// Origin of the verdict.
    ///
    /// ```
    /// use firstmatch::{Basis, Firewall, LinkType};
    ///
    /// let firewall = Firewall::from_text("default permit\ndeny tcp dport 23\n")?;
    /// let mut worker = firewall.worker();
    /// worker.push_all(LinkType::Ethernet, &[23, 80].map(firstmatch::doc_frame));
    /// let bases: Vec<_> = worker.classify().iter().map(|decision| decision.basis).collect();
    /// assert_eq!(bases, [Basis::Rule, Basis::Policy]);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub basis: Basis,
    /// The action of the rule that matched.
    pub action: Option<Action>,
    /// The rule that matched; `None` unless `basis` is [`Basis::Rule`].
    pub rule: Option<RuleId>,
    /// The line of the rule file that the rule comes from, from 1.
    pub line: Option<NonZeroU32>,
    /// The value that was given to the rule ([`Rule::value`](crate::Rule::value)); 0 without one.
    pub value: u64,
    /// Outcome of parsing: how much of the headers could be read.
    pub outcome: Outcome,
}

/// Classifies packets in batches, on one thread.
///
/// Packets allocate nothing once the worker has seen its largest batch. If batches have one packet, set
/// [`Builder::calls`](crate::Builder::calls) accordingly, otherwise a packet may take twice as long.
#[derive(Debug)]
pub struct Worker {
    inner: Arc<Inner>,
    /// Number of the shape that the batch and the reader have.
    shape: u64,
    batch: Batch,
    reader: BatchReader,
    policy: Policy,
    lookups: Lookups,
    decisions: Vec<Decision>,
}

/// State of lookups and of what is counted.
#[derive(Debug)]
struct Lookups {
    /// Maximum number of packets of a lookup.
    at_once: usize,
    /// Answers to the rows of one schema, if packets have rows of several schemas or none.
    by_row: Vec<Option<Match>>,
    /// Answers by packet.
    by_packet: Vec<Option<Match>>,
    counter_shard: Option<CounterShard>,
    outcomes: [u64; Outcome::ALL.len()],
    generation: u64,
}

impl Worker {
    pub(crate) fn new(inner: &Arc<Inner>) -> Self {
        let mut worker = Self::without_counters(inner);
        worker.lookups.counter_shard = inner.counters.as_ref().map(|_| inner.lock().counter_shard());
        worker
    }

    pub(crate) fn without_counters(inner: &Arc<Inner>) -> Self {
        let lookups = Lookups {
            at_once: usize::MAX,
            by_row: Vec::new(),
            by_packet: Vec::new(),
            counter_shard: None,
            outcomes: [0; Outcome::ALL.len()],
            generation: 0,
        };
        // The number first: if the view is a later one, the worker follows once more.
        let (shape, view) = (inner.shape(), inner.view());
        let (batch, reader, policy) = (view.batch.clone(), view.handle.reader(), view.policy);
        let inner = Arc::clone(inner);
        Self { inner, shape, batch, reader, policy, lookups, decisions: Vec::new() }
    }

    /// Takes the fields and the policy of the last [reload](crate::Firewall::reload), and returns whether the fields
    /// differ from those that the worker had.
    ///
    /// Nothing is done while the batch has packets. Frames do this by themselves before the first packet of a batch.
    /// Records, rows and values of fields mean the fields that the caller knows. So a program that pushes these calls
    /// this before a batch, and takes layouts for [`Worker::schemas`] anew if it returns true.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("family ipv4\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// firewall.reload("family ipv4\ndeny vlan_vid 7\npermit\n")?;
    /// assert!(worker.refresh() && worker.schemas().eq(firewall.schemas().iter()));
    /// assert!(!worker.refresh());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn refresh(&mut self) -> bool {
        self.batch.is_empty() && self.inner.shape() != self.shape && self.take_shape(true)
    }

    /// Returns the schemas of the fields that rows of the worker have: one, or one per family.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("permit\n")?;
    /// assert_eq!(firewall.worker().schemas().count(), 2);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn schemas(&self) -> impl Iterator<Item = &Schema> {
        (0..self.batch.schemas()).map(|schema| self.batch.extractor(schema).schema())
    }

    /// Takes the last reload before the first packet of a batch; another shape only if packets bring no fields.
    #[inline]
    fn follow(&mut self, any: bool) {
        if self.batch.is_empty() && self.inner.shape() != self.shape {
            self.take_shape(any);
        }
    }

    /// Takes the last reload, one with other fields only if `any`, and returns whether the fields differ.
    #[cold]
    fn take_shape(&mut self, any: bool) -> bool {
        let (shape, view) = (self.inner.shape(), self.inner.view());
        let is_other = !has_schemas_of(&self.batch, &view.batch);
        if is_other && !any {
            return false;
        }
        (self.batch, self.reader, self.policy) = (view.batch.clone(), view.handle.reader(), view.policy);
        self.shape = shape;
        is_other
    }

    /// Sets the maximum number of packets of a lookup. Default: all of a batch.
    ///
    /// Answers do not depend on it. Engines are fastest with some dozens to hundreds of packets.
    ///
    /// # Panics
    /// If `packets` is 0.
    pub fn packets_per_lookup(mut self, packets: usize) -> Self {
        assert!(packets > 0, "a lookup has packets");
        self.lookups.at_once = packets;
        self
    }

    /// Adds a whole frame to the batch and returns its outcome.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// let outcome = worker.push(firstmatch::LinkType::Ethernet, &firstmatch::doc_frame(23));
    /// assert_eq!(outcome, firstmatch::Outcome::Complete);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    #[inline]
    pub fn push(&mut self, link: LinkType, frame: &[u8]) -> Outcome {
        self.push_cut(link, frame, frame.len() as u32)
    }

    /// Adds a frame that was `bytes` long on the wire; `frame` is its captured part.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// let frame = firstmatch::doc_frame(23);
    /// worker.push_cut(firstmatch::LinkType::Ethernet, &frame[..40], frame.len() as u32);
    /// assert!(worker.classify()[0].outcome.to_string().len() > 0);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    #[inline]
    pub fn push_cut(&mut self, link: LinkType, frame: &[u8], bytes: u32) -> Outcome {
        self.follow(true);
        self.batch.push_frame(link, frame, bytes)
    }

    /// Adds whole frames, in order; the same as [`Worker::push`] for each of them, and faster.
    ///
    /// It prefetches the next frames and reads frames of one protocol together.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// worker.push_all(firstmatch::LinkType::Ethernet, &[firstmatch::doc_frame(23), firstmatch::doc_frame(80)]);
    /// let verdicts: Vec<_> = worker.classify().iter().map(|decision| decision.verdict).collect();
    /// assert_eq!(verdicts, [firstmatch::Verdict::Deny, firstmatch::Verdict::Permit]);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    #[inline]
    pub fn push_all<'f, F>(&mut self, link: LinkType, frames: impl IntoIterator<Item = &'f F>)
    where
        F: AsRef<[u8]> + ?Sized + 'f,
    {
        self.follow(true);
        self.batch.push_frames(link, frames);
    }

    /// Adds a packet by the values of its fields, in the order of the schema, `bytes` long on the wire.
    ///
    /// # Panics
    /// If no schema is of the family of `values`, or they do not fit its fields.
    pub fn push_values(&mut self, values: &FieldValues, bytes: u32) -> Outcome {
        self.follow(false);
        self.batch.push_values(values, bytes)
    }

    /// Adds a packet that the caller has parsed already, by a record of its fields, `bytes` long on the wire.
    ///
    /// The outcome is [`Outcome::NoPorts`] if a port is absent, otherwise [`Outcome::Complete`].
    ///
    /// ```
    /// use firstmatch::Firewall;
    /// use firstmatch::core::{Location, RecordLayout};
    ///
    /// let firewall = Firewall::from_text("family ipv4\ndeny tcp dport 23\npermit\n")?;
    /// let at = [("src", 0), ("dst", 4), ("sport", 8), ("dport", 10), ("proto", 12)];
    /// let at = at.map(|(field, offset)| (field, Location::network(offset)));
    /// let layout = RecordLayout::new(&firewall.schemas()[0], &at)?;
    /// let mut worker = firewall.worker();
    /// worker.push_record(&layout, &[10, 0, 0, 1, 192, 0, 2, 7, 195, 80, 0, 23, 6], 60)?;
    /// assert_eq!(worker.classify()[0].verdict, firstmatch::Verdict::Deny);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the record is shorter than [`RecordLayout::least_bytes`]. The packet is not added then.
    ///
    /// # Panics
    /// If no schema is that of the layout ([`Worker::refresh`] changes them after a reload).
    pub fn push_record(
        &mut self,
        layout: &RecordLayout,
        record: &[u8],
        bytes: u32,
    ) -> Result<Outcome, ShortRecordError> {
        self.follow(false);
        self.batch.push_record(layout, record, bytes)
    }

    /// Adds a packet by its row of key words under the schema of index `schema`, `bytes` long on the wire.
    ///
    /// The padding of the row must be zero, and each word at most [`Word::max`](firstmatch_core::schema::Word::max).
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("family ipv4\ndeny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// worker.push_row(0, &[0x0A00_0001, 0xC000_0207, 50_000, 23, 6, 0, 0, 0], 60);
    /// assert_eq!(worker.classify()[0].verdict, firstmatch::Verdict::Deny);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Panics
    /// If there is no schema of this index, or `row` does not have [`Schema::stride`](firstmatch_core::Schema::stride)
    /// words.
    pub fn push_row(&mut self, schema: usize, row: &[u32], bytes: u32) -> Outcome {
        self.follow(false);
        self.batch.push_row(schema, row, bytes)
    }

    /// Decides one packet whose headers are known.
    pub(crate) fn decide(&mut self, headers: &Headers) -> Decision {
        self.follow(true);
        self.batch.push_headers(headers, 0);
        self.classify()[0]
    }

    /// Number of packets in the batch.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// worker.push(firstmatch::LinkType::Ethernet, &firstmatch::doc_frame(23));
    /// assert_eq!(worker.len(), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Whether the batch is empty.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// assert!(worker.is_empty());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Decides all packets of the batch, in the order in which they came, and empties it.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// worker.push(firstmatch::LinkType::Ethernet, &firstmatch::doc_frame(23));
    /// assert_eq!(worker.classify()[0].verdict, firstmatch::Verdict::Deny);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn classify(&mut self) -> &[Decision] {
        self.follow(false);
        let Self { batch, reader, policy, lookups, decisions, .. } = self;
        decisions.clear();
        reader.read(|mut snapshot| {
            lookups.find(batch, &mut snapshot);
            decisions.extend(lookups.decide(batch.records(), policy, &snapshot));
        });
        lookups.count(batch.records());
        batch.clear();
        decisions
    }

    /// Returns the decisions of the last call of [`Worker::classify`].
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// worker.push(firstmatch::LinkType::Ethernet, &firstmatch::doc_frame(23));
    /// worker.classify();
    /// let (decisions, generation) = (worker.decisions(), worker.generation());
    /// assert_eq!((decisions[0].verdict, generation), (firstmatch::Verdict::Deny, 0));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Decides all packets of a batch that was filled elsewhere, perhaps on another thread, and passes on each decision,
    /// in the order in which the packets came.
    ///
    /// Nothing is stored, and what `each` does not use is not looked up. A commit may wait until `each` has returned for
    /// the last time, so `each` must not commit changes of these rules itself. The batch stays as it is.
    /// [`Firewall::batch`](crate::Firewall::batch) returns an empty one, but any batch for the same schemas will do.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut batch = firewall.batch();
    /// batch.push_frame(firstmatch::LinkType::Ethernet, &firstmatch::doc_frame(23), 60);
    /// let mut worker = firewall.worker();
    /// worker.classify_batch(&batch, |record, decision| {
    ///     assert_eq!((record.bytes, decision.verdict), (60, firstmatch::Verdict::Deny));
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the batch has other fields than the rules, because it was begun before a reload that changed them
    /// ([`Firewall::shape`](crate::Firewall::shape)). Nothing is decided then: take another batch, and fill it again.
    #[inline]
    pub fn classify_batch(
        &mut self,
        batch: &Batch,
        mut each: impl FnMut(&Record, Decision),
    ) -> Result<(), OtherFieldsError> {
        self.follow(true);
        if !has_schemas_of(batch, &self.batch) {
            return Err(OtherFieldsError);
        }
        let Self { reader, policy, lookups, .. } = self;
        let records = batch.records();
        reader.read(|mut snapshot| {
            lookups.find(batch, &mut snapshot);
            let decided = records.iter().zip(lookups.decide(records, policy, &snapshot));
            decided.for_each(|(record, decision)| each(record, decision));
        });
        lookups.count(records);
        Ok(())
    }

    /// Returns for each schema the scratch of the [engine](crate::Builder::front) that answers before the base, if
    /// there is one.
    ///
    /// For example, [`RuleCache::counts`](firstmatch_core::cache::rule::RuleCache::counts) reads the counts of a cache
    /// there.
    pub fn front_scratches(&self) -> impl Iterator<Item = Option<&Scratch>> {
        self.reader.front_scratches()
    }

    /// Number of packets that this worker has classified with an outcome.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// worker.push(firstmatch::LinkType::Ethernet, &firstmatch::doc_frame(23));
    /// worker.classify();
    /// assert_eq!(worker.count_of(firstmatch::Outcome::Complete), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn count_of(&self, outcome: Outcome) -> u64 {
        self.lookups.outcomes[outcome.index()]
    }

    /// The generation of the last batch, which is the number of commits before it.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut worker = firewall.worker();
    /// worker.classify();
    /// assert_eq!(worker.generation(), firewall.generation());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn generation(&self) -> u64 {
        self.lookups.generation
    }
}

/// Whether two batches have the same schemas.
#[inline]
fn has_schemas_of(one: &Batch, other: &Batch) -> bool {
    let schemas = |batch: &Batch| batch.schemas();
    schemas(one) == schemas(other)
        && (0..schemas(one)).all(|schema| one.extractor(schema).schema() == other.extractor(schema).schema())
}

impl Lookups {
    /// Finds the rule that matches each packet of a batch.
    #[inline]
    fn find(&mut self, batch: &Batch, snapshot: &mut Snapshot<'_>) {
        let Self { at_once, by_row, by_packet, generation, .. } = self;
        *generation = snapshot.generation();
        by_packet.clear();
        by_packet.resize(batch.len(), None);
        for schema in 0..batch.schemas() {
            batch.look_up(schema, by_row, by_packet, |keys, found| {
                for (index, found) in found.chunks_mut(*at_once).enumerate() {
                    let from = index * *at_once;
                    snapshot.improve(schema, &keys.slice(from, from + found.len()), found);
                }
            });
        }
    }

    /// Returns the decisions on the packets of the batch, in the order in which they came.
    #[inline]
    fn decide(
        &mut self,
        records: &[Record],
        policy: &Policy,
        snapshot: &Snapshot<'_>,
    ) -> impl Iterator<Item = Decision> {
        let Self { by_packet, outcomes, .. } = self;
        records.iter().zip(&*by_packet).map(|(record, &found)| {
            outcomes[record.outcome.index()] += 1;
            Decision::of(record.outcome, found, policy, snapshot)
        })
    }

    /// Counts the packets of the batch for their rules, if anybody wants to know.
    #[inline]
    fn count(&mut self, records: &[Record]) {
        let Some(counter_shard) = &mut self.counter_shard else { return };
        for (record, found) in records.iter().zip(&self.by_packet) {
            if let Some(found) = found {
                counter_shard.add(found.rule, 1, record.bytes.into());
            }
        }
    }
}

impl Decision {
    /// Returns the decision on a packet; `found` counts only if it was classified.
    #[inline(always)]
    fn of(outcome: Outcome, found: Option<Match>, policy: &Policy, snapshot: &Snapshot<'_>) -> Self {
        let basis = Basis::Policy;
        let none = |verdict| Self { verdict, basis, action: None, rule: None, line: None, value: 0, outcome };
        if !outcome.is_classified() {
            return none(policy.unknown);
        }
        let Some(found) = found else { return none(policy.default) };
        let attached = snapshot.attached(found.rule);
        Self {
            verdict: attached.action.into(),
            basis: Basis::Rule,
            action: Some(attached.action),
            rule: Some(found.rule),
            line: attached.line,
            value: attached.value,
            outcome,
        }
    }
}
