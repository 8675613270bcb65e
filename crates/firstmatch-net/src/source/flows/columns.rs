//! Columns of flow logs: the part of a flow that each states, by its name in each format.

use std::fmt;

use super::super::cells::{Cell, Cells};
use super::super::lines::Fault;
use super::FlowFormat;

/// Part of a flow that a column states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowField {
    Src,
    Dst,
    SrcPort,
    DstPort,
    Proto,
    IcmpType,
    IcmpCode,
    TcpFlags,
    /// Flags of the packets back.
    TcpFlagsBack,
    Packets,
    Bytes,
    PacketsBack,
    BytesBack,
    /// Whether the row is a flow with traffic.
    Status,
}

/// Names of the parts in `--columns`, without those that only one format has.
const NAMES: [(&str, FlowField); 12] = [
    ("src", FlowField::Src),
    ("dst", FlowField::Dst),
    ("sport", FlowField::SrcPort),
    ("dport", FlowField::DstPort),
    ("proto", FlowField::Proto),
    ("icmp_type", FlowField::IcmpType),
    ("icmp_code", FlowField::IcmpCode),
    ("tcp_flags", FlowField::TcpFlags),
    ("packets", FlowField::Packets),
    ("bytes", FlowField::Bytes),
    ("packets_back", FlowField::PacketsBack),
    ("bytes_back", FlowField::BytesBack),
];

const AWS: &[(&str, FlowField)] = &[
    ("log-status", FlowField::Status),
    ("srcaddr", FlowField::Src),
    ("dstaddr", FlowField::Dst),
    ("srcport", FlowField::SrcPort),
    ("dstport", FlowField::DstPort),
    ("protocol", FlowField::Proto),
    ("packets", FlowField::Packets),
    ("bytes", FlowField::Bytes),
    ("tcp-flags", FlowField::TcpFlags),
];

/// Columns of a line of AWS without a header, version 2.
pub(super) const AWS_VERSION_2: [&str; 14] = [
    "version",
    "account-id",
    "interface-id",
    "srcaddr",
    "dstaddr",
    "srcport",
    "dstport",
    "protocol",
    "packets",
    "bytes",
    "start",
    "end",
    "action",
    "log-status",
];

/// The protocol has two columns: `ip_proto` since Zeek 8, and before that the name of the transport.
const ZEEK: &[(&str, FlowField)] = &[
    ("_path", FlowField::Status),
    ("id.orig_h", FlowField::Src),
    ("id.resp_h", FlowField::Dst),
    ("id.orig_p", FlowField::SrcPort),
    ("id.resp_p", FlowField::DstPort),
    ("ip_proto", FlowField::Proto),
    ("proto", FlowField::Proto),
    ("history", FlowField::TcpFlags),
    ("orig_pkts", FlowField::Packets),
    ("orig_ip_bytes", FlowField::Bytes),
    ("resp_pkts", FlowField::PacketsBack),
    ("resp_ip_bytes", FlowField::BytesBack),
];

/// Names of versions up to 1.6, then those of 1.7.
const NFDUMP: &[(&str, FlowField)] = &[
    ("sa", FlowField::Src),
    ("srcAddr", FlowField::Src),
    ("da", FlowField::Dst),
    ("dstAddr", FlowField::Dst),
    ("sp", FlowField::SrcPort),
    ("srcPort", FlowField::SrcPort),
    ("dp", FlowField::DstPort),
    ("dstPort", FlowField::DstPort),
    ("pr", FlowField::Proto),
    ("proto", FlowField::Proto),
    ("flg", FlowField::TcpFlags),
    ("flags", FlowField::TcpFlags),
    ("icmpType", FlowField::IcmpType),
    // As some versions spell it.
    ("icmpTYpe", FlowField::IcmpType),
    ("icmpCode", FlowField::IcmpCode),
    ("ipkt", FlowField::Packets),
    ("packets", FlowField::Packets),
    ("inPackets", FlowField::Packets),
    ("ibyt", FlowField::Bytes),
    ("bytes", FlowField::Bytes),
    ("inBytes", FlowField::Bytes),
    ("opkt", FlowField::PacketsBack),
    ("outPackets", FlowField::PacketsBack),
    ("obyt", FlowField::BytesBack),
    ("outBytes", FlowField::BytesBack),
];

