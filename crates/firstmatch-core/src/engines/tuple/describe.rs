//! The tables as text, for tests against the paper's tables and for people.

use super::structure::TupleMerge;
use crate::schema::Schema;

/// Returns a line for each table: its tuple, then the number of each of its rules.
///
/// The number is one more than the slot, so that rules of a file are numbered from 1. For example, `(3,2){r1 r4}` has
/// rules 1 and 4 by three leading bits of the first field and two of the second.
pub(super) fn tables(engine: &TupleMerge) -> String {
    let schema = &engine.schema;
    let lines = engine.tables().map(|(masks, rules)| {
        let lengths: Vec<String> = (0..schema.fields().len()).map(|field| length(schema, field, &masks)).collect();
        let mut numbers: Vec<usize> = rules.iter().map(|rule| rule.slot() + 1).collect();
        numbers.sort_unstable();
        let names: Vec<String> = numbers.iter().map(|number| format!("r{number}")).collect();
        format!("({}){{{}}}", lengths.join(","), names.join(" "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the number of leading bits of a field in a table's mask, or the mask if it has other bits.
fn length(schema: &Schema, field: usize, masks: &[u32]) -> String {
    let words = schema.words_of(field).map(|word| (u128::from(masks[word] & schema.words()[word].bits), word));
    let mask = words.fold(0u128, |mask, (bits, word)| mask | bits << schema.words()[word].shift);
    let width = schema.fields()[field].width();
    let leads = mask.count_ones() == (mask << (128 - width)).leading_ones();
    if leads { mask.count_ones().to_string() } else { format!("{mask:#x}") }
}
