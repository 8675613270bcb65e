//! Codes, and reasons why a call failed.

use std::ffi::c_char;
use std::ptr;

use firstmatch::core::{BuildError, Diagnostic};
use firstmatch::net::wire::NoSource;

/// Success. Every other code is negative and keeps its number for ever.
pub const FIRSTMATCH_OK: i32 = 0;
/// An argument is null, unaligned, out of range or a handle of another type. Nothing is changed.
pub const FIRSTMATCH_INVALID_ARGUMENT: i32 = -1;
/// A text has a fault. The error object has all of them, with lines.
pub const FIRSTMATCH_PARSE: i32 = -2;
/// The limits on memory, on the worst case of a lookup or on the regions of rules leave no room.
pub const FIRSTMATCH_LIMITS: i32 = -3;
/// There is no room before a rebuild; `firstmatch_firewall_rebuild` makes it.
pub const FIRSTMATCH_NEEDS_REBUILD: i32 = -4;
/// A batch in progress is in the way, or another thread uses the handle at this moment.
pub const FIRSTMATCH_BUSY: i32 = -5;
/// The rule was removed.
pub const FIRSTMATCH_STALE: i32 = -6;
/// There is no memory. Small allocations end the process instead, as in every Rust library.
pub const FIRSTMATCH_NO_MEMORY: i32 = -7;
/// This version, or this firewall, cannot do it; the message says why.
pub const FIRSTMATCH_UNSUPPORTED: i32 = -8;
/// A mistake of this library. The handle answers nothing else from now on and can only be freed.
pub const FIRSTMATCH_INTERNAL: i32 = -9;

/// Codes, as an enum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    InvalidArgument,
    Parse,
    Limits,
    NeedsRebuild,
    Busy,
    Stale,
    NoMemory,
    Unsupported,
    Internal,
}

impl Status {
    pub(crate) const fn code(self) -> i32 {
        match self {
            Self::InvalidArgument => FIRSTMATCH_INVALID_ARGUMENT,
            Self::Parse => FIRSTMATCH_PARSE,
            Self::Limits => FIRSTMATCH_LIMITS,
            Self::NeedsRebuild => FIRSTMATCH_NEEDS_REBUILD,
            Self::Busy => FIRSTMATCH_BUSY,
            Self::Stale => FIRSTMATCH_STALE,
            Self::NoMemory => FIRSTMATCH_NO_MEMORY,
            Self::Unsupported => FIRSTMATCH_UNSUPPORTED,
            Self::Internal => FIRSTMATCH_INTERNAL,
        }
    }
}

/// Reason why a call failed.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) message: String,
    pub(crate) line: u32,
    pub(crate) faults: Vec<Diagnostic>,
    /// Index of the operation of an update that failed.
    pub(crate) operation: Option<usize>,
}

impl Failure {
    #[cold]
    pub(crate) fn new(status: Status, message: impl Into<String>) -> Self {
        Self { status, message: message.into(), line: 0, faults: Vec::new(), operation: None }
    }

    /// Returns the failure of the operation of this index.
    pub(crate) fn of_operation(self, index: usize) -> Self {
        Self { operation: Some(index), ..self }
    }

    #[cold]
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(Status::InvalidArgument, message)
    }
}

impl From<firstmatch::Error> for Failure {
    fn from(error: firstmatch::Error) -> Self {
        let source = std::error::Error::source(&error);
        let status = if !error.faults().is_empty() {
            Status::Parse
        } else if error.needs_rebuild() {
            Status::NeedsRebuild
        } else if error.is_busy() {
            Status::Busy
        } else if error.is_stale() {
            Status::Stale
        } else if error.budget_exceeded() || source.and_then(|source| source.downcast_ref::<BuildError>()).is_some() {
            Status::Limits
        } else if source.and_then(|source| source.downcast_ref::<NoSource>()).is_some() {
            Status::Unsupported
        } else {
            Status::InvalidArgument
        };
        let line = error.line().unwrap_or(0);
        Self { status, message: error.to_string(), line, faults: error.faults().to_vec(), operation: None }
    }
}

/// Returns the name of a code, for example `FIRSTMATCH_PARSE`; null for a number that is no code.
#[unsafe(no_mangle)]
pub extern "C" fn firstmatch_status_name(code: i32) -> *const c_char {
    let name = match code {
        FIRSTMATCH_OK => c"FIRSTMATCH_OK",
        FIRSTMATCH_INVALID_ARGUMENT => c"FIRSTMATCH_INVALID_ARGUMENT",
        FIRSTMATCH_PARSE => c"FIRSTMATCH_PARSE",
        FIRSTMATCH_LIMITS => c"FIRSTMATCH_LIMITS",
        FIRSTMATCH_NEEDS_REBUILD => c"FIRSTMATCH_NEEDS_REBUILD",
        FIRSTMATCH_BUSY => c"FIRSTMATCH_BUSY",
        FIRSTMATCH_STALE => c"FIRSTMATCH_STALE",
        FIRSTMATCH_NO_MEMORY => c"FIRSTMATCH_NO_MEMORY",
        FIRSTMATCH_UNSUPPORTED => c"FIRSTMATCH_UNSUPPORTED",
        FIRSTMATCH_INTERNAL => c"FIRSTMATCH_INTERNAL",
        _ => return ptr::null(),
    };
    name.as_ptr()
}
