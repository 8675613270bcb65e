"""Errors, with their whole texts."""

import gc
import pickle
from typing import Any

import pyarrow as pa
import pytest
from firstmatch import ColumnError, Firewall, RowError, RuleError

FIREWALL = Firewall.from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n")
FLAGS = Firewall.from_text("permit tcp tcp_flags syn\npermit icmp icmp_type echo-request\n")
KEPT = 'errors="null" keeps such rows'


def table(rows: int = 20, **columns: Any) -> pa.Table:
    all_columns: dict[str, Any] = {
        "src": ["10.0.0.1"] * rows,
        "dst": ["192.0.2.7"] * rows,
        "sport": [50000] * rows,
        "dport": [443] * rows,
        "proto": [6] * rows,
    }
    return pa.table({**all_columns, **columns})


def with_one(value: object, row: int = 17, others: object = "10.0.0.1") -> list[object]:
    return [value if at == row else others for at in range(20)]


def message(kind: type[Exception], call: Any) -> str:
    with pytest.raises(kind) as raised:
        call()
    return str(raised.value)


def test_all_faults_of_rules_at_once() -> None:
    with pytest.raises(RuleError) as raised:
        Firewall.from_text("permit\ndeny tpc\ndeny dport 99999\n")
    assert str(raised.value) == (
        "2:6: unknown field or protocol `tpc`; did you mean `tcp`?\n"
        "3:12: 99999 is too large for dport; expected a number up to 65535"
    )
    faults = raised.value.faults
    assert [(fault.line, fault.column) for fault in faults] == [(2, 6), (3, 12)]
    assert (faults[1].message, faults[1].help) == ("99999 is too large for dport", "a number up to 65535")
    assert isinstance(raised.value, ValueError)


def test_files_of_rules(tmp_path: Any) -> None:
    assert "nowhere: there is no such file" in message(OSError, lambda: Firewall.from_file(tmp_path / "nowhere"))
    text = 'set bad = { include "bad.txt" }\ndeny src $bad\npermit\n'
    (tmp_path / "a.rules").write_text(text)
    assert "a.rules:1:13: " in message(RuleError, lambda: Firewall.from_file(tmp_path / "a.rules"))
    (tmp_path / "bad.txt").write_text("10.0.0.1\n10.0.0.256\n")
    assert "10.0.0.256" in message(RuleError, lambda: Firewall.from_file(tmp_path / "a.rules"))
    (tmp_path / "bad.txt").write_text("10.0.0.1\n")
    firewall = Firewall.from_file(tmp_path / "a.rules")
    (tmp_path / "bad.txt").unlink()
    for one in (firewall, pickle.loads(pickle.dumps(firewall))):
        assert one.classify(table()).to_pydict()["line"] == [2] * 20
    assert len(firewall.diff(pickle.loads(pickle.dumps(firewall)))) == 0
    assert "from_file() reads them" in message(RuleError, lambda: Firewall.from_text(text))
    assert "there is no engine `hypercut`" in message(
        RuleError, lambda: Firewall.from_text("permit\n", engine="hypercut")
    )
    assert "the budget allows 64" in message(RuleError, lambda: Firewall.from_text("permit\n", memory_limit=64))


@pytest.mark.parametrize(
    ("column", "values", "expected"),
    [
        ("src", with_one("10.0.0.256"), 'row 17, column "src": "10.0.0.256" is no address'),
        ("src", with_one("fe80::1%eth0"), 'row 17, column "src": "fe80::1%eth0" is no address'),
        ("dst", with_one("::1"), 'row 17, column "src, dst": "10.0.0.1" and "::1" are of two families'),
        ("dport", with_one(70000, others=1), 'row 17, column "dport": 70000 is no dport; it is 0 to 65535'),
        ("dport", with_one(-1, others=1), 'row 17, column "dport": -1 is no dport; it is 0 to 65535'),
        ("proto", with_one("tpc", others="tcp"), 'row 17, column "proto": "tpc" is no proto'),
        (
            "src",
            [b"\x01\x02\x03\x04"] * 17 + [b"\x01\x02"] + [b"\x01\x02\x03\x04"] * 2,
            'row 17, column "src": 0x0102 is no address',
        ),
    ],
)
def test_the_first_bad_row(column: str, values: list[object], expected: str) -> None:
    columns: dict[str, Any] = {column: values}
    bad = table(**columns)
    for of in (bad, pa.concat_tables([bad.slice(0, 9), bad.slice(9)]), bad.to_reader(max_chunksize=3)):
        assert message(RowError, lambda: FIREWALL.classify(of, threads=2)) == f"{expected}; {KEPT}"
    assert message(RowError, lambda: FIREWALL.tally(bad)) == f"{expected}; {KEPT}"


