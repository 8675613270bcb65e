//! Tokens of the native format, line by line.

use crate::hidden;
use crate::report::{Span, quote};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Keyword, name, number or address: letters, digits, `_`, `.` and `:`, in names also `-`.
    Word,
    /// `$` and the name of a set.
    Set,
    /// Text between double quotes, on one line.
    Quoted,
    Open,
    Close,
    Comma,
    Dash,
    Slash,
    Equals,
    /// `!` before a TCP flag that must not be set.
    Not,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    /// End of the line, or of the text.
    Eol,
    /// Character that is not allowed anywhere.
    Bad,
}

impl Kind {
    /// Returns the name of the kind, for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Word => "a word",
            Self::Set => "a set",
            Self::Quoted => "a text in quotes",
            Self::Open => "`{`",
            Self::Close => "`}`",
            Self::Comma => "`,`",
            Self::Dash => "`-`",
            Self::Slash => "`/`",
            Self::Equals => "`=`",
            Self::Not => "`!`",
            Self::Less => "`<`",
            Self::LessOrEqual => "`<=`",
            Self::Greater => "`>`",
            Self::GreaterOrEqual => "`>=`",
            Self::Eol => "nothing",
            Self::Bad => "a stray character",
        }
    }
}

/// Lexer over a text; `kind` and `span` are the current token.
///
/// The last token of each line is [`Kind::Eol`].
#[derive(Clone)]
pub(super) struct Lexer<'t> {
    text: &'t str,
    pos: usize,
    pub(super) kind: Kind,
    pub(super) span: Span,
    /// End of the previous token, as a byte offset.
    last_end: usize,
}

impl<'t> Lexer<'t> {
    /// Builds a lexer at the first token of line 1, which begins at the byte `start`.
    pub(super) fn new(text: &'t str, start: usize) -> Self {
        let span = Span { line: 1, line_start: start, start, end: start };
        let mut lexer = Self { text, pos: start, kind: Kind::Eol, span, last_end: start };
        lexer.bump();
        lexer
    }

    /// Returns the text of the current token.
    pub(super) fn word(&self) -> &'t str {
        &self.text[self.span.start..self.span.end]
    }

    /// Whether the current token is a number or an address.
    pub(super) fn is_at_value(&self) -> bool {
        let word = self.word();
        self.kind == Kind::Word && (word.starts_with(|c: char| c.is_ascii_digit()) || word.contains([':', '.']))
    }

    /// Returns the text of a span.
    pub(super) fn text_of(&self, span: Span) -> &'t str {
        &self.text[span.start..span.end]
    }

    /// Returns the empty span at the end of the previous token, on the current line.
    pub(super) fn before(&self) -> Span {
        Span { start: self.last_end, end: self.last_end, ..self.span }
    }

    pub(super) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.word() == word
    }

    /// Whether a token of this kind follows on this line.
    pub(super) fn has_ahead(&self, kind: Kind) -> bool {
        let mut ahead = self.clone();
        while ahead.kind != Kind::Eol && ahead.kind != kind {
            ahead.bump();
        }
        ahead.kind == kind
    }

    /// Goes to the first token of the next line; false at the end of the text.
    pub(super) fn next_line(&mut self) -> bool {
        let rest = &self.text.as_bytes()[self.pos..];
        let Some(newline) = rest.iter().position(|&b| b == b'\n') else {
            self.pos = self.text.len();
            self.set(Kind::Eol, self.pos);
            return false;
        };
        self.pos += newline + 1;
        self.span.line = self.span.line.saturating_add(1);
        self.span.line_start = self.pos;
        self.bump();
        true
    }

    /// Goes to the next token of this line.
    pub(super) fn bump(&mut self) {
        let bytes = self.text.as_bytes();
        let mut at = self.pos;
        self.last_end = at;
        while matches!(bytes.get(at), Some(b' ' | b'\t')) {
            at += 1;
        }
        self.span.start = at;
        let kind = match bytes.get(at) {
            None | Some(b'\n') => Kind::Eol,
            Some(b'#') => match stray_return(&bytes[at..]) {
                // The author of the file sees the next text as a line of its own, so it is not part of the comment.
                Some(after) => {
                    self.span.start = at + after;
                    return self.set(Kind::Bad, at + after + 1);
                }
                None => Kind::Eol,
            },
            Some(b'\r') if matches!(bytes.get(at + 1), None | Some(b'\n')) => Kind::Eol,
            Some(b'{') => Kind::Open,
            Some(b'}') => Kind::Close,
            Some(b',') => Kind::Comma,
            Some(b'-') => Kind::Dash,
            Some(b'/') => Kind::Slash,
            Some(b'=') => Kind::Equals,
            Some(b'!') => Kind::Not,
            Some(b'<') if bytes.get(at + 1) == Some(&b'=') => return self.set(Kind::LessOrEqual, at + 2),
            Some(b'>') if bytes.get(at + 1) == Some(&b'=') => return self.set(Kind::GreaterOrEqual, at + 2),
            Some(b'<') => Kind::Less,
            Some(b'>') => Kind::Greater,
            Some(b'"') if let Some(end) = quoted_end(bytes, at) => return self.set(Kind::Quoted, end),
            Some(b'$') => return self.set(Kind::Set, name_end(bytes, at + 1)),
            Some(&b) if is_word(b) || b == b':' => return self.set(Kind::Word, word_end(bytes, at)),
            Some(_) => {
                let width = self.text[at..].chars().next().map_or(1, char::len_utf8);
                return self.set(Kind::Bad, at + width);
            }
        };
        self.set(kind, if kind == Kind::Eol { at } else { at + 1 });
    }

    fn set(&mut self, kind: Kind, end: usize) {
        self.kind = kind;
        self.span.start = self.span.start.min(end);
        self.span.end = end;
        self.pos = end;
    }
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')
}

