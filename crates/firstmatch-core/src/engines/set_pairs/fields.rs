//! Roles of fields, and what candidates say about the fields that are no axes.

use std::collections::HashMap;

use super::cut::Room;
use super::{ALWAYS, Candidate, Fourth, MOST_VALUE, PRESENT, Residue, TestedSet, TestedValues, Third};
use crate::engines::shared::{Classes, FieldSet, FieldWords, Leaves};
use crate::error::BuildError;
use crate::rule::RuleProducts;
use crate::schema::Schema;

/// Number of values below which a field may have bits.
const FEW: u128 = 512;
/// Number of the bit that the rarest classes of the fourth field share.
const SHARED: usize = 7;
/// Largest number of bits of a row of the third field; sets beyond are residual tests.
const MOST_BITS: usize = 4096;

/// Values of a set of a field.
pub(super) enum Values {
    /// All of them, absent ones included.
    Open,
    Set(FieldSet),
    /// Values under masks, or boxes over several words.
    Boxes,
}

/// Field with all its sets by number.
pub(super) struct Sets {
    pub(super) words: FieldWords,
    pub(super) values: Vec<Values>,
    /// Number of intervals of all sets that are not open.
    closed: usize,
}

/// Fields by role.
pub(super) struct Roles {
    pub(super) axes: Vec<usize>,
    third: Option<usize>,
    fourth: Option<usize>,
}

/// Returns the sets of all fields.
pub(super) fn sets(schema: &Schema, products: &RuleProducts, room: &Room<'_>) -> Result<Vec<Sets>, BuildError> {
    let of = |(field, sets): (usize, &crate::rule::FieldSets)| {
        let words = FieldWords::new(schema, field);
        room.visits.add(sets.boxes().len());
        room.visits.check()?;
        let values = |number: u32| match words.set(sets.of(number)) {
            Some(set) if words.is_open(&set) => Values::Open,
            Some(set) => Values::Set(set),
            None => Values::Boxes,
        };
        let values: Vec<Values> = (0..sets.len() as u32).map(values).collect();
        let closed = |(values, number): (&Values, u32)| match values {
            Values::Open => 0,
            Values::Set(set) => set.intervals.len().max(1),
            Values::Boxes => sets.range(number).len(),
        };
        let closed = values.iter().zip(0..).map(closed).sum();
        Ok(Sets { words, values, closed })
    };
    products.sets().iter().enumerate().map(of).collect()
}

impl Roles {
    /// Chooses the fields with the most intervals; fields of many values first for the axes.
    pub(super) fn of(schema: &Schema, sets: &[Sets]) -> Self {
        let mut fields: Vec<usize> = (0..sets.len()).collect();
        let is_large = |field: usize, more_than: u128| sets[field].words.most() > more_than;
        let order =
            |field: usize, more_than: u128| (!is_large(field, more_than), usize::MAX - sets[field].closed, field);
        fields.sort_by_key(|&field| order(field, MOST_VALUE.into()));
        fields.sort_by_key(|&field| usize::from(sets[field].closed == 0));
        let mut rest = fields.split_off(2.min(fields.len()));
        rest.retain(|&field| sets[field].closed > 0 && sets[field].words.words().len() == 1);
        rest.sort_by_key(|&field| order(field, FEW));
        let is_third = |field: usize| {
            let word = &schema.words()[sets[field].words.words().start];
            word.max <= MOST_VALUE || word.absent == Some(MOST_VALUE + 1)
        };
        let third = rest.iter().copied().find(|&field| is_third(field));
        let fourth = rest.iter().copied().find(|&field| Some(field) != third && sets[field].words.most() < FEW);
        Self { axes: fields, third, fourth }
    }
}

/// What candidates say about all fields but their closed axes.
pub(super) struct Tests<'a> {
    products: &'a RuleProducts,
    sets: &'a [Sets],
    roles: &'a Roles,
    /// Interval and bit of the row for each set of the third field; `None` for a residual test.
    third: Vec<Option<(u16, u16, u16)>>,
    /// Bits for each set of the fourth field, and whether they say all.
    fourth: Vec<(u8, bool)>,
    residues: Classes,
    tested: HashMap<(usize, u32), u32>,
    tested_sets: Vec<TestedSet>,
}

impl<'a> Tests<'a> {
    pub(super) fn new(products: &'a RuleProducts, sets: &'a [Sets], roles: &'a Roles) -> Self {
        let (residues, tested, tested_sets) = (Classes::default(), HashMap::new(), Vec::new());
        Self { products, sets, roles, third: Vec::new(), fourth: Vec::new(), residues, tested, tested_sets }
    }

