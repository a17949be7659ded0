"""The texts of TPC-DS are kept exact by changes, and each has rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import duckdb
import pytest

from benchmarks.tpcds.queries import QUERIES
from tests.views.incremental.history import run
from tests.views.incremental.tpcds import TpcdsWorld, beginnings, connected_to_tpcds
from tests.views.incremental.tpcds_page import PAGE, page

HISTORIES, HISTORIES_MAX, SEEDS_MAX, STEPS = 2, 6, 400, 4
FIRST_ROWS = 2  # of every other history, as LIMIT 100 takes all of so few rows
INCREMENTAL_MIN = 98
ALWAYS = ("1", "3", "6", "9", "13", "32", "41", "44", "51", "97")
"""Of many forms, and quick."""
OF_FLOATS = ("17", "39a", "39b")
REFUSED = ("14b", "17", "39a", "39b", "64")
"""14b and 64 only because two of their columns have one name."""


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that has the tables of TPC-DS."""
    with connected_to_tpcds() as made:
        yield made


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.full) for name in QUERIES if name not in OF_FLOATS],
)
def test_a_view_is_its_query_over_what_is_covered(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    has_rows = False
    for tried, seed in enumerate(itertools.islice(beginnings(name, connection, range(SEEDS_MAX)), HISTORIES_MAX)):
        if tried < HISTORIES or not has_rows:
            world = TpcdsWorld(name, seed, connection, FIRST_ROWS if tried % 2 else 0)
            run(world, STEPS if tried else 1)
            has_rows |= world.had_rows
    assert has_rows, f"query {name} never has a row"


@pytest.mark.full
def test_the_page_is_what_the_compiler_says() -> None:
    text = page()
    assert PAGE.read_text(encoding="utf-8") == text, (
        "run: .venv/bin/python -m tests.views.incremental.tpcds_page --write"
    )
    lines = [line for line in text.splitlines() if line.startswith("| ")][1:]
    assert len(lines) == len(QUERIES) == 103
    assert sum("| incrementally: " in line for line in lines) >= INCREMENTAL_MIN
    assert [line.split(" | ")[0].strip("| ") for line in lines if "| refused: " in line] == list(REFUSED)
