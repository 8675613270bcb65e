//! Arguments of systems of threads.

use std::str::FromStr;

use clap::ValueEnum;

use super::ClassifyArgs;
use crate::engine_names::DEFAULT;

/// Arrangement of threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum System {
    /// Whole lookups on each thread
    Copies,
    /// The same behind boxes that one more thread makes for all
    Shared,
    /// Storm: a stage that searches boxes, a stage of whole lookups for packets in none, and a thread that makes boxes
    Storm,
    /// Pnpf: a stage for each key word of the engine npf, whose threads follow the queues
    Pnpf,
    /// The phases of the engine rfc or bitmap_rfc as stages
    Rfc,
}

impl System {
    /// Returns the name, as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Copies => "copies",
            Self::Shared => "shared",
            Self::Storm => "storm",
            Self::Pnpf => "pnpf",
            Self::Rfc => "rfc",
        }
    }
}

impl System {
    /// Has an engine that nobody asked for be the one that the steps of a system come from.
    pub(super) fn take_engine(system: Option<Self>, engine: &mut String) {
        let own = match system {
            Some(Self::Pnpf) => "npf",
            Some(Self::Rfc) => "rfc",
            _ => return,
        };
        if engine == DEFAULT {
            own.clone_into(engine);
        }
    }
}

/// Numbers of threads by stage, as `4-2-1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Threads(pub(crate) Vec<usize>);

impl FromStr for Threads {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |part: &str| part.parse::<u8>().ok().filter(|&number| number > 0).map(usize::from);
        let numbers = text.split('-').map(number).collect::<Option<Vec<_>>>();
        numbers.map(Self).ok_or_else(|| "expected numbers from 1 to 255 with `-` between, as 4-2-1".to_owned())
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct SystemArgs {
    /// Hold the packets in memory and send them --repeat times, or once, through an arrangement of threads. Each answer
    /// is compared with that of the engine alone; a difference ends with exit code 1
    #[arg(long, value_name = "NAME", conflicts_with_all = ["flow_cache", "rule_cache", "base"])]
    pub(crate) system: Option<System>,
    /// The threads of its stages: `copies` N, `shared` N-1, `storm` boxes-lookups-1, `pnpf` rows-word-decisions, `rfc`
    /// two or three numbers. Without this, one each, and two copies
    #[arg(long, value_name = "N-N", requires = "system")]
    pub(crate) threads: Option<Threads>,
}

impl ClassifyArgs {
    /// Takes the engine that the steps of a system come from, unless another one was asked for.
    pub(crate) fn take_engine_of_system(&mut self) {
        System::take_engine(self.systems.system, &mut self.engine);
    }
}
