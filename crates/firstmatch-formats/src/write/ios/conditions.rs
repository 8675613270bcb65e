//! Conditions as texts of access lists, of which one must hold.

use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::rule::{Rule, Test};
use firstmatch_core::schema::{Family, Schema, Source};

use super::super::{as_prefix, as_range};
use super::Unwritable;
use crate::foreign::values::{DPORT, FieldIndex, ICMP_CODE, ICMP_TYPE, Values, max_of};
use crate::native::INET;

/// Largest number of ports behind one `eq`.
const MAX_PORTS: usize = 10;
/// TCP flags that routers test, by their bits.
const FLAGS: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];
/// Flags of which packets of an existing connection have one.
const ACK_RST: u128 = 0x14;

/// Condition of a rule on a field, for packets of one family.
pub(super) struct Asked<'s> {
    pub(super) name: &'s str,
    field: FieldIndex,
    width: u32,
    tests: Vec<Test>,
    negated: bool,
    /// Whether it holds for packets that lack the field.
    pub(super) has_absent: bool,
}

impl<'s> Asked<'s> {
    /// Returns the condition on the field of a source; `None` if there is none.
    pub(super) fn of(rule: &Rule, schema: &'s Schema, family: Family, source: Source) -> Option<Self> {
        let index = schema.index_of_source(source)?;
        let condition = rule.conditions.on(index)?;
        let (absent, tests): (Vec<Test>, Vec<Test>) =
            condition.tests_for(Some(family)).partition(|test| *test == Test::Absent);
        let field = INET.iter().position(|of| *of == source)?;
        let (name, width) = (schema.fields()[index].name(), schema.fields()[index].width());
        // `not absent` is any value, which all other conditions with `not` are within.
        let is_any = condition.negated && tests.is_empty() && !absent.is_empty();
        let tests = if is_any { vec![Test::Prefix { value: 0, len: 0 }] } else { tests };
        let negated = condition.negated && !is_any;
        Some(Self { name, field, width, tests, negated, has_absent: !condition.negated && !absent.is_empty() })
    }

    /// Whether no packet of the family meets the condition.
    pub(super) fn is_never(&self) -> bool {
        self.is_never_present() && !self.has_absent
    }

    /// Whether no packet that has the field meets the condition.
    pub(super) fn is_never_present(&self) -> bool {
        let is_all = |test: &Test| as_range(*test, self.width) == Some((0, u128::MAX >> (128 - self.width)));
        // A condition without a test for the family holds for no packet, negated or not.
        self.tests.is_empty() || self.negated && self.tests.iter().any(is_all)
    }

    /// Returns the values that meet the condition.
    pub(super) fn values(&self, family: Family) -> Result<Values, Unwritable> {
        let max = max_of(self.field, family);
        let mut ranges = Vec::new();
        for &test in &self.tests {
            match (as_range(test, self.width), test) {
                (Some(range), _) => ranges.push(range),
                (None, Test::Mask { value, mask }) => match Values::masked(value, mask, max) {
                    Some(values) => ranges.extend(values.ranges()),
                    None => return Err(self.fault("`not` before a mask with many holes")),
                },
                _ => return Err(self.fault("a live set")),
            }
        }
        let values = Values::of(ranges);
        Ok(if self.negated && !self.tests.is_empty() { values.negated(self.field, family) } else { values })
    }

    fn fault(&self, what: &str) -> Unwritable {
        Unwritable::new(format!("{what}, which access lists cannot say")).of(self.name)
    }
}

/// Returns addresses with their masks.
pub(super) fn addresses(asked: Option<Asked<'_>>, family: Family) -> Result<Vec<String>, Unwritable> {
    let Some(asked) = asked else { return Ok(vec!["any".into()]) };
    let mut texts = Vec::new();
    for &test in asked.tests.iter().filter(|_| !asked.negated) {
        match (as_prefix(test, asked.width), test, family) {
            (Some((value, len)), ..) => texts.push(prefix(value, len, family)),
            (None, Test::Range { lo, hi }, _) => {
                prefixes(lo, hi, asked.width, |value, len| texts.push(prefix(value, len, family)));
            }
            (None, Test::Mask { value, mask }, Family::Ipv4) => {
                texts.push(format!("{} {}", Ipv4Addr::from(value as u32), Ipv4Addr::from(!mask as u32)));
            }
            _ => return Err(asked.fault("a mask that is none of a prefix")),
        }
    }
    if asked.negated {
        for (lo, hi) in asked.values(family)?.ranges() {
            prefixes(lo, hi, asked.width, |value, len| texts.push(prefix(value, len, family)));
        }
    }
    Ok(texts)
}

fn prefix(value: u128, len: u32, family: Family) -> String {
    match family {
        _ if len == 0 => "any".into(),
        Family::Ipv4 if len == 32 => format!("host {}", Ipv4Addr::from(value as u32)),
        Family::Ipv4 => format!("{} {}", Ipv4Addr::from(value as u32), Ipv4Addr::from(u32::MAX >> len)),
        Family::Ipv6 if len == 128 => format!("host {}", Ipv6Addr::from(value)),
        Family::Ipv6 => format!("{}/{len}", Ipv6Addr::from(value)),
    }
}

