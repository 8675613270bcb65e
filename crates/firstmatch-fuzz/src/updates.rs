//! Insertions and removals, right ones and wrong ones: after each the engines answer as the oracle.

use firstmatch::rule::{Caps, FieldValues, Priority, Region, Regions, RuleId, RuleSet, RuleSpec, lower};
use firstmatch::simd::Level;
use firstmatch::tuple::{Config, TupleMerge};
use firstmatch::{Budget, Classifier, Match, Schema, Scratch, Stats, Updatable, UpdateError};

use crate::case::Case;
use crate::corners;
use crate::draw::Draw;
use crate::generate::schemas;
use crate::rng::Rng;

const MOST_STEPS: usize = 64;
const MOST_REGIONS: usize = 32;
/// After each step.
const PACKETS: usize = 12;
/// The last rules that were removed: their ids are stale, their corners worth asking about.
const DEAD: usize = 8;

/// An engine and a rule set that take the same changes. Under a budget some are refused, so each engine has a set of
/// its own.
struct Mirror {
    config: Config,
    schema: Schema,
    engine: TupleMerge,
    /// One for all steps.
    scratch: Scratch,
    set: RuleSet,
    regions: usize,
    dead: Vec<(RuleId, RuleSpec)>,
}

impl Mirror {
    fn new(schema: &Schema, config: Config) -> Option<Self> {
        let engine = match TupleMerge::new(schema, &config) {
            Ok(engine) => engine,
            Err(error) => {
                assert!(error.budget_exceeded(), "{config:?}: {error}");
                return None;
            }
        };
        let (schema, set) = (schema.clone(), RuleSet::new(schema.clone()));
        Some(Self { config, scratch: engine.scratch(), schema, engine, set, regions: 0, dead: Vec::new() })
    }

    /// The live rule at this place, counted round.
    fn live(&self, place: usize) -> Option<RuleId> {
        self.set.iter().nth(place % self.set.len().max(1)).map(|rule| rule.id)
    }

    fn insert(&mut self, spec: &RuleSpec, regions: &Regions) {
        // The priority is taken, or the rule is in.
        let Ok(id) = self.set.insert(spec.clone()) else { return };
        let rule = Match { rule: id, priority: spec.priority };
        let before = self.engine.stats();
        match self.engine.insert(rule, regions) {
            Ok(()) => self.regions += regions.len(),
            Err(error) => {
                self.set.remove(id).expect("just inserted");
                let Self { config, .. } = self;
                assert!(error.budget_exceeded() && config.budget != Budget::default(), "{config:?}: {error}");
                // Regions that were in already went again; the memory they took may be kept for the next.
                let after = self.engine.stats();
                assert!(regions.len() > 1 || after == before, "{config:?}: {before:?}, then {after:?}");
            }
        }
    }

    fn remove(&mut self, id: RuleId) {
        let rule = self.set.remove(id).expect("the rule is live");
        let mut regions = Regions::new(self.schema.lanes().len());
        self.regions -= firstmatch::rule::lower_rule(&self.schema, &rule, &Caps::default(), &mut regions)
            .expect("it was lowered before");
        let removed = self.engine.remove(id);
        assert!(removed.is_ok(), "{:?}: {removed:?}", self.config);
        if self.dead.len() == DEAD {
            self.dead.remove(0);
        }
        self.dead.push((id, rule.spec));
    }

    /// A change that must fail and leave everything as it was.
    fn fails(&mut self, what: &str, change: impl FnOnce(&mut TupleMerge) -> Result<(), UpdateError>) -> UpdateError {
        let before = self.engine.stats();
        let Err(error) = change(&mut self.engine) else { panic!("{:?}: {what} was accepted", self.config) };
        assert_eq!(self.engine.stats(), before, "{:?}: {what} left something behind", self.config);
        error
    }

    /// Ids that no live rule has: of removed rules, of slots never used, of live slots at other times.
    fn remove_stale(&mut self, place: usize) {
        let mut stale: Vec<RuleId> = self.dead.iter().map(|(id, _)| *id).collect();
        stale.extend([RuleId::new(self.set.slots() as u32, 0), RuleId::new(u32::MAX - 1, u32::MAX)]);
        if let Some(live) = self.live(place) {
            let slot = live.slot() as u32;
            stale.extend([live.reuse().wrapping_add(1), live.reuse().wrapping_sub(1)].map(|r| RuleId::new(slot, r)));
        }
        let id = stale[place % stale.len()];
        let error = self.fails("a stale id", |engine| engine.remove(id));
        assert!(error.is_stale(), "{error}");
    }

    fn insert_twice(&mut self, place: usize, regions: &Regions) {
        let Some(live) = self.live(place) else { return };
        let reuse = live.reuse().wrapping_add(place as u32 & 1);
        let rule = Match { rule: RuleId::new(live.slot() as u32, reuse), priority: Priority(u64::MAX) };
        let error = self.fails("a slot that is taken", |engine| engine.insert(rule, regions));
        assert!(!error.is_stale() && !error.budget_exceeded(), "{error}");
    }

