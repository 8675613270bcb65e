//! Tests of a condition as the items of the native format.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::as_range;
use crate::native::{
    ABSENT, Takes, ether_type_name, fragment_name, icmp_code_in, icmp_type_numbers, protocol_name, written_flags,
};
use firstmatch_core::rule::{Condition, LiveSets, Test};
use firstmatch_core::schema::{ExtensionHeader, Family, Field, Kind};

/// Form in which the values of a field are written.
pub(super) struct Look {
    pub(super) takes: Takes,
    /// Whether the schema is the file's own.
    pub(super) own: bool,
    /// Whether the name of a protocol alone is a condition on this field.
    pub(super) first_protocol: bool,
    /// Families of the set; empty for a schema of the file's own.
    pub(super) families: Vec<Family>,
}

impl Look {
    /// Returns the name of the ICMP type that a condition requires, if it requires only that.
    pub(super) fn icmp_type(&self, condition: &Condition, field: &Field) -> Option<&'static str> {
        if condition.negated || self.takes != (Takes::IcmpType { names: true }) {
            return None;
        }
        let tests = read_back(condition, field, self);
        let (name, count) = icmp_name(&tests, &self.families, icmp_type_numbers())?;
        (count == tests.len()).then_some(name)
    }
}

/// Returns the tests in the form in which they read back, so that a name is found for every form of its number.
fn read_back(condition: &Condition, field: &Field, look: &Look) -> Vec<(Option<Family>, Test)> {
    condition.tests.iter().map(|&(of, test)| (of, plain(test, field, look))).collect()
}

/// Returns the tests of a condition as items, in order.
///
/// Codes have names only in a rule for the one ICMP type `of_type`, because a name requires its type.
///
/// # Errors
/// If the format has no item for a test; the error names the test.
pub(super) fn items(
    condition: &Condition,
    field: &Field,
    look: &Look,
    of_type: Option<&str>,
    sets: &LiveSets,
) -> Result<Vec<String>, String> {
    let mut items = Vec::with_capacity(condition.tests.len());
    let read_back = match look.takes {
        Takes::IcmpType { names: true } | Takes::IcmpCode { names: true } => read_back(condition, field, look),
        _ => condition.tests.clone(),
    };
    let name = |rest: &[(Option<Family>, Test)]| match (look.takes, of_type) {
        (Takes::IcmpType { names: true }, _) => icmp_name(rest, &look.families, icmp_type_numbers()),
        (Takes::IcmpCode { names: true }, Some(of_type)) => icmp_name(rest, &look.families, icmp_code_in(of_type)),
        _ => None,
    };
    let mut rest = &read_back[..];
    while let Some((&(family, test), after)) = rest.split_first() {
        if let Some((name, count)) = name(rest) {
            items.push(name.to_owned());
            rest = &rest[count..];
            continue;
        }
        rest = after;
        if test == Test::Absent {
            items.push(family.map_or(ABSENT.to_owned(), |family| format!("family {family} {ABSENT}")));
            continue;
        }
        if let Test::Set(id) = test {
            let set = sets.get(id).ok_or("a live set that the rules lack")?;
            items.push(format!("${}", set.name()));
            continue;
        }
        match (look.takes, family) {
            // An address has the family of the field or, otherwise, of the test. If neither has one, it is written once
            // for each family.
            (Takes::Address(Some(of)), _) if look.own => items.push(slashed(test, |v| address(v, of))),
            (Takes::Address(_), Some(family)) => items.push(slashed(test, |v| address(v, family))),
            (Takes::Address(_), None) => {
                items.extend(look.families.iter().map(|&family| slashed(test, |v| address(v, family))));
            }
            (Takes::Mac, None) => items.push(slashed(test, mac)),
            (_, None) => items.push(number(test, field, look)?),
            (_, Some(family)) => items.push(format!("family {family} {}", number(test, field, look)?)),
        }
    }
    Ok(items)
}

/// Returns the name in `names` that reads as the first of these tests, and the number of tests it stands for.
fn icmp_name(
    tests: &[(Option<Family>, Test)],
    families: &[Family],
    mut names: impl Iterator<Item = (&'static str, [Option<u8>; 2])>,
) -> Option<(&'static str, usize)> {
    names.find_map(|(name, numbers)| {
        let of = |family: &Family| {
            let number = numbers[usize::from(*family == Family::Ipv6)]?;
            Some((Some(*family), Test::Value(number.into())))
        };
        let wanted: Vec<_> = families.iter().filter_map(of).collect();
        (!wanted.is_empty() && tests.starts_with(&wanted)).then_some((name, wanted.len()))
    })
}

pub(super) fn protocol(number: u128) -> Option<&'static str> {
    u8::try_from(number).ok().and_then(protocol_name)
}

