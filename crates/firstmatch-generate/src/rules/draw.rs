//! Drawing distinct 5-tuples from a profile.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

use firstmatch_core::schema::Family;

use super::Config;
use super::order::Measures;
use super::plant::{plant, stray};
use super::tree::{Node, Plan};
use crate::error::Error;
use crate::profile::{Flags, LengthPair, PortClass, PortPair, Ports, Profile, Repeats, with_ports};
use crate::random::{Purpose, Random, Weighted, mix, mix2};

/// Conditions of a rule on the 5-tuple.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tuple {
    /// `None` for two wildcard addresses in a set of both families.
    pub(crate) family: Option<Family>,
    pub(crate) src: Node,
    pub(crate) dst: Node,
    pub(crate) sport: (u16, u16),
    pub(crate) dport: (u16, u16),
    pub(crate) proto: Option<u8>,
    /// No condition unless flags are [asked for](Config::flags) or [make rules distinct](Repeats::ByFlags).
    pub(crate) flags: Flags,
}

/// Range of all ports.
pub(crate) const ANY_PORT: (u16, u16) = (0, u16::MAX);

impl Tuple {
    pub(crate) const EVERYTHING: Self = Self {
        family: None,
        src: Node::ROOT,
        dst: Node::ROOT,
        sport: ANY_PORT,
        dport: ANY_PORT,
        proto: None,
        flags: Flags { value: 0, mask: 0 },
    };

    fn is_everything(&self) -> bool {
        Self { family: None, ..*self } == Self::EVERYTHING
    }

    /// Returns a hash by which duplicates are found.
    ///
    /// Two different tuples collide with a probability of 2^-64. A million tuples have a collision with probability
    /// 3·10^-8, which only means that one of them is drawn again.
    pub(crate) fn fingerprint(&self) -> u64 {
        let ports = u64::from(self.sport.0) << 48
            | u64::from(self.sport.1) << 32
            | u64::from(self.dport.0) << 16
            | u64::from(self.dport.1);
        let proto = self.proto.map_or(256, u64::from);
        let family = self.family.map_or(0, |family| family as u64 + 1);
        let flags = u64::from(self.flags.value) << 16 | u64::from(self.flags.mask);
        mix2(mix2(self.src.number(), self.dst.number()), mix2(ports, flags << 16 | proto << 2 | family))
    }
}

/// Properties of a rule that are drawn before its addresses are planted.
#[derive(Clone, Copy, Debug)]
struct Kind {
    family: Family,
    /// Index into the profile's protocols.
    protocol: usize,
    classes: PortPair,
    lengths: (u8, u8),
}

/// Distribution of prefix lengths: the sum of the two first, then the source's part of it.
#[derive(Debug)]
struct Lengths {
    /// Indices into `pairs`, the shortest sum first.
    totals: Weighted<usize>,
    pairs: Vec<Weighted<(u8, u8)>>,
}

/// Prefixes given out for one family and side, by length.
type Pool = [Vec<Node>; 33];

/// Source of distinct tuples.
#[derive(Debug)]
pub(crate) struct Drawer<'c> {
    profile: &'c Profile,
    config: &'c Config,
    families: Weighted<Family>,
    protocols: Weighted<usize>,
    /// For each protocol, its port classes in the order of [`PortPair::ALL`], and its flags.
    classes: Vec<(Weighted<PortPair>, Weighted<Flags>)>,
    ports: [PortValues; 2],
    lengths: Lengths,
    lengths_of: Vec<(PortPair, Lengths)>,
    /// Plans by family.
    plans: [Plan; 2],
    /// Pools by family and side.
    pools: [[Pool; 2]; 2],
    seen: HashSet<u64, BuildHasherDefault<Mixed>>,
    tries: u64,
}

/// Number of kinds tried in vain in a row before the profile counts as exhausted.
const PATIENCE: u32 = 2000;
/// Most tuples drawn for one distinct rule where duplicates are dropped.
const MOST_SURPLUS: usize = 16;
/// Number of tries for one kind: with other ports, then used prefixes, then new prefixes.
const TRIES_OF_A_KIND: [u32; 3] = [8, 24, 8];

