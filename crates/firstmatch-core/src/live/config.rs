//! Configuration.

use super::front::Front;
use crate::engine::budget::Budget;
use crate::raw::Level;
use crate::rule::ExpansionLimits;
use crate::schema::{Family, Schema};
use crate::select::{self, Calls, Limits, Strategy};

/// Default of [`Config::trial`].
const TRIAL: usize = 1 << 26;

/// Limits on live sets and the rules that test them.
///
/// ```
/// use firstmatch_core::live::{Config, SetLimits};
///
/// let mut config = Config::default();
/// config.sets = SetLimits { members: 1 << 20, ..SetLimits::default() };
/// assert_eq!(config.sets.rules, 4096);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetLimits {
    /// Maximum number of members of all sets together.
    pub members: usize,
    /// Maximum number of classes of addresses in a field. Addresses that the same sets hold are one class.
    pub classes: usize,
    /// Maximum number of rules that test live sets, at most 4,096.
    pub rules: usize,
}

impl Default for SetLimits {
    fn default() -> Self {
        Self { members: 4 << 20, classes: 1 << 16, rules: 4096 }
    }
}

/// Configuration of [`meta`](super).
///
/// ```
/// use firstmatch_core::Budget;
/// use firstmatch_core::live::{Config, Kind, Limits, Strategy};
///
/// let config = Config {
///     budget: Budget { run_bytes: 64 << 20 },
///     limits: Limits { worst_tests: Some(256), ..Limits::default() },
///     strategy: Strategy::Force(Kind::BitSelect), // without it, candidates are timed
///     ..Config::default()
/// };
/// # assert_eq!(config.strategy.forced(), Some(Kind::BitSelect));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Maximum bytes of everything that readers share, in both replicas.
    ///
    /// These are the bases, tombstones, filters and overlays of all schemas. Memory that only the writer keeps is not
    /// counted.
    pub budget: Budget,
    /// Instruction set; `None` takes the best of the machine.
    pub simd: Option<Level>,
    /// Caps on a base while it is built and in the worst case.
    pub limits: Limits,
    /// How a base is chosen.
    pub strategy: Strategy,
    /// How the base of rules for IPv6 is chosen, if not by [`Config::strategy`].
    pub ipv6_strategy: Option<Strategy>,
    /// Engine that answers before the base; `None` lets the base answer.
    ///
    /// Bases behind a front change nothing in place, and [`Strategy::Measure`] compares none: it takes the first that
    /// fits.
    pub front: Option<Front>,
    /// Number of packets that callers look up at a time; candidates are timed accordingly.
    pub calls: Calls,
    /// Maximum number of region visits to time all candidates, counted as in the worst case; `None` is 2²⁶.
    ///
    /// A candidate with long lookups is timed on fewer packets, down to four at a time.
    pub trial: Option<usize>,
    /// Maximum number of rules in an overlay; insertions beyond it are refused until a rebuild is installed.
    ///
    /// A transaction of more insertions than that is committed over new bases
    /// ([`Transaction::commit`](super::Transaction::commit)).
    ///
    /// `None` is half of the base's rules, at least 1,024.
    pub overlay: Option<usize>,
    /// Number of rules in an overlay that makes a rebuild due.
    ///
    /// `None` is 2 % of the base's rules, at least 128, or half of the overlay's maximum if that is less. For example,
    /// that is 128 for 1,000 rules and 2,000 for 100,000.
    pub due: Option<usize>,
    /// Number of dead rules in a base that makes a rebuild due.
    ///
    /// `None` is a quarter of its rules, at least 1,024.
    pub dead: Option<usize>,
    /// Number of insertions and removals in place that makes a rebuild of a base due.
    ///
    /// `None` is half of the base's rules, at least 1,024. With 0, no base changes in place. Otherwise a rebuild
    /// prefers a base that changes in place, if its lookups take at most twice as long on every sort of traffic.
    pub in_place: Option<usize>,
    /// Seed of hashes; `None` takes a random one of this process.
    pub seed: Option<u64>,
    /// Limits on the regions that a rule is lowered to.
    ///
    /// They apply to [`open`](super::open), [`Transaction::insert`](super::Transaction::insert) and
    /// [`Writer::renumber`](super::Writer::renumber).
    pub expansion: ExpansionLimits,
    /// Limits on live sets.
    pub sets: SetLimits,
    /// Whether readers of a [`Handle`](super::Handle) find action, line and value of the rule that matched
    /// ([`Snapshot::attached`](super::Snapshot::attached)).
    ///
    /// It takes 24 bytes per rule and replica.
    pub attachments: bool,
    /// Whether [`Engine::overlaps`](super::Engine::overlaps) finds regions, for a [rule cache](crate::cache::rule)
    /// before an engine.
    ///
    /// It takes some 113 bytes per region and replica for the 5-tuple of IPv4, which the budget counts.
    pub overlaps: bool,
}

impl Config {
    /// Returns the configuration for the choice of a base for a schema.
    pub(super) fn selection(&self, schema: &Schema) -> select::Config {
        let of_ipv6 = self.ipv6_strategy.filter(|_| schema.family() == Some(Family::Ipv6));
        let strategy = match of_ipv6.unwrap_or(self.strategy) {
            Strategy::Measure if self.front.is_some() => Strategy::FirstFit,
            strategy => strategy,
        };
        select::Config {
            strategy,
            calls: self.calls,
            trial: self.trial.unwrap_or(TRIAL),
            limits: self.limits,
            simd: self.simd,
            seed: self.seed,
            changes_in_place: self.changes_in_place(),
        }
    }

    /// Whether bases may change in place.
    pub(super) fn changes_in_place(&self) -> bool {
        self.in_place != Some(0) && self.front.is_none()
    }

    /// Returns the maximum number of rules in the overlay of a base with `base` rules.
    pub(super) fn most_in_overlay(&self, base: usize) -> usize {
        self.overlay.unwrap_or((base / 2).max(1024))
    }

    pub(super) fn overlay_due(&self, base: usize) -> usize {
        let half = self.most_in_overlay(base).div_ceil(2).max(1);
        self.due.unwrap_or((base / 50).max(128).min(half)).max(1)
    }

    pub(super) fn in_place_due(&self, base: usize) -> usize {
        self.in_place.unwrap_or((base / 2).max(1024)).max(1)
    }

    pub(super) fn dead_due(&self, base: usize) -> usize {
        self.dead.unwrap_or((base / 4).max(1024)).max(1)
    }
}
