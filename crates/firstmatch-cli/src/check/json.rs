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
    let items = checked.items();
    let findings = items.iter().map(|item| {
        let by = item.by.iter().map(|&rule| {
            json!({ "line": checked.line(rule), "rule": rule.to_string(), "verdict": checked.verdict(rule).to_string() })
        });
        json!({
            "kind": item.kind,
            "line": item.line,
            "rule": item.rule.map(|rule| rule.to_string()),
            "text": item.text,
            "verdict": item.rule.map(|rule| checked.verdict(rule).to_string()),
            "message": item.message,
            "must_stay": item.must_stay,
            "by": by.collect::<Vec<_>>(),
            "packet": item.packet.map(|packet| self::packet(checked.fields(packet), packet)),
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
        "more_overlaps": checked.has_more_overlaps,
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
