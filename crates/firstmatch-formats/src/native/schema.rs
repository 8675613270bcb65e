//! The directive `schema`: a preset, or the fields of the file's own schema.

use super::entry::ABSENT;
use super::except;
use super::fields::{FieldInfo, Fields, Takes};
use super::item;
use super::lexer::{Kind, described};
use super::names;
use super::parser::{FAMILY, KEYWORDS, Parser, SCHEMA, Stop};
use crate::report::{Message, Span, quote};
use crate::suggest::nearest;
use firstmatch_core::schema::{Field, Kind as FieldKind, MAX_FIELD_BITS, MAX_FIELDS, Schema, Source};

pub(crate) const KINDS: [(&str, FieldKind); 4] = [
    ("exact", FieldKind::Exact),
    ("prefix", FieldKind::Prefix),
    ("range", FieldKind::Range),
    ("mask", FieldKind::Mask),
];
const PRESET: &str = "openflow";

/// Fields read so far.
#[derive(Default)]
struct Block<'t> {
    infos: Vec<FieldInfo<'t>>,
    lines: Vec<u32>,
    optional: Vec<bool>,
}

impl<'t> Parser<'t> {
    /// Reads `schema openflow` or `schema { … }`.
    pub(super) fn schema(&mut self) -> Result<(), Stop> {
        let span = self.lexer.span;
        self.lexer.bump();
        let misplaced = if let Some(earlier) = self.given[SCHEMA] {
            Some(format!("schema is already given on line {earlier}"))
        } else if let Some(family) = self.given[FAMILY] {
            Some(format!("schema has no place beside the family of line {family}"))
        } else if self.in_body {
            Some("schema comes after a set or a rule; it must come before the first of them".to_owned())
        } else {
            None
        };
        self.given[SCHEMA].get_or_insert(span.line);
        if let Some(message) = &misplaced {
            self.report.fault(span, || message.as_str());
        }
        let before = self.report.count();
        let mut block = Block::default();
        let (kind, at) = (self.lexer.kind, self.lexer.span);
        let read = match (kind, self.lexer.word()) {
            (Kind::Word, PRESET) => {
                self.lexer.bump();
                if misplaced.is_none() {
                    self.fields = openflow();
                }
                return self.end_of_line();
            }
            (Kind::Open, _) => self.block(&mut block),
            (_, word) => {
                let what = format!("{} after schema", described(kind, word));
                let meant = if kind == Kind::Word { nearest(word, [PRESET]) } else { None };
                if meant.is_some() && misplaced.is_none() {
                    // The preset is taken, so that the rules are read as they are meant.
                    self.fields = openflow();
                    return self.fault(at, || Message::new(what).suggest(meant));
                }
                self.fault(at, || Message::new(what).suggest(meant).expected("`openflow`, or `{` and a field a line"))
            }
        };
        if misplaced.is_some() {
            return read;
        }
        if self.report.count() > before {
            self.fields = Fields::faulty(block.infos);
            return read;
        }
        let field = |(info, &optional): (&FieldInfo<'_>, &bool)| {
            let field = Field::new(info.name, info.width, info.kind, info.source);
            if optional { field.optional() } else { field }
        };
        let schema = Schema::new(None, block.infos.iter().zip(&block.optional).map(field).collect());
        self.fields = Fields::of(block.infos, schema);
        read
    }

    /// Reads the fields and the rest of the line with the `}`; the current token is the `{`.
    fn block(&mut self, block: &mut Block<'t>) -> Result<(), Stop> {
        let open = self.lexer.span;
        self.lexer.bump();
        if self.lexer.kind != Kind::Eol {
            let (kind, span) = (self.lexer.kind, self.lexer.span);
            let what = format!("{} after `{{`", described(kind, span.text(self.text)));
            self.report.fault(span, || Message::new(what).expected("the end of the line: each field has its own"));
            while !matches!(self.lexer.kind, Kind::Close | Kind::Eol) {
                self.lexer.bump();
            }
            if self.lexer.kind == Kind::Close {
                self.lexer.bump();
                return self.end_of_line();
            }
        }
        loop {
            if !self.lexer.next_line() {
                return self.unclosed_block(open);
            }
            match self.lexer.kind {
                Kind::Eol => {}
                Kind::Close => break,
                Kind::Word if KEYWORDS.contains(&self.lexer.word()) && !self.is_field_line() => {
                    // It is most likely the next statement.
                    self.resume = true;
                    return self.unclosed_block(open);
                }
                // The fault is noted; the next line is read nevertheless.
                _ => _ = self.field(block),
            }
        }
        if block.infos.is_empty() {
            let span = self.lexer.span;
            self.report.fault(span, || Message::new("a schema without fields").expected("a field a line"));
        }
        self.lexer.bump();
        self.end_of_line()
    }

