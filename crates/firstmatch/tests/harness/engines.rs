//! Every engine × configuration × SIMD level, in one place; and the reference engine.

use firstmatch::bit_select::{self, BitSelect};
use firstmatch::bit_vector::{self, BitVector};
use firstmatch::cache::flow::{self, FlowCache};
use firstmatch::linear::{self, Linear};
use firstmatch::meta::{self, Exclusive, Kind};
use firstmatch::partition_sort::{self, PartitionSort};
use firstmatch::rule::{Lowered, Region};
use firstmatch::simd::Level;
use firstmatch::tuple::{self, Merge, TupleMerge};
use firstmatch::{Budget, BuildError, Classifier, Engine, Keys, Match, Schema, Stats, Updatable};

/// One engine in one configuration at one SIMD level.
pub(crate) struct Subject {
    pub(crate) name: String,
    /// For engines that are built and then stay.
    fixed: Option<Box<Fixed>>,
    /// For engines that also take updates.
    updatable: Option<Box<Changing>>,
}

type Fixed = dyn Fn(&Lowered, Budget) -> Result<Box<dyn Classifier>, BuildError> + Send + Sync;
type Changing = dyn Fn(Start<'_>, Budget) -> Result<Box<dyn Updatable>, BuildError> + Send + Sync;

/// What an updatable engine starts from.
#[derive(Clone, Copy)]
pub(crate) enum Start<'a> {
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
        Self { name, fixed: Some(Box::new(boxed)), updatable: None }
    }

    fn updatable<E: Engine + Updatable>(
        name: String,
        start: impl Fn(Start<'_>, Budget) -> Result<E, BuildError> + Send + Sync + 'static,
    ) -> Self {
        let boxed = move |from: Start<'_>, budget: Budget| -> Result<Box<dyn Updatable>, BuildError> {
            Ok(Box::new(start(from, budget)?))
        };
        Self { name, fixed: None, updatable: Some(Box::new(boxed)) }
    }

    pub(crate) fn build(&self, lowered: &Lowered) -> Box<dyn Classifier> {
        self.try_build(lowered, Budget::default()).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    pub(crate) fn try_build(&self, lowered: &Lowered, budget: Budget) -> Result<Box<dyn Classifier>, BuildError> {
        match (&self.fixed, &self.updatable) {
            (Some(build), _) => build(lowered, budget),
            (None, Some(build)) => Ok(build(Start::Rules(lowered), budget)?),
            (None, None) => unreachable!("a subject can be built"),
        }
    }

    pub(crate) fn is_updatable(&self) -> bool {
        self.updatable.is_some()
    }

    pub(crate) fn start(&self, start: Start<'_>) -> Box<dyn Updatable> {
        self.try_start(start, Budget::default()).unwrap_or_else(|e| panic!("{}: {e}", self.name))
    }

    pub(crate) fn try_start(&self, start: Start<'_>, budget: Budget) -> Result<Box<dyn Updatable>, BuildError> {
        self.updatable.as_ref().expect("the subject takes updates")(start, budget)
    }
}

