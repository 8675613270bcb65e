"""Columns of common logs are known by name, and mean the same."""

from typing import Any

import pyarrow as pa
import pytest
from firstmatch import ColumnError, Firewall, presets
from logs import FLOWS, LINES, LINES_WITHOUT_TYPES, LOGS, RULES

FIREWALL = Firewall.from_text(RULES)
# Logs without types of ICMP.
WITHOUT = {"aws-vpc", "gcp-vpc", "nfdump", "pmacct", "ocsf", "ecs"}


def test_every_log_is_here() -> None:
    assert sorted(presets()) == sorted(LOGS)


@pytest.mark.parametrize("log", LOGS)
def test_a_log_is_known_and_gets_the_same_answers(log: str) -> None:
    table = LOGS[log]
    lines = LINES
    options: dict[str, Any] = {}
    if log in WITHOUT:
        with pytest.raises(ColumnError, match="rules test icmp_type, and no column is known for it"):
            FIREWALL.classify(table)
        options, lines = {"absent": ["icmp_type"]}, LINES_WITHOUT_TYPES
    for chosen in (options, {**options, "preset": log}):
        found = FIREWALL.classify(table, **chosen).to_pydict()
        assert found["line"] == lines
        assert found["outcome"][9] == "lacks-field" and found["verdict"][9] is None
        assert found["verdict"][4] == "deny"
    sums = FIREWALL.tally(table, **options).to_pydict()
    expected = {line: [0, 0] for line in lines}
    for line, flow in zip(lines[:9], FLOWS[:9]):
        expected[line] = [expected[line][0] + flow[7], expected[line][1] + flow[8]]
    has_packets = log != "tshark"
    for line, verdict, packets, size in zip(sums["line"], sums["verdict"], sums["packets"], sums["bytes"]):
        if verdict is not None and line in expected:
            assert (packets, size) == (expected[line][0] if has_packets else None, expected[line][1])


@pytest.mark.parametrize("log", LOGS)
def test_columns_of_other_libraries_have_underscores(log: str) -> None:
    """Flattened structs, and dots that a library replaced."""
    flat = LOGS[log]
    while any(pa.types.is_struct(field.type) for field in flat.schema):
        flat = flat.flatten()
    renamed = flat.rename_columns([name.replace(".", "_") for name in flat.column_names])
    options: dict[str, Any] = {"absent": ["icmp_type"]} if log in WITHOUT else {}
    lines = LINES_WITHOUT_TYPES if log in WITHOUT else LINES
    for table in (flat, renamed):
        assert FIREWALL.classify(table, **options).to_pydict()["line"] == lines


def test_columns_for_tells_what_would_be_taken() -> None:
    assert FIREWALL.columns_for(LOGS["zeek"]) == {
        "src": ["id.orig_h"],
        "dst": ["id.resp_h"],
        "sport": ["id.orig_p"],
        "dport": ["id.resp_p"],
        "proto": ["proto"],
        "icmp_type": ["id.orig_p"],
        "packets": ["orig_pkts"],
        "bytes": ["orig_ip_bytes"],
    }
    ipfix = FIREWALL.columns_for(LOGS["ipfix"].schema)
    assert ipfix["src"] == ["sourceIPv4Address", "sourceIPv6Address"]
    assert FIREWALL.columns_for(LOGS["ipfix"], swap=True)["dst"] == ipfix["src"]
    # What it returns can be given back.
    taken = FIREWALL.classify(LOGS["ipfix"], columns=ipfix, preset="firstmatch")
    assert taken.to_pydict()["line"] == LINES


def test_extension_headers_of_tshark_hide_the_protocol() -> None:
    table = LOGS["tshark"].set_column(5, "ipv6.nxt", pa.array([None] * 5 + [0, 44, 60, None, None], pa.int64()))
    assert FIREWALL.classify(table).to_pydict()["outcome"][5:8] == ["lacks-field"] * 3


def test_flags_of_suricata_are_hexadecimal() -> None:
    firewall = Firewall.from_text("permit tcp tcp_flags 0x1b/0xff\n")
    found = firewall.classify(LOGS["suricata"], columns={"tcp_flags": "tcp.tcp_flags"}).to_pydict()["line"]
    assert found == [1, 1, None, None, None, 1, None, None, None, None]


def test_protocols_that_a_log_does_not_know() -> None:
    table = LOGS["zeek"].set_column(6, "proto", pa.array(["unknown_transport"] * 10))
    assert set(FIREWALL.classify(table).to_pydict()["outcome"]) == {"lacks-field"}
