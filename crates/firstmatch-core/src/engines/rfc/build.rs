//! Building: products become leaves, and the plan's tables join their classes.

use super::columns::columns;
use super::config::{Config, LeafKind, TreeChoice};
use super::join::{NONE, first, join};
use super::leaves::{Leaf, Made, PAGED, constant, leaves, says};
use super::lists::Part;
use super::plan::{Operands, Planned, SLACK, fewest, of_paper};
use super::structure::{Cross, Rfc};
use super::table::{Spending, Writer};
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
/// If it would exceed the budget or the bytes of the build, or there were too many visits.
pub(super) fn build(set: &Lowered, config: &Config, level: Level, visits: &Visits) -> Result<Rfc, BuildError> {
    let room = Room { allowed: config.build_bytes, visits };
    let (products, made) = leaves_of(set, config, &room)?;
    let fields: Vec<usize> = made.iter().map(|made| set.schema().words()[made.leaf.column.word].field).collect();
    let (leaves, parts): (Vec<Leaf>, Vec<Part>) = made.into_iter().map(|Made { leaf, part }| (leaf, part)).unzip();
    let matches: Vec<Match> = set.by_rule().map(|(rule, _)| rule).collect();
    let planned = match of_paper(leaves.len(), is_of_paper(set.schema(), config)) {
        Some(tables) if config.plan == TreeChoice::Paper => Planned { tables, bytes: 0, is_exact: false },
        _ => {
            let parts: Vec<&Part> = parts.iter().collect();
            fewest(&parts, &fields, products.len(), matches.len(), config.budget.run_bytes, &room)?
        }
    };
    let mut spending = Spending { used: 0, allowed: config.budget.run_bytes };
    let own = size_of_val(&leaves[..]) + leaves.iter().map(Leaf::bytes).sum::<usize>() + size_of_val(&matches[..]);
    let own = own + planned.tables.len() * size_of::<Cross>();
    let rest = if planned.is_exact { usize::try_from(planned.bytes).unwrap_or(usize::MAX) } else { 0 };
    let count = planned.tables.len();
    spending.take(own, rest, || format!("{count} tables as planned"))?;
    if planned.bytes / SLACK > spending.allowed as u64 {
        let needed = usize::try_from(planned.bytes).unwrap_or(usize::MAX).saturating_add(own);
        return Err(BuildError::bytes(needed, spending.allowed).in_part(format!("{count} tables, about")));
    }
    let tables = tables(&planned, parts, &products, config, &mut spending, visits)?;
    Ok(Rfc {
        schema: set.schema().clone(),
        level,
        walk: config.walk,
        leaves: leaves.into(),
        tables: tables.into(),
        matches: matches.into(),
        regions: set.regions().len(),
    })
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

/// Builds the tables of a plan.
pub(super) fn tables(
    planned: &Planned,
    parts: Vec<Part>,
    products: &Products,
    config: &Config,
    spending: &mut Spending,
    visits: &Visits,
) -> Result<Vec<Cross>, BuildError> {
    let mut rules = Vec::with_capacity(products.len());
    for (rule, end) in products.firsts[1..].iter().enumerate() {
        rules.resize(*end as usize, rule as u32 + 1);
    }
    let mut parts: Vec<Option<Part>> = parts.into_iter().map(Some).collect();
    let mut rest = if planned.is_exact { usize::try_from(planned.bytes).unwrap_or(usize::MAX) } else { 0 };
    let mut tables = Vec::new();
    for (at, operands) in planned.tables.iter().enumerate() {
        let mut taken = |slot: usize| parts[slot].take().expect("a slot is joined once");
        let [a, b] = operands.slots.map(&mut taken);
        let third = operands.third.map(taken);
        let kept: usize = parts.iter().flatten().chain([&a, &b]).chain(&third).map(Part::bytes).sum();
        let room = Room { allowed: config.build_bytes.saturating_sub(kept), visits };
        let is_last = at + 1 == planned.tables.len();
        let making = Making { rules: is_last.then_some(&rules[..]), products: products.len(), room };
        let (cross, part) = making.table(at, *operands, [a, b], third, spending, &mut rest, config)?;
        parts.push(part);
        tables.push(cross);
    }
    Ok(tables)
}

/// Settings of one table in the making.
struct Making<'a> {
    /// Entry of each product, if the table is the last one.
    rules: Option<&'a [u32]>,
    products: usize,
    room: Room<'a>,
}

