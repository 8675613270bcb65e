//! Sentences drawn from a grammar.
//!
//! This file keeps what the grammar leaves to the manual's words. A field takes values of its kind and has one
//! condition a rule, and a directive stands once.

use firstmatch_core::schema::Source;

use super::ebnf::{Expr, Grammar};
use firstmatch_testkit::rng::Rng;

pub(crate) type Token = String;

/// Head of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Head {
    Inet,
    Openflow,
    /// A schema of the file's own.
    Own,
}

/// Fields of schemas of their own: width, kind, source.
const OWN: [(&str, &str, Option<Source>); 6] = [
    ("8", "exact", Some(Source::Proto)),
    ("16", "range", Some(Source::EthType)),
    ("32", "range", Some(Source::Ipv4Src)),
    ("32", "prefix", Some(Source::Ipv4Dst)),
    ("48", "exact", Some(Source::EthDst)),
    ("64", "mask", None),
];

/// Sort of values that a field takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Ip,
    Ipv4,
    Mac,
    Protocol,
    EtherType,
    IcmpType,
    Port,
    TcpFlags,
    Number,
}

impl Head {
    pub(crate) fn fields(self) -> Vec<Token> {
        let names = |sources: &[Source]| sources.iter().map(|source| source.name().to_owned()).collect();
        match self {
            Self::Inet => names(&Source::ALL[..15]),
            Self::Openflow => {
                let schema = firstmatch_core::Schema::openflow();
                schema.fields().iter().map(|field| field.name().to_owned()).collect()
            }
            Self::Own => (0..OWN.len()).map(|at| format!("f{at}")).collect(),
        }
    }

    /// Whether packets may lack a field. Those of schemas of their own have the word by chance.
    fn is_optional(self, field: &str) -> bool {
        match self {
            Self::Inet => !["src", "dst", "proto"].contains(&field),
            Self::Openflow => !["in_port", "metadata"].contains(&field),
            Self::Own => false,
        }
    }

    fn takes(self, field: &str) -> Takes {
        let source = match self {
            Self::Own => OWN[field[1..].parse::<usize>().expect("a number")].2,
            _ => Source::by_name(field),
        };
        match source {
            Some(Source::Src | Source::Dst) => Takes::Ip,
            Some(Source::Ipv4Src | Source::Ipv4Dst) => Takes::Ipv4,
            Some(Source::EthSrc | Source::EthDst) => Takes::Mac,
            Some(Source::Proto | Source::IpProto) => Takes::Protocol,
            Some(Source::EthType) => Takes::EtherType,
            Some(Source::IcmpType) => Takes::IcmpType,
            Some(Source::SrcPort | Source::DstPort | Source::TpSrc | Source::TpDst) => Takes::Port,
            Some(Source::TcpFlags) => Takes::TcpFlags,
            _ => Takes::Number,
        }
    }
}

/// Part of a value with exceptions: the whole must hold its parts, and more than them.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Elsewhere,
    Whole,
    Part,
}

/// Sentence so far, and constraints of its words on the next ones.
///
/// Where no word fits, the way there is taken back.
#[derive(Clone)]
struct State {
    tokens: Vec<Token>,
    /// Directives that were given.
    given: Vec<String>,
    in_body: bool,
    /// Number of own fields read so far; in a line of a schema, the field of the line.
    named: usize,
    sets: usize,
    /// Sort of values of each set, by its number.
    set_takes: Vec<Takes>,
    /// Fields that the rule has conditions on, and whether it is confined.
    used: Vec<Token>,
    confined: bool,
    takes: Option<Takes>,
    /// Field of the condition.
    field: Token,
    /// Part of a value with exceptions that is being drawn.
    place: Place,
    family: Option<String>,
}

pub(crate) struct Drawer<'g> {
    grammar: &'g Grammar,
    head: Head,
    random: Rng,
    used: &'g mut [bool],
}

impl<'g> Drawer<'g> {
    pub(crate) fn new(grammar: &'g Grammar, head: Head, random: Rng, used: &'g mut [bool]) -> Self {
        Self { grammar, head, random, used }
    }

