//! Rule files that are read again.

use std::hash::{BuildHasher, Hash, Hasher, RandomState};

use firstmatch_core::analyze::align;
use firstmatch_core::live::{self, Writer};
use firstmatch_core::rule::{NamedCondition, Rule, RuleId, RuleSet, RuleSpec};
use firstmatch_core::{Diagnostic, UpdateError};
use firstmatch_formats::{self as formats, Labels, RuleFile};

use crate::firewall::View;
use crate::{Error, Firewall};

/// Result of [`Firewall::reload`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reloaded {
    /// Generation of the rules: a new one, or the old one if no packet can tell the difference.
    pub generation: u64,
    /// Number of rules that are as they were: they keep id and counts.
    pub kept: usize,
    /// Number of rules that are new, or have moved past others.
    pub inserted: usize,
    /// Number of rules that are gone.
    pub removed: usize,
    /// Whether fields or policy differ, so that all engines were built anew.
    pub is_rebuilt: bool,
    /// Warnings about the new rules: valid rules that look like mistakes.
    pub warnings: Vec<Diagnostic>,
}

/// Rules of a file beside the live ones: which are common to both, in the same order.
struct Alignment {
    /// Id of the live rule that each rule of the file is, in order.
    ids: Vec<Option<RuleId>>,
    /// Live rules that the file lacks.
    removed: Vec<RuleId>,
}

impl Firewall {
    /// Takes the rules of a text in place of the live ones: all of them, as one generation, or none.
    ///
    /// Rules that are in both, in the same order, keep id and counts and take line and label of the text. What differs is
    /// inserted and removed, whatever its share. The text may test other fields and state another policy; then all engines
    /// are built anew, beside the workers. Workers follow at their next batch. If nothing differs, nothing is done.
    ///
    /// Rules are compared with the live ones, so changes by [updates](Firewall::update) that the text lacks are undone.
    /// Live sets get the members that the text gives them; only those that differ are changed. A live set that the text
    /// lacks has none any more.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23\npermit\n")?;
    /// let last = firewall.update().rules().next_back().expect("two rules").id;
    /// let done = firewall.reload("# no SSH either\ndeny tcp dport { 22, 23 }\npermit\n")?;
    /// assert_eq!((done.generation, done.kept, done.inserted, done.removed), (1, 1, 1, 1));
    /// let mut update = firewall.update();
    /// let rule = update.rules().next_back().expect("two rules");
    /// assert_eq!((rule.id, rule.line.map(u32::from)), (last, Some(3)));
    /// # drop(update);
    /// assert!(firewall.reload("permit tpc\n").is_err()); // nothing has changed
    /// assert_eq!(firewall.len(), 2);
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    ///
    /// # Errors
    /// If the text has a fault, or no engine keeps the limits. The rules are then as they were.
    pub fn reload(&self, rules: &str) -> Result<Reloaded, Error> {
        self.reload_file(formats::parse(rules, &self.inner.options)?)
    }

    /// Takes the rules of a file that was read already, as [`Firewall::reload`] does; for example, one that includes
    /// other files.
    ///
    /// # Errors
    /// As [`Firewall::reload`].
    pub fn reload_file(&self, mut file: RuleFile) -> Result<Reloaded, Error> {
        let inner = &self.inner;
        let mut writer = inner.lock();
        // A transaction that was forgotten is undone.
        drop(writer.begin());
        let view = inner.view();
        file.rules.number_live_sets_as(writer.rules());
        let alignment = Alignment::new(writer.rules(), &file.rules);
        let is_other = writer.rules().schemas() != file.rules.schemas() || view.policy != file.policy;
        let warnings = file.warnings.clone();
        let kept = alignment.ids.iter().flatten().count();
        let (inserted, removed) = (alignment.ids.len() - kept, alignment.removed.len());
        // The old engines are freed without the lock.
        let (generation, _old) = if is_other {
            let (new, view) = self.reopen(&writer, &alignment, file)?;
            let old = std::mem::replace(&mut *writer, new);
            let generation = view.handle.generation();
            inner.show(view, true);
            (generation, Some(old))
        } else {
            let ids = change(&mut writer, &alignment, &file.rules)?;
            let labels = labels(&ids, &file);
            if labels != view.labels || *file.warnings != *view.warnings {
                inner.show(View { labels, warnings: file.warnings.into(), ..View::clone(&view) }, false);
            }
            (view.handle.generation(), None)
        };
        inner.wake_if_due(&writer);
        drop(writer);
        Ok(Reloaded { generation, kept, inserted, removed, is_rebuilt: is_other, warnings })
    }

