//! Building: columns become searches with classes, and classes become vectors.

use super::columns::{Cells, Column, columns, width};
use super::config::{Config, RowForm, Superfields};
use super::cuckoo::Cuckoo;
use super::rows::{Form, Shape, Vectors};
use super::structure::{Decomposition, Join, NONE, Search, Single};
use super::tree::Tree;
use crate::engine::budget::Visits;
use crate::engines::shared::{Classes, Products, Room, Set, combinations, pairs, sweep};
use crate::error::{BuildError, Cap};
use crate::raw::{Level, Line};
use crate::rule::Lowered;
use crate::schema::Schema;

/// Largest number of products, because sparse vectors count their words in 16 bits.
const MOST_PRODUCTS: usize = 0xFFFF * 64;
/// Number of products up to which vectors are flat by default.
const FLAT: usize = 1024;
/// Largest number of pairs of classes that are joined, also if one of two slots has two classes, and bytes that a join's sets may take even if the sets of its
/// two slots take less.
const PAIRS: usize = 12 << 10;
const HALVES: usize = 128 << 10;
const JOINED: usize = 256 << 10;
/// Number of values below which a word has a table of its values by default, and below which it has one if it is cut
/// into at least this many intervals.
const NARROW: u32 = 1 << 10;
const DIRECT: u32 = 1 << 17;
const MANY: usize = 1 << 10;

/// Search or join in the making.
pub(super) struct Slot {
    pub(super) from: From,
    /// Class of each interval, value or pair; later the place of its vector, or its part of a place in a join.
    pub(super) values: Vec<u32>,
    pub(super) classes: Classes,
    /// Whether lookups read its vectors, because no join has taken it.
    is_read: bool,
}

pub(super) enum From {
    Tree {
        words: Vec<usize>,
        starts: Vec<u64>,
    },
    /// Values one behind the other. [`Slot::values`] has their classes, then the class of all other values.
    Hash {
        words: Vec<usize>,
        keys: Vec<u32>,
    },
    Bits {
        word: usize,
        mask: u32,
    },
    Join([usize; 2]),
}

/// Sets of products as rows of [`Classes`].
///
/// The row of a set with at most one product in 32 is 0 and its products. Any other row is 1 and the bits of the set.
/// So equal sets have equal rows, and no row takes more than a word beyond the bits of its set.
pub(super) struct Sets {
    pub(super) here: Set,
    row: Vec<u32>,
}

impl Sets {
    pub(super) fn new(products: usize) -> Self {
        Self { here: Set::none(products.div_ceil(32)), row: Vec::new() }
    }

    /// Returns the row of the current set.
    pub(super) fn row(&mut self) -> &[u32] {
        row_of(&self.here.0, &mut self.row);
        &self.row
    }
}

/// Writes the row of a set, given as bits.
pub(super) fn row_of(bits: &[u32], row: &mut Vec<u32>) {
    row.clear();
    let count: u32 = bits.iter().map(|word| word.count_ones()).sum();
    if count as usize > bits.len() {
        row.push(1);
        row.extend_from_slice(bits);
        return;
    }
    row.push(0);
    for (at, &word) in (0..).zip(bits).filter(|&(_, &word)| word != 0) {
        let mut left = word;
        while left != 0 {
            row.push(32 * at + left.trailing_zeros());
            left &= left - 1;
        }
    }
}

/// Writes the products that two rows have in common.
pub(super) fn common(a: &[u32], b: &[u32], both: &mut Vec<u32>) {
    both.clear();
    match (a[0], b[0]) {
        (1, 1) => {
            let bits: Vec<u32> = a[1..].iter().zip(&b[1..]).map(|(a, b)| a & b).collect();
            row_of(&bits, both);
        }
        (0, 0) => {
            both.push(0);
            let mut others = b[1..].iter().peekable();
            for product in &a[1..] {
                while others.next_if(|&other| other < product).is_some() {}
                both.extend(others.next_if_eq(&product));
            }
        }
        (0, _) => {
            both.push(0);
            both.extend(a[1..].iter().filter(|&&product| b[1 + product as usize / 32] >> (product % 32) & 1 != 0));
        }
        _ => common(b, a, both),
    }
}

