//! Rule sets.
//!
//! Of each rule a [`Profile`] gives a family, a protocol, the classes of its ports and then their values, and the
//! lengths of the two prefixes. Then the sources of all are planted in one tree, then the destinations in another, as
//! ClassBench's generator does (Taylor and Turner 2007). A rule that comes twice is drawn anew, first with other ports,
//! then with other prefixes that rules have, then as a rule of another kind, some ten thousand times at most; a
//! profile that is exhausted then is an error that says how many rules there are, or a smaller set
//! ([`Config::fewer`]). At last the rules are put in order.
//!
//! # Order and shadowing
//!
//! More specific rules tend to come first, as people write them. The order is that of a random product measure of
//! what rules match (`order.rs` has the argument): a rule that holds another always comes behind it. So **no
//! rule is shadowed by one earlier rule**, in a set of any size and for any disorder, except for the share asked for
//! in [`Config::shadowed`] and exact duplicates ([`Config::duplicates`]). Rules that several earlier rules cover
//! together do occur, as in real sets; a [trace](crate::trace) finds them.

mod draw;
mod emit;
mod order;
mod plant;
mod tree;

use firstmatch::RuleSet;

pub use tree::stretch;

use crate::error::Error;
use crate::profile::{Profile, check};
use crate::random::{Purpose, Random};
use draw::{Drawer, Tuple};
use order::Measures;

/// The most rules of a set: as many as a set may have regions, of which each generated rule is one.
pub const MAX_RULES: usize = 1 << 24;

/// What to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// How many rules, 1 to [`MAX_RULES`]. Exactly so many come, or an error, unless [`Config::fewer`] says otherwise.
    pub rules: usize,
    /// Everything random comes from it.
    pub seed: u64,
    /// What rules look like.
    pub profile: Profile,
    /// The families of their addresses.
    pub families: Families,
    /// What rules ask for.
    pub actions: Actions,
    /// How far the order is from one by how much rules match, 0 to 1: see [the module](self). With 0 sets take as many
    /// tables of a tuple space as those that ClassBench's own generator made.
    pub disorder: f64,
    /// The share of rules that are exact copies of an earlier one, rounded down.
    pub duplicates: f64,
    /// The share of rules that lie wholly in one earlier rule and are no copies, rounded down.
    pub shadowed: f64,
    /// Whether the last rule matches everything. (No other one ever does.)
    pub catch_all: bool,
    /// How far prefix lengths may be from the profile's, in bits of the two together, 0 to 64: see
    /// [`Profile::smoothed`].
    pub smoothing: u8,
    /// Whether wider or narrower rules are favoured.
    pub scope: Scope,
    /// Whether rules have flags, the last column of ClassBench: the schema's last field is `flags` then.
    pub flags: bool,
    /// What an exhausted profile gives: all the distinct rules that were found (`true`), or an error.
    pub fewer: bool,
}

/// ClassBench's two knobs of scope, each -1 to 1: above 0 rules that match more are drawn more often, below 0 those
/// that match less (Taylor and Turner 2007, III-E).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scope {
    /// For the prefix lengths.
    pub addresses: f64,
    /// For the classes of ports, in the order of [`PortPair::ALL`](crate::profile::PortPair::ALL).
    pub applications: f64,
}

impl Default for Config {
    /// 1,000 rules of [`Profile::acl`] in IPv4, seed 1, without actions, copies, shadowed rules, flags or a last one
    /// that matches everything, without smoothing or scope, in the order of how much they match.
    fn default() -> Self {
        Self {
            rules: 1000,
            seed: 1,
            profile: Profile::acl(),
            families: Families::Ipv4,
            actions: Actions::Unstated,
            disorder: 0.0,
            duplicates: 0.0,
            shadowed: 0.0,
            catch_all: false,
            smoothing: 0,
            scope: Scope::default(),
            flags: false,
            fewer: false,
        }
    }
}

/// The families of addresses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Families {
    /// IPv4 alone: a set over [`Schema::ipv4`](firstmatch::Schema::ipv4).
    Ipv4,
    /// IPv6 alone: a set over [`Schema::ipv6`](firstmatch::Schema::ipv6).
    Ipv6,
    /// A dual-stack set. Rules with two wildcard addresses are for both families.
    Both {
        /// The share of IPv6 among the rules, 0 to 1.
        ipv6: f64,
    },
}

impl Families {
    fn ipv6(self) -> f64 {
        match self {
            Self::Ipv4 => 0.0,
            Self::Ipv6 => 1.0,
            Self::Both { ipv6 } => ipv6,
        }
    }
}

/// What rules ask for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Actions {
    /// Nothing ([`Action::Match`](firstmatch::rule::Action::Match)): what the ClassBench format holds.
    Unstated,
    /// To permit, to deny, or to mark with a number from 1 to 255: what the native format holds.
    Stated {
        /// The share of `deny`, 0 to 1.
        deny: f64,
        /// The share of `mark`, 0 to 1; both together are at most 1.
        mark: f64,
    },
}

