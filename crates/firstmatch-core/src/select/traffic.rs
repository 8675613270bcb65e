//! Sorts of traffic that candidates are compared on: keys drawn from the rules alone.

use std::fmt;

use crate::engines::registry::{AnyBase, Scratch};
use crate::engines::shared::wide::{Random, Wide};
use crate::key::KeyBuf;
use crate::rule::{Lowered, Match, Region, Regions};
use crate::schema::Schema;

/// Sort of traffic that candidates are compared on.
///
/// The packets to come are not known. So on no sort should the chosen base be far slower than another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Traffic {
    /// Keys in rules, each rule equally likely.
    ///
    /// Fields that the rule leaves open are drawn from other rules or from all values.
    Rules,
    /// Corners of rules, half of them moved out of the rule by one step in one field.
    Edges,
    /// Keys in no wide rule.
    ///
    /// Wide rules are the at most eight rules that hold the most keys of later rules.
    Behind,
    /// Keys with any value in each field.
    Uniform,
    /// Keys that no rule holds.
    Unmatched,
}

impl Traffic {
    /// Every sort.
    pub const ALL: [Self; 5] = [Self::Rules, Self::Edges, Self::Behind, Self::Uniform, Self::Unmatched];

    /// Returns the name: `rules`, `edges`, `behind`, `uniform`, `unmatched`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rules => "rules",
            Self::Edges => "edges",
            Self::Behind => "behind",
            Self::Uniform => "uniform",
            Self::Unmatched => "unmatched",
        }
    }
}

impl fmt::Display for Traffic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Keys of one sort.
pub(crate) struct Sample {
    pub(crate) traffic: Traffic,
    pub(crate) keys: KeyBuf,
}

/// Number of keys tried for each key wanted, if not every key qualifies.
const TRIES: usize = 8;
/// Minimum number of keys found; a sort with fewer is left out.
const FEWEST: usize = 16;

/// Returns `count` keys of each sort but [`Traffic::Unmatched`].
///
/// [`Traffic::Behind`] is left out if no rule is wide or too few keys are found behind the wide rules.
pub(crate) fn of_rules(set: &Lowered, wide: &[Wide], count: usize) -> Vec<Sample> {
    let mut draw = Draw::new(set, wide);
    let mut samples = vec![
        Sample { traffic: Traffic::Rules, keys: drawn(set, count) },
        Sample { traffic: Traffic::Edges, keys: draw.fill(count, |draw, at, row| draw.edge(at % 2 == 1, row)) },
    ];
    let behind = if wide.is_empty() { KeyBuf::new(set.schema()) } else { draw.all_behind(count) };
    if behind.len() >= FEWEST {
        samples.push(Sample { traffic: Traffic::Behind, keys: repeated(&behind, count) });
    }
    let uniform =
        draw.fill(count, |draw, _, row| (0..draw.key_words()).for_each(|word| row[word] = draw.present(word)));
    samples.push(Sample { traffic: Traffic::Uniform, keys: uniform });
    samples
}

/// Returns `count` keys that no rule holds, and the number of region visits made, counted as in the worst case.
///
/// `base` decides whether a rule holds a key. Its lookups make at most `visits` region visits. The sample is `None` if
/// too few keys are found.
pub(crate) fn unmatched(
    set: &Lowered,
    wide: &[Wide],
    base: &AnyBase,
    count: usize,
    visits: usize,
) -> (Option<Sample>, usize) {
    let tries = (TRIES * count).min(visits / base.visits());
    let mut draw = Draw::new(set, wide);
    let keys = draw.fill(tries, |draw, at, row| match at % 3 {
        0 => draw.behind(true, row),
        1 => draw.edge(true, row),
        _ => (0..draw.key_words()).for_each(|word| row[word] = draw.present(word)),
    });
    let found = matched(base, &keys);
    let mut missed = KeyBuf::new(set.schema());
    let misses = (0..keys.len()).filter(|&at| !found[at]).take(count);
    misses.for_each(|at| missed.push().copy_from_slice(keys.keys().row(at)));
    let sample = || Sample { traffic: Traffic::Unmatched, keys: repeated(&missed, count) };
    ((missed.len() >= FEWEST).then(sample), tries * base.visits())
}

/// Returns `count` keys in regions, each rule equally likely.
pub(crate) fn drawn(set: &Lowered, count: usize) -> KeyBuf {
    Draw::new(set, &[]).fill(count, |draw, _, row| draw.key(row))
}

/// Returns `count` keys by repeating `keys` in order.
fn repeated(keys: &KeyBuf, count: usize) -> KeyBuf {
    let mut all = KeyBuf::new(keys.schema());
    all.reserve(count);
    (0..count).for_each(|at| all.push().copy_from_slice(keys.keys().row(at % keys.len())));
    all
}

/// Generator of keys.
struct Draw<'a> {
    schema: &'a Schema,
    regions: &'a Regions,
    /// Index of the first region of each rule.
    firsts: Vec<u32>,
    wide: Vec<Region<'a>>,
    /// For each word: 0 and the values at which a wide region begins or has just ended, ascending.
    cuts: Vec<Vec<u32>>,
    random: Random,
}