    /// Builds engines for the rules of a file, whose fields or policy differ from those of the live rules.
    fn reopen(&self, old: &Writer, alignment: &Alignment, mut file: RuleFile) -> Result<(Writer, View), Error> {
        // New rules come behind all slots that any rule had, so that no id comes back.
        let first = old.rules().slots();
        let mut new = (first..).map(|slot| RuleId::new(slot as u32, 0));
        let ids: Vec<RuleId> = alignment.ids.iter().filter_map(|id| id.or_else(|| new.next())).collect();
        let mut order: Vec<(RuleId, &Rule)> = ids.iter().copied().zip(file.rules.iter()).collect();
        order.sort_unstable_by_key(|(id, _)| id.slot());
        let mut rules = match file.rules.schemas() {
            [ipv4, ipv6] => RuleSet::dual(ipv4.clone(), ipv6.clone()),
            schemas => RuleSet::new(schemas[0].clone()),
        };
        *rules.live_sets_mut() = file.rules.live_sets().clone();
        for (id, rule) in order {
            rules.insert_as(id, rule.spec.clone())?;
        }
        rules.pass_slots(first);
        file.labels = labels(&ids, &file);
        if !self.inner.values {
            // A field that packets cannot fill is found before engines are built.
            firstmatch_net::wire::Batch::for_policy(&file.policy, rules.schemas())?;
        }
        let (_, writer) = live::reopen(rules, &self.inner.config, old)?;
        let view = View::new(&writer, file, self.inner.values)?;
        Ok((writer, view))
    }
}

/// Changes the live rules into those of a file over the same fields, and returns their ids in order.
fn change(writer: &mut Writer, alignment: &Alignment, file: &RuleSet) -> Result<Vec<RuleId>, UpdateError> {
    let mut transaction = writer.begin();
    for (id, set) in file.live_sets().iter() {
        if transaction.rules().live_sets().get(id).is_none() {
            transaction.add_set(set.name())?;
        }
        transaction.replace_members(id, set.members())?;
    }
    alignment.removed.iter().try_for_each(|&id| transaction.remove(id))?;
    let mut ids: Vec<RuleId> = Vec::with_capacity(alignment.ids.len());
    for (known, rule) in alignment.ids.iter().zip(file.iter()) {
        let id = match (*known, ids.last()) {
            (Some(id), _) => {
                if transaction.rules().get(id).is_some_and(|live| live.line != rule.line) {
                    transaction.set_line(id, rule.line)?;
                }
                id
            }
            (None, Some(&previous)) => transaction.insert_after(previous, rule.spec.clone())?,
            (None, None) => transaction.prepend(rule.spec.clone())?,
        };
        ids.push(id);
    }
    transaction.commit()?;
    Ok(ids)
}

/// Returns the labels of a file by the ids that its rules have in service.
fn labels(ids: &[RuleId], file: &RuleFile) -> Labels {
    let labelled = |(rule, &id): (&Rule, &RuleId)| Some((id, file.labels.get(&rule.id)?.clone()));
    file.rules.iter().zip(ids).filter_map(labelled).collect()
}

impl Alignment {
    fn new(live: &RuleSet, file: &RuleSet) -> Self {
        // Conditions over the same fields are compared as they are packed, others by the names of their fields.
        let has_same_fields = live.schemas() == file.schemas();
        let state = RandomState::new();
        let keys = |rules: &RuleSet| -> Vec<u64> {
            let key = |rule: &Rule| {
                let mut hasher = state.build_hasher();
                (rule.action, rule.family, rule.value).hash(&mut hasher);
                match has_same_fields {
                    true => rule.conditions.hash(&mut hasher),
                    false => named(rules, rule).hash(&mut hasher),
                }
                hasher.finish()
            };
            rules.iter().map(key).collect()
        };
        let is_equal = |one: &RuleSpec, other: &RuleSpec| {
            (one.action, one.family, one.value) == (other.action, other.family, other.value)
                && if has_same_fields {
                    one.conditions == other.conditions
                } else {
                    named(live, one) == named(file, other)
                }
        };
        let [before, after] = align(&keys(live), &keys(file));
        let mut common = live.iter().zip(before).filter(|(_, is_common)| *is_common).map(|(rule, _)| rule);
        let mut kept = Vec::new();
        let ids = file.iter().zip(after).map(|(rule, is_common)| {
            // Keys of different rules may be equal.
            let same = common.by_ref().take(usize::from(is_common)).find(|live| is_equal(live, rule))?;
            kept.push(same.id);
            Some(same.id)
        });
        let ids = ids.collect();
        let mut kept = kept.into_iter().peekable();
        let is_gone = |rule: &&Rule| kept.next_if_eq(&rule.id).is_none();
        Self { ids, removed: live.iter().filter(is_gone).map(|rule| rule.id).collect() }
    }
}

/// Returns the conditions of a rule by the names of their fields.
fn named(rules: &RuleSet, rule: &RuleSpec) -> Vec<NamedCondition> {
    let mut named = rules.unbind(&rule.conditions).expect("the rule is one of the set");
    named.sort_unstable_by(|one, other| one.field.cmp(&other.field));
    named
}
