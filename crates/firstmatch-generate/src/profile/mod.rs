//! Profiles: the shape of rules in numbers.
//!
//! A [`Profile`] holds the same figures as a ClassBench parameter file (Taylor and Turner, *ClassBench: a packet
//! classification benchmark*, IEEE/ACM ToN 15(3), 2007):
//!
//! - protocols, each with a joint distribution of its two port classes, and the values of ports;
//! - pairs of prefix lengths for each pair of port classes;
//! - a source and a destination tree with branching, skew and a bound on nesting;
//! - the correlation of the two addresses.
//!
//! All shares are weights: they need not sum to 1.
//!
//! [`PROFILES`] and [`FULL_PROFILES`] name the built-in profiles; [`classbench::parse`] reads a parameter file.

mod builtin;
pub(crate) mod check;
pub mod classbench;
pub mod core;
mod sections;
mod short;
mod smooth;

use std::fmt;
use std::str::FromStr;

pub use builtin::{FULL_PROFILES, PROFILES};
pub(crate) use check::with_ports;

/// Shape of a rule set.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Name for messages.
    pub name: String,
    /// Protocols of rules.
    pub protocols: Vec<Protocol>,
    /// Whether rules have a field for the protocol.
    ///
    /// If not, they have four fields: two addresses and two ports. [`Profile::protocols`] then holds the wildcard
    /// alone, whose rules may test ports.
    pub has_protocol: bool,
    /// Whether any protocol may have ports.
    ///
    /// If not, only TCP (6), UDP (17), DCCP (33), SCTP (132) and UDP-Lite (136) may, and a profile that says otherwise
    /// is refused. (Some published filter sets have ports on other protocols.)
    pub ports_everywhere: bool,
    /// Values of source ports.
    pub source_ports: Ports,
    /// Values of destination ports.
    pub destination_ports: Ports,
    /// Prefix lengths of rules.
    pub lengths: Vec<LengthPair>,
    /// Prefix lengths of rules with given port classes, where they differ.
    pub lengths_of: Vec<(PortPair, Vec<LengthPair>)>,
    /// Tree that sources are drawn from.
    pub source: Tree,
    /// Tree that destinations are drawn from.
    pub destination: Tree,
    /// For each level, the probability that the two addresses agree in one more bit, 0 to 1.
    ///
    /// It applies while a rule's two addresses have agreed so far. After the first bit that differs, the destination is
    /// independent.
    pub correlation: [f64; 32],
    /// Number of rules that the trees' figures were taken from.
    ///
    /// The trees of a larger set are fuller: see [`Tree`]. With `None` the trees are the same for any size.
    pub scale: Option<u32>,
    /// Rules that a set may hold beside distinct ones.
    pub repeats: Repeats,
}

/// Rules that a set may hold beside distinct ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repeats {
    /// No rule equals another, and none matches everything.
    ///
    /// [`Config::duplicates`](crate::rules::Config::duplicates) and
    /// [`Config::catch_all`](crate::rules::Config::catch_all) add such rules on request.
    #[default]
    Never,
    /// Rules that differ by flags alone are copies, and a rule may match everything.
    ///
    /// ClassBench's generator compares rules with their flags, so its sets look like this to whoever ignores the last
    /// column. For example, a rule for TCP without a condition on flags and one for TCP with SYN become copies.
    ByFlags,
}

/// Protocol of rules and its ports.
#[derive(Clone, Debug, PartialEq)]
pub struct Protocol {
    /// Number of the protocol; `None` is the wildcard.
    pub number: Option<u8>,
    /// Share of rules that have it.
    pub share: f64,
    /// Joint distribution of the classes of the two ports.
    pub ports: Vec<(PortPair, f64)>,
    /// Conditions on flags with their weights; none is no condition.
    ///
    /// They apply if [`Config::flags`](crate::rules::Config::flags) is set.
    pub flags: Vec<(Flags, f64)>,
}

/// Condition on the flags in ClassBench's last column: 16 bits under a mask.
///
/// A mask of 0 is no condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// Bits that must be set; all of them lie in the mask.
    pub value: u16,
    /// Bits that are compared.
    pub mask: u16,
}

/// Class of port conditions (Taylor and Turner).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortClass {
    /// Every port: no condition.
    Wildcard,
    /// System ports, 0 to 1023.
    Low,
    /// User ports, 1024 to 65535.
    High,
    /// One port.
    Exact,
    /// Any other range.
    Range,
}

impl PortClass {
    /// All classes.
    pub const ALL: [Self; 5] = [Self::Wildcard, Self::Low, Self::High, Self::Exact, Self::Range];

    /// Returns the class of a closed range of ports.
    pub fn of(lo: u16, hi: u16) -> Self {
        match (lo, hi) {
            (0, u16::MAX) => Self::Wildcard,
            (0, 1023) => Self::Low,
            (1024, u16::MAX) => Self::High,
            _ if lo == hi => Self::Exact,
            _ => Self::Range,
        }
    }
}

/// Classes of a rule's source and destination ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortPair {
    /// Class of the source port.
    pub source: PortClass,
    /// Class of the destination port.
    pub destination: PortClass,
}

impl PortPair {
    /// Pair of two wildcards.
    pub const NONE: Self = Self::new(PortClass::Wildcard, PortClass::Wildcard);

