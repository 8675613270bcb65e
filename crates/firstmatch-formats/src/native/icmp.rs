//! Names of ICMP types and codes, each with its number in ICMP and in ICMPv6.

use crate::report::Span;
use firstmatch_core::schema::Family;

/// Numbers in ICMP and in ICMPv6.
type Numbers = [Option<u8>; 2];

pub(super) const TYPES: [(&str, Numbers); 13] = [
    ("echo-request", [Some(8), Some(128)]),
    ("echo-reply", [Some(0), Some(129)]),
    ("unreachable", [Some(3), Some(1)]),
    ("packet-too-big", [None, Some(2)]),
    ("time-exceeded", [Some(11), Some(3)]),
    ("parameter-problem", [Some(12), Some(4)]),
    ("redirect", [Some(5), Some(137)]),
    ("router-solicitation", [Some(10), Some(133)]),
    ("router-advertisement", [Some(9), Some(134)]),
    ("neighbor-solicitation", [None, Some(135)]),
    ("neighbor-advertisement", [None, Some(136)]),
    ("timestamp-request", [Some(13), None]),
    ("timestamp-reply", [Some(14), None]),
];

/// Codes by the name of their type.
pub(super) const CODES: [(&str, &str, Numbers); 28] = [
    ("net-unreachable", "unreachable", [Some(0), None]),
    ("no-route", "unreachable", [None, Some(0)]),
    ("host-unreachable", "unreachable", [Some(1), None]),
    ("address-unreachable", "unreachable", [None, Some(3)]),
    ("protocol-unreachable", "unreachable", [Some(2), None]),
    ("port-unreachable", "unreachable", [Some(3), Some(4)]),
    ("fragmentation-needed", "unreachable", [Some(4), None]),
    ("source-route-failed", "unreachable", [Some(5), None]),
    ("net-unknown", "unreachable", [Some(6), None]),
    ("host-unknown", "unreachable", [Some(7), None]),
    ("net-prohibited", "unreachable", [Some(9), None]),
    ("host-prohibited", "unreachable", [Some(10), None]),
    ("net-tos", "unreachable", [Some(11), None]),
    ("host-tos", "unreachable", [Some(12), None]),
    ("admin-prohibited", "unreachable", [Some(13), Some(1)]),
    ("beyond-scope", "unreachable", [None, Some(2)]),
    ("policy-failed", "unreachable", [None, Some(5)]),
    ("reject-route", "unreachable", [None, Some(6)]),
    ("ttl-exceeded", "time-exceeded", [Some(0), Some(0)]),
    ("reassembly-timeout", "time-exceeded", [Some(1), Some(1)]),
    ("redirect-net", "redirect", [Some(0), None]),
    ("redirect-host", "redirect", [Some(1), None]),
    ("bad-header", "parameter-problem", [Some(0), Some(0)]),
    ("missing-option", "parameter-problem", [Some(1), None]),
    ("bad-length", "parameter-problem", [Some(2), None]),
    ("unknown-header", "parameter-problem", [None, Some(1)]),
    ("unknown-option", "parameter-problem", [None, Some(2)]),
    ("incomplete-chain", "parameter-problem", [None, Some(3)]),
];

/// Condition that names codes of a type.
#[derive(Clone, Copy)]
pub(super) struct Codes {
    pub(super) of_type: &'static str,
    pub(super) negated: bool,
    pub(super) span: Span,
}

/// Returns the numbers by family.
pub(super) fn by_family(numbers: Numbers) -> [(Family, Option<u8>); 2] {
    [(Family::Ipv4, numbers[0]), (Family::Ipv6, numbers[1])]
}

/// Returns the numbers of a type by its name.
pub(super) fn type_numbers(name: &str) -> Option<Numbers> {
    TYPES.iter().find(|t| t.0 == name).map(|t| t.1)
}

/// Returns the name of the type of a code, and the numbers of the code, by its name.
pub(super) fn code(name: &str) -> Option<(&'static str, Numbers)> {
    CODES.iter().find(|code| code.0 == name).map(|code| (code.1, code.2))
}

fn of(family: Family, numbers: Numbers) -> Option<u8> {
    numbers[usize::from(family == Family::Ipv6)]
}

/// Returns the name of an ICMP type (of an ICMPv6 type for IPv6) in rule files, if any.
pub fn icmp_type_name(family: Family, number: u8) -> Option<&'static str> {
    TYPES.iter().find(|t| of(family, t.1) == Some(number)).map(|t| t.0)
}

/// Returns the number of an ICMP type (of an ICMPv6 type for IPv6) by its name in rule files.
pub fn icmp_type_number(family: Family, name: &str) -> Option<u8> {
    of(family, type_numbers(name)?)
}

/// Returns the type and the code that the name of an ICMP code stands for in a family, if it has them.
///
/// ```
/// use firstmatch_core::schema::Family;
/// use firstmatch_formats::native::icmp_code_numbers;
///
/// assert_eq!(icmp_code_numbers(Family::Ipv4, "port-unreachable"), Some((3, 3)));
/// assert_eq!(icmp_code_numbers(Family::Ipv6, "port-unreachable"), Some((1, 4)));
/// assert_eq!(icmp_code_numbers(Family::Ipv6, "host-unreachable"), None);
/// ```
pub fn icmp_code_numbers(family: Family, name: &str) -> Option<(u8, u8)> {
    let (of_type, numbers) = code(name)?;
    Some((icmp_type_number(family, of_type)?, of(family, numbers)?))
}

/// Returns the name of each ICMP type with its numbers in ICMP and in ICMPv6.
pub(crate) fn icmp_type_numbers() -> impl Iterator<Item = (&'static str, Numbers)> {
    TYPES.into_iter()
}

/// Returns the name of each code of a type with its numbers in ICMP and in ICMPv6.
pub(crate) fn icmp_code_in(of_type: &str) -> impl Iterator<Item = (&'static str, Numbers)> + use<'_> {
    CODES.into_iter().filter(move |code| code.1 == of_type).map(|code| (code.0, code.2))
}
