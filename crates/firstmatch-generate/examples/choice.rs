//! Compares the base that `meta` chooses with every other base.
//!
//! The rules stand below a wide first rule, which is then removed:
//!
//!     cargo run --profile dist -p firstmatch-generate --example choice -- [rules=10000] [profile=acl1] [keys=4096] [rounds=7] [all]
//!
//! Each row is a generated profile, a first rule and a kind of traffic. It shows the time of a packet in the chosen
//! base and in the fastest one within the default limits, and their ratio. The times in the forced bases follow. Rows
//! with a ratio above 2 are printed, or all with `all`. Each time is the least of several interleaved rounds. The last
//! line sums up.

#![expect(clippy::print_stdout, reason = "the figures that were asked for")]

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use firstmatch_core::live::{self, Config, Engine, Kind, Outcome, Strategy};
use firstmatch_core::rule::{ExpansionLimits, Lowered, RuleSet, lower};
use firstmatch_core::{Classifier, KeyBuf, Match, Policy};
use firstmatch_generate::keys::{self, Points};
use firstmatch_generate::profile::PROFILES;
use firstmatch_generate::rules;

/// First rules, each with the change of address or protocol that leads a key past it.
const FIRST: [(&str, Past); 4] = [
    ("deny src not 10.0.0.0/8", Past::Source(0x0A00_0000, 24)),
    ("permit src not 198.51.100.0/24", Past::Source(0xC633_6400, 8)),
    ("permit tcp", Past::Protocol(17)),
    ("permit", Past::Nothing),
];

#[derive(Clone, Copy)]
enum Past {
    Source(u32, u32),
    Protocol(u32),
    Nothing,
}

const BATCH: usize = 256;
/// Number of keys tried to find one that matches no rule.
const TRIES: usize = 32;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |name: &str| args.iter().find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let rounds = word("rounds").map_or(Ok(7), str::parse)?;
    let sizes = word("rules").map_or(Ok(vec![10_000, 100_000]), |size| size.parse().map(|size| vec![size]))?;
    // Number of keys for each kind of traffic.
    let keys = word("keys").map_or(Ok(4096), str::parse)?;
    let shows_all = args.iter().any(|word| word == "all");
    let is_asked = |name: &str| {
        word("profile").map_or(name.ends_with(|c: char| c.is_ascii_digit()) || name == "uniform", |asked| asked == name)
    };
    let (mut counted, mut slower, mut over) = (0, 0, 0);
    let mut worst = 0.0f64;
    println!("rules profile first rule; phase; traffic: base ns, best ns, ratio");
    for rules in sizes {
        for profile in PROFILES.into_iter().filter(|name| is_asked(name)) {
            for (first, past) in FIRST {
                let set = below(first, profile, rules)?;
                for phase in measured(&set, past, keys, rounds)? {
                    over += usize::from(!phase.keeps_limits);
                    for row in phase.rows {
                        let ratio = row.base.1 / row.best.1;
                        (counted, slower) = (counted + 1, slower + usize::from(ratio > 2.0));
                        worst = worst.max(ratio);
                        if ratio > 2.0 || shows_all {
                            print!(
                                "{rules} {profile} `{first}`; {}; {}: {} {:.1}, {} {:.1}, {ratio:.2};",
                                phase.name, row.traffic, row.base.0, row.base.1, row.best.0, row.best.1
                            );
                            row.others.iter().for_each(|(kind, nanos)| print!(" {kind} {nanos:.1}"));
                            println!();
                        }
                    }
                }
            }
        }
    }
    println!("{counted} rows, {slower} above 2, the worst {worst:.2}; {over} bases over the default limits");
    Ok(())
}

/// Generates rules and puts the rule `first` in front of them.
fn below(first: &str, profile: &str, rules: usize) -> Result<RuleSet, Box<dyn Error>> {
    let config = rules::Config { rules, profile: profile.parse()?, fewer: true, ..rules::Config::default() };
    let mut text = String::new();
    firstmatch_formats::write::native(&rules::generate(&config)?, &Policy::default(), &mut text)?;
    let text = text.replacen("\n\n", &format!("\n\n{first}\n"), 1);
    Ok(firstmatch_formats::parse(&text, &firstmatch_formats::Options::default())?.rules)
}

struct Phase {
    name: &'static str,
    keeps_limits: bool,
    rows: Vec<Row>,
}

struct Row {
    traffic: &'static str,
    base: (Kind, f64),
    best: (Kind, f64),
    others: Vec<(Kind, f64)>,
}

/// Measures `set` as it is, and again after its first rule is removed.
fn measured(set: &RuleSet, past: Past, keys: usize, rounds: usize) -> Result<Vec<Phase>, Box<dyn Error>> {
    let config = Config::default();
    let (engines, mut writer) = live::open(set.clone(), &config)?;
    let lowered = lower(set, &set.schemas()[0], &ExpansionLimits::default())?;
    let mut phases = vec![phase("built", &engines[0], &lowered, past, keys, rounds)?];
    let first = set.iter().next().ok_or("no rules")?.id;
    let mut transaction = writer.begin();
    transaction.remove(first)?;
    transaction.commit()?;
    if writer.rebuild_is_due() {
        let rebuilt = writer.begin_rebuild().run()?;
        writer.install(rebuilt)?;
    }
    let rest = writer.rules().clone();
    let lowered = lower(&rest, &rest.schemas()[0], &ExpansionLimits::default())?;
    phases.push(phase("removed", &engines[0], &lowered, past, keys, rounds)?);
    Ok(phases)
}

