//! Firewalls: rules in service.

use std::collections::BTreeMap;
use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use firstmatch::core::rule::Priority;
use firstmatch::{Firewall, IntoRule, formats};

use crate::error::{ErrorHandle, c_text, call_with};
use crate::guard::{self, Handle, Out};
use crate::options::OptionsC;
use crate::rule::RuleC;
use crate::status::Failure;

/// Rules in service, for any number of threads. The handle is counted.
#[derive(Debug)]
pub struct FirewallHandle(());

/// Firewall as it stands behind its handle.
#[derive(Debug)]
pub(crate) struct FirewallValue {
    pub(crate) firewall: Firewall,
    /// Names of fields that callers have got; none ever moves or goes.
    names: Mutex<BTreeMap<String, CString>>,
    references: AtomicUsize,
}

impl Handle for FirewallHandle {
    const MAGIC: u64 = 0x6669_7273_7446_5752;
    const NAME: &'static str = "the firewall";
    type Value = FirewallValue;
}

impl From<Firewall> for FirewallValue {
    fn from(firewall: Firewall) -> Self {
        Self { firewall, names: Mutex::default(), references: AtomicUsize::new(1) }
    }
}

impl FirewallValue {
    /// Returns the name of a field, valid as long as the firewall.
    pub(crate) fn name(&self, field: &str) -> *const c_char {
        let mut names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        // The bytes of a text stay where they are when its owner moves.
        names.entry(field.to_owned()).or_insert_with(|| c_text(field)).as_ptr()
    }
}

/// Result of a reload.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ReloadedC {
    /// Size of this struct in bytes.
    pub size: u32,
    /// 1 if fields or policy differ, so that all engines were built anew; otherwise 0.
    pub is_rebuilt: u32,
    /// Generation of the rules: a new one, or the old one if no packet can tell the difference.
    pub generation: u64,
    /// Number of rules that are as they were: they keep id and counts.
    pub kept: u64,
    /// Number of rules that are new, or have moved past others.
    pub inserted: u64,
    /// Number of rules that are gone.
    pub removed: u64,
}

/// Takes the rules of a text in place of the rules in service: all of them, as one generation, or none.
///
/// Rules that are in both, in the same order, keep id and counts and take the line of the text. Workers follow at their
/// next call. If fields or policy differ, all engines are built anew, beside the workers, and layouts must be made anew:
/// calls with an old layout answer `FIRSTMATCH_INVALID_ARGUMENT`. Rules of updates that the text lacks are removed.
///
/// `reloaded` may be null; `size` is that of the caller's struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_reload(
    firewall: *const FirewallHandle,
    rules: *const c_char,
    length: usize,
    reloaded: *mut ReloadedC,
    size: usize,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let (firewall, text) = unsafe { (guard::share(firewall)?, guard::text(rules, length, "rules")?) };
        let mut value = ReloadedC {
            size: size_of::<ReloadedC>() as u32,
            is_rebuilt: 0,
            generation: 0,
            kept: 0,
            inserted: 0,
            removed: 0,
        };
        if !reloaded.is_null() {
            // A struct that cannot be written is found before anything changes.
            // SAFETY: the caller's promise.
            unsafe { guard::init(reloaded, size, &value, "reloaded") }?;
        }
        let done = firewall.firewall.reload(text)?;
        value.is_rebuilt = done.is_rebuilt.into();
        value.generation = done.generation;
        (value.kept, value.inserted, value.removed) = (done.kept as u64, done.inserted as u64, done.removed as u64);
        // SAFETY: the caller's promise.
        if reloaded.is_null() { Ok(()) } else { unsafe { guard::init(reloaded, size, &value, "reloaded") } }
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
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

/// Builds a firewall from the text of a rule file and `count` rules behind those of the text.
///
/// The text has the policy and may be empty, or be rules itself. All fields can be tested with `FIRSTMATCH_ALL_FIELDS`,
/// otherwise the 5-tuple and the fields that the text tests. `rule_size` is the size of a rule in the caller's header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_from_rules(
    text: *const c_char,
    length: usize,
    rules: *const RuleC,
    rule_size: usize,
    count: usize,
    options: *const OptionsC,
    firewall: *mut *mut FirewallHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        let (out, text, options) = unsafe {
            let out = Out::handle(firewall)?;
            (out, guard::text(text, length, "text")?, OptionsC::read(options)?)
        };
        // SAFETY: the caller's promise.
        let (rules, builder) = unsafe { (guard::strided(rules, rule_size, count, "rules")?, options.builder()?) };
        let formats = options.formats();
        let mut file = formats::parse(text, &formats).map_err(firstmatch::Error::from)?;
        let mut last = file.rules.iter().next_back().map_or(0, |rule| rule.priority.0);
        for (index, rule) in rules.enumerate() {
            // SAFETY: the caller's promise.
            let rule = unsafe { RuleC::read(rule) }.map_err(|failure| failure.of_operation(index))?;
            last =
                last.checked_add(Priority::of_line(1).0).ok_or_else(|| Failure::invalid("there are too many rules"))?;
            let spec = (&rule).into_rule(&file.rules, Priority(last), &formats).map(|(spec, _)| spec);
            let inserted = spec.and_then(|spec| Ok(file.rules.insert(spec)?));
            inserted.map_err(|error| Failure::from(error).of_operation(index))?;
        }
        out.give(builder.build_set(file.rules, file.policy)?.into());
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
