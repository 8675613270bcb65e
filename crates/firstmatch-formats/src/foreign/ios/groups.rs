//! Groups of addresses, ports and services, which may hold other groups and stand behind their use.

use std::rc::Rc;

use firstmatch_core::schema::Family;

use super::super::values::{DPORT, ICMP_TYPE, SPORT, SRC, Values, max_of};
use super::Stop;
use super::address::{Addresses, MaskKind};
use super::config::{Group, GroupKind};
use super::names;
use super::ports::add;
use super::reader::{Reader, Service};
use super::words::Word;
use crate::report::{Message, quote};

impl<'r, 't> Reader<'r, '_, 't> {
    /// Returns the addresses of a group.
    pub(super) fn group_of_addresses(&mut self, name: Word<'t>) -> Result<Rc<Values>, Stop> {
        let has = |kind| self.config.groups.contains_key(&(kind, name.text));
        let kind = match self.family {
            Family::Ipv6 if has(GroupKind::Network6) || !self.is_asa() => GroupKind::Network6,
            _ => GroupKind::Network,
        };
        self.group_of_values(kind, name)
    }

    /// Returns the values of a group of addresses, ports or ICMP types.
    pub(super) fn group_of_values(&mut self, kind: GroupKind, name: Word<'t>) -> Result<Rc<Values>, Stop> {
        let key = (kind, name.text);
        if let Some(read) = self.values.get(&key) {
            return read.clone().ok_or(Stop);
        }
        let mut ranges = Vec::new();
        let read = self.members(kind, name, |reader, group| {
            let read = match kind {
                GroupKind::Network | GroupKind::Network6 | GroupKind::Object => reader.member_address(kind, group)?,
                GroupKind::Icmp => reader.member_icmp()?,
                _ => reader.member_ports(kind, group)?,
            };
            ranges.extend(read);
            Ok(())
        });
        let read = read.map(|()| Rc::new(Values::of(ranges))).ok();
        self.values.insert(key, read.clone());
        read.ok_or(Stop)
    }

    /// Returns the services of a group or an object.
    pub(super) fn group_of_services(&mut self, kind: GroupKind, name: Word<'t>) -> Result<Rc<Vec<Service>>, Stop> {
        let key = (kind, name.text);
        if let Some(read) = self.services.get(&key) {
            return read.clone().ok_or(Stop);
        }
        let mut services = Vec::new();
        let read = self.members(kind, name, |reader, _| {
            for service in reader.member_services(kind)? {
                add(&mut services, service);
            }
            Ok(())
        });
        let read = read.map(|()| Rc::new(services)).ok();
        self.services.insert(key, read.clone());
        read.ok_or(Stop)
    }

    /// Reads each member of a group, apart from descriptions.
    fn members(
        &mut self,
        kind: GroupKind,
        name: Word<'t>,
        mut read: impl FnMut(&mut Self, &'r Group<'t>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let key = (kind, name.text);
        let config = self.config;
        let Some(group) = config.groups.get(&key) else {
            let message = Message::new(format!("there is no {} {}", what_of(kind), quote(name.text)));
            return self.fault(name.span, message.expected("a group of the file"));
        };
        if self.open.contains(&key) {
            return self.fault(name.span, format!("groups that hold each other: {} leads back here", quote(name.text)));
        }
        self.open.push(key);
        let (mut count, mut is_whole) = (0, true);
        for line in &group.members {
            let member = self.within(line, |reader| {
                reader.next_if(|text| names::number(text, u64::MAX).is_some() && line.words.len() > 1);
                let is_other = matches!((reader.text(), kind), ("description", _))
                    || matches!((reader.text(), kind), ("nat", GroupKind::Object));
                if is_other {
                    reader.rest();
                    return Ok(());
                }
                count += 1;
                read(reader, group)
            });
            is_whole &= member.is_ok();
        }
        self.open.pop();
        if count == 0 {
            return self.fault(name.span, format!("the {} {} has no members", what_of(kind), quote(name.text)));
        }
        if is_whole { Ok(()) } else { Err(Stop) }
    }

    fn member_address(&mut self, kind: GroupKind, group: &Group<'t>) -> Result<Vec<Addresses>, Stop> {
        let mask = if group.has_wildcards { MaskKind::Wildcard } else { MaskKind::Network };
        let word = self.next("an address")?;
        match word.text {
            "any" if kind != GroupKind::Object => Ok(vec![(0, max_of(SRC, self.family))]),
            "host" => self.host(),
            "range" => self.range(),
            "group-object" | "object-group" => {
                let name = self.next("the name of a group")?;
                Ok(self.group_of_values(kind, name)?.ranges().collect())
            }
            "subnet" if kind == GroupKind::Object => {
                let address = self.next("an address")?;
                self.with_mask(address, mask)
            }
            "network-object" if kind == GroupKind::Network => {
                let address = self.next("an address")?;
                match address.text {
                    "host" => self.host(),
                    "object" => {
                        let name = self.next("the name of an object")?;
                        Ok(self.group_of_values(GroupKind::Object, name)?.ranges().collect())
                    }
                    _ => self.with_mask(address, mask),
                }
            }
            text if text.contains(['.', ':']) => self.with_mask(word, mask),
            _ => self.no_member(word, "`host ADDRESS`, `range FIRST LAST`, a prefix or another group"),
        }
    }

    fn member_ports(&mut self, kind: GroupKind, group: &Group<'t>) -> Result<Vec<Addresses>, Stop> {
        if let Some(word) = self.next_if(|text| matches!(text, "group-object" | "object-group")) {
            let name = self.next("the name of a group")?;
            let values = self.group_of_values(kind, name)?;
            let inner = self.config.groups.get(&(kind, name.text)).and_then(|inner| inner.protocol);
            if inner != group.protocol {
                return self.fault(word.span, "a group of other protocols");
            }
            return Ok(values.ranges().collect());
        }
        self.next_if(|text| text == "port-object");
        match self.comparison(DPORT)? {
            Some(values) => Ok(values.ranges().collect()),
            None => {
                let word = self.next("a comparison of ports")?;
                self.no_member(word, "`eq PORT`, `range FIRST LAST`, `gt`, `lt` or `neq`")
            }
        }
    }

    fn member_icmp(&mut self) -> Result<Vec<Addresses>, Stop> {
        let word = self.next("a type")?;
        if word.text == "group-object" {
            let name = self.next("the name of a group")?;
            return Ok(self.group_of_values(GroupKind::Icmp, name)?.ranges().collect());
        }
        let at = self.peek();
        match (word.text, self.icmp()?.map(|service| service.behind)) {
            ("icmp-object", Some(behind)) if behind.len() == 1 && behind[0].0 == ICMP_TYPE => {
                Ok(behind[0].1.ranges().collect())
            }
            _ => self.no_member(at.unwrap_or(word), "`icmp-object` and a type"),
        }
    }

    /// Reads `tcp source eq 1 destination eq 2`, `icmp echo`, `group-object NAME` and their kin.
    fn member_services(&mut self, kind: GroupKind) -> Result<Vec<Service>, Stop> {
        let before = match kind {
            GroupKind::ObjectService => "service",
            GroupKind::Protocol => "protocol-object",
            _ => "service-object",
        };
        let is_asa = self.next_if(|text| text == before).is_some();
        let word = self.next("a protocol")?;
        if !is_asa && word.text == "group-object" {
            let name = self.next("the name of a group")?;
            return Ok(self.group_of_services(kind, name)?.to_vec());
        }
        if is_asa && word.text == "object" {
            let name = self.next("the name of an object")?;
            return Ok(self.group_of_services(GroupKind::ObjectService, name)?.to_vec());
        }
        let protocols = match word.text {
            "ip" => Vec::new(),
            "tcp-udp" => vec![6, 17],
            text => match names::protocol(text, self.family) {
                Some(number) if number > 0 => vec![number],
                _ => return self.no_member(word, "a protocol, or another group"),
            },
        };
        let mut service = Service { protocols, behind: Vec::new() };
        if kind == GroupKind::Protocol {
            return Ok(vec![service]);
        }
        let has_ports = service.protocols.iter().all(|number| [6, 17, 132].contains(number));
        if matches!(service.protocols[..], [1 | 58]) {
            service.behind = self.icmp()?.map(|service| service.behind).unwrap_or_default();
        } else if !service.protocols.is_empty() && has_ports {
            if self.next_if(|text| text == "source").is_some() {
                service.behind.push((SPORT, self.ports_of_member()?));
            }
            if self.next_if(|text| text == "destination").is_some() || self.peek().is_some() {
                service.behind.push((DPORT, self.ports_of_member()?));
            }
        }
        Ok(vec![service])
    }

    /// Reads a comparison, or a port alone.
    fn ports_of_member(&mut self) -> Result<Values, Stop> {
        match self.comparison(DPORT)? {
            Some(values) => Ok(values),
            None => Ok(Values::one(self.value(DPORT)?)),
        }
    }

    fn no_member<R>(&mut self, word: Word<'t>, expected: &str) -> Result<R, Stop> {
        let message = Message::new(format!("{} is no member of such a group", quote(word.text)));
        self.fault(word.span, message.expected(expected))
    }
}

fn what_of(kind: GroupKind) -> &'static str {
    match kind {
        GroupKind::Network => "group of addresses",
        GroupKind::Network6 => "group of addresses of IPv6",
        GroupKind::Ports => "group of ports",
        GroupKind::Service => "group of services",
        GroupKind::Protocol => "group of protocols",
        GroupKind::Icmp => "group of ICMP types",
        GroupKind::Object => "object of addresses",
        GroupKind::ObjectService => "object of a service",
    }
}
