//! Verdict on one packet, and its reason.

use std::fmt;

use firstmatch_core::rule::{Member, Rule, RuleSet, Test};
use firstmatch_core::schema::{Field, Schema, Source};
use firstmatch_net::wire::{Headers, SourceSet};

use crate::{Basis, Decision, Firewall, Worker, show};

/// Decision on a packet, with the values of its header fields. It prints as a few lines of text.
///
/// ```
/// use firstmatch::{Firewall, LinkType};
///
/// let firewall = Firewall::from_text("deny tcp dport 23\n")?;
/// let explained = firewall.explain(LinkType::Ethernet, &firstmatch::doc_frame(23));
/// assert_eq!(
///     explained.to_string(),
///     "deny: rule 1 of line 1, `deny tcp dport 23`\n\
///      the packet has src 10.0.0.1, dst 192.0.2.7, proto 6 (tcp), sport 50000, dport 23, tcp_flags 0x02\n\
///      absent: icmp_type, icmp_code, vlan_vid"
/// );
/// # Ok::<(), firstmatch::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The decision, as a worker gives it.
    pub decision: Decision,
    /// The rule that matched, in the project's own format; `None` while an update is in progress.
    pub rule: Option<String>,
    /// Live sets that the rule tests and the packet is in, each with a member that holds its address.
    pub members: Vec<(String, Member)>,
    /// Values of the packet's header fields.
    pub headers: Headers,
    /// Header fields that the rules' schemas have.
    asked: SourceSet,
}

impl Explanation {
    pub(crate) fn new(firewall: &Firewall, headers: Headers) -> Self {
        let mut worker = Worker::without_counters(&firewall.inner);
        let decision = worker.decide(&headers);
        let found = decision.rule.and_then(|id| {
            let writer = firewall.inner.writer.try_lock()?;
            let members = writer.rules().get(id).map(|rule| members(writer.rules(), rule, &headers));
            Some((firewall.inner.text_of(&writer, id), members.unwrap_or_default()))
        });
        let (rule, members) = found.unwrap_or_default();
        let schemas = firewall.schemas();
        let asked: Vec<Source> = schemas.iter().flat_map(Schema::fields).filter_map(Field::source).collect();
        Self { decision, rule, members, headers, asked: SourceSet::of(&asked) }
    }
}

/// Returns the live sets of a rule that hold an address of a packet, with a member of each.
fn members(rules: &RuleSet, rule: &Rule, headers: &Headers) -> Vec<(String, Member)> {
    let (Some(family), Some(schema)) = (headers.family(), rules.schema(headers.family())) else { return Vec::new() };
    let mut found = Vec::new();
    for condition in rule.conditions.iter().filter(|condition| !condition.negated) {
        let source = schema.fields()[condition.field].source();
        let Some(value) = source.and_then(|source| headers.value(source)) else { continue };
        for (_, test) in condition.tests() {
            if let Test::Set(id) = test
                && let Some(set) = rules.live_sets().get(id)
            {
                found.extend(set.member_with(family, value).map(|member| (set.name().to_owned(), member)));
            }
        }
    }
    found
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Decision { verdict, basis, rule, line, outcome, .. } = self.decision;
        write!(f, "{verdict}: ")?;
        match (rule, line) {
            (Some(rule), Some(line)) => write!(f, "rule {rule} of line {line}")?,
            (Some(rule), None) => write!(f, "rule {rule}")?,
            _ if !outcome.is_classified() => write!(f, "{}", show::why_unknown(outcome))?,
            _ if basis == Basis::Policy => write!(f, "no rule matches")?,
            _ => write!(f, "the rule is not known")?,
        }
        if let Some(text) = &self.rule {
            write!(f, ", `{text}`")?;
        }
        for (set, member) in &self.members {
            write!(f, "\n{member} is in ${set}")?;
        }
        for (index, line) in show::headers(&self.headers, self.asked).iter().enumerate() {
            write!(f, "\n{}{line}", if index == 0 { "the packet has " } else { "" })?;
        }
        Ok(())
    }
}
