//! Lookups: every engine in every round, each round in another order.

use std::panic::resume_unwind;
use std::thread;

use firstmatch_core::Match;
use rand::SeedableRng;
use rand_pcg::Pcg64;

use super::Pace;
use super::counter::Instructions;
use super::replay::percentile;
use super::round::{Cell, Round};
use super::subject::{Built, Subject};
use crate::definition::Lookup;
use crate::statistics::{Summary, noise_floor};
use crate::workload::Workload;

/// Figures of one subject, in nanoseconds per packet except for latencies.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// For each cell of [`cells`], the CPU time and the wall time of each round.
    cells: Vec<(Vec<f64>, Vec<f64>)>,
    /// For each batch of several keys, p50 and p99 of each round, in nanoseconds per batch.
    latencies: Vec<(Vec<f64>, Vec<f64>)>,
    /// For each number of threads, the CPU time of each thread and the wall time of all together.
    threads: Vec<(Vec<f64>, Vec<f64>)>,
    /// Instructions per packet in the largest batch, if the machine counts them.
    pub(crate) instructions: Option<f64>,
    /// Number of rounds before each sitting.
    sittings: Vec<usize>,
}

/// Returns the cells of a definition.
pub(crate) fn cells(lookup: &Lookup) -> Vec<Cell> {
    let mut cells: Vec<Cell> = lookup.batches.iter().map(|&batch| Cell::Batch(batch)).collect();
    if lookup.dependent {
        cells.insert(usize::from(cells.first() == Some(&Cell::Batch(1))), Cell::Dependent);
    }
    if lookup.frames {
        cells.extend(lookup.batches.iter().map(|&batch| Cell::Frames(batch)));
    }
    cells
}

/// Returns the batches whose latencies are taken; for one key the clock would dominate.
pub(crate) fn latency_batches(lookup: &Lookup) -> impl Iterator<Item = usize> {
    lookup.batches.iter().copied().filter(|&batch| batch > 1)
}

impl Figures {
    pub(crate) fn cpu(&self, cell: usize) -> Option<Summary> {
        self.cells.get(cell).and_then(|(cpu, _)| Summary::of(cpu))
    }

    pub(crate) fn wall(&self, cell: usize) -> Option<Summary> {
        self.cells.get(cell).and_then(|(_, wall)| Summary::of(wall))
    }

    fn begin_sitting(&mut self) {
        self.sittings.push(self.cells.first().map_or(0, |(cpu, _)| cpu.len()));
    }

    /// Returns the relative distance between the medians of the sittings; `None` for one sitting.
    pub(crate) fn drift(&self, cell: usize) -> Option<f64> {
        let (cpu, _) = self.cells.get(cell)?;
        let ends = self.sittings.iter().skip(1).copied().chain([cpu.len()]);
        let medians: Vec<f64> = self
            .sittings
            .iter()
            .zip(ends)
            .filter_map(|(&from, to)| Some(Summary::of(cpu.get(from..to)?)?.median))
            .collect();
        let all = Summary::of(&medians).filter(|_| medians.len() > 1)?;
        Some(noise_floor(all.min, all.max))
    }

    /// Returns the median and the 99th percentile of the latency.
    pub(crate) fn latency(&self, index: usize) -> Option<(Summary, Summary)> {
        self.latencies.get(index).and_then(|(p50, p99)| Some((Summary::of(p50)?, Summary::of(p99)?)))
    }

    /// Returns the CPU time per packet of one thread and the wall time per packet of all.
    pub(crate) fn threads(&self, index: usize) -> Option<(Summary, Summary)> {
        self.threads.get(index).and_then(|(cpu, wall)| Some((Summary::of(cpu)?, Summary::of(wall)?)))
    }
}

/// Rounds of lookups of every subject.
pub(crate) struct Rounds {
    pub(crate) figures: Vec<Figures>,
    random: Pcg64,
    number: usize,
}

impl Rounds {
    pub(crate) fn new(subjects: usize) -> Self {
        let figures = (0..subjects).map(|_| Figures::default()).collect();
        Self { figures, random: Pcg64::seed_from_u64(1), number: 0 }
    }

