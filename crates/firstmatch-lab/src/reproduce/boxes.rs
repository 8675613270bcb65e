//! Boxes of a rule cache before packets by Zipf's law over the rules: hits and counts, no times.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, ensure};
use firstmatch_core::cache::rule::{BoxSearch, BoxUpdater, Config, RuleCache};
use firstmatch_core::{Classifier, Scratch};
use firstmatch_generate::trace::{self, Coverage, Locality};
use serde::Deserialize;

use super::lists::{Bias, Plan};
use super::{Emit, Measured, Outcome, mean};
use crate::definition::Engine;
use crate::digest::Running;
use crate::table::table;
use crate::workload;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Boxes {
    profiles: Vec<String>,
    sizes: Vec<usize>,
    lists: u64,
    /// Exponent of Zipf's law; every packet has a new header.
    zipf: f64,
    packets: usize,
    /// Number of equal parts of the packets, in each of which other rules are popular.
    #[serde(default = "one")]
    phases: u32,
    /// Numbers of boxes that are published.
    boxes: Vec<usize>,
    pub(super) claims: Vec<About>,
}

fn one() -> u32 {
    1
}

/// Subject of a claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct About {
    pub(super) id: String,
    of: Of,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Of {
    /// Per cent of the second half of the packets that hit, for each number of boxes: the mean over all sets.
    Hits,
    /// The rest of 100 per cent, for each number of boxes.
    Misses,
    /// Median of the hits over all sets, with the first number of boxes.
    Median,
    /// Whether more packets of the smallest sets hit than of the largest, profile by profile.
    Falls,
    /// Fewest and most boxes that have a sample in the window at the end.
    Formed,
    /// Fewest and most boxes that half of the hits are compared with, over all sets.
    Searched,
    /// Per cent of the last thousand packets that all boxes are compared with.
    All,
    /// Per cent of hits with samples from a slot for the newest packet, and from a queue of 1,000, set by set.
    Slot,
    /// Per cent of misses with one updater, and with two whose boxes replace one another, set by set.
    Updaters,
}

/// Counts of one set with one number of boxes.
#[derive(Clone, Debug, Default)]
struct Cell {
    hits: f64,
    formed: f64,
    searched: f64,
    all: f64,
    warm: f64,
    /// Per cent of hits by each of [`SAMPLERS`].
    sampled: [f64; SAMPLERS.len()],
}

/// Name, age of samples in packets, and number of updaters of each way to sample.
///
/// A full queue takes a packet for each one that is taken out, so that each packet in it waits for the whole queue.
const SAMPLERS: [(&str, usize, usize); 4] =
    [("slot", 0, 1), ("queue of 64", 64 * EVERY, 1), ("queue of 1,000", 1000 * EVERY, 1), ("two updaters", 0, 2)];
/// Packets from one sample to the next, as in the paper's configuration.
const EVERY: usize = 100;

/// Packets that are counted one by one at the end, and of a stretch in which hits are looked at.
const COUNTED: usize = 1000;
/// Packets of a call.
const BATCH: usize = 50;

/// Classifier with a rule cache in front.
type Cached = RuleCache<Box<dyn Classifier>>;

pub(super) fn run(run: &Boxes, seeds: Option<&Path>, out: &mut dyn Write, emit: Emit<'_>) -> anyhow::Result<()> {
    ensure!(
        run.packets >= 4 * COUNTED && run.packets.is_multiple_of(2 * COUNTED),
        "`packets`: expected some thousands"
    );
    ensure!(!run.boxes.is_empty(), "`boxes`: expected a number");
    let plan = Plan { profiles: &run.profiles, sizes: &run.sizes, lists: run.lists, bias: Bias::default(), seeds };
    // By number of boxes, profile and size.
    let mut cells = vec![vec![vec![Cell::default(); run.sizes.len()]; run.profiles.len()]; run.boxes.len()];
    let mut digest = Running::default();
    plan.each(|place, set| {
        let locality = Locality::Zipf { s: run.zipf };
        let trace = trace::Config {
            headers: run.packets,
            seed: place.seed,
            locality,
            phases: run.phases,
            coverage: Coverage::Drawn,
            ..Default::default()
        };
        let work = workload::drawn(&set, &trace)?;
        for (boxes, cells) in run.boxes.iter().zip(&mut cells) {
            let mut config = Config::paper();
            config.boxes = *boxes;
            let inner = (Engine::plain("bit_select").recipe()?.build)(&work.lowered)?;
            let cache = RuleCache::over(inner, &work.lowered, &config)?;
            let (one, answers) = counted(&cache, &work);
            let cell = &mut cells[place.profile][place.size];
            let share = 1.0 / run.lists as f64;
            for (own, one) in [
                (&mut cell.hits, one.hits),
                (&mut cell.formed, one.formed),
                (&mut cell.searched, one.searched),
                (&mut cell.all, one.all),
                (&mut cell.warm, one.warm),
            ] {
                *own += one * share;
            }
            if run.claims.iter().any(|about| matches!(about.of, Of::Slot | Of::Updaters)) {
                for (own, (_, age, updaters)) in cell.sampled.iter_mut().zip(SAMPLERS) {
                    *own += sampled(&work, &config, age, updaters)? * share;
                }
            }
            if *boxes == run.boxes[0] {
                digest.add_rules(&set);
                digest.add_answers(&set, &work, &answers);
            }
        }
        Ok(())
    })?;
    run.print(&cells, out)?;
    let digest = digest.finish();
    run.claims.iter().try_for_each(|about| {
        let measured = run.measured(about.of, &cells).with_context(|| format!("claim `{}`", about.id))?;
        emit(Outcome::exact(&about.id, measured, &digest))
    })
}