    fn insert_other_lanes(&mut self, place: usize) {
        let lanes = if place & 1 == 0 { self.schema.lanes().len() + 1 } else { self.schema.lanes().len() - 1 };
        let mut regions = Regions::new(lanes);
        let zeros = vec![0; lanes];
        regions.push(Region { lo: &zeros, hi: &zeros, ternary: None });
        let rule = Match { rule: RuleId::new(self.set.slots() as u32, 0), priority: Priority(u64::MAX) };
        let error = self.fails("another number of lanes", |engine| engine.insert(rule, &regions));
        assert!(!error.is_stale() && !error.budget_exceeded(), "{error}");
    }

    /// What the engine says of itself.
    fn check_stats(&self) -> Stats {
        let stats = self.engine.stats();
        let bytes = stats.total_bytes();
        assert!(bytes <= self.config.budget.run_bytes, "{:?}: {bytes} bytes", self.config);
        assert_eq!(stats.regions, self.regions, "{:?}", self.config);
        stats
    }

    fn check(&mut self, packets: &[FieldValues]) {
        self.check_stats();
        let case = Case::new(&self.set, &self.schema, packets.to_vec());
        if let Err(what) = case.check_with(&self.engine, &mut self.scratch) {
            panic!("{:?}: {what}\n{:#?}", self.config, self.set);
        }
    }

    /// In the end a fresh build from the same rules says the same.
    fn finish(&self, rng: &mut Rng) {
        let lowered = lower(&self.set, &self.schema, &Caps::default()).expect("within the caps");
        let config = Config { budget: Budget::default(), ..self.config.clone() };
        let fresh = TupleMerge::build(&lowered, &config).expect("no budget");
        let (changed, built) = (self.check_stats(), fresh.stats());
        assert_eq!((changed.rules, changed.regions), (built.rules, built.regions), "{:?}", self.config);
        let case = Case::new(&self.set, &self.schema, corners::of_set(&self.set, &self.schema, rng, 3 * PACKETS));
        for engine in [&self.engine, &fresh] {
            if let Err(what) = case.check_lengths(engine, [3 * PACKETS, 1, 2, 9]) {
                panic!("{config:?}: {what}\n{:#?}", self.set);
            }
        }
    }
}

/// `c`, whether crowded rules spill, and whether there is a budget.
const CONFIGS: [(usize, bool, bool); 6] =
    [(1, false, false), (1, true, true), (2, true, false), (3, false, true), (8, true, true), (40, false, false)];

/// Plays a sequence of changes, some of which must be refused, on TupleMerge at several `c` and budgets. After each
/// the answers are the oracle's, a refused change has changed nothing and the budget is kept.
pub fn updates(data: &[u8]) {
    let mut draw = Draw::new(data);
    let mut all = schemas();
    let schema = all.swap_remove(draw.below(all.len())).1;
    let mut rng = Rng::new(u64::from(draw.word()));
    let run_bytes = 500 + usize::from(draw.word()) * 2;
    let levels: Vec<Level> = Level::available().collect();
    let config = |(number, (collision_limit, spill, small)): (usize, (usize, bool, bool))| Config {
        budget: if small { Budget { run_bytes } } else { Budget::default() },
        simd: Some(levels[number % levels.len()]),
        collision_limit,
        spill,
        seed: Some(number as u64),
        ..Config::default()
    };
    let mut mirrors: Vec<Mirror> =
        CONFIGS.into_iter().enumerate().map(config).filter_map(|config| Mirror::new(&schema, config)).collect();
    for _ in 0..MOST_STEPS {
        if draw.is_done() {
            break;
        }
        let (step, place) = (draw.below(16), usize::from(draw.byte()));
        let rule = if step < 10 { draw.rule(&schema, MOST_REGIONS) } else { None };
        for mirror in &mut mirrors {
            match (step, &rule) {
                (0..9, Some((spec, regions))) => mirror.insert(spec, regions),
                (9, Some((_, regions))) => mirror.insert_twice(place, regions),
                (10..14, _) => mirror.live(place).into_iter().for_each(|id| mirror.remove(id)),
                (14, _) => mirror.remove_stale(place),
                (15, _) => mirror.insert_other_lanes(place),
                _ => {}
            }
        }
        // From the rules of the set without a budget, which takes every change.
        let Some(all) = mirrors.iter().find(|mirror| mirror.config.budget == Budget::default()) else { return };
        let mut rules: Vec<RuleSpec> = all.set.iter().map(|rule| rule.spec.clone()).collect();
        rules.extend(all.dead.iter().map(|(_, spec)| spec.clone()));
        // Those of the last change are asked about most.
        let last = rule.iter().map(|(spec, _)| spec).chain(all.dead.last().map(|(_, spec)| spec));
        let mut packets: Vec<FieldValues> =
            last.flat_map(|spec| corners::packets(&schema, std::slice::from_ref(spec), &mut rng, 3)).collect();
        packets.extend(corners::packets(&schema, &rules, &mut rng, PACKETS));
        mirrors.iter_mut().for_each(|mirror| mirror.check(&packets));
    }
    for mirror in &mirrors {
        mirror.finish(&mut rng);
    }
}
