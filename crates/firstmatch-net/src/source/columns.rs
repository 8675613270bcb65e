//! Columns of a table, by the names in its first line.

use firstmatch_core::Schema;
use firstmatch_core::schema::{Field, Source};

use super::cells::{Cell, Cells};
use super::lines::Fault;

/// Names of the column that has the packet's bytes on the wire: ours, then that of tshark. It is optional.
pub const BYTES_COLUMNS: [&str; 2] = ["bytes", "frame.len"];
/// Name in tshark of the next header of IPv6, which is the protocol unless it is an extension header.
///
/// Its value states no protocol if it is one of [`IPV6_EXTENSIONS`](firstmatch_core::schema::IPV6_EXTENSIONS).
pub const NEXT_HEADER_COLUMN: &str = "ipv6.nxt";

/// Names of the fields in tshark, as [`header_columns`] returns them.
const TSHARK: [(&str, &[Source]); 35] = [
    ("ip.src", &[Source::Src, Source::Ipv4Src]),
    ("ip.dst", &[Source::Dst, Source::Ipv4Dst]),
    ("ipv6.src", &[Source::Src]),
    ("ipv6.dst", &[Source::Dst]),
    ("ip.proto", &[Source::Proto, Source::IpProto]),
    (NEXT_HEADER_COLUMN, &[Source::Proto, Source::IpProto]),
    ("ip.dsfield.dscp", &[Source::IpDscp, Source::Dscp]),
    ("ipv6.tclass.dscp", &[Source::IpDscp, Source::Dscp]),
    ("ip.ttl", &[Source::Ttl]),
    ("ipv6.hlim", &[Source::Ttl]),
    ("tcp.srcport", &[Source::SrcPort, Source::TpSrc]),
    ("tcp.dstport", &[Source::DstPort, Source::TpDst]),
    ("udp.srcport", &[Source::SrcPort, Source::TpSrc]),
    ("udp.dstport", &[Source::DstPort, Source::TpDst]),
    ("udplite.srcport", &[Source::SrcPort, Source::TpSrc]),
    ("udplite.dstport", &[Source::DstPort, Source::TpDst]),
    ("sctp.srcport", &[Source::SrcPort, Source::TpSrc]),
    ("sctp.dstport", &[Source::DstPort, Source::TpDst]),
    ("dccp.srcport", &[Source::SrcPort, Source::TpSrc]),
    ("dccp.dstport", &[Source::DstPort, Source::TpDst]),
    ("icmp.type", &[Source::IcmpType]),
    ("icmp.code", &[Source::IcmpCode]),
    ("icmpv6.type", &[Source::IcmpType]),
    ("icmpv6.code", &[Source::IcmpCode]),
    ("tcp.flags", &[Source::TcpFlags]),
    ("ipv6.routing.type", &[Source::RoutingType]),
    ("vlan.id", &[Source::VlanVid]),
    ("vlan.priority", &[Source::VlanPcp]),
    ("eth.src", &[Source::EthSrc]),
    ("eth.dst", &[Source::EthDst]),
    ("eth.type", &[Source::EthType]),
    ("vlan.etype", &[Source::EthType]),
    ("mpls.label", &[Source::MplsLabel]),
    ("mpls.exp", &[Source::MplsTc]),
    ("frame.interface_id", &[Source::InPort]),
];

/// Returns the names that tshark has for header fields, each with the fields that it may fill.
///
/// A column fills the field of the first of them that a schema has. Several columns may fill one field, of which a
/// packet then has one: for example, `tcp.dstport` and `udp.dstport`. Tables ([`Table`](super::Table)) know these names
/// beside those of the schema, and [`BYTES_COLUMNS`]. Other readers of columns can use the same names:
///
/// ```
/// use firstmatch_core::Schema;
/// use firstmatch_net::source::header_columns;
///
/// // The fields that columns of another table fill, for rules over the 5-tuple.
/// let schema = Schema::ipv4();
/// let field_of = |name: &str| {
///     let (_, sources) = header_columns().iter().find(|(known, _)| *known == name)?;
///     sources.iter().find_map(|&source| schema.fields().iter().find(|field| field.source() == Some(source)))
/// };
/// assert_eq!(field_of("ip.src").map(|field| field.name()), Some("src"));
/// assert_eq!(field_of("udp.dstport"), field_of("tcp.dstport"));
/// assert_eq!(field_of("vlan.id"), None); // it is known, but these rules have no such field
/// ```
pub fn header_columns() -> &'static [(&'static str, &'static [Source])] {
    &TSHARK
}

