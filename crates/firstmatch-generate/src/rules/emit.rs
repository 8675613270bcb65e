//! Drafts become a rule set.

use std::num::NonZeroU32;

use firstmatch::rule::{Action, Condition, Priority, RuleSpec, Test};
use firstmatch::schema::Family;
use firstmatch::{RuleSet, Schema};

use super::draw::{ANY_PORT, Drawer, Tuple};
use super::tree::Node;
use super::{Actions, Config, Draft, Families};
use crate::error::Error;
use crate::random::{Random, mix2};

/// The fields of a 5-tuple by their index.
const SRC: usize = 0;
const DST: usize = 1;
const SPORT: usize = 2;
const DPORT: usize = 3;
const PROTO: usize = 4;

pub(super) fn rule_set(drafts: &[Draft], config: &Config, drawer: &Drawer<'_>) -> Result<RuleSet, Error> {
    let mut set = match config.families {
        Families::Ipv4 => RuleSet::new(Schema::ipv4()),
        Families::Ipv6 => RuleSet::new(Schema::ipv6()),
        Families::Both { .. } => RuleSet::dual(Schema::ipv4(), Schema::ipv6()),
    };
    for (line, draft) in (1..).zip(drafts) {
        let spec = RuleSpec {
            priority: Priority::of_line(line),
            action: action(config, &draft.tuple),
            conditions: conditions(&draft.tuple, config.families, drawer).into(),
            family: None,
            line: NonZeroU32::new(line),
        };
        // A tuple is made of values that fit: no refusal is possible, and none would go unnoticed.
        set.insert(spec).map_err(|error| Error::unsupported(format!("rule {line}: {error}")))?;
    }
    Ok(set)
}

/// Wildcards are no conditions, as the parsers of both formats have it.
fn conditions(tuple: &Tuple, families: Families, drawer: &Drawer<'_>) -> Vec<Condition> {
    let count = usize::from(tuple.src.steps > 0)
        + usize::from(tuple.dst.steps > 0)
        + usize::from(tuple.sport != ANY_PORT)
        + usize::from(tuple.dport != ANY_PORT)
        + usize::from(tuple.proto.is_some());
    let mut conditions = Vec::with_capacity(count);
    let mut add =
        |field, family, test| conditions.push(Condition { field, negated: false, tests: vec![(family, test)] });
    if let Some(family) = tuple.family {
        let of = matches!(families, Families::Both { .. }).then_some(family);
        let mut prefix = |field, side, node: Node| {
            if node.steps > 0 {
                add(field, of, prefix_of(drawer, family, side, node));
            }
        };
        prefix(SRC, 0, tuple.src);
        prefix(DST, 1, tuple.dst);
    }
    for (field, (lo, hi)) in [(SPORT, tuple.sport), (DPORT, tuple.dport)] {
        if (lo, hi) != ANY_PORT {
            let range = Test::Range { lo: lo.into(), hi: hi.into() };
            add(field, None, if lo == hi { Test::Value(lo.into()) } else { range });
        }
    }
    if let Some(proto) = tuple.proto {
        add(PROTO, None, Test::Value(proto.into()));
    }
    conditions
}

fn prefix_of(drawer: &Drawer<'_>, family: Family, side: usize, node: Node) -> Test {
    let (value, len) = drawer.address(family, side, node);
    Test::Prefix { value, len }
}

/// Copies of a rule have its action: what is drawn depends on the tuple and the seed alone.
fn action(config: &Config, tuple: &Tuple) -> Action {
    let Actions::Stated { deny, mark } = config.actions else { return Action::Match };
    let mut random = Random::new(mix2(config.seed, tuple.fingerprint()), crate::random::Purpose::Actions);
    let draw = random.unit();
    match draw {
        _ if draw < deny => Action::Deny,
        _ if draw < deny + mark => Action::Mark(random.between(1, 255)),
        _ => Action::Permit,
    }
}
