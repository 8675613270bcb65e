//! DPDK's `rte_acl` over its C interface, as the yardstick in common use.
//!
//! A table is built from the same regions as every engine and looks up the same keys. In timed passes its keys are
//! already in its own layout and its answers stay its own numbers, so that its best case is timed. As an [`Engine`] it
//! converts keys and answers itself.
#![expect(unsafe_code, reason = "a C interface; each block says what it relies on")]

mod child;
mod frames;
mod heap;
mod layout;
mod sys;

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, ensure};
use firstmatch_core::rule::Lowered;
use firstmatch_core::{Engine, Keys, Match, Schema, Stats};

pub(crate) use child::{ChildArgs, child};

use crate::definition::Definition;
use crate::measure::replay::Replay;
use crate::workload::{Source, Workload};
use heap::Heap;
use layout::{Form, Layout};

/// Algorithms of `rte_acl` on this architecture: name and number.
const ALGORITHMS: [(&str, i32); 5] = [("scalar", 1), ("sse", 2), ("avx2", 3), ("avx512x16", 6), ("avx512x32", 7)];

/// Configurations: name, and most bytes of a table.
///
/// Without a limit `rte_acl` keeps tables small; with one it makes them as fast as fits.
const CONFIGURATIONS: [(&str, usize); 2] = [("", 0), (" max", 2 << 30)];

/// Costs of a build.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// CPU time in seconds.
    pub(crate) seconds: f64,
    /// Bytes of the table and of the rules it keeps.
    pub(crate) run_bytes: usize,
    pub(crate) peak_bytes: usize,
}

/// Table under one algorithm.
#[derive(Debug)]
pub(crate) struct RteAcl {
    table: Arc<Table>,
    algorithm: i32,
    figures: Figures,
}

/// Line of a measurement: a table under one algorithm, or the reason why there is none.
pub(crate) struct Line {
    pub(crate) name: String,
    /// Whether the table is the second one of the same rules, for the noise floor.
    pub(crate) is_again: bool,
    pub(crate) acl: anyhow::Result<RteAcl>,
}

#[derive(Debug)]
struct Table {
    context: Context,
    layout: Layout,
    /// Regions of the set with their rules: result *n* is the region at *n* - 1.
    lowered: Arc<Lowered>,
    table_bytes: usize,
    rule_bytes: usize,
}

/// Context of `rte_acl` and its heap, dropped in this order.
#[derive(Debug)]
struct Context {
    at: NonNull<sys::Ctx>,
    heap: Arc<Heap>,
}

// SAFETY: a built context is only read, and `rte_acl` documents its lookups as safe in several threads.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Drop for Context {
    fn drop(&mut self) {
        // SAFETY: it was created and is freed once.
        unsafe { sys::rte_acl_free(self.at.as_ptr()) }
    }
}

/// Returns the lines of a workload, with notes about them.
///
/// Every configuration is first built in a process of its own. It then has a line for each algorithm of this machine.
/// Each line exists twice, over two tables built one after the other, so that its own noise is known.
pub(crate) fn lines(source: &Source<'_>, work: &Workload) -> (Vec<Line>, Vec<String>) {
    let (mut all, mut notes) = (Vec::new(), Vec::new());
    for (name, max_size) in CONFIGURATIONS {
        let name = format!("rte_acl{name}");
        let tables = child::build_apart(source, max_size).and_then(|(figures, bytes)| {
            // One heap for both: DPDK has at most 32, and the tables of all sets are there at a time.
            let heap = Arc::new(Heap::new(2 * bytes)?);
            let table = || {
                let table = Table::build(&work.lowered, form(source.definition), max_size, Arc::clone(&heap))?;
                Ok::<_, anyhow::Error>(Arc::new(table))
            };
            Ok((figures, [(false, "", table()?), (true, " again", table()?)]))
        });
        let (figures, tables) = match tables {
            Ok(built) => built,
            Err(error) => {
                all.push(Line { name, is_again: false, acl: Err(error) });
                continue;
            }
        };
        for (is_again, again, table) in tables {
            let huge = table.context.heap.huge_share().unwrap_or(0.0);
            if huge < 0.99 {
                notes.push(format!("{name}{again}: {:.0} % of its table is on huge pages", huge * 100.0));
            }
            for (algorithm, number) in ALGORITHMS.into_iter().filter(|&(_, number)| table.has(number)) {
                let acl = RteAcl { table: Arc::clone(&table), algorithm: number, figures };
                all.push(Line { name: format!("{name} {algorithm}{again}"), is_again, acl: Ok(acl) });
            }
        }
    }
    (all, notes)
}

