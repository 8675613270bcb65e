//! Lowered rules: regions in order of priority, each with its rule.

use super::matched::Match;
use super::region::{Region, Regions};
use crate::error::UpdateError;
use crate::schema::Schema;

/// Rule set lowered for one schema: regions in order of priority, each with its rule.
#[derive(Clone, Debug)]
pub struct Lowered {
    pub(super) schema: Schema,
    pub(super) regions: Regions,
    pub(super) rules: Vec<Match>,
    pub(super) unmatchable: Vec<Match>,
}

impl Lowered {
    /// Returns the schema whose key words the regions are over.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the regions, those of the first rule first.
    pub fn regions(&self) -> &Regions {
        &self.regions
    }

    /// Returns the rule of each region.
    pub fn rules(&self) -> &[Match] {
        &self.rules
    }

    /// Builds a lowered set without rules.
    pub fn empty(schema: &Schema) -> Self {
        Self {
            schema: schema.clone(),
            regions: Regions::new(schema.words().len()),
            rules: Vec::new(),
            unmatchable: Vec::new(),
        }
    }

    /// Drops the list of unmatchable rules, which have no region here.
    pub(crate) fn forget_unmatchable(&mut self) {
        self.unmatchable = Vec::new();
    }

    /// Adds a region of a rule that comes behind all rules here, or of the last one.
    pub(crate) fn push(&mut self, rule: Match, region: Region<'_>) {
        debug_assert!(self.rules.last().is_none_or(|last| last.priority < rule.priority || *last == rule));
        self.regions.push(region);
        self.rules.push(rule);
    }

    /// Adds a rule that comes behind all rules here, with the regions that it was lowered to elsewhere.
    ///
    /// It is for programs that keep their rules in another form than a [`RuleSet`](super::RuleSet), because
    /// [`lower`](super::lower()) would need a copy of them. The regions of one rule may overlap. A rule without regions
    /// is listed as [unmatchable](Self::unmatchable).
    ///
    /// ```
    /// use firstmatch_core::rule::{Lowered, Priority, Region, Regions};
    /// use firstmatch_core::schema::{Field, Kind};
    /// use firstmatch_core::{Match, RuleId, Schema};
    ///
    /// let schema = Schema::new(None, vec![Field::new("port", 16, Kind::Range, None)]);
    /// let mut lowered = Lowered::empty(&schema);
    /// let mut regions = Regions::new(1);
    /// regions.push(Region { lo: &[80], hi: &[88], ternary: None });
    /// let rule = Match { rule: RuleId::new(0, 0), priority: Priority(7) };
    /// lowered.push_rule(rule, &regions)?;
    /// assert_eq!((lowered.rules(), lowered.regions().get(0).hi), (&[rule][..], &[88][..]));
    /// // Priorities ascend.
    /// assert!(lowered.push_rule(Match { rule: RuleId::new(1, 0), ..rule }, &regions).is_err());
    /// # Ok::<(), firstmatch_core::UpdateError>(())
    /// ```
    ///
    /// # Errors
    /// If its priority does not come behind that of the last rule with regions, the number of words differs, or a
    /// region holds values beyond those of a word. Nothing is added then.
    pub fn push_rule(&mut self, rule: Match, regions: &Regions) -> Result<(), UpdateError> {
        let words = self.schema.words();
        if self.rules.last().is_some_and(|last| last.priority >= rule.priority) {
            return Err(UpdateError::bad_region("its rule does not come behind the last one".to_owned()));
        }
        if regions.key_words() != words.len() {
            let what = format!("it has {} words instead of {}", regions.key_words(), words.len());
            return Err(UpdateError::bad_region(what));
        }
        let beyond = |region: Region<'_>| words.iter().zip(region.hi).position(|(word, &hi)| hi > word.max);
        if let Some(word) = regions.iter().find_map(beyond) {
            return Err(UpdateError::bad_region(format!("word {word} goes beyond its largest value")));
        }
        if regions.is_empty() {
            self.unmatchable.push(rule);
        }
        regions.iter().for_each(|region| self.push(rule, region));
        Ok(())
    }

    /// Number of bytes on the heap.
    pub(crate) fn bytes(&self) -> usize {
        self.regions.bytes() + (self.rules.capacity() + self.unmatchable.capacity()) * size_of::<Match>()
    }

    /// Returns the rules without a region here: rules of the other family, and rules that can never match.
    pub fn unmatchable(&self) -> &[Match] {
        &self.unmatchable
    }

    /// Returns each rule that has a region here, in order of priority, with its range of regions.
    pub fn by_rule(&self) -> impl Iterator<Item = (Match, std::ops::Range<usize>)> {
        let mut start = 0;
        self.rules.chunk_by(|a, b| a == b).map(move |chunk| {
            let range = start..start + chunk.len();
            start = range.end;
            (chunk[0], range)
        })
    }
}
