//! Rule sets as text. What a format cannot hold is an error that names it; nothing is dropped.
//!
//! Both writers take any rule set, generated or not. What they write parses back to rules of the same meaning in the
//! same order with [`firstmatch::format`], and generated sets to the same conditions.

mod classbench;
mod native;

pub use classbench::classbench;
pub use native::native;

use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch::rule::{Condition, Rule, Test};
use firstmatch::schema::{Family, Field};

/// An address as it is written.
fn address(family: Family, bits: u128) -> Address {
    match family {
        Family::Ipv4 => Address::Four(Ipv4Addr::from(bits as u32)),
        Family::Ipv6 => Address::Six(Ipv6Addr::from(bits)),
    }
}

enum Address {
    Four(Ipv4Addr),
    Six(Ipv6Addr),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Four(address) => address.fmt(f),
            Self::Six(address) => address.fmt(f),
        }
    }
}

fn condition(rule: &Rule, field: usize) -> Option<&Condition> {
    rule.conditions.iter().find(|condition| condition.field == field)
}

/// The closed interval of a test, where it is one.
fn interval(test: Test, field: &Field) -> Option<(u128, u128)> {
    match test {
        Test::Value(value) => Some((value, value)),
        Test::Range { lo, hi } => Some((lo, hi)),
        Test::Prefix { value, len } => Some((value, value | field.max().checked_shr(len).unwrap_or(0))),
        Test::Mask { value, mask } => {
            let free = field.max() & !mask;
            (free & free.wrapping_add(1) == 0).then_some((value, value | free))
        }
    }
}
