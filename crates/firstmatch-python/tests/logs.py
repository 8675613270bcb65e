"""The same ten flows as each log writes them.

The rows are written by hand after the documentation of each program: an HTTPS and a Telnet connection, DNS, an echo
request, an unreachable port, an SSH connection of IPv6, DNS of IPv6, an echo request of IPv6, SCTP, and a row in which
the log states no addresses.
"""

from typing import Any

import pyarrow as pa

RULES = """
deny icmp icmp_type echo-request
deny icmpv6 icmp_type echo-request
deny tcp dport 23
permit tcp dport { 22, 443 }
permit udp dport 53
permit sctp
"""
# Lines of RULES, by flow; nothing in the rules is for unreachable ports.
LINES = [5, 4, 6, 2, None, 5, 6, 3, 7, None]
# The same where a log has no types of ICMP and the call says so.
LINES_WITHOUT_TYPES = [5, 4, 6, None, None, 5, 6, None, 7, None]

# src, dst, sport, dport, protocol, type, code, packets, bytes
FLOWS: list[tuple[Any, ...]] = [
    ("10.0.0.5", "192.0.2.10", 50100, 443, 6, None, None, 12, 9000),
    ("10.0.0.5", "192.0.2.11", 50101, 23, 6, None, None, 3, 180),
    ("10.0.0.6", "192.0.2.53", 40000, 53, 17, None, None, 1, 71),
    ("10.0.0.7", "192.0.2.10", 0, 0, 1, 8, 0, 4, 336),
    ("192.0.2.10", "10.0.0.7", 0, 0, 1, 3, 3, 1, 56),
    ("2001:db8::5", "2001:db8:1::10", 50200, 22, 6, None, None, 40, 52000),
    ("2001:db8::5", "2001:db8:1::53", 40001, 53, 17, None, None, 1, 91),
    ("2001:db8::7", "2001:db8:1::10", 0, 0, 58, 128, 0, 2, 208),
    ("10.0.0.8", "192.0.2.30", 5000, 36412, 132, None, None, 7, 700),
    (None, None, None, None, None, None, None, None, None),
]
NAMES = {6: "tcp", 17: "udp", 1: "icmp", 58: "icmp", 132: "sctp"}


def column(at: int, change: Any = lambda value: value) -> list[Any]:
    return [None if flow[at] is None else change(flow[at]) for flow in FLOWS]


def ends(of: str, ip: str, port: str) -> list[dict[str, Any]]:
    at = {"src": (0, 2), "dst": (1, 3)}[of]
    return [{ip: flow[at[0]], port: flow[at[1]]} for flow in FLOWS]


def blank(values: list[Any]) -> list[str]:
    """Text logs write a hyphen for nothing."""
    return ["-" if value is None else str(value) for value in values]


def with_type(at: int, of: int) -> list[Any]:
    """Zeek writes type and code of ICMP in place of ports."""
    return [flow[of] if flow[of] is not None else flow[at] for flow in FLOWS]


UPPER = {6: "TCP", 17: "UDP", 1: "ICMP", 58: "IPv6-ICMP", 132: "SCTP"}
IS_IPV6 = [flow[0] is not None and ":" in flow[0] for flow in FLOWS]


def of_family(at: int, is_ipv6: bool) -> list[Any]:
    return [flow[at] if of_six == is_ipv6 else None for flow, of_six in zip(FLOWS, IS_IPV6)]


