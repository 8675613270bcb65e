//! Chains of rules, and their unfolding into one list in which the first match decides.
//!
//! # Idea
//!
//! A walk follows the chains as a packet does, with the products of all packets that can still be at a rule:
//!
//! - A verdict emits the packets of the rule. They stay with the later rules, because the first match decides.
//! - A jump walks the chain that is called with the packets of the rule. Those that come back go on behind the jump.
//! - A return takes its packets away from the rest of its chain. In a base chain it emits them with the policy.
//! - A goto walks the other chain, and then takes its packets away as a return does.
//!
//! For example, `-s 10.0.0.0/8 -p tcp -j RETURN` before `-j DROP` in a called chain leaves `deny proto not tcp` and
//! `deny tcp src not 10.0.0.0/8`.
//!
//! # Invariants
//!
//! - Removing the rules of a line with a verdict from the list is removing the line from the file, because no verdict
//!   takes packets away from later rules. `check` relies on that. (`removing_a_verdict_removes_its_rules_alone`)

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;

use super::product::Product;
use crate::report::{Message, Span};

/// Index of a chain.
pub(super) type ChainIndex = usize;

/// Effect of a rule on packets that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Verdict(Action),
    Jump(ChainIndex),
    Goto(ChainIndex),
    Return,
    /// Log, counter, comment.
    Nothing,
}

impl Effect {
    /// Returns the chain that packets go to.
    pub(super) fn target(self) -> Option<ChainIndex> {
        if let Self::Jump(chain) | Self::Goto(chain) = self { Some(chain) } else { None }
    }
}

/// Condition on the interface that a packet comes from or goes to.
#[derive(Clone, Debug)]
pub(super) struct InterfaceTest {
    pub(super) is_output: bool,
    pub(super) negated: bool,
    /// Name without the `+` that ends it.
    pub(super) name: String,
    /// Whether the name is the beginning of the interface's name.
    pub(super) is_start: bool,
    pub(super) span: Span,
}

/// Rule of a chain.
#[derive(Clone, Debug)]
pub(super) struct ChainRule {
    pub(super) span: Span,
    /// Packets that the rule matches, apart from interfaces: those of any product.
    pub(super) products: Vec<Product>,
    pub(super) interfaces: Vec<InterfaceTest>,
    /// Parts of the rule that cannot be held, which are faults if packets can reach the rule.
    pub(super) unheld: Vec<(Span, Message)>,
    /// Whether the rule asks for a state that no packet of the view has.
    pub(super) is_of_other_state: bool,
    pub(super) effect: Effect,
    pub(super) comment: Option<String>,
}

/// Chain of rules.
#[derive(Clone, Debug)]
pub(super) struct Chain {
    pub(super) name: String,
    pub(super) rules: Vec<ChainRule>,
}

/// Rule of the list.
#[derive(Clone, Debug)]
pub(super) struct Emitted {
    pub(super) product: Product,
    pub(super) action: Action,
    pub(super) line: u32,
    pub(super) label: Option<Box<str>>,
}

/// Reason why chains cannot be unfolded.
#[derive(Debug)]
pub(super) struct Unfoldable {
    pub(super) span: Span,
    pub(super) message: Message,
}

/// Limits on the unfolding.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnfoldLimits {
    /// Number of rules of the list.
    pub(super) rules: usize,
    /// Number of products that reach a rule at once.
    pub(super) products: usize,
    /// Number of pairs of a product and a rule that are looked at.
    pub(super) visits: u64,
}

impl UnfoldLimits {
    /// Returns the limits for a file of `rules` rules.
    pub(super) fn of(rules: usize) -> Self {
        Self { rules: (32 * rules).max(1 << 16), products: 1 << 16, visits: 10_000_000 }
    }
}

/// Largest number of jumps that a packet may be in at once.
const MAX_DEPTH: usize = 128;

/// Unfolds the chains from `base`, whose policy is `policy`.
pub(super) fn unfold(
    chains: &[Chain],
    base: ChainIndex,
    policy: Action,
    family: Family,
    limits: UnfoldLimits,
) -> Result<Vec<Emitted>, Unfoldable> {
    let mut walk =
        Walk { chains, policy, family, limits, out: Vec::new(), visits: 0, most: (0, base), active: vec![base] };
    walk.chain(vec![Product::default()], "")?;
    Ok(walk.out)
}

struct Walk<'c> {
    chains: &'c [Chain],
    policy: Action,
    family: Family,
    limits: UnfoldLimits,
    out: Vec<Emitted>,
    visits: u64,
    /// Largest number of products that reached a rule, and its chain.
    most: (usize, ChainIndex),
    /// Chains that packets are in, the base chain first.
    active: Vec<ChainIndex>,
}