/// Writes the set of a row as bits, 64 per word.
pub(super) fn bits_of(row: &[u32], bits: &mut [u64]) {
    bits.fill(0);
    if row[0] == 0 {
        row[1..].iter().for_each(|&product| bits[product as usize / 64] |= 1 << (product % 64));
    } else {
        let words = row[1..].iter().enumerate();
        words.for_each(|(at, &word)| bits[at / 2] |= u64::from(word) << (32 * (at % 2)));
    }
}

/// Number of products of a row.
fn count(row: &[u32]) -> u64 {
    if row[0] == 0 { row.len() as u64 - 1 } else { row[1..].iter().map(|word| u64::from(word.count_ones())).sum() }
}

pub(super) fn build(
    set: &Lowered,
    config: &Config,
    level: Level,
    visits: &Visits,
) -> Result<Decomposition, BuildError> {
    config.check()?;
    let schema = set.schema();
    let products = Products::of(set, visits)?;
    let count = products.len();
    if count > MOST_PRODUCTS {
        let what = format!("the rules have {count} products; the vectors of this engine hold at most {MOST_PRODUCTS}");
        return Err(BuildError::refused(what));
    }
    let form = match config.rows {
        RowForm::Flat => Form::Flat,
        RowForm::Summed => Form::Summed,
        RowForm::Sparse => Form::Sparse,
        RowForm::Auto if count <= FLAT => Form::Flat,
        RowForm::Auto => Form::Sparse,
    };
    let shape = Shape::new(form, count);
    let making = Making { room: Room { allowed: config.build_bytes, visits }, shape, config };
    let room = &making.room;
    let cells = Cells::new(schema, &products);
    let mut slots = Vec::new();
    if count > 0 {
        for column in columns(schema, &cells, config) {
            slots.push(making.slot(column, &cells, &products)?);
            let kept: usize = slots.iter().map(bytes_kept).sum();
            if kept > room.allowed {
                return Err(BuildError::limit(Cap::BuildBytes, kept, room.allowed));
            }
        }
        // A search that tells no packets apart is dropped, but one always stays.
        if slots.iter().any(|slot| slot.classes.len() > 1) {
            slots.retain(|slot| slot.classes.len() > 1);
        } else {
            slots.truncate(1);
            if slots.is_empty() {
                slots.push(making.slot(Column::Intervals(vec![0]), &cells, &products)?);
            }
        }
        if config.superfields == Superfields::Chosen {
            join(&mut slots, room)?;
        }
    }
    visits.check()?;
    drop(cells);
    finish(set, config, level, products, slots, shape)
}

/// Number of bytes that the sets and values of a slot take while the engine is built.
fn bytes_kept(slot: &Slot) -> usize {
    let keys = match &slot.from {
        From::Tree { starts, .. } => size_of_val(&starts[..]),
        From::Hash { keys, .. } => size_of_val(&keys[..]),
        _ => 0,
    };
    keys + size_of_val(&slot.values[..]) + size_of_val(slot.classes.rows())
}

/// Limits of the searches in the making.
pub(super) struct Making<'a> {
    /// Bytes that the sets of a search may take.
    pub(super) room: Room<'a>,
    pub(super) shape: Shape,
    pub(super) config: &'a Config,
}

/// Classes of a search, with the lines that their vectors take.
struct Counted<'a> {
    making: &'a Making<'a>,
    classes: Classes,
    lines: usize,
    bits: Vec<u64>,
}

impl<'a> Counted<'a> {
    fn new(making: &'a Making<'a>, products: usize) -> Self {
        Self { making, classes: Classes::default(), lines: 0, bits: vec![0; products.div_ceil(64)] }
    }

