//! How many updates a second TupleMerge takes, on a rule file of your own:
//!
//!     cargo run --release -p firstmatch-net --example updates -- RULES [UPDATES]
//!
//! The protocol of the TupleMerge paper (section IV-A): a random half of the rules to start with, then insertions and
//! removals of random rules, shuffled, half and half; where the drawn kind has no candidate the other is taken.
//! Lowering is not timed, nor is the drawing. At the end the answers are compared with those of an engine built afresh
//! from the rules then live, for keys at the corners of the rules.

use std::path::Path;
use std::time::{Duration, Instant};

use firstmatch::rule::{Caps, Lowered, Regions, lower};
use firstmatch::tuple::{Config, TupleMerge};
use firstmatch::{Classifier, KeyBuf, Match, RuleSet, Updatable, format};
use firstmatch_net::source;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustix::time::{ClockId, clock_gettime};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("usage: updates RULES [UPDATES]")?;
    let updates: usize = args.next().map_or(Ok(1_000_000), |n| n.parse())?;
    let file = format::parse(&source::read_text(Path::new(&path))?, &format::Options::default())?;
    for schema in file.rules.schemas() {
        let lowered = lower(&file.rules, schema, &Caps::default())?;
        let figures = run(&file.rules, &lowered, updates)?;
        let family = schema.family().map_or("", |family| family.name());
        let mut out = std::io::stdout().lock();
        std::io::Write::write_fmt(&mut out, format_args!("{path} {family}: {figures}\n"))?;
    }
    Ok(())
}

fn run(set: &RuleSet, lowered: &Lowered, updates: usize) -> Outcome<String> {
    let schema = lowered.schema();
    let regions_of = |range: std::ops::Range<usize>| {
        let mut regions = Regions::new(schema.lanes().len());
        range.for_each(|index| regions.push(lowered.regions().get(index)));
        regions
    };
    let rules: Vec<(Match, Regions)> = lowered.by_rule().map(|(rule, range)| (rule, regions_of(range))).collect();
    if rules.len() < 2 {
        return Ok("fewer than two rules".to_owned());
    }
    let mut random = Pcg64::seed_from_u64(1);
    let mut outside: Vec<usize> = (0..rules.len()).collect();
    outside.shuffle(&mut random);
    let mut inside = outside.split_off(rules.len() / 2);

    let config = Config::default();
    let mut engine = TupleMerge::new(schema, &config)?;
    for &rule in &inside {
        engine.insert(rules[rule].0, &rules[rule].1)?;
    }
    let mut kinds: Vec<bool> = (0..updates).map(|i| i % 2 == 0).collect();
    kinds.shuffle(&mut random);
    let mut turned = 0;
    let steps: Vec<(bool, usize)> = kinds
        .into_iter()
        .map(|wanted| {
            let insert = if wanted { !outside.is_empty() } else { inside.is_empty() };
            turned += usize::from(insert != wanted);
            let (from, to) = if insert { (&mut outside, &mut inside) } else { (&mut inside, &mut outside) };
            let rule = from.swap_remove(random.random_range(0..from.len()));
            to.push(rule);
            (insert, rule)
        })
        .collect();

    let (wall, cpu) = (Instant::now(), cpu_time());
    for &(insert, rule) in &steps {
        let (rule, regions) = &rules[rule];
        if insert { engine.insert(*rule, regions)? } else { engine.remove(rule.rule)? }
    }
    let (wall, cpu) = (wall.elapsed(), cpu_time() - cpu);

    let mut rest = set.clone();
    for &rule in &outside {
        rest.remove(rules[rule].0.rule)?;
    }
    let fresh = TupleMerge::build(&lower(&rest, schema, &Caps::default())?, &config)?;
    let keys = corners(lowered);
    let answers = |engine: &TupleMerge| {
        let mut out = vec![None; keys.len()];
        engine.classify_batch(&mut engine.scratch(), keys.keys(), &mut out);
        out
    };
    let (got, want) = (answers(&engine), answers(&fresh));
    let different = got.iter().zip(&want).filter(|(a, b)| a != b).count();
    if different > 0 {
        return Err(format!("{different} of {} answers differ from a fresh build's", want.len()).into());
    }
    let rate = |time: Duration| updates as f64 / time.as_secs_f64() / 1e6;
    Ok(format!(
        "{} rules, {updates} updates ({turned} of the other kind), {:.2} million a second of thread CPU time, {:.2} of \
         wall time; {} corner keys answered as by a fresh build",
        rules.len(),
        rate(cpu),
        rate(wall),
        want.len()
    ))
}

/// Both ends of every region.
fn corners(lowered: &Lowered) -> KeyBuf {
    let mut keys = KeyBuf::new(lowered.schema());
    for region in lowered.regions().iter() {
        for corner in [region.lo, region.hi] {
            keys.push()[..corner.len()].copy_from_slice(corner);
        }
    }
    keys
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.cast_unsigned(), now.tv_nsec as u32)
}
