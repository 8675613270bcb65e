//! Names of what is not checked.

use std::fs::OpenOptions;
use std::io::Write;

/// Names what is not checked: on the terminal, and again at the end of `ci.sh`.
///
/// # Panics
/// If the list of `ci.sh` cannot be written.
pub fn skip(what: &str) {
    let line = format!("!! SKIPPED: {what}");
    let _ignored = writeln!(std::io::stderr(), "{line}");
    if let Some(list) = std::env::var_os("FIRSTMATCH_SKIPPED") {
        let list = OpenOptions::new().create(true).append(true).open(list);
        list.and_then(|mut list| writeln!(list, "{line}")).expect("the list of what is skipped");
    }
}
