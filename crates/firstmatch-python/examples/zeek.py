"""What would these rules have done to the connections in a log of Zeek? The connections that they deny, most bytes first.

python zeek.py RULES conn.log
"""

import sys

import pyarrow as pa
import pyarrow.csv
from firstmatch import Firewall


def read(path: str) -> pa.Table:
    """Reads a log of tab-separated values, whose `#fields` line names the columns."""
    with open(path, encoding="utf-8") as log:
        names = next(line for line in log if line.startswith("#fields")).rstrip("\n").split("\t")[1:]
    # A line that begins with `#` has fewer cells than a connection.
    return pa.csv.read_csv(
        path,
        pa.csv.ReadOptions(column_names=names),
        pa.csv.ParseOptions(delimiter="\t", invalid_row_handler=lambda row: "skip"),
        pa.csv.ConvertOptions(
            null_values=["-", "(empty)"], strings_can_be_null=True, column_types={"uid": pa.string()}
        ),
    )


def main(rules: str, path: str) -> None:
    firewall = Firewall.from_file(rules)
    connections = read(path)
    # The first packet of a TCP connection has the flag SYN.
    tested = {"tcp_flags": 2} if "tcp_flags" in firewall.fields else {}
    decided = pa.table(firewall.classify(connections, constants=tested, labels=True))
    for name in ("verdict", "line", "label"):
        connections = connections.append_column(name, decided[name])
    denied = connections.filter(pa.compute.equal(decided["verdict"], "deny")).sort_by([("orig_ip_bytes", "descending")])
    print(f"{denied.num_rows} of {connections.num_rows} connections would be denied")
    for row in denied.slice(0, 10).to_pylist():
        ends = f"{row['id.orig_h']} to {row['id.resp_h']} port {row['id.resp_p']} ({row['proto']})"
        print(f"  line {row['line'] or '-'}: {ends}, {row['orig_ip_bytes'] or 0} bytes {row['label'] or ''}".rstrip())


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
