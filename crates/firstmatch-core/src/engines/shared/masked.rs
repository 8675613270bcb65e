//! Classes of values under masks.

use super::classes::{Classes, Room};
use super::products::Masks;
use crate::engine::budget::Visits;
use crate::error::BuildError;

/// Function that writes the products that two rows have in common.
pub(crate) type Intersect = fn(&[u32], &[u32], &mut Vec<u32>);

/// Writes the bits that two bit vectors have in common.
pub(crate) fn common_bits(a: &[u32], b: &[u32], both: &mut Vec<u32>) {
    both.clear();
    both.extend(a.iter().zip(b).map(|(a, b)| a & b));
}

/// Returns the mask of all bits that can be set in values up to `most`.
pub(crate) fn mask_for(most: u32) -> u32 {
    u32::MAX.checked_shr(most.leading_zeros()).unwrap_or(0)
}

/// Cuts a mask into masks of eight bits and one of the rest, from the lowest.
pub(crate) fn eights(mut mask: u32) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let rest = (0..8).fold(mask, |rest: u32, _| rest & rest.wrapping_sub(1));
        let eight = mask ^ rest;
        mask = rest;
        (eight != 0).then_some(eight)
    })
}

/// Returns the class of each combination of the bits `bits` of a word.
///
/// `class_of` gets the products whose masks the combination satisfies, ascending. For example, the bits 0b101 have the
/// combinations 0, 1, 4 and 5.
///
/// # Errors
/// If `class_of` fails.
pub(crate) fn combinations(
    masks: &[Masks],
    word: usize,
    bits: u32,
    visits: &Visits,
    mut class_of: impl FnMut(&mut dyn Iterator<Item = usize>) -> Result<u32, BuildError>,
) -> Result<Vec<u32>, BuildError> {
    let asked: Vec<_> = masks.iter().map(|masks| masks.get(word).copied().unwrap_or_default()).collect();
    let mut combination = 0u32;
    let numbers = (0..1 << bits.count_ones()).map(|_| {
        visits.add(asked.len());
        let hold = asked.iter().enumerate().filter(|(_, (value, mask))| (combination ^ value) & mask & bits == 0);
        let class = class_of(&mut hold.map(|(product, _)| product));
        combination = combination.wrapping_sub(bits) & bits;
        class
    });
    numbers.collect()
}

/// Returns the class of each value, from its class in both arguments, and the classes.
///
/// # Errors
/// If the rows have no room.
pub(crate) fn common(
    (numbers, classes): (Vec<u32>, Classes),
    (others, of_others): (Vec<u32>, Classes),
    intersect: Intersect,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Classes), BuildError> {
    let (mut all, mut both) = (Classes::default(), Vec::new());
    let numbers = numbers.iter().zip(others).map(|(&a, b)| {
        intersect(classes.row(a as usize), of_others.row(b as usize), &mut both);
        all.of(&both, room)
    });
    let numbers = numbers.collect::<Result<_, _>>()?;
    Ok((numbers, all))
}
