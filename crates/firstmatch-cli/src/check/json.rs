//! Findings for programs.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use firstmatch_core::rule::FieldValues;
use firstmatch_core::schema::{Family, Field, Source};
use serde_json::{Map, Value, json};

use super::Checked;

pub(super) fn print(checked: &Checked<'_>, out: &mut dyn Write) -> io::Result<()> {
    let Checked { loaded, report, .. } = checked;
    let policy = &loaded.file.policy;
    let findings = report.findings.iter().map(|finding| {
        let by = finding.by.iter().map(|&rule| {
            json!({ "line": checked.line(rule), "rule": rule.to_string(), "verdict": checked.verdict(rule).to_string() })
        });
        json!({
            "kind": finding.kind.name(),
            "line": checked.line(finding.rule),
            "rule": finding.rule.to_string(),
            "text": loaded.text_of(checked.rule(finding.rule)),
            "verdict": checked.verdict(finding.rule).to_string(),
            "message": checked.message(finding),
            "by": by.collect::<Vec<_>>(),
            "packet": finding.packet.as_ref().map(|packet| self::packet(checked.fields(packet), packet)),
        })
    });
    let value = json!({
        "format": "firstmatch check",
        "version": 1,
        "file": loaded.name,
        "policy": { "default": policy.default.to_string(), "unknown": policy.unknown.to_string() },
        "rules": report.rules,
        "findings": findings.collect::<Vec<_>>(),
        "summary": checked.counts(),
        "complete": report.is_complete(),
        "work": report.work,
    });
    serde_json::to_writer_pretty(&mut *out, &value)?;
    writeln!(out)
}

/// Returns the fields of a packet: addresses as text, numbers beyond 2^53 as text, `null` for absent fields.
pub(crate) fn packet(fields: &[Field], packet: &FieldValues) -> Value {
    let value = |field: &Field, value: u128| match (field.source(), packet.family) {
        (Some(Source::Src | Source::Dst), Some(Family::Ipv6)) => json!(Ipv6Addr::from(value)),
        (Some(Source::Src | Source::Dst), Some(Family::Ipv4)) => json!(Ipv4Addr::from(value as u32)),
        (Some(Source::Ipv4Src | Source::Ipv4Dst), _) => json!(Ipv4Addr::from(value as u32)),
        _ if value < 1 << 53 => json!(value as u64),
        _ => json!(value.to_string()),
    };
    let of = |(field, own): (&Field, &Option<u128>)| {
        (field.name().to_owned(), own.map_or(Value::Null, |own| value(field, own)))
    };
    Value::Object(fields.iter().zip(&packet.values).map(of).collect::<Map<_, _>>())
}
