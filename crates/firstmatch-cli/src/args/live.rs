//! Options of the commands that read live traffic.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;

use super::{ChoiceArgs, RuleLimits, System, Threads, option};
use crate::engine_names;

#[derive(Debug, clap::Args)]
pub(crate) struct WatchArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// The interface, of Ethernet
    pub(crate) interface: String,
    /// The frames that are counted: those that come in, before this host's own filter, or also those that it sends, which
    /// may be merged and have no checksum yet
    #[arg(long, value_name = "WHICH", default_value = "in")]
    pub(crate) direction: Which,
    /// Leave out frames for other hosts, which a mirror port has
    #[arg(long)]
    pub(crate) no_promiscuous: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct BridgeArgs {
    #[command(flatten)]
    pub(crate) live: LiveArgs,
    /// The first interface, of Ethernet
    pub(crate) first: String,
    /// The second interface; frames go from each to the other
    pub(crate) second: String,
    /// What becomes of frames after a thread has failed: the program ends, or they pass without rules
    #[arg(long, value_name = "HOW", default_value = "closed")]
    pub(crate) fail: Fail,
    /// Frames that network cards have merged, or whose checksums are left to them: refuse to begin where they are to be
    /// expected, or keep them as they are, which costs a millisecond of delay
    #[arg(long, value_name = "HOW", default_value = "refuse")]
    pub(crate) offloads: Offloads,
    /// The sockets: those of AF_PACKET, or those of AF_XDP, which the host does not see the frames of
    #[arg(long, value_name = "SOCKETS", default_value = "packet")]
    pub(crate) io: Io,
    /// Pass frames of ARP, which is no IP and so denied unless the rules say `unknown permit`
    #[arg(long)]
    pub(crate) pass_arp: bool,
    /// Begin although an interface is down, and bridge once it is up
    #[arg(long)]
    pub(crate) wait: bool,
}

/// Options of all commands on live traffic.
#[derive(Debug, clap::Args)]
pub(crate) struct LiveArgs {
    /// The rules, as for `classify`; they are read anew at SIGHUP, and when the file or one that it includes changes
    pub(crate) rules: PathBuf,
    /// The size in MiB of the ring between the kernel and each thread
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=2048))]
    pub(crate) ring_mib: u16,
    /// The number of threads that decide the frames of an interface, 1 to 64; the kernel deals frames out by their flow
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(crate) workers: u8,
    /// Write denied packets as a capture (pcap): the first 512 bytes of one per 20 ms and thread
    #[arg(long, value_name = "FILE")]
    pub(crate) write: Option<PathBuf>,
    /// Become this user once frames are taken; the rules must be readable for it
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
    /// Read the rules anew at SIGHUP alone
    #[arg(long)]
    pub(crate) no_watch_file: bool,
    /// Show a page, a JSON interface and Prometheus metrics at this address; port 0 takes a free one
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) listen: Option<SocketAddr>,
    /// Allow `--listen` at an address that other hosts reach; there is neither encryption nor a password
    #[arg(long, requires = "listen")]
    pub(crate) listen_anywhere: bool,
    /// Answer requests for this host name, too; it may be given several times
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub(crate) allow_host: Vec<String>,
    /// Allow the page to have the rules read anew; without this, requests change nothing
    #[arg(long, requires = "listen")]
    pub(crate) allow_reload: bool,
    /// The number of rules with metrics of their own, the first in order; the others are one sum
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    pub(crate) metric_rules: usize,
    /// Print a line of counts to standard error every so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub(crate) every: Option<u32>,
    /// The engine that classifies (see `firstmatch engines`)
    #[arg(long, value_name = "NAME", default_value = engine_names::DEFAULT, value_parser = PossibleValuesParser::new(engine_names::names()))]
    pub(crate) engine: String,
    /// Set an option of the engine (see `firstmatch engines --options`); it may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = option)]
    pub(crate) option: Vec<(String, String)>,
    /// The arrangement of threads that looks packets up: `copies` is the lane's own thread, the others are those of the
    /// papers, behind each lane
    #[arg(long, value_name = "NAME")]
    pub(crate) system: Option<System>,
    /// The threads of its stages, as for `classify`; without this, one each
    #[arg(long, value_name = "N-N", requires = "system")]
    pub(crate) threads: Option<Threads>,
    #[command(flatten)]
    pub(crate) choice: ChoiceArgs,
    /// Print the answer as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// The number of rules in the summary, those of most packets first
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) top: usize,
    #[command(flatten)]
    pub(crate) limits: RuleLimits,
}

impl LiveArgs {
    /// Takes the engine that the steps of a system come from, unless another one was asked for.
    pub(crate) fn take_engine_of_system(&mut self) {
        System::take_engine(self.system, &mut self.engine);
    }
}

/// Frames of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Which {
    /// Those that come in
    In,
    /// Those that come in, and those that this host sends
    Both,
}

/// Effect of a thread that has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Fail {
    /// The program ends with exit code 70, and nothing passes
    Closed,
    /// The frames of that thread pass without rules
    Open,
}

/// Treatment of merged frames and unfinished checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Offloads {
    /// Refuse interfaces that merge frames, and say when a checksum is unfinished
    Refuse,
    /// Send such frames on as they are
    Keep,
}

/// Sockets of a bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Io {
    /// AF_PACKET
    Packet,
    /// AF_XDP in copy mode: one thread for each direction
    Xdp,
}
