//! Transactions.

use std::sync::MutexGuard;

use firstmatch_core::live::{Transaction, Writer};
use firstmatch_core::rule::{Priority, Rule as LiveRule, RuleId, RuleSet, RuleSpec};
use firstmatch_core::{Diagnostic, UpdateError};
use firstmatch_formats::parse_rule;

use crate::firewall::Inner;
use crate::{Error, Rule};

/// Changes that workers see all at once after [`Update::commit`]. Changes that are not committed are undone when it is
/// dropped.
///
/// ```
/// use firstmatch::{Addresses, Firewall, Rule};
///
/// let firewall = Firewall::from_text("permit tcp dport 443\n")?;
/// let mut update = firewall.update();
/// update.prepend("deny src 203.0.113.0/24")?;
/// update.append(Rule::deny().src(Addresses::prefix("198.51.100.0".parse().unwrap(), 24)?))?;
/// update.commit()?;
/// assert_eq!(firewall.len(), 3);
/// # Ok::<(), firstmatch::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "a change that is not committed is undone"]
pub struct Update<'f> {
    pub(crate) inner: &'f Inner,
    pub(crate) writer: MutexGuard<'f, Writer>,
    warnings: Vec<Diagnostic>,
}

/// A rule that can be put into live rules: text in the project's own format, or a [`Rule`].
pub trait IntoRule {
    /// Returns the rule over the fields of `rules`, with warnings about parts of it that look like mistakes.
    ///
    /// # Errors
    /// If the text has a fault, or a field is not in the schema of `rules`; the error names it.
    fn into_rule(
        self,
        rules: &RuleSet,
        priority: Priority,
        options: &firstmatch_formats::Options,
    ) -> Result<(RuleSpec, Vec<Diagnostic>), Error>;
}

impl IntoRule for &str {
    fn into_rule(
        self,
        rules: &RuleSet,
        priority: Priority,
        options: &firstmatch_formats::Options,
    ) -> Result<(RuleSpec, Vec<Diagnostic>), Error> {
        let parsed = parse_rule(rules, priority, self, options)?;
        Ok((parsed.spec, parsed.warnings))
    }
}

impl IntoRule for &String {
    fn into_rule(
        self,
        rules: &RuleSet,
        priority: Priority,
        options: &firstmatch_formats::Options,
    ) -> Result<(RuleSpec, Vec<Diagnostic>), Error> {
        self.as_str().into_rule(rules, priority, options)
    }
}

impl IntoRule for Rule {
    fn into_rule(
        self,
        rules: &RuleSet,
        priority: Priority,
        _: &firstmatch_formats::Options,
    ) -> Result<(RuleSpec, Vec<Diagnostic>), Error> {
        Ok((self.bind(rules, priority)?, Vec::new()))
    }
}

impl<'f> Update<'f> {
    pub(crate) fn new(inner: &'f Inner) -> Self {
        let mut writer = inner.lock();
        writer.begin().keep();
        Self { inner, writer, warnings: Vec::new() }
    }

