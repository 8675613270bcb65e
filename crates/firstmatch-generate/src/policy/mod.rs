//! Rule sets like the policies of a data centre: most rules are on named groups of addresses and ports.
//!
//! A rule on groups is a product of lists, so a policy has many more regions than rules. For example, 10,000 rules have
//! some 500,000 regions.
//!
//! | part | IPv4 | IPv6 | share |
//! |---|---|---|---|
//! | network, one of 31 | 24 of 10.x/16, six of 172.16 to 172.31, 192.168/16 | /32 in 3fff::/20, fd00::/16, 2001:db8::/32 | |
//! | member: a host | /32 | /128 | 55 % |
//! | a subnet | /24 | /64 | 30 % |
//! | a site | /20 | /48 | 8 % |
//! | a network | /16 | /32 | 4 % |
//! | a range of 3 to 50 hosts of a subnet | | | 3 % |
//!
//! A network has 16 sites of 16 subnets of 256 hosts in either family, so that members overlap alike. A policy of *n*
//! rules has *n*/4 groups of addresses. The size of each is 1 plus a number drawn by Pareto's law with the exponent
//! 0.9, at most 60. It has *n*/20 groups of ports by Pareto's law with the exponent 1.1, at most 25. A port is one of 24
//! services in half of the draws. Otherwise it is one from 1,024 on or, in a fifth of all draws, a range of 2 to 1,000
//! ports.
//!
//! | rules | share |
//! |---|---|
//! | TCP, UDP, no protocol, ICMP | 70, 20, 7, 3 % |
//! | any source; any destination | 8 %; 4 % |
//! | destination is none of a group's | 1.5 % |
//! | other addresses: a group, a member | 75, 25 % |
//! | destination port of TCP and UDP: a group, a port or range, any | 50, 45, 5 % |
//!
//! Rules stand in the order in which they were drawn, as people add them, so some are shadowed. Rules that leave both
//! addresses open, or close them by `not` alone, stand last, because one of them before the others would take most of
//! their packets. No two rules have the same conditions, and none is without a condition on addresses and ports.
//!
//! ```
//! use firstmatch_generate::policy;
//!
//! let policy = policy::generate(&policy::Config { rules: 200, seed: 7, ..Default::default() })?;
//! let mut text = String::new();
//! policy.write(&mut text)?;
//! let read = firstmatch_formats::parse(&text, &firstmatch_formats::Options::default())?;
//! assert_eq!((read.rules.len(), policy.rules().len()), (200, 200));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod draw;
mod write;

use std::collections::HashSet;
use std::num::NonZeroU32;

use firstmatch_core::rule::{Action, Condition, Priority, RuleSpec, Test};
use firstmatch_core::schema::Family;
use firstmatch_core::{RuleSet, Schema};

use crate::error::Error;
use crate::random::{Purpose, Random};
use crate::rules::{self, Actions, Families};
use draw::Drawer;

/// Most rules of a policy.
pub const MAX_RULES: usize = 1 << 20;

/// Parameters of [`generate`].
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Number of rules, 1 to [`MAX_RULES`].
    pub rules: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// Address families of the rules; with both, each group is of one.
    pub families: Families,
    /// Actions of the rules; they change nothing else.
    pub actions: Actions,
}

impl Default for Config {
    /// Makes 1,000 rules in IPv4 with seed 1, 40 % of which deny.
    fn default() -> Self {
        Self { rules: 1000, seed: 1, families: Families::Ipv4, actions: Actions::Stated { deny: 0.4, mark: 0.0 } }
    }
}

/// Rule set with the groups that its rules name.
#[derive(Clone, Debug)]
pub struct GroupedRules {
    rules: RuleSet,
    families: Families,
    addresses: Vec<Group>,
    ports: Vec<Group>,
    /// Source, destination and destination port of each rule.
    named: Vec<[Values; 3]>,
}

/// Members of a group, with their family if the set has two.
#[derive(Clone, Debug)]
struct Group {
    of: Option<Family>,
    members: Vec<Test>,
}

/// Values of a condition: every value, one, or those of a group by its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Values {
    Any,
    One(Option<Family>, Test),
    Group(usize),
    NotGroup(usize),
}

impl GroupedRules {
    /// Returns the rules, with the members of each group in place of its name.
    pub fn rules(&self) -> &RuleSet {
        &self.rules
    }

