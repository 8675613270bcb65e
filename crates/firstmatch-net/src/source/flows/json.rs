//! Flow logs in JSON: Suricata, Zeek, GCP and Azure.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::super::cells::Cell;
use super::super::lines::Fault;
use super::columns::{FlowField, Named, paths};
use super::row::RowValues;
use super::{FlowFormat, RowKind, values};

/// Key of the arrays that hold the flows of Azure.
const TUPLES: &str = "flowTuples";
/// Key of an object whose keys count as those around it.
const TRANSPARENT: &str = "jsonPayload";

/// Reader of the rows of one file: a row an object, or in Azure a row a tuple in an object.
pub(super) struct Json {
    format: FlowFormat,
    /// Names in their order, of all columns; a log in JSON has no such order.
    has_order: bool,
    paths: Vec<Box<str>>,
    wanted: Vec<(FlowField, usize)>,
    /// Pairs of names for one part: the second counts only where the first is not there.
    instead: Vec<(usize, usize)>,
    /// Place of each value in the object.
    places: Vec<Option<Place>>,
    /// Places of the tuples of an object, of which the first `taken` were read.
    tuples: Vec<Place>,
    taken: usize,
    /// Places of the parts of a tuple.
    parts: Vec<Place>,
}

/// Offset in the object and length in bytes.
type Place = (usize, usize);

impl Json {
    pub(super) fn new(format: FlowFormat, named: &Named) -> Self {
        let all = paths(format, named);
        let wanted: Vec<(FlowField, usize)> = all.iter().map(|(field, _)| *field).zip(0..).collect();
        let pairs = wanted.iter().flat_map(|&(field, index)| {
            let earlier = wanted.iter().filter(move |&&(other, before)| other == field && before < index);
            earlier.map(move |&(_, before)| (before, index))
        });
        let (instead, places) = (pairs.collect(), vec![None; wanted.len()]);
        let (tuples, parts) = (Vec::new(), Vec::new());
        let paths = all.into_iter().map(|(_, path)| path).collect();
        Self { format, has_order: !named.order.is_empty(), paths, wanted, instead, places, tuples, taken: 0, parts }
    }

    /// Whether the options suit the format, so that a fault is one of a row.
    pub(super) fn has_columns(&self) -> bool {
        !self.has_order
    }

    /// Whether the object read last has tuples that were not read.
    pub(super) fn is_midway(&self) -> bool {
        self.taken < self.tuples.len()
    }

    /// Reads an object, or the next tuple of the object read last, into `row`.
    pub(super) fn read(&mut self, object: &[u8], row: &mut RowValues) -> Result<RowKind, Fault> {
        if self.has_order {
            let message = "the columns of JSON have no order".to_owned();
            return Err(Fault::new(0, 0, message, Some("--columns PART=NAME")));
        }
        if self.format == FlowFormat::Azure {
            if !self.is_midway() {
                (self.taken, self.tuples) = (0, Vec::new());
                let mut tuples = Vec::new();
                parse(object, Tuples { object, tuples: &mut tuples, is_wanted: false })?;
                self.tuples = tuples;
            }
            return self.next_tuple(object, row);
        }
        self.places.fill(None);
        let (paths, places, prefix) = (&self.paths, &mut self.places, String::new());
        parse(object, Walk { object, paths, places, prefix })?;
        for &(first, second) in &self.instead {
            if self.places[first].is_some() {
                self.places[second] = None;
            }
        }
        let get = |index: usize| self.places.get(index).copied().flatten().map(|place| cell(object, place));
        values::read(self.format, &self.wanted, get, row)
    }

    fn next_tuple(&mut self, object: &[u8], row: &mut RowValues) -> Result<RowKind, Fault> {
        let Some(&place) = self.tuples.get(self.taken) else { return Ok(RowKind::None) };
        self.taken += 1;
        let tuple = cell(object, place);
        let (mut start, quote) = (place.0 + 1, place.0 + place.1 - 1);
        self.parts.clear();
        for part in tuple.bytes.split(|&byte| byte == b',') {
            self.parts.push((start, part.len()));
            start += part.len() + 1;
        }
        debug_assert!(start == quote + 1);
        let get = |index: usize| {
            let &(start, len) = self.parts.get(index)?;
            Some(Cell::new(start, object.get(start..start + len)?))
        };
        values::azure(self.parts.len(), get, &tuple, row)
    }
}

/// Returns the value at a place: a text without its quotes, nothing for `null`, and other values as they stand.
fn cell(object: &[u8], (start, len): Place) -> Cell<'_> {
    match object.get(start..start + len).unwrap_or_default() {
        [b'"', text @ .., b'"'] => Cell::new(start + 1, text),
        b"null" => Cell::new(start, b""),
        other => Cell::new(start, other),
    }
}

