//! Leaves and tables as text, for tests against the paper's example and for people.

use std::fmt::Write as _;

use super::leaves::{Leaf, Search};
use super::structure::Rfc;

/// Returns a line for each leaf and each table.
///
/// A leaf by value lists the class of each value, with runs of equal ones as `class x length`. A table lists its entries.
/// For example, `leaf 0: word 0 >> 0, 2 classes: 0x4 1x4` has class 1 from value 4 on.
pub(super) fn describe(engine: &Rfc) -> String {
    let mut out = String::new();
    for (at, leaf) in engine.leaves.iter().enumerate() {
        let Leaf { column, search, classes } = leaf;
        let _ = write!(out, "leaf {at}: word {} >> {}, {classes} classes", column.word, column.shift);
        if let Search::Values(values) = search {
            out.push(':');
            let values: Vec<u32> = (0..values.len()).map(|value| values.get(value)).collect();
            for run in values.chunk_by(|a, b| a == b) {
                let _ = write!(out, " {}x{}", run[0], run.len());
            }
        }
        out.push('\n');
    }
    for (at, table) in engine.tables.iter().enumerate() {
        let slots = table.slots.iter().chain(&table.third);
        let slots: Vec<String> = slots.map(ToString::to_string).collect();
        let _ =
            write!(out, "table {}: slots {}, {} classes:", engine.leaves.len() + at, slots.join(" "), table.classes);
        (0..table.entries.len()).for_each(|entry| out += &format!(" {}", table.entries.get(entry)));
        out.push('\n');
    }
    out
}