impl Config {
    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// When one is not; the error names it.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=MAX_RULES).contains(&self.rules) {
            return Err(Error::config(format!("rules is {}, not a number from 1 to {MAX_RULES}", self.rules)));
        }
        let actions = match self.actions {
            Actions::Unstated => (0.0, 0.0),
            Actions::Stated { deny, mark } => (deny, mark),
        };
        let shares = [
            ("disorder", self.disorder),
            ("duplicates", self.duplicates),
            ("shadowed", self.shadowed),
            ("duplicates and shadowed together", self.duplicates + self.shadowed),
            ("the share of IPv6", self.families.ipv6()),
            ("deny", actions.0),
            ("mark", actions.1),
            ("deny and mark together", actions.0 + actions.1),
        ];
        for (what, value) in shares {
            check::share(what, value).map_err(Error::config)?;
        }
        for (what, value) in [("addresses", self.scope.addresses), ("applications", self.scope.applications)] {
            if !(-1.0..=1.0).contains(&value) {
                return Err(Error::config(format!("the scope of {what} is {value}, not a number from -1 to 1")));
            }
        }
        if self.smoothing > 64 {
            return Err(Error::config(format!("smoothing is {}, not a number from 0 to 64", self.smoothing)));
        }
        if self.duplicates + self.shadowed > 0.99 {
            return Err(Error::config("duplicates and shadowed together are above 0.99: too few rules are left"));
        }
        self.profile.check()
    }
}

/// A rule before it is written down.
#[derive(Clone, Copy, Debug)]
struct Draft {
    measure: i64,
    tuple: Tuple,
}

/// Generates a rule set. The rule of place *n* (from 1) has the priority and the line *n*, as in a file of its own.
///
/// # Errors
/// When the configuration is out of its bounds, or the profile cannot yield as many distinct rules
/// ([`Error::exhausted_at`]).
pub fn generate(config: &Config) -> Result<RuleSet, Error> {
    config.check()?;
    let part = |share: f64| ((config.rules as f64 * share) as usize).min(config.rules - 1);
    let last = usize::from(config.catch_all);
    let (copies, shadowed) = (part(config.duplicates), part(config.shadowed));
    let own = (config.rules - last).saturating_sub(copies + shadowed);
    if own == 0 && config.rules > last {
        return Err(Error::config("duplicates, shadowed rules and the last one leave no rule to be drawn"));
    }
    let smoothed = (config.smoothing > 0).then(|| config.profile.smoothed(config.smoothing));
    let mut drawer = Drawer::new(smoothed.as_ref().unwrap_or(&config.profile), config);
    let measures = Measures::new(config.seed, (config.disorder * 65536.0) as u64);

    let mut random = Random::new(config.seed, Purpose::Rules);
    let mut drafts = Vec::with_capacity(config.rules);
    let tuples = drawer.draw(own, &mut random)?;
    drafts.extend(tuples.into_iter().map(|tuple| Draft { measure: drawer.measure(&tuple, &measures), tuple }));
    if drafts.is_empty() && own > 0 {
        return Err(Error::exhausted(&config.profile.name, 0, own, 0));
    }
    let own = drafts.len();
    add_shadowed(&mut drafts, own, shadowed, config, &mut drawer)?;
    add_copies(&mut drafts, copies, config.seed);
    // Stable: a copy comes behind what it is a copy of even where the measures are the same.
    drafts.sort_by_key(|draft| draft.measure);
    if config.catch_all {
        drafts.push(Draft { measure: 0, tuple: Tuple::EVERYTHING });
    }
    emit::rule_set(&drafts, config, &drawer)
}

/// Adds rules that lie in one of the first `own`, and puts each anywhere behind that.
///
/// Rules that were there stay free of shadow: what lies in the new rule lies in its holder too, so it stands before
/// that and hence before the new one.
fn add_shadowed(
    drafts: &mut Vec<Draft>,
    own: usize,
    count: usize,
    config: &Config,
    drawer: &mut Drawer<'_>,
) -> Result<(), Error> {
    let mut random = Random::new(config.seed, Purpose::Copies);
    let mut patience = 64 * count + 1000;
    for done in 0..count {
        let tuple = loop {
            if patience == 0 {
                return Err(Error::exhausted(
                    &config.profile.name,
                    own + done,
                    config.rules,
                    8 * (64 * count + 1000) as u64,
                ));
            }
            patience -= 1;
            let holder = drafts[random.index(own)];
            if let Some(tuple) = drawer.refine(holder.tuple, &mut random) {
                break Draft { measure: behind(holder.measure, &mut random), tuple };
            }
        };
        drafts.push(tuple);
    }
    Ok(())
}

fn add_copies(drafts: &mut Vec<Draft>, count: usize, seed: u64) {
    let mut random = Random::new(seed.wrapping_add(1), Purpose::Copies);
    let distinct = drafts.len();
    for _ in 0..count {
        let of = drafts[random.index(distinct)];
        drafts.push(Draft { measure: behind(of.measure, &mut random), tuple: of.tuple });
    }
}

/// A place behind that of a measure; 0 is the largest.
fn behind(measure: i64, random: &mut Random) -> i64 {
    measure + random.below(measure.unsigned_abs() + 1).cast_signed()
}
