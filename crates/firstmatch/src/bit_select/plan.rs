//! Which trees: those of a shape, or those that promise the fastest lookups.

use std::rc::Rc;

use super::bits::Cubes;
use super::cost::{self, Sample, Tree};
use super::tree::{Draft, FEW, Root};
use super::{Roots, Shape};
use crate::rule::Regions;

/// What every tree of a plan may be: few levels, since a batch waits for its slowest key in each, and wide roots.
const SHAPE: Shape = Shape { trees: 8, levels: 2, fan_out: 16, open: 0, growth: 8.0 };
/// A tree that takes all that is left.
const LAST: Shape = Shape { growth: 4.0, ..SHAPE };
/// How many plans are gone on with.
const BEAM: usize = 2;
/// For up to so many regions trees may pay that hold far more copies, and are soon built.
const SMALL: usize = 2048;
/// How much more lookups may cost before other roots are looked for.
const WORSE: f64 = 1.1;
/// What the regions that have no tree yet will cost if they are all there are, in instructions, beside the next root.
const LATER: f64 = 120.0;

/// Trees, and what their lookups cost as far as that was counted.
pub(super) struct Planned {
    pub(super) drafts: Vec<Draft>,
    pub(super) cost: f64,
}

/// Trees of a shape.
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

/// Looks for the trees that promise the fastest lookups.
pub(super) struct Search<'a> {
    regions: &'a Regions,
    cubes: &'a Cubes<'a>,
    sample: Sample,
    /// How many bits of a root regions may leave open, and the shape of such a tree.
    open: [u32; 3],
    shape: Shape,
    /// A tree that takes all that is left.
    last: Shape,
    /// It is tried where the most open of the others leaves at most these shares of a list and of all.
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
    /// For trees of `room` bytes at the most, of blocks of so many lines.
    pub(super) fn new(regions: &'a Regions, cubes: &'a Cubes<'a>, lines: usize, room: usize) -> Self {
        let sample = Sample::new(regions, cubes.visits, lines, room);
        if regions.len() > SMALL {
            return Self { regions, cubes, sample, open: [2, 3, 4], shape: SHAPE, last: LAST, left: [0.5, 0.25] };
        }
        let [shape, last] = [SHAPE, LAST].map(|shape| Shape { growth: shape.growth.max(sample.copies), ..shape });
        Self { regions, cubes, sample, open: [3, 4, 5], shape, last, left: [1.0; 2] }
    }

    /// The trees that have the roots of others, if their lookups cost hardly more than those did when they were chosen.
    pub(super) fn like(&self, of: &Roots) -> Option<Planned> {
        let mut plan = self.nothing();
        for tree in &of.trees {
            let root = Root::like(self.cubes, tree, &plan.left);
            plan = self.with(&plan, &root, if tree.open.is_some() { &self.shape } else { &self.last })?;
        }
        (plan.left.is_empty() && plan.cost <= of.planned * WORSE).then(|| plan.end(of.planned))
    }

    /// The trees that promise the fastest lookups: tree by tree, going on with the plans that cost least so far. None
    /// where that takes too many visits.
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

    /// The plans with one tree more.
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

    /// The plan with one more tree, if there is room for it.
    fn with(&self, plan: &Plan, root: &Root, shape: &Shape) -> Option<Plan> {
        let Self { regions, cubes, sample, .. } = self;
        if cubes.visits.are_too_many() {
            return None;
        }
        let mut trees = plan.trees.clone();
        trees.push(Rc::new(sample.tree(Draft::new(cubes, shape, root), cubes.level)));
        if cost::bytes(&trees) > sample.most_bytes {
            return None;
        }
        let later = if root.rest.is_empty() { 0.0 } else { cost::ROOT };
        let later = later + LATER * root.rest.len() as f64 / regions.len() as f64;
        Some(Plan { cost: sample.cost(&trees, regions, cubes) + later, trees, left: root.rest.clone() })
    }
}

impl Plan {
    /// Its trees, which no other plan has any more.
    fn end(self, cost: f64) -> Planned {
        let drafts = self.trees.into_iter().filter_map(Rc::into_inner).map(|tree| tree.draft).collect();
        Planned { drafts, cost }
    }
}
