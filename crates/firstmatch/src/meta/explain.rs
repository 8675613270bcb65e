//! What an engine says of itself.

use std::fmt;
use std::sync::Arc;

use super::candidate::{Candidate, Kind};
use super::state::Part;
use super::twin::{ARC, Twin};
use super::{Engine, State};
use crate::engine::{Engine as _, Stats};

/// What serves a rule set and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Live rules with a region in this schema.
    pub rules: usize,
    /// The base's kind.
    pub kind: Kind,
    /// The kind that was [asked for](super::Config::kind), if one was.
    pub asked: Option<Kind>,
    /// Every kind in the order of trial, and what became of it.
    pub candidates: [Candidate; 4],
    /// Visits of regions that lookups have made to compare them, those that were timed in the worst case: no more than
    /// [`Config::trial`](super::Config::trial).
    pub compared: usize,
    /// Of the base alone.
    pub base: Stats,
    /// Rules that have come to the base in place or gone from it since it was built.
    pub in_place: usize,
    /// Rules of the base that have been marked as removed since.
    pub dead: usize,
    /// Rules inserted since that are beside the base.
    pub overlay: usize,
    /// Commits so far.
    pub generation: u64,
    /// Rebuilds so far.
    pub epoch: u64,
    /// Bytes of all that readers share, both copies counted.
    pub bytes: usize,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rules       {} in {} regions", self.base.rules, self.base.regions)?;
        for candidate in &self.candidates {
            let asked = if self.asked == Some(candidate.kind) { "asked for; " } else { "" };
            writeln!(f, "{:10}  {asked}{candidate}", candidate.kind)?;
        }
        writeln!(f, "memory      {} bytes, {} of them the base", self.bytes, self.base.total_bytes())?;
        let (lines, tests) = (self.base.worst_lines, self.base.worst_tests);
        write!(f, "worst case  {lines} cache lines and {tests} region tests a packet")?;
        if self.generation > 0 {
            write!(f, "\nchanges     {} in place, {} in the overlay, ", self.in_place, self.overlay)?;
            write!(f, "{} marked as removed since the last rebuild; ", self.dead)?;
            write!(f, "generation {}, rebuilds {}", self.generation, self.epoch)?;
        }
        Ok(())
    }
}

impl Engine {
    /// What serves the rules and why: what was tried, what was refused for which reason, what it takes, how bad it gets.
    /// Takes O(regions).
    pub fn explain(&self) -> Explanation {
        let state = self.twin.now().1;
        let part = &state.parts[self.part];
        Explanation {
            rules: part.rules(),
            kind: part.base.kind(),
            asked: part.built.choice.asked,
            candidates: part.built.choice.candidates,
            compared: part.built.choice.compared,
            base: part.base.stats(),
            in_place: part.in_place(),
            dead: part.dead.rules(),
            overlay: part.overlay.rules(),
            generation: state.generation,
            epoch: state.epoch,
            bytes: self.stats().total_bytes(),
        }
    }

    /// The base's statistics with what is around it. Engines of one writer share the twin, which the first counts.
    pub(super) fn shared_stats(&self) -> Stats {
        let copies = self.twin.copies();
        let part = &copies[0].parts[self.part];
        let (base, overlay) = (part.base.stats(), part.overlay.stats());
        // A key whose answer is dead is looked up again.
        let times = 1 + usize::from(part.dead.rules() > 0);
        let mut stats = Stats {
            rules: part.rules(),
            regions: base.regions - part.dead_regions + overlay.regions,
            tables: base.tables + overlay.tables,
            worst_tests: times * base.worst_tests + overlay.worst_tests,
            worst_lines: times * base.worst_lines + overlay.worst_lines,
            longest_bucket: base.longest_bucket.max(overlay.longest_bucket),
            untabled: base.untabled + overlay.untabled,
            keeps_shadowed: true,
            bytes: base.bytes,
        };
        let of_each = |bytes: fn(&Part) -> usize| -> usize {
            let parts = copies.iter().map(|copy| &copy.parts[self.part]);
            parts.map(bytes).sum()
        };
        stats.bytes.push(("marks", of_each(|part| part.dead.bytes())));
        stats.bytes.push(("overlay", of_each(|part| part.overlay.bytes())));
        stats.bytes.push(("filter", of_each(Part::filter_bytes)));
        let frame_of = |part: &Part| ARC + size_of_val(&*part.built) + ARC + size_of_val(&*part.base);
        let mut frame = frame_of(part) + of_each(size_of_val);
        // The two have different bases where these change in place, and after a rebuild until the next commit.
        let other = &copies[1].parts[self.part];
        if !Arc::ptr_eq(&part.base, &other.base) {
            stats.bytes.push(("second base", other.base.stats().total_bytes() - other.base.shared_bytes()));
            frame += ARC + size_of_val(&*other.base);
        }
        if !Arc::ptr_eq(&part.built, &other.built) {
            frame += ARC + size_of_val(&*other.built);
        }
        if self.part == 0 {
            frame += Twin::<State>::SHARED + self.twin.bytes();
        }
        stats.bytes.push(("frame", frame));
        stats
    }
}
