//! Rules as entries: protocols with their conditions, addresses and header fields.

use firstmatch_core::rule::{Action, Rule};
use firstmatch_core::schema::{Family, IPV6_EXTENSIONS, Schema, Source};

use super::conditions::{Asked, addresses, dscps, flags, messages, ports, ttls};
use super::{MAX_ENTRIES, Unwritable};
use crate::foreign::values::{FRAGMENT, PROTO, Values};
use crate::native::INET;

/// Protocols with ports that routers compare.
const WITH_PORTS: [u8; 3] = [6, 17, 132];
/// Protocols with ports that routers do not compare.
const WITH_OTHER_PORTS: [u8; 2] = [33, 136];
const TCP: u8 = 6;

/// Conditions of a rule on the IP header, apart from the protocol: texts of which one must hold in each list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    src: Vec<String>,
    dst: Vec<String>,
    /// Conditions behind the addresses.
    rest: Vec<String>,
}

impl Header {
    /// Whether no packet meets the conditions.
    pub(super) fn is_empty(&self) -> bool {
        self.src.is_empty() || self.dst.is_empty() || self.rest.is_empty()
    }
}

/// Protocol with conditions on what stands behind the IP header; an empty list is no condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// `None` is any protocol.
    pub(super) protocol: Option<u8>,
    sport: Vec<String>,
    dport: Vec<String>,
    /// Flags or messages.
    rest: Vec<String>,
}

impl Shape {
    /// Returns the shape of all packets of a protocol.
    pub(super) fn of(protocol: Option<u8>) -> Self {
        Self { protocol, ..Self::default() }
    }

    /// Whether the entries have a condition on what stands behind the IP header.
    pub(super) fn is_behind(&self) -> bool {
        !self.sport.is_empty() || !self.dport.is_empty() || !self.rest.is_empty()
    }

    fn count(&self, header: &Header) -> usize {
        let behind = self.sport.len().max(1) * self.dport.len().max(1) * self.rest.len().max(1);
        behind.saturating_mul(header.src.len()).saturating_mul(header.dst.len()).saturating_mul(header.rest.len())
    }

    /// Calls `each` with every entry, behind its action.
    pub(super) fn entries(&self, header: &Header, family: Family, mut each: impl FnMut(&str)) {
        let one = [String::new()];
        let or_one = |texts| -> &[String] { if <[String]>::is_empty(texts) { &one } else { texts } };
        let protocol = name(self.protocol, family);
        for (src, sport) in header.src.iter().flat_map(|src| or_one(&self.sport).iter().map(move |sport| (src, sport)))
        {
            for (dst, dport) in
                header.dst.iter().flat_map(|dst| or_one(&self.dport).iter().map(move |dport| (dst, dport)))
            {
                for (own, of_header) in
                    or_one(&self.rest).iter().flat_map(|own| header.rest.iter().map(move |of_header| (own, of_header)))
                {
                    each(&format!("{protocol} {src}{sport} {dst}{dport}{own}{of_header}"));
                }
            }
        }
    }
}

/// Returns the name of a protocol in access lists.
fn name(protocol: Option<u8>, family: Family) -> String {
    match (protocol, family) {
        (None, Family::Ipv4) => "ip".into(),
        (None, Family::Ipv6) => "ipv6".into(),
        (Some(1), Family::Ipv4) | (Some(58), Family::Ipv6) => "icmp".into(),
        (Some(6), _) => "tcp".into(),
        (Some(17), _) => "udp".into(),
        (Some(47), _) => "gre".into(),
        (Some(50), _) => "esp".into(),
        (Some(89), _) => "ospf".into(),
        (Some(132), _) => "sctp".into(),
        (Some(number), _) => number.to_string(),
    }
}

/// Rule for the packets of one family.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) header: Header,
    /// Protocols of later fragments that match; `None` if none does.
    pub(super) later: Option<Vec<Option<u8>>>,
    /// Protocols of other packets that match, with conditions on them.
    pub(super) whole: Vec<Shape>,
}

