//! Members of live sets, and sets by name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::condition::Test;
use super::members::Members;
use crate::error::UpdateError;
use crate::schema::Family;

/// Member of a live set: the addresses of one family from the first to the last.
///
/// A prefix and a range with the same ends are the same member.
///
/// ```
/// use firstmatch_core::rule::Member;
///
/// let net: Member = "192.0.2.0/24".parse()?;
/// assert_eq!(net, "192.0.2.0-192.0.2.255".parse()?);
/// assert_eq!(net.to_string(), "192.0.2.0/24");
/// assert_eq!("2001:db8::1-2001:db8::5".parse::<Member>()?.to_string(), "2001:db8::1-2001:db8::5");
/// assert!("192.0.2.1/24".parse::<Member>().is_err());
/// # Ok::<(), firstmatch_core::UpdateError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Member {
    family: Family,
    lo: u128,
    hi: u128,
}

impl Member {
    /// Returns the member of the addresses from `lo` to `hi`, both included.
    ///
    /// # Errors
    /// If `hi` comes before `lo`, or is no address of the family.
    pub fn new(family: Family, lo: u128, hi: u128) -> Result<Self, UpdateError> {
        if lo > hi || hi > max(family) {
            return Err(UpdateError::bad_member(format!(
                "{lo:#x} to {hi:#x} is no range of {} addresses",
                family.pretty()
            )));
        }
        Ok(Self { family, lo, hi })
    }

    /// Returns the member of the addresses that pass a test; `None` if they are no range.
    pub fn of(family: Family, test: Test) -> Option<Self> {
        let (lo, hi) = match test {
            Test::Value(value) => (value, value),
            Test::Range { lo, hi } => (lo, hi),
            Test::Prefix { value, len } => (value, value | max(family).checked_shr(len).unwrap_or(0)),
            Test::Mask { value, mask } => {
                let free = !mask & max(family);
                (value, (free & free.wrapping_add(1) == 0).then_some(value | free)?)
            }
            Test::Absent | Test::Set(_) => return None,
        };
        Self::new(family, lo, hi).ok()
    }

    /// Returns the address family.
    pub fn family(self) -> Family {
        self.family
    }

    /// Returns the first and the last address, as numbers.
    pub fn ends(self) -> [u128; 2] {
        [self.lo, self.hi]
    }

    /// Returns the test that addresses of the member pass.
    pub fn test(self) -> Test {
        let free = self.lo ^ self.hi;
        match free & free.wrapping_add(1) == 0 && self.lo & free == 0 {
            true => Test::Prefix { value: self.lo, len: max(self.family).count_ones() - free.count_ones() },
            false => Test::Range { lo: self.lo, hi: self.hi },
        }
    }

    /// Returns the address of this family with a number.
    fn address(self, number: u128) -> IpAddr {
        match self.family {
            Family::Ipv4 => Ipv4Addr::from_bits(number as u32).into(),
            Family::Ipv6 => Ipv6Addr::from_bits(number).into(),
        }
    }
}

fn max(family: Family) -> u128 {
    match family {
        Family::Ipv4 => u32::MAX.into(),
        Family::Ipv6 => u128::MAX,
    }
}

impl From<IpAddr> for Member {
    fn from(address: IpAddr) -> Self {
        let (family, lo) = match address {
            IpAddr::V4(address) => (Family::Ipv4, address.to_bits().into()),
            IpAddr::V6(address) => (Family::Ipv6, address.to_bits()),
        };
        Self { family, lo, hi: lo }
    }
}

/// An address, a prefix (`192.0.2.0/24`) or a range (`192.0.2.1-192.0.2.9`).
impl FromStr for Member {
    type Err = UpdateError;

