//! Firewalls: rules in service.

use std::ffi::{CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

use firstmatch::core::Schema;
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
    /// Names of fields, by schema.
    pub(crate) names: Vec<Vec<CString>>,
    references: AtomicUsize,
}

impl Handle for FirewallHandle {
    const MAGIC: u64 = 0x6669_7273_7446_5752;
    const NAME: &'static str = "the firewall";
    type Value = FirewallValue;
}

/// Returns the names of all fields, by schema.
fn schema_names(schemas: &[Schema]) -> Vec<Vec<CString>> {
    let of_schema = |schema: &Schema| schema.fields().iter().map(|field| c_text(field.name())).collect();
    schemas.iter().map(of_schema).collect()
}

impl From<Firewall> for FirewallValue {
    fn from(firewall: Firewall) -> Self {
        let names = schema_names(&firewall.schemas());
        Self { firewall, names, references: AtomicUsize::new(1) }
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
