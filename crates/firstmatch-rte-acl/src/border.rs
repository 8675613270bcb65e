//! Functions under their C names: arguments are checked, panics are caught, and errors become numbers.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use crate::abi::{Code, Config, FieldDef, MAX_CATEGORIES, MAX_FIELDS, MemHook, Param, status};
use crate::classify::Call;
use crate::context::{self, Context, Hook, find, lock};
use crate::{dump, eal};

/// Runs the body of a function; a panic, which would be a mistake of this library, becomes `-EINVAL`.
#[inline(always)]
fn guarded(body: impl FnOnce() -> Result<(), Code>) -> c_int {
    catch_unwind(AssertUnwindSafe(body)).map_or(-Code::Invalid.number(), status)
}

/// Runs the body of a function that answers by a handle; an error is stored in `rte_errno`.
pub(crate) fn handle(body: impl FnOnce() -> Result<&'static Context, Code>) -> *mut Context {
    match catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Code::Invalid)) {
        Ok(context) => std::ptr::from_ref(context).cast_mut(),
        Err(code) => {
            eal::set_errno(code);
            null_mut()
        }
    }
}

/// Creates a context, or returns the one that has this name, whatever the other parameters are.
///
/// It returns null with `rte_errno` EINVAL without parameters or a name, and ENOMEM without memory or for a socket that
/// does not exist.
///
/// # Safety
/// `param` must be null or lead to parameters, whose name must be null or end with NUL.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_create(param: *const Param) -> *mut Context {
    handle(|| {
        if param.is_null() {
            return Err(Code::Invalid);
        }
        // SAFETY: the caller's promise.
        let param = unsafe { param.read_unaligned() };
        if param.name.is_null() {
            return Err(Code::Invalid);
        }
        // SAFETY: the caller's promise.
        context::create(unsafe { CStr::from_ptr(param.name) }, &param)
    })
}

/// Returns the context of a name, or null with `rte_errno` ENOENT.
///
/// # Safety
/// `name` must be null or end with NUL.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_find_existing(name: *const c_char) -> *mut Context {
    handle(|| {
        if name.is_null() {
            return Err(Code::Invalid);
        }
        // SAFETY: the caller's promise.
        context::existing(unsafe { CStr::from_ptr(name) }).ok_or(Code::Missing)
    })
}

/// Frees a context; does nothing for null and for handles that are not live.
///
/// # Safety
/// No lookup may use the context.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_free(ctx: *mut Context) {
    guarded(|| {
        context::free(ctx);
        Ok(())
    });
}

/// Adds `num` rules, or none of them if one is wrong.
///
/// It returns `-EINVAL` for a rule without a category or with a priority outside 1 to 2^29 - 1, and `-ENOMEM` beyond
/// the largest number of rules.
///
/// # Safety
/// `rules` must be null or lead to `num` rules of the size that the context was created with.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_add_rules(ctx: *mut Context, rules: *const c_void, num: u32) -> c_int {
    guarded(|| {
        let context = find(ctx).ok_or(Code::Invalid)?;
        // SAFETY: the caller's promise.
        unsafe { context.add(rules.cast(), num as usize) }
    })
}

/// Removes every rule; the built table stays.
///
/// # Safety
/// None is needed: a handle that is not live is ignored.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_reset_rules(ctx: *mut Context) {
    guarded(|| {
        find(ctx).ok_or(Code::Invalid)?.reset(false);
        Ok(())
    });
}

/// Removes every rule and the built table.
///
/// # Safety
/// None is needed: a handle that is not live is ignored.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_reset(ctx: *mut Context) {
    guarded(|| {
        find(ctx).ok_or(Code::Invalid)?.reset(true);
        Ok(())
    });
}

/// Builds the table that lookups use. Lookups of other threads may go on, with the old table until then.
///
/// It returns `-EINVAL` for a wrong configuration, and the old table stays. It returns `-EINVAL` if no rule has a built
/// category or a rule is malformed, `-ERANGE` if the table would exceed `max_size`, and `-ENOMEM` without memory; then
/// there is no table any more.
///
/// # Safety
/// `cfg` must be null or lead to a configuration.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_build(ctx: *mut Context, cfg: *const Config) -> c_int {
    guarded(|| {
        let context = find(ctx).filter(|_| !cfg.is_null()).ok_or(Code::Invalid)?;
        // SAFETY: the caller's promise. Only definitions in use are read, because others may not be initialized.
        let (categories, count, max_size) = unsafe {
            let number = |field: *const u32| field.read_unaligned();
            (number(&raw const (*cfg).num_categories), number(&raw const (*cfg).num_fields), &raw const (*cfg).max_size)
        };
        if !(1..=MAX_FIELDS as u32).contains(&count) {
            return Err(Code::Invalid);
        }
        let mut defs = [FieldDef::default(); MAX_FIELDS];
        let defs = &mut defs[..count as usize];
        for (at, def) in defs.iter_mut().enumerate() {
            // SAFETY: there are as many definitions in use.
            *def = unsafe { (&raw const (*cfg).defs).cast::<FieldDef>().add(at).read_unaligned() };
        }
        // SAFETY: as above.
        context.build(categories, defs, unsafe { max_size.read_unaligned() })
    })
}

