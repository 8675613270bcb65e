//! Numbers of verdicts and outcomes, which never change.
//!
//! Each is written out, because the order of the enums is by meaning and may grow in the middle. A new outcome takes the
//! next free number.

use firstmatch::core::rule::Action;
use firstmatch::core::schema::Family;
use firstmatch::{Outcome, Verdict};

/// Verdict: the packet passes.
pub const FIRSTMATCH_PERMIT: u32 = 1;
/// Verdict: the packet is dropped.
pub const FIRSTMATCH_DENY: u32 = 2;
/// Verdict: the packet passes with the number `mark` on it.
pub const FIRSTMATCH_MARK: u32 = 3;
/// Verdict: a rule without an action matches.
pub const FIRSTMATCH_MATCH: u32 = 4;

/// Outcome: classified, every needed field is known.
pub const FIRSTMATCH_COMPLETE: u32 = 1;
/// Outcome: classified, the ports are needed and known to be absent.
pub const FIRSTMATCH_NO_PORTS: u32 = 2;
/// Outcome: classified, a later fragment whose fields past the IP header count as absent.
pub const FIRSTMATCH_FRAGMENT_LAYER3: u32 = 3;
/// Outcome: a later fragment, whose other fields are in another packet.
pub const FIRSTMATCH_FRAGMENT: u32 = 4;
/// Outcome: a first fragment that ends before the needed fields.
pub const FIRSTMATCH_FIRST_FRAGMENT_SHORT: u32 = 5;
/// Outcome: the capture ends before the needed fields.
pub const FIRSTMATCH_TRUNCATED: u32 = 6;
/// Outcome: the packet contradicts itself.
pub const FIRSTMATCH_MALFORMED: u32 = 7;
/// Outcome: more IPv6 extension headers than the cap.
pub const FIRSTMATCH_EXTENSION_CAP: u32 = 8;
/// Outcome: an IPv6 extension header that is not read.
pub const FIRSTMATCH_UNKNOWN_EXTENSION: u32 = 9;
/// Outcome: more VLAN tags than the cap.
pub const FIRSTMATCH_VLAN_CAP: u32 = 10;
/// Outcome: more MPLS labels than the cap.
pub const FIRSTMATCH_MPLS_CAP: u32 = 11;
/// Outcome: neither IPv4 nor IPv6.
pub const FIRSTMATCH_NOT_IP: u32 = 12;
/// Outcome: IPv4 or IPv6, and the rules are for the other family alone.
pub const FIRSTMATCH_OTHER_FAMILY: u32 = 13;
/// Outcome: a needed field is absent that the rules expect in every packet.
pub const FIRSTMATCH_LACKS_FIELD: u32 = 14;
/// Outcome: a link type that is not read.
pub const FIRSTMATCH_UNKNOWN_LINK: u32 = 15;
/// Outcome of a row of columns: a value that its field cannot have.
pub const FIRSTMATCH_OUT_OF_RANGE: u32 = 16;
/// Largest number of an outcome in this version; a newer one may have more.
pub const FIRSTMATCH_OUTCOME_LAST: u32 = 16;

/// Link type: Ethernet. Others are the `LINKTYPE_` numbers of captures.
pub const FIRSTMATCH_LINK_ETHERNET: u32 = 1;
/// Link type: IPv4 or IPv6 without a link header.
pub const FIRSTMATCH_LINK_RAW: u32 = 101;

/// Family: none, or both.
pub const FIRSTMATCH_NO_FAMILY: u32 = 0;
/// Family: IPv4.
pub const FIRSTMATCH_IPV4: u32 = 4;
/// Family: IPv6.
pub const FIRSTMATCH_IPV6: u32 = 6;

/// Returns the number of a verdict, and its mark or 0.
#[inline(always)]
pub(crate) const fn verdict(verdict: Verdict) -> (u32, u32) {
    match verdict {
        Verdict::Permit => (FIRSTMATCH_PERMIT, 0),
        Verdict::Deny => (FIRSTMATCH_DENY, 0),
        Verdict::Mark(mark) => (FIRSTMATCH_MARK, mark),
        Verdict::Match => (FIRSTMATCH_MATCH, 0),
    }
}

