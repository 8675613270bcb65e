//! Classes of pairs of classes, and the first match of each pair.

use super::lists::{Bits, Part, intern};
use super::prune::{Cover, Pruner};
use crate::engine::budget::{Visits, with_room};
use crate::engines::shared::{Classes, Room};
use crate::error::BuildError;

/// Rank of no product.
pub(super) const NONE: u32 = u32::MAX;

/// Number of written entries that count as one visit.
const ENTRIES: usize = 16;

/// Function that takes a row of a table, and the number of bytes that its maker holds.
pub(super) type Row<'a> = &'a mut dyn FnMut(&[u32], usize) -> Result<(), BuildError>;

/// Products of a join, and its limits.
#[derive(Clone, Copy)]
pub(super) struct Joining<'a> {
    /// Number of products.
    pub(super) products: usize,
    /// Sets by which lists are pruned, if they are.
    pub(super) cover: Option<&'a Cover>,
    pub(super) room: &'a Room<'a>,
}

/// For each product, the classes of a part with this product in their lists.
struct Inverse {
    /// Number of members before the first of each product, then the number of all members.
    firsts: Vec<u32>,
    members: Vec<u32>,
}

impl Inverse {
    /// Returns the classes of each product; fails if there is no memory for them.
    fn of(part: &Part, products: usize) -> Result<Self, BuildError> {
        let mut firsts = vec![0u32; products + 1];
        part.classes.rows().iter().for_each(|&product| firsts[product as usize + 1] += 1);
        (0..products).for_each(|product| firsts[product + 1] += firsts[product]);
        let mut next = firsts.clone();
        let mut members = with_room(part.classes.rows().len())?;
        members.resize(part.classes.rows().len(), 0);
        for class in 0..part.len() {
            for &product in part.list(class) {
                let place = &mut next[product as usize];
                members[*place as usize] = class as u32;
                *place += 1;
            }
        }
        Ok(Self { firsts, members })
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.firsts[..]) + size_of_val(&self.members[..])
    }

    #[inline(always)]
    fn members(&self, product: u32) -> &[u32] {
        let [first, end] = [0, 1].map(|more| self.firsts[product as usize + more] as usize);
        &self.members[first..end]
    }
}

/// Groups of classes that are split by one product after another.
struct Groups {
    /// Last split of each group.
    stamps: Vec<usize>,
    /// For each group, the new group of the members that leave it in its last split.
    next: Vec<u32>,
    /// For each group, the group that it was split from, and the product by which it was split.
    made_of: Vec<(u32, u32)>,
    splits: usize,
}

impl Groups {
    fn new(count: usize) -> Self {
        Self { stamps: vec![0; count], next: vec![0; count], made_of: vec![(0, NONE); count], splits: 0 }
    }

    fn len(&self) -> usize {
        self.next.len()
    }

    /// Moves the members of each group that have a product to a new group.
    fn split(&mut self, groups: &mut [u32], product: u32, members: &[u32]) {
        self.splits += 1;
        for &member in members {
            let group = groups[member as usize] as usize;
            if self.stamps[group] != self.splits {
                self.stamps[group] = self.splits;
                self.next[group] = self.len() as u32;
                self.stamps.push(0);
                self.next.push(0);
                self.made_of.push((group as u32, product));
            }
            groups[member as usize] = self.next[group];
        }
    }

    fn bytes(&self) -> usize {
        self.stamps.capacity() * size_of::<usize>() + (self.next.capacity() + 2 * self.made_of.capacity()) * 4
    }

    fn truncate(&mut self, count: usize) {
        self.stamps.truncate(count);
        self.next.truncate(count);
        self.made_of.truncate(count);
    }

    /// Appends the products by which a group was split off, back to one of the first `count` groups; returns that one.
    fn products(&self, mut group: u32, count: usize, list: &mut Vec<u32>) -> usize {
        while group as usize >= count {
            let (from, product) = self.made_of[group as usize];
            list.push(product);
            group = from;
        }
        group as usize
    }
}

/// Numbers the groups that have members, in the order of their first members; returns their number.
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

/// Lists of pairs before and after pruning.
struct Lists<'a> {
    pruner: Option<Pruner<'a>>,
    /// Lists before pruning, and the class of each; empty without pruning.
    whole: Classes,
    pruned: Vec<u32>,
    classes: Classes,
}

impl Lists<'_> {
    /// Returns the class of a list.
    fn of(&mut self, list: &mut Vec<u32>, room: &Room<'_>) -> Result<u32, BuildError> {
        let Some(pruner) = &self.pruner else { return intern(&mut self.classes, list, room) };
        let whole = intern(&mut self.whole, list, room)? as usize;
        if whole == self.pruned.len() {
            pruner.prune(list, true, room.visits);
            let left = room.allowed.saturating_sub(self.whole.bytes());
            self.pruned.push(intern(&mut self.classes, list, &Room { allowed: left, ..*room })?);
        }
        Ok(self.pruned[whole])
    }

    fn bytes(&self) -> usize {
        self.whole.bytes() + self.pruned.capacity() * size_of::<u32>() + self.classes.bytes()
    }
}

