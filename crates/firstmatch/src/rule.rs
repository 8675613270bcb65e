//! Rules as values of Rust.

use std::fmt;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::str::FromStr;

use firstmatch_core::rule::{Action, NamedCondition, Priority, RuleSet, RuleSpec, Test};
use firstmatch_core::schema::{Family, Source};
use firstmatch_formats::{Fields, Options, parse_rule, write};

use crate::Error;

/// A rule that belongs to no rule set yet: an action, conditions on fields by their names, and a value of your own.
///
/// Conditions are joined by *and*, so each field has at most one; [`Rule::matches`] takes several values of a field.
///
/// ```
/// use firstmatch::{Addresses, Ports, Rule};
///
/// let rule = Rule::permit()
///     .dst(Addresses::prefix("192.0.2.0".parse().unwrap(), 24)?)
///     .proto(6)
///     .dst_port(Ports::from(8000..=8079))
///     .value(17); // comes back in every decision of this rule
/// assert_eq!(rule.to_string(), "permit dst 192.0.2.0/24 tcp dport 8000-8079");
/// assert_eq!(rule.to_string().parse::<Rule>()?.value(17), rule);
/// # Ok::<(), firstmatch::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a rule does nothing before it is inserted"]
pub struct Rule {
    action: Action,
    family: Option<Family>,
    conditions: Vec<NamedCondition>,
    value: u64,
}

/// IP addresses of one family: a single address, a prefix, or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    family: Family,
    test: Test,
}

/// Ports: a single port or a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports(Test);

impl Addresses {
    /// Returns the addresses whose first `len` bits are those of `address`.
    ///
    /// ```
    /// use firstmatch::{Addresses, Rule};
    ///
    /// let net = Addresses::prefix([10, 0, 0, 0].into(), 8)?;
    /// assert_eq!(Rule::permit().src(net).to_string(), "permit src 10.0.0.0/8");
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the family has fewer bits than `len`, or `address` has a bit set behind them.
    pub fn prefix(address: IpAddr, len: u32) -> Result<Self, Error> {
        let (family, value) = number_of(address);
        let width = width_of(family);
        if len > width {
            return Err(Error::rule(format!("/{len} is longer than an {family} address, which has {width} bits")));
        }
        let behind = if len == 0 { u128::MAX >> (128 - width) } else { (1 << (width - len)) - 1 };
        if value & behind != 0 {
            return Err(Error::rule(format!("{address}/{len} has bits set behind the prefix")));
        }
        Ok(Self { family, test: Test::Prefix { value, len } })
    }

    /// Returns the addresses from `first` to `last`, both included.
    ///
    /// ```
    /// use firstmatch::{Addresses, Rule};
    ///
    /// let few = Addresses::range([10, 0, 0, 1].into(), [10, 0, 0, 9].into())?;
    /// assert_eq!(Rule::permit().dst(few).to_string(), "permit dst 10.0.0.1-10.0.0.9");
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If they are of two families, or `last` comes before `first`.
    pub fn range(first: IpAddr, last: IpAddr) -> Result<Self, Error> {
        let ((family, lo), (other, hi)) = (number_of(first), number_of(last));
        if family != other || lo > hi {
            return Err(Error::rule(format!("{first}-{last} is no range of addresses")));
        }
        Ok(Self { family, test: Test::Range { lo, hi } })
    }
}

impl From<IpAddr> for Addresses {
    fn from(address: IpAddr) -> Self {
        let (family, value) = number_of(address);
        Self { family, test: Test::Prefix { value, len: width_of(family) } }
    }
}

impl From<u16> for Ports {
    fn from(port: u16) -> Self {
        Self(Test::Value(port.into()))
    }
}

/// An empty range holds no port.
impl From<RangeInclusive<u16>> for Ports {
    fn from(ports: RangeInclusive<u16>) -> Self {
        Self(Test::Range { lo: (*ports.start()).into(), hi: (*ports.end()).into() })
    }
}

fn number_of(address: IpAddr) -> (Family, u128) {
    match address {
        IpAddr::V4(address) => (Family::Ipv4, u32::from(address).into()),
        IpAddr::V6(address) => (Family::Ipv6, address.into()),
    }
}

fn width_of(family: Family) -> u32 {
    if family == Family::Ipv4 { 32 } else { 128 }
}

impl Rule {
    /// Returns a rule that lets every packet pass.
    ///
    /// ```
    /// use firstmatch::Rule;
    ///
    /// assert_eq!(Rule::permit().to_string(), "permit");
    /// ```
    pub fn permit() -> Self {
        Self::new(Action::Permit)
    }

    /// Returns a rule that drops every packet.
    ///
    /// ```
    /// use firstmatch::Rule;
    ///
    /// assert_eq!(Rule::deny().proto(17).to_string(), "deny udp");
    /// ```
    pub fn deny() -> Self {
        Self::new(Action::Deny)
    }