impl<'c> Drawer<'c> {
    /// Prepares drawing from `profile`, which must be smoothed and checked.
    pub(crate) fn new(profile: &'c Profile, config: &'c Config) -> Self {
        let (seed, ipv6) = (config.seed, config.families.ipv6());
        let classes = profile.protocols.iter().map(|protocol| {
            let mut ports = protocol.ports.clone();
            ports.sort_by_key(|(pair, _)| pair.rank());
            (Weighted::new(ports), Weighted::new(protocol.flags.iter().copied()))
        });
        let pools = || [const { Vec::new() }; 33];
        Self {
            profile,
            config,
            families: Weighted::new([(Family::Ipv4, 1.0 - ipv6), (Family::Ipv6, ipv6)]),
            protocols: Weighted::new(profile.protocols.iter().enumerate().map(|(at, p)| (at, p.share))),
            classes: classes.collect(),
            ports: [
                PortValues::new(&profile.source_ports, mix2(seed, 2)),
                PortValues::new(&profile.destination_ports, mix2(seed, 3)),
            ],
            lengths: Lengths::new(&profile.lengths),
            lengths_of: profile.lengths_of.iter().map(|(of, own)| (*of, Lengths::new(own))).collect(),
            plans: [Family::Ipv4, Family::Ipv6].map(|family| Plan::new(family, mix2(seed, 0))),
            pools: [[pools(), pools()], [pools(), pools()]],
            seen: HashSet::with_capacity_and_hasher(config.rules, BuildHasherDefault::default()),
            tries: 0,
        }
    }

    /// Draws `count` distinct tuples; fewer if there are no more and [`Config::fewer`] is set.
    ///
    /// All tuples are planted together. A duplicate then gets other ports, other prefixes of the same lengths that
    /// rules already use, or new prefixes. If none of these gives a new tuple, another kind of rule is drawn.
    ///
    /// # Errors
    /// If `PATIENCE` kinds of rules in a row give no new tuple.
    pub(crate) fn draw(&mut self, count: usize, random: &mut Random) -> Result<Vec<Tuple>, Error> {
        if self.profile.repeats == Repeats::ByFlags
            && let Some(tuples) = self.draw_surplus(count, random)
        {
            return Ok(tuples);
        }
        let kinds: Vec<Kind> = (0..count).filter_map(|_| self.kind(random)).collect();
        let planted = self.plant(&kinds);
        let mut tuples = Vec::with_capacity(count);
        let mut again = Vec::new();
        for (kind, (src, dst)) in kinds.into_iter().zip(planted) {
            let tuple = self.of_kind(kind, src, dst, random).and_then(|tuple| self.accept(tuple));
            match tuple {
                Some(tuple) => tuples.push(tuple),
                None => again.push((kind, src, dst)),
            }
        }
        for (kind, src, dst) in again {
            match self.anew(kind, src, dst, random) {
                Some(tuple) => tuples.push(tuple),
                None if self.config.fewer => break,
                None => return Err(Error::exhausted(&self.profile.name, tuples.len(), count, self.tries)),
            }
        }
        Ok(tuples)
    }

    /// Draws `count` distinct tuples from a larger number, as ClassBench's generator does.
    ///
    /// That generator drops duplicates and draws none again, because rare kinds with few distinct members would become
    /// frequent otherwise. For example, a firewall's rules without addresses differ by ports alone: of 1,000 rules
    /// drawn about 800 are distinct, so 1,000 distinct rules take some 1,300. `None` if [`MOST_SURPLUS`] times as many
    /// do not suffice.
    fn draw_surplus(&mut self, count: usize, random: &mut Random) -> Option<Vec<Tuple>> {
        let mut drawn = count;
        while drawn <= MOST_SURPLUS * count {
            let mut found = self.draw_distinct(drawn, random);
            if found.len() >= count {
                found.truncate(count);
                return Some(found);
            }
            self.forget();
            // A little more than the share of distinct rules asks for, so that few rounds suffice.
            let share = found.len().max(1) as f64 / drawn as f64;
            drawn = ((count as f64 / share * 1.02) as usize).max(drawn + 1 + drawn / 50);
        }
        None
    }

    /// Draws `count` tuples, planted together, and returns the distinct ones in the order they were drawn.
    fn draw_distinct(&mut self, count: usize, random: &mut Random) -> Vec<Tuple> {
        let kinds: Vec<Kind> = (0..count).filter_map(|_| self.kind(random)).collect();
        let planted = self.plant(&kinds);
        let tuples = kinds
            .into_iter()
            .zip(planted)
            .filter_map(|(kind, (src, dst))| self.of_kind(kind, src, dst, random).and_then(|tuple| self.accept(tuple)));
        tuples.collect()
    }

