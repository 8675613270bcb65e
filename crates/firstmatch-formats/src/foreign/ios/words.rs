//! Words of a line, which blanks part.

use crate::report::Span;

/// Word of a line.
#[derive(Clone, Copy, Debug)]
pub(super) struct Word<'t> {
    pub(super) span: Span,
    pub(super) text: &'t str,
}

/// Line with at least one word.
#[derive(Clone, Debug)]
pub(super) struct Line<'t> {
    /// Place of the line from its first word to its last.
    pub(super) span: Span,
    pub(super) words: Vec<Word<'t>>,
}

impl<'t> Line<'t> {
    /// Splits a line, which stands at `whole`; `None` if it is blank.
    pub(super) fn of(line: &'t str, whole: Span) -> Option<Self> {
        let is_blank = |c: char| c == ' ' || c == '\t';
        let mut words = Vec::new();
        let mut at = 0;
        loop {
            at += line[at..].len() - line[at..].trim_start_matches(is_blank).len();
            let rest = &line[at..];
            let len = rest.find(is_blank).unwrap_or(rest.len());
            if len == 0 {
                break;
            }
            let span = Span { start: whole.start + at, end: whole.start + at + len, ..whole };
            words.push(Word { span, text: &rest[..len] });
            at += len;
        }
        let (first, last) = (words.first()?, words.last()?);
        Some(Self { span: first.span.to(last.span), words })
    }

    /// Returns the same line without its first `count` words; `None` if it has no more.
    pub(super) fn behind(&self, count: usize) -> Option<Self> {
        let words = self.words.get(count..).filter(|words| !words.is_empty())?;
        Some(Self { span: self.span, words: words.to_vec() })
    }

    /// Returns the texts of the first words, the empty text for each that the line lacks.
    pub(super) fn texts<const N: usize>(&self) -> [&'t str; N] {
        std::array::from_fn(|at| self.words.get(at).map_or("", |word| word.text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_their_places() {
        let text = " \tpermit  tcp\tany ";
        let line = Line::of(text, Span { end: text.len(), ..Span::default() }).expect("words");
        assert_eq!(line.texts(), ["permit", "tcp", "any", ""]);
        assert_eq!((line.words[1].span.start, line.words[1].span.end), (10, 13));
        assert_eq!((line.span.start, line.span.end), (2, 17));
        assert!(Line::of(" \t ", Span::default()).is_none());
    }
}