    fn from_str(text: &str) -> Result<Self, UpdateError> {
        let bad = |why: &str| UpdateError::bad_member(format!("`{text}` {why}"));
        let address = |text: &str| match text.parse::<IpAddr>() {
            Ok(address) => Ok(Self::from(address)),
            Err(_) => Err(bad("is no address, prefix or range of addresses")),
        };
        if let Some((first, len)) = text.split_once('/') {
            let first = address(first)?;
            let bits = max(first.family).count_ones();
            let len = len.parse::<u32>().ok().filter(|&len| len <= bits).ok_or_else(|| bad("has no such length"))?;
            let free = max(first.family).checked_shr(len).unwrap_or(0);
            if first.lo & free != 0 {
                return Err(bad("has bits set behind the prefix"));
            }
            return Ok(Self { hi: first.lo | free, ..first });
        }
        if let Some((first, last)) = text.split_once('-') {
            let (first, last) = (address(first)?, address(last)?);
            if first.family != last.family || first.lo > last.lo {
                return Err(bad("is no range of addresses"));
            }
            return Ok(Self { hi: last.lo, ..first });
        }
        address(text)
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address(self.lo).fmt(f)?;
        match self.test() {
            _ if self.lo == self.hi => Ok(()),
            Test::Prefix { len, .. } => write!(f, "/{len}"),
            _ => write!(f, "-{}", self.address(self.hi)),
        }
    }
}

/// Live set: a name and members of both families, which may overlap.
#[derive(Clone, Debug)]
pub struct LiveSet {
    name: Box<str>,
    pub(crate) ipv4: Members<u32>,
    pub(crate) ipv6: Members<u128>,
}

impl LiveSet {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.into(), ipv4: Members::default(), ipv6: Members::default() }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of members.
    pub fn len(&self) -> usize {
        self.ipv4.len() + self.ipv6.len()
    }

    /// Whether the set has no member.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether exactly this range is a member.
    pub fn has(&self, member: Member) -> bool {
        match member.family {
            Family::Ipv4 => self.ipv4.has(member.lo as u32, member.hi as u32),
            Family::Ipv6 => self.ipv6.has(member.lo, member.hi),
        }
    }

    /// Whether some member holds an address.
    pub fn contains(&self, family: Family, address: u128) -> bool {
        match family {
            Family::Ipv4 => u32::try_from(address).is_ok_and(|address| self.ipv4.holds(address)),
            Family::Ipv6 => self.ipv6.holds(address),
        }
    }

    /// Returns a member that holds an address: the address itself, or else the shortest range of those that begin
    /// last.
    pub fn member_with(&self, family: Family, address: u128) -> Option<Member> {
        let (lo, hi) = match family {
            Family::Ipv4 => {
                let (lo, hi) = self.ipv4.member_with(u32::try_from(address).ok()?)?;
                (lo.into(), hi.into())
            }
            Family::Ipv6 => self.ipv6.member_with(address)?,
        };
        Some(Member { family, lo, hi })
    }

    /// Returns the members: those of IPv4, then those of IPv6, each in order of their first address.
    pub fn members(&self) -> impl Iterator<Item = Member> {
        let ipv4 = self.ipv4.iter().map(|(lo, hi)| Member { family: Family::Ipv4, lo: lo.into(), hi: hi.into() });
        ipv4.chain(self.ipv6.iter().map(|(lo, hi)| Member { family: Family::Ipv6, lo, hi }))
    }

    /// Number of members of a family.
    pub(super) fn count(&self, family: Family) -> usize {
        match family {
            Family::Ipv4 => self.ipv4.len(),
            Family::Ipv6 => self.ipv6.len(),
        }
    }

    /// Adds a member; returns whether it is new.
    pub(crate) fn insert(&mut self, Member { family, lo, hi }: Member) -> bool {
        match family {
            Family::Ipv4 => self.ipv4.insert(lo as u32, hi as u32),
            Family::Ipv6 => self.ipv6.insert(lo, hi),
        }
    }

    /// Removes a member; returns whether it was one.
    pub(crate) fn remove(&mut self, Member { family, lo, hi }: Member) -> bool {
        match family {
            Family::Ipv4 => self.ipv4.remove(lo as u32, hi as u32),
            Family::Ipv6 => self.ipv6.remove(lo, hi),
        }
    }
}
