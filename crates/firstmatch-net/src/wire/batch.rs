//! Batches of packets, sorted by family.

use firstmatch_core::policy::Policy;
use firstmatch_core::raw::Level;
use firstmatch_core::rule::{FieldValues, RuleSet};
use firstmatch_core::schema::{Family, Schema, Source};
use firstmatch_core::{KeyBuf, Keys, Match, RecordLayout, ShortRecordError};

use super::kinds::UNCOMMON;
use super::parse::parse_frame;
use super::plan::Plan;
use super::{Config, Extractor, Headers, LinkType, NoSource, Outcome, SourceSet};
#[cfg(feature = "captures")]
use crate::source::Packet;

/// Outcome and length of one packet of a [`Batch`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Outcome of the packet under its schema.
    pub outcome: Outcome,
    /// Length on the wire in bytes.
    pub bytes: u32,
}

/// Packets in order of arrival, with the keys of the classified ones.
///
/// Each schema has a [`KeyBuf`] of its own. Once a batch has been as large as it gets, packets allocate nothing.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(super) config: Config,
    pub(super) plan: Plan,
    pub(super) groups: Vec<Group>,
    pub(super) records: Vec<Record>,
    /// Frames added last that are not common, used only by [`Batch::push_frames`].
    pub(super) uncommon: Vec<Uncommon>,
    /// Instruction set that common frames are recognised with.
    pub(super) level: Level,
}

/// Packets of one schema.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) extractor: Extractor,
    pub(super) keys: KeyBuf,
    /// Index of the packet of each row.
    pub(super) packets: Vec<u32>,
    /// Words of ports, and their values for absent.
    ports: Box<[(usize, u32)]>,
}

/// Frame that is not common, with its headers.
#[derive(Clone, Debug)]
pub(super) struct Uncommon {
    pub(super) headers: Headers,
    /// Index of the frame among those added with it.
    pub(super) at: u8,
    pub(super) schema: u8,
}

impl Group {
    fn new(extractor: Extractor) -> Self {
        let schema = extractor.schema();
        let is_port = |source: Option<Source>| source.is_some_and(|source| SourceSet::PORTS.contains(source));
        let words = schema.words().iter().enumerate();
        let ports = words.filter(|(_, word)| is_port(schema.fields()[word.field].source()));
        let ports = ports.filter_map(|(index, word)| Some((index, word.absent?))).collect();
        Self { keys: KeyBuf::new(schema), packets: Vec::new(), ports, extractor }
    }
}

/// Returns the outcome of a row, from its words of ports and their values for absent.
#[inline]
fn outcome_of(ports: &[(usize, u32)], row: &[u32]) -> Outcome {
    let lacks_ports = ports.iter().any(|&(word, absent)| row[word] == absent);
    if lacks_ports { Outcome::NoPorts } else { Outcome::Complete }
}

impl Batch {
    /// Returns an empty batch for the schemas of a rule set: one, or one per family.
    ///
    /// A packet belongs to the first schema of its family or of no family. A packet that hides a field is unknown,
    /// whether a rule tests the field or not.
    ///
    /// # Errors
    /// If a schema has a field that packets cannot fill.
    ///
    /// # Panics
    /// If there is no schema, or more than 255.
    pub fn new(config: &Config, schemas: &[Schema]) -> Result<Self, NoSource> {
        Self::of_extractors(config, schemas, Extractor::new)
    }

    /// Returns an empty batch in which only fields that `rules` test make packets unknown.
    ///
    /// [`Extractor::for_rules`] has the details. This batch is for rules that do not change; [`Batch::new`] is for
    /// rules that change.
    ///
    /// # Errors
    /// As [`Batch::new`].
    pub fn for_rules(config: &Config, rules: &RuleSet) -> Result<Self, NoSource> {
        Self::of_extractors(config, rules.schemas(), |schema| Extractor::for_rules(schema, rules))
    }

    fn of_extractors(
        config: &Config,
        schemas: &[Schema],
        extractor: impl Fn(&Schema) -> Result<Extractor, NoSource>,
    ) -> Result<Self, NoSource> {
        assert!((1..=255).contains(&schemas.len()), "a batch has 1 to 255 schemas");
        let groups = schemas.iter().map(|schema| extractor(schema).map(Group::new));
        Ok(Self::of_groups(config, groups.collect::<Result<_, _>>()?))
    }