const SURICATA: &[(&str, FlowField)] = &[
    ("event_type", FlowField::Status),
    ("src_ip", FlowField::Src),
    ("dest_ip", FlowField::Dst),
    ("src_port", FlowField::SrcPort),
    ("dest_port", FlowField::DstPort),
    ("proto", FlowField::Proto),
    ("icmp_type", FlowField::IcmpType),
    ("icmp_code", FlowField::IcmpCode),
    ("tcp.tcp_flags_ts", FlowField::TcpFlags),
    ("tcp.tcp_flags", FlowField::TcpFlags),
    ("tcp.tcp_flags_tc", FlowField::TcpFlagsBack),
    ("flow.pkts_toserver", FlowField::Packets),
    ("flow.bytes_toserver", FlowField::Bytes),
    ("flow.pkts_toclient", FlowField::PacketsBack),
    ("flow.bytes_toclient", FlowField::BytesBack),
];

const GCP: &[(&str, FlowField)] = &[
    ("connection.src_ip", FlowField::Src),
    ("connection.dest_ip", FlowField::Dst),
    ("connection.src_port", FlowField::SrcPort),
    ("connection.dest_port", FlowField::DstPort),
    ("connection.protocol", FlowField::Proto),
    ("packets_sent", FlowField::Packets),
    ("bytes_sent", FlowField::Bytes),
];

/// Returns the paths of the values that are read of objects, each with its part of a flow.
pub(super) fn paths(format: FlowFormat, named: &Named) -> Vec<(FlowField, Box<str>)> {
    let usual = names(format).iter().filter(|(_, field)| named.name_of(*field).is_none());
    let usual = usual.map(|&(name, field)| (field, name.into()));
    usual.chain(named.of.iter().cloned()).collect()
}

/// Returns the names of a format's columns.
pub(super) fn names(format: FlowFormat) -> &'static [(&'static str, FlowField)] {
    match format {
        FlowFormat::Aws => AWS,
        FlowFormat::Zeek => ZEEK,
        FlowFormat::Nfdump => NFDUMP,
        FlowFormat::Suricata => SURICATA,
        FlowFormat::Gcp => GCP,
        // Its flows have places, not names.
        FlowFormat::Azure => &[],
    }
}

/// Columns that the user names.
#[derive(Clone, Debug, Default)]
pub(super) struct Named {
    /// All columns in their order, for a file that does not name them.
    pub(super) order: Vec<Box<str>>,
    /// Columns by the part that they state.
    of: Vec<(FlowField, Box<str>)>,
}

impl Named {
    /// Adds `PART=NAME`, or the next of the columns in their order.
    pub(super) fn add(&mut self, item: &str) -> Result<(), ColumnsError> {
        let Some((part, name)) = item.split_once('=') else {
            if item.trim().is_empty() {
                return Err(ColumnsError("a column without a name".into()));
            }
            self.order.push(item.trim().into());
            return Ok(());
        };
        let (part, name) = (part.trim(), name.trim());
        let Some(&(_, field)) = NAMES.iter().find(|(known, _)| *known == part) else {
            let known = NAMES.map(|(known, _)| known).join(", ");
            return Err(ColumnsError(format!("flows have no {part}; expected one of {known}").into()));
        };
        if name.is_empty() || self.of.iter().any(|&(other, _)| other == field) {
            return Err(ColumnsError(format!("{part} needs one column").into()));
        }
        self.of.push((field, name.into()));
        Ok(())
    }

