//! The decision on one packet in words.

use firstmatch::core::rule::FieldValues;
use firstmatch::{Firewall, show};
use firstmatch_columns::{Content, Decoder, Input, Status};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::ColumnError;
use crate::questions::text_of;
use crate::request::constant;

/// Returns the verdict on the packet with these fields, and the rule that gives it.
pub(crate) fn packet(py: Python<'_>, firewall: &Firewall, fields: Option<&Bound<'_, PyDict>>) -> PyResult<String> {
    let mut decoder = Decoder::new(&firewall.schemas(), None, true);
    let names: Vec<String> = decoder.fields().iter().map(|field| field.name().to_owned()).collect();
    let mut inputs = vec![Input::Absent; names.len()];
    for (name, value) in fields.into_iter().flatten() {
        let name: String = name.extract()?;
        // The order of arguments is that of a sentence; a field that no rule has changes nothing.
        let Some(at) = names.iter().position(|known| *known == name) else {
            if firstmatch::core::schema::Source::by_name(&name).is_some() {
                continue;
            }
            return Err(ColumnError::new_err(format!("there is no field {name}; the rules have {}", names.join(", "))));
        };
        if !value.is_none() {
            let field = &decoder.fields()[at];
            inputs[at] = Input::Constant(constant(&value, field, Content::of(field))?);
        }
    }
    let given = decoder.fields().iter().zip(&inputs);
    let mut lacking = given.filter(|(field, input)| !field.is_optional() && matches!(input, Input::Absent));
    if let Some((field, _)) = lacking.next() {
        return Err(ColumnError::new_err(format!("every packet has {}; give its value", field.name())));
    }
    let mut batch = firewall.batch();
    decoder.read(&inputs, 0..1, &mut batch);
    match decoder.statuses()[0] {
        Status::Keys => {}
        Status::OtherFamily => {
            let unknown = firewall.policy().unknown;
            return Ok(format!("{unknown}: the rules are for the other address family alone"));
        }
        Status::MixedFamilies => return Err(ColumnError::new_err("src and dst are of two address families")),
        status => return Err(ColumnError::new_err(format!("this is no packet: {status:?}"))),
    }
    let schema = (0..batch.schemas()).find(|&schema| !batch.keys(schema).is_empty()).expect("a row of keys");
    let schema_of = &firewall.schemas()[schema];
    let values = FieldValues { family: schema_of.family(), values: schema_of.values(batch.keys(schema).row(0)) };
    let mut lines = Vec::new();
    let mut worker = firewall.worker();
    py.detach(|| {
        worker.classify_batch(&batch, |_, decision| {
            lines.push((decision.verdict, decision.rule, decision.line));
        })
    })
    .expect("rules are not reloaded from Python");
    let (verdict, rule, line) = lines[0];
    let why = match (rule, line) {
        (None, _) => "no rule matches".to_owned(),
        (Some(rule), line) => {
            let line = line.map_or(String::new(), |line| format!(" of line {line}"));
            let text = firewall.rule(rule).map_or(String::new(), |text| format!(", `{}`", text_of(&text)));
            format!("rule {rule}{line}{text}")
        }
    };
    let shown = show::values(schema_of, &values, &[]);
    Ok(format!("{verdict}: {why}\nthe packet has {}", shown.join("\n")))
}
