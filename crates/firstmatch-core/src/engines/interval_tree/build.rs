//! Building: each word is cut into intervals, whose sets become classes.

use std::sync::atomic::{AtomicU64, Ordering};

use super::config::{Config, SetForm};
use super::sets::{self, Current, Lists, Sets, Vectors};
use super::structure::{Npf, Word};
use crate::engine::Match;
use crate::engine::budget::Visits;
use crate::engines::shared::{Classes, Interval, Masks, Products, Room, sweep};
use crate::error::BuildError;
use crate::raw::Level;
use crate::rule::Lowered;

/// Number of the next engine of this process.
///
/// A scratch copies the bounds of intervals, so it must know for which engine it was made.
static NEXT: AtomicU64 = AtomicU64::new(0);

pub(super) fn build(set: &Lowered, config: &Config, level: Level, visits: &Visits) -> Result<Npf, BuildError> {
    config.check()?;
    let schema = set.schema();
    let products = Products::of(set, visits)?;
    let is_masked = products.masks.iter().any(|masks| !masks.is_empty());
    let key_words = schema.words().len();
    let masked = products.masks.iter().filter(|masks| !masks.is_empty()).count();
    let of_masks = if is_masked { 4 * products.len() + masked * key_words * size_of::<(u32, u32)>() } else { 0 };
    let mut making = Making {
        config,
        visits,
        products: products.len(),
        vectors: Vec::new(),
        lists: Vec::new(),
        needed: products.len() * size_of::<Match>() + key_words * size_of::<Word>() + of_masks,
    };
    making.fits(making.needed)?;
    let mut words = Vec::with_capacity(key_words);
    for (word, intervals) in schema.words().iter().zip(&products.intervals) {
        words.push(making.word(intervals, word.max)?);
    }
    let read = (0..key_words).filter(|&word| !words[word].is_open);
    making.needed += read.clone().count() * size_of::<usize>();
    making.fits(making.needed)?;
    let sets = match config.sets {
        SetForm::Vectors => Sets::Vectors(making.vectors.into()),
        SetForm::Lists => Sets::Lists(making.lists.into()),
    };
    let (places, masks) = if is_masked { flat(&products.masks) } else { Default::default() };
    Ok(Npf {
        schema: schema.clone(),
        level,
        number: NEXT.fetch_add(1, Ordering::Relaxed),
        read: read.collect(),
        words: words.into(),
        sets,
        rules: products.firsts.len() - 1,
        regions: set.region_count(),
        matches: products.matches.into(),
        mask_places: places,
        masks,
        config: config.clone(),
    })
}

/// For each product, 1 + the place of its masks, or 0 if it has none; then the masks of all products.
type FlatMasks = (Box<[u32]>, Box<[(u32, u32)]>);

/// Moves the masks of all products into one array.
fn flat(all: &[Masks]) -> FlatMasks {
    let (mut masks, mut count) = (Vec::new(), 0);
    let place = |of: &Masks| {
        if of.is_empty() {
            return 0;
        }
        masks.extend_from_slice(of);
        count += 1;
        count
    };
    let places = all.iter().map(place).collect();
    (places, masks.into())
}

/// Engine in the making.
struct Making<'a> {
    config: &'a Config,
    visits: &'a Visits,
    products: usize,
    /// Sets of the constrained words so far, as vectors or as lists.
    vectors: Vec<Vectors>,
    lists: Vec<Lists>,
    /// Number of bytes built so far.
    needed: usize,
}

impl Making<'_> {
    /// Checks that the budget has room for `needed` bytes.
    fn fits(&self, needed: usize) -> Result<(), BuildError> {
        let allowed = self.config.budget.run_bytes;
        if needed > allowed { Err(BuildError::bytes(needed, allowed)) } else { Ok(()) }
    }

    /// Cuts a word into intervals, and stores their sets.
    fn word(&mut self, intervals: &[(usize, Interval)], most: u32) -> Result<Word, BuildError> {
        let (mut open, mut current) = (Current::new(self.products), Current::new(self.products));
        let mut constraining = Vec::new();
        for &(product, interval) in intervals {
            if interval == (0, most) {
                open.toggle(product);
            } else {
                constraining.push((product, interval));
            }
        }
        let opens = intervals.len() - constraining.len();
        let allowed = self.config.budget.run_bytes;
        let room = Room { allowed: allowed - self.needed, visits: self.visits };
        let (form, mut classes) = (self.config.sets, Classes::default());
        let (later, mut numbers) = sweep(&constraining, most, self.visits, |changes| {
            changes.iter().for_each(|&(_, product)| current.toggle(product));
            let row = current.row(form);
            classes.of(row, &room).map_err(|error| match error.bytes_needed() {
                Some((needed, _)) => BuildError::bytes(needed.saturating_add(self.needed), allowed),
                None => error,
            })
        })?;
        self.visits.check()?;
        if u32::try_from(classes.rows().len()).is_err() {
            return Err(BuildError::refused("sets of a word have more than 2^32 words of 32 bits".to_owned()));
        }
        let is_open = opens == self.products;
        let of_sets = if is_open { 0 } else { sets::bytes(form, &classes, opens, self.products) };
        self.needed += 2 * size_of_val(&numbers[..]) + of_sets;
        self.fits(self.needed)?;
        if is_open {
            numbers.fill(0);
        } else if form == SetForm::Vectors {
            let (vectors, places) = Vectors::new(&classes, &open);
            numbers.iter_mut().for_each(|number| *number = places[*number as usize]);
            self.vectors.push(vectors);
        } else {
            self.lists.push(Lists::new(&classes, &mut open));
        }
        let mut starts = Vec::with_capacity(numbers.len());
        starts.push(0);
        starts.extend(later);
        Ok(Word { starts: starts.into(), sets: numbers.into(), is_open })
    }
}
