//! Characters that a report does not show as themselves.
//!
//! A control character may change a terminal, and an invisible one makes two lines look alike that differ.

use std::borrow::Cow;

/// Ranges of characters that are invisible, or change the direction of the text around them.
const INVISIBLE: [(char, char); 21] = [
    ('\u{a0}', '\u{a0}'),
    ('\u{ad}', '\u{ad}'),
    ('\u{34f}', '\u{34f}'),
    ('\u{61c}', '\u{61c}'),
    ('\u{115f}', '\u{1160}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{17b4}', '\u{17b5}'),
    ('\u{180b}', '\u{180f}'),
    ('\u{2000}', '\u{200f}'),
    ('\u{2028}', '\u{202f}'),
    ('\u{205f}', '\u{206f}'),
    ('\u{2800}', '\u{2800}'),
    ('\u{3000}', '\u{3000}'),
    ('\u{3164}', '\u{3164}'),
    ('\u{fe00}', '\u{fe0f}'),
    ('\u{feff}', '\u{feff}'),
    ('\u{ffa0}', '\u{ffa0}'),
    ('\u{fff0}', '\u{fffb}'),
    ('\u{1bca0}', '\u{1bca3}'),
    ('\u{1d173}', '\u{1d17a}'),
    ('\u{e0000}', '\u{e0fff}'),
];

/// Whether a character is a control character or an invisible one. Space and tab are neither.
pub(crate) fn is_hidden(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control() && c != '\t';
    }
    c.is_control() || INVISIBLE.iter().any(|&(first, last)| (first..=last).contains(&c))
}

/// Returns the code point and the kind of a hidden character; for example, `U+200B, an invisible character`.
pub(crate) fn name(c: char) -> String {
    let sort = match c {
        '\r' => "a carriage return that does not end the line",
        _ if c.is_control() => "a control character",
        _ => "an invisible character",
    };
    format!("U+{:04X}, {sort}", u32::from(c))
}

/// Returns a text in which each control character and each invisible one is replaced by one visible character.
///
/// ASCII control characters become their pictures, the others U+FFFD. So columns stay the same, and a text of unknown
/// origin is safe to print. Tabs are kept.
///
/// ```
/// assert_eq!(firstmatch_formats::visible("deny \u{1b}[31m tcp\u{200b}"), "deny ␛[31m tcp\u{fffd}");
/// ```
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let show = |c: char| match c {
        c if !is_hidden(c) => c,
        '\u{7f}' => '\u{2421}',
        c if c.is_ascii() => char::from_u32(0x2400 + u32::from(c)).unwrap_or(char::REPLACEMENT_CHARACTER),
        _ => char::REPLACEMENT_CHARACTER,
    };
    Cow::Owned(text.chars().map(show).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_seen_is_kept() {
        for text in ["permit tcp\tdport 80 # größer, 中文, שלום, e\u{301}", "", "`~!§€"] {
            assert!(matches!(visible(text), Cow::Borrowed(same) if same == text), "{text}");
        }
        assert!(INVISIBLE.iter().zip(&INVISIBLE[1..]).all(|(one, next)| one.0 <= one.1 && one.1 < next.0));
    }

    #[test]
    fn each_hidden_character_is_one_visible_one() {
        let hidden = "\0\r\u{7f}\u{85}\u{a0}\u{200b}\u{202e}\u{2066}\u{feff}\u{e0041}";
        let shown = visible(hidden);
        assert_eq!(shown, "␀␍␡\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}\u{fffd}");
        assert_eq!(shown.chars().count(), hidden.chars().count());
        assert_eq!(name('\u{1b}'), "U+001B, a control character");
        assert_eq!(name('\u{e0041}'), "U+E0041, an invisible character");
    }
}
