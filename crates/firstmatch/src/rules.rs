//! The live rules, listed.

use std::num::NonZeroU32;

use firstmatch_core::rule::{Action, RuleId};
use firstmatch_formats::write;

use crate::Firewall;

/// Live rule, as [`Firewall::rules`] lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListedRule {
    /// Id, which decisions have and counts go by.
    pub id: RuleId,
    /// Line of the rule file that it comes from, from 1; `None` if an update inserted it.
    pub line: Option<NonZeroU32>,
    /// Action of the rule.
    pub action: Action,
    /// Label that the rule file gave it.
    pub label: Option<String>,
    /// Text in the project's own format; `None` if that cannot express it.
    pub text: Option<String>,
}

impl Firewall {
    /// Lists the live rules, the first to match first.
    ///
    /// Nothing is begun or undone. It waits for an update in progress, and delays the next one while the rules are copied,
    /// not while their texts are written.
    ///
    /// ```
    /// let firewall = firstmatch::Firewall::from_text("deny tcp dport 23 label \"no telnet\"\npermit\n")?;
    /// let rules = firewall.rules();
    /// assert_eq!(rules[0].label.as_deref(), Some("no telnet"));
    /// assert_eq!(rules[1].text.as_deref(), Some("permit"));
    /// assert_eq!(rules[1].line.map(u32::from), Some(2));
    /// # Ok::<(), firstmatch::Error>(())
    /// ```
    pub fn rules(&self) -> Vec<ListedRule> {
        let (rules, view) = {
            let writer = self.inner.lock();
            (writer.rules().clone(), self.inner.view())
        };
        let list = rules.iter().map(|rule| ListedRule {
            id: rule.id,
            line: rule.line,
            action: rule.action,
            label: view.labels.get(&rule.id).map(ToString::to_string),
            text: write::native_rule(&rules, rule).ok(),
        });
        list.collect()
    }
}