impl<'a> Draw<'a> {
    fn new(set: &'a Lowered, wide: &[Wide]) -> Self {
        let (schema, regions) = (set.schema(), set.regions());
        let mut firsts = Vec::with_capacity(regions.len());
        // Fewer than 2^24 regions are ever lowered.
        firsts.extend(set.by_rule().map(|(_, regions)| regions.start as u32));
        let wide: Vec<Region<'_>> = wide.iter().map(|wide| regions.get(wide.region)).collect();
        let cuts_of = |word: usize| {
            let ends = wide.iter().flat_map(|region| [Some(region.lo[word]), region.hi[word].checked_add(1)]);
            let mut cuts: Vec<u32> = ends.flatten().filter(|&cut| cut <= largest(schema, word)).chain([0]).collect();
            cuts.sort_unstable();
            cuts.dedup();
            cuts
        };
        let cuts = (0..schema.words().len()).map(cuts_of).collect();
        Self { schema, regions, firsts, wide, cuts, random: Random(1) }
    }

    fn key_words(&self) -> usize {
        self.schema.words().len()
    }

    fn fill(&mut self, count: usize, mut key: impl FnMut(&mut Self, usize, &mut [u32])) -> KeyBuf {
        let mut keys = KeyBuf::new(self.schema);
        keys.reserve(count);
        (0..count).for_each(|at| key(self, at, keys.push()));
        keys
    }

    /// Draws a key in a region of a rule; half of the keys have each field at one of its ends.
    ///
    /// A field that the region leaves open is drawn from another rule's region or, as often, from all values, because
    /// the values that packets have there are not known.
    fn key(&mut self, row: &mut [u32]) {
        let [own, other] = [(); 2].map(|()| self.region());
        let is_corner = self.is_heads();
        for field in 0..self.schema.fields().len() {
            let other = self.is_heads().then_some(other);
            let region = [Some(own), other].into_iter().flatten().find(|region| self.says(region, field));
            let is_high = is_corner && self.is_heads();
            for word in self.schema.words_of(field) {
                row[word] = match region {
                    Some(region) if is_high => region.hi[word],
                    Some(region) if is_corner => region.lo[word],
                    Some(region) => self.random.between(region.lo[word], region.hi[word]),
                    None => self.present(word),
                };
                if let Some((value, mask)) = region.and_then(|region| region.ternary) {
                    row[word] = row[word] & !mask[word] | value[word];
                }
            }
        }
    }

    /// Draws a corner of a region; if `is_outside`, moves one word a step out if there is room.
    fn edge(&mut self, is_outside: bool, row: &mut [u32]) {
        let own = self.region();
        for word in 0..self.key_words() {
            row[word] = if self.is_heads() { own.lo[word] } else { own.hi[word] };
            if let Some((value, mask)) = own.ternary {
                row[word] = row[word] & !mask[word] | value[word];
            }
        }
        let word = self.random.below(self.key_words());
        let above = own.hi[word].checked_add(1).filter(|&above| above <= largest(self.schema, word));
        let beside = [own.lo[word].checked_sub(1), above].into_iter().flatten();
        let to = beside.filter(|_| is_outside).max_by_key(|_| self.random.next());
        row[word] = to.unwrap_or(row[word]);
    }

    /// Draws a key of a rule; if `is_moved`, tries to move it out of a wide region that holds it.
    ///
    /// Each field that the wide region constrains is drawn anew. Every stretch between the ends of wide regions is
    /// equally likely, so that keys fall into narrow gaps as well.
    ///
    /// For example, with one wide region over the values 10 to 19 of a word, the stretches are 0 to 9, 10 to 19 and the
    /// rest.
    fn behind(&mut self, is_moved: bool, row: &mut [u32]) {
        self.key(row);
        let wide = self.wide.iter().find(|wide| is_moved && wide.contains(&row[..self.schema.words().len()]));
        let Some(&wide) = wide else { return };
        for field in 0..self.schema.fields().len() {
            if self.says(&wide, field) {
                for word in self.schema.words_of(field) {
                    let at = self.random.below(self.cuts[word].len());
                    let end = self.cuts[word].get(at + 1).map_or(largest(self.schema, word), |next| next - 1);
                    row[word] = self.random.between(self.cuts[word][at], end);
                }
            }
        }
    }

    /// Draws up to `count` keys that no wide region holds.
    fn all_behind(&mut self, count: usize) -> KeyBuf {
        let mut keys = KeyBuf::new(self.schema);
        let mut row = vec![0; self.schema.stride()];
        for at in 0..TRIES * count {
            if keys.len() == count {
                break;
            }
            self.behind(at % 2 == 1, &mut row);
            if !self.wide.iter().any(|wide| wide.contains(&row[..self.key_words()])) {
                keys.push().copy_from_slice(&row);
            }
        }
        keys
    }

