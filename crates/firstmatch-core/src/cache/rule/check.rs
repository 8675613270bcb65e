//! Check of whether all keys of a box have one answer (Algorithm 1 of the paper).

use crate::engine::{Overlaps, Probe};
use crate::rule::{Match, Priority, Region, RuleId};

/// Best priorities of the regions that matter to a box: those of one class of rules, and of all other rules.
///
/// A class is one rule or, as in the paper, all rules of one action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BoxCheck {
    /// Best priority of a region of the class that holds all of the box.
    pub matched: Option<Priority>,
    /// Best priority of a region of another class that the box reaches.
    pub conflict: Option<Priority>,
}

impl BoxCheck {
    /// Checks the box of `probe` against `rules`, where `is_own` says which rules are of the class.
    ///
    /// It finds the least priorities, but ends early if one shows that the other no longer matters. For example, behind
    /// a match of priority 4 no region of priority 5 is looked at.
    ///
    /// ```
    /// use firstmatch_core::cache::rule::BoxCheck;
    /// use firstmatch_core::engines::linear::{Config, Linear};
    /// use firstmatch_core::rule::{ExpansionLimits, lower};
    /// use firstmatch_core::{Overlaps, Probe};
    ///
    /// let text = "schema {\n x 4 range\n}\ndeny x 3-4\npermit x 0-9\n";
    /// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let lowered = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
    /// let engine = Linear::build(&lowered, &Config::default())?;
    /// let second = lowered.rules()[1].rule;
    /// let accepts = |lo, hi| BoxCheck::of(&engine, &mut Probe::new(&[lo], &[hi]), |rule| rule == second).accepts();
    /// assert_eq!([accepts(5, 9), accepts(4, 9), accepts(5, 10)], [true, false, false]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn of(rules: &dyn Overlaps, probe: &mut Probe, is_own: impl Fn(RuleId) -> bool) -> Self {
        let (mut check, mut cursor) = (Self::default(), Some(0));
        while let Some(from) = cursor {
            cursor = rules.visit(probe, from, usize::MAX, &mut |probe, found, region| {
                check.visit(is_own(found.rule), probe, found, &region);
            });
        }
        check
    }

    /// Whether a region of the class holds the box and no better one of another class reaches it.
    pub fn accepts(self) -> bool {
        self.matched.is_some_and(|matched| self.conflict.is_none_or(|conflict| matched < conflict))
    }

    pub(super) fn visit(&mut self, is_own: bool, probe: &mut Probe, found: Match, region: &Region<'_>) {
        if !is_own {
            self.conflict = Some(found.priority);
        } else if holds(region, probe) {
            self.matched = Some(found.priority);
        } else {
            return;
        }
        // Only a better region can still change the outcome.
        probe.below = Some(found.priority.0);
    }
}

/// Whether a region holds all of the box.
///
/// Under a mask it may hold less than its interval, so that such a word has to be a single value.
fn holds(region: &Region<'_>, probe: &Probe) -> bool {
    let inside = |word: usize| region.lo[word] <= probe.lo[word] && probe.hi[word] <= region.hi[word];
    let passes = |word: usize| {
        region.ternary.is_none_or(|(value, mask)| {
            // The bits that vary in the box, and all below them, must be open.
            let varies = (probe.lo[word] ^ probe.hi[word]).checked_ilog2().map_or(0, |top| u32::MAX >> (31 - top));
            mask[word] & varies == 0 && probe.lo[word] & mask[word] == value[word]
        })
    };
    (0..probe.lo.len()).all(|word| inside(word) && passes(word))
}
