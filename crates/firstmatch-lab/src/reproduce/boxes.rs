//! Boxes of one action that an updater makes beside packets by Zipf's law over the rules: hits and counts.
//!
//! Nothing is timed. The updater takes the newest packet as soon as the work for the last one is done, and its work
//! takes as long as that many steps of a lookup by HyperCuts, of which the paper states the time ([`Clock`]).

use std::collections::VecDeque;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use firstmatch_core::cache::rule::{BoxSearch, BoxUpdater, ByAction, Config};
use firstmatch_core::engines::cut_tree::{self, CutTree, Method};
use firstmatch_core::{Classifier, RuleSet, Verdict};
use firstmatch_generate::trace::{self, Coverage, Locality};
use serde::Deserialize;

use super::lists::{Bias, Plan};
use super::{Emit, Measured, Outcome, Reach, mean};
use crate::digest::Running;
use crate::table::table;
use crate::workload::{self, Workload};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Boxes {
    profiles: Vec<String>,
    sizes: Vec<usize>,
    lists: u64,
    /// Share of the rules that deny; the others permit.
    deny: f64,
    /// Exponent of Zipf's law; every packet has a new header.
    zipf: f64,
    packets: usize,
    /// Number of equal parts of the packets, in each of which other rules are popular.
    #[serde(default = "one")]
    phases: u32,
    /// Numbers of boxes that are published.
    boxes: Vec<usize>,
    clock: Clock,
    pub(super) claims: Vec<About>,
}

fn one() -> u32 {
    1
}

/// Times of the paper, in nanoseconds, from which that of an updater follows by its steps.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Clock {
    /// From packet to packet.
    packet: f64,
    /// Of a search of the boxes.
    search: f64,
    /// Of a whole lookup.
    lookup: f64,
}

/// Subject of a claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    of: Of,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Per cent of the second half of the packets that hit, for each number of boxes: the mean over all sets.
    Hits,
    /// The rest of 100 per cent.
    Misses,
    /// Median of the hits over all sets, with the first number of boxes.
    Median,
    /// Whether more packets of the smallest sets hit than of the largest, profile by profile.
    Falls,
    /// Fewest and most boxes that have a sample in the window at the end.
    Formed,
    /// Fewest and most boxes that half of the hits are compared with, over all sets.
    Searched,
    /// Per cent of packets that all boxes are compared with.
    All,
    /// Milliseconds until nine tenths of the later hits are reached: the mean over all sets.
    Warm,
    /// Nanoseconds a packet of 4-2-1 for each number of boxes, by the sum of the stages' times in equation 1.
    Delay,
    /// Number of boxes of the least such delay.
    Least,
    /// Per cent of hits with samples from a slot for the newest packet, and from a queue of 1,000, set by set.
    Slot,
    /// Per cent of misses with one updater, and with two whose boxes replace one another, set by set.
    Updaters,
}

/// Counts of one set with one number of boxes, or their means over several sets.
#[derive(Clone, Debug, Default)]
struct Cell {
    /// Per cent of the second half of the packets that hit.
    hits: f64,
    /// Boxes with a sample in the window at the end.
    formed: f64,
    /// Boxes that half of the hits are compared with, and that a packet is on the mean.
    searched: f64,
    compared: f64,
    /// Packets until nine tenths of the later hits are reached.
    warm: f64,
    /// Samples, and steps of the proof for each.
    samples: f64,
    steps: f64,
    /// Per cent of all packets that hit by each of [`SAMPLERS`].
    sampled: [f64; SAMPLERS.len()],
}

/// Name, packets of the queue of samples, and number of updaters of each way to sample.
const SAMPLERS: [(&str, usize, usize); 4] =
    [("slot", 0, 1), ("queue of 64", 64, 1), ("queue of 1,000", 1000, 1), ("two updaters", 0, 2)];
/// Packets of a stretch in which hits are looked at.
const STRETCH: usize = 1000;
/// Cache and classifier threads of 4-2-1.
const THREADS: [f64; 2] = [4.0, 2.0];
/// Boxes of the cache whose search takes the time of the clock.
const TIMED: usize = 20;