/// Returns the form of the keys that a definition looks up.
fn form(definition: &Definition) -> Form {
    if definition.frames() { Form::Frames } else { Form::Keys }
}

impl Table {
    /// Builds a table in a heap. No other table is built in it meanwhile.
    fn build(lowered: &Arc<Lowered>, form: Form, max_size: usize, heap: Arc<Heap>) -> anyhow::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let layout = Layout::new(lowered, form)?;
        let before = heap.allocated();
        let rules = rules(lowered, &layout)?;
        let fields = layout.defs().len();
        let rule_words = 2 + 2 * fields;
        let count = (rules.len() / rule_words) as u32;
        let name = CString::new(format!("lab{}", COUNT.fetch_add(1, Ordering::Relaxed)))?;
        let param = sys::Param {
            name: name.as_ptr(),
            socket_id: heap.socket,
            rule_size: (rule_words * size_of::<u64>()) as u32,
            max_rule_num: count,
        };
        // SAFETY: DPDK has started (there is a heap); the struct and its name outlive the call.
        let at = unsafe { sys::rte_acl_create(&raw const param) };
        let context = Context { at: NonNull::new(at).context("rte_acl_create fails")?, heap };
        // SAFETY: the context is live, and the pointer leads to `count` rules of the stated size.
        let added = unsafe { sys::rte_acl_add_rules(at, rules.as_ptr().cast(), count) };
        ensure!(added == 0, "rte_acl_add_rules fails ({added})");
        let rule_bytes = context.heap.allocated() - before;

        let mut config = sys::Config {
            num_categories: 1,
            num_fields: fields as u32,
            defs: [sys::FieldDef::default(); 64],
            max_size,
        };
        config.defs.iter_mut().zip(layout.defs()).for_each(|(to, def)| *to = def);
        // SAFETY: the context is live and the configuration is of its rules: as many fields, of the same kinds.
        let built = unsafe { sys::rte_acl_build(at, &raw const config) };
        ensure!(built == 0, "rte_acl_build fails ({built})");
        let table_bytes = context.heap.allocated() - before - rule_bytes;
        Ok(Self { context, layout, lowered: Arc::clone(lowered), table_bytes, rule_bytes })
    }

    /// Returns whether this machine has an algorithm.
    fn has(&self, algorithm: i32) -> bool {
        // SAFETY: the context is live, and no thread looks up yet.
        unsafe { sys::rte_acl_set_ctx_classify(self.context.at.as_ptr(), algorithm) == 0 }
    }

    /// Looks up keys: each result is the index of a region plus 1, or 0.
    ///
    /// # Safety
    /// Every pointer leads to a key of the layout's length.
    unsafe fn classify(&self, algorithm: i32, keys: &[*const u8], results: &mut [u32]) {
        assert_eq!(keys.len(), results.len());
        let (at, count) = (self.context.at.as_ptr(), keys.len() as u32);
        // SAFETY: the context is built, and the machine has the algorithm. There are as many results as keys, whose
        // fields lie within the bytes that the caller guarantees.
        let code = unsafe { sys::rte_acl_classify_alg(at, keys.as_ptr(), results.as_mut_ptr(), count, 1, algorithm) };
        assert_eq!(code, 0, "rte_acl refuses no lookup of one category");
    }

    /// Returns the address at which `rte_acl` reads each key.
    fn pointers(&self, keys: &[u32]) -> impl Iterator<Item = *const u8> {
        let start = self.layout.start;
        keys.chunks_exact(self.layout.stride).map(move |key| key.as_ptr().cast::<u8>().wrapping_add(start))
    }

    /// Returns the match of a result.
    fn found(&self, result: u32) -> Option<Match> {
        (result as usize).checked_sub(1).map(|index| self.lowered.rules()[index])
    }

    /// Returns the result for a key with an absent value, which `rte_acl` cannot express.
    fn beyond(&self, row: &[u32]) -> u32 {
        let found = self.lowered.regions().iter().position(|region| region.contains(row));
        found.map_or(0, |index| index as u32 + 1)
    }
}

