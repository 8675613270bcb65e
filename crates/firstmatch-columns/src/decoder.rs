//! Blocks of columns to rows of keys.

use std::ops::Range;

use firstmatch::core::Schema;
use firstmatch::core::schema::{Family, Field, Source, Word};
use firstmatch::net::wire::Batch;

use crate::cells::kind::{BAD, NARROW, NULL, WIDE};
use crate::cells::{Cells, Prepared};
use crate::text::ICMP_BY_NAME;

/// Number of rows of a block that suits the caches of a core.
pub const BLOCK: usize = 2048;

/// Values of one field.
#[derive(Clone, Debug)]
pub enum Input<'a> {
    /// The field is in no row.
    Absent,
    /// Every row has the value of the first cell.
    Constant(Cells),
    /// The first of these columns that is not null in a row has its value.
    Columns(Vec<Prepared<'a>>),
}

/// Status of a row before any rule is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// It is a row of keys.
    #[default]
    Keys,
    /// A field that every packet has is null.
    LacksField,
    /// Its addresses are of a family that the rules have no schema for.
    OtherFamily,
    /// An address cannot be read.
    BadAddress,
    /// A number cannot be read, or its field cannot have it.
    BadNumber,
    /// Its addresses are of two families.
    MixedFamilies,
}

/// Reads columns into rows of keys, block by block.
///
/// A field belongs to every schema that has one of its name. Rows get their schema from their addresses, unless the
/// rules have only one schema and that is of no family, or the caller has named one.
///
/// ```
/// use firstmatch_columns::{Bytes, Column, Content, Decoder, Input, Integers, Prepared, Status, Values};
///
/// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n")?;
/// let mut decoder = Decoder::new(&firewall.schemas(), None, true);
/// let text = |offsets, text: &'static str| Values::Text(Bytes::Small(offsets, text.as_bytes()));
/// let inputs: Vec<Input> = decoder.fields().iter().map(|field| {
///     let values = match field.name() {
///         "src" => text(&[0, 8, 11], "10.0.0.1::1"),
///         "dst" => text(&[0, 9, 12], "192.0.2.7::2"),
///         "dport" => Values::Integers(Integers::U16(&[23, 443])),
///         "proto" => text(&[0, 3, 6], "tcpTCP"),
///         _ => return Input::Absent,
///     };
///     Input::Columns(vec![Prepared::new(Column::new(2, [], values), Content::of(field))])
/// }).collect();
/// let mut batch = firewall.batch();
/// decoder.read(&inputs, 0..2, &mut batch);
/// assert_eq!(decoder.statuses(), [Status::Keys, Status::Keys]);
///
/// let mut lines = [0; 2];
/// let mut order = decoder.order().iter();
/// firewall.worker().classify_batch(&batch, |_, decision| {
///     lines[*order.next().expect("a row") as usize] = decision.line.map_or(0, u32::from);
/// })?;
/// assert_eq!(lines, [1, 0]); // no rule holds the second
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder {
    schemas: Vec<Layout>,
    fields: Vec<Field>,
    plans: Vec<Plan>,
    families: Families,
    /// Field of the protocol, if fields depend on it.
    protocol: Option<usize>,
    gates: Vec<Gate>,
    cells: Vec<Cells>,
    spare: Cells,
    statuses: Vec<Status>,
    /// Index of the schema of each row.
    schema_of: Vec<u8>,
    order: Vec<u32>,
}

/// Schema, with the field of each word.
#[derive(Clone, Debug)]
struct Layout {
    family: Option<Family>,
    words: Vec<KeyWord>,
    stride: usize,
}

/// Word of a row of keys.
#[derive(Clone, Copy, Debug)]
struct KeyWord {
    /// Index of its field among the fields of all schemas.
    field: usize,
    word: Word,
    copy: Copying,
}

/// Way from a field's cells to a word.
#[derive(Clone, Copy, Debug)]
enum Copying {
    /// The field has one word, which is its narrow value.
    Narrow,
    /// The field is wide and in every packet.
    Wide,
    /// The field may be absent and has several words.
    Any,
}

