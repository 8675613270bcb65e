//! Command `firstmatch generate`.

use std::io::{BufWriter, IsTerminal, Write, stdout};

use anyhow::bail;
use firstmatch_core::Policy;
use firstmatch_core::rule::ExpansionLimits;
use firstmatch_formats::write;
use firstmatch_generate::trace::{Coverage, Covered, Form, Locality};
use firstmatch_generate::{rules, trace};

use crate::args::{Family, GenerateArgs, GenerateRules, GenerateTrace, Packets, Written};
use crate::format::counted;
use crate::rules::load;
use crate::{End, diagnostics};

pub(crate) fn run(args: &GenerateArgs) -> anyhow::Result<End> {
    match args {
        GenerateArgs::Rules(args) => generate_rules(args),
        GenerateArgs::Trace(args) => generate_trace(args),
    }
}

fn generate_rules(args: &GenerateRules) -> anyhow::Result<End> {
    let config = rules::Config {
        rules: args.rules,
        seed: args.seed,
        profile: args.profile.parse()?,
        families: match args.family {
            Family::Ipv4 => rules::Families::Ipv4,
            Family::Ipv6 => rules::Families::Ipv6,
            Family::Inet => rules::Families::Both { ipv6: args.ipv6 },
        },
        actions: match args.format {
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
    match args.format {
        Written::Classbench => write::classbench(&set, &policy, &mut text)?,
        Written::Native => write::native(&set, &policy, &mut text)?,
    }
    let mut out = stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(End::Done)
}

fn generate_trace(args: &GenerateTrace) -> anyhow::Result<End> {
    if args.format == Packets::Pcap && stdout().is_terminal() {
        bail!("a capture is nothing to be read on a terminal: send it to a file, with `> NAME.pcap`");
    }
    let Some(loaded) = load(&args.rules, false, ExpansionLimits::default())? else { return Ok(End::BadInput) };
    let locality = match (args.zipf, args.pareto) {
        (Some(s), _) => Locality::Zipf { s },
        (None, Some((a, b))) => Locality::Pareto { a, b },
        (None, None) => Locality::Uniform,
    };
    let config = trace::Config {
        headers: args.headers,
        seed: args.seed,
        locality,
        unmatched: args.unmatched,
        coverage: if args.drawn { Coverage::Drawn } else { Coverage::Complete },
        tries: args.tries,
        form: if args.format == Packets::Pcap { Form::Packets } else { Form::Lines },
        ..trace::Config::default()
    };
    let trace = trace::generate(&loaded.file.rules, &config)?;
    let mut out = BufWriter::new(stdout().lock());
    match args.format {
        Packets::Classbench => trace.write(&mut out)?,
        Packets::Pcap => trace.write_pcap(&mut out)?,
    }
    out.flush()?;
    let Covered { rules, hit, unreachable, given_up } = trace.coverage();
    if hit < rules {
        diagnostics::warning(&format!(
            "{} of {} are hit by no header: {} can never be the first to match, {} were given up after {}",
            rules - hit,
            counted(*rules as u64, "rule"),
            unreachable.len(),
            given_up.len(),
            counted(args.tries.into(), "header")
        ));
    }
    Ok(End::Done)
}
