//! Batches of packets that the caller has parsed already: headers, records and rows.

use firstmatch::core::{RecordLayout, Schema};
use firstmatch::{LinkType, Worker};

use crate::guard;
use crate::schema::LayoutHandle;
use crate::status::{Failure, Status};
use crate::worker::{Decision, WorkerHandle, WorkerValue, decide};

/// Returns the lengths of packets on the wire, of which null means 0 each.
///
/// # Safety
/// As [`guard::array`].
unsafe fn lengths_of<'a>(first: *const u32, count: usize) -> Result<impl Fn(usize) -> u32 + 'a, Failure> {
    // SAFETY: the caller's promise.
    let lengths = if first.is_null() { &[] } else { unsafe { guard::array(first, count, "wire_lengths") }? };
    Ok(move |index: usize| lengths.get(index).copied().unwrap_or(0))
}

/// Returns the bytes behind a pointer of the caller's.
///
/// # Safety
/// `length` bytes at `first` must be readable, and not change as long as the result is used.
unsafe fn bytes<'a>(first: *const u8, length: usize) -> &'a [u8] {
    if length == 0 {
        return &[];
    }
    // SAFETY: the caller's promise; the pointers were checked.
    unsafe { std::slice::from_raw_parts(first, length) }
}

/// Decides `count` packets that begin with an IPv4 or IPv6 header, from pointers to them and their lengths in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_classify_headers(
    worker: *mut WorkerHandle,
    headers: *const *const u8,
    lengths: *const u32,
    count: usize,
    decisions: *mut Decision,
) -> i32 {
    let push = |worker: &mut WorkerValue| {
        // SAFETY: the caller's promise.
        let (headers, lengths) =
            unsafe { (guard::array(headers, count, "headers")?, guard::array(lengths, count, "lengths")?) };
        if let Some(index) = (0..count).find(|&index| headers[index].is_null() && lengths[index] > 0) {
            return Err(Failure::invalid(format!("header {index} is null")));
        }
        for (&header, &length) in headers.iter().zip(lengths) {
            // SAFETY: the caller's promise; a header that is not empty is not null.
            worker.worker.push(LinkType::Raw, unsafe { bytes(header, length as usize) });
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { decide(worker, decisions, count, push) }
}

/// Checks that the records of a layout are for the rules of a worker.
fn check_layout(worker: &mut WorkerValue, layout: &RecordLayout) -> Result<(), Failure> {
    worker.refresh();
    match worker.schemas.contains(layout.schema()) {
        true => Ok(()),
        false => Err(Failure::invalid("the layout is of the fields of other rules")),
    }
}

/// Adds records to a batch, of which each has the bytes of the layout.
fn push_records<'r>(
    worker: &mut Worker,
    layout: &RecordLayout,
    records: impl Iterator<Item = &'r [u8]>,
    length: impl Fn(usize) -> u32,
) -> Result<(), Failure> {
    for (index, record) in records.enumerate() {
        let pushed = worker.push_record(layout, record, length(index));
        pushed.map_err(|error| Failure::new(Status::Internal, error.to_string()))?;
    }
    Ok(())
}

/// Decides `count` records of a layout, of which each begins `stride` bytes behind the one before.
///
/// `wire_lengths` has the length of each packet on the wire, for counts; null means 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_classify_records(
    worker: *mut WorkerHandle,
    layout: *const LayoutHandle,
    records: *const u8,
    stride: usize,
    wire_lengths: *const u32,
    count: usize,
    decisions: *mut Decision,
) -> i32 {
    let push = |worker: &mut WorkerValue| {
        // SAFETY: the caller's promise.
        let (layout, length) = unsafe { (guard::share(layout)?, lengths_of(wire_lengths, count)?) };
        check_layout(worker, &layout)?;
        let least = layout.least_bytes();
        let span = count.saturating_sub(1).checked_mul(stride).and_then(|bytes| bytes.checked_add(least));
        if span.is_none_or(|bytes| isize::try_from(bytes).is_err()) || (count > 0 && records.is_null()) {
            return Err(Failure::invalid(format!("{count} records are null, or a stride of {stride} is too long")));
        }
        // SAFETY: the caller's promise; the record ends within the span that was checked.
        let record = |index: usize| unsafe { bytes(records.wrapping_add(index * stride), least) };
        push_records(&mut worker.worker, &layout, (0..count).map(record), length)?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { decide(worker, decisions, count, push) }
}

/// Decides `count` records of a layout, from pointers to them.
///
/// `wire_lengths` has the length of each packet on the wire, for counts; null means 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_classify_record_pointers(
    worker: *mut WorkerHandle,
    layout: *const LayoutHandle,
    records: *const *const u8,
    wire_lengths: *const u32,
    count: usize,
    decisions: *mut Decision,
) -> i32 {
    let push = |worker: &mut WorkerValue| {
        // SAFETY: the caller's promise.
        let (layout, length) = unsafe { (guard::share(layout)?, lengths_of(wire_lengths, count)?) };
        // SAFETY: the caller's promise.
        let records = unsafe { guard::array(records, count, "records") }?;
        check_layout(worker, &layout)?;
        if let Some(index) = records.iter().position(|record| record.is_null()) {
            return Err(Failure::invalid(format!("record {index} is null")));
        }
        // SAFETY: the caller's promise; the pointer is not null.
        let record = |&record: &*const u8| unsafe { bytes(record, layout.least_bytes()) };
        push_records(&mut worker.worker, &layout, records.iter().map(record), length)?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { decide(worker, decisions, count, push) }
}

/// Checks that every word of a row is one that a packet can have.
fn check_row(schema: &Schema, index: usize, row: &[u32]) -> Result<(), Failure> {
    let (used, padding) = row.split_at(schema.words().len());
    if let Some(at) = used.iter().zip(schema.words()).position(|(&word, of)| word > of.max) {
        return Err(Failure::invalid(format!("row {index} has {} in word {at}", used[at])));
    }
    match padding.iter().all(|&word| word == 0) {
        true => Ok(()),
        false => Err(Failure::invalid(format!("row {index} has padding that is not 0"))),
    }
}

/// Decides `count` rows of key words of a schema, 16-byte aligned, each of as many words as its stride.
///
/// `wire_lengths` has the length of each packet on the wire, for counts; null means 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_classify_rows(
    worker: *mut WorkerHandle,
    schema: usize,
    rows: *const u32,
    wire_lengths: *const u32,
    count: usize,
    decisions: *mut Decision,
) -> i32 {
    let push = |worker: &mut WorkerValue| {
        // SAFETY: the caller's promise.
        let length = unsafe { lengths_of(wire_lengths, count) }?;
        worker.refresh();
        let WorkerValue { worker, schemas, .. } = worker;
        let found = schemas.get(schema);
        let found = found.ok_or_else(|| Failure::invalid(format!("there are {} schemas", schemas.len())))?;
        if count > 0 && !rows.addr().is_multiple_of(16) {
            return Err(Failure::invalid("rows are not 16-byte aligned"));
        }
        // SAFETY: the caller's promise; a batch is so small that the product fits.
        let words = unsafe { guard::array(rows, count * found.stride(), "rows") }?;
        for (index, row) in words.chunks_exact(found.stride()).enumerate() {
            check_row(found, index, row)?;
        }
        for (index, row) in words.chunks_exact(found.stride()).enumerate() {
            worker.push_row(schema, row, length(index));
        }
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { decide(worker, decisions, count, push) }
}
