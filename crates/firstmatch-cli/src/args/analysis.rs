//! Arguments of the commands that answer questions about rules.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Parser;
use clap::builder::PossibleValuesParser;
use firstmatch_core::analyze;

use super::ClassifyArgs;
use super::import::ImportArgs;
use super::limits::RuleLimits;
use crate::engine_names;

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The rules, as for `classify`
    pub(crate) rules: PathBuf,
    /// Report pairs of rules too that share packets and decide them differently: the earlier rule takes them from the
    /// later one
    #[arg(long)]
    pub(crate) overlaps: bool,
    /// Print a JSON object
    #[arg(long, conflicts_with = "sarif")]
    pub(crate) json: bool,
    /// Print SARIF 2.1.0, which tools for code review read
    #[arg(long)]
    pub(crate) sarif: bool,
    /// The kinds of findings that are shown and counted, as for --fail-on. Without this, all of them
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind)]
    pub(crate) only: Vec<&'static str>,
    /// The kinds of findings that give exit code 1, with commas between: unmatchable, duplicate, shadowed, redundant,
    /// overlap, undecided, unused-set, held-value. Without this, all that
    /// are shown
    #[arg(long, value_name = "KINDS", value_delimiter = ',', value_parser = kind)]
    pub(crate) fail_on: Vec<&'static str>,
    /// The most regions that the question about one rule may look at; beyond, the answer is `undecided`
    #[arg(long, value_name = "N", default_value_t = analyze::Limits::default().work)]
    pub(crate) max_work: u64,
    /// The most regions that all questions may look at
    #[arg(long, value_name = "N", default_value_t = analyze::Limits::default().total_work)]
    pub(crate) max_total_work: u64,
    /// Keep the flags column of a ClassBench filter set as a field
    #[arg(long)]
    pub(crate) flags: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DiffArgs {
    /// The rules before, as for `classify`
    pub(crate) before: PathBuf,
    /// The rules after
    pub(crate) after: PathBuf,
    /// Packets, as for `classify`: their verdicts that change are counted by pair of rules
    pub(crate) input: Vec<PathBuf>,
    /// State the packets of each pair as merged regions, or none if there are more than N before merging
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) regions: usize,
    /// Print a JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The most pairs of rules that are printed
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) most: usize,
    /// The most regions that one question may look at; beyond, it counts as undecided
    #[arg(long, value_name = "N", default_value_t = analyze::Limits::default().work)]
    pub(crate) max_work: u64,
    /// Keep the flags column of a ClassBench filter set as a field
    #[arg(long)]
    pub(crate) flags: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProveArgs {
    /// The rules, as for `classify`
    pub(crate) rules: PathBuf,
    /// The engine to compare (see `firstmatch engines`); without it, every engine
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(engine_names::names()))]
    pub(crate) engine: Option<String>,
    /// The most packets of each address family
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub(crate) packets: u64,
    /// Keep the flags column of a ClassBench filter set as a field
    #[arg(long)]
    pub(crate) flags: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

#[derive(Debug, clap::Args)]
pub(crate) struct TestArgs {
    /// The rules, as for `classify`
    pub(crate) rules: PathBuf,
    /// The cases, one on a line; `-` reads standard input
    pub(crate) cases: PathBuf,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

/// Name of the findings about sets that no rule uses.
pub(crate) const UNUSED_SET: &str = "unused-set";
/// Name of the findings about values that others of their list hold.
pub(crate) const HELD_VALUE: &str = "held-value";

/// Reads the name of a kind of findings.
fn kind(text: &str) -> Result<&'static str, String> {
    let known: Vec<&str> =
        analyze::Kind::ALL.map(analyze::Kind::name).into_iter().chain([UNUSED_SET, HELD_VALUE]).collect();
    known.iter().copied().find(|kind| *kind == text).ok_or_else(|| format!("expected one of {}", known.join(", ")))
}

impl ClassifyArgs {
    /// Returns the arguments of a dry run with every option at its default.
    pub(crate) fn dry_run(rules: &Path, what_if: &Path, input: &[PathBuf]) -> Self {
        #[derive(clap::Parser)]
        struct Only {
            #[command(flatten)]
            args: ClassifyArgs,
        }
        let words =
            [OsStr::new("classify"), OsStr::new("--what-if"), what_if.as_os_str(), OsStr::new("--"), rules.as_os_str()];
        Only::parse_from(words.into_iter().chain(input.iter().map(|path| path.as_os_str()))).args
    }
}
