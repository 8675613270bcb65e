//! Building: key words become dimensions, and small dimensions are joined.

use super::{BitVector, Config, Dimension, GROUP, GROUP_WORDS, Join, MOST_BYTES, NEAR, Rows, SHORT_WORDS};
use crate::engine::budget::Visits;
use crate::engines::shared::{
    self, Classes, Interval, Masks, Products, Room, Set, combinations, common_bits, eights, mask_for, sweep,
};
use crate::error::BuildError;
use crate::raw::{LINE_WORDS, Level, Line, Pages, Table, Tree, words_mut};
use crate::rule::Lowered;
use crate::schema::Schema;

/// Number of values below which a word has a table of classes.
const DIRECT: u32 = 1 << 10;
/// Number of values below which a word has pages of such tables.
const PAGED: u32 = 1 << 17;
/// Maximum number of pairs or triples of classes that are joined.
///
/// Their table, rounded up to a power of two, takes at most 32 KiB.
const PAIRS: usize = 12 << 10;
/// Maximum bytes of vectors of a join.
const JOINED: usize = 256 << 10;

/// Builds the engine; an error over the limit on vectors says that it is the engine's own.
pub(super) fn build(set: &Lowered, config: &Config, level: Level, visits: &Visits) -> Result<BitVector, BuildError> {
    built(set, config, level, visits).map_err(|error| match error.bytes_needed() {
        Some((needed, allowed)) if allowed < config.budget.run_bytes => BuildError::own_limit(needed, allowed),
        _ => error,
    })
}

