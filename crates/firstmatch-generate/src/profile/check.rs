//! Validation of profiles, so that drawing from a valid one never panics or divides by zero.

use super::{LengthPair, PortClass, PortPair, Ports, Profile, Protocol, Tree};
use crate::error::Error;

/// Returns whether headers of `protocol` have ports.
pub(crate) fn with_ports(protocol: u8) -> bool {
    matches!(protocol, 6 | 17 | 33 | 132 | 136)
}

impl Profile {
    /// Checks that rules can be drawn from the profile.
    ///
    /// # Errors
    /// If a number is out of its bounds or something needed is missing; the error names it.
    pub fn check(&self) -> Result<(), Error> {
        let fail = |what: String| Err(Error::config(format!("profile {}: {what}", self.name)));
        for (at, &value) in self.correlation.iter().enumerate() {
            share(&format!("correlation at level {at}"), value).or_else(fail)?;
        }
        if self.scale == Some(0) {
            return fail("scale is 0: the trees' figures were taken from one rule at least".to_owned());
        }
        if !self.has_protocol && !matches!(self.protocols[..], [Protocol { number: None, .. }]) {
            return fail("without a field for the protocol, the wildcard is its only protocol".to_owned());
        }
        weights("protocols", self.protocols.iter().map(|p| p.share)).or_else(fail)?;
        for protocol in &self.protocols {
            let name = protocol.number.map_or("the wildcard protocol".to_owned(), |n| format!("protocol {n}"));
            weights(&format!("ports of {name}"), protocol.ports.iter().map(|(_, share)| *share)).or_else(fail)?;
            if !protocol.flags.is_empty() {
                weights(&format!("flags of {name}"), protocol.flags.iter().map(|(_, share)| *share)).or_else(fail)?;
            }
            if let Some((flags, _)) = protocol.flags.iter().find(|(flags, _)| flags.value & !flags.mask != 0) {
                return fail(format!("{name}: the flags {:#06x} have bits outside {:#06x}", flags.value, flags.mask));
            }
            let may = self.ports_everywhere || !self.has_protocol || protocol.number.is_some_and(with_ports);
            let used = protocol.ports.iter().filter(|(_, share)| *share > 0.0).map(|(pair, _)| *pair);
            for pair in used {
                if pair != PortPair::NONE && !may {
                    return fail(format!("{name} has no ports, but a share of {pair:?}"));
                }
                self.source_ports.check_class(pair.source, "source").or_else(fail)?;
                self.destination_ports.check_class(pair.destination, "destination").or_else(fail)?;
            }
        }
        self.source_ports.check("source").or_else(fail)?;
        self.destination_ports.check("destination").or_else(fail)?;
        lengths("prefix lengths", &self.lengths).or_else(fail)?;
        for (pair, own) in &self.lengths_of {
            lengths(&format!("prefix lengths of {pair:?}"), own).or_else(fail)?;
        }
        self.source.check("source").or_else(fail)?;
        self.destination.check("destination").or_else(fail)
    }
}

impl Ports {
    fn check(&self, which: &str) -> Result<(), String> {
        share(&format!("other {which} ports"), self.other)?;
        if !self.exact.is_empty() {
            weights(&format!("exact {which} ports"), self.exact.iter().map(|(_, share)| *share))?;
        }
        if !self.ranges.is_empty() {
            weights(&format!("ranges of {which} ports"), self.ranges.iter().map(|(_, share)| *share))?;
        }
        for &((lo, hi), _) in &self.ranges {
            if lo > hi || PortClass::of(lo, hi) != PortClass::Range {
                return Err(format!("{lo} to {hi} is no arbitrary range of {which} ports"));
            }
        }
        Ok(())
    }

    fn check_class(&self, class: PortClass, which: &str) -> Result<(), String> {
        let listed = match class {
            PortClass::Exact => !self.exact.is_empty(),
            PortClass::Range => !self.ranges.is_empty(),
            _ => true,
        };
        if listed || self.other > 0.0 { Ok(()) } else { Err(format!("there are no {which} ports of class {class:?}")) }
    }
}

