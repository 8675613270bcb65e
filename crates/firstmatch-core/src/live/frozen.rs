//! Base of rules that do not change, without what changes need.

use std::sync::Arc;

use super::reader::Engine;
use crate::engine::{self, Match, NamedCounts, Stats};
use crate::engines::registry::{AnyBase, Scratch};
use crate::key::Keys;
use crate::schema::Schema;

/// Engine that `meta` has chosen for rules that do not change.
///
/// A lookup goes to the base directly: there is no generation to hold and no overlay to ask, which takes as long as a
/// packet where packets come one by one.
#[derive(Clone, Debug)]
pub struct Frozen {
    base: Arc<AnyBase>,
    schema: Schema,
}

impl Engine {
    /// Returns the base alone, which keeps the rules of now whatever changes later.
    ///
    /// The result is `None` if rules have changed since the last rebuild, a front answers instead of the base, or a rule
    /// tests live sets.
    ///
    /// ```
    /// use firstmatch_core::rule::{ExpansionLimits, lower};
    /// use firstmatch_core::{Classifier, KeyBuf, live};
    ///
    /// let text = "family ipv4\ndeny tcp dport 23\npermit tcp\n";
    /// let rules = firstmatch_formats::parse(text, &firstmatch_formats::Options::default())?.rules;
    /// let lowered = lower(&rules, &rules.schemas()[0], &ExpansionLimits::default())?;
    /// let engine = live::Engine::build(&lowered, &live::Config::default())?.frozen().expect("nothing has changed");
    /// let mut keys = KeyBuf::new(lowered.schema());
    /// keys.push().copy_from_slice(&[1, 2, 1024, 80, 6, 0, 0, 0]);
    /// let found = engine.classify(&mut engine.scratch(), keys.keys()).expect("the second rule");
    /// assert_eq!(rules.get(found.rule).and_then(|rule| rule.line).map(u32::from), Some(3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn frozen(&self) -> Option<Frozen> {
        let now = self.shared.replicas.now().1;
        let part = &now.parts[self.part];
        let is_whole = part.front.is_none() && part.is_unchanged() && now.sets.rules(self.part) == 0;
        is_whole.then(|| Frozen { base: Arc::clone(&part.base), schema: self.schema.clone() })
    }
}

/// Scratch of one thread, with the number of words of the keys that it is for.
#[derive(Debug)]
pub struct OfBase {
    key_words: usize,
    scratch: Scratch,
}

impl engine::Engine for Frozen {
    type Scratch = OfBase;

    fn schema(&self) -> &Schema {
        &self.schema
    }

    fn new_scratch(&self) -> OfBase {
        OfBase { key_words: self.schema.words().len(), scratch: Scratch::new(&self.schema) }
    }

    fn fits(&self, scratch: &OfBase) -> bool {
        scratch.key_words == self.schema.words().len()
    }

    fn stats(&self) -> Stats {
        self.base.stats()
    }

    #[inline(always)]
    fn improve(&self, scratch: &mut OfBase, keys: &Keys<'_>, best: &mut [Option<Match>]) {
        self.base.improve(&mut scratch.scratch, keys, best);
    }

    fn count(&self, scratch: &mut OfBase, keys: &Keys<'_>, best: &mut [Option<Match>]) -> NamedCounts {
        self.base.count(&mut scratch.scratch, keys, best)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Classifier;
    use crate::key::KeyBuf;
    use crate::live::{Config, open};
    use crate::rule::{ExpansionLimits, Priority, RuleSpec, lower};
    use crate::test_rules::of_text;

    /// A frozen engine answers as the live one did, also after rules have changed; it is none once they have.
    #[test]
    fn later_changes_do_not_reach_it() {
        let set = of_text("family ipv4\ndeny proto 6 dport 23\npermit proto 6\n");
        let spec: RuleSpec = set.iter().next_back().expect("a rule").spec.clone();
        let lowered = lower(&set, &set.schemas()[0], &ExpansionLimits::default()).expect("few");
        let mut keys = KeyBuf::new(lowered.schema());
        [23, 80].into_iter().for_each(|port| keys.push()[..5].copy_from_slice(&[1, 2, 1024, port, 6]));
        let ids: Vec<_> = set.iter().map(|rule| rule.id).collect();
        let (engines, mut writer) = open(set, &Config::default()).expect("no budget");
        let frozen = engines[0].frozen().expect("nothing has changed");
        let mut transaction = writer.begin();
        transaction.remove(ids[0]).expect("it is live");
        transaction.insert(RuleSpec { priority: Priority::of_line(9), ..spec }).expect("it fits");
        transaction.commit().expect("there is room");
        assert!(engines[0].frozen().is_none());
        let mut found = [None; 2];
        frozen.classify_batch(&mut frozen.scratch(), keys.keys(), &mut found);
        assert_eq!(found.map(|found| found.map(|found| found.rule)), [Some(ids[0]), Some(ids[1])]);
        engines[0].classify_batch(&mut engines[0].scratch(), keys.keys(), &mut found);
        assert_eq!(found.map(|found| found.map(|found| found.rule)), [Some(ids[1]); 2]);
        // A scratch for other keys is renewed.
        assert!(!engine::Engine::fits(&frozen, &OfBase { key_words: 11, scratch: Scratch::new(&Schema::ipv6()) }));
    }
}