    /// Whether the line looks like that of a field: a width and a kind follow its name.
    fn is_field_line(&self) -> bool {
        let mut ahead = self.lexer.clone();
        ahead.bump();
        let has_width = ahead.kind == Kind::Word && item::number(ahead.word()).is_ok();
        ahead.bump();
        has_width && ahead.kind == Kind::Word && KINDS.iter().any(|(name, _)| *name == ahead.word())
    }

    fn unclosed_block(&mut self, open: Span) -> Result<(), Stop> {
        self.fault(open, || Message::new("this `{` is never closed").expected("`}` on a line after the last field"))
    }

    /// Reads `NAME WIDTH KIND [from SOURCE] [optional]`.
    fn field(&mut self, block: &mut Block<'t>) -> Result<(), Stop> {
        let span = self.lexer.span;
        let name = self.field_name()?;
        if let Some(at) = block.infos.iter().position(|info| info.name == name) {
            let line = block.lines[at];
            return self.fault(span, || format!("there is already a field {} on line {line}", quote(name)));
        }
        if block.infos.len() == MAX_FIELDS {
            return self.fault(span, || format!("a schema has at most {MAX_FIELDS} fields"));
        }
        // Conditions on the field are accepted unchecked until the whole line has been read without a fault.
        let faulty =
            FieldInfo { takes: Takes::Anything, ..FieldInfo::new(name, MAX_FIELD_BITS, FieldKind::Exact, None) };
        block.infos.push(faulty);
        block.lines.push(span.line);
        block.optional.push(false);
        let last = block.infos.len() - 1;
        let width_span = self.lexer.span;
        let width = self.width()?;
        let kind = self.choice("a width", KINDS.map(|k| k.0).to_vec(), "`exact`, `prefix`, `range` or `mask`")?;
        let kind = KINDS[kind].1;
        let (mut source, mut optional) = (None, false);
        loop {
            self.skip_bad();
            if self.lexer.is_word("optional") && !optional {
                optional = true;
                self.lexer.bump();
            } else if self.lexer.is_word("from") && source.is_none() {
                self.lexer.bump();
                let names = Source::ALL.map(Source::name).to_vec();
                let index = self.choice("from", names, "the name of a header field, as `vlan_vid`")?;
                source = Some(Source::ALL[index]);
            } else if self.lexer.kind == Kind::Eol {
                break;
            } else {
                let (kind, span) = (self.lexer.kind, self.lexer.span);
                let what = format!("{} has no place here", described(kind, span.text(self.text)));
                let (expected, words): (_, &[&str]) = match (source, optional) {
                    (None, false) => {
                        ("`from` and a header field, `optional` or the end of the line", &["from", "optional"])
                    }
                    (None, true) => ("`from` and a header field or the end of the line", &["from"]),
                    (Some(_), false) => ("`optional` or the end of the line", &["optional"]),
                    (Some(_), true) => ("the end of the line", &[]),
                };
                let word = if kind == Kind::Word { self.lexer.word() } else { "" };
                let meant = nearest(word, words.iter().copied());
                return self.fault(span, || Message::new(what).suggest(meant).expected(expected));
            }
        }
        if let Some(source) = source {
            self.check_width(source, width, width_span, &block.infos)?;
        }
        block.infos[last] = FieldInfo { optional, ..FieldInfo::new(name, width, kind, source) };
        block.optional[last] = optional;
        Ok(())
    }

