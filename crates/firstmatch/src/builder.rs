//! How a firewall is made.

use firstmatch_core::live::{self, Kind, Limits, Machine, Strategy};
use firstmatch_core::rule::{ExpansionLimits, RuleSet};
use firstmatch_core::{Budget, Diagnostic, Policy};
use firstmatch_formats::{self as formats, Fields, Options};

use crate::{Error, Firewall};

/// Who runs the rebuilds that become due after many changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rebuilds {
    /// A thread that belongs to the handle and sleeps until a commit makes a rebuild due.
    #[default]
    Thread,
    /// The caller, by [`Firewall::rebuild`].
    Caller,
}

/// Options for a [`Firewall`]. Each has a default that suits a firewall on this machine.
///
/// ```
/// use firstmatch::{Fields, Firewall};
///
/// let firewall = Firewall::builder()
///     .memory_limit(64 << 20)
///     .fields(Fields::All) // so that later rules may test what these do not
///     .build("permit tcp dport { 80, 443 }\n")?;
/// assert_eq!(firewall.len(), 1);
/// # Ok::<(), firstmatch::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing is built before `build`"]
pub struct Builder {
    config: live::Config,
    options: Options,
    rebuilds: Rebuilds,
    counters: bool,
    values: bool,
}

impl Builder {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets the most bytes that lookups may use, both replicas counted. Default: no limit.
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.config.budget = Budget { run_bytes: bytes };
        self
    }

    /// Sets the most cache lines and region tests a packet may take in the worst case. Default: 8,192 and 4,096,
    /// preferred where an engine keeps them.
    pub fn worst_case(mut self, lines: usize, tests: usize) -> Self {
        self.config.limits = Limits { worst_lines: Some(lines), worst_tests: Some(tests), ..self.config.limits };
        self
    }

    /// Sets the seed of hashes. Default: a random one for each process, so that nobody can prepare collisions.
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = Some(seed);
        self
    }

    /// Sets the engine. Default: the one that suits the rules, chosen by measuring.
    pub fn engine(mut self, kind: Kind) -> Self {
        self.config.strategy = Strategy::Force(kind);
        self
    }

    /// Sets the description of the machine that the choice of an engine is predicted for. Default: a fixed one.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.config.machine = machine;
        self
    }

    /// Sets which fields keys have. Default: the 5-tuple and the fields that the rules test.
    pub fn fields(mut self, fields: Fields) -> Self {
        self.options.fields = fields;
        self
    }

    /// Sets limits on the number of regions that a rule and a rule set may expand to.
    pub fn expansion_limits(mut self, expansion: ExpansionLimits) -> Self {
        self.options.expansion = expansion;
        self.config.expansion = expansion;
        self
    }

    /// Sets who runs rebuilds. Default: a thread of the handle's own.
    pub fn rebuilds(mut self, rebuilds: Rebuilds) -> Self {
        self.rebuilds = rebuilds;
        self
    }

    /// Counts packets and bytes for each rule ([`Firewall::count`]). Default: off, because it takes time a packet.
    pub fn counters(mut self, on: bool) -> Self {
        self.counters = on;
        self
    }

    /// Takes rows by [`Worker::push_values`](crate::Worker::push_values) alone, so that fields of a schema of your own
    /// need no packet header to come from. Default: off.
    pub fn values_only(mut self, on: bool) -> Self {
        self.values = on;
        self
    }

    /// Builds a firewall from the text of a rule file.
    ///
    /// # Errors
    /// If the text has a fault ([`Error::faults`] has all of them), or no engine keeps the limits.
    pub fn build(self, rules: &str) -> Result<Firewall, Error> {
        let file = formats::parse(rules, &self.options)?;
        self.open(file.rules, file.policy, file.warnings)
    }

    /// Builds a firewall from rules over a schema of any kind.
    ///
    /// # Errors
    /// If no engine keeps the limits, or a field has no packet header to come from and [`Builder::values_only`] is off.
    pub fn build_set(self, rules: RuleSet, policy: Policy) -> Result<Firewall, Error> {
        self.open(rules, policy, Vec::new())
    }

    fn open(self, rules: RuleSet, policy: Policy, warnings: Vec<Diagnostic>) -> Result<Firewall, Error> {
        let Self { mut config, options, rebuilds, counters, values } = self;
        config.attachments = true;
        Firewall::open(rules, policy, warnings, &config, options, rebuilds, counters, values)
    }
}