    fn of_groups(config: &Config, groups: Vec<Group>) -> Self {
        let extractor = |index: usize| groups.get(index).map(|group: &Group| &group.extractor);
        let families = [Some(Family::Ipv4), Some(Family::Ipv6), None];
        let schemas = families.map(|family| schema_of(&groups, family).unwrap_or(0) as u8);
        let plan = Plan::new(config, schemas, extractor, |headers| route(&groups, headers));
        let level = Level::best(config.simd);
        Self { config: *config, plan, groups, records: Vec::new(), uncommon: Vec::new(), level }
    }

    /// Returns an empty batch as [`Batch::new`] does, with the configuration of a policy.
    ///
    /// # Errors
    /// As [`Batch::new`].
    ///
    /// # Panics
    /// As [`Batch::new`].
    pub fn for_policy(policy: &Policy, schemas: &[Schema]) -> Result<Self, NoSource> {
        Self::new(&Config::from(policy), schemas)
    }

    /// Returns an empty batch for rows that [`Batch::push_values`] adds.
    ///
    /// Its fields need no header field. A packet with headers is never classified. Its outcome is
    /// [`Outcome::LacksField`], [`Outcome::OtherFamily`] or the reason why it has no family.
    ///
    /// # Panics
    /// If there is no schema, or more than 255.
    pub fn of_values(schemas: &[Schema]) -> Self {
        assert!((1..=255).contains(&schemas.len()), "a batch has 1 to 255 schemas");
        let groups = schemas.iter().map(|schema| Group::new(Extractor::of_values(schema)));
        Self::of_groups(&Config::default(), groups.collect())
    }

    /// Returns the configuration that packets are parsed with.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Makes room for `packets` more packets, in each schema, because all may be of one family.
    pub fn reserve(&mut self, packets: usize) {
        self.records.reserve(packets);
        for group in &mut self.groups {
            group.keys.reserve(packets);
            group.packets.reserve(packets);
        }
    }

    /// Adds a packet of a capture and returns its outcome.
    #[cfg(feature = "captures")]
    #[inline]
    pub fn push(&mut self, packet: &Packet<'_>) -> Outcome {
        self.push_from(packet.interface, packet.link, packet.data, packet.original_len)
    }

    /// Adds a frame of interface 0, `bytes` long on the wire, and returns its outcome.
    #[inline]
    pub fn push_frame(&mut self, link: LinkType, frame: &[u8], bytes: u32) -> Outcome {
        self.push_from(0, link, frame, bytes)
    }

    #[inline]
    fn push_from(&mut self, interface: u32, link: LinkType, frame: &[u8], bytes: u32) -> Outcome {
        if link == LinkType::Ethernet {
            let index = self.plan.recognised.of(frame);
            if index != UNCOMMON {
                return self.push_common(index, frame, bytes);
            }
        }
        self.push_uncommon(interface, link, frame, bytes)
    }

    /// Adds a frame of the common kind of this index.
    #[inline]
    fn push_common(&mut self, index: u8, frame: &[u8], bytes: u32) -> Outcome {
        let kind = self.plan.kind(index);
        if kind.outcome.is_classified()
            && let Some(group) = self.groups.get_mut(usize::from(kind.group))
        {
            kind.fill(index, frame, group.keys.push_rows(1));
            group.packets.push(self.records.len() as u32);
        }
        self.records.push(Record { outcome: kind.outcome, bytes });
        kind.outcome
    }

    #[inline(never)]
    fn push_uncommon(&mut self, interface: u32, link: LinkType, frame: &[u8], bytes: u32) -> Outcome {
        let mut headers = Headers::new(interface, self.config.metadata);
        parse_frame(&self.config, link, frame, bytes, &mut headers);
        self.push_headers(&headers, bytes)
    }

    /// Adds a packet whose headers are known, `bytes` long on the wire, and returns its outcome.
    #[inline]
    pub fn push_headers(&mut self, headers: &Headers, bytes: u32) -> Outcome {
        let (index, outcome) = route(&self.groups, headers);
        if outcome.is_classified()
            && let Some(group) = self.groups.get_mut(index)
        {
            group.extractor.fill(headers, group.keys.push());
            group.packets.push(self.records.len() as u32);
        }
        self.records.push(Record { outcome, bytes });
        outcome
    }