    /// Forgets all tuples and prefixes given out so far.
    fn forget(&mut self) {
        self.seen.clear();
        self.pools.iter_mut().flatten().flatten().for_each(Vec::clear);
    }

    /// Plants the addresses of rules of these kinds, and adds them to the pools.
    fn plant(&mut self, kinds: &[Kind]) -> Vec<(Node, Node)> {
        let mut planted = vec![(Node::ROOT, Node::ROOT); kinds.len()];
        for family in [Family::Ipv4, Family::Ipv6] {
            let of: Vec<usize> = (0..kinds.len()).filter(|&at| kinds[at].family == family).collect();
            if of.is_empty() {
                continue;
            }
            let growth = self.profile.scale.map_or(1.0, |scale| of.len() as f64 / f64::from(scale));
            let plan = &self.plans[family as usize];
            let profile = self.profile;
            let seed = mix2(self.config.seed, family as u64);
            let lengths: Vec<u8> = of.iter().map(|&at| kinds[at].lengths.0).collect();
            let mut random = Random::new(seed, Purpose::Sources);
            let sources = plant(&profile.source, plan, growth, &lengths, None, &mut random);
            let lengths: Vec<u8> = of.iter().map(|&at| kinds[at].lengths.1).collect();
            let mut random = Random::new(seed, Purpose::Destinations);
            let leaders = Some((&*sources, &profile.correlation));
            let destinations = plant(&profile.destination, plan, growth, &lengths, leaders, &mut random);
            let [source_pool, destination_pool] = &mut self.pools[family as usize];
            for ((at, src), dst) in of.into_iter().zip(sources).zip(destinations) {
                planted[at] = (src, dst);
                source_pool[usize::from(src.steps)].push(src);
                destination_pool[usize::from(dst.steps)].push(dst);
            }
        }
        planted
    }

    fn kind(&self, random: &mut Random) -> Option<Kind> {
        let scope = self.config.scope;
        let family = self.families.draw(random)?;
        let protocol = self.protocols.draw(random)?;
        let classes = self.classes[protocol].0.draw_biased(scope.applications, random)?;
        let own = self.lengths_of.iter().find(|(of, _)| *of == classes);
        let lengths = own.map_or(&self.lengths, |(_, lengths)| lengths).draw(scope.addresses, random)?;
        Some(Kind { family, protocol, classes, lengths })
    }

    fn of_kind(&self, kind: Kind, src: Node, dst: Node, random: &mut Random) -> Option<Tuple> {
        let sport = self.ports[0].draw(kind.classes.source, random)?;
        let dport = self.ports[1].draw(kind.classes.destination, random)?;
        let has_flags = self.config.flags || self.profile.repeats == Repeats::ByFlags;
        let drawn = if has_flags { self.classes[kind.protocol].1.draw(random) } else { None };
        let anywhere = src.steps == 0 && dst.steps == 0;
        let family = if anywhere && self.families.items().len() > 1 { None } else { Some(kind.family) };
        let proto = self.profile.protocols[kind.protocol].number;
        Some(Tuple { family, src, dst, sport, dport, proto, flags: drawn.unwrap_or_default() })
    }

    /// Returns a new tuple in place of a duplicate, of the same kind or of another.
    fn anew(&mut self, mut kind: Kind, mut src: Node, mut dst: Node, random: &mut Random) -> Option<Tuple> {
        let [ports, used, _] = TRIES_OF_A_KIND;
        for tried in 0..PATIENCE {
            for attempt in 0..TRIES_OF_A_KIND.iter().sum() {
                if tried > 0 || attempt >= ports {
                    let fresh = attempt >= ports + used;
                    src = self.prefix(kind.family, 0, kind.lengths.0, fresh, random);
                    dst = self.prefix(kind.family, 1, kind.lengths.1, fresh && random.coin(), random);
                }
                let tuple = self.of_kind(kind, src, dst, random).and_then(|tuple| self.accept(tuple));
                if tuple.is_some() {
                    return tuple;
                }
            }
            kind = self.kind(random)?;
        }
        None
    }

