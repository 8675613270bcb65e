//! Drawing distinct 5-tuples from a profile.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use firstmatch::schema::Family;

use super::nesting::{Mixed, Nesting};
use super::order::Measures;
use super::tree::{Node, Walker};
use crate::error::Error;
use crate::profile::{LengthPair, PortClass, PortPair, Ports, Profile, Tree, with_ports};
use crate::random::{Random, Weighted, mix2};

/// What a rule matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    /// `None` where both addresses are wildcards in a set of both families.
    pub(crate) family: Option<Family>,
    pub(crate) src: Node,
    pub(crate) dst: Node,
    pub(crate) sport: (u16, u16),
    pub(crate) dport: (u16, u16),
    pub(crate) proto: Option<u8>,
}

/// Every port.
pub(crate) const ANY_PORT: (u16, u16) = (0, u16::MAX);

impl Tuple {
    pub(crate) const EVERYTHING: Self =
        Self { family: None, src: Node::ROOT, dst: Node::ROOT, sport: ANY_PORT, dport: ANY_PORT, proto: None };

    fn is_everything(&self) -> bool {
        Self { family: None, ..*self } == Self::EVERYTHING
    }

    /// A number that different tuples share with a probability of 2^-64 each pair: a million have 3·10^-8 in all of
    /// meeting, and then one tuple is drawn again, no more.
    pub(crate) fn fingerprint(&self) -> u64 {
        let ports = u64::from(self.sport.0) << 48
            | u64::from(self.sport.1) << 32
            | u64::from(self.dport.0) << 16
            | u64::from(self.dport.1);
        let proto = self.proto.map_or(256, u64::from);
        let family = self.family.map_or(0, |family| family as u64 + 1);
        mix2(mix2(self.src.number(), self.dst.number()), mix2(ports, proto << 2 | family))
    }
}

/// One side's addresses in one family.
#[derive(Debug)]
struct Side {
    walker: Walker,
    nesting: Option<Nesting>,
}

/// Draws tuples, no two the same.
#[derive(Debug)]
pub(crate) struct Drawer<'p> {
    profile: &'p Profile,
    families: Weighted<Family>,
    protocols: Weighted<usize>,
    /// For each protocol its port classes.
    classes: Vec<Weighted<PortPair>>,
    ports: [PortValues; 2],
    lengths: Weighted<(u8, u8)>,
    lengths_of: Vec<(PortPair, Weighted<(u8, u8)>)>,
    /// By family and side.
    sides: [[Side; 2]; 2],
    /// In units of 2^-32.
    alike: u64,
    seen: HashSet<u64, BuildHasherDefault<Mixed>>,
    tries: u64,
}

/// How many kinds of rules may be tried in vain, one after the other, before the profile counts as exhausted. Where
/// one kind in a thousand still has a new tuple, that happens once in 10^8 draws.
const PATIENCE: u32 = 20_000;
/// How many tuples of one kind are tried.
const TRIES_OF_A_KIND: u32 = 16;

impl<'p> Drawer<'p> {
    /// `ipv6` is the share of IPv6 among the rules; the profile has been checked.
    pub(crate) fn new(profile: &'p Profile, ipv6: f64, seed: u64, rules: usize) -> Self {
        let pairs = |pairs: &[LengthPair]| Weighted::new(pairs.iter().map(|p| ((p.source, p.destination), p.share)));
        let sides = [Family::Ipv4, Family::Ipv6].map(|family| {
            [(0, &profile.source), (1, &profile.destination)].map(|(side, tree): (u64, &Tree)| {
                // Trees of one plan agree on the sides that nodes without a branch take.
                let plan = if profile.correlation > 0.0 { 0 } else { side };
                let nesting = tree.nesting.map(|most| Nesting::new(most, lengths_of_side(profile, side)));
                Side { walker: Walker::new(tree, family, mix2(seed, plan), rules), nesting }
            })
        });
        Self {
            profile,
            families: Weighted::new([(Family::Ipv4, 1.0 - ipv6), (Family::Ipv6, ipv6)]),
            protocols: Weighted::new(profile.protocols.iter().enumerate().map(|(at, p)| (at, p.share))),
            classes: profile.protocols.iter().map(|p| Weighted::new(p.ports.iter().copied())).collect(),
            ports: [
                PortValues::new(&profile.source_ports, mix2(seed, 2)),
                PortValues::new(&profile.destination_ports, mix2(seed, 3)),
            ],
            lengths: pairs(&profile.lengths),
            lengths_of: profile.lengths_of.iter().map(|(of, own)| (*of, pairs(own))).collect(),
            sides,
            alike: (profile.correlation * (1u64 << 32) as f64) as u64,
            seen: HashSet::with_capacity_and_hasher(rules, BuildHasherDefault::default()),
            tries: 0,
        }
    }