/// The list. A new engine adds itself here and is tested by everything.
pub(crate) fn engines() -> Vec<Subject> {
    let mut all = Vec::new();
    for level in Level::available() {
        all.push(Subject::fixed(format!("bit_select {level:?}"), move |lowered, budget| {
            BitSelect::build(lowered, &bit_select::Config { budget, simd: Some(level), ..Default::default() })
        }));
        all.push(Subject::fixed(format!("bit_select {level:?} lean"), move |lowered, budget| {
            let config = bit_select::Config { budget, simd: Some(level), lean: 0, ..Default::default() };
            BitSelect::build(lowered, &config)
        }));
        all.push(Subject::fixed(format!("bit_vector {level:?}"), move |lowered, budget| {
            // The largest sets here need more than vectors are worth.
            let vectors = 64 << 20;
            BitVector::build(lowered, &bit_vector::Config { budget, simd: Some(level), vectors })
        }));
        all.push(Subject::fixed(format!("linear {level:?}"), move |lowered, budget| {
            Linear::build(lowered, &linear::Config { budget, simd: Some(level) })
        }));
    }
    for level in Level::available() {
        // Seeds of their own, so that a failure comes again; and once the seed that users get.
        for (merge, collision_limit, spill, most_tables, seed) in [
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
        ] {
            let config = move |budget| tuple::Config {
                budget,
                simd: Some(level),
                merge,
                collision_limit,
                spill,
                most_tables,
                seed,
            };
            let (spills, seeded) = (if spill { " spill" } else { "" }, if seed.is_some() { "" } else { " random" });
            let name = format!("tuple {level:?} {merge:?} c={collision_limit}{spills} tables<={most_tables}{seeded}");
            all.push(Subject::updatable(name, move |start, budget| match start {
                Start::Empty(schema) => TupleMerge::new(schema, &config(budget)),
                Start::Rules(lowered) => TupleMerge::build(lowered, &config(budget)),
            }));
        }
        for kind in Kind::ALL {
            let name = format!("meta {level:?} over {}", kind.name());
            all.push(Subject::fixed(name, move |lowered, budget| {
                let (simd, kind, seed) = (Some(level), Some(kind), Some(9));
                meta::Engine::build(lowered, &meta::Config { budget, simd, kind, seed, ..Default::default() })
            }));
        }
    }
    for (kind, in_place) in small_bases() {
        let config = move |budget| meta::Config { budget, kind: Some(kind), in_place: Some(in_place), ..small_meta() };
        let name = format!("meta over {}, overlay<=4, in place<={in_place}", kind.name());
        all.push(Subject::updatable(name, move |start, budget| match start {
            Start::Empty(schema) => Exclusive::new(schema, &config(budget)),
            Start::Rules(lowered) => Exclusive::build(lowered, &config(budget)),
        }));
    }
    // What is timed is another each time.
    for (name, trial) in [("meta", Some(0)), ("meta, timed: random", None)] {
        all.push(Subject::updatable(name.into(), move |start, budget| {
            let config = meta::Config { budget, trial, seed: Some(9), ..Default::default() };
            match start {
                Start::Empty(schema) => Exclusive::new(schema, &config),
                Start::Rules(lowered) => Exclusive::build(lowered, &config),
            }
        }));
    }
    for level in Level::available() {
        // So small that they evict all the time, in sets of every kind; one that steps aside again and again.
        let cache = move |entries, ways, steps_aside| flow::Config {
            entries,
            ways,
            steps_aside,
            window: 8,
            longest_pause: 16,
            simd: Some(level),
            seed: Some(8),
        };
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
        for (reorder, most_partitions) in [(10, 128), (0, 128), (40, 3), (10, 0)] {
            let config = move |budget| partition_sort::Config { budget, simd: Some(level), reorder, most_partitions };
            let name = format!("partition_sort {level:?} reorder<={reorder} partitions<={most_partitions}");
            all.push(Subject::updatable(name, move |start, budget| match start {
                Start::Empty(schema) => PartitionSort::new(schema, &config(budget)),
                Start::Rules(lowered) => PartitionSort::build(lowered, &config(budget)),
            }));
        }
    }
    all
}

/// So small that every test crosses many rebuilds and, with them, flips.
pub(crate) fn small_meta() -> meta::Config {
    meta::Config { overlay: Some(4), dead: Some(8), in_place: Some(12), seed: Some(8), ..Default::default() }
}

/// Every kind of base that stays as it is built, and that which changes in place until a rebuild is due.
pub(crate) fn small_bases() -> impl Iterator<Item = (Kind, usize)> {
    Kind::ALL.into_iter().map(|kind| (kind, 0)).chain([(Kind::BitSelect, 12)])
}

/// Those that take updates.
pub(crate) fn updatable_engines() -> Vec<Subject> {
    engines().into_iter().filter(Subject::is_updatable).collect()
}

/// Regions in order of priority; the first that contains the key wins. Only the broken engines need it: it is what
/// they break.
#[derive(Debug)]
pub(crate) struct Reference {
    pub(crate) lowered: Lowered,
    /// What the broken engines of [`crate::broken`] do wrong; `None` here.
    pub(crate) fault: Option<crate::broken::Fault>,
}

impl Reference {
    pub(crate) fn new(lowered: &Lowered) -> Self {
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