/// Takes all packets through a cache, and returns its counts and the answers.
fn counted(cache: &Cached, work: &workload::Workload) -> (Cell, Vec<Option<firstmatch_core::Match>>) {
    let keys = work.keys.keys();
    let (mut scratch, mut answers) = (cache.scratch(), vec![None; keys.len()]);
    let hits = |scratch: &Scratch| Cached::counts(scratch).lookups.hits;
    // Hits and samples after each stretch of packets.
    let mut course = vec![(0, 0)];
    for (at, answers) in answers.chunks_mut(BATCH).enumerate() {
        let from = at * BATCH;
        cache.classify_batch(&mut scratch, keys.slice(from, from + answers.len()), answers);
        if (from + BATCH).is_multiple_of(COUNTED) {
            course.push((hits(&scratch), Cached::counts(&scratch).samples));
        }
    }
    let half = course.len() / 2;
    let (all, first) = (course[course.len() - 1].0, course[half].0);
    let share = (all - first) as f64 / ((course.len() - 1 - half) * COUNTED) as f64;
    let is_warm = |pair: &&[(u64, u64)]| (pair[1].0 - pair[0].0) as f64 >= 0.9 * share * COUNTED as f64;
    let warm = course.windows(2).find(is_warm).map_or(f64::NAN, |pair| pair[1].1 as f64);
    let formed = Cached::counts(&scratch).boxes as f64;
    let (mut positions, mut misses) = (Vec::new(), 0);
    for row in keys.len() - COUNTED..keys.len() {
        let counts = cache.count_batch(&mut scratch, &keys.slice(row, row + 1), &mut [None]);
        let of = |name: &str| counts.get(name).unwrap_or(0);
        if of("hits") == 1 { positions.push(of("boxes compared")) } else { misses += 1 }
    }
    positions.sort_unstable();
    let searched = positions.get(positions.len().saturating_sub(1) / 2).map_or(f64::NAN, |&position| position as f64);
    let all = f64::from(misses) / COUNTED as f64 * 100.0;
    (Cell { hits: share * 100.0, formed, searched, all, warm, ..Cell::default() }, answers)
}

/// Returns the per cent of packets in boxes that updaters make of samples of this age, by turns.
fn sampled(work: &workload::Workload, config: &Config, age: usize, updaters: usize) -> anyhow::Result<f64> {
    let engine: Arc<dyn Classifier> = (Engine::plain("bit_select").recipe()?.build)(&work.lowered)?.into();
    let updater = |_| BoxUpdater::over(Arc::clone(&engine), &work.lowered, config);
    let mut updaters = (0..updaters).map(updater).collect::<Result<Vec<_>, _>>()?;
    let (mut boxes, mut search, keys) = (updaters[0].boxes(), BoxSearch::new(EVERY), work.keys.keys());
    let (mut hits, mut answers) = (0, [None; EVERY]);
    for (sample, from) in (0..keys.len() + 1 - EVERY).step_by(EVERY).enumerate() {
        hits +=
            EVERY - boxes.improve(engine.version(), &mut search, &keys.slice(from, from + EVERY), &mut answers).len();
        let at = sample % updaters.len();
        let Some(from) = (from + EVERY - 1).checked_sub(age) else { continue };
        if updaters[at].sample(keys.slice(from, from + 1)) {
            updaters[at].publish(&mut boxes);
        }
    }
    Ok(hits as f64 / keys.len() as f64 * 100.0)
}

