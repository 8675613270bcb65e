//! Explanation of an engine: its parts and the reasons for them.

use std::fmt;

use super::facts::Known;
use super::front::FrontEngine;
use super::reader::Engine;
use super::snapshot::Built;
use crate::engine::Stats;
use crate::select::traffic::Traffic;
use crate::select::{Candidate, Kind};

/// Base that serves a rule set, the reasons for it, and the changes since.
///
/// ```
/// use firstmatch_core::live::{Config, Engine, Kind};
/// use firstmatch_core::rule::{ExpansionLimits, lower};
///
/// let text = "family ipv4\ndeny tcp dport 23\npermit dst 192.0.2.0/24\n";
/// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
/// let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
/// let explained = Engine::build(&rules, &Config::default())?.explain();
/// assert_eq!((explained.rules, explained.kind), (2, Kind::Linear)); // a few regions need no structure
/// println!("{explained}"); // every candidate, and why it was not taken
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Number of live rules that may match packets of this schema.
    pub rules: usize,
    /// Number of them that test live sets.
    pub set_rules: usize,
    /// Kind of the base.
    pub kind: Kind,
    /// Kind that was [asked for](super::Strategy::Force), if one was.
    pub asked: Option<Kind>,
    /// Every kind, in the order in which they are tried, with its outcome.
    pub candidates: Vec<Candidate>,
    /// Number of region visits made to compare candidates: at most [`Config::trial`](super::Config::trial).
    ///
    /// A timed lookup counts with its worst case.
    pub compared: usize,
    /// Whether the base exceeds a default limit, because no allowed candidate keeps both.
    ///
    /// The default limits are [`Limits::WORST_TESTS`](crate::select::Limits::WORST_TESTS) and
    /// [`Limits::WORST_LINES`](crate::select::Limits::WORST_LINES); they hold unless another limit was set.
    pub is_over_defaults: bool,
    /// Statistics of the base alone.
    pub base: Stats,
    /// Name and statistics of the engine that answers before the base, if there is one.
    pub front: Option<(&'static str, Stats)>,
    /// Number of rules inserted into the base and removed from it in place.
    pub in_place: usize,
    /// Number of rules of the base that have a tombstone.
    pub dead: usize,
    /// Number of rules in the overlay.
    pub overlay: usize,
    /// Number of commits so far.
    pub generation: u64,
    /// Number of rebuilds so far.
    pub epoch: u64,
    /// Bytes of everything that readers share, in both replicas.
    pub bytes: usize,
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "rules       {} in {} regions", self.base.rules, self.base.regions)?;
        if self.set_rules > 0 {
            writeln!(f, "live sets   {} rules test them, behind the others", self.set_rules)?;
        }
        if let Some((name, stats)) = &self.front {
            let (bytes, lines, tests) = (stats.total_bytes(), stats.worst_lines, stats.worst_tests);
            writeln!(f, "{name:10}  answers first; {bytes} bytes, at worst {lines} lines and {tests} tests")?;
        }
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
    /// Prints a table of the times of each candidate on each sort of traffic.
    fn fmt_traffic(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_there = |at: usize| self.candidates.iter().any(|of| of.nanos[at].is_some());
        let there: Vec<usize> = (0..Traffic::ALL.len()).filter(|&at| is_there(at)).collect();
        if there.is_empty() {
            return Ok(());
        }
        write!(f, "ns a packet")?;
        there.iter().try_for_each(|&at| write!(f, " {:>9}", Traffic::ALL[at]))?;
        writeln!(f)?;
        for candidate in self.candidates.iter().filter(|of| of.nanos.iter().any(Option::is_some)) {
            write!(f, "{:11}", candidate.kind)?;
            for &at in &there {
                write!(f, " {:>9}", candidate.nanos[at].map_or(String::new(), |nanos| format!("{nanos:.1}")))?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl Engine {
    /// Returns which base serves the rules and why, without waiting for the writer or delaying it.
    ///
    /// The explanation has the memory, the worst case, and every candidate with the reason if it was refused.
    pub fn explain(&self) -> Explanation {
        let (known, built) = self.shared.known(self.part);
        let (base, facts) = (known.base(&built), &known.part);
        Explanation {
            rules: facts.rules + facts.set_rules,
            set_rules: facts.set_rules,
            kind: built.kind,
            asked: built.choice.asked,
            candidates: built.choice.candidates.clone(),
            compared: built.choice.compared,
            is_over_defaults: built.choice.is_over_defaults,
            front: built.front.as_deref().map(|front| (front.name(), front.stats().clone())),
            in_place: facts.in_place,
            dead: facts.dead,
            overlay: facts.overlay_rules,
            generation: known.generation,
            epoch: known.epoch,
            bytes: self.stats_of(&known, &built, &base).total_bytes(),
            base,
        }
    }

    /// Returns the statistics of the base and everything around it.
    ///
    /// Engines of one writer share the structs around the replicas; only the first engine counts their bytes.
    pub(super) fn shared_stats(&self) -> Stats {
        let (known, built) = self.shared.known(self.part);
        self.stats_of(&known, &built, &known.base(&built))
    }

    fn stats_of(&self, known: &Known, built: &Built, base: &Stats) -> Stats {
        let of = &known.part;
        let front = built.front.as_deref().map(FrontEngine::stats);
        let (first, tables) = front.map_or((base, 0), |front| (front, front.tables));
        // A key whose answer is dead is looked up again.
        let again = usize::from(of.dead > 0);
        let mut stats = Stats {
            rules: of.rules + of.set_rules,
            regions: base.regions - of.dead_regions + of.overlay_regions,
            tables: tables + base.tables + of.overlay_tables,
            worst_tests: first.worst_tests + again * base.worst_tests + of.overlay_tests + of.set_tests,
            worst_lines: first.worst_lines + again * base.worst_lines + of.overlay_lines + of.set_lines,
            longest_bucket: first.longest_bucket.max(base.longest_bucket).max(of.overlay_longest),
            overflow: base.overflow + of.overlay_overflow,
            keeps_shadowed: true,
            bytes: base.bytes.clone(),
            ..Stats::default()
        };
        stats.bytes.extend([("marks", of.marks), ("overlay", of.overlay), ("filter", of.filter)]);
        if of.front > 0 {
            stats.bytes.push(("front", of.front));
        }
        if of.list > 0 {
            stats.bytes.push(("regions", of.list));
        }
        if of.second_base > 0 {
            stats.bytes.push(("second base", of.second_base));
        }
        let (shared, attached) = if self.part == 0 { (self.shared.bytes(), known.attached) } else { (0, 0) };
        if self.part == 0 && of.set_rules > 0 {
            stats.bytes.push(("live sets", known.sets));
        }
        if attached > 0 {
            stats.bytes.push(("attachments", attached));
        }
        stats.bytes.push(("frame", of.frame + shared));
        stats
    }
}
