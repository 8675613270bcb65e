//! Arrays of Arrow in every layout, made by hand, with rows before them and values under nulls that mean nothing.

use std::ffi::{CString, c_char, c_void};
use std::ptr::{null, null_mut};

use firstmatch_capi::{ArrowArray, ArrowSchema};
use firstmatch_testkit::rng::Rng;

/// Value of a row, in each form that columns have.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub(crate) number: u128,
    pub(crate) bytes: Vec<u8>,
    pub(crate) text: String,
}

/// Array with its type and its memory.
pub(crate) struct Made {
    pub(crate) schema: Box<ArrowSchema>,
    pub(crate) array: Box<ArrowArray>,
    pub(crate) buffers: Vec<Buffer>,
    pub(crate) dictionary: Option<Box<Made>>,
    children: Vec<Made>,
    _texts: [CString; 2],
    pointers: Vec<*const c_void>,
    schemas: Vec<*mut ArrowSchema>,
    arrays: Vec<*mut ArrowArray>,
}

/// Bytes that begin at any byte.
#[derive(Clone, Debug, Default)]
pub(crate) struct Buffer {
    memory: Vec<u8>,
    shift: usize,
}

impl Buffer {
    fn new(bytes: &[u8], shift: usize) -> Self {
        Self { memory: [&vec![0; shift], bytes].concat(), shift }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.shift..]
    }
}

unsafe extern "C" fn release_schema(_: *mut ArrowSchema) {}
unsafe extern "C" fn release_array(_: *mut ArrowArray) {}

impl Made {
    fn new(name: &str, format: &str, rows: usize, offset: usize, buffers: Vec<Buffer>) -> Self {
        let texts = [format, name].map(|text| CString::new(text).expect("no NUL"));
        let [format, name] = texts.each_ref().map(|text| text.as_ptr().cast::<c_char>());
        let schema = Box::new(ArrowSchema {
            format,
            name,
            metadata: null(),
            flags: 0,
            n_children: 0,
            children: null_mut(),
            dictionary: null_mut(),
            release: Some(release_schema),
            private_data: null_mut(),
        });
        let array = Box::new(ArrowArray {
            length: rows as i64,
            null_count: -1,
            offset: offset as i64,
            n_buffers: 0,
            n_children: 0,
            buffers: null_mut(),
            children: null_mut(),
            dictionary: null_mut(),
            release: Some(release_array),
            private_data: null_mut(),
        });
        let (children, pointers, schemas, arrays) = Default::default();
        let mut made =
            Self { schema, array, buffers, dictionary: None, children, _texts: texts, pointers, schemas, arrays };
        made.point();
        made
    }

    /// Sets the pointers of the structs anew, after buffers, dictionary or children were changed.
    pub(crate) fn point(&mut self) {
        let pointer = |buffer: &Buffer| match buffer.memory.is_empty() {
            true => null(),
            false => buffer.memory[buffer.shift..].as_ptr().cast(),
        };
        self.pointers = self.buffers.iter().map(pointer).collect();
        self.array.n_buffers = self.pointers.len() as i64;
        self.array.buffers = self.pointers.as_mut_ptr();
        if let Some(made) = &mut self.dictionary {
            (self.schema.dictionary, self.array.dictionary) = (&raw mut *made.schema, &raw mut *made.array);
        }
        self.schemas = self.children.iter_mut().map(|made| &raw mut *made.schema).collect();
        self.arrays = self.children.iter_mut().map(|made| &raw mut *made.array).collect();
        self.schema.n_children = self.schemas.len() as i64;
        self.array.n_children = self.arrays.len() as i64;
        self.schema.children = self.schemas.as_mut_ptr();
        self.array.children = self.arrays.as_mut_ptr();
    }

    pub(crate) fn child(&mut self, name: &str) -> &mut Self {
        let is_named = |made: &Self| made._texts[1].to_str() == Ok(name);
        self.children.iter_mut().find(|made| is_named(made)).expect("a column of this name")
    }
}

/// Returns a bitmap behind `offset` random bits; empty if every row has a value.
fn bitmap(rows: impl Iterator<Item = bool> + Clone, offset: usize, rng: &mut Rng) -> Buffer {
    if rows.clone().all(|has| has) {
        return Buffer::default();
    }
    let bits: Vec<bool> = (0..offset).map(|_| rng.percent(50)).chain(rows).collect();
    let byte = |bits: &[bool]| bits.iter().rev().fold(0, |byte, &bit| byte << 1 | u8::from(bit));
    Buffer::new(&bits.chunks(8).map(byte).collect::<Vec<_>>(), rng.below(2))
}

/// Returns the offsets of byte strings, each of `width` bytes, and the bytes.
fn strings(values: &[Vec<u8>], width: usize) -> [Vec<u8>; 2] {
    let ends = values.iter().scan(3u64, |end, value| {
        *end += value.len() as u64;
        Some(*end)
    });
    let offsets = std::iter::once(3).chain(ends).flat_map(|end| end.to_ne_bytes()[..width].to_vec());
    [offsets.collect(), [b"abc".to_vec(), values.concat()].concat()]
}

