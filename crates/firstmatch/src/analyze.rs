//! Questions about the rules themselves, not about packets.

use firstmatch_core::KeyBuf;
use firstmatch_core::analyze::{self, Analysis, Config, Differences, KeySpace, Overlapping, Report};
use firstmatch_core::rule::{FieldValues, RuleId, RuleSet};

use crate::{Error, Firewall};

/// Number of keys in a batch that [`Firewall::prove`] looks up.
const BATCH: usize = 256;

/// Comparison of the engines with the rules.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Proof {
    /// Number of packets compared.
    pub packets: u64,
    /// Whether there was a packet of every cell that the rules tell apart.
    pub is_all: bool,
    /// First packet that an engine answers wrongly, with the rules that the analysis and the engine name.
    pub difference: Option<(FieldValues, [Option<RuleId>; 2])>,
}

/// Questions are answered for a copy of the current rules, so updates may go on meanwhile.
impl Firewall {
    /// Finds rules that never decide and rules without which no verdict changes.
    ///
    /// ```
    /// use firstmatch::Firewall;
    /// use firstmatch::core::analyze::Kind;
    ///
    /// let firewall = Firewall::from_text("permit tcp dport 0-1023\npermit tcp dport 1024-65535\ndeny tcp\n")?;
    /// let report = firewall.check()?;
    /// assert_eq!((report.findings.len(), report.findings[0].kind), (1, Kind::Shadowed));
    /// assert_eq!(firewall.rule(report.findings[0].rule).as_deref(), Some("deny tcp"));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If one condition of a rule exceeds a limit on regions, or the sets of a field do all together. A rule whose
    /// conditions multiply beyond a limit is listed in [`Report::beyond`].
    pub fn check(&self) -> Result<Report, Error> {
        let rules = self.copied();
        Ok(Analysis::new(&rules, &self.policy(), &self.config())?.check())
    }

    /// Finds up to `most` pairs of rules with different verdicts in which the earlier one takes packets from the later
    /// one.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n")?;
    /// assert_eq!(firewall.overlaps(100)?.pairs.len(), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Firewall::check`].
    pub fn overlaps(&self, most: usize) -> Result<Overlapping, Error> {
        let rules = self.copied();
        Ok(Analysis::new(&rules, &self.policy(), &self.config())?.overlaps(most))
    }

    /// Finds the pairs of rules by which this firewall and `after` give some packet different verdicts.
    ///
    /// Packets that one firewall alone classifies are compared with the verdict that the other gives unknown packets.
    ///
    /// If `regions` is above 0, each pair lists its packets as merged regions. It lists none if there are more than
    /// `regions` before merging.
    ///
    /// ```
    /// use firstmatch::{Fields, Firewall};
    ///
    /// let build = |rules| Firewall::builder().fields(Fields::All).build(rules);
    /// let before = build("permit tcp src 10.0.0.0/8\n")?;
    /// let after = build("deny tcp dport 22\npermit tcp src 10.0.0.0/8\n")?;
    /// assert_eq!(before.diff(&after, 0)?.pairs.len(), 1);
    /// assert!(before.diff(&before, 0)?.is_none()); // proved for every packet
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the rules are over different fields ([`Fields::All`](crate::Fields::All) gives all of them), or as
    /// [`Firewall::check`].
    pub fn diff(&self, after: &Self, regions: usize) -> Result<Differences, Error> {
        let mut config = self.config();
        config.regions = regions;
        let [one, other] = [self, after].map(Self::copied);
        if !analyze::comparable(&one, &other) {
            return Err(Error::rule("rules over different fields cannot be compared"));
        }
        Ok(analyze::diff((&one, &self.policy()), (&other, &after.policy()), &config)?)
    }

    /// Compares the engines in service with the rules, at up to `packets` packets for each address family.
    ///
    /// If the rules tell at most that many cells apart, there is a packet of each. Updates wait meanwhile.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit tcp\n")?;
    /// let proof = firewall.prove(10_000)?;
    /// assert!(proof.difference.is_none() && proof.is_all);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Firewall::check`].
    pub fn prove(&self, packets: u64) -> Result<Proof, Error> {
        let writer = self.inner.lock();
        let mut analysis = Analysis::new(writer.rules(), &self.policy(), &self.config())?;
        let mut reader = self.inner.view().handle.reader();
        let mut proof = Proof { packets: 0, is_all: true, difference: None };
        for (index, schema) in self.schemas().iter().enumerate() {
            let (mut keys, mut expected) = (KeyBuf::new(schema), Vec::new());
            let mut compare = |keys: &mut KeyBuf, expected: &mut Vec<Option<RuleId>>| {
                let mut found = vec![None; expected.len()];
                reader.read(|mut snapshot| snapshot.improve(index, &keys.keys(), &mut found));
                for (row, (&expected, found)) in expected.iter().zip(&found).enumerate() {
                    let found = found.map(|found| found.rule);
                    if found != expected && proof.difference.is_none() {
                        let values = schema.values(keys.keys().row(row));
                        let packet = FieldValues { family: schema.family(), values };
                        proof.difference = Some((packet, [expected, found]));
                    }
                }
                proof.packets += found.len() as u64;
                keys.clear();
                expected.clear();
            };
            let sampled = analysis.sample(index, packets, |key, rule| {
                keys.push()[..key.len()].copy_from_slice(key);
                expected.push(rule);
                if expected.len() == BATCH {
                    compare(&mut keys, &mut expected);
                }
            });
            compare(&mut keys, &mut expected);
            proof.is_all &= sampled.is_all;
        }
        Ok(proof)
    }

    fn copied(&self) -> RuleSet {
        self.inner.lock().rules().clone()
    }

    fn config(&self) -> Config {
        let mut config = Config::default();
        // A worker needs all fields of a packet, because a later rule may test any of them.
        config.keys = KeySpace::ParsedWhole;
        config.expansion = self.inner.options.expansion;
        config
    }
}
