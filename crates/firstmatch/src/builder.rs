//! Options and construction of a firewall.

use firstmatch_core::engines::registry::ENGINES;
use firstmatch_core::live::{self, Calls, Front, Kind, Limits, META, Strategy};
use firstmatch_core::rule::{ExpansionLimits, RuleSet};
use firstmatch_core::{Budget, Policy};
use firstmatch_formats::{self as formats, Fields, Options, RuleFile};

use crate::{Error, Firewall};

/// Thread that runs the rebuilds that become due after many changes.
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
///     .fields(Fields::All) // so that later rules may test other fields
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

    /// Sets the maximum number of bytes that lookups may use, counting both replicas. Default: no limit.
    ///
    /// ```
    /// use firstmatch::Firewall;
    ///
    /// assert!(Firewall::builder().memory_limit(1 << 20).build("permit\n").is_ok());
    /// let refused = Firewall::builder().memory_limit(64).build("permit\n").unwrap_err();
    /// assert!(refused.budget_exceeded());
    /// ```
    pub fn memory_limit(mut self, bytes: usize) -> Self {
        self.config.budget = Budget { run_bytes: bytes };
        self
    }

    /// Sets the maximum numbers of cache lines and region tests per packet in the worst case. Default: 8,192 and 4,096,
    /// which are preferred, not enforced.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::builder().worst_case(100, 100).build("permit tcp\n")?;
    /// assert!(firewall.stats().iter().all(|stats| stats.worst_lines <= 100));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn worst_case(mut self, lines: usize, tests: usize) -> Self {
        self.config.limits = Limits { worst_lines: Some(lines), worst_tests: Some(tests), ..self.config.limits };
        self
    }

    /// Sets the seed of hashes. Default: random for each process, so that no attacker can prepare collisions.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::builder().seed(7).build("permit tcp\n")?;
    /// # assert_eq!(firewall.len(), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.seed = Some(seed);
        self
    }

    /// Sets the engine by its name, such as `bit_select` or `hypercuts`. Default: `meta`, which takes the one that
    /// suits the rules, by measuring.
    ///
    /// An engine that cannot be the base of changing rules becomes a [front](Builder::front).
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::builder().engine("hypercuts")?.build("deny tcp dport 23\npermit\n")?;
    /// firewall.update().append("deny")?; // its rules change as those of any engine
    /// let unknown = firstmatch::Firewall::builder().engine("hypercut").unwrap_err().to_string();
    /// assert!(unknown.starts_with("there is no engine `hypercut`; expected one of meta, "));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no engine of this name; the error lists the names.
    pub fn engine(mut self, name: &str) -> Result<Self, Error> {
        (self.config.strategy, self.config.ipv6_strategy, self.config.front) = Default::default();
        if let Some(&kind) = Kind::ALL.iter().find(|kind| kind.name() == name) {
            self.config.strategy = Strategy::Force(kind);
        } else if let Some(entry) = ENGINES.iter().find(|entry| entry.name == name) {
            self.config.front = Some(Front::of(entry, &[]));
        } else if name != META.name {
            let names: Vec<&str> = [META].iter().chain(ENGINES).map(|entry| entry.name).collect();
            return Err(Error::rule(format!("there is no engine `{name}`; expected one of {}", names.join(", "))));
        }
        Ok(self)
    }

    /// Sets an engine that answers before the base: one of the caller's own, one with options, or one behind a cache.
    /// Default: none.
    ///
    /// ```
    /// use firstmatch::core::cache::flow::{Config, FlowCache};
    /// use firstmatch::core::live::{self, Front};
    ///
    /// let cached = Front::new("cached", |rules, _| {
    ///     let engine = live::Engine::build(rules, &live::Config::default())?;
    ///     Ok(Box::new(FlowCache::new(engine, &Config::default())?))
    /// });
    /// let firewall = firstmatch::Firewall::builder().front(cached).build("permit tcp\n")?;
    /// assert!(firewall.engines()[0].front.is_some());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn front(mut self, front: Front) -> Self {
        self.config.front = Some(front);
        self
    }

    /// Sets the whole configuration of the rules in service, in place of what was set before.
    ///
    /// Expansion limits and attachments are set by this builder alone.
    ///
    /// ```
    /// use firstmatch::core::live::{Config, Kind, Strategy};
    ///
    /// let config = Config { strategy: Strategy::Force(Kind::Linear), ..Config::default() };
    /// let firewall = firstmatch::Firewall::builder().live(config).build("permit tcp\n")?;
    /// assert!(firewall.engines().iter().all(|engine| engine.kind == Kind::Linear));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn live(mut self, config: live::Config) -> Self {
        self.config = config;
        self
    }

    /// Sets whether packets are looked up in batches or one per call, because the fastest engine differs. Default: in
    /// batches.
    ///
    /// ```
    /// use firstmatch::core::live::Calls;
    ///
    /// let firewall = firstmatch::Firewall::builder().calls(Calls::Packets).build("permit tcp\n")?;
    /// # assert_eq!(firewall.len(), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn calls(mut self, calls: Calls) -> Self {
        self.config.calls = calls;
        self
    }

    /// Sets the fields that keys have. Default: the 5-tuple and the fields that the rules test.
    ///
    /// ```
    /// use firstmatch::{Fields, Firewall};
    ///
    /// let firewall = Firewall::builder().fields(Fields::All).build("permit tcp\n")?;
    /// let mut update = firewall.update();
    /// update.append("deny vlan_vid 20")?; // a field that the first rules do not test
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn fields(mut self, fields: Fields) -> Self {
        self.options.fields = fields;
        self
    }

    /// Sets limits on the number of regions that a rule and a rule set may expand to.
    ///
    /// ```
    /// use firstmatch::Firewall;
    /// use firstmatch::core::rule::ExpansionLimits;
    ///
    /// let few = ExpansionLimits { regions_per_rule: 3, ..ExpansionLimits::default() };
    /// let refused = Firewall::builder().expansion_limits(few).build("permit tcp dport { 1, 3, 5, 7 }\n").unwrap_err();
    /// assert_eq!(refused.line(), Some(1));
    /// ```
    pub fn expansion_limits(mut self, expansion: ExpansionLimits) -> Self {
        self.options.expansion = expansion;
        self
    }

    /// Sets the thread that runs rebuilds. Default: a thread of the handle's own.
    ///
    /// ```
    /// use firstmatch::{Firewall, Rebuilds};
    ///
    /// let firewall = Firewall::builder().rebuilds(Rebuilds::Caller).build("permit\n")?;
    /// firewall.rebuild()?; // on this thread, when it suits
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn rebuilds(mut self, rebuilds: Rebuilds) -> Self {
        self.rebuilds = rebuilds;
        self
    }

    /// Counts packets and bytes for each rule ([`Firewall::count`]). Default: off, because it takes time for each
    /// packet.
    ///
    /// ```
    /// use firstmatch::{Firewall, LinkType};
    ///
    /// let firewall = Firewall::builder().counters(true).build("permit\n")?;
    /// let mut worker = firewall.worker();
    /// worker.push(LinkType::Ethernet, &firstmatch::doc_frame(80));
    /// let rule = worker.classify()[0].rule.expect("every packet matches");
    /// assert_eq!(firewall.count(rule).map(|count| count.packets), Some(1));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn counters(mut self, on: bool) -> Self {
        self.counters = on;
        self
    }

    /// Takes rows only by [`Worker::push_values`](crate::Worker::push_values), so that fields of a schema of your own
    /// need not come from a packet header. Default: off.
    ///
    /// ```
    /// use firstmatch::core::rule::FieldValues;
    ///
    /// let orders = firstmatch::Firewall::builder().values_only(true).build("schema {\n  tenant 24 exact\n}\ndeny tenant 7\n")?;
    /// let mut worker = orders.worker();
    /// worker.push_values(&FieldValues { family: None, values: vec![Some(7)] }, 0);
    /// assert_eq!(worker.classify()[0].line.map(u32::from), Some(4));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn values_only(mut self, on: bool) -> Self {
        self.values = on;
        self
    }

    /// Builds a firewall from the text of a rule file.
    ///
    /// ```
    /// let faulty = firstmatch::Firewall::builder().build("permit tpc\ndeny dport 99999\n").unwrap_err();
    /// assert_eq!(faulty.faults().len(), 2); // all faults of the text
    /// ```
    ///
    /// # Errors
    /// If the text has a fault ([`Error::faults`] has all of them), or no engine keeps the limits.
    pub fn build(self, rules: &str) -> Result<Firewall, Error> {
        let file = formats::parse(rules, &self.options)?;
        self.build_file(file)
    }

    /// Builds a firewall from a rule file that was read already; for example, one that includes other files.
    ///
    /// ```
    /// use firstmatch::{Firewall, formats};
    ///
    /// let load = |_: &str| Ok("203.0.113.0/24\n198.51.100.7\n".to_owned());
    /// let text = "set bad = { include \"bad.txt\" }\ndeny src $bad\npermit\n";
    /// let file = formats::parse_with(text, &formats::Options::default(), &load)?;
    /// assert_eq!(Firewall::builder().build_file(file)?.len(), 2);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If no engine keeps the limits, or as [`Builder::build_set`].
    pub fn build_file(self, file: RuleFile) -> Result<Firewall, Error> {
        let Self { mut config, options, rebuilds, counters, values } = self;
        (config.attachments, config.expansion) = (true, options.expansion);
        Firewall::open(file, config, options, rebuilds, counters, values)
    }

    /// Builds a firewall from rules over a schema of any kind.
    ///
    /// ```
    /// use firstmatch::core::rule::RuleSet;
    /// use firstmatch::core::Schema;
    /// use firstmatch::{Firewall, Policy};
    ///
    /// let empty = Firewall::builder().build_set(RuleSet::new(Schema::ipv4()), Policy::default())?;
    /// assert!(empty.is_empty());
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If no engine keeps the limits, or a field has no packet header to come from and [`Builder::values_only`] is off.
    pub fn build_set(self, rules: RuleSet, policy: Policy) -> Result<Firewall, Error> {
        self.build_file(RuleFile::new(rules, policy))
    }
}
