//! A batch of packets, sorted by family.

use firstmatch::policy::Policy;
use firstmatch::rule::{FieldValues, RuleSet};
use firstmatch::schema::{Schema, Source};
use firstmatch::{KeyBuf, Keys, Match};

use super::parse::parse_frame;
use super::{Config, Extractor, Headers, LinkType, NoSource, Outcome, SourceSet};
use crate::source::Packet;

/// What a [`Batch`] notes of each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// What became of it.
    pub outcome: Outcome,
    /// If it is classified: the index of its schema and of its row among the keys of that schema.
    pub place: Option<(u8, u32)>,
    /// Its length on the wire in bytes.
    pub bytes: u32,
}

/// A batch of packets in order of arrival, with the keys of those that can be classified, a [`KeyBuf`] for each
/// schema. Once it has been as large as it gets, packets allocate nothing.
#[derive(Clone, Debug)]
pub struct Batch {
    config: Config,
    groups: Vec<Group>,
    records: Vec<Record>,
}

#[derive(Clone, Debug)]
struct Group {
    extractor: Extractor,
    keys: KeyBuf,
    /// For each row the index of its packet.
    packets: Vec<u32>,
}

impl Batch {
    /// An empty batch for the schemas of a rule set: one, or one a family. A packet belongs to the first schema of
    /// its family (or without one). A packet that hides a field is unknown, whether a rule tests the field or not.
    ///
    /// # Errors
    /// When a schema has a field that packets cannot fill.
    ///
    /// # Panics
    /// When there is no schema, or more than 255.
    pub fn new(config: &Config, schemas: &[Schema]) -> Result<Self, NoSource> {
        Self::of_extractors(config, schemas, Extractor::new)
    }

