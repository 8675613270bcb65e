//! Rules: the options of `-A`, one after another.

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;

use super::super::chains::{ChainRule, Effect, InterfaceTest};
use super::super::options::{Hook, Import};
use super::super::product::Product;
use super::super::values::{DPORT, DST, FRAGMENT, FieldIndex, ICMP_TYPE, PROTO, SRC, Values};
use super::modules::Module;
use super::words::Word;
use super::{Stop, address, names, number, targets};
use crate::report::{Message, Report, Span, quote};
use firstmatch_core::schema::IPV6_EXTENSIONS;

/// Values of the field `fragment` of packets that are no later fragments.
const NOT_LATER: (u128, u128) = (0, 1);
const LATER: u128 = 2;

/// Target of a rule.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// One of iptables itself, or none.
    Known(Effect),
    /// A chain, if there is one of this name.
    Chain { name: String, span: Span, is_goto: bool },
}

/// Rule that was read.
pub(super) struct Read {
    pub(super) rule: ChainRule,
    pub(super) target: Target,
    pub(super) sets_mark: bool,
    /// Place of a condition on the mark.
    pub(super) tests_mark: Option<Span>,
}

/// Reader of the words behind the name of the chain.
pub(super) struct RuleReader<'r, 't> {
    words: &'r [Word<'r>],
    at: usize,
    whole: Span,
    pub(super) family: Family,
    pub(super) import: &'r Import,
    /// Hook of the view, as far as it is known.
    pub(super) hook: Option<Hook>,
    pub(super) report: &'r mut Report<'t>,
    pub(super) products: Vec<Product>,
    interfaces: Vec<InterfaceTest>,
    pub(super) unheld: Vec<(Span, Message)>,
    pub(super) is_of_other_state: bool,
    pub(super) comment: Option<String>,
    pub(super) tests_mark: Option<Span>,
    /// Protocol, and whether it is the one that packets must not have.
    pub(super) protocol: Option<(u8, bool)>,
    /// Modules with their place and the number of their options, in the order in which they were loaded.
    modules: Vec<(Module, Span, usize)>,
    /// Options that may not stand again.
    used: Vec<&'static str>,
    target: Option<Target>,
    sets_mark: bool,
}

