//! Packet traces.
//!
//! A trace has headers drawn from the corners and the interiors of rules, each checked with an engine
//! ([`TupleMerge`](firstmatch::tuple::TupleMerge)): the rule written beside a header **is** the first that matches it.
//! With [`Coverage::Complete`] every rule that can be hit is hit, in each family of a dual-stack set: see
//! [`Covered`].

mod capture;
mod locality;
mod search;
mod view;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::Ipv6Addr;

use firstmatch::schema::Family;
use firstmatch::{RuleId, RuleSet};

pub use capture::MIN_FRAME;
pub use locality::Locality;

use crate::error::Error;
use crate::profile::check;
use crate::random::{Purpose, Random};
use locality::Burst;
pub(crate) use locality::plan;
use search::{Fate, Hunter};
use view::View;

/// The most headers of a trace.
pub const MAX_HEADERS: usize = 1 << 31;

/// What to generate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// How many headers, 1 to [`MAX_HEADERS`].
    pub headers: usize,
    /// Everything random comes from it.
    pub seed: u64,
    /// How often rules, and headers, come again.
    pub locality: Locality,
    /// In how many equal parts the trace falls, 1 or more: in each, [`Locality`] makes other rules popular.
    pub phases: u32,
    /// The share of headers that match no rule, 0 to 1, rounded to the nearest number of headers.
    pub unmatched: f64,
    /// Which rules are hit.
    pub coverage: Coverage,
    /// What the headers are for.
    pub form: Form,
    /// How many headers are tried for one rule, 1 or more, before it is given up: see [`Covered::given_up`].
    pub tries: u32,
}

impl Default for Config {
    /// 100,000 headers, seed 1, uniform over the rules, one phase, all matched, complete coverage, lines, 2,000 tries.
    fn default() -> Self {
        Self {
            headers: 100_000,
            seed: 1,
            locality: Locality::Uniform,
            phases: 1,
            unmatched: 0.0,
            coverage: Coverage::Complete,
            form: Form::Lines,
            tries: 2000,
        }
    }
}

/// Which rules are hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Every rule that can be hit is hit once at least; a trace too short for that is an error.
    Complete,
    /// Rules are drawn as locality has it, and a header of each; where an earlier rule takes it, so be it. This is
    /// what ClassBench's generator does, and the only way to a trace with fewer headers than rules.
    Drawn,
}

/// What headers are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines of a trace, which have ports whatever the protocol.
    Lines,
    /// Packets of a capture. They have ports if their protocol has, else the ports are absent, and that is what the
    /// rules see; in IPv6 no protocol is the number of an extension header.
    Packets,
}

/// One header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// The source address, in the low bits of its family's width.
    pub src: u128,
    /// The destination address.
    pub dst: u128,
    /// The family of both.
    pub family: Family,
    /// The source port; 0 where the protocol has none, unless a rule asks for another and this is a line.
    pub sport: u16,
    /// The destination port, likewise.
    pub dport: u16,
    /// The protocol.
    pub proto: u8,
    /// The first rule that matches: its 0-based place in the order of the set.
    pub rule: Option<u32>,
}

/// A trace: headers in order, some of them several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    headers: Vec<Header>,
    /// Indices into `headers`.
    order: Vec<u32>,
    times: Option<Vec<f64>>,
    covered: Covered,
}

/// Which rules a trace hits, and why it does not hit the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// How many rules there are.
    pub rules: usize,
    /// How many of them are the first to match some header.
    pub hit: usize,
    /// The rules proved never to be the first: earlier ones cover them together, or they hold for no header with
    /// ports and the headers are [`Form::Lines`]. In the order of the set. [`Coverage::Drawn`] proves it of rules
    /// without any region alone.
    pub unreachable: Vec<RuleId>,
    /// The rules neither hit nor proved unreachable after [`Config::tries`] headers; with [`Form::Packets`] also those
    /// that hold for no packet, such as one for a port of a protocol without ports. Empty with [`Coverage::Drawn`].
    pub given_up: Vec<RuleId>,
}

