//! Functions beside the original's.

use std::ffi::c_char;
use std::panic::catch_unwind;

use crate::context::{Context, find, lock};

/// Returns the name and version of this library; so a program can tell whose functions it calls.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub extern "C" fn firstmatch_acl_version() -> *const c_char {
    const VERSION: &str = concat!("firstmatch-rte-acl ", env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

/// Returns the bytes of a context on the heap, its rules and its table; 0 for a handle that is not live.
///
/// # Safety
/// None is needed: a handle that is not live is ignored.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_bytes(ctx: *const Context) -> usize {
    let bytes = || {
        find(ctx).map_or(0, |context| {
            let table = context.table().map_or(0, |table| table.bytes());
            size_of::<Context>() + lock(&context.rules).kept.bytes() + table
        })
    };
    catch_unwind(bytes).unwrap_or(0)
}
