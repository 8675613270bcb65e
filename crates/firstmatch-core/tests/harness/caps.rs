//! Limits of `meta`: what keeps them is built, what does not is refused, also after changes.

use firstmatch_core::engines::bit_vector::{self, BitVector};
use firstmatch_core::live::{self, Candidate, Cap, Config, Engine, Kind, Limits, Outcome, Strategy, Writer};
use firstmatch_core::rule::{ExpansionLimits, Lowered, Priority, RuleSet, RuleSpec, lower};
use firstmatch_core::{Budget, Classifier, Schema};

use crate::case::Case;
use crate::corners;
use crate::counter::counted;
use crate::generate::{Rules, rule_set};
use crate::rng::Rng;

fn lowered(set: &RuleSet) -> Lowered {
    lower(set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the caps")
}

fn rules(count: usize) -> RuleSet {
    rule_set(&Schema::ipv4(), &mut Rng::new(count as u64), count)
}

fn refused_by(candidate: &Candidate) -> Option<Cap> {
    if let Outcome::Refused { cap, .. } = candidate.outcome { Some(cap) } else { None }
}

/// Returns the most bytes that `linear` may take while it is built.
///
/// These are 8 bytes a word, 16 a ternary one, and 24 a region, and the little that sets start with.
fn linear_build_bytes(set: &Lowered) -> usize {
    let key_words = set.schema().words().len() + set.regions().ternary_words().len();
    set.regions().len().next_multiple_of(8) * (8 * key_words + 24) + 2048
}

/// A build succeeds just where some kind keeps the limit, from nothing to plenty.
///
/// With one limit at a time it never chooses a kind that does not keep it, and refuses none that does.
#[test]
fn a_build_succeeds_where_some_kind_keeps_the_cap() {
    let set = lowered(&rules(300));
    // The need of each kind, in the order of trial. Seeds are fixed, so that a kind is the same each time.
    let need_of = |&kind: &Kind| {
        let config = Config { strategy: Strategy::Force(kind), seed: Some(3), ..Config::default() };
        let explained = Engine::build(&set, &config).expect("no cap").explain();
        let own = explained.candidates.iter().find(|of| of.kind == kind).expect("it is listed");
        (kind, [explained.base.worst_lines, explained.base.worst_tests, own.visits.expect("it was built")])
    };
    let needs: Vec<_> = Kind::ALL.iter().map(need_of).collect();
    type With = fn(usize) -> Limits;
    let caps: [(Cap, With, usize); 4] = [
        (Cap::WorstLines, |most| Limits { worst_lines: Some(most), ..Limits::default() }, 0),
        (Cap::WorstTests, |most| Limits { worst_tests: Some(most), ..Limits::default() }, 1),
        (Cap::BuildVisits, |build_visits| Limits { build_visits, ..Limits::default() }, 2),
        (Cap::BuildBytes, |build_bytes| Limits { build_bytes, ..Limits::default() }, 3),
    ];
    for (cap, with, at) in caps {
        // Bounds of the memory of builds are the library's own, but for that of `linear`, which is the least.
        let need = |of: &(Kind, [usize; 3])| of.1.get(at).copied();
        let least = needs.iter().filter_map(need).min().unwrap_or_else(|| linear_build_bytes(&set));
        let most = needs.iter().filter_map(need).max().unwrap_or(1000 * least);
        let mut levels: Vec<usize> =
            needs.iter().filter_map(need).flat_map(|need| [need - 1, need, need + 1]).collect();
        levels.extend([0, 1, least / 2, least - 1, least, least + 1, 2 * least, most, 2 * most, usize::MAX]);
        for trial in [Some(0), None] {
            let mut built = 0;
            for &level in &levels {
                let config = Config { limits: with(level), trial, seed: Some(3), ..Config::default() };
                let result = Engine::build(&set, &config);
                assert_eq!(result.is_ok(), level >= least, "{cap:?} of {level}, {least} are enough: {result:?}");
                match result {
                    Err(error) => assert!(error.budget_exceeded() && error.cap() == Some(cap), "{error}"),
                    Ok(engine) => {
                        built += 1;
                        let explained = engine.explain();
                        let own = explained.candidates.iter().find(|of| of.kind == explained.kind).expect("listed");
                        let takes = [explained.base.worst_lines, explained.base.worst_tests, own.visits.unwrap_or(0)];
                        assert!(takes.get(at).is_none_or(|&takes| takes <= level), "{cap:?} of {level}: {explained}");
                        for (of, own) in needs.iter().zip(&explained.candidates) {
                            let keeps = need(of).is_some_and(|need| need <= level);
                            assert!(!keeps || refused_by(own) != Some(cap), "{cap:?} of {level}: {explained}");
                        }
                    }
                }
            }
            assert!(built * 2 >= levels.len(), "{cap:?}: {built} of {levels:?}");
        }
    }
}

/// The bound on a build of vectors holds, with the limit of 1 MiB on vectors and without.
///
/// The sets are rules that all differ, identical ones, masks, one rule of many regions, and groups.
#[test]
fn a_build_of_vectors_keeps_its_bound() {
    let of = |text: String| {
        let options = firstmatch_formats::Options::default();
        lowered(&firstmatch_formats::parse(&format!("family ipv4\n{text}"), &options).expect("rules").rules)
    };
    let list = |count: u32, step: u32| {
        let address = |at: u32| std::net::Ipv4Addr::from(at.wrapping_mul(step)).to_string();
        (1..=count).map(address).collect::<Vec<_>>().join(", ")
    };
    let many = |count: u32| {
        let rule = |at: u32| format!("permit src {} dport {}\n", list(1, at * 65_537 + 1), at % 5_000);
        of((1..=count).map(rule).collect())
    };
    let masks = |count: u32| {
        let rule = |at: u32| format!("deny dst 0.{}.0.{}/0.{}.0.255\n", at % 250, at % 256, at % 250);
        of((1..=count).map(rule).collect())
    };
    let group = |at: u32| format!("permit src {{ {} }} dst {{ {} }}\n", list(40, 7_919 * at), list(30, 104_729 * at));
    for (name, set) in [
        ("few", many(10)),
        ("all differ", many(1_500)),
        ("more differ", many(6_000)),
        ("identical", of("permit tcp\n".repeat(5_000))),
        ("masks", masks(700)),
        ("one rule", of(format!("permit src not {{ {} }} dport {{ 80, 443, 8080 }}\n", list(9_000, 40_503)))),
        ("groups", of((1..40).map(group).collect())),
    ] {
        for vectors in [1 << 20, 8 << 20] {
            let is_forced = vectors > 1 << 20;
            let strategy = if is_forced { Strategy::Force(Kind::BitVector) } else { Strategy::FirstFit };
            let build_bytes = if is_forced { 0 } else { linear_build_bytes(&set) };
            let limits = Limits { build_bytes, ..Limits::default() };
            let needed = match Engine::build(&set, &Config { strategy, limits, ..Config::default() }) {
                Ok(engine) => match engine.explain().candidates[1].outcome {
                    Outcome::Refused { cap: Cap::BuildBytes, needed, .. } => needed,
                    other => panic!("{name}: {other}"),
                },
                Err(error) => {
                    let said = error.to_string();
                    said.split(' ').find_map(|word| word.parse().ok()).expect("it says the number")
                }
            };
            let config = bit_vector::Config { vectors, ..bit_vector::Config::default() };
            let (_, count) = counted(|| BitVector::build(&set, &config));
            assert!(count.peak as usize <= needed, "{name}, {vectors}: {} bytes of {needed}", count.peak);
        }
    }
}

/// Writer under limits, and counts of what its changes came to.
struct Story {
    engine: Engine,
    writer: Writer,
    limits: Limits,
    run_bytes: usize,
    drawn: Rules,
    rng: Rng,
    commits: usize,
    refused: usize,
    rebuilds: usize,
    /// Rebuilds for which no base kept the limits.
    failed: usize,
    /// Highest numbers of rules that had come or gone in place, and that were in the overlay.
    in_place: usize,
    overlay: usize,
    most_tests: usize,
    most_lines: usize,
    kinds: Vec<Kind>,
}

impl Story {
    fn new(set: RuleSet, config: &Config) -> Self {
        let (mut engines, writer) = live::open(set, config).expect("the first rules keep the caps");
        let mut rng = Rng::new(7);
        let mut story = Self {
            drawn: Rules::new(&Schema::ipv4(), &mut rng, 300),
            engine: engines.remove(0),
            writer,
            limits: config.limits,
            run_bytes: config.budget.run_bytes,
            rng,
            commits: 0,
            refused: 0,
            rebuilds: 0,
            failed: 0,
            in_place: 0,
            overlay: 0,
            most_tests: 0,
            most_lines: 0,
            kinds: Vec::new(),
        };
        story.check();
        story
    }

    /// Panics unless the limits hold, whatever was done.
    fn check(&mut self) {
        let explained = self.engine.explain();
        let (lines, tests) = (explained.base.worst_lines, explained.base.worst_tests);
        assert!(self.limits.worst_lines.is_none_or(|most| lines <= most), "{:?}: {explained}", self.limits);
        assert!(self.limits.worst_tests.is_none_or(|most| tests <= most), "{:?}: {explained}", self.limits);
        let own = explained.candidates.iter().find(|of| of.kind == explained.kind).expect("it is listed");
        assert!(own.visits.is_none_or(|visits| visits <= self.limits.build_visits), "{:?}: {explained}", self.limits);
        assert!(explained.bytes <= self.run_bytes, "{} bytes: {explained}", self.run_bytes);
        assert_eq!(explained.bytes, self.engine.stats().total_bytes());
        self.in_place = self.in_place.max(explained.in_place);
        self.overlay = self.overlay.max(explained.overlay);
        (self.most_lines, self.most_tests) = (self.most_lines.max(lines), self.most_tests.max(tests));
        if self.kinds.last() != Some(&explained.kind) {
            self.kinds.push(explained.kind);
        }
    }

    /// Commits a transaction that removes a rule, or inserts one.
    fn change(&mut self, remove: bool) {
        let count = self.writer.rules().len();
        let spec = RuleSpec { priority: Priority(self.rng.next() >> 8), ..self.drawn.rule(&mut self.rng) };
        let old = self.writer.rules().iter().nth(self.rng.below(count)).map(|rule| rule.id);
        let mut transaction = self.writer.begin();
        match (remove, old) {
            (true, Some(old)) => transaction.remove(old).expect("it is live"),
            _ => drop(transaction.insert(spec).expect("it fits")),
        }
        match transaction.commit() {
            Ok(_) => self.commits += 1,
            Err(error) => {
                assert!(!remove && (error.needs_rebuild() || error.budget_exceeded()), "{error}");
                self.refused += 1;
                assert_eq!(self.writer.rules().len(), count, "nothing is changed");
                self.rebuild();
            }
        }
        self.check();
        if self.writer.rebuild_is_due() {
            self.rebuild();
        }
    }

    /// Rebuilds; where no base keeps the limits the rules stay as they are.
    fn rebuild(&mut self) {
        let before = self.engine.explain();
        let job = self.writer.begin_rebuild();
        let set = lowered(self.writer.rules());
        let (rebuilt, count) = counted(|| job.run());
        // Beside the limited memory there are the rules and what is around the base, such as overlay and tombstones.
        let (_, rules) = counted(|| lowered(self.writer.rules()));
        let beside = 4 * rules.live as usize + 2 * before.bytes + (64 << 10);
        let most = self.limits.build_bytes.saturating_add(beside);
        assert!(count.peak as usize <= most, "{} bytes of {most}: {:?}", count.peak, self.limits);
        match rebuilt {
            Ok(rebuilt) => match self.writer.install(rebuilt) {
                Ok(_) => self.rebuilds += 1,
                Err(error) => assert!(error.needs_rebuild() || error.budget_exceeded(), "{error}"),
            },
            Err(error) => {
                assert!(error.budget_exceeded(), "{error}");
                assert!(self.limits.build_bytes < linear_build_bytes(&set) || error.cap() != Some(Cap::BuildBytes));
                self.failed += 1;
                let after = self.engine.explain();
                assert_eq!((after.epoch, after.base, after.rules), (before.epoch, before.base, before.rules));
            }
        }
        self.check();
    }

    /// Inserts three rules for each that it removes, and then the other way round.
    fn come_and_go(&mut self, steps: usize) {
        for step in 0..steps {
            self.change(step % 4 == 0);
        }
        for step in 0..steps {
            self.change(step % 4 != 0);
        }
        let set = self.writer.rules();
        let packets = corners::of_set(set, &Schema::ipv4(), &mut self.rng, 200);
        Case::new(set, &Schema::ipv4(), packets).check(&self.engine).expect("right");
    }
}

/// No base gets a worse worst case in place than its limits allow.
///
/// A limit that the base just keeps as it was built leaves no room for changes in place. Under a generous one the base
/// gets worse and never too bad.
#[test]
fn worst_cases_are_kept_through_changes() {
    let kind = Some(Kind::BitSelect);
    let free = Engine::build(&lowered(&rules(300)), &Config { strategy: kind.into(), ..Config::default() })
        .expect("no cap")
        .explain();
    let (mut aside, mut in_place, mut worse, mut close) = (0, 0, 0, 0);
    for slack in [0, 25, 50, 75, 100, 150, 200, 300, 500] {
        let cap = |of: usize| Some(of + of * slack / 100);
        let limits = Limits {
            worst_lines: cap(free.base.worst_lines),
            worst_tests: cap(free.base.worst_tests),
            ..Limits::default()
        };
        let mut story =
            Story::new(rules(300), &Config { strategy: kind.into(), limits, seed: Some(1), ..Config::default() });
        story.come_and_go(400);
        aside += usize::from(story.overlay > 0 && story.in_place == 0);
        in_place += usize::from(story.in_place > 0);
        worse += usize::from(story.most_tests > free.base.worst_tests);
        close += usize::from(limits.worst_tests.is_some_and(|most| 2 * story.most_tests >= most));
        assert!(story.commits > 700 && story.rebuilds > 0, "{slack}: {} {}", story.commits, story.rebuilds);
    }
    assert!(aside > 0 && in_place > 0 && worse > 0 && close > 2, "{aside} {in_place} {worse} {close}");
}

/// Rebuilds take no more than builds may.
///
/// Where the rules have become too many for a kind, another is built.
#[test]
fn builds_are_capped_after_changes() {
    let first = Config { strategy: Strategy::FirstFit, seed: Some(1), overlay: Some(60), ..Config::default() };
    let set = lowered(&rules(300));
    let free = Engine::build(&set, &first).expect("no cap").explain();
    assert_eq!(free.kind, Kind::BitSelect);
    let visits = free.candidates[0].visits.expect("it was built");
    let (regions, key_words) = (set.regions().len(), set.schema().words().len() + set.regions().ternary_words().len());
    for (limits, run_bytes) in [
        (Limits { build_visits: visits / 4, ..Limits::default() }, usize::MAX),
        (Limits { build_visits: 4 * regions, ..Limits::default() }, usize::MAX),
        // The first is as much as `bit_select` may take to build of these rules. The second is as much as `linear` may
        // for three times as many.
        (Limits { build_bytes: (32 * key_words + 2200) * regions + (16 << 10), ..Limits::default() }, usize::MAX),
        (Limits { build_bytes: 3 * linear_build_bytes(&set), ..Limits::default() }, usize::MAX),
        (Limits::default(), free.bytes),
    ] {
        let mut story = Story::new(rules(300), &Config { limits, budget: Budget { run_bytes }, ..first.clone() });
        story.come_and_go(400);
        let said =
            format!("{limits:?}, {run_bytes}: {} rebuilds, {} failed, {:?}", story.rebuilds, story.failed, story.kinds);
        assert!(story.commits > 200 && story.rebuilds > 2, "{said}, {} commits", story.commits);
        assert!(story.kinds.len() > 1 || story.kinds != [Kind::BitSelect], "no cap was ever in the way: {said}");
    }
}

/// Rebuilds fail and change nothing where no base keeps a limit any more.
///
/// The rules go on in the overlay until it is full. Once enough of them are gone a rebuild succeeds.
#[test]
fn rules_that_outgrow_a_cap_stay_beside_the_base() {
    let text = format!("family ipv4\n{}", "permit tcp dport 80\n".repeat(30));
    let set = firstmatch_formats::parse(&text, &firstmatch_formats::Options::default()).expect("rules").rules;
    let spec = set.iter().next().expect("some").spec.clone();
    let limits = Limits { worst_tests: Some(48), ..Limits::default() };
    let (engines, mut writer) =
        live::open(set, &Config { limits, overlay: Some(40), in_place: Some(0), ..Config::default() })
            .expect("it fits");
    let (mut more, mut failed, mut refused) = (Vec::new(), 0, 0);
    for at in 0..60 {
        let mut transaction = writer.begin();
        let id = transaction.insert(RuleSpec { priority: Priority((1 << 60) + at), ..spec.clone() }).expect("it fits");
        match transaction.commit() {
            Ok(_) => more.push(id),
            Err(error) => {
                assert!(error.needs_rebuild() && engines[0].overlay() == (40, 40), "{error}");
                refused += 1;
            }
        }
        if writer.rebuild_is_due() {
            match writer.begin_rebuild().run() {
                Ok(rebuilt) => drop(writer.install(rebuilt).expect("the last")),
                Err(error) => {
                    assert_eq!(error.cap(), Some(Cap::WorstTests), "{error}");
                    failed += 1;
                }
            }
        }
        let explained = engines[0].explain();
        assert!(explained.base.worst_tests <= 48 && explained.rules == writer.rules().len(), "{explained}");
        assert!(engines[0].stats().worst_tests <= 48 + 40, "what the overlay may hold comes on top");
    }
    assert!(failed > 0 && refused > 0 && more.len() >= 40, "{failed} {refused} {}", more.len());
    for id in more {
        let mut transaction = writer.begin();
        transaction.remove(id).expect("it is live");
        transaction.commit().expect("removals are never refused");
    }
    let rebuilt = writer.begin_rebuild().run().expect("they fit again");
    writer.install(rebuilt).expect("the last");
    assert_eq!((engines[0].overlay().0, engines[0].explain().rules), (0, 30));
}
