"""Types of the compiled module; its documentation is in the objects themselves."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar, final

import pandas as pd
import polars as pl
import pyarrow as pa

__all__ = [
    "ColumnError",
    "Fault",
    "Firewall",
    "RowError",
    "RuleError",
    "Stream",
    "Table",
    "Update",
    "__version__",
    "presets",
    "read_capture",
]
__version__: str

class _ArrowStream(Protocol):
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

class _ArrowArray(Protocol):
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

class _ArrowSchema(Protocol):
    def __arrow_c_schema__(self) -> object: ...

_Table: TypeAlias = _ArrowStream | _ArrowArray
_Columns: TypeAlias = Mapping[str, str | list[str]]
_Self = TypeVar("_Self", bound=Update)

class RuleError(ValueError):
    faults: list[Fault]

class ColumnError(ValueError): ...

class RowError(ValueError):
    row: int
    column: str
    value: str

@final
class Fault:
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    @property
    def line(self) -> int: ...
    @property
    def column(self) -> int: ...
    @property
    def message(self) -> str: ...
    @property
    def help(self) -> str | None: ...
    @property
    def text(self) -> str: ...

@final
class Table:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __len__(self) -> int: ...
    @property
    def column_names(self) -> list[str]: ...
    def head(self, rows: int = 10) -> Table: ...
    def to_pydict(self) -> dict[str, list[Any]]: ...
    def to_pyarrow(self) -> pa.Table: ...
    def to_pandas(self) -> pd.DataFrame: ...
    def to_polars(self) -> pl.DataFrame: ...

@final
class Stream:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    def __arrow_c_schema__(self) -> object: ...
    @property
    def column_names(self) -> list[str]: ...
    def read_all(self) -> Table: ...

@final
class Update:
    def append(self, rule: str) -> None: ...
    def prepend(self, rule: str) -> None: ...
    def insert_before(self, next: int, rule: str) -> None: ...
    def insert_after(self, previous: int, rule: str) -> None: ...
    def replace(self, old: int, rule: str) -> None: ...
    def remove(self, rule: int) -> None: ...
    def insert_members(self, set: str, members: Sequence[str]) -> None: ...
    def remove_members(self, set: str, members: Sequence[str]) -> None: ...
    def replace_members(self, set: str, members: Sequence[str]) -> None: ...
    def commit(self) -> int: ...
    @property
    def inserted(self) -> list[int]: ...
    def __enter__(self: _Self) -> _Self: ...
    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> Literal[False]: ...

@final
class Firewall:
    @staticmethod
    def from_text(text: str, *, engine: str | None = None, memory_limit: int | None = None) -> Firewall: ...
    @staticmethod
    def from_file(
        path: str | PathLike[str], *, engine: str | None = None, memory_limit: int | None = None
    ) -> Firewall: ...
    def classify(
        self,
        table: _Table,
        *,
        columns: _Columns | None = None,
        constants: Mapping[str, object] | None = None,
        absent: Iterable[str] = (),
        preset: str | None = None,
        errors: Literal["raise", "null"] = "raise",
        strings: Literal["dictionary", "plain"] = "dictionary",
        labels: bool = False,
        swap: bool = False,
        threads: int | None = None,
    ) -> Table: ...
    def tally(
        self,
        table: _Table,
        *,
        columns: _Columns | None = None,
        constants: Mapping[str, object] | None = None,
        absent: Iterable[str] = (),
        preset: str | None = None,
        errors: Literal["raise", "null"] = "raise",
        swap: bool = False,
        threads: int | None = None,
    ) -> Table: ...
    def classify_stream(
        self,
        reader: _Table,
        *,
        columns: _Columns | None = None,
        constants: Mapping[str, object] | None = None,
        absent: Iterable[str] = (),
        preset: str | None = None,
        errors: Literal["raise", "null"] = "raise",
        strings: Literal["dictionary", "plain"] = "dictionary",
        labels: bool = False,
        swap: bool = False,
        threads: int | None = None,
    ) -> Stream: ...
    def classify_capture(self, path: str | PathLike[str], *, headers: bool = True) -> Stream: ...
    def columns_for(
        self,
        table: _Table | _ArrowSchema,
        *,
        columns: _Columns | None = None,
        constants: Mapping[str, object] | None = None,
        absent: Iterable[str] = (),
        preset: str | None = None,
        swap: bool = False,
    ) -> dict[str, list[str]]: ...
    def explain(
        self,
        *,
        src: object,
        dst: object,
        proto: object,
        sport: object | None = None,
        dport: object | None = None,
        **fields: object,
    ) -> str: ...
    def rules(self) -> Table: ...
    def check(self) -> Table: ...
    def diff(self, after: Firewall) -> Table: ...
    def members(self, set: str) -> list[str]: ...
    def update(self) -> Update: ...
    @property
    def fields(self) -> list[str]: ...
    @property
    def warnings(self) -> list[Fault]: ...
    @property
    def text(self) -> str: ...
    def __len__(self) -> int: ...

def presets() -> list[str]: ...
def read_capture(path: str | PathLike[str]) -> Stream: ...