impl Config {
    /// Whether every value is within its bounds.
    ///
    /// # Errors
    /// When one is not; the error names it.
    pub fn check(&self) -> Result<(), Error> {
        if !(1..=MAX_HEADERS).contains(&self.headers) {
            return Err(Error::config(format!("headers is {}, not a number from 1 to {MAX_HEADERS}", self.headers)));
        }
        if self.tries == 0 {
            return Err(Error::config("tries is 0: one header at least is tried for a rule"));
        }
        if self.phases == 0 || self.phases as usize > self.headers {
            return Err(Error::config(format!("phases is {}, not a number from 1 to the headers", self.phases)));
        }
        check::share("unmatched", self.unmatched).map_err(Error::config)?;
        self.locality.check().map_err(Error::config)
    }
}

/// Generates a trace for a set over the 5-tuple of IPv4, of IPv6, or of both.
///
/// In [`Form::Lines`] ports are never absent, so a rule that only a packet without ports could hit counts as
/// unreachable.
///
/// Takes time O(headers · lookup) and, for rules that random headers do not hit, O([`Config::tries`] · lookup) each;
/// memory for the engine, 48 bytes a burst and 4 a header. For a million rules of `acl`, `fw` or `ipc` that is some 5
/// seconds; of a million `uniform` ones, in which one in a hundred is covered by many, minutes, unless
/// [`Config::tries`] is lowered.
///
/// # Errors
/// When the configuration is out of its bounds, the set has a field that a trace has no column for, or one of ports
/// that packets without them cannot be in, no rule can be hit, the trace is too short to hit every rule, or every header matches though some are not to.
pub fn generate(set: &RuleSet, config: &Config) -> Result<Trace, Error> {
    config.check()?;
    let views = View::all(set, config.form)?;
    let unmatched = ((config.headers as f64 * config.unmatched + 0.5) as usize).min(config.headers);
    let matched = config.headers - unmatched;

    let mut hunters: Vec<Hunter<'_>> = views.iter().map(Hunter::new).collect();
    if config.coverage == Coverage::Complete {
        let mut random = Random::new(config.seed, Purpose::Witnesses);
        hunters.iter_mut().for_each(|hunter| hunter.witnesses(config.tries, &mut random));
    }
    // What headers are drawn from: pairs of a view and one of its targets.
    let pool: Vec<(u32, u32)> = (0..)
        .zip(&hunters)
        .flat_map(|(view, hunter)| hunter.drawn_from(config.coverage).map(move |target| (view, target)))
        .collect();
    let needed = if config.coverage == Coverage::Complete { pool.len() } else { 0 };
    if matched < needed {
        let share = needed as f64 / (1.0 - config.unmatched);
        return Err(match config.unmatched {
            1.0 => {
                Error::config("unmatched is 1: no header is left to hit a rule (take coverage that is not complete)")
            }
            _ => Error::too_few_headers(config.headers, share.ceil() as usize),
        });
    }
    if pool.is_empty() && matched > 0 {
        return Err(Error::nothing_matched());
    }

    let mut random = Random::new(config.seed, Purpose::Headers);
    let mut plan = plan(config.locality, config.phases, pool.len(), matched, needed > 0, &mut random);
    let mut headers = draw(&hunters, &pool, &plan.bursts, &mut random);
    let mut random = Random::new(config.seed, Purpose::Unmatched);
    let none = search::unmatched(&hunters, unmatched, config.tries, &mut random)?;
    plan.add_singles(none.len(), &mut random);
    headers.extend(none);
    let (order, times) = plan.order(&mut Random::new(config.seed, Purpose::Order));
    let covered = covered(set, &hunters, &headers);
    Ok(Trace { headers, order, times, covered })
}

