//! Packet traces.
//!
//! A trace has headers drawn from the corners and interiors of rules. Each header is looked up in an engine
//! ([`TupleMerge`](firstmatch_core::engines::tuple::TupleMerge)), so the rule written beside it **is** the first that
//! matches it. With [`Coverage::Complete`] every rule that can be hit is hit, in each family of a dual-stack set: see
//! [`Covered`].

mod capture;
mod frame;
mod locality;
mod packets;
mod search;
mod view;

use std::collections::HashMap;
use std::io::{self, Write};
use std::net::Ipv6Addr;

use firstmatch_core::schema::Family;
use firstmatch_core::{RuleId, RuleSet};

pub use capture::MIN_FRAME;
pub use locality::{Hostile, Locality};
pub use packets::{Packet, PacketTrace, packets};

use crate::error::Error;
use crate::profile::check;
use crate::random::{Purpose, Random};
use locality::Burst;
pub(crate) use locality::{Traffic, plan};
use search::{Fate, Hunter, Sample};
use view::{Content, View};

/// Most headers of a trace.
pub const MAX_HEADERS: usize = 1 << 31;

/// Parameters of [`generate`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Number of headers, 1 to [`MAX_HEADERS`].
    pub headers: usize,
    /// Seed of all random draws.
    pub seed: u64,
    /// How often rules and headers repeat.
    pub locality: Locality,
    /// Number of equal parts, 1 or more; in each, [`Locality`] makes other rules popular.
    pub phases: u32,
    /// Bursts of the least expected headers, if there are any.
    pub hostile: Option<Hostile>,
    /// Share of headers that match no rule, 0 to 1, rounded to the nearest number of headers.
    pub unmatched: f64,
    /// Rules that must be hit.
    pub coverage: Coverage,
    /// Use of the headers.
    pub form: Form,
    /// Number of headers tried for one rule before it is given up, 1 or more.
    ///
    /// See [`Covered::given_up`].
    pub tries: u32,
}

impl Default for Config {
    /// Makes 100,000 matching headers with seed 1, uniform over the rules.
    ///
    /// They have one phase, no hostile bursts, complete coverage, the form of lines, and at most 2,000 tries for a
    /// rule.
    fn default() -> Self {
        Self {
            headers: 100_000,
            seed: 1,
            locality: Locality::Uniform,
            phases: 1,
            hostile: None,
            unmatched: 0.0,
            coverage: Coverage::Complete,
            form: Form::Lines,
            tries: 2000,
        }
    }
}

/// Choice of the rules that a trace must hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Every rule that can be hit is hit at least once; a trace too short for that is an error.
    Complete,
    /// Rules are drawn by the locality, and a header of each, even if an earlier rule matches it.
    ///
    /// This is what ClassBench's generator does, and the only way to a trace with fewer headers than rules.
    Drawn,
}

/// Use of the headers of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines of a text trace, in which every protocol has ports.
    Lines,
    /// Packets of a capture, in which ports are absent if the protocol has none.
    ///
    /// The rules see the ports as absent too. In IPv6 no protocol is the number of an extension header.
    Packets,
}

/// Header of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// Source address, in the low bits of its family's width.
    pub src: u128,
    /// Destination address.
    pub dst: u128,
    /// Family of both addresses.
    pub family: Family,
    /// Source port; 0 if the protocol has none, unless a rule requires another in a line.
    pub sport: u16,
    /// Destination port, likewise.
    pub dport: u16,
    /// Protocol.
    pub proto: u8,
    /// 0-based place in the set of the first rule that matches.
    pub rule: Option<u32>,
}

/// Trace: headers in order, some of them several times.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    headers: Vec<Header>,
    /// Indices into `headers`.
    order: Vec<u32>,
    times: Option<Vec<f64>>,
    covered: Covered,
}

/// Rules that a trace hits, and reasons why it does not hit the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Covered {
    /// Number of rules.
    pub rules: usize,
    /// Number of rules that are the first to match some header.
    pub hit: usize,
    /// Rules proved never to be the first match, in the order of the set.
    ///
    /// Either earlier rules cover them together, or they match no header with ports and the headers are
    /// [`Form::Lines`]. With [`Coverage::Drawn`] only rules without any region are proved.
    pub unreachable: Vec<RuleId>,
    /// Rules neither hit nor proved unreachable after [`Config::tries`] headers.
    ///
    /// With [`Form::Packets`] they include rules that match no packet, such as one for a port of a protocol without
    /// ports. The list is empty with [`Coverage::Drawn`].
    pub given_up: Vec<RuleId>,
}

