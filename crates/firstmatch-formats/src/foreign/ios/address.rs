//! Addresses: words, wildcard masks, masks of networks, prefixes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;

use firstmatch_core::schema::Family;

use super::super::values::{SRC, Values, max_of};
use super::Stop;
use super::config::{GroupKind, ListKind};
use super::names::number;
use super::reader::Reader;
use super::words::Word;
use crate::report::{Message, quote};

/// Range of addresses, both ends included.
pub(super) type Addresses = (u128, u128);

/// Meaning of the ones of a mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MaskKind {
    /// These bits do not matter.
    Wildcard,
    /// These bits are compared, and stand together.
    Network,
}

impl<'t> Reader<'_, '_, 't> {
    /// Reads the source or the destination of an entry; `None` is any address.
    pub(super) fn address(&mut self) -> Result<Option<Rc<Values>>, Stop> {
        let word = self.next("an address")?;
        let mask = if self.is_asa() { MaskKind::Network } else { MaskKind::Wildcard };
        let ranges = match word.text {
            "any" => return Ok(None),
            "any4" | "any6" if self.is_asa() => {
                let family = if word.text == "any4" { Family::Ipv4 } else { Family::Ipv6 };
                return Ok(if self.has_family(family) { None } else { Some(Rc::default()) });
            }
            "object-group" | "addrgroup" | "net-group" => {
                let name = self.next("the name of a group")?;
                return self.group_of_addresses(name).map(Some);
            }
            "object" => {
                let name = self.next("the name of an object")?;
                return self.group_of_values(GroupKind::Object, name).map(Some);
            }
            "interface" if self.is_asa() => {
                let message = Message::new("`interface` stands for an address that the file does not show here");
                return self.fault(word.span, message.expected("`host` and the address"));
            }
            "host" => self.host()?,
            text if self.is_alone(text) => vec![self.one(word)?].into_iter().flatten().collect(),
            _ => self.with_mask(word, mask)?,
        };
        Ok(Some(Rc::new(Values::of(ranges))))
    }

    /// Whether an address stands without a mask, as standard lists write one host.
    fn is_alone(&self, address: &str) -> bool {
        let has_mask = address.contains('/') || self.text().starts_with(|c: char| c.is_ascii_digit() || c == '/');
        self.kind == ListKind::Standard && !has_mask
    }

    /// Reads the address behind `host`.
    pub(super) fn host(&mut self) -> Result<Vec<Addresses>, Stop> {
        let word = self.next("an address")?;
        Ok(self.one(word)?.into_iter().collect())
    }

    /// Reads `A/LENGTH`, or `A` with the mask that the next word is.
    pub(super) fn with_mask(&mut self, word: Word<'t>, kind: MaskKind) -> Result<Vec<Addresses>, Stop> {
        let (address, len) = match word.text.split_once('/') {
            Some((address, len)) => (address, Some((len, word))),
            None => (word.text, None),
        };
        let parsed = self.parse(Word { text: address, ..word })?;
        let bits = family_of(parsed).address_bits();
        let max = max_of(SRC, family_of(parsed));
        // IOS writes `10.0.0.0 /8` in groups.
        let apart = if len.is_none() { self.next_if(|text| text.starts_with('/')) } else { None };
        let len = len.or(apart.map(|word| (&word.text[1..], word)));
        let mask = match len {
            Some((len, word)) => match number(len, bits.into()) {
                Some(len) => max ^ max.checked_shr(len as u32).unwrap_or(0),
                None => {
                    let message = Message::new(format!("{} is no length of a prefix", quote(len)));
                    return self.fault(word.span, message.expected(format!("0 to {bits}")));
                }
            },
            None if parsed.is_ipv6() => {
                let message = Message::new(format!("{} without the length of its prefix", quote(word.text)));
                return self.fault(word.span, message.expected(format!("`{}/{bits}` or `host`", word.text)));
            }
            None => self.mask(word, kind)?,
        };
        if !self.has_family(family_of(parsed)) {
            return Ok(Vec::new());
        }
        let value = bits_of(parsed);
        if value & !mask != 0 {
            let what = format!("{} has bits outside its mask; they are dropped, as by routers", quote(word.text));
            self.report.warn(word.span, || what);
        }
        let Some(values) = Values::masked(value & mask, mask, max) else {
            let message = Message::new("the mask leaves more than 65536 ranges of addresses");
            return self.fault(word.span, message.expected("a mask with more of its ones together"));
        };
        Ok(values.ranges().collect())
    }