/// Set with its packets, their verdicts, and the nanoseconds of a step of a lookup.
struct Bench<'a> {
    work: &'a Workload,
    view: ByAction,
    verdicts: Vec<Option<Verdict>>,
    clock: Clock,
    step: f64,
}

pub(super) fn run(run: &Boxes, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    let fits = run.packets >= 4 * STRETCH && run.packets.is_multiple_of(2 * STRETCH);
    ensure!(fits, "`packets`: expected some thousands");
    ensure!(!run.boxes.is_empty(), "`boxes`: expected a number");
    let Clock { packet, search, lookup } = run.clock;
    ensure!([packet, search, lookup].iter().all(|nanos| *nanos > 0.0), "`clock`: expected times above 0");
    let bias = Bias { deny: run.deny, ..Bias::default() };
    let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: run.lists, bias, seeds };
    // By number of boxes, profile and size.
    let mut cells = vec![vec![vec![Cell::default(); run.sizes.len()]; run.profiles.len()]; run.boxes.len()];
    let mut digest = Running::default();
    let samples = run.claims.iter().any(|about| matches!(about.of, Of::Slot | Of::Updaters));
    plan.each(|place, set| {
        let trace = trace::Config {
            headers: run.packets,
            seed: place.seed,
            locality: Locality::Zipf { s: run.zipf },
            phases: run.phases,
            coverage: Coverage::Drawn,
            ..Default::default()
        };
        let work = workload::drawn(&set, &trace)?;
        let answers = work.answers(&set)?;
        digest.add_rules(&set);
        digest.add_answers(&set, &work, &answers);
        let verdict = |found: firstmatch_core::Match| set.get(found.rule).map(|rule| rule.action.into());
        let verdicts = answers.iter().map(|found| found.and_then(verdict)).collect();
        let bench = Bench::new(&work, &set, verdicts, run.clock)?;
        for (boxes, cells) in run.boxes.iter().zip(&mut cells) {
            let mut config = Config::paper();
            config.boxes = *boxes;
            let mut one = bench.ran(&config, 0, 1)?;
            if samples {
                for (own, (_, queue, updaters)) in one.sampled.iter_mut().zip(SAMPLERS) {
                    *own = bench.ran(&config, queue, updaters)?.sampled[0];
                }
            }
            cells[place.profile][place.size].add(&one, 1.0 / run.lists as f64);
        }
        Ok(())
    })?;
    run.print(&cells, out)?;
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let (measured, reach) = run.measured(about.of, &cells).with_context(|| format!("claim `{}`", about.id))?;
        emit(Outcome { reach, ..Outcome::exact(&about.id, measured, &digest) })
    })
}

impl Cell {
    fn add(&mut self, other: &Self, share: f64) {
        let Self { hits, formed, searched, compared, warm, samples, steps, sampled } = self;
        let own = [hits, formed, searched, compared, warm, samples, steps].into_iter().chain(sampled);
        let theirs = [other.hits, other.formed, other.searched, other.compared, other.warm, other.samples, other.steps];
        own.zip(theirs.iter().chain(&other.sampled)).for_each(|(own, theirs)| *own += theirs * share);
    }
}

/// Updater with the time, in packets, at which the work for its sample ends, and whether boxes are to be published then.
struct Busy {
    updater: BoxUpdater,
    until: f64,
    is_new: bool,
}

impl<'a> Bench<'a> {
    fn new(work: &'a Workload, set: &RuleSet, verdicts: Vec<Option<Verdict>>, clock: Clock) -> anyhow::Result<Self> {
        let tree = Arc::new(CutTree::build(&work.lowered, &cut_tree::Config::paper(Method::HyperCuts))?);
        let counted = work.keys.keys().slice(0, STRETCH);
        let counts = tree.count_batch(&mut tree.scratch(), &counted, &mut [None; STRETCH]);
        let steps = ["nodes", "tests"].map(|name| counts.get(name).unwrap_or(0)).iter().sum::<u64>();
        let view = ByAction::new(tree.clone(), tree, set);
        Ok(Self { work, view, verdicts, clock, step: clock.lookup * STRETCH as f64 / steps.max(1) as f64 })
    }