impl Making<'_> {
    /// Builds a table, and returns it with its classes unless it is the last one.
    ///
    /// `rest` is the number of bytes of this and all later tables, or 0 if it is not known.
    #[expect(clippy::too_many_arguments, reason = "each is used once")]
    fn table(
        &self,
        at: usize,
        operands: Operands,
        [a, b]: [Part; 2],
        third: Option<Part>,
        spending: &mut Spending,
        rest: &mut usize,
        config: &Config,
    ) -> Result<(Cross, Option<Part>), BuildError> {
        let counts = [b.len() as u32, third.as_ref().map_or(1, |third| third.len() as u32)];
        let lengths = [a.len(), b.len(), counts[1] as usize];
        let count = lengths.iter().fold(1usize, |all, &length| all.saturating_mul(length));
        let name = format!("table {} of {} x {} x {} classes", at + 1, lengths[0], lengths[1], lengths[2]);
        let before = spending.used;
        let later = rest.saturating_sub(count.saturating_mul(size_of::<u16>()));
        let mut writer = Writer::new(count, spending, later, name)?;
        let part = match third {
            None => self.pairs(&a, &b, &mut |row| writer.row(row))?,
            Some(third) => {
                // Rows are found for each class of pairs, and written for each pair.
                let mut pairs: Vec<u32> = Vec::new();
                let inner = self.classes(&a, &b, &mut |row| {
                    pairs.extend_from_slice(row);
                    self.fits(size_of_val(&pairs[..]))
                })?;
                drop((a, b));
                let mut rows: Vec<u32> = Vec::new();
                let part = self.pairs(&inner, &third, &mut |row| {
                    rows.extend_from_slice(row);
                    self.fits(size_of_val(&pairs[..]) + size_of_val(&rows[..]))
                })?;
                let row_of = |&pair: &u32| &rows[pair as usize * third.len()..][..third.len()];
                pairs.iter().try_for_each(|pair| writer.row(row_of(pair)))?;
                part
            }
        };
        let entries = writer.finish();
        *rest = rest.saturating_sub(spending.used - before);
        let classes =
            part.as_ref().map_or_else(|| self.rules.map_or(0, |_| self.most_rule() + 1), |part| part.len() as u32);
        let prefetches = entries.bytes() >= config.prefetch;
        let Operands { slots, third } = operands;
        Ok((Cross { slots, third, counts, entries, classes, prefetches }, part))
    }

    /// Largest entry of the last table.
    fn most_rule(&self) -> u32 {
        self.rules.and_then(<[u32]>::last).copied().unwrap_or(0)
    }

    /// Gives `row` the classes of all pairs, or their first rules if the table is the last one.
    fn pairs(
        &self,
        a: &Part,
        b: &Part,
        row: &mut dyn FnMut(&[u32]) -> Result<(), BuildError>,
    ) -> Result<Option<Part>, BuildError> {
        let Some(rules) = self.rules else { return self.classes(a, b, row).map(Some) };
        let mut entries = Vec::new();
        first(a, b, self.products, self.room.visits, &mut |found| {
            let entry = |&product: &u32| if product == NONE { 0 } else { rules[product as usize] };
            entries.clear();
            entries.extend(found.iter().map(entry));
            row(&entries)
        })?;
        Ok(None)
    }

    /// Gives `row` the classes of all pairs.
    fn classes(
        &self,
        a: &Part,
        b: &Part,
        row: &mut dyn FnMut(&[u32]) -> Result<(), BuildError>,
    ) -> Result<Part, BuildError> {
        let joined = join(a, b, self.products, usize::MAX, &self.room, row)?;
        Ok(joined.expect("no limit on classes"))
    }

    fn fits(&self, needed: usize) -> Result<(), BuildError> {
        let allowed = self.room.allowed;
        if needed > allowed { Err(BuildError::limit(Cap::BuildBytes, needed, allowed)) } else { Ok(()) }
    }
}