impl Config {
    /// Checks that every value is within its bounds.
    ///
    /// # Errors
    /// If a value is not; the error names it.
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
        self.hostile.map_or(Ok(()), Hostile::check).map_err(Error::config)?;
        self.locality.check().map_err(Error::config)
    }
}

/// Generates a trace for a set over the 5-tuple of IPv4, of IPv6, or of both.
///
/// The set may lack some of these fields, and its schema may be of no family if the width of an address tells it. The
/// protocol of rules without such a field is TCP.
///
/// In [`Form::Lines`] ports are never absent, so a rule that only a packet without ports could hit counts as
/// unreachable.
///
/// The time is O(headers · lookup), plus O([`Config::tries`] · lookup) for each rule that random headers do not hit.
/// Sets in which several rules together often cover another therefore take much longer, unless [`Config::tries`] is
/// lowered. The memory is that of the engine, 48 bytes a burst and 4 a header.
///
/// # Errors
/// If one of these holds:
///
/// - the configuration is out of its bounds;
/// - the set has a field that a trace has no column for, or one of ports that packets without ports cannot leave
///   absent ([`packets`] takes any field);
/// - no rule can be hit, or the trace is too short to hit every rule;
/// - every header matches, though [`Config::unmatched`] requires some that do not.
pub fn generate(set: &RuleSet, config: &Config) -> Result<Trace, Error> {
    config.check()?;
    let views = View::all(set, Content::FiveTuple(config.form))?;
    let (headers, order, times, covered) = walk(set, config, &views)?;
    Ok(Trace { headers, order, times, covered })
}

/// Distinct headers, their order, times and coverage.
type Walked<T> = (Vec<T>, Vec<u32>, Option<Vec<f64>>, Covered);

/// Draws the headers of a trace.
fn walk<T: Sample>(set: &RuleSet, config: &Config, views: &[View]) -> Result<Walked<T>, Error> {
    let unmatched = ((config.headers as f64 * config.unmatched + 0.5) as usize).min(config.headers);
    let matched = config.headers - unmatched;

    let mut hunters: Vec<Hunter<'_>> = views.iter().map(Hunter::new).collect();
    if config.coverage == Coverage::Complete {
        let mut random = Random::new(config.seed, Purpose::Witnesses);
        hunters.iter_mut().for_each(|hunter| hunter.witnesses(config.tries, &mut random));
    }
    // Pool that headers are drawn from: pairs of a view and one of its targets.
    let pool: Vec<(u32, u32)> = (0..)
        .zip(&hunters)
        .flat_map(|(view, hunter)| hunter.drawn_from(config.coverage).map(move |target| (view, target)))
        .collect();
    let needed = if config.coverage == Coverage::Complete { pool.len() } else { 0 };
    let hostile = config.hostile.map_or(0, |hostile| hostile.count(matched));
    if needed > 0 && matched < needed + hostile {
        let others = (1.0 - config.unmatched) * (1.0 - config.hostile.map_or(0.0, |hostile| hostile.share));
        return Err(if config.unmatched == 1.0 {
            Error::config("unmatched is 1: no header is left to hit a rule (take coverage that is not complete)")
        } else if others == 0.0 {
            Error::config("every header is hostile: none is left to hit a rule (take coverage that is not complete)")
        } else {
            Error::too_few_headers(config.headers, (needed as f64 / others).ceil() as usize)
        });
    }
    if pool.is_empty() && matched > 0 {
        return Err(Error::nothing_matched());
    }
    config.locality.check_pool(pool.len()).map_err(Error::config)?;

    let mut random = Random::new(config.seed, Purpose::Headers);
    let traffic = Traffic { locality: config.locality, phases: config.phases, hostile: config.hostile };
    let mut plan = plan(traffic, pool.len(), matched, needed > 0, &mut random);
    let mut headers = draw(&hunters, &pool, &plan.bursts, &mut random);
    let mut random = Random::new(config.seed, Purpose::Unmatched);
    let none = search::unmatched(&hunters, unmatched, config.tries, &mut random)?;
    plan.add_singles(none.len(), &mut random);
    headers.extend(none);
    let (order, times) = plan.order(&mut Random::new(config.seed, Purpose::Order));
    let covered = covered(set, &hunters, &headers);
    Ok((headers, order, times, covered))
}

