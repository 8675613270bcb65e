//! Functions beside the original's.

use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use firstmatch_core::KeyBuf;

use crate::abi::{Code, MAX_CATEGORIES, RuleName, RuleResults, status};
use crate::border::handle;
use crate::context::{self, Context, find, lock};
use crate::table::{parts_of, reserve_small};

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
            size_of::<Context>() + lock(&context.rules).bytes() + table
        })
    };
    catch_unwind(bytes).unwrap_or(0)
}

/// Runs the body of a function that answers by a number; an error becomes a negative one.
fn number(body: impl FnOnce() -> Result<usize, Code>) -> c_int {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Code::Invalid));
    result.map_or_else(|code| -code.number(), |number| c_int::try_from(number).unwrap_or(c_int::MAX))
}

/// Removes every rule that has this priority and this user data; returns their number.
///
/// It looks at these rules alone; the first removal of a context goes through all rules. Lookups see the change after
/// the next `firstmatch_acl_commit` or `rte_acl_build`. It returns `-EINVAL` for a handle
/// that is not live, and `-ENOMEM` without memory.
///
/// # Safety
/// None is needed: a handle that is not live is refused.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_remove(ctx: *mut Context, priority: i32, userdata: u32) -> c_int {
    number(|| find(ctx).ok_or(Code::Invalid)?.remove(&[RuleName { priority, userdata }]))
}

/// Removes every rule whose priority and user data are those of one of `num` names; returns their number.
///
/// It looks at the rules of the names alone, and removes all or none. It returns `-EINVAL` for a handle that is not live, or
/// if `rules` is null and `num` is not 0, and `-ENOMEM` without memory. No rule is removed then.
///
/// # Safety
/// `rules` must be null or lead to `num` structs.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_remove_rules(ctx: *mut Context, rules: *const RuleName, num: u32) -> c_int {
    number(|| {
        let context = find(ctx).filter(|_| num == 0 || !rules.is_null()).ok_or(Code::Invalid)?;
        let mut names = Vec::new();
        names.try_reserve_exact(num as usize).map_err(|_| Code::NoMemory)?;
        // SAFETY: the caller's promise.
        names.extend((0..num as usize).map(|at| unsafe { rules.add(at).read_unaligned() }));
        context.remove(&names)
    })
}

/// Creates a context with the rules, parameters and configuration of another one, under a name of its own.
///
/// The copy has no table until `firstmatch_acl_commit` or `rte_acl_build`, and no counts. So a program can change the
/// copy, commit it, and use it in place of the original at once. It returns null with `rte_errno` EINVAL for a handle
/// that is not live or without a name, EEXIST if there is a context of this name, and ENOMEM without memory.
///
/// # Safety
/// `name` must be null or end with NUL.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_copy(ctx: *const Context, name: *const c_char) -> *mut Context {
    handle(|| {
        let context = find(ctx).filter(|_| !name.is_null()).ok_or(Code::Invalid)?;
        // SAFETY: the caller's promise.
        context::copy(context, unsafe { CStr::from_ptr(name) })
    })
}

/// Counts the results of each rule from the next build or commit on, or no longer if `on` is 0.
///
/// A rule keeps its count in later builds and commits, until it is removed. A build or commit that no longer counts
/// drops all counts.
///
/// It returns 0, or `-EINVAL` for a handle that is not live.
///
/// # Safety
/// None is needed: a handle that is not live is refused.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_set_counting(ctx: *mut Context, on: c_int) -> c_int {
    number(|| {
        lock(&find(ctx).ok_or(Code::Invalid)?.rules).is_counting = on != 0;
        Ok(0)
    })
}

/// Returns the number of results that rules of a priority with this user data gave since they are counted.
///
/// A packet has a result in each category that was asked for. It returns 0 without a table, or if results are not
/// counted. It takes time in proportion to the number of rules, so [`firstmatch_acl_count_rules`] is for many of them.
///
/// # Safety
/// None is needed: a handle that is not live is refused.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_count(ctx: *const Context, priority: i32, userdata: u32) -> u64 {
    let body = || find(ctx).and_then(Context::table).map_or(0, |table| table.results_of(priority, userdata));
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(0)
}

