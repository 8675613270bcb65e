"""Rules and flows that firstmatch's program makes, with its own answers to them."""

import csv
import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

PROGRAM = Path(os.environ.get("PROGRAM", "firstmatch"))
ROWS = int(os.environ.get("ROWS", "1000000"))


def run(*arguments: object, into: Path | None = None) -> str:
    """Runs the program, whose output goes into a file or is returned."""
    command = [str(PROGRAM), *map(str, arguments)]
    if into is None:
        return subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    with into.open("w") as file:
        subprocess.run(command, check=True, stdout=file, stderr=subprocess.DEVNULL)
    return ""


@dataclass(frozen=True)
class Case:
    """Rules, flows, and what the program says of them."""

    rules: Path
    flows: pa.Table
    lines: list[int | None]
    verdicts: list[str]
    outcomes: list[str]
    # Packets by line.
    hits: dict[int, int]


def case(folder: Path, family: str, rules: int, rows: int) -> Case:
    """Makes a case. The program reads the flows from CSV, the package from Arrow."""
    path, trace, answers = folder / "r.rules", folder / "t.csv", folder / "a.csv"
    run("generate", "rules", "--family", family, "--rules", rules, "--format", "native", into=path)
    run("generate", "trace", path, "--headers", rows, "--zipf", 1, "--unmatched", 0.1, "--format", "table", into=trace)
    summary = json.loads(run("classify", path, trace, "--csv", answers, "--json"))
    with answers.open() as file:
        found = [(row["line"], row["verdict"], row["outcome"]) for row in csv.DictReader(file)]
    return Case(
        path,
        pa.csv.read_csv(trace).combine_chunks(),
        [int(line) if line else None for line, _, _ in found],
        [verdict for _, verdict, _ in found],
        [outcome for _, _, outcome in found],
        {hit["line"]: hit["packets"] for hit in summary["rule_hits"]},
    )


@pytest.fixture(scope="session")
def large(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A million flows of both families and 1,000 rules."""
    return case(tmp_path_factory.mktemp("large"), "inet", 1000, ROWS)


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """Some thousand flows of both families, to try in every form."""
    return case(tmp_path_factory.mktemp("small"), "inet", 200, 5000)
