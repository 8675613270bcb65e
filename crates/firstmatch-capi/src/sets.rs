//! Live sets: members that come and go in updates, and questions about them.

use std::ffi::c_char;
use std::net::IpAddr;

use firstmatch::{Member, Set};

use crate::firewall::FirewallHandle;
use crate::guard::{self, Out};
use crate::status::Failure;
use crate::update::{Operation, UpdateHandle, record};

/// Reads a member: an address, a prefix or a range of addresses.
///
/// # Safety
/// `text` must be null or lead to a text that ends with NUL.
unsafe fn read_member(text: *const c_char) -> Result<Member, Failure> {
    // SAFETY: the caller's promise.
    let text = unsafe { guard::name(text, "the member") }?;
    text.parse().map_err(|error: firstmatch::core::UpdateError| Failure::invalid(error.to_string()))
}

/// Adds the change of one member of a live set to an update.
///
/// # Safety
/// `update`, `set` and `member` must be null or what their types say.
unsafe fn record_member(
    update: *mut UpdateHandle,
    set: *const c_char,
    member: *const c_char,
    operation: impl FnOnce(String, Member) -> Operation,
) -> i32 {
    let make = |_| {
        // SAFETY: the caller's promise.
        let (set, member) = unsafe { (guard::name(set, "the set")?, read_member(member)?) };
        Ok(operation(set.to_owned(), member))
    };
    // SAFETY: the caller's promise.
    unsafe { record(update, None, make) }
}

/// Adds a member to a live set: an address, a prefix such as `192.0.2.0/24` or a range such as `192.0.2.1-192.0.2.9`.
///
/// Members may overlap. One that is there already stays. The set must be there when the update is committed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_set_insert(
    update: *mut UpdateHandle,
    set: *const c_char,
    member: *const c_char,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { record_member(update, set, member, Operation::SetInsert) }
}

/// Removes a member of a live set; nothing happens if it is none. Addresses that other members hold stay in the set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_set_remove(
    update: *mut UpdateHandle,
    set: *const c_char,
    member: *const c_char,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { record_member(update, set, member, Operation::SetRemove) }
}

/// Replaces the members of a live set by `count` members; only those that differ are changed.
///
/// `members` may be null if `count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_set_replace(
    update: *mut UpdateHandle,
    set: *const c_char,
    members: *const *const c_char,
    count: usize,
) -> i32 {
    let make = |_| {
        // SAFETY: the caller's promise.
        let (set, texts) = unsafe { (guard::name(set, "the set")?, guard::array(members, count, "members")?) };
        // SAFETY: the caller's promise.
        let members = texts.iter().map(|&text| unsafe { read_member(text) }).collect::<Result<_, _>>()?;
        Ok(Operation::SetReplace(set.to_owned(), members))
    };
    // SAFETY: the caller's promise.
    unsafe { record(update, None, make) }
}

/// Returns the live set of a name.
///
/// # Safety
/// `firewall` and `set` must be null or what their types say.
unsafe fn set_of(firewall: *const FirewallHandle, set: *const c_char) -> Result<Set, Failure> {
    // SAFETY: the caller's promise.
    let (firewall, name) = unsafe { (guard::share(firewall)?, guard::name(set, "the set")?) };
    firewall.firewall.set(name).ok_or_else(|| Failure::invalid(format!("there is no live set `{name}`")))
}

/// Writes 1 if a member of a live set holds an address, otherwise 0. It waits for an update in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_set_contains(
    firewall: *const FirewallHandle,
    set: *const c_char,
    address: *const c_char,
    contains: *mut u32,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (set, out) = unsafe { (set_of(firewall, set)?, Out::new(contains, "contains")?) };
        // SAFETY: the caller's promise.
        let address = unsafe { guard::name(address, "the address") }?;
        let address: IpAddr = address.parse().map_err(|_| Failure::invalid(format!("`{address}` is no address")))?;
        out.set(u32::from(set.contains(address)));
        Ok(())
    })
}

/// Writes the number of members of a live set. It waits for an update in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_set_len(
    firewall: *const FirewallHandle,
    set: *const c_char,
    count: *mut usize,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (set, out) = unsafe { (set_of(firewall, set)?, Out::new(count, "count")?) };
        out.set(set.len());
        Ok(())
    })
}
