//! Search for the keys that cost an engine the most.

use firstmatch_core::rule::Lowered;
use firstmatch_core::{Classifier, KeyBuf, Keys, Match};

use super::points::{Cells, Points};
use crate::error::Error;
use crate::random::{Purpose, Random};

/// Parameters of the search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hardest {
    /// Number of keys to keep, 1 or more.
    pub keys: usize,
    /// Number of keys to draw at random and price first; at least [`Hardest::keys`].
    pub drawn: usize,
    /// Number of times that each kept key is varied.
    ///
    /// One field of it becomes that of a corner or an edge of another rule, and the costlier key of the two stays.
    pub rounds: usize,
    /// Seed of all random draws.
    pub seed: u64,
}

impl Default for Hardest {
    /// Keeps 1,000 keys of 20,000, varied 20 times, with seed 1.
    fn default() -> Self {
        Self { keys: 1000, drawn: 20_000, rounds: 20, seed: 1 }
    }
}

/// Returns the costliest keys that a search finds, the costliest first, with their costs.
///
/// `cost` prices a batch of keys: one number per key, larger for a harder key. For tuple spaces, use [`late_matches`].
///
/// The keys drawn first are a quarter each of interiors, corners, edges and the whole space. Then single fields are
/// exchanged, so that keys come to lie where rules intersect.
///
/// # Errors
/// If a number is out of its bounds, or there is no rule.
pub fn hardest(
    lowered: &Lowered,
    config: &Hardest,
    mut cost: impl FnMut(Keys<'_>, &mut [u64]),
) -> Result<(KeyBuf, Vec<u64>), Error> {
    if config.keys == 0 || config.drawn < config.keys {
        let what = format!("{} keys of {} drawn: keep one at least, of as many at least", config.keys, config.drawn);
        return Err(Error::config(what));
    }
    let (schema, regions) = (lowered.schema(), lowered.regions());
    if regions.is_empty() {
        return Err(Error::nothing_matched());
    }
    let mut random = Random::new(config.seed, Purpose::Headers);
    let cells = Cells::new(schema);
    let any = |random: &mut Random, points, row: &mut [u32]| {
        cells.point(regions.get(random.index(regions.len())), points, random, row);
    };
    let mut drawn = KeyBuf::new(schema);
    for at in 0..config.drawn {
        let points = [Points::Interior, Points::Corners, Points::Edges, Points::Uniform][at % 4];
        any(&mut random, points, drawn.push());
    }
    let mut costs = vec![0; config.drawn];
    cost(drawn.keys(), &mut costs);
    let mut order: Vec<usize> = (0..config.drawn).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(costs[at]));
    order.truncate(config.keys);
    let mut kept = KeyBuf::new(schema);
    order.iter().for_each(|&at| kept.push().copy_from_slice(drawn.keys().row(at)));
    let mut costs: Vec<u64> = order.iter().map(|&at| costs[at]).collect();
    let mut other = KeyBuf::new(schema);
    let mut prices = vec![0; config.keys];
    for _ in 0..config.rounds {
        let mut varied = KeyBuf::new(schema);
        for at in 0..config.keys {
            other.clear();
            let points = if random.coin() { Points::Corners } else { Points::Edges };
            any(&mut random, points, other.push());
            let row = varied.push();
            row.copy_from_slice(kept.keys().row(at));
            for word in schema.words_of(random.index(schema.fields().len())) {
                row[word] = other.keys().row(0)[word];
            }
        }
        cost(varied.keys(), &mut prices);
        let mut better = KeyBuf::new(schema);
        for at in 0..config.keys {
            let wins = prices[at] > costs[at];
            better.push().copy_from_slice(if wins { varied.keys().row(at) } else { kept.keys().row(at) });
            costs[at] = costs[at].max(prices[at]);
        }
        kept = better;
    }
    let mut order: Vec<usize> = (0..config.keys).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(costs[at]));
    let mut sorted = KeyBuf::new(schema);
    order.iter().for_each(|&at| sorted.push().copy_from_slice(kept.keys().row(at)));
    Ok((sorted, order.iter().map(|&at| costs[at]).collect()))
}

/// Returns a cost for engines that walk tables until no better match is left.
///
/// This suits tuple spaces. The cost is the place of the rule that matches the key, or the number of rules if none
/// does. For example, a key that the third rule matches costs 2. `engine` answers; it may be any engine over the rules.
pub fn late_matches<'c>(lowered: &'c Lowered, engine: &'c dyn Classifier) -> impl FnMut(Keys<'_>, &mut [u64]) + 'c {
    let mut scratch = engine.scratch();
    let mut found: Vec<Option<Match>> = Vec::new();
    move |keys, costs| {
        found.clear();
        found.resize(keys.len(), None);
        engine.classify_batch(&mut scratch, keys, &mut found);
        let rules = lowered.rules();
        for (cost, found) in costs.iter_mut().zip(&found) {
            let place = found.map(|found| rules.partition_point(|other| other.priority < found.priority));
            *cost = place.unwrap_or(rules.len()) as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstmatch_core::rule::{ExpansionLimits, lower};

    /// At least one key is kept, and at least as many are drawn.
    #[test]
    fn as_many_keys_are_drawn_as_kept() {
        let set = crate::attack::generate(crate::attack::Attack::Cross, firstmatch_core::schema::Family::Ipv4, 20, 1);
        let set = set.expect("so many there are");
        let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
        for (keys, drawn, fits) in [(0, 5, false), (1, 1, true), (5, 4, false), (5, 5, true), (5, 6, true)] {
            let config = Hardest { keys, drawn, rounds: 1, seed: 1 };
            let found = hardest(&lowered, &config, |_, costs| costs.fill(1));
            assert_eq!(found.map_or(0, |(found, _)| found.len()), if fits { keys } else { 0 }, "{keys} of {drawn}");
        }
    }
}
