//! Command line of the program, as clap reads it.

mod analysis;
mod flows;
mod import;
mod limits;
mod live;
mod system;

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::PossibleValuesParser;
use clap::builder::styling::{AnsiColor, Styles};
use clap::{ArgGroup, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use firstmatch_core::live::Kind;
use firstmatch_generate::profile::{FULL_PROFILES, PROFILES};

pub(crate) use analysis::{CheckArgs, DiffArgs, HELD_VALUE, ProveArgs, TestArgs, UNUSED_SET};
pub(crate) use flows::FlowArgs;
pub(crate) use import::ImportArgs;
pub(crate) use limits::RuleLimits;
pub(crate) use live::{BridgeArgs, WatchArgs};
#[cfg(all(feature = "live", target_os = "linux"))]
pub(crate) use live::{Fail, Io, LiveArgs, Offloads, Which};
pub(crate) use system::{System, SystemArgs, Threads};

use crate::engine_names;

const STYLES: Styles = Styles::styled()
    .header(AnsiColor::Green.on_default().bold())
    .usage(AnsiColor::Green.on_default().bold())
    .literal(AnsiColor::Cyan.on_default().bold())
    .placeholder(AnsiColor::Cyan.on_default());

/// Packet classification: for every packet the first rule that matches.
#[derive(Debug, Parser)]
#[command(name = "firstmatch", version, styles = STYLES, after_help = "\
Exit codes: 0 done, 1 the answer is bad (a check failed), 2 the input or the command is bad, 130 or \
143 a signal (SIGINT or SIGTERM) ended the input, 69 the interface that was watched is gone.")]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Apply rules to the packets of a capture or a trace, or to a flow log, and sum up what became of them
    #[command(after_help = "\
Examples:
  firstmatch classify edge.rules monday.pcapng.gz
  firstmatch classify edge.rules monday.pcapng tuesday.pcapng --check all
  firstmatch classify edge.rules monday.pcapng --what-if new.rules
  firstmatch classify edge.rules vpc.log.gz --columns src=pkt-srcaddr,dst=pkt-dstaddr --skip-bad
  firstmatch classify acl1.rules acl1.trace --engine linear --repeat 9
  firstmatch classify acl1.rules acl1.trace --workers 2
  firstmatch classify acl1.rules acl1.trace --engine hypercuts --system storm --threads 1-1-1 --repeat 3
  tcpdump -w - | firstmatch classify edge.rules - --json
  firstmatch classify edge.rules monday.pcapng --csv - | grep deny

The first SIGINT or SIGTERM (Ctrl-C) ends the input: the answer for the packets before it is printed, the lines of \
--csv are completed, and the exit code is 130 or 143. The second ends the program.

A fault in the middle of the input (a malformed record, a wrong checksum) is shown behind the answer for the packets \
before it, and the exit code is 2.")]
    Classify(Box<ClassifyArgs>),
    /// Count what rules would decide on the traffic of an interface, without dropping or changing any of it
    #[command(after_help = "\
Examples:
  sudo firstmatch watch edge.rules eth0 --user nobody
  firstmatch watch edge.rules eth0 --every 10 --write denied.pcap
  firstmatch watch edge.rules eth0 --json | jq .losses

The capability CAP_NET_RAW is needed. The first SIGINT or SIGTERM (Ctrl-C) ends the counting and prints the answer, \
SIGHUP reads the rules anew. Rules with a fault are refused: it is shown, and the old rules stay.

Exit codes: 130 or 143 after a signal, 69 if the interface is gone, 70 if a thread has failed, 2 otherwise.")]
    Watch(Box<WatchArgs>),
    /// Be the only path between two interfaces: send on what rules permit, in both directions, and drop the rest
    #[command(after_help = "\
Examples:
  sudo firstmatch bridge edge.rules eth1 eth2 --user nobody
  firstmatch bridge edge.rules eth1 eth2 --pass-arp --workers 2 --write denied.pcap

The capability CAP_NET_RAW is needed. The interfaces must be up, without addresses of this host, and no ports of \
another bridge. The first SIGINT or SIGTERM (Ctrl-C) lets no more frames in, decides those received, and prints the \
answer; SIGHUP reads the rules anew. Rules with a fault are refused: it is shown, and the old rules stay.

Exit codes: 130 or 143 after a signal, 69 if an interface is gone, 70 if a thread has failed, 2 otherwise.")]
    Bridge(Box<BridgeArgs>),
    /// Say which rule decides about a packet, which would have been next, and why another does not match
    #[command(after_help = "\
A packet by hand:
  PROTOCOL SRC[:PORT] > DST[:PORT] [KEY VALUE]...
The keys are type, code, flags, vlan, ttl, dscp, length, fragment (none, first or later), ext_headers (names with \
commas between) and routing_type.

A packet field by field, as `check` and `diff` print their examples:
  FIELD VALUE, FIELD VALUE, ...; absent: FIELD, ...; unknown: FIELD, ...

Examples:
  firstmatch explain edge.rules 'tcp 10.1.2.3:4040 > 192.0.2.7:443'
  firstmatch explain edge.rules 'udp [2001:db8::1]:53 > [2001:db8::2]:5353 vlan 7'
  firstmatch explain edge.rules 'icmp 10.0.0.1 > 10.0.0.2 type 8 code 0'
  firstmatch explain edge.rules 'proto 47 10.0.0.1 > 10.0.0.2' --rule 12
  firstmatch explain edge.rules 'udp 10.1.2.3 > 192.0.2.7 fragment later ttl 1'
  firstmatch explain edge.rules 'src 10.1.2.3, dst 192.0.2.7, proto 6; unknown: sport, dport'
  firstmatch explain edge.rules 'monday.pcapng#17'
  firstmatch explain edge.rules monday.pcapng --packet 17 --rule 12")]
    Explain(ExplainArgs),
    /// Find rules that never decide, and rules without which no verdict changes
    #[command(after_help = "\
Examples:
  firstmatch check edge.rules
  firstmatch check edge.rules --only shadowed,duplicate
  firstmatch check edge.rules --fail-on unmatchable,shadowed
  firstmatch check edge.rules --json | jq '.findings[].line'
  firstmatch check edge.rules --sarif > check.sarif

Every rule that is found is found for certain, and all of them can be removed together without changing a verdict. \
A rule that must stay because it makes some packets unknown is found with these words. The last rules of a file may \
state the default.")]
    Check(CheckArgs),
    /// Find the packets that two rule files give different verdicts
    #[command(after_help = "\
Examples:
  firstmatch diff monday.rules tuesday.rules
  git show HEAD:edge.rules | firstmatch diff - edge.rules --json

Each pair of rules that decide differently is printed with one packet. If nothing differs, that is proved for every \
packet; the exit code is then 0.")]
    Diff(DiffArgs),
    /// Test rules: packets with the verdict or the rule that is expected
    #[command(after_help = "\
A case is a line, PACKET => EXPECTED, with a packet as for `explain`; `#` starts a comment:
  tcp 10.1.2.3:4040 > 192.0.2.7:443            => permit
  udp [2001:db8::1]:53 > [2001:db8::2]:5353    => mark 7
  icmp 10.0.0.1 > 10.0.0.2 type echo-request   => line 12
  proto 47 10.0.0.1 > 10.0.0.2                 => unmatched
  tcp 10.1.2.3 > 192.0.2.7 fragment later      => unknown

Examples:
  firstmatch test edge.rules edge.cases

Each case that fails is explained; the exit code is then 1. A file without a case is an error.")]
    Test(TestArgs),
    /// Compare built engines with the rules, at a packet of each cell that the rules tell apart or at as many as fit
    #[command(after_help = "\
Examples:
  firstmatch prove edge.rules
  firstmatch prove edge.rules --engine rfc --packets 10000000

The bounds of all rules divide the packets into cells. If there are more cells than --packets, the packets are corners \
of rules with their neighbours, corners of overlaps, and packets of cells drawn at random.")]
    Prove(ProveArgs),
    /// Write rules in another format; what it cannot hold is an error that names it
    #[command(after_help = "\
Examples:
  firstmatch convert edge.rules --to json -o edge.json
  firstmatch convert acl1.txt --flags ignore -o acl1.rules
  firstmatch convert edge.rules --to json | jq 'del(.rules[3])' | firstmatch convert - -o shorter.rules")]
    Convert(ConvertArgs),
    /// List the engines, or say which one suits a rule file and why
    Engines(EnginesArgs),
    /// Make up rules, or packets for rules, from a seed: the same bytes each time, on every machine
    #[command(
        subcommand,
        after_help = "\
Examples:
  firstmatch generate rules --profile fw --rules 10000 --seed 3 > fw.rules
  firstmatch generate rules --family inet --format native > edge.rules
  firstmatch generate rules --profile core --rules 5000 > core.rules
  firstmatch generate rules --profile policy --rules 3000 > policy.rules
  firstmatch generate trace fw.rules --headers 1000000 --zipf 1 > fw.trace
  firstmatch classify fw.rules fw.trace
  firstmatch generate trace fw.rules --format pcap | zstd > fw.pcap.zst"
    )]
    Generate(GenerateArgs),
    /// Print what a shell needs to complete this program's arguments
    #[command(after_help = "\
