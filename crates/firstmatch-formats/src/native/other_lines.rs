//! Lines of other rule languages among native rules, and what they say in the native format.
//!
//! A whole file of another program has one error (`foreign`). Single lines are often copied without the text around
//! them, so each is translated where every word of it is understood.
//!
//! # Invariants
//! - A translation permits no packet that the line does not permit, and denies every packet that it denies
//!   (`other_lines` in the tests of formats). For example, `permit tcp any any` is confined to IPv4, which an access
//!   list of IOS is for. `deny tcp any any` is for both families, because its author may have meant both.
//! - The parser accepts it (`Parser::translate`).

use std::net::{IpAddr, Ipv4Addr};

use super::parser::{Parser, SCHEMA};
use super::{icmp, names, services};
use crate::Options;
use crate::report::{Mark, Message, Span};

/// Words that begin lines which may go on behind their end.
const SEVERAL_LINES: [&str; 3] = ["set", "live", "schema"];
/// Maximum length of a line that is translated, in bytes.
const MAX_LEN: usize = 400;

impl Parser<'_> {
    /// Replaces the faults of a line since `mark` by one, if the line is of another rule language.
    ///
    /// `first` is the span of its first word.
    pub(super) fn translate(&mut self, first: Span, mark: Mark) {
        let is_ours = SEVERAL_LINES.contains(&first.text(self.text)) || self.given[SCHEMA].is_some();
        if is_ours || !self.report.is_kept(mark) {
            return;
        }
        let line = self.text.get(first.start..).unwrap_or("").lines().next().unwrap_or("");
        let line = line.split('#').next().unwrap_or(line).trim_end();
        if line.len() > MAX_LEN || line.contains(['$', '"', '@']) {
            return;
        }
        let found = ios(line).map(|rule| ("Cisco IOS", rule)).or_else(|| Some(("nftables", nftables(line)?)));
        let Some((name, rule)) = found else { return };
        let family = self.only.map_or(String::new(), |only| format!("family {only}\n"));
        let options = Options { max_warnings: 0, ..Options::default() };
        if super::parse(&format!("{family}{rule}\n"), &options).is_err() {
            return;
        }
        let whole = Span { end: first.start + line.len(), ..first };
        self.report.replace(mark, whole, || {
            Message::new(format!("this line is a rule of {name}")).expected(format!("`{rule}`"))
        });
    }
}

/// Words of a line, one after another.
struct Words<'l> {
    all: Vec<&'l str>,
    at: usize,
}

impl<'l> Words<'l> {
    fn peek(&self) -> Option<&'l str> {
        self.all.get(self.at).copied()
    }

    fn next(&mut self) -> Option<&'l str> {
        let word = self.peek();
        self.at += 1;
        word
    }

    /// Takes the next word if it is `word`; returns whether it was.
    fn take(&mut self, word: &str) -> bool {
        let is_next = self.peek() == Some(word);
        self.at += usize::from(is_next);
        is_next
    }
}

/// Rule that is being put together.
#[derive(Default)]
struct Draft {
    /// Family that the rule is confined to if no address shows it.
    family: Option<&'static str>,
    proto: Option<String>,
    src: Option<String>,
    dst: Option<String>,
    sport: Option<String>,
    dport: Option<String>,
    /// Conditions behind those.
    rest: Vec<String>,
}

impl Draft {
    fn rule(self, action: &str) -> String {
        let has_address = self.src.is_some() || self.dst.is_some();
        let family = self.family.filter(|_| !has_address).map(|family| format!("family {family}"));
        let field = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
        let addresses = [field("src", self.src), field("dst", self.dst)];
        let ports = [field("sport", self.sport), field("dport", self.dport)];
        let parts = [Some(action.to_owned()), family, self.proto].into_iter().chain(addresses).chain(ports).flatten();
        parts.chain(self.rest).collect::<Vec<_>>().join(" ")
    }
}