    /// Draws a region of any rule.
    fn region(&mut self) -> Region<'a> {
        let rule = self.random.below(self.firsts.len());
        let first = self.firsts[rule] as usize;
        let end = self.firsts.get(rule + 1).map_or(self.regions.len(), |&next| next as usize);
        self.regions.get(first + self.random.below(end - first))
    }

    /// Whether a region constrains a field.
    fn says(&self, region: &Region<'_>, field: usize) -> bool {
        self.schema.words_of(field).any(|word| {
            let is_ternary = region.ternary.is_some_and(|(_, mask)| mask[word] != 0);
            region.lo[word] > 0 || region.hi[word] < self.schema.words()[word].max || is_ternary
        })
    }

    /// Draws any value of a word but absence.
    fn present(&mut self, word: usize) -> u32 {
        self.random.next() as u32 & largest(self.schema, word)
    }

    fn is_heads(&mut self) -> bool {
        self.random.next() & 1 == 1
    }
}

/// Returns the largest value of a word but absence: all its bits.
fn largest(schema: &Schema, word: usize) -> u32 {
    let word = schema.words()[word];
    word.absent.map_or(word.max, |absent| absent - 1)
}

/// Number of keys in a batch.
const BATCH: usize = 256;

/// Returns for each key whether a rule holds it.
fn matched(base: &AnyBase, keys: &KeyBuf) -> Vec<bool> {
    let mut matched = Vec::with_capacity(keys.len());
    let mut scratch = Scratch::new(keys.schema());
    let mut best = [None::<Match>; BATCH];
    for from in (0..keys.len()).step_by(BATCH) {
        let keys = keys.keys().slice(from, keys.len().min(from + BATCH));
        let best = &mut best[..keys.len()];
        best.fill(None);
        base.improve(&mut scratch, &keys, best);
        matched.extend(best.iter().map(Option::is_some));
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Match;
    use crate::engine::base::Build;
    use crate::engine::budget::Visits;
    use crate::engines::registry::Kind;
    use crate::rule::{Priority, RuleId};

    /// Each sort has as many keys as asked for, and the sort behind wide rules is there if rules are wide.
    #[test]
    fn every_sort_has_as_many_keys_as_asked() {
        let port = |port: u32| ([0, 0, port, 0, 0], [u32::MAX, u32::MAX, port, 1 << 16, 255]);
        let mut set = Lowered::empty(&Schema::ipv4());
        for at in 0..40 {
            let rule = Match { rule: RuleId::new(at, 0), priority: Priority::of_line(at + 1) };
            let (lo, hi) = if at == 0 { ([0; 5], [u32::MAX, u32::MAX, 99, 1 << 16, 255]) } else { port(90 + at) };
            set.push(rule, Region { lo: &lo, hi: &hi, ternary: None });
        }
        let wide = [Wide { region: 0, is_most: true }];
        let (few, all) = (
            [Traffic::Rules, Traffic::Edges, Traffic::Uniform],
            [Traffic::Rules, Traffic::Edges, Traffic::Behind, Traffic::Uniform],
        );
        for (wide, expected) in [(&[][..], &few[..]), (&wide[..], &all[..])] {
            for count in [16, 100] {
                let samples = of_rules(&set, wide, count);
                assert!(samples.iter().map(|sample| sample.traffic).eq(expected.iter().copied()));
                assert!(samples.iter().all(|sample| sample.keys.len() == count), "{count} keys");
            }
        }
    }

    /// Each key of a batch gets its own answer.
    #[test]
    fn keys_are_matched_one_by_one() {
        let mut set = Lowered::empty(&Schema::ipv4());
        let rule = Match { rule: RuleId::new(0, 0), priority: Priority::of_line(1) };
        set.push(rule, Region { lo: &[0; 5], hi: &[300, 0, 0, 0, 0], ternary: None });
        let visits = Visits::default();
        let how =
            Build { run_bytes: usize::MAX, simd: None, seed: None, is_forced: false, visits: &visits, like: None };
        let base = Kind::Linear.build(&set, &how).expect("no budget");
        let mut keys = KeyBuf::new(set.schema());
        (0..1000).for_each(|at| keys.push()[0] = at);
        assert!(matched(&base, &keys).into_iter().eq((0..1000).map(|at| at <= 300)));
    }

    /// Two wide regions leave one source port between them, and every key behind them has it.
    #[test]
    fn narrow_gaps_between_wide_regions_are_met() {
        let mut set = Lowered::empty(&Schema::ipv4());
        for (at, [lo, hi]) in (0..).zip([[0, 99], [101, 1 << 16]]) {
            let rule = Match { rule: RuleId::new(at, 0), priority: Priority::of_line(at + 1) };
            let (lo, hi) = ([0, 0, lo, 0, 0], [u32::MAX, u32::MAX, hi, 1 << 16, 255]);
            set.push(rule, Region { lo: &lo, hi: &hi, ternary: None });
        }
        let wide = [0, 1].map(|region| Wide { region, is_most: true });
        let mut draw = Draw::new(&set, &wide);
        assert_eq!(draw.cuts, [vec![0], vec![0], vec![0, 100, 101], vec![0], vec![0]]);
        let keys = draw.all_behind(100);
        assert_eq!(keys.len(), 100);
        assert!((0..keys.len()).all(|at| keys.keys().row(at)[2] == 100));
    }
}