/// Returns the rules as C reads them: `rte_acl_rule_data` and the fields, two words each.
fn rules(lowered: &Lowered, layout: &Layout) -> anyhow::Result<Vec<u64>> {
    let mut rules = Vec::new();
    ensure!(lowered.regions().len() < sys::MAX_PRIORITY as usize, "more regions than rte_acl has priorities");
    for (index, region) in (0..).zip(lowered.regions().iter()) {
        for fields in layout.rules(region.lo, region.hi) {
            // Category mask 1; the larger priority wins; the result is the index plus 1.
            rules.push(1 | u64::from(sys::MAX_PRIORITY as u32 - index) << 32);
            rules.push(u64::from(index + 1));
            rules.extend(fields.iter().flat_map(|field| [field.value, field.mask_range]));
        }
    }
    Ok(rules)
}

impl RteAcl {
    pub(crate) fn figures(&self) -> Figures {
        self.figures
    }

    /// Creates a thread's replay over keys, converted to `rte_acl`'s layout.
    pub(crate) fn replay(&self, rows: Keys<'_>) -> AclReplay<'_> {
        let layout = &self.table.layout;
        let mut keys = vec![0; rows.len() * layout.stride];
        let mut beyond = Vec::new();
        for (index, key) in keys.chunks_exact_mut(layout.stride).enumerate() {
            if !layout.write(rows.row(index), key) {
                beyond.push((index, self.table.beyond(rows.row(index))));
            }
        }
        let pointers = self.table.pointers(&keys).collect();
        AclReplay { acl: self, pointers, _keys: keys, results: vec![u32::MAX; rows.len()], beyond }
    }
}

/// Keys of one thread, in network order, with their results.
pub(crate) struct AclReplay<'a> {
    acl: &'a RteAcl,
    /// Pointer to each key of `_keys`, which is never changed or moved.
    pointers: Vec<*const u8>,
    _keys: Vec<u32>,
    results: Vec<u32>,
    /// Results of keys with absent values.
    beyond: Vec<(usize, u32)>,
}

impl AclReplay<'_> {
    pub(crate) fn answers(mut self) -> Vec<Option<Match>> {
        for &(index, result) in &self.beyond {
            // A key that was not looked up keeps its mark, so that the comparison fails.
            if self.results[index] != u32::MAX {
                self.results[index] = result;
            }
        }
        let answer = |&result: &u32| if result == u32::MAX { None } else { self.acl.table.found(result) };
        self.results.iter().map(answer).collect()
    }
}

impl Replay for AclReplay<'_> {
    #[inline(always)]
    fn classify(&mut self, from: usize, to: usize) {
        let (keys, results) = (&self.pointers[from..to], &mut self.results[from..to]);
        // SAFETY: the pointers lead to whole keys in `_keys`.
        unsafe { self.acl.table.classify(self.acl.algorithm, keys, results) }
    }

    #[inline(always)]
    fn bit(&self, at: usize) -> usize {
        self.acl.table.found(self.results[at]).map_or(0, |found| found.rule.slot() & 1)
    }
}

/// Number of keys that the engine converts at a time; [`LONGEST`] is the most words of a key.
const CHUNK: usize = 32;
const LONGEST: usize = 32;

impl Engine for RteAcl {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        self.table.lowered.schema()
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        Stats {
            rules: self.table.lowered.by_rule().count(),
            regions: self.table.lowered.regions().len(),
            bytes: vec![("table", self.table.table_bytes), ("its rules", self.table.rule_bytes)],
            tables: 1,
            ..Stats::default()
        }
    }

    fn improve(&self, (): &mut (), rows: &Keys<'_>, best: &mut [Option<Match>]) {
        let stride = self.table.layout.stride;
        let mut keys = [0; CHUNK * LONGEST];
        for (chunk, best) in best.chunks_mut(CHUNK).enumerate() {
            let mut results = [0; CHUNK];
            let row = |index: usize| rows.row(chunk * CHUNK + index);
            let mut beyond = 0u32;
            for (index, key) in keys.chunks_exact_mut(stride).take(best.len()).enumerate() {
                beyond |= u32::from(!self.table.layout.write(row(index), key)) << index;
            }
            let mut pointers = [std::ptr::null(); CHUNK];
            pointers.iter_mut().zip(self.table.pointers(&keys)).for_each(|(to, start)| *to = start);
            // SAFETY: as many pointers as places, each to a whole key: `CHUNK` keys of the longest stride fit.
            unsafe { self.table.classify(self.algorithm, &pointers[..best.len()], &mut results[..best.len()]) };
            for (index, (best, mut result)) in best.iter_mut().zip(results).enumerate() {
                if beyond >> index & 1 == 1 {
                    result = self.table.beyond(row(index));
                }
                if let Some(found) = self.table.found(result).filter(|found| Match::wins(found.priority, best)) {
                    *best = Some(found);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
