//! `--what-if`: the same packets under other rules, and the verdicts that change.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::bail;
use firstmatch::Decision;
use firstmatch_core::RuleId;
use firstmatch_core::engines::registry::Settings;
use firstmatch_core::live::META;
use firstmatch_core::policy::Verdict;
use firstmatch_net::wire::{self, Batch};
use serde::Serialize;

use super::csv;
use super::lookups::Lookups;
use super::stretch::{Feed, Packet, Stretch};
use super::tally::{Count, Tally};
use super::timing::Streamed;
use crate::args::ClassifyArgs;
use crate::engines::Caches;
use crate::format::time;
use crate::rules::{self, Loaded};
use crate::{engines, is_broken_pipe};

/// Other rules, with the packets that they decide differently.
pub(super) struct WhatIf {
    pub(super) loaded: Loaded,
    config: wire::Config,
    lookups: Lookups,
    decisions: Vec<Decision>,
    /// Batch for the packets of the current input.
    batch: Option<Batch>,
    /// Packets whose verdict changes, by rule and verdict before and after.
    changed: HashMap<[(Option<RuleId>, Verdict); 2], Count>,
    /// Packets by the rule that decides them.
    tally: Tally,
    /// Output for the packets whose verdict changes.
    pub(super) csv: Option<csv::Writer>,
}

/// Packets that an audit rule would decide.
#[derive(Debug, Serialize)]
pub(super) struct AuditHits {
    pub(super) line: u32,
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Packets that would get another verdict.
    pub(super) changed_packets: u64,
    #[serde(skip)]
    pub(super) text: String,
}

/// Pair of rules that decide some packets differently.
#[derive(Debug, Serialize)]
pub(super) struct Changed {
    pub(super) before: Decided,
    pub(super) after: Decided,
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// Decision of one of two rule files.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(super) struct Decided {
    /// Line of the rule; `None` if no rule matches or the packet is unknown.
    pub(super) line: Option<u32>,
    pub(super) verdict: String,
}

/// Figures of the other rules.
#[derive(Debug, Serialize)]
pub(super) struct WhatIfReport {
    pub(super) rules_file: String,
    /// Packets whose verdict changes, and their bytes.
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// Pairs of rules, the ones with most packets first.
    pub(super) pairs: Vec<Changed>,
}

impl WhatIf {
    /// Reads the other rules and builds the default engine for them; `None` if they have faults, which are then shown.
    pub(super) fn load(path: &Path, args: &ClassifyArgs) -> anyhow::Result<Option<Self>> {
        let Some(loaded) = rules::load_briefly(path, args.reading())? else { return Ok(None) };
        let csv = args.changed.as_deref().map(|path| csv::Writer::create(path, &csv::CHANGED)).transpose()?;
        Ok(Self::new(loaded, args)?.map(|what_if| Self { csv, ..what_if }))
    }

    /// Builds the default engine for other rules; `None` if that fails, and then the reason is shown.
    pub(super) fn new(loaded: Loaded, args: &ClassifyArgs) -> anyhow::Result<Option<Self>> {
        let config = loaded.wire_config(args.metadata)?;
        let firewall = match engines::serve(&loaded, &META, &Settings::default(), &[], Caches::default()) {
            Ok(firewall) => firewall,
            Err(error) => return loaded.not_built(error, |_| None).map(|()| None),
        };
        let lookups = Lookups::new(firewall, args.batch.into());
        let tally = Tally::new(loaded.file.rules.slots());
        Ok(Some(Self {
            loaded,
            config,
            lookups,
            decisions: Vec::new(),
            batch: None,
            changed: HashMap::new(),
            tally,
            csv: None,
        }))
    }

    /// Prepares for the packets of another input of the run whose rules are `own`.
    pub(super) fn begin(&mut self, feed: &Feed, own: &Loaded) -> anyhow::Result<()> {
        let rules = &self.loaded.file.rules;
        if feed.has_values() && rules.schemas() != own.file.rules.schemas() {
            bail!("the columns of a table are the fields of {}, and {} has others", own.name, self.loaded.name);
        }
        self.batch = Some(feed.batch(&self.config, rules)?);
        Ok(())
    }

