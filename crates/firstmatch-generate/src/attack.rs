//! Rule sets that make classifiers explode: in time, in memory, or while they are built.
//!
//! Rules are ordered by how much they match, the narrowest first. Each rule can therefore be hit, and a lookup cannot
//! stop early at a wide one. No two rules are the same.

use std::collections::HashSet;
use std::fmt;
use std::str::FromStr;

use firstmatch_core::rule::Test;
use firstmatch_core::schema::Family;
use firstmatch_core::{RuleSet, Schema};

use crate::error::Error;
use crate::openflow::spec;
use crate::random::{Purpose, Random};
use crate::rules::MAX_RULES;

/// Weakness of a classifier that a rule set attacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Attack {
    /// One packet lies in all rules, so a structure that cuts the space copies them.
    ///
    /// The rules have prefixes of its addresses of every length and ranges around its ports.
    Overlapping,
    /// Half of the rules fix only the source, the other half only the destination.
    ///
    /// Each rule of one half overlaps each of the other, so a structure that cuts both fields holds their product. For
    /// example, 1,000 rules have 500 · 500 = 250,000 intersections.
    Cross,
    /// A range in both ports and any address: no bit of an address helps, and few of a port.
    Ranges,
    /// Every pair of prefix lengths in turn, with a protocol.
    ///
    /// That gives as many tuples as possible: 33² = 1,089 in IPv4 and 129² = 16,641 in IPv6.
    Tuples,
    /// Prefixes of every length and a range in both ports: all the difficulties at once.
    Mixed,
}

impl Attack {
    /// All attacks.
    pub const ALL: [Self; 5] = [Self::Overlapping, Self::Cross, Self::Ranges, Self::Tuples, Self::Mixed];

    /// Returns the name: `overlapping`, `cross`, `ranges`, `tuples` or `mixed`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Overlapping => "overlapping",
            Self::Cross => "cross",
            Self::Ranges => "ranges",
            Self::Tuples => "tuples",
            Self::Mixed => "mixed",
        }
    }
}

impl fmt::Display for Attack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Attack {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found = Self::ALL.into_iter().find(|attack| attack.name() == text);
        let names = || Self::ALL.map(Self::name).join(", ");
        found.ok_or_else(|| Error::config(format!("there is no attack `{text}`; expected one of {}", names())))
    }
}

/// Most draws for one rule until it is a new one.
const TRIES: u64 = 1000;

/// Generates `rules` distinct rules over the 5-tuple of `family`.
///
/// # Errors
/// If `rules` is not 1 to [`MAX_RULES`], or the attack does not have that many distinct rules.
pub fn generate(attack: Attack, family: Family, rules: usize, seed: u64) -> Result<RuleSet, Error> {
    if !(1..=MAX_RULES).contains(&rules) {
        return Err(Error::config(format!("rules is {rules}, not a number from 1 to {MAX_RULES}")));
    }
    let mut random = Random::new(seed, Purpose::Fields);
    let bits = family.address_bits();
    let centre = Centre { bits, addresses: [0; 2].map(|_| address(bits, &mut random)), ports: [4040, 443] };
    let mut seen: HashSet<[Option<Test>; 5]> = HashSet::with_capacity(rules);
    let mut drafts = Vec::with_capacity(rules);
    for number in 0..rules {
        let drawn = (0..TRIES).find_map(|_| {
            let tests = draw(attack, number, &centre, &mut random);
            seen.insert(tests).then_some(tests)
        });
        let Some(tests) = drawn else { return Err(Error::exhausted(attack.name(), number, rules, TRIES)) };
        drafts.push(tests);
    }
    drafts.sort_by_key(|tests| {
        tests.iter().zip([bits, bits, 16, 16, 8]).map(|(test, bits)| width(test, bits)).sum::<u32>()
    });
    let mut set = RuleSet::new(Schema::five_tuple(family, &[]));
    for (line, tests) in (1..).zip(drafts) {
        set.insert(spec(line, tests.into())).map_err(|error| Error::unsupported(format!("rule {line}: {error}")))?;
    }
    Ok(set)
}

/// Packet that all rules of [`Attack::Overlapping`] match.
struct Centre {
    bits: u32,
    addresses: [u128; 2],
    ports: [u32; 2],
}

/// Draws the tests of rule `number` for both addresses, both ports and the protocol.
fn draw(attack: Attack, number: usize, centre: &Centre, random: &mut Random) -> [Option<Test>; 5] {
    let bits = centre.bits;
    match attack {
        Attack::Overlapping => {
            let [src, dst] = centre.addresses.map(|of| prefix(of, random.between(0, bits), bits));
            let [sport, dport] = centre.ports.map(|port| range(random.between(0, port), random.between(port, 0xFFFF)));
            [src, dst, sport, dport, None]
        }
        Attack::Cross => {
            let one = prefix(address(bits, random), random.between(bits / 2, bits), bits);
            if number.is_multiple_of(2) { [one, None, None, None, None] } else { [None, one, None, None, None] }
        }
        Attack::Ranges => [None, None, any_range(random), any_range(random), None],
        Attack::Tuples => {
            let lengths = bits as usize + 1;
            let [src, dst] = [number % lengths, number / lengths % lengths]
                .map(|len| prefix(address(bits, random), len as u32, bits));
            [src, dst, None, None, Some(Test::Value(u128::from(random.below(256))))]
        }
        Attack::Mixed => {
            let [src, dst] = [(); 2].map(|()| prefix(address(bits, random), random.between(0, bits), bits));
            [src, dst, any_range(random), any_range(random), None]
        }
    }
}

fn address(bits: u32, random: &mut Random) -> u128 {
    (u128::from(random.bits()) << 64 | u128::from(random.bits())) >> (128 - bits)
}

fn prefix(address: u128, len: u32, bits: u32) -> Option<Test> {
    let value = address & (u128::MAX.checked_shl(bits - len).unwrap_or(0));
    (len > 0).then_some(Test::Prefix { value, len })
}

fn any_range(random: &mut Random) -> Option<Test> {
    let (one, other) = (random.between(0, 0xFFFF), random.between(0, 0xFFFF));
    range(one.min(other), one.max(other))
}

fn range(lo: u32, hi: u32) -> Option<Test> {
    match (lo, hi) {
        (0, 0xFFFF) => None,
        _ if lo == hi => Some(Test::Value(lo.into())),
        _ => Some(Test::Range { lo: lo.into(), hi: hi.into() }),
    }
}

/// Returns about how many of a field's `bits` a test leaves open.
fn width(test: &Option<Test>, bits: u32) -> u32 {
    match *test {
        None => bits,
        Some(Test::Prefix { len, .. }) => bits - len,
        Some(Test::Range { lo, hi }) => (hi - lo).max(1).ilog2(),
        Some(_) => 0,
    }
}
