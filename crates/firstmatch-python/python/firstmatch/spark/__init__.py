"""Rules over Spark's data frames: each worker process builds the engine once, and tasks send batches through it.

    import firstmatch.spark

    flows = spark.read.parquet("s3a://logs/vpc/2026/")
    firstmatch.spark.tally(flows, "edge.rules", preset="aws-vpc").show()
    decided = firstmatch.spark.classify(flows, "edge.rules")

Rules are read and compiled where the call is made, so that their faults and missing columns are errors of the call, not
of a job. `rules` is a `Firewall` or the path of a rule file; rules in a string are `Firewall.from_text(…)`. Options are
those of `Firewall.classify`, but `errors` is "null" by default, because hours of work must not end at one row.

`python -m firstmatch.spark --help` describes the command that does the same for files.
"""

from __future__ import annotations

import itertools
import os
import pickle
import warnings
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Union

from firstmatch import ColumnError, Firewall

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

__all__ = ["classify", "tally", "tally_files"]

Rules = Union[Firewall, str, "os.PathLike[str]"]

# Spark runs a task on each core, so that more threads would only wait for each other.
_DEFAULTS: dict[str, Any] = {"errors": "null", "threads": 1}
# Options that say which columns are taken.
_MAPPING = ("columns", "constants", "absent", "preset", "swap")
# Sums of a task; `place` is the row's place in the result.
_PARTIAL = (
    "place int, line int, rule bigint, verdict string, label string, outcome string, "
    "flows bigint, packets bigint, bytes bigint"
)
_KEYS = ("place", "line", "rule", "verdict", "label", "outcome")
_SUMS = ("flows", "packets", "bytes")
_MOST = 2**63 - 1

# The engine that this worker process used last, by its pickled rules. Spark keeps workers from task to task.
_engines: dict[bytes, Firewall] = {}


def classify(df: DataFrame, rules: Rules, **options: Any) -> DataFrame:
    """Returns `df` with the columns verdict, rule, line and outcome, and label if `labels=True`.

    Raises `RuleError` for faults of the rules, and `ColumnError` if `df` lacks a column or has one of these names
    already. A row with a bad value has no verdict and an outcome that says why; `errors="raise"` fails the job instead.
    """
    import pyarrow as pa
    from pyspark.sql.types import StructType

    firewall, options = _compiled(rules), {**_DEFAULTS, **options}
    schema = _arrow_schema(df)
    added = pa.table(firewall.classify(schema.empty_table(), strings="plain", **options)).schema
    taken = {name.lower() for name in df.columns}
    types = {pa.int32(): "integer", pa.int64(): "long", pa.string(): "string"}
    output = StructType(list(df.schema.fields))
    for field in added:
        if field.name in taken:
            raise ColumnError(f'the columns have "{field.name}" already, which classify adds; rename or drop it')
        output.add(field.name, types[field.type])
    packed, names = pickle.dumps(firewall), list(df.columns)
    # `mapInArrow` asks for columns by name, and would take dots in names for structs.
    numbered = df.toDF(*_numbered(names))
    return numbered.mapInArrow(lambda batches: _classified(packed, names, options, batches), output)


def tally(df: DataFrame, rules: Rules, **options: Any) -> DataFrame:
    """Returns flows, packets and bytes by rule, as `Firewall.tally` does, with outcomes in the order of their names.

    Only the columns that fields need are selected, and each task gives its sums alone back to Spark. Raises `RuleError`
    for faults of the rules, and `ColumnError` if `df` lacks a column.
    """
    firewall, options = _compiled(rules), {**_DEFAULTS, **options}
    leaves = _needed(firewall, _arrow_schema(df), options)
    firewall.tally(_flat(leaves).empty_table(), **options)
    packed, names = pickle.dumps(firewall), list(leaves)
    quoted = [".".join("`" + part.replace("`", "``") + "`" for part in path) for path, _ in leaves.values()]
    selected = df.selectExpr(*[f"{column} as {name}" for column, name in zip(quoted, _numbered(names))])
    partials = selected.mapInArrow(lambda batches: _tallied(packed, names, options, batches), _PARTIAL)
    return _summed(df.sparkSession, partials, packed, _flat(leaves), options)


