//! Built table: engines for the categories, and the plan of reading keys.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firstmatch_core::engines::{bit_select, linear, tuple};
use firstmatch_core::rule::{Lowered, Priority, Regions};
use firstmatch_core::{Budget, BuildError, Classifier, Keys, Match, RuleId, Schema};

use crate::abi::{self, Code, FieldDef, MAX_CATEGORIES};
use crate::categories::{Members, Split};
use crate::counts::{COUNTER_BYTES, Counted};
use crate::fields::{Fields, Lowering};
use crate::gather::Gather;
use crate::kept::{Head, Kept};

/// Number of regions up to which a list of them is as fast as any structure.
const FEW: usize = 8;
/// Regions that one lookup may test in the worst case before another engine is compared.
const MOST_TESTS: usize = 4096;
/// Bytes for all that is small in a function: names, configurations, one rule, lists of engines.
const SMALL_BYTES: usize = 64 << 10;

/// Checked configuration of a build.
#[derive(Clone, Debug)]
pub(crate) struct Checked {
    pub(crate) categories: u32,
    pub(crate) fields: Fields,
    /// Limit on the bytes of the table.
    pub(crate) max_bytes: usize,
}

impl Checked {
    /// Checks the parts of a configuration.
    ///
    /// # Errors
    /// If it has no category or field, more than 16 or 64 of them, or a wrong definition.
    pub(crate) fn new(categories: u32, defs: &[FieldDef], max_size: usize, rule_size: usize) -> Result<Self, Code> {
        if !(1..=MAX_CATEGORIES).contains(&categories) || defs.len() > abi::MAX_FIELDS {
            return Err(Code::Invalid);
        }
        let max_bytes = if max_size == 0 { usize::MAX } else { max_size };
        Ok(Self { categories, fields: Fields::new(defs, rule_size)?, max_bytes })
    }

    fn categories_of(&self, mask: u32) -> u32 {
        mask & (u32::MAX >> (32 - self.categories))
    }
}

/// Engines and everything else that a lookup reads.
pub(crate) struct Table {
    /// Number of the table in this process, never used again and never 0.
    pub(crate) version: u64,
    /// Whether another table has taken its place, so that threads should let go of it.
    pub(crate) is_retired: AtomicBool,
    pub(crate) categories: u32,
    pub(crate) schema: Schema,
    pub(crate) gather: Gather,
    pub(crate) engines: Vec<Box<dyn Classifier>>,
    /// Engines of each category, as bits.
    pub(crate) of_category: [u16; MAX_CATEGORIES as usize],
    /// Rules by number of addition; empty unless results are counted.
    pub(crate) counts: Box<[Counted]>,
}

/// Rule in the order of a lookup.
#[derive(Clone, Copy)]
struct Ordered {
    priority: Priority,
    index: u32,
    mask: u32,
}

/// Returns the rank of a rule; the smaller wins.
///
/// A larger priority of C comes first. Of equal ones the rule added last comes first. `number` counts the rules of the
/// table in the order of addition.
fn priority(head: Head, number: u32) -> Priority {
    let above = (i64::from(abi::MAX_PRIORITY) + 1 - i64::from(head.priority)) as u64;
    Priority(above << 32 | u64::from(u32::MAX - number))
}

/// Returns priority of C and number of addition of a rule, from its priority among all.
pub(crate) fn parts_of(priority: Priority) -> (i32, u32) {
    (abi::MAX_PRIORITY + 1 - (priority.0 >> 32) as i32, u32::MAX - priority.0 as u32)
}

impl Table {
    /// Builds a table of the rules that have one of the built categories. Without any, every answer is 0.
    ///
    /// # Errors
    /// If such a rule is malformed, the table would exceed its limit, or there is no memory.
    pub(crate) fn build(
        rules: &Kept,
        config: &Checked,
        rule_size: usize,
        counts: Box<[Counted]>,
    ) -> Result<Self, Code> {
        let mut rule = vec![0; rule_size];
        let mut order = Vec::new();
        order.try_reserve_exact(rules.len()).map_err(|_| Code::NoMemory)?;
        let mut constrained = vec![false; config.fields.len()];
        for (number, index) in (0..).zip(rules.indices()) {
            rules.read(index, &mut rule);
            let head = Head::of(&rule);
            let mask = config.categories_of(head.category_mask);
            if mask != 0 {
                config.fields.check(&rule, &mut constrained)?;
                order.push(Ordered { priority: priority(head, number), index: index as u32, mask });
            }
        }
        order.sort_unstable_by_key(|ordered| ordered.priority);
        let fields = config.fields.clone().without_open(&constrained);
        let (schema, masks) = (fields.schema(), order.iter().map(|ordered| ordered.mask).collect::<BTreeSet<_>>());
        let split = Split::new(&masks, config.categories);
        let gather = Gather::new(fields.plan(&schema));
        let mut engines = Vec::with_capacity(split.engines.len());
        let mut left = config.max_bytes.checked_sub(gather.bytes()).ok_or(Code::TooLarge)?;
        for &members in &split.engines {
            let lowered = lower(rules, &order, members, &fields, &schema, &mut rule)?;
            let engine = engine(&lowered, left)?;
            left = left.checked_sub(engine.stats().total_bytes()).ok_or(Code::TooLarge)?;
            engines.push(engine);
        }
        static VERSION: AtomicU64 = AtomicU64::new(1);
        Ok(Self {
            version: VERSION.fetch_add(1, Ordering::Relaxed),
            is_retired: AtomicBool::new(false),
            categories: config.categories,
            schema,
            gather,
            engines,
            of_category: split.of_category,
            counts,
        })
    }

