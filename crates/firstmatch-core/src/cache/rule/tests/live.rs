//! Caches before live rules, with commits at every moment of a lookup.

use std::sync::Mutex;

use super::*;
use crate::live::{self, Reader, Writer};
use crate::rule::{ExpansionLimits, RuleSpec, lower};
use crate::test_rules::of_text;

/// Moments of a lookup at which rules change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    BeforeVersion,
    AfterVersion,
    BeforeLookup,
    AfterLookup,
    BeforeSearch,
    InSearch,
    AfterSearch,
}

/// Number of moments.
const MOMENTS: usize = Moment::AfterSearch as usize + 1;
/// Number of destination ports that the rules match.
const PORTS: usize = 64;

/// Live rules that change inside the calls of a cache.
#[derive(Clone)]
struct Struck(Arc<Rules>);

struct Rules {
    /// All rules, whether they are live or not, with one region each.
    all: Lowered,
    engine: live::Engine,
    search: Arc<dyn Overlaps>,
    changes: Mutex<Changes>,
}

struct Changes {
    writer: Writer,
    random: Random,
    /// Mean number of moments between two commits.
    mean: usize,
    /// Rules that are removed at the moment, by their port; the last one matches all packets.
    away: Vec<Option<RuleSpec>>,
    /// Rules of each generation, by line.
    history: Vec<Vec<Option<RuleId>>>,
    commits: [usize; MOMENTS],
    installed: usize,
}

impl Debug for Struck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Struck")
    }
}

impl Struck {
    fn new(seed: u64, mean: usize) -> Self {
        let ports: String = (0..PORTS).map(|port| format!("deny dport {port}\n")).collect();
        let rules = of_text(&format!("family ipv4\npermit\n{ports}permit src 10.0.0.0/8\n"));
        let first = rules.iter().next().expect("there are rules").clone();
        let all = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default()).expect("within the caps");
        let config = live::Config {
            overlaps: true,
            strategy: live::Strategy::FirstFit,
            overlay: Some(8),
            dead: Some(24),
            seed: Some(1),
            ..live::Config::default()
        };
        let (engines, writer) = live::open(rules, &config).expect("no budget");
        let engine = engines[0].clone();
        let search = engine.overlaps().expect("it was asked for");
        let away = vec![None; PORTS + 1];
        let (history, commits) = (vec![ids(&writer)], [0; MOMENTS]);
        let mut changes = Changes { writer, random: Random(seed), mean, away, history, commits, installed: 0 };
        changes.toggle(first.id, PORTS);
        changes.commits = [0; MOMENTS];
        Self(Arc::new(Rules { all, engine, search, changes: Mutex::new(changes) }))
    }

    /// Returns the first rule of a generation that matches a key.
    fn first(&self, ids: &[Option<RuleId>], key: &[u32]) -> Option<Match> {
        let all = &self.0.all;
        let live = ids.iter().zip(all.rules()).enumerate();
        let found = live.filter_map(|(line, (id, rule))| id.map(|id| (line, Match { rule: id, ..*rule })));
        found.into_iter().find(|(line, _)| all.regions().get(*line).contains(key)).map(|(_, found)| found)
    }

    fn changes(&self) -> std::sync::MutexGuard<'_, Changes> {
        self.0.changes.lock().expect("no test has failed")
    }

    fn at(&self, moment: Moment) {
        self.changes().at(moment);
    }
}

/// Returns the live rules by line.
fn ids(writer: &Writer) -> Vec<Option<RuleId>> {
    let mut ids = vec![None; PORTS + 2];
    for rule in writer.rules().iter() {
        let line = rule.line.expect("it is of a text").get() as usize;
        // The first line is that of the family.
        ids[line - 2] = Some(rule.id);
    }
    ids
}

impl Changes {
    /// Commits a change now and then.
    fn at(&mut self, moment: Moment) {
        if self.random.below(self.mean) != 0 {
            return;
        }
        // The rule about all packets comes and goes most often.
        let at = if self.random.below(3) == 0 { PORTS } else { self.random.below(PORTS) };
        let before = self.history.len();
        match self.away[at].take() {
            Some(spec) => {
                let mut transaction = self.writer.begin();
                transaction.insert(spec.clone()).expect("its priority is free");
                let done = transaction.try_commit();
                drop(transaction);
                match done {
                    Ok(_) => self.history.push(ids(&self.writer)),
                    Err(_) => self.away[at] = Some(spec),
                }
            }
            None => {
                let line = if at == PORTS { 0 } else { at + 1 };
                let rule = self.history.last().and_then(|ids| ids[line]);
                self.toggle(rule.expect("it is live"), at);
            }
        }
        self.commits[moment as usize] += self.history.len() - before;
        // A search holds a replica, so that no rebuild can be installed in both.
        if moment != Moment::InSearch && self.writer.rebuild_is_due() {
            let rebuilt = self.writer.begin_rebuild().run().expect("no budget");
            self.writer.install(rebuilt).expect("it is the last");
            self.installed += 1;
        }
    }