Examples:
  firstmatch completions bash > ~/.local/share/bash-completion/completions/firstmatch
  firstmatch completions fish > ~/.config/fish/completions/firstmatch.fish")]
    Completions(CompletionsArgs),
    /// Print the manual page, or write that of every command into a folder
    #[command(after_help = "\
Examples:
  firstmatch manual | man -l -
  firstmatch manual --dir /usr/local/share/man/man1")]
    Manual(ManualArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum GenerateArgs {
    /// Rules, with prefixes that nest, port classes and protocols as in real rule sets
    Rules(GenerateRules),
    /// Packets that hit every rule that can be hit: a trace, whose lines end with the number of the rule that matches
    /// first, or a capture
    Trace(GenerateTrace),
}

#[derive(Debug, clap::Args)]
pub(crate) struct GenerateRules {
    /// The kind of rules: access control lists, firewalls, IP chains, classifiers of core routers (`core`), rules on
    /// groups of addresses and ports (`policy`), or nothing in particular. `core` has addresses and ports but no
    /// protocol, and stands for 1,000 to 17,000 rules. Names with `-full` keep rare kinds of rules, copies and rules
    /// that match everything, as ClassBench's own sets do, and are harder
    #[arg(long, value_name = "NAME", default_value = "acl", value_parser = profiles())]
    pub(crate) profile: String,
    /// The number of rules
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) rules: usize,
    /// The seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The families of addresses
    #[arg(long, value_name = "NAME", default_value = "ipv4")]
    pub(crate) family: Family,
    /// The share of IPv6 rules of `--family inet`, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.5)]
    pub(crate) ipv6: f64,
    /// The format to write: `classbench`, but `native` for rules without a protocol and for `policy`, whose groups are
    /// sets with names. ClassBench rules state no actions and are of one family
    #[arg(long, value_name = "NAME")]
    pub(crate) format: Option<Written>,
    /// The share of `deny` among native rules, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.4)]
    pub(crate) deny: f64,
    /// The share of `mark` among native rules, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) mark: f64,
    /// How far rules are from being sorted by how much they match, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) disorder: f64,
    /// The share of exact copies of earlier rules, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) duplicates: f64,
    /// The share of rules that lie wholly in one earlier rule, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) shadowed: f64,
    /// End with a rule that matches everything
    #[arg(long)]
    pub(crate) catch_all: bool,
}