/// Calls `each` with the fewest prefixes that are a range.
fn prefixes(mut lo: u128, hi: u128, width: u32, mut each: impl FnMut(u128, u32)) {
    loop {
        // The largest block that begins here and does not end behind the range.
        let mut free = lo.trailing_zeros().min(width);
        while free > 0 && lo + (u128::MAX >> (128 - free)) > hi {
            free -= 1;
        }
        each(lo, width - free);
        let last = lo + u128::MAX.checked_shr(128 - free).unwrap_or(0);
        if last >= hi {
            return;
        }
        lo = last + 1;
    }
}

/// Returns comparisons of ports.
pub(super) fn ports(values: &Values, family: Family) -> Vec<String> {
    let list = |ports: &[u128]| ports.iter().map(|port| format!(" {port}")).collect::<String>();
    let singles =
        |values: &Values| -> Vec<u128> { values.ranges().filter(|(lo, hi)| lo == hi).map(|(lo, _)| lo).collect() };
    let others = values.negated(DPORT, family);
    let all_others = singles(&others);
    if (1..=MAX_PORTS).contains(&all_others.len()) && all_others.len() == others.ranges().count() {
        return vec![format!(" neq{}", list(&all_others))];
    }
    let ranges = values.ranges().filter(|(lo, hi)| lo < hi).map(|(lo, hi)| format!(" range {lo} {hi}"));
    singles(values).chunks(MAX_PORTS).map(|ports| format!(" eq{}", list(ports))).chain(ranges).collect()
}

/// Returns conditions on the DSCP.
pub(super) fn dscps(values: Option<Values>) -> Vec<String> {
    let Some(values) = values else { return vec![String::new()] };
    let holds = |value: u128| !values.meet(&Values::one(value)).is_empty();
    if (0..64).all(holds) {
        return vec![String::new()];
    }
    let mut texts = Vec::new();
    for precedence in 0..8 {
        let class: Vec<u128> = (8 * precedence..8 * precedence + 8).filter(|&value| holds(value)).collect();
        if class.len() == 8 {
            texts.push(format!(" precedence {precedence}"));
        } else {
            texts.extend(class.iter().map(|value| format!(" dscp {value}")));
        }
    }
    texts
}

/// Returns conditions on the time to live.
pub(super) fn ttls(values: &Values) -> Vec<String> {
    let text = |(lo, hi): (u128, u128)| match (lo, hi) {
        (0, 255) => String::new(),
        _ if lo == hi => format!(" ttl eq {lo}"),
        _ => format!(" ttl range {lo} {hi}"),
    };
    values.ranges().map(text).collect()
}

/// Returns ICMP types with their codes; none if every message is meant.
pub(super) fn messages(
    of_type: Option<Asked<'_>>,
    code: Option<Asked<'_>>,
    family: Family,
) -> Result<Vec<String>, Unwritable> {
    let all = |field, values: &Values| values.negated(field, family).is_empty();
    let codes = match &code {
        Some(code) => Some(code.values(family)?).filter(|values| !all(ICMP_CODE, values)),
        None => None,
    };
    let types = match &of_type {
        Some(of_type) => Some(of_type.values(family)?).filter(|values| !all(ICMP_TYPE, values)),
        None => None,
    };
    let Some(types) = types else {
        return match (codes, code) {
            (Some(_), Some(code)) => Err(code.fault("codes without types")),
            _ => Ok(Vec::new()),
        };
    };
    let each = |values: &Values| values.ranges().flat_map(|(lo, hi)| lo..=hi).collect::<Vec<_>>();
    let codes: Vec<String> =
        codes.map_or(vec![String::new()], |codes| each(&codes).iter().map(|code| format!(" {code}")).collect());
    Ok(each(&types).iter().flat_map(|of_type| codes.iter().map(move |code| format!(" {of_type}{code}"))).collect())
}

/// Returns conditions on TCP flags; none if every packet with flags is meant.
pub(super) fn flags(asked: &Asked<'_>) -> Result<Vec<String>, Unwritable> {
    let mut pairs = Vec::new();
    for &test in &asked.tests {
        match (test, as_range(test, asked.width)) {
            (_, Some((0, 255))) => return Ok(Vec::new()),
            (Test::Mask { value, mask }, _) => pairs.push((value, mask)),
            (_, Some((lo, hi))) if lo == hi => pairs.push((lo, 0xFF)),
            _ => return Err(asked.fault("a range of flags")),
        }
    }
    pairs.sort_unstable();
    let is_established = match asked.negated {
        true => pairs[..] == [(0, ACK_RST)],
        false => pairs[..] == [(0x04, 0x04), (0x10, 0x10)],
    };
    if is_established {
        return Ok(vec![" established".into()]);
    }
    if pairs.iter().any(|(_, mask)| mask >> FLAGS.len() != 0) {
        return Err(asked.fault("the flags ECE and CWR"));
    }
    if asked.negated && pairs.len() > 1 {
        return Err(asked.fault("`not` before several sets of flags"));
    }
    let text = |&(value, mask): &(u128, u128)| {
        let named = FLAGS.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 == 1);
        let sign = |bit: usize| if (value >> bit & 1 == 1) != asked.negated { '+' } else { '-' };
        let named: String = named.map(|(bit, name)| format!(" {}{name}", sign(bit))).collect();
        format!(" {}{named}", if asked.negated { "match-any" } else { "match-all" })
    };
    Ok(pairs.iter().map(text).collect())
}
