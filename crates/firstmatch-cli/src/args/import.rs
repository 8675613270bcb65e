//! Options for rule files of other firewalls, which several commands take.

use clap::ValueEnum;
use firstmatch_formats::{self as formats, Hook, Import, RateLimit, Table};

use super::{CheckArgs, ClassifyArgs, DiffArgs, EnginesArgs, ExplainArgs, ProveArgs, TestArgs};
use crate::rules::Reading;

/// Format and view of rule files.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Rules of other firewalls")]
pub(crate) struct ImportArgs {
    /// The format of the rules; without this it is found from the text (docs/from-other-firewalls.md)
    #[arg(long, value_name = "FORMAT")]
    pub(crate) from: Option<From>,
    /// The hook whose rules are read; without this the only one with rules
    #[arg(long, value_name = "HOOK")]
    hook: Option<HookArg>,
    /// The interface that packets come from, if rules test it
    #[arg(long = "in", id = "in", value_name = "NAME")]
    from_interface: Option<String>,
    /// The interface that packets go to, if rules test it
    #[arg(long = "out", id = "out", value_name = "NAME")]
    to_interface: Option<String>,
    /// The state of connections that rules ask for
    #[arg(long, value_name = "STATE")]
    state: Option<State>,
    /// Take rates that rules limit as never reached, or as always exceeded; without this they are a fault
    #[arg(long, value_name = "ASSUMPTION")]
    assume: Option<Assume>,
    /// Leave out a table that may change packets or verdicts; it may be given several times
    #[arg(long, value_name = "TABLE")]
    without: Vec<Without>,
    /// The access list that is read, or the security groups, between commas; without this the only one
    #[arg(long, value_name = "NAME")]
    list: Option<String>,
}

/// Formats of rules that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    /// One rule a line (docs/rules.md)
    Native,
    /// A ClassBench filter set
    Classbench,
    /// The output of iptables-save
    Iptables,
    /// The output of ip6tables-save
    Ip6tables,
    /// A configuration of Cisco IOS, IOS-XE, IOS-XR or ASA
    Ios,
    /// A configuration of Cisco NX-OS
    Nxos,
    /// Security groups or network ACLs of AWS, as `aws ec2 describe-…` prints them
    Aws,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum HookArg {
    /// Packets for the host
    Input,
    /// Packets that the host passes on
    Forward,
    /// Packets from the host
    Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum State {
    /// Every packet opens a connection
    New,
    /// Every packet is of a connection that exists
    Established,
    /// TCP packets with ACK or RST are of a connection that exists, which is an approximation
    Flags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Assume {
    /// `limit` always holds
    #[value(name = "limit=within")]
    Within,
    /// `limit` never holds
    #[value(name = "limit=beyond")]
    Beyond,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Without {
    Nat,
    Mangle,
    Raw,
    Security,
}

impl ImportArgs {
    /// Returns the format, if one is given.
    pub(crate) fn format(&self) -> Option<formats::Format> {
        self.from.map(|from| match from {
            From::Native => formats::Format::Native,
            From::Classbench => formats::Format::ClassBench,
            From::Iptables => formats::Format::Iptables,
            From::Ip6tables => formats::Format::Ip6tables,
            From::Ios => formats::Format::Ios,
            From::Nxos => formats::Format::Nxos,
            From::Aws => formats::Format::Aws,
        })
    }

    /// Returns the view.
    pub(crate) fn view(&self) -> Import {
        let mut view = Import::default();
        view.hook = self.hook.map(|hook| match hook {
            HookArg::Input => Hook::Input,
            HookArg::Forward => Hook::Forward,
            HookArg::Output => Hook::Output,
        });
        (view.input, view.output) = (self.from_interface.clone(), self.to_interface.clone());
        view.state = match self.state {
            None | Some(State::New) => formats::State::New,
            Some(State::Established) => formats::State::Established,
            Some(State::Flags) => formats::State::Flags,
        };
        view.limit = self.assume.map(|assume| match assume {
            Assume::Within => RateLimit::Within,
            Assume::Beyond => RateLimit::Beyond,
        });
        let table = |without: &Without| match without {
            Without::Nat => Table::Nat,
            Without::Mangle => Table::Mangle,
            Without::Raw => Table::Raw,
            Without::Security => Table::Security,
        };
        view.list = self.list.clone();
        view.without = self.without.iter().map(table).collect();
        view
    }
}

/// Gives commands the options for reading their rules.
macro_rules! reading {
    ($($args:ty => $flags:expr,)*) => {$(
        impl $args {
            /// Returns the options for reading the rules.
            pub(crate) fn reading(&self) -> Reading<'_> {
                let flags: fn(&Self) -> bool = $flags;
                Reading { flags: flags(self), limits: &self.limits, import: &self.import }
            }
        }
    )*};
}

reading! {
    CheckArgs => |args| args.flags,
    ClassifyArgs => |args| args.flags,
    DiffArgs => |args| args.flags,
    EnginesArgs => |args| args.flags,
    ExplainArgs => |_| false,
    ProveArgs => |args| args.flags,
    TestArgs => |_| false,
}
