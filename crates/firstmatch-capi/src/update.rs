//! Transactions, recorded before they are done.
//!
//! A lock that a program holds between two calls would stop every other writer if it were forgotten. So an update is a
//! list of operations, and the commit alone takes the lock.

use firstmatch::core::rule::Priority;
use firstmatch::{Member, RuleId, Update};

use crate::error::{ErrorHandle, call_with};
use crate::firewall::FirewallHandle;
use crate::guard::{self, Handle, Out};
use crate::rule::{OwnedRule, RuleC};
use crate::status::{Failure, Status};

/// Flag of a commit: it does not wait for batches in progress, and answers `FIRSTMATCH_BUSY` instead.
pub const FIRSTMATCH_NO_WAIT: u32 = 1;

/// List of changes that are done together, or not at all.
///
/// A rule is named by its id, or by `FIRSTMATCH_OPERATION(index)`: the rule that an earlier operation of the list inserts.
#[derive(Debug)]
pub struct UpdateHandle(());

/// Update as it stands behind its handle.
#[derive(Debug, Default)]
pub(crate) struct UpdateValue {
    operations: Vec<Operation>,
}

impl Handle for UpdateHandle {
    const MAGIC: u64 = 0x6669_7273_7455_5044;
    const NAME: &'static str = "the update";
    type Value = UpdateValue;
}

/// Rule that an operation names.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reference {
    Id(RuleId),
    Operation(usize),
}

#[derive(Debug)]
pub(crate) enum Operation {
    Before(Reference, OwnedRule),
    After(Reference, OwnedRule),
    First(OwnedRule),
    Last(OwnedRule),
    At(Priority, OwnedRule),
    Remove(Reference),
    Replace(Reference, OwnedRule),
    SetInsert(String, Member),
    SetRemove(String, Member),
    SetReplace(String, Vec<Member>),
}

impl UpdateValue {
    /// Returns the rule that a number names.
    fn reference(&self, rule: u64) -> Result<Reference, Failure> {
        if let Some(id) = RuleId::from_u64(rule) {
            return Ok(Reference::Id(id));
        }
        let index = (rule >> 32).checked_sub(1).and_then(|index| usize::try_from(index).ok());
        match index.and_then(|index| self.operations.get(index).map(|operation| (index, operation))) {
            Some((_, operation)) if !operation.inserts() => Err(unnumbered()),
            None => Err(unnumbered()),
            Some((index, _)) => Ok(Reference::Operation(index)),
        }
    }
}

impl Operation {
    /// Whether the operation inserts a rule.
    fn inserts(&self) -> bool {
        !matches!(self, Self::Remove(_) | Self::SetInsert(..) | Self::SetRemove(..) | Self::SetReplace(..))
    }

    /// Does the operation and returns the id of the rule that it inserts; `given` has those of the operations before it.
    fn run(&self, update: &mut Update<'_>, given: &[Option<RuleId>]) -> Result<Option<RuleId>, Failure> {
        let id = |reference: Reference| match reference {
            Reference::Id(id) => Ok(id),
            Reference::Operation(index) => {
                let id = given.get(index).copied().flatten();
                id.ok_or_else(|| Failure::new(Status::Internal, "an operation inserted no rule"))
            }
        };
        Ok(Some(match self {
            Self::Before(next, rule) => update.insert_before(id(*next)?, rule)?,
            Self::After(previous, rule) => update.insert_after(id(*previous)?, rule)?,
            Self::First(rule) => update.prepend(rule)?,
            Self::Last(rule) => update.append(rule)?,
            Self::At(priority, rule) => update.insert_at(*priority, rule)?,
            Self::Replace(old, rule) => update.replace(id(*old)?, rule)?,
            Self::Remove(rule) => {
                update.remove(id(*rule)?)?;
                return Ok(None);
            }
            Self::SetInsert(set, member) => {
                update.insert_member(update.set(set)?, *member)?;
                return Ok(None);
            }
            Self::SetRemove(set, member) => {
                update.remove_member(update.set(set)?, *member)?;
                return Ok(None);
            }
            Self::SetReplace(set, members) => {
                update.replace_members(update.set(set)?, members.iter().copied())?;
                return Ok(None);
            }
        }))
    }
}

/// Adds an operation to an update.
///
/// # Safety
/// `update` must be null or a handle of this library that no other call uses.
pub(crate) unsafe fn record(
    update: *mut UpdateHandle,
    reference: Option<u64>,
    make: impl FnOnce(Option<Reference>) -> Result<Operation, Failure>,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let mut update = unsafe { guard::lease(update) }?;
        let reference = reference.map(|rule| update.reference(rule)).transpose()?;
        let operation = make(reference)?;
        update.operations.push(operation);
        Ok(())
    })
}

#[cold]
fn unnumbered() -> Failure {
    Failure::invalid("no rule and no insertion has this number")
}

#[cold]
fn unnamed() -> Failure {
    Failure::new(Status::Internal, "the operation names no rule")
}

/// Makes an empty update. It belongs to no firewall.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_new(update: *mut *mut UpdateHandle) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        unsafe { Out::handle(update) }?.give(UpdateValue::default());
        Ok(())
    })
}

