//! Building: products become leaves, and the plan's tables join their classes.

use std::borrow::Cow;

use super::columns::columns;
use super::compact::SubTableShape;
use super::config::{ClassOrder, Config, LeafKind, PlaceBy, TableForm, TreeChoice};
use super::join::{NONE, Row, first, join};
use super::leaves::{Leaf, Made, PAGED, Source, constant, leaves, says};
use super::lists::Part;
use super::order::Order;
use super::plan::{Operands, Planned, SLACK, fewest, of_paper};
use super::structure::{Cross, Rfc};
use super::table::{Form, Spending, Writer};
use crate::engine::Match;
use crate::engine::budget::Visits;
use crate::engines::shared::{Products, Room};
use crate::error::{BuildError, Cap};
use crate::raw::Level;
use crate::rule::Lowered;
use crate::schema::Schema;

/// Builds the engine.
///
/// # Errors
/// If it would exceed the budget or the bytes of the build, there were too many visits, or sub-tables of such entries
/// and elements do not exist.
pub(super) fn build(set: &Lowered, config: &Config, level: Level, visits: &Visits) -> Result<Rfc, BuildError> {
    let form = form(config)?;
    let room = Room { allowed: config.build_bytes, visits };
    let (products, made) = leaves_of(set, config, &room)?;
    let matches: Vec<Match> = set.by_rule().map(|(rule, _)| rule).collect();
    let mut spending = Spending { used: 0, allowed: config.budget.run_bytes };
    let leaves = made.iter().map(|made| size_of::<Leaf>() + made.leaf.bytes()).sum::<usize>();
    let planned = planned(set, config, form, &products, &made, &room)?;
    let count = planned.tables.len();
    let own = leaves + size_of_val(&matches[..]) + count * size_of::<Cross>();
    let rest = if planned.is_exact { planned.bytes() } else { 0 };
    spending.take(own, rest, || format!("{count} tables as planned"))?;
    if planned.bytes / SLACK > spending.allowed as u64 {
        let needed = planned.bytes().saturating_add(own);
        return Err(BuildError::bytes(needed, spending.allowed).in_part(format!("{count} tables, about")));
    }
    let (leaves, tables) = tables(&planned, made, &products, config, &mut spending, visits)?;
    Ok(Rfc {
        schema: set.schema().clone(),
        level,
        walk: config.walk,
        count: config.count,
        leaves: leaves.into(),
        tables: tables.into(),
        matches: matches.into(),
        regions: set.regions().len(),
    })
}

/// Returns the tree of tables, with as many bytes as it needs at least, or exactly where that is known.
fn planned(
    set: &Lowered,
    config: &Config,
    form: Form,
    products: &Products,
    made: &[Made],
    room: &Room<'_>,
) -> Result<Planned, BuildError> {
    let fixed = of_paper(made.len(), is_of_paper(set.schema(), config)).filter(|_| config.plan == TreeChoice::Paper);
    if let Some(tables) = fixed {
        return Ok(Planned { tables, bytes: 0, is_exact: false });
    }
    let fields: Vec<usize> = made.iter().map(|made| set.schema().words()[made.leaf.column.word].field).collect();
    let parts: Vec<&Part> = made.iter().map(|made| &made.part).collect();
    let rules = set.by_rule().count();
    // A plan counts the bytes of plain tables. An entry of theirs takes at least two bytes.
    let least = |bytes: u64| form.least(usize::try_from(bytes / 4).unwrap_or(usize::MAX)) as u64;
    let unit = least(1 << 20).max(1);
    let is_plain = form == Form::Plain && config.index == PlaceBy::Multiply;
    let allowed = match form {
        Form::Plain => config.budget.run_bytes,
        _ => usize::try_from((config.budget.run_bytes as u128) * (1 << 20) / u128::from(unit)).unwrap_or(usize::MAX),
    };
    let planned = fewest(&parts, &fields, products.len(), rules, allowed, room)?;
    if is_plain { Ok(planned) } else { Ok(Planned { bytes: least(planned.bytes), is_exact: false, ..planned }) }
}