    /// Takes all packets through boxes that updaters make meanwhile, of samples from a queue or the newest packets.
    fn ran(&self, config: &Config, queued: usize, updaters: usize) -> anyhow::Result<Cell> {
        let view = Arc::new(self.view.again());
        // Updaters begin by turns, so that they have samples of their own.
        let turn = self.clock.lookup / self.clock.packet / updaters as f64;
        let busy = |number| {
            let updater = BoxUpdater::new(view.clone(), view.clone(), config)?;
            anyhow::Ok(Busy { updater, until: number as f64 * turn, is_new: false })
        };
        let mut all = (0..updaters).map(busy).collect::<anyhow::Result<Vec<_>>>()?;
        let (mut boxes, mut search, keys) = (all[0].updater.boxes(), BoxSearch::new(STRETCH), self.work.keys.keys());
        let (mut queue, mut best) = (VecDeque::new(), vec![None; keys.len()]);
        let mut stretches = vec![0; keys.len() / STRETCH];
        let (mut at, mut first, mut positions) = (0, 0, vec![0; config.boxes + 1]);
        while at < keys.len() {
            let Some(next) = all.iter_mut().min_by(|a, b| a.until.total_cmp(&b.until)) else { break };
            if next.until > at as f64 {
                // Packets until then, of one stretch.
                let to = (next.until.ceil() as usize).min((at / STRETCH + 1) * STRETCH).min(keys.len());
                let open = boxes.improve(view.version(), &mut search, &keys.slice(at, to), &mut best[at..to]).len();
                stretches[at / STRETCH] += to - at - open;
                for row in (at..to).filter(|row| *row >= keys.len() / 2) {
                    let (compared, is_hit) = boxes.compared(keys.row(row));
                    positions[if is_hit { compared - 1 } else { config.boxes }] += 1;
                }
                at = to;
                continue;
            }
            if std::mem::take(&mut next.is_new) {
                next.updater.publish(&mut boxes);
            }
            // A queue takes packets while there is room; a slot has the newest one.
            queue.extend((first.min(at + 1)..=at).take(queued - queue.len()));
            first = at + 1;
            let sample = queue.pop_front().unwrap_or(at);
            let before: u64 = next.updater.proved_by().iter().sum();
            next.is_new = next.updater.sample(keys.slice(sample, sample + 1));
            let steps = next.updater.proved_by().iter().sum::<u64>() - before;
            next.until = at as f64 + (self.clock.lookup + self.step * steps as f64) / self.clock.packet;
        }
        let is_right = |(found, right): (&Option<_>, &Option<Verdict>)| {
            found.is_none_or(|found| Some(ByAction::verdict(found)) == *right)
        };
        ensure!(best.iter().zip(&self.verdicts).all(is_right), "a box has another verdict than `linear`");
        Ok(cell(&stretches, &positions, &all))
    }
}

/// Returns the counts of a run from its hits by stretch, and from the numbers of packets of its second half by the box
/// that holds them, with those in none at the end.
fn cell(stretches: &[usize], positions: &[usize], all: &[Busy]) -> Cell {
    let share = |stretches: &[usize]| stretches.iter().sum::<usize>() as f64 / (stretches.len() * STRETCH) as f64;
    let late = share(&stretches[stretches.len() / 2..]);
    let warm = stretches.iter().position(|&hits| hits as f64 >= 0.9 * late * STRETCH as f64);
    let (hits, packets): (usize, usize) = (positions[..positions.len() - 1].iter().sum(), positions.iter().sum());
    let mut below = 0;
    let half = positions.iter().position(|&count| {
        below += count;
        2 * below >= hits.max(1)
    });
    let compared = positions.iter().enumerate().map(|(at, &count)| count * (at + 1).min(positions.len() - 1));
    let (samples, steps) = all.iter().fold((0, 0), |(samples, steps), busy| {
        (samples + busy.updater.samples(), steps + busy.updater.proved_by().iter().sum::<u64>())
    });
    Cell {
        hits: late * 100.0,
        formed: all[0].updater.evolving() as f64,
        searched: half.map_or(f64::NAN, |at| (at + 1) as f64),
        compared: compared.sum::<usize>() as f64 / packets as f64,
        warm: warm.map_or(f64::NAN, |stretch| (stretch * STRETCH) as f64),
        samples: samples as f64,
        steps: steps as f64 / samples as f64,
        sampled: [share(stretches) * 100.0, 0.0, 0.0, 0.0],
    }
}