    /// An empty batch for the schemas of these rules, in which only what rules test makes packets unknown (see
    /// [`Extractor::for_rules`]). For rules that stay as they are: [`Batch::new`] is for those that change.
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
        let group = |schema| {
            let (extractor, keys) = (extractor(schema)?, KeyBuf::new(schema));
            Ok(Group { extractor, keys, packets: Vec::new() })
        };
        let groups = schemas.iter().map(group).collect::<Result<_, _>>()?;
        Ok(Self { config: *config, groups, records: Vec::new() })
    }

    /// Like [`Batch::new`] with the configuration that a policy implies.
    ///
    /// # Errors
    /// As [`Batch::new`].
    ///
    /// # Panics
    /// As [`Batch::new`].
    pub fn for_policy(policy: &Policy, schemas: &[Schema]) -> Result<Self, NoSource> {
        Self::new(&Config::from(policy), schemas)
    }

    /// An empty batch for rows that come from elsewhere than packets ([`Batch::push_values`]): fields need no header
    /// field. Packets end as [`Outcome::LacksField`], or as [`Outcome::OtherFamily`].
    ///
    /// # Panics
    /// When there is no schema, or more than 255.
    pub fn of_values(schemas: &[Schema]) -> Self {
        assert!((1..=255).contains(&schemas.len()), "a batch has 1 to 255 schemas");
        let group = |schema: &Schema| {
            let extractor = Extractor::of_values(schema);
            Group { extractor, keys: KeyBuf::new(schema), packets: Vec::new() }
        };
        Self { config: Config::default(), groups: schemas.iter().map(group).collect(), records: Vec::new() }
    }

    /// How packets are parsed.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Makes room for this many more packets, all of the same family at worst.
    pub fn reserve(&mut self, packets: usize) {
        self.records.reserve(packets);
        for group in &mut self.groups {
            group.keys.reserve(packets);
            group.packets.reserve(packets);
        }
    }

    /// Adds a packet of a capture.
    #[inline]
    pub fn push(&mut self, packet: &Packet<'_>) -> Outcome {
        self.push_from(packet.interface, packet.link, packet.data, packet.original_len)
    }

    /// Adds a frame that came in by interface 0, `bytes` long on the wire.
    #[inline]
    pub fn push_frame(&mut self, link: LinkType, frame: &[u8], bytes: u32) -> Outcome {
        self.push_from(0, link, frame, bytes)
    }

    #[inline]
    fn push_from(&mut self, interface: u32, link: LinkType, frame: &[u8], bytes: u32) -> Outcome {
        let mut headers = Headers::new(interface, self.config.metadata);
        parse_frame(&self.config, link, frame, &mut headers);
        self.push_headers(&headers, bytes)
    }

    /// Adds a packet whose headers are known.
    #[inline]
    pub fn push_headers(&mut self, headers: &Headers, bytes: u32) -> Outcome {
        let (index, outcome) = self.route(headers);
        let mut place = None;
        if outcome.is_classified()
            && let Some(group) = self.groups.get_mut(index)
        {
            place = Some((index as u8, group.packets.len() as u32));
            group.extractor.fill(headers, group.keys.push());
            group.packets.push(self.records.len() as u32);
        }
        self.records.push(Record { outcome, place, bytes });
        outcome
    }

    /// Adds a packet known by the values of its fields, under the first schema of its family.
    ///
    /// # Panics
    /// When no schema is of its family, or the values do not fit it (as [`KeyBuf::push_values`]).
    pub fn push_values(&mut self, values: &FieldValues, bytes: u32) -> Outcome {
        let of_family = |group: &Group| group.extractor.schema().family() == values.family;
        let index = self.groups.iter().position(of_family);
        let index = index.unwrap_or_else(|| panic!("no schema is of the family {:?}", values.family));
        let group = &mut self.groups[index];
        group.keys.push_values(values);
        let place = Some((index as u8, group.packets.len() as u32));
        group.packets.push(self.records.len() as u32);
        let is_port = |source: Option<Source>| source.is_some_and(|source| SourceSet::PORTS.contains(source));
        let fields = group.extractor.schema().fields().iter().zip(&values.values);
        let lacks_ports = fields.into_iter().any(|(field, value)| value.is_none() && is_port(field.source()));
        let outcome = if lacks_ports { Outcome::NoPorts } else { Outcome::Complete };
        self.records.push(Record { outcome, place, bytes });
        outcome
    }

    /// The schema that a packet with these headers belongs to, and what becomes of it there.
    #[inline]
    fn route(&self, headers: &Headers) -> (usize, Outcome) {
        let fits = |group: &Group| {
            let family = group.extractor.family();
            family.is_none() || family == headers.family()
        };
        let index = self.groups.iter().position(fits).unwrap_or(0);
        let outcome = self.groups.get(index).map_or(Outcome::NotIp, |group| group.extractor.outcome(headers));
        (index, outcome)
    }

    /// The values the oracle looks at, for a packet with these headers; `None` unless it is classified.
    pub fn values(&self, headers: &Headers) -> Option<FieldValues> {
        let (index, _) = self.route(headers);
        self.groups.get(index)?.extractor.values(headers)
    }

    /// Forgets every packet and keeps the memory.
    pub fn clear(&mut self) {
        self.records.clear();
        for group in &mut self.groups {
            group.keys.clear();
            group.packets.clear();
        }
    }

    /// How many packets there are, classified or not.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// A record for each packet, in order of arrival.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// How many schemas there are.
    pub fn schemas(&self) -> usize {
        self.groups.len()
    }

    /// The extractor of one schema.
    ///
    /// # Panics
    /// When there is no schema of this index.
    pub fn extractor(&self, schema: usize) -> &Extractor {
        &self.groups[schema].extractor
    }

    /// The keys of the packets classified under one schema, in order of arrival.
    ///
    /// # Panics
    /// When there is no schema of this index.
    pub fn keys(&self, schema: usize) -> Keys<'_> {
        self.groups[schema].keys.keys()
    }

    /// For each row of the keys of one schema the index of its packet.
    ///
    /// # Panics
    /// When there is no schema of this index.
    pub fn packets(&self, schema: usize) -> &[u32] {
        &self.groups[schema].packets
    }

    /// Puts the answers for one schema's rows where their packets are; the places of other packets stay as they are.
    ///
    /// # Panics
    /// When there is no schema of this index, or not one answer a row, or not one place a packet.
    pub fn scatter(&self, schema: usize, answers: &[Option<Match>], by_packet: &mut [Option<Match>]) {
        let packets = &self.groups[schema].packets;
        assert_eq!(answers.len(), packets.len(), "one answer a row");
        assert_eq!(by_packet.len(), self.records.len(), "one place a packet");
        for (&packet, &answer) in packets.iter().zip(answers) {
            by_packet[packet as usize] = answer;
        }
    }
}
