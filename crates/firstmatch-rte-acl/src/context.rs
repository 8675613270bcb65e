//! Contexts: handles that C holds, and the registry of them.
//!
//! The memory of a handle is never returned to the system, but used again for another context. A handle that was freed
//! can thus be told from a live one by its magic word.
//!
//! # Invariants
//! - A live handle has the magic word, and a freed one has not (test `a_freed_handle_is_refused` of `tests/bad.rs`).
//! - `version` is that of the table in `built`, or 0 without one (`Context::publish`).
//! - The counters in `Rules` are those of the first rules, by index; a removed rule has none (`Rules::remove`).

use std::collections::TryReserveError;
use std::ffi::CStr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::abi::{Code, MemHook, NAME_SIZE, RuleName};
use crate::counts::{COUNTER_BYTES, Counted, Gone};
use crate::kept::{Head, Kept};
use crate::table::{Checked, Table, reserve, reserve_small};
use crate::{abi, eal, retired};

const MAGIC: u64 = 0x6669_7273_746d_6163;

/// Context, as a handle of C: opaque, and aligned to cache lines because its version is read by each call.
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Context {
    magic: AtomicU64,
    /// Number of this handle among all of the process, by which threads keep their sessions.
    pub(crate) slot: usize,
    /// Version of the table; 0 without one.
    pub(crate) version: AtomicU64,
    pub(crate) algorithm: AtomicI32,
    /// Name without NUL; a lock of its own, so that names are compared beside a build.
    name: Mutex<Vec<u8>>,
    /// Locked for a moment only, and after `rules` where both are locked.
    built: Mutex<Built>,
    pub(crate) rules: Mutex<Rules>,
}

/// Table that lookups use, and results of rules that it lacks.
#[derive(Debug, Default)]
struct Built {
    table: Option<Arc<Table>>,
    gone: Gone,
}

/// Rules and parameters of a context.
#[derive(Debug, Default)]
pub(crate) struct Rules {
    pub(crate) socket_id: i32,
    pub(crate) rule_size: u32,
    pub(crate) max_rules: u32,
    pub(crate) kept: Kept,
    pub(crate) hook: Hook,
    /// Configuration of the last build.
    config: Option<Checked>,
    /// Whether the next table counts results.
    pub(crate) is_counting: bool,
    /// Counters of the first rules, none for removed ones; the next build makes those of the others.
    counted: Vec<Option<Counted>>,
    /// Counters of removed rules that the table still has.
    leaving: Vec<Option<Counted>>,
}

