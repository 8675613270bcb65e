//! Reference sets.
//!
//! They are rules and traces of the twelve kinds that ClassBench's parameter files describe. All come from one seed, so
//! everybody with this program has the same sets. Their digests are kept. Sets of a parameter file are kept under the
//! digest of its text, so that sets of another file with the same name are not compared with them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use firstmatch_generate::trace::Coverage;
use firstmatch_generate::{Profile, rules, trace};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::digest::short;

const NAMES: [&str; 12] = ["acl1", "acl2", "acl3", "acl4", "acl5", "fw1", "fw2", "fw3", "fw4", "fw5", "ipc1", "ipc2"];
/// Seed of the rules and of the traces.
const SEED: u64 = 1;
const HEADERS: usize = 100_000;

#[derive(Debug, Args)]
pub(crate) struct ReferenceArgs {
    /// Names of the sets; all twelve if none is given
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(NAMES))]
    names: Vec<String>,
    /// Folder for NAME_1k.rules, NAME_1k.trace and so on; a file there that differs is never overwritten
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Folder of ClassBench parameter files, NAME_seed, instead of the built-in profiles
    #[arg(long, value_name = "DIR")]
    seeds: Option<PathBuf>,
    /// Numbers of rules
    #[arg(long, value_name = "N,...", value_delimiter = ',', default_value = "1000,10000,100000")]
    sizes: Vec<usize>,
    /// IPv6 rules and headers: NAME_v6_1k
    #[arg(long)]
    ipv6: bool,
    /// File with the digests
    #[arg(long, value_name = "FILE", default_value = "benchmarks/reference.toml")]
    digests: PathBuf,
    /// Record these digests instead of comparing them
    #[arg(long)]
    record: bool,
}

/// Digests of rules and trace.
type Pair = [String; 2];

/// Known digests of the sets, by their names.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Digests {
    /// Digests of sets of built-in profiles.
    profiles: BTreeMap<String, Pair>,
    /// Digests of sets of parameter files, by the digest of the file's text.
    parameters: BTreeMap<String, BTreeMap<String, Pair>>,
}

const HEAD: &str = "\
# The reference sets, by `firstmatch-lab generate reference --record`: the digests of rules and trace, each the first 16
# bytes of the SHA-256 of the file. Sets of parameter files stand below the digest of the parameter file.

";

/// Kind of sets: a profile with its name.
struct Kind {
    name: String,
    profile: Profile,
    /// Digest of the parameter file, if there is one.
    file: Option<String>,
}

/// Set as the bytes of its files.
struct Set {
    rules: Vec<u8>,
    trace: Vec<u8>,
    /// Number of rules; `missed` of them are hit by no header.
    count: usize,
    missed: usize,
}

pub(super) fn reference(args: &ReferenceArgs, out: &mut dyn Write) -> anyhow::Result<ExitCode> {
    let kinds = kinds(args)?;
    let mut digests = Digests::read(args)?;
    fs::create_dir_all(&args.out).with_context(|| args.out.display().to_string())?;
    let mut differs = false;
    for &size in &args.sizes {
        for kind in &kinds {
            let name = name(&kind.name, size, args.ipv6);
            let set = make(&kind.profile, size, args.ipv6).with_context(|| name.clone())?;
            keep(&args.out.join(format!("{name}.rules")), &set.rules)?;
            keep(&args.out.join(format!("{name}.trace")), &set.trace)?;
            let found = [&set.rules, &set.trace].map(|bytes| short(Sha256::new_with_prefix(bytes)));
            let known = digests.of(kind);
            let verdict = match known.get(&name) {
                _ if args.record => "recorded".to_owned(),
                None => "not recorded".to_owned(),
                Some(known) if *known == found => "equal".to_owned(),
                Some([rules, trace]) => format!("DIFFERS, recorded are {rules} {trace}"),
            };
            differs |= verdict.starts_with('D');
            let [rules, trace] = &found;
            write!(out, "{name}: {} rules", set.count)?;
            if set.count < size {
                write!(out, " ({} fewer than asked for)", size - set.count)?;
            }
            if set.missed > 0 {
                write!(out, ", {} hit by no header", set.missed)?;
            }
            writeln!(out, "; {rules} {trace}: {verdict}")?;
            out.flush()?;
            if args.record {
                known.insert(name, found);
            }
        }
    }
    if args.record {
        let text = format!("{HEAD}{}", toml::to_string(&digests)?);
        fs::write(&args.digests, text).with_context(|| args.digests.display().to_string())?;
    }
    Ok(if differs { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Returns the kinds of sets; all parameter files are read before anything is generated.
fn kinds(args: &ReferenceArgs) -> anyhow::Result<Vec<Kind>> {
    let named = NAMES.iter().filter(|name| args.names.is_empty() || args.names.iter().any(|named| named == *name));
    let kind = |&name: &&str| {
        let (profile, file) = match &args.seeds {
            None => (name.parse()?, None),
            Some(folder) => {
                let (profile, text) = super::seed(folder, name)?;
                (profile, Some(short(Sha256::new_with_prefix(&text))))
            }
        };
        Ok(Kind { name: name.to_owned(), profile, file })
    };
    named.map(kind).collect()
}

/// Returns the name of a set, as in definitions: `acl1_1k`, `acl1_v6_100k`.
fn name(kind: &str, size: usize, ipv6: bool) -> String {
    let size = if size.is_multiple_of(1000) { format!("{}k", size / 1000) } else { size.to_string() };
    format!("{kind}{}_{size}", if ipv6 { "_v6" } else { "" })
}

fn make(profile: &Profile, size: usize, ipv6: bool) -> anyhow::Result<Set> {
    let set = rules::generate(&rules::Config {
        rules: size,
        seed: SEED,
        profile: profile.clone(),
        families: if ipv6 { rules::Families::Ipv6 } else { rules::Families::Ipv4 },
        fewer: true,
        ..rules::Config::default()
    })?;
    // A trace cannot hit more rules than it has headers.
    let coverage = if set.len() > HEADERS { Coverage::Drawn } else { Coverage::Complete };
    let config = trace::Config { headers: HEADERS, seed: SEED, coverage, ..trace::Config::default() };
    let walked = trace::generate(&set, &config)?;
    let mut trace = Vec::new();
    walked.write(&mut trace)?;
    let covered = walked.coverage();
    let rules = super::classbench(&set)?.into_bytes();
    Ok(Set { rules, trace, count: set.len(), missed: covered.rules - covered.hit })
}

/// Writes a file unless it exists; an existing file must be equal.
fn keep(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    match fs::read(path) {
        Ok(there) if there == bytes => Ok(()),
        Ok(_) => bail!("{}: there is another file of this name, which stays as it is", path.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            fs::write(path, bytes).with_context(|| path.display().to_string())
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

impl Digests {
    fn read(args: &ReferenceArgs) -> anyhow::Result<Self> {
        let path = &args.digests;
        match fs::read_to_string(path) {
            Ok(text) => toml::from_str(&text).with_context(|| path.display().to_string()),
            Err(error) if error.kind() == ErrorKind::NotFound && args.record => Ok(Self::default()),
            Err(error) => Err(error).with_context(|| format!("{}, the recorded digests", path.display())),
        }
    }

    fn of(&mut self, kind: &Kind) -> &mut BTreeMap<String, Pair> {
        match &kind.file {
            Some(file) => self.parameters.entry(file.clone()).or_default(),
            None => &mut self.profiles,
        }
    }
}
