//! Figures: sizes, bounds and refusals of every structure, compared with files beside this one.
//!
//! Sets, changes and seeds are the same each time, so that a figure differs only if the code does. After a deliberate
//! change, `INSTA_UPDATE=always cargo test -p firstmatch-core --test harness figures` writes them anew.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::path::Path;

use firstmatch_core::live::{Config, Engine, Limits, Strategy};
use firstmatch_core::raw::Level;
use firstmatch_core::rule::{ExpansionLimits, Lowered, Regions, RuleSet, lower};
use firstmatch_core::{Budget, Match, Schema, Stats};

use crate::corpus::regions_of;
use crate::engines::{Start, Subject, engines, is_restricted};
use crate::generate::{rule_set, schemas};
use crate::rng::Rng;

const SCHEMAS: [&str; 4] = ["ipv4", "ipv6", "ternary", "openflow"];
const RULES: usize = 150;

/// Returns each structure at the lowest SIMD level, which every machine has.
fn subjects() -> impl Iterator<Item = Subject> {
    let lowest = Level::available().next();
    engines().into_iter().filter(move |of| of.level.is_some() && of.level == lowest && !of.name.contains("random"))
}

fn sets() -> impl Iterator<Item = (&'static str, Schema, RuleSet, Lowered)> {
    schemas().into_iter().filter(|(name, _)| SCHEMAS.contains(name)).map(|(name, schema)| {
        let set = rule_set(&schema, &mut Rng::new(5), RULES);
        let lowered = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
        (name, schema, set, lowered)
    })
}

fn line(stats: &Stats) -> String {
    let Stats { rules, regions, tables, worst_tests, worst_lines, longest_bucket, overflow, .. } = stats;
    let mut out = format!("{rules} rules {regions} regions {tables} tables ≤{worst_tests} tests ≤{worst_lines} lines ");
    let _ = write!(out, "longest {longest_bucket} overflow {overflow} shadowed {}:", stats.keeps_shadowed);
    stats.bytes.iter().for_each(|(part, bytes)| out += &format!(" {part} {bytes}"));
    out
}

/// Fingerprint (FNV-1a) of the texts of many steps, where their lines would be too many.
struct Fingerprint(u64);

impl Fingerprint {
    const EMPTY: Self = Self(0xCBF2_9CE4_8422_2325);

    fn add(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3));
    }
}

/// Inserts all rules, removes two thirds in another order, inserts these again and removes everything.
///
/// Returns the figures when all were in, with a fingerprint of those after each step.
fn changed(subject: &Subject, schema: &Schema, set: &RuleSet, budget: Budget) -> Result<(usize, String), String> {
    let mut engine = subject.try_start(Start::Empty(schema), budget).map_err(|error| error.to_string())?;
    let mut rules: Vec<(Match, Regions)> = set
        .iter()
        .map(|rule| (Match { rule: rule.id, priority: rule.priority }, regions_of(schema, &rule.spec)))
        .collect();
    let (mut rng, mut steps, mut refused) = (Rng::new(6), Fingerprint::EMPTY, 0);
    let (mut full, mut most) = (String::new(), 0);
    for round in 0..4 {
        // Those that the second round removes are those that the third inserts.
        let count = if round == 1 || round == 2 { RULES * 2 / 3 } else { RULES };
        if round != 2 {
            rng.shuffle(&mut rules);
        }
        for (rule, regions) in &rules[..count] {
            let done = if round % 2 == 0 { engine.insert(*rule, regions) } else { engine.remove(rule.rule) };
            if let Err(error) = done {
                refused += usize::from(round == 0);
                steps.add(&error.to_string());
            }
            let stats = engine.stats();
            most = most.max(stats.total_bytes());
            steps.add(&line(&stats));
        }
        if round == 0 {
            full = line(&engine.stats());
        }
    }
    Ok((most, format!("{refused} refused, {full}; steps {:016x}", steps.0)))
}

