//! Choice of trees: trees of a forced shape, or trees with the fastest estimated lookups.

use std::rc::Rc;

use super::bits::Cubes;
use super::config::Shape;
use super::cost::{self, Sample, Tree};
use super::structure::Roots;
use super::tree::{Draft, FEW, Root};
use crate::rule::Regions;

/// Shape of the trees that are tried: wide roots and few levels.
///
/// The levels are few because a batch waits for its slowest key in each.
const SHAPE: Shape = Shape { trees: 8, levels: 2, fan_out: 16, open: 0, growth: 8.0 };
/// Shape of a last tree, which takes all regions that are left.
const LAST: Shape = Shape { growth: 4.0, ..SHAPE };
/// Number of plans that each step of the search keeps.
const BEAM: usize = 2;
/// Largest number of regions for which trees with far more copies are tried.
///
/// Such trees may pay, and do not take long to build.
const SMALL: usize = 2048;
/// Factor by which lookups may cost more before other roots are searched for.
const WORSE: f64 = 1.1;
/// Estimated instructions for the regions without a tree, if no region has a tree.
///
/// The next root is counted separately.
const LATER: f64 = 120.0;

/// Trees with the estimated cost of their lookups.
pub(super) struct Planned {
    pub(super) drafts: Vec<Draft>,
    pub(super) cost: f64,
}

/// Plans trees of a given shape.
pub(super) fn forced(regions: &Regions, cubes: &Cubes<'_>, shape: &Shape) -> Planned {
    let mut left = all(regions);
    let mut drafts = Vec::new();
    while !left.is_empty() {
        let is_last = drafts.len() + 1 >= shape.trees || left.len() <= FEW;
        let root = Root::new(cubes, shape, &left, (!is_last).then_some(shape.open));
        drafts.push(Draft::new(cubes, shape, &root));
        left = root.rest;
    }
    Planned { drafts, cost: f64::INFINITY }
}

fn all(regions: &Regions) -> Vec<u32> {
    (0..regions.len() as u32).collect()
}

/// Search for the trees with the fastest estimated lookups.
pub(super) struct Search<'a> {
    regions: &'a Regions,
    cubes: &'a Cubes<'a>,
    sample: Sample,
    /// Numbers of open bits that are tried for a root, and the shape of such a tree.
    open: [u32; 3],
    shape: Shape,
    /// Shape of a tree that takes all regions that are left.
    last: Shape,
    /// Shares of the list and of all regions that bound when a last tree is tried.
    ///
    /// It is tried if the root with the most open bits leaves at most both shares for later trees. For example, if
    /// 40,000 of 100,000 regions have no tree yet, the shares 0.5 and 0.25 allow that root to leave 20,000.
    left: [f64; 2],
}

/// Some trees, and the regions that they do not hold.
#[derive(Default)]
struct Plan {
    trees: Vec<Rc<Tree>>,
    left: Vec<u32>,
    cost: f64,
}

impl<'a> Search<'a> {
    /// Prepares a search for trees of at most `room` bytes, with blocks of `lines` cache lines.
    pub(super) fn new(regions: &'a Regions, cubes: &'a Cubes<'a>, lines: usize, room: usize) -> Self {
        let sample = Sample::new(regions, cubes.visits, lines, room);
        if regions.len() > SMALL {
            return Self { regions, cubes, sample, open: [2, 3, 4], shape: SHAPE, last: LAST, left: [0.5, 0.25] };
        }
        let [shape, last] = [SHAPE, LAST].map(|shape| Shape { growth: shape.growth.max(sample.copies), ..shape });
        Self { regions, cubes, sample, open: [3, 4, 5], shape, last, left: [1.0; 2] }
    }