/// Source of each row's schema.
#[derive(Clone, Copy, Debug)]
enum Families {
    /// All rows are of the schema of this index.
    Fixed(usize),
    /// The two fields of addresses.
    Addresses([usize; 2]),
}

/// How a field's cells are checked.
#[derive(Clone, Debug)]
struct Plan {
    /// Kind of its values.
    expected: u8,
    is_optional: bool,
    is_address: bool,
    /// Value of its only word where it is absent, if it has one word.
    absent: Option<u32>,
    /// Whether each schema has it.
    held: Vec<bool>,
    /// Index of its gate.
    gate: Option<usize>,
}

/// Protocols of packets that have some field, by schema and protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Gate(Vec<[bool; 256]>);

impl Decoder {
    /// Returns a decoder for the schemas of a rule set.
    ///
    /// All rows are of the schema of index `fixed`, if there is one. With `by_protocol`, fields that packets of a row's
    /// protocol lack are absent whatever their columns have: for example, ports exist in TCP, UDP, UDP-Lite, SCTP and
    /// DCCP alone.
    ///
    /// # Panics
    /// If there is no schema, more than 255, or none of index `fixed`; or if there is a schema of a family without
    /// addresses and `fixed` names none.
    pub fn new(schemas: &[Schema], fixed: Option<usize>, by_protocol: bool) -> Self {
        assert!((1..=255).contains(&schemas.len()), "1 to 255 schemas");
        assert!(fixed.is_none_or(|index| index < schemas.len()), "a schema of this index");
        let mut fields: Vec<Field> = Vec::new();
        for field in schemas.iter().flat_map(Schema::fields) {
            if fields.iter().all(|known| known.name() != field.name()) {
                fields.push(field.clone());
            }
        }
        let index_of = |name: &str| fields.iter().position(|field| field.name() == name);
        let families = match (fixed, schemas) {
            (Some(index), _) => Families::Fixed(index),
            (None, [one]) if one.family().is_none() => Families::Fixed(0),
            _ => {
                let by_source = |source| fields.iter().position(|field| field.source() == Some(source));
                Families::Addresses([Source::Src, Source::Dst].map(|it| by_source(it).expect("addresses")))
            }
        };
        let protocol = fields.iter().position(|field| field.source().is_some_and(Source::is_protocol));
        let protocol = protocol.filter(|_| by_protocol);
        let mut gates = Vec::new();
        let plans = fields.iter().enumerate().map(|(index, field)| {
            let gate = protocol.and_then(|_| gate_of(schemas, field));
            let gate = gate.map(|gate| {
                let known = gates.iter().position(|known| *known == gate);
                known.unwrap_or_else(|| {
                    gates.push(gate);
                    gates.len() - 1
                })
            });
            // Only addresses differ between schemas, and these are checked elsewhere unless the schema is fixed.
            let schema = match families {
                Families::Fixed(schema) => schemas.get(schema).filter(|it| it.index_of(field.name()).is_some()),
                Families::Addresses(_) => None,
            };
            let schema = schema.or_else(|| schemas.iter().find(|it| it.index_of(field.name()).is_some()));
            let schema = schema.expect("the field of a schema");
            let at = schema.index_of(field.name()).expect("a field of the schema");
            let words = &schema.words()[schema.words_of(at)];
            Plan {
                expected: if schema.fields()[at].width() > 32 { WIDE } else { NARROW },
                is_optional: field.is_optional(),
                is_address: matches!(families, Families::Addresses(addresses) if addresses.contains(&index)),
                absent: if let [word] = words { word.absent } else { None },
                held: schemas.iter().map(|schema| schema.index_of(field.name()).is_some()).collect(),
                gate,
            }
        });
        let plans: Vec<Plan> = plans.collect();
        let layout = |schema: &Schema| {
            let field_of = |word: &Word| index_of(schema.fields()[word.field].name()).unwrap_or_default();
            let words = schema.words().iter().map(|word| KeyWord::new(schema, word, field_of(word))).collect();
            Layout { family: schema.family(), words, stride: schema.stride() }
        };
        let layouts = schemas.iter().map(layout).collect();
        let cells = vec![Cells::default(); fields.len()];
        let (spare, statuses, schema_of, order) = Default::default();
        Self { schemas: layouts, fields, plans, families, protocol, gates, cells, spare, statuses, schema_of, order }
    }

