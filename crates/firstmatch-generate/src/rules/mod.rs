//! Generated rule sets.
//!
//! A [`Profile`] gives each rule a family, a protocol, the classes and values of its ports, and the lengths of its two
//! prefixes. Then the sources of all rules are planted in one tree and the destinations in another, as in ClassBench's
//! generator (Taylor and Turner 2007).
//!
//! A duplicate is drawn again, first with other ports, then with other prefixes, then as another kind of rule. If 2,000
//! kinds in a row give no new rule, the profile is exhausted. That is an error with the number of rules found, or gives
//! a smaller set ([`Config::fewer`]). Finally the rules are put in order.
//!
//! Profiles with [`Repeats::ByFlags`] drop duplicates instead, and more rules are drawn at first, because that keeps
//! the shares of rare kinds of rules.
//!
//! # Order and shadowing
//!
//! More specific rules tend to come first, because people write rules so. The order is that of a random product measure
//! of what rules match (`order.rs` has the argument): a rule that holds another always comes behind it. For example, a
//! rule for 10.1.0.0/16 stands before an otherwise equal rule for 10.0.0.0/8.
//!
//! # Invariants
//! - **No rule is shadowed by one earlier rule**, in a set of any size and for any disorder (test
//!   `no_rule_stands_behind_one_that_holds_it`). Exceptions are the share [`Config::shadowed`] and exact duplicates
//!   ([`Config::duplicates`], [`Repeats::ByFlags`]).
//!
//! Rules that several earlier rules cover together do occur, as in real sets; a [trace](crate::trace) finds them.
//!
//! [`Repeats::ByFlags`]: crate::profile::Repeats::ByFlags

mod draw;
mod emit;
mod order;
mod plant;
mod tree;

use firstmatch_core::RuleSet;

pub use tree::stretch;

use crate::error::Error;
use crate::profile::{Flags, Profile, check};
use crate::random::{Purpose, Random};
use draw::{Drawer, Tuple};
use order::Measures;

/// Most rules of a set: the most regions of a set, because each generated rule is one.
pub const MAX_RULES: usize = 1 << 24;

/// Parameters of [`generate`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of rules, 1 to [`MAX_RULES`]; exact unless [`Config::fewer`] is set.
    pub rules: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Shape of the rules.
    pub profile: Profile,
    /// Address families of the rules.
    pub families: Families,
    /// Actions of the rules.
    pub actions: Actions,
    /// Disorder of the rules, 0 to 1; with 0 they are ordered by how much they match.
    ///
    /// See [the module](self). With 0 a set takes as many tables of a tuple space as one that ClassBench's own
    /// generator made.
    pub disorder: f64,
    /// Share of rules that are exact copies of an earlier one, rounded down.
    pub duplicates: f64,
    /// Share of rules that lie wholly in one earlier rule and are no copies, rounded down.
    pub shadowed: f64,
    /// Whether the last rule matches everything; no other rule ever does.
    pub catch_all: bool,
    /// Largest distance of prefix lengths from the profile's, in bits of both together, 0 to 64.
    ///
    /// See [`Profile::smoothed`].
    pub smoothing: u8,
    /// Whether wider or narrower rules are favoured.
    pub scope: Scope,
    /// Whether rules have conditions on flags, the last column of ClassBench.
    ///
    /// If so, the schema's last field is `flags`. Profiles without a protocol have none.
    pub flags: bool,
    /// Whether an exhausted profile gives the distinct rules that were found instead of an error.
    pub fewer: bool,
}

/// ClassBench's two scope parameters, each -1 to 1 (Taylor and Turner 2007, III-E).
///
/// Above 0 rules that match more are drawn more often, below 0 rules that match less.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scope {
    /// Scope of the prefix lengths.
    pub addresses: f64,
    /// Scope of the port classes, ordered as [`PortPair::ALL`](crate::profile::PortPair::ALL).
    pub applications: f64,
}

impl Default for Config {
    /// Makes 1,000 rules of [`Profile::acl`] in IPv4 with seed 1, ordered by how much they match.
    ///
    /// The rules have no actions, copies, shadowed rules, flags, catch-all, smoothing or scope.
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

/// Address families of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Families {
    /// IPv4 alone: a set over [`Schema::ipv4`](firstmatch_core::Schema::ipv4), or over four fields of it for profiles
    /// [without a protocol](Profile::has_protocol).
    Ipv4,
    /// IPv6 alone: a set over [`Schema::ipv6`](firstmatch_core::Schema::ipv6), or over four fields of it.
    Ipv6,
    /// A dual-stack set; rules with two wildcard addresses are for both families.
    ///
    /// Profiles without a protocol have none.
    Both {
        /// Share of IPv6 among the rules, 0 to 1.
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

/// Actions of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Actions {
    /// [`Action::Match`](firstmatch_core::rule::Action::Match) alone, as in the ClassBench format.
    Unstated,
    /// Permit, deny, or mark with a number from 1 to 255, as in the native format.
    Stated {
        /// Share of `deny`, 0 to 1.
        deny: f64,
        /// Share of `mark`, 0 to 1; both shares together are at most 1.
        mark: f64,
    },
}

impl Config {
    /// Checks that every value is within its bounds.
    ///
    /// # Errors
    /// If a value is not; the error names it.
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
        if !self.profile.has_protocol && (self.flags || matches!(self.families, Families::Both { .. })) {
            let name = &self.profile.name;
            return Err(Error::config(format!(
                "the rules of the profile {name} have no field for the protocol: they have no flags, and are of one family"
            )));
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

/// Rule before it is written to the set.
#[derive(Clone, Copy, Debug)]
struct Draft {
    measure: i64,
    tuple: Tuple,
}

/// Generates a rule set.
///
/// The rule at place *n* (from 1) has the priority and line *n*, as in a file.
///
/// # Errors
/// If the configuration is out of its bounds, or the profile has too few distinct rules ([`Error::exhausted_at`]).
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
    // The sort is stable, so that a copy comes behind its original even if their measures are equal.
    drafts.sort_by_key(|draft| draft.measure);
    if config.catch_all {
        drafts.push(Draft { measure: 0, tuple: Tuple::EVERYTHING });
    }
    if !config.flags {
        drafts.iter_mut().for_each(|draft| draft.tuple.flags = Flags::default());
    }
    emit::rule_set(&drafts, config, &drawer)
}

/// Adds rules that lie in one of the first `own`, and puts each anywhere behind its holder.
///
/// Rules that were there stay free of shadow, because a rule that lies in the new one lies in its holder too. It stands
/// before the holder, and hence before the new rule.
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

/// Returns a random measure from `measure` to 0, the largest.
fn behind(measure: i64, random: &mut Random) -> i64 {
    measure + random.below(measure.unsigned_abs() + 1).cast_signed()
}