    /// Plans trees with the roots `of`; `None` if lookups would cost notably more than when these were chosen.
    ///
    /// It also returns `None` if room or visits do not suffice.
    pub(super) fn like(&self, of: &Roots) -> Option<Planned> {
        let mut plan = self.nothing();
        for tree in &of.trees {
            let root = Root::like(self.cubes, tree, &plan.left);
            plan = self.with(&plan, &root, if tree.open.is_some() { &self.shape } else { &self.last })?;
        }
        (plan.left.is_empty() && plan.cost <= of.planned * WORSE).then(|| plan.end(of.planned))
    }

    /// Returns the trees with the fastest estimated lookups, by a beam search tree by tree.
    ///
    /// If that takes too many visits there are no trees.
    pub(super) fn chosen(&self) -> Planned {
        let mut best: Option<Plan> = None;
        let mut plans = vec![self.nothing()];
        while plans.iter().any(|plan| !plan.left.is_empty()) {
            let next = plans.iter().flat_map(|plan| self.next(plan));
            let (whole, mut partial): (Vec<_>, Vec<_>) = next.partition(|plan| plan.left.is_empty());
            best = best.into_iter().chain(whole).min_by(|a, b| a.cost.total_cmp(&b.cost));
            partial.retain(|plan| best.as_ref().is_none_or(|best| plan.cost < best.cost));
            partial.sort_by(|a, b| a.cost.total_cmp(&b.cost));
            partial.truncate(BEAM);
            plans = partial;
        }
        if self.cubes.visits.are_too_many() {
            return Planned { drafts: Vec::new(), cost: f64::INFINITY };
        }
        let planned = best.map(|best| (best.cost, best)).map(|(cost, best)| best.end(cost));
        planned.unwrap_or_else(|| forced(self.regions, self.cubes, &Shape::default()))
    }

    fn nothing(&self) -> Plan {
        Plan { left: all(self.regions), ..Plan::default() }
    }

    /// Returns the plans that extend `plan` by one tree.
    fn next(&self, plan: &Plan) -> Vec<Plan> {
        let (cubes, list) = (self.cubes, &plan.left);
        let mut roots: Vec<(Root, &Shape)> = Vec::new();
        if list.len() > FEW && plan.trees.len() + 1 < self.shape.trees {
            roots.extend(self.open.map(|open| (Root::new(cubes, &self.shape, list, Some(open)), &self.shape)));
            roots.dedup_by(|a, b| a.0 == b.0);
        }
        let [of_list, of_all] = self.left;
        let most = (of_list * list.len() as f64).min(of_all * self.regions.len() as f64);
        if roots.last().is_none_or(|(widest, _)| widest.rest.len() as f64 <= most) {
            roots.push((Root::new(cubes, &self.last, list, None), &self.last));
        }
        roots.iter().filter_map(|(root, shape)| self.with(plan, root, shape)).collect()
    }

    /// Returns the plan with one more tree, if room and visits permit it.
    fn with(&self, plan: &Plan, root: &Root, shape: &Shape) -> Option<Plan> {
        let Self { regions, cubes, sample, .. } = self;
        if cubes.visits.are_too_many() {
            return None;
        }
        let mut trees = plan.trees.clone();
        trees.push(Rc::new(sample.tree(Draft::new(cubes, shape, root), cubes.level)));
        let bytes = cost::bytes(&trees);
        if bytes > sample.most_bytes {
            // A bit for absent at most doubles a tree.
            if bytes > 2.0 * sample.most_bytes {
                return None;
            }
            return self.with(plan, &root.without_absent(cubes, &plan.left)?, shape);
        }
        let later = if root.rest.is_empty() { 0.0 } else { cost::ROOT };
        let later = later + LATER * root.rest.len() as f64 / regions.len() as f64;
        Some(Plan { cost: sample.cost(&trees, regions, cubes) + later, trees, left: root.rest.clone() })
    }
}

impl Plan {
    /// Returns the drafts of the trees. No other plan may still share them.
    fn end(self, cost: f64) -> Planned {
        let drafts = self.trees.into_iter().filter_map(Rc::into_inner).map(|tree| tree.draft).collect();
        Planned { drafts, cost }
    }
}
