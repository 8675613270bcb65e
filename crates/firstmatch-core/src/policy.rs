//! Policy: the verdict on a packet once the classifier has answered, or could not be asked.

use std::fmt;

use crate::rule::Action;

/// Decision about a packet.
///
/// ```
/// use firstmatch_core::Verdict;
/// use firstmatch_core::rule::Action;
///
/// assert_eq!(Verdict::from(Action::Mark(7)).to_string(), "mark 7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// It passes.
    Permit,
    /// It is dropped.
    Deny,
    /// It passes with a number on it.
    Mark(u32),
    /// A rule that states no action matched it.
    Match,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Permit => f.write_str("permit"),
            Self::Deny => f.write_str("deny"),
            Self::Mark(number) => write!(f, "mark {number}"),
            Self::Match => f.write_str("match"),
        }
    }
}

impl From<Action> for Verdict {
    fn from(action: Action) -> Self {
        match action {
            Action::Permit => Self::Permit,
            Action::Deny => Self::Deny,
            Action::Mark(number) => Self::Mark(number),
            Action::Match => Self::Match,
        }
    }
}

/// Origin of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Basis {
    /// Rule that matched the packet.
    Rule,
    /// Policy: no rule matched, or the packet was not classified.
    Policy,
    /// Verdict cache, which holds verdicts without the rules that they come from.
    ///
    /// A rule or the policy gave the verdict when the cache was filled.
    Cached,
}

/// Treatment of non-first fragments, whose ports are in another packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fragments {
    /// Not classified: they get the verdict for unknown packets.
    #[default]
    Unknown,
    /// Classified as routers do, with all fields past the IP header absent, ports included.
    ///
    /// Rules without such conditions then let through the rest of a packet whose first fragment a rule with ports
    /// denied. For example, under `deny dport 23` and `permit src 10.0.0.0/8` the later fragments of a packet from
    /// 10.0.0.1 to port 23 pass.
    Layer3,
}

/// Verdicts for packets that no rule decides.
///
/// Everything is closed unless a rule file opens it.
///
/// ```
/// use firstmatch_core::{Policy, Verdict};
///
/// let open = Policy { default: Verdict::Permit, ..Policy::default() };
/// assert_eq!((open.default, open.unknown), (Verdict::Permit, Verdict::Deny));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// Verdict for packets that no rule matches.
    pub default: Verdict,
    /// Verdict for packets that were not classified: malformed, cut short, fragments, not IP.
    pub unknown: Verdict,
    /// Treatment of non-first fragments.
    pub fragments: Fragments,
}

impl Default for Policy {
    fn default() -> Self {
        Self { default: Verdict::Deny, unknown: Verdict::Deny, fragments: Fragments::Unknown }
    }
}