fn phase(
    name: &'static str,
    engine: &Engine,
    lowered: &Lowered,
    past: Past,
    keys: usize,
    rounds: usize,
) -> Result<Phase, Box<dyn Error>> {
    let explained = engine.explain();
    let mut others = Vec::new();
    for &kind in Kind::ALL {
        // A forced base is not subject to the limits of the default choice, so the slowest cases are left out here.
        let of = explained.candidates.iter().find(|of| of.kind == kind).map(|of| of.outcome);
        if matches!(of, Some(Outcome::Outgrown { .. } | Outcome::Deep { .. })) {
            continue;
        }
        let other = Engine::build(lowered, &Config { strategy: Strategy::Force(kind), ..Config::default() })?;
        if other.explain().base.worst_tests <= 4096 {
            others.push((kind, other));
        }
    }
    let mut rows = Vec::new();
    for (traffic, keys) in traffic(lowered, engine, past, keys)? {
        let mut all: Vec<&dyn Classifier> = others.iter().map(|(_, other)| other as &dyn Classifier).collect();
        all.push(engine);
        let nanos = timed(&all, &keys, rounds);
        let (own, others_nanos) = nanos.split_last().ok_or("nothing timed")?;
        let others: Vec<_> = others.iter().map(|(kind, _)| *kind).zip(others_nanos.iter().copied()).collect();
        let base = (explained.kind, *own);
        let best = others.iter().copied().chain([base]).min_by(|a, b| a.1.total_cmp(&b.1)).ok_or("nothing timed")?;
        rows.push(Row { traffic, base, best, others });
    }
    Ok(Phase { name, keeps_limits: explained.base.worst_tests <= 4096, rows })
}

/// Returns kinds of traffic with their keys; a kind without enough keys is left out.
fn traffic(
    lowered: &Lowered,
    engine: &Engine,
    past: Past,
    count: usize,
) -> Result<Vec<(&'static str, KeyBuf)>, Box<dyn Error>> {
    let drawn =
        |points, keys, seed| keys::generate(lowered, &keys::Config { keys, points, seed, ..Default::default() });
    let lead_past = |from: &KeyBuf| {
        let mut keys = KeyBuf::new(lowered.schema());
        for at in 0..from.len() {
            let row = keys.push();
            row.copy_from_slice(from.keys().row(at));
            match past {
                Past::Source(network, bits) => row[0] = network | row[0] & ((1 << bits) - 1),
                Past::Protocol(protocol) => row[4] = protocol,
                Past::Nothing => {}
            }
        }
        keys
    };
    let from_rules = drawn(Points::Interior, count, 1)?;
    let mut all = vec![("hole", lead_past(&from_rules)), ("uniform", drawn(Points::Uniform, count, 2)?)];
    let tried = TRIES * count;
    let tried = [drawn(Points::Edges, tried, 3)?, drawn(Points::Uniform, tried, 4)?];
    let mut unmatched = KeyBuf::new(lowered.schema());
    for tried in tried.iter().flat_map(|tried| [lead_past(tried)]) {
        let mut found = vec![None; tried.len()];
        engine.classify_batch(&mut engine.scratch(), tried.keys(), &mut found);
        let misses = (0..tried.len()).filter(|&at| found[at].is_none()).take(count / 2);
        misses.for_each(|at| unmatched.push().copy_from_slice(tried.keys().row(at)));
    }
    all.push(("from rules", from_rules));
    if unmatched.len() >= BATCH {
        all.push(("unmatched", unmatched));
    }
    Ok(all)
}

/// Returns nanoseconds per key for each engine, the least over `rounds` rounds.
fn timed(engines: &[&dyn Classifier], keys: &KeyBuf, rounds: usize) -> Vec<f64> {
    let mut least = vec![f64::INFINITY; engines.len()];
    let mut scratches: Vec<_> = engines.iter().map(|engine| engine.scratch()).collect();
    let mut found = [None::<Match>; BATCH];
    for round in 0..=rounds {
        for ((engine, scratch), least) in engines.iter().zip(&mut scratches).zip(&mut least) {
            // The first pass of a turn loads the engine into the caches.
            for _ in 0..2 {
                let start = Instant::now();
                for from in (0..keys.len()).step_by(BATCH) {
                    let batch = keys.keys().slice(from, keys.len().min(from + BATCH));
                    engine.classify_batch(scratch, batch, &mut found[..batch.len()]);
                    black_box(&found);
                }
                let nanos = start.elapsed().as_secs_f64() * 1e9 / keys.len() as f64;
                *least = if round > 0 { least.min(nanos) } else { *least };
            }
        }
    }
    least
}
