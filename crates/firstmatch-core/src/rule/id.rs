//! Ids and priorities of rules.

use std::fmt;
use std::num::NonZeroU64;

/// Id of a live rule: a slot (dense, reused) and the number of earlier uses of the slot.
///
/// The id of a removed rule is refused, because the next rule of its slot has another reuse count. For example, the
/// seventh slot's first rule is shown as `7`, its next one as `7.1`. The first rule of a set has the number 1.
///
/// ```
/// use firstmatch_core::RuleId;
///
/// let id = RuleId::new(3, 1); // the second rule in slot 3
/// assert_eq!((id.slot(), id.reuse()), (3, 1));
/// assert_eq!(RuleId::from_u64(id.get()), Some(id));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(NonZeroU64);

impl RuleId {
    /// Builds the id of `slot` after `reuse` earlier uses of it.
    ///
    /// # Panics
    /// If `slot` is `u32::MAX`, because a set has at most `u32::MAX` slots.
    pub fn new(slot: u32, reuse: u32) -> Self {
        assert!(slot != u32::MAX, "slot {slot} is out of range");
        Self(NonZeroU64::MIN.saturating_add(u64::from(reuse) << 32 | u64::from(slot)))
    }

    /// Returns the slot: dense from 0, so arrays by slot need no hashing.
    pub fn slot(self) -> usize {
        (self.get() as u32 - 1) as usize
    }

    /// Number of earlier uses of the slot.
    pub fn reuse(self) -> u32 {
        (self.get() >> 32) as u32
    }

    /// Returns the id as a number.
    pub fn get(self) -> u64 {
        self.0.get()
    }

    /// Returns the id of this number; `None` if no id has it.
    pub fn from_u64(number: u64) -> Option<Self> {
        (number as u32 != 0).then(|| NonZeroU64::new(number).map(Self)).flatten()
    }
}

impl fmt::Debug for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes `7`, or `7.2` for the second reuse of the slot.
impl fmt::Display for RuleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.slot() + 1)?;
        if self.reuse() > 0 { write!(f, ".{}", self.reuse()) } else { Ok(()) }
    }
}

/// Number of a live set in its rule set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SetId(u32);

impl SetId {
    /// Returns the id of the set with an index, from 0.
    pub fn new(index: u32) -> Self {
        Self(index)
    }

    /// Returns the index of the set: sets are numbered in the order in which they came.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Position of a rule in the order of a set; the smaller wins.
///
/// Every live rule of a set has a priority of its own, and nothing else breaks ties.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Priority(pub u64);

impl Priority {
    /// Returns the priority of the rule on line `line` of a file: `line << 32`.
    ///
    /// Rules can therefore be put between any two lines.
    pub const fn of_line(line: u32) -> Self {
        Self((line as u64) << 32)
    }

    /// Returns the midpoint of two priorities; `None` if none lies strictly between them.
    ///
    /// For example, there is room between lines 3 and 4, but none between the priorities 5 and 6.
    /// [`RuleSet::renumber`](super::RuleSet::renumber) makes room again.
    pub const fn between(a: Self, b: Self) -> Option<Self> {
        let (low, high) = if a.0 < b.0 { (a.0, b.0) } else { (b.0, a.0) };
        let middle = low + (high - low) / 2;
        if middle == low { None } else { Some(Self(middle)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_keep_slot_and_reuse_and_are_never_zero() {
        for (slot, reuse) in [(0, 0), (1, 0), (0, 1), (u32::MAX - 1, u32::MAX)] {
            let id = RuleId::new(slot, reuse);
            assert_eq!((id.slot(), id.reuse()), (slot as usize, reuse));
            assert_eq!(RuleId::from_u64(id.get()), Some(id));
        }
        assert_eq!(RuleId::from_u64(0), None);
        assert_eq!(RuleId::from_u64(1 << 32), None);
        assert_eq!(RuleId::new(6, 0).to_string(), "7");
        assert_eq!(RuleId::new(6, 2).to_string(), "7.2");
    }

    #[test]
    fn between_is_strictly_between_or_nothing() {
        let (a, b) = (Priority::of_line(3), Priority::of_line(4));
        let m = Priority::between(a, b).expect("room");
        assert!(a < m && m < b);
        assert_eq!(Priority::between(b, a), Some(m));
        assert_eq!(Priority::between(Priority(5), Priority(6)), None);
        assert_eq!(Priority::between(Priority(5), Priority(5)), None);
        assert_eq!(Priority::between(Priority(0), Priority(u64::MAX)), Some(Priority(u64::MAX / 2)));
    }
}
