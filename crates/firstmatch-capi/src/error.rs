//! Error objects, and texts that the caller owns.

use std::ffi::{CString, c_char};
use std::ptr;

use firstmatch::core::Diagnostic;

use crate::guard::{self, Handle, Out};
use crate::status::{FIRSTMATCH_INVALID_ARGUMENT, FIRSTMATCH_OK, Failure};

/// Error object: code, message, line and all faults of a text.
///
/// Functions that take a `firstmatch_error **` write null there on success and an object on failure, which the caller
/// frees. The pointer may be null.
#[derive(Debug)]
pub struct ErrorHandle(());

/// Error as it stands behind its handle.
#[derive(Debug)]
pub(crate) struct ErrorValue {
    code: i32,
    message: CString,
    line: u32,
    faults: Vec<(u32, u32, CString)>,
    operation: usize,
}

impl Handle for ErrorHandle {
    const MAGIC: u64 = 0x6669_7273_7445_5252;
    const NAME: &'static str = "the error";
    type Value = ErrorValue;
}

impl From<Failure> for ErrorValue {
    fn from(failure: Failure) -> Self {
        let fault = |fault: &Diagnostic| (fault.line, fault.column, c_text(&fault.to_string()));
        let faults = failure.faults.iter().map(fault).collect();
        Self {
            code: failure.status.code(),
            message: c_text(&failure.message),
            line: failure.line,
            faults,
            operation: failure.operation.unwrap_or(usize::MAX),
        }
    }
}

/// Returns a text that ends with NUL; NULs inside become spaces.
pub(crate) fn c_text(text: &str) -> CString {
    CString::new(text.replace('\0', " ")).unwrap_or_default()
}

/// Runs the body of a function that has an error object for its caller.
///
/// # Safety
/// `error` must be null or lead to memory for a pointer.
pub(crate) unsafe fn call_with(error: *mut *mut ErrorHandle, body: impl FnOnce() -> Result<(), Failure>) -> i32 {
    if !error.is_aligned() {
        return FIRSTMATCH_INVALID_ARGUMENT;
    }
    let done = guard::caught(body);
    let (code, object) = match done {
        Ok(()) => (FIRSTMATCH_OK, ptr::null_mut()),
        Err(failure) => {
            let code = failure.status.code();
            let object = if error.is_null() { ptr::null_mut() } else { guard::open::<ErrorHandle>(failure.into()) };
            (code, object)
        }
    };
    if !error.is_null() {
        // SAFETY: the caller's promise.
        unsafe { error.write(object) }
    }
    code
}

/// One fault of a text.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FaultC {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1, in characters.
    pub column: u32,
    /// Message with line and column, which ends with NUL. It is valid until the error is freed.
    pub message: *const c_char,
}

/// Returns the code of an error; `FIRSTMATCH_INVALID_ARGUMENT` if `error` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_error_code(error: *const ErrorHandle) -> i32 {
    // SAFETY: the caller's promise.
    let code = guard::caught(|| unsafe { guard::share(error) }.map(|error| error.code));
    code.unwrap_or(FIRSTMATCH_INVALID_ARGUMENT)
}

/// Returns the message of an error, which ends with NUL and is valid until the error is freed; null if `error` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_error_message(error: *const ErrorHandle) -> *const c_char {
    // SAFETY: the caller's promise.
    guard::caught(|| unsafe { guard::share(error) }.map(|error| error.message.as_ptr())).unwrap_or(ptr::null())
}

/// Returns the line that an error is about, from 1; 0 if it is about none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_error_line(error: *const ErrorHandle) -> u32 {
    // SAFETY: the caller's promise.
    guard::caught(|| unsafe { guard::share(error) }.map(|error| error.line)).unwrap_or(0)
}

/// Returns the index of the operation of an update that failed; `SIZE_MAX` if the error is of another kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_error_operation(error: *const ErrorHandle) -> usize {
    // SAFETY: the caller's promise.
    guard::caught(|| unsafe { guard::share(error) }.map(|error| error.operation)).unwrap_or(usize::MAX)
}

/// Returns the number of faults of the text; 0 if the error is of another kind.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_error_fault_count(error: *const ErrorHandle) -> usize {
    // SAFETY: the caller's promise.
    guard::caught(|| unsafe { guard::share(error) }.map(|error| error.faults.len())).unwrap_or(0)
}

/// Writes one fault of the text, in the order of lines. An index that is not below the count is refused.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_error_fault_at(error: *const ErrorHandle, index: usize, fault: *mut FaultC) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (error, out) = unsafe { (guard::share(error)?, Out::new(fault, "fault")?) };
        let Some((line, column, message)) = error.faults.get(index) else {
            return Err(Failure::invalid(format!("there are {} faults", error.faults.len())));
        };
        out.set(FaultC { line: *line, column: *column, message: message.as_ptr() });
        Ok(())
    })
}

/// Frees an error; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_error_free(error: *mut ErrorHandle) -> i32 {
    // SAFETY: the caller's promise.
    guard::call(|| unsafe { guard::close(error) })
}

/// Text that a function gave to the caller, who frees it.
#[derive(Debug)]
pub struct TextHandle(());

impl Handle for TextHandle {
    const MAGIC: u64 = 0x6669_7273_7454_5854;
    const NAME: &'static str = "the text";
    type Value = CString;
}

/// Returns the bytes of a text, in UTF-8 with a NUL behind, valid until it is freed; null if `text` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_text_bytes(text: *const TextHandle) -> *const c_char {
    // SAFETY: the caller's promise.
    guard::caught(|| unsafe { guard::share(text) }.map(|text| text.as_ptr())).unwrap_or(ptr::null())
}

/// Returns the number of bytes of a text without the NUL; 0 if `text` is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_text_length(text: *const TextHandle) -> usize {
    // SAFETY: the caller's promise.
    guard::caught(|| unsafe { guard::share(text) }.map(|text| text.as_bytes().len())).unwrap_or(0)
}

/// Frees a text; null is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_text_free(text: *mut TextHandle) -> i32 {
    // SAFETY: the caller's promise.
    guard::call(|| unsafe { guard::close(text) })
}
