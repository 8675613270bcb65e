//! Output of iptables-save and ip6tables-save.
//!
//! ```text
//! *filter
//! :INPUT DROP [0:0]
//! :web - [0:0]
//! -A INPUT -p tcp -m tcp --dport 443 -j web
//! -A web -s 10.0.0.0/8 -j ACCEPT
//! COMMIT
//! ```
//!
//! - Lines of scripts are read, too: `-N`, `-P` and `-A`, with or without a table around them.
//! - Rules of `nat` are a fault. Those of `mangle`, `raw` and `security` are one if they may change a verdict or what
//!   `filter` sees. [`Import::without`] leaves a table out.

mod address;
mod matches;
mod modules;
mod names;
mod rule;
mod targets;
mod words;

use std::collections::HashMap;

use firstmatch_core::rule::Action;
use firstmatch_core::schema::Family;

use super::chains::{Chain, ChainIndex, Effect};
use super::options::{Hook, Import, Table};
use super::view::{Base, Hooks};
use crate::BOM;
use crate::report::{Message, Report, Span, quote};
use rule::{RuleReader, Target};
use words::{Word, words};

/// Chains that hooks begin with.
const BASES: [(&str, Hook); 3] = [("INPUT", Hook::Input), ("FORWARD", Hook::Forward), ("OUTPUT", Hook::Output)];

/// Signal that a fault is noted and the rest of the line is meaningless.
struct Stop;

/// Reads a number, decimal or hexadecimal after `0x`; iptables reads a leading 0 as octal, so that it is none.
fn number(word: &str, max: u64) -> Option<u64> {
    let number = match word.strip_prefix("0x").or_else(|| word.strip_prefix("0X")) {
        Some(digits) if digits.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(digits, 16).ok(),
        Some(_) => None,
        None if word.bytes().all(|b| b.is_ascii_digit()) && (word == "0" || !word.starts_with('0')) => {
            word.parse().ok()
        }
        None => None,
    };
    number.filter(|&number| number <= max)
}

/// Reads the rules of the table `filter`, and checks those of the others.
pub(super) fn read(text: &str, family: Family, import: &Import, report: &mut Report<'_>) -> Hooks {
    let bases = BASES.map(|(name, hook)| Base { hook, chain: hook as usize, policy: Action::Permit, name });
    let chains = BASES.map(|(name, _)| Chain { name: name.to_owned(), rules: Vec::new() });
    let mut reader = Reader {
        family,
        import,
        report,
        section: Section::None,
        seen: Vec::new(),
        is_script: false,
        hooks: Hooks { chains: chains.into(), bases },
        by_name: BASES.iter().map(|&(name, hook)| (name.to_owned(), hook as usize)).collect(),
        jumps: Vec::new(),
        sets_mark: None,
        tests_mark: Vec::new(),
        declared: [false; 3],
        others: Vec::new(),
    };
    let mut start = if text.starts_with(BOM) { BOM.len_utf8() } else { 0 };
    let mut last = Span { line: 1, line_start: start, start, end: start };
    for (line, content) in (1u32..).zip(text[start..].split_inclusive('\n')) {
        let bare = content.trim_end_matches(['\n', '\r']);
        let span = Span { line, line_start: start, start, end: start + bare.len() };
        start += content.len();
        // The fault is noted already.
        let _: Result<(), Stop> = reader.line(bare, span);
        last = span;
    }
    reader.finish(last)
}

/// Part of the file that lines belong to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    None,
    Filter(Span),
    /// Another table, `None` for an unknown one.
    Other(Option<Table>, Span),
}

/// Rule of another table that matters, and the reason.
struct Other {
    table: Table,
    span: Span,
    what: String,
}