    /// The rules as they will be, the first to match first.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// assert_eq!(update.rules().count(), 2);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn rules(&self) -> impl DoubleEndedIterator<Item = &LiveRule> {
        self.writer.rules().iter()
    }

    /// Returns warnings about the inserted rules: valid rules that look like mistakes.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// update.append("deny tcp")?; // behind a rule that holds every packet
    /// assert!(update.warnings().len() <= 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Inserts a rule directly before another one.
    ///
    /// There is always room: where no priority is left, rules nearby get other priorities in the same order. Their ids
    /// and counts stay.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// let last = update.rules().next_back().expect("two rules").id;
    /// for port in 8000..8100 {
    ///     update.insert_before(last, &format!("deny tcp dport {port}"))?; // in this order
    /// }
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If `next` is stale or the rule has a fault; the update is then as it was.
    pub fn insert_before(&mut self, next: RuleId, rule: impl IntoRule) -> Result<RuleId, Error> {
        let at = self.priority_of(next)?;
        self.insert_with(at, rule, |transaction, spec| transaction.insert_before(next, spec))
    }

    /// Inserts a rule directly behind another one.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// let first = update.rules().next().expect("two rules").id;
    /// update.insert_after(first, "deny tcp dport 25")?;
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Update::insert_before`].
    pub fn insert_after(&mut self, previous: RuleId, rule: impl IntoRule) -> Result<RuleId, Error> {
        let at = self.priority_of(previous)?;
        self.insert_with(at, rule, |transaction, spec| transaction.insert_after(previous, spec))
    }

    /// Inserts a rule before all others.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// update.prepend("permit src 10.0.0.0/8")?;
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the rule has a fault; the update is then as it was.
    pub fn prepend(&mut self, rule: impl IntoRule) -> Result<RuleId, Error> {
        self.insert_with(Priority(0), rule, Transaction::prepend)
    }

    /// Inserts a rule behind all others.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// update.append("deny")?;
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the rule has a fault; the update is then as it was.
    pub fn append(&mut self, rule: impl IntoRule) -> Result<RuleId, Error> {
        self.insert_with(Priority(0), rule, Transaction::append)
    }

    /// Inserts a rule at a priority that no live rule has; the smaller wins.
    ///
    /// ```
    /// use firstmatch::core::rule::Priority;
    ///
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// update.insert_at(Priority::of_line(9), "deny udp")?; // as if on line 9
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the rule has a fault or the priority is taken; the update is then as it was.
    pub fn insert_at(&mut self, priority: Priority, rule: impl IntoRule) -> Result<RuleId, Error> {
        self.insert_with(priority, rule, Transaction::insert)
    }

    /// Reads a rule at `priority` and inserts it with `insert`.
    fn insert_with<'t>(
        &'t mut self,
        priority: Priority,
        rule: impl IntoRule,
        insert: impl FnOnce(&mut Transaction<'t>, RuleSpec) -> Result<RuleId, UpdateError>,
    ) -> Result<RuleId, Error> {
        let (spec, warnings) = rule.into_rule(self.writer.rules(), priority, &self.inner.options)?;
        let mut transaction = self.writer.resume();
        let inserted = insert(&mut transaction, spec);
        transaction.keep();
        let inserted = inserted?;
        self.warnings.extend(warnings);
        Ok(inserted)
    }

    fn priority_of(&self, rule: RuleId) -> Result<Priority, Error> {
        let found = self.writer.rules().get(rule).map(|rule| rule.priority);
        found.ok_or_else(|| UpdateError::stale(rule).into())
    }

    /// Removes a rule.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// let first = update.rules().next().expect("two rules").id;
    /// update.remove(first)?;
    /// update.commit()?;
    /// assert_eq!(firewall.len(), 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the id is stale; the update is then as it was.
    pub fn remove(&mut self, rule: RuleId) -> Result<(), Error> {
        let mut transaction = self.writer.resume();
        let removed = transaction.remove(rule);
        transaction.keep();
        Ok(removed?)
    }

    /// Puts a rule in another one's place, under a new id.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// let first = update.rules().next().expect("two rules").id;
    /// update.replace(first, "deny tcp dport 22-23")?; // in the same place
    /// update.commit()?;
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the id is stale or the rule has a fault; the update is then as it was.
    pub fn replace(&mut self, old: RuleId, rule: impl IntoRule) -> Result<RuleId, Error> {
        let priority = self.priority_of(old)?;
        self.insert_with(priority, rule, |transaction, spec| transaction.replace(old, spec))
    }

    /// Makes all changes visible at once and returns their generation. Every batch that starts afterwards sees them. It
    /// may wait for batches in progress.
    ///
    /// Without changes there is no new generation: it returns the current one. More insertions than may wait for a
    /// rebuild are built into a new engine, still as one generation: this takes as long as a rebuild, and workers go on
    /// meanwhile. For example, 6,000 rules appended to 1,000 at once.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// update.append("deny")?;
    /// assert_eq!(update.commit()?, 1);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If there is no room before a rebuild ([`Error::needs_rebuild`]), the memory limit leaves none, or no new engine
    /// keeps the limits. Nothing is changed.
    pub fn commit(mut self) -> Result<u64, Error> {
        self.finish(true)
    }

    /// Commits without waiting for batches. It builds a new engine where [`Update::commit`] does.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let mut update = firewall.update();
    /// update.append("deny")?;
    /// while let Err(busy) = update.try_commit() {
    ///     assert!(busy.is_busy()); // a batch still reads what would be changed
    /// }
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Update::commit`], and if a batch in progress is in the way ([`Error::is_busy`]): the update is then as it
    /// was and may be tried again.
    pub fn try_commit(&mut self) -> Result<u64, Error> {
        self.finish(false)
    }

    fn finish(&mut self, wait: bool) -> Result<u64, Error> {
        let mut transaction = self.writer.resume();
        let done = if wait { transaction.commit_open() } else { transaction.try_commit() };
        transaction.keep();
        self.inner.wake_if_due(&self.writer);
        Ok(done?)
    }
}

impl Drop for Update<'_> {
    fn drop(&mut self) {
        drop(self.writer.resume());
    }
}
