//! Systems on lanes: the lane receives frames, a plane looks them up, and a thread more sends them on.
//!
//! ```text
//! path ═ ring ═▸ lane ─ copies of frames ─▸ plane ─ matches ─▸ sender ─▸ other interface
//!                  └ packets that are unknown: decided at once
//! ```
//!
//! Each lane has a plane of its own for each family, so that the order within a lane is the plane's. Rules do not change
//! in a plane. After a reload the lane stops its planes, waits until all their frames are sent, and starts others.

mod lane;
mod message;

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use firstmatch::core::RuleId;
use firstmatch::net::plane::Plane;
use firstmatch::net::wire::Batch;
use firstmatch::{Policy, Verdict};

pub(crate) use lane::SystemWork;
pub use message::Message;

/// Function that starts the plane of a schema.
pub type StartPlane = dyn Fn(usize) -> Result<Plane<Message>, Box<dyn Error + Send + Sync>> + Send + Sync;

/// Rules that do not change, as a system looks them up.
pub struct Generation {
    /// Starts the plane of the schema of an index in `batch`. Messages enter it from the caller and leave to it.
    pub start: Box<StartPlane>,
    /// Number of 64-bit words that the steps pass on for each packet, by schema.
    pub widths: Vec<usize>,
    /// Empty batch with the schemas of the rules.
    pub batch: Batch,
    /// Verdicts of packets that no rule matches, and of those that are unknown.
    pub policy: Policy,
    /// Generation of the firewall that has these rules.
    pub number: u64,
    /// For each rule, by the slot of its id in the planes: its verdict, and its id in the firewall.
    pub rules: Vec<Option<(Verdict, RuleId)>>,
}

/// Source of generations for all lanes of a system.
pub struct Generations {
    current: Mutex<Arc<Generation>>,
    /// Number of generations that have been published.
    stamp: AtomicU64,
}

impl Generations {
    /// Returns a source whose lanes begin with a generation.
    pub fn new(first: Generation) -> Arc<Self> {
        Arc::new(Self { current: Mutex::new(Arc::new(first)), stamp: AtomicU64::new(1) })
    }

    /// Has lanes go on with another generation, each before its next frames.
    pub fn publish(&self, next: Generation) {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        self.stamp.fetch_add(1, Ordering::Release);
    }

    fn stamp(&self) -> u64 {
        self.stamp.load(Ordering::Acquire)
    }

    fn current(&self) -> Arc<Generation> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let schemas = self.widths.len();
        f.debug_struct("Generation")
            .field("schemas", &schemas)
            .field("rules", &self.rules.len())
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Generations {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generations").field("stamp", &self.stamp()).finish_non_exhaustive()
    }
}