/// Frees an update; null is none. Nothing that was not committed is done.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_free(update: *mut UpdateHandle) -> i32 {
    // SAFETY: the caller's promise.
    guard::call(|| unsafe { guard::close(update) })
}

/// Removes every operation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_clear(update: *mut UpdateHandle) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        unsafe { guard::lease(update) }?.operations.clear();
        Ok(())
    })
}

/// Writes the number of operations.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_count(update: *mut UpdateHandle, count: *mut usize) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (update, out) = unsafe { (guard::lease(update)?, Out::new(count, "count")?) };
        out.set(update.operations.len());
        Ok(())
    })
}

/// Inserts a rule directly before another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_insert_before(
    update: *mut UpdateHandle,
    next: u64,
    rule: *const RuleC,
) -> i32 {
    // SAFETY: the caller's promise.
    let make = |next: Option<_>| Ok(Operation::Before(next.ok_or_else(unnamed)?, unsafe { RuleC::read(rule) }?));
    // SAFETY: the caller's promise.
    unsafe { record(update, Some(next), make) }
}

/// Inserts a rule directly behind another one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_insert_after(
    update: *mut UpdateHandle,
    previous: u64,
    rule: *const RuleC,
) -> i32 {
    // SAFETY: the caller's promise.
    let make = |old: Option<_>| Ok(Operation::After(old.ok_or_else(unnamed)?, unsafe { RuleC::read(rule) }?));
    // SAFETY: the caller's promise.
    unsafe { record(update, Some(previous), make) }
}

/// Inserts a rule before all others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_prepend(update: *mut UpdateHandle, rule: *const RuleC) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { record(update, None, |_| Ok(Operation::First(RuleC::read(rule)?))) }
}

/// Inserts a rule behind all others.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_append(update: *mut UpdateHandle, rule: *const RuleC) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { record(update, None, |_| Ok(Operation::Last(RuleC::read(rule)?))) }
}

/// Inserts a rule at a priority that no live rule has; the smaller wins. Line `n` of a file has the priority `n << 32`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_insert_at(
    update: *mut UpdateHandle,
    priority: u64,
    rule: *const RuleC,
) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { record(update, None, |_| Ok(Operation::At(Priority(priority), RuleC::read(rule)?))) }
}

/// Removes a rule.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_remove(update: *mut UpdateHandle, rule: u64) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { record(update, Some(rule), |rule| Ok(Operation::Remove(rule.ok_or_else(unnamed)?))) }
}

/// Puts a rule in another one's place, under a new id.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_replace(update: *mut UpdateHandle, old: u64, rule: *const RuleC) -> i32 {
    // SAFETY: the caller's promise.
    let make = |old: Option<_>| Ok(Operation::Replace(old.ok_or_else(unnamed)?, unsafe { RuleC::read(rule) }?));
    // SAFETY: the caller's promise.
    unsafe { record(update, Some(old), make) }
}

/// Does all operations at once and clears the update. Every batch that starts afterwards sees them.
///
/// An update without operations makes no generation. One of more insertions than may wait for a rebuild builds a new
/// engine, still as one generation: this takes as long as a rebuild, and workers go on meanwhile.
///
/// `ids` has room for `capacity` ids, at least one for each operation, or is null. The id is 0 for a removal and for a
/// change of a live set.
/// `generation` may be null. On failure nothing is changed, the update keeps its operations, and the error object names
/// the operation that failed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_update_commit(
    update: *mut UpdateHandle,
    firewall: *const FirewallHandle,
    flags: u32,
    ids: *mut u64,
    capacity: usize,
    generation: *mut u64,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let (mut recorded, firewall) = unsafe { (guard::lease(update)?, guard::share(firewall)?) };
        let count = recorded.operations.len();
        guard::check_array(ids, if ids.is_null() { 0 } else { count }, "ids")?;
        if !ids.is_null() && capacity < count {
            return Err(Failure::invalid(format!("there is room for {capacity} ids, of {count}")));
        }
        if flags & !FIRSTMATCH_NO_WAIT != 0 {
            return Err(Failure::new(Status::Unsupported, "the commit has unknown flags"));
        }
        if !generation.is_aligned() {
            return Err(Failure::invalid("generation is unaligned"));
        }
        let mut update = firewall.firewall.update();
        let mut given = Vec::with_capacity(count);
        for (index, operation) in recorded.operations.iter().enumerate() {
            given.push(operation.run(&mut update, &given).map_err(|failure| failure.of_operation(index))?);
        }
        let done = if flags & FIRSTMATCH_NO_WAIT == 0 { update.commit()? } else { update.try_commit()? };
        for (index, id) in given.iter().enumerate().filter(|_| !ids.is_null()) {
            // SAFETY: `capacity` places, which are at least as many as operations, by the caller's promise.
            unsafe { ids.add(index).write(id.map_or(0, RuleId::get)) }
        }
        if !generation.is_null() {
            // SAFETY: the caller's promise.
            unsafe { generation.write(done) }
        }
        recorded.operations.clear();
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}