impl Rules {
    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.kept.bytes() + (self.counted.capacity() + self.leaving.capacity()) * size_of::<Option<Counted>>()
    }

    /// Removes the rules of each name; returns their number.
    ///
    /// # Errors
    /// If there is no memory; no rule is removed then.
    fn remove(&mut self, names: &[RuleName]) -> Result<usize, TryReserveError> {
        let Self { kept, counted, leaving, .. } = self;
        let found = kept.find(names)?;
        leaving.try_reserve(if counted.is_empty() { 0 } else { found })?;
        let mut remove = |&name: &RuleName| {
            kept.remove(name, |index| leaving.extend(counted.get_mut(index).and_then(Option::take).map(Some)))
        };
        Ok(names.iter().map(&mut remove).sum())
    }

    /// Returns a copy without counters.
    ///
    /// # Errors
    /// If there is no memory.
    fn copy(&self) -> Result<Self, Code> {
        reserve_small()?;
        let Self { socket_id, rule_size, max_rules, hook, is_counting, .. } = *self;
        let (kept, config) = (self.kept.copy().map_err(|_| Code::NoMemory)?, self.config.clone());
        let (counted, leaving) = (Vec::new(), Vec::new());
        Ok(Self { socket_id, rule_size, max_rules, kept, hook, config, is_counting, counted, leaving })
    }

    /// Removes every rule.
    fn clear(&mut self) {
        self.kept.clear();
        match self.leaving.is_empty() {
            true => self.leaving = std::mem::take(&mut self.counted),
            false => self.leaving.append(&mut self.counted),
        }
    }

    /// Returns the counters for a table; none unless results are counted.
    ///
    /// # Errors
    /// If there is no memory.
    fn counters(&mut self) -> Result<Box<[Counted]>, Code> {
        if !self.is_counting {
            (self.counted, self.leaving) = (Vec::new(), Vec::new());
            return Ok(Box::default());
        }
        let new = self.counted.len()..self.kept.places();
        reserve(new.len() * 2 * COUNTER_BYTES)?;
        self.counted.try_reserve_exact(new.len()).map_err(|_| Code::NoMemory)?;
        let Self { kept, counted, .. } = self;
        counted.extend(new.map(|index| (!kept.is_gone(index)).then(|| Counted::new(kept.head(index)))));
        let mut all = Vec::new();
        all.try_reserve_exact(kept.len()).map_err(|_| Code::NoMemory)?;
        all.extend(counted.iter().flatten().cloned());
        Ok(all.into())
    }

    /// Builds a table of the rules.
    ///
    /// # Errors
    /// As for [`Table::build`].
    fn table(&mut self, config: &Checked) -> Result<Table, Code> {
        reserve_small()?;
        self.kept.pack().map_err(|_| Code::NoMemory)?;
        if self.kept.is_sparse() {
            // Counters of removed rules have left already.
            let (kept, mut index) = (&self.kept, 0..);
            self.counted.retain(|_| index.next().is_some_and(|index| !kept.is_gone(index)));
            self.kept.compact();
        }
        let counters = self.counters()?;
        Table::build(&self.kept, config, self.rule_size as usize, counters)
    }
}

/// Memory hook of DPDK 26.03 and later, which is kept for the caller alone.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hook(pub(crate) Option<MemHook>);

// SAFETY: its pointers are only handed back to the caller, never followed here.
unsafe impl Send for Hook {}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table").field("version", &self.version).field("schema", &self.schema).finish_non_exhaustive()
    }
}

/// Locks a mutex, whatever happened to the thread that held it before.
///
/// A panic leaves no broken value behind, because every change ends by one assignment.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Registry {
    /// Live contexts, in the order of their creation.
    live: Vec<&'static Context>,
    /// Handles to be used again.
    free: Vec<&'static Context>,
    /// Number of handles, live or to be used again.
    handles: usize,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { live: Vec::new(), free: Vec::new(), handles: 0 });

/// Returns the name as far as names are compared: 32 bytes, of which C keeps 31.
fn compared(name: &CStr) -> &[u8] {
    let bytes = name.to_bytes();
    &bytes[..bytes.len().min(NAME_SIZE)]
}

/// Returns the context of a name.
pub(crate) fn existing(name: &CStr) -> Option<&'static Context> {
    lock(&REGISTRY).named(compared(name))
}

/// Returns every live context.
pub(crate) fn all() -> Vec<&'static Context> {
    lock(&REGISTRY).live.clone()
}

/// Returns the live context of a handle that may be null, freed or no handle at all.
pub(crate) fn find(handle: *const Context) -> Option<&'static Context> {
    lock(&REGISTRY).live.iter().copied().find(|&context| std::ptr::eq(context, handle))
}

/// Creates a context, or returns the one that has the name.
///
/// # Errors
/// If there is no memory, or the socket does not exist.
pub(crate) fn create(name: &CStr, param: &abi::Param) -> Result<&'static Context, Code> {
    let mut registry = lock(&REGISTRY);
    if let Some(context) = registry.named(compared(name)) {
        return Ok(context);
    }
    if !eal::has_socket(param.socket_id) {
        return Err(Code::NoMemory);
    }
    let rules = Rules {
        socket_id: param.socket_id,
        rule_size: param.rule_size,
        max_rules: param.max_rule_num,
        kept: Kept::new(param.rule_size as usize),
        ..Rules::default()
    };
    registry.add(name, rules, eal::best_algorithm())
}

