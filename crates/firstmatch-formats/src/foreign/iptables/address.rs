//! Addresses of iptables: with a length or a mask, in lists and ranges.

use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::schema::Family;

use super::super::values::{SRC, Values, max_of};
use super::number;
use crate::report::{Message, quote};

/// Reads `ADDRESS`, `ADDRESS/LENGTH` or `ADDRESS/MASK`, or several with commas between.
///
/// The flag says whether an address has bits outside its mask, which iptables drops.
pub(super) fn list(word: &str, family: Family) -> Result<(Values, bool), Message> {
    let (mut ranges, mut has_more) = (Vec::new(), false);
    for part in word.split(',') {
        let (address, mask) = part.split_once('/').map_or((part, None), |(address, mask)| (address, Some(mask)));
        let value = one(address, family)?;
        let max = max_of(SRC, family);
        let bits = family.address_bits();
        let mask = match mask {
            None => max,
            Some(mask) => match number(mask, bits.into()) {
                Some(len) if !mask.contains('x') => max ^ max.checked_shr(len as u32).unwrap_or(0),
                _ => one(mask, family).map_err(|_| {
                    Message::new(format!("{} is no mask", quote(mask))).expected(format!("0 to {bits}, or an address"))
                })?,
            },
        };
        has_more |= value & !mask != 0;
        let Some(values) = Values::masked(value & mask, mask, max) else {
            let message = Message::new(format!("the mask {} leaves more than 65536 ranges of addresses", quote(part)));
            return Err(message.expected("a mask with more of its ones together"));
        };
        ranges.extend(values.ranges());
    }
    Ok((Values::of(ranges), has_more))
}

/// Reads `FIRST-LAST`, or one address.
pub(super) fn range(word: &str, family: Family) -> Result<Values, Message> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (lo, hi) = (one(first, family)?, one(last, family)?);
    if lo > hi {
        return Err(Message::new(format!("the range {} is reversed", quote(word))));
    }
    Ok(Values::of([(lo, hi)]))
}

fn one(word: &str, family: Family) -> Result<u128, Message> {
    let v4 = word.parse::<Ipv4Addr>().ok().map(|address| u128::from(address.to_bits()));
    let v6 = word.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits);
    let (of_family, of_other) = if family == Family::Ipv4 { (v4, v6) } else { (v6, v4) };
    of_family.ok_or_else(|| match of_other {
        Some(_) => {
            let other = if family == Family::Ipv4 { "ip6tables" } else { "iptables" };
            let message = format!("{} is no address of {}, for which this file is read", quote(word), family.pretty());
            Message::new(message).expected(format!("`--from {other}`, if all are of the other family"))
        }
        None => Message::new(format!("{} is no address", quote(word)))
            .expected("an address, not the name of a host: write its addresses"),
    })
}