/// Looks keys up, all in one generation of the rules.
///
/// Result `categories * i + c` is the user data of the rule with the highest priority in category `c` that matches key
/// `i`, or 0.
///
/// It returns `-EINVAL` unless `categories` is 1 or a multiple of 4 up to 16, or without a table, and `-ENOMEM` if this
/// thread's state for a new table cannot be allocated; no result is written then.
///
/// # Safety
/// `ctx` must be null or a handle of this library. `data` must lead to `num` pointers, each null or to a key whose
/// fields are readable. `results` must have room for `num * categories` results, which overlap no key or pointer.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_classify(
    ctx: *const Context,
    data: *mut *const u8,
    results: *mut u32,
    num: u32,
    categories: u32,
) -> c_int {
    guarded(|| {
        let call = Call { data, results, num: num as usize, categories: categories as usize };
        call.check()?;
        // SAFETY: the caller's promise.
        unsafe { call.run(Context::of(ctx)?) }
    })
}

/// Looks keys up as [`rte_acl_classify`] does, for every algorithm of this machine.
///
/// It returns `-ENOTSUP` for an algorithm that this machine lacks, and `-EINVAL` for an unknown one.
///
/// # Safety
/// As for [`rte_acl_classify`].
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_classify_alg(
    ctx: *const Context,
    data: *mut *const u8,
    results: *mut u32,
    num: u32,
    categories: u32,
    alg: c_int,
) -> c_int {
    if alg != eal::DEFAULT
        && let Err(code) = eal::check_algorithm(alg)
    {
        return -code.number();
    }
    // SAFETY: the caller's promise.
    unsafe { rte_acl_classify(ctx, data, results, num, categories) }
}

/// Looks keys up as [`rte_acl_classify`] does; DPDK exports it, although no public header has it.
///
/// # Safety
/// As for [`rte_acl_classify`].
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_classify_scalar(
    ctx: *const Context,
    data: *mut *const u8,
    results: *mut u32,
    num: u32,
    categories: u32,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { rte_acl_classify(ctx, data, results, num, categories) }
}

/// Sets the number of the algorithm that [`rte_acl_dump`] shows; lookups do not depend on it.
///
/// It returns `-ENOTSUP` for an algorithm that this machine lacks, and `-EINVAL` for an unknown one.
///
/// # Safety
/// None is needed: a handle that is not live is refused.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_set_ctx_classify(ctx: *mut Context, alg: c_int) -> c_int {
    guarded(|| {
        let context = find(ctx).ok_or(Code::Invalid)?;
        let alg = if alg == eal::DEFAULT { eal::best_algorithm() } else { alg };
        eal::check_algorithm(alg)?;
        context.algorithm.store(alg, Ordering::Relaxed);
        Ok(())
    })
}

/// Prints a context.
///
/// # Safety
/// None is needed: a handle that is not live is ignored.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_dump(ctx: *const Context) {
    guarded(|| {
        dump::print(find(ctx).ok_or(Code::Invalid)?);
        Ok(())
    });
}

/// Prints every context.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub extern "C" fn rte_acl_list_dump() {
    guarded(|| {
        context::all().into_iter().for_each(dump::print);
        Ok(())
    });
}

/// Keeps a memory hook for [`rte_acl_get_mem_hook`]. It is never called, because engines use the process's allocator.
///
/// It returns `-EINVAL` if one of its functions is null.
///
/// # Safety
/// `hook` must be null or lead to a hook.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_set_mem_hook(ctx: *mut Context, hook: *const MemHook) -> c_int {
    guarded(|| {
        let context = find(ctx).filter(|_| !hook.is_null()).ok_or(Code::Invalid)?;
        // SAFETY: the caller's promise; a null function is `None`.
        let hook = unsafe { hook.read_unaligned() };
        if hook.zalloc.is_none() || hook.free.is_none() {
            return Err(Code::Invalid);
        }
        lock(&context.rules).hook = Hook(Some(hook));
        Ok(())
    })
}

/// Returns the memory hook that was set; its functions are null before.
///
/// # Safety
/// `hook` must be null or have room for a hook.
#[cfg_attr(feature = "exports", unsafe(no_mangle))]
pub unsafe extern "C" fn rte_acl_get_mem_hook(ctx: *const Context, hook: *mut MemHook) -> c_int {
    guarded(|| {
        let context = find(ctx).filter(|_| !hook.is_null()).ok_or(Code::Invalid)?;
        let Hook(kept) = lock(&context.rules).hook;
        // SAFETY: the caller's promise.
        unsafe { hook.write_unaligned(kept.unwrap_or(MemHook { zalloc: None, free: None, udata: null_mut() })) };
        Ok(())
    })
}

const _: () = assert!(MAX_CATEGORIES <= u16::BITS, "engines of a category are bits");
