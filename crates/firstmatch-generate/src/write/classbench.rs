//! The ClassBench format.

use std::io::Write;

use firstmatch::RuleSet;
use firstmatch::rule::{Action, Condition, Rule, Test};
use firstmatch::schema::{Family, Field, Schema};

use super::{address, condition, interval};
use crate::error::WriteError;

const FORMAT: &str = "ClassBench";
const FIVE: [&str; 5] = ["src", "dst", "sport", "dport", "proto"];

/// Writes a set in the ClassBench format, one rule a line and nothing else:
/// `@src/len<tab>dst/len<tab>lo : hi<tab>lo : hi<tab>0xPP/0xMM`, and the flags where the set has such a field.
///
/// The format holds one family, no actions, and for each rule two prefixes, two ranges of ports and a value under a
/// mask. To demand that a port be there, whatever it is, has no form either: `0 : 65535` is no condition.
///
/// # Errors
/// When the writer fails, or a rule has what the format cannot hold; what was written by then stays.
pub fn classbench<W: Write>(set: &RuleSet, mut out: W) -> Result<(), WriteError> {
    let fail = |what: String| Err(WriteError::unsupported(0, FORMAT, what));
    let [schema] = set.schemas() else { return fail("it holds one address family, the set has two".into()) };
    let Some(family) = schema.family() else { return fail("its rules have addresses, the set has no family".into()) };
    let flags = match schema.fields() {
        [five @ .., flags] if five.len() == 5 && flags.name() == "flags" && flags.width() == 16 => true,
        five if five.len() == 5 => false,
        fields => {
            let extra = fields.iter().find(|field| !FIVE.contains(&field.name()));
            return fail(format!("it has no field {}", extra.map_or("of that number", |field| field.name())));
        }
    };
    for (field, name) in schema.fields().iter().zip(FIVE) {
        if field.name() != name {
            return fail(format!("the field {} stands where it has {name}", field.name()));
        }
    }
    for (place, rule) in set.iter().enumerate() {
        let row = Row { schema, family, rule, place };
        if rule.action != Action::Match {
            return Err(row.fault(&format!("it states no action, the rule says {}", rule.action)));
        }
        let ((src, src_len), (dst, dst_len)) = (row.prefix(0)?, row.prefix(1)?);
        let ((slo, shi), (dlo, dhi)) = (row.ports(2)?, row.ports(3)?);
        let (proto, mask) = row.masked(4)?;
        let (src, dst) = (address(family, src), address(family, dst));
        write!(out, "@{src}/{src_len}\t{dst}/{dst_len}\t{slo} : {shi}\t{dlo} : {dhi}\t0x{proto:02X}/0x{mask:02X}")?;
        if flags {
            let (value, mask) = row.masked(5)?;
            write!(out, "\t0x{value:04X}/0x{mask:04X}")?;
        }
        out.write_all(b"\n")?;
    }
    Ok(())
}

struct Row<'s> {
    schema: &'s Schema,
    family: Family,
    rule: &'s Rule,
    place: usize,
}

impl Row<'_> {
    fn fault(&self, what: &str) -> WriteError {
        WriteError::unsupported(self.place, FORMAT, what)
    }

    /// The one test of a field, where there is a condition on it.
    fn test(&self, index: usize) -> Result<Option<(Test, &Field)>, WriteError> {
        let field = &self.schema.fields()[index];
        let family = self.rule.family.unwrap_or(self.family);
        if family != self.family {
            return Err(self.fault(&format!("the rule is confined to {family}, the set is {}", self.family)));
        }
        match condition(self.rule, index) {
            None => Ok(None),
            Some(Condition { negated: true, .. }) => {
                Err(self.fault(&format!("it has no negation, of {} or any field", field.name())))
            }
            Some(Condition { tests, .. }) => match tests[..] {
                [(_, test)] => Ok(Some((test, field))),
                _ => Err(self.fault(&format!("it has no lists, and {} has one of {}", field.name(), tests.len()))),
            },
        }
    }

    fn prefix(&self, index: usize) -> Result<(u128, u32), WriteError> {
        let Some((test, field)) = self.test(index)? else { return Ok((0, 0)) };
        let prefix = interval(test, field).and_then(|(lo, hi)| {
            let free = lo ^ hi;
            let whole = free & free.wrapping_add(1) == 0 && lo & free == 0;
            whole.then(|| (lo, field.width() - free.count_ones()))
        });
        prefix.ok_or_else(|| self.fault(&format!("{} is a prefix there, the rule has {test:?}", field.name())))
    }

    fn ports(&self, index: usize) -> Result<(u128, u128), WriteError> {
        let Some((test, field)) = self.test(index)? else { return Ok((0, field_max(self.schema, index))) };
        match interval(test, field) {
            Some((0, hi)) if hi == field.max() => {
                Err(self.fault(&format!("it cannot demand that {} be there", field.name())))
            }
            Some(range) => Ok(range),
            None => Err(self.fault(&format!("{} is a range there, the rule has {test:?}", field.name()))),
        }
    }

    fn masked(&self, index: usize) -> Result<(u128, u128), WriteError> {
        let Some((test, field)) = self.test(index)? else { return Ok((0, 0)) };
        match test {
            Test::Value(value) => Ok((value, field.max())),
            Test::Mask { value, mask } => Ok((value, mask)),
            Test::Prefix { value, len } => Ok((value, field.max() & !field.max().checked_shr(len).unwrap_or(0))),
            Test::Range { .. } => {
                Err(self.fault(&format!("{} is a value under a mask there, the rule has {test:?}", field.name())))
            }
        }
    }
}

fn field_max(schema: &Schema, index: usize) -> u128 {
    schema.fields()[index].max()
}
