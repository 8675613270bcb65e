//! Questions to a firewall, and its rebuilds.

use std::ffi::CString;

use firstmatch::RuleId;
use firstmatch::core::Stats;

use crate::error::{ErrorHandle, TextHandle, c_text, call_with};
use crate::firewall::FirewallHandle;
use crate::guard::{self, Out};
use crate::status::{Failure, Status};
use crate::worker::{Decision, link_of};

/// Packets and bytes that were counted for a rule.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct CountC {
    /// Number of packets.
    pub packets: u64,
    /// Number of bytes in these packets, on the wire.
    pub bytes: u64,
}

/// Size and worst case of the rules of one schema.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct StatsC {
    /// Size of this struct in bytes.
    pub size: u32,
    /// 0.
    pub reserved: u32,
    /// Number of rules with at least one region.
    pub rules: u64,
    /// Number of regions.
    pub regions: u64,
    /// Bytes on the heap.
    pub bytes: u64,
    /// Largest number of cache lines that a lookup can be made to touch.
    pub worst_lines: u64,
    /// Largest number of regions that a lookup can be made to test.
    pub worst_tests: u64,
}

impl StatsC {
    fn new(stats: &Stats) -> Self {
        Self {
            size: size_of::<Self>() as u32,
            reserved: 0,
            rules: stats.rules as u64,
            regions: stats.regions as u64,
            bytes: stats.total_bytes() as u64,
            worst_lines: stats.worst_lines as u64,
            worst_tests: stats.worst_tests as u64,
        }
    }
}

fn id_of(number: u64) -> Result<RuleId, Failure> {
    RuleId::from_u64(number).ok_or_else(|| Failure::invalid(format!("{number} is no id of a rule")))
}

/// Writes a text about a firewall.
///
/// # Safety
/// `firewall` and `text` must be null or what their types say.
unsafe fn tell(
    firewall: *const FirewallHandle,
    text: *mut *mut TextHandle,
    of: impl FnOnce(&firstmatch::Firewall) -> Result<CString, Failure>,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (out, firewall) = unsafe { (Out::handle(text)?, guard::share(firewall)?) };
        out.give(of(&firewall.firewall)?);
        Ok(())
    })
}

/// Writes the number of live rules. It waits for an update in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_rule_count(firewall: *const FirewallHandle, count: *mut usize) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (firewall, out) = unsafe { (guard::share(firewall)?, Out::new(count, "count")?) };
        out.set(firewall.firewall.len());
        Ok(())
    })
}

/// Writes the number of commits so far.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_generation(firewall: *const FirewallHandle, generation: *mut u64) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (firewall, out) = unsafe { (guard::share(firewall)?, Out::new(generation, "generation")?) };
        out.set(firewall.firewall.generation());
        Ok(())
    })
}

/// Writes the ids of live rules, the first to match first, up to `capacity` of them, and to `count` how many there are.
///
/// It waits for an update in progress. `ids` may be null if `capacity` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_rules(
    firewall: *const FirewallHandle,
    ids: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (firewall, out) = unsafe { (guard::share(firewall)?, Out::new(count, "count")?) };
        guard::check_array(ids, capacity, "ids")?;
        let update = firewall.firewall.update();
        let mut rules = 0;
        for (index, rule) in update.rules().enumerate() {
            if index < capacity {
                // SAFETY: there is room for `capacity` ids by the caller's promise.
                unsafe { ids.add(index).write(rule.id.get()) }
            }
            rules = index + 1;
        }
        out.set(rules);
        Ok(())
    })
}

/// Writes a live rule as text. It waits for an update in progress.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_rule_text(
    firewall: *const FirewallHandle,
    rule: u64,
    text: *mut *mut TextHandle,
) -> i32 {
    let of = |firewall: &firstmatch::Firewall| {
        let id = id_of(rule)?;
        if let Some(text) = firewall.rule(id) {
            return Ok(c_text(&text));
        }
        let is_live = firewall.update().rules().any(|rule| rule.id == id);
        let (status, why) = match is_live {
            true => (Status::Unsupported, "the format of rules cannot say this rule"),
            false => (Status::Stale, "the rule was removed"),
        };
        Err(Failure::new(status, why))
    };
    // SAFETY: the caller's promise.
    unsafe { tell(firewall, text, of) }
}