    /// Draws a file of a few lines.
    pub(crate) fn file(mut self) -> Vec<Token> {
        let mut state = State {
            tokens: Vec::new(),
            given: Vec::new(),
            in_body: false,
            named: 0,
            sets: 0,
            set_takes: Vec::new(),
            used: Vec::new(),
            confined: false,
            takes: None,
            field: String::new(),
            place: Place::Elsewhere,
            family: None,
        };
        let Some(Expr::Repeated(line)) = self.grammar.production("file") else { panic!("a file is lines") };
        let lines = 3 + self.random.below(6);
        let mut read = 0;
        while read < lines {
            if let Some(next) = self.draw(line, state.clone(), "file") {
                // The schema comes first.
                let says = self.head == Head::Inet || next.given.iter().any(|word| word == "schema");
                if says || next.tokens.last().is_some_and(|_| next.tokens.len() == state.tokens.len() + 1) {
                    state = next;
                    read += usize::from(says);
                }
            }
        }
        state.tokens
    }

    /// Returns the sentence with a part of the grammar behind it; `None` where no word fits.
    fn draw(&mut self, expr: &'g Expr, mut state: State, of: &str) -> Option<State> {
        match expr {
            Expr::Literal(word) => self.literal(word, state, of),
            Expr::Name(name) => match self.grammar.production(name) {
                Some(expr) => {
                    if name == "rule" {
                        (state.used, state.confined) = (Vec::new(), false);
                    }
                    if name == "set" {
                        let kinds: &[Takes] = if self.head == Head::Inet {
                            &[Takes::Ip, Takes::Number, Takes::Protocol]
                        } else {
                            &[Takes::Number]
                        };
                        state.takes = Some(kinds[self.random.below(kinds.len())]);
                    }
                    state.in_body |= name == "rule" || name == "set";
                    state.place = match name.as_str() {
                        "but" => Place::Whole,
                        "ipv4" | "ipv6" | "mac" | "number" => Place::Part,
                        _ => state.place,
                    };
                    let drawn = self.draw(expr, state, name)?;
                    let ended = match name.as_str() {
                        "set" => State { sets: drawn.sets + 1, takes: None, ..drawn },
                        "field" => {
                            let has_source = line(&drawn).any(|token| token == "from");
                            if has_source != OWN[drawn.named].2.is_some() {
                                return None;
                            }
                            State { named: drawn.named + 1, ..drawn }
                        }
                        "condition" => State { takes: None, family: None, ..drawn },
                        "item" => State { family: None, ..drawn },
                        "but" => State { family: None, place: Place::Elsewhere, ..drawn },
                        _ => drawn,
                    };
                    Some(ended)
                }
                None => self.word(name, state),
            },
            Expr::Sequence(all) => all.iter().try_fold(state, |state, one| self.draw(one, state, of)),
            Expr::Choice(first, all) => {
                let start = self.random.below(all.len());
                (0..all.len()).map(|step| (start + step) % all.len()).find_map(|at| {
                    let drawn = self.draw(&all[at], state.clone(), of)?;
                    self.used[first + at] = true;
                    Some(drawn)
                })
            }
            Expr::Optional(one) => {
                let drawn = if self.random.below(2) == 0 { self.draw(one, state.clone(), of) } else { None };
                Some(drawn.unwrap_or(state))
            }
            Expr::Repeated(one) => {
                // A schema has all of its fields.
                let most = if of == "directive" { 99 } else { self.random.below(4) };
                for _ in 0..most {
                    if of == "directive" && state.named == OWN.len() {
                        break;
                    }
                    match self.draw(one, state.clone(), of) {
                        Some(next) => state = next,
                        None => break,
                    }
                }
                (of != "directive" || state.named == OWN.len()).then_some(state)
            }
        }
    }

