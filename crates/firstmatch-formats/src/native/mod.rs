//! The native format: one rule per line, and the first that matches wins.
//!
//! ```text
//! set web = { 80, 443, 8000-8099 }
//! deny   src not 10.0.0.0/8 dport 22
//! permit tcp dst { 192.0.2.10, 2001:db8:1:80::/64 } dport $web
//! ```
//!
//! The manual, `docs/rules.md`, ends with the grammar, which a test compares with this module.
//!
//! - After an address, `/` takes a prefix length (`10.0.0.0/8`) or a mask (`10.0.0.7/255.0.0.255`); after a number, it
//!   takes a mask (`0x02/0x12`). No bit may be set outside it. `-` joins the ends of a closed range.
//! - `except` takes values out of a range or a prefix (`10.0.0.0/8 except 10.1.0.0/16`). What is left is read as plain
//!   ranges and prefixes.
//! - Names stand for protocols, services, ICMP types and codes, extension headers and TCP flags. A name is an item by
//!   itself, never the end of a range. The name of an ICMP type means its ICMP number in IPv4 packets and its ICMPv6
//!   number in IPv6 packets. The name of an ICMP code also requires its type.
//! - Flags between commas, as `tcp syn,!ack`, must all hold; the values of a list are alternatives. `<`, `<=`, `>` and
//!   `>=` before a number stand for the range to an end of the field.
//! - A set must be defined once, before it is used. Sets may refer to earlier ones. The values of a set are checked
//!   against the field where it is used, so one set may mix IPv4 and IPv6. `include "FILE"` in a set stands for the
//!   values of a file, one per line; [`parse_with`](super::parse_with) reads such files.
//! - A rule has at most one condition on a field. An item belongs to the family of its address, a number to both. So a
//!   condition with only IPv4 addresses never holds for an IPv6 packet, negated or not. `family ipv4` before a number
//!   makes it belong to IPv4, too. As a part of the rule, at most once, it confines the whole rule.
//! - The schema is the 5-tuple of the family (or of both), then the other fields that some rule uses. Their order is
//!   `icmp_type`, `icmp_code`, `tcp_flags`, `ext_headers`, `routing_type`, `vlan_vid`, `fragment`, `dscp`, `ttl`,
//!   `length`. With [`Fields::All`](super::Fields::All) it has all of them.
//! - With `schema`, the given schema is used instead. It has no family, and conditions test its fields. MAC addresses,
//!   ether types and numbers of more than 32 bits are values only in such files. After a number, `/` takes a prefix
//!   length if the field is of kind prefix.
//! - Lines end with LF or CR LF; a CR anywhere else is a fault, even in a comment. Columns count characters from 1, a
//!   tab as one.
//!
//! `docs/rules.md` also defines the meaning of a condition on an absent field, and which packets are unknown.

mod codes;
mod correction;
mod entry;
mod except;
mod fields;
mod flags;
mod icmp;
mod include;
mod item;
mod lexer;
mod literal;
mod live;
mod names;
mod other_lines;
mod other_words;
mod parser;
mod rules;
mod schema;
mod services;
mod set_table;
mod sets;
mod value;
mod values;

pub(crate) use entry::ABSENT;
pub(crate) use fields::{ALWAYS, FieldInfo, INET, Takes};
pub use flags::tcp_flag;
pub(crate) use flags::written as written_flags;
pub(crate) use icmp::{icmp_code_in, icmp_type_numbers};
pub use icmp::{icmp_code_numbers, icmp_type_name, icmp_type_number};
pub use live::parse_rule;
pub(crate) use names::ether_type_name;
pub use names::{fragment_name, protocol_name, protocol_number};
pub(crate) use schema::{KINDS, is_field_name};
pub use services::{service_names, service_port};
pub use value::{ValueError, parse_value};

use super::{Load, Options, RuleFile};
use crate::error::ParseError;

/// Reads a native rule file, even if its first line looks like another format.
///
/// # Errors
/// If the file has a fault. The error holds all faults, in order, up to [`Options::max_faults`].
pub fn parse(text: &str, options: &Options) -> Result<RuleFile, ParseError> {
    parse_with(text, options, &no_files)
}

/// Reads a native rule file whose sets may include files, which `load` reads.
///
/// # Errors
/// As [`crate::parse_with`].
pub fn parse_with(text: &str, options: &Options, load: &Load<'_>) -> Result<RuleFile, ParseError> {
    parser::Parser::new(text, options, load).file()
}

/// Refuses every file.
pub(crate) fn no_files(_: &str) -> Result<String, String> {
    Err("no file can be read here".into())
}
