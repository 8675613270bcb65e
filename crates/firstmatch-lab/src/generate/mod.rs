//! Rule sets and traces as files.
//!
//! These are the reference sets, and options of the generator that `firstmatch generate` does not have.

mod reference;

use std::io::{BufWriter, Write, stderr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;

use anyhow::Context;
use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand};
use firstmatch_core::schema::{Family, Source};
use firstmatch_core::{Policy, RuleSet};
use firstmatch_formats::write;
use firstmatch_generate::attack::{self, Attack};
use firstmatch_generate::profile::{FULL_PROFILES, PROFILES, Profile, classbench};
use firstmatch_generate::trace::{Header, Locality};
use firstmatch_generate::{npf, openflow, rules, trace};
use firstmatch_net::source;

#[derive(Debug, Subcommand)]
pub(crate) enum GenerateArgs {
    /// The reference sets: rules and traces of the twelve ClassBench kinds, compared with their recorded digests
    #[command(after_help = "\
Examples:
  firstmatch-lab generate reference --out sets
  firstmatch-lab generate reference acl1 fw1 --out sets --sizes 1000
  firstmatch-lab generate reference --out sets --seeds ~/classbench/seeds
  firstmatch-lab generate reference --out sets --ipv6 --sizes 1000,1000000")]
    Reference(reference::ReferenceArgs),
    /// Rules of a profile or of a ClassBench parameter file, in the ClassBench format, or native without a protocol
    #[command(after_help = "\
Examples:
  firstmatch-lab generate rules --parameters acl1_seed --rules 10000 --smoothing 8 > acl.rules
  firstmatch-lab generate rules --profile fw2 --rules 1000 --address-scope=-0.5 --flags > fw.rules")]
    Rules(RulesArgs),
    /// A trace that hits every rule that can be hit, with locality of any kind
    #[command(after_help = "\
Examples:
  firstmatch-lab generate trace acl.rules --locality zipf:1.2 --phases 4 > acl.trace
  firstmatch-lab generate trace acl.rules --locality flows:1,5000 --unmatched 0.1 > acl.trace")]
    Trace(TraceArgs),
    /// Rules over the 15 fields of OpenFlow by the ratios of Qu, Zhou and Prasanna (HPSR 2014), in the native format
    Openflow(Drawn),
    /// Rules made to make classifiers explode, in the native format
    #[command(after_help = "\
Examples:
  firstmatch-lab generate attack tuples --rules 10000 --ipv6 > tuples.rules")]
    Attack(AttackArgs),
    /// Rules as those of npf (Shaikot 2012), their values from rules or a trace at hand, in the native format
    #[command(after_help = "\
Examples:
  firstmatch-lab generate npf acl1.rules fw1.rules --rules 1000 > npf.rules
  firstmatch-lab generate npf --trace acl1.trace --rules 5000 > npf.rules")]
    Npf(NpfArgs),
}

/// Number of rules and seed.
#[derive(Debug, Args)]
pub(crate) struct Drawn {
    /// Number of rules
    #[arg(long, value_name = "N", default_value_t = 1000)]
    rules: usize,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    drawn: Drawn,
    /// Largest distance of prefix lengths from those of the profile, in bits of both together, 0 to 64
    #[arg(long, value_name = "BITS", default_value_t = 0)]
    smoothing: u8,
    /// Favour wide prefixes (above 0, up to 1) or narrow ones (below 0, down to -1)
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    address_scope: f64,
    /// Favour wide classes of ports or narrow ones, likewise
    #[arg(long, value_name = "X", default_value_t = 0.0, allow_negative_numbers = true)]
    application_scope: f64,
    /// Rules for IPv6
    #[arg(long)]
    ipv6: bool,
    /// With conditions on flags, the last column of ClassBench
    #[arg(long)]
    flags: bool,
    /// Accept fewer rules if the profile has fewer distinct ones
    #[arg(long)]
    fewer: bool,
}

