//! Configuration of a build.

use crate::engine::budget::Budget;
use crate::raw::Level;

/// Configuration of a [`BitSelect`](super::BitSelect) build.
#[derive(Clone, Debug)]
pub struct Config {
    /// Memory that the built engine may take.
    pub budget: Budget,
    /// Instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// Shape of the trees; `None` searches for the trees with the fastest lookups.
    pub shape: Option<Shape>,
    /// Number of regions from which blocks may omit columns that no region constrains.
    ///
    /// Columns are omitted only if that makes blocks smaller. Smaller sets keep a column for every field, because
    /// rules inserted later may constrain it.
    pub lean: usize,
}

impl Default for Config {
    /// Returns no budget, the best instruction set, the fastest trees and `lean` 4,096.
    fn default() -> Self {
        Self { budget: Budget::default(), simd: None, shape: None, lean: 4096 }
    }
}

/// Limits on the trees of a build.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Largest number of trees that regions are shared out to; at least one.
    pub trees: usize,
    /// Largest number of levels of a tree above its leaves; at least one.
    pub levels: usize,
    /// Largest number of table entries of a node for each region in its list.
    pub fan_out: usize,
    /// Number of a root's bits that a region may leave open before it goes to the next tree.
    pub open: u32,
    /// Largest number of copies per region, in the lists of one node.
    ///
    /// The same factor bounds the copies in all nodes below the root of one tree.
    pub growth: f64,
}

impl Default for Shape {
    fn default() -> Self {
        Self { trees: 4, levels: 3, fan_out: 4, open: 2, growth: 4.0 }
    }
}
