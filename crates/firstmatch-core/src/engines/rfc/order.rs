//! Order of the classes of a compact table that gives the fewest runs.

use super::lists::Part;
use super::runs::Runs;
use crate::error::{BuildError, Cap};

/// In tables of more entries, the runs of only some rows are counted.
const COUNTED: usize = 1 << 22;
/// Number of columns that are read together.
const TILE: usize = 16;

/// Order of the classes of a table of two slots.
///
/// The classes of the *minor* slot, the second slot of a table, change fastest along a run.
pub(super) struct Order {
    /// Whether the first slot becomes the minor one.
    pub(super) swaps: bool,
    /// Class of the minor slot at each place, if they are sorted by their lists.
    pub(super) sorted: Option<Vec<u32>>,
}

impl Order {
    /// Returns the order of the fewest runs.
    ///
    /// It counts runs with each slot as the minor one, with its classes as found and sorted by their lists of rules.
    /// For example, the rows 1 2 1 and 3 3 3 have four runs, and three if the last two classes are swapped. The columns
    /// 1 3, 2 3 and 1 3 have six. In large tables, it only counts the runs of some rows at equal distances.
    pub(super) fn of_fewest_runs(runs: &Runs, [a, b]: [&Part; 2]) -> Self {
        let (rows, length) = (a.len(), b.len());
        let [by_a, by_b] = [a, b].map(by_list);
        let step = (runs.count() / COUNTED).max(1);
        let mut counts = [length / step, length / step, 0, 0];
        let mut pair = [vec![0; length], vec![0; length]];
        let mut differing = |first: usize, second: usize| {
            [first, second].into_iter().zip(&mut pair).for_each(|(row, to)| runs.read(row * length, to));
            pair[0].iter().zip(&pair[1]).filter(|(first, second)| first != second).count()
        };
        for row in (0..rows.saturating_sub(1)).step_by(step) {
            counts[0] += differing(row, row + 1);
            counts[1] += differing(by_a[row] as usize, by_a[row + 1] as usize);
        }
        let row = &mut pair[0];
        for at in (0..rows).step_by(step) {
            runs.read(at * length, row);
            counts[2] += row.windows(2).filter(|two| two[0] != two[1]).count() + 1;
            counts[3] += by_b.windows(2).filter(|two| row[two[0] as usize] != row[two[1] as usize]).count() + 1;
        }
        // If counts are equal, the order as found is taken.
        let best = [2, 3, 0, 1].into_iter().min_by_key(|&at| counts[at]).unwrap_or(2);
        let sorted = [None, Some(by_a), None, Some(by_b)].into_iter().nth(best).flatten();
        Self { swaps: best < 2, sorted }
    }

    /// Returns the new number of each class of the minor slot.
    pub(super) fn numbers(sorted: &[u32]) -> Vec<u32> {
        let mut numbers = vec![0; sorted.len()];
        sorted.iter().zip(0..).for_each(|(&class, place)| numbers[class as usize] = place);
        numbers
    }

    /// Returns the runs in this order, with rows filled up to `padded` entries.
    ///
    /// `rows` is the number of rows of `runs`. The new runs and the old ones together take at most `allowed` bytes.
    ///
    /// # Errors
    /// If they would take more.
    pub(super) fn rewritten(
        &self,
        runs: &Runs,
        rows: usize,
        padded: usize,
        allowed: usize,
    ) -> Result<Runs, BuildError> {
        let length = runs.count() / rows.max(1);
        let minor = if self.swaps { rows } else { length };
        let old = |place: usize| self.sorted.as_ref().map_or(place, |sorted| sorted[place] as usize);
        let width = if self.swaps { TILE } else { length };
        let entries = if self.swaps { TILE * rows } else { length };
        let beside = runs.bytes() + (entries + padded) * size_of::<u32>();
        if beside > allowed {
            return Err(BuildError::limit(Cap::BuildBytes, beside, allowed));
        }
        let mut tile = vec![0; entries];
        let (mut new, mut row) = (Runs::default(), Vec::with_capacity(padded));
        let mut write = |row: &mut Vec<u32>| {
            // Illegal entries get the value of the entry before, so that they begin no run.
            row.resize(padded, row.last().copied().unwrap_or(0));
            new.row(row, allowed - beside)?;
            row.clear();
            Ok::<_, BuildError>(())
        };
        if !self.swaps {
            for at in 0..rows {
                runs.read(at * length, &mut tile);
                row.extend((0..minor).map(|place| tile[old(place)]));
                write(&mut row)?;
            }
            return Ok(new);
        }
        for first in (0..length).step_by(width) {
            let columns = width.min(length - first);
            for (at, tile) in tile.chunks_mut(TILE).enumerate() {
                runs.read(at * length + first, &mut tile[..columns]);
            }
            for column in 0..columns {
                row.extend((0..minor).map(|place| tile[old(place) * TILE + column]));
                write(&mut row)?;
            }
        }
        Ok(new)
    }
}

/// Returns the classes of a part, sorted by their lists.
fn by_list(part: &Part) -> Vec<u32> {
    let mut classes: Vec<u32> = (0..part.len() as u32).collect();
    classes.sort_unstable_by_key(|&class| part.list(class as usize));
    classes
}
