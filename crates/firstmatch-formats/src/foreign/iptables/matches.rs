//! Conditions of match modules.

use firstmatch_core::schema::Family;

use super::super::options::{Hook, RateLimit, State};
use super::super::values::{
    DPORT, DSCP, DST, FieldIndex, ICMP_CODE, ICMP_TYPE, LENGTH, PROTO, ROUTING_TYPE, SPORT, SRC, TCP_FLAGS, TTL,
    Values, max_of,
};
use super::modules::{Module, WITH_PORTS};
use super::rule::RuleReader;
use super::words::Word;
use super::{Stop, address, names, number};
use crate::report::{Message, Span, quote};

/// TCP flags by name; `ALL` lacks ECE and CWR.
const FLAGS: [(&str, u8); 8] =
    [("FIN", 1), ("SYN", 2), ("RST", 4), ("PSH", 8), ("ACK", 0x10), ("URG", 0x20), ("ALL", 0x3F), ("NONE", 0)];
/// Flags ACK and RST, of which a packet of an existing connection has one.
const ACK_RST: u128 = 0x14;

impl RuleReader<'_, '_> {
    /// Reads the value of an option and adds its condition.
    pub(super) fn condition(
        &mut self,
        module: Module,
        name: &'static str,
        option: &Word<'_>,
        negated: bool,
    ) -> Result<(), Stop> {
        let span = option.span;
        match name {
            "--syn" => {
                self.flags(0x17, 0x02, negated);
                return Ok(());
            }
            "--tcp-flags" => return self.tcp_flags(span, negated),
            _ => {}
        }
        let value = self.next("a value", span)?;
        let text = &*value.text;
        let at = value.span;
        match name {
            "--sport" | "--dport" => {
                let field = if name == "--sport" { SPORT } else { DPORT };
                let ports = self.ports(&value)?;
                self.restrict_to(field, Values::of([ports]), negated);
            }
            "--sports" | "--dports" | "--ports" => return self.multiport(name, &value, negated),
            "--icmp-type" => return self.icmp(&value, negated),
            "--ctstate" => return self.state(module, &value, negated),
            "--comment" => self.comment = Some(text.to_owned()),
            "--src-range" | "--dst-range" => {
                let field = if name == "--src-range" { SRC } else { DST };
                match address::range(text, self.family) {
                    Ok(values) => self.restrict_to(field, values, negated),
                    Err(message) => return self.fault(at, message),
                }
            }
            "--ttl-eq" => {
                let number = self.number(&value, 255)?;
                self.restrict_to(TTL, Values::one(number), negated);
            }
            "--ttl-lt" => {
                let number = self.number(&value, 255)?;
                self.restrict(TTL, Values::of(number.checked_sub(1).map(|last| (0, last))));
            }
            "--ttl-gt" => {
                let number = self.number(&value, 255)?;
                self.restrict(TTL, Values::of((number < 255).then_some((number + 1, 255))));
            }
            "--dscp" => {
                let number = self.number(&value, 63)?;
                self.restrict_to(DSCP, Values::one(number), negated);
            }
            "--dscp-class" => match names::dscp_class(text) {
                Some(class) => self.restrict_to(DSCP, Values::one(class.into()), negated),
                None => return self.fault(at, format!("unknown class {}", quote(text))),
            },
            "--length" => {
                let range = self.range(&value, 0xFFFF)?;
                self.restrict_to(LENGTH, Values::of([range]), negated);
            }
            "--rt-type" => {
                let number = self.number(&value, 255)?;
                self.restrict_to(ROUTING_TYPE, Values::one(number), negated);
            }
            "--mark" => return self.mark(&value, negated),
            "--src-type" | "--dst-type" => return self.address_type(name, &value, negated),
            // The rate and the burst, which the assumption stands for.
            _ if text.starts_with(|c: char| c.is_ascii_digit()) => {}
            _ => return self.fault(at, format!("{} is no rate", quote(text))),
        }
        Ok(())
    }

    /// Adds the condition that `limit` is under the view's assumption.
    pub(super) fn limit(&mut self, span: Span) {
        match self.import.limit {
            Some(RateLimit::Within) => {}
            Some(RateLimit::Beyond) => self.products.clear(),
            None => {
                let message = Message::new("the match `limit` depends on the rate of packets");
                self.unheld.push((span, message.expected("`--assume limit=within` or `--assume limit=beyond`")));
            }
        }
    }

    fn number(&mut self, value: &Word<'_>, max: u64) -> Result<u128, Stop> {
        match number(&value.text, max) {
            Some(number) => Ok(number.into()),
            None => {
                let message = Message::new(format!("{} is no number from 0 to {max}", quote(&value.text)));
                self.fault(value.span, message.expected("a number without a 0 before it, or one behind `0x`"))
            }
        }
    }