/// Writes the rules of the table, in the order of their addition, each with the number of its results.
///
/// It writes at most `room` of them, and returns the number of all; 0 without a table, or if results are not counted. It
/// writes to `removed`, unless that is null, the number of results of the rules that have left the table since results
/// are counted. No result is in both and none in neither, also beside lookups, commits and builds.
///
/// It returns `-EINVAL` for a handle that is not live, or if `out` is null and `room` is not 0.
///
/// # Safety
/// `out` must have room for `room` structs, and `removed` must be null or have room for a number.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_count_rules(
    ctx: *const Context,
    out: *mut RuleResults,
    room: u32,
    removed: *mut u64,
) -> c_int {
    number(|| {
        let context = find(ctx).filter(|_| room == 0 || !out.is_null()).ok_or(Code::Invalid)?;
        let (table, gone) = context.table_and_gone();
        let rules = table.as_ref().map_or(&[][..], |table| &table.counts);
        for (at, rule) in rules.iter().take(room as usize).enumerate() {
            let results = RuleResults { priority: rule.priority, userdata: rule.userdata, results: rule.results() };
            // SAFETY: the caller's promise: `at` is below `room`.
            unsafe { out.add(at).write_unaligned(results) };
        }
        if !removed.is_null() {
            // SAFETY: the caller's promise.
            unsafe { removed.write_unaligned(gone) };
        }
        Ok(rules.len())
    })
}

/// Builds the table anew with the configuration of the last build, beside lookups.
///
/// Unlike after `rte_acl_build`, the old table stays if that fails, and the last rule may be gone: then every lookup
/// answers 0. It returns `-EINVAL` if nothing was built before, and otherwise the codes of `rte_acl_build`.
///
/// # Safety
/// None is needed: a handle that is not live is refused.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_commit(ctx: *mut Context) -> c_int {
    let body = || find(ctx).ok_or(Code::Invalid)?.commit();
    catch_unwind(AssertUnwindSafe(body)).map_or(-Code::Invalid.number(), status)
}

/// Writes a sentence about the rule that decides about a key in a category, as `snprintf` does.
///
/// The rule is counted from 0 in the order of addition, among the rules that the table was built of.
///
/// It returns the length of the sentence, of which at most `size - 1` bytes are written. It returns `-EINVAL` without a
/// table or for a category above 15, and `-ENOMEM` without memory.
///
/// # Safety
/// `key` must be null or lead to a key whose fields are readable, and `out` must have room for `size` bytes.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn firstmatch_acl_explain(
    ctx: *const Context,
    key: *const u8,
    category: u32,
    out: *mut c_char,
    size: usize,
) -> c_int {
    number(|| {
        let table = find(ctx).and_then(Context::table).ok_or(Code::Invalid)?;
        if key.is_null() || category >= MAX_CATEGORIES || out.is_null() && size > 0 {
            return Err(Code::Invalid);
        }
        reserve_small()?;
        let mut row = KeyBuf::new(&table.schema);
        let _zeros = row.push_rows(1);
        // SAFETY: the caller's promise about the key; there is one row.
        unsafe { table.gather.gather(&[key], row.words_mut()) };
        let text = match table.decide(row.keys(), category as usize) {
            Some(found) => {
                let (priority, index) = parts_of(found.priority);
                let userdata = found.rule.reuse();
                format!("category {category}: rule {index} by addition, priority {priority}, userdata {userdata}")
            }
            None => format!("category {category}: no rule"),
        };
        let written = text.len().min(size.saturating_sub(1));
        if size > 0 {
            // SAFETY: there is room for `written` bytes and a NUL.
            unsafe {
                out.cast::<u8>().copy_from_nonoverlapping(text.as_ptr(), written);
                out.add(written).write(0);
            }
        }
        Ok(text.len())
    })
}
