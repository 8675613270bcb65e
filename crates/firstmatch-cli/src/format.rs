//! Numbers and tables for people.

use std::io::{self, Write};

use anstyle::Style;

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();

/// Writes a number as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Writes a number of things as `1 packet` or `2 packets`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    format!("{} {what}{}", thousands(number), if number == 1 { "" } else { "s" })
}

/// Writes a number of bytes as `8.1 MB`.
pub(crate) fn bytes(number: u64) -> String {
    scaled(number as f64, &["B", "kB", "MB", "GB", "TB", "PB", "EB"])
}

/// Writes a number as `24.1 M`.
pub(crate) fn short(number: f64) -> String {
    scaled(number, &["", "k", "M", "G"]).trim_end().to_owned()
}

fn scaled(mut number: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while number >= 999.5 && unit + 1 < units.len() {
        number /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && number < 99.95);
    format!("{number:.digits$} {}", units[unit])
}

/// Writes a share as `81.0 %`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { "–".to_owned() } else { format!("{:.1} %", part as f64 * 100.0 / whole as f64) }
}

/// Writes a time in nanoseconds since 1970-01-01 00:00 UTC as `2026-11-21T21:34:53.202994052Z` (RFC 3339).
pub(crate) fn time(nanos: i64) -> String {
    // All times of 64 bits are between the years 1677 and 2262, which jiff has.
    jiff::Timestamp::from_nanosecond(nanos.into()).map_or_else(|_| nanos.to_string(), |time| format!("{time:.9}"))
}

/// Returns the first `width` characters; the last is an ellipsis if `text` is longer.
pub(crate) fn clip(text: &str, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width - 1).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

/// Table of plain text with a bold head and columns two blanks apart.
pub(crate) struct Table<const N: usize> {
    right: [bool; N],
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// Returns a table with these column heads.
    ///
    /// A column whose head starts with a blank is aligned to the right.
    pub(crate) fn new(head: [&str; N]) -> Self {
        Self { right: head.map(|h| h.starts_with(' ')), rows: vec![head.map(|h| h.trim_start().to_owned())] }
    }

    pub(crate) fn row(&mut self, row: [String; N]) {
        self.rows.push(row);
    }

    pub(crate) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let widths: [usize; N] =
            std::array::from_fn(|c| self.rows.iter().map(|row| row[c].chars().count()).max().unwrap_or(0));
        for (index, row) in self.rows.iter().enumerate() {
            let cells = row.iter().zip(widths).zip(self.right).map(|((cell, width), right)| {
                if right { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
            });
            let line = cells.collect::<Vec<_>>().join("  ");
            let line = line.trim_end();
            if index == 0 { writeln!(out, "{BOLD}{line}{BOLD:#}")? } else { writeln!(out, "{line}")? }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(thousands), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0, 999, 1000, 99_960, 999_499, 999_500, 8_100_000].map(bytes),
            ["0 B", "999 B", "1.0 kB", "100 kB", "999 kB", "1.0 MB", "8.1 MB"]
        );
        assert_eq!([812.0, 24_060_000.0, 2e12].map(short), ["812", "24.1 M", "2000 G"]);
        assert_eq!((percent(1, 3), percent(0, 0)), ("33.3 %".into(), "–".into()));
        assert_eq!((clip("abc", 3), clip("abcd", 3)), ("abc".into(), "ab…".into()));
        assert_eq!((counted(1, "packet"), counted(1000, "packet")), ("1 packet".into(), "1,000 packets".into()));
    }
}