def tally_files(
    spark: SparkSession,
    paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
    rules: Rules,
    *,
    format: str = "parquet",
    filesystem: Any = None,
    **options: Any,
) -> DataFrame:
    """Returns what `tally` does over files that the workers read by pyarrow, one file a task.

    Rows do not cross from the JVM to Python, which costs more than the rules do. `paths` are files, folders or URIs that
    `pyarrow.dataset` knows, and `filesystem` is one of pyarrow's; driver and workers must reach them. Raises
    `FileNotFoundError` if there is no file, and the errors of `tally` for the first file of each path.
    """
    import pyarrow.dataset as ds

    firewall, options = _compiled(rules), {**_DEFAULTS, **options}
    schema: pa.Schema | None = None
    files: list[tuple[Any, str]] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        try:
            dataset = ds.dataset(os.fspath(path), filesystem=filesystem, format=format)
        except FileNotFoundError:
            raise FileNotFoundError(f"{os.fspath(path)}: there is no such file or folder") from None
        if dataset.files:
            schema = dataset.schema
            firewall.tally(schema.empty_table(), **options)
            files += [(dataset.filesystem, file) for file in dataset.files]
    if schema is None:
        raise FileNotFoundError("there is no file to read")
    packed = pickle.dumps(firewall)
    tasks = spark.range(0, len(files), 1, len(files))
    partials = tasks.mapInArrow(lambda batches: _tallied_files(packed, files, format, options, batches), _PARTIAL)
    return _summed(spark, partials, packed, schema, options)


def _compiled(rules: Rules) -> Firewall:
    return rules if isinstance(rules, Firewall) else Firewall.from_file(rules)


def _numbered(names: list[str]) -> list[str]:
    return [f"c{index}" for index in range(len(names))]


def _arrow_schema(df: DataFrame) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(field.name, _arrow_type(field.dataType)) for field in df.schema.fields])


def _arrow_type(of: DataType) -> pa.DataType:
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import to_arrow_type

    convert: Any = to_arrow_type
    try:
        return convert(of, timezone="UTC")
    except PySparkTypeError:
        raise
    except TypeError:
        # Spark before 4.1 takes no time zone here.
        return convert(of)


def _leaves(fields: Iterable[pa.Field], outer: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], pa.DataType]]:
    """Yields path and type of each column that is no struct."""
    import pyarrow as pa

    for field in fields:
        path = (*outer, field.name)
        if pa.types.is_struct(field.type):
            yield from _leaves(field.type, path)
        else:
            yield path, field.type


def _flat(leaves: dict[str, tuple[tuple[str, ...], pa.DataType]]) -> pa.Schema:
    import pyarrow as pa

    return pa.schema([(name, of) for name, (_, of) in leaves.items()])


def _needed(
    firewall: Firewall, schema: pa.Schema, options: dict[str, Any]
) -> dict[str, tuple[tuple[str, ...], pa.DataType]]:
    """Returns path and type of the columns that `tally` takes, by the names that `columns_for` gives them."""
    mapping = {option: options[option] for option in _MAPPING if option in options}
    found = firewall.columns_for(schema, **mapping)
    wanted = set(itertools.chain.from_iterable(found.values()))
    if "frame" in found:
        wanted.add("link")
    leaves = {".".join(path): (path, of) for path, of in _leaves(schema)}
    needed = {name: leaf for name, leaf in leaves.items() if name in wanted}
    try:
        is_same = firewall.columns_for(_flat(needed), **mapping) == found
    except ColumnError:
        is_same = False
    # The other columns may say which log it is. A row without any column would not be counted.
    return needed if needed and is_same else leaves