/// Translates an entry of an access list of Cisco IOS; `None` if a word of it is not known.
fn ios(line: &str) -> Option<String> {
    let mut words = Words { all: line.split_whitespace().collect(), at: 0 };
    // The number of the entry.
    if words.peek()?.bytes().all(|b| b.is_ascii_digit()) {
        words.next();
    }
    let action = words.next().filter(|action| ["permit", "deny"].contains(action))?;
    let mut draft = Draft::default();
    let first = words.peek()?;
    if first == "host" || first.parse::<Ipv4Addr>().is_ok() {
        // An entry of a standard list has the source alone.
        draft.src = Some(ios_address(&mut words)??);
    } else {
        let proto = words.next()?;
        draft.proto = match proto {
            "ip" => None,
            "ahp" => Some("ah".to_owned()),
            _ if names::protocol(proto).is_some() && !names::is_family(proto) => Some(proto.to_owned()),
            _ => Some(format!("proto {}", proto.parse::<u8>().ok()?)),
        };
        let has_ports = matches!(proto, "tcp" | "udp" | "sctp");
        draft.src = ios_address(&mut words)?;
        draft.sport = ios_ports(&mut words, has_ports)?;
        draft.dst = ios_address(&mut words)?;
        draft.dport = ios_ports(&mut words, has_ports)?;
        draft.rest = ios_rest(&mut words, proto)?;
        draft.family = (action == "permit").then_some("ipv4");
    }
    while words.take("log") || words.take("log-input") {}
    words.peek().is_none().then(|| draft.rule(action))
}

/// Reads an address of IOS: `Some(None)` for `any`, `None` for words that are no address.
///
/// A mask with ones in front is left alone, because other systems of Cisco write netmasks in this place.
fn ios_address(words: &mut Words<'_>) -> Option<Option<String>> {
    match words.next()? {
        "any" => Some(None),
        "host" => Some(Some(words.next()?.parse::<IpAddr>().ok()?.to_string())),
        word => {
            if let Some((address, len)) = word.split_once('/') {
                let is_prefix = address.parse::<IpAddr>().is_ok() && len.parse::<u8>().is_ok();
                return is_prefix.then(|| Some(word.to_owned()));
            }
            let address = word.parse::<Ipv4Addr>().ok()?.to_bits();
            let wildcard = words.next()?.parse::<Ipv4Addr>().ok()?.to_bits();
            if wildcard == 0 || wildcard >> 31 == 1 {
                return None;
            }
            let kept = Ipv4Addr::from_bits(address & !wildcard);
            Some(Some(if wildcard & wildcard.wrapping_add(1) == 0 {
                format!("{kept}/{}", wildcard.leading_zeros())
            } else {
                format!("{kept}/{}", Ipv4Addr::from_bits(!wildcard))
            }))
        }
    }
}

/// Reads the ports of IOS, if some stand there: `Some(None)` if none do, `None` for ports that are not known.
fn ios_ports(words: &mut Words<'_>, has_ports: bool) -> Option<Option<String>> {
    let Some(operator @ ("eq" | "neq" | "gt" | "lt" | "range")) = words.peek() else { return Some(None) };
    words.next();
    let port = |word: &str| word.parse::<u16>().ok().or_else(|| services::service_port(word));
    let first = port(words.next()?).filter(|_| has_ports)?;
    let mut all = vec![first.to_string()];
    if matches!(operator, "eq" | "neq") {
        while let Some(more) = words.peek().and_then(port) {
            words.next();
            all.push(more.to_string());
        }
    }
    let list = if all.len() == 1 { all.remove(0) } else { format!("{{ {} }}", all.join(", ")) };
    Some(Some(match operator {
        "eq" => list,
        "neq" => format!("not {list}"),
        "gt" => format!("> {first}"),
        "lt" => format!("< {first}"),
        _ => format!("{first}-{}", port(words.next()?).filter(|&last| last >= first)?),
    }))
}