#[derive(Debug, clap::Args)]
#[command(group(ArgGroup::new("popularity").args(["zipf", "entropy", "flows", "attack"]).multiple(true)))]
pub(crate) struct GenerateTrace {
    /// The rules, as for `classify`
    pub(crate) rules: PathBuf,
    /// The number of packets
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) headers: usize,
    /// The seed of all random choices
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// The format to write: lines of a ClassBench trace, which have addresses, ports whatever the protocol, and
    /// protocols; a pcap capture of frames of 64 bytes, or as many as their headers take; or a table (CSV) with every
    /// field that the rules test
    #[arg(long, value_name = "NAME", default_value = "classbench")]
    pub(crate) format: Packets,
    /// Draw rules by Zipf's law with this exponent instead of uniformly
    #[arg(long, value_name = "S", conflicts_with_all = ["pareto", "entropy"])]
    pub(crate) zipf: Option<f64>,
    /// Draw rules by Zipf's law with the exponent that gives their popularity this entropy: 5 bits are those of 32
    /// rules that are equally popular
    #[arg(long, value_name = "BITS", conflicts_with_all = ["pareto", "flows"])]
    pub(crate) entropy: Option<f64>,
    /// Send packets in flows that mix, this many of which start in a second; with `--zipf` some rules have more of them
    #[arg(long, value_name = "RATE", conflicts_with = "pareto")]
    pub(crate) flows: Option<f64>,
    /// The number of equal parts, in each of which other rules are popular
    #[arg(long, value_name = "N", default_value_t = 1, requires = "popularity")]
    pub(crate) phases: u32,
    /// The share of packets that come in bursts for the rarest rules, as in an attack on classifiers that adapt to
    /// traffic, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) attack: f64,
    /// The number of packets of such a burst
    #[arg(long, value_name = "N", default_value_t = 64, requires = "attack")]
    pub(crate) attack_burst: u32,
    /// Repeat headers in bursts as ClassBench does, of lengths by Pareto's law: shape and scale
    #[arg(long, value_name = "A,B", value_parser = two_numbers)]
    pub(crate) pareto: Option<(f64, f64)>,
    /// The share of packets that match no rule, 0 to 1
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    pub(crate) unmatched: f64,
    /// Draw headers of rules as they come, whether or not an earlier rule takes them: no rule is sure to be hit
    #[arg(long)]
    pub(crate) drawn: bool,
    /// The most headers that are tried for one rule before it is given up
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) tries: u32,
    /// Keep the flags column of a ClassBench filter set as a field, for `--format table`
    #[arg(long)]
    pub(crate) flags: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
}