struct Reader<'r, 't> {
    family: Family,
    import: &'r Import,
    report: &'r mut Report<'t>,
    section: Section,
    /// Tables so far.
    seen: Vec<String>,
    /// Whether rules stand outside tables, as in scripts.
    is_script: bool,
    hooks: Hooks,
    by_name: HashMap<String, ChainIndex>,
    /// Rules that go to a chain, by chain and index: the span of its name, the name, and whether it is a goto.
    jumps: Vec<(ChainIndex, usize, Span, String, bool)>,
    /// First rule that sets a mark.
    sets_mark: Option<Span>,
    /// Rules that test the mark, by chain and index.
    tests_mark: Vec<(ChainIndex, usize, Span)>,
    /// Base chains whose policy was stated.
    declared: [bool; 3],
    others: Vec<Other>,
}

impl Reader<'_, '_> {
    fn line(&mut self, bare: &str, whole: Span) -> Result<(), Stop> {
        let start = bare.trim_start();
        if start.is_empty() || start.starts_with('#') {
            return Ok(());
        }
        let words = match words(bare, whole) {
            Ok(words) => words,
            Err((span, message)) => return self.fault(span, message),
        };
        let (counters, rest) = match &words[..] {
            [first, rest @ ..] if first.text.starts_with('[') => (Some(first), rest),
            rest => (None, rest),
        };
        let [first, rest @ ..] = rest else { return self.fault(whole, "counters without a rule") };
        if let Some(counters) = counters.filter(|counters| !is_counters(&counters.text) || !first.text.starts_with('-'))
        {
            return self
                .fault(counters.span, Message::new("counters that are none").expected("`[packets:bytes] -A …`"));
        }
        match &*first.text {
            "COMMIT" if rest.is_empty() => {
                let is_open = std::mem::replace(&mut self.section, Section::None) != Section::None;
                if is_open { Ok(()) } else { self.fault(first.span, "COMMIT without a table before it") }
            }
            text if text.starts_with('*') && rest.is_empty() => self.table(first),
            text if text.starts_with(':') => self.chain_line(first, rest),
            "-N" | "--new-chain" | "-P" | "--policy" => self.script_line(first, rest),
            "-A" | "--append" => {
                let [chain, rest @ ..] = rest else { return self.fault(first.span, "a rule without its chain") };
                self.rule(chain, rest, whole)
            }
            "-I" | "-D" | "-R" | "-F" | "-X" | "-Z" | "-E" | "--insert" | "--delete" | "--replace" | "--flush" => {
                let message = Message::new(format!(
                    "{} changes rules, so that a list does not show their order",
                    quote(&first.text)
                ));
                self.fault(first.span, message.expected("the output of iptables-save"))
            }
            text => {
                let message = Message::new(format!("unexpected {}", quote(text)));
                self.fault(first.span, message.expected("`*filter`, `:CHAIN POLICY`, `-A CHAIN …` or COMMIT"))
            }
        }
    }

    /// Begins a table.
    fn table(&mut self, word: &Word<'_>) -> Result<(), Stop> {
        let name = &word.text[1..];
        if let Section::Filter(open) | Section::Other(_, open) = self.section {
            let line = open.line;
            return self.fault(word.span, format!("a table before the COMMIT of that on line {line}"));
        }
        if self.is_script {
            return self.fault(word.span, "a table behind rules outside of tables");
        }
        let is_second = self.seen.iter().any(|seen| seen == name);
        self.seen.push(name.to_owned());
        let other = Table::ALL.into_iter().find(|table| table.name() == name);
        let is_filter = name == "filter";
        self.section = if is_filter { Section::Filter(word.span) } else { Section::Other(other, word.span) };
        if other.is_none() && !is_filter {
            let message = Message::new(format!("unknown table {}", quote(name)));
            return self.fault(word.span, message.expected("filter, nat, mangle, raw or security"));
        }
        if is_second { self.fault(word.span, format!("a second table {}", quote(name))) } else { Ok(()) }
    }

    /// Whether lines are of the table `filter`; a file without tables has that alone.
    fn is_filter(&mut self, span: Span) -> Result<bool, Stop> {
        match self.section {
            Section::Filter(_) => Ok(true),
            Section::Other(..) => Ok(false),
            Section::None if self.seen.is_empty() => {
                self.is_script = true;
                Ok(true)
            }
            Section::None => {
                self.fault(span, Message::new("a line outside of a table").expected("a table before it"))?;
                Ok(false)
            }
        }
    }

