//! Boxes that evolve from sampled packets, and their weights.

use super::boxes::{BLOCK, Boxes};
use super::config::{Config, Growth, MOST_SPARSE, PUBLISHED, WARM};
use super::evolving::{EvolvedBox, Evolving};
use super::step::{Outcome, Step};
use super::{carve, grow};
use crate::engine::{Match, Overlaps};
use crate::schema::Word;

/// Evolving boxes, weighted by a window of recent samples, and the step that makes or grows a box for one sample.
#[derive(Debug)]
pub(super) struct Updater {
    config: Config,
    boxes: Evolving,
    /// Box of each sample of the window, the oldest at `oldest` once it is full.
    window: Vec<u16>,
    oldest: usize,
    step: Step,
    /// Lookups to the next sample.
    left: usize,
    /// Binary logarithm of the factor on the lookups between samples, which grows while boxes hold few samples.
    sparse: u32,
    /// Numbers of samples since the rules last changed, and in all.
    since: usize,
    samples: u64,
}

impl Updater {
    pub(super) fn new(config: &Config, key_words: usize) -> Self {
        let window = config.window();
        Self {
            config: config.clone(),
            boxes: Evolving::new(key_words, window + 1, config.boxes()),
            window: Vec::with_capacity(window),
            oldest: 0,
            step: Step::new(key_words),
            left: config.sample[0].max(1),
            sparse: 0,
            since: 0,
            samples: 0,
        }
    }

    /// Prepares the probe for searches of `rules`, so that these allocate nothing.
    pub(super) fn prepare(&mut self, rules: &dyn Overlaps) {
        rules.prepare(&mut self.step.probe);
    }

    /// Forgets all boxes and samples, because the rules have changed.
    pub(super) fn clear(&mut self) {
        self.boxes.clear();
        self.window.clear();
        (self.oldest, self.step.is_active, self.since, self.sparse) = (0, false, 0, 0);
        self.left = self.left.min(self.config.sample[0].max(1));
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// Returns the numbers of nodes that were visited and of regions that were tested so far.
    pub(super) fn proved_by(&self) -> [u64; 2] {
        [self.step.probe.visited, self.step.probe.tested]
    }

    pub(super) fn evolving(&self) -> usize {
        self.boxes.by_age().len()
    }

    /// Whether a step is at work.
    #[inline(always)]
    pub(super) fn is_at_work(&self) -> bool {
        self.step.is_active
    }

    /// Whether a step is at work, or a batch of `lookups` has a sample.
    #[inline(always)]
    pub(super) fn is_due(&self, lookups: usize) -> bool {
        self.is_at_work() | (self.left <= lookups)
    }

    /// Counts a batch of `lookups` that is not due.
    #[inline(always)]
    pub(super) fn passes(&mut self, lookups: usize) {
        self.left -= lookups;
    }

    /// Counts a batch of `lookups`, and returns which of its packets is the sample, if any.
    pub(super) fn sample_of(&mut self, lookups: usize) -> Option<usize> {
        let at = self.left.checked_sub(1).filter(|&at| at < lookups);
        self.left = self.left.saturating_sub(lookups);
        if at.is_some() {
            // Boxes that hold few of the first samples will not be worth more of them.
            let is_warm = self.since >= WARM || (self.since >= 2 * PUBLISHED && self.sparse > 0);
            let factor = if is_warm { 1 << self.sparse } else { 1 };
            self.left = self.config.sample[usize::from(is_warm)].max(1).saturating_mul(factor);
        }
        at
    }

    /// Takes a sample, whose answer is known; returns whether boxes are to be published.
    ///
    /// A sample that no box holds begins a step. It is dropped while another step is at work.
    pub(super) fn take(&mut self, key: &[u32], answer: Option<Match>) -> bool {
        if answer.is_none() && !self.config.unmatched {
            return false;
        }
        self.since += 1;
        self.samples += 1;
        if let Some(number) = self.boxes.holding(key) {
            self.weigh(number);
            return self.is_published();
        }
        if !self.step.is_active {
            self.step.begin(key, answer);
        }
        false
    }

    /// Continues the step, by about `tests` regions; returns whether boxes are to be published.
    pub(super) fn go_on(&mut self, rules: &dyn Overlaps, words: &[Word], tests: usize) -> bool {
        if !self.step.is_active {
            return false;
        }
        let outcome = match self.config.growth {
            Growth::Carve => carve::slice(&mut self.step, rules, words, tests),
            Growth::Grow => grow::slice(&mut self.step, &self.boxes, rules, &self.config, tests),
        };
        let number = match outcome {
            Outcome::Open => return false,
            Outcome::None => None,
            Outcome::New => self.boxes.add(&self.step.probe, self.step.answer),
            Outcome::Grown(number) => {
                self.boxes.write(number, &self.step.probe);
                Some(number)
            }
        };
        self.step.is_active = false;
        let Some(number) = number else { return false };
        self.weigh(number);
        self.is_published()
    }

    /// Gives a box the weight of a sample. Once the window is full, the oldest sample takes its weight from its box.
    fn weigh(&mut self, number: u16) {
        self.boxes.weights[usize::from(number)] += 1;
        if self.window.len() < self.config.window() {
            self.window.push(number);
            return;
        }
        let old = std::mem::replace(&mut self.window[self.oldest], number);
        self.oldest = (self.oldest + 1) % self.window.len();
        self.boxes.lighten(old);
    }

    fn is_published(&self) -> bool {
        self.since <= 2 * PUBLISHED || self.since.is_multiple_of(PUBLISHED)
    }

    /// Publishes the heaviest boxes in blocks, as far as a block is worth its search.
    pub(super) fn publish(&mut self, published: &mut Boxes) {
        published.clear();
        let (most, all) = (self.config.boxes(), &mut self.boxes);
        all.choose_heaviest(most);
        let mut reach = self.window.len() as f64;
        for block in all.heaviest.chunks(BLOCK) {
            let weight = block.iter().map(|&number| f64::from(all.weights[usize::from(number)])).sum::<f64>();
            if weight < self.config.least_share * reach {
                break;
            }
            reach -= weight;
            published.push_block(block.iter().map(|&number| (all.bounds(number), all.answer(number))));
        }
        if self.config.steps_aside && self.since.is_multiple_of(PUBLISHED) {
            let is_idle = reach * 2.0 > self.window.len() as f64;
            self.sparse = if is_idle { (self.sparse + 1).min(MOST_SPARSE) } else { 0 };
        }
    }

    /// Returns all boxes, the oldest first.
    pub(super) fn boxes(&self) -> Vec<EvolvedBox> {
        self.boxes.by_age().iter().map(|&number| self.boxes.evolved(number)).collect()
    }
}