    /// A new tuple.
    ///
    /// # Errors
    /// When so many in a row were no new ones that there are hardly any left.
    pub(crate) fn draw(&mut self, random: &mut Random, asked: usize) -> Result<Tuple, Error> {
        for _ in 0..PATIENCE {
            if let Some(tuple) = self.attempt(random) {
                return Ok(tuple);
            }
        }
        Err(Error::exhausted(&self.profile.name, self.seen.len(), asked, self.tries))
    }

    /// Whether the set is of both families.
    fn both(&self) -> bool {
        self.families.items().len() > 1
    }

    /// Kinds of rules of which few are different (short prefixes without ports) would come too seldom if a duplicate
    /// were followed by a rule of any kind: the kind is kept for some tries.
    fn attempt(&mut self, random: &mut Random) -> Option<Tuple> {
        let family = self.families.draw(random)?;
        let protocol = self.protocols.draw(random)?;
        let classes = self.classes[protocol].draw(random)?;
        let own = self.lengths_of.iter().find(|(of, _)| *of == classes);
        let lengths = own.map_or(&self.lengths, |(_, lengths)| lengths).draw(random)?;
        let proto = self.profile.protocols[protocol].number;
        (0..TRIES_OF_A_KIND).find_map(|_| {
            self.tries += 1;
            let tuple = self.of_kind(family, proto, classes, lengths, random)?;
            self.accept(tuple)
        })
    }

    fn of_kind(
        &self,
        family: Family,
        proto: Option<u8>,
        classes: PortPair,
        lengths: (u8, u8),
        random: &mut Random,
    ) -> Option<Tuple> {
        let sport = self.ports[0].draw(classes.source, random)?;
        let dport = self.ports[1].draw(classes.destination, random)?;
        let [source, destination] = &self.sides[family as usize];
        let src = source.draw(lengths.0, None, random)?;
        let dst = destination.draw(lengths.1, Some((src, self.alike)), random)?;
        let anywhere = src.steps == 0 && dst.steps == 0;
        let family = if anywhere && self.both() { None } else { Some(family) };
        Some(Tuple { family, src, dst, sport, dport, proto })
    }

    /// Notes a tuple, unless it was seen before or matches everything.
    fn accept(&mut self, tuple: Tuple) -> Option<Tuple> {
        if tuple.is_everything() || !self.seen.insert(tuple.fingerprint()) {
            return None;
        }
        if let Some(family) = tuple.family {
            let [source, destination] = &mut self.sides[family as usize];
            source.note(tuple.src);
            destination.note(tuple.dst);
        }
        Some(tuple)
    }

    /// A new tuple that lies wholly in another, if one is found in a few tries.
    pub(crate) fn refine(&mut self, of: Tuple, random: &mut Random) -> Option<Tuple> {
        (0..8).find_map(|_| {
            self.tries += 1;
            let mut tuple = of;
            match random.below(4) {
                0 => tuple.src = self.deeper(of.family?, 0, of.src, random)?,
                1 => tuple.dst = self.deeper(of.family?, 1, of.dst, random)?,
                which => {
                    let number = self.profile.protocols.get(self.protocols.draw(random)?)?.number;
                    tuple.proto = of.proto.or(number);
                    if tuple.proto.is_some_and(with_ports) {
                        let (field, values) = if which == 2 {
                            (&mut tuple.sport, &self.ports[0])
                        } else {
                            (&mut tuple.dport, &self.ports[1])
                        };
                        let listed = values.draw(PortClass::Exact, random).map_or(0, |port| port.0);
                        let port = if field.0 <= listed && listed <= field.1 {
                            listed
                        } else {
                            random.between(field.0.into(), field.1.into()) as u16
                        };
                        *field = (port, port);
                    }
                }
            }
            self.accept(tuple)
        })
    }

