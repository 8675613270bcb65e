//! List of every engine × configuration × SIMD level, in one place; and the reference engine.

use firstmatch_core::cache::flow::{self, FlowCache};
use firstmatch_core::engines::bit_select::{self, BitSelect};
use firstmatch_core::engines::bit_vector::{self, BitVector};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::engines::partition_sort::{self, PartitionSort};
use firstmatch_core::engines::registry::{ENGINES, Entry, Settings};
use firstmatch_core::engines::tuple::{self, Merge, TupleFields, TupleMerge};
use firstmatch_core::live::{self, Kind, Owned, Strategy};
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

/// Returns the list. An engine of the registry is in it and is tested by everything.
pub fn engines() -> Vec<Subject> {
    let mut all = metas();
    for level in Level::available() {
        let here =
            registered(level).chain(bases(level)).chain(tuples(level)).chain(metas_at(level)).chain(caches(level));
        all.extend(here.chain(partition_sorts(level)).map(|subject| Subject { level: Some(level), ..subject }));
    }
    all
}

/// Returns each structure once, at the best level.
///
/// It is for what no instruction set changes, such as bytes and limits.
pub fn structures() -> Vec<Subject> {
    let best = Level::available().last();
    engines().into_iter().filter(|subject| subject.level.is_none() || subject.level == best).collect()
}

/// Engines with several configurations, below; any other comes from the registry with its defaults.
const CONFIGURED: [&str; 7] =
    ["bit_select", "bit_vector", "linear", "partitionsort", "tss", "tuplemerge", "tuplemerge_offline"];

fn registered(level: Level) -> impl Iterator<Item = Subject> {
    let others = ENGINES.iter().filter(|entry| !CONFIGURED.contains(&entry.name));
    others.map(move |entry| of_entry(entry, level))
}

/// Returns the subject of an engine with its defaults.
pub fn of_entry(entry: &'static Entry, level: Level) -> Subject {
    let settings = move |budget| {
        let mut settings = Settings::default();
        (settings.budget, settings.simd, settings.seed) = (budget, Some(level), Some(8));
        settings
    };
    let fixed: Box<Fixed> = Box::new(move |lowered, budget| (entry.build)(lowered, &settings(budget)));
    let updatable = entry.updatable.map(|build| -> Box<Changing> {
        Box::new(move |start, budget| match start {
            Start::Empty(schema) => build(&Lowered::empty(schema), &settings(budget)),
            Start::Rules(lowered) => build(lowered, &settings(budget)),
        })
    });
    Subject { name: format!("{} {level:?}", entry.name), level: None, fixed: Some(fixed), updatable }
}

fn bases(level: Level) -> [Subject; 4] {
    [
        Subject::fixed(format!("bit_select {level:?}"), move |lowered, budget| {
            BitSelect::build(lowered, &bit_select::Config { budget, simd: Some(level), ..Default::default() })
        }),
        Subject::fixed(format!("bit_select {level:?} lean"), move |lowered, budget| {
            let config = bit_select::Config { budget, simd: Some(level), lean: 0, ..Default::default() };
            BitSelect::build(lowered, &config)
        }),
        Subject::fixed(format!("bit_vector {level:?}"), move |lowered, budget| {
            // The largest sets here need more than vectors are worth.
            let vectors = 64 << 20;
            BitVector::build(lowered, &bit_vector::Config { budget, simd: Some(level), vectors })
        }),
        Subject::fixed(format!("linear {level:?}"), move |lowered, budget| {
            Linear::build(lowered, &linear::Config { budget, simd: Some(level) })
        }),
    ]
}

fn tuples(level: Level) -> impl Iterator<Item = Subject> {
    // Seeds are fixed, so that a failure comes again; and once there is the seed that users get.
    let tables = [
        (Merge::Online, 1, false, 512, Some(1)),
        (Merge::Online, 1, true, 512, Some(1)),
        (Merge::Online, 2, true, 0, Some(2)),
        (Merge::Online, 3, false, 512, Some(3)),
        (Merge::Online, 8, true, 512, None),
        (Merge::Online, 40, false, 512, Some(40)),
        (Merge::None, 1, false, 512, Some(4)),
        (Merge::None, 1, false, 5, Some(5)),
        (Merge::Offline, 8, false, 512, Some(6)),
        (Merge::Offline, 1, true, 512, Some(7)),
    ];
    let tables = tables.map(|(merge, collision_limit, spill, most_tables, seed)| {
        let spills = if spill { " spill" } else { "" };
        let name = format!("{merge:?} c={collision_limit}{spills} tables<={most_tables}");
        (name, tuple::Config { merge, collision_limit, spill, most_tables, seed, ..Default::default() })
    });
    let (paper, seed) = (tuple::Config::paper(), Some(8));
    let searches = [
        ("paper", paper.clone()),
        ("paper c=1", tuple::Config { collision_limit: 1, ..paper.clone() }),
        ("paper tables<=3", tuple::Config { collision_limit: 2, most_tables: 3, ..paper }),
        ("paper offline", tuple::Config::paper_offline()),
        ("paper tss", tuple::Config::paper_tss()),
        ("addresses", tuple::Config { fields: TupleFields::Addresses, ..Default::default() }),
    ];
    let searches = searches.map(|(name, config)| (name.to_owned(), tuple::Config { seed, ..config }));
    tables.into_iter().chain(searches).map(move |(name, config)| {
        let seeded = if config.seed.is_some() { "" } else { " random" };
        let config = move |budget| tuple::Config { budget, simd: Some(level), ..config.clone() };
        Subject::updatable(format!("tuple {level:?} {name}{seeded}"), move |start, budget| match start {
            Start::Empty(schema) => TupleMerge::new(schema, &config(budget)),
            Start::Rules(lowered) => TupleMerge::build(lowered, &config(budget)),
        })
    })
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
    all
}

fn partition_sorts(level: Level) -> impl Iterator<Item = Subject> {
    [(10, 128), (0, 128), (40, 3), (10, 0)].into_iter().map(move |(reorder, most_partitions)| {
        let config = move |budget| partition_sort::Config { budget, simd: Some(level), reorder, most_partitions };
        let name = format!("partition_sort {level:?} reorder<={reorder} partitions<={most_partitions}");
        Subject::updatable(name, move |start, budget| match start {
            Start::Empty(schema) => PartitionSort::new(schema, &config(budget)),
            Start::Rules(lowered) => PartitionSort::build(lowered, &config(budget)),
        })
    })
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