    /// Returns the class of a row.
    ///
    /// # Errors
    /// If rows have no room, or the vectors of a search that no join may replace exceed the budget.
    fn of(&mut self, row: &[u32]) -> Result<u32, BuildError> {
        let Making { room, shape, config } = self.making;
        let before = self.classes.len();
        let class = self.classes.of(row, room).map_err(|error| match error.bytes_needed() {
            Some((needed, allowed)) => BuildError::limit(Cap::BuildBytes, needed, allowed),
            None => error,
        })?;
        if self.classes.len() > before {
            bits_of(row, &mut self.bits);
            self.lines += shape.lines(&self.bits);
            let is_final = config.superfields != Superfields::Chosen || before >= HALVES / 2;
            let (needed, allowed) = (self.lines * size_of::<Line>(), config.budget.run_bytes);
            if is_final && needed > allowed {
                return Err(BuildError::bytes(needed, allowed));
            }
        }
        Ok(class)
    }
}

impl Making<'_> {
    /// Returns the search of a column, with the class of each of its values.
    pub(super) fn slot(&self, column: Column, cells: &Cells<'_>, products: &Products) -> Result<Slot, BuildError> {
        let room = &self.room;
        let (mut sets, mut classes) = (Sets::new(products.len()), Counted::new(self, products.len()));
        let (from, values) = match column {
            Column::Intervals(words) => {
                let one = |product: usize| (product, cells.interval(&words, product));
                let most = words.iter().map(|&word| &cells.words[word]);
                let most = most.fold(0, |most, word| most << width(word) | u64::from(word.max));
                let intervals: Vec<(usize, (u64, u64))> = match words[..] {
                    [word] => (0..products.len())
                        .flat_map(|product| cells.of(word, product))
                        .map(|&(product, (lo, hi))| (product, (u64::from(lo), u64::from(hi))))
                        .collect(),
                    _ => (0..products.len()).map(one).collect(),
                };
                let (starts, values) = sweep(&intervals, most, room.visits, |changes| {
                    changes.iter().for_each(|&(_, product)| sets.here.toggle(product));
                    classes.of(sets.row())
                })?;
                (From::Tree { words, starts }, values)
            }
            Column::Exact(words) => {
                let single = |word, product| cells.single(word, product);
                let key = |product| words.iter().map(|&word| single(word, product)).collect::<Option<Vec<u32>>>();
                let mut keyed: Vec<(Vec<u32>, usize)> = Vec::new();
                for product in 0..products.len() {
                    match key(product) {
                        Some(key) => keyed.push((key, product)),
                        None => sets.here.toggle(product),
                    }
                }
                room.visits.add(products.len() * words.len());
                keyed.sort_unstable();
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for own in keyed.chunk_by(|a, b| a.0 == b.0) {
                    own.iter().for_each(|&(_, product)| sets.here.toggle(product));
                    keys.extend_from_slice(&own[0].0);
                    values.push(classes.of(sets.row())?);
                    own.iter().for_each(|&(_, product)| sets.here.toggle(product));
                }
                // Other values have the products that leave the words open.
                values.push(classes.of(sets.row())?);
                (From::Hash { words, keys }, values)
            }
            Column::Masked { word, bits } => {
                let values = combinations(&products.masks, word, bits, room.visits, |holding| {
                    holding.for_each(|product| sets.here.toggle(product));
                    let class = classes.of(sets.row());
                    sets.here.0.fill(0);
                    class
                })?;
                (From::Bits { word, mask: bits }, values)
            }
        };
        Ok(Slot { from, values, classes: classes.classes, is_read: true })
    }
}

