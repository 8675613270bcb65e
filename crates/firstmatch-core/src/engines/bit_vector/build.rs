//! Building: key words become dimensions, and small dimensions are joined.

use super::classes::{Classes, Room, Set};
use super::{BitVector, Config, Dimension, FAR, GROUP, GROUP_WORDS, Join, NEAR};
use crate::engine::budget::Visits;
use crate::error::BuildError;
use crate::raw::{Hasher, LINE_WORDS, Level, Line, Pages, Table, Tree, secrets, words_mut};
use crate::rule::{Lowered, Regions};
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

pub(super) fn build(set: &Lowered, config: &Config, level: Level, visits: &Visits) -> Result<BitVector, BuildError> {
    let regions = set.regions();
    let groups = regions.len().div_ceil(GROUP);
    let hasher = &Hasher::new(groups * GROUP_WORDS, secrets(None));
    let room = Room { allowed: config.vectors.min(config.budget.run_bytes), visits, hasher };
    let mut slots = dimensions(set.schema(), regions, groups, &room)?;
    join(&mut slots, &Room { allowed: JOINED.min(config.vectors), visits, hasher });
    visits.check()?;
    let (mut read, mut words) = (Vec::new(), Vec::new());
    let needed: usize = slots.iter().filter(|slot| slot.is_read).map(|slot| size_of_val(slot.classes.vectors())).sum();
    let is_near = groups == 1 && needed <= NEAR << 16;
    let unit = if is_near { FAR / NEAR } else { 1 };
    for (index, slot) in slots.iter_mut().enumerate().filter(|(_, slot)| slot.is_read) {
        let first = words.len() / GROUP_WORDS;
        slot.values.iter_mut().for_each(|value| *value = ((first + *value as usize * groups) * unit) as u32);
        words.extend_from_slice(slot.classes.vectors());
        read.push(index);
    }
    // Positions of vectors have 16 bits.
    let (needed, allowed) = (size_of_val(&words[..]), room.allowed.min((1 << 16) * GROUP / 8));
    if needed > allowed {
        return Err(BuildError::bytes(needed, allowed));
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
                dimensions.push(found.ok_or_else(|| BuildError::bytes(usize::MAX, room.allowed))?);
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
        is_near,
        groups,
        matches: set.rules().into(),
        rules: set.by_rule().count(),
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

fn dimensions(schema: &Schema, regions: &Regions, groups: usize, room: &Room<'_>) -> Result<Vec<Slot>, BuildError> {
    let mut slots = Vec::new();
    for (word, of) in schema.words().iter().enumerate() {
        let (starts, numbers, classes) = intervals(regions, (word, of.max), groups, room)?;
        let (from, values) = if of.max < DIRECT {
            let class_of = |value: u32| numbers[starts.partition_point(|&start| start <= value)];
            (From::Values { word, mask: mask_for(of.max) }, (0..=of.max).map(class_of).collect())
        } else {
            (From::Intervals { word, starts, most: of.max }, numbers)
        };
        slots.push(Slot { from, values, classes, is_read: true });
    }
    for word in regions.ternary_words() {
        for shift in [0, 8, 16, 24] {
            let (values, classes) = masked(regions, word, shift, groups, room)?;
            slots.push(Slot { from: From::Values { word, mask: 0xFF << shift }, values, classes, is_read: true });
        }
    }
    // A word that all regions leave open is dropped, but one dimension always stays.
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

/// Returns the mask of all bits that values up to `most` have.
fn mask_for(most: u32) -> u32 {
    u32::MAX.checked_shr(most.leading_zeros()).unwrap_or(0)
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

/// Cuts a word into elementary intervals.
///
/// Returns the start of each interval but the first, the class of each interval, and the classes.
fn intervals(
    regions: &Regions,
    (word, most): (usize, u32),
    groups: usize,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Vec<u32>, Classes), BuildError> {
    // Regions start at `lo` and have ended at `hi + 1`. A region that ends with the word never has.
    let mut events: Vec<(u32, usize)> = Vec::with_capacity(2 * regions.len());
    for (at, region) in regions.iter().enumerate() {
        events.push((region.lo[word], at));
        events.extend((region.hi[word] < most).then(|| (region.hi[word] + 1, at)));
    }
    events.sort_unstable();
    room.visits.add(events.len());
    let (mut starts, mut numbers, mut classes) = (Vec::new(), Vec::new(), Classes::default());
    let mut here = Set::none(groups);
    let (first, _) = events.split_at(events.partition_point(|&(value, _)| value == 0));
    first.iter().for_each(|&(_, region)| here.toggle(region));
    numbers.push(classes.of(&here.0, room)?);
    for events in events[first.len()..].chunk_by(|a, b| a.0 == b.0) {
        events.iter().for_each(|&(_, region)| here.toggle(region));
        starts.push(events[0].0);
        numbers.push(classes.of(&here.0, room)?);
    }
    // Neighbours of one class become one interval.
    let mut kept = (Vec::new(), vec![numbers[0]]);
    for (start, &number) in starts.into_iter().zip(&numbers[1..]) {
        if kept.1.last() != Some(&number) {
            kept.0.push(start);
            kept.1.push(number);
        }
    }
    Ok((kept.0, kept.1, classes))
}

/// Returns the class of each value of a byte of a ternary word, and the classes.
fn masked(
    regions: &Regions,
    word: usize,
    shift: u32,
    groups: usize,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Classes), BuildError> {
    let asked: Vec<(u32, u32)> = regions
        .iter()
        .map(|region| {
            region.ternary.map_or((0, 0), |(value, mask)| (value[word] >> shift & 0xFF, mask[word] >> shift & 0xFF))
        })
        .collect();
    let mut classes = Classes::default();
    let numbers = (0..=0xFF).map(|byte| {
        let mut here = Set::none(groups);
        room.visits.add(asked.len());
        let hold = asked.iter().enumerate().filter(|(_, (value, mask))| byte & mask == *value);
        hold.for_each(|(region, _)| here.toggle(region));
        classes.of(&here.0, room)
    });
    let numbers = numbers.collect::<Result<_, _>>()?;
    Ok((numbers, classes))
}

/// Joins the two or three slots of fewest classes, again and again while it pays.
///
/// A pair's position is the first class times the number of second classes, plus the second class. For example, of 4
/// and 21 classes the pair (2, 5) is at 2 × 21 + 5 = 47.
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
    let (mut numbers, mut classes) = (Vec::with_capacity(first.len() * second.len()), Classes::default());
    let mut both = Vec::new();
    for a in 0..first.len() {
        for b in 0..second.len() {
            both.clear();
            both.extend(first.vector(a).iter().zip(second.vector(b)).map(|(a, b)| a & b));
            numbers.push(classes.of(&both, room).ok()?);
        }
    }
    Some((numbers, classes))
}
