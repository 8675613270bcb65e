//! Traffic whose headers have a popularity, which may change, and traffic that is meant to be slow.

use std::cmp::Reverse;

use anyhow::Context;
use firstmatch_core::engines::interval_tree::Shapes;
use firstmatch_core::{KeyBuf, Keys};
use firstmatch_generate::trace::Locality;
use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use serde::Deserialize;

/// Popularity of headers in a stage, beside that of the stage before; it is random at first.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    Same,
    /// The most popular header becomes the rarest.
    Opposite,
    Random,
    /// The larger the key, the more popular.
    Rising,
    /// The same, but every second packet is one of the rarer half, in bursts of the same header.
    Bursts,
    /// The deepest values of each tree, which are read from it now and then.
    Deepest,
    /// Values that make a list of each tree, each a little more often than the one below it; then the deepest.
    List,
}

/// Packets of a burst.
const BURST: usize = 64;
/// Number of the deepest values that are sent.
const DEEPEST: usize = 32;
/// Packets that build a list.
const BUILDING: usize = 250_000;
/// Number of no header.
pub(super) const NONE: u32 = u32::MAX;

/// Source of packets.
pub(super) struct Traffic<'a> {
    pool: Keys<'a>,
    /// Shares of the headers by rank of popularity.
    shares: Vec<f64>,
    drawn: WeightedIndex<f64>,
    /// Headers of the pool, the most popular first.
    popular: Vec<u32>,
    order: Order,
    /// Packets since the order changed.
    sent: usize,
    random: Pcg64,
}

impl<'a> Traffic<'a> {
    /// Draws a random popularity of `bits` of entropy over the headers of `pool`, by Zipf's law.
    pub(super) fn new(pool: Keys<'a>, bits: f64, seed: u64) -> anyhow::Result<Self> {
        let count = pool.len();
        let exponent = Locality::Entropy { bits }.exponent(count).context("popularity by Zipf's law")?;
        let weights: Vec<f64> = (1..=count).map(|rank| (rank as f64).powf(-exponent)).collect();
        let sum: f64 = weights.iter().sum();
        let (mut random, mut popular) = (Pcg64::seed_from_u64(seed), (0..count as u32).collect::<Vec<_>>());
        popular.shuffle(&mut random);
        let drawn = WeightedIndex::new(&weights)?;
        let shares = weights.iter().map(|weight| weight / sum).collect();
        Ok(Self { pool, shares, drawn, popular, order: Order::Same, sent: 0, random })
    }

    /// Begins a stage.
    pub(super) fn change(&mut self, order: Order) {
        match order {
            Order::Opposite => self.popular.reverse(),
            Order::Random => self.popular.shuffle(&mut self.random),
            Order::Rising => self.popular.sort_by_key(|&header| Reverse(self.pool.row(header as usize).to_vec())),
            Order::Same | Order::Bursts | Order::Deepest | Order::List => {}
        }
        (self.order, self.sent) = (order, 0);
    }

    /// Returns the share of each header of the pool; `None` if packets depend on the trees.
    pub(super) fn shares(&self) -> Option<Vec<f64>> {
        let (half, rare) = (self.popular.len() / 2, self.popular.len().div_ceil(2));
        let mut all = vec![0.0; self.popular.len()];
        for (rank, (&header, share)) in self.popular.iter().zip(&self.shares).enumerate() {
            all[header as usize] = match self.order {
                Order::Deepest | Order::List => return None,
                Order::Bursts => 0.5 * share + if rank >= half { 0.5 / rare as f64 } else { 0.0 },
                _ => *share,
            };
        }
        Some(all)
    }

    /// Writes as many packets as `headers` has places, and the header of each, or [`NONE`].
    pub(super) fn fill(&mut self, shapes: &Shapes, keys: &mut KeyBuf, headers: &mut [u32]) {
        keys.clear();
        let depths = if matches!(self.order, Order::Deepest | Order::List) { self.depths(shapes) } else { Vec::new() };
        for header in headers {
            *header = match self.order {
                Order::Deepest | Order::List => NONE,
                Order::Bursts if self.sent % 2 == 1 => {
                    let (count, rare) = (self.popular.len(), self.popular.len().div_ceil(2));
                    self.popular[count - 1 - self.sent / BURST % rare]
                }
                _ => self.popular[self.drawn.sample(&mut self.random)],
            };
            let key = keys.push();
            if *header != NONE {
                key.copy_from_slice(self.pool.row(*header as usize));
            }
            for (place, by_depth) in key.iter_mut().zip(&depths) {
                *place = if self.order == Order::List && self.sent < BUILDING {
                    // Each value comes a little more often than the one before it.
                    by_depth[((4 * self.sent) as f64).sqrt() as usize % by_depth.len()]
                } else {
                    by_depth[self.random.random_range(0..by_depth.len().min(DEEPEST))]
                };
            }
            self.sent += 1;
        }
    }

    /// Returns the first value of each interval of each tree: the deepest first, or ascending to build a list.
    fn depths(&self, shapes: &Shapes) -> Vec<Vec<u32>> {
        let words = (0..self.pool.row(0).len()).filter_map(|word| shapes.shape(word));
        let one = |shape: &firstmatch_core::engines::interval_tree::Shape| {
            let mut all = shape.depths();
            if self.order == Order::Deepest || self.sent >= BUILDING {
                all.sort_by_key(|&(_, depth)| Reverse(depth));
            }
            all.into_iter().map(|(start, _)| start).collect()
        };
        words.map(one).collect()
    }
}