    /// Reads `:CHAIN POLICY [packets:bytes]`.
    fn chain_line(&mut self, first: &Word<'_>, rest: &[Word<'_>]) -> Result<(), Stop> {
        let name =
            Word { text: first.text[1..].into(), span: Span { start: first.span.start + 1, ..first.span }, ..*first };
        let policy = match rest {
            [policy] => policy,
            [policy, counters] if is_counters(&counters.text) => policy,
            _ => {
                return self.fault(
                    first.span,
                    Message::new("a chain that is not whole").expected("`:CHAIN POLICY [packets:bytes]`"),
                );
            }
        };
        if !self.is_filter(first.span)? {
            return Ok(());
        }
        if &*policy.text == "-" { self.new_chain(&name) } else { self.policy(&name, policy) }
    }

    /// Reads `-N CHAIN` or `-P CHAIN POLICY`.
    fn script_line(&mut self, first: &Word<'_>, rest: &[Word<'_>]) -> Result<(), Stop> {
        if !self.is_filter(first.span)? {
            return Ok(());
        }
        match (&*first.text, rest) {
            ("-N" | "--new-chain", [name]) => self.new_chain(name),
            ("-P" | "--policy", [name, policy]) => self.policy(name, policy),
            _ => self.fault(
                first.span,
                Message::new("a line that is not whole").expected("`-N CHAIN` or `-P CHAIN POLICY`"),
            ),
        }
    }

    fn new_chain(&mut self, name: &Word<'_>) -> Result<(), Stop> {
        let is_name = !name.text.is_empty() && !name.text.starts_with(['-', '!']) && !targets::is_known(&name.text);
        if !is_name {
            return self.fault(name.span, format!("{} cannot be the name of a chain", quote(&name.text)));
        }
        if self.by_name.contains_key(&*name.text) {
            return self.fault(name.span, format!("there is already a chain {}", quote(&name.text)));
        }
        self.by_name.insert(name.text.to_string(), self.hooks.chains.len());
        self.hooks.chains.push(Chain { name: name.text.to_string(), rules: Vec::new() });
        Ok(())
    }

    fn policy(&mut self, name: &Word<'_>, policy: &Word<'_>) -> Result<(), Stop> {
        let Some(at) = BASES.iter().position(|(base, _)| *base == name.text) else {
            let message = Message::new(format!("a policy for the chain {}", quote(&name.text)));
            return self.fault(name.span, message.expected("INPUT, FORWARD or OUTPUT; `-` is no policy"));
        };
        let action = match &*policy.text {
            "ACCEPT" => Action::Permit,
            "DROP" => Action::Deny,
            text => {
                let message = Message::new(format!("{} as a policy", quote(text)));
                return self.fault(policy.span, message.expected("ACCEPT or DROP"));
            }
        };
        self.hooks.bases[at].policy = action;
        if std::mem::replace(&mut self.declared[at], true) {
            return self.fault(name.span, format!("a second policy of {}", quote(&name.text)));
        }
        Ok(())
    }

    fn rule(&mut self, chain: &Word<'_>, words: &[Word<'_>], whole: Span) -> Result<(), Stop> {
        if !self.is_filter(chain.span)? {
            return self.other_rule(words, whole);
        }
        let Some(&index) = self.by_name.get(&*chain.text) else {
            let message = Message::new(format!("there is no chain {}", quote(&chain.text)));
            return self.fault(chain.span, message.expected("a chain that a line before declares"));
        };
        let hook = self.hooks.bases.iter().find(|base| base.chain == index).map(|base| base.hook);
        let hook = hook.or(self.import.hook);
        let reader = RuleReader::new(words, whole, self.family, self.import, hook, &mut *self.report);
        let read = reader.read()?;
        let at = self.hooks.chains[index].rules.len();
        if let Target::Chain { name, span, is_goto } = read.target {
            self.jumps.push((index, at, span, name, is_goto));
        }
        if read.sets_mark {
            self.sets_mark.get_or_insert(whole);
        }
        self.tests_mark.extend(read.tests_mark.map(|span| (index, at, span)));
        self.hooks.chains[index].rules.push(read.rule);
        Ok(())
    }

    /// Notes a rule of another table, if it may matter.
    fn other_rule(&mut self, words: &[Word<'_>], whole: Span) -> Result<(), Stop> {
        let Section::Other(Some(table), _) = self.section else { return Ok(()) };
        let target =
            words.iter().position(|word| !word.quoted && matches!(&*word.text, "-j" | "-g" | "--jump" | "--goto"));
        let name = target.and_then(|at| words.get(at + 1)).map_or("", |word| &word.text);
        let what = match table {
            _ if targets::sets_mark(name) => {
                self.sets_mark.get_or_insert(whole);
                return Ok(());
            }
            Table::Nat => "`nat` changes addresses, and `filter` sees the changed ones".to_owned(),
            _ if target.is_none() || targets::is_harmless(name) || !targets::is_known(name) => return Ok(()),
            _ => format!("{} in the table {} may change verdicts, or what `filter` sees", quote(name), table.name()),
        };
        self.others.push(Other { table, span: whole, what });
        Ok(())
    }

    fn fault<M: Into<Message>>(&mut self, span: Span, message: M) -> Result<(), Stop> {
        self.report.fault(span, || message);
        Err(Stop)
    }

    /// Checks the file as a whole.
    fn finish(mut self, last: Span) -> Hooks {
        if let Section::Filter(open) | Section::Other(_, open) = self.section {
            let _: Result<(), Stop> =
                self.fault(open, Message::new("a table without its end").expected("COMMIT behind its rules"));
        } else if !self.report.has_faults() && !self.is_script && !self.seen.iter().any(|name| name == "filter") {
            let _: Result<(), Stop> = self.fault(last, Message::new("no table `filter`").expected("`*filter`"));
        }
        for table in Table::ALL.into_iter().filter(|table| !self.import.without.contains(table)) {
            let mut of_table = self.others.iter().filter(|other| other.table == table);
            let Some(first) = of_table.next() else { continue };
            let more = match of_table.count() {
                0 => String::new(),
                more => format!(" (and {more} more rules of the table)"),
            };
            let message = Message::new(format!("{}{more}", first.what));
            self.report
                .fault(first.span, || message.expected(format!("`--without {}`, if that is meant", table.name())));
        }
        for (chain, at, span, name, is_goto) in std::mem::take(&mut self.jumps) {
            match self.by_name.get(&name) {
                Some(&target) if target >= BASES.len() => {
                    let effect = if is_goto { Effect::Goto(target) } else { Effect::Jump(target) };
                    self.hooks.chains[chain].rules[at].effect = effect;
                }
                Some(_) => {
                    self.report.fault(span, || format!("{} is a base chain, to which no rule can jump", quote(&name)));
                }
                None => {
                    let message = Message::new(format!("unknown target {}", quote(&name)));
                    self.report
                        .fault(span, || message.expected("ACCEPT, DROP, REJECT, RETURN, LOG or a chain of the table"));
                }
            }
        }
        if let Some(set) = self.sets_mark {
            for (chain, at, span) in std::mem::take(&mut self.tests_mark) {
                let what = format!("this tests the mark, which line {} sets", set.line);
                let rule = &mut self.hooks.chains[chain].rules[at];
                rule.unheld.push((span, Message::new(what).expected("rules without marks")));
            }
        }
        self.hooks
    }
}

/// Whether a word is `[packets:bytes]`.
fn is_counters(word: &str) -> bool {
    let inside = word.strip_prefix('[').and_then(|word| word.strip_suffix(']'));
    let is_count = |count: &str| !count.is_empty() && count.bytes().all(|b| b.is_ascii_digit());
    inside
        .and_then(|inside| inside.split_once(':'))
        .is_some_and(|(packets, bytes)| is_count(packets) && is_count(bytes))
}