/// Returns the figures of every structure over one set: built, changed, and both in too little memory.
fn structures(out: &mut String) {
    for (name, schema, set, lowered) in sets() {
        for subject in subjects() {
            let structure = subject.structure();
            let _ = writeln!(out, "{name}, {structure}");
            let stats = subject.build(&lowered).stats();
            let _ = writeln!(out, "  built    {}", line(&stats));
            for run_bytes in [0, stats.total_bytes() / 2] {
                let built = subject.try_build(&lowered, Budget { run_bytes });
                let built = built.map_or_else(|error| error.to_string(), |engine| line(&engine.stats()));
                let _ = writeln!(out, "  in {run_bytes:6} {built}");
            }
            if subject.is_updatable() {
                let (most, figures) = changed(&subject, &schema, &set, Budget::default()).expect("no budget");
                let _ = writeln!(out, "  changed  {figures}");
                let run_bytes = most * 2 / 3;
                let (Ok((_, figures)) | Err(figures)) = changed(&subject, &schema, &set, Budget { run_bytes });
                let _ = writeln!(out, "  in {run_bytes:6} {figures}");
            }
        }
    }
}

/// Returns outcome, size and visits of every candidate for the base, under several limits.
///
/// None is timed, so that they are the same each time.
fn choices(out: &mut String) {
    let limits = [
        ("no limits", Limits::default()),
        ("≤4 lines", Limits { worst_lines: Some(4), ..Limits::default() }),
        ("≤40 tests", Limits { worst_tests: Some(40), ..Limits::default() }),
        ("≤30000 build bytes", Limits { build_bytes: 30_000, ..Limits::default() }),
        ("≤3000 build visits", Limits { build_visits: 3_000, ..Limits::default() }),
    ];
    for (name, schema) in schemas().into_iter().filter(|(name, _)| SCHEMAS.contains(name)) {
        for rules in [3, 60, 1500] {
            let set = rule_set(&schema, &mut Rng::new(rules as u64), rules);
            let set = lower(&set, &schema, &ExpansionLimits::default()).expect("within the caps");
            let first_fit = [(&limits[0], Strategy::FirstFit)];
            for ((of, limits), strategy) in limits.iter().map(|of| (of, Strategy::default())).chain(first_fit) {
                let simd = Level::available().next();
                let config =
                    Config { limits: *limits, strategy, simd, trial: Some(0), seed: Some(1), ..Config::default() };
                let _ = writeln!(out, "{name}, {rules} rules, {strategy:?}, {of}");
                let explained = match Engine::build(&set, &config) {
                    Ok(engine) => engine.explain(),
                    Err(error) => {
                        let _ = writeln!(out, "  {error}");
                        continue;
                    }
                };
                let (compared, over) = (explained.compared, explained.is_over_defaults);
                let _ = writeln!(out, "  compared {compared} over {over} in all {}", explained.bytes);
                for of in &explained.candidates {
                    let _ = writeln!(out, "  {} {of}; visits {:?}", of.kind.name(), of.visits);
                }
            }
        }
    }
}

/// Compares figures with a file, or writes that anew.
///
/// A restricted list is compared with its own sections of the file, and never written.
fn compare(file: &str, is: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/harness").join(file);
    if std::env::var_os("INSTA_UPDATE").is_some_and(|value| value == "always") && !is_restricted() {
        std::fs::write(&path, is).expect("writable");
    }
    let mut was = std::fs::read_to_string(&path).expect("readable");
    if is_restricted() {
        let heads: HashSet<&str> = is.lines().filter(|line| !line.starts_with(' ')).collect();
        let mut is_of_list = false;
        let own = was.lines().filter(|line| {
            is_of_list = if line.starts_with(' ') { is_of_list } else { heads.contains(line) };
            is_of_list
        });
        was = own.map(|line| format!("{line}\n")).collect();
    }
    let mut head = "";
    for (at, (was, is)) in was.lines().zip(is.lines()).enumerate() {
        head = if is.starts_with(' ') { head } else { is };
        assert_eq!(was, is, "{file}, line {}: {head}", at + 1);
    }
    assert_eq!(was.lines().count(), is.lines().count(), "{file} has another length");
}

#[test]
#[cfg(target_pointer_width = "64")]
fn structures_have_the_figures_of_the_file() {
    let mut out = String::new();
    structures(&mut out);
    compare("structures.txt", &out);
}

#[test]
#[cfg(target_pointer_width = "64")]
fn choices_have_the_figures_of_the_file() {
    let mut out = String::new();
    choices(&mut out);
    compare("choices.txt", &out);
}
