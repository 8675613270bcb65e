"""Tables as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from . import Table

ROWS = 10
WIDTH = 60


def _cell(value: object) -> str:
    text = "null" if value is None else str(value)
    return text if len(text) <= WIDTH else text[: WIDTH - 1] + "…"


def table(of: Table) -> str:
    """Returns the first rows of a table, aligned, and how many there are."""
    columns = [[name, *map(_cell, values)] for name, values in of.head(ROWS).to_pydict().items()]
    widths = [max(map(len, column)) for column in columns]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in zip(*columns)]
    rows = f"{len(of)} row" + ("" if len(of) == 1 else "s")
    more = f", {ROWS} of them shown" if len(of) > ROWS else ""
    return "\n".join([*lines, f"({rows}{more})"])
