//! Text of a policy in the native format.

use std::fmt::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::rule::Test;
use firstmatch_core::schema::Family;

use super::{Group, GroupedRules, PROTO, Values};
use crate::rules::Families;

/// Most characters of a line of a set.
const LINE: usize = 100;

impl GroupedRules {
    /// Writes the policy in the native format: each group that a rule names as a `set`, then the rules.
    ///
    /// Read back, the conditions of the rules are those of [`GroupedRules::rules`].
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> fmt::Result {
        let family = match self.families {
            Families::Ipv4 => "ipv4",
            Families::Ipv6 => "ipv6",
            Families::Both { .. } => "inet",
        };
        write!(out, "family {family}\ndefault deny\n\n")?;
        for (kind, groups, fields) in [(ADDRESSES, &self.addresses, 0..2), (PORTS, &self.ports, 2..3)] {
            let mut is_named = vec![false; groups.len()];
            for values in self.named.iter().flat_map(|values| &values[fields.clone()]) {
                if let Values::Group(group) | Values::NotGroup(group) = *values {
                    is_named[group] = true;
                }
            }
            for (index, group) in groups.iter().enumerate().filter(|(index, _)| is_named[*index]) {
                self.set(kind, index, group, out)?;
            }
            writeln!(out)?;
        }
        for (rule, values) in self.rules.iter().zip(&self.named) {
            write!(out, "{}", rule.action)?;
            match rule.conditions.on(PROTO).and_then(|proto| proto.tests().next()) {
                Some((_, Test::Value(6))) => out.write_str(" tcp")?,
                Some((_, Test::Value(17))) => out.write_str(" udp")?,
                Some((_, Test::Value(1))) => out.write_str(" icmp")?,
                Some(_) => out.write_str(" icmpv6")?,
                None => {}
            }
            for ((field, kind), values) in [("src", ADDRESSES), ("dst", ADDRESSES), ("dport", PORTS)].iter().zip(values)
            {
                match *values {
                    Values::Any => {}
                    Values::One(of, test) => write!(out, " {field} {}", self.member(of, test, *kind == PORTS))?,
                    Values::Group(group) => write!(out, " {field} ${kind}{}", group + 1)?,
                    Values::NotGroup(group) => write!(out, " {field} not ${kind}{}", group + 1)?,
                }
            }
            writeln!(out)?;
        }
        Ok(())
    }

    /// Writes a set, in lines of at most [`LINE`] characters.
    fn set(&self, kind: &str, index: usize, group: &Group, out: &mut dyn Write) -> fmt::Result {
        let mut line = format!("set {kind}{} = {{", index + 1);
        let last = group.members.len() - 1;
        for (index, member) in group.members.iter().enumerate() {
            let end = if index == last { " }" } else { "," };
            let text = format!(" {}{end}", self.member(group.of, *member, kind == PORTS));
            if line.len() + text.len() > LINE {
                writeln!(out, "{line}")?;
                line = String::from("   ");
            }
            line += &text;
        }
        writeln!(out, "{line}")
    }

    /// Returns the text of a member.
    fn member(&self, of: Option<Family>, test: Test, is_port: bool) -> String {
        let is_ipv4 = match of {
            Some(family) => family == Family::Ipv4,
            None => matches!(self.families, Families::Ipv4),
        };
        let value = |value: u128| match (is_port, is_ipv4) {
            (true, _) => value.to_string(),
            (false, true) => Ipv4Addr::from(value as u32).to_string(),
            (false, false) => Ipv6Addr::from(value).to_string(),
        };
        match test {
            Test::Prefix { value: address, len } => format!("{}/{len}", value(address)),
            Test::Range { lo, hi } => format!("{}-{}", value(lo), value(hi)),
            Test::Value(number) | Test::Mask { value: number, .. } => value(number),
            // No policy has live sets.
            Test::Absent | Test::Set(_) => "absent".into(),
        }
    }
}

/// Beginnings of the names of sets.
const ADDRESSES: &str = "hosts_";
const PORTS: &str = "ports_";