LOGS: dict[str, pa.Table] = {
    "firstmatch": pa.table(
        {
            "src": column(0),
            "dst": column(1),
            "sport": column(2),
            "dport": column(3),
            "proto": column(4),
            "icmp_type": column(5),
            "packets": column(7),
            "bytes": column(8),
        }
    ),
    "aws-vpc": pa.table(
        {
            "version": blank([2] * 10),
            "interface_id": ["eni-1"] * 10,
            "srcaddr": blank(column(0)),
            "dstaddr": blank(column(1)),
            "srcport": blank(column(2)),
            "dstport": blank(column(3)),
            "protocol": blank(column(4)),
            "packets": blank(column(7)),
            "bytes": blank(column(8)),
            "start": [1] * 10,
            "end": [2] * 10,
            "action": ["ACCEPT"] * 10,
            "log_status": ["OK"] * 9 + ["NODATA"],
        }
    ),
    "zeek": pa.table(
        {
            "ts": [1.5] * 10,
            "uid": ["C1"] * 10,
            "id.orig_h": column(0),
            "id.orig_p": with_type(2, 5),
            "id.resp_h": column(1),
            "id.resp_p": with_type(3, 6),
            "proto": column(4, NAMES.get),
            "orig_pkts": column(7),
            "orig_ip_bytes": column(8),
        }
    ),
    "suricata": pa.table(
        {
            "event_type": ["flow"] * 10,
            "src_ip": column(0),
            "src_port": column(2),
            "dest_ip": column(1),
            "dest_port": column(3),
            "proto": column(4, UPPER.get),
            "icmp_type": column(5),
            "icmp_code": column(6),
            "flow": [{"pkts_toserver": flow[7], "bytes_toserver": flow[8], "pkts_toclient": 1} for flow in FLOWS],
            "tcp": [{"tcp_flags": "1b"}] * 10,
        }
    ),
    "gcp-vpc": pa.table(
        {
            "connection": [
                {"src_ip": flow[0], "dest_ip": flow[1], "src_port": flow[2], "dest_port": flow[3], "protocol": flow[4]}
                for flow in FLOWS
            ],
            "packets_sent": column(7, str),
            "bytes_sent": column(8, str),
            "reporter": ["SRC"] * 10,
        }
    ),
    "ipfix": pa.table(
        {
            "sourceIPv4Address": of_family(0, False),
            "sourceIPv6Address": of_family(0, True),
            "destinationIPv4Address": of_family(1, False),
            "destinationIPv6Address": of_family(1, True),
            "sourceTransportPort": column(2),
            "destinationTransportPort": column(3),
            "protocolIdentifier": column(4),
            "icmpTypeIPv4": [flow[5] if not six else None for flow, six in zip(FLOWS, IS_IPV6)],
            "icmpTypeIPv6": [flow[5] if six else None for flow, six in zip(FLOWS, IS_IPV6)],
            "packetDeltaCount": column(7),
            "octetDeltaCount": column(8),
        }
    ),
    "nfdump": pa.table(
        {
            "ts": ["2026-01-01"] * 10,
            "sa": column(0),
            "da": column(1),
            "sp": column(2),
            "dp": column(3),
            "pr": column(4, lambda of: {1: "ICMP", 58: "ICMP6"}.get(of, UPPER[of])),
            "flg": ["...AP..."] * 10,
            "ipkt": column(7),
            "ibyt": column(8),
        }
    ),
    "goflow2": pa.table(
        {
            "type": ["NETFLOW_V9"] * 10,
            "src_addr": column(0),
            "dst_addr": column(1),
            "src_port": column(2),
            "dst_port": column(3),
            "proto": column(4),
            "icmp_type": column(5),
            "icmp_code": column(6),
            "packets": column(7),
            "bytes": column(8),
        }
    ),
    "pmacct": pa.table(
        {
            "ip_src": column(0),
            "ip_dst": column(1),
            "port_src": column(2),
            "port_dst": column(3),
            "ip_proto": column(4, lambda of: {58: "ipv6-icmp"}.get(of, NAMES[of])),
            "packets": column(7),
            "bytes": column(8),
        }
    ),
    "ocsf": pa.table(
        {
            "src_endpoint": ends("src", "ip", "port"),
            "dst_endpoint": ends("dst", "ip", "port"),
            "connection_info": [{"protocol_num": flow[4], "direction": "x"} for flow in FLOWS],
            "traffic": [{"packets": flow[7], "bytes": flow[8]} for flow in FLOWS],
        }
    ),
    "ecs": pa.table(
        {
            "source": [
                {**end, "packets": flow[7], "bytes": flow[8]} for end, flow in zip(ends("src", "ip", "port"), FLOWS)
            ],
            "destination": ends("dst", "ip", "port"),
            "network": [
                {"iana_number": None if flow[4] is None else str(flow[4]), "transport": None} for flow in FLOWS
            ],
        }
    ),
    "tshark": pa.table(
        {
            "ip.src": of_family(0, False),
            "ip.dst": of_family(1, False),
            "ipv6.src": of_family(0, True),
            "ipv6.dst": of_family(1, True),
            "ip.proto": [flow[4] if not six else None for flow, six in zip(FLOWS, IS_IPV6)],
            "ipv6.nxt": [flow[4] if six else None for flow, six in zip(FLOWS, IS_IPV6)],
            "tcp.srcport": [flow[2] if flow[4] == 6 else None for flow in FLOWS],
            "tcp.dstport": [flow[3] if flow[4] == 6 else None for flow in FLOWS],
            "udp.srcport": [flow[2] if flow[4] == 17 else None for flow in FLOWS],
            "udp.dstport": [flow[3] if flow[4] == 17 else None for flow in FLOWS],
            "sctp.srcport": [flow[2] if flow[4] == 132 else None for flow in FLOWS],
            "sctp.dstport": [flow[3] if flow[4] == 132 else None for flow in FLOWS],
            "icmp.type": [flow[5] if flow[4] == 1 else None for flow in FLOWS],
            "icmpv6.type": [flow[5] if flow[4] == 58 else None for flow in FLOWS],
            "frame.len": column(8),
        }
    ),
}
