//! Caps on bases beyond the bytes that they may hold.

use crate::error::Cap;

/// Caps on a base beyond the [budget](crate::Budget).
///
/// A candidate that may exceed a cap is refused, and the [explanation](crate::live::Explanation) has both numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Heap bytes while a base is built and timed, including other candidates in memory, but not the rules.
    ///
    /// The cap is compared with an upper bound computed from the numbers of regions and words. So a base may be refused
    /// although it would have needed less. For example, a region of IPv4 5-tuples counts as 64 bytes for `linear`, 448
    /// for `tuplemerge` and 2,360 for `bit_select`, because that compares plans. 10,000 of them count as 31 MB for
    /// `bit_vector`.
    pub build_bytes: usize,
    /// Cache lines that a lookup may touch in the worst case.
    ///
    /// With `None` no candidate is refused, but those that keep [`Self::WORST_LINES`] are preferred.
    pub worst_lines: Option<usize>,
    /// Regions that a lookup may test in the worst case.
    ///
    /// With `None` no candidate is refused, but those that keep [`Self::WORST_TESTS`] are preferred. Regions that a
    /// vector tests together then count as the 32-bit words of vectors that are read.
    pub worst_tests: Option<usize>,
    /// Region visits of a base's build, counted as they are made.
    ///
    /// A build that makes more stops soon after. Visits stand for the time of a build, but are the same on every
    /// machine and under every load. Every [`Candidate`](super::Candidate) that was built has its number of visits.
    ///
    /// Visits per region, by kind:
    /// - `linear`: 1
    /// - `tuplemerge`: 6 to 170, or hundreds if rules are made to obstruct it
    /// - `bit_select`: 80 to 3,000, fewer in a rebuild
    /// - `bit_vector`: 10 to 50 where rules have many regions, or 2,000 in small sets
    pub build_visits: usize,
}

impl Default for Limits {
    /// Sets no cap on builds, and prefers bases with a good worst case.
    fn default() -> Self {
        Self { build_bytes: usize::MAX, worst_lines: None, worst_tests: None, build_visits: usize::MAX }
    }
}

impl Limits {
    /// Default of worst-case cache lines of a lookup.
    ///
    /// If no candidate keeps this and [`Self::WORST_TESTS`], the candidates up to twice as bad as the least bad are
    /// compared. [`Explanation::is_over_defaults`](crate::live::Explanation::is_over_defaults) is true then.
    pub const WORST_LINES: usize = 8192;
    /// Default of worst-case region tests of a lookup.
    pub const WORST_TESTS: usize = 4096;

    /// Returns the factor by which a worst case exceeds the defaults; at most 1 if it keeps them.
    ///
    /// Limits that were set do not count. For example, 2,048 lines and 8,192 tests are twice as bad.
    pub(crate) fn badness(&self, lines: usize, tests: usize) -> f64 {
        let of = |set: Option<usize>, is: usize, most: usize| if set.is_some() { 0.0 } else { is as f64 / most as f64 };
        of(self.worst_lines, lines, Self::WORST_LINES).max(of(self.worst_tests, tests, Self::WORST_TESTS))
    }

    /// Returns an error with the cap that a worst case exceeds, the need and the allowed amount, if it exceeds one.
    pub(crate) fn check(&self, lines: usize, tests: usize) -> Result<(), (Cap, usize, usize)> {
        let of = |cap, set: Option<usize>, is: usize| match set {
            Some(most) if is > most => Err((cap, is, most)),
            _ => Ok(()),
        };
        of(Cap::WorstLines, self.worst_lines, lines)?;
        of(Cap::WorstTests, self.worst_tests, tests)
    }

    /// Returns the default that a worst case exceeds most, with the need and the default.
    pub(crate) fn over_default(&self, lines: usize, tests: usize) -> (Cap, usize, usize) {
        let set_tests = Self { worst_tests: Some(0), ..*self };
        if self.badness(lines, tests) > set_tests.badness(lines, tests) {
            (Cap::WorstTests, tests, Self::WORST_TESTS)
        } else {
            (Cap::WorstLines, lines, Self::WORST_LINES)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worst case is as bad as the worse of its two ratios to the defaults. A limit that is set is a cap instead.
    #[test]
    fn worst_cases_are_held_against_each_limit() {
        let (free, both) =
            (Limits::default(), Limits { worst_lines: Some(50), worst_tests: Some(9), ..Limits::default() });
        let lines = Limits { worst_tests: None, ..both };
        let tests = Limits { worst_lines: None, ..both };
        assert_eq!(
            [(8192, 0), (0, 4096), (4096, 6144), (16_384, 4096)].map(|(a, b)| free.badness(a, b)),
            [1.0, 1.0, 1.5, 2.0]
        );
        assert_eq!([free, lines, tests, both].map(|of| of.badness(16_384, 12_288)), [3.0, 3.0, 2.0, 0.0]);
        assert_eq!(both.check(50, 9), Ok(()));
        assert_eq!(both.check(51, 10), Err((Cap::WorstLines, 51, 50)));
        assert_eq!(both.check(50, 10), Err((Cap::WorstTests, 10, 9)));
        assert_eq!(
            (lines.check(50, 1 << 40), tests.check(1 << 40, 9), free.check(1 << 40, 1 << 40)),
            (Ok(()), Ok(()), Ok(()))
        );
        assert_eq!(lines.check(51, 0), Err((Cap::WorstLines, 51, 50)));
        assert_eq!(tests.check(0, 10), Err((Cap::WorstTests, 10, 9)));
        // The default that is exceeded by the larger factor.
        assert_eq!(free.over_default(9000, 4097), (Cap::WorstLines, 9000, 8192));
        assert_eq!(free.over_default(8193, 5000), (Cap::WorstTests, 5000, 4096));
        assert_eq!(tests.over_default(8193, 5000), (Cap::WorstLines, 8193, 8192));
        assert_eq!(lines.over_default(90_000, 4097), (Cap::WorstTests, 4097, 4096));
    }

    #[test]
    fn each_cap_says_what_it_is_about() {
        let said = [Cap::RunBytes, Cap::BuildBytes, Cap::WorstLines, Cap::WorstTests, Cap::BuildVisits]
            .map(|cap| cap.says(7, 5));
        assert_eq!(said[0], "it needs 7 bytes or more, the budget leaves 5");
        assert_eq!(said[1], "building it may take 7 bytes, the limit is 5");
        assert_eq!(said[2], "a packet can touch 7 cache lines, the limit is 5");
        assert_eq!(said[3], "a packet can be tested against 7 regions, the limit is 5");
        assert_eq!(said[4], "building it takes 7 region visits or more, the limit is 5");
    }
}
