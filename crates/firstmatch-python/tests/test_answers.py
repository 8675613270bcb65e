"""Answers are the program's, in every form of columns."""

import ipaddress
import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from conftest import Case
from firstmatch import Firewall, Table


def assert_answers(found: Table, case: Case, rows: slice = slice(None)) -> None:
    answers = found.to_pydict()
    assert answers["line"] == case.lines[rows]
    assert answers["verdict"] == case.verdicts[rows]
    assert answers["outcome"] == case.outcomes[rows]


def hits(tally: Table) -> dict[int, int]:
    sums = tally.to_pydict()
    return {line: flows for line, flows in zip(sums["line"], sums["flows"]) if line is not None}


def test_a_million_flows_get_the_answers_of_the_program(large: Case) -> None:
    firewall = Firewall.from_file(large.rules)
    assert_answers(firewall.classify(large.flows), large)
    assert hits(firewall.tally(large.flows)) == large.hits


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_threads_change_nothing(large: Case, threads: int) -> None:
    firewall = Firewall.from_file(large.rules)
    assert firewall.classify(large.flows, threads=threads).to_pyarrow() == firewall.classify(large.flows).to_pyarrow()
    assert hits(firewall.tally(large.flows, threads=threads)) == large.hits


def packed(addresses: pa.ChunkedArray) -> list[bytes]:
    return [ipaddress.ip_address(address).packed for address in addresses.to_pylist()]


def with_addresses(flows: pa.Table, form: Callable[[pa.ChunkedArray], Any]) -> pa.Table:
    return flows.set_column(0, "src", form(flows["src"])).set_column(1, "dst", form(flows["dst"]))


FORMS: dict[str, Callable[[pa.ChunkedArray], Any]] = {
    "text": lambda of: of,
    "large text": lambda of: of.cast(pa.large_string()),
    "views": lambda of: of.cast(pa.string_view()),
    "dictionary": lambda of: of.dictionary_encode(),
    "dictionary of few": lambda of: pa.DictionaryArray.from_arrays(
        pa.array([index % 40 for index in range(len(of))], pa.int16()), of.combine_chunks().slice(0, 40)
    ),
    "dictionary of all": lambda of: pa.DictionaryArray.from_arrays(
        pa.array(range(len(of)), pa.uint32()), of.combine_chunks().cast(pa.large_string())
    ),
    "bytes": lambda of: pa.array(packed(of)),
    "large bytes": lambda of: pa.array(packed(of), pa.large_binary()),
    "views of bytes": lambda of: pa.array(packed(of), pa.binary()).cast(pa.binary_view()),
    "dictionary of bytes": lambda of: pa.array(packed(of)).dictionary_encode(),
}
PORTS = [
    pa.int32(),
    pa.int64(),
    pa.uint16(),
    pa.uint32(),
    pa.uint64(),
    pa.string(),
    pa.string_view(),
    pa.large_string(),
]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_addresses(small: Case, form: str) -> None:
    firewall = Firewall.from_file(small.rules)
    expected = firewall.classify(with_addresses(small.flows, lambda of: pa.array(FORMS[form](of).to_pylist())))
    table = with_addresses(small.flows, FORMS[form])
    assert firewall.classify(table).to_pyarrow() == expected.to_pyarrow()
    if "few" not in form:
        assert_answers(firewall.classify(table), small)
    for offset in range(1, 10):
        part = firewall.classify(table.slice(offset, 3000)).to_pyarrow()
        assert part == expected.to_pyarrow().slice(offset, 3000), offset


@pytest.mark.parametrize("of", PORTS, ids=str)
def test_forms_of_numbers(small: Case, of: pa.DataType) -> None:
    firewall = Firewall.from_file(small.rules)
    table = small.flows
    for at, name in enumerate(["sport", "dport", "proto"], 2):
        table = table.set_column(at, name, table[name].cast(of))
    assert_answers(firewall.classify(table), small)
    encoded = table.set_column(4, "proto", table["proto"].dictionary_encode())
    assert_answers(firewall.classify(encoded.slice(7)), small, slice(7, None))


@pytest.mark.parametrize("of", [pa.uint32(), pa.int64(), pa.uint64(), pa.binary(4)], ids=str)
def test_numbers_are_ipv4_addresses(small: Case, of: pa.DataType) -> None:
    firewall = Firewall.from_file(small.rules)
    is_ipv4 = ["." in address for address in small.flows["src"].to_pylist()]
    table = small.flows.filter(pa.array(is_ipv4))

    def form(column: pa.ChunkedArray) -> pa.Array:
        values = packed(column)
        if pa.types.is_integer(of):
            return pa.array([int.from_bytes(value, "big") for value in values], of)
        return pa.array(values, of)

    lines = [line for line, of_ipv4 in zip(small.lines, is_ipv4) if of_ipv4]
    assert firewall.classify(with_addresses(table, form)).to_pydict()["line"] == lines


