//! Boxes that have a sample in the window, by age.

use crate::engine::{Match, Probe};

/// Box made from samples; all keys in the box have one answer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EvolvedBox {
    /// Smallest value of each key word.
    pub lo: Vec<u32>,
    /// Largest value of each key word.
    pub hi: Vec<u32>,
    /// First rule of its keys; `None` if no rule matches them.
    pub answer: Option<Match>,
    /// Number of samples of the window that lie in it.
    pub weight: u32,
}

/// Boxes by number, and their numbers in order of age.
#[derive(Debug)]
pub(super) struct Evolving {
    key_words: usize,
    /// For each box all `lo`, then all `hi`.
    bounds: Box<[u32]>,
    answers: Box<[Option<Match>]>,
    pub(super) weights: Box<[u32]>,
    /// Boxes with a weight, the oldest first.
    by_age: Vec<u16>,
    free: Vec<u16>,
    /// The heaviest boxes, while they are published.
    pub(super) heaviest: Vec<u16>,
}

impl Evolving {
    pub(super) fn new(key_words: usize, most: usize, heaviest: usize) -> Self {
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

    pub(super) fn clear(&mut self) {
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

    pub(super) fn evolved(&self, number: u16) -> EvolvedBox {
        let (lo, hi) = self.bounds(number).split_at(self.key_words);
        let (answer, weight) = (self.answer(number), self.weights[usize::from(number)]);
        EvolvedBox { lo: lo.to_vec(), hi: hi.to_vec(), answer, weight }
    }

    /// Returns the oldest box that holds a key.
    pub(super) fn holding(&self, key: &[u32]) -> Option<u16> {
        let holds = |number: &u16| {
            let (lo, hi) = self.bounds(*number).split_at(self.key_words);
            lo.iter().zip(hi).zip(key).all(|((lo, hi), key)| lo <= key && key <= hi)
        };
        self.by_age.iter().copied().find(holds)
    }

    pub(super) fn add(&mut self, probe: &Probe, answer: Option<Match>) -> Option<u16> {
        let number = self.free.pop()?;
        self.answers[usize::from(number)] = answer;
        self.write(number, probe);
        self.by_age.push(number);
        Some(number)
    }

    pub(super) fn write(&mut self, number: u16, probe: &Probe) {
        let bounds = &mut self.bounds[usize::from(number) * 2 * self.key_words..][..2 * self.key_words];
        let (lo, hi) = bounds.split_at_mut(self.key_words);
        lo.copy_from_slice(&probe.lo);
        hi.copy_from_slice(&probe.hi);
    }

    /// Takes the weight of one sample from a box, and removes the box if that was its last.
    pub(super) fn lighten(&mut self, number: u16) {
        let weight = &mut self.weights[usize::from(number)];
        *weight -= 1;
        if *weight == 0 {
            self.by_age.retain(|&other| other != number);
            self.free.push(number);
        }
    }

    /// Chooses the heaviest boxes; of two boxes of one weight, the older comes first.
    pub(super) fn choose_heaviest(&mut self, most: usize) {
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