impl Boxes {
    fn measured(&self, of: Of, cells: &[Vec<Vec<Cell>>]) -> anyhow::Result<(Measured, Reach)> {
        let each = |boxes: usize, get: fn(&Cell) -> f64| cells[boxes].iter().flatten().map(get);
        let by_boxes = |get| (0..cells.len()).map(|boxes| mean(each(boxes, get))).collect::<Vec<_>>();
        let ends = |get| vec![each(0, get).fold(f64::INFINITY, f64::min), each(0, get).fold(0.0, f64::max)];
        let pairs = |of: fn([f64; SAMPLERS.len()]) -> [f64; 2]| {
            cells[0].iter().flatten().flat_map(|cell| of(cell.sampled)).collect()
        };
        let mut reach = Reach::Whole;
        let numbers = match of {
            Of::Hits => by_boxes(|cell| cell.hits),
            Of::Misses => by_boxes(|cell| 100.0 - cell.hits),
            Of::Median => {
                let mut all: Vec<f64> = each(0, |cell| cell.hits).collect();
                all.sort_unstable_by(f64::total_cmp);
                vec![all[all.len() / 2]]
            }
            Of::Falls => {
                ensure!(self.sizes.len() > 1, "expected two sizes at least");
                let pair = |sizes: &Vec<Cell>| (sizes[0].hits, sizes[sizes.len() - 1].hits);
                let pairs: Vec<(f64, f64)> = cells[0].iter().map(pair).collect();
                let falls = pairs.iter().zip(&self.profiles).filter(|((small, large), _)| small > large);
                let falls: Vec<&str> = falls.map(|(_, profile)| profile.as_str()).collect();
                let what = if falls.is_empty() { "nowhere".to_owned() } else { format!("on {}", falls.join(", ")) };
                return Ok((Measured::Pairs { pairs, what }, reach));
            }
            Of::Formed => ends(|cell| cell.formed),
            Of::Searched => ends(|cell| cell.searched),
            Of::All => vec![mean(each(0, |cell| 100.0 - cell.hits))],
            Of::Warm => vec![mean(each(0, |cell| cell.warm)) * self.clock.packet / 1e6],
            Of::Delay | Of::Least => {
                let (compared, hits) = (by_boxes(|cell| cell.compared), by_boxes(|cell| cell.hits / 100.0));
                let timed = self.boxes.iter().position(|&boxes| boxes == TIMED).context("expected 20 among `boxes`")?;
                let search = self.clock.search / compared[timed] / THREADS[0];
                let delay = |(compared, hits)| search * compared * hits + self.clock.lookup / THREADS[1] * (1.0 - hits);
                let delays: Vec<f64> = compared.iter().copied().zip(hits).map(delay).collect();
                let least = (0..delays.len()).min_by(|&a, &b| delays[a].total_cmp(&delays[b])).unwrap_or(0);
                if of == Of::Least && (least == 0 || least + 1 == delays.len()) {
                    reach = Reach::Edge;
                }
                if of == Of::Delay { delays } else { vec![self.boxes[least] as f64] }
            }
            Of::Slot => pairs(|[slot, _, queue, _]| [slot, queue]),
            Of::Updaters => pairs(|[one, _, _, two]| [100.0 - one, 100.0 - two]),
        };
        Ok((Measured::Numbers(numbers), reach))
    }

