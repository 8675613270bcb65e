//! Words of a line: blanks part them, and `"` quotes, with `\` before the next character.

use std::borrow::Cow;

use crate::report::{Message, Span};

/// Word of a line.
#[derive(Clone, Debug)]
pub(super) struct Word<'t> {
    pub(super) span: Span,
    /// Text without its quotes.
    pub(super) text: Cow<'t, str>,
    pub(super) quoted: bool,
}

/// Returns the words of a line, which stands at `whole`, or the place of a quote that is not closed.
pub(super) fn words(line: &str, whole: Span) -> Result<Vec<Word<'_>>, (Span, Message)> {
    let mut words = Vec::new();
    let mut at = 0;
    let is_blank = |c: char| c == ' ' || c == '\t';
    loop {
        at += line[at..].len() - line[at..].trim_start_matches(is_blank).len();
        let rest = &line[at..];
        let span = |len: usize| Span { start: whole.start + at, end: whole.start + at + len, ..whole };
        let Some(first) = rest.chars().next() else { return Ok(words) };
        if first != '"' {
            let len = rest.find(is_blank).unwrap_or(rest.len());
            if rest[..len].contains('"') {
                return Err((span(len), Message::new("a quote inside a word").expected("a blank before the quote")));
            }
            words.push(Word { span: span(len), text: Cow::Borrowed(&rest[..len]), quoted: false });
            at += len;
            continue;
        }
        let (mut text, mut is_escaped) = (String::new(), false);
        let mut end = None;
        for (offset, c) in rest.char_indices().skip(1) {
            match c {
                _ if is_escaped => {
                    text.push(c);
                    is_escaped = false;
                }
                '\\' => is_escaped = true,
                '"' => {
                    end = Some(offset + 1);
                    break;
                }
                c => text.push(c),
            }
        }
        let Some(len) = end else { return Err((span(rest.len()), Message::new("a quote that is not closed"))) };
        if rest[len..].chars().next().is_some_and(|c| !is_blank(c)) {
            return Err((span(len), Message::new("a text right behind a quote").expected("a blank behind the quote")));
        }
        words.push(Word { span: span(len), text: Cow::Owned(text), quoted: true });
        at += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &str) -> Vec<String> {
        let words = words(line, Span { end: line.len(), ..Span::default() }).expect("whole quotes");
        words.iter().map(|word| word.text.to_string()).collect()
    }

    #[test]
    fn quotes_keep_blanks_and_escapes() {
        assert_eq!(texts(" -A  INPUT\t-j ACCEPT "), ["-A", "INPUT", "-j", "ACCEPT"]);
        assert_eq!(texts(r#"--comment "a \"b\" \\ c" -j"#), ["--comment", r#"a "b" \ c"#, "-j"]);
        assert_eq!(texts(r#"--comment """#), ["--comment", ""]);
        for bad in [r#"--comment "a"#, r#"a"b""#, r#""a"b"#, r#""a\""#] {
            assert!(words(bad, Span::default()).is_err(), "{bad}");
        }
    }
}
