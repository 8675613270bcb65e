//! Lowered rules: products of sets or regions in order of priority, each with its rule.

use std::borrow::Cow;
use std::ops::Range;

use super::expansion::ExpansionLimits;
use super::matched::Match;
use super::products::{RuleProducts, RuleRegions};
use super::region::{Region, Regions};
use crate::error::{BuildError, UpdateError};
use crate::schema::Schema;

/// Numbers of regions, of all rules and for each product, above which regions are far more than products.
///
/// Trees over a million regions take far more memory than products, whatever their rules are.
pub(crate) const FAR_MORE: usize = 1 << 20;
const FAR_MORE_EACH: usize = 16;

/// Rule set lowered for one schema: regions in order of priority, each with its rule.
///
/// If some rule has several regions, the rules are kept as products of sets instead, one set for each field. Then the
/// regions are made when they are first asked for. For example, `dport { 22, 80 } proto { tcp, udp }` is one product of
/// two sets, and four regions.
#[derive(Clone, Debug)]
pub struct Lowered {
    pub(super) schema: Schema,
    pub(super) rules: LoweredRules,
    pub(super) unmatchable: Vec<Match>,
}

/// Rules as they are kept.
#[derive(Clone, Debug)]
pub(super) enum LoweredRules {
    Regions(RuleRegions),
    Products(Box<RuleProducts>),
}

impl Lowered {
    /// Returns the schema whose key words the regions are over.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the regions, those of the first rule first.
    ///
    /// # Panics
    /// If a limit refuses the regions, which [`Self::expanded`] finds out. Rules from [`lower`](super::lower()) keep
    /// the limits, and rules from [`lower_products`](super::lower_products) may exceed them.
    pub fn regions(&self) -> &Regions {
        &self.all().regions
    }

    /// Returns the rule of each region.
    ///
    /// # Panics
    /// As for [`Self::regions`].
    pub fn rules(&self) -> &[Match] {
        &self.all().rules
    }

