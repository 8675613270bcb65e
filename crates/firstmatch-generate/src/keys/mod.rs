//! Keys for rules over any schema.
//!
//! A [trace](crate::trace) has headers of the 5-tuple, each with the rule that matches it. This module makes plain rows
//! for an engine, whatever the fields: drawn from rules, from their edges, uniformly, or by a search for the costliest.

mod hardest;
mod points;

use firstmatch_core::KeyBuf;
use firstmatch_core::rule::{Lowered, Region};

pub use hardest::{Hardest, hardest, late_matches};
pub use points::Points;
pub(crate) use points::beside;

use crate::error::Error;
use crate::random::{Purpose, Random};
use crate::trace::{Locality, MAX_HEADERS, Traffic, plan};
use points::Cells;

/// Parameters of [`generate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Number of keys, 1 to [`MAX_HEADERS`].
    pub keys: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Where in a rule its keys lie.
    pub points: Points,
    /// How often rules and keys repeat.
    pub locality: Locality,
}

impl Default for Config {
    /// Makes 100,000 keys with seed 1, from the interiors of rules, uniform over the rules.
    fn default() -> Self {
        Self { keys: 100_000, seed: 1, points: Points::Interior, locality: Locality::Uniform }
    }
}

/// Draws keys.
///
/// Unless the points are [`Points::Uniform`], each key is drawn from a rule that the locality chooses, though an
/// earlier rule may match it too. Optional fields are present, unless a rule requires their absence.
///
/// # Errors
/// If the configuration is out of its bounds, or the points need a rule and there is none.
pub fn generate(lowered: &Lowered, config: &Config) -> Result<KeyBuf, Error> {
    if !(1..=MAX_HEADERS).contains(&config.keys) {
        return Err(Error::config(format!("keys is {}, not a number from 1 to {MAX_HEADERS}", config.keys)));
    }
    config.locality.check().map_err(Error::config)?;
    let targets: Vec<_> = lowered.by_rule().map(|(_, regions)| regions).collect();
    if targets.is_empty() && config.points != Points::Uniform {
        return Err(Error::nothing_matched());
    }
    let mut random = Random::new(config.seed, Purpose::Headers);
    // Without rules a burst stands for no rule.
    let pool = targets.len().max(1);
    config.locality.check_pool(pool).map_err(Error::config)?;
    let traffic = Traffic { locality: config.locality, phases: 1, hostile: None };
    let plan = plan(traffic, pool, config.keys, false, &mut random);
    let schema = lowered.schema();
    let (cells, nothing) = (Cells::new(schema), Region { lo: &[], hi: &[], ternary: None });
    let mut drawn = KeyBuf::new(schema);
    drawn.reserve(plan.bursts.len());
    for burst in &plan.bursts {
        let region = targets
            .get(burst.of as usize)
            .map_or(nothing, |own| lowered.regions().get(own.start + random.index(own.len())));
        cells.point(region, config.points, &mut random, drawn.push());
    }
    let (order, _) = plan.order(&mut Random::new(config.seed, Purpose::Order));
    let mut keys = KeyBuf::new(schema);
    keys.reserve(order.len());
    for at in order {
        keys.push().copy_from_slice(drawn.keys().row(at as usize));
    }
    Ok(keys)
}
