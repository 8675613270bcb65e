//! Building: products become leaves, and the plan's tables join their classes.

use std::borrow::Cow;

use super::columns::columns;
use super::compact::SubTableShape;
use super::config::{ClassOrder, Config, LeafKind, PlaceBy, TableForm, TreeChoice};
use super::join::{Joining, NONE, Row, first, join};
use super::leaves::{Leaf, Made, PAGED, Source, constant, leaves, says};
use super::lists::Part;
use super::order::Order;
use super::plan::{Asked, Known, Operands, Planned, SLACK, fewest, of_paper};
use super::prune::Cover;
use super::structure::{Cross, Rfc};
use super::table::{Form, Spending, Writer};
use crate::engine::Match;
use crate::engine::budget::Visits;
use crate::engines::shared::{Products, Room};
use crate::error::{BuildError, Cap};
use crate::raw::Level;
use crate::rule::Lowered;
use crate::schema::Schema;

/// Maximum number of trees that are planned, each because a table of the last one exceeded the budget.
const MOST_PLANS: usize = 5;

/// Builds the engine.
///
/// If a table exceeds the budget although the plan did not, another tree is planned without that table and with the
/// true numbers of classes so far.
///
/// # Errors
/// If it would exceed the budget or the bytes of the build, there were too many visits, or sub-tables of such entries
/// and elements do not exist.
pub(super) fn build(set: &Lowered, config: &Config, level: Level, visits: &Visits) -> Result<Rfc, BuildError> {
    let form = form(config)?;
    let mut known = Known::default();
    let mut built = build_once(set, config, form, level, &mut known, visits);
    for _ in 1..MOST_PLANS {
        let exceeds = built.as_ref().err().and_then(BuildError::cap);
        if !matches!(exceeds, Some(Cap::RunBytes | Cap::BuildBytes)) || !known.take_new() {
            break;
        }
        match build_once(set, config, form, level, &mut known, visits) {
            // The first error names a table, and this one has no plan.
            Err(_) if !known.is_new() => break,
            again => built = again,
        }
    }
    built
}

/// Builds the engine by one plan, and adds to `known` the facts about the tables before one exceeded the budget.
fn build_once(
    set: &Lowered,
    config: &Config,
    form: Form,
    level: Level,
    known: &mut Known,
    visits: &Visits,
) -> Result<Rfc, BuildError> {
    let room = Room { allowed: config.build_bytes, visits };
    let Start { products, made, cover } = leaves_of(set, config, &room)?;
    let room = Room { allowed: room.allowed.saturating_sub(products.bytes()), visits };
    let matches: Vec<Match> = set.by_rule().map(|(rule, _)| rule).collect();
    let run_bytes = config.budget.bytes_or_unset();
    let mut spending = Spending { used: 0, allowed: run_bytes };
    let leaves = made.iter().map(|made| size_of::<Leaf>() + made.leaf.bytes()).sum::<usize>();
    let planned = planned(
        set,
        config,
        form,
        &made,
        &Asked {
            products: products.len(),
            rules: matches.len(),
            allowed: run_bytes,
            cover: cover.as_ref(),
            known,
            room: &room,
        },
    )?;
    let count = planned.tables.len();
    let own = leaves + size_of_val(&matches[..]) + count * size_of::<Cross>();
    let rest = if planned.is_exact { planned.bytes() } else { 0 };
    spending.take(own, rest, || format!("{count} tables as planned"))?;
    if planned.bytes / SLACK > spending.allowed as u64 {
        let needed = planned.bytes().saturating_add(own);
        return Err(BuildError::bytes(needed, spending.allowed).in_part(format!("{count} tables, about")));
    }
    let making = Making { products: &products, cover: cover.as_ref(), config, form, visits };
    let (leaves, tables) = making.tables(&planned, made, &mut spending, known)?;
    Ok(Rfc {
        schema: set.schema().clone(),
        level,
        walk: config.walk,
        count: config.count,
        leaves: leaves.into(),
        tables: tables.into(),
        matches: matches.into(),
        regions: set.region_count(),
    })
}