    /// Returns the fields, each once, with the width that the first schema gives them.
    ///
    /// [`Decoder::read`] takes an input for each of them.
    pub fn fields(&self) -> &[Field] {
        &self.fields
    }

    /// Replaces the packets of a batch by the rows of a block, as far as they are rows of keys.
    ///
    /// # Panics
    /// If there is not one input for each field, columns do not have these rows, or the batch has other schemas.
    pub fn read(&mut self, inputs: &[Input<'_>], rows: Range<usize>, batch: &mut Batch) {
        batch.clear();
        self.append(inputs, rows, batch);
    }

    /// Adds the rows of a block to a batch, as [`Decoder::read`] does, behind the packets that it has.
    ///
    /// So several blocks are decided by the rules of one commit.
    ///
    /// # Panics
    /// As [`Decoder::read`].
    pub fn append(&mut self, inputs: &[Input<'_>], rows: Range<usize>, batch: &mut Batch) {
        assert_eq!(inputs.len(), self.fields.len(), "one input a field");
        let count = rows.len();
        for (cells, input) in self.cells.iter_mut().zip(inputs) {
            match input {
                Input::Absent => cells.fill(count, None),
                Input::Constant(one) => cells.fill(count, Some(one)),
                Input::Columns(columns) => {
                    let (first, others) = columns.split_first().expect("a column");
                    first.decode(rows.clone(), cells);
                    for column in others {
                        column.decode(rows.clone(), &mut self.spare);
                        cells.coalesce(&self.spare);
                    }
                }
            }
        }
        self.statuses.clear();
        self.statuses.resize(count, Status::Keys);
        self.schema_of.clear();
        self.schema_of.resize(count, 0);
        self.find_schemas();
        self.name_icmp();
        self.check();
        self.write(batch);
    }

    /// Returns the status of each row of the block that was read last.
    pub fn statuses(&self) -> &[Status] {
        &self.statuses
    }

    /// Returns the row of each packet that [`Decoder::read`] put into the batch, counted from the start of the block.
    pub fn order(&self) -> &[u32] {
        &self.order
    }

    /// Returns the index of the first field whose value in a row of the block is not one that it can have.
    ///
    /// # Panics
    /// If the block has no such row.
    pub fn fault_of(&self, row: usize) -> Option<usize> {
        let schema = usize::from(self.schema_of[row]);
        let is_bad = |(cells, plan): (&Cells, &Plan)| {
            let kind = cells.kinds[row];
            kind == BAD || !plan.is_address && plan.held[schema] && kind != NULL && kind != plan.expected
        };
        self.cells.iter().zip(&self.plans).position(is_bad)
    }

    /// Finds the schema of each row, or that it has none.
    fn find_schemas(&mut self) {
        let [src, dst] = match self.families {
            Families::Fixed(schema) => return self.schema_of.fill(schema as u8),
            Families::Addresses(fields) => fields.map(|field| &self.cells[field].kinds[..]),
        };
        let of_family = |family| self.schemas.iter().position(|schema| schema.family == Some(family));
        let (ipv4, ipv6) = (of_family(Family::Ipv4), of_family(Family::Ipv6));
        let is_all = |kind: u8| src.iter().chain(dst).fold(true, |all, &of| all & (of == kind));
        for (kind, schema) in [(NARROW, ipv4), (WIDE, ipv6)] {
            if let (true, Some(schema)) = (is_all(kind), schema) {
                return self.schema_of.fill(schema as u8);
            }
        }
        for (row, (&src, &dst)) in src.iter().zip(dst).enumerate() {
            let schema = match (src, dst) {
                (BAD, _) | (_, BAD) => Err(Status::BadAddress),
                (NULL, _) | (_, NULL) => Err(Status::LacksField),
                (NARROW, NARROW) => ipv4.ok_or(Status::OtherFamily),
                (WIDE, WIDE) => ipv6.ok_or(Status::OtherFamily),
                _ => Err(Status::MixedFamilies),
            };
            match schema {
                Ok(schema) => self.schema_of[row] = schema as u8,
                Err(status) => self.statuses[row] = status,
            }
        }
    }

    /// Gives the protocol `icmp` its number in the family of each row.
    fn name_icmp(&mut self) {
        let Some(field) = self.fields.iter().position(|field| field.source().is_some_and(Source::is_protocol)) else {
            return;
        };
        let protocols = &mut self.cells[field].narrow;
        if protocols.iter().fold(true, |none, &protocol| none & (protocol != ICMP_BY_NAME)) {
            return;
        }
        for (protocol, &schema) in protocols.iter_mut().zip(&self.schema_of) {
            if *protocol == ICMP_BY_NAME {
                *protocol = if self.schemas[usize::from(schema)].family == Some(Family::Ipv6) { 58 } else { 1 };
            }
        }
    }

    /// Checks the cells of each field, and gives absent ones their value.
    fn check(&mut self) {
        let mut open = vec![Vec::new(); self.gates.len()];
        if let Some(protocol) = self.protocol {
            let protocols = &self.cells[protocol];
            for (open, Gate(tables)) in open.iter_mut().zip(&self.gates) {
                let kinds_and_values = protocols.kinds.iter().zip(&protocols.narrow);
                open.extend(kinds_and_values.zip(&self.schema_of).map(|((&kind, &protocol), &schema)| {
                    kind == NARROW && tables[usize::from(schema)][usize::from(protocol as u8)]
                }));
            }
        }
        for (cells, plan) in self.cells.iter_mut().zip(&self.plans) {
            if plan.is_address {
                continue;
            }
            if let Some(gate) = plan.gate {
                for (kind, &is_open) in cells.kinds.iter_mut().zip(&open[gate]) {
                    *kind = if is_open { *kind } else { NULL };
                }
            }
            if let Some(absent) = plan.absent {
                for (value, &kind) in cells.narrow.iter_mut().zip(&cells.kinds) {
                    *value = if kind == NULL { absent } else { *value };
                }
            }
            let allowed = if plan.is_optional { NULL } else { plan.expected };
            let is_fine = |kind: u8| kind == plan.expected || kind == allowed;
            if cells.kinds.iter().fold(true, |all, &kind| all & is_fine(kind)) {
                continue;
            }
            for (row, &kind) in cells.kinds.iter().enumerate() {
                if is_fine(kind) || !plan.held[usize::from(self.schema_of[row])] {
                    continue;
                }
                let status = &mut self.statuses[row];
                *status = match (kind, *status) {
                    (NULL, Status::Keys) => Status::LacksField,
                    (NULL, known) => known,
                    (_, Status::Keys | Status::LacksField | Status::OtherFamily) => Status::BadNumber,
                    (_, known) => known,
                };
            }
        }
    }

    /// Writes the rows of keys, those of one schema after the other.
    fn write(&mut self, batch: &mut Batch) {
        self.order.clear();
        let count = self.statuses.len();
        if count == 0 {
            return;
        }
        let first = self.schema_of[0];
        let is_dense = self.statuses.iter().fold(true, |all, &status| all & (status == Status::Keys))
            && self.schema_of.iter().fold(true, |all, &schema| all & (schema == first));
        if is_dense {
            self.order.extend(0..count as u32);
            return self.write_schema(usize::from(first), 0, true, batch);
        }
        for schema in 0..self.schemas.len() {
            let from = self.order.len();
            let rows = self.statuses.iter().zip(&self.schema_of).enumerate();
            let rows = rows.filter(|(_, (status, of))| **status == Status::Keys && usize::from(**of) == schema);
            self.order.extend(rows.map(|(row, _)| row as u32));
            self.write_schema(schema, from, false, batch);
        }
    }

    /// Writes the rows of a schema: all of the block, or those of `order` behind `from`.
    fn write_schema(&self, schema: usize, from: usize, is_dense: bool, batch: &mut Batch) {
        let Layout { words, stride, .. } = &self.schemas[schema];
        let order = &self.order[from..];
        if order.is_empty() {
            return;
        }
        batch.push_rows(schema, order.len(), |keys| {
            for (index, KeyWord { field, word, copy }) in words.iter().enumerate() {
                let Cells { kinds, narrow, wide } = &self.cells[*field];
                let places = keys[index..].iter_mut().step_by(*stride);
                let part = |value: u128| (value >> word.shift) as u32 & word.bits;
                let any = |row: usize| match kinds[row] {
                    NULL => word.absent.unwrap_or(0),
                    NARROW => part(narrow[row].into()),
                    _ => part(wide[row]),
                };
                match (copy, is_dense) {
                    (Copying::Narrow, true) => places.zip(narrow).for_each(|(place, &value)| *place = value),
                    (Copying::Narrow, false) => {
                        places.zip(order).for_each(|(place, &row)| *place = narrow[row as usize]);
                    }
                    (Copying::Wide, true) => places.zip(wide).for_each(|(place, &value)| *place = part(value)),
                    (Copying::Wide, false) => {
                        places.zip(order).for_each(|(place, &row)| *place = part(wide[row as usize]));
                    }
                    (Copying::Any, _) => places.zip(order).for_each(|(place, &row)| *place = any(row as usize)),
                }
            }
        });
    }
}

impl KeyWord {
    fn new(schema: &Schema, word: &Word, field: usize) -> Self {
        let of = &schema.fields()[word.field];
        let copy = match (schema.words_of(word.field).len(), of.width(), of.is_optional()) {
            (1, _, _) => Copying::Narrow,
            (_, 33.., false) => Copying::Wide,
            _ => Copying::Any,
        };
        Self { field, word: *word, copy }
    }
}

/// Returns the protocols of packets that have a field, in each schema; `None` if it does not depend on the protocol.
fn gate_of(schemas: &[Schema], field: &Field) -> Option<Gate> {
    let source = field.source()?;
    source.protocols(None)?;
    let table = |schema: &Schema| {
        let protocols = source.protocols(schema.family()).unwrap_or_default();
        std::array::from_fn(|protocol| protocols.contains(&(protocol as u8)))
    };
    Some(Gate(schemas.iter().map(table).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Column, Content, Integers, Values};

    #[test]
    fn blocks_that_are_appended_are_one_batch() {
        let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n").expect("rules");
        let mut decoder = Decoder::new(&firewall.schemas(), None, false);
        let values = |field: &Field| match field.name() {
            "src" | "dst" => Values::Text(Bytes::Small(&[0, 8, 11, 12], b"10.0.0.1::1x")),
            "dport" => Values::Integers(Integers::U16(&[23, 23, 23])),
            _ => Values::Integers(Integers::U8(&[6, 17, 6])),
        };
        let input =
            |field: &Field| Input::Columns(vec![Prepared::new(Column::new(3, [], values(field)), Content::of(field))]);
        let inputs: Vec<_> = decoder.fields().iter().map(input).collect();
        let (mut batch, mut order) = (firewall.batch(), Vec::new());
        for row in 0..3 {
            decoder.append(&inputs, row..row + 1, &mut batch);
            order.push(decoder.order().to_vec());
        }
        assert_eq!(decoder.statuses(), [Status::BadAddress]);
        assert_eq!(order, [vec![0], vec![0], vec![]]);
        let mut lines = Vec::new();
        let decided = firewall.worker().classify_batch(&batch, |_, it| lines.push(it.line.map_or(0, u32::from)));
        decided.expect("the fields of the rules");
        assert_eq!(lines, [1, 2]);
        decoder.read(&inputs, 1..2, &mut batch);
        assert_eq!(batch.len(), 1);
    }
}
