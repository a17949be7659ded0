"""TPC-H's queries as views, through real commits: after every refresh each is its query."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.tpch import make_tables, refresh, register
from tests.views.incremental.meanwhile import compiled_session, rounded, written_meanwhile
from tests.views.incremental.tpch import QUERIES
from tidefill import connect
from tidefill.engine.engine import Engine

ORDERS = 15
CHUNK_ROWS = 300_000  # half of the items that there are at scale 0.1: the writer changes what is half filled
SHOWN_ROWS = 3


def keep_fresh(spark: SparkSession, folder: Path, numbers: Sequence[int], scale: float, rounds: int) -> None:
    """Views over the tables, and so many refreshes of these."""
    make_tables(spark, folder, scale)
    with connect(spark, folder / "lake", folder / "store") as engine:
        register(engine, folder)
        for number in numbers:
            engine.create_view(f"q{number}", QUERIES[number], verify=False)
        engine.run_once()
        for number in range(rounds):
            refresh(spark, folder, number, ORDERS)
            engine.run_once()
            assert differences(engine, numbers) == {}


def keep_fresh_from_the_first_row(
    spark: SparkSession, folder: Path, numbers: Sequence[int], scale: float, rounds: int
) -> None:
    """The same, with views that are created and filled while somebody writes. It goes on after a difference, and notes
    how far it came: a run that was cut off has shown something, too."""
    progress = partial(note, folder / "progress.txt")
    make_tables(spark, folder, scale)
    write = partial(refresh, compiled_session(spark), folder, orders=ORDERS)
    with connect(spark, folder / "lake", folder / "store") as engine:
        register(engine, folder)
        with written_meanwhile(lambda number: write(number=number)) as written:
            for number in numbers:
                engine.create_view(f"q{number}", QUERIES[number], verify=False, chunk_rows=CHUNK_ROWS)
            progress("created")
            engine.run_once()
        first = written.result()
        progress(f"filled, during {first} refreshes")
        wrong = dict[int, dict[int, str]]()
        for done in range(rounds + 1):
            if done:
                write(number=first + done - 1)
            engine.run_once()
            wrong[done] = differences(engine, numbers)
            progress(f"round {done} of {rounds}: {wrong[done] or 'equal'}")
        assert {done: told for done, told in wrong.items() if told} == {}


def note(file: Path, line: str) -> None:
    """With the time of day."""
    with file.open("a") as lines:
        lines.write(f"{datetime.now(UTC):%H:%M:%S} {line}\n")


def differences(engine: Engine, numbers: Sequence[int]) -> dict[int, str]:
    """Of the views that are not their query, in what."""
    told = {number: difference(engine, number) for number in numbers}
    return {number: text for number, text in told.items() if text is not None}


def difference(engine: Engine, number: int) -> str | None:
    """The view is its query; of numbers with a point the last digits may differ."""
    found, wanted = engine.table(f"q{number}"), engine.query(QUERIES[number])
    if found.dtypes != wanted.dtypes:
        return f"{found.dtypes} should be {wanted.dtypes}"
    here, there = (sorted(map(rounded, frame.collect()), key=str) for frame in (found, wanted))
    if here == there:
        return None
    surplus, missing = ([row for row in one if row not in other] for one, other in ((here, there), (there, here)))
    status = engine.job(f"q{number}").status()
    return (
        f"{status.state} {status.failure or ''}: {len(here)} rows should be {len(there)}, "
        f"{len(surplus)} wrong, as {surplus[:SHOWN_ROWS]}, {len(missing)} missing, as {missing[:SHOWN_ROWS]}"
    )


@pytest.fixture
def compiled(spark: SparkSession) -> SparkSession:
    return compiled_session(spark)


@pytest.mark.full
def test_every_query_stays_fresh(compiled: SparkSession, tmp_path: Path) -> None:
    keep_fresh(compiled, tmp_path, list(QUERIES), 0.01, 1)


@pytest.mark.soak
def test_every_query_stays_fresh_for_ten_rounds(compiled: SparkSession, tmp_path: Path) -> None:
    keep_fresh_from_the_first_row(compiled, tmp_path, list(QUERIES), 0.1, 10)
