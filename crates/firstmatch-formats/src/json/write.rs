//! Writes rules as JSON: format, version, schemas and policy, then one rule per line in priority order.

use std::fmt::Write;

use firstmatch_core::policy::{Fragments, Verdict};
use firstmatch_core::rule::Action;
use firstmatch_core::schema::Schema;
use serde::Serialize;

use super::rule::{RuleOut, action_out};
use super::schema::FieldOut;
use super::{FORMAT, VERSION};
use crate::RuleFile;
use crate::write::Unwritable;

/// Returns the document of a rule file. Reading it back gives an equal file, with equal ids, priorities and lines.
///
/// # Errors
/// If words are narrower than the fields of a schema make them, because the document cannot express that.
pub fn write(file: &RuleFile) -> Result<String, Unwritable> {
    let (rules, labels) = file.all_rules();
    let schemas = rules.schemas();
    let usual = |schema: &Schema| *schema == Schema::new(schema.family(), schema.fields().to_vec());
    if !schemas.iter().all(usual) {
        return Err(Unwritable::new("the schema's words are narrower than 32 bits, which JSON cannot say"));
    }
    if let Some((_, set)) = rules.live_sets().iter().next() {
        return Err(Unwritable::new(format!("the live set `{}`, which JSON cannot hold", set.name())));
    }
    let mut out = String::new();
    // Writing to a `String` does not fail.
    let _ = write!(out, "{{\n  \"format\": \"{FORMAT}\",\n  \"version\": {VERSION},\n  \"schemas\": [");
    for (index, schema) in schemas.iter().enumerate() {
        out.push_str(if index > 0 { ",\n    {\n" } else { "\n    {\n" });
        if let Some(family) = schema.family() {
            let _ = writeln!(out, "      \"family\": \"{family}\",");
        }
        out.push_str("      \"fields\": [");
        lines(&mut out, "        ", schema.fields().iter().map(FieldOut::new))?;
        out.push_str("\n      ]\n    }");
    }
    let policy = &file.policy;
    let fragments = match policy.fragments {
        Fragments::Unknown => "unknown",
        Fragments::Layer3 => "layer3",
    };
    let verdict = |verdict: Verdict| {
        action_out(match verdict {
            Verdict::Permit => Action::Permit,
            Verdict::Deny => Action::Deny,
            Verdict::Match => Action::Match,
            Verdict::Mark(number) => Action::Mark(number),
        })
    };
    let _ = write!(
        out,
        "\n  ],\n  \"policy\": {{ \"default\": {}, \"unknown\": {}, \"fragments\": \"{fragments}\" }},\n  \"rules\": [",
        verdict(policy.default),
        verdict(policy.unknown)
    );
    let rule = |rule| RuleOut::new(schemas, rule, labels.get(&rule.id).map(|label| &**label), file.is_audit(rule));
    lines(&mut out, "    ", rules.iter().map(rule))?;
    out.push_str(if rules.is_empty() { "]\n}\n" } else { "\n  ]\n}\n" });
    Ok(out)
}

/// Writes each item on a line of its own, with commas between.
fn lines(out: &mut String, indent: &str, items: impl Iterator<Item = impl Serialize>) -> Result<(), Unwritable> {
    for (index, item) in items.enumerate() {
        out.push_str(if index > 0 { ",\n" } else { "\n" });
        out.push_str(indent);
        out.push_str(&serde_json::to_string(&item).map_err(|error| Unwritable::new(error.to_string()))?);
    }
    Ok(())
}