/// Returns the form of the tables.
///
/// # Errors
/// If sub-tables of such entries and elements do not exist.
fn form(config: &Config) -> Result<Form, BuildError> {
    let shape = SubTableShape { entries: config.sub_entries, elements: config.sub_elements };
    let exists = [32, 64, 96, 128].contains(&shape.entries) && (4..=28).step_by(2).any(|count| count == shape.elements);
    match config.store {
        TableForm::Plain => Ok(Form::Plain),
        TableForm::Ranked => Ok(Form::Ranked),
        TableForm::SubTables if exists => Ok(Form::SubTables(shape)),
        TableForm::SubTables => Err(BuildError::refused(format!(
            "sub-tables of {} entries and {} elements; expected 32, 64, 96 or 128, and an even number from 4 to 28",
            shape.entries, shape.elements
        ))),
    }
}

/// Whether the leaves are the paper's chunks: of two addresses, two ports and perhaps a protocol.
fn is_of_paper(schema: &Schema, config: &Config) -> bool {
    let is_wide: Vec<bool> = schema.words().iter().map(|word| word.max >= PAGED).collect();
    let is_five_tuple = matches!(is_wide[..], [true, true, false, false] | [true, true, false, false, false]);
    config.leaves == LeafKind::Chunks && is_five_tuple
}

/// Returns the products over all columns, and at least two leaves.
///
/// Leaves that say nothing are left out, unless the paper's tree needs them.
pub(super) fn leaves_of(set: &Lowered, config: &Config, room: &Room<'_>) -> Result<(Products, Vec<Made>), BuildError> {
    let schema = set.schema();
    let chunks = config.leaves == LeafKind::Chunks;
    let mut is_split: Vec<bool> = schema.words().iter().map(|word| chunks && word.max >= PAGED).collect();
    let (products, mut made) = loop {
        let (columns, products) = columns(schema, Products::of(set, room.visits)?, &is_split, room.visits)?;
        match leaves(&columns, &products, config.leaves, room)? {
            Ok(made) => break (products, made),
            Err(word) => is_split[word] = true,
        }
    };
    room.visits.check()?;
    let is_fixed = config.plan == TreeChoice::Paper && of_paper(made.len(), is_of_paper(schema, config)).is_some();
    if !is_fixed {
        let count = products.len();
        if made.iter().any(|made| says(&made.part, count)) {
            made.retain(|made| says(&made.part, count));
        } else {
            made.truncate(1);
        }
        if made.len() < 2 {
            made.push(constant(count, room)?);
        }
    }
    Ok((products, made))
}

/// Builds the tables of a plan, and returns them with the leaves.
pub(super) fn tables(
    planned: &Planned,
    made: Vec<Made>,
    products: &Products,
    config: &Config,
    spending: &mut Spending,
    visits: &Visits,
) -> Result<(Vec<Leaf>, Vec<Cross>), BuildError> {
    let mut rules = Vec::with_capacity(products.len());
    for (rule, end) in products.firsts[1..].iter().enumerate() {
        rules.resize(*end as usize, rule as u32 + 1);
    }
    let mut slots = Slots { leaves: Vec::new(), sources: Vec::new(), parts: Vec::new(), tables: Vec::new() };
    for Made { leaf, part, source } in made {
        slots.leaves.push(leaf);
        slots.parts.push(Some(part));
        slots.sources.push(Some(source));
    }
    let form = form(config)?;
    let mut rest = if planned.is_exact { planned.bytes() } else { 0 };
    for (at, operands) in planned.tables.iter().enumerate() {
        let is_last = at + 1 == planned.tables.len();
        let making = Making { rules: is_last.then_some(&rules[..]), products: products.len(), config, form, visits };
        making.table(*operands, &mut slots, spending, &mut rest)?;
    }
    Ok((slots.leaves, slots.tables))
}

