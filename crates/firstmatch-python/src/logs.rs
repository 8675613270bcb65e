//! Columns of common logs, by name.

use firstmatch::core::schema::Source;

/// Log with names of its own.
#[derive(Debug)]
pub(crate) struct Preset {
    pub(crate) name: &'static str,
    /// Columns of fields. Where several columns of a field are there, the first that is not null counts.
    pub(crate) columns: &'static [(&'static str, &'static [&'static str])],
    /// Columns of packets and bytes.
    pub(crate) weights: [&'static [&'static str]; 2],
    /// Whether a row is a flow, whose TCP flags are those of all its packets together.
    pub(crate) is_flow: bool,
    /// Whether text of TCP flags is hexadecimal without `0x`.
    pub(crate) has_hex_flags: bool,
}

/// The five fields that every log has; the number of those found decides which log a table is.
pub(crate) const FIVE: [&str; 5] = ["src", "dst", "sport", "dport", "proto"];

const FLOWS: Preset = Preset { name: "", columns: &[], weights: [&[], &[]], is_flow: true, has_hex_flags: false };

/// All logs. Sources: the documentation of each program and of each cloud's flow logs.
pub(crate) static PRESETS: [Preset; 12] = [
    Preset {
        name: "firstmatch",
        columns: &[
            ("src", &["src"]),
            ("dst", &["dst"]),
            ("sport", &["sport"]),
            ("dport", &["dport"]),
            ("proto", &["proto"]),
        ],
        weights: [&["packets"], &["bytes"]],
        is_flow: false,
        ..FLOWS
    },
    Preset {
        name: "aws-vpc",
        columns: &[
            ("src", &["srcaddr"]),
            ("dst", &["dstaddr"]),
            ("sport", &["srcport"]),
            ("dport", &["dstport"]),
            ("proto", &["protocol"]),
        ],
        weights: [&["packets"], &["bytes"]],
        ..FLOWS
    },
    Preset {
        name: "zeek",
        columns: &[
            ("src", &["id.orig_h"]),
            ("dst", &["id.resp_h"]),
            ("sport", &["id.orig_p"]),
            ("dport", &["id.resp_p"]),
            ("proto", &["ip_proto", "proto"]),
            // The "ports" of ICMP are type and code; only rows of ICMP have these fields.
            ("icmp_type", &["id.orig_p"]),
            ("icmp_code", &["id.resp_p"]),
        ],
        weights: [&["orig_pkts"], &["orig_ip_bytes"]],
        ..FLOWS
    },
    Preset {
        name: "suricata",
        columns: &[
            ("src", &["src_ip"]),
            ("dst", &["dest_ip"]),
            ("sport", &["src_port"]),
            ("dport", &["dest_port"]),
            ("proto", &["proto"]),
            ("icmp_type", &["icmp_type"]),
            ("icmp_code", &["icmp_code"]),
        ],
        weights: [&["flow.pkts_toserver"], &["flow.bytes_toserver"]],
        has_hex_flags: true,
        ..FLOWS
    },
    Preset {
        name: "gcp-vpc",
        columns: &[
            ("src", &["connection.src_ip", "jsonPayload.connection.src_ip"]),
            ("dst", &["connection.dest_ip", "jsonPayload.connection.dest_ip"]),
            ("sport", &["connection.src_port", "jsonPayload.connection.src_port"]),
            ("dport", &["connection.dest_port", "jsonPayload.connection.dest_port"]),
            ("proto", &["connection.protocol", "jsonPayload.connection.protocol"]),
        ],
        weights: [&["packets_sent", "jsonPayload.packets_sent"], &["bytes_sent", "jsonPayload.bytes_sent"]],
        ..FLOWS
    },
    Preset {
        name: "ipfix",
        columns: &[
            ("src", &["sourceIPv4Address", "sourceIPv6Address"]),
            ("dst", &["destinationIPv4Address", "destinationIPv6Address"]),
            ("sport", &["sourceTransportPort"]),
            ("dport", &["destinationTransportPort"]),
            ("proto", &["protocolIdentifier"]),
            ("icmp_type", &["icmpTypeIPv4", "icmpTypeIPv6"]),
            ("icmp_code", &["icmpCodeIPv4", "icmpCodeIPv6"]),
            ("vlan_vid", &["vlanId", "dot1qVlanId"]),
            ("ttl", &["ipTTL"]),
        ],
        weights: [&["packetDeltaCount"], &["octetDeltaCount"]],
        ..FLOWS
    },
    Preset {
        name: "nfdump",
        columns: &[
            ("src", &["sa", "srcAddr"]),
            ("dst", &["da", "dstAddr"]),
            ("sport", &["sp", "srcPort"]),
            ("dport", &["dp", "dstPort"]),
            ("proto", &["pr", "proto"]),
        ],
        weights: [&["ipkt", "packets", "inPackets"], &["ibyt", "bytes", "inBytes"]],
        ..FLOWS
    },
    Preset {
        name: "goflow2",
        columns: &[
            ("src", &["src_addr"]),
            ("dst", &["dst_addr"]),
            ("sport", &["src_port"]),
            ("dport", &["dst_port"]),
            ("proto", &["proto"]),
            ("icmp_type", &["icmp_type"]),
            ("icmp_code", &["icmp_code"]),
            ("ttl", &["ip_ttl"]),
            ("vlan_vid", &["vlan_id"]),
        ],
        weights: [&["packets"], &["bytes"]],
        ..FLOWS
    },
    Preset {
        name: "pmacct",
        columns: &[
            ("src", &["ip_src"]),
            ("dst", &["ip_dst"]),
            ("sport", &["port_src"]),
            ("dport", &["port_dst"]),
            ("proto", &["ip_proto"]),
        ],
        weights: [&["packets"], &["bytes"]],
        ..FLOWS
    },
    Preset {
        name: "ocsf",
        columns: &[
            ("src", &["src_endpoint.ip"]),
            ("dst", &["dst_endpoint.ip"]),
            ("sport", &["src_endpoint.port"]),
            ("dport", &["dst_endpoint.port"]),
            ("proto", &["connection_info.protocol_num", "connection_info.protocol_name"]),
        ],
        weights: [&["traffic.packets"], &["traffic.bytes"]],
        ..FLOWS
    },
    Preset {
        name: "ecs",
        columns: &[
            ("src", &["source.ip"]),
            ("dst", &["destination.ip"]),
            ("sport", &["source.port"]),
            ("dport", &["destination.port"]),
            ("proto", &["network.iana_number", "network.transport"]),
        ],
        weights: [&["source.packets"], &["source.bytes"]],
        ..FLOWS
    },
    // Its columns are those that tables of header fields have everywhere in firstmatch.
    Preset { name: TSHARK, columns: &[], weights: [&[], &["frame.len"]], is_flow: false, ..FLOWS },
];

const TSHARK: &str = "tshark";

impl Preset {
    /// Returns the log of this name.
    pub(crate) fn by_name(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// Returns the names of the columns that a field has in this log.
    pub(crate) fn columns_of(&self, field: &str, source: Option<Source>) -> Vec<&'static str> {
        if self.name == TSHARK {
            let known = firstmatch::net::source::header_columns().iter();
            let of = known.filter(|(_, sources)| source.is_some_and(|source| sources.contains(&source)));
            return of.map(|(name, _)| *name).collect();
        }
        let own = self.columns.iter().filter(|(name, _)| *name == field);
        own.flat_map(|(_, columns)| columns.iter().copied()).collect()
    }
}
