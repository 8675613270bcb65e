//! Classes of pairs of classes.

use super::classes::{Classes, Room};
use super::masked::Intersect;
use crate::error::BuildError;

/// Returns the class of every pair of classes, grouped by the class of `first`, and the classes.
///
/// # Errors
/// If the rows have no room.
pub(crate) fn pairs(
    first: &Classes,
    second: &Classes,
    intersect: Intersect,
    room: &Room<'_>,
) -> Result<(Vec<u32>, Classes), BuildError> {
    let (mut numbers, mut classes) = (Vec::with_capacity(first.len() * second.len()), Classes::default());
    let mut both = Vec::new();
    for a in 0..first.len() {
        for b in 0..second.len() {
            intersect(first.row(a), second.row(b), &mut both);
            numbers.push(classes.of(&both, room)?);
        }
    }
    Ok((numbers, classes))
}