/// Shape of the rules.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Shape {
    /// A ClassBench parameter file
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    /// A built-in profile
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(PROFILES.into_iter().chain(FULL_PROFILES)))]
    profile: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// The rules: ClassBench or native
    rules: PathBuf,
    /// Number of headers
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    headers: usize,
    /// Seed of all random draws
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// How rules and headers repeat: `uniform`; `zipf:S`, popular rules by Zipf's law with exponent S; `entropy:BITS`,
    /// by Zipf's law with this entropy; `pareto:A,B`, bursts as in ClassBench with shape A and scale B;
    /// `flows:S,RATE`, mixed flows, RATE of them starting per second, rules by Zipf's law
    #[arg(long, value_name = "KIND", default_value = "uniform", value_parser = locality)]
    locality: Locality,
    /// Number of equal parts, in each of which other rules are popular
    #[arg(long, value_name = "N", default_value_t = 1)]
    phases: u32,
    /// Share of headers that match no rule, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    unmatched: f64,
}

#[derive(Debug, Args)]
pub(crate) struct AttackArgs {
    /// Weakness to attack
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(Attack::ALL.map(Attack::name)))]
    attack: String,
    #[command(flatten)]
    drawn: Drawn,
    /// Rules for IPv6
    #[arg(long)]
    ipv6: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NpfArgs {
    /// Rule files to take ports and protocols from; prefixes are random (Section 4.6)
    #[arg(value_name = "RULES", required_unless_present = "trace")]
    pools: Vec<PathBuf>,
    /// Trace to take the first 256 values of each field from (Section 5.8.2)
    #[arg(long, value_name = "TRACE", conflicts_with = "pools")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    drawn: Drawn,
    /// Rules for IPv6
    #[arg(long)]
    ipv6: bool,
}

