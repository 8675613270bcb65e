//! Outcomes: every way a packet can end.

use std::fmt;

/// Outcome of a packet: exactly one of these for one schema.
///
/// All but the first three are *unknown*: the packet is not classified and gets the policy's verdict for unknown
/// packets. [`Extractor::needed`](super::Extractor::needed) returns the fields that are *needed*.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Outcome {
    /// Classified: every needed field is known, and the ports, if they are needed, are there.
    Complete,
    /// Classified: the ports are needed and known to be absent, for example in ICMP.
    NoPorts,
    /// Classified: a later fragment, whose fields past the IP header the policy declares absent.
    FragmentLayer3,
    /// Fragment other than the first, whose fields past the IP header are in another packet.
    Fragment,
    /// First fragment that ends before the needed fields.
    FirstFragmentShort,
    /// The capture ends before the needed fields.
    Truncated,
    /// The packet contradicts itself.
    ///
    /// Lengths or versions contradict each other, the packet ends before a header it must have, or it has IPv6 routing
    /// headers of several types.
    Malformed,
    /// More IPv6 extension headers than the cap.
    ExtensionCap,
    /// An IPv6 extension header that is not read, so that the fields behind it are unknown.
    ///
    /// It is mobility, HIP, shim6 or one of two for experiments.
    UnknownExtension,
    /// More VLAN tags than the cap.
    VlanCap,
    /// More MPLS labels than the cap.
    MplsCap,
    /// Neither IPv4 nor IPv6.
    NotIp,
    /// IPv4 or IPv6, and the rules are for the other family alone.
    OtherFamily,
    /// The packet lacks a needed field that is not optional in the schema.
    LacksField,
    /// A link type that this crate does not know.
    UnknownLink,
}

impl Outcome {
    /// All outcomes in order of [`Outcome::index`], the classified ones first.
    pub const ALL: [Self; 15] = [
        Self::Complete,
        Self::NoPorts,
        Self::FragmentLayer3,
        Self::Fragment,
        Self::FirstFragmentShort,
        Self::Truncated,
        Self::Malformed,
        Self::ExtensionCap,
        Self::UnknownExtension,
        Self::VlanCap,
        Self::MplsCap,
        Self::NotIp,
        Self::OtherFamily,
        Self::LacksField,
        Self::UnknownLink,
    ];

    /// Returns the name that counters use, for example `first-fragment-short`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::NoPorts => "no-ports",
            Self::FragmentLayer3 => "fragment-layer3",
            Self::Fragment => "fragment",
            Self::FirstFragmentShort => "first-fragment-short",
            Self::Truncated => "truncated",
            Self::Malformed => "malformed",
            Self::ExtensionCap => "extension-cap",
            Self::UnknownExtension => "unknown-extension",
            Self::VlanCap => "vlan-cap",
            Self::MplsCap => "mpls-cap",
            Self::NotIp => "not-ip",
            Self::OtherFamily => "other-family",
            Self::LacksField => "lacks-field",
            Self::UnknownLink => "unknown-link",
        }
    }

    /// Returns the place in [`Outcome::ALL`], which is the index of the outcome's counter.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Whether the packet has a row of keys.
    pub const fn is_classified(self) -> bool {
        matches!(self, Self::Complete | Self::NoPorts | Self::FragmentLayer3)
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lists_each_once_in_order_of_index() {
        for (index, outcome) in Outcome::ALL.iter().enumerate() {
            assert_eq!(outcome.index(), index);
            assert!(outcome.name().bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'));
        }
        assert!(Outcome::ALL.is_sorted_by_key(|o| !o.is_classified()));
    }
}