def _engine(packed: bytes) -> Firewall:
    if packed not in _engines:
        _engines.clear()
        _engines[packed] = pickle.loads(packed)
    return _engines[packed]


def _classified(
    packed: bytes, names: list[str], options: dict[str, Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    firewall = _engine(packed)
    for batch in batches:
        named = pa.RecordBatch.from_arrays(batch.columns, names=names)
        with warnings.catch_warnings():
            # Bad rows have outcomes; a warning for each batch would fill the logs.
            warnings.simplefilter("ignore")
            decided = pa.table(firewall.classify(named, strings="plain", **options))
        columns = [*batch.columns, *(column.combine_chunks() for column in decided.columns)]
        yield pa.RecordBatch.from_arrays(columns, names=[*names, *decided.column_names])


def _tallied(
    packed: bytes, names: list[str], options: dict[str, Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    named = (pa.RecordBatch.from_arrays(batch.columns, names=names) for batch in batches)
    first = next(named, None)
    if first is not None:
        reader = pa.RecordBatchReader.from_batches(first.schema, itertools.chain([first], named))
        yield from _partials(_engine(packed), reader, options)


def _tallied_files(
    packed: bytes, files: list[tuple[Any, str]], format: str, options: dict[str, Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    import pyarrow.dataset as ds

    firewall = _engine(packed)
    for index in itertools.chain.from_iterable(batch.column(0).to_pylist() for batch in batches):
        filesystem, file = files[index]
        dataset = ds.dataset(file, filesystem=filesystem, format=format)
        try:
            columns = {name: ds.field(*path) for name, (path, _) in _needed(firewall, dataset.schema, options).items()}
        except ColumnError as error:
            raise ColumnError(f"{file}: {error}") from None
        scanner = dataset.scanner(columns=columns, use_threads=False)
        yield from _partials(firewall, scanner.to_reader(), options)


def _tallied_nothing(
    packed: bytes, schema: pa.Schema, options: dict[str, Any], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield from _placed(_engine(packed), schema.empty_table(), options).combine_chunks().to_batches()


def _partials(firewall: Firewall, table: Any, options: dict[str, Any]) -> Iterator[pa.RecordBatch]:
    """Yields the sums of a task, without rules that it has no flow of."""
    import pyarrow.compute as pc

    sums = _placed(firewall, table, options)
    yield from sums.filter(pc.greater(sums["flows"], 0)).combine_chunks().to_batches()


def _placed(firewall: Firewall, table: Any, options: dict[str, Any]) -> pa.Table:
    import pyarrow as pa

    with warnings.catch_warnings():
        # Bad rows are counted by outcome.
        warnings.simplefilter("ignore")
        sums = pa.table(firewall.tally(table, **options))
    # Rules and default are in the same places in all tasks. Behind them are outcomes, of which a task has some.
    places = [min(place, len(firewall) + 1) for place in range(len(sums))]
    return sums.add_column(0, "place", pa.array(places, pa.int32()))


def _summed(
    spark: SparkSession, partials: DataFrame, packed: bytes, schema: pa.Schema, options: dict[str, Any]
) -> DataFrame:
    import pyspark.sql.functions as F

    # Sums beyond 2^63 - 1 stay there, as in `Firewall.tally`.
    exact = "sum(cast({0} as decimal(38,0)))"
    total = f"cast(if({exact} > {_MOST}, {_MOST}, {exact}) as bigint) as {{0}}"
    # One more task has every rule, and the default, without a flow.
    one = spark.range(0, 1, 1, 1)
    rules = one.mapInArrow(lambda batches: _tallied_nothing(packed, schema, options, batches), _PARTIAL)
    # Tasks have summed up their rows, so that one task can add and order what is left.
    every = partials.union(rules).repartition(1)
    summed = every.groupBy(*_KEYS).agg(*[F.expr(total.format(name)) for name in _SUMS])
    return summed.sortWithinPartitions("place", "outcome").drop("place")
