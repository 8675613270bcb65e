//! Packets and decisions as columns, by Arrow's C data interface.

mod abi;
mod columns;
mod export;

use std::ops::Range;

pub use abi::{ArrowArray, ArrowSchema};
use firstmatch::{LinkType, OtherFieldsError, Worker};
use firstmatch_columns::{BLOCK, Status};

use self::abi::{Array, Copies};
use self::columns::{Fields, Frames};
use self::export::Columns;
use crate::error::{ErrorHandle, call_with};
use crate::guard::{self, Out};
use crate::numbers;
use crate::status::Failure;
use crate::worker::{Decision, WorkerHandle, WorkerValue, link_of};

/// Most rows that are decided together, by the rules of one commit.
pub const FIRSTMATCH_ARROW_BATCH: usize = 65536;

/// Options for columns. All zero but the size, they are the defaults.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ArrowOptionsC {
    /// Size of this struct in bytes.
    pub size: u32,
    /// Family of the rows; 0 takes it from the columns `src` and `dst`: IPv6 if they have 16 bytes each, that of each row
    /// if they are text or binary of any length.
    pub family: u32,
    /// Link type of frames; 0 is Ethernet.
    pub link: u32,
    /// 0.
    pub reserved: u32,
}

/// Decides rows of fields, which `out` has room for.
///
/// # Errors
/// If the rules have other fields since. Nothing is decided or counted then.
fn decide_fields(
    worker: &mut WorkerValue,
    fields: &mut Fields<'_>,
    rows: Range<usize>,
    out: &mut Columns,
) -> Result<(), OtherFieldsError> {
    let (verdict, mark) = numbers::verdict(worker.firewall.policy().unknown);
    let WorkerValue { worker, batch, undecided, .. } = worker;
    let Fields { decoder, inputs } = fields;
    batch.clear();
    let (mut order, mut outcomes) = (Vec::with_capacity(rows.len()), Vec::new());
    for start in rows.clone().step_by(BLOCK) {
        let block = start..rows.end.min(start + BLOCK);
        decoder.append(inputs, block.clone(), batch);
        order.extend(decoder.order().iter().map(|&row| start + row as usize));
        if decoder.order().len() == block.len() {
            continue;
        }
        for (row, &status) in block.zip(decoder.statuses()) {
            outcomes.extend(outcome_of(status).map(|outcome| (row, outcome)));
        }
    }
    let mut order = order.into_iter();
    worker.classify_batch(batch, |_, decision| {
        if let Some(row) = order.next() {
            out.set(row, Decision::from(&decision));
        }
    })?;
    for (row, outcome) in outcomes {
        undecided.count(outcome);
        out.set(row, Decision { verdict, mark, rule: 0, line: 0, outcome, value: 0 });
    }
    Ok(())
}

/// Returns the number of the outcome of a row that is no row of keys.
fn outcome_of(status: Status) -> Option<u32> {
    match status {
        Status::Keys => None,
        Status::LacksField => Some(numbers::FIRSTMATCH_LACKS_FIELD),
        Status::OtherFamily => Some(numbers::FIRSTMATCH_OTHER_FAMILY),
        Status::BadAddress | Status::BadNumber | Status::MixedFamilies => Some(numbers::FIRSTMATCH_OUT_OF_RANGE),
    }
}

/// Decides rows of frames, adding to `out` in their order.
fn decide_frames(
    worker: &mut Worker,
    link: LinkType,
    frames: &Frames<'_>,
    rows: Range<usize>,
    out: &mut Columns,
) -> Result<(), Failure> {
    let all: Vec<&[u8]> = rows.clone().map(|row| frames.get(row)).collect::<Result<_, _>>()?;
    worker.push_all(link, &all);
    out.grow(rows.len());
    for (row, decision) in rows.zip(worker.classify()) {
        out.set(row, decision.into());
    }
    Ok(())
}

