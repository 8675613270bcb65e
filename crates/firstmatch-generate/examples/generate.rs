//! Generates rules or a trace and writes them to standard output.
//!
//!     cargo run --release -p firstmatch-generate --example generate -- rules profile=fw rules=10000 seed=3
//!     cargo run --release -p firstmatch-generate --example generate -- trace profile=fw rules=10000 headers=1000000 zipf=1
//!
//! `trace` generates the rules that the same words give to `rules`, and then a trace for them. Progress and times go to
//! standard error. Words:
//!
//! - For rules: profile, parameters (a ClassBench parameter file, instead of profile), rules, seed, ipv6 (the share in
//!   a dual-stack set; 1 is IPv6 alone), disorder, duplicates, shadowed, catch_all, smoothing, scope_addresses,
//!   scope_applications, flags, fewer, deny, mark, format (classbench or native).
//! - For traces: headers, seed2, zipf, pareto (a,b), flows (per second), phases, unmatched, coverage (complete or
//!   drawn), tries.
#![expect(clippy::print_stderr, reason = "an example says what it does")]

use std::collections::HashMap;
use std::error::Error;
use std::io::{BufWriter, Write, stdout};
use std::str::FromStr;
use std::time::Instant;

use firstmatch_core::Policy;
use firstmatch_formats::write;
use firstmatch_generate::profile::classbench;
use firstmatch_generate::trace::{Coverage, Locality};
use firstmatch_generate::{rules, trace};

type Outcome<T> = Result<T, Box<dyn Error>>;

/// Words of the command line by name; each is taken once.
struct Words(HashMap<String, String>);

impl Words {
    fn take<T: FromStr>(&mut self, name: &str, default: T) -> Outcome<T>
    where
        T::Err: Error + 'static,
    {
        self.0
            .remove(name)
            .map_or(Ok(default), |value| value.parse().map_err(|e| format!("{name}={value}: {e}").into()))
    }
}

fn main() -> Outcome<()> {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let words = args.map(|word| word.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())));
    let mut words = Words(words.collect::<Option<_>>().ok_or("a word is name=value")?);

    let config = rules_config(&mut words)?;
    let format: String = words.take("format", "classbench".to_owned())?;
    let trace_config = trace_config(&mut words)?;
    if let Some(word) = words.0.keys().next() {
        return Err(format!("there is no word {word}").into());
    }
    let start = Instant::now();
    let set = rules::generate(&config)?;
    eprintln!("{} rules in {:.3} s", set.len(), start.elapsed().as_secs_f64());

    let mut out = BufWriter::new(stdout().lock());
    let start = Instant::now();
    match (what.as_str(), format.as_str()) {
        ("rules", "classbench" | "native") => {
            let mut text = String::new();
            let policy = Policy::default();
            match format.as_str() {
                "native" => write::native(&set, &policy, &mut text)?,
                _ => write::classbench(&set, &policy, &mut text)?,
            }
            out.write_all(text.as_bytes())?;
        }
        ("trace", _) => {
            let trace = trace::generate(&set, &trace_config)?;
            let covered = trace.coverage();
            let (hit, rules) = (covered.hit, covered.rules);
            let (unreachable, given_up) = (covered.unreachable.len(), covered.given_up.len());
            eprintln!("{hit} of {rules} rules hit, {unreachable} proved unreachable, {given_up} given up");
            eprintln!("{} headers in {:.3} s", trace.len(), start.elapsed().as_secs_f64());
            trace.write(&mut out)?;
        }
        _ => return Err("rules or trace; format=classbench or native".into()),
    }
    out.flush()?;
    eprintln!("all written after {:.3} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn rules_config(words: &mut Words) -> Outcome<rules::Config> {
    let default = rules::Config::default();
    let native = words.0.get("format").is_some_and(|format| format == "native");
    let (deny, mark) = (words.take("deny", 0.4)?, words.take("mark", 0.0)?);
    let ipv6 = words.take("ipv6", 0.0)?;
    Ok(rules::Config {
        rules: words.take("rules", default.rules)?,
        seed: words.take("seed", default.seed)?,
        profile: match words.0.remove("parameters") {
            Some(file) => classbench::parse(&file, &std::fs::read_to_string(&file)?)?,
            None => words.take("profile", default.profile)?,
        },
        families: match ipv6 {
            0.0 => rules::Families::Ipv4,
            1.0 => rules::Families::Ipv6,
            ipv6 => rules::Families::Both { ipv6 },
        },
        actions: if native { rules::Actions::Stated { deny, mark } } else { rules::Actions::Unstated },
        disorder: words.take("disorder", default.disorder)?,
        duplicates: words.take("duplicates", default.duplicates)?,
        shadowed: words.take("shadowed", default.shadowed)?,
        catch_all: words.take("catch_all", default.catch_all)?,
        smoothing: words.take("smoothing", default.smoothing)?,
        scope: rules::Scope {
            addresses: words.take("scope_addresses", default.scope.addresses)?,
            applications: words.take("scope_applications", default.scope.applications)?,
        },
        flags: words.take("flags", default.flags)?,
        fewer: words.take("fewer", default.fewer)?,
    })
}

fn trace_config(words: &mut Words) -> Outcome<trace::Config> {
    let default = trace::Config::default();
    let (zipf, flows): (f64, f64) = (words.take("zipf", -1.0)?, words.take("flows", 0.0)?);
    let locality = match words.0.remove("pareto") {
        None if flows > 0.0 => Locality::Flows { s: zipf.max(0.0), rate: flows },
        Some(both) => {
            let (a, b) = both.split_once(',').ok_or("pareto=a,b")?;
            Locality::Pareto { a: a.parse()?, b: b.parse()? }
        }
        None if zipf >= 0.0 => Locality::Zipf { s: zipf },
        None => Locality::Uniform,
    };
    let coverage: String = words.take("coverage", "complete".to_owned())?;
    Ok(trace::Config {
        headers: words.take("headers", default.headers)?,
        seed: words.take("seed2", default.seed)?,
        locality,
        phases: words.take("phases", default.phases)?,
        unmatched: words.take("unmatched", default.unmatched)?,
        coverage: if coverage == "drawn" { Coverage::Drawn } else { Coverage::Complete },
        tries: words.take("tries", default.tries)?,
        hostile: None,
        form: default.form,
    })
}