/// Returns the tree of tables, with the number of bytes that it needs, or a lower bound if that is not known.
fn planned(
    set: &Lowered,
    config: &Config,
    form: Form,
    made: &[Made],
    asked: &Asked<'_>,
) -> Result<Planned, BuildError> {
    let fixed = of_paper(made.len(), is_of_paper(set.schema(), config)).filter(|_| config.plan == TreeChoice::Paper);
    if let Some(tables) = fixed {
        return Ok(Planned { tables, bytes: 0, is_exact: false });
    }
    let fields: Vec<usize> = made.iter().map(|made| set.schema().words()[made.leaf.column.word].field).collect();
    let parts: Vec<&Part> = made.iter().map(|made| &made.part).collect();
    if form == Form::Plain && config.index == PlaceBy::Multiply {
        return fewest(&parts, &fields, asked);
    }
    // A plan counts the bytes of plain tables, of which each entry takes at most four.
    let least = |bytes: u64| form.least(usize::try_from(bytes / 4).unwrap_or(usize::MAX)) as u64;
    let unit = least(1 << 20).max(1);
    let allowed = (asked.allowed as u128 * (1 << 20) / u128::from(unit)).try_into().unwrap_or(usize::MAX);
    let planned = fewest(&parts, &fields, &Asked { allowed, ..*asked })?;
    Ok(Planned { bytes: least(planned.bytes), is_exact: false, ..planned })
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

/// Products, leaves, and the sets by which lists are pruned.
pub(super) struct Start {
    pub(super) products: Products,
    pub(super) made: Vec<Made>,
    pub(super) cover: Option<Cover>,
}

/// Returns the products over all columns, and at least two leaves.
///
/// Leaves that neither separate values nor exclude a product are left out, unless the paper's tree needs them.
pub(super) fn leaves_of(set: &Lowered, config: &Config, room: &Room<'_>) -> Result<Start, BuildError> {
    let schema = set.schema();
    let chunks = config.leaves == LeafKind::Chunks;
    let mut is_split: Vec<bool> = schema.words().iter().map(|word| chunks && word.max >= PAGED).collect();
    let (products, mut made, mut cover) = loop {
        let (columns, products) = columns(schema, Products::of(set, room.visits)?, &is_split, room.visits)?;
        let mut cover = config.prune.then(|| Cover::new(&products));
        let kept = products.bytes() + cover.as_ref().map_or(0, Cover::bytes);
        let Some(left) = room.allowed.checked_sub(kept) else {
            return Err(BuildError::limit(Cap::BuildBytes, kept, room.allowed));
        };
        let left = Room { allowed: left, ..*room };
        match leaves(&columns, &products, config.leaves, &mut cover, config.budget.bytes_or_unset(), &left)? {
            Ok(made) => break (products, made, cover),
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
    if let Some(cover) = &mut cover {
        // A leaf that was left out is not among the leaves still to come.
        let mut counts = vec![0; products.intervals.len()];
        made.iter().flat_map(|made| &made.part.over).for_each(|&column| counts[column] += 1);
        cover.set_leaves(counts);
    }
    Ok(Start { products, made, cover })
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

    /// Returns the name in errors of the next table, which joins the slots of `operands`.
    fn name(&self, operands: &Operands) -> String {
        let slots = operands.slots.iter().chain(&operands.third);
        let classes = slots.map(|&slot| self.parts[slot].as_ref().map_or(0, Part::len).to_string());
        format!("table {} of {} classes", self.tables.len() + 1, classes.collect::<Vec<_>>().join(" x "))
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

/// Tables in the making.
pub(super) struct Making<'a> {
    pub(super) products: &'a Products,
    pub(super) cover: Option<&'a Cover>,
    pub(super) config: &'a Config,
    pub(super) form: Form,
    pub(super) visits: &'a Visits,
}

impl Making<'_> {
    /// Builds the tables of a plan, and returns them with the leaves.
    ///
    /// # Errors
    /// If a table exceeds the budget, which is added to `known`, or the bytes of the build.
    pub(super) fn tables(
        &self,
        planned: &Planned,
        made: Vec<Made>,
        spending: &mut Spending,
        known: &mut Known,
    ) -> Result<(Vec<Leaf>, Vec<Cross>), BuildError> {
        let mut slots = Slots { leaves: Vec::new(), sources: Vec::new(), parts: Vec::new(), tables: Vec::new() };
        for Made { leaf, part, source } in made {
            slots.leaves.push(leaf);
            slots.parts.push(Some(part));
            slots.sources.push(Some(source));
        }
        let mut rest = if planned.is_exact { planned.bytes() } else { 0 };
        for (at, operands) in planned.tables.iter().enumerate() {
            let rules = (at + 1 == planned.tables.len()).then(|| self.rules());
            let name = slots.name(operands);
            let built = self.table(rules.as_deref(), *operands, &mut slots, spending, &mut rest, &name);
            if let Err(error) = built {
                if self.config.plan == TreeChoice::Fewest {
                    let classes = slots.tables.iter().map(|table| table.classes);
                    known.add(&planned.tables, slots.leaves.len(), classes, at);
                }
                return Err(error.in_part(name));
            }
        }
        Ok((slots.leaves, slots.tables))
    }

    /// Returns the entry of each product in the last table.
    fn rules(&self) -> Vec<u32> {
        let mut rules = Vec::with_capacity(self.products.len());
        for (rule, end) in self.products.firsts[1..].iter().enumerate() {
            rules.resize(*end as usize, rule as u32 + 1);
        }
        rules
    }

    /// Builds a table that joins some slots, and takes their classes out of `slots`.
    ///
    /// `rules` has the entry of each product, if the table is the last one. `rest` is the number of bytes of this and
    /// all later tables, or 0 if it is not known.
    fn table(
        &self,
        rules: Option<&[u32]>,
        operands: Operands,
        slots: &mut Slots,
        spending: &mut Spending,
        rest: &mut usize,
        name: &str,
    ) -> Result<(), BuildError> {
        let parts = operands.slots.map(|slot| slots.take(slot));
        let third = operands.third.map(|slot| slots.take(slot));
        let kept = self.products.bytes() + self.cover.map_or(0, Cover::bytes) + slots.bytes();
        let kept: usize = kept + parts.iter().chain(&third).map(Part::bytes).sum::<usize>();
        let room = Room { allowed: self.config.build_bytes.saturating_sub(kept), visits: self.visits };
        let lengths = [parts[0].len(), parts[1].len(), third.as_ref().map_or(1, Part::len)];
        let of = |lengths: [usize; 3]| lengths.iter().fold(1usize, |all, &length| all.saturating_mul(length));
        let padded = |length: usize| if self.is_shift() { length.next_power_of_two() } else { length };
        let before = spending.used;
        let later = rest.saturating_sub(of(lengths).saturating_mul(size_of::<u16>()));
        let orders = third.is_none() && self.form != Form::Plain && self.config.order == ClassOrder::FewestRuns;
        let count = if orders { of(lengths) } else { of([lengths[0], padded(lengths[1]), padded(lengths[2])]) };
        let mut writer = Writer::new(count, self.form, spending, later, name.to_owned(), room.allowed, orders)?;
        let (mut major, mut minor) = (operands.slots, [lengths[1], lengths[2]].map(padded));
        let part = match third {
            None if orders => {
                let part = self.pairs(rules, &parts[0], &parts[1], &room, &mut |row, held| writer.row(row, held))?;
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
            None => self
                .pairs(rules, &parts[0], &parts[1], &room, &mut |row, held| writer.row(&filled(row, minor[0]), held))?,
            Some(third) => self.triples(rules, parts, &third, minor, &room, &mut |row, held| writer.row(row, held))?,
        };
        let (cells, length) = writer.finish()?;
        *rest = rest.saturating_sub(spending.used - before);
        let prefetches = cells.bytes() >= self.config.prefetch;
        let counts = minor.map(|length| length as u32);
        let shifts = self.is_shift().then(|| counts.map(u32::ilog2));
        let most = rules.and_then(<[u32]>::last).copied().unwrap_or(0);
        let classes = part.as_ref().map_or(most + 1, |part| part.len() as u32);
        let third = operands.third;
        slots.tables.push(Cross { slots: major, third, counts, shifts, cells, length, classes, prefetches });
        slots.parts.push(part);
        Ok(())
    }

    fn is_shift(&self) -> bool {
        self.config.index == PlaceBy::Shift
    }

    /// Gives `row` the classes of all triples, with rows filled up to `minor` entries.
    ///
    /// Rows are found for each class of pairs, and written for each pair.
    fn triples(
        &self,
        rules: Option<&[u32]>,
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
        let inner = self.classes(&a, &b, room, &mut |row, held| {
            pairs.extend_from_slice(&filled(row, minor[0]));
            fits(held + pairs.capacity() * size_of::<u32>())
        })?;
        drop((a, b));
        let kept = inner.bytes() + pairs.capacity() * size_of::<u32>();
        let mut rows: Vec<u32> = Vec::new();
        let part = self.pairs(rules, &inner, third, room, &mut |row, held| {
            rows.extend_from_slice(&filled(row, minor[1]));
            fits(kept + held + rows.capacity() * size_of::<u32>())
        })?;
        let held = kept + part.as_ref().map_or(0, Part::bytes) + rows.capacity() * size_of::<u32>();
        pairs.iter().try_for_each(|&pair| row(&rows[pair as usize * minor[1]..][..minor[1]], held))?;
        Ok(part)
    }

    /// Gives `row` the classes of all pairs, or their first rules if the table is the last one.
    fn pairs(
        &self,
        rules: Option<&[u32]>,
        a: &Part,
        b: &Part,
        room: &Room<'_>,
        row: Row<'_>,
    ) -> Result<Option<Part>, BuildError> {
        let Some(rules) = rules else { return self.classes(a, b, room, row).map(Some) };
        let mut entries = Vec::new();
        first(a, b, self.products.len(), room.visits, &mut |found, held| {
            let entry = |&product: &u32| if product == NONE { 0 } else { rules[product as usize] };
            entries.clear();
            entries.extend(found.iter().map(entry));
            row(&entries, held)
        })?;
        Ok(None)
    }

    /// Gives `row` the classes of all pairs.
    fn classes(&self, a: &Part, b: &Part, room: &Room<'_>, row: Row<'_>) -> Result<Part, BuildError> {
        let joined = join(a, b, usize::MAX, Joining { products: self.products.len(), cover: self.cover, room }, row)?;
        Ok(joined.expect("no limit on classes"))
    }
}

/// Returns a row padded to `length` entries with its last value, so that the padding begins no run.
fn filled(row: &[u32], length: usize) -> Cow<'_, [u32]> {
    if row.len() == length {
        return Cow::Borrowed(row);
    }
    let last = row.last().copied().unwrap_or(0);
    Cow::Owned(row.iter().copied().chain(std::iter::repeat(last)).take(length).collect())
}
