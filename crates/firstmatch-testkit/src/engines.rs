//! List of every engine × configuration × SIMD level, in one place; and the reference engine.

use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::cache::rule::{self, RuleCache};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::engines::registry::{ENGINES, Entry, Settings};
use firstmatch_core::engines::tuple::{self, TupleMerge};
use firstmatch_core::live::{self, Front, Kind, Owned, Strategy};
use firstmatch_core::raw::Level;
use firstmatch_core::rule::{Lowered, Region};
use firstmatch_core::{Budget, BuildError, Classifier, Engine, Keys, Match, Schema, Stats, Updatable};

/// Engine in one configuration at one SIMD level.
pub struct Subject {
    pub name: String,
    /// SIMD level, where the list has the same configuration at every level.
    pub level: Option<Level>,
    /// Build of an engine that then stays.
    fixed: Option<Box<Fixed>>,
    /// Start of an engine that also takes updates.
    updatable: Option<Box<Changing>>,
}

type Fixed = dyn Fn(&Lowered, Budget) -> Result<Box<dyn Classifier>, BuildError> + Send + Sync;
type Changing = dyn Fn(Start<'_>, Budget) -> Result<Box<dyn Updatable>, BuildError> + Send + Sync;

/// Rules that an updatable engine starts from.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    Empty(&'a Schema),
    Rules(&'a Lowered),
}

impl Subject {
    fn fixed<E: Engine>(
        name: String,
        build: impl Fn(&Lowered, Budget) -> Result<E, BuildError> + Send + Sync + 'static,
    ) -> Self {
        let boxed = move |lowered: &Lowered, budget: Budget| -> Result<Box<dyn Classifier>, BuildError> {
            Ok(Box::new(build(lowered, budget)?))
        };
        Self { name, level: None, fixed: Some(Box::new(boxed)), updatable: None }
    }

    fn updatable<E: Engine + Updatable>(
        name: String,
        start: impl Fn(Start<'_>, Budget) -> Result<E, BuildError> + Send + Sync + 'static,
    ) -> Self {
        let boxed = move |from: Start<'_>, budget: Budget| -> Result<Box<dyn Updatable>, BuildError> {
            Ok(Box::new(start(from, budget)?))
        };
        Self { name, level: None, fixed: None, updatable: Some(Box::new(boxed)) }
    }

    /// Returns the name without the SIMD level, which subjects of one structure share.
    pub fn structure(&self) -> String {
        self.level.map_or(self.name.clone(), |level| self.name.replace(&format!(" {level:?}"), ""))
    }

    /// Whether it contains `meta`.
    ///
    /// That rebuilds, keeps rules to rebuild from and may fall back to another base.
    pub fn is_meta(&self) -> bool {
        self.name.contains("meta")
    }

    /// Whether a build takes what room there is, so that another budget may build another structure.
    pub fn fills_its_budget(&self) -> bool {
        ["hicuts", "hypercuts"].iter().any(|name| self.name.starts_with(name))
    }

    /// Whether a smaller budget may build something smaller instead of failing.
    pub fn can_shrink(&self) -> bool {
        self.fills_its_budget() || self.name.contains("bit_select")
    }

    pub fn build(&self, lowered: &Lowered) -> Box<dyn Classifier> {
        self.try_build(lowered, Budget::default()).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    pub fn try_build(&self, lowered: &Lowered, budget: Budget) -> Result<Box<dyn Classifier>, BuildError> {
        match (&self.fixed, &self.updatable) {
            (Some(build), _) => build(lowered, budget),
            (None, Some(build)) => Ok(build(Start::Rules(lowered), budget)?),
            (None, None) => unreachable!("a subject can be built"),
        }
    }

    pub fn is_updatable(&self) -> bool {
        self.updatable.is_some()
    }

    pub fn start(&self, start: Start<'_>) -> Box<dyn Updatable> {
        self.try_start(start, Budget::default()).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    pub fn try_start(&self, start: Start<'_>, budget: Budget) -> Result<Box<dyn Updatable>, BuildError> {
        self.updatable.as_ref().expect("the subject takes updates")(start, budget)
    }
}

/// Name of the variable that restricts the list to engines whose names begin with one of its words.
///
/// It is for work on one engine: `HARNESS_ENGINES=hicuts,hypercuts cargo test -p firstmatch-core --test harness tiny`.
const ONLY: &str = "HARNESS_ENGINES";

/// Whether `HARNESS_ENGINES` restricts the list, so that tests of several engines find fewer.
pub fn is_restricted() -> bool {
    std::env::var_os(ONLY).is_some()
}

/// Returns the list. An engine of the registry is in it and is tested by everything, but for [`multiplying`] ones.
pub fn engines() -> Vec<Subject> {
    let mut all = every_engine();
    if let Ok(only) = std::env::var(ONLY) {
        all.retain(|subject| only.split(',').any(|name| subject.name.starts_with(name)));
    }
    all
}

fn every_engine() -> Vec<Subject> {
    let mut all = metas();
    for level in Level::available() {
        let here = registered(level).chain(metas_at(level)).chain(caches(level));
        all.extend(here.map(|subject| Subject { level: Some(level), ..subject }));
    }
    all
}

/// Names of engines whose tables multiply the classes of words.
///
/// Rules that are drawn at random have so many classes that their tables take gigabytes.
pub const MULTIPLYING: &[&str] = &["rfc", "bitmap_rfc"];

/// Returns the engines whose tables multiply the classes of words, for tests of few rules.
pub fn multiplying() -> Vec<Subject> {
    let at = |level| configurations(level, true).map(move |subject| Subject { level: Some(level), ..subject });
    Level::available().flat_map(at).collect()
}

/// Returns each structure once, at the best level.
///
/// It is for what no instruction set changes, such as bytes and limits.
pub fn structures() -> Vec<Subject> {
    let best = Level::available().last();
    engines().into_iter().filter(|subject| subject.level.is_none() || subject.level == best).collect()
}

/// Configurations of engines of the registry, beside the defaults of each: name and options.
///
/// The defaults are tested whether or not they are listed, but for [`REFUSING`] engines.
/// Options are those of the engine's entry. Seeds are fixed, so that failures come again, but for `seed=random`.
const CONFIGURATIONS: &[(&str, &str)] = &[
    ("bit_select", ""),
    ("bit_select", "lean=0"),
    ("bit_select", "trees=2 levels=2 fan_out=8 open=3 growth=2"),
    // The largest sets here need more than vectors are worth.
    ("bit_vector", "vectors=8388608"),
    ("tuplemerge", "collision_limit=1 spill=false"),
    ("tuplemerge", "collision_limit=1"),
    ("tuplemerge", "collision_limit=2 most_tables=0"),
    ("tuplemerge", "collision_limit=3 spill=false"),
    ("tuplemerge", "preclassifier=false"),
    ("tuplemerge", "seed=random"),
    ("tuplemerge", "collision_limit=40 spill=false"),
    ("tuplemerge", "fields=addresses"),
    ("tuplemerge", "paper=true"),
    ("tuplemerge", "paper=true collision_limit=1"),
    ("tuplemerge", "paper=true collision_limit=2 most_tables=3"),
    ("tuplemerge_offline", ""),
    ("tuplemerge_offline", "collision_limit=1 spill=true"),
    ("tuplemerge_offline", "paper=true"),
    ("tss", ""),
    ("tss", "most_tables=5"),
    ("tss", "paper=true preclassifier=true"),
    ("tss", "paper=true"),
    ("partitionsort", "paper=true"),
    ("partitionsort", "reorder=0"),
    ("partitionsort", "reorder=40 most_partitions=3"),
    ("partitionsort", "most_partitions=0"),
    ("hicuts", ""),
    ("hicuts", "paper=true"),
    (
        "hicuts",
        "binth=2 dimension=most_unique compact=false merge=false zoom=false layout=breadth_first walk=interleaved",
    ),
    ("hicuts", "binth=1 layout=pages_and_lines page_bytes=128 push=true min_push=1 walk=interleaved"),
    ("hypercuts", ""),
    ("hypercuts", "paper=true"),
    ("hypercuts", "binth=3 growth=8 space_factor=8 layout=van_emde_boas walk=interleaved push=true min_push=1"),
    ("hypercuts", "binth=1 layout=pages page_bytes=256 trees=2 walk=one_by_one region_bytes=400 extra_bytes=65536"),
    ("hypercuts", "binth=1 layout=as_built remove_covered=true visits=50 cuts=0:3+1:1,1:2"),
    ("decomposition", ""),
    ("decomposition", "paper=true"),
    ("decomposition", "plain=true interleave=16"),
    ("decomposition", "rows=summed interleave=128 superfields=fields build_bytes=268435456"),
    ("decomposition", "rows=sparse stop=zero interleave=3 hash_groups=false"),
    ("decomposition", "rows=flat stop=zero sub_vector=1024 functions=3 slots=1.5 sparsest_first=false"),
    ("npf", ""),
    ("npf", "paper=true"),
    ("npf", "defended=true"),
    ("npf", "batches=turn sample=1"),
    ("npf", "batches=turn sets=lists sample=64 bypass=false dynamic=true"),
    ("npf", "batches=turn threshold=0 turns=popularity sample=2 reconstruct=1 mean_path=0 halve_after=1"),
    ("npf", "batches=turn threshold=4294967295 turns=popularity sample=1"),
    ("npf", "batches=turn depth_cap=0 sample=1 reconstruct=0"),
    ("npf", "sets=lists adapts=false"),
    ("rfc", ""),
    ("rfc", "paper=true"),
    ("rfc", "leaves=chunks prefetch=0 build_bytes=268435456 visits=400000000"),
    ("rfc", "plan=paper walk=keys index=shift prune=false"),
    ("bitmap_rfc", ""),
    ("bitmap_rfc", "paper=true"),
    ("bitmap_rfc", "leaves=chunks order=as_found count=find_first prefetch=0"),
    ("bitmap_rfc", "store=sub_tables sub_entries=96 sub_elements=4 count=find_first walk=reads"),
    ("bitmap_rfc", "store=sub_tables sub_entries=64 index=shift prefetch=0"),
];

/// Engines whose defaults refuse some of the sets that the tests draw.
const REFUSING: &[&str] = &["bit_vector"];

/// Returns the engines of the registry in each of their configurations, without those that multiply classes.
fn registered(level: Level) -> impl Iterator<Item = Subject> {
    configurations(level, false)
}

fn configurations(level: Level, multiplies: bool) -> impl Iterator<Item = Subject> {
    let all = ENGINES.iter().filter(move |entry| MULTIPLYING.contains(&entry.name) == multiplies);
    all.flat_map(move |entry| {
        let mut listed: Vec<&str> = options_of(entry).collect();
        if !listed.contains(&"") && !REFUSING.contains(&entry.name) {
            listed.push("");
        }
        listed.into_iter().map(move |options| configured(entry, level, options))
    })
}

/// Returns the options of each configuration of an engine that is listed.
pub fn options_of(entry: &Entry) -> impl Iterator<Item = &'static str> {
    let name = entry.name;
    CONFIGURATIONS.iter().filter(move |(of, _)| *of == name).map(|(_, options)| *options)
}

/// Returns the subject of an engine with its defaults.
pub fn of_entry(entry: &'static Entry, level: Level) -> Subject {
    configured(entry, level, "")
}

/// Returns the subject of an engine with some options, such as `lean=0 trees=2`.
fn configured(entry: &'static Entry, level: Level, options: &'static str) -> Subject {
    let mut settings = Settings::default();
    (settings.simd, settings.seed) = (Some(level), Some(8));
    for option in options.split_whitespace() {
        match option.split_once('=').expect("NAME=VALUE") {
            ("seed", _) => settings.seed = None,
            (name, value) => settings = settings.with_option(name, value),
        }
    }
    let within = move |budget: Budget| {
        let mut settings = settings.clone();
        settings.budget = budget;
        settings
    };
    let again = within.clone();
    let fixed: Box<Fixed> = Box::new(move |lowered, budget| (entry.build)(lowered, &within(budget)));
    let updatable = entry.updatable.map(|build| -> Box<Changing> {
        Box::new(move |start, budget| match start {
            Start::Empty(schema) => build(&Lowered::empty(schema), &again(budget)),
            Start::Rules(lowered) => build(lowered, &again(budget)),
        })
    });
    let name = format!("{} {level:?} {options}", entry.name).trim_end().to_owned();
    Subject { name, level: None, fixed: Some(fixed), updatable }
}

/// Returns `meta` over every kind of base, for rules that stay.
///
/// For rules that change, it is over `bit_select`.
fn metas_at(level: Level) -> impl Iterator<Item = Subject> {
    let fixed = Kind::ALL.iter().copied().map(move |kind| {
        Subject::fixed(format!("meta {level:?} over {}", kind.name()), move |lowered, budget| {
            let (simd, kind, seed) = (Some(level), Some(kind), Some(9));
            live::Engine::build(
                lowered,
                &live::Config { budget, simd, strategy: kind.into(), seed, ..Default::default() },
            )
        })
    });
    let config = move |budget| live::Config { budget, simd: Some(level), ..bit_select_alone() };
    let name = format!("meta {level:?} over bit_select alone, overlay<=1");
    fixed.chain([Subject::updatable(name, move |start, budget| exclusive(start, &config(budget)))])
}

fn exclusive(start: Start<'_>, config: &live::Config) -> Result<Owned, BuildError> {
    match start {
        Start::Empty(schema) => Owned::new(schema, config),
        Start::Rules(lowered) => Owned::build(lowered, config),
    }
}

fn metas() -> Vec<Subject> {
    let mut all = Vec::new();
    for (kind, in_place) in small_bases() {
        let config = move |budget| live::Config {
            budget,
            strategy: Strategy::Force(kind),
            in_place: Some(in_place),
            ..small_meta()
        };
        let name = format!("meta over {}, overlay<=4, in place<={in_place}", kind.name());
        all.push(Subject::updatable(name, move |start, budget| exclusive(start, &config(budget))));
    }
    let front = ENGINES.iter().find(|entry| entry.name == "decomposition").map(|entry| Front::of(entry, &[]));
    all.push(Subject::updatable("meta over linear behind decomposition, overlay<=4".into(), move |start, budget| {
        let strategy = Strategy::Force(Kind::Linear);
        exclusive(start, &live::Config { budget, front: front.clone(), strategy, ..small_meta() })
    }));
    // Timed, the base may be another each time.
    for (name, trial) in [("meta", Some(0)), ("meta, timed: random", None)] {
        all.push(Subject::updatable(name.into(), move |start, budget| {
            exclusive(start, &live::Config { budget, trial, seed: Some(9), ..Default::default() })
        }));
    }
    all
}

fn caches(level: Level) -> Vec<Subject> {
    // The caches are so small that they evict all the time, in sets of every kind. One steps aside again and again.
    let cache = move |entries, ways, steps_aside| flow::Config {
        entries,
        ways,
        steps_aside,
        window: 8,
        longest_pause: 16,
        simd: Some(level),
        seed: Some(8),
    };
    let mut all = Vec::new();
    for (entries, ways, steps_aside) in [(1, 1, false), (6, 2, false), (24, 8, false), (300, 7, true)] {
        let config = cache(entries, ways, steps_aside);
        let name = format!("flow cache of {entries} in sets of {ways} {level:?} over");
        let (first, second) = (config.clone(), config);
        all.push(Subject::fixed(format!("{name} linear"), move |lowered, budget| {
            FlowCache::new(Linear::build(lowered, &linear::Config { budget, simd: Some(level) })?, &first)
        }));
        let inner = move |budget| tuple::Config { budget, simd: Some(level), seed: Some(9), ..Default::default() };
        all.push(Subject::updatable(format!("{name} tuple"), move |start, budget| match start {
            Start::Empty(schema) => FlowCache::new(TupleMerge::new(schema, &inner(budget))?, &second),
            Start::Rules(lowered) => FlowCache::new(TupleMerge::build(lowered, &inner(budget))?, &second),
        }));
    }
    let config = cache(100, 4, false);
    let (simd, kind) = (Some(level), Some(Kind::BitSelect));
    let inner = move |budget| live::Config { budget, simd, strategy: kind.into(), ..small_meta() };
    let name = format!("flow cache of 100 in sets of 4 {level:?} over meta over bit_select, overlay<=4");
    all.push(Subject::updatable(name, move |start, budget| FlowCache::new(exclusive(start, &inner(budget))?, &config)));
    all.extend(rule_caches(level));
    all
}

fn rule_caches(level: Level) -> Vec<Subject> {
    let with = |mut config: rule::Config, boxes, window, sample, tests| {
        (config.boxes, config.window, config.sample, config.tests) = (boxes, window, [sample; 2], tests);
        (config.unmatched, config.steps_aside, config.least_share, config.simd) = (true, false, 0.0, Some(level));
        (config.trial_window, config.longest_pause) = (8, 16);
        config
    };
    let budgeted = |mut config: rule::Config, run_bytes| {
        config.budget = Budget { run_bytes };
        config
    };
    let mut aside = with(rule::Config::default(), 9, 64, 3, 2);
    aside.steps_aside = true;
    let mut home = with(rule::Config::paper(), 20, 256, 2, usize::MAX);
    home.home_first = true;
    let mut all = Vec::new();
    for (said, is_updated, config) in [
        ("1 carved box", true, with(rule::Config::default(), 1, 4, 1, 1)),
        ("24 carved boxes", false, with(rule::Config::default(), 24, 1024, 1, usize::MAX)),
        ("9 carved boxes that step aside", false, aside),
        ("8 grown boxes", true, with(rule::Config::paper(), 8, 16, 1, 3)),
        ("20 boxes grown at home", false, home),
    ] {
        let (first, second) = (config.clone(), config);
        all.push(Subject::fixed(format!("rule cache of {said} {level:?} over linear"), move |lowered, budget| {
            let linear = Linear::build(lowered, &linear::Config { budget, simd: Some(level) })?;
            let left = budget.run_bytes - Engine::stats(&linear).total_bytes();
            RuleCache::over(linear, lowered, &budgeted(first.clone(), left))
        }));
        if !is_updated {
            continue;
        }
        let inner = move |budget| tuple::Config { budget, simd: Some(level), seed: Some(9), ..Default::default() };
        all.push(Subject::updatable(format!("rule cache of {said} {level:?} over tuple"), move |start, budget| {
            // Half is the engine's, and half the list's.
            let budget = Budget { run_bytes: budget.run_bytes / 2 };
            let config = budgeted(second.clone(), budget.run_bytes);
            match start {
                Start::Empty(schema) => {
                    RuleCache::over(TupleMerge::new(schema, &inner(budget))?, &Lowered::empty(schema), &config)
                }
                Start::Rules(lowered) => RuleCache::over(TupleMerge::build(lowered, &inner(budget))?, lowered, &config),
            }
        }));
    }
    let live = with(rule::Config::default(), 9, 16, 1, 2);
    let inner = move |run_bytes| {
        let (simd, strategy) = (Some(level), Strategy::Force(Kind::BitSelect));
        live::Config { budget: Budget { run_bytes }, simd, strategy, overlaps: true, ..small_meta() }
    };
    let name = format!("rule cache of 9 carved boxes {level:?} over meta over bit_select alone, overlay<=4");
    all.push(Subject::updatable(name, move |start, budget| {
        // The search of the cache takes some bytes of its own.
        let owned = exclusive(start, &inner(budget.run_bytes.saturating_sub(100)))?;
        let overlaps = owned.engine().overlaps().expect("regions are asked for");
        RuleCache::new(owned, overlaps, &live)
    }));
    let config = with(rule::Config::default(), 24, 64, 1, 5);
    all.push(Subject::fixed(format!("rule cache {level:?} over a flow cache"), move |lowered, budget| {
        let linear = Linear::build(lowered, &linear::Config { budget, simd: Some(level) })?;
        let left = budget.run_bytes - Engine::stats(&linear).total_bytes();
        let flows = flow::Config { entries: 6, steps_aside: false, seed: Some(3), ..flow::Config::default() };
        RuleCache::over(FlowCache::new(linear, &flows)?, lowered, &budgeted(config.clone(), left))
    }));
    all
}

/// Returns a configuration that has `bit_select` by itself, as far as `meta` gives it.
///
/// Every change is done in place. A rule in the overlay or a tombstone makes a rebuild due at once.
pub fn bit_select_alone() -> live::Config {
    let (kind, in_place) = (Some(Kind::BitSelect), Some(1 << 20));
    live::Config {
        strategy: kind.into(),
        in_place,
        overlay: Some(1),
        dead: Some(1),
        seed: Some(8),
        ..Default::default()
    }
}

/// Returns a configuration so small that every test crosses many rebuilds and publications.
pub fn small_meta() -> live::Config {
    live::Config { overlay: Some(4), dead: Some(8), in_place: Some(12), seed: Some(8), ..Default::default() }
}

/// Returns every kind of base that stays as built, and the one that changes in place.
///
/// That one does so until a rebuild is due.
pub fn small_bases() -> impl Iterator<Item = (Kind, usize)> {
    Kind::ALL.iter().copied().map(|kind| (kind, 0)).chain([(Kind::BitSelect, 12)])
}

/// Returns the engines that take updates.
pub fn updatable_engines() -> Vec<Subject> {
    engines().into_iter().filter(Subject::is_updatable).collect()
}

/// Returns the engines that take updates, each structure once.
pub fn updatable_structures() -> Vec<Subject> {
    structures().into_iter().filter(Subject::is_updatable).collect()
}

/// Engine that takes the first region, in order of priority, that contains the key.
///
/// Only the broken engines need it, because it is what they break.
#[derive(Debug)]
pub struct Reference {
    pub lowered: Lowered,
    /// Fault of the broken engines of [`crate::broken`]; `None` here.
    pub fault: Option<crate::broken::Fault>,
}

impl Reference {
    pub fn new(lowered: &Lowered) -> Self {
        Self { lowered: lowered.clone(), fault: None }
    }

    fn contains(&self, index: usize, region: &Region<'_>, key: &[u32]) -> bool {
        self.fault.map_or_else(|| region.contains(key), |fault| fault.contains(index, region, key))
    }
}

impl Engine for Reference {
    type Scratch = ();

    fn schema(&self) -> &Schema {
        self.lowered.schema()
    }

    fn new_scratch(&self) {}

    fn stats(&self) -> Stats {
        Stats { rules: self.lowered.by_rule().count(), regions: self.lowered.regions().len(), ..Stats::default() }
    }

    fn improve(&self, (): &mut (), keys: &Keys<'_>, best: &mut [Option<Match>]) {
        for (index, best) in best.iter_mut().enumerate() {
            let key = keys.row(index);
            let mut hits = self.lowered.regions().iter().zip(self.lowered.rules()).enumerate();
            let mut inside =
                hits.by_ref().filter(|(i, (region, _))| self.contains(*i, region, key)).map(|(_, (_, m))| *m);
            let found = match self.fault {
                Some(fault) => fault.choose(inside),
                None => inside.next(),
            };
            if let Some(found) = found.filter(|m| Match::wins(m.priority, best)) {
                *best = Some(found);
            }
        }
    }
}