/// Content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Column {
    Field(usize),
    /// Protocol of IPv6, unless it is an extension header: then the protocol is after that.
    NextHeader(usize),
    Bytes,
    /// Field that is in no rule.
    Other,
}

impl Column {
    /// Returns the index of the field that the column fills.
    pub(super) fn field(self) -> Option<usize> {
        match self {
            Self::Field(index) | Self::NextHeader(index) => Some(index),
            Self::Bytes | Self::Other => None,
        }
    }

    /// Returns the column of this name; `None` if there is none.
    ///
    /// A name of the schema comes first. Fields that the schema lacks are [`Column::Other`], by our names or by
    /// tshark's, which have dots.
    fn of_name(name: &str, schema: &Schema) -> Option<Self> {
        if let Some(field) = schema.index_of(name) {
            return Some(Self::Field(field));
        }
        let of = |source: &Source| schema.fields().iter().position(|field| field.source() == Some(*source));
        let known = TSHARK.iter().find(|(known, _)| *known == name);
        match known.and_then(|(_, sources)| sources.iter().find_map(of)) {
            Some(field) if name == NEXT_HEADER_COLUMN => Some(Self::NextHeader(field)),
            Some(field) => Some(Self::Field(field)),
            None if BYTES_COLUMNS.contains(&name) => Some(Self::Bytes),
            None => {
                let is_known = name.contains('.') || Source::ALL.iter().any(|source| source.name() == name);
                is_known.then_some(Self::Other)
            }
        }
    }
}

/// Returns the columns that the first line names.
pub(super) fn columns(line: &[u8], cells: &Cells, schema: &Schema) -> Result<Vec<Column>, Fault> {
    let names = || schema.fields().iter().map(Field::name).collect::<Vec<_>>().join(", ");
    let mut seen: Vec<(Cell<'_>, Column)> = Vec::new();
    for cell in cells.iter() {
        let name = String::from_utf8_lossy(cell.bytes);
        let Some(column) = Column::of_name(&name, schema) else {
            let message = match &*name {
                "" => "a column without a name".to_owned(),
                name => format!("there is no field {name}"),
            };
            let expected = format!(
                "each of {}, by these names or those of tshark, and, if need be, {}",
                names(),
                BYTES_COLUMNS[0]
            );
            return Err(cell.fault(message, &expected));
        };
        // Several columns of tshark may stand for one field, for example `tcp.srcport` and `udp.srcport`.
        let is_twice = |&(other, of): &(Cell<'_>, Column)| {
            other.bytes == cell.bytes
                || of == column && column != Column::Other && !(is_of_tshark(other.bytes) && is_of_tshark(cell.bytes))
        };
        if seen.iter().any(is_twice) {
            return Err(cell.fault(format!("there are two columns {name}"), "each column once"));
        }
        seen.push((cell, column));
    }
    let columns: Vec<Column> = seen.into_iter().map(|(_, column)| column).collect();
    let is_missing = |field: &usize| columns.iter().all(|column| column.field() != Some(*field));
    if let Some(field) = (0..schema.fields().len()).find(is_missing).and_then(|field| schema.fields().get(field)) {
        let message = format!("the column {} is missing", field.name());
        return Err(Fault::new(line.trim_ascii_end().len(), 0, message, Some(&format!("each of {}", names()))));
    }
    Ok(columns)
}

fn is_of_tshark(name: &[u8]) -> bool {
    name.contains(&b'.')
}
