//! C interface of [`firstmatch`]: rule text and frames in, decisions out, while rules change.
//!
//! The functions are those of `include/firstmatch.h`, which is made from this crate. C programs link the static or the
//! shared library; a Rust program uses [`firstmatch`] instead.
//!
//! ```
//! use firstmatch_capi::*;
//! use std::ptr::{null, null_mut};
//!
//! let rules = "deny tcp dport 23\npermit\n";
//! let frame = [0u8; 60];
//! let slice = Slice { bytes: frame.as_ptr(), length: frame.len() };
//! let (mut firewall, mut worker, mut error) = (null_mut(), null_mut(), null_mut());
//! let mut decision = std::mem::MaybeUninit::uninit();
//! // SAFETY: every pointer leads to a value of its type.
//! unsafe {
//!     firstmatch_firewall_from_text(rules.as_ptr().cast(), rules.len(), null(), &mut firewall, &mut error);
//!     assert_eq!(firstmatch_worker_new(firewall, &mut worker), FIRSTMATCH_OK);
//!     let link = FIRSTMATCH_LINK_ETHERNET;
//!     firstmatch_classify_frames(worker, link, &slice, null(), 1, decision.as_mut_ptr());
//!     assert_eq!(decision.assume_init().outcome, FIRSTMATCH_NOT_IP);
//!     firstmatch_worker_free(worker);
//!     firstmatch_firewall_release(firewall);
//! }
//! ```
//!
//! # Safety
//!
//! Every function checks its arguments as far as it can: null, alignment, sizes, numbers, and the type of handles. The
//! caller promises the rest, for every function alike:
//!
//! - A pointer that is not null leads to as many values of its type as the call says, and a name ends with NUL.
//! - A handle was given by this library and is not freed before or during the call.
//! - Memory that a call reads is not changed by another thread during the call. Results overlap no argument.
//!
//! # Unsafe code
//!
//! C's pointers are followed in this crate, and each block says what it relies on. No panic crosses the border: every
//! function catches it and answers [`FIRSTMATCH_INTERNAL`], and the handle answers nothing else from then on.
#![expect(clippy::missing_safety_doc, reason = "the promise is the same for all functions: it is the crate's")]

mod arrow;
mod batches;
mod error;
mod firewall;
mod guard;
mod numbers;
mod options;
mod query;
mod rule;
mod schema;
mod sets;
mod status;
mod table;
#[cfg(test)]
mod tests;
mod update;
mod worker;

use std::ffi::c_char;

pub use arrow::*;
pub use batches::*;
pub use error::*;
pub use firewall::*;
pub use numbers::*;
pub use options::*;
pub use query::*;
pub use rule::*;
pub use schema::*;
pub use sets::*;
pub use status::*;
pub use table::*;
pub use update::*;
pub use worker::*;

/// Number of this interface. It changes whenever a program that was compiled with an older header would break.
pub const FIRSTMATCH_ABI_VERSION: u32 = 1;

/// Returns the number of the interface that the library has; a program compares it with `FIRSTMATCH_ABI_VERSION`.
#[unsafe(no_mangle)]
pub extern "C" fn firstmatch_abi_version() -> u32 {
    FIRSTMATCH_ABI_VERSION
}

/// Returns the version of the library, for example `0.1.0`, which ends with NUL and is never freed.
#[unsafe(no_mangle)]
pub extern "C" fn firstmatch_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
