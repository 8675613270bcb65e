//! Options for rule files of other firewalls.

/// Way of packets through a host, which has its own chains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Hook {
    /// Packets for the host itself.
    Input,
    /// Packets that the host passes on.
    Forward,
    /// Packets from the host itself.
    Output,
}

impl Hook {
    /// All hooks.
    pub const ALL: [Self; 3] = [Self::Input, Self::Forward, Self::Output];

    /// Returns the name, as in the option `--hook`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
        }
    }
}

/// State of the connections that packets belong to, as far as rules ask for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum State {
    /// Every packet opens a connection: only `NEW` holds.
    #[default]
    New,
    /// Every packet belongs to a connection that exists: only `ESTABLISHED` holds.
    Established,
    /// TCP packets with ACK or RST are `ESTABLISHED`, all others `NEW`.
    ///
    /// This is an approximation, because a host remembers connections, and a list of rules does not.
    Flags,
}

/// Assumption about rates that rules limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RateLimit {
    /// Packets come so slowly that `limit` always holds.
    Within,
    /// Packets come so fast that `limit` never holds.
    Beyond,
}

/// Table of iptables beside `filter`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Table {
    /// Changes addresses and ports.
    Nat,
    /// Changes other header fields, and sets marks.
    Mangle,
    /// Rules before connections are tracked.
    Raw,
    /// Rules of mandatory access control.
    Security,
}

impl Table {
    /// All tables.
    pub const ALL: [Self; 4] = [Self::Nat, Self::Mangle, Self::Raw, Self::Security];

    /// Returns the name in iptables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Mangle => "mangle",
            Self::Raw => "raw",
            Self::Security => "security",
        }
    }
}

/// View of a rule file of another firewall: the packets that it is read for.
///
/// Rules of other firewalls test things that packets here do not have, such as the interface. A view fixes them.
///
/// ```
/// use firstmatch_formats::{Hook, Import, Options, parse};
///
/// let text = "*filter\n:INPUT DROP [0:0]\n-A INPUT -i eth0 -p tcp -m tcp --dport 22 -j ACCEPT\nCOMMIT\n";
/// let mut import = Import::default();
/// import.hook = Some(Hook::Input);
/// import.input = Some("eth0".into());
/// let file = parse(text, &Options { import, ..Options::default() })?;
/// assert_eq!(file.rules.len(), 1);
/// # Ok::<(), firstmatch_formats::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Import {
    /// Hook whose chains are read; `None` takes the only one with rules.
    pub hook: Option<Hook>,
    /// Name of the interface that packets come from; `None` if no rule tests it.
    pub input: Option<String>,
    /// Name of the interface that packets go to; `None` if no rule tests it.
    pub output: Option<String>,
    /// State of connections.
    pub state: State,
    /// Assumption about `limit`; `None` makes it a fault.
    pub limit: Option<RateLimit>,
    /// Tables that are left out, although they may change packets before or behind the rules.
    pub without: Vec<Table>,
    /// Access list that is read, by name, or by `ipv4` or `ipv6` and its name; `None` takes the only one.
    pub list: Option<String>,
}
