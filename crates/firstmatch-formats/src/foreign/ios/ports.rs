//! Comparisons of ports, types and other numbers.

use super::super::values::{DPORT, FieldIndex, ICMP_CODE, ICMP_TYPE, TTL, Values, max_of};
use super::Stop;
use super::config::GroupKind;
use super::names;
use super::reader::{Reader, Service};
use super::words::Word;
use crate::report::{Message, quote};

impl<'t> Reader<'_, '_, 't> {
    /// Reads the ports behind an address, if there are any.
    pub(super) fn ports(&mut self, field: FieldIndex) -> Result<(), Stop> {
        let Some(word) = self.peek() else { return Ok(()) };
        if let Some(values) = self.comparison(field)? {
            self.check_ports(word.span)?;
            return self.restrict_behind(word.span, field, values);
        }
        if !matches!(word.text, "object-group" | "portgroup" | "port-group") {
            return Ok(());
        }
        let groups = &self.config.groups;
        let find = |name: &Word<'t>| {
            let kinds = [GroupKind::Ports, GroupKind::Service];
            kinds.into_iter().find(|&kind| groups.contains_key(&(kind, name.text)))
        };
        let kind = self.second().as_ref().and_then(find);
        if kind.is_none() && word.text == "object-group" {
            // A group of addresses, which is the destination, or of ICMP types.
            return Ok(());
        }
        self.next("a group")?;
        let name = self.next("the name of a group")?;
        self.check_ports(word.span)?;
        let kind = kind.unwrap_or(GroupKind::Ports);
        let protocols = match groups.get(&(kind, name.text)).and_then(|group| group.protocol) {
            Some("tcp") => &[6][..],
            Some("udp") => &[17],
            Some(_) => &[6, 17],
            None => &[6, 17, 132],
        };
        if !self.is_within(protocols) {
            return self.fault(name.span, "a group of ports of other protocols than the entry's");
        }
        let values = self.group_of_values(kind, name)?;
        self.restrict_behind(name.span, field, Values::clone(&values))
    }

    /// Reads `eq`, `neq`, `gt`, `lt` or `range` with numbers; `None` if the next word is none of them.
    pub(super) fn comparison(&mut self, field: FieldIndex) -> Result<Option<Values>, Stop> {
        let Some(operator) = self.next_if(|text| matches!(text, "eq" | "neq" | "gt" | "lt" | "range")) else {
            return Ok(None);
        };
        let max = max_of(field, self.family);
        let first = self.value(field)?;
        let values = match operator.text {
            "eq" | "neq" => {
                let mut all = vec![(first, first)];
                while let Some(word) = self.next_if(|text| parse(field, text).is_some()) {
                    all.extend(parse(field, word.text).map(|value| (value, value)));
                }
                let values = Values::of(all);
                if operator.text == "eq" { values } else { values.negated(field, self.family) }
            }
            "gt" => Values::of((first < max).then_some((first + 1, max))),
            "lt" => Values::of(first.checked_sub(1).map(|last| (0, last))),
            _ => {
                let last = self.value(field)?;
                Values::of((first <= last).then_some((first, last)))
            }
        };
        if values.is_empty() {
            return self.fault(operator.span, "no value meets this comparison");
        }
        Ok(Some(values))
    }

    /// Reads one number.
    pub(super) fn value(&mut self, field: FieldIndex) -> Result<u128, Stop> {
        let word = self.next(if field == TTL { "a number" } else { "a port" })?;
        match parse(field, word.text) {
            Some(value) => Ok(value),
            None => {
                let max = max_of(field, self.family);
                let what = if field == TTL { "no number" } else { "no port" };
                let message = Message::new(format!("{} is {what}", quote(word.text)));
                self.fault(word.span, message.expected(format!("0 to {max}, or a name that routers know")))
            }
        }
    }

    /// Reads an ICMP type with its code, if there is one, and returns its conditions.
    pub(super) fn icmp(&mut self) -> Result<Option<Service>, Stop> {
        let number = |text: &str| names::number(text, 255).map(|number| number as u8);
        let family = self.family;
        let is_it = |text: &str| number(text).is_some() || names::icmp(text, family).is_some();
        let Some(word) = self.next_if(is_it) else {
            return Ok(None);
        };
        let (of_type, code) = match number(word.text) {
            Some(of_type) => {
                let code = self.next_if(|text| number(text).is_some());
                (of_type, code.and_then(|code| number(code.text)))
            }
            None => match names::icmp(word.text, self.family) {
                Some((of_type, None)) if self.is_asa() => {
                    let code = self.next_if(|text| number(text).is_some());
                    (of_type, code.and_then(|code| number(code.text)))
                }
                Some(both) => both,
                None => return Err(Stop),
            },
        };
        let mut behind = vec![(ICMP_TYPE, Values::one(of_type.into()))];
        behind.extend(code.map(|code| (ICMP_CODE, Values::one(code.into()))));
        Ok(Some(Service { protocols: Vec::new(), behind }))
    }
}

fn parse(field: FieldIndex, text: &str) -> Option<u128> {
    if field == TTL { names::number(text, 255).map(u128::from) } else { names::port(text).map(u128::from) }
}

/// Adds a service to others; services that differ in the ports of the destination alone become one.
pub(super) fn add(services: &mut Vec<Service>, service: Service) {
    if services.contains(&service) {
        return;
    }
    if let [(DPORT, values)] = &service.behind[..] {
        let same = services
            .iter_mut()
            .find(|other| other.protocols == service.protocols && matches!(other.behind[..], [(DPORT, _)]));
        if let Some(same) = same {
            let all = same.behind[0].1.ranges().chain(values.ranges()).collect::<Vec<_>>();
            same.behind[0].1 = Values::of(all);
            return;
        }
    }
    services.push(service);
}
