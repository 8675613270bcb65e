"""Decides the flows of files by rules, in Spark: `python -m firstmatch.spark`, or this file under `spark-submit`."""

from __future__ import annotations

import argparse
import csv
import os
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from firstmatch import ColumnError, Firewall, RuleError, presets
from firstmatch.spark import classify, tally, tally_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Runs of fewer rows are mostly the start of workers, whose time says nothing of the rate.
MANY = 100_000_000
A_DAY = 24 * 60 * 60
EPILOG = """\
Examples:
  python -m firstmatch.spark --rules edge.rules --input logs/ --preset aws-vpc --tally
  spark-submit FILE --rules edge.rules --input s3a://logs/ --output s3a://decided/
where FILE is shown by: python -c 'import firstmatch.spark.__main__ as it; print(it.__file__)'

A row with a bad value has no verdict and an outcome that says why. Exit codes: 0 done, 1 Spark's job failed, 2 the rules,
the columns or the command are bad."""


def parser() -> argparse.ArgumentParser:
    """Returns the command's parser."""
    of = argparse.ArgumentParser(
        prog="firstmatch.spark",
        description="What would these rules have done to the flows in files? Verdict, rule, line and outcome of each row, "
        "or sums by rule.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = of.add_argument
    add("--rules", required=True, help="rule file, which the driver reads")
    add("--input", required=True, nargs="+", metavar="PATH", help="files or folders of flows")
    add("--output", metavar="PATH", help="folder to write to; sums go to standard output without one")
    add("--tally", action="store_true", help="sum flows, packets and bytes by rule instead of deciding each row")
    add("--format", default="parquet", metavar="NAME", help="format of the input: parquet (default), csv, json, orc")
    add("--output-format", default="parquet", metavar="NAME", help="format of the output, parquet by default")
    add("--overwrite", action="store_true", help="replace the output folder if it exists")
    add("--files", action="store_true", help="with --tally: read Parquet files in Python, one a task, which is faster")
    add("--preset", choices=presets(), metavar="LOG", help="log that the columns are of: " + ", ".join(presets()))
    add("--absent", default=[], action="append", metavar="FIELD", help="field that no row has")
    add("--swap", action="store_true", help="decide the answers, from destination to source")
    add("--labels", action="store_true", help="add the labels of rules to each row")
    add("--errors", default="null", choices=["null", "raise"], help="whether a bad value fails the job")
    pairs = {
        "--column": ("FIELD=NAME", "column of a field"),
        "--constant": ("FIELD=VALUE", "value of a field in all rows"),
        "--read": ("NAME=VALUE", "option of Spark's reader, such as sep=; (csv has a header by default)"),
    }
    for option, (metavar, text) in pairs.items():
        add(option, default=[], type=pair, action="append", metavar=metavar, help=text)
    return of


def pair(text: str) -> tuple[str, str]:
    """Returns name and value of `NAME=VALUE`."""
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise argparse.ArgumentTypeError(f"expected NAME=VALUE, found {text!r}")
    return name, value


def options_of(given: argparse.Namespace) -> dict[str, Any]:
    """Returns the options of `Firewall.classify` that a command states."""
    columns: dict[str, list[str]] = {}
    for field, name in given.column:
        columns.setdefault(field, []).append(name)
    options = {
        "preset": given.preset,
        "columns": columns,
        "constants": {field: int(value) if value.isdecimal() else value for field, value in given.constant},
        "absent": given.absent,
        "swap": given.swap,
        "errors": given.errors,
    }
    return options if given.tally else {**options, "labels": given.labels}


def decided(spark: SparkSession, given: argparse.Namespace, firewall: Firewall) -> DataFrame:
    """Returns the rows that a command asks for."""
    options = options_of(given)
    if given.files:
        return tally_files(spark, given.input, firewall, format=given.format, **options)
    reading = {"header": "true", **dict(given.read)} if given.format == "csv" else dict(given.read)
    flows = spark.read.format(given.format).options(**reading).load(given.input)
    return tally(flows, firewall, **options) if given.tally else classify(flows, firewall, **options)


def put(result: DataFrame, given: argparse.Namespace) -> None:
    """Writes rows where a command says."""
    if given.output:
        mode = "overwrite" if given.overwrite else "errorifexists"
        header = {"header": "true"} if given.output_format == "csv" else {}
        result.write.format(given.output_format).mode(mode).options(**header).save(given.output)
    else:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(result.columns)
        writer.writerows(result.collect())


def sizing(rows: int, seconds: float, cores: int) -> str:
    """Returns how fast a run was, and how many cores 10¹² rows a day want."""
    if rows < MANY:
        return (
            f"{rows:,} rows in {seconds:.1f} s, with the start of workers; plan with 0.5 million rows/s a core and 1 GB of "
            f"memory for each, or by a run of {MANY:,} rows or more"
        )
    rate = rows / seconds / cores
    wanted = max(1, round(1e12 / A_DAY / rate))
    return (
        f"{rows:,} rows in {seconds:.1f} s on {cores} cores: {rate / 1e6:.2f} million rows/s a core; "
        f"10^12 rows a day want {wanted:,} such cores, and 1 GB of memory for each is enough"
    )


def reason(error: Exception) -> str:
    """Returns the line of an error that says what is wrong."""
    java = getattr(error, "java_exception", None)
    lines = str(error if java is None else java.getMessage()).strip().splitlines() or [type(error).__name__]
    # Errors of workers are among the lines of a traceback.
    own = [line for line in lines if line.startswith("firstmatch.")]
    return own[0].partition(": ")[2] if own else lines[0]


def refused(why: object, status: int = 2) -> int:
    """Shows why nothing is done, and returns the exit code."""
    for line in str(why).splitlines():
        print(f"error: {line}", file=sys.stderr)
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command, and returns its exit code."""
    of = parser()
    given = of.parse_args(arguments)
    if not given.output and not given.tally:
        of.error("--output is missing; sums alone (--tally) go to standard output")
    if given.files and not given.tally:
        of.error("--files reads for --tally alone")
    if find_spec("pyspark") is None:
        return refused("there is no pyspark (pip install 'firstmatch[spark]')")
    try:
        firewall = Firewall.from_file(given.rules)
    except (OSError, RuleError) as error:
        return refused(error)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        # Otherwise workers would be the first python3 of PATH. `spark-submit` has chosen one.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return run(given, firewall)


def run(given: argparse.Namespace, firewall: Firewall) -> int:
    """Decides and writes rows, shows how fast that was, and returns the exit code."""
    import pyspark.sql.functions as F
    from py4j.protocol import Py4JError
    from pyspark.errors import AnalysisException, PySparkException
    from pyspark.sql import Observation, SparkSession

    spark = SparkSession.builder.appName("firstmatch").getOrCreate()
    # Spark warns of a missing input with the whole stack, beside its error.
    spark.sparkContext.setLogLevel("ERROR")
    status = 2
    try:
        result = decided(spark, given, firewall)
        status = 1
        seen, began = Observation(), time.monotonic()
        flows = F.sum("flows") if given.tally else F.count(F.lit(1))
        put(result.observe(seen, flows.alias("rows")), given)
        seconds = time.monotonic() - began
        print(sizing(seen.get["rows"] or 0, seconds, spark.sparkContext.defaultParallelism), file=sys.stderr)
        return 0
    except (PySparkException, Py4JError, ColumnError, OSError, TypeError, ValueError) as error:
        return refused(reason(error), 2 if isinstance(error, AnalysisException) else status)
    finally:
        spark.stop()


if __name__ == "__main__":
    sys.exit(main())
