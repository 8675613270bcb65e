//! What an engine says of itself.

use std::fmt;

use super::Engine;
use super::candidate::{Candidate, Kind, Lookups};
use super::facts::Known;
use super::traffic::Traffic;
use crate::engine::Stats;

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
    /// Whether the base exceeds [`Limits::WORST_TESTS`](super::Limits::WORST_TESTS) or
    /// [`Limits::WORST_LINES`](super::Limits::WORST_LINES), where no other limit was set: no candidate keeps both.
    pub is_over_defaults: bool,
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
        self.fmt_traffic(f)?;
        writeln!(f, "memory      {} bytes, {} of them the base", self.bytes, self.base.total_bytes())?;
        let (lines, tests) = (self.base.worst_lines, self.base.worst_tests);
        write!(f, "worst case  {lines} cache lines and {tests} region tests a packet")?;
        if self.is_over_defaults {
            write!(f, ": no candidate that fits keeps the default limits")?;
        }
        if self.generation > 0 {
            write!(f, "\nchanges     {} in place, {} in the overlay, ", self.in_place, self.overlay)?;
            write!(f, "{} marked as removed since the last rebuild; ", self.dead)?;
            write!(f, "generation {}, rebuilds {}", self.generation, self.epoch)?;
        }
        Ok(())
    }
}

impl Explanation {
    /// A table of what candidates take on each sort of traffic that there is.
    fn fmt_traffic(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = |at: usize| self.candidates.iter().any(|of| of.on[at].predicted.is_some());
        let there: Vec<usize> = (0..Traffic::ALL.len()).filter(|&at| is_there(at)).collect();
        if there.is_empty() {
            return Ok(());
        }
        write!(f, "ns a packet")?;
        there.iter().try_for_each(|&at| write!(f, " {:>15}", Traffic::ALL[at]))?;
        writeln!(f, "   (predicted) measured")?;
        for candidate in self.candidates.iter().filter(|of| of.on.iter().any(|on| on.predicted.is_some())) {
            write!(f, "{:11}", candidate.kind)?;
            for &at in &there {
                let Lookups { predicted, nanos } = candidate.on[at];
                let predicted = predicted.map_or(String::new(), |of| format!("({:.1})", of.nanos));
                let nanos = nanos.map_or(String::new(), |nanos| format!("{nanos:.1}"));
                write!(f, " {:>15}", format!("{predicted}{nanos:>7}"))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Engine {
    /// What serves the rules and why: what was tried, what was refused for which reason, what it takes, how bad it gets.
    /// It neither waits for the writer nor keeps it waiting.
    pub fn explain(&self) -> Explanation {
        let (known, built) = self.shared.known(self.part);
        let (base, facts) = (known.base(&built), &known.part);
        Explanation {
            rules: facts.rules,
            kind: built.kind,
            asked: built.choice.asked,
            candidates: built.choice.candidates,
            compared: built.choice.compared,
            is_over_defaults: built.choice.is_over_defaults,
            in_place: facts.in_place,
            dead: facts.dead,
            overlay: facts.overlay_rules,
            generation: known.generation,
            epoch: known.epoch,
            bytes: self.stats_of(&known, &base).total_bytes(),
            base,
        }
    }

    /// The base's statistics with what is around it. Engines of one writer share the twin, which the first counts.
    pub(super) fn shared_stats(&self) -> Stats {
        let (known, built) = self.shared.known(self.part);
        self.stats_of(&known, &known.base(&built))
    }

    fn stats_of(&self, known: &Known, base: &Stats) -> Stats {
        let of = &known.part;
        // A key whose answer is dead is looked up again.
        let times = 1 + usize::from(of.dead > 0);
        let mut stats = Stats {
            rules: of.rules,
            regions: base.regions - of.dead_regions + of.overlay_regions,
            tables: base.tables + of.overlay_tables,
            worst_tests: times * base.worst_tests + of.overlay_tests,
            worst_lines: times * base.worst_lines + of.overlay_lines,
            longest_bucket: base.longest_bucket.max(of.overlay_longest),
            untabled: base.untabled + of.overlay_untabled,
            keeps_shadowed: true,
            bytes: base.bytes.clone(),
        };
        stats.bytes.extend([("marks", of.marks), ("overlay", of.overlay), ("filter", of.filter)]);
        if of.second_base > 0 {
            stats.bytes.push(("second base", of.second_base));
        }
        let shared = if self.part == 0 { self.shared.bytes() } else { 0 };
        stats.bytes.push(("frame", of.frame + shared));
        stats
    }
}
