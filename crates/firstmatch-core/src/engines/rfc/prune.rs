//! Pruning: products that can never be the first match are dropped from lists.

use super::lists::Bits;
use crate::engine::budget::Visits;
use crate::engines::shared::{Interval, Masks, Products};

/// Up to this number of products, each product of a list is compared with all kept ones.
const FEW: usize = 1000;
/// Maximum number of kept products that a product is compared with, if there are more than `FEW` products.
const MOST_KEPT: usize = 64;
/// Maximum number of open products that a product is compared with, if there are more than `FEW` products.
const MOST_OPEN: usize = 256;
/// Sets of the products in each column, to find products that cover others.
pub(super) struct Cover {
    columns: Vec<Sets>,
    /// Number of leaves of each column.
    leaves: Vec<usize>,
    is_large: bool,
}

/// Sets of all products in one column: intervals and masks.
struct Sets {
    /// Number of intervals before the first of each product, then the number of all intervals.
    firsts: Vec<u32>,
    intervals: Vec<Interval>,
    /// Value and mask of each product; empty if no product has one.
    masks: Vec<(u32, u32)>,
}

impl Sets {
    fn intervals(&self, product: u32) -> &[Interval] {
        let [first, end] = [0, 1].map(|more| self.firsts[product as usize + more] as usize);
        &self.intervals[first..end]
    }

    /// Whether a product has every value of another one.
    ///
    /// It misses an interval that only several intervals together cover.
    fn covers(&self, product: u32, other: u32) -> bool {
        let own = self.intervals(product);
        let is_inside = |&(lo, hi): &Interval| own.iter().any(|&(first, last)| first <= lo && hi <= last);
        self.intervals(other).iter().all(is_inside)
            && (self.masks.is_empty() || {
                let [(value, mask), (of_other, other)] = [product, other].map(|at| self.masks[at as usize]);
                mask & !other == 0 && (value ^ of_other) & mask == 0
            })
    }

    fn of(&self, products: impl Iterator<Item = u32>) -> Self {
        let mut kept = Self { firsts: vec![0], intervals: Vec::new(), masks: Vec::new() };
        for product in products {
            kept.intervals.extend_from_slice(self.intervals(product));
            kept.firsts.push(kept.intervals.len() as u32);
            kept.masks.extend(self.masks.get(product as usize));
        }
        kept
    }
}

impl Cover {
    /// Returns the sets of all products, in columns of one leaf each.
    pub(super) fn new(products: &Products) -> Self {
        let of_column = |(at, all): (usize, &Vec<(usize, Interval)>)| {
            let mut firsts = vec![0u32; products.len() + 1];
            all.iter().for_each(|&(product, _)| firsts[product + 1] += 1);
            (0..products.len()).for_each(|product| firsts[product + 1] += firsts[product]);
            let has_masks = products.masks.iter().any(|masks| masks.get(at).is_some());
            let of_product = |masks: &Masks| masks.get(at).copied().unwrap_or_default();
            let masks = products.masks.iter().filter(|_| has_masks).map(of_product).collect();
            Sets { firsts, intervals: all.iter().map(|&(_, interval)| interval).collect(), masks }
        };
        let columns: Vec<Sets> = products.intervals.iter().enumerate().map(of_column).collect();
        let leaves = vec![1; columns.len()];
        Self { columns, leaves, is_large: products.len() > FEW }
    }

    /// Sets the number of leaves of each column.
    pub(super) fn set_leaves(&mut self, leaves: Vec<usize>) {
        self.leaves = leaves;
    }

    /// Returns the sets of the products `kept`, which are numbered anew.
    pub(super) fn sampled(&self, kept: &[u32]) -> Self {
        let columns = self.columns.iter().map(|sets| sets.of(kept.iter().copied())).collect();
        Self { columns, leaves: self.leaves.clone(), is_large: kept.len() > FEW }
    }

    /// Number of bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        let of_column = |sets: &Sets| {
            size_of_val(&sets.firsts[..]) + size_of_val(&sets.intervals[..]) + size_of_val(&sets.masks[..])
        };
        self.columns.iter().map(of_column).sum()
    }

    /// Returns the pruner of the lists over some leaves, whose columns are `over`.
    pub(super) fn pruner(&self, over: &[usize], open: &Bits) -> Pruner<'_> {
        let is_done = |column: usize| over.iter().filter(|&&of| of == column).count() == self.leaves[column];
        let outside = (0..self.columns.len()).filter(|&column| !is_done(column)).collect();
        let mut pruner = Pruner { cover: self, outside, open: Vec::new() };
        for product in open.iter() {
            if self.is_large && pruner.open.len() == MOST_OPEN {
                break;
            }
            if !pruner.open.iter().any(|&kept| pruner.covers(kept, product)) {
                pruner.open.push(product);
            }
        }
        pruner
    }
}

/// Pruning of the lists over some leaves.
///
/// A product is dropped if an earlier one of the same list, or one that is open in these leaves, has all its values in
/// the columns that are still to come. A key in the dropped product is then in the earlier one, too. For example, over
/// source addresses, `src 10.1.0.0/16 dport 80` is dropped from lists with an earlier `src 10.0.0.0/8 dport 0 to 1023`.
pub(super) struct Pruner<'a> {
    cover: &'a Cover,
    /// Columns of which some leaf is still to come.
    outside: Vec<usize>,
    /// Open products that no earlier open product covers.
    open: Vec<u32>,
}

impl Pruner<'_> {
    fn covers(&self, product: u32, other: u32) -> bool {
        self.outside.iter().all(|&column| self.cover.columns[column].covers(product, other))
    }

    /// Drops products that open products cover and, with `by_kept`, products that earlier ones of the list cover.
    pub(super) fn prune(&self, list: &mut Vec<u32>, by_kept: bool, visits: &Visits) {
        let (mut kept, mut compared) = (0, 0);
        for at in 0..list.len() {
            let product = list[at];
            let open = &self.open[..self.open.partition_point(|&open| open < product)];
            let first = if self.cover.is_large { kept.max(MOST_KEPT) - MOST_KEPT } else { 0 };
            let others = &list[if by_kept { first } else { kept }..kept];
            compared += open.len() + others.len();
            if !open.iter().chain(others.iter().rev()).any(|&other| self.covers(other, product)) {
                list[kept] = product;
                kept += 1;
            }
        }
        list.truncate(kept);
        visits.add(compared);
    }
}