/// Returns the number of an outcome.
#[inline(always)]
pub(crate) const fn outcome(outcome: Outcome) -> u32 {
    match outcome {
        Outcome::Complete => FIRSTMATCH_COMPLETE,
        Outcome::NoPorts => FIRSTMATCH_NO_PORTS,
        Outcome::FragmentLayer3 => FIRSTMATCH_FRAGMENT_LAYER3,
        Outcome::Fragment => FIRSTMATCH_FRAGMENT,
        Outcome::FirstFragmentShort => FIRSTMATCH_FIRST_FRAGMENT_SHORT,
        Outcome::Truncated => FIRSTMATCH_TRUNCATED,
        Outcome::Malformed => FIRSTMATCH_MALFORMED,
        Outcome::ExtensionCap => FIRSTMATCH_EXTENSION_CAP,
        Outcome::UnknownExtension => FIRSTMATCH_UNKNOWN_EXTENSION,
        Outcome::VlanCap => FIRSTMATCH_VLAN_CAP,
        Outcome::MplsCap => FIRSTMATCH_MPLS_CAP,
        Outcome::NotIp => FIRSTMATCH_NOT_IP,
        Outcome::OtherFamily => FIRSTMATCH_OTHER_FAMILY,
        Outcome::LacksField => FIRSTMATCH_LACKS_FIELD,
        Outcome::UnknownLink => FIRSTMATCH_UNKNOWN_LINK,
    }
}

/// Returns the outcome of a number.
pub(crate) fn outcome_of(number: u32) -> Option<Outcome> {
    Outcome::ALL.into_iter().find(|&known| outcome(known) == number)
}

/// Returns the action of a number, with `mark` if it is that action.
pub(crate) fn action_of(number: u32, mark: u32) -> Option<Action> {
    Some(match number {
        FIRSTMATCH_PERMIT => Action::Permit,
        FIRSTMATCH_DENY => Action::Deny,
        FIRSTMATCH_MARK => Action::Mark(mark),
        FIRSTMATCH_MATCH => Action::Match,
        _ => return None,
    })
}

/// Returns the number of a family.
pub(crate) const fn family(family: Option<Family>) -> u32 {
    match family {
        None => FIRSTMATCH_NO_FAMILY,
        Some(Family::Ipv4) => FIRSTMATCH_IPV4,
        Some(Family::Ipv6) => FIRSTMATCH_IPV6,
    }
}

/// Returns the family with this number: `Some(None)` for [`FIRSTMATCH_NO_FAMILY`], `None` if the number is unknown.
pub(crate) fn family_of(number: u32) -> Option<Option<Family>> {
    [None, Some(Family::Ipv4), Some(Family::Ipv6)].into_iter().find(|&known| family(known) == number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_outcome_has_a_number_of_its_own() {
        // The last one is of rows alone.
        for number in 1..FIRSTMATCH_OUT_OF_RANGE {
            assert_eq!(outcome_of(number).map(outcome), Some(number));
        }
        assert_eq!([0, FIRSTMATCH_OUT_OF_RANGE, FIRSTMATCH_OUTCOME_LAST + 1].map(outcome_of), [None; 3]);
        assert_eq!(Outcome::ALL.len() + 1, FIRSTMATCH_OUTCOME_LAST as usize);
    }

    #[test]
    fn actions_and_families_come_back_from_their_numbers() {
        for number in FIRSTMATCH_PERMIT..=FIRSTMATCH_MATCH {
            let action = action_of(number, 7).expect("an action");
            assert_eq!(verdict(action.into()), (number, if number == FIRSTMATCH_MARK { 7 } else { 0 }));
        }
        assert_eq!((action_of(0, 7), action_of(5, 7)), (None, None));
        for number in 0..10 {
            let known = [FIRSTMATCH_NO_FAMILY, FIRSTMATCH_IPV4, FIRSTMATCH_IPV6].contains(&number);
            assert_eq!(family_of(number).map(family), known.then_some(number));
        }
    }
}