    fn literal(&mut self, word: &str, mut state: State, of: &str) -> Option<State> {
        let beside = |state: &State, other: &str| state.given.iter().any(|given| given == other);
        match (of, word) {
            ("directive", "family") if self.head != Head::Inet || state.in_body => return None,
            ("directive", "schema") if self.head == Head::Inet || state.in_body => return None,
            ("directive", "openflow") if self.head != Head::Openflow => return None,
            ("directive", "{") if self.head != Head::Own => return None,
            ("directive", "family" | "schema" | "default" | "unknown" | "fragments") => {
                let is_choice = state.tokens.last().is_some_and(|last| last == "fragments");
                if !is_choice {
                    if beside(&state, word) {
                        return None;
                    }
                    state.given.push(word.to_owned());
                }
            }
            // A file of one family takes no address of the other.
            ("directive", "ipv4" | "ipv6") => state.given.push(word.to_owned()),
            ("only", "family") => {
                if self.head != Head::Inet || only(&state).is_some() {
                    return None;
                }
                if state.takes.is_none() && std::mem::replace(&mut state.confined, true) {
                    return None;
                }
            }
            ("condition", "tcp") => {
                let fields = ["proto", "tcp_flags"].map(str::to_owned);
                if self.head != Head::Inet || fields.iter().any(|field| state.used.contains(field)) {
                    return None;
                }
                state.used.extend(fields);
                state.takes = Some(Takes::TcpFlags);
            }
            ("entry", "absent") if self.head != Head::Inet || state.takes != Some(Takes::Number) => return None,
            ("item", "absent") if !self.head.is_optional(&state.field) => return None,
            ("flag", _) if state.takes != Some(Takes::TcpFlags) => return None,
            ("only", family) if state.takes.is_some() => state.family = Some(family.to_owned()),
            ("kind", kind) if OWN[state.named.min(OWN.len() - 1)].1 != kind => return None,
            ("source", "from") if line(&state).any(|token| token == "from") => return None,
            _ => {}
        }
        state.tokens.push(word.to_owned());
        Some(state)
    }