/// Reads the conditions behind the addresses and ports of IOS; `None` for one that is not known.
fn ios_rest(words: &mut Words<'_>, proto: &str) -> Option<Vec<String>> {
    if proto == "tcp" && words.take("established") {
        return Some(vec!["tcp_flags established".to_owned()]);
    }
    let Some(word) = words.peek().filter(|word| proto == "icmp" && !word.starts_with("log")) else {
        return Some(Vec::new());
    };
    words.next();
    if let Ok(kind) = word.parse::<u8>() {
        let code = words.peek().and_then(|code| code.parse::<u8>().ok());
        let code = code.map(|code| format!("icmp_code {code}")).inspect(|_| _ = words.next());
        return Some([Some(format!("icmp_type {kind}")), code].into_iter().flatten().collect());
    }
    let name = if word == "echo" { "echo-request" } else { word };
    let is_of_ipv4 = |numbers: [Option<u8>; 2]| numbers[0].is_some();
    if icmp::type_numbers(name).is_some_and(is_of_ipv4) {
        return Some(vec![format!("icmp_type {name}")]);
    }
    icmp::code(name).filter(|(_, numbers)| is_of_ipv4(*numbers)).map(|_| vec![format!("icmp_code {name}")])
}

/// Translates a rule of nftables; `None` if a word of it is not known.
fn nftables(line: &str) -> Option<String> {
    let mut spaced = String::with_capacity(line.len() * 2);
    for c in line.trim_end_matches(';').chars() {
        if matches!(c, '{' | '}' | ',') {
            spaced.extend([' ', c, ' ']);
        } else {
            spaced.push(c);
        }
    }
    let mut words = Words { all: spaced.split_whitespace().collect(), at: 0 };
    if matches!(words.peek()?, "add" | "insert") {
        // Behind it stand the family, the table and the chain.
        words.next();
        if !words.take("rule") {
            return None;
        }
        words.at += 3;
    }
    let mut draft = Draft::default();
    let mut is_rule = false;
    loop {
        let word = words.next()?;
        match word {
            "accept" | "drop" | "reject" => {
                let action = if word == "accept" { "permit" } else { "deny" };
                let is_end = words.peek().is_none() || word == "reject" && words.take("with");
                return (is_rule && is_end).then(|| draft.rule(action));
            }
            "counter" => {
                if words.take("packets") {
                    let _ = (words.next()?, words.take("bytes"), words.next()?);
                }
                continue;
            }
            "log" => continue,
            _ => {}
        }
        is_rule = true;
        let field = words.next()?;
        let value = nftables_value(&mut words)?;
        let is_negated = value.starts_with("not ");
        let slot = match (word, field) {
            ("ip" | "ip6", "saddr") => &mut draft.src,
            ("ip" | "ip6", "daddr") => &mut draft.dst,
            ("tcp" | "udp" | "sctp" | "dccp" | "udplite" | "th", "sport") => &mut draft.sport,
            ("tcp" | "udp" | "sctp" | "dccp" | "udplite" | "th", "dport") => &mut draft.dport,
            ("ip", "protocol") | ("meta", "l4proto") => {
                draft.family = draft.family.or((word == "ip").then_some("ipv4"));
                let is_name = names::protocol(&value).is_some();
                fill(&mut draft.proto, if is_name { value } else { format!("proto {value}") })?;
                continue;
            }
            ("meta", "nfproto") => {
                draft.family = ["ipv4", "ipv6"].into_iter().find(|family| *family == value);
                draft.family?;
                continue;
            }
            ("icmp" | "icmpv6", "type") if !is_negated => {
                fill(&mut draft.proto, word.to_owned())?;
                draft.rest.push(format!("icmp_type {value}"));
                continue;
            }
            _ => return None,
        };
        // The second condition on a field would be lost.
        fill(slot, value)?;
        if matches!(word, "tcp" | "udp" | "sctp" | "dccp" | "udplite") {
            fill(&mut draft.proto, word.to_owned())?;
        }
    }
}

/// Sets a part of a rule; `None` if it has another value.
fn fill(slot: &mut Option<String>, value: String) -> Option<()> {
    let is_free = slot.as_ref().is_none_or(|old| *old == value);
    *slot = Some(value);
    is_free.then_some(())
}

/// Reads a value or a list of nftables, negated or not.
fn nftables_value(words: &mut Words<'_>) -> Option<String> {
    let not = if words.take("!=") { "not " } else { "" };
    words.take("==");
    let first = words.next()?;
    if first != "{" {
        return (!matches!(first, "}" | ",")).then(|| format!("{not}{first}"));
    }
    let mut all = Vec::new();
    loop {
        match words.next()? {
            "}" => return Some(format!("{not}{{ {} }}", all.join(", "))),
            "," => {}
            value => all.push(value),
        }
    }
}
