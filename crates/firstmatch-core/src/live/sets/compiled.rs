//! Rules of live sets as they are put into the trees.

use std::sync::Arc;

use super::replica::MOST_FIELDS;
use crate::error::BuildError;
use crate::rule::{
    Condition, ConditionRef, ExpansionLimits, Member, Regions, RuleSpec, SetId, Test, lower_rule, unite_intervals,
};
use crate::schema::{Family, Schema};

/// Rule of live sets for all schemas; `None` where no packet matches.
#[derive(Debug)]
pub(in crate::live) struct Compiled {
    pub(super) parts: Box<[Option<CompiledPart>]>,
}

#[derive(Debug)]
pub(super) struct CompiledPart {
    /// Condition on each address field of the schema; `None` if the rule leaves it open.
    pub(super) fields: Box<[Option<SetCondition>]>,
    /// Regions of the other conditions; `None` if there are none.
    pub(super) rest: Option<Arc<Regions>>,
}

/// Condition that an address is in a live set or in an interval or, if negated, in none.
#[derive(Debug)]
pub(super) struct SetCondition {
    pub(super) negated: bool,
    pub(super) sets: Vec<SetId>,
    /// Intervals of the other tests, sorted and disjoint.
    pub(super) fixed: Vec<(u128, u128)>,
}

impl Compiled {
    /// Compiles a rule that tests live sets.
    ///
    /// # Errors
    /// If its conditions on other fields exceed a limit.
    pub(in crate::live) fn new(
        schemas: &[Schema],
        spec: &RuleSpec,
        expansion: &ExpansionLimits,
    ) -> Result<Self, BuildError> {
        let parts = schemas.iter().map(|schema| part(schema, spec, expansion)).collect::<Result<_, _>>()?;
        Ok(Self { parts })
    }
}

fn part(schema: &Schema, spec: &RuleSpec, expansion: &ExpansionLimits) -> Result<Option<CompiledPart>, BuildError> {
    let addresses = (0..schema.fields().len()).filter(|&field| schema.has_addresses(field)).take(MOST_FIELDS);
    let mut fields = Vec::new();
    let mut taken = Vec::new();
    for field in addresses {
        let condition = spec.conditions.on(field);
        let is_of_masks = |condition: &ConditionRef<'_>| condition.tests().any(|(_, test)| is_mask(test));
        match (condition.filter(|of| !is_of_masks(of)), schema.family()) {
            (Some(condition), Some(family)) => {
                taken.push(field);
                fields.push(Some(set_condition(condition, family)));
            }
            // Values under masks are no intervals: they are compared as regions.
            _ => fields.push(None),
        }
    }
    let is_never = |of: &SetCondition| of.sets.is_empty() && of.fixed.is_empty() && !of.negated;
    if fields.iter().flatten().any(is_never) || is_of_other_family(spec, &taken, schema) {
        return Ok(None);
    }
    let others = spec.conditions.iter().filter(|of| !taken.contains(&of.field)).map(ConditionRef::unpack);
    let others: Vec<Condition> = others.collect();
    let (is_open, rest) = (others.is_empty(), RuleSpec { conditions: others.into(), ..spec.clone() });
    let mut regions = Regions::new(schema.words().len());
    let count = lower_rule(schema, &rest, expansion, &mut regions)?;
    if count == 0 {
        return Ok(None);
    }
    let rest = (!is_open).then(|| Arc::new(regions));
    Ok(Some(CompiledPart { fields: fields.into(), rest }))
}

/// Whether a negated condition that went to the trees has no test of the family, so that it never holds.
fn is_of_other_family(spec: &RuleSpec, taken: &[usize], schema: &Schema) -> bool {
    let conditions = taken.iter().filter_map(|&field| spec.conditions.on(field));
    conditions.into_iter().any(|of| of.tests_for(schema.family()).next().is_none())
}

fn is_mask(test: Test) -> bool {
    matches!(test, Test::Mask { .. })
}

fn set_condition(condition: ConditionRef<'_>, family: Family) -> SetCondition {
    let (mut sets, mut fixed) = (Vec::new(), Vec::new());
    for test in condition.tests_for(Some(family)) {
        match test {
            Test::Set(id) => sets.push(id),
            test => fixed.extend(Member::of(family, test).map(|member| {
                let [lo, hi] = member.ends();
                (lo, hi)
            })),
        }
    }
    sets.sort_unstable();
    sets.dedup();
    SetCondition { negated: condition.negated, sets, fixed: unite_intervals(fixed) }
}
