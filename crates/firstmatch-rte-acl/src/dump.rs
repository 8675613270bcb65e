//! Printing of contexts, line by line as the original does.
//!
//! The lines go through C's `stdout`, because a buffer of Rust's would mix them with the program's own in another
//! order.

use std::ffi::CString;
use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::context::{Context, lock};

/// Returns the lines about a context, without the last line's end.
pub(crate) fn text(context: &Context) -> String {
    let table = context.table();
    let rules = lock(&context.rules);
    let mut out = format!("acl context <{}>@{context:p}\n", String::from_utf8_lossy(&context.name()));
    let numbers = [
        ("socket_id", i64::from(rules.socket_id)),
        ("alg", i64::from(context.algorithm.load(Ordering::Relaxed))),
        ("first_load_sz", table.as_ref().map_or(0, |table| table.gather.plan.span as i64)),
        ("max_rules", i64::from(rules.max_rules)),
        ("rule_size", i64::from(rules.rule_size)),
        ("num_rules", rules.kept.len() as i64),
        ("num_categories", table.as_ref().map_or(0, |table| i64::from(table.categories))),
        ("num_tries", i64::from(table.is_some())),
    ];
    for (at, (name, number)) in numbers.into_iter().enumerate() {
        let end = if at + 1 < numbers.len() { "\n" } else { "" };
        let _infallible = write!(out, "  {name}={number}{end}");
    }
    out
}

/// Prints the lines about a context.
pub(crate) fn print(context: &Context) {
    // A name has no NUL, because it comes from C.
    let Ok(text) = CString::new(text(context)) else { return };
    // SAFETY: the text ends with NUL. `puts` adds the end of the last line.
    unsafe { libc::puts(text.as_ptr()) };
}
