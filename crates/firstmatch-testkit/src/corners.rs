//! Keys where mistakes show: at the ends of tests, one step beyond, and where two rules meet.

use firstmatch_core::rule::{ConditionRef, FieldValues, Rule, RuleSet, RuleSpec, Test};
use firstmatch_core::schema::{Field, Schema};

use crate::rng::Rng;

/// Draws packets from the corners of `rules` for this schema.
///
/// Most lie in a rule, often in two; one in five is one step outside.
pub fn packets(schema: &Schema, rules: &[RuleSpec], rng: &mut Rng, count: usize) -> Vec<FieldValues> {
    let rules: Vec<Vec<Tried>> = rules.iter().map(|rule| tried_by(schema, rule)).collect();
    let mut probe = FieldValues { family: schema.family(), values: vec![None; schema.fields().len()] };
    (0..count).map(|_| packet(schema, &rules, &mut probe, rng)).collect()
}

/// Draws packets as [`packets`], from the live rules of a set.
pub fn of_set(set: &RuleSet, schema: &Schema, rng: &mut Rng, count: usize) -> Vec<FieldValues> {
    let rules: Vec<RuleSpec> = set.iter().map(|rule: &Rule| rule.spec.clone()).collect();
    packets(schema, &rules, rng, count)
}

type Corner = Vec<Option<u128>>;

/// Values of one field worth trying for one rule, and the rule's condition on that field.
struct Tried<'a> {
    condition: Option<ConditionRef<'a>>,
    corner: Corner,
}

impl Tried<'_> {
    /// Whether the condition holds for the value, by the oracle's own word; `probe` is overwritten.
    fn accepts(&self, schema: &Schema, probe: &mut FieldValues, value: Option<u128>) -> bool {
        self.condition.is_none_or(|condition| {
            probe.values[condition.field] = value;
            condition.holds(schema, probe)
        })
    }
}

/// Returns for each field the values worth trying, whether the rule accepts them or not.
///
/// For example, a port range of 10 to 20 gives 10, 20, 9, 21 and 15, as well as 0, 65,535 and absent.
fn tried_by<'a>(schema: &Schema, rule: &'a RuleSpec) -> Vec<Tried<'a>> {
    let tried = |(index, field): (usize, &Field)| {
        let condition = rule.conditions.on(index);
        let corner = condition.map_or_else(Vec::new, |condition| condition_corners(condition, schema, field));
        Tried { condition, corner }
    };
    schema.fields().iter().enumerate().map(tried).collect()
}

fn condition_corners(condition: ConditionRef<'_>, schema: &Schema, field: &Field) -> Corner {
    let max = field.max();
    let mut out = vec![Some(0), Some(max)];
    if field.is_optional() {
        out.push(None);
    }
    for (family, test) in condition.tests() {
        if family.is_some() && family != schema.family() {
            continue;
        }
        let mut interval = |lo: u128, hi: u128| {
            let around = [Some(lo), Some(hi), lo.checked_sub(1), hi.checked_add(1), Some(lo + (hi - lo) / 2)];
            out.extend(around.into_iter().flatten().filter(|&v| v <= max).map(Some));
        };
        match test {
            // Absent is tried for every optional field. The members of a live set are those of the rule set.
            Test::Absent | Test::Set(_) => {}
            Test::Value(value) => interval(value, value),
            Test::Range { lo, hi } => interval(lo, hi),
            Test::Prefix { value, len } => interval(value, value | max.checked_shr(len).unwrap_or(0)),
            Test::Mask { value, mask } => {
                let free = max & !mask;
                let (low, high) = (mask & mask.wrapping_neg(), top_bit(mask));
                interval(value, value);
                interval(value | free, value | free);
                for v in [value | (free & ODD_BITS), value | top_bit(free), value ^ high, value ^ low] {
                    out.push(Some(v));
                }
                out.push(Some((value | free) ^ high));
                out.push(Some((value | free) ^ low));
            }
        }
    }
    out
}

fn top_bit(v: u128) -> u128 {
    if v == 0 { 0 } else { 1 << (127 - v.leading_zeros()) }
}

fn packet(schema: &Schema, rules: &[Vec<Tried>], probe: &mut FieldValues, rng: &mut Rng) -> FieldValues {
    let fields = schema.fields();
    let mut out = FieldValues { family: schema.family(), values: vec![None; fields.len()] };
    if rules.is_empty() {
        for (value, field) in out.values.iter_mut().zip(fields) {
            *value = anything(field, rng);
        }
        return out;
    }
    let (a, b) = (rng.below(rules.len()), rng.below(rules.len()));
    for (index, field) in fields.iter().enumerate() {
        let (a, b) = (&rules[a][index], &rules[b][index]);
        let mut tried: Corner = a.corner.iter().chain(&b.corner).copied().collect();
        if tried.is_empty() {
            // Neither cares, so take what some other rule cares about, or anything at all.
            let other = rng.below(rules.len());
            tried.extend(&rules[other][index].corner);
            tried.push(anything(field, rng));
        }
        let one: Corner = tried.iter().copied().filter(|v| a.accepts(schema, probe, *v)).collect();
        let both: Corner = one.iter().copied().filter(|v| b.accepts(schema, probe, *v)).collect();
        let from = if !both.is_empty() {
            &both
        } else if !one.is_empty() {
            &one
        } else {
            &tried
        };
        out.values[index] = *rng.pick(from);
    }
    if rng.percent(20) {
        let index = rng.below(fields.len());
        let a = &rules[a][index];
        let outside: Corner = a.corner.iter().copied().filter(|v| !a.accepts(schema, probe, *v)).collect();
        if !outside.is_empty() {
            out.values[index] = *rng.pick(&outside);
        }
    }
    out
}

fn anything(field: &Field, rng: &mut Rng) -> Option<u128> {
    if field.is_optional() && rng.percent(30) { None } else { Some(rng.bits(field.width())) }
}

/// Returns every packet of a schema whose whole domain is small; `None` when it is not.
pub fn every_packet(schema: &Schema, most: usize) -> Option<Vec<FieldValues>> {
    let mut all = vec![Vec::new()];
    for field in schema.fields() {
        if field.width() > 16 {
            return None;
        }
        let absent = field.is_optional().then_some(None);
        let values: Corner = (0..=field.max()).map(Some).chain(absent).collect();
        if all.len() * values.len() > most {
            return None;
        }
        let longer = |row: &Corner, value: Option<u128>| row.iter().copied().chain([value]).collect();
        all = all.iter().flat_map(|row| values.iter().map(move |&value| longer(row, value))).collect();
    }
    Some(all.into_iter().map(|values| FieldValues { family: schema.family(), values }).collect())
}

/// Mask of every second bit.
const ODD_BITS: u128 = u128::MAX / 3;