/// Creates a context with the rules, parameters and configuration of another one, without a table.
///
/// # Errors
/// If there is a context of this name, or no memory.
pub(crate) fn copy(of: &Context, name: &CStr) -> Result<&'static Context, Code> {
    // The registry is locked only afterwards, because a build of the original may hold its rules for long.
    let rules = lock(&of.rules).copy()?;
    let mut registry = lock(&REGISTRY);
    match registry.named(compared(name)) {
        Some(_) => Err(Code::Exists),
        None => registry.add(name, rules, of.algorithm.load(Ordering::Relaxed)),
    }
}

/// Frees the context of a handle; does nothing if it is no live one.
pub(crate) fn free(handle: *const Context) {
    let mut registry = lock(&REGISTRY);
    let Some(at) = registry.live.iter().position(|&context| std::ptr::eq(context, handle)) else { return };
    let context = registry.live.remove(at);
    context.magic.store(0, Ordering::Release);
    drop(registry);
    let mut rules = lock(&context.rules);
    *rules = Rules::default();
    context.publish(None, &mut rules);
    lock(&context.built).gone = Gone::default();
    drop(rules);
    lock(&REGISTRY).free.push(context);
}

impl Registry {
    /// Adds a context under a name that no other has.
    ///
    /// # Errors
    /// If there is no memory.
    fn add(&mut self, name: &CStr, rules: Rules, algorithm: i32) -> Result<&'static Context, Code> {
        reserve_small()?;
        self.live.try_reserve(1).map_err(|_| Code::NoMemory)?;
        let context = self.free.pop().unwrap_or_else(|| {
            self.handles += 1;
            Box::leak(Box::new(Context::new(self.handles - 1)))
        });
        let kept = &compared(name)[..name.count_bytes().min(NAME_SIZE - 1)];
        *lock(&context.name) = kept.to_vec();
        *lock(&context.rules) = rules;
        context.algorithm.store(algorithm, Ordering::Relaxed);
        context.magic.store(MAGIC, Ordering::Release);
        self.live.push(context);
        Ok(context)
    }

    fn named(&self, name: &[u8]) -> Option<&'static Context> {
        self.live.iter().copied().find(|context| *lock(&context.name) == name)
    }
}

impl Context {
    fn new(slot: usize) -> Self {
        Self {
            magic: AtomicU64::new(0),
            slot,
            version: AtomicU64::new(0),
            algorithm: AtomicI32::new(0),
            name: Mutex::new(Vec::new()),
            built: Mutex::new(Built::default()),
            rules: Mutex::new(Rules::default()),
        }
    }

    /// Returns the context of a handle, for lookups: null, unaligned and freed handles are refused.
    ///
    /// # Safety
    /// Without these, the handle must come from this library.
    #[inline]
    pub(crate) unsafe fn of<'a>(handle: *const Self) -> Result<&'a Self, Code> {
        if handle.is_null() || !handle.is_aligned() {
            return Err(Code::Invalid);
        }
        // SAFETY: the memory of a handle is never returned to the system.
        let context = unsafe { &*handle };
        if context.magic.load(Ordering::Acquire) == MAGIC { Ok(context) } else { Err(Code::Invalid) }
    }

    /// Returns the table, if there is one.
    pub(crate) fn table(&self) -> Option<Arc<Table>> {
        lock(&self.built).table.clone()
    }

    /// Returns the table, if there is one, and the results of the rules that have left it.
    pub(crate) fn table_and_gone(&self) -> (Option<Arc<Table>>, u64) {
        let mut built = lock(&self.built);
        (built.table.clone(), built.gone.results())
    }