    /// Reads the mask behind an IPv4 address; its ones are the bits that are compared.
    fn mask(&mut self, address: Word<'t>, kind: MaskKind) -> Result<u128, Stop> {
        let what = if kind == MaskKind::Wildcard { "a wildcard mask" } else { "a mask" };
        let Some(word) = self.peek() else {
            let message = Message::new(format!("{} without its mask", quote(address.text)));
            return self.fault(address.span, message.expected(format!("{what} behind it, or `host` before it")));
        };
        self.next(what)?;
        let Ok(written) = word.text.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits) else {
            let message = Message::new(format!("{} is no mask", quote(word.text)));
            return self.fault(word.span, message.expected(format!("{what}, or `host` before the address")));
        };
        let is_low = |bits: u32| bits & bits.wrapping_add(1) == 0;
        let other = Ipv4Addr::from(!written);
        match kind {
            MaskKind::Wildcard => {
                if !is_low(written) && is_low(!written) {
                    let message = Message::new(format!("{} compares the last bits, as a wildcard mask", word.text));
                    if written.count_ones() > 16 {
                        return self.fault(word.span, message.expected(format!("`{other}`, if a prefix is meant")));
                    }
                    self.report.warn(word.span, || message.expected(format!("`{other}`, if a prefix is meant")));
                }
                Ok(u128::from(!written))
            }
            MaskKind::Network if is_low(!written) => Ok(written.into()),
            MaskKind::Network => {
                let message = Message::new(format!("{} is no mask of a network", word.text));
                let expected = if is_low(written) { format!("`{other}`") } else { "ones before all zeros".to_owned() };
                self.fault(word.span, message.expected(expected))
            }
        }
    }

    /// Reads one address; `None` if it belongs to the other family, which a list of ASA may have.
    pub(super) fn one(&mut self, word: Word<'t>) -> Result<Option<Addresses>, Stop> {
        let address = self.parse(word)?;
        let value = bits_of(address);
        Ok(self.has_family(family_of(address)).then_some((value, value)))
    }

    /// Reads `FIRST LAST`.
    pub(super) fn range(&mut self) -> Result<Vec<Addresses>, Stop> {
        let (first, last) = (self.next("an address")?, self.next("an address")?);
        let (lo, hi) = (self.parse(first)?, self.parse(last)?);
        if family_of(lo) != family_of(hi) || lo > hi {
            return self.fault(first.span.to(last.span), "a range whose end is before its start");
        }
        let is_here = self.has_family(family_of(lo));
        Ok(if is_here { vec![(bits_of(lo), bits_of(hi))] } else { Vec::new() })
    }

    fn parse(&mut self, word: Word<'t>) -> Result<IpAddr, Stop> {
        // Names of ASA stand for one address.
        let text = self.config.names.get(word.text).copied().filter(|_| self.is_asa()).unwrap_or(word.text);
        match text.parse::<IpAddr>() {
            Ok(address) if family_of(address) == self.family || self.is_asa() => Ok(address),
            Ok(_) => {
                let message =
                    format!("{} is no address of {}, for which the list is", quote(word.text), self.family.pretty());
                self.fault(word.span, message)
            }
            Err(_) => {
                let message = Message::new(format!("{} is no address", quote(word.text)));
                self.fault(word.span, message.expected("an address, not the name of a host: write its addresses"))
            }
        }
    }

    /// Whether packets of the list have this family; otherwise the entry has another one.
    fn has_family(&mut self, family: Family) -> bool {
        // Members of groups are of both families, so that the group as a whole decides.
        self.is_of_other_family |= self.open.is_empty() && family != self.family;
        family == self.family
    }
}

fn family_of(address: IpAddr) -> Family {
    if address.is_ipv4() { Family::Ipv4 } else { Family::Ipv6 }
}

fn bits_of(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => Ipv6Addr::to_bits(address),
    }
}