    /// Returns the rules alone.
    pub fn into_rules(self) -> RuleSet {
        self.rules
    }

    /// Returns the sizes of the groups of addresses and of those of ports.
    pub fn group_sizes(&self) -> [Vec<usize>; 2] {
        [&self.addresses, &self.ports].map(|groups| groups.iter().map(|group| group.members.len()).collect())
    }
}

/// Indices of the fields of a 5-tuple that [`GroupedRules::named`] has, in its order.
const NAMED: [usize; 3] = [0, 1, 3];
/// Index of the protocol.
const PROTO: usize = 4;
/// Most draws for one rule until it is a new one.
const TRIES: u64 = 1000;

/// Generates a policy.
///
/// # Errors
/// If a value of `config` is out of its bounds, or 1,000 draws in a row give no new rule.
pub fn generate(config: &Config) -> Result<GroupedRules, Error> {
    let Config { rules: count, seed, families, actions } = *config;
    if count > MAX_RULES {
        return Err(Error::config(format!("rules is {count}, not a number from 1 to {MAX_RULES} for a policy")));
    }
    rules::Config { rules: count, families, actions, ..Default::default() }.check()?;
    let mut random = Random::new(seed, Purpose::Rules);
    let drawer = Drawer::new(count, families, &mut random);
    let [ipv4, ipv6] = [Family::Ipv4, Family::Ipv6].map(|family| Schema::five_tuple(family, &[]));
    let mut rules = match families {
        Families::Ipv4 => RuleSet::new(ipv4),
        Families::Ipv6 => RuleSet::new(ipv6),
        Families::Both { .. } => RuleSet::dual(ipv4, ipv6),
    };
    let mut seen = HashSet::with_capacity(count);
    let mut drafts = Vec::with_capacity(count);
    while drafts.len() < count {
        let drawn = (0..TRIES).find_map(|_| {
            let (proto, values) = drawer.rule(&mut random);
            let conditions = conditions(proto, values, &drawer);
            seen.insert(conditions.clone()).then_some((values, conditions))
        });
        let Some(drawn) = drawn else { return Err(Error::exhausted("policy", drafts.len(), count, TRIES)) };
        drafts.push(drawn);
    }
    // The sort is stable.
    drafts
        .sort_by_key(|([src, dst, _], _)| [src, dst].iter().all(|of| matches!(of, Values::Any | Values::NotGroup(_))));
    let mut deciding = Random::new(seed, Purpose::Actions);
    let mut named = Vec::with_capacity(count);
    for (line, (values, conditions)) in (1..).zip(drafts) {
        let spec = RuleSpec {
            priority: Priority::of_line(line),
            action: action(actions, &mut deciding),
            conditions: conditions.into(),
            family: None,
            line: NonZeroU32::new(line),
            value: 0,
        };
        rules.insert(spec).map_err(|error| Error::unsupported(format!("rule {line}: {error}")))?;
        named.push(values);
    }
    Ok(GroupedRules { rules, families, addresses: drawer.addresses, ports: drawer.ports, named })
}

/// Returns the conditions of a rule in the order in which its text has them.
fn conditions(proto: Option<u8>, values: [Values; 3], drawer: &Drawer) -> Vec<Condition> {
    let proto = proto.map(|proto| (false, vec![(None, Test::Value(proto.into()))]));
    let members = |group: &Group| group.members.iter().map(|member| (group.of, *member)).collect();
    let tests = |(field, values): (usize, Values)| {
        let groups = if field == NAMED[2] { &drawer.ports } else { &drawer.addresses };
        let tests = match values {
            Values::Any => None,
            Values::One(of, test) => Some((false, vec![(of, test)])),
            Values::Group(group) => Some((false, members(&groups[group]))),
            Values::NotGroup(group) => Some((true, members(&groups[group]))),
        };
        (field, tests)
    };
    let all = std::iter::once((PROTO, proto)).chain(NAMED.into_iter().zip(values).map(tests));
    let all = all.filter_map(|(field, tests)| Some((field, tests?)));
    all.map(|(field, (negated, tests))| Condition { field, negated, tests }).collect()
}

fn action(actions: Actions, random: &mut Random) -> Action {
    let Actions::Stated { deny, mark } = actions else { return Action::Match };
    match random.unit() {
        draw if draw < deny => Action::Deny,
        draw if draw < deny + mark => Action::Mark(random.between(1, 255)),
        _ => Action::Permit,
    }
}