/// Returns the classes of all pairs, or `None` once there are more than `most`.
///
/// `row` gets, for each class of `a`, the classes of its pairs with all classes of `b`. Classes of `b` that the
/// products of a row do not separate form a group, which needs only one list.
///
/// For example, let class 0 of `a` have the products 1 and 4, and classes 0 to 2 of `b` the lists 1, 1 4 and 7. Product
/// 1 splits classes 0 and 1 from class 2, and product 4 class 1 from class 0. Their lists are 1, 1 4 and none.
///
/// # Errors
/// If the lists have no room, there were too many visits, or `row` fails.
pub(super) fn join(
    a: &Part,
    b: &Part,
    most: usize,
    joining: Joining<'_>,
    row: Row<'_>,
) -> Result<Option<Part>, BuildError> {
    let Joining { products, cover, room } = joining;
    let inverse = Inverse::of(b, products)?;
    // Products that are open in `a` split every row alike.
    let mut start = vec![0; b.len()];
    let mut groups = Groups::new(1);
    for product in a.open.iter() {
        groups.split(&mut start, product, inverse.members(product));
        room.visits.add(inverse.members(product).len());
    }
    let count = renumber(&mut start, groups.len());
    let mut groups = Groups::new(count);
    // For each group, the products in the lists of `b` that are open in `a`; all lists of a group have the same.
    let mut of_start: Vec<Vec<u32>> = Vec::with_capacity(count);
    for (of_b, &group) in start.iter().enumerate() {
        if group as usize == of_start.len() {
            of_start.push(b.list(of_b).iter().copied().filter(|&product| a.open.has(product)).collect());
        }
    }
    let (over, open) = ([&a.over[..], &b.over[..]].concat(), a.open.both(&b.open));
    let pruner = cover.map(|cover| cover.pruner(&over, &open));
    let (whole, pruned, classes) = (Classes::default(), Vec::new(), Classes::default());
    let mut lists = Lists { pruner, whole, pruned, classes };
    let (mut list, mut found, mut of_groups) = (Vec::new(), start.clone(), Vec::new());
    let of_starts = of_start.iter().map(|list| size_of_val(list) + list.capacity() * size_of::<u32>()).sum::<usize>();
    let own = inverse.bytes() + 2 * size_of_val(&start[..]) + of_starts;
    let mut of_row = Vec::new();
    for class in 0..a.len() {
        found.copy_from_slice(&start);
        groups.truncate(count);
        let mut visits = b.len().div_ceil(ENTRIES);
        for &product in a.list(class) {
            if !b.open.has(product) {
                let members = inverse.members(product);
                groups.split(&mut found, product, members);
                visits += members.len();
            }
        }
        room.visits.add(visits);
        room.visits.check()?;
        of_groups.clear();
        of_groups.resize(groups.len(), NONE);
        let beside = own + groups.bytes() + size_of_val(&of_groups[..]);
        let left = Room { allowed: room.allowed.saturating_sub(beside), ..*room };
        of_row.clear();
        of_row.extend(a.list(class).iter().copied().filter(|&product| b.open.has(product)));
        for found in &mut found {
            let number = &mut of_groups[*found as usize];
            if *number == NONE {
                list.clear();
                list.extend_from_slice(&of_row);
                let first = groups.products(*found, count, &mut list);
                list.extend_from_slice(&of_start[first]);
                list.sort_unstable();
                *number = lists.of(&mut list, &left)?;
            }
            *found = *number;
        }
        if lists.classes.len() > most {
            return Ok(None);
        }
        row(&found, beside + lists.bytes())?;
    }
    Ok(Some(Part { classes: lists.classes, open, over }))
}

/// Finds the first product that holds each pair of classes, or [`NONE`], and passes these to `row`, row by row.
///
/// # Errors
/// If there were too many visits, or `row` fails.
pub(super) fn first(a: &Part, b: &Part, products: usize, visits: &Visits, row: Row<'_>) -> Result<(), BuildError> {
    let inverse = Inverse::of(b, products)?;
    let in_list = |list: &[u32], open: &Bits| list.iter().copied().find(|&product| open.has(product)).unwrap_or(NONE);
    let of_both = a.open.both(&b.open).iter().next().unwrap_or(NONE);
    let start: Vec<u32> = (0..b.len()).map(|class| in_list(b.list(class), &a.open).min(of_both)).collect();
    let most = start.iter().copied().max().unwrap_or(NONE);
    let mut found = start.clone();
    let held = inverse.bytes() + 2 * size_of_val(&start[..]);
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
        row(&found, held)?;
    }
    Ok(())
}