    /// Runs a sitting's rounds.
    ///
    /// A subject that answers wrongly is not measured further: its `built` becomes that error.
    pub(crate) fn sit(
        &mut self,
        lookup: &Lookup,
        subjects: &mut [Subject],
        work: &Workload,
        right: &[Option<Match>],
        pace: &Pace,
    ) {
        let mut counter = Instructions::open().ok();
        self.figures.iter_mut().for_each(Figures::begin_sitting);
        for _ in 0..pace.rounds(lookup.rounds) {
            let limit = subjects.iter().find_map(|subject| subject.built.as_ref().ok()?.limit_keys());
            let round = Round::new(work, right, limit, pace, &mut self.random);
            // Each subject is equally often the first, which finds the keys in no cache.
            for which in turns(subjects.len(), self.number) {
                pace.progress(&subjects[which].name);
                subjects[which].move_elsewhere(work);
                let Ok(built) = &subjects[which].built else { continue };
                if let Err(error) = once(lookup, built, &round, pace, counter.as_mut(), &mut self.figures[which]) {
                    subjects[which].built = Err(error);
                }
            }
            self.number += 1;
        }
    }
}

/// Iterates over the subjects in the order of a round, which starts one further each time.
pub(super) fn turns(subjects: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..subjects).map(move |turn| (turn + round) % subjects)
}

/// Measures all cells of one subject in one round.
fn once(
    lookup: &Lookup,
    built: &Built,
    round: &Round,
    pace: &Pace,
    counter: Option<&mut Instructions>,
    figures: &mut Figures,
) -> anyhow::Result<()> {
    let largest = lookup.batches.iter().copied().max().unwrap_or(1);
    // A first guess gives the length of a pass. Then one pass loads the engine into the caches.
    let guess = built.pass(round, Cell::Batch(largest), 0, round.len().min(pace.fewest()))?;
    let nanos = guess.cpu.as_secs_f64() * 1e9 / round.len().min(pace.fewest()) as f64;
    let count = ((pace.pass_nanos() / nanos) as usize).max(pace.fewest()).min(round.len());
    built.pass(round, Cell::Batch(largest), 0, count)?;

    let cells = cells(lookup);
    figures.cells.resize_with(cells.len(), Default::default);
    for (index, (cell, (cpu, wall))) in cells.iter().zip(&mut figures.cells).enumerate() {
        if !built.takes(*cell) {
            continue;
        }
        // Short passes take other keys in each cell, because the branch predictor would learn the same ones.
        let from = (index + 1) * count % (round.len() - count + 1);
        let taken = built.pass(round, *cell, from, from + count)?;
        cpu.push(taken.cpu.as_secs_f64() * 1e9 / count as f64);
        wall.push(taken.wall.as_secs_f64() * 1e9 / count as f64);
    }
    let batches: Vec<usize> = latency_batches(lookup).collect();
    figures.latencies.resize_with(batches.len(), Default::default);
    for (batch, (p50, p99)) in batches.into_iter().zip(&mut figures.latencies) {
        let nanos = built.latencies(round, batch, 0, count)?;
        p50.push(percentile(&nanos, 0.5));
        p99.push(percentile(&nanos, 0.99));
    }
    figures.threads.resize_with(lookup.threads.len(), Default::default);
    for (&threads, (cpu, wall)) in lookup.threads.iter().zip(&mut figures.threads) {
        let (each, all) = together(built, round, threads, largest, count)?;
        cpu.push(each);
        wall.push(all);
    }
    if let Some(counter) = counter {
        let counted = counter.count(|| built.pass(round, Cell::Batch(largest), 0, count));
        figures.instructions = counted.map(|instructions| instructions as f64 / count as f64);
    }
    Ok(())
}

/// Runs several threads over the same keys; returns CPU and wall time per packet.
fn together(built: &Built, round: &Round, threads: usize, batch: usize, count: usize) -> anyhow::Result<(f64, f64)> {
    let taken = thread::scope(|scope| {
        let one = || built.pass(round, Cell::Batch(batch), 0, count);
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        let joined = running.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        joined.collect::<anyhow::Result<Vec<_>>>()
    })?;
    let packets = (threads * count) as f64;
    let cpu: f64 = taken.iter().map(|taken| taken.cpu.as_secs_f64()).sum();
    let wall = taken.iter().map(|taken| taken.wall.as_secs_f64()).fold(0.0, f64::max);
    Ok((cpu * 1e9 / packets, wall * 1e9 / packets))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sittings_drift_apart() {
        let mut figures = Figures::default();
        for sitting in [[10.0, 10.0, 30.0], [11.0, 12.0, 11.0], [9.0, 8.0, 9.0]] {
            figures.begin_sitting();
            figures.cells.resize_with(1, Default::default);
            figures.cells[0].0.extend(sitting);
            assert_eq!(figures.drift(0).is_some(), figures.sittings.len() > 1);
        }
        assert_eq!(figures.drift(0), Some(noise_floor(9.0, 11.0)));
        assert_eq!(figures.drift(1), None);
    }
}