impl Walk<'_> {
    /// Walks the last of the active chains with the products of the packets that reach it.
    fn chain(&mut self, mut live: Vec<Product>, path: &str) -> Result<(), Unfoldable> {
        let chains = self.chains;
        let index = self.active[self.active.len() - 1];
        let is_base = self.active.len() == 1;
        for rule in &chains[index].rules {
            if live.is_empty() {
                break;
            }
            self.count(rule, live.len() * rule.products.len())?;
            let pairs = live.iter().flat_map(|of| rule.products.iter().map(move |with| of.meet(with)));
            let hit: Vec<Product> = if rule.effect == Effect::Nothing { Vec::new() } else { pairs.flatten().collect() };
            if hit.is_empty() {
                continue;
            }
            match rule.effect {
                Effect::Verdict(action) => self.emit(rule, hit, action, path)?,
                Effect::Jump(chain) => self.call(rule, chain, hit, path)?,
                Effect::Goto(chain) => {
                    self.call(rule, chain, hit.clone(), path)?;
                    self.leave(rule, hit, &mut live, is_base, path)?;
                }
                Effect::Return => self.leave(rule, hit, &mut live, is_base, path)?,
                Effect::Nothing => {}
            }
        }
        Ok(())
    }

    /// Walks another chain with the packets of a rule.
    fn call(&mut self, rule: &ChainRule, chain: ChainIndex, hit: Vec<Product>, path: &str) -> Result<(), Unfoldable> {
        let from = &self.chains[self.active[self.active.len() - 1]].name;
        if self.active.contains(&chain) {
            let name = &self.chains[chain].name;
            let message = Message::new(format!("chains that jump in a circle: `{name}` leads back here"));
            return Err(Unfoldable { span: rule.span, message });
        }
        if self.active.len() > MAX_DEPTH {
            let message = Message::new(format!("jumps of a depth of more than {MAX_DEPTH}"));
            return Err(Unfoldable { span: rule.span, message });
        }
        let arrow = if path.is_empty() { "" } else { " > " };
        let path = format!("{path}{arrow}{from}:{}", rule.span.line);
        self.active.push(chain);
        self.chain(hit, &path)?;
        self.active.pop();
        Ok(())
    }

    /// Takes the packets of a rule out of its chain; in a base chain they get the policy.
    fn leave(
        &mut self,
        rule: &ChainRule,
        hit: Vec<Product>,
        live: &mut Vec<Product>,
        is_base: bool,
        path: &str,
    ) -> Result<(), Unfoldable> {
        if is_base {
            return self.emit(rule, hit, self.policy, path);
        }
        for product in &rule.products {
            let mut left = Vec::with_capacity(live.len());
            live.iter().for_each(|of| of.minus(product, self.family, &mut left));
            *live = left;
            self.count(rule, live.len())?;
        }
        Ok(())
    }

    fn emit(&mut self, rule: &ChainRule, hit: Vec<Product>, action: Action, path: &str) -> Result<(), Unfoldable> {
        if self.out.len() + hit.len() > self.limits.rules {
            return Err(self.too_much(rule, &format!("more than {} rules", self.limits.rules)));
        }
        let comment = rule.comment.as_deref().unwrap_or_default();
        let label = match (path, comment) {
            ("", "") => None,
            ("", comment) => Some(comment.into()),
            (path, "") => Some(path.into()),
            (path, comment) => Some(format!("{path}: {comment}").into()),
        };
        let line = rule.span.line;
        self.out.extend(hit.into_iter().map(|product| Emitted { product, action, line, label: label.clone() }));
        Ok(())
    }

    /// Counts products that reach a rule.
    fn count(&mut self, rule: &ChainRule, products: usize) -> Result<(), Unfoldable> {
        self.visits += products as u64;
        self.most = self.most.max((products, self.active[self.active.len() - 1]));
        if products > self.limits.products {
            return Err(
                self.too_much(rule, &format!("more than {} kinds of packets at this rule", self.limits.products))
            );
        }
        if self.visits > self.limits.visits {
            return Err(self.too_much(rule, &format!("more than {} steps", self.limits.visits)));
        }
        Ok(())
    }

    fn too_much(&self, rule: &ChainRule, what: &str) -> Unfoldable {
        let (pieces, chain) = self.most;
        let name = &self.chains[chain].name;
        let message = Message::new(format!("as one list, the chains are {what}")).expected(format!(
            "fewer returns, most of all in the chain `{name}`, which cuts packets into {pieces} kinds"
        ));
        Unfoldable { span: rule.span, message }
    }
}