/// Families of generated rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Family {
    Ipv4,
    Ipv6,
    /// Both
    Inet,
}

/// Formats of generated rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Written {
    Classbench,
    Native,
}

/// Formats of generated packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Packets {
    Classbench,
    Pcap,
    Table,
}

/// Name of the rules on groups, which are no [`Profile`](firstmatch_generate::Profile).
pub(crate) const POLICY: &str = "policy";

/// Reads the name of a profile.
fn profiles() -> PossibleValuesParser {
    PossibleValuesParser::new(PROFILES.into_iter().chain([POLICY]).chain(FULL_PROFILES))
}

/// Reads a number of 64 bits, decimal or hexadecimal after `0x`.
fn metadata(text: &str) -> Result<u64, String> {
    let (digits, radix) = text.strip_prefix("0x").map_or((text, 10), |digits| (digits, 16));
    let number = u64::from_str_radix(digits, radix).ok().filter(|_| !digits.starts_with('+'));
    number.ok_or_else(|| "expected a number of 64 bits, decimal or hexadecimal after 0x".into())
}

fn two_numbers(text: &str) -> Result<(f64, f64), String> {
    let both = text.split_once(',').and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
    both.ok_or_else(|| "expected two numbers with a comma between, as 1,0.1".into())
}

/// Options, beside the rules, on which the choice of `meta` depends.
#[derive(Debug, clap::Args)]
pub(crate) struct ChoiceArgs {
    /// Refuse a base of `meta` in which one packet can be tested against more than N regions; without this one of at
    /// most 4096 is preferred
    #[arg(long, value_name = "N")]
    pub(crate) worst_tests: Option<usize>,
    /// Refuse a base of `meta` in which one packet can touch more than N cache lines; without this one of at most 8192
    /// is preferred
    #[arg(long, value_name = "N")]
    pub(crate) worst_lines: Option<usize>,
    /// Refuse a base of `meta` that may take more than N bytes while it is built
    #[arg(long, value_name = "N")]
    pub(crate) build_bytes: Option<usize>,
    /// Refuse an engine whose build visits regions more than N times
    #[arg(long, value_name = "N")]
    pub(crate) build_visits: Option<usize>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EnginesArgs {
    /// The rules, as for classify: says what `meta` takes for them, what it refused and why, the times
    /// of each candidate, the memory and the worst case
    pub(crate) rules: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Look the packets of a capture, a trace, a table or a flow log up in every engine, and print the steps that this takes
    #[arg(long, value_name = "TRACE", requires = "rules")]
    pub(crate) count: Option<PathBuf>,
    /// Print what an engine builds for the rules, which should be few; with --count, its steps alone
    #[arg(long, value_name = "NAME", requires = "rules", value_parser = PossibleValuesParser::new(engine_names::names()))]
    pub(crate) structure: Option<String>,
    /// Set an option of that engine; it may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = option, requires = "structure")]
    pub(crate) option: Vec<(String, String)>,
    /// List the options of each engine, too, which `classify --option` sets
    #[arg(long, conflicts_with = "rules")]
    pub(crate) options: bool,
    /// Keep the flags column of a ClassBench filter set as a field
    #[arg(long, requires = "rules")]
    pub(crate) flags: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ClassifyArgs {
    /// The rules: a rule file, a ClassBench filter set or JSON, plain or compressed by gzip or zstd; `-` reads
    /// standard input
    pub(crate) rules: PathBuf,
    /// The packets: captures (pcap, pcapng), ClassBench traces, tables of header fields (CSV) or flow logs, plain or
    /// compressed; `-` reads standard input. Several are read in the order given, as one
    #[arg(required = true)]
    pub(crate) input: Vec<PathBuf>,
    /// Decide every packet by these rules, too, and sum up the verdicts that change, by pair of rules: a dry run before
    /// a change
    #[arg(long, value_name = "RULES")]
    pub(crate) what_if: Option<PathBuf>,
    /// Write a line for each packet whose verdict `--what-if` changes, with both decisions; `-` is standard output, as
    /// for `--csv`
    #[arg(long, value_name = "FILE", requires = "what_if", conflicts_with = "csv")]
    pub(crate) changed: Option<PathBuf>,
    /// The engine that classifies (see `firstmatch engines`)
    #[arg(long, value_name = "NAME", default_value = engine_names::DEFAULT, value_parser = PossibleValuesParser::new(engine_names::names()))]
    pub(crate) engine: String,
    /// Set an option of the engine (see `firstmatch engines --options`); it may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) option: Vec<(String, String)>,
    /// The base that `meta` takes instead of choosing one, or one for each family with a comma between:
    /// `firstmatch engines RULES` says which it has chosen
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub(crate) base: Vec<Kind>,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Keep ENTRIES answers in a cache in front of the engine, and give them again to equal packets; this pays where
    /// packets come in flows
    #[arg(long, value_name = "ENTRIES", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub(crate) flow_cache: Option<u32>,
    /// Keep up to BOXES boxes of packets with one answer in front of the engine, and answer all packets in them; this
    /// pays where most packets go to few rules and the engine takes more than some 30 ns a packet, as `linear` does
    #[arg(long, value_name = "BOXES", value_parser = clap::value_parser!(u32).range(1..=256), conflicts_with = "flow_cache")]
    pub(crate) rule_cache: Option<u32>,
    /// Classify N packets spread over the input, or all, once more with the oracle, which walks the rules one by one;
    /// a difference is shown and ends with exit code 1
    #[arg(long, value_name = "N|all")]
    pub(crate) check: Option<Check>,
    /// Hold the packets in memory and time N passes of the classifier over them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) repeat: Option<u32>,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a line for each packet, which ends with the time of its capture; `-` writes to standard output, and the
    /// summary to standard error. A file has its name, and loses what it had before, once all lines are in it; it cannot
    /// be that of the rules or of the packets
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// The number of rules in the summary, those of most packets first
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    /// Keep the flags column of a ClassBench filter set as a field
    #[arg(long)]
    pub(crate) flags: bool,
    /// The value of the field `metadata` for every packet of a capture or a trace, instead of 0
    #[arg(long, value_name = "N", value_parser = metadata)]
    pub(crate) metadata: Option<u64>,
    /// The number of packets that one call classifies
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub(crate) batch: u16,
    /// The number of threads that read, parse and classify packets, 1 to 64, beside the one that takes the answers. The
    /// answers are the same, and in the same order; more threads than cores do not help. A compressed input is
    /// decompressed on a thread of its own. `--repeat` times one
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) workers: u8,
    #[command(flatten)]
    pub(crate) systems: SystemArgs,
    #[command(flatten)]
    pub(crate) flows: FlowArgs,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The rules, as for `classify`
    pub(crate) rules: PathBuf,
    /// A packet by hand, or a capture, trace, table or flow log with the number of a packet in it (from 0): `FILE#N`
    #[arg(required = true, num_args = 1..)]
    pub(crate) packet: Vec<String>,
    /// The number of the packet (from 0) in the file that PACKET names
    #[arg(long = "packet", value_name = "N")]
    pub(crate) number: Option<u64>,
    /// The value of the field `metadata` for the packet, instead of 0
    #[arg(long, value_name = "N", value_parser = metadata)]
    pub(crate) metadata: Option<u64>,
    /// Show each condition of the rule on this line, and which of them failed
    #[arg(long, value_name = "LINE")]
    pub(crate) rule: Vec<u32>,
    #[command(flatten)]
    pub(crate) flows: FlowArgs,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ConvertArgs {
    /// The rules: a rule file, a ClassBench filter set or JSON, plain or compressed by gzip or zstd; `-` reads
    /// standard input
    pub(crate) rules: PathBuf,
    /// The format to write; by default JSON where the output ends in `.json`, else the native one
    #[arg(long, value_name = "FORMAT")]
    pub(crate) to: Option<Format>,
    /// Where to write: the whole file, or nothing on an error; `-` writes to standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Keep or ignore the flags column of a ClassBench filter set; without this it is an error if a rule tests it
    #[arg(long, value_name = "WHAT")]
    pub(crate) flags: Option<Flags>,
    /// Give the rules every field of IP networks, tested or not, so that rules added to the JSON later may test it
    #[arg(long)]
    pub(crate) all_fields: bool,
    #[command(flatten)]
    pub(crate) import: ImportArgs,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

/// Reads the value of an option of an engine.
fn option(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

/// Formats of rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One rule a line (docs/rules.md)
    Native,
    /// A ClassBench filter set
    Classbench,
    /// JSON, for scripts (docs/json.md)
    Json,
    /// Access lists of Cisco IOS, one for each family (docs/from-other-firewalls.md)
    Ios,
}

/// Treatment of ClassBench's flags column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Flags {
    /// It is a field of the rules, which only ClassBench and JSON hold
    Keep,
    /// It is left out, as `classify` does
    Ignore,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    pub(crate) shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManualArgs {
    /// Write the page of every command here, each in a file of its own
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Number of packets that the oracle checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Sample(usize),
    All,
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.parse()) {
            ("all", _) => Ok(Self::All),
            (_, Ok(count @ 1..=100_000_000)) => Ok(Self::Sample(count)),
            _ => Err("expected `all`, or how many packets to check (1 to 100000000)".into()),
        }
    }
}
