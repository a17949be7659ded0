"""TPC-H's queries as views, through real commits: after every refresh each is its query."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.tpch import KEYS, make_tables, refresh, register
from tests.incremental.tpch import QUERIES
from tests.quick_spark import COMPILED
from tidefill import connect
from tidefill.engine import Engine

ORDERS = 15


def keep_fresh(
    spark: SparkSession,
    folder: Path,
    numbers: Sequence[int],
    scale: float,
    rounds: int,
    tables: Sequence[str] = tuple(KEYS),
) -> None:
    """Views over the tables, and so many refreshes of these."""
    make_tables(spark, folder, scale, tables)
    with connect(spark, folder / "lake", folder / "store") as engine:
        register(engine, folder, tables)
        for number in numbers:
            engine.create_view(f"q{number}", QUERIES[number], verify=False)
        engine.run_once()
        for number in range(rounds):
            refresh(spark, folder, number, ORDERS)
            engine.run_once()
            for query in numbers:
                assert_equal(engine, query)


def assert_equal(engine: Engine, number: int) -> None:
    """The view is its query; of numbers with a point the last digits may differ."""
    found, wanted = engine.table(f"q{number}"), engine.query(QUERIES[number])
    assert found.dtypes == wanted.dtypes, f"query {number}"
    rows = [sorted(map(rounded, frame.collect()), key=str) for frame in (found, wanted)]
    assert rows[0] == rows[1], f"query {number}"


def rounded(row: Sequence[object]) -> tuple[object, ...]:
    """Floats to nine digits."""
    return tuple(float(f"{value:.9g}") if isinstance(value, float) else value for value in row)


@pytest.fixture
def compiled(spark: SparkSession) -> SparkSession:
    """Here are enough rows for programs of their own."""
    session = spark.newSession()
    session.conf.set(*COMPILED)
    return session


@pytest.mark.soak
def test_a_query_over_three_tables_stays_fresh(compiled: SparkSession, tmp_path: Path) -> None:
    keep_fresh(compiled, tmp_path, [3], 0.01, 1, ["customer", "orders", "lineitem"])


@pytest.mark.soak
def test_every_query_stays_fresh(compiled: SparkSession, tmp_path: Path) -> None:
    keep_fresh(compiled, tmp_path, list(QUERIES), 0.01, 1)


@pytest.mark.soak
def test_every_query_stays_fresh_for_ten_rounds(compiled: SparkSession, tmp_path: Path) -> None:
    keep_fresh(compiled, tmp_path, list(QUERIES), 0.1, 10)