    /// Replaces the table by one of these rules.
    fn publish(&self, table: Option<Table>, rules: &mut Rules) {
        let version = table.as_ref().map_or(0, |table| table.version);
        let is_uncounted = table.is_some() && !rules.is_counting;
        let mut built = lock(&self.built);
        let old = std::mem::replace(&mut built.table, table.map(Arc::new));
        self.version.store(version, Ordering::Release);
        match is_uncounted {
            true => built.gone = Gone::default(),
            false => built.gone.add(std::mem::take(&mut rules.leaving)),
        }
        drop(built);
        if let Some(old) = old {
            old.is_retired.store(true, Ordering::Relaxed);
            retired::push(self.slot);
        }
    }

    /// Adds rules, or none of them.
    ///
    /// # Errors
    /// If a rule has no category or a wrong priority, or there is no room.
    ///
    /// # Safety
    /// `rules` must lead to `count` rules of the context's size.
    pub(crate) unsafe fn add(&self, rules: *const u8, count: usize) -> Result<(), Code> {
        let mut own = lock(&self.rules);
        let size = own.rule_size as usize;
        if rules.is_null() || size < abi::RULE_HEAD {
            return Err(Code::Invalid);
        }
        // SAFETY: the caller's promise. Bytes have no alignment.
        let rule = |at: usize| unsafe { std::slice::from_raw_parts(rules.add(at * size), size) };
        let is_good = |head: Head| head.category_mask & 0xFFFF != 0 && (1..=abi::MAX_PRIORITY).contains(&head.priority);
        if !(0..count).all(|at| is_good(Head::of(rule(at)))) {
            return Err(Code::Invalid);
        }
        if own.kept.len() + count > own.max_rules as usize {
            return Err(Code::NoMemory);
        }
        own.kept.reserve(count).map_err(|_| Code::NoMemory)?;
        (0..count).for_each(|at| own.kept.push(rule(at)));
        Ok(())
    }

    /// Returns the name.
    pub(crate) fn name(&self) -> Vec<u8> {
        lock(&self.name).clone()
    }

    /// Builds the table of a configuration. Lookups use the old one until then.
    ///
    /// # Errors
    /// If the configuration is wrong, the old table stays. If no rule has a built category, or as for [`Table::build`],
    /// there is no table any more.
    pub(crate) fn build(&self, categories: u32, defs: &[abi::FieldDef], max_size: usize) -> Result<(), Code> {
        let mut own = lock(&self.rules);
        let size = own.rule_size as usize;
        reserve_small()?;
        let config = Checked::new(categories, defs, max_size, size)?;
        // The original has destroyed its table by now, so a build that panics must leave none, either.
        let built = catch_unwind(AssertUnwindSafe(|| own.table(&config)));
        // The original refuses a build without rules.
        let table = built.unwrap_or(Err(Code::Invalid)).and_then(|table| match table.is_empty() {
            true => Err(Code::Invalid),
            false => Ok(table),
        });
        own.config = Some(config);
        let result = table.as_ref().map(|_| ()).map_err(|&code| code);
        self.publish(table.ok(), &mut own);
        result
    }

    /// Removes the rules of each name; returns their number. The table stays.
    ///
    /// # Errors
    /// If there is no memory; no rule is removed then.
    pub(crate) fn remove(&self, names: &[RuleName]) -> Result<usize, Code> {
        reserve_small()?;
        lock(&self.rules).remove(names).map_err(|_| Code::NoMemory)
    }

    /// Builds the table of the last configuration anew, perhaps without rules. The old table stays if that fails.
    ///
    /// # Errors
    /// If nothing was built before, or as for [`Table::build`].
    pub(crate) fn commit(&self) -> Result<(), Code> {
        let mut own = lock(&self.rules);
        let config = own.config.take().ok_or(Code::Invalid)?;
        let table = catch_unwind(AssertUnwindSafe(|| own.table(&config))).unwrap_or(Err(Code::Invalid));
        own.config = Some(config);
        self.publish(Some(table?), &mut own);
        Ok(())
    }

    /// Removes every rule; the table stays unless `with_table`.
    pub(crate) fn reset(&self, with_table: bool) {
        let mut own = lock(&self.rules);
        own.clear();
        if with_table {
            self.publish(None, &mut own);
        }
    }
}
