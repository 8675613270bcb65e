//! Methods of partitioning rules that are only counted, without an engine.

use std::collections::HashSet;

use anyhow::ensure;
use firstmatch_core::rule::{Lowered, Region};
use serde::Deserialize;

use super::sax_pac;
use crate::transform::prefixes;

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub(super) enum Counted {
    /// SAX-PAC on all fields.
    SaxPac,
    /// SAX-PAC on two fields.
    #[serde(rename = "sax_pac_2")]
    SaxPac2,
    /// Tuple space search over the two addresses alone, as in the simulator of Daly et al.
    ///
    /// It has a table for each pair of prefix lengths.
    TssAddresses,
    /// Tuple space search of VPP 17.10: a table for each mask.
    ///
    /// A single port is in the mask, a range is not. A rule that names a protocol has a second mask, without ports and
    /// with a bit that marks it. It is for fragments other than the first, because they have no ports.
    VppTss,
    /// The rules themselves.
    Rules,
    /// Rules of prefixes that mean the same: a rule for each pair of prefixes of its port ranges.
    Prefixes,
}

/// Mask of VPP's search: the lengths of the addresses, and whether the protocol is in it.
///
/// The last part says which ports are in the mask, or that the mask is for fragments without ports.
type Mask = (u32, u32, bool, Option<(bool, bool)>);

impl Counted {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::SaxPac => "sax_pac",
            Self::SaxPac2 => "sax_pac_2",
            Self::TssAddresses => "tss_addresses",
            Self::VppTss => "vpp_tss",
            Self::Rules => "rules",
            Self::Prefixes => "prefixes",
        }
    }

    /// Returns the number of partitions of rules of one region each, over the IPv4 5-tuple.
    pub(super) fn partitions(self, rules: &Lowered) -> anyhow::Result<usize> {
        ensure!(rules.schema().words().len() == 5, "expected rules over the IPv4 5-tuple");
        ensure!(rules.by_rule().all(|(_, regions)| regions.len() == 1), "expected rules of one region");
        let all = || rules.regions().iter();
        Ok(match self {
            Self::SaxPac => sax_pac::partitions(rules, false),
            Self::SaxPac2 => sax_pac::partitions(rules, true),
            Self::TssAddresses => all().map(|region| addresses(&region)).collect::<HashSet<_>>().len(),
            Self::Rules => rules.regions().len(),
            Self::Prefixes => all().map(|region| port_prefixes(&region, 2) * port_prefixes(&region, 3)).sum(),
            Self::VppTss => all().flat_map(|region| masks(&region)).collect::<HashSet<_>>().len(),
        })
    }
}

/// Returns the lengths of the longest prefixes that contain the address intervals.
fn addresses(region: &Region<'_>) -> (u32, u32) {
    let length = |word: usize| (region.lo[word] ^ region.hi[word]).leading_zeros();
    (length(0), length(1))
}

/// Returns the number of prefixes that cover the ports of a word; absent ports belong to those of every value.
fn port_prefixes(region: &Region<'_>, word: usize) -> usize {
    let (lo, hi) = (u128::from(region.lo[word]), u128::from(region.hi[word].min(0xffff)));
    if (lo, hi) == (0, 0xffff) { 1 } else { prefixes(lo, hi, 16).len() }
}

fn masks(region: &Region<'_>) -> impl Iterator<Item = Mask> + use<> {
    let (src, dst) = addresses(region);
    let single = |word: usize| region.lo[word] == region.hi[word];
    let protocol = single(4);
    let ports = if protocol { (single(2), single(3)) } else { (false, false) };
    let fragments = protocol.then_some((src, dst, true, None));
    [(src, dst, protocol, Some(ports))].into_iter().chain(fragments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstmatch_core::rule::{ExpansionLimits, lower};
    use firstmatch_formats::Options;

    #[test]
    fn masks_are_those_of_the_addresses_the_protocol_and_single_ports() {
        let rules = "family ipv4\n\
            permit src 10.0.0.0/8 dst 10.1.0.0/16 tcp dport 80\n\
            permit src 11.0.0.0/8 dst 10.2.0.0/16 udp dport 53\n\
            permit src 12.0.0.0/8 dst 10.3.0.0/16 tcp dport 1-1023\n\
            permit src 13.0.0.0/8 dst 10.4.0.0/16\n\
            permit src 14.0.0.0/9 dst 10.5.0.0/16\n";
        let rules = firstmatch_formats::parse(rules, &Options::default()).expect("good rules").rules;
        let rules = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
        let count = |counted: Counted| counted.partitions(&rules).expect("5-tuples");
        assert_eq!(count(Counted::TssAddresses), 2);
        // Masks with port, without port, of fragments, and without protocol for two lengths.
        assert_eq!(count(Counted::VppTss), 5);
        // Ports 1 to 1023 are ten prefixes.
        assert_eq!([Counted::Rules, Counted::Prefixes].map(count), [5, 4 + 10]);
    }
}