    /// Adds a packet known by its fields' values, under the first schema of its family.
    ///
    /// The outcome is [`Outcome::NoPorts`] if a port is absent, otherwise [`Outcome::Complete`].
    ///
    /// # Panics
    /// If no schema is of its family, or the values do not fit it (as [`KeyBuf::push_values`]).
    pub fn push_values(&mut self, values: &FieldValues, bytes: u32) -> Outcome {
        let of_family = |group: &Group| group.extractor.schema().family() == values.family;
        let index = self.groups.iter().position(of_family);
        let index = index.unwrap_or_else(|| panic!("no schema is of the family {:?}", values.family));
        self.groups[index].keys.push_values(values);
        self.record_row(index, bytes)
    }

    /// Adds a packet known by a record of the caller, under the layout's schema.
    ///
    /// The outcome is [`Outcome::NoPorts`] if a port is absent, otherwise [`Outcome::Complete`].
    ///
    /// # Errors
    /// If the record is shorter than [`RecordLayout::least_bytes`]. The packet is not added then.
    ///
    /// # Panics
    /// If no schema is that of the layout.
    pub fn push_record(
        &mut self,
        layout: &RecordLayout,
        record: &[u8],
        bytes: u32,
    ) -> Result<Outcome, ShortRecordError> {
        let schema = layout.schema();
        let index = self.groups.iter().position(|group| group.extractor.schema() == schema);
        let index = index.expect("a schema is the layout's");
        self.groups[index].keys.push_records(layout, [record])?;
        Ok(self.record_row(index, bytes))
    }

    /// Adds a packet known by its row of key words, under the schema of index `schema`.
    ///
    /// The outcome is [`Outcome::NoPorts`] if a port is absent, otherwise [`Outcome::Complete`].
    ///
    /// # Panics
    /// If there is no schema of this index, or `row` does not have [`Schema::stride`] words.
    pub fn push_row(&mut self, schema: usize, row: &[u32], bytes: u32) -> Outcome {
        self.groups[schema].keys.push().copy_from_slice(row);
        self.record_row(schema, bytes)
    }

    /// Adds `rows` packets known by their rows of key words, under the schema of index `schema`.
    ///
    /// `write` gets the words of all rows, row after row, [`Schema::stride`] words each. The padding behind the words of
    /// the schema is zero and must stay so. The words themselves hold old values, so `write` must write all of them. The
    /// outcome of each packet is [`Outcome::NoPorts`] if a port is absent, otherwise [`Outcome::Complete`]; its length
    /// is 0. It is the same as [`Batch::push_row`] for each row, and faster.
    ///
    /// ```
    /// use firstmatch_core::Schema;
    /// use firstmatch_net::wire::{Batch, Config, Outcome};
    ///
    /// let mut batch = Batch::new(&Config::default(), &[Schema::ipv4()])?;
    /// let ports = [23, 443, 1 << 16]; // the last one is absent
    /// batch.push_rows(0, ports.len(), |words| {
    ///     for (row, port) in words.chunks_exact_mut(Schema::ipv4().stride()).zip(ports) {
    ///         row[..5].copy_from_slice(&[0x0A00_0001, 0xC000_0207, 50_000, port, 6]);
    ///     }
    /// });
    /// let outcomes: Vec<_> = batch.records().iter().map(|record| record.outcome).collect();
    /// assert_eq!(outcomes, [Outcome::Complete, Outcome::Complete, Outcome::NoPorts]);
    /// # Ok::<(), firstmatch_net::wire::NoSource>(())
    /// ```
    ///
    /// # Panics
    /// If there is no schema of this index.
    pub fn push_rows(&mut self, schema: usize, rows: usize, write: impl FnOnce(&mut [u32])) {
        let Group { keys, packets, ports, .. } = &mut self.groups[schema];
        let (stride, first) = (keys.stride(), self.records.len() as u32);
        let words = keys.push_rows(rows);
        write(words);
        packets.extend(first..first + rows as u32);
        self.records.extend(words.chunks_exact(stride).map(|row| Record { outcome: outcome_of(ports, row), bytes: 0 }));
    }

    /// Adds the record of the row that was added last to a schema.
    fn record_row(&mut self, index: usize, bytes: u32) -> Outcome {
        let group = &mut self.groups[index];
        let outcome = outcome_of(&group.ports, group.keys.keys().row(group.packets.len()));
        group.packets.push(self.records.len() as u32);
        self.records.push(Record { outcome, bytes });
        outcome
    }

