//! Which trees: those of a shape, or those that promise the fastest lookups.

use std::rc::Rc;

use super::bits::Cubes;
use super::cost::{self, Sample, Tree};
use super::tree::{Draft, FEW, Root};
use super::{Roots, Shape};
use crate::rule::Regions;

/// What every tree of a plan may be: few levels, since a batch waits for its slowest key in each, and wide roots.
const SHAPE: Shape = Shape { trees: 8, levels: 2, fan_out: 16, open: 0, growth: 8.0 };
/// How many bits of a root regions may leave open.
const OPEN: [u32; 3] = [2, 3, 4];
/// A tree that takes all that is left.
const LAST: Shape = Shape { growth: 4.0, ..SHAPE };
/// It is tried where the most open of the others leaves at most these shares.
const LEFT_OF_LIST: f64 = 0.5;
const LEFT_OF_ALL: f64 = 0.25;
/// How much more lookups may cost before other roots are looked for.
const WORSE: f64 = 1.1;
/// How many plans are gone on with.
const BEAM: usize = 2;
/// What the regions that have no tree yet will cost if they are all there are, in instructions, and the next root.
const LATER: f64 = 120.0;
const NEXT: f64 = 14.0;

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

/// The trees that have the roots of others, if their lookups cost hardly more than those did when they were chosen.
pub(super) fn like(regions: &Regions, cubes: &Cubes<'_>, lines: usize, room: usize, of: &Roots) -> Option<Planned> {
    let sample = Sample::new(regions, lines, room);
    let mut plan = Plan { left: all(regions), ..Plan::default() };
    for tree in &of.trees {
        let root = Root::like(cubes, tree, &plan.left);
        plan = plan.with(&root, if tree.open.is_some() { &SHAPE } else { &LAST }, regions, cubes, &sample)?;
    }
    (plan.left.is_empty() && plan.cost <= of.planned * WORSE).then(|| plan.end(of.planned))
}

fn all(regions: &Regions) -> Vec<u32> {
    (0..regions.len() as u32).collect()
}

/// Some trees, and the regions that they do not hold.
#[derive(Default)]
struct Plan {
    trees: Vec<Rc<Tree>>,
    left: Vec<u32>,
    cost: f64,
}

/// The trees that promise the fastest lookups: tree by tree, going on with the plans that cost least so far. None where
/// that takes too many visits.
pub(super) fn chosen(regions: &Regions, cubes: &Cubes<'_>, lines: usize, room: usize) -> Planned {
    let sample = Sample::new(regions, lines, room);
    let mut best: Option<Plan> = None;
    let mut plans = vec![Plan { left: all(regions), ..Plan::default() }];
    while plans.iter().any(|plan| !plan.left.is_empty()) {
        let next = plans.iter().flat_map(|plan| plan.next(regions, cubes, &sample));
        let (whole, mut partial): (Vec<_>, Vec<_>) = next.partition(|plan| plan.left.is_empty());
        best = best.into_iter().chain(whole).min_by(|a, b| a.cost.total_cmp(&b.cost));
        partial.retain(|plan| best.as_ref().is_none_or(|best| plan.cost < best.cost));
        partial.sort_by(|a, b| a.cost.total_cmp(&b.cost));
        partial.truncate(BEAM);
        plans = partial;
    }
    if cubes.visits.are_too_many() {
        return Planned { drafts: Vec::new(), cost: f64::INFINITY };
    }
    let planned = best.map(|best| (best.cost, best)).map(|(cost, best)| best.end(cost));
    planned.unwrap_or_else(|| forced(regions, cubes, &Shape::default()))
}

impl Plan {
    /// Its trees, which no other plan has any more.
    fn end(self, cost: f64) -> Planned {
        let drafts = self.trees.into_iter().filter_map(Rc::into_inner).map(|tree| tree.draft).collect();
        Planned { drafts, cost }
    }

    /// The plans with one tree more.
    fn next(&self, regions: &Regions, cubes: &Cubes<'_>, sample: &Sample) -> Vec<Self> {
        let list = &self.left;
        let mut roots: Vec<(Root, Shape)> = Vec::new();
        if list.len() > FEW && self.trees.len() + 1 < SHAPE.trees {
            roots.extend(OPEN.map(|open| (Root::new(cubes, &SHAPE, list, Some(open)), SHAPE)));
            roots.dedup_by(|a, b| a.0 == b.0);
        }
        let most = (LEFT_OF_LIST * list.len() as f64).min(LEFT_OF_ALL * regions.len() as f64);
        if roots.last().is_none_or(|(widest, _)| widest.rest.len() as f64 <= most) {
            roots.push((Root::new(cubes, &LAST, list, None), LAST));
        }
        roots.iter().filter_map(|(root, shape)| self.with(root, shape, regions, cubes, sample)).collect()
    }

    /// The plan with one more tree, if there is room for it.
    fn with(&self, root: &Root, shape: &Shape, regions: &Regions, cubes: &Cubes<'_>, sample: &Sample) -> Option<Self> {
        if cubes.visits.are_too_many() {
            return None;
        }
        let mut trees = self.trees.clone();
        trees.push(Rc::new(sample.tree(Draft::new(cubes, shape, root), cubes.level)));
        if cost::bytes(&trees) > sample.most_bytes {
            return None;
        }
        let later = if root.rest.is_empty() { 0.0 } else { NEXT };
        let later = later + LATER * root.rest.len() as f64 / regions.len() as f64;
        Some(Self { cost: sample.cost(&trees, regions, cubes) + later, trees, left: root.rest.clone() })
    }
}
