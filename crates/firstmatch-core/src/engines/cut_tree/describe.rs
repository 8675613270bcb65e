//! Trees as text.

use std::collections::HashSet;
use std::fmt::Write as _;

use super::structure::{CutTree, NO_LIST};
use crate::schema::Schema;

/// Returns a line for each tree, with every list as the rules of its regions, `{r1 r4}`.
///
/// An inner node is `[CUTS: CHILDREN]`. Each cut has the key word and the number of parts, such as `dport/2`, and a
/// list of the node's own stands behind the cuts. Children that were described before, because several nodes share
/// them, are `as above`.
pub(super) fn describe(engine: &CutTree) -> String {
    let names = names(&engine.schema);
    let (mut out, mut seen) = (String::new(), HashSet::new());
    for root in 0..engine.roots.len() as u32 {
        // Nodes to come, the next one last; `None` ends an inner node.
        let mut steps = vec![Some(root)];
        while let Some(step) = steps.pop() {
            let Some(index) = step else {
                out.push(']');
                continue;
            };
            if out.ends_with([':', '}', ']']) {
                out.push(' ');
            }
            let node = engine.node(index);
            if CutTree::cuts(node).next().is_none() {
                list(engine, node[1], &mut out);
                continue;
            }
            out.push('[');
            let mut bits = 0;
            for (word, _, own) in CutTree::cuts(node) {
                let _ = write!(out, "{}{}/{}", if bits > 0 { " " } else { "" }, names[word], 1 << own);
                bits += own;
            }
            if node[1] != NO_LIST {
                out.push(' ');
                list(engine, node[1], &mut out);
            }
            out.push(':');
            if seen.insert(node[0]) {
                steps.push(None);
                steps.extend((node[0]..node[0] + (1 << bits)).rev().map(Some));
            } else {
                out += " as above]";
            }
        }
        out.push('\n');
    }
    out
}

fn list(engine: &CutTree, first: u32, out: &mut String) {
    let ranks = if first == NO_LIST { Vec::new() } else { engine.list(first) };
    let mut slots: Vec<usize> = ranks.iter().map(|&rank| engine.matches[rank as usize].rule.slot()).collect();
    slots.dedup();
    let rules: Vec<String> = slots.iter().map(|slot| format!("r{}", slot + 1)).collect();
    let _ = write!(out, "{{{}}}", rules.join(" "));
}

/// Returns a name for each key word: that of its field, with a number where the field has several.
fn names(schema: &Schema) -> Vec<String> {
    let of_field = |(at, field): (usize, &crate::schema::Field)| {
        let words = schema.words_of(at).len();
        let name = |word| if words == 1 { field.name().to_owned() } else { format!("{}.{word}", field.name()) };
        (0..words).map(name).collect::<Vec<_>>()
    };
    schema.fields().iter().enumerate().flat_map(of_field).collect()
}
