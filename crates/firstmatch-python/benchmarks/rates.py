"""Rows a second by firstmatch and by what people do without it, over the same flows and rules.

python rates.py [--rows N] [--rules N] [--rounds N] [--ours] [--record FILE]

Rules have five fields, as access lists do; a few of them take much of the traffic. Each way decides the same rows in
interleaved rounds, and all of its lines are compared with those of NumPy. Slow ways decide the first rows alone. Rates
are rows a second of the process's processor time, all threads together, so they are those of one core; a round counts
the fastest of three calls, because memory that was never touched before costs some machines more than the rules do.
"""

import argparse
import csv
import datetime
import ipaddress
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from firstmatch import Firewall, __version__

# Number of calls of a round, of which the fastest counts.
CALLS = 3

Rule = tuple[int, int, int, int, int, int, int, int]


@dataclass(frozen=True)
class Case:
    """Rules as first and last values of the addresses, ports and protocol; and flows in two forms."""

    rules: list[Rule]
    integers: pa.Table
    text: pa.Table
    lines: "np.ndarray[Any, np.dtype[np.int32]]"


def make(rules: int, rows: int) -> Case:
    """Makes up rules and flows. The share of flows for rule n falls as 1/n."""
    chance = random.Random(7)

    def network() -> tuple[int, int]:
        length = chance.choice([8, 16, 16, 20, 24, 24, 24, 28, 32, 32])
        first = chance.getrandbits(32) >> (32 - length) << (32 - length)
        return first, first | ((1 << (32 - length)) - 1)

    made: list[Rule] = []
    while len(made) < rules:
        (src, last_src), (dst, last_dst) = network(), network()
        if chance.random() < 0.15:
            src, last_src = 0, 2**32 - 1
        proto = chance.choice([6, 6, 6, 17, 17, 1])
        port = chance.choice([(22, 22), (53, 53), (80, 80), (443, 443), (1024, 65535), (8000, 8099), (0, 65535)])
        made.append((src, last_src, dst, last_dst, *(port if proto != 1 else (0, 65535)), proto, chance.random() < 0.4))
    weights = [1 / (rank + 1) for rank in range(rules)]
    order = chance.sample(range(rules), rules)
    chosen = [made[order[rank]] for rank in chance.choices(range(rules), weights, k=rows)]
    columns: list[list[int]] = [[], [], [], [], []]
    for src, last_src, dst, last_dst, port, last_port, proto, _ in chosen:
        flow = (chance.randint(src, last_src), chance.randint(dst, last_dst), chance.randrange(1024, 65536))
        for column, value in zip(columns, (*flow, chance.randint(port, last_port), proto), strict=True):
            column.append(value)
    types = [pa.uint32(), pa.uint32(), pa.int32(), pa.int32(), pa.int32()]
    names = ["src", "dst", "sport", "dport", "proto"]
    integers = pa.table({name: pa.array(of, kind) for name, of, kind in zip(names, columns, types, strict=True)})
    text = integers
    for at in (0, 1):
        addresses = pa.array([str(ipaddress.IPv4Address(address)) for address in columns[at]])
        text = text.set_column(at, names[at], addresses)
    return Case(made, integers, text, masks(made, integers))


def masks(rules: list[Rule], flows: pa.Table) -> "np.ndarray[Any, np.dtype[np.int32]]":
    """Decides by NumPy: each rule over the rows that no earlier one has taken. Ports exist in TCP and UDP alone."""
    src, dst, _, dport, proto = (flows[name].to_numpy() for name in flows.column_names)
    lines = np.zeros(len(src), dtype=np.int32)
    open_rows = np.arange(len(src))
    for line, (first_src, last_src, first_dst, last_dst, port, last_port, of, _) in enumerate(rules, 1):
        a, b, c, d = src[open_rows], dst[open_rows], dport[open_rows], proto[open_rows]
        held = (d == of) & (a >= first_src) & (a <= last_src) & (b >= first_dst) & (b <= last_dst)
        if (port, last_port) != (0, 65535):
            held &= (c >= port) & (c <= last_port)
        lines[open_rows[held]] = line
        open_rows = open_rows[~held]
    return lines


def text_of(rules: list[Rule]) -> str:
    lines = []
    for src, last_src, dst, last_dst, port, last_port, proto, is_denied in rules:
        ends = f"src {ipaddress.IPv4Address(src)}-{ipaddress.IPv4Address(last_src)}"
        ends += f" dst {ipaddress.IPv4Address(dst)}-{ipaddress.IPv4Address(last_dst)}"
        ports = "" if (port, last_port) == (0, 65535) else f" dport {port}-{last_port}"
        lines.append(f"{'deny' if is_denied else 'permit'} proto {proto} {ends}{ports}\n")
    return "".join(lines)


def conditions(rule: Rule) -> str:
    src, last_src, dst, last_dst, port, last_port, proto, _ = rule
    ports = "" if (port, last_port) == (0, 65535) else f" and dport between {port} and {last_port}"
    return f"proto = {proto} and src between {src} and {last_src} and dst between {dst} and {last_dst}{ports}"