    fn word(&mut self, kind: &str, mut state: State) -> Option<State> {
        let takes = state.takes;
        let of = |family: &str| state.family.as_deref().or(only(&state)).is_none_or(|only| only == family);
        let behind = state.tokens.last().map_or("", String::as_str);
        let word = match kind {
            "NEWLINE" => {
                state.takes = None;
                state.takes = takes.filter(|_| self.is_open(&state));
                "\n".to_owned()
            }
            "NAME" if behind == "set" => {
                state.set_takes.push(takes?);
                format!("s{}", state.sets)
            }
            "NAME" => (state.named < OWN.len()).then(|| format!("f{}", state.named))?,
            "NUMBER" if behind == "mark" => ["0", "7", "0xffffffff"][self.random.below(3)].to_owned(),
            "NUMBER" if behind.starts_with('f') && state.named < OWN.len() && takes.is_none() => {
                OWN[state.named].0.to_owned()
            }
            "NUMBER" if behind == "/" && is_address(&state) => {
                // A whole has several values, a part one.
                let is = |text| state.tokens.iter().rev().nth(1).is_some_and(|token| token.contains(text));
                match (state.place, state.tokens.iter().rev().nth(1).is_some_and(|token| token.len() == 17)) {
                    (Place::Whole, _) if is(".") => "16",
                    (Place::Part, true) => "48",
                    (Place::Part, _) if is("::") => "128",
                    _ => "32",
                }
                .to_owned()
            }
            "NUMBER" if matches!(takes?, Takes::Ip | Takes::Ipv4) => return None,
            "NUMBER" if state.place == Place::Part => ["2", "0x2"][self.random.below(2)].to_owned(),
            // These are both a range from 1 and a mask around it.
            "NUMBER" if matches!(behind, "-" | "/") => ["3", "0x3"][self.random.below(2)].to_owned(),
            "NUMBER" => ["1", "0X1", "0x1"][self.random.below(3)].to_owned(),
            "IPV4" if behind == "/" => "255.255.0.0".to_owned(),
            "IPV4" if matches!(takes?, Takes::Ip | Takes::Ipv4) && of("ipv4") => {
                at(&state, ["10.1.0.0", "10.1.255.255", "10.1.0.7"]).to_owned()
            }
            "IPV6" if behind == "/" => "ffff::".to_owned(),
            "IPV6" if takes? == Takes::Ip && of("ipv6") => at(&state, ["2001::", "2001::ffff", "2001::7"]).to_owned(),
            "MAC" if takes? == Takes::Mac => {
                let macs = ["02:00:00:01:00:00", "02:00:00:01:00:ff", "02:00:00:01:00:07"];
                if behind == "/" { "ff:ff:ff:ff:ff:ff" } else { at(&state, macs) }.to_owned()
            }
            "WORD" => match takes? {
                Takes::Protocol => "tcp".to_owned(),
                Takes::EtherType => "arp".to_owned(),
                Takes::IcmpType => "echo-request".to_owned(),
                Takes::Port => "ssh".to_owned(),
                Takes::TcpFlags => ["syn", "established"][self.random.below(2)].to_owned(),
                _ => return None,
            },
            "FLAG" => {
                let flags = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
                let is_flag = |token: &&Token| flags.contains(&token.as_str()) || matches!(token.as_str(), "," | "!");
                let before: Vec<_> = state.tokens.iter().rev().take_while(is_flag).collect();
                let left: Vec<_> = flags.into_iter().filter(|flag| !before.iter().any(|token| token == flag)).collect();
                (takes == Some(Takes::TcpFlags)).then(|| left[self.random.below(left.len())].to_owned())?
            }
            "LABEL" => "\"the web\"".to_owned(),
            "STRING" => match takes? {
                Takes::Ip if of("ipv4") => "\"addresses\"".to_owned(),
                Takes::Number => "\"numbers\"".to_owned(),
                _ => return None,
            },
            "SET" => {
                let takes = match takes? {
                    Takes::Port | Takes::TcpFlags => Takes::Number,
                    takes => takes,
                };
                let is_set = |at: &usize| state.set_takes[*at] == takes;
                let known: Vec<usize> = (0..state.sets).filter(is_set).collect();
                // Nothing says before a set which family it may hold.
                let one = known.get(self.random.below(known.len().max(1)))?;
                format!("$s{one}")
            }
            "FIELD" => {
                let fields = self.head.fields();
                let field = fields[self.random.below(fields.len())].clone();
                if state.used.contains(&field) {
                    return None;
                }
                state.takes = Some(self.head.takes(&field));
                state.used.push(field.clone());
                state.tokens.push(field.clone());
                state.field = field;
                return Some(state);
            }
            "SOURCE" => OWN[state.named].2?.name().to_owned(),
            "PROTOCOL" => {
                let fields = self.head.fields();
                let field = fields.into_iter().find(|field| self.head.takes(field) == Takes::Protocol)?;
                if state.used.contains(&field) {
                    return None;
                }
                state.used.push(field);
                ["tcp", "udp", "icmp"][self.random.below(3)].to_owned()
            }
            _ => return None,
        };
        state.tokens.push(word);
        Some(state)
    }

    /// Whether the end of a line is inside the braces of a set.
    fn is_open(&self, state: &State) -> bool {
        let since = state.tokens.iter().rev().take_while(|token| *token != "set");
        let since: Vec<_> = since.collect();
        since.len() < state.tokens.len() && since.iter().any(|t| *t == "{") && !since.iter().any(|t| *t == "}")
    }
}

/// Returns the family that the file is confined to.
fn only(state: &State) -> Option<&str> {
    state.given.iter().map(String::as_str).find(|given| matches!(*given, "ipv4" | "ipv6"))
}

/// Returns the words of the line so far, the last first.
fn line(state: &State) -> impl Iterator<Item = &Token> {
    state.tokens.iter().rev().take_while(|token| *token != "\n")
}

/// Returns the first value, the last one of a whole, or the one of a part.
fn at<'v>(state: &State, [first, last, part]: [&'v str; 3]) -> &'v str {
    match state.place {
        Place::Part => part,
        Place::Whole if state.tokens.last().is_some_and(|token| token == "-") => last,
        _ => first,
    }
}

/// Whether an address stands before the `/`.
fn is_address(state: &State) -> bool {
    state.tokens.iter().rev().nth(1).is_some_and(|token| token.contains(['.', ':']))
}
