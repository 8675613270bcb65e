//! Boxes that evolve from sampled packets, and their weights.

use super::boxes::{BLOCK, Boxes};
use super::config::{Config, Growth, MOST_SPARSE, PUBLISHED, WARM};
use super::{carve, grow};
use crate::engine::{Match, Overlaps, Probe};
use crate::schema::Word;

/// Boxes of the samples of a window, and the search for the box of the sample at hand.
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
    /// Samples since the rules were last other ones, and in all.
    since: usize,
    samples: u64,
}

/// Boxes by number, and their numbers in order of age.
#[derive(Debug)]
pub(super) struct Evolving {
    key_words: usize,
    /// For each box all `lo`, then all `hi`.
    bounds: Box<[u32]>,
    answers: Box<[Option<Match>]>,
    weights: Box<[u32]>,
    /// Boxes with a weight, the oldest first.
    by_age: Vec<u16>,
    free: Vec<u16>,
    /// The heaviest boxes, while they are published.
    heaviest: Vec<u16>,
}

/// Work for one sample that no box holds.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) is_active: bool,
    pub(super) key: Box<[u32]>,
    pub(super) answer: Option<Match>,
    pub(super) probe: Probe,
    pub(super) cursor: u64,
    /// Regions that were tested for the box at hand.
    pub(super) tested: usize,
    /// Age of the next box to grow, and bests of Algorithm 1 for the one at hand.
    pub(super) next: usize,
    pub(super) grown: Option<grow::Check>,
    /// Bounds of the region of the sample's rule, where boxes must stay in it.
    pub(super) home: Box<[u32]>,
}

/// What came of a slice of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// It goes on.
    Open,
    /// The probe is the box of the sample.
    New,
    /// The probe is the new box of this evolving one.
    Grown(u16),
    /// There is no box, because the rules were not those of the answer.
    None,
}

impl Updater {
    pub(super) fn new(config: &Config, key_words: usize) -> Self {
        let window = config.window();
        let mut probe = Probe::new(&vec![0; key_words], &vec![0; key_words]);
        probe.row.reserve(4 * key_words);
        let step = Step {
            is_active: false,
            key: vec![0; key_words].into(),
            answer: None,
            probe,
            cursor: 0,
            tested: 0,
            next: 0,
            grown: None,
            home: vec![0; 2 * key_words].into(),
        };
        Self {
            config: config.clone(),
            boxes: Evolving::new(key_words, window + 1, config.boxes()),
            window: Vec::with_capacity(window),
            oldest: 0,
            step,
            left: config.sample[0].max(1),
            sparse: 0,
            since: 0,
            samples: 0,
        }
    }

    /// Forgets all boxes and samples, because the rules are other ones.
    pub(super) fn clear(&mut self) {
        self.boxes.clear();
        self.window.clear();
        (self.oldest, self.step.is_active, self.since, self.sparse) = (0, false, 0, 0);
        self.left = self.left.min(self.config.sample[0].max(1));
    }

    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    pub(super) fn evolving(&self) -> usize {
        self.boxes.by_age.len()
    }

    /// Whether a step is at work, or a batch of `lookups` has a sample.
    #[inline(always)]
    pub(super) fn is_due(&self, lookups: usize) -> bool {
        self.step.is_active | (self.left <= lookups)
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
            self.left = self.config.sample[usize::from(is_warm)].max(1) << if is_warm { self.sparse } else { 0 };
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

    /// Goes on with the step, by about `tests` regions; returns whether boxes are to be published.
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

    /// Gives a box the weight of a sample, and takes that of the oldest one.
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
            published.push_block(block.iter().map(|&number| (all.bounds(number), all.answers[usize::from(number)])));
        }
        if self.config.steps_aside && self.since.is_multiple_of(PUBLISHED) {
            let is_idle = reach * 2.0 > self.window.len() as f64;
            self.sparse = if is_idle { (self.sparse + 1).min(MOST_SPARSE) } else { 0 };
        }
    }

    /// Returns bounds, answer and weight of each box, the oldest first.
    #[cfg(test)]
    pub(super) fn boxes(&self) -> Vec<(Vec<u32>, Option<Match>, u32)> {
        let of = |&number: &u16| {
            let at = usize::from(number);
            (self.boxes.bounds(number).to_vec(), self.boxes.answers[at], self.boxes.weights[at])
        };
        self.boxes.by_age.iter().map(of).collect()
    }
}

impl Step {
    fn begin(&mut self, key: &[u32], answer: Option<Match>) {
        self.key.copy_from_slice(&key[..self.key.len()]);
        (self.answer, self.is_active, self.cursor, self.tested, self.next) = (answer, true, 0, 0, 0);
        self.grown = None;
    }
}

impl Evolving {
    fn new(key_words: usize, most: usize, heaviest: usize) -> Self {
        let mut all = Self {
            key_words,
            bounds: vec![0; most * 2 * key_words].into(),
            answers: vec![None; most].into(),
            weights: vec![0; most].into(),
            by_age: Vec::with_capacity(most),
            free: Vec::with_capacity(most),
            heaviest: Vec::with_capacity(heaviest),
        };
        all.clear();
        all
    }

    fn clear(&mut self) {
        self.by_age.clear();
        self.free.clear();
        self.free.extend((0..self.answers.len() as u16).rev());
        self.weights.fill(0);
    }

    pub(super) fn by_age(&self) -> &[u16] {
        &self.by_age
    }

    pub(super) fn answer(&self, number: u16) -> Option<Match> {
        self.answers[usize::from(number)]
    }

    /// Returns the bounds of a box: all `lo`, then all `hi`.
    pub(super) fn bounds(&self, number: u16) -> &[u32] {
        &self.bounds[usize::from(number) * 2 * self.key_words..][..2 * self.key_words]
    }

    /// Returns the oldest box that holds a key.
    fn holding(&self, key: &[u32]) -> Option<u16> {
        let holds = |number: &u16| {
            let (lo, hi) = self.bounds(*number).split_at(self.key_words);
            lo.iter().zip(hi).zip(key).all(|((lo, hi), key)| lo <= key && key <= hi)
        };
        self.by_age.iter().copied().find(holds)
    }

    fn add(&mut self, probe: &Probe, answer: Option<Match>) -> Option<u16> {
        let number = self.free.pop()?;
        self.answers[usize::from(number)] = answer;
        self.write(number, probe);
        self.by_age.push(number);
        Some(number)
    }

    fn write(&mut self, number: u16, probe: &Probe) {
        let bounds = &mut self.bounds[usize::from(number) * 2 * self.key_words..][..2 * self.key_words];
        let (lo, hi) = bounds.split_at_mut(self.key_words);
        lo.copy_from_slice(&probe.lo);
        hi.copy_from_slice(&probe.hi);
    }

    /// Takes the weight of one sample from a box, which goes with the last one.
    fn lighten(&mut self, number: u16) {
        let weight = &mut self.weights[usize::from(number)];
        *weight -= 1;
        if *weight == 0 {
            self.by_age.retain(|&other| other != number);
            self.free.push(number);
        }
    }

    /// Chooses the heaviest boxes, the older of two of one weight first.
    fn choose_heaviest(&mut self, most: usize) {
        self.heaviest.clear();
        let (heaviest, weights) = (&mut self.heaviest, &self.weights);
        for &number in &self.by_age {
            let weight = weights[usize::from(number)];
            let at = heaviest.partition_point(|&other: &u16| weights[usize::from(other)] >= weight);
            if at < most {
                heaviest.truncate(most - 1);
                heaviest.insert(at.min(heaviest.len()), number);
            }
        }
    }
}
