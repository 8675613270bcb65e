//! Firewalls: rules in service.

use std::ffi::c_char;
use std::sync::atomic::{AtomicUsize, Ordering};

use firstmatch::Firewall;

use crate::error::{ErrorHandle, call_with};
use crate::guard::{self, Handle, Out};
use crate::options::OptionsC;
use crate::status::Failure;

/// Rules in service, for any number of threads. The handle is counted.
#[derive(Debug)]
pub struct FirewallHandle(());

/// Firewall as it stands behind its handle.
#[derive(Debug)]
pub(crate) struct FirewallValue {
    pub(crate) firewall: Firewall,
    references: AtomicUsize,
}

impl Handle for FirewallHandle {
    const MAGIC: u64 = 0x6669_7273_7446_5752;
    const NAME: &'static str = "the firewall";
    type Value = FirewallValue;
}

impl From<Firewall> for FirewallValue {
    fn from(firewall: Firewall) -> Self {
        Self { firewall, references: AtomicUsize::new(1) }
    }
}

/// Builds a firewall from the text of a rule file, `length` bytes of UTF-8. Null options are the defaults.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_from_text(
    rules: *const c_char,
    length: usize,
    options: *const OptionsC,
    firewall: *mut *mut FirewallHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let (out, text, builder) = unsafe {
            let out = Out::handle(firewall)?;
            (out, guard::text(rules, length, "rules")?, OptionsC::read(options)?.builder()?)
        };
        out.give(builder.build(text)?.into());
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}

/// Adds a reference, which is released like the first one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_retain(firewall: *mut FirewallHandle) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let firewall = unsafe { guard::share(firewall.cast_const()) }?;
        let more = |count: usize| (count < usize::MAX / 2).then(|| count + 1);
        let added = firewall.references.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        added.map(drop).map_err(|_| Failure::invalid("there are too many references"))
    })
}

/// Releases a reference; the last one frees the firewall. Null is none. Workers go on with the rules.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_release(firewall: *mut FirewallHandle) -> i32 {
    guard::call(|| {
        if firewall.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let references = unsafe { guard::counted(firewall.cast_const()) }?.references.fetch_sub(1, Ordering::AcqRel);
        // SAFETY: the caller's promise; there is no other reference.
        if references == 1 { unsafe { guard::close(firewall) } } else { Ok(()) }
    })
}
