//! Profiles: what rules look like, in numbers.
//!
//! A [`Profile`] has what a ClassBench parameter file has (Taylor and Turner, *ClassBench: a packet classification
//! benchmark*, IEEE/ACM ToN 15(3), 2007): protocols, each with a joint distribution of its two port
//! classes; port values; prefix-length pairs by port classes; a source and a destination tree with branching, skew
//! and a bound on nesting; the correlation of the two addresses. All shares are weights: they need not sum to 1.

mod builtin;
pub(crate) mod check;

use std::fmt;
use std::str::FromStr;

pub(crate) use check::with_ports;

/// The shape of a rule set. The four that come with the crate are [`Profile::acl`], [`Profile::fw`],
/// [`Profile::ipc`] and [`Profile::uniform`].
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// Its name, for messages.
    pub name: String,
    /// The protocols of rules.
    pub protocols: Vec<Protocol>,
    /// Whether any protocol may come with ports. By default only TCP (6), UDP (17), DCCP (33), SCTP (132) and
    /// UDP-Lite (136) may, and a profile that says otherwise is refused. (Some published filter sets have ports on
    /// other protocols.)
    pub ports_everywhere: bool,
    /// The values of source ports.
    pub source_ports: Ports,
    /// The values of destination ports.
    pub destination_ports: Ports,
    /// The prefix lengths of rules.
    pub lengths: Vec<LengthPair>,
    /// The prefix lengths of rules of these port classes, where they differ.
    pub lengths_of: Vec<(PortPair, Vec<LengthPair>)>,
    /// The tree that sources are drawn from.
    pub source: Tree,
    /// The tree that destinations are drawn from.
    pub destination: Tree,
    /// How much the two addresses of a rule are alike, 0 to 1: where the destination's tree branches and the two
    /// agree so far, the destination takes the source's side this often, and else draws. Where it is above 0 both
    /// trees are of one plan: where neither branches they take the same side.
    pub correlation: f64,
}

/// A protocol of rules and the ports that come with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Protocol {
    /// Its number; `None` is the wildcard.
    pub number: Option<u8>,
    /// The share of rules that have it.
    pub share: f64,
    /// The joint distribution of the classes of its two ports.
    pub ports: Vec<(PortPair, f64)>,
}

/// The five classes of port conditions (Taylor and Turner).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PortClass {
    /// Every port: no condition.
    Wildcard,
    /// The ports of the system, 0 to 1023.
    Low,
    /// The ports of users, 1024 to 65535.
    High,
    /// One port.
    Exact,
    /// Any other range.
    Range,
}

impl PortClass {
    /// All five.
    pub const ALL: [Self; 5] = [Self::Wildcard, Self::Low, Self::High, Self::Exact, Self::Range];

    /// The class of a closed range of ports.
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

/// The classes of a rule's source and destination ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortPair {
    /// The source's.
    pub source: PortClass,
    /// The destination's.
    pub destination: PortClass,
}

impl PortPair {
    /// Both are wildcards.
    pub const NONE: Self = Self::new(PortClass::Wildcard, PortClass::Wildcard);

    /// A pair.
    pub const fn new(source: PortClass, destination: PortClass) -> Self {
        Self { source, destination }
    }
}

/// The values of ports: those of a list, and others.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ports {
    /// The well-known values of the class [`PortClass::Exact`], each with its weight.
    pub exact: Vec<(u16, f64)>,
    /// The well-known values of the class [`PortClass::Range`].
    pub ranges: Vec<((u16, u16), f64)>,
    /// The share of exact ports and of ranges that are not of the lists (0 to 1).
    pub other: f64,
    /// How many different ones of these there are of each class; 0 for as many as there are.
    pub pool: usize,
}

/// The prefix lengths of a rule's two addresses, and how many rules have them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LengthPair {
    /// The source's, 0 to 32. In IPv6 lengths are [stretched](crate::stretch).
    pub source: u8,
    /// The destination's.
    pub destination: u8,
    /// The share of rules.
    pub share: f64,
}

impl LengthPair {
    /// A pair.
    pub const fn new(source: u8, destination: u8, share: f64) -> Self {
        Self { source, destination, share }
    }
}

/// A binary tree that addresses are drawn from, one level a bit of an IPv4 address.
///
/// A prefix is drawn by a walk from the root. Whether a node of level *l* branches is decided once and for all by the
/// seed, with the probability of its level; where it does not, the one way on is decided by the seed too. So prefixes
/// share ancestors as those of one network do, and short prefixes hold longer ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// For each level, from the root.
    pub levels: [Level; 32],
    /// How many leaves (addresses) the tree is to have; `None` leaves the branching as it is.
    pub leaves: Option<Leaves>,
    /// The most prefixes of rules that may lie one in another, without the wildcard; `None` for any number.
    pub nesting: Option<u8>,
}

/// How nodes of a level branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The probability of two children, 0 to 1.
    pub branching: f64,
    /// How uneven a walk takes two children, 0 to 1: 1 less the weight of the lighter over that of the heavier. Which
    /// is the heavier is decided by the seed.
    pub skew: f64,
}

/// How many leaves a tree has for a number of rules *n*: `factor · n^exponent`, in expectation.
///
/// The branching of every level is multiplied by one number, found by bisection, and is at most 1. Published sets
/// grow so: ten times the rules have nearly ten times the addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaves {
    /// Leaves for one rule.
    pub factor: f64,
    /// 0: as many for any number of rules; 1: in proportion.
    pub exponent: f64,
}

impl Tree {
    /// A tree of these levels: each triple is the first level it is for, the branching and the skew from there on.
    /// Levels before the first never branch.
    pub fn of_levels(levels: &[(usize, f64, f64)]) -> Self {
        let level = |at| {
            let of = levels.iter().rev().find(|(first, ..)| *first <= at);
            of.map_or(Level { branching: 0.0, skew: 0.0 }, |&(_, branching, skew)| Level { branching, skew })
        };
        Self { levels: std::array::from_fn(level), leaves: None, nesting: None }
    }

    /// The same tree, growing with the rules.
    #[must_use]
    pub fn with_leaves(mut self, factor: f64, exponent: f64) -> Self {
        self.leaves = Some(Leaves { factor, exponent });
        self
    }

    /// The same tree with a bound on nesting.
    #[must_use]
    pub fn with_nesting(mut self, most: u8) -> Self {
        self.nesting = Some(most);
        self
    }
}

/// The names of the profiles that come with the crate.
pub const PROFILES: [&str; 4] = ["acl", "fw", "ipc", "uniform"];

/// A profile by its name: one of [`PROFILES`].
impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        match name {
            "acl" => Ok(Self::acl()),
            "fw" => Ok(Self::fw()),
            "ipc" => Ok(Self::ipc()),
            "uniform" => Ok(Self::uniform()),
            _ => Err(UnknownProfile(name.to_owned())),
        }
    }
}

/// There is no profile of this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProfile(String);

impl fmt::Display for UnknownProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no profile {:?}; there are {}", self.0, PROFILES.join(", "))
    }
}

impl std::error::Error for UnknownProfile {}