/// Leaves and tables so far.
struct Slots {
    leaves: Vec<Leaf>,
    /// Source of each leaf that no table has joined.
    sources: Vec<Option<Source>>,
    /// Classes of each slot that no table has joined.
    parts: Vec<Option<Part>>,
    tables: Vec<Cross>,
}

impl Slots {
    fn take(&mut self, slot: usize) -> Part {
        self.parts[slot].take().expect("a slot is joined once")
    }

    /// Number of bytes of the lists and sources of slots that no table has joined.
    fn bytes(&self) -> usize {
        let sources = self.sources.iter().flatten().map(Source::bytes).sum::<usize>();
        self.parts.iter().flatten().map(Part::bytes).sum::<usize>() + sources
    }

    /// Gives each class of a slot the number in `to`; returns `false` if the slot must stay as it is.
    fn relabel(&mut self, slot: usize, to: &[u32]) -> bool {
        match slot.checked_sub(self.leaves.len()) {
            Some(table) => {
                self.tables[table].cells.relabel(to);
                true
            }
            None => self.sources[slot].take().is_some_and(|source| source.relabel(&mut self.leaves[slot], to)),
        }
    }
}

/// Settings of one table in the making.
struct Making<'a> {
    /// Entry of each product, if the table is the last one.
    rules: Option<&'a [u32]>,
    products: usize,
    config: &'a Config,
    form: Form,
    visits: &'a Visits,
}

