"""Tables of other libraries, in and out."""

import duckdb
import firstmatch.pandas
import pandas as pd
import polars as pl
import pyarrow as pa
from conftest import Case
from firstmatch import Firewall


def test_polars(small: Case) -> None:
    firewall = Firewall.from_file(small.rules)
    frame = pl.DataFrame(small.flows)
    joined = frame.hstack(pl.DataFrame(firewall.classify(frame)))
    assert joined["line"].to_list() == small.lines and joined["verdict"].cast(pl.String).to_list() == small.verdicts
    decided = {"verdict": pl.String(), "rule": pl.Int64(), "line": pl.Int32(), "outcome": pl.String()}
    schema = pl.Schema({**frame.schema, **decided})

    def decide(part: pl.DataFrame) -> pl.DataFrame:
        return part.hstack(pl.DataFrame(firewall.classify(part, strings="plain")))

    lazy = frame.lazy().map_batches(decide, schema=schema).filter(pl.col("verdict") == "deny").select(pl.len())
    assert lazy.collect().item() == small.verdicts.count("deny")
    as_categories = frame.with_columns(pl.col("src").cast(pl.Categorical))
    assert firewall.classify(as_categories).to_polars()["line"].to_list() == small.lines


def test_duckdb(small: Case) -> None:
    firewall = Firewall.from_file(small.rules)
    flows = small.flows
    connection = duckdb.connect()
    relation = connection.sql("select * from flows")
    sums = firewall.tally(relation)  # noqa: F841 (SQL names it)
    rows = connection.sql("select line, flows from sums where line is not null and flows > 0 order by line").fetchall()
    assert rows == sorted(small.hits.items())
    decided = firewall.classify(flows)  # noqa: F841 (SQL names it)
    counted = connection.sql("select count(*) from flows positional join decided where verdict = 'deny'").fetchall()
    assert counted == [(small.verdicts.count("deny"),)]


def test_pandas(small: Case) -> None:
    firewall = Firewall.from_file(small.rules)
    frame = small.flows.to_pandas().convert_dtypes()
    part = frame[frame.proto == 17]
    decided = pd.concat([part, firstmatch.pandas.classify(part, firewall)], axis=1)
    assert len(decided) == len(part) and list(decided.index) == list(part.index)
    expected = [small.lines[row] for row in part.index]
    assert [None if pd.isna(line) else int(line) for line in decided["line"]] == expected
    assert decided["line"].dtype == pd.Int32Dtype()
    sums = firstmatch.pandas.tally(frame, firewall)
    assert dict(sums[sums.flows > 0].dropna(subset="line")[["line", "flows"]].itertuples(index=False)) == small.hits


def test_nothing_is_needed_at_run_time(tmp_path: object) -> None:
    """Without other packages there are captures, and words."""
    import subprocess
    import sys

    script = """
import sys
import firstmatch
firewall = firstmatch.Firewall.from_text("deny tcp dport 23\\npermit\\n")
assert firewall.explain(src="10.0.0.1", dst="10.0.0.2", proto="tcp", dport=23).startswith("deny: rule 1")
packets = firstmatch.read_capture(sys.argv[1]).read_all()
assert len(firewall.classify(packets)) == len(packets) == 9071
assert sum(firewall.tally(packets).to_pydict()["flows"]) == 9071
assert not {"pyarrow", "pandas", "polars", "numpy"} & set(sys.modules)
"""
    from test_captures import CAPTURE

    subprocess.run([sys.executable, "-c", script, str(CAPTURE)], check=True)


def test_results_are_views_of_one_memory(small: Case) -> None:
    result = Firewall.from_file(small.rules).classify(small.flows)
    one, other = pa.table(result), pa.table(result)
    assert one["rule"].chunk(0).buffers()[1].address == other["rule"].chunk(0).buffers()[1].address