impl Boxes {
    fn measured(&self, of: Of, cells: &[Vec<Vec<Cell>>]) -> anyhow::Result<Measured> {
        let each = |boxes: usize, get: fn(&Cell) -> f64| cells[boxes].iter().flatten().map(get);
        let hits = || each(0, |cell| cell.hits);
        let by_boxes = |get| Measured::Numbers((0..cells.len()).map(|boxes| mean(each(boxes, get))).collect());
        let ends = |get| {
            let (least, most) = (each(0, get).fold(f64::INFINITY, f64::min), each(0, get).fold(0.0, f64::max));
            Measured::Numbers(vec![least, most])
        };
        let pairs = |of: fn([f64; SAMPLERS.len()]) -> [f64; 2]| {
            Measured::Numbers(cells[0].iter().flatten().flat_map(|cell| of(cell.sampled)).collect())
        };
        Ok(match of {
            Of::Hits => by_boxes(|cell| cell.hits),
            Of::Misses => by_boxes(|cell| 100.0 - cell.hits),
            Of::Median => {
                let mut all: Vec<f64> = hits().collect();
                all.sort_unstable_by(f64::total_cmp);
                Measured::Numbers(vec![all[all.len() / 2]])
            }
            Of::Falls => {
                ensure!(self.sizes.len() > 1, "expected two sizes at least");
                let pair = |sizes: &Vec<Cell>| (sizes[0].hits, sizes[sizes.len() - 1].hits);
                let pairs: Vec<(f64, f64)> = cells[0].iter().map(pair).collect();
                let falls = pairs.iter().zip(&self.profiles).filter(|((small, large), _)| small > large);
                let falls: Vec<&str> = falls.map(|(_, profile)| profile.as_str()).collect();
                let what = if falls.is_empty() { "nowhere".to_owned() } else { format!("on {}", falls.join(", ")) };
                Measured::Pairs { pairs, what }
            }
            Of::Formed => ends(|cell| cell.formed),
            Of::Searched => ends(|cell| cell.searched),
            Of::All => Measured::Numbers(vec![mean(each(0, |cell| cell.all))]),
            Of::Slot => pairs(|[slot, _, queue, _]| [slot, queue]),
            Of::Updaters => pairs(|[one, _, _, two]| [100.0 - one, 100.0 - two]),
        })
    }

    fn print(&self, cells: &[Vec<Vec<Cell>>], out: &mut dyn Write) -> anyhow::Result<()> {
        let head = ["set", "boxes", "hits, %", "formed", "half of hits within", "see all, %", "samples until warm"];
        let mut table = table(head);
        for (boxes, cells) in self.boxes.iter().zip(cells) {
            for (profile, sizes) in self.profiles.iter().zip(cells) {
                for (size, cell) in self.sizes.iter().zip(sizes) {
                    let numbers = [cell.hits, cell.formed, cell.searched, cell.all, cell.warm];
                    let row = [format!("{profile} {size}"), boxes.to_string()];
                    table.add_row(row.into_iter().chain(numbers.map(|number| format!("{number:.1}"))));
                }
            }
        }
        writeln!(out, "{table}")?;
        for (profile, cell) in self.profiles.iter().zip(&cells[0]).map(|(profile, sizes)| (profile, &sizes[0])) {
            let all = SAMPLERS.iter().zip(cell.sampled).filter(|(_, hits)| *hits > 0.0);
            let all: Vec<String> = all.map(|((name, ..), hits)| format!("{name} {hits:.2}")).collect();
            if !all.is_empty() {
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

    const HEAD: &str = "profiles = ['acl1']\nsizes = [60, 200]\nlists = 1\nzipf = 2.0\npackets = 20_000\n";

    #[test]
    fn few_boxes_take_most_of_skewed_packets() {
        let of = ["hits", "median", "formed", "searched", "all", "falls", "slot", "updaters"];
        let claims: String = of.iter().map(|of| format!("[[claims]]\nid = '{of}'\nof = '{of}'\n")).collect();
        let (out, found) = ran(run, &format!("{HEAD}boxes = [20, 4]\n{claims}")).expect("a run");
        let numbers = |at: usize| numbers(&found[at]);
        let (hits, formed, all) = (numbers(0), numbers(2), numbers(4)[0]);
        assert!(hits[0] > 80.0 && hits[1] > 50.0 && hits[1] <= hits[0], "{out}");
        assert!(numbers(1)[0] > 80.0 && formed[0] > 3.0 && formed[0] <= formed[1], "{out}");
        assert!(numbers(3)[0] >= 1.0 && all < 25.0, "{out}");
        assert!(matches!(&found[5].measured, Measured::Pairs { pairs, .. } if pairs.len() == 1));
        assert!(out.contains("| acl1 200 |     4 |"), "{out}");
        // No packet is as old as a queue of 1,000 makes it, and two windows of samples are filled half as fast.
        let (slot, updaters) = (numbers(6), numbers(7));
        assert!(slot[0] > 60.0 && slot[2] > 60.0 && slot[1] == 0.0 && slot[3] == 0.0, "{slot:?}");
        assert!(slot[0] + updaters[0] == 100.0 && updaters[1] > updaters[0], "{updaters:?}");
        assert!(out.contains("by the way to sample: slot "), "{out}");
        for (bad, expected) in [
            ("boxes = []\nclaims = []", "`boxes`: expected"),
            ("boxes = [1]\nclaims = [{ id = 'i', of = 'x' }]", "unknown variant"),
        ] {
            let error = format!("{:#}", ran(run, &format!("{HEAD}{bad}")).expect_err("a bad run"));
            assert!(error.contains(expected), "{error}");
        }
    }
}