def test_what_a_row_error_knows() -> None:
    with pytest.raises(RowError) as raised:
        FIREWALL.classify(table(src=with_one("10.0.0.256")))
    error = raised.value
    assert (error.row, error.column, error.value, isinstance(error, ValueError)) == (17, "src", '"10.0.0.256"', True)


def test_the_first_bad_row_of_many_by_every_number_of_threads() -> None:
    rows = 400_000
    src = ["10.0.0.1"] * rows
    for row in (70_001, 70_000, 200_000, 399_999):
        src[row] = "x"
    for threads in (1, 2, 4):
        assert message(RowError, lambda: FIREWALL.classify(table(rows, src=src), threads=threads)).startswith(
            "row 70000,"
        )


def test_bad_rows_that_are_kept() -> None:
    src = with_one("10.0.0.256")
    dst = ["192.0.2.7"] * 19 + ["::1"]
    dport = [70000] + [443] * 19
    with pytest.warns(UserWarning) as warned:
        found = FIREWALL.classify(table(src=src, dst=dst, dport=dport), errors="null").to_pydict()
    assert [str(one.message) for one in warned] == [
        '3 rows have no verdict: row 0, column "dport": 70000 is no dport; it is 0 to 65535'
    ]
    assert [found["outcome"][row] for row in (0, 1, 17, 19)] == [
        "bad-number",
        "complete",
        "bad-address",
        "mixed-families",
    ]
    assert [found["verdict"][row] for row in (0, 1, 17, 19)] == [None, "permit", None, None]
    sums = FIREWALL.tally(table(src=src, dst=dst, dport=dport), errors="null").to_pydict()
    assert dict(zip(sums["outcome"], sums["flows"]))["bad-address"] == 1


def test_bad_values_that_mean_nothing() -> None:
    """Under a null, in an unused value of a dictionary, and where the protocol has no such field."""
    keys = pa.array([0] * 20, pa.int8())
    unused = pa.DictionaryArray.from_arrays(keys, pa.array(["10.0.0.1", "nonsense"]))
    assert FIREWALL.classify(table(src=unused)).to_pydict()["line"] == [2] * 20
    assert FIREWALL.classify(table(proto=[1] * 20, dport=[70000] * 20)).to_pydict()["outcome"] == ["no-ports"] * 20


def test_columns_that_are_not_known() -> None:
    assert message(ColumnError, lambda: FIREWALL.classify(table().drop_columns(["dport"]))) == (
        "rules test dport, and no column is known for it; the columns are src, dst, sport, proto; name one "
        '(columns={"dport": …}), give all rows a value (constants={"dport": …}), or say that no row has it '
        '(absent=["dport"])'
    )
    assert message(ColumnError, lambda: FIREWALL.classify(pa.table({"a": [1], "b": [2]}))) == (
        'no column is known for src; the columns are a, b; name it: columns={"src": …}'
    )
    # No rule tests the source port.
    assert FIREWALL.classify(table().drop_columns(["sport"])).to_pydict()["outcome"] == ["complete"] * 20


