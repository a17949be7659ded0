"""Nexmark's queries are kept exact by changes, as one view and as views on views, and each has rows."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import duckdb
import pytest

from benchmarks.nexmark.queries import CHAINS, QUERIES, TABLES, reads
from tests.views.incremental import test_plants as of_rules
from tests.views.incremental.history import run, some_history_fails
from tests.views.incremental.nexmark import Above, world
from tests.views.incremental.nexmark_page import PAGE, page
from tests.views.incremental.test_plants import Plant
from tests.views.incremental.world import World, connected

SEEDS, SEEDS_MAX, STEPS = 3, 20, 6
INCREMENTAL_MIN = 23
PLANTS: dict[str, tuple[Plant, tuple[int, ...]]] = {
    "what goes is added": (of_rules._sums_without_a_sign, (4, 17)),
    "an extreme that is taken away stays": (of_rules._never_lost, (11, 17)),
    "a row does not leave its old partition": (of_rules._only_where_rows_come, (9, 11, 19)),
    "limits are those of rows that come": (of_rules._limits_of_what_comes, (3, 20)),
}


@pytest.fixture(scope="module")
def auctions() -> Iterator[duckdb.DuckDBPyConnection]:
    """A DuckDB that has Nexmark's tables."""
    with connected(TABLES.values()) as made:
        yield made


@pytest.fixture(scope="module")
def below() -> Iterator[duckdb.DuckDBPyConnection]:
    """Another one, for the view that a view reads."""
    with connected(TABLES.values()) as made:
        yield made


@pytest.mark.parametrize("number", QUERIES)
def test_a_view_is_its_query_over_what_is_covered(number: int, auctions: duckdb.DuckDBPyConnection) -> None:
    sql = QUERIES[number].sql
    try_histories(lambda chance: world(sql, chance, auctions, reads(sql)), f"query {number}")


@pytest.mark.parametrize("name", CHAINS)
def test_a_view_over_a_view_is_the_query_over_the_tables(
    name: str, auctions: duckdb.DuckDBPyConnection, below: duckdb.DuckDBPyConnection
) -> None:
    try_histories(lambda chance: Above(CHAINS[name], chance, auctions, below), name)


def try_histories(made: Callable[[random.Random], World], name: str) -> None:
    """At least three, and more until the view has rows in the end, where it is compared with the query."""
    rows = 0
    for seed in range(SEEDS_MAX):
        one = made(random.Random(f"{name} {seed}"))
        run(one, STEPS)
        rows += len(one.target)
        if seed + 1 >= SEEDS and rows:
            return
    raise AssertionError(f"{name} never has a row")


@pytest.mark.full
@pytest.mark.parametrize("plant", PLANTS)
def test_a_broken_rule_is_noticed(
    plant: str, auctions: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_in, numbers = PLANTS[plant]
    put_in(monkeypatch)
    for number in numbers:
        sql = QUERIES[number].sql
        assert some_history_fails(lambda chance: world(sql, chance, auctions, reads(sql))), f"query {number}"  # noqa: B023


def test_the_page_is_what_the_compiler_says() -> None:
    text = page()
    assert PAGE.read_text(encoding="utf-8") == text, (
        "run: .venv/bin/python -m tests.views.incremental.nexmark_page --write"
    )
    queries = [line for line in text.splitlines() if line[:3].strip("| ").isdigit() or line[:4].strip("| ").isdigit()]
    assert len(queries) == len(QUERIES) == 23
    assert sum("| incrementally: " in line for line in queries) >= INCREMENTAL_MIN
