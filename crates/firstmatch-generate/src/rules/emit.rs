//! Conversion of drafts into a rule set.

use std::num::NonZeroU32;

use firstmatch_core::rule::{Action, Condition, Priority, RuleSpec, Test};
use firstmatch_core::schema::{Family, Field, Kind, Source};
use firstmatch_core::{RuleSet, Schema};

use super::draw::{ANY_PORT, Drawer, Tuple};
use super::{Actions, Config, Draft, Families};
use crate::error::Error;
use crate::random::{Random, mix2};

/// Indices of the fields of a 5-tuple.
const SRC: usize = 0;
const DST: usize = 1;
const SPORT: usize = 2;
const DPORT: usize = 3;
const PROTO: usize = 4;
const FLAGS: usize = 5;

pub(super) fn rule_set(drafts: &[Draft], config: &Config, drawer: &Drawer<'_>) -> Result<RuleSet, Error> {
    let has_protocol = config.profile.has_protocol;
    let [ipv4, ipv6] = [Family::Ipv4, Family::Ipv6]
        .map(|family| if has_protocol { schema(family, config.flags) } else { four_fields(family) });
    let mut set = match config.families {
        Families::Ipv4 => RuleSet::new(ipv4),
        Families::Ipv6 => RuleSet::new(ipv6),
        Families::Both { .. } => RuleSet::dual(ipv4, ipv6),
    };
    for (line, draft) in (1..).zip(drafts) {
        let spec = RuleSpec {
            priority: Priority::of_line(line),
            action: action(config, &draft.tuple),
            conditions: conditions(&draft.tuple, config.families, drawer).into(),
            family: None,
            line: NonZeroU32::new(line),
            value: 0,
        };
        // A tuple's values always fit their fields, so an error here would be a fault of the generator.
        set.insert(spec).map_err(|error| Error::unsupported(format!("rule {line}: {error}")))?;
    }
    Ok(set)
}

/// Returns the schema of the 5-tuple, with ClassBench's flags if `flags` is set.
fn schema(family: Family, flags: bool) -> Schema {
    let mut fields = Schema::five_tuple(family, &[]).fields().to_vec();
    if flags {
        fields.push(Field::new("flags", 16, Kind::Mask, None));
    }
    Schema::new(Some(family), fields)
}

/// Returns the schema of addresses and ports without the protocol.
///
/// It has no family, as the native format declares it; `family` decides the width of addresses.
fn four_fields(family: Family) -> Schema {
    let fields = [Source::Src, Source::Dst, Source::SrcPort, Source::DstPort];
    Schema::new(None, fields.map(|source| Field::from_source(source, family)).into())
}

/// Returns the conditions of a tuple; as in the parsers, wildcards are no conditions.
fn conditions(tuple: &Tuple, families: Families, drawer: &Drawer<'_>) -> Vec<Condition> {
    let count = usize::from(tuple.src.steps > 0)
        + usize::from(tuple.dst.steps > 0)
        + usize::from(tuple.sport != ANY_PORT)
        + usize::from(tuple.dport != ANY_PORT)
        + usize::from(tuple.proto.is_some())
        + usize::from(tuple.flags.mask != 0);
    let mut conditions = Vec::with_capacity(count);
    let mut add =
        |field, family, test| conditions.push(Condition { field, negated: false, tests: vec![(family, test)] });
    if let Some(family) = tuple.family {
        let of = matches!(families, Families::Both { .. }).then_some(family);
        for (field, node) in [(SRC, tuple.src), (DST, tuple.dst)] {
            if node.steps > 0 {
                let (value, len) = drawer.address(family, node);
                add(field, of, Test::Prefix { value, len });
            }
        }
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
    match (u128::from(tuple.flags.value), tuple.flags.mask) {
        (_, 0) => {}
        (value, u16::MAX) => add(FLAGS, None, Test::Value(value)),
        (value, mask) => add(FLAGS, None, Test::Mask { value, mask: mask.into() }),
    }
    conditions
}

/// Returns the action of a rule.
///
/// It depends on the tuple and the seed alone, so that copies of a rule have its action.
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