    /// Builds the third field, and returns the list of rules with open axes for each of its classes.
    ///
    /// `anywhere` are the products with open axes.
    pub(super) fn third(
        &mut self,
        schema: &Schema,
        anywhere: &[u32],
        room: &Room<'_>,
    ) -> Result<(Option<Third>, Vec<Vec<u32>>), BuildError> {
        let Some(field) = self.roles.third else { return Ok((None, vec![anywhere.to_vec()])) };
        let Sets { words, values, .. } = &self.sets[field];
        let word = &schema.words()[words.words().start];
        // Label of the values that are present, then of sets that are no interval, then of products.
        let present =
            FieldSet { intervals: [(0, u128::from(word.absent.map_or(word.max, |at| at - 1)))].into(), absent: false };
        let mut bits = vec![&present];
        for values in values {
            let said = match values {
                Values::Open => Some((0, MOST_VALUE as u16, ALWAYS)),
                Values::Boxes => None,
                Values::Set(set) => {
                    let (lo, hi) = hull(set);
                    match set.intervals[..] {
                        [_] if hi <= u128::from(MOST_VALUE) => {
                            let is_present = word.absent.is_none_or(|absent| hi < u128::from(absent));
                            Some((lo as u16, (hi - lo) as u16, if is_present { PRESENT } else { ALWAYS }))
                        }
                        _ if bits.len() + 1 >= MOST_BITS => None,
                        _ => {
                            bits.push(set);
                            let bit = bits.len() as u16;
                            let is_small = hi <= u128::from(MOST_VALUE);
                            Some(if is_small {
                                (lo as u16, (hi - lo) as u16, bit)
                            } else {
                                (0, MOST_VALUE as u16, bit)
                            })
                        }
                    }
                }
            };
            self.third.push(said);
        }
        let width = (bits.len() + 1).div_ceil(32);
        let (mut labelled, mut always) = (Vec::new(), Vec::new());
        for (label, &set) in (1..).zip(&bits) {
            labelled.push((label, set));
        }
        let first = labelled.len() as u32 + 1;
        for &product in anywhere {
            match &values[self.number(product, field) as usize] {
                Values::Set(set) => labelled.push((first + product, set)),
                Values::Open | Values::Boxes => always.push(product),
            }
        }
        let cut = room.cut(words, &labelled, |_| 0)?;
        let (mut rows, mut lists) = (Vec::new(), Vec::new());
        for class in 0..cut.rows.len() {
            let mut row = vec![0u32; width];
            let (labels, mut list) = (cut.rows.row(class).iter().map(|&label| label >> 2), always.clone());
            row[0] = 1 << ALWAYS;
            for label in labels {
                match label.checked_sub(first) {
                    Some(product) => list.push(product),
                    None => row[label as usize / 32] |= 1 << (label % 32),
                }
            }
            list.sort_unstable();
            room.take((width + list.len() + 8) * size_of::<u32>())?;
            rows.extend(row);
            lists.push(list);
        }
        let leaves = Leaves::new(schema, field, &cut.starts, &cut.numbers, cut.absent);
        Ok((Some(Third { word: words.words().start, leaves, width, rows: rows.into() }), lists))
    }

    /// Builds the fourth field.
    pub(super) fn fourth(&mut self, room: &Room<'_>) -> Result<Option<Fourth>, BuildError> {
        let Some(field) = self.roles.fourth else { return Ok(None) };
        let Sets { words, values, .. } = &self.sets[field];
        let mut uses = vec![0usize; values.len()];
        (0..self.products.len() as u32).for_each(|product| uses[self.number(product, field) as usize] += 1);
        let of = |(number, values): (u32, &'a Values)| match values {
            Values::Set(set) => Some((number, set)),
            Values::Open | Values::Boxes => None,
        };
        let labelled: Vec<(u32, &FieldSet)> = (0..).zip(values).filter_map(of).collect();
        let cut = room.cut(words, &labelled, |_| 0)?;
        let numbers = |class: usize| cut.rows.row(class).iter().map(|&label| (label >> 2) as usize);
        // Classes that many rules ask for have bits of their own.
        let mut order: Vec<usize> = (0..cut.rows.len()).collect();
        order.sort_by_key(|&class| (usize::MAX - numbers(class).map(|number| uses[number]).sum::<usize>(), class));
        let mut bit_of = vec![0; order.len()];
        (0..).zip(&order).for_each(|(bit, &class)| bit_of[class] = SHARED.min(bit));
        let said = |number: usize, values: &Values| match values {
            Values::Open => (u8::MAX, true),
            Values::Boxes => (u8::MAX, false),
            Values::Set(_) => {
                let holds: Vec<bool> = (0..cut.rows.len()).map(|class| numbers(class).any(|of| of == number)).collect();
                let bits =
                    (0..holds.len()).filter(|&class| holds[class]).fold(0, |bits, class| bits | 1 << bit_of[class]);
                let mut shared = (0..holds.len()).filter(|&class| bit_of[class] == SHARED).map(|class| holds[class]);
                let first = shared.next();
                (bits, shared.all(|holds| Some(holds) == first))
            }
        };
        self.fourth = values.iter().enumerate().map(|(number, values)| said(number, values)).collect();
        let ends = cut.starts[1..].iter().copied().chain([words.most() + 1]);
        let mut bits = Vec::with_capacity(words.most() as usize + 1);
        ends.zip(&cut.numbers).for_each(|(end, &class)| bits.resize(end as usize, 1 << bit_of[class as usize]));
        Ok(Some(Fourth { word: words.words().start, bits: bits.into() }))
    }