/// Returns the part of a rule for a family; `None` if no packet of the family matches.
pub(super) fn part(rule: &Rule, schema: &Schema, family: Family) -> Result<Option<Part>, Unwritable> {
    if !matches!(rule.action, Action::Permit | Action::Deny) {
        return Err(Unwritable::new(format!("the action `{}`, which access lists lack", rule.action)));
    }
    let asked = |source: Source| Asked::of(rule, schema, family, source);
    for source in [Source::VlanVid, Source::Length, Source::ExtHeaders, Source::RoutingType] {
        let Some(found) = asked(source) else { continue };
        match source {
            // Packets of IPv4 have no extension headers.
            Source::ExtHeaders | Source::RoutingType if family == Family::Ipv4 && found.has_absent => {}
            Source::ExtHeaders | Source::RoutingType if family == Family::Ipv4 => return Ok(None),
            _ if found.is_never() => return Ok(None),
            _ => return Err(Unwritable::new("a field that access lists do not test").of(found.name)),
        }
    }
    let mut never = false;
    let mut values = |source: Source| -> Result<Option<Values>, Unwritable> {
        let Some(found) = asked(source) else { return Ok(None) };
        never |= found.is_never();
        found.values(family).map(Some)
    };
    let fragment = values(Source::Fragment)?;
    let protocols = values(Source::Proto)?;
    let dscp = values(Source::Dscp)?;
    let ttl = values(Source::Ttl)?;
    if never {
        return Ok(None);
    }
    let rest = match (ttl, family) {
        (None, _) => dscps(dscp),
        (Some(_), Family::Ipv6) => {
            return Err(Unwritable::new("a hop limit, which lists of IPv6 do not test").of("ttl"));
        }
        (Some(ttl), Family::Ipv4) => {
            let ttls = ttls(&ttl);
            dscps(dscp).iter().flat_map(|dscp| ttls.iter().map(move |ttl| format!("{dscp}{ttl}"))).collect()
        }
    };
    let header =
        Header { src: addresses(asked(Source::Src), family)?, dst: addresses(asked(Source::Dst), family)?, rest };
    let (is_whole, is_later) = fragments(fragment.as_ref(), family)?;
    let behind = Behind { asked: &asked, family };
    let later = if is_later && behind.hold_for_none() { Some(numbers(protocols.as_ref(), family)?) } else { None };
    let whole = if is_whole { behind.shapes(protocols.as_ref())? } else { Vec::new() };
    let count: usize = whole.iter().map(|shape| shape.count(&header)).sum::<usize>()
        + later.as_ref().map_or(0, |later| later.len() * Shape::default().count(&header));
    if count > MAX_ENTRIES {
        let what = format!("the rule becomes {count} entries, which are more than {MAX_ENTRIES}: shorter lists");
        return Err(Unwritable::new(what));
    }
    let is_empty = header.is_empty() || whole.is_empty() && later.is_none();
    Ok((!is_empty).then_some(Part { header, later, whole }))
}

/// Returns whether the rule is for packets that are no later fragments, and whether for later ones.
fn fragments(values: Option<&Values>, family: Family) -> Result<(bool, bool), Unwritable> {
    let Some(values) = values else { return Ok((true, true)) };
    let all = Values::present(FRAGMENT, family);
    let has = |value: u128| !values.meet(&Values::one(value)).meet(&all).is_empty();
    match (has(0), has(1)) {
        (none, first) if none == first => Ok((none, has(2))),
        _ => {
            Err(Unwritable::new("first fragments apart from whole packets, which routers do not tell apart")
                .of("fragment"))
        }
    }
}

/// Returns the protocols of a rule, one by one; one `None` if it is for all.
fn numbers(values: Option<&Values>, family: Family) -> Result<Vec<Option<u8>>, Unwritable> {
    let Some(values) = values else { return Ok(vec![None]) };
    let is_never = |number: u8| family == Family::Ipv6 && IPV6_EXTENSIONS.contains(&number);
    let holds = |number: u8| !values.meet(&Values::one(number.into())).is_empty();
    let numbers: Vec<u8> = (0..=u8::MAX).filter(|&number| holds(number) && !is_never(number)).collect();
    if (0..=u8::MAX).all(|number| holds(number) || is_never(number)) {
        return Ok(vec![None]);
    }
    if numbers.contains(&0) {
        let what = "protocol 0, which routers take for all: a list of protocols instead of `not`";
        return Err(Unwritable::new(what).of(INET[PROTO].name()));
    }
    Ok(numbers.into_iter().map(Some).collect())
}

