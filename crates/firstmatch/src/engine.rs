//! The traits: what an engine's author writes ([`Engine`]) and what users hold ([`Classifier`], [`Updatable`]).

use std::any::Any;
use std::fmt::{self, Debug};

use crate::error::UpdateError;
use crate::key::Keys;
use crate::rule::{Priority, Region, Regions, RuleId};
use crate::schema::Schema;

/// The rule that matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Match {
    /// Which rule.
    pub rule: RuleId,
    /// Its place in the order.
    pub priority: Priority,
}

impl Match {
    /// Whether a rule of this priority wins over `best`.
    #[inline]
    pub fn wins(priority: Priority, best: &Option<Self>) -> bool {
        best.is_none_or(|b| priority < b.priority)
    }
}

/// What an engine is made of, for people and for tests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Rules with at least one region.
    pub rules: usize,
    /// Regions.
    pub regions: usize,
    /// Bytes on the heap by part; their sum is what the allocator counts.
    pub bytes: Vec<(&'static str, usize)>,
    /// Hash tables a lookup may have to visit (1 for engines without).
    pub tables: usize,
    /// The most regions one lookup can be made to test.
    pub worst_tests: usize,
    /// The most cache lines one lookup can be made to touch.
    pub worst_lines: usize,
    /// Regions in the largest bucket, and the limit that splitting could not keep where it is larger.
    pub longest_bucket: usize,
    /// Regions kept outside the tables since these may be no more, or no longer group; each is tested by every lookup
    /// that it can improve.
    pub untabled: usize,
    /// Whether rules that others shadow wholly are kept, so that a removal brings them back.
    pub keeps_shadowed: bool,
}

impl Stats {
    /// Bytes in all.
    pub fn total_bytes(&self) -> usize {
        self.bytes.iter().map(|(_, bytes)| bytes).sum()
    }
}

/// What an engine's author writes. A built engine is immutable while it is shared.
pub trait Engine: Debug + Send + Sync + 'static {
    /// What a lookup may write to; of a fixed size.
    type Scratch: Send + 'static;

    /// The schema it was built for.
    fn schema(&self) -> &Schema;

    /// A scratch, one a thread.
    fn new_scratch(&self) -> Self::Scratch;

    /// Whether a scratch made by some engine of this type serves this one. Where it does not, it is renewed.
    fn fits(&self, _scratch: &Self::Scratch) -> bool {
        true
    }

    /// What it is made of.
    fn stats(&self) -> Stats;

    /// A number that becomes another, and never one that it was, when what is answered changes. Who keeps answers reads it
    /// before each batch and forgets those from before another number. An engine that changes only through `&mut` may leave
    /// it at 0.
    fn version(&self) -> u64 {
        0
    }

    /// For each key: `best[i]` is on entry the match to beat (or `None`), on return a better one, or unchanged.
    ///
    /// As many keys as places in `best`, over as many lanes as the schema has: [`Classifier`] has checked that.
    /// Allocates nothing.
    fn improve(&self, scratch: &mut Self::Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]);
}

/// A scratch for any engine. One from another engine, or from before a change, is renewed by the first batch.
pub struct Scratch(Box<dyn Any + Send>);

impl Scratch {
    /// What an engine of this kind has in it, if it is of one.
    pub(crate) fn of<E: Engine>(&self) -> Option<&E::Scratch> {
        self.0.downcast_ref()
    }
}

impl Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scratch")
    }
}

/// Any engine, as its users hold it.
pub trait Classifier: Debug + Send + Sync {
    /// The schema it was built for.
    fn schema(&self) -> &Schema;

    /// What a thread's lookups may write to.
    fn scratch(&self) -> Scratch;

    /// What it is made of.
    fn stats(&self) -> Stats;

    /// That of [`Engine::version`].
    fn version(&self) -> u64;