/// Returns the trace of given headers in their order, each with its first matching rule.
///
/// [`Header::rule`] of the given headers is ignored. Headers of a family that the set does not have match nothing.
///
/// # Errors
/// If the set has a field that a trace has no column for, or there is no header.
pub fn of_headers(set: &RuleSet, headers: impl IntoIterator<Item = Header>) -> Result<Trace, Error> {
    let views = View::all(set, Content::FiveTuple(Form::Lines))?;
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

/// Returns the number of rules that match each header, whichever is the first.
///
/// The more rules match a header, the more work is left to a classifier that searches by some fields first. Headers of
/// a family that the set does not have match none. The time is O(headers · regions).
///
/// # Errors
/// If the set has a field that a trace has no column for.
///
/// ```
/// use firstmatch_generate::{Profile, rules, trace};
///
/// let set = rules::generate(&rules::Config { profile: Profile::fw(), ..Default::default() })?;
/// let headers = trace::generate(&set, &trace::Config { headers: 1000, ..Default::default() })?;
/// let matches = trace::matches(&set, headers.iter().copied())?;
/// assert!(matches.len() == 1000 && matches.iter().all(|&matches| matches >= 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn matches(set: &RuleSet, headers: impl IntoIterator<Item = Header>) -> Result<Vec<u32>, Error> {
    let views = View::all(set, Content::FiveTuple(Form::Lines))?;
    let mut row = Vec::new();
    let counts = headers.into_iter().map(|header| {
        let of_family = views.iter().filter(|view| view.family == Some(header.family));
        of_family.map(|view| view.matches(&header, &mut row)).sum()
    });
    Ok(counts.collect())
}

/// Draws a header for each burst.
fn draw<T: Sample>(hunters: &[Hunter<'_>], pool: &[(u32, u32)], plan: &[Burst], random: &mut Random) -> Vec<T> {
    let mut headers = vec![T::blank(); plan.len()];
    for (view, hunter) in (0..).zip(hunters) {
        let of_view = plan.iter().enumerate().filter_map(|(burst, Burst { of, .. })| {
            let (own, target) = pool[*of as usize];
            (own == view).then_some((burst as u32, target))
        });
        hunter.headers(&of_view.collect::<Vec<_>>(), random, &mut headers);
    }
    headers
}

fn covered<T: Sample>(set: &RuleSet, hunters: &[Hunter<'_>], headers: &[T]) -> Covered {
    let mut hit = vec![false; set.len()];
    for header in headers {
        if let Some(rule) = header.matched() {
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

impl Sample for Header {
    fn blank() -> Self {
        Self { src: 0, dst: 0, family: Family::Ipv4, sport: 0, dport: 0, proto: 0, rule: None }
    }

    fn of_row(view: &View, row: &[u32], rule: Option<u32>) -> Self {
        view.header(row, rule)
    }

    fn matched(&self) -> Option<u32> {
        self.rule
    }
}

impl Trace {
    /// Returns the number of headers.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns whether there is no header; a trace always has one.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Iterates over the headers in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Header> {
        self.order.iter().map(|&at| &self.headers[at as usize])
    }

    /// Returns the time of each header, in seconds; only for [`Locality::Flows`].
    ///
    /// Times count from the earliest possible start of the first flow.
    pub fn times(&self) -> Option<&[f64]> {
        self.times.as_deref()
    }

    /// Returns the coverage of the rules.
    pub fn coverage(&self) -> &Covered {
        &self.covered
    }

    /// Writes the trace in the form of ClassBench, a header per line, with tabs between columns.
    ///
    /// The columns are `src dst sport dport proto rule`. Numbers are decimal, except IPv6 addresses, which have colons.
    /// The rule is the 0-based place of the first that matches, or -1.
    ///
    /// # Errors
    /// If the writer fails.
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