    /// Whether no rule has a built category.
    pub(crate) fn is_empty(&self) -> bool {
        self.engines.is_empty()
    }

    /// Returns the best rule of a category for a row of key words.
    pub(crate) fn decide(&self, row: Keys<'_>, category: usize) -> Option<Match> {
        let of = self.of_category[category];
        let engines = self.engines.iter().enumerate().filter(|(number, _)| of >> number & 1 == 1);
        let found = engines.filter_map(|(_, engine)| engine.classify(&mut engine.scratch(), row));
        found.min_by_key(|found| found.priority)
    }

    /// Counts a result of a rule, if results are counted.
    pub(crate) fn count(&self, found: Option<Match>) {
        if let Some(counted) = found.and_then(|found| self.counts.get(parts_of(found.priority).1 as usize)) {
            counted.count();
        }
    }

    /// Returns the number of results of all rules of a priority with this user data.
    pub(crate) fn results_of(&self, priority: i32, userdata: u32) -> u64 {
        let is_asked = |rule: &&Counted| (rule.priority, rule.userdata) == (priority, userdata);
        self.counts.iter().filter(is_asked).map(Counted::results).sum()
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        let engines = self.engines.iter().map(|engine| size_of_val(&**engine) + engine.stats().total_bytes());
        let counts = size_of_val(&*self.counts) + self.counts.len() * COUNTER_BYTES;
        size_of::<Self>() + counts + self.gather.bytes() + engines.sum::<usize>()
    }
}

/// Lowers the rules of one engine. The id of a rule has the user data, so that a lookup needs no array of them.
fn lower(
    rules: &Kept,
    order: &[Ordered],
    members: Members,
    fields: &Fields,
    schema: &Schema,
    rule: &mut [u8],
) -> Result<Lowered, Code> {
    let count = order.iter().filter(|ordered| members.has(ordered.mask)).count();
    // Lists double when they grow, so that the old and the new one take up to three times the bytes of their elements:
    // bounds, a value and a mask per word, and a rule with its range. Most rules have one region.
    let bytes_of = |regions: usize| regions.saturating_mul(3 * (16 * fields.words() + 32));
    let mut room = count.max(1);
    reserve(bytes_of(room).saturating_add(SMALL_BYTES))?;
    let mut lowered = Lowered::empty(schema);
    let (mut lowering, mut regions) = (Lowering::new(fields), Regions::new(fields.words()));
    let of_engine = order.iter().filter(|ordered| members.has(ordered.mask));
    for (slot, ordered) in (0..).zip(of_engine) {
        rules.read(ordered.index as usize, rule);
        lowering.lower(rule, &mut regions)?;
        while lowered.regions().len() + regions.len() > room {
            room *= 2;
            reserve(bytes_of(room))?;
        }
        let id = RuleId::new(slot, Head::of(rule).userdata);
        let pushed = lowered.push_rule(Match { rule: id, priority: ordered.priority }, &regions);
        pushed.map_err(|_| Code::Invalid)?;
    }
    Ok(lowered)
}

/// Checks that `bytes` bytes can be allocated.
///
/// A collection that cannot grow ends the process. So a function asks first for a bound of what it needs, and is refused
/// if that is not there.
///
/// # Errors
/// If they cannot.
pub(crate) fn reserve(bytes: usize) -> Result<(), Code> {
    Vec::<u8>::new().try_reserve_exact(bytes).map_err(|_| Code::NoMemory)
}

/// Checks that the small allocations of a function can be made.
///
/// # Errors
/// If they cannot.
pub(crate) fn reserve_small() -> Result<(), Code> {
    reserve(SMALL_BYTES)
}

/// Builds the engine for rules, within `bytes` bytes.
///
/// No clock decides, so that equal rules have equal engines: a list for a few regions, otherwise `bit_select`. Where
/// that may test many regions, because no bits tell the rules apart, TupleMerge is taken if it tests fewer.
fn engine(lowered: &Lowered, bytes: usize) -> Result<Box<dyn Classifier>, Code> {
    let budget = Budget { run_bytes: bytes };
    let code = |error: BuildError| if error.budget_exceeded() { Code::TooLarge } else { Code::NoMemory };
    if lowered.regions().len() <= FEW {
        let config = linear::Config { budget, ..Default::default() };
        return Ok(Box::new(linear::Linear::build(lowered, &config).map_err(code)?));
    }
    // TupleMerge needs less.
    let bound = bit_select::BitSelect::build_bound(lowered).saturating_add(SMALL_BYTES);
    reserve(bound)?;
    let config = bit_select::Config { budget, ..Default::default() };
    let selected = bit_select::BitSelect::build(lowered, &config);
    let tests = selected.as_ref().map_or(usize::MAX, |engine| engine.stats().worst_tests);
    if tests > MOST_TESTS && reserve(bound).is_ok() {
        let config = tuple::Config { budget, ..Default::default() };
        if let Ok(other) = tuple::TupleMerge::build(lowered, &config)
            && other.stats().worst_tests < tests
        {
            return Ok(Box::new(other));
        }
    }
    Ok(Box::new(selected.map_err(code)?))
}