def loops(rules: list[Rule], flows: pa.Table) -> list[int]:
    """Decides by loops over Python's `ipaddress`."""
    networks = [
        (
            ipaddress.IPv4Address(a),
            ipaddress.IPv4Address(b),
            ipaddress.IPv4Address(c),
            ipaddress.IPv4Address(d),
            e,
            f,
            of,
        )
        for a, b, c, d, e, f, of, _ in rules
    ]
    lines = []
    for row in flows.to_pylist():
        src, dst = ipaddress.ip_address(row["src"]), ipaddress.ip_address(row["dst"])
        for line, (a, b, c, d, port, last_port, proto) in enumerate(networks, 1):
            in_port = proto == 1 or port <= row["dport"] <= last_port
            if row["proto"] == proto and a <= src <= b and c <= dst <= d and in_port:
                lines.append(line)
                break
        else:
            lines.append(0)
    return lines


def ways(case: Case) -> dict[str, tuple[int, Callable[[int], Any], Callable[[Any], list[int]]]]:
    """Returns each way with the number of rows that it decides, and how its lines are read."""
    rows = case.integers.num_rows
    firewall = Firewall.from_text(text_of(case.rules))
    connection = duckdb.connect()
    branches = " ".join(f"when {conditions(rule)} then {line}" for line, rule in enumerate(case.rules, 1))
    when = pl.coalesce(
        *(pl.when(pl.sql_expr(conditions(rule))).then(pl.lit(line)) for line, rule in enumerate(case.rules, 1)),
        pl.lit(0),
    )
    frame = pl.DataFrame(case.integers)

    def sql(count: int) -> Any:
        flows = case.integers.slice(0, count)  # noqa: F841 (SQL names it)
        return connection.sql(f"select case {branches} else 0 end as line from flows").fetchnumpy()["line"]

    def classified(table: Any) -> list[int]:
        return [line or 0 for line in table.to_pydict()["line"]]

    def tallied(table: Any) -> list[int]:
        sums = table.to_pydict()
        return [flows for line, flows in zip(sums["line"], sums["flows"], strict=True) if line]

    one = {"threads": 1}
    return {
        "classify, integers": (rows, lambda n: firewall.classify(case.integers.slice(0, n), **one), classified),
        "classify, text": (rows, lambda n: firewall.classify(case.text.slice(0, n), **one), classified),
        "tally, integers": (rows, lambda n: firewall.tally(case.integers.slice(0, n), **one), tallied),
        "tally, text": (rows, lambda n: firewall.tally(case.text.slice(0, n), **one), tallied),
        "DuckDB, `CASE` over integers": (rows // 5, sql, list),
        "Polars, `when` over integers": (rows // 10, lambda n: frame.head(n).select(when)[:, 0], list),
        "NumPy, masks over integers": (rows // 5, lambda n: masks(case.rules, case.integers.slice(0, n)), list),
        "loops over `ipaddress`": (rows // 500, lambda n: loops(case.rules, case.text.slice(0, n)), list),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ours", action="store_true", help="leave the other ways out")
    parser.add_argument("--record", type=Path, help="file that lines are added to")
    arguments = parser.parse_args()
    case = make(arguments.rules, arguments.rows)
    counts = np.bincount(case.lines, minlength=arguments.rules + 1)[1:].tolist()
    all_ways = {
        name: way for name, way in ways(case).items() if not arguments.ours or name.startswith(("classify", "tally"))
    }
    rates: dict[str, list[float]] = {name: [] for name in all_ways}
    for _ in range(arguments.rounds):
        for name, (rows, decide, lines) in all_ways.items():
            times = []
            for _ in range(CALLS):
                begin = time.process_time()
                found = decide(rows)
                times.append(time.process_time() - begin)
            rates[name].append(rows / min(times))
            expected = counts if name.startswith("tally") else case.lines[:rows].tolist()
            assert [int(line) for line in lines(found)] == expected, f"{name} has other answers"
    top = sorted(counts, reverse=True)
    print(
        f"{arguments.rules} rules, {arguments.rows} flows, {100 * sum(top[:10]) / arguments.rows:.0f} % of them for ten rules"
    )
    record(rates, {name: way[0] for name, way in all_ways.items()}, arguments.rules, arguments.record)


def record(rates: dict[str, list[float]], rows: dict[str, int], rules: int, path: Path | None) -> None:
    """Prints rates, and adds them to a file of records."""
    git = subprocess.run(["git", "describe", "--always", "--dirty=+"], stdout=subprocess.PIPE, text=True)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "")
    lines = []
    for name, of in rates.items():
        median = statistics.median(of)
        print(f"{name:36} {median:14,.0f} rows/s ({min(of):,.0f} to {max(of):,.0f})")
        about = [datetime.date.today().isoformat(), git.stdout.strip(), __version__, cpu or platform.machine()]
        lines.append([*about, rules, rows[name], name, *(round(value) for value in (median, min(of), max(of)))])
    if path:
        is_new = not path.exists()
        with path.open("a", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            if is_new:
                writer.writerow("date commit version cpu rules rows way median least most".split())
            writer.writerows(lines)


if __name__ == "__main__":
    sys.exit(main())