/// Joins the two slots with the fewest classes, repeatedly while that pays.
fn join(slots: &mut Vec<Slot>, room: &Room<'_>) -> Result<(), BuildError> {
    loop {
        let of = |(index, slot): (usize, &Slot)| slot.is_read.then(|| (slot.classes.len(), index));
        let mut left: Vec<(usize, usize)> = slots.iter().enumerate().filter_map(of).collect();
        left.sort_unstable();
        let &[(a, first), (b, second), ..] = &left[..] else { return Ok(()) };
        if a * b > if a == 2 { HALVES } else { PAIRS } {
            return Ok(());
        }
        let own = [first, second].map(|slot| size_of_val(slots[slot].classes.rows())).iter().sum::<usize>();
        let small = Room { allowed: own.max(JOINED).min(room.allowed), ..*room };
        let Ok((values, classes)) = pairs(&slots[first].classes, &slots[second].classes, common, &small) else {
            return room.visits.check();
        };
        slots[first].values.iter_mut().for_each(|value| *value *= b as u32);
        [first, second].iter().for_each(|&slot| slots[slot].is_read = false);
        slots.push(Slot { from: From::Join([first, second]), values, classes, is_read: true });
    }
}

/// Writes the vectors, and replaces classes by their places.
fn finish(
    set: &Lowered,
    config: &Config,
    level: Level,
    products: Products,
    mut slots: Vec<Slot>,
    shape: Shape,
) -> Result<Decomposition, BuildError> {
    let mut bits = vec![0u64; products.len().div_ceil(64)];
    // Sizes first, because the budget is checked before memory is taken.
    let (mut lines, mut vectors, mut longest) = (0, 0, vec![0; slots.len()]);
    let mut sizes: Vec<Vec<usize>> = Vec::new();
    for (slot, longest) in slots.iter().zip(&mut longest).filter(|(slot, _)| slot.is_read) {
        let of = |class| {
            bits_of(slot.classes.row(class), &mut bits);
            shape.lines(&bits)
        };
        let own: Vec<usize> = (0..slot.classes.len()).map(of).collect();
        *longest = own.iter().copied().max().unwrap_or(0);
        lines += own.iter().sum::<usize>();
        vectors += own.len();
        sizes.push(own);
    }
    let summaries = if shape.form == Form::Summed { vectors * shape.groups } else { 0 };
    let needed = lines * size_of::<Line>() + summaries * size_of::<u64>();
    if needed > config.budget.run_bytes {
        return Err(BuildError::bytes(needed, config.budget.run_bytes));
    }
    let mut read: Vec<usize> = (0..slots.len()).filter(|&slot| slots[slot].is_read).collect();
    let is_single = read.len() == 1 && config.superfields == Superfields::Chosen;
    let mut all = Vectors {
        form: shape.form,
        row_lines: shape.row_lines,
        groups: shape.groups,
        lines: vec![Line::default(); lines].into(),
        summaries: Box::default(),
    };
    let (mut summaries, mut next, mut number) = (Vec::with_capacity(summaries), 0, 0);
    let mut single = Vec::new();
    for (&slot, sizes) in read.iter().zip(&sizes) {
        let Slot { classes, values, .. } = &mut slots[slot];
        let mut places = Vec::with_capacity(classes.len());
        for (class, &size) in sizes.iter().enumerate() {
            bits_of(classes.row(class), &mut bits);
            shape.write(&bits, &mut all.lines[next..next + size], &mut summaries);
            let place = if shape.form == Form::Sparse { next as u32 } else { number };
            if is_single {
                let first = bits.iter().position(|&word| word != 0);
                let first = first.map_or(NONE, |at| 64 * at as u32 + bits[at].trailing_zeros());
                single.push(Single { place, first });
            }
            places.push(if is_single { class as u32 } else { place });
            (next, number) = (next + size, number + 1);
        }
        values.iter_mut().for_each(|value| *value = places[*value as usize]);
    }
    all.summaries = summaries.into();
    if config.sparsest_first {
        let rules = |slot: usize| {
            let classes = &slots[slot].classes;
            (0..classes.len()).map(|class| count(classes.row(class))).sum::<u64>() / classes.len().max(1) as u64
        };
        let mean: Vec<u64> = (0..slots.len()).map(|slot| if slots[slot].is_read { rules(slot) } else { 0 }).collect();
        read.sort_by_key(|&slot| mean[slot]);
    }
    let (mut searches, mut joins) = (Vec::new(), Vec::new());
    for Slot { from, mut values, .. } in slots {
        if let Some(search) = direct(&from, &values, set.schema(), config) {
            searches.push(search);
            continue;
        }
        match from {
            From::Tree { words, starts } => {
                let parts: Vec<(usize, u32)> = words.iter().map(|&word| (word, bits_in(set.schema(), word))).collect();
                let is_wide = parts.iter().map(|&(_, bits)| bits).sum::<u32>() > u32::BITS;
                searches.push(Search::Tree { parts: parts.into(), tree: Tree::new(is_wide, &starts, values) });
            }
            From::Hash { words, keys } => {
                let miss = values.pop().unwrap_or_default();
                let Config { functions, slots, seed, .. } = *config;
                let hash = Cuckoo::new(words.len(), &keys, &values, miss, functions, slots, seed)?;
                searches.push(Search::Hash { words: words.into(), hash });
            }
            From::Bits { word, mask } => searches.push(Search::Bits { word, mask, values: values.into() }),
            From::Join(slots) => joins.push(Join { slots, values: values.into() }),
        }
    }
    let built = Decomposition {
        schema: set.schema().clone(),
        level,
        longest: read.iter().map(|&slot| longest[slot]).collect(),
        searches: searches.into(),
        joins: joins.into(),
        read: read.into(),
        vectors: all,
        single: single.into(),
        stop: config.stop,
        sub_vector: config.sub_vector,
        in_flight: config.interleave,
        matches: products.matches.into(),
        firsts: products.firsts.into(),
        regions: set.region_count(),
    };
    let needed = built.bytes().iter().map(|(_, bytes)| bytes).sum();
    if needed > config.budget.run_bytes {
        return Err(BuildError::bytes(needed, config.budget.run_bytes));
    }
    Ok(built)
}