    /// Returns a rule without a condition.
    ///
    /// ```
    /// use firstmatch::{Action, Rule};
    ///
    /// assert_eq!(Rule::new(Action::Mark(7)).to_string(), "mark 7");
    /// ```
    pub fn new(action: Action) -> Self {
        Self { action, family: None, conditions: Vec::new(), value: 0 }
    }

    /// Confines the rule to packets of one address family.
    ///
    /// ```
    /// use firstmatch::Rule;
    /// use firstmatch::core::schema::Family;
    ///
    /// assert_eq!(Rule::deny().family(Family::Ipv6).to_string(), "deny family ipv6");
    /// ```
    pub fn family(self, family: Family) -> Self {
        Self { family: Some(family), ..self }
    }

    /// Requires a source address.
    ///
    /// ```
    /// use firstmatch::Rule;
    ///
    /// let host = std::net::IpAddr::from([192, 0, 2, 7]);
    /// assert_eq!(Rule::deny().src(host).to_string(), "deny src 192.0.2.7/32");
    /// ```
    pub fn src(self, addresses: impl Into<Addresses>) -> Self {
        self.addresses(Source::Src, addresses.into())
    }

    /// Requires a destination address.
    pub fn dst(self, addresses: impl Into<Addresses>) -> Self {
        self.addresses(Source::Dst, addresses.into())
    }

    /// Requires a source port.
    pub fn src_port(self, ports: impl Into<Ports>) -> Self {
        self.matches(Source::SrcPort.name(), [ports.into().0])
    }

    /// Requires a destination port.
    ///
    /// ```
    /// use firstmatch::Rule;
    ///
    /// assert_eq!(Rule::deny().dst_port(22..=23).to_string(), "deny dport 22-23");
    /// ```
    pub fn dst_port(self, ports: impl Into<Ports>) -> Self {
        self.matches(Source::DstPort.name(), [ports.into().0])
    }

    /// Requires an IP protocol by its number, for example 6 for TCP.
    pub fn proto(self, proto: u8) -> Self {
        self.matches(Source::Proto.name(), [Test::Value(proto.into())])
    }

    /// Requires that a field passes one of `tests`, in packets of every family.
    pub fn matches(self, field: &str, tests: impl IntoIterator<Item = Test>) -> Self {
        self.condition(NamedCondition::new(field, tests))
    }

    /// Requires that a field is present and passes none of `tests`.
    pub fn differs(self, field: &str, tests: impl IntoIterator<Item = Test>) -> Self {
        self.condition(NamedCondition::new(field, tests).negated())
    }

    /// Gives the rule a value, which every decision by it carries.
    ///
    /// ```
    /// use firstmatch::Rule;
    ///
    /// let rule = Rule::permit().value(42); // decisions of the rule carry it
    /// # assert_eq!(rule.to_string(), "permit");
    /// ```
    pub fn value(self, value: u64) -> Self {
        Self { value, ..self }
    }

    fn addresses(self, source: Source, addresses: Addresses) -> Self {
        let tests = vec![(Some(addresses.family), addresses.test)];
        self.condition(NamedCondition { field: source.name().to_owned(), negated: false, tests })
    }

    fn condition(mut self, condition: NamedCondition) -> Self {
        self.conditions.push(condition);
        self
    }

    /// Returns the rule over the fields of `rules`.
    ///
    /// Tests for a family that `rules` lack are left out, because no packet of it is classified. If all tests of a
    /// condition are for such a family, they are kept, so that the insertion is refused.
    pub(crate) fn bind(self, rules: &RuleSet, priority: Priority) -> Result<RuleSpec, Error> {
        let Self { action, family, mut conditions, value } = self;
        let is_held = |family: Option<Family>| family.is_none() || rules.schema(family).is_some();
        for NamedCondition { tests, .. } in &mut conditions {
            if tests.iter().any(|&(family, _)| is_held(family)) {
                tests.retain(|&(family, _)| is_held(family));
            }
        }
        let conditions = rules.bind(conditions)?;
        Ok(RuleSpec { priority, action, conditions, family, line: None, value })
    }
}

/// Returns an empty rule set that has every field of IP networks.
fn all_fields() -> Result<RuleSet, Error> {
    Ok(firstmatch_formats::parse("", &Options { fields: Fields::All, ..Options::default() })?.rules)
}

/// One rule of the project's own format, over the fields of IP networks.
impl FromStr for Rule {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let rules = all_fields()?;
        let spec = parse_rule(&rules, Priority(1), text, &Options::default())?.spec;
        let conditions = rules.unbind(&spec.conditions)?;
        Ok(Self { action: spec.action, family: spec.family, conditions, value: spec.value })
    }
}

/// The rule in the project's own format; `?` if that cannot express it, for example a field of a schema of your own.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = || -> Result<String, Error> {
            let mut rules = all_fields()?;
            let id = rules.insert(self.clone().bind(&rules, Priority(1))?)?;
            let rule = rules.get(id).ok_or_else(|| Error::rule("it was inserted"))?;
            write::native_rule(&rules, rule).map_err(|error| Error::rule(error.to_string()))
        };
        f.write_str(written().as_deref().unwrap_or("?"))
    }
}
