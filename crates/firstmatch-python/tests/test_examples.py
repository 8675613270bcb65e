"""Examples do what their pages say."""

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from logs import LOGS, RULES

HERE = Path(__file__).parents[1]
PAGE = HERE.parents[1] / "docs" / "compare"


def run(example: str, *arguments: object) -> str:
    command = [sys.executable, str(HERE / "examples" / example), *map(str, arguments)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def test_the_page_of_two_policies_is_the_one_in_the_documentation(tmp_path: Path) -> None:
    run("compare.py", tmp_path)
    assert (tmp_path / "compare.md").read_text() == (PAGE / "compare.md").read_text()
    # Pictures differ with the version of the library that draws them.
    for picture in PAGE.glob("*.svg"):
        assert (tmp_path / picture.name).read_text().count("<path") >= 10


def test_flow_logs_of_aws(tmp_path: Path) -> None:
    (tmp_path / "r.rules").write_text(RULES)
    logs = LOGS["aws-vpc"]
    whole = logs.set_column(
        7, "packets", pa.array([None if of == "-" else int(of) for of in logs["packets"].to_pylist()])
    )
    folder = tmp_path / "logs"
    folder.mkdir()
    for part in range(3):
        pq.write_table(whole, folder / f"{part}.parquet")
    said = run("vpc.py", tmp_path / "r.rules", folder).splitlines()
    assert said[0].split() == ["line", "rule", "verdict", "label", "outcome", "flows", "packets", "bytes"]
    # Three times the two connections to permitted ports.
    assert said[4].split() == ["5", "4", "permit", "null", "null", "6", "156", "183000"]
    assert said[-1] == "rules without a flow, by line: 2, 3"


def test_connections_of_zeek(tmp_path: Path) -> None:
    (tmp_path / "r.rules").write_text(RULES)
    connections = LOGS["zeek"].to_pylist()
    lines = ["#separator \\x09", "#path\tconn", "\t".join(["#fields", *connections[0]]), "#types\ttime"]
    lines += ["\t".join("-" if cell is None else str(cell) for cell in row.values()) for row in connections]
    (tmp_path / "conn.log").write_text("\n".join([*lines, "#close\t2026-01-01"]) + "\n")
    assert run("zeek.py", tmp_path / "r.rules", tmp_path / "conn.log").splitlines() == [
        "4 of 10 connections would be denied",
        "  line 2: 10.0.0.7 to 192.0.2.10 port 0 (icmp), 336 bytes",
        "  line 3: 2001:db8::7 to 2001:db8:1::10 port 0 (icmp), 208 bytes",
        "  line 4: 10.0.0.5 to 192.0.2.11 port 23 (tcp), 180 bytes",
        "  line -: 192.0.2.10 to 10.0.0.7 port 3 (icmp), 56 bytes",
    ]