/// Returns views, two buffers of bytes and their sizes.
fn views(values: &[Vec<u8>]) -> [Vec<u8>; 4] {
    let (mut views, mut bytes) = (Vec::new(), [b"ab".to_vec(), Vec::new()]);
    for (row, value) in values.iter().enumerate() {
        let mut view = [0xEE; 16];
        view[..4].copy_from_slice(&(value.len() as u32).to_ne_bytes());
        if value.len() <= 12 {
            view[4..4 + value.len()].copy_from_slice(value);
        } else {
            view[8..12].copy_from_slice(&(row as u32 % 2).to_ne_bytes());
            view[12..].copy_from_slice(&(bytes[row % 2].len() as u32).to_ne_bytes());
            bytes[row % 2].extend(value);
        }
        views.extend(view);
    }
    let sizes = bytes.each_ref().map(|bytes| (bytes.len() as i64).to_ne_bytes()).concat();
    let [one, two] = bytes;
    [views, one, two, sizes]
}

/// Number of bytes of an integer of a format.
fn width_of(format: &str) -> Option<usize> {
    Some(match format {
        "C" | "c" => 1,
        "S" | "s" => 2,
        "I" | "i" => 4,
        "L" | "l" => 8,
        _ => return None,
    })
}

/// Returns a column of a layout: a format of Arrow, or those of indices and values of a dictionary with `>` between.
///
/// There are `offset` rows before those asked for.
pub(crate) fn column(name: &str, layout: &str, values: &[Option<Value>], offset: usize, rng: &mut Rng) -> Made {
    let garbage = |rng: &mut Rng| Value { number: rng.bits(128), bytes: vec![7; rng.below(20)], text: "?".into() };
    if let Some((indices, inner)) = layout.split_once('>') {
        // The dictionary has values that no row uses, and perhaps one that is null.
        let mut known: Vec<Option<Value>> = vec![Some(garbage(rng)), None];
        let mut index = |value: &Option<Value>| match (value, rng.percent(50)) {
            (None, true) => None,
            _ => Some(known.iter().position(|known| known == value).unwrap_or_else(|| {
                known.push(value.clone());
                known.len() - 1
            })),
        };
        let at: Vec<Option<usize>> = values.iter().map(&mut index).collect();
        let number = |index: usize| Value { number: index as u128, bytes: Vec::new(), text: String::new() };
        let at: Vec<_> = at.into_iter().map(|index| index.map(number)).collect();
        let mut made = column(name, indices, &at, offset, rng);
        let own = rng.below(10);
        made.dictionary = Some(Box::new(column("", inner, &known, own, rng)));
        made.point();
        return made;
    }
    let validity = bitmap(values.iter().map(Option::is_some), offset, rng);
    let before = vec![None; offset];
    let mut all = Vec::new();
    for value in before.iter().chain(values) {
        all.push(value.clone().unwrap_or_else(|| garbage(rng)));
    }
    let of = |as_text: bool| -> Vec<Vec<u8>> {
        all.iter().map(|value| if as_text { value.text.clone().into() } else { value.bytes.clone() }).collect()
    };
    let parts = match layout {
        "u" | "z" => strings(&of(layout == "u"), 4).to_vec(),
        "U" | "Z" => strings(&of(layout == "U"), 8).to_vec(),
        "vu" | "vz" => views(&of(layout == "vu")).to_vec(),
        _ => match (width_of(layout), layout.strip_prefix("w:")) {
            (Some(width), _) => {
                vec![all.iter().flat_map(|value| value.number.to_le_bytes()[..width].to_vec()).collect()]
            }
            (_, Some(width)) => {
                let width: usize = width.parse().expect("a width");
                vec![all.iter().flat_map(|value| value.number.to_be_bytes()[16 - width..].to_vec()).collect()]
            }
            _ => panic!("no layout {layout}"),
        },
    };
    let buffers = parts.iter().map(|part| Buffer::new(part, rng.below(4)));
    let buffers = std::iter::once(validity).chain(buffers).collect();
    Made::new(name, layout, values.len(), offset, buffers)
}

/// Returns a struct of columns, of which the rows from `offset` on are asked for, as far as `present` goes.
pub(crate) fn structure(mut columns: Vec<Made>, present: &[bool], offset: usize, rng: &mut Rng) -> Made {
    for column in &mut columns {
        // Their rows before those of the struct are rows of theirs.
        column.array.offset -= offset as i64;
        column.array.length += offset as i64;
    }
    let validity = bitmap(present.iter().copied(), offset, rng);
    let mut made = Made::new("", "+s", present.len(), offset, vec![validity]);
    made.children = columns;
    made.point();
    made
}
