//! Decisions as an Arrow array that the caller releases, on any thread and after the worker is gone.

use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};

use super::abi::{ArrowArray, ArrowSchema};
use crate::status::{Failure, Status};
use crate::worker::Decision;

/// Arrow's flag for a column that may have nulls.
const NULLABLE: i64 = 2;

/// Columns of the result: name, format and flags.
const COLUMNS: [(&CStr, &CStr, i64); 6] = [
    (c"verdict", c"C", 0),
    (c"mark", c"I", 0),
    (c"rule", c"L", NULLABLE),
    (c"line", c"I", NULLABLE),
    (c"outcome", c"C", 0),
    (c"value", c"L", 0),
];

/// Decisions by column.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    verdict: Vec<u8>,
    mark: Vec<u32>,
    rule: Vec<u64>,
    line: Vec<u32>,
    outcome: Vec<u8>,
    value: Vec<u64>,
}

impl Columns {
    /// Returns columns with room for `rows` decisions.
    pub(crate) fn with_room(rows: usize) -> Result<Self, Failure> {
        let mut columns = Self::default();
        let Self { verdict, mark, rule, line, outcome, value } = &mut columns;
        let room = verdict
            .try_reserve_exact(rows)
            .and_then(|()| mark.try_reserve_exact(rows))
            .and_then(|()| rule.try_reserve_exact(rows))
            .and_then(|()| line.try_reserve_exact(rows))
            .and_then(|()| outcome.try_reserve_exact(rows))
            .and_then(|()| value.try_reserve_exact(rows));
        room.map_err(|_| Failure::new(Status::NoMemory, format!("there is no memory for {rows} decisions")))?;
        Ok(columns)
    }

    /// Adds `rows` rows, whose decisions [`Columns::set`] takes.
    pub(crate) fn grow(&mut self, rows: usize) {
        let rows = self.verdict.len() + rows;
        self.verdict.resize(rows, 0);
        self.mark.resize(rows, 0);
        self.rule.resize(rows, 0);
        self.line.resize(rows, 0);
        self.outcome.resize(rows, 0);
        self.value.resize(rows, 0);
    }

    /// Sets the decision of a row.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub(crate) fn set(&mut self, row: usize, decision: Decision) {
        self.verdict[row] = decision.verdict as u8;
        self.mark[row] = decision.mark;
        self.rule[row] = decision.rule;
        self.line[row] = decision.line;
        self.outcome[row] = decision.outcome as u8;
        self.value[row] = decision.value;
    }

    /// Returns the array, whose memory belongs to its `release`.
    pub(crate) fn into_array(self) -> ArrowArray {
        let rows = self.verdict.len();
        let rule_bits = bits(&self.rule);
        let line_bits = bits(&self.line);
        let children = [
            child(rows, None, self.verdict),
            child(rows, None, self.mark),
            child(rows, Some(rule_bits), self.rule),
            child(rows, Some(line_bits), self.line),
            child(rows, None, self.outcome),
            child(rows, None, self.value),
        ];
        let children = children.map(|child| Box::into_raw(Box::new(child))).into();
        array(rows, 0, Owned { buffers: [null()].into(), children, _memory: Vec::new() })
    }
}

/// Returns a bit for each value that says whether it is not 0, and the number of values that are.
fn bits<T: Copy + Into<u64>>(values: &[T]) -> (Vec<u8>, i64) {
    let is_set = |value: &T| (*value).into() != 0;
    let byte = |values: &[T]| values.iter().rev().fold(0, |bits, value| bits << 1 | u8::from(is_set(value)));
    let bytes: Vec<u8> = values.chunks(8).map(byte).collect();
    let set: usize = bytes.iter().map(|byte| byte.count_ones() as usize).sum();
    (bytes, (values.len() - set) as i64)
}

/// Memory behind an array.
struct Owned {
    buffers: Box<[*const c_void]>,
    children: Box<[*mut ArrowArray]>,
    _memory: Vec<Box<dyn std::any::Any>>,
}

fn child<T: 'static>(rows: usize, validity: Option<(Vec<u8>, i64)>, values: Vec<T>) -> ArrowArray {
    let nulls = validity.as_ref().map_or(0, |(_, nulls)| *nulls);
    let bits = validity.map(|(bits, _)| bits).filter(|_| nulls > 0);
    // The bytes of a vector stay where they are when the vector moves.
    let buffers = [bits.as_ref().map_or(null(), |bits| bits.as_ptr().cast()), values.as_ptr().cast()];
    array(
        rows,
        nulls,
        Owned { buffers: buffers.into(), children: [].into(), _memory: vec![Box::new(bits), Box::new(values)] },
    )
}

fn array(rows: usize, null_count: i64, owned: Owned) -> ArrowArray {
    let owned = Box::into_raw(Box::new(owned));
    // SAFETY: it was made from a box.
    let (buffers, children) = unsafe { (&mut (*owned).buffers, &mut (*owned).children) };
    ArrowArray {
        length: rows as i64,
        null_count,
        offset: 0,
        n_buffers: buffers.len() as i64,
        n_children: children.len() as i64,
        buffers: buffers.as_mut_ptr(),
        children: if children.is_empty() { null_mut() } else { children.as_mut_ptr() },
        dictionary: null_mut(),
        release: Some(release_array),
        private_data: owned.cast(),
    }
}

/// Frees an array and those of its children that nobody has moved away.
///
/// # Safety
/// `array` must be one of this file's that was not released.
unsafe extern "C" fn release_array(array: *mut ArrowArray) {
    // SAFETY: the caller's promise: `array` made the memory, and each child was boxed.
    unsafe {
        let owned = Box::from_raw((*array).private_data.cast::<Owned>());
        for &child in &owned.children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*array).release = None;
        (*array).private_data = null_mut();
    }
}

/// Returns the type of the array, whose memory belongs to its `release`.
pub(crate) fn schema() -> ArrowSchema {
    let of = |(name, format, flags): (&'static CStr, &'static CStr, i64)| {
        Box::into_raw(Box::new(one_schema(name, format, flags, [].into())))
    };
    one_schema(c"", c"+s", 0, COLUMNS.map(of).into())
}

fn one_schema(
    name: &'static CStr,
    format: &'static CStr,
    flags: i64,
    children: Box<[*mut ArrowSchema]>,
) -> ArrowSchema {
    let n_children = children.len() as i64;
    let children = Box::into_raw(Box::new(children));
    ArrowSchema {
        format: format.as_ptr(),
        name: name.as_ptr(),
        metadata: null(),
        flags,
        n_children,
        // SAFETY: it was made from a box.
        children: if n_children == 0 { null_mut() } else { unsafe { (*children).as_mut_ptr() } },
        dictionary: null_mut(),
        release: Some(release_schema),
        private_data: children.cast(),
    }
}

/// Frees a type and those of its children that nobody has moved away.
///
/// # Safety
/// `schema` must be one of this file's that was not released.
unsafe extern "C" fn release_schema(schema: *mut ArrowSchema) {
    // SAFETY: the caller's promise: `one_schema` made the memory, and each child was boxed.
    unsafe {
        let children = Box::from_raw((*schema).private_data.cast::<Box<[*mut ArrowSchema]>>());
        for &child in &*children {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
        (*schema).private_data = null_mut();
    }
}
