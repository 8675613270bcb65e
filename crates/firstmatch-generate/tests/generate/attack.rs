//! Tests that attack sets are as described, and that no engine explodes on them.

use std::collections::HashSet;

use firstmatch_core::engines::bit_select::{self, BitSelect};
use firstmatch_core::engines::linear::{self, Linear};
use firstmatch_core::engines::tuple::{self, TupleMerge};
use firstmatch_core::live::{self, Kind, Limits, Outcome, Strategy};
use firstmatch_core::rule::{ExpansionLimits, Lowered, Region, lower};
use firstmatch_core::schema::Family;
use firstmatch_core::{Budget, Classifier, RuleSet};
use firstmatch_generate::attack::{Attack, generate};
use firstmatch_generate::profile::PROFILES;
use firstmatch_generate::{keys, rules};
use firstmatch_testkit::counter::counted;

fn lowered(set: &RuleSet) -> Lowered {
    lower(set, &set.schemas()[0], &ExpansionLimits::default()).expect("within the caps")
}

fn sets(rules: usize) -> impl Iterator<Item = (String, Lowered)> {
    Attack::ALL.into_iter().flat_map(move |attack| {
        [Family::Ipv4, Family::Ipv6].map(|family| {
            let set = generate(attack, family, rules, 1).expect("so many there are");
            (format!("{attack} {}", family.name()), lowered(&set))
        })
    })
}

/// Generates ordinary sets by profile, for comparison.
fn ordinary(rules: usize) -> impl Iterator<Item = (String, Lowered)> {
    PROFILES.into_iter().map(move |name| {
        let profile = name.parse().expect("a profile");
        let set = rules::generate(&rules::Config { rules, profile, ..Default::default() }).expect("so many there are");
        (name.to_owned(), lowered(&set))
    })
}

#[test]
fn attacks_are_what_they_say() {
    for family in [Family::Ipv4, Family::Ipv6] {
        let of = |attack| generate(attack, family, 2000, 7).expect("so many there are");
        let regions_of = |attack| lowered(&of(attack));
        assert!(Attack::ALL.iter().all(|&attack| of(attack).len() == 2000 && attack.name().parse() == Ok(attack)));

        let overlapping = regions_of(Attack::Overlapping);
        let regions = overlapping.regions();
        for word in 0..regions.key_words() {
            let lo = regions.iter().map(|region| region.lo[word]).max();
            assert!(lo <= regions.iter().map(|region| region.hi[word]).min(), "word {word}: no packet is in all");
        }

        let lengths = |region: Region<'_>| -> Vec<u32> {
            // Source and destination have four words each in IPv6.
            let key_words = family.address_bits() as usize / 32;
            let open = |word: usize| (region.lo[word] ^ region.hi[word]).count_ones();
            [0, key_words].iter().map(|&first| (first..first + key_words).map(open).sum()).collect()
        };
        let tuples = regions_of(Attack::Tuples);
        let pairs: HashSet<Vec<u32>> = tuples.regions().iter().map(lengths).collect();
        assert_eq!(pairs.len(), if family == Family::Ipv4 { 33 * 33 } else { 2000 });

        let open = vec![family.address_bits(); 2];
        assert!(regions_of(Attack::Ranges).regions().iter().all(|region| lengths(region) == open));
        let cross = regions_of(Attack::Cross);
        let halves = [0, 1].map(|at| cross.regions().iter().filter(|&region| lengths(region)[at] == open[at]).count());
        assert_eq!(halves, [1000, 1000]);
    }
    assert!(generate(Attack::Cross, Family::Ipv4, 0, 1).is_err_and(|error| error.is_config()));
    assert!("all".parse::<Attack>().is_err_and(|error| error.to_string().contains("expected one of overlapping, ")));
}

