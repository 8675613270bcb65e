//! Packets and decisions as columns, by Arrow's C data interface.

mod abi;
mod columns;
mod export;

pub use abi::{ArrowArray, ArrowSchema};
use firstmatch::core::Schema;
use firstmatch::core::rule::FieldValues;
use firstmatch::{LinkType, Outcome, Worker};

use self::abi::Column;
use self::columns::{FieldColumn, Frames, OutOfRange, fields_of, schema_of};
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
    /// Family of the rows; 0 takes it from the columns `src` and `dst`: IPv6 if they have 16 bytes.
    pub family: u32,
    /// Link type of frames; 0 is Ethernet.
    pub link: u32,
    /// 0.
    pub reserved: u32,
}

/// Decides rows of fields, adding to `out` in their order.
fn decide_fields(
    worker: &mut WorkerValue,
    schema: &Schema,
    fields: &[FieldColumn<'_>],
    rows: std::ops::Range<usize>,
    present: impl Fn(usize) -> bool,
    out: &mut Columns,
) {
    let mut packet = FieldValues { family: schema.family(), values: vec![None; fields.len()] };
    // Outcomes of rows that the rules cannot decide.
    let mut outcomes = Vec::with_capacity(rows.len());
    for row in rows {
        let mut outcome = None;
        for (field, place) in fields.iter().zip(&mut packet.values) {
            *place = match if present(row) { field.get(row) } else { Ok(None) } {
                Ok(None) if !field.is_optional => {
                    outcome = outcome.or(Some(numbers::outcome(Outcome::LacksField)));
                    None
                }
                Ok(value) => value,
                Err(OutOfRange) => {
                    outcome = Some(numbers::FIRSTMATCH_OUT_OF_RANGE);
                    None
                }
            };
        }
        match outcome {
            None => {
                worker.worker.push_values(&packet, 0);
            }
            Some(outcome) => worker.undecided.count(outcome),
        }
        outcomes.push(outcome);
    }
    let (verdict, mark) = numbers::verdict(worker.firewall.policy().unknown);
    let undecided = |outcome| Decision { verdict, mark, rule: 0, line: 0, outcome, value: 0 };
    let mut decided = worker.worker.classify().iter();
    for outcome in outcomes {
        let decision = match outcome {
            None => decided.next().map(Decision::from),
            Some(outcome) => Some(undecided(outcome)),
        };
        decision.into_iter().for_each(|decision| out.push(decision));
    }
}

/// Decides rows of frames, adding to `out` in their order.
fn decide_frames(
    worker: &mut Worker,
    link: LinkType,
    frames: &Frames<'_>,
    rows: std::ops::Range<usize>,
    present: impl Fn(usize) -> bool,
    out: &mut Columns,
) -> Result<(), Failure> {
    let frame = |row: usize| if present(row) { frames.get(row) } else { Ok(&[][..]) };
    let frames: Vec<&[u8]> = rows.map(frame).collect::<Result<_, _>>()?;
    worker.push_all(link, &frames);
    worker.classify().iter().for_each(|decision| out.push(decision.into()));
    Ok(())
}

/// Decides all rows of an array.
fn decide(worker: &mut WorkerValue, column: &Column<'_>, options: &ArrowOptionsC) -> Result<Columns, Failure> {
    let link = link_of(if options.link == 0 { numbers::FIRSTMATCH_LINK_ETHERNET } else { options.link })?;
    let family = numbers::family_of(options.family);
    let family = family.ok_or_else(|| Failure::invalid(format!("there is no family {}", options.family)))?;
    let chunks = (0..column.rows).step_by(FIRSTMATCH_ARROW_BATCH);
    let chunks = chunks.map(|first| first..column.rows.min(first + FIRSTMATCH_ARROW_BATCH));
    if let Some(frames) = Frames::new(column)? {
        let mut out = Columns::with_room(column.rows)?;
        for rows in chunks {
            decide_frames(&mut worker.worker, link, &frames, rows, |_| true, &mut out)?;
        }
        return Ok(out);
    }
    if column.format != "+s" {
        let message = format!("the array has the format \"{}\", not a struct or binary", column.format);
        return Err(Failure::new(crate::status::Status::Unsupported, message));
    }
    let (columns, validity) = (column.children()?, column.validity()?);
    let present = |row| validity.has(row);
    let mut out = Columns::with_room(column.rows)?;
    if let Some(frames) = columns.iter().find(|column| column.name == "frame") {
        let format = || Failure::invalid(format!("column \"frame\" has the format \"{}\"", frames.format));
        let frames = Frames::new(&frames.column()?)?.ok_or_else(format)?;
        for rows in chunks {
            decide_frames(&mut worker.worker, link, &frames, rows, present, &mut out)?;
        }
        return Ok(out);
    }
    let schema = worker.schemas[schema_of(&worker.schemas, &columns, family)?].clone();
    let fields = fields_of(&schema, &columns)?;
    for rows in chunks {
        decide_fields(worker, &schema, &fields, rows, present, &mut out);
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
/// Frames are binary, alone or as the column `frame` of a struct. Fields are integers of 8 to 64 bits, or binary of a
/// fixed number of bytes in network order. An IPv4 address may have 16 bytes as IPv4-mapped IPv6 where the rows are of
/// IPv4. A null is an absent field, and gives the outcome `FIRSTMATCH_LACKS_FIELD` where the field is in every packet. A
/// column that is missing or of Arrow's null type stands for nulls. Other columns are ignored, whatever they hold.
///
/// A row with a value that its field cannot have gets the outcome `FIRSTMATCH_OUT_OF_RANGE` and no rule. Rows of these
/// two outcomes get the verdict of the policy for unknown packets, and `firstmatch_worker_outcome_count` counts them.
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
        let (mut worker, column) = unsafe { (guard::lease(worker)?, Column::new(schema, array)?) };
        let decided = decide(&mut worker, &column, &options)?;
        types.set(export::schema());
        values.set(decided.into_array());
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}
