//! View of a rule set for a trace: regions of one schema, an engine, and points of regions.

use std::ops::Range;

use firstmatch_core::engines::tuple::{self, TupleMerge};
use firstmatch_core::rule::{ExpansionLimits, Lowered, Region, lower};
use firstmatch_core::schema::{Family, IPV6_EXTENSIONS, Schema, Source};
use firstmatch_core::{Match, RuleSet};

use super::{Form, Header};
use crate::error::Error;
use crate::keys::beside;
use crate::profile::with_ports;
use crate::random::Random;

/// Fields that the headers of a trace have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// Those of [`COLUMNS`] alone.
    FiveTuple(Form),
    /// Every field of the schema.
    Every,
}

/// Columns of a trace of 5-tuples.
const COLUMNS: [Source; 5] = [Source::Src, Source::Dst, Source::SrcPort, Source::DstPort, Source::Proto];
const SPORT: usize = 2;
const DPORT: usize = 3;
const PROTO: usize = 4;
const TCP: u32 = 6;

/// Rules over one schema.
#[derive(Debug)]
pub(crate) struct View {
    content: Content,
    pub(crate) family: Option<Family>,
    pub(crate) lowered: Lowered,
    pub(crate) engine: TupleMerge,
    /// Rules that have a region here, each with its regions.
    pub(crate) targets: Vec<Target>,
    /// Place of a rule in the order of the set, by slot.
    pub(crate) places: Vec<u32>,
    /// Words of each column, in the order of [`COLUMNS`] or of the schema; a column without a field has none.
    pub(crate) columns: Vec<Range<usize>>,
    /// Largest value of each word; only in packets it is the value for absent.
    pub(crate) max: Vec<u32>,
}

/// Rule that headers may be drawn from.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) rule: Match,
    pub(crate) regions: Range<usize>,
}

/// Position of a point in a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Where {
    /// Each field at one of its ends.
    Corner,
    /// Anywhere.
    Interior,
}

impl View {
    /// Builds a view for each schema of a set.
    pub(crate) fn all(set: &RuleSet, content: Content) -> Result<Vec<Self>, Error> {
        let mut places = vec![0; set.slots()];
        for (place, rule) in (0..).zip(set.iter()) {
            places[rule.id.slot()] = place;
        }
        set.schemas().iter().map(|schema| Self::new(set, schema, content, places.clone())).collect()
    }

    fn new(set: &RuleSet, schema: &Schema, content: Content, places: Vec<u32>) -> Result<Self, Error> {
        let columns = match content {
            Content::FiveTuple(form) => five_tuple(schema, form)?,
            Content::Every => (0..schema.fields().len()).map(|field| schema.words_of(field)).collect(),
        };
        let lowered = lower(set, schema, &ExpansionLimits::default()).map_err(|error| Error::engine(&error))?;
        let engine = TupleMerge::build(&lowered, &tuple::Config::default()).map_err(|error| Error::engine(&error))?;
        let targets = lowered.by_rule().map(|(rule, regions)| Target { rule, regions }).collect();
        let max = schema.words().iter().map(|word| match (content, word.absent) {
            (Content::FiveTuple(Form::Lines), Some(absent)) => absent - 1,
            _ => word.max,
        });
        let max = max.collect();
        let family = match content {
            Content::FiveTuple(_) => family_of(schema),
            Content::Every => schema.family(),
        };
        Ok(Self { content, family, lowered, engine, targets, places, columns, max })
    }

    /// Returns the place of a rule in the order of the set.
    pub(crate) fn place(&self, found: Option<Match>) -> Option<u32> {
        found.and_then(|found| self.places.get(found.rule.slot()).copied())
    }