fn built(set: &Lowered, config: &Config, level: Level, visits: &Visits) -> Result<BitVector, BuildError> {
    let products = Products::of(set, visits)?;
    let groups = products.len().div_ceil(GROUP);
    let is_short = products.len() <= 32 * SHORT_WORDS;
    let short = is_short.then(|| slots(set.schema(), &products, SHORT_WORDS, config, visits)).transpose()?;
    let (mut slots, rows) = match short.filter(|slots| bytes_read(slots) <= NEAR << 16) {
        Some(slots) => (slots, Rows::Short),
        None => {
            let slots = slots(set.schema(), &products, groups * GROUP_WORDS, config, visits)?;
            let is_near = groups == 1 && bytes_read(&slots) <= NEAR << 16;
            (slots, if is_near { Rows::Near } else { Rows::Far })
        }
    };
    // Positions of vectors have 16 bits.
    let (needed, allowed) = (bytes_read(&slots), allowed(config).min(MOST_BYTES));
    if needed > allowed {
        return Err(BuildError::bytes(needed, allowed));
    }
    let (mut read, mut words) = (Vec::new(), Vec::with_capacity(needed / size_of::<u32>()));
    for (index, slot) in slots.iter_mut().enumerate().filter(|(_, slot)| slot.is_read) {
        let (first, vector) = (words.len(), groups * rows.words());
        let position = |class: u32| ((first + class as usize * vector) / rows.unit()) as u32;
        slot.values.iter_mut().for_each(|value| *value = position(*value));
        words.extend_from_slice(slot.classes.rows());
        read.push(index);
    }
    // A spare line stands behind the last vector, because a lookup may read one word past the end of a row.
    let mut vectors = vec![Line::default(); words.len() / LINE_WORDS + 1];
    words_mut(&mut vectors)[..words.len()].copy_from_slice(&words);
    let (mut dimensions, mut joins) = (Vec::new(), Vec::new());
    for Slot { from, values, .. } in slots {
        let values = narrow(&values);
        match from {
            From::Intervals { word, starts, most } => {
                // The vectors of that many intervals would not have fitted either.
                let found = search(word, &starts, most, &values);
                dimensions.push(found.ok_or_else(|| BuildError::bytes(usize::MAX, allowed))?);
            }
            From::Values { word, mask } => {
                dimensions.push(Dimension::Direct { word, values: Table::new(mask, values) });
            }
            From::Join { slots, third } => {
                let values = Table::new(mask_for(values.len() as u32 - 1), values);
                joins.push(Join { slots, third, values });
            }
        }
    }
    let built = BitVector {
        schema: set.schema().clone(),
        level,
        dimensions: dimensions.into(),
        joins: joins.into(),
        read: read.into(),
        vectors: vectors.into(),
        rows,
        groups,
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

/// Dimension or join in the making.
struct Slot {
    from: From,
    /// Class of each interval, value or pair; later the position it leads to.
    values: Vec<u32>,
    classes: Classes,
    /// Whether lookups read its vectors, because no join has taken it.
    is_read: bool,
}

enum From {
    /// Starts of all intervals but the first, and the largest value of the word.
    Intervals { word: usize, starts: Vec<u32>, most: u32 },
    /// Values of the bits of a word that `mask` names.
    Values { word: usize, mask: u32 },
    /// Slots whose values add up to a position.
    Join { slots: [usize; 2], third: Option<usize> },
}

/// Returns the slots of all dimensions, then those of their joins. Each vector has `words` words.
fn slots(
    schema: &Schema,
    products: &Products,
    words: usize,
    config: &Config,
    visits: &Visits,
) -> Result<Vec<Slot>, BuildError> {
    let mut slots = dimensions(schema, products, words, &Room { allowed: allowed(config), visits })?;
    join(&mut slots, &Room { allowed: JOINED.min(config.vectors), visits });
    visits.check()?;
    Ok(slots)
}

/// Number of bytes that vectors may take.
fn allowed(config: &Config) -> usize {
    config.vectors.min(config.budget.run_bytes)
}

/// Number of bytes of the vectors that lookups read.
fn bytes_read(slots: &[Slot]) -> usize {
    slots.iter().filter(|slot| slot.is_read).map(|slot| size_of_val(slot.classes.rows())).sum()
}

fn dimensions(schema: &Schema, products: &Products, words: usize, room: &Room<'_>) -> Result<Vec<Slot>, BuildError> {
    let mut slots = Vec::new();
    let mut add = |from, (values, classes)| slots.push(Slot { from, values, classes, is_read: true });
    for (word, of) in schema.words().iter().enumerate() {
        let (starts, numbers, classes) = intervals(&products.intervals[word], of.max, words, room)?;
        let tested = products.tested(word);
        if of.max < DIRECT {
            // One table tests the masks, too.
            let mask = mask_for(of.max);
            let class_of = |value: u32| numbers[starts.partition_point(|&start| start <= value)];
            let mut found = ((0..=of.max).map(class_of).collect(), classes);
            if tested != 0 {
                found = shared::common(found, masked(&products.masks, word, mask, words, room)?, common_bits, room)?;
            }
            add(From::Values { word, mask }, found);
        } else {
            add(From::Intervals { word, starts, most: of.max }, (numbers, classes));
            for mask in eights(tested) {
                add(From::Values { word, mask }, masked(&products.masks, word, mask, words, room)?);
            }
        }
    }
    // A word that all products leave open is dropped, but one dimension always stays.
    let says = |slot: &Slot| slot.classes.len() > 1;
    if slots.iter().any(says) {
        slots.retain(says);
    } else {
        slots.truncate(1);
    }
    Ok(slots)
}

/// Narrows values to 16 bits.
///
/// Classes, positions of vectors and parts of a position in a join are all below 2<sup>16</sup>.
fn narrow(values: &[u32]) -> Vec<u16> {
    values.iter().map(|&value| value as u16).collect()
}

/// Builds the search of a word by intervals; `None` if positions need more than 16 bits.
fn search(word: usize, starts: &[u32], most: u32, values: &[u16]) -> Option<Dimension> {
    if most < PAGED {
        let ends = starts.iter().copied().chain([most + 1]);
        let mut each = Vec::with_capacity(most as usize + 1);
        ends.zip(values).for_each(|(end, &value)| each.resize(end as usize, value));
        if let Some(pages) = Pages::new(&each) {
            return Some(Dimension::Paged { word, pages });
        }
    }
    Some(Dimension::Search { word, tree: Tree::new(starts, values, most)? })
}

/// Joins the two or three slots with the fewest classes, repeatedly while that pays.
///
/// A pair's position is the first class times the number of second classes, plus the second class. For example, with 4
/// and 21 classes the pair (2, 5) has position 2 × 21 + 5 = 47.
fn join(slots: &mut Vec<Slot>, room: &Room<'_>) {
    loop {
        let of = |(index, slot): (usize, &Slot)| slot.is_read.then(|| (slot.classes.len(), index));
        let mut left: Vec<(usize, usize)> = slots.iter().enumerate().filter_map(of).collect();
        left.sort_unstable();
        let &[(a, first), (b, second), ref others @ ..] = &left[..] else { return };
        if a * b > PAIRS {
            return;
        }
        let Some((mut values, mut classes)) = pairs(&slots[first].classes, &slots[second].classes, room) else {
            return;
        };
        let mut joined = vec![(first, b as u32), (second, 1)];
        if let Some(&(c, third)) = others.first()
            && a * b * c <= PAIRS
            && let Some((numbers, all)) = pairs(&classes, &slots[third].classes, room)
        {
            values = values.iter().flat_map(|&pair| &numbers[pair as usize * c..][..c]).copied().collect();
            joined.iter_mut().for_each(|(_, factor)| *factor *= c as u32);
            joined.push((third, 1));
            classes = all;
        }
        for &(slot, factor) in &joined {
            slots[slot].values.iter_mut().for_each(|value| *value *= factor);
            slots[slot].is_read = false;
        }
        let third = joined.get(2).map(|&(slot, _)| slot);
        slots.push(Slot { from: From::Join { slots: [first, second], third }, values, classes, is_read: true });
    }
}

/// Returns the class of every pair of classes; `None` if their vectors do not fit.
fn pairs(first: &Classes, second: &Classes, room: &Room<'_>) -> Option<(Vec<u32>, Classes)> {
    shared::pairs(first, second, common_bits, room).ok()
}

/// Cuts a word into intervals; returns all starts but the first, the class of each interval, and the classes.
fn intervals(
    intervals: &[(usize, Interval)],
    most: u32,
    words: usize,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Vec<u32>, Classes), BuildError> {
    let (mut here, mut classes) = (Set::none(words), Classes::default());
    let (starts, numbers) = sweep(intervals, most, room.visits, |changes| {
        changes.iter().for_each(|&(_, product)| here.toggle(product));
        classes.of(&here.0, room)
    })?;
    Ok((starts, numbers, classes))
}

/// Returns the class of each combination of the bits `bits` of a word, and the classes.
fn masked(
    masks: &[Masks],
    word: usize,
    bits: u32,
    words: usize,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Classes), BuildError> {
    let mut classes = Classes::default();
    let numbers = combinations(masks, word, bits, room.visits, |products| {
        let mut here = Set::none(words);
        products.for_each(|product| here.toggle(product));
        classes.of(&here.0, room)
    })?;
    Ok((numbers, classes))
}