    fn name_of(&self, field: FlowField) -> Option<&str> {
        self.of.iter().find(|(of, _)| *of == field).map(|(_, name)| &**name)
    }
}

/// Error: `--columns` names no columns of flow logs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnsError(Box<str>);

impl fmt::Display for ColumnsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ColumnsError {}

/// Places of the columns that are read.
#[derive(Clone, Debug)]
pub(super) struct Header {
    /// Parts with the index of their column, in the order in which they are read.
    pub(super) wanted: Vec<(FlowField, usize)>,
    /// Number of columns of a line.
    pub(super) count: usize,
}

impl Header {
    /// Returns the places of columns with these names.
    ///
    /// # Errors
    /// If there is no column for an address, or none of a name that the user gives. The error is the message and what
    /// was expected.
    pub(super) fn new(names: &[&str], format: FlowFormat, named: &Named) -> Result<Self, (String, String)> {
        let known = self::names(format);
        let mut wanted = Vec::new();
        let mut add = |field: FlowField, name: &str| {
            let index = names.iter().position(|of| *of == name);
            let index = index.or_else(|| names.iter().position(|of| is_same(of, name)));
            wanted.extend(index.map(|index| (field, index)));
            index.is_some()
        };
        for &(name, field) in known {
            if named.name_of(field).is_none() {
                add(field, name);
            }
        }
        for (field, name) in &named.of {
            if !add(*field, name) {
                return Err((format!("there is no column {name}"), format!("one of {}", names.join(", "))));
            }
        }
        for (field, own) in [(FlowField::Src, "src"), (FlowField::Dst, "dst")] {
            if !wanted.iter().any(|&(of, _)| of == field) {
                let usual: Vec<&str> = known.iter().filter(|(_, of)| *of == field).map(|(name, _)| *name).collect();
                let expected = format!("{}, or --columns {own}=NAME", usual.join(" or "));
                return Err((format!("no column has the address {own} of flows"), expected));
            }
        }
        Ok(Self { wanted, count: names.len() })
    }

    /// Returns the places of the columns that a line names.
    pub(super) fn of_line(line: &[u8], cells: &Cells, format: FlowFormat, named: &Named) -> Result<Self, Fault> {
        let mut names: Vec<String> = Vec::new();
        for cell in cells.iter() {
            let name = String::from_utf8_lossy(cell.bytes).into_owned();
            if names.contains(&name) {
                return Err(cell.fault(format!("there are two columns {name}"), "each column once"));
            }
            names.push(name);
        }
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        Self::new(&names, format, named).map_err(|(message, expected)| {
            let end = line.trim_ascii_end().len();
            Fault::new(end, 0, message, Some(&expected))
        })
    }
}

/// Whether two names differ at most in `_` for `-` and `.`, as names in Parquet files do.
pub(super) fn is_same(a: &str, b: &str) -> bool {
    let plain = |byte: u8| if matches!(byte, b'-' | b'.') { b'_' } else { byte };
    a.len() == b.len() && a.bytes().map(plain).eq(b.bytes().map(plain))
}

/// Whether a cell reads like the name of a column.
pub(super) fn is_name(cell: &Cell<'_>) -> bool {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    cell.bytes.first().is_some_and(u8::is_ascii_alphabetic) && cell.bytes.iter().all(inside)
}

/// Whether the cells of a line name columns of a format: all are names, and both addresses are among them.
pub(super) fn is_header(cells: &Cells, format: FlowFormat, named: &Named) -> bool {
    let has = |field: FlowField| {
        let known = names(format).iter().filter(|(_, of)| *of == field).map(|(name, _)| *name);
        let mut all = known.chain(named.name_of(field));
        all.any(|name| cells.iter().any(|cell| std::str::from_utf8(cell.bytes).is_ok_and(|of| is_same(of, name))))
    };
    cells.iter().all(|cell| is_name(&cell)) && has(FlowField::Src) && has(FlowField::Dst)
}