    /// A prefix in another, as long as some prefix of that side may be.
    fn deeper(&self, family: Family, side: usize, of: Node, random: &mut Random) -> Option<Node> {
        let mut longer = lengths_of_side(self.profile, side as u64);
        longer.retain(|&length| length > of.steps);
        let steps = *longer.get(random.index(longer.len()))?;
        let side = &self.sides[family as usize][side];
        let node = side.walker.walk(of, steps, None, random);
        side.allows(node).then_some(node)
    }

    /// The measure that rules are ordered by.
    pub(crate) fn measure(&self, tuple: &Tuple, measures: &Measures) -> i64 {
        let addresses = tuple.family.map_or(0, |family| {
            let [source, destination] = &self.sides[family as usize];
            source.walker.measure(tuple.src, measures.disorder())
                + destination.walker.measure(tuple.dst, measures.disorder())
        });
        addresses + measures.ports(0, tuple.sport) + measures.ports(1, tuple.dport) + measures.protocol(tuple.proto)
    }

    /// The address of a node of the source's (0) or the destination's (1) tree, and its prefix length.
    pub(crate) fn address(&self, family: Family, side: usize, node: Node) -> (u128, u32) {
        self.sides[family as usize][side].walker.address(node)
    }
}

/// The lengths a side's prefixes can have.
fn lengths_of_side(profile: &Profile, side: u64) -> Vec<u8> {
    let own = profile.lengths_of.iter().flat_map(|(_, pairs)| pairs);
    let pairs = profile.lengths.iter().chain(own).filter(|pair| pair.share > 0.0);
    let mut lengths: Vec<u8> = pairs.map(|pair| if side == 0 { pair.source } else { pair.destination }).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

impl Side {
    /// A prefix of this length that does not nest too deep: a new one, or where none is found one that rules have.
    fn draw(&self, steps: u8, leader: Option<(Node, u64)>, random: &mut Random) -> Option<Node> {
        let walks = (0..4).map(|_| self.walker.walk(Node::ROOT, steps, leader, random)).find(|&node| self.allows(node));
        walks.or_else(|| {
            let used = self.nesting.as_ref()?.used(steps);
            used.get(random.index(used.len())).copied()
        })
    }

    fn allows(&self, node: Node) -> bool {
        self.nesting.as_ref().is_none_or(|nesting| nesting.allows(node))
    }

    fn note(&mut self, node: Node) {
        if let Some(nesting) = &mut self.nesting {
            nesting.add(node);
        }
    }
}

/// The values of one side's ports.
#[derive(Debug)]
struct PortValues {
    exact: Weighted<(u16, u16)>,
    ranges: Weighted<(u16, u16)>,
    other: f64,
    pool: u64,
    salt: u64,
}

impl PortValues {
    fn new(ports: &Ports, salt: u64) -> Self {
        Self {
            exact: Weighted::new(ports.exact.iter().map(|&(port, share)| ((port, port), share))),
            ranges: Weighted::new(ports.ranges.iter().copied()),
            other: ports.other,
            pool: ports.pool as u64,
            salt,
        }
    }

    fn draw(&self, class: PortClass, random: &mut Random) -> Option<(u16, u16)> {
        match class {
            PortClass::Wildcard => Some(ANY_PORT),
            PortClass::Low => Some((0, 1023)),
            PortClass::High => Some((1024, u16::MAX)),
            PortClass::Exact => self.listed(&self.exact, random).or_else(|| {
                let port = self.other(random) as u16;
                Some((port, port))
            }),
            PortClass::Range => self.listed(&self.ranges, random).or_else(|| self.other_range(random)),
        }
    }

    fn listed(&self, list: &Weighted<(u16, u16)>, random: &mut Random) -> Option<(u16, u16)> {
        let other = list.is_empty() || random.chance(self.other);
        if other { None } else { list.draw(random) }
    }

    /// What the pool has of random numbers.
    fn other(&self, random: &mut Random) -> u64 {
        if self.pool == 0 { random.bits() } else { mix2(self.salt, random.below(self.pool)) }
    }

    /// A range of two to a few thousand ports: most of the published ones are short.
    fn other_range(&self, random: &mut Random) -> Option<(u16, u16)> {
        let bits = self.other(random);
        let width = 1u16 << ((bits >> 16 & 0xF) % 13);
        let lo = (bits as u16).min(u16::MAX - width);
        Some((lo, lo + width)).filter(|&(lo, hi)| PortClass::of(lo, hi) == PortClass::Range)
    }
}
