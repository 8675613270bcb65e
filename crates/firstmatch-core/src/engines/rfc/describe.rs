//! Leaves and tables as text, for tests against the paper's example and for people.

use std::fmt::Write as _;

use super::leaves::{Leaf, Search};
use super::structure::Rfc;
use super::table::Cells;

/// Returns a line for each leaf and each table.
///
/// A leaf by value lists the class of each value, with runs of equal ones as `class x length`. A table lists its
/// entries. For example, `leaf 0: word 0 >> 0, 2 classes: 0x4 1x4` has class 1 from value 4 on. A compact table also
/// lists its bitmaps and elements, and the accessory table, if it has elements.
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
        (0..table.length).for_each(|entry| out += &format!(" {}", table.cells.get(entry, engine.count)));
        out.push('\n');
        describe_runs(&mut out, &table.cells);
    }
    out
}

/// Appends a line for each bitmap of a compact table, and one for its accessory table.
fn describe_runs(out: &mut String, cells: &Cells) {
    let texts = |elements: Vec<u32>| elements.iter().fold(String::new(), |all, element| format!("{all} {element}"));
    match cells {
        Cells::Plain(_) => {}
        Cells::Ranked(ranked) => {
            let mut run = 0;
            for (at, block) in ranked.blocks.iter().enumerate() {
                let (bits, first) = (block.bits(), run);
                run += bits.count_ones() as usize;
                let values = texts((first..run).map(|run| ranked.values.get(run)).collect());
                let _ = writeln!(out, "  block {at}: bitmap {bits:#x}, elements{values}");
            }
        }
        Cells::SubTables(tables) => {
            for (at, table) in tables.tables().enumerate() {
                let (bitmap, elements) = table.split_at(tables.shape.bitmap());
                let bits = bitmap.iter().rev().fold(0u128, |bits, &word| bits << 32 | u128::from(word));
                let elements = texts(tables.elements(bits.count_ones() as usize, elements));
                let _ = writeln!(out, "  sub-table {at}: bitmap {bits:#x}, elements{elements}");
            }
            if !tables.accessories.is_empty() {
                let accessories = texts(tables.unpacked(&tables.accessories));
                let _ = writeln!(out, "  accessories:{accessories}");
            }
        }
    }
}