    /// For each key: `best[i]` is on entry the match to beat (or `None`), on return a better one, or unchanged. This
    /// is how partitions, caches and overlays compose.
    ///
    /// # Panics
    /// When `best` has not one place a key or the keys have not the lanes of the schema.
    fn improve_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]);

    /// For each key the first rule that matches.
    ///
    /// # Panics
    /// As [`Classifier::improve_batch`].
    fn classify_batch(&self, scratch: &mut Scratch, keys: Keys<'_>, out: &mut [Option<Match>]) {
        // What fills any number of places takes longer than the one.
        if let [out] = out {
            *out = None;
        } else {
            out.fill(None);
        }
        self.improve_batch(scratch, &keys, out);
    }

    /// The first rule that matches the first of these keys.
    ///
    /// # Panics
    /// When there is no key, or as [`Classifier::improve_batch`].
    fn classify(&self, scratch: &mut Scratch, key: Keys<'_>) -> Option<Match> {
        let mut best = [None];
        self.improve_batch(scratch, &key.slice(0, 1), &mut best);
        best[0]
    }
}

impl<E: Engine> Classifier for E {
    fn schema(&self) -> &Schema {
        Engine::schema(self)
    }

    fn scratch(&self) -> Scratch {
        Scratch(Box::new(self.new_scratch()))
    }

    fn stats(&self) -> Stats {
        Engine::stats(self)
    }

    fn version(&self) -> u64 {
        Engine::version(self)
    }

    // What is done before a lookup begins counts where batches are small: all of it is one function.
    #[inline(always)]
    fn improve_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        assert!(keys.has(best.len()), "one place for a match a key");
        let lanes = Engine::schema(self).lanes().len();
        assert!(keys.lanes() == lanes, "keys have the lanes of the engine's schema");
        if const { size_of::<E::Scratch>() == 0 } {
            // Nothing is kept in one.
            return self.improve(&mut self.new_scratch(), keys, best);
        }
        if let Some(own) = scratch.0.downcast_mut::<E::Scratch>()
            && self.fits(own)
        {
            return self.improve(own, keys, best);
        }
        renewed(self, scratch, keys, best);
    }
}

/// The same with a new scratch. Apart, so that what it needs of the stack, kilobytes of a scratch, is not made ready for
/// every batch.
#[cold]
#[inline(never)]
fn renewed<E: Engine>(engine: &E, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
    let mut own = Box::new(engine.new_scratch());
    engine.improve(&mut own, keys, best);
    scratch.0 = own;
}

/// Any classifier whose kind is known only at run time, where a kind is asked for.
macro_rules! boxed_classifier {
    ($kind:ty) => {
        impl Classifier for $kind {
            fn schema(&self) -> &Schema {
                (**self).schema()
            }

            fn scratch(&self) -> Scratch {
                (**self).scratch()
            }

            fn stats(&self) -> Stats {
                (**self).stats()
            }

            fn version(&self) -> u64 {
                (**self).version()
            }

            fn improve_batch(&self, scratch: &mut Scratch, keys: &Keys<'_>, best: &mut [Option<Match>]) {
                (**self).improve_batch(scratch, keys, best);
            }
        }
    };
}

boxed_classifier!(Box<dyn Classifier>);
boxed_classifier!(Box<dyn Updatable>);

impl Updatable for Box<dyn Updatable> {
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        (**self).insert(rule, regions)
    }

    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError> {
        (**self).remove(rule)
    }
}

/// An engine whose rules change, for an exclusive owner.
pub trait Updatable: Classifier {
    /// Adds a rule with the regions it lowers to. Its priority must be no other live rule's.
    ///
    /// # Errors
    /// When a rule of this slot is already there, the lanes differ or the budget has no room; nothing is changed.
    fn insert(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError>;

    /// Takes a rule out.
    ///
    /// # Errors
    /// When it is not there; nothing is changed.
    fn remove(&mut self, rule: RuleId) -> Result<(), UpdateError>;
}

/// The mask of the longest prefix that holds a whole interval of a lane.
pub(crate) fn containing_prefix(lo: u32, hi: u32) -> u32 {
    let differ = lo ^ hi;
    u32::MAX.checked_shl(32 - differ.leading_zeros()).unwrap_or(0)
}

/// The bits of a lane that a region fixes as far as a mask can say: its containing prefix, or its ternary mask where
/// that fixes more.
pub(crate) fn fixed_bits(region: &Region<'_>, lane: usize) -> u32 {
    containing_prefix(region.lo[lane], region.hi[lane]) | region.ternary.map_or(0, |(_, mask)| mask[lane])
}