    /// Reads `N`, `N:M`, `N:` or `:M`.
    fn range(&mut self, value: &Word<'_>, max: u64) -> Result<(u128, u128), Stop> {
        let text = &*value.text;
        let end = |part: &str, open: u64| if part.is_empty() { Some(open) } else { number(part, max) };
        let range = match text.split_once(':') {
            Some((lo, hi)) => end(lo, 0).zip(end(hi, max)),
            None => number(text, max).map(|one| (one, one)),
        };
        match range.filter(|(lo, hi)| lo <= hi && text != ":") {
            Some((lo, hi)) => Ok((lo.into(), hi.into())),
            None => self.fault(value.span, format!("{} is no range from 0 to {max}", quote(text))),
        }
    }

    /// Reads `PORT`, `PORT:PORT`, `PORT:` or `:PORT`.
    fn ports(&mut self, value: &Word<'_>) -> Result<(u128, u128), Stop> {
        match ports(&value.text) {
            Some(range) => Ok(range),
            None => self.fault(value.span, no_ports(&value.text)),
        }
    }

    fn multiport(&mut self, name: &str, value: &Word<'_>, negated: bool) -> Result<(), Stop> {
        if !matches!(self.protocol, Some((number, false)) if WITH_PORTS.contains(&number)) {
            let message = Message::new("ports of a rule without a protocol that has ports");
            return self.fault(value.span, message.expected("`-p tcp`, udp, udplite, sctp or dccp before it"));
        }
        let mut all = Vec::new();
        for part in value.text.split(',') {
            match ports(part).filter(|_| part != ":") {
                Some(range) => all.push(range),
                None => return self.fault(value.span, no_ports(part)),
            }
        }
        let values = Values::of(all);
        match (name, negated) {
            ("--sports", _) => self.restrict_to(SPORT, values, negated),
            ("--dports", _) => self.restrict_to(DPORT, values, negated),
            // Neither port is among them.
            (_, true) => [SPORT, DPORT].into_iter().for_each(|field| self.restrict_to(field, values.clone(), true)),
            (_, false) => self.restrict_any(&[&[(SPORT, values.clone())], &[(DPORT, values)]]),
        }
        Ok(())
    }