def test_fields_that_rules_test_beside_the_five() -> None:
    flows = table()
    assert message(ColumnError, lambda: FLAGS.classify(flows)).startswith(
        "rules test icmp_type, and no column is known"
    )
    found = FLAGS.classify(flows, constants={"tcp_flags": 2}, absent=["icmp_type"])
    assert found.to_pydict()["line"] == [1] * 20
    vpc = flows.rename_columns(["srcaddr", "dstaddr", "srcport", "dstport", "protocol"]).append_column(
        "tcp_flags", pa.array([19] * 20)
    )
    assert message(ColumnError, lambda: FLAGS.classify(vpc, absent=["icmp_type"])) == (
        'rules test tcp_flags, and column "tcp_flags" has the flags of all packets of a flow together; classify the first '
        'packet (constants={"tcp_flags": 2}), take the column all the same (columns={"tcp_flags": "tcp_flags"}), or say that '
        'no row has flags (absent=["tcp_flags"])'
    )
    taken = FLAGS.classify(vpc, absent=["icmp_type"], columns={"tcp_flags": "tcp_flags"})
    assert taken.to_pydict()["line"] == [1] * 20


def test_types_that_hold_no_addresses_or_numbers() -> None:
    cases = [
        ("src", pa.array([1.5] * 20), 'column "src" is double, which is no address'),
        (
            "src",
            pa.array([1] * 20, pa.int32()),
            'column "src" is int32, in which half of all addresses are negative; cast it to uint32',
        ),
        (
            "dport",
            pa.array([1.0] * 20),
            'column "dport" is double, which holds no whole numbers; in pandas, convert_dtypes() keeps them whole where some are missing',
        ),
        ("dport", pa.array([True] * 20), 'column "dport" is bool, which is no number'),
    ]
    for name, values, expected in cases:
        assert message(ColumnError, lambda: FIREWALL.classify(table(**{name: values}))) == expected


def test_two_columns_or_two_logs_that_may_be_meant() -> None:
    twice = pa.table({"a.b": ["10.0.0.1"], "a-b": ["10.0.0.1"]})
    expected = 'two columns may be meant by a_b: "a.b" and "a-b"'
    assert message(ColumnError, lambda: FIREWALL.classify(twice, columns={"src": "a_b"})) == expected
    both = table().append_column("srcaddr", pa.array(["10.0.0.2"] * 20))
    for name in ("dstaddr", "srcport", "dstport", "protocol"):
        both = both.append_column(name, pa.array([1] * 20))
    assert message(ColumnError, lambda: FIREWALL.classify(both)) == (
        'the columns may be those of firstmatch or of aws-vpc; say which: preset="firstmatch"'
    )
    assert FIREWALL.classify(both, preset="firstmatch").to_pydict()["line"] == [2] * 20


def test_options_that_do_not_exist() -> None:
    unknown: dict[str, Any] = {"colums": {}}
    assert message(TypeError, lambda: FIREWALL.classify(table(), **unknown)).startswith(
        "classify() has no option colums; it has"
    )
    for option in ("columns", "constants"):
        options: dict[str, Any] = {option: {"scr": "x"}}
        expected = f"{option}: there is no field scr; the rules have src, dst, sport, dport, proto"
        assert message(ColumnError, lambda: FIREWALL.classify(table(), **options)) == expected
    assert "there is no field scr" in message(ColumnError, lambda: FIREWALL.classify(table(), absent=["scr"]))
    assert message(ColumnError, lambda: FIREWALL.classify(table(), absent=["src"])) == "absent: every packet has src"
    assert message(ColumnError, lambda: FIREWALL.classify(table(), columns={"src": "x"})) == (
        "there is no column x; the columns are src, dst, sport, dport, proto"
    )
    for option, value in [
        ("errors", "ignore"),
        ("preset", "netflow"),
        ("threads", 0),
        ("strings", "utf8"),
        ("absent", "src"),
    ]:
        bad: dict[str, Any] = {option: value}
        assert message(ValueError, lambda: FIREWALL.classify(table(), **bad)).startswith(f"{option}=")
    assert (
        message(ColumnError, lambda: FIREWALL.classify(table(), constants={"dport": 70000}))
        == "70000 is no dport; it is 0 to 65535"
    )