    /// Iterates over the regions of a rule of this view.
    pub(crate) fn regions_of(&self, rule: Match) -> impl Iterator<Item = Region<'_>> {
        let rules = self.lowered.rules();
        let start = rules.partition_point(|other| other.priority < rule.priority);
        let own = rules[start..].iter().take_while(move |other| other.priority == rule.priority).count();
        (start..start + own).map(|index| self.lowered.regions().get(index))
    }

    /// Fills `row` with a point of a region.
    ///
    /// A protocol without a condition becomes a common one. If the protocol has no ports, the ports are 0 if the region
    /// allows that.
    pub(crate) fn point(&self, region: Region<'_>, at: Where, random: &mut Random, row: &mut [u32]) {
        for column in &self.columns {
            let high = random.coin();
            for word in column.clone() {
                let (lo, hi) = (region.lo[word], region.hi[word].min(self.max[word]));
                row[word] = match at {
                    Where::Corner if high => hi,
                    Where::Corner => lo,
                    Where::Interior => random.between(lo.min(hi), hi),
                };
            }
        }
        match self.content {
            Content::FiveTuple(_) => self.choose_protocol(region, random, row),
            Content::Every => self.choose_common(region, random, row),
        }
        if let Some((value, mask)) = region.ternary {
            for ((word, value), mask) in row.iter_mut().zip(value).zip(mask) {
                *word = *word & !mask | value;
            }
        }
        self.settle(row);
    }

    /// Chooses a protocol for a 5-tuple, if the region allows any, and no ports for one without ports.
    fn choose_protocol(&self, region: Region<'_>, random: &mut Random, row: &mut [u32]) {
        // A protocol is one word. If words are narrow it is several, and no common protocol is drawn.
        let Some(proto) = self.columns[PROTO].clone().next() else { return };
        if region.lo[proto] == 0 && region.hi[proto] == 0xFF {
            row[proto] = [6, 6, 6, 17, 17, 17, 1, row[proto]][random.index(8)];
        }
        if !u8::try_from(row[proto]).is_ok_and(with_ports) {
            for word in [SPORT, DPORT].into_iter().flat_map(|port| self.columns[port].clone()) {
                let allows = (region.lo[word]..=region.hi[word]).contains(&0);
                row[word] = if allows { 0 } else { row[word] };
            }
        }
    }

    /// Changes a row to one that a packet can have, unless the form is lines.
    fn settle(&self, row: &mut [u32]) {
        match self.content {
            Content::FiveTuple(Form::Lines) => return,
            Content::FiveTuple(Form::Packets) => {}
            Content::Every => return self.settle_fields(row),
        }
        let words = self.lowered.schema().words();
        if self.family == Some(Family::Ipv6) && IPV6_EXTENSIONS.contains(&self.protocol(row)) {
            for word in self.columns[PROTO].clone() {
                row[word] = TCP.checked_shr(words[word].shift).unwrap_or(0) & words[word].bits;
            }
        }
        let has_ports = with_ports(self.protocol(row));
        for word in [SPORT, DPORT].into_iter().flat_map(|port| self.columns[port].clone()) {
            row[word] = match words[word].absent {
                Some(absent) if has_ports => row[word].min(absent - 1),
                absent if !has_ports => absent.unwrap_or(0),
                _ => row[word],
            };
        }
    }

    /// Returns the protocol of a 5-tuple; TCP for rules without such a field.
    fn protocol(&self, row: &[u32]) -> u8 {
        if self.columns[PROTO].is_empty() { TCP as u8 } else { self.value(PROTO, row) as u8 }
    }

    /// Returns the value of a column.
    fn value(&self, column: usize, row: &[u32]) -> u128 {
        let words = self.lowered.schema().words();
        self.columns[column].clone().fold(0, |value, word| value | u128::from(row[word]) << words[word].shift)
    }

    /// Moves one field of a point one step out of its region, where there is room.
    pub(crate) fn beside(&self, region: Region<'_>, random: &mut Random, row: &mut [u32]) {
        self.step_outside(region, random, row);
        self.settle(row);
    }

    fn step_outside(&self, region: Region<'_>, random: &mut Random, row: &mut [u32]) {
        let column = self.columns[random.index(self.columns.len())].clone();
        beside(column, region, &self.max, random, row);
    }

    /// Fills the row of a header.
    pub(crate) fn row(&self, header: &Header, row: &mut [u32]) {
        let words = self.lowered.schema().words();
        let values = [header.src, header.dst, header.sport.into(), header.dport.into(), header.proto.into()];
        for (column, value) in self.columns.iter().zip(values) {
            for word in column.clone() {
                row[word] = value.checked_shr(words[word].shift).unwrap_or(0) as u32 & words[word].bits;
            }
        }
    }

    /// Returns the number of rules that match a header; `row` is room for its words.
    pub(crate) fn matches(&self, header: &Header, row: &mut Vec<u32>) -> u32 {
        row.clear();
        row.resize(self.max.len(), 0);
        self.row(header, row);
        let regions = self.lowered.regions();
        // Regions of one rule never overlap, so each that holds the row is another rule.
        (0..regions.len()).map(|index| u32::from(regions.get(index).contains(row))).sum()
    }

    /// Returns the header of a row.
    pub(crate) fn header(&self, row: &[u32], rule: Option<u32>) -> Header {
        let [src, dst, sport, dport] = [0, 1, 2, 3].map(|column| self.value(column, row));
        // Absence is one more than the largest port, so as 16 bits it is 0.
        let (sport, dport) = (sport as u16, dport as u16);
        let family = self.family.unwrap_or(Family::Ipv4);
        Header { src, dst, family, sport, dport, proto: self.protocol(row), rule }
    }
}

/// Returns the family of a schema; that of its addresses if it states none itself.
fn family_of(schema: &Schema) -> Option<Family> {
    schema.family().or_else(|| {
        let field = COLUMNS[..SPORT].iter().find_map(|&source| schema.index_of_source(source))?;
        let width = schema.fields()[field].width();
        [Family::Ipv4, Family::Ipv6].into_iter().find(|family| family.address_bits() == width)
    })
}

/// Returns the words of each of [`COLUMNS`]; none for a field that the schema lacks.
fn five_tuple(schema: &Schema, form: Form) -> Result<Vec<Range<usize>>, Error> {
    if family_of(schema).is_none() {
        return Err(Error::unsupported("a trace has addresses; the rules are of no address family"));
    }
    let known = |source: &Option<Source>| source.is_some_and(|source| COLUMNS.contains(&source));
    if let Some(field) = schema.fields().iter().find(|field| !known(&field.source())) {
        return Err(Error::unsupported(format!("a trace has no column for the field {}", field.name())));
    }
    let words = |source| {
        let Some(field) = schema.index_of_source(source) else { return Ok(0..0) };
        let is_port = matches!(source, Source::SrcPort | Source::DstPort);
        if form == Form::Packets && is_port && !schema.fields()[field].is_optional() {
            let name = schema.fields()[field].name();
            return Err(Error::unsupported(format!("packets may lack the field {name}, which is not optional")));
        }
        Ok(schema.words_of(field))
    };
    COLUMNS.into_iter().map(words).collect()
}