/// Writes an address.
///
/// An IPv4 address has 32 bits, because a set takes no value wider than its field.
fn address(value: u128, family: Family) -> String {
    match family {
        Family::Ipv4 => Ipv4Addr::from(value as u32).to_string(),
        Family::Ipv6 => Ipv6Addr::from(value).to_string(),
    }
}

fn mac(value: u128) -> String {
    let bytes = (0..6).rev().map(|byte| format!("{:02x}", value >> (8 * byte) & 0xFF));
    bytes.collect::<Vec<_>>().join(":")
}

/// Writes a test of values after which `/` takes both lengths and masks.
fn slashed(test: Test, show: impl Fn(u128) -> String) -> String {
    match test {
        Test::Value(value) => show(value),
        Test::Prefix { value, len } => format!("{}/{len}", show(value)),
        Test::Range { lo, hi } => format!("{}-{}", show(lo), show(hi)),
        Test::Mask { value, mask } => format!("{}/{}", show(value), show(mask)),
        Test::Absent | Test::Set(_) => ABSENT.to_owned(),
    }
}

/// Returns a test of numbers in the form in which it reads back.
///
/// A prefix becomes a range or a value, unless `/` takes a length.
pub(super) fn plain(test: Test, field: &Field, look: &Look) -> Test {
    let Test::Prefix { value, len } = test else { return test };
    if takes_length(field, look) || matches!(look.takes, Takes::NumberOrAddress(_)) {
        return test;
    }
    match as_range(test, field.width()) {
        Some((lo, hi)) if len < field.width() => Test::Range { lo, hi },
        _ => Test::Value(value),
    }
}

/// Whether a number and `/` make a prefix in this field.
fn takes_length(field: &Field, look: &Look) -> bool {
    look.own && field.kind() == Kind::Prefix
}

/// Writes a test of numbers.
///
/// `/` is followed by a length if the field is of kind prefix, otherwise by a mask.
fn number(test: Test, field: &Field, look: &Look) -> Result<String, String> {
    let show = |value: u128| if field.kind() == Kind::Mask { format!("{value:#04x}") } else { value.to_string() };
    let takes_length = takes_length(field, look);
    let name = |value: u128| match look.takes {
        Takes::Protocol => protocol(value),
        Takes::Fragment => u8::try_from(value).ok().and_then(fragment_name),
        Takes::EtherType => u16::try_from(value).ok().and_then(ether_type_name),
        _ => None,
    };
    if let (Takes::ExtHeaders, Test::Mask { value, mask }) = (look.takes, test)
        && let Some(header) = ExtensionHeader::by_bit(value).filter(|_| value == mask)
    {
        return Ok(header.name.to_owned());
    }
    // In a list, commas separate values, so only one flag can be named there.
    if let (Takes::TcpFlags, Test::Mask { value, mask }) = (look.takes, test)
        && value == mask
        && mask.is_power_of_two()
        && let Some(flag) = written_flags(test)
    {
        return Ok(flag);
    }
    let other = |test: Test| match look.takes {
        Takes::NumberOrAddress(family) => Some(slashed(test, |v| address(v, family))),
        _ => None,
    };
    Ok(match test {
        Test::Value(value) => name(value).map_or_else(|| show(value), str::to_owned),
        Test::Range { lo, hi } => format!("{}-{}", show(lo), show(hi)),
        Test::Prefix { value, len } if takes_length => format!("{value:#04x}/{len}"),
        Test::Mask { value, mask } if !takes_length => format!("{value:#04x}/{mask:#04x}"),
        Test::Prefix { .. } => match other(test) {
            Some(text) => text,
            None => number(plain(test, field, look), field, look)?,
        },
        Test::Mask { .. } => match (other(test), as_range(test, field.width())) {
            (Some(text), _) => text,
            (None, Some((lo, hi))) => format!("{}-{}", show(lo), show(hi)),
            (None, None) => {
                return Err("a value under a mask, where the native format takes prefixes of numbers alone".into());
            }
        },
        Test::Absent | Test::Set(_) => ABSENT.to_owned(),
    })
}