    fn tcp_flags(&mut self, option: Span, negated: bool) -> Result<(), Stop> {
        let mut set = [0; 2];
        for flags in &mut set {
            let word = self.next("TCP flags", option)?;
            for name in word.text.split(',') {
                match FLAGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                    Some((_, flag)) => *flags |= flag,
                    None => {
                        let message = Message::new(format!("unknown TCP flag {}", quote(name)));
                        return self.fault(word.span, message.expected("FIN, SYN, RST, PSH, ACK, URG, ALL or NONE"));
                    }
                }
            }
        }
        self.flags(set[0].into(), set[1].into(), negated);
        Ok(())
    }

    /// Adds the condition that the TCP flags under a mask have a value.
    fn flags(&mut self, mask: u128, value: u128, negated: bool) {
        let max = max_of(TCP_FLAGS, self.family);
        // Flags outside of the mask are never set under it.
        let values = if value & !mask == 0 { Values::masked(value, mask, max) } else { None };
        self.restrict_to(TCP_FLAGS, values.unwrap_or_default(), negated);
    }

    fn icmp(&mut self, value: &Word<'_>, negated: bool) -> Result<(), Stop> {
        let (of_type, code) = value.text.split_once('/').map_or((&*value.text, None), |(t, code)| (t, Some(code)));
        let numbers = match (number(of_type, 255), code.map(|code| number(code, 255))) {
            (Some(of_type), None) => Some((of_type as u8, None)),
            (Some(of_type), Some(Some(code))) => Some((of_type as u8, Some(code as u8))),
            (None, None) => names::icmp(of_type, self.family),
            _ => None,
        };
        let is_any = self.family == Family::Ipv4
            && (value.text.eq_ignore_ascii_case("any") || matches!(numbers, Some((255, _))));
        if is_any {
            // The number 255 stands for every type.
            self.restrict_to(ICMP_TYPE, Values::present(ICMP_TYPE, self.family), negated);
            return Ok(());
        }
        let Some((of_type, code)) = numbers else {
            let message = Message::new(format!("unknown ICMP type {}", quote(&value.text)));
            return self.fault(value.span, message.expected("a name of iptables, a number, or two with `/` between"));
        };
        let of_type = Values::one(of_type.into());
        match (code.map(|code| Values::one(code.into())), negated) {
            (None, _) => self.restrict_to(ICMP_TYPE, of_type, negated),
            (Some(code), false) => {
                self.restrict(ICMP_TYPE, of_type);
                self.restrict(ICMP_CODE, code);
            }
            (Some(code), true) => {
                let other_type = of_type.negated(ICMP_TYPE, self.family);
                let other_code = code.negated(ICMP_CODE, self.family);
                self.restrict_any(&[&[(ICMP_TYPE, other_type)], &[(ICMP_TYPE, of_type), (ICMP_CODE, other_code)]]);
            }
        }
        Ok(())
    }

    fn state(&mut self, module: Module, value: &Word<'_>, negated: bool) -> Result<(), Stop> {
        let (mut is_new, mut is_established, mut is_related) = (false, false, false);
        for name in value.text.split(',') {
            match name {
                "NEW" => is_new = true,
                "ESTABLISHED" => is_established = true,
                "RELATED" => is_related = true,
                "INVALID" | "UNTRACKED" => {}
                "SNAT" | "DNAT" if module == Module::Conntrack => {
                    let message = Message::new(format!("the state {} depends on the table `nat`", quote(name)));
                    self.unheld.push((value.span, message.expected("NEW, ESTABLISHED, RELATED, INVALID or UNTRACKED")));
                    return Ok(());
                }
                _ => {
                    let message = Message::new(format!("unknown state {}", quote(name)));
                    return self.fault(value.span, message.expected("NEW, ESTABLISHED, RELATED, INVALID or UNTRACKED"));
                }
            }
        }
        let holds = match self.import.state {
            State::New => is_new,
            State::Established => is_established,
            State::Flags if is_new == is_established => is_new,
            State::Flags => {
                self.flags_as_state(is_established != negated);
                return Ok(());
            }
        };
        if self.import.state == State::Flags && is_related && !holds {
            self.report.warn(value.span, || "RELATED does not show in TCP flags: it never holds");
        }
        if holds == negated {
            self.products.clear();
            self.is_of_other_state = true;
        }
        Ok(())
    }

    /// Adds the condition that TCP flags show a connection that exists, or that they do not.
    fn flags_as_state(&mut self, is_established: bool) {
        const TCP: u128 = 6;
        let neither = Values::masked(0, ACK_RST, max_of(TCP_FLAGS, self.family)).unwrap_or_default();
        let either = neither.negated(TCP_FLAGS, self.family);
        let tcp = Values::one(TCP);
        let others = tcp.negated(PROTO, self.family);
        if is_established {
            self.restrict_any(&[&[(PROTO, tcp), (TCP_FLAGS, either)]]);
        } else {
            let outside = either.complement(TCP_FLAGS, self.family);
            self.restrict_any(&[&[(PROTO, others)], &[(PROTO, tcp), (TCP_FLAGS, outside)]]);
        }
    }

    /// Reads a mark; all packets have the mark 0.
    fn mark(&mut self, value: &Word<'_>, negated: bool) -> Result<(), Stop> {
        let (mark, mask) = value.text.split_once('/').unwrap_or((&value.text, "0xffffffff"));
        let Some((mark, _)) = number(mark, u32::MAX.into()).zip(number(mask, u32::MAX.into())) else {
            return self.fault(value.span, format!("{} is no mark", quote(&value.text)));
        };
        self.tests_mark = Some(value.span);
        if (mark == 0) == negated {
            self.products.clear();
        }
        Ok(())
    }

    fn address_type(&mut self, name: &str, value: &Word<'_>, negated: bool) -> Result<(), Stop> {
        let field: FieldIndex = if name == "--src-type" { SRC } else { DST };
        let multicast = match self.family {
            Family::Ipv4 => Values::of([(0xE000_0000, 0xEFFF_FFFF)]),
            Family::Ipv6 => Values::of([(0xFF << 120, u128::MAX)]),
        };
        match (&*value.text, field, self.hook) {
            ("MULTICAST", ..) => self.restrict_to(field, multicast, negated),
            // A packet for another host is passed on, and none for this host.
            ("LOCAL", DST, Some(Hook::Forward)) => {
                if !negated {
                    self.products.clear();
                }
            }
            (
                "LOCAL" | "UNICAST" | "BROADCAST" | "ANYCAST" | "UNSPEC" | "BLACKHOLE" | "UNREACHABLE" | "PROHIBIT",
                ..,
            ) => {
                let message = Message::new(format!("the addresses of type {} are those of a host", quote(&value.text)));
                self.unheld.push((value.span, message.expected("addresses behind `-s` or `-d`, or MULTICAST")));
            }
            (text, ..) => {
                let message = Message::new(format!("unknown type of addresses {}", quote(text)));
                return self.fault(value.span, message.expected("LOCAL, MULTICAST or another type of iptables"));
            }
        }
        Ok(())
    }
}

/// Returns the ports that a text stands for.
fn ports(text: &str) -> Option<(u128, u128)> {
    let end = |part: &str, open: u16| if part.is_empty() { Some(open) } else { names::port(part) };
    let (lo, hi) = match text.split_once(':') {
        Some((lo, hi)) => (end(lo, 0)?, end(hi, u16::MAX)?),
        None => (names::port(text)?, names::port(text)?),
    };
    (lo <= hi && !text.is_empty()).then_some((lo.into(), hi.into()))
}

fn no_ports(text: &str) -> Message {
    Message::new(format!("{} is neither a port nor a range of ports", quote(text)))
        .expected("0 to 65535, with `:` between two")
}