/// Returns the position of a carriage return in a comment that does not end its line.
fn stray_return(comment: &[u8]) -> Option<usize> {
    let line = comment.split(|&b| b == b'\n').next().unwrap_or(comment);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.iter().position(|&b| b == b'\r')
}

/// Returns the end of a name that starts at `at`.
fn name_end(bytes: &[u8], at: usize) -> usize {
    let inside = |&&b: &&u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-');
    at + bytes[at..].iter().take_while(inside).count()
}

/// Returns the end of a text in quotes that starts at `at`; `None` if its line has no second quote.
fn quoted_end(bytes: &[u8], at: usize) -> Option<usize> {
    let inside = bytes[at + 1..].iter().take_while(|&&b| b != b'\n');
    inside.enumerate().find(|(_, b)| **b == b'"').map(|(len, _)| at + len + 2)
}

/// Returns the end of a word that starts at `at`.
///
/// In a name (letters first, no dot or colon) `-` is a letter, elsewhere it joins the ends of a range. For example,
/// `echo-request` is one word, and `80-90` is three tokens.
fn word_end(bytes: &[u8], at: usize) -> usize {
    let mut name = bytes[at].is_ascii_alphabetic();
    let mut end = at;
    while let Some(&b) = bytes.get(end) {
        match b {
            b'.' | b':' => name = false,
            b'-' if name => {}
            _ if is_word(b) => {}
            _ => break,
        }
        end += 1;
    }
    end
}

/// Describes a token, for messages.
pub(super) fn described(kind: Kind, word: &str) -> String {
    match kind {
        Kind::Word | Kind::Set | Kind::Quoted => quote(word),
        Kind::Bad => format!("the character {}", visible(word)),
        _ => kind.name().to_owned(),
    }
}

fn visible(character: &str) -> String {
    match character.chars().next() {
        Some(c) if hidden::is_hidden(c) => hidden::name(c),
        _ => quote(character),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<(Kind, &str)> {
        let mut lexer = Lexer::new(line, 0);
        let mut out = Vec::new();
        while lexer.kind != Kind::Eol {
            out.push((lexer.kind, lexer.word()));
            lexer.bump();
        }
        out
    }

    #[test]
    fn a_dash_belongs_to_names_and_parts_numbers_and_addresses() {
        for (line, expected) in [
            ("echo-request", vec!["echo-request"]),
            ("80-90", vec!["80", "-", "90"]),
            ("0x10 -0x1f", vec!["0x10", "-", "0x1f"]),
            ("fe80::1-fe80::9", vec!["fe80::1", "-", "fe80::9"]),
            ("10.0.0.1-10.0.0.2", vec!["10.0.0.1", "-", "10.0.0.2"]),
            ("{$web-1,::/0}", vec!["{", "$web-1", ",", "::", "/", "0", "}"]),
            ("syn,!ack>=1<=0x2< 3", vec!["syn", ",", "!", "ack", ">=", "1", "<=", "0x2", "<", "3"]),
            ("a é\0b # c", vec!["a", "é", "\0", "b"]),
        ] {
            assert_eq!(words(line).iter().map(|w| w.1).collect::<Vec<_>>(), expected, "{line}");
        }
    }

    #[test]
    fn a_comment_does_not_swallow_the_lines_of_an_old_mac() {
        assert_eq!(words("a # b\rc\r"), [(Kind::Word, "a"), (Kind::Bad, "\r"), (Kind::Word, "c")]);
        assert_eq!(words("# b\r\nc"), []);
        assert_eq!(words("a\rb"), [(Kind::Word, "a"), (Kind::Bad, "\r"), (Kind::Word, "b")]);
    }

    #[test]
    fn lines_end_with_or_without_a_carriage_return() {
        let mut lexer = Lexer::new("a\r\n\n  b\r", 0);
        lexer.bump();
        assert_eq!((lexer.kind, lexer.span.start), (Kind::Eol, 1));
        assert!(lexer.next_line() && lexer.kind == Kind::Eol);
        assert!(lexer.next_line() && lexer.word() == "b" && lexer.span.line == 3);
        lexer.bump();
        assert_eq!(lexer.kind, Kind::Eol);
        assert!(!lexer.next_line());
    }
}
