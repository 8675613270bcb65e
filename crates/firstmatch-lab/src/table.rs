//! Tables of text, and figures as text.

use std::fmt;

use comfy_table::{CellAlignment, presets};

/// Table of text; all columns but the first hold numbers, unless `words` is set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) words: bool,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self { head: head.iter().map(|&name| name.to_owned()).collect(), ..Self::default() }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = table(self.head.clone());
        shown.add_rows(&self.rows);
        shown.fmt(f)
    }
}

/// Creates a table for the terminal whose first column is text and whose others are figures.
pub(crate) fn table(head: impl Into<comfy_table::Row>) -> comfy_table::Table {
    let mut table = comfy_table::Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Formats up to three significant digits.
pub(crate) fn number(value: f64) -> String {
    match value {
        value if value < 9.95 => format!("{value:.2}"),
        value if value < 99.5 => format!("{value:.1}"),
        value => format!("{value:.0}"),
    }
}

/// Formats up to three significant digits, with a suffix for thousands.
pub(crate) fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 999.5e6 => (value / 1e9, " G"),
        size if size >= 999.5e3 => (value / 1e6, " M"),
        size if size >= 999.5 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let size = scaled.abs();
    let places = match size {
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.1 || size == 0.0 => 2,
        _ => (1.0 - size.log10().floor()).min(9.0) as usize,
    };
    let text = format!("{scaled:.places$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{suffix}")
}

pub(crate) fn percent(share: f64) -> String {
    if share.is_nan() { "–".to_owned() } else { format!("{:.1} %", share * 100.0) }
}

pub(crate) fn bytes(number: usize) -> String {
    match number as f64 {
        bytes if bytes < 1e3 => format!("{bytes:.0} B"),
        bytes if bytes < 1e6 => format!("{:.1} kB", bytes / 1e3),
        bytes => format!("{:.2} MB", bytes / 1e6),
    }
}

pub(crate) fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| "–".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let expected = [
            (0.0, "0"),
            (1.0, "1"),
            (0.25, "0.25"),
            (43.21, "43.2"),
            (999.0, "999"),
            (999.6, "1 k"),
            (12_340.0, "12.3 k"),
            (5.68e6, "5.68 M"),
            (2e9, "2 G"),
            (0.00123, "0.0012"),
            (100.0, "100"),
            (0.1, "0.1"),
        ];
        for (value, text) in expected {
            assert_eq!(short(value), text);
        }
    }
}
