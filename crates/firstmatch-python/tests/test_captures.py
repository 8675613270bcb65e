"""Captures are decided by their frames, as in the program."""

import csv
from pathlib import Path

import pyarrow as pa
import pytest
from conftest import run
from firstmatch import Firewall, read_capture

CAPTURE = Path(__file__).parents[3] / "examples" / "edge.pcapng"
RULES = "deny tcp dport 443\ndeny udp\npermit\n"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, str]]:
    folder = tmp_path_factory.mktemp("capture")
    (folder / "r.rules").write_text(RULES)
    run("classify", folder / "r.rules", CAPTURE, "--csv", folder / "a.csv")
    with (folder / "a.csv").open() as file:
        return list(csv.DictReader(file))


def test_frames_decide(program: list[dict[str, str]]) -> None:
    firewall = Firewall.from_text(RULES)
    packets = pa.table(read_capture(CAPTURE))
    assert packets.num_rows == len(program) == 9071
    for found in (firewall.classify(packets).to_pydict(), firewall.classify_capture(CAPTURE).read_all().to_pydict()):
        assert [line or "" for line in map(lambda line: line and str(line), found["line"])] == [
            row["line"] for row in program
        ]
        assert found["verdict"] == [row["verdict"] for row in program]
        assert found["outcome"] == [row["outcome"] for row in program]
    assert firewall.tally(read_capture(CAPTURE)).to_pydict()["flows"][2] == 6432


def test_columns_of_captures(program: list[dict[str, str]]) -> None:
    packets = pa.table(read_capture(CAPTURE))
    assert packets["bytes"].to_pylist() == [int(row["bytes"]) for row in program]
    assert str(packets.schema.field("ts").type) == "timestamp[ns, tz=UTC]"
    first = packets["ts"][0].as_py()
    assert program[0]["time"].startswith(first.strftime("%Y-%m-%dT%H:%M:%S."))
    decided = Firewall.from_text(RULES).classify_capture(CAPTURE, headers=False).read_all()
    assert decided.column_names == ["ts", "link", "bytes", "verdict", "rule", "line", "outcome"]
    # Most headers can be read, and columns of headers give the same answers where frames are whole.
    headers = packets.drop_columns(["frame"])
    found = Firewall.from_text(RULES).classify(headers).to_pydict()
    complete = [row for row, of in enumerate(program) if of["outcome"] in ("complete", "no-ports")]
    assert len(complete) > 8000
    assert all(found["line"][row] == int(program[row]["line"]) for row in complete)


def test_captures_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="there is no such file"):
        read_capture(tmp_path / "nowhere.pcap")
    (tmp_path / "text").write_text("a,b\n1,2\n")
    with pytest.raises(OSError, match="a capture"):
        read_capture(tmp_path / "text")


def test_captures_that_are_cut(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcapng"
    cut.write_bytes(CAPTURE.read_bytes()[:100_000])
    with pytest.warns(UserWarning, match="cut"):
        packets = read_capture(cut).read_all()
    assert 100 < len(packets) < 9071