def test_things_that_are_no_tables() -> None:
    nothing: Any = 3
    assert message(TypeError, lambda: FIREWALL.classify(nothing)).startswith(
        "int is no table; a table is a pyarrow Table"
    )
    column: Any = pa.array([1])
    assert message(TypeError, lambda: FIREWALL.classify(column)).startswith("one column is no table")
    chunked: Any = pa.chunked_array([[1]])
    assert "cannot be read as a table" in message(ValueError, lambda: FIREWALL.classify(chunked))


def test_streams_that_break_off() -> None:
    def batches() -> Any:
        yield table().to_batches()[0]
        raise KeyError("lost")

    reader = pa.RecordBatchReader.from_batches(table().schema, batches())
    assert "lost" in message(RuntimeError, lambda: FIREWALL.classify(reader))
    bad = FIREWALL.classify_stream(table(src=with_one("x")))
    assert 'row 17, column "src": "x" is no address' in message(pa.ArrowInvalid, lambda: pa.table(bad))
    once = FIREWALL.classify_stream(table())
    assert len(once.read_all()) == 20
    assert "a stream can be read once" in message(ValueError, once.read_all)


def test_an_update_is_made_whole_or_not_at_all() -> None:
    firewall = Firewall.from_text("deny tcp dport 23\npermit src 10.0.0.0/8\n")
    with pytest.raises(KeyError):
        with firewall.update() as update:
            update.append("deny")
            raise KeyError
    assert len(firewall) == 2
    with firewall.update() as update:
        assert "unknown field or protocol" in message(RuleError, lambda: update.append("deny tpc"))
        update.append("deny udp")
    first, second, *_ = firewall.rules().to_pydict()["rule"]
    with firewall.update() as update:
        update.insert_before(first, "permit tcp dport 22")
        update.insert_after(first, "permit tcp dport 24")
        update.replace(second, "permit src 10.0.0.0/9")
        update.remove(first)
    assert firewall.rules().to_pydict()["text"] == [
        "permit tcp dport 22",
        "permit tcp dport 24",
        "permit src 10.0.0.0/9",
        "deny udp",
    ]
    assert len(update.inserted) == 3
    assert "is over" in message(RuleError, lambda: update.append("deny"))
    assert "changed" in message(ValueError, lambda: pickle.dumps(firewall))
    assert "not live" in message(RuleError, lambda: firewall.update().remove(first))


def test_many_updates_keep_the_engine_fast_enough_to_answer() -> None:
    firewall = Firewall.from_text("permit\n")
    for port in range(600):
        with firewall.update() as update:
            update.prepend(f"deny tcp dport {port}")
    assert set(firewall.classify(table(dport=list(range(20)))).to_pydict()["verdict"]) == {"deny"}


def test_results_outlive_everything_and_capsules_need_no_reader() -> None:
    firewall = Firewall.from_text("permit\n")
    result = firewall.classify(table())
    columns = pa.table(result)
    del firewall, result
    gc.collect()
    assert columns["verdict"].to_pylist() == ["permit"] * 20
    FIREWALL.classify(table()).__arrow_c_stream__()
    FIREWALL.classify_stream(table()).__arrow_c_stream__()
    gc.collect()


def test_calls_leave_no_memory_behind() -> None:
    import resource

    flows = table(2000)

    def work(times: int) -> int:
        for _ in range(times):
            FIREWALL.classify(flows)
            FIREWALL.tally(flows)
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = work(200)
    # 1,000 calls that kept their 34 kB of columns would be 34 MB.
    assert work(1000) - before < 16 << 10


def test_columns_are_not_copied() -> None:
    """A million rows in 24 MB of addresses and ports raise the peak by a few blocks."""
    import subprocess
    import sys

    script = """
import resource
import numpy, pyarrow as pa
from firstmatch import Firewall
rows = 4_000_000
flows = pa.table({name: pa.array(numpy.full(rows, 7, dtype=numpy.uint32)) for name in ("src", "dst", "sport", "dport", "proto")})
firewall = Firewall.from_text("permit\\n")
firewall.tally(flows.slice(0, 1000))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert sum(firewall.tally(flows).to_pydict()["flows"]) == rows
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    grown = subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.PIPE, text=True).stdout
    assert int(grown) < 16 << 10  # kilobytes; the columns have 80 MB