def test_nulls_at_every_offset(small: Case) -> None:
    """A value under a null means nothing, wherever the bits of the validity begin."""
    firewall = Firewall.from_file(small.rules)
    chance = random.Random(3)
    rows = small.flows.num_rows
    lacking = {name: [chance.random() < 0.2 for _ in range(rows)] for name in small.flows.column_names}

    def hidden(name: str, values: pa.ChunkedArray) -> pa.Array:
        # The value stays in the buffer.
        of = values.combine_chunks()
        bits = bytearray((rows + 7) // 8)
        for row, is_null in enumerate(lacking[name]):
            bits[row // 8] |= (not is_null) << row % 8
        buffers = of.buffers()
        return pa.Array.from_buffers(of.type, rows, [pa.py_buffer(bytes(bits)), *buffers[1:]])

    table = pa.table({name: hidden(name, small.flows[name]) for name in small.flows.column_names})
    expected = firewall.classify(pa.Table.from_pylist(table.to_pylist(), table.schema)).to_pydict()
    for row in range(rows):
        is_null = lacking["src"][row] or lacking["dst"][row] or lacking["proto"][row]
        assert (expected["outcome"][row] == "lacks-field") == (expected["verdict"][row] is None) == is_null
    for offset in range(10):
        found = firewall.classify(table.slice(offset)).to_pydict()
        assert found["line"] == expected["line"][offset:], offset
        assert found["outcome"] == expected["outcome"][offset:], offset


def test_structs_with_offsets_and_nulls_of_their_own(small: Case) -> None:
    firewall = Firewall.from_file(small.rules)
    columns = small.flows.combine_chunks()
    ends = [
        pa.StructArray.from_arrays(
            [columns[ip].combine_chunks(), columns[port].combine_chunks()],
            names=["ip", "port"],
            mask=pa.array([row % 11 == at for row in range(len(columns))]),
        )
        for at, (ip, port) in enumerate([("src", "sport"), ("dst", "dport")])
    ]
    table = pa.table(
        {
            "src_endpoint": ends[0],
            "dst_endpoint": ends[1],
            "connection_info": pa.StructArray.from_arrays([columns["proto"].combine_chunks()], names=["protocol_num"]),
        }
    )
    for offset in range(10):
        found = firewall.classify(table.slice(offset)).to_pydict()["line"]
        expected = [None if row % 11 < 2 else line for row, line in enumerate(small.lines)]
        assert found == expected[offset:], offset


def test_chunks_of_any_size_and_every_kind_of_table(small: Case) -> None:
    firewall = Firewall.from_file(small.rules)
    for chunk in (1, 7, 100, 2047, 2048, 2049, 5000):
        table = pa.Table.from_batches(small.flows.to_batches(max_chunksize=chunk))
        assert_answers(firewall.classify(table, threads=2), small)
        assert hits(firewall.tally(table.to_reader())) == small.hits
    assert_answers(firewall.classify(small.flows.to_batches()[0]), small)
    stream = firewall.classify_stream(small.flows.to_reader(max_chunksize=999))
    assert_answers(stream.read_all(), small)


def test_labels_swap_and_plain_strings(small: Case) -> None:
    firewall = Firewall.from_text('deny src 10.0.0.0/8 sport 80 label "answers"\npermit\n')
    table = pa.table({"src": ["192.0.2.7"], "dst": ["10.0.0.1"], "sport": [50000], "dport": [80], "proto": [6]})
    found = firewall.classify(table, swap=True, labels=True, strings="plain").to_pyarrow()
    assert found.to_pylist() == [{"verdict": "deny", "rule": 1, "line": 1, "outcome": "complete", "label": "answers"}]
    assert found.schema.field("verdict").type == pa.string()
    assert firewall.classify(table).to_pydict()["line"] == [2]


def test_weights_are_summed_by_rule(small: Case) -> None:
    firewall = Firewall.from_file(small.rules)
    rows = range(small.flows.num_rows)
    table = small.flows.append_column("packets", pa.array([str(row % 5) for row in rows])).append_column(
        "bytes", pa.array([None if row % 7 == 0 else row for row in rows])
    )
    sums = firewall.tally(table, threads=3).to_pydict()
    for line, packets, size in zip(sums["line"], sums["packets"], sums["bytes"]):
        if line is not None:
            of = [row for row in rows if small.lines[row] == line]
            assert packets == sum(row % 5 for row in of)
            assert size == sum(row for row in of if row % 7)
    assert sum(sums["flows"]) == len(rows)


def test_sums_stay_at_the_largest_number() -> None:
    firewall = Firewall.from_text("permit\n")
    table = pa.table(
        {
            "src": ["10.0.0.1"] * 3,
            "dst": ["10.0.0.2"] * 3,
            "sport": [1] * 3,
            "dport": [2] * 3,
            "proto": [6] * 3,
            "bytes": pa.array([2**63] * 3, pa.uint64()),
        }
    )
    assert firewall.tally(table).to_pydict()["bytes"][0] == 2**63 - 1


def test_updates_beside_calls(small: Case) -> None:
    """Each block of rows sees the rules of one commit."""
    import threading

    firewall = Firewall.from_text("permit\n")
    stop = threading.Event()

    def change() -> None:
        while not stop.is_set():
            with firewall.update() as update:
                update.prepend("deny")
            with firewall.update() as update:
                update.remove(firewall.rules().to_pydict()["rule"][0])

    writer = threading.Thread(target=change)
    writer.start()
    try:
        for _ in range(200):
            verdicts = firewall.classify(small.flows).to_pydict()["verdict"]
            for first in range(0, len(verdicts), 2048):
                assert set(verdicts[first : first + 2048]) in ({"permit"}, {"deny"})
            assert sum(firewall.tally(small.flows, threads=2).to_pydict()["flows"]) == small.flows.num_rows
    finally:
        stop.set()
        writer.join()


def test_threads_of_python_share_a_firewall(small: Case) -> None:
    from concurrent.futures import ThreadPoolExecutor

    firewall = Firewall.from_file(small.rules)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: firewall.classify(small.flows), range(40)):
            assert_answers(found, small)


def test_readers_are_read_batch_by_batch(small: Case) -> None:
    firewall = Firewall.from_file(small.rules)
    read = []

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in small.flows.to_batches(max_chunksize=500):
            read.append(batch.num_rows)
            yield batch

    reader = pa.RecordBatchReader.from_batches(small.flows.schema, batches())
    decided = pa.RecordBatchReader.from_stream(firewall.classify_stream(reader, threads=1))
    first = decided.read_next_batch()
    assert (first.num_rows, len(read) <= 2) == (500, True)