    fn print(&self, cells: &[Vec<Vec<Cell>>], out: &mut dyn Write) -> anyhow::Result<()> {
        let head = ["set", "boxes", "hits, %", "formed", "half of hits within", "compared with"];
        let mut table = table(head.into_iter().chain(["packets until warm", "samples", "steps a sample"]));
        for (boxes, cells) in self.boxes.iter().zip(cells) {
            for (profile, sizes) in self.profiles.iter().zip(cells) {
                for (size, cell) in self.sizes.iter().zip(sizes) {
                    let Cell { hits, formed, searched, compared, warm, samples, steps, .. } = cell;
                    let numbers = [hits, formed, searched, compared, warm, samples, steps];
                    let row = [format!("{profile} {size}"), boxes.to_string()];
                    table.add_row(row.into_iter().chain(numbers.map(|number| format!("{number:.1}"))));
                }
            }
        }
        writeln!(out, "{table}")?;
        for (profile, cell) in self.profiles.iter().zip(&cells[0]).map(|(profile, sizes)| (profile, &sizes[0])) {
            let all: Vec<String> =
                SAMPLERS.iter().zip(cell.sampled).map(|((name, ..), hits)| format!("{name} {hits:.2}")).collect();
            if cell.sampled[1] > 0.0 {
                writeln!(out, "{profile}: hits in per cent by the way to sample: {}", all.join(", "))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::testing::{numbers, ran};

    const HEAD: &str = "profiles = ['acl1']\nsizes = [60, 200]\nlists = 1\ndeny = 0.1\nzipf = 2.0\npackets = 40_000
clock = { packet = 102.4, search = 200.0, lookup = 2000.0 }\n";

    #[test]
    fn few_boxes_take_most_of_skewed_packets() {
        let of = ["hits", "median", "formed", "searched", "all", "falls", "slot", "updaters", "warm", "delay", "least"];
        let claims: String = of.iter().map(|of| format!("[[claims]]\nid = '{of}'\nof = '{of}'\n")).collect();
        let (out, found) = ran(run, &format!("{HEAD}boxes = [20, 4]\n{claims}")).expect("a run");
        let numbers = |at: usize| numbers(&found[at]);
        let (hits, formed, all) = (numbers(0), numbers(2), numbers(4)[0]);
        assert!(hits[0] > 80.0 && hits[1] > 50.0 && hits[1] <= hits[0], "{out}");
        assert!(numbers(1)[0] > 80.0 && formed[0] > 3.0 && formed[0] <= formed[1], "{out}");
        assert!(numbers(3)[0] >= 1.0 && (all + hits[0] - 100.0).abs() < 1e-9, "{out}");
        assert!(matches!(&found[5].measured, Measured::Pairs { pairs, .. } if pairs.len() == 1));
        assert!(out.contains("| acl1 200 |     4 |"), "{out}");
        // A queue has old packets first, and two updaters have samples of their own.
        let (slot, updaters) = (numbers(6), numbers(7));
        assert!(slot[0] > slot[1] && slot[2] > slot[3], "{slot:?}");
        assert!(slot[0] + updaters[0] == 100.0 && updaters[1] != updaters[0], "{updaters:?}");
        assert!(out.contains("by the way to sample: slot "), "{out}");
        let (delay, least) = (numbers(9), &found[10]);
        assert!(numbers(8)[0] < 2.0 && delay[0] > 50.0 && delay[0] < delay[1], "{out}");
        assert!(least.reach == Reach::Edge && crate::reproduce::testing::numbers(least) == [20.0], "{least:?}");
        for (bad, expected) in [
            ("boxes = []\nclaims = []", "`boxes`: expected"),
            ("boxes = [1]\nclaims = [{ id = 'i', of = 'x' }]", "unknown variant"),
            ("boxes = [1]\nclaims = [{ id = 'i', of = 'delay' }]", "expected 20 among `boxes`"),
        ] {
            let error = format!("{:#}", ran(run, &format!("{HEAD}{bad}")).expect_err("a bad run"));
            assert!(error.contains(expected), "{error}");
        }
    }
}
