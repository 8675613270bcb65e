//! Grammar in EBNF, read from text, and whether it has a sentence.

use std::collections::BTreeSet;

use firstmatch_core::schema::{ExtensionHeader, Family, Source};
use firstmatch_formats::native::{icmp_code_numbers, icmp_type_number, protocol_number, service_port, tcp_flag};

#[derive(Debug)]
pub(crate) enum Expr {
    Literal(String),
    /// Name of another production, or of a kind of word (in capitals).
    Name(String),
    Sequence(Vec<Expr>),
    /// Alternatives, with the number of the first.
    Choice(usize, Vec<Expr>),
    Optional(Box<Expr>),
    Repeated(Box<Expr>),
}

pub(crate) struct Grammar {
    productions: Vec<(String, Expr)>,
    /// Each alternative as text, for messages.
    shown: Vec<String>,
}

const ETHER_TYPES: [&str; 8] = ["arp", "ipv4", "ipv6", "lldp", "mpls", "mpls-multicast", "pppoe", "vlan"];

impl Grammar {
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or(line));
        let spaced = lines.collect::<Vec<_>>().join("\n");
        let mut tokens = Vec::new();
        for line in spaced.lines() {
            let mut words = line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            if words.get(1).is_some_and(|word| word == "=") {
                tokens.push(";".to_owned());
            }
            tokens.append(&mut words);
        }
        tokens.push(";".to_owned());
        let mut grammar = Self { productions: Vec::new(), shown: Vec::new() };
        let mut at = 1;
        while at < tokens.len() {
            let name = tokens[at].clone();
            assert_eq!(tokens[at + 1], "=", "a production of {name}");
            at += 2;
            let expr = grammar.choice(&name, &tokens, &mut at);
            assert_eq!(tokens[at], ";", "the end of {name}");
            at += 1;
            grammar.productions.push((name, expr));
        }
        grammar
    }

    fn choice(&mut self, of: &str, tokens: &[String], at: &mut usize) -> Expr {
        let mut all = vec![self.sequence(of, tokens, at)];
        while tokens[*at] == "|" {
            *at += 1;
            all.push(self.sequence(of, tokens, at));
        }
        if all.len() == 1 {
            return all.remove(0);
        }
        let first = self.shown.len();
        self.shown.extend(all.iter().map(|expr| format!("{of}: {expr:?}")));
        Expr::Choice(first, all)
    }

    fn sequence(&mut self, of: &str, tokens: &[String], at: &mut usize) -> Expr {
        let mut all = Vec::new();
        loop {
            let token = tokens[*at].as_str();
            let close = match token {
                "|" | ")" | "]" | "}" | ";" => break,
                "(" => ")",
                "[" => "]",
                "{" => "}",
                _ => "",
            };
            *at += 1;
            if close.is_empty() {
                let literal = token.strip_prefix('"').and_then(|token| token.strip_suffix('"'));
                all.push(literal.map_or(Expr::Name(token.to_owned()), |word| Expr::Literal(word.to_owned())));
                continue;
            }
            let inner = Box::new(self.choice(of, tokens, at));
            assert_eq!(tokens[*at], close, "in {of}");
            *at += 1;
            all.push(match close {
                ")" => *inner,
                "]" => Expr::Optional(inner),
                _ => Expr::Repeated(inner),
            });
        }
        if all.len() == 1 { all.remove(0) } else { Expr::Sequence(all) }
    }

    pub(crate) fn alternatives(&self) -> usize {
        self.shown.len()
    }

    pub(crate) fn show(&self, alternative: usize) -> &str {
        &self.shown[alternative]
    }

    pub(crate) fn production(&self, name: &str) -> Option<&Expr> {
        self.productions.iter().find(|(of, _)| of == name).map(|(_, expr)| expr)
    }

    /// Whether the grammar has a sentence, where `fields` are the fields.
    pub(crate) fn has(&self, tokens: &[String], fields: &[String]) -> bool {
        let file = self.production("file").expect("a production of files");
        self.ends(file, tokens, 0, fields).contains(&tokens.len())
    }

    /// Returns where a part of the grammar that begins at token `at` may end.
    fn ends(&self, expr: &Expr, tokens: &[String], at: usize, fields: &[String]) -> BTreeSet<usize> {
        match expr {
            Expr::Literal(word) => tokens.get(at).filter(|token| *token == word).map(|_| at + 1).into_iter().collect(),
            Expr::Name(name) => match self.production(name) {
                Some(expr) => self.ends(expr, tokens, at, fields),
                None => tokens.get(at).filter(|token| is_a(name, token, fields)).map(|_| at + 1).into_iter().collect(),
            },
            Expr::Sequence(all) => all.iter().fold(BTreeSet::from([at]), |ends, one| {
                ends.into_iter().flat_map(|end| self.ends(one, tokens, end, fields)).collect()
            }),
            Expr::Choice(_, all) => all.iter().flat_map(|one| self.ends(one, tokens, at, fields)).collect(),
            Expr::Optional(one) => self.ends(one, tokens, at, fields).into_iter().chain([at]).collect(),
            Expr::Repeated(one) => {
                let mut all = BTreeSet::from([at]);
                let mut open = vec![at];
                while let Some(from) = open.pop() {
                    for end in self.ends(one, tokens, from, fields) {
                        if all.insert(end) {
                            open.push(end);
                        }
                    }
                }
                all
            }
        }
    }
}

pub(crate) fn is_number(token: &str) -> bool {
    match token.strip_prefix("0x").or_else(|| token.strip_prefix("0X")) {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit()),
        None => {
            let digits = !token.is_empty() && token.bytes().all(|b| b.is_ascii_digit());
            digits && (token == "0" || !token.starts_with('0'))
        }
    }
}

/// Whether a token is a word of a kind, by the table below the grammar.
fn is_a(kind: &str, token: &str, fields: &[String]) -> bool {
    let is_name = |name: &str| {
        let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
        name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(inside)
    };
    let is_mac = token.split(':').count() == 6 && token.split(':').all(|part| part.len() == 2);
    match kind {
        "NEWLINE" => token == "\n",
        "NAME" => is_name(token),
        "SET" => token.strip_prefix('$').is_some_and(is_name),
        "NUMBER" => is_number(token),
        "IPV4" => token.parse::<std::net::Ipv4Addr>().is_ok(),
        "IPV6" => token.parse::<std::net::Ipv6Addr>().is_ok(),
        "MAC" => is_mac,
        "FIELD" => fields.iter().any(|field| field == token),
        "STRING" => token.len() > 1 && token.starts_with('"') && token.ends_with('"'),
        "LABEL" => (3..=202).contains(&token.chars().count()) && token.starts_with('"') && token.ends_with('"'),
        "FLAG" => tcp_flag(token).is_some(),
        "SOURCE" => Source::by_name(token).is_some(),
        "PROTOCOL" => protocol_number(token).is_some() && token != "ipv6",
        "WORD" => {
            let is_icmp = |&family: &Family| {
                icmp_type_number(family, token).is_some() || icmp_code_numbers(family, token).is_some()
            };
            let is_flag = token == "established" || tcp_flag(token).is_some();
            let is_name = protocol_number(token).is_some() || service_port(token).is_some();
            let is_header = ExtensionHeader::by_name(token).is_some();
            let is_any = is_flag || is_name || is_header || ETHER_TYPES.contains(&token);
            is_any || [Family::Ipv4, Family::Ipv6].iter().any(is_icmp)
        }
        _ => panic!("the grammar has no production of {kind}"),
    }
}