    fn field_name(&mut self) -> Result<&'t str, Stop> {
        self.skip_bad();
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let word = self.lexer.word();
        let is_name = word.starts_with(|c: char| c.is_ascii_alphabetic()) && !word.contains(['.', ':']);
        if kind != Kind::Word || !is_name {
            let what = format!("{} where a field's name should be", described(kind, word));
            let expected = "a name (a letter, then letters, digits, `_` or `-`) or `}`";
            return self.fault_with(span, || Message::new(what).expected(expected));
        }
        if has_a_meaning(word) {
            let what = format!("{} has a meaning in rules", quote(word));
            return self.fault_with(span, || Message::new(what).expected("another name for the field"));
        }
        self.lexer.bump();
        Ok(word)
    }

    fn width(&mut self) -> Result<u32, Stop> {
        self.skip_bad();
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let word = self.lexer.word();
        let number = if kind == Kind::Word { item::number(word).ok() } else { None };
        if let Some(width) = number.filter(|width| (1..=MAX_FIELD_BITS).contains(width)) {
            self.lexer.bump();
            return Ok(width);
        }
        let what = match number {
            Some(_) => format!("a width of {word} bits"),
            None => format!("{} where a field's width should be", described(kind, word)),
        };
        self.fault_with(span, || Message::new(what).expected(format!("its width in bits, 1 to {MAX_FIELD_BITS}")))
    }

    /// Reads one of `words` and returns its index.
    fn choice(&mut self, after: &str, words: Vec<&'static str>, expected: &str) -> Result<usize, Stop> {
        self.skip_bad();
        let (kind, span) = (self.lexer.kind, self.lexer.span);
        let word = self.lexer.word();
        if let Some(index) = words.iter().position(|&known| kind == Kind::Word && known == word) {
            self.lexer.bump();
            return Ok(index);
        }
        let meant = if kind == Kind::Word { nearest(word, words) } else { None };
        let what = format!("{} after {after}", described(kind, word));
        self.fault_with(span, || Message::new(what).suggest(meant).expected(expected))
    }

    /// Checks that a field of this width holds exactly the bits of the header field.
    fn check_width(&mut self, source: Source, width: u32, span: Span, infos: &[FieldInfo<'t>]) -> Result<(), Stop> {
        use firstmatch_core::schema::Family::{Ipv4, Ipv6};
        let (name, four, six) = (source.name(), source.width(Ipv4), source.width(Ipv6));
        if width != four && width != six {
            let expected = if four == six { four.to_string() } else { format!("{four} for IPv4, {six} for IPv6") };
            let what = format!("{name} does not have {width} bits");
            return self.fault(span, || Message::new(what).expected(expected));
        }
        let other = infos.iter().find(|info| matches!(info.source, Some(Source::Src | Source::Dst)));
        if let (Some(other), Source::Src | Source::Dst) = (other, source)
            && other.width != width
        {
            let (before, bits) = (other.name, other.width);
            let what = format!("{width} bits, but {bits} for {}: a packet is of one family", quote(before));
            return self.fault(span, || Message::new(what).expected(format!("{bits}")));
        }
        Ok(())
    }

    fn fault_with<T>(&mut self, span: Span, message: impl FnOnce() -> Message) -> Result<T, Stop> {
        self.report.fault(span, message);
        Err(Stop)
    }
}

/// Whether a word has a meaning in rules, so that it cannot be the name of a field.
fn has_a_meaning(word: &str) -> bool {
    matches!(word, "not" | "any" | ABSENT | except::EXCEPT)
        || names::is_family(word)
        || names::protocol(word).is_some()
        || KEYWORDS.contains(&word)
}

/// Whether a field of the file's own schema can have this name.
pub(crate) fn is_field_name(name: &str) -> bool {
    let inside = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    name.starts_with(|c: char| c.is_ascii_alphabetic()) && name.bytes().all(inside) && !has_a_meaning(name)
}

fn openflow() -> Fields<'static> {
    let schema = Schema::openflow();
    let info = |field: &Field| {
        let source = field.source();
        let name = source.map_or("", Source::name);
        FieldInfo { optional: field.is_optional(), ..FieldInfo::new(name, field.width(), field.kind(), source) }
    };
    Fields::of(schema.fields().iter().map(info).collect(), schema)
}
