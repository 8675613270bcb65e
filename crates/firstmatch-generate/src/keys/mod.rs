//! Keys for rules over any schema.
//!
//! A [trace](crate::trace) has headers of the 5-tuple, each with the rule that matches it. What is here are plain rows
//! for an engine, whatever the fields: drawn from rules, from their edges, uniformly, or searched for because they
//! cost the most.

mod hardest;
mod points;

use firstmatch::KeyBuf;
use firstmatch::rule::{Lowered, Region};

pub use hardest::{Hardest, hardest, late_matches};
pub use points::Points;
pub(crate) use points::beside;

use crate::error::Error;
use crate::random::{Purpose, Random};
use crate::trace::{Locality, MAX_HEADERS, plan};
use points::Cells;

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How many keys, 1 to [`MAX_HEADERS`].
    pub keys: usize,
    /// Everything random comes from it.
    pub seed: u64,
    /// Where in a rule its keys lie.
    pub points: Points,
    /// How often rules, and keys, come again.
    pub locality: Locality,
}

impl Default for Config {
    /// 100,000 keys, seed 1, from anywhere in rules, uniform over these.
    fn default() -> Self {
        Self { keys: 100_000, seed: 1, points: Points::Interior, locality: Locality::Uniform }
    }
}

/// Draws keys. Where the points are of rules, each key is drawn from a rule as locality has it; an earlier rule may
/// take it. Optional fields are present, unless a rule asks for their absence.
///
/// # Errors
/// When the configuration is out of its bounds, or points of rules are asked for and there is no rule.
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
    // Without rules a burst is of nothing.
    let plan = plan(config.locality, 1, targets.len().max(1), config.keys, false, &mut random);
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