    /// Removes a rule, which is away from then on, unless a batch in progress is in the way.
    fn toggle(&mut self, rule: RuleId, at: usize) {
        let spec = self.writer.rules().get(rule).expect("it is live").spec.clone();
        let mut transaction = self.writer.begin();
        transaction.remove(rule).expect("it is live");
        let done = transaction.try_commit();
        drop(transaction);
        if done.is_ok() {
            self.away[at] = Some(spec);
            self.history.push(ids(&self.writer));
        }
    }
}

impl Engine for Struck {
    type Scratch = Reader;

    fn schema(&self) -> &Schema {
        Engine::schema(&self.0.engine)
    }

    fn new_scratch(&self) -> Reader {
        self.0.engine.new_scratch()
    }

    fn fits(&self, scratch: &Reader) -> bool {
        self.0.engine.fits(scratch)
    }

    fn stats(&self) -> Stats {
        Engine::stats(&self.0.engine)
    }

    fn version(&self) -> u64 {
        self.at(Moment::BeforeVersion);
        let version = Engine::version(&self.0.engine);
        self.at(Moment::AfterVersion);
        version
    }

    fn improve(&self, scratch: &mut Reader, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.at(Moment::BeforeLookup);
        self.0.engine.improve(scratch, keys, best);
        self.at(Moment::AfterLookup);
    }
}

impl Overlaps for Struck {
    fn prepare(&self, probe: &mut Probe) {
        self.0.search.prepare(probe);
    }

    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        self.at(Moment::BeforeSearch);
        let next = self.0.search.visit(probe, cursor, most, &mut |probe, found, region| {
            self.at(Moment::InSearch);
            visit(probe, found, region);
        });
        self.at(Moment::AfterSearch);
        next
    }

    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool {
        self.at(Moment::BeforeSearch);
        let is_there = self.0.search.home(rule, key, probe);
        self.at(Moment::AfterSearch);
        is_there
    }
}

/// Every answer is right at some moment of its batch, whenever the rules change, and boxes answer in between.
#[test]
fn commits_at_any_moment_are_noticed() {
    let mut hits = 0;
    let (mut commits, mut installed) = ([0; MOMENTS], 0);
    for (seed, growth) in (0..24).zip([Growth::Carve, Growth::Grow].into_iter().cycle()) {
        let mean = [20, 60, 200, 600][seed as usize / 2 % 4];
        let struck = Struck::new(seed, mean);
        let tests = [1, 3, usize::MAX][seed as usize % 3];
        let config = Config { growth, tests, ..eager() };
        let search: Arc<dyn Overlaps> = Arc::new(struck.clone());
        let cache = RuleCache::new(struck.clone(), search, &config).expect("no level is forced");
        let (mut scratch, mut random) = (cache.scratch(), Random(seed));
        for batch in 0..600 {
            let mut keys = KeyBuf::new(Classifier::schema(&cache));
            for _ in 0..1 + random.below(8) {
                let source = [0x0A00_0001, 0x0A00_0001, 0x0B00_0001][random.below(3)];
                let port = random.below(PORTS) * random.below(4) / 2;
                keys.push()[..5].copy_from_slice(&[source, 2, 3, port as u32, 6]);
            }
            let from = struck.changes().history.len() - 1;
            let mut got = vec![None; keys.len()];
            cache.classify_batch(&mut scratch, keys.keys(), &mut got);
            let changes = struck.changes();
            for (row, got) in got.into_iter().enumerate() {
                let key = &keys.keys().row(row)[..5];
                let want: Vec<_> = changes.history[from..].iter().map(|ids| struck.first(ids, key)).collect();
                assert!(want.contains(&got), "seed {seed}, batch {batch}, {key:?}: {got:?}, not of {want:?}");
            }
        }
        hits += RuleCache::<Struck>::counts(&scratch).lookups.hits;
        let changes = struck.changes();
        commits.iter_mut().zip(changes.commits).for_each(|(all, own)| *all += own);
        installed += changes.installed;
    }
    assert!(hits > 1000 && installed > 20, "{hits} hits, {installed} rebuilds");
    assert!(commits.iter().all(|&commits| commits > 50), "{commits:?}");
}
