//! Packets stated field by field, as findings show them: `src 10.0.0.1, dport 22; absent: icmp_type; unknown: ttl`.

use anyhow::{Context, anyhow, bail};
use firstmatch_core::Schema;
use firstmatch_core::rule::FieldValues;
use firstmatch_core::schema::{Family, Field, Source};
use firstmatch_formats::native::parse_value;
use firstmatch_net::wire::{Batch, Config, Headers, SourceSet};

use super::Packet;
use crate::rules::Loaded;

const FORM: &str = "`FIELD VALUE, FIELD VALUE; absent: FIELD, FIELD; unknown: FIELD`";

/// What is stated of a field.
enum Stated<'t> {
    Value(&'t str),
    Absent,
    Unknown,
}

/// Whether a text has this form: a packet by hand has `>`.
pub(super) fn is_stated(text: &str, loaded: &Loaded) -> bool {
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_own = |schema: &Schema| schema.fields().iter().any(|field| field.name() == first);
    !text.contains('>') && (source_of(first).is_some() || loaded.file.rules.schemas().iter().any(is_own))
}

pub(super) fn parse(text: &str, loaded: &Loaded, config: &Config) -> anyhow::Result<Packet> {
    read(text, loaded, config).with_context(|| format!("`{text}` is no packet"))
}

fn source_of(name: &str) -> Option<Source> {
    Source::ALL.into_iter().find(|source| source.name() == name)
}

fn read(text: &str, loaded: &Loaded, config: &Config) -> anyhow::Result<Packet> {
    let stated = split(text)?;
    let schemas = loaded.file.rules.schemas();
    let families = schemas.iter().any(|schema| schema.family().is_some());
    let family = if families { Some(family_of(&stated)?) } else { None };
    let own = schemas.iter().find(|schema| schema.family() == family);
    match own.filter(|schema| schema.fields().iter().any(|field| field.source().is_none())) {
        Some(schema) => row(schema, &stated),
        None => headers(&stated, family, own, loaded, config),
    }
}

/// Returns what is stated of each field, in order.
fn split(text: &str) -> anyhow::Result<Vec<(&str, Stated<'_>)>> {
    let mut all: Vec<(&str, Stated<'_>)> = Vec::new();
    for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let lacking = [("absent:", true), ("unknown:", false)];
        let lacking = lacking.into_iter().find_map(|(head, is_absent)| Some((part.strip_prefix(head)?, is_absent)));
        let (fields, is_absent) = lacking.map_or((part, None), |(fields, is_absent)| (fields, Some(is_absent)));
        for field in fields.split(',').map(str::trim) {
            let (name, state) = match (is_absent, field.split_once(' ')) {
                (Some(true), None) => (field, Stated::Absent),
                (Some(false), None) => (field, Stated::Unknown),
                // Names of values stand in parentheses behind them.
                (None, Some((name, value))) => {
                    (name, Stated::Value(value.split(" (").next().unwrap_or_default().trim()))
                }
                _ => bail!("`{field}` is not stated as expected: {FORM}"),
            };
            if all.iter().any(|(other, _)| *other == name) {
                bail!("`{name}` is stated twice");
            }
            all.push((name, state));
        }
    }
    Ok(all)
}

/// Returns the family of the addresses.
fn family_of(stated: &[(&str, Stated<'_>)]) -> anyhow::Result<Family> {
    let address = stated.iter().find_map(|(name, state)| match state {
        Stated::Value(value) if matches!(*name, "src" | "dst") => Some(value),
        _ => None,
    });
    let address = address.ok_or_else(|| anyhow!("a packet of IP has addresses; expected `src` and `dst`"))?;
    Ok(if address.contains(':') { Family::Ipv6 } else { Family::Ipv4 })
}

/// Returns the packet as values of a schema some of whose fields are in no header.
fn row(schema: &Schema, stated: &[(&str, Stated<'_>)]) -> anyhow::Result<Packet> {
    let is_own = |name: &str| schema.fields().iter().any(|field| field.name() == name);
    if let Some((name, _)) = stated.iter().find(|(name, _)| !is_own(name)) {
        bail!("`{name}` is no field of these rules");
    }
    let value = |(index, field): (usize, &Field)| match stated.iter().find(|(name, _)| *name == field.name()) {
        Some((_, Stated::Value(text))) => {
            Ok(Some(parse_value(schema, index, text).map_err(|error| anyhow!("`{} {text}`: {error}", field.name()))?))
        }
        Some((_, Stated::Absent)) if field.is_optional() => Ok(None),
        Some(_) => bail!("`{}` has a value in every packet", field.name()),
        None => bail!("`{}` is not stated", field.name()),
    };
    let values = schema.fields().iter().enumerate().map(value).collect::<anyhow::Result<_>>()?;
    Ok(Packet::Values(FieldValues { family: schema.family(), values }))
}

/// Returns the packet as headers.
fn headers(
    stated: &[(&str, Stated<'_>)],
    family: Option<Family>,
    own: Option<&Schema>,
    loaded: &Loaded,
    config: &Config,
) -> anyhow::Result<Packet> {
    let (mut fields, mut known) = (Vec::new(), SourceSet::NONE);
    for (name, state) in stated {
        let index = own.and_then(|schema| schema.fields().iter().position(|field| field.name() == *name));
        let own = own.zip(index);
        let source = own.and_then(|(schema, index)| schema.fields()[index].source()).or_else(|| source_of(name));
        let source = source.ok_or_else(|| anyhow!("`{name}` is no field of a packet"))?;
        known = known.union(SourceSet::of(&[source]));
        match state {
            Stated::Value(text) => {
                // The field may be none of these rules, which then do not test it.
                let other = || Schema::new(family, vec![Field::from_source(source, family.unwrap_or(Family::Ipv6))]);
                let value = own
                    .map_or_else(|| parse_value(&other(), 0, text), |(schema, index)| parse_value(schema, index, text));
                fields.push((source, Some(value.map_err(|error| anyhow!("`{name} {text}`: {error}"))?)));
            }
            Stated::Absent => fields.push((source, None)),
            Stated::Unknown => {}
        }
    }
    let batch = Batch::for_rules(config, &loaded.file.rules).context("these rules cannot be applied to packets")?;
    let of_family = (0..batch.schemas()).map(|schema| batch.extractor(schema)).find(|of| of.family() == family);
    let lacking = of_family.map_or(SourceSet::NONE, |of| of.needed().minus(known).minus(SourceSet::ALWAYS));
    if let Some(source) = Source::ALL.into_iter().find(|&source| lacking.contains(source)) {
        bail!("the rules test `{}`, of which nothing is stated; expected {FORM}", source.name());
    }
    Ok(Packet::Stated(Box::new(Headers::of_fields(family, config.fragments, fields))))
}