    fn all(&self) -> &RuleRegions {
        match &self.rules {
            LoweredRules::Regions(all) => all,
            LoweredRules::Products(products) => products.expanded().unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// Returns the regions as [`Self::regions`] does, unless the rules have too many.
    ///
    /// ```
    /// use firstmatch_core::rule::{ExpansionLimits, lower_products};
    ///
    /// let ports: Vec<String> = (0..1000).map(|port| (2 * port).to_string()).collect();
    /// let text = format!("permit sport {{ {0} }} dport {{ {0} }}\n", ports.join(", "));
    /// let rules = firstmatch_formats::parse(&format!("family ipv4\n{text}"), &Default::default())?.rules;
    /// let limits = ExpansionLimits { regions_per_rule: 1 << 16, ..ExpansionLimits::default() };
    /// let lowered = lower_products(&rules, &rules.schemas()[0], &limits)?;
    /// assert_eq!(lowered.region_count(), 1_000_000);
    /// assert_eq!(lowered.expanded().expect_err("too many").line(), Some(2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a rule or all rules exceed a limit that they were lowered with. Nothing is expanded then.
    pub fn expanded(&self) -> Result<&Regions, BuildError> {
        match &self.rules {
            LoweredRules::Regions(all) => Ok(&all.regions),
            LoweredRules::Products(products) => products.expanded().map(|all| &all.regions),
        }
    }

    /// Number of regions, whether they have been made or not; at most `usize::MAX`.
    pub fn region_count(&self) -> usize {
        match &self.rules {
            LoweredRules::Regions(all) => all.regions.len(),
            LoweredRules::Products(products) => products.regions(),
        }
    }

    /// Returns the rules as products, if they are kept so.
    pub(crate) fn products(&self) -> Option<&RuleProducts> {
        match &self.rules {
            LoweredRules::Regions(_) => None,
            LoweredRules::Products(products) => Some(products),
        }
    }

    /// Returns the rules as products; regions become products of one box for each field.
    pub(crate) fn as_products(&self) -> Cow<'_, RuleProducts> {
        match &self.rules {
            LoweredRules::Products(products) => Cow::Borrowed(products),
            LoweredRules::Regions(all) => Cow::Owned(all.products(&self.schema, &ExpansionLimits::default())),
        }
    }

    /// Returns the reason why the rules cannot be expanded, if there is one.
    pub(crate) fn refused(&self) -> Option<BuildError> {
        self.products().and_then(RuleProducts::refused)
    }

    /// Returns bounds on the number of products of one set for each *word*, and on the intervals of a word of them all.
    ///
    /// If the rules are kept as regions, both are the number of regions.
    pub(crate) fn word_products(&self) -> (usize, usize) {
        self.products().map_or([self.region_count(); 2].into(), RuleProducts::word_products)
    }

    /// Whether the regions are so many that only engines of products are of use, or a limit refuses them.
    pub(crate) fn has_far_more_regions(&self) -> bool {
        self.products().is_some_and(|products| {
            let regions = products.regions();
            products.refused().is_some() || regions > FAR_MORE && regions / FAR_MORE_EACH > products.len()
        })
    }

    /// Returns the indices of the words on which some region is ternary.
    pub(crate) fn ternary_words(&self) -> Vec<usize> {
        let Some(products) = self.products() else { return self.regions().ternary_words() };
        let mut words = Vec::new();
        for (field, sets) in products.sets().iter().enumerate() {
            let first = self.schema.words_of(field).start;
            words.extend(sets.boxes().ternary_words().into_iter().map(|word| first + word));
        }
        words
    }

    /// Builds a lowered set without rules.
    pub fn empty(schema: &Schema) -> Self {
        let all = RuleRegions { regions: Regions::new(schema.words().len()), rules: Vec::new() };
        Self { schema: schema.clone(), rules: LoweredRules::Regions(all), unmatchable: Vec::new() }
    }

    /// Builds a lowered set without rules that keeps them in the same form as this one, under the same limits.
    pub(crate) fn empty_like(&self) -> Self {
        let mut empty = Self::empty(&self.schema);
        if let LoweredRules::Products(products) = &self.rules {
            empty.rules = LoweredRules::Products(Box::new(products.empty_like()));
        }
        empty
    }

    /// Returns the same rules over the fields of another schema; `boxes` has those of each set, field by field.
    pub(crate) fn over(&self, schema: &Schema, boxes: &[Vec<Regions>]) -> Self {
        let products = Box::new(self.as_products().over(schema, boxes));
        Self { schema: schema.clone(), rules: LoweredRules::Products(products), unmatchable: self.unmatchable.clone() }
    }

    /// Turns regions into products, unless the rules are products already.
    pub(crate) fn become_products(&mut self, limits: &ExpansionLimits) -> &mut RuleProducts {
        if let LoweredRules::Regions(all) = &self.rules {
            self.rules = LoweredRules::Products(Box::new(all.products(&self.schema, limits)));
        }
        match &mut self.rules {
            LoweredRules::Products(products) => products,
            LoweredRules::Regions(_) => unreachable!("they have just become products"),
        }
    }

    /// Drops the list of unmatchable rules, which have no region here.
    pub(crate) fn forget_unmatchable(&mut self) {
        self.unmatchable = Vec::new();
    }

    /// Returns the rule of each region or product, in the order in which they are kept.
    fn kept(&self) -> &[Match] {
        match &self.rules {
            LoweredRules::Regions(all) => &all.rules,
            LoweredRules::Products(products) => products.rules(),
        }
    }

    /// Adds a region of a rule that comes behind all rules here, or of the last one.
    pub(crate) fn push(&mut self, rule: Match, region: Region<'_>) {
        debug_assert!(self.kept().last().is_none_or(|last| last.priority < rule.priority || *last == rule));
        match &mut self.rules {
            LoweredRules::Regions(all) => {
                all.regions.push(region);
                all.rules.push(rule);
            }
            LoweredRules::Products(products) => products.push_region(rule, region),
        }
    }

    /// Adds a rule of `other`, which comes behind all rules here, with the regions or products `range` kept there.
    ///
    /// Both sets must keep their rules in the same form.
    pub(crate) fn push_of(&mut self, other: &Self, rule: Match, range: Range<usize>) {
        match (&mut self.rules, &other.rules) {
            (LoweredRules::Products(own), LoweredRules::Products(products)) => own.push_of(products, range),
            _ => range.for_each(|index| self.push(rule, other.regions().get(index))),
        }
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
        if self.kept().last().is_some_and(|last| last.priority >= rule.priority) {
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
        let rules = match &self.rules {
            LoweredRules::Regions(all) => all.bytes(),
            LoweredRules::Products(products) => products.bytes(),
        };
        rules + self.unmatchable.capacity() * size_of::<Match>()
    }

    /// Returns the rules without a region here: rules of the other family, and rules that can never match.
    pub fn unmatchable(&self) -> &[Match] {
        &self.unmatchable
    }

    /// Returns each rule that has a region here, in order of priority, with its range of regions.
    ///
    /// Regions that were not asked for are counted, not made.
    pub fn by_rule(&self) -> impl Iterator<Item = (Match, Range<usize>)> {
        let mut start = 0usize;
        self.kept_by_rule().map(move |(rule, kept)| {
            let count = match self.products() {
                None => kept.len(),
                Some(products) => kept.fold(0, |count: usize, product| count.saturating_add(products.count(product))),
            };
            let range = start..start.saturating_add(count);
            start = range.end;
            (rule, range)
        })
    }

    /// Returns each rule that has a region here, in order of priority, with its range of kept regions or products.
    pub(crate) fn kept_by_rule(&self) -> impl Iterator<Item = (Match, Range<usize>)> {
        let mut start = 0;
        self.kept().chunk_by(|a, b| a == b).map(move |chunk| {
            let range = start..start + chunk.len();
            start = range.end;
            (chunk[0], range)
        })
    }

    /// Returns the number of regions of a rule whose first region has index `start`; 0 if it is not here.
    pub(crate) fn count_of(&self, rule: Match, start: usize) -> usize {
        match &self.rules {
            LoweredRules::Regions(all) => {
                all.rules.get(start..).unwrap_or_default().iter().take_while(|&&of| of == rule).count()
            }
            LoweredRules::Products(products) => {
                products.of_rule(rule).fold(0, |count: usize, product| count.saturating_add(products.count(product)))
            }
        }
    }

    /// Whether the regions `range`, which are all of `rule`, equal `regions`.
    pub(crate) fn has(&self, rule: Match, range: Range<usize>, regions: &Regions) -> bool {
        match &self.rules {
            LoweredRules::Regions(all) => range.zip(regions.iter()).all(|(at, region)| all.regions.get(at) == region),
            LoweredRules::Products(products) => products.regions_of(products.of_rule(rule)) == *regions,
        }
    }
}
