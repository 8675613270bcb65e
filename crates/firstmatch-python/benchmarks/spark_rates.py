"""Rows a second in Spark, by rules and by Spark alone, over the same Parquet files.

python spark_rates.py [--rows N] [--rules N] [--rounds N] [--record FILE]

Flows and rules are those of rates.py, with addresses as text, in 8 files of 10 columns. Rates are rows a second of the
processor time of the JVM and its workers together, in interleaved rounds after one that does not count. All sums are
compared with those of the package without Spark.
"""

import argparse
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import firstmatch.spark
import pyarrow as pa
import pyarrow.parquet as pq
from firstmatch import Firewall
from rates import make, record, text_of

os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

FILES = 8


def processor_time() -> float:
    """Returns the seconds that this process and all its descendants have taken."""
    times: dict[int, tuple[int, float]] = {}
    for process in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        times[int(process)] = (int(fields[1]), sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK"))
    tree = {os.getpid()}
    while more := {process for process, (parent, _) in times.items() if parent in tree} - tree:
        tree |= more
    return sum(times[process][1] for process in tree if process in times)


def write(flows: pa.Table, folder: Path) -> None:
    """Writes flows as a log with ten columns."""
    names = ["srcaddr", "dstaddr", "srcport", "dstport", "protocol"]
    table = flows.rename_columns(names)
    for name, value in (("packets", 3), ("bytes", 1800), ("start", 1), ("end", 2), ("account", 42)):
        table = table.append_column(name, pa.repeat(pa.scalar(value, pa.int64()), table.num_rows))
    size = -(-table.num_rows // FILES)
    for number in range(FILES):
        pq.write_table(table.slice(number * size, size), folder / f"{number}.parquet")


def ways(spark: SparkSession, folder: str, firewall: Firewall) -> dict[str, Callable[[], Any]]:
    """Returns each way, which gives the number of flows that it counted or the sums by line."""
    frame = spark.read.parquet(folder)
    seven = frame.select("srcaddr", "dstaddr", "srcport", "dstport", "protocol", "packets", "bytes")

    def unchanged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from batches

    def summed(of: DataFrame) -> int:
        greatest = [F.max(name) for name in of.columns[:5]]
        return of.agg(F.sum("packets"), *greatest).collect()[0][0] // 3  # type: ignore[no-any-return]

    def by_line(of: DataFrame) -> dict[int, int]:
        return {row["line"]: row["flows"] for row in of.collect() if row["line"] is not None}

    return {
        "Spark alone, sums of seven columns": lambda: summed(seven),
        "mapInArrow that returns its input": lambda: summed(seven.mapInArrow(unchanged, seven.schema)),
        "tally": lambda: by_line(firstmatch.spark.tally(frame, firewall)),
        "classify, seven columns": lambda: firstmatch.spark.classify(seven, firewall).groupBy("line").count().collect(),
        "tally_files": lambda: by_line(firstmatch.spark.tally_files(spark, folder, firewall)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rules", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--record", type=Path, help="file that lines are added to")
    arguments = parser.parse_args()
    case = make(arguments.rules, arguments.rows)
    firewall = Firewall.from_text(text_of(case.rules))
    sums = firewall.tally(case.text).to_pydict()
    expected = {line: flows for line, flows in zip(sums["line"], sums["flows"], strict=True) if line is not None}
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    spark = SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as folder:
        write(case.text, Path(folder))
        all_ways = ways(spark, folder, firewall)
        rates: dict[str, list[float]] = {name: [] for name in all_ways}
        for turn in range(arguments.rounds + 1):
            for name, run in all_ways.items():
                begin = processor_time()
                found = run()
                rate = arguments.rows / (processor_time() - begin)
                if isinstance(found, dict):
                    assert found == expected, f"{name} has other sums"
                elif isinstance(found, int):
                    assert found == arguments.rows, f"{name} has other rows"
                if turn:
                    rates[name].append(rate)
    spark.stop()
    ratio = statistics.median(
        one / other for one, other in zip(rates["mapInArrow that returns its input"], rates["tally"], strict=True)
    )
    print(f"tally takes {ratio:.2f} times the processor time of mapInArrow")
    counts = dict.fromkeys(rates, arguments.rows)
    record(rates, counts, arguments.rules, arguments.record)


if __name__ == "__main__":
    sys.exit(main())
