"""A range that is too large for a task of Spark, or for the server, is cut in two until its parts are not."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.postgres.index.harness import Indexed
from tests.postgres.index.spark_runner import round_of_now
from tests.postgres.index.test_spark_sort import ROWS, ROWS_MAX, checkpoints, folder, through, to_load
from tidefill.errors import Unavailable
from tidefill.indexes.sorting import HALVED, LOADED
from tidefill.postgres.index import copying, spark_sort

if TYPE_CHECKING:
    from tests.postgres.index.harness import Through

__all__ = ["folder", "through"]  # fixtures

Make = Callable[..., Indexed]
FITS = 6
"""How many rows of a range of ten are not too many."""


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_sort, "HALVED_ROWS_MIN", 2)


def has_room_for(index: Indexed, rows: int, state: str = "53100") -> None:
    """Have the server refuse to load more rows by one COPY."""
    entries = index.shape.entries
    index.sql(
        f"CREATE FUNCTION tidefill.fits () RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
        f"IF (SELECT count(*) FROM made) > {rows} THEN "
        f"RAISE 'could not extend file' USING ERRCODE = '{state}'; END IF; RETURN NULL; END $$"
    )
    index.sql(
        f"CREATE TRIGGER fits AFTER INSERT ON {entries} REFERENCING NEW TABLE AS made "
        f"FOR EACH STATEMENT EXECUTE FUNCTION tidefill.fits ()"
    )


def loaded(index: Indexed) -> None:
    """Take turns until all ranges are, by another runner each."""
    while not index.truth.filled.is_done:
        index.turn()
        index.restart()
    index.sql("DROP FUNCTION IF EXISTS tidefill.fits CASCADE")


@pytest.mark.full
@pytest.mark.usefixtures("small")
def test_a_range_that_the_server_has_no_room_for(indexed: Make, through: Callable[..., Through]) -> None:
    index = indexed(ROWS, chunk_rows=20, tasks=2, through=through())
    to_load(index)
    ranges = index.truth.filled.left
    has_room_for(index, FITS)
    plan = index.machine.plan(index.job, index.truth, round_of_now())
    told = index.machine.execute(index.job, index.truth, plan).events  # type: ignore[arg-type]
    assert ["a range of 10 entries was cut in two" in text and "53100" in text for text in told] == [True]
    index.restart()
    ((halved, _, first, _),) = checkpoints(index, HALVED)
    assert halved in ranges
    assert set(index.truth.filled.left) == {*ranges, first, first + 1} - {halved}
    loaded(index)
    rows = {number: rows for number, _, rows, _ in checkpoints(index, LOADED)}
    assert sum(rows.values()) == len(ROWS) == index.count()
    assert max(rows.values()) <= FITS
    assert [rows[number] for number, *_ in checkpoints(index, HALVED)] == [0] * len(checkpoints(index, HALVED))
    index.run()
    assert index.differences() == []


def ends_with_too_many(target: Any) -> Any:
    """What a worker does that the system ends because it takes too much memory."""
    load_all = copying.load_all

    def load(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa

        def counted() -> Iterator[Any]:
            for batch in batches:
                if batch.num_rows > FITS:
                    os._exit(9)
                yield batch

        for number, rows, suspects, problem in load_all(target, counted()):
            types = [("range", pa.int32()), ("rows", pa.int64()), ("suspects", pa.int64()), ("problem", pa.string())]
            made = {"range": [number], "rows": [rows], "suspects": [suspects], "problem": [problem]}
            yield pa.RecordBatch.from_pydict(made, schema=pa.schema(types))

    return load


@pytest.mark.full
@pytest.mark.usefixtures("small")
def test_a_range_that_ends_its_worker(
    indexed: Make, through: Callable[..., Through], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "loads", ends_with_too_many)
    index = indexed(ROWS[:20], chunk_rows=20, tasks=2, through=through(rows=20))
    loaded(index)
    assert len(checkpoints(index, HALVED)) == 2
    index.run()
    assert index.differences() == []


@pytest.mark.full
@pytest.mark.parametrize("state", ["53100", "08006"])
def test_what_does_not_fail_by_its_size_is_tried_again(
    indexed: Make, through: Callable[..., Through], monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """A small range, and a connection that was lost."""
    monkeypatch.setattr(spark_sort, "HALVED_ROWS_MIN", ROWS_MAX + 1 if state == "53100" else 2)
    index = indexed(ROWS[:10], through=through(rows=10))
    to_load(index)
    has_room_for(index, FITS, state)
    with pytest.raises(Unavailable) as caught:
        index.turn()
    assert state in caught.value.detail
    index.restart()
    assert checkpoints(index, HALVED) == checkpoints(index, LOADED) == []
    index.sql("DROP FUNCTION tidefill.fits CASCADE")
    index.run()
    assert index.differences() == []