/// Parses one object with a visitor of its parts.
fn parse<'de>(object: &'de [u8], seed: impl DeserializeSeed<'de>) -> Result<(), Fault> {
    let mut parser = serde_json::Deserializer::from_slice(object);
    let parsed = seed.deserialize(&mut parser).map(|_| ()).and_then(|()| parser.end());
    parsed.map_err(|error| {
        let lines = object.split(|&byte| byte == b'\n');
        let before: usize = lines.take(error.line().saturating_sub(1)).map(|line| line.len() + 1).sum();
        let at = (before + error.column().saturating_sub(1)).min(object.len());
        let text = error.to_string();
        let what = text.rsplit_once(" at line ").map_or(&*text, |(what, _)| what);
        Fault::new(at, usize::from(at < object.len()), format!("this is no JSON of a flow: {what}"), None)
    })
}

/// Returns the place in `object` of a part of it.
fn place_in(object: &[u8], part: &str) -> Place {
    (part.as_ptr() as usize - object.as_ptr() as usize, part.len())
}

/// Visitor that notes the places of the values with wanted paths.
struct Walk<'w, 'de> {
    object: &'de [u8],
    paths: &'w [Box<str>],
    places: &'w mut [Option<Place>],
    /// Path of the object, with a dot behind it.
    prefix: String,
}

impl<'de> DeserializeSeed<'de> for Walk<'_, 'de> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key_seed(Key::default())? {
            let len = self.prefix.len();
            self.prefix.push_str(&key);
            let wanted = self.paths.iter().position(|path| **path == *self.prefix);
            if let Some(index) = wanted {
                let value: &'de RawValue = map.next_value()?;
                if self.places[index].replace(place_in(self.object, value.get())).is_some() {
                    return Err(A::Error::custom(format!("{key} stands twice")));
                }
            } else if key == TRANSPARENT || self.is_above_a_path() {
                let keeps = if key == TRANSPARENT { len } else { self.prefix.len() };
                let mut prefix = self.prefix[..keeps].to_owned();
                if keeps > len {
                    prefix.push('.');
                }
                map.next_value_seed(Walk { object: self.object, paths: self.paths, places: self.places, prefix })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
            self.prefix.truncate(len);
        }
        Ok(())
    }
}

impl Walk<'_, '_> {
    /// Whether a wanted value is inside the value of the path at hand.
    fn is_above_a_path(&self) -> bool {
        let is_inside = |path: &str| path.strip_prefix(&*self.prefix).is_some_and(|rest| rest.starts_with('.'));
        self.paths.iter().any(|path| is_inside(path))
    }
}

/// Key of an object, which is borrowed unless it has escapes.
#[derive(Default)]
struct Key<'de>(Cow<'de, str>);

impl<'de> DeserializeSeed<'de> for Key<'de> {
    type Value = Self;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key<'de> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self, E> {
        Ok(Self(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self, E> {
        Ok(Self(Cow::Owned(text.to_owned())))
    }
}

/// Visitor that notes the places of the tuples of Azure, in any depth.
struct Tuples<'t, 'de> {
    object: &'de [u8],
    tuples: &'t mut Vec<Place>,
    /// Whether texts are tuples.
    is_wanted: bool,
}

impl<'de> DeserializeSeed<'de> for Tuples<'_, 'de> {
    type Value = ();

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tuples<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_wanted { "a flow as text" } else { "JSON" })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(Key(key)) = map.next_key_seed(Key::default())? {
            let is_wanted = key == TUPLES;
            map.next_value_seed(Tuples { object: self.object, tuples: &mut *self.tuples, is_wanted })?;
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        let is_wanted = self.is_wanted;
        while seq.next_element_seed(Tuples { object: self.object, tuples: &mut *self.tuples, is_wanted })?.is_some() {}
        Ok(())
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<(), E> {
        if self.is_wanted {
            let (start, len) = place_in(self.object, text);
            // With its quotes, as other values have them.
            self.tuples.push((start - 1, len + 2));
        }
        Ok(())
    }

    fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<(), E> {
        if self.is_wanted { Err(E::custom("a flow with an escape")) } else { Ok(()) }
    }

    fn visit_bool<E: serde::de::Error>(self, _: bool) -> Result<(), E> {
        self.other()
    }

    fn visit_i64<E: serde::de::Error>(self, _: i64) -> Result<(), E> {
        self.other()
    }

    fn visit_u64<E: serde::de::Error>(self, _: u64) -> Result<(), E> {
        self.other()
    }

    fn visit_f64<E: serde::de::Error>(self, _: f64) -> Result<(), E> {
        self.other()
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.other()
    }
}

impl Tuples<'_, '_> {
    /// Takes a value that is no text.
    fn other<E: serde::de::Error>(self) -> Result<(), E> {
        if self.is_wanted { Err(E::custom("a flow that is no text")) } else { Ok(()) }
    }
}
