//! Classes of pairs of classes, and the first match of each pair.

use super::lists::{Bits, Part, intern};
use crate::engine::budget::Visits;
use crate::engines::shared::{Classes, Room};
use crate::error::BuildError;

/// Rank of no product.
pub(super) const NONE: u32 = u32::MAX;

/// Number of entries that are written in the time of a visit.
const ENTRIES: usize = 16;

/// Function that takes a row of a table.
pub(super) type Row<'a> = &'a mut dyn FnMut(&[u32]) -> Result<(), BuildError>;

/// Classes of a part that have each product in their lists.
struct Inverse {
    /// Number of members before each product's own, and the number of all.
    firsts: Vec<u32>,
    members: Vec<u32>,
}

impl Inverse {
    fn of(part: &Part, products: usize) -> Self {
        let mut firsts = vec![0u32; products + 1];
        part.classes.rows().iter().for_each(|&product| firsts[product as usize + 1] += 1);
        (0..products).for_each(|product| firsts[product + 1] += firsts[product]);
        let mut next = firsts.clone();
        let mut members = vec![0; part.classes.rows().len()];
        for class in 0..part.len() {
            for &product in part.list(class) {
                let place = &mut next[product as usize];
                members[*place as usize] = class as u32;
                *place += 1;
            }
        }
        Self { firsts, members }
    }

    #[inline(always)]
    fn members(&self, product: u32) -> &[u32] {
        let [first, end] = [0, 1].map(|more| self.firsts[product as usize + more] as usize);
        &self.members[first..end]
    }
}

/// Groups of classes that are split by one product after another.
struct Groups {
    /// Split that each group was last part of.
    stamps: Vec<usize>,
    /// Group of the members that leave a group with this split.
    next: Vec<u32>,
    splits: usize,
}

impl Groups {
    fn new(count: usize) -> Self {
        Self { stamps: vec![0; count], next: vec![0; count], splits: 0 }
    }

    fn len(&self) -> usize {
        self.next.len()
    }

    /// Moves the members of each group to a new group.
    fn split(&mut self, groups: &mut [u32], members: &[u32]) {
        self.splits += 1;
        for &member in members {
            let group = groups[member as usize] as usize;
            if self.stamps[group] != self.splits {
                self.stamps[group] = self.splits;
                self.next[group] = self.len() as u32;
                self.stamps.push(0);
                self.next.push(0);
            }
            groups[member as usize] = self.next[group];
        }
    }

    fn truncate(&mut self, count: usize) {
        self.stamps.truncate(count);
        self.next.truncate(count);
    }
}

/// Numbers the groups that have members, in the order of their first members; returns how many there are.
fn renumber(groups: &mut [u32], count: usize) -> usize {
    let (mut numbers, mut used) = (vec![NONE; count], 0);
    for group in groups {
        let number = &mut numbers[*group as usize];
        if *number == NONE {
            *number = used;
            used += 1;
        }
        *group = *number;
    }
    used as usize
}

/// Returns the classes of all pairs, or `None` once there are more than `most`.
///
/// `row` gets the classes of the pairs of each class of `a` with all classes of `b`. Classes of `b` that the products
/// of a row do not tell apart are a group, which needs one list.
///
/// For example, let class 0 of `a` have the products 1 and 4, and classes 0 to 2 of `b` the lists 1, 1 4 and 7. Product
/// 1 splits classes 0 and 1 from class 2, and product 4 class 1 from class 0. Their lists are 1, 1 4 and none.
///
/// # Errors
/// If the lists have no room, there were too many visits, or `row` fails.
pub(super) fn join(
    a: &Part,
    b: &Part,
    products: usize,
    most: usize,
    room: &Room<'_>,
    row: Row<'_>,
) -> Result<Option<Part>, BuildError> {
    let inverse = Inverse::of(b, products);
    // Products that are open in `a` split every row alike.
    let mut start = vec![0; b.len()];
    let mut groups = Groups::new(1);
    for product in a.open.iter() {
        groups.split(&mut start, inverse.members(product));
        room.visits.add(inverse.members(product).len());
    }
    let count = renumber(&mut start, groups.len());
    let mut groups = Groups::new(count);
    let (mut classes, mut list, mut found, mut of_groups) = (Classes::default(), Vec::new(), start.clone(), Vec::new());
    for class in 0..a.len() {
        found.copy_from_slice(&start);
        groups.truncate(count);
        let mut visits = b.len().div_ceil(ENTRIES);
        for &product in a.list(class) {
            if !b.open.has(product) {
                let members = inverse.members(product);
                groups.split(&mut found, members);
                visits += members.len();
            }
        }
        room.visits.add(visits);
        room.visits.check()?;
        of_groups.clear();
        of_groups.resize(groups.len(), NONE);
        for (of_b, found) in found.iter_mut().enumerate() {
            let number = &mut of_groups[*found as usize];
            if *number == NONE {
                a.common(class, b, of_b, &mut list);
                *number = intern(&mut classes, &list, room)?;
            }
            *found = *number;
        }
        if classes.len() > most {
            return Ok(None);
        }
        row(&found)?;
    }
    Ok(Some(Part { classes, open: a.open.both(&b.open) }))
}

/// Finds the first product that holds each pair of classes, or [`NONE`], and gives them to `row` row by row.
///
/// # Errors
/// If there were too many visits, or `row` fails.
pub(super) fn first(a: &Part, b: &Part, products: usize, visits: &Visits, row: Row<'_>) -> Result<(), BuildError> {
    let inverse = Inverse::of(b, products);
    let in_list = |list: &[u32], open: &Bits| list.iter().copied().find(|&product| open.has(product)).unwrap_or(NONE);
    let of_both = a.open.both(&b.open).iter().next().unwrap_or(NONE);
    let start: Vec<u32> = (0..b.len()).map(|class| in_list(b.list(class), &a.open).min(of_both)).collect();
    let most = start.iter().copied().max().unwrap_or(NONE);
    let mut found = start.clone();
    for class in 0..a.len() {
        let own = in_list(a.list(class), &b.open);
        found.iter_mut().zip(&start).for_each(|(found, &start)| *found = start.min(own));
        let mut made = b.len().div_ceil(ENTRIES);
        for &product in a.list(class) {
            if product >= most.min(own) {
                break;
            }
            let members = inverse.members(product);
            made += members.len();
            members.iter().map(|&member| member as usize).for_each(|at| found[at] = found[at].min(product));
        }
        visits.add(made);
        visits.check()?;
        row(&found)?;
    }
    Ok(())
}
