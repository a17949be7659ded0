"""Several chunks at a time, each in a session of its own: crashes between them, locks, fences, and the comparison that
two sessions make in one snapshot."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from threading import Barrier
from typing import Any

import psycopg
import pytest

from tests.postgres.index.harness import PATIENCE_S, Indexed
from tidefill.errors import DuplicateKeys, Fenced, NotYet, Unavailable, VerifyFailed
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


def test_a_table_that_is_renamed_is_read_by_all_sessions(indexed: Make) -> None:
    index = indexed(ROWS, chunk_rows=4, tasks=2)
    index.run_before(FillChunk)
    index.turn()
    index.sql("ALTER TABLE {t} RENAME TO {t}_b")
    index.name += "_b"
    index.run()
    assert index.differences() == []


def test_a_planned_chunk_is_put_whole_though_batches_are_smaller_by_now(
    indexed: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks of four rows are planned; then one row at a time is asked for, and a writer holds the first one's key."""
    index, one = indexed(ROWS, method=Method.INITPUT, chunk_rows=4, tasks=2), parallel.ParallelFill._fill
    monkeypatch.setattr(filling, "BATCH_LOCK_MS", 10)
    index.run_before(FillChunk)

    def fails(self: Any, session: Any, control: Any, chunk: Chunk, rows: int) -> Loaded:
        raise Unavailable("the server went away")

    monkeypatch.setattr(parallel.ParallelFill, "_fill", fails)
    with pytest.raises(Unavailable):
        index.turn()
    monkeypatch.setattr(parallel.ParallelFill, "_fill", one)
    index.settings = replace(index.settings, chunk_rows=1, parallelism=1)
    index.restart()
    assert index.truth.filled.left == (0, 1), "none is filled"
    writer = index.begin()
    index.by(writer, "UPDATE {t} SET v = 'other' WHERE id = 1")
    with index.meanwhile(index.turn, writer.info.backend_pid):
        index.until(lambda: index.sql("SELECT 1 FROM pg_locks WHERE NOT granted AND locktype = 'transactionid'"))
        writer.execute("ROLLBACK")
    assert filling.filled(index.session).left == (1,)
    assert index.count() == 4
    index.run()
    assert index.differences() == []


@pytest.mark.parametrize("is_sorted", [True, False])
def test_equal_keys_in_two_chunks_that_are_put_at_once(
    indexed: Make, monkeypatch: pytest.MonkeyPatch, is_sorted: bool
) -> None:
    """Each session meets keys of the other, in the other's order if batches are not sorted. Both go on until one is a
    duplicate for sure, and the report has all of them."""
    keys = [f"v{number:03}" for number in range(300)]
    rows = [(at, at % 4, key) for at, key in enumerate([*keys, *keys[100:][::-1]], 1)]
    index, one, both = indexed(rows, method=Method.INITPUT, chunk_rows=300, tasks=2), filling.put_chunk, Barrier(2)
    index.machine._parallel.is_sorted = is_sorted

    def meets(*words: Any, **more: Any) -> Loaded:
        both.wait(PATIENCE_S)
        return one(*words, **more)

    index.run_before(FillChunk)
    with monkeypatch.context() as patch:
        patch.setattr("tidefill.postgres.index.parallel.put_chunk", meets)
        with pytest.raises((DuplicateKeys, NotYet)) as caught:
            index.turn()
    if not isinstance(caught.value, DuplicateKeys):
        index.truth = index.machine.recover(index.job, None).truth
        with pytest.raises(DuplicateKeys) as caught:
            index.run()
    assert "200 keys" in caught.value.fact
    assert index.sql("SELECT report->>'total' FROM tidefill.indexes") == [("200",)]
    index.machine.abandon(index.job, caught.value)
    index.sql("DELETE FROM {t} WHERE id > 300")
    index.restart()
    index.run()
    assert index.differences() == []


def test_equal_keys_of_rows_that_go_are_no_duplicates(indexed: Make, monkeypatch: pytest.MonkeyPatch) -> None:  # C4, Y8
    """The row of the first chunk goes when both have read: whoever comes second finds a tombstone, or takes over."""
    rows = [(1, 0, "a"), (2, 1, "b"), (3, 2, "a"), (4, 3, "c")]
    index, one, both = indexed(rows, method=Method.INITPUT, chunk_rows=2, tasks=2), filling._put_if_absent, Barrier(3)

    def meets(shape: Any, is_sorted: bool) -> str:
        both.wait(PATIENCE_S)
        both.wait(PATIENCE_S)
        return one(shape, is_sorted)

    index.run_before(FillChunk)
    with monkeypatch.context() as patch:
        patch.setattr(filling, "_put_if_absent", meets)
        with index.meanwhile(index.turn) as said:
            both.wait(PATIENCE_S)
            index.sql("DELETE FROM {t} WHERE id = 1")
            patch.setattr(filling, "_put_if_absent", one)
            both.wait(PATIENCE_S)
    assert not isinstance(said[0], Exception), said
    index.run()
    assert index.differences() == []
    assert index.writes("INSERT INTO {t} (id, r, v) VALUES (9, 1, 'a')") == "23505"


def test_with_a_limit_each_chunk_waits_for_its_turn(indexed: Make) -> None:  # Y11
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
