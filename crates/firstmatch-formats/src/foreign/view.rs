//! Views: the hook, the interfaces and the faults of the rules that its packets can reach.

use std::collections::BTreeMap;

use firstmatch_core::rule::Action;

use super::chains::{Chain, ChainIndex, ChainRule, Effect, InterfaceTest};
use super::options::{Hook, Import};
use crate::report::{Message, Report, Span};

/// Chains of a file, with those that hooks begin with.
pub(super) struct Hooks {
    pub(super) chains: Vec<Chain>,
    pub(super) bases: [Base; 3],
}

/// Chain that a hook begins with.
#[derive(Clone, Copy)]
pub(super) struct Base {
    pub(super) hook: Hook,
    pub(super) chain: ChainIndex,
    pub(super) policy: Action,
    /// Name in the file.
    pub(super) name: &'static str,
}

/// Chains of one hook, without rules for other interfaces.
pub(super) struct View {
    pub(super) chains: Vec<Chain>,
    pub(super) base: Base,
    /// Sentences about rules that are left out.
    pub(super) notes: Vec<String>,
    /// Whether the list is the same for all packets, so that there are no other views.
    pub(super) is_whole: bool,
}

impl Hooks {
    /// Returns the view that the options ask for; `None` after a fault.
    pub(super) fn view(&self, import: &Import, report: &mut Report<'_>) -> Option<View> {
        let base = self.base(import, report)?;
        let reached = self.reached(base, import);
        self.check_interfaces(base.hook, &reached, import, report)?;
        let (mut chains, mut all, mut of_others, mut of_states) = (self.chains.clone(), 0, 0, 0);
        let before = report.count();
        for (chain, is_reached) in chains.iter_mut().zip(&reached) {
            if !is_reached {
                chain.rules.clear();
                continue;
            }
            all += chain.rules.len();
            let rules = chain.rules.len();
            chain.rules.retain(|rule| may_hold(rule, base.hook, import));
            of_others += rules - chain.rules.len();
            of_states += chain.rules.iter().filter(|rule| rule.is_of_other_state).count();
            let faulty = chain.rules.iter().filter(|rule| rule.effect != Effect::Nothing && !rule.is_of_other_state);
            for (span, message) in faulty.flat_map(|rule| rule.unheld.iter().cloned()) {
                report.fault(span, || message);
            }
        }
        let hook = base.hook.name();
        let mut notes = Vec::new();
        if import.hook.is_none() {
            notes.push(format!("this is read for the hook {hook}, the only one with rules"));
        }
        let parts = [(of_others, "other interfaces"), (of_states, "packets of other states")];
        let parts: Vec<String> =
            parts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} for {what}")).collect();
        if !parts.is_empty() {
            notes.push(format!("of {all} rules for the hook {hook}, {}", parts.join(", ")));
        }
        (report.count() == before).then_some(View { chains, base, notes, is_whole: false })
    }

    /// Returns the chain to begin with.
    fn base(&self, import: &Import, report: &mut Report<'_>) -> Option<Base> {
        let count = |base: &Base| self.chains[base.chain].rules.len();
        let with_rules: Vec<&Base> = self.bases.iter().filter(|base| count(base) > 0).collect();
        let list: Vec<String> =
            with_rules.iter().map(|base| format!("`--hook {}` ({} rules)", base.hook.name(), count(base))).collect();
        let found = match import.hook {
            Some(hook) => self.bases.iter().find(|base| base.hook == hook),
            None if with_rules.len() == 1 => Some(with_rules[0]),
            None => None,
        };
        let message = match found {
            // A policy that denies is a rule set of its own.
            Some(base) if count(base) > 0 || base.policy == Action::Deny => return Some(*base),
            Some(base) => format!("no rules for the hook {}: the chain {} is empty", base.hook.name(), base.name),
            None if with_rules.is_empty() => "no rules for any hook".to_owned(),
            None => "rules for several hooks, and each is a list of its own".to_owned(),
        };
        let rules = self.chains.iter().find_map(|chain| chain.rules.first());
        let span = rules.map_or(Span { line: 1, ..Span::default() }, |rule| rule.span);
        let expected = if list.is_empty() { "a file with rules".to_owned() } else { list.join(" or ") };
        report.fault(span, || Message::new(message).expected(expected));
        None
    }

    /// Returns for each chain whether packets of the hook can reach it.
    fn reached(&self, base: Base, import: &Import) -> Vec<bool> {
        let mut reached = vec![false; self.chains.len()];
        let mut open = vec![base.chain];
        while let Some(chain) = open.pop() {
            if std::mem::replace(&mut reached[chain], true) {
                continue;
            }
            let rules = self.chains[chain].rules.iter().filter(|rule| may_hold(rule, base.hook, import));
            open.extend(rules.filter(|rule| !rule.products.is_empty()).filter_map(|rule| rule.effect.target()));
        }
        reached
    }

    /// Checks that the view decides each condition on an interface; `None` after a fault.
    fn check_interfaces(&self, hook: Hook, reached: &[bool], import: &Import, report: &mut Report<'_>) -> Option<()> {
        let before = report.count();
        for is_output in [false, true] {
            let rules =
                self.chains.iter().zip(reached).filter(|(_, reached)| **reached).flat_map(|(chain, _)| &chain.rules);
            let rules = rules.filter(|rule| rule.effect != Effect::Nothing && hold(rule, hook, import, |_| true));
            let tests = rules.flat_map(|rule| &rule.interfaces);
            let open: Vec<&InterfaceTest> = tests
                .filter(|test| {
                    test.is_output == is_output && name_of(test, hook, import) == Name::Unknown && !test.is_any()
                })
                .collect();
            let Some(first) = open.first() else { continue };
            let mut names: BTreeMap<String, usize> = BTreeMap::new();
            open.iter().for_each(|test| *names.entry(test.pattern()).or_default() += 1);
            if names.keys().eq(["lo"]) {
                report.warn(first.span, || "without an interface in the view, packets are not of `lo`");
                continue;
            }
            let (option, way) = if is_output { ("--out", "to") } else { ("--in", "from") };
            let names: Vec<String> = names.iter().map(|(name, count)| format!("{name} ({count})")).collect();
            let message = Message::new(format!("the rules depend on the interface that packets go {way}"))
                .expected(format!("`{option} NAME`; interfaces of the rules: {}", names.join(", ")));
            report.fault(first.span, || message);
        }
        (report.count() == before).then_some(())
    }
}