/// Returns a bound on the bytes that building a table or a join of a word cut into `intervals` takes.
pub(super) fn table_bytes(intervals: usize) -> usize {
    let values = if intervals < MANY { NARROW } else { DIRECT };
    (values as usize + 4 * HALVES) * size_of::<u32>()
}

/// Returns a table over the values of a single word, if it has few values or many intervals.
fn direct(from: &From, values: &[u32], schema: &Schema, config: &Config) -> Option<Search> {
    let (&[word], intervals) = (match from {
        From::Tree { words, starts } => (&words[..], starts.len()),
        From::Hash { words, keys } => (&words[..], keys.len()),
        _ => return None,
    }) else {
        return None;
    };
    let most = schema.words()[word].max;
    let is_worth = most < NARROW || most < DIRECT && intervals >= MANY;
    if config.superfields != Superfields::Chosen || !is_worth {
        return None;
    }
    let other = *values.last()?;
    let mut table = vec![other; most as usize + 1];
    match from {
        From::Tree { starts, .. } => {
            let firsts = [0].into_iter().chain(starts.iter().map(|&start| start as usize));
            let ends = starts.iter().map(|&start| start as usize).chain([table.len()]);
            let all: Vec<_> = firsts.zip(ends).zip(values).collect();
            all.into_iter().for_each(|((first, end), &value)| table[first..end].fill(value));
        }
        From::Hash { keys, .. } => keys.iter().zip(values).for_each(|(&key, &value)| table[key as usize] = value),
        _ => return None,
    }
    Some(Search::Direct { word, values: table.into() })
}

fn bits_in(schema: &Schema, word: usize) -> u32 {
    width(&schema.words()[word])
}
