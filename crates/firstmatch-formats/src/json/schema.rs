//! Reader and writer of schemas: a preset, or a family and fields.

use firstmatch_core::schema::{Family, Field, Kind, MAX_FIELD_BITS, MAX_FIELDS, Schema, Source};
use serde::Serialize;

use super::node::{Doc, Node, shown, string};
use super::value;

pub(super) const FAMILIES: [(&str, Family); 2] = [("ipv4", Family::Ipv4), ("ipv6", Family::Ipv6)];
const KINDS: [(&str, Kind); 4] =
    [("exact", Kind::Exact), ("prefix", Kind::Prefix), ("range", Kind::Range), ("mask", Kind::Mask)];

#[derive(Serialize)]
pub(super) struct FieldOut<'a> {
    name: &'a str,
    width: u32,
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<&'static str>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    optional: bool,
}

impl<'a> FieldOut<'a> {
    pub(super) fn new(field: &'a Field) -> Self {
        let kind = KINDS.iter().find(|(_, kind)| *kind == field.kind()).map_or("", |(name, _)| name);
        let source = field.source().map(Source::name);
        Self { name: field.name(), width: field.width(), kind, source, optional: field.is_optional() }
    }
}

/// Reads one schema, or a schema for IPv4 and one for IPv6.
pub(super) fn read_all<'t>(doc: &mut Doc<'t>, node: Node<'t>) -> Option<Vec<Schema>> {
    let nodes = doc.list(node, "list of schemas")?;
    let schemas: Vec<_> = nodes.iter().filter_map(|&node| read(doc, node)).collect();
    if schemas.len() < nodes.len() {
        return None;
    }
    match &schemas[..] {
        [_] => Some(schemas),
        [four, six] => {
            if (four.family(), six.family()) != (Some(Family::Ipv4), Some(Family::Ipv6)) {
                let what = "two schemas that are not of IPv4 and of IPv6";
                return doc.fault(node, what, "that of family \"ipv4\", then that of family \"ipv6\"");
            }
            let same = |index: usize| {
                let field = |schema: &Schema| schema.fields().get(index).map(|f| (f.name().to_owned(), f.source()));
                field(four) == field(six)
            };
            let most = four.fields().len().max(six.fields().len());
            match (0..most).find(|&index| !same(index)) {
                None => Some(schemas),
                Some(index) => {
                    let what = format!("the two schemas differ in field {index}");
                    doc.fault(node, what, "the same names and sources in the same order")
                }
            }
        }
        _ => doc.fault(node, format_args!("{} schemas", schemas.len()), "one, or that of IPv4 and that of IPv6"),
    }
}

fn read<'t>(doc: &mut Doc<'t>, node: Node<'t>) -> Option<Schema> {
    if string(node).is_some() {
        let presets =
            [("ipv4", Schema::ipv4 as fn() -> Schema), ("ipv6", Schema::ipv6), ("openflow", Schema::openflow)];
        return doc.choice(node, "preset", &presets).map(|preset| preset());
    }
    let mut object = doc.object(node, "schema")?;
    let family = object.take("family").map(|node| doc.choice(node, "family", &FAMILIES));
    let fields = object.need(doc, "fields");
    object.finish(doc);
    // A faulty family must not count as a missing one.
    let family = family.map_or(Some(None), |family| family.map(Some));
    let fields = fields?;
    let nodes = doc.list(fields, "list of fields")?;
    if !(1..=MAX_FIELDS).contains(&nodes.len()) {
        return doc.fault(fields, format_args!("{} fields", nodes.len()), format!("1 to {MAX_FIELDS}"));
    }
    let family = family?;
    let mut out: Vec<Field> = Vec::with_capacity(nodes.len());
    for &node in &nodes {
        let Some((field, name)) = read_field(doc, node, family) else { continue };
        if out.iter().any(|earlier| earlier.name() == field.name()) {
            let _: Option<()> = doc.fault(name, format_args!("two fields are named {}", shown(name)), "");
        } else {
            out.push(field);
        }
    }
    (out.len() == nodes.len()).then(|| Schema::new(family, out))
}

/// Returns a field, and the node of its name.
fn read_field<'t>(doc: &mut Doc<'t>, node: Node<'t>, family: Option<Family>) -> Option<(Field, Node<'t>)> {
    let before = doc.count();
    let mut object = doc.object(node, "field")?;
    let name = object.need(doc, "name");
    let width = object.need(doc, "width");
    let kind = object.need(doc, "kind");
    let source = object.take("source");
    let optional = object.take("optional");
    object.finish(doc);
    let text = name.and_then(|node| doc.string(node, "name", "text"));
    if let (Some(node), Some("")) = (name, text.as_deref()) {
        return doc.fault(node, "a field without a name", "");
    }
    let bits = width.and_then(|node| value::read_up_to(doc, node, "width in bits", MAX_FIELD_BITS.into()));
    if let (Some(node), Some(0)) = (width, bits) {
        return doc.fault(node, "a field of no bits", format!("1 to {MAX_FIELD_BITS}"));
    }
    let kind = kind.and_then(|node| doc.choice(node, "kind", &KINDS));
    let names = Source::ALL.map(|source| (source.name(), source));
    let from = source.and_then(|node| doc.choice(node, "header field", &names));
    let optional = optional.map_or(Some(false), |node| doc.boolean(node, "statement"));
    if doc.count() > before {
        return None;
    }
    let bits = bits? as u32;
    if let (Some(from), Some(at)) = (from, source) {
        let wanted = |family| from.width(family);
        let fits = match family {
            Some(family) => wanted(family) == bits,
            None => FAMILIES.iter().any(|&(_, family)| wanted(family) == bits),
        };
        if !fits {
            let has = wanted(family.unwrap_or(Family::Ipv4));
            let what = format!("{} has {has} bits in packets, the field {bits}", shown(at));
            return doc.fault(width?, what, "");
        }
    }
    let field = Field::new(&text?, bits, kind?, from);
    Some((if optional? { field.optional() } else { field }, name?))
}