    /// Returns the values of a packet with these headers, as the oracle needs them.
    ///
    /// The result is `None` unless the packet is classified.
    pub fn values(&self, headers: &Headers) -> Option<FieldValues> {
        let (index, _) = route(&self.groups, headers);
        self.groups.get(index)?.extractor.values(headers)
    }

    /// Removes every packet and keeps the memory.
    pub fn clear(&mut self) {
        self.records.clear();
        for group in &mut self.groups {
            group.keys.clear();
            group.packets.clear();
        }
    }

    /// Returns the number of packets, classified or not.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the batch has no packets.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns a record for each packet, in order of arrival.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the number of schemas.
    pub fn schemas(&self) -> usize {
        self.groups.len()
    }

    /// Returns the extractor of the schema of index `schema`.
    ///
    /// # Panics
    /// If there is no schema of this index.
    pub fn extractor(&self, schema: usize) -> &Extractor {
        &self.groups[schema].extractor
    }

    /// Returns the keys of the packets classified under one schema, in order of arrival.
    ///
    /// # Panics
    /// If there is no schema of this index.
    pub fn keys(&self, schema: usize) -> Keys<'_> {
        self.groups[schema].keys.keys()
    }

    /// Returns the index of the packet for each row of one schema's keys.
    ///
    /// # Panics
    /// If there is no schema of this index.
    pub fn packets(&self, schema: usize) -> &[u32] {
        &self.groups[schema].packets
    }

    /// Looks up one schema's rows with `classify` and puts the answers at the places of their packets.
    ///
    /// If every packet has a row there, `classify` writes to `by_packet` itself and nothing is copied. Otherwise it
    /// writes to `by_row`, which keeps its memory, and [`Batch::scatter`] does the rest. `classify` gets one answer per
    /// row, each of them `None`; it is not called without rows.
    ///
    /// # Panics
    /// If there is no schema of this index, or `by_packet` does not have one element per packet.
    #[inline]
    pub fn look_up(
        &self,
        schema: usize,
        by_row: &mut Vec<Option<Match>>,
        by_packet: &mut [Option<Match>],
        classify: impl FnOnce(Keys<'_>, &mut [Option<Match>]),
    ) {
        assert_eq!(by_packet.len(), self.records.len(), "one place a packet");
        let keys = self.keys(schema);
        if keys.is_empty() {
            return;
        }
        if self.packets(schema).len() == by_packet.len() {
            by_packet.fill(None);
            return classify(keys, by_packet);
        }
        by_row.clear();
        by_row.resize(keys.len(), None);
        classify(keys, by_row);
        self.scatter(schema, by_row, by_packet);
    }

    /// Puts the answers for one schema's rows at the places of their packets.
    ///
    /// Places of packets that have no row there stay as they are. For example, of three packets the first and the third
    /// are IPv4. Then `scatter(0, &[a, b], out)` sets `out[0]` to `a` and `out[2]` to `b`.
    ///
    /// # Panics
    /// If there is no schema of this index, `answers` does not have one element per row, or `by_packet` one per packet.
    pub fn scatter(&self, schema: usize, answers: &[Option<Match>], by_packet: &mut [Option<Match>]) {
        let packets = &self.groups[schema].packets;
        assert_eq!(answers.len(), packets.len(), "one answer a row");
        assert_eq!(by_packet.len(), self.records.len(), "one place a packet");
        if packets.len() == by_packet.len() {
            // Every packet has a row here, in order of arrival.
            by_packet.copy_from_slice(answers);
            return;
        }
        for (&packet, &answer) in packets.iter().zip(answers) {
            by_packet[packet as usize] = answer;
        }
    }
}

/// Returns the index of the first schema that a family fits.
#[inline]
fn schema_of(groups: &[Group], family: Option<Family>) -> Option<usize> {
    groups.iter().position(|group| group.extractor.family().is_none() || group.extractor.family() == family)
}

/// Returns the index of the schema for a packet with these headers, and its outcome there.
#[inline]
pub(super) fn route(groups: &[Group], headers: &Headers) -> (usize, Outcome) {
    let index = schema_of(groups, headers.family()).unwrap_or(0);
    let outcome = groups.get(index).map_or(Outcome::NotIp, |group| group.extractor.outcome(headers));
    (index, outcome)
}