/// No attack takes much more memory than ordinary rules, at run time or at build peak.
///
/// The comparison is per word.
#[test]
fn memory_does_not_explode() {
    let each = |set: &Lowered| {
        let regions = set.regions().len() as f64;
        let bits = counted(|| BitSelect::build(set, &bit_select::Config::default()).expect("no budget")).1;
        let tuples = counted(|| TupleMerge::build(set, &tuple::Config::default()).expect("no budget")).1;
        let tss = counted(|| TupleMerge::build(set, &tuple::Config::tss()).expect("no budget")).1;
        [bits.live, bits.peak, tuples.live, tuples.peak, tss.live, tss.peak].map(|bytes| bytes as f64 / regions)
    };
    for rules in [1000, 5000] {
        let usual = ordinary(rules).map(|(_, set)| each(&set)).reduce(|a, b| std::array::from_fn(|i| a[i].max(b[i])));
        let usual = usual.expect("there are profiles");
        for (name, set) in sets(rules) {
            // IPv6 has 11 words, IPv4 has 5.
            let share = set.schema().words().len() as f64 / 5.0;
            for (is, usual) in each(&set).into_iter().zip(usual) {
                assert!(is < 2.5 * usual * share, "{rules} rules, {name}: {is} bytes a region, otherwise {usual}");
            }
        }
    }
}

/// A base keeps any budget and limits and answers correctly, or the error names the cause.
///
/// No build takes more memory than was allowed.
#[test]
fn budgets_and_limits_are_kept() {
    for (name, set) in sets(1500).chain(ordinary(1500)) {
        let drawn =
            keys::generate(&set, &keys::Config { keys: 500, points: keys::Points::Edges, ..Default::default() });
        let drawn = drawn.expect("keys");
        let answers = |engine: &dyn Classifier| {
            let mut out = vec![None; drawn.len()];
            engine.classify_batch(&mut engine.scratch(), drawn.keys(), &mut out);
            out
        };
        let right = answers(&Linear::build(&set, &linear::Config::default()).expect("no budget"));
        let (mut built, mut refused) = (0, 0);
        for kind in Kind::ALL.iter().copied().map(Some).chain([None]) {
            for share in [0.25, 0.5, 1.0, 1.5, 3.0, f64::INFINITY] {
                let of = |usual: f64| (usual * share * set.regions().len() as f64) as usize;
                let free = Limits::default();
                for (budget, limits) in [
                    (Budget { run_bytes: of(120.0) }, free),
                    (Budget::default(), Limits { build_bytes: of(500.0), ..free }),
                    (Budget::default(), Limits { worst_lines: Some(of(0.05)), ..free }),
                    (Budget::default(), Limits { worst_tests: Some(of(0.05)), ..free }),
                    (Budget::default(), Limits { build_visits: of(100.0), ..free }),
                ] {
                    let config =
                        live::Config { strategy: kind.into(), budget, limits, seed: Some(3), ..Default::default() };
                    let (engine, count) = counted(|| live::Engine::build(&set, &config));
                    let engine = match engine {
                        Ok(engine) => engine,
                        Err(error) => {
                            let said = error.to_string();
                            assert!(error.budget_exceeded(), "{name}: {said}");
                            assert!(
                                said.contains("the limit is") || said.contains("the budget allows"),
                                "{name}: {said}"
                            );
                            refused += 1;
                            continue;
                        }
                    };
                    built += 1;
                    let explained = engine.explain();
                    let around = explained.bytes - explained.base.total_bytes();
                    assert!(explained.bytes <= budget.run_bytes, "{name}: {explained}");
                    assert!(
                        limits.worst_lines.is_none_or(|most| explained.base.worst_lines <= most),
                        "{name}: {explained}"
                    );
                    assert!(
                        limits.worst_tests.is_none_or(|most| explained.base.worst_tests <= most),
                        "{name}: {explained}"
                    );
                    let peak = (count.peak as usize).saturating_sub(around);
                    assert!(peak <= limits.build_bytes, "{name}: {peak} of {}\n{explained}", limits.build_bytes);
                    for candidate in &explained.candidates {
                        if let Outcome::Refused { needed, allowed, .. } = candidate.outcome {
                            assert!(needed > allowed, "{name}: {candidate}");
                            refused += 1;
                        }
                    }
                    assert!(answers(&engine) == right, "{name}: {explained}");
                }
            }
        }
        assert!(built > 30 && refused > 15, "{name}: {built} built, {refused} refused");
    }
}

