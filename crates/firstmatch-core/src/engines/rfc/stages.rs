//! Parts of a lookup, each for a thread of its own.

use std::ops::Range;

use super::lookup::{ClassSlots, Lookup};
use super::structure::Rfc;
use crate::engine::Match;
use crate::key::Keys;
use crate::raw::dispatch;

impl Rfc {
    /// Returns the number of leaves. They fill the first slots, one each.
    pub fn leaves(&self) -> usize {
        self.leaves.len()
    }

    /// Returns the number of slots: one for the class that each leaf finds, then one for each table.
    pub fn slots(&self) -> usize {
        self.leaves.len() + self.tables.len()
    }

    /// Returns the number of 64-bit words that carry the classes of a packet between parts of a lookup.
    ///
    /// Each word has the classes of two slots, the first in its lower half. The last slot needs no place.
    pub fn width(&self) -> usize {
        (self.slots() - 1).div_ceil(2)
    }

    /// Fills the slots `slots` of a lookup, and improves the matches if the last slot is among them.
    ///
    /// `words` must have [`width`](Self::width) words for each key, key after key. Earlier slots are read from there,
    /// so earlier calls must have filled them, and filled slots are written there. If a call fills all slots, `words`
    /// may be empty.
    ///
    /// ```
    /// use firstmatch_core::engines::rfc::{Config, Rfc};
    /// use firstmatch_core::rule::Lowered;
    /// use firstmatch_core::{Engine, KeyBuf, Schema};
    ///
    /// let engine = Rfc::build(&Lowered::empty(&Schema::ipv4()), &Config::paper())?;
    /// let mut keys = KeyBuf::new(engine.schema());
    /// keys.push()[..5].copy_from_slice(&[0x0A00_0001, 1, 2, 3, 6]);
    /// let (mut scratch, mut words, mut best) = (engine.new_scratch(), vec![0; engine.width()], [None]);
    /// for slots in [0..engine.leaves(), engine.leaves()..engine.slots()] {
    ///     engine.improve_in(&mut scratch, slots, &keys.keys(), &mut words, &mut best);
    /// }
    /// assert_eq!(best, [None]);
    /// # Ok::<(), firstmatch_core::BuildError>(())
    /// ```
    ///
    /// # Panics
    /// If `slots` is no range of slots, there are fewer keys than matches, or `words` has another length.
    pub fn improve_in(
        &self,
        scratch: &mut ClassSlots,
        slots: Range<usize>,
        keys: &Keys<'_>,
        words: &mut [u64],
        best: &mut [Option<Match>],
    ) {
        let all = self.slots();
        assert!(slots.start <= slots.end && slots.end <= all, "slots {slots:?} of {all}");
        let is_whole = slots == (0..all) && words.is_empty();
        assert!(is_whole || words.len() == best.len() * self.width(), "{} words of {} keys", words.len(), best.len());
        dispatch(self.level, Lookup { engine: self, classes: scratch, keys, slots, words, best });
    }
}