    /// Returns the number of the set that a product has in a field.
    fn number(&self, product: u32, field: usize) -> u32 {
        self.products.number(product as usize, field)
    }

    /// Returns the candidate of a product of the rule with this rank. `is_decided` says which axes are closed.
    pub(super) fn candidate(
        &mut self,
        product: u32,
        rank: u32,
        is_decided: [bool; 2],
        room: &Room<'_>,
    ) -> Result<Candidate, BuildError> {
        let mut candidate =
            Candidate { rank, residue: 0, first: 0, span: MOST_VALUE as u16, row_bit: ALWAYS, bits: u8::MAX };
        let mut tests = Vec::new();
        for field in 0..self.sets.len() {
            let number = self.number(product, field);
            let mut is_left = !matches!(self.sets[field].values[number as usize], Values::Open);
            if let Some(axis) = self.roles.axes.iter().position(|&axis| axis == field) {
                is_left &= !is_decided[axis];
            } else if self.roles.third == Some(field) {
                if let Some((first, span, row_bit)) = self.third[number as usize] {
                    (candidate.first, candidate.span, candidate.row_bit) = (first, span, row_bit);
                    is_left = false;
                }
            } else if self.roles.fourth == Some(field) {
                let (bits, says_all) = self.fourth[number as usize];
                candidate.bits = bits;
                is_left &= !says_all;
            }
            if is_left {
                tests.push(self.tested(field, number, room)?);
            }
        }
        if !tests.is_empty() {
            candidate.residue = room.intern(&mut self.residues, &tests)? + 1;
        }
        Ok(candidate)
    }

    /// Returns the number of a set that is tested.
    fn tested(&mut self, field: usize, number: u32, room: &Room<'_>) -> Result<u32, BuildError> {
        if let Some(&known) = self.tested.get(&(field, number)) {
            return Ok(known);
        }
        let Sets { words, values, .. } = &self.sets[field];
        let values = match &values[number as usize] {
            Values::Set(set) => {
                room.take(set.intervals.len() * 32)?;
                TestedValues::Set(set.clone())
            }
            Values::Open | Values::Boxes => {
                let sets = &self.products.sets()[field];
                room.take(sets.range(number).len() * sets.boxes().key_words() * 16)?;
                let of_word = |of: crate::rule::Region<'_>, at: usize| {
                    let (value, mask) = of.ternary.map_or((0, 0), |(value, mask)| (value[at], mask[at]));
                    [of.lo[at], of.hi[at], value, mask]
                };
                let boxes = sets.of(number).flat_map(|of| (0..of.lo.len()).map(move |at| of_word(of, at)));
                TestedValues::Boxes(boxes.collect())
            }
        };
        room.take(size_of::<TestedSet>() + words.bytes() + 32)?;
        let known = self.tested_sets.len() as u32;
        self.tested_sets.push(TestedSet { words: words.clone(), values });
        self.tested.insert((field, number), known);
        Ok(known)
    }

    /// Returns the residual tests, and the largest number of lines that those of one candidate read.
    pub(super) fn residue(self) -> (Residue, usize) {
        let rows = (0..self.residues.len()).map(|row| self.residues.row(row));
        let mut firsts = vec![0, 0];
        for row in rows.clone() {
            firsts.push(firsts[firsts.len() - 1] + row.len() as u32);
        }
        let lines = |&set: &u32| match &self.tested_sets[set as usize].values {
            TestedValues::Set(set) => 2 + set.intervals.len().max(1).ilog2() as usize,
            TestedValues::Boxes(boxes) => 2 + boxes.len() / 4,
        };
        let most = rows.clone().map(|row| row.iter().map(lines).sum::<usize>() + 2).max().unwrap_or(0);
        if most == 0 {
            return (Residue { sets: Box::default(), firsts: Box::default(), tests: Box::default() }, 0);
        }
        let tests = rows.flatten().copied().collect();
        (Residue { sets: self.tested_sets.into(), firsts: firsts.into(), tests }, most)
    }
}

/// Returns the smallest and the largest value of a set; a set without values has the value 0.
fn hull(set: &FieldSet) -> (u128, u128) {
    match (set.intervals.first(), set.intervals.last()) {
        (Some(first), Some(last)) => (first.0, last.1),
        _ => (0, 0),
    }
}

impl TestedSet {
    /// Whether a key's value lies in the set.
    #[inline]
    pub(super) fn holds(&self, key: &[u32]) -> bool {
        match &self.values {
            TestedValues::Set(set) => set.contains(self.words.value(key)),
            TestedValues::Boxes(boxes) => {
                let words = &key[self.words.words()];
                boxes.chunks_exact(words.len()).any(|of| {
                    of.iter()
                        .zip(words)
                        .all(|(&[lo, hi, value, mask], &word)| (lo..=hi).contains(&word) && word & mask == value)
                })
            }
        }
    }
}