/// Conditions on what stands behind the IP header.
struct Behind<'b, 'a> {
    asked: &'b dyn Fn(Source) -> Option<Asked<'a>>,
    family: Family,
}

impl Behind<'_, '_> {
    fn icmp(&self) -> u8 {
        if self.family == Family::Ipv4 { 1 } else { 58 }
    }

    /// Whether the conditions on all but some fields hold for packets that lack these.
    fn hold_without(&self, has: &[Source]) -> bool {
        let lacking = super::BEHIND.iter().filter(|source| !has.contains(source));
        lacking.filter_map(|source| (self.asked)(*source)).all(|found| found.has_absent)
    }

    /// Whether the conditions hold for packets that lack all these fields.
    fn hold_for_none(&self) -> bool {
        self.hold_without(&[])
    }

    /// Returns the protocols whose packets may match, with the conditions on them.
    fn shapes(&self, protocols: Option<&Values>) -> Result<Vec<Shape>, Unwritable> {
        if super::BEHIND.iter().all(|source| (self.asked)(*source).is_none()) {
            return Ok(numbers(protocols, self.family)?.into_iter().map(Shape::of).collect());
        }
        let icmp = self.icmp();
        let special: Vec<u8> = [&WITH_PORTS[..], &WITH_OTHER_PORTS, &[icmp]].concat();
        let has = |number: u8| protocols.is_none_or(|values| !values.meet(&Values::one(number.into())).is_empty());
        let mut shapes = Vec::new();
        for &number in special.iter().filter(|&&number| has(number)) {
            shapes.extend(self.shape(number)?);
        }
        if self.hold_for_none() {
            let special = Values::of(special.iter().map(|&number| (number.into(), number.into())));
            let others = special.negated(PROTO, self.family);
            let others = protocols.map_or(others.clone(), |values| values.meet(&others));
            if !others.is_empty() {
                shapes.extend(numbers(Some(&others), self.family)?.into_iter().map(Shape::of));
            }
        }
        Ok(shapes)
    }

    /// Returns the conditions on packets of a protocol that has some of these fields; `None` if no packet meets them.
    fn shape(&self, number: u8) -> Result<Option<Shape>, Unwritable> {
        let mut shape = Shape::of(Some(number));
        let has_ports = number != self.icmp();
        let own: &[Source] = match number {
            TCP => &[Source::SrcPort, Source::DstPort, Source::TcpFlags],
            _ if has_ports => &[Source::SrcPort, Source::DstPort],
            _ => &[Source::IcmpType, Source::IcmpCode],
        };
        let asked: Vec<Asked<'_>> = own.iter().filter_map(|source| (self.asked)(*source)).collect();
        if !self.hold_without(own) || asked.iter().any(Asked::is_never_present) {
            return Ok(None);
        }
        if WITH_OTHER_PORTS.contains(&number) {
            return match asked.first() {
                None => Ok(Some(shape)),
                Some(found) => {
                    let what = "ports of DCCP and UDP-Lite, which routers do not compare: `tcp` or `udp` in the rule";
                    Err(Unwritable::new(what).of(found.name))
                }
            };
        }
        if has_ports {
            let list = |source| -> Result<Vec<String>, Unwritable> {
                (self.asked)(source).map_or(Ok(Vec::new()), |found| Ok(ports(&found.values(self.family)?, self.family)))
            };
            (shape.sport, shape.dport) = (list(Source::SrcPort)?, list(Source::DstPort)?);
        } else {
            shape.rest = messages((self.asked)(Source::IcmpType), (self.asked)(Source::IcmpCode), self.family)?;
        }
        if number == TCP
            && let Some(found) = (self.asked)(Source::TcpFlags)
        {
            shape.rest = flags(&found)?;
        }
        Ok(Some(shape))
    }
}