/// Writes packets and bytes of `count` rules, live or removed, which workers have counted so far. It waits for nothing.
///
/// The firewall must count (`FIRSTMATCH_COUNTERS`).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_counts(
    firewall: *const FirewallHandle,
    rules: *const u64,
    count: usize,
    counts: *mut CountC,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let (firewall, rules) = unsafe { (guard::share(firewall)?, guard::array(rules, count, "rules")?) };
        guard::check_array(counts, count, "counts")?;
        let off = || Failure::new(Status::Unsupported, "the firewall was built without FIRSTMATCH_COUNTERS");
        rules.iter().try_for_each(|&rule| id_of(rule).map(drop))?;
        for (index, &rule) in rules.iter().enumerate() {
            let counted = firewall.firewall.count(id_of(rule)?).ok_or_else(off)?;
            // SAFETY: there is room for `count` counts by the caller's promise.
            unsafe { counts.add(index).write(CountC { packets: counted.packets, bytes: counted.bytes }) }
        }
        Ok(())
    })
}

/// Explains what happens to a frame, as a few lines of text. `decision` may be null. Nothing is counted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_explain(
    firewall: *const FirewallHandle,
    link: u32,
    frame: *const u8,
    length: usize,
    decision: *mut Decision,
    text: *mut *mut TextHandle,
) -> i32 {
    let of = |firewall: &firstmatch::Firewall| {
        // SAFETY: the caller's promise.
        let frame = unsafe { guard::array(frame, length, "frame") }?;
        if !decision.is_aligned() {
            return Err(Failure::invalid("decision is unaligned"));
        }
        let explained = firewall.explain(link_of(link)?, frame);
        if !decision.is_null() {
            // SAFETY: the caller's promise.
            unsafe { decision.write((&explained.decision).into()) }
        }
        Ok(c_text(&explained.to_string()))
    };
    // SAFETY: the caller's promise.
    unsafe { tell(firewall, text, of) }
}

/// Writes warnings about the text that the firewall was built from, one per line; an empty text without any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_warnings(
    firewall: *const FirewallHandle,
    text: *mut *mut TextHandle,
) -> i32 {
    let of = |firewall: &firstmatch::Firewall| {
        Ok(c_text(&firewall.warnings().iter().map(|warning| format!("{warning}\n")).collect::<String>()))
    };
    // SAFETY: the caller's promise.
    unsafe { tell(firewall, text, of) }
}

/// Writes which engine serves the rules of each schema, and why, as text for people.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_engines(
    firewall: *const FirewallHandle,
    text: *mut *mut TextHandle,
) -> i32 {
    let of = |firewall: &firstmatch::Firewall| {
        Ok(c_text(&firewall.engines().iter().map(|engine| format!("{engine}\n")).collect::<String>()))
    };
    // SAFETY: the caller's promise.
    unsafe { tell(firewall, text, of) }
}

/// Writes size and worst case of the rules of one schema. `size` is that of the caller's struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_stats(
    firewall: *const FirewallHandle,
    schema: usize,
    stats: *mut StatsC,
    size: usize,
) -> i32 {
    guard::call(|| {
        // SAFETY: the caller's promise.
        let firewall = unsafe { guard::share(firewall) }?;
        let all = firewall.firewall.stats();
        let found = all.get(schema).ok_or_else(|| Failure::invalid(format!("there are {} schemas", all.len())))?;
        // SAFETY: the caller's promise.
        unsafe { guard::init(stats, size, &StatsC::new(found), "stats") }
    })
}

/// Rebuilds the engine for the rules of now, on this thread, beside workers. On failure the old one stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_rebuild(
    firewall: *const FirewallHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        unsafe { guard::share(firewall) }?.firewall.rebuild()?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}

/// Gives all rules new priorities in the same order, so that there is room between any two of them again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn firstmatch_firewall_renumber(
    firewall: *const FirewallHandle,
    error: *mut *mut ErrorHandle,
) -> i32 {
    let body = || {
        // SAFETY: the caller's promise.
        unsafe { guard::share(firewall) }?.firewall.renumber()?;
        Ok(())
    };
    // SAFETY: the caller's promise.
    unsafe { call_with(error, body) }
}