/// The trace of headers that come from elsewhere, as from a capture: in their order, each with the first rule that
/// matches it, whatever was in [`Header::rule`]. Headers of a family that the set is not for match nothing.
///
/// # Errors
/// When the set has a field that a trace has no column for, or there is no header.
pub fn of_headers(set: &RuleSet, headers: impl IntoIterator<Item = Header>) -> Result<Trace, Error> {
    let views = View::all(set, Form::Lines)?;
    let mut places: HashMap<Header, u32> = HashMap::new();
    let mut distinct: Vec<Header> = Vec::new();
    let mut order = Vec::new();
    for header in headers {
        let header = Header { rule: None, ..header };
        let next = distinct.len() as u32;
        let at = *places.entry(header).or_insert(next);
        if at == next {
            distinct.push(header);
        }
        order.push(at);
    }
    if !(1..=MAX_HEADERS).contains(&order.len()) {
        return Err(Error::config(format!("there are {} headers, not 1 to {MAX_HEADERS}", order.len())));
    }
    for view in &views {
        search::answer(view, &mut distinct);
    }
    let mut hit = vec![false; set.len()];
    distinct.iter().filter_map(|header| header.rule).for_each(|rule| hit[rule as usize] = true);
    let hit = hit.iter().filter(|&&hit| hit).count();
    let covered = Covered { rules: set.len(), hit, ..Covered::default() };
    Ok(Trace { headers: distinct, order, times: None, covered })
}

/// A header for each burst.
fn draw(hunters: &[Hunter<'_>], pool: &[(u32, u32)], plan: &[Burst], random: &mut Random) -> Vec<Header> {
    let nothing = Header { src: 0, dst: 0, family: Family::Ipv4, sport: 0, dport: 0, proto: 0, rule: None };
    let mut headers = vec![nothing; plan.len()];
    for (view, hunter) in (0..).zip(hunters) {
        let of_view = plan.iter().enumerate().filter_map(|(burst, Burst { of, .. })| {
            let (own, target) = pool[*of as usize];
            (own == view).then_some((burst as u32, target))
        });
        hunter.headers(&of_view.collect::<Vec<_>>(), random, &mut headers);
    }
    headers
}

fn covered(set: &RuleSet, hunters: &[Hunter<'_>], headers: &[Header]) -> Covered {
    let mut hit = vec![false; set.len()];
    for header in headers {
        if let Some(rule) = header.rule {
            hit[rule as usize] = true;
        }
    }
    let mut fates = vec![Fate::Unreachable; set.len()];
    for hunter in hunters {
        hunter.fates(&mut fates);
    }
    let with = |wanted: Fate| {
        let rules = set.iter().zip(&fates).zip(&hit);
        rules.filter(|((_, fate), hit)| **fate == wanted && !**hit).map(|((rule, _), _)| rule.id).collect()
    };
    Covered {
        rules: set.len(),
        hit: hit.iter().filter(|&&hit| hit).count(),
        unreachable: with(Fate::Unreachable),
        given_up: with(Fate::GivenUp),
    }
}

impl Trace {
    /// How many headers there are.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Whether there is none. There always is one.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The headers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Header> {
        self.order.iter().map(|&at| &self.headers[at as usize])
    }

    /// When each header comes, in seconds from the first flow's start at the earliest: of [`Locality::Flows`] alone.
    pub fn times(&self) -> Option<&[f64]> {
        self.times.as_deref()
    }

    /// Which rules are hit.
    pub fn coverage(&self) -> &Covered {
        &self.covered
    }

    /// Writes the trace in the form of ClassBench: `src dst sport dport proto rule`, a header a line, tabs between.
    ///
    /// Numbers are decimal, but addresses of IPv6, which have colons. The rule is the 0-based place of the first that
    /// matches, -1 where none does.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write<W: Write>(&self, mut out: W) -> io::Result<()> {
        for header in self.iter() {
            let Header { src, dst, family, sport, dport, proto, rule } = *header;
            match family {
                Family::Ipv4 => write!(out, "{src}\t{dst}")?,
                Family::Ipv6 => write!(out, "{}\t{}", Ipv6Addr::from(src), Ipv6Addr::from(dst))?,
            }
            write!(out, "\t{sport}\t{dport}\t{proto}\t")?;
            match rule {
                Some(rule) => writeln!(out, "{rule}")?,
                None => writeln!(out, "-1")?,
            }
        }
        Ok(())
    }
}