impl Tree {
    fn check(&self, which: &str) -> Result<(), String> {
        for (at, level) in self.levels.iter().enumerate() {
            share(&format!("branching of the {which} tree at level {at}"), level.branching)?;
            share(&format!("skew of the {which} tree at level {at}"), level.skew)?;
        }
        if self.nesting == Some(0) {
            return Err(format!("the {which} tree allows no prefix at all: nesting is at least 1"));
        }
        Ok(())
    }
}

fn lengths(what: &str, pairs: &[LengthPair]) -> Result<(), String> {
    weights(what, pairs.iter().map(|pair| pair.share))?;
    match pairs.iter().find(|pair| pair.source > 32 || pair.destination > 32) {
        Some(pair) => Err(format!("{what}: {} and {} are not both at most 32", pair.source, pair.destination)),
        None => Ok(()),
    }
}

/// Checks that a share is a number from 0 to 1.
pub(crate) fn share(what: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(format!("{what} is {value}, not a number from 0 to 1")) }
}

/// Checks that no weight is negative and at least one is positive.
fn weights(what: &str, weights: impl Iterator<Item = f64>) -> Result<(), String> {
    let mut sum = 0.0;
    for weight in weights {
        if !(weight.is_finite() && weight >= 0.0) {
            return Err(format!("{what}: the weight {weight} is not a number from 0"));
        }
        sum += weight;
    }
    // Weights can be divided by any larger sum without overflow.
    let fine = sum.is_finite() && sum > 1e-200;
    if fine { Ok(()) } else { Err(format!("{what}: the weights sum to {sum}")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A share of ports is refused where a protocol has none, or where none of that class are listed or drawn.
    #[test]
    fn ports_are_of_protocols_and_classes_that_there_are() {
        let with = |change: &dyn Fn(&mut Profile)| {
            let mut profile = Profile::acl();
            profile.protocols.truncate(1);
            profile.protocols[0].number = Some(6);
            change(&mut profile);
            profile.check().map_err(|error| error.to_string())
        };
        let says = |checked: Result<(), String>, what: &str| {
            assert!(checked.as_ref().is_err_and(|error| error.ends_with(what)), "{checked:?} is not `{what}`");
        };
        assert_eq!(with(&|_| ()), Ok(()));
        for class in [PortClass::Exact, PortClass::Range] {
            for is_source in [true, false] {
                let only = |profile: &mut Profile| {
                    let wildcard = PortClass::Wildcard;
                    let pair = if is_source { PortPair::new(class, wildcard) } else { PortPair::new(wildcard, class) };
                    profile.protocols[0].ports = vec![(pair, 1.0)];
                };
                let ports = |profile: &mut Profile, other| {
                    let of = if is_source { &mut profile.source_ports } else { &mut profile.destination_ports };
                    (of.exact, of.ranges, of.other) = (Vec::new(), Vec::new(), other);
                };
                let which = if is_source { "source" } else { "destination" };
                let none = with(&|profile| (only(profile), ports(profile, 0.0)).0);
                says(none, &format!("there are no {which} ports of class {class:?}"));
                assert_eq!(with(&|profile| (only(profile), ports(profile, 0.5)).0), Ok(()));
                assert!(with(&|profile| ports(profile, 1.5)).is_err_and(|error| error.contains("other")), "{which}");
            }
        }
        for number in [None, Some(1)] {
            let change = |profile: &mut Profile, everywhere| {
                profile.protocols[0].number = number;
                profile.protocols[0].ports = vec![(PortPair::new(PortClass::Low, PortClass::Wildcard), 1.0)];
                profile.ports_everywhere = everywhere;
            };
            let refused = with(&|profile| change(profile, false));
            assert!(refused.is_err_and(|error| error.contains(" has no ports, but a share of ")), "{number:?}");
            assert_eq!(with(&|profile| change(profile, true)), Ok(()));
        }
    }

    #[test]
    fn lengths_are_at_most_32() {
        let says = |source, destination| lengths("of", &[LengthPair::new(source, destination, 1.0)]);
        assert_eq!(says(32, 32), Ok(()));
        for (source, destination) in [(33, 32), (32, 33)] {
            assert_eq!(
                says(source, destination),
                Err(format!("of: {source} and {destination} are not both at most 32"))
            );
        }
    }
}