/// No build exceeds its bound on bytes, or a few times the region visits of ordinary rules.
///
/// The bound must not be far above the need of some set. Where visits are capped, a build stops soon.
#[test]
fn builds_do_not_explode() {
    let mut nearest = vec![0.0; Kind::ALL.len()];
    for rules in [300, 2000, 6000] {
        for (name, set) in sets(rules).chain(ordinary(rules)) {
            for (kind, nearest) in Kind::ALL.iter().copied().zip(&mut nearest) {
                if rules > 2000 && (kind == Kind::BitVector || kind == Kind::TupleMerge && name.starts_with("ranges")) {
                    continue;
                }
                let with = |limits| {
                    let config =
                        live::Config { strategy: Strategy::Force(kind), limits, seed: Some(3), ..Default::default() };
                    live::Engine::build(&set, &config)
                };
                let free = Limits::default();
                let said = with(Limits { build_bytes: 1, ..free }).expect_err("too little").to_string();
                let bound: usize = said.split(' ').find_map(|word| word.parse().ok()).expect("the bytes");
                let (engine, count) = counted(|| with(free));
                // Pairs may outgrow the engine's own limit, which ends the build within the bound.
                if kind == Kind::SetPairs && engine.is_err() {
                    assert!(count.peak as usize <= bound, "{rules} rules, {name}: {count:?}, {bound} bytes");
                    continue;
                }
                let engine = engine.expect("no cap");
                let explained = engine.explain();
                let around = explained.bytes - explained.base.total_bytes();
                let share = (count.peak as usize - around) as f64 / bound as f64;
                assert!(share <= 1.0, "{rules} rules, {name}: {share} of the bound of {kind}, {bound} bytes");
                *nearest = share.max(*nearest);

                let visits = explained.candidates.iter().find_map(|of| of.visits).expect("it was built");
                let regions = set.regions().len();
                let usual = match kind {
                    Kind::Linear => 1,
                    Kind::TupleMerge => 600,
                    Kind::BitSelect => 4000,
                    Kind::BitVector => 1000,
                    Kind::SetPairs => 20_000,
                    Kind::Decomposition => 6000,
                    _ => unreachable!("a new kind needs its usual visits here"),
                };
                assert!(visits <= usual * regions, "{rules} rules, {name}: {visits} visits by {kind}");
                let error = with(Limits { build_visits: visits / 4, ..free }).expect_err("four times as many");
                let made: usize = error.to_string().split(' ').find_map(|word| word.parse().ok()).expect("the visits");
                let more = made - visits / 4;
                let said = format!("{rules} rules, {name}: {more} more than {} by {kind}: {error}", visits / 4);
                assert!(error.budget_exceeded() && more <= 20 * regions + 4096, "{said}");
            }
        }
    }
    // The bound of vectors by field takes every field for one that cuts all rules.
    // That of pairs takes as many as all classes could have, up to a limit on the tables.
    let least = |kind: Kind| match kind {
        Kind::SetPairs => 0.0,
        Kind::Decomposition => 0.2,
        _ => 0.3,
    };
    let is_near = |(&kind, &share): (&Kind, &f64)| share > least(kind);
    assert!(Kind::ALL.iter().zip(&nearest).all(is_near), "{nearest:?} of {:?}", Kind::ALL);
}

/// Comparing candidates keeps its budget of region visits on attack sets too.
#[test]
fn comparing_keeps_its_budget() {
    let mut untimed = 0;
    for (name, set) in sets(3000) {
        for trial in [1 << 10, 1 << 16, 1 << 22, 1 << 25] {
            let config = live::Config { trial: Some(trial), ..Default::default() };
            let explained = live::Engine::build(&set, &config).expect("no budget").explain();
            assert!(explained.compared <= trial, "{name}: {} of {trial} visits, {explained}", explained.compared);
            assert!(trial < 1 << 25 || explained.compared > 0, "{name}: {explained}");
            untimed += explained.candidates.iter().filter(|of| of.outcome == Outcome::Untimed).count();
        }
    }
    assert!(untimed > 10, "{untimed}");
}

/// TupleMerge builds slowly from ranges alone; beside another base it ends within its share of visits and is not taken.
#[test]
fn what_takes_long_to_build_is_left_unfinished() {
    for (name, set) in sets(3000).chain(ordinary(3000)) {
        let explained = live::Engine::build(&set, &live::Config::default()).expect("no budget").explain();
        let of = |kind| explained.candidates.iter().find(|of| of.kind == kind).expect("every kind is listed");
        let candidate = of(Kind::TupleMerge);
        let visits = candidate.visits.unwrap_or(0);
        assert!(visits <= 340 * set.regions().len() + (1 << 18), "{name}: {visits} visits, {explained}");
        assert!(!name.starts_with("ranges") || candidate.outcome != Outcome::Chosen, "{name}: {explained}");
    }
}
