"""Several chunks at a time, each in a session of its own: crashes between them, locks, fences, and the comparison that
two sessions make in one snapshot."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Barrier
from typing import Any

import psycopg
import pytest

from tests.postgres.index.harness import PATIENCE_S, Indexed
from tidefill.errors import Fenced, Unavailable, VerifyFailed
from tidefill.indexes.leaves import CHUNKS
from tidefill.indexes.next_action import FillChunk
from tidefill.indexes.states import Method, State
from tidefill.ports.machine import Round
from tidefill.postgres.index import filling, looking, parallel
from tidefill.postgres.index.filling import PLANNED, Chunk, Loaded
from tidefill.postgres.index.session import IndexSession

Make = Callable[..., Indexed]
METHODS = pytest.mark.parametrize("method", list(Method))
RULE = pytest.mark.parametrize("holds", [True, False], ids=["rule", "without"])
ROWS = [(number, number % 4, f"v{number}") for number in range(1, 22)]


def chunks(index: Indexed, kind: str = "") -> list[tuple[Any, ...]]:
    """The numbers and ends of the chunks that were filled, or planned."""
    name = filling.checkpoints_id(index.shape, kind)
    return index.sql(f"SELECT chunk, upto FROM {CHUNKS} WHERE id = %s ORDER BY chunk", name)


@METHODS
def test_a_crash_at_any_chunk(indexed: Make, method: Method, monkeypatch: pytest.MonkeyPatch) -> None:  # C17, Y12
    """Each chunk fails at random, whether its neighbours are filled or not. All are filled once, and none twice."""
    index = indexed(ROWS, method=method, chunk_rows=2, tasks=3)
    chance, failed, one = random.Random(9), list[int](), parallel.ParallelFill._fill

    def sometimes(self: Any, session: Any, control: Any, chunk: Chunk, rows: int) -> Loaded:
        if len(failed) < 8 and chance.random() < 0.5:
            failed.append(chunk.number)
            raise Unavailable("the server went away")
        return one(self, session, control, chunk, rows)

    monkeypatch.setattr(parallel.ParallelFill, "_fill", sometimes)
    while not index.truth.filled.is_done:
        try:
            index.turn()
        except Unavailable:
            index.restart()
    assert len(failed) == 8
    assert index.truth.filled.rows == len(ROWS)
    assert chunks(index) == chunks(index, PLANNED)
    assert [number for number, _ in chunks(index)] == list(range(len(chunks(index))))
    index.run()
    assert index.differences() == []


@RULE
def test_a_chunk_that_was_left_out_is_filled(indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool) -> None:
    one = parallel.ParallelFill._fill

    def fails(self: Any, session: Any, control: Any, chunk: Chunk, rows: int) -> Loaded:
        if chunk.number == 1:
            raise Unavailable("the server went away")
        return one(self, session, control, chunk, rows)

    index = indexed(ROWS, chunk_rows=4, tasks=3)
    index.run_before(FillChunk)
    with monkeypatch.context() as patch:
        patch.setattr(parallel.ParallelFill, "_fill", fails)
        with pytest.raises(Unavailable):
            index.turn()
    assert [number for number, _ in chunks(index)] == [0, 2]
    if not holds:
        index.sql(f"INSERT INTO {CHUNKS} (id, chunk, rows) VALUES (%s, 1, 0)", index.shape.id)  # as if it were
    index.restart()
    assert index.truth.filled.left == ((1,) if holds else ())
    if holds:
        index.run()
        assert index.differences() == []
    else:
        with pytest.raises(VerifyFailed):
            index.run()


def test_chunks_are_filled_at_the_same_time(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    index, one, both = indexed(ROWS, chunk_rows=4, tasks=2), parallel.ParallelFill._fill, Barrier(2)

    def meets(self: Any, session: Any, control: Any, chunk: Chunk, rows: int) -> Loaded:
        if chunk.number < 2:
            both.wait(PATIENCE_S)
        return one(self, session, control, chunk, rows)

    monkeypatch.setattr(parallel.ParallelFill, "_fill", meets)
    index.run()
    assert index.differences() == []


def test_with_a_limit_each_chunk_waits_for_its_turn(indexed: Make) -> None:
    index = indexed(ROWS, chunk_rows=4, tasks=3, rate_limit=1000)
    assert index.machine.tasks(index.job) == 1
    index.run_to(State.MERGING)
    assert chunks(index, PLANNED) == []
    assert len(chunks(index)) == 6


@METHODS
def test_a_runner_that_was_taken_over_fills_no_chunk(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, method: Method
) -> None:
    monkeypatch.setattr(IndexSession, "end_older", lambda self: None)
    index = indexed(ROWS, method=method, chunk_rows=4, tasks=3)
    index.run_before(FillChunk)
    index.turn()
    zombie, truth, before = index.machine, index.truth, chunks(index)
    step = zombie.plan(index.job, truth, Round(0.0))
    index.restart()
    with pytest.raises(Fenced):
        zombie.execute(index.job, truth, step)  # type: ignore[arg-type]
    assert chunks(index) == before
    zombie.close()
    index.run()
    assert index.differences() == []


def test_all_sessions_of_a_runner_are_ended_when_it_is_taken_over(indexed: Make) -> None:
    index = indexed(ROWS, chunk_rows=4, tasks=3)
    index.run_before(FillChunk)
    index.turn()
    others = index.machine._parallel._others
    assert len(others) == 2
    index.restart()
    for other in others:
        with pytest.raises(psycopg.errors.AdminShutdown):
            other._open.execute("SELECT 1")  # type: ignore[union-attr]


def test_the_sessions_end_with_the_machine(indexed: Make) -> None:
    index = indexed(ROWS, chunk_rows=4, tasks=3)
    index.run_before(FillChunk)
    index.turn()
    index.machine.close()
    query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    index.until(lambda: index.sql(query, index.session.application) == [(0,)])


@RULE
def test_base_and_entries_are_compared_in_one_snapshot(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, holds: bool
) -> None:
    index = indexed(ROWS)
    index.run()
    one = looking._entry_sums

    def after_a_write(session: IndexSession, snapshot: str) -> Any:
        index.sql("INSERT INTO {t} (id, r, v) VALUES (99, 1, 'late')")
        later = index.begin("REPEATABLE READ").execute("SELECT pg_export_snapshot()").fetchone()
        assert later is not None
        return one(session, snapshot if holds else later[0])

    monkeypatch.setattr(looking, "_entry_sums", after_a_write)
    if holds:
        assert looking.validated(index.session) == len(ROWS)
        return
    with pytest.raises(VerifyFailed):
        looking.validated(index.session)
