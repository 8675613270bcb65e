//! Lists of candidates: of classes and of pairs, each stored once.

use std::collections::HashMap;

use super::cut::Room;
use super::{Candidate, LONG, MOST_CANDIDATES, NONE, OpenList};
use crate::engines::shared::Classes;
use crate::error::BuildError;
use crate::raw::Line;

/// Number of open rules of a line.
const TWELVE: usize = 12;
/// Number of candidates behind the last list, so that eight can be named from any place on.
const PADDING: usize = 8;
/// Candidate that no key passes, and that ends a list.
const END: Candidate = Candidate { rank: NONE, residue: 0, first: 0, span: 0, row_bit: 0, bits: 0 };

/// Lists in the making.
pub(super) struct Lists<'a> {
    /// Candidate of each product.
    each: &'a [Candidate],
    room: &'a Room<'a>,
    /// Lists of products that were laid out, and the place of each.
    open: Classes,
    open_places: Vec<OpenList>,
    lengths: HashMap<u32, usize>,
    closed: Classes,
    closed_places: Vec<u32>,
    lines: Vec<Line>,
    candidates: Vec<Candidate>,
}

impl<'a> Lists<'a> {
    pub(super) fn new(each: &'a [Candidate], room: &'a Room<'a>) -> Self {
        Self {
            each,
            room,
            open: Classes::default(),
            open_places: Vec::new(),
            lengths: HashMap::new(),
            closed: Classes::default(),
            closed_places: Vec::new(),
            lines: Vec::new(),
            candidates: Vec::new(),
        }
    }

    pub(super) fn room(&self) -> &'a Room<'a> {
        self.room
    }

    /// Returns the place of a list of open rules, by product and in order.
    pub(super) fn open(&mut self, list: &[u32]) -> Result<OpenList, BuildError> {
        let number = self.room.intern(&mut self.open, list)? as usize;
        if let Some(&known) = self.open_places.get(number) {
            return Ok(known);
        }
        let first = self.append(list)?;
        let place = OpenList { first: self.lines.len() as u32, lines: list.len().div_ceil(TWELVE) as u32 };
        self.room.take(place.lines as usize * size_of::<Line>() + 48)?;
        for (at, twelve) in list.chunks(TWELVE).enumerate() {
            let mut line = Line::default();
            for (at, &product) in twelve.iter().enumerate() {
                let Candidate { first, span, bits, .. } = self.each[product as usize];
                line.0[at / 2] |= u32::from(first) << (at % 2 * 16);
                line.0[6 + at / 2] |= u32::from(span) << (at % 2 * 16);
                line.0[12 + at / 4] |= u32::from(bits) << (at % 4 * 8);
            }
            line.0[15] = first + (at * TWELVE) as u32;
            self.lines.push(line);
        }
        if place.lines > 0 {
            self.lengths.insert(place.first, list.len());
        }
        self.open_places.push(place);
        Ok(place)
    }

    /// Number of candidates of a list of open rules.
    pub(super) fn length(&self, list: OpenList) -> usize {
        if list.lines == 0 { 0 } else { self.lengths[&list.first] }
    }

    /// Returns the first candidate of a list of a pair, by product and in order.
    pub(super) fn closed(&mut self, list: &[u32]) -> Result<u32, BuildError> {
        let number = self.room.intern(&mut self.closed, list)? as usize;
        if let Some(&known) = self.closed_places.get(number) {
            return Ok(known);
        }
        let first = self.append(list)?;
        if list.len() >= LONG as usize {
            self.candidates.push(END);
        }
        self.closed_places.push(first);
        Ok(first)
    }

    /// Appends the candidates of a list and returns the place of the first.
    fn append(&mut self, list: &[u32]) -> Result<u32, BuildError> {
        let first = self.candidates.len();
        let end = first + list.len() + 1 + PADDING;
        if end > MOST_CANDIDATES {
            return Err(BuildError::own_limit(end * size_of::<Candidate>(), MOST_CANDIDATES * size_of::<Candidate>()));
        }
        self.room.take((list.len() + 1) * size_of::<Candidate>())?;
        self.candidates.extend(list.iter().map(|&product| self.each[product as usize]));
        Ok(first as u32)
    }

    /// Returns the lines of open rules, and all candidates.
    pub(super) fn end(mut self) -> (Box<[Line]>, Box<[Candidate]>) {
        if !self.candidates.is_empty() {
            self.candidates.extend([END; PADDING]);
        }
        (self.lines.into(), self.candidates.into())
    }
}
