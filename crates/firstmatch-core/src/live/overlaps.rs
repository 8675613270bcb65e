//! Search for regions of live rules, for caches that prove their entries.
//!
//! Each replica has a list of the regions of its rules, which changes with it. A search reads the list of the replica
//! that readers use, through a reader slot of its own. So it finds the regions of one generation, and never waits.

use std::any::Any;
use std::sync::Arc;

use super::left_right::ReaderSlot;
use super::reader::Engine;
use super::snapshot::State;
use crate::engine::{Match, Overlaps, Probe};
use crate::engines::shared::RegionList;
use crate::rule::Region;

impl Engine {
    /// Returns a search for the regions of the rules; `None` unless [`Config::overlaps`](super::Config::overlaps) is
    /// set.
    ///
    /// A cursor belongs to one [version](crate::Engine::version) of the engine. If the version has changed, the caller
    /// has to begin again, as a [`RuleCache`](crate::cache::rule::RuleCache) does.
    ///
    /// ```
    /// use firstmatch_core::cache::rule::{Config, RuleCache};
    /// use firstmatch_core::{KeyBuf, live};
    ///
    /// let text = "family ipv4\ndeny dport 23\npermit src 10.0.0.0/8\n";
    /// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let (engines, mut writer) = live::open(rules, &live::Config { overlaps: true, ..Default::default() })?;
    /// let overlaps = engines[0].overlaps().expect("it was asked for");
    /// let cache = RuleCache::new(engines[0].clone(), overlaps, &Config::default())?;
    ///
    /// // The first packet after a commit is answered by it.
    /// use firstmatch_core::Classifier;
    /// let mut key = KeyBuf::new(cache.schema());
    /// key.push()[0] = 0x0A00_0001;
    /// let mut scratch = cache.scratch();
    /// let second = cache.classify(&mut scratch, key.keys()).expect("the second rule").rule;
    /// let mut transaction = writer.begin();
    /// transaction.remove(second)?;
    /// transaction.commit()?;
    /// assert_eq!(cache.classify(&mut scratch, key.keys()), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overlaps(&self) -> Option<Arc<dyn Overlaps>> {
        let has_lists = self.shared.facts(self.part).part.list > 0;
        has_lists.then(|| -> Arc<dyn Overlaps> { Arc::new(Search(self.clone())) })
    }
}

/// Search for the regions of an engine whose replicas have lists.
struct Search(Engine);

impl Search {
    /// Calls `search` with the list of the replica that readers use.
    fn search<R>(&self, probe: &mut Probe, search: impl FnOnce(&RegionList, &mut Probe) -> R) -> R {
        self.prepare(probe);
        let (Engine { shared, part, .. }, slot) = (&self.0, probe.slot.take());
        let Some(own) = slot.as_deref().and_then(own) else { unreachable!("the probe was prepared") };
        let found = shared.replicas.read(own, |state| match &state.parts[*part].list {
            Some(list) => search(list, probe),
            None => unreachable!("all replicas have lists, or none has"),
        });
        probe.slot = slot;
        found
    }
}

fn own(slot: &(dyn Any + Send + Sync)) -> Option<&ReaderSlot<State>> {
    slot.downcast_ref()
}

impl Overlaps for Search {
    /// Gives `probe` a reader slot of this engine, unless it has one.
    fn prepare(&self, probe: &mut Probe) {
        let replicas = &self.0.shared.replicas;
        if !probe.slot.as_deref().and_then(own).is_some_and(|slot| replicas.has(slot)) {
            probe.slot = Some(replicas.reader_slot());
        }
    }

    fn visit(
        &self,
        probe: &mut Probe,
        cursor: u64,
        most: usize,
        visit: &mut dyn FnMut(&mut Probe, Match, Region<'_>),
    ) -> Option<u64> {
        self.search(probe, |list, probe| list.visit(probe, cursor, most, visit))
    }

    fn home(&self, rule: Match, key: &[u32], probe: &mut Probe) -> bool {
        self.search(probe, |list, probe| list.home(rule, key, probe))
    }
}
