"""Rules over Spark's data frames: the sums and rows of the package, and of the program, whatever happens to executors."""

from __future__ import annotations

import csv
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import firstmatch.spark
import pyarrow as pa
import pyarrow.parquet
import pytest
from conftest import case
from firstmatch import ColumnError, Firewall, RuleError
from firstmatch.spark import __main__ as command
from pyspark.sql import DataFrame, Row, SparkSession

ROWS = int(os.environ.get("ROWS", "200000"))
FILES = 8
LOCAL = "local[2]"
CLUSTER = "local-cluster[2,1,1024]"

Sessions = Callable[[str], SparkSession]


@dataclass(frozen=True)
class Made:
    """Rules and flows of both families, and the program's packets by line."""

    rules: Path
    firewall: Firewall
    flows: pa.Table
    folder: Path
    hits: dict[int, int]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    root, folder = tmp_path_factory.mktemp("made"), tmp_path_factory.mktemp("flows")
    of = case(root, "inet", 1000, ROWS)
    rows = range(ROWS)
    flows = of.flows.append_column("packets", pa.array([1 + row % 7 for row in rows], pa.int64()))
    flows = flows.append_column("bytes", pa.array([40 + row % 1400 for row in rows], pa.int64()))
    flows = flows.append_column("row", pa.array(rows, pa.int64()))
    size = -(-ROWS // FILES)
    for file in range(FILES):
        pa.parquet.write_table(flows.slice(file * size, size), folder / f"{file}.parquet")
    return Made(of.rules, Firewall.from_file(of.rules), flows, folder, of.hits)


@pytest.fixture(scope="session")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """Returns the session of a master. All of them are in one JVM, whose start takes long."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    now: list[tuple[str, SparkSession]] = []

    def of(master: str) -> SparkSession:
        if now and (now[0][0] != master or now[0][1].sparkContext._jsc is None):
            now.pop()[1].stop()
        if not now:
            builder = SparkSession.builder.master(master).config("spark.ui.enabled", "false")
            builder = builder.config("spark.sql.shuffle.partitions", "4").config("spark.default.parallelism", "2")
            # A file is a task, so that there are several for each worker.
            builder = builder.config("spark.sql.files.minPartitionNum", FILES)
            builder = builder.config("spark.sql.warehouse.dir", str(tmp_path_factory.getbasetemp() / "warehouse"))
            now.append((master, builder.getOrCreate()))
        return now[0][1]

    yield of
    for _, session in now:
        session.stop()


@pytest.fixture
def spark(sessions: Sessions) -> SparkSession:
    return sessions(LOCAL)


def rows_of(table: object) -> list[tuple[Any, ...]]:
    """Returns the rows of sums, outcomes in the order of their names."""
    rows = [tuple(row.values()) for row in pa.table(table).to_pylist()]
    of_rules = [row for row in rows if row[4] is None]
    return of_rules + sorted((row for row in rows if row[4] is not None), key=lambda row: str(row[4]))


def sums_of(df: DataFrame) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.collect()]


def test_sums_are_those_of_the_package_and_of_the_program(spark: SparkSession, made: Made) -> None:
    found = firstmatch.spark.tally(spark.read.parquet(str(made.folder)), made.rules)
    assert found.columns == made.firewall.tally(made.flows).column_names
    assert sums_of(found) == rows_of(made.firewall.tally(made.flows))
    by_line = {row["line"]: row["flows"] for row in found.collect() if row["line"] is not None and row["flows"] > 0}
    assert by_line == {line: packets for line, packets in made.hits.items() if packets > 0}
    assert sum(by_line.values()) < ROWS


def test_rows_are_those_of_the_package(spark: SparkSession, made: Made) -> None:
    decided = firstmatch.spark.classify(spark.read.parquet(str(made.folder)), made.firewall, labels=True)
    assert decided.columns == [*made.flows.column_names, "verdict", "rule", "line", "outcome", "label"]
    found = decided.toArrow().sort_by("row")
    assert found.select(made.flows.column_names).to_pydict() == made.flows.to_pydict()
    expected = pa.table(made.firewall.classify(made.flows, strings="plain", labels=True))
    assert found.select(expected.column_names).to_pydict() == expected.to_pydict()


def test_files_read_in_workers_have_the_same_sums(spark: SparkSession, made: Made, tmp_path: Path) -> None:
    expected = rows_of(made.firewall.tally(made.flows))
    assert sums_of(firstmatch.spark.tally_files(spark, made.folder, made.firewall)) == expected
    halves = [sorted(made.folder.iterdir())[:3], sorted(made.folder.iterdir())[3:]]
    found = firstmatch.spark.tally_files(spark, [path for half in halves for path in half], made.firewall)
    assert sums_of(found) == expected
    nested = pa.table(
        {
            "connection": pa.StructArray.from_arrays(
                [made.flows[name].combine_chunks() for name in ("src", "dst", "sport", "dport", "proto")],
                ["src_ip", "dest_ip", "src_port", "dest_port", "protocol"],
            )
        }
    )
    pa.parquet.write_table(nested, tmp_path / "nested.parquet")
    flows = [row[5] for row in sums_of(firstmatch.spark.tally_files(spark, tmp_path, made.firewall))]
    assert flows == [row[5] for row in expected]


def test_files_that_are_missing_or_lack_a_column_are_named(spark: SparkSession, made: Made, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"nowhere: there is no such file or folder"):
        firstmatch.spark.tally_files(spark, tmp_path / "nowhere", made.firewall)
    with pytest.raises(FileNotFoundError, match="there is no file to read"):
        firstmatch.spark.tally_files(spark, [], made.firewall)
    pa.parquet.write_table(made.flows, tmp_path / "a.parquet")
    pa.parquet.write_table(made.flows.drop_columns(["src"]), tmp_path / "b.parquet")
    with pytest.raises(Exception, match=r"ColumnError: .*b\.parquet: no column is known for src"):
        firstmatch.spark.tally_files(spark, tmp_path, made.firewall).collect()


def test_bad_rows_are_counted_and_have_no_verdict(spark: SparkSession, made: Made, tmp_path: Path) -> None:
    bad = [row % 13 == 5 for row in range(len(made.flows))]
    src = pa.array(["10.0.0.256" if is_bad else src for is_bad, src in zip(bad, made.flows["src"].to_pylist())])
    pa.parquet.write_table(made.flows.set_column(0, "src", src), tmp_path / "flows.parquet")
    flows = spark.read.parquet(str(tmp_path))
    outcomes = {row[4]: row[2:6] for row in sums_of(firstmatch.spark.tally(flows, made.firewall))}
    assert outcomes["bad-address"] == (None, None, "bad-address", sum(bad))
    decided = firstmatch.spark.classify(flows, made.firewall)
    assert decided.where("verdict is null and line is null and outcome = 'bad-address'").count() == sum(bad)
    assert decided.where("outcome = 'bad-address' or src = '10.0.0.256'").count() == sum(bad)
    with pytest.raises(Exception, match=r'RowError: row \d+, column "src": "10.0.0.256" is no address'):
        firstmatch.spark.tally(flows, made.firewall, errors="raise").collect()


SMALL = Firewall.from_text('deny tcp dport 23 label "no telnet"\npermit src 10.0.0.0/8\n')
# Telnet by IPv4, by IPv6, and another port.
FLOWS = [("10.0.0.1", "192.0.2.7", 50000, 23), ("::1", "::2", 50000, 23), ("10.0.0.1", "192.0.2.7", 50000, 443)]


def gcp(src: str, dst: str, sport: int, dport: int) -> Row:
    five = Row(src_ip=src, dest_ip=dst, src_port=sport, dest_port=dport, protocol=6)
    return Row(connection=five, packets_sent="3", bytes_sent="180", reporter="SRC")


def ocsf(src: str, dst: str, sport: int, dport: int) -> Row:
    ends = {"src_endpoint": Row(ip=src, port=sport), "dst_endpoint": Row(ip=dst, port=dport)}
    return Row(**ends, connection_info=Row(protocol_num=6), traffic=Row(packets=3, bytes=180), severity="Low")


def zeek(src: str, dst: str, sport: int, dport: int) -> Row:
    five = {"id.orig_h": src, "id.resp_h": dst, "id.orig_p": sport, "id.resp_p": dport, "proto": "tcp"}
    return Row(**five, orig_pkts=3, orig_ip_bytes=180, **{"a`b": 1})


@pytest.mark.parametrize("log", [gcp, ocsf, zeek])
def test_structs_and_names_with_dots_are_columns(spark: SparkSession, log: Callable[..., Row]) -> None:
    flows = spark.createDataFrame([log(*flow) for flow in FLOWS])
    decided = firstmatch.spark.classify(flows, SMALL).collect()
    assert [(row["verdict"], row["line"]) for row in decided] == [("deny", 1), ("deny", 1), ("permit", 2)]
    assert [row[: len(flows.columns)] for row in decided] == [tuple(row) for row in flows.collect()]
    assert sums_of(firstmatch.spark.tally(flows, SMALL)) == [
        (1, 1, "deny", "no telnet", None, 2, 6, 360),
        (2, 2, "permit", None, None, 1, 3, 180),
        (None, None, "deny", None, None, 0, 0, 0),
    ]


def test_a_null_struct_lacks_its_fields(spark: SparkSession) -> None:
    flows = spark.createDataFrame([gcp(*FLOWS[0]), gcp(*FLOWS[2])]).selectExpr(
        "if(connection.dest_port = 23, null, connection) connection", "packets_sent"
    )
    assert sums_of(firstmatch.spark.tally(flows, SMALL))[1:] == [
        (2, 2, "permit", None, None, 1, 3, None),
        (None, None, "deny", None, None, 0, 0, None),
        (None, None, None, None, "lacks-field", 1, 3, None),
    ]
    assert [row["outcome"] for row in firstmatch.spark.classify(flows, SMALL).collect()] == ["lacks-field", "complete"]


def test_no_rows_have_no_sums(spark: SparkSession, made: Made) -> None:
    empty = spark.read.parquet(str(made.folder)).where("false")
    assert sums_of(firstmatch.spark.tally(empty, made.firewall)) == rows_of(made.firewall.tally(made.flows.slice(0, 0)))
    assert firstmatch.spark.classify(empty, made.firewall).count() == 0


def test_sums_beyond_64_bits_stay_at_their_end(spark: SparkSession) -> None:
    flows = spark.createDataFrame(
        [(*flow, 6, 2**63 - 1, 7) for flow in FLOWS[:2]],
        "src string, dst string, sport int, dport int, proto int, bytes bigint, packets int",
    )
    assert sums_of(firstmatch.spark.tally(flows.repartition(2), SMALL))[0][5:] == (2, 14, 2**63 - 1)


def test_faults_are_errors_before_a_job(spark: SparkSession, made: Made, tmp_path: Path) -> None:
    flows = spark.read.parquet(str(made.folder))
    wrong = tmp_path / "wrong.rules"
    wrong.write_text("permit tpc\ndeny dport 99999\n")
    spark.sparkContext.setJobGroup("faults", "no job")
    for call in (firstmatch.spark.classify, firstmatch.spark.tally):
        with pytest.raises(RuleError, match="unknown field or protocol `tpc`") as error:
            call(flows, wrong)
        assert len(error.value.faults) == 2
        with pytest.raises(ColumnError, match=r"no column is known for src.*name it: columns="):
            call(flows.drop("src"), made.firewall)
        with pytest.raises(ColumnError, match='column "src" is double, which is no address'):
            call(flows.withColumn("src", flows["dport"].cast("double")), made.firewall)
        with pytest.raises(TypeError, match="has no option colums"):
            call(flows, made.firewall, colums={})
    with pytest.raises(ColumnError, match='the columns have "line" already'):
        firstmatch.spark.classify(flows.withColumnRenamed("row", "Line"), made.firewall)
    changed = Firewall.from_text("permit\n")
    with changed.update() as update:
        update.prepend("deny tcp")
    with pytest.raises(ValueError, match="cannot be pickled"):
        firstmatch.spark.tally(flows, changed)
    assert spark.sparkContext.statusTracker().getJobIdsForGroup("faults") == []
    spark.sparkContext.setJobGroup("all", "the other tests")


def test_a_worker_builds_the_engine_once(spark: SparkSession) -> None:
    packed = pickle.dumps(Firewall.from_text("permit udp dport 4053\n"))

    def built(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            had = packed in firstmatch.spark._engines
            firstmatch.spark._engine(packed)
            yield pa.RecordBatch.from_pydict(
                {
                    "worker": pa.array([os.getpid()], pa.int64()),
                    "had": pa.array([had]),
                    "engines": pa.array([len(firstmatch.spark._engines)], pa.int64()),
                }
            )

    tasks = spark.range(0, 16, 1, 16).mapInArrow(built, "worker bigint, had boolean, engines bigint").collect()
    workers = {row["worker"] for row in tasks}
    assert sum(not row["had"] for row in tasks) == len(workers) < len(tasks) == 16
    assert {row["engines"] for row in tasks} == {1}


def test_the_command_writes_sums_and_rows(
    sessions: Sessions, made: Made, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = rows_of(made.firewall.tally(made.flows))
    sessions(LOCAL)
    for more in ([], ["--files"]):
        assert command.main(["--rules", str(made.rules), "--input", str(made.folder), "--tally", *more]) == 0
        out, err = capfd.readouterr()
        shown = [[value or None for value in row] for row in csv.reader(out.splitlines())]
        assert shown[0] == ["line", "rule", "verdict", "label", "outcome", "flows", "packets", "bytes"]
        assert shown[1:] == [[None if value is None else str(value) for value in row] for row in expected]
        assert f"{ROWS:,} rows in " in err
        sessions(LOCAL)
    given = ["--rules", str(made.rules), "--input", str(made.folder), "--output", str(tmp_path / "decided")]
    assert command.main(given) == 0
    written = pa.parquet.read_table(tmp_path / "decided").sort_by("row")
    assert written["line"].to_pylist() == made.firewall.classify(made.flows).to_pydict()["line"]
    sessions(LOCAL)
    assert command.main(given) == 2
    assert "already exists" in capfd.readouterr().err.splitlines()[-1]


def test_the_command_says_in_a_line_what_is_wrong(
    sessions: Sessions, made: Made, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    wrong, flows, rules = tmp_path / "wrong.rules", str(made.folder), str(made.rules)
    wrong.write_text("permit tpc\n")
    cases = [
        (
            ["--rules", str(wrong), "--input", flows, "--tally"],
            "wrong.rules:1:8: unknown field or protocol `tpc`; did you mean `tcp`?",
        ),
        (["--rules", str(tmp_path / "none"), "--input", flows, "--tally"], "none: there is no such file"),
        (["--rules", rules, "--input", str(tmp_path / "none"), "--tally"], "[PATH_NOT_FOUND] Path does not exist"),
        (
            ["--rules", rules, "--input", str(tmp_path / "none"), "--tally", "--files"],
            "none: there is no such file or folder",
        ),
        (
            ["--rules", rules, "--input", flows, "--tally", "--column", "dport=port"],
            "there is no column port; the columns are src",
        ),
        (["--rules", rules, "--input", flows, "--tally", "--constant", "tpc=1"], "constants: there is no field tpc"),
        (["--rules", rules, "--input", flows, "--tally", "--format", "xml2"], "[DATA_SOURCE_NOT_FOUND]"),
    ]
    for given, expected in cases:
        sessions(LOCAL)
        assert command.main(given) == 2
        err = capfd.readouterr().err
        assert expected in err.splitlines()[-1]
        assert "Traceback" not in err
        assert "\tat " not in err
    for given in (
        ["--rules", rules],
        ["--rules", rules, "--input", flows],
        ["--rules", rules, "--input", flows, "--output", "o", "--files"],
    ):
        with pytest.raises(SystemExit) as end:
            command.main(given)
        assert end.value.code == 2


def test_the_line_on_sizing_counts_cores_of_long_runs() -> None:
    assert command.sizing(400_000_000, 400.0, 2) == (
        "400,000,000 rows in 400.0 s on 2 cores: 0.50 million rows/s a core; 10^12 rows a day want 23 such cores, and 1 GB "
        "of memory for each is enough"
    )
    assert "plan with 0.5 million rows/s a core" in command.sizing(4_000_000, 16.3, 2)


def test_spark_submit_runs_the_command(made: Made, tmp_path: Path) -> None:
    submit = [Path(sys.executable).parent / "spark-submit", "--master", LOCAL, command.__file__]
    given = ["--rules", made.rules, "--input", made.folder, "--tally", "--output", tmp_path / "sums"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    subprocess.run([*map(str, submit), *map(str, given)], check=True, stdout=subprocess.DEVNULL, env=environment)
    assert rows_of(pa.parquet.read_table(tmp_path / "sums")) == rows_of(made.firewall.tally(made.flows))


def test_a_killed_executor_changes_no_sum(sessions: Sessions, made: Made, tmp_path: Path) -> None:
    spark, held, go = sessions(CLUSTER), str(tmp_path / "held"), str(tmp_path / "go")

    def hold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import os
        import time

        from pyspark import TaskContext

        task = TaskContext.get()
        for batch in batches:
            # Each executor runs a task at a time, so that some are done before this one begins.
            if task is not None and task.partitionId() == 4 and not os.path.exists(go):
                with open(held + ".part", "w") as file:
                    # Executor, its daemon, this worker.
                    status = open(f"/proc/{os.getppid()}/status").read()
                    file.write(next(line for line in status.splitlines() if line.startswith("PPid:")).split()[1])
                os.rename(held + ".part", held)
                while not os.path.exists(go):
                    time.sleep(0.05)
            yield batch

    flows = spark.read.parquet(str(made.folder))
    assert flows.rdd.getNumPartitions() >= FILES
    expected = rows_of(made.firewall.tally(made.flows))
    assert sums_of(firstmatch.spark.tally(flows, made.firewall)) == expected
    held_up = flows.mapInArrow(hold, flows.schema)
    found: list[Any] = []
    job = threading.Thread(target=lambda: found.extend(sums_of(firstmatch.spark.tally(held_up, made.firewall))))
    job.start()
    while job.is_alive() and not os.path.exists(held):
        time.sleep(0.05)
    executor = int(Path(held).read_text())
    commands = Path(f"/proc/{executor}/cmdline").read_bytes().split(b"\0")
    assert b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in commands
    assert spark.sparkContext.applicationId.encode() in commands
    os.kill(executor, 9)
    Path(go).touch()
    job.join()
    assert found == expected
