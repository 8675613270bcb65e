//! Classes as sorted lists of products.

use crate::engines::shared::{Classes, Room};
use crate::error::{BuildError, Cap};

/// Set of products, one bit each.
#[derive(Clone)]
pub(super) struct Bits(Vec<u32>);

impl Bits {
    /// Builds the set of the products below `count` that `is_in` accepts.
    pub(super) fn of(count: usize, mut is_in: impl FnMut(usize) -> bool) -> Self {
        let mut words = vec![0; count.div_ceil(32)];
        (0..count).filter(|&at| is_in(at)).for_each(|at| words[at / 32] |= 1 << (at % 32));
        Self(words)
    }

    #[inline(always)]
    pub(super) fn has(&self, product: u32) -> bool {
        self.0[product as usize / 32] >> (product % 32) & 1 != 0
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Returns the products that are in both sets.
    pub(super) fn both(&self, other: &Self) -> Self {
        Self(self.0.iter().zip(&other.0).map(|(a, b)| a & b).collect())
    }

    /// Returns the products, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        let of_word = |(at, &word): (usize, &u32)| {
            (0..32).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at as u32 * 32 + bit)
        };
        self.0.iter().enumerate().flat_map(of_word)
    }
}

/// Classes of the values of some words.
///
/// # Invariants
/// - The row of a class is the ascending list of the products that hold its values and are not open. With pruning, it
///   lacks products that can never be the first match.
/// - An open product leaves all values of these words open, so that it is in no list (`join` and `leaves` build it so).
pub(super) struct Part {
    pub(super) classes: Classes,
    pub(super) open: Bits,
    /// Column of each leaf whose values these classes cover.
    pub(super) over: Vec<usize>,
}

impl Part {
    /// Number of classes.
    pub(super) fn len(&self) -> usize {
        self.classes.len()
    }

    /// Returns the list of a class.
    pub(super) fn list(&self, class: usize) -> &[u32] {
        self.classes.row(class)
    }

    /// Number of bytes of the lists.
    pub(super) fn bytes(&self) -> usize {
        self.classes.bytes() + size_of_val(&self.open.0[..])
    }

    /// Writes the products that hold values of both classes and are not open in both parts.
    pub(super) fn common(&self, class: usize, other: &Self, of_other: usize, both: &mut Vec<u32>) {
        both.clear();
        let (mut a, mut b) = (self.list(class), other.list(of_other));
        loop {
            match (a, b) {
                ([x, rest @ ..], [y, others @ ..]) if x == y => {
                    both.push(*x);
                    (a, b) = (rest, others);
                }
                ([x, rest @ ..], _) if b.first().is_none_or(|y| x < y) => {
                    if other.open.has(*x) {
                        both.push(*x);
                    }
                    a = rest;
                }
                (_, [y, others @ ..]) => {
                    if self.open.has(*y) {
                        both.push(*y);
                    }
                    b = others;
                }
                _ => return,
            }
        }
    }

    /// Returns the classes that remain if only the products `kept` are looked at.
    ///
    /// # Errors
    /// If the lists have no room.
    pub(super) fn sampled(&self, kept: &[u32], room: &Room<'_>) -> Result<Self, BuildError> {
        let (mut classes, mut row) = (Classes::default(), Vec::new());
        for class in 0..self.len() {
            row.clear();
            let places = self.list(class).iter().filter_map(|product| kept.binary_search(product).ok());
            row.extend(places.map(|place| place as u32));
            intern(&mut classes, &row, room)?;
        }
        let open = Bits::of(kept.len(), |at| self.open.has(kept[at]));
        Ok(Self { classes, open, over: self.over.clone() })
    }
}

/// Returns the class of a list.
///
/// # Errors
/// If the lists exceed their bytes, or there were too many visits.
pub(super) fn intern(classes: &mut Classes, list: &[u32], room: &Room<'_>) -> Result<u32, BuildError> {
    classes.of(list, room).map_err(|error| match error.bytes_needed() {
        Some((needed, allowed)) => BuildError::limit(Cap::BuildBytes, needed, allowed),
        None => error,
    })
}
