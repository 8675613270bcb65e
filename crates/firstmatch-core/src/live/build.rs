//! Builds parts: a base with its tombstones, overlay, filter and list of regions.

use std::sync::Arc;

use super::attached::Attachments;
use super::config::Config;
use super::facts::Shared;
use super::front::{Front, FrontEngine};
use super::left_right::ARC;
use super::sets::SetRules;
use super::snapshot::{Built, Part, State};
use crate::engine::budget::Budget;
use crate::engine::entry::Settings;
use crate::engine::tombstones::marks_bytes;
use crate::engines::registry::{AnyBase, new_overlay};
use crate::engines::shared::RegionList;
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::Lowered;
use crate::select::choice::Before;
use crate::select::choose;

/// Builds a generation of `sets`; `before` has the parts that it replaces.
///
/// A part that has no set here stays as it is in `before`. Its rules must be those that its base was built from.
pub(super) fn build(
    sets: &[Option<&Lowered>],
    attached: Attachments,
    config: &Config,
    before: &[Part],
) -> Result<State, BuildError> {
    let mut reserved = Shared::bytes_for(sets.len()) + 2 * (attached.bytes() + sets.len() * size_of::<Part>());
    for (number, &set) in sets.iter().enumerate() {
        reserved += match set {
            Some(set) => 2 * (new_overlay(set.schema(), config.simd, config.seed)?.bytes() + marks_bytes(set)),
            None => before[number].kept_bytes() + 2 * before[number].overlay.bytes(),
        };
    }
    let parts = sets.iter().enumerate().map(|(number, &set)| {
        let Some(set) = set else { return Ok(before[number].clone()) };
        let before = before.get(number).map(|part| Before::of(&part.base, &part.built.choice));
        new_part(set, config, &mut reserved, before.as_ref())
    });
    let parts = parts.collect::<Result<_, _>>()?;
    Ok(State { generation: 0, epoch: 0, parts, attached, sets: SetRules::default() })
}

/// Builds the part of one schema; `reserved` bytes of the budget are already taken.
///
/// `reserved` includes the tombstones and overlay of this part. This function adds the bytes of the front, the base,
/// its filters and its lists of regions. `before` describes the base that the new one replaces.
pub(super) fn new_part(
    set: &Lowered,
    config: &Config,
    reserved: &mut usize,
    before: Option<&Before>,
) -> Result<Part, BuildError> {
    let (front, taken) = (config.front.as_ref(), *reserved);
    match part_behind(front, set, config, reserved, before) {
        // Rules that have changed are served without a front rather than not at all.
        Err(_) if front.is_some() && before.is_some() => {
            *reserved = taken;
            part_behind(None, set, config, reserved, before)
        }
        part => part,
    }
}

/// Builds the part of one schema behind this front, or behind none.
fn part_behind(
    front: Option<&Front>,
    set: &Lowered,
    config: &Config,
    reserved: &mut usize,
    before: Option<&Before>,
) -> Result<Part, BuildError> {
    let (level, most) = (Level::choose(config.simd)?, config.budget.run_bytes);
    if config.overlaps {
        set.expanded()?;
    }
    let list = config.overlaps.then(|| {
        let own = size_of::<RegionList>();
        let room = (most.saturating_sub(*reserved) / 2).checked_sub(own);
        let list = room.map_or(Err(0), |room| RegionList::build(set, level, room));
        list.map(Box::new).map_err(|bytes| BuildError::bytes(*reserved + 2 * (own + bytes), most))
    });
    let list = list.transpose()?;
    *reserved += 2 * list.as_ref().map_or(0, |list| size_of_val(&**list) + list.bytes());
    let budget = Budget { run_bytes: if most == usize::MAX { most } else { most.saturating_sub(*reserved) } };
    let settings = Settings { budget, simd: config.simd, seed: config.seed, ..Settings::default() };
    let front = front.map(|front| front.build(set, settings, &config.limits)).transpose()?.map(Arc::new);
    *reserved += front.as_deref().map_or(0, FrontEngine::bytes);
    let needed = *reserved + Built::MOST_OWN_BYTES + ARC + size_of::<AnyBase>();
    let allowed = most.checked_sub(needed).ok_or_else(|| BuildError::bytes(needed, most))?;
    let allowed = if most == usize::MAX { usize::MAX } else { allowed };
    let (base, choice) = choose::choose(set, &config.selection(set.schema()), allowed, before)?;
    let stats = base.stats();
    *reserved += Built::own_bytes(&stats) + Built::bytes_of(&stats);
    let left = if config.changes_in_place() { most.saturating_sub(*reserved) / 2 } else { 0 };
    let built = Built::new(&base, choice, front, set, left, &config.limits);
    let (overlay, held) =
        (new_overlay(set.schema(), config.simd, config.seed)?, config.most_in_overlay(built.base.rules));
    let part = Part::new(base, built, overlay, held, list, level, most.saturating_sub(*reserved) / 4);
    *reserved += 2 * part.filter_bytes();
    Ok(part)
}
