//! Planes of whole lookups, with boxes before them or without.

use std::sync::Arc;
use std::time::Duration;

use firstmatch_core::Classifier;

use super::copies;
use super::shared::{self, SharedBoxes};
use super::step::chain;
use super::storm::{self, Assignment, Partition, SplitMessage, StormPlan};
use crate::plane::{Dispatch, Link, Plane, PlaneBuilder, PlaneError};

/// Starts a plane that messages enter from the caller and leave to it, with `workers` of each stage.
///
/// With one stage and no boxes it has copies of `engine`; with `boxes` for as many workers, copies that share them,
/// and their updater. Two stages and boxes are Storm's; messages between them have `batch` packets. The updater rests
/// for `pause` after each round.
///
/// # Errors
/// If the plane cannot start.
///
/// # Panics
/// If there are no workers, or two stages without boxes.
pub fn plane<T: SplitMessage>(
    engine: Arc<dyn Classifier>,
    boxes: Option<&Arc<SharedBoxes>>,
    workers: &[usize],
    batch: usize,
    pause: Duration,
) -> Result<Plane<T>, PlaneError> {
    let (mut builder, link) = (PlaneBuilder::new(), Link::new().dispatch(Dispatch::RoundRobin));
    match (boxes, workers) {
        (Some(boxes), &[cache, full]) => {
            let mut plan = StormPlan::new(Assignment::Static(Partition::new(cache, full)));
            (plan.batch, plan.pause) = (batch, pause);
            let stages = storm::stages(&mut builder, boxes, &copies::whole(engine), &plan);
            builder.enter(stages.cache, link);
        }
        _ => {
            let step = boxes.map_or_else(|| copies::whole(engine), shared::step);
            let stage = chain(&mut builder, &[step], workers, link)[0];
            builder.enter(stage, link).leave(stage, link);
            if let Some(boxes) = boxes {
                shared::updater(&mut builder, boxes, pause);
            }
        }
    }
    builder.start()
}
