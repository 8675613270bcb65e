//! Command `firstmatch generate`.

use std::io::{BufWriter, IsTerminal, Write, stdout};

use anyhow::{anyhow, bail};
use firstmatch_core::Policy;
use firstmatch_formats::write;
use firstmatch_generate::profile::core;
use firstmatch_generate::trace::{Coverage, Covered, Form, Hostile, Locality};
use firstmatch_generate::{Profile, policy, rules, trace};

use crate::args::{Family, GenerateArgs, GenerateRules, GenerateTrace, POLICY, Packets, RuleLimits, Written};
use crate::format::counted;
use crate::rules::{Reading, load};
use crate::{End, diagnostics};

pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<End> {
    match args {
        GenerateArgs::Rules(args) => generate_rules(args),
        GenerateArgs::Trace(args) => generate_trace(args),
    }
}

fn generate_rules(args: &GenerateRules) -> anyhow::Result<End> {
    if args.profile == POLICY {
        return generate_policy(args);
    }
    let profile: Profile = args.profile.parse()?;
    let default = if profile.has_protocol { Written::Classbench } else { Written::Native };
    let format = args.format.unwrap_or(default);
    if format == Written::Classbench && !profile.has_protocol {
        bail!(
            "rules of the profile {} have no protocol, which ClassBench always has: take `--format native`",
            args.profile
        );
    }
    let config = rules::Config {
        rules: args.rules,
        seed: args.seed,
        profile,
        families: families(args),
        actions: match format {
            Written::Classbench => rules::Actions::Unstated,
            Written::Native => rules::Actions::Stated { deny: args.deny, mark: args.mark },
        },
        disorder: args.disorder,
        duplicates: args.duplicates,
        shadowed: args.shadowed,
        catch_all: args.catch_all,
        ..rules::Config::default()
    };
    let set = rules::generate(&config)?;
    let (mut text, policy) = (String::new(), Policy::default());
    match format {
        Written::Classbench => write::classbench(&set, &policy, &mut text)?,
        Written::Native => write::native(&set, &policy, &mut text)?,
    }
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    warn_of_size(args);
    Ok(End::Done)
}

fn families(args: &GenerateRules) -> rules::Families {
    match args.family {
        Family::Ipv4 => rules::Families::Ipv4,
        Family::Ipv6 => rules::Families::Ipv6,
        Family::Inet => rules::Families::Both { ipv6: args.ipv6 },
    }
}

fn generate_policy(args: &GenerateRules) -> anyhow::Result<End> {
    if args.format == Some(Written::Classbench) {
        bail!(
            "rules of the profile {POLICY} have lists of values, which ClassBench cannot hold: take `--format native`"
        );
    }
    let shares = [args.disorder, args.duplicates, args.shadowed];
    if shares.iter().any(|share| *share != 0.0) || args.catch_all {
        bail!(
            "rules of the profile {POLICY} stand in the order in which they were drawn: there is no `--disorder`,              `--duplicates`, `--shadowed` or `--catch-all`"
        );
    }
    let config = policy::Config {
        rules: args.rules,
        seed: args.seed,
        families: families(args),
        actions: rules::Actions::Stated { deny: args.deny, mark: args.mark },
    };
    let mut text = String::new();
    policy::generate(&config)?.write(&mut text)?;
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(End::Done)
}

/// Warns if a set of the profile `core` has a size for which its figures were not compared.
fn warn_of_size(args: &GenerateRules) {
    let (least, most) = (core::SIZES.start(), core::SIZES.end());
    if args.profile == "core" && !core::SIZES.contains(&args.rules) {
        diagnostics::warning(&format!(
            "the profile core stands for {least} to {most} rules; a set of {} may be unlike those of core routers",
            counted(args.rules as u64, "rule")
        ));
    }
}

fn generate_trace(args: &GenerateTrace) -> anyhow::Result<End> {
    if args.format == Packets::Pcap && stdout().is_terminal() {
        bail!("a capture is nothing to be read on a terminal: send it to a file, with `> NAME.pcap`");
    }
    let reading = Reading { flags: args.flags, limits: &RuleLimits::default(), import: &args.import };
    let Some(loaded) = load(&args.rules, reading)? else { return Ok(End::BadInput) };
    let set = &loaded.file.rules;
    let config = trace_config(args);
    let mut out = BufWriter::new(stdout().lock());
    // Captures that need only addresses, ports and protocols are the same as those of earlier versions.
    let coverage = match args.format {
        Packets::Classbench => {
            let trace = trace::generate(set, &config).map_err(|error| no_room(&loaded.name, error))?;
            trace.write(&mut out)?;
            trace.coverage().clone()
        }
        Packets::Pcap => match trace::generate(set, &config) {
            // The rules test other fields.
            Err(error) if error.is_unsupported() => {
                let trace = trace::packets(set, &config)?;
                trace.check_pcap().map_err(|error| no_room(&loaded.name, error))?;
                trace.write_pcap(&mut out)?;
                trace.coverage().clone()
            }
            trace => {
                let trace = trace?;
                trace.write_pcap(&mut out)?;
                trace.coverage().clone()
            }
        },
        Packets::Table => {
            let trace = trace::packets(set, &config)?;
            trace.write_table(&mut out)?;
            trace.coverage().clone()
        }
    };
    out.flush()?;
    warn_of_missed(&coverage, args.tries);
    Ok(End::Done)
}

/// Returns the error with the file and, if the format has no room for a field, with a remedy.
fn no_room(file: &str, error: firstmatch_generate::Error) -> anyhow::Error {
    if error.is_unsupported() { anyhow!("{file}: {error}; `--format table` has every field") } else { error.into() }
}

fn trace_config(args: &GenerateTrace) -> trace::Config {
    let locality = match *args {
        GenerateTrace { flows: Some(rate), zipf, .. } => Locality::Flows { s: zipf.unwrap_or(0.0), rate },
        GenerateTrace { zipf: Some(s), .. } => Locality::Zipf { s },
        GenerateTrace { entropy: Some(bits), .. } => Locality::Entropy { bits },
        GenerateTrace { pareto: Some((a, b)), .. } => Locality::Pareto { a, b },
        _ => Locality::Uniform,
    };
    let hostile = Hostile { share: args.attack, burst: args.attack_burst };
    trace::Config {
        headers: args.headers,
        seed: args.seed,
        locality,
        phases: args.phases,
        hostile: (args.attack != 0.0).then_some(hostile),
        unmatched: args.unmatched,
        coverage: if args.drawn { Coverage::Drawn } else { Coverage::Complete },
        tries: args.tries,
        form: if args.format == Packets::Pcap { Form::Packets } else { Form::Lines },
    }
}

/// Warns of rules that no packet hits.
fn warn_of_missed(coverage: &Covered, tries: u32) {
    let Covered { rules, hit, unreachable, given_up } = coverage;
    if hit < rules {
        diagnostics::warning(&format!(
            "{} of {} are hit by no header: {} can never be the first to match, {} were given up after {}",
            rules - hit,
            counted(*rules as u64, "rule"),
            unreachable.len(),
            given_up.len(),
            counted(tries.into(), "header")
        ));
    }
}