/// Name of the interface of a view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Name<'i> {
    /// Packets of the hook have one, but it is not given.
    Unknown,
    /// The empty name is that of no interface.
    Known(&'i str),
}

/// Returns the name that a condition is about.
fn name_of<'i>(test: &InterfaceTest, hook: Hook, import: &'i Import) -> Name<'i> {
    let (has_none, given) = match test.is_output {
        false => (hook == Hook::Output, &import.input),
        true => (hook == Hook::Input, &import.output),
    };
    match given {
        _ if has_none => Name::Known(""),
        Some(name) => Name::Known(name),
        None => Name::Unknown,
    }
}

/// Whether the conditions of a rule on interfaces hold in a view.
///
/// An unknown name is not `lo`; the view has no other unknown ones once it is checked.
fn may_hold(rule: &ChainRule, hook: Hook, import: &Import) -> bool {
    hold(rule, hook, import, |test| test.pattern() != "lo" || test.negated)
}

/// Whether the conditions of a rule on interfaces hold, where `unknown` says it of those on unknown names.
fn hold(rule: &ChainRule, hook: Hook, import: &Import, unknown: impl Fn(&InterfaceTest) -> bool) -> bool {
    rule.interfaces.iter().all(|test| match name_of(test, hook, import) {
        Name::Unknown if test.is_any() => !test.negated,
        Name::Unknown => unknown(test),
        Name::Known(name) => test.holds(name),
    })
}

impl InterfaceTest {
    /// Whether it holds for every name, apart from `!`.
    fn is_any(&self) -> bool {
        self.is_start && self.name.is_empty()
    }

    /// Returns the name as it is written.
    fn pattern(&self) -> String {
        format!("{}{}", self.name, if self.is_start { "+" } else { "" })
    }

    fn holds(&self, name: &str) -> bool {
        let is_it = if self.is_start { name.starts_with(&self.name) } else { name == self.name };
        is_it != self.negated
    }
}