impl Making<'_> {
    /// Builds a table of some slots, whose classes it takes.
    ///
    /// `rest` is the number of bytes of this and all later tables, or 0 if it is not known.
    fn table(
        &self,
        operands: Operands,
        slots: &mut Slots,
        spending: &mut Spending,
        rest: &mut usize,
    ) -> Result<(), BuildError> {
        let parts = operands.slots.map(|slot| slots.take(slot));
        let third = operands.third.map(|slot| slots.take(slot));
        let kept: usize = slots.bytes() + parts.iter().chain(&third).map(Part::bytes).sum::<usize>();
        let room = Room { allowed: self.config.build_bytes.saturating_sub(kept), visits: self.visits };
        let lengths = [parts[0].len(), parts[1].len(), third.as_ref().map_or(1, Part::len)];
        let of = |lengths: [usize; 3]| lengths.iter().fold(1usize, |all, &length| all.saturating_mul(length));
        let padded = |length: usize| if self.is_shift() { length.next_power_of_two() } else { length };
        let name =
            format!("table {} of {} x {} x {} classes", slots.tables.len() + 1, lengths[0], lengths[1], lengths[2]);
        let before = spending.used;
        let later = rest.saturating_sub(of(lengths).saturating_mul(size_of::<u16>()));
        let orders = third.is_none() && self.form != Form::Plain && self.config.order == ClassOrder::FewestRuns;
        let count = if orders { of(lengths) } else { of([lengths[0], padded(lengths[1]), padded(lengths[2])]) };
        let mut writer = Writer::new(count, self.form, spending, later, name, room.allowed)?;
        let (mut major, mut minor) = (operands.slots, [lengths[1], lengths[2]].map(padded));
        let part = match third {
            None if orders => {
                let part = self.pairs(&parts[0], &parts[1], &room, &mut |row| writer.row(row))?;
                let mut order = Order::of_fewest_runs(&writer.runs, parts.each_ref());
                if order.swaps {
                    (major, minor) = ([major[1], major[0]], [padded(lengths[0]), 1]);
                }
                let numbers = order.sorted.as_deref().map(Order::numbers);
                if numbers.is_some_and(|numbers| !slots.relabel(major[1], &numbers)) {
                    order.sorted = None;
                }
                if order.swaps || order.sorted.is_some() || minor[0] != lengths[1] {
                    writer.runs = order.rewritten(&writer.runs, lengths[0], minor[0], room.allowed)?;
                }
                part
            }
            None => self.pairs(&parts[0], &parts[1], &room, &mut |row| writer.row(&filled(row, minor[0])))?,
            Some(third) => self.triples(parts, &third, minor, &room, &mut |row| writer.row(row))?,
        };
        let (cells, length) = writer.finish()?;
        *rest = rest.saturating_sub(spending.used - before);
        let prefetches = cells.bytes() >= self.config.prefetch;
        let counts = minor.map(|length| length as u32);
        let shifts = self.is_shift().then(|| counts.map(u32::ilog2));
        let classes = part.as_ref().map_or_else(|| self.most_rule() + 1, |part| part.len() as u32);
        let third = operands.third;
        slots.tables.push(Cross { slots: major, third, counts, shifts, cells, length, classes, prefetches });
        slots.parts.push(part);
        Ok(())
    }

    fn is_shift(&self) -> bool {
        self.config.index == PlaceBy::Shift
    }

    /// Largest entry of the last table.
    fn most_rule(&self) -> u32 {
        self.rules.and_then(<[u32]>::last).copied().unwrap_or(0)
    }

    /// Gives `row` the classes of all triples, with rows filled up to `minor` entries.
    ///
    /// Rows are found for each class of pairs, and written for each pair.
    fn triples(
        &self,
        [a, b]: [Part; 2],
        third: &Part,
        minor: [usize; 2],
        room: &Room<'_>,
        row: Row<'_>,
    ) -> Result<Option<Part>, BuildError> {
        let fits = |needed: usize| match needed > room.allowed {
            true => Err(BuildError::limit(Cap::BuildBytes, needed, room.allowed)),
            false => Ok(()),
        };
        let mut pairs: Vec<u32> = Vec::new();
        let inner = self.classes(&a, &b, room, &mut |row| {
            pairs.extend_from_slice(&filled(row, minor[0]));
            fits(size_of_val(&pairs[..]))
        })?;
        drop((a, b));
        let mut rows: Vec<u32> = Vec::new();
        let part = self.pairs(&inner, third, room, &mut |row| {
            rows.extend_from_slice(&filled(row, minor[1]));
            fits(size_of_val(&pairs[..]) + size_of_val(&rows[..]))
        })?;
        pairs.iter().try_for_each(|&pair| row(&rows[pair as usize * minor[1]..][..minor[1]]))?;
        Ok(part)
    }

    /// Gives `row` the classes of all pairs, or their first rules if the table is the last one.
    fn pairs(&self, a: &Part, b: &Part, room: &Room<'_>, row: Row<'_>) -> Result<Option<Part>, BuildError> {
        let Some(rules) = self.rules else { return self.classes(a, b, room, row).map(Some) };
        let mut entries = Vec::new();
        first(a, b, self.products, room.visits, &mut |found| {
            let entry = |&product: &u32| if product == NONE { 0 } else { rules[product as usize] };
            entries.clear();
            entries.extend(found.iter().map(entry));
            row(&entries)
        })?;
        Ok(None)
    }

    /// Gives `row` the classes of all pairs.
    fn classes(&self, a: &Part, b: &Part, room: &Room<'_>, row: Row<'_>) -> Result<Part, BuildError> {
        let joined = join(a, b, self.products, usize::MAX, room, row)?;
        Ok(joined.expect("no limit on classes"))
    }
}

/// Returns a row of `length` entries: those beyond its own have the value of its last, so that they begin no run.
fn filled(row: &[u32], length: usize) -> Cow<'_, [u32]> {
    if row.len() == length {
        return Cow::Borrowed(row);
    }
    let last = row.last().copied().unwrap_or(0);
    Cow::Owned(row.iter().copied().chain(std::iter::repeat(last)).take(length).collect())
}