impl<'r, 't> RuleReader<'r, 't> {
    pub(super) fn new(
        words: &'r [Word<'r>],
        whole: Span,
        family: Family,
        import: &'r Import,
        hook: Option<Hook>,
        report: &'r mut Report<'t>,
    ) -> Self {
        Self {
            words,
            at: 0,
            whole,
            family,
            import,
            hook,
            report,
            products: vec![Product::default()],
            interfaces: Vec::new(),
            unheld: Vec::new(),
            is_of_other_state: false,
            comment: None,
            tests_mark: None,
            protocol: None,
            modules: Vec::new(),
            used: Vec::new(),
            target: None,
            sets_mark: false,
        }
    }

    pub(super) fn read(mut self) -> Result<Read, Stop> {
        while let Some(word) = self.words.get(self.at).cloned() {
            self.at += 1;
            let negated = !word.quoted && word.text == "!";
            let option = if negated { self.next("an option behind `!`", word.span)? } else { word };
            if option.quoted || !option.text.starts_with('-') {
                let message = Message::new(format!("{} follows no option that takes it", quote(&option.text)));
                return self.fault(option.span, message.expected("an option, such as `-s`, `-m` or `-j`"));
            }
            self.option(&option, negated)?;
        }
        self.check_modules()?;
        let target = self.target.take().unwrap_or(Target::Known(Effect::Nothing));
        let effect = if let Target::Known(effect) = target { effect } else { Effect::Nothing };
        let rule = ChainRule {
            span: self.whole,
            products: self.products,
            interfaces: self.interfaces,
            unheld: self.unheld,
            is_of_other_state: self.is_of_other_state,
            effect,
            comment: self.comment,
        };
        Ok(Read { rule, target, sets_mark: self.sets_mark, tests_mark: self.tests_mark })
    }

    fn option(&mut self, option: &Word<'r>, negated: bool) -> Result<(), Stop> {
        let v4 = self.family == Family::Ipv4;
        match &*option.text {
            "-s" | "--source" | "--src" => self.address("-s", option, SRC, negated),
            "-d" | "--destination" | "--dst" => self.address("-d", option, DST, negated),
            "-p" | "--protocol" | "--proto" => self.protocol(option, negated),
            "-i" | "--in-interface" => self.interface("-i", option, false, negated),
            "-o" | "--out-interface" => self.interface("-o", option, true, negated),
            "-f" | "--fragment" if v4 => {
                self.once("-f", option)?;
                let values = if negated { Values::of([NOT_LATER]) } else { Values::one(LATER) };
                self.restrict(FRAGMENT, values);
                Ok(())
            }
            _ if negated && is_plain(&option.text) => {
                self.fault(option.span, format!("`!` before {}, which takes none", quote(&option.text)))
            }
            "-m" | "--match" => self.module(option),
            "-j" | "--jump" => self.target(option, false),
            "-g" | "--goto" => self.target(option, true),
            "-c" | "--set-counters" => self.counters(option),
            "-4" | "--ipv4" if v4 => Ok(()),
            "-6" | "--ipv6" if !v4 => Ok(()),
            _ => self.module_option(option, negated),
        }
    }

    /// Reads the two numbers of `-c`.
    fn counters(&mut self, option: &Word<'r>) -> Result<(), Stop> {
        self.once("-c", option)?;
        for _ in 0..2 {
            let word = self.next("a number", option.span)?;
            if number(&word.text, u64::MAX).is_none() {
                return self.fault(word.span, format!("{} is no number of packets or bytes", quote(&word.text)));
            }
        }
        Ok(())
    }

    fn address(&mut self, name: &'static str, option: &Word<'r>, field: FieldIndex, negated: bool) -> Result<(), Stop> {
        self.once(name, option)?;
        let word = self.next("an address", option.span)?;
        let (values, has_more) = match address::list(&word.text, self.family) {
            Ok(read) => read,
            Err(message) => return self.fault(word.span, message),
        };
        if negated && word.text.contains(',') {
            return self
                .fault(word.span, Message::new("`!` before several addresses").expected("one address behind `!`"));
        }
        if has_more {
            let what = format!("{} has bits outside its mask; they are dropped, as by iptables", quote(&word.text));
            self.report.warn(word.span, || what);
        }
        self.restrict_to(field, values, negated);
        Ok(())
    }

    fn protocol(&mut self, option: &Word<'r>, negated: bool) -> Result<(), Stop> {
        self.once("-p", option)?;
        let word = self.next("a protocol", option.span)?;
        let known = number(&word.text, 255).map(|number| number as u8).or_else(|| names::protocol(&word.text));
        let Some(number) = known else {
            let message = Message::new(format!("unknown protocol {}", quote(&word.text)));
            return self.fault(word.span, message.expected("the number of the protocol"));
        };
        if number == 0 {
            // The number 0 stands for all protocols.
            let Some(span) = negated.then_some(word.span) else { return Ok(()) };
            return self.fault(span, "no packet is of no protocol");
        }
        if self.family == Family::Ipv6 && IPV6_EXTENSIONS.contains(&number) {
            let what =
                format!("{number} is an extension header in IPv6: here `proto` is the protocol behind all of them");
            self.report.warn(word.span, || what);
        }
        self.protocol = Some((number, negated));
        self.restrict_to(PROTO, Values::one(number.into()), negated);
        Ok(())
    }

    fn interface(&mut self, name: &'static str, option: &Word<'r>, is_output: bool, negated: bool) -> Result<(), Stop> {
        self.once(name, option)?;
        let word = self.next("an interface", option.span)?;
        let start = word.text.strip_suffix('+');
        let is_name = !word.text.is_empty() && !word.text.starts_with(['-', '!']) && word.text.len() < 16;
        if !is_name || word.text.contains(['/', ' ']) {
            return self.fault(word.span, format!("{} is no name of an interface", quote(&word.text)));
        }
        let name = start.unwrap_or(&word.text).to_owned();
        let span = Span { start: option.span.start, ..word.span };
        self.interfaces.push(InterfaceTest { is_output, negated, name, is_start: start.is_some(), span });
        Ok(())
    }

    /// Loads a module.
    fn module(&mut self, option: &Word<'r>) -> Result<(), Stop> {
        let word = self.next("the name of a match", option.span)?;
        if let Some(module) = Module::of_name(&word.text, self.family) {
            self.modules.push((module, word.span, 0));
            // Options of a module may stand once each time that it is loaded.
            self.used.retain(|used| !used.starts_with("--"));
            if module == Module::Limit {
                self.limit(word.span);
            }
            return Ok(());
        }
        if !word.text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))
            || word.text.starts_with('-')
        {
            return self.fault(word.span, format!("{} is no name of a match", quote(&word.text)));
        }
        self.unheld.push((
            word.span,
            Message::new(format!("the match {} cannot be held", quote(&word.text)))
                .expected("a rule without it: a packet does not show this, or it is not read here"),
        ));
        // Its options are unknown. It ends where another match or the target begins.
        while let Some(next) = self.words.get(self.at) {
            if !next.quoted && matches!(&*next.text, "-m" | "--match" | "-j" | "--jump" | "-g" | "--goto") {
                break;
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Reads an option of a module that is loaded, or that the protocol brings with it.
    fn module_option(&mut self, option: &Word<'r>, negated: bool) -> Result<(), Stop> {
        let has = |module: Module| module.option(&option.text).map(|name| (module, name));
        let loaded = self.modules.iter().rposition(|(module, ..)| has(*module).is_some());
        let of_protocol = || match self.protocol {
            Some((number, false)) => Module::of_protocol(number, self.family).filter(|module| has(*module).is_some()),
            _ => None,
        };
        let at = match (loaded, of_protocol()) {
            (Some(at), _) => at,
            (None, Some(module)) => {
                self.modules.push((module, option.span, 0));
                self.modules.len() - 1
            }
            (None, None) => {
                let message = Message::new(format!("unknown option {}", quote(&option.text)));
                return self.fault(option.span, message.expected("an option of the matches before it"));
            }
        };
        let Some((module, name)) = has(self.modules[at].0) else { return Err(Stop) };
        self.modules[at].2 += 1;
        self.once(name, option)?;
        if negated && !Module::may_negate(name) {
            return self.fault(option.span, format!("`!` before {}, which takes none", quote(&option.text)));
        }
        self.condition(module, name, option, negated)
    }

    fn target(&mut self, option: &Word<'r>, is_goto: bool) -> Result<(), Stop> {
        let word = self.next(if is_goto { "a chain" } else { "a target" }, option.span)?;
        if self.target.is_some() {
            return self.fault(option.span, "a second target");
        }
        let name = &*word.text;
        if is_goto || !targets::is_known(name) {
            self.target = Some(Target::Chain { name: name.to_owned(), span: word.span, is_goto });
            return Ok(());
        }
        let Some(options) = targets::options(name) else {
            let message = Message::new(format!("the target {} cannot be held", quote(name)));
            self.unheld.push((word.span, message.expected("ACCEPT, DROP, REJECT, RETURN, LOG or a chain")));
            // The fault is shown wherever packets reach the rule, so that the effect never shows.
            self.target = Some(Target::Known(Effect::Return));
            self.at = self.words.len();
            return Ok(());
        };
        self.sets_mark |= targets::sets_mark(name);
        self.target = Some(Target::Known(match name {
            "ACCEPT" => Effect::Verdict(Action::Permit),
            "DROP" | "REJECT" => Effect::Verdict(Action::Deny),
            "RETURN" => Effect::Return,
            _ => Effect::Nothing,
        }));
        while let Some(word) = self.words.get(self.at).cloned() {
            let Some((_, count)) = options.iter().find(|(known, _)| !word.quoted && *known == word.text) else { break };
            self.at += 1;
            for _ in 0..*count {
                self.next("a value", word.span)?;
            }
        }
        Ok(())
    }

    /// Checks that modules have their protocol and their options.
    fn check_modules(&mut self) -> Result<(), Stop> {
        for (module, span, count) in std::mem::take(&mut self.modules) {
            let protocol = match self.protocol {
                Some((number, false)) => Some(number),
                _ => None,
            };
            let wanted = match module {
                Module::Transport(number) => Some(number),
                Module::Icmp => Some(if self.family == Family::Ipv4 { 1 } else { 58 }),
                _ => None,
            };
            let is_other = match module {
                // UDP-Lite has the options of UDP.
                Module::Transport(17) => !matches!(protocol, Some(17 | 136)),
                _ => wanted.is_some() && protocol != wanted,
            };
            if is_other {
                let message = Message::new("a match of another protocol than the rule's");
                return self.fault(span, message.expected(format!("`-p {}`", wanted.unwrap_or_default())));
            }
            match module {
                _ if count == 0 && !module.may_be_bare() => {
                    return self
                        .fault(span, Message::new("a match without an option").expected("an option of the match"));
                }
                // The match fails on later fragments, which lack ports and types.
                Module::Transport(_) if count == 0 => self.restrict(DPORT, Values::present(DPORT, self.family)),
                Module::Icmp if count == 0 => self.restrict(ICMP_TYPE, Values::present(ICMP_TYPE, self.family)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Confines the rule to packets with one of `values`, or to those with another value.
    pub(super) fn restrict_to(&mut self, field: FieldIndex, values: Values, negated: bool) {
        let values = if negated { values.negated(field, self.family) } else { values };
        self.restrict(field, values);
    }

    /// Confines the rule to packets with one of `values`.
    pub(super) fn restrict(&mut self, field: FieldIndex, values: Values) {
        self.products = self.products.iter().filter_map(|product| product.restrict(field, values.clone())).collect();
    }

    /// Confines the rule to packets that meet one of several lists of conditions.
    pub(super) fn restrict_any(&mut self, any: &[&[(FieldIndex, Values)]]) {
        let products = std::mem::take(&mut self.products);
        for product in &products {
            for all in any {
                let met = all
                    .iter()
                    .try_fold(product.clone(), |product, (field, values)| product.restrict(*field, values.clone()));
                self.products.extend(met);
            }
        }
    }

    /// Notes that an option stands.
    fn once(&mut self, name: &'static str, option: &Word<'r>) -> Result<(), Stop> {
        if self.used.contains(&name) {
            return self.fault(option.span, format!("{} stands twice", quote(&option.text)));
        }
        self.used.push(name);
        Ok(())
    }

    /// Returns the next word, which an option asks for.
    pub(super) fn next(&mut self, what: &str, option: Span) -> Result<Word<'r>, Stop> {
        let Some(word) = self.words.get(self.at) else {
            self.report.fault(option, || format!("the line ends before {what}"));
            return Err(Stop);
        };
        self.at += 1;
        Ok(word.clone())
    }

    pub(super) fn fault<R>(&mut self, span: Span, message: impl Into<Message>) -> Result<R, Stop> {
        self.report.fault(span, || message);
        Err(Stop)
    }
}

/// Whether an option of the rule itself takes no `!`.
fn is_plain(option: &str) -> bool {
    matches!(
        option,
        "-m" | "--match"
            | "-j"
            | "--jump"
            | "-g"
            | "--goto"
            | "-c"
            | "--set-counters"
            | "-4"
            | "-6"
            | "--ipv4"
            | "--ipv6"
    )
}