/// Decides all rows of an array.
fn decide(worker: &mut WorkerValue, array: &Array<'_>, options: &ArrowOptionsC) -> Result<Columns, Failure> {
    let link = link_of(if options.link == 0 { numbers::FIRSTMATCH_LINK_ETHERNET } else { options.link })?;
    let family = numbers::family_of(options.family);
    let family = family.ok_or_else(|| Failure::invalid(format!("there is no family {}", options.family)))?;
    let chunks = (0..array.rows).step_by(FIRSTMATCH_ARROW_BATCH);
    let mut chunks = chunks.map(|first| first..array.rows.min(first + FIRSTMATCH_ARROW_BATCH));
    let copies = Copies::default();
    let columns = if array.is_struct() { array.children()? } else { Vec::new() };
    let frames = match columns.iter().find(|column| column.name == "frame") {
        Some(column) => Some(Frames::of_child(column, &copies)?),
        None if array.is_struct() => None,
        None => Some(Frames::of_array(array, &copies)?),
    };
    let mut out = Columns::with_room(array.rows)?;
    if let Some(frames) = frames {
        chunks.try_for_each(|rows| decide_frames(&mut worker.worker, link, &frames, rows, &mut out))?;
    } else {
        worker.refresh();
        let mut fields = Fields::new(&worker.column_schemas(), &columns, &copies, family)?;
        for rows in chunks {
            out.grow(rows.len());
            while let Err(OtherFieldsError) = decide_fields(worker, &mut fields, rows.clone(), &mut out) {
                // The rules were reloaded meanwhile, with other fields.
                worker.refresh();
                fields = Fields::new(&worker.column_schemas(), &columns, &copies, family)?;
            }
        }
    }
    Ok(out)
}

/// Returns the number of the Arrow interface that the library has: 1, Arrow's C data interface.
#[unsafe(no_mangle)]
pub extern "C" fn firstmatch_arrow_abi() -> u32 {
    1
}

/// Decides every row of an array: a struct with a column for each field by its name, or frames.
///
/// Frames are binary, alone or as the column `frame` of a struct. Fields are integers of 8 to 64 bits, binary in network
/// order, or text, such as `10.0.0.1`, `::1`, `443` and `tcp`; or dictionaries of these. Binary and text have offsets of
/// 32 or 64 bits or views; binary may have a fixed number of bytes. A null is an absent field, and gives the outcome
/// `FIRSTMATCH_LACKS_FIELD` where the field is in every packet. So do the texts `-`, `(empty)` and the empty one. A
/// column that is missing or of Arrow's null type stands for nulls. Other columns are ignored, whatever they hold.
///
/// Options may say the family of all rows. Otherwise `src` and `dst` as integers or as binary of a fixed number of bytes
/// are of the family of the rules; if the rules have both, of IPv4, or of IPv6 with 16 bytes. As text or binary of any
/// length they give each row its own family, and a family without rules the outcome `FIRSTMATCH_OTHER_FAMILY`. Where all
/// rows are of IPv4, addresses may be IPv4-mapped IPv6.
///
/// A row with a value that its field cannot have, or with addresses of two families, gets the outcome
/// `FIRSTMATCH_OUT_OF_RANGE` and no rule. Rows of these three outcomes get the verdict of the policy for unknown packets,
/// and `firstmatch_worker_outcome_count` counts them.
///
/// The result is a struct with the columns `verdict`, `mark`, `rule`, `line`, `outcome` and `value`. It outlives the
/// worker, and the caller releases it. The input is borrowed and never released. Each `FIRSTMATCH_ARROW_BATCH` rows
/// are decided together. Null options are the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_classify_arrow(
    worker: *mut WorkerHandle,
    schema: *const ArrowSchema,
    array: *const ArrowArray,
    options: *const ArrowOptionsC,
    out_schema: *mut ArrowSchema,
    out_array: *mut ArrowArray,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let (types, values) = unsafe { (Out::new(out_schema, "out_schema")?, Out::new(out_array, "out_array")?) };
        let defaults = ArrowOptionsC { size: size_of::<ArrowOptionsC>() as u32, family: 0, link: 0, reserved: 0 };
        // SAFETY: the caller's promise; every bit pattern is valid.
        let options = if options.is_null() { defaults } else { unsafe { guard::sized(options, "options") }? };
        if options.reserved != 0 {
            return Err(Failure::invalid("the reserved member of options is not 0"));
        }
        // SAFETY: the caller's promise.
        let (mut worker, array) = unsafe { (guard::lease(worker)?, Array::new(schema, array, None)?) };
        let decided = decide(&mut worker, &array, &options)?;
        types.set(export::schema());
        values.set(decided.into_array());
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}
