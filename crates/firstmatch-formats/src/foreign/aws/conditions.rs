//! Conditions of rules: addresses, protocols, ports, messages of ICMP.

use std::net::IpAddr;

use firstmatch_core::schema::{Family, IPV6_EXTENSIONS};

use super::super::product::Product;
use super::super::values::{DPORT, DST, ICMP_CODE, ICMP_TYPE, PROTO, SRC, Values, max_of};
use super::Way;
use crate::json::node::{Doc, Node, shown, string};

/// Numbers of ports, or a type and a code of ICMP, where they are given.
pub(super) type Pair<'t> = [Option<Node<'t>>; 2];

/// Conditions on what stands behind the IP header, and where the protocol is given.
#[derive(Clone)]
pub(super) struct Service<'t> {
    protocol: Option<u8>,
    node: Node<'t>,
    product: Product,
}

impl<'t> Service<'t> {
    /// Reads a protocol with its ports, or with a type and a code of ICMP.
    ///
    /// AWS ignores ports of all other protocols.
    pub(super) fn read(doc: &mut Doc<'t>, node: Node<'t>, pair: Pair<'t>) -> Option<Self> {
        let protocol = protocol(doc, node)?;
        let mut product = Product::default();
        let mut add = |field, values: Values| {
            product = product.restrict(field, values)?;
            Some(())
        };
        if let Some(number) = protocol {
            add(PROTO, Values::one(number.into()))?;
        }
        match protocol {
            Some(6 | 17) => {
                if let Some((first, last)) = ports(doc, node, pair)? {
                    add(DPORT, Values::of([(first, last)]))?;
                }
            }
            Some(1 | 58) => {
                let [of_type, code] = pair.map(|node| node.map_or(Some(None), |node| number(doc, node, 255)));
                let (of_type, code) = (of_type?, code?);
                if let (None, Some(_)) = (of_type, code) {
                    return doc.fault(pair[1]?, "a code of ICMP without its type", "-1, which is any code");
                }
                for (field, value) in [(ICMP_TYPE, of_type), (ICMP_CODE, code)] {
                    if let Some(value) = value {
                        add(field, Values::one(value))?;
                    }
                }
            }
            _ => {}
        }
        Some(Self { protocol, node, product })
    }

    /// Returns the packets of the service from a range of addresses, or to it.
    pub(super) fn of_range(&self, doc: &mut Doc<'t>, node: Node<'t>, family: Family, way: Way) -> Option<Product> {
        if let Some(number) = self.protocol
            && family == Family::Ipv6
            && IPV6_EXTENSIONS.contains(&number)
        {
            return doc.fault(
                self.node,
                format_args!("protocol {number} is an extension header in IPv6"),
                "the protocol behind all of them",
            );
        }
        let values = addresses(doc, node, family)?;
        self.product.restrict(if way == Way::In { SRC } else { DST }, values)
    }
}

/// Returns a protocol; the inner `None` is every protocol.
fn protocol<'t>(doc: &mut Doc<'t>, node: Node<'t>) -> Option<Option<u8>> {
    let number = match string(node).as_deref() {
        Some("-1") => return Some(None),
        Some("tcp") => Some(6),
        Some("udp") => Some(17),
        Some("icmp") => Some(1),
        Some("icmpv6") => Some(58),
        Some(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    };
    if number.is_none() {
        let expected =
            "`\"tcp\"`, `\"udp\"`, `\"icmp\"`, `\"icmpv6\"`, a number from 0 to 255, or `\"-1\"` for every protocol";
        return doc.fault(node, format_args!("{} is no protocol", shown(node)), expected);
    }
    Some(number)
}

/// Returns a range of ports; the inner `None` is every port.
fn ports<'t>(doc: &mut Doc<'t>, at: Node<'t>, pair: Pair<'t>) -> Option<Option<(u128, u128)>> {
    let [first, last] = match pair {
        [None, None] => return Some(None),
        [Some(first), Some(last)] => [first, last],
        _ => return doc.fault(at, "a range of ports with one end", "both ends, or none"),
    };
    match (number(doc, first, 65535)?, number(doc, last, 65535)?) {
        (None, None) => Some(None),
        (Some(lo), Some(hi)) if lo <= hi => Some(Some((lo, hi))),
        (Some(_), Some(_)) => doc.fault(first, "a range of ports that ends before it begins", ""),
        _ => doc.fault(first, "a range of ports with one end", "both ends, or -1 twice"),
    }
}

/// Returns a number up to `max`; the inner `None` is -1.
fn number<'t>(doc: &mut Doc<'t>, node: Node<'t>, max: u32) -> Option<Option<u128>> {
    match node.parse::<i64>() {
        Ok(-1) => Some(None),
        Ok(number) if (0..=i64::from(max)).contains(&number) => Some(u128::try_from(number).ok()),
        _ => doc.fault(node, format_args!("{} is no number from -1 to {max}", shown(node)), ""),
    }
}

/// Returns the addresses of a prefix.
fn addresses<'t>(doc: &mut Doc<'t>, node: Node<'t>, family: Family) -> Option<Values> {
    let (bits, max) = (family.address_bits(), max_of(SRC, family));
    let parse = |text: &str| {
        let (address, len) = text.split_once('/')?;
        let is_number = !len.is_empty() && len.bytes().all(|byte| byte.is_ascii_digit());
        let len: u32 = len.parse().ok().filter(|&len| is_number && len <= bits)?;
        let value = match (address.parse().ok()?, family) {
            (IpAddr::V4(address), Family::Ipv4) => u128::from(address.to_bits()),
            (IpAddr::V6(address), Family::Ipv6) => address.to_bits(),
            _ => return None,
        };
        let low = max.checked_shr(len).unwrap_or(0);
        Some((value & !low, value | low))
    };
    match string(node).as_deref().and_then(parse) {
        Some(range) => Some(Values::of([range])),
        None => {
            let example = if family == Family::Ipv4 { "192.0.2.0/24" } else { "2001:db8::/32" };
            doc.fault(node, format_args!("{} is no prefix of {family}", shown(node)), format!("`\"{example}\"`"))
        }
    }
}