    /// Classifies the packets of a stretch, and counts the packets that `own` decides differently.
    pub(super) fn take(&mut self, own: &Loaded, stretch: &Stretch) -> anyhow::Result<()> {
        let Some(batch) = &mut self.batch else { return Ok(()) };
        batch.clear();
        for (packet, record) in stretch.packets.iter().zip(stretch.batch.records()) {
            Packet::push(packet, batch, record.bytes);
        }
        self.decisions.clear();
        let mut places = 0..;
        self.lookups.decide(batch, &mut Streamed::default(), |record, decision| {
            self.tally.add(record, &decision, stretch.count(places.next().unwrap_or(usize::MAX), record));
            self.decisions.push(decision);
        });
        let both = stretch.decisions.iter().zip(&self.decisions).zip(stretch.batch.records());
        for (at, (((before, after), record), nanos)) in both.zip(stretch.times()).enumerate() {
            if before.verdict != after.verdict {
                let key = [before, after].map(|of| (of.rule, of.verdict));
                let one = stretch.count(at, record);
                self.changed.entry(key).or_default().add(one);
                if let Some(csv) = &mut self.csv {
                    let line = |side: Decided| side.line.map_or(String::new(), |line| line.to_string());
                    let lines = [line(Decided::new(own, key[0])), line(Decided::new(&self.loaded, key[1]))];
                    let [number, bytes] = [stretch.first + at as u64, one.bytes].map(|number| number.to_string());
                    let verdicts = key.map(|(_, verdict)| verdict.to_string());
                    let captured = nanos.map_or(String::new(), time);
                    match csv.row(&[&number, &bytes, &lines[0], &verdicts[0], &lines[1], &verdicts[1], &captured]) {
                        Err(error) if is_broken_pipe(&error) => self.csv = None,
                        other => other?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the packets that each audit rule of `own` would decide; `self` has the rules with audit rules in force.
    pub(super) fn audit(&self, own: &Loaded) -> Vec<AuditHits> {
        let mut changed: HashMap<Option<RuleId>, u64> = HashMap::new();
        self.changed.iter().for_each(|([_, after], count)| *changed.entry(after.0).or_default() += count.packets);
        let rules = self.loaded.file.rules.iter().filter(|rule| own.file.is_audit(rule));
        let hits = rules.map(|rule| {
            let Count { packets, bytes, .. } = self.tally.of_rule(rule.id);
            let changed_packets = changed.get(&Some(rule.id)).copied().unwrap_or(0);
            let (line, text) = (self.loaded.line_of(rule), self.loaded.text_of(rule));
            AuditHits { line, packets, bytes, changed_packets, text }
        });
        hits.collect()
    }

    pub(super) fn report(&self, own: &Loaded) -> WhatIfReport {
        let mut all = Count::default();
        let mut pairs: Vec<Changed> = Vec::new();
        for (&[before, after], &count) in &self.changed {
            all.add(count);
            let Count { packets, bytes, .. } = count;
            let (before, after) = (Decided::new(own, before), Decided::new(&self.loaded, after));
            pairs.push(Changed { before, after, packets, bytes });
        }
        if own.goes_by_line() || self.loaded.goes_by_line() {
            pairs = Changed::by_line(pairs);
        }
        pairs.sort_by_key(|pair| (std::cmp::Reverse(pair.packets), pair.before.line, pair.after.line));
        let Count { packets, bytes, .. } = all;
        WhatIfReport { rules_file: self.loaded.name.clone(), packets, bytes, pairs }
    }
}

impl Changed {
    /// Adds up the pairs of rules from the same lines.
    fn by_line(pairs: Vec<Self>) -> Vec<Self> {
        let mut lines: BTreeMap<(Decided, Decided), (u64, u64)> = BTreeMap::new();
        for Self { before, after, packets, bytes } in pairs {
            let of_lines = lines.entry((before, after)).or_default();
            *of_lines = (of_lines.0 + packets, of_lines.1 + bytes);
        }
        let pair = |((before, after), (packets, bytes))| Self { before, after, packets, bytes };
        lines.into_iter().map(pair).collect()
    }
}

impl Decided {
    fn new(loaded: &Loaded, (rule, verdict): (Option<RuleId>, Verdict)) -> Self {
        let line = rule.and_then(|id| loaded.rule(id)).map(|rule| loaded.line_of(rule));
        Self { line, verdict: verdict.to_string() }
    }

    /// Returns the decision in words.
    pub(super) fn text(&self, name: &str) -> String {
        match self.line {
            Some(line) => format!("{} by {name}:{line}", self.verdict),
            None => format!("{} without a rule", self.verdict),
        }
    }
}