pub(crate) fn generate(args: &GenerateArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let native = |set: &RuleSet, out: &mut dyn Write| {
        let mut text = String::new();
        write::native(set, &Policy::default(), &mut text)?;
        anyhow::Ok(out.write_all(text.as_bytes())?)
    };
    match args {
        GenerateArgs::Reference(args) => return reference::reference(args, out),
        GenerateArgs::Rules(args) => {
            let set = drawn(args)?;
            // ClassBench always has a protocol.
            match set.schemas()[0].index_of_source(Source::Proto) {
                Some(_) => out.write_all(classbench(&set)?.as_bytes())?,
                None => native(&set, out)?,
            }
        }
        GenerateArgs::Trace(args) => walk(args)?.write(BufWriter::new(&mut *out))?,
        GenerateArgs::Openflow(Drawn { rules, seed }) => {
            let config = openflow::Config { rules: *rules, seed: *seed, ..openflow::Config::default() };
            native(&openflow::generate(&config)?, out)?;
        }
        GenerateArgs::Attack(AttackArgs { attack, drawn: Drawn { rules, seed }, ipv6 }) => {
            let family = if *ipv6 { Family::Ipv6 } else { Family::Ipv4 };
            native(&attack::generate(attack.parse()?, family, *rules, *seed)?, out)?;
        }
        GenerateArgs::Npf(args) => native(&pooled(args)?, out)?,
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

fn drawn(args: &RulesArgs) -> anyhow::Result<RuleSet> {
    let profile = match (&args.shape.parameters, &args.shape.profile) {
        (Some(file), _) => parameters(file, &source::read_text(file)?)?,
        (None, name) => name.as_deref().unwrap_or_default().parse()?,
    };
    let set = rules::generate(&rules::Config {
        rules: args.drawn.rules,
        seed: args.drawn.seed,
        profile,
        families: if args.ipv6 { rules::Families::Ipv6 } else { rules::Families::Ipv4 },
        smoothing: args.smoothing,
        scope: rules::Scope { addresses: args.address_scope, applications: args.application_scope },
        flags: args.flags,
        fewer: args.fewer,
        ..rules::Config::default()
    })?;
    if set.len() < args.drawn.rules {
        writeln!(stderr(), "{} rules, {} fewer than asked for", set.len(), args.drawn.rules - set.len())?;
    }
    Ok(set)
}

fn walk(args: &TraceArgs) -> anyhow::Result<trace::Trace> {
    let trace = trace::generate(
        &read(&args.rules)?,
        &trace::Config {
            headers: args.headers,
            seed: args.seed,
            locality: args.locality,
            phases: args.phases,
            unmatched: args.unmatched,
            ..trace::Config::default()
        },
    )?;
    let covered = trace.coverage();
    if covered.hit < covered.rules {
        writeln!(stderr(), "{} of {} rules are hit by no header", covered.rules - covered.hit, covered.rules)?;
    }
    Ok(trace)
}

fn pooled(args: &NpfArgs) -> anyhow::Result<RuleSet> {
    let family = if args.ipv6 { Family::Ipv6 } else { Family::Ipv4 };
    let (pools, addresses) = match &args.trace {
        Some(trace) => (npf::Pools::of_headers(family, headers(trace)?, npf::VALUES), npf::Addresses::Pooled),
        None => {
            let sets = args.pools.iter().map(|file| read(file)).collect::<anyhow::Result<Vec<_>>>()?;
            (npf::Pools::of_rules(family, &sets), npf::Addresses::Random)
        }
    };
    Ok(npf::generate(&pools, addresses, args.drawn.rules, args.drawn.seed)?)
}

fn headers(path: &Path) -> anyhow::Result<Vec<Header>> {
    let mut trace = source::open(path)?.into_trace()?;
    let mut headers = Vec::new();
    while let Some(record) = trace.next()? {
        let source::TraceRecord { family, src, dst, sport, dport, proto, .. } = record;
        headers.push(Header { src, dst, family, sport, dport, proto, rule: None });
    }
    match trace.cut() {
        Some(cut) => Err(anyhow::anyhow!(cut.to_string())),
        None => Ok(headers),
    }
}

fn read(path: &Path) -> anyhow::Result<RuleSet> {
    let text = source::read_text(path)?;
    let file = firstmatch_formats::parse(&text, &firstmatch_formats::Options::default())
        .with_context(|| path.display().to_string())?;
    Ok(file.rules)
}

/// Reads the parameter file `<name>_seed` in `folder` and returns the profile and the text.
pub(crate) fn seed(folder: &Path, name: &str) -> anyhow::Result<(Profile, String)> {
    let path = folder.join(format!("{name}_seed"));
    let text = source::read_text(&path)?;
    Ok((parameters(&path, &text)?, text))
}

fn parameters(path: &Path, text: &str) -> anyhow::Result<Profile> {
    Ok(classbench::parse(&path.display().to_string(), text)?)
}

fn classbench(set: &RuleSet) -> anyhow::Result<String> {
    let mut text = String::new();
    write::classbench(set, &Policy::default(), &mut text)?;
    Ok(text)
}

fn locality(text: &str) -> Result<Locality, String> {
    let (kind, numbers) = text.split_once(':').unwrap_or((text, ""));
    let numbers: Result<Vec<f64>, _> =
        numbers.split(',').filter(|number| !number.is_empty()).map(f64::from_str).collect();
    match (kind, numbers.as_deref()) {
        ("uniform", Ok(&[])) => Ok(Locality::Uniform),
        ("zipf", Ok(&[s])) => Ok(Locality::Zipf { s }),
        ("pareto", Ok(&[a, b])) => Ok(Locality::Pareto { a, b }),
        ("entropy", Ok(&[bits])) => Ok(Locality::Entropy { bits }),
        ("flows", Ok(&[s, rate])) => Ok(Locality::Flows { s, rate }),
        _ => Err("expected `uniform`, `zipf:S`, `entropy:BITS`, `pareto:A,B` or `flows:S,RATE`".to_owned()),
    }
}
