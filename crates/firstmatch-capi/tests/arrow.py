"""Decides the rows of a pyarrow table through the installed library, and asks DuckDB about the decisions if it is there.

The argument is the folder of link.sh.
"""

import ctypes
import sys

import pyarrow as pa

RULES = b"family ipv4\ndeny tcp dport 20-40\nmark 3 src 10.0.0.0/8 tcp dport 41-60\n"
ROWS = 200_000


def classify(library, worker, batch):
    """Returns the decisions on the rows of a struct array."""
    # Room for the structs of 72 and 80 bytes, for the input and for the result.
    schema, array, out_schema, out_array = (ctypes.create_string_buffer(80) for _ in range(4))
    address = ctypes.addressof
    batch._export_to_c(address(array), address(schema))
    error = ctypes.c_void_p()
    code = library.firstmatch_classify_arrow(
        worker, schema, array, None, out_schema, out_array, ctypes.byref(error)
    )
    if code != 0:
        library.firstmatch_error_message.restype = ctypes.c_char_p
        raise RuntimeError(library.firstmatch_error_message(error).decode())
    # The input was borrowed: taking it back releases it.
    pa.Array._import_from_c(address(array), address(schema))
    return pa.Array._import_from_c(address(out_array), address(out_schema))


def main():
    library = ctypes.CDLL(sys.argv[1] + "/lib/libfirstmatch.so")
    firewall, worker = ctypes.c_void_p(), ctypes.c_void_p()
    assert library.firstmatch_firewall_from_text(RULES, ctypes.c_size_t(len(RULES)), None, ctypes.byref(firewall), None) == 0
    assert library.firstmatch_worker_new(firewall, ctypes.byref(worker)) == 0
    ports = [row % 100 if row % 7 else None for row in range(ROWS)]
    columns = {
        "src": pa.array([b"\x0a\0\0\1"] * ROWS, pa.binary(4)),
        "dst": pa.array([0xC0000207] * ROWS, pa.int64()),
        "sport": pa.array([50000] * ROWS, pa.int32()),
        "dport": pa.array(ports, pa.uint16()),
        "proto": pa.array([6] * ROWS, pa.uint8()),
        "comment": pa.array(["x"] * ROWS),
        "site": pa.array(["x", "y"] * (ROWS // 2)).dictionary_encode(),
        "later": pa.nulls(ROWS),
    }
    batch = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    wanted = [2 if port and 20 <= port <= 40 else 3 if port and 41 <= port <= 60 else None for port in ports]
    for start in (0, 1, 9):
        decisions = classify(library, worker, batch[start:])
        decisions.validate(full=True)
        assert decisions.field("line").to_pylist() == wanted[start:]
        assert decisions.field("mark").to_pylist() == [3 if line == 3 else 0 for line in wanted[start:]]
    # A port that no packet has is a row without a rule, and columns of nulls stand for absent fields.
    columns["dport"] = pa.array([70_000 if row == 9 else 30 for row in range(ROWS)], pa.int64())
    decisions = classify(library, worker, pa.StructArray.from_arrays(list(columns.values()), list(columns)))
    assert decisions.field("line").to_pylist() == [None if row == 9 else 2 for row in range(ROWS)]
    assert decisions.field("outcome")[9].as_py() == 16
    # Text, views and dictionaries answer as integers do.
    columns["dport"] = pa.array(ports, pa.uint16())
    source = pa.array(["10.0.0.1"] * ROWS)
    texts = [source.cast(pa.large_string()), source.cast(pa.string_view()), source.dictionary_encode()]
    binary = pa.array([b"\x0a\0\0\1"] * ROWS)
    for values in [source, *texts, binary, binary.cast(pa.binary_view()), columns["src"].dictionary_encode()]:
        columns |= {"src": values, "dst": values, "proto": pa.array(["tcp"] * ROWS).dictionary_encode()}
        table = pa.StructArray.from_arrays(list(columns.values()), list(columns))
        assert classify(library, worker, table[7:]).field("line").to_pylist() == wanted[7:], values.type
    columns["dport"] = columns["sport"] = pa.nulls(ROWS)
    absent = classify(library, worker, pa.StructArray.from_arrays(list(columns.values()), list(columns)))
    assert absent.field("line").null_count == ROWS and set(absent.field("outcome").to_pylist()) == {2}
    decisions = classify(library, worker, batch[9:])
    library.firstmatch_worker_free(worker)
    library.firstmatch_firewall_release(firewall)
    print(f"pyarrow: {3 * ROWS - 10} rows are decided")
    try:
        import duckdb
    except ImportError:
        return
    connection = duckdb.connect()
    connection.register("decided", pa.Table.from_batches([pa.RecordBatch.from_struct_array(decisions)]))
    counts = connection.sql("select line, count(*) from decided group by line").fetchall()
    for line, count in counts:
        assert count == wanted[9:].count(line), (line, count)
    print(f"DuckDB: {len(counts)} groups of decisions are counted")


main()
