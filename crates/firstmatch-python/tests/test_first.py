"""Small tables with exact answers."""

from typing import Any

import pyarrow as pa
import pytest
from firstmatch import Firewall

FIVE = ["src", "dst", "sport", "dport", "proto"]


def flows(*rows: tuple[object, ...]) -> pa.Table:
    return pa.table({name: [row[at] for row in rows] for at, name in enumerate(FIVE)})


def decided(firewall: Firewall, table: pa.Table, **options: Any) -> tuple[list[object], list[object], list[object]]:
    found = firewall.classify(table, **options).to_pydict()
    return found["verdict"], found["line"], found["outcome"]


def test_the_first_rule_that_matches_decides() -> None:
    firewall = Firewall.from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n")
    table = flows(("10.0.0.1", "192.0.2.7", 50000, 23, 6), ("10.0.0.1", "192.0.2.7", 50000, 443, 6))
    assert decided(firewall, table) == (["deny", "permit"], [1, 2], ["complete"] * 2)


def test_ports_of_icmp_do_not_exist() -> None:
    firewall = Firewall.from_text("deny dport 0-1023\npermit\n")
    table = flows(("10.0.0.1", "192.0.2.7", 0, 0, 1), ("10.0.0.1", "192.0.2.7", 0, 0, 17))
    assert decided(firewall, table) == (["permit", "deny"], [2, 1], ["no-ports", "complete"])


def test_rules_of_a_family_leave_the_other_to_the_policy() -> None:
    firewall = Firewall.from_text("unknown permit\nfamily ipv4\ndeny\n")
    table = flows(("10.0.0.1", "192.0.2.7", 1, 2, 6), ("::1", "::2", 1, 2, 6))
    assert decided(firewall, table) == (["deny", "permit"], [3, None], ["complete", "other-family"])


def test_icmp_by_name_is_that_of_its_family() -> None:
    firewall = Firewall.from_text("deny proto 58\npermit proto 1\n")
    table = flows(("10.0.0.1", "192.0.2.7", 0, 0, "icmp"), ("::1", "::2", 0, 0, "ICMP"), ("::1", "::2", 0, 0, "1"))
    assert decided(firewall, table)[1] == [2, 1, 2]


def test_marks_are_verdicts_of_their_own() -> None:
    firewall = Firewall.from_text("mark 7 tcp\nmark 9 udp\n")
    table = flows(*[("10.0.0.1", "192.0.2.7", 1, 2, proto) for proto in (6, 17, 1)])
    assert decided(firewall, table)[0] == ["mark 7", "mark 9", "deny"]
    assert decided(firewall, table, strings="plain")[0] == ["mark 7", "mark 9", "deny"]


def test_no_rows_have_no_answers() -> None:
    firewall = Firewall.from_text("permit\n")
    table = flows(("10.0.0.1", "192.0.2.7", 1, 2, 6))
    assert decided(firewall, table.slice(0, 0)) == ([], [], [])
    assert firewall.tally(table.slice(0, 0)).to_pydict()["flows"] == [0, 0]


@pytest.mark.parametrize(
    "text", ["schema {\n  tenant 24 exact\n  zone 8 exact optional\n}\ndeny tenant 7 zone 1\npermit tenant 7\n"]
)
def test_fields_of_a_schema_of_ones_own_are_columns(text: str) -> None:
    firewall = Firewall.from_text(text)
    table = pa.table({"tenant": [7, 7, 8], "zone": pa.array([1, None, 1], pa.int8())})
    assert decided(firewall, table)[1] == [5, 6, None]
