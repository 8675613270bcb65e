//! Profiles: what rules look like, in numbers.
//!
//! A [`Profile`] has what a ClassBench parameter file has (Taylor and Turner, *ClassBench: a packet classification
//! benchmark*, IEEE/ACM ToN 15(3), 2007): protocols, each with a joint distribution of its two port
//! classes; port values; prefix-length pairs by port classes; a source and a destination tree with branching, skew
//! and a bound on nesting; the correlation of the two addresses. All shares are weights: they need not sum to 1.
//!
//! The profiles that come with the crate are named in [`PROFILES`]; [`classbench::parse`] reads a parameter file.

mod builtin;
pub(crate) mod check;
pub mod classbench;
mod figures;
mod smooth;

use std::fmt;
use std::str::FromStr;

pub use builtin::PROFILES;
pub(crate) use check::with_ports;

/// The shape of a rule set.
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
    /// For each level from the root, 0 to 1: where a rule's two addresses agree so far, how often the destination's
    /// next bit is the source's too; else it is the other one, and from there on the destination is on its own.
    pub correlation: [f64; 32],
    /// How many rules the trees' figures were taken from. The trees of a larger set are fuller: see [`Tree`].
    /// `None`: the trees are as they are for a set of any size.
    pub scale: Option<u32>,
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
    /// The conditions on flags and their weights; none is no condition. They count where
    /// [`Config::flags`](crate::rules::Config::flags) asks for flags.
    pub flags: Vec<(Flags, f64)>,
}

/// A condition on the flags of ClassBench's last column, 16 bits under a mask. A mask of 0 is no condition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// The bits that must be set; no bit outside the mask.
    pub value: u16,
    /// The bits that are compared.
    pub mask: u16,
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

    /// All 25 in the order of ClassBench's parameter files: by and large those that match more come first.
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

    /// The place in [`PortPair::ALL`].
    pub(crate) fn rank(self) -> usize {
        Self::ALL.iter().position(|&other| other == self).unwrap_or(0)
    }

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

/// A binary tree that addresses are planted in, one level a bit of an IPv4 address (Taylor and Turner 2007, III-C).
///
/// All rules start at the root with the length of their prefix, which ends on that level. A node takes one side with
/// all it holds, or branches and shares it out by its skew: not by chance but in numbers, so that two rules that meet
/// a branch part. A rule that is alone goes on at random. So prefixes share ancestors as those of one network do, and
/// short prefixes hold longer ones.
///
/// # Growth
///
/// The tree of a set that is `g` times [`Profile::scale`] is fuller, as ClassBench's generator has it (its option
/// `-b`): from the root down levels come to branch always and evenly, until the imbalance `2 · (1 − b + b · s)`
/// (branching `b`, skew `s`) of those levels sums to `g`.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// For each level, from the root.
    pub levels: [Level; 32],
    /// The most prefixes that may lie one in another, the wildcard among them; `None` for any number. It bounds what
    /// is planted together: the few rules drawn anew because they came twice may nest deeper.
    pub nesting: Option<u8>,
}

/// How nodes of a level branch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The probability of two children, 0 to 1.
    pub branching: f64,
    /// How uneven two children are, 0 to 1: 1 less the weight of the lighter over that of the heavier. Which is the
    /// heavier is left to chance, but that of a destination is where rules follow their sources to.
    pub skew: f64,
}

impl Tree {
    /// A tree of these levels: each triple is the first level it is for, the branching and the skew from there on.
    /// Levels before the first never branch.
    pub fn of_levels(levels: &[(usize, f64, f64)]) -> Self {
        let level = |at| {
            let of = levels.iter().rev().find(|(first, ..)| *first <= at);
            of.map_or(Level { branching: 0.0, skew: 0.0 }, |&(_, branching, skew)| Level { branching, skew })
        };
        Self { levels: std::array::from_fn(level), nesting: None }
    }

    /// The same tree with a bound on nesting.
    #[must_use]
    pub fn with_nesting(mut self, most: u8) -> Self {
        self.nesting = Some(most);
        self
    }
}

/// A profile by its name: one of [`PROFILES`].
impl FromStr for Profile {
    type Err = UnknownProfile;

    fn from_str(name: &str) -> Result<Self, UnknownProfile> {
        Self::named(name).ok_or_else(|| UnknownProfile(name.to_owned()))
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