    /// All 25 pairs in the order of ClassBench's parameter files, roughly from wide to narrow.
    pub const ALL: [Self; 25] = {
        use PortClass::{Exact as Em, High as Hi, Low as Lo, Range as Ar, Wildcard as Wc};
        let pairs = [
            (Wc, Wc),
            (Wc, Hi),
            (Hi, Wc),
            (Hi, Hi),
            (Wc, Lo),
            (Lo, Wc),
            (Hi, Lo),
            (Lo, Hi),
            (Lo, Lo),
            (Wc, Ar),
            (Ar, Wc),
            (Hi, Ar),
            (Ar, Hi),
            (Wc, Em),
            (Em, Wc),
            (Hi, Em),
            (Em, Hi),
            (Lo, Ar),
            (Ar, Lo),
            (Lo, Em),
            (Em, Lo),
            (Ar, Ar),
            (Ar, Em),
            (Em, Ar),
            (Em, Em),
        ];
        let mut all = [Self::NONE; 25];
        let mut at = 0;
        while at < all.len() {
            all[at] = Self::new(pairs[at].0, pairs[at].1);
            at += 1;
        }
        all
    };

    /// Returns the position in [`PortPair::ALL`].
    pub(crate) fn rank(self) -> usize {
        Self::ALL.iter().position(|&other| other == self).unwrap_or(0)
    }

    /// Creates a pair.
    pub const fn new(source: PortClass, destination: PortClass) -> Self {
        Self { source, destination }
    }
}

/// Values of ports: a list, and others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ports {
    /// Well-known values of the class [`PortClass::Exact`], each with its weight.
    pub exact: Vec<(u16, f64)>,
    /// Well-known values of the class [`PortClass::Range`], each with its weight.
    pub ranges: Vec<((u16, u16), f64)>,
    /// Share of exact ports and of ranges that are not in the lists, 0 to 1.
    pub other: f64,
    /// Number of distinct unlisted values of each class; 0 is unlimited.
    pub pool: usize,
}

/// Prefix lengths of a rule's two addresses, with their share of rules.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthPair {
    /// Length of the source's prefix, 0 to 32; in IPv6 lengths are [stretched](crate::stretch).
    pub source: u8,
    /// Length of the destination's prefix.
    pub destination: u8,
    /// Share of rules.
    pub share: f64,
}

impl LengthPair {
    /// Creates a pair.
    pub const fn new(source: u8, destination: u8, share: f64) -> Self {
        Self { source, destination, share }
    }
}

/// Binary tree in which addresses are planted, one level per bit of an IPv4 address.
///
/// The tree is that of Taylor and Turner 2007, III-C.
///
/// All rules start at the root, and each ends on the level of its prefix length. A node either passes all its rules to
/// one child, or branches and divides them by its skew. The division is by number, not by chance, so that two rules
/// that meet a branch separate. For example, a branch of skew 0.5 divides 900 rules into 600 and 300. A rule that is
/// alone continues at random. Prefixes thus share ancestors as those of one network do, and short prefixes hold longer
/// ones.
///
/// # Growth
///
/// The tree of a set that is `g` times [`Profile::scale`] is fuller, as in ClassBench's generator (its option `-b`).
/// From the root down, levels are made to branch always and evenly, until the imbalance `2 · (1 − b + b · s)`
/// (branching `b`, skew `s`) of those levels sums to `g`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// Levels from the root.
    pub levels: [Level; 32],
    /// Most prefixes that may nest, including the wildcard; `None` is unlimited.
    ///
    /// It bounds prefixes that are planted together. Duplicates are drawn anew and may nest deeper, but they are few.
    pub nesting: Option<u8>,
}

/// Branching of the nodes of one level.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Probability of two children, 0 to 1.
    pub branching: f64,
    /// Imbalance of two children, 0 to 1: 1 minus the lighter weight over the heavier.
    ///
    /// The heavier child is chosen at random; for destinations it is the child that more rules follow their sources to.
    pub skew: f64,
}

impl Tree {
    /// Builds a tree from triples of a first level, and the branching and skew from there on.
    ///
    /// Levels before the first triple never branch.
    pub fn of_levels(levels: &[(usize, f64, f64)]) -> Self {
        let level = |at| {
            let of = levels.iter().rev().find(|(first, ..)| *first <= at);
            of.map_or(Level { branching: 0.0, skew: 0.0 }, |&(_, branching, skew)| Level { branching, skew })
        };
        Self { levels: std::array::from_fn(level), nesting: None }
    }

    /// Returns the same tree with a bound on nesting.
    #[must_use]
    pub fn with_nesting(mut self, most: u8) -> Self {
        self.nesting = Some(most);
        self
    }
}

/// Parses the name of a built-in profile, one of [`PROFILES`] or [`FULL_PROFILES`].
impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        Self::named(name).ok_or_else(|| UnknownProfile(name.to_owned()))
    }
}

/// Error for a name that no profile has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (summed, full) = (PROFILES.join(", "), FULL_PROFILES.join(", "));
        write!(f, "there is no profile {:?}; there are {summed}, {full}", self.0)
    }
}

impl std::error::Error for UnknownProfile {}