    /// Returns a prefix from the pool; a random one if `fresh` or the pool has none.
    fn prefix(&self, family: Family, side: usize, steps: u8, fresh: bool, random: &mut Random) -> Node {
        let pool = &self.pools[family as usize][side][usize::from(steps)];
        match pool.get(random.index(pool.len())) {
            Some(&node) if !fresh => node,
            _ => stray(&self.plans[family as usize], Node::ROOT, steps, random),
        }
    }

    /// Records a tuple; `None` if it was seen before, or matches everything and may not.
    fn accept(&mut self, tuple: Tuple) -> Option<Tuple> {
        self.tries += 1;
        let allowed = self.profile.repeats == Repeats::ByFlags || !tuple.is_everything();
        (allowed && self.seen.insert(tuple.fingerprint())).then_some(tuple)
    }

    /// Returns a new tuple that lies wholly in `of`, if a few tries find one.
    pub(crate) fn refine(&mut self, of: Tuple, random: &mut Random) -> Option<Tuple> {
        (0..8).find_map(|_| {
            let mut tuple = of;
            match random.below(4) {
                0 => tuple.src = self.deeper(of.family?, 0, of.src, random)?,
                1 => tuple.dst = self.deeper(of.family?, 1, of.dst, random)?,
                which => {
                    let number = self.profile.protocols.get(self.protocols.draw(random)?)?.number;
                    tuple.proto = of.proto.or(number);
                    if !self.profile.has_protocol || tuple.proto.is_some_and(with_ports) {
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

    /// Returns a prefix inside `of`, with a length that other prefixes of that side have.
    fn deeper(&self, family: Family, side: usize, of: Node, random: &mut Random) -> Option<Node> {
        let pool = &self.pools[family as usize][side];
        let longer: Vec<u8> = (of.steps + 1..=32).filter(|&steps| !pool[usize::from(steps)].is_empty()).collect();
        let steps = *longer.get(random.index(longer.len()))?;
        Some(stray(&self.plans[family as usize], of, steps, random))
    }

    /// Returns the measure that rules are ordered by.
    pub(crate) fn measure(&self, tuple: &Tuple, measures: &Measures) -> i64 {
        let addresses = tuple.family.map_or(0, |family| {
            let plan = &self.plans[family as usize];
            plan.measure(0, tuple.src, measures.disorder()) + plan.measure(1, tuple.dst, measures.disorder())
        });
        addresses
            + measures.ports(0, tuple.sport)
            + measures.ports(1, tuple.dport)
            + measures.protocol(tuple.proto)
            + measures.flags(tuple.flags)
    }

    /// Returns the address and the prefix length of a node.
    pub(crate) fn address(&self, family: Family, node: Node) -> (u128, u32) {
        self.plans[family as usize].address(node)
    }
}

impl Lengths {
    fn new(pairs: &[LengthPair]) -> Self {
        let mut pairs: Vec<LengthPair> = pairs.iter().copied().filter(|pair| pair.share > 0.0).collect();
        let total = |pair: &LengthPair| pair.source + pair.destination;
        pairs.sort_by_key(total);
        let of_total = || pairs.chunk_by(|one, other| total(one) == total(other));
        let totals = of_total().map(|own| own.iter().map(|pair| pair.share).sum());
        let parts = of_total().map(|own| Weighted::new(own.iter().map(|p| ((p.source, p.destination), p.share))));
        Self { totals: Weighted::new(totals.enumerate()), pairs: parts.collect() }
    }

    fn draw(&self, bias: f64, random: &mut Random) -> Option<(u8, u8)> {
        self.pairs.get(self.totals.draw_biased(bias, random)?)?.draw(random)
    }
}

/// Hasher of one word; it needs no secret, because nobody but the generator chooses the keys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mixed(u64);

impl Hasher for Mixed {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0 ^ word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Distribution of the ports of one side.
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

    /// Returns a random number, from the pool if it is limited.
    fn other(&self, random: &mut Random) -> u64 {
        if self.pool == 0 { random.bits() } else { mix2(self.salt, random.below(self.pool)) }
    }

    /// Returns a range of two to a few thousand ports; like published ranges, most are short.
    fn other_range(&self, random: &mut Random) -> Option<(u16, u16)> {
        let bits = self.other(random);
        let width = 1u16 << ((bits >> 16 & 0xF) % 13);
        let lo = (bits as u16).min(u16::MAX - width);
        Some((lo, lo + width)).filter(|&(lo, hi)| PortClass::of(lo, hi) == PortClass::Range)
    }
}
